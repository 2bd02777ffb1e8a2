/*
 * The copy unit (ISA 9.7.9.25 to 27): bulk and bulk tensor copies both ways, and bulk groups. A copy waits in the CTA's list until
 * the scheduler delivers it; it moves its bytes then, and signals its mbarrier. Tile mode, interleave none, element strides 1.
 */
#include "cluster_internal.h"

#include <inttypes.h>
#include <stdlib.h>

emu_async *emu_copy_enqueue(emu_warp *w, const emu_op *op, int lane) {
    emu_cta *cta = w->cta;
    if (cta->copy_count == cta->copy_max) {
        int32_t max = cta->copy_max ? 2 * cta->copy_max : 16;
        emu_async *grown = max > 65536 ? NULL : realloc(cta->copies, (size_t)max * sizeof *grown);
        if (grown == NULL) {
            emu_fault(w, lane, EMU_LIMIT, op, "more than 65536 copies in flight");
            return NULL;
        }
        cta->copies = grown;
        cta->copy_max = max;
    }
    emu_async *a = &cta->copies[cta->copy_count++];
    memset(a, 0, sizeof *a);
    a->warp = w->index;
    a->lane = lane;
    a->op = op;
    a->from = a->to = a->signal = cta;
    a->due = cta->time + emu_delay(cta, EMU_UNIT_TMA);
    return a;
}

static uint64_t place_address(emu_warp *w, const emu_place *p, int lane) {
    return (p->slot == EMU_NO_SLOT ? 0 : emu_get(w, p->slot, p->wide, lane)) + (uint64_t)p->offset;
}

/* ---- tensors ---- */

/* Bytes from one row of the box to the next: with a swizzle each row has the swizzle's whole span, however short the row (an H200 does so). */
static uint32_t row_pitch(const kernel_tensormap *m) {
    static const uint32_t span[4] = {0, 32, 64, 128};
    return m->swizzle == KERNEL_SWIZZLE_NONE ? m->box[0] * (uint32_t)kernel_tensormap_element_bytes(m->type) : span[m->swizzle];
}

/* Bytes of shared memory from the first row's start to the last row's end. */
static uint64_t footprint(const kernel_tensormap *m) {
    uint64_t rows = 1;
    for (int32_t d = 1; d < m->rank; d++) rows *= m->box[d];
    return rows * row_pitch(m);
}

static bool gapless(const kernel_tensormap *m) {
    return row_pitch(m) == m->box[0] * (uint32_t)kernel_tensormap_element_bytes(m->type);
}

static void mark_row(emu_cta *cta, const kernel_tensormap *m, uint32_t linear) {
    uint32_t mask = m->swizzle == KERNEL_SWIZZLE_128 ? 7 : m->swizzle == KERNEL_SWIZZLE_64 ? 3 : 1;
    uint32_t length = m->box[0] * (uint32_t)kernel_tensormap_element_bytes(m->type);
    for (uint32_t at = linear; at < linear + length; at += 16) emu_shared_mark(cta, at ^ (at >> 7 & mask) << 4, 16);
}

static int reduced_type(int32_t type) {
    static const uint8_t types[] = {[KERNEL_TENSORMAP_U8] = PTX_TYPE_U8, [KERNEL_TENSORMAP_U16] = PTX_TYPE_U16, [KERNEL_TENSORMAP_U32] = PTX_TYPE_U32,
                                    [KERNEL_TENSORMAP_I32] = PTX_TYPE_S32, [KERNEL_TENSORMAP_U64] = PTX_TYPE_U64, [KERNEL_TENSORMAP_I64] = PTX_TYPE_S64,
                                    [KERNEL_TENSORMAP_F16] = PTX_TYPE_F16, [KERNEL_TENSORMAP_F32] = PTX_TYPE_F32, [KERNEL_TENSORMAP_F64] = PTX_TYPE_F64,
                                    [KERNEL_TENSORMAP_BF16] = PTX_TYPE_BF16};
    return types[type];
}

