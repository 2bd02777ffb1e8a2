/*
 * PTX text -> an immutable program in decoded form: every name resolved, every modifier a field,
 * every label an instruction index. It knows the language and not the machine: what an instruction
 * does, and whether it can be executed, is for the reader of the program. ptx_parse accepts any
 * bytes and reports all errors that it finds, each with its line.
 */
#ifndef FA4_PTX_PTX_H
#define FA4_PTX_PTX_H

#include "core/error.h"
#include "ptx/modifiers.h"
#include "ptx/opcodes.h"

#include <stdbool.h>

/* ---- enums from the lists ---- */

typedef enum ptx_type {
    PTX_TYPE_NONE = 0,
#define PTX_ENUM(id, text, bits) PTX_TYPE_##id,
    PTX_TYPES(PTX_ENUM)
#undef PTX_ENUM
        PTX_TYPE_COUNT
} ptx_type;

typedef enum ptx_special {
#define PTX_ENUM(id, text, bits) PTX_SPECIAL_##id,
    PTX_SPECIALS(PTX_ENUM)
#undef PTX_ENUM
        PTX_SPECIAL_COUNT
} ptx_special;

typedef enum ptx_space {
#define PTX_ENUM(id, text) PTX_SPACE_##id,
    PTX_SPACES(PTX_ENUM)
#undef PTX_ENUM
        PTX_SPACE_COUNT
} ptx_space;

typedef enum ptx_opcode {
#define PTX_ENUM(id, ...) PTX_OP_##id,
    PTX_OPCODES(PTX_ENUM)
#undef PTX_ENUM
        PTX_OP_COUNT
} ptx_opcode;

/* ---- values of modifier fields; 0 always means "not written" ---- */

// clang-format off
enum { PTX_RN = 1, PTX_RZ, PTX_RM, PTX_RP, PTX_RNA, PTX_RS, PTX_RNI, PTX_RZI, PTX_RMI, PTX_RPI };
enum {
    PTX_EQ = 1, PTX_NE, PTX_LT, PTX_LE, PTX_GT, PTX_GE, PTX_LO, PTX_LS, PTX_HI, PTX_HS,
    PTX_EQU, PTX_NEU, PTX_LTU, PTX_LEU, PTX_GTU, PTX_GEU, PTX_NUM, PTX_NAN
};
enum {
    PTX_AND = 1, PTX_OR, PTX_XOR, PTX_ADDING, PTX_MINIMUM, PTX_MAXIMUM, PTX_INC, PTX_DEC, PTX_EXCH, PTX_CAS, PTX_POPCOUNT
};
enum { PTX_HALF_LO = 1, PTX_HALF_HI, PTX_HALF_WIDE };
enum { PTX_SHFL_UP = 1, PTX_SHFL_DOWN, PTX_SHFL_BFLY, PTX_SHFL_IDX };
enum { PTX_VOTE_ALL = 1, PTX_VOTE_ANY, PTX_VOTE_UNI, PTX_VOTE_BALLOT };
enum { PTX_MATCH_ANY = 1, PTX_MATCH_ALL };
enum { PTX_PRMT_F4E = 1, PTX_PRMT_B4E, PTX_PRMT_RC8, PTX_PRMT_ECL, PTX_PRMT_ECR, PTX_PRMT_RC16 };
enum { PTX_LEFT = 1, PTX_RIGHT };
enum { PTX_CLAMP = 1, PTX_WRAP };
enum { PTX_FINITE = 1, PTX_INFINITE, PTX_NUMBER, PTX_NOTANUMBER, PTX_NORMAL, PTX_SUBNORMAL };
enum { PTX_WEAK = 1, PTX_RELAXED, PTX_ACQUIRE, PTX_RELEASE, PTX_ACQ_REL, PTX_SC, PTX_VOLATILE, PTX_MMIO };
enum { PTX_SCOPE_CTA = 1, PTX_SCOPE_CLUSTER, PTX_SCOPE_GPU, PTX_SCOPE_SYS };
enum { PTX_CACHE_CA = 1, PTX_CACHE_CG, PTX_CACHE_CS, PTX_CACHE_LU, PTX_CACHE_CV, PTX_CACHE_WB, PTX_CACHE_WT };
enum { PTX_EVICT_NORMAL = 1, PTX_EVICT_UNCHANGED, PTX_EVICT_FIRST, PTX_EVICT_LAST, PTX_NO_ALLOCATE };
enum {
    PTX_TILE = 1, PTX_IM2COL, PTX_IM2COL_NO_OFFS, PTX_TILE_GATHER4, PTX_TILE_SCATTER4, PTX_IM2COL_W, PTX_IM2COL_W_128
};
enum { PTX_COMPLETE_TX = 1, PTX_BULK_GROUP };
enum {
    PTX_KIND_F16 = 1, PTX_KIND_TF32, PTX_KIND_F8F6F4, PTX_KIND_I8, PTX_KIND_MXF8F6F4, PTX_KIND_MXF4, PTX_KIND_MXF4NVF4
};
enum { PTX_FILL = 1, PTX_USE, PTX_LASTUSE, PTX_DISCARD };
enum {
    PTX_32X32B = 1, PTX_16X64B, PTX_16X128B, PTX_16X256B, PTX_16X32BX2, PTX_128X256B, PTX_4X256B, PTX_128X128B
};
enum { PTX_ROW = 1, PTX_COL };
enum { PTX_CHANGE_INC = 1, PTX_CHANGE_DEC };
// clang-format on

