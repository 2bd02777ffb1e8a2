/*
 * The reference: for every query row a loop over all keys, scores in double, softmax in double, sums in double. One work
 * item is one (batch, query head, slice of rows). Nothing is blocked, skipped or rescaled here.
 */
#include "reference/reference.h"

#include "core/half.h"
#include "core/size.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_PER_ITEM = 64 };

/* One result on every machine: without contraction, wider vectors change no bit. The thread sanitizer starts after the loader has
 * chosen among clones, and would crash there. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define WIDER_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDER_VECTORS
#endif

typedef struct job {
    const fa4_problem *problem;
    const int32_t *mask_data;
    const fa4_tensors *tensors;
    reference_result *result;
    int64_t slices;
    double *const *scratch; /* one a worker */
} job;

/* The row that is worked on: keys and values of its head, widened, and buffers of one number a key. */
typedef struct row_work {
    int64_t batch, head, i;
    double *q;    /* dim */
    double *k;    /* seqlen_kv x dim */
    double *v;    /* seqlen_kv x dim_v */
    double *score, *naive_score; /* seqlen_kv */
    double *sum, *weight, *lost, *naive; /* dim_v */
    bool *visible;                /* seqlen_kv */
} row_work;

static double read_element(const fa4_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    int64_t at = i0 * t->strides[0] + i1 * t->strides[1] + i2 * t->strides[2] + i3 * t->strides[3];
    switch (t->dtype) {
    case FA4_F16: return (double)half_f16_to_float(((const uint16_t *)t->data)[at]);
    case FA4_BF16: return (double)half_bf16_to_float(((const uint16_t *)t->data)[at]);
    default: return (double)((const float *)t->data)[at];
    }
}

double reference_round(double x, int32_t dtype) {
    if (dtype == FA4_F16) return (double)half_f16_to_float(half_f16_from_float(half_float_to_odd(x)));
    if (dtype == FA4_BF16) return (double)half_bf16_to_float(half_bf16_from_float(half_float_to_odd(x)));
    return (double)(float)x;
}

static bool node_sees(const fa4_problem *p, const fa4_mask_node *m, const int32_t *data, const row_work *w, int64_t j) {
    int64_t position = w->i + p->seqlen_kv - p->seqlen_q;
    int64_t behind = position - j; /* keys between j and the diagonal */
    switch (m->kind) {
    case FA4_MASK_CAUSAL: return behind >= 0;
    case FA4_MASK_WINDOW: return (m->left < 0 || behind <= m->left) && (m->right < 0 || -behind <= m->right);
    case FA4_MASK_PREFIX: return j < m->length || behind >= 0;
    case FA4_MASK_DOCUMENT: return position >= 0 && data[m->data_offset + position] == data[m->data_offset + j];
    case FA4_MASK_BITS: {
        int64_t plane = (m->per_batch ? w->batch : 0) * (m->per_head ? p->heads_q : 1) + (m->per_head ? w->head : 0);
        int64_t words = (p->seqlen_kv + 127) / 128 * 4;
        return (uint32_t)data[m->data_offset + (plane * p->seqlen_q + w->i) * words + j / 32] >> (j % 32) & 1u;
    }
    default: return true;
    }
}

/* Does the row see key j? The whole program, for one element. */
static bool sees(const fa4_problem *p, const int32_t *data, const row_work *w, int64_t j) {
    bool stack[FA4_MASK_NODES_MAX + 1] = {true};
    int32_t depth = 0;
    for (int32_t n = 0; n < p->mask_nodes; n++) {
        const fa4_mask_node *m = &p->mask[n];
        bool value = true;
        if (m->kind >= FA4_MASK_ALL_OF) {
            bool all = true, any = false;
            for (int32_t k = 0; k < m->operands; k++) {
                depth--;
                all = all && stack[depth];
                any = any || stack[depth];
            }
            value = m->kind == FA4_MASK_ALL_OF ? all : m->kind == FA4_MASK_ANY_OF ? any : !any;
        } else {
            value = node_sees(p, m, data, w, j);
        }
        stack[depth++] = value;
    }
    return stack[0];
}

