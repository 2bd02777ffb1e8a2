/* Decoding of control flow, barriers, warp-wide operations, register counts and the matrix units. */
#include "lower_internal.h"

static bool first_place(lowering *l, const ptx_operand *o, emu_op *op, const ptx_form *f) {
    emu_place place;
    if (!emu_lower_place(l, o, &place)) return false;
    op->a = place.slot;
    op->value = place.offset;
    op->wide |= place.wide ? 2 : 0;
    op->space = f->space_count > 0 ? f->spaces[0] : PTX_SPACE_GENERIC;
    return true;
}

/* bar.sync a{, b}: id in a, count in b; extra bit 0: aligned. */
static bool lower_named(lowering *l, const ptx_instr *instr, emu_op *op, emu_handler run, bool aligned) {
    bool wide;
    op->run = run;
    op->extra = aligned;
    op->a = emu_lower_slot(l, &instr->operands[0], false, &wide);
    if (instr->operand_count > 1) op->b = emu_lower_slot(l, &instr->operands[1], false, &wide);
    return true;
}

/* barrier.red: predicate or b32 destination, id{, count}, predicate. */
static bool lower_named_reduce(lowering *l, const ptx_instr *instr, emu_op *op, bool aligned) {
    bool wide;
    const ptx_operand *o = instr->operands;
    int n = instr->operand_count;
    op->run = emu_do_barrier_reduce;
    op->extra = aligned;
    op->compare = instr->form->operation;
    op->is_signed = instr->form->types[0] != PTX_TYPE_PRED; /* .popc into a register */
    if (op->is_signed) op->d = emu_lower_slot(l, &o[0], false, &wide);
    else if (!emu_lower_predicate(l, &o[0], &op->p)) return false;
    op->a = emu_lower_slot(l, &o[1], false, &wide);
    if (n > 3) op->b = emu_lower_slot(l, &o[2], false, &wide);
    return emu_lower_predicate(l, &o[n - 1], &op->s);
}

/* [state,] [address]{, count}: extra bit 0 expect_tx, 1 drop, 2 no complete, 3 has a count. */
static bool lower_arrive(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_operand *o = instr->operands;
    int n = instr->operand_count;
    bool wide;
    op->run = emu_do_mbarrier_arrive;
    op->d = EMU_SINK_SLOT;
    op->wide = 1;
    if (o->kind != PTX_ADDRESS) {
        op->d = emu_lower_slot(l, o, true, &wide);
        o++, n--;
    }
    int opcode = instr->form->opcode;
    bool expect = opcode == PTX_OP_MBARRIER_ARRIVE_EXPECT_TX || opcode == PTX_OP_MBARRIER_ARRIVE_DROP_EXPECT_TX;
    bool drop = opcode == PTX_OP_MBARRIER_ARRIVE_DROP || opcode == PTX_OP_MBARRIER_ARRIVE_DROP_EXPECT_TX;
    op->extra = (uint32_t)expect | (uint32_t)drop << 1 | (uint32_t)instr->form->no_complete << 2 | (uint32_t)(n > 1) << 3;
    if (n > 1) op->b = emu_lower_slot(l, &o[1], false, &wide);
    return first_place(l, o, op, instr->form);
}

/* p, [address], state or parity{, hint}: extra bit 0 parity, bit 1 try. */
static bool lower_wait(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    bool wide;
    op->run = emu_do_mbarrier_wait;
    op->extra = (uint32_t)f->parity | (uint32_t)(f->opcode == PTX_OP_MBARRIER_TRY_WAIT) << 1;
    op->b = emu_lower_slot(l, &instr->operands[2], !f->parity, &wide);
    op->wide |= wide ? 4 : 0;
    return emu_lower_predicate(l, &instr->operands[0], &op->p) && first_place(l, &instr->operands[1], op, f);
}

