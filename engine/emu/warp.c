/*
 * A warp's step loop and its fragments. A fragment is a set of lanes with one program counter. A divergent branch splits it; the lowest
 * runnable counter runs first, and fragments that meet at one instruction merge. A blocked fragment does not hold the others back, and a
 * fragment that has used up its quantum lets another have the next turn, so a spinning lane cannot starve its warp.
 */
#include "cluster_internal.h"

void emu_warp_start(emu_warp *w, uint32_t lanes) {
    w->alive = lanes;
    w->fragment_count = 1;
    w->current = 0;
    w->rotate = false;
    w->fragments[0] = (emu_fragment){.pc = 0, .mask = lanes, .state = EMU_READY};
}

bool emu_converged(const emu_warp *w, uint32_t mask) {
    return mask == w->alive;
}

/* For .aligned instructions: all living lanes of the warp, or wait for them here. */
emu_step emu_need_all(emu_warp *w, const emu_op *op, uint32_t mask) {
    if (mask == w->alive) return EMU_NEXT;
    if (w->fragments[w->current].mask != mask)
        return emu_fault(w, -1, EMU_DIVERGENCE, op, "an .aligned instruction under a guard that differs between lanes");
    return EMU_PARK;
}

static bool mergeable(const emu_fragment *f) {
    return f->state != EMU_AT_BARRIER;
}

static void remove_fragment(emu_warp *w, int32_t i) {
    w->fragments[i] = w->fragments[--w->fragment_count];
    if (w->current == w->fragment_count) w->current = i;
}

/* Joins fragments that stand at one instruction. Returns true when the current one has gained lanes. */
static bool merge(emu_warp *w) {
    bool gained = false;
    for (int32_t i = 0; i < w->fragment_count; i++) {
        for (int32_t j = i + 1; j < w->fragment_count; j++) {
            emu_fragment *a = &w->fragments[i], *b = &w->fragments[j];
            if (a->pc != b->pc || !mergeable(a) || !mergeable(b)) continue;
            gained |= w->current == i || w->current == j;
            a->mask |= b->mask;
            a->state = EMU_READY;
            if (w->current == j) w->current = i;
            remove_fragment(w, j--);
        }
    }
    return gained;
}

/* Lanes have ended: those that were waited for may be among them. */
static void unpark(emu_warp *w) {
    for (int32_t i = 0; i < w->fragment_count; i++)
        if (w->fragments[i].state == EMU_PARKED) w->fragments[i].state = EMU_READY;
}

static bool passed(const emu_warp *w, const emu_fragment *f) {
    return w->cta->named[f->barrier].generation != f->generation;
}

/* Wakes what may go on: blocked fragments after any change, those at a named barrier once it has completed. */
static void wake(emu_warp *w) {
    for (int32_t i = 0; i < w->fragment_count; i++) {
        emu_fragment *f = &w->fragments[i];
        if (f->state == EMU_BLOCKED && (f->generation != w->cta->changes || (f->sleep_until && f->sleep_until <= w->cta->time)))
            f->state = EMU_READY;
        if (f->state == EMU_AT_BARRIER && passed(w, f)) {
            f->state = EMU_READY;
            const emu_op *op = &w->ops[f->pc];
            int32_t before = w->current;
            w->current = i;
            if (op->run == emu_do_barrier_reduce) op->run(w, op, 0); /* writes the result */
            w->current = before;
            f->pc++;
        }
    }
    if (w->fragment_count > 1) merge(w);
}

/* The runnable fragment with the lowest counter; after a full quantum the next higher one. -1: none. */
static int32_t choose(emu_warp *w) {
    int32_t best = -1;
    uint32_t above = w->rotate && w->current < w->fragment_count ? w->fragments[w->current].pc : 0;
    bool rotate = w->rotate;
    w->rotate = false;
    for (int pass = rotate ? 0 : 1; pass < 2 && best < 0; pass++)
        for (int32_t i = 0; i < w->fragment_count; i++) {
            emu_fragment *f = &w->fragments[i];
            if (f->state != EMU_READY || (pass == 0 && f->pc <= above)) continue;
            if (best < 0 || f->pc < w->fragments[best].pc) best = i;
        }
    return best;
}

static bool lower_ready(const emu_warp *w) {
    uint32_t pc = w->fragments[w->current].pc;
    for (int32_t i = 0; i < w->fragment_count; i++)
        if (w->fragments[i].state == EMU_READY && w->fragments[i].pc < pc) return true;
    return false;
}

/* What some instructions need before they run. EMU_NEXT: go on. */
static emu_step settle_first(emu_warp *w, const emu_op *op, uint32_t mask) {
    if (op->flags & EMU_FLAG_SETTLE && w->load_count > 0) emu_settle_loads(w);
    if (op->flags & EMU_FLAG_CHECK && w->cta->machine->checked) emu_check_defined(w, op, mask);
    if (op->flags & EMU_FLAG_ORDERS && w->cta->machine->launch->independent)
        return emu_fault(w, -1, EMU_OTHER, op, "the launch was said to be of independent CTAs, but this depends on what others do");
    return EMU_NEXT;
}

