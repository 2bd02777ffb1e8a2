/* Descriptors and operand fetch of the matrix units. Every reserved or unsupported field value is refused by name. */
#include "emu_mma.h"

#include <string.h>

static uint32_t field(uint64_t word, int first, int bits) {
    return (uint32_t)(word >> first & ((1ull << bits) - 1));
}

static void decode_common(uint64_t descriptor, emu_matrix *matrix) {
    matrix->start = field(descriptor, 0, 14) << 4;
    matrix->leading = field(descriptor, 16, 14) << 4;
    matrix->stride = field(descriptor, 32, 14) << 4;
}

const char *emu_matrix_decode_tcgen05(uint64_t descriptor, emu_matrix *matrix) {
    decode_common(descriptor, matrix);
    if (field(descriptor, 14, 2) != 0) return "bits 14-15 are not 0";
    if (field(descriptor, 30, 2) != 0) return "bits 30-31 are not 0";
    if (field(descriptor, 46, 3) != 1) return "bits 46-48 are not 0b001 (a wgmma descriptor?)";
    if (field(descriptor, 49, 3) != 0) return "base offset is not 0 (not modelled)";
    if (field(descriptor, 52, 1) != 0) return "LBO mode is not relative";
    if (field(descriptor, 53, 8) != 0) return "bits 53-60 are not 0";
    switch (field(descriptor, 61, 3)) {
    case 0: matrix->swizzle = 0; break;
    case 2: matrix->swizzle = 128; break;
    case 4: matrix->swizzle = 64; break;
    case 6: matrix->swizzle = 32; break;
    case 1: return "swizzle code 1 (128 B with 32 B atoms) is not modelled";
    default: return "swizzle code is invalid";
    }
    return NULL;
}

const char *emu_matrix_decode_wgmma(uint64_t descriptor, emu_matrix *matrix) {
    static const int32_t span[4] = {0, 128, 64, 32};
    decode_common(descriptor, matrix);
    if (field(descriptor, 14, 2) != 0) return "bits 14-15 are not 0";
    if (field(descriptor, 30, 2) != 0) return "bits 30-31 are not 0";
    if (field(descriptor, 46, 3) != 0) return "bits 46-48 are not 0 (a tcgen05 descriptor?)";
    if (field(descriptor, 49, 3) != 0) return "base offset is not 0 (not modelled)";
    if (field(descriptor, 52, 10) != 0) return "bits 52-61 are not 0";
    matrix->swizzle = span[field(descriptor, 62, 2)];
    return NULL;
}

const char *emu_mma_shape_decode(uint32_t d, bool pair, emu_mma_shape *shape) {
    if (field(d, 0, 4) != 0) return "sparsity or saturation bits are set";
    if (field(d, 4, 2) > 1) return "D format is neither f16 nor f32";
    if (field(d, 6, 1) != 0 || field(d, 23, 1) != 0 || field(d, 29, 1) != 0) return "a reserved bit (6, 23 or 29) is set";
    if (field(d, 7, 3) > 1) return "A format is neither f16 nor bf16";
    if (field(d, 10, 3) > 1) return "B format is neither f16 nor bf16";
    if (field(d, 30, 2) != 0) return "max shift belongs to .ws";
    shape->d_f32 = field(d, 4, 2) == 1;
    shape->a_bf16 = field(d, 7, 3) == 1;
    shape->b_bf16 = field(d, 10, 3) == 1;
    shape->a_negate = field(d, 13, 1);
    shape->b_negate = field(d, 14, 1);
    shape->a_transpose = field(d, 15, 1);
    shape->b_transpose = field(d, 16, 1);
    shape->n = (int32_t)field(d, 17, 6) * 8;
    shape->m = (int32_t)field(d, 24, 5) * 16;
    if (shape->a_bf16 != shape->b_bf16) return "A and B formats differ";
    if (!shape->d_f32 && shape->a_bf16) return "bf16 inputs need an f32 D";
    if (pair && shape->m != 128 && shape->m != 256) return "M of a CTA pair is neither 128 nor 256";
    if (!pair && shape->m != 64 && shape->m != 128) return "M is neither 64 nor 128 (256 needs a CTA pair)";
    if (shape->n < 8 || shape->n > 256) return "N is not in 8..256";
    if (pair && shape->n % 16 != 0) return "N of a CTA pair is not a multiple of 16";
    if (shape->m == 128 && shape->n % 16 != 0) return "N is not a multiple of 16 for M 128";
    return NULL;
}

/* The pattern follows absolute address bits. */
static uint32_t swizzled(uint32_t linear, uint32_t span) {
    uint32_t mask = span == 128 ? 7 : span == 64 ? 3 : span == 32 ? 1 : 0;
    return emu_swizzled(linear, mask);
}

uint32_t emu_matrix_chunk(const emu_matrix *x, bool transpose, uint32_t mn, uint32_t k) {
    uint32_t span = (uint32_t)x->swizzle, linear;
    if (span == 0)
        linear = transpose ? x->start + mn / 8 * x->stride + k % 8 * 16 + k / 8 * x->leading
                           : x->start + mn / 8 * x->stride + mn % 8 * 16 + k / 8 * x->leading;
    else if (transpose)
        linear = x->start + mn / (span / 2) * x->leading + mn % (span / 2) * 2 + k % 8 * span + k / 8 * x->stride;
    else
        linear = x->start + mn / 8 * x->stride + mn % 8 * span + k * 2;
    linear &= 0x3ffff;
    return swizzled(linear, span);
}

