/* The CPU backend on every instruction set of this machine against attention in double, and its
 * counters on real data. */
#include "check.h"
#include "attention.h"
#include "cpu/cpu.h"

#include <float.h>
#include <stdio.h>
#include <unistd.h>

enum { BENCHES_MAX = 4 };

/* One open backend per instruction set. */
typedef struct bench {
    pool *workers;
    backend *b;
    const char *path;
    volatile int32_t interrupt;
} bench;

static bench benches[BENCHES_MAX];
static int bench_count;

static void open_bench(bench *x, const char *path, int32_t threads) {
    fa4_error err = {0};
    x->path = path;
    x->interrupt = 0;
    CHECK(pool_create(threads, &x->workers, &err) == FA4_OK, "%s", err.text);
    backend_env env = {.workers = x->workers, .cpu = path, .interrupt = &x->interrupt};
    CHECK(cpu_backend.open(&env, "cpu", &x->b, &err) == FA4_OK, "%s", err.text);
}

static void close_bench(bench *x) {
    cpu_backend.close(x->b);
    pool_destroy(x->workers);
}

static fa4_status run_on(bench *x, attention *a, const char *what) {
    fa4_error err = {0};
    fa4_status status = attention_run(a, &cpu_backend, x->b, &err);
    CHECK(status == FA4_OK, "%s %s: %s", x->path, what, err.text);
    CHECK(strcmp(a->report.path, x->path) == 0, "ran on %s, not %s", a->report.path, x->path);
    return status;
}

/* Runs on every path and compares with the expected values that are there. */
static void check_all(attention *a, const char *what) {
    for (int i = 0; i < bench_count; i++) {
        if (run_on(&benches[i], a, what) != FA4_OK) continue;
        double error = attention_error(a);
        CHECK(error <= 1.0, "%s %s: error is %g of its bound", benches[i].path, what, error);
    }
}

static void check_and_destroy(attention *a, const char *what) {
    attention_expect(a);
    check_all(a, what);
    attention_destroy(a);
}

static double lse_of(const attention *a, int64_t head, int64_t row) {
    const fa4_tensor *t = &a->t.lse;
    return ((const float *)t->data)[head * t->strides[1] + row * t->strides[2]];
}

static void fill_all(const fa4_tensor *t, double value) {
    for (int64_t a = 0; a < t->shape[0]; a++)
        for (int64_t b = 0; b < t->shape[1]; b++)
            for (int64_t c = 0; c < t->shape[2]; c++)
                for (int64_t d = 0; d < t->shape[3]; d++)
                    attention_set(t, a, b, c, d, value);
}

static void fill_row(const fa4_tensor *t, int64_t row, double value) {
    for (int64_t d = 0; d < t->shape[3]; d++)
        attention_set(t, 0, row, 0, d, value);
}

