/* One line of PTX for every opcode of ptx/opcodes.h and for the modifiers that matter, by the target that has it; ptxas 13.0 accepts each. */
#ifndef FA4_SPEC_PTX_LINES_H
#define FA4_SPEC_PTX_LINES_H

// clang-format off

/* What the lines may name. */
#define PTX_LINES_MODULE                                                                                                         \
    ".global .align 16 .b8 gl[256];\n.const .align 4 .f32 cs[4] = {0f3F800000, 2.0, -0.5};\n.extern .shared .align 1024 .b8 dyn[];\n"
#define PTX_LINES_HEAD                                                                                                           \
    ".visible .entry k(.param .u64 prm, .param .align 64 .b8 map[128])\n.maxntid 128, 1, 1\n{\n"                                  \
    ".reg .pred p<8>; .reg .b16 h<8>; .reg .b32 r<140>; .reg .b64 d<16>; .reg .b128 q<4>; .reg .f32 f<80>; .reg .f64 e<8>;\n"     \
    ".shared .align 16 .b8 sh[2048]; .local .align 8 .b8 lo[64];\n"
#define PTX_LINES_TAIL "END:\nret;\n}\n"

static const char *const ptx_lines_80[] = {
    "add.s32 r1, r2, r3;", "add.rn.ftz.sat.f32 f1, f2, f3;", "add.s64 d1, d2, -5;", "add.f64 e1, e2, 0d3FF0000000000000;",
    "add.f16x2 r1, r2, r3;", "add.cc.u32 r1, r2, r3;", "addc.cc.u32 r1, r2, r3;", "addc.u32 r1, r2, 0;", "sub.s16 h1, h2, h3;",
    "sub.cc.u32 r1, r2, r3;", "subc.u32 r1, r2, r3;", "mul.lo.s32 r1, r2, r3;", "mul.hi.u64 d1, d2, d3;",
    "mul.wide.u16 r1, h2, h3;", "mul.wide.s32 d1, r2, -4;", "mul.rz.f32 f1, f2, 0f40000000;", "mad.lo.s32 r1, r2, r3, r4;",
    "mad.wide.u32 d1, r2, r3, d4;", "mad.hi.s32 r1, r2, r3, r4;", "mad.lo.cc.u32 r1, r2, r3, r4;",
    "madc.hi.u32 r1, r2, r3, r4;", "mul24.lo.u32 r1, r2, r3;", "mad24.lo.s32 r1, r2, r3, r4;", "fma.rn.f32 f1, f2, f3, f4;",
    "fma.rm.ftz.f32 f1, f2, f3, f4;", "fma.rn.relu.f16x2 r1, r2, r3, r4;", "fma.rn.f64 e1, e2, e3, e4;",
    "fma.rn.bf16 h1, h2, h3, h4;", "div.s32 r1, r2, r3;", "div.approx.ftz.f32 f1, f2, f3;", "div.full.f32 f1, f2, f3;",
    "div.rn.f64 e1, e2, e3;", "rem.u32 r1, r2, 7;", "abs.f32 f1, f2;", "abs.s32 r1, r2;", "neg.ftz.f32 f1, f2;",
    "neg.bf16x2 r1, r2;", "min.NaN.f32 f1, f2, f3;", "min.s64 d1, d2, d3;", "max.ftz.f32 f1, f2, 0fFF800000;",
    "max.NaN.bf16x2 r1, r2, r3;", "max.ftz.NaN.f32 f1, f2, f3;", "sad.u32 r1, r2, r3, r4;", "dp4a.u32.s32 r1, r2, r3, r4;",
    "dp2a.lo.s32.s32 r1, r2, r3, r4;", "copysign.f32 f1, f2, f3;", "testp.infinite.f32 p1, f2;", "rcp.rn.f32 f1, f2;",
    "rcp.approx.ftz.f64 e1, e2;", "sqrt.rn.f32 f1, f2;", "sqrt.approx.f32 f1, f2;", "rsqrt.approx.ftz.f32 f1, f2;",
    "sin.approx.f32 f1, f2;", "cos.approx.ftz.f32 f1, f2;", "lg2.approx.f32 f1, f2;", "ex2.approx.ftz.f32 f1, f2;",
    "ex2.approx.f16x2 r1, r2;", "tanh.approx.f32 f1, f2;", "setp.eq.s32 p1, r2, 3;", "setp.lt.and.f32 p1|p2, f2, f3, !p3;",
    "setp.neu.f64 p1, e1, e2;", "setp.hs.u32 p1, r1, r2;", "setp.eq.b16 p1, h1, 4;", "setp.gt.f16x2 p1|p2, r1, r2;",
    "set.lt.u32.f32 r1, f2, f3;", "set.eq.and.f32.s32 f1, r2, r3, p1;", "selp.b32 r1, r2, 0, p1;",
    "selp.f32 f1, f2, 0fFF800000, p1;", "slct.s32.f32 r1, r2, r3, f4;", "and.b32 r1, r2, 0xFFFFFFF0;", "and.pred p1, p2, p3;",
    "or.b64 d1, d2, d3;", "xor.b16 h1, h2, h3;", "not.pred p1, p2;", "not.b32 r1, r2;", "cnot.b32 r1, r2;",
    "lop3.b32 r1, r2, r3, r4, 0xe8;", "shl.b32 r1, r2, 5;", "shl.b64 d1, d2, r3;", "shr.s16 h1, h2, r3;", "shr.u64 d1, d2, 9;",
    "shf.l.wrap.b32 r1, r2, r3, r4;", "shf.r.clamp.b32 r1, r2, r3, 31;", "popc.b64 r1, d2;", "clz.b32 r1, r2;",
    "bfind.s32 r1, r2;", "bfind.shiftamt.u64 r1, d2;", "fns.b32 r1, r2, r3, r4;", "brev.b32 r1, r2;", "bfe.s64 d1, d2, r3, 4;",
    "bfi.b32 r1, r2, r3, 4, r5;", "bmsk.clamp.b32 r1, r2, r3;", "szext.wrap.s32 r1, r2, r3;", "prmt.b32 r1, r2, r3, 0x5410;",
    "prmt.b32.f4e r1, r2, r3, r4;", "mov.b32 r1, r2;", "mov.u64 d1, gl;", "mov.u64 d1, gl+16;", "mov.b32 r1, sh;",
    "mov.f32 f1, 0f7F800000;", "mov.f32 f1, 1.5;", "mov.b32 {h1, h2}, r1;", "mov.b64 d1, {r1, r2};", "mov.u32 r1, %tid.x;",
    "mov.u32 r1, %ntid.z;", "mov.u64 d1, %globaltimer;", "mov.u32 r1, WARP_SZ;", "mov.pred p1, p2;",
    "mov.b64 {h1, h2, h3, h4}, d1;", "mov.u32 r1, %lanemask_lt;", "cvt.rn.f32.s32 f1, r2;", "cvt.rzi.s32.f32 r1, f2;",
    "cvt.u64.u32 d1, r2;", "cvt.s32.s8 r1, r2;", "cvt.rn.f16x2.f32 r1, f2, f3;", "cvt.rn.relu.bf16x2.f32 r1, f2, f3;",
    "cvt.f32.f16 f1, h2;", "cvt.sat.u8.s32 h1, r2;", "cvt.rni.f32.f32 f1, f2;", "cvt.rna.tf32.f32 r1, f2;",
    "cvt.pack.sat.u8.s32.b32 r1, r2, r3, r4;", "cvt.rn.f32.f64 f1, e2;", "cvta.to.global.u64 d1, d2;",
    "cvta.shared.u64 d1, d2;", "cvta.param.u64 d1, map;", "isspacep.shared p1, d2;",
    "ld.global.v4.f32 {f1, f2, f3, f4}, [d1+16];", "ld.global.nc.L1::no_allocate.L2::128B.v2.u64 {d1, d2}, [d3];",
    "ld.param.u64 d1, [prm];", "ld.shared.u8 h1, [sh+3];", "ld.volatile.global.u32 r1, [d1];",
    "ld.acquire.gpu.global.u32 r1, [d1];", "ld.const.f32 f1, [cs+4];", "ld.local.b32 r1, [lo+8];",
    "ld.global.cg.s16 r1, [d1];", "ld.b32 r1, [d1+-4];", "ldu.global.f32 f1, [d1];", "ld.shared.v2.b16 {h1, h2}, [dyn];",
    "ld.global.L2::cache_hint.b32 r1, [d1], d2;", "st.global.v2.f32 [d1], {f1, 0f00000000};", "st.shared.b32 [sh+4], 1;",
    "st.release.sys.global.u32 [d1], r1;", "st.local.f64 [lo], e1;", "st.global.cs.u8 [d1], h1;",
    "atom.global.add.u32 r1, [d1], 1;", "atom.shared.cas.b32 r1, [sh], r2, r3;",
    "atom.acq_rel.gpu.global.exch.b64 d1, [d2], d3;", "atom.global.add.noftz.f16x2 r1, [d1], r2;",
    "atom.add.f64 e1, [d1], e2;", "red.global.add.f32 [d1], f1;", "red.shared.max.s32 [sh], r1;",
    "red.global.add.noftz.f16x2 [d1], r2;", "prefetch.global.L2 [d1];", "prefetch.global.L1 [d1];", "prefetchu.L1 [d1];",
    "discard.global.L2 [d1], 128;", "applypriority.global.L2::evict_normal [d1], 128;", "prefetch.global.L2::evict_last [d1];",
    "createpolicy.fractional.L2::evict_first.b64 d1, 0f3F800000;",
    "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 d1, 0f3F000000;",
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {r1, r2, r3, r4}, [sh];", "movmatrix.sync.aligned.m8n8.trans.b16 r1, r2;",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f1, f2, f3, f4}, {r1, r2, r3, r4}, {r5, r6}, {f1, f2, f3, f4};",
    "cp.async.cg.shared.global [sh], [d1], 16;", "cp.async.ca.shared.global.L2::128B [sh], [d1], 8, r1;",
    "cp.async.commit_group;", "cp.async.wait_group 2;", "cp.async.wait_all;",
    "cp.async.mbarrier.arrive.noinc.shared.b64 [sh];", "bar.sync 0;", "bar.sync r1, 128;", "bar.arrive 3, r2;",
    "bar.red.popc.u32 r1, 0, p1;", "bar.red.and.pred p1, 0, 64, !p2;", "bar.warp.sync -1;", "bar.cta.sync 1;",
    "bar.cta.arrive 1, 64;", "bar.cta.red.or.pred p1, 2, p3;", "barrier.sync 2, 64;", "barrier.sync.aligned r1;",
    "barrier.arrive 2, 64;", "barrier.red.popc.aligned.u32 r1, 2, p1;", "barrier.cta.sync 1;", "barrier.cta.arrive 1, 64;",
    "barrier.cta.red.or.pred p1, 2, p3;", "membar.gl;", "membar.cta;", "fence.sc.gpu;", "fence.acq_rel.cta;",
    "fence.proxy.alias;", "mbarrier.init.shared.b64 [sh], 1;", "mbarrier.inval.shared::cta.b64 [sh+8];",
    "mbarrier.arrive.shared.b64 d1, [r1];", "mbarrier.arrive.noComplete.shared.b64 d1, [r1], 2;",
    "mbarrier.arrive_drop.shared.b64 d1, [r1];", "mbarrier.test_wait.shared.b64 p1, [sh], d1;",
    "mbarrier.test_wait.parity.shared.b64 p1, [sh], r1;", "mbarrier.pending_count.b64 r1, d1;",
    "shfl.sync.bfly.b32 r1|p1, r2, 16, 31, -1;", "shfl.sync.idx.b32 r1, r2, r3, 0x1f, r4;", "vote.sync.ballot.b32 r1, p1, -1;",
    "vote.sync.any.pred p1, !p2, r3;", "match.any.sync.b32 r1, r2, -1;", "match.all.sync.b64 r1|p1, d2, -1;",
    "redux.sync.add.s32 r1, r2, -1;", "redux.sync.or.b32 r1, r2, r3;", "activemask.b32 r1;", "nanosleep.u32 100;",
    "pmevent 3;", "@p1 bra END;", "@!p2 bra.uni END;", "{ TS: .branchtargets END, NEXT; brx.idx r1, TS; NEXT: }",
    "{ .param .b32 a0; .param .b32 r0; st.param.b32 [a0], r1; call.uni (r0), fn, (a0); ld.param.b32 r2, [r0]; }", "trap;",
    "brkpt;", "@p1 exit;", "@p1 ret;", "mul.f32 f1, f2, 0f3FB8AA3B;", "tanh.approx.f16 h1, h2;",
};

