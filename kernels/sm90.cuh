// The Hopper kernel's constants: the variant's macros as names, the shared-memory map, the barrier block, and the small pieces that
// both roles use (waiting, ring cursors, the walk over key blocks). Budgets are checked here.
#ifndef FA4_KERNELS_SM90_CUH
#define FA4_KERNELS_SM90_CUH

#include "barriers.h"
#include "ptx_sm90.cuh"

constexpr bool IS_BF16 = FA4_DTYPE == FWD_BF16;
constexpr bool IS_CAUSAL = FA4_MASK_CLASS == FWD_CAUSAL;
// Classes whose steps are read from memory; the other two derive them.
constexpr bool HAS_STEP_LIST = FA4_MASK_CLASS == FWD_INTERVAL || FA4_MASK_CLASS == FWD_BITS;
constexpr bool MAX_FREE = FA4_ROW_MAX == FWD_FIRST_BLOCK;
constexpr bool COUNTS = FA4_COUNTERS != 0;
constexpr bool IS_SPLIT = FA4_KV_SPLIT != 0;
constexpr float MINUS_INFINITY = __builtin_bit_cast(float, 0xff800000u);

constexpr FwdVariant VARIANT = {
#define SM90_FIELD(name, macro) macro,
    FWD_VARIANT_FIELDS(SM90_FIELD)
#undef SM90_FIELD
};
enum { KV_REVERSE = 0, KV_FORWARD = 1, KV_SINK_FIRST = 2 }; // as fa4_kv_order

constexpr int DIM = FA4_DIM;
constexpr int HALVES = DIM / 64; // 64-column halves: what one row of the 128-byte swizzle holds
constexpr int TILE_ROWS = FA4_TILE_ROWS;
constexpr int TILE_KEYS = 128;
constexpr int WARPGROUPS = TILE_ROWS / 64; // consumers, 64 rows each
constexpr int WARPS = 4 * WARPGROUPS;
constexpr int THREADS = 128 + 128 * WARPGROUPS;
constexpr bool Q_IN_REGISTERS = WARPGROUPS < 3; // three warpgroups' 160 registers have no room for it
// Blocks with a maximum are looked at first: at dim 64, by 5 to 10 % of the time. At 128 scores that move references fall from 1.03 of cuDNN to 0.92 by it.
constexpr bool LOOKS = !MAX_FREE && DIM == 64;
constexpr int Q_STAGES = FA4_Q_STAGES;
constexpr int KV_STAGES = FA4_KV_STAGES;

constexpr u32 ORDER_BARRIER = 10;   // named barriers from 10 on: the turns of the warpgroups
constexpr u32 NEGATED_BARRIER = 13; // from 13 on: a warpgroup has changed the sign of its rows of Q

static_assert(!FA4_ORDER_BARRIER || WARPGROUPS > 1, "warpgroups take turns");
static_assert(FA4_TILE_KEYS == 128, "a score block is one 64 x 128 accumulator");
static_assert(DIM == 64 || DIM == 128, "the head dimension's class is 64 or 128");
static_assert(TILE_ROWS == 64 || TILE_ROWS == 128 || (TILE_ROWS == 192 && DIM == 64 && FA4_MASK_CLASS != FWD_BITS),
              "192 rows are three warpgroups: registers allow that for dim 64 only, and bit tiles have 128 rows");
static_assert(TILE_ROWS < 192 || (!FA4_SOFT_CAP && FA4_EMULATED_PAIRS == 0), "with these, three warpgroups would spill");
static_assert((KV_STAGES & (KV_STAGES - 1)) == 0 && (Q_STAGES & (Q_STAGES - 1)) == 0, "ring slots are a mask of the count");

// Registers a thread, by role. The pool is what the CTA was launched with: threads x the entry registers that ptxas gives.
// One consumer warpgroup needs no move: 256 threads may have 255 each.
constexpr int REGISTERS_ENTRY = WARPGROUPS == 1 ? 255 : WARPGROUPS == 2 ? 168 : 128;
constexpr bool MOVES_REGISTERS = WARPGROUPS > 1;
constexpr int REGISTERS_OTHER = FA4_REGISTERS_OTHER;
constexpr int REGISTERS_SOFTMAX = FA4_REGISTERS_SOFTMAX;
static_assert(!MOVES_REGISTERS || REGISTERS_OTHER + WARPGROUPS * REGISTERS_SOFTMAX <= (1 + WARPGROUPS) * REGISTERS_ENTRY,
              "setmaxnreg moves registers between the warpgroups of one CTA: the sum must fit what it started with");

