/* The GPU backend: memory, copies and runs of plans on one device, one stream, one thread at a time. */
#include "cuda/cuda_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPIN_POLLS = 2000, SLEEP_NS = 50000 };

static void close_backend(backend *b) {
    if (b == NULL) return;
    cuda_kept_free(b);
    cuda_device_close(b);
    kernel_images_close(b->images);
    free(b);
}

static fa4_status open_backend(const backend_env *env, const char *device, backend **out, fa4_error *err) {
    backend *b = calloc(1, sizeof *b);
    if (b == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    b->env = *env;
    fa4_status status = cuda_device_open(b, device, err);
    if (status == FA4_OK) status = kernel_images_open(NULL, &b->images, err);
    if (status != FA4_OK) close_backend(b);
    else *out = b;
    return status;
}

static void limits_of(const backend *b, plan_limits *limits) {
    limits->backend = b->major == 9 ? FA4_BACKEND_CUDA_SM90 : FA4_BACKEND_CUDA_SM100;
    limits->device = "cuda";
    limits->sms = b->sms;
    limits->l2_bytes = b->l2_bytes;
    limits->tiles_per_task = b->major == 9 ? 1 : 2;
}

static fa4_status supports(const backend *b, const fa4_plan *plan, fa4_error *err) {
    FA4_TRY(cuda_usable(&b->driver, err));
    FA4_TRY(kernel_launch_supports(plan, err));
    FwdVariant variant;
    kernel_variant_of_plan(plan, 0, &variant);
    int32_t bytes = kernel_variant_smem_bytes(&variant);
    if (bytes > b->smem_bytes)
        return error_set(err, FA4_UNSUPPORTED, "device: this plan's kernel needs %d bytes of shared memory, %s has %d", bytes, b->label, b->smem_bytes);
    return FA4_OK;
}

/* Every call from outside begins here: a thread may have come to the driver for the first time. */
static fa4_status enter(backend *b, fa4_error *err) {
    FA4_TRY(cuda_usable(&b->driver, err));
    CUDA_TRY(&b->driver, cuCtxSetCurrent, "entering the device", err, b->context);
    return FA4_OK;
}

/* ---- memory ---- */

static fa4_status buffer_create(backend *b, int64_t bytes, void **buffer, fa4_error *err) {
    CUdeviceptr address = 0;
    FA4_TRY(enter(b, err));
    fa4_status status = cuda_check(&b->driver, b->driver.cuMemAlloc_v2(&address, (size_t)(bytes > 0 ? bytes : 1)), "cuMemAlloc",
                                   "making a tensor", err);
    if (status == FA4_NO_MEMORY)
        return error_set(err, status, "device: %s has no %" PRId64 " free bytes; t:free() gives a tensor's memory back", b->label, bytes);
    *buffer = (void *)(uintptr_t)address;
    return status;
}

static void buffer_destroy(backend *b, void *buffer) {
    if (buffer == NULL || b->driver.cuCtxSetCurrent(b->context) != CUDA_SUCCESS) return;
    (void)b->driver.cuMemFree_v2((CUdeviceptr)(uintptr_t)buffer);
}

static fa4_status buffer_write(backend *b, void *buffer, int64_t offset, const void *host, int64_t bytes, fa4_error *err) {
    if (bytes == 0) return FA4_OK;
    FA4_TRY(enter(b, err));
    CUDA_TRY(&b->driver, cuMemcpyHtoDAsync_v2, "copying to the device", err, (CUdeviceptr)(uintptr_t)buffer + (uint64_t)offset, host,
             (size_t)bytes, b->stream);
    CUDA_TRY(&b->driver, cuStreamSynchronize, "copying to the device", err, b->stream);
    return FA4_OK;
}

static fa4_status buffer_read(backend *b, const void *buffer, int64_t offset, void *host, int64_t bytes, fa4_error *err) {
    if (bytes == 0) return FA4_OK;
    FA4_TRY(enter(b, err));
    CUDA_TRY(&b->driver, cuMemcpyDtoHAsync_v2, "copying from the device", err, host, (CUdeviceptr)(uintptr_t)buffer + (uint64_t)offset,
             (size_t)bytes, b->stream);
    CUDA_TRY(&b->driver, cuStreamSynchronize, "copying from the device", err, b->stream);
    return FA4_OK;
}

/* ---- runs ---- */

fa4_status cuda_wait(backend *b, CUevent event, const char *doing, fa4_error *err) {
    for (int64_t polls = 0;; polls++) {
        CUresult result = b->driver.cuEventQuery(event);
        if (result != CUDA_ERROR_NOT_READY) return cuda_check(&b->driver, result, "cuEventQuery", doing, err);
        if (b->env.interrupt != NULL && *b->env.interrupt) return error_set(err, FA4_INTERRUPTED, "interrupted while %s", doing);
        if (polls < SPIN_POLLS) continue; /* short kernels are waited for without giving the CPU away */
        const struct timespec pause = {0, SLEEP_NS};
        nanosleep(&pause, NULL);
    }
}

static fa4_status check_tensor(const backend *b, const fa4_tensor *t, const char *name, fa4_error *err) {
    if (t->device == 1 && t->device_index == b->ordinal) return FA4_OK;
    return error_set(err, FA4_BAD_ARGUMENT, "%s: expected a tensor on cuda:%d (made by t:to{device = \"cuda\"}), it is %s", name, b->ordinal,
                     t->device == 1 ? "on another GPU" : "in host memory");
}

static fa4_status check_tensors(const backend *b, const fa4_plan *plan, const fa4_tensors *t, fa4_error *err) {
    FA4_TRY(check_tensor(b, &t->q, "q", err));
    FA4_TRY(check_tensor(b, &t->k, "k", err));
    FA4_TRY(check_tensor(b, &t->v, "v", err));
    FA4_TRY(check_tensor(b, &t->o, "o", err));
    return plan->header.problem.lse ? check_tensor(b, &t->lse, "lse", err) : FA4_OK;
}

static fa4_status encode_maps(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, FwdParams *params, fa4_error *err) {
    static const char *const of[FWD_MAP_COUNT] = {"q", "k", "v", "o"};
    static const uint32_t ones[KERNEL_TENSORMAP_RANK_MAX] = {1, 1, 1, 1, 1};
    kernel_tensormap maps[FWD_MAP_COUNT];
    FA4_TRY(kernel_launch_maps(plan, tensors, b->nothing, maps, err));
    for (int i = 0; i < FWD_MAP_COUNT; i++) {
        const kernel_tensormap *m = &maps[i];
        fa4_status status = kernel_tensormap_check(m, err);
        if (status == FA4_OK)
            status = cuda_check(&b->driver,
                                b->driver.cuTensorMapEncodeTiled(&params->map[i], m->type, (unsigned)m->rank, (void *)(uintptr_t)m->address,
                                                                 m->dims, m->strides + 1, m->box, ones, 0, m->swizzle, m->l2_promotion, 0),
                                "cuTensorMapEncodeTiled", "describing a tensor", err);
        if (status == FA4_OK) continue;
        error_prefix(err, "%s", of[i]);
        return status;
    }
    return FA4_OK;
}

/* Sets anew what the kernel writes in the plan's lists. The Hopper kernel leaves its task counter at 0, unless it was cut short. */
static fa4_status reset_lists(backend *b, cuda_launch *kept, CUstream stream, fa4_error *err) {
    const kernel_launch *l = kept->launch;
    for (int which = KERNEL_UPLOAD_NEXT_TASK; which <= KERNEL_UPLOAD_COUNTERS; which++) {
        bool needed = which == KERNEL_UPLOAD_COUNTERS || l->variant.arch != 90 || !kept->fresh;
        if (l->upload_size[which] == 0 || !needed) continue;
        CUDA_TRY(&b->driver, cuMemcpyHtoDAsync_v2, "setting a plan's counters", err, kept->lists + (uint64_t)l->upload_offset[which],
                 l->upload + l->upload_offset[which], (size_t)l->upload_size[which], stream);
    }
    return FA4_OK;
}

static fa4_status read_counters(backend *b, const fa4_plan *plan, const cuda_launch *kept, fa4_counters *per_head, fa4_error *err) {
    const kernel_launch *l = kept->launch;
    int64_t bytes = l->upload_size[KERNEL_UPLOAD_COUNTERS];
    if (bytes == 0) return FA4_OK;
    FwdCounters *counters = malloc((size_t)bytes);
    if (counters == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory for %" PRId64 " bytes", bytes);
    CUdeviceptr from = kept->lists + (uint64_t)l->upload_offset[KERNEL_UPLOAD_COUNTERS];
    fa4_status status = cuda_check(&b->driver, b->driver.cuMemcpyDtoHAsync_v2(counters, from, (size_t)bytes, b->stream), "cuMemcpyDtoHAsync",
                                   "reading a plan's counters", err);
    if (status == FA4_OK)
        status = cuda_check(&b->driver, b->driver.cuStreamSynchronize(b->stream), "cuStreamSynchronize", "reading a plan's counters", err);
    if (status == FA4_OK) kernel_launch_counters(plan, counters, per_head);
    free(counters);
    return status;
}

/* Puts the kernel on a stream, behind what resets its lists. */
static fa4_status queue_kernel(backend *b, cuda_launch *kept, CUfunction function, FwdParams *params, CUstream stream, fa4_error *err) {
    const kernel_launch *l = kept->launch;
    const CUlaunchConfig config = {.gridDimX = l->grid, .gridDimY = 1, .gridDimZ = 1, .blockDimX = l->block, .blockDimY = 1, .blockDimZ = 1,
                                   .sharedMemBytes = l->smem_bytes, .hStream = stream};
    void *arguments[] = {params};
    CUDA_TRY(&b->driver, cuLaunchKernelEx, "launching a kernel", err, &config, function, arguments, NULL);
    return FA4_OK;
}

static fa4_status launch_and_wait(backend *b, cuda_launch *kept, CUfunction function, FwdParams *params, double *time_us, fa4_error *err) {
    float ms = 0;
    FA4_TRY(reset_lists(b, kept, b->stream, err));
    kept->fresh = false;
    CUDA_TRY(&b->driver, cuEventRecord, "timing a kernel", err, b->from, b->stream);
    FA4_TRY(queue_kernel(b, kept, function, params, b->stream, err));
    CUDA_TRY(&b->driver, cuEventRecord, "timing a kernel", err, b->to, b->stream);
    FA4_TRY(cuda_wait(b, b->to, "running a kernel", err));
    CUDA_TRY(&b->driver, cuEventElapsedTime, "timing a kernel", err, &ms, b->from, b->to);
    kept->fresh = true;
    *time_us = (double)ms * 1e3;
    return FA4_OK;
}

static fa4_status run(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, fa4_report *report, fa4_counters *per_head, fa4_error *err) {
    cuda_launch *kept = NULL;
    CUfunction function = NULL;
    FwdParams params;
    FA4_TRY(check_tensors(b, plan, tensors, err));
    FA4_TRY(enter(b, err));
    FA4_TRY(cuda_launch_get(b, plan, tensors->o.dtype == FA4_F32, &kept, err));
    report->workers = (int32_t)kept->launch->grid;
    report->threads = 1;
    snprintf(report->device, sizeof report->device, "%s", b->label);
    snprintf(report->path, sizeof report->path, "%s", kernel_variant_arch(&kept->launch->variant));
    if (kept->launch->grid == 0) return FA4_OK;
    FA4_TRY(cuda_kernel_get(b, &kept->launch->variant, &function, err));
    kernel_launch_params(plan, kept->launch, tensors, kept->lists, &params);
    FA4_TRY(encode_maps(b, plan, tensors, &params, err));
    FA4_TRY(launch_and_wait(b, kept, function, &params, &report->time_us, err));
    return read_counters(b, plan, kept, per_head, err);
}

static fa4_status launch(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, void *stream, fa4_error *err) {
    cuda_launch *kept = NULL;
    CUfunction function = NULL;
    FwdParams params;
    FA4_TRY(check_tensors(b, plan, tensors, err));
    FA4_TRY(enter(b, err));
    FA4_TRY(cuda_launch_get(b, plan, tensors->o.dtype == FA4_F32, &kept, err));
    if (kept->launch->grid == 0) return FA4_OK;
    FA4_TRY(cuda_kernel_get(b, &kept->launch->variant, &function, err));
    kernel_launch_params(plan, kept->launch, tensors, kept->lists, &params);
    FA4_TRY(encode_maps(b, plan, tensors, &params, err));
    FA4_TRY(reset_lists(b, kept, stream, err));
    return queue_kernel(b, kept, function, &params, stream, err);
}

const backend_functions cuda_backend = {.name = "cuda",
                                        .open = open_backend,
                                        .close = close_backend,
                                        .limits = limits_of,
                                        .supports = supports,
                                        .buffer_create = buffer_create,
                                        .buffer_destroy = buffer_destroy,
                                        .buffer_write = buffer_write,
                                        .buffer_read = buffer_read,
                                        .run = run,
                                        .launch = launch};
