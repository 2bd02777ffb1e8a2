/*
 * fa4.h: FlashAttention-4 as a C library. The one public header; the LuaJIT FFI reads the same text.
 *
 * Data flows one way: a request (problem + schedule) becomes a plan, a device runs the plan on the caller's tensors,
 * and a report says what happened. Coordinates (batch, position, head, dim, tile, block, lane) count from 0.
 *
 * Every call that can fail returns fa4_status and takes fa4_error *err last (NULL is allowed); err->text names the
 * argument, the value it got and what is allowed. Other pointers must not be NULL unless a call says so. A context and
 * what was made with it are used by one thread at a time; two contexts in two threads are independent.
 */
#ifndef FA4_H
#define FA4_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FA4_API __attribute__((visibility("default")))
#else
#define FA4_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ------------------------------------------------------------------------------------------------- */

typedef enum fa4_status {
    FA4_OK = 0,
    FA4_BAD_ARGUMENT = 1, /* a wrong argument: type, shape, stride, range */
    FA4_UNSUPPORTED = 2,  /* a valid request that the chosen device cannot run */
    FA4_BAD_FILE = 3,     /* a file's content is wrong, truncated or hostile */
    FA4_IO = 4,           /* the system refused: open, read, write, rename */
    FA4_NO_MEMORY = 5,
    FA4_NO_DEVICE = 6, /* the device or a library that it needs is absent */
    FA4_INTERRUPTED = 7,
    FA4_DEVICE_ERROR = 8, /* the driver or the compiler reported an error */
    FA4_FINDING = 9,      /* the emulator found a race, a deadlock or misuse */
    FA4_INTERNAL = 10
} fa4_status;

enum { FA4_ERROR_TEXT_BYTES = 2048 };

typedef struct fa4_error {
    int32_t status;                   /* fa4_status of the failure */
    char text[FA4_ERROR_TEXT_BYTES]; /* one or more lines, NUL-terminated */
} fa4_error;

/* "major.minor.patch"; static memory. */
FA4_API const char *fa4_version(void);
/* Microseconds of a clock that only goes forward; its zero means nothing. */
FA4_API double fa4_clock_us(void);
/* A short name such as "bad argument"; static memory. */
FA4_API const char *fa4_status_name(int32_t status);

/* ---- context ------------------------------------------------------------------------------------------------ */

/* Worker threads, devices and byte accounts. Counted: tensors' storages keep their context alive. */
typedef struct fa4_context fa4_context;

typedef struct fa4_context_options {
    int32_t threads; /* CPU workers; 0 = FA4_NUM_THREADS, else what affinity and cgroup quota allow */
    const char *cpu; /* NULL = FA4_CPU, else the best; "scalar", "avx2", "avx512", "avx512_bf16" */
} fa4_context_options;

/* options may be NULL. Fails on an unknown or absent instruction set. */
FA4_API fa4_status fa4_context_open(const fa4_context_options *options, fa4_context **context, fa4_error *err);
FA4_API void fa4_context_close(fa4_context *context); /* NULL is allowed */

/* The flag that long calls poll: a signal handler sets it to 1, the call returns FA4_INTERRUPTED, the caller clears it. */
FA4_API volatile int32_t *fa4_context_interrupt(fa4_context *context);
/* The progress of the running call in [0, 1], for a bar drawn by another thread; 0 when idle. */
FA4_API double fa4_context_progress(const fa4_context *context);

typedef struct fa4_memory {
    int64_t host_bytes;    /* live tensor bytes in host memory */
    int64_t device_bytes;  /* live tensor bytes on GPUs */
    int64_t storages;      /* live storages */
    int64_t host_bytes_max; /* the largest host_bytes so far */
} fa4_memory;
FA4_API void fa4_context_memory(const fa4_context *context, fa4_memory *memory);

typedef struct fa4_cpu_info {
    char model[64];    /* the CPU's own name */
    char path[16];     /* the instruction set in use: "scalar", "avx2", "avx512", "avx512_bf16" */
    char usable[64];   /* every path that can be forced here, space separated */
    int32_t threads;   /* workers of this context */
    int32_t cpus;      /* CPUs that affinity and cgroup quota allow */
} fa4_cpu_info;
FA4_API void fa4_context_cpu(const fa4_context *context, fa4_cpu_info *info);

/* ---- tensors ------------------------------------------------------------------------------------------------ */

typedef enum fa4_dtype { FA4_F16 = 0, FA4_BF16 = 1, FA4_F32 = 2, FA4_F64 = 3, FA4_I32 = 4 } fa4_dtype;

/* "f16", "bf16", "f32", "f64", "i32"; NULL for another number. */
FA4_API const char *fa4_dtype_name(int32_t dtype);
/* Bytes of one element; 0 for another number. */
FA4_API int64_t fa4_dtype_bytes(int32_t dtype);

