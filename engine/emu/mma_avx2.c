/* The matrix kit for AVX2: F16C for widening, eight rows by four columns of D in registers. */
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

static void avx2_product(const emu_product *p) {
    for (int32_t n = 0; n < p->n; n += 4)
        for (int32_t m = 0; m < p->m; m += 16) {
            __m256 s[4][2];
            for (int j = 0; j < 4; j++)
                for (int i = 0; i < 2; i++)
                    s[j][i] = p->accumulate ? _mm256_loadu_ps(p->d + (n + j) * p->d_pitch + m + 8 * i) : _mm256_setzero_ps();
            for (int k = 0; k < EMU_MMA_K; k++) {
                const float *a = p->a + k * EMU_MMA_EXTENT_MAX + m;
                __m256 a0 = _mm256_loadu_ps(a), a1 = _mm256_loadu_ps(a + 8);
                for (int j = 0; j < 4; j++) {
                    __m256 b = _mm256_broadcast_ss(p->b + (n + j) * EMU_MMA_K + k);
                    s[j][0] = _mm256_fmadd_ps(a0, b, s[j][0]);
                    s[j][1] = _mm256_fmadd_ps(a1, b, s[j][1]);
                }
            }
            for (int j = 0; j < 4; j++)
                for (int i = 0; i < 2; i++) _mm256_storeu_ps(p->d + (n + j) * p->d_pitch + m + 8 * i, s[j][i]);
        }
}

const emu_mma_kit emu_mma_avx2 = {"avx2", avx2_widen, kit_split, kit_transpose, avx2_product};
#else
const emu_mma_kit emu_mma_avx2 = {"portable", kit_widen, kit_split, kit_transpose, kit_product};
#endif
