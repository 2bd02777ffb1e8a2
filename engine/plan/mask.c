/* The mask program: per query position an interval of visible keys where the mask allows it, else rows of bits. */
#include "plan/plan_internal.h"

#include "core/size.h"

#include <stdlib.h>
#include <string.h>

/* The visible keys of every query position, [lo, hi); lo == hi == 0 for none. */
typedef struct intervals {
    int32_t *lo, *hi;
} intervals;

static int64_t diagonal(const fa4_problem *p, int64_t query) {
    return query + p->seqlen_kv - p->seqlen_q;
}

/* Window sides can be any 64-bit number; beyond this they are unbounded anyway. */
static int64_t window_side(int64_t side) {
    return plan_min(side, INT64_C(1) << 40);
}

static void clip(const fa4_problem *p, int64_t lo, int64_t hi, int32_t *out_lo, int32_t *out_hi) {
    lo = plan_max(lo, 0);
    hi = plan_min(hi, p->seqlen_kv);
    *out_lo = lo < hi ? (int32_t)lo : 0;
    *out_hi = lo < hi ? (int32_t)hi : 0;
}

/* Full, causal, window and prefix see one interval whatever the data. */
static void simple_interval(const fa4_problem *p, const fa4_mask_node *node, int64_t query, int32_t *lo, int32_t *hi) {
    int64_t d = diagonal(p, query);
    switch (node->kind) {
    case FA4_MASK_CAUSAL: clip(p, 0, d + 1, lo, hi); break;
    case FA4_MASK_WINDOW:
        clip(p, node->left < 0 ? 0 : d - window_side(node->left),
             node->right < 0 ? p->seqlen_kv : d + window_side(node->right) + 1, lo, hi);
        break;
    case FA4_MASK_PREFIX: clip(p, 0, plan_max(node->length, d + 1), lo, hi); break;
    default: clip(p, 0, p->seqlen_kv, lo, hi); break;
    }
}

typedef struct id_key {
    int32_t id, key;
} id_key;

