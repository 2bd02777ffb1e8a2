// The softmax role of the Hopper kernel: a warpgroup owns 64 query rows of the tile from Q fragment to stored O.
//
// One step, steady state:   issue S' = Q K'^T, issue O += P V, wait for S', first half of the weights, wait for O (P is free),
// second half and packing of P', checks. Dim 64 with a maximum: a look for scores that move a reference, wait for O, the weights.
// At a tile's end the same step joins the next tile's first scores with this tile's last P V.
#ifndef FA4_KERNELS_SM90_CONSUMER_CUH
#define FA4_KERNELS_SM90_CONSUMER_CUH

#include "sm90_matrix.cuh"

// Elements of a block whose weights are computed before P V is waited for (measured on an H200). Max-free, D 128: half, so that packing
// hides behind the second half; D 64: all, its P V is short. With a maximum: none.
constexpr int WEIGHTS_BEFORE_WAIT = !MAX_FREE ? 0 : DIM == 128 ? 32 : 64;

struct Consumer {
    const FwdParams &params;
    Smem smem;
    Numbers numbers;
    u32 warp, lane; // warp of the consumers, 0 .. WARPS - 1
    float limit;    // max-free: largest sum of a row's weights in one block
    u32 q_sign;

    float s[64], o[DIM / 2];
    u32 p[32], q[DIM / 4];
    u64 q_descriptor;
    Rows rows;
    int low[2], high[2]; // class interval: keys [low, high) of the lane's rows
    Ring<Q_STAGES> q_ring;
    Ring<KV_STAGES> k_ring, v_ring;
    Ring<1> o_ring;
    Decisions decisions;

    DEVICE void release(u32 barrier) {
        if (lane == 0) ptx::mbarrier_arrive(barrier);
    }
    // All lanes read the step that lies beside K with ordinary loads, which one lane's arrival does not order.
    DEVICE void release_k(u32 slot) {
        if (HAS_STEP_LIST) __syncwarp();
        release(smem.k_load_empty(slot));
    }

    // ---- tiles ----

    DEVICE void load_intervals(const FwdTask &task) {
        if constexpr (FA4_MASK_CLASS == FWD_INTERVAL) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                RowPlace place = place_row(params, task, 16 * warp + 8 * h + lane / 4);
                low[h] = place.exists ? __ldg(params.row_lo + place.position) : 0;
                high[h] = place.exists ? __ldg(params.row_hi + place.position) : 0;
            }
        }
    }

    // The next task, its Q in registers or known by its place. Returns its steps, or FWD_NO_TASK at the end. The Q slot is still held: release_q.
    DEVICE int take_task() {
        wait(smem.q_load_full(q_ring.slot()), q_ring.parity());
        FwdTask task = read_task(smem.task(q_ring.uses));
        int steps = uniform(task.steps);
        if (steps == FWD_NO_TASK) return FWD_NO_TASK;
        const u32 tile = smem.q(q_ring.slot());
        if (Q_IN_REGISTERS) {
            load_q_fragments(q, tile, warp, lane, q_sign);
        } else {
            q_descriptor = smem_descriptor(tile + (warp / 4) * 64 * 128, 0);
            if (q_sign != 0) {
                negate_rows(tile, warp, lane);
                ptx::bar_sync(NEGATED_BARRIER + warp / 4, 128);
            }
        }
        load_intervals(task);
        return steps;
    }
    // Once the task's first scores were issued: its slot, where Q has been taken to registers; else that of the task before.
    DEVICE void release_q() {
        if (!Q_IN_REGISTERS) {
            if (q_ring.uses > 0) release(smem.q_load_empty((q_ring.uses - 1) & (Q_STAGES - 1)));
            q_ring.advance();
            return;
        }
        ptx::fence_proxy_async_shared(); // ordinary reads, then a TMA write
        __syncwarp();
        release(smem.q_load_empty(q_ring.slot()));
        q_ring.advance();
    }

    // ---- masks ----

    // Hides the keys that a row does not see. key0: the block's first key; bits: the rows' words of the bit tile.
    DEVICE void mask_interval(const FwdTask &task, int key0) {
        int from[2], to[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int first = 0, end = params.seqlen_kv;
            if (IS_CAUSAL) {
                int position = task.tile * params.positions + (int)((16 * warp + 8 * h + lane / 4) >> params.group_log2);
                end = minimum(end, position + 1 + params.seqlen_kv - params.seqlen_q);
            }
            if (FA4_MASK_CLASS == FWD_INTERVAL) first = low[h], end = high[h];
            int lane_key = key0 + 2 * (int)(lane & 3);
            from[h] = first - lane_key;
            to[h] = end - lane_key;
        }
#pragma unroll
        for (int i = 0; i < 64; i++) {
            const int h = (i >> 1) & 1, key = 8 * (i >> 2) + (i & 1);
            bool hidden = key >= to[h];
            if (FA4_MASK_CLASS == FWD_INTERVAL) hidden = hidden || key < from[h];
            if (hidden) s[i] = MINUS_INFINITY;
        }
    }
    DEVICE void mask_bits(int bit_tile) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const uint4 *row = reinterpret_cast<const uint4 *>(params.bit_tiles) + bit_tile * 128 + 16 * warp + 8 * h + lane / 4;
            uint4 quarters = __ldg(row);
            u32 words[4] = {quarters.x, quarters.y, quarters.z, quarters.w};
