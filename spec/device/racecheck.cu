// What racecheck reports of records that travel in a ring behind mbarriers, as the step records of the Hopper kernel do: one thread writes a
// record and loads 512 bytes beside it by the copy unit; four warps read both and release the slot. Each way of it is ordered by the PTX memory
// model: write, arrive (release), wait (acquire), read, [__syncwarp,] arrive (release), wait (acquire), write.
//
//   nvcc -arch=sm_90a -lineinfo -I kernels -o racecheck spec/device/racecheck.cu && for w in 0 1 2 3 4 5; do compute-sanitizer --tool racecheck ./racecheck $w; done
//
// A control (6) leaves out the wait for the slot: a true race.
#include "params.h"
#include "ptx_sm90.cuh"

#include <cstdio>
#include <cstdlib>

enum { SLOTS = 2, BYTES = 512, ROUNDS = 16 };

__device__ void load(u32 to, const void *from, u32 bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"((u32)BYTES), "r"(bar) : "memory");
}

template <bool COPY, bool EACH_LANE, bool WARP_READS, bool CONTROL> __global__ void ring(const char *from, int *out) {
    __shared__ alignas(128) char tiles[SLOTS][BYTES];
    __shared__ int2 records[SLOTS];
    __shared__ unsigned long long full[SLOTS], empty[SLOTS];
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; i++) {
            ptx::mbarrier_init((u32)__cvta_generic_to_shared(&full[i]), 1);
            ptx::mbarrier_init((u32)__cvta_generic_to_shared(&empty[i]), EACH_LANE ? 128 : 4);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const u32 slot = i % SLOTS, parity = i / SLOTS & 1;
        const u32 f = (u32)__cvta_generic_to_shared(&full[slot]), e = (u32)__cvta_generic_to_shared(&empty[slot]);
        if (warp == 4 && lane == 0) {
            if (!CONTROL) ptx::mbarrier_wait_parity(e, parity ^ 1);
            records[slot] = make_int2(i, i + 1);
            if (COPY) {
                ptx::mbarrier_arrive_expect_tx(f, BYTES);
                load((u32)__cvta_generic_to_shared(tiles[slot]), from, f);
            } else {
                ptx::mbarrier_arrive(f);
            }
        }
        if (warp < 4) {
            ptx::mbarrier_wait_parity(f, parity);
            if (WARP_READS || lane == 0) sum += records[slot].x * records[slot].y;
            if (COPY) sum += tiles[slot][threadIdx.x];
            __syncwarp();
            if (EACH_LANE || lane == 0) ptx::mbarrier_arrive(e);
        }
    }
    if (warp < 4) out[threadIdx.x] = sum;
}

int main(int argc, char **argv) {
    char *from;
    int *out, sums[128];
    cudaMalloc(&from, BYTES), cudaMalloc(&out, sizeof sums);
    cudaMemset(from, 1, BYTES);
    switch (argc > 1 ? atoi(argv[1]) : 0) {
    case 0: ring<true, false, true, false><<<1, 160>>>(from, out); break;  // as the kernel: a copy, one lane arrives for its warp, all lanes read
    case 1: ring<true, true, true, false><<<1, 160>>>(from, out); break;   // every lane arrives
    case 2: ring<true, false, false, false><<<1, 160>>>(from, out); break; // the arriving lane alone reads the record
    case 3: ring<false, false, true, false><<<1, 160>>>(from, out); break; // no copy
    case 4: ring<false, true, true, false><<<1, 160>>>(from, out); break;  // no copy, every lane arrives
    case 5: ring<false, false, false, false><<<1, 160>>>(from, out); break;
    case 6: ring<true, false, true, true><<<1, 160>>>(from, out); break; // control
    }
    cudaMemcpy(sums, out, sizeof sums, cudaMemcpyDeviceToHost);
    printf("%s, sum %d\n", cudaGetErrorString(cudaGetLastError()), sums[0]);
    return 0;
}
