/* The matrix kit for AVX2: F16C for widening, sixteen rows by six columns of D in registers. */
#include "mma_kit.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

static void avx2_widen(float *to, const uint16_t *from, int32_t count, bool bf16) {
    if (bf16) {
        kit_widen(to, from, count, true);
        return;
    }
    for (int32_t i = 0; i < count; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
}

static __m256 widen8(__m128i h, bool bf16) {
    return bf16 ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16)) : _mm256_cvtph_ps(h);
}

static void avx2_rows(float *to, const uint8_t *bytes, uint32_t first, uint32_t span, uint32_t mask, bool bf16) {
    for (int32_t r = 0; r < 8; r++, first += span, to += EMU_MMA_K) {
        _mm256_storeu_ps(to, widen8(_mm_loadu_si128((const __m128i *)(const void *)(bytes + emu_swizzled(first, mask))), bf16));
        _mm256_storeu_ps(to + 8, widen8(_mm_loadu_si128((const __m128i *)(const void *)(bytes + emu_swizzled(first + 16, mask))), bf16));
    }
}

static void avx2_split(float *low, float *high, const uint32_t *words, int32_t count, bool bf16) {
    const __m128i half = _mm_set1_epi32(0xffff);
    for (int32_t i = 0; i < count; i += 8) {
        __m256i w = _mm256_loadu_si256((const __m256i *)(words + i));
        if (bf16) {
            _mm256_storeu_ps(low + i, _mm256_castsi256_ps(_mm256_slli_epi32(w, 16)));
            _mm256_storeu_ps(high + i, _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int32_t)0xffff0000))));
            continue;
        }
        __m128i a = _mm256_castsi256_si128(w), b = _mm256_extracti128_si256(w, 1);
        _mm256_storeu_ps(low + i, _mm256_cvtph_ps(_mm_packus_epi32(_mm_and_si128(a, half), _mm_and_si128(b, half))));
        _mm256_storeu_ps(high + i, _mm256_cvtph_ps(_mm_packus_epi32(_mm_srli_epi32(a, 16), _mm_srli_epi32(b, 16))));
    }
}

static inline __attribute__((always_inline)) void avx2_block(const emu_product *p, int32_t m, int32_t n, int columns) {
    __m256 s[6][2];
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < 2; i++) s[j][i] = p->accumulate ? _mm256_loadu_ps(p->d + (n + j) * p->d_pitch + m + 8 * i) : _mm256_setzero_ps();
    for (int32_t step = 0; step < p->depth; step++) {
        const float *a = p->a + step * EMU_PANEL_A + emu_panel_a(m, 0), *b = p->b + step * EMU_PANEL_B + n * EMU_MMA_K;
#pragma GCC unroll 16
        for (int k = 0; k < EMU_MMA_K; k++) {
            __m256 a0 = _mm256_loadu_ps(a + k * EMU_MMA_ROWS), a1 = _mm256_loadu_ps(a + k * EMU_MMA_ROWS + 8);
            for (int j = 0; j < columns; j++) {
                __m256 x = _mm256_broadcast_ss(b + j * EMU_MMA_K + k);
                s[j][0] = _mm256_fmadd_ps(a0, x, s[j][0]);
                s[j][1] = _mm256_fmadd_ps(a1, x, s[j][1]);
            }
        }
    }
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < 2; i++) _mm256_storeu_ps(p->d + (n + j) * p->d_pitch + m + 8 * i, s[j][i]);
}

static void avx2_product(const emu_product *p) {
    for (int32_t m = 0; m < p->m; m += 16) {
        int32_t n = 0;
        for (; n + 12 <= p->n; n += 12) avx2_block(p, m, n, 6), avx2_block(p, m, n + 6, 6);
        for (; n < p->n; n += 4) avx2_block(p, m, n, 4);
    }
}

const emu_mma_kit emu_mma_avx2 = {"avx2", avx2_widen, avx2_rows, avx2_split, kit_transpose, avx2_product};
#else
const emu_mma_kit emu_mma_avx2 = {"portable", kit_widen, kit_rows, kit_split, kit_transpose, kit_product};
#endif