static void test_shapes(void) {
    static const int64_t shapes[][6] = {
        {1, 1, 1, 1, 1, 8},    {1, 128, 128, 2, 2, 64}, {2, 140, 150, 4, 2, 64},
        {1, 5, 400, 3, 1, 40}, {1, 140, 129, 6, 2, 96}, {1, 131, 100, 2, 1, 256},
        {1, 64, 0, 2, 1, 64},  {1, 33, 600, 8, 1, 72},
    };
    char what[128];
    for (int32_t dtype = FA4_F16; dtype <= FA4_F32; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            for (int mask = (int)i % 2; mask < 6; mask += 2) {
                const int64_t *s = shapes[i];
                int32_t dim_v = i % 2 ? (int32_t)s[5] : 8 + 8 * (int32_t)(s[5] / 16);
                attention a = attention_problem(dtype, s[0], s[1], s[2], (int32_t)s[3],
                                                (int32_t)s[4], (int32_t)s[5], dim_v);
                if (mask == 1) attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
                if (mask == 2) attention_mask(&a, FA4_MASK_WINDOW, 40, 20);
                if (mask == 3) attention_mask(&a, FA4_MASK_DOCUMENT, 0, 0);
                if (mask == 4) attention_mask(&a, FA4_MASK_PREFIX, s[2] / 2, 0);
                if (mask == 5) a.request.schedule.row_max = FA4_ROW_MAX_FIRST_BLOCK;
                for (int j = 0; j < 4096; j++)
                    a.mask_data[j] = j / 37 % 3;
                a.request.schedule.kv_order = (int32_t)i % 3;
                if (i == 3) a.request.problem.soft_cap = 1.5;
                if (i == 4) a.request.problem.scale = -0.2;
                if (i == 5) a.request.schedule.gqa_packing = 0;
                if (i == 7) a.request.schedule.kv_splits = 3;
                attention_create(&a, 100 + i);
                snprintf(what, sizeof what, "dtype %d shape %zu mask %d", dtype, i, mask);
                check_and_destroy(&a, what);
            }
}

static int64_t pick(uint64_t *seed, int64_t lo, int64_t hi) {
    return lo + (int64_t)(attention_random(seed) * (double)(hi - lo + 1));
}

static void pick_mask(attention *a, uint64_t *seed) {
    const fa4_problem *p = &a->request.problem;
    static const int32_t kinds[] = {FA4_MASK_FULL, FA4_MASK_CAUSAL, FA4_MASK_WINDOW,
                                    FA4_MASK_PREFIX, FA4_MASK_DOCUMENT};
    int64_t nodes = pick(seed, 0, 2);
    for (int64_t n = 0; n < nodes; n++) {
        int32_t kind = kinds[pick(seed, 0, 4)];
        if (kind == FA4_MASK_PREFIX)
            attention_mask(a, kind, pick(seed, 0, p->seqlen_kv), 0);
        else
            attention_mask(a, kind, pick(seed, -1, 200), pick(seed, -1, 200));
    }
    if (nodes == 2) {
        attention_mask(a, pick(seed, 0, 1) ? FA4_MASK_ALL_OF : FA4_MASK_ANY_OF, 0, 0);
        a->request.problem.mask[2].operands = 2;
    }
    for (int j = 0; j < 4096; j++)
        a->mask_data[j] = (int32_t)(j / 50 % 3);
}

/* Problems and schedules drawn at random; the seed is in each failure's text. */
static void test_generated(int count) {
    for (int n = 0; n < count; n++) {
        uint64_t seed = (uint64_t)n * 7919 + 11;
        int32_t heads_kv = (int32_t)pick(&seed, 1, 2),
                heads_q = heads_kv * (int32_t)pick(&seed, 1, 4);
        attention a = attention_problem(
            (int32_t)pick(&seed, 0, 2), pick(&seed, 1, 2), pick(&seed, 0, 200), pick(&seed, 0, 420),
            heads_q, heads_kv, 8 * (int32_t)pick(&seed, 1, 10), 8 * (int32_t)pick(&seed, 1, 10));
        fa4_schedule *s = &a.request.schedule;
        pick_mask(&a, &seed);
        s->row_max = (int32_t)pick(&seed, 0, 1);
        s->kv_order = (int32_t)pick(&seed, 0, 2);
        s->rescale_threshold = (double)pick(&seed, s->row_max ? 7 : 0, 15);
        s->exp2_emulated_pairs =
            a.request.problem.dtype == FA4_F32 ? 0 : (int32_t)pick(&seed, 0, 8);
        s->exp2_first_fragment = (int32_t)pick(&seed, 0, 3);
        s->integer_reference = s->row_max ? 1 : (int32_t)pick(&seed, 0, 1);
        s->kv_splits = (int32_t)pick(&seed, 1, 3);
        s->gqa_packing = (int32_t)pick(&seed, 0, 1);
        if (pick(&seed, 0, 3) == 0) a.request.problem.soft_cap = (double)pick(&seed, 1, 50);
        if (pick(&seed, 0, 3) == 0) a.request.problem.scale *= (double)pick(&seed, -8, 8);
        attention_create(&a, seed);
        char what[64];
        snprintf(what, sizeof what, "generated problem %d", n);
        check_and_destroy(&a, what);
    }
}

/* Strides of every kind: heads outermost, rows reversed, keys shared by a stride of 0, and an f32
 * output for f16 inputs. */
static void test_strides(void) {
    attention a = attention_problem(FA4_F16, 1, 70, 90, 2, 2, 32, 32);
    attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
    attention_create(&a, 7);
    a.t.v.strides[1] = 32, a.t.v.strides[2] = 90 * 32;
    a.t.q.data = (uint16_t *)a.t.q.data + 69 * 64;
    a.t.q.strides[1] = -64;
    a.t.k.strides[2] = 0;
    attention_expect(&a);
    check_all(&a, "strides");
    free(a.t.o.data);
    a.t.o = attention_tensor(FA4_F32, 1, 70, 2, 32);
    check_all(&a, "f32 output of f16 inputs");
    double squares = 0;
    for (int64_t i = 0; i < 70; i++) {
        double d = attention_get(&a.t.o, 0, i, 1, 3) - a.o[(70 + i) * 32 + 3];
        squares += d * d;
    }
    CHECK(sqrt(squares / 70) < 1.5e-4, "unrounded O is off by %g", sqrt(squares / 70));
    a.t.q.data = (uint16_t *)a.t.q.data - 69 * 64;
    attention_destroy(&a);
}

static void test_bits(void) {
    attention a = attention_problem(FA4_BF16, 1, 150, 140, 4, 2, 64, 64);
    a.request.problem.mask[0] = (fa4_mask_node){.kind = FA4_MASK_BITS};
    a.request.problem.mask_nodes = 1;
    uint64_t seed = 5; // 150 rows of 8 words; rows 20 to 29 see nothing.
    for (int i = 0; i < 150 * 8; i++)
        a.mask_data[i] =
            i / 8 >= 20 && i / 8 < 30 ? 0 : (int32_t)(attention_random(&seed) * 0x1p32);
    attention_create(&a, 8);
    check_and_destroy(&a, "random bits");
}

/* The first visited blocks hide all keys of some rows, whose real scores are far below 0. */
static void test_late_first_key(void) {
    attention a = attention_problem(FA4_F16, 1, 128, 200, 1, 1, 128, 128);
    attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
    attention_create(&a, 1);
    fill_all(&a.t.q, 8), fill_all(&a.t.k, -4), fill_all(&a.t.v, 7);
    attention_expect(&a);
    check_all(&a, "hidden first block");
    CHECK(fabs(lse_of(&a, 0, 0) + 357.7482125) < 1e-3, "LSE %g", lse_of(&a, 0, 0));
    for (int64_t i = 0; i < 128; i++)
        CHECK(attention_get(&a.t.o, 0, i, 0, 5) == 7, "row %d", (int)i);
    attention_destroy(&a);
    attention b =
        attention_problem(FA4_F32, 1, 300, 520, 1, 1, 16, 16); // Two and more wholly hidden blocks.
    attention_mask(&b, FA4_MASK_WINDOW, -1, -260);
    attention_create(&b, 2);
    check_and_destroy(&b, "hidden first blocks");
}

static void test_known_answers(void) {
    attention a = attention_problem(FA4_F16, 1, 5, 2, 1, 1, 128, 128); // 1: rows with no key.
    attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
    attention_create(&a, 1);
    fill_all(&a.t.q, 0), fill_all(&a.t.k, 0), fill_row(&a.t.v, 0, 1), fill_row(&a.t.v, 1, 3);
    attention_expect(&a);
    check_all(&a, "rows with no key");
    CHECK(lse_of(&a, 0, 2) == -INFINITY && fabs(lse_of(&a, 0, 4) - 0.6931472) < 1e-6, "LSE");
    CHECK(attention_get(&a.t.o, 0, 2, 0, 0) == 0 && attention_get(&a.t.o, 0, 4, 0, 0) == 2, "O");
    attention_destroy(&a);

    a = attention_problem(FA4_F16, 1, 3, 3, 1, 1, 128, 128); // 6: scale 0.
    attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
    a.request.problem.scale = 0;
    attention_create(&a, 2);
    for (int i = 0; i < 3; i++)
        fill_row(&a.t.v, i, 1 + 3 * i);
    attention_expect(&a);
    check_all(&a, "scale 0");
    CHECK(attention_get(&a.t.o, 0, 1, 0, 9) == 2.5 && fabs(lse_of(&a, 0, 2) - 1.0986123) < 1e-6,
          "O and LSE");
    attention_destroy(&a);

    a = attention_problem(FA4_F16, 1, 1, 2, 1, 1, 128, 128); // 9: products beyond f16.
    attention_create(&a, 3);
    fill_all(&a.t.q, 60), fill_row(&a.t.k, 0, 60), fill_row(&a.t.k, 1, 59), fill_row(&a.t.v, 0, 2),
        fill_row(&a.t.v, 1, 5);
    attention_expect(&a);
    check_all(&a, "large products");
    CHECK(attention_get(&a.t.o, 0, 0, 0, 0) == 2 && fabs(lse_of(&a, 0, 0) - 40729.35) < 0.01,
          "LSE %.8g", lse_of(&a, 0, 0));
    attention_destroy(&a);

    a = attention_problem(FA4_F16, 1, 32, 256, 1, 1, 128, 128); // 7: single rows move.
    a.request.problem.scale = 0.6931471805599453;
    attention_create(&a, 4);
    fill_all(&a.t.q, 0), fill_all(&a.t.k, 0);
    attention_set(&a.t.q, 0, 0, 0, 0, 1), attention_set(&a.t.q, 0, 1, 0, 0, -1);
    for (int j = 0; j < 256; j++)
        fill_row(&a.t.v, j, j < 128 ? 1 : 2);
    for (int j = 0; j < 128; j++)
        attention_set(&a.t.k, 0, j, 0, 0, 30);
    attention_expect(&a);
    check_all(&a, "two rows of a group");
    CHECK(a.total.rescaled_rows == 1 && a.total.rescaled_warps == 1, "%d rows",
          (int)a.total.rescaled_rows);
    attention_destroy(&a);
}

/* Scales and caps at and beyond the ends of float: the answer is that of double, whose infinite scores make a row NaN. */
static void test_extreme_scales(void) {
    static const double scales[] = {0,    1e-320, 1e-300, -1e-45, 1e-38, 1e20,    1e30,
                                    1e37, -1e38,  3.4e38, 1e39,   -1e300, DBL_MAX, -DBL_MAX};
    static const double caps[] = {0, 0, 30, 1e-300, 1e300};
    char what[96];
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        for (size_t c = 0; c < sizeof caps / sizeof *caps; c++) {
            if (caps[c] > 1e100 && fabs(scales[i]) > 1e100) continue; // Float tells those capped scores apart too badly.
            attention a = attention_problem((int32_t)(i + c) % 3, 1, 40, 300, 2, 1, 64, 64);
            attention_mask(&a, c % 2 ? FA4_MASK_CAUSAL : FA4_MASK_FULL, 0, 0);
            a.request.problem.scale = scales[i];
            a.request.problem.soft_cap = caps[c];
            if (c == 1) a.request.schedule.row_max = FA4_ROW_MAX_FIRST_BLOCK;
            if (c == 0) a.request.schedule.kv_splits = 2;
            attention_create(&a, i);
            attention_expect(&a);
            for (int64_t row = 0; row < 2 * 40; row++)
                if (fabs(a.lse[row]) > (double)FLT_MAX) a.lse[row] = (double)(float)a.lse[row];
            snprintf(what, sizeof what, "scale %g, cap %g", scales[i], caps[c]);
            check_all(&a, what);
            attention_destroy(&a);
        }
    attention a = attention_problem(FA4_F32, 1, 5, 200, 1, 1, 16, 16); // Products of 3e37 times 0.
    a.request.problem.scale = 0;
    attention_create(&a, 3);
    fill_all(&a.t.q, 1.5e18);
    for (int64_t j = 0; j < 200; j++)
        fill_row(&a.t.k, j, (double)j * 6e15);
    check_and_destroy(&a, "scale 0 of large products");
}

/* A NaN or infinity in any key column: seen, it makes the row NaN; hidden, it changes nothing. */
static void test_not_finite(void) {
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (int column = 0; column < 128; column += 3)
        for (int kind = 0; kind < 3; kind++) {
            attention a =
                attention_problem(column % 2 ? FA4_F16 : FA4_BF16, 1, 130, 130, 1, 1, 16, 16);
            attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
            if (column % 4 == 3) a.request.schedule.row_max = FA4_ROW_MAX_FIRST_BLOCK;
            if (column % 5 == 0) a.request.schedule.exp2_emulated_pairs = 8;
            attention_create(&a, (uint64_t)column);
            attention_expect(&a);
            fill_row(&a.t.k, column, values[kind]);
            for (int64_t i = column; i < 130; i++)
                a.lse[i] = NAN;
            for (int64_t i = column * 16; i < 130 * 16; i++)
                a.o[i] = NAN; // inf times both signs: NaN.
            check_all(&a, "not finite in k");
            attention_destroy(&a);
        }
    for (int kind = 0; kind < 3; kind++) {
        attention a = attention_problem(kind == 1 ? FA4_F16 : FA4_F32, 1, 256, 256, 1, 1, 16, 16);
        attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
        attention_create(&a, 3);
        attention_set(&a.t.v, 0, 100, 0, 3, values[kind]);
        attention_expect(&a);
        CHECK(isfinite(a.o[99 * 16 + 3]) && !isfinite(a.o[100 * 16 + 3]) &&
                  isfinite(a.o[255 * 16 + 4]),
              "expected values");
        check_all(&a, "not finite in v");
        attention_destroy(&a);
    }
}

/* Scores of some 2^35 log2 units, where float steps by thousands: keys of equal scores still share
 * their row, and references move as far as they must. */
static void test_far_scores(void) {
    for (int variant = 0; variant < 32; variant++) {
        attention a = attention_problem(variant & 1 ? FA4_F32 : FA4_F16, 1, 5, 400, 1, 1, 64, 16);
        a.request.schedule.kv_order = variant & 2 ? FA4_KV_FORWARD : FA4_KV_REVERSE;
        if (variant & 4) a.request.schedule.row_max = FA4_ROW_MAX_FIRST_BLOCK;
        if (variant & 8) a.request.schedule.kv_splits = 3;
        if (variant & 16) a.request.problem.scale = -0.125;
        attention_create(&a, 1);
        fill_all(&a.t.q, 60000);
        // The far rows' keys; those of the last two blocks are as high, others lower by much.
        for (int j = 0; j < 400; j++)
            fill_row(&a.t.k, j, (variant & 16 ? -1 : 1) * (j % 3 == 0 || j > 256 ? 60000 : 59968));
        fill_row(&a.t.q, 3, 0); // And one row that is near.
        attention_expect(&a);
        CHECK(isfinite(a.o[0]) && a.lse[0] > 2e10, "expected values");
        check_all(&a, "far scores");
        attention_destroy(&a);
    }
}

/* An infinite value under a weight that float cannot hold: infinite as long as double holds the
 * weight, NaN (0 times infinity) beyond, whichever key comes first, capped, split or max-free. */
static void test_infinite_under_vanishing_weights(void) {
    static const double falls[] = {20, 140, 500, 1040, 1200, 5000};
    for (size_t f = 0; f < sizeof falls / sizeof falls[0]; f++)
        for (int variant = 0; variant < 16; variant++) {
            attention a =
                attention_problem(variant & 1 ? FA4_F32 : FA4_BF16, 1, 5, 300, 1, 1, 8, 8);
            a.request.schedule.kv_order = variant & 2 ? FA4_KV_FORWARD : FA4_KV_REVERSE;
            if (variant & 4) a.request.schedule.row_max = FA4_ROW_MAX_FIRST_BLOCK;
            if (variant & 8) a.request.schedule.kv_splits = 3;
            if (variant == 1) a.request.problem.soft_cap = 1e6;
            a.request.problem.scale = 0.6931471805599453;
            attention_create(&a, f);
            fill_all(&a.t.q, 0), fill_all(&a.t.k, 0);
            for (int i = 0; i < 5; i++)
                attention_set(&a.t.q, 0, i, 0, 0, 1);
            for (int j = 0; j < 300; j++)
                attention_set(&a.t.k, 0, j, 0, 0, j == 10 || (variant % 3 == 0 && j < 128) ? -falls[f] : 0);
            attention_set(&a.t.v, 0, 10, 0, 3, INFINITY);
            attention_expect(&a);
            CHECK(falls[f] > 1100 ? isnan(a.o[3]) : isinf(a.o[3]), "fall %g: expected %g", falls[f],
                  a.o[3]);
            check_all(&a, "infinite under a vanishing weight");
            attention_destroy(&a);
        }
}

/* Scores that rise by many log2 units after the first block, in every column in turn, max-free and
 * not. */
static void test_rises(void) {
    static const double rises[] = {6, 20, 100, 130, 400, 5000};
    for (size_t r = 0; r < sizeof rises / sizeof rises[0]; r++)
        for (int variant = 0; variant < 4; variant++) {
            attention a =
                attention_problem(variant % 2 ? FA4_F32 : FA4_BF16, 1, 40, 400, 1, 1, 8, 8);
            a.request.schedule.row_max =
                variant < 3 ? FA4_ROW_MAX_FIRST_BLOCK : FA4_ROW_MAX_EACH_BLOCK;
            a.request.schedule.kv_order = FA4_KV_FORWARD;
            a.request.schedule.exp2_emulated_pairs = variant == 2 ? 8 : 2;
            a.request.problem.scale = 0.6931471805599453;
            attention_create(&a, r);
            fill_all(&a.t.q, 0), fill_all(&a.t.k, 0);
            for (int i = 0; i < 40; i++)
                attention_set(&a.t.q, 0, i, 0, 0, 1);
            attention_set(&a.t.k, 0, 200 + 5 * variant, 0, 0, rises[r]);
            attention_set(&a.t.k, 0, 399 - variant, 0, 0, rises[r] + 3);
            attention_expect(&a);
            if (variant == 1) // The cubic's bound is wider than f32's.
                for (int i = 0; i < 40 * 8; i++)
                    a.weight[i] *= 20;
            check_all(&a, "rising scores");
            if (rises[r] > 100 || variant == 3) {
                CHECK(a.total.rescaled_rows >= (rises[r] > 8 ? 40 : 0), "rise %g: %d rows",
                      rises[r], (int)a.total.rescaled_rows);
                CHECK(variant == 3 || a.total.max_fixups >= 1, "rise %g: no fix-up", rises[r]);
            }
            attention_destroy(&a);
        }
}

/* V is the identity, so that O shows each weight: 2^-1/2 by the cubic is off by 7.7e-5, by the
 * accurate form by 1e-7. */
static void test_exp2_split(void) {
    static const int cases[][3] = {{2, 1, 128}, {2, 0, 128}, {8, 2, 128}, {5, 0, 128},
                                   {0, 0, 128}, {8, 3, 128}, {8, 0, 127}};
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        int pairs = cases[n][0], first = cases[n][1], keys = cases[n][2];
        attention a = attention_problem(FA4_F32, 1, 1, keys, 1, 1, 8, 128);
        a.request.problem.scale = 0.6931471805599453;
        a.request.schedule.exp2_emulated_pairs = pairs;
        a.request.schedule.exp2_first_fragment = first;
        attention_create(&a, 1);
        fill_all(&a.t.q, 0), fill_all(&a.t.k, 0), fill_all(&a.t.v, 0);
        attention_set(&a.t.q, 0, 0, 0, 0, 1);
        for (int key = 0; key < keys; key++) {
            attention_set(&a.t.k, 0, key, 0, 0, key == 0 ? 0.5 : 0);
            attention_set(&a.t.v, 0, key, 0, key, 1);
        }
        for (int i = 0; i < bench_count; i++) {
            run_on(&benches[i], &a, "exp2 split");
            int wrong = 0;
            for (int key = 1; key < keys; key++) {
                double error = attention_get(&a.t.o, 0, 0, 0, key) /
                                   attention_get(&a.t.o, 0, 0, 0, 0) / sqrt(0.5) -
                               1;
                int cubic = keys == 128 && key / 32 >= first && key / 32 < 3 &&
                            key % 16 / 2 * 2 >= 16 - 2 * pairs;
                wrong += cubic ? fabs(error + 7.7e-5) > 3e-6 : fabs(error) > 6e-7;
            }
            CHECK(wrong == 0, "%s %d pairs from fragment %d: %d weights by the wrong form",
                  benches[i].path, pairs, first, wrong);
        }
        attention_destroy(&a);
    }
}

