/* The matrix units against naive loops built from the layouts' formulas, every instruction set against the portable one. */
#include "check.h"
#include "core/half.h"
#include "emu/emu_mma.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t state = 12345;
static uint32_t random_word(void) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* The formulas of the ISA's canonical layouts for one element, written independently of emu_matrix_chunk. */
static uint32_t element_address(uint32_t start, uint32_t lbo, uint32_t sbo, int swizzle, int mn_major, uint32_t mn, uint32_t k) {
    uint32_t lin;
    if (!mn_major && swizzle) lin = start + (mn / 8) * sbo + (mn % 8) * (uint32_t)swizzle + k * 2;
    else if (mn_major && swizzle == 128) lin = start + (mn / 64) * lbo + (mn % 64) * 2 + (k % 8) * 128 + (k / 8) * sbo;
    else if (mn_major && swizzle == 64) lin = start + (mn / 32) * lbo + (mn % 32) * 2 + (k % 8) * 64 + (k / 8) * sbo;
    else if (mn_major && swizzle == 32) lin = start + (mn / 16) * lbo + (mn % 16) * 2 + (k % 8) * 32 + (k / 8) * sbo;
    else if (!mn_major) lin = start + (mn / 8) * sbo + (mn % 8) * 16 + (k / 8) * lbo + (k % 8) * 2;
    else lin = start + (mn / 8) * sbo + (mn % 8) * 2 + (k % 8) * 16 + (k / 8) * lbo;
    uint32_t bits = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
    return lin ^ (((lin >> 7) & bits) << 4);
}

static void check_fetch(const emu_mma_kit *kit, const uint8_t *memory, int swizzle, int mn_major, bool which_a, int extent) {
    static float panel[EMU_MMA_EXTENT_MAX * EMU_MMA_K];
    uint32_t start = 2048 + (swizzle ? 0 : 32), lbo = mn_major && swizzle ? 8192 : 512, sbo = swizzle ? 8 * (uint32_t)swizzle : 1024;
    if (mn_major && !swizzle) lbo = 16384, sbo = 128;
    emu_matrix matrix = {start, lbo, sbo, swizzle};
    emu_shared_view view = {memory, 0, 65536, NULL};
    emu_fetch_fault fault = {0};
    emu_matrix_fetch(kit, &view, &matrix, mn_major, false, extent, which_a, panel, &fault);
    int wrong = 0;
    for (uint32_t mn = 0; mn < (uint32_t)extent; mn++)
        for (uint32_t k = 0; k < EMU_MMA_K; k++) {
            uint16_t h;
            memcpy(&h, memory + element_address(start, lbo, sbo, swizzle, mn_major, mn, k), 2);
            float got = which_a ? panel[emu_panel_a((int32_t)mn, (int32_t)k)] : panel[mn * EMU_MMA_K + k];
            wrong += got != half_f16_to_float(h);
        }
    CHECK(wrong == 0 && fault.kind == 0, "%s: swizzle %d, mn-major %d, A %d, extent %d: %d elements", kit->name, swizzle, mn_major,
          which_a, extent, wrong);
}

static float panel_a[EMU_MMA_DEPTH_MAX * EMU_PANEL_A], panel_b[EMU_MMA_DEPTH_MAX * EMU_PANEL_B];

static void check_product(const emu_mma_kit *kit, int m, int n, int depth, bool accumulate) {
    static float d[256 * 128], want[256 * 128];
    for (int i = 0; i < EMU_MMA_DEPTH_MAX * EMU_PANEL_A; i++) panel_a[i] = half_f16_to_float(half_f16_from_float((float)random_word() / 8388608.0f - 1));
    for (int i = 0; i < EMU_MMA_DEPTH_MAX * EMU_PANEL_B; i++) panel_b[i] = half_f16_to_float(half_f16_from_float((float)random_word() / 8388608.0f - 1));
    for (int i = 0; i < 256 * 128; i++) d[i] = want[i] = (float)i * 1e-3f;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float s = accumulate ? want[j * 128 + i] : 0;
            for (int k = 0; k < depth * EMU_MMA_K; k++)
                s = fmaf(panel_a[k / EMU_MMA_K * EMU_PANEL_A + emu_panel_a(i, k % EMU_MMA_K)], panel_b[k / EMU_MMA_K * EMU_PANEL_B + j * EMU_MMA_K + k % EMU_MMA_K], s);
            want[j * 128 + i] = s;
        }
    emu_product p = {panel_a, panel_b, d, 128, m, n, depth, accumulate};
    kit->product(&p);
    CHECK(memcmp(d, want, sizeof d) == 0, "%s: m %d, n %d, depth %d, accumulate %d", kit->name, m, n, depth, accumulate);
}

