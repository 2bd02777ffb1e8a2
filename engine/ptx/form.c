/*
 * A spelling such as "fma.rn.ftz.f32x2" -> its decoded form. The longest opcode of the list that
 * begins the spelling is taken; every further part must be a type, a state space or a modifier that
 * this opcode allows, each at most once. Their order is not checked (compilers differ in it);
 * nothing is skipped.
 */
#include "ptx/ptx_internal.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

// clang-format off
enum {
#define PTX_ENUM(name) PTX_MODIFIER_##name,
    PTX_CLASSES(PTX_ENUM)
#undef PTX_ENUM
    PTX_MODIFIER_COUNT
};
_Static_assert(PTX_MODIFIER_COUNT <= 64, "a class is a bit of a 64-bit set");

static const struct { const char *name; size_t at; } fields[] = {
#define PTX_ROW(name) {#name, offsetof(ptx_form, name)},
    PTX_CLASSES(PTX_ROW)
#undef PTX_ROW
};

static const struct { const char *text; uint8_t field, value; } modifiers[] = {
#define PTX_ROW(text, field, value) {text, PTX_MODIFIER_##field, value},
    PTX_MODIFIERS(PTX_ROW)
#undef PTX_ROW
};
enum { MODIFIER_ROWS = sizeof modifiers / sizeof modifiers[0] };

#define T(id) ((uint64_t)1 << PTX_TYPE_##id)
#define PREDICATE T(PRED)
#define U32S T(U32)
#define F32S T(F32)
#define F32X2S T(F32X2)
#define BITS8 T(B8)
#define BITS16 T(B16)
#define BITS32 T(B32)
#define BITS64 T(B64)
#define BITS128 T(B128)
#define BITS (BITS16 | BITS32 | BITS64)
#define INT8 (T(U8) | T(S8))
#define INT16 (T(U16) | T(S16))
#define INT32 (T(U32) | T(S32))
#define INT64 (T(U64) | T(S64))
#define INT (INT16 | INT32 | INT64)
#define INT16X2 (T(U16X2) | T(S16X2))
#define FLOAT (T(F32) | T(F64))
#define HALF (T(F16) | T(F16X2) | T(BF16) | T(BF16X2))
#define ARITH (INT | INT16X2 | FLOAT | HALF | F32X2S)
#define MEMORY (BITS8 | INT8 | BITS | INT | FLOAT | BITS128)
#define ATOMIC (BITS | BITS128 | INT | FLOAT | HALF)
#define FP8 (T(E4M3X2) | T(E5M2X2) | T(UE8M0X2))
#define CONVERT (INT8 | INT | FLOAT | HALF | T(TF32) | FP8)
#define MULTIPLICAND (T(F16) | T(BF16) | T(TF32) | T(F64) | T(E4M3) | T(E5M2) | INT8)
#define C(name) ((uint64_t)1 << PTX_MODIFIER_##name)
#define T0 0, 0, {0}
#define T1(a) 1, 1, {a}
#define T2(a, b) 2, 2, {a, b}
#define T23(a, b, c) 2, 3, {a, b, c}
#define T3(a, b, c) 3, 3, {a, b, c}
#define T4(a, b, c, d) 4, 4, {a, b, c, d}
#define S0 0, 0
#define S1 1, 1
#define S01 0, 1
#define S2 2, 2

enum { A90 = 1090, A100 = 1100, A90_100 = 2000 };

typedef struct opcode_row {
    const char *text, *operands;
    uint64_t required, allowed;
    uint8_t types_min, types_max;
    uint64_t types[4];
    uint8_t spaces_min, spaces_max;
    int32_t target;
} opcode_row;

static const opcode_row opcodes[PTX_OP_COUNT] = {
#define PTX_ROW_2(text, operands, required, allowed, ...) {text, operands, required, (allowed) | (required), __VA_ARGS__}
#define PTX_ROW(id, ...) PTX_ROW_2(__VA_ARGS__),
    PTX_OPCODES(PTX_ROW)
#undef PTX_ROW
#undef PTX_ROW_2
};
// clang-format on

const char *ptx_signature(int32_t opcode) {
    return opcodes[opcode].operands;
}

/* A part of a spelling and the error it may give. */
typedef struct speller {
    ptx_parser *p;
    ptx_form *form;
    const opcode_row *row;
    uint64_t seen;
    const char *text;
    size_t length;
    uint32_t line;
} speller;

static bool fail_part(const speller *s, const char *part, size_t length, const char *what) {
    return ptx_fail(s->p, s->line, "%s '.%.*s' in '%.*s'", what, (int)(length > 60 ? 60 : length),
                    part, (int)(s->length > 120 ? 120 : s->length), s->text);
}

