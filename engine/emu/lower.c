/*
 * PTX function -> decoded code: a handler and operand slots per instruction. Registers become planes of 32 lanes, 64-bit registers two
 * planes; immediates become constant planes that all warps share; special registers become planes that each warp fills once.
 */
#include "flow.h"
#include "lower_internal.h"

#include <stdio.h>
#include <stdlib.h>

void *emu_lower_block(lowering *l, size_t bytes) {
    emu_code *code = l->code;
    if (code->block_count == l->block_max) {
        uint32_t max = l->block_max ? 2 * l->block_max : 256;
        void **blocks = realloc(code->blocks, max * sizeof *blocks);
        if (blocks == NULL) {
            l->no_memory = true;
            return NULL;
        }
        code->blocks = blocks;
        l->block_max = max;
    }
    void *block = calloc(1, bytes ? bytes : 1);
    if (block == NULL) l->no_memory = true;
    else code->blocks[code->block_count++] = block;
    return block;
}

static bool grow_constants(lowering *l, uint32_t planes) {
    emu_code *code = l->code;
    if (code->constant_count + planes <= l->constant_max) return true;
    uint32_t max = l->constant_max ? 2 * l->constant_max : 256;
    emu_plane *grown = aligned_alloc(64, max * sizeof *grown);
    if (grown == NULL) {
        l->no_memory = true;
        return false;
    }
    if (code->constant_count) memcpy(grown, code->constants, code->constant_count * sizeof *grown);
    free(code->constants);
    code->constants = grown;
    l->constant_max = max;
    return true;
}

static bool is_window(const emu_code *code, uint32_t plane) {
    for (uint32_t i = 0; i < code->window_count; i++)
        if (code->windows[i] == plane) return true;
    return false;
}

/* An address in shared memory as a constant of its own, which each CTA of a cluster completes with its rank. */
static emu_slot window_constant(lowering *l, uint64_t value) {
    emu_code *code = l->code;
    for (uint32_t i = 0; i < code->window_count; i++)
        if (code->constants[code->windows[i]].lane[0] == (uint32_t)value) return code->windows[i] | EMU_CONSTANT;
    uint32_t *grown = realloc(code->windows, (code->window_count + 1u) * sizeof *grown);
    if (grown == NULL) l->no_memory = true;
    if (grown == NULL || !grow_constants(l, 2)) return EMU_CONSTANT;
    code->windows = grown;
    uint32_t at = code->constant_count;
    for (int i = 0; i < EMU_LANES; i++) code->constants[at].lane[i] = (uint32_t)value, code->constants[at + 1].lane[i] = 0;
    code->constant_count += 2;
    code->windows[code->window_count++] = at;
    return at | EMU_CONSTANT;
}

static bool in_window(const lowering *l, uint32_t symbol) {
    int space = l->module->program->symbols[symbol].space;
    return l->code->cluster && (space == PTX_SPACE_SHARED || space == PTX_SPACE_SHARED_CTA || space == PTX_SPACE_SHARED_CLUSTER);
}

emu_slot emu_lower_constant(lowering *l, uint64_t value, bool wide) {
    emu_code *code = l->code;
    uint32_t low = (uint32_t)value, high = (uint32_t)(value >> 32);
    uint32_t from = code->constant_count > 64 ? code->constant_count - 64 : 0; /* a short look back finds most repeats */
    for (uint32_t i = from; i + wide < code->constant_count; i++)
        if (code->constants[i].lane[0] == low && (!wide || code->constants[i + 1].lane[0] == high) && !is_window(code, i) && !is_window(code, i + wide))
            return i | EMU_CONSTANT;
    if (!grow_constants(l, wide ? 2 : 1)) return EMU_CONSTANT;
    uint32_t at = code->constant_count;
    for (int i = 0; i < EMU_LANES; i++) {
        code->constants[at].lane[i] = low;
        if (wide) code->constants[at + 1].lane[i] = high;
    }
    code->constant_count += wide ? 2 : 1;
    return at | EMU_CONSTANT;
}

