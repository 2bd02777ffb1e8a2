/*
 * Vector handlers of hot instructions: a register of lanes at a time in GCC's vector extension, included by one file per instruction set. Each is
 * bit-equal to the scalar function of the same instruction (lower_alu.c); where an instruction set has no good way, select() returns NULL
 * and the scalar twin runs. Lanes are independent, so a destination may share planes with a source: all planes are read before one is written.
 */
#include "emu_internal.h"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

/* As wide as the registers are: wider vectors are taken apart by the compiler, comparisons lane by lane. */
#if defined(__AVX512F__)
enum { WIDE = 16 };
#elif defined(__AVX2__)
enum { WIDE = 8 };
#else
enum { WIDE = 4 };
#endif
enum { PARTS = EMU_LANES / WIDE, FULL = (1 << WIDE) - 1 }; /* vectors of a plane, mask of a vector */

typedef uint32_t vu __attribute__((vector_size(4 * WIDE), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * WIDE), may_alias));
typedef float vf __attribute__((vector_size(4 * WIDE), may_alias));
#define INLINE static inline __attribute__((always_inline))

INLINE vu *planes(emu_warp *w, emu_slot slot) {
    return (vu *)emu_lanes(w, slot);
}

INLINE vu pick(vi mask, vu yes, vu no) {
    return ((vu)mask & yes) | (~(vu)mask & no);
}

INLINE void put(vu *d, vu r, uint32_t mask) {
    if ((mask & FULL) == FULL) {
        *d = r;
    } else {
        vu bit;
        for (int i = 0; i < WIDE; i++) bit[i] = 1u << i;
        *d = pick((bit & mask) != 0, r, *d);
    }
}

INLINE uint32_t bits_of(vi m) {
#if defined(__AVX512DQ__)
    return _mm512_movepi32_mask((__m512i)m);
#elif defined(__AVX2__)
    return (uint32_t)_mm256_movemask_ps((__m256)m);
#else
    uint32_t r = 0;
    for (int i = 0; i < WIDE; i++) r |= (uint32_t)(m[i] & 1) << i;
    return r;
#endif
}

INLINE vu flush(vu x) {
    return x & pick((x & 0x7f800000u) != 0, ~(vu){0}, (vu){0} + 0x80000000u);
}

INLINE vf multiply_add(vf x, vf y, vf z) {
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)z);
#elif defined(__FMA__)
    return (vf)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)z);
#else
    for (int i = 0; i < WIDE; i++) z[i] = __builtin_fmaf(x[i], y[i], z[i]);
    return z;
#endif
}

#if defined(__AVX512F__)
#define ROUNDED(call, ...)                                                                         \
    switch (round) {                                                                               \
    case EMU_RZ: return (vf)call##_round_ps(__VA_ARGS__, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);   \
    case EMU_RM: return (vf)call##_round_ps(__VA_ARGS__, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); \
    case EMU_RP: return (vf)call##_round_ps(__VA_ARGS__, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); \
    default: break;                                                                                \
    }
#define DIRECTED 1
#elif defined(__AVX2__) && defined(__FMA__)
/* The host's rounding mode is another for one instruction only, inside one asm that nothing can be moved into. */
#define HOST_ROUNDED(text)                                                                         \
    {                                                                                              \
        static const uint32_t bits[4] = {[EMU_RN] = 0, [EMU_RZ] = 0x6000, [EMU_RM] = 0x2000, [EMU_RP] = 0x4000}; \
        uint32_t before = _mm_getcsr(), meanwhile = before | bits[round];                          \
        __asm__ volatile("ldmxcsr %3\n\t" text "\n\tldmxcsr %4" : "+x"(z) : "x"(x), "x"(y), "m"(meanwhile), "m"(before)); \
        return z;                                                                                  \
    }
#define DIRECTED 1
#else
#define DIRECTED 0
#endif

enum { K_ADD, K_SUB, K_MUL, K_FMA };

