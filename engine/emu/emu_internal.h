/* What the files of the emulator share beside decoded instructions: the state of warps, CTAs and the machine, and the functions between
 * them. */
#ifndef FA4_EMU_INTERNAL_H
#define FA4_EMU_INTERNAL_H

#include "emu/op_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef enum emu_state { EMU_READY, EMU_BLOCKED, EMU_PARKED, EMU_AT_BARRIER } emu_state;

/* Lanes of a warp that run together. */
typedef struct emu_fragment {
    uint32_t pc, mask;
    uint32_t state;      /* emu_state */
    uint32_t barrier;    /* named barrier, when at one */
    uint64_t generation; /* of that barrier at arrival; BLOCKED: the CTA's change count then */
    uint64_t sleep_until; /* model time */
} emu_fragment;

/* A tcgen05.ld or .st on its way. */
typedef struct emu_transfer {
    const emu_op *op;
    uint32_t address;
    uint32_t mask;
    uint64_t due;
} emu_transfer;
enum { EMU_TRANSFERS_MAX = 16 };

typedef struct emu_wgmma {
    const emu_op *op;
    uint64_t a, b;
    uint32_t group; /* commit group it belongs to */
    bool accumulate;
    uint32_t fragment[4][EMU_LANES]; /* A in registers, as it was at issue: the planes may be shared afterwards */
} emu_wgmma;
enum { EMU_WGMMA_MAX = 128 };

struct emu_warp {
    emu_plane *bank[2]; /* registers, constants */
    uint32_t *predicates;
    const emu_op *ops;
    emu_cta *cta;  /* whose memory its instructions see: home, but for accesses to another CTA of its cluster */
    emu_cta *home;
    int32_t index;
    int32_t fragment_count, current;
    uint32_t alive;
    bool rotate; /* the last fragment used up its quantum: give another its turn */
    emu_fragment fragments[EMU_LANES];
    int64_t instructions, lane_instructions;
    int64_t per_class[EMU_CLASSES];
    uint32_t registers; /* setmaxnreg's count */
    /* tensor memory transfers in flight, in order */
    emu_transfer loads[EMU_TRANSFERS_MAX], stores[EMU_TRANSFERS_MAX];
    int32_t load_count, store_count;
    uint32_t *transfer_data; /* EMU_TRANSFERS_MAX x 128 x 32 words */
    /* bulk copies: per lane, the open group's number */
    uint32_t bulk_group[EMU_LANES];
    uint32_t async_group[EMU_LANES]; /* the same of cp.async */
    /* wgmma in flight */
    emu_wgmma *wgmmas;
    int32_t wgmma_count;
    uint32_t wgmma_group, wgmma_done; /* open group; groups below wgmma_done are finished */
    uint8_t *local; /* 32 frames */
    uint32_t cluster_arrived, cluster_passed; /* lanes at the cluster's barrier in this phase; lanes that may go on */
    uint32_t *defined; /* per plane: lanes written; only for planes that may be read unwritten */
};

typedef struct emu_named_barrier {
    uint32_t expected, arrived; /* threads */
    uint64_t generation;
    uint32_t sum, conjunction, disjunction; /* bar.red of this generation */
    uint32_t last_sum, last_conjunction, last_disjunction;
    uint64_t warps; /* that have arrived in this generation */
    bool all;       /* no count: every living warp */
} emu_named_barrier;

/* What two CTAs do together: tcgen05.alloc and dealloc of .cta_group::2. */
typedef struct emu_pair {
    uint32_t meets, granted; /* rounds that this CTA has come to; that are done */
    bool waiting;            /* a warp of this CTA stands in the round */
    int32_t warp;
    uint32_t columns, base;
    int32_t opcode;
} emu_pair;

