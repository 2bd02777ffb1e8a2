/* The sm_100a kernel on the emulator, against the reference and the CPU. A list of problems in which every pair of values of two factors
 * occurs; special numbers in every key column; the same bits for every schedule of the machine; long and exact problems (emu_lists.h).
 *   emu_sm100_test            what the suite runs
 *   emu_sm100_test list       the covering list, and the pairs that no problem can have
 *   emu_sm100_test all        the whole covering list, every key column, 100 seeds x 20 problems, 800 lengths, 160 long and 200 exact problems
 *   emu_sm100_test share K N  part K of N of that sweep
 *   emu_sm100_test lengths    the grid of lengths alone
 * A failure prints the problem's number and factors. */
#include "fa4.h"

#include "check.h"
#include "core/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifndef EMU_DEVICE
#define EMU_DEVICE "emu:sm_100a"
#define EMU_LISTS
#endif
#ifndef EMU_PROBLEMS
#define EMU_PROBLEMS 80, 5, 6 /* of the covering list; of schedules, and seeds of each */
#endif
static const char DEVICE[] = EMU_DEVICE;

/* ---- problems ---- */

typedef struct problem {
    fa4_request request;
    fa4_tensors t;
    int32_t *mask_data;
    int32_t list_workers; /* > 0: the scheduler `list`, tasks dealt to so many workers from the last on */
} problem;

static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint16_t to_half(float x, int32_t dtype) { return dtype == FA4_F16 ? half_f16_from_float(x) : half_bf16_from_float(x); }
static float from_half(uint16_t x, int32_t dtype) { return dtype == FA4_F16 ? half_f16_to_float(x) : half_bf16_to_float(x); }

/* A view with `pad` elements of NaN behind every head: a kernel that reads its neighbour shows. */
static fa4_tensor make_tensor(int32_t dtype, int64_t b, int64_t s, int64_t h, int64_t d, int64_t pad) {
    fa4_tensor t = {.dtype = dtype, .rank = 4, .shape = {b, s, h, d}, .strides = {s * h * (d + pad), h * (d + pad), d + pad, 1}};
    size_t bytes = (size_t)(b * s * h * (d + pad)) * 2;
    t.data = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(t.data, 0xff, bytes);
    return t;
}

/* Multiples of 1/8: every partial sum of a product is exact, so that backends agree on every decision. */
static void fill(const fa4_tensor *t, uint64_t seed, double scale) {
    for (int64_t row = 0; row < t->shape[0] * t->shape[1] * t->shape[2]; row++)
        for (int64_t d = 0; d < t->shape[3]; d++) {
            double sum = 0;
            for (int i = 0; i < 4; i++) sum += (double)(next_random(&seed) % 1024) / 1024 - 0.5;
            double x = round(sum * 1.7 * scale * 8) / 8;
            ((uint16_t *)t->data)[row * t->strides[2] + d] = to_half((float)fmax(-8, fmin(8, x)), t->dtype);
        }
}

static problem make_problem(int64_t batch, int64_t sq, int64_t skv, int32_t heads_q, int32_t heads_kv, int32_t dim, int32_t dtype) {
    problem x;
    memset(&x, 0, sizeof x);
    x.request.device = DEVICE;
    x.request.problem = (fa4_problem){.batch = batch, .seqlen_q = sq, .seqlen_kv = skv, .heads_q = heads_q, .heads_kv = heads_kv,
                                      .dim = dim, .dim_v = dim, .dtype = dtype, .lse = 1, .scale = 1 / sqrt(dim)};
    fa4_schedule_default(&x.request.schedule);
    x.request.schedule.counters = 1;
    int64_t pad = dim % 64 ? 8 : 0;
    x.t.q = make_tensor(dtype, batch, sq, heads_q, dim, pad);
    x.t.k = make_tensor(dtype, batch, skv, heads_kv, dim, pad);
    x.t.v = make_tensor(dtype, batch, skv, heads_kv, dim, pad);
    x.t.o = make_tensor(dtype, batch, sq, heads_q, dim, pad);
    x.t.lse = (fa4_tensor){.data = calloc((size_t)(batch * heads_q * sq) + 1, 4), .dtype = FA4_F32, .rank = 3,
                           .shape = {batch, heads_q, sq}, .strides = {heads_q * sq, sq, 1}};
    return x;
}

