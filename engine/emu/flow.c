/*
 * Data flow over a function's registers: basic blocks, liveness, the range of instructions in which each register is alive (for sharing
 * planes), which registers some path reads unwritten, and which instructions may touch the destination of a tcgen05.ld that has not yet
 * delivered. Predicates are left out: they are cheap to keep and start as zero.
 */
#include "flow.h"

#include <stdlib.h>

static const char *const SIGNATURES[PTX_OP_COUNT] = {
#define PTX_ENUM(id, text, operands, ...) operands,
    PTX_OPCODES(PTX_ENUM)
#undef PTX_ENUM
};

/* Registers of all classes but predicates, numbered one after another. */
static uint32_t number_of(const emu_flow *f, const ptx_operand *o) {
    return f->class_first[o->reg_class] + o->index;
}

typedef struct visit {
    void (*function)(emu_flow *f, void *state, uint32_t reg);
    void *state;
} visit;

static void each_register(emu_flow *f, const ptx_operand *o, visit v) {
    switch (o->kind) {
    case PTX_REGISTER:
        if (o->reg_class != PTX_CLASS_PRED) v.function(f, v.state, number_of(f, o));
        break;
    case PTX_ADDRESS:
        if (o->sub == PTX_BASE_REGISTER) v.function(f, v.state, number_of(f, o));
        break;
    case PTX_TENSOR:
        each_register(f, &o->u.elements[0], v);
        each_register(f, &o->u.elements[1], v);
        break;
    case PTX_VECTOR: case PTX_PAIR: case PTX_LIST:
        for (uint32_t i = 0; i < o->count; i++) each_register(f, &o->u.elements[i], v);
        break;
    default: break;
    }
}

static bool has_destination(const ptx_instr *instr) {
    char first = SIGNATURES[instr->form->opcode][0];
    if (instr->operand_count == 0 || instr->operands[0].kind == PTX_ADDRESS) return false;
    return first != 0 && strchr("dDUQPrkXM", first) != NULL;
}

static bool accumulates(const ptx_instr *instr) {
    return instr->form->opcode == PTX_OP_WGMMA_MMA_ASYNC;
}

static void each_use(emu_flow *f, const ptx_instr *instr, visit v) {
    for (uint32_t i = has_destination(instr) && !accumulates(instr) ? 1 : 0; i < instr->operand_count; i++) each_register(f, &instr->operands[i], v);
}

static void each_definition(emu_flow *f, const ptx_instr *instr, visit v) {
    if (has_destination(instr)) each_register(f, &instr->operands[0], v);
}

/* ---- sets ---- */

static bool in(const uint64_t *set, uint32_t i) {
    return set[i / 64] >> (i % 64) & 1;
}
static void add(emu_flow *f, void *set, uint32_t reg) {
    (void)f;
    ((uint64_t *)set)[reg / 64] |= 1ull << (reg % 64);
}
static void drop(emu_flow *f, void *set, uint32_t reg) {
    (void)f;
    ((uint64_t *)set)[reg / 64] &= ~(1ull << (reg % 64));
}
static uint64_t *row(const emu_flow *f, uint64_t *sets, uint32_t block) {
    return sets + (size_t)block * f->words;
}

/* ---- blocks ---- */

static bool is_branch(const ptx_instr *instr) {
    int op = instr->form->opcode;
    return op == PTX_OP_BRA || op == PTX_OP_BRX_IDX || op == PTX_OP_RET || op == PTX_OP_EXIT || op == PTX_OP_TRAP;
}

static void find_blocks(emu_flow *f) {
    const ptx_function *fn = f->function;
    for (uint32_t i = 0; i < fn->label_count; i++) f->block_of[fn->labels[i].instr] = 1;
    for (uint32_t i = 0; i < fn->instr_count; i++)
        if (is_branch(&fn->instrs[i])) f->block_of[i + 1] = 1;
    f->block_of[0] = 1;
    for (uint32_t i = 0; i <= fn->instr_count; i++) {
        if (f->block_of[i]) f->first[f->block_count++] = i;
        f->block_of[i] = f->block_count - 1;
    }
    f->first[f->block_count] = fn->instr_count + 1;
}

