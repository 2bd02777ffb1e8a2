/*
 * What is shown on a GPU and nowhere else; not part of the suite. Work goes to child processes, each with a context of its own.
 *   device_run drawn COUNT FIRST    drawn problems against the double reference; outputs twice, bit-equal
 *   device_run record FILE          exact and ordinary problems on the GPU, both builds; held to the CPU and the emulator; FILE = h200.txt
 *   device_run repeats COUNT        20 shapes, COUNT runs of each, the same bits
 *   device_run delays               roles that sleep at random (delay_roles) change no bit
 *   device_run sanitize COUNT       COUNT drawn problems once each, in one process: for compute-sanitizer
 *   device_run calls                host time of a small call
 * The last line says how many passed. FA4_RUN_DEVICE (default "cuda") may name another device, to try all this without a GPU.
 */
#include "check.h"
#include "device/problems.h"
#include "device/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS_MAX = 64, SHAPES = 20 };

/* What children leave for their parent. */
typedef struct shared {
    int32_t passed[WORKERS_MAX], failed[WORKERS_MAX];
    double worst_ratio[WORKERS_MAX], worst_difference[WORKERS_MAX];
    int64_t equal[WORKERS_MAX]; /* ordinary problems with the emulator's bits */
    char lines[2 * FIXED_PROBLEMS][RECORD_LINE_BYTES];
} shared;

typedef struct worker {
    shared *shared;
    int32_t number, count; /* of how many */
    fa4_context *context;
    const char *device;
    int64_t problems, first;
} worker;

static void copy_out(const problem *p, void *copies[2]) {
    for (int i = 0; i < 2; i++) {
        copies[i] = malloc((size_t)p->bytes[3 + i]);
        memcpy(copies[i], p->memory[3 + i], (size_t)p->bytes[3 + i]);
    }
}
static bool same_out(const problem *p, void *const copies[2]) {
    return memcmp(copies[0], p->memory[3], (size_t)p->bytes[3]) == 0 && memcmp(copies[1], p->memory[4], (size_t)p->bytes[4]) == 0;
}
static void free_out(void *copies[2]) { free(copies[0]), free(copies[1]); }

/* ---- drawn problems ---- */

static double value_at(const fa4_tensor *t, int64_t offset) {
    double x = NAN;
    fa4_tensor one = *t;
    const int64_t zero[1] = {0};
    one.rank = 1, one.shape[0] = 1, one.strides[0] = 1;
    one.data = (char *)t->data + offset * fa4_dtype_bytes(t->dtype);
    fa4_tensor_get(&one, zero, &x, NULL);
    return x;
}

/* Special keys: NaN where the reference has NaN, else near it. */
static const char *check_special(worker *w, problem *p, fa4_error *err) {
    const fa4_problem *x = &p->request.problem;
    fa4_request r = p->request;
    fa4_tensors want = p->t;
    r.device = "cpu";
    int64_t rows = x->batch * x->seqlen_q * x->heads_q;
    want.o = (fa4_tensor){.data = calloc((size_t)(rows * x->dim) + 1, 8), .dtype = FA4_F64, .rank = 4, .shape = {x->batch, x->seqlen_q, x->heads_q, x->dim},
                          .strides = {x->seqlen_q * x->heads_q * x->dim, x->heads_q * x->dim, x->dim, 1}};
    want.lse = (fa4_tensor){.data = calloc((size_t)rows + 1, 8), .dtype = FA4_F64, .rank = 3, .shape = {x->batch, x->heads_q, x->seqlen_q},
                            .strides = {x->heads_q * x->seqlen_q, x->seqlen_q, 1}};
    const char *wrong = fa4_reference(w->context, &r, &want, err) != FA4_OK ? err->text : NULL;
    for (int64_t n = 0; n < rows * x->dim && wrong == NULL; n++) {
        int64_t d = n % x->dim, h = n / x->dim % x->heads_q, i = n / x->dim / x->heads_q % x->seqlen_q, b = n / x->dim / x->heads_q / x->seqlen_q;
        double ref = ((double *)want.o.data)[n];
        double got = value_at(&p->t.o, b * p->t.o.strides[0] + i * p->t.o.strides[1] + h * p->t.o.strides[2] + d);
        if (isnan(ref) ? !isnan(got) : !(fabs(got - ref) < 0.06)) wrong = "beside special keys an output differs in kind or value";
    }
    free(want.o.data), free(want.lse.data);
    return wrong;
}

