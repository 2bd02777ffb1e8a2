/* The loader and the compiler calls of NVRTC. The list of calls is expanded into the table of entry
 * points and their names. */
#include "kernel/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct nvrtc_program *program_handle;
typedef int (*destroy_function)(program_handle *program);

/* call, then its type */
#define NVRTC_CALLS(_)                                                                             \
    _(nvrtcVersion, int (*)(int *, int *))                                                         \
    _(nvrtcGetErrorString, const char *(*)(int))                                                   \
    _(nvrtcCreateProgram, int (*)(program_handle *, const char *, const char *, int,               \
                                  const char *const *, const char *const *))                       \
    _(nvrtcDestroyProgram, destroy_function)                                                       \
    _(nvrtcCompileProgram, int (*)(program_handle, int, const char *const *))                      \
    _(nvrtcGetPTXSize, int (*)(program_handle, size_t *))                                          \
    _(nvrtcGetPTX, int (*)(program_handle, char *))                                                \
    _(nvrtcGetCUBINSize, int (*)(program_handle, size_t *))                                        \
    _(nvrtcGetCUBIN, int (*)(program_handle, char *))                                              \
    _(nvrtcGetProgramLogSize, int (*)(program_handle, size_t *))                                   \
    _(nvrtcGetProgramLog, int (*)(program_handle, char *))

enum { HEADERS_MAX = 64, PATH_BYTES = 4096 };

struct nvrtc {
    void *library;
#define NVRTC_MEMBER(name, type) __typeof__((type)0) name;
    NVRTC_CALLS(NVRTC_MEMBER)
#undef NVRTC_MEMBER
    char version[16];
    char path[PATH_BYTES];
};

/* ---- finding it ---- */

/* Where was looked, for the error. */
typedef struct search {
    nvrtc *n;
    char tried[1024];
} search;

static bool resolve_calls(nvrtc *n) {
#define NVRTC_RESOLVE(name, type)                                                                  \
    *(void **)&n->name = dlsym(n->library, #name);                                                 \
    if (n->name == NULL) return false;
    NVRTC_CALLS(NVRTC_RESOLVE)
#undef NVRTC_RESOLVE
    int major, minor;
    if (n->nvrtcVersion(&major, &minor) != 0) return false;
    snprintf(n->version, sizeof n->version, "%d.%d", major, minor);
    return true;
}

// NVRTC asks the loader for its builtins by name at the first compilation. A copy outside the loader's path has them beside it:
// loaded before, they are found by that name.
static void load_builtins(const char *path) {
    const char *slash = strrchr(path, '/');
    char pattern[PATH_BYTES];
    if (slash == NULL) return; /* the loader found the library: it finds the builtins too */
    int n = snprintf(pattern, sizeof pattern, "%.*s/libnvrtc-builtins.so*", (int)(slash - path), path);
    glob_t found;
    if (n < 0 || (size_t)n >= sizeof pattern || glob(pattern, 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; i++) (void)dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    globfree(&found);
}

// RTLD_NODELETE: NVRTC keeps threads and exit handlers that must not outlive its code.
static bool try_file(search *s, const char *path) {
    size_t used = strlen(s->tried);
    snprintf(s->tried + used, sizeof s->tried - used, "%s%s", used ? ", " : "", path);
    load_builtins(path);
    s->n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (s->n->library == NULL) return false;
    snprintf(s->n->path, sizeof s->n->path, "%s", path);
    if (resolve_calls(s->n)) return true;
    dlclose(s->n->library);
    s->n->library = NULL;
    return false;
}

static bool try_folder(search *s, const char *folder, const char *below) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int n = snprintf(path, sizeof path, "%s%s/%s", folder, below, names[i]);
        if (n < 0 || (size_t)n >= sizeof path) return false;
        FILE *file = fopen(path, "rb");
        if (file == NULL) continue;
        fclose(file);
        if (try_file(s, path)) return true;
    }
    return false;
}

// The build tree keeps the fetched copy in nvrtc/, the tests' executables are one folder deeper.
static bool try_beside_program(search *s) {
    Dl_info info;
    char folder[PATH_BYTES];
    if (dladdr((void *)(uintptr_t)&nvrtc_open, &info) == 0 || info.dli_fname == NULL) return false;
    snprintf(folder, sizeof folder, "%s", info.dli_fname);
    if (strchr(folder, '/') == NULL) { /* found through PATH: the name says nothing */
        ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
        if (n <= 0) return false;
        folder[n] = '\0';
    }
    *strrchr(folder, '/') = '\0';
    return try_folder(s, folder, "/nvrtc/lib") || try_folder(s, folder, "/../nvrtc/lib");
}

static bool try_data_home(search *s) {
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data != NULL && *data == '/') return try_folder(s, data, "/fa4/nvrtc/lib");
    return home != NULL && *home == '/' && try_folder(s, home, "/.local/share/fa4/nvrtc/lib");
}

static bool find_library(search *s) {
    static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH"};
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    const char *forced = getenv("FA4_NVRTC");
    if (forced != NULL && *forced != '\0') return try_folder(s, forced, "") || try_file(s, forced);
    if (try_beside_program(s) || try_data_home(s)) return true;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        if (value != NULL && *value != '\0' &&
            (try_folder(s, value, "/lib64") || try_folder(s, value, "/lib")))
            return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (try_file(s, names[i])) return true;
    return try_folder(s, "/usr/local/cuda", "/lib64");
}

