/*
 * Tensor memory and the tcgen05 instructions (ISA 9.7.16). Tensor memory lies column by column, 128 lanes each. One in-order pipe per CTA
 * executes mma and commit; ld and st take effect when the scheduler says so, no later than their wait. Warp w reaches lanes
 * 32 * (w % 4) .. + 31, whatever the address' lane field says, as shipping kernels rely on.
 */
#include "cluster_internal.h"

#include <stdio.h>
#include <stdlib.h>

static uint32_t *column_of(emu_cta *cta, uint32_t column) {
    return cta->tmem + (size_t)column * EMU_TMEM_LANES;
}

bool emu_tensor_allocated(const emu_cta *cta, uint32_t column, uint32_t count) {
    if (column >= EMU_TMEM_COLUMNS || count > EMU_TMEM_COLUMNS - column) return false;
    for (uint32_t unit = column / 32; unit <= (column + count - 1) / 32; unit++)
        if (!(cta->tmem_allocated >> unit & 1)) return false;
    return true;
}

/* ---- allocation ---- */

static bool good_size(uint32_t columns) {
    return columns >= 32 && columns <= EMU_TMEM_COLUMNS && (columns & (columns - 1)) == 0;
}

emu_step emu_do_tensor_alloc(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_cta *cta = w->cta;
    uint32_t columns = emu_lanes(w, op->b)[emu_first(mask)], address;
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    if (!good_size(columns)) return emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "tcgen05.alloc of %u columns: expected a power of two in 32..512", columns);
    if (cta->tmem_relinquished) return emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "tcgen05.alloc after relinquish_alloc_permit");
    if (!emu_shared_address(w, op, emu_address(w, op, op->a, emu_first(mask)), 4, 4, emu_first(mask), &address)) return EMU_STOP;
    uint32_t base;
    step = op->source->form->cta_group == 2 ? emu_pair_alloc(w, op, columns, &base) : emu_tensor_place(&cta, 1, columns, &base) ? EMU_NEXT : EMU_RETRY;
    if (step != EMU_NEXT) return step;
    memcpy(emu_shared_at(cta, address), &base, 4);
    emu_shared_mark(cta, address, 4);
    return EMU_NEXT;
}

static bool fits(emu_cta *const *ctas, int32_t count, uint32_t units) {
    for (int32_t i = 0; i < count; i++)
        if (ctas[i]->tmem_allocated & units) return false;
    return true;
}

bool emu_tensor_place(emu_cta *const *ctas, int32_t count, uint32_t columns, uint32_t *base) {
    uint32_t units = columns / 32, wanted = units == 16 ? 0xffff : (1u << units) - 1, at = 0;
    while (at + units <= 16 && !fits(ctas, count, wanted << at)) at++;
    if (at + units > 16) return false;
    *base = 32 * at;
    for (int32_t i = 0; i < count; i++) {
        ctas[i]->tmem_allocated |= wanted << at;
        ctas[i]->tmem_size[at] = (uint8_t)units;
        memset(ctas[i]->tmem_written[*base], 0, columns * sizeof *ctas[i]->tmem_written);
    }
    return true;
}

void emu_tensor_free(emu_cta *cta, uint32_t base) {
    uint32_t unit = base / 32;
    cta->tmem_allocated &= ~(((1u << cta->tmem_size[unit]) - 1) << unit);
    cta->tmem_size[unit] = 0;
    cta->changes++;
}

bool emu_tensor_busy(const emu_cta *cta) {
    for (int32_t i = 0; i < cta->pipe_count; i++)
        if (cta->pipe[(cta->pipe_first + i) % cta->pipe_max].kind == EMU_ASYNC_MMA) return true;
    return false;
}

