/* Decoding of instructions that address memory: loads, stores, atomics, matrix fragments, address conversion and asynchronous copies. */
#include "lower_internal.h"

static bool has_place(lowering *l, const ptx_operand *o, emu_op *op) {
    emu_place place;
    if (!emu_lower_place(l, o, &place)) return false;
    op->a = place.slot;
    op->value = place.offset;
    op->wide |= place.wide ? 2 : 0;
    return true;
}

static uint8_t first_space(const ptx_form *f) {
    return f->space_count > 0 ? f->spaces[0] : PTX_SPACE_GENERIC;
}

static void element_type(const ptx_form *f, emu_op *op) {
    int type = f->types[0];
    op->bits = (uint8_t)ptx_type_bits(type);
    op->is_signed = type == PTX_TYPE_S8 || type == PTX_TYPE_S16 || type == PTX_TYPE_S32 || type == PTX_TYPE_S64;
}

static bool lower_load(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    bool wide;
    op->space = first_space(f);
    element_type(f, op);
    op->list = emu_lower_list(l, &instr->operands[0], false, &op->count, &wide);
    op->wide |= wide;
    if (op->bits == 128 && op->count != 1) l->reason = "vectors of b128";
    if (op->space == PTX_SPACE_PARAM_FUNC) l->reason = "parameters of calls";
    op->run = op->space == PTX_SPACE_PARAM || op->space == PTX_SPACE_PARAM_ENTRY ? emu_do_load_param : emu_do_load;
    if (f->opcode == PTX_OP_LD && op->space != PTX_SPACE_SHARED && op->space != PTX_SPACE_SHARED_CTA &&
        (f->semantics == PTX_ACQUIRE || f->semantics == PTX_VOLATILE || f->semantics == PTX_RELAXED) && f->space_count > 0 &&
        op->space == PTX_SPACE_GLOBAL)
        op->flags |= EMU_FLAG_ORDERS; /* it may spin on what another CTA writes */
    return has_place(l, &instr->operands[1], op);
}

static bool lower_store(lowering *l, const ptx_instr *instr, emu_op *op) {
    bool wide;
    op->space = first_space(instr->form);
    element_type(instr->form, op);
    op->list = emu_lower_list(l, &instr->operands[1], op->bits == 64, &op->count, &wide);
    op->wide |= wide;
    op->run = emu_do_store;
    if (op->bits == 128 && op->count != 1) l->reason = "vectors of b128";
    return has_place(l, &instr->operands[0], op);
}

/* atom.vN d, [a], b; red.vN [a], b: elements in order, each atomic for itself. */
static bool lower_atomic_vector(lowering *l, const ptx_operand *o, bool atom, emu_op *op) {
    emu_more *more = emu_lower_more(l, op);
    uint8_t count;
    bool wide;
    if (more == NULL) return false;
    if (atom) op->list = emu_lower_list(l, o++, false, &op->count, &wide);
    if (!has_place(l, o++, op)) return false;
    more->list2 = emu_lower_list(l, o, false, &count, &wide);
    more->count2 = count;
    op->run = emu_do_atomic_vector;
    op->flags |= EMU_FLAG_ORDERS;
    return op->bits <= 32 && (!atom || op->count == count);
}

/* atom d, [a], b{, c}; red [a], b. */
static bool lower_atomic(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    bool atom = f->opcode == PTX_OP_ATOM, wide = false;
    const ptx_operand *o = instr->operands;
    op->space = first_space(f);
    emu_atomic_describe(op, f->operation, f->types[0]);
    if (f->vector) return lower_atomic_vector(l, o, atom, op);
    op->d = EMU_SINK_SLOT;
    if (atom) {
        op->d = emu_lower_slot(l, o, false, &wide);
        op->wide |= wide;
        o++;
    }
    if (!has_place(l, o++, op)) return false;
    op->b = emu_lower_slot(l, o++, op->bits == 64, &wide);
    op->wide |= wide ? 4 : 0;
    if (atom && op->extra == PTX_CAS) {
        op->c = emu_lower_slot(l, o, op->bits == 64, &wide);
        op->wide |= wide ? 8 : 0;
    }
    if (op->space != PTX_SPACE_SHARED && op->space != PTX_SPACE_SHARED_CTA && op->space != PTX_SPACE_SHARED_CLUSTER) op->flags |= EMU_FLAG_ORDERS;
    op->run = atom ? emu_do_atomic : emu_do_reduce;
    return op->bits <= 64;
}