// m64n128k16 and its like.
static bool parse_matrix(const char *part, size_t length, ptx_form *form) {
    char copy[24];
    int m, n, k = 0, used = 0;
    if (length >= sizeof copy || part[0] != 'm') return false;
    memcpy(copy, part, length);
    copy[length] = '\0';
    if (sscanf(copy, "m%3dn%3dk%3d%n", &m, &n, &k, &used) == 3 && (size_t)used == length) {
    } else if (k = 0, sscanf(copy, "m%3dn%3d%n", &m, &n, &used) == 2 && (size_t)used == length) {
    } else {
        return false;
    }
    if (m < 1 || n < 1 || k < 0) return false;
    form->m = (int16_t)m;
    form->n = (int16_t)n;
    form->k = (int16_t)k;
    return true;
}

static int32_t space_of(const char *part, size_t length) {
    for (int32_t i = PTX_SPACE_GLOBAL; i < PTX_SPACE_COUNT; i++) {
        const char *name = ptx_space_name(i);
        if (strlen(name) == length && memcmp(name, part, length) == 0) return i;
    }
    return -1;
}

static bool set_field(speller *s, int field, uint8_t value) {
    *((uint8_t *)s->form + fields[field].at) = value;
    s->seen |= (uint64_t)1 << field;
    return true;
}

// A text may belong to several classes: the first that the opcode allows and that is not taken yet.
static int try_modifier(speller *s, const char *part, size_t length) {
    const ptx_name *name = ptx_names_find(&s->p->modifiers, part, length);
    if (name == NULL) return -1;
    for (uint32_t i = name->index; i < MODIFIER_ROWS; i++) {
        if (strlen(modifiers[i].text) != length || memcmp(modifiers[i].text, part, length) != 0)
            continue;
        uint64_t bit = (uint64_t)1 << modifiers[i].field;
        if ((s->row->allowed & bit) == 0 || (s->seen & bit) != 0) continue;
        return set_field(s, modifiers[i].field, modifiers[i].value);
    }
    return 0;
}

static bool add_type(speller *s, int32_t type, const char *part, size_t length) {
    ptx_form *form = s->form;
    if (form->type_count >= s->row->types_max)
        return fail_part(s, part, length, "one type too many:");
    if ((s->row->types[form->type_count] >> type & 1) == 0)
        return fail_part(s, part, length, "a type that this opcode does not take:");
    form->types[form->type_count++] = (uint8_t)type;
    return true;
}

static bool add_part(speller *s, const char *part, size_t length) {
    int32_t space = s->row->spaces_max ? space_of(part, length) : -1;
    if (space >= 0) {
        if (s->form->space_count >= s->row->spaces_max)
            return fail_part(s, part, length, "one state space too many:");
        s->form->spaces[s->form->space_count++] = (uint8_t)space;
        return true;
    }
    int found = try_modifier(s, part, length);
    if (found > 0) return true;
    int32_t type = ptx_type_of(part, length);
    if (type != PTX_TYPE_NONE) return add_type(s, type, part, length);
    if ((s->row->allowed & C(matrix)) && parse_matrix(part, length, s->form))
        return set_field(s, PTX_MODIFIER_matrix, 1);
    return fail_part(s, part, length,
                     found == 0 ? "a modifier that does not fit here:" : "unknown modifier");
}

static bool check_complete(speller *s) {
    const ptx_form *form = s->form;
    if (form->type_count < s->row->types_min)
        return ptx_fail(s->p, s->line, "'%.100s' lacks a type: %d expected, %d given", form->text,
                        s->row->types_min, form->type_count);
    if (form->space_count < s->row->spaces_min)
        return ptx_fail(s->p, s->line, "'%.100s' lacks a state space: %d expected, %d given",
                        form->text, s->row->spaces_min, form->space_count);
    uint64_t missing = s->row->required & ~s->seen;
    for (int i = 0; i < PTX_MODIFIER_COUNT; i++)
        if (missing >> i & 1)
            return ptx_fail(s->p, s->line, "'%.100s' lacks a modifier: %s", form->text,
                            fields[i].name);
    return true;
}

static bool has_type(const ptx_form *form, ptx_type type) {
    return form->type_count > 0 && form->types[0] == type;
}

