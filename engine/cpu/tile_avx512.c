/* The AVX-512 path: F, BW, DQ and VL. */
#if defined(__x86_64__)
#include "cpu/vector_avx512.h"

#define V_HAS_DOT2    0
#define KERNEL_NAME   "avx512"
#define KERNEL_SYMBOL cpu_kernel_avx512

#include "cpu/vector_no_pairs.h"
#include "cpu/tile_template.h"
#endif
