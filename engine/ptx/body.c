/* The body of a function: scopes, registers, labels and instructions, flattened as they come. */
#include "ptx/ptx_internal.h"

#include <stdio.h>
#include <string.h>

/* ---- names that stay unique when scopes are flattened ---- */

const char *ptx_unique_name(ptx_parser *p, const char *text, size_t length) {
    char with_scope[40];
    for (uint32_t attempt = 0; attempt < 1000; attempt++) {
        int extra = 0;
        if (p->depth > 1 || attempt > 0)
            extra = attempt == 0 ? snprintf(with_scope, sizeof with_scope, "__%u", p->scope_count)
                                 : snprintf(with_scope, sizeof with_scope, "__%u_%u",
                                            p->scope_count, attempt);
        char *name = ptx_arena_take(&p->arena, length + (size_t)extra + 1);
        if (name == NULL) return (void)ptx_no_memory(p), NULL;
        memcpy(name, text, length);
        memcpy(name + length, with_scope, (size_t)extra);
        if (ptx_names_find(&p->unique, name, length + (size_t)extra) != NULL) continue;
        if (!ptx_names_add(&p->unique, name, length + (size_t)extra, PTX_NAME_UNIQUE, 0, 0))
            return (void)ptx_no_memory(p), NULL;
        return name;
    }
    (void)ptx_fail(p, p->lexer.token.line, "'%.*s' is declared too often",
                   (int)(length > 60 ? 60 : length), text);
    return NULL;
}

/* ---- .reg ---- */

static int32_t class_of(int32_t type) {
    switch (ptx_type_bits(type)) {
    case 1:
        return PTX_CLASS_PRED;
    case 8:
    case 16:
        return PTX_CLASS_B16;
    case 32:
        return PTX_CLASS_B32;
    case 64:
        return PTX_CLASS_B64;
    default:
        return PTX_CLASS_B128;
    }
}

static bool declared_here(const ptx_parser *p, const ptx_names *names, const ptx_token *t) {
    const ptx_name *name = ptx_names_find(names, t->text, t->length);
    return name != NULL && name->depth == p->depth;
}

static bool declare_registers(ptx_parser *p, int32_t type) {
    ptx_token t = p->lexer.token;
    if (t.kind != PTX_TOKEN_WORD || memchr(t.text, '.', t.length) != NULL)
        return ptx_fail(p, t.line, "expected a register name after .reg");
    int64_t count = 1;
    ptx_lex_next(&p->lexer);
    bool range = ptx_accept(p, '<');
    if (range && (!ptx_parse_integer(p, &count) || !ptx_expect(p, '>'))) return false;
    int32_t reg_class = class_of(type);
    uint32_t *used = &p->function->reg_count[reg_class];
    if (count < 1 || count > PTX_REGISTERS_MAX - (int64_t)*used)
        return ptx_fail(p, t.line, "%lld registers '%.*s': a function may have 1 to %d of a class",
                        (long long)count, (int)(t.length > 60 ? 60 : t.length), t.text,
                        PTX_REGISTERS_MAX);
    if (declared_here(p, &p->names, &t))
        return ptx_fail(p, t.line, "'%.*s' is declared twice", (int)(t.length > 60 ? 60 : t.length),
                        t.text);
    const char *name = ptx_unique_name(p, t.text, t.length);
    ptx_registers *r = name ? ptx_list_add(&p->registers) : NULL;
    if (r == NULL) return ptx_no_memory(p);
    *r = (ptx_registers){name, (uint8_t)type, (uint8_t)reg_class, range, *used, (uint32_t)count};
    *used += (uint32_t)count;
    ptx_name_kind kind = range ? PTX_NAME_RANGE : PTX_NAME_REGISTER;
    return ptx_names_add(&p->names, t.text, t.length, kind, (uint32_t)p->registers.count - 1,
                         p->depth) ||
           ptx_no_memory(p);
}

