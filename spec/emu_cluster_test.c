/*
 * Clusters and CTA pairs on small kernels written here: what each instruction that reaches another CTA computes, under every schedule, and
 * that each kind of misuse becomes a finding that names the CTA. Every kernel takes one pointer to 4,096 words, a tensor map and a second
 * pointer; out[i] of thread i of the grid is checked against a function of i.
 */
#include "check.h"
#include "core/half.h"
#include "emu/emu.h"
#include "kernel/tensormap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 4096 };

static const char HEAD[] = ".version 9.0\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n.shared .align 16 .b32 fixed[4];\n"
                           ".visible .entry k(.param .u64 out, .param .u64 data, .param .align 64 .b8 map[128]) %s\n{\n"
                           ".reg .pred p, q, r;\n.reg .b16 h0, h1;\n.reg .b32 t, w, lane, x, y, z, s, u, v, i0, i1, i2, i3, m, rank, peer;\n"
                           ".reg .b64 o, a, b, c, e, st;\n.reg .b128 big;\n"
                           "mov.u32 t, %%tid.x; mov.u32 lane, %%laneid; shr.u32 w, t, 5; mov.u32 s, dyn; mov.u32 rank, %%cluster_ctarank; xor.b32 peer, rank, 1;\n"
                           "mov.u32 x, %%ctaid.x; mov.u32 y, %%ntid.x; mad.lo.s32 x, x, y, t; mov.u32 y, %%ctaid.y; mov.u32 z, %%nctaid.x; mov.u32 u, %%ntid.x;\n"
                           "mul.lo.s32 z, z, u; mad.lo.s32 x, y, z, x; setp.eq.s32 p, t, 0;\n"
                           "ld.param.u64 o, [out]; mul.wide.u32 a, x, 4; add.s64 o, o, a; mov.u64 b, map; cvta.param.u64 b, b;\n%s\nret;\n}\n";
#define STORE "st.global.u32 [o], z;\n"
#define MEET "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
/* A barrier of one arrival at dyn[0] in every CTA, before anybody uses it. */
#define INIT "@p mbarrier.init.shared.b64 [s], 1; @p fence.mbarrier_init.release.cluster;\n" MEET
#define WAIT "W: mbarrier.try_wait.parity.shared::cta.b64 q, [s], 0; @!q bra W;\n"
#define AT_64 "shl.b32 y, t, 2; add.s32 y, y, s; add.s32 y, y, 64;\n" /* a word of each thread behind the barrier */

typedef struct sample {
    const char *name, *body;
    int32_t threads, grid[2], cluster[2];
    int32_t kind;                      /* emu_kind expected as an error, -1: none */
    const char *contains;              /* in that finding's text */
    uint32_t (*want)(uint32_t i);      /* of out[i] */
    const kernel_tensormap *map;
    const char *bounds;
    int32_t cta;                       /* x of the CTA that the finding names, -1: any */
    int32_t sms;
    bool not_starved;                  /* what must happen needs a CTA to go on that starving holds back */
} sample;

static uint32_t out[WORDS] __attribute__((aligned(256)));
static uint16_t tensor[256 * 64] __attribute__((aligned(256)));

static fa4_status run(const sample *s, int schedule, uint64_t seed, emu_report *report, fa4_error *err) {
    static char text[32768];
    struct {
        uint64_t out, data, pad[6];
        uint8_t map[128];
    } params = {(uint64_t)(uintptr_t)out, (uint64_t)(uintptr_t)tensor, {0}, {0}};
    emu_module *m;
    snprintf(text, sizeof text, HEAD, s->bounds ? s->bounds : "", s->body);
    FA4_TRY(emu_module_load(text, strlen(text), NULL, &m, err));
    if (s->map) {
        kernel_tensormap map = *s->map;
        map.address = params.data;
        FA4_TRY(kernel_tensormap_encode(&map, params.map, err));
    }
    emu_region regions[] = {{out, sizeof out, "out", 0}, {tensor, sizeof tensor, "tensor", 0}};
    emu_launch launch = {.grid = {s->grid[0], s->grid[1] ? s->grid[1] : 1, 1}, .block = {s->threads, 1, 1}, .cluster = {s->cluster[0], s->cluster[1] ? s->cluster[1] : s->cluster[0] != 0, s->cluster[0] != 0},
                         .shared_bytes = 100000, .params = &params, .param_bytes = 192, .regions = regions, .region_count = 2, .max_instructions = 200000,
                         .schedule = schedule, .seed = seed, .sms = s->sms};
    fa4_status status = emu_run(m, &launch, report, err);
    emu_module_destroy(m);
    return status;
}

