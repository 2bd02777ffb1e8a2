/*
 * Peers whose launch is not recorded in a form that a parser reads, stated here in words: what each takes, and what it must compute. A GEMM of
 * CTA pairs with cluster launch control, block-sparse attention, and a projection with rotary embedding and 8-bit quantised output.
 */
#ifndef FA4_SPEC_PEERS_STATED_H
#define FA4_SPEC_PEERS_STATED_H

#include "check.h"
#include "core/half.h"
#include "emu/emu.h"
#include "kernel/tensormap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STATED_BUFFERS = 8 };

/* One run: how to schedule it, its buffers by parameter, and what came of it. */
typedef struct stated_run {
    const emu_module *module;
    int schedule;
    uint64_t seed;
    int32_t sms;
    pool *workers;
    void *buffers[STATED_BUFFERS];
    uint64_t bytes[STATED_BUFFERS];
    uint8_t params[2048];
    emu_report report;
    fa4_error err;
} stated_run;

static void *stated_buffer(stated_run *r, int at, uint64_t bytes) {
    r->bytes[at] = bytes;
    r->buffers[at] = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(r->buffers[at], 0xff, bytes);
    return r->buffers[at];
}

static uint16_t *stated_random(stated_run *r, int at, int64_t n, float scale, bool bf16) {
    uint16_t *t = stated_buffer(r, at, (uint64_t)n * 2);
    uint64_t seed = (uint64_t)at + 5;
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        float x = ((float)(seed >> 40) / 8388608.0f - 1) * scale;
        t[i] = bf16 ? half_bf16_from_float(x) : half_f16_from_float(x);
    }
    return t;
}

static void stated_param(stated_run *r, const ptx_function *f, int index, const void *value, size_t bytes) {
    memcpy(r->params + emu_module_program(r->module)->symbols[f->params[index]].offset, value, bytes);
}

static void stated_map(stated_run *r, const ptx_function *f, int index, kernel_tensormap map, int buffer) {
    uint8_t object[KERNEL_TENSORMAP_BYTES];
    map.address = (uint64_t)(uintptr_t)r->buffers[buffer];
    CHECK(kernel_tensormap_encode(&map, object, &r->err) == FA4_OK, "%s", r->err.text);
    stated_param(r, f, index, object, sizeof object);
}

static fa4_status stated_go(stated_run *r, const ptx_function *f, emu_launch launch) {
    emu_region regions[STATED_BUFFERS];
    launch.params = r->params, launch.param_bytes = f->param_bytes, launch.regions = regions;
    launch.seed = r->seed, launch.schedule = r->schedule, launch.sms = r->sms, launch.workers = r->workers;
    for (int i = 0; i < STATED_BUFFERS; i++)
        if (r->buffers[i]) regions[launch.region_count++] = (emu_region){r->buffers[i], r->bytes[i], "a buffer", 0};
    return emu_run(r->module, &launch, &r->report, &r->err);
}

/* D = A B^T, 1024^3, f16: pairs of CTAs, a cluster's tile 256 x 128 in two halves; error relative to |sum| + 1. */
static double stated_gemm(stated_run *r, const ptx_function *f) {
    enum { N = 1024 };
    const uint16_t *a = stated_random(r, 0, N * N, 1, false), *b = stated_random(r, 1, N * N, 1, false), *d = stated_buffer(r, 2, N * N * 2);
    kernel_tensormap map = {.type = KERNEL_TENSORMAP_F16, .rank = 3, .swizzle = 3, .dims = {64, N, 16}, .strides = {0, 2048, 128}, .box = {64, 128, 2}};
    stated_map(r, f, 0, map, 0);
    map.box[1] = 32;
    stated_map(r, f, 1, map, 1);
    stated_map(r, f, 2, (kernel_tensormap){.type = KERNEL_TENSORMAP_F16, .rank = 2, .swizzle = 2, .dims = {N, N}, .strides = {0, 2048}, .box = {32, 128}}, 2);
    if (stated_go(r, f, (emu_launch){.grid = {128, 1, 1}, .block = {256, 1, 1}, .cluster = {2, 1, 1}, .shared_bytes = 222208}) != FA4_OK) return NAN;
    double worst = 0;
    for (int m = 0; m < N; m += 37)
        for (int n = 0; n < N; n++) {
            double sum = 0;
            for (int k = 0; k < N; k++) sum += (double)half_f16_to_float(a[m * N + k]) * half_f16_to_float(b[n * N + k]);
            double e = fabs(sum - half_f16_to_float(d[m * N + n])) / (fabs(sum) + 1);
            if (!(e <= worst)) worst = e;
        }
    return worst;
}

