/*
 * Synchronisation (ISA 9.7.13): mbarriers as 64-bit objects in shared memory, named barriers, fences and the register pool.
 * An mbarrier packs: bit 0 phase, 1-20 pending, 21-40 expected, 41-61 tx (signed), 62-63 = 0b10.
 */
#include "emu_internal.h"

static uint64_t pack(const emu_mbarrier *b) {
    return (uint64_t)(b->phase & 1) | (uint64_t)(b->pending & 0xfffff) << 1 | (uint64_t)(b->expected & 0xfffff) << 21 |
           (uint64_t)((uint32_t)b->tx & 0x1fffff) << 41 | 2ull << 62;
}

static emu_mbarrier unpack(uint64_t word) {
    emu_mbarrier b = {.phase = word & 1, .pending = word >> 1 & 0xfffff, .expected = word >> 21 & 0xfffff};
    b.tx = (int32_t)emu_extend(word >> 41 & 0x1fffff, 21);
    return b;
}

static bool live(const emu_cta *cta, uint32_t address) {
    return cta->barriers[address / 512] >> (address / 8 % 64) & 1;
}

static uint64_t load_word(const emu_cta *cta, uint32_t address) {
    uint64_t word;
    memcpy(&word, cta->shared + (address - EMU_SHARED_BASE), 8);
    return word;
}

static void store_word(emu_cta *cta, uint32_t address, uint64_t word) {
    memcpy(emu_shared_at(cta, address), &word, 8);
}

bool emu_mbarrier_get(const emu_cta *cta, uint32_t address, emu_mbarrier *barrier) {
    if (address % 8 != 0 || !emu_shared_inside(cta, address, 8) || !live(cta, address)) return false;
    *barrier = unpack(load_word(cta, address));
    return true;
}

static void misuse(emu_cta *cta, const emu_warp *w, const ptx_instr *at, uint32_t address, const char *what) {
    char name[96];
    emu_report_finding(cta, w, -1, EMU_BARRIER_MISUSE, EMU_ERROR, at, "mbarrier %s: %s", emu_shared_name(cta, address, name, sizeof name), what);
}

/* Writes the state back, first completing the phase when nothing is outstanding. */
static void settle(emu_cta *cta, const emu_warp *w, uint32_t address, emu_mbarrier *b) {
    if (b->pending == 0 && b->tx == 0) {
        b->phase ^= 1;
        b->pending = b->expected;
        cta->changes++;
        EMU_EVENT(cta, w, EMU_EVENT_PHASE, EMU_MEMORY_BARRIER, EMU_UNIT_WARP, 0, address, 8, b->phase);
    }
    store_word(cta, address, pack(b));
}

static bool open_barrier(emu_cta *cta, const emu_warp *w, const ptx_instr *at, uint32_t address, emu_mbarrier *b) {
    if (emu_mbarrier_get(cta, address, b)) return true;
    misuse(cta, w, at, address, "used before init or after inval");
    return false;
}

void emu_mbarrier_arrive(emu_cta *cta, const emu_warp *w, const ptx_instr *at, uint32_t address, uint32_t count) {
    emu_mbarrier b;
    if (!open_barrier(cta, w, at, address, &b)) return;
    EMU_EVENT(cta, w, EMU_EVENT_ARRIVE, EMU_MEMORY_BARRIER, EMU_UNIT_WARP, 0, address, 8, count);
    if (count > b.pending) {
        misuse(cta, w, at, address, "more arrivals than its count");
        return;
    }
    b.pending -= count;
    settle(cta, w, address, &b);
}

static bool add_tx(emu_cta *cta, const emu_warp *w, const ptx_instr *at, uint32_t address, emu_mbarrier *b, int64_t bytes) {
    int64_t tx = b->tx + bytes;
    if (tx < -1048575 || tx > 1048575) {
        misuse(cta, w, at, address, "its transaction count leaves the range of 2^20 - 1 bytes");
        return false;
    }
    b->tx = (int32_t)tx;
    return true;
}

void emu_mbarrier_complete(emu_cta *cta, const ptx_instr *at, uint32_t address, uint32_t bytes) {
    emu_mbarrier b;
    if (!open_barrier(cta, NULL, at, address, &b) || !add_tx(cta, NULL, at, address, &b, -(int64_t)bytes)) return;
    settle(cta, NULL, address, &b);
}

bool emu_mbarrier_raise(emu_cta *cta, const emu_warp *w, const ptx_instr *at, uint32_t address) {
    emu_mbarrier b;
    if (!open_barrier(cta, w, at, address, &b)) return false;
    if (b.pending == 0xfffff) {
        misuse(cta, w, at, address, "more than 2^20 - 1 arrivals are pending");
        return false;
    }
    b.pending++;
    store_word(cta, address, pack(&b));
    return true;
}