static void free_problem(problem *x) {
    free(x->t.q.data), free(x->t.k.data), free(x->t.v.data), free(x->t.o.data), free(x->t.lse.data), free(x->mask_data);
}

/* Deals the plan's tasks to workers, the last task first. */
static fa4_status deal(fa4_plan **plan, int32_t workers, fa4_error *err) {
    int64_t count = fa4_plan_get(*plan)->task_count;
    int64_t *order = malloc((size_t)count * sizeof *order + 1);
    int32_t *worker = malloc((size_t)count * sizeof *worker + 1);
    for (int64_t i = 0; i < count; i++) order[i] = count - 1 - i, worker[i] = (int32_t)(i % workers);
    fa4_plan *dealt = NULL;
    fa4_status status = fa4_plan_reorder(*plan, order, worker, &dealt, err);
    free(order), free(worker);
    if (status != FA4_OK) return status;
    fa4_plan_destroy(*plan);
    *plan = dealt;
    return FA4_OK;
}

static fa4_status run(fa4_context *context, const problem *x, const char *device, fa4_report *report, fa4_error *err) {
    fa4_request r = x->request;
    r.device = device;
    fa4_plan *plan = NULL;
    fa4_status status = fa4_plan_create(context, &r, &plan, err);
    if (status == FA4_OK && x->list_workers > 0) status = deal(&plan, x->list_workers, err);
    if (status == FA4_OK) status = fa4_run(context, plan, &x->t, report, NULL, err);
    fa4_plan_destroy(plan);
    return status;
}

/* The device's tiles and parts of the keys, for the CPU too: short queries have others than the CPU would choose. */
static void settle(fa4_context *context, problem *x) {
    fa4_plan *plan = NULL;
    if (fa4_plan_create(context, &x->request, &plan, NULL) != FA4_OK) return; /* the run says why */
    x->request.schedule.tile_rows = fa4_plan_get(plan)->schedule.tile_rows;
    x->request.schedule.kv_splits = fa4_plan_get(plan)->schedule.kv_splits;
    fa4_plan_destroy(plan);
}

/* Runs on the emulator, validates, and holds the decisions to the CPU's. */
static void check_problem(fa4_context *context, problem *x, const char *what) {
    fa4_report emu, cpu;
    fa4_error err;
    fa4_validation v;
    memset(&v, 0, sizeof v);
    settle(context, x);
    fa4_status status = run(context, x, DEVICE, &emu, &err);
    CHECK(status == FA4_OK, "%s: %s", what, err.text);
    if (status != FA4_OK) return;
    CHECK(emu.findings == 0, "%s: %d findings", what, emu.findings);
    status = fa4_validate(context, &x->request, &x->t, &v, &err);
    CHECK(status == FA4_OK && v.pass, "%s: %s ratio %g bound %g lse %g, worst (%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 ") got %g want %g",
          what, status == FA4_OK ? "" : err.text, v.ratio, v.bound, v.lse_error, v.worst[0], v.worst[1], v.worst[2], v.worst[3],
          v.worst_got, v.worst_want);
    if (x->request.problem.soft_cap > 0) return;
    status = run(context, x, "cpu", &cpu, &err);
    CHECK(status == FA4_OK, "%s: %s", what, err.text);
    const fa4_counters *a = &emu.total, *b = &cpu.total;
    CHECK(a->tiles == b->tiles && a->blocks_visited == b->blocks_visited && a->row_steps == b->row_steps && a->warp_steps == b->warp_steps,
          "%s: steps", what);
    /* By default the CPU splits them as sm_100a does; sm_90a has none on the polynomial. */
    const bool split = strcmp(DEVICE, "emu:sm_90a") != 0 || x->request.schedule.exp2_emulated_pairs >= 0;
    CHECK(a->exp2_hardware + a->exp2_polynomial == b->exp2_hardware + b->exp2_polynomial && (!split || a->exp2_polynomial == b->exp2_polynomial),
          "%s: exponentials", what);
    if (x->request.schedule.row_max == FA4_ROW_MAX_FIRST_BLOCK) return; /* repairs differ in where they put the reference */
    CHECK(a->rescaled_rows == b->rescaled_rows && a->spared_rows == b->spared_rows && a->rescaled_warps == b->rescaled_warps,
          "%s: rescaled %" PRId64 ", the CPU %" PRId64 "; spared %" PRId64 ", %" PRId64 "; warps %" PRId64 ", %" PRId64, what,
          a->rescaled_rows, b->rescaled_rows, a->spared_rows, b->spared_rows, a->rescaled_warps, b->rescaled_warps);
}

