/*
 * Arithmetic as the emulator executes it, instruction by instruction: each form runs as a small PTX kernel over edge values and random
 * ones, with every instruction set that this CPU has, and is compared bit by bit with an independent computation on the host. Directed
 * rounding is checked by setting the host's rounding mode, which the emulator itself does not do below f64.
 */
#include "check.h"
#include "core/half.h"
#include "emu/emu.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4096, MODES = 4 };

typedef uint64_t (*host)(uint64_t a, uint64_t b, uint64_t c);

/* Operand letters: p predicate (result), h 16, w 32, d 64 bits; the first is the result. */
typedef struct form {
    const char *text, *operands, *tail; /* tail: further operands, as text */
    host want;
    int rounding; /* fenv mode for want, -1: as it is */
} form;

static uint64_t inputs[3][N];
static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static const uint32_t EDGES[] = {0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x00800001, 0x3f800000, 0xbf800000, 0x3f800001, 0x3f7fffff,
                                 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x4b000000, 0x4b800001, 0x3effffff,
                                 0x3f000000, 0xbf000000, 0x4f000000, 0xcf000000, 0x4f800000, 0x42fc0000, 0xc2fc0000, 0x43000000, 0xc3160000, 31, 32, 33, 63,
                                 64, 255, 0x7fffffff, 0xffffffff, 0x00010000, 0x12345678, 0x7bff7c00, 0x3c00bc00, 0x04000001, 0x80017fff};
enum { EDGE_COUNT = sizeof EDGES / sizeof *EDGES };

static void make_inputs(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < 3; j++) {
            uint64_t r = next_random();
            inputs[j][i] = r;
            if (i < EDGE_COUNT * EDGE_COUNT) inputs[j][i] = (uint64_t)EDGES[(i / (j == 0 ? EDGE_COUNT : 1) * (j == 2 ? 7 : 1)) % EDGE_COUNT] | (r & 0xffffffff00000000ull);
            else if (i % 3 == 0) inputs[j][i] = (r & 0xffffffff00000000ull) | half_bits_of_float(ldexpf((float)(int32_t)r / 2147483648.0f, (int)(r >> 58) - 32));
        }
}

/* ---- one form on the emulator ---- */

static const char *type_of(char letter) {
    return letter == 'h' ? "b16" : letter == 'd' ? "b64" : "b32";
}

static void write_kernel(char *text, size_t bytes, const form *f, const char *target) {
    size_t n = (size_t)snprintf(text, bytes, ".version 8.6\n.target %s\n.address_size 64\n.visible .entry k(.param .u64 pa, .param .u64 pb, "
                                             ".param .u64 pc, .param .u64 pd)\n{\n.reg .pred p0;\n.reg .b64 at, ad, qa, qb, qc, qd;\n.reg .b32 i, j, s;\n"
                                             "mov.u32 i, %%tid.x;\nmov.u32 j, %%ctaid.x;\nmad.lo.s32 i, j, 256, i;\nmul.wide.u32 at, i, 8;\n", target);
    int sources = (int)strlen(f->operands) - 1;
    if (f->operands[0] != 'p') n += (size_t)snprintf(text + n, bytes - n, ".reg .%s rd;\n", type_of(f->operands[0]));
    for (int s = 0; s < sources; s++)
        n += (size_t)snprintf(text + n, bytes - n, ".reg .%s r%c;\nld.param.u64 ad, [p%c];\nadd.s64 q%c, ad, at;\nld.global.%s r%c, [q%c];\n",
                              type_of(f->operands[s + 1]), 'a' + s, 'a' + s, 'a' + s, type_of(f->operands[s + 1]), 'a' + s, 'a' + s);
    n += (size_t)snprintf(text + n, bytes - n, "%s %s", f->text, f->operands[0] == 'p' ? "p0" : "rd");
    for (int s = 0; s < sources; s++) n += (size_t)snprintf(text + n, bytes - n, ", r%c", 'a' + s);
    n += (size_t)snprintf(text + n, bytes - n, "%s;\nld.param.u64 ad, [pd];\nadd.s64 qd, ad, at;\n", f->tail ? f->tail : "");
    if (f->operands[0] == 'p') n += (size_t)snprintf(text + n, bytes - n, "selp.b32 s, 1, 0, p0;\nst.global.b32 [qd], s;\nret;\n}\n");
    else n += (size_t)snprintf(text + n, bytes - n, "st.global.%s [qd], rd;\nret;\n}\n", type_of(f->operands[0]));
}

static bool execute(const form *f, const char *cpu, uint64_t *out) {
    static char text[4096];
    static emu_report report;
    emu_module *m;
    fa4_error err = {0};
    write_kernel(text, sizeof text, f, "sm_100a");
    if (emu_module_load(text, strlen(text), cpu, &m, &err) != FA4_OK) {
        CHECK(false, "%s: %s", f->text, err.text);
        return false;
    }
    memset(out, 0, N * 8);
    uint64_t params[4] = {(uint64_t)(uintptr_t)inputs[0], (uint64_t)(uintptr_t)inputs[1], (uint64_t)(uintptr_t)inputs[2], (uint64_t)(uintptr_t)out};
    emu_region regions[] = {{inputs, sizeof inputs, "inputs", 1}, {out, N * 8, "out", 0}};
    emu_launch launch = {.grid = {N / 256, 1, 1}, .block = {256, 1, 1}, .params = params, .param_bytes = 32, .regions = regions, .region_count = 2};
    bool good = emu_run(m, &launch, &report, &err) == FA4_OK;
    CHECK(good, "%s: %s", f->text, err.text);
    emu_module_destroy(m);
    return good;
}

