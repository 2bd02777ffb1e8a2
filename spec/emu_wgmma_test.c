/*
 * wgmma on small kernels: every swizzle, both majors, operands from shared memory and registers, f16 and bf16, several N. Inputs are small
 * whole numbers, so sums are exact and any order gives the same bits. The expected result comes from the layouts' formulas, element by
 * element. FA4_PROBE_WRITE=folder writes the kernels for a device, FA4_PROBE_READ=file compares its outputs (per kernel a status word and
 * 128 * 128 words). An H200 (driver 580.159) gave the same bits for all 144.
 */
#include "check.h"
#include "core/half.h"
#include "emu/emu.h"

#include <stdlib.h>
#include <string.h>

enum { OUT_WORDS = 128 * 128, SHARED_BYTES = 40960, B_START = 8192 };

typedef struct variant {
    int n, swizzle;
    bool bf16, registers, a_mn, b_mn, negate, accumulate;
} variant;

static char text[65536];
static uint32_t out[OUT_WORDS] __attribute__((aligned(256)));

static int value_at(uint32_t element) { return (int)(element * 37 + 11) % 17 - 8; }
static int register_value(uint32_t half) { return (int)(half * 5 % 13) - 6; }

/* Leading and stride byte offsets that pack a tile without gaps. */
static void offsets(const variant *v, bool mn, uint32_t *leading, uint32_t *stride) {
    uint32_t span = (uint32_t)v->swizzle;
    *stride = span ? 8 * span : 256;
    *leading = span ? (mn ? 16 * span : 16) : 128;
}

static uint64_t descriptor(const variant *v, uint32_t start, bool mn) {
    uint32_t leading, stride;
    offsets(v, mn, &leading, &stride);
    uint64_t code = v->swizzle == 128 ? 1 : v->swizzle == 64 ? 2 : v->swizzle == 32 ? 3 : 0;
    return (start & 0x3ffff) >> 4 | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | code << 62;
}

/* Byte of element (mn, k), relative to the 1024-aligned start of shared memory. */
static uint32_t place(const variant *v, uint32_t start, bool mn_major, uint32_t mn, uint32_t k) {
    uint32_t leading, stride, span = (uint32_t)v->swizzle, lin;
    offsets(v, mn_major, &leading, &stride);
    if (span && mn_major) lin = start + mn / (span / 2) * leading + mn % (span / 2) * 2 + k % 8 * span + k / 8 * stride;
    else if (span) lin = start + mn / 8 * stride + mn % 8 * span + k * 2;
    else if (mn_major) lin = start + mn / 8 * stride + mn % 8 * 2 + k % 8 * 16 + k / 8 * leading;
    else lin = start + mn / 8 * stride + mn % 8 * 16 + k / 8 * leading + k % 8 * 2;
    return lin ^ (lin >> 7 & (span == 128 ? 7u : span == 64 ? 3u : span == 32 ? 1u : 0u)) << 4;
}

static size_t add_line(size_t n, const char *line) {
    size_t length = strlen(line);
    memcpy(text + n, line, length + 1);
    return n + length;
}

static void write_kernel(const variant *v) {
    const char *type = v->bf16 ? "bf16" : "f16";
    size_t n = 0;
    char line[512];
    n = add_line(n, ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 pd)\n.maxntid 128\n{\n"
                    ".shared .align 1024 .b8 sm[40960];\n.reg .pred p; .reg .b16 h; .reg .b32 t, i, x, y, s, a<4>; .reg .f32 f, d<128>; .reg .b64 o, da, db, base;\n"
                    "mov.u32 t, %tid.x; mov.u32 s, sm; mov.u32 i, t;\n");
    snprintf(line, sizeof line, "L: mad.lo.s32 x, i, 37, 11; rem.u32 x, x, 17; sub.s32 x, x, 8; cvt.rn.f32.s32 f, x; cvt.rn.%s.f32 h, f; shl.b32 y, i, 1; add.s32 y, y, s;\n"
             "st.shared.b16 [y], h; add.s32 i, i, 128; setp.lt.u32 p, i, %d; @p bra L;\nfence.proxy.async.shared::cta; bar.sync 0;\n", type, SHARED_BYTES / 2);
    n = add_line(n, line);
    for (int j = 0; j < 4 && v->registers; j++) {
        for (int half = 1; half >= 0; half--) {
            snprintf(line, sizeof line, "mad.lo.s32 x, t, 8, %d; mul.lo.s32 x, x, 5; rem.u32 x, x, 13; sub.s32 x, x, 6; cvt.rn.f32.s32 f, x; cvt.rn.%s.f32 h, f; cvt.u32.u16 x, h;\n%s",
                     2 * j + half, type, half ? "shl.b32 y, x, 16;\n" : "");
            n = add_line(n, line);
        }
        snprintf(line, sizeof line, "or.b32 a%d, x, y;\n", j);
        n = add_line(n, line);
    }
    for (int j = 0; j < v->n / 2; j++) {
        snprintf(line, sizeof line, "add.s32 x, t, %d; cvt.rn.f32.s32 d%d, x;\n", j, j);
        n = add_line(n, line);
    }
    snprintf(line, sizeof line, "cvt.u64.u32 base, s; shr.u64 base, base, 4; mov.u64 da, 0x%llx; add.s64 da, da, base; mov.u64 db, 0x%llx; add.s64 db, db, base;\nsetp.eq.s32 p, t, %s;\n"
             "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n%dk16.f32.%s.%s {", (unsigned long long)descriptor(v, 0, v->a_mn),
             (unsigned long long)descriptor(v, B_START, v->b_mn), v->accumulate ? "t" : "-1", v->n, type, type);
    n = add_line(n, line);
    for (int j = 0; j < v->n / 2; j++) {
        snprintf(line, sizeof line, "%sd%d", j ? ", " : "", j);
        n = add_line(n, line);
    }
    if (v->registers) snprintf(line, sizeof line, "}, {a0, a1, a2, a3}, db, p, %d, 1, %d;\n", v->negate ? -1 : 1, v->b_mn);
    else snprintf(line, sizeof line, "}, da, db, p, %d, 1, %d, %d;\n", v->negate ? -1 : 1, v->a_mn, v->b_mn);
    n = add_line(n, line);
    n = add_line(n, "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nld.param.u64 o, [pd]; mul.wide.u32 base, t, 512; add.s64 o, o, base;\n");
    for (int j = 0; j < v->n / 2; j++) {
        snprintf(line, sizeof line, "st.global.f32 [o+%d], d%d;\n", 4 * j, j);
        n = add_line(n, line);
    }
    add_line(n, "ret;\n}\n");
}

