/*
 * What the CPU backend's files share: the job that all workers read, a worker's scratch memory, and
 * the table of functions that each instruction set provides by including tile_template.h.
 *
 * Packed key block:   [panel][dim][panel keys]    words; float, or a pair of bf16 neighbours in dim
 * Packed value block: [panel][key][panel dims]    words; float, or a pair of bf16 neighbours in key
 */
#ifndef FA4_CPU_INTERNAL_H
#define FA4_CPU_INTERNAL_H

#include "cpu/cpu.h"

#include <stdatomic.h>

enum {
    CPU_KEYS = 128,      /* keys of a block */
    CPU_ROWS_MAX = 192,  /* rows of a tile */
    CPU_ROWS_ROOM = 208, /* rounded up to any row group */
    CPU_LANES = 16,      /* columns that share a table of coefficients */
    CPU_TERMS = 6,       /* coefficients of 2^x on [0, 1), the highest first */
    CPU_DIM_MAX = 256
};

/* One 128-key block of K or V in the caller's tensor. */
typedef struct cpu_source {
    const char *base;   /* element (first key, 0) */
    int64_t row_stride; /* in elements, any sign */
    int32_t dtype;
    int32_t keys; /* that exist: 1 .. 128 */
    int32_t dim;
} cpu_source;

/* Column bounds of values, to keep outputs inside them; floats [0, room) least, [room, 2 room)
 * largest. */
typedef struct cpu_packed {
    void *k;
    void *v;
    float *bounds;
    uint8_t *special; /* 1: the block has a value that is not finite */
} cpu_packed;

typedef struct cpu_kernel cpu_kernel;

typedef struct cpu_job {
    const cpu_kernel *kernel;
    const fa4_plan *plan;
    const fa4_tensors *tensors;
    const volatile int32_t *interrupt;
    int32_t pairs;            /* 1: bf16 pairs are multiplied, P is stored as bf16 */
    int32_t words;            /* of one key or query row in packed form */
    int32_t dim_v_room;       /* dim_v rounded up to whole vectors */
    int64_t k_bytes, v_bytes; /* of one packed block */
    int64_t blocks;           /* key blocks of one head */
    cpu_packed shared; /* all blocks of all key heads; k NULL: each worker packs for itself */
    char *partials;    /* split keys: one cpu_partial per (tile, split) */
    int64_t partial_bytes;
    float scale_log2;      /* of what the score buffer holds; 1 with a soft cap */
    float step_log2;       /* the plan's, which decides about the reference; 1 with a soft cap */
    double scale;          /* what the score buffer holds times this are scores in natural units */
    float cap_in, cap_out; /* soft cap: score -> cap_out * tanh(cap_in * score), log2 units; cap_out
                              0 = off */
    float threshold;
    float sum_limit; /* max-free: a larger sum of weights takes the fix-up */
    int32_t max_free, whole_units;
    _Alignas(64) float exact[CPU_TERMS * CPU_LANES]; /* [term][lane] */
    _Alignas(
        64) float split[CPU_TERMS * CPU_LANES]; /* the same with the cubic in the chosen lanes */
} cpu_job;

/* Running state of a tile's rows. */
typedef struct cpu_rows {
    float reference[CPU_ROWS_ROOM];      /* maximum of signed scores; -inf: no key seen */
    float reference_log2[CPU_ROWS_ROOM]; /* what was subtracted, log2 units */
    float sum[CPU_ROWS_ROOM];            /* of weights relative to reference_log2 */
    float pad[16];
} cpu_rows;

/* The unfinished result of one part of the keys; o follows as [rows room][dim_v_room] floats. */
typedef struct cpu_partial {
    cpu_rows rows;
    float least[CPU_DIM_MAX], largest[CPU_DIM_MAX];
} cpu_partial;

typedef struct cpu_scratch {
    float *q;               /* [row][words] */
    float *s;               /* [row][128] scores, then weights in place */
    cpu_partial *part;      /* and o */
    float *o;               /* [row][dim_v_room] */
    cpu_packed packed;      /* one block, when nothing is shared */
    fa4_counters *counters; /* per plan head */
} cpu_scratch;

struct cpu_kernel {
    const char *name;
    int32_t lanes;     /* floats of a vector */
    int32_t row_group; /* rows of the micro kernel */
    int32_t panel;     /* columns of the micro kernel */
    int32_t pairs;     /* 1: has bf16 pair products */
    void (*pack_k)(const cpu_job *job, const cpu_source *source, void *out);
    void (*pack_v)(const cpu_job *job, const cpu_source *source, void *out, float *bounds,
                   uint8_t *special);
    void (*tile)(const cpu_job *job, const fa4_task *task, cpu_scratch *scratch);
    /* Joins the parts of (batch, head, tile) in order and stores the result. */
    void (*join)(const cpu_job *job, const fa4_task *task, cpu_scratch *scratch);
    /* Multiply-adds: runs `rounds` of a loop without memory and returns how many floating-point
     * operations that were. */
    double (*burn_f32)(int64_t rounds, volatile float *sink);
    double (*burn_bf16)(int64_t rounds, volatile float *sink);
};

extern const cpu_kernel cpu_kernel_scalar;
extern const cpu_kernel cpu_kernel_avx2;
extern const cpu_kernel cpu_kernel_avx512;
extern const cpu_kernel cpu_kernel_avx512_bf16;

/* By name; NULL when absent here. */
const cpu_kernel *cpu_kernel_find(const char *path);

static inline int64_t cpu_round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}
/* Keys of block kb that exist. */
static inline int32_t cpu_block_keys(const fa4_plan_header *h, int64_t kb) {
    int64_t left = h->problem.seqlen_kv - kb * CPU_KEYS;
    return (int32_t)(left > CPU_KEYS ? CPU_KEYS : left);
}
/* Index of the tile in an array of all tiles of all heads of all batches. */
static inline int64_t cpu_tile_index(const fa4_plan_header *h, const fa4_task *task) {
    return ((int64_t)task->batch * h->heads + task->head) * h->tiles_per_head + task->tile;
}
void cpu_source_of_k(const cpu_job *job, int64_t batch, int64_t head_kv, int64_t kb,
                     cpu_source *source);
void cpu_source_of_v(const cpu_job *job, int64_t batch, int64_t head_kv, int64_t kb,
                     cpu_source *source);

#endif