#pragma unroll
            for (int i = 2 * h; i < 64; i += 4)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    u32 bits = words[i >> 4] >> (2 * (lane & 3));
                    if ((bits >> (8 * ((i >> 2) & 3) + j) & 1) == 0) s[i + j] = MINUS_INFINITY;
                }
        }
    }
    // step: of the task's walk. record: the use of the task ring that holds the task.
    DEVICE void mask(u32 record, int step, u32 k_slot) {
        if (HAS_STEP_LIST) {
            int2 what = *static_cast<const int2 *>(__cvta_shared_to_generic(smem.step(k_slot)));
            if (what.y == FWD_STEP_FULL) return;
            if (FA4_MASK_CLASS == FWD_BITS && what.y >= 0) mask_bits(what.y);
            else mask_interval(FwdTask{}, what.x * TILE_KEYS);
            return;
        }
        FwdTask task = read_task(smem.task(record));
        mask_interval(task, derive_walk(params, task).key_block(step, params.kv_order) * TILE_KEYS);
    }

    // ---- steps ----

    // Raw scores to what weights are taken of.
    template <bool MASKED> DEVICE void prepare_scores(u32 record, int step, u32 k_slot) {
        if (FA4_SOFT_CAP) soft_cap(s, params.cap_scale);
        if (MASKED) mask(record, step, k_slot);
    }

    DEVICE void issue_scores_of(u32 k_slot) {
        u64 k = smem_descriptor(smem.k(0), 0) + k_slot * (KV_BYTES >> 4);
        if (Q_IN_REGISTERS) issue_scores(s, q, k);
        else issue_scores(s, q_descriptor, k);
    }
    DEVICE void issue_next_scores() {
        wait(smem.k_load_full(k_ring.slot()), k_ring.parity());
        issue_scores_of(k_ring.slot());
    }
    DEVICE void issue_next_output(u32 accumulate) {
        wait(smem.v_load_full(v_ring.slot()), v_ring.parity());
        issue_output(o, p, smem_descriptor(smem.v(0), KV_HALF_BYTES) + v_ring.slot() * (KV_BYTES >> 4), accumulate);
    }
    // S of the next block and O of this one; returns when S is there and P V still runs. With the order barrier the warpgroups take
    // turns at the tensor cores.
    DEVICE void issue_both(u32 accumulate) {
        const u32 turn = ORDER_BARRIER + warp / 4, next = warp / 4 == WARPGROUPS - 1 ? ORDER_BARRIER : turn + 1;
        if (FA4_ORDER_BARRIER) ptx::bar_sync(turn, 256);
        issue_next_scores();
        issue_next_output(accumulate);
        if (FA4_ORDER_BARRIER) ptx::bar_arrive(next, 256);
        ptx::wgmma_wait_group<1>();
        pin(s);
        k_ring.advance();
    }
    DEVICE void wait_output() {
        ptx::wgmma_wait_group<0>();
        pin(o);
        pin(p);
        release(smem.v_load_empty(v_ring.slot()));
        v_ring.advance();
    }

    // Weights of the block in s, P V of the block before finishing in their middle (where the block is looked at first: before).
    template <bool MASKED> DEVICE void weigh_and_pack(float (&sum)[2]) {
        float shift[2] = {rows.reference[0], rows.reference[1]};
        // In a whole max-free block a row that has seen no key keeps -inf here: its weights become infinite and bring on the redo.
        if (!MAX_FREE || MASKED) shift[0] = subtrahend(shift[0], numbers), shift[1] = subtrahend(shift[1], numbers);
        sum[0] = sum[1] = 0.0f;
        weights<0, WEIGHTS_BEFORE_WAIT, MASKED>(s, shift, numbers.scale_log2, sum);
        // Never taken (weights are positive): it ends a basic block, or ptxas hoists the wait above the weights.
        if (WEIGHTS_BEFORE_WAIT > 0 && sum[0] + sum[1] < 0.0f) ptx::nanosleep_0();
        if (!LOOKS) wait_output();
        weights<WEIGHTS_BEFORE_WAIT, 64, MASKED>(s, shift, numbers.scale_log2, sum);
        pack(p, s);
    }

    // A row that has seen no key takes its reference from this block, as from a first one.
    DEVICE void adopt_references() {
        bool unseen[2] = {rows.reference[0] == MINUS_INFINITY, rows.reference[1] == MINUS_INFINITY};
        if (!__any_sync(~0u, unseen[0] || unseen[1])) return;
        float x[2];
        row_max(s, x);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            if (!unseen[h]) continue;
            rows.reference[h] = first_reference(x[h], numbers);
            if (COUNTS) decisions.rescaled |= (int)(rows.reference[h] > MINUS_INFINITY) << h;
        }
    }

    // Max-free: what the sums of the weights say. True when O must be multiplied by alpha. The branches stand side by side, on votes:
    // nested ones cost the uniform registers (see Ring).
    template <bool MASKED> DEVICE bool fix_up(u32 record, int step, u32 k_slot, float (&sum)[2], float (&alpha)[2]) {
        float largest = ptx::max_nan(sum[0], sum[1]);
        if (__any_sync(~0u, ptx::bar_red_or(1 + warp / 4, 128, !(largest <= SUM_LIMIT)))) {
            issue_scores_of(k_slot);
            ptx::wgmma_wait_group<0>();
            pin(s);
            if (COUNTS) decisions.fixups = 1;
            prepare_scores<MASKED>(record, step, k_slot);
            redo_references(s, rows, sum, alpha, limit, numbers, decisions);
            float shift[2] = {subtrahend(rows.reference[0], numbers), subtrahend(rows.reference[1], numbers)};
            sum[0] = sum[1] = 0.0f;
            weights<0, 64, true>(s, shift, numbers.scale_log2, sum);
            pack(p, s);
            return true;
        }
        // A quad's sum is at most four times its largest part.
        if (__any_sync(~0u, largest > 0.25f * limit)) {
            if (COUNTS) decisions.fixups = 1;
            shift_references(s, rows, sum, alpha, limit, decisions);
            pack(p, s);
            return true;
        }
        return false;
    }

    DEVICE void rescale(const float (&alpha)[2]) {
#pragma unroll
        for (int i = 0; i < DIM / 2; i++) o[i] *= alpha[(i >> 1) & 1];
    }

    // A block that is not its tile's first.
    template <bool MASKED> DEVICE void next_block(u32 record, int step, u32 accumulate) {
        const u32 k_slot = k_ring.slot();
        issue_both(accumulate);
        if (!MAX_FREE && !HAS_STEP_LIST) release(smem.k_load_empty(k_slot));
        prepare_scores<MASKED>(record, step, k_slot);
        float sum[2], alpha[2];
        bool moved = false;
        if (MAX_FREE) {
            if (MASKED) adopt_references();
        } else if (LOOKS) {
            bool near = COUNTS || may_move(s, rows);
            wait_output();
            if (near && move_references(s, rows, alpha, numbers, decisions)) rescale(alpha);
        } else {
            moved = move_references(s, rows, alpha, numbers, decisions);
        }
        weigh_and_pack<MASKED>(sum);
        if (MAX_FREE) moved = fix_up<MASKED>(record, step, k_slot, sum, alpha);
        if (moved) rescale(alpha);
        if (MAX_FREE && COUNTS) count_spared(s, decisions);
        if (MAX_FREE || HAS_STEP_LIST) release_k(k_slot); // a redo reads K again; a mask reads the step
        rows.sum[0] += sum[0];
        rows.sum[1] += sum[1];
        count_block(record);
    }

    // The scores of a tile's first block are there.
    DEVICE void first_references(u32 record, u32 k_slot) {
        bool partial = HAS_STEP_LIST || IS_CAUSAL;
        if (!partial) {
            Walk walk = derive_walk(params, read_task(smem.task(record)));
            partial = walk.key_block(0, params.kv_order) >= walk.full;
        }
        if (FA4_SOFT_CAP) soft_cap(s, params.cap_scale);
        if (partial) mask(record, 0, k_slot);
        float x[2];
        row_max(s, x);
        rows.reference[0] = first_reference(x[0], numbers);
        rows.reference[1] = first_reference(x[1], numbers);
        if (LOOKS) rows.bound[0] = moving_bits(rows.reference[0], numbers), rows.bound[1] = moving_bits(rows.reference[1], numbers);
    }

    // ---- results ----

    DEVICE void store_lse(const FwdTask &task, const Rows &r) {
        constexpr float LN_2 = 0.69314718056f;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            RowPlace place = place_row(params, task, 16 * warp + 8 * h + lane / 4);
            float reference = MAX_FREE ? r.reference[h] : r.reference[h] * numbers.scale_log2;
            float lse = r.reference[h] == MINUS_INFINITY ? MINUS_INFINITY : (reference + ptx::lg2(r.sum[h])) * LN_2;
            if (params.lse != nullptr && (lane & 3) == 0 && place.exists)
                params.lse[task.batch * params.lse_strides[0] + place.head * params.lse_strides[1] +
                           place.position * params.lse_strides[2]] = lse;
        }
    }
    DEVICE void finish(u32 record, Rows r) {
        FwdTask task = read_task(smem.task(record));
        r.sum[0] = quad_sum(r.sum[0]);
        r.sum[1] = quad_sum(r.sum[1]);
        if (IS_SPLIT) {
            float reference[2] = {r.reference[0], r.reference[1]};
            if (!MAX_FREE) reference[0] *= numbers.scale_log2, reference[1] *= numbers.scale_log2;
            store_partial(params, task, warp, lane, o, reference, r.sum);
            return;
        }
        store_lse(task, r);
        float scale[2];
#pragma unroll
        for (int h = 0; h < 2; h++) scale[h] = r.reference[h] == MINUS_INFINITY ? 0.0f : ptx::rcp(r.sum[h]);
        if (FA4_O_F32) {
            store_output_f32(params, task, warp, lane, o, scale);
            return;
        }
        wait(smem.o_store_empty(0), o_ring.parity() ^ 1);
        stage_rows(smem, warp, lane, o, scale);
        release(smem.o_store_full(0));
        o_ring.advance();
    }

    // The store warp meets the end mark as one more tile.
    DEVICE void end_store() {
        if (FA4_O_F32 || IS_SPLIT) return;
        wait(smem.o_store_empty(0), o_ring.parity() ^ 1); // else a fast warp's arrival would count for the tile before
        release(smem.o_store_full(0));
    }

    // ---- counters (a build of their own) ----

    // Decisions of one block. A counted warp is 32 rows, two warps here: they agree through a named barrier.
    DEVICE void count_block(u32 record) {
        if (!COUNTS) return;
        FwdTask task = read_task(smem.task(record));
        FwdCounters *counters = params.counters + task.head;
        bool exists[2], rescaled = false;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            exists[h] = place_row(params, task, 16 * warp + 8 * h + lane / 4).exists;
            bool moved = exists[h] && (decisions.rescaled >> h & 1), kept = exists[h] && (decisions.spared >> h & 1);
            rescaled = rescaled || moved;
            if ((lane & 3) == 0 && moved) atomicAdd((u64 *)&counters->rescaled_rows, 1ull);
            if ((lane & 3) == 0 && kept) atomicAdd((u64 *)&counters->spared_rows, 1ull);
        }
        bool pair_rescaled = ptx::bar_red_or(4 + warp / 2, 64, rescaled);
        bool pair_fixed = ptx::bar_red_or(4 + warp / 2, 64, decisions.fixups != 0);
        if (lane == 0 && warp % 2 == 0 && pair_rescaled) atomicAdd((u64 *)&counters->rescaled_warps, 1ull);
        if (lane == 0 && warp % 2 == 0 && pair_fixed) atomicAdd((u64 *)&counters->max_fixups, 1ull);
        count_largest(counters, exists);
        decisions = Decisions{};
    }
    // Largest weight after fix-ups, and its exponent. Weights are positive, so their bits order as integers.
    DEVICE void count_largest(FwdCounters *counters, const bool (&exists)[2]) {
        count_weights(decisions, s, exists);
        if (!(decisions.p_max > 0.0f)) return;
        int exponent = __float_as_int(ptx::lg2(decisions.p_max));
        atomicMax(&counters->p_max, __float_as_int(decisions.p_max));
        atomicMax(&counters->exponent_max, exponent ^ ((exponent >> 31) & 0x7fffffff));
    }
    DEVICE void count_first_block(u32 record) {
        if (!COUNTS) return;
        FwdTask task = read_task(smem.task(record));
        bool exists[2];
#pragma unroll
        for (int h = 0; h < 2; h++) exists[h] = place_row(params, task, 16 * warp + 8 * h + lane / 4).exists;
        count_largest(params.counters + task.head, exists);
        decisions = Decisions{};
    }

    // ---- the walk ----

    // Steps 1 .. steps - 1 of a tile. Derived walks have their partial blocks in one run at either end, so that the loop over full
    // blocks holds no mask.
    DEVICE void walk_tile(u32 record, int steps) {
        u32 accumulate = 0;
        if (HAS_STEP_LIST) {
            for (int i = 1; i < steps; i++, accumulate = 1) next_block<true>(record, i, accumulate);
            return;
        }
        Walk walk = derive_walk(params, read_task(smem.task(record)));
        int partial = uniform(maximum(0, minimum(steps, walk.first + steps - walk.full))); // in all, highest keys
        int full_from = 1, full_to = steps;
        if (params.kv_order == KV_REVERSE) full_from = maximum(1, partial);
        else if (params.kv_order == KV_FORWARD) full_to = steps - partial;
        else full_from = partial == steps ? steps : 1 + partial;
        int i = 1;
        for (; i < minimum(full_from, steps); i++, accumulate = 1) next_block<true>(record, i, accumulate);
        for (; i < full_to; i++, accumulate = 1) next_block<false>(record, i, accumulate);
        for (; i < steps; i++, accumulate = 1) next_block<true>(record, i, accumulate);
    }
};

