/* The schedule: checks, defaults that a specialist would choose, budgets, and the task list in its order. */
#include "plan/plan_internal.h"

#include "core/size.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REGISTERS_PER_SM = 65536, SMEM_BYTES_MAX = 232448, TMEM_COLUMNS = 512, TASKS_MAX = 1 << 28 };

void fa4_schedule_default(fa4_schedule *s) {
    memset(s, 0, sizeof *s);
    s->rescale_threshold = -1;
    s->row_max = s->kv_order = s->exp2_emulated_pairs = s->exp2_first_fragment = s->p_split = -1;
    s->tile_order = -1;
    s->l2_bytes = -1;
    s->workers = s->threads = s->gqa_packing = s->tile_rows = s->tile_keys = -1;
    s->q_stages = s->kv_stages = -1;
    s->registers_softmax = s->registers_correction = s->registers_other = -1;
    s->order_barrier = s->integer_reference = s->kv_splits = s->sms = s->counters = -1;
}

/* -1 always passes: it means "choose for me". */
static fa4_status check_field(const char *name, int64_t value, int64_t least, int64_t most, fa4_error *err) {
    if (value == -1 || (value >= least && value <= most)) return FA4_OK;
    return error_range(err, name, value, least, most);
}

static fa4_status check_multiple(const char *name, int64_t value, int64_t of, fa4_error *err) {
    if (value == -1 || value % of == 0) return FA4_OK;
    return error_set(err, FA4_BAD_ARGUMENT, "%s: expected a multiple of %" PRId64 ", got %" PRId64, name, of, value);
}

static fa4_status check_threshold(const fa4_problem *p, const fa4_schedule *s, fa4_error *err) {
    double t = s->rescale_threshold;
    if (t == -1) return FA4_OK;
    double most = p->dtype == FA4_F16 ? 15 : 100, least = s->row_max == FA4_ROW_MAX_FIRST_BLOCK ? 7 : 0;
    if (!isfinite(t)) return error_set(err, FA4_BAD_ARGUMENT, "rescale.threshold: expected a finite number, got %g", t);
    if (t > most && p->dtype == FA4_F16)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "rescale.threshold: expected %g..15 for f16, got %g: weights reach 2^threshold before they are rounded "
                         "to f16, whose largest number is 65504 (2^15.99)", least, t);
    if (t < least || t > most)
        return error_set(err, FA4_BAD_ARGUMENT, "rescale.threshold: expected %g..%g log2 units for %s%s, got %g", least, most,
                         fa4_dtype_name(p->dtype), least > 0 ? " with row_max = \"first_block\"" : "", t);
    return FA4_OK;
}

fa4_status plan_check_schedule(const fa4_problem *p, const fa4_schedule *s, fa4_error *err) {
    FA4_TRY(check_field("row_max", s->row_max, 0, FA4_ROW_MAX_FIRST_BLOCK, err));
    FA4_TRY(check_threshold(p, s, err));
    FA4_TRY(check_field("kv_order", s->kv_order, 0, FA4_KV_SINK_FIRST, err));
    FA4_TRY(check_field("exp2.emulated_pairs", s->exp2_emulated_pairs, 0, 8, err));
    FA4_TRY(check_field("exp2.first_fragment", s->exp2_first_fragment, 0, 3, err));
    FA4_TRY(check_field("p_split", s->p_split, 16, 112, err));
    FA4_TRY(check_multiple("p_split", s->p_split, 16, err));
    FA4_TRY(check_field("tile_order", s->tile_order, 0, FA4_ORDER_LIST, err));
    FA4_TRY(check_field("l2_bytes", s->l2_bytes, 1, INT64_C(1) << 50, err));
    FA4_TRY(check_field("workers", s->workers, 0, 1 << 20, err));
    FA4_TRY(check_field("threads", s->threads, 0, 1024, err));
    FA4_TRY(check_field("gqa_packing", s->gqa_packing, 0, 1, err));
    FA4_TRY(check_field("tile_rows", s->tile_rows, 64, 192, err));
    FA4_TRY(check_multiple("tile_rows", s->tile_rows, 64, err));
    FA4_TRY(check_field("tile_keys", s->tile_keys, 128, 128, err));
    FA4_TRY(check_field("q_stages", s->q_stages, 1, 8, err));
    FA4_TRY(check_field("kv_stages", s->kv_stages, 2, 16, err));
    FA4_TRY(check_field("registers.softmax", s->registers_softmax, 24, 256, err));
    FA4_TRY(check_field("registers.correction", s->registers_correction, 24, 256, err));
    FA4_TRY(check_field("registers.other", s->registers_other, 24, 256, err));
    FA4_TRY(check_multiple("registers.softmax", s->registers_softmax, 8, err));
    FA4_TRY(check_multiple("registers.correction", s->registers_correction, 8, err));
    FA4_TRY(check_multiple("registers.other", s->registers_other, 8, err));
    FA4_TRY(check_field("order_barrier", s->order_barrier, 0, 1, err));
    FA4_TRY(check_field("integer_reference", s->integer_reference, 0, 1, err));
    FA4_TRY(check_field("kv_splits", s->kv_splits, 1, 1024, err));
    FA4_TRY(check_field("sms", s->sms, 0, 1 << 16, err));
    FA4_TRY(check_field("delay_roles", s->delay_roles, 0, 63, err));
    return check_field("counters", s->counters, 0, 1, err);
}

