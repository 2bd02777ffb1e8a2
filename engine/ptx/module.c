/* Outside of bodies: version, target, variables with their initialisers, functions with their
 * parameters and attributes, .loc, .file. */
#include "ptx/ptx_internal.h"

#include <stdio.h>
#include <string.h>

static int shown(const ptx_token *t) {
    return (int)(t->length > 80 ? 80 : t->length);
}

/* ---- .file, .loc ---- */

enum { FILE_NUMBER_MAX = 65535 };

static bool parse_file(ptx_parser *p) {
    const ptx_token *t = &p->lexer.token;
    ptx_lex_next(&p->lexer);
    if (t->kind != PTX_TOKEN_INTEGER || t->value < 0 || t->value > FILE_NUMBER_MAX)
        return ptx_fail(p, t->line, ".file: expected a number up to %d", FILE_NUMBER_MAX);
    uint32_t number = (uint32_t)t->value;
    ptx_lex_next(&p->lexer);
    if (t->kind != PTX_TOKEN_STRING)
        return ptx_fail(p, t->line, ".file: expected a name in quotes");
    ptx_file_line *file = ptx_list_add(&p->files);
    const char *name = ptx_arena_text(&p->arena, t->text, t->length);
    if (file == NULL || name == NULL) return ptx_no_memory(p);
    *file = (ptx_file_line){number, name};
    ptx_lex_next(&p->lexer);
    while (ptx_accept(p, ',')) { /* time and size of the file */
        int64_t unused;
        if (!ptx_parse_integer(p, &unused)) return false;
    }
    return true;
}

static bool parse_place(ptx_parser *p, ptx_loc *loc) {
    int64_t numbers[3];
    for (int i = 0; i < 3; i++) {
        const ptx_token *t = &p->lexer.token;
        if (t->kind != PTX_TOKEN_INTEGER || t->value < 0 || t->value > INT32_MAX)
            return ptx_fail(p, t->line, ".loc: expected file, line and column");
        numbers[i] = t->value;
        ptx_lex_next(&p->lexer);
    }
    *loc = (ptx_loc){(uint32_t)numbers[0], (uint32_t)numbers[1], (uint32_t)numbers[2], 0};
    if (loc->file > FILE_NUMBER_MAX) loc->file = 0;
    return true;
}

static bool add_loc(ptx_parser *p, const ptx_loc *loc, uint32_t *index) {
    ptx_loc *copy = ptx_list_add(&p->locs);
    if (copy == NULL) return ptx_no_memory(p);
    *copy = *loc;
    *index = (uint32_t)p->locs.count - 1;
    return true;
}

// .loc file line column [, function_name label [+ n], inlined_at file line column]
bool ptx_parse_loc(ptx_parser *p) {
    const ptx_token *t = &p->lexer.token;
    ptx_loc loc, outer;
    ptx_lex_next(&p->lexer);
    if (!parse_place(p, &loc)) return false;
    while (ptx_accept(p, ',')) {
        if (ptx_token_is(t, "function_name")) {
            ptx_lex_next(&p->lexer);
            if (t->kind != PTX_TOKEN_WORD && t->kind != PTX_TOKEN_DIRECTIVE)
                return ptx_fail(p, t->line, ".loc: expected a label");
            ptx_lex_next(&p->lexer);
            int64_t unused;
            if (ptx_accept(p, '+') && !ptx_parse_integer(p, &unused)) return false;
        } else if (ptx_token_is(t, "inlined_at")) {
            ptx_lex_next(&p->lexer);
            if (!parse_place(p, &outer) || !add_loc(p, &outer, &loc.inlined)) return false;
        } else {
            return ptx_fail(p, t->line, ".loc: unexpected '%.*s'", shown(t), t->text);
        }
    }
    ptx_accept(p, ';');
    return add_loc(p, &loc, &p->loc);
}

/* ---- variables ---- */

/* A declaration as far as it has been read. */
typedef struct variable {
    ptx_symbol symbol;
    uint32_t element_bytes;
    bool sized; /* no [] without a number */
    int64_t elements;
} variable;

static bool parse_align(ptx_parser *p, uint32_t *align) {
    int64_t value;
    uint32_t line = p->lexer.token.line;
    ptx_lex_next(&p->lexer);
    if (!ptx_parse_integer(p, &value)) return false;
    if (value < 1 || value > (1 << 20) || (value & (value - 1)) != 0)
        return ptx_fail(p, line, ".align: %lld is not a power of two up to 2^20", (long long)value);
    *align = (uint32_t)value;
    return true;
}