static const char *check_drawn(worker *w, problem *p, fa4_validation *v, fa4_error *err) {
    fa4_request r = p->request;
    r.device = "cpu";
    void *copies[2];
    if (problem_run(w->context, p, w->device, NULL, err) != FA4_OK) return err->text;
    copy_out(p, copies);
    fa4_status status = problem_run(w->context, p, w->device, NULL, err);
    bool same = status == FA4_OK && same_out(p, copies);
    free_out(copies);
    if (status != FA4_OK) return err->text;
    if (!same) return "a second run has other bits";
    if (p->special) return check_special(w, p, err);
    if (fa4_validate(w->context, &r, &p->t, v, err) != FA4_OK) return err->text;
    return v->pass ? NULL : "wrong";
}

static void work_drawn(worker *w) {
    for (int64_t n = w->first; n < w->first + w->problems; n++) {
        if (problem_variant(PROBLEM_DRAWN, n) % w->count != w->number) continue;
        problem p;
        fa4_validation v;
        fa4_error err = {0};
        memset(&v, 0, sizeof v);
        problem_make(PROBLEM_DRAWN, n, &p);
        const char *wrong = check_drawn(w, &p, &v, &err);
        CHECK(wrong == NULL, "%s: %s (ratio %g, bound %g, lse %g, o[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "] = %g, not %g)", p.text, wrong, v.ratio,
              v.bound, v.lse_error, v.worst[0], v.worst[1], v.worst[2], v.worst[3], v.worst_got, v.worst_want);
        if (!p.special) w->shared->worst_ratio[w->number] = fmax(w->shared->worst_ratio[w->number], v.ratio);
        problem_free(&p);
    }
}

/* ---- records ---- */

static void hold_exact(worker *w, problem *p, record *r) {
    static const char *const others[2] = {"cpu", "emu:sm_90a"};
    fa4_report report, other;
    fa4_error err = {0};
    void *copies[2];
    copy_out(p, copies);
    p->request.schedule.counters = 1;
    fa4_status status = problem_run(w->context, p, w->device, &report, &err);
    CHECK(status == FA4_OK && same_out(p, copies), "%s: the counting build has other bits %s", p->text, err.text);
    const fa4_counters *c = &report.total;
    r->rescaled_rows = c->rescaled_rows, r->spared_rows = c->spared_rows, r->rescaled_warps = c->rescaled_warps, r->max_fixups = c->max_fixups;
    for (int d = 0; d < 2; d++) {
        status = problem_run(w->context, p, others[d], &other, &err);
        CHECK(status == FA4_OK && same_out(p, copies), "%s: %s has other bits %s", p->text, others[d], err.text);
        const fa4_counters *o = &other.total;
        CHECK(c->rescaled_rows == o->rescaled_rows && c->spared_rows == o->spared_rows && c->rescaled_warps == o->rescaled_warps &&
                  c->tiles == o->tiles && c->blocks_visited == o->blocks_visited && c->row_steps == o->row_steps && c->warp_steps == o->warp_steps,
              "%s: decisions: %s rescales %" PRId64 " rows, %" PRId64 " warps, the device %" PRId64 ", %" PRId64, p->text, others[d], o->rescaled_rows,
              o->rescaled_warps, c->rescaled_rows, c->rescaled_warps);
    }
    /* Control: V moved by one row. */
    int64_t step = p->t.v.strides[1] * 2;
    if (p->t.v.shape[1] > 1) {
        memmove(p->memory[2], (char *)p->memory[2] + step, (size_t)(p->bytes[2] - step));
        status = problem_run(w->context, p, w->device, NULL, &err);
        CHECK(status == FA4_OK && !same_out(p, copies), "%s: V shifted by a row gives the same O %s", p->text, err.text);
    }
    free_out(copies);
}

