/*
 * For C tests of a backend: a problem with owned tensors, its plan, a run, and attention in double
 * by plain loops with the mask asked element by element. Shares no arithmetic with any backend.
 */
#ifndef FA4_SPEC_ATTENTION_H
#define FA4_SPEC_ATTENTION_H

#include "backend.h"
#include "core/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct attention {
    fa4_request request;
    int32_t mask_data[4096];
    fa4_tensors t;
    double *o, *lse, *weight; /* expected; weight: mean of |V| per output */
    fa4_plan *plan;
    fa4_counters total, per_head[64];
    fa4_report report;
} attention;

static inline double attention_get(const fa4_tensor *t, int64_t a, int64_t b, int64_t c,
                                   int64_t d) {
    int64_t i = a * t->strides[0] + b * t->strides[1] + c * t->strides[2] + d * t->strides[3];
    if (t->dtype == FA4_F32) return ((const float *)t->data)[i];
    uint16_t h = ((const uint16_t *)t->data)[i];
    return t->dtype == FA4_F16 ? half_f16_to_float(h) : half_bf16_to_float(h);
}

static inline void attention_set(const fa4_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d,
                                 double x) {
    int64_t i = a * t->strides[0] + b * t->strides[1] + c * t->strides[2] + d * t->strides[3];
    if (t->dtype == FA4_F32)
        ((float *)t->data)[i] = (float)x;
    else
        ((uint16_t *)t->data)[i] =
            t->dtype == FA4_F16 ? half_f16_from_float((float)x) : half_bf16_from_float((float)x);
}

static inline fa4_tensor attention_tensor(int32_t dtype, int64_t a, int64_t b, int64_t c,
                                          int64_t d) {
    fa4_tensor t = {
        .dtype = dtype, .rank = 4, .shape = {a, b, c, d}, .strides = {b * c * d, c * d, d, 1}};
    int64_t bytes = a * b * c * d * (dtype == FA4_F32 ? 4 : 2);
    t.data = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    memset(t.data, 0xff, (size_t)bytes);
    return t;
}

