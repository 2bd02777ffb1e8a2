/*
 * Floating point as PTX defines it (ISA 9.7.3, 9.7.4). Every result below f64 is computed in double rounded to odd and then rounded once to
 * its format: 53 bits are more than twice 24 plus two, so the second rounding is the only one that shows. f64 with a directed rounding
 * mode sets the mode for one operation and puts it back.
 */
#include "emu_numbers.h"

#include <fenv.h>
#include <math.h>

typedef struct format_traits {
    int mantissa, exponent_min; /* explicit bits; exponent of the smallest normal */
    int bits;
    uint64_t nan, infinity, finite_max; /* infinity 0: the format has none */
} format_traits;

static const format_traits FORMATS[EMU_FORMATS] = {
    [EMU_F16] = {10, -14, 16, 0x7fff, 0x7c00, 0x7bff},
    [EMU_BF16] = {7, -126, 16, 0x7fff, 0x7f80, 0x7f7f},
    [EMU_F32] = {23, -126, 32, 0x7fffffff, 0x7f800000, 0x7f7fffff},
    [EMU_F64] = {52, -1022, 64, 0x7ff8000000000000, 0x7ff0000000000000, 0x7fefffffffffffff},
    [EMU_TF32] = {10, -126, 32, 0x7fffffff, 0x7f800000, 0x7f7fe000},
    [EMU_E4M3] = {3, -6, 8, 0x7f, 0, 0x7e},
    [EMU_E5M2] = {2, -14, 8, 0x7f, 0x7c, 0x7b},
};

double emu_widen(uint64_t bits, emu_format format) {
    if (format == EMU_F64) return emu_double(bits);
    if (format == EMU_F32 || format == EMU_TF32) return (double)emu_float(bits);
    const format_traits *f = &FORMATS[format];
    uint64_t sign = bits >> (f->bits - 1) & 1, rest = bits & ((1ull << (f->bits - 1)) - 1);
    uint64_t fraction = rest & ((1ull << f->mantissa) - 1);
    int exponent = (int)(rest >> f->mantissa);
    double x;
    if (f->infinity != 0 && rest >= f->infinity) x = rest == f->infinity ? INFINITY : NAN;
    else if (f->infinity == 0 && rest == f->nan) x = NAN;
    else if (exponent == 0) x = ldexp((double)fraction, f->exponent_min - f->mantissa);
    else x = ldexp((double)(fraction | 1ull << f->mantissa), f->exponent_min - f->mantissa + exponent - 1);
    return sign ? -x : x;
}

static bool rounds_up(double fraction, bool odd, bool negative, emu_round round) {
    switch (round) {
    case EMU_RN: return fraction > 0.5 || (fraction == 0.5 && odd);
    case EMU_RNA: return fraction >= 0.5;
    case EMU_RM: return negative && fraction > 0;
    case EMU_RP: return !negative && fraction > 0;
    default: return false;
    }
}

static uint64_t overflowed(const format_traits *f, bool negative, emu_round round, bool satfinite) {
    bool to_max = satfinite || round == EMU_RZ || (round == EMU_RM && !negative) || (round == EMU_RP && negative);
    if (to_max) return f->finite_max;
    return f->infinity != 0 ? f->infinity : f->nan;
}

uint64_t emu_narrow(double x, emu_format format, emu_round round, bool satfinite) {
    const format_traits *f = &FORMATS[format];
    if (x != x) return f->nan;
    if (format == EMU_F64) return emu_double_bits(x);
    bool negative = signbit(x);
    uint64_t sign = negative ? 1ull << (f->bits - 1) : 0;
    double a = fabs(x);
    if (a == 0) return sign;
    if (isinf(a)) return sign | (satfinite ? f->finite_max : f->infinity != 0 ? f->infinity : f->nan);
    int exponent = ilogb(a);
    if (exponent < f->exponent_min) exponent = f->exponent_min;
    double scaled = ldexp(a, f->mantissa - exponent), whole = floor(scaled);
    uint64_t n = (uint64_t)whole;
    if (rounds_up(scaled - whole, n & 1, negative, round)) n++;
    uint64_t result = n;
    if (n >= 1ull << f->mantissa) result = ((uint64_t)(exponent - f->exponent_min + 1) << f->mantissa) + (n - (1ull << f->mantissa));
    if (format == EMU_TF32) result <<= 13;
    if (result > f->finite_max) result = overflowed(f, negative, round, satfinite);
    return sign | result;
}