/* ---- masks ---- */

enum { MASK_FULL, MASK_CAUSAL, MASK_WINDOW, MASK_PREFIX, MASK_DOCUMENT, MASK_BITS, MASKS };

static void set_mask(problem *x, int32_t mask, uint64_t seed) {
    fa4_problem *p = &x->request.problem;
    static const int32_t kinds[MASKS] = {FA4_MASK_FULL, FA4_MASK_CAUSAL, FA4_MASK_WINDOW, FA4_MASK_PREFIX, FA4_MASK_DOCUMENT, FA4_MASK_BITS};
    p->mask_nodes = mask != MASK_FULL;
    p->mask[0] = (fa4_mask_node){.kind = kinds[mask], .left = 70, .right = 9, .length = p->seqlen_kv / 3};
    int64_t row = (p->seqlen_kv + 127) / 128 * 4, words = mask == MASK_BITS ? row * p->seqlen_q : p->seqlen_kv;
    x->mask_data = calloc((size_t)words + 1, 4);
    for (int64_t j = 0; mask == MASK_DOCUMENT && j < p->seqlen_kv; j++) x->mask_data[j] = (int32_t)(j / 90);
    /* Bits: rows without a key, blocks without a bit, blocks that are whole. */
    for (int64_t i = 0; mask == MASK_BITS && i < p->seqlen_q; i++)
        for (int64_t j = 0; j < p->seqlen_kv; j++) {
            bool hidden = i % 11 == 5 || (i < 128 && j / 128 == 1) || (j / 128 != 2 && next_random(&seed) % 3 == 0);
            if (!hidden) x->mask_data[i * row + j / 32] |= (int32_t)(1u << (j % 32));
        }
    x->request.mask_data = x->mask_data;
    x->request.mask_words = mask == MASK_BITS || mask == MASK_DOCUMENT ? words : 0;
}

/* ---- the covering list ---- */

enum { LENGTH_Q, LENGTH_KV, GROUP, DIM, DTYPE, MASK, ROW_MAX, ORDER, THRESHOLD, PAIRS, FRAGMENT, SPLIT, WORKERS, TILES, SCALE, CAP, SPREAD, TURNS, SPECIAL, FACTORS };
enum { VALUES_MAX = 10 };
static const struct {
    const char *name;
    int32_t count, values[VALUES_MAX];
} factors[FACTORS] = {
    [LENGTH_Q] = {"sq", 10, {1, 2, 127, 128, 129, 255, 256, 257, 383, 700}},
    [LENGTH_KV] = {"skv", 10, {1, 2, 127, 128, 129, 255, 257, 383, 385, 600}},
    [GROUP] = {"group", 8, {1, 2, 3, 4, 6, 8, 16, 32}},
    [DIM] = {"dim", 6, {8, 40, 64, 72, 120, 128}},
    [DTYPE] = {"dtype", 2, {FA4_F16, FA4_BF16}},
    [MASK] = {"mask", MASKS, {MASK_FULL, MASK_CAUSAL, MASK_WINDOW, MASK_PREFIX, MASK_DOCUMENT, MASK_BITS}},
    [ROW_MAX] = {"row_max", 2, {0, 1}},
    [ORDER] = {"kv_order", 3, {0, 1, 2}},
    [THRESHOLD] = {"threshold", 4, {0, 8, 11, 15}},
    [PAIRS] = {"pairs", 3, {0, 2, 8}},
    [FRAGMENT] = {"fragment", 3, {0, 1, 3}},
    [SPLIT] = {"p_split", 4, {16, 64, 96, 112}},
    [WORKERS] = {"workers", 4, {0, 1, 2, 9}},
    [TILES] = {"tile_order", 3, {FA4_ORDER_LINEAR, FA4_ORDER_LPT, FA4_ORDER_LIST}},
    [SCALE] = {"scale", 4, {100, 0, -70, 300}},
    [CAP] = {"cap", 2, {0, 30}},
    [SPREAD] = {"spread", 2, {1, 4}},
    [TURNS] = {"turns", 2, {0, 1}},
    [SPECIAL] = {"special", 3, {0, 1, 2}}, /* none; a NaN among the queries; an infinity among the keys */
};

