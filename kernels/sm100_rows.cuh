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

#define MAGIC 12582912.0f // 1.5 * 2^23: numbers near it are whole, so that adding it rounds

// ---- maximum and reference ------------------------------------------------------------------------------------------------

// The maximum of `start` and the row, NaN if one is NaN: 64 three-input steps in four chains.
FWD_DEVICE float maximum(const Scores &x, float start) {
    float chain[4] = {ptx::max3_nan(start, x.get(0), x.get(1)), ptx::max3_nan(x.get(2), x.get(3), x.get(4)),
                      ptx::max3_nan(x.get(5), x.get(6), x.get(7)), ptx::max3_nan(x.get(8), x.get(9), x.get(10))};
#pragma unroll
    for (int k = 11, c = 0; k + 1 < KEYS; k += 2, c = (c + 1) % 4) chain[c] = ptx::max3_nan(chain[c], x.get(k), x.get(k + 1));
    return ptx::max3_nan(ptx::max3_nan(chain[0], chain[1], chain[2]), chain[3], x.get(KEYS - 1));
}

// Zeros that the compiler does not know to be zeros: what they are mixed into stays in a register, where left alone it would be made anew in
// every block. `thread` serves vector registers (the CTA is one-dimensional), `uniform` is read from shared memory, cannot be read twice, and
// serves uniform ones. Max-free steps have no vector registers to spare.
struct Zeros {
    uint32_t thread, uniform;

    FWD_DEVICE explicit Zeros(const Smem &smem) : thread(VARIANT.row_max == FWD_EACH_BLOCK ? threadIdx.y : 0), uniform(smem.tmem) {}
    FWD_DEVICE static float hide(float x, uint32_t zero) { return __uint_as_float(__float_as_uint(x) ^ zero); }
};

// What exponents and references are measured with, and constants of the polynomial.
struct Units {
    float scale_log2, threshold; // the threshold with a minus sign
    float sat_scale;             // score to 1/256 log2 units
    float c3, origin;

    FWD_DEVICE Units(const FwdParams &p, const Zeros &zeros) {
        scale_log2 = Zeros::hide(p.scale_log2, zeros.thread);
        threshold = Zeros::hide(-p.threshold, zeros.thread);
        sat_scale = Zeros::hide(p.scale_log2 * (1.0f / 256), zeros.uniform);
        c3 = Zeros::hide(__uint_as_float(0x3D9DD553), zeros.thread);
        origin = Zeros::hide(MAGIC - 127.0f, zeros.thread);
    }
    // A reference in log2 units: what exponents subtract.
    FWD_DEVICE float level(float reference) const {
        const float units = reference * scale_log2;
        return VARIANT.integer_reference ? ptx::cvt_rni(units) : units;
    }
};

// What a row keeps between blocks: the score that exponents are relative to and the sum so far of weights relative to it. A weight is
// 2^(score * scale_log2 + bias).
struct Row {
    float reference; // raw score; reference_floor until a visible score has been seen
    ptx::Pair sums;  // of even and of odd keys
    float bias;      // minus the reference in log2 units; NaN where the row is lost (a NaN or +inf score)
    float sat_bias;  // of the polynomial: score to (exponent + 127) / 256
    float ceiling;   // scores up to it leave the reference where it is; max-free: their weights are finite

    FWD_DEVICE void clear(const Units &units, float floor) {
        sums = ptx::pack(0.0f, 0.0f);
        refer(units, floor);
        reference = floor;
    }
    // Weights are relative to `used` from here on.
    FWD_DEVICE void refer(const Units &units, float used) {
        bias = -units.level(used);
        sat_bias = VARIANT.integer_reference ? fmaf(bias, 1.0f / 256, 127.0f / 256) : fmaf(-used, units.sat_scale, 127.0f / 256);
        ceiling = VARIANT.row_max == FWD_FIRST_BLOCK ? (126.0f - bias) / units.scale_log2 : limit(units, used);
    }
    // As near to the largest score that leaves the reference as rounding allows to prove: that it does is tried.
    FWD_DEVICE static float limit(const Units &units, float used) {
        const float reach = -units.threshold / units.scale_log2, near = fmaf(reach, 1.0f - 0x1p-20f, used), most = used + reach;
        return stays(units, used, most) ? most : stays(units, used, near) ? near : used;
    }
    FWD_DEVICE static bool stays(const Units &units, float reference, float candidate) {
        return (reference - candidate) * units.scale_log2 >= units.threshold; // false for NaN
    }
    FWD_DEVICE float sum() const {
        float even, odd;
        ptx::unpack(sums, even, odd);
        return even + odd;
    }
    // A visible score leaves a weight near 1 when it sets the reference, and no sum sinks below that.
    FWD_DEVICE bool unseen() const { return sum() == 0.0f; }
};

