/* The walk of a task over key blocks: the union of its tiles' lists in visiting order, each step marked for either tile. The kernels read it
 * for the classes interval and bits, and derive the same steps for full and causal: checked here, where a difference would be silent later. */
#include "kernel/launch_internal.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

static int64_t list_index(const fa4_plan_header *h, const fa4_task *task) {
    int64_t b = h->map_batches > 1 ? task->batch : 0, g = h->map_heads > 1 ? task->head : 0;
    return (b * h->map_heads + g) * h->tiles_per_head + task->tile;
}

/* Place of a key block in visiting order. */
static int64_t rank_of_block(int32_t kv_order, int32_t key_block) {
    if (kv_order == FA4_KV_FORWARD) return key_block;
    if (kv_order == FA4_KV_SINK_FIRST && key_block == 0) return INT64_MIN;
    return -(int64_t)key_block;
}

static fa4_status append(launch_walks *walks, FwdStep step, fa4_error *err) {
    if (walks->step_count == walks->step_room) {
        int64_t room = walks->step_room ? 2 * walks->step_room : 256;
        FwdStep *larger = realloc(walks->steps, (size_t)room * sizeof *larger);
        if (larger == NULL) return error_set(err, FA4_NO_MEMORY, "launch: no memory for %" PRId64 " steps", room);
        walks->steps = larger;
        walks->step_room = room;
    }
    if (walks->step_count >= INT32_MAX) return error_set(err, FA4_UNSUPPORTED, "launch: more than 2^31 steps of key blocks");
    walks->steps[walks->step_count++] = step;
    return FA4_OK;
}

/* Merges the lists of tiles [first, first + tiles). */
static fa4_status merge(const fa4_plan *plan, const fa4_block_list *lists, int32_t tiles, launch_walks *walks, fa4_error *err) {
    int32_t at[2] = {0, 0}, order = plan->header.schedule.kv_order;
    for (;;) {
        const fa4_block *head[2] = {NULL, NULL};
        int64_t least = INT64_MAX;
        for (int32_t i = 0; i < tiles; i++) {
            if (at[i] == lists[i].count) continue;
            head[i] = &plan_blocks(plan)[lists[i].first + at[i]];
            int64_t rank = rank_of_block(order, head[i]->key_block);
            if (rank < least) least = rank;
        }
        if (head[0] == NULL && head[1] == NULL) return FA4_OK;
        FwdStep step = {0, {FWD_STEP_SKIP, FWD_STEP_SKIP}, 0};
        for (int32_t i = 0; i < tiles; i++) {
            if (head[i] == NULL || rank_of_block(order, head[i]->key_block) != least) continue;
            step.key_block = head[i]->key_block;
            step.mask[i] = head[i]->mask;
            at[i]++;
        }
        FA4_TRY(append(walks, step, err));
    }
}

/* Keys that the rows of a query position see; the kernels' visible_keys for full and causal. */
static int64_t visible_end(const fa4_plan_header *h, int64_t position) {
    const fa4_problem *p = &h->problem;
    if (h->mask_class == FA4_CLASS_FULL) return p->seqlen_kv;
    int64_t end = position + 1 + p->seqlen_kv - p->seqlen_q;
    return end < 0 ? 0 : end > p->seqlen_kv ? p->seqlen_kv : end;
}

/* Step j as the kernels derive it (Walk::take in pipeline.cuh). */
static FwdStep derived_step(const fa4_plan_header *h, const FwdTask *task, int64_t tile, int32_t j) {
    int32_t reversed = task->steps - 1 - j, order = h->schedule.kv_order;
    FwdStep step = {order == FA4_KV_REVERSE ? reversed : order == FA4_KV_FORWARD ? j : j == 0 ? 0 : reversed + 1, {0, 0}, 0};
    for (int i = 0; i < 2; i++) {
        int64_t whole = visible_end(h, (tile + i) * h->positions) / h->schedule.tile_keys;
        step.mask[i] = step.key_block >= task->own[i] ? FWD_STEP_SKIP : step.key_block < whole ? FWD_STEP_FULL : FWD_STEP_PARTIAL;
    }
    return step;
}

