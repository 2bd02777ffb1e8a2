// Softmax of one block of scores in the registers of a warp: 16 rows x 128 keys, element i of a lane being
//   row 8 * ((i >> 1) & 1) + lane / 4,  key 8 * (i >> 2) + 2 * (lane % 4) + (i & 1),
// so that a lane holds two rows, 32 keys each, and a row lies in the four lanes of a quad. Index h = (i >> 1) & 1 names the row.
//
// The reference of a row is what its weights are relative to. Ordinary blocks keep it in units of the score (decisions compare
// (candidate - reference) * scale_log2, as the CPU does) and move it by the threshold. Max-free blocks keep it in log2 units: no maximum
// is taken; a row whose weights sum to more than 2^threshold moves by the exponent of its largest weight, exactly; overflow and NaN
// redo the block with a maximum. The first block's reference is the exact maximum (so that a row with one key has weight 1 and O = V
// exactly: a whole-number reference gave bf16 a weight in [0.71, 1.41], rounded, and four times the largest error), or the nearest
// whole number when the plan asks for it. A row that has seen no key has reference -inf, sum 0 and O = 0.
#ifndef FA4_KERNELS_SM90_SOFTMAX_CUH
#define FA4_KERNELS_SM90_SOFTMAX_CUH

#include "sm90.cuh"

constexpr float SUM_LIMIT = 1e37f; // a larger sum may hide a weight that is no number any more

struct Rows {
    float reference[2];
    float sum[2]; // of this lane's keys; the quad is added up at the end
    int bound[2]; // where blocks are looked at first: scores that read as less, as integers, move nothing
};

// What a lane decided, for counter builds; empty otherwise.
struct Decisions {
    int rescaled = 0, spared = 0, fixups = 0; // by rows; by warps for fixups
    float p_max = 0;
};

struct Numbers { // launch parameters that the loop keeps in registers
    float scale_log2, threshold;
    float units; // of the score in one log2 unit, a little less
};

DEVICE float quad_max(float x) {
    x = ptx::max_nan(x, __shfl_xor_sync(~0u, x, 1));
    return ptx::max_nan(x, __shfl_xor_sync(~0u, x, 2));
}
DEVICE float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// Largest score of both rows; NaN wins.
DEVICE void row_max(const float (&s)[64], float (&x)[2]) {
    float a[4];
#pragma unroll
    for (int k = 0; k < 4; k++) a[k] = ptx::max_nan(s[2 * k], s[2 * k + 1]);
#pragma unroll
    for (int i = 8; i < 64; i += 8)
#pragma unroll
        for (int k = 0; k < 4; k++) a[k] = ptx::max_nan(a[k], ptx::max_nan(s[i + 2 * k], s[i + 2 * k + 1]));
#pragma unroll
    for (int h = 0; h < 2; h++) x[h] = quad_max(ptx::max_nan(a[h], a[h + 2]));
}

// Largest score of both rows read as an integer: right when one is positive or NaN (the tensor cores' NaN is positive); else below 0.
DEVICE void row_max_bits(const float (&s)[64], int (&x)[2]) {
    int a[4];
#pragma unroll
    for (int k = 0; k < 4; k++) a[k] = maximum(__float_as_int(s[2 * k]), __float_as_int(s[2 * k + 1]));
#pragma unroll
    for (int i = 8; i < 64; i += 8)
#pragma unroll
        for (int k = 0; k < 4; k++) a[k] = maximum(maximum(a[k], __float_as_int(s[i + 2 * k])), __float_as_int(s[i + 2 * k + 1]));
    x[0] = maximum(a[0], a[2]);
    x[1] = maximum(a[1], a[3]);
}

// The subtrahend of a row's exponents; 0 while the row has seen no key, so that -inf - (-inf) never happens.
DEVICE float subtrahend(float reference, Numbers numbers) {
    float shift = MAX_FREE ? reference : reference * numbers.scale_log2;
    return reference == MINUS_INFINITY ? 0.0f : shift;
}

