/*
 * Which scalar function computes an arithmetic instruction (ISA 9.7.1 to 9.7.9): one short function per instruction, chosen by opcode
 * and type. Every combination that is not named here is refused by the caller.
 */
#include "emu_internal.h"

#include <math.h>

#define SCALAR(name) static uint64_t name(const emu_op *op, uint64_t a, uint64_t b, uint64_t c)
#define UNUSED(x) (void)(x)

/* ---- floating point ---- */
SCALAR(fp_add) { UNUSED(c); return emu_fp_add(a, b, op->format, &op->mode); }
SCALAR(fp_sub) { UNUSED(c); emu_mode plain = {0}; return emu_fp_add(a, emu_fp_negate(b, op->format, &plain), op->format, &op->mode); }
SCALAR(fp_mul) { UNUSED(c); return emu_fp_mul(a, b, op->format, &op->mode); }
SCALAR(fp_fma) { return emu_fp_fma(a, b, c, op->format, &op->mode); }
SCALAR(fp_div) { UNUSED(c); return emu_fp_div(a, b, op->format, &op->mode); }
SCALAR(fp_rcp) { UNUSED(b); UNUSED(c); return emu_fp_div(op->format == EMU_F64 ? 0x3ff0000000000000 : 0x3f800000, a, op->format, &op->mode); }
SCALAR(fp_sqrt) { UNUSED(b); UNUSED(c); return emu_fp_sqrt(a, op->format, &op->mode); }
SCALAR(fp_abs) { UNUSED(b); UNUSED(c); return emu_fp_abs(a, op->format, &op->mode); }
SCALAR(fp_neg) { UNUSED(b); UNUSED(c); return emu_fp_negate(a, op->format, &op->mode); }
SCALAR(fp_min) { UNUSED(c); return emu_fp_minmax(a, b, false, op->format, &op->mode); }
SCALAR(fp_max) { UNUSED(c); return emu_fp_minmax(a, b, true, op->format, &op->mode); }
SCALAR(fp_min3) { return emu_fp_minmax(emu_fp_minmax(a, b, false, op->format, &op->mode), c, false, op->format, &op->mode); }
SCALAR(fp_max3) { return emu_fp_minmax(emu_fp_minmax(a, b, true, op->format, &op->mode), c, true, op->format, &op->mode); }
SCALAR(fp_copysign) {
    UNUSED(c);
    uint64_t top = op->format == EMU_F64 ? 1ull << 63 : 1ull << 31;
    return (a & top) | (b & ~top);
}
SCALAR(ex2) { UNUSED(b); UNUSED(c); return emu_ex2_f32((uint32_t)a, op->mode.ftz); }
SCALAR(lg2) { UNUSED(b); UNUSED(c); return emu_lg2_f32((uint32_t)a, op->mode.ftz); }
SCALAR(rcp_approx) { UNUSED(b); UNUSED(c); return emu_rcp_approx_f32((uint32_t)a, op->mode.ftz); }
/* The f64 seeds of Newton's iteration: with .ftz devices read and write the upper word alone, with about 20 good bits. */
static uint64_t seed_f64(const emu_op *op, double x) {
    uint64_t bits = emu_double_bits(x);
    if (x != x) return op->mode.ftz ? 0x7fffffff00000000 : 0x7ff8000000000000;
    return op->mode.ftz ? bits & 0xffffffff00000000 : bits;
}
static double flushed_f64(uint64_t a) {
    a &= 0xffffffff00000000;
    return (a >> 52 & 0x7ff) == 0 ? copysign(0, emu_double(a)) : emu_double(a);
}
SCALAR(rcp_seed) { UNUSED(b); UNUSED(c); double r = 1 / flushed_f64(a); return seed_f64(op, fabs(r) < 0x1p-1022 ? copysign(0, r) : r); }
SCALAR(rsqrt_seed) { UNUSED(b); UNUSED(c); return seed_f64(op, 1 / sqrt(op->mode.ftz ? flushed_f64(a) : emu_double(a))); }
SCALAR(rsqrt) { UNUSED(b); UNUSED(c); return emu_rsqrt_f32((uint32_t)a, op->mode.ftz); }
SCALAR(sqrt_approx) { UNUSED(b); UNUSED(c); return emu_sqrt_approx_f32((uint32_t)a, op->mode.ftz); }
SCALAR(div_approx) { UNUSED(c); return emu_div_approx_f32((uint32_t)a, (uint32_t)b, op->mode.ftz); }
SCALAR(div_full) {
    UNUSED(c);
    emu_mode mode = {.ftz = op->mode.ftz};
    return emu_fp_div(a, b, EMU_F32, &mode);
}
SCALAR(sine) { UNUSED(b); UNUSED(c); return emu_sin_f32((uint32_t)a, op->mode.ftz); }
SCALAR(cosine) { UNUSED(b); UNUSED(c); return emu_cos_f32((uint32_t)a, op->mode.ftz); }
SCALAR(tangent) { UNUSED(b); UNUSED(c); return emu_tanh_f32((uint32_t)a, op->mode.ftz); }
/* Halves of ex2.f16x2 and tanh.f16x2: computed in f32, rounded once more. */
static uint64_t through_f32(const emu_op *op, uint64_t a, uint32_t (*function)(uint32_t, bool)) {
    uint32_t wide = emu_float_bits((float)emu_widen(a, op->format));
    return emu_narrow((double)emu_float(function(wide, op->mode.ftz)), op->format, EMU_RN, false);
}
SCALAR(ex2_half) { UNUSED(b); UNUSED(c); return through_f32(op, a, emu_ex2_f32); }
SCALAR(tanh_half) { UNUSED(b); UNUSED(c); return through_f32(op, a, emu_tanh_f32); }

