/* Sixteen floats at a time: the vocabulary of both AVX-512 paths, all but pairs of bf16. */
#ifndef FA4_CPU_VECTOR_AVX512_H
#define FA4_CPU_VECTOR_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

typedef __m512 vf;

#define V_LANES       16
#define ROW_GROUP     8
#define PANEL_VECTORS 2
#define V_TRANSPOSE   16

static inline vf v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void v_store(float *p, vf x) {
    _mm512_storeu_ps(p, x);
}
static inline vf v_set1(float x) {
    return _mm512_set1_ps(x);
}
static inline vf v_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf v_select_less(vf a, vf b, vf x, vf y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
static inline vf v_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
static inline vf v_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
static inline vf v_abs(vf x) {
    return _mm512_abs_ps(x);
}
static inline vf v_copy_sign(vf magnitude, vf sign) {
    return _mm512_or_ps(v_abs(magnitude), _mm512_and_ps(_mm512_set1_ps(-0.0f), sign));
}
static inline float v_sum(vf x) {
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 a = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
static inline float v_largest(vf x) {
    __m256 h = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 a = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
static inline vf v_keep_bits(vf x, uint32_t bits, float other) {
    return _mm512_mask_blend_ps((__mmask16)bits, _mm512_set1_ps(other), x);
}
static inline vf v_clamp_exponent(vf x) {
    return x; // The instructions below take any exponent.
}
static inline vf v_fraction(vf x) {
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); // 0 for infinities.
}
static inline vf v_scale(vf p, vf x) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ), p,
                                  x);
}
static inline vf v_load_f16(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
static inline vf v_load_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}
static inline void v_store_f16(void *p, vf x) {
    _mm256_storeu_si256(p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf v_round_f16(vf x) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf v_round_bf16(vf x) {
    __m512i u = _mm512_castps_si512(x),
            last = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(u, _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff)));
    vf rounded = _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32(-65536)));
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), rounded, x);
}
static inline void v_store_bf16(void *p, vf x) {
    __m512i u = _mm512_srli_epi32(_mm512_castps_si512(v_round_bf16(x)), 16);
    __mmask16 nan =
        _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q); // The cut payload must not leave infinity.
    u = _mm512_mask_or_epi32(u, nan, u, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(u));
}
static inline void v_transpose(const float *from, size_t from_stride, float *to, size_t to_stride,
                               int n) {
    vf a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = v_load(from + (size_t)i * from_stride);
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int i = 0; i < 4;
         i++) { // a[4 j + i]: columns i, i + 4, i + 8, i + 12 of rows 4 j .. 4 j + 3.
        b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
        b[i + 4] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
        b[i + 8] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
        b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        a[i] = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88);
        a[i + 8] = _mm512_shuffle_f32x4(b[i], b[i + 4], 0xdd);
        a[i + 4] = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0x88);
        a[i + 12] = _mm512_shuffle_f32x4(b[i + 8], b[i + 12], 0xdd);
    }
    for (int i = 0; i < n; i++)
        v_store(to + (size_t)i * to_stride, a[i]);
}

#endif
