/* The launch of a plan: walks against the plan's block lists, tensor-map arguments, workers' lists, refusals, tables. */
#include "check.h"

#include "kernel/launch.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const plan_limits SM100 = {FA4_BACKEND_EMU_SM100, "emu:sm_100a", 148, 50 << 20, 2};

static fa4_request request_of(int64_t sq, int64_t skv, int32_t heads_q, int32_t heads_kv, int32_t dim) {
    fa4_request r;
    memset(&r, 0, sizeof r);
    r.device = "emu:sm_100a";
    r.problem = (fa4_problem){.batch = 2, .seqlen_q = sq, .seqlen_kv = skv, .heads_q = heads_q, .heads_kv = heads_kv, .dim = dim,
                              .dim_v = dim, .dtype = FA4_F16, .lse = 1, .scale = 0.125};
    fa4_schedule_default(&r.schedule);
    return r;
}

static fa4_plan *plan_of(const fa4_request *r) {
    fa4_plan *plan = NULL;
    fa4_error err;
    fa4_status status = plan_create(r, &SM100, NULL, &plan, &err);
    CHECK(status == FA4_OK, "%s", err.text);
    return plan;
}

/* Steps of one task, read as the kernel reads them: from the upload, or derived for full and causal (which creation has checked). */
static void check_task(const fa4_plan *plan, const kernel_launch *launch, const FwdTask *task) {
    const fa4_plan_header *h = &plan->header;
    const FwdStep *steps = (const FwdStep *)(launch->upload + launch->upload_offset[KERNEL_UPLOAD_STEPS]) + task->first_step;
    for (int32_t i = 0; i < 2; i++) {
        const fa4_block_list *list = i < task->tiles ? plan_list(plan, task->batch, task->head, task->tile + i) : NULL;
        CHECK(task->own[i] == (list ? list->count : 0), "own[%d] of tile %d: %d", i, task->tile, task->own[i]);
        if (launch->upload_size[KERNEL_UPLOAD_STEPS] == 0) continue;
        int32_t at = 0;
        for (int32_t j = 0; j < task->steps; j++) {
            if (steps[j].mask[i] == FWD_STEP_SKIP) continue;
            const fa4_block *block = list && at < list->count ? &plan_blocks(plan)[list->first + at++] : NULL;
            CHECK(block && block->key_block == steps[j].key_block && block->mask == steps[j].mask[i], "step %d of tile %d+%d, class %d", j,
                  task->tile, i, h->mask_class);
        }
        CHECK(at == task->own[i], "tile %d+%d: %d of %d blocks", task->tile, i, at, task->own[i]);
    }
}

static void check_launch(const fa4_request *r, int32_t mask_class) {
    fa4_plan *plan = plan_of(r);
    if (plan == NULL) return;
    /* The plan may find that a small problem's mask hides nothing. */
    bool small = r->problem.seqlen_q < 200 || r->problem.seqlen_kv < 200;
    CHECK(small || plan->header.mask_class == mask_class, "class %d", plan->header.mask_class);
    kernel_launch *launch = NULL;
    fa4_error err;
    fa4_status status = kernel_launch_create(plan, 0, &launch, &err);
    CHECK(status == FA4_OK, "%s", err.text);
    if (status == FA4_OK) {
        const FwdTask *tasks = (const FwdTask *)(launch->upload + launch->upload_offset[KERNEL_UPLOAD_TASKS]);
        CHECK(launch->upload_size[KERNEL_UPLOAD_TASKS] == plan->header.task_count * 32, "%lld bytes",
              (long long)launch->upload_size[KERNEL_UPLOAD_TASKS]);
        for (int64_t t = 0; t < plan->header.task_count; t++) {
            CHECK(tasks[t].steps == plan_tasks(plan)[t].blocks, "task %lld: %d steps", (long long)t, tasks[t].steps);
            check_task(plan, launch, &tasks[t]);
        }
        CHECK(launch->block == 512 && launch->grid <= plan->header.task_count, "grid %u", launch->grid);
    }
    kernel_launch_destroy(launch);
    fa4_plan_destroy(plan);
}

static void walks(void) {
    static const int64_t lengths[] = {1, 127, 128, 129, 255, 257, 385, 700};
    for (int order = 0; order < 3; order++)
        for (int q = 0; q < 8; q++)
            for (int k = 0; k < 8; k++) {
                fa4_request r = request_of(lengths[q], lengths[k], 4, k % 2 ? 4 : 1, 64);
                r.schedule.kv_order = order;
                check_launch(&r, FA4_CLASS_FULL);
                r.problem.mask_nodes = 1;
                r.problem.mask[0].kind = FA4_MASK_CAUSAL;
                check_launch(&r, FA4_CLASS_CAUSAL);
                r.problem.mask[0] = (fa4_mask_node){.kind = FA4_MASK_WINDOW, .left = 100, .right = 3};
                check_launch(&r, FA4_CLASS_INTERVAL);
            }
}

