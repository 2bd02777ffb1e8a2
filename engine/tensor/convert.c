/* Elements: numbers to and from the five formats, one at a time, filled and copied. Everything
 * passes through double, which holds each format exactly, and is rounded once, to nearest even. */
#include "tensor/tensor_internal.h"

#include "core/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static inline double load_f16(const char *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return (double)half_f16_to_float(h);
}
static inline double load_bf16(const char *p) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return (double)half_bf16_to_float(h);
}
static inline double load_f32(const char *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return (double)x;
}
static inline double load_f64(const char *p) {
    double x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline double load_i32(const char *p) {
    int32_t x;
    memcpy(&x, p, sizeof x);
    return (double)x;
}

static inline void store_f16(char *p, double x) {
    uint16_t h = half_f16_from_float(half_float_to_odd(x));
    memcpy(p, &h, sizeof h);
}
static inline void store_bf16(char *p, double x) {
    uint16_t h = half_bf16_from_float(half_float_to_odd(x));
    memcpy(p, &h, sizeof h);
}
static inline void store_f32(char *p, double x) {
    float f = (float)x;
    memcpy(p, &f, sizeof f);
}
static inline void store_f64(char *p, double x) {
    memcpy(p, &x, sizeof x);
}
static inline void store_i32(char *p, double x) {
    int32_t i = 0;
    if (x >= 2147483647.0)
        i = INT32_MAX;
    else if (x <= -2147483648.0)
        i = INT32_MIN;
    else if (x == x)
        i = (int32_t)rint(x);
    memcpy(p, &i, sizeof i);
}

void run_load(double *out, int32_t dtype, const char *from, int64_t step, int64_t count) {
    switch (dtype) {
    case FA4_F16:
        for (int64_t i = 0; i < count; i++)
            out[i] = load_f16(from + i * step);
        break;
    case FA4_BF16:
        for (int64_t i = 0; i < count; i++)
            out[i] = load_bf16(from + i * step);
        break;
    case FA4_F32:
        for (int64_t i = 0; i < count; i++)
            out[i] = load_f32(from + i * step);
        break;
    case FA4_F64:
        for (int64_t i = 0; i < count; i++)
            out[i] = load_f64(from + i * step);
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            out[i] = load_i32(from + i * step);
        break;
    }
}

void run_store(char *to, int32_t dtype, int64_t step, const double *in, int64_t count) {
    switch (dtype) {
    case FA4_F16:
        for (int64_t i = 0; i < count; i++)
            store_f16(to + i * step, in[i]);
        break;
    case FA4_BF16:
        for (int64_t i = 0; i < count; i++)
            store_bf16(to + i * step, in[i]);
        break;
    case FA4_F32:
        for (int64_t i = 0; i < count; i++)
            store_f32(to + i * step, in[i]);
        break;
    case FA4_F64:
        for (int64_t i = 0; i < count; i++)
            store_f64(to + i * step, in[i]);
        break;
    default:
        for (int64_t i = 0; i < count; i++)
            store_i32(to + i * step, in[i]);
        break;
    }
}

double run_round(int32_t dtype, double value) {
    char element[8];
    double rounded;
    run_store(element, dtype, 0, &value, 1);
    run_load(&rounded, dtype, element, 0, 1);
    return rounded;
}

/* ---- one element ---- */

static fa4_status find_element(const fa4_tensor *t, const int64_t *index, char **element,
                               fa4_error *err) {
    FA4_TRY(tensor_check(t, "tensor", err));
    int64_t at = 0;
    for (int32_t i = 0; i < t->rank; i++) {
        if (index[i] < 0 || index[i] >= t->shape[i])
            return error_set(err, FA4_BAD_ARGUMENT, "index: axis %d: %lld is outside 0 to %lld", i,
                             (long long)index[i], (long long)t->shape[i] - 1);
        at += index[i] * t->strides[i];
    }
    *element = (char *)t->data + at * fa4_dtype_bytes(t->dtype);
    return FA4_OK;
}

/* A single number given for i32 must be one that i32 has room for; whole tensors saturate instead.
 */
static fa4_status check_value(int32_t dtype, double value, fa4_error *err) {
    if (dtype == FA4_I32 && !(value >= -2147483648.5 && value < 2147483647.5))
        return error_set(err, FA4_BAD_ARGUMENT,
                         "value: %g does not fit i32 (-2147483648 to 2147483647)", value);
    return FA4_OK;
}

fa4_status fa4_tensor_get(const fa4_tensor *tensor, const int64_t *index, double *value,
                          fa4_error *err) {
    char *element = NULL;
    FA4_TRY(find_element(tensor, index, &element, err));
    run_load(value, tensor->dtype, element, 0, 1);
    return FA4_OK;
}

fa4_status fa4_tensor_set(const fa4_tensor *tensor, const int64_t *index, double value,
                          fa4_error *err) {
    char *element = NULL;
    FA4_TRY(find_element(tensor, index, &element, err));
    FA4_TRY(check_value(tensor->dtype, value, err));
    run_store(element, tensor->dtype, 0, &value, 1);
    return FA4_OK;
}

/* ---- loops ---- */

static int64_t magnitude(int64_t x) {
    return x < 0 ? -x : x;
}

static void swap_axes(view_loop *loop, int32_t a, int32_t b) {
    view_loop old = *loop;
    loop->shape[a] = old.shape[b], loop->shape[b] = old.shape[a];
    loop->to[a] = old.to[b], loop->to[b] = old.to[a];
    loop->from[a] = old.from[b], loop->from[b] = old.from[a];
}

void view_loop_make(view_loop *loop, const fa4_tensor *to, const fa4_tensor *from,
                    bool keep_order) {
    int64_t to_width = fa4_dtype_bytes(to->dtype), from_width = fa4_dtype_bytes(from->dtype);
    *loop = (view_loop){.rank = 0};
    for (int32_t i = 0; i < to->rank; i++) {
        if (to->shape[i] == 1) continue;
        loop->shape[loop->rank] = to->shape[i];
        loop->to[loop->rank] = to->strides[i] * to_width;
        loop->from[loop->rank++] = from->strides[i] * from_width;
    }
    for (int32_t i = 1; i < loop->rank && !keep_order; i++)
        for (int32_t j = i; j > 0 && magnitude(loop->to[j - 1]) < magnitude(loop->to[j]); j--)
            swap_axes(loop, j - 1, j);
    int32_t last = 0;
    for (int32_t i = 1; i < loop->rank; i++) {
        bool merge = loop->to[last] == loop->to[i] * loop->shape[i] &&
                     loop->from[last] == loop->from[i] * loop->shape[i];
        if (!merge) last++;
        loop->shape[last] = merge ? loop->shape[last] * loop->shape[i] : loop->shape[i];
        loop->to[last] = loop->to[i];
        loop->from[last] = loop->from[i];
    }
    if (loop->rank == 0) loop->shape[0] = 1;
    loop->rank = last + 1;
}

bool view_loop_next(const view_loop *loop, int64_t *index, char **to, const char **from) {
    for (int32_t i = loop->rank - 2; i >= 0; i--) {
        *to += loop->to[i];
        *from += loop->from[i];
        if (++index[i] < loop->shape[i]) return true;
        *to -= loop->to[i] * loop->shape[i];
        *from -= loop->from[i] * loop->shape[i];
        index[i] = 0;
    }
    return false;
}

static void copy_same(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count,
                      int64_t width) {
    if (to_step == width && from_step == width) {
        memmove(to, from, (size_t)(count * width));
        return;
    }
    if (width == 2)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 2);
    else if (width == 4)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 4);
    else
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * to_step, from + i * from_step, 8);
}

