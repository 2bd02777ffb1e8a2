// Softmax: warpgroup i owns query stage i, thread r its row r. Per step: S from tensor memory to registers, mask, maximum, reference,
// weights, P back over the upper half of S in two parts, sum.
//
//   wait s_ready, corr_empty -> ld S -> maximum -> [move the reference] -> row_stats -> weigh, st P -> p_o_rescale -> st P -> p_ready_2 -> sum
//
// With max-free blocks only a tile's first block takes that path; later ones weigh against the old reference at once, test the sum
// before P overwrites S, and rescale O here. In both forms a step that is skipped for the stage keeps every arrival and touches nothing.
#pragma once

#include "sm100_output.cuh"

// Decisions, for a variant that counts: they go to memory at once, warp by warp, because beside a row of scores there are no registers to gather
// them in. Every function is for whole warps.
struct Tally {
    int head; // of the task; its complement where the thread's row does not exist

    FWD_DEVICE bool exists() const { return head >= 0; }
    FWD_DEVICE FwdCounters &of(const FwdParams &params) const { return params.counters[exists() ? head : ~head]; }

    FWD_DEVICE static void add(uint64_t &to, bool counts) {
        const int n = __popc(__ballot_sync(0xffffffff, counts));
        if (n > 0 && threadIdx.x % 32 == 0) atomicAdd((unsigned long long *)&to, (unsigned long long)n);
    }
    FWD_DEVICE static void raise(int32_t &to, float x, bool counts) {
        const int bits = __float_as_int(counts && x == x ? x : MINUS_INFINITY);
        const int most = __reduce_max_sync(0xffffffff, bits ^ ((bits >> 31) & 0x7fffffff));
        if (threadIdx.x % 32 == 0) atomicMax(&to, most);
    }
};

// A task's steps as one stage sees them: the same as Walk's, in runs of whole blocks where they are derived. Little is kept between steps, because
// registers are scarce while a row of scores is held: the task stays in shared memory, and what follows from it is derived anew.
struct StageWalk {
    const FwdParams &params;
    const FwdTask &task; // in shared memory
    const int stage;
    int left; // steps to come, the present one included

    // Listed only: the present step, and the next one's place.
    int listed_block, listed_mask;
    const FwdStep *list;

    enum { DERIVED = VARIANT.mask_class == FWD_FULL || VARIANT.mask_class == FWD_CAUSAL };

    FWD_DEVICE StageWalk(const FwdParams &p, const FwdTask &t, int i) : params(p), task(t), stage(i), left(t.steps) {
        if constexpr (!DERIVED) {
            list = params.steps + task.first_step;
            listed_block = 0;
            listed_mask = FWD_STEP_SKIP;
            if (left > 0) load();
        }
    }
    FWD_DEVICE void load() {
        const FwdStep step = *list++;
        listed_block = step.key_block;
        listed_mask = pick(step.mask, stage);
    }
    // Derived: blocks [0, own) are the stage's, [0, whole) of them unmasked.
    FWD_DEVICE int own() const { return task.own[stage]; }
    FWD_DEVICE int whole() const {
        const int unmasked = visible_keys(params, (task.tile + stage) * params.positions).hi / VARIANT.tile_keys;
        return unmasked < own() ? unmasked : own();
    }
    FWD_DEVICE int key_block() const {
        if constexpr (!DERIVED) return listed_block;
        // kv_order: 0 reverse, 1 forward, 2 the first block (the attention sink) and then reverse.
        return params.kv_order == 0 ? left - 1 : params.kv_order == 1 ? task.steps - left : left == task.steps ? 0 : left;
    }
    FWD_DEVICE int kind() const {
        if constexpr (!DERIVED) return listed_mask;
        return key_block() < whole() ? FWD_STEP_FULL : key_block() < own() ? FWD_STEP_PARTIAL : FWD_STEP_SKIP;
    }
    // The present block is whole: how many are from here on, at least. Descending blocks stay whole to the end.
    FWD_DEVICE int whole_run() const {
        if constexpr (!DERIVED) return 1;
        return params.kv_order == 1 ? whole() - key_block() : params.kv_order == 2 && left == task.steps ? 1 : left;
    }
    FWD_DEVICE void advance(int steps) {
        left -= steps;
        if (!DERIVED && left > 0) load();
    }
};

