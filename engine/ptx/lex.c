/* PTX text -> tokens, one at a time. Comments and blanks vanish here; numbers get their value.
 * Nothing is copied. */
#include "ptx/ptx_internal.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_LENGTH_MAX = 64 };

static bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name(char c) {
    return is_name_start(c) || is_digit(c);
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static void skip_blanks(ptx_lexer *x) {
    while (x->at < x->end) {
        char c = *x->at;
        if (c == '\n') {
            x->line++;
            x->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            x->at++;
        } else if (c == '/' && x->at + 1 < x->end && x->at[1] == '/') {
            while (x->at < x->end && *x->at != '\n')
                x->at++;
        } else if (c == '/' && x->at + 1 < x->end && x->at[1] == '*') {
            x->at += 2;
            while (x->at < x->end && !(x->at[0] == '*' && x->at + 1 < x->end && x->at[1] == '/')) {
                if (*x->at == '\n') x->line++;
                x->at++;
            }
            x->at = x->end - x->at >= 2 ? x->at + 2 : x->end;
        } else {
            return;
        }
    }
}

static void finish(ptx_lexer *x, ptx_token_kind kind, const char *from, const char *to) {
    x->token.kind = kind;
    x->token.text = from;
    x->token.length = (size_t)(to - from);
    x->at = to;
}

// Digits of a power-of-two base; false when there are none or more than 64 bits.
static bool read_digits(const char **at, const char *end, int base, uint64_t *value) {
    const char *from = *at;
    uint64_t v = 0;
    bool fits = true;
    for (; *at < end; (*at)++) {
        int digit = hex_digit(**at);
        if (digit < 0 || digit >= base) break;
        if (v > (UINT64_MAX - (uint64_t)digit) / (uint64_t)base) fits = false;
        v = v * (uint64_t)base + (uint64_t)digit;
    }
    *value = v;
    return *at > from && fits;
}

// 0f and 0d followed by exactly 8 or 16 hex digits: the bits of the number.
static bool lex_hex_float(ptx_lexer *x, const char *from, int digits, ptx_token_kind kind) {
    const char *at = from + 2;
    uint64_t value = 0;
    for (int i = 0; i < digits; i++, at++) {
        int digit = at < x->end ? hex_digit(*at) : -1;
        if (digit < 0) return false;
        value = value << 4 | (uint64_t)digit;
    }
    if (at < x->end && is_name(*at)) return false;
    finish(x, kind, from, at);
    x->token.value = (int64_t)value;
    return true;
}

static bool lex_decimal_float(ptx_lexer *x, const char *from) {
    const char *at = from;
    while (at < x->end && is_digit(*at))
        at++;
    if (at < x->end && *at == '.')
        for (at++; at < x->end && is_digit(*at);)
            at++;
    if (at < x->end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < x->end && (*at == '+' || *at == '-')) at++;
        while (at < x->end && is_digit(*at))
            at++;
    }
    char copy[NUMBER_LENGTH_MAX];
    size_t length = (size_t)(at - from);
    if (length >= sizeof copy || (at < x->end && is_name(*at))) return false;
    memcpy(copy, from, length);
    copy[length] = '\0';
    char *stop;
    double value = strtod(copy, &stop);
    if (*stop != '\0') return false;
    finish(x, PTX_TOKEN_DOUBLE, from, at);
    memcpy(&x->token.value, &value, sizeof value);
    return true;
}

