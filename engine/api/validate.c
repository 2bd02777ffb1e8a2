/* Validation: an output is held to the fp64 reference with a tolerance that a naive computation in the input's dtype calibrates. */
#include "api/api.h"

#include "core/size.h"
#include "reference/reference.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fa4_validator {
    fa4_problem problem;
    reference_result want;
    double naive_error;
    double floor, floor_f32; /* for O of the input's dtype, and for O that is f32 */
};

/* Stand-ins for outputs that are not looked at, so that one check of tensors serves. */
static fa4_tensors with_free_outputs(const fa4_problem *p, const fa4_tensors *tensors, double *unused) {
    fa4_tensors t = *tensors;
    fa4_tensor o = {.data = unused, .dtype = p->dtype, .rank = 4, .shape = {p->batch, p->seqlen_q, p->heads_q, p->dim_v}};
    o.strides[3] = 1;
    o.strides[2] = p->dim_v;
    o.strides[1] = o.strides[2] * p->heads_q;
    o.strides[0] = p->seqlen_q * o.strides[1];
    fa4_tensor lse = {.data = unused, .dtype = FA4_F32, .rank = 3, .shape = {p->batch, p->heads_q, p->seqlen_q}};
    lse.strides[2] = 1;
    lse.strides[1] = p->seqlen_q;
    lse.strides[0] = p->heads_q * p->seqlen_q;
    t.o = o;
    t.lse = lse;
    return t;
}

static fa4_status check_inputs(const fa4_request *r, const fa4_tensors *tensors, fa4_error *err) {
    double unused = 0;
    FA4_TRY(plan_check_problem(&r->problem, r->mask_data, r->mask_words, err));
    if (tensors->q.device != 0) return error_set(err, FA4_BAD_ARGUMENT, "q: the reference wants tensors in host memory");
    fa4_tensors checked = with_free_outputs(&r->problem, tensors, &unused);
    FA4_TRY(plan_check_problem_tensors(&r->problem, &checked, 1, err));
    FA4_TRY(tensor_check(&tensors->q, "q", err));
    FA4_TRY(tensor_check(&tensors->k, "k", err));
    return tensor_check(&tensors->v, "v", err);
}

static fa4_status count_elements(const fa4_problem *p, int64_t *o, int64_t *lse, fa4_error *err) {
    const int64_t shape[4] = {p->batch, p->seqlen_q, p->heads_q, p->dim_v};
    FA4_TRY(fa4_shape_elements(shape, 4, FA4_F64, o, err));
    return fa4_shape_elements(shape, 3, FA4_F64, lse, err);
}

static double ulp(double x, int32_t dtype) {
    int exponent;
    frexp(fabs(x), &exponent);
    return ldexp(1, exponent - (dtype == FA4_F16 ? 11 : dtype == FA4_BF16 ? 8 : 24));
}

/* What arithmetic in O's dtype loses of a number of O's size: twice the drift of + 0.3 - 0.3, or one ulp of the largest. */
static double floor_of(const fa4_validator *v, int64_t count, int32_t dtype) {
    double largest = 0, drift = 0;
    for (int64_t i = 0; i < count; i++) {
        double want = v->want.o[i];
        if (!isfinite(want)) continue;
        double r = reference_round(want, dtype), up = reference_round(r + 0.3, dtype);
        drift = fmax(drift, fabs(reference_round(up - 0.3, dtype) - r));
        largest = fmax(largest, fabs(want));
    }
    return fmax(2 * drift, ulp(largest, dtype));
}

/* The part of the tolerance that does not depend on the output. */
static void calibrate(fa4_validator *v, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (isfinite(v->want.o[i]) && isfinite(v->want.naive[i]))
            v->naive_error = fmax(v->naive_error, fabs(v->want.naive[i] - v->want.o[i]));
    v->floor = floor_of(v, count, v->problem.dtype);
    v->floor_f32 = floor_of(v, count, FA4_F32);
}

fa4_status fa4_validator_create(fa4_context *context, const fa4_request *request, const fa4_tensors *tensors,
                                fa4_validator **out, fa4_error *err) {
    int64_t o_count = 0, lse_count = 0;
    FA4_TRY(check_inputs(request, tensors, err));
    FA4_TRY(count_elements(&request->problem, &o_count, &lse_count, err));
    fa4_validator *v = calloc(1, sizeof *v);
    if (v == NULL) return error_set(err, FA4_NO_MEMORY, "validate: no memory");
    v->problem = request->problem;
    size_t bytes = ((size_t)o_count + 1) * sizeof(double);
    v->want = (reference_result){.o = malloc(bytes), .weight = malloc(bytes), .lost = malloc(bytes),
                                 .naive = malloc(bytes), .lse = malloc(((size_t)lse_count + 1) * sizeof(double))};
    fa4_status status = FA4_OK;
    if (v->want.o == NULL || v->want.weight == NULL || v->want.lost == NULL || v->want.naive == NULL || v->want.lse == NULL)
        status = error_set(err, FA4_NO_MEMORY, "validate: no memory for a reference of %" PRId64 " elements", o_count);
    if (status == FA4_OK)
        status = reference_run(&request->problem, request->mask_data, tensors, context->workers, &context->interrupt,
                               &context->progress, &v->want, err);
    context->progress = 0;
    if (status != FA4_OK) {
        fa4_validator_destroy(v);
        return status;
    }
    calibrate(v, o_count);
    *out = v;
    return FA4_OK;
}