static bool lower_matrix(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    bool wide, load = f->opcode == PTX_OP_LDMATRIX;
    if (f->m != 8 || f->n != 8 || ptx_type_bits(f->types[0]) != 16) {
        l->reason = "matrix shapes other than m8n8.b16";
        return false;
    }
    op->space = first_space(f);
    op->extra = f->trans;
    op->run = load ? emu_do_ldmatrix : emu_do_stmatrix;
    op->list = emu_lower_list(l, &instr->operands[load ? 0 : 1], false, &op->count, &wide);
    return has_place(l, &instr->operands[load ? 1 : 0], op);
}

static bool lower_convert(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    bool wide_d, wide_a;
    op->run = emu_do_convert_address;
    op->space = first_space(f);
    op->extra = f->to;
    op->bits = (uint8_t)ptx_type_bits(f->types[0]);
    op->d = emu_lower_slot(l, &instr->operands[0], false, &wide_d);
    op->a = emu_lower_slot(l, &instr->operands[1], op->bits == 64, &wide_a);
    op->wide = (uint8_t)(wide_d | wide_a << 1);
    return true;
}

static bool lower_is_space(lowering *l, const ptx_instr *instr, emu_op *op) {
    bool wide;
    op->run = emu_do_is_space;
    op->space = first_space(instr->form);
    op->a = emu_lower_slot(l, &instr->operands[1], true, &wide);
    op->wide = (uint8_t)(wide << 1);
    return emu_lower_predicate(l, &instr->operands[0], &op->p);
}

static bool place_and_space(lowering *l, const ptx_instr *instr, int operand, emu_place *place, int space) {
    if (!emu_lower_place(l, &instr->operands[operand], place)) return false;
    place->space = instr->form->space_count > space ? instr->form->spaces[space] : PTX_SPACE_GENERIC;
    return true;
}

/* cp.async.cX.shared.global [dst], [src], bytes{, source bytes or ignore-src}. */
static bool lower_cp_async(lowering *l, const ptx_instr *instr, emu_op *op) {
    emu_more *more = emu_lower_more(l, op);
    bool wide;
    if (more == NULL) return false;
    op->run = emu_do_copy_async;
    op->value = instr->operands[2].u.value;
    if (instr->operand_count > 3) {
        const ptx_operand *o = &instr->operands[3];
        bool ignores = o->kind == PTX_REGISTER && o->reg_class == PTX_CLASS_PRED;
        if (ignores && !emu_lower_predicate(l, o, &op->s)) return false;
        if (!ignores && !(o->kind == PTX_REGISTER && o->reg_class == PTX_CLASS_B64)) op->b = emu_lower_slot(l, o, false, &wide);
    }
    return place_and_space(l, instr, 0, &more->places[0], 0) && place_and_space(l, instr, 1, &more->places[1], 1);
}

/* cp.async.bulk.dst.src [dst], [src], size{, [mbar]}: extra 0 load, 1 store. */
static bool lower_bulk(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    emu_more *more = emu_lower_more(l, op);
    bool wide;
    if (more == NULL) return false;
    op->run = emu_do_bulk;
    op->extra = f->completion == PTX_BULK_GROUP;
    op->b = emu_lower_slot(l, &instr->operands[2], false, &wide);
    bool to_global = f->spaces[0] == PTX_SPACE_GLOBAL, from_global = f->space_count > 1 && f->spaces[1] == PTX_SPACE_GLOBAL;
    if (!to_global && !from_global && f->spaces[0] == PTX_SPACE_SHARED_CLUSTER) op->run = emu_do_bulk_shared;
    else if (to_global == from_global || to_global != (op->extra == 1)) {
        l->reason = "a bulk copy in this direction";
        return false;
    }
    if (f->multicast) op->e = emu_lower_slot(l, &instr->operands[4], false, &wide);
    if (f->operation) op->flags |= EMU_FLAG_ORDERS;
    if (!place_and_space(l, instr, 0, &more->places[0], 0) || !place_and_space(l, instr, 1, &more->places[1], 1)) return false;
    return op->extra == 1 || place_and_space(l, instr, 3, &more->places[2], 0);
}

/* load: [dst], [map, {c}], [mbar]; store: [map, {c}], [src]. A reduction is a store with an operation. */
static bool lower_bulk_tensor(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    emu_more *more = emu_lower_more(l, op);
    bool store = f->completion == PTX_BULK_GROUP;
    if (more == NULL) return false;
    if (f->load_mode > PTX_TILE) {
        l->reason = "only tile mode is modelled";
        return false;
    }
    op->run = emu_do_bulk_tensor;
    op->extra = store;
    if (f->operation) op->flags |= EMU_FLAG_ORDERS;
    const ptx_operand *tensor = &instr->operands[store ? 0 : 1];
    if (tensor->kind != PTX_TENSOR || !emu_lower_place(l, &tensor->u.elements[0], &more->places[1])) return false;
    bool wide;
    op->list = emu_lower_list(l, &tensor->u.elements[1], false, &op->count, &wide);
    if (op->count != f->dimension) {
        l->reason = "coordinates do not match the dimension";
        return false;
    }
    if (!place_and_space(l, instr, store ? 1 : 0, &more->places[0], store ? 1 : 0)) return false;
    if (f->multicast) op->e = emu_lower_slot(l, &instr->operands[3], false, &wide);
    return store || place_and_space(l, instr, 2, &more->places[2], 0);
}

