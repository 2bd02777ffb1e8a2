/*
 * Runs a plan: sizes and memory, K and V packed once per key head in parallel where several tiles
 * use them, then the tasks on the pool. Tasks with a worker run on that worker's list in order, all
 * others go to whoever is free. No result depends on who runs what: a tile is computed by one
 * worker from its own state, and parts of the keys are joined in their order.
 */
#include "cpu/cpu_run.h"

#include "core/size.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Beyond this, packed copies of K and V cost more memory than they save time. */
#define SHARED_BYTES_MAX (INT64_C(1) << 30)
/* A soft cap beyond this is no float in log2 units, or nearly so. */
#define CAP_MAX 0x1p100
/* Work space larger than this is given back after a run. */
#define KEPT_BYTES_MAX (INT64_C(1) << 28)

typedef struct run_state {
    cpu_job job;
    cpu_scratch *scratch; /* per worker */
    int64_t *items; /* task indices: the workers' lists one after another, then the free tasks */
    int64_t *item_starts; /* [item_count + 1]; item i runs items[item_starts[i]] ..
                             items[item_starts[i + 1] - 1] */
    int64_t item_count;
    int32_t threads;
} run_state;

static void source_of(const cpu_job *job, const fa4_tensor *t, int64_t batch, int64_t head,
                      int64_t kb, cpu_source *source) {
    int64_t offset = batch * t->strides[0] + kb * CPU_KEYS * t->strides[1] + head * t->strides[2];
    *source = (cpu_source){.base = (const char *)t->data + offset * fa4_dtype_bytes(t->dtype),
                           .row_stride = t->strides[1],
                           .dtype = t->dtype,
                           .keys = cpu_block_keys(&job->plan->header, kb),
                           .dim = (int32_t)t->shape[3]};
}

void cpu_source_of_k(const cpu_job *job, int64_t batch, int64_t head_kv, int64_t kb,
                     cpu_source *source) {
    source_of(job, &job->tensors->k, batch, head_kv, kb, source);
}

void cpu_source_of_v(const cpu_job *job, int64_t batch, int64_t head_kv, int64_t kb,
                     cpu_source *source) {
    source_of(job, &job->tensors->v, batch, head_kv, kb, source);
}

/* 2^x on [0, 1) to 1.5e-7, the same form as the cubic: coefficient 0 is 1, so whole numbers are
 * exact. */
static void fill_tables(cpu_job *job, const fa4_schedule *schedule) {
    static const float quintic[CPU_TERMS] = {0.0018671300698754375f, 0.0090170303224482024f,
                                             0.055799913103730323f,  0.24016445015509336f,
                                             0.69315131180460088f,   1.0f};
    for (int term = 0; term < CPU_TERMS; term++)
        for (int lane = 0; lane < CPU_LANES; lane++) {
            bool polynomial = lane / 2 * 2 >= CPU_LANES - 2 * schedule->exp2_emulated_pairs;
            int degree = CPU_TERMS - 1 - term;
            float cubic = degree < 4 ? plan_exp2_coefficients[degree] : 0.0f;
            job->exact[term * CPU_LANES + lane] = quintic[term];
            job->split[term * CPU_LANES + lane] = polynomial ? cubic : quintic[term];
        }
}

/* A scale so small that float does not hold it weighs all keys alike: the least subnormal keeps even 3e38 times it below 1e-6, and
 * -infinity times it infinite. A cap that no score comes near is none; one too large for float leaves scores in units of the cap. */
static void fill_scale(cpu_job *job, const fa4_problem *p, float scale_log2) {
    const double log2_e = 1.4426950408889634074;
    job->scale = fabs(p->scale);
    job->step_log2 = scale_log2;
    job->scale_log2 = fmaxf((float)fmin(job->scale * log2_e, 0x1p126), 0x1p-149f);
    bool large = p->soft_cap > CAP_MAX;
    double in = job->scale / p->soft_cap;
    if (p->soft_cap == 0 || (large && in < 0x1p-100)) return;
    job->cap_in = (float)fmin(in, (double)FLT_MAX);
    job->cap_out = large ? 1.0f : (float)fmax(p->soft_cap * log2_e, (double)FLT_MIN);
    job->scale_log2 = job->step_log2 = large ? (float)fmin(p->soft_cap * log2_e, 0x1p126) : 1.0f;
    job->scale = large ? p->soft_cap : 1 / log2_e;
}