// Moves the reference to `candidate` unless it stays, and the sum with it. Returns what earlier weights and O are to be multiplied by, 1 for a row
// that stays. The floor of an unseen row is finite, so that -inf - -inf never happens: its hidden scores weigh 0, and there is nothing yet
// to rescale when it moves.
FWD_DEVICE float move_reference(const Units &units, Row &row, float candidate) {
    const float old = row.reference;
    const float safe = fmaf(candidate, 0.0f, candidate); // +inf becomes NaN: inf - inf, as in the reference computation
    const float delta = (old - safe) * units.scale_log2;
    const bool stays = Row::stays(units, old, safe);
    const float used = stays ? old : safe;
    const float exponent = VARIANT.integer_reference ? units.level(old) - units.level(used) : delta;
    const float rescale = ptx::ex2_approx_ftz(stays || row.unseen() ? 0.0f : exponent); // 2^0 is 1: no branch
    row.refer(units, used);
    row.sums = ptx::mul_rn_f32x2(row.sums, ptx::pack(rescale, rescale));
    row.reference = stays ? old : candidate;
    return rescale;
}

// ---- weights --------------------------------------------------------------------------------------------------------------

// 2^f for f in [0, 1], a cubic with value 1 at 0; then the whole part, in the low bits of `whole`, is added to the exponent.
FWD_DEVICE void power_of_parts(const Units &units, ptx::Pair whole, ptx::Pair f, float &a, float &b) {
    const float c2 = __uint_as_float(0x3E691BC5), c1 = __uint_as_float(0x3F31F32C);
    ptx::Pair y = ptx::fma_rn_f32x2(ptx::pack(units.c3, units.c3), f, ptx::pack(c2, c2));
    y = ptx::fma_rn_f32x2(y, f, ptx::pack(c1, c1));
    y = ptx::fma_rn_f32x2(y, f, ptx::pack(1.0f, 1.0f));
    float t0, t1, y0, y1;
    ptx::unpack(whole, t0, t1);
    ptx::unpack(y, y0, y1);
    a = __uint_as_float(__float_as_uint(y0) + (__float_as_uint(t0) << 23));
    b = __uint_as_float(__float_as_uint(y1) + (__float_as_uint(t1) << 23));
}

// Two weights on the FMA pipes. The exponent is clamped to [-127, 129] by the saturation of the multiplication that scales it, one instruction
// fewer than a maximum; (x + 127) / 256 keeps whole exponents exact. 2^-127 comes out as exactly 0. NaN becomes 0: where a score is NaN or
// +inf the bias is NaN, and the columns of the hardware carry it.
FWD_DEVICE void exp2_saturated(const Units &units, const Row &row, float &a, float &b) {
    const ptx::Pair y = ptx::pack(ptx::fma_rn_sat(a, units.sat_scale, row.sat_bias), ptx::fma_rn_sat(b, units.sat_scale, row.sat_bias));
    const ptx::Pair range = ptx::pack(256.0f, 256.0f), origin = ptx::pack(units.origin, units.origin);
    const ptx::Pair whole = ptx::fma_rm_f32x2(y, range, origin);
    power_of_parts(units, whole, ptx::fma_rn_f32x2(y, range, ptx::sub_rn_f32x2(origin, whole)), a, b);
}

// Which pairs of a fragment go to the polynomial. The last fragment stays on the hardware: its result is waited for.
template <bool MASKED> FWD_DEVICE constexpr bool emulated(int fragment, int pair) {
    return !MASKED && fragment >= VARIANT.first_fragment && fragment < FRAGMENTS - 1 && pair % 8 >= 8 - VARIANT.emulated_pairs;
}