// A tile is HALVES blocks of rows x 128 bytes, swizzled by 128 bytes.
constexpr u32 Q_HALF_BYTES = TILE_ROWS * 128;
constexpr u32 Q_BYTES = HALVES * Q_HALF_BYTES; // O too
constexpr u32 KV_HALF_BYTES = TILE_KEYS * 128;
constexpr u32 KV_BYTES = HALVES * KV_HALF_BYTES;

// Shared memory: the regions of FWD_SM90_SMEM, as offsets and sizes. Task records outlive their Q slot: consumers and the store warp
// read a task again after the slot was given back. Record n is overwritten with task n + TASK_RECORDS, whose Q slot is free only
// once every consumer took task n + TASK_RECORDS - Q_STAGES; by then tile n + 1 is staged, hence tile n stored.
constexpr int TASK_RECORDS = 4 * Q_STAGES;
enum : u32 {
#define SM90_REGION(name, bytes) OFFSET_##name, OFFSET_##name##_last = OFFSET_##name + (bytes) - 1,
    FWD_SM90_SMEM(VARIANT, SM90_REGION) SMEM_BYTES
#undef SM90_REGION
};
static_assert(SMEM_BYTES == FWD_SM90_SMEM_BYTES(VARIANT) && OFFSET_barriers == FWD_SM90_BARRIER_OFFSET(VARIANT), "one map, two readers");
static_assert(SMEM_BYTES <= 232448, "a CTA of sm_90a has at most 227 KB of shared memory");

// Barriers lie in the order of the list, <name>.full[copies] and behind it <name>.empty[copies], 8 bytes each. Here: indices.
enum {
#define SM90_PIPE(name, copies, arrives, count, waits, empty_count)                                                            \
    AT_##name##_full, AT_##name##_full_last = AT_##name##_full + (copies) - 1, AT_##name##_empty,                              \
        AT_##name##_empty_last = AT_##name##_empty + (copies) - 1,
#define SM90_EVENT(name, copies, arrives, count, waits) AT_##name, AT_##name##_last = AT_##name + (copies) - 1,
    FWD_SM90_BARRIERS(VARIANT, SM90_PIPE, SM90_EVENT) BARRIER_COUNT
#undef SM90_PIPE
#undef SM90_EVENT
};
static_assert(OFFSET_steps == OFFSET_barriers + 8 * BARRIER_COUNT, "the barriers' region holds the list");

