/*
 * One query tile from Q to O, written once over a small vector vocabulary. A file per instruction
 * set defines the vocabulary and KERNEL_NAME, KERNEL_SYMBOL, includes this, and thereby defines one
 * cpu_kernel. The vocabulary:
 *
 *   vf, V_LANES, ROW_GROUP, PANEL_VECTORS, V_HAS_DOT2, V_TRANSPOSE
 *   v_load v_store v_set1 v_add v_sub v_mul v_div, v_fma(a, b, c) = a b + c, v_abs
 *   v_copy_sign(magnitude, sign)
 *   v_max(a, b), v_min(a, b): b when either is NaN
 *   v_select_less(a, b, x, y): a < b ? x : y by lane
 *   v_sum v_largest: over lanes
 *   v_keep_bits(x, bits, other): lane i keeps x when bit i is set
 *   v_clamp_exponent v_fraction v_scale: see exp2_lanes
 *   v_load_f16 v_load_bf16 v_store_f16 v_store_bf16: nearest even, NaN stays NaN
 *   v_round_f16 v_round_bf16: the same, back to float
 *   v_store_half(word *, half, x) v_load_half(word *, half): bf16, lower or upper half of each word
 *   v_store_pairs: weights as bf16 for v_dot2
 *   v_dot2(a, b, c): pairs of bf16, c + a.lo b.lo + a.hi b.hi
 *   v_transpose(from, from stride, to, to stride, n): n columns of V_LANES rows become rows
 *
 * One block is S = Q K^T, softmax by rows, O += P V; scores stay in s, weights replace them there.
 */
#include "cpu/cpu_internal.h"
#include "core/half.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cpu/tile_gemm.h"
#include "cpu/tile_pack.h"
#include "cpu/tile_softmax.h"

static const char *tensor_row(const fa4_tensor *t, int64_t batch, int64_t position, int64_t head) {
    int64_t offset = batch * t->strides[0] + position * t->strides[1] + head * t->strides[2];
    return (const char *)t->data + offset * fa4_dtype_bytes(t->dtype);
}

/* Rows of Q in packed words, negated for a negative scale; rows that only fill a group are zero. */
static void load_queries(tile_state *t) {
    const cpu_job *job = t->job;
    const fa4_plan_header *h = &job->plan->header;
    const fa4_tensor *q = &job->tensors->q;
    for (int32_t row = 0; row < t->groups * ROW_GROUP; row++) {
        float *words = t->scratch->q + (size_t)row * (size_t)job->words;
        if (row >= t->row_count) {
            memset(words, 0, (size_t)job->words * 4);
            continue;
        }
        cpu_source source = {.dtype = q->dtype, .dim = h->problem.dim, .keys = 1};
        source.base = tensor_row(q, t->task->batch, plan_row_position(h, t->task->tile, row),
                                 plan_row_head(h, t->task->head, row));
        words_of_row(job, &source, 0, words);
        if (!h->scale_negative) continue;
        uint32_t sign = job->pairs ? 0x80008000u : 0x80000000u;
        for (int32_t w = 0; w < job->words; w++) {
            uint32_t bits;
            memcpy(&bits, &words[w], 4);
            bits ^= sign;
            memcpy(&words[w], &bits, 4);
        }
    }
}

static void bits_of_interval(int32_t lo, int32_t hi, uint32_t bits[4]) {
    for (int32_t w = 0; w < 4; w++) {
        int32_t a = lo - 32 * w, b = hi - 32 * w;
        uint64_t below_a = a <= 0 ? 0 : a >= 32 ? UINT32_MAX : (UINT64_C(1) << a) - 1;
        uint64_t below_b = b <= 0 ? 0 : b >= 32 ? UINT32_MAX : (UINT64_C(1) << b) - 1;
        bits[w] = (uint32_t)(below_b & ~below_a);
    }
}

static void interval_of_bits(const uint32_t bits[4], int32_t *lo, int32_t *hi) {
    *lo = CPU_KEYS;
    *hi = 0;
    for (int32_t w = 0; w < 4; w++) {
        if (bits[w] == 0) continue;
        if (*lo == CPU_KEYS) *lo = 32 * w + __builtin_ctz(bits[w]);
        *hi = 32 * w + 32 - __builtin_clz(bits[w]);
    }
}

