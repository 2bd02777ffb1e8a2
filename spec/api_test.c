/* The public C interface, as an embedder uses it: contexts, files, plans, runs, reports and validation, on real activations. */
#include "fa4.h"

#include "check.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const data_path = FA4_SOURCE_DIR "/scripts/data/real_qkv.safetensors";

/* What one thread works with. */
typedef struct session {
    fa4_context *context;
    fa4_file *file;
    fa4_storage *held[3];
    fa4_tensors t;
    fa4_request request;
    float *o, *lse;
} session;

static fa4_tensor contiguous(void *data, int32_t dtype, int32_t rank, int64_t a, int64_t b, int64_t c, int64_t d) {
    fa4_tensor t = {.data = data, .dtype = dtype, .rank = rank, .shape = {a, b, c, d}};
    int64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        t.strides[i] = stride;
        stride *= t.shape[i];
    }
    return t;
}

static int open_session(session *s) {
    fa4_error err = {0};
    memset(s, 0, sizeof *s);
    CHECK(fa4_context_open(NULL, &s->context, &err) == FA4_OK, "%s", err.text);
    if (s->context == NULL) return 0;
    CHECK(fa4_file_open(s->context, data_path, 0, &s->file, &err) == FA4_OK, "%s", err.text);
    if (s->file == NULL) return 0;
    fa4_tensor *const to[3] = {&s->t.q, &s->t.k, &s->t.v};
    for (int64_t i = 0; i < fa4_file_count(s->file); i++)
        for (int n = 0; n < 3; n++)
            if (strcmp(fa4_file_name(s->file, i), (const char *[]){"q", "k", "v"}[n]) == 0)
                CHECK(fa4_file_tensor(s->file, i, to[n], &s->held[n], &err) == FA4_OK, "%s", err.text);
    s->o = calloc(1024 * 9 * 64, sizeof *s->o);
    s->lse = calloc(9 * 1024, sizeof *s->lse);
    s->t.o = contiguous(s->o, FA4_F32, 4, 1, 1024, 9, 64);
    s->t.lse = contiguous(s->lse, FA4_F32, 3, 1, 9, 1024, 0);
    s->request.device = "cpu";
    s->request.problem = (fa4_problem){.batch = 1, .seqlen_q = 1024, .seqlen_kv = 1024, .heads_q = 9, .heads_kv = 3, .dim = 64,
                                       .dim_v = 64, .dtype = FA4_F16, .lse = 1, .scale = 0.125, .mask_nodes = 1};
    s->request.problem.mask[0].kind = FA4_MASK_CAUSAL;
    fa4_schedule_default(&s->request.schedule);
    return 1;
}

static void close_session(session *s) {
    fa4_context_close(s->context); /* first: storages keep what they need */
    for (int n = 0; n < 3; n++) fa4_storage_release(s->held[n]);
    fa4_file_close(s->file);
    free(s->o);
    free(s->lse);
}

/* The data's own README: sum of O, O[row 1023, channel 0], LSE of rows 0 and 1023. */
static void check_reference(session *s) {
    static const struct {
        int head;
        double sum, o, lse0, lse1023;
    } want[] = {{0, -2842.994942891, -0.042201765, -0.003801351, 3.210499173},
                {6, 270.439109289, 0.180622174, -0.325604250, 5.567110528},
                {8, -411.731526822, 0.180665814, -0.321445044, 6.911400193}};
    double *o = malloc(1024 * 9 * 64 * sizeof *o), *lse = malloc(9 * 1024 * sizeof *lse);
    fa4_tensors t = s->t;
    t.o = contiguous(o, FA4_F64, 4, 1, 1024, 9, 64);
    t.lse = contiguous(lse, FA4_F64, 3, 1, 9, 1024, 0);
    fa4_error err = {0};
    CHECK(fa4_reference(s->context, &s->request, &t, &err) == FA4_OK, "%s", err.text);
    for (int n = 0; n < 3; n++) {
        double sum = 0;
        int head = want[n].head;
        for (int i = 0; i < 1024; i++)
            for (int d = 0; d < 64; d++) sum += o[(i * 9 + head) * 64 + d];
        CHECK(fabs(sum - want[n].sum) < 1e-8, "head %d: %.9f", head, sum);
        CHECK(fabs(o[(1023 * 9 + head) * 64] - want[n].o) < 1e-9, "head %d: %.9f", head, o[(1023 * 9 + head) * 64]);
        CHECK(fabs(lse[head * 1024] - want[n].lse0) < 1e-9, "head %d: %.9f", head, lse[head * 1024]);
        CHECK(fabs(lse[head * 1024 + 1023] - want[n].lse1023) < 1e-9, "head %d: %.9f", head, lse[head * 1024 + 1023]);
    }
    free(o);
    free(lse);
}