/* Bits that leave holes: key block 1 is hidden from the first tile, all keys from every fifth row. */
static void bit_walks(void) {
    enum { SQ = 300, SKV = 500, WORDS = 4 * 4 };
    static int32_t bits[SQ * WORDS];
    for (int i = 0; i < SQ; i++)
        for (int j = 0; j < SKV; j++)
            if (i % 5 != 0 && !(i < 128 && j / 128 == 1)) bits[i * WORDS + j / 32] |= (int32_t)(1u << (j % 32));
    fa4_request r = request_of(SQ, SKV, 2, 2, 64);
    r.problem.mask_nodes = 1;
    r.problem.mask[0].kind = FA4_MASK_BITS;
    r.mask_data = bits;
    r.mask_words = SQ * WORDS;
    for (r.schedule.kv_order = 0; r.schedule.kv_order < 3; r.schedule.kv_order++) check_launch(&r, FA4_CLASS_BITS);
}

static fa4_tensor tensor_of(int64_t b, int64_t s, int64_t h, int64_t d) {
    return (fa4_tensor){.data = (void *)(uintptr_t)0x10000, .dtype = FA4_F16, .rank = 4, .shape = {b, s, h, d}, .strides = {s * h * d, h * d, d, 1}};
}

static void maps(void) {
    fa4_request r = request_of(300, 500, 8, 2, 72);
    fa4_plan *plan = plan_of(&r);
    fa4_tensors t;
    memset(&t, 0, sizeof t);
    t.q = t.o = tensor_of(2, 300, 8, 72);
    t.k = t.v = tensor_of(2, 500, 2, 72);
    kernel_tensormap m[FWD_MAP_COUNT];
    fa4_error err;
    CHECK(kernel_launch_maps(plan, &t, 0x2000, m, &err) == FA4_OK, "%s", err.text);
    CHECK(m[FWD_MAP_Q].box[1] == 4 && m[FWD_MAP_Q].box[2] == 32, "box %u %u", m[FWD_MAP_Q].box[1], m[FWD_MAP_Q].box[2]);
    CHECK(m[FWD_MAP_Q].dims[0] == 72 && m[FWD_MAP_Q].dims[1] == 8 && m[FWD_MAP_Q].dims[2] == 300, "dims");
    CHECK(m[FWD_MAP_Q].strides[1] == 144 && m[FWD_MAP_Q].strides[2] == 1152, "strides");
    CHECK(m[FWD_MAP_K].box[1] == 1 && m[FWD_MAP_K].box[2] == 128, "box of k");
    for (int i = 0; i < FWD_MAP_COUNT; i++) CHECK(kernel_tensormap_check(&m[i], &err) == FA4_OK, "map %d: %s", i, err.text);

    t.k.strides[2] = 0; /* expanded heads: one dimension of 1, coordinate times 0 */
    CHECK(kernel_launch_maps(plan, &t, 0x2000, m, &err) == FA4_OK && m[FWD_MAP_K].dims[1] == 1, "expanded heads");
    kernel_launch *launch = NULL;
    CHECK(kernel_launch_create(plan, 0, &launch, &err) == FA4_OK, "%s", err.text);
    FwdParams params;
    kernel_launch_params(plan, launch, &t, 0x400000, &params);
    CHECK(params.k_head_step == 0 && params.v_head_step == 1 && params.group_log2 == 2 && params.tasks == 0x400000, "params");
    CHECK(params.weight_limit == 256.0f && params.reference_floor < -1e38f, "limits");
    kernel_launch_destroy(launch);
    t.k.strides[2] = 76;
    CHECK(kernel_launch_maps(plan, &t, 0x2000, m, &err) == FA4_UNSUPPORTED && strstr(err.text, "head axis"), "%s", err.text);
    t.k.strides[2] = -72;
    CHECK(kernel_launch_maps(plan, &t, 0x2000, m, &err) == FA4_UNSUPPORTED, "negative stride");
    t.k.strides[2] = 72;
    t.v.data = (void *)(uintptr_t)0x10008;
    CHECK(kernel_launch_maps(plan, &t, 0x2000, m, &err) == FA4_UNSUPPORTED && strstr(err.text, "v: "), "%s", err.text);
    t.v.data = t.k.data;
    t.v.strides[1] = 0;
    CHECK(kernel_launch_maps(plan, &t, 0x2000, m, &err) == FA4_UNSUPPORTED && strstr(err.text, "position"), "%s", err.text);
    fa4_plan_destroy(plan);
}

