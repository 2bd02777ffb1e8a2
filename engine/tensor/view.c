/* Views: what a fa4_tensor may be, which bytes it touches, whether two of them meet. Touches no
 * element. */
#include "tensor/tensor.h"

#include "core/size.h"

#include <stdlib.h>

const char *fa4_dtype_name(int32_t dtype) {
    static const char *const names[] = {"f16", "bf16", "f32", "f64", "i32"};
    return dtype >= 0 && dtype < (int32_t)(sizeof names / sizeof names[0]) ? names[dtype] : NULL;
}

int64_t fa4_dtype_bytes(int32_t dtype) {
    static const int8_t bytes[] = {2, 2, 4, 8, 4};
    return dtype >= 0 && dtype < (int32_t)sizeof bytes ? bytes[dtype] : 0;
}

static fa4_status count_elements(const fa4_tensor *t, const char *name, int64_t *elements,
                                 fa4_error *err) {
    int64_t width = fa4_dtype_bytes(t->dtype);
    if (width == 0)
        return error_set(err, FA4_BAD_ARGUMENT, "%sdtype: unknown number %d", name, t->dtype);
    if (t->rank < 0 || t->rank > FA4_RANK_MAX)
        return error_set(err, FA4_BAD_ARGUMENT, "%srank: expected 0 to %d, got %d", name,
                         FA4_RANK_MAX, t->rank);
    bool empty = false;
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0)
            return error_set(err, FA4_BAD_ARGUMENT,
                             "%sshape: axis %d: expected at least 0, got %lld", name, i,
                             (long long)t->shape[i]);
        empty = empty || t->shape[i] == 0;
    }
    /* The sizes beside a zero are multiplied too: their strides must still fit. */
    int64_t bytes = width;
    for (int32_t i = 0; i < t->rank; i++)
        if (t->shape[i] > 0 && !size_multiply(bytes, t->shape[i], &bytes))
            return error_set(err, FA4_BAD_ARGUMENT,
                             "%sshape: the size in bytes overflows at axis %d of %lld elements",
                             name, i, (long long)t->shape[i]);
    *elements = empty ? 0 : bytes / width;
    return FA4_OK;
}

fa4_status fa4_shape_elements(const int64_t *shape, int32_t rank, int32_t dtype, int64_t *elements,
                              fa4_error *err) {
    fa4_tensor t = {.dtype = dtype, .rank = rank};
    for (int32_t i = 0; i < rank && i < FA4_RANK_MAX; i++)
        t.shape[i] = shape[i];
    return count_elements(&t, "", elements, err);
}

int64_t tensor_elements(const fa4_tensor *t) {
    int64_t n = 1;
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] == 0) return 0;
        n *= t->shape[i];
    }
    return n;
}

/* Byte offsets of the first and last element in memory, from data; false when they do not fit. */
static bool offsets(const fa4_tensor *t, int64_t *low, int64_t *high) {
    *low = *high = 0;
    int64_t width = fa4_dtype_bytes(t->dtype);
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] < 2) continue;
        int64_t step;
        if (!size_multiply(t->strides[i], width, &step) ||
            !size_multiply(step, t->shape[i] - 1, &step))
            return false;
        if (!size_add(step < 0 ? *low : *high, step, step < 0 ? low : high)) return false;
    }
    return size_add(*high, width, high) && *high <= INT64_MAX / 4 && *low >= INT64_MIN / 4;
}

fa4_status tensor_check(const fa4_tensor *t, const char *name, fa4_error *err) {
    char prefix[64];
    if (t == NULL) return error_set(err, FA4_BAD_ARGUMENT, "%s: NULL", name);
    int n = 0;
    for (; name[n] != '\0' && n < (int)sizeof prefix - 2; n++)
        prefix[n] = name[n];
    prefix[n] = '.';
    prefix[n + 1] = '\0';
    int64_t elements, low, high;
    FA4_TRY(count_elements(t, prefix, &elements, err));
    if (t->device != 0)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "%s: expected host memory, got a tensor on device %d:%d", name, t->device,
                         t->device_index);
    if (elements == 0) return FA4_OK;
    if (!offsets(t, &low, &high))
        return error_set(err, FA4_BAD_ARGUMENT, "%s.strides: the byte offsets overflow", name);
    if (t->data == NULL)
        return error_set(err, FA4_BAD_ARGUMENT, "%s.data: NULL with %lld elements", name,
                         (long long)elements);
    if ((uintptr_t)t->data % (uintptr_t)fa4_dtype_bytes(t->dtype) != 0)
        return error_set(err, FA4_BAD_ARGUMENT, "%s.data: %p is not aligned to %s", name, t->data,
                         fa4_dtype_name(t->dtype));
    return FA4_OK;
}

