/*
 * One small kernel for each way of misusing the machine that emu_machine_test and emu_cluster_test do not show: the finding's kind and words,
 * that it has a line, and, for notes and reviews, that the run goes on to its right end. Bad launches and foreign text too.
 */
#include "emu_sample.h"

WANT(index_of, i)

#define ALLOC "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s+8], 128; ld.shared.u32 y, [s+8];\n"
#define LOAD(x, y) "mov.u64 b, map; cvta.param.u64 b, b; add.s32 u, s, 1024; setp.eq.s32 p, t, 0; mov.u32 i0, " x "; mov.u32 i1, " y ";\n"
#define ISSUE "@p cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [u], [b, {i0, i1}], [s];\n"
/* Operands at s + 1024: written; and descriptors without swizzle for them. */
#define OPERANDS "shl.b32 v, t, 4; add.s32 v, v, s; add.s32 v, v, 1024; mov.u32 i0, 0; mov.u32 i1, 0;\n" \
                 "F: st.shared.v4.b32 [v], {i0, i0, i0, i0}; add.s32 v, v, 512; add.s32 i1, i1, 1; setp.lt.s32 q, i1, 16; @q bra F;\n" DESCRIPTORS
#define DESCRIPTORS "and.b32 u, s, 262143; shr.u32 u, u, 4; add.s32 u, u, 64; cvt.u64.u32 e, u; mov.b64 c, 0x0000401000080000; or.b64 e, e, c; setp.eq.s32 p, t, 0; setp.eq.s32 r, t, -1;\n"
#define SHAPE "mov.u32 v, 0x08040010;\n" /* 128 x 16, f16 to f32 */