static bool parse_reg(ptx_parser *p) {
    ptx_token *t = &p->lexer.token;
    ptx_lex_next(&p->lexer);
    int32_t type = t->kind == PTX_TOKEN_DIRECTIVE ? ptx_type_of(t->text, t->length) : PTX_TYPE_NONE;
    if (type == PTX_TYPE_NONE)
        return ptx_fail(p, t->line, "unknown register type '%.*s'",
                        (int)(t->length > 60 ? 60 : t->length), t->text);
    do {
        ptx_lex_next(&p->lexer); /* the type, later the comma */
        if (!declare_registers(p, type)) return false;
    } while (ptx_token_is(t, ","));
    return ptx_expect(p, ';');
}

/* ---- labels ---- */

static bool define_label(ptx_parser *p, const ptx_token *t) {
    if (declared_here(p, &p->labels, t))
        return ptx_fail(p, t->line, "label '%.*s' is defined twice",
                        (int)(t->length > 60 ? 60 : t->length), t->text);
    const char *name = ptx_unique_name(p, t->text, t->length);
    ptx_label *label = name ? ptx_list_add(&p->label_list) : NULL;
    if (label == NULL) return ptx_no_memory(p);
    *label = (ptx_label){name, (uint32_t)p->instrs.count};
    return ptx_names_add(&p->labels, t->text, t->length, PTX_NAME_LABEL,
                         (uint32_t)p->label_list.count - 1, p->depth) ||
           ptx_no_memory(p);
}

// At the end of a scope: what its own labels settle is settled, the rest waits for the scope around
// it.
static void settle_labels(ptx_parser *p, size_t from) {
    ptx_fixup *fixups = p->fixups.items;
    size_t kept = from;
    for (size_t i = from; i < p->fixups.count; i++) {
        const ptx_name *name = ptx_names_find(&p->labels, fixups[i].name, fixups[i].length);
        if (name == NULL || name->depth != p->depth) {
            fixups[kept++] = fixups[i];
            continue;
        }
        fixups[i].operand->index = ((ptx_label *)p->label_list.items)[name->index].instr;
        fixups[i].operand->u.value = name->index;
    }
    p->fixups.count = kept;
}

// name: .branchtargets a, b, c;  - the list that brx.idx names.
static bool parse_targets(ptx_parser *p, const ptx_token *name) {
    enum { TARGETS_MAX = 255 };
    ptx_operand *targets = ptx_arena_take(&p->arena, TARGETS_MAX * sizeof *targets);
    if (targets == NULL) return ptx_no_memory(p);
    uint32_t count = 0;
    do {
        ptx_lex_next(&p->lexer); /* the directive, later the comma */
        ptx_token t = p->lexer.token;
        if (t.kind != PTX_TOKEN_WORD)
            return ptx_fail(p, t.line, "expected a label in .branchtargets");
        if (count == TARGETS_MAX)
            return ptx_fail(p, t.line, "more than %d branch targets", TARGETS_MAX);
        ptx_fixup *fixup = ptx_list_add(&p->fixups);
        if (fixup == NULL) return ptx_no_memory(p);
        targets[count].kind = PTX_LABEL;
        *fixup = (ptx_fixup){&targets[count++], t.text, (uint32_t)t.length, t.line};
        ptx_lex_next(&p->lexer);
    } while (ptx_token_is(&p->lexer.token, ","));
    ptx_operand *list = ptx_list_add(&p->targets);
    if (list == NULL) return ptx_no_memory(p);
    *list = (ptx_operand){.kind = PTX_TARGETS, .count = (uint8_t)count, .u.elements = targets};
    if (!ptx_names_add(&p->names, name->text, name->length, PTX_NAME_TARGETS,
                       (uint32_t)p->targets.count - 1, p->depth))
        return ptx_no_memory(p);
    return ptx_expect(p, ';');
}

/* ---- instructions ---- */