/* ---- integers ---- */
SCALAR(int_add) { UNUSED(c); return op->mode.sat ? emu_int_add_sat(a, b, op->bits, false) : emu_cut(a + b, op->bits); }
SCALAR(int_sub) { UNUSED(c); return op->mode.sat ? emu_int_add_sat(a, b, op->bits, true) : emu_cut(a - b, op->bits); }
SCALAR(int_mul_lo) { UNUSED(c); return emu_cut(a * b, op->bits); }
SCALAR(int_mul_hi) { UNUSED(c); return emu_int_mul_hi(a, b, op->bits, op->is_signed); }
static uint64_t product_wide(const emu_op *op, uint64_t a, uint64_t b) {
    return op->is_signed ? (uint64_t)(emu_extend(a, op->bits) * emu_extend(b, op->bits)) : emu_cut(a, op->bits) * emu_cut(b, op->bits);
}
SCALAR(int_mul_wide) { UNUSED(c); return emu_cut(product_wide(op, a, b), 2 * op->bits); }
SCALAR(int_mad_lo) { return emu_cut(a * b + c, op->bits); }
SCALAR(int_mad_hi) { return emu_cut(emu_int_mul_hi(a, b, op->bits, op->is_signed) + c, op->bits); }
SCALAR(int_mad_hi_sat) { return emu_int_add_sat(emu_int_mul_hi(a, b, op->bits, true), c, op->bits, false); }
SCALAR(int_mad_wide) { return emu_cut(product_wide(op, a, b) + c, 2 * op->bits); }
static uint64_t product_24(const emu_op *op, uint64_t a, uint64_t b) {
    uint64_t p = op->is_signed ? (uint64_t)(emu_extend(a, 24) * emu_extend(b, 24)) : emu_cut(a, 24) * emu_cut(b, 24);
    return emu_cut(op->extra ? p >> 16 : p, 32);
}
SCALAR(int_mul24) { UNUSED(c); return product_24(op, emu_cut(a, 24), emu_cut(b, 24)); }
SCALAR(int_mad24) { return emu_cut(product_24(op, emu_cut(a, 24), emu_cut(b, 24)) + c, 32); }
SCALAR(int_mad24_sat) { return emu_int_add_sat(product_24(op, emu_cut(a, 24), emu_cut(b, 24)), c, 32, false); }
SCALAR(int_div) { UNUSED(c); return emu_int_div(a, b, op->bits, op->is_signed); }
SCALAR(int_rem) { UNUSED(c); return emu_int_rem(a, b, op->bits, op->is_signed); }
SCALAR(int_abs) { UNUSED(b); UNUSED(c); return emu_extend(a, op->bits) < 0 ? emu_cut(0 - a, op->bits) : emu_cut(a, op->bits); }
SCALAR(int_neg) { UNUSED(b); UNUSED(c); return emu_cut(0 - a, op->bits); }
static uint64_t int_pick(const emu_op *op, uint64_t a, uint64_t b, bool max) {
    uint64_t r = emu_int_compare(a, b, EMU_GT, op->is_signed, op->bits) == max ? a : b;
    if (op->mode.relu && emu_extend(r, op->bits) < 0) r = 0;
    return emu_cut(r, op->bits);
}
SCALAR(int_min) { UNUSED(c); return int_pick(op, a, b, false); }
SCALAR(int_max) { UNUSED(c); return int_pick(op, a, b, true); }
SCALAR(int_min3) { return int_pick(op, int_pick(op, a, b, false), c, false); }
SCALAR(int_max3) { return int_pick(op, int_pick(op, a, b, true), c, true); }
SCALAR(int_sad) {
    bool less = emu_int_compare(a, b, EMU_LT, op->is_signed, op->bits);
    return emu_cut((less ? b - a : a - b) + c, op->bits);
}
SCALAR(dp4a) { return emu_int_dp4a((uint32_t)a, (uint32_t)b, (uint32_t)c, op->is_signed, op->unordered); }
SCALAR(dp2a) { return emu_int_dp2a((uint32_t)a, (uint32_t)b, (uint32_t)c, op->is_signed, op->unordered, op->extra); }
SCALAR(bit_and) { UNUSED(op); UNUSED(c); return a & b; }
SCALAR(bit_or) { UNUSED(op); UNUSED(c); return a | b; }
SCALAR(bit_xor) { UNUSED(op); UNUSED(c); return a ^ b; }
SCALAR(bit_not) { UNUSED(b); UNUSED(c); return emu_cut(~a, op->bits); }
SCALAR(bit_cnot) { UNUSED(b); UNUSED(c); return emu_cut(a, op->bits) == 0; }
SCALAR(bit_lop3) { return emu_int_lop3((uint32_t)a, (uint32_t)b, (uint32_t)c, (uint32_t)op->value); }
SCALAR(bit_shl) { UNUSED(c); return emu_int_shl(a, (uint32_t)b, op->bits); }
SCALAR(bit_shr) { UNUSED(c); return emu_int_shr(a, (uint32_t)b, op->bits, op->is_signed); }
SCALAR(bit_shf) { return emu_int_shf((uint32_t)a, (uint32_t)b, (uint32_t)c, op->extra & 1, op->extra & 2); }
SCALAR(bit_popc) { UNUSED(b); UNUSED(c); return (uint64_t)__builtin_popcountll(emu_cut(a, op->bits)); }
SCALAR(bit_clz) { UNUSED(b); UNUSED(c); return emu_int_clz(a, op->bits); }
SCALAR(bit_find) { UNUSED(b); UNUSED(c); return emu_int_bfind(a, op->bits, op->is_signed, op->extra); }
SCALAR(bit_reverse) { UNUSED(b); UNUSED(c); return emu_int_brev(a, op->bits); }
SCALAR(bit_extract) { return emu_int_bfe(a, (uint32_t)b, (uint32_t)c, op->bits, op->is_signed); }
SCALAR(bit_mask) {
    UNUSED(c);
    uint32_t at = (uint32_t)a, width = (uint32_t)b;
    if (op->extra) at &= 31, width &= 31; /* .wrap */
    if (at > 31 || width == 0) return 0;
    uint64_t ones = width >= 32 ? 0xffffffffull : (1ull << width) - 1;
    return emu_cut(ones << at, 32);
}
SCALAR(bit_szext) {
    UNUSED(c);
    uint32_t width = op->extra ? (uint32_t)b & 31 : (uint32_t)b > 32 ? 32 : (uint32_t)b;
    if (width == 0) return 0;
    return op->is_signed ? emu_cut((uint64_t)emu_extend(emu_cut(a, (int)width), (int)width), 32) : emu_cut(a, (int)width);
}
SCALAR(bit_prmt) { return emu_int_prmt((uint32_t)a, (uint32_t)b, (uint32_t)c, (int)op->extra); }
SCALAR(find_nth) { /* fns.b32 mask, base, offset */
    UNUSED(op);
    uint32_t word = (uint32_t)a, base = (uint32_t)b & 31;
    int32_t offset = (int32_t)c, step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
    if (offset == 0) return word >> base & 1 ? base : 0xffffffffu;
    for (int32_t at = (int32_t)base; at >= 0 && at < 32; at += step)
        if ((word >> at & 1) && --left == 0) return (uint64_t)at;
    return 0xffffffffu;
}
SCALAR(slct) { /* c is s32 or f32 */
    bool first = op->format == EMU_F32 ? emu_fp_compare(c, 0, EMU_GE, false, EMU_F32, op->mode.ftz) : (int32_t)c >= 0;
    return first ? a : b;
}
static bool set_holds(const emu_op *op, uint64_t a, uint64_t b) {
    return op->format_from != EMU_FORMATS ? emu_fp_compare(a, b, op->compare, op->unordered, op->format_from, op->mode.ftz)
                                          : emu_int_compare(a, b, op->compare, op->is_signed, op->bits);
}
static bool with_predicate(int operation, bool holds, bool other) {
    return operation == PTX_AND ? holds && other : operation == PTX_OR ? holds || other : operation == PTX_XOR ? holds != other : holds;
}
/* set d, a, b{, c}: op->value where it holds, else 0; of two halves each for itself. */
static emu_step run_set(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t other = emu_pred(w, op->s), halves = op->extra ? 2 : 1;
    int operation = op->source->form->operation;
    EMU_EACH_LANE(lane, mask) {
        uint64_t a = emu_get(w, op->a, op->wide & 2, (int)lane), b = emu_get(w, op->b, op->wide & 4, (int)lane), r = 0;
        for (uint32_t at = 0; at < halves * 16; at += 16) {
            bool holds = halves == 2 ? set_holds(op, a >> at & 0xffff, b >> at & 0xffff) : set_holds(op, a, b);
            if (with_predicate(operation, holds, other >> lane & 1)) r |= (uint64_t)op->value << at;
        }
        emu_put(w, op->d, op->wide & 1, (int)lane, r);
    }
    return EMU_NEXT;
}
/* cvt.pack d, a, b{, c}: b lowest, then a; with bytes, c's low half above them. */
SCALAR(cvt_pack) {
    uint64_t high = emu_cvt_int_int(a, op->bits, op->is_signed, 32, true, true), low = emu_cvt_int_int(b, op->bits, op->is_signed, 32, true, true);
    return emu_cut(c << 16, 32) * (op->bits == 8) | high << op->bits | low;
}