static bool has_finding(const sample *s, const emu_report *r) {
    for (int32_t i = 0; i < r->finding_count; i++) {
        const emu_finding *f = &r->findings[i];
        if (f->kind == s->kind && strstr(f->text, s->contains) && (s->cta < 0 || f->cta[0] == s->cta)) return true;
    }
    return false;
}

static void check_sample(const sample *s) {
    static emu_report report;
    static const struct { int schedule; uint64_t seed; } runs[] = {{EMU_ROUND_ROBIN, 0}, {EMU_RANDOM, 1}, {EMU_RANDOM, 9}, {EMU_STARVE, 2}, {EMU_STARVE, 5}, {EMU_STARVE, 7}};
    for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
        fa4_error err = {0};
        if (s->not_starved && runs[k].schedule == EMU_STARVE) continue;
        memset(out, 0xee, sizeof out);
        fa4_status status = run(s, runs[k].schedule, runs[k].seed, &report, &err);
        if (s->kind >= 0) {
            CHECK(status == FA4_FINDING && has_finding(s, &report), "%s, schedule %d: status %d, %s", s->name, runs[k].schedule, status, err.text);
            continue;
        }
        CHECK(status == FA4_OK && report.finding_count == 0, "%s, schedule %d: %s", s->name, runs[k].schedule, status == FA4_OK ? report.findings[0].text : err.text);
        uint32_t count = (uint32_t)(s->threads * s->grid[0] * (s->grid[1] ? s->grid[1] : 1)), wrong = 0, first = 0;
        for (uint32_t i = 0; s->want && i < count; i++)
            if (out[i] != s->want(i) && wrong++ == 0) first = i;
        CHECK(wrong == 0, "%s, schedule %d: out[%u] is %u, expected %u", s->name, runs[k].schedule, first, out[first], s->want ? s->want(first) : 0);
    }
}

#define WANT(name, expression) static uint32_t name(uint32_t i) { (void)i; return expression; }
WANT(other_cta, i ^ 32) WANT(rank_2, i / 32 % 2) WANT(cluster_2, i / 64) WANT(packed_2d, (i / 32 % 4) | (i / 128) << 8 | (i / 32 % 4 % 2 + 2 * (i / 128 % 2)) << 16) WANT(sum_both, 2 * 496 + 32 * 32)
WANT(thirty_three, 33) WANT(seven, 7) WANT(peer_rank, (i / 32) ^ 1) WANT(row_of_tile, 256 * (i % 32 / 8) + 2 * (i % 8)) WANT(two_tiles, i / 32 % 2 + 5)
WANT(cancelled, i < 32 ? 4 : 0xeeeeeeee) WANT(one, 1)

static const kernel_tensormap ROWS = {.type = KERNEL_TENSORMAP_U16, .rank = 2, .dims = {64, 256}, .strides = {0, 128}, .box = {64, 4}};