struct Softmax {
    const Cta &cta;
    const int stage, warp, row; // warp and thread of the warpgroup; the thread's row of the tile
    uint32_t s, p;        // S and P of the stage, in the warp's window
    uint32_t s_ready;     // address of the stage's barrier
    uint32_t step_parity; // of s_ready and s_order, once a step
    uint32_t corr_parity; // of corr_empty: a fresh slot may be written
    Parities o, staging; // of o_ready, corr_epi.empty
    bool owed;            // max-free: the correction role still reads this stage's previous O
    const Units units;
    uint32_t stats_barrier; // id of the named barrier row_stats
    Row state;
    Tally tally;

    FWD_DEVICE Softmax(const Cta &c, int i, int w) : cta(c), stage(i), warp(w), row(32 * w + threadIdx.x % 32), units(c.params, Zeros(c.smem)) {
        stats_barrier = 1 + threadIdx.x / (VARIANT.packed ? WARPGROUP : 32); // from the thread: the barrier wants it in a vector register
        s = Tmem::s(i) + Tmem::window(warp);
        p = Tmem::p(i) + Tmem::window(warp);
        const Zeros zeros(c.smem);
        s_ready = address(c.smem.bars.s_ready[i]) ^ (VARIANT.row_max == FWD_EACH_BLOCK ? zeros.thread : zeros.uniform);
        step_parity = 0;
        corr_parity = 1;
        o = {0};
        staging = {3};
        owed = false;
        state = {};
        tally = {0};
        write(1.0f);
    }

    // ---- hand-overs ----

    // The stage's copy of a barrier: one register for all of them.
    FWD_DEVICE uint32_t mine(const Barrier (&bar)[Q_STAGES]) const {
        return s_ready + (uint32_t)((const char *)bar - (const char *)cta.smem.bars.s_ready);
    }