/* Attention over four of eight key blocks per head and tile of 128 rows, each with a length of its own; 2 heads, 257 queries, D 64, bf16, LSE. */
static double stated_sparse(stated_run *r, const ptx_function *f) {
    enum { D = 64, SQ = 257, SK = 1023, HEADS = 2, TILES = 3, PICKED = 4 };
    static const int32_t sizes[8] = {128, 128, 77, 128, 1, 128, 128, 127};
    int32_t *index = stated_buffer(r, 0, HEADS * TILES * PICKED * 4), *lengths = stated_buffer(r, 1, sizeof sizes), picked = PICKED;
    float *lse = stated_buffer(r, 2, HEADS * SQ * 4), scale = 1.44269504f / 8;
    const uint16_t *t[3];
    for (int i = 0; i < 3; i++) t[i] = stated_random(r, 3 + i, (i ? SK : SQ) * HEADS * D, i < 2 ? 3.0f : 1.7f, true);
    const uint16_t *o = stated_buffer(r, 6, SQ * HEADS * D * 2);
    memcpy(lengths, sizes, sizeof sizes);
    for (int i = 0; i < HEADS * TILES * PICKED; i++) index[i] = i % PICKED * 2 + i / PICKED % 2;
    for (int i = 0; i < 3; i++) stated_param(r, f, i, &r->buffers[i], 8);
    for (int i = 0; i < 4; i++) {
        uint64_t rows = i == 0 || i == 3 ? SQ : SK;
        stated_map(r, f, 3 + i, (kernel_tensormap){.type = KERNEL_TENSORMAP_BF16, .rank = 4, .swizzle = 3, .dims = {D, rows, HEADS, 1}, .strides = {0, 128, rows * 128, rows * 256}, .box = {64, 128, 1, 1}}, 3 + i);
    }
    stated_param(r, f, 7, &picked, 4);
    stated_param(r, f, 8, &scale, 4);
    if (stated_go(r, f, (emu_launch){.grid = {TILES, HEADS, 1}, .block = {512, 1, 1}, .cluster = {1, 1, 1}, .shared_bytes = 232448}) != FA4_OK) return NAN;
    double worst = 0, p[PICKED * 128];
    for (int h = 0; h < HEADS; h++)
        for (int q = 0; q < SQ; q += 7) {
            const int32_t *list = index + (h * TILES + q / 128) * PICKED;
            double most = -INFINITY, sum = 0;
            for (int j = 0; j < PICKED * 128; j++) {
                double dot = 0;
                p[j] = -INFINITY;
                if (j % 128 >= sizes[list[j / 128]]) continue;
                const uint16_t *key = t[1] + (h * SK + list[j / 128] * 128 + j % 128) * D;
                for (int c = 0; c < D; c++) dot += (double)half_bf16_to_float(t[0][(h * SQ + q) * D + c]) * half_bf16_to_float(key[c]);
                p[j] = dot / 8;
                most = fmax(most, p[j]);
            }
            for (int j = 0; j < PICKED * 128; j++) sum += p[j] = exp(p[j] - most);
            for (int c = 0; c < D; c++) {
                double v = 0;
                for (int j = 0; j < PICKED * 128; j++)
                    if (p[j] > 0) v += p[j] * half_bf16_to_float(t[2][(h * SK + list[j / 128] * 128 + j % 128) * D + c]);
                double e = fabs(v / sum - half_bf16_to_float(o[(h * SQ + q) * D + c]));
                if (!(e <= worst)) worst = e;
            }
            double e = fabs(most + log(sum) - (double)lse[h * SQ + q]);
            if (!(e <= worst)) worst = e;
        }
    return worst;
}

