/* Where shared variables lie: each function gets those that it names, in order of declaration, then
 * dynamic shared memory. */
#include "ptx/ptx_internal.h"

#include <string.h>

static void mark_operand(const ptx_operand *o, uint8_t *used) {
    if (o->kind == PTX_SYMBOL || (o->kind == PTX_ADDRESS && o->sub == PTX_BASE_SYMBOL))
        used[o->index] = 1;
    if (o->kind == PTX_TENSOR || o->kind == PTX_VECTOR || o->kind == PTX_LIST ||
        o->kind == PTX_PAIR)
        for (uint32_t i = 0; i < o->count; i++)
            mark_operand(&o->u.elements[i], used);
}

static bool mark_function(const ptx_function *f, uint8_t *used) {
    bool calls = false;
    for (uint32_t i = 0; i < f->instr_count; i++) {
        calls = calls || f->instrs[i].form->opcode == PTX_OP_CALL;
        for (uint32_t k = 0; k < f->instrs[i].operand_count; k++)
            mark_operand(&f->instrs[i].operands[k], used);
    }
    return calls;
}

static bool place_shared(ptx_parser *p, ptx_function *f, const uint8_t *used) {
    const ptx_symbol *symbols = p->symbols.items;
    uint32_t *offsets = ptx_arena_take(&p->arena, p->symbols.count * sizeof *offsets);
    if (offsets == NULL) return ptx_no_memory(p);
    uint64_t bytes = 0, align = 16;
    for (size_t i = 0; i < p->symbols.count; i++) {
        const ptx_symbol *s = &symbols[i];
        offsets[i] = PTX_NOWHERE;
        if (s->space != PTX_SPACE_SHARED || !used[i]) continue;
        if (s->align > align) align = s->align;
        if (s->dynamic) continue;
        bytes = ptx_align_up(bytes, s->align);
        offsets[i] = (uint32_t)bytes;
        bytes += s->size;
        if (bytes > PTX_SEGMENT_BYTES_MAX)
            return ptx_fail(p, s->line, "shared variables of '%.80s' exceed %llu bytes", f->name,
                            (unsigned long long)PTX_SEGMENT_BYTES_MAX);
    }
    f->shared_bytes = (uint32_t)bytes;
    f->shared_align = (uint32_t)align;
    f->shared_dynamic = (uint32_t)ptx_align_up(bytes, align);
    for (size_t i = 0; i < p->symbols.count; i++)
        if (used[i] && symbols[i].space == PTX_SPACE_SHARED && symbols[i].dynamic)
            offsets[i] = f->shared_dynamic;
    f->shared_offset = offsets;
    return true;
}

bool ptx_layout_shared(ptx_parser *p) {
    ptx_function **functions = p->functions.items;
    if (p->functions.count * (p->symbols.count + 1) > PTX_SHARED_PLACES_MAX)
        return ptx_fail(p, 0, "too many functions (%zu) with too many variables (%zu)",
                        p->functions.count, p->symbols.count);
    uint8_t *used = ptx_arena_take(&p->arena, p->symbols.count + 1);
    if (used == NULL) return ptx_no_memory(p);
    for (size_t i = 0; i < p->functions.count; i++) {
        memset(used, 0, p->symbols.count + 1);
        if (mark_function(functions[i],
                          used)) /* a callee's shared variables are the caller's too */
            for (size_t k = 0; k < p->functions.count; k++)
                if (!functions[k]->entry) (void)mark_function(functions[k], used);
        if (!place_shared(p, functions[i], used)) return false;
    }
    return true;
}