    // The mailbox slot is free again; max-free: O has been read.
    FWD_DEVICE void await_correction() {
        wait_together(mine(cta.smem.bars.corr_empty), corr_parity);
        corr_parity ^= 1;
    }
    // One number of this row to the correction role. The slot is free: await_correction went before. It holds 1 whenever it is free.
    FWD_DEVICE void send(float x) {
        write(x);
        sent();
    }
    FWD_DEVICE void write(float x) { cta.smem.row_scale[stage][row] = x; }
    FWD_DEVICE void sent() {
        ptx::bar_arrive(stats_barrier, VARIANT.packed ? 2 * WARPGROUP : 64);
    }
    FWD_DEVICE void hand_over(uint32_t bar) {
        ptx::tcgen05_wait_st();
        ptx::tcgen05_fence_before_thread_sync();
        ptx::mbarrier_arrive(bar);
    }
    template <bool MASKED> FWD_DEVICE void read_scores(Scores &x, const KeyMask &mask) {
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++) ptx::tcgen05_ld_32x32b_x32(s + f * FRAGMENT, x.word[f]);
        ptx::tcgen05_wait_ld();
#pragma unroll
        for (int f = 0; f < FRAGMENTS; f++) ptx::settle(x.word[f]);
        if (VARIANT.soft_cap) cap(x, cta.params.cap_scale);
        if (MASKED) hide(x, mask);
    }
    // Keys [first, last) of P, packed[0] being those of key `first`.
    template <int FIRST, int LAST> FWD_DEVICE void store_weights(const uint32_t *packed) {
        static_assert(LAST - FIRST == 16 || LAST - FIRST == 32 || LAST - FIRST == 64 || LAST - FIRST == 128, "a store's shape");
        if (LAST - FIRST == 128) ptx::tcgen05_st_32x32b_x64(p + FIRST / 2, packed);
        if (LAST - FIRST == 64) ptx::tcgen05_st_32x32b_x32(p + FIRST / 2, packed);
        if (LAST - FIRST == 32) ptx::tcgen05_st_32x32b_x16(p + FIRST / 2, packed);
        if (LAST - FIRST == 16) ptx::tcgen05_st_32x32b_x8(p + FIRST / 2, packed);
    }
    // P in the fewest stores that keep its two parts apart; the first is handed over where it ends.
    template <int FIRST, bool MASKED> FWD_DEVICE void weigh_from(Scores &x) {
        if constexpr (FIRST < KEYS) {
            constexpr int END = FIRST < VARIANT.p_split ? VARIANT.p_split : KEYS, LEFT = END - FIRST;
            constexpr int LAST = FIRST + (LEFT >= 64 && END == KEYS ? 64 : LEFT >= 32 ? 32 : 16);
            uint32_t packed[(LAST - FIRST) / 2];
#pragma unroll
            for (int k = FIRST; k < LAST; k += 16) weigh<MASKED>(x, k, units, state, packed + (k - FIRST) / 2);
            store_weights<FIRST, LAST>(packed);
            if (LAST == VARIANT.p_split) hand_over(mine(cta.smem.bars.p_o_rescale));
            weigh_from<LAST, MASKED>(x);
        }
    }
    // The softmax warpgroups take turns in the part that is heavy in exponentials: stage 0 begins.
    FWD_DEVICE void take_turn() {
        if (VARIANT.order_barrier) wait_together(mine(cta.smem.bars.s_order), step_parity ^ (stage == 0 ? 1 : 0));
    }
    FWD_DEVICE void pass_turn() {
        if (VARIANT.order_barrier) arrive(cta.smem.bars.s_order[1 - stage]);
    }

    // ---- counting ----

    // Before the reference moves.
    FWD_DEVICE void count_move(float candidate, bool first) {
        if (!VARIANT.counters || first) return;
        FwdCounters &to = tally.of(cta.params);
        const bool stays = Row::stays(units, state.reference, candidate), moved = !stays && tally.exists();
        Tally::add(to.rescaled_rows, moved);
        Tally::add(to.spared_rows, stays && tally.exists() && candidate > state.reference);
        Tally::add(to.rescaled_warps, __any_sync(0xffffffff, moved) && row % 32 == 0);
    }
    // `peak`: the largest score of the block, whose weights are relative to the reference.
    FWD_DEVICE void count_exponent(float peak) {
        if (!VARIANT.counters) return;
        const float scale = units.scale_log2;
        const float exponent = VARIANT.integer_reference ? peak * scale - units.level(state.reference) : (peak - state.reference) * scale;
        Tally::raise(tally.of(cta.params).exponent_max, exponent, tally.exists() && peak != MINUS_INFINITY);
    }
    FWD_DEVICE void count_weights(const Scores &x) {
        if (!VARIANT.counters) return;
        float largest = 0.0f;
#pragma unroll
        for (int k = 0; k < KEYS; k++) largest = ptx::max(largest, x.get(k));
        Tally::raise(tally.of(cta.params).p_max, largest, tally.exists());
    }

    // ---- one block ----

    // The largest score of the block, which only counting asks for, and of it and the reference. NaN if a score is NaN.
    FWD_DEVICE float peak_of(const Scores &x) const { return VARIANT.counters ? maximum(x, MINUS_INFINITY) : 0.0f; }
    FWD_DEVICE float candidate_of(const Scores &x, float peak) const {
        return VARIANT.counters ? ptx::max3_nan(peak, state.reference, state.reference) : maximum(x, state.reference);
    }

    template <bool MASKED> FWD_DEVICE void block(const KeyMask &mask, bool first) {
        wait_both(mine(cta.smem.bars.s_ready), step_parity, mine(cta.smem.bars.corr_empty), corr_parity);
        corr_parity ^= 1;
        ptx::tcgen05_fence_after_thread_sync();
        Scores x;
        read_scores<MASKED>(x, mask);
        const float peak = peak_of(x), candidate = candidate_of(x, peak);
        count_move(candidate, first);
        // Most blocks move no row of the warp, and leave the 1 in the mailbox.
        if (__any_sync(0xffffffff, !(candidate <= state.ceiling))) write(move_reference(units, state, candidate));
        count_exponent(peak);
        sent();
        take_turn();
        weigh_from<0, MASKED>(x);
        hand_over(mine(cta.smem.bars.p_ready_2));
        pass_turn();
        state.sums = total(x, state.sums); // off the critical path: P is on its way
        count_weights(x);
    }

    // Max-free: P leaves in one go, once its sum has been tested.
    // `remake` gives the mask again, where S is read again: it would take four registers to keep.
    template <bool MASKED, class Remake> FWD_DEVICE void block_max_free(const KeyMask &mask, const Remake &remake, bool first) {
        wait_together(mine(cta.smem.bars.s_ready), step_parity);
        ptx::tcgen05_fence_after_thread_sync();
        Scores x;
        read_scores<MASKED>(x, mask);
        take_turn();
        bool weighed = false;
        if (!first) {
            weighed = weigh_at_once<MASKED>(x);
            if (weighed && !VARIANT.counters) return;
            read_scores<MASKED>(x, remake()); // S is whole: P has not been stored
        }
        ordinary_step<MASKED>(x, first, VARIANT.counters && weighed);
    }

    template <bool MASKED> FWD_DEVICE void weigh_row(Scores &x, uint32_t (&packed)[KEYS / 2]) {
#pragma unroll
        for (int k = 0; k < KEYS; k += 16) weigh<MASKED>(x, k, units, state, packed + k / 2);
    }

    // The block against the old reference. False: a row of the warp does not fit, nothing has been done. A build that counts leaves P to do.
    template <bool MASKED> FWD_DEVICE bool weigh_at_once(Scores &x) {
        const bool regular = fits_polynomial<MASKED>(x, state);
        uint32_t packed[KEYS / 2];
        weigh_row<MASKED>(x, packed);
        const ptx::Pair sums = total(x, ptx::pack(0.0f, 0.0f));
        float even, odd;
        ptx::unpack(sums, even, odd);
        // False for NaN too. A row that has seen no key yet has a huge bias: its first visible score ends here.
        const bool fits = regular && even + odd <= cta.params.weight_limit;
        if (__any_sync(0xffffffff, !fits)) return false;
        state.sums = ptx::add_rn_f32x2(state.sums, sums);
        if constexpr (VARIANT.counters) {
            count_weights(x);
            return true; // P is made of S read again: weights, their rounded copies and what counting takes are more than the registers
        }
        if constexpr (VARIANT.mask_class == FWD_FULL) {
            store_weights<0, KEYS>(packed);
        } else { // 64 registers in a row are too many beside more of the polynomial's
            store_weights<0, KEYS / 2>(packed);
            store_weights<KEYS / 2, KEYS>(packed + KEYS / 4);
        }
        hand_over(mine(cta.smem.bars.p_o_rescale));
        ptx::mbarrier_arrive(mine(cta.smem.bars.p_ready_2)); // the hand-over before it was of all of P
        pass_turn();
        return true;
    }

    // The step with a maximum, warp by warp. O is complete up to the previous block: s_ready of this one followed it. `weighed`: only P is still to do.
    template <bool MASKED> FWD_DEVICE void ordinary_step(Scores &x, bool first, bool weighed) {
        const float peak = peak_of(x);
        if (!weighed) {
            const float candidate = candidate_of(x, peak);
            count_move(candidate, first);
            const float rescale = move_reference(units, state, candidate);
            if (VARIANT.counters && !first) Tally::add(tally.of(cta.params).max_fixups, row % 32 == 0);
            if (owed) await_previous_output();
            if (__any_sync(0xffffffff, rescale < 1.0f)) rescale_output(Tmem::o(stage) + Tmem::window(warp), rescale);
        } else {
            Tally::add(tally.of(cta.params).spared_rows, tally.exists() && (peak - state.reference) * units.scale_log2 > 0.0f);
        }
        count_exponent(peak);
        weigh_from<0, MASKED>(x);
        hand_over(mine(cta.smem.bars.p_ready_2));
        pass_turn();
        if (weighed) return;
        state.sums = total(x, state.sums);
        count_weights(x);
    }

    FWD_DEVICE void await_previous_output() {
        await_correction();
        owed = false;
    }

    FWD_DEVICE void skip() {
        wait_together(mine(cta.smem.bars.s_ready), step_parity);
        if (VARIANT.row_max == FWD_EACH_BLOCK) {
            await_correction();
            sent(); // a 1
        }
        take_turn();
        ptx::mbarrier_arrive(mine(cta.smem.bars.p_o_rescale));
        ptx::mbarrier_arrive(mine(cta.smem.bars.p_ready_2));
        pass_turn();
        step_parity ^= 1;
    }

    // ---- one task ----

    template <bool MASKED, class Make> FWD_DEVICE void visit(const Make &make, bool &first) {
        const KeyMask mask = make();
        if constexpr (VARIANT.row_max == FWD_FIRST_BLOCK) block_max_free<MASKED>(mask, make, first);
        else block<MASKED>(mask, first);
        first = false;
        step_parity ^= 1;
    }

    FWD_DEVICE KeyMask mask_of(const StageWalk &walk, int position) {
        if constexpr (VARIANT.mask_class == FWD_BITS) {
            return stored_mask(cta.params.bit_tiles + ((int64_t)walk.kind() * VARIANT.tile_rows + row) * FRAGMENTS);
        } else {
            return interval_mask(visible_keys(cta.params, position), walk.key_block() * VARIANT.tile_keys);
        }
    }

    FWD_DEVICE int position_of(const FwdTask &task) const { return row_position(cta.params, task.tile + stage, row); }

    // `task` lies in shared memory.
    FWD_DEVICE void run(const FwdTask &task) {
        const FwdParams &params = cta.params;
        if (VARIANT.counters) tally.head = stage < task.tiles && position_of(task) < params.seqlen_q ? task.head : ~task.head;
        owed = VARIANT.row_max == FWD_FIRST_BLOCK && stage < task.tiles;
        StageWalk walk(params, task, stage);
        state.clear(units, params.reference_floor);
        bool first = true;
#pragma unroll 1
        while (walk.left > 0) {
            if (walk.kind() == FWD_STEP_FULL) {
                // The inner loop of the kernel: whole blocks one after another.
                int run = walk.whole_run();
                walk.advance(run);
#pragma unroll 1
                do visit<false>([] { return KeyMask{}; }, first);
                while (--run > 0);
                continue;
            }
            if (walk.kind() == FWD_STEP_SKIP) skip();
            else visit<true>([&] { return mask_of(walk, position_of(task)); }, first);
            walk.advance(1);
        }
        if (stage < task.tiles) finish(task, position_of(task));
    }

    FWD_DEVICE void finish(const FwdTask &task, int position) {
        const FwdParams &params = cta.params;
        const float inverse = inverse_sum(state);
        if (VARIANT.epilogue == FWD_EPILOGUE_CORRECTION) {
            if (VARIANT.row_max == FWD_EACH_BLOCK || owed) await_correction();
            send(inverse);
        } else {
            if (pick(task.own, stage) > 0) {
                wait_together(mine(cta.smem.bars.o_ready), o.take(stage));
                ptx::tcgen05_fence_after_thread_sync();
            }
            finish_output(cta, task, stage, warp, row, inverse, staging);
        }
        if (params.lse && position < params.seqlen_q)
            params.lse[task.batch * params.lse_strides[0] + row_head(params, task.head, row) * params.lse_strides[1] +
                       position * params.lse_strides[2]] = log_sum_exp(units, state);
    }
};

FWD_DEVICE void softmax_role(const Cta &cta, int stage, int warp) {
    Softmax softmax(cta, stage, warp);
    TaskQueue queue;
    for (;;) {
        const FwdTask &task = queue.hold(cta.smem);
        if (task.steps == FWD_NO_TASK) break;
        softmax.run(task);
        queue.release_warp(cta.smem);
    }
}
