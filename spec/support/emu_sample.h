/*
 * Small kernels for the emulator, written as the lines between a common head and `ret`: each takes one pointer to 4,096 words and a tensor
 * map; out[i] is checked against a function of i, or a finding is expected, on the best instruction set here and on the portable one.
 */
#ifndef FA4_SPEC_EMU_SAMPLE_H
#define FA4_SPEC_EMU_SAMPLE_H

#include "check.h"
#include "core/half.h"
#include "emu/emu.h"
#include "kernel/tensormap.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 4096 };

typedef struct sample {
    const char *name, *body;
    int32_t threads, ctas;
    int32_t kind;         /* emu_kind expected as an error, -1: none */
    const char *contains; /* in that finding's text */
    uint32_t (*want)(uint32_t i); /* of out[i] for i < threads * ctas; NULL: not looked at */
    int64_t shared, limit;
    const char *bounds; /* directives after the parameters */
    int32_t schedule;
} sample;

static const char HEAD[] = ".version 9.0\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n"
                           ".visible .entry k(.param .u64 out, .param .align 64 .b8 map[128]) %s\n{\n"
                           ".reg .pred p, q, r;\n.reg .b16 h0, h1;\n.reg .b32 t, w, lane, x, y, z, s, u, v, i0, i1, i2, i3, m;\n"
                           ".reg .b64 o, a, b, c, e, st;\n"
                           "mov.u32 t, %%tid.x; mov.u32 lane, %%laneid; shr.u32 w, t, 5; mov.u32 s, dyn;\n"
                           "mov.u32 x, %%ctaid.x; mov.u32 y, %%ntid.x; mad.lo.s32 x, x, y, t;\n"
                           "ld.param.u64 o, [out]; mul.wide.u32 a, x, 4; add.s64 o, o, a;\n%s\nret;\n}\n";

static uint32_t out[WORDS] __attribute__((aligned(256)));
static uint16_t tensor[64 * 64] __attribute__((aligned(256)));

static fa4_status run(const sample *s, const kernel_tensormap *map, const char *cpu, emu_report *report, fa4_error *err) {
    static char text[16384];
    struct {
        uint64_t out, pad[7];
        uint8_t map[128];
    } params = {(uint64_t)(uintptr_t)out, {0}, {0}};
    emu_module *m;
    snprintf(text, sizeof text, HEAD, s->bounds ? s->bounds : "", s->body);
    FA4_TRY(emu_module_load(text, strlen(text), cpu, &m, err));
    if (map) kernel_tensormap_encode(map, params.map, err);
    emu_region regions[] = {{out, sizeof out, "out", 0}, {tensor, sizeof tensor, "tensor", 0}};
    emu_launch launch = {.grid = {s->ctas ? s->ctas : 1, 1, 1}, .block = {s->threads, 1, 1}, .shared_bytes = s->shared ? s->shared : 16384, .params = &params,
                         .param_bytes = 192, .regions = regions, .region_count = 2, .max_instructions = s->limit ? s->limit : 200000, .schedule = s->schedule,
                         .seed = 3};
    fa4_status status = emu_run(m, &launch, report, err);
    emu_module_destroy(m);
    return status;
}

static void check_sample(const sample *s, const kernel_tensormap *map) {
    static emu_report report;
    static const char *const cpus[] = {NULL, "scalar"};
    for (int c = 0; c < 2; c++) {
        fa4_error err = {0};
        memset(out, 0xee, sizeof out);
        fa4_status status = run(s, map, cpus[c], &report, &err);
        if (s->kind >= 0) {
            bool found = false;
            for (int32_t i = 0; i < report.finding_count; i++)
                found |= report.findings[i].kind == s->kind && strstr(report.findings[i].text, s->contains) && (report.findings[i].line > 0 || s->kind == EMU_LIMIT || s->kind == EMU_LEAK);
            CHECK(status == FA4_FINDING && found, "%s: status %d, %s", s->name, status, err.text);
            continue;
        }
        CHECK(status == FA4_OK, "%s: %s", s->name, err.text);
        int wrong = 0;
        uint32_t count = (uint32_t)(s->threads * (s->ctas ? s->ctas : 1)), first = 0;
        for (uint32_t i = 0; s->want && i < count; i++)
            if (out[i] != s->want(i) && wrong++ == 0) first = i;
        CHECK(wrong == 0, "%s: out[%u] is %u, expected %u", s->name, first, out[first], s->want ? s->want(first) : 0);
    }
}

#define WANT(name, expression) static uint32_t name(uint32_t i) { (void)i; return expression; }
#define STORE "st.global.u32 [o], z;\n"
#define INIT_ONE "setp.eq.s32 p, t, 0; @p mbarrier.init.shared.b64 [s], 1; bar.sync 0;\n"

#endif