/* Reference-counted memory, 64-byte aligned, accounted in its context. */
typedef struct fa4_storage fa4_storage;
/* device: NULL or "cpu" for host memory, "cuda", "cuda:N". Memory is not touched. The count starts at 1. */
FA4_API fa4_status fa4_storage_create(fa4_context *context, int64_t bytes, const char *device, fa4_storage **storage,
                                      fa4_error *err);
FA4_API void fa4_storage_retain(fa4_storage *storage);
FA4_API void fa4_storage_release(fa4_storage *storage); /* frees at 0; NULL is allowed */
/* Releases the memory at once; the handle stays valid until its count is 0, with data NULL. */
FA4_API void fa4_storage_free(fa4_storage *storage);
FA4_API void *fa4_storage_data(const fa4_storage *storage);   /* NULL once freed (or when it holds 0 bytes) */
FA4_API int32_t fa4_storage_freed(const fa4_storage *storage); /* 1 after fa4_storage_free */
FA4_API int64_t fa4_storage_bytes(const fa4_storage *storage);
/* Copies bytes between host memory and a storage's memory, whichever device it is on. */
FA4_API fa4_status fa4_storage_write(fa4_storage *storage, int64_t offset, const void *host, int64_t bytes, fa4_error *err);
FA4_API fa4_status fa4_storage_read(const fa4_storage *storage, int64_t offset, void *host, int64_t bytes, fa4_error *err);

enum { FA4_RANK_MAX = 8 };

/* A view of memory; a plain value that owns nothing. Host memory unless `device` is 1. */
typedef struct fa4_tensor {
    void *data;                     /* element 0; NULL is allowed for an empty tensor */
    int32_t dtype;                  /* fa4_dtype */
    int32_t rank;                   /* 0..8 */
    int32_t device;                 /* 0 host, 1 CUDA device memory */
    int32_t device_index;           /* CUDA ordinal */
    int64_t shape[FA4_RANK_MAX];
    int64_t strides[FA4_RANK_MAX]; /* in elements; 0 and negative allowed for reading */
} fa4_tensor;

/* Elements of a shape, checked against overflow of the byte size. */
FA4_API fa4_status fa4_shape_elements(const int64_t *shape, int32_t rank, int32_t dtype, int64_t *elements, fa4_error *err);
/* Sets every element to value (rounded to nearest even). A number that does not fit i32 is an error, in fa4_tensor_set too. */
FA4_API fa4_status fa4_tensor_fill(const fa4_tensor *tensor, double value, fa4_error *err);
/* Copies with conversion; shapes must be equal, destination elements distinct. Every narrowing rounds once, to nearest even; i32 saturates
   and takes NaN as 0. Overlapping views of one memory are allowed. */
FA4_API fa4_status fa4_tensor_copy(const fa4_tensor *destination, const fa4_tensor *source, fa4_error *err);
FA4_API fa4_status fa4_tensor_get(const fa4_tensor *tensor, const int64_t *index, double *value, fa4_error *err);
FA4_API fa4_status fa4_tensor_set(const fa4_tensor *tensor, const int64_t *index, double value, fa4_error *err);

typedef enum fa4_random { FA4_RANDOM_NORMAL = 0, FA4_RANDOM_UNIFORM = 1 } fa4_random;
/* Fills with Philox numbers of (seed, flat index): the same bits on every machine. Normal: mean 0, deviation scale. Uniform: [-scale, scale). */
FA4_API fa4_status fa4_tensor_random(const fa4_tensor *tensor, int32_t distribution, uint64_t seed, double scale, fa4_error *err);

/* ---- files -------------------------------------------------------------------------------------------------- */

/* A file read whole and checked: named tensors and string metadata. */
typedef struct fa4_file fa4_file;

/* By content: .npy, .npz, safetensors. map != 0 maps safetensors and .npy privately instead of reading (truncating the file underneath is undefined). */
FA4_API fa4_status fa4_file_open(fa4_context *context, const char *path, int32_t map, fa4_file **file, fa4_error *err);
FA4_API void fa4_file_close(fa4_file *file); /* NULL is allowed; storages taken from it live on */
FA4_API const char *fa4_file_kind(const fa4_file *file); /* "npy", "npz", "safetensors" */
FA4_API int64_t fa4_file_count(const fa4_file *file);
FA4_API const char *fa4_file_name(const fa4_file *file, int64_t i); /* tensor i; "" for .npy; NULL out of range */
/* Tensor i as a view, and a new reference to its storage (release it). */
FA4_API fa4_status fa4_file_tensor(const fa4_file *file, int64_t i, fa4_tensor *tensor, fa4_storage **storage, fa4_error *err);
FA4_API int64_t fa4_file_metadata_count(const fa4_file *file);
FA4_API const char *fa4_file_metadata_key(const fa4_file *file, int64_t i);
FA4_API const char *fa4_file_metadata_value(const fa4_file *file, int64_t i);

