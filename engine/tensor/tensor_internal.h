/* What the files of tensor/ share: runs of elements as doubles, and loops over one or two views. */
#ifndef FA4_TENSOR_TENSOR_INTERNAL_H
#define FA4_TENSOR_TENSOR_INTERNAL_H

#include "tensor/tensor.h"

enum { RUN_MAX = 512 };

/* Widens `count` elements that lie `step` bytes apart; every dtype is exact in double. */
void run_load(double *out, int32_t dtype, const char *from, int64_t step, int64_t count);
/* Narrows once, to nearest even. i32 saturates, NaN becomes 0. */
void run_store(char *to, int32_t dtype, int64_t step, const double *in, int64_t count);
/* The nearest value of dtype, widened again. */
double run_round(int32_t dtype, double value);

/* The axes of two views of one shape (or of one view twice): sizes above 1 only, neighbours merged
 * where both views allow it. Steps are in bytes; the last axis is the inner one. */
typedef struct view_loop {
    int32_t rank; /* at least 1 */
    int64_t shape[FA4_RANK_MAX];
    int64_t to[FA4_RANK_MAX];
    int64_t from[FA4_RANK_MAX];
} view_loop;

/* keep_order: the axes stay row-major, so that a count over the loop is the flat index; else the
 * inner axis is the one with the smallest step in `to`. */
void view_loop_make(view_loop *loop, const fa4_tensor *to, const fa4_tensor *from, bool keep_order);
/* Moves index and both pointers to the next inner run; false after the last. index starts as zeros.
 */
bool view_loop_next(const view_loop *loop, int64_t *index, char **to, const char **from);

#endif
