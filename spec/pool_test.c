/* The worker pool: every item once, any thread count, interruption, a child after fork, and the
 * cgroup reader. */
#include "check.h"
#include "pool/pool.h"
#include "pool/pool_internal.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ITEMS = 5000 };

typedef struct tally {
    int32_t hits[ITEMS]; /* one worker an item: no atomics needed if the pool is right */
    atomic_int workers_seen[64];
    volatile int32_t stop;
    int64_t stop_at;
} tally;

static void touch(void *state, int64_t item, int32_t worker) {
    tally *t = state;
    t->hits[item]++;
    atomic_fetch_add(&t->workers_seen[worker], 1);
    if (t->stop_at >= 0 && item == t->stop_at) __atomic_store_n(&t->stop, 1, __ATOMIC_RELAXED);
}

static int each_once(const tally *t, int64_t count) {
    for (int64_t i = 0; i < ITEMS; i++)
        if (t->hits[i] != (i < count)) return 0;
    return 1;
}

static void test_every_item_once(int32_t threads) {
    pool *p;
    CHECK(pool_create(threads, &p, NULL) == FA4_OK, "%d threads", threads);
    CHECK(pool_threads(p) == threads, "%d", pool_threads(p));
    static const int64_t counts[] = {0, 1, 2, 7, ITEMS};
    for (int round = 0; round < 40; round++) {
        int64_t count = counts[round % 5];
        tally *t = calloc(1, sizeof *t);
        volatile double progress = 0;
        t->stop_at = -1;
        if (round % 13 == 12) usleep(3000); // Long enough for the workers to sleep.
        fa4_status status =
            pool_run(p, count, round % 3 == 2 ? 2 : 0, touch, t, &t->stop, &progress, NULL);
        CHECK(status == FA4_OK && each_once(t, count), "%d threads, %lld items", threads,
              (long long)count);
        CHECK(count == 0 || progress > 0, "progress %g", progress);
        free(t);
    }
    pool_destroy(p);
}

static void test_thread_limit(void) {
    pool *p;
    CHECK(pool_create(4, &p, NULL) == FA4_OK, "4");
    tally *t = calloc(1, sizeof *t);
    t->stop_at = -1;
    CHECK(pool_run(p, ITEMS, 2, touch, t, NULL, NULL, NULL) == FA4_OK, "run");
    CHECK(t->workers_seen[2] == 0 && t->workers_seen[3] == 0, "a third worker took part");
    CHECK(each_once(t, ITEMS), "items");
    free(t);
    pool_destroy(p);
}

static void test_interrupt(int32_t threads) {
    pool *p;
    CHECK(pool_create(threads, &p, NULL) == FA4_OK, "%d", threads);
    tally *t = calloc(1, sizeof *t);
    t->stop_at = 100;
    fa4_error err = {0};
    CHECK(pool_run(p, ITEMS, 0, touch, t, &t->stop, NULL, &err) == FA4_INTERRUPTED, "%s", err.text);
    int64_t ran = 0;
    for (int i = 0; i < ITEMS; i++)
        ran += t->hits[i];
    CHECK(ran > 100 && ran < ITEMS, "%lld items ran", (long long)ran);
    memset(t, 0, sizeof *t);
    t->stop_at = -1;
    CHECK(pool_run(p, ITEMS, 0, touch, t, &t->stop, NULL, &err) == FA4_OK && each_once(t, ITEMS),
          "the run after it");
    free(t);
    pool_destroy(p);
}