static void choose(int32_t *field, int32_t value) {
    if (*field == -1) *field = value;
}

static void resolve_exp2(plan_parts *parts, bool sm90) {
    fa4_plan_header *h = &parts->header;
    fa4_schedule *s = &h->schedule;
    bool none = h->problem.dtype == FA4_F32 || sm90; /* measured on an H200: slower at both dims */
    choose(&s->exp2_emulated_pairs, none ? 0 : 2);
    choose(&s->exp2_first_fragment, h->mask_class == FA4_CLASS_FULL ? 1 : 0);
    choose(&s->p_split, h->mask_class == FA4_CLASS_FULL ? 96 : 64);
}

/* After the mask's class is known. */
void plan_resolve_schedule(plan_parts *parts, const plan_limits *limits) {
    fa4_plan_header *h = &parts->header;
    fa4_schedule *s = &h->schedule;
    bool cpu = limits->backend == FA4_BACKEND_CPU;
    bool sm90 = limits->backend == FA4_BACKEND_CUDA_SM90 || limits->backend == FA4_BACKEND_EMU_SM90;
    resolve_exp2(parts, sm90);
    choose(&s->tile_order, h->mask_class == FA4_CLASS_FULL ? FA4_ORDER_LINEAR : FA4_ORDER_LPT);
    if (s->l2_bytes == -1) s->l2_bytes = limits->l2_bytes;
    choose(&s->workers, 0);
    choose(&s->threads, 0);
    choose(&s->q_stages, 2);
    choose(&s->kv_stages, !sm90 ? 3 : h->problem.dim <= 64 ? 4 : 2);
    bool three = sm90 && s->tile_rows > 128; /* consumer warpgroups */
    choose(&s->registers_softmax, three ? 160 : sm90 ? 232 : 200);
    choose(&s->registers_correction, sm90 ? 24 : 64);
    choose(&s->registers_other, three ? 32 : sm90 ? 40 : 48);
    choose(&s->order_barrier, 0);
    /* A whole reference rounds the weight of a row with one key: on an H200 four times the largest error of the exact maximum. */
    choose(&s->integer_reference, s->row_max == FA4_ROW_MAX_FIRST_BLOCK && !sm90);
    choose(&s->sms, limits->sms);
    choose(&s->delay_roles, 0);
    choose(&s->counters, cpu || limits->backend == FA4_BACKEND_EMU_SM100 || limits->backend == FA4_BACKEND_EMU_SM90);
}

/* Rounds of `workers` CTAs over `tasks` tiles cut into `splits` parts of the longest list, in key blocks: the time of a launch that memory
 * or tensor cores bound. A part costs one block beyond its own (its pipeline fills), the combine two. */
static int64_t rounds_of_splits(int64_t tasks, int64_t workers, int64_t longest, int64_t splits) {
    int64_t rounds = size_ceil_divide(tasks * splits, workers);
    return rounds * (size_ceil_divide(longest, splits) + 1) + (splits > 1 ? 2 : 0);
}

/* Short queries are few tiles: their keys are cut into parts so that every SM has work. The number follows from the problem and the
 * workers alone; the fewest parts among equals. */