/* Register i of thread t. */
static float wanted(const variant *v, uint32_t t, uint32_t i) {
    uint32_t w = t / 32, l = t % 32, row = 16 * w + l / 4 + 8 * (i >> 1 & 1), column = 8 * (i >> 2) + 2 * (l % 4) + (i & 1);
    int sum = 0;
    for (uint32_t k = 0; k < 16; k++) {
        int b = value_at(place(v, B_START, v->b_mn, column, k) / 2), a;
        if (v->registers) { /* who holds A (row, k): lane 4 * (row % 8) + k % 8 / 2, register and half from row / 8, k / 8, k % 2 */
            uint32_t owner = 32 * w + 4 * (row % 8) + k % 8 / 2, word = (row % 16 >= 8) + 2 * (k / 8);
            a = register_value(owner * 8 + 2 * word + k % 2);
        } else {
            a = value_at(place(v, 0, v->a_mn, row, k) / 2);
        }
        sum += a * b;
    }
    if (v->negate) sum = -sum;
    return (float)(sum + (v->accumulate ? (int)(t + i) : 0));
}

static void name_of(const variant *v, char *name, size_t bytes) {
    snprintf(name, bytes, "n%d swizzle %d %s A %s B %s%s%s", v->n, v->swizzle, v->bf16 ? "bf16" : "f16", v->registers ? "registers" : v->a_mn ? "MN" : "K",
             v->b_mn ? "MN" : "K", v->negate ? " negated" : "", v->accumulate ? " accumulated" : "");
}

static void check_variant(const variant *v, const uint32_t *device) {
    static emu_report report;
    fa4_error err = {0};
    emu_module *m;
    char name[128];
    name_of(v, name, sizeof name);
    write_kernel(v);
    if (emu_module_load(text, strlen(text), NULL, &m, &err) != FA4_OK) {
        CHECK(false, "%s: %s", name, err.text);
        return;
    }
    uint64_t param = (uint64_t)(uintptr_t)out;
    emu_region region = {out, sizeof out, "out", 0};
    emu_launch launch = {.grid = {1, 1, 1}, .block = {128, 1, 1}, .params = &param, .param_bytes = 8, .regions = &region, .region_count = 1};
    fa4_status status = emu_run(m, &launch, &report, &err);
    emu_module_destroy(m);
    int wrong = 0, other = 0;
    for (uint32_t t = 0; t < 128 && status == FA4_OK; t++)
        for (uint32_t i = 0; i < (uint32_t)v->n / 2; i++) {
            wrong += out[t * 128 + i] != half_bits_of_float(wanted(v, t, i) + 0.0f);
            other += device && out[t * 128 + i] != device[t * 128 + i];
        }
    CHECK(status == FA4_OK && wrong == 0, "%s: %d of %d elements; %s", name, wrong, 64 * v->n, err.text);
    if (device) CHECK(other == 0, "%s: %d of %d elements differ from the device", name, other, 64 * v->n);
}

int main(void) {
    static const int ns[] = {8, 72, 256}, swizzles[] = {128, 64, 32, 0};
    static uint32_t device[2 + OUT_WORDS];
    const char *folder = getenv("FA4_PROBE_WRITE"), *results = getenv("FA4_PROBE_READ");
    FILE *read = results ? fopen(results, "rb") : NULL;
    int index = 0, compared = 0;
    for (int form = 0; form < 6; form++)
        for (int s = 0; s < 4; s++)
            for (int j = 0; j < 3; j++)
                for (int bf16 = 0; bf16 < 2; bf16++, index++) {
                    variant v = {ns[j], swizzles[s], bf16, form % 3 == 2, form % 3 == 1, form / 3, index % 5 == 0, index % 2 == 0 || index % 3 == 0};
                    bool have = read != NULL && fread(device, sizeof device, 1, read) == 1 && device[0] == 0;
                    check_variant(&v, have ? device + 2 : NULL);
                    compared += have;
                    if (folder == NULL) continue;
                    char path[1024];
                    snprintf(path, sizeof path, "%s/%03d.ptx", folder, index);
                    FILE *file = fopen(path, "wb");
                    if (file != NULL) fputs(text, file), fclose(file);
                }
    if (read != NULL) printf("%d of %d compared with the device\n", compared, index), fclose(read);
    return check_report();
}