/* ---- conversions ---- */
SCALAR(cvt_fp_fp) { UNUSED(b); UNUSED(c); return emu_cvt_fp_fp(a, op->format, op->format_from, &op->mode); }
SCALAR(cvt_integral) { UNUSED(b); UNUSED(c); return emu_cvt_fp_integral(a, op->format, &op->mode); }
/* A signed result fills the whole register; op->count is the register's bits. */
static uint64_t fill_register(const emu_op *op, uint64_t r) {
    return op->is_signed ? emu_cut((uint64_t)emu_extend(r, op->bits), op->count) : r;
}
SCALAR(cvt_fp_int) { UNUSED(b); UNUSED(c); return fill_register(op, emu_cvt_fp_int(a, op->bits, op->is_signed, op->format_from, &op->mode)); }
SCALAR(cvt_int_fp) { UNUSED(b); UNUSED(c); return emu_cvt_int_fp(a, (int)op->extra, op->unordered, op->format, &op->mode); }
SCALAR(cvt_int_int) { UNUSED(b); UNUSED(c); return fill_register(op, emu_cvt_int_int(a, op->bits, op->is_signed, (int)op->extra, op->unordered, op->mode.sat)); }
/* cvt.f16x2.f32 d, a, b: a becomes the upper half. */
SCALAR(cvt_pair) {
    UNUSED(c);
    uint64_t high = emu_cvt_fp_fp(a, op->format, op->format_from, &op->mode), low = emu_cvt_fp_fp(b, op->format, op->format_from, &op->mode);
    return high << op->bits | low;
}
/* cvt.f16x2.e4m3x2: both elements. */
SCALAR(cvt_unpair) {
    UNUSED(b); UNUSED(c);
    uint64_t low = emu_cvt_fp_fp(a & 255, op->format, op->format_from, &op->mode), high = emu_cvt_fp_fp(a >> 8 & 255, op->format, op->format_from, &op->mode);
    return high << 16 | low;
}
SCALAR(cvt_pair_f16x2) { /* cvt.e4m3x2.f16x2 */
    UNUSED(b); UNUSED(c);
    uint64_t low = emu_cvt_fp_fp(a & 0xffff, op->format, EMU_F16, &op->mode), high = emu_cvt_fp_fp(a >> 16 & 0xffff, op->format, EMU_F16, &op->mode);
    return high << 8 | low;
}