static double stated_e4m3(uint8_t x) {
    int exponent = x >> 3 & 15, mantissa = x & 7;
    double v = exponent ? ldexp(8 + mantissa, exponent - 10) : ldexp(mantissa, -9);
    return x & 0x80 ? -v : v;
}

enum { ROPE_TOKENS = 128, ROPE_K = 1536, ROPE_HEADS = 128, ROPE_D = 192 };

/* One head's features before quantisation, [token][feature]: the product rounded to bf16, its last 64 features rotated in pairs. */
static void stated_features(const uint16_t *const t[4], int head, double *out) {
    for (int token = 0; token < ROPE_TOKENS; token++) {
        double acc[ROPE_D] = {0}, *to = out + token * ROPE_D;
        for (int k = 0; k < ROPE_K; k++) {
            double x = half_bf16_to_float(t[0][token * ROPE_K + k]);
            for (int i = 0; i < ROPE_D; i++) acc[i] += x * half_bf16_to_float(t[1][(int64_t)k * ROPE_HEADS * ROPE_D + head * ROPE_D + i]);
        }
        for (int i = 0; i < ROPE_D; i++) to[i] = acc[i] = half_bf16_to_float(half_bf16_from_float((float)acc[i]));
        for (int j = 0; j < 64; j++) {
            double p = acc[128 + j % 32 * 2], q = acc[128 + j % 32 * 2 + 1], c = half_bf16_to_float(t[2][token * 64 + j]), s = half_bf16_to_float(t[3][token * 64 + j]);
            to[128 + j] = j < 32 ? p * c - q * s : p * s + q * c;
        }
    }
}

/* Largest distance, in units of what e4m3 with one scale per 32 may lose: |x| / 16 + largest / 128 (bf16 rounds the product either way). */
static double stated_quantised(const stated_run *r, int head, const double *x, bool by_row) {
    const uint8_t *data = r->buffers[by_row ? 2 : 1], *scales = r->buffers[by_row ? 4 : 3];
    double worst = 0;
    for (int token = 0; token < ROPE_TOKENS; token++)
        for (int i = 0; i < ROPE_D; i++) {
            double most = 0;
            for (int j = 0; j < 32; j++) most = fmax(most, fabs(by_row ? x[token * ROPE_D + i / 32 * 32 + j] : x[(token / 32 * 32 + j) * ROPE_D + i]));
            int64_t at = by_row ? ((int64_t)token * ROPE_HEADS + head) * (ROPE_D / 32) + i / 32 : ((int64_t)(token / 32) * ROPE_HEADS + head) * ROPE_D + i;
            double v = ldexp(stated_e4m3(data[((int64_t)token * ROPE_HEADS + head) * ROPE_D + i]), scales[at] - 127), want = x[token * ROPE_D + i];
            double e = fabs(v - want) / (fabs(want) / 16 + most / 128);
            if (ldexp(1, scales[at] - 127) > 2.05 * most / 448) e = NAN; /* a scale that wastes bits */
            if (!(e <= worst)) worst = e;
        }
    return worst;
}