INLINE vf compute(int kind, int round, vf x, vf y, vf z) {
    (void)round, (void)z;
#if defined(__AVX512F__)
    switch (kind) {
    case K_ADD: ROUNDED(_mm512_add, (__m512)x, (__m512)y) break;
    case K_SUB: ROUNDED(_mm512_sub, (__m512)x, (__m512)y) break;
    case K_MUL: ROUNDED(_mm512_mul, (__m512)x, (__m512)y) break;
    default: ROUNDED(_mm512_fmadd, (__m512)x, (__m512)y, (__m512)z) break;
    }
#elif DIRECTED
    if (round != EMU_RN) switch (kind) {
        case K_ADD: HOST_ROUNDED("vaddps %2, %1, %0")
        case K_SUB: HOST_ROUNDED("vsubps %2, %1, %0")
        case K_MUL: HOST_ROUNDED("vmulps %2, %1, %0")
        default: HOST_ROUNDED("vfmadd231ps %2, %1, %0")
        }
#endif
    switch (kind) {
    case K_ADD: return x + y;
    case K_SUB: return x - y;
    case K_MUL: return x * y;
    default: return multiply_add(x, y, z);
    }
}

INLINE vu canonical(vf r) {
#if defined(__AVX512F__)
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)r, (__m512)r, _CMP_UNORD_Q);
    if (__builtin_expect(nan != 0, 0)) return (vu)_mm512_mask_mov_epi32((__m512i)r, nan, _mm512_set1_epi32(0x7fffffff));
    return (vu)r;
#else
    return pick(r != r, (vu){0} + 0x7fffffffu, (vu)r);
#endif
}

/* A result of exactly 2^-126 may have been rounded up to it, which .ftz does not let pass: then the scalar twin decides. */
INLINE bool any_smallest(vu r) {
    vi hit = (r & 0x7fffffffu) == 0x00800000u;
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)hit, (__m512i)hit) != 0;
#else
    return bits_of(hit) != 0;
#endif
}

/* .sat: into [0, 1], NaN to +0. */
INLINE vu saturate(vu r) {
    vu one = (vu){0} + 0x3f800000u;
    return pick((vf)r > (vf){0}, pick((vf)r > (vf)one, one, r), (vu){0});
}

enum { PLAIN, SATURATED };

INLINE emu_step arithmetic(emu_warp *w, const emu_op *op, uint32_t mask, int kind, int round, bool ftz, int count, int end) {
    vu *d = planes(w, op->d);
    const vu *a = planes(w, op->a), *b = planes(w, op->b), *c = kind == K_FMA ? planes(w, op->c) : b;
    bool doubtful = false;
    vu r[PARTS][2];
    for (int h = 0; h < PARTS; h++) {
        for (int p = 0; p < count; p++) {
            vu x = a[h + PARTS * p], y = b[h + PARTS * p], z = c[h + PARTS * p];
            if (ftz) x = flush(x), y = flush(y), z = flush(z);
            r[h][p] = canonical(compute(kind, round, (vf)x, (vf)y, (vf)z));
            if (ftz && kind != K_ADD && kind != K_SUB) doubtful |= any_smallest(r[h][p]);
            if (end == SATURATED) r[h][p] = saturate(r[h][p]);
            if (ftz) r[h][p] = flush(r[h][p]);
        }
    }
    if (__builtin_expect(doubtful, 0)) return emu_run_scalar(w, op, mask);
    for (int h = 0; h < PARTS; h++)
        for (int p = 0; p < count; p++) put(&d[h + PARTS * p], r[h][p], mask >> (WIDE * h));
    return EMU_NEXT;
}

#define ARITHMETIC(kind, round, ftz, count)                                                                       \
    static emu_step f_##kind##_##round##_##ftz##_##count(emu_warp *w, const emu_op *op, uint32_t mask) {          \
        return arithmetic(w, op, mask, kind, round, ftz, count, PLAIN);                                           \
    }
#define SATURATING(kind, ftz)                                                                                     \
    static emu_step f_##kind##_sat_##ftz(emu_warp *w, const emu_op *op, uint32_t mask) {                          \
        return arithmetic(w, op, mask, kind, EMU_RN, ftz, 1, SATURATED);                                          \
    }
