/* Random numbers that are a function of (seed, flat index) alone: Philox 4x32-10 counters, and
 * Box-Muller on polynomials of our own. No libm but sqrt (correctly rounded everywhere) and no
 * contraction, so that the bits are the same on every machine.
 *
 * Counter of block b: {low(b), high(b), distribution, 0}; key: the seed. A block of 128 bits makes
 * elements 2b and 2b + 1. */
#include "tensor/tensor_internal.h"

#include <math.h>

void tensor_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* ln x for x in (0, 1]: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s), s = (m - 1) /
 * (m + 1), |s| < 0.172. The series stops at s^23 / 23, below 2^-55 of its sum. */
static double natural_log(double x) {
    static const double terms[11] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                     1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
    union {
        double value;
        uint64_t bits;
    } u = {x};
    int64_t exponent = (int64_t)(u.bits >> 52) - 1023;
    u.bits = (u.bits & 0xfffffffffffffull) | 0x3ff0000000000000ull;
    if (u.value >= 0x1.6a09e667f3bcdp0) {
        u.value *= 0.5;
        exponent++;
    }
    double s = (u.value - 1.0) / (u.value + 1.0);
    double z = s * s;
    double sum = 0.0;
    for (int i = 0; i < 11; i++)
        sum = (sum + terms[i]) * z;
    double ln_m = 2.0 * s + 2.0 * s * sum;
    return (double)exponent * 0x1.62e42fefa39efp-1 + ln_m;
}

/* cos and sin of a quarter turn's centred part: t in [-pi/4, pi/4], Taylor series to t^18 and t^17
 * (next term below 2^-60). */
