/* The portable path: four floats at a time in the compiler's generic vectors, no instruction set
 * assumed. */
#include "core/half.h"

#include <stdint.h>
#include <string.h>

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16))); /* bits: sums wrap */

#define V_LANES       4
#define ROW_GROUP     4
#define PANEL_VECTORS 2
#define V_HAS_DOT2    0
#define V_TRANSPOSE   4
#define KERNEL_NAME   "scalar"
#define KERNEL_SYMBOL cpu_kernel_scalar

static inline vf v_load(const float *p) {
    vf x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline void v_store(float *p, vf x) {
    memcpy(p, &x, sizeof x);
}
static inline vf v_set1(float x) {
    return (vf){x, x, x, x};
}
static inline vf v_add(vf a, vf b) {
    return a + b;
}
static inline vf v_sub(vf a, vf b) {
    return a - b;
}
static inline vf v_mul(vf a, vf b) {
    return a * b;
}
static inline vf v_div(vf a, vf b) {
    return a / b;
}
/* Two roundings: a fused one would be a library call here. */
static inline vf v_fma(vf a, vf b, vf c) {
    return a * b + c;
}
static inline vf v_choose(vi mask, vf a, vf b) {
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}
static inline vf v_select_less(vf a, vf b, vf x, vf y) {
    return v_choose(a < b, x, y);
}
static inline vf v_max(vf a, vf b) {
    return v_choose(a > b, a, b);
}
static inline vf v_min(vf a, vf b) {
    return v_choose(a < b, a, b);
}
static inline vf v_abs(vf x) {
    return (vf)((vi)x & 0x7fffffff);
}
static inline vf v_copy_sign(vf magnitude, vf sign) {
    return (vf)(((vi)magnitude & 0x7fffffff) | ((vi)sign & INT32_MIN));
}
static inline float v_sum(vf x) {
    return (x[0] + x[2]) + (x[1] + x[3]);
}
static inline float v_largest(vf x) {
    float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
    return a > b ? a : b;
}
static inline vf v_keep_bits(vf x, uint32_t bits, float other) {
    vi lane = {1, 2, 4, 8};
    return v_choose(((int32_t)(bits & 15u) & lane) != 0, x, v_set1(other));
}
static inline vf v_clamp_exponent(vf x) {
    return v_max(v_set1(-256.0f), v_min(v_set1(128.0f), x)); // b is x: NaN stays.
}
/* Adding 1.5 * 2^23 rounds to a whole number; where that went up, floor is one less. */
static inline vf v_floor(vf x) {
    vf magic = v_set1(12582912.0f), whole = (x + magic) - magic;
    return v_choose(whole > x, whole - 1.0f, whole);
}
static inline vf v_fraction(vf x) {
    return x - v_floor(x);
}
static inline vf v_scale(vf p, vf x) {
    vf magic = v_set1(12582912.0f);
    vu exponent = (vu)(v_floor(x) + magic)
                  << 23; // The shift leaves the whole number's low nine bits.
    vf y = (vf)((vu)p + exponent);
    y = v_choose(x < -126.0f, v_set1(0.0f), y);
    return v_choose(x == x, y, x);
}
static inline vf v_load_f16(const void *p) {
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    return (vf){half_f16_to_float(h[0]), half_f16_to_float(h[1]), half_f16_to_float(h[2]),
                half_f16_to_float(h[3])};
}
static inline vf v_load_bf16(const void *p) {
    uint16_t h[4];
    memcpy(h, p, sizeof h);
    return (vf){half_bf16_to_float(h[0]), half_bf16_to_float(h[1]), half_bf16_to_float(h[2]),
                half_bf16_to_float(h[3])};
}
static inline void v_store_f16(void *p, vf x) {
    uint16_t h[4];
    for (int i = 0; i < 4; i++)
        h[i] = half_f16_from_float(x[i]);
    memcpy(p, h, sizeof h);
}
static inline void v_store_bf16(void *p, vf x) {
    uint16_t h[4];
    for (int i = 0; i < 4; i++)
        h[i] = half_bf16_from_float(x[i]);
    memcpy(p, h, sizeof h);
}
/* Rounds a weight, 0 or more, to f16 by adding and taking away a number whose last place is that of
 * the result. */
static inline vf v_round_f16(vf x) {
    vf largest = v_max(v_set1(0x1p-14f), x);
    vf unit = (vf)(((vu)largest & 0x7f800000u) + (13u << 23));
    vf y = (x + unit) - unit;
    y = v_choose(y > 65504.0f, v_set1(__builtin_inff()), y);
    return v_choose(x == x, y, x);
}
static inline vf v_round_bf16(vf x) {
    vu u = (vu)x, rounded = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
    return v_choose(x == x, (vf)rounded, x);
}
static inline void v_transpose(const float *from, size_t from_stride, float *to, size_t to_stride,
                               int n) {
    for (int c = 0; c < n; c++)
        for (size_t r = 0; r < V_LANES; r++)
            to[(size_t)c * to_stride + r] = from[r * from_stride + (size_t)c];
}

#include "cpu/vector_no_pairs.h"
#include "cpu/tile_template.h"