#define ARITHMETIC4(kind, round) ARITHMETIC(kind, round, 0, 1) ARITHMETIC(kind, round, 0, 2) ARITHMETIC(kind, round, 1, 1) ARITHMETIC(kind, round, 1, 2)
#define ARITHMETIC16(kind) ARITHMETIC4(kind, 0) ARITHMETIC4(kind, 1) ARITHMETIC4(kind, 2) ARITHMETIC4(kind, 3)
ARITHMETIC16(K_ADD) ARITHMETIC16(K_SUB) ARITHMETIC16(K_MUL) ARITHMETIC16(K_FMA)
#define ROW(kind, round) {{f_##kind##_##round##_0_1, f_##kind##_##round##_0_2}, {f_##kind##_##round##_1_1, f_##kind##_##round##_1_2}}
#define TABLE(kind) {ROW(kind, 0), ROW(kind, 1), ROW(kind, 2), ROW(kind, 3)}
static const emu_handler ARITHMETICS[4][4][2][2] = {TABLE(K_ADD), TABLE(K_SUB), TABLE(K_MUL), TABLE(K_FMA)};
#define SATURATING2(kind) SATURATING(kind, 0) SATURATING(kind, 1)
SATURATING2(K_ADD) SATURATING2(K_SUB) SATURATING2(K_MUL) SATURATING2(K_FMA)
#define SATURATING_ROW(kind) {f_##kind##_sat_0, f_##kind##_sat_1}
static const emu_handler SATURATINGS[4][2] = {SATURATING_ROW(K_ADD), SATURATING_ROW(K_SUB), SATURATING_ROW(K_MUL), SATURATING_ROW(K_FMA)};

/* ---- minimum and maximum: the smaller sign-magnitude number, NaN by rule ---- */

INLINE vu extreme(vu x, vu y, bool max, bool nan_wins) {
    vi kx = (vi)x ^ (vi)((vu)((vi)x >> 31) >> 1), ky = (vi)y ^ (vi)((vu)((vi)y >> 31) >> 1);
    vu r = pick(max ? kx > ky : ky > kx, x, y);
    vi x_nan = (vf)x != (vf)x, y_nan = (vf)y != (vf)y;
#if defined(__AVX512F__)
    if (__builtin_expect(_mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_UNORD_Q) == 0, 1)) return r;
#endif
    r = pick(y_nan, x, pick(x_nan, y, r));
    return pick(nan_wins ? x_nan | y_nan : x_nan & y_nan, (vu){0} + 0x7fffffffu, r);
}

INLINE emu_step extremes(emu_warp *w, const emu_op *op, uint32_t mask, bool max, bool three) {
    vu *d = planes(w, op->d);
    const vu *a = planes(w, op->a), *b = planes(w, op->b), *c = three ? planes(w, op->c) : b;
    bool ftz = op->mode.ftz, nan_wins = op->mode.nan;
    for (int h = 0; h < PARTS; h++) {
        vu x = a[h], y = b[h], z = c[h];
        if (ftz) x = flush(x), y = flush(y), z = flush(z);
        vu r = extreme(x, y, max, nan_wins);
        if (three) r = extreme(r, z, max, nan_wins);
        put(&d[h], r, mask >> (WIDE * h));
    }
    return EMU_NEXT;
}
static emu_step f_min(emu_warp *w, const emu_op *op, uint32_t mask) { return extremes(w, op, mask, false, false); }
static emu_step f_max(emu_warp *w, const emu_op *op, uint32_t mask) { return extremes(w, op, mask, true, false); }
static emu_step f_min3(emu_warp *w, const emu_op *op, uint32_t mask) { return extremes(w, op, mask, false, true); }
static emu_step f_max3(emu_warp *w, const emu_op *op, uint32_t mask) { return extremes(w, op, mask, true, true); }

/* ---- one plane in, one plane out ---- */

#define UNARY(name, expression)                                                                    \
    static emu_step name(emu_warp *w, const emu_op *op, uint32_t mask) {                           \
        vu *d = planes(w, op->d);                                                                  \
        const vu *a = planes(w, op->a);                                                            \
        for (int h = 0; h < PARTS; h++) {                                                              \
            vu x = a[h];                                                                           \
            put(&d[h], expression, mask >> (WIDE * h));                                              \
        }                                                                                          \
        return EMU_NEXT;                                                                           \
    }