static void copy_run(char *to, int32_t to_dtype, int64_t to_step, const char *from,
                     int32_t from_dtype, int64_t from_step, int64_t count) {
    double run[RUN_MAX];
    for (int64_t done = 0; done < count; done += RUN_MAX) {
        int64_t n = count - done < RUN_MAX ? count - done : RUN_MAX;
        run_load(run, from_dtype, from + done * from_step, from_step, n);
        run_store(to + done * to_step, to_dtype, to_step, run, n);
    }
}

/* Shapes equal, nothing shared, not empty. */
static void copy_elements(const fa4_tensor *destination, const fa4_tensor *source) {
    view_loop loop;
    view_loop_make(&loop, destination, source, false);
    int64_t index[FA4_RANK_MAX] = {0};
    char *to = destination->data;
    const char *from = source->data;
    int32_t inner = loop.rank - 1;
    do {
        if (destination->dtype == source->dtype)
            copy_same(to, loop.to[inner], from, loop.from[inner], loop.shape[inner],
                      fa4_dtype_bytes(source->dtype));
        else
            copy_run(to, destination->dtype, loop.to[inner], from, source->dtype, loop.from[inner],
                     loop.shape[inner]);
    } while (view_loop_next(&loop, index, &to, &from));
}

fa4_status fa4_tensor_fill(const fa4_tensor *tensor, double value, fa4_error *err) {
    FA4_TRY(tensor_check(tensor, "tensor", err));
    FA4_TRY(check_value(tensor->dtype, value, err));
    if (tensor_elements(tensor) == 0) return FA4_OK;
    int64_t element = 0; /* room for any dtype, aligned */
    run_store((char *)&element, tensor->dtype, 0, &value, 1);
    fa4_tensor one = *tensor;
    one.data = &element;
    memset(one.strides, 0, sizeof one.strides);
    copy_elements(tensor, &one);
    return FA4_OK;
}

static fa4_status check_copy(const fa4_tensor *destination, const fa4_tensor *source,
                             fa4_error *err) {
    FA4_TRY(tensor_check(destination, "destination", err));
    FA4_TRY(tensor_check(source, "source", err));
    if (destination->rank != source->rank)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "source.rank: expected %d as the destination has, got %d",
                         destination->rank, source->rank);
    for (int32_t i = 0; i < source->rank; i++)
        if (destination->shape[i] != source->shape[i])
            return error_set(
                err, FA4_BAD_ARGUMENT,
                "source.shape: axis %d: expected %lld as the destination has, got %lld", i,
                (long long)destination->shape[i], (long long)source->shape[i]);
    if (!tensor_distinct(destination))
        return error_set(
            err, FA4_BAD_ARGUMENT,
            "destination.strides: elements share memory (a stride of 0, or crossing strides)");
    return FA4_OK;
}

fa4_status fa4_tensor_copy(const fa4_tensor *destination, const fa4_tensor *source,
                           fa4_error *err) {
    FA4_TRY(check_copy(destination, source, err));
    int64_t elements = tensor_elements(source);
    if (elements == 0) return FA4_OK;
    if (!tensor_overlap(destination, source)) {
        copy_elements(destination, source);
        return FA4_OK;
    }
    /* Views of the same memory in another order: through a copy, so that no element is read after
     * it was written. */
    fa4_tensor copy = *source;
    tensor_set_contiguous(&copy);
    copy.data = malloc((size_t)(elements * fa4_dtype_bytes(source->dtype)));
    if (copy.data == NULL)
        return error_set(err, FA4_NO_MEMORY,
                         "no memory to copy %lld elements between overlapping views",
                         (long long)elements);
    copy_elements(&copy, source);
    copy_elements(destination, &copy);
    free(copy.data);
    return FA4_OK;
}