typedef struct fa4_named_tensor {
    const char *name;
    fa4_tensor tensor;
} fa4_named_tensor;
typedef struct fa4_metadata {
    const char *key;
    const char *value;
} fa4_metadata;
/* Kind by the path's ending (.npy: exactly one tensor; .npz; .safetensors). Written beside and renamed. */
FA4_API fa4_status fa4_file_write(const char *path, const fa4_named_tensor *tensors, int64_t count, const fa4_metadata *metadata,
                                  int64_t metadata_count, fa4_error *err);
/* Any bytes, written beside and renamed (JSON, CSV, SVG). */
FA4_API fa4_status fa4_file_write_bytes(const char *path, const char *bytes, int64_t count, fa4_error *err);

/* ---- the request: problem and schedule ------------------------------------------------------------------------ */

typedef enum fa4_mask_kind {
    FA4_MASK_FULL = 0,
    FA4_MASK_CAUSAL = 1,   /* j <= i + Skv - Sq */
    FA4_MASK_WINDOW = 2,   /* left, right: inclusive, relative to that diagonal; negative = unbounded */
    FA4_MASK_PREFIX = 3,   /* j < length, else causal */
    FA4_MASK_DOCUMENT = 4, /* data: Skv ids; query i has position i + Skv - Sq; equal ids see each other */
    FA4_MASK_BITS = 5,     /* data: bit j % 32 of word j / 32 of row i, see fa4_mask_node.per_head */
    FA4_MASK_ALL_OF = 6,   /* combinations take the `operands` nodes before them (postfix order) */
    FA4_MASK_ANY_OF = 7,
    FA4_MASK_NONE_OF = 8
} fa4_mask_kind;

enum { FA4_MASK_NODES_MAX = 32 };

typedef struct fa4_mask_node {
    int32_t kind;     /* fa4_mask_kind */
    int32_t operands; /* combinations: how many, >= 1 */
    int64_t left, right; /* window */
    int64_t length;      /* prefix */
    int64_t data_offset; /* document, bits: first 32-bit word in the request's mask_data */
    int32_t per_head;    /* bits: rows are stored [batch or 1][query head or 1][Sq][4 * ceil(Skv / 128)] words */
    int32_t per_batch;
} fa4_mask_node;

typedef struct fa4_problem {
    int64_t batch, seqlen_q, seqlen_kv;
    int32_t heads_q, heads_kv;
    int32_t dim, dim_v;
    int32_t dtype;   /* of q, k, v: f16, bf16, f32 */
    int32_t lse;     /* 1: LSE is asked for */
    double scale;    /* any finite number */
    double soft_cap; /* 0 = off, else finite and > 0 */
    int32_t mask_nodes;
    int32_t reserved; /* 0 */
    fa4_mask_node mask[FA4_MASK_NODES_MAX]; /* postfix; 0 nodes = full */
} fa4_problem;

typedef enum fa4_row_max { FA4_ROW_MAX_EACH_BLOCK = 0, FA4_ROW_MAX_FIRST_BLOCK = 1 } fa4_row_max;
typedef enum fa4_kv_order { FA4_KV_REVERSE = 0, FA4_KV_FORWARD = 1, FA4_KV_SINK_FIRST = 2 } fa4_kv_order;
typedef enum fa4_tile_order { FA4_ORDER_LINEAR = 0, FA4_ORDER_LPT = 1, FA4_ORDER_LIST = 2 } fa4_tile_order;

/* How to compute. fa4_schedule_default fills it; -1 in a field means "what a specialist would choose". */
typedef struct fa4_schedule {
    double rescale_threshold;    /* log2 units: f16 0..15, others 0..100 */
    int32_t row_max;             /* fa4_row_max */
    int32_t kv_order;            /* fa4_kv_order */
    int32_t exp2_emulated_pairs; /* polynomial pairs of every 8, 0..8 */
    int32_t exp2_first_fragment; /* first 32-column fragment that may use the polynomial, 0..3 */
    int32_t p_split;             /* keys in the first part of P: a multiple of 16, 16..112 */
    int32_t tile_order;          /* fa4_tile_order */
    int64_t l2_bytes;            /* LPT grouping, > 0 */
    int32_t workers;             /* CTAs, or CPU threads' task lists; 0 = the device's */
    int32_t threads;             /* CPU threads; 0 = the context's */
    int32_t gqa_packing;         /* 1: pack when heads_q / heads_kv divides tile_rows */
    int32_t tile_rows, tile_keys;       /* 128, 128 (sm_90a: 192 rows for dim 64) */
    int32_t q_stages, kv_stages;        /* shared-memory pipeline depths */
    int32_t registers_softmax, registers_correction, registers_other; /* a thread */
    int32_t order_barrier;       /* 1: softmax warpgroups take turns (S0/S1) */
    int32_t integer_reference;   /* 1: the reference is a whole number of log2 units */
    int32_t kv_splits;           /* parts of the key range, combined in order; 1 = none */
    int32_t sms;                 /* emulator: resident CTAs; 0 = the device's */
    int32_t counters;            /* 1: the report's counters are wanted (GPU: a build of its own) */
    int32_t delay_roles;         /* a test build for sm_90a: roles, by bit as in fa4_kernel_row, that sleep around each wait; 0 = none */
} fa4_schedule;

