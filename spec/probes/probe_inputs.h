/*
 * Inputs of the probes, from seeds: edge values in every combination that fits, then random ones. Both runners make the same bytes.
 */
#ifndef FA4_SPEC_PROBE_INPUTS_H
#define FA4_SPEC_PROBE_INPUTS_H

#include "probe.h"

static inline uint64_t probe_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* ---- edge values, the most telling first ---- */

// clang-format off
static const uint64_t probe_edges_f32[] = {
    0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0x00800000, 0x00000001, 0x807fffff, 0x4b000000,
    0x3effffff, 0x3f000000, 0x7fffffff, 0x7f800001, 0xffc12345, 0xff7fffff, 0x80800000, 0x007fffff, 0x80000001, 0x3f7fffff, 0x3f800001,
    0xc0000000, 0x40490fdb, 0x4f000000, 0xcf000000, 0x4f7fffff, 0x5f000000, 0xdf000000, 0x4effffff, 0x437f0000, 0x43ff8000, 0x477fe000,
    0x477ff000, 0xc77ff000, 0x33000000, 0x33000001, 0x38800000, 0x387fe000, 0x40200000, 0x40600000, 0xbfc00000, 0x7e800000, 0x7f000000, 0x00400000};
static const uint64_t probe_edges_f64[] = {
    0, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000,
    0x7fefffffffffffff, 0x0010000000000000, 1, 0x800fffffffffffff, 0x4330000000000000, 0x3fe0000000000000, 0x7ff0000000000001,
    0xfff8123456789abc, 0x47efffffe0000000, 0x47effffff0000000, 0x36a0000000000000, 0x3690000000000000, 0x41e0000000000000,
    0xc1e0000000200000, 0x41dfffffffc00000, 0x43e0000000000000, 0xc3e0000000000000, 0x43f0000000000000, 0x3ff8000000000000,
    0x4004000000000000, 0xc004000000000000, 0x3810000000000000, 0x380fffffffffffff, 0x40efffe000000000, 0x3fefffffffffffff};
static const uint64_t probe_edges_f16[] = {
    0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7bff, 0x0400, 0x0001, 0x83ff, 0x6400, 0x37ff, 0x3800, 0x7fff, 0x7c01, 0xfe12,
    0xfbff, 0x8400, 0x03ff, 0x8001, 0x3bff, 0x3c01, 0xc000, 0x4248, 0x5bf8, 0x4100, 0x4300};
static const uint64_t probe_edges_bf16[] = {
    0, 0x8000, 0x3f80, 0xbf80, 0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0x0080, 0x0001, 0x807f, 0x4300, 0x3eff, 0x3f00, 0x7fff, 0x7f81, 0xffc1,
    0xff7f, 0x8080, 0x007f, 0x8001, 0x3f7f, 0x3f81, 0xc000, 0x4049, 0x4f00, 0xcf00, 0x4020, 0x4060};
static const uint64_t probe_edges_b32[] = {
    0, 1, 0xffffffff, 0x80000000, 0x7fffffff, 2, 0xfffffffe, 31, 32, 0x80000001, 0xffff, 0x10000, 0x7fff, 0x8000, 0xffff8000, 0xff, 0x100,
    0x80, 0x7f, 0xffffff80, 33, 63, 64, 65, 0xffffff, 0x1000000, 0x800000, 0x55555555, 0xaaaaaaaa, 3, 10, 0xfffffff0, 0x00ff00ff, 255, 256,
    16, 15, 8, 0x3f800000, 0x12345678};
static const uint64_t probe_edges_b64[] = {
    0, 1, 0xffffffffffffffff, 0x8000000000000000, 0x7fffffffffffffff, 2, 0xfffffffffffffffe, 0xffffffff, 0x100000000, 0x80000000, 0x7fffffff,
    0xffffffff80000000, 0xffffffff7fffffff, 31, 32, 63, 64, 0x20000000000000, 0x20000000000001, 0x1fffffffffffff, 0x8000000000000001, 0xffff,
    0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 3, 10, 0x7fffffffffffffc0, 0x7fffff4000000000, 0x8000008000000001};
static const uint64_t probe_edges_count[] = {0, 1, 31, 32, 33, 63, 64, 255, 256, 0xffffffff, 0x80000000, 5, 16, 15, 8, 65, 127, 128, 0x100000001, 0x1f, 0x20};
// clang-format on

static inline uint64_t probe_random_float(uint64_t r, int mantissa, int exponent, int spread) {
    uint64_t fraction = r >> 8 & ((1ull << mantissa) - 1), sign = r & 1, bias = (1ull << (exponent - 1)) - 1;
    uint64_t e = bias + (uint64_t)((int64_t)(r >> 1 & 127) % (2 * spread + 1) - spread);
    return sign << (mantissa + exponent) | e << mantissa | fraction;
}

typedef struct probe_kind {
    const char *name;
    int32_t bytes, bits; /* of an element in memory; that carry meaning */
    const uint64_t *edges;
    int32_t edge_count;
    int32_t mantissa, exponent; /* of a float, else 0 */
} probe_kind;