// .align, vector and type, in any order, up to the name.
static bool parse_attributes(ptx_parser *p, variable *v) {
    const ptx_token *t = &p->lexer.token;
    v->symbol.vector = 1;
    while (t->kind == PTX_TOKEN_DIRECTIVE) {
        int32_t type = ptx_type_of(t->text, t->length);
        if (ptx_token_is(t, ".align")) {
            if (!parse_align(p, &v->symbol.align)) return false;
            continue;
        }
        if (ptx_token_is(t, ".ptr") &&
            v->symbol.space == PTX_SPACE_PARAM) { /* what a pointer parameter points to: a hint */
            uint32_t unused;
            for (ptx_lex_next(&p->lexer); t->kind == PTX_TOKEN_DIRECTIVE;)
                if (!ptx_token_is(t, ".align"))
                    ptx_lex_next(&p->lexer);
                else if (!parse_align(p, &unused))
                    return false;
            break;
        }
        if (ptx_token_is(t, ".v2"))
            v->symbol.vector = 2;
        else if (ptx_token_is(t, ".v4"))
            v->symbol.vector = 4;
        else if (type != PTX_TYPE_NONE && type != PTX_TYPE_PRED)
            v->symbol.type = (uint8_t)type;
        else
            return ptx_fail(p, t->line, "unknown attribute '%.*s' of a variable", shown(t),
                            t->text);
        ptx_lex_next(&p->lexer);
    }
    if (v->symbol.type == PTX_TYPE_NONE)
        return ptx_fail(p, t->line, "a variable without type before '%.*s'", shown(t), t->text);
    v->element_bytes = (uint32_t)ptx_type_bits(v->symbol.type) / 8u;
    return true;
}

static bool parse_dimensions(ptx_parser *p, variable *v) {
    uint32_t line = p->lexer.token.line;
    uint64_t bytes = (uint64_t)v->element_bytes * v->symbol.vector;
    v->sized = true;
    v->elements = 1;
    for (int rank = 0; ptx_accept(p, '['); rank++) {
        int64_t count = 0;
        if (rank == 8) return ptx_fail(p, line, "an array of more than 8 dimensions");
        if (ptx_token_is(&p->lexer.token, "]") && rank == 0)
            v->sized = false;
        else if (!ptx_parse_integer(p, &count))
            return false;
        if (!ptx_expect(p, ']')) return false;
        if (count < 0 ||
            (count > 0 && v->elements > (int64_t)(PTX_SEGMENT_BYTES_MAX / bytes) / count))
            return ptx_fail(p, line, "array '%s' of %lld: too large", v->symbol.name,
                            (long long)count);
        v->elements *= rank == 0 && !v->sized ? 1 : count;
    }
    v->symbol.size = v->sized ? (uint64_t)v->elements * bytes : 0;
    if (v->symbol.align == 0) v->symbol.align = (uint32_t)bytes;
    return true;
}

/* Values of { } as they come: bytes, and addresses that are filled in later. */
typedef struct initialiser {
    ptx_list bytes; /* one per item */
    ptx_list relocations;
    uint32_t element_bytes;
} initialiser;

static bool put_bits(ptx_parser *p, initialiser *init, uint64_t bits) {
    for (uint32_t i = 0; i < init->element_bytes; i++) {
        uint8_t *byte = ptx_list_add(&init->bytes);
        if (byte == NULL) return ptx_no_memory(p);
        *byte = i < 8 ? (uint8_t)(bits >> (8 * i)) : 0;
    }
    return true;
}

