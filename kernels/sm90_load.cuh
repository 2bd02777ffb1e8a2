// The load role of the Hopper kernel: one thread that takes tasks and keeps the Q, K and V rings full.
//
// Order of loads: Q of a task, then K of each step with V of the step before it, across tasks too, because consumers issue Q K of the
// next block before P V of this one. The task travels in shared memory beside its Q, the step beside its K: consumers read them
// behind the same wait.
#ifndef FA4_KERNELS_SM90_LOAD_CUH
#define FA4_KERNELS_SM90_LOAD_CUH

#include "sm90_split.cuh"

// Numbers of the tasks that this CTA runs. The counter is fetched once a task, CTAs' first tasks being their own numbers; so the
// fetch that returns task_count - 1 is the launch's last, and it leaves the counter at 0 for the next launch.
struct TaskNumbers {
    int now, end;
    DEVICE explicit TaskNumbers(const FwdParams &params) {
        bool list = params.take == FWD_TAKE_LIST;
        now = list ? params.worker_first[blockIdx.x] : blockIdx.x;
        end = list ? params.worker_first[blockIdx.x + 1] : params.task_count;
    }
    // The number after `now`; asked for long before it is used, so that the counter's latency is hidden.
    DEVICE int next(const FwdParams &params) const {
        if (params.take == FWD_TAKE_LIST) return now + 1;
        if (params.take == FWD_TAKE_STRIDE) return now + gridDim.x;
        int taken = atomicAdd(params.next_task, 1);
        if (taken == params.task_count - 1) *params.next_task = 0;
        return taken + gridDim.x;
    }
};

DEVICE FwdTask fetch_task(const FwdParams &params, const TaskNumbers &numbers) {
    FwdTask task;
    int4 *halves = reinterpret_cast<int4 *>(&task);
    const int4 *from = reinterpret_cast<const int4 *>(params.tasks + numbers.now);
    halves[0] = __ldg(from);
    halves[1] = __ldg(from + 1);
    return task;
}

// Three consumer warpgroups leave 32 registers, too few to hold a second record; their rings are deep enough to hide its latency.
constexpr bool FETCH_EARLY = WARPGROUPS < 3;

struct Loader {
    const FwdParams &params;
    Smem smem;
    Ring<Q_STAGES> q;
    Ring<KV_STAGES> k, v;
    int v_block = -1, v_head = 0, v_batch = 0; // the V block that is due; -1: none

    // Q of one task, or the mark that ends the consumers.
    DEVICE void load_q(const FwdTask &task) {
        u32 slot = q.slot(), full = smem.q_load_full(slot);
        wait(smem.q_load_empty(slot), q.parity() ^ 1);
        write_task(smem.task(q.uses), task);
        if (task.steps == FWD_NO_TASK) {
            ptx::mbarrier_arrive(full);
        } else {
            int head = (params.group_log2 > 0 ? task.head * params.group : task.head) * params.q_head_step;
            ptx::mbarrier_arrive_expect_tx(full, Q_BYTES);
            for (int half = 0; half < HALVES; half++)
                ptx::cp_async_bulk_tensor_4d_load(smem.q(slot) + half * Q_HALF_BYTES, &params.map[FWD_MAP_Q], full, 64 * half, head,
                                                  task.tile * params.positions, task.batch * params.q_batch_step);
        }
        q.advance();
    }

    DEVICE void load_k(int key_block, int mask, int head, int batch) {
        u32 slot = k.slot(), full = smem.k_load_full(slot);
        wait(smem.k_load_empty(slot), k.parity() ^ 1);
        if (HAS_STEP_LIST) *static_cast<int2 *>(__cvta_shared_to_generic(smem.step(slot))) = make_int2(key_block, mask);
        ptx::mbarrier_arrive_expect_tx(full, KV_BYTES);
        for (int half = 0; half < HALVES; half++)
            ptx::cp_async_bulk_tensor_4d_load(smem.k(slot) + half * KV_HALF_BYTES, &params.map[FWD_MAP_K], full, 64 * half,
                                              head * params.k_head_step, key_block * TILE_KEYS, batch * params.k_batch_step);
        k.advance();
    }

    DEVICE void load_due_v() {
        if (v_block < 0) return;
        u32 slot = v.slot(), full = smem.v_load_full(slot);
        wait(smem.v_load_empty(slot), v.parity() ^ 1);
        ptx::mbarrier_arrive_expect_tx(full, KV_BYTES);
        for (int half = 0; half < HALVES; half++)
            ptx::cp_async_bulk_tensor_4d_load(smem.v(slot) + half * KV_HALF_BYTES, &params.map[FWD_MAP_V], full, 64 * half,
                                              v_head * params.v_head_step, v_block * TILE_KEYS, v_batch * params.v_batch_step);
        v.advance();
        v_block = -1;
    }
};

// O = 0 and LSE = -inf for a tile that sees no key, or the mark of an empty part. The load thread does it alone, so that consumers meet no such tile: their loop
// would lose its uniform registers to the extra branch.
DEVICE void finish_empty(const FwdParams &params, const FwdTask &task) {
    constexpr int BYTES = FA4_O_F32 ? 4 : 2; // of one output element; o_f32 is the output's address whatever its type
    for (u32 row = 0; row < TILE_ROWS; row++) {
        RowPlace place = place_row(params, task, row);
        if (!place.exists) break;
        if (IS_SPLIT) {
            store_partial_row(params, partial_place(params, task) + (long long)row * params.kv_splits, MINUS_INFINITY, 0.0f);
            continue;
        }
        if (params.lse != nullptr)
            params.lse[task.batch * params.lse_strides[0] + place.head * params.lse_strides[1] + place.position * params.lse_strides[2]] =
                MINUS_INFINITY;
        long long at = task.batch * params.o_strides[0] + place.position * params.o_strides[1] + place.head * params.o_strides[2];
        uint4 *o = reinterpret_cast<uint4 *>(reinterpret_cast<char *>(params.o_f32) + at * BYTES);
        for (int i = 0; i < params.dim * BYTES / 16; i++) o[i] = make_uint4(0, 0, 0, 0);
    }
}

DEVICE void load_role(const FwdParams &params, Smem smem) {
    Loader loader{params, smem};
    TaskNumbers numbers(params);
    FwdTask task = {};
    if (numbers.now < numbers.end) task = fetch_task(params, numbers);
    while (numbers.now < numbers.end) {
        numbers.now = numbers.next(params);
        if (task.steps > 0) loader.load_q(task);
        else finish_empty(params, task);
        int head = params.group_log2 > 0 ? task.head : task.head / params.group;
        Walk walk = derive_walk(params, task);
        const FwdStep *steps = params.steps + task.first_step;
        FwdTask next = task;
        for (int i = 0; i < task.steps; i++) {
            int key_block = HAS_STEP_LIST ? steps[i].key_block : walk.key_block(i, params.kv_order);
            loader.load_k(key_block, HAS_STEP_LIST ? steps[i].mask[0] : 0, head, task.batch);
            loader.load_due_v();
            loader.v_block = key_block, loader.v_head = head, loader.v_batch = task.batch;
            // By the second step the counter has answered: the record's latency hides behind the waits for slots.
            if (FETCH_EARLY && i == 1 && numbers.now < numbers.end) next = fetch_task(params, numbers);
        }
        if ((!FETCH_EARLY || task.steps < 2) && numbers.now < numbers.end) next = fetch_task(params, numbers);
        task = next;
    }
    loader.load_due_v();
    task.steps = FWD_NO_TASK;
    loader.load_q(task);
}

#endif
