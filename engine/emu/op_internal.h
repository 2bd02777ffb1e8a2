/* Decoded instructions, shared by the emulator's files: operands, handlers, and an entry made ready to run. */
#ifndef FA4_EMU_OP_INTERNAL_H
#define FA4_EMU_OP_INTERNAL_H

#include "emu/emu.h"
#include "emu/emu_mma.h"
#include "emu/emu_numbers.h"
#include "kernel/tensormap.h"

enum {
    EMU_LANES = 32,
    EMU_WARPS_MAX = 32,
    EMU_SHARED_BASE = 1024,          /* the first KiB belongs to the system, as on the device */
    EMU_SHARED_BYTES_MAX = 232448,   /* 227 KiB a CTA may ask for */
    EMU_TMEM_COLUMNS = 512,
    EMU_TMEM_LANES = 128,
    EMU_NAMED_BARRIERS = 16,
    EMU_GROUPS_MAX = 32              /* outstanding wgmma or cp.async groups of a warp */
};

/* Generic address windows; a global address is a host address and has a zero top byte. */
#define EMU_WINDOW_SHARED ((uint64_t)1 << 56)
#define EMU_WINDOW_LOCAL ((uint64_t)2 << 56)
#define EMU_WINDOW_PARAM ((uint64_t)3 << 56)
#define EMU_WINDOW_CONST ((uint64_t)4 << 56)
#define EMU_WINDOW_MASK ((uint64_t)255 << 56)

typedef struct emu_plane {
    uint32_t lane[EMU_LANES];
} __attribute__((aligned(64))) emu_plane;

typedef struct emu_op emu_op;
typedef struct emu_warp emu_warp;
typedef struct emu_cta emu_cta;
typedef struct emu_cluster emu_cluster;
typedef struct emu_scatter emu_scatter;
typedef struct emu_machine emu_machine;

/* What an instruction's handler tells the warp's loop. */
typedef enum emu_step {
    EMU_NEXT, /* go on with the next instruction */
    EMU_JUMP, /* the handler has set the fragments */
    EMU_RETRY, /* cannot go on now: execute this instruction again after something has changed */
    EMU_PARK, /* waits here for other lanes of its warp */
    EMU_WAITING, /* arrived at a named barrier: done when its generation has passed */
    EMU_STOP  /* the CTA is at its end (trap, fatal finding) */
} emu_step;
typedef emu_step (*emu_handler)(emu_warp *warp, const emu_op *op, uint32_t mask);
typedef uint64_t (*emu_scalar)(const emu_op *op, uint64_t a, uint64_t b, uint64_t c);

/* A plane's place: bit 31 = in the constant bank, else in the warp's registers. */
typedef uint32_t emu_slot;
#define EMU_CONSTANT 0x80000000u
#define EMU_NO_SLOT 0x7fffffffu
enum { EMU_SINK_SLOT = 0, EMU_SINK_PLANES = 4 }; /* where results go that nobody reads */

/* A predicate operand: its index and whether it is inverted. Indices 0 and 1 are constant false and true, 2 is the carry. */
typedef struct emu_predicate {
    uint16_t index;
    uint16_t negated;
} emu_predicate;

/* SETTLE: tensor loads must have delivered. CHECK: operands may be unwritten. ORDERS: what it does depends on other CTAs. */
enum { EMU_FLAG_SETTLE = 1, EMU_FLAG_CHECK = 2, EMU_FLAG_ORDERS = 4, EMU_FLAG_SLOW = 7 };
enum { EMU_CLASS_MOVE, EMU_CLASS_INTEGER, EMU_CLASS_FLOAT, EMU_CLASS_MEMORY, EMU_CLASS_SYNC, EMU_CLASS_CONTROL, EMU_CLASS_COPY, EMU_CLASS_TENSOR };

/* An address operand: a register (or nothing) plus an offset. */
typedef struct emu_place {
    emu_slot slot;
    uint32_t wide; /* 1: the register has 64 bits */
    int64_t offset;
    uint8_t space; /* ptx_space */
} emu_place;
typedef struct emu_more {
    emu_place places[3];
    emu_slot slots[8]; /* further sources, by opcode */
    uint32_t slot_wide; /* bit i: slots[i] has two planes */
    const emu_slot *list2; /* a second register vector */
    uint32_t count2;
    emu_handler base; /* what emu_do_visit runs in the CTA that an address names */
} emu_more;

/* One decoded instruction; its index is the PTX instruction's. What every step touches comes first. */
struct emu_op {
    emu_handler run;
    emu_slot d, a, b, c;
    int32_t guard; /* predicate index, -1: none */
    uint32_t guard_flip; /* all ones when negated */
    uint8_t flags, class_id;
    uint8_t wide;  /* bit 0: d has two planes; bits 1..3: a, b, c */
    uint8_t count; /* elements of list */
    emu_predicate p, q, s; /* destination predicates p|q (index 0: none), source predicate */
    emu_mode mode;
    emu_scalar scalar, inner; /* inner: of one element of a packed type */
    int64_t value;    /* immediate: address offset, branch target, ... */
    const emu_slot *list; /* register vectors */
    const ptx_instr *source;
    const emu_more *more;
    uint32_t extra; /* by opcode */
    uint8_t bits, is_signed, compare, unordered;
    uint8_t format, format_from; /* emu_format */
    uint8_t space; /* ptx_space of the address */
    emu_slot e;
} __attribute__((aligned(64)));

