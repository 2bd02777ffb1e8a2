/* Decoding of what reaches other CTAs of a cluster: addresses by rank, the cluster's barrier, remote accesses, cluster launch control. */
#include "lower_internal.h"

static bool places(lowering *l, const ptx_instr *instr, int first, int second, emu_op *op) {
    emu_more *more = emu_lower_more(l, op);
    return more != NULL && emu_lower_place(l, &instr->operands[first], &more->places[0]) && emu_lower_place(l, &instr->operands[second], &more->places[1]);
}

/* mapa d, a, rank; getctarank d, a. */
static bool lower_rank(lowering *l, const ptx_instr *instr, emu_op *op) {
    bool wide_d, wide_a, wide;
    bool map = instr->form->opcode == PTX_OP_MAPA;
    op->run = emu_do_cluster_rank;
    op->d = emu_lower_slot(l, &instr->operands[0], false, &wide_d);
    op->a = emu_lower_slot(l, &instr->operands[1], ptx_type_bits(instr->form->types[0]) == 64, &wide_a);
    if (map) op->b = emu_lower_slot(l, &instr->operands[2], false, &wide);
    op->wide = (uint8_t)(wide_d | wide_a << 1);
    return true;
}

/* st.async [a], values, [mbarrier]; red.async [a], value, [mbarrier]. */
static bool lower_store_async(lowering *l, const ptx_instr *instr, emu_op *op) {
    bool wide;
    op->run = emu_do_store_async;
    op->bits = (uint8_t)ptx_type_bits(instr->form->types[0]);
    op->list = emu_lower_list(l, &instr->operands[1], op->bits == 64, &op->count, &wide);
    op->wide = wide;
    if (op->bits < 32 || op->bits > 64) l->reason = "expected elements of 32 or 64 bits";
    return places(l, instr, 0, 2, op);
}

bool emu_lower_cluster(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine) {
    const ptx_form *f = instr->form;
    const ptx_operand *o = instr->operands;
    bool wide;
    *mine = true;
    switch (f->opcode) {
    case PTX_OP_MAPA: case PTX_OP_GETCTARANK: return lower_rank(l, instr, op);
    case PTX_OP_BARRIER_CLUSTER_ARRIVE: op->run = emu_do_cluster_arrive; op->extra = f->aligned; return true;
    case PTX_OP_BARRIER_CLUSTER_WAIT: op->run = emu_do_cluster_wait; op->extra = f->aligned; return true;
    case PTX_OP_ST_ASYNC: case PTX_OP_RED_ASYNC: return lower_store_async(l, instr, op);
    case PTX_OP_CLC_TRY_CANCEL:
        op->run = emu_do_cancel;
        op->flags |= EMU_FLAG_ORDERS; /* what is cancelled depends on what has started */
        return places(l, instr, 0, 1, op);
    case PTX_OP_CLC_IS_CANCELED:
        op->run = emu_do_is_canceled;
        op->a = emu_lower_slot(l, &o[1], true, &wide);
        return emu_lower_predicate(l, &o[0], &op->p);
    case PTX_OP_CLC_GET_FIRST_CTAID:
        op->run = emu_do_canceled_ctaid;
        op->extra = f->ctaid_axis;
        op->list = emu_lower_list(l, &o[0], false, &op->count, &wide);
        op->a = emu_lower_slot(l, &o[1], true, &wide);
        if (op->count != (f->ctaid_axis == 4 ? 4 : 1)) l->reason = "one register for an axis, four for all";
        return true;
    default: *mine = false; return false;
    }
}

void emu_lower_visit(lowering *l, emu_op *op) {
    emu_handler run = op->run;
    bool visits = run == emu_do_load || run == emu_do_store || run == emu_do_atomic || run == emu_do_atomic_vector || run == emu_do_reduce ||
                  run == emu_do_mbarrier_arrive || run == emu_do_mbarrier_expect || run == emu_do_mbarrier_complete;
    if (!l->code->cluster || !visits || (op->space != PTX_SPACE_GENERIC && op->space != PTX_SPACE_SHARED_CLUSTER)) return;
    const emu_more *before = op->more;
    emu_more *more = emu_lower_more(l, op);
    if (more == NULL) return;
    if (before != NULL) *more = *before;
    more->base = run;
    op->run = emu_do_visit;
}
