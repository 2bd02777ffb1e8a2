/* From a request to a plan: check, resolve, map the blocks, list the tasks, and lay all of it out in one block of memory. */
#include "plan/plan_internal.h"

#include "core/size.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 2^f on [0, 1) as c0 + f (c1 + f (c2 + f c3)): c0 = 1 keeps whole exponents exact. */
const float plan_exp2_coefficients[4] = {1.0f, 0.69511678641115437f, 0.22764499121185033f, 0.077067041988008844f};

static void free_parts(plan_parts *parts) {
    free(parts->row_lo);
    free(parts->row_hi);
    free(parts->lists);
    free(parts->blocks);
    free(parts->bit_tiles);
    free(parts->bit_hash);
    free(parts->tasks);
}

static uint64_t hash_plan(const fa4_plan *plan) {
    fa4_plan_header header = plan->header;
    header.hash = 0;
    uint64_t hash = UINT64_C(0xcbf29ce484222325), word = 0;
    const char *parts[2] = {(const char *)&header, (const char *)(plan + 1)};
    size_t sizes[2] = {sizeof header, (size_t)plan->header.bytes - sizeof *plan};
    for (int part = 0; part < 2; part++)
        for (size_t at = 0; at + sizeof word <= sizes[part]; at += sizeof word) {
            memcpy(&word, parts[part] + at, sizeof word);
            hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
            hash ^= hash >> 29;
        }
    return hash;
}

static bool is_sm90(const fa4_plan_header *h) {
    return h->backend == FA4_BACKEND_CUDA_SM90 || h->backend == FA4_BACKEND_EMU_SM90;
}

/* Hopper computes up to 64 rows of queries (packed heads counted) with one warpgroup: decode and other short queries. */
static int32_t choose_tile_rows(const fa4_plan_header *h) {
    const fa4_problem *p = &h->problem;
    int32_t group = h->schedule.gqa_packing ? p->heads_q / p->heads_kv : 1;
    bool whole_tile = h->schedule.order_barrier == 1 || (64 % group != 0 && 128 % group == 0); /* turns of two warpgroups, groups of 128 */
    if (!is_sm90(h) || whole_tile) return 128;
    int64_t rows = p->seqlen_q <= 64 ? p->seqlen_q * (64 % group == 0 ? group : 1) : INT64_MAX;
    return rows <= 64 ? 64 : 128;
}

/* Rows of a tile, packing and what follows from the head counts. */
static void resolve_shape(fa4_plan_header *h) {
    const fa4_problem *p = &h->problem;
    h->group = p->heads_q / p->heads_kv;
    h->packed = h->schedule.gqa_packing && h->group > 1 && h->schedule.tile_rows % h->group == 0;
    h->heads = h->packed ? p->heads_kv : p->heads_q;
    h->positions = h->schedule.tile_rows / (h->packed ? h->group : 1);
    h->tiles_per_head = size_ceil_divide(p->seqlen_q, h->positions);
    h->blocks_per_row = size_ceil_divide(p->seqlen_kv, h->schedule.tile_keys);
    double magnitude = fabs(p->scale);
    h->scale_negative = p->scale < 0;
    /* Kept between 2^-100 and 2^126, where a score times it is neither 0 * infinity nor, subtracted first, a NaN. What is beyond weighs
     * all keys alike or only the largest; the CPU looks at the exact scale where that is not so. */
    h->scale_log2 = (float)fmin(fmax(magnitude * 1.4426950408889634074, 0x1p-100), 0x1p126);
}

/* What a persistent launch takes with tiles of so many positions, in (row, key block) pairs of one CTA: its share of all, or the longest tile. */
static double tile_cost(const plan_parts *parts, int64_t rows, int64_t positions, int64_t workers) {
    const fa4_plan_header *h = &parts->header;
    int64_t sum = 0, longest = 0;
    for (int64_t from = 0; from < h->problem.seqlen_q; from += positions) {
        int32_t low = INT32_MAX, high = 0;
        for (int64_t i = from; i < plan_min(from + positions, h->problem.seqlen_q); i++) {
            if (parts->row_lo[i] >= parts->row_hi[i]) continue;
            if (parts->row_lo[i] < low) low = parts->row_lo[i];
            if (parts->row_hi[i] > high) high = parts->row_hi[i];
        }
        int64_t blocks = high > 0 ? size_ceil_divide(high, h->schedule.tile_keys) - low / h->schedule.tile_keys : 0;
        sum += blocks;
        longest = plan_max(longest, blocks);
    }
    double share = (double)sum * (double)(h->problem.batch * h->heads) / (double)workers;
    return (double)rows * (share > (double)longest ? share : (double)longest);
}

/* Tiles of 192 rows keep a third warpgroup at work on the same keys: on an H200 1.09 to 1.15 of the speed for each row and key at dim 64, of which
 * a coarser grain may cost all (1,024 positions, causal: 0.86 in all). */