/* Runs at one threshold and order; 0 when something failed. */
static int run(session *s, double threshold, int32_t kv_order, fa4_report *report, fa4_counters heads[9]) {
    fa4_error err = {0};
    fa4_plan *plan = NULL;
    s->request.schedule.rescale_threshold = threshold;
    s->request.schedule.kv_order = kv_order;
    fa4_status status = fa4_plan_create(s->context, &s->request, &plan, &err);
    if (status == FA4_OK) status = fa4_run(s->context, plan, &s->t, report, heads, &err);
    CHECK(status == FA4_OK, "threshold %g: %s", threshold, err.text);
    fa4_plan_destroy(plan);
    return status == FA4_OK;
}

static void check_real_data(session *s) {
    static const struct {
        double threshold;
        int order, rows, warps;
        double rms;
    } want[] = {{0, FA4_KV_REVERSE, 9718, 589, 7.3e-5}, {4, FA4_KV_REVERSE, 4454, 418, 0},   {8, FA4_KV_REVERSE, 2465, 250, 9.6e-5},
                {12, FA4_KV_REVERSE, 1795, 152, 0},     {15, FA4_KV_REVERSE, 1451, 97, 1.04e-4}, {0, FA4_KV_FORWARD, 1692, -1, 0},
                {8, FA4_KV_FORWARD, 3, -1, 0}};
    fa4_error err = {0};
    fa4_validator *validator = NULL;
    CHECK(fa4_validator_create(s->context, &s->request, &s->t, &validator, &err) == FA4_OK, "%s", err.text);
    for (size_t n = 0; n < sizeof want / sizeof *want && validator != NULL; n++) {
        fa4_report report;
        fa4_counters heads[9];
        fa4_validation v;
        if (!run(s, want[n].threshold, want[n].order, &report, heads)) continue;
        CHECK(report.total.row_steps == 32256 && report.total.warp_steps == 1008, "%lld", (long long)report.total.row_steps);
        CHECK(report.total.rescaled_rows == want[n].rows, "threshold %g: %lld rows", want[n].threshold,
              (long long)report.total.rescaled_rows);
        if (want[n].warps >= 0)
            CHECK(report.total.rescaled_warps == want[n].warps, "threshold %g: %lld warps", want[n].threshold,
                  (long long)report.total.rescaled_warps);
        CHECK(fa4_validator_check(validator, &s->t, 1, &v, &err) == FA4_OK && v.pass, "threshold %g: ratio %g bound %g lse %g",
              want[n].threshold, v.ratio, v.bound, v.lse_error);
        if (want[n].rms > 0)
            CHECK(fabs(v.o_rms_error / want[n].rms - 1) < 0.05, "threshold %g: rms %g", want[n].threshold, v.o_rms_error);
        if (n == 2) CHECK(heads[6].rescaled_rows == 450 && heads[8].rescaled_rows == 1000 && heads[0].rescaled_rows == 0, "per head");
    }
    /* The validator must fail what is wrong. */
    fa4_validation v;
    float kept = s->o[12345];
    s->o[12345] = NAN;
    CHECK(validator && fa4_validator_check(validator, &s->t, 1, &v, &err) == FA4_OK && !v.pass && isnan(v.o_error), "NaN passes");
    s->o[12345] = kept + 0.05f;
    CHECK(validator && fa4_validator_check(validator, &s->t, 1, &v, &err) == FA4_OK && !v.pass && v.worst_kind == 1, "0.05 passes");
    CHECK(v.worst[1] == 12345 / 64 / 9 && v.worst[3] == 12345 % 64, "worst (%lld, %lld)", (long long)v.worst[1], (long long)v.worst[3]);
    s->o[12345] = kept;
    s->lse[77] += 0.01f;
    CHECK(validator && fa4_validator_check(validator, &s->t, 1, &v, &err) == FA4_OK && !v.pass && v.worst_kind == 2, "LSE passes");
    fa4_validator_destroy(validator);
}

