/* Generated problems: shapes, strides, dtypes, masks, groups, thresholds and schedules drawn at random, each run on every instruction
 * set that is here and held to the reference. `generated_test COUNT SEED` runs more of them; a failure prints its number and seed. */
#include "fa4.h"

#include "check.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PATHS_MAX = 4, DATA_ROOM = 1 << 16 };

typedef struct generator {
    uint64_t state;
} generator;

static uint32_t below(generator *g, uint32_t n) {
    g->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = g->state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ (z >> 31)) % n);
}

static int64_t pick(generator *g, const int64_t *values, uint32_t count) {
    return values[below(g, count)];
}
#define PICK(g, ...) pick(g, (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static int64_t draw_length(generator *g) {
    if (below(g, 2)) return PICK(g, 0, 1, 2, 7, 64, 127, 128, 129, 255, 256, 257, 383, 385);
    return below(g, 3) ? below(g, 150) : below(g, 420);
}

/* ---- masks ---- */

static fa4_mask_node draw_leaf(generator *g, const fa4_problem *p) {
    fa4_mask_node node;
    memset(&node, 0, sizeof node);
    int64_t words = (p->seqlen_kv + 127) / 128 * 4 * p->seqlen_q * p->heads_q * p->batch + p->seqlen_kv;
    node.kind = (int32_t)below(g, words < DATA_ROOM ? 6 : 5);
    node.left = (int64_t)below(g, (uint32_t)p->seqlen_kv + 9) - 5;
    node.right = (int64_t)below(g, (uint32_t)p->seqlen_kv + 9) - 5;
    node.length = below(g, (uint32_t)p->seqlen_kv + 1);
    node.per_head = (int32_t)below(g, 2);
    node.per_batch = (int32_t)below(g, 2);
    if (node.kind == FA4_MASK_BITS) node.data_offset = p->seqlen_kv;
    return node;
}

static void draw_mask(generator *g, fa4_problem *p, int32_t *data) {
    uint32_t run = below(g, 3), density = below(g, 5);
    for (int64_t j = 0; j < p->seqlen_kv; j++)
        data[j] = run == 0 ? (int32_t)below(g, 3) : j == 0 ? 0 : data[j - 1] + (below(g, run == 1 ? 5 : 90) == 0);
    for (int64_t w = p->seqlen_kv; w < DATA_ROOM; w++)
        data[w] = density == 0 ? 0 : density == 1 ? -1 : (int32_t)(below(g, 65536) << 16 | below(g, 65536));
    if (below(g, 4) == 0) return;
    p->mask[0] = draw_leaf(g, p);
    p->mask_nodes = 1;
    if (below(g, 3) != 0) return;
    p->mask[1] = draw_leaf(g, p);
    p->mask[2].kind = FA4_MASK_ALL_OF + (int32_t)below(g, 3);
    p->mask[2].operands = 2;
    p->mask_nodes = 3;
}