/* Copies one row of the box (its innermost dimension) at shared address `linear`, 16 bytes at a time through the swizzle. */
static void move_row(emu_cta *cta, const kernel_tensormap *m, uint8_t *row, int64_t first, uint32_t linear, bool load, int operation) {
    int64_t size = kernel_tensormap_element_bytes(m->type), length = (int64_t)m->box[0] * size;
    int64_t from = first * size, end = row == NULL ? 0 : (int64_t)m->dims[0] * size;
    uint32_t mask = m->swizzle == KERNEL_SWIZZLE_128 ? 7 : m->swizzle == KERNEL_SWIZZLE_64 ? 3 : m->swizzle == KERNEL_SWIZZLE_32 ? 1 : 0;
    if (from >= 0 && from + length <= end) { /* the common case: all of it lies inside */
        for (uint32_t at = 0; at < (uint32_t)length; at += 16) {
            uint32_t address = linear + at;
            uint8_t *shared = emu_shared_at(cta, address ^ (address >> 7 & mask) << 4);
            if (load) memcpy(shared, row + from + at, 16);
            else if (operation) emu_reduce_global(row + from + at, shared, 16, operation, reduced_type(m->type));
            else memcpy(row + from + at, shared, 16);
        }
        return;
    }
    for (int64_t at = 0; at < length; at += 16) {
        uint32_t address = linear + (uint32_t)at;
        address ^= (address >> 7 & mask) << 4;
        uint8_t *shared = emu_shared_at(cta, address);
        int64_t lo = from + at, hi = lo + 16;
        int64_t inside_lo = lo < 0 ? 0 : lo, inside_hi = hi > end ? end : hi;
        if (load && (inside_lo > lo || inside_hi < hi)) memset(shared, 0, 16);
        if (inside_lo >= inside_hi) continue;
        if (load) memcpy(shared + (inside_lo - lo), row + inside_lo, (size_t)(inside_hi - inside_lo));
        else if (operation) emu_reduce_global(row + inside_lo, shared + (inside_lo - lo), (uint64_t)(inside_hi - inside_lo), operation, reduced_type(m->type));
        else memcpy(row + inside_lo, shared + (inside_lo - lo), (size_t)(inside_hi - inside_lo));
    }
}

/* The global bytes of one row, NULL when a coordinate lies outside the tensor. */
static uint8_t *row_bytes(emu_cta *cta, const emu_async *a, const uint32_t index[5], bool write, bool *fault) {
    const kernel_tensormap *m = &a->map;
    uint64_t address = m->address, size = (uint64_t)kernel_tensormap_element_bytes(m->type);
    for (int32_t d = 1; d < m->rank; d++) {
        int64_t c = (int64_t)a->coordinates[d] + index[d];
        if (c < 0 || (uint64_t)c >= m->dims[d]) return NULL;
        address += (uint64_t)c * m->strides[d];
    }
    if (a->coordinates[0] >= (int64_t)m->dims[0] || a->coordinates[0] + (int64_t)m->box[0] <= 0) return NULL;
    int64_t lo = a->coordinates[0] < 0 ? 0 : a->coordinates[0], hi = (int64_t)a->coordinates[0] + m->box[0];
    if (hi > (int64_t)m->dims[0]) hi = (int64_t)m->dims[0];
    if (emu_global(cta, address + (uint64_t)lo * size, (uint64_t)(hi - lo) * size, write) == NULL) {
        *fault = true;
        return NULL;
    }
    return (uint8_t *)(uintptr_t)address;
}

/* A row that lies inside the tensor. A swizzled row never leaves its 128 bytes, so one XOR holds for all of it. */
static void copy_row(uint8_t *shared, uint32_t linear, uint8_t *global, uint32_t length, uint32_t mask, bool load) {
    uint32_t flip = (linear >> 7 & mask) << 4;
    for (uint32_t at = 0; at < length; at += 16) {
        uint8_t *s = shared + ((linear + at) ^ flip);
        if (load) memcpy(s, global + at, 16);
        else memcpy(global + at, s, 16);
    }
}