static bool prefers_192_rows(const plan_parts *parts, const plan_limits *limits) {
    enum { ROWS = 192 };
    const fa4_plan_header *h = &parts->header;
    const fa4_schedule *s = &h->schedule;
    bool fits = is_sm90(h) && s->tile_rows == 128 && h->problem.dim <= 64 && h->problem.dim_v <= 64 && h->mask_class != FA4_CLASS_BITS &&
                (!h->packed || ROWS % h->group == 0) && (h->packed || !s->gqa_packing || ROWS % h->group != 0 || h->group == 1);
    /* Max-free blocks were not faster; a soft cap and the polynomial want more registers than three warpgroups have. */
    bool usual = s->row_max == FA4_ROW_MAX_EACH_BLOCK && h->problem.soft_cap == 0 && s->exp2_emulated_pairs <= 0 && s->order_barrier != 1 &&
                 s->registers_softmax == -1 && s->registers_other == -1 && s->kv_splits <= 1;
    if (!fits || !usual) return false;
    int64_t workers = plan_max(1, s->workers > 0 ? s->workers : s->sms > 0 ? s->sms : limits->sms), group = h->packed ? h->group : 1;
    return tile_cost(parts, ROWS, ROWS / group, workers) <= 1.095 * tile_cost(parts, 128, 128 / group, workers);
}

static fa4_status resolve(plan_parts *parts, const plan_limits *limits, fa4_error *err) {
    fa4_plan_header *h = &parts->header;
    fa4_schedule *s = &h->schedule;
    FA4_TRY(plan_check_schedule(&h->problem, s, err));
    if (s->row_max == -1) s->row_max = FA4_ROW_MAX_EACH_BLOCK;
    if (s->rescale_threshold == -1) s->rescale_threshold = s->row_max == FA4_ROW_MAX_FIRST_BLOCK ? 14 : 8;
    if (s->kv_order == -1) s->kv_order = FA4_KV_REVERSE;
    if (s->gqa_packing == -1) s->gqa_packing = 1;
    bool free_rows = s->tile_rows == -1;
    if (free_rows) s->tile_rows = choose_tile_rows(h);
    if (s->tile_keys == -1) s->tile_keys = 128;
    resolve_shape(h);
    FA4_TRY(plan_mask_resolve(parts, err));
    if (free_rows && prefers_192_rows(parts, limits)) {
        s->tile_rows = 192;
        resolve_shape(h);
    }
    if (h->mask_class == FA4_CLASS_BITS && s->tile_rows > 128)
        return error_set(err, FA4_UNSUPPORTED, "tile_rows: bit tiles have up to 128 rows, got %d", s->tile_rows);
    plan_resolve_schedule(parts, limits);
    return plan_check_budgets(parts, err);
}

static void name_variant(fa4_plan_header *h) {
    static const char *const classes[] = {"full", "causal", "interval", "bits"};
    if (h->backend == FA4_BACKEND_CPU) return;
    const fa4_schedule *s = &h->schedule;
    char rows[16] = "";
    if (s->tile_rows != 128) snprintf(rows, sizeof rows, "_r%d", s->tile_rows);
    snprintf(h->variant, sizeof h->variant, "fwd_%s_%s_d%d_%s%s%s%s%s%s_e%df%dp%d%s", is_sm90(h) ? "sm90" : "sm100",
             fa4_dtype_name(h->problem.dtype), h->problem.dim <= 64 ? 64 : 128, classes[h->mask_class], h->packed ? "_packed" : "",
             h->problem.soft_cap > 0 ? "_cap" : "", s->row_max == FA4_ROW_MAX_FIRST_BLOCK ? "_maxfree" : "", rows,
             s->kv_splits > 1 ? "_split" : "", s->exp2_emulated_pairs, s->exp2_first_fragment, s->p_split, s->counters ? "_count" : "");
}

/* One array of the plan: where its offset goes and what is copied there. */
typedef struct plan_section {
    int64_t *offset;
    const void *data;
    int64_t count;
    size_t size;
} plan_section;

static fa4_status lay_out(plan_parts *parts, fa4_plan **out, fa4_error *err) {
    fa4_plan_header *h = &parts->header;
    const plan_section sections[] = {
        {&h->list_offset, parts->lists, h->list_count, sizeof(fa4_block_list)},
        {&h->block_offset, parts->blocks, h->block_count, sizeof(fa4_block)},
        {&h->task_offset, parts->tasks, h->task_count, sizeof(fa4_task)},
        {&h->row_lo_offset, parts->row_lo, h->row_count, sizeof(int32_t)},
        {&h->row_hi_offset, parts->row_hi, h->row_count, sizeof(int32_t)},
        {&h->bit_tile_offset, parts->bit_tiles, h->bit_tile_count, PLAN_BIT_TILE_WORDS * sizeof(uint32_t)},
        {&h->mask_word_offset, parts->mask_data, h->mask_word_count, sizeof(int32_t)},
    };
    size_t count = sizeof sections / sizeof *sections;
    int64_t bytes = size_ceil_divide((int64_t)sizeof(fa4_plan), 64) * 64;
    for (size_t i = 0; i < count; i++) {
        *sections[i].offset = bytes;
        bytes += size_ceil_divide(sections[i].count * (int64_t)sections[i].size, 64) * 64;
    }
    fa4_plan *plan = aligned_alloc(64, (size_t)bytes);
    if (plan == NULL) return error_set(err, FA4_NO_MEMORY, "plan: no memory for %" PRId64 " bytes", bytes);
    memset(plan, 0, (size_t)bytes);
    h->bytes = bytes;
    memcpy(&plan->header, h, sizeof *h);
    for (size_t i = 0; i < count; i++)
        if (sections[i].count > 0) memcpy((char *)plan + *sections[i].offset, sections[i].data, (size_t)sections[i].count * sections[i].size);
    plan->header.hash = hash_plan(plan);
    *out = plan;
    return FA4_OK;
}