// variable, generic(variable), either with + or - a number; the sum may stand inside the
// parentheses too.
static bool put_address(ptx_parser *p, initialiser *init) {
    const ptx_token *t = &p->lexer.token;
    bool generic = ptx_token_is(t, "generic");
    if (generic) ptx_lex_next(&p->lexer);
    if (generic && !ptx_expect(p, '(')) return false;
    const ptx_name *name =
        t->kind == PTX_TOKEN_WORD ? ptx_names_find(&p->names, t->text, t->length) : NULL;
    if (name == NULL || name->kind != PTX_NAME_SYMBOL)
        return ptx_fail(p, t->line, "initialiser: unknown variable '%.*s'", shown(t), t->text);
    if (init->element_bytes != 8)
        return ptx_fail(p, t->line, "initialiser: an address needs 8 bytes");
    ptx_relocation *r = ptx_list_add(&init->relocations);
    if (r == NULL) return ptx_no_memory(p);
    *r = (ptx_relocation){init->bytes.count, name->index, generic, (uint8_t)init->element_bytes, 0};
    ptx_lex_next(&p->lexer);
    for (int inside = generic; inside >= 0; inside--) {
        int64_t addend = 0;
        if (!ptx_parse_sum(p, &addend)) return false;
        r->addend = (int64_t)((uint64_t)r->addend + (uint64_t)addend);
        if (inside == 1 && !ptx_expect(p, ')')) return false;
    }
    return put_bits(p, init, 0);
}

static bool put_value(ptx_parser *p, initialiser *init, int32_t type) {
    const ptx_token *t = &p->lexer.token;
    if (t->kind == PTX_TOKEN_WORD) return put_address(p, init);
    bool negative = ptx_token_is(t, "-");
    if (t->kind == PTX_TOKEN_FLOAT || t->kind == PTX_TOKEN_DOUBLE || negative) {
        ptx_operand number = {0};
        if (!ptx_parse_operand(p, &number)) return false;
        uint64_t bits = (uint64_t)number.u.value;
        if (number.sub == PTX_LITERAL_F64 && type == PTX_TYPE_F32) {
            double wide;
            memcpy(&wide, &bits, sizeof wide);
            float narrow = (float)wide;
            bits = 0;
            memcpy(&bits, &narrow, sizeof narrow);
        }
        return put_bits(p, init, bits);
    }
    int64_t value;
    return ptx_parse_integer(p, &value) && put_bits(p, init, (uint64_t)value);
}

static bool parse_values(ptx_parser *p, initialiser *init, int32_t type) {
    int depth = 0;
    do {
        uint32_t line = p->lexer.token.line;
        p->expression_depth = 0;
        while (ptx_accept(p, '{'))
            if (++depth > 8) return ptx_fail(p, line, "an initialiser is nested deeper than 8");
        if (init->bytes.count > PTX_INIT_BYTES_MAX)
            return ptx_fail(p, line, "an initialiser of more than %d bytes", PTX_INIT_BYTES_MAX);
        if (!ptx_token_is(&p->lexer.token, "}") && !put_value(p, init, type)) return false;
        while (depth > 0 && ptx_accept(p, '}'))
            depth--;
    } while (depth > 0 && ptx_expect(p, ','));
    return depth == 0;
}

static bool keep_values(ptx_parser *p, variable *v, const initialiser *init, uint32_t line) {
    ptx_symbol *s = &v->symbol;
    if (!v->sized) s->size = init->bytes.count;
    if (init->bytes.count > s->size)
        return ptx_fail(p, line, "'%s': more values than elements", s->name);
    if (s->size > PTX_INIT_BYTES_MAX)
        return ptx_fail(p, line, "'%s': more than %d bytes initialised", s->name,
                        PTX_INIT_BYTES_MAX);
    uint8_t *bytes = ptx_arena_take(&p->arena, s->size);
    if (bytes == NULL) return ptx_no_memory(p);
    if (init->bytes.count) memcpy(bytes, init->bytes.items, init->bytes.count);
    s->init = bytes;
    s->relocation_count = (uint32_t)init->relocations.count;
    s->relocations = ptx_list_copy(&init->relocations, &p->arena);
    return true;
}

static bool parse_initialiser(ptx_parser *p, variable *v) {
    uint32_t line = p->lexer.token.line;
    if (v->symbol.space != PTX_SPACE_GLOBAL && v->symbol.space != PTX_SPACE_CONST)
        return ptx_fail(p, line, "'%s': only .global and .const variables have initial values",
                        v->symbol.name);
    initialiser init = {.bytes.item_bytes = 1,
                        .relocations.item_bytes = sizeof(ptx_relocation),
                        .element_bytes = v->element_bytes};
    bool good = parse_values(p, &init, v->symbol.type) && keep_values(p, v, &init, line);
    ptx_list_free(&init.bytes);
    ptx_list_free(&init.relocations);
    return good;
}

