/* Between the backend's face and the run: what an open CPU backend keeps. */
#ifndef FA4_CPU_RUN_H
#define FA4_CPU_RUN_H

#include "cpu/cpu_internal.h"

enum { CPU_MEMORY_SCRATCH, CPU_MEMORY_SHARED, CPU_MEMORY_PARTIALS, CPU_MEMORY_ITEMS, CPU_MEMORIES };

/* Work space, kept from run to run: touching fresh pages costs more than a small attention. */
typedef struct cpu_memory {
    void *data;
    int64_t bytes;
} cpu_memory;

typedef struct cpu_backend_state {
    backend_env env;
    const cpu_kernel *kernel;
    cpu_memory memory[CPU_MEMORIES];
} cpu_backend_state;

fa4_status cpu_run(cpu_backend_state *state, const fa4_plan *plan, const fa4_tensors *tensors,
                   fa4_report *report, fa4_counters *per_head, fa4_error *err);

#endif