typedef struct covered {
    bool pair[FACTORS][VALUES_MAX][FACTORS][VALUES_MAX];
    int32_t left;
} covered;

/* Pairs that no problem can have: a plan with max-free blocks refuses thresholds below 7 (a block's whole sum stands against it). */
static bool impossible(int a, int32_t value_a, int b, int32_t value_b) {
    return a == ROW_MAX && b == THRESHOLD && factors[a].values[value_a] == 1 && factors[b].values[value_b] < 7;
}

static int32_t gain(const covered *c, const int32_t *value) {
    int32_t n = 0;
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++) {
            if (impossible(a, value[a], b, value[b])) return -1;
            n += !c->pair[a][value[a]][b][value[b]];
        }
    return n;
}

/* The best of many random rows, all with one pair that is still missing: greedy, and near enough to the shortest list. */
static void draw_row(covered *c, uint64_t *seed, int32_t *best) {
    int32_t most = -1, row[FACTORS], missing[4] = {-1, 0, 0, 0};
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++)
            for (int32_t i = 0; i < factors[a].count; i++)
                for (int32_t j = 0; j < factors[b].count; j++)
                    if (missing[0] < 0 && !c->pair[a][i][b][j]) missing[0] = a, missing[1] = i, missing[2] = b, missing[3] = j;
    for (int tries = 0; tries < 400 || most < 0; tries++) {
        for (int f = 0; f < FACTORS; f++) row[f] = (int32_t)(next_random(seed) % (uint64_t)factors[f].count);
        row[missing[0]] = missing[1];
        row[missing[2]] = missing[3];
        int32_t g = gain(c, row);
        if (g > most) {
            most = g;
            memcpy(best, row, sizeof row);
        }
    }
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++) {
            c->left -= !c->pair[a][best[a]][b][best[b]];
            c->pair[a][best[a]][b][best[b]] = true;
        }
}

/* Numbers that are none: rows that see them are what the double reference says, in kind; the others are near it. */
static void check_special(fa4_context *context, problem *x, const char *what) {
    const fa4_problem *p = &x->request.problem;
    int64_t rows = p->batch * p->seqlen_q * p->heads_q, heads = p->heads_q, dim = p->dim;
    fa4_error err;
    fa4_report report;
    fa4_status status = run(context, x, DEVICE, &report, &err);
    fa4_tensors want = x->t;
    want.o = (fa4_tensor){.data = calloc((size_t)(rows * dim) + 1, 8), .dtype = FA4_F64, .rank = 4, .shape = {p->batch, p->seqlen_q, heads, dim},
                          .strides = {p->seqlen_q * heads * dim, heads * dim, dim, 1}};
    want.lse = (fa4_tensor){.data = calloc((size_t)rows + 1, 8), .dtype = FA4_F64, .rank = 3, .shape = {p->batch, heads, p->seqlen_q},
                            .strides = {heads * p->seqlen_q, p->seqlen_q, 1}};
    if (status == FA4_OK) status = fa4_reference(context, &x->request, &want, &err);
    CHECK(status == FA4_OK && report.findings == 0, "%s: %s", what, status == FA4_OK ? "findings" : err.text);
    int64_t wrong = 0;
    for (int64_t r = 0; status == FA4_OK && r < rows; r++)
        for (int64_t d = 0; d < dim; d++) {
            double got = from_half(((uint16_t *)x->t.o.data)[r * x->t.o.strides[2] + d], p->dtype), ref = ((double *)want.o.data)[r * dim + d];
            wrong += isnan(ref) ? !isnan(got) : !(fabs(got - ref) < (p->dtype == FA4_F16 ? 0.02 : 0.1));
        }
    CHECK(wrong == 0, "%s: %" PRId64 " outputs differ in kind or value", what, wrong);
    free(want.o.data), free(want.lse.data);
}

