/*
 * Matrix units without a machine around them: descriptors of tcgen05 and wgmma decoded field by field, operands fetched from shared memory
 * into f32 panels, and the product itself in several instruction sets. Layouts are those of the PTX ISA, 9.7.16.4 and 9.7.15.5.
 */
#ifndef FA4_EMU_MMA_H
#define FA4_EMU_MMA_H

#include <stdbool.h>
#include <stdint.h>

enum {
    EMU_MMA_K = 16,
    EMU_MMA_EXTENT_MAX = 256, /* N; M is at most half of it */
    EMU_MMA_ROWS = 64,        /* of a block of A's panel */
    EMU_MMA_DEPTH_MAX = 8,    /* steps of k that one product adds up */
    EMU_PANEL_A = EMU_MMA_EXTENT_MAX / 2 * EMU_MMA_K, /* floats of a step's panel */
    EMU_PANEL_B = EMU_MMA_EXTENT_MAX * EMU_MMA_K
};

/* A shared-memory matrix descriptor, decoded. */
typedef struct emu_matrix {
    uint32_t start, leading, stride; /* bytes */
    int32_t swizzle;                 /* bytes of the span: 0 (none), 32, 64, 128 */
} emu_matrix;

/* Each returns NULL, or which field holds what it must not (static text). */
const char *emu_matrix_decode_tcgen05(uint64_t descriptor, emu_matrix *matrix);
const char *emu_matrix_decode_wgmma(uint64_t descriptor, emu_matrix *matrix);

/* An instruction descriptor of tcgen05.mma kind::f16, decoded; m and n of both CTAs together where it is a pair's. */
typedef struct emu_mma_shape {
    int32_t m, n;
    bool d_f32;
    bool a_bf16, b_bf16;
    bool a_negate, b_negate;
    bool a_transpose, b_transpose; /* true: MN-major */
} emu_mma_shape;
const char *emu_mma_shape_decode(uint32_t descriptor, bool pair, emu_mma_shape *shape); /* pair: cta_group::2 */

/* Where the 16 bytes at an address lie when its bits 7 and up, cut by the span's mask, flip bits 4 and up. */
static inline uint32_t emu_swizzled(uint32_t address, uint32_t mask) {
    return address ^ (address >> 7 & mask) << 4;
}
/* Shared address of the 8-element chunk that starts at (mn, k): K-major chunks run along k (k a multiple of 8), MN-major along mn. */
uint32_t emu_matrix_chunk(const emu_matrix *matrix, bool transpose, uint32_t mn, uint32_t k);

/* f32 panels: element (mn, k) of B lies at [mn * EMU_MMA_K + k], of A in blocks of 64 rows, so that a block of all steps fits a core's first
 * cache. */
static inline int32_t emu_panel_a(int32_t mn, int32_t k) {
    return mn / EMU_MMA_ROWS * (EMU_MMA_ROWS * EMU_MMA_K) + k * EMU_MMA_ROWS + mn % EMU_MMA_ROWS;
}

/* D += A B over `depth` steps of 16 k, each step's panels behind those of the one before: one chain of f32 additions in rising k. */
typedef struct emu_product {
    const float *a, *b;
    float *d;   /* element (m, n) at [n * d_pitch + m] */
    int32_t d_pitch;
    int32_t m, n; /* m a multiple of 16, n of 8 */
    int32_t depth;
    bool accumulate;
} emu_product;

/* One instruction set's leaves; all bit-equal where products are normal floats (a 16-bit product is exact in f32). */
typedef struct emu_mma_kit {
    const char *name;
    /* 16-bit to f32; count is a multiple of 8. */
    void (*widen)(float *to, const uint16_t *from, int32_t count, bool bf16);
    /* Eight rows of 16 elements, `span` bytes apart from address `first` on, through a swizzle's mask; bytes is where address 0 would lie. */
    void (*rows)(float *to, const uint8_t *bytes, uint32_t first, uint32_t span, uint32_t mask, bool bf16);
    /* 32-bit words to the f32 of their low and high halves; count is a multiple of 16. */
    void (*split)(float *low, float *high, const uint32_t *words, int32_t count, bool bf16);
    /* rows[16][16] to columns: to[k * pitch + row]. */
    void (*transpose)(float *to, int32_t pitch, const float *rows);
    void (*product)(const emu_product *product);
} emu_mma_kit;
extern const emu_mma_kit emu_mma_portable, emu_mma_avx2, emu_mma_avx512;

/* The shared memory of one CTA as the fetchers see it. */
typedef struct emu_shared_view {
    const uint8_t *bytes; /* of the address `base` */
    uint32_t base, end;   /* valid addresses [base, end) */
    const uint64_t *written; /* one bit per byte from address 0, or NULL */
} emu_shared_view;

/* What went wrong with an operand: 0 nothing, 1 out of bounds, 2 never written; and where. */
typedef struct emu_fetch_fault {
    int32_t kind;
    uint32_t address;
} emu_fetch_fault;

/* Fetches extent x 16 elements into a panel. which_a picks the panel's form. */
void emu_matrix_fetch(const emu_mma_kit *kit, const emu_shared_view *shared, const emu_matrix *matrix, bool transpose, bool bf16,
                      int32_t extent, bool which_a, float *panel, emu_fetch_fault *fault);
void emu_panel_negate(float *panel, int32_t count);

#endif
