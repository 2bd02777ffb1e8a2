/*
 * The emulator: program (immutable) -> machine (one struct, all state) -> report. A module is PTX text made ready to run; a launch
 * executes one of its entries over a grid on host memory and reports what happened. Nothing here prints, and no state is global.
 */
#ifndef FA4_EMU_EMU_H
#define FA4_EMU_EMU_H

#include "core/error.h"
#include "pool/pool.h"
#include "ptx/ptx.h"

/* ---- modules ---- */

typedef struct emu_module emu_module;

/* Parses and decodes. cpu: NULL = the best instruction set here; "scalar", "avx2", "avx512". Every instruction that the machine does not
 * execute is an error naming its line. */
fa4_status emu_module_load(const char *text, size_t length, const char *cpu, emu_module **module, fa4_error *err);
void emu_module_destroy(emu_module *module); /* NULL is allowed */
const ptx_program *emu_module_program(const emu_module *module);
/* An entry of that program as it is executed, calls put in place: instruction numbers count in it. */
const ptx_function *emu_module_function(const emu_module *module, const ptx_function *entry);

/* ---- findings ---- */

typedef enum emu_kind {
    EMU_DEADLOCK,
    EMU_LIMIT,
    EMU_OUT_OF_BOUNDS,
    EMU_MISALIGNED,
    EMU_UNINITIALISED,
    EMU_BARRIER_MISUSE,
    EMU_TENSOR_MISUSE,
    EMU_COPY_MISUSE,
    EMU_DIVERGENCE,
    EMU_TRAP,
    EMU_LEAK,
    EMU_OTHER
} emu_kind;
const char *emu_kind_name(int32_t kind);

typedef enum emu_severity { EMU_NOTE, EMU_REVIEW, EMU_ERROR } emu_severity;

enum { EMU_FINDING_TEXT_BYTES = 480, EMU_FINDINGS_MAX = 64 };

typedef struct emu_finding {
    int32_t kind, severity;
    int32_t cta[3];
    int32_t warp, lane; /* -1: not one */
    int32_t line;       /* of the PTX text; 0: none */
    int32_t source_line; /* of the kernel's source, from .loc; 0: unknown */
    int32_t count;       /* times seen */
    char text[EMU_FINDING_TEXT_BYTES];
} emu_finding;

/* ---- events ---- */

typedef enum emu_event_kind {
    EMU_EVENT_READ,
    EMU_EVENT_WRITE,
    EMU_EVENT_ARRIVE,
    EMU_EVENT_WAIT,
    EMU_EVENT_PHASE,
    EMU_EVENT_FENCE,
    EMU_EVENT_ISSUE,
    EMU_EVENT_COMPLETE,
    EMU_EVENT_STEP
} emu_event_kind;
typedef enum emu_memory {
    EMU_MEMORY_NONE,
    EMU_MEMORY_SHARED,
    EMU_MEMORY_TENSOR,
    EMU_MEMORY_GLOBAL,
    EMU_MEMORY_LOCAL,
    EMU_MEMORY_BARRIER,
    EMU_MEMORY_NAMED_BARRIER
} emu_memory;
typedef enum emu_unit { EMU_UNIT_WARP, EMU_UNIT_TMA, EMU_UNIT_TENSOR } emu_unit;

/* One thing that happened in one CTA; a listener's calls for one CTA come from one thread, in order. */
typedef struct emu_event {
    int32_t kind, memory, unit;
    int32_t cta;       /* linear index in the grid */
    int32_t warp;      /* -1: none */
    uint32_t lanes;    /* mask */
    uint32_t pc;       /* instruction index in the entry */
    uint64_t time;     /* model time: instructions of this CTA so far */
    uint64_t address;  /* tensor: lane << 16 | column */
    uint64_t bytes;    /* tensor: columns */
    int64_t value;     /* barrier: parity or count */
} emu_event;

typedef struct emu_listener {
    void *state;
    void (*event)(void *state, const emu_event *event);
} emu_listener;

/* ---- launches ---- */

typedef enum emu_schedule {
    EMU_ROUND_ROBIN, /* large quanta, asynchronous work done early: for values */
    EMU_RANDOM,      /* random warp, quantum and delays */
    EMU_STARVE       /* a warpgroup, a warp or a unit chosen by the seed runs only when nothing else can */
} emu_schedule;

/* Global memory that the kernel may touch. Its device address is its host address. */
typedef struct emu_region {
    void *data;
    uint64_t bytes;
    const char *name;
    int32_t read_only;
} emu_region;

/* A name for a range of shared memory, for findings. */
typedef struct emu_name {
    uint32_t offset, bytes; /* from the start of dynamic shared memory */
    const char *name;
} emu_name;

typedef struct emu_launch {
    const char *entry;  /* NULL: the only one */
    int32_t grid[3], block[3];
    int32_t cluster[3];   /* CTAs of a cluster; 0: as the entry says, else 1 */
    int64_t shared_bytes; /* dynamic */
    const void *params;   /* the parameter block, laid out as ptx_function says */
    int64_t param_bytes;
    const emu_region *regions;
    int32_t region_count;
    const emu_name *names;
    int32_t name_count;
    const char *const *roles; /* a name per warp, or NULL */
    int32_t role_count;
    int32_t sms;              /* resident CTAs, 0 = 148 */
    uint64_t seed;
    int32_t schedule;         /* emu_schedule */
    int32_t threads;          /* host threads, 0 = all of the pool */
    int64_t cta_first, cta_count; /* a subset by linear index; count 0 = all. Of clusters: whole ones, counted in CTAs */
    int64_t max_instructions;     /* warp instructions of one CTA; 0 = 2^33 */
    int32_t unchecked;            /* 1: no uninitialised-read checks */
    int32_t independent;          /* 1: the caller knows that no CTA of this launch waits for another through global memory, though the
                                     program could; an instruction that could is then a finding, and CTAs run on several host threads */
    int32_t registers;            /* at entry, for setmaxnreg's pool; 0 = from the launch bounds */
    const emu_listener *listener; /* NULL = none; runs single-threaded */
    pool *workers;                /* NULL = this thread */
    const volatile int32_t *interrupt; /* NULL = never */
    volatile double *progress;         /* NULL = unused */
} emu_launch;

enum { EMU_CLASSES = 8, EMU_ROLES_MAX = 32 };
extern const char *const emu_class_names[EMU_CLASSES];

typedef struct emu_report {
    int64_t instructions; /* warp instructions */
    int64_t lanes;        /* thread instructions */
    int64_t per_class[EMU_CLASSES];
    int64_t per_warp[EMU_ROLES_MAX]; /* by warp number in its CTA */
    int64_t mmas;
    int64_t bytes_loaded, bytes_stored; /* by bulk copies */
    int64_t mma_flops, mma_ns; /* of the matrix units, operands and products: 2 m n k, and host time summed over threads */
    int64_t ctas;
    int32_t threads;
    int32_t errors; /* findings of severity error */
    int32_t finding_count;
    emu_finding findings[EMU_FINDINGS_MAX];
} emu_report;

/* FA4_OK: ran to the end, findings of lower severity may be there. FA4_FINDING: err->text is the first error. Others: bad arguments. */
fa4_status emu_run(const emu_module *module, const emu_launch *launch, emu_report *report, fa4_error *err);

#endif