static bool lower_barrier(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine) {
    const ptx_form *f = instr->form;
    bool wide;
    switch (f->opcode) {
    case PTX_OP_BAR_SYNC: case PTX_OP_BAR_CTA_SYNC: return lower_named(l, instr, op, emu_do_barrier_sync, true);
    case PTX_OP_BAR_ARRIVE: case PTX_OP_BAR_CTA_ARRIVE: return lower_named(l, instr, op, emu_do_barrier_arrive, true);
    case PTX_OP_BARRIER_SYNC: case PTX_OP_BARRIER_CTA_SYNC: return lower_named(l, instr, op, emu_do_barrier_sync, f->aligned);
    case PTX_OP_BARRIER_ARRIVE: case PTX_OP_BARRIER_CTA_ARRIVE: return lower_named(l, instr, op, emu_do_barrier_arrive, f->aligned);
    case PTX_OP_BAR_RED: case PTX_OP_BAR_CTA_RED: return lower_named_reduce(l, instr, op, true);
    case PTX_OP_BARRIER_RED: case PTX_OP_BARRIER_CTA_RED: return lower_named_reduce(l, instr, op, f->aligned);
    case PTX_OP_BAR_WARP_SYNC:
        op->run = emu_do_warp_sync;
        op->a = emu_lower_slot(l, &instr->operands[0], false, &wide);
        return true;
    case PTX_OP_MEMBAR: case PTX_OP_FENCE: case PTX_OP_FENCE_MBARRIER_INIT: case PTX_OP_FENCE_PROXY_ASYNC:
    case PTX_OP_FENCE_PROXY_ALIAS: case PTX_OP_FENCE_PROXY_TENSORMAP: case PTX_OP_FENCE_PROXY_ASYNC_GENERIC:
        op->run = emu_do_fence;
        return true;
    case PTX_OP_MBARRIER_INIT: op->run = emu_do_mbarrier_init; break;
    case PTX_OP_MBARRIER_INVAL: op->run = emu_do_mbarrier_inval; break;
    case PTX_OP_MBARRIER_EXPECT_TX: op->run = emu_do_mbarrier_expect; break;
    case PTX_OP_MBARRIER_COMPLETE_TX: op->run = emu_do_mbarrier_complete; break;
    case PTX_OP_MBARRIER_ARRIVE: case PTX_OP_MBARRIER_ARRIVE_EXPECT_TX: case PTX_OP_MBARRIER_ARRIVE_DROP:
    case PTX_OP_MBARRIER_ARRIVE_DROP_EXPECT_TX: return lower_arrive(l, instr, op);
    case PTX_OP_MBARRIER_TEST_WAIT: case PTX_OP_MBARRIER_TRY_WAIT: return lower_wait(l, instr, op);
    case PTX_OP_MBARRIER_PENDING_COUNT:
        op->run = emu_do_mbarrier_pending;
        op->d = emu_lower_slot(l, &instr->operands[0], false, &wide);
        op->a = emu_lower_slot(l, &instr->operands[1], true, &wide);
        return true;
    default: *mine = false; return false;
    }
    if (instr->operand_count > 1) op->b = emu_lower_slot(l, &instr->operands[1], false, &wide);
    return first_place(l, &instr->operands[0], op, f);
}

/* A destination r|p: d and p. */
static bool lower_result(lowering *l, const ptx_operand *o, emu_op *op) {
    bool wide;
    const ptx_operand *value = o->kind == PTX_PAIR ? &o->u.elements[0] : o;
    op->p = (emu_predicate){0, 0};
    op->d = emu_lower_slot(l, value, false, &wide);
    return o->kind != PTX_PAIR || emu_lower_predicate(l, &o->u.elements[1], &op->p);
}