static bool place(ptx_parser *p, ptx_symbol *s, uint64_t *used) {
    s->offset = ptx_align_up(*used, s->align);
    if (s->size > PTX_SEGMENT_BYTES_MAX || s->offset + s->size > PTX_SEGMENT_BYTES_MAX)
        return ptx_fail(p, s->line, "'%s': variables of one space exceed %llu bytes", s->name,
                        (unsigned long long)PTX_SEGMENT_BYTES_MAX);
    *used = s->offset + s->size;
    return true;
}

// Offsets in segments; shared variables are laid out per function, at the end.
static bool place_variable(ptx_parser *p, ptx_symbol *s) {
    uint64_t used;
    switch (s->space) {
    case PTX_SPACE_GLOBAL:
        return place(p, s, &p->program->global_bytes);
    case PTX_SPACE_CONST:
        return place(p, s, &p->program->const_bytes);
    case PTX_SPACE_LOCAL:
        if (p->function == NULL)
            return ptx_fail(p, s->line, "'%s': a .local variable outside of functions", s->name);
        used = p->function->local_bytes;
        if (!place(p, s, &used)) return false;
        p->function->local_bytes = (uint32_t)used;
        return true;
    case PTX_SPACE_PARAM_FUNC:
        used = p->function->call_bytes;
        if (!place(p, s, &used)) return false;
        p->function->call_bytes = (uint32_t)used;
        return true;
    default:
        return true;
    }
}

static bool keep_symbol(ptx_parser *p, const ptx_symbol *model, const ptx_token *name,
                        uint32_t *index) {
    ptx_symbol *s = ptx_list_add(&p->symbols);
    if (s == NULL) return ptx_no_memory(p);
    *s = *model;
    *index = (uint32_t)p->symbols.count - 1;
    return ptx_names_add(&p->names, name->text, name->length, PTX_NAME_SYMBOL, *index, p->depth) ||
           ptx_no_memory(p);
}

static bool parse_name(ptx_parser *p, ptx_symbol *s, ptx_token *name) {
    ptx_token t = *name = p->lexer.token;
    if (t.kind != PTX_TOKEN_WORD)
        return ptx_fail(p, t.line, "expected a variable's name, got '%.*s'", shown(&t), t.text);
    const ptx_name *known = ptx_names_find(&p->names, t.text, t.length);
    if (known != NULL && known->depth == p->depth && s->space != PTX_SPACE_PARAM) {
        const ptx_symbol *old =
            known->kind == PTX_NAME_SYMBOL ? (ptx_symbol *)p->symbols.items + known->index : NULL;
        bool again = old != NULL && old->linkage == PTX_LINK_EXTERN && old->space == s->space;
        if (!again) return ptx_fail(p, t.line, "'%.*s' is declared twice", shown(&t), t.text);
    }
    bool inside = p->depth > 0 && s->space != PTX_SPACE_PARAM;
    s->name =
        inside ? ptx_unique_name(p, t.text, t.length) : ptx_arena_text(&p->arena, t.text, t.length);
    s->line = t.line;
    s->function = p->function_index;
    if (s->name == NULL) return p->errors > 0 ? false : ptx_no_memory(p);
    ptx_lex_next(&p->lexer);
    return true;
}

static int32_t variable_space(const ptx_parser *p, const ptx_token *t) {
    if (ptx_token_is(t, ".global")) return PTX_SPACE_GLOBAL;
    if (ptx_token_is(t, ".const")) return PTX_SPACE_CONST;
    if (ptx_token_is(t, ".shared")) return PTX_SPACE_SHARED;
    if (ptx_token_is(t, ".local")) return PTX_SPACE_LOCAL;
    return ptx_token_is(t, ".param") && p->function != NULL ? PTX_SPACE_PARAM_FUNC : -1;
}

bool ptx_parse_variable(ptx_parser *p, uint8_t linkage) {
    const ptx_token *t = &p->lexer.token;
    variable v = {0};
    int32_t space = variable_space(p, t);
    if (space < 0) return ptx_fail(p, t->line, "unknown directive '%.*s'", shown(t), t->text);
    v.symbol.space = (uint8_t)space;
    v.symbol.linkage = linkage;
    ptx_lex_next(&p->lexer);
    if (!parse_attributes(p, &v)) return false;
    uint32_t align = v.symbol.align;
    for (;;) {
        uint32_t index;
        ptx_token name;
        v.symbol.align = align;
        v.symbol.init = NULL;
        if (!parse_name(p, &v.symbol, &name) || !parse_dimensions(p, &v)) return false;
        if (ptx_accept(p, '=') && !parse_initialiser(p, &v)) return false;
        if (!v.sized && v.symbol.init == NULL) {
            if (space != PTX_SPACE_SHARED || linkage != PTX_LINK_EXTERN)
                return ptx_fail(p, v.symbol.line, "'%s': an array without size", v.symbol.name);
            v.symbol.dynamic = 1;
        }
        if (!place_variable(p, &v.symbol) || !keep_symbol(p, &v.symbol, &name, &index))
            return false;
        if (!ptx_accept(p, ',')) break;
    }
    return ptx_expect(p, ';');
}

