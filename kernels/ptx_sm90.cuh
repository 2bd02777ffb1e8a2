// PTX instructions of the Hopper kernel, one wrapper each, under the instruction's own name. No loops and no policy: those live with
// the roles. A wrapper that touches or orders memory has the "memory" clobber.
#ifndef FA4_KERNELS_PTX_SM90_CUH
#define FA4_KERNELS_PTX_SM90_CUH

using u32 = unsigned int;
using u64 = unsigned long long;

#define DEVICE __device__ __forceinline__

namespace ptx {

// ---- mbarrier: b is a 32-bit shared address ----

DEVICE void mbarrier_init(u32 b, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(count) : "memory");
}
// Orders this thread's earlier accesses before the phase it completes; says nothing of the asynchronous proxy.
DEVICE void mbarrier_arrive(u32 b) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
}
DEVICE void mbarrier_arrive_expect_tx(u32 b, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory");
}
// Waits until the phase of that parity has completed. try_wait may give up early, hence the loop; it stands in the assembly because a
// loop in C++ makes ptxas take the warp for divergent behind it, which moves descriptors out of the uniform registers.
DEVICE void mbarrier_wait_parity(u32 b, u32 parity) {
    asm volatile("{\n.reg .pred p;\n"
                 "WAIT_%=:\n"
                 "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra DONE_%=;\n"
                 "bra WAIT_%=;\n"
                 "DONE_%=:\n}" ::"r"(b),
                 "r"(parity)
                 : "memory");
}
DEVICE void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Orders this thread's ordinary shared accesses with the asynchronous proxy (copy engine, tensor cores), in both directions.
DEVICE void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- bulk tensor copies; coordinates innermost first ----

DEVICE void cp_async_bulk_tensor_4d_load(u32 dst, const void *map, u32 bar, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(dst),
                 "l"(map), "r"(bar), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}
