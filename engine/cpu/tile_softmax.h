/*
 * The online softmax of one key block: the delayed reference (or none after a tile's first block),
 * 2^x, row sums, and P rounded for the second product. Counts what it decides. `kind` is how P is
 * stored, a constant wherever it is used.
 */
typedef enum weight_kind { WEIGHT_F32, WEIGHT_F16, WEIGHT_BF16, WEIGHT_PAIRS } weight_kind;

typedef struct tile_state {
    const cpu_job *job;
    const fa4_task *task;
    cpu_scratch *scratch;
    cpu_rows *rows;
    int32_t row_count, groups;
    bool first;     /* the tile's first visited block */
    bool fixed_up;  /* a row of this block needed a max-free fix-up */
    uint32_t moved; /* bit w: a row of warp w moved its reference in this block */
    float p_max, exponent_max;
    block_view view;
} tile_state;

typedef struct weights {
    float sum, largest;
} weights;

/* 2^x: the fraction's polynomial, coefficients by lane, times 2^floor(x). NaN stays NaN; below -126
   it is 0, so that no subnormal number slows the second product; from 128 on it is infinite. */
static inline __attribute__((always_inline)) vf exp2_lanes(vf x, const float *table) {
    x = v_clamp_exponent(x);
    vf f = v_fraction(x), p = v_load(table);
#pragma GCC unroll 8
    for (int term = 1; term < CPU_TERMS; term++)
        p = v_fma(p, f, v_load(table + term * CPU_LANES));
    return v_scale(p, x);
}

#include "cpu/tile_cap.h"
#include "cpu/tile_reference.h"

static inline __attribute__((always_inline)) void store_weights(vf p, float *row, int32_t column,
                                                                const weight_kind kind) {
    if (kind == WEIGHT_F32) v_store(row + column, p);
    if (kind == WEIGHT_F16) v_store(row + column, v_round_f16(p));
    if (kind == WEIGHT_BF16) v_store(row + column, v_round_bf16(p));
    if (kind == WEIGHT_PAIRS)
        v_store_pairs((char *)row + 2 * column, p); // Trails the scores that are read.
}

/* P of columns [c0, c1) of a row, 2^(s * scale + shift): from scores s to out (which may be s). */
static inline __attribute__((always_inline)) weights weigh(const tile_state *t, const float *s,
                                                           float *out, int32_t c0, int32_t c1,
                                                           float scale_log2, float shift_log2,
                                                           const weight_kind kind) {
    const cpu_job *job = t->job;
    const fa4_schedule *schedule = &job->plan->header.schedule;
    vf scale = v_set1(scale_log2), shift = v_set1(shift_log2), sum = v_set1(0.0f),
       largest = v_set1(0.0f);
    for (int32_t c = c0; c < c1; c += CPU_LANES) {
        int32_t fragment = c / 32;
        bool split = !t->view.partial && fragment >= schedule->exp2_first_fragment && fragment != 3;
        const float *table = split ? job->split : job->exact;
#pragma GCC unroll 4
        for (int32_t i = 0; i < CPU_LANES; i += LANES) {
            vf p = exp2_lanes(v_fma(v_load(s + c + i), scale, shift), table + i);
            sum = v_add(sum, p);
            largest = v_max(p, largest);
            store_weights(p, out, c + i, kind);
        }
    }
    return (weights){v_sum(sum), v_largest(largest)};
}

/* P of a row relative to its reference. */
static inline __attribute__((always_inline)) weights weigh_row(const tile_state *t, int32_t row,
                                                               const float *s, float *out,
                                                               int32_t c0, int32_t c1,
                                                               const weight_kind kind) {
    float log2 = t->rows->reference_log2[row];
    if (!is_far_row(t->rows, row))
        return weigh(t, s, out, c0, c1, t->job->scale_log2, log2 == -INFINITY ? 0.0f : -log2, kind);
    vf reference = v_set1(t->rows->reference[row]), scale = v_set1(t->job->scale_log2);
    for (int32_t c = c0; c < c1; c += LANES)
        v_store(out + c, v_mul(v_sub(v_load(s + c), reference), scale));
    return weigh(t, out, out, c0, c1, 1.0f, 0.0f, kind);
}