#define PROBE_EDGES(list) list, (int32_t)(sizeof list / sizeof *list)
static const probe_kind probe_kinds[] = {
    {"f32", 4, 32, PROBE_EDGES(probe_edges_f32), 23, 8},   {"f64", 8, 64, PROBE_EDGES(probe_edges_f64), 52, 11},
    {"f16", 4, 16, PROBE_EDGES(probe_edges_f16), 10, 5},   {"bf16", 4, 16, PROBE_EDGES(probe_edges_bf16), 7, 8},
    {"b32", 4, 32, PROBE_EDGES(probe_edges_b32), 0, 0},    {"b64", 8, 64, PROBE_EDGES(probe_edges_b64), 0, 0},
    {"b16", 4, 16, PROBE_EDGES(probe_edges_b32), 0, 0},    {"count", 4, 32, PROBE_EDGES(probe_edges_count), 0, 0},
    {"f16x2", 4, 32, PROBE_EDGES(probe_edges_f16), 10, 5}, {"bf16x2", 4, 32, PROBE_EDGES(probe_edges_bf16), 7, 8},
};

static inline const probe_kind *probe_kind_of(const char *name) {
    for (size_t i = 0; i < sizeof probe_kinds / sizeof *probe_kinds; i++)
        if (strcmp(probe_kinds[i].name, name) == 0) return &probe_kinds[i];
    return NULL;
}

/* Element i of operand `at` of `operands`: a product of edges first, then random bits and random numbers of moderate size. */
static inline uint64_t probe_element(const probe_kind *kind, int64_t i, int at, int operands, int64_t n, uint64_t *state) {
    int64_t per = kind->edge_count, total = 1, before = 1;
    if (operands > 1)
        for (per = 1; per < kind->edge_count; per++) {
            total = 1;
            for (int k = 0; k < operands; k++) total *= per + 1;
            if (total > n / 2) break;
        }
    total = 1;
    for (int k = 0; k < operands; k++) total *= per;
    for (int k = 0; k < at; k++) before *= per;
    uint64_t r = probe_next(state), s = probe_next(state);
    bool twice = strstr(kind->name, "x2") != NULL;
    uint64_t value;
    if (i < total) {
        value = kind->edges[i / before % per];
        if (twice) value |= kind->edges[(i / before + i * 7 + at) % kind->edge_count] << 16;
    } else if (kind->edges == probe_edges_count) {
        value = i % 8 == 0 ? r : r % 72;
    } else if (kind->mantissa == 0 || i % 4 == 0) {
        value = i % 3 == 0 ? r >> (r & 31) : r;
    } else {
        int spread = kind->exponent == 5 ? 8 : i % 4 == 1 ? 3 : 30;
        value = probe_random_float(r, kind->mantissa, kind->exponent, spread);
        if (twice) value |= probe_random_float(s, kind->mantissa, kind->exponent, spread) << 16;
    }
    return kind->bits == 64 ? value : value & ((1ull << kind->bits) - 1);
}

/* Kinds that are no list of edges: "index" i, "half" all 2^16 patterns, "whole" integers as f32, "byte" random bytes, "f16int", "bf16int" small
 * integers, "f16unit", "bf16unit" random in [-1, 1), "f16wild", "bf16wild" with exponents within 2^+-6, "angle" f32 in [-2 pi, 2 pi]. */
static inline int32_t probe_kind_bytes(const char *name) {
    if (probe_kind_of(name) != NULL) return probe_kind_of(name)->bytes;
    return strcmp(name, "byte") == 0 ? 1 : name[0] == 'f' || name[0] == 'b' ? 2 : 4;
}

static inline uint32_t probe_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline uint32_t probe_half(float x, bool bf16) {
    if (x == 0) return 0;
    uint32_t u = probe_bits(x);
    if (bf16) return u >> 16;
    return (u >> 16 & 0x8000) | ((u >> 23 & 255) - 112) << 10 | (u >> 13 & 0x3ff); /* normal numbers of few bits only */
}

static inline uint32_t probe_special(const char *kind, int64_t i, uint64_t r) {
    if (strcmp(kind, "index") == 0 || strcmp(kind, "half") == 0) return (uint32_t)i;
    if (strcmp(kind, "whole") == 0) return probe_bits((float)(i - 2048));
    if (strcmp(kind, "angle") == 0) return probe_bits((float)((double)(r >> 40) / 8388608.0 - 1) * 6.2831853f);
    if (strcmp(kind, "f16int") == 0 || strcmp(kind, "bf16int") == 0) return probe_half((float)((int)(r >> 20 & 7) - 3), kind[0] == 'b');
    if (strcmp(kind, "f16unit") == 0 || strcmp(kind, "bf16unit") == 0)
        return probe_half((float)((int)(r >> 20 & 127) - 64) / 64.0f + (float)(r >> 40 & 7) / 512.0f, kind[0] == 'b');
    if (strcmp(kind, "f16wild") == 0) return (uint32_t)probe_random_float(r, 10, 5, 6);
    if (strcmp(kind, "bf16wild") == 0) return (uint32_t)probe_random_float(r, 7, 8, 6);
    return (uint32_t)(r >> 24);
}

static inline void probe_fill_inputs(const probe *p, uint8_t *in) {
    memset(in, 0, (size_t)p->in_bytes);
    int same = 0;
    for (int k = 0; k < p->input_count; k++) same += probe_kind_of(p->inputs[k].kind) != NULL;
    for (int k = 0; k < p->input_count; k++) {
        const probe_input *input = &p->inputs[k];
        const probe_kind *kind = probe_kind_of(input->kind);
        uint64_t state = probe_hash(p->name, strlen(p->name), PROBE_HASH_START) + (uint64_t)k;
        int32_t bytes = probe_kind_bytes(input->kind);
        for (int64_t i = 0; i < input->count; i++) {
            uint64_t value = kind ? probe_element(kind, i, k, same, input->count, &state) : probe_special(input->kind, i, probe_next(&state));
            memcpy(in + input->offset + i * bytes, &value, (size_t)bytes);
        }
    }
}

#endif
