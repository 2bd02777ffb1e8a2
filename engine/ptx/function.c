/* A function: its head (name, parameters, attributes), its body by body.c, and what the finished
 * function keeps. */
#include "ptx/ptx_internal.h"

#include <string.h>

static int shown(const ptx_token *t) {
    return (int)(t->length > 80 ? 80 : t->length);
}

static ptx_function *function_at(const ptx_parser *p, uint32_t i) {
    return ((ptx_function **)p->functions.items)[i];
}

static bool parse_params(ptx_parser *p, const uint32_t **symbols, uint32_t *count,
                         uint64_t *bytes) {
    ptx_list list = {.item_bytes = sizeof(uint32_t)};
    bool good = true;
    while (good && !ptx_token_is(&p->lexer.token, ")")) {
        if (list.count > 0 && !ptx_expect(p, ',')) {
            good = false;
            break;
        }
        uint32_t symbol = 0;
        good = ptx_parse_param(p, &symbol, bytes);
        uint32_t *slot = good ? ptx_list_add(&list) : NULL;
        if (good && slot == NULL) good = ptx_no_memory(p);
        if (slot != NULL) *slot = symbol;
    }
    *count = (uint32_t)list.count;
    *symbols = ptx_list_copy(&list, &p->arena);
    ptx_list_free(&list);
    return good && ptx_expect(p, ')');
}

static bool parse_number(ptx_parser *p, int32_t *number) {
    int64_t value;
    uint32_t line = p->lexer.token.line;
    if (!ptx_parse_integer(p, &value)) return false;
    if (value < 0 || value > INT32_MAX)
        return ptx_fail(p, line, "%lld: expected 0 to 2^31 - 1", (long long)value);
    *number = (int32_t)value;
    return true;
}

// Up to three numbers; those left out are 1.
static bool parse_extent(ptx_parser *p, int32_t extent[3]) {
    extent[1] = extent[2] = 1;
    for (int i = 0; i < 3; i++) {
        if (!parse_number(p, &extent[i])) return false;
        if (!ptx_accept(p, ',')) break;
    }
    return true;
}

static bool parse_attributes(ptx_parser *p, ptx_function *f) {
    const ptx_token *t = &p->lexer.token;
    while (t->kind == PTX_TOKEN_DIRECTIVE) {
        ptx_token name = *t;
        bool good = true;
        ptx_lex_next(&p->lexer);
        if (ptx_token_is(&name, ".reqntid"))
            good = parse_extent(p, f->reqntid);
        else if (ptx_token_is(&name, ".maxntid"))
            good = parse_extent(p, f->maxntid);
        else if (ptx_token_is(&name, ".reqnctapercluster"))
            good = parse_extent(p, f->reqnctapercluster);
        else if (ptx_token_is(&name, ".minnctapersm"))
            good = parse_number(p, &f->minnctapersm);
        else if (ptx_token_is(&name, ".maxnreg"))
            good = parse_number(p, &f->maxnreg);
        else if (ptx_token_is(&name, ".maxclusterrank"))
            good = parse_number(p, &f->maxclusterrank);
        else if (ptx_token_is(&name, ".explicitcluster"))
            f->cluster_explicit = 1;
        else if (ptx_token_is(&name, ".noreturn"))
            good = true;
        else if (ptx_token_is(&name, ".pragma"))
            good = (ptx_lex_next(&p->lexer), ptx_accept(p, ';'), true);
        else
            good = ptx_fail(p, name.line, "unknown attribute '%.*s' of function '%.80s'",
                            shown(&name), name.text, f->name);
        if (!good) return false;
    }
    return true;
}