typedef struct fa4_request {
    const char *device; /* NULL or "auto", "cpu", "cuda", "cuda:N", "emu", "emu:sm_100a", "emu:sm_90a" */
    fa4_problem problem;
    fa4_schedule schedule;
    const int32_t *mask_data; /* borrowed for the call */
    int64_t mask_words;
} fa4_request;

/* Every field of schedule set to "choose for me". */
FA4_API void fa4_schedule_default(fa4_schedule *schedule);

/* ---- plan ------------------------------------------------------------------------------------------------------- */

typedef enum fa4_backend {
    FA4_BACKEND_CPU = 0,
    FA4_BACKEND_CUDA_SM100 = 1,
    FA4_BACKEND_CUDA_SM90 = 2,
    FA4_BACKEND_EMU_SM100 = 3,
    FA4_BACKEND_EMU_SM90 = 4
} fa4_backend;

typedef enum fa4_mask_class {
    FA4_CLASS_FULL = 0,     /* only the tail of the keys is masked */
    FA4_CLASS_CAUSAL = 1,   /* row i sees keys [0, i + Skv - Sq] */
    FA4_CLASS_INTERVAL = 2, /* row i sees keys [row_lo[i], row_hi[i]) */
    FA4_CLASS_BITS = 3      /* partial blocks have bit tiles */
} fa4_mask_class;

/* One visited key block of a tile, in visiting order. */
typedef struct fa4_block {
    int32_t key_block; /* keys [key_block * tile_keys, ...) */
    int32_t mask;      /* -1 full, -2 partial by the row intervals, >= 0 the bit tile */
} fa4_block;

/* The visited blocks of one query tile. */
typedef struct fa4_block_list {
    int64_t first;   /* index of its first fa4_block */
    int32_t count;   /* visited */
    int32_t partial; /* of those, masked */
} fa4_block_list;

/* A unit of work: one tile (cpu, sm_90a) or two neighbouring tiles (sm_100a) of one head. */
typedef struct fa4_task {
    int32_t batch;
    int32_t head;       /* key head when packed, else query head */
    int32_t tile;       /* first query tile */
    int32_t tiles;      /* 1 or 2 */
    int32_t worker;     /* who runs it; -1 = whoever is free */
    int32_t split;      /* part of the key range, 0 .. kv_splits - 1 */
    int64_t blocks;     /* visited key blocks (of the union, for two tiles) */
} fa4_task;

/* What follows from problem and schedule: read-only, no pointers; everything after it lies in the same allocation. */
typedef struct fa4_plan_header {
    int64_t bytes;        /* of the whole plan */
    uint64_t hash;        /* of everything but this field */
    int32_t backend;      /* fa4_backend */
    int32_t mask_class;   /* fa4_mask_class */
    fa4_problem problem;
    fa4_schedule schedule; /* resolved: nothing is -1 */
    float scale_log2;      /* |scale| * log2(e), kept within 2^-100 .. 2^126 */
    int32_t scale_negative; /* 1: scores are negated */
    int32_t group;         /* heads_q / heads_kv */
    int32_t packed;        /* 1: rows are (position, head in group) */
    int32_t heads;         /* heads that tasks name: heads_kv when packed, else heads_q */
    int32_t positions;     /* query positions of one tile: tile_rows / group when packed */
    int64_t tiles_per_head; /* query tiles of one (batch, head) */
    int64_t blocks_per_row; /* key blocks in all */
    int64_t map_batches, map_heads; /* block lists are [map_batches][map_heads][tiles_per_head]; 1 = shared by all */
    int64_t list_count, list_offset;      /* fa4_block_list; offsets in bytes from the plan's start */
    int64_t block_count, block_offset;    /* fa4_block */
    int64_t task_count, task_offset;      /* fa4_task, in the order of the schedule */
    int64_t row_count, row_lo_offset, row_hi_offset; /* int32_t per query position (class interval), else 0 */
    int64_t bit_tile_count, bit_tile_offset;         /* uint32_t [128][4] each, by tile row */
    int64_t mask_word_count, mask_word_offset;       /* the request's mask_data */
    int64_t smem_bytes, tmem_columns, registers;     /* of one CTA; 0 on the CPU */
    char device[32];  /* "cpu", "emu:sm_100a", ... */
    char variant[96]; /* the kernel's name; "" on the CPU */
} fa4_plan_header;

typedef struct fa4_plan fa4_plan;