emu_step emu_do_tensor_dealloc(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_cta *cta = w->cta;
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    uint32_t base = emu_lanes(w, op->a)[emu_first(mask)], columns = emu_lanes(w, op->b)[emu_first(mask)], unit = base / 32;
    if (emu_pair_done(w)) return EMU_NEXT; /* the other CTA has done it for both */
    if (base % 32 != 0 || unit >= 16 || columns == 0 || cta->tmem_size[unit] * 32u != columns)
        return emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "tcgen05.dealloc of %u columns at 0x%x, which was not allocated so", columns, base);
    if (emu_tensor_busy(cta)) return emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "tcgen05.dealloc while an mma is in flight");
    if (op->source->form->cta_group == 2) return emu_pair_dealloc(w, op, base, columns);
    emu_tensor_free(cta, base);
    return EMU_NEXT;
}

emu_step emu_do_tensor_relinquish(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_step step = emu_need_all(w, op, mask);
    if (step == EMU_NEXT) w->cta->tmem_relinquished = true;
    return step;
}

const char *emu_tensor_leak(emu_cta *cta, char *text, size_t bytes) {
    if (cta->tmem_allocated == 0) return NULL;
    snprintf(text, bytes, "the CTA ends with %d columns of tensor memory still allocated", 32 * __builtin_popcount(cta->tmem_allocated));
    return text;
}

/* ---- ld and st, shape 32x32b ---- */

static bool transfer_address(emu_warp *w, const emu_op *op, uint32_t mask, uint32_t *out) {
    uint32_t address = (uint32_t)emu_address(w, op, op->a, emu_first(mask)), lane = address >> 16, column = address & 0xffff;
    if (!emu_uniform(w, op->a, false, mask)) EMU_EACH_LANE(l, mask)
        if ((uint32_t)emu_address(w, op, op->a, (int)l) != address) {
            emu_fault(w, (int)l, EMU_TENSOR_MISUSE, op, "the lanes of a warp give different tensor memory addresses");
            return false;
        }
    uint32_t quarter = 32 * ((uint32_t)w->index % 4);
    if (lane != 0 && lane != quarter) {
        emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "tensor memory lane %u: warp %d reaches lanes %u..%u", lane, w->index, quarter, quarter + 31);
        return false;
    }
    if (!emu_tensor_allocated(w->cta, column, op->count)) {
        emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "tensor memory columns %u..%u are not allocated", column, column + op->count - 1);
        return false;
    }
    *out = column;
    return true;
}

static void perform_load(emu_warp *w, const emu_op *op, uint32_t column, uint32_t mask) {
    emu_cta *cta = w->cta;
    uint32_t quarter = (uint32_t)w->index % 4, missing = 0;
    for (uint32_t i = 0; i < op->count; i++) {
        const uint32_t *from = column_of(cta, column + i) + 32 * quarter;
        uint32_t *to = emu_lanes(w, op->list[i]);
        missing |= mask & ~cta->tmem_written[column + i][quarter];
        if (mask == ~0u) memcpy(to, from, sizeof(emu_plane));
        else EMU_EACH_LANE(lane, mask) to[lane] = from[lane];
    }
    if (missing != 0 && cta->machine->checked)
        emu_fault(w, emu_first(missing), EMU_UNINITIALISED, op, "tcgen05.ld of columns %u..%u: tensor memory that nothing has written", column, column + op->count - 1);
    EMU_EVENT(cta, w, EMU_EVENT_READ, EMU_MEMORY_TENSOR, EMU_UNIT_WARP, mask, (uint64_t)quarter << 21 | column, op->count, 0);
}

static void perform_store(emu_warp *w, const emu_op *op, uint32_t column, uint32_t mask, const uint32_t *data) {
    emu_cta *cta = w->cta;
    uint32_t quarter = (uint32_t)w->index % 4;
    for (uint32_t i = 0; i < op->count; i++) {
        const uint32_t *from = data ? data + i * EMU_LANES : emu_lanes(w, op->list[i]);
        uint32_t *to = column_of(cta, column + i) + 32 * quarter;
        if (mask == ~0u) memcpy(to, from, sizeof(emu_plane));
        else EMU_EACH_LANE(lane, mask) to[lane] = from[lane];
        cta->tmem_written[column + i][quarter] |= mask;
    }
    EMU_EVENT(cta, w, EMU_EVENT_WRITE, EMU_MEMORY_TENSOR, EMU_UNIT_WARP, mask, (uint64_t)quarter << 21 | column, op->count, 0);
}

