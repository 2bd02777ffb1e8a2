/*
 * tcgen05.mma of one CTA in all its forms, from shared-memory images that this file lays out by the ISA's formulas: M 64 and 128, N from 8 to
 * 256, every swizzle, both majors, f16 and bf16, f32 and f16 D, negation, A in tensor memory, the accumulate flag with a scale, disabled lanes;
 * read back by tcgen05.ld of every width. Operands are small integers, so each result is exact.
 */
#include "check.h"
#include "core/half.h"
#include "emu/emu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { A_BYTES = 16384, B_BYTES = 32768, RAW = A_BYTES + B_BYTES, DATA_BYTES = RAW + 4096, COLUMNS = 256 };

typedef struct form {
    int m, n, swizzle; /* bytes of the span */
    bool a_mn, b_mn;   /* MN-major */
    bool bf16, d_f16, negate_a, negate_b, in_tmem, masked;
    int scale;         /* of the second mma's D */
} form;

static uint8_t data[DATA_BYTES] __attribute__((aligned(256)));
static uint32_t out[128 * COLUMNS] __attribute__((aligned(256)));
static float a[128][16], b[256][16];

/* Where element (mn, k) lies in an operand's image, and the image's strides. */
static uint32_t place(int swizzle, bool mn_major, uint32_t mn, uint32_t k) {
    uint32_t span = (uint32_t)swizzle, linear;
    if (span == 0 && mn_major) return mn / 8 * 256 + mn % 8 * 2 + k % 8 * 16 + k / 8 * 128;
    if (span == 0) return mn / 8 * 256 + mn % 8 * 16 + k / 8 * 128 + k % 8 * 2;
    if (mn_major) linear = mn / (span / 2) * (16 * span) + mn % (span / 2) * 2 + k % 8 * span + k / 8 * (8 * span);
    else linear = mn / 8 * (8 * span) + mn % 8 * span + k * 2;
    return linear ^ (linear >> 7 & (span == 128 ? 7u : span == 64 ? 3u : 1u)) << 4;
}

static uint64_t descriptor(const form *f, uint32_t offset) {
    static const uint64_t code[] = {[0] = 0, [1] = 6, [2] = 4, [4] = 2};
    uint64_t span = (uint64_t)f->swizzle, leading = span ? 16 * span : 128, stride = span ? 8 * span : 256;
    return (uint64_t)(2048 + offset) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1ull << 46 | code[span / 32] << 61;
}

static uint32_t instruction(const form *f) {
    return (f->d_f16 ? 0u : 1u << 4) | (f->bf16 ? 1u << 7 | 1u << 10 : 0) | (uint32_t)f->negate_a << 13 | (uint32_t)f->negate_b << 14 | (uint32_t)f->a_mn << 15 |
           (uint32_t)f->b_mn << 16 | (uint32_t)(f->n / 8) << 17 | (uint32_t)(f->m / 16) << 24;
}

static void put(const form *f, uint32_t at, float x) {
    uint16_t h = f->bf16 ? half_bf16_from_float(x) : half_f16_from_float(x);
    memcpy(data + at, &h, 2);
}

static void fill(const form *f) {
    uint32_t seed = 7;
    memset(data, 0, sizeof data);
    for (int i = 0; i < 256; i++)
        for (int k = 0; k < 16; k++) {
            seed = seed * 1664525 + 1013904223;
            b[i][k] = (float)((int)(seed >> 24) % 5 - 2);
            put(f, A_BYTES + place(f->swizzle, f->b_mn, (uint32_t)i, (uint32_t)k), b[i][k]);
            if (i >= 128) continue;
            a[i][k] = (float)((int)(seed >> 16 & 255) % 5 - 2);
            put(f, place(f->swizzle, f->a_mn, (uint32_t)i, (uint32_t)k), a[i][k]);
            put(f, RAW + (uint32_t)i * 32 + (uint32_t)k * 2, a[i][k]);
        }
}