static fa4_request draw_request(generator *g, int32_t *data) {
    fa4_request r;
    memset(&r, 0, sizeof r);
    fa4_problem *p = &r.problem;
    p->batch = below(g, 20) == 0 ? 0 : 1 + below(g, 2);
    p->seqlen_q = draw_length(g);
    p->seqlen_kv = draw_length(g);
    p->heads_kv = (int32_t)(1 + below(g, 2));
    p->heads_q = p->heads_kv * (int32_t)(p->seqlen_q > 200 ? PICK(g, 1, 2, 3) : PICK(g, 1, 1, 2, 3, 4, 5, 6, 8, 16));
    p->dim = (int32_t)(below(g, 2) ? PICK(g, 64, 128) : 8 * (1 + below(g, below(g, 4) ? 16 : 32)));
    p->dim_v = below(g, 3) ? p->dim : (int32_t)(8 * (1 + below(g, 32)));
    p->dtype = (int32_t)below(g, 3);
    p->lse = below(g, 8) != 0;
    p->scale = below(g, 12) == 0 ? 0 : (below(g, 6) == 0 ? -1 : 1) / sqrt(p->dim) * (double)PICK(g, 1, 1, 2, p->dtype == FA4_F32 ? 1 : 5);
    p->soft_cap = below(g, 4) ? 0 : (double)PICK(g, 1, 30, 50);
    draw_mask(g, p, data);
    fa4_schedule *s = &r.schedule;
    fa4_schedule_default(s);
    s->row_max = (int32_t)below(g, 2);
    double least = s->row_max == FA4_ROW_MAX_FIRST_BLOCK ? 7 : 0;
    s->rescale_threshold = least + below(g, p->dtype == FA4_F16 ? 16 - (uint32_t)least : 30);
    s->kv_order = (int32_t)below(g, 3);
    if (below(g, 2)) {
        s->exp2_emulated_pairs = (int32_t)below(g, 9);
        s->exp2_first_fragment = (int32_t)below(g, 4);
    }
    s->gqa_packing = (int32_t)below(g, 2);
    s->tile_order = (int32_t)below(g, 2);
    s->integer_reference = below(g, 4) == 0 ? 1 : -1;
    s->kv_splits = below(g, 6) == 0 ? (int32_t)(2 + below(g, 3)) : 1;
    r.device = "cpu";
    r.mask_data = data;
    r.mask_words = DATA_ROOM;
    return r;
}

/* ---- tensors in a drawn layout ---- */

