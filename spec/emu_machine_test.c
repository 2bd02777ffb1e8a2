/*
 * The emulator's machine on small kernels written here: what each unit computes, and that each kind of misuse becomes a finding that says
 * where and what. Every kernel takes one pointer to 4,096 words; out[i] is checked against a function of i.
 */
#include "emu_sample.h"

WANT(index_of, i) WANT(one, 1) WANT(neighbour, i ^ 1) WANT(up_two, i % 32 < 2 ? i : i - 2) WANT(odd_even, i % 2 ? 100 + i : 200 + i)
WANT(ballot_low, 0x0000ffff) WANT(leader, i % 32 == 0) WANT(sum_496, 496) WANT(match_4, 0x11111111u << (i % 4)) WANT(sixty_four, 64) WANT(loops, i % 32 + 1)
WANT(count_33, 33) WANT(reversed, 63 - i) WANT(transposed, 16 * (i % 4 * 2) + i / 4 + ((16 * (i % 4 * 2 + 1) + i / 4) << 16))
WANT(local_sum, 3 * i + 3) WANT(thirty_one, 0x41f80000) WANT(canonical_nan, 0x7fffffff) WANT(scales, 0x80fe817d) WANT(from_scales, 0x40007fff) WANT(carry_high, 1) WANT(named_values, 5)