/* NaN scores are ignored here: they make the row's sum NaN. */
static float largest_score(const float *s, int32_t c0, int32_t c1) {
    vf a = v_set1(-INFINITY), b = a;
    for (int32_t c = c0; c < c1; c += CPU_LANES)
        for (int32_t i = 0; i < CPU_LANES; i += LANES) {
            vf x = v_load(s + c + i);
            if ((i / LANES + c / CPU_LANES) % 2)
                a = v_max(x, a);
            else
                b = v_max(x, b);
        }
    return v_largest(v_max(a, b));
}

static float power(float exponent) {
    return exponent < -126.0f ? 0.0f : (float)exp2((double)exponent);
}

/* 2^x is 0 in double below this. */
#define LOG2_LEAST_DOUBLE (-1075.0)

/* Is 2^exponent 0 in float alone? What it scales is then 0, but an infinity stays one, as in double. */
static bool keeps_infinity(float exponent) {
    return exponent < -126.0f && exponent >= LOG2_LEAST_DOUBLE;
}

static inline vf only_infinity(vf x) {
    return v_select_less(v_abs(x), v_set1(INFINITY), v_set1(0.0f), x);
}

/* Moves what row has gathered to a reference that is higher by -exponent log2 units. */
static void scale_row(tile_state *t, int32_t row, float exponent) {
    float factor = power(exponent);
    size_t room = (size_t)t->job->dim_v_room;
    float *o = t->scratch->o + (size_t)row * room;
    vf f = v_set1(factor);
    bool keeps = keeps_infinity(exponent);
    for (size_t c = 0; c < room; c += LANES)
        v_store(o + c, keeps ? only_infinity(v_load(o + c)) : v_mul(v_load(o + c), f));
    t->rows->sum[row] *= factor;
}

static void count_move(tile_state *t, int32_t row) {
    t->scratch->counters[t->task->head].rescaled_rows++;
    t->moved |= 1u << (row / 32);
}

/* Moves the gathered sums to a higher reference. */
static void move_reference(tile_state *t, int32_t row, float reference, float log2) {
    double before = exact_reference(t->job, t->rows, row);
    t->rows->reference[row] = reference;
    t->rows->reference_log2[row] = log2;
    scale_row(t, row, (float)(before - exact_reference(t->job, t->rows, row)));
    count_move(t, row);
}

/* Decides the reference of a row whose block maximum is m, and moves the gathered sums when it
 * changes. */
static void choose_reference(tile_state *t, int32_t row, float m) {
    const cpu_job *job = t->job;
    cpu_rows *rows = t->rows;
    float old = rows->reference[row], candidate = m > old ? m : old;
    if (t->first || old == -INFINITY) {
        if (old == candidate) return;
        if (!t->first) count_move(t, row);
        rows->reference[row] = candidate;
        rows->reference_log2[row] = reference_units(job, candidate);
        return;
    }
    float delta = (candidate - old) * job->step_log2;
    if (delta > job->threshold) {
        move_reference(t, row, candidate, reference_units(job, candidate));
    } else if (candidate > old) {
        t->scratch->counters[t->task->head].spared_rows++;
    }
}

/* What every step ends with. A NaN weight poisons its row for good. */
static inline void gather(tile_state *t, int32_t row, weights w) {
    cpu_rows *rows = t->rows;
    rows->sum[row] += w.sum;
    if (w.sum != w.sum) rows->reference[row] = rows->reference_log2[row] = NAN;
    if (w.largest > t->p_max) t->p_max = w.largest;
}

static inline __attribute__((always_inline)) void ordinary_step(tile_state *t, int32_t row,
                                                                float *s, int32_t c0, int32_t c1,
                                                                const weight_kind kind) {
    float m = largest_score(s, c0, c1);
    choose_reference(t, row, m);
    float reference = t->rows->reference[row],
          log2 = reference == -INFINITY ? 0.0f : t->rows->reference_log2[row];
    float exponent = t->job->whole_units && !is_far_row(t->rows, row) ? m * t->job->scale_log2 - log2
                                                          : (m - reference) * t->job->scale_log2;
    if (exponent > t->exponent_max) t->exponent_max = exponent;
    gather(t, row, weigh_row(t, row, s, s, c0, c1, kind));
}

/* Weights of a row whose sum passed the limit, redone or shifted so that the largest lies in [1,
 * 2). */
