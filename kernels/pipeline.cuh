// What both kernels' roles are made of: the variant as a constant, barriers as objects, ring cursors, matrix descriptors, and the walk
// over a task's key blocks. Instructions come from ptx.cuh.
#pragma once

#include "ptx.cuh"
#include "barriers.h"

// The compilation's choices, from -D. Constants here and below are enumerators: a constexpr object outside a function would be emitted
// into the program, used or not.
struct Variant {
    enum {
#define FWD_VALUE(name, macro) name = macro,
        FWD_VARIANT_FIELDS(FWD_VALUE)
#undef FWD_VALUE
    };
};
#define VARIANT Variant()

#define MINUS_INFINITY __int_as_float(0xff800000)
#define PLUS_INFINITY __int_as_float(0x7f800000)

// ---- barriers ------------------------------------------------------------------------------------------------------

// The object that the hardware keeps; never touched by ordinary accesses.
struct Barrier {
    uint64_t state;
};

template <int COPIES> struct Pipe {
    Barrier full[COPIES];
    Barrier empty[COPIES];
};

FWD_DEVICE uint32_t address(const Barrier &bar) { return ptx::shared_address(&bar); }

FWD_DEVICE void arrive(const Barrier &bar) { ptx::mbarrier_arrive(address(bar)); }

// Waits until the phase of this parity has completed. A fresh barrier lets parity 1 pass: the start of whoever fills an empty ring.
FWD_DEVICE void wait(const Barrier &bar, uint32_t parity) {
    const uint32_t a = address(bar);
    while (!ptx::mbarrier_try_wait_parity(a, parity)) {
    }
}

// The same by a converged warp, which stays converged: the vote makes the end of the loop one decision of the whole warp.
FWD_DEVICE void wait_together(uint32_t bar, uint32_t parity) {
    while (!__all_sync(0xffffffff, ptx::mbarrier_try_wait_parity(bar, parity))) {
    }
}

// Likewise for two barriers.
FWD_DEVICE void wait_both(uint32_t first, uint32_t first_parity, uint32_t second, uint32_t second_parity) {
    while (!__all_sync(0xffffffff, ptx::mbarrier_try_wait_parity_if(ptx::mbarrier_try_wait_parity(first, first_parity), second, second_parity))) {
    }
}

// Slot and parity of a ring. The producer starts with parity 1, the consumer with 0.
template <int COPIES> struct Cursor {
    uint32_t slot, parity;

    FWD_DEVICE void advance() {
        if (++slot == COPIES) {
            slot = 0;
            parity ^= 1;
        }
    }
};

// One parity bit for each of several barriers of a run-time index, which an array would put into local memory.
struct Parities {
    uint32_t bits;

    FWD_DEVICE uint32_t take(int i) {
        const uint32_t parity = bits >> i & 1;
        bits ^= 1u << i;
        return parity;
    }
};

// Element `i` of two, without an indexed array.
FWD_DEVICE int pick(const int (&two)[2], int i) { return i ? two[1] : two[0]; }

// ---- matrix descriptors ------------------------------------------------------------------------------------------------

enum { SWIZZLE_ROW_BYTES = 128 };                                 // one row of a half tile: 64 columns of 16 bits
enum { HALF_COLUMNS = 64 };                                       // columns of one TMA box
enum { HALF_BYTES = 128 * SWIZZLE_ROW_BYTES };                    // 128 rows of a half
enum { TILE_BYTES = HALF_BYTES * (VARIANT.dim / HALF_COLUMNS) };  // Q, K, V or O of 128 rows
enum { HALVES = VARIANT.dim / HALF_COLUMNS };

// Byte offset of 16-byte chunk c (0..7) of row r in a half tile with 128-byte swizzle, the half starting on 1,024 bytes.
FWD_DEVICE uint32_t swizzled(uint32_t row, uint32_t chunk) { return row * SWIZZLE_ROW_BYTES + ((chunk ^ (row & 7)) << 4); }