static bool place(emu_warp *w, const emu_op *op, int lane, uint32_t *address) {
    return emu_shared_address(w, op, emu_address(w, op, op->a, lane), 8, 8, lane, address);
}

emu_step emu_do_mbarrier_init(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) {
        uint32_t address, count = emu_lanes(w, op->b)[lane];
        if (!place(w, op, (int)lane, &address)) return EMU_STOP;
        if (live(w->cta, address)) misuse(w->cta, w, op->source, address, "initialised while it is live");
        if (count < 1 || count > 0xfffff) {
            misuse(w->cta, w, op->source, address, "its count is not in 1..2^20-1");
            return EMU_STOP;
        }
        emu_mbarrier b = {.pending = count, .expected = count};
        w->cta->barriers[address / 512] |= 1ull << (address / 8 % 64);
        store_word(w->cta, address, pack(&b));
        emu_shared_mark(w->cta, address, 8);
    }
    return EMU_NEXT;
}

emu_step emu_do_mbarrier_inval(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) {
        uint32_t address;
        emu_mbarrier b;
        if (!place(w, op, (int)lane, &address) || !open_barrier(w->cta, w, op->source, address, &b)) return EMU_STOP;
        w->cta->barriers[address / 512] &= ~(1ull << (address / 8 % 64));
    }
    return EMU_NEXT;
}

static emu_step transact(emu_warp *w, const emu_op *op, uint32_t mask, int sign) {
    EMU_EACH_LANE(lane, mask) {
        uint32_t address, bytes = emu_lanes(w, op->b)[lane];
        emu_mbarrier b;
        if (!place(w, op, (int)lane, &address) || !open_barrier(w->cta, w, op->source, address, &b)) return EMU_STOP;
        if (!add_tx(w->cta, w, op->source, address, &b, sign * (int64_t)bytes)) return EMU_STOP;
        if (sign < 0) settle(w->cta, w, address, &b);
        else store_word(w->cta, address, pack(&b));
    }
    return EMU_NEXT;
}
emu_step emu_do_mbarrier_expect(emu_warp *w, const emu_op *op, uint32_t mask) { return transact(w, op, mask, 1); }
emu_step emu_do_mbarrier_complete(emu_warp *w, const emu_op *op, uint32_t mask) { return transact(w, op, mask, -1); }

/* Lanes that arrive together at one barrier and ask for no state: as one arrival of their sum. False: nothing was done. */
static bool arrive_together(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint64_t address = emu_address(w, op, op->a, emu_first(mask)) & ~EMU_WINDOW_SHARED;
    emu_mbarrier b;
    address -= w->cta->window;
    if (op->extra & 15 || op->d != EMU_SINK_SLOT || w->cta->machine->launch->listener != NULL || address > UINT32_MAX) return false;
    if (!emu_uniform(w, op->a, op->wide & 2, mask) || !emu_mbarrier_get(w->cta, (uint32_t)address, &b)) return false;
    uint32_t count = (uint32_t)__builtin_popcount(mask);
    if (count > b.pending) return false;
    b.pending -= count;
    settle(w->cta, w, (uint32_t)address, &b);
    return true;
}

/* extra: bit 0 expect_tx, 1 drop, 2 no complete, 3 has a count. */
emu_step emu_do_mbarrier_arrive(emu_warp *w, const emu_op *op, uint32_t mask) {
    if (arrive_together(w, op, mask)) return EMU_NEXT;
    EMU_EACH_LANE(lane, mask) {
        uint32_t address, operand = op->extra & 8 ? emu_lanes(w, op->b)[lane] : 1, count = op->extra & 1 ? 1 : operand;
        emu_mbarrier b;
        if (!place(w, op, (int)lane, &address) || !open_barrier(w->cta, w, op->source, address, &b)) return EMU_STOP;
        emu_put(w, op->d, true, (int)lane, load_word(w->cta, address));
        if (op->extra & 1 && !add_tx(w->cta, w, op->source, address, &b, operand)) return EMU_STOP;
        EMU_EVENT(w->cta, w, EMU_EVENT_ARRIVE, EMU_MEMORY_BARRIER, EMU_UNIT_WARP, 1u << lane, address, 8, count);
        if (count > b.pending) {
            misuse(w->cta, w, op->source, address, "more arrivals than its count");
            return EMU_STOP;
        }
        if (op->extra & 2) b.expected -= count;
        b.pending -= count;
        settle(w->cta, w, address, &b);
    }
    return EMU_NEXT;
}