static const sample SAMPLES[] = {
    /* control and warps */
    {"a thread's index", "mov.u32 z, x;\n" STORE, 96, 3, -1, 0, index_of, 0, 0, 0, 0},
    {"divergent branches that rejoin", "and.b32 y, t, 1; setp.eq.s32 p, y, 1; @p bra A; add.s32 z, x, 200; bra B;\nA: add.s32 z, x, 100;\nB:\n" STORE, 64, 1, -1, 0, odd_even, 0, 0, 0, 0},
    {"a loop whose trip count differs by lane", "mov.u32 z, 0;\nL: add.s32 z, z, 1; setp.le.u32 p, z, lane; @p bra L;\n" STORE, 64, 1, -1, 0, loops, 0, 0, 0, 0},
    {"shfl.bfly", "shfl.sync.bfly.b32 z, x, 1, 31, -1;\n" STORE, 64, 1, -1, 0, neighbour, 0, 0, 0, 0},
    {"shfl.up keeps the first lanes", "shfl.sync.up.b32 z|p, x, 2, 0, -1;\n" STORE, 64, 1, -1, 0, up_two, 0, 0, 0, 0},
    {"vote.ballot", "setp.lt.u32 p, lane, 16; vote.sync.ballot.b32 z, p, -1;\n" STORE, 32, 1, -1, 0, ballot_low, 0, 0, 0, 0},
    {"elect picks one lane", "elect.sync z|p, -1; selp.u32 z, 1, 0, p;\n" STORE, 64, 1, -1, 0, leader, 0, 0, 0, 0},
    {"redux.add", "redux.sync.add.s32 z, lane, -1;\n" STORE, 32, 1, -1, 0, sum_496, 0, 0, 0, 0},
    {"redux of floats", "cvt.rn.f32.u32 y, lane; neg.f32 u, y; redux.sync.max.f32 z, u, -1; redux.sync.min.abs.f32 v, u, -1; redux.sync.max.abs.f32 m, u, -1; add.f32 z, z, v; add.f32 z, z, m;\n" STORE,
     32, 1, -1, 0, thirty_one, 0, 0, 0, 0},
    {"redux of floats, NaN wins", "cvt.rn.f32.u32 y, lane; setp.eq.s32 p, lane, 9; @p mov.b32 y, 0x7fc00001; redux.sync.min.NaN.f32 z, y, -1;\n" STORE, 32, 1, -1, 0, canonical_nan, 0, 0, 0, 0},
    {"match.any", "and.b32 y, lane, 3; match.any.sync.b32 z, y, -1;\n" STORE, 32, 1, -1, 0, match_4, 0, 0, 0, 0},
    {"a spinning lane does not starve its warp",
     "setp.eq.s32 p, t, 0; @p mbarrier.init.shared.b64 [s], 1; bar.sync 0; setp.eq.s32 p, lane, 0; @!p bra A;\n"
     "W: mbarrier.test_wait.parity.shared.b64 q, [s], 0; @!q bra W; bra B;\nA: setp.eq.s32 q, lane, 5; @q mbarrier.arrive.shared.b64 _, [s];\nB: mov.u32 z, x;\n" STORE,
     32, 1, -1, 0, index_of, 0, 0, 0, 0},
    /* memory */
    {"shared memory turned round", "shl.b32 y, t, 2; add.s32 y, y, s; st.shared.u32 [y], t; bar.sync 0; sub.s32 y, 63, t; shl.b32 y, y, 2; add.s32 y, y, s; ld.shared.u32 z, [y];\n" STORE,
     64, 1, -1, 0, reversed, 0, 0, 0, 0},
    {"vectors", "shl.b32 y, t, 4; add.s32 y, y, s; mov.u32 i0, t; add.s32 i1, t, 1; add.s32 i2, t, 2; mov.u32 i3, 0; st.shared.v4.b32 [y], {i0, i1, i2, i3}; "
     "ld.shared.v4.b32 {u, v, m, z}, [y]; add.s32 z, z, u; add.s32 z, z, v; add.s32 z, z, m;\n" STORE, 64, 1, -1, 0, local_sum, 0, 0, 0, 0},
    {"vectors of eight", "ld.param.u64 c, [out]; mul.wide.u32 a, t, 32; add.s64 c, c, a; mov.u32 z, x; mov.u32 m, 7; st.global.v8.b32 [c+8192], {m, m, m, m, m, m, m, z};\n"
     "ld.global.v8.b32 {i0, i1, i2, i3, u, v, y, z}, [c+8192];\n" STORE, 32, 1, -1, 0, index_of, 0, 0, 0, 0},
    {"generic addresses", "cvta.shared.u64 b, dyn; mul.wide.u32 c, t, 4; add.s64 b, b, c; st.u32 [b], t; cvta.to.shared.u64 c, b; cvt.u32.u64 y, c; ld.shared.u32 z, [y];\n" STORE,
     64, 1, -1, 0, index_of, 0, 0, 0, 0},
    {"atomics on shared memory", "setp.eq.s32 p, t, 0; @p st.shared.u32 [s], 0; bar.sync 0; atom.shared.add.u32 u, [s], 1; bar.sync 0; ld.shared.u32 z, [s];\n" STORE, 64, 1, -1, 0, sixty_four, 0, 0, 0, 0},
    {"carries", "mov.b32 u, -1; add.cc.u32 v, u, 1; addc.u32 z, 0, 0;\n" STORE, 32, 1, -1, 0, carry_high, 0, 0, 0, 0},
    {"ldmatrix.trans", "mul.lo.s32 y, lane, 32; add.s32 y, y, s; mul.lo.s32 u, lane, 16; mov.u32 v, 0;\n"
     "F: add.s32 m, u, v; cvt.u16.u32 h0, m; shl.b32 i0, v, 1; add.s32 i0, i0, y; st.shared.b16 [i0], h0; add.s32 v, v, 1; setp.lt.u32 p, v, 8; @p bra F;\n"
     "bar.sync 0; and.b32 u, lane, 7; mul.lo.s32 u, u, 32; add.s32 u, u, s; ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {z}, [u];\n" STORE, 32, 1, -1, 0, transposed, 0, 0, 0, 0},
    /* barriers */
    {"named barriers pair producer and consumer", "setp.lt.u32 p, t, 32; @p bra A; bar.sync 1, 64; ld.shared.u32 z, [s]; bra B;\nA: mov.u32 y, 5; st.shared.u32 [s], y; bar.arrive 1, 64; mov.u32 z, 5;\nB:\n" STORE,
     64, 1, -1, 0, named_values, 0, 0, 0, 0},
    {"bar.red.popc", "setp.lt.u32 p, t, 33; bar.red.popc.u32 z, 0, p;\n" STORE, 96, 1, -1, 0, count_33, 0, 0, 0, 0},
    {"an mbarrier's phases", "setp.eq.s32 p, t, 0; @p mbarrier.init.shared.b64 [s], 64; bar.sync 0; mbarrier.arrive.shared.b64 st, [s];\n"
     "W: mbarrier.try_wait.shared.b64 q, [s], st; @!q bra W; mbarrier.arrive.shared.b64 _, [s];\nV: mbarrier.try_wait.parity.shared.b64 q, [s], 1; @!q bra V;\nmov.u32 z, x;\n" STORE,
     64, 1, -1, 0, index_of, 0, 0, 0, 0},
    {"a fresh mbarrier passes parity 1", INIT_ONE "mbarrier.test_wait.parity.shared.b64 q, [s], 1; selp.u32 z, 1, 0, q;\n" STORE, 32, 1, -1, 0, one, 0, 0, 0, 0},
    {"setmaxnreg waits for the pool", "setp.ge.u32 p, t, 128; @p bra A; setmaxnreg.inc.sync.aligned.u32 232; bra B;\nA: setmaxnreg.dec.sync.aligned.u32 24;\nB: mov.u32 z, x;\n" STORE,
     256, 1, -1, 0, index_of, 0, 0, ".maxntid 256\n.minnctapersm 2", 0},
    /* tensor memory */
    {"tensor memory keeps what was stored",
     "setp.lt.u32 p, t, 32; @!p bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32;\nA: bar.sync 0; ld.shared.u32 y, [s]; shl.b32 u, w, 21; add.s32 y, y, u;\n"
     "tcgen05.st.sync.aligned.32x32b.x2.b32 [y], {t, x}; tcgen05.wait::st.sync.aligned; tcgen05.ld.sync.aligned.32x32b.x2.b32 {u, z}, [y]; tcgen05.wait::ld.sync.aligned; bar.sync 0;\n"
     "@!p bra B; ld.shared.u32 y, [s]; tcgen05.dealloc.cta_group::1.sync.aligned.b32 y, 32;\nB:\n" STORE, 128, 1, -1, 0, index_of, 0, 0, 0, EMU_RANDOM},
    {"cp.async has landed when its wait is over", "ld.param.u64 c, [out]; mul.wide.u32 a, t, 16; add.s64 c, c, a; mov.u32 i0, x; st.global.v4.b32 [c], {i0, i0, i0, i0};\n"
     "shl.b32 y, t, 4; add.s32 y, y, s; cp.async.ca.shared.global [y], [c], 16; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 z, [y+12];\n" STORE, 32, 1, -1, 0, index_of, 0, 0, 0, EMU_RANDOM},
    {"cp.async groups complete in order", "ld.param.u64 c, [out]; st.global.b32 [o], x; shl.b32 y, t, 2; add.s32 y, y, s; cp.async.ca.shared.global [y], [o], 4; cp.async.commit_group;\n"
     "cp.async.ca.shared.global [y+256], [o], 4; cp.async.commit_group; cp.async.wait_group 1; ld.shared.u32 z, [y]; cp.async.wait_all;\n" STORE, 64, 1, -1, 0, index_of, 0, 0, 0, EMU_RANDOM},
    {"cp.async arrives when it has landed", "setp.eq.s32 p, t, 0; @p mbarrier.init.shared.b64 [s], 64; bar.sync 0; st.global.b32 [o], x; shl.b32 y, t, 2; add.s32 y, y, s; cp.async.ca.shared.global [y+64], [o], 4;\n"
     "cp.async.mbarrier.arrive.noinc.shared.b64 [s];\nW: mbarrier.try_wait.parity.shared.b64 q, [s], 0; @!q bra W; xor.b32 y, t, 63; shl.b32 y, y, 2; add.s32 y, y, s; ld.shared.u32 z, [y+64];\n" STORE, 64, 1, -1, 0, reversed, 0, 0, 0, EMU_STARVE},
    {"cp.async raises the count that it arrives at", "setp.eq.s32 p, t, 0; @p mbarrier.init.shared.b64 [s], 32; bar.sync 0; st.global.b32 [o], x; shl.b32 y, t, 2; add.s32 y, y, s; cp.async.ca.shared.global [y+64], [o], 4;\n"
     "cp.async.mbarrier.arrive.shared.b64 [s]; mbarrier.arrive.shared.b64 _, [s];\nW: mbarrier.try_wait.parity.shared.b64 q, [s], 0; @!q bra W; ld.shared.u32 z, [y+64];\n" STORE, 32, 1, -1, 0, index_of, 0, 0, 0, EMU_RANDOM},
    {"cp.async read before its wait", "shl.b32 y, t, 2; add.s32 y, y, s; st.global.b32 [o], x; cp.async.ca.shared.global [y], [o], 4; ld.shared.u32 z, [y];\n" STORE, 32, 1, EMU_UNINITIALISED, "nothing has written", 0, 0, 0, 0, EMU_RANDOM},
    /* conversions of small formats */
    {"cvt.ue8m0x2", "cvt.rp.satfinite.ue8m0x2.f32 h0, 0f40400000, 0f3e800000; cvt.u32.u16 z, h0; cvt.rz.satfinite.ue8m0x2.f32 h0, 0f40400000, 0f7f800000; cvt.u32.u16 u, h0; shl.b32 u, u, 16; or.b32 z, z, u;\n" STORE, 32, 1, -1, 0, scales, 0, 0, 0, 0},
    {"cvt.bf16x2.ue8m0x2", "mov.b16 h0, 0x80ff; cvt.rn.bf16x2.ue8m0x2 z, h0;\n" STORE, 32, 1, -1, 0, from_scales, 0, 0, 0, 0},
    /* findings */
    {"a deadlock names the mbarrier", INIT_ONE "W: mbarrier.try_wait.parity.shared.b64 q, [s], 0; @!q bra W;\n", 64, 1, EMU_DEADLOCK, "parity 0: phase 0, 1 of 1 arrivals missing", NULL, 0, 0, 0, 0},
    {"a deadlock at a named barrier", "setp.lt.u32 p, t, 32; @p bra A; bar.sync 1, 96;\nA:\n", 64, 1, EMU_DEADLOCK, "named barrier 1: 32 of 96", NULL, 0, 0, 0, 0},
    {"missing bytes", INIT_ONE "setp.eq.s32 p, t, 0; @p mbarrier.arrive.expect_tx.shared.b64 _, [s], 128;\nW: mbarrier.try_wait.parity.shared.b64 q, [s], 0; @!q bra W;\n", 32, 1, EMU_DEADLOCK, "128 bytes expected", NULL, 0, 0, 0, 0},
    {"too many arrivals", INIT_ONE "mbarrier.arrive.noComplete.shared.b64 st, [s], 2;\n", 32, 1, EMU_BARRIER_MISUSE, "more arrivals", NULL, 0, 0, 0, 0},
    {"an mbarrier that was never initialised", "mbarrier.arrive.shared.b64 _, [s];\n", 32, 1, EMU_BARRIER_MISUSE, "before init", NULL, 0, 0, 0, 0},
    {"an ordinary store on a live mbarrier", INIT_ONE "mov.u32 z, 1; st.shared.u32 [s+4], z;\n", 32, 1, EMU_BARRIER_MISUSE, "ordinary access", NULL, 0, 0, 0, 0},
    {"a read of unwritten shared memory", "ld.shared.u32 z, [s+64];\n" STORE, 32, 1, EMU_UNINITIALISED, "dyn+64", NULL, 0, 0, 0, 0},
    {"shared memory out of bounds", "mov.u32 z, 1; st.shared.u32 [s+16384], z;\n", 32, 1, EMU_OUT_OF_BOUNDS, "outside", NULL, 0, 0, 0, 0},
    {"global memory out of bounds", "mov.u32 z, 1; st.global.u32 [o+16384], z;\n", 32, 1, EMU_OUT_OF_BOUNDS, "past the end of out", NULL, 0, 0, 0, 0},
    {"a misaligned load", "ld.global.u32 z, [o+2];\n", 32, 1, EMU_MISALIGNED, "multiple of 4", NULL, 0, 0, 0, 0},
    {"an aligned barrier that some lanes skip", "setp.lt.u32 p, lane, 3; @p bra E; bar.sync 0; bra F;\nE: bar.warp.sync -1;\nF:\n", 32, 1, EMU_DIVERGENCE, "aligned divergence", NULL, 0, 0, 0, 0},
    {"a guard that differs on an aligned instruction", "setp.lt.u32 p, lane, 3; @p bar.sync 0;\n", 32, 1, EMU_DIVERGENCE, "guard", NULL, 0, 0, 0, 0},
    {"a member mask without the lane", "shfl.sync.idx.b32 z, x, 0, 31, 0xffff;\n", 32, 1, EMU_DIVERGENCE, "does not name it", NULL, 0, 0, 0, 0},
    {"an endless loop", "L: bra L;\n", 32, 1, EMU_LIMIT, "without end", NULL, 0, 0, 0, 0},
    {"trap", "trap;\n", 32, 1, EMU_TRAP, "trap", NULL, 0, 0, 0, 0},
    {"tensor memory left allocated", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 64;\n", 32, 1, EMU_LEAK, "64 columns", NULL, 0, 0, 0, 0},
    {"a wrong number of columns", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], x;\n", 32, 1, EMU_TENSOR_MISUSE, "power of two", NULL, 0, 0, 0, 0},
    {"another warp's lanes of tensor memory", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32; mov.u32 y, 0x400000; tcgen05.st.sync.aligned.32x32b.x1.b32 [y], {x};\n", 32, 1, EMU_TENSOR_MISUSE, "reaches lanes 0..31", NULL, 0, 0, 0, 0},
    {"unallocated tensor memory", "mov.u32 y, 0; tcgen05.ld.sync.aligned.32x32b.x1.b32 {z}, [y];\n", 32, 1, EMU_TENSOR_MISUSE, "not allocated", NULL, 0, 0, 0, 0},
    {"unwritten tensor memory", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32; mov.u32 y, 0; tcgen05.ld.sync.aligned.32x32b.x1.b32 {z}, [y]; tcgen05.wait::ld.sync.aligned;\n"
     "tcgen05.dealloc.cta_group::1.sync.aligned.b32 y, 32;\n" STORE, 32, 1, EMU_UNINITIALISED, "nothing has written", NULL, 0, 0, 0, 0},
    {"a bad instruction descriptor", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [s], 32; mov.u64 b, 0; mov.u32 y, 0; setp.eq.s32 p, t, 0; @p tcgen05.mma.cta_group::1.kind::f16 [y], b, b, y, p;\n", 32, 1, EMU_TENSOR_MISUSE, "instruction descriptor", NULL, 0, 0, 0, 0},
    {"setmaxnreg.dec that raises", "setmaxnreg.dec.sync.aligned.u32 240;\n", 128, 1, EMU_OTHER, "240", NULL, 0, 0, ".maxntid 512\n.minnctapersm 1", 0},
    {"counts that differ at a named barrier", "setp.lt.u32 p, t, 32; @p bra A; bar.sync 1, 64; bra B;\nA: bar.sync 1, 96;\nB:\n", 64, 1, EMU_BARRIER_MISUSE, "threads expected", NULL, 0, 0, 0, 0},
    {"a tensor map that is none", INIT_ONE "mov.u64 b, map; cvta.param.u64 b, b; add.s32 u, s, 1024; setp.eq.s32 p, t, 0; @p cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [u], [b, {0, 0}], [s];\n",
     32, 1, EMU_COPY_MISUSE, "no tensor map of ours", NULL, 0, 0, 0, 0},
};

/* ---- tensor copies: every swizzle, loads with ragged boxes, stores that clip ---- */

static uint32_t swizzled(uint32_t address, int swizzle) {
    return address ^ ((address >> 7 & (swizzle == 3 ? 7u : swizzle == 2 ? 3u : swizzle == 1 ? 1u : 0u)) << 4);
}

static int copy_swizzle, copy_x, copy_y;
static uint32_t loaded(uint32_t i) { /* word i of the box in shared memory, from element (2 c, r) */
    uint32_t row = copy_swizzle == 1 ? 16 : copy_swizzle == 2 ? 32 : 64, r = 0, want = 0;
    for (uint32_t at = 0; at < 8 * row * 2; at += 4) {
        if (swizzled(1024 + at, copy_swizzle) - 1024 != 4 * i) continue;
        r = at / (row * 2);
        for (uint32_t half = 0; half < 2; half++) {
            int x = copy_x + (int)(at % (row * 2)) / 2 + (int)half, y = copy_y + (int)r;
            uint32_t e = x >= 0 && x < 64 && y >= 0 && y < 64 ? tensor[y * 64 + x] : 0;
            want |= e << (16 * half);
        }
    }
    return want;
}

static void check_copies(void) {
    static const char *const load =
        INIT_ONE "mov.u64 b, map; cvta.param.u64 b, b; mov.u32 u, 2048; mov.u32 i0, %d; mov.u32 i1, %d; setp.eq.s32 p, t, 0; @!p bra W;\n"
                 "mbarrier.arrive.expect_tx.shared.b64 _, [s], %d; cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [u], [b, {i0, i1}], [s];\n"
                 "W: mbarrier.try_wait.parity.shared.b64 q, [s], 0; @!q bra W; shl.b32 y, t, 2; add.s32 y, y, u; ld.shared.u32 z, [y];\n" STORE;
    static const int starts[4][2] = {{0, 0}, {8, 3}, {-8, 60}, {56, -2}};
    for (int i = 0; i < 64 * 64; i++) tensor[i] = (uint16_t)(i * 7 + 1);
    for (copy_swizzle = 0; copy_swizzle < 4; copy_swizzle++)
        for (int k = 0; k < 4; k++) {
            char body[2048], name[64];
            uint32_t row = copy_swizzle == 1 ? 16 : copy_swizzle == 2 ? 32 : 64;
            copy_x = starts[k][0], copy_y = starts[k][1];
            kernel_tensormap map = {.address = (uint64_t)(uintptr_t)tensor, .type = KERNEL_TENSORMAP_U16, .rank = 2, .swizzle = copy_swizzle, .dims = {64, 64},
                                    .strides = {0, 128}, .box = {row, 8}};
            snprintf(body, sizeof body, load, copy_x, copy_y, (int)row * 16);
            snprintf(name, sizeof name, "a tensor load, swizzle %d, from (%d, %d)", copy_swizzle, copy_x, copy_y);
            sample s = {name, body, (int32_t)row * 4, 1, -1, 0, loaded, 0, 0, 0, k};
            s.schedule = k % 3;
            check_sample(&s, &map);
        }
}

/* A store of a box at (56, 61) of a tensor with 60 columns: what lies outside is not written. */
static void check_clipped_store(void) {
    static const char *const body = "shl.b32 y, t, 2; add.s32 y, y, s; mov.u32 z, 0x00050005; st.shared.u32 [y], z; fence.proxy.async.shared::cta; bar.sync 0;\n"
                                    "mov.u64 b, map; cvta.param.u64 b, b; mov.u32 i0, 56; mov.u32 i1, 61; setp.eq.s32 p, t, 0; @!p bra E;\n"
                                    "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [b, {i0, i1}], [s]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;\nE: mov.u32 z, x;\n" STORE;
    kernel_tensormap map = {.address = (uint64_t)(uintptr_t)tensor, .type = KERNEL_TENSORMAP_U16, .rank = 2, .dims = {60, 64}, .strides = {0, 128}, .box = {8, 8}};
    sample s = {"a tensor store clips", body, 32, 1, -1, 0, index_of, 0, 0, 0, EMU_STARVE};
    memset(tensor, 0, sizeof tensor);
    check_sample(&s, &map);
    int wrong = 0;
    for (int y = 0; y < 64; y++)
        for (int x = 0; x < 64; x++) wrong += tensor[y * 64 + x] != (x >= 56 && x < 60 && y >= 61 ? 5 : 0);
    CHECK(wrong == 0, "a tensor store clips: %d elements", wrong);
}

/* ---- arguments and foreign text ---- */

static void check_refusals(void) {
    fa4_error err = {0};
    emu_module *m = NULL;
    static emu_report report;
    const char *copy = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n.reg .b32 t; .reg .b64 d;\nmov.u32 t, 0; mov.u64 d, 0;\n"
                       "tcgen05.cp.cta_group::1.128x256b [t], d;\nret;\n}\n";
    CHECK(emu_module_load(copy, strlen(copy), NULL, &m, &err) == FA4_UNSUPPORTED && strstr(err.text, "line 8") && strstr(err.text, "tcgen05.cp"), "%s", err.text);
    CHECK(emu_module_load("hello", 5, NULL, &m, &err) != FA4_OK && m == NULL, "foreign text");
    CHECK(emu_module_load(copy, 60, NULL, &m, &err) != FA4_OK && m == NULL, "truncated text");
    const char *plain = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 a)\n.maxntid 64\n{\nret;\n}\n";
    CHECK(emu_module_load(plain, strlen(plain), "sse9", &m, &err) == FA4_BAD_ARGUMENT, "an unknown instruction set");
    CHECK(emu_module_load(plain, strlen(plain), NULL, &m, &err) == FA4_OK, "%s", err.text);
    uint64_t a = 0;
    emu_launch good = {.grid = {1, 1, 1}, .block = {64, 1, 1}, .params = &a, .param_bytes = 8}, bad = good;
    CHECK(emu_run(m, &good, &report, &err) == FA4_OK && report.instructions == 2, "%s", err.text);
    bad.grid[0] = 0;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "grid[0]"), "%s", err.text);
    bad = good, bad.block[0] = 96;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "maxntid"), "%s", err.text);
    bad = good, bad.shared_bytes = 300000;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "shared"), "%s", err.text);
    bad = good, bad.param_bytes = 4;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "params"), "%s", err.text);
    bad = good, bad.entry = "nothing";
    CHECK(emu_run(m, &bad, &report, &err) != FA4_OK && strstr(err.text, "nothing"), "%s", err.text);
    volatile int32_t flag = 1;
    bad = good, bad.interrupt = &flag;
    CHECK(emu_run(m, &bad, &report, &err) == FA4_INTERRUPTED, "an interrupt");
    emu_module_destroy(m);
}