DEVICE void softmax_role(const FwdParams &params, Smem smem, u32 warp, u32 lane) {
    Consumer c{params, smem, {params.scale_log2, params.threshold, 0.999999f / params.scale_log2}, warp, lane};
    c.limit = params.weight_limit;
    c.q_sign = params.scale_negative ? 0x80008000u : 0;
    if (FA4_ORDER_BARRIER && warp / 4 == WARPGROUPS - 1) ptx::bar_arrive(ORDER_BARRIER, 256); // the first turn is warpgroup 0's
    int steps = c.take_task();
    if (steps == FWD_NO_TASK) {
        c.end_store();
        return;
    }
    u32 record = c.q_ring.uses;
    float sum[2];
    u32 k_slot = c.k_ring.slot();
    c.issue_next_scores();
    ptx::wgmma_wait_group<0>();
    pin(c.s);
    c.k_ring.advance();
    c.release_q();
    c.first_references(record, k_slot);
    c.release_k(k_slot);
    {
        float shift[2] = {subtrahend(c.rows.reference[0], c.numbers), subtrahend(c.rows.reference[1], c.numbers)};
        sum[0] = sum[1] = 0.0f;
        weights<0, 64, true>(c.s, shift, c.numbers.scale_log2, sum);
        pack(c.p, c.s);
        c.rows.sum[0] = sum[0], c.rows.sum[1] = sum[1];
        c.count_first_block(record);
    }
    for (;;) {
        c.walk_tile(record, steps);
        u32 accumulate = steps > 1;
        int next_steps = c.take_task();
        if (next_steps == FWD_NO_TASK) {
            c.issue_next_output(accumulate);
            c.wait_output();
            c.finish(record, c.rows);
            break;
        }
        // Tile boundary: the next tile's first scores run beside this tile's last P V.
        const Rows done = c.rows;
        const u32 next_record = c.q_ring.uses;
        k_slot = c.k_ring.slot();
        c.issue_both(accumulate);
        c.release_q();
        c.first_references(next_record, k_slot);
        c.release_k(k_slot);
        if (LOOKS) c.wait_output();
        c.weigh_and_pack<true>(sum);
        c.rows.sum[0] = sum[0], c.rows.sum[1] = sum[1];
        c.count_first_block(next_record);
        c.finish(record, done);
        record = next_record, steps = next_steps;
    }
    c.end_store();
}

#endif
