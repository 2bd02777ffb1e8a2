/*
 * Numbers as PTX computes them, one lane at a time: pure functions from bits to bits. This is the portable definition of every
 * arithmetic result; the vector handlers (alu_*.c) are held bit-equal to it. No floating-point environment is left changed.
 */
#ifndef FA4_EMU_NUMBERS_H
#define FA4_EMU_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef enum emu_round { EMU_RN, EMU_RZ, EMU_RM, EMU_RP, EMU_RNA } emu_round;

/* Floating-point formats; the numbers index a table of their sizes. */
typedef enum emu_format { EMU_F16, EMU_BF16, EMU_F32, EMU_F64, EMU_TF32, EMU_E4M3, EMU_E5M2, EMU_FORMATS } emu_format;

/* Modifiers of a floating-point instruction. */
typedef struct emu_mode {
    uint8_t round; /* emu_round */
    bool ftz;      /* subnormal f32 inputs and results become signed zero */
    bool sat;      /* clamp to [0, 1], NaN to +0 */
    bool nan;      /* min, max: NaN wins */
    bool abs;      /* min, max: magnitudes */
    bool xorsign;  /* min, max: sign of the product */
    bool relu;     /* negative becomes +0, NaN stays canonical */
    bool satfinite; /* cvt: overflow becomes the largest finite value */
} emu_mode;

static inline float emu_float(uint64_t bits) {
    uint32_t u = (uint32_t)bits;
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static inline uint32_t emu_float_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline double emu_double(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline uint64_t emu_double_bits(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline uint32_t emu_flush(uint32_t bits) {
    return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
}

/* Any format to double, exactly; a NaN becomes a quiet one. */
double emu_widen(uint64_t bits, emu_format format);
/* Rounds once. `x` must be exact or rounded to odd. */
uint64_t emu_narrow(double x, emu_format format, emu_round round, bool satfinite);
/* Sums and products rounded to odd in double, so that one more rounding gives the true result. */
double emu_add_odd(double a, double b, emu_round round);
double emu_int_odd(uint64_t magnitude, bool negative);

/* Results in the given format, NaN canonical (f64: as IEEE hardware gives it). */
uint64_t emu_fp_add(uint64_t a, uint64_t b, emu_format format, const emu_mode *mode);
uint64_t emu_fp_mul(uint64_t a, uint64_t b, emu_format format, const emu_mode *mode);
uint64_t emu_fp_fma(uint64_t a, uint64_t b, uint64_t c, emu_format format, const emu_mode *mode);
uint64_t emu_fp_div(uint64_t a, uint64_t b, emu_format format, const emu_mode *mode);
uint64_t emu_fp_sqrt(uint64_t a, emu_format format, const emu_mode *mode);
uint64_t emu_fp_minmax(uint64_t a, uint64_t b, bool max, emu_format format, const emu_mode *mode);
uint64_t emu_fp_negate(uint64_t a, emu_format format, const emu_mode *mode);
uint64_t emu_fp_abs(uint64_t a, emu_format format, const emu_mode *mode);
/* The comparison's answer; `unordered`: the u-forms, true when either is NaN. */
typedef enum emu_compare { EMU_EQ, EMU_NE, EMU_LT, EMU_LE, EMU_GT, EMU_GE, EMU_NUM, EMU_NAN } emu_compare;
bool emu_fp_compare(uint64_t a, uint64_t b, emu_compare compare, bool unordered, emu_format format, bool ftz);
bool emu_int_compare(uint64_t a, uint64_t b, emu_compare compare, bool is_signed, int bits);

/* Conversions. */
uint64_t emu_cvt_fp_fp(uint64_t a, emu_format to, emu_format from, const emu_mode *mode);
uint64_t emu_cvt_fp_integral(uint64_t a, emu_format format, const emu_mode *mode); /* cvt.rni.f32.f32 and such */
uint64_t emu_cvt_fp_int(uint64_t a, int to_bits, bool to_signed, emu_format from, const emu_mode *mode);
uint64_t emu_cvt_int_fp(uint64_t a, int from_bits, bool from_signed, emu_format to, const emu_mode *mode);
uint64_t emu_cvt_int_int(uint64_t a, int to_bits, bool to_signed, int from_bits, bool from_signed, bool sat);

/*
 * Approximations. The ISA bounds them and promises no bits. Models: ex2 is a polynomial in f32 (error below 1 ulp); the others are
 * correctly rounded values, which lie inside every bound of the ISA. EMU_EX2 is the one table of constants.
 */
enum { EMU_EX2_TERMS = 7 };
extern const float EMU_EX2[EMU_EX2_TERMS];
uint32_t emu_ex2_f32(uint32_t a, bool ftz);
uint32_t emu_lg2_f32(uint32_t a, bool ftz);
uint32_t emu_rcp_approx_f32(uint32_t a, bool ftz);
uint32_t emu_rsqrt_f32(uint32_t a, bool ftz);
uint32_t emu_sqrt_approx_f32(uint32_t a, bool ftz);
uint32_t emu_div_approx_f32(uint32_t a, uint32_t b, bool ftz);
uint32_t emu_sin_f32(uint32_t a, bool ftz);
uint32_t emu_cos_f32(uint32_t a, bool ftz);
uint32_t emu_tanh_f32(uint32_t a, bool ftz);

/* Integers. `bits` is 8, 16, 32 or 64; results are cut to it. */
static inline uint64_t emu_cut(uint64_t a, int bits) {
    return bits == 64 ? a : a & ((1ull << bits) - 1);
}
static inline int64_t emu_extend(uint64_t a, int bits) {
    return bits == 64 ? (int64_t)a : (int64_t)(a << (64 - bits)) >> (64 - bits);
}
uint64_t emu_int_mul_hi(uint64_t a, uint64_t b, int bits, bool is_signed);
uint64_t emu_int_div(uint64_t a, uint64_t b, int bits, bool is_signed);
uint64_t emu_int_rem(uint64_t a, uint64_t b, int bits, bool is_signed);
uint64_t emu_int_shl(uint64_t a, uint32_t count, int bits);
uint64_t emu_int_shr(uint64_t a, uint32_t count, int bits, bool is_signed);
uint32_t emu_int_clz(uint64_t a, int bits);
uint32_t emu_int_bfind(uint64_t a, int bits, bool is_signed, bool shift_amount);
uint64_t emu_int_brev(uint64_t a, int bits);
uint64_t emu_int_bfe(uint64_t a, uint32_t position, uint32_t length, int bits, bool is_signed);
uint64_t emu_int_bfi(uint64_t a, uint64_t b, uint32_t position, uint32_t length, int bits);
uint32_t emu_int_prmt(uint32_t a, uint32_t b, uint32_t selector, int mode); /* mode: 0 default, 1 f4e 2 b4e 3 rc8 4 ecl 5 ecr 6 rc16 */
uint32_t emu_int_lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table);
uint32_t emu_int_shf(uint32_t low, uint32_t high, uint32_t count, bool left, bool wrap);
uint64_t emu_int_add_sat(uint64_t a, uint64_t b, int bits, bool subtract);
uint32_t emu_int_dp4a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed);
uint32_t emu_int_dp2a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed, bool high);

#endif