struct emu_cta {
    emu_machine *machine;
    const emu_code *code;
    int32_t id[3];
    int64_t index;
    int32_t warp_count;
    emu_warp *warps;
    uint8_t *shared; /* of address EMU_SHARED_BASE */
    uint64_t *written;  /* one bit per byte from address 0 */
    uint64_t *barriers; /* one bit per 8 bytes: live mbarriers */
    uint32_t shared_end;
    uint32_t *tmem; /* [column][lane] */
    uint32_t (*tmem_written)[4]; /* [column]: lanes */
    uint32_t tmem_allocated; /* bit per 32 columns */
    uint8_t tmem_size[16];   /* at the first unit of an allocation: its units */
    bool tmem_relinquished;
    emu_named_barrier named[EMU_NAMED_BARRIERS];
    uint32_t register_pool;
    emu_async *copies; /* any order */
    int32_t copy_count, copy_max;
    emu_async *pipe; /* the tensor pipe, in order: a ring */
    int32_t pipe_first, pipe_count, pipe_max;
    float *panel_a, *panel_b, *scratch, *wgmma_d;
    uint64_t changes; /* counts what may wake a blocked fragment */
    uint64_t time;    /* instructions so far, and the time in which none could run */
    uint64_t idle_time;
    uint64_t random;
    int32_t slot;    /* the SM that it runs on */
    int32_t starved; /* EMU_STARVE: warpgroup, warpgroups + warp, or -1 - unit */
    int32_t turn;
    bool stopped, done;
    emu_report *report;
    int32_t region_hint;
    int64_t mmas, bytes_loaded, bytes_stored, mma_flops, mma_ns;
    uint8_t *local;
    emu_cluster *cluster; /* NULL: its code reaches no other CTA */
    uint32_t rank, window; /* in its cluster; rank << 24, which its shared addresses carry */
    bool hold;             /* EMU_STARVE: the starved warpgroup waits for the other CTAs too */
    emu_pair pair;
};

struct emu_machine {
    const emu_module *module;
    const emu_code *code;
    const emu_launch *launch;
    const emu_mma_kit *mma;
    emu_region *regions; /* launch regions and the module's own */
    int32_t region_count;
    int32_t sms;
    int32_t cluster[3], cluster_size; /* CTAs */
    int64_t first, next, count;       /* of those that start together: the first, how many have started, all */
    int64_t max_instructions;
    int32_t entry_registers;
    bool checked;
    bool threaded;             /* CTAs run on several host threads: */
    pthread_mutex_t atomics;   /* then global atomics take turns */
    int32_t stop; /* a CTA has a fatal finding; several host threads read and set it */
};

#include "emu/lanes.h"

/* ---- between files ---- */

/* lower.c, lower_operands.c */
fa4_status emu_lower(emu_module *module, const ptx_function *function, emu_code *code, fa4_error *err);
void emu_code_destroy(emu_code *code);
/* The handler of a form that is not arithmetic, or NULL. */
bool emu_lower_alu(const ptx_instr *instr, emu_op *op);
emu_step emu_run_scalar(emu_warp *warp, const emu_op *op, uint32_t mask);
emu_step emu_run_setp(emu_warp *warp, const emu_op *op, uint32_t mask);

/* warp.c */
int64_t emu_warp_run(emu_warp *warp, int64_t budget);
void emu_warp_start(emu_warp *warp, uint32_t lanes);
/* flow.c: registers that some path reads unwritten */
void emu_check_defined(emu_warp *warp, const emu_op *op, uint32_t mask);
bool emu_converged(const emu_warp *warp, uint32_t mask);
emu_step emu_need_all(emu_warp *warp, const emu_op *op, uint32_t mask);
static inline emu_fragment *emu_current(emu_warp *w) {
    return &w->fragments[w->current];
}
static inline uint32_t emu_pc(const emu_warp *w) {
    return w->fragments[w->current].pc;
}

/* finding.c. Returns EMU_STOP for errors and EMU_NEXT for others, so that a handler can return it. */
emu_step emu_report_finding(emu_cta *cta, const emu_warp *warp, int32_t lane, emu_kind kind, emu_severity severity, const ptx_instr *at,
                            const char *format, ...) __attribute__((format(printf, 7, 8)));
#define emu_fault(warp, lane, kind, op, ...) emu_report_finding((warp)->cta, warp, lane, kind, EMU_ERROR, (op)->source, __VA_ARGS__)
/* "q_load.full[0] (shared 0x1234)". */
const char *emu_shared_name(const emu_cta *cta, uint32_t address, char *text, size_t bytes);
void emu_deadlock(emu_cta *cta);