typedef enum emu_async_kind {
    EMU_ASYNC_LOAD,
    EMU_ASYNC_STORE,
    EMU_ASYNC_BULK_LOAD,
    EMU_ASYNC_BULK_STORE,
    EMU_ASYNC_MMA,
    EMU_ASYNC_COMMIT,
    EMU_ASYNC_BULK_SHARED, /* shared memory to another CTA's */
    EMU_ASYNC_WRITE,       /* st.async, red.async, a cancel's answer: the payload */
    EMU_ASYNC_SCATTER, EMU_ASYNC_ARRIVE, /* cp.async, and the arrival behind it */
} emu_async_kind;

/* Work of an asynchronous unit. */
typedef struct emu_async {
    int32_t kind;
    int32_t warp, lane;
    uint32_t group;
    uint64_t due;
    const emu_op *op;
    emu_cta *from, *to, *signal; /* who issued it, where it lands, whose mbarrier it signals */
    uint32_t shared, barrier; /* shared-memory addresses; barrier 0: none */
    uint64_t global, bytes;
    kernel_tensormap map;
    int32_t coordinates[5];
    /* mma */
    emu_mma_shape shape;
    emu_matrix a, b;
    uint32_t d, a_tmem;
    bool a_in_tmem, accumulate;
    uint8_t scale;
    bool pair;            /* cta_group::2 */
    uint8_t half;         /* 1, 2: D is 64 lanes, lower or upper, of a pair's M 128 */
    uint32_t disabled[8]; /* the second four: of the odd CTA of a pair */
    uint32_t targets;     /* commit: ranks, 0: signal's alone */
    uint8_t payload[16];
    emu_scatter *scatter; /* owned by the entry */
} emu_async;

/* An entry made ready. */
typedef struct emu_code {
    const ptx_function *function;
    emu_op *ops; /* instr_count + 1: the last one ends the thread */
    uint32_t op_count;
    emu_plane *constants;
    uint32_t constant_count;
    uint32_t plane_count;
    uint32_t predicate_count;
    uint32_t special_first; /* constant-like planes that each warp fills: special registers */
    uint32_t special_count;
    uint8_t specials[PTX_SPECIAL_COUNT]; /* which, in order */
    bool special_used[PTX_SPECIAL_COUNT];
    void **blocks; /* lists and more's, freed together */
    uint32_t block_count;
    bool ordered; /* CTAs depend on each other through global memory */
    bool tensor, wgmma; /* uses tcgen05, wgmma */
    bool cluster;       /* reaches other CTAs: its shared addresses carry the CTA's rank */
    int32_t cta_group;  /* of its tcgen05 instructions, 0: none */
    uint32_t *windows;  /* constants that are addresses in shared memory, when it does */
    uint32_t window_count;
    uint64_t *unwritten; /* the set of those registers, numbered as flow.c does */
    bool may_be_unwritten; /* some register is read unwritten on some path */
    uint32_t *slot_of[PTX_CLASS_COUNT]; /* register -> slot, for looking inside */
} emu_code;

struct emu_module {
    ptx_program *program;
    const struct emu_alu_kit *alu;
    const emu_mma_kit *mma;
    emu_code *codes; /* one per function; ops NULL when not an entry */
    uint8_t *globals; /* the module's .global segment */
    uint8_t *constants; /* .const */
};

/* Vector handlers of one instruction set: the handler for an op whose fields are filled, or NULL (the scalar twin is used). */
typedef struct emu_alu_kit {
    const char *name;
    emu_handler (*select)(const emu_op *op);
} emu_alu_kit;
extern const emu_alu_kit emu_alu_portable, emu_alu_avx2, emu_alu_avx512;

/* Handlers by opcode, chosen by lower.c. */
#define EMU_HANDLERS(_)                                                                            \
    _(branch) _(branch_indexed) _(exit) _(trap) _(nothing) _(move) _(pack) _(unpack) _(clock) _(predicate_logic) _(select) _(carry) _(insert) _(test) \
    _(load) _(store) _(atomic) _(atomic_vector) _(reduce) _(load_param) _(convert_address) _(is_space) \
    _(ldmatrix) _(stmatrix) _(movmatrix) _(mma_sync) \
    _(visit) _(cluster_arrive) _(cluster_wait) _(cluster_rank) _(store_async) _(bulk_shared) _(cancel) _(is_canceled) _(canceled_ctaid) \
    _(barrier_sync) _(barrier_arrive) _(barrier_reduce) _(warp_sync) \
    _(mbarrier_init) _(mbarrier_inval) _(mbarrier_expect) _(mbarrier_complete) _(mbarrier_arrive) _(mbarrier_wait) _(mbarrier_pending) \
    _(fence) _(sleep) _(registers) \
    _(shuffle) _(vote) _(match) _(redux) _(activemask) _(elect) \
    _(copy_async) _(copy_async_commit) _(copy_async_wait) _(copy_async_arrive) \
    _(bulk) _(bulk_tensor) _(bulk_commit) _(bulk_wait) _(prefetch_map) \
    _(tensor_alloc) _(tensor_dealloc) _(tensor_relinquish) _(tensor_load) _(tensor_store) _(tensor_wait_load) _(tensor_wait_store) \
    _(tensor_mma) _(tensor_commit) _(tensor_fence) \
    _(wgmma_fence) _(wgmma_commit) _(wgmma_wait) _(wgmma_mma)
#define EMU_DECLARE(name) emu_step emu_do_##name(emu_warp *warp, const emu_op *op, uint32_t mask);
EMU_HANDLERS(EMU_DECLARE)
#undef EMU_DECLARE

#endif
