/* The GPU backend on a fake driver: the whole launch path, names and refusals, and every driver call made to fail in turn. */
#include "check.h"
#include "cuda/cuda.h"
#include "fake_cuda.h"
#include "kernel/launch.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static fake_cuda *fake;
static volatile int32_t interrupt;
static const backend_env env = {.interrupt = &interrupt};

static void reset(void) {
    int32_t live = fake->live;
    int64_t bytes = fake->live_bytes;
    memset(fake, 0, sizeof *fake);
    *fake = (fake_cuda){.major = 9, .minor = 0, .devices = 2, .fail_code = 1, .memory_bytes = 1ll << 30, .live = live, .live_bytes = bytes};
    interrupt = 0;
}

/* A problem, its plan and tensors on the device. */
typedef struct job {
    backend *b;
    fa4_plan *plan;
    void *buffers[5];
    fa4_tensors tensors;
    fa4_report report;
    fa4_counters per_head[8];
} job;

enum { BATCH = 2, SEQ = 300, HEADS = 4, DIM = 128, TENSOR_BYTES = BATCH * SEQ * HEADS * DIM * 2 };

static fa4_status make_plan(job *j, int32_t counters, int64_t queries, fa4_error *err) {
    fa4_request request = {.problem = {.batch = BATCH, .seqlen_q = queries, .seqlen_kv = SEQ, .heads_q = HEADS, .heads_kv = HEADS, .dim = DIM,
                                       .dim_v = DIM, .dtype = FA4_F16, .lse = 1, .scale = 0.1, .mask_nodes = 1}};
    request.problem.mask[0].kind = FA4_MASK_CAUSAL;
    fa4_schedule_default(&request.schedule);
    request.schedule.counters = counters;
    if (queries < SEQ) request.schedule.kv_splits = 3;
    plan_limits limits = {0};
    cuda_backend.limits(j->b, &limits);
    FA4_TRY(plan_create(&request, &limits, NULL, &j->plan, err));
    return cuda_backend.supports(j->b, j->plan, err);
}

static fa4_tensor view(void *data, int32_t dtype, int64_t heads_at, int64_t seq_at) {
    fa4_tensor t = {.data = data, .dtype = dtype, .rank = 4, .device = 1};
    t.shape[0] = BATCH, t.shape[heads_at] = HEADS, t.shape[seq_at] = SEQ, t.shape[3] = DIM;
    t.strides[3] = 1, t.strides[2] = t.shape[3], t.strides[1] = t.shape[2] * t.strides[2], t.strides[0] = t.shape[1] * t.strides[1];
    return t;
}

static fa4_status make_tensors(job *j, fa4_error *err) {
    for (int i = 0; i < 5; i++) FA4_TRY(cuda_backend.buffer_create(j->b, TENSOR_BYTES, &j->buffers[i], err));
    fa4_tensor *all[4] = {&j->tensors.q, &j->tensors.k, &j->tensors.v, &j->tensors.o};
    for (int i = 0; i < 4; i++) *all[i] = view(j->buffers[i], FA4_F16, 2, 1);
    j->tensors.lse = (fa4_tensor){.data = j->buffers[4], .dtype = FA4_F32, .rank = 3, .device = 1, .shape = {BATCH, HEADS, SEQ},
                                  .strides = {HEADS * SEQ, SEQ, 1}};
    return FA4_OK;
}

static fa4_status use_job(job *j, fa4_error *err) {
    unsigned char host[64] = {1, 2, 3}, back[64];
    FA4_TRY(cuda_backend.buffer_write(j->b, j->buffers[0], 128, host, sizeof host, err));
    FA4_TRY(cuda_backend.buffer_read(j->b, j->buffers[0], 128, back, sizeof back, err));
    if (memcmp(host, back, sizeof host) != 0) return error_set(err, FA4_INTERNAL, "bytes changed on the way");
    return cuda_backend.run(j->b, j->plan, &j->tensors, &j->report, j->per_head, err);
}

static void end_job(job *j) {
    for (int i = 0; i < 5; i++)
        if (j->b != NULL) cuda_backend.buffer_destroy(j->b, j->buffers[i], TENSOR_BYTES);
    fa4_plan_destroy(j->plan);
    cuda_backend.close(j->b);
    memset(j, 0, sizeof *j);
}