// Where one CTA's shared memory lies, and its barriers' addresses.
struct Smem {
    u32 base;
    DEVICE u32 q(u32 slot) const { return base + OFFSET_q + slot * Q_BYTES; }
    DEVICE u32 k(u32 slot) const { return base + OFFSET_k + slot * KV_BYTES; }
    DEVICE u32 v(u32 slot) const { return base + OFFSET_v + slot * KV_BYTES; }
    DEVICE u32 o() const { return base + OFFSET_o; }
    DEVICE u32 task(u32 uses) const { return base + OFFSET_tasks + (uses & (TASK_RECORDS - 1)) * 32; }
    DEVICE u32 step(u32 slot) const { return base + OFFSET_steps + slot * 8; }
#define SM90_BARRIER(name)                                                                                                     \
    DEVICE u32 name(u32 slot) const { return base + OFFSET_barriers + 8 * (AT_##name + slot); }
    SM90_BARRIER(q_load_full)
    SM90_BARRIER(q_load_empty)
    SM90_BARRIER(k_load_full)
    SM90_BARRIER(k_load_empty)
    SM90_BARRIER(v_load_full)
    SM90_BARRIER(v_load_empty)
    SM90_BARRIER(o_store_full)
    SM90_BARRIER(o_store_empty)
#undef SM90_BARRIER
};

// One thread sets every barrier's arrival count; the CTA's first __syncthreads publishes them.
DEVICE void init_barriers(Smem smem) {
    u32 at = smem.base + OFFSET_barriers;
#define SM90_PIPE(name, copies, arrives, count, waits, empty_count)                                                            \
    for (int i = 0; i < (copies); i++, at += 8) ptx::mbarrier_init(at, count);                                                 \
    for (int i = 0; i < (copies); i++, at += 8) ptx::mbarrier_init(at, empty_count);
#define SM90_EVENT(name, copies, arrives, count, waits)                                                                        \
    for (int i = 0; i < (copies); i++, at += 8) ptx::mbarrier_init(at, count);
    FWD_SM90_BARRIERS(VARIANT, SM90_PIPE, SM90_EVENT)
#undef SM90_PIPE
#undef SM90_EVENT
    ptx::fence_mbarrier_init();
    ptx::fence_proxy_async_shared();
}

DEVICE void write_task(u32 address, const FwdTask &task) {
    int4 *to = static_cast<int4 *>(__cvta_shared_to_generic(address));
    to[0] = make_int4(task.batch, task.head, task.tile, task.tiles);
    to[1] = make_int4(task.steps, task.own[0], task.own[1], task.first_step);
}
DEVICE FwdTask read_task(u32 address) {
    const int4 *from = static_cast<const int4 *>(__cvta_shared_to_generic(address));
    int4 a = from[0], b = from[1];
    return {a.x, a.y, a.z, a.w, b.x, {b.y, b.z}, b.w};
}

// Uses of a ring so far: slot and parity follow. Advanced only where control flow is uniform, so that it stays in uniform registers
// (a divergent branch around it put 48 R2UR into the steady loop and cost 2-7 % on an H200).
template <int STAGES> struct Ring {
    u32 uses = 0;
    DEVICE u32 slot() const { return uses & (STAGES - 1); }
    DEVICE u32 parity() const { return (uses / STAGES) & 1; } // of the phase that fills the slot
    DEVICE void advance() { uses++; }
};

// Test builds: the chosen roles sleep for up to a microsecond, as a hash of the clock says. A protocol that is whole gives the same bits.
DEVICE void delay() {
    if constexpr (FA4_DELAY_ROLES != 0) {
        enum : u32 { LOAD = 1, SOFTMAX = 4, STORE = 16 }; // as fa4_kernel_row's roles
        u32 role = threadIdx.x >= 128 ? SOFTMAX : threadIdx.x == 0 ? LOAD : STORE;
        if (FA4_DELAY_ROLES & role) ptx::nanosleep((ptx::clock() >> 4) * 0x9e3779b1u >> 22);
    }
}

DEVICE void wait(u32 barrier, u32 parity) {
    delay();
    ptx::mbarrier_wait_parity(barrier, parity);
    delay();
}

// Tells the compiler that a value is the same in all lanes, so that what depends on it may stay in uniform registers.
DEVICE int uniform(int x) {
    return __shfl_sync(~0u, x, 0);
}

DEVICE int minimum(int a, int b) {
    return a < b ? a : b;
}
DEVICE int maximum(int a, int b) {
    return a > b ? a : b;
}

// The walk of a task whose steps are derived: key blocks [first, first + steps) in the plan's order, of which those from `full` on
// are partial (diagonal, or end of the keys).
struct Walk {
    int first, steps, full;
    DEVICE int key_block(int i, int order) const {
        if (order == KV_FORWARD) return first + i;
        if (order == KV_SINK_FIRST) return i == 0 ? first : first + steps - i;
        return first + steps - 1 - i;
    }
};

DEVICE Walk derive_walk(const FwdParams &params, const FwdTask &task) {
    int seen = params.seqlen_kv; // keys that the tile's first row sees
    if (IS_CAUSAL) seen = minimum(seen, maximum(0, task.tile * params.positions + 1 + params.seqlen_kv - params.seqlen_q));
    return {task.first_step, task.steps, seen / TILE_KEYS};
}

// Where a row of a tile lies in the tensors.
struct RowPlace {
    int position, head;
    bool exists;
};
DEVICE RowPlace place_row(const FwdParams &params, const FwdTask &task, u32 row) {
    int position = task.tile * params.positions + (int)(row >> params.group_log2);
    int head = params.group_log2 > 0 ? task.head * params.group + (int)(row & (params.group - 1)) : task.head;
    return {position, head, position < params.seqlen_q};
}

#endif
