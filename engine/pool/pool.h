/* Worker threads: a persistent pool that spins briefly, then sleeps. The caller works too. */
#ifndef FA4_POOL_POOL_H
#define FA4_POOL_POOL_H

#include "core/error.h"

typedef struct pool pool;

/* A piece of work: item index and the worker that runs it (0 .. pool_threads - 1). */
typedef void (*pool_function)(void *state, int64_t item, int32_t worker);

/* CPUs that affinity and cgroup quota allow, at least 1. */
int32_t pool_cpus(void);
/* FA4_NUM_THREADS when it is set, else pool_cpus. Fails when it is no whole number in 1..1024. */
fa4_status pool_default_threads(int32_t *threads, fa4_error *err);

/* threads >= 1, the caller's included. Threads start at the first parallel run, again after fork.
 */
fa4_status pool_create(int32_t threads, pool **out, fa4_error *err);
void pool_destroy(pool *p); /* NULL is allowed */
int32_t pool_threads(const pool *p);

/* Runs function for items 0 .. count - 1 on at most `threads` workers (0 = all), handing items out
 * in order by a counter. Stops handing out when *interrupt becomes nonzero (NULL: never) and then
 * returns FA4_INTERRUPTED. *progress (NULL: unused) is set to the share of items handed out. */
fa4_status pool_run(pool *p, int64_t count, int32_t threads, pool_function function, void *state,
                    const volatile int32_t *interrupt, volatile double *progress, fa4_error *err);

#endif