static const sample SAMPLES[] = {
    {"%cluster_ctarank", "mov.u32 z, rank;\n" MEET STORE, 32, {4}, {2}, -1, 0, rank_2, 0, 0, -1, 0, false},
    {"%clusterid", "mov.u32 z, %clusterid.x;\n" MEET STORE, 32, {4}, {2}, -1, 0, cluster_2, 0, 0, -1, 0, false},
    {"places in a cluster of two dimensions",
     "mov.u32 z, %ctaid.x; mov.u32 y, %ctaid.y; shl.b32 y, y, 8; or.b32 z, z, y; shl.b32 y, rank, 16; or.b32 z, z, y;\n" MEET STORE, 32, {4, 4}, {2, 2}, -1, 0, packed_2d, 0, 0, -1, 0, false},
    {"a cluster given by the entry", "mov.u32 z, %cluster_nctarank; add.s32 z, z, 5;\n" MEET STORE, 32, {4}, {0}, -1, 0, seven, 0, ".reqnctapercluster 2, 1, 1", -1, 0, false},
    {"a cluster of one", "mov.u32 z, %cluster_nctarank;\n" MEET STORE, 32, {3}, {0}, -1, 0, one, 0, 0, -1, 0, false},
    {"a store in another CTA", AT_64 "mapa.shared::cluster.u32 u, y, peer; st.shared::cluster.u32 [u], x;\n" MEET "ld.shared.u32 z, [y];\n" STORE, 32, {4}, {2}, -1, 0, other_cta, 0, 0, -1, 0, false},
    {"a load from another CTA", AT_64 "st.shared.u32 [y], x;\n" MEET "mapa.shared::cluster.u32 u, y, peer; ld.shared::cluster.u32 z, [u];\n" MEET STORE, 32, {4}, {2}, -1, 0, other_cta, 0, 0, -1, 0, false},
    {"generic addresses of another CTA", AT_64 "cvt.u64.u32 c, y; cvta.shared.u64 c, c; mapa.u64 e, c, peer; st.u32 [e], x;\n" MEET "ld.u32 z, [c];\n" STORE, 32, {4}, {2}, -1, 0, other_cta, 0, 0, -1, 0, false},
    {"a static symbol in another CTA", "mov.u32 y, fixed; mapa.shared::cluster.u32 u, y, peer; @p st.shared::cluster.u32 [u+8], 7;\n" MEET "ld.shared.u32 z, [fixed+8];\n" STORE, 32, {2}, {2}, -1, 0, seven, 0, 0, -1, 0, false},
    {"the peer bit of an address", AT_64 "and.b32 u, y, -16777217; st.shared::cluster.u32 [u+256], 7; mov.u32 z, 7;\n" MEET "setp.eq.s32 q, rank, 0; @q ld.shared.u32 z, [y+256];\n" STORE, 32, {2}, {2}, -1, 0, seven, 0, 0, -1, 0, false},
    {"getctarank", AT_64 "mapa.shared::cluster.u32 u, y, peer; getctarank.shared::cluster.u32 z, u;\n" MEET STORE, 32, {2}, {2}, -1, 0, peer_rank, 0, 0, -1, 0, false},
    {"atomics on another CTA's memory", "@p st.shared.u32 [s+64], 0;\n" MEET "mapa.shared::cluster.u32 u, s, 0; atom.shared::cluster.add.u32 v, [u+64], t; red.shared::cluster.add.u32 [u+64], 16;\n" MEET
     "ld.shared::cluster.u32 z, [u+64];\n" MEET STORE, 32, {2}, {2}, -1, 0, sum_both, 0, 0, -1, 0, false},
    {"arrivals from another CTA", "setp.eq.s32 r, rank, 0; @p mbarrier.init.shared.b64 [s], 33; @p fence.mbarrier_init.release.cluster;\n" MEET
     "mapa.shared::cluster.u32 u, s, peer; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [u]; @p mbarrier.arrive.shared.b64 _, [s];\n" WAIT "mov.u32 z, 33;\n" MEET STORE, 32, {2}, {2}, -1, 0, thirty_three, 0, 0, -1, 0, false},
    {"st.async", INIT "@p mbarrier.arrive.expect_tx.shared.b64 _, [s], 128;\n" AT_64 "mapa.shared::cluster.u32 u, y, peer; mapa.shared::cluster.u32 v, s, peer;\n"
     "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [u], x, [v];\n" WAIT "ld.shared.u32 z, [y];\n" MEET STORE, 32, {4}, {2}, -1, 0, other_cta, 0, 0, -1, 0, false},
    {"st.async of vectors", INIT "@p mbarrier.arrive.expect_tx.shared.b64 _, [s], 512; shl.b32 y, t, 4; add.s32 y, y, s; add.s32 y, y, 64; mapa.shared::cluster.u32 u, y, peer; mapa.shared::cluster.u32 v, s, peer;\n"
     "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [u], {t, t, t, x}, [v];\n" WAIT "ld.shared.u32 z, [y+12];\n" MEET STORE, 32, {2}, {2}, -1, 0, other_cta, 0, 0, -1, 0, false},
    {"red.async", "@p st.shared.u32 [s+64], 1;\n" INIT "@p mbarrier.arrive.expect_tx.shared.b64 _, [s], 128; mapa.shared::cluster.u32 u, s, peer;\n"
     "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [u+64], 1, [u];\n" WAIT "ld.shared.u32 z, [s+64];\n" MEET STORE, 32, {2}, {2}, -1, 0, thirty_three, 0, 0, -1, 0, false},
    {"a bulk copy to another CTA", AT_64 "st.shared.u32 [y], x; fence.proxy.async.shared::cta;\n" INIT "add.s32 v, s, 64; add.s32 u, s, 512; mapa.shared::cluster.u32 u, u, peer; mapa.shared::cluster.u32 m, s, peer;\n"
     "@p mbarrier.arrive.expect_tx.shared.b64 _, [s], 128; @p cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [u], [v], 128, [m];\n" WAIT "ld.shared.u32 z, [y+448];\n" MEET STORE,
     32, {4}, {2}, -1, 0, other_cta, 0, 0, -1, 0, false},
    {"a multicast load", INIT "@p mbarrier.arrive.expect_tx.shared.b64 _, [s], 512; add.s32 u, s, 1024; mov.u32 i0, 0; mov.b16 h0, 3; setp.eq.and.s32 q, rank, 1, p;\n"
     "@q cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [u], [b, {i0, i0}], [s], h0;\n" WAIT
     "shl.b32 y, lane, 4; add.s32 y, y, u; ld.shared.u16 z, [y];\n" MEET STORE, 32, {4}, {2}, -1, 0, row_of_tile, &ROWS, 0, -1, 0, false},
    {"a multicast bulk load", INIT "@p mbarrier.arrive.expect_tx.shared.b64 _, [s], 16; add.s32 u, s, 1024; mov.b16 h0, 3; setp.eq.and.s32 q, rank, 0, p; ld.param.u64 c, [data];\n"
     "@q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [u], [c], 16, [s], h0;\n" WAIT "ld.shared.u16 z, [u+6]; add.s32 z, z, 4;\n" MEET STORE, 32, {4}, {2}, -1, 0, seven, 0, 0, -1, 0, false},
    {"each load of a pair signals the even CTA", "setp.eq.s32 r, rank, 0;\n" INIT "add.s32 u, s, 1024; mov.u32 i0, 0; and.b32 v, s, -16777217; setp.eq.and.s32 q, rank, 0, p;\n"
     "@q mbarrier.arrive.expect_tx.shared.b64 _, [s], 1024; shl.b32 i1, rank, 2;\n"
     "@p cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [u], [b, {i0, i1}], [v];\n"
     "@!r bra N;\n" WAIT "N:\n" MEET "ld.shared.u16 z, [u]; shr.u32 z, z, 10; add.s32 z, z, 5;\n" STORE, 32, {2}, {2}, -1, 0, two_tiles, &ROWS, 0, -1, 0, false},
    {"a launch cancels those that have not started", "@p mbarrier.init.shared.b64 [s], 1; bar.sync 0; mov.u32 z, 1; mov.u32 m, 0; add.s32 u, s, 32;\n"
     "L: @p mbarrier.arrive.expect_tx.shared.b64 _, [s], 16; @p clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [u], [s];\n"
     "W: mbarrier.try_wait.parity.shared.b64 q, [s], m; @!q bra W; ld.shared.b128 big, [u]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 q, big; @!q bra E;\n"
     "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 y, big; add.s32 z, z, 1; setp.ne.s32 r, y, z; xor.b32 m, m, 1; bar.sync 0; bra L;\nE:\n" STORE, 32, {4}, {1}, -1, 0, cancelled, 0, 0, -1, 1, false},
    /* findings */
    {"a CTA that nobody arrives at", INIT "setp.eq.s32 q, rank, 0; mapa.shared::cluster.u32 u, s, peer; @!q bra W; @p mbarrier.arrive.shared::cluster.b64 _, [u];\n" WAIT, 32, {2}, {2}, EMU_DEADLOCK, "1 of 1 arrivals missing", 0, 0, 0, 0, 0, false},
    {"a warp that never comes to the cluster's barrier", "setp.eq.and.s32 q, rank, 1, p; mbarrier.init.shared.b64 [s], 1; @!q bra M; " WAIT "M: barrier.cluster.arrive; barrier.cluster.wait;\n", 1, {2}, {2}, EMU_DEADLOCK, "rank 1", 0, 0, 0, 0, 0, false},
    {"two arrivals at the cluster's barrier", "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned;\n", 32, {2}, {2}, EMU_BARRIER_MISUSE, "arrives again", 0, 0, 0, -1, 0, false},
    {"a wait without an arrival", "barrier.cluster.wait.aligned;\n", 32, {2}, {2}, EMU_BARRIER_MISUSE, "without having arrived", 0, 0, 0, -1, 0, false},
    {"a rank that is not there", "mapa.shared::cluster.u32 u, s, 2;\n", 32, {2}, {2}, EMU_OUT_OF_BOUNDS, "CTA rank 2 of a cluster of 2", 0, 0, 0, -1, 0, false},
    {"a store in a CTA that has ended", "setp.eq.s32 q, rank, 0; @!q bra E; mbarrier.init.shared.b64 [s], 1; mov.u32 v, 0;\nN: add.s32 v, v, 1; setp.lt.s32 r, v, 20000; @r bra N; mapa.shared::cluster.u32 u, s, 1; st.shared::cluster.u32 [u+64], v;\nE:\n",
     1, {2}, {2}, EMU_OUT_OF_BOUNDS, "rank 1 has ended", 0, 0, 0, 0, 0, true},
    {"a wait on another CTA's barrier", INIT "mapa.shared::cluster.u32 u, s, peer; mbarrier.try_wait.parity.shared::cta.b64 q, [u], 0;\n", 32, {2}, {2}, EMU_OUT_OF_BOUNDS, "outside", 0, 0, 0, -1, 0, false},
    {"a multicast to a CTA that is not there", INIT "add.s32 u, s, 1024; mov.u32 i0, 0; mov.b16 h0, 5;\n"
     "@p cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [u], [b, {i0, i0}], [s], h0;\n", 32, {2}, {2}, EMU_COPY_MISUSE, "mask 0x5", 0, &ROWS, 0, -1, 0, false},
    {"a load here that signals there", INIT "add.s32 u, s, 1024; mov.u32 i0, 0; mapa.shared::cluster.u32 v, s, peer;\n"
     "@p cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [u], [b, {i0, i0}], [v];\n", 32, {2}, {2}, EMU_COPY_MISUSE, "signals that of rank", 0, &ROWS, 0, -1, 0, false},
    {"a remote read of what nothing has written", "mapa.shared::cluster.u32 u, s, peer; ld.shared::cluster.u32 z, [u+64];\n" MEET STORE, 32, {2}, {2}, EMU_UNINITIALISED, "nothing has written", 0, 0, 0, -1, 0, false},
    {"a pair's allocation by one CTA", MEET "setp.eq.s32 q, rank, 0; @!q bra E; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [s], 32;\nE:\n", 32, {2}, {2}, EMU_DEADLOCK, "tcgen05.alloc", 0, 0, 0, 0, 0, false},
    {"a pair's allocations that differ", MEET "setp.eq.s32 q, rank, 0; selp.u32 u, 32, 64, q; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [s], u;\n", 32, {2}, {2}, EMU_TENSOR_MISUSE, "differently", 0, 0, 0, -1, 0, false},
    {"a pair of one", "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [s], 32;\n", 32, {2}, {1}, EMU_TENSOR_MISUSE, "there is no pair", 0, 0, 0, -1, 0, false},
    {"a pair's columns left behind", MEET "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [s], 32;\n", 32, {2}, {2}, EMU_LEAK, "32 columns", 0, 0, 0, -1, 0, false},
    {"the CTA of a request that cancelled nothing", "@p mbarrier.init.shared.b64 [s], 1; bar.sync 0; add.s32 u, s, 32; @p mbarrier.arrive.expect_tx.shared.b64 _, [s], 16;\n"
     "@p clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [u], [s];\n" WAIT "ld.shared.b128 big, [u]; clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 y, big;\n", 32, {1}, {1},
     EMU_OTHER, "cancelled nothing", 0, 0, 0, -1, 0, false},
};