static uint64_t symbol_address(lowering *l, uint32_t index) {
    const ptx_symbol *s = &l->module->program->symbols[index];
    switch (s->space) {
    case PTX_SPACE_SHARED: case PTX_SPACE_SHARED_CTA: case PTX_SPACE_SHARED_CLUSTER:
        return EMU_SHARED_BASE + (uint64_t)l->function->shared_offset[index];
    case PTX_SPACE_GLOBAL: return (uint64_t)(uintptr_t)l->module->globals + s->offset;
    default: return s->offset;
    }
}

static emu_slot special_slot(lowering *l, uint32_t special) {
    if (special == PTX_SPECIAL_CLOCK || special == PTX_SPECIAL_CLOCK_HI || special == PTX_SPECIAL_CLOCK64 ||
        special == PTX_SPECIAL_GLOBALTIMER || special == PTX_SPECIAL_GLOBALTIMER_LO || special == PTX_SPECIAL_GLOBALTIMER_HI) {
        l->reason = "a clock register is read by mov only";
        return EMU_SINK_SLOT;
    }
    l->code->special_used[special] = true;
    return (emu_slot)l->special_slot[special];
}

emu_slot emu_lower_slot(lowering *l, const ptx_operand *o, bool want_wide, bool *wide) {
    *wide = want_wide;
    switch (o->kind) {
    case PTX_REGISTER:
        *wide = o->reg_class == PTX_CLASS_B64;
        if (o->reg_class == PTX_CLASS_PRED) l->reason = "a predicate where a register is expected";
        return l->code->slot_of[o->reg_class][o->index];
    case PTX_SINK: return EMU_SINK_SLOT;
    case PTX_IMMEDIATE: return emu_lower_constant(l, (uint64_t)o->u.value, want_wide);
    case PTX_SPECIAL: return special_slot(l, o->index);
    case PTX_SYMBOL:
        if (in_window(l, o->index)) return window_constant(l, symbol_address(l, o->index) + (uint64_t)o->u.value);
        return emu_lower_constant(l, symbol_address(l, o->index) + (uint64_t)o->u.value, want_wide);
    default: l->reason = "an operand of this kind is not expected here"; return EMU_SINK_SLOT;
    }
}

bool emu_lower_predicate(lowering *l, const ptx_operand *o, emu_predicate *p) {
    if (o->kind == PTX_REGISTER && o->reg_class == PTX_CLASS_PRED) {
        *p = (emu_predicate){(uint16_t)(o->index + 3), o->sub};
        return true;
    }
    if (o->kind == PTX_IMMEDIATE) {
        *p = (emu_predicate){o->u.value != 0, 0};
        return true;
    }
    if (o->kind == PTX_SINK) {
        *p = (emu_predicate){0, 0};
        return true;
    }
    l->reason = "a predicate is expected";
    return false;
}

bool emu_lower_place(lowering *l, const ptx_operand *o, emu_place *place) {
    *place = (emu_place){.slot = EMU_NO_SLOT, .wide = 1, .offset = 0};
    if (o->kind != PTX_ADDRESS) {
        l->reason = "an address is expected";
        return false;
    }
    place->offset = o->u.value;
    if (o->sub == PTX_BASE_SYMBOL && in_window(l, o->index)) {
        place->slot = window_constant(l, symbol_address(l, o->index));
        place->wide = 0;
    } else if (o->sub == PTX_BASE_SYMBOL) {
        place->offset += (int64_t)symbol_address(l, o->index);
    } else if (o->sub == PTX_BASE_REGISTER) {
        place->slot = l->code->slot_of[o->reg_class][o->index];
        place->wide = o->reg_class == PTX_CLASS_B64;
    }
    return true;
}