// The least target that has this instruction; the module's own target must have it.
static bool check_target(speller *s) {
    const ptx_program *program = s->p->program;
    const ptx_form *form = s->form;
    bool a = program->variant == 'a', f = program->variant == 'f';
    int32_t target = s->row->target;
    if (target < 100 && (has_type(form, PTX_TYPE_F32X2) || form->vector == 8)) target = 100;
    if (form->opcode == PTX_OP_REDUX && has_type(form, PTX_TYPE_F32)) target = A100;
    const char *need = NULL;
    if (target == A90 && !(program->sm == 90 && a))
        need = "sm_90a";
    else if (target == A100 && !(program->sm == 100 && (a || f)))
        need = "sm_100a";
    else if (target == A90_100 && !((program->sm == 90 && a) || (program->sm == 100 && (a || f))))
        need = "sm_90a or sm_100a";
    else if (target == 90 && program->sm < 90)
        need = "sm_90 or higher";
    else if (target == 100 && program->sm < 100)
        need = "sm_100 or higher";
    if (need == NULL) return true;
    return ptx_fail(s->p, s->line, "'%.100s' needs %s, the target is %s", form->text, need,
                    program->target);
}

static bool reaches_cluster(const ptx_form *form) {
    switch (form->opcode) {
    case PTX_OP_MAPA:
    case PTX_OP_GETCTARANK:
    case PTX_OP_BARRIER_CLUSTER_ARRIVE:
    case PTX_OP_BARRIER_CLUSTER_WAIT:
    case PTX_OP_ST_ASYNC:
    case PTX_OP_RED_ASYNC:
    case PTX_OP_CLC_TRY_CANCEL:
    case PTX_OP_CLC_IS_CANCELED:
    case PTX_OP_CLC_GET_FIRST_CTAID:
        return true;
    default:
        return form->multicast != 0 || form->cta_group == 2;
    }
}

// The longest opcode that is the spelling or is followed by a dot in it.
static int32_t opcode_of(const char *text, size_t length, size_t *used) {
    int32_t best = -1;
    *used = 0;
    for (int32_t i = 0; i < PTX_OP_COUNT; i++) {
        size_t n = strlen(opcodes[i].text);
        if (n > length || n <= *used || memcmp(opcodes[i].text, text, n) != 0) continue;
        if (n < length && text[n] != '.') continue;
        best = i;
        *used = n;
    }
    return best;
}

static bool decode(speller *s) {
    size_t used;
    int32_t opcode = opcode_of(s->text, s->length, &used);
    if (opcode < 0)
        return ptx_fail(s->p, s->line, "unknown opcode '%.*s'",
                        (int)(s->length > 120 ? 120 : s->length), s->text);
    s->form->opcode = (uint16_t)opcode;
    s->row = &opcodes[opcode];
    bool good = true;
    while (used < s->length) {
        const char *part = s->text + used + 1;
        const char *dot = memchr(part, '.', s->length - used - 1);
        size_t length = dot ? (size_t)(dot - part) : s->length - used - 1;
        if (!add_part(s, part, length)) good = false;
        used += 1 + length;
    }
    if (!good || !check_complete(s) || !check_target(s)) return false;
    s->form->cluster = reaches_cluster(s->form);
    return true;
}

bool ptx_forms_prepare(ptx_parser *p) {
    for (uint32_t i = 0; i < MODIFIER_ROWS; i++) {
        size_t length = strlen(modifiers[i].text);
        if (ptx_names_find(&p->modifiers, modifiers[i].text, length) != NULL) continue;
        if (!ptx_names_add(&p->modifiers, modifiers[i].text, length, PTX_NAME_FORM, i, 0))
            return ptx_no_memory(p);
    }
    return true;
}

// A spelling that failed is remembered too (index PTX_NOWHERE), so that its error is told once.
const ptx_form *ptx_form_of(ptx_parser *p, const char *text, size_t length, uint32_t line) {
    const ptx_name *known = ptx_names_find(&p->forms_by_text, text, length);
    if (known != NULL) {
        if (known->index != PTX_NOWHERE) return ((const ptx_form **)p->forms.items)[known->index];
        p->repeats++;
        return NULL;
    }
    ptx_form *form = ptx_arena_take(&p->arena, sizeof *form);
    if (form != NULL) form->text = ptx_arena_text(&p->arena, text, length);
    if (form == NULL || form->text == NULL) return (void)ptx_no_memory(p), NULL;
    speller s = {.p = p, .form = form, .text = form->text, .length = length, .line = line};
    bool good = decode(&s);
    form->number = (uint32_t)p->forms.count;
    if (!ptx_names_add(&p->forms_by_text, form->text, length, PTX_NAME_FORM,
                       good ? form->number : PTX_NOWHERE, 0))
        return (void)ptx_no_memory(p), NULL;
    if (!good) return NULL;
    const ptx_form **slot = ptx_list_add(&p->forms);
    if (slot == NULL) return (void)ptx_no_memory(p), NULL;
    return *slot = form;
}