/* Two CTAs meet through global memory: one order, the same result for any seed. */
static void check_ordered(void) {
    static const char *const body = "setp.ne.s32 p, t, 0; @p bra E; ld.param.u64 c, [out]; atom.global.add.u32 u, [c+16380], 1;\n"
                                    "W: ld.acquire.gpu.global.u32 v, [c+16380]; setp.ne.s32 q, v, 0xeeeeeef1; @q bra W;\nE: mov.u32 z, x;\n" STORE;
    sample s = {"three CTAs wait for each other", body, 32, 3, -1, 0, index_of, 0, 1000000, 0, EMU_ROUND_ROBIN};
    check_sample(&s, NULL);
}

/* Runs a kernel of 64 CTAs on a pool of two threads. */
static fa4_status run_wide(const char *body, int32_t independent, emu_report *report, fa4_error *err) {
    static char text[8192];
    emu_module *m;
    pool *workers;
    uint64_t params[24] = {(uint64_t)(uintptr_t)out};
    snprintf(text, sizeof text, HEAD, "", body);
    memset(out, 0, sizeof out);
    FA4_TRY(emu_module_load(text, strlen(text), NULL, &m, err));
    fa4_status status = pool_create(2, &workers, err);
    emu_region region = {out, sizeof out, "out", 0};
    emu_launch launch = {.grid = {64, 1, 1}, .block = {32, 1, 1}, .params = params, .param_bytes = 192, .regions = &region, .region_count = 1,
                         .workers = workers, .independent = independent};
    if (status == FA4_OK) status = emu_run(m, &launch, report, err);
    pool_destroy(workers);
    emu_module_destroy(m);
    return status;
}