static void view_row(tile_state *t, const fa4_block *block, int32_t row) {
    const fa4_plan *plan = t->job->plan;
    block_view *view = &t->view;
    int64_t start = (int64_t)block->key_block * CPU_KEYS;
    if (block->mask >= 0) {
        memcpy(view->bits[row], plan_bit_tile(plan, block->mask) + (size_t)row * 4, 16);
        int32_t keys = cpu_block_keys(&plan->header, block->key_block);
        uint32_t exist[4];
        bits_of_interval(0, keys, exist);
        for (int32_t w = 0; w < 4; w++)
            view->bits[row][w] &= exist[w];
        interval_of_bits(view->bits[row], &view->lo[row], &view->hi[row]);
        return;
    }
    int64_t position = plan_row_position(&plan->header, t->task->tile, row);
    int64_t lo = plan_row_lo(plan)[position] - start, hi = plan_row_hi(plan)[position] - start;
    view->lo[row] = (int32_t)(lo < 0 ? 0 : lo > CPU_KEYS ? CPU_KEYS : lo);
    view->hi[row] = (int32_t)(hi < 0 ? 0 : hi > CPU_KEYS ? CPU_KEYS : hi);
    if (view->lo[row] >= view->hi[row]) view->lo[row] = CPU_KEYS, view->hi[row] = 0;
    bits_of_interval(view->lo[row], view->hi[row], view->bits[row]);
}

static void view_block(tile_state *t, const fa4_block *block) {
    block_view *view = &t->view;
    view->partial = block->mask != -1;
    if (!view->partial) return;
    for (int32_t row = 0; row < t->row_count; row++)
        view_row(t, block, row);
    for (int32_t g = 0; g < t->groups; g++) {
        int32_t lo = CPU_KEYS, hi = 0;
        for (int32_t row = g * ROW_GROUP; row < (g + 1) * ROW_GROUP && row < t->row_count; row++) {
            lo = view->lo[row] < lo ? view->lo[row] : lo;
            hi = view->hi[row] > hi ? view->hi[row] : hi;
        }
        view->group_lo[g] = lo / CPU_LANES * CPU_LANES;
        view->group_hi[g] = (hi + CPU_LANES - 1) / CPU_LANES * CPU_LANES;
    }
}

static float stored_weight(const cpu_job *job, const float *s, int32_t key) {
    if (!job->pairs) return s[key];
    uint16_t half;
    memcpy(&half, (const char *)s + 2 * key, 2);
    return half_bf16_to_float(half);
}

/* A weight that is 0 in float: positive, unless it would be 0 in double too. */
static float vanished_weight(const tile_state *t, int32_t row, float score) {
    double exponent = (double)score * (double)t->job->scale_log2 - exact_reference(t->job, t->rows, row);
    return exponent < LOG2_LEAST_DOUBLE ? 0.0f : 0x1p-149f;
}

/* O += P V where a value is not finite: only keys that a row sees may touch it. `scores` are what
 * the weights were made of. */
static void multiply_special_values(tile_state *t, const float *scores, const float *v) {
    const cpu_job *job = t->job;
    size_t share = job->pairs ? 2 : 1;
    for (int32_t row = 0; row < t->row_count; row++) {
        const float *s = t->scratch->s + (size_t)row * CPU_KEYS;
        float *o = t->scratch->o + (size_t)row * (size_t)job->dim_v_room;
        int32_t lo = t->view.partial ? t->view.lo[row] : 0,
                hi = t->view.partial ? t->view.hi[row] : CPU_KEYS;
        for (int32_t key = lo; key < hi; key++) {
            if (t->view.partial && !(t->view.bits[row][key / 32] >> (key % 32) & 1)) continue;
            float p = stored_weight(job, s, key);
            if (p == 0.0f) p = vanished_weight(t, row, scores[(size_t)row * CPU_KEYS + (size_t)key]);
            vf weight = v_set1(p);
            for (int32_t c = 0; c < job->dim_v_room; c += LANES) {
                const float *word = v + (size_t)(c / PANEL) * (CPU_KEYS / share) * PANEL +
                                    (size_t)key / share * PANEL + c % PANEL;
                vf value = job->pairs ? v_load_half(word, key % 2) : v_load(word);
                v_store(o + c, v_fma(weight, value, v_load(o + c)));
            }
        }
    }
}

