/*
 * The private contract that cpu, cuda and emu fulfil. A backend never edits a plan and never assumes that it owns the process.
 * None of the functions is optional.
 */
#ifndef FA4_BACKEND_H
#define FA4_BACKEND_H

#include "plan/plan.h"
#include "pool/pool.h"

#include <stdbool.h>

typedef struct backend backend;

/* What a backend may use of its context; borrowed as long as the backend is open. */
typedef struct backend_env {
    pool *workers;
    const char *cpu;                    /* forced instruction set, or NULL */
    const volatile int32_t *interrupt;  /* poll it at least every 50 ms of work */
    volatile double *progress;          /* share done of the running call */
} backend_env;

typedef struct backend_functions {
    const char *name; /* "cpu", "cuda", "emu" */
    /* device: the full name, such as "emu:sm_90a" or "cuda:1". FA4_NO_DEVICE says what is missing. */
    fa4_status (*open)(const backend_env *env, const char *device, backend **out, fa4_error *err);
    void (*close)(backend *b);
    /* What plan_create needs to know about this device. */
    void (*limits)(const backend *b, plan_limits *limits);
    /* FA4_UNSUPPORTED with the reason and the nearest supported value when the plan cannot run here. */
    fa4_status (*supports)(const backend *b, const fa4_plan *plan, fa4_error *err);
    /* Memory for tensors. Host backends use aligned_alloc; read and write copy to and from host memory. */
    fa4_status (*buffer_create)(backend *b, int64_t bytes, void **buffer, fa4_error *err);
    void (*buffer_destroy)(backend *b, void *buffer, int64_t bytes); /* bytes as given to buffer_create */
    fa4_status (*buffer_write)(backend *b, void *buffer, int64_t offset, const void *host, int64_t bytes, fa4_error *err);
    fa4_status (*buffer_read)(backend *b, const void *buffer, int64_t offset, void *host, int64_t bytes, fa4_error *err);
    /* Runs a plan on tensors that plan_check_tensors has accepted. Fills report's time_us, threads, workers, device, path, findings;
     * adds its decision counters (rescaled_*, spared_rows, max_fixups, exponent_max, p_max) to per_head[plan heads].
     * Where `queues` is set, report and per_head may both be NULL: nobody looks, and run may return before the work is done. Every later
     * call on the same backend comes after it in order. */
    fa4_status (*run)(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, fa4_report *report, fa4_counters *per_head,
                      fa4_error *err);
    /* Queues a run of a plan without counters on a stream of the caller's and returns. FA4_UNSUPPORTED where there are no streams. */
    fa4_status (*launch)(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, void *stream, fa4_error *err);
    bool queues;
    /* Waits for the work that was queued, and gives its failure. */
    fa4_status (*finish)(backend *b, fa4_error *err);
} backend_functions;

#endif