static weights fix_up(tile_state *t, int32_t row, const float *s, float *p, int32_t c0, int32_t c1,
                      weights w) {
    cpu_rows *rows = t->rows;
    t->fixed_up = true;
    float old = rows->reference_log2[row];
    // The weights overflowed, or the shift may lead too far: an ordinary step from the scores.
    if (!(w.sum <= 1e37f) || is_far(old + 128.0f)) {
        float m = largest_score(s, c0, c1), log2 = reference_units(t->job, m);
        if (log2 > old) move_reference(t, row, is_far(log2) ? m : log2, log2);
        return weigh_row(t, row, s, p, c0, c1, WEIGHT_F32);
    }
    int shift = ilogbf(w.largest);
    if (shift <= 0) return w; // Many weights below 2: they fit as they are.
    vf factor = v_set1(power((float)-shift));
    for (int32_t c = c0; c < c1; c += LANES)
        v_store(p + c, v_mul(v_load(p + c), factor));
    move_reference(t, row, old + (float)shift, old + (float)shift);
    return (weights){w.sum * power((float)-shift), w.largest * power((float)-shift)};
}

static inline __attribute__((always_inline)) void max_free_step(tile_state *t, int32_t row,
                                                                float *s, int32_t c0, int32_t c1,
                                                                const weight_kind kind) {
    if (t->first || t->rows->reference[row] == -INFINITY || is_far_row(t->rows, row)) {
        ordinary_step(t, row, s, c0, c1, kind);
        return;
    }
    _Alignas(64) float p[CPU_KEYS];
    weights w = weigh_row(t, row, s, p, c0, c1, WEIGHT_F32);
    if (!(w.sum <= t->job->sum_limit))
        w = fix_up(t, row, s, p, c0, c1, w);
    else if (w.largest > 1.0f)
        t->scratch->counters[t->task->head].spared_rows++;
    for (int32_t c = c0; c < c1; c += LANES)
        store_weights(v_load(p + c), s, c, kind);
    gather(t, row, w);
}

/* Hidden scores of the row become -inf. */
static void hide_row(const block_view *view, int32_t row, float *s, int32_t c0, int32_t c1) {
    for (int32_t c = c0; c < c1; c += LANES) {
        uint32_t bits = view->bits[row][c / 32] >> (c % 32);
        v_store(s + c, v_keep_bits(v_load(s + c), bits, -INFINITY));
    }
}

static void zero_weights(float *s, int32_t c0, int32_t c1, const weight_kind kind) {
    if (c0 >= c1) return;
    if (kind == WEIGHT_PAIRS)
        memset((char *)s + 2 * c0, 0, (size_t)(c1 - c0) * 2);
    else
        memset(s + c0, 0, (size_t)(c1 - c0) * 4);
}

static inline __attribute__((always_inline)) void softmax_rows(tile_state *t,
                                                               const weight_kind kind) {
    const cpu_job *job = t->job;
    for (int32_t row = 0; row < t->row_count; row++) {
        float *s = t->scratch->s + (size_t)row * CPU_KEYS;
        int32_t c0 = 0, c1 = CPU_KEYS;
        if (t->view.partial) {
            c0 = t->view.lo[row] / CPU_LANES * CPU_LANES;
            c1 = (t->view.hi[row] + CPU_LANES - 1) / CPU_LANES * CPU_LANES;
        }
        if (c0 < c1) {
            if (job->cap_out > 0) cap_row(job, s, c0, c1);
            if (t->view.partial) hide_row(&t->view, row, s, c0, c1);
            if (job->max_free)
                max_free_step(t, row, s, c0, c1, kind);
            else
                ordinary_step(t, row, s, c0, c1, kind);
        }
        if (!t->view.partial) continue;
        int32_t lo = t->view.group_lo[row / ROW_GROUP], hi = t->view.group_hi[row / ROW_GROUP];
        zero_weights(s, lo, c0 < c1 ? c0 : hi, kind);
        if (c0 < c1) zero_weights(s, c1, hi, kind);
    }
}

static void softmax_block(tile_state *t) {
    const cpu_job *job = t->job;
    int32_t dtype = job->plan->header.problem.dtype;
    t->fixed_up = false;
    t->moved = 0;
    if (job->pairs)
        softmax_rows(t, V_HAS_DOT2 ? WEIGHT_PAIRS : WEIGHT_BF16);
    else if (dtype == FA4_F16)
        softmax_rows(t, WEIGHT_F16);
    else if (dtype == FA4_BF16)
        softmax_rows(t, WEIGHT_BF16);
    else
        softmax_rows(t, WEIGHT_F32);
    fa4_counters *counters = &t->scratch->counters[t->task->head];
    counters->rescaled_warps += __builtin_popcount(t->moved);
    counters->max_fixups += t->fixed_up;
}
