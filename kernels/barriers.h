/* The mbarriers and named barriers of the kernels, written once: the kernel's struct, its set-up and the tables that the emulator
 * and Lua print are expanded from these lists. Plain C. Counts are arrivals per phase of one barrier. */
#ifndef FA4_KERNELS_BARRIERS_H
#define FA4_KERNELS_BARRIERS_H

#include "params.h"

/* Roles, as bits: several may arrive at one barrier. */
#define FWD_ROLES(_)                                                                               \
    _(LOAD, 1, "load")                                                                             \
    _(MMA, 2, "mma")                                                                               \
    _(SOFTMAX, 4, "softmax")                                                                       \
    _(CORRECTION, 8, "correction")                                                                 \
    _(STORE, 16, "store")                                                                          \
    _(SCHEDULE, 32, "schedule")

enum {
#define FWD_ROLE(name, bit, text) FWD_ROLE_##name = bit,
    FWD_ROLES(FWD_ROLE)
#undef FWD_ROLE
    FWD_ROLE_ALL = 63
};

/* A pipe is a pair of barrier arrays, <name>.full[copies] and behind it <name>.empty[copies]; an event is one array. They lie in
 * this order, 8 bytes each, from the start of the barrier block. V is an FwdVariant: what depends on it is written out.
 *
 * sm_100a. `empty` of q_load and kv_load, s_ready and o_ready are arrivals of tcgen05.commit; `full` of the two loads also waits for
 * the bytes that TMA brings. corr_empty is the chapter's softmax_corr.empty: its other half is the named barrier row_stats. `task`
 * passes a task from the schedule warp to everyone, one arrival a warp (8 softmax, 4 correction, load, mma, store). s_order is idle
 * unless the variant has the order barrier. With max-free blocks the softmax warps rescale O themselves, so p_o_rescale counts them alone; else the
 * correction role waits for its last phase of a task, before it arrives for the next task's first. */
// clang-format off
#define FWD_SM100_BARRIERS(V, PIPE, EVENT)                                                                                         \
    /*    name         copies          arrives                 count                       waits                      count */     \
    PIPE (q_load,      (V).q_stages,   FWD_ROLE_LOAD,          1,                          FWD_ROLE_MMA,              1)           \
    PIPE (kv_load,     (V).kv_stages,  FWD_ROLE_LOAD,          1,                          FWD_ROLE_MMA,              1)           \
    EVENT(s_ready,     (V).q_stages,   FWD_ROLE_MMA,           1,                          FWD_ROLE_SOFTMAX)                       \
    EVENT(p_o_rescale, (V).q_stages,   FWD_SM100_RESCALERS(V), FWD_SM100_RESCALE_COUNT(V), FWD_ROLE_MMA | FWD_ROLE_CORRECTION)     \
    EVENT(p_ready_2,   (V).q_stages,   FWD_ROLE_SOFTMAX,       128,                        FWD_ROLE_MMA)                           \
    EVENT(o_ready,     (V).q_stages,   FWD_ROLE_MMA,           1,                          FWD_SM100_EPILOGUE(V))                  \
    EVENT(corr_empty,  (V).q_stages,   FWD_ROLE_CORRECTION,    128,                        FWD_ROLE_SOFTMAX)                       \
    PIPE (corr_epi,    (V).q_stages,   FWD_SM100_EPILOGUE(V),  128,                        FWD_ROLE_STORE,            32)          \
    PIPE (task,        2,              FWD_ROLE_SCHEDULE,      1,                          FWD_ROLE_ALL & ~FWD_ROLE_SCHEDULE, 15)  \
    EVENT(s_order,     (V).q_stages,   FWD_ROLE_SOFTMAX,       128,                        FWD_ROLE_SOFTMAX)

/* Hardware named barriers: first id, ids, threads, who arrives, who waits. Without packing row_stats pairs warp w of softmax stage i
 * with warp w of the correction role, id 1 + 4 * i + w; packed, whole warpgroups, id 1 + i. */
#define FWD_SM100_NAMED(V, NAMED)                                                                                        \
    /*    name       first  ids                                        threads                  arrives           waits */ \
    NAMED(all,       0,     1,                                         512,                     FWD_ROLE_ALL,     FWD_ROLE_ALL) \
    NAMED(row_stats, 1,     ((V).packed ? 1 : 4) * (V).q_stages,       (V).packed ? 256 : 64,   FWD_ROLE_SOFTMAX, FWD_ROLE_CORRECTION)
// clang-format on

/* Regions of dynamic shared memory in order, bytes; the first starts on a 1,024-byte boundary. */
// clang-format off
#define FWD_SM100_SMEM(V, REGION)                                                                  \
    REGION(q,         (V).q_stages * FWD_TILE_BYTES(V))                                            \
    REGION(kv,        (V).kv_stages * FWD_TILE_BYTES(V))                                           \
    REGION(o,         (V).q_stages * FWD_TILE_BYTES(V))                                            \
    REGION(row_scale, (V).q_stages * 128 * 4)                                                      \
    REGION(barriers,  8 * (10 * (V).q_stages + 2 * (V).kv_stages + 4))                             \
    REGION(task,      2 * 32)                                                                      \
    REGION(tmem,      8)

/* Regions of tensor memory: first column, columns. */
#define FWD_SM100_TMEM(V, REGION)                                                                  \
    REGION(S0, 0, 128)                                                                             \
    REGION(P0, 64, 64)                                                                             \
    REGION(S1, 128, 128)                                                                           \
    REGION(P1, 192, 64)                                                                            \
    REGION(O0, 256, (V).dim)                                                                       \
    REGION(O1, 384, (V).dim)