static void account(emu_warp *w, int64_t steps, const int64_t *per_class) {
    w->instructions += steps;
    w->cta->time += (uint64_t)steps;
    for (int i = 0; i < EMU_CLASSES; i++) w->per_class[i] += per_class[i];
}

/* What to do with a step that is not EMU_NEXT. Returns true when the turn goes on. */
static bool handle(emu_warp *w, emu_step step, const emu_op *op) {
    emu_fragment *f = &w->fragments[w->current];
    switch (step) {
    case EMU_JUMP:
        if (w->fragment_count == 0) return false;
        if (w->fragment_count > 1) merge(w);
        break;
    case EMU_RETRY:
        f->state = EMU_BLOCKED;
        f->generation = w->cta->changes;
        break;
    case EMU_PARK: f->state = EMU_PARKED; break;
    case EMU_WAITING: f->state = EMU_AT_BARRIER; break;
    default: w->cta->stopped = true; return false;
    }
    (void)op;
    int32_t next = choose(w);
    if (next < 0) return false;
    w->current = next;
    return true;
}

int64_t emu_warp_run(emu_warp *w, int64_t budget) {
    int64_t steps = 0, per_class[EMU_CLASSES] = {0};
    const emu_op *ops = w->ops;
    if (w->load_count + w->store_count > 0) emu_settle_due(w);
    wake(w);
    int32_t first = choose(w);
    if (first < 0) return 0;
    w->current = first;
    emu_fragment *f = &w->fragments[first];
    while (steps < budget) {
        const emu_op *op = &ops[f->pc];
        uint32_t mask = f->mask;
        steps++;
        per_class[op->class_id]++;
        if (op->guard >= 0) {
            mask &= w->predicates[op->guard] ^ op->guard_flip;
            if (mask == 0) {
                f->pc++;
                if (w->fragment_count > 1) goto several;
                continue;
            }
        }
        w->lane_instructions += mask == ~0u ? EMU_LANES : __builtin_popcount(mask);
        emu_step step = EMU_NEXT;
        if (__builtin_expect(op->flags & EMU_FLAG_SLOW, 0)) step = settle_first(w, op, mask);
        if (__builtin_expect(step == EMU_NEXT, 1)) step = op->run(w, op, mask);
        if (__builtin_expect(step == EMU_NEXT, 1)) {
            f->pc++;
            if (__builtin_expect(w->fragment_count == 1, 1)) continue;
        several:
            merge(w);
            if (lower_ready(w)) w->current = choose(w);
            f = &w->fragments[w->current];
            continue;
        }
        if (!handle(w, step, op)) {
            account(w, steps, per_class);
            return steps;
        }
        f = &w->fragments[w->current];
    }
    w->rotate = true;
    account(w, steps, per_class);
    return steps;
}

/* ---- control flow, ISA 9.7.12 ---- */

emu_step emu_do_branch(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_fragment *f = emu_current(w);
    if (mask == f->mask) {
        f->pc = (uint32_t)op->value;
        return EMU_JUMP;
    }
    f->mask &= ~mask;
    f->pc++;
    w->fragments[w->fragment_count++] = (emu_fragment){.pc = (uint32_t)op->value, .mask = mask, .state = EMU_READY};
    return EMU_JUMP;
}

emu_step emu_do_branch_indexed(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_fragment *f = emu_current(w);
    uint32_t index = emu_lanes(w, op->a)[emu_first(mask)], same = 0;
    EMU_EACH_LANE(lane, mask) if (emu_lanes(w, op->a)[lane] == index) same |= 1u << lane;
    if (index >= op->count) return emu_fault(w, emu_first(mask), EMU_OTHER, op, "brx.idx: index %u of %u targets", index, op->count);
    if (same == f->mask) {
        f->pc = op->list[index];
        return EMU_JUMP;
    }
    f->mask &= ~same; /* the others execute this instruction again */
    if ((mask & ~same) == 0) f->pc++;
    w->fragments[w->fragment_count++] = (emu_fragment){.pc = op->list[index], .mask = same, .state = EMU_READY};
    return EMU_JUMP;
}

emu_step emu_do_exit(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_fragment *f = emu_current(w);
    (void)op;
    if (w->load_count + w->store_count > 0) emu_settle_loads(w), emu_settle_stores(w);
    w->alive &= ~mask;
    f->mask &= ~mask;
    w->cta->changes++;
    if (f->mask != 0) f->pc++;
    else remove_fragment(w, w->current);
    unpark(w);
    if (w->alive == 0) emu_named_recheck(w->cta);
    if (w->cta->cluster != NULL) emu_cluster_recheck(w->cta->cluster);
    return EMU_JUMP;
}

emu_step emu_do_trap(emu_warp *w, const emu_op *op, uint32_t mask) {
    return emu_fault(w, emu_first(mask), EMU_TRAP, op, "the kernel executed trap");
}

emu_step emu_do_nothing(emu_warp *w, const emu_op *op, uint32_t mask) {
    (void)w, (void)op, (void)mask;
    return EMU_NEXT;
}