static const char *const ptx_lines_90[] = {
    "mapa.shared::cluster.u32 r1, sh, r2;", "mapa.u64 d1, d2, 1;", "getctarank.shared::cluster.u32 r1, r2;",
    "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [r1], r2, [r3];",
    "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [r1], r2, [r3];",
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [sh], {r1, r2};",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [sh], [d1], 128, [sh+1024];",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [r1], [d1], r2, [r3], h1, d2;",
    "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [d1], [sh], 64, d2;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [d1], [sh], 64;",
    "cp.async.bulk.prefetch.L2.global [d1], 256;",
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [sh], [d1, {r1, r2}], [sh+1024];",
    "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [r1], [d1, {r1, r2, 0, r4}], [r3], h1, d2;",
    "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [r1], [d1, {r1, r2, r3}], [r3], {h1};",
    "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [d1, {r1, r2, r3, r4, r5}], [sh];",
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [d1, {r1}], [sh];",
    "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [d1, {r1, r2}];", "cp.async.bulk.commit_group;",
    "cp.async.bulk.wait_group.read 1;", "cp.async.bulk.wait_group 0;", "prefetch.tensormap [d1];",
    "prefetch.param.tensormap [map];", "prefetch.const.tensormap [d1];", "barrier.cluster.arrive.release.aligned;",
    "barrier.cluster.arrive.relaxed;", "barrier.cluster.wait.acquire;", "fence.mbarrier_init.release.cluster;",
    "fence.proxy.async;", "fence.proxy.async.shared::cta;", "fence.proxy.tensormap::generic.release.gpu;",
    "fence.proxy.tensormap::generic.acquire.gpu [d1], 128;", "fence.acq_rel.cluster;",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [sh], 64;",
    "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
    "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [sh], 64;",
    "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [sh], 64;", "mbarrier.arrive.expect_tx.shared.b64 d1, [r1], r2;",
    "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r1];", "mbarrier.arrive_drop.expect_tx.shared.b64 d1, [r1], r2;",
    "mbarrier.try_wait.parity.shared::cta.b64 p1, [sh], 1, 0x989680;",
    "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p1, [r1], r2;", "mbarrier.try_wait.shared.b64 p1, [sh], d1;",
    "elect.sync r1|p1, -1;", "elect.sync _|p1, r2;", "griddepcontrol.wait;", "griddepcontrol.launch_dependents;",
    "mov.u32 r1, %cluster_ctarank;", "cvt.rn.satfinite.e4m3x2.f32 h1, f2, f3;", "cvt.rn.f16x2.e5m2x2 r1, h2;",
    "ld.shared::cluster.b32 r1, [r2];", "createpolicy.fractional.L2::evict_last.b64 d1;",
};

