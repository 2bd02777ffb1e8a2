/* The CPU backend on every instruction set of this machine against attention in double, and its counters on real data. */
#include "check.h"
#include "attention.h"
#include "cpu/cpu.h"

#include <stdio.h>

typedef struct bench {
    pool *workers;
    backend *b;
    const char *path;
} bench;

static bench open_bench(const char *path, int32_t threads) {
    bench x = {.path = path};
    fa4_error err = {0};
    CHECK(pool_create(threads, &x.workers, &err) == FA4_OK, "%s", err.text);
    backend_env env = {.workers = x.workers, .cpu = path};
    CHECK(cpu_backend.open(&env, "cpu", &x.b, &err) == FA4_OK, "%s", err.text);
    return x;
}

static void close_bench(bench *x) {
    cpu_backend.close(x->b);
    pool_destroy(x->workers);
}

/* Runs and compares; 1 when right. */
static int agrees(bench *x, attention *a, const char *what) {
    fa4_error err = {0};
    fa4_status status = attention_run(a, &cpu_backend, x->b, &err);
    CHECK(status == FA4_OK, "%s %s: %s", x->path, what, err.text);
    if (status != FA4_OK) return 0;
    double error = attention_error(a);
    CHECK(error <= 1.0, "%s %s: error is %g of its bound", x->path, what, error);
    return error <= 1.0;
}

static void test_shapes(bench *x) {
    static const int64_t shapes[][6] = {
        {1, 1, 1, 1, 1, 8},       {1, 128, 128, 2, 2, 64},  {2, 200, 300, 4, 2, 64}, {1, 5, 700, 3, 1, 40},
        {1, 300, 129, 6, 2, 128}, {1, 257, 200, 2, 1, 256}, {1, 64, 0, 2, 1, 64},    {1, 33, 1000, 8, 1, 72},
    };
    char what[128];
    for (int32_t dtype = FA4_F16; dtype <= FA4_F32; dtype++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            for (int mask = 0; mask < 6; mask++) {
                const int64_t *s = shapes[i];
                int32_t dim_v = i % 2 ? (int32_t)s[5] : 8 + 8 * (int32_t)(s[5] / 16);
                attention a = attention_problem(dtype, s[0], s[1], s[2], (int32_t)s[3], (int32_t)s[4], (int32_t)s[5], dim_v);
                if (mask == 1) attention_mask(&a, FA4_MASK_CAUSAL, 0, 0);
                if (mask == 2) attention_mask(&a, FA4_MASK_WINDOW, 40, 20);
                if (mask == 3) attention_mask(&a, FA4_MASK_DOCUMENT, 0, 0);
                if (mask == 4) attention_mask(&a, FA4_MASK_PREFIX, s[2] / 2, 0);
                if (mask == 5) a.request.schedule.row_max = FA4_ROW_MAX_FIRST_BLOCK;
                for (int j = 0; j < 4096; j++) a.mask_data[j] = j / 37 % 3;
                a.request.schedule.kv_order = (int32_t)i % 3;
                if (i == 3) a.request.problem.soft_cap = 1.5;
                if (i == 4) a.request.problem.scale = -0.2;
                if (i == 5) a.request.schedule.gqa_packing = 0;
                if (i == 7) a.request.schedule.kv_splits = 3;
                attention_create(&a, 100 + i);
                attention_expect(&a);
                snprintf(what, sizeof what, "dtype %d shape %zu mask %d", dtype, i, mask);
                agrees(x, &a, what);
                attention_destroy(&a);
            }
}

int main(void) {
    char paths[64], *rest = NULL;
    cpu_usable_paths(paths, sizeof paths);
    for (char *path = strtok_r(paths, " ", &rest); path != NULL; path = strtok_r(NULL, " ", &rest)) {
        bench x = open_bench(path, 2);
        test_shapes(&x);
        close_bench(&x);
    }
    return check_report();
}
