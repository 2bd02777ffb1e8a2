/*
 * Calls of functions, put in their place: an entry that calls becomes one function without calls, before it is decoded. Each call gets a copy of
 * the callee's instructions with registers, labels and a frame of its own in local memory, where parameters and results lie too. Recursion,
 * calls through pointers and functions without a body stay calls, which the decoder refuses.
 */
#include "lower_internal.h"

#include <stdlib.h>

enum { DEPTH_MAX = 24, INSTRS_MAX = 1 << 20 };

static const ptx_form BRANCH = {.text = "bra", .opcode = PTX_OP_BRA};

/* One call's copy of a function. */
typedef struct instance {
    const ptx_function *function;
    const struct instance *caller; /* NULL: the entry itself */
    const ptx_operand *results, *args; /* of the call, NULL: none */
    uint32_t base[PTX_CLASS_COUNT];
    uint32_t *place; /* instruction -> its number in the whole, and the end */
    uint64_t frame;
    int depth;
} instance;

typedef struct inliner {
    lowering *l;
    ptx_instr *instrs;
    ptx_label *labels;
    ptx_registers *registers;
    uint32_t count, label_count, label_max, registers_count, registers_max;
    uint32_t reg_count[PTX_CLASS_COUNT];
    uint64_t frame;
    bool failed; /* no memory */
} inliner;

static uint64_t aligned(uint64_t n) {
    return (n + 15) / 16 * 16;
}

/* ---- what a call names ---- */

/* {results,} function {, arguments}: the function's operand number, or -1. */
static int function_at(const ptx_instr *call) {
    for (int i = 0; i < call->operand_count; i++)
        if (call->operands[i].kind == PTX_FUNCTION) return i;
    return -1;
}

static const ptx_operand *results_of(const ptx_instr *call) {
    return function_at(call) == 1 ? &call->operands[0] : NULL;
}

static const ptx_operand *arguments_of(const ptx_instr *call) {
    int i = function_at(call) + 1;
    return i > 0 && i < call->operand_count ? &call->operands[i] : NULL;
}

static const ptx_function *callee_of(const inliner *n, const ptx_instr *call) {
    const ptx_program *p = n->l->module->program;
    int at = function_at(call);
    if (at < 0) return NULL;
    const ptx_function *f = &p->functions[call->operands[at].index];
    for (uint32_t i = 0; f->prototype && i < p->function_count; i++)
        if (!p->functions[i].prototype && strcmp(p->functions[i].name, f->name) == 0) f = &p->functions[i];
    return f->prototype || f->entry ? NULL : f;
}

static bool symbols_only(const ptx_operand *list, uint32_t count) {
    if (count != (list ? list->count : 0u)) return false;
    for (uint32_t i = 0; i < count; i++)
        if (list->u.elements[i].kind != PTX_SYMBOL) return false;
    return true;
}

/* The function that a call is replaced by, NULL: it stays. */
static const ptx_function *replaced(const inliner *n, const ptx_instr *instr, int depth) {
    if (instr->form->opcode != PTX_OP_CALL || depth >= DEPTH_MAX) return NULL;
    const ptx_function *f = callee_of(n, instr);
    if (f == NULL || !symbols_only(arguments_of(instr), f->param_count) || !symbols_only(results_of(instr), f->result_count)) return NULL;
    return f;
}

/* Instructions of a copy; above INSTRS_MAX it is of no use how many. */
static uint64_t size_of(const inliner *n, const ptx_function *f, int depth) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < f->instr_count && size <= INSTRS_MAX; i++) {
        const ptx_function *callee = replaced(n, &f->instrs[i], depth);
        size += callee ? size_of(n, callee, depth + 1) + (f->instrs[i].guard >= 0) : 1;
    }
    return size;
}

/* ---- operands ---- */

static int64_t frame_place(const inliner *n, const instance *at, uint32_t symbol);

/* A parameter of a copy is the variable that its call names. */
static int64_t actual(const inliner *n, const instance *at, const uint32_t *formals, uint32_t count, const ptx_operand *list, uint32_t symbol) {
    for (uint32_t i = 0; i < count; i++)
        if (formals[i] == symbol) return frame_place(n, at->caller, list->u.elements[i].index);
    return -1;
}

/* The place in the local frame of a variable as `at` sees it; -1: it is none of a frame. */
static int64_t frame_place(const inliner *n, const instance *at, uint32_t symbol) {
    const ptx_symbol *s = &n->l->module->program->symbols[symbol];
    if (s->space == PTX_SPACE_LOCAL) return (int64_t)(at->frame + s->offset);
    if (s->space == PTX_SPACE_PARAM_FUNC) return (int64_t)(at->frame + aligned(at->function->local_bytes) + s->offset);
    if (s->space != PTX_SPACE_PARAM || at->caller == NULL) return -1;
    int64_t place = actual(n, at, at->function->params, at->function->param_count, at->args, symbol);
    return place >= 0 ? place : actual(n, at, at->function->results, at->function->result_count, at->results, symbol);
}