static fa4_status begin_job(job *j, int32_t counters, fa4_error *err) {
    memset(j, 0, sizeof *j);
    FA4_TRY(cuda_backend.open(&env, "cuda:0", &j->b, err));
    FA4_TRY(make_plan(j, counters, SEQ, err));
    return make_tensors(j, err);
}

static void test_launch(void) {
    job j;
    fa4_error err = {0};
    reset();
    CHECK(begin_job(&j, 1, &err) == FA4_OK, "%s", err.text);
    fa4_status used = use_job(&j, &err);
    CHECK(used == FA4_OK, "%s", err.text);
    if (used != FA4_OK) return; /* nothing was launched that could be looked at */
    FwdParams params;
    memcpy(&params, fake->params, sizeof params);
    FwdVariant variant;
    kernel_variant_of_plan(j.plan, 0, &variant);
    CHECK(fake->launches == 1 && fake->maps == 4, "%d launches, %d maps", fake->launches, fake->maps);
    CHECK(fake->grid == BATCH * HEADS * 3 && fake->block == 384, "grid %u, block %u", fake->grid, fake->block);
    CHECK((int32_t)fake->smem_bytes == kernel_variant_smem_bytes(&variant) && fake->smem_bytes > 200000, "%u", fake->smem_bytes);
    CHECK(params.seqlen_q == SEQ && params.task_count == BATCH * HEADS * 3 && params.take == FWD_TAKE_COUNTER, "take %d", params.take);
    CHECK(params.lse == (uint64_t)(uintptr_t)j.buffers[4] && params.lse_strides[1] == SEQ, "%lld", (long long)params.lse_strides[1]);
    CHECK(params.map[0].word[0] == 0x5a5a5a5a5a5a5a5aull, "the driver's map");
    const FwdTask *task = (const FwdTask *)(uintptr_t)params.tasks;
    CHECK(task->steps == 3 && task->tile == 2, "the longest tile comes first, got %d steps of tile %d", task->steps, task->tile);
    CHECK(j.report.time_us == 125.0 && strcmp(j.report.path, "sm_90a") == 0, "%g us, %s", j.report.time_us, j.report.path);
    CHECK(strcmp(j.report.device, "cuda:0 Fake GPU") == 0, "%s", j.report.device);
    int32_t before = fake->calls;
    CHECK(cuda_backend.run(j.b, j.plan, &j.tensors, &j.report, j.per_head, &err) == FA4_OK, "%s", err.text);
    /* enter, counters set, event, launch, event, query, elapsed, counters read and waited for: no map, no look-up */
    CHECK(fake->calls - before <= 10 && fake->launches == 2 && fake->maps == 4, "a second run makes %d calls", fake->calls - before);
    j.tensors.k.device = 0;
    CHECK(cuda_backend.run(j.b, j.plan, &j.tensors, &j.report, j.per_head, &err) == FA4_BAD_ARGUMENT, "a host tensor");
    CHECK(strstr(err.text, "k: ") == err.text && strstr(err.text, "host memory") != NULL, "%s", err.text);
    end_job(&j);
    CHECK(fake->live == 0 && fake->live_bytes == 0, "%d things are left, %lld bytes", fake->live, (long long)fake->live_bytes);
}

/* Without a report a run is queued: one launch, and the wait comes with the next read. What the report needs is not asked for. */
static void test_queue(void) {
    job j;
    fa4_error err = {0};
    unsigned char back[64];
    reset();
    CHECK(begin_job(&j, 0, &err) == FA4_OK && use_job(&j, &err) == FA4_OK, "%s", err.text);
    int32_t before = fake->calls;
    fake->not_ready = -1;
    CHECK(cuda_backend.run(j.b, j.plan, &j.tensors, NULL, NULL, &err) == FA4_OK, "%s", err.text);
    CHECK(fake->calls - before == 2, "entering and launching, got %d calls", fake->calls - before);
    fake->not_ready = 5000;
    CHECK(cuda_backend.buffer_read(j.b, j.buffers[3], 0, back, sizeof back, &err) == FA4_OK && fake->not_ready == 0, "%s", err.text);
    CHECK(cuda_backend.run(j.b, j.plan, &j.tensors, NULL, NULL, &err) == FA4_OK, "%s", err.text);
    fake->not_ready = -1;
    interrupt = 1;
    CHECK(cuda_backend.finish(j.b, &err) == FA4_INTERRUPTED, "Ctrl-C while waiting for queued work: %s", err.text);
    interrupt = 0;
    fake->not_ready = 0;
    CHECK(cuda_backend.finish(j.b, &err) == FA4_OK, "%s", err.text);
    before = fake->calls;
    CHECK(cuda_backend.finish(j.b, &err) == FA4_OK && fake->calls == before, "nothing is left to wait for");
    /* Another tensor: new maps, once. */
    before = fake->maps;
    j.tensors.o.data = j.buffers[0], j.tensors.q.data = j.buffers[3];
    for (int i = 0; i < 2; i++) CHECK(cuda_backend.run(j.b, j.plan, &j.tensors, NULL, NULL, &err) == FA4_OK, "%s", err.text);
    CHECK(fake->maps == before + 4, "%d maps", fake->maps - before);
    end_job(&j);
    CHECK(fake->live == 0 && fake->live_bytes == 0, "%d things are left", fake->live);
}