static void fill_job(cpu_job *job, const cpu_backend_state *state, const fa4_plan *plan,
                     const fa4_tensors *tensors) {
    const fa4_plan_header *h = &plan->header;
    const cpu_kernel *kernel = state->kernel;
    memset(job, 0, sizeof *job);
    job->kernel = kernel;
    job->plan = plan;
    job->tensors = tensors;
    job->interrupt = state->env.interrupt;
    job->pairs = kernel->pairs && h->problem.dtype == FA4_BF16;
    job->words =
        job->pairs ? h->problem.dim / 2 : (int32_t)cpu_round_up(h->problem.dim, kernel->lanes);
    job->dim_v_room = (int32_t)cpu_round_up(h->problem.dim_v, kernel->lanes);
    job->k_bytes = (int64_t)CPU_KEYS * job->words * 4;
    job->v_bytes = cpu_round_up(job->dim_v_room, kernel->panel) * CPU_KEYS * (job->pairs ? 2 : 4);
    job->blocks = size_ceil_divide(h->problem.seqlen_kv, CPU_KEYS);
    job->partial_bytes =
        (int64_t)sizeof(cpu_partial) + (int64_t)CPU_ROWS_ROOM * job->dim_v_room * 4;
    fill_scale(job, &h->problem, h->scale_log2);
    job->threshold = (float)h->schedule.rescale_threshold;
    job->sum_limit = exp2f(job->threshold);
    job->max_free = h->schedule.row_max == FA4_ROW_MAX_FIRST_BLOCK;
    job->whole_units = h->schedule.integer_reference || job->max_free;
    fill_tables(job, &h->schedule);
}

/* Memory from the state's block for `purpose`, grown when too small and kept for the next run. */
static fa4_status reserve(cpu_backend_state *state, int32_t purpose, int64_t bytes, void **out,
                          fa4_error *err) {
    cpu_memory *m = &state->memory[purpose];
    if (m->bytes < bytes) {
        free(m->data);
        m->bytes = 0;
        m->data = aligned_alloc(4096, (size_t)cpu_round_up(bytes, 4096));
        if (m->data == NULL)
            return error_set(err, FA4_NO_MEMORY,
                             "cpu: no memory for %" PRId64 " bytes of work space", bytes);
        if (purpose == CPU_MEMORY_SCRATCH)
            memset(m->data, 0, (size_t)bytes); // Rows that only fill a group are read.
        m->bytes = bytes;
    }
    *out = m->data;
    return FA4_OK;
}

static fa4_status reserve_scratch(cpu_backend_state *state, run_state *run, fa4_error *err) {
    const cpu_job *job = &run->job;
    int64_t q = (int64_t)CPU_ROWS_ROOM * job->words * 4, s = (int64_t)CPU_ROWS_ROOM * CPU_KEYS * 4;
    int64_t part = cpu_round_up(job->partial_bytes, 64), bounds = (int64_t)job->dim_v_room * 8;
    int64_t heads = (int64_t)job->plan->header.heads * (int64_t)sizeof(fa4_counters);
    int64_t own = cpu_round_up(q + s + part + job->k_bytes + job->v_bytes + bounds + 64, 64) +
                  cpu_round_up(heads, 64);
    int64_t each = cpu_round_up(own, 4096) + 4096 +
                   64; // Not a multiple of the page: workers' rows fall into other sets.
    void *memory = NULL;
    FA4_TRY(reserve(state, CPU_MEMORY_SCRATCH, run->threads * (each + (int64_t)sizeof(cpu_scratch)),
                    &memory, err));
    run->scratch = (cpu_scratch *)((char *)memory + run->threads * each);
    for (int32_t w = 0; w < run->threads; w++) {
        char *at = (char *)memory + w * each;
        cpu_scratch *scratch = &run->scratch[w];
        scratch->q = (float *)at, at += q;
        scratch->s = (float *)at, at += s;
        scratch->part = (cpu_partial *)at, scratch->o = (float *)(scratch->part + 1), at += part;
        scratch->packed.k = at, at += job->k_bytes;
        scratch->packed.v = at, at += job->v_bytes;
        scratch->packed.bounds = (float *)at, at += bounds;
        scratch->packed.special = (uint8_t *)at, at += 64;
        scratch->counters = (fa4_counters *)(void *)at;
        memset(scratch->counters, 0, (size_t)heads);
        for (int32_t g = 0; g < job->plan->header.heads; g++)
            scratch->counters[g].exponent_max = -INFINITY;
    }
    return FA4_OK;
}

