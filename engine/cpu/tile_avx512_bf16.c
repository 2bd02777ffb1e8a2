/* The AVX-512 path with products of bf16 pairs, used for bf16 inputs; other inputs run as on plain
 * AVX-512. */
#if defined(__x86_64__)
#include "cpu/vector_avx512.h"

#define V_HAS_DOT2    1
#define KERNEL_NAME   "avx512_bf16"
#define KERNEL_SYMBOL cpu_kernel_avx512_bf16

/* Each product is exact; subnormal bf16 inputs count as 0. */
static inline vf v_dot2(vf a, vf b, vf c) {
    return _mm512_dpbf16_ps(c, (__m512bh)_mm512_castps_si512(a), (__m512bh)_mm512_castps_si512(b));
}
/* x holds bf16 values, so no rounding is left to do. */
static inline void v_store_half(float *word, int half, vf x) {
    __m512i u = _mm512_castps_si512(x), old = _mm512_loadu_si512(word);
    u = half ? _mm512_or_si512(_mm512_and_si512(u, _mm512_set1_epi32(-65536)),
                               _mm512_and_si512(old, _mm512_set1_epi32(0xffff)))
             : _mm512_srli_epi32(u, 16);
    _mm512_storeu_si512(word, u);
}
static inline vf v_load_half(const float *word, int half) {
    __m512i u = _mm512_loadu_si512(word);
    return _mm512_castsi512_ps(half ? _mm512_and_si512(u, _mm512_set1_epi32(-65536))
                                    : _mm512_slli_epi32(u, 16));
}
/* Weights are 0 or normal, so that this instruction's loss of subnormals changes none. */
static inline void v_store_pairs(void *p, vf x) {
    _mm256_storeu_si256(p, (__m256i)_mm512_cvtneps_pbh(x));
}

#include "cpu/tile_template.h"
#endif