/* Checks the request and derives everything. FA4_UNSUPPORTED carries the reason and the nearest supported value. */
FA4_API fa4_status fa4_plan_create(fa4_context *context, const fa4_request *request, fa4_plan **plan, fa4_error *err);
FA4_API void fa4_plan_destroy(fa4_plan *plan); /* NULL is allowed */
FA4_API const fa4_plan_header *fa4_plan_get(const fa4_plan *plan);
/* A copy whose tasks run in another order: order[i] is the old index of the i-th task (a permutation, checked); workers is NULL or one worker per
   task of the new order. Returns it in *reordered. */
FA4_API fa4_status fa4_plan_reorder(const fa4_plan *plan, const int64_t *order, const int32_t *workers, fa4_plan **reordered, fa4_error *err);
/* 1 when row (query) i of head and batch sees key j, by the plan's mask; 0 when not or out of range. */
FA4_API int32_t fa4_plan_visible(const fa4_plan *plan, int64_t batch, int64_t head_q, int64_t i, int64_t j);

/* One row of a GPU kernel's own tables: what the kernel is compiled from. */
typedef enum fa4_kernel_row_kind {
    FA4_ROW_BARRIER = 0, /* an mbarrier array: first is the byte offset of copy 0 in shared memory, size the arrivals of one phase */
    FA4_ROW_NAMED = 1,   /* a hardware named barrier: first id, copies ids, size threads */
    FA4_ROW_SHARED = 2,  /* a region of shared memory: first byte, size bytes */
    FA4_ROW_TENSOR = 3,  /* a region of tensor memory: first column, size 32-bit columns */
    FA4_ROW_WARP = 4     /* warp `first` of the CTA has the role `arrives` */
} fa4_kernel_row_kind;
typedef struct fa4_kernel_row {
    const char *name; /* static memory: "kv_load.full", "S0"; a warp's is its role */
    int32_t kind, copies, first, size;
    int32_t arrives, waits; /* roles by bit: 1 load, 2 mma, 4 softmax, 8 correction, 16 store, 32 schedule */
} fa4_kernel_row;
/* The tables of the sm_100a kernel that would run this plan, whatever device it was made for. Fills at most `room` rows; *count is how
   many there are. */
FA4_API fa4_status fa4_plan_kernel_rows(const fa4_plan *plan, fa4_kernel_row *rows, int32_t room, int32_t *count, fa4_error *err);

/* ---- run -------------------------------------------------------------------------------------------------------- */

typedef struct fa4_tensors {
    fa4_tensor q;   /* (batch, seqlen_q,  heads_q,  dim),   last axis contiguous */
    fa4_tensor k;   /* (batch, seqlen_kv, heads_kv, dim)   */
    fa4_tensor v;   /* (batch, seqlen_kv, heads_kv, dim_v) */
    fa4_tensor o;   /* (batch, seqlen_q,  heads_q,  dim_v), dtype of q, or f32 for 16-bit inputs (then not rounded) */
    fa4_tensor lse; /* (batch, heads_q, seqlen_q), f32, natural log; ignored when the problem's lse is 0 */
} fa4_tensors;

/* What happened, by count. Meanings: README, "Report". Sums over heads, except the two maxima. */
typedef struct fa4_counters {
    int64_t tiles, blocks_visited, blocks_skipped, blocks_partial;
    int64_t row_steps, rescaled_rows, spared_rows;
    int64_t warp_steps, rescaled_warps;
    int64_t exp2_hardware, exp2_polynomial;
    int64_t max_fixups;
    double exponent_max; /* log2 units; -inf when nothing was computed */
    double p_max;
} fa4_counters;

typedef struct fa4_report {
    fa4_counters total;
    double time_us; /* device time of the attention itself */
    double flops;   /* 2 * pairs * (dim + dim_v); pairs: batch * heads_q * seqlen_q * seqlen_kv, half when causal and square, else the visible ones */
    double tflops;
    double bytes;   /* read and written at least once */
    uint64_t plan_hash;
    int32_t threads; /* host threads that worked */
    int32_t workers; /* CTAs, or threads */
    int32_t heads;   /* heads that counters were kept for: plan heads */
    int32_t findings; /* emulator */
    char device[96]; /* what ran: "cpu", "cuda:0 NVIDIA H200", "emu:sm_100a" */
    char path[32];   /* instruction set, or kernel architecture */
    char variant[96];
} fa4_report;

/* Runs the plan. report may be NULL; per_head is NULL or holds plan heads entries. Nothing is written when an argument is wrong. On a GPU,
 * with report and per_head both NULL, the call returns once the work is queued: fa4_storage_read, fa4_storage_write, fa4_device_wait and
 * any run that wants a report wait for it, and give its failure. */
FA4_API fa4_status fa4_run(fa4_context *context, const fa4_plan *plan, const fa4_tensors *tensors, fa4_report *report,
                           fa4_counters *per_head, fa4_error *err);
