/* Integer and bit instructions as PTX defines them (ISA 9.7.1, 9.7.8), one lane at a time, on values cut to their width. */
#include "emu_numbers.h"

bool emu_int_compare(uint64_t a, uint64_t b, emu_compare compare, bool is_signed, int bits) {
    int64_t x = is_signed ? emu_extend(a, bits) : 0, y = is_signed ? emu_extend(b, bits) : 0;
    a = emu_cut(a, bits), b = emu_cut(b, bits);
    bool less = is_signed ? x < y : a < b, equal = a == b;
    switch (compare) {
    case EMU_EQ: return equal;
    case EMU_NE: return !equal;
    case EMU_LT: return less;
    case EMU_LE: return less || equal;
    case EMU_GT: return !less && !equal;
    case EMU_GE: return !less;
    default: return false;
    }
}

uint64_t emu_int_mul_hi(uint64_t a, uint64_t b, int bits, bool is_signed) {
    if (is_signed) {
        __int128 p = (__int128)emu_extend(a, bits) * emu_extend(b, bits);
        return emu_cut((uint64_t)(p >> bits), bits);
    }
    unsigned __int128 p = (unsigned __int128)emu_cut(a, bits) * emu_cut(b, bits);
    return emu_cut((uint64_t)(p >> bits), bits);
}

/* Division by zero is unspecified in PTX; devices give all ones, for the remainder too. */
uint64_t emu_int_div(uint64_t a, uint64_t b, int bits, bool is_signed) {
    if (emu_cut(b, bits) == 0) return emu_cut(~0ull, bits);
    if (!is_signed) return emu_cut(a, bits) / emu_cut(b, bits);
    int64_t x = emu_extend(a, bits), y = emu_extend(b, bits);
    if (y == -1) return emu_cut(0 - (uint64_t)x, bits); /* INT_MIN / -1 wraps */
    return emu_cut((uint64_t)(x / y), bits);
}

uint64_t emu_int_rem(uint64_t a, uint64_t b, int bits, bool is_signed) {
    if (emu_cut(b, bits) == 0) return emu_cut(~0ull, bits);
    if (!is_signed) return emu_cut(a, bits) % emu_cut(b, bits);
    int64_t x = emu_extend(a, bits), y = emu_extend(b, bits);
    return y == -1 ? 0 : emu_cut((uint64_t)(x % y), bits);
}

uint64_t emu_int_shl(uint64_t a, uint32_t count, int bits) {
    return count >= (uint32_t)bits ? 0 : emu_cut(a << count, bits);
}

uint64_t emu_int_shr(uint64_t a, uint32_t count, int bits, bool is_signed) {
    if (is_signed) {
        if (count >= (uint32_t)bits) count = (uint32_t)bits - 1;
        return emu_cut((uint64_t)(emu_extend(a, bits) >> count), bits);
    }
    return count >= (uint32_t)bits ? 0 : emu_cut(a, bits) >> count;
}

uint32_t emu_int_clz(uint64_t a, int bits) {
    a = emu_cut(a, bits);
    return a == 0 ? (uint32_t)bits : (uint32_t)(__builtin_clzll(a) - (64 - bits));
}

uint32_t emu_int_bfind(uint64_t a, int bits, bool is_signed, bool shift_amount) {
    if (is_signed && emu_extend(a, bits) < 0) a = ~a;
    a = emu_cut(a, bits);
    if (a == 0) return 0xffffffffu;
    uint32_t position = 63u - (uint32_t)__builtin_clzll(a);
    return shift_amount ? (uint32_t)bits - 1 - position : position;
}

uint64_t emu_int_brev(uint64_t a, int bits) {
    uint64_t r = 0;
    for (int i = 0; i < bits; i++) r |= (a >> i & 1) << (bits - 1 - i);
    return r;
}

/* ISA 9.7.1.20: only the low byte of position and length counts (devices obey for 32 bits, and clamp for 64); past the top the sign bit (or 0) fills. */
static uint32_t field_limit(uint32_t value, int bits) {
    return bits == 64 ? (value > 255 ? 255 : value) : value & 255;
}