FWD_DEVICE uint32_t round_pair(float low, float high) {
    return VARIANT.dtype == FWD_BF16 ? ptx::cvt_rn_bf16x2(low, high) : ptx::cvt_rn_f16x2(low, high);
}

// Max-free: no score of the polynomial's columns is NaN or so large that its weight would not show in the sum.
template <bool MASKED> FWD_DEVICE bool fits_polynomial(const Scores &x, const Row &row) {
    float peak = MINUS_INFINITY;
#pragma unroll
    for (int k = 0; k < KEYS; k += 2)
        if (emulated<MASKED>(k / FRAGMENT, k % FRAGMENT / 2)) peak = ptx::max3_nan(peak, x.get(k), x.get(k + 1));
    return peak <= row.ceiling;
}

// Scores of keys [first, first + 16) become weights, in place in fp32 and rounded in `packed`.
template <bool MASKED> FWD_DEVICE void weigh(Scores &x, int first, const Units &units, const Row &row, uint32_t *packed) {
    const ptx::Pair scale = ptx::pack(units.scale_log2, units.scale_log2), bias = ptx::pack(row.bias, row.bias);
#pragma unroll
    for (int k = first; k < first + 16; k += 2) {
        float a = x.get(k), b = x.get(k + 1);
        if (emulated<MASKED>(k / FRAGMENT, k % FRAGMENT / 2)) {
            exp2_saturated(units, row, a, b);
        } else {
            ptx::unpack(ptx::fma_rn_f32x2(ptx::pack(a, b), scale, bias), a, b);
            a = ptx::ex2_approx_ftz(a);
            b = ptx::ex2_approx_ftz(b);
        }
        x.set(k, a);
        x.set(k + 1, b);
        packed[(k - first) / 2] = round_pair(a, b);
    }
}

// Sums of a row's even and odd weights, in four chains.
struct Sums {
    ptx::Pair chain[4];

    FWD_DEVICE explicit Sums(ptx::Pair start) {
        chain[0] = start;
        chain[1] = chain[2] = chain[3] = ptx::pack(0.0f, 0.0f);
    }
    // Keys [first, first + 16).
    FWD_DEVICE void add(const Scores &x, int first) {
#pragma unroll
        for (int k = first; k < first + 16; k += 2) {
            const int c = k / 2 % 4;
            const ptx::Pair pair = ptx::pack(x.get(k), x.get(k + 1));
            chain[c] = k < 8 && c > 0 ? pair : ptx::add_rn_f32x2(chain[c], pair);
        }
    }
    FWD_DEVICE ptx::Pair total() const {
        return ptx::add_rn_f32x2(ptx::add_rn_f32x2(chain[0], chain[1]), ptx::add_rn_f32x2(chain[2], chain[3]));
    }
};

FWD_DEVICE ptx::Pair total(const Scores &x, ptx::Pair start) {
    Sums sums(start);
#pragma unroll
    for (int k = 0; k < KEYS; k += 16) sums.add(x, k);
    return sums.total();
}

// ---- the end of a row --------------------------------------------------------------------------------------------------

#define HIDDEN_ROW (-1.0f) // in place of 1 / sum: the row has seen no key

FWD_DEVICE float inverse_sum(const Row &row) { return row.unseen() ? HIDDEN_ROW : ptx::rcp_rn(row.sum()); }

// Natural logarithm of the sum of exponentials of the scaled scores. The sum's exponent is added to the reference first: what moved between the two by
// whole units leaves no trace.
FWD_DEVICE float log_sum_exp(const Units &units, const Row &row) {
    if (row.unseen()) return MINUS_INFINITY;
    constexpr float LN_2 = 0.69314718f;
    const float sum = row.sum();
    const uint32_t bits = __float_as_uint(sum);
    const float exponent = (float)((int)(bits >> 23) - 127), mantissa = __uint_as_float((bits & 0x7fffff) | 0x3f800000);
    return sum == sum ? (ptx::lg2_approx(mantissa) + (exponent + units.level(row.reference))) * LN_2 : sum;
}
