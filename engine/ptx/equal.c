/* Whether two programs are the same but for line numbers, debugging information and the order of
 * declarations. */
#include "ptx/ptx_internal.h"

#include <string.h>

/* Two programs, and for each symbol of a its counterpart in b is found by name and owner. */
typedef struct pair {
    const ptx_program *a, *b;
} pair;

static const char *owner_name(const ptx_program *p, const ptx_symbol *s) {
    return s->function < 0 ? "" : p->functions[s->function].name;
}

static bool same_symbol(const pair *x, uint32_t a, uint32_t b) {
    const ptx_symbol *s = &x->a->symbols[a], *t = &x->b->symbols[b];
    if (strcmp(s->name, t->name) != 0 || strcmp(owner_name(x->a, s), owner_name(x->b, t)) != 0)
        return false;
    if (s->space != t->space || s->type != t->type || s->linkage != t->linkage ||
        s->dynamic != t->dynamic || s->vector != t->vector || s->align != t->align ||
        s->size != t->size || s->relocation_count != t->relocation_count)
        return false;
    if ((s->init == NULL) != (t->init == NULL) ||
        (s->init != NULL && memcmp(s->init, t->init, s->size) != 0))
        return false;
    for (uint32_t i = 0; i < s->relocation_count; i++) {
        const ptx_relocation *r = &s->relocations[i], *q = &t->relocations[i];
        if (r->at != q->at || r->generic != q->generic || r->addend != q->addend ||
            strcmp(x->a->symbols[r->symbol].name, x->b->symbols[q->symbol].name) != 0)
            return false;
    }
    return true;
}

static bool has_symbol(const pair *x, uint32_t a) {
    uint32_t count = x->b->symbol_count;
    for (uint32_t i = 0; i < count; i++)
        if (same_symbol(x, a, (a + i) % count)) return true;
    return false;
}

static bool same_operand(const pair *x, const ptx_operand *a, const ptx_operand *b);

static bool same_elements(const pair *x, const ptx_operand *a, const ptx_operand *b) {
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (!same_operand(x, &a->u.elements[i], &b->u.elements[i])) return false;
    return true;
}

static bool same_operand(const pair *x, const ptx_operand *a, const ptx_operand *b) {
    if (a->kind != b->kind || a->reg_class != b->reg_class || a->sub != b->sub) return false;
    switch (a->kind) {
    case PTX_TENSOR:
    case PTX_VECTOR:
    case PTX_PAIR:
    case PTX_LIST:
    case PTX_TARGETS:
        return same_elements(x, a, b);
    case PTX_FUNCTION:
        return strcmp(x->a->functions[a->index].name, x->b->functions[b->index].name) == 0;
    case PTX_SYMBOL:
        return a->u.value == b->u.value && same_symbol(x, a->index, b->index);
    case PTX_ADDRESS:
        if (a->u.value != b->u.value) return false;
        return a->sub == PTX_BASE_SYMBOL ? same_symbol(x, a->index, b->index)
                                         : a->index == b->index;
    default:
        return a->index == b->index && a->u.value == b->u.value;
    }
}

static bool same_instr(const pair *x, const ptx_instr *a, const ptx_instr *b) {
    if (strcmp(a->form->text, b->form->text) != 0 || a->guard != b->guard ||
        a->guard_negated != b->guard_negated || a->operand_count != b->operand_count)
        return false;
    for (uint32_t i = 0; i < a->operand_count; i++)
        if (!same_operand(x, &a->operands[i], &b->operands[i])) return false;
    return true;
}

static bool same_symbols(const pair *x, const uint32_t *a, uint32_t a_count, const uint32_t *b,
                         uint32_t b_count) {
    if (a_count != b_count) return false;
    for (uint32_t i = 0; i < a_count; i++)
        if (!same_symbol(x, a[i], b[i])) return false;
    return true;
}

static bool same_registers(const ptx_function *a, const ptx_function *b) {
    if (a->registers_count != b->registers_count ||
        memcmp(a->reg_count, b->reg_count, sizeof a->reg_count) != 0)
        return false;
    for (uint32_t i = 0; i < a->registers_count; i++) {
        const ptx_registers *r = &a->registers[i], *s = &b->registers[i];
        if (strcmp(r->name, s->name) != 0 || r->type != s->type || r->range != s->range ||
            r->first != s->first || r->count != s->count)
            return false;
    }
    return true;
}

static bool same_function(const pair *x, const ptx_function *a, const ptx_function *b) {
    if (strcmp(a->name, b->name) != 0 || a->entry != b->entry || a->prototype != b->prototype ||
        a->linkage != b->linkage || a->cluster_explicit != b->cluster_explicit ||
        memcmp(a->reqntid, b->reqntid, sizeof a->reqntid) != 0 ||
        memcmp(a->maxntid, b->maxntid, sizeof a->maxntid) != 0 ||
        memcmp(a->reqnctapercluster, b->reqnctapercluster, sizeof a->reqnctapercluster) != 0 ||
        a->minnctapersm != b->minnctapersm || a->maxnreg != b->maxnreg ||
        a->maxclusterrank != b->maxclusterrank || a->param_bytes != b->param_bytes ||
        a->local_bytes != b->local_bytes || a->call_bytes != b->call_bytes ||
        a->shared_bytes != b->shared_bytes || a->shared_dynamic != b->shared_dynamic ||
        a->shared_align != b->shared_align)
        return false;
    if (!same_symbols(x, a->params, a->param_count, b->params, b->param_count) ||
        !same_symbols(x, a->results, a->result_count, b->results, b->result_count) ||
        !same_registers(a, b) || a->instr_count != b->instr_count ||
        a->label_count != b->label_count)
        return false;
    for (uint32_t i = 0; i < a->label_count; i++)
        if (strcmp(a->labels[i].name, b->labels[i].name) != 0 ||
            a->labels[i].instr != b->labels[i].instr)
            return false;
    for (uint32_t i = 0; i < a->instr_count; i++)
        if (!same_instr(x, &a->instrs[i], &b->instrs[i])) return false;
    return true;
}

bool ptx_program_equal(const ptx_program *a, const ptx_program *b) {
    pair x = {a, b};
    if (a->version_major != b->version_major || a->version_minor != b->version_minor ||
        strcmp(a->target, b->target) != 0 || a->function_count != b->function_count)
        return false;
    for (uint32_t i = 0; i < a->symbol_count; i++)
        if (!has_symbol(&x, i)) return false;
    for (uint32_t i = 0; i < a->function_count; i++) {
        bool found = false;
        for (uint32_t k = 0; k < b->function_count && !found; k++)
            found = same_function(&x, &a->functions[i], &b->functions[(i + k) % b->function_count]);
        if (!found) return false;
    }
    return true;
}