fa4_status plan_create(const fa4_request *request, const plan_limits *limits, const volatile int32_t *interrupt,
                       fa4_plan **plan, fa4_error *err) {
    FA4_TRY(plan_check_problem(&request->problem, request->mask_data, request->mask_words, err));
    plan_parts parts;
    memset(&parts, 0, sizeof parts);
    fa4_plan_header *h = &parts.header;
    memcpy(&h->problem, &request->problem, sizeof h->problem);
    memcpy(&h->schedule, &request->schedule, sizeof h->schedule);
    h->problem.reserved = 0;
    for (int32_t n = h->problem.mask_nodes; n < FA4_MASK_NODES_MAX; n++) memset(&h->problem.mask[n], 0, sizeof h->problem.mask[n]);
    h->backend = limits->backend;
    snprintf(h->device, sizeof h->device, "%s", limits->device);
    h->mask_word_count = request->mask_words;
    parts.mask_data = request->mask_data;
    parts.interrupt = interrupt;
    fa4_status status = resolve(&parts, limits, err);
    if (status == FA4_OK) status = plan_map_blocks(&parts, err);
    if (status == FA4_OK) plan_resolve_splits(&parts, limits);
    if (status == FA4_OK) status = plan_make_tasks(&parts, limits, err);
    if (status == FA4_OK) name_variant(h);
    if (status == FA4_OK) status = lay_out(&parts, plan, err);
    free_parts(&parts);
    return status;
}

void fa4_plan_destroy(fa4_plan *plan) {
    free(plan);
}

const fa4_plan_header *fa4_plan_get(const fa4_plan *plan) {
    return plan == NULL ? NULL : &plan->header;
}

int32_t fa4_plan_visible(const fa4_plan *plan, int64_t batch, int64_t head_q, int64_t i, int64_t j) {
    const int32_t *data = (const int32_t *)((const char *)plan + plan->header.mask_word_offset);
    return plan_mask_visible(&plan->header.problem, data, batch, head_q, i, j);
}

static fa4_status check_order(const fa4_plan_header *h, const int64_t *order, const int32_t *workers, uint8_t *seen,
                              fa4_error *err) {
    for (int64_t i = 0; i < h->task_count; i++) {
        if (order[i] < 0 || order[i] >= h->task_count)
            return error_range(err, "schedule: task", order[i], 0, h->task_count - 1);
        if (seen[order[i]])
            return error_set(err, FA4_BAD_ARGUMENT, "schedule: task %" PRId64 " is there twice", order[i]);
        seen[order[i]] = 1;
        if (workers != NULL && (workers[i] < -1 || workers[i] >= 1 << 20))
            return error_set(err, FA4_BAD_ARGUMENT, "schedule: task %" PRId64 " has the worker %d", order[i], workers[i]);
    }
    return FA4_OK;
}

fa4_status fa4_plan_reorder(const fa4_plan *plan, const int64_t *order, const int32_t *workers, fa4_plan **reordered,
                            fa4_error *err) {
    const fa4_plan_header *h = &plan->header;
    uint8_t *seen = calloc((size_t)plan_max(h->task_count, 1), 1);
    fa4_plan *copy = aligned_alloc(64, (size_t)h->bytes);
    fa4_status status = seen == NULL || copy == NULL ? error_set(err, FA4_NO_MEMORY, "plan: no memory for %" PRId64 " bytes", h->bytes)
                                                     : check_order(h, order, workers, seen, err);
    if (status == FA4_OK) {
        memcpy(copy, plan, (size_t)h->bytes);
        fa4_task *tasks = (fa4_task *)((char *)copy + h->task_offset);
        for (int64_t i = 0; i < h->task_count; i++) {
            tasks[i] = plan_tasks(plan)[order[i]];
            tasks[i].worker = workers == NULL ? -1 : workers[i];
        }
        copy->header.schedule.tile_order = FA4_ORDER_LIST;
        copy->header.hash = hash_plan(copy);
        *reordered = copy;
        copy = NULL;
    }
    free(seen);
    free(copy);
    return status;
}