/* Short queries over many keys: two launches, the parts in a workspace behind the plan's lists. */
static void test_split(void) {
    job j;
    fa4_error err = {0};
    reset();
    CHECK(begin_job(&j, 0, &err) == FA4_OK, "%s", err.text);
    fa4_plan_destroy(j.plan);
    CHECK(make_plan(&j, 0, 5, &err) == FA4_OK, "%s", err.text);
    int32_t splits = j.plan->header.schedule.kv_splits;
    CHECK(splits == 3 && j.plan->header.schedule.tile_rows == 64, "%d parts, tiles of %d rows", splits, j.plan->header.schedule.tile_rows);
    j.tensors.q.shape[1] = j.tensors.o.shape[1] = 5;
    CHECK(cuda_backend.run(j.b, j.plan, &j.tensors, &j.report, j.per_head, &err) == FA4_OK, "%s", err.text);
    FwdParams params;
    memcpy(&params, fake->params, sizeof params);
    CHECK(fake->launches == 2 && fake->grid == BATCH * HEADS * 5 && fake->block == FWD_COMBINE_THREADS, "%d launches, grid %u", fake->launches, fake->grid);
    CHECK(params.kv_splits == 3 && params.task_count == BATCH * HEADS * 3, "%d tasks", params.task_count);
    CHECK(params.partial_rows - params.partial_o == (uint64_t)BATCH * HEADS * 64 * 3 * DIM * 4, "%llu bytes of O",
          (unsigned long long)(params.partial_rows - params.partial_o));
    end_job(&j);
    CHECK(fake->live == 0 && fake->live_bytes == 0, "%d things are left", fake->live);
}

/* Freed memory is used again, given back when it is missing elsewhere, and when the device is closed. */
static void test_memory(void) {
    backend *b = NULL;
    fa4_error err = {0};
    void *first = NULL, *again = NULL, *large = NULL;
    reset();
    CHECK(cuda_backend.open(&env, "cuda:0", &b, &err) == FA4_OK, "%s", err.text);
    CHECK(cuda_backend.buffer_create(b, 100000, &first, &err) == FA4_OK, "%s", err.text);
    cuda_backend.buffer_destroy(b, first, 100000);
    int32_t before = fake->calls;
    CHECK(cuda_backend.buffer_create(b, 99000, &again, &err) == FA4_OK && again == first, "a block of its class is used again");
    CHECK(fake->calls - before == 1, "without asking the driver for memory: %d calls", fake->calls - before);
    cuda_backend.buffer_destroy(b, again, 99000);
    fake->memory_bytes = fake->live_bytes + (1 << 20);
    CHECK(cuda_backend.buffer_create(b, 1 << 20, &large, &err) == FA4_OK, "%s", err.text);
    cuda_backend.buffer_destroy(b, large, 1 << 20);
    fake->memory_bytes = fake->live_bytes;
    CHECK(cuda_backend.buffer_create(b, 500000, &large, &err) == FA4_OK, "kept blocks make room: %s", err.text);
    cuda_backend.buffer_destroy(b, large, 500000);
    cuda_backend.close(b);
    CHECK(fake->live == 0 && fake->live_bytes == 0, "%d things are left", fake->live);
}