static void set_special(problem *x, int32_t special) {
    const fa4_problem *p = &x->request.problem;
    const fa4_tensor *t = special == 1 ? &x->t.q : &x->t.k;
    if (special == 0 || t->shape[1] == 0) return;
    const uint16_t infinite = p->dtype == FA4_F16 ? 0x7c00 : 0x7f80;
    ((uint16_t *)t->data)[t->shape[1] / 2 * t->strides[1] + p->dim / 2] = special == 1 ? (uint16_t)(infinite + 0x20) : infinite;
}

static void describe_row(int number, const int32_t *row, char *what, size_t room) {
    size_t used = (size_t)snprintf(what, room, "problem %d:", number);
    for (int f = 0; f < FACTORS; f++) used += (size_t)snprintf(what + used, room - used, " %s %d", factors[f].name, factors[f].values[row[f]]);
}

static problem row_problem(int number, const int32_t *row) {
    int32_t v[FACTORS];
    for (int f = 0; f < FACTORS; f++) v[f] = factors[f].values[row[f]];
    int64_t batch = v[GROUP] < 4 && v[LENGTH_Q] < 300 ? 2 : 1;
    problem x = make_problem(batch, v[LENGTH_Q], v[LENGTH_KV], v[GROUP], 1, v[DIM], v[DTYPE]);
    fa4_schedule *s = &x.request.schedule;
    fill(&x.t.q, (uint64_t)number * 3 + 1, v[SPREAD]);
    fill(&x.t.k, (uint64_t)number * 3 + 2, v[SPREAD]);
    fill(&x.t.v, (uint64_t)number * 3 + 3, 1);
    set_mask(&x, v[MASK], (uint64_t)number);
    set_special(&x, v[SPECIAL]);
    x.request.problem.scale *= v[SCALE] / 100.0;
    x.request.problem.soft_cap = v[CAP];
    s->row_max = v[ROW_MAX];
    s->kv_order = v[ORDER];
    s->rescale_threshold = v[THRESHOLD];
    s->exp2_emulated_pairs = v[PAIRS];
    s->exp2_first_fragment = v[FRAGMENT];
    s->p_split = v[SPLIT];
    s->workers = v[WORKERS];
    s->order_barrier = v[TURNS];
    if (v[TILES] == FA4_ORDER_LIST) x.list_workers = v[WORKERS] > 0 ? v[WORKERS] : 3;
    else s->tile_order = v[TILES];
    return x;
}

/* `run_from`, `step`: which of the list are run; all are drawn. `print`: the list itself. */
static void covering_list(fa4_context *context, int most, int run_from, int step, bool print) {
    static covered c;
    uint64_t seed = 1;
    int32_t none = 0;
    memset(&c, 0, sizeof c);
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++) {
            c.left += factors[a].count * factors[b].count;
            for (int32_t i = 0; i < factors[a].count; i++)
                for (int32_t j = 0; j < factors[b].count; j++)
                    if (impossible(a, i, b, j)) {
                        c.pair[a][i][b][j] = true;
                        none++;
                        if (print) printf("impossible: %s %d with %s %d\n", factors[a].name, factors[a].values[i], factors[b].name, factors[b].values[j]);
                    }
        }
    int number = 0, pairs = c.left;
    for (c.left -= none; c.left > 0 && number < most; number++) {
        int32_t row[FACTORS];
        char what[500];
        draw_row(&c, &seed, row);
        describe_row(number, row, what, sizeof what);
        if (print) printf("%s\n", what);
        if (context == NULL || number % step != run_from) continue;
        problem x = row_problem(number, row);
        if (factors[SPECIAL].values[row[SPECIAL]] != 0) check_special(context, &x, what);
        else check_problem(context, &x, what);
        free_problem(&x);
    }
    printf("%d problems, %d of %d pairs of values, %d of them impossible\n", number, pairs - c.left, pairs, none);
}

/* ---- special numbers ---- */

/* NaN, +inf, -inf or a number that lifts scores by up to thousands of log2 units in one key: the rows that see it are what the reference says.
 * Columns of both ways of exponentials, in the block visited first and in the one after it. */