/* The common case: the whole box lies inside the tensor and its span inside one buffer. False: nothing was done. */
static bool move_inside(emu_cta *cta, const emu_async *a, bool load) {
    static const uint32_t masks[4] = {0, 1, 3, 7};
    const kernel_tensormap *m = &a->map;
    uint64_t size = (uint64_t)kernel_tensormap_element_bytes(m->type), first = m->address, span = m->box[0] * size;
    uint32_t index[5] = {0}, pitch = row_pitch(m), linear = a->shared, length = m->box[0] * (uint32_t)size;
    for (int32_t d = 0; d < m->rank; d++) {
        if (a->coordinates[d] < 0 || (uint64_t)a->coordinates[d] + m->box[d] > m->dims[d]) return false;
        first += (uint64_t)a->coordinates[d] * (d ? m->strides[d] : size);
        if (d > 0) span += (m->box[d] - 1) * m->strides[d];
    }
    uint8_t *global = emu_global(cta, first, span, !load), *shared = cta->shared - EMU_SHARED_BASE;
    if (global == NULL || !gapless(m) || a->op->source->form->operation) return false;
    for (;;) {
        copy_row(shared, linear, global, length, masks[m->swizzle], load);
        linear += pitch;
        int32_t d = 1;
        for (; d < m->rank; d++) {
            if (++index[d] < m->box[d]) {
                global += m->strides[d];
                break;
            }
            index[d] = 0;
            global -= (m->box[d] - 1) * m->strides[d];
        }
        if (d >= m->rank) return true;
    }
}

static void move_box(emu_cta *cta, const emu_async *a, bool load) {
    if (move_inside(cta, a, load)) return;
    const kernel_tensormap *m = &a->map;
    uint32_t index[5] = {0}, pitch = row_pitch(m), linear = a->shared;
    bool fault = false, gaps = load && !gapless(m);
    for (;;) {
        uint8_t *row = row_bytes(cta, a, index, !load, &fault);
        if (fault) {
            emu_report_finding(cta, &a->from->warps[a->warp], a->lane, EMU_OUT_OF_BOUNDS, EMU_ERROR, a->op->source,
                               "the tensor map at 0x%" PRIx64 " describes memory outside every buffer passed (coordinates %d, %d, %d, %d, %d)",
                               m->address, a->coordinates[0], a->coordinates[1], a->coordinates[2], a->coordinates[3], a->coordinates[4]);
            return;
        }
        if (load || row != NULL) move_row(cta, m, row, a->coordinates[0], linear, load, a->op->source->form->operation);
        if (gaps) mark_row(cta, m, linear);
        linear += pitch;
        int32_t d = 1;
        while (d < m->rank && ++index[d] == m->box[d]) index[d++] = 0;
        if (d >= m->rank) return;
    }
}

static bool check_source(emu_cta *cta, const emu_async *a, uint64_t bytes) {
    char name[96];
    if (!cta->machine->checked || emu_shared_ready(cta, a->shared, (uint32_t)bytes)) return true;
    emu_report_finding(cta, &cta->warps[a->warp], a->lane, EMU_UNINITIALISED, EMU_ERROR, a->op->source,
                       "a bulk store reads shared memory that nothing has written: %s, %" PRIu64 " bytes", emu_shared_name(cta, a->shared, name, sizeof name), bytes);
    return true;
}