/* extra: bit 0 parity, bit 1 try. A try that fails for every lane blocks; it may, and waking it is the scheduler's choice. */
emu_step emu_do_mbarrier_wait(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t done = 0, asked = mask;
    bool together = w->cta->machine->launch->listener == NULL && emu_uniform(w, op->a, op->wide & 2, mask) && emu_uniform(w, op->b, op->wide & 4, mask);
    if (together) mask &= 0 - mask; /* one lane speaks for all */
    EMU_EACH_LANE(lane, mask) {
        uint32_t address;
        emu_mbarrier b;
        if (!place(w, op, (int)lane, &address) || !open_barrier(w->cta, w, op->source, address, &b)) return EMU_STOP;
        uint64_t operand = emu_get(w, op->b, op->wide & 4, (int)lane);
        if (op->extra & 1 && operand > 1) {
            misuse(w->cta, w, op->source, address, "its parity operand is neither 0 nor 1");
            return EMU_STOP;
        }
        bool complete = b.phase != (operand & 1);
        done |= (uint32_t)complete << lane;
        if (complete) EMU_EVENT(w->cta, w, EMU_EVENT_WAIT, EMU_MEMORY_BARRIER, EMU_UNIT_WARP, 1u << lane, address, 8, (int64_t)(operand & 1));
    }
    if (done == 0 && op->extra & 2) return EMU_RETRY;
    if (together && done != 0) done = asked;
    emu_set_pred(w, op->p, done, asked);
    return EMU_NEXT;
}

emu_step emu_do_mbarrier_pending(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) emu_lanes(w, op->d)[lane] = unpack(emu_get(w, op->a, true, (int)lane)).pending;
    return EMU_NEXT;
}

emu_step emu_do_fence(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EVENT(w->cta, w, EMU_EVENT_FENCE, EMU_MEMORY_NONE, EMU_UNIT_WARP, mask, op->source->form->opcode, 0, 0);
    (void)w, (void)op, (void)mask;
    return EMU_NEXT;
}

/* ---- named barriers ---- */

static void complete_named(emu_cta *cta, int id) {
    emu_named_barrier *n = &cta->named[id];
    n->last_sum = n->sum, n->last_conjunction = n->conjunction, n->last_disjunction = n->disjunction;
    n->sum = 0, n->conjunction = 1, n->disjunction = 0;
    n->arrived = 0, n->expected = 0, n->warps = 0;
    n->all = false;
    n->generation++;
    cta->changes++;
    EMU_EVENT(cta, NULL, EMU_EVENT_PHASE, EMU_MEMORY_NAMED_BARRIER, EMU_UNIT_WARP, 0, (uint64_t)id, 0, 0);
}

/* Threads that a barrier without a count waits for: warps with a living lane, by 32. */
static uint32_t living(const emu_cta *cta) {
    uint32_t n = 0;
    for (int32_t i = 0; i < cta->warp_count; i++) n += cta->warps[i].alive != 0;
    return n * EMU_LANES;
}

void emu_named_recheck(emu_cta *cta) {
    for (int i = 0; i < EMU_NAMED_BARRIERS; i++)
        if (cta->named[i].all && cta->named[i].arrived > 0 && cta->named[i].arrived >= living(cta)) complete_named(cta, i);
}

/* Arrives; *generation is that of before. EMU_NEXT when this arrival completed the barrier, EMU_WAITING when not. */
static emu_step arrive_named(emu_warp *w, const emu_op *op, uint32_t mask, uint32_t id, uint64_t *generation) {
    emu_cta *cta = w->cta;
    bool all = op->b == EMU_NO_SLOT;
    uint32_t count = all ? living(cta) : emu_lanes(w, op->b)[emu_first(mask)];
    uint32_t here = mask == w->alive ? EMU_LANES : (uint32_t)__builtin_popcount(mask);
    if (id >= EMU_NAMED_BARRIERS) return emu_fault(w, -1, EMU_BARRIER_MISUSE, op, "barrier id %u is not below 16", id);
    emu_named_barrier *n = &cta->named[id];
    if (!all && (count % EMU_LANES != 0 || count == 0 || count > 1024))
        return emu_fault(w, -1, EMU_BARRIER_MISUSE, op, "barrier %u: a count of %u threads is not a multiple of 32", id, count);
    if (n->arrived > 0 && (n->all != all || (!all && n->expected != count)))
        return emu_fault(w, -1, EMU_BARRIER_MISUSE, op, "barrier %u: %u threads expected here, %u by those that came before", id, count, n->expected);
    if (here == EMU_LANES && n->warps >> w->index & 1)
        emu_report_finding(cta, w, -1, EMU_BARRIER_MISUSE, EMU_NOTE, op->source, "barrier %u: this warp arrives a second time before it completes", id);
    if (n->arrived == 0) n->conjunction = 1, n->sum = n->disjunction = 0;
    *generation = n->generation;
    n->all = all;
    n->expected = count;
    n->arrived += here;
    n->warps |= 1ull << w->index;
    EMU_EVENT(cta, w, EMU_EVENT_ARRIVE, EMU_MEMORY_NAMED_BARRIER, EMU_UNIT_WARP, mask, id, count, 0);
    return n->arrived >= count ? EMU_NEXT : EMU_WAITING;
}

