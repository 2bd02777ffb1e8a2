/*
 * Operands against the opcode's signature (the letters are explained in opcodes.h). A literal gets
 * the bits of the type that its place has: f64 literals are rounded to f32 places, integers are cut
 * to the place's width and sign-extended.
 */
#include "ptx/ptx_internal.h"

#include <stdio.h>
#include <string.h>

/* What a letter asks for, and the operand at hand. */
typedef struct place {
    const ptx_form *form;
    ptx_operand *operand;
    int32_t bits; /* width asked for */
    int32_t type; /* for literals; PTX_TYPE_NONE: an integer of that width */
    bool wider;   /* a wider register will do */
} place;

static bool is_register(const ptx_operand *o, int32_t bits, bool wider) {
    if (o->kind != PTX_REGISTER || o->sub != 0) return false;
    int32_t have = ptx_class_bits(o->reg_class);
    if (bits == 8) bits = 16, wider = true;
    if (bits == 1) return have == 1;
    return have == bits || (wider && have > bits);
}

static bool is_predicate(const ptx_operand *o, bool negated_too) {
    return o->kind == PTX_REGISTER && o->reg_class == PTX_CLASS_PRED &&
           (negated_too || o->sub == 0);
}

static bool is_float_type(int32_t type) {
    return type == PTX_TYPE_F32 || type == PTX_TYPE_F64;
}

// Gives a literal the bits of its place; false when it has no meaning there.
static bool settle_literal(ptx_operand *o, int32_t bits, int32_t type) {
    if (o->sub == PTX_LITERAL_INTEGER) {
        if (is_float_type(type) && o->u.value != 0) return false;
        if (bits < 64) {
            int shift = 64 - (bits < 8 ? 8 : bits);
            o->u.value = (int64_t)((uint64_t)o->u.value << shift) >> shift;
        }
        return true;
    }
    if (o->sub == PTX_LITERAL_F64 && bits == 32) {
        double wide;
        memcpy(&wide, &o->u.value, sizeof wide);
        float narrow = (float)wide;
        uint32_t narrow_bits;
        memcpy(&narrow_bits, &narrow, sizeof narrow_bits);
        o->sub = PTX_LITERAL_F32;
        o->u.value = narrow_bits;
        return true;
    }
    if (o->sub == PTX_LITERAL_F32 && bits == 64 && type == PTX_TYPE_F64) {
        uint32_t narrow_bits = (uint32_t)o->u.value;
        float narrow;
        memcpy(&narrow, &narrow_bits, sizeof narrow);
        double wide = narrow;
        o->sub = PTX_LITERAL_F64;
        memcpy(&o->u.value, &wide, sizeof wide);
        return true;
    }
    return o->sub == PTX_LITERAL_F32 ? bits == 32 : bits == 64;
}

static bool is_source(const place *a) {
    ptx_operand *o = a->operand;
    if (o->kind == PTX_IMMEDIATE && a->bits == 1) {
        o->u.value = o->u.value != 0;
        return o->sub == PTX_LITERAL_INTEGER;
    }
    if (o->kind == PTX_IMMEDIATE) return a->bits <= 64 && settle_literal(o, a->bits, a->type);
    if (o->kind == PTX_SPECIAL) return a->bits >= 32 || a->bits == 1 || a->bits == 16;
    return is_register(o, a->bits, a->wider) || (a->bits == 1 && is_predicate(o, true));
}

static bool are_elements(const ptx_operand *o, int32_t bits, bool wider, bool source,
                         int32_t type) {
    for (uint32_t i = 0; i < o->count; i++) {
        ptx_operand *e = (ptx_operand *)&o->u.elements[i];
        place at = {.operand = e, .bits = bits, .wider = wider, .type = type};
        bool good = source ? is_source(&at) : e->kind == PTX_SINK || is_register(e, bits, wider);
        if (!good) return false;
    }
    return o->count > 0;
}

// {..} of mov parts a register; elsewhere it has .vN elements.
static bool is_vector(const place *a, bool source) {
    const ptx_operand *o = a->operand;
    if (o->kind != PTX_VECTOR || o->count == 0) return false;
    if (a->form->opcode == PTX_OP_MOV) {
        if (o->count == 1 || a->bits % o->count != 0) return false;
        return are_elements(o, a->bits / o->count, a->bits / o->count == 8, source, PTX_TYPE_NONE);
    }
    int32_t count = a->form->vector ? a->form->vector : 1;
    return o->count == count && are_elements(o, a->bits, a->wider, source, a->type);
}

static bool is_destination(const place *a) {
    return a->operand->kind == PTX_SINK || is_register(a->operand, a->bits, a->wider);
}