/* Weights 1 and 2^-1/2: the product with V sees 181/256, the nearest of both formats, the sum does
 * not. */
static void test_rounded_weights(void) {
    for (int32_t dtype = FA4_F16; dtype <= FA4_BF16; dtype++) {
        attention a = attention_problem(dtype, 1, 1, 2, 1, 1, 8, 8);
        a.request.problem.scale = 0.6931471805599453;
        attention_create(&a, 1);
        free(a.t.o.data);
        a.t.o = attention_tensor(FA4_F32, 1, 1, 1, 8);
        fill_all(&a.t.q, 0), fill_all(&a.t.k, 0), fill_all(&a.t.v, 0);
        attention_set(&a.t.q, 0, 0, 0, 0, 1), attention_set(&a.t.k, 0, 0, 0, 0, 0.5);
        attention_set(&a.t.v, 0, 1, 0, 0, 1);
        for (int i = 0; i < bench_count; i++) {
            run_on(&benches[i], &a, "rounded weights");
            double want = 181.0 / 256 / (1 + sqrt(0.5)), got = attention_get(&a.t.o, 0, 0, 0, 0);
            CHECK(fabs(got - want) < 1e-6, "%s dtype %d: %.8g, not %.8g", benches[i].path, dtype,
                  got, want);
        }
        attention_destroy(&a);
    }
}