/* ---- mma of a pair: A and B in both CTAs' shared memory, D read back lane by lane ---- */

/* K-major rows of 32 bytes without swizzle: 8 rows x 16 bytes contiguous (SBO 256 between groups, LBO 128 between the two halves of K). */
static const char MMA[] =
    "@p mbarrier.init.shared.b64 [s], 1; setp.eq.s32 r, w, 0; ld.param.u64 c, [data];\n"
    /* thread t of CTA rank copies row t of A (rows of 32 B, the CTA's own) and row t of B */
    "shl.b32 u, rank, 7; add.s32 u, u, t; mul.wide.u32 e, u, 32; add.s64 e, c, e;\n"
    "shr.u32 v, t, 3; shl.b32 v, v, 8; and.b32 y, t, 7; shl.b32 y, y, 4; add.s32 v, v, y; add.s32 v, v, s; add.s32 v, v, 1024;\n"
    "ld.global.v4.b32 {i0, i1, i2, i3}, [e]; st.shared.v4.b32 [v], {i0, i1, i2, i3}; ld.global.v4.b32 {i0, i1, i2, i3}, [e+16]; st.shared.v4.b32 [v+128], {i0, i1, i2, i3};\n"
    "add.s64 e, e, 16384; ld.global.v4.b32 {i0, i1, i2, i3}, [e]; st.shared.v4.b32 [v+8192], {i0, i1, i2, i3}; ld.global.v4.b32 {i0, i1, i2, i3}, [e+16]; st.shared.v4.b32 [v+8320], {i0, i1, i2, i3};\n"
    "fence.proxy.async.shared::cta; bar.sync 0;\n" MEET
    "@r tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [s+8], 128; @r tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n" "bar.sync 0;\n" MEET
    "ld.shared.u32 m, [s+8]; setp.eq.and.s32 q, rank, %d, p; @!q bra N;\n"
    "and.b32 u, s, 262143; shr.u32 u, u, 4; add.s32 u, u, 64; cvt.u64.u32 e, u; mov.b64 c, 0x0000401000080000; or.b64 e, e, c; add.s64 st, e, 512;\n"
    "mov.u32 v, %u; setp.ne.b32 q, v, v; tcgen05.mma.cta_group::2.kind::f16 [m], e, st, v, %s q;\n"
    "mov.b16 h0, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [s], h0;\n"
    "N:\n" WAIT "tcgen05.fence::after_thread_sync;\n"
    /* 16 words a thread: columns %u + 0, 4, ... */
    "shl.b32 u, w, 21; add.s32 u, u, m; mov.u32 y, 0; ld.param.u64 c, [out]; shl.b32 v, rank, 7; add.s32 v, v, t; mul.wide.u32 e, v, 64; add.s64 c, c, e;\n"
    "L: tcgen05.ld.sync.aligned.32x32b.x1.b32 {z}, [u]; tcgen05.wait::ld.sync.aligned; st.global.u32 [c], z; add.s64 c, c, 4; add.s32 u, u, %d; add.s32 y, y, 1; setp.lt.s32 q, y, 16; @q bra L;\n"
    "tcgen05.fence::before_thread_sync; bar.sync 0;\n" MEET "@r tcgen05.dealloc.cta_group::2.sync.aligned.b32 m, 128;\n";