static bool lower_warp(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine) {
    const ptx_form *f = instr->form;
    const ptx_operand *o = instr->operands;
    bool wide;
    switch (f->opcode) {
    case PTX_OP_SHFL: /* d|p, a, b, c, membermask */
        op->run = emu_do_shuffle;
        op->extra = f->shuffle;
        op->a = emu_lower_slot(l, &o[1], false, &wide);
        op->b = emu_lower_slot(l, &o[2], false, &wide);
        op->c = emu_lower_slot(l, &o[3], false, &wide);
        op->e = emu_lower_slot(l, &o[4], false, &wide);
        return f->sync && lower_result(l, &o[0], op);
    case PTX_OP_VOTE:
        op->run = emu_do_vote;
        op->extra = f->vote;
        op->e = emu_lower_slot(l, &o[2], false, &wide);
        if (f->vote == PTX_VOTE_BALLOT) op->d = emu_lower_slot(l, &o[0], false, &wide);
        else if (!emu_lower_predicate(l, &o[0], &op->p)) return false;
        return f->sync && emu_lower_predicate(l, &o[1], &op->s);
    case PTX_OP_MATCH:
        op->run = emu_do_match;
        op->extra = f->match;
        op->a = emu_lower_slot(l, &o[1], ptx_type_bits(f->types[0]) == 64, &wide);
        op->wide = (uint8_t)(wide << 1);
        op->e = emu_lower_slot(l, &o[2], false, &wide);
        return lower_result(l, &o[0], op);
    case PTX_OP_REDUX:
        op->run = emu_do_redux;
        op->extra = f->operation;
        op->format = f->types[0] == PTX_TYPE_F32 ? EMU_F32 : EMU_FORMATS;
        op->is_signed = f->types[0] == PTX_TYPE_S32;
        op->mode = (emu_mode){.nan = f->nan, .abs = f->abs};
        op->d = emu_lower_slot(l, &o[0], false, &wide);
        op->a = emu_lower_slot(l, &o[1], false, &wide);
        op->e = emu_lower_slot(l, &o[2], false, &wide);
        return true;
    case PTX_OP_ACTIVEMASK: op->run = emu_do_activemask; op->d = emu_lower_slot(l, &o[0], false, &wide); return true;
    case PTX_OP_ELECT:
        op->run = emu_do_elect;
        op->e = emu_lower_slot(l, &o[1], false, &wide);
        return lower_result(l, &o[0], op);
    case PTX_OP_SETMAXNREG:
        op->run = emu_do_registers;
        op->extra = f->change == PTX_CHANGE_INC;
        op->value = o[0].u.value;
        if (op->value % 8 != 0 || op->value < 24 || op->value > 256) l->reason = "expected a multiple of 8 in 24..256";
        return true;
    case PTX_OP_GRIDDEPCONTROL_WAIT: case PTX_OP_GRIDDEPCONTROL_LAUNCH_DEPENDENTS: case PTX_OP_PMEVENT:
        op->run = emu_do_nothing; /* no dependent launches here */
        return true;
    case PTX_OP_NANOSLEEP:
        op->run = emu_do_sleep;
        op->a = emu_lower_slot(l, &o[0], false, &wide);
        return true;
    default: *mine = false; return false;
    }
}

static bool lower_control(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine) {
    bool wide;
    switch (instr->form->opcode) {
    case PTX_OP_BRA:
        op->run = emu_do_branch;
        op->value = instr->operands[0].index;
        return instr->operands[0].kind == PTX_LABEL;
    case PTX_OP_BRX_IDX: {
        const ptx_operand *targets = &instr->operands[1];
        if (targets->kind != PTX_TARGETS) return false;
        emu_slot *list = emu_lower_block(l, targets->count * sizeof *list);
        if (list == NULL) return false;
        for (int i = 0; i < targets->count; i++) list[i] = targets->u.elements[i].index;
        op->list = list;
        op->count = targets->count;
        op->a = emu_lower_slot(l, &instr->operands[0], false, &wide);
        op->run = emu_do_branch_indexed;
        return true;
    }
    case PTX_OP_RET: case PTX_OP_EXIT: op->run = emu_do_exit; return true;
    case PTX_OP_TRAP: op->run = emu_do_trap; return true;
    case PTX_OP_BRKPT: op->run = emu_do_nothing; return true;
    case PTX_OP_CALL: l->reason = "a call through a pointer, of itself, or of a function without a body here"; return false;
    default: *mine = false; return false;
    }
}

