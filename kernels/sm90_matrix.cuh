// Matrix work and stores of a consumer warp of the Hopper kernel: Q fragments, S = Q K^T and O += P V by wgmma, P and in tiles of up to 128
// rows Q in registers, and the normalised rows of O through shared memory.
#ifndef FA4_KERNELS_SM90_MMA_CUH
#define FA4_KERNELS_SM90_MMA_CUH

#include "sm90_softmax.cuh"
#include "sm90_split.cuh"

// A shared-memory operand with the 128-byte swizzle. leading: bytes between 64-column halves (read when N is the contiguous axis).
DEVICE u64 smem_descriptor(u32 address, u32 leading) {
    constexpr u64 SWIZZLE_128 = 1, STRIDE = 1024; // bytes between groups of 8 rows
    return (u64)((address & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (STRIDE >> 4) << 32 | SWIZZLE_128 << 62;
}

// Byte offset of 16-byte chunk `chunk` of a row in a tile of 128-byte rows, halves `half_bytes` apart.
DEVICE u32 swizzled(u32 row, u32 chunk, u32 half_bytes) {
    return (chunk >> 3) * half_bytes + row * 128 + (((chunk & 7) ^ (row & 7)) << 4);
}

// The 16 rows of this warp as A fragments: step k of 16 columns is q[4 k .. 4 k + 3].
DEVICE void load_q_fragments(u32 (&q)[DIM / 4], u32 tile, u32 warp, u32 lane, u32 sign) {
    u32 row = 16 * warp + (lane & 15);
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) ptx::ldmatrix_x4(q + 4 * k, tile + swizzled(row, 2 * k + (lane >> 4), Q_HALF_BYTES));
    if (sign != 0) { // a negative scale: scores change sign
#pragma unroll
        for (int i = 0; i < DIM / 4; i++) q[i] ^= sign;
    }
}

// A negative scale where Q is read from shared memory: changes the sign of the warp's 16 rows there. Its warpgroup then meets at a barrier.
DEVICE void negate_rows(u32 tile, u32 warp, u32 lane) {
    uint4 *rows = static_cast<uint4 *>(__cvta_shared_to_generic(tile + 16 * warp * 128));
    for (int i = 0; i < 16 * 128 / 16; i += 32) {
        uint4 x = rows[i + lane];
        rows[i + lane] = make_uint4(x.x ^ 0x80008000u, x.y ^ 0x80008000u, x.z ^ 0x80008000u, x.w ^ 0x80008000u);
    }
    ptx::fence_proxy_async_shared(); // ordinary writes, then wgmma's reads
}

// S = Q K^T, issued and committed.
DEVICE void issue_scores(float (&s)[64], u32 (&q)[DIM / 4], u64 k_descriptor) {
    pin(s);
    pin(q);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < DIM / 16; k++)
        ptx::wgmma_m64n128k16<IS_BF16, 0>(s, q + 4 * k, k_descriptor + (k & 3) * 2 + (k >> 2) * (KV_HALF_BYTES >> 4), k > 0);
    ptx::wgmma_commit_group();
}

// The same with the warpgroup's 64 rows of Q in shared memory.
DEVICE void issue_scores(float (&s)[64], u64 q_descriptor, u64 k_descriptor) {
    pin(s);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < DIM / 16; k++) {
        u64 step = (k & 3) * 2 + (k >> 2) * (KV_HALF_BYTES >> 4);
        u64 q_step = (k & 3) * 2 + (k >> 2) * (Q_HALF_BYTES >> 4);
        ptx::wgmma_m64n128k16_shared<IS_BF16>(s, q_descriptor + q_step, k_descriptor + step, k > 0);
    }
    ptx::wgmma_commit_group();
}