static uint64_t cut(uint64_t v, char letter) {
    return letter == 'h' ? v & 0xffff : letter == 'd' ? v : v & 0xffffffff;
}

static void check_form(const form *f) {
    static const char *const cpus[] = {"scalar", "avx2", NULL};
    static uint64_t out[N];
    for (int c = 0; c < 3; c++) {
        int wrong = 0, first = -1;
        uint64_t want_first = 0;
        if (!execute(f, cpus[c], out)) return;
        for (int i = 0; i < N; i++) {
            uint64_t v[3];
            for (int s = 0; s < 3; s++) v[s] = cut(inputs[s][i], (size_t)s + 1 < strlen(f->operands) ? f->operands[s + 1] : 'd');
            if (f->rounding >= 0) fesetround(f->rounding);
            uint64_t want = cut(f->want(v[0], v[1], v[2]), f->operands[0]);
            if (f->rounding >= 0) fesetround(FE_TONEAREST);
            if (want == out[i]) continue;
            if (wrong++ == 0) first = i, want_first = want;
        }
        CHECK(wrong == 0, "%s on %s: %d of %d; first: a %llx b %llx c %llx gives %llx, expected %llx", f->text, cpus[c] ? cpus[c] : "the best", wrong, N,
              (unsigned long long)inputs[0][first < 0 ? 0 : first], (unsigned long long)inputs[1][first < 0 ? 0 : first],
              (unsigned long long)inputs[2][first < 0 ? 0 : first], (unsigned long long)out[first < 0 ? 0 : first], (unsigned long long)want_first);
    }
}

/* ---- the host's own arithmetic ---- */