// clang-format on

/* 128 rows of Q, K, V or O in 16 bits. */
#define FWD_TILE_BYTES(V) (128 * 2 * (V).dim)
#define FWD_SM100_SMEM_SUM(name, bytes) +(bytes)
#define FWD_SM100_SMEM_BYTES(V) (0 FWD_SM100_SMEM(V, FWD_SM100_SMEM_SUM))
#define FWD_SM100_BARRIER_OFFSET(V)                                                                \
    ((2 * (V).q_stages + (V).kv_stages) * FWD_TILE_BYTES(V) + (V).q_stages * 128 * 4)

#define FWD_SM100_RESCALERS(V)                                                                     \
    ((V).row_max == FWD_FIRST_BLOCK ? FWD_ROLE_SOFTMAX : FWD_ROLE_SOFTMAX | FWD_ROLE_CORRECTION)
#define FWD_SM100_RESCALE_COUNT(V) ((V).row_max == FWD_FIRST_BLOCK ? 128 : 256)
#define FWD_SM100_EPILOGUE(V)                                                                      \
    ((V).epilogue == FWD_EPILOGUE_SOFTMAX ? FWD_ROLE_SOFTMAX : FWD_ROLE_CORRECTION)

/* sm_90a. `full` of the loads also waits for the bytes that TMA brings; `empty` counts one arrival of each consumer warp. K and V have rings
 * of their own, because a K slot outlives its scores by one check (max-free blocks). o_store hands the staged tile to the store warp. */
// clang-format off
#define FWD_SM90_WARPS(V) ((V).tile_rows / 16)
#define FWD_SM90_BARRIERS(V, PIPE, EVENT)                                                                                          \
    /*    name      copies          arrives            count               waits              count */                             \
    PIPE (q_load,   (V).q_stages,   FWD_ROLE_LOAD,     1,                  FWD_ROLE_SOFTMAX,  FWD_SM90_WARPS(V))                   \
    PIPE (k_load,   (V).kv_stages,  FWD_ROLE_LOAD,     1,                  FWD_ROLE_SOFTMAX,  FWD_SM90_WARPS(V))                   \
    PIPE (v_load,   (V).kv_stages,  FWD_ROLE_LOAD,     1,                  FWD_ROLE_SOFTMAX,  FWD_SM90_WARPS(V))                   \
    PIPE (o_store,  1,              FWD_ROLE_SOFTMAX,  FWD_SM90_WARPS(V),  FWD_ROLE_STORE,    1)

/* redo_vote: a consumer warpgroup agrees to compute a block's scores again, id 1 + warpgroup (max-free only). warp_pair: the two 16-row
 * warps of one counted 32-row warp, id 4 + pair (counter builds only). s_order: whose turn it is, id 10 + warpgroup (order barrier only).
 * negated: the rows of Q have changed sign in shared memory, id 13 + warpgroup (192 rows and a negative scale only). */
#define FWD_SM90_NAMED(V, NAMED)                                                                                                   \
    /*    name       first  ids                    threads                   arrives            waits */                           \
    NAMED(all,       0,     1,                     FWD_SM90_THREADS(V),      FWD_ROLE_ALL,      FWD_ROLE_ALL)                      \
    NAMED(redo_vote, 1,     (V).tile_rows / 64,    128,                      FWD_ROLE_SOFTMAX,  FWD_ROLE_SOFTMAX)                  \
    NAMED(warp_pair, 4,     (V).tile_rows / 32,    64,                       FWD_ROLE_SOFTMAX,  FWD_ROLE_SOFTMAX)                  \
    NAMED(s_order,   10,    (V).tile_rows / 64,    256,                      FWD_ROLE_SOFTMAX,  FWD_ROLE_SOFTMAX)                  \
    NAMED(negated,   13,    (V).tile_rows / 192 * 3, 128,                    FWD_ROLE_SOFTMAX,  FWD_ROLE_SOFTMAX)

/* Regions of dynamic shared memory in order, bytes; the first starts on a 1,024-byte boundary. A task record outlives its Q slot; a step record lies beside its K slot. */
#define FWD_SM90_SMEM(V, REGION)                                                                   \
    REGION(q,        (V).q_stages * (V).tile_rows * 2 * (V).dim)                                   \
    REGION(k,        (V).kv_stages * (V).tile_keys * 2 * (V).dim)                                  \
    REGION(v,        (V).kv_stages * (V).tile_keys * 2 * (V).dim)                                  \
    REGION(o,        (V).tile_rows * 2 * (V).dim)                                                  \
    REGION(barriers, 8 * (2 * (V).q_stages + 4 * (V).kv_stages + 2))                               \
    REGION(steps,    8 * (V).kv_stages)                                                            \
    REGION(tasks,    4 * (V).q_stages * 32)
// clang-format on

#define FWD_SM90_THREADS(V) (128 + 2 * (V).tile_rows)
#define FWD_SM90_SMEM_SUM(name, bytes) +(bytes)
#define FWD_SM90_SMEM_BYTES(V) (0 FWD_SM90_SMEM(V, FWD_SM90_SMEM_SUM))
#define FWD_SM90_BARRIER_OFFSET(V)                                                                 \
    (2 * (V).dim * ((V).q_stages * (V).tile_rows + 2 * (V).kv_stages * (V).tile_keys + (V).tile_rows))

#endif