static const char TEXT[] =
    ".version 9.0\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n.visible .entry k(.param .u64 out, .param .u64 data)\n{\n"
    ".reg .pred p, q, r;\n.reg .b32 t, w, s, u, v, m, y, z, w0, w1, w2, w3, w4, w5, w6, w7;\n.reg .b32 d<%d>;\n.reg .b64 o, c, e, f;\n"
    "mov.u32 t, %%tid.x; shr.u32 w, t, 5; mov.u32 s, dyn; setp.eq.s32 p, t, 0; setp.eq.s32 r, w, 0; ld.param.u64 c, [data]; ld.param.u64 o, [out];\n"
    "@p mbarrier.init.shared.b64 [s], 1; @p mbarrier.init.shared.b64 [s+8], 1; @p fence.mbarrier_init.release.cluster; bar.sync 0;\n"
    "@p mbarrier.arrive.expect_tx.shared.b64 _, [s], %d; add.s32 u, s, 1024; mov.u32 v, %d;\n"
    "@p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [u], [c], v, [s];\n"
    "@r tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s+16], 512; bar.sync 0; ld.shared.u32 m, [s+16]; shl.b32 u, w, 21; add.s32 u, u, m;\n"
    "mul.wide.u32 e, t, 32; add.s64 e, e, c; ld.global.v4.b32 {w0, w1, w2, w3}, [e+%d]; ld.global.v4.b32 {w4, w5, w6, w7}, [e+%d];\n"
    "tcgen05.st.sync.aligned.32x32b.x8.b32 [u+256], {w0, w1, w2, w3, w4, w5, w6, w7}; tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; bar.sync 0;\n"
    "W: mbarrier.try_wait.parity.shared.b64 q, [s], 0; @!q bra W; tcgen05.fence::after_thread_sync;\n"
    "mov.b64 e, %llu; mov.b64 f, %llu; mov.u32 v, %u; setp.ne.s32 q, s, s; mov.u32 y, -65536; mov.u32 z, 0; mov.u32 w0, -1;\n"
    "@p tcgen05.mma.cta_group::1.kind::f16 [m], %s, f, v, q; setp.eq.s32 q, s, s;\n"
    "@p tcgen05.mma.cta_group::1.kind::f16 [m], %s, f, v, %s q%s;\n"
    "@p tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [s+8];\n"
    "V: mbarrier.try_wait.parity.shared.b64 q, [s+8], 0; @!q bra V; tcgen05.fence::after_thread_sync;\n"
    "mul.wide.u32 e, t, %d; add.s64 o, o, e; mov.u32 y, 0;\n"
    "L: tcgen05.ld.sync.aligned.32x32b.x%d.b32 {%s}, [u]; tcgen05.wait::ld.sync.aligned; %s add.s64 o, o, %d; add.s32 u, u, %d; add.s32 y, y, %d; setp.lt.s32 q, y, %d; @q bra L;\n"
    "tcgen05.fence::before_thread_sync; bar.sync 0; @r tcgen05.dealloc.cta_group::1.sync.aligned.b32 m, 512;\nret;\n}\n";

static void build(const form *f, int width, char *text, size_t bytes) {
    static char list[2048], stores[8192];
    char scale[16] = "";
    size_t n = 0, k = 0;
    for (int i = 0; i < width; i++) {
        n += (size_t)snprintf(list + n, sizeof list - n, "%sd%d", i ? ", " : "", i);
        k += (size_t)snprintf(stores + k, sizeof stores - k, "st.global.b32 [o+%d], d%d; ", 4 * i, i);
    }
    if (f->scale) snprintf(scale, sizeof scale, ", %d", f->scale);
    const char *first = f->in_tmem ? "[m+256]" : "e";
    snprintf(text, bytes, TEXT, width, RAW, RAW, RAW, RAW + 16, (unsigned long long)descriptor(f, 0), (unsigned long long)descriptor(f, A_BYTES), instruction(f), first, first,
             f->masked ? "{z, y, z, w0}," : "", scale, 4 * COLUMNS, width, list, stores, 4 * width, width, width, f->n < width ? width : f->n);
}

static double expected(const form *f, int row, int column, bool disabled) {
    double sum = 0;
    for (int k = 0; k < 16; k++) sum += (double)a[row][k] * b[column][k];
    if (f->negate_a != f->negate_b) sum = -sum;
    return disabled ? sum : sum + ldexp(sum, -f->scale);
}

