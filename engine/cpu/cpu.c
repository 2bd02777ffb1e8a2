/* The CPU backend's face: open by instruction set, say what is supported, host memory, and the peak
 * of the vector units. */
#include "cpu/cpu_run.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static cpu_backend_state *state_of(backend *b) {
    return (cpu_backend_state *)(void *)b;
}

static fa4_status open_cpu(const backend_env *env, const char *device, backend **out,
                           fa4_error *err) {
    const char *path;
    *out = NULL;
    (void)device; // There is one.
    FA4_TRY(cpu_choose_path(env->cpu, &path, err));
    cpu_backend_state *state = calloc(1, sizeof *state);
    if (state == NULL) return error_set(err, FA4_NO_MEMORY, "cpu: no memory for the backend");
    state->env = *env;
    state->kernel = cpu_kernel_find(path);
    *out = (backend *)(void *)state;
    return FA4_OK;
}

static void close_cpu(backend *b) {
    if (b == NULL) return;
    for (int i = 0; i < CPU_MEMORIES; i++)
        free(state_of(b)->memory[i].data);
    free(b);
}

static void limits_of_cpu(const backend *b, plan_limits *limits) {
    const cpu_backend_state *state = (const cpu_backend_state *)(const void *)b;
    *limits = (plan_limits){.backend = FA4_BACKEND_CPU,
                            .device = "cpu",
                            .sms = pool_threads(state->env.workers),
                            .l2_bytes = INT64_C(1) << 20,
                            .tiles_per_task = 1};
}

static fa4_status supports(const backend *b, const fa4_plan *plan, fa4_error *err) {
    const fa4_plan_header *h = &plan->header;
    const fa4_problem *p = &h->problem;
    (void)b;
    if (p->dtype != FA4_F32 && p->dtype != FA4_F16 && p->dtype != FA4_BF16)
        return error_set(err, FA4_UNSUPPORTED, "dtype: cpu runs f32, f16 and bf16");
    if (p->dim % 8 != 0 || p->dim > CPU_DIM_MAX || p->dim < 8)
        return error_set(err, FA4_UNSUPPORTED, "dim: cpu runs multiples of 8 from 8 to %d, got %d",
                         CPU_DIM_MAX, p->dim);
    if (p->dim_v % 8 != 0 || p->dim_v > CPU_DIM_MAX || p->dim_v < 8)
        return error_set(err, FA4_UNSUPPORTED,
                         "dim_v: cpu runs multiples of 8 from 8 to %d, got %d", CPU_DIM_MAX,
                         p->dim_v);
    if (h->schedule.tile_keys != CPU_KEYS || h->schedule.tile_rows > CPU_ROWS_MAX)
        return error_set(err, FA4_UNSUPPORTED,
                         "tile: cpu runs up to %d rows by %d keys, got %d by %d", CPU_ROWS_MAX,
                         CPU_KEYS, h->schedule.tile_rows, h->schedule.tile_keys);
    if (h->bit_tile_count > 0 && h->schedule.tile_rows > 128)
        return error_set(err, FA4_UNSUPPORTED,
                         "tile_rows: bit masks need tiles of 128 rows, got %d",
                         h->schedule.tile_rows);
    return FA4_OK;
}

static fa4_status buffer_create(backend *b, int64_t bytes, void **buffer, fa4_error *err) {
    (void)b;
    *buffer = NULL;
    if (bytes < 0 || bytes > INT64_MAX - 64)
        return error_set(err, FA4_BAD_ARGUMENT, "bytes: cannot be %lld", (long long)bytes);
    *buffer = aligned_alloc(64, (size_t)cpu_round_up(bytes > 0 ? bytes : 1, 64));
    if (*buffer == NULL)
        return error_set(err, FA4_NO_MEMORY, "cpu: no memory for %lld bytes", (long long)bytes);
    return FA4_OK;
}

static void buffer_destroy(backend *b, void *buffer, int64_t bytes) {
    (void)b, (void)bytes;
    free(buffer);
}

