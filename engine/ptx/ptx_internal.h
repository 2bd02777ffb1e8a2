/* What the files of this folder share: an arena, errors, the lexer, name tables and the parser's
 * state. */
#ifndef FA4_PTX_INTERNAL_H
#define FA4_PTX_INTERNAL_H

#include "ptx/ptx.h"

enum {
    PTX_TEXT_BYTES_MAX = 64 << 20,
    PTX_REGISTERS_MAX = 1 << 20, /* of one class in one function */
    PTX_SCOPES_MAX = 256,        /* nesting of { } */
    PTX_EXPRESSION_DEPTH_MAX = 64,
    PTX_OPERANDS_MAX = 16,
    PTX_ELEMENTS_MAX = 128,
    PTX_INIT_BYTES_MAX = 16 << 20,
    PTX_ERRORS_MAX = 64, /* then parsing stops */
    PTX_FUNCTIONS_MAX = 4096,
    PTX_SHARED_PLACES_MAX = 1 << 24 /* functions times symbols */
};
#define PTX_SEGMENT_BYTES_MAX ((uint64_t)1 << 30)

/* ---- arena: everything of one program, freed at once ---- */

typedef struct ptx_arena {
    struct ptx_chunk *chunks;
    size_t used, room; /* of the newest chunk */
    bool failed;       /* memory ran out; later allocations return NULL too */
} ptx_arena;

/* Zeroed, 16-byte aligned; NULL when memory ran out. */
void *ptx_arena_take(ptx_arena *arena, size_t bytes);
char *ptx_arena_text(ptx_arena *arena, const char *text, size_t length);
void ptx_arena_free(ptx_arena *arena);

/* A growing array of plain values outside the arena. */
typedef struct ptx_list {
    void *items;
    size_t count, room, item_bytes;
} ptx_list;

/* A new zeroed item at the end, or NULL. */
void *ptx_list_add(ptx_list *list);
void *ptx_list_copy(const ptx_list *list, ptx_arena *arena); /* NULL when empty or out of memory */
void ptx_list_free(ptx_list *list);

/* ---- names: a hash table whose newest entry wins; leaving a scope removes its entries ---- */

typedef enum ptx_name_kind {
    PTX_NAME_REGISTER,
    PTX_NAME_RANGE,
    PTX_NAME_SYMBOL,
    PTX_NAME_FUNCTION,
    PTX_NAME_LABEL,
    PTX_NAME_TARGETS,
    PTX_NAME_FORM,
    PTX_NAME_UNIQUE
} ptx_name_kind;

typedef struct ptx_name {
    const char *text;
    uint32_t length, hash;
    uint32_t index; /* into what the kind says */
    uint16_t depth;
    uint8_t kind;
    uint32_t next; /* of the same bucket, 1-based; 0 ends */
} ptx_name;

typedef struct ptx_names {
    ptx_list entries; /* ptx_name */
    uint32_t *buckets;
    uint32_t bucket_count;
} ptx_names;

bool ptx_names_add(ptx_names *names, const char *text, size_t length, ptx_name_kind kind,
                   uint32_t index, uint32_t depth);
/* The newest entry of that text, NULL: none. */
const ptx_name *ptx_names_find(const ptx_names *names, const char *text, size_t length);
void ptx_names_drop(ptx_names *names, size_t count); /* back to the first `count` entries */
void ptx_names_free(ptx_names *names);

/* A .file line, until the table is made. */
typedef struct ptx_file_line {
    uint32_t number;
    const char *name;
} ptx_file_line;

/* ---- lexer ---- */

typedef enum ptx_token_kind {
    PTX_TOKEN_END,
    PTX_TOKEN_WORD,      /* name, %name, $name */
    PTX_TOKEN_DIRECTIVE, /* .name, with the dot */
    PTX_TOKEN_INTEGER,
    PTX_TOKEN_FLOAT, /* f32 literal: value holds its bits */
    PTX_TOKEN_DOUBLE,
    PTX_TOKEN_STRING, /* text without quotes */
    PTX_TOKEN_MARK,   /* one character */
    PTX_TOKEN_BAD
} ptx_token_kind;

typedef struct ptx_token {
    ptx_token_kind kind;
    const char *text;
    size_t length;
    uint32_t line;
    int64_t value;
} ptx_token;

typedef struct ptx_lexer {
    const char *at, *end;
    uint32_t line;
    ptx_token token; /* the one to look at */
} ptx_lexer;

void ptx_lex_start(ptx_lexer *lexer, const char *text, size_t length);
void ptx_lex_next(ptx_lexer *lexer);
/* The token is a word: widens it to a whole spelling such as cp.async.bulk.tensor.4d.shared::cta.
 */