static void check_form(const form *f, int width) {
    static char text[32768], name[160];
    static emu_report report;
    fa4_error err = {0};
    emu_module *m = NULL;
    uint64_t params[2] = {(uint64_t)(uintptr_t)out, (uint64_t)(uintptr_t)data};
    emu_region regions[] = {{out, sizeof out, "out", 0}, {data, sizeof data, "data", 1}};
    snprintf(name, sizeof name, "M %d N %d swizzle %d%s%s%s%s%s%s%s%s scale %d, ld x%d", f->m, f->n, f->swizzle, f->a_mn ? " A M-major" : "", f->b_mn ? " B N-major" : "",
             f->bf16 ? " bf16" : "", f->d_f16 ? " f16 D" : "", f->negate_a ? " -A" : "", f->negate_b ? " -B" : "", f->in_tmem ? " A in tensor memory" : "",
             f->masked ? " masked" : "", f->scale, width);
    fill(f);
    build(f, width, text, sizeof text);
    CHECK(emu_module_load(text, strlen(text), NULL, &m, &err) == FA4_OK, "%s: %s", name, err.text);
    for (int schedule = 0; m != NULL && schedule < 3; schedule++) {
        emu_launch launch = {.grid = {1, 1, 1}, .block = {128, 1, 1}, .shared_bytes = 60000, .params = params, .param_bytes = 16, .regions = regions, .region_count = 2,
                             .schedule = schedule, .seed = 4, .unchecked = 1}; /* M 64 leaves lanes unwritten, which are read too */
        CHECK(emu_run(m, &launch, &report, &err) == FA4_OK, "%s: %s", name, err.text);
        int wrong = 0;
        for (int row = 0; row < f->m; row++)
            for (int column = 0; column < f->n; column++) {
                int lane = f->m == 128 ? row : row % 16 + 32 * (row / 16);
                bool disabled = f->masked && ((lane >= 48 && lane < 64) || lane >= 96);
                uint32_t word = out[lane * COLUMNS + column];
                float got;
                memcpy(&got, &word, 4);
                if (f->d_f16) got = half_f16_to_float((uint16_t)word);
                if ((double)got != expected(f, row, column, disabled) && wrong++ == 0)
                    CHECK(false, "%s: row %d column %d is %g, expected %g", name, row, column, got, expected(f, row, column, disabled));
            }
        CHECK(wrong == 0, "%s: %d elements", name, wrong);
    }
    emu_module_destroy(m);
}

int main(void) {
    static const form FORMS[] = {
        {.m = 128, .n = 256}, {.m = 128, .n = 16, .negate_a = true}, {.m = 64, .n = 8}, {.m = 64, .n = 248, .negate_b = true}, {.m = 128, .n = 64, .d_f16 = true},
        {.m = 64, .n = 64, .d_f16 = true, .negate_a = true, .negate_b = true}, {.m = 128, .n = 128, .scale = 1}, {.m = 64, .n = 128, .scale = 3}, {.m = 128, .n = 64, .masked = true},
        {.m = 64, .n = 32, .masked = true, .scale = 2}, {.m = 128, .n = 96, .in_tmem = true}, {.m = 128, .n = 128, .in_tmem = true, .bf16 = true, .negate_a = true},
        {.m = 128, .n = 64, .in_tmem = true, .b_mn = true, .swizzle = 128}};
    static const int widths[] = {1, 2, 4, 8, 16, 32, 64, 128};
    int count = 0;
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) check_form(&FORMS[i], FORMS[i].n % 8 == 0 && FORMS[i].n >= 8 ? 8 : 1);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) check_form(&(form){.m = 128, .n = 128, .swizzle = 128}, widths[i]);
    for (int swizzle = 0; swizzle <= 128; swizzle = swizzle ? 2 * swizzle : 32)
        for (int major = 0; major < 4; major++, count++)
            check_form(&(form){.m = count % 3 ? 128 : 64, .n = 64 + 16 * (count % 5), .swizzle = swizzle, .a_mn = major & 1, .b_mn = major & 2, .bf16 = count & 1}, 16);
    return check_report();
}
