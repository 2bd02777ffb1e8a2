// Split keys on Hopper: a task is a part of its tile's keys, its result goes to the workspace, and fa4_combine joins the parts of each
// row in their order, so that the bits depend on the plan alone. An empty part has reference -inf and leaves its O unwritten.
#ifndef FA4_KERNELS_SM90_SPLIT_CUH
#define FA4_KERNELS_SM90_SPLIT_CUH

#include "sm90.cuh"

// Place of a part of a tile's row 0 in the workspace; the next row is `kv_splits` places on.
DEVICE long long partial_place(const FwdParams &params, const FwdTask &task) {
    int heads = params.group_log2 > 0 ? params.heads_kv : params.heads_q;
    int tiles = (params.seqlen_q + params.positions - 1) / params.positions;
    long long tile = ((long long)task.batch * heads + task.head) * tiles + task.tile;
    return tile * TILE_ROWS * params.kv_splits + task.own[1];
}

DEVICE void store_partial_row(const FwdParams &params, long long place, float reference, float sum) {
    reinterpret_cast<float2 *>(params.partial_rows)[place] = make_float2(reference, sum);
}

// The two rows of a lane: O as it is, and (by the first lane of a quad) what it is relative to, in log2 units.
DEVICE void store_partial(const FwdParams &params, const FwdTask &task, u32 warp, u32 lane, const float (&o)[DIM / 2],
                          const float (&reference)[2], const float (&sum)[2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        u32 row = 16 * warp + 8 * h + lane / 4;
        if (!place_row(params, task, row).exists) continue;
        long long place = partial_place(params, task) + (long long)row * params.kv_splits;
        if ((lane & 3) == 0) store_partial_row(params, place, reference[h], sum[h]);
        float2 *to = reinterpret_cast<float2 *>(params.partial_o + place * DIM) + (lane & 3);
#pragma unroll
        for (int g = 0; g < DIM / 8; g++) to[4 * g] = make_float2(o[4 * g + 2 * h], o[4 * g + 2 * h + 1]);
    }
}

// ---- fa4_combine: a CTA joins one row, a thread one column ----

// One element of O, rounded as the tiles' own output is: a finite f16 never becomes infinite.
DEVICE void store_joined(const FwdParams &params, long long at, float x) {
    if (FA4_O_F32) {
        params.o_f32[at] = x;
        return;
    }
    u32 packed = fabsf(x) < -MINUS_INFINITY && !IS_BF16 ? ptx::cvt_rn_satfinite_f16x2(x, 0.0f) : ptx::cvt_rn_x2<IS_BF16>(x, 0.0f);
    reinterpret_cast<unsigned short *>(params.o_f32)[at] = (unsigned short)packed;
}

// The largest reference of a row's parts. Every warp finds it for itself.
DEVICE float largest_reference(const float2 *rows, int splits, u32 lane) {
    float largest = MINUS_INFINITY;
    for (int s = lane; s < splits; s += 32) largest = ptx::max_nan(largest, rows[s].x);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) largest = ptx::max_nan(largest, __shfl_xor_sync(~0u, largest, step));
    return largest;
}

// Parts whose O is on its way at once: enough for one L2 latency to serve a usual decode.
constexpr int PARTS_AT_ONCE = 16;

DEVICE void load_parts(float (&x)[PARTS_AT_ONCE], const float *o, int first, int splits, bool column) {
#pragma unroll
    for (int i = 0; i < PARTS_AT_ONCE; i++) x[i] = column && first + i < splits ? o[(long long)(first + i) * DIM] : 0.0f;
}

DEVICE void combine_row(const FwdParams &params, float2 *rows) {
    int splits = params.kv_splits, head = blockIdx.x % params.heads_q, at = blockIdx.x / params.heads_q;
    int position = at % params.seqlen_q, batch = at / params.seqlen_q;
    bool packed = params.group_log2 > 0, column = threadIdx.x < params.dim;
    int in_group = packed ? head & (params.group - 1) : 0;
    FwdTask task = {batch, packed ? head >> params.group_log2 : head, position / params.positions, 1, 0, {0, 0}, 0};
    int row = (position % params.positions << params.group_log2) + in_group;
    long long place = partial_place(params, task) + (long long)row * splits;
    const float *o = params.partial_o + place * DIM + threadIdx.x;
    float x[PARTS_AT_ONCE], sum = 0.0f, joined = 0.0f;
    ptx::griddepcontrol_wait();
    load_parts(x, o, 0, splits, column);
    for (int s = threadIdx.x; s < splits; s += FWD_COMBINE_THREADS) rows[s] = reinterpret_cast<const float2 *>(params.partial_rows)[place + s];
    __syncthreads();
    float largest = largest_reference(rows, splits, threadIdx.x & 31), shift = largest == MINUS_INFINITY ? 0.0f : largest;
    for (int first = 0; first < splits; first += PARTS_AT_ONCE) {
        if (first > 0) load_parts(x, o, first, splits, column);
#pragma unroll
        for (int i = 0; i < PARTS_AT_ONCE; i++) {
            if (first + i >= splits) break;
            float2 part = rows[first + i];
            float weight = ptx::ex2(part.x - shift);
            sum = fmaf(part.y, weight, sum);
            joined = fmaf(part.x == MINUS_INFINITY ? 0.0f : x[i], weight, joined); // an empty part's O was never written
        }
    }
    constexpr float LN_2 = 0.69314718056f;
    float lse = largest == MINUS_INFINITY ? MINUS_INFINITY : (largest + ptx::lg2(sum)) * LN_2;
    if (threadIdx.x == 0 && params.lse != nullptr)
        params.lse[batch * params.lse_strides[0] + head * params.lse_strides[1] + position * params.lse_strides[2]] = lse;
    if (!column) return;
    float scale = largest == MINUS_INFINITY ? 0.0f : ptx::rcp(sum);
    store_joined(params, batch * params.o_strides[0] + position * params.o_strides[1] + head * params.o_strides[2] + threadIdx.x, joined * scale);
}

#endif