static double difference(const problem *p, const fa4_tensor *t, const void *other, int64_t offset, double *allowed) {
    fa4_tensor there = *t;
    there.data = (void *)(uintptr_t)other;
    double x = value_at(t, offset), y = value_at(&there, offset);
    *allowed = t->rank == 4 ? problem_bound(p, x, y) : problem_bound_lse(p, y);
    return x == y ? 0 : fabs(x - y);
}

/* Every element of O and LSE beside the emulator's. */
static void hold_ordinary(worker *w, problem *p) {
    fa4_error err = {0};
    void *copies[2];
    copy_out(p, copies);
    fa4_status status = problem_run(w->context, p, "emu:sm_90a", NULL, &err);
    CHECK(status == FA4_OK, "%s: %s", p->text, err.text);
    w->shared->equal[w->number] += status == FA4_OK && same_out(p, copies);
    int64_t beyond = 0;
    for (int i = 3; i < 5 && status == FA4_OK; i++) {
        const fa4_tensor *t = problem_tensor(p, i);
        for (int64_t e = 0; e < p->bytes[i] / fa4_dtype_bytes(t->dtype); e++) {
            if (memcmp((char *)p->memory[i] + e * fa4_dtype_bytes(t->dtype), (char *)copies[i - 3] + e * fa4_dtype_bytes(t->dtype),
                       (size_t)fa4_dtype_bytes(t->dtype)) == 0)
                continue;
            double allowed, gap = difference(p, t, copies[i - 3], e, &allowed);
            beyond += !(gap <= allowed);
            w->shared->worst_difference[w->number] = fmax(w->shared->worst_difference[w->number], gap / allowed);
        }
    }
    CHECK(beyond == 0, "%s: %" PRId64 " elements differ from the emulator's beyond the bound", p->text, beyond);
    free_out(copies);
}

static void work_record(worker *w) {
    for (int64_t n = 0; n < 2 * FIXED_PROBLEMS; n++) {
        record r;
        problem p;
        fa4_error err = {0};
        problem_kind kind = n < FIXED_PROBLEMS ? PROBLEM_EXACT : PROBLEM_ORDINARY;
        int64_t number = n % FIXED_PROBLEMS;
        if (problem_variant(kind, number) % w->count != w->number) continue;
        problem_make(kind, number, &p);
        fa4_status status = problem_fix_schedule(w->context, &p, &err);
        if (status == FA4_OK) status = problem_run(w->context, &p, w->device, NULL, &err);
        CHECK(status == FA4_OK, "%s: %s", p.text, err.text);
        if (status == FA4_OK) {
            record_take(&p, &r);
            r.kind = kind, r.number = number;
            if (kind == PROBLEM_EXACT) hold_exact(w, &p, &r);
            else hold_ordinary(w, &p);
            record_print(&r, w->shared->lines[n]);
        }
        problem_free(&p);
    }
}

/* ---- repeats ---- */

