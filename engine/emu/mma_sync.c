/*
 * mma.sync (ISA 9.7.14.5): one warp multiplies a 16 x K by a K x 8 tile held in its registers. Register r of lane 4 g + t holds e = 32 / bits
 * consecutive k from e t + 4 e c on, of row g + 8 h of A (r = h + 2 c) or of column g of B (r = c). Accumulator i is row g + 8 (i / 2), column
 * 2 t + i % 2; f16 ones lie in pairs. The model: products and their sum are exact (in f64), rounded once; integers wrap or saturate.
 */
#include "emu_internal.h"

#include <math.h>

enum { ROWS = 16, COLUMNS = 8, K_MAX = 32 };

typedef struct tile {
    double a[ROWS][K_MAX], b[COLUMNS][K_MAX], c[ROWS][COLUMNS];
} tile;

static double element(uint32_t word, int index, int type) {
    switch (type) {
    case PTX_TYPE_F16: return emu_widen(word >> (16 * index) & 0xffff, EMU_F16);
    case PTX_TYPE_BF16: return emu_widen(word >> (16 * index) & 0xffff, EMU_BF16);
    case PTX_TYPE_S8: return (double)(int8_t)(word >> (8 * index));
    default: return (double)(uint8_t)(word >> (8 * index));
    }
}

static void take_operands(emu_warp *w, const emu_op *op, tile *x) {
    const ptx_form *f = op->source->form;
    int each = ptx_type_bits(f->types[1]) == 16 ? 2 : 4, chunks = f->k / (4 * each);
    for (int lane = 0; lane < EMU_LANES; lane++) {
        int g = lane / 4, t = lane % 4;
        for (int c = 0; c < chunks; c++)
            for (int i = 0; i < each; i++) {
                int k = each * t + 4 * each * c + i;
                for (int h = 0; h < 2; h++) x->a[g + 8 * h][k] = element(emu_lanes(w, op->more->list2[h + 2 * c])[lane], i, f->types[1]);
                x->b[g][k] = element(emu_lanes(w, op->more->slots[c])[lane], i, f->types[2]);
            }
    }
}

static int accumulator(int i, int type) {
    return type == PTX_TYPE_F16 ? i / 2 : i;
}

static void take_accumulators(emu_warp *w, const emu_op *op, tile *x) {
    int type = op->source->form->types[3];
    for (int lane = 0; lane < EMU_LANES; lane++)
        for (int i = 0; i < 4; i++) {
            uint32_t word = emu_lanes(w, op->more->slots[2 + accumulator(i, type)])[lane];
            double v = type == PTX_TYPE_F16 ? element(word, i % 2, type) : type == PTX_TYPE_F32 ? (double)emu_float(word) : (double)(int32_t)word;
            x->c[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2] = v;
        }
}

static uint32_t integer_of(double v, bool saturate) {
    if (saturate) v = fmin(fmax(v, INT32_MIN), INT32_MAX);
    return (uint32_t)(uint64_t)(int64_t)v;
}

emu_step emu_do_mma_sync(emu_warp *w, const emu_op *op, uint32_t mask) {
    const ptx_form *f = op->source->form;
    emu_step step = emu_need_all(w, op, mask);
    tile x;
    if (step != EMU_NEXT) return step;
    take_operands(w, op, &x);
    take_accumulators(w, op, &x);
    for (int row = 0; row < ROWS; row++)
        for (int column = 0; column < COLUMNS; column++)
            for (int k = 0; k < f->k; k++) x.c[row][column] += x.a[row][k] * x.b[column][k];
    for (int lane = 0; lane < EMU_LANES; lane++)
        for (int i = 0; i < 4; i++) {
            double v = x.c[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
            uint32_t *word = &emu_lanes(w, op->list[accumulator(i, f->types[0])])[lane];
            if (f->types[0] == PTX_TYPE_F16) {
                uint32_t half = (uint32_t)emu_narrow(v, EMU_F16, EMU_RN, false);
                *word = i % 2 ? (*word & 0xffff) | half << 16 : half;
            } else {
                *word = f->types[0] == PTX_TYPE_F32 ? (uint32_t)emu_narrow(v, EMU_F32, EMU_RN, false) : integer_of(v, f->satfinite);
            }
        }
    return EMU_NEXT;
}