static bool lower_nothing(emu_op *op) {
    op->run = emu_do_nothing;
    return true;
}

static bool lower_policy(lowering *l, const ptx_instr *instr, emu_op *op) {
    bool wide;
    op->d = emu_lower_slot(l, &instr->operands[0], true, &wide);
    op->a = emu_lower_constant(l, 0, true); /* hints are ignored: any value does */
    op->extra = 2;
    op->run = emu_do_move;
    return true;
}

static bool lower_copy(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine) {
    const ptx_form *f = instr->form;
    switch (f->opcode) {
    case PTX_OP_CP_ASYNC: return lower_cp_async(l, instr, op);
    case PTX_OP_CP_ASYNC_COMMIT_GROUP: op->run = emu_do_copy_async_commit; return true;
    case PTX_OP_CP_ASYNC_WAIT_GROUP: op->run = emu_do_copy_async_wait; op->value = instr->operands[0].u.value; return true;
    case PTX_OP_CP_ASYNC_WAIT_ALL: op->run = emu_do_copy_async_wait; op->extra = 1; return true;
    case PTX_OP_CP_ASYNC_MBARRIER_ARRIVE:
        op->run = emu_do_copy_async_arrive;
        op->extra = f->noinc;
        op->space = first_space(f);
        return has_place(l, &instr->operands[0], op);
    case PTX_OP_CP_REDUCE_ASYNC_BULK:
    case PTX_OP_CP_ASYNC_BULK: return lower_bulk(l, instr, op);
    case PTX_OP_CP_REDUCE_ASYNC_BULK_TENSOR:
    case PTX_OP_CP_ASYNC_BULK_TENSOR: return lower_bulk_tensor(l, instr, op);
    case PTX_OP_CP_ASYNC_BULK_PREFETCH:
    case PTX_OP_CP_ASYNC_BULK_PREFETCH_TENSOR: return lower_nothing(op);
    case PTX_OP_CP_ASYNC_BULK_COMMIT_GROUP: op->run = emu_do_bulk_commit; return true;
    case PTX_OP_CP_ASYNC_BULK_WAIT_GROUP:
        op->run = emu_do_bulk_wait;
        op->value = instr->operands[0].u.value;
        op->extra = f->read;
        return true;
    case PTX_OP_PREFETCH_TENSORMAP:
        op->run = emu_do_prefetch_map;
        op->space = first_space(f);
        return has_place(l, &instr->operands[0], op);
    case PTX_OP_PREFETCH_PARAM_TENSORMAP:
    case PTX_OP_PREFETCH_CONST_TENSORMAP: return lower_nothing(op);
    default: *mine = false; return false;
    }
}

bool emu_lower_memory(lowering *l, const ptx_instr *instr, emu_op *op, bool *mine) {
    const ptx_form *f = instr->form;
    *mine = true;
    switch (f->opcode) {
    case PTX_OP_LD: case PTX_OP_LDU: return lower_load(l, instr, op);
    case PTX_OP_ST: return lower_store(l, instr, op);
    case PTX_OP_ATOM: case PTX_OP_RED: return lower_atomic(l, instr, op);
    case PTX_OP_PREFETCH: case PTX_OP_PREFETCH_L1: case PTX_OP_PREFETCH_L2: case PTX_OP_PREFETCHU_L1:
    case PTX_OP_DISCARD: case PTX_OP_APPLYPRIORITY: return lower_nothing(op);
    case PTX_OP_CREATEPOLICY: return lower_policy(l, instr, op);
    case PTX_OP_LDMATRIX: case PTX_OP_STMATRIX: return lower_matrix(l, instr, op);
    case PTX_OP_MMA: return emu_lower_mma(l, instr, op);
    case PTX_OP_MOVMATRIX: {
        bool wide;
        op->run = emu_do_movmatrix;
        op->d = emu_lower_slot(l, &instr->operands[0], false, &wide);
        op->a = emu_lower_slot(l, &instr->operands[1], false, &wide);
        return true;
    }
    case PTX_OP_CVTA: return lower_convert(l, instr, op);
    case PTX_OP_ISSPACEP: return lower_is_space(l, instr, op);
    default: return lower_copy(l, instr, op, mine);
    }
}