static float element(int row, int k) {
    return half_f16_to_float(tensor[row * 16 + k]);
}

/* What D's place (rank, lane, column) holds: rows of A are tensor rows 128 rank + i; of B, 512 + 128 rank + i. */
static float expected(int m, int n, int rank, int lane, int column) {
    int row = m == 256 ? lane : lane % 64, col = m == 256 ? column : column + n / 2 * (lane / 64);
    int b = 512 + 128 * (col / (n / 2)) + col % (n / 2);
    float sum = 0;
    for (int k = 0; k < 16; k++) sum += element(128 * rank + row, k) * element(b, k);
    return sum;
}

/* With a mask, lanes of the odd CTA's last warp stay unwritten, and reading them is found. */
static void check_mma(int m, int n, int issuer, const char *mask) {
    static char body[8192], name[64];
    static emu_report report;
    int columns = m == 256 ? n : n / 2, step = columns / 16;
    uint32_t descriptor = 1u << 4 | (uint32_t)(n / 8) << 17 | (uint32_t)(m / 16) << 24;
    snprintf(body, sizeof body, MMA, issuer, descriptor, mask, step);
    snprintf(name, sizeof name, "a pair's mma %d x %d from CTA %d%s", m, n, issuer, *mask ? " with lanes left out" : "");
    sample s = {name, body, 128, {2}, {2}, -1, 0, NULL, 0, 0, -1, 0, false};
    for (int schedule = 0; schedule < 3; schedule++) {
        fa4_error err = {0};
        memset(out, 0, sizeof out);
        fa4_status status = run(&s, schedule, (uint64_t)schedule + 3, &report, &err);
        bool masked = *mask != 0;
        CHECK((status == FA4_OK) == !masked, "%s: %s", name, err.text);
        int wrong = 0;
        for (int rank = 0; rank < 2 && !masked; rank++)
            for (int lane = 0; lane < 128; lane++)
                for (int i = 0; i < 16; i++) {
                    float got, want = expected(m, n, rank, lane, i * step);
                    memcpy(&got, &out[(rank * 128 + lane) * 16 + i], 4);
                    if (!(fabsf(got - want) <= 1e-4f) && wrong++ == 0) CHECK(false, "%s, schedule %d: CTA %d lane %d column %d is %g, expected %g", name, schedule, rank, lane, i * step, got, want);
                }
        if (masked) CHECK(strstr(err.text, "nothing has written") && strstr(err.text, "CTA (1, 0, 0), warp 3"), "%s: %s", name, err.text);
    }
}

