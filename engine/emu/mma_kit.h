/* The matrix kit in plain C: included by one file per instruction set, so that the compiler vectorises the same loops for each. */
#include "emu_mma.h"
#include "core/half.h"

#include <string.h>

static inline void kit_widen(float *to, const uint16_t *from, int32_t count, bool bf16) {
    if (bf16)
        for (int32_t i = 0; i < count; i++) to[i] = half_bf16_to_float(from[i]);
    else
        for (int32_t i = 0; i < count; i++) to[i] = half_f16_to_float(from[i]);
}

static inline void kit_rows(float *to, const uint8_t *bytes, uint32_t first, uint32_t span, uint32_t mask, bool bf16) {
    uint16_t raw[EMU_MMA_K];
    for (int32_t r = 0; r < 8; r++, first += span) {
        memcpy(raw, bytes + emu_swizzled(first, mask), 16);
        memcpy(raw + 8, bytes + emu_swizzled(first + 16, mask), 16);
        kit_widen(to + r * EMU_MMA_K, raw, EMU_MMA_K, bf16);
    }
}

static inline void kit_split(float *low, float *high, const uint32_t *words, int32_t count, bool bf16) {
    for (int32_t i = 0; i < count; i++) {
        uint16_t l = (uint16_t)words[i], h = (uint16_t)(words[i] >> 16);
        low[i] = bf16 ? half_bf16_to_float(l) : half_f16_to_float(l);
        high[i] = bf16 ? half_bf16_to_float(h) : half_f16_to_float(h);
    }
}

static inline void kit_transpose(float *to, int32_t pitch, const float *rows) {
    for (int32_t k = 0; k < 16; k++)
        for (int32_t row = 0; row < 16; row++) to[k * pitch + row] = rows[row * 16 + k];
}

/* Two columns of D at a time; the sum over k is one chain of f32 additions in rising k, as the model states. */
static inline void kit_product(const emu_product *p) {
    for (int32_t n = 0; n < p->n; n += 2)
        for (int32_t m = 0; m < p->m; m += 16) {
            float *d0 = p->d + n * p->d_pitch + m, *d1 = d0 + p->d_pitch, s0[16], s1[16];
            for (int32_t i = 0; i < 16; i++) s0[i] = p->accumulate ? d0[i] : 0, s1[i] = p->accumulate ? d1[i] : 0;
            for (int32_t k = 0; k < p->depth * EMU_MMA_K; k++) {
                int32_t step = k / EMU_MMA_K, at = k % EMU_MMA_K;
                const float *a = p->a + step * EMU_PANEL_A + emu_panel_a(m, at), *b = p->b + step * EMU_PANEL_B + n * EMU_MMA_K + at;
                float x0 = b[0], x1 = b[EMU_MMA_K];
                for (int32_t i = 0; i < 16; i++) s0[i] += a[i] * x0, s1[i] += a[i] * x1;
            }
            for (int32_t i = 0; i < 16; i++) d0[i] = s0[i], d1[i] = s1[i];
        }
}
