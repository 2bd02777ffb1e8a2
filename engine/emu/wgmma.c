/*
 * wgmma (ISA 9.7.15). A warp computes its own sixteen rows: row 16w + lane / 4 (+ 8), so the four warps of a warpgroup need not meet. The
 * product takes effect at the latest legal moment, wait_group, or when a group is committed and the schedule does not delay it.
 */
#include "emu_internal.h"

enum { ROWS = 16 };

emu_step emu_do_wgmma_fence(emu_warp *w, const emu_op *op, uint32_t mask) {
    return emu_need_all(w, op, mask);
}

emu_step emu_do_wgmma_mma(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    if (mask != ~0u) return emu_fault(w, -1, EMU_DIVERGENCE, op, "wgmma needs all 32 lanes of the warp");
    if (w->wgmma_count == EMU_WGMMA_MAX) return emu_fault(w, -1, EMU_LIMIT, op, "more than %d wgmma in flight", EMU_WGMMA_MAX);
    uint64_t b = emu_get(w, op->more->slots[1], true, 0), a = op->extra & 1 ? 0 : emu_get(w, op->more->slots[0], true, 0);
    emu_matrix matrix;
    const char *why = emu_matrix_decode_wgmma(b, &matrix);
    if (why == NULL && !(op->extra & 1)) why = emu_matrix_decode_wgmma(a, &matrix);
    if (why) return emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "wgmma descriptor: %s", why);
    emu_wgmma *g = &w->wgmmas[w->wgmma_count++];
    g->op = op, g->a = a, g->b = b, g->group = w->wgmma_group, g->accumulate = emu_pred(w, op->s) & 1;
    for (uint32_t i = 0; i < op->more->count2; i++) memcpy(g->fragment[i], emu_lanes(w, op->more->list2[i]), sizeof g->fragment[i]);
    return EMU_NEXT;
}

/* D element (row, column) of this warp's sixteen rows <-> register i of a lane. */
static uint32_t row_of(uint32_t lane, uint32_t i) {
    return lane / 4 + 8 * (i >> 1 & 1);
}
static uint32_t column_of(uint32_t lane, uint32_t i) {
    return 8 * (i >> 2) + 2 * (lane % 4) + (i & 1);
}

static uint32_t register_word(emu_warp *w, const emu_op *op, uint32_t i, uint32_t lane) {
    uint32_t word = emu_lanes(w, op->list[op->bits == 32 ? i : i / 2])[lane];
    return op->bits == 32 ? word : word >> (16 * (i % 2)) & 0xffff;
}

static void gather_d(emu_warp *w, const emu_op *op, float *d) {
    for (uint32_t i = 0; i < (uint32_t)op->value / 2; i++)
        for (uint32_t lane = 0; lane < EMU_LANES; lane++) {
            uint32_t word = register_word(w, op, i, lane);
            d[column_of(lane, i) * ROWS + row_of(lane, i)] = op->bits == 32 ? emu_float(word) : (float)emu_widen(word, EMU_F16);
        }
}

static void scatter_d(emu_warp *w, const emu_op *op, const float *d) {
    for (uint32_t i = 0; i < (uint32_t)op->value / 2; i++)
        for (uint32_t lane = 0; lane < EMU_LANES; lane++) {
            float v = d[column_of(lane, i) * ROWS + row_of(lane, i)];
            if (op->bits == 32) {
                emu_lanes(w, op->list[i])[lane] = emu_float_bits(v);
                continue;
            }
            uint32_t *word = &emu_lanes(w, op->list[i / 2])[lane], half = (uint32_t)emu_narrow((double)v, EMU_F16, EMU_RN, false);
            *word = i % 2 ? (*word & 0xffff) | half << 16 : (*word & 0xffff0000u) | half;
        }
}

static void report_fault(emu_warp *w, const emu_op *op, const char *which, const emu_fetch_fault *fault) {
    char name[96];
    if (fault->kind == 0 || (fault->kind == 2 && !w->cta->machine->checked)) return;
    emu_fault(w, -1, fault->kind == 1 ? EMU_OUT_OF_BOUNDS : EMU_UNINITIALISED, op, "wgmma reads %s from shared memory %s: %s", which,
              fault->kind == 1 ? "out of bounds" : "that nothing has written", emu_shared_name(w->cta, fault->address, name, sizeof name));
}

/* How far row mn (a multiple of 16) lies from row 0, before the swizzle. */
static uint32_t offset_of_rows(const emu_matrix *x, bool transpose, uint32_t mn) {
    uint32_t wide = (uint32_t)x->swizzle / 2;
    if (!transpose || wide == 0) return mn / 8 * x->stride;
    return mn / wide * x->leading + mn % wide * 2;
}

