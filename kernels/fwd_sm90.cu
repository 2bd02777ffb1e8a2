// FlashAttention-4 forward for Hopper (sm_90a). One CTA: a load warp, a store warp and two consumer warpgroups of 64 query rows each,
// with Q, S, P and O in registers, persistent over tiles.
//
//   global  --TMA-->  Q slots, K ring, V ring                                    sm90_load.cuh: one thread
//   shared  --ldmatrix-->  Q;   S = Q K^T (wgmma)  -->  P;   O += P V (wgmma)    sm90_consumer.cuh: the warpgroups
//   O / sum  --stmatrix-->  staging  --TMA-->  global                            sm90_store.cuh: one thread
//   split keys: O, reference, sum  -->  workspace  --fa4_combine-->  global      sm90_split.cuh
//
//   q_load, k_load, v_load:  full: load -> softmax (the bytes have landed)   empty: softmax -> load (one arrival a warp)
//   o_store:                 full: softmax -> store                          empty: store -> softmax
//
// The order of one inner step stands at the head of sm90_consumer.cuh.
#include "params.h"

#include "sm90_consumer.cuh"
#include "sm90_load.cuh"
#include "sm90_store.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) fa4_fwd(const __grid_constant__ FwdParams params) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Smem smem{(u32)__cvta_generic_to_shared(memory)};
    if (threadIdx.x == 96) { // a warp without a role
        for (int i = 0; i < 3; i++) ptx::prefetch_tensormap(&params.map[i]);
    }
    if (threadIdx.x == 0) init_barriers(smem);
    if (IS_SPLIT) ptx::griddepcontrol_launch_dependents(); // fa4_combine waits for the end of this kernel itself
    __syncthreads();
    // The shuffle tells the compiler that the warp's number is uniform.
    u32 warp = __shfl_sync(~0u, threadIdx.x >> 5, 0);
    if (warp < 4) {
        if constexpr (MOVES_REGISTERS) ptx::setmaxnreg_dec<REGISTERS_OTHER>();
        if (threadIdx.x == 0) load_role(params, smem);
        if (threadIdx.x == 32) store_role(params, smem);
    } else {
        if constexpr (MOVES_REGISTERS) ptx::setmaxnreg_inc<REGISTERS_SOFTMAX>();
        softmax_role(params, smem, warp - 4, threadIdx.x & 31);
    }
}

// Joins the parts of split keys: grid = rows of O (batch x positions x query heads), after fa4_fwd on the same stream; may be launched to
// start before that has ended.
#if FA4_KV_SPLIT
extern "C" __global__ void __launch_bounds__(FWD_COMBINE_THREADS) fa4_combine(const __grid_constant__ FwdParams params) {
    __shared__ float2 rows[FWD_SPLITS_MAX];
    combine_row(params, rows);
}
#endif