/* Every 16-bit value in both halves of a word. A NaN's bits may differ. */
static void check_split(const emu_mma_kit *kit, bool bf16) {
    static uint32_t words[65536];
    static float low[65536], high[65536];
    int wrong = 0;
    for (uint32_t i = 0; i < 65536; i++) words[i] = i | (i ^ 0x5aa5) << 16;
    kit->split(low, high, words, 65536, bf16);
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t l = (uint16_t)i, h = (uint16_t)(i ^ 0x5aa5);
        float x = bf16 ? half_bf16_to_float(l) : half_f16_to_float(l), y = bf16 ? half_bf16_to_float(h) : half_f16_to_float(h);
        wrong += (x == x ? memcmp(&x, &low[i], 4) != 0 : low[i] == low[i]) + (y == y ? memcmp(&y, &high[i], 4) != 0 : high[i] == high[i]);
    }
    CHECK(wrong == 0, "%s: %d halves of words, bf16 %d", kit->name, wrong, bf16);
}

static void check_descriptors(void) {
    emu_matrix matrix;
    uint64_t good = 0x4000404004000000ull | (0x3000 >> 4);
    CHECK(emu_matrix_decode_tcgen05(good, &matrix) == NULL, "a good descriptor is refused");
    CHECK(matrix.start == 0x3000 && matrix.leading == 16384 && matrix.stride == 1024 && matrix.swizzle == 128, "fields");
    CHECK(emu_matrix_decode_tcgen05(good & ~(1ull << 46), &matrix) != NULL, "version bit");
    CHECK(emu_matrix_decode_tcgen05(good | 1ull << 49, &matrix) != NULL, "base offset");
    CHECK(emu_matrix_decode_tcgen05(good | 1ull << 14, &matrix) != NULL, "bit 14");
    CHECK(emu_matrix_decode_tcgen05(good | 1ull << 61, &matrix) != NULL, "swizzle 3");
    CHECK(emu_matrix_decode_wgmma(good, &matrix) != NULL, "tcgen05 descriptor given to wgmma");
    CHECK(emu_matrix_decode_wgmma(good & ~(1ull << 46), &matrix) == NULL && matrix.swizzle == 128, "wgmma");
    emu_mma_shape shape;
    CHECK(emu_mma_shape_decode(0x08210490, false, &shape) == NULL, "bf16 P V");
    CHECK(shape.m == 128 && shape.n == 128 && shape.d_f32 && shape.a_bf16 && shape.b_transpose && !shape.a_transpose, "fields");
    CHECK(emu_mma_shape_decode(0x10200010, false, &shape) != NULL, "M 256");
    for (int bit = 0; bit < 4; bit++) CHECK(emu_mma_shape_decode(0x08200010u | 1u << bit, false, &shape) != NULL, "bit %d", bit);
    CHECK(emu_mma_shape_decode(0x08200010u | 1u << 6, false, &shape) != NULL, "bit 6");
    CHECK(emu_mma_shape_decode(0x08200010u | 1u << 29, false, &shape) != NULL, "bit 29");
}

static void print_speed(const emu_mma_kit *kit) {
    static float d[128 * 128];
    emu_product p = {panel_a, panel_b, d, 128, 128, 128, EMU_MMA_DEPTH_MAX, true};
    double best = 1e9;
    for (int round = 0; round < 20; round++) {
        struct timespec t0, t1;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t0);
        for (int i = 0; i < 10; i++) kit->product(&p);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t1);
        best = fmin(best, (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec));
    }
    printf("%s: %.1f GFLOP/s\n", kit->name, 10.0 * EMU_MMA_DEPTH_MAX * 2 * 128 * 128 * 16 / best * 1e-9);
}

int main(void) {
    const emu_mma_kit *kits[3] = {&emu_mma_portable};
    int count = 1;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) kits[count++] = &emu_mma_avx2;
    if (__builtin_cpu_supports("avx512bw")) kits[count++] = &emu_mma_avx512;
    uint8_t *memory = malloc(65536);
    for (int i = 0; i < 65536; i += 2) {
        uint16_t h = half_f16_from_float((float)(random_word() % 4096) - 2048);
        memcpy(memory + i, &h, 2);
    }
    check_descriptors();
    for (int i = 0; i < count; i++) {
        for (int swizzle = 0; swizzle <= 128; swizzle = swizzle ? 2 * swizzle : 32)
            for (int form = 0; form < 4; form++)
                for (int extent = form & 2 ? 64 : 24; extent <= 128; extent += 64)
                    check_fetch(kits[i], memory, swizzle, form & 1, form & 2, extent);
        for (int m = 16; m <= 128; m += m < 64 ? 48 : 64)
            for (int n = 8; n <= 256; n += 56) check_product(kits[i], m, n, 1 + n % 3, n & 16);
        check_split(kits[i], false);
        check_split(kits[i], true);
        print_speed(kits[i]);
    }
    free(memory);
    return check_report();
}