void plan_resolve_splits(plan_parts *parts, const plan_limits *limits) {
    enum { SPLITS_MAX = 128 };
    fa4_plan_header *h = &parts->header;
    fa4_schedule *s = &h->schedule;
    bool sm90 = limits->backend == FA4_BACKEND_CUDA_SM90 || limits->backend == FA4_BACKEND_EMU_SM90;
    /* The derived walks of a part are one run of key blocks, which sink_first's first part is not. */
    bool derived = h->mask_class == FA4_CLASS_FULL || h->mask_class == FA4_CLASS_CAUSAL;
    if (s->kv_splits != -1) return;
    s->kv_splits = 1;
    if (!sm90 || s->tile_rows != 64 || (derived && s->kv_order == FA4_KV_SINK_FIRST)) return;
    int64_t tasks = h->problem.batch * h->heads * h->tiles_per_head, workers = s->workers > 0 ? s->workers : plan_max(s->sms, 1);
    int64_t longest = 0, best;
    for (int64_t n = 0; n < h->list_count; n++) longest = plan_max(longest, parts->lists[n].count);
    if (tasks == 0 || tasks >= INT32_MAX || longest == 0) return;
    best = rounds_of_splits(tasks, workers, longest, 1);
    for (int64_t splits = 2; splits <= plan_min(longest, SPLITS_MAX); splits++) {
        int64_t rounds = rounds_of_splits(tasks, workers, longest, splits);
        if (rounds >= best) continue;
        best = rounds;
        s->kv_splits = (int32_t)splits;
    }
}

fa4_status plan_check_budgets(plan_parts *parts, fa4_error *err) {
    fa4_plan_header *h = &parts->header;
    const fa4_schedule *s = &h->schedule;
    bool sm90 = h->backend == FA4_BACKEND_CUDA_SM90 || h->backend == FA4_BACKEND_EMU_SM90;
    int64_t columns = h->problem.dim <= 64 && h->problem.dim_v <= 64 ? 64 : 128;
    int64_t q_tile = s->tile_rows * columns * 2, kv_tile = s->tile_keys * columns * 2;
    int64_t smem = (sm90 ? q_tile + 2 * s->kv_stages * kv_tile : 2 * s->q_stages * q_tile + s->kv_stages * kv_tile) + 2048;
    if (smem > SMEM_BYTES_MAX)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "pipeline: q_stages %d and kv_stages %d need %" PRId64 " bytes of shared memory for head dim %" PRId64
                         ", a CTA has %d", s->q_stages, s->kv_stages, smem, columns, SMEM_BYTES_MAX);
    int64_t registers = sm90 ? 128 * (plan_max(1, s->tile_rows / 64) * s->registers_softmax + s->registers_other)
                             : 128 * (2 * (int64_t)s->registers_softmax + s->registers_correction + s->registers_other);
    if (registers > REGISTERS_PER_SM)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "registers: softmax 2 x %d, correction %d and other %d for 128 threads each are %" PRId64
                         ", an SM has %d", s->registers_softmax, s->registers_correction, s->registers_other, registers, REGISTERS_PER_SM);
    if (h->backend == FA4_BACKEND_CPU) return FA4_OK;
    h->smem_bytes = smem;
    h->registers = registers;
    h->tmem_columns = sm90 ? 0 : TMEM_COLUMNS;
    return FA4_OK;
}

/* Key blocks that a task walks: for a pair of tiles the union of both lists. */
static int64_t task_blocks(const plan_parts *parts, const fa4_task *task, uint8_t *seen) {
    const fa4_plan_header *h = &parts->header;
    int64_t b = h->map_batches > 1 ? task->batch : 0, g = h->map_heads > 1 ? task->head : 0;
    const fa4_block_list *list = parts->lists + (b * h->map_heads + g) * h->tiles_per_head + task->tile;
    int64_t blocks = list[0].count;
    if (task->tiles == 2 && list[1].first == list[0].first && list[1].count == list[0].count) {
        blocks = list[0].count;
    } else if (task->tiles == 2) {
        for (int32_t k = 0; k < list[0].count; k++) seen[parts->blocks[list[0].first + k].key_block] = 1;
        for (int32_t k = 0; k < list[1].count; k++) blocks += !seen[parts->blocks[list[1].first + k].key_block];
        for (int32_t k = 0; k < list[0].count; k++) seen[parts->blocks[list[0].first + k].key_block] = 0;
    }
    int64_t splits = h->schedule.kv_splits;
    return blocks * (task->split + 1) / splits - blocks * task->split / splits;
}

