/* How many CPUs this process may use: the affinity mask, then the quota of its cgroup (v2 or v1)
 * and of every parent. */
#include "pool/pool.h"
#include "pool/pool_internal.h"

#include "core/environment.h"
#include "core/error.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CPUS_MAX = 1024, PATH_BYTES = 4096, LINE_BYTES = 4096 };

static int32_t affinity_cpus(void) {
    for (int32_t cpus = CPUS_MAX; cpus <= 64 * CPUS_MAX; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (set == NULL) break;
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        int failed =
            sched_getaffinity(0, bytes, set); // Fails while the set is smaller than the kernel's.
        int32_t count = failed ? 0 : CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (!failed) return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : online > CPUS_MAX ? CPUS_MAX : (int32_t)online;
}

static int read_line(const char *root, const char *folder, const char *file, char *line) {
    char path[PATH_BYTES];
    int used = snprintf(path, sizeof path, "%s%s/%s", root, folder, file);
    if (used < 0 || used >= (int)sizeof path) return 0;
    FILE *f = fopen(path, "re");
    if (f == NULL) return 0;
    int read = fgets(line, LINE_BYTES, f) != NULL;
    fclose(f);
    return read;
}

/* Quota over period, rounded up: 1.5 CPUs' time needs two threads. INT32_MAX: no limit. */
static int32_t quota_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0) return INT32_MAX;
    long long cpus = quota / period + (quota % period > 0);
    return cpus > INT32_MAX ? INT32_MAX : (int32_t)cpus;
}

static int32_t folder_limit(const char *root, const char *folder, int version) {
    char line[LINE_BYTES], other[LINE_BYTES];
    if (version == 2) {
        long long quota, period;
        if (!read_line(root, folder, "cpu.max", line) ||
            sscanf(line, "%lld %lld", &quota, &period) != 2)
            return INT32_MAX; // Absent, or "max 100000".
        return quota_cpus(quota, period);
    }
    if (!read_line(root, folder, "cpu.cfs_quota_us", line) ||
        !read_line(root, folder, "cpu.cfs_period_us", other))
        return INT32_MAX;
    return quota_cpus(atoll(line), atoll(other));
}

/* The smallest limit from `folder` up to the root. In a container the folder may be absent: then
 * only the root counts. */
static int32_t chain_limit(const char *root, char *folder, int version) {
    int32_t limit = INT32_MAX;
    for (int depth = 0; depth < 64; depth++) {
        int32_t here = folder_limit(root, folder, version);
        if (here < limit) limit = here;
        char *slash = strrchr(folder, '/');
        if (slash == NULL) break;
        *slash = '\0';
    }
    return limit;
}

/* 1 when the comma-separated controllers contain "cpu". */
static int names_cpu(const char *controllers, const char *end) {
    for (const char *at = controllers; at < end;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma == NULL ? end : comma;
        if (stop - at == 3 && memcmp(at, "cpu", 3) == 0) return 1;
        at = stop + 1;
    }
    return 0;
}

int32_t pool_cgroup_cpus(const char *cgroup_file, const char *mount) {
    FILE *f = fopen(cgroup_file, "re");
    if (f == NULL) return INT32_MAX;
    int32_t limit = INT32_MAX;
    char line[LINE_BYTES], root[PATH_BYTES];
    while (fgets(line, sizeof line, f) != NULL) { // "hierarchy:controllers:/path"
        line[strcspn(line, "\n")] = '\0';
        char *first = strchr(line, ':');
        char *second = first == NULL ? NULL : strchr(first + 1, ':');
        if (second == NULL) continue;
        int version = second == first + 1 ? 2 : 1;
        if (version == 1 && !names_cpu(first + 1, second)) continue;
        const char *folders[] = {version == 2 ? "" : "/cpu", version == 2 ? NULL : "/cpu,cpuacct"};
        for (int i = 0; i < 2 && folders[i] != NULL; i++) {
            char folder[LINE_BYTES];
            snprintf(folder, sizeof folder, "%s", second + 1);
            snprintf(root, sizeof root, "%s%s", mount, folders[i]);
            int32_t here = chain_limit(root, folder, version);
            if (here < limit) limit = here;
        }
    }
    fclose(f);
    return limit;
}

int32_t pool_cpus(void) {
    int32_t cpus = affinity_cpus();
    int32_t quota = pool_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    if (quota < cpus) cpus = quota;
    return cpus < 1 ? 1 : cpus > CPUS_MAX ? CPUS_MAX : cpus;
}

fa4_status pool_default_threads(int32_t *threads, fa4_error *err) {
    const environment_range range = {"FA4_NUM_THREADS", 1, CPUS_MAX, 0};
    int64_t asked = 0;
    FA4_TRY(environment_whole(&range, &asked, err));
    *threads = asked > 0 ? (int32_t)asked : pool_cpus();
    return FA4_OK;
}