/* Visible scores that are all -inf count as no key; the row's later keys then count as its first.
 */
static void test_scores_of_minus_infinity(void) {
    for (int variant = 0; variant < 2; variant++) {
        attention a = attention_problem(FA4_F32, 1, 140, 140, 1, 1, 16, 16);
        attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
        a.request.schedule.row_max = variant ? FA4_ROW_MAX_FIRST_BLOCK : FA4_ROW_MAX_EACH_BLOCK;
        a.request.schedule.kv_order = FA4_KV_FORWARD;
        attention_create(&a, 9);
        fill_all(&a.t.q, 1);
        for (int key = 0; key < 130; key++)
            fill_row(&a.t.k, key, -INFINITY);
        attention_expect(&a);
        CHECK(a.lse[129] == -INFINITY && isfinite(a.lse[130]), "expected values");
        check_all(&a, "scores of -inf");
        CHECK(a.total.rescaled_rows == 10, "%d rows left -inf", (int)a.total.rescaled_rows);
        attention_destroy(&a);
    }
}

static uint64_t hash_of(const fa4_tensor *t, int64_t bytes) {
    uint64_t hash = 14695981039346656037u;
    for (int64_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const uint8_t *)t->data)[i]) * 1099511628211u;
    return hash;
}

/* One instruction set gives the same bits for any thread count, order and assignment of tasks. */
static void test_same_bits(void) {
    attention a = attention_problem(FA4_F16, 2, 300, 300, 6, 2, 64, 64);
    attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
    attention_create(&a, 12);
    int64_t o_bytes = 2 * 300 * 6 * 64 * 2, lse_bytes = 2 * 6 * 300 * 4;
    for (int i = 0; i < bench_count; i++) {
        uint64_t o = 0, lse = 0;
        for (int variant = 0; variant < 7; variant++) {
            bench x;
            open_bench(&x, benches[i].path, variant % 3 + 1);
            a.request.schedule.tile_order = variant < 3 ? FA4_ORDER_LINEAR : FA4_ORDER_LPT;
            a.request.schedule.threads = variant == 5 ? 2 : 0;
            memset(a.t.o.data, 0xff, (size_t)o_bytes),
                memset(a.t.lse.data, 0xff, (size_t)lse_bytes);
            free(a.plan);
            a.plan = NULL;
            run_on(&x, &a, "same bits");
            fa4_task *tasks = (fa4_task *)(uintptr_t)plan_tasks(a.plan);
            if (variant >= 4) { // Lists of workers, more than there are threads, and free tasks
                                // among them; backwards.
                for (int64_t n = 0; n < a.plan->header.task_count; n++)
                    tasks[n].worker = (int32_t)(n % 5) - 1;
                for (int64_t n = 0, m = a.plan->header.task_count - 1; n < m; n++, m--) {
                    fa4_task task = tasks[n];
                    tasks[n] = tasks[m], tasks[m] = task;
                }
                memset(a.t.o.data, 0xff, (size_t)o_bytes);
                run_on(&x, &a, "lists");
            }
            if (variant == 0) o = hash_of(&a.t.o, o_bytes), lse = hash_of(&a.t.lse, lse_bytes);
            CHECK(hash_of(&a.t.o, o_bytes) == o && hash_of(&a.t.lse, lse_bytes) == lse,
                  "%s variant %d", x.path, variant);
            close_bench(&x);
        }
    }
    attention_destroy(&a);
}