static void widen_bounds(tile_state *t, const float *bounds, bool special) {
    cpu_partial *part = t->scratch->part;
    int32_t room = t->job->dim_v_room;
    for (int32_t c = 0; c < room; c += LANES) {
        vf least = special ? v_set1(-INFINITY) : v_load(bounds + c);
        vf largest = special ? v_set1(INFINITY) : v_load(bounds + room + c);
        v_store(part->least + c, v_min(least, v_load(part->least + c)));
        v_store(part->largest + c, v_max(largest, v_load(part->largest + c)));
    }
}

/* The packed block, shared or packed here. */
static cpu_packed find_block(const tile_state *t, int64_t kb) {
    const cpu_job *job = t->job;
    const fa4_plan_header *h = &job->plan->header;
    int64_t head_kv = h->packed ? t->task->head : t->task->head / h->group;
    if (job->shared.k != NULL) {
        int64_t i = (t->task->batch * (int64_t)h->problem.heads_kv + head_kv) * job->blocks + kb;
        return (cpu_packed){(char *)job->shared.k + i * job->k_bytes,
                            (char *)job->shared.v + i * job->v_bytes,
                            job->shared.bounds + i * 2 * job->dim_v_room, job->shared.special + i};
    }
    cpu_packed own = t->scratch->packed;
    cpu_source source;
    cpu_source_of_k(job, t->task->batch, head_kv, kb, &source);
    pack_k(job, &source, own.k);
    cpu_source_of_v(job, t->task->batch, head_kv, kb, &source);
    pack_v(job, &source, own.v, own.bounds, own.special);
    return own;
}

/* Softmax and second product of a block with a value that is not finite. */
static void weigh_special_block(tile_state *t, const float *v) {
    _Alignas(64) float scores[CPU_ROWS_ROOM * CPU_KEYS];
    memcpy(scores, t->scratch->s, (size_t)t->groups * ROW_GROUP * CPU_KEYS * sizeof(float));
    if (t->job->cap_out > 0)
        for (int32_t row = 0; row < t->row_count; row++)
            cap_row(t->job, scores + (size_t)row * CPU_KEYS, 0, CPU_KEYS);
    softmax_block(t);
    multiply_special_values(t, scores, v);
}

static void run_block(tile_state *t, const fa4_block *block) {
    cpu_packed packed = find_block(t, block->key_block);
    view_block(t, block);
    multiply_scores(t->job, t->scratch->q, packed.k, t->scratch->s, t->groups, &t->view);
    if (*packed.special) {
        weigh_special_block(t, packed.v);
    } else {
        softmax_block(t);
        multiply_values(t->job, t->scratch->s, packed.v, t->scratch->o, t->groups, &t->view);
    }
    widen_bounds(t, packed.bounds, *packed.special);
}

static void start_tile(tile_state *t) {
    cpu_partial *part = t->scratch->part;
    for (int32_t row = 0; row < t->groups * ROW_GROUP; row++) {
        part->rows.reference[row] = -INFINITY;
        part->rows.reference_log2[row] = -INFINITY;
        part->rows.sum[row] = 0.0f;
    }
    for (int32_t c = 0; c < t->job->dim_v_room; c++)
        part->least[c] = INFINITY, part->largest[c] = -INFINITY;
    memset(t->scratch->o, 0, (size_t)t->groups * ROW_GROUP * (size_t)t->job->dim_v_room * 4);
}

/* Rounds to 16 bits without making a finite value infinite. */
static vf saturate(vf x, float largest) {
    vf inside = v_max(v_set1(-largest), v_min(v_set1(largest), x));
    return v_select_less(v_abs(x), v_set1(INFINITY), inside, x);
}

/* O and LSE of one row. Rounded weights may weigh more than their sum: the result stays within the
 * values' bounds. */