/* Queues the plan's kernel on a CUDA stream (a CUstream; NULL: the default stream) and returns at once: nothing is waited for, timed or counted. For a GPU's
 * plan without counters. Tensors and plan must live until the stream has come so far. Launches of one plan share its lists: keep them on one stream. */
FA4_API fa4_status fa4_launch(fa4_context *context, const fa4_plan *plan, const fa4_tensors *tensors, void *stream, fa4_error *err);
/* The measured multiply-add rates of `threads` CPU threads on the instruction set in use, 1e9 operations a second (an FMA counts 2): f32, and
 * pairs of bf16 (0 where the instruction is absent). */
FA4_API fa4_status fa4_cpu_peak(fa4_context *context, int32_t threads, double *gflops, double *gflops_bf16, fa4_error *err);
/* Waits for what runs without a report have queued on `device`; nothing to do on the others. */
FA4_API fa4_status fa4_device_wait(fa4_context *context, const char *device, fa4_error *err);
/* FA4_OK when `device` can be used; else FA4_NO_DEVICE with the reason (what is missing, what it would enable). */
FA4_API fa4_status fa4_device_check(fa4_context *context, const char *device, fa4_error *err);

/* ---- reference and validation ----------------------------------------------------------------------------------- */

/* Plain loops in double, sharing no code with any backend. o: (batch, seqlen_q, heads_q, dim_v) f64 or f32; lse: f64 or f32, or data NULL. */
FA4_API fa4_status fa4_reference(fa4_context *context, const fa4_request *request, const fa4_tensors *tensors, fa4_error *err);

typedef struct fa4_validation {
    int32_t pass;
    int32_t worst_kind;  /* 0 none, 1 an element of o, 2 an element of lse */
    double o_error;      /* largest |O - ref| */
    double naive_error;  /* the same for the naive computation in the input's dtype; 0 for f32 */
    double floor;        /* of O's own dtype */
    double ratio;        /* o_error / (naive_error + floor), at most 1 to pass where O has 16 bits; 0 for f32 inputs */
    double bound;        /* largest |O - ref| / (its own bound) */
    double lse_error;    /* largest |LSE - ref| / max(1, |ref|) */
    double o_rms_error;  /* root mean square of O - ref over root mean square of ref */
    int64_t worst[4];    /* (batch, position, head, dim), or (batch, head, position, 0) */
    double worst_got, worst_want;
} fa4_validation;

/* The reference of one problem, kept so that many outputs can be held to it. */
typedef struct fa4_validator fa4_validator;
/* Reads q, k, v of tensors (host memory); o and lse are not looked at. */
FA4_API fa4_status fa4_validator_create(fa4_context *context, const fa4_request *request, const fa4_tensors *tensors,
                                        fa4_validator **validator, fa4_error *err);
FA4_API void fa4_validator_destroy(fa4_validator *validator); /* NULL is allowed */
/* Compares o and, when the problem asks for it, lse of tensors (then one must be there). cubic: 1 when an exp2 polynomial was used (f32's bound). */
FA4_API fa4_status fa4_validator_check(const fa4_validator *validator, const fa4_tensors *tensors, int32_t cubic,
                                       fa4_validation *result, fa4_error *err);
/* Both in one. Compares tensors->o and ->lse with the reference; tolerances as in the README, "Validation". */
FA4_API fa4_status fa4_validate(fa4_context *context, const fa4_request *request, const fa4_tensors *tensors, fa4_validation *result,
                                fa4_error *err);

/* ---- kernels ------------------------------------------------------------------------------------------------------ */

/* The kernel behind a plan of a GPU or an emulator, as text: kind "cuda" (the source files and the options), "ptx", "sass" (through
 * nvdisasm, where it is found), or "tables" (roles, memories and barriers). Free *text with fa4_text_free. */
FA4_API fa4_status fa4_kernel_source(fa4_context *context, const fa4_plan *plan, const char *kind, char **text, int64_t *length,
                                     fa4_error *err);
FA4_API void fa4_text_free(char *text); /* NULL is allowed */

/* What a launch of the plan's kernel takes, for those who run its PTX on the emulator themselves. */
typedef struct fa4_kernel_shape {
    int32_t grid, block; /* CTAs, threads of one */
    int64_t shared_bytes, param_bytes, upload_bytes;
    int32_t independent; /* 1: no CTA's work depends on what others have done */
    int32_t reserved;
} fa4_kernel_shape;
/* Fills *shape; unless they are NULL also upload (upload_bytes: the plan's lists, read and written by the kernel, and the workspace of split keys) and params (param_bytes: the
 * parameter block, which names the tensors' and upload's addresses). Tensors lie in host memory. */
FA4_API fa4_status fa4_kernel_arguments(const fa4_plan *plan, const fa4_tensors *tensors, void *upload, void *params, fa4_kernel_shape *shape,
                                        fa4_error *err);