/* Equal values come out equal, the largest stay finite in 16 bits. */
static void test_bounds(void) {
    for (int32_t dtype = FA4_F16; dtype <= FA4_F32; dtype++) {
        attention a = attention_problem(dtype, 1, 140, 1000, 1, 1, 64, 64);
        double value = dtype == FA4_F16 ? 65504 : dtype == FA4_BF16 ? 0x1.fep100 : 7;
        attention_create(&a, 21);
        fill_all(&a.t.v, value);
        for (int i = 0; i < bench_count; i++) {
            run_on(&benches[i], &a, "bounds");
            int wrong = 0;
            for (int64_t r = 0; r < 140; r++)
                wrong += attention_get(&a.t.o, 0, r, 0, 7) != value;
            CHECK(wrong == 0, "%s dtype %d: %d rows differ from %g", benches[i].path, dtype, wrong,
                  value);
        }
        attention_destroy(&a);
    }
}

static void test_errors(void) {
    const char *path;
    fa4_error err = {0};
    CHECK(cpu_choose_path("sse9", &path, &err) == FA4_BAD_ARGUMENT &&
              strstr(err.text, "sse9") != NULL,
          "%s", err.text);
    CHECK(cpu_choose_path("scalar", &path, &err) == FA4_OK && strcmp(path, "scalar") == 0, "%s",
          path);
    char usable[64]; // The best first.
    cpu_usable_paths(usable, sizeof usable);
    usable[strcspn(usable, " ")] = '\0';
    CHECK(cpu_choose_path(NULL, &path, &err) == FA4_OK && strcmp(path, usable) == 0, "%s, not %s",
          path, usable);
    attention a = attention_problem(FA4_F32, 1, 4096, 4096, 4, 4, 64, 64);
    attention_create(&a, 1);
    benches[0].interrupt = 1;
    CHECK(attention_run(&a, &cpu_backend, benches[0].b, &err) == FA4_INTERRUPTED, "%s", err.text);
    benches[0].interrupt = 0;
    attention_destroy(&a);
}