const emu_slot *emu_lower_list(lowering *l, const ptx_operand *o, bool want_wide, uint8_t *count, bool *wide) {
    uint32_t n = o->kind == PTX_VECTOR || o->kind == PTX_LIST ? o->count : 1;
    const ptx_operand *elements = o->kind == PTX_VECTOR || o->kind == PTX_LIST ? o->u.elements : o;
    emu_slot *list = emu_lower_block(l, n * sizeof *list);
    if (list == NULL) return NULL;
    *wide = want_wide;
    for (uint32_t i = 0; i < n; i++) {
        bool element_wide;
        list[i] = emu_lower_slot(l, &elements[i], want_wide, &element_wide);
        if (elements[i].kind == PTX_REGISTER) *wide = element_wide;
    }
    *count = (uint8_t)n;
    return list;
}

emu_more *emu_lower_more(lowering *l, emu_op *op) {
    emu_more *more = emu_lower_block(l, sizeof *more);
    op->more = more;
    return more;
}

/* ---- moves, selection, predicates ---- */

static bool is_clock(uint32_t special) {
    return special >= PTX_SPECIAL_CLOCK && special <= PTX_SPECIAL_GLOBALTIMER_HI;
}

static bool lower_mov(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_operand *d = &instr->operands[0], *s = &instr->operands[1];
    int bits = ptx_type_bits(instr->form->types[0]);
    bool wide_d, wide_s;
    op->bits = (uint8_t)bits;
    if (instr->form->types[0] == PTX_TYPE_PRED) {
        op->run = emu_do_predicate_logic;
        return emu_lower_predicate(l, d, &op->p) && emu_lower_predicate(l, s, &op->q);
    }
    if (s->kind == PTX_VECTOR || d->kind == PTX_VECTOR) {
        bool pack = s->kind == PTX_VECTOR;
        op->run = pack ? emu_do_pack : emu_do_unpack;
        op->list = emu_lower_list(l, pack ? s : d, bits / (pack ? s : d)->count == 64, &op->count, &wide_s);
        op->extra = (uint32_t)bits / op->count;
        op->a = emu_lower_slot(l, pack ? d : s, bits == 64, &wide_d);
        return true;
    }
    op->d = emu_lower_slot(l, d, bits == 64, &wide_d);
    if (s->kind == PTX_SPECIAL && is_clock(s->index)) {
        op->run = emu_do_clock;
        op->extra = s->index;
        op->wide = wide_d;
        return true;
    }
    op->a = emu_lower_slot(l, s, bits >= 64, &wide_s);
    op->extra = bits == 128 ? 4 : wide_d ? 2 : 1;
    if (bits == 128 && s->kind != PTX_REGISTER) l->reason = "mov.b128 needs a register";
    if (op->extra == 2 && !wide_s) { /* a 64-bit register from a 32-bit special register: high half zero */
        l->reason = "mov widens";
        return false;
    }
    op->run = emu_do_move;
    return true;
}

static bool lower_logic(lowering *l, const ptx_instr *instr, emu_op *op) {
    op->run = emu_do_predicate_logic;
    op->extra = instr->form->opcode;
    op->s = (emu_predicate){0, 0};
    return emu_lower_predicate(l, &instr->operands[0], &op->p) && emu_lower_predicate(l, &instr->operands[1], &op->q) &&
           (instr->operand_count < 3 || emu_lower_predicate(l, &instr->operands[2], &op->s));
}

static bool destination_predicates(lowering *l, const ptx_operand *o, emu_op *op) {
    op->q = (emu_predicate){0, 0};
    if (o->kind != PTX_PAIR) return emu_lower_predicate(l, o, &op->p);
    return emu_lower_predicate(l, &o->u.elements[0], &op->p) && emu_lower_predicate(l, &o->u.elements[1], &op->q);
}