static void special_keys(fa4_context *context, int from, int step) {
    static const uint16_t special[4] = {0x7e00, 0x7c00, 0xfc00, 0x63d0};
    for (int64_t column = from; column < 128; column += step)
        for (int kind = 0; kind < 4; kind++) {
            problem x = make_problem(1, 16, 256, 1, 1, 64, FA4_F16);
            uint64_t seed = (uint64_t)(column * 4 + kind), bits = next_random(&seed);
            fill(&x.t.q, 5, 1);
            fill(&x.t.k, 6, 1);
            fill(&x.t.v, 7, 1);
            ((uint16_t *)x.t.k.data)[(column + (bits & 1 ? 128 : 0)) * 64 + 3] = special[kind];
            x.request.schedule.row_max = (int32_t)(bits >> 1 & 1);
            x.request.schedule.exp2_first_fragment = 0;
            fa4_error err;
            fa4_report report;
            fa4_status status = run(context, &x, DEVICE, &report, &err);
            fa4_tensors want = x.t;
            want.o = (fa4_tensor){.data = calloc(16 * 64, 8), .dtype = FA4_F64, .rank = 4, .shape = {1, 16, 1, 64}, .strides = {1024, 64, 64, 1}};
            want.lse = (fa4_tensor){.data = calloc(16, 8), .dtype = FA4_F64, .rank = 3, .shape = {1, 1, 16}, .strides = {16, 16, 1}};
            if (status == FA4_OK) status = fa4_reference(context, &x.request, &want, &err);
            CHECK(status == FA4_OK, "key %" PRId64 ", special %d: %s", column, kind, err.text);
            int wrong = 0;
            for (int i = 0; i < 16 * 64; i++) {
                double got = from_half(((uint16_t *)x.t.o.data)[i], FA4_F16), ref = ((double *)want.o.data)[i];
                wrong += isnan(ref) ? !isnan(got) : !(fabs(got - ref) < 0.01);
            }
            CHECK(wrong == 0, "key %" PRId64 ", special %d: %d outputs differ in kind or value", column, kind, wrong);
            free(want.o.data), free(want.lse.data);
            free_problem(&x);
        }
}

/* ---- the grid of lengths ---- */

static void lengths(fa4_context *context, int share, int shares) {
    static const int64_t n[10] = {1, 2, 127, 128, 129, 255, 256, 257, 383, 385};
    for (int v = 0; v < 8; v++)
        for (int q = 0; q < 10; q++)
            for (int k = 0; k < 10; k++) {
                if ((v * 100 + q * 10 + k) % shares != share) continue;
                problem x = make_problem(1, n[q], n[k], 1, 1, v & 1 ? 128 : 64, v & 2 ? FA4_BF16 : FA4_F16);
                char what[100];
                snprintf(what, sizeof what, "lengths %" PRId64 " %" PRId64 ", variant %d", n[q], n[k], v);
                fill(&x.t.q, (uint64_t)q + 1, 1);
                fill(&x.t.k, (uint64_t)k + 100, 1);
                fill(&x.t.v, (uint64_t)k + 200, 1);
                set_mask(&x, v & 4 ? MASK_CAUSAL : MASK_FULL, 1);
                check_problem(context, &x, what);
                free_problem(&x);
            }
}

/* ---- schedules of the machine ---- */

/* One problem that carries phases over tasks: few workers, many tiles, tiles without a key beside tiles with many. */
static problem schedule_problem(int n) {
    static const int32_t masks[5] = {MASK_CAUSAL, MASK_FULL, MASK_WINDOW, MASK_BITS, MASK_CAUSAL};
    problem x = make_problem(1, 300 + 130 * (n % 4), 200 + 90 * (n % 3), n % 3 ? 2 : 1, 1, n % 2 ? 64 : 128, n % 2 ? FA4_BF16 : FA4_F16);
    fill(&x.t.q, (uint64_t)n + 1, 3);
    fill(&x.t.k, (uint64_t)n + 50, 3);
    fill(&x.t.v, (uint64_t)n + 99, 1);
    set_mask(&x, masks[n % 5], (uint64_t)n);
    x.request.schedule.workers = 1 + n % 2;
    x.request.schedule.gqa_packing = n % 4 != 1;
    x.request.schedule.row_max = n % 5 == 4;
    x.request.schedule.tile_order = n % 2 ? FA4_ORDER_LPT : FA4_ORDER_LINEAR;
    return x;
}