/* A safetensors file of our own: 8 bytes of length, JSON, data; the one file and its key order are
 * known. */
static int load_real(attention *a) {
    FILE *f = fopen(FA4_SOURCE_DIR "/scripts/data/real_qkv.safetensors", "rb");
    if (f == NULL) return 0;
    uint64_t length = 0;
    char *header = NULL;
    int good = fread(&length, 8, 1, f) == 1 && length < 1 << 20 &&
               (header = calloc(1, length + 1)) != NULL;
    good = good && fread(header, 1, length, f) == length;
    const char *names[] = {"\"q\"", "\"k\"", "\"v\""};
    fa4_tensor *tensors[] = {&a->t.q, &a->t.k, &a->t.v};
    for (int i = 0; i < 3 && good; i++) {
        const char *entry = strstr(header, names[i]),
                   *offsets = entry == NULL ? NULL : strstr(entry, "data_offsets");
        long start, end;
        good = offsets != NULL && sscanf(offsets, "data_offsets\":[%ld,%ld]", &start, &end) == 2;
        good = good && fseek(f, (long)(8 + length) + start, SEEK_SET) == 0;
        good =
            good && fread(tensors[i]->data, 1, (size_t)(end - start), f) == (size_t)(end - start);
    }
    free(header);
    fclose(f);
    return good;
}