static double to_odd(double sum, double error) {
    if (error == 0 || isinf(sum) || sum != sum) return sum;
    uint64_t bits = emu_double_bits(sum);
    if (bits & 1) return sum;
    bool away = (error > 0) == (sum > 0); /* the true value is larger in magnitude */
    return emu_double(away ? bits | 1 : bits - 1);
}

double emu_add_odd(double a, double b, emu_round round) {
    double sum = a + b;
    if (sum == 0 && a != 0) return round == EMU_RM ? -0.0 : 0.0;
    if (sum == 0 && signbit(a) != signbit(b)) return round == EMU_RM ? -0.0 : 0.0;
    if (isinf(sum) || sum != sum) return sum;
    double high = sum - a, error = (a - (sum - high)) + (b - high);
    return to_odd(sum, error);
}

double emu_int_odd(uint64_t magnitude, bool negative) {
    double x;
    if (magnitude >> 53) {
        int drop = 64 - 53 - __builtin_clzll(magnitude);
        uint64_t kept = magnitude >> drop, lost = magnitude & ((1ull << drop) - 1);
        x = ldexp((double)(kept | (lost != 0)), drop);
    } else {
        x = (double)magnitude;
    }
    return negative ? -x : x;
}

/* f32 and f16 have .ftz. */
static uint64_t flush(uint64_t bits, emu_format format) {
    if (format == EMU_F32) return emu_flush((uint32_t)bits);
    return format == EMU_F16 && (bits & 0x7c00) == 0 ? bits & 0x8000 : bits;
}

static double take(uint64_t bits, emu_format format, const emu_mode *mode) {
    return emu_widen(mode->ftz ? flush(bits, format) : bits, format);
}

/* .ftz looks at the result as if the exponent had no limit: what only denormal rounding lifts to the smallest normal number is flushed too. */
static uint64_t flush_tiny(double x, uint64_t bits, emu_format format, emu_round round) {
    const format_traits *f = &FORMATS[format];
    double least = ldexp(1, f->exponent_min);
    uint64_t magnitude = bits & ((1ull << (f->bits - 1)) - 1);
    if (magnitude != 1ull << f->mantissa || fabs(x) >= least) return flush(bits, format);
    double lifted = ldexp(x, 16); /* far enough from the end of the exponents, in f16 too */
    return emu_widen(emu_narrow(fabs(lifted), format, signbit(x) && round == EMU_RM ? EMU_RP : signbit(x) && round == EMU_RP ? EMU_RM : round, false), format) < ldexp(least, 16)
               ? bits ^ magnitude : bits;
}

static uint64_t give(double x, emu_format format, const emu_mode *mode) {
    if (mode->relu && x == x && (x < 0 || signbit(x))) x = 0;
    if (mode->sat) {
        if (!(x > 0)) x = 0; /* NaN too */
        if (x > 1) x = 1;
    }
    uint64_t bits = emu_narrow(x, format, mode->round, mode->satfinite);
    if (mode->ftz && (format == EMU_F32 || format == EMU_F16)) bits = flush_tiny(x, bits, format, mode->round);
    return bits;
}

/* ---- f64: the host's own operation, under the wanted rounding mode ---- */

static int host_round(emu_round round) {
    switch (round) {
    case EMU_RZ: return FE_TOWARDZERO;
    case EMU_RM: return FE_DOWNWARD;
    case EMU_RP: return FE_UPWARD;
    default: return FE_TONEAREST;
    }
}

typedef enum f64_operation { F64_ADD, F64_MUL, F64_FMA, F64_DIV, F64_SQRT } f64_operation;

/* volatile keeps the operation between the two mode switches. */
static __attribute__((noinline)) double f64_operate(f64_operation operation, double x, double y, double z, emu_round round) {
    volatile double a = x, b = y, c = z, r = 0;
    int before = fegetround();
    if (round != EMU_RN) fesetround(host_round(round));
    switch (operation) {
    case F64_ADD: r = a + b; break;
    case F64_MUL: r = a * b; break;
    case F64_FMA: r = fma(a, b, c); break;
    case F64_DIV: r = a / b; break;
    case F64_SQRT: r = sqrt(a); break;
    }
    if (round != EMU_RN) fesetround(before);
    return r;
}

static bool is_nan(uint64_t bits, emu_format format) {
    const format_traits *f = &FORMATS[format];
    return f->infinity != 0 && (bits & ((1ull << (f->bits - 1)) - 1)) > f->infinity;
}

