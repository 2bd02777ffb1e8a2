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

// A row of a bit tile: 16 bytes, aligned.
FWD_DEVICE KeyMask stored_mask(const uint32_t *words) {
    const uint4 four = *(const uint4 *)words;
    return {{four.x, four.y, four.z, four.w}};
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
    for (int k = 0; k < KEYS; k += 2) {
        float a, b;
        ptx::unpack(ptx::mul_rn_f32x2(ptx::pack(x.get(k), x.get(k + 1)), ptx::pack(cap_scale, cap_scale)), a, b);
        const ptx::Pair one = ptx::pack(1.0f, 1.0f), power = ptx::pack(ptx::ex2_approx_ftz(a), ptx::ex2_approx_ftz(b));
        ptx::unpack(ptx::add_rn_f32x2(power, one), a, b);
        const ptx::Pair inverse = ptx::pack(ptx::rcp_approx_ftz(a), ptx::rcp_approx_ftz(b));
        ptx::unpack(ptx::fma_rn_f32x2(inverse, ptx::pack(-2.0f, -2.0f), one), a, b);
        x.set(k, a);
        x.set(k + 1, b);
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
    float reference; // raw score that exponents are relative to; reference_floor until a visible score has been seen
    float sum;       // of the weights so far, relative to it

    // A visible score leaves a weight near 1 when it sets the reference, and no sum sinks below that.
    FWD_DEVICE bool unseen() const { return sum == 0.0f; }
};

// What one block does to a row.
struct Move {
    float used;    // the reference of this block, a raw score; NaN where the row is lost (a NaN or +inf score)
    float bias;    // added to scaled scores: minus that in log2 units
    float rescale; // earlier weights and O times this; 1 when the reference stays
    bool moved;    // counts as a rescaled row
    bool spared;   // the maximum grew, the reference stayed
};

// What exponents and references are measured with.
struct Units {
    float scale_log2, threshold; // the threshold with a minus sign

    FWD_DEVICE explicit Units(const FwdParams &p) : scale_log2(p.scale_log2), threshold(-p.threshold) {}
    // A reference in log2 units: what exponents subtract.
    FWD_DEVICE float level(float reference) const {
        const float units = reference * scale_log2;
        return VARIANT.integer_reference ? ptx::cvt_rni(units) : units;
    }
};

// `candidate` is the maximum of the block and of the old reference. The floor of an unseen row is finite, so that -inf - -inf never happens:
// its hidden scores weigh 0, and there is nothing yet to rescale when it moves.
FWD_DEVICE Move move_reference(const Units &units, Row &row, float candidate, bool first) {
    const float old = row.reference;
    const float safe = fmaf(candidate, 0.0f, candidate); // +inf becomes NaN: inf - inf, as in the reference computation
    const float delta = (old - safe) * units.scale_log2;
    const bool keep = delta >= units.threshold; // false for NaN
    Move move;
    move.used = keep ? old : safe;
    move.bias = -units.level(move.used);
    const float exponent = VARIANT.integer_reference ? units.level(old) + move.bias : delta;
    move.rescale = ptx::ex2_approx_ftz(keep || row.unseen() ? 0.0f : exponent); // 2^0 is 1: no branch
    move.moved = !keep && !first;
    move.spared = keep && !first && candidate > old;
    row.reference = keep ? old : candidate;
    return move;
}

// ---- weights --------------------------------------------------------------------------------------------------------------

// What a block weighs its scores with: weight = 2^(score * scale + bias).
struct Weighing {
    ptx::Pair scale, bias;
    float sat_scale, sat_bias; // of the polynomial: score to (exponent + 127) / 256

    // `reference` in raw scores is what `minus_reference` was made from; it saves an instruction where the latter is not rounded.
    FWD_DEVICE Weighing(float scale_log2, float reference, float minus_reference) {
        scale = ptx::pack(scale_log2, scale_log2);
        bias = ptx::pack(minus_reference, minus_reference);
        sat_scale = scale_log2 * (1.0f / 256);
        sat_bias = VARIANT.integer_reference ? fmaf(minus_reference, 1.0f / 256, 127.0f / 256) : fmaf(-reference, sat_scale, 127.0f / 256);
    }
};

// 2^f for f in [0, 1], a cubic with value 1 at 0; then the whole part, in the low bits of `whole`, is added to the exponent.
FWD_DEVICE void power_of_parts(ptx::Pair whole, ptx::Pair f, float &a, float &b) {
    const float c3 = __uint_as_float(0x3D9DD553), c2 = __uint_as_float(0x3E691BC5), c1 = __uint_as_float(0x3F31F32C);
    ptx::Pair y = ptx::fma_rn_f32x2(ptx::pack(c3, c3), f, ptx::pack(c2, c2));
    y = ptx::fma_rn_f32x2(y, f, ptx::pack(c1, c1));
    y = ptx::fma_rn_f32x2(y, f, ptx::pack(1.0f, 1.0f));
    float t0, t1, y0, y1;
    ptx::unpack(whole, t0, t1);
    ptx::unpack(y, y0, y1);
    a = __uint_as_float(__float_as_uint(y0) + (__float_as_uint(t0) << 23));
    b = __uint_as_float(__float_as_uint(y1) + (__float_as_uint(t1) << 23));
}

#define MAGIC 12582912.0f // 1.5 * 2^23: numbers near it are whole, so that adding it rounds

// Two weights on the FMA pipes. The exponent is clamped to [-127, 129] by the saturation of the multiplication that scales it, one instruction
// fewer than a maximum; (x + 127) / 256 keeps whole exponents exact. 2^-127 comes out as exactly 0. NaN becomes 0: where a score is NaN or
// +inf the bias is NaN, and the columns of the hardware carry it.
FWD_DEVICE void exp2_saturated(const Weighing &w, float &a, float &b) {
    const ptx::Pair y = ptx::pack(ptx::fma_rn_sat(a, w.sat_scale, w.sat_bias), ptx::fma_rn_sat(b, w.sat_scale, w.sat_bias));
    const ptx::Pair range = ptx::pack(256.0f, 256.0f), origin = ptx::pack(MAGIC - 127.0f, MAGIC - 127.0f);
    const ptx::Pair whole = ptx::fma_rm_f32x2(y, range, origin);
    power_of_parts(whole, ptx::fma_rn_f32x2(y, range, ptx::sub_rn_f32x2(origin, whole)), a, b);
}

// The same for max-free blocks, where scores may exceed the reference by anything: overflow and NaN end at 2^127, above every limit, and take
// the fix-up.
FWD_DEVICE void exp2_guarded(const Weighing &w, float &a, float &b) {
    ptx::unpack(ptx::fma_rn_f32x2(ptx::pack(a, b), w.scale, w.bias), a, b);
    const ptx::Pair x = ptx::pack(ptx::min(ptx::max_nan(a, -127.0f), 127.0f), ptx::min(ptx::max_nan(b, -127.0f), 127.0f));
    const ptx::Pair magic = ptx::pack(MAGIC, MAGIC), whole = ptx::add_rm_ftz_f32x2(x, magic);
    power_of_parts(whole, ptx::sub_rn_f32x2(x, ptx::sub_rn_f32x2(whole, magic)), a, b);
}

// Which pairs of a fragment go to the polynomial. The last fragment stays on the hardware: its result is waited for.
template <bool MASKED> FWD_DEVICE constexpr bool emulated(int fragment, int pair) {
    return !MASKED && fragment >= VARIANT.first_fragment && fragment < FRAGMENTS - 1 && pair % 8 >= 8 - VARIANT.emulated_pairs;
}

FWD_DEVICE uint32_t round_pair(float low, float high) {
    return VARIANT.dtype == FWD_BF16 ? ptx::cvt_rn_bf16x2(low, high) : ptx::cvt_rn_f16x2(low, high);
}

// Scores of one fragment become weights, in place in fp32 and rounded in `packed`.
template <bool MASKED> FWD_DEVICE void weigh(Scores &x, int fragment, const Weighing &w, uint32_t *packed) {
#pragma unroll
    for (int pair = 0; pair < FRAGMENT / 2; pair++) {
        const int k = fragment * FRAGMENT + 2 * pair;
        float a = x.get(k), b = x.get(k + 1);
        if (!emulated<MASKED>(fragment, pair)) {
            ptx::unpack(ptx::fma_rn_f32x2(ptx::pack(a, b), w.scale, w.bias), a, b);
            a = ptx::ex2_approx_ftz(a);
            b = ptx::ex2_approx_ftz(b);
        } else if (VARIANT.row_max == FWD_FIRST_BLOCK) {
            exp2_guarded(w, a, b);
        } else {
            exp2_saturated(w, a, b);
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

FWD_DEVICE float inverse_sum(const Row &row) { return row.unseen() ? HIDDEN_ROW : ptx::rcp_rn(row.sum); }

// Natural logarithm of the sum of exponentials of the scaled scores.
FWD_DEVICE float log_sum_exp(const Units &units, const Row &row) {
    if (row.unseen()) return MINUS_INFINITY;
    constexpr float LN_2 = 0.69314718f;
    return (ptx::lg2_approx(row.sum) + units.level(row.reference)) * LN_2;
}