#define BINARY(name, expression)                                                                   \
    static emu_step name(emu_warp *w, const emu_op *op, uint32_t mask) {                           \
        vu *d = planes(w, op->d);                                                                  \
        const vu *a = planes(w, op->a), *b = planes(w, op->b);                                     \
        for (int h = 0; h < PARTS; h++) {                                                              \
            vu x = a[h], y = b[h];                                                                 \
            put(&d[h], expression, mask >> (WIDE * h));                                              \
        }                                                                                          \
        return EMU_NEXT;                                                                           \
    }
#define TERNARY(name, expression)                                                                  \
    static emu_step name(emu_warp *w, const emu_op *op, uint32_t mask) {                           \
        vu *d = planes(w, op->d);                                                                  \
        const vu *a = planes(w, op->a), *b = planes(w, op->b), *c = planes(w, op->c);              \
        for (int h = 0; h < PARTS; h++) {                                                              \
            vu x = a[h], y = b[h], z = c[h];                                                       \
            put(&d[h], expression, mask >> (WIDE * h));                                              \
        }                                                                                          \
        return EMU_NEXT;                                                                           \
    }
UNARY(i_mov, x)
UNARY(i_not, ~x)
UNARY(i_neg, 0 - x)
UNARY(f_neg, pick((vf)x != (vf)x, (vu){0} + 0x7fffffffu, x ^ 0x80000000u))
UNARY(f_abs, pick((vf)x != (vf)x, (vu){0} + 0x7fffffffu, x & 0x7fffffffu))
UNARY(f_neg_ftz, pick((vf)x != (vf)x, (vu){0} + 0x7fffffffu, flush(x) ^ 0x80000000u))
UNARY(f_abs_ftz, pick((vf)x != (vf)x, (vu){0} + 0x7fffffffu, flush(x) & 0x7fffffffu))
UNARY(f_rcp, canonical(1.0f / (vf)x))
BINARY(i_add, x + y)
BINARY(i_sub, x - y)
BINARY(i_mul, x * y)
BINARY(i_and, x & y)
BINARY(i_or, x | y)
BINARY(i_xor, x ^ y)
BINARY(i_shl, pick(y < 32u, x << (y & 31u), (vu){0}))
BINARY(i_shr_u, pick(y < 32u, x >> (y & 31u), (vu){0}))
BINARY(i_shr_s, (vu)((vi)x >> (vi)pick(y < 32u, y, (vu){0} + 31u)))
BINARY(i_min_u, pick(x < y, x, y))
BINARY(i_max_u, pick(x > y, x, y))
BINARY(i_min_s, pick((vi)x < (vi)y, x, y))
BINARY(i_max_s, pick((vi)x > (vi)y, x, y))
TERNARY(i_mad, x * y + z)

/* ---- 64 bits in two planes ---- */

#define PAIR(name, low, high)                                                                      \
    static emu_step name(emu_warp *w, const emu_op *op, uint32_t mask) {                           \
        vu *d = planes(w, op->d);                                                                  \
        const vu *a = planes(w, op->a), *b = op->b == EMU_NO_SLOT ? a : planes(w, op->b);           \
        for (int h = 0; h < PARTS; h++) {                                                              \
            vu x0 = a[h], x1 = a[h + PARTS], y0 = b[h], y1 = b[h + PARTS], r0 = low, r1 = high;             \
            (void)y0, (void)y1;                                                                    \
            put(&d[h], r0, mask >> (WIDE * h));                                                      \
            put(&d[h + PARTS], r1, mask >> (WIDE * h));                                                  \
        }                                                                                          \
        return EMU_NEXT;                                                                           \
    }
PAIR(l_mov, x0, x1)
PAIR(l_add, x0 + y0, x1 + y1 - (vu)(r0 < x0))
PAIR(l_sub, x0 - y0, x1 - y1 + (vu)(x0 < y0))
PAIR(l_and, x0 & y0, x1 & y1)
PAIR(l_or, x0 | y0, x1 | y1)
PAIR(l_xor, x0 ^ y0, x1 ^ y1)