enum { F64_QUIET_BIT = 51 };

/* f64 keeps the payload of a NaN: of the last operand that is one (div: the first); an invalid operation gives the negative quiet NaN. */
static uint64_t f64_nan(f64_operation operation, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t in_order[3] = {operation == F64_FMA ? c : 0, operation == F64_DIV ? a : b, operation == F64_DIV ? b : a};
    for (int i = 0; i < 3; i++)
        if (is_nan(in_order[i], EMU_F64)) return in_order[i] | 1ull << F64_QUIET_BIT;
    return 0xfff8000000000000;
}

static uint64_t f64_result(f64_operation operation, uint64_t a, uint64_t b, uint64_t c, const emu_mode *mode) {
    double r = f64_operate(operation, emu_double(a), emu_double(b), emu_double(c), mode->round);
    if (mode->sat) r = !(r > 0) ? 0 : r > 1 ? 1 : r;
    return r != r ? f64_nan(operation, a, b, c) : emu_double_bits(r);
}

/* ---- the operations ---- */

uint64_t emu_fp_add(uint64_t a, uint64_t b, emu_format format, const emu_mode *mode) {
    if (format == EMU_F64) return f64_result(F64_ADD, a, b, 0, mode);
    return give(emu_add_odd(take(a, format, mode), take(b, format, mode), mode->round), format, mode);
}

uint64_t emu_fp_mul(uint64_t a, uint64_t b, emu_format format, const emu_mode *mode) {
    if (format == EMU_F64) return f64_result(F64_MUL, a, b, 0, mode);
    return give(take(a, format, mode) * take(b, format, mode), format, mode); /* exact: at most 48 bits */
}

uint64_t emu_fp_fma(uint64_t a, uint64_t b, uint64_t c, emu_format format, const emu_mode *mode) {
    if (format == EMU_F64) return f64_result(F64_FMA, a, b, c, mode);
    double product = take(a, format, mode) * take(b, format, mode);
    return give(emu_add_odd(product, take(c, format, mode), mode->round), format, mode);
}

uint64_t emu_fp_div(uint64_t a, uint64_t b, emu_format format, const emu_mode *mode) {
    if (format == EMU_F64) return f64_result(F64_DIV, a, b, 0, mode);
    double x = take(a, format, mode), y = take(b, format, mode), q = x / y;
    if (q == q && !isinf(q) && q != 0 && !isinf(y)) {
        double rest = fma(-q, y, x);
        q = to_odd(q, (y > 0) ? rest : -rest);
    }
    return give(q, format, mode);
}

uint64_t emu_fp_sqrt(uint64_t a, emu_format format, const emu_mode *mode) {
    if (format == EMU_F64) return f64_result(F64_SQRT, a, 0, 0, mode);
    double x = take(a, format, mode), r = sqrt(x);
    if (r == r && !isinf(r) && r != 0) r = to_odd(r, fma(-r, r, x));
    return give(r, format, mode);
}

uint64_t emu_fp_minmax(uint64_t a, uint64_t b, bool max, emu_format format, const emu_mode *mode) {
    const format_traits *f = &FORMATS[format];
    uint64_t top = 1ull << (f->bits - 1), sign = (a ^ b) & top;
    if (mode->ftz) a = flush(a, format), b = flush(b, format);
    if (mode->abs || mode->xorsign) a &= ~top, b &= ~top;
    bool a_nan = (a & ~top) > f->infinity, b_nan = (b & ~top) > f->infinity;
    if ((a_nan && b_nan) || ((a_nan || b_nan) && mode->nan)) return format == EMU_F64 ? b | 1ull << F64_QUIET_BIT : f->nan;
    uint64_t r;
    if (a_nan || b_nan) {
        r = a_nan ? b : a;
    } else {
        /* Sign-magnitude to two's complement: then -0 < +0, as PTX wants it. */
        int64_t x = a & top ? -(int64_t)(a & ~top) - 1 : (int64_t)a;
        int64_t y = b & top ? -(int64_t)(b & ~top) - 1 : (int64_t)b;
        r = (x > y) == max ? a : b;
    }
    return mode->xorsign ? (r & ~top) | sign : r;
}

/* A NaN has no sign to change: f64 keeps it, made quiet, the others give the canonical one. */
static uint64_t nan_kept(uint64_t a, emu_format format) {
    return format == EMU_F64 ? a | 1ull << F64_QUIET_BIT : FORMATS[format].nan;
}