void emu_settle_loads(emu_warp *w) {
    for (int32_t i = 0; i < w->load_count; i++) perform_load(w, w->loads[i].op, w->loads[i].address, w->loads[i].mask);
    w->load_count = 0;
}

static const uint32_t *transfer_data(const emu_warp *w, int32_t i) {
    return w->transfer_data + (size_t)i * 128 * EMU_LANES;
}

void emu_settle_stores(emu_warp *w) {
    for (int32_t i = 0; i < w->store_count; i++) perform_store(w, w->stores[i].op, w->stores[i].address, w->stores[i].mask, transfer_data(w, i));
    w->store_count = 0;
}

/* What has come due since; all loads, or all stores, together: they keep their order. */
void emu_settle_due(emu_warp *w) {
    if (w->load_count > 0 && w->loads[w->load_count - 1].due <= w->cta->time) emu_settle_loads(w);
    if (w->store_count > 0 && w->stores[w->store_count - 1].due <= w->cta->time) emu_settle_stores(w);
}

emu_step emu_do_tensor_load(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t column;
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    if (!transfer_address(w, op, mask, &column)) return EMU_STOP;
    uint64_t delay = emu_delay(w->cta, EMU_UNIT_WARP);
    if (delay == 0) {
        if (w->load_count > 0) emu_settle_loads(w);
        perform_load(w, op, column, mask);
        return EMU_NEXT;
    }
    if (w->load_count == EMU_TRANSFERS_MAX) emu_settle_loads(w);
    w->loads[w->load_count++] = (emu_transfer){.op = op, .address = column, .mask = mask, .due = w->cta->time + delay};
    return EMU_NEXT;
}

emu_step emu_do_tensor_store(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t column;
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    if (!transfer_address(w, op, mask, &column)) return EMU_STOP;
    emu_settle_loads(w); /* a store never overtakes the same warp's earlier loads */
    uint64_t delay = emu_delay(w->cta, EMU_UNIT_WARP);
    if (delay == 0 || w->transfer_data == NULL) {
        if (w->store_count > 0) emu_settle_stores(w);
        perform_store(w, op, column, mask, NULL);
        return EMU_NEXT;
    }
    if (w->store_count == EMU_TRANSFERS_MAX) emu_settle_stores(w);
    for (uint32_t i = 0; i < op->count; i++)
        memcpy(w->transfer_data + ((size_t)w->store_count * 128 + i) * EMU_LANES, emu_lanes(w, op->list[i]), sizeof(emu_plane));
    w->stores[w->store_count++] = (emu_transfer){.op = op, .address = column, .mask = mask, .due = w->cta->time + delay};
    return EMU_NEXT;
}

emu_step emu_do_tensor_wait_load(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_step step = emu_need_all(w, op, mask);
    if (step == EMU_NEXT) emu_settle_loads(w);
    return step;
}

emu_step emu_do_tensor_wait_store(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_step step = emu_need_all(w, op, mask);
    if (step == EMU_NEXT) emu_settle_stores(w);
    return step;
}

emu_step emu_do_tensor_fence(emu_warp *w, const emu_op *op, uint32_t mask) {
    return emu_do_fence(w, op, mask);
}

/* ---- mma and commit ---- */

