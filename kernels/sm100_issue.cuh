// The roles of warpgroup 3, which start asynchronous work and compute nothing: schedule (which task next), load (TMA into Q and the K/V
// ring), mma (both matrix products), store (O from staging to global memory). Each is one thread, but for store, whose warp arrives whole.
//
// Issue order of one task of n steps, stage 0 and 1 interleaved:
//   load   Q0  K[first]  Q1  V[first]  K  V  K  V ...
//   mma    S0 S1 | P0V  S0'  P1V  S1' | P0V  S0'' P1V  S1'' | ... | P0V  P1V        (' = next key block)
#pragma once

#include "sm100.cuh"

// ---- schedule --------------------------------------------------------------------------------------------------------

struct TaskSource {
    const FwdParams &p;
    int at, end;

    FWD_DEVICE explicit TaskSource(const FwdParams &params) : p(params) {
        at = blockIdx.x;
        end = p.task_count;
        if (p.take == FWD_TAKE_LIST) {
            at = p.worker_first[blockIdx.x];
            end = p.worker_first[blockIdx.x + 1];
        }
    }
    // Index of the next task; at or beyond `end`: no more.
    FWD_DEVICE int next() {
        if (p.take == FWD_TAKE_COUNTER) return atomicAdd(p.next_task, 1);
        const int index = at;
        at += p.take == FWD_TAKE_LIST ? 1 : gridDim.x;
        return index;
    }
};

FWD_DEVICE void schedule_role(const Cta &cta) {
    Smem &smem = cta.smem;
    TaskSource source(cta.params);
    Cursor<TASK_STAGES> at = {0, 1};
    FwdTask task = {};
    do {
        const int index = source.next();
        if (index < source.end) task = cta.params.tasks[index];
        else task.steps = FWD_NO_TASK;
        wait(smem.bars.task.empty[at.slot], at.parity);
        smem.task[at.slot] = task;
        arrive(smem.bars.task.full[at.slot]);
        at.advance();
    } while (task.steps != FWD_NO_TASK);
}

// ---- load ----------------------------------------------------------------------------------------------------------------

struct Loader {
    const Cta &cta;
    Cursor<KV_STAGES> kv;
    uint32_t q_parity[Q_STAGES];

    FWD_DEVICE void query(const FwdTask &task, int i) {
        if (task.own[i] == 0) return; // no product will read it
        const FwdParams &p = cta.params;
        Barrier &full = cta.smem.bars.q_load.full[i];
        wait(cta.smem.bars.q_load.empty[i], q_parity[i]);
        q_parity[i] ^= 1;
        ptx::mbarrier_arrive_expect_tx(address(full), TILE_BYTES);
        const int head = (VARIANT.packed ? task.head << p.group_log2 : task.head) * p.q_head_step;
        const int position = (task.tile + i) * p.positions;
#pragma unroll
        for (int half = 0; half < HALVES; half++)
            ptx::cp_async_bulk_tensor_4d_load(ptx::shared_address(cta.smem.q[i] + half * HALF_BYTES), &p.map[FWD_MAP_Q], address(full),
                                              half * HALF_COLUMNS, head, position, task.batch * p.q_batch_step);
    }
    // One block of K or V.
    FWD_DEVICE void keys(const FwdTensorMap *map, int head, int block, int batch) {
        Barrier &full = cta.smem.bars.kv_load.full[kv.slot];
        wait(cta.smem.bars.kv_load.empty[kv.slot], kv.parity);
        ptx::mbarrier_arrive_expect_tx(address(full), TILE_BYTES);
#pragma unroll
        for (int half = 0; half < HALVES; half++)
            ptx::cp_async_bulk_tensor_4d_load(ptx::shared_address(cta.smem.kv[kv.slot] + half * HALF_BYTES), map, address(full),
                                              half * HALF_COLUMNS, head, block * VARIANT.tile_keys, batch);
        kv.advance();
    }
};

FWD_DEVICE void load_role(const Cta &cta) {
    const FwdParams &p = cta.params;
#pragma unroll
    for (int m = 0; m < FWD_MAP_COUNT - (VARIANT.o_f32 ? 1 : 0); m++) ptx::prefetch_tensormap(&p.map[m]);
    Loader loader = {cta, {0, 1}, {1, 1}};
    TaskQueue queue;
    for (;;) {
        const FwdTask task = queue.take_thread(cta.smem);
        if (task.steps == FWD_NO_TASK) break;
        if (task.steps == 0) continue;
        Walk walk(p, task);
        const int head = key_head(p, task.head);
        for (int j = 0; j < task.steps; j++) {
            const int block = walk.take(j).key_block;
            if (j == 0) loader.query(task, 0);
            loader.keys(&p.map[FWD_MAP_K], head * p.k_head_step, block, task.batch * p.k_batch_step);
            if (j == 0) loader.query(task, 1);
            loader.keys(&p.map[FWD_MAP_V], head * p.v_head_step, block, task.batch * p.v_batch_step);
        }
    }
}