void ptx_lex_spelling(ptx_lexer *lexer);
/* Skips raw text up to the brace that closes the one just passed. */
void ptx_lex_skip_braces(ptx_lexer *lexer);
/* Skips to the end of the line. */
void ptx_lex_skip_line(ptx_lexer *lexer);
bool ptx_token_is(const ptx_token *token, const char *text);

/* ---- parser ---- */

typedef struct ptx_fixup { /* an operand that waits for its label */
    ptx_operand *operand;
    const char *name;
    uint32_t length, line;
} ptx_fixup;

typedef struct ptx_parser {
    ptx_lexer lexer;
    ptx_arena arena;
    ptx_program *program;
    ptx_names names;  /* registers, symbols, functions */
    ptx_names labels; /* of the open scopes */
    ptx_names unique; /* names already used in the function's flat listing */
    ptx_names forms_by_text;
    ptx_names modifiers; /* text -> index into the modifier table */
    ptx_list functions, symbols, forms, files, locs;
    /* the function at hand */
    ptx_function *function; /* NULL between functions; points into the arena */
    int32_t function_index;
    uint32_t depth, scope_count; /* open scopes; scopes so far */
    ptx_list instrs, registers, label_list, fixups;
    ptx_list targets; /* of .branchtargets: ptx_operand */
    uint32_t loc;
    uint32_t expression_depth;
    bool in_call; /* a parenthesis opens a list, not an expression */
    bool stopped; /* going on would only guess */
    /* errors */
    char error_text[FA4_ERROR_TEXT_BYTES];
    size_t error_used;
    uint32_t errors;   /* told or not */
    uint32_t untold;   /* for want of room */
    uint32_t repeats;  /* of spellings already told */
    fa4_status status; /* of the first error */
} ptx_parser;

/* Notes an error at a line; false, so that `return ptx_fail(...)` reads well. */
bool ptx_fail(ptx_parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool ptx_fail_unsupported(ptx_parser *p, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool ptx_no_memory(ptx_parser *p);

/* Takes the mark or fails with what came instead. */
bool ptx_expect(ptx_parser *p, char mark);
bool ptx_accept(ptx_parser *p, char mark);
/* A constant expression of integers. */
bool ptx_parse_integer(ptx_parser *p, int64_t *value);
bool ptx_parse_sum(ptx_parser *p, int64_t *value);
int32_t ptx_type_of(const char *text,
                    size_t length); /* ".f32" -> PTX_TYPE_F32, else PTX_TYPE_NONE */

/* module.c: declarations; the token is the first directive of a variable: .global, .shared, .param,
 * ... */
bool ptx_parse_variable(ptx_parser *p, uint8_t linkage);
bool ptx_parse_param(ptx_parser *p, uint32_t *symbol, uint64_t *offset);
/* body.c: from the opening brace to the closing one. */
bool ptx_parse_body(ptx_parser *p);
/* A copy of the name that no other scope of the function has; NULL after an error. */
const char *ptx_unique_name(ptx_parser *p, const char *text, size_t length);
bool ptx_parse_loc(ptx_parser *p);
/* form.c: the interned form of a spelling; NULL after an error. */
const ptx_form *ptx_form_of(ptx_parser *p, const char *text, size_t length, uint32_t line);
bool ptx_forms_prepare(ptx_parser *p);
/* function.c: from .entry or .func on. */
bool ptx_parse_function(ptx_parser *p, uint8_t linkage);
bool ptx_parse_module(ptx_parser *p);
bool ptx_keep_files(ptx_parser *p);
/* operand.c */
bool ptx_parse_operand(ptx_parser *p, ptx_operand *operand);
/* check.c: operands against the opcode's signature; settles literals. */
bool ptx_check_operands(ptx_parser *p, const ptx_form *form, ptx_operand *operands, uint32_t count,
                        uint32_t line);
const char *ptx_signature(int32_t opcode);
void ptx_operand_print(const ptx_program *program, const ptx_function *function,
                       const ptx_operand *operand, char **at, char *end);

/* layout.c: which shared symbols each function reaches, and where they lie. */
bool ptx_layout_shared(ptx_parser *p);

static inline uint64_t ptx_align_up(uint64_t value, uint64_t align) {
    return (value + align - 1) & ~(align - 1);
}
static inline int32_t ptx_class_bits(int32_t reg_class) {
    static const int32_t bits[PTX_CLASS_COUNT] = {1, 16, 32, 64, 128};
    return bits[reg_class];
}

#endif
