/*
 * consumer FILE.safetensors: strided, causal, grouped attention in f16 on real data, through the installed header alone. Prints what differs
 * from the values that an independent float64 computation gave; exit status 0 when all hold.
 *
 * q is copied to a layout of its own, (head, position, dim), and o has a gap after each row, so that strides matter.
 */
#include <fa4.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 1024, HEADS_Q = 9, HEADS_KV = 3, DIM = 64, GAP = 8, OUTPUT_ROW = HEADS_Q * DIM + GAP };

typedef struct expected {
    int head;
    double sum, last; /* of O; O[row 1023, channel 0] */
    double lse_first, lse_last;
} expected;

static const expected EXPECTED[] = {
    {0, -2842.994942891, -0.042201765, -0.003801351, 3.210499173},
    {6, 270.439109289, 0.180622174, -0.325604250, 5.567110528},
    {8, -411.731526822, 0.180665814, -0.321445044, 6.911400193},
};

static void die(const char *what, const fa4_error *err) {
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(1);
}

static int differs(const char *what, int head, double got, double want, double tolerance) {
    if (fabs(got - want) <= tolerance) return 0; // a NaN differs
    fprintf(stderr, "head %d: %s: got %.9g, want %.9g within %.2g\n", head, what, got, want, tolerance);
    return 1;
}

static double element(const fa4_tensor *t, int64_t row, int64_t head, int64_t dim) {
    double value = NAN;
    const int64_t index[4] = {0, row, head, dim};
    fa4_tensor_get(t, index, &value, NULL);
    return value;
}

static int compare(const fa4_tensors *t, const expected *want) {
    const float *lse = t->lse.data;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < LENGTH; i++)
        for (int64_t d = 0; d < DIM; d++) {
            double x = element(&t->o, i, want->head, d);
            sum += x;
            squares += x * x;
        }
    // Independent roundings to f16 of P and of O, each at most 2^-11 of an element: eight deviations of their sum.
    double tolerance = 8 * 0x1p-11 * sqrt(2 * squares);
    double row = element(&t->o, LENGTH - 1, want->head, 0);
    double first = lse[want->head * LENGTH], last = lse[want->head * LENGTH + LENGTH - 1];
    return differs("sum of O", want->head, sum, want->sum, tolerance) +
           differs("O[1023, 0]", want->head, row, want->last, 0x1p-11 * (1 + fabs(want->last)) + 2e-4) +
           differs("LSE[0]", want->head, first, want->lse_first, 1e-4) +
           differs("LSE[1023]", want->head, last, want->lse_last, 1e-4 * fabs(want->lse_last));
}

static fa4_tensor find(const fa4_file *file, const char *name) {
    fa4_tensor tensor = {0};
    fa4_error err = {0};
    for (int64_t i = 0; i < fa4_file_count(file); i++) {
        fa4_storage *storage;
        if (strcmp(fa4_file_name(file, i), name) != 0) continue;
        if (fa4_file_tensor(file, i, &tensor, &storage, &err) != FA4_OK) die(name, &err);
        // The storage's reference is kept until the process ends.
    }
    return tensor;
}

static fa4_request make_request(void) {
    fa4_request request;
    memset(&request, 0, sizeof request);
    request.device = "cpu";
    request.problem = (fa4_problem){.batch = 1, .seqlen_q = LENGTH, .seqlen_kv = LENGTH, .heads_q = HEADS_Q, .heads_kv = HEADS_KV,
                                    .dim = DIM, .dim_v = DIM, .dtype = FA4_F16, .lse = 1, .scale = 0.125, .mask_nodes = 1};
    request.problem.mask[0].kind = FA4_MASK_CAUSAL;
    fa4_schedule_default(&request.schedule);
    request.schedule.rescale_threshold = 8;
    return request;
}

int main(int argc, char **argv) {
    static uint16_t q_own[HEADS_Q * LENGTH * DIM], o_own[LENGTH * OUTPUT_ROW];
    static float lse_own[HEADS_Q * LENGTH];
    fa4_context *context;
    fa4_file *file;
    fa4_plan *plan;
    fa4_report report;
    fa4_error err = {0};
    int wrong = 0;
    if (argc != 2) return 2;
    if (fa4_context_open(NULL, &context, &err) != FA4_OK) die("context", &err);
    if (fa4_file_open(context, argv[1], 0, &file, &err) != FA4_OK) die("file", &err);

    fa4_tensors t = {.q = find(file, "q"), .k = find(file, "k"), .v = find(file, "v")};
    fa4_tensor q = t.q;
    q.data = q_own;
    q.strides[0] = HEADS_Q * LENGTH * DIM;
    q.strides[1] = DIM;
    q.strides[2] = LENGTH * DIM;
    q.strides[3] = 1;
    if (fa4_tensor_copy(&q, &t.q, &err) != FA4_OK) die("copy", &err);
    t.q = q;
    t.o = (fa4_tensor){.data = o_own, .dtype = FA4_F16, .rank = 4, .shape = {1, LENGTH, HEADS_Q, DIM},
                       .strides = {LENGTH * OUTPUT_ROW, OUTPUT_ROW, DIM, 1}};
    t.lse = (fa4_tensor){.data = lse_own, .dtype = FA4_F32, .rank = 3, .shape = {1, HEADS_Q, LENGTH},
                         .strides = {HEADS_Q * LENGTH, LENGTH, 1}};

    fa4_request request = make_request();
    if (fa4_plan_create(context, &request, &plan, &err) != FA4_OK) die("plan", &err);
    if (fa4_run(context, plan, &t, &report, NULL, &err) != FA4_OK) die("run", &err);
    for (size_t i = 0; i < sizeof EXPECTED / sizeof EXPECTED[0]; i++) wrong += compare(&t, &EXPECTED[i]);
    if (report.total.rescaled_rows != 2465) {
        fprintf(stderr, "rescaled rows: got %lld, want 2465\n", (long long)report.total.rescaled_rows);
        wrong++;
    }
    for (int64_t i = 0; i < LENGTH; i++)
        for (int64_t g = 0; g < GAP; g++) wrong += o_own[i * OUTPUT_ROW + HEADS_Q * DIM + g] != 0;
    printf("fa4 %s on %s (%s): %d differences\n", fa4_version(), report.device, report.path, wrong);
    fa4_plan_destroy(plan);
    fa4_file_close(file);
    fa4_context_close(context);
    return wrong != 0;
}