/* Tasks given to workers in reverse: each worker finds its own, in the given order. */
static void workers(void) {
    fa4_request r = request_of(900, 256, 4, 4, 64);
    fa4_plan *plan = plan_of(&r), *given = NULL;
    int64_t n = plan->header.task_count, order[64];
    int32_t worker[64];
    for (int64_t t = 0; t < n; t++) {
        order[t] = n - 1 - t;
        worker[t] = (int32_t)(t * t % 5);
    }
    fa4_error err;
    CHECK(n <= 64 && fa4_plan_reorder(plan, order, worker, &given, &err) == FA4_OK, "%s", err.text);
    kernel_launch *launch = NULL;
    CHECK(kernel_launch_create(given, 0, &launch, &err) == FA4_OK, "%s", err.text);
    CHECK(launch->grid == 5 && launch->take == FWD_TAKE_LIST, "grid %u", launch->grid);
    const FwdTask *tasks = (const FwdTask *)(launch->upload + launch->upload_offset[KERNEL_UPLOAD_TASKS]);
    const int32_t *first = (const int32_t *)(launch->upload + launch->upload_offset[KERNEL_UPLOAD_WORKERS]);
    CHECK(first[0] == 0 && first[5] == n, "first %d, last %d", first[0], first[5]);
    for (int32_t w = 0, at = 0; w < 5; w++)
        for (int64_t t = 0; t < n; t++) {
            if (worker[t] != w) continue;
            const fa4_task *want = &plan_tasks(given)[t];
            CHECK(at >= first[w] && at < first[w + 1], "worker %d, task %lld", w, (long long)t);
            CHECK(tasks[at].tile == want->tile && tasks[at].head == want->head && tasks[at].batch == want->batch, "task %d", at);
            at++;
        }
    kernel_launch_destroy(launch);
    fa4_plan_destroy(given);
    fa4_plan_destroy(plan);
}

static void tables(void) {
    fa4_request r = request_of(256, 256, 2, 2, 128);
    fa4_plan *plan = plan_of(&r);
    FwdVariant v;
    kernel_variant_of_plan(plan, 0, &v);
    kernel_tables t;
    kernel_tables_of_variant(&v, &t);
    CHECK(kernel_variant_smem_bytes(&v) <= 232448, "%d bytes", kernel_variant_smem_bytes(&v));
    int32_t end = 0, seen = 0;
    for (int32_t i = 0; i < t.smem_count; i++) {
        CHECK(t.smem[i].first == end, "%s begins at %d", t.smem[i].name, t.smem[i].first);
        end += t.smem[i].size;
        if (strcmp(t.smem[i].name, "barriers") != 0) continue;
        seen = 1;
        int32_t at = t.smem[i].first;
        for (int32_t b = 0; b < t.barrier_count; b++) {
            if (t.barriers[b].named) continue;
            CHECK(t.barriers[b].first == at, "%s begins at %d", t.barriers[b].name, t.barriers[b].first);
            at += 8 * t.barriers[b].copies;
        }
        CHECK(at == end, "barriers end at %d, their region at %d", at, end);
    }
    CHECK(seen && end == kernel_variant_smem_bytes(&v), "shared memory ends at %d", end);
    CHECK(strcmp(kernel_role_name(kernel_variant_warp_role(&v, 13)), "load") == 0, "warp 13");
    fa4_plan_destroy(plan);
}

static void refusals(void) {
    fa4_request r = request_of(64, 64, 1, 1, 64);
    fa4_error err;
    r.schedule.kv_splits = 2;
    fa4_plan *plan = plan_of(&r);
    CHECK(kernel_launch_supports(plan, &err) == FA4_UNSUPPORTED && strstr(err.text, "kv_splits"), "%s", err.text);
    fa4_plan_destroy(plan);
    r = request_of(64, 64, 1, 1, 256);
    r.schedule.q_stages = r.schedule.kv_stages = 2;
    plan = NULL;
    if (plan_create(&r, &SM100, NULL, &plan, &err) == FA4_OK)
        CHECK(kernel_launch_supports(plan, &err) == FA4_UNSUPPORTED && strstr(err.text, "dim"), "%s", err.text);
    fa4_plan_destroy(plan);
    r = request_of(0, 64, 1, 1, 64); /* nothing to launch */
    plan = plan_of(&r);
    kernel_launch *launch = NULL;
    CHECK(kernel_launch_create(plan, 0, &launch, &err) == FA4_OK && launch->grid == 0, "no queries");
    kernel_launch_destroy(launch);
    fa4_plan_destroy(plan);
}

static void counters(void) {
    fa4_request r = request_of(64, 64, 2, 2, 64);
    fa4_plan *plan = plan_of(&r);
    fa4_counters per_head[2];
    memset(per_head, 0, sizeof per_head);
    per_head[0].exponent_max = per_head[1].exponent_max = -INFINITY;
    FwdCounters c[2] = {{3, 4, 5, 6, (int32_t)0xbf800000 ^ 0x7fffffff, 0x3f000000}, {0, 0, 0, 0, FWD_ORDERED_MINUS_INFINITY, 0}};
    kernel_launch_counters(plan, c, per_head);
    CHECK(per_head[0].rescaled_rows == 3 && per_head[0].max_fixups == 6, "sums");
    CHECK(per_head[0].exponent_max == -1.0 && per_head[0].p_max == 0.5, "maxima %g %g", per_head[0].exponent_max, per_head[0].p_max);
    CHECK(per_head[1].exponent_max == -INFINITY && per_head[1].p_max == 0, "empty maxima");
    fa4_plan_destroy(plan);
}

int main(void) {
    walks();
    bit_walks();
    maps();
    workers();
    tables();
    refusals();
    counters();
    return check_report();
}