static void cosine_sine(double t, double *cosine, double *sine) {
    static const double cosines[9] = {-1.0 / 6402373705728000,
                                      1.0 / 20922789888000,
                                      -1.0 / 87178291200,
                                      1.0 / 479001600,
                                      -1.0 / 3628800,
                                      1.0 / 40320,
                                      -1.0 / 720,
                                      1.0 / 24,
                                      -1.0 / 2};
    static const double sines[8] = {
        1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
        1.0 / 362880,          -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
    double z = t * t;
    double c = 0.0, s = 0.0;
    for (int i = 0; i < 9; i++)
        c = (c + cosines[i]) * z;
    for (int i = 0; i < 8; i++)
        s = (s + sines[i]) * z;
    *cosine = 1.0 + c;
    *sine = t + t * s;
}

/* Two standard normal numbers from 128 bits: radius from the first 64, angle from the rest. */
static void normal_pair(const uint32_t w[4], double out[2]) {
    uint64_t a = ((uint64_t)w[1] << 32) | w[0];
    uint64_t b = ((uint64_t)w[3] << 32) | w[2];
    double radius =
        sqrt(-2.0 * natural_log((double)((a >> 11) + 1) * 0x1p-53)); /* of (0, 1]: at most 8.58 */
    double eighth =
        ((double)((b & 0x3fffffffffffffffull) >> 9) + 0.5) * 0x1p-53 - 0.5; /* of a quarter turn */
    double c, s;
    cosine_sine(eighth * 0x1.921fb54442d18p0, &c, &s);
    switch (b >> 62) { /* which quarter */
    case 0:
        out[0] = radius * c, out[1] = radius * s;
        break;
    case 1:
        out[0] = -(radius * s), out[1] = radius * c;
        break;
    case 2:
        out[0] = -(radius * c), out[1] = -(radius * s);
        break;
    default:
        out[0] = radius * s, out[1] = -(radius * c);
        break;
    }
}

/* Two numbers on [-1, 1), multiples of 2^-52. */
static void uniform_pair(const uint32_t w[4], double out[2]) {
    uint64_t a = ((uint64_t)w[1] << 32) | w[0];
    uint64_t b = ((uint64_t)w[3] << 32) | w[2];
    out[0] = (double)(int64_t)(a >> 11) * 0x1p-52 - 1.0;
    out[1] = (double)(int64_t)(b >> 11) * 0x1p-52 - 1.0;
}

typedef struct generator {
    int32_t distribution;
    uint32_t key[2];
    double scale;
    double low, high; /* what uniform numbers are clamped to: rounding to dtype must not leave
                         [-scale, scale) */
} generator;

static void generate(const generator *g, int64_t flat, double *out, int64_t count) {
    int64_t end = flat + count;
    for (int64_t block = flat / 2; block * 2 < end; block++) {
        uint32_t counter[4] = {(uint32_t)block, (uint32_t)((uint64_t)block >> 32),
                               (uint32_t)g->distribution, 0};
        uint32_t words[4];
        double pair[2];
        tensor_philox(counter, g->key, words);
        if (g->distribution == FA4_RANDOM_NORMAL)
            normal_pair(words, pair);
        else
            uniform_pair(words, pair);
        for (int64_t i = 0; i < 2; i++) {
            double x = pair[i] * g->scale;
            if (g->distribution == FA4_RANDOM_UNIFORM)
                x = x < g->low ? g->low : x > g->high ? g->high : x;
            if (2 * block + i >= flat && 2 * block + i < end) out[2 * block + i - flat] = x;
        }
    }
}

/* The largest number of dtype that is below limit (or not above it). limit is positive. */
static double number_below(int32_t dtype, double limit, bool strictly) {
    double x = run_round(dtype, limit);
    if (strictly ? x < limit : x <= limit) return x;
    /* One step of dtype is at least 2^-52 and at most 2^-7 of x; a step down from a power of two is
     * half as wide. Subnormals step evenly, so the smallest share that changes x is searched. */
    for (double share = 0x1p-54; share < 1.0; share *= 2.0) {
        double y = run_round(dtype, x - x * share);
        if (strictly ? y < limit : y <= limit) return y;
    }
    return 0.0;
}

fa4_status fa4_tensor_random(const fa4_tensor *tensor, int32_t distribution, uint64_t seed,
                             double scale, fa4_error *err) {
    FA4_TRY(tensor_check(tensor, "tensor", err));
    if (distribution != FA4_RANDOM_NORMAL && distribution != FA4_RANDOM_UNIFORM)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "distribution: expected 0 (normal) or 1 (uniform), got %d", distribution);
    if (tensor->dtype == FA4_I32)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "dtype: random numbers are f16, bf16, f32 or f64, not i32");
    if (!(scale >= 0.0) || !isfinite(scale))
        return error_set(err, FA4_BAD_ARGUMENT,
                         "scale: expected a finite number of at least 0, got %g", scale);
    if (!isfinite(run_round(tensor->dtype, scale)))
        return error_set(err, FA4_BAD_ARGUMENT, "scale: %g is beyond the range of %s", scale,
                         fa4_dtype_name(tensor->dtype));
    if (!tensor_distinct(tensor))
        return error_set(
            err, FA4_BAD_ARGUMENT,
            "tensor.strides: elements share memory (a stride of 0, or crossing strides)");
    if (tensor_elements(tensor) == 0) return FA4_OK;
    generator g = {distribution, {(uint32_t)seed, (uint32_t)(seed >> 32)}, scale, 0.0, 0.0};
    if (distribution == FA4_RANDOM_UNIFORM && scale > 0.0) {
        g.low = -number_below(tensor->dtype, scale, false);
        g.high = number_below(tensor->dtype, scale, true);
    }
    view_loop loop;
    view_loop_make(&loop, tensor, tensor, true);
    int64_t index[FA4_RANK_MAX] = {0}, flat = 0, inner = loop.shape[loop.rank - 1],
            step = loop.to[loop.rank - 1];
    char *to = tensor->data;
    const char *from = tensor->data;
    double run[RUN_MAX];
    do {
        for (int64_t done = 0; done < inner; done += RUN_MAX) {
            int64_t n = inner - done < RUN_MAX ? inner - done : RUN_MAX;
            generate(&g, flat, run, n);
            run_store(to + done * step, tensor->dtype, step, run, n);
            flat += n;
        }
    } while (view_loop_next(&loop, index, &to, &from));
    return FA4_OK;
}