static fa4_status buffer_write(backend *b, void *buffer, int64_t offset, const void *host,
                               int64_t bytes, fa4_error *err) {
    (void)b;
    if (offset < 0 || bytes < 0)
        return error_set(err, FA4_BAD_ARGUMENT, "offset and bytes: expected 0 or more");
    if (bytes > 0) memcpy((char *)buffer + offset, host, (size_t)bytes);
    return FA4_OK;
}

static fa4_status buffer_read(backend *b, const void *buffer, int64_t offset, void *host,
                              int64_t bytes, fa4_error *err) {
    (void)b;
    if (offset < 0 || bytes < 0)
        return error_set(err, FA4_BAD_ARGUMENT, "offset and bytes: expected 0 or more");
    if (bytes > 0) memcpy(host, (const char *)buffer + offset, (size_t)bytes);
    return FA4_OK;
}

static fa4_status run(backend *b, const fa4_plan *plan, const fa4_tensors *tensors,
                      fa4_report *report, fa4_counters *per_head, fa4_error *err) {
    return cpu_run(state_of(b), plan, tensors, report, per_head, err);
}

static fa4_status launch(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, void *stream, fa4_error *err) {
    (void)b, (void)plan, (void)tensors, (void)stream;
    return error_set(err, FA4_UNSUPPORTED, "launch: the CPU has no streams to queue work on; use fa4_run");
}

static fa4_status finish(backend *b, fa4_error *err) {
    (void)b, (void)err;
    return FA4_OK;
}

const backend_functions cpu_backend = {.name = "cpu",
                                       .open = open_cpu,
                                       .close = close_cpu,
                                       .limits = limits_of_cpu,
                                       .supports = supports,
                                       .buffer_create = buffer_create,
                                       .buffer_destroy = buffer_destroy,
                                       .buffer_write = buffer_write,
                                       .buffer_read = buffer_read,
                                       .run = run,
                                       .launch = launch,
                                       .finish = finish};

/* ---- peak ---- */

enum { PEAK_REPEATS = 12 };
#define PEAK_ROUNDS INT64_C(400000)

typedef double (*burn_function)(int64_t rounds, volatile float *sink);

typedef struct peak_state {
    burn_function burn;
    double operations; /* of one worker */
} peak_state;

static void peak_item(void *argument, int64_t item, int32_t worker) {
    peak_state *state = argument;
    volatile float sink = 0.5f;
    double operations = state->burn(PEAK_ROUNDS, &sink);
    (void)worker;
    if (item == 0) state->operations = operations;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The best of several short runs: noise only ever slows one down. */
static fa4_status best_gflops(pool *workers, int32_t threads, burn_function burn, double *gflops,
                              fa4_error *err) {
    peak_state state = {burn, 0.0};
    *gflops = 0.0;
    for (int i = 0; i < PEAK_REPEATS; i++) {
        double start = seconds();
        FA4_TRY(pool_run(workers, threads, threads, peak_item, &state, NULL, NULL, err));
        double rate = state.operations * threads / (seconds() - start) * 1e-9;
        if (rate > *gflops) *gflops = rate;
    }
    return FA4_OK;
}

fa4_status cpu_peak(pool *workers, int32_t threads, const char *path, double *gflops_f32,
                    double *gflops_bf16, fa4_error *err) {
    const char *chosen;
    FA4_TRY(cpu_choose_path(path, &chosen, err));
    const cpu_kernel *kernel = cpu_kernel_find(chosen);
    int32_t count =
        threads < 1 || threads > pool_threads(workers) ? pool_threads(workers) : threads;
    FA4_TRY(best_gflops(workers, count, kernel->burn_f32, gflops_f32, err));
    if (gflops_bf16 == NULL) return FA4_OK;
    *gflops_bf16 = 0.0;
    if (!kernel->pairs) return FA4_OK;
    return best_gflops(workers, count, kernel->burn_bf16, gflops_bf16, err);
}