static bool parse_guard(ptx_parser *p, int32_t *guard, uint8_t *negated) {
    *guard = -1;
    *negated = 0;
    if (!ptx_accept(p, '@')) return true;
    if (ptx_accept(p, '!')) *negated = 1;
    ptx_operand operand = {0};
    uint32_t line = p->lexer.token.line;
    size_t fixups = p->fixups.count;
    if (p->lexer.token.kind != PTX_TOKEN_WORD)
        return ptx_fail(p, line, "expected a predicate register after '@'");
    bool good = ptx_parse_operand(p, &operand);
    p->fixups.count = fixups;
    if (!good) return false;
    if (operand.kind != PTX_REGISTER || operand.reg_class != PTX_CLASS_PRED)
        return ptx_fail(p, line, "expected a predicate register after '@'");
    *guard = (int32_t)operand.index;
    return true;
}

static bool parse_operands(ptx_parser *p, ptx_operand *operands, uint32_t *count) {
    *count = 0;
    if (ptx_token_is(&p->lexer.token, ";")) return true;
    do {
        if (*count == PTX_OPERANDS_MAX)
            return ptx_fail(p, p->lexer.token.line, "more than %d operands", PTX_OPERANDS_MAX);
        memset(&operands[*count], 0, sizeof *operands);
        if (!ptx_parse_operand(p, &operands[*count])) return false;
        ++*count;
    } while (ptx_accept(p, ','));
    if (!ptx_token_is(&p->lexer.token, ";")) return ptx_expect(p, ';');
    return true;
}

static bool add_instr(ptx_parser *p, const ptx_instr *model, const ptx_operand *operands,
                      uint32_t count, size_t fixups) {
    ptx_operand *copy = count ? ptx_arena_take(&p->arena, count * sizeof *copy) : NULL;
    ptx_instr *instr = ptx_list_add(&p->instrs);
    if (instr == NULL || (count && copy == NULL)) return ptx_no_memory(p);
    if (count) memcpy(copy, operands, count * sizeof *copy);
    for (size_t i = fixups; i < p->fixups.count; i++) {
        ptx_fixup *fixup = (ptx_fixup *)p->fixups.items + i;
        fixup->operand = copy + (fixup->operand - operands);
    }
    *instr = *model;
    instr->operands = copy;
    instr->operand_count = (uint8_t)count;
    instr->loc = p->loc;
    return true;
}

static bool parse_instruction(ptx_parser *p) {
    ptx_instr instr = {0};
    ptx_operand operands[PTX_OPERANDS_MAX];
    uint32_t count;
    instr.line = p->lexer.token.line;
    if (!parse_guard(p, &instr.guard, &instr.guard_negated)) return false;
    if (p->lexer.token.kind != PTX_TOKEN_WORD)
        return ptx_fail(p, p->lexer.token.line, "expected an instruction, got '%.*s'",
                        (int)(p->lexer.token.length > 60 ? 60 : p->lexer.token.length),
                        p->lexer.token.text);
    ptx_lex_spelling(&p->lexer);
    ptx_token spelling = p->lexer.token;
    instr.form = ptx_form_of(p, spelling.text, spelling.length, spelling.line);
    size_t fixups = p->fixups.count;
    ptx_lex_next(&p->lexer);
    p->in_call = instr.form != NULL && instr.form->opcode == PTX_OP_CALL;
    bool good = instr.form != NULL && parse_operands(p, operands, &count);
    for (size_t i = fixups; good && i < p->fixups.count; i++) {
        const ptx_fixup *f = (ptx_fixup *)p->fixups.items + i;
        if (instr.form->opcode != PTX_OP_BRA)
            good = ptx_fail(p, f->line, "unknown name '%.*s'",
                            (int)(f->length > 100 ? 100 : f->length), f->name);
    }
    good = good && ptx_check_operands(p, instr.form, operands, count, instr.line) &&
           add_instr(p, &instr, operands, count, fixups);
    if (!good) {
        p->fixups.count = fixups;
        return false;
    }
    return ptx_expect(p, ';');
}

/* ---- statements and scopes ---- */

static bool is_label(const ptx_lexer *x) {
    const char *at = x->at;
    while (at < x->end && (*at == ' ' || *at == '\t'))
        at++;
    return at < x->end && *at == ':' && !(at + 1 < x->end && at[1] == ':');
}