/* Which programs bind their CTAs to one order, and what a launch that denies it gets. */
static void check_independent(void) {
    static emu_report report;
    fa4_error err = {0};
    const char *sums = "ld.param.u64 c, [out]; atom.global.add.u32 u, [c+16380], 1; red.global.max.u32 [c+16376], x; st.global.u32 [o], x;\n";
    CHECK(run_wide(sums, 0, &report, &err) == FA4_OK && report.threads == 2 && out[4095] == 2048 && out[4094] == 2047, "sums: %d threads, %u, %u, %s",
          report.threads, out[4095], out[4094], err.text);
    const char *result = "ld.param.u64 c, [out]; atom.global.add.u32 u, [c+16380], 1; st.global.u32 [o], u;\n";
    CHECK(run_wide(result, 0, &report, &err) == FA4_OK && report.threads == 1 && out[2047] == 2047, "results: %d threads, %s", report.threads, err.text);
    CHECK(run_wide(result, 1, &report, &err) == FA4_FINDING && strstr(err.text, "independent"), "a false promise: %s", err.text);
    const char *passed = "setp.eq.s32 p, t, 77; ld.param.u64 c, [out]; @!p bra E; atom.global.add.u32 u, [c+16380], 1; st.global.u32 [o], u;\nE:\n";
    CHECK(run_wide(passed, 0, &report, &err) == FA4_OK && report.threads == 1, "%d threads, %s", report.threads, err.text);
    CHECK(run_wide(passed, 1, &report, &err) == FA4_OK && report.threads == 2, "%d threads, %s", report.threads, err.text);
    const char *floats = "ld.param.u64 c, [out]; red.global.add.f32 [c+16380], 0f3F800000;\n";
    CHECK(run_wide(floats, 0, &report, &err) == FA4_OK && report.threads == 1, "sums of floats have an order: %d threads, %s", report.threads, err.text);
}