static uint64_t hash_of(const fa4_tensor *t, size_t bytes) {
    uint64_t hash = 1;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((unsigned char *)t->data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The machine's schedule is a property of the backend: each gets a context of its own. */
static uint64_t run_under(const problem *x, const char *schedule, int seed, const char **why) {
    static fa4_error err;
    fa4_context *context = NULL;
    fa4_report report = {.findings = -1};
    char number[16];
    snprintf(number, sizeof number, "%d", seed);
    setenv("FA4_EMU_SCHEDULE", schedule, 1);
    setenv("FA4_EMU_SEED", number, 1);
    fa4_status status = fa4_context_open(NULL, &context, &err);
    if (status == FA4_OK) status = run(context, x, DEVICE, &report, &err);
    fa4_context_close(context);
    unsetenv("FA4_EMU_SCHEDULE");
    unsetenv("FA4_EMU_SEED");
    *why = status != FA4_OK ? err.text : report.findings ? "findings" : NULL;
    size_t rows = (size_t)(x->t.q.shape[0] * x->t.q.shape[1] * x->t.q.shape[2]);
    return hash_of(&x->t.o, rows * (size_t)x->t.q.shape[3] * 2) * 3 + hash_of(&x->t.lse, rows * 4);
}

/* The same bits of O and LSE whatever the order of warps, copies and products, roles starved included. */
static void schedules(int first, int step, int problems, int seeds) {
    for (int n = first; n < problems; n += step) {
        problem x = schedule_problem(n);
        const char *why;
        uint64_t want = run_under(&x, "round_robin", 0, &why);
        CHECK(why == NULL, "schedule problem %d: %s", n, why);
        for (int seed = 1; seed <= seeds; seed++) {
            const char *schedule = seed % 2 ? "random" : "starve";
            uint64_t got = run_under(&x, schedule, seed, &why);
            CHECK(why == NULL && got == want, "schedule problem %d, %s, seed %d: %s", n, schedule, seed, why ? why : "other bits");
        }
        free_problem(&x);
    }
}

/* No keys: zeros; no queries: nothing happens. */
static void nothing(fa4_context *context) {
    problem x = make_problem(1, 300, 0, 2, 2, 64, FA4_F16), y = make_problem(1, 0, 300, 2, 2, 64, FA4_F16);
    fill(&x.t.q, 1, 1);
    check_problem(context, &x, "no keys");
    check_problem(context, &y, "no queries");
    free_problem(&x);
    free_problem(&y);
}

/* The first rows of a tile see nothing of its first block and all of the next, which holds no mask. */
static void unseen_then_whole(fa4_context *context) {
    for (int32_t row_max = 0; row_max < 2; row_max++) {
        problem x = make_problem(1, 128, 383, 2, 2, 64, FA4_F16);
        x.request.problem.mask_nodes = 1;
        x.request.problem.mask[0].kind = FA4_MASK_CAUSAL;
        x.request.schedule.row_max = row_max;
        fill(&x.t.q, 1, 1);
        fill(&x.t.k, 2, 1);
        fill(&x.t.v, 3, 1);
        check_problem(context, &x, row_max ? "unseen, then whole, max-free" : "unseen, then whole");
        free_problem(&x);
    }
}

/* Outputs in f32; the largest number stays finite, infinity stays infinite. */
static void outputs(fa4_context *context) {
    problem x = make_problem(1, 200, 300, 4, 2, 72, FA4_F16);
    fill(&x.t.q, 1, 1);
    fill(&x.t.k, 2, 1);
    fill(&x.t.v, 3, 1);
    free(x.t.o.data);
    x.t.o = (fa4_tensor){.data = aligned_alloc(64, 200 * 4 * 72 * 4), .dtype = FA4_F32, .rank = 4, .shape = {1, 200, 4, 72}, .strides = {57600, 288, 72, 1}};
    check_problem(context, &x, "output in f32");
    free_problem(&x);

    for (int32_t dtype = FA4_F16; dtype <= FA4_BF16; dtype++) {
        problem y = make_problem(1, 60, 200, 1, 1, 64, dtype);
        fill(&y.t.q, 4, 0.5);
        fill(&y.t.k, 5, 0.5);
        const uint16_t largest = dtype == FA4_F16 ? 0x7bff : 0x7f7f, infinite = dtype == FA4_F16 ? 0x7c00 : 0x7f80;
        for (int64_t j = 0; j < 200 * 64; j++) ((uint16_t *)y.t.v.data)[j] = dtype == FA4_F16 || j % 64 ? to_half(1, dtype) : to_half(0x1p120f, dtype);
        for (int64_t j = 0; j < 200; j++) {
            if (dtype == FA4_F16) ((uint16_t *)y.t.v.data)[j * 64] = largest;
            ((uint16_t *)y.t.v.data)[j * 64 + 1] = j == 77 ? infinite : to_half(1, dtype);
        }
        fa4_error err;
        fa4_report report;
        fa4_status status = run(context, &y, DEVICE, &report, &err);
        CHECK(status == FA4_OK, "%s", err.text);
        int wrong = 0;
        for (int64_t i = 0; i < 60; i++) {
            float large = from_half(((uint16_t *)y.t.o.data)[i * 64], dtype), inf = from_half(((uint16_t *)y.t.o.data)[i * 64 + 1], dtype);
            wrong += !isfinite(large) || large < 6e4f || !(isinf(inf) && inf > 0) || fabsf(from_half(((uint16_t *)y.t.o.data)[i * 64 + 2], dtype) - 1) > 0.01f;
        }
        CHECK(wrong == 0, "dtype %d: %d rows of %g", dtype, wrong, (double)from_half(((uint16_t *)y.t.o.data)[0], dtype));
        free_problem(&y);
    }
}

#ifdef EMU_SPLITS
#include "emu_splits.h"
#include "emu_wide.h"
#else
static void splits(fa4_context *context) { (void)context; }
static void wide(fa4_context *context) { (void)context; }
#endif

#ifdef EMU_LISTS
enum { LISTS = 1 };
#include "emu_lists.h"
#else
enum { LISTS = 0 };
typedef struct tally {
    int32_t long_tasks, rescaled, hidden;
} tally;
static tally long_list(fa4_context *context, int first, int end) { return (void)context, (void)first, (void)end, (tally){0, 0, 0}; }
static void exact_list(fa4_context *context, int first, int end) { (void)context, (void)first, (void)end; }
#endif

/* Share `share` of `shares` of the long sweep. */
static void sweep(fa4_context *context, int share, int shares) {
    enum { LONG = 160, EXACT = 200 };
    special_keys(context, share, shares);
    covering_list(context, 100000, share, shares, false);
    schedules(share, shares, 20, 100);
    lengths(context, share, shares);
    tally t = long_list(context, LONG * share / shares, LONG * (share + 1) / shares);
    if (shares == 1 && LISTS)
        CHECK(t.long_tasks >= 100 && t.rescaled >= 100 && t.hidden >= 50, "the long list is too easy: %d %d %d", t.long_tasks, t.rescaled, t.hidden);
    exact_list(context, EXACT * share / shares, EXACT * (share + 1) / shares);
}

/* What the suite runs: seconds. */
static void quick(fa4_context *context) {
    const int32_t few[3] = {EMU_PROBLEMS};
    nothing(context);
    unseen_then_whole(context);
    outputs(context);
    splits(context);
    wide(context);
    special_keys(context, 0, 7); /* 14, 28, ... are the polynomial's */
    covering_list(context, few[0], 0, 1, false);
    schedules(0, 1, few[1], few[2]);
    long_list(context, 0, 12);
    exact_list(context, 0, 12);
}

int main(int argc, char **argv) {
    fa4_context *context = NULL;
    fa4_error err;
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "list") == 0) {
        covering_list(NULL, 100000, 0, 1, true);
        return 0;
    }
    fa4_status status = fa4_context_open(NULL, &context, &err);
    CHECK(status == FA4_OK, "%s", err.text);
    if (status != FA4_OK) return check_report();
    if (fa4_device_check(context, DEVICE, &err) != FA4_OK) {
        fprintf(stderr, "not run: %s\n", err.text);
        CHECK(err.text[0] != '\0', "an absent device says why");
    } else if (strcmp(word, "lengths") == 0) {
        lengths(context, 0, 1);
    } else if (strcmp(word, "share") == 0 && argc == 4 && atoi(argv[3]) > 0) {
        sweep(context, atoi(argv[2]), atoi(argv[3]));
    } else {
        quick(context);
        if (strcmp(word, "all") == 0) sweep(context, 0, 1);
    }
    fa4_context_close(context);
    return check_report();
}
