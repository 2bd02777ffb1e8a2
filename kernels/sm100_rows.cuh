// The arithmetic of one row of scores, held by one thread: masks, soft cap, maximum, reference, weights and their sum. No barriers, no
// tensor memory. References are kept in raw score units; times `scale_log2` they are log2 units, rounded where the variant wants whole ones.
#pragma once

#include "sm100.cuh"

enum { KEYS = VARIANT.tile_keys };
enum { FRAGMENT = 32 }; // columns that one tensor-memory load brings
enum { FRAGMENTS = KEYS / FRAGMENT };

// A row of scores, later of weights, as the 32-bit words that tensor memory holds.
struct Scores {
    uint32_t word[FRAGMENTS][FRAGMENT];

    FWD_DEVICE float get(int key) const { return __uint_as_float(word[key / FRAGMENT][key % FRAGMENT]); }
    FWD_DEVICE void set(int key, float x) { word[key / FRAGMENT][key % FRAGMENT] = __float_as_uint(x); }
};

// ---- masks -------------------------------------------------------------------------------------------------------------

// Bit k % 32 of word k / 32: key k of the block is visible.
struct KeyMask {
    uint32_t word[FRAGMENTS];
};

// The n lowest bits, n clamped to 0..32.
FWD_DEVICE uint32_t low_bits(int n) { return (uint32_t)((1ull << clamp(n, 0, 32)) - 1); }

FWD_DEVICE KeyMask interval_mask(Interval keys, int first_key) {
    KeyMask mask;
#pragma unroll
    for (int w = 0; w < FRAGMENTS; w++) {
        const int base = first_key + FRAGMENT * w;
        mask.word[w] = low_bits(keys.hi - base);
        if (VARIANT.mask_class == FWD_INTERVAL) mask.word[w] &= ~low_bits(keys.lo - base);
    }
    return mask;
}

FWD_DEVICE void hide(Scores &x, const KeyMask &mask) {
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        if (!(mask.word[k / FRAGMENT] & (1u << (k % FRAGMENT)))) x.set(k, MINUS_INFINITY);
}

// ---- soft cap ----------------------------------------------------------------------------------------------------------

// tanh(y) = 1 - 2 / (1 + 2^(2 y log2 e)): tanh.approx is too coarse. `cap_scale` turns a score into the exponent.
FWD_DEVICE void cap(Scores &x, float cap_scale) {
#pragma unroll
    for (int k = 0; k < KEYS; k++) {
        const float power = ptx::ex2_approx_ftz(x.get(k) * cap_scale);
        x.set(k, 1.0f - 2.0f * ptx::rcp_approx_ftz(1.0f + power));
    }
}

// ---- maximum and reference ------------------------------------------------------------------------------------------------

// The maximum of `start` and the row, NaN if one is NaN: 64 three-input steps in four chains.
FWD_DEVICE float maximum(const Scores &x, float start) {
    float chain[4] = {ptx::max3_nan(start, x.get(0), x.get(1)), ptx::max3_nan(x.get(2), x.get(3), x.get(4)),
                      ptx::max3_nan(x.get(5), x.get(6), x.get(7)), ptx::max3_nan(x.get(8), x.get(9), x.get(10))};
#pragma unroll
    for (int k = 11, c = 0; k + 1 < KEYS; k += 2, c = (c + 1) % 4) chain[c] = ptx::max3_nan(chain[c], x.get(k), x.get(k + 1));
    return ptx::max3_nan(ptx::max3_nan(chain[0], chain[1], chain[2]), chain[3], x.get(KEYS - 1));
}

// What a row keeps between blocks.
struct Row {
    float reference; // raw score that exponents are relative to; -inf until a visible score has been seen
    float sum;       // of the weights so far, relative to it
};

// What one block does to a row.
struct Move {
    float bias;    // added to scaled scores: minus the reference, NaN where the row is lost (a NaN or +inf score)
    float rescale; // earlier weights and O times this; 1 when the reference stays
    bool moved;    // counts as a rescaled row
    bool spared;   // the maximum grew, the reference stayed
};

// A reference in log2 units: what exponents subtract.
FWD_DEVICE float level(const FwdParams &p, float reference) {
    const float units = reference * p.scale_log2;
    return VARIANT.integer_reference ? ptx::cvt_rni(units) : units;
}

// `candidate` is the maximum of the block and of the old reference.
FWD_DEVICE Move move_reference(const FwdParams &p, Row &row, float candidate, bool first) {
    const float old = row.reference;
    // A row without a visible score subtracts 0, so that -inf - -inf never happens; +inf becomes NaN, as in the reference computation.
    const bool unseen = candidate == MINUS_INFINITY;
    const float finite = unseen ? 0.0f : candidate;
    const float safe = fmaf(finite, 0.0f, finite);
    const float delta = (old - safe) * p.scale_log2;
    const bool keep = delta >= -p.threshold; // false for NaN
    const bool fresh = first || unseen;
    const float used = keep ? old : safe;
    Move move;
    move.bias = -level(p, used);
    move.rescale = keep || fresh ? 1.0f : ptx::ex2_approx_ftz(VARIANT.integer_reference ? level(p, old) + move.bias : delta);
    move.moved = !keep && !fresh;
    move.spared = keep && !first && candidate > old;
    row.reference = keep ? old : candidate;
    return move;
}