// ---- mma -----------------------------------------------------------------------------------------------------------------

enum { MMA_KEYS = 16 }; // contraction step of one instruction

// Instruction descriptor of kind::f16: fp32 accumulator, M = 128.
FWD_DEVICE constexpr uint32_t instruction(int columns, bool b_transposed) {
    const uint32_t format = VARIANT.dtype == FWD_BF16;
    return 1u << 4                        // D is f32
           | format << 7 | format << 10   // A and B are f16 or bf16
           | (uint32_t)b_transposed << 16 // B is stored with its columns contiguous
           | (uint32_t)(columns >> 3) << 17 | (uint32_t)(128 >> 4) << 24;
}
enum { INSTRUCTION_SCORES = instruction(VARIANT.tile_keys, false) };
enum { INSTRUCTION_VALUES = instruction(VARIANT.dim, true) };
enum { INSTRUCTION_NEGATE_A = 1u << 13 };

struct Issuer {
    const Cta &cta;
    uint32_t scores_instruction;
    uint32_t tmem_parity; // of p_o_rescale and p_ready_2, which complete once a step
    Cursor<KV_STAGES> kv;
    uint32_t q_parity[Q_STAGES];
    bool accumulate[Q_STAGES]; // O holds earlier blocks of this task

    // Rows contiguous in 128-byte rows (K-major): groups of 8 rows are 1,024 bytes apart; the leading offset is not read.
    FWD_DEVICE static uint64_t rows_descriptor(const void *tile) { return SmemDescriptor{ptx::shared_address(tile), 16, 1024, 1, 2}.bits(); }
    // V's keys are the contraction (MN-major): 64-column halves are HALF_BYTES apart, groups of 8 keys 1,024 bytes.
    FWD_DEVICE static uint64_t values_descriptor(const void *tile) { return SmemDescriptor{ptx::shared_address(tile), HALF_BYTES, 1024, 1, 2}.bits(); }

    // Scores for one query tile: S[i] = Q[i] K^T.
    FWD_DEVICE void scores(int i, uint32_t slot, bool skip) {
        // No wait for S[i] to be free: the previous P V of the stage was issued first and read P from these columns, and P was written
        // after S had been read.
        if (!skip) {
            const uint64_t q = rows_descriptor(cta.smem.q[i]), k = rows_descriptor(cta.smem.kv[slot]);
#pragma unroll
            for (int step = 0; step < VARIANT.dim / 16; step++) {
                // 32 bytes within a row of 64 columns, then the other half; in units of 16 bytes.
                const uint32_t offset = (step % 4) * 2 + (step / 4) * (HALF_BYTES / 16);
                ptx::tcgen05_mma_f16_ss(Tmem::s(i), q + offset, k + offset, scores_instruction, step > 0);
            }
        }
        ptx::tcgen05_commit(address(cta.smem.bars.s_ready[i]));
    }

    // Keys [first, last) of the block: O[i] (+)= P[i] V.
    FWD_DEVICE void values(int i, uint32_t slot, int first, int last, bool onto) {
        const uint64_t v = values_descriptor(cta.smem.kv[slot]);
#pragma unroll
        for (int key = first; key < last; key += MMA_KEYS)
            ptx::tcgen05_mma_f16_ts(Tmem::o(i), Tmem::p(i) + key / 2, v + key * (SWIZZLE_ROW_BYTES / 16), INSTRUCTION_VALUES,
                                    onto || key > first);
    }

    // P V of one stage in two parts, each as soon as its P is there. A skipped step keeps the waits: both barriers must be seen each phase.
    FWD_DEVICE void weigh_values(int i, uint32_t slot, bool skip) {
        wait(cta.smem.bars.p_o_rescale[i], tmem_parity);
        ptx::tcgen05_fence_after_thread_sync();
        if (!skip) values(i, slot, 0, VARIANT.p_split, accumulate[i]);
        wait(cta.smem.bars.p_ready_2[i], tmem_parity);
        ptx::tcgen05_fence_after_thread_sync();
        if (!skip) {
            values(i, slot, VARIANT.p_split, VARIANT.tile_keys, true);
            accumulate[i] = true;
        }
    }