static ptx_operand moved(inliner *n, const instance *at, ptx_operand o, bool *local) {
    int64_t place = o.kind == PTX_SYMBOL || (o.kind == PTX_ADDRESS && o.sub == PTX_BASE_SYMBOL) ? frame_place(n, at, o.index) : -1;
    *local |= place >= 0;
    switch (o.kind) {
    case PTX_REGISTER: o.index += at->base[o.reg_class]; break;
    case PTX_ADDRESS:
        if (o.sub == PTX_BASE_REGISTER) o.index += at->base[o.reg_class];
        if (place >= 0) o = (ptx_operand){.kind = PTX_ADDRESS, .sub = PTX_BASE_NONE, .u.value = place + o.u.value};
        break;
    case PTX_SYMBOL:
        if (place >= 0) o = (ptx_operand){.kind = PTX_IMMEDIATE, .sub = PTX_LITERAL_INTEGER, .u.value = place + o.u.value};
        break;
    case PTX_LABEL: o.index = at->place[o.index]; break;
    case PTX_TENSOR: case PTX_VECTOR: case PTX_PAIR: case PTX_LIST: case PTX_TARGETS: {
        uint32_t count = o.kind == PTX_TENSOR ? 2 : o.count;
        ptx_operand *elements = emu_lower_block(n->l, count * sizeof *elements);
        if (elements == NULL) break;
        for (uint32_t i = 0; i < count; i++) elements[i] = moved(n, at, o.u.elements[i], local);
        o.u.elements = elements;
        break;
    }
    default: break;
    }
    return o;
}

/* Parameters lie in local memory: those of a copy always, an entry's own only where it calls. */
static const ptx_form *with_local(inliner *n, const ptx_form *f) {
    ptx_form *form = emu_lower_block(n->l, sizeof *form);
    if (form == NULL) return f;
    *form = *f;
    for (int i = 0; i < form->space_count; i++)
        if (form->spaces[i] == PTX_SPACE_PARAM || form->spaces[i] == PTX_SPACE_PARAM_FUNC) form->spaces[i] = PTX_SPACE_LOCAL;
    return form;
}

static bool has_param_space(const ptx_form *f) {
    for (int i = 0; i < f->space_count; i++)
        if (f->spaces[i] == PTX_SPACE_PARAM || f->spaces[i] == PTX_SPACE_PARAM_FUNC) return true;
    return false;
}

static void add_instr(inliner *n, const instance *at, const ptx_instr *from) {
    ptx_instr *to = &n->instrs[n->count++];
    ptx_operand *operands = emu_lower_block(n->l, (from->operand_count + 1u) * sizeof *operands);
    bool local = false;
    *to = *from;
    if (operands == NULL) return;
    for (int i = 0; i < from->operand_count; i++) operands[i] = moved(n, at, from->operands[i], &local);
    to->operands = operands;
    if (to->guard >= 0) to->guard += (int32_t)at->base[PTX_CLASS_PRED];
    if (has_param_space(from->form) && (local || at->caller != NULL)) to->form = with_local(n, from->form);
}

/* A branch to `target` in the place of `from`; under its guard, or the opposite. */
static void add_branch(inliner *n, const instance *at, const ptx_instr *from, uint32_t target, bool opposite) {
    ptx_instr *to = &n->instrs[n->count++];
    ptx_operand *label = emu_lower_block(n->l, sizeof *label);
    *to = (ptx_instr){.form = &BRANCH, .operands = label, .operand_count = 1, .line = from->line, .loc = from->loc, .guard = from->guard,
                      .guard_negated = from->guard_negated ^ opposite};
    if (to->guard >= 0) to->guard += (int32_t)at->base[PTX_CLASS_PRED];
    if (label != NULL) *label = (ptx_operand){.kind = PTX_LABEL, .index = target};
}

/* ---- copies ---- */

static void *grow(inliner *n, void *list, uint32_t count, uint32_t more, uint32_t *max, size_t bytes) {
    if (count + more <= *max) return list;
    *max = 2 * (count + more);
    void *grown = realloc(list, *max * bytes);
    if (grown == NULL) n->failed = true;
    return grown ? grown : list;
}

static void add_names(inliner *n, const instance *at) {
    const ptx_function *f = at->function;
    n->labels = grow(n, n->labels, n->label_count, f->label_count + 1, &n->label_max, sizeof *n->labels);
    n->registers = grow(n, n->registers, n->registers_count, f->registers_count, &n->registers_max, sizeof *n->registers);
    if (n->failed) return;
    for (uint32_t i = 0; i < f->label_count; i++) n->labels[n->label_count++] = (ptx_label){f->labels[i].name, at->place[f->labels[i].instr]};
    n->labels[n->label_count++] = (ptx_label){f->name, at->place[f->instr_count]}; /* where its returns go */
    for (uint32_t i = 0; i < f->registers_count; i++) {
        ptx_registers r = f->registers[i];
        r.first += at->base[r.reg_class];
        n->registers[n->registers_count++] = r;
    }
}

