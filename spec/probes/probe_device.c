/*
 * Runs every probe of a bundle on the GPU through libcuda (dlopen, no toolkit) and writes what came back: a record of hashes and samples, and
 * all results as raw bytes for those who want to look. A probe that traps or hangs takes only its own process with it.
 * Usage: probe_device probes.ptx folder [part-of-a-name]; writes folder/h200.txt and folder/raw.N.bin.
 */
#include "probe.h"

#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_MAX = 20, RAW_BYTES_MAX = 15 << 20, SHARED_ATTRIBUTE = 8, SWIZZLES = 4 };

typedef uint64_t device_pointer;

#define CUDA_CALLS(_)                                                                                                      \
    _(cuInit, (unsigned)) _(cuDriverGetVersion, (int *)) _(cuDeviceGet, (int *, int)) _(cuDeviceGetName, (char *, int, int)) \
    _(cuDevicePrimaryCtxRetain, (void **, int)) _(cuCtxSetCurrent, (void *)) _(cuCtxSynchronize, (void))                     \
    _(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **)) _(cuModuleGetFunction, (void **, void *, const char *)) \
    _(cuModuleUnload, (void *)) _(cuFuncSetAttribute, (void *, int, int)) _(cuMemAlloc_v2, (device_pointer *, size_t))       \
    _(cuMemFree_v2, (device_pointer)) _(cuMemcpyHtoD_v2, (device_pointer, const void *, size_t))                             \
    _(cuMemcpyDtoH_v2, (void *, device_pointer, size_t)) _(cuGetErrorString, (int, const char **))                           \
    _(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **)) \
    _(cuTensorMapEncodeTiled, (void *, int, uint32_t, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *, int, int, int, int))

typedef struct cuda {
#define FIELD(name, arguments) int(*name) arguments;
    CUDA_CALLS(FIELD)
#undef FIELD
    char error[512];
} cuda;

static bool load_cuda(cuda *c) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == NULL) library = dlopen("/usr/local/nvidia/lib64/libcuda.so.1", RTLD_NOW);
    if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), false;
