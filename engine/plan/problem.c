/* Checks of a problem and of the tensors that it is run on: the rules that memory safety rests on. */
#include "plan/plan_internal.h"

#include "core/size.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SEQLEN_MAX = 2147483647 - 1024, HEADS_MAX = 65536, DIM_MAX = 256 };

static fa4_status check_range(const char *name, int64_t value, int64_t least, int64_t most, fa4_error *err) {
    return value < least || value > most ? error_range(err, name, value, least, most) : FA4_OK;
}

static fa4_status check_dim(const char *name, int32_t dim, fa4_error *err) {
    if (dim < 8 || dim > DIM_MAX || dim % 8 != 0) {
        int32_t nearest = dim < 8 ? 8 : dim > DIM_MAX ? DIM_MAX : (dim + 7) / 8 * 8;
        return error_set(err, FA4_BAD_ARGUMENT, "%s: expected a multiple of 8 in 8..256, got %d (nearest: %d)", name,
                         dim, nearest);
    }
    return FA4_OK;
}

static fa4_status check_node_data(const fa4_problem *p, int32_t index, int64_t words, int64_t mask_words,
                                  fa4_error *err) {
    int64_t offset = p->mask[index].data_offset;
    if (offset < 0 || words < 0 || offset > mask_words || words > mask_words - offset)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "mask: node %d needs words %" PRId64 "..%" PRId64 " of mask_data, which has %" PRId64, index,
                         offset, offset + words, mask_words);
    return FA4_OK;
}

static fa4_status check_bits_node(const fa4_problem *p, int32_t index, int64_t mask_words, fa4_error *err) {
    const fa4_mask_node *node = &p->mask[index];
    int64_t words = 4 * size_ceil_divide(p->seqlen_kv, 128);
    bool fits = size_multiply(words, p->seqlen_q, &words) &&
                size_multiply(words, node->per_head ? p->heads_q : 1, &words) &&
                size_multiply(words, node->per_batch ? p->batch : 1, &words);
    if (!fits) return error_set(err, FA4_BAD_ARGUMENT, "mask: node %d: the size of its bits overflows", index);
    return check_node_data(p, index, words, mask_words, err);
}

static fa4_status check_mask(const fa4_problem *p, const int32_t *mask_data, int64_t mask_words, fa4_error *err) {
    FA4_TRY(check_range("mask nodes", p->mask_nodes, 0, FA4_MASK_NODES_MAX, err));
    if (mask_words < 0 || (mask_words > 0 && mask_data == NULL))
        return error_set(err, FA4_BAD_ARGUMENT, "mask_data: %" PRId64 " words at %p", mask_words, (const void *)mask_data);
    int32_t depth = 0;
    for (int32_t i = 0; i < p->mask_nodes; i++) {
        const fa4_mask_node *node = &p->mask[i];
        switch (node->kind) {
        case FA4_MASK_PREFIX: FA4_TRY(check_range("prefix length", node->length, 0, p->seqlen_kv, err)); break;
        case FA4_MASK_DOCUMENT: FA4_TRY(check_node_data(p, i, p->seqlen_kv, mask_words, err)); break;
        case FA4_MASK_BITS: FA4_TRY(check_bits_node(p, i, mask_words, err)); break;
        case FA4_MASK_FULL:
        case FA4_MASK_CAUSAL:
        case FA4_MASK_WINDOW: break;
        case FA4_MASK_ALL_OF:
        case FA4_MASK_ANY_OF:
        case FA4_MASK_NONE_OF:
            if (node->operands < 1 || node->operands > depth)
                return error_set(err, FA4_BAD_ARGUMENT, "mask: node %d takes %d operands, %d are there", i, node->operands,
                                 depth);
            depth -= node->operands;
            break;
        default: return error_set(err, FA4_BAD_ARGUMENT, "mask: node %d has the unknown kind %d", i, node->kind);
        }
        depth++;
    }
    if (p->mask_nodes > 0 && depth != 1)
        return error_set(err, FA4_BAD_ARGUMENT, "mask: the nodes leave %d masks instead of one", depth);
    return FA4_OK;
}

fa4_status plan_check_problem(const fa4_problem *p, const int32_t *mask_data, int64_t mask_words, fa4_error *err) {
    FA4_TRY(check_range("batch", p->batch, 0, SEQLEN_MAX, err));
    FA4_TRY(check_range("seqlen_q", p->seqlen_q, 0, SEQLEN_MAX, err));
    FA4_TRY(check_range("seqlen_kv", p->seqlen_kv, 0, SEQLEN_MAX, err));
    FA4_TRY(check_range("heads_q", p->heads_q, 1, HEADS_MAX, err));
    FA4_TRY(check_range("heads_kv", p->heads_kv, 1, HEADS_MAX, err));
    if (p->heads_q % p->heads_kv != 0)
        return error_set(err, FA4_BAD_ARGUMENT, "heads_q: %d is not a multiple of heads_kv %d", p->heads_q, p->heads_kv);
    FA4_TRY(check_dim("dim", p->dim, err));
    FA4_TRY(check_dim("dim_v", p->dim_v, err));
    if (p->dtype != FA4_F16 && p->dtype != FA4_BF16 && p->dtype != FA4_F32) {
        const char *name = fa4_dtype_name(p->dtype);
        return error_set(err, FA4_BAD_ARGUMENT, "dtype: expected f16, bf16 or f32, got %s", name ? name : "an unknown number");
    }
    if (!isfinite(p->scale)) return error_set(err, FA4_BAD_ARGUMENT, "scale: expected a finite number, got %g", p->scale);
    if (!isfinite(p->soft_cap) || p->soft_cap < 0)
        return error_set(err, FA4_BAD_ARGUMENT, "soft_cap: expected 0 (off) or a finite number above 0, got %g", p->soft_cap);
    return check_mask(p, mask_data, mask_words, err);
}