typedef struct tally {
    int64_t kinds[16];
} tally;
static void count_event(void *state, const emu_event *event) {
    ((tally *)state)->kinds[event->kind]++;
}

static void check_events(void) {
    static char text[8192];
    static emu_report report;
    fa4_error err = {0};
    emu_module *m;
    tally t = {{0}};
    emu_listener listener = {&t, count_event};
    snprintf(text, sizeof text, HEAD, "", INIT_ONE "setp.eq.s32 p, t, 0; @p mbarrier.arrive.shared.b64 _, [s];\nW: mbarrier.try_wait.parity.shared.b64 q, [s], 0; @!q bra W; membar.gl; st.global.u32 [o], t;\n");
    CHECK(emu_module_load(text, strlen(text), NULL, &m, &err) == FA4_OK, "%s", err.text);
    uint64_t params[24] = {(uint64_t)(uintptr_t)out};
    emu_region region = {out, sizeof out, "out", 0};
    emu_launch launch = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .shared_bytes = 64, .params = params, .param_bytes = 192, .regions = &region, .region_count = 1, .listener = &listener};
    CHECK(emu_run(m, &launch, &report, &err) == FA4_OK, "%s", err.text);
    CHECK(t.kinds[EMU_EVENT_WRITE] == 32 && t.kinds[EMU_EVENT_WAIT] == 32 && t.kinds[EMU_EVENT_FENCE] == 1 && t.kinds[EMU_EVENT_ARRIVE] >= 1 && t.kinds[EMU_EVENT_PHASE] >= 1,
          "events: %lld writes, %lld waits, %lld fences", (long long)t.kinds[EMU_EVENT_WRITE], (long long)t.kinds[EMU_EVENT_WAIT], (long long)t.kinds[EMU_EVENT_FENCE]);
    emu_module_destroy(m);
}