static void check_bad_input(session *s) {
    fa4_error err = {0};
    fa4_plan *plan = NULL;
    CHECK(fa4_plan_create(s->context, &s->request, &plan, &err) == FA4_OK, "%s", err.text);
    fa4_tensors t = s->t;
    t.q.dtype = FA4_F32;
    CHECK(fa4_run(s->context, plan, &t, NULL, NULL, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "q: expected dtype f16"), "%s", err.text);
    t = s->t;
    t.k.shape[1] = 1000;
    CHECK(fa4_run(s->context, plan, &t, NULL, NULL, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "k: axis 1"), "%s", err.text);
    t = s->t;
    t.v.strides[3] = 2;
    CHECK(fa4_run(s->context, plan, &t, NULL, NULL, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "v: the last axis"), "%s", err.text);
    t = s->t;
    t.o.dtype = FA4_F16;
    t.o.data = s->t.q.data;
    CHECK(fa4_run(s->context, plan, &t, NULL, NULL, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "o: it overlaps q"), "%s", err.text);
    t = s->t;
    t.o.strides[1] = 0;
    CHECK(fa4_run(s->context, plan, &t, NULL, NULL, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "stride 0"), "%s", err.text);
    t = s->t;
    t.q.strides[1] = INT64_C(1) << 61;
    CHECK(fa4_run(s->context, plan, &t, NULL, NULL, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "q."), "%s", err.text);
    fa4_validation v;
    CHECK(fa4_validate(s->context, &s->request, &t, &v, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "q."), "%s", err.text);
    t = s->t;
    t.q.data = (char *)s->t.q.data + 1;
    CHECK(fa4_run(s->context, plan, &t, NULL, NULL, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "q."), "%s", err.text);
    t = s->t;
    t.q.rank = 99;
    CHECK(fa4_run(s->context, plan, &t, NULL, NULL, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "rank"), "%s", err.text);
    t = s->t;
    t.q.data = NULL;
    CHECK(fa4_run(s->context, plan, &t, NULL, NULL, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "q: its data is NULL"), "%s", err.text);
    fa4_plan_destroy(plan);
    CHECK(fa4_device_check(s->context, "gpu7", &err) == FA4_NO_DEVICE && strstr(err.text, "gpu7"), "%s", err.text);
    *fa4_context_interrupt(s->context) = 1;
    CHECK(fa4_plan_create(s->context, &s->request, &plan, &err) == FA4_INTERRUPTED, "not interrupted");
    *fa4_context_interrupt(s->context) = 0;
    fa4_context *none = NULL;
    CHECK(fa4_context_open(&(fa4_context_options){.threads = -3}, &none, &err) == FA4_BAD_ARGUMENT, "threads -3");
    CHECK(fa4_context_open(&(fa4_context_options){.cpu = "mmx"}, &none, &err) != FA4_OK && strstr(err.text, "mmx"), "%s", err.text);
}

/* Visible scores that are all -inf count as no key; one -inf among finite scores weighs nothing. */
static void check_minus_infinity(fa4_context *context) {
    enum { KEYS = 130, DIM = 8 };
    static float q[2 * DIM], k[KEYS * DIM], v[KEYS * DIM], o[2 * DIM], lse[2];
    for (int d = 0; d < 2 * DIM; d++) q[d] = 1;
    for (int i = 0; i < KEYS * DIM; i++) k[i] = -INFINITY, v[i] = 7;
    fa4_request r = {.device = "cpu", .problem = {.batch = 1, .seqlen_q = 2, .seqlen_kv = KEYS, .heads_q = 1, .heads_kv = 1, .dim = DIM,
                                                  .dim_v = DIM, .dtype = FA4_F32, .lse = 1, .scale = 1, .mask_nodes = 1}};
    r.problem.mask[0].kind = FA4_MASK_CAUSAL;
    fa4_schedule_default(&r.schedule);
    fa4_tensors t = {contiguous(q, FA4_F32, 4, 1, 2, 1, DIM), contiguous(k, FA4_F32, 4, 1, KEYS, 1, DIM), contiguous(v, FA4_F32, 4, 1, KEYS, 1, DIM),
                     contiguous(o, FA4_F32, 4, 1, 2, 1, DIM), contiguous(lse, FA4_F32, 3, 1, 1, 2, 0)};
    for (int row_max = 0; row_max < 2; row_max++)
        for (int finite = 0; finite < 2; finite++) {
            for (int d = 0; d < DIM; d++) k[(KEYS - 1) * DIM + d] = finite ? 0.25f : -INFINITY; /* seen by row 1 alone */
            fa4_plan *plan = NULL;
            fa4_error err = {0};
            r.schedule.row_max = row_max;
            fa4_status status = fa4_plan_create(context, &r, &plan, &err);
            if (status == FA4_OK) status = fa4_run(context, plan, &t, NULL, NULL, &err);
            CHECK(status == FA4_OK, "%s", err.text);
            CHECK(o[0] == 0 && lse[0] == -INFINITY, "row_max %d: row 0: %g, LSE %g", row_max, o[0], lse[0]);
            CHECK(finite ? o[DIM] == 7 && lse[1] == 2 : o[DIM] == 0 && lse[1] == -INFINITY, "row_max %d: row 1: %g, LSE %g", row_max, o[DIM], lse[1]);
            fa4_plan_destroy(plan);
        }
}