// 2^x by floor, a cubic on [0, 1) and an exponent add: no MUFU. Clamped above too, so that overflow and NaN still end above every
// limit (unclamped, 130 would give -1.2e-38).
DEVICE float ex2_polynomial(float x) {
    constexpr float MAGIC = 12582912.0f; // 1.5 * 2^23: adding it rounded down leaves floor(x) in the low bits
    x = ptx::min_nan(ptx::max_nan(x, -127.0f), 127.0f);
    float shifted = ptx::add_rm(x, MAGIC);
    float f = x - (shifted - MAGIC);
    float y = fmaf(fmaf(fmaf(0.07711909f, f, 0.22756439f), f, 0.69514614f), f, 1.0f);
    return __int_as_float(__float_as_int(y) + (__float_as_int(shifted) << 23));
}

// Whether the plan's exp2 split sends the pair that element i belongs to through the polynomial. A pair of a lane is one of 4 of its
// quad, so 2 pairs of every 8 are one group of 8 keys in 4.
template <bool MASKED> DEVICE constexpr bool is_polynomial(int i) {
    int fragment = i >> 4, group = (i >> 2) & 3;
    return !MASKED && fragment >= FA4_FIRST_FRAGMENT && fragment < 3 && 2 * (3 - group) < FA4_EMULATED_PAIRS;
}

// Scores to weights, in place; adds to the rows' sums.
template <int FROM, int TO, bool MASKED>
DEVICE void weights(float (&s)[64], const float (&shift)[2], float scale_log2, float (&sum)[2]) {
#pragma unroll
    for (int i = FROM; i < TO; i++) {
        const int h = (i >> 1) & 1;
        float x = fmaf(s[i], scale_log2, -shift[h]);
        s[i] = is_polynomial<MASKED>(i) ? ex2_polynomial(x) : ptx::ex2(x);
        sum[h] += s[i];
    }
}

// Weights to the A operand of P V: the accumulator's layout is that of a 16-bit A fragment.
DEVICE void pack(u32 (&p)[32], const float (&s)[64]) {
#pragma unroll
    for (int i = 0; i < 32; i++) p[i] = ptx::cvt_rn_x2<IS_BF16>(s[2 * i], s[2 * i + 1]);
}

// tanh(x) as 1 - 2 / (1 + e^2x), the argument prepared: tanh.approx is too coarse (2^-11 at cap 50 moves weights by 2.5 %).
DEVICE void soft_cap(float (&s)[64], float cap_scale) {
#pragma unroll
    for (int i = 0; i < 64; i++) s[i] = fmaf(-2.0f, ptx::rcp(1.0f + ptx::ex2(s[i] * cap_scale)), 1.0f);
}

DEVICE void count_weights(Decisions &decisions, const float (&s)[64], const bool (&exists)[2]) {
    if constexpr (COUNTS) {
#pragma unroll
        for (int i = 0; i < 64; i++)
            if (exists[(i >> 1) & 1]) decisions.p_max = fmaxf(decisions.p_max, s[i]);
    }
}

// Max-free rows whose maximum grew past their reference, which stayed: seen by their weights.
DEVICE void count_spared(const float (&s)[64], Decisions &decisions) {
    float largest[2];
    row_max(s, largest);
#pragma unroll
    for (int h = 0; h < 2; h++) decisions.spared |= (int)(largest[h] > 1.0f && (decisions.rescaled >> h & 1) == 0) << h;
}

// The reference of a tile's first block.
DEVICE float first_reference(float x, Numbers numbers) {
    if (!MAX_FREE) return x;
    return FA4_INTEGER_REFERENCE ? rintf(x * numbers.scale_log2) : x * numbers.scale_log2;
}