// ---- weights --------------------------------------------------------------------------------------------------------------

// 2^x on the FMA pipes for two values: floor by a magic addition, a cubic on the fraction with p(0) = 1, the whole part added to the exponent.
FWD_DEVICE void exp2_polynomial(float &a, float &b) {
    if (VARIANT.row_max == FWD_FIRST_BLOCK) {
        // Scores may exceed the reference by anything: overflow and NaN end at 2^127, above every limit, and take the fix-up.
        a = ptx::min(ptx::max_nan(a, -127.0f), 127.0f);
        b = ptx::min(ptx::max_nan(b, -127.0f), 127.0f);
    } else {
        a = ptx::max(a, -127.0f);
        b = ptx::max(b, -127.0f);
    }
    constexpr float MAGIC = 12582912.0f; // 1.5 * 2^23: numbers near it are whole
    const ptx::Pair magic = ptx::pack(MAGIC, MAGIC);
    const ptx::Pair x = ptx::pack(a, b);
    const ptx::Pair t = ptx::add_rm_ftz_f32x2(x, magic);
    const ptx::Pair f = ptx::sub_rn_f32x2(x, ptx::sub_rn_f32x2(t, magic));
    const float c3 = __uint_as_float(0x3D9DD553), c2 = __uint_as_float(0x3E691BC5), c1 = __uint_as_float(0x3F31F32C);
    ptx::Pair y = ptx::fma_rn_f32x2(ptx::pack(c3, c3), f, ptx::pack(c2, c2));
    y = ptx::fma_rn_f32x2(y, f, ptx::pack(c1, c1));
    y = ptx::fma_rn_f32x2(y, f, ptx::pack(1.0f, 1.0f));
    float t0, t1, y0, y1;
    ptx::unpack(t, t0, t1);
    ptx::unpack(y, y0, y1);
    a = __uint_as_float(__float_as_uint(y0) + (__float_as_uint(t0) << 23));
    b = __uint_as_float(__float_as_uint(y1) + (__float_as_uint(t1) << 23));
}

// Which pairs of a fragment go to the polynomial. The last fragment stays on the hardware: its result is waited for.
template <bool MASKED> FWD_DEVICE constexpr bool emulated(int fragment, int pair) {
    return !MASKED && fragment >= VARIANT.first_fragment && fragment < FRAGMENTS - 1 && pair % 8 >= 8 - VARIANT.emulated_pairs;
}

FWD_DEVICE uint32_t round_pair(float low, float high) {
    return VARIANT.dtype == FWD_BF16 ? ptx::cvt_rn_bf16x2(low, high) : ptx::cvt_rn_f16x2(low, high);
}

// Scores of one fragment become weights 2^(score * scale + bias), in place in fp32 and rounded in `packed`.
template <bool MASKED> FWD_DEVICE void weigh(Scores &x, int fragment, ptx::Pair scale, ptx::Pair bias, uint32_t *packed) {
#pragma unroll
    for (int pair = 0; pair < FRAGMENT / 2; pair++) {
        const int k = fragment * FRAGMENT + 2 * pair;
        float a, b;
        ptx::unpack(ptx::fma_rn_f32x2(ptx::pack(x.get(k), x.get(k + 1)), scale, bias), a, b);
        if (emulated<MASKED>(fragment, pair)) {
            exp2_polynomial(a, b);
        } else {
            a = ptx::ex2_approx_ftz(a);
            b = ptx::ex2_approx_ftz(b);
        }
        x.set(k, a);
        x.set(k + 1, b);
        packed[pair] = round_pair(a, b);
    }
}

// The sum of a row of weights: four chains of pairs.
FWD_DEVICE float total(const Scores &x) {
    ptx::Pair chain[4];
#pragma unroll
    for (int c = 0; c < 4; c++) chain[c] = ptx::pack(x.get(2 * c), x.get(2 * c + 1));
#pragma unroll
    for (int k = 8; k < KEYS; k += 8)
#pragma unroll
        for (int c = 0; c < 4; c++) chain[c] = ptx::add_rn_f32x2(chain[c], ptx::pack(x.get(k + 2 * c), x.get(k + 2 * c + 1)));
    float low, high;
    ptx::unpack(ptx::add_rn_f32x2(ptx::add_rn_f32x2(chain[0], chain[1]), ptx::add_rn_f32x2(chain[2], chain[3])), low, high);
    return low + high;
}

// ---- the end of a row --------------------------------------------------------------------------------------------------

#define HIDDEN_ROW (-1.0f) // in place of 1 / sum: the row has seen no key

FWD_DEVICE float inverse_sum(const Row &row) { return row.reference == MINUS_INFINITY ? HIDDEN_ROW : ptx::rcp_rn(row.sum); }

// Natural logarithm of the sum of exponentials of the scaled scores.
FWD_DEVICE float log_sum_exp(const FwdParams &p, const Row &row) {
    if (row.reference == MINUS_INFINITY) return MINUS_INFINITY;
    constexpr float LN_2 = 0.69314718f;
    return (ptx::lg2_approx(row.sum) + level(p, row.reference)) * LN_2;
}