INLINE emu_step widen(emu_warp *w, const emu_op *op, uint32_t mask, bool is_signed) {
    vu *d = planes(w, op->d);
    const vu *a = planes(w, op->a);
    for (int h = 0; h < PARTS; h++) {
        vu x = a[h];
        put(&d[h], x, mask >> (WIDE * h));
        put(&d[h + PARTS], is_signed ? (vu)((vi)x >> 31) : (vu){0}, mask >> (WIDE * h));
    }
    return EMU_NEXT;
}
static emu_step l_widen_u(emu_warp *w, const emu_op *op, uint32_t mask) { return widen(w, op, mask, false); }
static emu_step l_widen_s(emu_warp *w, const emu_op *op, uint32_t mask) { return widen(w, op, mask, true); }

/* The upper halves of 32 x 32-bit products. */
INLINE vu multiply_high(vu x, vu y) {
#if defined(__AVX512F__)
    __m512i even = _mm512_mul_epu32((__m512i)x, (__m512i)y);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)x, 32), _mm512_srli_epi64((__m512i)y, 32));
    return (vu)_mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
#elif defined(__AVX2__)
    __m256i even = _mm256_mul_epu32((__m256i)x, (__m256i)y);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)x, 32), _mm256_srli_epi64((__m256i)y, 32));
    return (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
#else
    for (int i = 0; i < WIDE; i++) x[i] = (uint32_t)((uint64_t)x[i] * y[i] >> 32);
    return x;
#endif
}

INLINE emu_step multiply_wide(emu_warp *w, const emu_op *op, uint32_t mask, bool is_signed) {
    vu *d = planes(w, op->d);
    const vu *a = planes(w, op->a), *b = planes(w, op->b);
    vu low[PARTS], high[PARTS];
    for (int h = 0; h < PARTS; h++) {
        vu x = a[h], y = b[h];
        low[h] = x * y;
        high[h] = multiply_high(x, y);
        if (is_signed) high[h] -= ((vu)((vi)x >> 31) & y) + ((vu)((vi)y >> 31) & x);
    }
    for (int h = 0; h < PARTS; h++) {
        put(&d[h], low[h], mask >> (WIDE * h));
        put(&d[h + PARTS], high[h], mask >> (WIDE * h));
    }
    return EMU_NEXT;
}
static emu_step l_multiply_u(emu_warp *w, const emu_op *op, uint32_t mask) { return multiply_wide(w, op, mask, false); }
static emu_step l_multiply_s(emu_warp *w, const emu_op *op, uint32_t mask) { return multiply_wide(w, op, mask, true); }

/* mov.b64 d, {a, b} and back. */
static emu_step l_pack(emu_warp *w, const emu_op *op, uint32_t mask) {
    vu *d = planes(w, op->a);
    const vu *a = planes(w, op->list[0]), *b = planes(w, op->list[1]);
    for (int h = 0; h < PARTS; h++) {
        vu x = a[h], y = b[h];
        put(&d[h], x, mask >> (WIDE * h));
        put(&d[h + PARTS], y, mask >> (WIDE * h));
    }
    return EMU_NEXT;
}
static emu_step l_unpack(emu_warp *w, const emu_op *op, uint32_t mask) {
    vu *d = planes(w, op->list[0]), *e = planes(w, op->list[1]);
    const vu *a = planes(w, op->a);
    for (int h = 0; h < PARTS; h++) {
        vu x = a[h], y = a[h + PARTS];
        put(&d[h], x, mask >> (WIDE * h));
        put(&e[h], y, mask >> (WIDE * h));
    }
    return EMU_NEXT;
}

static emu_step i_select(emu_warp *w, const emu_op *op, uint32_t mask) {
    vu *d = planes(w, op->d);
    const vu *a = planes(w, op->a), *b = planes(w, op->b);
    uint32_t yes = emu_pred(w, op->s);
    for (int h = 0; h < PARTS; h++) {
        vu r = b[h];
        put(&r, a[h], yes >> (WIDE * h));
        put(&d[h], r, mask >> (WIDE * h));
    }
    return EMU_NEXT;
}

/* ---- setp on one plane ---- */

enum { C_S, C_U, C_F };

INLINE vi holds(int kind, int compare, bool unordered, vu x, vu y) {
    vi r;
#define COMPARE(o) kind == C_F ? (vi)((vf)x o (vf)y) : kind == C_S ? (vi)((vi)x o (vi)y) : (vi)(x o y)
    switch (compare) {
    case EMU_EQ: r = COMPARE(==); break;
    case EMU_NE: r = COMPARE(!=); break;
    case EMU_LT: r = COMPARE(<); break;
    case EMU_LE: r = COMPARE(<=); break;
    case EMU_GT: r = COMPARE(>); break;
    default: r = COMPARE(>=); break;
    }
    if (kind == C_F) {
        vi nan = ((vf)x != (vf)x) | ((vf)y != (vf)y);
        r = unordered ? r | nan : r & ~nan;
    }
    return r;
}

