// Softmax: warpgroup i owns query stage i, thread r its row r. Per step: S from tensor memory to registers, mask, maximum, reference,
// weights, P back over the upper half of S in two parts, sum.
//
//   wait s_ready -> ld S -> [wait corr_empty] -> maximum -> send rescale factor (row_stats) -> weigh, st P -> p_o_rescale -> st P -> p_ready_2 -> sum
//
// With max-free blocks only a tile's first block takes that path; later ones weigh against the old reference at once, test the sum
// before P overwrites S, and rescale O here. In both forms a step that is skipped for the stage keeps every arrival and touches nothing.
#pragma once

#include "sm100_output.cuh"

// Decisions of one row since the last flush. Compiled away unless the variant counts.
struct Counts {
    uint32_t rescaled, spared, warps, fixups;
    float exponent_max, p_max;

    FWD_DEVICE void clear() {
        rescaled = spared = warps = fixups = 0;
        exponent_max = MINUS_INFINITY;
        p_max = 0.0f;
    }
    FWD_DEVICE static int ordered(float x) {
        const int bits = __float_as_int(x);
        return bits ^ ((bits >> 31) & 0x7fffffff);
    }
    FWD_DEVICE void flush(FwdCounters *to) {
        if (rescaled) atomicAdd((unsigned long long *)&to->rescaled_rows, (unsigned long long)rescaled);
        if (spared) atomicAdd((unsigned long long *)&to->spared_rows, (unsigned long long)spared);
        if (warps) atomicAdd((unsigned long long *)&to->rescaled_warps, (unsigned long long)warps);
        if (fixups) atomicAdd((unsigned long long *)&to->max_fixups, (unsigned long long)fixups);
        if (exponent_max > MINUS_INFINITY) atomicMax(&to->exponent_max, ordered(exponent_max));
        if (p_max > 0.0f) atomicMax(&to->p_max, ordered(p_max));
        clear();
    }
};

// A task's steps as one stage sees them. The same steps as Walk's, in runs of whole blocks where they are derived.
struct StageWalk {
    int left;           // steps to come, the present one included
    int key_block;      // of the present step
    int next, stride;   // derived: the block after it, and the distance from there on
    int own, whole;     // derived: blocks [0, own) are the stage's, [0, whole) of them unmasked
    int mask;           // listed: FWD_STEP_*, or a bit tile
    int stage;
    const FwdStep *list; // listed: the step after the present one

    enum { DERIVED = VARIANT.mask_class == FWD_FULL || VARIANT.mask_class == FWD_CAUSAL };

    FWD_DEVICE StageWalk(const FwdParams &p, const FwdTask &task, int i) : left(task.steps), stage(i) {
        if constexpr (DERIVED) {
            own = pick(task.own, i);
            const int unmasked = visible_keys(p, (task.tile + i) * p.positions).hi / VARIANT.tile_keys;
            whole = unmasked < own ? unmasked : own;
            // kv_order: 0 reverse, 1 forward, 2 the first block (the attention sink) and then reverse.
            key_block = p.kv_order == 0 ? left - 1 : 0;
            next = p.kv_order == 0 ? left - 2 : p.kv_order == 1 ? 1 : left - 1;
            stride = p.kv_order == 1 ? 1 : -1;
        } else {
            list = p.steps + task.first_step;
            key_block = 0;
            mask = FWD_STEP_SKIP;
            if (left > 0) load();
        }
    }
    FWD_DEVICE void load() {
        const FwdStep step = *list++;
        key_block = step.key_block;
        mask = pick(step.mask, stage);
    }
    FWD_DEVICE int kind() const {
        if constexpr (DERIVED) return key_block < whole ? FWD_STEP_FULL : key_block < own ? FWD_STEP_PARTIAL : FWD_STEP_SKIP;
        else return mask;
    }
    // The present block is whole: how many are from here on, at least. Descending blocks stay whole to the end.
    FWD_DEVICE int whole_run() const {
        if constexpr (DERIVED) return stride > 0 ? whole - key_block : next == key_block - 1 ? left : 1;
        else return 1;
    }
    FWD_DEVICE void advance(int steps) {
        left -= steps;
        if constexpr (DERIVED) {
            key_block = next + stride * (steps - 1);
            next = key_block + stride;
        } else if (left > 0) {
            load();
        }
    }
};