/* Operands 1.. of plain arithmetic: sources in a, b, c (and e). */
static bool lower_sources(lowering *l, const ptx_instr *instr, emu_op *op, int first, int last) {
    emu_slot *slots[4] = {&op->a, &op->b, &op->c, &op->e};
    for (int i = first; i < last; i++) {
        bool wide, want = op->bits == 64 || ptx_type_bits(instr->form->types[0]) == 64;
        const ptx_operand *o = &instr->operands[i];
        if (instr->form->opcode == PTX_OP_CVT) want = ptx_type_bits(instr->form->types[1]) == 64;
        if ((instr->form->opcode == PTX_OP_MAD || instr->form->opcode == PTX_OP_MADC) && instr->form->half == PTX_HALF_WIDE && i == 3)
            want = op->bits == 32;
        *slots[i - first] = emu_lower_slot(l, o, want, &wide);
        if (i - first < 3) op->wide |= (uint8_t)(wide << (i - first + 1));
    }
    return true;
}

static bool is_setp(int opcode) {
    return opcode == PTX_OP_SETP || opcode == PTX_OP_TESTP;
}

static bool lower_plain(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    int sources = instr->operand_count;
    if (f->opcode == PTX_OP_LOP3) sources = 4;
    if ((f->opcode == PTX_OP_SETP || f->opcode == PTX_OP_SET) && sources == 4) {
        if (!emu_lower_predicate(l, &instr->operands[3], &op->s)) return false;
        sources = 3;
    }
    if (sources > 5) return false;
    if (is_setp(f->opcode)) {
        if (!destination_predicates(l, &instr->operands[0], op)) return false;
    } else {
        bool wide;
        op->d = emu_lower_slot(l, &instr->operands[0], false, &wide);
        op->wide |= wide;
    }
    return lower_sources(l, instr, op, 1, sources);
}

static bool lower_carry(lowering *l, const ptx_instr *instr, emu_op *op) {
    op->run = emu_do_carry;
    op->bits = (uint8_t)ptx_type_bits(instr->form->types[0]);
    op->is_signed = instr->form->types[0] == PTX_TYPE_S32 || instr->form->types[0] == PTX_TYPE_S64;
    if (instr->form->half == PTX_HALF_WIDE) return false;
    return lower_plain(l, instr, op);
}

static bool lower_arithmetic(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    switch (f->opcode) {
    case PTX_OP_MOV: return lower_mov(l, instr, op);
    case PTX_OP_AND: case PTX_OP_OR: case PTX_OP_XOR: case PTX_OP_NOT:
        if (f->types[0] == PTX_TYPE_PRED) return lower_logic(l, instr, op);
        break;
    case PTX_OP_SELP:
        op->run = emu_do_select;
        op->bits = (uint8_t)ptx_type_bits(f->types[0]);
        if (!emu_lower_predicate(l, &instr->operands[3], &op->s)) return false;
        op->d = emu_lower_slot(l, &instr->operands[0], false, &(bool){0});
        op->extra = op->bits == 64 ? 2 : 1;
        return lower_sources(l, instr, op, 1, 3);
    case PTX_OP_ADDC: case PTX_OP_SUBC: case PTX_OP_MADC: return lower_carry(l, instr, op);
    case PTX_OP_BFI:
        op->run = emu_do_insert;
        op->bits = (uint8_t)ptx_type_bits(f->types[0]);
        return lower_plain(l, instr, op);
    case PTX_OP_TESTP:
        op->run = emu_do_test;
        op->bits = (uint8_t)ptx_type_bits(f->types[0]);
        return lower_plain(l, instr, op);
    default: break;
    }
    if (f->carry) return lower_carry(l, instr, op);
    return emu_lower_alu(instr, op) && lower_plain(l, instr, op);
}

/* ---- one function ---- */