/* Kernels compiled at run time are kept on disk: FA4_CACHE_DIR, else $XDG_CACHE_HOME/fa4, else ~/.cache/fa4; FA4_CACHE=0 turns it off. */
typedef struct fa4_cache_info {
    char folder[2048];   /* "" = off */
    char warning[2560];  /* why it is off, or ""; "" also when turned off on purpose */
    char compiler[4200]; /* version and path of NVRTC, or why there is none */
    int32_t has_compiler;
    int32_t catalogue; /* kernels inside the library */
    int64_t entries, bytes, bytes_max;
} fa4_cache_info;

typedef struct fa4_cache_item {
    char file[80];     /* in the folder */
    char kernel[96];   /* its name */
    char compiler[32]; /* what compiled it */
    int64_t bytes;
    int64_t used_s; /* last use, seconds since 1970 */
} fa4_cache_item;

FA4_API fa4_status fa4_cache_get(fa4_cache_info *info, fa4_error *err);
/* The warning alone, without looking for the compiler or at the entries: for a program that tells it once. */
FA4_API fa4_status fa4_cache_warning(char *text, int64_t room, fa4_error *err);
/* Up to `room` entries, newest first; *count is how many there are. items may be NULL when room is 0. */
FA4_API fa4_status fa4_cache_list(fa4_cache_item *items, int64_t room, int64_t *count, fa4_error *err);
/* Removes every entry; *entries and *bytes say what went. */
FA4_API fa4_status fa4_cache_clear(int64_t *entries, int64_t *bytes, fa4_error *err);

/* ---- the emulator by itself: any PTX kernel, run, stepped and looked into ------------------------------------------ */

/* PTX text made ready to run. A session keeps its module: they may be closed in any order. */
typedef struct fa4_emu_module fa4_emu_module;

/* Every instruction that is not known or not executed is an error naming its line. */
FA4_API fa4_status fa4_emu_load(fa4_context *context, const char *text, int64_t bytes, fa4_emu_module **module, fa4_error *err);
FA4_API void fa4_emu_close(fa4_emu_module *module); /* NULL is allowed */

typedef struct fa4_emu_entry {
    const char *name; /* the module's memory */
    int32_t params;
    int32_t instructions;
    int64_t param_bytes;
    int64_t shared_bytes; /* static */
    int32_t threads_max;  /* .maxntid or .reqntid, 0: not given */
    int32_t reserved;
} fa4_emu_entry;
FA4_API int32_t fa4_emu_entry_count(const fa4_emu_module *module);
FA4_API fa4_status fa4_emu_entry_get(const fa4_emu_module *module, int32_t entry, fa4_emu_entry *result, fa4_error *err);

typedef struct fa4_emu_param {
    const char *name;
    const char *type; /* "u64", "f32", "b8" (an array of bytes, such as a tensor map) */
    int64_t offset, bytes, align;
} fa4_emu_param;
FA4_API fa4_status fa4_emu_param_get(const fa4_emu_module *module, int32_t entry, int32_t param, fa4_emu_param *result, fa4_error *err);
/* The whole module as text, or (entry >= 0) one entry with instruction numbers. Free with fa4_text_free. */
FA4_API fa4_status fa4_emu_disassemble(const fa4_emu_module *module, int32_t entry, char **text, fa4_error *err);

/* What a tensor map says, innermost dimension first; strides in bytes, of dimension i (entry 0 unused). */
typedef struct fa4_emu_tensormap {
    void *address;
    int32_t dtype;   /* fa4_dtype */
    int32_t rank;    /* 1..5 */
    int32_t swizzle; /* 0, 32, 64 or 128 bytes */
    int32_t reserved;
    int64_t dims[5], strides[5], box[5];
} fa4_emu_tensormap;
/* Checks and writes the 128-byte object that a kernel parameter holds. */
FA4_API fa4_status fa4_emu_tensormap_encode(const fa4_emu_tensormap *map, void *object, fa4_error *err);

/* Host memory that the kernel may touch; its address on the device is its address here. */
typedef struct fa4_emu_region {
    void *data;
    int64_t bytes;
    const char *name;
} fa4_emu_region;

typedef struct fa4_emu_launch {
    int32_t entry;
    int32_t grid[3], block[3];
    int32_t schedule; /* 0 round robin, 1 random, 2 starve one warpgroup or unit */
    int64_t shared_bytes; /* dynamic */
    const void *params;
    int64_t param_bytes;
    const fa4_emu_region *regions;
    int32_t region_count;
    int32_t sms;       /* resident CTAs, 0 = 148 */
    uint64_t seed;
    int64_t cta_first, cta_count; /* a subset, count 0 = all; of clusters, whole ones */
    int64_t max_instructions;     /* of one CTA, 0 = 2^33 */
    int32_t threads;   /* host threads, 0 = the context's */
    int32_t unchecked; /* 1: no checks of unwritten memory */
    /* 1: no CTA waits for another through global memory, though the program could: CTAs run on several host threads, and an instruction
     * that could is a finding */
    int32_t independent;
    int32_t cluster[3]; /* CTAs of a cluster; 0: as the entry says, else 1 */
} fa4_emu_launch;

