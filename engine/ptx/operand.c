/*
 * One operand as written -> its decoded form. What a place of an instruction allows is checked
 * later (check.c); here names are resolved: registers, ranges of registers, special registers,
 * symbols, functions, labels (which may come later).
 */
#include "ptx/ptx_internal.h"

#include <string.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* ---- constant expressions ---- */

static bool parse_unary(ptx_parser *p, int64_t *value) {
    ptx_token *t = &p->lexer.token;
    if (++p->expression_depth > PTX_EXPRESSION_DEPTH_MAX)
        return ptx_fail(p, t->line, "an expression is nested deeper than %d",
                        PTX_EXPRESSION_DEPTH_MAX);
    bool good = true;
    if (t->kind == PTX_TOKEN_INTEGER) {
        *value = t->value;
        ptx_lex_next(&p->lexer);
    } else if (ptx_accept(p, '(')) {
        good = ptx_parse_integer(p, value) && ptx_expect(p, ')');
    } else if (ptx_accept(p, '-')) {
        good = parse_unary(p, value);
        if (good) *value = (int64_t)(0 - (uint64_t)*value);
    } else if (ptx_accept(p, '+')) {
        good = parse_unary(p, value);
    } else if (ptx_accept(p, '~')) {
        good = parse_unary(p, value);
        if (good) *value = ~*value;
    } else {
        good = ptx_fail(p, t->line, "expected a number, got '%.*s'",
                        (int)(t->length > 60 ? 60 : t->length), t->text);
    }
    p->expression_depth--;
    return good;
}

static bool parse_product(ptx_parser *p, int64_t *value) {
    if (!parse_unary(p, value)) return false;
    while (ptx_token_is(&p->lexer.token, "*")) {
        int64_t right;
        ptx_lex_next(&p->lexer);
        if (!parse_unary(p, &right)) return false;
        *value = (int64_t)((uint64_t)*value * (uint64_t)right);
    }
    return true;
}

bool ptx_parse_integer(ptx_parser *p, int64_t *value) {
    if (!parse_product(p, value)) return false;
    for (;;) {
        bool plus = ptx_token_is(&p->lexer.token, "+");
        if (!plus && !ptx_token_is(&p->lexer.token, "-")) return true;
        int64_t right;
        ptx_lex_next(&p->lexer);
        if (!parse_product(p, &right)) return false;
        *value = (int64_t)(plus ? (uint64_t)*value + (uint64_t)right
                                : (uint64_t)*value - (uint64_t)right);
    }
}

// The rest of a sum such as base - 4 + 2, as one number; 0 when no sign follows.
bool ptx_parse_sum(ptx_parser *p, int64_t *value) {
    const ptx_token *t = &p->lexer.token;
    *value = 0;
    return (!ptx_token_is(t, "+") && !ptx_token_is(t, "-")) || ptx_parse_integer(p, value);
}

/* ---- names ---- */

static const ptx_registers *registers_at(const ptx_parser *p, uint32_t i) {
    return (const ptx_registers *)p->registers.items + i;
}

// %r12 as member 12 of %r<N>: every way to part the name from a number without leading zeros.
static const ptx_name *find_range(const ptx_parser *p, const ptx_token *t, uint32_t *member) {
    size_t cut = t->length;
    while (cut > 0 && is_digit(t->text[cut - 1]) && t->length - cut < 8) {
        cut--;
        if (t->text[cut] == '0' && cut + 1 < t->length) continue;
        if (cut > 0 && is_digit(t->text[cut - 1]) && t->length - cut < 8) continue;
        break;
    }
    for (; cut > 0 && cut < t->length; cut++) {
        if (t->text[cut] == '0' && cut + 1 < t->length) continue;
        const ptx_name *name = ptx_names_find(&p->names, t->text, cut);
        if (name == NULL || name->kind != PTX_NAME_RANGE) continue;
        uint32_t number = 0;
        for (size_t i = cut; i < t->length; i++)
            number = number * 10 + (uint32_t)(t->text[i] - '0');
        if (number >= registers_at(p, name->index)->count) continue;
        *member = number;
        return name;
    }
    return NULL;
}

static const ptx_name *find_name(const ptx_parser *p, const ptx_token *t, uint32_t *member) {
    const ptx_name *exact = ptx_names_find(&p->names, t->text, t->length);
    *member = 0;
    if (exact != NULL && exact->kind == PTX_NAME_RANGE) exact = NULL;
    if (t->length == 0 || !is_digit(t->text[t->length - 1])) return exact;
    uint32_t number;
    const ptx_name *range = find_range(p, t, &number);
    if (range == NULL || (exact != NULL && exact > range))
        return exact; /* entries lie in order of declaration */
    *member = number;
    return range;
}