static uint8_t class_of(const ptx_instr *instr) {
    int type = instr->form->type_count ? instr->form->types[0] : PTX_TYPE_NONE, op = instr->form->opcode;
    if (op == PTX_OP_MOV || op == PTX_OP_SELP || op == PTX_OP_CVT) return EMU_CLASS_MOVE;
    if (op < PTX_OP_MOV || op == PTX_OP_PRMT)
        return type == PTX_TYPE_F32 || type == PTX_TYPE_F32X2 || type == PTX_TYPE_F64 || type == PTX_TYPE_F16X2 || type == PTX_TYPE_BF16X2
                   ? EMU_CLASS_FLOAT : EMU_CLASS_INTEGER;
    if (op >= PTX_OP_WGMMA_FENCE) return EMU_CLASS_TENSOR;
    if (op >= PTX_OP_BRA) return EMU_CLASS_CONTROL;
    if (op >= PTX_OP_BAR_SYNC) return EMU_CLASS_SYNC;
    if (op >= PTX_OP_CP_ASYNC) return EMU_CLASS_COPY;
    return EMU_CLASS_MEMORY;
}

static void refuse(lowering *l, const ptx_instr *instr) {
    char text[200];
    ptx_print_instr(l->module->program, l->function, instr, text, sizeof text);
    l->errors++;
    int n = snprintf(l->text + l->text_length, sizeof l->text - l->text_length, "%sline %u: not executed here: %s%s%s",
                     l->errors > 1 ? "\n" : "", instr->line, text, l->reason ? ": " : "", l->reason ? l->reason : "");
    if (n > 0 && (size_t)n < sizeof l->text - l->text_length) l->text_length += (size_t)n;
    else l->text[l->text_length] = 0;
}

static void lower_instr(lowering *l, uint32_t i) {
    const ptx_instr *instr = &l->function->instrs[i];
    emu_op *op = &l->code->ops[i];
    bool mine = false;
    *op = (emu_op){.guard = -1, .source = instr, .class_id = class_of(instr), .b = EMU_NO_SLOT, .c = EMU_NO_SLOT, .e = EMU_NO_SLOT};
    if (instr->guard >= 0) op->guard = instr->guard + 3, op->guard_flip = instr->guard_negated ? ~0u : 0;
    l->reason = NULL;
    bool accepted = emu_lower_cluster(l, instr, op, &mine);
    if (!mine) accepted = emu_lower_memory(l, instr, op, &mine);
    if (!mine) accepted = emu_lower_unit(l, instr, op, &mine);
    if (!mine) accepted = lower_arithmetic(l, instr, op);
    if (!accepted || l->reason != NULL || op->run == NULL) {
        refuse(l, instr);
        return;
    }
    emu_lower_visit(l, op);
    emu_handler fast = l->module->alu->select(op);
    if (fast != NULL) op->run = fast;
}

typedef struct range {
    uint32_t begin, end, reg_class, index;
} range;

static int by_begin(const void *a, const void *b) {
    const range *x = a, *y = b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : x->index != y->index ? (x->index < y->index ? -1 : 1) : 0;
}

/* Ranges of one class, in order of their first instruction; a range that has ended gives its planes to the next that begins later. */
static uint32_t share_planes(lowering *l, const range *ranges, uint32_t count, uint32_t planes, uint32_t *free_list, uint32_t *active) {
    uint32_t free_count = 0, active_count = 0;
    emu_code *code = l->code;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kept = 0;
        for (uint32_t j = 0; j < active_count; j++) {
            const range *a = &ranges[active[j]];
            if (a->end < ranges[i].begin) free_list[free_count++] = code->slot_of[a->reg_class][a->index];
            else active[kept++] = active[j];
        }
        active_count = kept;
        uint32_t slot = free_count > 0 ? free_list[--free_count] : l->plane_next;
        if (slot == l->plane_next) l->plane_next += planes;
        code->slot_of[ranges[i].reg_class][ranges[i].index] = slot;
        active[active_count++] = i;
    }
    return l->plane_next;
}

