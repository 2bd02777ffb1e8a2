/* What the plan's own files share: a growable array, the mask program, the steps of plan_create. */
#ifndef FA4_PLAN_INTERNAL_H
#define FA4_PLAN_INTERNAL_H

#include "plan/plan.h"

enum { PLAN_BIT_TILE_WORDS = 512, PLAN_WARP_ROWS = 32 };

/* A plan under construction: the header and its parts, before they are laid out in one block. */
typedef struct plan_parts {
    fa4_plan_header header;
    const int32_t *mask_data; /* borrowed from the request */
    const volatile int32_t *interrupt;
    int32_t *row_lo, *row_hi; /* seqlen_q each; NULL for class bits */
    fa4_block_list *lists;
    fa4_block *blocks;
    int64_t blocks_room;
    uint32_t *bit_tiles;
    int64_t bit_tiles_room;
    int64_t *bit_hash; /* open addressing: index + 1 of a bit tile */
    int64_t bit_hash_room;
    fa4_task *tasks;
} plan_parts;

/* mask.c: the class of the mask and, unless it is bits, the interval of every query position. */
fa4_status plan_mask_resolve(plan_parts *parts, fa4_error *err);
/* Keys of one block that (batch, query head, query) sees: 128 bits, keys beyond seqlen_kv hidden. */
void plan_mask_row_bits(const fa4_problem *problem, const int32_t *mask_data, int64_t batch,
                        int64_t head_q, int64_t query, int64_t key_block, uint64_t bits[2]);
/* blocks.c: block lists and bit tiles. */
fa4_status plan_map_blocks(plan_parts *parts, fa4_error *err);
/* schedule.c */
fa4_status plan_check_schedule(const fa4_problem *problem, const fa4_schedule *given, fa4_error *err);
void plan_resolve_schedule(plan_parts *parts, const plan_limits *limits);
/* After the block lists are made: parts of the key range. */
void plan_resolve_splits(plan_parts *parts, const plan_limits *limits);
fa4_status plan_check_budgets(plan_parts *parts, fa4_error *err);
fa4_status plan_make_tasks(plan_parts *parts, const plan_limits *limits, fa4_error *err);

static inline int64_t plan_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t plan_max(int64_t a, int64_t b) { return a > b ? a : b; }

#endif