/* memory.c */
uint8_t *emu_global(emu_cta *cta, uint64_t address, uint64_t bytes, bool write);
void emu_shared_mark(emu_cta *cta, uint32_t address, uint32_t bytes);
bool emu_shared_ready(const emu_cta *cta, uint32_t address, uint32_t bytes);
static inline uint8_t *emu_shared_at(emu_cta *cta, uint32_t address) {
    return cta->shared + (address - EMU_SHARED_BASE);
}
static inline bool emu_shared_inside(const emu_cta *cta, uint32_t address, uint32_t bytes) {
    return address >= EMU_SHARED_BASE && address <= cta->shared_end && cta->shared_end - address >= bytes;
}
/* quick.c: an access to shared memory by lanes that do nothing unusual; false: nothing was done, the general form must look. */
bool emu_quick_load(emu_warp *warp, const emu_op *op, uint32_t mask);
bool emu_quick_store(emu_warp *warp, const emu_op *op, uint32_t mask);
/* The lane's address of an op, offset added. */
uint64_t emu_address(emu_warp *warp, const emu_op *op, emu_slot base, int lane);
/* A shared address from a shared or generic operand; false after a finding. */
bool emu_shared_address(emu_warp *warp, const emu_op *op, uint64_t address, uint32_t bytes, uint32_t align, int lane, uint32_t *out);
/* Atomic arithmetic (memory.c): fills what it reads of an instruction; bytes of a reducing copy, of ptx_type, into global memory. */
void emu_atomic_describe(emu_op *op, int operation, int type);
void emu_reduce_global(uint8_t *global, const uint8_t *from, uint64_t bytes, int operation, int type);
/* 128 bytes of a tensor map, wherever it lies; NULL after a finding. */
const uint8_t *emu_map_bytes(emu_warp *warp, const emu_op *op, uint64_t address, int lane);
void emu_event_send(emu_cta *cta, const emu_warp *warp, emu_event_kind kind, emu_memory memory, emu_unit unit, uint32_t lanes,
                    uint64_t address, uint64_t bytes, int64_t value);
#define EMU_EVENT(cta, ...)                                                                        \
    do {                                                                                           \
        if ((cta)->machine->launch->listener != NULL) emu_event_send(cta, __VA_ARGS__);            \
    } while (0)

/* barrier.c */
void emu_mbarrier_arrive(emu_cta *cta, const emu_warp *warp, const ptx_instr *at, uint32_t address, uint32_t count);
void emu_mbarrier_complete(emu_cta *cta, const ptx_instr *at, uint32_t address, uint32_t bytes);
typedef struct emu_mbarrier {
    uint32_t phase, pending, expected;
    int32_t tx;
} emu_mbarrier;
/* A warp has ended: barriers without a count may be complete. */
void emu_named_recheck(emu_cta *cta);
bool emu_mbarrier_get(const emu_cta *cta, uint32_t address, emu_mbarrier *barrier);

bool emu_mbarrier_raise(emu_cta *cta, const emu_warp *warp, const ptx_instr *at, uint32_t address); /* one more pending in this phase */

/* copy.c, copy_async.c, tensor.c, wgmma.c: delivery */
void emu_scatter_deliver(emu_cta *cta, const emu_async *a);
void emu_scatter_drop(emu_cta *cta); /* what is in flight will not land */
void emu_copy_deliver(emu_cta *cta, int32_t index);
void emu_pipe_deliver(emu_cta *cta);
uint64_t emu_delay(emu_cta *cta, emu_unit unit);
void emu_settle_loads(emu_warp *warp);
void emu_settle_stores(emu_warp *warp);
void emu_settle_due(emu_warp *warp);
void emu_wgmma_finish(emu_warp *warp, uint32_t groups);
const char *emu_tensor_leak(emu_cta *cta, char *text, size_t bytes);

/* launch.c: checks a launch; free(machine->regions) afterwards. */
fa4_status emu_machine_open(emu_machine *machine, const emu_module *module, const emu_launch *launch, fa4_error *err);

/* cta.c */
emu_cta *emu_cta_create(emu_machine *machine); /* NULL: no memory */
void emu_cta_destroy(emu_cta *cta);
void emu_cta_start(emu_cta *cta, int64_t index, emu_report *report);
void emu_cta_finish(emu_cta *cta); /* adds its counts to its report */

/* schedule.c */
typedef enum emu_progress { EMU_IDLE, EMU_LANDED, EMU_RAN, EMU_ENDED } emu_progress;
emu_progress emu_cta_run(emu_cta *cta); /* lands what is due and runs a warp; EMU_ENDED: stopped */
uint64_t emu_cta_next(const emu_cta *cta); /* when its next unit is done; UINT64_MAX: none is at work */
bool emu_cta_advance(emu_cta *cta);     /* to then */
bool emu_cta_settle(emu_cta *cta);
bool emu_cta_alive(const emu_cta *cta);
bool emu_cta_land(emu_cta *cta); /* lands what is due, or what comes next; false when no unit is at work */
bool emu_cta_turn(emu_cta *cta); /* one turn; false when the CTA is at its end */

#endif