/* ---- instructions ---- */

/* A register's place: f16, f32 and f64 live with b16, b32 and b64; 8-bit registers with b16. */
// clang-format off
typedef enum ptx_class {
    PTX_CLASS_PRED, PTX_CLASS_B16, PTX_CLASS_B32, PTX_CLASS_B64, PTX_CLASS_B128, PTX_CLASS_COUNT
} ptx_class;
// clang-format on

/* What stands before the operands, decoded once per distinct spelling: all instructions spelt alike
 * share one form, so that a reader can choose a handler per form. */
typedef struct ptx_form {
    const char *text; /* the whole spelling, such as "add.rn.ftz.f32x2" */
    uint32_t number;  /* 0 .. form_count - 1 */
    uint16_t opcode;  /* ptx_opcode */
    uint8_t type_count, space_count;
    uint8_t types[4];  /* ptx_type in source order; cvt: destination, source */
    uint8_t spaces[2]; /* ptx_space in source order; absent = PTX_SPACE_GENERIC. Copies:
                          destination, source */
    uint8_t cluster;   /* 1: touches other CTAs of a cluster (multicast, cta_group::2, mapa,
                          barrier.cluster, ...) */
    int16_t m, n, k;   /* of a matrix shape, else 0 */
#define PTX_FIELD(name) uint8_t name;
    PTX_CLASSES(PTX_FIELD)
#undef PTX_FIELD
} ptx_form;

typedef enum ptx_kind {
    PTX_REGISTER,  /* reg_class, index; sub = 1: negated predicate */
    PTX_SINK,      /* _ */
    PTX_IMMEDIATE, /* value: the bits of the operand's type (f32 in the low 32), sign-extended for
                      integers */
    PTX_SPECIAL,   /* index: ptx_special */
    PTX_SYMBOL,    /* the address of symbol `index` plus value */
    PTX_ADDRESS,   /* [base + value]: sub is ptx_base */
    PTX_TENSOR,    /* [elements[0], elements[1]]: an address and a vector of coordinates */
    PTX_VECTOR,    /* {elements}: registers, immediates, sinks or special registers */
    PTX_PAIR,      /* a|b */
    PTX_LABEL,     /* index: instruction; value: label */
    PTX_FUNCTION,  /* index: into functions, a .func or a prototype */
    PTX_LIST,      /* (elements) of a call: registers, immediates or parameters as symbols */
    PTX_TARGETS    /* brx.idx: elements are labels */
} ptx_kind;

typedef enum ptx_base { PTX_BASE_NONE, PTX_BASE_REGISTER, PTX_BASE_SYMBOL } ptx_base;
/* sub of an immediate: how to print it */
typedef enum ptx_literal { PTX_LITERAL_INTEGER, PTX_LITERAL_F32, PTX_LITERAL_F64 } ptx_literal;

typedef struct ptx_operand {
    uint8_t kind;      /* ptx_kind */
    uint8_t reg_class; /* ptx_class of a register or of an address' base register */
    uint8_t sub;
    uint8_t count;  /* elements */
    uint32_t index; /* register in its class, symbol, special register, instruction, function */
    union {
        int64_t value;
        const struct ptx_operand *elements;
    } u;
} ptx_operand;

typedef struct ptx_instr {
    const ptx_form *form;
    const ptx_operand *operands; /* in source order */
    int32_t guard;               /* predicate register, -1: none */
    uint8_t guard_negated;
    uint8_t operand_count;
    uint16_t reserved;
    uint32_t line; /* of the PTX text, from 1 */
    uint32_t loc;  /* into program->locs; locs[0] is "unknown" */
} ptx_instr;

/* ---- functions, symbols, program ---- */

typedef struct ptx_loc {
    uint32_t file; /* into program->files; files[0] is "" */
    uint32_t line, column;
    uint32_t inlined; /* the loc of the call that was inlined, 0: none */
} ptx_loc;

// clang-format off
typedef enum ptx_linkage {
    PTX_LINK_NONE, PTX_LINK_EXTERN, PTX_LINK_VISIBLE, PTX_LINK_WEAK, PTX_LINK_COMMON
} ptx_linkage;
// clang-format on

/* An initialiser's address: 8 (or 4) bytes at `at` of the symbol hold the address of another symbol
 * plus an addend. */
typedef struct ptx_relocation {
    uint64_t at;
    uint32_t symbol;
    uint8_t generic; /* 1: generic(symbol) */
    uint8_t bytes;
    int64_t addend;
} ptx_relocation;