INLINE emu_step setp(emu_warp *w, const emu_op *op, uint32_t mask, int kind, int compare) {
    const vu *a = planes(w, op->a), *b = planes(w, op->b);
    uint32_t result = 0;
    for (int h = 0; h < PARTS; h++) {
        vu x = a[h], y = b[h];
        if (kind == C_F && op->mode.ftz) x = flush(x), y = flush(y);
        result |= bits_of(holds(kind, compare, op->unordered, x, y)) << (WIDE * h);
    }
    emu_set_pred(w, op->p, result, mask);
    return EMU_NEXT;
}
#define SETP(kind, compare) static emu_step p_##kind##_##compare(emu_warp *w, const emu_op *op, uint32_t mask) { return setp(w, op, mask, kind, compare); }
#define SETP6(kind) SETP(kind, EMU_EQ) SETP(kind, EMU_NE) SETP(kind, EMU_LT) SETP(kind, EMU_LE) SETP(kind, EMU_GT) SETP(kind, EMU_GE)
SETP6(C_S) SETP6(C_U) SETP6(C_F)
#define SETP_ROW(kind) {p_##kind##_EMU_EQ, p_##kind##_EMU_NE, p_##kind##_EMU_LT, p_##kind##_EMU_LE, p_##kind##_EMU_GT, p_##kind##_EMU_GE}
static const emu_handler SETPS[3][6] = {SETP_ROW(C_S), SETP_ROW(C_U), SETP_ROW(C_F)};

/* ---- conversions and 2^x ---- */

INLINE vu bf16_bits(vu x) {
    vu r = (x + 0x7fffu + ((x >> 16) & 1u)) >> 16;
    return pick((x & 0x7fffffffu) > 0x7f800000u, (vu){0} + 0x7fffu, r);
}
/* .satfinite: infinity becomes the largest finite number, which stands just below it. */
INLINE vu kept_finite(vu r, uint32_t infinity) {
    return pick((r & 0x7fffu) == infinity, r - 1, r);
}
BINARY(c_bf16x2, bf16_bits(x) << 16 | bf16_bits(y))
BINARY(c_bf16x2_finite, kept_finite(bf16_bits(x), 0x7f80) << 16 | kept_finite(bf16_bits(y), 0x7f80))