/* Shapes from one tile to many a CTA; each dtype, dim and way of the maximum with full, causal, window and bit masks. */
static void shape_of(int32_t n, problem *p) {
    static const int64_t lengths[5][2] = {{128, 640}, {1024, 1024}, {2048, 2048}, {777, 1300}, {1, 4096}};
    problem_make(PROBLEM_ORDINARY, (n * 7 + 3) % 32, p);
    fa4_request r = p->request;
    problem_free(p);
    memset(p, 0, sizeof *p);
    p->request = r;
    fa4_problem *x = &p->request.problem;
    x->batch = 2, x->seqlen_q = lengths[n % 5][0], x->seqlen_kv = lengths[n % 5][1];
    x->heads_kv = 4, x->heads_q = r.schedule.gqa_packing ? 16 : 4;
    x->dim = x->dim_v = x->dim > 64 ? 128 : 64;
    x->mask_nodes = n % 3 != 0;
    x->mask[0] = (fa4_mask_node){.kind = n % 3 == 1 ? FA4_MASK_CAUSAL : FA4_MASK_WINDOW, .left = 300, .right = 40};
    p->request.schedule.workers = n % 4 == 3 ? 7 : 0;
    p->request.schedule.tile_rows = p->request.schedule.kv_splits = -1;
    int64_t shapes[5] = {x->heads_q, x->heads_kv, x->heads_kv, x->heads_q, 1}, rows[5] = {x->seqlen_q, x->seqlen_kv, x->seqlen_kv, x->seqlen_q, 0};
    for (int i = 0; i < 4; i++) {
        fa4_tensor *t = problem_tensor(p, i);
        *t = (fa4_tensor){.dtype = x->dtype, .rank = 4, .shape = {x->batch, rows[i], shapes[i], x->dim},
                          .strides = {rows[i] * shapes[i] * x->dim, shapes[i] * x->dim, x->dim, 1}};
        p->bytes[i] = x->batch * t->strides[0] * 2;
    }
    p->t.lse = (fa4_tensor){.dtype = FA4_F32, .rank = 3, .shape = {x->batch, x->heads_q, x->seqlen_q}, .strides = {x->heads_q * x->seqlen_q, x->seqlen_q, 1}};
    p->bytes[4] = x->batch * x->heads_q * x->seqlen_q * 4;
    for (int i = 0; i < 5; i++) {
        fa4_tensor *t = problem_tensor(p, i);
        t->data = p->memory[i] = aligned_alloc(128, (size_t)(p->bytes[i] + 255) / 128 * 128);
        if (i < 3) fa4_tensor_random(t, FA4_RANDOM_NORMAL, (uint64_t)(3 * n + i), i == 0 ? 3 : 1, NULL);
    }
}

/* Runs the plan `count` times on the same device memory, poisoned before the first; how many differ from that one. */
static int64_t repeat(worker *w, problem *p, fa4_error *err) {
    fa4_request r = p->request;
    fa4_plan *plan = NULL;
    fa4_storage *s[5] = {0};
    fa4_tensors t = p->t;
    fa4_tensor *const views[5] = {&t.q, &t.k, &t.v, &t.o, &t.lse};
    int64_t different = -1;
    void *first[2] = {NULL, NULL};
    r.device = w->device;
    fa4_status status = fa4_plan_create(w->context, &r, &plan, err);
    problem_clear(p);
    for (int i = 0; i < 5 && status == FA4_OK; i++) {
        status = fa4_storage_create(w->context, p->bytes[i], w->device, &s[i], err);
        if (status == FA4_OK) status = fa4_storage_write(s[i], 0, p->memory[i], p->bytes[i], err);
        views[i]->data = fa4_storage_data(s[i]);
        views[i]->device = strncmp(w->device, "cuda", 4) == 0;
    }
    for (int64_t n = 0; n < w->problems && status == FA4_OK; n++) {
        status = fa4_run(w->context, plan, &t, NULL, NULL, err);
        for (int i = 3; i < 5 && status == FA4_OK; i++) status = fa4_storage_read(s[i], 0, p->memory[i], p->bytes[i], err);
        if (n == 0) copy_out(p, first), different = 0;
        else different += status == FA4_OK && !same_out(p, first);
    }
    free_out(first);
    for (int i = 0; i < 5; i++) fa4_storage_release(s[i]);
    fa4_plan_destroy(plan);
    return status == FA4_OK ? different : -1;
}

static void work_repeats(worker *w) {
    for (int32_t n = w->number; n < SHAPES; n += w->count) {
        problem p;
        fa4_error err = {0};
        shape_of(n, &p);
        int64_t different = repeat(w, &p, &err);
        CHECK(different == 0, "shape %d: %" PRId64 " of %" PRId64 " runs differ from the first %s", n, different, w->problems, err.text);
        problem_free(&p);
    }
}

/* ---- delays ---- */