SCALAR(packed) {
    int bits = op->bits;
    uint64_t r = 0;
    for (int at = 0; at < 2 * bits; at += bits)
        r |= emu_cut(op->inner(op, emu_cut(a >> at, bits), emu_cut(b >> at, bits), emu_cut(c >> at, bits)), bits) << at;
    return r;
}

/* ---- types ---- */

static emu_format format_of(int type) {
    switch (type) {
    case PTX_TYPE_F16: case PTX_TYPE_F16X2: return EMU_F16;
    case PTX_TYPE_BF16: case PTX_TYPE_BF16X2: return EMU_BF16;
    case PTX_TYPE_F32: case PTX_TYPE_F32X2: return EMU_F32;
    case PTX_TYPE_F64: return EMU_F64;
    case PTX_TYPE_TF32: return EMU_TF32;
    case PTX_TYPE_E4M3: case PTX_TYPE_E4M3X2: return EMU_E4M3;
    case PTX_TYPE_E5M2: case PTX_TYPE_E5M2X2: return EMU_E5M2;
    default: return EMU_FORMATS;
    }
}

static bool is_packed(int type) {
    return type == PTX_TYPE_F16X2 || type == PTX_TYPE_BF16X2 || type == PTX_TYPE_F32X2 || type == PTX_TYPE_U16X2 || type == PTX_TYPE_S16X2;
}