#if defined(__AVX512F__) || defined(__F16C__)
INLINE vu f16_bits(vu x) {
#if defined(__AVX512F__)
    vu r = (vu)_mm512_cvtepu16_epi32(_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
    vu r = (vu)_mm256_cvtepu16_epi32(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#endif
    return pick((x & 0x7fffffffu) > 0x7f800000u, (vu){0} + 0x7fffu, r);
}
BINARY(c_f16x2, f16_bits(x) << 16 | f16_bits(y))
BINARY(c_f16x2_finite, kept_finite(f16_bits(x), 0x7c00) << 16 | kept_finite(f16_bits(y), 0x7c00))

INLINE vf whole_of(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    return (vf)_mm256_round_ps((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#endif
}

#if defined(__AVX512F__)
/* One scaling rounds as the two steps of the portable form do: the first of them is exact. */
INLINE vu ex2(vu bits, bool ftz) {
    vf x = (vf)(ftz ? flush(bits) : bits), whole = whole_of(x), f = x - whole, p = (vf){0} + EMU_EX2[EMU_EX2_TERMS - 1];
    for (int i = EMU_EX2_TERMS - 2; i >= 0; i--) p = multiply_add(p, f, (vf){0} + EMU_EX2[i]);
    __mmask16 large = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(ftz ? -126.0f : -150.0f), _CMP_GE_OQ);
    vu r = (vu)_mm512_maskz_scalef_ps(large, (__m512)p, (__m512)whole);
    if (ftz) r = flush(r);
    __mmask16 odd = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(128.0f), _CMP_NLT_UQ);
    if (__builtin_expect(odd == 0, 1)) return r;
    return pick(x >= 128.0f, (vu){0} + 0x7f800000u, pick(x != x, (vu){0} + 0x7fffffffu, r));
}
#else
INLINE vu ex2(vu bits, bool ftz) {
    if (ftz) bits = flush(bits);
    vf x = (vf)bits, limit = (vf){0} + (ftz ? -126.0f : -150.0f);
    vi small = x < limit, large = x >= 128.0f;
    vf safe = (vf)pick(small | large | (x != x), (vu){0}, bits);
    vf whole = whole_of(safe), f = safe - whole, p = (vf){0} + EMU_EX2[EMU_EX2_TERMS - 1];
    for (int i = EMU_EX2_TERMS - 2; i >= 0; i--) p = multiply_add(p, f, (vf){0} + EMU_EX2[i]);
    vi n = __builtin_convertvector(whole, vi), half = (n + (vi)((vu)n >> 31)) >> 1;
    vf r = p * (vf)((half + 127) << 23) * (vf)((n - half + 127) << 23);
    vu out = ftz ? flush((vu)r) : (vu)r;
    out = pick(large, (vu){0} + 0x7f800000u, pick(small, (vu){0}, out));
    return pick(x != x, (vu){0} + 0x7fffffffu, out);
}
#endif
UNARY(f_ex2, ex2(x, false))
UNARY(f_ex2_ftz, ex2(x, true))
#define HAS_CONVERSIONS 1
#else
#define HAS_CONVERSIONS 0
#endif

/* ---- selection ---- */

static emu_handler select_float(const emu_op *op, int opcode, int count) {
    int kind = opcode == PTX_OP_ADD ? K_ADD : opcode == PTX_OP_SUB ? K_SUB : opcode == PTX_OP_MUL ? K_MUL : K_FMA;
    bool plain = !op->mode.sat && !op->mode.relu;
    switch (opcode) {
    case PTX_OP_ADD: case PTX_OP_SUB: case PTX_OP_MUL: case PTX_OP_FMA: case PTX_OP_MAD:
        if (op->mode.sat && !op->mode.relu && op->mode.round == EMU_RN && count == 1) return SATURATINGS[kind][op->mode.ftz];
        if (!plain || op->mode.round > EMU_RP || (!DIRECTED && op->mode.round != EMU_RN)) return NULL;
        return ARITHMETICS[kind][op->mode.round][op->mode.ftz][count - 1];
    case PTX_OP_MIN: return !plain || op->mode.abs || op->mode.xorsign || count == 2 ? NULL : op->c == EMU_NO_SLOT ? f_min : f_min3;
    case PTX_OP_MAX: return !plain || op->mode.abs || op->mode.xorsign || count == 2 ? NULL : op->c == EMU_NO_SLOT ? f_max : f_max3;
    case PTX_OP_NEG: return count == 2 ? NULL : op->mode.ftz ? f_neg_ftz : f_neg;
    case PTX_OP_ABS: return count == 2 ? NULL : op->mode.ftz ? f_abs_ftz : f_abs;
    case PTX_OP_RCP: return op->source->form->approx || op->mode.ftz || op->mode.round != EMU_RN ? NULL : f_rcp;
#if HAS_CONVERSIONS
    case PTX_OP_EX2: return op->mode.ftz ? f_ex2_ftz : f_ex2;
#endif
    default: return NULL;
    }
}

static emu_handler select_word(const emu_op *op, int opcode) {
    const ptx_form *f = op->source->form;
    switch (opcode) {
    case PTX_OP_ADD: return op->mode.sat ? NULL : i_add;
    case PTX_OP_SUB: return op->mode.sat ? NULL : i_sub;
    case PTX_OP_MUL: return f->half == PTX_HALF_LO ? i_mul : NULL;
    case PTX_OP_MAD: return f->half == PTX_HALF_LO ? i_mad : NULL;
    case PTX_OP_AND: return i_and;
    case PTX_OP_OR: return i_or;
    case PTX_OP_XOR: return i_xor;
    case PTX_OP_NOT: return i_not;
    case PTX_OP_NEG: return i_neg;
    case PTX_OP_SHL: return i_shl;
    case PTX_OP_SHR: return op->is_signed ? i_shr_s : i_shr_u;
    case PTX_OP_MIN: return op->c != EMU_NO_SLOT || op->mode.relu ? NULL : op->is_signed ? i_min_s : i_min_u;
    case PTX_OP_MAX: return op->c != EMU_NO_SLOT || op->mode.relu ? NULL : op->is_signed ? i_max_s : i_max_u;
    default: return NULL;
    }
}

static emu_handler select_long(const emu_op *op, int opcode) {
    switch (opcode) {
    case PTX_OP_ADD: return l_add;
    case PTX_OP_SUB: return l_sub;
    case PTX_OP_AND: return l_and;
    case PTX_OP_OR: return l_or;
    case PTX_OP_XOR: return l_xor;
    default: (void)op; return NULL;
    }
}

static emu_handler select_cvt(const emu_op *op, const ptx_form *f) {
    int to = f->types[0], from = f->types[1];
    bool plain = !op->mode.sat && !op->mode.relu && !op->mode.ftz, nearest = from == PTX_TYPE_F32 && f->rounding == PTX_RN;
    if (f->type_count != 2 || !plain) return NULL;
    if (nearest && to == PTX_TYPE_BF16X2) return op->mode.satfinite ? c_bf16x2_finite : c_bf16x2;
#if HAS_CONVERSIONS
    if (nearest && to == PTX_TYPE_F16X2) return op->mode.satfinite ? c_f16x2_finite : c_f16x2;
#endif
    if (op->mode.satfinite) return NULL;
    bool to_long = to == PTX_TYPE_U64 || to == PTX_TYPE_S64, to_word = to == PTX_TYPE_U32 || to == PTX_TYPE_S32;
    if (to_long && from == PTX_TYPE_U32 && op->wide == 1) return l_widen_u;
    if (to_long && from == PTX_TYPE_S32 && op->wide == 1) return l_widen_s;
    if (to_word && (from == PTX_TYPE_U64 || from == PTX_TYPE_S64) && !(op->wide & 1)) return i_mov; /* the low plane */
    return NULL;
}

static emu_handler select_setp(const emu_op *op, const ptx_form *f) {
    if (op->q.index != 0 || f->operation || op->compare > EMU_GE) return NULL;
    int kind = f->types[0] == PTX_TYPE_F32 ? C_F : op->is_signed ? C_S : C_U;
    if (op->bits != 32 || (kind != C_F && op->format != EMU_FORMATS)) return NULL;
    return SETPS[kind][op->compare];
}

static emu_handler select_handler(const emu_op *op) {
    const ptx_form *f = op->source->form;
    int type = f->type_count ? f->types[0] : PTX_TYPE_NONE;
    if (op->run == emu_do_move) return op->extra == 1 ? i_mov : op->extra == 2 ? l_mov : NULL;
    if (op->run == emu_do_pack) return op->count == 2 && op->extra == 32 ? l_pack : NULL;
    if (op->run == emu_do_unpack) return op->count == 2 && op->extra == 32 ? l_unpack : NULL;
    if (op->run == emu_do_select) return op->extra == 1 ? i_select : NULL;
    if (op->run == emu_run_setp) return select_setp(op, f);
    if (op->run != emu_run_scalar) return NULL;
    if (f->opcode == PTX_OP_CVT) return select_cvt(op, f);
    if (type == PTX_TYPE_F32) return select_float(op, f->opcode, 1);
    if (type == PTX_TYPE_F32X2) return select_float(op, f->opcode, 2);
    bool word = type == PTX_TYPE_B32 || type == PTX_TYPE_U32 || type == PTX_TYPE_S32;
    if (word && op->wide == 0) return select_word(op, f->opcode);
    if (word && op->wide == 1 && f->opcode == PTX_OP_MUL && f->half == PTX_HALF_WIDE) return op->is_signed ? l_multiply_s : l_multiply_u;
    bool all_wide = op->wide == (op->b == EMU_NO_SLOT ? 3 : 7) && op->c == EMU_NO_SLOT;
    bool is_long = type == PTX_TYPE_B64 || type == PTX_TYPE_U64 || type == PTX_TYPE_S64;
    return is_long && all_wide ? select_long(op, f->opcode) : NULL;
}