void fa4_validator_destroy(fa4_validator *v) {
    if (v == NULL) return;
    free(v->want.o);
    free(v->want.weight);
    free(v->want.lost);
    free(v->want.naive);
    free(v->want.lse);
    free(v);
}

/* |got - want|, 0 for equal infinities, NaN when either is NaN or they are unlike infinities. */
static double difference(double got, double want) {
    if (isnan(got) || isnan(want)) return NAN;
    if (isinf(got) || isinf(want)) return got == want ? 0 : NAN;
    return fabs(got - want);
}

/* The larger, where NaN is the largest of all. */
static bool worse(double x, double than) {
    return isnan(x) ? !isnan(than) : x > than;
}

static double element_bound(const fa4_validator *v, int64_t i, int32_t cubic) {
    double weight = v->want.weight[i];
    if (v->problem.dtype == FA4_F32) return (cubic ? 2e-4 : 1e-5) * weight + 0x1p-126;
    double u = v->problem.dtype == FA4_F16 ? 0x1p-11 : 0x1p-8;
    double lost = v->problem.dtype == FA4_F16 ? v->want.lost[i] : 0;
    return u * (weight + fabs(v->want.o[i])) + 2e-4 * weight + 0x1p-24 + lost;
}

static fa4_status check_o(const fa4_validator *v, const fa4_tensor *o, int32_t cubic, fa4_validation *r, fa4_error *err) {
    const fa4_problem *p = &v->problem;
    double squares = 0, errors = 0;
    int64_t i = 0, at[4];
    for (at[0] = 0; at[0] < p->batch; at[0]++)
        for (at[1] = 0; at[1] < p->seqlen_q; at[1]++)
            for (at[2] = 0; at[2] < p->heads_q; at[2]++)
                for (at[3] = 0; at[3] < p->dim_v; at[3]++, i++) {
                    double got = 0, want = v->want.o[i];
                    FA4_TRY(fa4_tensor_get(o, at, &got, err));
                    double d = difference(got, want), share = d / element_bound(v, i, cubic);
                    if (d == 0 && isinf(want)) share = 0;
                    if (worse(d, r->o_error)) r->o_error = d;
                    errors += d * d;
                    squares += isfinite(want) ? want * want : 0;
                    if (!worse(share, r->bound)) continue;
                    r->bound = share;
                    r->worst_kind = 1;
                    memcpy(r->worst, at, sizeof r->worst);
                    r->worst_got = got;
                    r->worst_want = want;
                }
    r->o_rms_error = squares > 0 ? sqrt(errors / squares) : sqrt(errors);
    return FA4_OK;
}

static fa4_status check_lse(const fa4_validator *v, const fa4_tensor *lse, fa4_validation *r, fa4_error *err) {
    const fa4_problem *p = &v->problem;
    int64_t i = 0, at[4] = {0};
    for (at[0] = 0; at[0] < p->batch; at[0]++)
        for (at[1] = 0; at[1] < p->heads_q; at[1]++)
            for (at[2] = 0; at[2] < p->seqlen_q; at[2]++, i++) {
                double got = 0, want = v->want.lse[i];
                FA4_TRY(fa4_tensor_get(lse, at, &got, err));
                if (fabs(want) > (double)FLT_MAX) want = (double)(float)want; /* LSE is f32: infinite from there on */
                double d = difference(got, want) / fmax(1, isfinite(want) ? fabs(want) : 1);
                if (!worse(d, r->lse_error)) continue;
                r->lse_error = d;
                if (!(d > 1e-4 || isnan(d)) || r->bound > 1 || isnan(r->bound)) continue;
                r->worst_kind = 2;
                memcpy(r->worst, at, sizeof r->worst);
                r->worst_got = got;
                r->worst_want = want;
            }
    return FA4_OK;
}

enum { SHAPE_TEXT_BYTES = FA4_RANK_MAX * 24 };

static const char *shape_text(const int64_t *shape, int32_t rank, char text[SHAPE_TEXT_BYTES]) {
    int at = 0;
    text[0] = '\0';
    for (int32_t axis = 0; axis < rank && axis < FA4_RANK_MAX; axis++)
        at += snprintf(text + at, (size_t)(SHAPE_TEXT_BYTES - at), "%s%" PRId64, axis > 0 ? ", " : "", shape[axis]);
    return text;
}

