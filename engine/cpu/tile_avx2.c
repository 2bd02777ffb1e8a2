/* The AVX2 path: eight floats at a time, FMA, and F16C for f16. */
#if defined(__x86_64__)
#include "core/half.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef __m256 vf;

#define V_LANES       8
#define ROW_GROUP     6
#define PANEL_VECTORS 2
#define V_HAS_DOT2    0
#define V_TRANSPOSE   8
#define KERNEL_NAME   "avx2"
#define KERNEL_SYMBOL cpu_kernel_avx2

static inline vf v_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void v_store(float *p, vf x) {
    _mm256_storeu_ps(p, x);
}
static inline vf v_set1(float x) {
    return _mm256_set1_ps(x);
}
static inline vf v_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf v_select_less(vf a, vf b, vf x, vf y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
static inline vf v_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
static inline vf v_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
static inline vf v_abs(vf x) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
static inline vf v_copy_sign(vf magnitude, vf sign) {
    return _mm256_or_ps(v_abs(magnitude), _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}
static inline float v_sum(vf x) {
    __m128 a = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
static inline float v_largest(vf x) {
    __m128 a = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
static inline vf v_keep_bits(vf x, uint32_t bits, float other) {
    __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i hit = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), lane), lane);
    return _mm256_blendv_ps(_mm256_set1_ps(other), x, _mm256_castsi256_ps(hit));
}
static inline vf v_clamp_exponent(vf x) {
    return _mm256_min_ps(_mm256_set1_ps(128.0f), x); // NaN in x stays.
}
static inline vf v_fraction(vf x) {
    return _mm256_sub_ps(x, _mm256_floor_ps(x));
}
static inline vf v_scale(vf p, vf x) {
    // The conversion of NaN leaves only bit 31, which the shift drops: p, then NaN too, stays.
    __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(_mm256_floor_ps(x)), 23);
    vf y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
    return _mm256_and_ps(y, _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ));
}
static inline vf v_load_f16(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}
static inline vf v_load_bf16(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
static inline void v_store_f16(void *p, vf x) {
    _mm_storeu_si128(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf v_round_f16(vf x) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline vf v_round_bf16(vf x) {
    __m256i u = _mm256_castps_si256(x),
            last = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff)));
    vf rounded = _mm256_castsi256_ps(_mm256_and_si256(up, _mm256_set1_epi32(-65536)));
    return _mm256_blendv_ps(rounded, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
static inline void v_store_bf16(void *p, vf x) {
    __m256i u = _mm256_srli_epi32(_mm256_castps_si256(v_round_bf16(x)), 16);
    __m256i quiet = _mm256_castps_si256(
        _mm256_cmp_ps(x, x, _CMP_UNORD_Q)); // The cut payload must not leave infinity.
    u = _mm256_or_si256(u, _mm256_and_si256(quiet, _mm256_set1_epi32(0x40)));
    _mm_storeu_si128(p,
                     _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1)));
}
static inline void v_transpose(const float *from, size_t from_stride, float *to, size_t to_stride,
                               int n) {
    vf a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = v_load(from + (size_t)i * from_stride);
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        b[i] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x20);
        b[i + 4] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x31);
    }
    for (int i = 0; i < n; i++)
        v_store(to + (size_t)i * to_stride, b[i]);
}

#include "cpu/vector_no_pairs.h"
#include "cpu/tile_template.h"
#endif