#define LOAD(name, arguments)                                                   \
    *(void **)&c->name = dlsym(library, #name);                                 \
    if (c->name == NULL) return fprintf(stderr, "libcuda lacks %s\n", #name), false;
    CUDA_CALLS(LOAD)
#undef LOAD
    return true;
}

static bool failed(cuda *c, int code, const char *what) {
    const char *text = NULL;
    if (code == 0) return false;
    c->cuGetErrorString(code, &text);
    size_t used = strlen(c->error);
    if (used == 0) snprintf(c->error, sizeof c->error, "%s: %d %s", what, code, text ? text : "");
    return true;
}

static int32_t element_bytes(int32_t type) {
    static const int32_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    return bytes[type];
}

static int encode(cuda *c, const probe_map *map, device_pointer base, void *object) {
    uint64_t strides[5], step = (uint64_t)element_bytes(map->type);
    uint32_t ones[5] = {1, 1, 1, 1, 1};
    for (int i = 0; i < map->rank; i++) strides[i] = step *= map->dims[i];
    return c->cuTensorMapEncodeTiled(object, map->type, (uint32_t)map->rank, (void *)base, map->dims, strides, map->box, ones, 0, map->swizzle, 0, 0);
}

static bool launch(cuda *c, const probe *p, void *function, device_pointer in, device_pointer out) {
    _Alignas(64) uint8_t maps[PROBE_MAPS_MAX][128];
    void *arguments[PROBE_MAPS_MAX + 2];
    int count = 0;
    for (int i = 0; i < p->map_count; i++) {
        if (failed(c, encode(c, &p->maps[i], p->maps[i].out ? out : in, maps[i]), "cuTensorMapEncodeTiled")) return false;
        arguments[count++] = maps[i];
    }
    arguments[count++] = &in;
    arguments[count++] = &out;
    if (p->shared > 48 << 10 && failed(c, c->cuFuncSetAttribute(function, SHARED_ATTRIBUTE, p->shared), "cuFuncSetAttribute")) return false;
    return !failed(c, c->cuLaunchKernel(function, (unsigned)p->grid, 1, 1, (unsigned)p->block, 1, 1, (unsigned)p->shared, NULL, arguments, NULL), "cuLaunchKernel") &&
           !failed(c, c->cuCtxSynchronize(), "kernel");
}

static bool run_probe(cuda *c, const probe *p, uint8_t *results) {
    void *module = NULL, *function = NULL;
    device_pointer in = 0, out = 0;
    char *text = strndup(p->ptx, p->ptx_bytes), log[1024] = "";
    uint8_t *inputs = malloc((size_t)p->in_bytes);
    int options[] = {5, 6}; /* error log, its size */
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    c->error[0] = 0;
    probe_fill_inputs(p, inputs);
    memset(results, PROBE_FILL, (size_t)p->out_bytes);
    bool good = !failed(c, c->cuModuleLoadDataEx(&module, text, 2, options, values), "cuModuleLoadDataEx") &&
                !failed(c, c->cuModuleGetFunction(&function, module, "probe"), "cuModuleGetFunction") &&
                !failed(c, c->cuMemAlloc_v2(&in, (size_t)p->in_bytes), "cuMemAlloc") && !failed(c, c->cuMemAlloc_v2(&out, (size_t)p->out_bytes), "cuMemAlloc") &&
                !failed(c, c->cuMemcpyHtoD_v2(in, inputs, (size_t)p->in_bytes), "cuMemcpyHtoD") &&
                !failed(c, c->cuMemcpyHtoD_v2(out, results, (size_t)p->out_bytes), "cuMemcpyHtoD") && launch(c, p, function, in, out) &&
                !failed(c, c->cuMemcpyDtoH_v2(results, out, (size_t)p->out_bytes), "cuMemcpyDtoH");
    if (log[0]) fprintf(stderr, "%s: %s\n", p->name, log);
    if (in) c->cuMemFree_v2(in);
    if (out) c->cuMemFree_v2(out);
    if (module) c->cuModuleUnload(module);
    free(inputs);
    free(text);
    return good;
}

static void write_record(FILE *record, const probe *p, const uint8_t *results) {
    for (int f = 0; f < p->form_count; f++) {
        const uint8_t *form = results + f * p->form_bytes;
        fprintf(record, "%s %d %016llx", p->name, f, (unsigned long long)probe_hash(form, (size_t)p->form_bytes, PROBE_HASH_START));
        for (int64_t i = 0; i < probe_samples(p); i++) {
            uint64_t value = 0;
            memcpy(&value, form + probe_sample_at(p, i) * p->width, (size_t)p->width);
            fprintf(record, " %llx", (unsigned long long)value);
        }
        fputc('\n', record);
    }
    fflush(record);
}

typedef struct place {
    const char *folder, *bundle, *only;
    FILE *record;
    int64_t raw_bytes;
    int raw_number;
} place;

/* All results in order, in files of at most RAW_BYTES_MAX; the record has "raw name file offset bytes". */
static void write_raw(place *at, const probe *p, const uint8_t *results) {
    char path[512];
    if (at->raw_bytes + p->out_bytes > RAW_BYTES_MAX) at->raw_number++, at->raw_bytes = 0;
    snprintf(path, sizeof path, "%s/raw.%d.bin", at->folder, at->raw_number);
    FILE *file = fopen(path, "ab");
    if (file == NULL) return;
    fwrite(results, 1, (size_t)p->out_bytes, file);
    fclose(file);
    snprintf(path, sizeof path, "%s/raw.txt", at->folder);
    file = fopen(path, "ab");
    if (file == NULL) return;
    fprintf(file, "%s %d %lld %lld\n", p->name, at->raw_number, (long long)at->raw_bytes, (long long)p->out_bytes);
    fclose(file);
    at->raw_bytes += p->out_bytes;
}

/* A worker runs probes from `first` on and tells after each one, through the pipe, where the raw files stand. */
static int work(place *at, int first, int pipe_end) {
    cuda c = {0};
    void *context = NULL;
    int device = 0, version = 0, index = 0;
    char name[128] = "";
    if (!load_cuda(&c) || failed(&c, c.cuInit(0), "cuInit") || failed(&c, c.cuDeviceGet(&device, 0), "cuDeviceGet") ||
        failed(&c, c.cuDevicePrimaryCtxRetain(&context, device), "context") || failed(&c, c.cuCtxSetCurrent(context), "context"))
        return fprintf(stderr, "%s\n", c.error), 3;
    c.cuDriverGetVersion(&version);
    c.cuDeviceGetName(name, sizeof name, device);
    if (first == 0) fprintf(at->record, "device %s, CUDA %d.%d\n", name, version / 1000, version % 1000 / 10);
    static probe p;
    for (const char *text = at->bundle; probe_read(&text, &p); index++) {
        if (index < first) continue;
        uint8_t *results = malloc((size_t)p.out_bytes);
        bool wanted = at->only == NULL || strstr(p.name, at->only) != NULL, good = wanted && run_probe(&c, &p, results);
        if (good) write_record(at->record, &p, results), write_raw(at, &p, results);
        else if (wanted) fprintf(at->record, "failed %s %s\n", p.name, c.error), fflush(at->record);
        free(results);
        int64_t told[3] = {index, at->raw_bytes, at->raw_number};
        if (write(pipe_end, told, sizeof told) != sizeof told) return 3;
        if (wanted && !good) return 2; /* the context may be lost: a fresh process goes on */
    }
    return 0;
}

/* 0: all done; 1: go on with *next; -1: no device. */
static int supervise(place *at, int *next) {
    int ends[2], status = 0, timeout = SECONDS_MAX * 3000;
    if (pipe(ends) != 0) return -1;
    fflush(at->record);
    pid_t child = fork();
    if (child == 0) _exit(work(at, *next, ends[1]));
    close(ends[1]);
    int64_t told[3];
    for (struct pollfd wait = {.fd = ends[0], .events = POLLIN};; timeout = SECONDS_MAX * 1000) {
        int ready = poll(&wait, 1, timeout);
        if (ready > 0 && read(ends[0], told, sizeof told) == sizeof told) {
            *next = (int)told[0] + 1, at->raw_bytes = told[1], at->raw_number = (int)told[2];
            continue;
        }
        if (ready == 0) kill(child, SIGKILL);
        break;
    }
    close(ends[0]);
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3) return -1;
    if (WIFEXITED(status)) return 1;
    fprintf(at->record, "failed #%d the process ended by signal %d\n", *next, WTERMSIG(status));
    ++*next;
    return 1;
}

int main(int argc, char **argv) {
    char path[512], *bundle = argc >= 3 ? probe_read_file(argv[1]) : NULL;
    if (bundle == NULL) return fprintf(stderr, "usage: probe_device probes.ptx folder [part-of-a-name]\n"), 2;
    snprintf(path, sizeof path, "%s/h200.txt", argv[2]);
    place at = {.folder = argv[2], .bundle = bundle, .only = argc > 3 ? argv[3] : NULL, .record = fopen(path, "w")};
    int next = 0, more = 1;
    if (at.record == NULL) return fprintf(stderr, "%s: cannot be written\n", path), 2;
    for (int processes = 0; more > 0 && processes < 200; processes++) more = supervise(&at, &next);
    fclose(at.record);
    free(bundle);
    return more < 0;
}