static const sample SAMPLES[] = {
    /* mbarriers and named barriers */
    {"an mbarrier initialised twice", INIT_ONE "setp.eq.s32 p, t, 0; @p mbarrier.init.shared.b64 [s], 1;\n", 32, 1, EMU_BARRIER_MISUSE, "while it is live", NULL, 0, 0, 0, 0},
    {"an mbarrier of count 0", "mov.u32 y, 0; setp.eq.s32 p, t, 0; @p mbarrier.init.shared.b64 [s], y;\n", 32, 1, EMU_BARRIER_MISUSE, "its count is not", NULL, 0, 0, 0, 0},
    {"an mbarrier used after inval", INIT_ONE "setp.eq.s32 p, t, 0; @p mbarrier.inval.shared.b64 [s]; @p mbarrier.arrive.shared.b64 _, [s];\n", 32, 1, EMU_BARRIER_MISUSE, "after inval", NULL, 0, 0, 0, 0},
    {"a transaction count out of range", INIT_ONE "setp.eq.s32 p, t, 0; @p mbarrier.expect_tx.relaxed.cta.shared.b64 [s], 1048575; @p mbarrier.expect_tx.relaxed.cta.shared.b64 [s], 1;\n", 32, 1, EMU_BARRIER_MISUSE, "2^20 - 1 bytes", NULL, 0, 0, 0, 0},
    {"a parity of 2", INIT_ONE "mov.u32 y, 2; mbarrier.test_wait.parity.shared.b64 q, [s], y;\n", 32, 1, EMU_BARRIER_MISUSE, "neither 0 nor 1", NULL, 0, 0, 0, 0},
    {"a misaligned mbarrier", "setp.eq.s32 p, t, 0; @p mbarrier.init.shared.b64 [s+4], 1;\n", 32, 1, EMU_MISALIGNED, "multiple of 8", NULL, 0, 0, 0, 0},
    {"named barrier 16", "mov.u32 y, 16; bar.sync y, 32;\n", 32, 1, EMU_BARRIER_MISUSE, "not below 16", NULL, 0, 0, 0, 0},
    {"a named barrier for 40 threads", "mov.u32 y, 40; bar.sync 1, y;\n", 64, 1, EMU_BARRIER_MISUSE, "multiple of 32", NULL, 0, 0, 0, 0},
    {"setmaxnreg.inc that lowers", "setmaxnreg.inc.sync.aligned.u32 24;\n", 128, 1, EMU_OTHER, "setmaxnreg.inc to 24", NULL, 0, 0, ".maxntid 512\n.minnctapersm 1", 0},
    /* warps and control */
    {"a guard on a warp's operation", "setp.lt.u32 p, lane, 3; @p shfl.sync.idx.b32 z, x, 0, 31, -1;\n", 32, 1, EMU_DIVERGENCE, "a guard keeps lanes away", NULL, 0, 0, 0, 0},
    {"shfl from a lane that takes no part", "setp.lt.u32 p, lane, 16; @!p bra E; shfl.sync.idx.b32 z, x, 20, 31, 0xffff;\nE:\n", 32, 1, EMU_DIVERGENCE, "reads lane 20", NULL, 0, 0, 0, 0},
    {"an index beyond the targets", "add.u32 y, t, 7; L: .branchtargets A, B; brx.idx y, L;\nA: mov.u32 z, 1;\nB:\n", 32, 1, EMU_OTHER, "of 2 targets", NULL, 0, 0, 0, 0},
    /* memory */
    {"a misaligned vector in shared memory", "mov.u32 y, 0; st.shared.v2.b32 [s+4], {y, y};\n", 32, 1, EMU_MISALIGNED, "multiple of 8", NULL, 0, 0, 0, 0},
    {"ldmatrix of unwritten memory", "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {z}, [s];\n", 32, 1, EMU_UNINITIALISED, "ldmatrix", NULL, 0, 0, 0, 0},
    {"a load past the end, told with the buffer's name", "ld.global.u32 z, [o+16384];\n", 32, 1, EMU_OUT_OF_BOUNDS, "load of 4 bytes out of bounds", NULL, 0, 0, 0, 0},
    {"an atomic past the end", "red.global.add.u32 [o+16384], 1;\n", 32, 1, EMU_OUT_OF_BOUNDS, "past the end of out", NULL, 0, 0, 0, 0},
    {"cp.async past the end", "cp.async.ca.shared.global [s], [o+16384], 4;\n", 32, 1, EMU_OUT_OF_BOUNDS, "cp.async", NULL, 0, 0, 0, 0},
    {"a misaligned cp.async", "cp.async.ca.shared.global [s], [o+2], 4;\n", 32, 1, EMU_MISALIGNED, "cp.async", NULL, 0, 0, 0, 0},
    /* bulk copies */
    {"a copy of another rank than its map", INIT_ONE LOAD("0", "0") "@p cp.async.bulk.tensor.1d.shared::cta.global.tile.mbarrier::complete_tx::bytes [u], [b, {i0}], [s];\n", 32, 1, EMU_COPY_MISUSE, "rank 2", NULL, 0, 0, 0, 0},
    {"a store at a negative coordinate", LOAD("0", "-1") "@p cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [b, {i0, i1}], [u];\n", 32, 1, EMU_COPY_MISUSE, "negative", NULL, 0, 0, 0, 0},
    {"a coordinate off 16 bytes", INIT_ONE LOAD("4", "0") ISSUE, 32, 1, EMU_MISALIGNED, "coordinate 0 is 4", NULL, 0, 0, 0, 0},
    {"a tile off 128 bytes", INIT_ONE LOAD("0", "0") "add.s32 u, u, 64;\n" ISSUE, 32, 1, EMU_MISALIGNED, "multiple of 128", NULL, 0, 0, 0, 0},
    {"a tile beyond shared memory", INIT_ONE LOAD("0", "0") "add.s32 u, s, 16256;\n" ISSUE, 32, 1, EMU_OUT_OF_BOUNDS, "outside", NULL, 0, 0, 0, 0},
    {"a tensor store of unwritten memory", LOAD("0", "0") "@p cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [b, {i0, i1}], [u];\n", 32, 1, EMU_UNINITIALISED, "a bulk store reads", NULL, 0, 0, 0, 0},
    {"a bulk store of unwritten memory", "setp.eq.s32 p, t, 0; @p cp.async.bulk.global.shared::cta.bulk_group [o], [s], 16;\n", 32, 1, EMU_UNINITIALISED, "a bulk store reads", NULL, 0, 0, 0, 0},
    {"a bulk copy of 8 bytes", INIT_ONE "mov.u32 y, 8; setp.eq.s32 p, t, 0; @p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s+16], [o], y, [s];\n", 32, 1, EMU_MISALIGNED, "multiples of 16", NULL, 0, 0, 0, 0},
    {"a bulk copy past the end", INIT_ONE "setp.eq.s32 p, t, 0; @p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [s+16], [o+16384], 16, [s];\n", 32, 1, EMU_OUT_OF_BOUNDS, "leaves every buffer", NULL, 0, 0, 0, 0},
    {"a tensor map's address off 64 bytes", LOAD("0", "0") "add.s64 b, b, 16; prefetch.tensormap [b];\n", 32, 1, EMU_MISALIGNED, "tensor map address", NULL, 0, 0, 0, 0},
    {"a tensor map nowhere", "mov.u64 b, 0x40000000; prefetch.tensormap [b];\n", 32, 1, EMU_COPY_MISUSE, "no tensor map at", NULL, 0, 0, 0, 0},
    /* tensor memory */
    {"tcgen05.alloc after relinquish", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" ALLOC, 32, 1, EMU_TENSOR_MISUSE, "after relinquish", NULL, 0, 0, 0, 0},
    {"tcgen05.dealloc of other columns", ALLOC "tcgen05.dealloc.cta_group::1.sync.aligned.b32 y, 64;\n", 32, 1, EMU_TENSOR_MISUSE, "not allocated so", NULL, 0, 0, 0, 0},
    {"tcgen05.alloc of more than there is", ALLOC "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s+8], 512;\n", 32, 1, EMU_DEADLOCK, "tcgen05.alloc", NULL, 0, 0, 0, 0},
    {"lanes that give different addresses", ALLOC "add.s32 y, y, lane; tcgen05.ld.sync.aligned.32x32b.x1.b32 {z}, [y];\n", 32, 1, EMU_TENSOR_MISUSE, "different tensor memory addresses", NULL, 0, 0, 0, 0},
    {"tcgen05.dealloc under an mma", OPERANDS ALLOC SHAPE "@p tcgen05.mma.cta_group::1.kind::f16 [y], e, e, v, r; tcgen05.dealloc.cta_group::1.sync.aligned.b32 y, 128;\n", 32, 1, EMU_TENSOR_MISUSE, "while an mma is in flight", NULL, 0, 0, 0, EMU_STARVE},
    {"a bad descriptor of B", OPERANDS ALLOC SHAPE "mov.b64 c, 0; @p tcgen05.mma.cta_group::1.kind::f16 [y], e, c, v, r;\n", 32, 1, EMU_TENSOR_MISUSE, "descriptor of B", NULL, 0, 0, 0, 0},
    {"a bad descriptor of A", OPERANDS ALLOC SHAPE "mov.b64 c, 0; @p tcgen05.mma.cta_group::1.kind::f16 [y], c, e, v, r;\n", 32, 1, EMU_TENSOR_MISUSE, "descriptor of A", NULL, 0, 0, 0, 0},
    {"A in tensor memory, transposed", OPERANDS ALLOC "mov.u32 v, 0x08048010; @p tcgen05.mma.cta_group::1.kind::f16 [y], [y], e, v, r;\n", 32, 1, EMU_TENSOR_MISUSE, "K-major", NULL, 0, 0, 0, 0},
    {"D at a lane", OPERANDS ALLOC SHAPE "add.s32 y, y, 0x200000; @p tcgen05.mma.cta_group::1.kind::f16 [y], e, e, v, r;\n", 32, 1, EMU_TENSOR_MISUSE, "D at lane 32", NULL, 0, 0, 0, 0},
    {"D beyond the allocation", OPERANDS ALLOC SHAPE "@p tcgen05.mma.cta_group::1.kind::f16 [y+120], e, e, v, r;\n", 32, 1, EMU_TENSOR_MISUSE, "columns 120..135", NULL, 0, 0, 0, 0},
    {"an mma that reads unwritten memory", DESCRIPTORS ALLOC SHAPE "@p tcgen05.mma.cta_group::1.kind::f16 [y], e, e, v, r;\n", 32, 1, EMU_UNINITIALISED, "from shared memory that nothing has written: dyn+1024", NULL, 0, 0, 0, 0},
    {"an mma that reads beyond shared memory", OPERANDS ALLOC SHAPE "add.s64 e, e, 1000; @p tcgen05.mma.cta_group::1.kind::f16 [y], e, e, v, r;\n", 32, 1, EMU_OUT_OF_BOUNDS, "out of bounds", NULL, 0, 0, 0, 0},
    {"A in tensor memory that nothing has written", OPERANDS ALLOC SHAPE "@p tcgen05.mma.cta_group::1.kind::f16 [y], [y+32], e, v, r;\n", 32, 1, EMU_UNINITIALISED, "reads A from tensor memory", NULL, 0, 0, 0, 0},
    {"D accumulated unwritten", OPERANDS ALLOC SHAPE "setp.eq.s32 r, t, 0; @p tcgen05.mma.cta_group::1.kind::f16 [y], e, e, v, r;\n", 32, 1, EMU_UNINITIALISED, "accumulates into", NULL, 0, 0, 0, 0},
    {"a tensor pipe that is never emptied", INIT_ONE "mov.u32 v, 0; setp.eq.s32 p, t, 0; @!p bra E;\nL: tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [s]; add.s32 v, v, 1; setp.lt.u32 q, v, 70000; @q bra L;\nE:\n",
     32, 1, EMU_LIMIT, "65536 operations", NULL, 0, 1000000, 0, EMU_STARVE},
};

/* ---- notes and reviews: told, and the run goes on ---- */

typedef struct remark {
    sample s;
    int32_t kind, severity;
    const char *contains;
} remark;

static const remark REMARKS[] = {
    {{"a register that may be unwritten", "setp.lt.u32 p, lane, 16; @p mov.u32 z, x; @p bra A; add.s32 z, z, x; mov.u32 z, x;\nA:\n" STORE, 32, 1, -1, 0, index_of, 0, 0, 0, 0}, EMU_UNINITIALISED, EMU_REVIEW, "may not have been written"},
    {{"a warp that arrives twice", "setp.ge.u32 p, t, 32; @p bra A; bar.arrive 1, 96; bar.arrive 1, 96; bra B;\nA: bar.sync 1, 96;\nB: mov.u32 z, x;\n" STORE, 64, 1, -1, 0, index_of, 0, 0, 0, 0}, EMU_BARRIER_MISUSE, EMU_NOTE, "a second time"},
    {{"a 128 B swizzle off 1024 bytes", INIT_ONE LOAD("0", "0") "add.s32 u, u, 128; @p mbarrier.arrive.expect_tx.shared.b64 _, [s], 1024;\n" ISSUE
      "W: mbarrier.try_wait.parity.shared.b64 q, [s], 0; @!q bra W; mov.u32 z, x;\n" STORE, 32, 1, -1, 0, index_of, 0, 0, 0, 0}, EMU_MISALIGNED, EMU_REVIEW, "1024 B boundary"},
};

static void check_remark(const remark *r, const kernel_tensormap *map) {
    static emu_report report;
    fa4_error err = {0};
    check_sample(&r->s, map);
    CHECK(run(&r->s, map, NULL, &report, &err) == FA4_OK && report.errors == 0, "%s: %s", r->s.name, err.text);
    bool found = false;
    for (int32_t i = 0; i < report.finding_count; i++)
        found |= report.findings[i].kind == r->kind && report.findings[i].severity == r->severity && strstr(report.findings[i].text, r->contains) && report.findings[i].line > 0;
    CHECK(found, "%s: %d findings, the first %s", r->s.name, report.finding_count, report.findings[0].text);
}

/* A map whose memory is nobody's, and a tensor too small for it. */
static void check_foreign_maps(void) {
    kernel_tensormap map = {.address = 0x700000000000, .type = KERNEL_TENSORMAP_U16, .rank = 2, .swizzle = 3, .dims = {64, 64}, .strides = {0, 128}, .box = {64, 8}};
    sample s = {"a map of memory that is nobody's", INIT_ONE LOAD("0", "0") ISSUE, 32, 1, EMU_OUT_OF_BOUNDS, "outside every buffer", NULL, 0, 0, 0, 0};
    check_sample(&s, &map);
    map.address = (uint64_t)(uintptr_t)tensor, map.strides[1] = 1 << 20;
    s.name = "a tensor too small for its map", s.body = INIT_ONE LOAD("0", "1") ISSUE;
    check_sample(&s, &map);
}

/* ---- text and launches ---- */

static fa4_status load_with(const char *target, const char *line, fa4_error *err) {
    char text[1024];
    emu_module *m = NULL;
    snprintf(text, sizeof text, ".version 9.0\n.target %s\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 a; .reg .f32 f;\n%s\nret;\n}\n", target, line);
    fa4_status status = emu_module_load(text, strlen(text), NULL, &m, err);
    emu_module_destroy(m);
    return status;
}

static void check_texts(void) {
    fa4_error err = {0};
    CHECK(load_with("sm_80", "mov.u32 a, 1;", &err) == FA4_OK, "%s", err.text);
    CHECK(load_with("sm_80", "elect.sync a, -1;", &err) != FA4_OK && strstr(err.text, "sm_90"), "%s", err.text);
    CHECK(load_with("sm_120a", "mov.u32 a, 1;", &err) != FA4_OK && strstr(err.text, "sm_120a"), "%s", err.text);
    CHECK(load_with("sm_90a", "tcgen05.wait::ld.sync.aligned;", &err) != FA4_OK && strstr(err.text, "sm_100a"), "%s", err.text);
    CHECK(load_with("sm_100a", "frobnicate.u32 a, 1;", &err) != FA4_OK && strstr(err.text, "7") && strstr(err.text, "frobnicate"), "%s", err.text);
    CHECK(load_with("sm_100a", "add.u32.sideways a, a, 1;", &err) != FA4_OK && strstr(err.text, "sideways"), "%s", err.text);
    CHECK(load_with("sm_100a", "frobnicate.u32 a, 1;\nadd.u32.sideways a, a, 1;", &err) != FA4_OK && strstr(err.text, "sideways") && strstr(err.text, "frobnicate"), "all are told: %s", err.text);
    CHECK(load_with("sm_100a", "tcgen05.ld.sync.aligned.16x64b.x1.b32 {a}, [a];", &err) == FA4_UNSUPPORTED && strstr(err.text, "16x64b"), "%s", err.text);
    CHECK(load_with("sm_100a", "cvt.rn.bf16x2.e4m3x2 a, a;", &err) != FA4_OK, "a pair that is not modelled");
}

static void check_launches(void) {
    static const char *const text = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\nret;\n}\n.visible .entry j()\n{\nret;\n}\n";
    static emu_report report;
    fa4_error err = {0};
    emu_module *m = NULL;
    uint64_t a = 0;
    CHECK(emu_module_load(text, strlen(text), NULL, &m, &err) == FA4_OK, "%s", err.text);
    emu_launch good = {.entry = "k", .grid = {1, 1, 1}, .block = {64, 1, 1}, .params = &a, .param_bytes = 8}, bad = good;
    bad.entry = NULL;
    CHECK(emu_run(m, &bad, &report, &err) != FA4_OK && strstr(err.text, "k"), "two entries and none named: %s", err.text);
    bad = good, bad.grid[0] = -2147483647 - 1; /* what 2^31 becomes */
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "grid[0]"), "%s", err.text);
    bad = good, bad.grid[1] = 65536;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "grid[1]"), "%s", err.text);
    bad = good, bad.block[2] = 65;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "block[2]"), "%s", err.text);
    bad = good, bad.block[1] = 17;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "1024"), "%s", err.text);
    bad = good, bad.shared_bytes = -1;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "shared"), "%s", err.text);
    bad = good, bad.params = NULL;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "params"), "%s", err.text);
    bad = good, bad.schedule = 9;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "schedule"), "%s", err.text);
    bad = good, bad.sms = -1;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "sms"), "%s", err.text);
    bad = good, bad.cta_first = 1;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "ctas"), "%s", err.text);
    emu_module_destroy(m);
}

int main(void) {
    kernel_tensormap map = {.address = (uint64_t)(uintptr_t)tensor, .type = KERNEL_TENSORMAP_U16, .rank = 2, .swizzle = 3, .dims = {64, 64}, .strides = {0, 128}, .box = {64, 8}};
    for (size_t i = 0; i < sizeof SAMPLES / sizeof *SAMPLES; i++) check_sample(&SAMPLES[i], &map);
    for (size_t i = 0; i < sizeof REMARKS / sizeof *REMARKS; i++) check_remark(&REMARKS[i], &map);
    check_foreign_maps();
    check_texts();
    check_launches();
    return check_report();
}