typedef struct ptx_symbol {
    const char *name;
    uint8_t space;       /* GLOBAL, CONST, SHARED, LOCAL, PARAM (of an entry or .func), PARAM_FUNC
                            (declared in a body for a call) */
    uint8_t type;        /* ptx_type of an element */
    uint8_t linkage;     /* ptx_linkage */
    uint8_t dynamic;     /* 1: .extern .shared x[]: begins where the static shared memory ends */
    uint8_t vector;      /* elements of .v2, .v4; else 1 */
    int32_t function;    /* the owner, -1: module */
    uint32_t align;      /* bytes, a power of two */
    uint64_t size;       /* bytes; 0 for dynamic */
    uint64_t offset;     /* GLOBAL, CONST: in the module's segment; LOCAL, PARAM: in the function's.
                            SHARED: see ptx_function */
    const uint8_t *init; /* size bytes, or NULL (zero) */
    const ptx_relocation *relocations;
    uint32_t relocation_count;
    uint32_t line;
} ptx_symbol;

/* Registers declared together: name, or name0 .. name(count-1) when range. */
typedef struct ptx_registers {
    const char
        *name; /* unique in the function: a name of an inner scope carries that scope's number */
    uint8_t type, reg_class, range;
    uint32_t first, count; /* numbers in the class */
} ptx_registers;

typedef struct ptx_label {
    const char *name; /* unique in the function */
    uint32_t instr;   /* may be instr_count: the end */
} ptx_label;

typedef struct ptx_function {
    const char *name;
    uint8_t entry;     /* 1: .entry, 0: .func */
    uint8_t prototype; /* 1: declared without a body */
    uint8_t linkage;
    uint8_t cluster_explicit; /* .explicitcluster */
    int32_t reqntid[3];       /* 0: not given */
    int32_t maxntid[3];       /* 0: not given */
    int32_t reqnctapercluster[3];
    int32_t minnctapersm, maxnreg, maxclusterrank;
    const uint32_t *params; /* symbols, in order */
    uint32_t param_count;
    const uint32_t *results; /* of a .func */
    uint32_t result_count;
    uint32_t param_bytes;
    uint32_t local_bytes;    /* .local frame */
    uint32_t call_bytes;     /* .param variables declared in the body */
    uint32_t shared_bytes;   /* static shared memory that this function refers to */
    uint32_t shared_dynamic; /* offset of dynamic shared memory: shared_bytes aligned */
    uint32_t shared_align;   /* largest alignment asked for */
    const uint32_t
        *shared_offset; /* per symbol of the program: its place in shared memory, or PTX_NOWHERE */
    uint32_t reg_count[PTX_CLASS_COUNT];
    const ptx_registers *registers;
    uint32_t registers_count;
    const ptx_instr *instrs;
    uint32_t instr_count;
    const ptx_label *labels; /* in order of instr */
    uint32_t label_count;
    uint32_t line;
} ptx_function;

enum { PTX_NOWHERE = 0xffffffffu };

typedef struct ptx_program {
    int32_t version_major, version_minor;
    char target[16]; /* "sm_100a" */
    int32_t sm;      /* 100 */
    char variant;    /* 'a', 'f' or 0 */
    int32_t address_bits;
    const ptx_function *functions; /* entries and .func's in order */
    uint32_t function_count;
    const ptx_symbol *symbols;
    uint32_t symbol_count;
    const ptx_form *const *forms;
    uint32_t form_count;
    const char *const *files;
    uint32_t file_count;
    const ptx_loc *locs;
    uint32_t loc_count;
    uint64_t global_bytes, const_bytes;
} ptx_program;

/* Parses length bytes of text. On failure err->text has one line per error ("line 12: ..."), as
 * many as fit, then a count. FA4_BAD_FILE: not PTX, or PTX that is not known here; FA4_UNSUPPORTED:
 * a target that is not known here; FA4_NO_MEMORY. */
fa4_status ptx_parse(const char *text, size_t length, ptx_program **program, fa4_error *err);
void ptx_program_destroy(ptx_program *program); /* NULL is allowed */

/* The entry of that name; name NULL: the only entry. Fails with the list of names. */
fa4_status ptx_program_entry(const ptx_program *program, const char *name,
                             const ptx_function **entry, fa4_error *err);

/* ---- printing: the same program as text, scopes flattened; parsing it again gives an equal
 * program ---- */

fa4_status ptx_print(const ptx_program *program, char **text, size_t *length,
                     fa4_error *err); /* free(*text) */
/* One instruction without newline, cut to fit; returns the length that it needs. */
size_t ptx_print_instr(const ptx_program *program, const ptx_function *function,
                       const ptx_instr *instr, char *text, size_t bytes);
/* The name of a register as declared, such as "%r12". */
size_t ptx_print_register(const ptx_function *function, int32_t reg_class, uint32_t index,
                          char *text, size_t bytes);
/* true when two programs are the same but for lines and locs. */
bool ptx_program_equal(const ptx_program *a, const ptx_program *b);

/* ---- texts and sizes ---- */

const char *ptx_opcode_name(int32_t opcode);
const char *ptx_type_name(int32_t type); /* "f32" */
int32_t ptx_type_bits(int32_t type);     /* 32 */
const char *ptx_space_name(int32_t space);
const char *ptx_special_name(int32_t special);

#endif
