/*
 * Worker threads: started lazily, spinning briefly for the next job, then asleep on a condition.
 * Items go out by an atomic counter; the caller is worker 0. A job is published under the mutex,
 * and a run ends only when every participant has left, so a participant always copies the job that
 * it was counted for. A child after fork has no threads: it starts its own.
 */
#include "pool/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SPIN_ROUNDS = 2000, THREADS_MAX = 1024 };

typedef struct job {
    pool_function function;
    void *state;
    int64_t count;
    int32_t participants;
    const volatile int32_t *interrupt;
    volatile double *progress;
} job;

typedef struct worker {
    pool *owner;
    pthread_t thread;
    int32_t index;
} worker;

struct pool {
    int32_t threads;
    int32_t started; /* workers running besides the caller */
    pid_t pid;       /* the process that started them */
    worker *workers; /* [threads - 1] */
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    job current; /* written and read under the mutex */
    int32_t sleepers;
    atomic_uint_fast64_t generation; /* grows with each job */
    atomic_int_fast64_t next;        /* next item */
    atomic_int active;               /* participants, besides the caller, still inside the job */
    atomic_int stop;
};

static void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static int interrupted(const volatile int32_t *flag) {
    return flag != NULL && __atomic_load_n(flag, __ATOMIC_RELAXED) != 0;
}

static void run_items(pool *p, const job *j, int32_t index) {
    for (;;) {
        if (interrupted(j->interrupt)) return;
        int64_t item = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
        if (item >= j->count) return;
        j->function(j->state, item, index);
        if (j->progress != NULL) {
            double share = (double)(item + 1) / (double)j->count;
            __atomic_store(j->progress, &share, __ATOMIC_RELAXED);
        }
    }
}

/* Waits for a job newer than `seen` and copies it. Returns its generation, or 0 when the pool
 * stops. */
static uint64_t next_job(pool *p, uint64_t seen, job *out) {
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_explicit(&p->generation, memory_order_acquire) != seen) break;
        pause_briefly();
    }
    pthread_mutex_lock(&p->mutex);
    while (atomic_load(&p->generation) == seen && !atomic_load(&p->stop)) {
        p->sleepers++;
        pthread_cond_wait(&p->work, &p->mutex);
        p->sleepers--;
    }
    uint64_t generation = atomic_load(&p->stop) ? 0 : atomic_load(&p->generation);
    *out = p->current;
    pthread_mutex_unlock(&p->mutex);
    return generation;
}

static void *work(void *argument) {
    worker *self = argument;
    pool *p = self->owner;
    uint64_t seen = 0;
    job j;
    while ((seen = next_job(p, seen, &j)) != 0) {
        if (self->index >= j.participants) continue;
        run_items(p, &j, self->index);
        if (atomic_fetch_sub_explicit(&p->active, 1, memory_order_acq_rel) != 1) continue;
        pthread_mutex_lock(&p->mutex);
        pthread_cond_signal(&p->done);
        pthread_mutex_unlock(&p->mutex);
    }
    return NULL;
}

static void reset(pool *p) {
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    p->started = 0;
    p->sleepers = 0;
    p->pid = getpid();
    atomic_store(&p->generation, 0);
    atomic_store(&p->next, 0);
    atomic_store(&p->active, 0);
    atomic_store(&p->stop, 0);
}

/* A system that refuses threads leaves fewer workers, which is slower but right. */
static void start(pool *p) {
    if (p->pid != getpid())
        reset(p); // The parent's threads do not exist here and its mutex may be held for ever.
    if (p->started > 0) return;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); // Signals belong to the program's own threads.
    for (int32_t i = 0; i < p->threads - 1; i++) {
        worker *w = &p->workers[i];
        w->owner = p;
        w->index = i + 1;
        if (pthread_create(&w->thread, NULL, work, w) != 0) break;
        p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

fa4_status pool_create(int32_t threads, pool **out, fa4_error *err) {
    *out = NULL;
    if (threads < 1 || threads > THREADS_MAX)
        return error_set(err, FA4_BAD_ARGUMENT, "threads: expected 1 to %d, got %d", THREADS_MAX,
                         threads);
    pool *p = calloc(1, sizeof *p);
    worker *workers = calloc((size_t)threads, sizeof *workers);
    if (p == NULL || workers == NULL) {
        free(p);
        free(workers);
        return error_set(err, FA4_NO_MEMORY, "threads: no memory for a pool of %d", threads);
    }
    p->threads = threads;
    p->workers = workers;
    reset(p);
    *out = p;
    return FA4_OK;
}

void pool_destroy(pool *p) {
    if (p == NULL) return;
    if (p->pid == getpid()) {
        pthread_mutex_lock(&p->mutex);
        atomic_store(&p->stop, 1);
        atomic_fetch_add(&p->generation, 1);
        pthread_cond_broadcast(&p->work);
        pthread_mutex_unlock(&p->mutex);
        for (int32_t i = 0; i < p->started; i++)
            pthread_join(p->workers[i].thread, NULL);
        pthread_mutex_destroy(&p->mutex);
        pthread_cond_destroy(&p->work);
        pthread_cond_destroy(&p->done);
    }
    free(p->workers);
    free(p);
}

int32_t pool_threads(const pool *p) {
    return p->threads;
}

static void publish(pool *p, const job *j) {
    pthread_mutex_lock(&p->mutex);
    p->current = *j;
    atomic_store(&p->next, 0);
    atomic_store(&p->active, j->participants - 1);
    atomic_fetch_add_explicit(&p->generation, 1, memory_order_release);
    if (p->sleepers > 0) pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mutex);
}

static void wait_for_others(pool *p) {
    for (int i = 0; i < SPIN_ROUNDS; i++) {
        if (atomic_load_explicit(&p->active, memory_order_acquire) == 0) return;
        pause_briefly();
    }
    pthread_mutex_lock(&p->mutex);
    while (atomic_load_explicit(&p->active, memory_order_acquire) != 0)
        pthread_cond_wait(&p->done, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

fa4_status pool_run(pool *p, int64_t count, int32_t threads, pool_function function, void *state,
                    const volatile int32_t *interrupt, volatile double *progress, fa4_error *err) {
    job j = {function, state, count, 1, interrupt, progress};
    int32_t wanted = threads < 1 || threads > p->threads ? p->threads : threads;
    if (wanted > count) wanted = (int32_t)count;
    if (wanted > 1) {
        start(p);
        j.participants = wanted <= p->started + 1 ? wanted : p->started + 1;
    }
    if (j.participants > 1) {
        publish(p, &j);
    } else {
        atomic_store_explicit(&p->next, 0, memory_order_relaxed);
    }
    run_items(p, &j, 0);
    if (j.participants > 1) wait_for_others(p);
    if (interrupted(interrupt)) return error_set(err, FA4_INTERRUPTED, "interrupted");
    return FA4_OK;
}