/* A of this warp: rows 16 * (w % 4) .. + 15 of the tile in shared memory, or its own fragment. */
static void load_a(emu_warp *w, const emu_wgmma *g, float *panel) {
    const emu_op *op = g->op;
    emu_cta *cta = w->cta;
    emu_fetch_fault fault = {0};
    if (op->extra & 1) {
        for (uint32_t e = 0; e < 8; e++)
            for (uint32_t lane = 0; lane < EMU_LANES; lane++) {
                uint32_t row = lane / 4 + 8 * (e >> 1 & 1), k = 2 * (lane % 4) + (e & 1) + 8 * (e >> 2);
                uint32_t word = g->fragment[e / 2][lane] >> (16 * (e & 1)) & 0xffff;
                panel[emu_panel_a((int32_t)row, (int32_t)k)] = (float)emu_widen(word, op->is_signed ? EMU_BF16 : EMU_F16);
            }
    } else {
        emu_matrix matrix;
        bool transpose = op->extra >> 3 & 1;
        emu_shared_view view = {cta->shared, EMU_SHARED_BASE, cta->shared_end, cta->written};
        emu_matrix_decode_wgmma(g->a, &matrix);
        matrix.start += offset_of_rows(&matrix, transpose, ROWS * ((uint32_t)w->index % 4));
        emu_matrix_fetch(cta->machine->mma, &view, &matrix, transpose, op->is_signed, ROWS, true, panel, &fault);
        report_fault(w, op, "A", &fault);
    }
    if (op->extra & 2) emu_panel_negate(panel, EMU_PANEL_A);
}

static void load_b(emu_warp *w, const emu_wgmma *g) {
    emu_cta *cta = w->cta;
    const emu_op *op = g->op;
    emu_matrix matrix;
    emu_fetch_fault fault = {0};
    emu_shared_view view = {cta->shared, EMU_SHARED_BASE, cta->shared_end, cta->written};
    emu_matrix_decode_wgmma(g->b, &matrix);
    emu_matrix_fetch(cta->machine->mma, &view, &matrix, op->extra >> 4 & 1, op->is_signed, (int32_t)op->value, false, cta->panel_b, &fault);
    report_fault(w, op, "B", &fault);
    if (op->extra & 4) emu_panel_negate(cta->panel_b, EMU_PANEL_B);
}

static bool same_accumulator(const emu_op *a, const emu_op *b) {
    return a->count == b->count && a->bits == b->bits && memcmp(a->list, b->list, a->count * sizeof *a->list) == 0;
}

/* Executes in order all that belong to groups below `groups`; a chain on one accumulator is gathered and scattered once. */
void emu_wgmma_finish(emu_warp *w, uint32_t groups) {
    int32_t done = 0;
    emu_cta *cta = w->cta;
    float *d = cta->wgmma_d;
    int64_t before = emu_clock_ns();
    while (done < w->wgmma_count && w->wgmmas[done].group < groups) {
        const emu_op *first = w->wgmmas[done].op;
        bool loaded = false;
        for (; done < w->wgmma_count && w->wgmmas[done].group < groups && same_accumulator(first, w->wgmmas[done].op); done++) {
            const emu_wgmma *g = &w->wgmmas[done];
            if (g->accumulate && !loaded) gather_d(w, first, d);
            loaded = true;
            load_a(w, g, cta->panel_a);
            load_b(w, g);
            emu_product p = {cta->panel_a, cta->panel_b, d, ROWS, ROWS, (int32_t)g->op->value, 1, g->accumulate};
            cta->machine->mma->product(&p);
            cta->mmas++;
            cta->mma_flops += 2ll * ROWS * p.n * EMU_MMA_K;
        }
        scatter_d(w, first, d);
    }
    memmove(w->wgmmas, w->wgmmas + done, (size_t)(w->wgmma_count - done) * sizeof *w->wgmmas);
    w->wgmma_count -= done;
    cta->mma_ns += emu_clock_ns() - before;
    if (done > 0) cta->changes++;
}

emu_step emu_do_wgmma_commit(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    w->wgmma_group++;
    if (emu_delay(w->cta, EMU_UNIT_TENSOR) == 0) emu_wgmma_finish(w, w->wgmma_group);
    return EMU_NEXT;
}

emu_step emu_do_wgmma_wait(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    uint32_t pending = (uint32_t)op->value;
    if (w->wgmma_group > pending) emu_wgmma_finish(w, w->wgmma_group - pending);
    return EMU_NEXT;
}