static void test_real_counts(void) {
    static const int thresholds[] = {0, 4, 8, 12, 15}, rows[] = {9718, 4454, 2465, 1795, 1451},
                     warps[] = {589, 418, 250, 152, 97};
    static const int heads_at_8[] = {0, 0, 2, 13, 14, 0, 450, 986, 1000};
    attention a = attention_problem(FA4_F16, 1, 1024, 1024, 9, 3, 64, 64);
    attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
    attention_create(&a, 1);
    CHECK(load_real(&a), "scripts/data/real_qkv.safetensors");
    for (int i = 0; i < bench_count; i++) {
        const char *path = benches[i].path;
        for (int n = 0; n < 5; n++) {
            free(a.plan), a.plan = NULL;
            a.request.schedule.kv_order = FA4_KV_REVERSE;
            a.request.schedule.rescale_threshold = thresholds[n];
            run_on(&benches[i], &a, "real data");
            CHECK(a.total.rescaled_rows == rows[n] && a.total.rescaled_warps == warps[n],
                  "%s threshold %d: %d rows, %d warps", path, thresholds[n],
                  (int)a.total.rescaled_rows, (int)a.total.rescaled_warps);
            CHECK(fabs(lse_of(&a, 6, 1023) - 5.567110528) < 1e-5, "%s LSE %.9g", path,
                  lse_of(&a, 6, 1023));
            CHECK(a.total.exponent_max <= thresholds[n] &&
                      a.total.p_max <= exp2(thresholds[n]) * 1.0001,
                  "%s exponent %g P %g", path, a.total.exponent_max, a.total.p_max);
            for (int h = 0; h < 9 && thresholds[n] == 8; h++)
                CHECK(a.per_head[h].rescaled_rows == heads_at_8[h], "%s head %d: %d", path, h,
                      (int)a.per_head[h].rescaled_rows);
            if (thresholds[n] != 0 && thresholds[n] != 8) continue;
            free(a.plan), a.plan = NULL;
            a.request.schedule.kv_order = FA4_KV_FORWARD;
            run_on(&benches[i], &a, "real data forward");
            CHECK(a.total.rescaled_rows == (n == 0 ? 1692 : 3), "%s forward: %d", path,
                  (int)a.total.rescaled_rows);
        }
    }
    attention_destroy(&a);
}

/* An argument is the number of generated problems. */
int main(int argc, char **argv) {
    static const char *const all[BENCHES_MAX] = {"scalar", "avx2", "avx512", "avx512_bf16"};
    for (int i = 0; i < BENCHES_MAX; i++) {
        fa4_error err;
        const char *path;
        if (cpu_choose_path(all[i], &path, &err) == FA4_OK)
            open_bench(&benches[bench_count++], path, 2);
        else
            CHECK_SKIP("%s", err.text);
    }
    test_shapes();
    test_generated(argc > 1 ? atoi(argv[1]) : 120);
    test_strides();
    test_bits();
    test_late_first_key();
    test_known_answers();
    test_extreme_scales();
    test_exp2_split();
    test_rounded_weights();
    test_not_finite();
    test_far_scores();
    test_infinite_under_vanishing_weights();
    test_scores_of_minus_infinity();
    test_rises();
    test_same_bits();
    test_bounds();
    test_errors();
    test_real_counts();
    for (int i = 0; i < bench_count; i++)
        close_bench(&benches[i]);
    return check_report();
}