static void fetch_chunk(const emu_shared_view *shared, uint32_t address, uint16_t *to, emu_fetch_fault *fault) {
    if (address < shared->base || address + 16 > shared->end) {
        if (fault->kind == 0) *fault = (emu_fetch_fault){1, address};
        memset(to, 0, 16);
        return;
    }
    if (shared->written != NULL && (shared->written[address / 64] >> (address % 64) & 0xffff) != 0xffff && fault->kind == 0)
        *fault = (emu_fetch_fault){2, address};
    memcpy(to, shared->bytes + (address - shared->base), 16);
}

/* Whether [address, + bytes), whole groups of 64, lies inside and has been written: then its chunks need no checks of their own. */
static bool sound(const emu_shared_view *shared, uint32_t address, uint32_t bytes) {
    if (address % 64 != 0 || address < shared->base || address + bytes > shared->end) return false;
    uint64_t all = ~0ull;
    for (uint32_t i = 0; shared->written != NULL && i < bytes / 64; i++) all &= shared->written[address / 64 + i];
    return all == ~0ull;
}

/* What the fetchers of one operand share. */
typedef struct fetch {
    const emu_mma_kit *kit;
    const emu_shared_view *shared;
    const emu_matrix *matrix;
    bool transpose, bf16;
    emu_fetch_fault *fault;
} fetch;

/* The address of eight rows of a swizzled tile that lie `span` bytes apart: of rows mn .. mn + 7 (K-major), or of 16 mn at k .. k + 7 (MN-major).
 * False when they are to be taken chunk by chunk. */
static bool find_rows(const fetch *f, uint32_t mn, uint32_t k, uint32_t *first) {
    const emu_matrix *x = f->matrix;
    uint32_t span = (uint32_t)x->swizzle, inner = 0, block;
    if (span == 0) return false;
    if (f->transpose) {
        block = (x->start + mn / (span / 2) * x->leading + k / 8 * x->stride) & 0x3ffff;
        inner = mn % (span / 2) * 2;
        if (block % span != 0) return false;
    } else {
        block = (x->start + mn / 8 * x->stride) & 0x3ffff;
        inner = block % span;
        block -= inner;
    }
    *first = block + inner;
    return sound(f->shared, block, 8 * span);
}

/* Eight rows of 16 elements as f32: chunks run along k, or along mn when transposed. */
static void fetch_rows(const fetch *f, uint32_t mn, uint32_t k, int32_t width, float *to) {
    _Alignas(64) uint16_t raw[8 * EMU_MMA_K];
    uint32_t first, span = (uint32_t)f->matrix->swizzle;
    if (width == EMU_MMA_K && find_rows(f, mn, k, &first)) {
        f->kit->rows(to, f->shared->bytes - f->shared->base, first, span, span == 128 ? 7 : span == 64 ? 3 : 1, f->bf16);
        return;
    }
    memset(raw, 0, sizeof raw);
    for (uint32_t r = 0; r < 8; r++)
        for (uint32_t i = 0; i < (uint32_t)width; i += 8) {
            uint32_t address = f->transpose ? emu_matrix_chunk(f->matrix, true, mn + i, k + r) : emu_matrix_chunk(f->matrix, false, mn + r, k + i);
            fetch_chunk(f->shared, address, raw + r * EMU_MMA_K + i, f->fault);
        }
    f->kit->widen(to, raw, 8 * EMU_MMA_K, f->bf16);
}

/* Chunks run along k: 16 rows at a time, turned for A. */
static void fetch_k_major(const fetch *f, int32_t extent, bool which_a, float *panel) {
    _Alignas(64) float rows[16 * EMU_MMA_K];
    for (int32_t first = 0; first < extent; first += 16) {
        float *to = which_a ? rows : panel + first * EMU_MMA_K;
        for (int32_t i = 0; i < 16 && first + i < extent; i += 8) fetch_rows(f, (uint32_t)(first + i), 0, EMU_MMA_K, to + i * EMU_MMA_K);
        if (which_a) f->kit->transpose(panel + emu_panel_a(first, 0), EMU_MMA_ROWS, rows);
    }
}

/* Chunks run along mn: rows of the panel for A, turned for B. */
static void fetch_mn_major(const fetch *f, int32_t extent, bool which_a, float *panel) {
    _Alignas(64) float rows[16 * EMU_MMA_K];
    for (int32_t first = 0; first < extent; first += 16) {
        int32_t width = extent - first < 16 ? extent - first : 16;
        for (uint32_t k = 0; k < EMU_MMA_K; k += 8) fetch_rows(f, (uint32_t)first, k, width, rows + k * 16);
        if (which_a)
            for (int32_t k = 0; k < EMU_MMA_K; k++) memcpy(panel + emu_panel_a(first, k), rows + k * 16, 16 * sizeof(float));
        else
            f->kit->transpose(panel + first * EMU_MMA_K, EMU_MMA_K, rows);
    }
}

void emu_matrix_fetch(const emu_mma_kit *kit, const emu_shared_view *shared, const emu_matrix *matrix, bool transpose, bool bf16,
                      int32_t extent, bool which_a, float *panel, emu_fetch_fault *fault) {
    fetch f = {kit, shared, matrix, transpose, bf16, fault};
    if (transpose) fetch_mn_major(&f, extent, which_a, panel);
    else fetch_k_major(&f, extent, which_a, panel);
}

void emu_panel_negate(float *panel, int32_t count) {
    for (int32_t i = 0; i < count; i++) panel[i] = -panel[i];
}
