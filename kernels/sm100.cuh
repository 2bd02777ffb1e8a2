// The sm_100a kernel's memories and hand-over of tasks: what every role of it shares.
//
//   shared memory   Q[2] | K/V ring | O[2] | row_scale[2][128] | barriers | task[2] | tensor memory address
//   tensor memory   S0 0..127   S1 128..255   O0 256..383   O1 384..511   (512 columns of 128 lanes, fp32)
//                   P0 64..127  P1 192..255: 128 16-bit weights a row, over the upper half of the S they were made from
#pragma once

#include "ptx_sm100.cuh"
#include "pipeline.cuh"

enum { Q_STAGES = VARIANT.q_stages };
enum { KV_STAGES = VARIANT.kv_stages };
enum { WARPGROUP = 128 };
enum { THREADS = 4 * WARPGROUP };
enum { SMEM_BYTES_MAX = 232448 };
enum { TASK_STAGES = 2 };

static_assert(VARIANT.arch == 100, "this source is the sm_100a kernel");
static_assert(VARIANT.dim == 64 || VARIANT.dim == 128, "head dimension classes are 64 and 128");
static_assert(Q_STAGES == 2, "one softmax warpgroup per query stage: two of them");
static_assert(KV_STAGES >= 3, "the issue order holds K of the next block while V of this one is read");
static_assert(VARIANT.tile_rows == 128 && VARIANT.tile_keys == 128, "one thread a row, one MMA a tile: 128 x 128");
static_assert(VARIANT.p_split % 16 == 0 && VARIANT.p_split >= 16 && VARIANT.p_split <= 112, "P is split between MMA steps of 16 keys");
static_assert(VARIANT.row_max != FWD_FIRST_BLOCK || VARIANT.epilogue == FWD_EPILOGUE_CORRECTION,
              "max-free softmax warps rescale O; the correction role keeps the epilogue");
static_assert(VARIANT.row_max != FWD_FIRST_BLOCK || VARIANT.integer_reference, "max-free blocks shift by whole log2 units");

// A warpgroup has 128 threads; a CTA starts with 65,536 / 512 registers a thread.
static_assert(WARPGROUP * (2 * VARIANT.registers_softmax + VARIANT.registers_correction + VARIANT.registers_other) <= 65536,
              "the roles' registers must fit the register file");

struct Barriers {
#define FWD_PIPE(name, copies, ...) Pipe<copies> name;
#define FWD_EVENT(name, copies, ...) Barrier name[copies];
    FWD_SM100_BARRIERS(VARIANT, FWD_PIPE, FWD_EVENT)
#undef FWD_PIPE
#undef FWD_EVENT
};

struct __align__(1024) Smem {
    uint8_t q[Q_STAGES][TILE_BYTES];
    uint8_t kv[KV_STAGES][TILE_BYTES];
    uint8_t o[Q_STAGES][TILE_BYTES];
    float row_scale[Q_STAGES][WARPGROUP]; // the chapter's sScale
    Barriers bars;
    FwdTask task[TASK_STAGES];
    uint32_t tmem;
};
enum { SMEM_BYTES = FWD_SM100_SMEM_BYTES(VARIANT) };
static_assert(SMEM_BYTES <= SMEM_BYTES_MAX, "shared memory of one CTA: 227 KiB");
#define FWD_SIZE_PIPE(name, copies, ...) +2 * (copies)
#define FWD_SIZE_EVENT(name, copies, ...) +(copies)
static_assert(sizeof(Barriers) == 8 * (0 FWD_SM100_BARRIERS(VARIANT, FWD_SIZE_PIPE, FWD_SIZE_EVENT)), "the barrier block is dense");
static_assert(sizeof(Smem::q) + sizeof(Smem::kv) + sizeof(Smem::o) + sizeof(Smem::row_scale) == FWD_SM100_BARRIER_OFFSET(VARIANT),
              "the host's table and the struct agree on where barriers begin");
static_assert(FWD_SM100_BARRIER_OFFSET(VARIANT) + sizeof(Barriers) + sizeof(Smem::task) + sizeof(Smem::tmem) <= SMEM_BYTES,
              "the host asks for enough shared memory");

// Tensor memory by stage. The CTA takes all columns, so they begin at 0 (checked once at the start): constants keep the addresses of loads
// and stores in uniform registers.
struct Tmem {
    FWD_DEVICE static uint32_t s(int stage) { return 128 * stage; }
    FWD_DEVICE static uint32_t p(int stage) { return 128 * stage + 64; }
    FWD_DEVICE static uint32_t o(int stage) { return 256 + 128 * stage; }
    // A warp reaches only lanes 32 * (warp % 4) ..: its window.
    FWD_DEVICE static uint32_t window(int warp_in_group) { return (uint32_t)(32 * warp_in_group) << 16; }
};
enum { TMEM_COLUMNS = 512 };

// What every role gets.
struct Cta {
    const FwdParams &params;
    Smem &smem;
};

// Tasks arrive one after another from the schedule role. A warp (or the one thread of a role) takes each exactly once.
struct TaskQueue {
    Cursor<TASK_STAGES> at = {0, 0};

    // Executed by whole warps: all lanes read, one gives the slot back.
    FWD_DEVICE FwdTask take_warp(Smem &smem) {
        const FwdTask task = hold(smem);
        release_warp(smem);
        return task;
    }
    // Executed by the one thread of a role.
    FWD_DEVICE FwdTask take_thread(Smem &smem) {
        const FwdTask task = hold(smem);
        arrive(smem.bars.task.empty[at.slot]);
        at.advance();
        return task;
    }
    // The next task in its slot, which stays until it is released: the schedule role is one task ahead all the same.
    FWD_DEVICE const FwdTask &hold(Smem &smem) {
        wait(smem.bars.task.full[at.slot], at.parity);
        return smem.task[at.slot];
    }
    FWD_DEVICE void release_warp(Smem &smem) {
        __syncwarp();
        if ((threadIdx.x & 31) == 0) arrive(smem.bars.task.empty[at.slot]);
        at.advance();
    }
};