static const char *const ptx_lines_90a[] = {
    "setmaxnreg.inc.sync.aligned.u32 232;", "wgmma.fence.sync.aligned;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {f1, f2, f3, f4}, d1, d2, p1, 1, 1, 0, 1;",
    "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {f1, f2, f3, f4, f5, f6, f7, f8}, {r1, r2, r3, r4}, d2, 1, 1, -1, 1;",
    "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 1;",
};

static const char *const ptx_lines_100a[] = {
    "fma.rn.ftz.f32x2 d1, d2, d3, d4;", "add.rm.f32x2 d1, d2, d3;", "mul.rz.ftz.f32x2 d1, d2, d3;", "sub.rn.f32x2 d1, d2, d3;",
    "max.f32 f1, f2, f3, f4;", "min.ftz.NaN.f32 f1, f2, f3, f4;", "setmaxnreg.dec.sync.aligned.u32 48;",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [sh], 512;",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32 r1, 512;", "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    "tcgen05.ld.sync.aligned.32x32b.x4.b32 {r1, r2, r3, r4}, [r5];",
    "tcgen05.ld.sync.aligned.16x256b.x1.b32 {r1, r2, r3, r4}, [r5+16];",
    "tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {r1, r2}, [r5], 64;",
    "tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {r1, r2}, [r5];", "tcgen05.st.sync.aligned.32x32b.x1.b32 [r1], {r2};",
    "tcgen05.st.sync.aligned.32x32b.x4.unpack::16b.b32 [r1], {r2, r3, r4, r5};", "tcgen05.wait::ld.sync.aligned;",
    "tcgen05.wait::st.sync.aligned;", "tcgen05.mma.cta_group::1.kind::f16 [r1], d1, d2, r2, p1;",
    "tcgen05.mma.cta_group::1.kind::f16 [r1], [r2], d2, r3, {r4, r5, r6, r7}, p1;",
    "tcgen05.mma.cta_group::1.kind::f16.collector::a::fill [r1], d1, d2, r2, p1;",
    "tcgen05.mma.cta_group::1.kind::f16 [r1], d1, d2, r2, p1, 3;", "tcgen05.cp.cta_group::1.128x256b [r1], d1;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [sh];", "tcgen05.fence::before_thread_sync;",
    "tcgen05.fence::after_thread_sync;",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [sh], [sh+16];",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p1, q1;",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {r1, r2, r3, _}, q1;",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 r1, q1;", "mov.b128 q1, {d1, d2};",
    "ld.shared.b128 q1, [sh];",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes.cta_group::1 [sh], [d1, {r1, r2}], [sh+1024];",
    "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [sh], [d1, {r1, r2, r3, r4, r5}], [sh+1024];",
    "ld.global.v8.b32 {r1, r2, r3, r4, r5, r6, r7, r8}, [d1];", "redux.sync.max.abs.NaN.f32 f1, f2, -1;",
};

// clang-format on

#endif