// Offsets are in bytes, multiples of 16.
struct SmemDescriptor {
    uint32_t start, leading, stride;
    uint32_t version; // 1 on sm_100a, 0 on sm_90a
    uint32_t swizzle; // bits 61..63: 2 = 128 bytes

    FWD_DEVICE uint64_t bits() const {
        return (uint64_t)((start & 0x3FFFF) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 | (uint64_t)version << 46 |
               (uint64_t)swizzle << 61;
    }
};

// ---- one row of the work ----------------------------------------------------------------------------------------------------

// Query position of a tile's row, which may lie beyond the end of the queries.
FWD_DEVICE int row_position(const FwdParams &p, int tile, int row) {
    return tile * p.positions + (VARIANT.packed ? row >> p.group_log2 : row);
}
// Query head of a row. `head` is the task's.
FWD_DEVICE int row_head(const FwdParams &p, int head, int row) {
    return VARIANT.packed ? (head << p.group_log2) + (row & (p.group - 1)) : head;
}
// Key head that a task's rows read.
FWD_DEVICE int key_head(const FwdParams &p, int head) { return VARIANT.packed ? head : head / p.group; }

// Keys [lo, hi) that a query position sees, by the plan's row intervals. Positions beyond the end see what keeps them harmless.
struct Interval {
    int lo, hi;
};
FWD_DEVICE int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
FWD_DEVICE Interval visible_keys(const FwdParams &p, int position) {
    if (VARIANT.mask_class == FWD_CAUSAL) return {0, clamp(position + 1 + p.seqlen_kv - p.seqlen_q, 0, p.seqlen_kv)};
    if (VARIANT.mask_class == FWD_INTERVAL) {
        if (position >= p.seqlen_q) return {0, 0};
        return {p.row_lo[position], p.row_hi[position]};
    }
    return {0, p.seqlen_kv};
}

// The steps of a task, the union of its tiles' block lists in visiting order. Full and causal tasks derive them; the other classes read
// the host's list, one step ahead of its use.
struct Walk {
    const FwdParams &p;
    int steps;
    int own[2];         // derived: blocks [0, own) of a tile
    int unmasked[2];    // derived: of those, [0, unmasked) are whole
    const FwdStep *list;
    FwdStep next;

    FWD_DEVICE Walk(const FwdParams &params, const FwdTask &task) : p(params), steps(task.steps) {
        next = {};
        own[0] = task.own[0];
        own[1] = task.own[1];
        if constexpr (VARIANT.mask_class == FWD_FULL || VARIANT.mask_class == FWD_CAUSAL) {
            list = nullptr;
            for (int i = 0; i < 2; i++)
                unmasked[i] = visible_keys(p, (task.tile + i) * p.positions).hi / VARIANT.tile_keys;
        } else {
            unmasked[0] = unmasked[1] = 0;
            list = p.steps + task.first_step;
            if (steps > 0) next = list[0];
        }
    }

    // Steps are asked for in order, each once.
    FWD_DEVICE FwdStep take(int j) {
        if constexpr (VARIANT.mask_class == FWD_FULL || VARIANT.mask_class == FWD_CAUSAL) {
            FwdStep step;
            const int reversed = steps - 1 - j;
            // kv_order: 0 reverse, 1 forward, 2 the first block (the attention sink) and then reverse.
            step.key_block = p.kv_order == 0 ? reversed : p.kv_order == 1 ? j : j == 0 ? 0 : reversed + 1;
            for (int i = 0; i < 2; i++)
                step.mask[i] = step.key_block >= own[i] ? FWD_STEP_SKIP
                               : step.key_block < unmasked[i] ? FWD_STEP_FULL : FWD_STEP_PARTIAL;
            step.reserved = 0;
            return step;
        } else {
            const FwdStep step = next;
            if (j + 1 < steps) next = list[j + 1];
            return step;
        }
    }
};