/* tcgen05.mma [d], a, b, idesc{, {masks}}, p{, scale}. */
static bool lower_tensor_mma(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_operand *o = instr->operands;
    emu_more *more = emu_lower_more(l, op);
    bool wide;
    int n = instr->operand_count, at = 4;
    if (more == NULL) return false;
    if (instr->form->kind != PTX_KIND_F16) {
        l->reason = "only kind::f16 is modelled";
        return false;
    }
    op->run = emu_do_tensor_mma;
    op->extra = o[1].kind == PTX_ADDRESS;
    if (!emu_lower_place(l, &o[0], &more->places[0])) return false;
    if (op->extra && !emu_lower_place(l, &o[1], &more->places[1])) return false;
    if (!op->extra) more->slots[0] = emu_lower_slot(l, &o[1], true, &wide);
    more->slots[1] = emu_lower_slot(l, &o[2], true, &wide);
    more->slots[2] = emu_lower_slot(l, &o[3], false, &wide);
    if (o[at].kind == PTX_VECTOR) {
        op->list = emu_lower_list(l, &o[at], false, &op->count, &wide);
        if (op->count != 4 * instr->form->cta_group) l->reason = "a lane mask has four words for each CTA";
        at++;
    }
    if (at >= n || !emu_lower_predicate(l, &o[at++], &op->s)) return false;
    op->value = at < n ? o[at].u.value : 0;
    return true;
}

/* Shapes of tensor memory transfers: only 32x32b. */
static bool lower_tensor_transfer(lowering *l, const ptx_instr *instr, emu_op *op, bool load) {
    const ptx_form *f = instr->form;
    bool wide;
    if (f->lanes != PTX_32X32B || f->pack) {
        l->reason = "only .32x32b without pack is modelled";
        return false;
    }
    op->run = load ? emu_do_tensor_load : emu_do_tensor_store;
    op->list = emu_lower_list(l, &instr->operands[load ? 0 : 1], false, &op->count, &wide);
    if (op->count != f->repeat) l->reason = "the register list does not match .xN";
    return first_place(l, &instr->operands[load ? 1 : 0], op, f);
}

static bool lower_tensor(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine) {
    const ptx_form *f = instr->form;
    const ptx_operand *o = instr->operands;
    bool wide;
    l->code->tensor |= f->opcode >= PTX_OP_TCGEN05_ALLOC && f->opcode <= PTX_OP_TCGEN05_FENCE_AFTER;
    if (f->opcode >= PTX_OP_TCGEN05_ALLOC && f->opcode <= PTX_OP_TCGEN05_FENCE_AFTER && f->cta_group != 0) {
        if (l->code->cta_group != 0 && l->code->cta_group != f->cta_group) l->reason = "a kernel has either .cta_group::1 or .cta_group::2";
        l->code->cta_group = f->cta_group;
    }
    switch (f->opcode) {
    case PTX_OP_TCGEN05_ALLOC:
        op->run = emu_do_tensor_alloc;
        op->b = emu_lower_slot(l, &o[1], false, &wide);
        return first_place(l, &o[0], op, f);
    case PTX_OP_TCGEN05_DEALLOC:
        op->run = emu_do_tensor_dealloc;
        op->a = emu_lower_slot(l, &o[0], false, &wide);
        op->b = emu_lower_slot(l, &o[1], false, &wide);
        return true;
    case PTX_OP_TCGEN05_RELINQUISH_ALLOC_PERMIT: op->run = emu_do_tensor_relinquish; return true;
    case PTX_OP_TCGEN05_LD: return lower_tensor_transfer(l, instr, op, true);
    case PTX_OP_TCGEN05_ST: return lower_tensor_transfer(l, instr, op, false);
    case PTX_OP_TCGEN05_WAIT_LD: op->run = emu_do_tensor_wait_load; return true;
    case PTX_OP_TCGEN05_WAIT_ST: op->run = emu_do_tensor_wait_store; return true;
    case PTX_OP_TCGEN05_MMA: return lower_tensor_mma(l, instr, op);
    case PTX_OP_TCGEN05_COMMIT:
        op->run = emu_do_tensor_commit;
        if (f->multicast) op->e = emu_lower_slot(l, &o[1], false, &wide);
        return first_place(l, &o[0], op, f);
    case PTX_OP_TCGEN05_FENCE_BEFORE: case PTX_OP_TCGEN05_FENCE_AFTER: op->run = emu_do_tensor_fence; return true;
    default: *mine = false; return false;
    }
}