/* Calls v for each successor block. */
static void each_successor(const emu_flow *f, uint32_t block, void (*function)(const emu_flow *, void *, uint32_t), void *state) {
    const ptx_function *fn = f->function;
    uint32_t last = f->first[block + 1] - 1;
    if (last >= fn->instr_count) return;
    const ptx_instr *instr = &fn->instrs[last];
    int op = instr->form->opcode;
    if (op == PTX_OP_BRA) function(f, state, f->block_of[instr->operands[0].index]);
    if (op == PTX_OP_BRX_IDX)
        for (uint32_t i = 0; i < instr->operands[1].count; i++) function(f, state, f->block_of[instr->operands[1].u.elements[i].index]);
    if (!is_branch(instr) || instr->guard >= 0) function(f, state, f->block_of[last + 1]);
}

/* ---- liveness ---- */

typedef struct join {
    uint64_t *into, *sets;
    bool changed;
} join;

static void join_block(const emu_flow *f, void *state, uint32_t block) {
    join *j = state;
    const uint64_t *from = row(f, j->sets, block);
    for (uint32_t i = 0; i < f->words; i++) j->into[i] |= from[i];
}

/* From the set alive after the block to that alive before it. */
static void walk_back(emu_flow *f, uint32_t block, uint64_t *set) {
    for (uint32_t i = f->first[block + 1]; i-- > f->first[block];) {
        if (i >= f->function->instr_count) continue;
        const ptx_instr *instr = &f->function->instrs[i];
        if (instr->guard < 0) each_definition(f, instr, (visit){drop, set});
        each_use(f, instr, (visit){add, set});
    }
}

static void find_liveness(emu_flow *f, uint64_t *work) {
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t b = f->block_count; b-- > 0;) {
            join j = {work, f->live, false};
            memset(work, 0, f->words * sizeof *work);
            each_successor(f, b, join_block, &j);
            walk_back(f, b, work);
            uint64_t *before = row(f, f->live, b);
            if (memcmp(before, work, f->words * sizeof *work) != 0) memcpy(before, work, f->words * sizeof *work), changed = true;
        }
    }
}

typedef struct touch {
    uint32_t at;
} touch;
static void widen_range(emu_flow *f, void *state, uint32_t reg) {
    uint32_t at = ((touch *)state)->at;
    if (f->begin[reg] > at) f->begin[reg] = at;
    if (f->end[reg] < at) f->end[reg] = at;
}

/* One interval per register, covering each block that it is alive into or out of: coarse, but simple and right for loops. */
static void find_ranges(emu_flow *f, uint64_t *work) {
    for (uint32_t i = 0; i < f->register_count; i++) f->begin[i] = ~0u, f->end[i] = 0;
    for (uint32_t b = 0; b < f->block_count; b++) {
        join j = {work, f->live, false};
        memset(work, 0, f->words * sizeof *work);
        each_successor(f, b, join_block, &j);
        const uint64_t *in_set = row(f, f->live, b);
        for (uint32_t r = 0; r < f->register_count; r++) {
            if (in(in_set, r)) widen_range(f, &(touch){f->first[b]}, r);
            if (in(work, r)) widen_range(f, &(touch){f->first[b + 1] - 1}, r);
        }
        for (uint32_t i = f->first[b]; i < f->first[b + 1] && i < f->function->instr_count; i++) {
            each_use(f, &f->function->instrs[i], (visit){widen_range, &(touch){i}});
            each_definition(f, &f->function->instrs[i], (visit){widen_range, &(touch){i}});
        }
    }
}

typedef struct dead {
    const uint64_t *alive;
} dead;
static void whole_range(emu_flow *f, void *state, uint32_t reg) {
    if (in(((dead *)state)->alive, reg)) return;
    f->begin[reg] = 0;
    f->end[reg] = f->function->instr_count;
}

/* A tcgen05.ld may deliver late: a destination that nothing reads must not share its planes. */
static void keep_dead_loads(emu_flow *f, uint64_t *work) {
    for (uint32_t b = 0; b < f->block_count; b++) {
        join j = {work, f->live, false};
        memset(work, 0, f->words * sizeof *work);
        each_successor(f, b, join_block, &j);
        for (uint32_t i = f->first[b + 1]; i-- > f->first[b];) {
            if (i >= f->function->instr_count) continue;
            const ptx_instr *instr = &f->function->instrs[i];
            if (instr->form->opcode == PTX_OP_TCGEN05_LD) each_definition(f, instr, (visit){whole_range, &(dead){work}});
            if (instr->guard < 0) each_definition(f, instr, (visit){drop, work});
            each_use(f, instr, (visit){add, work});
        }
    }
}