static bool is_signed_type(int type) {
    return type == PTX_TYPE_S8 || type == PTX_TYPE_S16 || type == PTX_TYPE_S32 || type == PTX_TYPE_S64 || type == PTX_TYPE_S16X2;
}

static uint8_t round_of(int rounding) {
    switch (rounding) {
    case PTX_RZ: case PTX_RZI: return EMU_RZ;
    case PTX_RM: case PTX_RMI: return EMU_RM;
    case PTX_RP: case PTX_RPI: return EMU_RP;
    case PTX_RNA: return EMU_RNA;
    default: return EMU_RN;
    }
}

static bool set_compare(int compare, emu_op *op) {
    static const uint8_t plain[] = {[PTX_EQ] = EMU_EQ, [PTX_NE] = EMU_NE, [PTX_LT] = EMU_LT, [PTX_LE] = EMU_LE, [PTX_GT] = EMU_GT,
                                    [PTX_GE] = EMU_GE, [PTX_LO] = EMU_LT, [PTX_LS] = EMU_LE, [PTX_HI] = EMU_GT, [PTX_HS] = EMU_GE,
                                    [PTX_EQU] = EMU_EQ, [PTX_NEU] = EMU_NE, [PTX_LTU] = EMU_LT, [PTX_LEU] = EMU_LE,
                                    [PTX_GTU] = EMU_GT, [PTX_GEU] = EMU_GE, [PTX_NUM] = EMU_NUM, [PTX_NAN] = EMU_NAN};
    if (compare == 0) return false;
    op->compare = plain[compare];
    op->unordered = compare >= PTX_EQU && compare <= PTX_GEU;
    if (compare >= PTX_LO && compare <= PTX_HS) op->is_signed = 0;
    return true;
}

/* Chooses by whether the type is floating; NULL where there is none. */
static bool choose(emu_op *op, emu_scalar floating, emu_scalar integer) {
    op->scalar = op->format != EMU_FORMATS ? floating : integer;
    return op->scalar != NULL;
}

static bool choose_half(emu_op *op, int half, emu_scalar low, emu_scalar high, emu_scalar wide) {
    op->scalar = half == PTX_HALF_WIDE ? wide : half == PTX_HALF_HI ? high : low;
    return true;
}