static emu_async *push(emu_warp *w, const emu_op *op, int lane, int32_t kind) {
    emu_cta *cta = w->cta;
    if (cta->pipe_count == cta->pipe_max) {
        int32_t max = cta->pipe_max ? 2 * cta->pipe_max : 64;
        emu_async *grown = max > 65536 ? NULL : malloc((size_t)max * sizeof *grown);
        if (grown == NULL) {
            emu_fault(w, lane, EMU_LIMIT, op, "more than 65536 operations in the tensor pipe");
            return NULL;
        }
        for (int32_t i = 0; i < cta->pipe_count; i++) grown[i] = cta->pipe[(cta->pipe_first + i) % cta->pipe_max];
        free(cta->pipe);
        cta->pipe = grown, cta->pipe_max = max, cta->pipe_first = 0;
    }
    emu_async *a = &cta->pipe[(cta->pipe_first + cta->pipe_count++) % cta->pipe_max];
    memset(a, 0, sizeof *a);
    a->kind = kind, a->warp = w->index, a->lane = lane, a->op = op;
    a->from = a->to = a->signal = cta;
    a->due = cta->time + emu_delay(cta, EMU_UNIT_TENSOR);
    EMU_EVENT(cta, w, EMU_EVENT_ISSUE, EMU_MEMORY_TENSOR, EMU_UNIT_TENSOR, 1u << lane, 0, 0, kind);
    return a;
}

static bool mma_allocated(const emu_cta *cta, uint32_t d, uint32_t columns, bool a_in_tmem, uint32_t a) {
    return cta != NULL && emu_tensor_allocated(cta, d & 0xffff, columns) && (!a_in_tmem || emu_tensor_allocated(cta, a & 0xffff, 8));
}

static emu_step issue_mma(emu_warp *w, const emu_op *op, int lane) {
    const emu_more *more = op->more;
    emu_mma_shape shape;
    bool pair = op->source->form->cta_group == 2;
    const char *why = emu_mma_shape_decode(emu_lanes(w, more->slots[2])[lane], pair, &shape);
    if (why) return emu_fault(w, lane, EMU_TENSOR_MISUSE, op, "instruction descriptor 0x%08x: %s", emu_lanes(w, more->slots[2])[lane], why);
    emu_matrix a = {0}, b;
    uint64_t b_word = emu_get(w, more->slots[1], true, lane), a_word = op->extra ? 0 : emu_get(w, more->slots[0], true, lane);
    if ((why = emu_matrix_decode_tcgen05(b_word, &b)) != NULL)
        return emu_fault(w, lane, EMU_TENSOR_MISUSE, op, "descriptor of B 0x%016llx: %s", (unsigned long long)b_word, why);
    if (!op->extra && (why = emu_matrix_decode_tcgen05(a_word, &a)) != NULL)
        return emu_fault(w, lane, EMU_TENSOR_MISUSE, op, "descriptor of A 0x%016llx: %s", (unsigned long long)a_word, why);
    if (op->extra && (shape.a_transpose || shape.m != (pair ? 256 : 128)))
        return emu_fault(w, lane, EMU_TENSOR_MISUSE, op, "A in tensor memory is K-major with M 128 (256 of a pair) here");
    const emu_place *d = &more->places[0], *t = &more->places[1];
    uint32_t d_address = (uint32_t)((d->slot == EMU_NO_SLOT ? 0 : emu_get(w, d->slot, d->wide, lane)) + (uint64_t)d->offset), a_address = 0;
    if (op->extra) a_address = (uint32_t)((t->slot == EMU_NO_SLOT ? 0 : emu_get(w, t->slot, t->wide, lane)) + (uint64_t)t->offset);
    if (d_address >> 16 != 0 && !(shape.m == 64 && d_address >> 16 == 16))
        return emu_fault(w, lane, EMU_TENSOR_MISUSE, op, "D at lane %u", d_address >> 16);
    uint32_t columns = (uint32_t)(pair && shape.m == 128 ? shape.n / 2 : shape.n);
    if (!mma_allocated(w->cta, d_address, columns, op->extra, a_address) || (pair && !mma_allocated(emu_pair_peer(w->cta), d_address, columns, op->extra, a_address)))
        return emu_fault(w, lane, EMU_TENSOR_MISUSE, op, "D (columns %u..%u) or A is not in allocated tensor memory%s", d_address & 0xffff,
                         (d_address & 0xffff) + columns - 1, pair ? " of both CTAs of a pair" : "");
    emu_async *q = push(w, op, lane, EMU_ASYNC_MMA);
    if (q == NULL) return EMU_STOP;
    q->shape = shape, q->a = a, q->b = b, q->d = d_address, q->a_tmem = a_address & 0xffff;
    q->a_in_tmem = op->extra;
    q->pair = pair;
    q->accumulate = emu_pred(w, op->s) >> lane & 1;
    q->scale = (uint8_t)op->value;
    for (int i = 0; i < op->count; i++) q->disabled[i] = emu_lanes(w, op->list[i])[lane];
    return EMU_NEXT;
}