bool emu_flow_create(emu_flow *f, const ptx_function *function) {
    *f = (emu_flow){.function = function};
    for (int c = PTX_CLASS_B16; c < PTX_CLASS_COUNT; c++) {
        f->class_first[c] = f->register_count;
        f->register_count += function->reg_count[c];
    }
    f->words = f->register_count / 64 + 1;
    f->block_of = calloc(function->instr_count + 2, sizeof *f->block_of);
    f->first = calloc(function->instr_count + 3, sizeof *f->first);
    f->begin = calloc(f->register_count + 1, sizeof *f->begin);
    f->end = calloc(f->register_count + 1, sizeof *f->end);
    if (f->block_of == NULL || f->first == NULL || f->begin == NULL || f->end == NULL) return false;
    find_blocks(f);
    f->live = calloc((size_t)f->block_count * f->words, sizeof *f->live);
    f->pending = calloc((size_t)f->block_count * f->words, sizeof *f->pending);
    uint64_t *work = calloc(f->words, sizeof *work);
    bool good = f->live != NULL && f->pending != NULL && work != NULL;
    if (good) {
        find_liveness(f, work);
        find_ranges(f, work);
        keep_dead_loads(f, work);
    }
    free(work);
    return good;
}

void emu_flow_destroy(emu_flow *f) {
    free(f->block_of);
    free(f->first);
    free(f->begin);
    free(f->end);
    free(f->live);
    free(f->pending);
}

bool emu_flow_holds(const emu_flow *f, int reg_class, uint32_t index, uint32_t pc) {
    if (reg_class == PTX_CLASS_PRED) return true; /* predicates share nothing */
    uint32_t r = f->class_first[reg_class] + index;
    if (f->begin[r] > f->end[r] || pc > f->end[r] + 1) return false;
    if (pc > f->begin[r]) return true;
    return pc == f->begin[r] && f->first[f->block_of[pc]] == pc && in(row(f, f->live, f->block_of[pc]), r);
}

/* ---- tensor loads in flight ---- */

static void step_pending(emu_flow *f, const ptx_instr *instr, uint64_t *set) {
    if (instr->form->opcode == PTX_OP_TCGEN05_WAIT_LD && instr->guard < 0) memset(set, 0, f->words * sizeof *set);
    if (instr->form->opcode == PTX_OP_TCGEN05_LD) each_definition(f, instr, (visit){add, set});
}

typedef struct hit {
    const uint64_t *set;
    bool found;
} hit;
static void look(emu_flow *f, void *state, uint32_t reg) {
    (void)f;
    hit *h = state;
    h->found |= in(h->set, reg);
}

static void push_pending(const emu_flow *f, void *state, uint32_t block) {
    join *j = state;
    uint64_t *to = row(f, j->sets, block);
    for (uint32_t i = 0; i < f->words; i++) {
        uint64_t before = to[i];
        to[i] |= j->into[i];
        j->changed |= to[i] != before;
    }
}

static void find_pending(emu_flow *f, uint64_t *work) {
    join j = {work, f->pending, true};
    while (j.changed) {
        j.changed = false;
        for (uint32_t b = 0; b < f->block_count; b++) {
            memcpy(work, row(f, f->pending, b), f->words * sizeof *work);
            for (uint32_t i = f->first[b]; i < f->first[b + 1] && i < f->function->instr_count; i++) step_pending(f, &f->function->instrs[i], work);
            each_successor(f, b, push_pending, &j);
        }
    }
}

/* A copy of an unwritten register is no use of it: compilers make such copies for values that no path needs. */
static bool only_copies(const ptx_instr *instr) {
    return instr->form->opcode == PTX_OP_MOV || accumulates(instr);
}

/* Whether an atomic's order among CTAs shows in nothing but its result: integer sums, extremes and bits. */
static bool commutes(const emu_op *op) {
    bool atomic = op->source->form->opcode == PTX_OP_ATOM || op->source->form->opcode == PTX_OP_RED;
    if (!atomic || op->run == emu_do_atomic_vector || (op->format != EMU_FORMATS && op->extra == PTX_ADDING)) return false;
    return op->extra == PTX_ADDING || op->extra == PTX_MINIMUM || op->extra == PTX_MAXIMUM || op->extra == PTX_AND || op->extra == PTX_OR || op->extra == PTX_XOR;
}

