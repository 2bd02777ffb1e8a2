// Correction: rescales O of both stages when a row's reference has moved, 32 rows at a time, and (where the variant says so) normalises and
// stages the finished O. One warpgroup, thread r for row r of either stage. Stages alternate: having served stage i it lets stage 1 - i send.
#pragma once

#include "sm100_output.cuh"

struct Correction {
    const Cta &cta;
    const int warp, row; // of the warpgroup
    Parities o, staging; // of o_ready, corr_epi.empty
    uint32_t phases;     // of p_o_rescale so far: one a step, in either stage

    // The softmax rows of this warp (unpacked) or of the stage (packed) have sent their numbers.
    FWD_DEVICE float receive(int stage) {
        if (VARIANT.packed) ptx::bar_sync(1 + stage, 2 * WARPGROUP);
        else ptx::bar_sync(1 + 4 * stage + warp, 64);
        return cta.smem.row_scale[stage][row];
    }
    // Before the slot is returned: softmax leaves it alone where no row of a warp moves.
    FWD_DEVICE void reset(int stage) { cta.smem.row_scale[stage][row] = 1.0f; }

    FWD_DEVICE void release_output(int stage) { arrive(cta.smem.bars.p_o_rescale[stage]); }
    FWD_DEVICE void return_slot(int stage) { arrive(cta.smem.bars.corr_empty[stage]); }

    // O of the stage is complete up to the previous block: the softmax rows waited for s_ready of this block, whose commit is cumulative
    // and follows that product. Change the issue order and this races.
    FWD_DEVICE void correct(int stage) {
        const float scale = receive(stage);
        if (__any_sync(0xffffffff, scale < 1.0f)) {
            reset(stage);
            ptx::tcgen05_fence_after_thread_sync();
            rescale_output(Tmem::o(stage) + Tmem::window(warp), scale);
            ptx::tcgen05_fence_before_thread_sync();
        }
        release_output(stage);
    }

    FWD_DEVICE void run_steps(int steps) {
        // The first block has no old O; its numbers are only taken, so that the slots stay in step.
        receive(0);
        return_slot(0);
        receive(1);
#pragma unroll 1
        for (int j = 1; j < steps; j++) {
            correct(0);
            return_slot(1);
            correct(1);
            return_slot(0);
        }
        return_slot(1);
    }

    FWD_DEVICE void finish(const FwdTask &task, int stage) {
        const float inverse = receive(stage);
        if (VARIANT.row_max == FWD_EACH_BLOCK) {
            reset(stage);
            return_slot(stage);
        }
        if (pick(task.own, stage) > 0) {
            wait(cta.smem.bars.o_ready[stage], o.take(stage));
            ptx::tcgen05_fence_after_thread_sync();
        }
        finish_output(cta, task, stage, warp, row, inverse, staging);
        // Max-free: nobody corrects, the slot's return says that O has been read.
        if (VARIANT.row_max == FWD_FIRST_BLOCK) return_slot(stage);
    }

    FWD_DEVICE void run(const FwdTask &task) {
        constexpr bool CORRECTS = VARIANT.row_max == FWD_EACH_BLOCK;
        if (CORRECTS && task.steps > 0) run_steps(task.steps);
        phases += task.steps;
#pragma unroll 1
        for (int i = 0; i < Q_STAGES; i++) {
            if (VARIANT.epilogue == FWD_EPILOGUE_CORRECTION && i < task.tiles) finish(task, i);
            // The next task's first product may overwrite O: it has been read (where the softmax rows read it, their own arrivals say so).
            // That arrival belongs to the next phase, so this one must be complete: softmax warps may still owe it theirs.
            if (CORRECTS && task.steps > 0) {
                wait(cta.smem.bars.p_o_rescale[i], (phases - 1) & 1);
                release_output(i);
            }
        }
    }
};

FWD_DEVICE void correction_role(const Cta &cta, int warp) {
    Correction correction = {cta, warp, 32 * warp + (int)threadIdx.x % 32, {0}, {3}, 0};
    if (VARIANT.row_max == FWD_EACH_BLOCK) {
        correction.release_output(0);
        correction.release_output(1);
    }
    TaskQueue queue;
    for (;;) {
        const FwdTask task = queue.take_warp(cta.smem);
        if (task.steps == FWD_NO_TASK) break;
        correction.run(task);
    }
}
