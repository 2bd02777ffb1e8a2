/* Sizes that cannot overflow silently. */
#ifndef FA4_CORE_SIZE_H
#define FA4_CORE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

/* true and *product = a * b, or false when the product does not fit. */
static inline bool size_multiply(int64_t a, int64_t b, int64_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}
static inline bool size_add(int64_t a, int64_t b, int64_t *sum) {
    return !__builtin_add_overflow(a, b, sum);
}
static inline int64_t size_ceil_divide(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}

#endif