static bool parse_label(ptx_parser *p) {
    ptx_token name = p->lexer.token;
    ptx_lex_next(&p->lexer);
    ptx_lex_next(&p->lexer); /* the colon */
    if (ptx_token_is(&p->lexer.token, ".branchtargets")) return parse_targets(p, &name);
    return define_label(p, &name);
}

static bool parse_directive(ptx_parser *p) {
    const ptx_token *t = &p->lexer.token;
    if (ptx_token_is(t, ".reg")) return parse_reg(p);
    if (ptx_token_is(t, ".loc")) return ptx_parse_loc(p);
    if (ptx_token_is(t, ".pragma")) { /* hints to the assembler's optimiser: no meaning for a run */
        do
            ptx_lex_next(&p->lexer);
        while (t->kind == PTX_TOKEN_STRING || ptx_token_is(t, ","));
        return ptx_expect(p, ';');
    }
    if (ptx_token_is(t, ".shared") || ptx_token_is(t, ".local") || ptx_token_is(t, ".param") ||
        ptx_token_is(t, ".global") || ptx_token_is(t, ".const"))
        return ptx_parse_variable(p, PTX_LINK_NONE);
    return ptx_fail(p, t->line, "unknown directive '%.*s' in a function",
                    (int)(t->length > 60 ? 60 : t->length), t->text);
}

static bool parse_statement(ptx_parser *p) {
    const ptx_token *t = &p->lexer.token;
    p->expression_depth = 0;
    if (t->kind == PTX_TOKEN_DIRECTIVE) return parse_directive(p);
    if (ptx_accept(p, ';')) return true;
    if (t->kind == PTX_TOKEN_WORD && is_label(&p->lexer)) return parse_label(p);
    return parse_instruction(p);
}

static void recover(ptx_parser *p) {
    while (p->lexer.token.kind != PTX_TOKEN_END && !ptx_token_is(&p->lexer.token, ";"))
        ptx_lex_next(&p->lexer);
    ptx_accept(p, ';');
}

/* What a scope must undo when it ends. */
typedef struct scope {
    size_t names, labels, fixups;
} scope;

static bool open_scope(ptx_parser *p, scope *s) {
    *s = (scope){p->names.entries.count, p->labels.entries.count, p->fixups.count};
    p->depth++;
    p->scope_count++;
    return true;
}

static void close_scope(ptx_parser *p, const scope *s) {
    settle_labels(p, s->fixups);
    ptx_names_drop(&p->names, s->names);
    ptx_names_drop(&p->labels, s->labels);
    p->depth--;
}

static void report_labels(ptx_parser *p) {
    for (size_t i = 0; i < p->fixups.count; i++) {
        const ptx_fixup *f = (ptx_fixup *)p->fixups.items + i;
        (void)ptx_fail(p, f->line, "unknown label '%.*s'", (int)(f->length > 100 ? 100 : f->length),
                       f->name);
    }
    p->fixups.count = 0;
}

// The opening brace of the body is the token at hand.
bool ptx_parse_body(ptx_parser *p) {
    scope scopes[PTX_SCOPES_MAX];
    uint32_t open = 0;
    uint32_t line = p->lexer.token.line;
    do {
        const ptx_token *t = &p->lexer.token;
        if (p->errors >= PTX_ERRORS_MAX || p->arena.failed) return false;
        if (t->kind == PTX_TOKEN_END) {
            while (open > 0)
                close_scope(p, &scopes[--open]);
            return ptx_fail(p, t->line, "the text ends inside the function that begins at line %u",
                            line);
        }
        if (ptx_token_is(t, "{")) {
            if (open == PTX_SCOPES_MAX)
                return ptx_fail(p, t->line, "scopes are nested deeper than %d", PTX_SCOPES_MAX);
            open_scope(p, &scopes[open++]);
            ptx_lex_next(&p->lexer);
        } else if (ptx_token_is(t, "}")) {
            close_scope(p, &scopes[--open]);
            if (open > 0) ptx_lex_next(&p->lexer);
        } else if (!parse_statement(p)) {
            recover(p);
        }
    } while (open > 0);
    report_labels(p);
    ptx_lex_next(&p->lexer);
    return true;
}