struct Softmax {
    const Cta &cta;
    const int stage, warp, row; // warp and thread of the warpgroup; the thread's row of the tile
    uint32_t s, p;        // S and P of the stage, in the warp's window
    uint32_t step_parity; // of s_ready and s_order, once a step
    uint32_t corr_parity; // of corr_empty: a fresh slot may be written
    Parities o, staging; // of o_ready, corr_epi.empty
    bool owed;            // max-free: the correction role still reads this stage's previous O
    bool exists;          // the row's query exists
    const Units units;
    uint32_t stats_barrier; // id of the named barrier row_stats
    Row state;
    Counts counts;

    FWD_DEVICE Softmax(const Cta &c, int i, int w) : cta(c), stage(i), warp(w), row(32 * w + threadIdx.x % 32), units(c.params) {
        stats_barrier = 1 + threadIdx.x / (VARIANT.packed ? WARPGROUP : 32); // from the thread: the barrier wants it in a vector register
        s = Tmem::s(i) + Tmem::window(warp);
        p = Tmem::p(i) + Tmem::window(warp);
        step_parity = 0;
        corr_parity = 1;
        o = {0};
        staging = {3};
        owed = exists = false;
        state = {};
        counts.clear();
    }

    // ---- hand-overs ----

    // The mailbox slot is free again; max-free: O has been read.
    FWD_DEVICE void await_correction() {
        wait(cta.smem.bars.corr_empty[stage], corr_parity);
        corr_parity ^= 1;
    }
    // One number of this row to the correction role. The slot is free: await_correction went before.
    FWD_DEVICE void send(float x) {
        cta.smem.row_scale[stage][row] = x;
        ptx::bar_arrive(stats_barrier, VARIANT.packed ? 2 * WARPGROUP : 64);
    }
    FWD_DEVICE void hand_over(const Barrier &bar) {
        ptx::tcgen05_wait_st();
        ptx::tcgen05_fence_before_thread_sync();
        arrive(bar);
    }
    FWD_DEVICE void load_scores(Scores &x) {
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++) ptx::tcgen05_ld_32x32b_x32(s + f * FRAGMENT, x.word[f]);
    }
    FWD_DEVICE void settle_scores(Scores &x) {
        ptx::tcgen05_wait_ld();
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++) ptx::settle(x.word[f]);
    }
    template <bool MASKED> FWD_DEVICE void condition(Scores &x, const KeyMask &mask) {
        if (VARIANT.soft_cap) cap(x, cta.params.cap_scale);
        if (MASKED) hide(x, mask);
    }
    // 16 keys of P from `packed`, at key `first` of the block.
    FWD_DEVICE void store_weights(int first, int keys, const uint32_t *packed) {
        if (keys == 32) ptx::tcgen05_st_32x32b_x16(p + first / 2, packed);
        else ptx::tcgen05_st_32x32b_x8(p + first / 2, packed);
    }
    // P's columns of one fragment, with the hand-over of the first part where it ends.
    FWD_DEVICE void store_fragment(int fragment, const uint32_t *packed) {
        const int first = fragment * FRAGMENT, last = first + FRAGMENT;
        const int split = VARIANT.p_split;
        if (split > first && split < last) {
            store_weights(first, 16, packed);
            hand_over(cta.smem.bars.p_o_rescale[stage]);
            store_weights(first + 16, 16, packed + 8);
        } else {
            store_weights(first, 32, packed);
            if (split == last) hand_over(cta.smem.bars.p_o_rescale[stage]);
        }
    }
    // The softmax warpgroups take turns in the part that is heavy in exponentials: stage 0 begins.
    FWD_DEVICE void take_turn() {
        if (VARIANT.order_barrier) wait(cta.smem.bars.s_order[stage], step_parity ^ (stage == 0 ? 1 : 0));
    }
    FWD_DEVICE void pass_turn() {
        if (VARIANT.order_barrier) arrive(cta.smem.bars.s_order[1 - stage]);
    }

    // ---- counting ----

    FWD_DEVICE void count_move(const Move &move) {
        if (!VARIANT.counters) return;
        const bool moved = move.moved && exists;
        counts.rescaled += moved;
        counts.spared += move.spared && exists;
        const bool any = __any_sync(0xffffffff, moved);
        counts.warps += any && row % 32 == 0;
    }
    // `peak`: the largest score of the block. Weights are in x.
    FWD_DEVICE void count_weights(const Scores &x, float peak) {
        if (!VARIANT.counters) return;
        float largest = 0.0f;
#pragma unroll
        for (int k = 0; k < KEYS; k++) largest = ptx::max(largest, x.get(k));
        if (!exists) return;
        counts.p_max = ptx::max(counts.p_max, largest);
        if (peak == MINUS_INFINITY) return;
        const float scale = units.scale_log2;
        const float exponent = VARIANT.integer_reference ? peak * scale - units.level(state.reference) : (peak - state.reference) * scale;
        counts.exponent_max = ptx::max(counts.exponent_max, exponent);
    }

    // ---- one block ----

    template <bool MASKED> FWD_DEVICE void block(const KeyMask &mask, bool first) {
        wait(cta.smem.bars.s_ready[stage], step_parity);
        ptx::tcgen05_fence_after_thread_sync();
        Scores x;
        load_scores(x);
        await_correction(); // while the loads are on their way
        settle_scores(x);
        condition<MASKED>(x, mask);
        float peak = 0.0f;
        if (VARIANT.counters) peak = maximum(x, MINUS_INFINITY);
        const Move move = move_reference(units, state, maximum(x, state.reference), first);
        send(move.rescale);
        count_move(move);
        take_turn();
        const Weighing weighing(units.scale_log2, move.used, move.bias);
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++) {
            uint32_t packed[FRAGMENT / 2];
            weigh<MASKED>(x, f, weighing, packed);
            store_fragment(f, packed);
        }
        hand_over(cta.smem.bars.p_ready_2[stage]);
        pass_turn();
        // Off the critical path: P is on its way.
        state.sum = fmaf(state.sum, move.rescale, total(x));
        count_weights(x, peak);
    }

    // Max-free: P leaves in one go, once its sum has been tested.
    template <bool MASKED> FWD_DEVICE void block_max_free(const KeyMask &mask, bool first) {
        wait(cta.smem.bars.s_ready[stage], step_parity);
        ptx::tcgen05_fence_after_thread_sync();
        Scores x;
        load_scores(x);
        settle_scores(x);
        condition<MASKED>(x, mask);
        take_turn();
        float peak = 0.0f;
        if (VARIANT.counters) peak = maximum(x, MINUS_INFINITY);
        if (!first) {
            if (weigh_at_once<MASKED>(x, peak)) return;
            load_scores(x); // S is whole: P has not been stored
            settle_scores(x);
            condition<MASKED>(x, mask);
        }
        ordinary_step<MASKED>(x, first, peak);
    }

    // The block against the old reference. False: a row of the warp does not fit, nothing has been done.
    template <bool MASKED> FWD_DEVICE bool weigh_at_once(Scores &x, float peak) {
        const Weighing weighing(units.scale_log2, state.reference, -units.level(state.reference));
        uint32_t packed[KEYS / 2];
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++) weigh<MASKED>(x, f, weighing, packed + f * (FRAGMENT / 2));
        const float sum = total(x);
        // False for NaN too. A row that has seen no key yet has a huge bias: its first visible score ends here.
        const bool fits = sum <= cta.params.weight_limit;
        if (__any_sync(0xffffffff, !fits)) return false;
        state.sum += sum;
        count_weights(x, peak);
        if (VARIANT.counters) counts.spared += exists && (peak - state.reference) * units.scale_log2 > 0.0f;
        if (owed) await_previous_output();
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++) store_fragment(f, packed + f * (FRAGMENT / 2));
        hand_over(cta.smem.bars.p_ready_2[stage]);
        pass_turn();
        return true;
    }

    // The step with a maximum, warp by warp. O is complete up to the previous block: s_ready of this one followed it.
    template <bool MASKED> FWD_DEVICE void ordinary_step(Scores &x, bool first, float peak) {
        const Move move = move_reference(units, state, maximum(x, state.reference), first);
        count_move(move);
        if (VARIANT.counters && !first) counts.fixups += row % 32 == 0;
        if (owed) await_previous_output();
        if (__any_sync(0xffffffff, move.rescale < 1.0f)) rescale_output(Tmem::o(stage) + Tmem::window(warp), move.rescale);
        const Weighing weighing(units.scale_log2, move.used, move.bias);
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++) {
            uint32_t packed[FRAGMENT / 2];
            weigh<MASKED>(x, f, weighing, packed);
            store_fragment(f, packed);
        }
        hand_over(cta.smem.bars.p_ready_2[stage]);
        pass_turn();
        state.sum = fmaf(state.sum, move.rescale, total(x));
        count_weights(x, peak);
    }

    FWD_DEVICE void await_previous_output() {
        await_correction();
        owed = false;
    }

    FWD_DEVICE void skip() {
        wait(cta.smem.bars.s_ready[stage], step_parity);
        if (VARIANT.row_max == FWD_EACH_BLOCK) {
            await_correction();
            send(1.0f);
        }
        take_turn();
        arrive(cta.smem.bars.p_o_rescale[stage]);
        arrive(cta.smem.bars.p_ready_2[stage]);
        pass_turn();
        step_parity ^= 1;
    }

    // ---- one task ----

    template <bool MASKED> FWD_DEVICE void visit(const KeyMask &mask, bool &first) {
        if constexpr (VARIANT.row_max == FWD_FIRST_BLOCK) block_max_free<MASKED>(mask, first);
        else block<MASKED>(mask, first);
        first = false;
        step_parity ^= 1;
    }

    FWD_DEVICE KeyMask mask_of(const StageWalk &walk, Interval keys) {
        if constexpr (VARIANT.mask_class == FWD_BITS) {
            return stored_mask(cta.params.bit_tiles + ((int64_t)walk.kind() * VARIANT.tile_rows + row) * FRAGMENTS);
        } else {
            return interval_mask(keys, walk.key_block * VARIANT.tile_keys);
        }
    }

    FWD_DEVICE void run(const FwdTask &task) {
        const FwdParams &params = cta.params;
        const int position = row_position(params, task.tile + stage, row);
        exists = stage < task.tiles && position < params.seqlen_q;
        owed = VARIANT.row_max == FWD_FIRST_BLOCK && stage < task.tiles;
        const Interval keys = visible_keys(params, position);
        StageWalk walk(params, task, stage);
        state = {params.reference_floor, 0.0f};
        bool first = true;
#pragma unroll 1
        while (walk.left > 0) {
            if (walk.kind() == FWD_STEP_FULL) {
                // The inner loop of the kernel: whole blocks one after another.
                int run = walk.whole_run();
                walk.advance(run);
#pragma unroll 1
                do visit<false>({}, first);
                while (--run > 0);
                continue;
            }
            if (walk.kind() == FWD_STEP_SKIP) skip();
            else visit<true>(mask_of(walk, keys), first);
            walk.advance(1);
        }
        if (stage < task.tiles) finish(task, position);
    }

    FWD_DEVICE void finish(const FwdTask &task, int position) {
        const FwdParams &params = cta.params;
        const float inverse = inverse_sum(state);
        if (VARIANT.epilogue == FWD_EPILOGUE_CORRECTION) {
            if (VARIANT.row_max == FWD_EACH_BLOCK || owed) await_correction();
            send(inverse);
        } else {
            if (pick(task.own, stage) > 0) {
                wait(cta.smem.bars.o_ready[stage], o.take(stage));
                ptx::tcgen05_fence_after_thread_sync();
            }
            finish_output(cta, task, stage, warp, row, inverse, staging);
        }
        if (params.lse && exists)
            params.lse[task.batch * params.lse_strides[0] + row_head(params, task.head, row) * params.lse_strides[1] +
                       position * params.lse_strides[2]] = log_sum_exp(units, state);
        if (VARIANT.counters) counts.flush(params.counters + task.head);
    }
};

FWD_DEVICE void softmax_role(const Cta &cta, int stage, int warp) {
    Softmax softmax(cta, stage, warp);
    TaskQueue queue;
    for (;;) {
        const FwdTask task = queue.take_warp(cta.smem);
        if (task.steps == FWD_NO_TASK) break;
        softmax.run(task);
    }
}