static void lex_number(ptx_lexer *x) {
    const char *from = x->at, *at = from;
    char second = from + 1 < x->end ? from[1] : '\0';
    uint64_t value;
    bool good;
    if (*from == '0' && (second == 'f' || second == 'F')) {
        if (lex_hex_float(x, from, 8, PTX_TOKEN_FLOAT)) return;
    } else if (*from == '0' && (second == 'd' || second == 'D')) {
        if (lex_hex_float(x, from, 16, PTX_TOKEN_DOUBLE)) return;
    } else {
        int base = 10;
        if (*from == '0' && (second == 'x' || second == 'X'))
            base = 16;
        else if (*from == '0' && (second == 'b' || second == 'B'))
            base = 2;
        if (base != 10) at += 2;
        const char *digits = at;
        good = read_digits(&at, x->end, base, &value);
        if (base == 10 && at < x->end && (*at == '.' || *at == 'e' || *at == 'E')) {
            if (lex_decimal_float(x, from)) return;
        } else {
            if (base == 10 && *from == '0' && at - from > 1) {
                const char *octal_end = digits;
                good = read_digits(&octal_end, x->end, 8, &value) && octal_end == at;
            }
            if (at < x->end && (*at == 'U' || *at == 'u')) at++;
            if (good && !(at < x->end && is_name(*at))) {
                finish(x, PTX_TOKEN_INTEGER, from, at);
                x->token.value = (int64_t)value;
                return;
            }
        }
    }
    for (at = from + 1; at < x->end && is_name(*at);)
        at++;
    finish(x, PTX_TOKEN_BAD, from, at);
}

static void lex_string(ptx_lexer *x) {
    const char *from = x->at + 1, *at = from;
    while (at < x->end && *at != '"' && *at != '\n')
        at += *at == '\\' && at + 1 < x->end ? 2 : 1;
    if (at >= x->end || *at != '"') {
        finish(x, PTX_TOKEN_BAD, x->at, at < x->end ? at : x->end);
        return;
    }
    finish(x, PTX_TOKEN_STRING, from, at);
    x->at = at + 1;
}

// %tid.x is one word: after a % name, a dot and one of x, y, z, w that ends there belong to it.
static const char *special_end(const ptx_lexer *x, const char *at) {
    if (x->end - at < 2 || at[0] != '.' || at[1] < 'w' || at[1] > 'z') return at;
    return at + 2 < x->end && is_name(at[2]) ? at : at + 2;
}

void ptx_lex_next(ptx_lexer *x) {
    skip_blanks(x);
    x->token.line = x->line;
    x->token.value = 0;
    if (x->at >= x->end) {
        finish(x, PTX_TOKEN_END, x->end, x->end);
        return;
    }
    const char *from = x->at, *at = from;
    if (is_name_start(*from)) {
        for (at++; at < x->end && is_name(*at);)
            at++;
        if (*from == '%') at = special_end(x, at);
        finish(x, PTX_TOKEN_WORD, from, at);
    } else if (is_digit(*from)) {
        lex_number(x);
    } else if (*from == '"') {
        lex_string(x);
    } else if (*from == '.' && at + 1 < x->end && is_name_start(at[1])) {
        for (at++; at < x->end && is_name(*at);)
            at++;
        finish(x, PTX_TOKEN_DIRECTIVE, from, at);
    } else {
        finish(x, PTX_TOKEN_MARK, from, from + 1);
    }
}

void ptx_lex_start(ptx_lexer *x, const char *text, size_t length) {
    *x = (ptx_lexer){.at = text, .end = text + length, .line = 1};
    ptx_lex_next(x);
}

void ptx_lex_spelling(ptx_lexer *x) {
    const char *at = x->token.text + x->token.length;
    while (at < x->end) {
        if (is_name(*at) || *at == '.')
            at++;
        else if (*at == ':' && at + 1 < x->end && at[1] == ':')
            at += 2;
        else
            break;
    }
    finish(x, PTX_TOKEN_WORD, x->token.text, at);
}

void ptx_lex_skip_braces(ptx_lexer *x) {
    int depth = 1;
    for (; x->at < x->end && depth > 0; x->at++) {
        if (*x->at == '\n')
            x->line++;
        else if (*x->at == '{')
            depth++;
        else if (*x->at == '}')
            depth--;
    }
    ptx_lex_next(x);
}

void ptx_lex_skip_line(ptx_lexer *x) {
    while (x->at < x->end && *x->at != '\n')
        x->at++;
    ptx_lex_next(x);
}

bool ptx_token_is(const ptx_token *token, const char *text) {
    return token->length == strlen(text) && memcmp(token->text, text, token->length) == 0 &&
           token->kind != PTX_TOKEN_STRING;
}