fa4_status nvrtc_open(nvrtc **library, fa4_error *err) {
    search s = {.n = calloc(1, sizeof *s.n)};
    *library = NULL;
    if (s.n == NULL) return error_set(err, FA4_NO_MEMORY, "nvrtc: out of memory");
    if (find_library(&s)) {
        *library = s.n;
        return FA4_OK;
    }
    free(s.n);
    return error_set(err, FA4_NO_DEVICE,
                     "libnvrtc, which compiles the GPU kernels, was not found (tried %s). "
                     "scripts/nvrtc.sh fetches it; FA4_NVRTC "
                     "names one",
                     s.tried);
}

void nvrtc_close(nvrtc *n) {
    if (n == NULL) return;
    dlclose(n->library);
    free(n);
}

const char *nvrtc_version(const nvrtc *n) {
    return n->version;
}

const char *nvrtc_path(const nvrtc *n) {
    return n->path;
}

/* ---- compiling ---- */

static fa4_status fail_call(const nvrtc *n, int code, const char *call, fa4_error *err) {
    return error_set(err, FA4_DEVICE_ERROR, "%s: %s", call, n->nvrtcGetErrorString(code));
}

static char *read_log(const nvrtc *n, program_handle program) {
    size_t bytes = 0;
    if (n->nvrtcGetProgramLogSize(program, &bytes) != 0) bytes = 0;
    char *log = calloc(1, bytes + 1);
    if (log != NULL && bytes > 0 && n->nvrtcGetProgramLog(program, log) != 0) *log = '\0';
    return log;
}

static fa4_status read_ptx(const nvrtc *n, program_handle program, nvrtc_result *result,
                           fa4_error *err) {
    size_t bytes;
    int code = n->nvrtcGetPTXSize(program, &bytes);
    if (code != 0) return fail_call(n, code, "nvrtcGetPTXSize", err);
    result->ptx = calloc(1, bytes + 1);
    if (result->ptx == NULL)
        return error_set(err, FA4_NO_MEMORY, "PTX of %zu bytes: out of memory", bytes);
    code = n->nvrtcGetPTX(program, result->ptx);
    if (code != 0) return fail_call(n, code, "nvrtcGetPTX", err);
    result->ptx_bytes = strlen(result->ptx);
    return FA4_OK;
}

static fa4_status read_cubin(const nvrtc *n, program_handle program, nvrtc_result *result,
                             fa4_error *err) {
    int code = n->nvrtcGetCUBINSize(program, &result->cubin_bytes);
    if (code != 0) return fail_call(n, code, "nvrtcGetCUBINSize", err);
    if (result->cubin_bytes == 0)
        return error_set(err, FA4_INTERNAL,
                         "NVRTC gave no cubin: the options name a virtual architecture");
    result->cubin = malloc(result->cubin_bytes);
    if (result->cubin == NULL)
        return error_set(err, FA4_NO_MEMORY, "cubin of %zu bytes: out of memory",
                         result->cubin_bytes);
    code = n->nvrtcGetCUBIN(program, result->cubin);
    return code == 0 ? FA4_OK : fail_call(n, code, "nvrtcGetCUBIN", err);
}

static fa4_status run_compiler(const nvrtc *n, const nvrtc_job *job, program_handle program,
                               nvrtc_result *result, fa4_error *err) {
    int code = n->nvrtcCompileProgram(program, job->option_count, job->options);
    result->log = read_log(n, program);
    if (result->log == NULL) return error_set(err, FA4_NO_MEMORY, "compiler log: out of memory");
    if (code != 0)
        return error_set(err, FA4_DEVICE_ERROR, "%s does not compile (NVRTC %s, %s):\n%s",
                         job->name, n->version, n->nvrtcGetErrorString(code), result->log);
    FA4_TRY(read_ptx(n, program, result, err));
    return job->want_cubin ? read_cubin(n, program, result, err) : FA4_OK;
}

fa4_status nvrtc_compile(nvrtc *n, const nvrtc_job *job, nvrtc_result *result, fa4_error *err) {
    const char *names[HEADERS_MAX], *texts[HEADERS_MAX];
    program_handle program = NULL;
    *result = (nvrtc_result){0};
    if (job->header_count > HEADERS_MAX)
        return error_set(err, FA4_BAD_ARGUMENT, "%s: %d headers, at most %d", job->name,
                         job->header_count, HEADERS_MAX);
    for (int32_t i = 0; i < job->header_count; i++) {
        names[i] = job->headers[i].name;
        texts[i] = job->headers[i].text;
    }
    int code =
        n->nvrtcCreateProgram(&program, job->source, job->name, job->header_count, texts, names);
    if (code != 0) return fail_call(n, code, "nvrtcCreateProgram", err);
    fa4_status status = run_compiler(n, job, program, result, err);
    n->nvrtcDestroyProgram(&program);
    if (status != FA4_OK) nvrtc_result_free(result);
    return status;
}

void nvrtc_result_free(nvrtc_result *result) {
    free(result->ptx);
    free(result->cubin);
    free(result->log);
    *result = (nvrtc_result){0};
}
