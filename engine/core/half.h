/* 16-bit number formats in portable C: exact widening, narrowing to nearest even. NaN keeps its sign and stays NaN. */
#ifndef FA4_CORE_HALF_H
#define FA4_CORE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits_of_float(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline float half_float_of_bits(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float half_bf16_to_float(uint16_t h) {
    return half_float_of_bits((uint32_t)h << 16);
}

static inline uint16_t half_bf16_from_float(float x) {
    uint32_t u = half_bits_of_float(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x0040u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

static inline float half_f16_to_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 31u;
    uint32_t mantissa = h & 1023u;
    if (exponent == 31u) return half_float_of_bits(sign | 0x7f800000u | (mantissa << 13));
    if (exponent != 0u) return half_float_of_bits(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    float magnitude = (float)mantissa * 0x1p-24f; /* zero and subnormals: exact in f32 */
    return half_float_of_bits(sign | half_bits_of_float(magnitude));
}

static inline uint16_t half_f16_from_float(float x) {
    uint32_t u = half_bits_of_float(x);
    uint16_t sign = (uint16_t)((u >> 16) & 0x8000u);
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((u >> 13) & 0x3ffu));
    if (u >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (u < 0x38800000u) { /* below 2^-14: a multiple of 2^-24, rounded by adding a power of two */
        float rounded = half_float_of_bits(u) + 0.5f;
        return (uint16_t)(sign | (half_bits_of_float(rounded) - 0x3f000000u));
    }
    u += 0xfffu + ((u >> 13) & 1u);
    return (uint16_t)(sign | ((u - 0x38000000u) >> 13));
}

/* One rounding from double: f64 -> f32 to odd, then to nearest even. */
static inline float half_float_to_odd(double x) {
    float f = (float)x;
    if ((double)f == x || x != x) return f;
    uint32_t u = half_bits_of_float(f);
    if ((u & 0x7fffffffu) == 0x7f800000u) return x < 0 ? -0x1.fffffep127f : 0x1.fffffep127f;
    double back = (double)f;
    if ((back > x) == (x > 0)) u -= 1; /* the magnitude was rounded up: truncate */
    return half_float_of_bits(u | 1u);
}

#endif
