/* The counters that follow from a plan alone: the same on every backend. */
#include "plan/plan_internal.h"

#include "core/size.h"

#include <math.h>
#include <string.h>

/* With a split of the keys, each part that has a block has a first block of its own. */
static int64_t steps_of_list(const fa4_plan_header *h, int64_t count) {
    int64_t steps = 0, splits = h->schedule.kv_splits;
    for (int64_t s = 0; s < splits; s++) steps += plan_max(count * (s + 1) / splits - count * s / splits - 1, 0);
    return steps;
}

static fa4_counters count_tile(const fa4_plan *plan, const fa4_block_list *list, int64_t tile) {
    const fa4_plan_header *h = &plan->header;
    const fa4_schedule *s = &h->schedule;
    int64_t rows = plan_tile_rows(h, tile), warps = size_ceil_divide(rows, PLAN_WARP_ROWS);
    int64_t steps = steps_of_list(h, list->count), full = list->count - list->partial;
    int64_t fragments = 3 - s->exp2_first_fragment;
    int64_t polynomial = fragments * s->exp2_emulated_pairs * 4; /* of a row of a full block: 2 eights of pairs a fragment */
    fa4_counters c;
    memset(&c, 0, sizeof c);
    c.tiles = 1;
    c.blocks_visited = list->count;
    c.blocks_skipped = h->blocks_per_row - list->count;
    c.blocks_partial = list->partial;
    c.row_steps = rows * steps;
    c.warp_steps = warps * steps;
    c.exp2_polynomial = rows * full * polynomial;
    c.exp2_hardware = rows * list->count * s->tile_keys - c.exp2_polynomial;
    return c;
}

static void add_times(fa4_counters *to, const fa4_counters *c, int64_t times) {
    to->tiles += times * c->tiles;
    to->blocks_visited += times * c->blocks_visited;
    to->blocks_skipped += times * c->blocks_skipped;
    to->blocks_partial += times * c->blocks_partial;
    to->row_steps += times * c->row_steps;
    to->warp_steps += times * c->warp_steps;
    to->exp2_hardware += times * c->exp2_hardware;
    to->exp2_polynomial += times * c->exp2_polynomial;
}

/* Heads and batches that share their lists have equal counts: each list is looked at once. */
void plan_count(const fa4_plan *plan, fa4_counters *total, fa4_counters *per_head) {
    const fa4_plan_header *h = &plan->header;
    int64_t batches = h->map_batches > 1 ? 1 : h->problem.batch; /* that a list stands for */
    if (total != NULL) {
        memset(total, 0, sizeof *total);
        total->exponent_max = -INFINITY;
    }
    for (int64_t batch = 0; batch < h->map_batches; batch++)
        for (int64_t head = 0; head < h->map_heads; head++) {
            fa4_counters sum;
            memset(&sum, 0, sizeof sum);
            for (int64_t tile = 0; tile < h->tiles_per_head; tile++) {
                fa4_counters c = count_tile(plan, plan_list(plan, batch, head, tile), tile);
                add_times(&sum, &c, batches);
            }
            int64_t heads = h->map_heads > 1 ? 1 : h->heads;
            if (total != NULL) add_times(total, &sum, heads);
            for (int64_t g = 0; per_head != NULL && g < heads; g++) add_times(&per_head[head + g], &sum, 1);
        }
}

static int64_t visible_pairs(const fa4_plan *plan, int64_t batch, int64_t head) {
    const fa4_plan_header *h = &plan->header;
    int64_t pairs = 0;
    if (h->mask_class != FA4_CLASS_BITS) {
        for (int64_t i = 0; i < h->row_count; i++) pairs += plan_row_hi(plan)[i] - plan_row_lo(plan)[i];
        return h->packed ? pairs * h->group : pairs;
    }
    for (int64_t tile = 0; tile < h->tiles_per_head; tile++) {
        const fa4_block_list *list = plan_list(plan, batch, head, tile);
        int64_t rows = plan_tile_rows(h, tile);
        for (int32_t k = 0; k < list->count; k++) {
            int32_t mask = plan_blocks(plan)[list->first + k].mask;
            if (mask < 0) pairs += rows * h->schedule.tile_keys;
            for (int64_t w = 0; mask >= 0 && w < rows * 4; w++) pairs += __builtin_popcount(plan_bit_tile(plan, mask)[w]);
        }
    }
    return pairs;
}

double plan_flops(const fa4_plan *plan) {
    const fa4_problem *p = &plan->header.problem;
    double dims = 2.0 * ((double)p->dim + p->dim_v);
    double square = (double)p->batch * p->heads_q * (double)p->seqlen_q * (double)p->seqlen_kv;
    if (plan->header.mask_class == FA4_CLASS_FULL) return square * dims;
    if (plan->header.mask_class == FA4_CLASS_CAUSAL && p->seqlen_q == p->seqlen_kv) return square * dims / 2;
    double pairs = 0;
    for (int64_t b = 0; b < plan->header.map_batches; b++)
        for (int64_t g = 0; g < plan->header.map_heads; g++) pairs += (double)visible_pairs(plan, b, g);
    double copies = (double)p->batch / (double)plan->header.map_batches * plan->header.heads / (double)plan->header.map_heads;
    return pairs * copies * dims;
}