static void pack_item(void *argument, int64_t item, int32_t worker) {
    const cpu_job *job = &((run_state *)argument)->job;
    int64_t kb = item % job->blocks, heads = job->plan->header.problem.heads_kv;
    int64_t head = item / job->blocks % heads, batch = item / job->blocks / heads;
    cpu_source source;
    (void)worker;
    cpu_source_of_k(job, batch, head, kb, &source);
    job->kernel->pack_k(job, &source, (char *)job->shared.k + item * job->k_bytes);
    cpu_source_of_v(job, batch, head, kb, &source);
    job->kernel->pack_v(job, &source, (char *)job->shared.v + item * job->v_bytes,
                        job->shared.bounds + item * 2 * job->dim_v_room,
                        job->shared.special + item);
}

/* Packs every block of K and V when a block serves several tiles and the copies fit. */
static fa4_status share_blocks(cpu_backend_state *state, run_state *run, fa4_error *err) {
    cpu_job *job = &run->job;
    const fa4_problem *p = &job->plan->header.problem;
    int64_t users =
        job->plan->header.tiles_per_head * (job->plan->header.packed ? 1 : job->plan->header.group);
    int64_t count = p->batch * p->heads_kv * job->blocks, bounds = (int64_t)job->dim_v_room * 8;
    if (users < 2 || count == 0 ||
        count > SHARED_BYTES_MAX / (job->k_bytes + job->v_bytes + bounds + 1))
        return FA4_OK;
    void *memory = NULL;
    FA4_TRY(reserve(state, CPU_MEMORY_SHARED, count * (job->k_bytes + job->v_bytes + bounds + 1),
                    &memory, err));
    job->shared.k = memory;
    job->shared.v = (char *)memory + count * job->k_bytes;
    job->shared.bounds = (float *)(void *)((char *)job->shared.v + count * job->v_bytes);
    job->shared.special = (uint8_t *)job->shared.bounds + count * bounds;
    return pool_run(state->env.workers, count, run->threads, pack_item, run, job->interrupt, NULL,
                    err);
}

/* One item per worker's list, then one per free task. */
static fa4_status make_items(cpu_backend_state *state, run_state *run, fa4_error *err) {
    const fa4_plan *plan = run->job.plan;
    const fa4_task *tasks = plan_tasks(plan);
    int64_t count = plan->header.task_count, at = 0;
    int32_t lists = 0;
    for (int64_t i = 0; i < count; i++)
        if (tasks[i].worker >= lists) lists = tasks[i].worker + 1;
    void *memory = NULL;
    FA4_TRY(
        reserve(state, CPU_MEMORY_ITEMS, (2 * count + 2 * (int64_t)lists + 2) * 8, &memory, err));
    run->items = memory;
    run->item_starts = run->items + count;
    int64_t *next = run->item_starts + count + lists + 1;
    memset(next, 0, (size_t)lists * 8);
    for (int64_t i = 0; i < count; i++)
        if (tasks[i].worker >= 0) next[tasks[i].worker]++;
    for (int32_t w = 0; w < lists; w++) {
        int64_t length = next[w];
        next[w] = run->item_starts[run->item_count++] = at;
        at += length;
    }
    for (int64_t i = 0; i < count; i++) {
        if (tasks[i].worker >= 0) {
            run->items[next[tasks[i].worker]++] = i;
            continue;
        }
        run->items[at] = i;
        run->item_starts[run->item_count++] = at++;
    }
    run->item_starts[run->item_count] = at;
    return FA4_OK;
}

static void run_item(void *argument, int64_t item, int32_t worker) {
    run_state *run = argument;
    for (int64_t i = run->item_starts[item]; i < run->item_starts[item + 1]; i++) {
        fa4_task task = plan_tasks(run->job.plan)[run->items[i]];
        int32_t end = task.tile + task.tiles;
        for (; task.tile < end; task.tile++)
            run->job.kernel->tile(&run->job, &task, &run->scratch[worker]);
    }
}