void emu_copy_deliver(emu_cta *cta, int32_t index) {
    emu_async a = cta->copies[index];
    cta->copies[index] = cta->copies[--cta->copy_count];
    cta->changes++;
    EMU_EVENT(cta, &cta->warps[a.warp], EMU_EVENT_COMPLETE, EMU_MEMORY_SHARED, EMU_UNIT_TMA, 1u << a.lane, a.shared, a.bytes, a.kind);
    switch (a.kind) {
    case EMU_ASYNC_LOAD:
        if (!emu_cluster_lives(&a, a.to) || !emu_cluster_lives(&a, a.signal)) break;
        move_box(a.to, &a, true);
        if (gapless(&a.map)) emu_shared_mark(a.to, a.shared, (uint32_t)a.bytes);
        emu_mbarrier_complete(a.signal, a.op->source, a.barrier, (uint32_t)a.bytes);
        cta->bytes_loaded += (int64_t)a.bytes;
        break;
    case EMU_ASYNC_STORE:
        if (gapless(&a.map)) check_source(cta, &a, a.bytes);
        move_box(cta, &a, false);
        cta->bytes_stored += (int64_t)a.bytes;
        break;
    case EMU_ASYNC_BULK_LOAD: {
        if (!emu_cluster_lives(&a, a.to)) break;
        memcpy(emu_shared_at(a.to, a.shared), (const void *)(uintptr_t)a.global, a.bytes);
        emu_shared_mark(a.to, a.shared, (uint32_t)a.bytes);
        if (a.barrier) emu_mbarrier_complete(a.signal, a.op->source, a.barrier, (uint32_t)a.bytes);
        cta->bytes_loaded += (int64_t)a.bytes;
        break;
    }
    case EMU_ASYNC_SCATTER: case EMU_ASYNC_ARRIVE:
        emu_scatter_deliver(cta, &a);
        break;
    case EMU_ASYNC_BULK_SHARED:
    case EMU_ASYNC_WRITE:
        if (emu_cluster_lives(&a, a.to)) emu_cluster_deliver(&a);
        break;
    default:
        check_source(cta, &a, a.bytes);
        if (a.op->source->form->operation)
            emu_reduce_global((uint8_t *)(uintptr_t)a.global, emu_shared_at(cta, a.shared), a.bytes, a.op->source->form->operation, a.op->source->form->types[0]);
        else memcpy((void *)(uintptr_t)a.global, emu_shared_at(cta, a.shared), a.bytes);
        cta->bytes_stored += (int64_t)a.bytes;
        break;
    }
}

static bool issue_tensor(emu_warp *w, const emu_op *op, int lane) {
    const emu_more *more = op->more;
    fa4_error err;
    emu_async a = {.kind = op->extra ? EMU_ASYNC_STORE : EMU_ASYNC_LOAD, .to = w->cta, .signal = w->cta};
    const uint8_t *bytes = emu_map_bytes(w, op, place_address(w, &more->places[1], lane), lane);
    if (bytes == NULL) return false;
    if (kernel_tensormap_decode(bytes, &a.map, &err) != FA4_OK) {
        emu_fault(w, lane, EMU_COPY_MISUSE, op, "%.300s", err.text);
        return false;
    }
    if (a.map.rank != op->count) {
        emu_fault(w, lane, EMU_COPY_MISUSE, op, "a %d-D copy with a tensor map of rank %d", op->count, a.map.rank);
        return false;
    }
    for (int i = 0; i < op->count; i++) {
        a.coordinates[i] = (int32_t)emu_lanes(w, op->list[i])[lane];
        if (op->extra && a.coordinates[i] < 0) {
            emu_fault(w, lane, EMU_COPY_MISUSE, op, "a store's coordinate %d is negative: %d", i, a.coordinates[i]);
            return false;
        }
    }
    if (a.coordinates[0] * (int64_t)kernel_tensormap_element_bytes(a.map.type) % 16 != 0) { /* an H200 answers with "illegal instruction" */
        emu_fault(w, lane, EMU_MISALIGNED, op, "coordinate 0 is %d: its bytes are not a multiple of 16", a.coordinates[0]);
        return false;
    }
    a.bytes = (uint64_t)kernel_tensormap_box_bytes(&a.map);
    /* The hardware asks for 128 B; the swizzle's pattern follows absolute address bits. */
    if (!emu_cluster_address(w, op, place_address(w, &more->places[0], lane), (uint32_t)footprint(&a.map), 128, lane, &a.to, &a.shared)) return false;
    if (a.map.swizzle == KERNEL_SWIZZLE_128 && a.shared % 1024 != 0 && a.bytes >= 1024)
        emu_report_finding(w->cta, w, lane, EMU_MISALIGNED, EMU_REVIEW, op->source, "a tile with 128 B swizzle at 0x%x is not on a 1024 B boundary", a.shared);
    if (!op->extra && !emu_cluster_address(w, op, place_address(w, &more->places[2], lane), 8, 8, lane, &a.signal, &a.barrier)) return false;
    a.group = w->bulk_group[lane];
    return emu_cluster_copy(w, op, lane, &a);
}