    // Q[i] may be overwritten once every product that reads it is complete.
    FWD_DEVICE void release_queries(const FwdTask &task) {
#pragma unroll
        for (int i = 0; i < Q_STAGES; i++)
            if (task.own[i] > 0) ptx::tcgen05_commit(address(cta.smem.bars.q_load.empty[i]));
    }

    FWD_DEVICE FwdStep prologue(const FwdTask &task, Walk &walk) {
        const FwdStep step = walk.take(0);
        const bool last = task.steps == 1;
#pragma unroll
        for (int i = 0; i < Q_STAGES; i++) {
            accumulate[i] = false;
            if (task.own[i] > 0) {
                wait(cta.smem.bars.q_load.full[i], q_parity[i]);
                q_parity[i] ^= 1;
            }
            if (i == 0) wait(cta.smem.bars.kv_load.full[kv.slot], kv.parity);
            ptx::tcgen05_fence_after_thread_sync();
            scores(i, kv.slot, step.mask[i] == FWD_STEP_SKIP);
        }
        ptx::tcgen05_commit(address(cta.smem.bars.kv_load.empty[kv.slot]));
        kv.advance();
        if (last) release_queries(task);
        return step;
    }

    FWD_DEVICE void run(const FwdTask &task, Walk &walk) {
        FwdStep step = prologue(task, walk);
        for (int j = 0; j < task.steps; j++) {
            const bool last = j + 1 == task.steps;
            FwdStep next = step;
            if (!last) next = walk.take(j + 1);
            const uint32_t v = kv.slot;
            wait(cta.smem.bars.kv_load.full[v], kv.parity);
            kv.advance();
#pragma unroll
            for (int i = 0; i < Q_STAGES; i++) {
                weigh_values(i, v, step.mask[i] == FWD_STEP_SKIP);
                if (i == Q_STAGES - 1) ptx::tcgen05_commit(address(cta.smem.bars.kv_load.empty[v]));
                if (last) {
                    if (task.own[i] > 0) ptx::tcgen05_commit(address(cta.smem.bars.o_ready[i]));
                } else {
                    if (i == 0) {
                        wait(cta.smem.bars.kv_load.full[kv.slot], kv.parity);
                        ptx::tcgen05_fence_after_thread_sync();
                    }
                    scores(i, kv.slot, next.mask[i] == FWD_STEP_SKIP);
                }
            }
            if (!last) {
                ptx::tcgen05_commit(address(cta.smem.bars.kv_load.empty[kv.slot]));
                kv.advance();
                if (j + 2 == task.steps) release_queries(task);
            }
            tmem_parity ^= 1;
            step = next;
        }
    }
};

FWD_DEVICE void mma_role(const Cta &cta) {
    const uint32_t negate = cta.params.scale_negative ? INSTRUCTION_NEGATE_A : 0;
    Issuer issuer = {cta, INSTRUCTION_SCORES | negate, 0, {0, 0}, {0, 0}, {false, false}};
    TaskQueue queue;
    for (;;) {
        const FwdTask task = queue.take_thread(cta.smem);
        if (task.steps == FWD_NO_TASK) break;
        if (task.steps == 0) continue;
        Walk walk(cta.params, task);
        issuer.run(task, walk);
    }
}

// ---- store ---------------------------------------------------------------------------------------------------------------

FWD_DEVICE void store_role(const Cta &cta) {
    const FwdParams &p = cta.params;
    uint32_t parity[Q_STAGES] = {0, 0};
    TaskQueue queue;
    for (;;) {
        const FwdTask task = queue.take_warp(cta.smem);
        if (task.steps == FWD_NO_TASK) break;
        if (VARIANT.o_f32) continue; // the epilogue wrote global memory itself
#pragma unroll
        for (int i = 0; i < Q_STAGES; i++) {
            if (i >= task.tiles) continue;
            wait(cta.smem.bars.corr_epi.full[i], parity[i]);
            parity[i] ^= 1;
            if (ptx::elect_sync()) {
                const int head = VARIANT.packed ? task.head << p.group_log2 : task.head;
#pragma unroll
                for (int half = 0; half < HALVES; half++)
                    ptx::cp_async_bulk_tensor_4d_store(&p.map[FWD_MAP_O], ptx::shared_address(cta.smem.o[i] + half * HALF_BYTES),
                                                       half * HALF_COLUMNS, head, (task.tile + i) * p.positions, task.batch);
                ptx::cp_async_bulk_commit_group();
                ptx::cp_async_bulk_wait_group_read<0>();
            }
            __syncwarp();
            arrive(cta.smem.bars.corr_epi.empty[i]);
        }
    }
    // Shared memory outlives the reads (waited for above); the writes are complete before the grid is.
    if (ptx::elect_sync()) ptx::cp_async_bulk_wait_group<0>();
}