uint64_t emu_int_bfe(uint64_t a, uint32_t position, uint32_t length, int bits, bool is_signed) {
    uint32_t top = (uint32_t)bits - 1;
    position = field_limit(position, bits), length = field_limit(length, bits);
    uint32_t sign_at = position + length - 1 < top ? position + length - 1 : top;
    uint64_t sign = is_signed && length != 0 ? a >> sign_at & 1 : 0, r = 0;
    for (uint32_t i = 0; i <= top; i++) {
        uint64_t bit = i < length && position + i <= top ? a >> (position + i) & 1 : sign;
        r |= bit << i;
    }
    return r;
}

uint64_t emu_int_bfi(uint64_t a, uint64_t b, uint32_t position, uint32_t length, int bits) {
    position = field_limit(position, bits), length = field_limit(length, bits);
    for (uint32_t i = 0; i < length && position + i < (uint32_t)bits; i++) {
        uint64_t bit = 1ull << (position + i);
        b = (a >> i & 1) ? b | bit : b & ~bit;
    }
    return emu_cut(b, bits);
}

/* The nibbles that a mode derives from the low two bits of the selector (ISA 9.7.9.7), lowest byte first. */
static const uint8_t PRMT[6][4][4] = {
    {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}, /* f4e */
    {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}, /* b4e */
    {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}, /* rc8 */
    {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}, /* ecl */
    {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}, /* ecr */
    {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}, /* rc16 */
};

uint32_t emu_int_prmt(uint32_t a, uint32_t b, uint32_t selector, int mode) {
    uint64_t pool = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t pick = mode == 0 ? selector >> (4 * i) & 15 : PRMT[mode - 1][selector & 3][i];
        uint32_t byte = (uint32_t)(pool >> (8 * (pick & 7))) & 255;
        if (pick & 8) byte = byte & 128 ? 255 : 0;
        r |= byte << (8 * i);
    }
    return r;
}

uint32_t emu_int_lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t r = 0;
    for (uint32_t i = 0; i < 8; i++)
        if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}

uint32_t emu_int_shf(uint32_t low, uint32_t high, uint32_t count, bool left, bool wrap) {
    uint64_t both = (uint64_t)high << 32 | low;
    count = wrap ? count & 31 : count > 32 ? 32 : count;
    return left ? (uint32_t)(both >> (32 - count)) : (uint32_t)(both >> count);
}

uint64_t emu_int_add_sat(uint64_t a, uint64_t b, int bits, bool subtract) {
    __int128 x = emu_extend(a, bits), y = emu_extend(b, bits), r = subtract ? x - y : x + y;
    __int128 most = ((__int128)1 << (bits - 1)) - 1, least = -most - 1;
    if (r > most) r = most;
    if (r < least) r = least;
    return emu_cut((uint64_t)r, bits);
}

static int64_t part(uint32_t word, int index, int bits, bool is_signed) {
    uint64_t v = word >> (index * bits) & ((1u << bits) - 1);
    return is_signed ? emu_extend(v, bits) : (int64_t)v;
}

uint32_t emu_int_dp4a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
    int64_t sum = c;
    for (int i = 0; i < 4; i++) sum += part(a, i, 8, a_signed) * part(b, i, 8, b_signed);
    return (uint32_t)sum;
}

uint32_t emu_int_dp2a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed, bool high) {
    int64_t sum = c;
    for (int i = 0; i < 2; i++) sum += part(a, i, 16, a_signed) * part(b, i + (high ? 2 : 0), 8, b_signed);
    return (uint32_t)sum;
}

uint64_t emu_cvt_int_int(uint64_t a, int to_bits, bool to_signed, int from_bits, bool from_signed, bool sat) {
    uint64_t wide = from_signed ? (uint64_t)emu_extend(a, from_bits) : emu_cut(a, from_bits);
    if (!sat) return emu_cut(wide, to_bits);
    __int128 x = from_signed ? (__int128)(int64_t)wide : (__int128)wide;
    __int128 most = ((__int128)1 << (to_signed ? to_bits - 1 : to_bits)) - 1, least = to_signed ? -most - 1 : 0;
    if (x > most) x = most;
    if (x < least) x = least;
    return emu_cut((uint64_t)x, to_bits);
}