/* Calls: two of one function in another, each with local memory of its own; a guard on the call; lanes that return early; a pointer to a parameter. */
static const char CALLS[] =
    ".version 9.0\n.target sm_100a\n.address_size 64\n"
    ".func (.param .b32 r) later(.param .b32 a);\n"
    ".func (.param .b32 r) once(.param .b32 a, .param .align 8 .b8 pair[8])\n{\n.local .b32 keep[4];\n.reg .pred p;\n.reg .b32 x, y, z;\n.reg .b64 q;\n"
    "ld.param.b32 x, [a]; st.local.b32 [keep+8], x; mov.b64 q, pair; ld.param.b32 y, [q+4]; ld.local.b32 z, [keep+8]; st.param.b32 [r], z;\n"
    "setp.lt.u32 p, x, 8; @p ret; add.u32 z, z, y; st.param.b32 [r], z;\nret;\n}\n"
    ".func (.param .b32 r) later(.param .b32 a)\n{\n.local .b32 keep[2];\n.reg .b32 x, y, z;\n.param .b32 out1; .param .b32 in1; .param .align 8 .b8 in2[8]; .param .b32 out2;\n"
    "ld.param.b32 x, [a]; st.local.b32 [keep], x; mov.b32 y, 100; st.param.b32 [in1], x; st.param.b32 [in2+4], y; call (out1), once, (in1, in2); ld.param.b32 y, [out1];\n"
    "st.param.b32 [in1], y; call (out2), once, (in1, in2); ld.param.b32 z, [out2]; ld.local.b32 x, [keep]; mad.lo.u32 z, x, 1000, z; st.param.b32 [r], z;\nret;\n}\n"
    ".visible .entry k(.param .u64 out)\n{\n.reg .pred p;\n.reg .b32 t, z;\n.reg .b64 o, a;\n.param .b32 in; .param .b32 res;\n"
    "mov.u32 t, %tid.x; ld.param.u64 o, [out]; mul.wide.u32 a, t, 4; add.s64 o, o, a; st.param.b32 [in], t; st.param.b32 [res], t; setp.ne.u32 p, t, 20;\n"
    "@p call (res), later, (in); ld.param.b32 z, [res]; st.global.b32 [o], z;\nret;\n}\n";