static void find_places(const inliner *n, instance *at, uint32_t first) {
    const ptx_function *f = at->function;
    for (uint32_t i = 0; i < f->instr_count; i++) {
        const ptx_function *callee = replaced(n, &f->instrs[i], at->depth);
        at->place[i] = first;
        first += callee ? (uint32_t)size_of(n, callee, at->depth + 1) + (f->instrs[i].guard >= 0) : 1;
    }
    at->place[f->instr_count] = first;
}

static void copy(inliner *n, instance *at) {
    const ptx_function *f = at->function;
    at->place = malloc((f->instr_count + 1u) * sizeof *at->place);
    if (at->place == NULL) n->failed = true;
    if (n->failed) return;
    at->frame = n->frame;
    n->frame += aligned(f->local_bytes) + aligned(f->call_bytes);
    for (int c = 0; c < PTX_CLASS_COUNT; c++) at->base[c] = n->reg_count[c], n->reg_count[c] += f->reg_count[c];
    find_places(n, at, n->count);
    add_names(n, at);
    for (uint32_t i = 0; i < f->instr_count && !n->failed; i++) {
        const ptx_instr *instr = &f->instrs[i];
        const ptx_function *callee = replaced(n, instr, at->depth);
        if (callee != NULL) {
            instance inner = {.function = callee, .caller = at, .results = results_of(instr), .args = arguments_of(instr), .depth = at->depth + 1};
            if (instr->guard >= 0) add_branch(n, at, instr, at->place[i + 1], true);
            copy(n, &inner);
        } else if (instr->form->opcode == PTX_OP_RET && at->caller != NULL) {
            add_branch(n, at, instr, at->place[f->instr_count], false);
        } else {
            add_instr(n, at, instr);
        }
    }
    free(at->place);
    at->place = NULL;
}

static int by_instr(const void *a, const void *b) {
    const ptx_label *x = a, *y = b;
    return x->instr < y->instr ? -1 : x->instr > y->instr;
}

/* Label operands name their label again, now that all are in order. */
static void name_labels(const inliner *n) {
    for (uint32_t i = 0; i < n->count; i++)
        for (int k = 0; k < n->instrs[i].operand_count; k++) {
            ptx_operand *o = (ptx_operand *)(uintptr_t)&n->instrs[i].operands[k];
            if (o->kind != PTX_LABEL) continue;
            uint32_t at = 0;
            while (at + 1 < n->label_count && n->labels[at].instr < o->index) at++;
            o->u.value = at;
        }
}

static const ptx_function *whole(inliner *n, const ptx_function *entry) {
    ptx_function *f = emu_lower_block(n->l, sizeof *f);
    ptx_label *labels = emu_lower_block(n->l, (n->label_count + 1u) * sizeof *labels);
    ptx_registers *registers = emu_lower_block(n->l, (n->registers_count + 1u) * sizeof *registers);
    if (f == NULL || labels == NULL || registers == NULL) return entry;
    qsort(n->labels, n->label_count, sizeof *n->labels, by_instr);
    name_labels(n);
    memcpy(labels, n->labels, n->label_count * sizeof *labels);
    if (n->registers_count > 0) memcpy(registers, n->registers, n->registers_count * sizeof *registers);
    *f = *entry;
    f->instrs = n->instrs, f->instr_count = n->count;
    f->labels = labels, f->label_count = n->label_count;
    f->registers = registers, f->registers_count = n->registers_count;
    memcpy(f->reg_count, n->reg_count, sizeof f->reg_count);
    f->local_bytes = (uint32_t)n->frame;
    return f;
}

static bool calls(const ptx_function *f) {
    for (uint32_t i = 0; i < f->instr_count; i++)
        if (f->instrs[i].form->opcode == PTX_OP_CALL) return true;
    return false;
}

const ptx_function *emu_inline(lowering *l, const ptx_function *entry) {
    inliner n = {.l = l};
    if (!calls(entry)) return entry;
    uint64_t size = size_of(&n, entry, 0);
    if (size > INSTRS_MAX) return entry; /* its calls are refused */
    instance at = {.function = entry};
    n.instrs = emu_lower_block(l, (size + 1) * sizeof *n.instrs);
    if (n.instrs != NULL) copy(&n, &at);
    if (n.failed) l->no_memory = true;
    const ptx_function *f = l->no_memory ? entry : whole(&n, entry);
    free(n.labels);
    free(n.registers);
    return f;
}