static emu_step wait_named(emu_warp *w, uint32_t id, uint64_t generation) {
    emu_fragment *f = emu_current(w);
    f->barrier = id;
    f->generation = generation;
    return EMU_WAITING;
}

emu_step emu_do_barrier_sync(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t id = emu_lanes(w, op->a)[emu_first(mask)];
    uint64_t generation = 0;
    emu_step step = op->extra ? emu_need_all(w, op, mask) : EMU_NEXT;
    if (step != EMU_NEXT) return step;
    step = arrive_named(w, op, mask, id, &generation);
    if (step == EMU_NEXT) complete_named(w->cta, (int)id);
    return step == EMU_WAITING ? wait_named(w, id, generation) : step;
}

emu_step emu_do_barrier_arrive(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t id = emu_lanes(w, op->a)[emu_first(mask)];
    uint64_t generation;
    emu_step step = op->extra ? emu_need_all(w, op, mask) : EMU_NEXT;
    if (step != EMU_NEXT) return step;
    step = arrive_named(w, op, mask, id, &generation);
    if (step == EMU_NEXT) complete_named(w->cta, (int)id);
    return step == EMU_WAITING ? EMU_NEXT : step;
}

static void give_reduced(emu_warp *w, const emu_op *op, uint32_t mask, uint32_t id) {
    const emu_named_barrier *n = &w->cta->named[id];
    if (op->is_signed) {
        EMU_EACH_LANE(lane, mask) emu_lanes(w, op->d)[lane] = n->last_sum;
    } else {
        emu_set_pred(w, op->p, (op->compare == PTX_AND ? n->last_conjunction : n->last_disjunction) ? ~0u : 0, mask);
    }
}

/* With mask 0: the barrier has completed, write the result (warp.c, wake). */
emu_step emu_do_barrier_reduce(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_fragment *f = emu_current(w);
    uint64_t generation = 0;
    if (mask == 0) {
        give_reduced(w, op, f->mask, f->barrier);
        return EMU_NEXT;
    }
    uint32_t id = emu_lanes(w, op->a)[emu_first(mask)], yes = emu_pred(w, op->s) & mask;
    emu_step step = op->extra ? emu_need_all(w, op, mask) : EMU_NEXT;
    if (step != EMU_NEXT) return step;
    step = arrive_named(w, op, mask, id, &generation);
    if (step == EMU_STOP) return step;
    emu_named_barrier *n = &w->cta->named[id];
    n->sum += (uint32_t)__builtin_popcount(yes);
    n->conjunction &= yes == mask;
    n->disjunction |= yes != 0;
    if (step == EMU_WAITING) return wait_named(w, id, generation);
    complete_named(w->cta, (int)id);
    give_reduced(w, op, mask, id);
    return EMU_NEXT;
}

/* ---- setmaxnreg, ISA 9.7.19.5 ---- */

emu_step emu_do_registers(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t want = (uint32_t)op->value;
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    if (w->cta->machine->entry_registers == 0) return EMU_NEXT; /* the assembler ignores it without launch bounds */
    if (op->extra == 0) {
        if (want > w->registers)
            return emu_fault(w, -1, EMU_OTHER, op, "setmaxnreg.dec to %u: this warp has %u registers", want, w->registers);
        w->cta->register_pool += (w->registers - want) * EMU_LANES;
        w->registers = want;
        w->cta->changes++;
        return EMU_NEXT;
    }
    if (want < w->registers) return emu_fault(w, -1, EMU_OTHER, op, "setmaxnreg.inc to %u: this warp has %u registers", want, w->registers);
    if ((want - w->registers) * EMU_LANES > w->cta->register_pool) return EMU_RETRY;
    w->cta->register_pool -= (want - w->registers) * EMU_LANES;
    w->registers = want;
    return EMU_NEXT;
}