emu_step emu_do_tensor_mma(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) if (issue_mma(w, op, (int)lane) != EMU_NEXT) return EMU_STOP;
    return EMU_NEXT;
}

emu_step emu_do_tensor_commit(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) {
        uint32_t address, targets = op->source->form->multicast ? emu_lanes(w, op->e)[lane] & 0xffff : 0;
        emu_cta *signal;
        if (!emu_cluster_address(w, op, emu_address(w, op, op->a, (int)lane), 8, 8, (int)lane, &signal, &address)) return EMU_STOP;
        if (op->source->form->multicast && (targets == 0 || targets >> w->cta->cluster->size != 0))
            return emu_fault(w, (int)lane, EMU_TENSOR_MISUSE, op, "multicast mask 0x%x of a cluster of %d", targets, w->cta->cluster->size);
        emu_async *q = push(w, op, (int)lane, EMU_ASYNC_COMMIT);
        if (q == NULL) return EMU_STOP;
        q->barrier = address, q->signal = signal, q->targets = targets;
    }
    return EMU_NEXT;
}

/* ---- execution ---- */

static void operand_fault(emu_cta *cta, const emu_async *q, const char *which, const emu_fetch_fault *fault) {
    char name[96];
    if (fault->kind == 0 || (fault->kind == 2 && !cta->machine->checked)) return;
    emu_report_finding(cta, &q->from->warps[q->warp], q->lane, fault->kind == 1 ? EMU_OUT_OF_BOUNDS : EMU_UNINITIALISED, EMU_ERROR, q->op->source,
                       "the mma reads its operand %s from shared memory %s: %s", which, fault->kind == 1 ? "out of bounds" : "that nothing has written",
                       emu_shared_name(cta, fault->address, name, sizeof name));
}

static void load_a(emu_cta *cta, const emu_async *q, float *panel) {
    if (!q->a_in_tmem) {
        emu_fetch_fault fault = {0};
        emu_shared_view view = {cta->shared, EMU_SHARED_BASE, cta->shared_end, cta->written};
        emu_matrix_fetch(cta->machine->mma, &view, &q->a, q->shape.a_transpose, q->shape.a_bf16, q->shape.m, true, panel, &fault);
        operand_fault(cta, q, "A", &fault);
    } else {
        uint32_t missing = 0;
        for (uint32_t i = 0; i < EMU_MMA_K / 2; i++) {
            for (int32_t m = 0; m < EMU_TMEM_LANES; m += EMU_MMA_ROWS)
                cta->machine->mma->split(panel + emu_panel_a(m, (int32_t)(2 * i)), panel + emu_panel_a(m, (int32_t)(2 * i) + 1),
                                         column_of(cta, q->a_tmem + i) + m, EMU_MMA_ROWS, q->shape.a_bf16);
            for (int j = 0; j < 4; j++) missing |= ~cta->tmem_written[q->a_tmem + i][j];
        }
        if (missing && cta->machine->checked)
            emu_report_finding(cta, &q->from->warps[q->warp], q->lane, EMU_UNINITIALISED, EMU_ERROR, q->op->source,
                               "the mma reads A from tensor memory that nothing has written: columns %u..%u", q->a_tmem, q->a_tmem + 7);
    }
    if (q->shape.a_negate) emu_panel_negate(panel, EMU_PANEL_A);
}