uint64_t emu_fp_negate(uint64_t a, emu_format format, const emu_mode *mode) {
    if (is_nan(a, format)) return nan_kept(a, format);
    if (mode->ftz) a = flush(a, format);
    return a ^ 1ull << (FORMATS[format].bits - 1);
}

uint64_t emu_fp_abs(uint64_t a, emu_format format, const emu_mode *mode) {
    if (is_nan(a, format)) return nan_kept(a, format);
    if (mode->ftz) a = flush(a, format);
    return a & ~(1ull << (FORMATS[format].bits - 1));
}

static bool compare_doubles(double x, double y, emu_compare compare) {
    switch (compare) {
    case EMU_EQ: return x == y;
    case EMU_NE: return x != y;
    case EMU_LT: return x < y;
    case EMU_LE: return x <= y;
    case EMU_GT: return x > y;
    case EMU_GE: return x >= y;
    default: return false;
    }
}

bool emu_fp_compare(uint64_t a, uint64_t b, emu_compare compare, bool unordered, emu_format format, bool ftz) {
    emu_mode mode = {.ftz = ftz};
    double x = take(a, format, &mode), y = take(b, format, &mode);
    bool nan = x != x || y != y;
    if (compare == EMU_NUM) return !nan;
    if (compare == EMU_NAN) return nan;
    if (nan) return unordered;
    return compare_doubles(x, y, compare);
}

/* ---- conversions ---- */

/* To and from f64 a NaN keeps sign and the payload that fits (.ftz: f32 was made canonical before); bf16 to f32 is a shift; tf32 is cut (.rna)
 * or all ones. */
static bool converts_nan(uint64_t a, emu_format to, emu_format from, const emu_mode *mode, uint64_t *out) {
    const format_traits *f = &FORMATS[from], *t = &FORMATS[to];
    if (!is_nan(a, from) || mode->sat) return false;
    if (from == EMU_BF16 && to == EMU_F32) return *out = a << 16, true;
    if (to == EMU_TF32) return *out = mode->round == EMU_RNA ? a & ~0x1fffull : 0x7fffe000, true;
    if (to != EMU_F64 && from != EMU_F64) return false;
    if (from == EMU_F32 && mode->ftz) a = f->nan;
    uint64_t sign = a >> (f->bits - 1) & 1, payload = a & ((1ull << f->mantissa) - 1);
    payload = t->mantissa > f->mantissa ? payload << (t->mantissa - f->mantissa) : payload >> (f->mantissa - t->mantissa);
    *out = sign << (t->bits - 1) | t->infinity | payload | 1ull << (t->mantissa - 1);
    return true;
}

uint64_t emu_cvt_fp_fp(uint64_t a, emu_format to, emu_format from, const emu_mode *mode) {
    uint64_t nan;
    if (converts_nan(a, to, from, mode, &nan)) return nan;
    double x = from == EMU_F32 && mode->ftz ? emu_widen(emu_flush((uint32_t)a), from) : emu_widen(a, from);
    emu_mode without = *mode; /* .ftz means f32 here: a half may stay subnormal */
    if (to != EMU_F32) without.ftz = false;
    return give(x, to, &without);
}

static double round_integral(double x, emu_round round) {
    switch (round) {
    case EMU_RZ: return trunc(x);
    case EMU_RM: return floor(x);
    case EMU_RP: return ceil(x);
    default: return nearbyint(x); /* the host's mode is to nearest even */
    }
}

uint64_t emu_cvt_fp_integral(uint64_t a, emu_format format, const emu_mode *mode) {
    if (format == EMU_F64 && is_nan(a, format) && !mode->sat) return a | 1ull << F64_QUIET_BIT;
    return give(round_integral(take(a, format, mode), mode->round), format, mode);
}

uint64_t emu_cvt_fp_int(uint64_t a, int to_bits, bool to_signed, emu_format from, const emu_mode *mode) {
    double x = take(a, from, mode);
    uint64_t top = 1ull << (to_bits - 1), all = emu_cut(~0ull, to_bits);
    if (x != x) return to_bits == 64 ? top : from == EMU_F64 ? top : 0; /* f64 NaN and 64-bit targets: the hardware's pattern */
    x = round_integral(x, mode->round);
    if (to_signed) {
        double limit = ldexp(1, to_bits - 1);
        if (x >= limit) return top - 1;
        if (x < -limit) return top;
        return emu_cut((uint64_t)(int64_t)x, to_bits);
    }
    if (x <= 0) return 0;
    if (x >= ldexp(1, to_bits)) return all;
    return (uint64_t)x;
}