static void fill_tensor(bool numbers) {
    for (int i = 0; i < 256 * 64; i++) tensor[i] = numbers ? half_f16_from_float((float)((i * 7 + i / 16 * 3) % 17 - 8) / 8) : (uint16_t)(i / 64 * 256 + i % 64 / 4);
}

/* ---- arguments ---- */

static void check_arguments(void) {
    static emu_report report;
    fa4_error err = {0};
    sample s = {"arguments", MEET, 32, {3}, {2}, -1, 0, 0, 0, 0, -1, 0, false};
    CHECK(run(&s, 0, 0, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "grid[0]") && strstr(err.text, "multiple"), "%s", err.text);
    s.grid[0] = 4, s.bounds = ".reqnctapercluster 4, 1, 1";
    CHECK(run(&s, 0, 0, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "reqnctapercluster"), "%s", err.text);
    s.bounds = NULL, s.cluster[0] = 32, s.grid[0] = 32;
    CHECK(run(&s, 0, 0, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "cluster[0]"), "%s", err.text);
    s.cluster[0] = 16, s.cluster[1] = 2, s.grid[1] = 2;
    CHECK(run(&s, 0, 0, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "at most 16"), "%s", err.text);
    s = (sample){"arguments", MEET, 32, {4}, {0}, -1, 0, 0, 0, ".explicitcluster", -1, 0, false};
    CHECK(run(&s, 0, 0, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "explicitcluster"), "%s", err.text);
    emu_module *m = NULL;
    const char *mixed = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\ntcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"
                        "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\nret;\n}\n";
    CHECK(emu_module_load(mixed, strlen(mixed), NULL, &m, &err) == FA4_UNSUPPORTED && strstr(err.text, "line 7"), "%s", err.text);
}

int main(void) {
    for (size_t i = 0; i < sizeof SAMPLES / sizeof *SAMPLES; i++) {
        fill_tensor(false);
        tensor[3] = 3;
        check_sample(&SAMPLES[i]);
    }
    fill_tensor(true);
    check_mma(256, 128, 0, "");
    check_mma(256, 64, 1, "");
    check_mma(128, 128, 0, "");
    check_mma(128, 32, 1, "");
    check_mma(256, 128, 0, "{0, 0, 0, 0, 0, 0, 0, -1},");
    check_arguments();
    return check_report();
}