static int compare_id_keys(const void *a, const void *b) {
    const id_key *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* Documents are intervals when the keys of each id are neighbours. *is_interval = false otherwise. */
static fa4_status document_intervals(const fa4_problem *p, const int32_t *ids, intervals out, bool *is_interval,
                                     fa4_error *err) {
    int64_t n = p->seqlen_kv;
    id_key *sorted = malloc((size_t)plan_max(n, 1) * sizeof *sorted);
    int32_t *first = malloc((size_t)plan_max(n, 1) * sizeof *first);
    int32_t *last = malloc((size_t)plan_max(n, 1) * sizeof *last);
    fa4_status status = FA4_OK;
    if (sorted == NULL || first == NULL || last == NULL) {
        status = error_set(err, FA4_NO_MEMORY, "mask: no memory for a document mask");
        goto done;
    }
    for (int64_t j = 0; j < n; j++) sorted[j] = (id_key){ids[j], (int32_t)j};
    qsort(sorted, (size_t)n, sizeof *sorted, compare_id_keys);
    *is_interval = true;
    for (int64_t a = 0, b; a < n; a = b) {
        for (b = a; b < n && sorted[b].id == sorted[a].id;) b++;
        if (sorted[b - 1].key - sorted[a].key != (int32_t)(b - a - 1)) *is_interval = false;
        for (int64_t j = a; j < b; j++) {
            first[sorted[j].key] = sorted[a].key;
            last[sorted[j].key] = sorted[b - 1].key;
        }
    }
    for (int64_t i = 0; i < p->seqlen_q && *is_interval; i++) {
        int64_t d = diagonal(p, i);
        bool sees = d >= 0 && d < n;
        out.lo[i] = sees ? first[d] : 0;
        out.hi[i] = sees ? last[d] + 1 : 0;
    }
done:
    free(sorted);
    free(first);
    free(last);
    return status;
}

/* into = into AND/OR other, row by row. false when a union has a gap. */
static bool combine(int32_t kind, int64_t rows, intervals into, intervals other) {
    for (int64_t i = 0; i < rows; i++) {
        bool empty = into.lo[i] == into.hi[i], other_empty = other.lo[i] == other.hi[i];
        if (kind == FA4_MASK_ALL_OF) {
            int32_t lo = (int32_t)plan_max(into.lo[i], other.lo[i]), hi = (int32_t)plan_min(into.hi[i], other.hi[i]);
            into.lo[i] = lo < hi ? lo : 0;
            into.hi[i] = lo < hi ? hi : 0;
        } else if (empty) {
            into.lo[i] = other.lo[i];
            into.hi[i] = other.hi[i];
        } else if (!other_empty) {
            if (other.lo[i] > into.hi[i] || into.lo[i] > other.hi[i]) return false;
            into.lo[i] = (int32_t)plan_min(into.lo[i], other.lo[i]);
            into.hi[i] = (int32_t)plan_max(into.hi[i], other.hi[i]);
        }
    }
    return true;
}

/* into = NOT into. false when a complement has two parts. */
static bool complement(const fa4_problem *p, intervals into) {
    int32_t n = (int32_t)p->seqlen_kv;
    for (int64_t i = 0; i < p->seqlen_q; i++) {
        int32_t lo = into.lo[i], hi = into.hi[i];
        if (lo == hi) {
            into.lo[i] = 0;
            into.hi[i] = n;
        } else if (lo == 0 || hi == n) {
            into.lo[i] = lo == 0 && hi < n ? hi : 0;
            into.hi[i] = lo == 0 && hi < n ? n : lo;
        } else {
            return false;
        }
    }
    return true;
}

static fa4_status push_leaf(const fa4_problem *p, const fa4_mask_node *node, const int32_t *data, intervals *out,
                            bool *is_interval, fa4_error *err) {
    size_t bytes = (size_t)plan_max(p->seqlen_q, 1) * sizeof(int32_t);
    out->lo = malloc(bytes);
    out->hi = malloc(bytes);
    if (out->lo == NULL || out->hi == NULL) return error_set(err, FA4_NO_MEMORY, "mask: no memory for %zu bytes", bytes);
    if (node->kind == FA4_MASK_BITS) {
        *is_interval = false;
        return FA4_OK;
    }
    if (node->kind == FA4_MASK_DOCUMENT) return document_intervals(p, data + node->data_offset, *out, is_interval, err);
    for (int64_t i = 0; i < p->seqlen_q; i++) simple_interval(p, node, i, &out->lo[i], &out->hi[i]);
    return FA4_OK;
}

/* Runs the program on intervals. *is_interval = false as soon as one node leaves them. */
static fa4_status run_intervals(const fa4_problem *p, const int32_t *data, intervals *result, bool *is_interval,
                                fa4_error *err) {
    intervals stack[FA4_MASK_NODES_MAX + 1] = {{NULL, NULL}};
    int32_t depth = 0;
    fa4_status status = FA4_OK;
    *is_interval = true;
    const fa4_mask_node full = {.kind = FA4_MASK_FULL};
    int32_t nodes = p->mask_nodes > 0 ? p->mask_nodes : 1;
    for (int32_t n = 0; n < nodes && *is_interval && status == FA4_OK; n++) {
        const fa4_mask_node *node = p->mask_nodes > 0 ? &p->mask[n] : &full;
        if (node->kind < FA4_MASK_ALL_OF) {
            status = push_leaf(p, node, data, &stack[depth++], is_interval, err);
            continue;
        }
        intervals *first = &stack[depth - node->operands];
        for (int32_t k = 1; k < node->operands && *is_interval; k++)
            *is_interval = combine(node->kind, p->seqlen_q, first[0], first[k]);
        if (*is_interval && node->kind == FA4_MASK_NONE_OF) *is_interval = complement(p, first[0]);
        for (int32_t k = 1; k < node->operands; k++) {
            free(first[k].lo);
            free(first[k].hi);
            first[k] = (intervals){NULL, NULL};
        }
        depth -= node->operands - 1;
    }
    bool keep = status == FA4_OK && *is_interval;
    if (keep) *result = stack[0];
    for (int32_t k = keep ? 1 : 0; k <= FA4_MASK_NODES_MAX; k++) {
        free(stack[k].lo);
        free(stack[k].hi);
    }
    return status;
}

fa4_status plan_mask_resolve(plan_parts *parts, fa4_error *err) {
    fa4_plan_header *h = &parts->header;
    const fa4_problem *p = &h->problem;
    h->map_batches = h->map_heads = 1;
    bool is_interval = false;
    intervals rows = {NULL, NULL};
    FA4_TRY(run_intervals(p, parts->mask_data, &rows, &is_interval, err));
    if (!is_interval) {
        h->mask_class = FA4_CLASS_BITS;
        for (int32_t n = 0; n < p->mask_nodes; n++) {
            if (p->mask[n].kind != FA4_MASK_BITS) continue;
            if (p->mask[n].per_batch) h->map_batches = p->batch;
            if (p->mask[n].per_head) h->map_heads = h->heads;
        }
        return FA4_OK;
    }
    parts->row_lo = rows.lo;
    parts->row_hi = rows.hi;
    h->row_count = p->seqlen_q;
    bool full = true, causal = true;
    const fa4_mask_node causal_node = {.kind = FA4_MASK_CAUSAL};
    for (int64_t i = 0; i < p->seqlen_q; i++) {
        int32_t lo, hi;
        simple_interval(p, &causal_node, i, &lo, &hi);
        causal = causal && rows.lo[i] == lo && rows.hi[i] == hi;
        full = full && rows.lo[i] == 0 && rows.hi[i] == p->seqlen_kv;
    }
    h->mask_class = full ? FA4_CLASS_FULL : causal ? FA4_CLASS_CAUSAL : FA4_CLASS_INTERVAL;
    return FA4_OK;
}

/* Bits [lo, hi) of a 128-bit row that starts at key `start`. */
static void interval_bits(int64_t lo, int64_t hi, int64_t start, uint64_t bits[2]) {
    for (int w = 0; w < 2; w++) {
        int64_t a = plan_max(lo - start - 64 * w, 0), b = plan_min(hi - start - 64 * w, 64);
        uint64_t below_b = b >= 64 ? ~UINT64_C(0) : b <= 0 ? 0 : (UINT64_C(1) << b) - 1;
        uint64_t below_a = a >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << a) - 1;
        bits[w] = below_b & ~below_a;
    }
}