static fa4_status expect_shape(const char *name, const fa4_tensor *t, const int64_t *shape, int32_t rank, fa4_error *err) {
    char want[SHAPE_TEXT_BYTES], got[SHAPE_TEXT_BYTES];
    if (t->rank == rank && memcmp(t->shape, shape, (size_t)rank * sizeof *shape) == 0) return FA4_OK;
    return error_set(err, FA4_BAD_ARGUMENT, "%s: expected shape (%s), got (%s)", name, shape_text(shape, rank, want),
                     shape_text(t->shape, t->rank, got));
}

fa4_status fa4_validator_check(const fa4_validator *v, const fa4_tensors *tensors, int32_t cubic, fa4_validation *result,
                               fa4_error *err) {
    fa4_tensors outputs = *tensors;
    fa4_problem p = v->problem;
    const fa4_tensor *o = &outputs.o;
    const int64_t shape[4] = {p.batch, p.seqlen_q, p.heads_q, p.dim_v}, lse_shape[3] = {p.batch, p.heads_q, p.seqlen_q};
    FA4_TRY(expect_shape("o", o, shape, 4, err));
    if (p.lse && tensors->lse.rank == 0)
        return error_set(err, FA4_BAD_ARGUMENT, "lse: expected shape (%" PRId64 ", %d, %" PRId64 "), as the problem asks for it; none was given",
                         p.batch, p.heads_q, p.seqlen_q);
    if (p.lse) FA4_TRY(expect_shape("lse", &tensors->lse, lse_shape, 3, err));
    memset(result, 0, sizeof *result);
    result->naive_error = p.dtype == FA4_F32 ? 0 : v->naive_error;
    result->floor = o->dtype == FA4_F32 ? v->floor_f32 : v->floor;
    FA4_TRY(check_o(v, o, cubic, result, err));
    if (p.lse) FA4_TRY(check_lse(v, &tensors->lse, result, err));
    double tolerance = result->naive_error + result->floor;
    result->ratio = p.dtype == FA4_F32 ? 0 : result->o_error == 0 ? 0 : result->o_error / tolerance;
    /* What 16 bits lose of P shows in an O that is f32, and over a few numbers the naive computation may happen to lose less (nothing, with one
     * key): there the bound decides alone. NaN fails each of them. */
    bool calibrated = result->ratio <= 1 || (o->dtype == FA4_F32 && !isnan(result->ratio));
    result->pass = result->bound <= 1 && calibrated && result->lse_error <= 1e-4;
    return FA4_OK;
}

fa4_status fa4_validate(fa4_context *context, const fa4_request *request, const fa4_tensors *tensors, fa4_validation *result,
                        fa4_error *err) {
    fa4_validator *v = NULL;
    FA4_TRY(fa4_validator_create(context, request, tensors, &v, err));
    bool cubic = request->schedule.exp2_emulated_pairs > 0 || (request->schedule.exp2_emulated_pairs == -1 && request->problem.dtype != FA4_F32);
    fa4_status status = fa4_validator_check(v, tensors, cubic, result, err);
    fa4_validator_destroy(v);
    return status;
}

static fa4_status store(const fa4_tensor *to, const double *from, const int64_t *shape, int32_t rank, fa4_error *err) {
    fa4_tensor source = {.data = (void *)(uintptr_t)from, .dtype = FA4_F64, .rank = rank};
    int64_t stride = 1;
    for (int32_t a = rank - 1; a >= 0; a--) {
        source.shape[a] = shape[a];
        source.strides[a] = stride;
        stride *= shape[a];
    }
    return fa4_tensor_copy(to, &source, err);
}

fa4_status fa4_reference(fa4_context *context, const fa4_request *request, const fa4_tensors *tensors, fa4_error *err) {
    const fa4_problem *p = &request->problem;
    int64_t o_count = 0, lse_count = 0;
    FA4_TRY(check_inputs(request, tensors, err));
    FA4_TRY(count_elements(p, &o_count, &lse_count, err));
    reference_result want = {.o = malloc(((size_t)o_count + 1) * sizeof(double)), .lse = malloc(((size_t)lse_count + 1) * sizeof(double))};
    fa4_status status = want.o == NULL || want.lse == NULL
                            ? error_set(err, FA4_NO_MEMORY, "reference: no memory for %" PRId64 " elements", o_count)
                            : reference_run(p, request->mask_data, tensors, context->workers, &context->interrupt, &context->progress,
                                            &want, err);
    context->progress = 0;
    const int64_t o_shape[4] = {p->batch, p->seqlen_q, p->heads_q, p->dim_v}, lse_shape[3] = {p->batch, p->heads_q, p->seqlen_q};
    if (status == FA4_OK) status = store(&tensors->o, want.o, o_shape, 4, err);
    if (status == FA4_OK && tensors->lse.data != NULL) status = store(&tensors->lse, want.lse, lse_shape, 3, err);
    free(want.o);
    free(want.lse);
    return status;
}