static uint32_t called(uint32_t i) {
    uint32_t once = i < 8 ? i : i + 100, twice = once < 8 ? once : once + 100;
    return i == 20 ? 20 : 1000 * i + twice;
}

static void check_calls(void) {
    static emu_report report;
    fa4_error err = {0};
    emu_module *m = NULL;
    CHECK(emu_module_load(CALLS, strlen(CALLS), NULL, &m, &err) == FA4_OK, "%s", err.text);
    uint64_t params = (uint64_t)(uintptr_t)out;
    emu_region region = {out, sizeof out, "out", 0};
    for (int schedule = 0; m != NULL && schedule < 3; schedule++) {
        emu_launch launch = {.grid = {1, 1, 1}, .block = {64, 1, 1}, .params = &params, .param_bytes = 8, .regions = &region, .region_count = 1, .schedule = schedule};
        memset(out, 0xee, sizeof out);
        CHECK(emu_run(m, &launch, &report, &err) == FA4_OK && report.finding_count == 0, "%s", err.text);
        for (uint32_t i = 0; i < 64; i++) CHECK(out[i] == called(i), "calls: out[%u] is %u, expected %u", i, out[i], called(i));
    }
    const ptx_function *f = m ? &emu_module_program(m)->functions[emu_module_program(m)->function_count - 1] : NULL;
    CHECK(f != NULL && emu_module_function(m, f)->instr_count > f->instr_count + 20, "calls are put in place");
    emu_module_destroy(m);
    static const char *const refused[] = {
        ".func f() { call f; ret; }\n.visible .entry k() { call f; ret; }\n", ".extern .func g();\n.visible .entry k() { call g; ret; }\n",
        ".func f() { call f; call f; ret; }\n.visible .entry k() { call f; ret; }\n"};
    for (size_t i = 0; i < 3; i++) {
        char text[512];
        snprintf(text, sizeof text, ".version 9.0\n.target sm_100a\n.address_size 64\n%s", refused[i]);
        CHECK(emu_module_load(text, strlen(text), NULL, &m, &err) == FA4_UNSUPPORTED && strstr(err.text, "a call"), "%s", err.text);
    }
}

int main(void) {
    check_calls();
    for (size_t i = 0; i < sizeof SAMPLES / sizeof *SAMPLES; i++) check_sample(&SAMPLES[i], NULL);
    check_copies();
    check_clipped_store();
    check_refusals();
    check_ordered();
    check_independent();
    check_events();
    return check_report();
}