// A parameter in a function's head; *offset grows.
bool ptx_parse_param(ptx_parser *p, uint32_t *symbol, uint64_t *offset) {
    variable v = {.symbol.space = PTX_SPACE_PARAM};
    ptx_token name;
    const ptx_token *t = &p->lexer.token;
    if (!ptx_token_is(t, ".param"))
        return ptx_fail(p, t->line, "expected .param, got '%.*s'", shown(t), t->text);
    ptx_lex_next(&p->lexer);
    if (!parse_attributes(p, &v) || !parse_name(p, &v.symbol, &name) || !parse_dimensions(p, &v))
        return false;
    if (!v.sized) return ptx_fail(p, v.symbol.line, "parameter '%s' has no size", v.symbol.name);
    return place(p, &v.symbol, offset) && keep_symbol(p, &v.symbol, &name, symbol);
}

/* ---- the table of files ---- */

bool ptx_keep_files(ptx_parser *p) {
    const ptx_file_line *lines = p->files.items;
    uint32_t count = 1;
    for (size_t i = 0; i < p->files.count; i++)
        if (lines[i].number >= count) count = lines[i].number + 1;
    const char **names = ptx_arena_take(&p->arena, count * sizeof *names);
    if (names == NULL) return ptx_no_memory(p);
    for (uint32_t i = 0; i < count; i++)
        names[i] = "";
    for (size_t i = 0; i < p->files.count; i++)
        names[lines[i].number] = lines[i].name;
    p->program->files = names;
    p->program->file_count = count;
    ptx_loc *locs = p->locs.items;
    for (size_t i = 0; i < p->locs.count; i++)
        if (locs[i].file >= count) locs[i].file = 0;
    return true;
}

/* ---- the top level ---- */

static bool parse_version(ptx_parser *p) {
    const ptx_token *t = &p->lexer.token;
    ptx_lex_next(&p->lexer);
    char text[16];
    int major, minor, used = 0;
    if (t->kind == PTX_TOKEN_DOUBLE && t->length < sizeof text) {
        memcpy(text, t->text, t->length);
        text[t->length] = '\0';
        if (sscanf(text, "%2d.%2d%n", &major, &minor, &used) == 2 && text[used] == '\0') {
            if (major < 3 || major > 9)
                return ptx_fail_unsupported(p, t->line, "PTX version %d.%d: 3.0 to 9.9 are read",
                                            major, minor);
            p->program->version_major = major;
            p->program->version_minor = minor;
            ptx_lex_next(&p->lexer);
            return true;
        }
    }
    return ptx_fail(p, t->line, ".version: expected a number such as 9.0, got '%.*s'", shown(t),
                    t->text);
}

static bool parse_target(ptx_parser *p) {
    static const char *const known[] = {"sm_70", "sm_72", "sm_75",  "sm_80",  "sm_86",   "sm_87",
                                        "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f"};
    ptx_program *program = p->program;
    const ptx_token *t = &p->lexer.token;
    uint32_t line = t->line;
    ptx_lex_next(&p->lexer);
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (ptx_token_is(t, known[i])) {
            char variant = known[i][strlen(known[i]) - 1];
            snprintf(program->target, sizeof program->target, "%s", known[i]);
            (void)sscanf(known[i], "sm_%d", &program->sm);
            program->variant = variant == 'a' || variant == 'f' ? variant : '\0';
            found = true;
        }
    if (!found)
        return ptx_fail_unsupported(
            p, line,
            "target %.*s is not supported: sm_70 to sm_90, sm_90a, sm_100, sm_100a and sm_100f are",
            shown(t), t->text);
    ptx_lex_next(&p->lexer);
    while (ptx_accept(p, ',')) { /* debug, texmode_... */
        if (t->kind != PTX_TOKEN_WORD) return ptx_fail(p, t->line, ".target: expected an option");
        ptx_lex_next(&p->lexer);
    }
    return true;
}

