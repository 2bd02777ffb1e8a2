/* What the host and the kernels agree on: the variant (compile-time choices), the launch parameters and the records that a launch
 * uploads. Plain C, read by NVRTC, by cuda/ and by emu/: one layout, two readers. The barrier lists are in barriers.h. */
#ifndef FA4_KERNELS_PARAMS_H
#define FA4_KERNELS_PARAMS_H

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define FWD_POINTER(type) type *
#else
#include <stdint.h>
#define FWD_POINTER(type) uint64_t /* a device address; the type is for the kernel */
#endif

/* ---- the variant: one compilation per value ------------------------------------------------------------------ */

enum { FWD_F16 = 0, FWD_BF16 = 1 };                                    /* as fa4_dtype */
enum { FWD_FULL = 0, FWD_CAUSAL = 1, FWD_INTERVAL = 2, FWD_BITS = 3 }; /* as fa4_mask_class */
enum { FWD_EACH_BLOCK = 0, FWD_FIRST_BLOCK = 1 };                      /* as fa4_row_max */
enum { FWD_EPILOGUE_CORRECTION = 0, FWD_EPILOGUE_SOFTMAX = 1 };

/* Field of FwdVariant; the macro that -D sets to its value for the compilation. */
#define FWD_VARIANT_FIELDS(_)                                                                      \
    _(arch, FA4_ARCH)                           /* 100 or 90 */                                    \
    _(dtype, FA4_DTYPE)                         /* FWD_F16, FWD_BF16 */                            \
    _(dim, FA4_DIM)                             /* 64 or 128: the class, not the head dimension */ \
    _(mask_class, FA4_MASK_CLASS)               /* FWD_FULL .. FWD_BITS */                         \
    _(packed, FA4_PACKED)                       /* 1: rows are (position, head in group) */        \
    _(soft_cap, FA4_SOFT_CAP)                   /* 1: scores pass through tanh */                  \
    _(row_max, FA4_ROW_MAX)                     /* FWD_EACH_BLOCK, FWD_FIRST_BLOCK */              \
    _(integer_reference, FA4_INTEGER_REFERENCE) /* 1: the reference is whole log2 units */         \
    _(emulated_pairs, FA4_EMULATED_PAIRS)       /* polynomial pairs of every 8 */                  \
    _(first_fragment, FA4_FIRST_FRAGMENT)       /* first 32-column fragment that may use them */   \
    _(p_split, FA4_P_SPLIT)                     /* keys in the first part of P */                  \
    _(epilogue, FA4_EPILOGUE)                   /* FWD_EPILOGUE_*: who normalises O */             \
    _(o_f32, FA4_O_F32)                         /* 1: O is stored in f32, not through a map */     \
    _(order_barrier, FA4_ORDER_BARRIER)         /* 1: softmax warpgroups take turns */             \
    _(q_stages, FA4_Q_STAGES)                                                                      \
    _(kv_stages, FA4_KV_STAGES)                                                                    \
    _(kv_split, FA4_KV_SPLIT)                   /* 1: tasks are parts of a tile's keys, see fa4_combine */ \
    _(tile_rows, FA4_TILE_ROWS)                                                                    \
    _(tile_keys, FA4_TILE_KEYS)                                                                    \
    _(registers_softmax, FA4_REGISTERS_SOFTMAX)                                                    \
    _(registers_correction, FA4_REGISTERS_CORRECTION)                                              \
    _(registers_other, FA4_REGISTERS_OTHER)                                                        \
    _(counters, FA4_COUNTERS)       /* 1: counts decisions (a build of its own) */                \
    _(delay_roles, FA4_DELAY_ROLES) /* tests: roles, by bit, that sleep around each wait */

typedef struct FwdVariant {
#define FWD_FIELD(name, macro) int32_t name;
    FWD_VARIANT_FIELDS(FWD_FIELD)
#undef FWD_FIELD
} FwdVariant;

/* ---- records that a launch uploads ------------------------------------------------------------------------------ */

enum { FWD_STEP_FULL = -1, FWD_STEP_PARTIAL = -2, FWD_STEP_SKIP = -3 }; /* >= 0: the bit tile */

/* One step of a task's walk: a key block and what it is to either tile. Read for the classes interval and bits only; the other
 * two derive the same steps. */
typedef struct FwdStep {
    int32_t key_block;
    int32_t mask[2]; /* FWD_STEP_*, or a bit tile */
    int32_t reserved;
} FwdStep;

enum { FWD_NO_TASK = -1 };

/* A unit of work. Its steps are the union of its tiles' blocks, in visiting order. */
typedef struct FwdTask {
    int32_t batch;
    int32_t head;       /* as the plan's tasks: key head when packed, else query head */
    int32_t tile;       /* the first query tile */
    int32_t tiles;      /* 1 or 2 */
    int32_t steps;      /* 0: no key is visible. FWD_NO_TASK ends a CTA's walk (the kernel's own mark) */
    int32_t own[2];     /* steps that are not skipped, by tile; 0 for a tile that does not exist. sm_90a: own[1] is the task's part of the keys */
    int32_t first_step; /* in FwdParams.steps */
} FwdTask;