// The function of that name: new, or one that was declared without a body.
static bool parse_name(ptx_parser *p, bool entry, uint8_t linkage) {
    ptx_token t = p->lexer.token;
    if (t.kind != PTX_TOKEN_WORD)
        return ptx_fail(p, t.line, "expected a function's name, got '%.*s'", shown(&t), t.text);
    const ptx_name *known = ptx_names_find(&p->names, t.text, t.length);
    if (known != NULL && known->kind == PTX_NAME_FUNCTION &&
        function_at(p, known->index)->prototype) {
        p->function_index = (int32_t)known->index;
        p->function = function_at(p, known->index);
    } else if (known != NULL) {
        return ptx_fail(p, t.line, "'%.*s' is declared twice", shown(&t), t.text);
    } else {
        if (p->functions.count == PTX_FUNCTIONS_MAX)
            return ptx_fail(p, t.line, "more than %d functions", PTX_FUNCTIONS_MAX);
        ptx_function *f = ptx_arena_take(&p->arena, sizeof *f);
        ptx_function **slot = ptx_list_add(&p->functions);
        if (f == NULL || slot == NULL) return ptx_no_memory(p);
        *slot = f;
        f->name = ptx_arena_text(&p->arena, t.text, t.length);
        if (f->name == NULL) return ptx_no_memory(p);
        p->function_index = (int32_t)p->functions.count - 1;
        if (!ptx_names_add(&p->names, f->name, t.length, PTX_NAME_FUNCTION,
                           (uint32_t)p->function_index, 0))
            return ptx_no_memory(p);
        p->function = f;
    }
    p->function->entry = entry;
    p->function->linkage = linkage;
    p->function->line = t.line;
    ptx_lex_next(&p->lexer);
    return true;
}

static bool keep_body(ptx_parser *p) {
    ptx_function *f = p->function;
    f->registers_count = (uint32_t)p->registers.count;
    f->registers = ptx_list_copy(&p->registers, &p->arena);
    f->instr_count = (uint32_t)p->instrs.count;
    f->instrs = ptx_list_copy(&p->instrs, &p->arena);
    f->label_count = (uint32_t)p->label_list.count;
    f->labels = ptx_list_copy(&p->label_list, &p->arena);
    return !p->arena.failed || ptx_no_memory(p);
}

static bool parse_definition(ptx_parser *p) {
    ptx_function *f = p->function;
    p->registers.count = p->instrs.count = p->label_list.count = p->fixups.count =
        p->targets.count = 0;
    ptx_names_drop(&p->unique, 0);
    ptx_names_drop(&p->labels, 0);
    p->scope_count = 0;
    p->loc = 0;
    f->prototype = 0;
    if (!ptx_parse_body(p)) {
        p->stopped = true;
        return false;
    }
    return keep_body(p);
}

// The results of a .func come before its name, and its name is needed to own them: they are read
// from a copy of the lexer.
static bool parse_head(ptx_parser *p, bool entry, uint8_t linkage) {
    ptx_lexer results = p->lexer;
    bool has_results = !entry && ptx_token_is(&p->lexer.token, "(");
    if (has_results) {
        while (p->lexer.token.kind != PTX_TOKEN_END && !ptx_token_is(&p->lexer.token, ")"))
            ptx_lex_next(&p->lexer);
        ptx_accept(p, ')');
    }
    if (!parse_name(p, entry, linkage)) return false;
    uint64_t bytes = 0, result_bytes = 0;
    ptx_function *f = p->function;
    f->params = f->results = NULL;
    f->param_count = f->result_count = 0;
    if (has_results) {
        ptx_lexer after = p->lexer;
        p->lexer = results;
        ptx_lex_next(&p->lexer);
        if (!parse_params(p, &f->results, &f->result_count, &result_bytes)) return false;
        p->lexer = after;
    }
    if (ptx_accept(p, '(') && !parse_params(p, &f->params, &f->param_count, &bytes)) return false;
    f->param_bytes = (uint32_t)bytes;
    return parse_attributes(p, f);
}

bool ptx_parse_function(ptx_parser *p, uint8_t linkage) {
    bool entry = ptx_token_is(&p->lexer.token, ".entry");
    // The name outlives the head; parameters and what the body declares do not.
    size_t names_before = p->names.entries.count;
    ptx_lex_next(&p->lexer);
    p->depth = 0;
    bool good = parse_head(p, entry, linkage);
    if (good && ptx_token_is(&p->lexer.token, "{")) {
        good = parse_definition(p);
    } else if (good) {
        p->function->prototype = 1;
        good = ptx_expect(p, ';');
    }
    bool fresh = p->function != NULL && p->names.entries.count > names_before;
    const char *name = fresh ? p->function->name : NULL;
    uint32_t index = (uint32_t)p->function_index;
    ptx_names_drop(&p->names, names_before);
    p->function = NULL;
    p->function_index = -1;
    p->depth = 0;
    if (fresh && ptx_names_find(&p->names, name, strlen(name)) == NULL &&
        !ptx_names_add(&p->names, name, strlen(name), PTX_NAME_FUNCTION, index, 0))
        return ptx_no_memory(p);
    return good;
}