static bool lower_arithmetic(const ptx_form *f, const ptx_instr *instr, emu_op *op) {
    bool three = instr->operand_count == 4;
    switch (f->opcode) {
    case PTX_OP_ADD: return choose(op, fp_add, int_add);
    case PTX_OP_SUB: return choose(op, fp_sub, int_sub);
    case PTX_OP_MUL:
        if (op->format != EMU_FORMATS) return choose(op, fp_mul, NULL);
        return choose_half(op, f->half, int_mul_lo, int_mul_hi, int_mul_wide);
    case PTX_OP_MAD:
        if (op->format != EMU_FORMATS) return choose(op, fp_fma, NULL);
        if (f->sat) return op->scalar = int_mad_hi_sat, f->half == PTX_HALF_HI && f->types[0] == PTX_TYPE_S32;
        return choose_half(op, f->half, int_mad_lo, int_mad_hi, int_mad_wide);
    case PTX_OP_MUL24: op->extra = f->half == PTX_HALF_HI; op->scalar = int_mul24; return true;
    case PTX_OP_MAD24: op->extra = f->half == PTX_HALF_HI; op->scalar = f->sat ? int_mad24_sat : int_mad24; return true;
    case PTX_OP_FMA: return choose(op, fp_fma, NULL);
    case PTX_OP_DIV:
        if (f->approx) return choose(op, div_approx, NULL);
        if (f->full) return choose(op, div_full, NULL);
        return choose(op, fp_div, int_div);
    case PTX_OP_REM: return choose(op, NULL, int_rem);
    case PTX_OP_ABS: return choose(op, fp_abs, int_abs);
    case PTX_OP_NEG: return choose(op, fp_neg, int_neg);
    case PTX_OP_MIN: return three ? choose(op, fp_min3, int_min3) : choose(op, fp_min, int_min);
    case PTX_OP_MAX: return three ? choose(op, fp_max3, int_max3) : choose(op, fp_max, int_max);
    case PTX_OP_SAD: return choose(op, NULL, int_sad);
    case PTX_OP_DP4A: op->unordered = is_signed_type(f->types[1]); op->scalar = dp4a; return true;
    case PTX_OP_DP2A: op->unordered = is_signed_type(f->types[1]); op->extra = f->half == PTX_HALF_HI; op->scalar = dp2a; return true;
    case PTX_OP_COPYSIGN: return choose(op, fp_copysign, NULL);
    default: return false;
    }
}

static bool lower_special(const ptx_form *f, emu_op *op) {
    bool f32 = op->format == EMU_F32, half = op->format == EMU_F16 || op->format == EMU_BF16;
    switch (f->opcode) {
    case PTX_OP_RCP: op->scalar = !f->approx ? fp_rcp : f32 ? rcp_approx : rcp_seed; return true;
    case PTX_OP_SQRT: op->scalar = f->approx ? sqrt_approx : fp_sqrt; return !(f->approx && !f32);
    case PTX_OP_RSQRT: op->scalar = f32 ? rsqrt : rsqrt_seed; return true;
    case PTX_OP_SIN: op->scalar = sine; return f32;
    case PTX_OP_COS: op->scalar = cosine; return f32;
    case PTX_OP_LG2: op->scalar = lg2; return f32;
    case PTX_OP_EX2: op->scalar = f32 ? ex2 : ex2_half; return f32 || half;
    case PTX_OP_TANH: op->scalar = f32 ? tangent : tanh_half; return f32 || half;
    default: return false;
    }
}

static bool lower_bits(const ptx_form *f, const ptx_instr *instr, emu_op *op) {
    switch (f->opcode) {
    case PTX_OP_AND: op->scalar = bit_and; return true;
    case PTX_OP_OR: op->scalar = bit_or; return true;
    case PTX_OP_XOR: op->scalar = bit_xor; return true;
    case PTX_OP_NOT: op->scalar = bit_not; return true;
    case PTX_OP_CNOT: op->scalar = bit_cnot; return true;
    case PTX_OP_LOP3: op->scalar = bit_lop3; op->value = instr->operands[4].u.value; return true;
    case PTX_OP_SHL: op->scalar = bit_shl; return true;
    case PTX_OP_SHR: op->scalar = bit_shr; return true;
    case PTX_OP_SHF: op->scalar = bit_shf; op->extra = (f->direction == PTX_LEFT) | (f->clamp == PTX_WRAP) << 1; return true;
    case PTX_OP_POPC: op->scalar = bit_popc; return true;
    case PTX_OP_CLZ: op->scalar = bit_clz; return true;
    case PTX_OP_BFIND: op->scalar = bit_find; return true;
    case PTX_OP_BFIND_SHIFTAMT: op->scalar = bit_find; op->extra = 1; return true;
    case PTX_OP_FNS: op->scalar = find_nth; return true;
    case PTX_OP_BREV: op->scalar = bit_reverse; return true;
    case PTX_OP_BFE: op->scalar = bit_extract; return true;
    case PTX_OP_BMSK: op->scalar = bit_mask; op->extra = f->clamp == PTX_WRAP; return true;
    case PTX_OP_SZEXT: op->scalar = bit_szext; op->extra = f->clamp == PTX_WRAP; return true;
    case PTX_OP_PRMT: op->scalar = bit_prmt; op->extra = f->permute; return true;
    default: return false;
    }
}

