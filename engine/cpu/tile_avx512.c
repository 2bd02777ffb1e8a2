/* The AVX-512 path: F, BW, DQ and VL. */
#if defined(__x86_64__)
#include "cpu/vector_avx512.h"

#define V_HAS_DOT2    0
#define KERNEL_NAME   "avx512"
#define KERNEL_SYMBOL cpu_kernel_avx512

static inline vf v_dot2(vf a, vf b, vf c) {
    return v_fma(a, b, c);
}
static inline void v_store_pairs(void *p, vf x) {
    (void)p, (void)x; // Unused without pairs.
}

#include "cpu/tile_template.h"
#endif
