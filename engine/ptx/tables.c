/* The lists of opcodes.h as tables of text. */
#include "ptx/ptx_internal.h"

#include <string.h>

static const char *const opcode_names[PTX_OP_COUNT] = {
#define PTX_TEXT(id, text, ...) text,
    PTX_OPCODES(PTX_TEXT)
#undef PTX_TEXT
};

static const struct {
    const char *text;
    int32_t bits;
} types[PTX_TYPE_COUNT] = {{"none", 0},
#define PTX_ROW(id, text, bits) {text, bits},
                           PTX_TYPES(PTX_ROW)
#undef PTX_ROW
};

static const char *const space_names[PTX_SPACE_COUNT] = {
#define PTX_TEXT(id, text) text,
    PTX_SPACES(PTX_TEXT)
#undef PTX_TEXT
};

static const char *const special_names[PTX_SPECIAL_COUNT] = {
#define PTX_TEXT(id, text, bits) text,
    PTX_SPECIALS(PTX_TEXT)
#undef PTX_TEXT
};

const char *ptx_opcode_name(int32_t opcode) {
    return opcode >= 0 && opcode < PTX_OP_COUNT ? opcode_names[opcode] : "?";
}

const char *ptx_type_name(int32_t type) {
    return type >= 0 && type < PTX_TYPE_COUNT ? types[type].text : "?";
}

int32_t ptx_type_bits(int32_t type) {
    return type >= 0 && type < PTX_TYPE_COUNT ? types[type].bits : 0;
}

const char *ptx_space_name(int32_t space) {
    return space >= 0 && space < PTX_SPACE_COUNT ? space_names[space] : "?";
}

const char *ptx_special_name(int32_t special) {
    return special >= 0 && special < PTX_SPECIAL_COUNT ? special_names[special] : "?";
}

int32_t ptx_type_of(const char *text, size_t length) {
    if (length > 0 && *text == '.') text++, length--;
    for (int32_t i = 1; i < PTX_TYPE_COUNT; i++)
        if (strlen(types[i].text) == length && memcmp(types[i].text, text, length) == 0) return i;
    return PTX_TYPE_NONE;
}