/* ue8m0 is a power of two from 2^-127 on, 255 = NaN; a sign is dropped. */
static uint64_t to_scale(const emu_op *op, uint64_t f32) {
    uint32_t exponent = (uint32_t)f32 >> 23 & 0xff, fraction = (uint32_t)f32 & 0x7fffff;
    if (exponent == 0xff) return fraction || !op->mode.satfinite ? 0xff : 0xfe;
    bool up = op->mode.round == EMU_RP && (exponent == 0 ? fraction > 0x400000 : fraction > 0);
    if (up && exponent == 0xfe) return op->mode.satfinite ? 0xfe : 0xff;
    return exponent + up;
}
SCALAR(cvt_scales_f32) { UNUSED(c); return to_scale(op, a) << 8 | to_scale(op, b); }
SCALAR(cvt_scales_bf16) { UNUSED(b); UNUSED(c); return to_scale(op, a & 0xffff0000) << 8 | to_scale(op, a << 16 & 0xffff0000); }
static uint64_t from_scale(uint64_t scale) {
    return scale == 0xff ? 0x7fff : scale == 0 ? 0x40 : scale << 7;
}
SCALAR(cvt_from_scales) { UNUSED(op); UNUSED(b); UNUSED(c); return from_scale(a >> 8 & 0xff) << 16 | from_scale(a & 0xff); }

static bool is_small_pair(int type) {
    return type == PTX_TYPE_E4M3X2 || type == PTX_TYPE_E5M2X2;
}

/* Conversions of pairs: two operands to one register, or one register to another. */
static bool lower_cvt_pair(int to, int from, int operands, emu_op *op) {
    bool f32 = operands == 3 && from == PTX_TYPE_F32;
    op->bits = op->format == EMU_F16 || op->format == EMU_BF16 ? 16 : 8;
    if (to == PTX_TYPE_UE8M0X2) op->scalar = f32 ? cvt_scales_f32 : from == PTX_TYPE_BF16X2 && operands == 2 ? cvt_scales_bf16 : NULL;
    else if (from == PTX_TYPE_UE8M0X2) op->scalar = to == PTX_TYPE_BF16X2 ? cvt_from_scales : NULL;
    else if (operands == 3) op->scalar = f32 && op->format != EMU_FORMATS ? cvt_pair : NULL;
    else if (is_small_pair(to)) op->scalar = from == PTX_TYPE_F16X2 ? cvt_pair_f16x2 : NULL;
    else op->scalar = is_small_pair(from) && to == PTX_TYPE_F16X2 ? cvt_unpair : NULL;
    return op->scalar != NULL;
}

static bool lower_cvt(const ptx_form *f, const ptx_instr *instr, emu_op *op) {
    int to = f->types[0], from = f->types[1];
    op->format = format_of(to);
    op->format_from = format_of(from);
    op->bits = (uint8_t)ptx_type_bits(to);
    op->is_signed = is_signed_type(to);
    op->extra = (uint32_t)ptx_type_bits(from);
    int reg_class = instr->operands[0].kind == PTX_REGISTER ? instr->operands[0].reg_class : PTX_CLASS_B64;
    op->count = reg_class == PTX_CLASS_B16 ? 16 : reg_class == PTX_CLASS_B32 ? 32 : 64;
    op->unordered = is_signed_type(from);
    bool fp_to = op->format != EMU_FORMATS, fp_from = op->format_from != EMU_FORMATS;
    if (f->rounding == PTX_RS) return false; /* stochastic rounding */
    bool pair = is_packed(to) || is_packed(from) || is_small_pair(to) || is_small_pair(from) || to == PTX_TYPE_UE8M0X2 || from == PTX_TYPE_UE8M0X2;
    if (pair || instr->operand_count == 3) return lower_cvt_pair(to, from, instr->operand_count, op);
    if (fp_to && fp_from && to == from) op->scalar = f->rounding >= PTX_RNI ? cvt_integral : cvt_fp_fp;
    else if (fp_to && fp_from) op->scalar = cvt_fp_fp;
    else if (fp_to) op->scalar = cvt_int_fp;
    else if (fp_from) op->scalar = cvt_fp_int;
    else op->scalar = cvt_int_int;
    return true;
}

