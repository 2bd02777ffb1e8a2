/* Contexts: counted, so that storages may outlive the handle whatever the order of finalizers. */
#include "api/api.h"

#include "core/environment.h"
#include "cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *fa4_version(void) {
    return FA4_VERSION_TEXT;
}

const char *fa4_status_name(int32_t status) {
    static const char *const names[] = {"ok",        "bad argument", "unsupported",  "bad file", "input or output",
                                        "no memory", "no device",    "interrupted", "device error", "finding", "internal error"};
    _Static_assert(sizeof names / sizeof *names == FA4_INTERNAL + 1, "one name for each status");
    return status >= 0 && status <= FA4_INTERNAL ? names[status] : "unknown status";
}

fa4_status fa4_context_open(const fa4_context_options *options, fa4_context **out, fa4_error *err) {
    int32_t threads = options != NULL ? options->threads : 0;
    if (threads == 0) FA4_TRY(pool_default_threads(&threads, err));
    if (threads < 1 || threads > 1024) return error_range(err, "threads", threads, 0, 1024);
    bool chosen = options != NULL && options->cpu != NULL && options->cpu[0] != '\0';
    const char *cpu = chosen ? options->cpu : environment_text("FA4_CPU"), *path;
    if (cpu_choose_path(cpu, &path, err) != FA4_OK) return error_prefix(err, chosen ? "cpu" : "FA4_CPU");
    fa4_context *context = calloc(1, sizeof *context);
    if (context == NULL) return error_set(err, FA4_NO_MEMORY, "context: no memory");
    context->references = 1;
    if (cpu != NULL) snprintf(context->cpu, sizeof context->cpu, "%s", cpu);
    fa4_status status = pool_create(threads, &context->workers, err);
    context->env = (backend_env){.workers = context->workers,
                                 .cpu = context->cpu[0] != '\0' ? context->cpu : NULL,
                                 .interrupt = &context->interrupt,
                                 .progress = &context->progress};
    api_device *device = NULL;
    if (status == FA4_OK) status = api_device_open(context, "cpu", &device, err);
    if (status != FA4_OK) {
        api_context_release(context);
        return status;
    }
    *out = context;
    return FA4_OK;
}

void api_context_retain(fa4_context *context) {
    __atomic_add_fetch(&context->references, 1, __ATOMIC_RELAXED);
}

void api_context_release(void *state) {
    fa4_context *context = state;
    if (__atomic_sub_fetch(&context->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    for (int32_t i = 0; i < context->device_count; i++)
        context->devices[i].functions->close(context->devices[i].backend);
    pool_destroy(context->workers);
    free(context);
}

void fa4_context_close(fa4_context *context) {
    if (context != NULL) api_context_release(context);
}

volatile int32_t *fa4_context_interrupt(fa4_context *context) {
    return &context->interrupt;
}

double fa4_context_progress(const fa4_context *context) {
    return context->progress;
}

void fa4_context_memory(const fa4_context *context, fa4_memory *memory) {
    memory->host_bytes = context->account.host_bytes;
    memory->device_bytes = context->account.device_bytes;
    memory->storages = context->account.storages;
    memory->host_bytes_max = context->account.host_bytes_max;
}

void fa4_context_cpu(const fa4_context *context, fa4_cpu_info *info) {
    memset(info, 0, sizeof *info);
    cpu_model(info->model, sizeof info->model);
    cpu_usable_paths(info->usable, sizeof info->usable);
    const char *path = "";
    if (cpu_choose_path(context->env.cpu, &path, NULL) == FA4_OK) snprintf(info->path, sizeof info->path, "%s", path);
    info->threads = pool_threads(context->workers);
    info->cpus = pool_cpus();
}

fa4_status fa4_cpu_peak(fa4_context *context, int32_t threads, double *gflops, double *gflops_bf16, fa4_error *err) {
    const char *path = NULL;
    if (threads < 1 || threads > pool_threads(context->workers))
        return error_range(err, "threads", threads, 1, pool_threads(context->workers));
    FA4_TRY(cpu_choose_path(context->env.cpu, &path, err));
    return cpu_peak(context->workers, threads, path, gflops, gflops_bf16, err);
}