// The writing threads must have fenced the asynchronous proxy before this thread got here.
DEVICE void cp_async_bulk_tensor_4d_store(const void *map, u32 src, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
                 "r"(src), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
}
DEVICE void cp_async_bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// The sources of this thread's stores may be overwritten; their writes need not be visible.
DEVICE void cp_async_bulk_wait_group_read_0() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
DEVICE void cp_async_bulk_wait_group_0() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
DEVICE void prefetch_tensormap(const void *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// ---- launches that overlap: both do nothing unless the second kernel was launched to start early ----

// The next kernel on the stream may be started once every CTA has said so or ended. Says nothing of memory.
DEVICE void griddepcontrol_launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
// Until the kernels before have ended and their writes can be read.
DEVICE void griddepcontrol_wait() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

// ---- warps and registers ----

template <int N> DEVICE void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> DEVICE void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
DEVICE void nanosleep(u32 ns) {
    asm volatile("nanosleep.u32 %0;" ::"r"(ns) : "memory");
}
DEVICE u32 clock() {
    u32 now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
    return now;
}
DEVICE void nanosleep_0() {
    asm volatile("nanosleep.u32 0;" ::: "memory");
}
DEVICE void bar_sync(u32 id, u32 threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Does not block; a warp must not arrive twice before the barrier has completed.
DEVICE void bar_arrive(u32 id, u32 threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// Or of a flag over the `threads` threads that use this named barrier.
DEVICE bool bar_red_or(u32 id, u32 threads, bool flag) {
    u32 any;
    asm volatile("{\n.reg .pred p, q;\n"
                 "setp.ne.u32 p, %1, 0;\n"
                 "bar.red.or.pred q, %2, %3, p;\n"
                 "selp.u32 %0, 1, 0, q;\n}"
                 : "=r"(any)
                 : "r"((u32)flag), "r"(id), "r"(threads)
                 : "memory");
    return any != 0;
}

// ---- numbers ----

DEVICE float ex2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE float lg2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE float rcp(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE float max_nan(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
DEVICE float min_nan(float a, float b) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
DEVICE float add_rm(float a, float b) {
    float y;
    asm("add.rm.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
template <bool BF16> DEVICE u32 cvt_rn_x2(float low, float high) {
    u32 y;
    if constexpr (BF16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
DEVICE u32 cvt_rn_satfinite_f16x2(float low, float high) {
    u32 y;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}
DEVICE u32 max_f16x2(u32 a, u32 b) {
    u32 y;
    asm("max.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}
DEVICE u32 abs_f16x2(u32 a) {
    u32 y;
    asm("abs.f16x2 %0, %1;" : "=r"(y) : "r"(a));
    return y;
}

// ---- matrices ----

DEVICE void ldmatrix_x4(u32 *d, u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(address)
                 : "memory");
}
DEVICE void stmatrix_x4(u32 address, const u32 *a) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a[0]), "r"(a[1]),
                 "r"(a[2]), "r"(a[3])
                 : "memory");
}
// d (16 x 8) += a (16 x 16) b (16 x 8), one warp; d and a lie as in wgmma's fragments.
template <bool BF16> DEVICE void mma_m16n8k16(float *d, const u32 *a, u32 b0, u32 b1) {
#define MMA_M16N8K16(TYPE)                                                                                                     \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9},"  \
                 " {%0, %1, %2, %3};"                                                                                          \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                              \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
    if constexpr (BF16) MMA_M16N8K16("bf16");
    else MMA_M16N8K16("f16");
#undef MMA_M16N8K16
}

// Before the first wgmma of a chain, and after ordinary writes to its registers.
DEVICE void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void wgmma_commit_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// At most N of the youngest groups still run. Registers of the others may be touched only after a `pin` of them.
template <int N> DEVICE void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define WGMMA_4(i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_16(i) WGMMA_4(i), WGMMA_4(i + 4), WGMMA_4(i + 8), WGMMA_4(i + 12)
#define WGMMA_32_NAMES                                                                                                         \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_64_NAMES                                                                                                         \
    WGMMA_32_NAMES ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57," \
                   "%58,%59,%60,%61,%62,%63"

// d (64 x 128) = a b + (accumulate ? d : 0): a (64 x 16) in registers, b in shared memory, K-major (0) or MN-major (1).
template <bool BF16, int TRANSPOSE_B> DEVICE void wgmma_m64n128k16(float (&d)[64], const u32 *a, u64 b, u32 accumulate) {
#define WGMMA_M64N128K16(TYPE)                                                                                                 \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"                                                                 \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" WGMMA_64_NAMES "}, {%64, %65, %66, %67},"   \
                 " %68, p, 1, 1, %70;\n}"                                                                                      \
                 : WGMMA_16(0), WGMMA_16(16), WGMMA_16(32), WGMMA_16(48)                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(TRANSPOSE_B))
    if constexpr (BF16) WGMMA_M64N128K16("bf16");
    else WGMMA_M64N128K16("f16");
#undef WGMMA_M64N128K16
}
// The same with a (64 x 16) in shared memory too, K-major.
template <bool BF16> DEVICE void wgmma_m64n128k16_shared(float (&d)[64], u64 a, u64 b, u32 accumulate) {
#define WGMMA_M64N128K16_SHARED(TYPE)                                                                                          \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"                                                                 \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" WGMMA_64_NAMES "}, %64, %65, p, 1, 1, 0, 0;\n}" \
                 : WGMMA_16(0), WGMMA_16(16), WGMMA_16(32), WGMMA_16(48)                                                       \
                 : "l"(a), "l"(b), "r"(accumulate))
    if constexpr (BF16) WGMMA_M64N128K16_SHARED("bf16");
    else WGMMA_M64N128K16_SHARED("f16");
#undef WGMMA_M64N128K16_SHARED
}
// The same as the first for 64 x 64.
template <bool BF16, int TRANSPOSE_B> DEVICE void wgmma_m64n64k16(float (&d)[32], const u32 *a, u64 b, u32 accumulate) {
#define WGMMA_M64N64K16(TYPE)                                                                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                                                                 \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {" WGMMA_32_NAMES "}, {%32, %33, %34, %35},"    \
                 " %36, p, 1, 1, %38;\n}"                                                                                      \
                 : WGMMA_16(0), WGMMA_16(16)                                                                                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(TRANSPOSE_B))
    if constexpr (BF16) WGMMA_M64N64K16("bf16");
    else WGMMA_M64N64K16("f16");
#undef WGMMA_M64N64K16
}

} // namespace ptx

// Keeps the compiler from moving uses of registers that wgmma reads or writes across this point.
template <int N> DEVICE void pin(float (&a)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(a[i])::"memory");
}
template <int N> DEVICE void pin(u32 (&a)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(a[i])::"memory");
}

#endif