emu_step emu_do_bulk_tensor(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) {
        if (!issue_tensor(w, op, (int)lane)) return EMU_STOP;
        EMU_EVENT(w->cta, w, EMU_EVENT_ISSUE, EMU_MEMORY_SHARED, EMU_UNIT_TMA, 1u << lane, w->cta->copies[w->cta->copy_count - 1].shared,
                  w->cta->copies[w->cta->copy_count - 1].bytes, op->extra);
    }
    return EMU_NEXT;
}

/* ---- plain bulk copies ---- */

static bool issue_bulk(emu_warp *w, const emu_op *op, int lane) {
    const emu_more *more = op->more;
    uint32_t bytes = emu_lanes(w, op->b)[lane];
    emu_async a = {.kind = op->extra ? EMU_ASYNC_BULK_STORE : EMU_ASYNC_BULK_LOAD, .bytes = bytes, .to = w->cta, .signal = w->cta};
    int in_shared = op->extra ? 1 : 0;
    uint64_t global = place_address(w, &more->places[1 - in_shared], lane);
    if (bytes % 16 != 0 || global % 16 != 0) {
        emu_fault(w, lane, EMU_MISALIGNED, op, "a bulk copy of %u bytes at global 0x%" PRIx64 ": both must be multiples of 16", bytes, global);
        return false;
    }
    if (!emu_cluster_address(w, op, place_address(w, &more->places[in_shared], lane), bytes, 16, lane, &a.to, &a.shared)) return false;
    if (emu_global(w->cta, global, bytes, op->extra) == NULL) {
        emu_fault(w, lane, EMU_OUT_OF_BOUNDS, op, "a bulk copy of %u bytes at global 0x%" PRIx64 " leaves every buffer", bytes, global);
        return false;
    }
    if (!op->extra && !emu_cluster_address(w, op, place_address(w, &more->places[2], lane), 8, 8, lane, &a.signal, &a.barrier)) return false;
    a.global = global;
    a.group = w->bulk_group[lane];
    return emu_cluster_copy(w, op, lane, &a);
}

emu_step emu_do_bulk(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) if (!issue_bulk(w, op, (int)lane)) return EMU_STOP;
    return EMU_NEXT;
}

emu_step emu_do_bulk_commit(emu_warp *w, const emu_op *op, uint32_t mask) {
    (void)op;
    EMU_EACH_LANE(lane, mask) w->bulk_group[lane]++;
    return EMU_NEXT;
}

static bool is_store(const emu_async *a) {
    return a->kind == EMU_ASYNC_STORE || a->kind == EMU_ASYNC_BULK_STORE;
}

/* A lane waits until at most `value` of its newest groups are in flight. Reads and writes are delivered together. */
emu_step emu_do_bulk_wait(emu_warp *w, const emu_op *op, uint32_t mask) {
    for (int32_t i = 0; i < w->cta->copy_count; i++) {
        const emu_async *a = &w->cta->copies[i];
        if (a->warp == w->index && is_store(a) && mask >> a->lane & 1 && a->group + op->value < w->bulk_group[a->lane]) return EMU_RETRY;
    }
    return EMU_NEXT;
}

emu_step emu_do_prefetch_map(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) if (emu_map_bytes(w, op, emu_address(w, op, op->a, (int)lane) | (op->space == PTX_SPACE_PARAM ? EMU_WINDOW_PARAM : 0), (int)lane) == NULL) return EMU_STOP;
    return EMU_NEXT;
}