void emu_tensor_load_b(emu_cta *cta, const emu_async *q, int32_t extent, float *panel) {
    emu_fetch_fault fault = {0};
    emu_shared_view view = {cta->shared, EMU_SHARED_BASE, cta->shared_end, cta->written};
    emu_matrix_fetch(cta->machine->mma, &view, &q->b, q->shape.b_transpose, q->shape.b_bf16, extent, false, panel, &fault);
    operand_fault(cta, q, "B", &fault);
    if (q->shape.b_negate) emu_panel_negate(panel, extent * EMU_MMA_K);
}

static uint32_t lane_of_row(const emu_async *q, int32_t m) {
    if (q->half) return (uint32_t)m + 64 * (q->half - 1u);
    return q->shape.m == 128 ? (uint32_t)m : (uint32_t)(m % 16 + 32 * (m / 16)) + (q->d >> 16);
}

/* D is a plain f32 tile of 64 or 128 lanes. */
static bool plain(const emu_async *q) {
    return (q->shape.m == 128 || q->half) && q->shape.d_f32 && q->scale == 0 && (q->disabled[0] | q->disabled[1] | q->disabled[2] | q->disabled[3]) == 0;
}

static void check_d(emu_cta *cta, const emu_async *q, uint32_t column) {
    static const uint32_t upper[2] = {0x0000ffff, 0xffff0000};
    uint32_t lanes = q->shape.m == 128 || q->half ? ~0u : upper[q->d >> 16 != 0], missing = 0;
    if (plain(q) && !q->half) {
        uint32_t *written = cta->tmem_written[column];
        for (int32_t i = 0; i < 4 * q->shape.n; i++) missing |= ~written[i], written[i] = ~0u;
    } else for (int32_t n = 0; n < q->shape.n; n++) {
        uint32_t *written = cta->tmem_written[column + (uint32_t)n];
        for (int j = q->half == 2 ? 2 : 0; j < (q->half == 1 ? 2 : 4); j++) {
            uint32_t mine = lanes & ~q->disabled[j];
            missing |= mine & ~written[j];
            written[j] |= mine;
        }
    }
    if (!q->accumulate) missing = 0;
    if (missing && cta->machine->checked)
        emu_report_finding(cta, &q->from->warps[q->warp], q->lane, EMU_UNINITIALISED, EMU_ERROR, q->op->source,
                           "the mma accumulates into tensor memory that nothing has written: columns %u..%u", column, column + (uint32_t)q->shape.n - 1);
}

/* The unusual forms (M 64, f16 D, scaled D, disabled lanes) go through a scratch tile [n][128]. */
static void product_scratch(emu_cta *cta, const emu_async *q, uint32_t column, const float *b) {
    float *s = cta->scratch, factor = emu_float((uint32_t)(127 - q->scale) << 23);
    for (int32_t n = 0; n < q->shape.n; n++)
        for (int32_t m = 0; m < q->shape.m; m++) {
            uint32_t word = column_of(cta, column + (uint32_t)n)[lane_of_row(q, m)];
            s[n * EMU_TMEM_LANES + m] = (q->shape.d_f32 ? emu_float(word) : (float)emu_widen(word & 0xffff, EMU_F16)) * factor;
        }
    emu_product p = {cta->panel_a, b, s, EMU_TMEM_LANES, q->shape.m, q->shape.n, 1, q->accumulate};
    cta->machine->mma->product(&p);
    for (int32_t n = 0; n < q->shape.n; n++)
        for (int32_t m = 0; m < q->shape.m; m++) {
            uint32_t lane = lane_of_row(q, m), *word = &column_of(cta, column + (uint32_t)n)[lane];
            if (q->disabled[lane / 32] >> (lane % 32) & 1) continue;
            float r = s[n * EMU_TMEM_LANES + m];
            *word = q->shape.d_f32 ? emu_float_bits(r) : (uint32_t)emu_narrow((double)r, EMU_F16, EMU_RN, false);
        }
}