enum { FA4_EMU_TEXT_BYTES = 480, FA4_EMU_CLASSES = 8, FA4_EMU_WARPS = 32 };

typedef struct fa4_emu_finding {
    int32_t kind, severity; /* severity 0 note, 1 review, 2 error */
    int32_t cta[3];
    int32_t warp, lane; /* -1: not one */
    int32_t line, source_line;
    int32_t count;
    char text[FA4_EMU_TEXT_BYTES];
} fa4_emu_finding;
FA4_API const char *fa4_emu_kind_name(int32_t kind);   /* "deadlock", ... */
FA4_API const char *fa4_emu_class_name(int32_t class_id); /* "move", "integer", ... */

typedef struct fa4_emu_report {
    int64_t instructions, lanes; /* warp and thread instructions */
    int64_t per_class[FA4_EMU_CLASSES], per_warp[FA4_EMU_WARPS];
    int64_t mmas, bytes_loaded, bytes_stored, ctas;
    double time_us;
    int32_t threads, errors, findings, reserved;
    int64_t mma_flops; /* of the matrix units */
    double mma_us;     /* their time, operands and products, summed over host threads */
} fa4_emu_report;
/* FA4_FINDING: ran into an error; the report and the findings are filled all the same. findings holds room entries. */
FA4_API fa4_status fa4_emu_run(fa4_emu_module *module, const fa4_emu_launch *launch, fa4_emu_report *report, fa4_emu_finding *findings, int32_t room,
                               fa4_error *err);

/* One CTA of a launch, stepped by hand. Keeps the launch's params and regions: they must outlive it. */
typedef struct fa4_emu_session fa4_emu_session;
FA4_API fa4_status fa4_emu_session_open(fa4_emu_module *module, const fa4_emu_launch *launch, int64_t cta, fa4_emu_session **session, fa4_error *err);
FA4_API void fa4_emu_session_close(fa4_emu_session *session); /* NULL is allowed */
/* Runs at most `steps` warp instructions, of warp `warp` alone (-1: in turn), until a fragment stands before one of the breakpoints (instruction
 * numbers). *done: what stopped it: 0 steps, 1 breakpoint, 2 the warp (or all) can only wait, 3 the CTA has ended, 4 a finding. */
FA4_API fa4_status fa4_emu_session_step(fa4_emu_session *session, int32_t warp, int64_t steps, const int32_t *breakpoints, int32_t count, int32_t *done,
                                        fa4_error *err);

typedef struct fa4_emu_fragment {
    int32_t warp;
    int32_t instruction; /* number in the entry */
    int32_t line;        /* of the PTX text */
    int32_t state;       /* 0 ready, 1 waits for a change, 2 waits for lanes of its warp, 3 at a named barrier */
    uint32_t lanes;
    char text[160];
} fa4_emu_fragment;
/* Where every warp stands; *count is how many there are, also beyond room. */
FA4_API fa4_status fa4_emu_session_where(const fa4_emu_session *session, fa4_emu_fragment *fragments, int32_t room, int32_t *count, fa4_error *err);
/* A register (or predicate) by its name, in all lanes of a warp. FA4_UNSUPPORTED: it holds no value where the warp stands (not written yet, or
 * no longer needed: others may have its place). */
FA4_API fa4_status fa4_emu_session_register(const fa4_emu_session *session, int32_t warp, const char *name, uint64_t values[32], int32_t *bits, fa4_error *err);
/* Bytes of dynamic shared memory from `offset` on. written (NULL is allowed): 1 where something has been written. */
FA4_API fa4_status fa4_emu_session_shared(const fa4_emu_session *session, int64_t offset, int64_t bytes, void *out, uint8_t *written, fa4_error *err);
/* The 128 lanes of a tensor-memory column. */
FA4_API fa4_status fa4_emu_session_tmem(const fa4_emu_session *session, int32_t column, uint32_t values[128], fa4_error *err);

typedef struct fa4_emu_barrier {
    int64_t offset; /* in dynamic shared memory; negative: in static. Named barriers: the id */
    int32_t named;
    int32_t phase;  /* of an mbarrier: the parity that is running */
    int32_t pending, expected; /* arrivals, or threads */
    int64_t tx;     /* bytes still expected */
} fa4_emu_barrier;
/* Live mbarriers, then named barriers at which somebody waits. */
FA4_API fa4_status fa4_emu_session_barriers(const fa4_emu_session *session, fa4_emu_barrier *barriers, int32_t room, int32_t *count, fa4_error *err);
/* What was found so far. */
FA4_API fa4_status fa4_emu_session_findings(const fa4_emu_session *session, fa4_emu_finding *findings, int32_t room, int32_t *count, fa4_error *err);

#ifdef __cplusplus
}
#endif

#endif
