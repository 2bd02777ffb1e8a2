/*
 * Attention in double, by plain loops: what every backend is held to. It shares no code with a backend, a plan or a tensor
 * module, and has a mask predicate of its own.
 */
#ifndef FA4_REFERENCE_REFERENCE_H
#define FA4_REFERENCE_REFERENCE_H

#include "core/error.h"
#include "pool/pool.h"

/* What is computed for every element; arrays may be NULL when not wanted. Contiguous. */
typedef struct reference_result {
    double *o;      /* (batch, seqlen_q, heads_q, dim_v) */
    double *weight; /* the same shape: mean of |V| under the row's weights */
    double *lost;   /* the same shape: what rounding weights below f16's normal range may cost, relative to the row's largest weight */
    double *naive;  /* the same shape: the computation that rounds to the input's dtype where a naive kernel would */
    double *lse;    /* (batch, heads_q, seqlen_q), natural log */
} reference_result;

/* Tensors and problem have been checked. Fails only for lack of memory or when interrupted. */
fa4_status reference_run(const fa4_problem *problem, const int32_t *mask_data, const fa4_tensors *tensors, pool *workers,
                         const volatile int32_t *interrupt, volatile double *progress, reference_result *result, fa4_error *err);
/* Rounds to a dtype as the naive computation does. */
double reference_round(double x, int32_t dtype);

#endif