/* Long copies go through pinned memory in pieces, and without it in one; the bytes are the same. */
static void test_copies(void) {
    enum { BYTES = (9 << 20) + 77 };
    unsigned char *host = malloc(BYTES), *back = malloc(BYTES);
    for (int32_t i = 0; i < BYTES; i++) host[i] = (unsigned char)(i * 7 + i / 4099);
    for (int32_t no_pinned = 0; no_pinned < 2; no_pinned++) {
        backend *b = NULL;
        void *buffer = NULL;
        fa4_error err = {0};
        reset();
        fake->no_pinned = no_pinned;
        CHECK(cuda_backend.open(&env, "cuda:0", &b, &err) == FA4_OK && cuda_backend.buffer_create(b, BYTES, &buffer, &err) == FA4_OK, "%s", err.text);
        memset(back, 0, BYTES);
        CHECK(cuda_backend.buffer_write(b, buffer, 0, host, BYTES, &err) == FA4_OK, "%s", err.text);
        CHECK(cuda_backend.buffer_read(b, buffer, 0, back, BYTES, &err) == FA4_OK && memcmp(host, back, BYTES) == 0, "%s", err.text);
        interrupt = 1;
        fake->not_ready = -1;
        if (!no_pinned) CHECK(cuda_backend.buffer_write(b, buffer, 0, host, BYTES, &err) == FA4_INTERRUPTED, "Ctrl-C while copying: %s", err.text);
        interrupt = 0;
        fake->not_ready = 0;
        cuda_backend.buffer_destroy(b, buffer, BYTES);
        cuda_backend.close(b);
        CHECK(fake->live == 0, "%d things are left", fake->live);
    }
    free(host);
    free(back);
}

/* Call n fails; all others work. The error names it, nothing is lost, and what was open works afterwards. */
static bool fail_call(int32_t n) {
    job j;
    fa4_error err = {0};
    reset();
    fake->fail_at = n;
    fa4_status status = begin_job(&j, 1, &err);
    if (status == FA4_OK) status = use_job(&j, &err);
    bool reached = fake->failed[0] != '\0';
    char call[64];
    snprintf(call, sizeof call, "%.*s", (int)strcspn(fake->failed, "_"), fake->failed);
    if (reached) {
        CHECK(status != FA4_OK, "call %d, %s, failed unnoticed", n, fake->failed);
        CHECK(strstr(err.text, call) != NULL || status == FA4_NO_MEMORY, "call %d: \"%s\" does not name %s", n, err.text, call);
        if (j.b != NULL && j.tensors.lse.data != NULL) CHECK(use_job(&j, &err) == FA4_OK, "after %s failed: %s", fake->failed, err.text);
    }
    fake->fail_at = 0;
    end_job(&j);
    CHECK(fake->live == 0, "after call %d, %s, failed %d things are left", n, fake->failed, fake->live);
    return reached;
}

static void test_failures(void) {
    int32_t n = 1;
    while (n < 500 && fail_call(n)) n++;
    CHECK(n > 40 && n < 500, "%d calls were made to fail", n - 1);
}

static void test_lasting(void) {
    job j;
    fa4_error err = {0};
    reset();
    CHECK(begin_job(&j, 0, &err) == FA4_OK && use_job(&j, &err) == FA4_OK, "%s", err.text);
    for (int32_t ahead = 1; ahead < 40; ahead++) { /* the query behind the launch */
        fake->failed[0] = '\0';
        fake->fail_code = 719;
        fake->fail_at = fake->calls + ahead;
        fa4_status status = cuda_backend.run(j.b, j.plan, &j.tensors, &j.report, j.per_head, &err);
        if (strcmp(fake->failed, "cuEventQuery") == 0 || status != FA4_OK) break;
    }
    CHECK(strstr(err.text, "refuse further work") != NULL && strstr(err.text, "CUDA_ERROR_LAUNCH_FAILED (719)") != NULL, "%s", err.text);
    fake->fail_at = 0;
    CHECK(use_job(&j, &err) == FA4_DEVICE_ERROR && strstr(err.text, "start a new process") != NULL, "%s", err.text);
    end_job(&j);
    CHECK(fake->live == 0, "%d", fake->live);
}

static void test_interrupt(void) {
    job j;
    fa4_error err = {0};
    reset();
    CHECK(begin_job(&j, 0, &err) == FA4_OK, "%s", err.text);
    fake->not_ready = -1;
    interrupt = 1;
    CHECK(use_job(&j, &err) == FA4_INTERRUPTED, "%s", err.text);
    interrupt = 0;
    fake->not_ready = 3000;
    CHECK(use_job(&j, &err) == FA4_OK, "%s", err.text);
    FwdParams params;
    memcpy(&params, fake->params, sizeof params);
    CHECK(*(const int32_t *)(uintptr_t)params.next_task == 0, "the task counter is set anew after a cut run");
    end_job(&j);
}