static void store_row(const tile_state *t, int32_t row) {
    const cpu_job *job = t->job;
    const fa4_plan_header *h = &job->plan->header;
    const cpu_partial *part = t->scratch->part;
    const fa4_tensor *o = &job->tensors->o;
    int64_t position = plan_row_position(h, t->task->tile, row),
            head = plan_row_head(h, t->task->head, row);
    const float *from = t->scratch->o + (size_t)row * (size_t)job->dim_v_room;
    double far = is_far_row(t->rows, row) ? far_reference(job, t->rows, row) : 0;
    bool empty = t->rows->reference[row] == -INFINITY || far == -INFINITY;
    // A largest score that is infinite in double as well makes the row NaN there.
    float row_sum = far == INFINITY ? NAN : t->rows->sum[row];
    vf sum = v_set1(empty ? 1.0f : row_sum);
    _Alignas(64) char out[CPU_DIM_MAX * 4 + 64];
    for (int32_t c = 0; c < job->dim_v_room; c += LANES) {
        vf x = v_div(v_load(from + c), sum);
        x = v_max(v_load(part->least + c), v_min(v_load(part->largest + c), x));
        if (empty) x = v_set1(0.0f);
        if (o->dtype == FA4_F32)
            v_store((float *)out + c, x);
        else if (o->dtype == FA4_F16)
            v_store_f16(out + 2 * c, saturate(x, 65504.0f));
        else
            v_store_bf16(out + 2 * c, saturate(x, 0x1.fep127f));
    }
    // The tensor is the caller's to be written; views of it are const here only because one helper
    // serves all.
    char *to = (char *)(uintptr_t)tensor_row(o, t->task->batch, position, head);
    memcpy(to, out, (size_t)h->problem.dim_v * element_bytes(o->dtype));
    if (!h->problem.lse) return;
    float lse = empty ? -INFINITY : log_sum_exp(job, t->rows, row, row_sum);
    memcpy((char *)(uintptr_t)tensor_row(&job->tensors->lse, t->task->batch, head, position), &lse,
           sizeof lse);
}

static tile_state begin(const cpu_job *job, const fa4_task *task, cpu_scratch *scratch) {
    tile_state t = {.job = job, .task = task, .scratch = scratch, .rows = &scratch->part->rows};
    t.row_count = plan_tile_rows(&job->plan->header, task->tile);
    t.groups = (t.row_count + ROW_GROUP - 1) / ROW_GROUP;
    t.exponent_max = -INFINITY;
    return t;
}

static bool stopped(const cpu_job *job) {
    return job->interrupt != NULL && __atomic_load_n(job->interrupt, __ATOMIC_RELAXED) != 0;
}

static void count_extremes(const tile_state *t) {
    fa4_counters *counters = &t->scratch->counters[t->task->head];
    double exponent = t->exponent_max;
    if (t->job->max_free && t->p_max > 0.0f && log2((double)t->p_max) > exponent)
        exponent = log2((double)t->p_max);
    if (exponent > counters->exponent_max) counters->exponent_max = exponent;
    if (t->p_max > counters->p_max) counters->p_max = t->p_max;
}

static void run_tile(const cpu_job *job, const fa4_task *task, cpu_scratch *scratch) {
    tile_state t = begin(job, task, scratch);
    const fa4_plan_header *h = &job->plan->header;
    const fa4_block_list *list = plan_list(job->plan, task->batch, task->head, task->tile);
    int64_t splits = h->schedule.kv_splits;
    int64_t from = list->count * (int64_t)task->split / splits,
            end = list->count * ((int64_t)task->split + 1) / splits;
    start_tile(&t);
    if (from < end) load_queries(&t);
    t.first = true;
    for (int64_t i = from; i < end; i++, t.first = false) {
        if (stopped(job)) return;
        run_block(&t, &plan_blocks(job->plan)[list->first + i]);
    }
    count_extremes(&t);
    if (splits > 1) {
        memcpy(job->partials +
                   (cpu_tile_index(h, task) * splits + task->split) * job->partial_bytes,
               scratch->part, (size_t)job->partial_bytes);
        return;
    }
    for (int32_t row = 0; row < t.row_count; row++)
        store_row(&t, row);
}