// A row's reference may move from this score on, read as an integer. What is below 0 does not order that way: every block then looks closer.
DEVICE int moving_bits(float reference, Numbers numbers) {
    float bound = fmaf(numbers.threshold, numbers.units, reference);
    if (!((bound - reference) * numbers.scale_log2 <= numbers.threshold)) bound = reference;
    return bound >= 0.0f ? __float_as_int(bound) + 1 : -2147483647 - 1;
}

// Whether a row of the warp may have to move: a look at the scores alone, half the work of their maximum and no exchange with the quad.
DEVICE bool may_move(const float (&s)[64], const Rows &rows) {
    int bits[2];
    row_max_bits(s, bits);
    return __any_sync(~0u, bits[0] >= rows.bound[0] || bits[1] >= rows.bound[1]);
}

// Ordinary step: moves the reference of each row whose maximum passed the threshold. True when a row of the warp moved; alpha is
// what its sum and its O must be multiplied by (1 for a row that stays).
DEVICE bool move_references(const float (&s)[64], Rows &rows, float (&alpha)[2], Numbers numbers, Decisions &decisions) {
    float x[2], delta[2];
    bool moves[2];
    row_max(s, x);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        x[h] = ptx::max_nan(rows.reference[h], x[h]);
        delta[h] = (x[h] - rows.reference[h]) * numbers.scale_log2;
        moves[h] = !(delta[h] <= numbers.threshold); // NaN moves too, and stays NaN
        if (COUNTS) decisions.rescaled |= (delta[h] > numbers.threshold) << h;
        if (COUNTS) decisions.spared |= (x[h] > rows.reference[h] && moves[h] == false) << h;
    }
    if (!__any_sync(~0u, moves[0] || moves[1])) return false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        // From -inf there is nothing to scale: sum and O are 0 (and -inf - (-inf) would be NaN).
        float factor = rows.reference[h] == MINUS_INFINITY ? 0.0f : ptx::ex2(-delta[h]);
        alpha[h] = moves[h] ? factor : 1.0f;
        rows.sum[h] *= alpha[h];
        rows.reference[h] = moves[h] ? x[h] : rows.reference[h];
        if (LOOKS) rows.bound[h] = moving_bits(rows.reference[h], numbers);
    }
    return true;
}

// Max-free fix-up, the weights still numbers: moves each row above the limit by the exponent of its largest weight; alpha is 1 for
// the others.
DEVICE void shift_references(float (&s)[64], Rows &rows, float (&sum)[2], float (&alpha)[2], float limit, Decisions &decisions) {
    float largest[2];
    row_max(s, largest);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        bool moves = quad_sum(sum[h]) > limit;
        int exponent = maximum(__float_as_int(largest[h]) >> 23, 127);
        exponent = moves ? exponent : 127;
        alpha[h] = __int_as_float((254 - exponent) << 23); // 2^-(exponent - 127)
        rows.reference[h] += (float)(exponent - 127);
        rows.sum[h] *= alpha[h];
        sum[h] *= alpha[h];
        if (COUNTS) decisions.rescaled |= (int)moves << h;
    }
#pragma unroll
    for (int i = 0; i < 64; i++) s[i] *= alpha[(i >> 1) & 1];
}

// Max-free redo on fresh scores: rows whose weights overflowed, were NaN or passed the limit take the ordinary step with a maximum.
DEVICE void redo_references(const float (&s)[64], Rows &rows, const float (&sum)[2], float (&alpha)[2], float limit, Numbers numbers,
                            Decisions &decisions) {
    float x[2];
    row_max(s, x);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        bool moves = !(quad_sum(sum[h]) <= limit);
        float before = rows.reference[h];
        float after = moves ? ptx::max_nan(before, first_reference(x[h], numbers)) : before;
        alpha[h] = before == MINUS_INFINITY ? 0.0f : ptx::ex2(before - after);
        alpha[h] = moves ? alpha[h] : 1.0f;
        rows.sum[h] *= alpha[h];
        rows.reference[h] = after;
        if (COUNTS) decisions.rescaled |= (int)(after > before) << h;
    }
}

#endif