static bool lower_set(const ptx_form *f, emu_op *op) {
    op->format_from = format_of(f->types[1]);
    op->extra = is_packed(f->types[1]);
    op->bits = (uint8_t)(ptx_type_bits(f->types[1]) >> op->extra);
    op->is_signed = is_signed_type(f->types[1]);
    op->run = run_set;
    switch (format_of(f->types[0])) {
    case EMU_F32: op->value = 0x3f800000; break;
    case EMU_F16: op->value = 0x3c00; break;
    case EMU_BF16: op->value = 0x3f80; break;
    default: op->value = op->extra || ptx_type_bits(f->types[0]) == 16 ? 0xffff : 0xffffffff; break;
    }
    return set_compare(f->compare, op);
}

static void fill_types(const ptx_form *f, emu_op *op) {
    int type = f->type_count > 0 ? f->types[0] : PTX_TYPE_NONE;
    op->format = format_of(type);
    op->format_from = EMU_FORMATS;
    op->bits = (uint8_t)(ptx_type_bits(type) >> (is_packed(type) ? 1 : 0));
    op->is_signed = is_signed_type(type);
    op->mode = (emu_mode){.round = round_of(f->rounding), .ftz = f->ftz, .sat = f->sat, .nan = f->nan, .abs = f->abs,
                          .xorsign = f->xorsign_abs, .relu = f->relu, .satfinite = f->satfinite};
    /* .xorsign.abs is one modifier of two words; xorsign_abs and abs are set by it. */
}

bool emu_lower_alu(const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    fill_types(f, op);
    op->run = emu_run_scalar;
    switch (f->opcode) {
    case PTX_OP_SETP:
        op->run = emu_run_setp;
        op->extra = is_packed(f->types[0]);
        return set_compare(f->compare, op);
    case PTX_OP_CVT_PACK:
        op->extra = 0;
        op->scalar = cvt_pack;
        return op->bits == 8 || op->bits == 16;
    case PTX_OP_CVT: return lower_cvt(f, instr, op);
    case PTX_OP_SET: return lower_set(f, op);
    case PTX_OP_SLCT:
        op->format = format_of(f->types[1]);
        op->scalar = slct;
        return true;
    default: break;
    }
    if (!lower_arithmetic(f, instr, op) && !lower_special(f, op) && !lower_bits(f, instr, op)) return false;
    if (f->type_count > 0 && is_packed(f->types[0])) {
        op->inner = op->scalar;
        op->scalar = packed;
    }
    return true;
}

/* ---- the two portable handlers ---- */

emu_step emu_run_scalar(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) {
        int l = (int)lane;
        uint64_t a = emu_get(w, op->a, op->wide & 2, l);
        uint64_t b = op->b == EMU_NO_SLOT ? 0 : emu_get(w, op->b, op->wide & 4, l);
        uint64_t c = op->c == EMU_NO_SLOT ? 0 : emu_get(w, op->c, op->wide & 8, l);
        emu_put(w, op->d, op->wide & 1, l, op->scalar(op, a, b, c));
    }
    return EMU_NEXT;
}

emu_step emu_run_setp(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t result = 0, high = 0, other = emu_pred(w, op->s);
    bool floating = op->format != EMU_FORMATS;
    EMU_EACH_LANE(lane, mask) {
        uint64_t a = emu_get(w, op->a, op->wide & 2, (int)lane), b = emu_get(w, op->b, op->wide & 4, (int)lane);
        if (op->extra) { /* two halves: p|q is low|high */
            high |= (uint32_t)emu_fp_compare(a >> 16 & 0xffff, b >> 16 & 0xffff, op->compare, op->unordered, op->format, op->mode.ftz) << lane;
            a &= 0xffff, b &= 0xffff;
        }
        bool holds = floating ? emu_fp_compare(a, b, op->compare, op->unordered, op->format, op->mode.ftz)
                              : emu_int_compare(a, b, op->compare, op->is_signed, op->bits);
        result |= (uint32_t)holds << lane;
    }
    uint32_t inverse = op->extra ? high : ~result;
    switch (op->source->form->operation) {
    case PTX_AND: result &= other, inverse &= other; break;
    case PTX_OR: result |= other, inverse |= other; break;
    case PTX_XOR: result ^= other, inverse ^= other; break;
    default: break;
    }
    emu_set_pred(w, op->p, result, mask);
    emu_set_pred(w, op->q, inverse, mask);
    return EMU_NEXT;
}