static void document_bits(const fa4_problem *p, const int32_t *ids, int64_t query, int64_t start, uint64_t bits[2]) {
    int64_t d = diagonal(p, query);
    bits[0] = bits[1] = 0;
    if (d < 0 || d >= p->seqlen_kv) return;
    int64_t end = plan_min(start + 128, p->seqlen_kv);
    for (int64_t j = start; j < end; j++)
        if (ids[j] == ids[d]) bits[(j - start) / 64] |= UINT64_C(1) << ((j - start) % 64);
}

static void stored_bits(const fa4_problem *p, const fa4_mask_node *node, const int32_t *data, int64_t batch, int64_t head,
                        int64_t query, int64_t start, uint64_t bits[2]) {
    int64_t row_words = 4 * size_ceil_divide(p->seqlen_kv, 128);
    int64_t plane = (node->per_batch ? batch : 0) * (node->per_head ? p->heads_q : 1) + (node->per_head ? head : 0);
    const int32_t *row = data + node->data_offset + (plane * p->seqlen_q + query) * row_words + start / 32;
    bits[0] = (uint64_t)(uint32_t)row[0] | (uint64_t)(uint32_t)row[1] << 32;
    bits[1] = (uint64_t)(uint32_t)row[2] | (uint64_t)(uint32_t)row[3] << 32;
}

static void leaf_bits(const fa4_problem *p, const fa4_mask_node *node, const int32_t *data, int64_t batch, int64_t head,
                      int64_t query, int64_t start, uint64_t bits[2]) {
    if (node->kind == FA4_MASK_BITS) {
        stored_bits(p, node, data, batch, head, query, start, bits);
    } else if (node->kind == FA4_MASK_DOCUMENT) {
        document_bits(p, data + node->data_offset, query, start, bits);
    } else {
        int32_t lo, hi;
        simple_interval(p, node, query, &lo, &hi);
        interval_bits(lo, hi, start, bits);
    }
}

void plan_mask_row_bits(const fa4_problem *p, const int32_t *data, int64_t batch, int64_t head_q, int64_t query,
                        int64_t key_block, uint64_t bits[2]) {
    uint64_t stack[FA4_MASK_NODES_MAX + 1][2];
    int32_t depth = 0;
    int64_t start = key_block * 128;
    uint64_t exists[2];
    interval_bits(0, p->seqlen_kv, start, exists);
    for (int32_t n = 0; n < p->mask_nodes; n++) {
        const fa4_mask_node *node = &p->mask[n];
        if (node->kind < FA4_MASK_ALL_OF) {
            leaf_bits(p, node, data, batch, head_q, query, start, stack[depth++]);
            continue;
        }
        uint64_t(*first)[2] = &stack[depth - node->operands];
        for (int32_t k = 1; k < node->operands; k++)
            for (int w = 0; w < 2; w++)
                first[0][w] = node->kind == FA4_MASK_ALL_OF ? first[0][w] & first[k][w] : first[0][w] | first[k][w];
        if (node->kind == FA4_MASK_NONE_OF)
            for (int w = 0; w < 2; w++) first[0][w] = ~first[0][w];
        depth -= node->operands - 1;
    }
    for (int w = 0; w < 2; w++) bits[w] = (depth > 0 ? stack[0][w] : ~UINT64_C(0)) & exists[w];
}

int32_t plan_mask_visible(const fa4_problem *p, const int32_t *data, int64_t batch, int64_t head_q, int64_t i, int64_t j) {
    if (batch < 0 || batch >= p->batch || head_q < 0 || head_q >= p->heads_q || i < 0 || i >= p->seqlen_q || j < 0 ||
        j >= p->seqlen_kv)
        return 0;
    uint64_t bits[2];
    plan_mask_row_bits(p, data, batch, head_q, i, j / 128, bits);
    return (int32_t)(bits[j % 128 / 64] >> (j % 64) & 1);
}