/* What LPT sorts by: group of heads, longest first, later tiles first, then batch and head. */
typedef struct sort_key {
    int64_t section, blocks, tile, flat_head;
    int64_t index;
} sort_key;

static int compare_keys(const void *a, const void *b) {
    const sort_key *x = a, *y = b;
    if (x->section != y->section) return x->section < y->section ? -1 : 1;
    if (x->blocks != y->blocks) return x->blocks > y->blocks ? -1 : 1;
    if (x->tile != y->tile) return x->tile > y->tile ? -1 : 1;
    if (x->flat_head != y->flat_head) return x->flat_head < y->flat_head ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Key heads whose K and V fit into the L2 budget, as a power of two. */
static int64_t heads_in_l2(const fa4_plan_header *h) {
    const fa4_problem *p = &h->problem;
    double bytes = (double)p->seqlen_kv * (p->dim + p->dim_v) * (double)fa4_dtype_bytes(p->dtype);
    int64_t heads = 1;
    while (heads < (INT64_C(1) << 30) && bytes * (double)(heads * 2) <= (double)h->schedule.l2_bytes) heads *= 2;
    return heads;
}

static fa4_status order_lpt(plan_parts *parts, fa4_error *err) {
    fa4_plan_header *h = &parts->header;
    int64_t n = h->task_count, heads = heads_in_l2(h) * (h->packed ? 1 : h->group);
    sort_key *keys = malloc((size_t)plan_max(n, 1) * sizeof *keys);
    fa4_task *sorted = malloc((size_t)plan_max(n, 1) * sizeof *sorted);
    if (keys == NULL || sorted == NULL) {
        free(keys);
        free(sorted);
        return error_set(err, FA4_NO_MEMORY, "plan: no memory to order %" PRId64 " tasks", n);
    }
    for (int64_t i = 0; i < n; i++) {
        const fa4_task *t = &parts->tasks[i];
        int64_t flat = (int64_t)t->batch * h->heads + t->head;
        keys[i] = (sort_key){flat / heads, t->blocks, t->tile, flat, i};
    }
    qsort(keys, (size_t)n, sizeof *keys, compare_keys);
    for (int64_t i = 0; i < n; i++) sorted[i] = parts->tasks[keys[i].index];
    free(keys);
    free(parts->tasks);
    parts->tasks = sorted;
    return FA4_OK;
}

fa4_status plan_make_tasks(plan_parts *parts, const plan_limits *limits, fa4_error *err) {
    fa4_plan_header *h = &parts->header;
    int64_t step = limits->tiles_per_task, groups = size_ceil_divide(h->tiles_per_head, step), count = 0;
    bool fits = size_multiply(h->problem.batch, h->heads, &count) && size_multiply(count, groups, &count) &&
                size_multiply(count, h->schedule.kv_splits, &count);
    if (!fits || count > TASKS_MAX) return error_set(err, FA4_UNSUPPORTED, "plan: more than %d tasks", TASKS_MAX);
    parts->tasks = malloc((size_t)plan_max(count, 1) * sizeof *parts->tasks);
    uint8_t *seen = calloc((size_t)plan_max(h->blocks_per_row, 1), 1);
    if (parts->tasks == NULL || seen == NULL) {
        free(seen);
        return error_set(err, FA4_NO_MEMORY, "plan: no memory for %" PRId64 " tasks", count);
    }
    h->task_count = count;
    int64_t splits = h->schedule.kv_splits;
    for (int64_t i = 0; i < count; i++) {
        int64_t group = i / splits % groups, flat = i / splits / groups, tile = group * step;
        parts->tasks[i] = (fa4_task){.batch = (int32_t)(flat / h->heads), .head = (int32_t)(flat % h->heads), .tile = (int32_t)tile,
                                     .tiles = (int32_t)plan_min(step, h->tiles_per_head - tile), .worker = -1,
                                     .split = (int32_t)(i % splits)};
        parts->tasks[i].blocks = task_blocks(parts, &parts->tasks[i], seen);
    }
    free(seen);
    return h->schedule.tile_order == FA4_ORDER_LPT ? order_lpt(parts, err) : FA4_OK;
}