void tensor_range(const fa4_tensor *t, intptr_t *begin, intptr_t *end) {
    int64_t low, high;
    *begin = *end = (intptr_t)t->data;
    if (tensor_elements(t) == 0 || !offsets(t, &low, &high)) return;
    *begin += low;
    *end += high;
}

void tensor_set_contiguous(fa4_tensor *t) {
    int64_t stride = 1;
    for (int32_t i = t->rank - 1; i >= 0; i--) {
        t->strides[i] = stride;
        if (t->shape[i] > 1) stride *= t->shape[i];
    }
}

/* A term x * step with x in 0 .. count; steps are positive. */
typedef struct term {
    int64_t step, count;
} term;

static int by_step(const void *a, const void *b) {
    int64_t x = ((const term *)a)->step, y = ((const term *)b)->step;
    return (x < y) - (x > y);
}

bool tensor_distinct(const fa4_tensor *t) {
    term terms[FA4_RANK_MAX];
    int32_t n = 0;
    if (tensor_elements(t) < 2) return true;
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] < 2) continue;
        terms[n].step = t->strides[i] < 0 ? -t->strides[i] : t->strides[i];
        terms[n++].count = t->shape[i] - 1;
    }
    qsort(terms, (size_t)n, sizeof terms[0], by_step);
    int64_t reach = 0; /* of the smaller steps together */
    for (int32_t i = n - 1; i >= 0; i--) {
        if (terms[i].step <= reach) return false;
        reach += terms[i].step * terms[i].count;
    }
    return true;
}

enum { OVERLAP_TERMS_MAX = 2 * FA4_RANK_MAX + 1, OVERLAP_STEPS_MAX = 100000 };

typedef struct overlap_search {
    term terms[OVERLAP_TERMS_MAX];        /* steps fall */
    int64_t reach[OVERLAP_TERMS_MAX + 1]; /* largest sum of the terms from here on */
    int32_t count;
    int32_t steps_left;
} overlap_search;

static void add_term(overlap_search *s, int64_t step, int64_t count) {
    if (step == 0 || count == 0) return;
    for (int32_t i = 0; i < s->count; i++)
        if (s->terms[i].step == step) {
            s->terms[i].count += count;
            return;
        }
    s->terms[s->count++] = (term){step, count};
}

/* Adds x * stride of every axis, with the sign that makes steps positive; returns what that shifts
 * the sum by. */
static void add_axes(overlap_search *s, const fa4_tensor *t) {
    int64_t width = fa4_dtype_bytes(t->dtype);
    for (int32_t i = 0; i < t->rank; i++) {
        int64_t step = t->strides[i] * width;
        if (t->shape[i] > 1) add_term(s, step < 0 ? -step : step, t->shape[i] - 1);
    }
}

/* Whether the terms from `at` on can sum to target. Steps of usual views nest, so that at most two
 * values of each x remain. */
static bool reaches(overlap_search *s, int32_t at, int64_t target) {
    if (target < 0 || target > s->reach[at]) return false;
    if (target == 0) return true;
    if (at == s->count) return false;
    const term *t = &s->terms[at];
    int64_t high = target / t->step;
    if (high > t->count) high = t->count;
    int64_t rest = target - s->reach[at + 1];
    int64_t low = rest > 0 ? size_ceil_divide(rest, t->step) : 0;
    for (int64_t x = high; x >= low; x--) {
        if (s->steps_left-- <= 0) return true;
        if (reaches(s, at + 1, target - x * t->step)) return true;
    }
    return false;
}

bool tensor_overlap(const fa4_tensor *a, const fa4_tensor *b) {
    intptr_t a_begin, a_end, b_begin, b_end;
    tensor_range(a, &a_begin, &a_end);
    tensor_range(b, &b_begin, &b_end);
    if (a_begin == a_end || b_begin == b_end || a_end <= b_begin || b_end <= a_begin) return false;
    /* Counted from each view's lowest byte all steps are positive. A shared byte is a_begin + x =
     * b_begin + y with x, y sums of steps; turning y around its own largest value makes it one sum:
     * x + (y_max - y) = b_begin + y_max - a_begin. */
    overlap_search search = {.steps_left = OVERLAP_STEPS_MAX};
    add_axes(&search, a);
    add_axes(&search, b);
    add_term(&search, 1, fa4_dtype_bytes(a->dtype) - 1 + fa4_dtype_bytes(b->dtype) - 1);
    qsort(search.terms, (size_t)search.count, sizeof search.terms[0], by_step);
    for (int32_t i = search.count - 1; i >= 0; i--)
        search.reach[i] = search.reach[i + 1] + search.terms[i].step * search.terms[i].count;
    return reaches(&search, 0, (int64_t)(b_end - 1 - a_begin));
}
