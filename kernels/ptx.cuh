// PTX instructions as functions: one instruction, one wrapper, its own name with dots as underscores. No loops, no policy: those live in
// pipeline.cuh and the roles. Inline assembly stands in no other file. A wrapper that touches or orders memory clobbers "memory".
#pragma once

#include "params.h"

#define FWD_DEVICE __device__ __forceinline__

namespace ptx {

// ---- addresses and election ------------------------------------------------------------------------------------

FWD_DEVICE uint32_t shared_address(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

// Exactly one lane of the converged warp gets true, the same one each time.
FWD_DEVICE bool elect_sync() {
    uint32_t leader;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.b32 %0, 1, 0, p;\n\t}" : "=r"(leader));
    return leader != 0;
}

// Executed by all warps of a warpgroup. New registers hold junk; inc blocks until others have given registers up.
template <int N> FWD_DEVICE void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> FWD_DEVICE void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }

// ---- mbarrier ------------------------------------------------------------------------------------------------------

FWD_DEVICE void mbarrier_init(uint32_t bar, uint32_t count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
// Releases this thread's earlier generic accesses; says nothing for async operations in flight.
FWD_DEVICE void mbarrier_arrive(uint32_t bar) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
FWD_DEVICE void mbarrier_arrive_expect_tx(uint32_t bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
// True when the phase of this parity has completed. May give up early: loop.
FWD_DEVICE bool mbarrier_try_wait_parity(uint32_t bar, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\tselp.b32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(bar), "r"(parity)
                 : "memory");
    return done != 0;
}

// The same where `asked`, else false.
FWD_DEVICE bool mbarrier_try_wait_parity_if(bool asked, uint32_t bar, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %1, 0;\n\t@p mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%2], %3;\n\tselp.b32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"((uint32_t)asked), "r"(bar), "r"(parity)
                 : "memory");
    return done != 0;
}

// ---- fences and named barriers ---------------------------------------------------------------------------------------

FWD_DEVICE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// Orders this thread's generic writes to shared memory before later reads by TMA or MMA; a barrier must still carry it over.
FWD_DEVICE void fence_proxy_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FWD_DEVICE void bar_sync(uint32_t id, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Does not block; a warp must not arrive twice before the barrier has completed.
FWD_DEVICE void bar_arrive(uint32_t id, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- TMA -----------------------------------------------------------------------------------------------------------------

FWD_DEVICE void prefetch_tensormap(const FwdTensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// Asynchronous: the barrier gets the bytes of the whole box, out-of-bounds elements (zeros) included.
FWD_DEVICE void cp_async_bulk_tensor_4d_load(uint32_t destination, const FwdTensorMap *map, uint32_t bar, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(
                     destination),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}
// Asynchronous: belongs to this thread's next bulk group. Elements out of bounds are not written.
FWD_DEVICE void cp_async_bulk_tensor_4d_store(const FwdTensorMap *map, uint32_t source, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map), "r"(source),
                 "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}
FWD_DEVICE void cp_async_bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// At most N groups of this thread still read their sources.
template <int N> FWD_DEVICE void cp_async_bulk_wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
// At most N groups of this thread are incomplete; the others' writes are done.
template <int N> FWD_DEVICE void cp_async_bulk_wait_group() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// ---- arithmetic ------------------------------------------------------------------------------------------------------------

// 2^x to 2 ulp; results below the normal range become 0, NaN stays.
FWD_DEVICE float ex2_approx_ftz(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
FWD_DEVICE float lg2_approx(float x) {
    float y;
    asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
FWD_DEVICE float rcp_approx_ftz(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
FWD_DEVICE float rcp_rn(float x) {
    float y;
    asm("rcp.rn.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Round to a whole number, halves to even.
FWD_DEVICE float cvt_rni(float x) {
    float y;
    asm("cvt.rni.f32.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Clamped to [0, 1]; NaN becomes 0.
FWD_DEVICE float fma_rn_sat(float a, float b, float c) {
    float d;
    asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));
    return d;
}

// NaN when one is NaN.
FWD_DEVICE float max_nan(float a, float b) {
    float d;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
// The other operand when one is NaN.
FWD_DEVICE float max(float a, float b) {
    float d;
    asm("max.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
FWD_DEVICE float min(float a, float b) {
    float d;
    asm("min.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}

// Two floats in one 64-bit register, element 0 low.
struct Pair {
    uint64_t bits;
};
FWD_DEVICE Pair pack(float low, float high) {
    Pair p;
    asm("mov.b64 %0, {%1, %2};" : "=l"(p.bits) : "f"(low), "f"(high));
    return p;
}
FWD_DEVICE void unpack(Pair p, float &low, float &high) { asm("mov.b64 {%0, %1}, %2;" : "=f"(low), "=f"(high) : "l"(p.bits)); }

// The low half takes `low`.
FWD_DEVICE uint32_t cvt_rn_f16x2(float low, float high) {
    uint32_t d;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
FWD_DEVICE uint32_t cvt_rn_bf16x2(float low, float high) {
    uint32_t d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
// Values beyond the largest finite number become it, infinities too.
FWD_DEVICE uint32_t cvt_rn_satfinite_f16x2(float low, float high) {
    uint32_t d;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}
FWD_DEVICE uint32_t cvt_rn_satfinite_bf16x2(float low, float high) {
    uint32_t d;
    asm("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
    return d;
}

} // namespace ptx