/* Decision counters of one head, set by the host before the launch. Maxima are kept as ordered integers: a float's bits,
 * bits ^ ((bits >> 31) & 0x7fffffff) with an arithmetic shift, which is its own inverse. */
typedef struct FwdCounters {
    uint64_t rescaled_rows, spared_rows, rescaled_warps, max_fixups;
    int32_t exponent_max; /* log2 units; starts at FWD_ORDERED_MINUS_INFINITY */
    int32_t p_max;        /* starts at 0 */
} FwdCounters;

enum { FWD_ORDERED_MINUS_INFINITY = -2139095041 };

/* ---- launch parameters ---------------------------------------------------------------------------------------------- */

enum { FWD_MAP_Q = 0, FWD_MAP_K = 1, FWD_MAP_V = 2, FWD_MAP_O = 3, FWD_MAP_COUNT = 4, FWD_MAP_BYTES = 128 };

/* Opaque to all but the hardware (or the emulator, which puts its own encoding here). */
typedef struct FwdTensorMap {
    uint64_t word[16];
} __attribute__((aligned(64))) FwdTensorMap;

/* How a CTA comes by its tasks. */
enum {
    FWD_TAKE_STRIDE = 0,  /* blockIdx.x, + gridDim.x, ... */
    FWD_TAKE_COUNTER = 1, /* the next number of *next_task */
    FWD_TAKE_LIST = 2     /* worker_first[blockIdx.x] up to worker_first[blockIdx.x + 1] */
};

/* Both kernels' name. */
#define FWD_KERNEL_NAME "fa4_fwd"
/* Of variants with kv_split: run after it, one CTA for each row of O. */
#define FWD_COMBINE_NAME "fa4_combine"
enum { FWD_COMBINE_THREADS = 128, FWD_SPLITS_MAX = 1024 };

/* The kernel's one parameter (const __grid_constant__). All maps have rank 4: {dim, heads, positions, batch}. */
typedef struct FwdParams {
    FwdTensorMap map[FWD_MAP_COUNT];
    FWD_POINTER(const FwdTask) tasks;
    FWD_POINTER(const FwdStep) steps;
    FWD_POINTER(const int32_t) row_lo;       /* per query position, class interval */
    FWD_POINTER(const int32_t) row_hi;
    FWD_POINTER(const uint32_t) bit_tiles;   /* [tile][128 rows][4], 16-byte aligned */
    FWD_POINTER(float) lse;                  /* null: not asked for */
    FWD_POINTER(float) o_f32;                /* null unless the variant stores f32. sm_90a: always O's address, for tiles that see no key */
    FWD_POINTER(FwdCounters) counters;       /* per head of the plan; null unless the variant counts */
    FWD_POINTER(int32_t) next_task;          /* FWD_TAKE_COUNTER; 0 at launch */
    FWD_POINTER(const int32_t) worker_first; /* FWD_TAKE_LIST */
    int64_t lse_strides[3];                  /* elements: batch, head, position */
    int64_t o_strides[3];                    /* of o_f32, elements: batch, position, head */
    int32_t task_count;
    int32_t take; /* FWD_TAKE_* */
    int32_t seqlen_q, seqlen_kv;
    int32_t heads_q, heads_kv;
    int32_t dim;        /* columns of O that exist */
    int32_t group;      /* query heads of a key head */
    int32_t group_log2; /* when packed (the group is then a power of two), else 0 */
    int32_t positions;  /* query positions of a tile */
    int32_t kv_blocks;  /* key blocks in all */
    int32_t kv_order;   /* fa4_kv_order */
    int32_t scale_negative;
    float scale_log2; /* log2 units of one unit of score; with a soft cap: of one unit of tanh */
    float threshold;  /* log2 units */
    float cap_scale;  /* soft cap: a score to 2 log2(e) times the argument of tanh */
    /* 0 where an axis of that tensor is expanded (stride 0) and left out of its map, else 1. */
    int32_t q_head_step, q_batch_step, k_head_step, k_batch_step, v_head_step, v_batch_step;
    float weight_limit; /* 2^threshold: max-free blocks repair a row whose weights sum above it */
    FWD_POINTER(float) partial_o;    /* kv_split: O before it is divided, [tile of (batch, head)][row][part][64 or 128 columns] */
    FWD_POINTER(float) partial_rows; /* likewise [..][row][part][2]: reference in log2 units (-inf: no key seen), sum of weights */
    int32_t kv_splits;               /* parts of a tile's keys */
    int32_t batch;
    float reference_floor; /* the reference of a row that has seen no key: finite, and finite times scale_log2 */
} FwdParams;

#endif
