/* The AVX-512 path with products of bf16 pairs, used for bf16 inputs; other inputs run as on plain AVX-512. */
#if defined(__x86_64__)
#include "cpu/vector_avx512.h"

#define V_HAS_DOT2    1
#define KERNEL_NAME   "avx512_bf16"
#define KERNEL_SYMBOL cpu_kernel_avx512_bf16

/* Each product is exact; subnormal bf16 inputs count as 0. */
static inline vf v_dot2(vf a, vf b, vf c) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}
/* Weights are 0 or normal, so that this instruction's loss of subnormals changes none. */
static inline void v_store_pairs(void *p, vf x) {
    _mm256_storeu_si256(p, (__m256i)_mm512_cvtneps_pbh(x));
}

#include "cpu/tile_template.h"
#endif
