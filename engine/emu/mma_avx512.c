/* The matrix kit for AVX-512: 64 rows by six columns of D in 24 registers over all of k; 16 x 16 transposes by shuffles. */
#include "mma_kit.h"

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>

static __m512 widen16(__m256i h, bool bf16) {
    if (bf16) return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
    return _mm512_cvtph_ps(h);
}

static void avx512_widen(float *to, const uint16_t *from, int32_t count, bool bf16) {
    int32_t i = 0;
    for (; i + 16 <= count; i += 16) _mm512_storeu_ps(to + i, widen16(_mm256_loadu_si256((const __m256i *)(from + i)), bf16));
    if (i < count) kit_widen(to + i, from + i, count - i, bf16);
}

static void avx512_rows(float *to, const uint8_t *bytes, uint32_t first, uint32_t span, uint32_t mask, bool bf16) {
    for (int32_t r = 0; r < 8; r++, first += span, to += EMU_MMA_K) {
        __m128i low = _mm_loadu_si128((const __m128i *)(const void *)(bytes + emu_swizzled(first, mask)));
        __m128i high = _mm_loadu_si128((const __m128i *)(const void *)(bytes + emu_swizzled(first + 16, mask)));
        _mm512_storeu_ps(to, widen16(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1), bf16));
    }
}

static void avx512_split(float *low, float *high, const uint32_t *words, int32_t count, bool bf16) {
    for (int32_t i = 0; i < count; i += 16) {
        __m512i w = _mm512_loadu_si512(words + i);
        _mm512_storeu_ps(low + i, widen16(_mm512_cvtepi32_epi16(w), bf16));
        _mm512_storeu_ps(high + i, widen16(_mm512_cvtepi32_epi16(_mm512_srli_epi32(w, 16)), bf16));
    }
}

static void avx512_transpose(float *to, int32_t pitch, const float *rows) {
    __m512 r[16], t[16];
    for (int i = 0; i < 16; i++) r[i] = _mm512_loadu_ps(rows + 16 * i);
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
        r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        _mm512_storeu_ps(to + i * pitch, _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88));
        _mm512_storeu_ps(to + (i + 8) * pitch, _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd));
        _mm512_storeu_ps(to + (i + 4) * pitch, _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88));
        _mm512_storeu_ps(to + (i + 12) * pitch, _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd));
    }
}

static inline __attribute__((always_inline)) void block(const emu_product *p, int32_t m, int32_t n, int vectors, int columns) {
    __m512 s[8][4];
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < vectors; i++)
            s[j][i] = p->accumulate ? _mm512_loadu_ps(p->d + (n + j) * p->d_pitch + m + 16 * i) : _mm512_setzero_ps();
    for (int32_t step = 0; step < p->depth; step++) {
        const float *a = p->a + step * EMU_PANEL_A + emu_panel_a(m, 0), *b = p->b + step * EMU_PANEL_B + n * EMU_MMA_K;
#pragma GCC unroll 16
        for (int k = 0; k < EMU_MMA_K; k++) {
            __m512 x[4];
            for (int i = 0; i < vectors; i++) x[i] = _mm512_loadu_ps(a + k * EMU_MMA_ROWS + 16 * i);
            for (int j = 0; j < columns; j++) {
                __m512 y = _mm512_set1_ps(b[j * EMU_MMA_K + k]);
                for (int i = 0; i < vectors; i++) s[j][i] = _mm512_fmadd_ps(x[i], y, s[j][i]);
            }
        }
    }
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < vectors; i++) _mm512_storeu_ps(p->d + (n + j) * p->d_pitch + m + 16 * i, s[j][i]);
}

static void avx512_product(const emu_product *p) {
    int32_t m = 0;
    for (; m + 64 <= p->m; m += 64) {
        int32_t n = 0;
        for (; n + 12 <= p->n; n += 12) block(p, m, n, 4, 6), block(p, m, n + 6, 4, 6);
        for (; n < p->n; n += 4) block(p, m, n, 4, 4);
    }
    for (; m < p->m; m += 16)
        for (int32_t n = 0; n < p->n; n += 8) block(p, m, n, 1, 8);
}

const emu_mma_kit emu_mma_avx512 = {"avx512", avx512_widen, avx512_rows, avx512_split, avx512_transpose, avx512_product};
#else
const emu_mma_kit emu_mma_avx512 = {"portable", kit_widen, kit_rows, kit_split, kit_transpose, kit_product};
#endif