// O = P V + (accumulate ? O : 0), issued and committed.
template <int N> DEVICE void issue_output(float (&o)[N], u32 (&p)[32], u64 v_descriptor, u32 accumulate) {
    pin(o);
    pin(p);
    ptx::wgmma_fence();
#pragma unroll
    for (int k = 0; k < TILE_KEYS / 16; k++) {
        u64 b = v_descriptor + k * (16 * 128 >> 4);
        if constexpr (N == 64) ptx::wgmma_m64n128k16<IS_BF16, 1>(o, p + 4 * k, b, k > 0 ? 1u : accumulate);
        else ptx::wgmma_m64n64k16<IS_BF16, 1>(o, p + 4 * k, b, k > 0 ? 1u : accumulate);
    }
    ptx::wgmma_commit_group();
}

// Four fragments of 16 columns of O, normalised. SATURATE: f16 rounds finite values above 65504 up to infinity; O never exceeds V, so
// these are 65504. A true infinity (from V) stays.
template <bool SATURATE> DEVICE void pack_output(u32 (&packed)[4], const float *o, const float (&scale)[2]) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float low = o[2 * i] * scale[i & 1], high = o[2 * i + 1] * scale[i & 1];
        packed[i] = ptx::cvt_rn_x2<IS_BF16>(low, high);
        if (!SATURATE) continue;
        u32 keep = (fabsf(low) < -MINUS_INFINITY ? 0xffffu : 0) | (fabsf(high) < -MINUS_INFINITY ? 0xffff0000u : 0);
        packed[i] = (ptx::cvt_rn_satfinite_f16x2(low, high) & keep) | (packed[i] & ~keep);
    }
}
template <bool SATURATE, int N> DEVICE u32 stage_output(u32 staging, u32 lane, const float (&o)[N], const float (&scale)[2]) {
    u32 largest = 0; // both halves' largest magnitude (f16)
#pragma unroll
    for (int g = 0; g < N / 8; g++) {
        u32 packed[4];
        pack_output<SATURATE>(packed, o + 8 * g, scale);
        ptx::stmatrix_x4(staging + swizzled(lane & 15, 2 * g + (lane >> 4), Q_HALF_BYTES), packed);
        if constexpr (!IS_BF16 && !SATURATE) {
#pragma unroll
            for (int i = 0; i < 4; i++) largest = ptx::max_f16x2(largest, ptx::abs_f16x2(packed[i]));
        }
    }
    return largest;
}

// Stages the warp's 16 rows, multiplied by `scale`, for the store warp. The staging area is free, the arrival the caller's.
DEVICE void stage_rows(Smem smem, u32 warp, u32 lane, const float (&o)[DIM / 2], const float (&scale)[2]) {
    u32 rows = smem.o() + 16 * warp * 128;
    u32 largest = stage_output<false>(rows, lane, o, scale);
    if (!IS_BF16 && __any_sync(~0u, (largest & 0x7fff) >= 0x7c00 || largest >> 16 >= 0x7c00)) {
        // Through a shuffle, or ptxas keeps all products of the first pass alive for this one, and spills.
        float again[2] = {__shfl_sync(~0u, scale[0], lane), __shfl_sync(~0u, scale[1], lane)};
        stage_output<true>(rows, lane, o, again);
    }
    ptx::fence_proxy_async_shared(); // the store warp's TMA reads them
    __syncwarp();
}

// The same in f32, straight from registers to global memory.
DEVICE void store_output_f32(const FwdParams &params, const FwdTask &task, u32 warp, u32 lane, const float (&o)[DIM / 2],
                             const float (&scale)[2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        RowPlace place = place_row(params, task, 16 * warp + 8 * h + lane / 4);
        if (!place.exists) continue;
        float *row = params.o_f32 + task.batch * params.o_strides[0] + place.position * params.o_strides[1] + place.head * params.o_strides[2] + 2 * (lane & 3);
#pragma unroll
        for (int g = 0; g < DIM / 8; g++) {
            if (8 * g >= params.dim) break;
            float2 pair = make_float2(o[4 * g + 2 * h] * scale[h], o[4 * g + 2 * h + 1] * scale[h]);
            *reinterpret_cast<float2 *>(row + 8 * g) = pair;
        }
    }
}

#endif