static double stated_rope(stated_run *r, const ptx_function *f) {
    enum { PLACES = ROPE_TOKENS * ROPE_HEADS * ROPE_D };
    const uint16_t *t[4] = {stated_random(r, 6, ROPE_TOKENS * ROPE_K, 1, true), stated_random(r, 7, (int64_t)ROPE_K * ROPE_HEADS * ROPE_D, 0.04f, true),
                            stated_random(r, 0, ROPE_TOKENS * 64, 1, true), stated_random(r, 5, ROPE_TOKENS * 64, 1, true)};
    double worst = 0, *x = malloc(ROPE_TOKENS * ROPE_D * sizeof *x);
    stated_buffer(r, 1, PLACES), stated_buffer(r, 2, PLACES);
    stated_buffer(r, 3, PLACES / 32), stated_buffer(r, 4, PLACES / 32);
    for (int i = 0; i < 6; i++) stated_param(r, f, i, &r->buffers[i], 8);
    stated_map(r, f, 6, (kernel_tensormap){.type = KERNEL_TENSORMAP_BF16, .rank = 2, .swizzle = 3, .dims = {ROPE_K, ROPE_TOKENS}, .strides = {0, 3072}, .box = {64, 128}}, 6);
    stated_map(r, f, 7, (kernel_tensormap){.type = KERNEL_TENSORMAP_BF16, .rank = 2, .swizzle = 3, .dims = {ROPE_HEADS * ROPE_D, ROPE_K}, .strides = {0, 49152}, .box = {64, 64}}, 7);
    fa4_status status = stated_go(r, f, (emu_launch){.grid = {1, 1, ROPE_HEADS}, .block = {448, 1, 1}, .shared_bytes = 214144});
    for (int head = 3; head < ROPE_HEADS && status == FA4_OK; head += 61) {
        stated_features(t, head, x);
        worst = fmax(worst, fmax(stated_quantised(r, head, x, true), stated_quantised(r, head, x, false)));
        if (isnan(stated_quantised(r, head, x, true)) || isnan(stated_quantised(r, head, x, false))) worst = NAN;
    }
    free(x);
    return status == FA4_OK ? worst : NAN;
}

typedef struct stated_peer {
    const char *name;
    double (*run)(stated_run *r, const ptx_function *f);
    double bound;
} stated_peer;

static const stated_peer STATED[] = {{"tirx_gemm_fp16_1024", stated_gemm, 1e-3}, {"tirx_bsa_fwd_blk128", stated_sparse, 1.8e-2}, {"tirx_proj_rope_bf16", stated_rope, 1.05}};

/* False: not one of these. Fewer SMs than clusters make those that cancel launches do so. */
static bool stated_try(const char *name, const char *ptx, pool *workers) {
    static const struct { int schedule; uint64_t seed; int32_t sms; } runs[] = {{EMU_ROUND_ROBIN, 0, 0}, {EMU_RANDOM, 1, 0}, {EMU_STARVE, 2, 0}, {EMU_RANDOM, 3, 6}, {EMU_STARVE, 7, 2}};
    const stated_peer *peer = NULL;
    for (size_t i = 0; i < sizeof STATED / sizeof *STATED; i++)
        if (strcmp(name, STATED[i].name) == 0) peer = &STATED[i];
    if (peer == NULL) return false;
    emu_module *m = NULL;
    fa4_error err = {0};
    const ptx_function *f = NULL;
    fa4_status status = emu_module_load(ptx, strlen(ptx), NULL, &m, &err);
    CHECK(status == FA4_OK, "%s: %s", name, err.text);
    bool cancels = strstr(ptx, "clusterlaunchcontrol") != NULL;
    for (size_t i = 0; status == FA4_OK && i < (cancels ? 5 : 3); i++) {
        stated_run *r = calloc(1, sizeof *r);
        *r = (stated_run){.module = m, .schedule = runs[i].schedule, .seed = runs[i].seed, .sms = runs[i].sms, .workers = workers};
        double error = ptx_program_entry(emu_module_program(m), NULL, &f, &err) == FA4_OK ? peer->run(r, f) : NAN;
        printf("%-28s schedule %d seed %llu: %s, error %.2g, %.2f M instructions, %lld CTAs\n", name, r->schedule, (unsigned long long)r->seed,
               isnan(error) ? r->err.text : "ended", error, (double)r->report.instructions * 1e-6, (long long)r->report.ctas);
        CHECK(error <= peer->bound, "%s, schedule %d, seed %llu, %d SMs: error %g, bound %g: %s", name, r->schedule, (unsigned long long)r->seed, r->sms, error, peer->bound, r->err.text);
        for (int b = 0; b < STATED_BUFFERS; b++) free(r->buffers[b]);
        free(r);
    }
    emu_module_destroy(m);
    return true;
}

#endif