/* Atomics whose results nothing reads do not order CTAs, if they commute. */
static void find_order(emu_flow *f, emu_code *code, uint64_t *work) {
    for (uint32_t b = 0; b < f->block_count; b++) {
        join j = {work, f->live, false};
        memset(work, 0, f->words * sizeof *work);
        each_successor(f, b, join_block, &j);
        for (uint32_t i = f->first[b + 1]; i-- > f->first[b];) {
            if (i >= f->function->instr_count) continue;
            const ptx_instr *instr = &f->function->instrs[i];
            emu_op *op = &code->ops[i];
            hit result = {work, false};
            if (instr->form->opcode == PTX_OP_ATOM) each_definition(f, instr, (visit){look, &result});
            if (!result.found && commutes(op)) op->flags &= (uint8_t)~EMU_FLAG_ORDERS;
            code->ordered |= (op->flags & EMU_FLAG_ORDERS) != 0;
            if (instr->guard < 0) each_definition(f, instr, (visit){drop, work});
            each_use(f, instr, (visit){add, work});
        }
    }
}

bool emu_flow_mark(emu_flow *f, emu_code *code) {
    uint64_t *work = calloc(f->words, sizeof *work);
    if (work == NULL) return false;
    find_order(f, code, work);
    if (code->tensor) find_pending(f, work);
    const uint64_t *unwritten = row(f, f->live, 0);
    for (uint32_t b = 0; b < f->block_count; b++) {
        memcpy(work, row(f, f->pending, b), f->words * sizeof *work);
        for (uint32_t i = f->first[b]; i < f->first[b + 1] && i < f->function->instr_count; i++) {
            const ptx_instr *instr = &f->function->instrs[i];
            hit pending = {work, false}, maybe = {unwritten, false};
            each_use(f, instr, (visit){look, &pending});
            each_definition(f, instr, (visit){look, &pending});
            if (!only_copies(instr)) each_use(f, instr, (visit){look, &maybe});
            each_definition(f, instr, (visit){look, &maybe});
            if (pending.found && instr->form->opcode != PTX_OP_TCGEN05_LD) code->ops[i].flags |= EMU_FLAG_SETTLE;
            if (maybe.found) code->ops[i].flags |= EMU_FLAG_CHECK;
            step_pending(f, instr, work);
        }
    }
    for (uint32_t r = 0; r < f->register_count; r++) code->may_be_unwritten |= in(unwritten, r);
    memcpy(work, unwritten, f->words * sizeof *work);
    code->unwritten = work; /* kept for the run-time check */
    return true;
}

/* ---- the run-time check of registers that may be read unwritten ---- */

typedef struct check {
    emu_warp *warp;
    const emu_op *op;
    uint32_t mask, missing;
} check;

static uint32_t slot_of(const emu_flow *f, uint32_t reg) {
    int c = PTX_CLASS_B16;
    while (c + 1 < PTX_CLASS_COUNT && reg >= f->class_first[c + 1]) c++;
    return f->slots[c][reg - f->class_first[c]];
}
static void check_use(emu_flow *f, void *state, uint32_t reg) {
    check *c = state;
    if (in(c->warp->cta->code->unwritten, reg)) c->missing |= c->mask & ~c->warp->defined[slot_of(f, reg)];
}
static void check_definition(emu_flow *f, void *state, uint32_t reg) {
    check *c = state;
    c->warp->defined[slot_of(f, reg)] |= c->mask;
}

void emu_check_defined(emu_warp *w, const emu_op *op, uint32_t mask) {
    const emu_code *code = w->cta->code;
    emu_flow f = {.function = code->function, .slots = code->slot_of};
    check c = {w, op, mask, 0};
    if (w->defined == NULL) return;
    for (int k = PTX_CLASS_B16; k < PTX_CLASS_COUNT; k++) f.class_first[k] = f.register_count, f.register_count += code->function->reg_count[k];
    if (!only_copies(op->source)) each_use(&f, op->source, (visit){check_use, &c});
    each_definition(&f, op->source, (visit){check_definition, &c});
    if (c.missing != 0)
        emu_report_finding(w->cta, w, emu_first(c.missing), EMU_UNINITIALISED, EMU_REVIEW, op->source, "an operand register may not have been written");
}
