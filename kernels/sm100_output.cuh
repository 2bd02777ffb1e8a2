// What touches O in tensor memory, one thread a row: rescaling it, and the epilogue that normalises, rounds and stages it for the store role.
// Called by the correction role, or by the softmax warpgroup of the stage where the variant says so (same lanes of tensor memory).
#pragma once

#include "sm100_rows.cuh"

enum { OUTPUT_STEP = 16 }; // columns held in registers at a time

// O[stage] of this warp's 32 rows times `scale`, each row its own. `o` is O's address in the warp's window.
FWD_DEVICE void rescale_output(uint32_t o, float scale) {
    const ptx::Pair factor = ptx::pack(scale, scale);
#pragma unroll 1
    for (int column = 0; column < VARIANT.dim; column += OUTPUT_STEP) {
        uint32_t r[OUTPUT_STEP];
        ptx::tcgen05_ld_32x32b_x16(o + column, r);
        ptx::tcgen05_wait_ld();
        ptx::settle(r);
#pragma unroll
        for (int k = 0; k < OUTPUT_STEP; k += 2) {
            float a, b;
            ptx::unpack(ptx::mul_rn_f32x2(ptx::pack(__uint_as_float(r[k]), __uint_as_float(r[k + 1])), factor), a, b);
            r[k] = __float_as_uint(a);
            r[k + 1] = __float_as_uint(b);
        }
        ptx::tcgen05_st_32x32b_x16(o + column, r);
    }
    ptx::tcgen05_wait_st();
}

// Rounds to 16 bits. A finite value never becomes infinite (rounded weights can sum to a little more than the unrounded sum), an infinite one stays.
FWD_DEVICE void round_output(const float (&x)[OUTPUT_STEP], uint32_t (&packed)[OUTPUT_STEP / 2]) {
    float peak = 0.0f;
#pragma unroll
    for (int k = 0; k < OUTPUT_STEP; k += 2) peak = ptx::max3(peak, fabsf(x[k]), fabsf(x[k + 1]));
#pragma unroll
    for (int k = 0; k < OUTPUT_STEP; k += 2)
        packed[k / 2] = VARIANT.dtype == FWD_BF16 ? ptx::cvt_rn_satfinite_bf16x2(x[k], x[k + 1]) : ptx::cvt_rn_satfinite_f16x2(x[k], x[k + 1]);
    if (peak == PLUS_INFINITY) {
#pragma unroll
        for (int k = 0; k < OUTPUT_STEP; k += 2) packed[k / 2] = round_pair(x[k], x[k + 1]);
    }
}

// Where a row of O goes.
struct OutputRow {
    const Cta &cta;
    int stage, row;
    uint32_t o;     // O[stage] in the warp's window
    float *global;  // f32 output: the row's first element; null when the row does not exist

    FWD_DEVICE OutputRow(const Cta &c, const FwdTask &task, int i, int warp, int r) : cta(c), stage(i), row(r) {
        o = Tmem::o(i) + Tmem::window(warp);
        global = nullptr;
        if (VARIANT.o_f32) {
            const FwdParams &p = c.params;
            const int position = row_position(p, task.tile + i, r);
            if (position < p.seqlen_q)
                global = p.o_f32 + task.batch * p.o_strides[0] + position * p.o_strides[1] + row_head(p, task.head, r) * p.o_strides[2];
        }
    }

    // Bits outside of `keep` become 0: all of a hidden row.
    FWD_DEVICE void put(int column, float (&x)[OUTPUT_STEP], uint32_t keep) const {
        if (VARIANT.o_f32) {
#pragma unroll
            for (int k = 0; k < OUTPUT_STEP; k++) x[k] = __uint_as_float(__float_as_uint(x[k]) & keep);
#pragma unroll
            for (int k = 0; k < OUTPUT_STEP; k += 4)
                if (global && column + k < cta.params.dim) *(float4 *)(global + column + k) = make_float4(x[k], x[k + 1], x[k + 2], x[k + 3]);
            return;
        }
        uint32_t packed[OUTPUT_STEP / 2];
        round_output(x, packed);
#pragma unroll
        for (int k = 0; k < OUTPUT_STEP / 2; k++) packed[k] &= keep;
        uint8_t *half = cta.smem.o[stage] + column / HALF_COLUMNS * HALF_BYTES;
        const uint32_t chunk = column % HALF_COLUMNS / 8;
        *(uint4 *)(half + swizzled(row, chunk)) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
        *(uint4 *)(half + swizzled(row, chunk + 1)) = make_uint4(packed[4], packed[5], packed[6], packed[7]);
    }
};

// O[stage] * inverse, to staging or to global memory. `own`: the tile has visited a block, O holds its sum.
FWD_DEVICE void write_output(const OutputRow &out, float inverse, bool own) {
    const uint32_t keep = inverse < 0.0f ? 0 : ~0u; // a hidden row is 0 whatever O holds: masked keys meet any V
    const ptx::Pair factor = ptx::pack(inverse, inverse);
#pragma unroll 1
    for (int column = 0; column < VARIANT.dim; column += OUTPUT_STEP) {
        uint32_t r[OUTPUT_STEP] = {};
        if (own) {
            ptx::tcgen05_ld_32x32b_x16(out.o + column, r);
            ptx::tcgen05_wait_ld();
            ptx::settle(r);
        }
        float x[OUTPUT_STEP];
#pragma unroll
        for (int k = 0; k < OUTPUT_STEP; k += 2)
            ptx::unpack(ptx::mul_rn_f32x2(ptx::pack(__uint_as_float(r[k]), __uint_as_float(r[k + 1])), factor), x[k], x[k + 1]);
        out.put(column, x, keep);
    }
}

// The epilogue of one tile. corr_epi.empty has been waited for; on return the staging is handed to the store role.
FWD_DEVICE void finish_output(const Cta &cta, const FwdTask &task, int stage, int warp, int row, float inverse, Parities &staging) {
    const OutputRow out(cta, task, stage, warp, row);
    if (!VARIANT.o_f32) {
        wait(cta.smem.bars.corr_epi.empty[stage], staging.take(stage));
    }
    write_output(out, inverse, pick(task.own, stage) > 0);
    ptx::tcgen05_fence_before_thread_sync();
    if (!VARIANT.o_f32) {
        ptx::fence_proxy_async_shared();
        arrive(cta.smem.bars.corr_epi.full[stage]);
    }
}
