/* Plans: a checked request and what follows from it, as one block of plain data. Pure functions, no I/O. */
#ifndef FA4_PLAN_PLAN_H
#define FA4_PLAN_PLAN_H

#include "core/error.h"

/* A plan is its header; the rest lies behind it in the same allocation, at the header's offsets. */
struct fa4_plan {
    fa4_plan_header header;
};

static inline const fa4_block_list *plan_lists(const fa4_plan *p) {
    return (const fa4_block_list *)((const char *)p + p->header.list_offset);
}
static inline const fa4_block *plan_blocks(const fa4_plan *p) {
    return (const fa4_block *)((const char *)p + p->header.block_offset);
}
static inline const fa4_task *plan_tasks(const fa4_plan *p) {
    return (const fa4_task *)((const char *)p + p->header.task_offset);
}
/* Per query position, keys [lo, hi) are visible; valid for every class but FA4_CLASS_BITS. */
static inline const int32_t *plan_row_lo(const fa4_plan *p) {
    return (const int32_t *)((const char *)p + p->header.row_lo_offset);
}
static inline const int32_t *plan_row_hi(const fa4_plan *p) {
    return (const int32_t *)((const char *)p + p->header.row_hi_offset);
}
/* Bit k % 32 of word [row][k / 32] of tile t is key k of the block. */
static inline const uint32_t *plan_bit_tile(const fa4_plan *p, int64_t t) {
    return (const uint32_t *)((const char *)p + p->header.bit_tile_offset) + t * 512;
}
/* The list of (batch, head as tasks name it, tile). */
static inline const fa4_block_list *plan_list(const fa4_plan *p, int64_t batch, int64_t head, int64_t tile) {
    const fa4_plan_header *h = &p->header;
    int64_t b = h->map_batches > 1 ? batch : 0;
    int64_t g = h->map_heads > 1 ? head : 0;
    return plan_lists(p) + (b * h->map_heads + g) * h->tiles_per_head + tile;
}
/* Tile row r of (head, tile) is query position and query head; position >= seqlen_q: the row does not exist. */
static inline int64_t plan_row_position(const fa4_plan_header *h, int64_t tile, int32_t row) {
    return h->packed ? tile * h->positions + row / h->group : tile * h->positions + row;
}
static inline int32_t plan_row_head(const fa4_plan_header *h, int32_t head, int32_t row) {
    return h->packed ? head * h->group + row % h->group : head;
}
/* Rows of a tile that exist (the first ones). */
static inline int32_t plan_tile_rows(const fa4_plan_header *h, int64_t tile) {
    int64_t positions = h->problem.seqlen_q - tile * h->positions;
    if (positions > h->positions) positions = h->positions;
    return (int32_t)(h->packed ? positions * h->group : positions);
}

/* What a backend can do, as the plan needs to know it. */
typedef struct plan_limits {
    int32_t backend;      /* fa4_backend */
    const char *device;   /* its full name */
    int32_t sms;          /* SMs, or CPU threads */
    int64_t l2_bytes;
    int32_t tiles_per_task; /* 1, or 2 on sm_100a */
} plan_limits;

fa4_status plan_create(const fa4_request *request, const plan_limits *limits,
                       const volatile int32_t *interrupt, fa4_plan **plan, fa4_error *err);
/* Checks a problem alone: shapes, numbers, mask program. */
fa4_status plan_check_problem(const fa4_problem *problem, const int32_t *mask_data, int64_t mask_words, fa4_error *err);
/* 1 when the mask program lets query i of (batch, query head) see key j. Element by element: for tests and small work. */
int32_t plan_mask_visible(const fa4_problem *problem, const int32_t *mask_data, int64_t batch, int64_t head_q, int64_t i, int64_t j);
/* The counters that follow from the plan alone (tiles, blocks, steps, exp2), per head of the plan: adds to per_head[plan heads] when not
 * NULL, and writes the sum to total (when not NULL). Decision counters stay 0, exponent_max -inf, p_max 0. */
void plan_count(const fa4_plan *plan, fa4_counters *total, fa4_counters *per_head);
/* 4 * batch * heads_q * seqlen_q * seqlen_kv * mean of the two dims, half when causal and square; else by the visible pairs. */
double plan_flops(const fa4_plan *plan);
/* Checks tensors against the plan: shape, dtype, strides, overlap. align: base and strides must be multiples of it (bytes); 1 = any. */
fa4_status plan_check_tensors(const fa4_plan *plan, const fa4_tensors *tensors, int64_t align, fa4_error *err);
fa4_status plan_check_problem_tensors(const fa4_problem *problem, const fa4_tensors *tensors, int64_t align, fa4_error *err);
/* The polynomial for 2^x on [0, 1): one table for CPU and kernels (degree 3, c0 = 1). */
extern const float plan_exp2_coefficients[4];

#endif