static bool is_pair(const ptx_operand *o, bool first_predicate) {
    if (o->kind != PTX_PAIR) return false;
    const ptx_operand *first = &o->u.elements[0], *second = &o->u.elements[1];
    bool good = first->kind == PTX_SINK ||
                (first_predicate ? is_predicate(first, false) : is_register(first, 32, false));
    return good && (second->kind == PTX_SINK || is_predicate(second, false));
}

static bool is_address(const ptx_operand *o) {
    if (o->kind != PTX_ADDRESS) return false;
    if (o->sub != PTX_BASE_REGISTER) return true;
    return o->reg_class == PTX_CLASS_B32 || o->reg_class == PTX_CLASS_B64;
}

static bool is_tensor(const ptx_operand *o) {
    return o->kind == PTX_TENSOR && is_address(&o->u.elements[0]) &&
           are_elements(&o->u.elements[1], 32, false, true, PTX_TYPE_NONE);
}

static bool is_fragment(const ptx_operand *o, bool source) {
    if (o->kind == PTX_REGISTER)
        return o->reg_class == PTX_CLASS_B32 || o->reg_class == PTX_CLASS_B64;
    return o->kind == PTX_VECTOR && (are_elements(o, 32, false, source, PTX_TYPE_F32) ||
                                     are_elements(o, 64, false, source, PTX_TYPE_F64));
}

static bool fits_plain(const place *from, char letter) {
    place a = *from;
    const ptx_form *f = a.form;
    int32_t first = f->types[0], last = f->type_count ? f->types[f->type_count - 1] : PTX_TYPE_NONE;
    a.type = strchr("TV", letter) ? last : first;
    a.bits = a.type == PTX_TYPE_NONE ? 64 : ptx_type_bits(a.type);
    if (strchr("dc", letter) && f->half == PTX_HALF_WIDE) a.bits *= 2;
    a.wider = strchr("DTV", letter) != NULL;
    // Only conversions, loads and stores take wider registers.
    if (f->opcode == PTX_OP_MOV || f->opcode == PTX_OP_CVTA) a.wider = false;
    uint8_t kind = a.operand->kind;
    switch (letter) {
    case 'D':
        return f->vector ? is_vector(&a, false) : is_destination(&a) || is_vector(&a, false);
    case 'd':
        return is_destination(&a);
    case 'V':
        if (f->vector) return is_vector(&a, true);
        if (kind == PTX_SYMBOL || kind == PTX_FUNCTION)
            return f->opcode == PTX_OP_MOV || f->opcode == PTX_OP_CVTA || f->opcode == PTX_OP_MAPA;
        return is_source(&a) || is_vector(&a, true);
    default:
        return is_source(&a);
    }
}

static bool fits_sized(const place *from, int32_t bits, int32_t type, bool source) {
    place a = *from;
    a.bits = bits;
    a.type = type;
    a.wider = false;
    return source ? is_source(&a) : is_destination(&a);
}

static bool fits(const ptx_form *form, ptx_operand *o, char letter) {
    place a = {.form = form, .operand = o};
    switch (letter) {
    case 'u':
        return fits_sized(&a, 32, PTX_TYPE_NONE, true);
    case 'q':
        return fits_sized(&a, 64, PTX_TYPE_NONE, true);
    case 'h':
        return fits_sized(&a, 16, PTX_TYPE_NONE, true);
    case 'F':
        return fits_sized(&a, 32, PTX_TYPE_F32, true);
    case 'j':
        return is_register(o, 128, false);
    case 'U':
        return fits_sized(&a, 32, PTX_TYPE_NONE, false);
    case 'Q':
        return fits_sized(&a, 64, PTX_TYPE_NONE, false);
    case 'k':
        return fits_sized(&a, 64, PTX_TYPE_NONE, false);
    case 'g':
        return fits_sized(&a, form->parity ? 32 : 64, PTX_TYPE_NONE, true);
    case 'P':
        return o->kind == PTX_SINK || is_predicate(o, false) || is_pair(o, true);
    case 'p':
        return is_predicate(o, true) || (o->kind == PTX_IMMEDIATE && o->sub == PTX_LITERAL_INTEGER);
    case 'r':
        return o->kind == PTX_SINK || is_register(o, 32, false) || is_pair(o, false);
    case 'i':
        return o->kind == PTX_IMMEDIATE && o->sub == PTX_LITERAL_INTEGER;
    case 'a':
        return is_address(o);
    case 'm':
        return is_tensor(o);
    case 'o':
        return o->kind == PTX_VECTOR && are_elements(o, 16, false, true, PTX_TYPE_NONE);
    case 'x':
        return is_register(o, 32, false) ||
               (o->kind == PTX_VECTOR && are_elements(o, 32, false, true, PTX_TYPE_NONE));
    case 'X':
        return is_register(o, 32, false) ||
               (o->kind == PTX_VECTOR && are_elements(o, 32, false, false, 0));
    case 'M':
        return is_fragment(o, false);
    case 'N':
        return is_fragment(o, true);
    case 'b':
        return o->kind == PTX_LABEL || o->kind == PTX_TARGETS;
    case 'f':
        return o->kind == PTX_FUNCTION;
    case 'l':
        return o->kind == PTX_LIST;
    default:
        return fits_plain(&a, letter);
    }
}