uint64_t emu_cvt_int_fp(uint64_t a, int from_bits, bool from_signed, emu_format to, const emu_mode *mode) {
    bool negative = from_signed && emu_extend(a, from_bits) < 0;
    uint64_t magnitude = negative ? 0 - (uint64_t)emu_extend(a, from_bits) : emu_cut(a, from_bits);
    if (to == EMU_F64) {
        if (magnitude >> 53 == 0) return emu_double_bits(negative ? -(double)magnitude : (double)magnitude);
        int drop = 64 - 53 - __builtin_clzll(magnitude);
        uint64_t kept = magnitude >> drop, lost = magnitude & ((1ull << drop) - 1);
        double fraction = lost > 1ull << (drop - 1) ? 0.75 : lost == 1ull << (drop - 1) ? 0.5 : lost ? 0.25 : 0;
        if (rounds_up(fraction, kept & 1, negative, mode->round)) kept++;
        double x = ldexp((double)kept, drop);
        return emu_double_bits(negative ? -x : x);
    }
    return give(emu_int_odd(magnitude, negative), to, mode);
}

/* ---- approximations ---- */

/* 2^f on [-1/2, 1/2]: Taylor terms ln(2)^n / n!, the first exactly 1 so that integers give powers of two. */
const float EMU_EX2[EMU_EX2_TERMS] = {1.0f,          0x1.62e430p-1f, 0x1.ebfbe0p-3f, 0x1.c6b08ep-5f,
                                      0x1.3b2ab6p-7f, 0x1.5d87fep-10f, 0x1.43091ep-13f};

uint32_t emu_ex2_f32(uint32_t a, bool ftz) {
    if (ftz) a = emu_flush(a);
    float x = emu_float(a);
    if (x != x) return 0x7fffffff;
    if (x >= 128.0f) return 0x7f800000;
    if (x < (ftz ? -126.0f : -150.0f)) return 0;
    float whole = nearbyintf(x), f = x - whole, p = EMU_EX2[EMU_EX2_TERMS - 1];
    for (int i = EMU_EX2_TERMS - 2; i >= 0; i--) p = fmaf(p, f, EMU_EX2[i]);
    int n = (int)whole, half = n / 2; /* two steps: 2^-150 alone is no float */
    float scaled = p * emu_float((uint32_t)(half + 127) << 23) * emu_float((uint32_t)(n - half + 127) << 23);
    uint32_t bits = emu_float_bits(scaled);
    return ftz ? emu_flush(bits) : bits;
}

static uint32_t finish(double x, bool ftz) {
    if (x != x) return 0x7fffffff;
    if (ftz && fabsf((float)(x * 0x1p64)) < 0x1p-62f) x = copysign(0, x); /* as flush_tiny does */
    return emu_float_bits((float)x);
}
static double start(uint32_t a, bool ftz) {
    return (double)emu_float(ftz ? emu_flush(a) : a);
}

uint32_t emu_lg2_f32(uint32_t a, bool ftz) {
    return finish(log2(start(a, ftz)), ftz);
}
uint32_t emu_rcp_approx_f32(uint32_t a, bool ftz) {
    return finish(1.0 / start(a, ftz), ftz);
}
uint32_t emu_rsqrt_f32(uint32_t a, bool ftz) {
    double x = start(a, ftz);
    return finish(1.0 / sqrt(x), ftz);
}
uint32_t emu_sqrt_approx_f32(uint32_t a, bool ftz) {
    return finish(sqrt(start(a, ftz)), ftz);
}
uint32_t emu_div_approx_f32(uint32_t a, uint32_t b, bool ftz) {
    double x = start(a, ftz), y = start(b, ftz);
    /* For |b| in (2^126, 2^128) the ISA gives 0 (NaN for an infinite a). */
    if (fabs(y) > 0x1p126 && !isinf(y)) return isinf(x) ? 0x7fffffff : signbit(x) != signbit(y) && x == x ? 0x80000000u : finish(x * 0, ftz);
    return finish(x / y, ftz);
}
uint32_t emu_sin_f32(uint32_t a, bool ftz) {
    return finish(sin(start(a, ftz)), ftz);
}
uint32_t emu_cos_f32(uint32_t a, bool ftz) {
    return finish(cos(start(a, ftz)), ftz);
}
uint32_t emu_tanh_f32(uint32_t a, bool ftz) {
    return finish(tanh(start(a, ftz)), ftz);
}