/* The thread sanitizer does not follow a fork of a threaded process. */
#if !defined(__SANITIZE_THREAD__)
static void test_fork(void) {
    pool *p;
    CHECK(pool_create(3, &p, NULL) == FA4_OK, "3");
    tally *t = calloc(1, sizeof *t);
    t->stop_at = -1;
    CHECK(pool_run(p, ITEMS, 0, touch, t, NULL, NULL, NULL) == FA4_OK, "parent");
    pid_t child = fork();
    if (child == 0) {
        alarm(20); // A hang ends as a failure.
        memset(t, 0, sizeof *t);
        t->stop_at = -1;
        int good =
            pool_run(p, ITEMS, 0, touch, t, NULL, NULL, NULL) == FA4_OK && each_once(t, ITEMS);
        pool_destroy(p);
        _exit(good ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with status %d", status);
    memset(t->hits, 0, sizeof t->hits);
    CHECK(pool_run(p, ITEMS, 0, touch, t, NULL, NULL, NULL) == FA4_OK && each_once(t, ITEMS),
          "parent afterwards");
    free(t);
    pool_destroy(p);
}
#endif

static void write_text(const char *root, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    if (f == NULL) return;
    fputs(text, f);
    fclose(f);
}

static int32_t limit_of(const char *root, const char *cgroup) {
    char file[512], mount[512];
    write_text(root, "cgroup", cgroup);
    snprintf(file, sizeof file, "%s/cgroup", root);
    snprintf(mount, sizeof mount, "%s/fs", root);
    return pool_cgroup_cpus(file, mount);
}

static void test_quota(void) {
    char root[] = "/tmp/fa4_pool_test_XXXXXX";
    CHECK(mkdtemp(root) != NULL, "mkdtemp");
    write_text(root, "fs/a/b/cpu.max", "max 100000\n");
    write_text(root, "fs/a/cpu.max", "250000 100000\n");
    write_text(root, "fs/c/cpu.max", "50000 100000\n");
    write_text(root, "fs/cpu/job/cpu.cfs_quota_us", "400000\n");
    write_text(root, "fs/cpu/job/cpu.cfs_period_us", "100000\n");
    write_text(root, "fs/cpu/free/cpu.cfs_quota_us", "-1\n");
    write_text(root, "fs/cpu/free/cpu.cfs_period_us", "100000\n");
    CHECK(limit_of(root, "0::/a/b\n") == 3, "a parent's 2.5 CPUs: %d", limit_of(root, "0::/a/b\n"));
    CHECK(limit_of(root, "0::/c\n") == 1, "half a CPU: %d", limit_of(root, "0::/c\n"));
    CHECK(limit_of(root, "0::/none\n") == INT32_MAX, "no file: %d", limit_of(root, "0::/none\n"));
    CHECK(limit_of(root, "4:memory:/x\n3:cpu,cpuacct:/job\n") == 4, "v1: %d",
          limit_of(root, "3:cpu,cpuacct:/job\n"));
    CHECK(limit_of(root, "3:cpuset:/job\n2:cpu:/free\n") == INT32_MAX, "v1 without quota");
    CHECK(limit_of(root, "nonsense\n") == INT32_MAX, "nonsense");
    char command[600];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0, "%s", command);
}

static void test_defaults(void) {
    fa4_error err = {0};
    int32_t threads = 0;
    unsetenv("FA4_NUM_THREADS");
    CHECK(pool_default_threads(&threads, &err) == FA4_OK && threads == pool_cpus() && threads >= 1, "%d CPUs", threads);
    setenv("FA4_NUM_THREADS", "", 1);
    CHECK(pool_default_threads(&threads, &err) == FA4_OK && threads == pool_cpus(), "%d CPUs", threads);
    setenv("FA4_NUM_THREADS", "3", 1);
    CHECK(pool_default_threads(&threads, &err) == FA4_OK && threads == 3, "%d", threads);
    static const char *const wrong[] = {"0", "two", "1025", "99999", "-1", "2.5", " 2", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("FA4_NUM_THREADS", wrong[i], 1);
        CHECK(pool_default_threads(&threads, &err) == FA4_BAD_ARGUMENT && strstr(err.text, "FA4_NUM_THREADS: expected") && strstr(err.text, wrong[i]),
              "%s: %s", wrong[i], err.text);
    }
    unsetenv("FA4_NUM_THREADS");
    pool *p;
    CHECK(pool_create(0, &p, &err) == FA4_BAD_ARGUMENT && p == NULL &&
              strstr(err.text, "threads") != NULL,
          "%s", err.text);
    pool_destroy(NULL);
}

int main(void) {
    for (int32_t threads = 1; threads <= 5; threads++)
        test_every_item_once(threads);
    test_thread_limit();
    test_interrupt(1);
    test_interrupt(3);
#if !defined(__SANITIZE_THREAD__)
    test_fork();
#endif
    test_quota();
    test_defaults();
    return check_report();
}