/* Eight partial sums, so that the compiler may use vectors without changing the order of anything. */
WIDER_VECTORS static double dot(const double *a, const double *b, int32_t n) {
    double part[8] = {0};
    for (int32_t d = 0; d < n; d += 8)
        for (int e = 0; e < 8; e++) part[e] += a[d + e] * b[d + e];
    return ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
}

/* What one key adds: its weight, what f16 may lose of it, its weight in the naive computation. */
typedef struct key_weight {
    double p, lost, naive;
} key_weight;

/* sum += p v, weight += p |v|, and so on for one key. */
WIDER_VECTORS static void accumulate(const row_work *w, const double *v, key_weight k, int32_t n) {
    double *restrict sum = w->sum, *restrict weight = w->weight, *restrict lost = w->lost, *restrict naive = w->naive;
    for (int32_t d = 0; d < n; d++) {
        sum[d] += k.p * v[d];
        weight[d] += k.p * fabs(v[d]);
        lost[d] += k.lost * fabs(v[d]);
        naive[d] += k.naive * v[d];
    }
}

/* Largest visible score and the sum of exp(score - largest); a NaN or +inf among them makes the sum NaN. */
static double softmax_sum(const double *score, const bool *visible, int64_t n, double *largest) {
    double m = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++)
        if (visible[j] && score[j] > m) m = score[j];
    for (int64_t j = 0; j < n; j++)
        if (visible[j] && isnan(score[j])) m = NAN;
    for (int64_t j = 0; j < n && m != -INFINITY; j++)
        if (visible[j]) sum += exp(score[j] - m);
    *largest = m;
    return sum;
}

static double cap(double s, double soft_cap) {
    return soft_cap > 0 ? soft_cap * tanh(s / soft_cap) : s;
}

static void score_row(const job *j, const row_work *w) {
    const fa4_problem *p = j->problem;
    for (int32_t d = 0; d < p->dim; d++) w->q[d] = read_element(&j->tensors->q, w->batch, w->i, w->head, d);
    for (int64_t key = 0; key < p->seqlen_kv; key++) {
        w->visible[key] = sees(p, j->mask_data, w, key);
        if (!w->visible[key]) continue;
        double s = p->scale * dot(w->q, w->k + key * p->dim, p->dim);
        w->score[key] = cap(s, p->soft_cap);
        w->naive_score[key] = reference_round(s, p->dtype);
        if (p->soft_cap > 0) w->naive_score[key] = reference_round(cap(w->naive_score[key], p->soft_cap), p->dtype);
    }
}

static void finish_row(const job *j, const row_work *w) {
    const fa4_problem *p = j->problem;
    double m, naive_m;
    double sum = softmax_sum(w->score, w->visible, p->seqlen_kv, &m);
    double naive_sum = softmax_sum(w->naive_score, w->visible, p->seqlen_kv, &naive_m);
    bool none = m == -INFINITY;
    for (int32_t d = 0; d < p->dim_v; d++) w->sum[d] = w->weight[d] = w->lost[d] = w->naive[d] = 0;
    for (int64_t key = 0; key < p->seqlen_kv && !none; key++) {
        if (!w->visible[key]) continue;
        double share = exp(w->score[key] - m); /* of the largest weight: f16 is subnormal below 2^-14, in steps of 2^-24 */
        key_weight k = {.p = share / sum, .lost = share < 0x1p-14 ? fmin(share, 0x1p-25) / sum : 0};
        if (naive_m != -INFINITY) k.naive = reference_round(exp(w->naive_score[key] - naive_m) / naive_sum, p->dtype);
        accumulate(w, w->v + key * p->dim_v, k, p->dim_v);
    }
    const reference_result *out = j->result;
    int64_t at = ((w->batch * p->seqlen_q + w->i) * p->heads_q + w->head) * p->dim_v;
    for (int32_t d = 0; d < p->dim_v; d++) {
        if (out->o != NULL) out->o[at + d] = w->sum[d];
        if (out->weight != NULL) out->weight[at + d] = w->weight[d];
        if (out->lost != NULL) out->lost[at + d] = w->lost[d];
        if (out->naive != NULL) out->naive[at + d] = reference_round(w->naive[d], p->dtype);
    }
    if (out->lse != NULL) out->lse[(w->batch * p->heads_q + w->head) * p->seqlen_q + w->i] = none ? -INFINITY : m + log(sum);
}