/* A launch on the caller's stream: one call once kernel and lists are there, nothing waited for. */
static void test_queued(void) {
    job j;
    fa4_error err = {0};
    int mine;
    reset();
    CHECK(begin_job(&j, 0, &err) == FA4_OK, "%s", err.text);
    CHECK(cuda_backend.launch(j.b, j.plan, &j.tensors, &mine, &err) == FA4_OK && fake->stream == &mine, "%s", err.text);
    int32_t before = fake->calls;
    CHECK(cuda_backend.launch(j.b, j.plan, &j.tensors, &mine, &err) == FA4_OK && fake->launches == 2, "%s", err.text);
    CHECK(fake->calls - before <= 6, "a queued launch makes %d calls", fake->calls - before); /* context, four maps, launch */
    fake->fail_at = fake->calls + fake->calls - before;
    CHECK(cuda_backend.launch(j.b, j.plan, &j.tensors, &mine, &err) != FA4_OK && strstr(err.text, fake->failed) != NULL, "%s", err.text);
    fake->fail_at = 0;
    end_job(&j);
    CHECK(fake->live == 0, "%d", fake->live);
}

static void test_refusals(void) {
    static const struct refusal {
        int32_t major, minor;
        const char *device, *text;
    } refusals[] = {
        {8, 0, "cuda:0", "capability 8.0"},        {10, 3, "cuda:0", "capability 10.3"},     {12, 0, "cuda:0", "capability 12.0"},
        {9, 0, "cuda:sm_100a", "capability 9.0"},  {10, 0, "cuda:sm_90a", "capability 10.0"}, {9, 0, "cuda:7", "there is no cuda:7"},
        {9, 0, "cuda:x", "\"cuda:x\" is not known"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        backend *b = NULL;
        fa4_error err = {0};
        reset();
        fake->major = refusals[i].major, fake->minor = refusals[i].minor;
        CHECK(cuda_backend.open(&env, refusals[i].device, &b, &err) == FA4_NO_DEVICE && b == NULL, "%s", refusals[i].device);
        CHECK(strstr(err.text, refusals[i].text) != NULL, "%s", err.text);
        if (refusals[i].text[0] == 'c') CHECK(strstr(err.text, "Fake GPU") && strstr(err.text, "\"cpu\""), "%s", err.text);
        CHECK(fake->live == 0, "%d", fake->live);
    }
    reset();
    fake->devices = 0;
    backend *b = NULL;
    fa4_error err = {0};
    CHECK(cuda_backend.open(&env, "cuda", &b, &err) == FA4_NO_DEVICE, "%s", err.text);
    reset();
    CHECK(cuda_backend.open(&env, "cuda:sm_90a", &b, &err) == FA4_OK, "%s", err.text);
    void *buffer = NULL;
    CHECK(cuda_backend.buffer_create(b, 1ll << 40, &buffer, &err) == FA4_NO_MEMORY && strstr(err.text, "1099511627776"), "%s", err.text);
    cuda_backend.close(b);
    setenv("FA4_LIBCUDA", "/nowhere/libcuda.so", 1);
    CHECK(cuda_backend.open(&env, "cuda", &b, &err) == FA4_NO_DEVICE && strstr(err.text, "no CUDA driver") != NULL, "%s", err.text);
    setenv("FA4_LIBCUDA", FA4_FAKE_CUDA, 1);
}

/* Runs need a kernel: from the library's catalogue, the cache, or NVRTC. */
static bool kernel_is_here(void) {
    job j;
    fa4_error err = {0};
    reset();
    fa4_status status = begin_job(&j, 1, &err);
    if (status == FA4_OK) status = use_job(&j, &err);
    end_job(&j);
    if (status == FA4_NO_DEVICE) printf("launches are not tested here: %s\n", err.text);
    return status != FA4_NO_DEVICE;
}

int main(void) {
    setenv("FA4_LIBCUDA", FA4_FAKE_CUDA, 1);
    void *library = dlopen(FA4_FAKE_CUDA, RTLD_NOW);
    void *symbol = library != NULL ? dlsym(library, "fake_cuda_state") : NULL;
    fake_cuda_state_function get;
    if (symbol == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    memcpy(&get, &symbol, sizeof get);
    fake = get();
    test_refusals();
    test_memory();
    test_copies();
    if (kernel_is_here()) {
        test_launch();
        test_queue();
        test_split();
        test_failures();
        test_lasting();
        test_interrupt();
        test_queued();
    }
    return check_report();
}