static void join_item(void *argument, int64_t item, int32_t worker) {
    run_state *run = argument;
    const fa4_plan_header *h = &run->job.plan->header;
    fa4_task task = {.tile = (int32_t)(item % h->tiles_per_head),
                     .head = (int32_t)(item / h->tiles_per_head % h->heads),
                     .batch = (int32_t)(item / h->tiles_per_head / h->heads),
                     .tiles = 1,
                     .worker = -1};
    run->job.kernel->join(&run->job, &task, &run->scratch[worker]);
}

static fa4_status run_tasks(cpu_backend_state *state, run_state *run, fa4_error *err) {
    cpu_job *job = &run->job;
    const fa4_plan_header *h = &job->plan->header;
    int64_t tiles = h->problem.batch * h->heads * h->tiles_per_head;
    if (h->schedule.kv_splits > 1) {
        int64_t bytes;
        void *memory = NULL;
        job->partial_bytes = cpu_round_up(job->partial_bytes, 64);
        if (!size_multiply(tiles * h->schedule.kv_splits, job->partial_bytes, &bytes))
            return error_set(err, FA4_NO_MEMORY,
                             "kv_splits: %d parts of %" PRId64 " tiles need too much memory",
                             h->schedule.kv_splits, tiles);
        FA4_TRY(reserve(state, CPU_MEMORY_PARTIALS, bytes, &memory, err));
        job->partials = memory;
    }
    FA4_TRY(pool_run(state->env.workers, run->item_count, run->threads, run_item, run,
                     job->interrupt, state->env.progress, err));
    if (h->schedule.kv_splits <= 1) return FA4_OK;
    return pool_run(state->env.workers, tiles, run->threads, join_item, run, job->interrupt, NULL,
                    err);
}

static void add_counters(const run_state *run, fa4_counters *per_head) {
    for (int32_t w = 0; w < run->threads; w++)
        for (int32_t g = 0; g < run->job.plan->header.heads; g++) {
            const fa4_counters *c = &run->scratch[w].counters[g];
            per_head[g].rescaled_rows += c->rescaled_rows;
            per_head[g].spared_rows += c->spared_rows;
            per_head[g].rescaled_warps += c->rescaled_warps;
            per_head[g].max_fixups += c->max_fixups;
            if (c->exponent_max > per_head[g].exponent_max)
                per_head[g].exponent_max = c->exponent_max;
            if (c->p_max > per_head[g].p_max) per_head[g].p_max = c->p_max;
        }
}

static void give_back(cpu_backend_state *state) {
    for (int i = 0; i < CPU_MEMORIES; i++) {
        cpu_memory *m = &state->memory[i];
        if (m->bytes <= KEPT_BYTES_MAX) continue;
        free(m->data);
        *m = (cpu_memory){0};
    }
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static fa4_status compute(cpu_backend_state *state, run_state *run, fa4_error *err) {
    FA4_TRY(reserve_scratch(state, run, err));
    FA4_TRY(make_items(state, run, err));
    FA4_TRY(share_blocks(state, run, err));
    return run_tasks(state, run, err);
}

fa4_status cpu_run(cpu_backend_state *state, const fa4_plan *plan, const fa4_tensors *tensors,
                   fa4_report *report, fa4_counters *per_head, fa4_error *err) {
    run_state run = {.threads = pool_threads(state->env.workers)};
    int32_t asked = plan->header.schedule.threads;
    if (asked > 0 && asked < run.threads) run.threads = asked;
    double start = now_us();
    fill_job(&run.job, state, plan, tensors);
    fa4_status status = compute(state, &run, err);
    if (status == FA4_OK && per_head != NULL) add_counters(&run, per_head);
    give_back(state);
    if (status != FA4_OK) return status;
    if (report == NULL) return FA4_OK;
    report->time_us = now_us() - start;
    report->threads = run.threads;
    report->workers = run.threads;
    report->findings = 0;
    strcpy(report->device, "cpu");
    strncpy(report->path, state->kernel->name, sizeof report->path - 1);
    report->path[sizeof report->path - 1] = '\0';
    return FA4_OK;
}