static row_work lay_out_scratch(const fa4_problem *p, double *scratch) {
    row_work w = {.q = scratch};
    w.k = w.q + p->dim;
    w.v = w.k + p->seqlen_kv * p->dim;
    w.score = w.v + p->seqlen_kv * p->dim_v;
    w.naive_score = w.score + p->seqlen_kv;
    w.sum = w.naive_score + p->seqlen_kv;
    w.weight = w.sum + p->dim_v;
    w.lost = w.weight + p->dim_v;
    w.naive = w.lost + p->dim_v;
    w.visible = (bool *)(w.naive + p->dim_v);
    return w;
}

static void run_item(void *state, int64_t item, int32_t worker) {
    const job *j = state;
    const fa4_problem *p = j->problem;
    row_work w = lay_out_scratch(p, j->scratch[worker]);
    int64_t slice = item % j->slices;
    w.head = item / j->slices % p->heads_q;
    w.batch = item / j->slices / p->heads_q;
    int64_t head_kv = w.head / (p->heads_q / p->heads_kv);
    for (int64_t key = 0; key < p->seqlen_kv; key++) {
        for (int32_t d = 0; d < p->dim; d++) w.k[key * p->dim + d] = read_element(&j->tensors->k, w.batch, key, head_kv, d);
        for (int32_t d = 0; d < p->dim_v; d++) w.v[key * p->dim_v + d] = read_element(&j->tensors->v, w.batch, key, head_kv, d);
    }
    int64_t end = (slice + 1) * ROWS_PER_ITEM < p->seqlen_q ? (slice + 1) * ROWS_PER_ITEM : p->seqlen_q;
    for (w.i = slice * ROWS_PER_ITEM; w.i < end; w.i++) {
        score_row(j, &w);
        finish_row(j, &w);
    }
}

fa4_status reference_run(const fa4_problem *p, const int32_t *mask_data, const fa4_tensors *tensors, pool *workers,
                         const volatile int32_t *interrupt, volatile double *progress, reference_result *result, fa4_error *err) {
    int64_t slices = size_ceil_divide(p->seqlen_q, ROWS_PER_ITEM), items = 0, doubles = 0;
    bool fits = size_multiply(p->seqlen_kv, p->dim + p->dim_v + 3, &doubles) && doubles < (INT64_C(1) << 40) &&
                size_multiply(slices, p->heads_q, &items) && size_multiply(items, p->batch, &items);
    if (!fits) return error_set(err, FA4_BAD_ARGUMENT, "reference: the problem is too large");
    doubles += p->dim + 4 * p->dim_v + 8;
    int32_t threads = pool_threads(workers);
    double **scratch = calloc((size_t)threads, sizeof *scratch);
    fa4_status status = scratch == NULL ? error_set(err, FA4_NO_MEMORY, "reference: no memory") : FA4_OK;
    for (int32_t t = 0; t < threads && status == FA4_OK; t++) {
        scratch[t] = malloc((size_t)doubles * sizeof(double));
        if (scratch[t] == NULL) status = error_set(err, FA4_NO_MEMORY, "reference: no memory for the keys and values of a head");
    }
    if (status == FA4_OK) {
        job j = {.problem = p, .mask_data = mask_data, .tensors = tensors, .result = result, .slices = slices, .scratch = scratch};
        status = pool_run(workers, items, 0, run_item, &j, interrupt, progress, err);
    }
    for (int32_t t = 0; scratch != NULL && t < threads; t++) free(scratch[t]);
    free(scratch);
    return status;
}