static int32_t find_special(const ptx_token *t) {
    if (t->text[0] != '%' && t->text[0] != 'W') return -1;
    for (int32_t i = 0; i < PTX_SPECIAL_COUNT; i++) {
        const char *name = ptx_special_name(i);
        if (strlen(name) == t->length && memcmp(name, t->text, t->length) == 0) return i;
    }
    return -1;
}

static bool wait_for_label(ptx_parser *p, const ptx_token *t, ptx_operand *operand) {
    operand->kind = PTX_LABEL;
    ptx_fixup *fixup = ptx_list_add(&p->fixups);
    if (fixup == NULL) return ptx_no_memory(p);
    *fixup = (ptx_fixup){operand, t->text, (uint32_t)t->length, t->line};
    return true;
}

static bool resolve_word(ptx_parser *p, const ptx_token *t, ptx_operand *operand) {
    uint32_t member;
    const ptx_name *name = find_name(p, t, &member);
    if (name == NULL) {
        int32_t special = find_special(t);
        if (special >= 0) {
            operand->kind = PTX_SPECIAL;
            operand->index = (uint32_t)special;
            return true;
        }
        if (t->text[0] == '%')
            return ptx_fail(p, t->line, "unknown register '%.*s'",
                            (int)(t->length > 100 ? 100 : t->length), t->text);
        return wait_for_label(p, t, operand);
    }
    operand->index = name->index;
    if (name->kind == PTX_NAME_SYMBOL) {
        operand->kind = PTX_SYMBOL;
    } else if (name->kind == PTX_NAME_FUNCTION) {
        operand->kind = PTX_FUNCTION;
    } else if (name->kind == PTX_NAME_TARGETS) {
        *operand = ((const ptx_operand *)p->targets.items)[name->index];
    } else {
        const ptx_registers *registers = registers_at(p, name->index);
        operand->kind = PTX_REGISTER;
        operand->reg_class = registers->reg_class;
        operand->index = registers->first + member;
    }
    return true;
}

static bool parse_word(ptx_parser *p, ptx_operand *operand) {
    ptx_token t = p->lexer.token;
    ptx_lex_next(&p->lexer);
    if (t.length == 1 && t.text[0] == '_') {
        operand->kind = PTX_SINK;
        return true;
    }
    if (!resolve_word(p, &t, operand)) return false;
    if (operand->kind == PTX_SYMBOL) return ptx_parse_sum(p, &operand->u.value);
    return true;
}

/* ---- compound operands ---- */

static bool parse_elements(ptx_parser *p, char close, ptx_operand *operand) {
    ptx_operand elements[PTX_ELEMENTS_MAX];
    uint32_t count = 0;
    uint32_t line = p->lexer.token.line;
    size_t fixups = p->fixups.count;
    memset(elements, 0, sizeof elements[0]);
    while (!ptx_token_is(&p->lexer.token, (char[]){close, '\0'})) {
        if (count == PTX_ELEMENTS_MAX)
            return ptx_fail(p, line, "more than %d elements in a list", PTX_ELEMENTS_MAX);
        if (count > 0 && !ptx_expect(p, ',')) return false;
        memset(&elements[count], 0, sizeof elements[0]);
        if (++p->expression_depth > PTX_EXPRESSION_DEPTH_MAX)
            return ptx_fail(p, line, "operands are nested deeper than %d",
                            PTX_EXPRESSION_DEPTH_MAX);
        if (!ptx_parse_operand(p, &elements[count])) return false;
        p->expression_depth--;
        count++;
    }
    ptx_lex_next(&p->lexer);
    if (p->fixups.count != fixups)
        return ptx_fail(p, line, "unknown name '%.*s' in a list",
                        (int)((ptx_fixup *)p->fixups.items)[fixups].length,
                        ((ptx_fixup *)p->fixups.items)[fixups].name);
    ptx_operand *copy = ptx_arena_take(&p->arena, (count ? count : 1) * sizeof *copy);
    if (copy == NULL) return ptx_no_memory(p);
    memcpy(copy, elements, count * sizeof *copy);
    operand->count = (uint8_t)count;
    operand->u.elements = copy;
    return true;
}