/* (batch, seq, head, dim) with the first three axes in any order in memory, and gaps after rows. */
static void *draw_tensor(generator *g, fa4_tensor *t, int32_t dtype, int64_t b, int64_t s, int64_t h, int64_t d, double scale) {
    *t = (fa4_tensor){.dtype = dtype, .rank = 4, .shape = {b, s, h, d}};
    int order[3] = {0, 1, 2};
    for (int i = 2; i > 0; i--) {
        int k = (int)below(g, (uint32_t)i + 1), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    int64_t stride = d + 8 * below(g, 3);
    t->strides[3] = 1;
    for (int i = 2; i >= 0; i--) {
        t->strides[order[i]] = stride;
        stride *= t->shape[order[i]];
    }
    size_t bytes = (size_t)(stride > 0 ? stride : 1) * (size_t)fa4_dtype_bytes(dtype) + 64;
    void *memory = malloc(bytes);
    memset(memory, 0xff, bytes); /* NaN in the gaps: they must not be read */
    t->data = memory;
    if (scale > 0) fa4_tensor_random(t, FA4_RANDOM_NORMAL, g->state, scale, NULL);
    return memory;
}

typedef struct problem_data {
    fa4_tensors t;
    void *memory[5];
} problem_data;

static void draw_data(generator *g, const fa4_problem *p, problem_data *d) {
    /* f32's bound has no calibration: large scores carry their own rounding beyond it. */
    double sharp = below(g, 2) || p->dtype == FA4_F32 ? 1 : (double)PICK(g, 2, 4, 8);
    d->memory[0] = draw_tensor(g, &d->t.q, p->dtype, p->batch, p->seqlen_q, p->heads_q, p->dim, sharp);
    d->memory[1] = draw_tensor(g, &d->t.k, p->dtype, p->batch, p->seqlen_kv, p->heads_kv, p->dim, 1);
    d->memory[2] = draw_tensor(g, &d->t.v, p->dtype, p->batch, p->seqlen_kv, p->heads_kv, p->dim_v, 1);
    d->memory[3] = draw_tensor(g, &d->t.o, below(g, 4) ? p->dtype : FA4_F32, p->batch, p->seqlen_q, p->heads_q, p->dim_v, 0);
    d->memory[4] = malloc((size_t)(p->batch * p->heads_q * p->seqlen_q + 1) * sizeof(float));
    d->t.lse = (fa4_tensor){.data = d->memory[4], .dtype = FA4_F32, .rank = 3, .shape = {p->batch, p->heads_q, p->seqlen_q},
                            .strides = {p->heads_q * p->seqlen_q, p->seqlen_q, 1}};
}

/* ---- running ---- */

static void describe(const fa4_request *r) {
    const fa4_problem *p = &r->problem;
    const fa4_schedule *s = &r->schedule;
    fprintf(stderr, "  B%" PRId64 " Sq%" PRId64 " Skv%" PRId64 " H%d/%d D%d/%d %s scale %g cap %g mask", p->batch, p->seqlen_q,
            p->seqlen_kv, p->heads_q, p->heads_kv, p->dim, p->dim_v, fa4_dtype_name(p->dtype), p->scale, p->soft_cap);
    for (int32_t n = 0; n < p->mask_nodes; n++)
        fprintf(stderr, " %d(%" PRId64 ",%" PRId64 ",%" PRId64 ")", p->mask[n].kind, p->mask[n].left, p->mask[n].right, p->mask[n].length);
    fprintf(stderr, "\n  threshold %g row_max %d kv_order %d exp2 %d/%d packing %d integer %d splits %d\n", s->rescale_threshold, s->row_max,
            s->kv_order, s->exp2_emulated_pairs, s->exp2_first_fragment, s->gqa_packing, s->integer_reference, s->kv_splits);
}

/* NULL when the outputs of one path are right. */
static const char *run_path(fa4_context *context, const fa4_request *r, problem_data *d, const fa4_validator *validator,
                            fa4_validation *v, fa4_error *err) {
    fa4_plan *plan = NULL;
    if (fa4_plan_create(context, r, &plan, err) != FA4_OK) return err->text;
    fa4_status status = fa4_run(context, plan, &d->t, NULL, NULL, err);
    int32_t cubic = fa4_plan_get(plan)->schedule.exp2_emulated_pairs > 0;
    fa4_plan_destroy(plan);
    if (status != FA4_OK) return err->text;
    if (fa4_validator_check(validator, &d->t, cubic, v, err) != FA4_OK) return err->text;
    return v->pass ? NULL : "wrong";
}

static void run_problem(fa4_context *const *contexts, int count, uint64_t seed, int32_t *data) {
    generator g = {seed};
    fa4_request r = draw_request(&g, data);
    problem_data d;
    draw_data(&g, &r.problem, &d);
    fa4_validator *validator = NULL;
    fa4_error err = {0};
    if (fa4_validator_create(contexts[0], &r, &d.t, &validator, &err) != FA4_OK) CHECK(false, "seed %" PRIu64 ": %s", seed, err.text);
    for (int i = 0; i < count && validator != NULL; i++) {
        fa4_validation v = {0};
        fa4_cpu_info info;
        fa4_context_cpu(contexts[i], &info);
        const char *wrong = run_path(contexts[i], &r, &d, validator, &v, &err);
        CHECK(wrong == NULL, "seed %" PRIu64 " on %s: %s (ratio %g, bound %g, lse %g, o[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "] = %g, not %g)",
              seed, info.path, wrong, v.ratio, v.bound, v.lse_error, v.worst[0], v.worst[1], v.worst[2], v.worst[3], v.worst_got, v.worst_want);
        if (wrong != NULL) describe(&r);
    }
    fa4_validator_destroy(validator);
    for (int i = 0; i < 5; i++) free(d.memory[i]);
}

int main(int argc, char **argv) {
    static const char *const paths[PATHS_MAX] = {"scalar", "avx2", "avx512", "avx512_bf16"};
    fa4_context *contexts[PATHS_MAX];
    int count = 0;
    for (int i = 0; i < PATHS_MAX; i++) {
        fa4_error err;
        fa4_status status = fa4_context_open(&(fa4_context_options){.cpu = paths[i]}, &contexts[count], &err);
        if (status == FA4_OK) count++;
        else CHECK_SKIP("%s", err.text);
    }
    long problems = argc > 1 ? atol(argv[1]) : 500;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    int32_t *data = malloc(DATA_ROOM * sizeof *data);
    printf("%ld problems from seed %" PRIu64 " on %d instruction sets\n", problems, seed, count);
    for (long n = 0; n < problems; n++) run_problem(contexts, count, seed + (uint64_t)n, data);
    free(data);
    for (int i = 0; i < count; i++) fa4_context_close(contexts[i]);
    return check_report();
}
