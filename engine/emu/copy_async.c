/*
 * cp.async (ISA 9.7.9.25.3): each lane copies up to 16 bytes from global to shared memory. A copy lands when the scheduler says so: no earlier
 * than its issue and no later than the wait, or the mbarrier's arrival, that must see it. Groups are counted for each lane by itself.
 */
#include "cluster_internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* What the lanes of one instruction copy. */
struct emu_scatter {
    uint32_t lanes, bytes;
    uint32_t shared[EMU_LANES], real[EMU_LANES], group[EMU_LANES];
    const uint8_t *from[EMU_LANES];
};

static uint64_t place_address(emu_warp *w, const emu_place *p, int lane) {
    return (p->slot == EMU_NO_SLOT ? 0 : emu_get(w, p->slot, p->wide, lane)) + (uint64_t)p->offset;
}

static void land(emu_cta *cta, const emu_scatter *s) {
    EMU_EACH_LANE(lane, s->lanes) {
        uint8_t *to = emu_shared_at(cta, s->shared[lane]);
        memset(to, 0, s->bytes);
        if (s->real[lane]) memcpy(to, s->from[lane], s->real[lane]);
        emu_shared_mark(cta, s->shared[lane], s->bytes);
    }
}

static bool gather(emu_warp *w, const emu_op *op, uint32_t mask, emu_scatter *s) {
    const emu_more *more = op->more;
    uint32_t bytes = (uint32_t)op->value, ignored = emu_pred(w, op->s);
    s->lanes = mask, s->bytes = bytes;
    EMU_EACH_LANE(lane, mask) {
        uint32_t real = op->b == EMU_NO_SLOT ? bytes : emu_lanes(w, op->b)[lane];
        uint64_t global = place_address(w, &more->places[1], (int)lane);
        if (real > bytes) real = bytes;
        if (ignored >> lane & 1) real = 0;
        if (!emu_shared_address(w, op, place_address(w, &more->places[0], (int)lane), bytes, bytes, (int)lane, &s->shared[lane])) return false;
        if (global % bytes != 0) return emu_fault(w, (int)lane, EMU_MISALIGNED, op, "cp.async: global 0x%" PRIx64 " is not a multiple of %u", global, bytes), false;
        s->from[lane] = real ? emu_global(w->cta, global, real, false) : NULL;
        if (real && s->from[lane] == NULL)
            return emu_fault(w, (int)lane, EMU_OUT_OF_BOUNDS, op, "cp.async of %u bytes at global 0x%" PRIx64 " leaves every buffer", real, global), false;
        s->real[lane] = real;
        s->group[lane] = w->async_group[lane];
    }
    return true;
}

emu_step emu_do_copy_async(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_scatter s;
    if (!gather(w, op, mask, &s)) return EMU_STOP;
    if (w->cta->machine->launch->schedule == EMU_ROUND_ROBIN) { /* no delay */
        land(w->cta, &s);
        return EMU_NEXT;
    }
    emu_scatter *kept = malloc(sizeof *kept);
    emu_async *q = kept ? emu_copy_enqueue(w, op, emu_first(mask)) : NULL;
    if (q == NULL) {
        free(kept);
        return w->cta->stopped ? EMU_STOP : emu_fault(w, -1, EMU_LIMIT, op, "out of memory for copies in flight");
    }
    *kept = s;
    q->kind = EMU_ASYNC_SCATTER;
    q->scatter = kept;
    return EMU_NEXT;
}

emu_step emu_do_copy_async_commit(emu_warp *w, const emu_op *op, uint32_t mask) {
    (void)op;
    EMU_EACH_LANE(lane, mask) w->async_group[lane]++;
    return EMU_NEXT;
}

static bool is_mine(const emu_async *a, const emu_warp *w) {
    return a->kind == EMU_ASYNC_SCATTER && a->warp == w->index;
}

/* extra: wait_all, which sees uncommitted copies too; else the newest `value` groups may be in flight. */
emu_step emu_do_copy_async_wait(emu_warp *w, const emu_op *op, uint32_t mask) {
    for (int32_t i = 0; i < w->cta->copy_count; i++) {
        const emu_async *a = &w->cta->copies[i];
        if (!is_mine(a, w)) continue;
        EMU_EACH_LANE(lane, mask & a->scatter->lanes)
            if (op->extra || a->scatter->group[lane] + op->value < w->async_group[lane]) return EMU_RETRY;
    }
    return EMU_NEXT;
}

/* The arrival comes after all earlier copies of its lane; without .noinc the pending count is raised for it at once. extra: noinc. */
emu_step emu_do_copy_async_arrive(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) {
        uint32_t address;
        if (!emu_shared_address(w, op, emu_address(w, op, op->a, (int)lane), 8, 8, (int)lane, &address)) return EMU_STOP;
        if (!op->extra && !emu_mbarrier_raise(w->cta, w, op->source, address)) return EMU_STOP;
        if (w->cta->machine->launch->schedule == EMU_ROUND_ROBIN) {
            emu_mbarrier_arrive(w->cta, w, op->source, address, 1);
            continue;
        }
        emu_async *q = emu_copy_enqueue(w, op, (int)lane);
        if (q == NULL) return EMU_STOP;
        q->kind = EMU_ASYNC_ARRIVE;
        q->barrier = address;
    }
    return w->cta->stopped ? EMU_STOP : EMU_NEXT;
}

/* Copies of the lane that are still in flight land first: the arrival says that they have. */
static void land_before(emu_cta *cta, const emu_async *a) {
    for (int32_t i = 0; i < cta->copy_count;) {
        emu_scatter *s = cta->copies[i].scatter;
        if (s == NULL || cta->copies[i].warp != a->warp || !(s->lanes >> a->lane & 1)) {
            i++;
            continue;
        }
        cta->copies[i] = cta->copies[--cta->copy_count];
        land(cta, s);
        free(s);
    }
}

void emu_scatter_deliver(emu_cta *cta, const emu_async *a) {
    if (a->kind == EMU_ASYNC_SCATTER) {
        land(cta, a->scatter);
        free(a->scatter);
        return;
    }
    land_before(cta, a);
    emu_mbarrier_arrive(cta, &cta->warps[a->warp], a->op->source, a->barrier, 1);
}

void emu_scatter_drop(emu_cta *cta) {
    for (int32_t i = 0; i < cta->copy_count; i++) free(cta->copies[i].scatter);
    cta->copy_count = 0;
}