static fa4_status check_derived(const fa4_plan_header *h, const FwdTask *task, int64_t tile, const FwdStep *steps, fa4_error *err) {
    for (int32_t j = 0; j < task->steps; j++) {
        FwdStep want = derived_step(h, task, tile, j);
        if (want.key_block != steps[j].key_block || want.mask[0] != steps[j].mask[0] || want.mask[1] != steps[j].mask[1])
            return error_set(err, FA4_INTERNAL,
                             "launch: step %d of tile %" PRId64 " is block %d (%d, %d) in the plan, the kernel derives %d (%d, %d)", j, tile,
                             steps[j].key_block, steps[j].mask[0], steps[j].mask[1], want.key_block, want.mask[0], want.mask[1]);
    }
    return FA4_OK;
}

static fa4_status make_walk(const fa4_plan *plan, const fa4_task *task, launch_walks *walks, fa4_error *err) {
    const fa4_plan_header *h = &plan->header;
    FwdTask *walk = &walks->of_list[list_index(h, task)];
    if (walk->steps >= 0) return FA4_OK;
    const fa4_block_list *lists = plan_list(plan, task->batch, task->head, task->tile);
    int64_t first = walks->step_count;
    FA4_TRY(merge(plan, lists, task->tiles, walks, err));
    walk->first_step = (int32_t)first;
    walk->steps = (int32_t)(walks->step_count - first);
    for (int32_t i = 0; i < 2; i++) walk->own[i] = i < task->tiles ? lists[i].count : 0;
    if (!launch_derives_steps(h)) return FA4_OK;
    fa4_status status = check_derived(h, walk, task->tile, walks->steps + first, err);
    walks->step_count = first;
    walk->first_step = 0;
    return status;
}

fa4_status launch_walks_make(const fa4_plan *plan, launch_walks *walks, fa4_error *err) {
    const fa4_plan_header *h = &plan->header;
    *walks = (launch_walks){0};
    walks->of_list = malloc((size_t)(h->list_count > 0 ? h->list_count : 1) * sizeof *walks->of_list);
    if (walks->of_list == NULL) return error_set(err, FA4_NO_MEMORY, "launch: no memory for %" PRId64 " walks", h->list_count);
    for (int64_t n = 0; n < h->list_count; n++) walks->of_list[n].steps = -1;
    for (int64_t t = 0; t < h->task_count; t++) FA4_TRY(make_walk(plan, &plan_tasks(plan)[t], walks, err));
    return FA4_OK;
}

void launch_walks_free(launch_walks *walks) {
    free(walks->steps);
    free(walks->of_list);
}

/* Steps [n s / splits, n (s + 1) / splits) of the walk, as the CPU cuts it. A derived walk goes down from the last block, or up. */
static FwdTask part_of(const fa4_plan_header *h, FwdTask whole, int64_t split) {
    int64_t splits = h->schedule.kv_splits, steps = whole.steps, from = steps * split / splits, to = steps * (split + 1) / splits;
    if (splits <= 1) return whole;
    bool down = launch_derives_steps(h) && h->schedule.kv_order == FA4_KV_REVERSE;
    whole.first_step += (int32_t)(down ? steps - to : from);
    whole.steps = whole.own[0] = (int32_t)(to - from);
    whole.own[1] = (int32_t)split;
    return whole;
}

FwdTask launch_task(const fa4_plan *plan, const launch_walks *walks, const fa4_task *task) {
    FwdTask out = walks->of_list[list_index(&plan->header, task)];
    out.batch = task->batch;
    out.head = task->head;
    out.tile = task->tile;
    out.tiles = task->tiles;
    return part_of(&plan->header, out, task->split);
}