/* Linear scan over the ranges of flow.c, each class for itself; registers that are never touched share the sink. */
static bool place_registers(lowering *l, const emu_flow *flow) {
    static const uint32_t planes[PTX_CLASS_COUNT] = {0, 1, 1, 2, 4};
    emu_code *code = l->code;
    size_t most = flow->register_count + 1u;
    range *ranges = malloc(most * sizeof *ranges);
    uint32_t *lists = malloc(2 * most * sizeof *lists);
    bool good = ranges != NULL && lists != NULL;
    l->plane_next = EMU_SINK_PLANES;
    for (int c = PTX_CLASS_B16; c < PTX_CLASS_COUNT && good; c++) {
        uint32_t count = l->function->reg_count[c], used = 0;
        code->slot_of[c] = calloc(count ? count : 1, sizeof(uint32_t));
        if (code->slot_of[c] == NULL) good = false;
        for (uint32_t i = 0; i < count && good; i++) {
            uint32_t r = flow->class_first[c] + i;
            if (flow->begin[r] <= flow->end[r]) ranges[used++] = (range){flow->begin[r], flow->end[r], (uint32_t)c, i};
        }
        if (!good) break;
        qsort(ranges, used, sizeof *ranges, by_begin);
        share_planes(l, ranges, used, planes[c], lists, lists + most);
    }
    free(ranges);
    free(lists);
    return good;
}

/* Special registers lie behind the others, two planes for 64 bits. */
static void place_specials(lowering *l) {
    emu_code *code = l->code;
    code->special_first = l->plane_next;
    for (int s = 0; s < PTX_SPECIAL_COUNT; s++) {
        l->special_slot[s] = -1;
        if (is_clock((uint32_t)s)) continue;
        code->specials[code->special_count++] = (uint8_t)s;
        l->special_slot[s] = (int32_t)l->plane_next;
        l->plane_next += 2; /* the upper plane is zero unless the register has 64 bits */
    }
    code->plane_count = l->plane_next;
}

fa4_status emu_lower(emu_module *module, const ptx_function *function, emu_code *code, fa4_error *err) {
    lowering *l = calloc(1, sizeof *l);
    if (l == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    *l = (lowering){.module = module, .code = code};
    fa4_status status = FA4_OK;
    l->function = function = code->function = emu_inline(l, function);
    code->op_count = function->instr_count + 1;
    code->ops = aligned_alloc(64, code->op_count * sizeof *code->ops);
    code->predicate_count = function->reg_count[PTX_CLASS_PRED] + 3;
    for (uint32_t i = 0; i < function->instr_count; i++) code->cluster |= function->instrs[i].form->cluster != 0;
    emu_flow flow;
    if (!emu_flow_create(&flow, function) || l->no_memory || code->ops == NULL || !place_registers(l, &flow)) {
        status = error_set(err, FA4_NO_MEMORY, "out of memory");
    } else {
        place_specials(l);
        for (uint32_t i = 0; i < function->instr_count; i++) lower_instr(l, i);
        code->ops[function->instr_count] = (emu_op){.run = emu_do_exit, .guard = -1, .class_id = EMU_CLASS_CONTROL};
        if (l->no_memory || !emu_flow_mark(&flow, code)) status = error_set(err, FA4_NO_MEMORY, "out of memory");
        else if (l->errors) status = error_set(err, FA4_UNSUPPORTED, "%s\n%lld instructions of %s refused", l->text, (long long)l->errors, function->name);
    }
    emu_flow_destroy(&flow);
    free(l);
    return status;
}

void emu_code_destroy(emu_code *code) {
    for (uint32_t i = 0; i < code->block_count; i++) free(code->blocks[i]);
    for (int c = 0; c < PTX_CLASS_COUNT; c++) free(code->slot_of[c]);
    free(code->blocks);
    free(code->constants);
    free(code->unwritten);
    free(code->windows);
    free(code->ops);
}