typedef struct expected_tensor {
    const char *name;
    const fa4_tensor *tensor;
    int32_t rank;
    int64_t shape[4];
    int32_t dtype, dtype_or; /* either is allowed */
    bool output, contiguous_last;
} expected_tensor;

static fa4_status check_shape(const expected_tensor *want, fa4_error *err) {
    const fa4_tensor *t = want->tensor;
    static const char *const axes4[] = {"batch", "seq", "head", "dim"};
    static const char *const axes3[] = {"batch", "head", "seq"};
    if (t->rank != want->rank)
        return error_set(err, FA4_BAD_ARGUMENT, "%s: expected rank %d, got %d", want->name, want->rank, t->rank);
    for (int32_t a = 0; a < want->rank; a++)
        if (t->shape[a] != want->shape[a])
            return error_set(err, FA4_BAD_ARGUMENT, "%s: axis %d (%s): expected %" PRId64 ", got %" PRId64, want->name, a,
                             want->rank == 4 ? axes4[a] : axes3[a], want->shape[a], t->shape[a]);
    return FA4_OK;
}

static fa4_status check_strides(const expected_tensor *want, int64_t align, fa4_error *err) {
    const fa4_tensor *t = want->tensor;
    int64_t bytes = fa4_dtype_bytes(t->dtype);
    if (want->contiguous_last && t->strides[want->rank - 1] != 1)
        return error_set(err, FA4_BAD_ARGUMENT, "%s: the last axis must be contiguous (stride 1), got stride %" PRId64,
                         want->name, t->strides[want->rank - 1]);
    for (int32_t a = 0; a < want->rank; a++) {
        if (t->shape[a] <= 1) continue;
        if (want->output && t->strides[a] == 0)
            return error_set(err, FA4_BAD_ARGUMENT, "%s: axis %d has stride 0: elements of an output must be distinct",
                             want->name, a);
        if (want->contiguous_last && a < want->rank - 1 && align > 1 && (t->strides[a] * bytes) % align != 0)
            return error_set(err, FA4_BAD_ARGUMENT,
                             "%s: axis %d: this device wants strides of whole %" PRId64 " bytes, got %" PRId64 " elements of %" PRId64 " bytes",
                             want->name, a, align, t->strides[a], bytes);
    }
    if (want->contiguous_last && align > 1 && (uintptr_t)t->data % (uintptr_t)align != 0)
        return error_set(err, FA4_BAD_ARGUMENT, "%s: this device wants addresses of whole %" PRId64 " bytes, got %p", want->name,
                         align, t->data);
    return FA4_OK;
}

static fa4_status check_tensor(const expected_tensor *want, int64_t align, fa4_error *err) {
    const fa4_tensor *t = want->tensor;
    if (t->dtype != want->dtype && t->dtype != want->dtype_or) {
        const char *got = fa4_dtype_name(t->dtype);
        return error_set(err, FA4_BAD_ARGUMENT, "%s: expected dtype %s%s%s, got %s", want->name, fa4_dtype_name(want->dtype),
                         want->dtype_or != want->dtype ? " or " : "",
                         want->dtype_or != want->dtype ? fa4_dtype_name(want->dtype_or) : "", got ? got : "an unknown one");
    }
    FA4_TRY(check_shape(want, err));
    int64_t elements = 0;
    FA4_TRY(fa4_shape_elements(t->shape, t->rank, t->dtype, &elements, err));
    if (elements == 0) return FA4_OK;
    if (t->data == NULL) return error_set(err, FA4_BAD_ARGUMENT, "%s: its data is NULL (freed?)", want->name);
    return check_strides(want, align, err);
}

fa4_status plan_check_problem_tensors(const fa4_problem *p, const fa4_tensors *t, int64_t align, fa4_error *err) {
    const expected_tensor expected[] = {
        {"q", &t->q, 4, {p->batch, p->seqlen_q, p->heads_q, p->dim}, p->dtype, p->dtype, false, true},
        {"k", &t->k, 4, {p->batch, p->seqlen_kv, p->heads_kv, p->dim}, p->dtype, p->dtype, false, true},
        {"v", &t->v, 4, {p->batch, p->seqlen_kv, p->heads_kv, p->dim_v}, p->dtype, p->dtype, false, true},
        {"o", &t->o, 4, {p->batch, p->seqlen_q, p->heads_q, p->dim_v}, p->dtype, FA4_F32, true, true},
        {"lse", &t->lse, 3, {p->batch, p->heads_q, p->seqlen_q, 0}, FA4_F32, FA4_F32, true, false},
    };
    int32_t count = p->lse ? 5 : 4;
    for (int32_t i = 0; i < count; i++) {
        FA4_TRY(check_tensor(&expected[i], align, err));
        if (expected[i].tensor->device != t->q.device || expected[i].tensor->device_index != t->q.device_index)
            return error_set(err, FA4_BAD_ARGUMENT, "%s: it is on another device than q", expected[i].name);
    }
    return FA4_OK;
}

fa4_status plan_check_tensors(const fa4_plan *plan, const fa4_tensors *tensors, int64_t align, fa4_error *err) {
    return plan_check_problem_tensors(&plan->header.problem, tensors, align, err);
}