static void *run_thread(void *state) {
    session *s = state;
    fa4_report report;
    fa4_plan *plan = NULL;
    fa4_error err;
    for (int n = 0; n < 5; n++) {
        if (fa4_plan_create(s->context, &s->request, &plan, &err) != FA4_OK) return NULL;
        fa4_status status = fa4_run(s->context, plan, &s->t, &report, NULL, &err);
        fa4_plan_destroy(plan);
        if (status != FA4_OK || report.total.rescaled_rows != 2465) return NULL;
    }
    return s;
}

static void check_two_threads(void) {
    session s[2];
    pthread_t thread[2];
    void *result[2] = {NULL, NULL};
    for (int n = 0; n < 2; n++) open_session(&s[n]);
    for (int n = 0; n < 2; n++) pthread_create(&thread[n], NULL, run_thread, &s[n]);
    for (int n = 0; n < 2; n++) pthread_join(thread[n], &result[n]);
    for (int n = 0; n < 2; n++) CHECK(result[n] != NULL, "context %d in a thread of its own", n);
    CHECK(memcmp(s[0].o, s[1].o, 1024 * 9 * 64 * sizeof(float)) == 0, "the two results differ");
    for (int n = 0; n < 2; n++) close_session(&s[n]);
}

/* Finalizers run in any order: a session outlives its module's and its context's handles, and steps on. */
static void check_emu_session_outlives_module(void) {
    static const char text[] = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry seven()\n{\n.reg .b32 %r<2>;\n"
                               "mov.u32 %r1, 7;\nadd.u32 %r1, %r1, %r1;\nret;\n}\n";
    fa4_error err = {0};
    fa4_context *context = NULL;
    fa4_emu_module *module = NULL;
    fa4_emu_session *stepped = NULL;
    fa4_emu_launch launch = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
    CHECK(fa4_emu_session_open(NULL, &launch, 0, &stepped, &err) == FA4_BAD_ARGUMENT, "a session of no module: %s", err.text);
    CHECK(fa4_context_open(NULL, &context, &err) == FA4_OK, "%s", err.text);
    CHECK(fa4_emu_load(context, text, sizeof text - 1, &module, &err) == FA4_OK, "%s", err.text);
    CHECK(fa4_emu_session_open(module, &launch, 0, &stepped, &err) == FA4_OK, "%s", err.text);
    fa4_emu_close(module);
    fa4_context_close(context);
    if (stepped == NULL) return;
    int32_t done = -1, bits = 0;
    uint64_t values[32] = {0};
    CHECK(fa4_emu_session_step(stepped, -1, 1, NULL, 0, &done, &err) == FA4_OK && done == 0, "one step: %s", err.text);
    CHECK(fa4_emu_session_register(stepped, 0, "%r1", values, &bits, &err) == FA4_OK && values[31] == 7, "%%r1 is %d: %s", (int)values[31], err.text);
    CHECK(fa4_emu_session_step(stepped, -1, 9, NULL, 0, &done, &err) == FA4_OK && done == 3, "to the end: %d %s", done, err.text);
    fa4_emu_session_close(stepped);
}

int main(void) {
    session s;
    if (open_session(&s)) {
        check_reference(&s);
        check_real_data(&s);
        check_bad_input(&s);
        check_minus_infinity(s.context);
    }
    close_session(&s);
    check_two_threads();
    check_emu_session_outlives_module();
    return check_report();
}