static void product_plain(emu_cta *cta, const emu_async *q, const float *b, int32_t depth) {
    float *d = (float *)(void *)(column_of(cta, q->d & 0xffff) + lane_of_row(q, 0));
    emu_product p = {cta->panel_a, b, d, EMU_TMEM_LANES, q->shape.m, q->shape.n, depth, q->accumulate};
    cta->machine->mma->product(&p);
}

void emu_tensor_mma(emu_cta *cta, const emu_async *q, const float *b) {
    load_a(cta, q, cta->panel_a);
    check_d(cta, q, q->d & 0xffff);
    if (plain(q)) product_plain(cta, q, b, 1);
    else product_scratch(cta, q, q->d & 0xffff, b);
}

static emu_async pop(emu_cta *cta) {
    emu_async q = cta->pipe[cta->pipe_first];
    cta->pipe_first = (cta->pipe_first + 1) % cta->pipe_max;
    cta->pipe_count--;
    EMU_EVENT(cta, &cta->warps[q.warp], EMU_EVENT_COMPLETE, EMU_MEMORY_TENSOR, EMU_UNIT_TENSOR, 1u << q.lane, q.d, (uint64_t)q.shape.n, q.kind);
    return q;
}

/* Whether the operation at the pipe's head only adds the next steps of k to the D of q, and is due: then D stays in registers. */
static bool continues(const emu_cta *cta, const emu_async *q) {
    const emu_async *next = &cta->pipe[cta->pipe_first];
    if (cta->pipe_count == 0 || next->kind != EMU_ASYNC_MMA || next->due > cta->time || next->pair || !next->accumulate || !plain(next)) return false;
    uint32_t d = q->d & 0xffff;
    bool apart = !next->a_in_tmem || next->a_tmem + EMU_MMA_K / 2 <= d || next->a_tmem >= d + (uint32_t)q->shape.n;
    return apart && next->d == q->d && next->shape.m == q->shape.m && next->shape.n == q->shape.n;
}

/* One mma, and those behind it that go on with its sum. */
static void execute_chain(emu_cta *cta, const emu_async *first) {
    emu_async q = *first;
    int32_t depth = 0;
    for (;;) {
        load_a(cta, &q, cta->panel_a + depth * EMU_PANEL_A);
        emu_tensor_load_b(cta, &q, q.shape.n, cta->panel_b + depth * EMU_PANEL_B);
        depth++;
        if (cta->stopped || depth == EMU_MMA_DEPTH_MAX || !continues(cta, first)) break;
        q = pop(cta);
    }
    check_d(cta, first, first->d & 0xffff);
    product_plain(cta, first, cta->panel_b, depth);
    cta->mmas += depth;
}

static void execute_mma(emu_cta *cta, const emu_async *q) {
    int64_t before = emu_clock_ns(), mmas = cta->mmas;
    if (q->pair) {
        emu_pair_mma(cta, q);
    } else if (plain(q)) {
        execute_chain(cta, q);
    } else {
        emu_tensor_load_b(cta, q, q->shape.n, cta->panel_b);
        emu_tensor_mma(cta, q, cta->panel_b);
        cta->mmas++;
    }
    cta->mma_flops += 2ll * q->shape.m * q->shape.n * EMU_MMA_K * (cta->mmas - mmas);
    cta->mma_ns += emu_clock_ns() - before;
}

void emu_pipe_deliver(emu_cta *cta) {
    emu_async q = pop(cta);
    if (q.kind == EMU_ASYNC_MMA) {
        execute_mma(cta, &q);
        return;
    }
    for (int32_t rank = 0; rank < (q.targets ? EMU_CLUSTER_MAX : 1); rank++) {
        emu_cta *to = q.targets ? emu_cluster_cta(cta->cluster, rank) : q.signal;
        if ((q.targets && !(q.targets >> rank & 1)) || !emu_cluster_lives(&q, to)) continue;
        emu_mbarrier_arrive(to, &cta->warps[q.warp], q.op->source, q.barrier, 1);
    }
}