static bool parse_address_size(ptx_parser *p) {
    int64_t bits;
    uint32_t line = p->lexer.token.line;
    ptx_lex_next(&p->lexer);
    if (!ptx_parse_integer(p, &bits)) return false;
    if (bits != 64)
        return ptx_fail_unsupported(p, line, "address size %lld: only 64 is supported",
                                    (long long)bits);
    p->program->address_bits = 64;
    return true;
}

static bool parse_section(ptx_parser *p) {
    ptx_lex_next(&p->lexer); /* the name */
    while (p->lexer.token.kind != PTX_TOKEN_END && !ptx_token_is(&p->lexer.token, "{"))
        ptx_lex_next(&p->lexer);
    if (p->lexer.token.kind == PTX_TOKEN_END)
        return ptx_fail(p, p->lexer.token.line, "the text ends in a .section");
    ptx_lex_skip_braces(&p->lexer);
    return true;
}

static bool parse_linkage(ptx_parser *p, uint8_t *linkage) {
    const ptx_token *t = &p->lexer.token;
    for (;; ptx_lex_next(&p->lexer)) {
        if (ptx_token_is(t, ".visible"))
            *linkage = PTX_LINK_VISIBLE;
        else if (ptx_token_is(t, ".extern"))
            *linkage = PTX_LINK_EXTERN;
        else if (ptx_token_is(t, ".weak"))
            *linkage = PTX_LINK_WEAK;
        else if (ptx_token_is(t, ".common"))
            *linkage = PTX_LINK_COMMON;
        else
            return true;
    }
}

static bool parse_top(ptx_parser *p) {
    const ptx_token *t = &p->lexer.token;
    uint8_t linkage = PTX_LINK_NONE;
    p->expression_depth = 0;
    if (ptx_token_is(t, ".target")) return parse_target(p);
    if (ptx_token_is(t, ".address_size")) return parse_address_size(p);
    if (ptx_token_is(t, ".file")) return parse_file(p);
    if (ptx_token_is(t, ".loc")) return ptx_parse_loc(p);
    if (ptx_token_is(t, ".section")) return ptx_lex_next(&p->lexer), parse_section(p);
    if (ptx_accept(p, ';')) return true;
    if (ptx_token_is(t, ".pragma")) {
        ptx_lex_next(&p->lexer);
        ptx_lex_next(&p->lexer);
        return ptx_expect(p, ';');
    }
    (void)parse_linkage(p, &linkage);
    if (ptx_token_is(t, ".entry") || ptx_token_is(t, ".func"))
        return ptx_parse_function(p, linkage);
    if (t->kind == PTX_TOKEN_DIRECTIVE) return ptx_parse_variable(p, linkage);
    return ptx_fail(p, t->line, "expected a declaration, got '%.*s'", shown(t), t->text);
}

// Skips to where a declaration may begin: after a ';', or past a braced block.
static void recover_top(ptx_parser *p) {
    const ptx_token *t = &p->lexer.token;
    while (t->kind != PTX_TOKEN_END && !ptx_token_is(t, ";") && !ptx_token_is(t, "{") &&
           !ptx_token_is(t, "}"))
        ptx_lex_next(&p->lexer);
    if (ptx_token_is(t, "{"))
        ptx_lex_skip_braces(&p->lexer);
    else
        ptx_lex_next(&p->lexer);
}

bool ptx_parse_module(ptx_parser *p) {
    if (!ptx_token_is(&p->lexer.token, ".version"))
        return ptx_fail(p, p->lexer.token.line, "not PTX: expected .version, got '%.*s'",
                        shown(&p->lexer.token), p->lexer.token.text);
    if (!parse_version(p)) return false;
    if (!ptx_token_is(&p->lexer.token, ".target"))
        return ptx_fail(p, p->lexer.token.line, "expected .target after .version");
    while (p->lexer.token.kind != PTX_TOKEN_END) {
        if (p->errors >= PTX_ERRORS_MAX || p->arena.failed || p->stopped) return false;
        if (!parse_top(p)) {
            if (p->status == FA4_UNSUPPORTED || p->stopped) return false;
            recover_top(p);
        }
    }
    return true;
}