/* splitmix64; uniform in [0, 1). */
static inline double attention_random(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static inline void attention_fill(const fa4_tensor *t, uint64_t seed, double scale) {
    for (int64_t a = 0; a < t->shape[0]; a++)
        for (int64_t b = 0; b < t->shape[1]; b++)
            for (int64_t c = 0; c < t->shape[2]; c++)
                for (int64_t d = 0; d < t->shape[3]; d++) {
                    double sum = 0;
                    for (int i = 0; i < 4; i++)
                        sum += attention_random(&seed) - 0.5;
                    attention_set(t, a, b, c, d, sum * 1.7320508 * scale);
                }
}

/* Sizes and mask are taken from request.problem; q, k, v are random of unit size, o and lse hold
 * NaN. */
static inline void attention_create(attention *x, uint64_t seed) {
    const fa4_problem *p = &x->request.problem;
    x->t.q = attention_tensor(p->dtype, p->batch, p->seqlen_q, p->heads_q, p->dim);
    x->t.k = attention_tensor(p->dtype, p->batch, p->seqlen_kv, p->heads_kv, p->dim);
    x->t.v = attention_tensor(p->dtype, p->batch, p->seqlen_kv, p->heads_kv, p->dim_v);
    x->t.o = attention_tensor(p->dtype, p->batch, p->seqlen_q, p->heads_q, p->dim_v);
    x->t.lse = attention_tensor(FA4_F32, 1, p->batch, p->heads_q, p->seqlen_q);
    x->t.lse.rank = 3;
    memmove(x->t.lse.shape, x->t.lse.shape + 1, 3 * sizeof(int64_t));
    memmove(x->t.lse.strides, x->t.lse.strides + 1, 3 * sizeof(int64_t));
    attention_fill(&x->t.q, seed * 3 + 1, 1.0);
    attention_fill(&x->t.k, seed * 3 + 2, 1.0);
    attention_fill(&x->t.v, seed * 3 + 3, 1.0);
    size_t rows = (size_t)(p->batch * p->heads_q * p->seqlen_q);
    x->lse = calloc(rows + 1, sizeof(double));
    x->o = calloc(rows * (size_t)p->dim_v + 1, sizeof(double));
    x->weight = calloc(rows * (size_t)p->dim_v + 1, sizeof(double));
}

static inline void attention_destroy(attention *x) {
    free(x->t.q.data), free(x->t.k.data), free(x->t.v.data), free(x->t.o.data), free(x->t.lse.data);
    free(x->lse), free(x->o), free(x->weight), free(x->plan);
}

/* Problem with defaults for everything. */
static inline attention attention_problem(int32_t dtype, int64_t batch, int64_t seqlen_q,
                                          int64_t seqlen_kv, int32_t heads_q, int32_t heads_kv,
                                          int32_t dim, int32_t dim_v) {
    attention x;
    memset(&x, 0, sizeof x);
    fa4_schedule_default(&x.request.schedule);
    x.request.problem = (fa4_problem){.batch = batch,
                                      .seqlen_q = seqlen_q,
                                      .seqlen_kv = seqlen_kv,
                                      .heads_q = heads_q,
                                      .heads_kv = heads_kv,
                                      .dim = dim,
                                      .dim_v = dim_v,
                                      .dtype = dtype,
                                      .lse = 1,
                                      .scale = 1.0 / sqrt((double)dim)};
    return x;
}

static inline void attention_mask(attention *x, int32_t kind, int64_t left, int64_t right) {
    x->request.problem.mask[x->request.problem.mask_nodes++] =
        (fa4_mask_node){.kind = kind, .left = left, .right = right, .length = left};
}

static inline void attention_expect_row(attention *x, int64_t b, int64_t h, int64_t i) {
    const fa4_problem *p = &x->request.problem;
    int64_t g = h / (p->heads_q / p->heads_kv), row = (b * p->heads_q + h) * p->seqlen_q + i;
    double *s = malloc((size_t)(p->seqlen_kv + 1) * sizeof *s), most = -INFINITY, sum = 0;
    double *o = x->o + row * p->dim_v, *weight = x->weight + row * p->dim_v;
    for (int64_t j = 0; j < p->seqlen_kv; j++) {
        s[j] = NAN;
        if (!plan_mask_visible(p, x->mask_data, b, h, i, j)) continue;
        double dot = 0;
        for (int64_t d = 0; d < p->dim; d++)
            dot += attention_get(&x->t.q, b, i, h, d) * attention_get(&x->t.k, b, j, g, d);
        s[j] = dot * p->scale;
        if (p->soft_cap > 0) s[j] = p->soft_cap * tanh(s[j] / p->soft_cap);
        most = s[j] > most ? s[j] : most;
    }
    for (int64_t c = 0; c < p->dim_v; c++)
        o[c] = weight[c] = 0;
    for (int64_t j = 0; j < p->seqlen_kv && most > -INFINITY; j++) {
        if (!plan_mask_visible(p, x->mask_data, b, h, i, j)) continue;
        double w = exp(s[j] - most);
        sum += w;
        for (int64_t c = 0; c < p->dim_v; c++) {
            double v = attention_get(&x->t.v, b, j, g, c);
            o[c] += w * v;
            weight[c] += w * fabs(v);
        }
    }
    for (int64_t c = 0; c < p->dim_v && sum != 0; c++)
        o[c] /= sum, weight[c] /= sum;
    x->lse[row] = most == -INFINITY ? -INFINITY : most + log(sum);
    free(s);
}

static inline void attention_expect(attention *x) {
    for (int64_t b = 0; b < x->request.problem.batch; b++)
        for (int64_t h = 0; h < x->request.problem.heads_q; h++)
            for (int64_t i = 0; i < x->request.problem.seqlen_q; i++)
                attention_expect_row(x, b, h, i);
}

/* Plans (unless there is a plan) and runs; decision counters go to per_head and total. */
static inline fa4_status attention_run(attention *x, const backend_functions *f, backend *b,
                                       fa4_error *err) {
    if (x->plan == NULL) {
        plan_limits limits;
        f->limits(b, &limits);
        x->request.mask_data = x->mask_data;
        x->request.mask_words = 4096;
        FA4_TRY(plan_create(&x->request, &limits, NULL, &x->plan, err));
    }
    FA4_TRY(plan_check_tensors(x->plan, &x->t, 1, err));
    FA4_TRY(f->supports(b, x->plan, err));
    memset(x->per_head, 0, sizeof x->per_head);
    for (int g = 0; g < 64; g++)
        x->per_head[g].exponent_max = -INFINITY;
    FA4_TRY(f->run(b, x->plan, &x->t, &x->report, x->per_head, err));
    memset(&x->total, 0, sizeof x->total);
    x->total.exponent_max = -INFINITY;
    for (int32_t g = 0; g < x->plan->header.heads; g++) {
        const fa4_counters *c = &x->per_head[g];
        x->total.rescaled_rows += c->rescaled_rows;
        x->total.rescaled_warps += c->rescaled_warps;
        x->total.spared_rows += c->spared_rows;
        x->total.max_fixups += c->max_fixups;
        x->total.exponent_max = fmax(x->total.exponent_max, c->exponent_max);
        x->total.p_max = fmax(x->total.p_max, c->p_max);
    }
    return FA4_OK;
}

/* The largest error over its bound, O per element and LSE: at most 1 passes; NaN gives infinity,
 * except where NaN is expected. */
static inline double attention_error(const attention *x) {
    const fa4_problem *p = &x->request.problem;
    double u = p->dtype == FA4_F16 ? 0x1p-11 : p->dtype == FA4_BF16 ? 0x1p-8 : 0, worst = 0;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->heads_q; h++)
            for (int64_t i = 0; i < p->seqlen_q; i++) {
                int64_t row = (b * p->heads_q + h) * p->seqlen_q + i;
                for (int64_t c = 0; c < p->dim_v; c++) {
                    double want = x->o[row * p->dim_v + c],
                           got = attention_get(&x->t.o, b, i, h, c),
                           a = x->weight[row * p->dim_v + c];
                    if (want == got || (isnan(want) && isnan(got))) continue;
                    double bound = p->dtype == FA4_F32 ? 1e-5 * a + 1e-30
                                                       : u * (a + fabs(want)) + 2e-4 * a + 0x1p-24;
                    double ratio = fabs(got - want) / bound;
                    worst = isnan(ratio) ? INFINITY : ratio > worst ? ratio : worst;
                }
                double want = x->lse[row];
                double got = ((const float *)
                                  x->t.lse.data)[b * x->t.lse.strides[0] + h * x->t.lse.strides[1] +
                                                 i * x->t.lse.strides[2]];
                if (!p->lse || want == got || (isnan(want) && isnan(got))) continue;
                double ratio = fabs(got - want) / (1e-4 * fmax(1.0, fabs(want)));
                worst = isnan(ratio) ? INFINITY : ratio > worst ? ratio : worst;
            }
    return worst;
}

#endif