static void work_delays(worker *w) {
    static const int32_t roles[] = {1, 4, 16, 21}, variants[] = {0, 7, 14, 19, 26, 29, 33, 38};
    for (int64_t n = 0; n < 8 * FIXED_PROBLEMS / FIXED_VARIANTS; n++) {
        if (n % 8 % w->count != w->number) continue;
        problem p;
        fa4_error err = {0};
        void *copies[2];
        problem_make(PROBLEM_ORDINARY, variants[n % 8] + n / 8 * FIXED_VARIANTS, &p);
        fa4_status status = problem_run(w->context, &p, w->device, NULL, &err);
        CHECK(status == FA4_OK, "%s: %s", p.text, err.text);
        copy_out(&p, copies);
        for (int i = 0; i < 4 * 10 && status == FA4_OK; i++) {
            p.request.schedule.delay_roles = roles[i % 4];
            status = problem_run(w->context, &p, w->device, NULL, &err);
            CHECK(status == FA4_OK && same_out(&p, copies), "%s, delays in roles %d: other bits %s", p.text, roles[i % 4], err.text);
        }
        free_out(copies);
        problem_free(&p);
    }
}

/* ---- one process ---- */

/* Of the drawn problems the small ones, one a variant: every kind of kernel under the tools that watch each access. */
static void work_sanitize(worker *w) {
    int64_t done = 0;
    for (int64_t n = 0; done < w->problems && n < 100000; n++) {
        problem p;
        fa4_error err = {0};
        problem_make(PROBLEM_DRAWN, n, &p);
        const fa4_problem *x = &p.request.problem;
        int64_t size = x->batch * x->heads_q * x->seqlen_q * x->seqlen_kv;
        if (size > 0 && size < 300000 && problem_variant(PROBLEM_DRAWN, n) % (DRAWN_VARIANTS / 2) == done % (DRAWN_VARIANTS / 2)) {
            fa4_status status = problem_run(w->context, &p, w->device, NULL, &err);
            CHECK(status == FA4_OK, "%s: %s", p.text, err.text);
            done++;
        }
        problem_free(&p);
    }
    printf("%" PRId64 " configurations\n", done);
}

/* Host time of a small call: queued, and waited for. */
static void work_calls(worker *w) {
    enum { CALLS = 2000 };
    problem p;
    fa4_error err = {0};
    fa4_plan *plan = NULL;
    fa4_storage *s[5] = {0};
    problem_make(PROBLEM_ORDINARY, 0, &p);
    fa4_request r = p.request;
    fa4_tensors t = p.t;
    fa4_tensor *const views[5] = {&t.q, &t.k, &t.v, &t.o, &t.lse};
    fa4_report report = {0};
    r.device = w->device;
    fa4_status status = fa4_plan_create(w->context, &r, &plan, &err);
    for (int i = 0; i < 5 && status == FA4_OK; i++) {
        status = fa4_storage_create(w->context, p.bytes[i], w->device, &s[i], &err);
        if (status == FA4_OK) status = fa4_storage_write(s[i], 0, p.memory[i], p.bytes[i], &err);
        views[i]->data = fa4_storage_data(s[i]), views[i]->device = 1;
    }
    double queued = 0, waited = 0, kernel = 0;
    for (int n = 0; n < CALLS && status == FA4_OK; n++) {
        double from = fa4_clock_us();
        status = fa4_run(w->context, plan, &t, &report, NULL, &err);
        if (n >= CALLS / 2) waited += fa4_clock_us() - from, kernel += report.time_us;
    }
    for (int n = 0; n < CALLS && status == FA4_OK; n++) {
        double from = fa4_clock_us();
        status = fa4_launch(w->context, plan, &t, NULL, &err);
        if (n >= CALLS / 2) queued += fa4_clock_us() - from;
        if (n % 32 == 31) status = fa4_storage_read(s[3], 0, p.memory[3], 16, &err); /* never more than a few in the queue */
    }
    CHECK(status == FA4_OK, "%s", err.text);
    printf("%s\nfrom C, mean of %d calls: queued %.2f us, waited for %.2f us of which the kernel %.2f us\n", p.text, CALLS / 2, queued / (CALLS / 2),
           waited / (CALLS / 2), kernel / (CALLS / 2));
    for (int i = 0; i < 5; i++) fa4_storage_release(s[i]);
    fa4_plan_destroy(plan);
    problem_free(&p);
}