#define HOST(name, ...) static uint64_t name(uint64_t a, uint64_t b, uint64_t c) { (void)a, (void)b, (void)c; __VA_ARGS__ }
static float f(uint64_t u) { return half_float_of_bits((uint32_t)u); }
static uint64_t fb(float x) { return x != x ? 0x7fffffffu : half_bits_of_float(x); }
static uint64_t z(uint64_t u) { return (u & 0x7f800000) == 0 ? u & 0x80000000 : u & 0xffffffff; }
/* .ftz flushes what is below 2^-126 before denormal rounding lifts it there. */
static uint64_t zt(float r, double exact) { return fabsf(r) == 0x1p-126f && fabs(exact) < 0x1p-126 * (1 - 0x1p-25) ? half_bits_of_float(r) & 0x80000000 : z(fb(r)); }
static double d(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }
static uint64_t db(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
static uint64_t nan64(uint64_t a) { return d(a) != d(a) ? a | 1ull << 51 : 0; }
#define FIRST_NAN(x, y, w) if (nan64(x)) return nan64(x); if (nan64(y)) return nan64(y); if (nan64(w)) return nan64(w);
#define DEFAULT_NAN(r) return r != r ? 0xfff8000000000000ull : db(r);

HOST(add_f32, volatile float x = f(a), y = f(b); volatile float r = x + y; return fb(r);)
HOST(add_ftz, volatile float x = f(z(a)), y = f(z(b)); volatile float r = x + y; return z(fb(r));)
HOST(sub_f32, volatile float x = f(a), y = f(b); volatile float r = x - y; return fb(r);)
HOST(mul_f32, volatile float x = f(a), y = f(b); volatile float r = x * y; return fb(r);)
HOST(mul_ftz, volatile float x = f(z(a)), y = f(z(b)); volatile float r = x * y; return zt(r, (double)x * y);)
HOST(fma_f32, volatile float x = f(a), y = f(b), w = f(c); volatile float r = fmaf(x, y, w); return fb(r);)
HOST(fma_ftz, volatile float x = f(z(a)), y = f(z(b)), w = f(z(c)); volatile float r = fmaf(x, y, w); return zt(r, (double)x * y + w);)
HOST(div_f32, volatile float x = f(a), y = f(b); volatile float r = x / y; return fb(r);)
HOST(rcp_f32, volatile float x = f(a); volatile float r = 1.0f / x; return fb(r);)
HOST(sqrt_f32, volatile float x = f(a); volatile float r = sqrtf(x); return fb(r);)
HOST(fma_sat, float r = fmaf(f(a), f(b), f(c)); return fb(r > 0 ? (r < 1 ? r : 1) : 0);)
HOST(mul_sat_ftz, volatile float x = f(z(a)), y = f(z(b)); volatile float r = x * y; return !(r > 0) ? 0 : r > 1 ? 0x3f800000 : zt(r, (double)x * y);)
HOST(sub_sat, float r = f(a) - f(b); return fb(r > 0 ? (r < 1 ? r : 1) : 0);)
HOST(add_sat, float r = f(a) + f(b); return fb(r > 0 ? (r < 1 ? r : 1) : 0);)
HOST(add_f64, FIRST_NAN(a, b, 0) volatile double x = d(a), y = d(b); volatile double r = x + y; DEFAULT_NAN(r))
HOST(mul_f64, FIRST_NAN(a, b, 0) volatile double x = d(a), y = d(b); volatile double r = x * y; DEFAULT_NAN(r))
HOST(fma_f64, FIRST_NAN(a, b, c) volatile double x = d(a), y = d(b), w = d(c); volatile double r = fma(x, y, w); DEFAULT_NAN(r))
HOST(div_f64, FIRST_NAN(a, b, 0) volatile double x = d(a), y = d(b); volatile double r = x / y; DEFAULT_NAN(r))
#define PAIR_OF(one) return (one(a & 0xffffffff, b & 0xffffffff, c & 0xffffffff)) | (one(a >> 32, b >> 32, c >> 32)) << 32;
HOST(add_x2, PAIR_OF(add_f32)) HOST(mul_x2, PAIR_OF(mul_f32)) HOST(fma_x2, PAIR_OF(fma_f32))
HOST(add_ftz_x2, PAIR_OF(add_ftz)) HOST(mul_ftz_x2, PAIR_OF(mul_ftz)) HOST(fma_ftz_x2, PAIR_OF(fma_ftz))

/* minNum and maxNum with -0 < +0. */
static float larger(float x, float y) {
    if (x != x) return y;
    if (y != y) return x;
    return x > y || (x == y && signbit(y)) ? x : y;
}
static float smaller(float x, float y) { return -larger(-x, -y); }
HOST(max_f32, return fb(larger(f(a), f(b)));) HOST(min_f32, return fb(smaller(f(a), f(b)));)
HOST(max_ftz, return fb(larger(f(z(a)), f(z(b))));)
HOST(max3_f32, return fb(larger(larger(f(a), f(b)), f(c)));) HOST(min3_f32, return fb(smaller(smaller(f(a), f(b)), f(c)));)
HOST(max_nan, return f(a) != f(a) || f(b) != f(b) ? 0x7fffffff : fb(larger(f(a), f(b)));)
HOST(max3_nan, return f(a) != f(a) || f(b) != f(b) || f(c) != f(c) ? 0x7fffffff : fb(larger(larger(f(a), f(b)), f(c)));)
HOST(max_xorsign, uint64_t r = fb(larger(fabsf(f(a)), fabsf(f(b)))); return r == 0x7fffffff ? r : (r & 0x7fffffff) | ((a ^ b) & 0x80000000);)
HOST(neg_f32, return f(a) != f(a) ? 0x7fffffff : a ^ 0x80000000;) HOST(abs_f32, return f(a) != f(a) ? 0x7fffffff : a & 0x7fffffff;)
HOST(neg_ftz, return f(a) != f(a) ? 0x7fffffff : z(a) ^ 0x80000000;) HOST(abs_ftz, return f(a) != f(a) ? 0x7fffffff : z(a) & 0x7fffffff;)

/* 16-bit formats through 113 bits. */
static _Float16 g(uint64_t u) { uint16_t h = (uint16_t)u; _Float16 x; memcpy(&x, &h, 2); return x; }
static uint64_t gb(_Float16 x) { uint16_t h; memcpy(&h, &x, 2); return x != x ? 0x7fff : h; }
static uint64_t bb(double x) {
    if (x != x) return 0x7fff;
    return half_bf16_from_float(half_float_to_odd(x));
}
/* x + y for bf16, where |x + y| may lose y altogether: what is lost makes the last bit odd. */
static double sum_odd(__float128 x, __float128 y) {
    __float128 r = x + y, v = r - x, lost = (x - (r - v)) + (y - v);
    double h = (double)r;
    if (isinf(h) || h != h || ((__float128)h == r && lost == 0)) return h;
    uint64_t u;
    memcpy(&u, &h, 8);
    __float128 rest = (r - (__float128)h) + lost;
    if (!(u & 1)) u = ((rest > 0) == (h > 0)) ? u + 1 : u - 1;
    memcpy(&h, &u, 8);
    return h;
}
static double bf(uint64_t u) { return (double)half_bf16_to_float((uint16_t)u); }
HOST(add_f16, return gb((_Float16)((__float128)g(a) + g(b)));) HOST(mul_f16, return gb((_Float16)((__float128)g(a) * g(b)));)
HOST(fma_f16, return gb((_Float16)((__float128)g(a) * g(b) + g(c)));)
HOST(fma_bf16, return bb(sum_odd((__float128)bf(a) * bf(b), bf(c)));) HOST(mul_bf16, return bb(bf(a) * bf(b));)
#define HALVES_OF(one) return (one(a & 0xffff, b & 0xffff, c & 0xffff)) | (one(a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff)) << 16;
HOST(fma_f16x2, HALVES_OF(fma_f16)) HOST(add_f16x2, HALVES_OF(add_f16)) HOST(fma_bf16x2, HALVES_OF(fma_bf16))

/* Integers. */
typedef __int128 wide;
static int32_t s(uint64_t u) { return (int32_t)u; }
HOST(add_i, return a + b;) HOST(sub_i, return a - b;) HOST(mul_lo, return a * b;) HOST(mad_lo, return a * b + c;)
HOST(mul_hi_u, return (a * b) >> 32;) HOST(mul_hi_s, return (uint64_t)((int64_t)s(a) * s(b)) >> 32;)
HOST(mul_hi_u64, return (uint64_t)(((unsigned __int128)a * b) >> 64);) HOST(mul_hi_s64, return (uint64_t)(((wide)(int64_t)a * (int64_t)b) >> 64);)
HOST(mul_wide_u, return a * b;) HOST(mul_wide_s, return (uint64_t)((int64_t)s(a) * s(b));) HOST(mad_wide_u, return a * b + c;)
HOST(mul_wide_u16, return a * b;)
HOST(add_sat_s, int64_t r = (int64_t)s(a) + s(b); return (uint64_t)(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);)
HOST(div_u, return b ? a / b : ~0u;) HOST(rem_u, return b ? a % b : ~0u;)
HOST(div_s, return b == 0 ? ~0u : (uint64_t)((int64_t)s(a) / s(b));) HOST(rem_s, return b == 0 ? ~0u : (uint64_t)((int64_t)s(a) % s(b));)
HOST(min_u, return a < b ? a : b;) HOST(max_u, return a > b ? a : b;) HOST(min_s, return s(a) < s(b) ? a : b;) HOST(max_s, return s(a) > s(b) ? a : b;)
HOST(abs_s, return s(a) < 0 ? 0 - a : a;) HOST(neg_s, return 0 - a;)
HOST(sad_u, return (a > b ? a - b : b - a) + c;) HOST(sad_s, int64_t r = (int64_t)s(a) - s(b); return (uint64_t)(r < 0 ? -r : r) + c;)
HOST(and_b, return a & b;) HOST(or_b, return a | b;) HOST(xor_b, return a ^ b;) HOST(not_b, return ~a;) HOST(cnot_b, return a == 0;)
HOST(lop3_96, return a ^ b ^ c;) HOST(lop3_e8, return (a & b) | (a & c) | (b & c);)
HOST(shl_b, return b > 31 ? 0 : a << b;) HOST(shr_u, return b > 31 ? 0 : a >> b;) HOST(shr_s, return (uint64_t)(int64_t)(s(a) >> (b > 31 ? 31 : b));)
HOST(shl_64, uint32_t n = (uint32_t)b; return n > 63 ? 0 : a << n;) HOST(shr_u64, uint32_t n = (uint32_t)b; return n > 63 ? 0 : a >> n;)
HOST(shr_s64, uint32_t n = (uint32_t)b; return (uint64_t)((int64_t)a >> (n > 63 ? 63 : n));)
HOST(shf_l_wrap, return ((b << 32 | a) << (c & 31)) >> 32;) HOST(shf_r_clamp, return c >= 32 ? b : (b << 32 | a) >> c;)
HOST(popc_b, return (uint64_t)__builtin_popcount((uint32_t)a);) HOST(popc_64, return (uint64_t)__builtin_popcountll(a);)
HOST(clz_b, uint64_t n = 32; while (a) { a >>= 1; n--; } return n;) HOST(clz_64, uint64_t n = 64; while (a) { a >>= 1; n--; } return n;)
HOST(bfind_u, if (a == 0) return ~0u; uint64_t n = 0; while (a >>= 1) n++; return n;)
HOST(bfind_s, if (s(a) < 0) a = ~a & 0xffffffff; if (a == 0) return ~0u; uint64_t n = 0; while (a >>= 1) n++; return n;)
HOST(brev_b, uint64_t r = 0; for (int i = 0; i < 32; i++) r = r << 1 | (a >> i & 1); return r;)
HOST(bfe_u, uint32_t p = b & 255; uint32_t l = c & 255; if (l == 0 || p > 31) return 0; a >>= p; return l > 31 ? a : a & ((1ull << l) - 1);)
HOST(bfe_s, uint32_t p = b & 255; uint32_t l = c & 255; if (l == 0) return 0; int64_t v = s(a); if (p > 31) return (uint64_t)(v < 0 ? -1 : 0);
     v >>= p; if (p + l > 31) return (uint64_t)v; return (uint64_t)((int64_t)((uint64_t)v << (64 - l)) >> (64 - l));)
static uint32_t prmt_byte(uint64_t bytes, uint32_t n) { uint32_t x = (uint32_t)(bytes >> (8 * (n & 7))) & 255; return n & 8 ? (x >> 7) * 255 : x; }
HOST(prmt_b, uint64_t r = 0; for (int i = 0; i < 4; i++) r |= (uint64_t)prmt_byte(b << 32 | a, (uint32_t)(c >> (4 * i)) & 15) << (8 * i); return r;)
HOST(dp4a_u, uint64_t r = c; for (int i = 0; i < 4; i++) r += (a >> (8 * i) & 255) * (b >> (8 * i) & 255); return r;)
HOST(dp4a_s, int64_t r = s(c); for (int i = 0; i < 4; i++) r += (int64_t)(int8_t)(a >> (8 * i)) * (int8_t)(b >> (8 * i)); return (uint64_t)r;)

/* Comparisons. */
HOST(lt_s, return s(a) < s(b);) HOST(ge_u, return a >= b;) HOST(eq_b, return a == b;) HOST(ne_b, return a != b;) HOST(hi_u, return a > b;)
HOST(lt_f, return f(a) < f(b);) HOST(ge_f, return f(a) >= f(b);) HOST(neu_f, return !(f(a) == f(b));) HOST(ne_f, return f(a) < f(b) || f(a) > f(b);)
HOST(ltu_f, return !(f(a) >= f(b));) HOST(nan_f, return f(a) != f(a) || f(b) != f(b);) HOST(num_f, return f(a) == f(a) && f(b) == f(b);)
HOST(gt_ftz, return f(z(a)) > f(z(b));) HOST(lt_s64, return (int64_t)a < (int64_t)b;) HOST(le_f64, return d(a) <= d(b);)

/* Conversions. */
static uint64_t to_int(double x, double least, double most, int64_t lo, uint64_t hi) { return x != x ? 0 : x <= least ? (uint64_t)lo : x >= most ? hi : x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x; }
HOST(f16x2_f32, return (uint64_t)gb((_Float16)f(a)) << 16 | gb((_Float16)f(b));)
HOST(bf16x2_f32, return bb(f(a)) << 16 | bb(f(b));)
static uint64_t not_infinite(uint64_t u, uint64_t infinity) { return (u & 0x7fff) == infinity ? u - 1 : u; }
HOST(f16x2_finite, return not_infinite(gb((_Float16)f(a)), 0x7c00) << 16 | not_infinite(gb((_Float16)f(b)), 0x7c00);)
HOST(bf16x2_finite, return not_infinite(bb(f(a)), 0x7f80) << 16 | not_infinite(bb(f(b)), 0x7f80);)
HOST(f32_f16, return fb((float)g(a));) HOST(f32_bf16, return a << 16;) HOST(f16_f32, return gb((_Float16)f(a));)
HOST(f16_f64, if (nan64(a)) return a >> 63 << 15 | 0x7c00 | (nan64(a) & 0xfffffffffffff) >> 42; return gb((_Float16)d(a));) HOST(f32_f64, if (nan64(a)) return a >> 63 << 31 | 0x7f800000 | (nan64(a) & 0xfffffffffffff) >> 29; volatile double x = d(a); volatile float r = (float)x; return fb(r);) HOST(f64_f32, if (f(a) != f(a)) return (a >> 31 & 1) << 63 | 0x7ff0000000000000ull | ((a | 0x400000) & 0x7fffff) << 29; return db((double)f(a));)
HOST(s32_rzi, return to_int(trunc(f(a)), -2147483648.0, 2147483647.0, INT32_MIN, INT32_MAX);)
HOST(s32_rni, return to_int(nearbyint(f(a)), -2147483648.0, 2147483647.0, INT32_MIN, INT32_MAX);)
HOST(u32_rmi, return to_int(floor(f(a)), 0, 4294967295.0, 0, UINT32_MAX);)
HOST(f32_s32, volatile int32_t x = s(a); volatile float r = (float)x; return fb(r);) HOST(f32_u32, volatile uint32_t x = (uint32_t)a; volatile float r = (float)x; return fb(r);)
HOST(f32_u64, volatile uint64_t x = a; volatile float r = (float)x; return fb(r);) HOST(f64_s64, volatile int64_t x = (int64_t)a; volatile double r = (double)x; return db(r);)
HOST(rni_f32, return fb(nearbyintf(f(a)));) HOST(rpi_f32, return fb(ceilf(f(a)));) HOST(sat_f32, float x = f(a); return fb(x > 0 ? (x < 1 ? x : 1) : 0);)
HOST(u64_u32, return a & 0xffffffff;) HOST(s64_s32, return (uint64_t)(int64_t)s(a);) HOST(u32_u64, return a & 0xffffffff;)
HOST(s16_sat, int32_t x = s(a); return (uint64_t)(x > 32767 ? 32767 : x < -32768 ? -32768 : x);) HOST(s32_s8, return (uint64_t)(int64_t)(int8_t)a;)
HOST(u8_sat, int32_t x = s(a); return (uint64_t)(x > 255 ? 255 : x < 0 ? 0 : x);)
HOST(f16_relu, _Float16 x = (_Float16)f(a); return x != x ? 0x7fff : signbit((float)x) ? 0 : gb(x);)
HOST(mov_a, return a;)

static const form FORMS[] = {
    {"add.f32", "www", 0, add_f32, -1}, {"add.rz.f32", "www", 0, add_f32, FE_TOWARDZERO}, {"add.rm.f32", "www", 0, add_f32, FE_DOWNWARD},
    {"add.rp.ftz.f32", "www", 0, add_ftz, FE_UPWARD}, {"add.ftz.f32", "www", 0, add_ftz, -1}, {"sub.rz.f32", "www", 0, sub_f32, FE_TOWARDZERO},
    {"sub.f32", "www", 0, sub_f32, -1}, {"mul.f32", "www", 0, mul_f32, -1}, {"mul.rz.ftz.f32", "www", 0, mul_ftz, FE_TOWARDZERO},
    {"mul.rm.f32", "www", 0, mul_f32, FE_DOWNWARD}, {"mul.rp.f32", "www", 0, mul_f32, FE_UPWARD}, {"fma.rn.f32", "wwww", 0, fma_f32, -1},
    {"fma.rz.f32", "wwww", 0, fma_f32, FE_TOWARDZERO}, {"fma.rm.ftz.f32", "wwww", 0, fma_ftz, FE_DOWNWARD}, {"fma.rp.f32", "wwww", 0, fma_f32, FE_UPWARD},
    {"fma.rn.ftz.f32", "wwww", 0, fma_ftz, -1}, {"mad.rn.f32", "wwww", 0, fma_f32, -1}, {"div.rn.f32", "www", 0, div_f32, -1},
    {"div.rz.f32", "www", 0, div_f32, FE_TOWARDZERO}, {"rcp.rn.f32", "ww", 0, rcp_f32, -1}, {"rcp.rp.f32", "ww", 0, rcp_f32, FE_UPWARD},
    {"sqrt.rn.f32", "ww", 0, sqrt_f32, -1}, {"sqrt.rm.f32", "ww", 0, sqrt_f32, FE_DOWNWARD}, {"add.sat.f32", "www", 0, add_sat, -1},
    {"add.f64", "ddd", 0, add_f64, -1}, {"add.rm.f64", "ddd", 0, add_f64, FE_DOWNWARD}, {"mul.rz.f64", "ddd", 0, mul_f64, FE_TOWARDZERO},
    {"fma.rp.f64", "dddd", 0, fma_f64, FE_UPWARD}, {"fma.rn.f64", "dddd", 0, fma_f64, -1}, {"div.rn.f64", "ddd", 0, div_f64, -1},
    {"add.rn.f32x2", "ddd", 0, add_x2, -1}, {"add.rm.ftz.f32x2", "ddd", 0, add_ftz_x2, FE_DOWNWARD}, {"mul.rn.f32x2", "ddd", 0, mul_x2, -1},
    {"mul.rz.ftz.f32x2", "ddd", 0, mul_ftz_x2, FE_TOWARDZERO}, {"fma.rn.ftz.f32x2", "dddd", 0, fma_ftz_x2, -1}, {"fma.rz.f32x2", "dddd", 0, fma_x2, FE_TOWARDZERO},
    {"max.f32", "www", 0, max_f32, -1}, {"min.f32", "www", 0, min_f32, -1}, {"max.ftz.f32", "www", 0, max_ftz, -1}, {"max.f32", "wwww", 0, max3_f32, -1},
    {"min.f32", "wwww", 0, min3_f32, -1}, {"max.NaN.f32", "www", 0, max_nan, -1}, {"max.NaN.f32", "wwww", 0, max3_nan, -1},
    {"max.xorsign.abs.f32", "www", 0, max_xorsign, -1}, {"neg.f32", "ww", 0, neg_f32, -1}, {"abs.f32", "ww", 0, abs_f32, -1},
    {"neg.ftz.f32", "ww", 0, neg_ftz, -1}, {"abs.ftz.f32", "ww", 0, abs_ftz, -1}, {"fma.rn.sat.f32", "wwww", 0, fma_sat, -1},
    {"mul.rn.ftz.sat.f32", "www", 0, mul_sat_ftz, -1}, {"sub.sat.f32", "www", 0, sub_sat, -1},
    {"cvt.rn.satfinite.f16x2.f32", "www", 0, f16x2_finite, -1}, {"cvt.rn.satfinite.bf16x2.f32", "www", 0, bf16x2_finite, -1},
    {"add.f16", "hhh", 0, add_f16, -1}, {"mul.f16", "hhh", 0, mul_f16, -1}, {"fma.rn.f16", "hhhh", 0, fma_f16, -1}, {"fma.rn.bf16", "hhhh", 0, fma_bf16, -1},
    {"mul.bf16", "hhh", 0, mul_bf16, -1}, {"fma.rn.f16x2", "wwww", 0, fma_f16x2, -1}, {"add.f16x2", "www", 0, add_f16x2, -1}, {"fma.rn.bf16x2", "wwww", 0, fma_bf16x2, -1},
    {"add.s32", "www", 0, add_i, -1}, {"add.u32", "www", 0, add_i, -1}, {"add.s64", "ddd", 0, add_i, -1}, {"add.s16", "hhh", 0, add_i, -1},
    {"sub.s32", "www", 0, sub_i, -1}, {"sub.s64", "ddd", 0, sub_i, -1}, {"mul.lo.s32", "www", 0, mul_lo, -1}, {"mul.lo.u64", "ddd", 0, mul_lo, -1},
    {"mul.lo.s16", "hhh", 0, mul_lo, -1}, {"mul.hi.u32", "www", 0, mul_hi_u, -1}, {"mul.hi.s32", "www", 0, mul_hi_s, -1}, {"mul.hi.u64", "ddd", 0, mul_hi_u64, -1},
    {"mul.hi.s64", "ddd", 0, mul_hi_s64, -1}, {"mul.wide.u32", "dww", 0, mul_wide_u, -1}, {"mul.wide.s32", "dww", 0, mul_wide_s, -1},
    {"mul.wide.u16", "whh", 0, mul_wide_u16, -1}, {"mad.lo.s32", "wwww", 0, mad_lo, -1}, {"mad.wide.u32", "dwwd", 0, mad_wide_u, -1},
    {"add.sat.s32", "www", 0, add_sat_s, -1}, {"div.u32", "www", 0, div_u, -1}, {"rem.u32", "www", 0, rem_u, -1}, {"div.s32", "www", 0, div_s, -1},
    {"rem.s32", "www", 0, rem_s, -1}, {"min.u32", "www", 0, min_u, -1}, {"max.u32", "www", 0, max_u, -1}, {"min.s32", "www", 0, min_s, -1},
    {"max.s32", "www", 0, max_s, -1}, {"min.u64", "ddd", 0, min_u, -1}, {"abs.s32", "ww", 0, abs_s, -1}, {"neg.s32", "ww", 0, neg_s, -1},
    {"sad.u32", "wwww", 0, sad_u, -1}, {"sad.s32", "wwww", 0, sad_s, -1}, {"and.b32", "www", 0, and_b, -1}, {"or.b32", "www", 0, or_b, -1},
    {"xor.b64", "ddd", 0, xor_b, -1}, {"and.b64", "ddd", 0, and_b, -1}, {"or.b64", "ddd", 0, or_b, -1}, {"xor.b16", "hhh", 0, xor_b, -1},
    {"not.b32", "ww", 0, not_b, -1}, {"not.b64", "dd", 0, not_b, -1}, {"cnot.b32", "ww", 0, cnot_b, -1}, {"lop3.b32", "wwww", ", 0x96", lop3_96, -1},
    {"lop3.b32", "wwww", ", 0xe8", lop3_e8, -1}, {"shl.b32", "www", 0, shl_b, -1}, {"shr.u32", "www", 0, shr_u, -1}, {"shr.s32", "www", 0, shr_s, -1},
    {"shl.b64", "ddw", 0, shl_64, -1}, {"shr.u64", "ddw", 0, shr_u64, -1}, {"shr.s64", "ddw", 0, shr_s64, -1}, {"shf.l.wrap.b32", "wwww", 0, shf_l_wrap, -1},
    {"shf.r.clamp.b32", "wwww", 0, shf_r_clamp, -1}, {"popc.b32", "ww", 0, popc_b, -1}, {"popc.b64", "wd", 0, popc_64, -1}, {"clz.b32", "ww", 0, clz_b, -1},
    {"clz.b64", "wd", 0, clz_64, -1}, {"bfind.u32", "ww", 0, bfind_u, -1}, {"bfind.s32", "ww", 0, bfind_s, -1}, {"brev.b32", "ww", 0, brev_b, -1},
    {"bfe.u32", "wwww", 0, bfe_u, -1}, {"bfe.s32", "wwww", 0, bfe_s, -1}, {"prmt.b32", "wwww", 0, prmt_b, -1}, {"dp4a.u32.u32", "wwww", 0, dp4a_u, -1},
    {"dp4a.s32.s32", "wwww", 0, dp4a_s, -1}, {"setp.lt.s32", "pww", 0, lt_s, -1}, {"setp.ge.u32", "pww", 0, ge_u, -1}, {"setp.eq.b32", "pww", 0, eq_b, -1},
    {"setp.ne.b16", "phh", 0, ne_b, -1}, {"setp.hi.u32", "pww", 0, hi_u, -1}, {"setp.lt.f32", "pww", 0, lt_f, -1}, {"setp.ge.f32", "pww", 0, ge_f, -1},
    {"setp.neu.f32", "pww", 0, neu_f, -1}, {"setp.ne.f32", "pww", 0, ne_f, -1}, {"setp.ltu.f32", "pww", 0, ltu_f, -1}, {"setp.nan.f32", "pww", 0, nan_f, -1},
    {"setp.num.f32", "pww", 0, num_f, -1}, {"setp.gt.ftz.f32", "pww", 0, gt_ftz, -1}, {"setp.lt.s64", "pdd", 0, lt_s64, -1}, {"setp.le.f64", "pdd", 0, le_f64, -1},
    {"cvt.rn.f16x2.f32", "www", 0, f16x2_f32, -1}, {"cvt.rn.bf16x2.f32", "www", 0, bf16x2_f32, -1}, {"cvt.f32.f16", "wh", 0, f32_f16, -1},
    {"cvt.f32.bf16", "wh", 0, f32_bf16, -1}, {"cvt.rn.f16.f32", "hw", 0, f16_f32, -1}, {"cvt.rn.f16.f64", "hd", 0, f16_f64, -1}, {"cvt.rn.f32.f64", "wd", 0, f32_f64, -1},
    {"cvt.rm.f32.f64", "wd", 0, f32_f64, FE_DOWNWARD}, {"cvt.f64.f32", "dw", 0, f64_f32, -1}, {"cvt.rzi.s32.f32", "ww", 0, s32_rzi, -1},
    {"cvt.rni.s32.f32", "ww", 0, s32_rni, -1}, {"cvt.rmi.u32.f32", "ww", 0, u32_rmi, -1}, {"cvt.rn.f32.s32", "ww", 0, f32_s32, -1},
    {"cvt.rz.f32.s32", "ww", 0, f32_s32, FE_TOWARDZERO}, {"cvt.rp.f32.u32", "ww", 0, f32_u32, FE_UPWARD}, {"cvt.rn.f32.u64", "wd", 0, f32_u64, -1},
    {"cvt.rn.f64.s64", "dd", 0, f64_s64, -1}, {"cvt.rz.f64.s64", "dd", 0, f64_s64, FE_TOWARDZERO}, {"cvt.rni.f32.f32", "ww", 0, rni_f32, -1},
    {"cvt.rpi.f32.f32", "ww", 0, rpi_f32, -1}, {"cvt.sat.f32.f32", "ww", 0, sat_f32, -1}, {"cvt.u64.u32", "dw", 0, u64_u32, -1}, {"cvt.s64.s32", "dw", 0, s64_s32, -1},
    {"cvt.u32.u64", "wd", 0, u32_u64, -1}, {"cvt.sat.s16.s32", "hw", 0, s16_sat, -1}, {"cvt.s32.s8", "wh", 0, s32_s8, -1}, {"cvt.sat.u8.s32", "hw", 0, u8_sat, -1},
    {"cvt.rn.relu.f16.f32", "hw", 0, f16_relu, -1}, {"mov.b32", "ww", 0, mov_a, -1}, {"mov.b64", "dd", 0, mov_a, -1}, {"mov.b16", "hh", 0, mov_a, -1},
};

/* ---- approximations: relative error against double ---- */

typedef struct approximation {
    const char *text;
    double (*exact)(double);
    double bound, low, high; /* relative error, on inputs in [low, high] */
} approximation;
static double reciprocal(double x) { return 1 / x; }
static double reciprocal_root(double x) { return 1 / sqrt(x); }

static void check_approximation(const approximation *a) {
    static const char *const cpus[] = {"scalar", NULL};
    static uint64_t out[2][N], kept[N];
    form x = {a->text, "ww", NULL, NULL, -1};
    memcpy(kept, inputs[0], sizeof kept);
    for (int i = 0; i < N; i++) inputs[0][i] = half_bits_of_float((float)(a->low + (a->high - a->low) * ((double)(next_random() >> 11) * 0x1p-53)));
    double worst = 0;
    for (int c = 0; c < 2; c++) {
        if (!execute(&x, cpus[c], out[c])) return;
        for (int i = 0; i < N; i++) {
            double want = a->exact((double)f(inputs[0][i])), got = (double)f(out[c][i]);
            double e = fabs(got - want) / fmax(fabs(want), 0x1p-126);
            if (!(e <= worst)) worst = e;
        }
    }
    CHECK(worst <= a->bound, "%s: relative error %g, bound %g", a->text, worst, a->bound);
    CHECK(memcmp(out[0], out[1], sizeof out[0]) == 0, "%s: instruction sets differ", a->text);
    memcpy(inputs[0], kept, sizeof kept);
}

static const approximation APPROXIMATIONS[] = {
    {"ex2.approx.ftz.f32", exp2, 0x1p-22, -126, 127}, {"ex2.approx.f32", exp2, 0x1p-22, -20, 20}, {"lg2.approx.f32", log2, 0x1p-22, 1.1, 1e30},
    {"rcp.approx.ftz.f32", reciprocal, 0x1p-23, 1e-30, 1e30}, {"rsqrt.approx.f32", reciprocal_root, 0x1p-22, 1e-30, 1e30},
    {"sqrt.approx.f32", sqrt, 0x1p-22, 0, 1e30}, {"tanh.approx.f32", tanh, 0x1p-11, -10, 10}, {"sin.approx.f32", sin, 0x1p-20, 0.1, 3}, {"cos.approx.f32", cos, 0x1p-20, 0.1, 1.5},
};

static void check_exact_powers(void) {
    static uint64_t out[N];
    form x = {"ex2.approx.ftz.f32", "ww", NULL, NULL, -1};
    for (int i = 0; i < N; i++) inputs[0][i] = half_bits_of_float((float)(i % 254 - 126));
    if (!execute(&x, NULL, out)) return;
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += f(out[i]) != ldexpf(1, i % 254 - 126);
    CHECK(wrong == 0, "2^n is exact for integers: %d are not", wrong);
}

/* ---- what an H200 computed ---- */

typedef struct recorded {
    const char *text, *operands, *tail;
    uint64_t hash; /* of the outputs for the inputs above */
} recorded;
static const recorded RECORDED[] = {
#include "emu_probes.inc"
    {NULL, NULL, NULL, 0},
};

static uint64_t hash_of(const uint64_t *words, char letter) {
    uint64_t h = 14695981039346656037ull;
    for (int i = 0; i < N; i++) h = (h ^ cut(words[i], letter)) * 1099511628211ull;
    return h;
}

/* The device's outputs are kept as hashes: the same inputs must give the same bits here. */
static void check_recorded(const form *f) {
    static uint64_t out[N];
    for (const recorded *r = RECORDED; r->text != NULL; r++) {
        if (strcmp(r->text, f->text) != 0 || strcmp(r->operands, f->operands) != 0 || strcmp(r->tail, f->tail ? f->tail : "") != 0 || !execute(f, NULL, out)) continue;
        CHECK(hash_of(out, f->operands[0]) == r->hash, "%s (%s): other bits than an H200 gives", f->text, f->operands);
    }
}

/* FA4_PROBE_WRITE=folder writes the kernels and their inputs for a device; FA4_PROBE_READ=file takes its outputs (per form a status word and
 * N words) and prints lines for emu_probes.inc, or how many differ. */
enum { FORM_COUNT = sizeof FORMS / sizeof *FORMS, APPROXIMATION_COUNT = sizeof APPROXIMATIONS / sizeof *APPROXIMATIONS };

/* Form i, the approximations behind the others. */
static form probe_at(int i) {
    return i < FORM_COUNT ? FORMS[i] : (form){APPROXIMATIONS[i - FORM_COUNT].text, "ww", NULL, NULL, -1};
}

static void write_probes(const char *folder) {
    static char text[4096], path[1024];
    for (int i = -1; i < FORM_COUNT + APPROXIMATION_COUNT; i++) {
        form x = probe_at(i < 0 ? 0 : i);
        snprintf(path, sizeof path, i < 0 ? "%s/inputs" : "%s/%03d.ptx", folder, i);
        FILE *file = fopen(path, "wb");
        if (file == NULL) return;
        if (i >= 0) write_kernel(text, sizeof text, &x, "sm_90a");
        if (i < 0) fwrite(inputs, sizeof inputs, 1, file);
        else fputs(text, file);
        fclose(file);
    }
}

static void read_probes(const char *path) {
    static uint64_t out[N], device[N + 1];
    FILE *file = fopen(path, "rb");
    for (int i = 0; file != NULL && i < FORM_COUNT + APPROXIMATION_COUNT && fread(device, sizeof device, 1, file) == 1; i++) {
        form probe = probe_at(i), *x = &probe;
        int wrong = 0, first = 0;
        double worst = 0;
        if (device[0] != 0 || !execute(x, NULL, out)) {
            printf("// not on the device: %s (%s)\n", x->text, x->operands);
            continue;
        }
        for (int k = 0; k < N; k++)
            if (cut(out[k], x->operands[0]) != cut(device[k + 1], x->operands[0]) && wrong++ == 0) first = k;
        for (int k = 0; k < N && i >= FORM_COUNT; k++) {
            double a = (double)f(out[k]), b = (double)f(device[k + 1]), e = a == b || (a != a && b != b) ? 0 : fabs(a - b) / fmax(fabs(b), 0x1p-126);
            if (!(e <= worst)) worst = e;
        }
        if (i >= FORM_COUNT) printf("// %s: %d of %d differ, largest relative difference %.3g = 2^%.1f\n", x->text, wrong, N, worst, log2(worst));
        if (wrong == 0) printf("{\"%s\", \"%s\", \"%s\", 0x%016llxull},\n", x->text, x->operands, x->tail ? x->tail : "", (unsigned long long)hash_of(device + 1, x->operands[0]));
        else printf("// %s (%s): %d differ, first a %llx b %llx c %llx: device %llx, here %llx\n", x->text, x->operands, wrong, (unsigned long long)inputs[0][first],
                    (unsigned long long)inputs[1][first], (unsigned long long)inputs[2][first], (unsigned long long)device[first + 1], (unsigned long long)out[first]);
    }
    if (file) fclose(file);
}

int main(void) {
    make_inputs();
    if (getenv("FA4_PROBE_WRITE")) write_probes(getenv("FA4_PROBE_WRITE"));
    if (getenv("FA4_PROBE_READ")) read_probes(getenv("FA4_PROBE_READ"));
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) check_recorded(&FORMS[i]);
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) check_form(&FORMS[i]);
    for (size_t i = 0; i < sizeof APPROXIMATIONS / sizeof *APPROXIMATIONS; i++) check_approximation(&APPROXIMATIONS[i]);
    check_exact_powers();
    return check_report();
}
