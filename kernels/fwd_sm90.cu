// FlashAttention-4 forward for Hopper (sm_90a). One CTA: a load warp and two (D 64: up to three) consumer warpgroups of 64 query
// rows each, S, P, O and Q in registers, persistent over tiles.
//
//   global  --TMA-->  Q slots, K ring, V ring  (load_sm90.cuh: one thread)
//   shared  --ldmatrix--> Q fragments;  S = Q K^T (wgmma) --> weights --> P fragments;  O += P V (wgmma)  (consumer_sm90.cuh)
//   O / sum --stmatrix--> staging --TMA--> global, 16 rows a warp
//
//   q_load, k_load, v_load .full : load -> softmax (bytes landed)     .empty : softmax -> load (one arrival a warp)
//
// The order of one inner step stands at the head of consumer_sm90.cuh.
#include "params.h"

#include "consumer_sm90.cuh"
#include "load_sm90.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) fwd_sm90(const __grid_constant__ FwdParams params) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Smem smem{(u32)__cvta_generic_to_shared(memory)};
    for (u32 i = threadIdx.x; i < O_WARP_HALF_BYTES / 4; i += THREADS) reinterpret_cast<u32 *>(memory + OFFSET_ZEROS)[i] = 0;
    ptx::fence_proxy_async_shared(); // the zeros are read by TMA
    if (threadIdx.x == 0) init_barriers(smem);
    __syncthreads();
    // The shuffle tells the compiler that the warp's number is uniform.
    u32 warp = __shfl_sync(~0u, threadIdx.x >> 5, 0);
    if (warp < 4) {
        ptx::setmaxnreg_dec<REGISTERS_LOAD>();
        if (threadIdx.x == 0) load_role(params, smem);
    } else {
        ptx::setmaxnreg_inc<REGISTERS_SOFTMAX>();
        softmax_role(params, smem, warp - 4, threadIdx.x & 31);
    }
}