/* ---- processes ---- */

typedef struct mode {
    const char *name;
    void (*work)(worker *w);
    int32_t workers; /* 1: in this process */
    int64_t problems;
} mode;

static const mode modes[] = {{"drawn", work_drawn, 16, 2000},  {"record", work_record, 20, 0},   {"repeats", work_repeats, 10, 1000},
                             {"delays", work_delays, 8, 0},    {"sanitize", work_sanitize, 1, 48}, {"calls", work_calls, 1, 0}};

static int32_t run_worker(const mode *m, worker *w) {
    fa4_error err = {0};
    if (fa4_context_open(&(fa4_context_options){.threads = 1}, &w->context, &err) != FA4_OK || fa4_device_check(w->context, w->device, &err) != FA4_OK) {
        fprintf(stderr, "%s\n", err.text);
        check_failed++;
    } else {
        m->work(w);
    }
    fa4_context_close(w->context);
    w->shared->passed[w->number] = check_passed;
    w->shared->failed[w->number] = check_failed;
    return check_failed == 0 ? 0 : 1;
}

static void run_children(const mode *m, const worker *first) {
    pid_t children[WORKERS_MAX];
    for (int32_t c = 0; c < m->workers; c++) {
        children[c] = fork();
        if (children[c] != 0) continue;
        worker w = *first;
        w.number = c;
        _exit(run_worker(m, &w));
    }
    for (int32_t c = 0; c < m->workers; c++) {
        int status = 0;
        waitpid(children[c], &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) <= 1) continue;
        fprintf(stderr, "worker %d died with status %d\n", c, status);
        first->shared->failed[c]++;
    }
}

static void write_records(const shared *s, const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL) return perror(path);
    fprintf(file, "# An H200's answers to the numbered problems of problems.h: build/tests/device_run record FILE.\n"
                  "# e number inputs o lse rescaled_rows spared_rows rescaled_warps max_fixups; o number inputs o lse, samples of O, of LSE\n");
    for (int n = 0; n < 2 * FIXED_PROBLEMS; n++)
        if (s->lines[n][0] != '\0') fprintf(file, "%s\n", s->lines[n]);
    fclose(file);
}

int main(int argc, char **argv) {
    const mode *m = NULL;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (argc > 1 && strcmp(argv[1], modes[i].name) == 0) m = &modes[i];
    if (m == NULL) return fprintf(stderr, "usage: device_run drawn [COUNT [FIRST]] | record FILE | repeats [COUNT] | delays | sanitize [COUNT] | calls\n"), 2;
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) return perror("mmap"), 1;
    const char *device = getenv("FA4_RUN_DEVICE");
    worker first = {.shared = s, .count = m->workers, .device = device ? device : "cuda", .problems = m->problems};
    bool recording = m->work == work_record;
    if (argc > 2 && !recording) first.problems = atoll(argv[2]);
    if (argc > 3) first.first = atoll(argv[3]);
    if (m->workers == 1) (void)run_worker(m, &first);
    else run_children(m, &first);
    if (recording && argc > 2) write_records(s, argv[2]);
    double ratio = 0, gap = 0;
    int64_t equal = 0;
    check_passed = check_failed = 0;
    for (int32_t c = 0; c < m->workers; c++) {
        check_passed += s->passed[c], check_failed += s->failed[c], equal += s->equal[c];
        ratio = fmax(ratio, s->worst_ratio[c]), gap = fmax(gap, s->worst_difference[c]);
    }
    if (m->work == work_drawn) printf("worst ratio %.3f of the allowed 1\n", ratio);
    if (recording) printf("%" PRId64 " of %d ordinary problems bit-equal to the emulator, the largest difference %.3f of the bound\n", equal, FIXED_PROBLEMS, gap);
    return check_report();
}