/* Adds the rows of `other` to those gathered, at the higher of both references. */
static void join_row(tile_state *t, int32_t row, const cpu_partial *other) {
    cpu_rows *rows = t->rows;
    size_t room = (size_t)t->job->dim_v_room;
    float *o = t->scratch->o + (size_t)row * room;
    const float *add = (const float *)(other + 1) + (size_t)row * room;
    if (other->rows.reference[row] == -INFINITY) return;
    double a = exact_reference(t->job, rows, row), b = exact_reference(t->job, &other->rows, row);
    double reference = a > b ? a : b;
    float down_a = (float)(a - reference), down_b = (float)(b - reference);
    float scale_a = rows->reference[row] == -INFINITY ? 0.0f : power(down_a), scale_b = power(down_b);
    vf va = v_set1(scale_a), vb = v_set1(scale_b);
    bool keeps_a = keeps_infinity(down_a), keeps_b = keeps_infinity(down_b);
    for (size_t c = 0; c < room; c += LANES) {
        vf x = keeps_a ? only_infinity(v_load(o + c)) : v_mul(v_load(o + c), va);
        vf y = keeps_b ? only_infinity(v_load(add + c)) : v_load(add + c);
        v_store(o + c, v_fma(y, keeps_b ? v_set1(1.0f) : vb, x));
    }
    rows->sum[row] = rows->sum[row] * scale_a + other->rows.sum[row] * scale_b;
    if (a > b) return;
    rows->reference[row] = other->rows.reference[row];
    rows->reference_log2[row] = other->rows.reference_log2[row];
}

static void join_parts(const cpu_job *job, const fa4_task *task, cpu_scratch *scratch) {
    tile_state t = begin(job, task, scratch);
    int64_t splits = job->plan->header.schedule.kv_splits;
    const char *parts =
        job->partials + cpu_tile_index(&job->plan->header, task) * splits * job->partial_bytes;
    memcpy(scratch->part, parts, (size_t)job->partial_bytes);
    for (int64_t split = 1; split < splits; split++) {
        const cpu_partial *other =
            (const cpu_partial *)(const void *)(parts + split * job->partial_bytes);
        for (int32_t row = 0; row < t.row_count; row++)
            join_row(&t, row, other);
        for (int32_t c = 0; c < job->dim_v_room; c += LANES) {
            v_store(scratch->part->least + c,
                    v_min(v_load(other->least + c), v_load(scratch->part->least + c)));
            v_store(scratch->part->largest + c,
                    v_max(v_load(other->largest + c), v_load(scratch->part->largest + c)));
        }
    }
    for (int32_t row = 0; row < t.row_count; row++)
        store_row(&t, row);
}

enum { BURN_CHAINS = 12 };

static inline __attribute__((always_inline)) double burn(int64_t rounds, volatile float *sink,
                                                         const bool pairs) {
    vf chain[BURN_CHAINS], factor = v_set1(*sink), total;
#pragma GCC unroll 16
    for (int i = 0; i < BURN_CHAINS; i++)
        chain[i] = v_set1((float)i);
    for (int64_t n = 0; n < rounds; n++) {
#pragma GCC unroll 16
        for (int i = 0; i < BURN_CHAINS; i++)
            chain[i] = pairs ? v_dot2(factor, factor, chain[i]) : v_fma(chain[i], factor, factor);
    }
    total = chain[0];
    for (int i = 1; i < BURN_CHAINS; i++)
        total = v_add(total, chain[i]);
    *sink = v_sum(total) != 0.0f ? 0.5f : 0.25f;
    return (double)rounds * BURN_CHAINS * LANES * (pairs ? 4 : 2);
}

static double burn_f32(int64_t rounds, volatile float *sink) {
    return burn(rounds, sink, false);
}

static double burn_bf16(int64_t rounds, volatile float *sink) {
    return V_HAS_DOT2 ? burn(rounds, sink, V_HAS_DOT2) : 0.0;
}

const cpu_kernel KERNEL_SYMBOL = {.name = KERNEL_NAME,
                                  .lanes = LANES,
                                  .row_group = ROW_GROUP,
                                  .panel = PANEL,
                                  .pairs = V_HAS_DOT2,
                                  .pack_k = pack_k,
                                  .pack_v = pack_v,
                                  .tile = run_tile,
                                  .join = join_parts,
                                  .burn_f32 = burn_f32,
                                  .burn_bf16 = burn_bf16};