/* wgmma.mma_async d, a, b, p, scale-a, scale-b{, trans-a}, trans-b. extra bits: 0 A in registers, 1 negate A, 2 negate B, 3 A and 4 B MN-major. */
static bool lower_wgmma(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    const ptx_operand *o = instr->operands;
    bool wide, registers = o[1].kind == PTX_VECTOR;
    int n = instr->operand_count;
    uint8_t a_count = 0;
    emu_more *more = emu_lower_more(l, op);
    if (more == NULL) return false;
    bool half = f->types[1] == PTX_TYPE_F16 || f->types[1] == PTX_TYPE_BF16;
    if (!half || f->types[1] != f->types[2] || f->k != 16 || f->types[0] == PTX_TYPE_S32) {
        l->reason = "only f16 and bf16 inputs are modelled";
        return false;
    }
    op->run = emu_do_wgmma_mma;
    op->bits = f->types[0] == PTX_TYPE_F32 ? 32 : 16;
    op->is_signed = f->types[1] == PTX_TYPE_BF16;
    op->list = emu_lower_list(l, &o[0], false, &op->count, &wide);
    if (op->count != f->n / (op->bits == 32 ? 2 : 4)) l->reason = "the accumulator list does not match the shape";
    if (registers) {
        more->list2 = emu_lower_list(l, &o[1], false, &a_count, &wide);
        more->count2 = a_count;
        if (a_count != 4) l->reason = "A has four registers";
    } else {
        more->slots[0] = emu_lower_slot(l, &o[1], true, &wide);
    }
    more->slots[1] = emu_lower_slot(l, &o[2], true, &wide);
    if (!emu_lower_predicate(l, &o[3], &op->s) || n < 6) return false;
    bool trans_a = !registers && n >= 8 && o[6].u.value != 0, trans_b = n >= 7 && o[n - 1].u.value != 0;
    op->extra = (uint32_t)registers | (uint32_t)(o[4].u.value == -1) << 1 | (uint32_t)(o[5].u.value == -1) << 2 | (uint32_t)trans_a << 3 |
                (uint32_t)trans_b << 4;
    op->value = f->n;
    return true;
}

bool emu_lower_unit(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine) {
    *mine = true;
    bool accepted = lower_control(l, instr, op, mine);
    if (!*mine) *mine = true, accepted = lower_barrier(l, instr, op, mine);
    if (!*mine) *mine = true, accepted = lower_warp(l, instr, op, mine);
    if (!*mine) *mine = true, accepted = lower_tensor(l, instr, op, mine);
    if (*mine) return accepted;
    *mine = true;
    switch (instr->form->opcode) {
    case PTX_OP_WGMMA_FENCE: op->run = emu_do_wgmma_fence; return l->code->wgmma = true;
    case PTX_OP_WGMMA_COMMIT_GROUP: op->run = emu_do_wgmma_commit; return l->code->wgmma = true;
    case PTX_OP_WGMMA_WAIT_GROUP:
        op->run = emu_do_wgmma_wait;
        op->value = instr->operands[0].u.value;
        return l->code->wgmma = true;
    case PTX_OP_WGMMA_MMA_ASYNC: l->code->wgmma = true; return lower_wgmma(l, instr, op);
    default: *mine = false; return false;
    }
}