// [base + offset] or [base, {coordinates}]; the opening bracket is taken.
static bool parse_address(ptx_parser *p, ptx_operand *operand) {
    ptx_token t = p->lexer.token;
    operand->kind = PTX_ADDRESS;
    if (t.kind == PTX_TOKEN_WORD) {
        ptx_operand base = {0};
        size_t fixups = p->fixups.count;
        ptx_lex_next(&p->lexer);
        if (!resolve_word(p, &t, &base)) return false;
        if (p->fixups.count != fixups || (base.kind != PTX_REGISTER && base.kind != PTX_SYMBOL)) {
            p->fixups.count = fixups;
            return ptx_fail(p, t.line, "unknown variable '%.*s' in an address",
                            (int)(t.length > 100 ? 100 : t.length), t.text);
        }
        operand->sub = base.kind == PTX_REGISTER ? PTX_BASE_REGISTER : PTX_BASE_SYMBOL;
        operand->reg_class = base.reg_class;
        operand->index = base.index;
        if (!ptx_parse_sum(p, &operand->u.value)) return false;
    } else if (!ptx_parse_integer(p, &operand->u.value)) {
        return false;
    }
    if (ptx_accept(p, ',')) {
        ptx_operand *elements = ptx_arena_take(&p->arena, 2 * sizeof *elements);
        if (elements == NULL) return ptx_no_memory(p);
        elements[0] = *operand;
        if (!ptx_expect(p, '{')) return false;
        elements[1].kind = PTX_VECTOR;
        if (!parse_elements(p, '}', &elements[1])) return false;
        *operand = (ptx_operand){.kind = PTX_TENSOR, .count = 2, .u.elements = elements};
    }
    return ptx_expect(p, ']');
}

static bool parse_number(ptx_parser *p, ptx_operand *operand) {
    ptx_token *t = &p->lexer.token;
    bool negative = ptx_token_is(t, "-");
    operand->kind = PTX_IMMEDIATE;
    if (negative) {
        ptx_lexer ahead = p->lexer;
        ptx_lex_next(&ahead);
        if (ahead.token.kind == PTX_TOKEN_FLOAT || ahead.token.kind == PTX_TOKEN_DOUBLE)
            p->lexer = ahead;
        else
            negative = false;
    }
    if (t->kind == PTX_TOKEN_FLOAT) {
        operand->sub = PTX_LITERAL_F32;
        operand->u.value = negative ? t->value ^ (int64_t)0x80000000 : t->value;
    } else if (t->kind == PTX_TOKEN_DOUBLE) {
        operand->sub = PTX_LITERAL_F64;
        operand->u.value = negative ? (int64_t)((uint64_t)t->value ^ (uint64_t)1 << 63) : t->value;
    } else {
        return ptx_parse_integer(p, &operand->u.value);
    }
    ptx_lex_next(&p->lexer);
    return true;
}

static bool parse_pair(ptx_parser *p, ptx_operand *operand) {
    ptx_operand *pair = ptx_arena_take(&p->arena, 2 * sizeof *pair);
    if (pair == NULL) return ptx_no_memory(p);
    pair[0] = *operand;
    if (p->lexer.token.kind != PTX_TOKEN_WORD)
        return ptx_fail(p, p->lexer.token.line, "expected a register after '|'");
    if (!parse_word(p, &pair[1])) return false;
    *operand = (ptx_operand){.kind = PTX_PAIR, .count = 2, .u.elements = pair};
    return true;
}

bool ptx_parse_operand(ptx_parser *p, ptx_operand *operand) {
    const ptx_token *t = &p->lexer.token;
    if (t->kind == PTX_TOKEN_WORD) {
        if (!parse_word(p, operand)) return false;
        return ptx_accept(p, '|') ? parse_pair(p, operand) : true;
    }
    if (ptx_accept(p, '[')) return parse_address(p, operand);
    if (ptx_accept(p, '{')) {
        operand->kind = PTX_VECTOR;
        return parse_elements(p, '}', operand);
    }
    if (p->in_call && ptx_accept(p, '(')) {
        operand->kind = PTX_LIST;
        return parse_elements(p, ')', operand);
    }
    if (ptx_accept(p, '!')) {
        if (t->kind != PTX_TOKEN_WORD || !parse_word(p, operand))
            return ptx_fail(p, t->line, "expected a predicate after '!'");
        operand->sub = 1;
        if (operand->kind != PTX_REGISTER)
            return ptx_fail(p, t->line, "'!' must precede a predicate register");
        return true;
    }
    return parse_number(p, operand);
}