typedef enum verdict { FITS, WRONG_COUNT, WRONG_OPERAND } verdict;

// Tries one alternative; *bad is the first operand that does not fit.
static verdict try_signature(const ptx_form *form, const char *s, ptx_operand *operands,
                             uint32_t count, uint32_t *bad) {
    uint32_t i = 0;
    bool optional = false;
    for (; *s != '\0' && *s != '|'; s++) {
        if (*s == '?') continue;
        if (s[1] == '?') optional = true;
        if (i == count) return optional ? FITS : WRONG_COUNT;
        if (!fits(form, &operands[i], *s)) {
            *bad = i;
            return WRONG_OPERAND;
        }
        i++;
    }
    return i == count ? FITS : WRONG_COUNT;
}

static const char *letter_text(char letter) {
    switch (letter) {
    case 'P':
        return "a predicate register";
    case 'p':
        return "a predicate";
    case 'a':
        return "an address [..]";
    case 'm':
        return "a tensor address [map, {..}]";
    case 'i':
        return "an integer constant";
    case 'b':
        return "a label";
    case 'f':
        return "a function";
    case 'X':
        return "a list of 32-bit registers";
    case 'x':
        return "a list of 32-bit values";
    default:
        return "a register or value of the type's width";
    }
}

static char letter_at(const char *s, uint32_t index) {
    for (; *s != '\0'; s++) {
        if (*s == '?') continue;
        if (index-- == 0) return *s;
    }
    return 's';
}

static bool check_counts(ptx_parser *p, const ptx_form *form, const ptx_operand *o, uint32_t count,
                         uint32_t line) {
    bool minmax = form->opcode == PTX_OP_MIN || form->opcode == PTX_OP_MAX;
    if (minmax && count == 4) {
        if (form->types[0] != PTX_TYPE_F32)
            return ptx_fail(p, line, "'%s' takes three sources for f32 only", form->text);
        if (p->program->sm < 100)
            return ptx_fail(p, line, "'%s' with three sources needs sm_100 or higher", form->text);
    }
    if (form->dimension != 0) {
        for (uint32_t i = 0; i < count; i++) {
            if (o[i].kind != PTX_TENSOR) continue;
            uint32_t have = o[i].u.elements[1].count;
            bool gather =
                form->load_mode == PTX_TILE_GATHER4 || form->load_mode == PTX_TILE_SCATTER4;
            uint32_t want = gather ? 5 : form->dimension;
            if (have != want)
                return ptx_fail(p, line, "'%s' needs %u coordinates, got %u", form->text, want,
                                have);
        }
    }
    if (form->opcode == PTX_OP_TCGEN05_LD || form->opcode == PTX_OP_TCGEN05_ST) {
        uint32_t per = form->lanes == PTX_16X128B ? 2 : form->lanes == PTX_16X256B ? 4 : 1;
        const ptx_operand *list = form->opcode == PTX_OP_TCGEN05_LD ? &o[0] : &o[count - 1];
        uint32_t have = list->kind == PTX_VECTOR ? list->count : 1;
        if (have != per * form->repeat)
            return ptx_fail(p, line, "'%s' needs %u registers, got %u", form->text,
                            per * form->repeat, have);
    }
    return true;
}

bool ptx_check_operands(ptx_parser *p, const ptx_form *form, ptx_operand *operands, uint32_t count,
                        uint32_t line) {
    const char *signature = ptx_signature(form->opcode);
    bool counted = false, one = strchr(signature, '|') == NULL;
    uint32_t bad = 0;
    for (const char *s = signature;; s++) {
        verdict v = try_signature(form, s, operands, count, &bad);
        if (v == FITS) return check_counts(p, form, operands, count, line);
        if (v == WRONG_OPERAND) counted = true;
        s = strchr(s, '|');
        if (s == NULL) break;
    }
    if (!counted) return ptx_fail(p, line, "'%.100s' does not take %u operands", form->text, count);
    if (!one) return ptx_fail(p, line, "'%.100s': these operands fit no variant of it", form->text);
    char text[80] = "", *at = text;
    ptx_function view = *p->function; // its list of registers is still growing
    view.registers = p->registers.items;
    view.registers_count = (uint32_t)p->registers.count;
    ptx_operand shown = operands[bad];
    if (shown.kind == PTX_LABEL)
        at += snprintf(text, sizeof text, "a label");
    else
        ptx_operand_print(p->program, &view, &shown, &at, text + sizeof text);
    return ptx_fail(p, line, "'%.100s': operand %u (%s) should be %s", form->text, bad + 1, text,
                    letter_text(letter_at(signature, bad)));
}
