// FlashAttention-4 forward for sm_100a. One CTA of 512 threads works on pairs of query tiles, one task after another:
//
//   warpgroup 0, 1   softmax of query stage 0, 1         one thread a row
//   warpgroup 2      correction of O, epilogue           one thread a row of either stage
//   warp 12          mma                                 one thread issues S = Q K^T and O += P V
//   warp 13          load                                one thread issues TMA loads of Q, K, V
//   warp 14          store                               TMA stores of O
//   warp 15          schedule                            one thread fetches the next task
//
//   global --load--> Q, K/V --mma--> S --softmax--> P --mma--> O --correction or softmax--> staging --store--> global
//           q_load, kv_load   s_ready     p_o_rescale, p_ready_2      o_ready           corr_epi
//                                  \--row_stats--> correction --p_o_rescale--> mma
//
// Every barrier, its arrivals and its waiters stand in barriers.h; the memories in sm100.cuh. The order of one inner step is in sm100_issue.cuh.
#include "sm100_issue.cuh"
#include "sm100_softmax.cuh"
#include "sm100_correction.cuh"

FWD_DEVICE void set_up_barriers(Barriers &bars) {
#define FWD_INIT(bar, copies, count)                                                                                               \
    for (int i = 0; i < (copies); i++) ptx::mbarrier_init(address((bar)[i]), count);
#define FWD_PIPE(name, copies, arrives, fills, waits, frees) FWD_INIT(bars.name.full, copies, fills) FWD_INIT(bars.name.empty, copies, frees)
#define FWD_EVENT(name, copies, arrives, count, waits) FWD_INIT(bars.name, copies, count)
    FWD_SM100_BARRIERS(VARIANT, FWD_PIPE, FWD_EVENT)
#undef FWD_PIPE
#undef FWD_EVENT
#undef FWD_INIT
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async_shared();
}

// Registers a thread of the role keeps; the CTA starts with 65,536 / 512 = 128.
template <int N> FWD_DEVICE void set_registers() {
    if constexpr (N > 65536 / THREADS) ptx::setmaxnreg_inc<N>();
    else if constexpr (N < 65536 / THREADS) ptx::setmaxnreg_dec<N>();
}

enum { WARP_MMA = 12, WARP_LOAD = 13, WARP_STORE = 14, WARP_SCHEDULE = 15 };

FWD_DEVICE void run_role(const Cta &cta, int warp) {
    if (warp < 8) {
        set_registers<VARIANT.registers_softmax>();
        softmax_role(cta, warp / 4, warp % 4);
    } else if (warp < 12) {
        set_registers<VARIANT.registers_correction>();
        correction_role(cta, warp % 4);
    } else {
        set_registers<VARIANT.registers_other>();
        if (warp == WARP_STORE) {
            store_role(cta);
        } else if (ptx::elect_sync()) {
            if (warp == WARP_MMA) mma_role(cta);
            else if (warp == WARP_LOAD) load_role(cta);
            else if (warp == WARP_SCHEDULE) schedule_role(cta);
        }
    }
    __syncwarp();
}

// The warp's index, from votes: the compiler knows their results to be the same in all lanes, and keeps what follows in uniform registers.
FWD_DEVICE int uniform_warp() {
    int warp = 0;
#pragma unroll
    for (int bit = 0; bit < 4; bit++) warp |= __any_sync(0xffffffff, threadIdx.x >> (5 + bit) & 1) ? 1 << bit : 0;
    return warp;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) fa4_fwd(const __grid_constant__ FwdParams params) {
    extern __shared__ __align__(1024) uint8_t memory[];
    Smem &smem = *(Smem *)memory;
    const int warp = uniform_warp();
    if (warp == WARP_MMA) {
        ptx::tcgen05_alloc(ptx::shared_address(&smem.tmem), TMEM_COLUMNS);
        ptx::tcgen05_relinquish_alloc_permit();
    } else if (warp == WARP_LOAD && ptx::elect_sync()) {
        set_up_barriers(smem.bars);
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    if (smem.tmem != 0) __trap(); // all columns are ours, or something is very wrong
    const Cta cta = {params, smem};
    run_role(cta, warp);
    // Nobody touches tensor memory after this.
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) ptx::tcgen05_dealloc(0, TMEM_COLUMNS);
}
