/* Runs of plans: what a plan needs on the device is made once, what its tensors need is made anew only when they change, so that a
 * repeated call is two events and one launch (two, where keys are split). */
#include "cuda/cuda_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPIN_POLLS = 4000, SLEEP_NS = 50000 };

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

/* ---- tensors ---- */

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

/* Views are equal when all that is used of them is; the LSE's is compared too where nobody asked for it, which costs a new map at worst. */
static bool same_tensors(const fa4_tensors *a, const fa4_tensors *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* The parameter block for these tensors: the last one, or a new one. */
static fa4_status fill_params(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, cuda_launch *kept, fa4_error *err) {
    if (kept->filled && same_tensors(&kept->tensors, tensors)) return FA4_OK;
    kept->filled = false;
    kernel_launch_params(plan, kept->launch, tensors, kept->lists, &kept->params);
    FA4_TRY(encode_maps(b, plan, tensors, &kept->params, err));
    memcpy(&kept->tensors, tensors, sizeof *tensors);
    kept->filled = true;
    return FA4_OK;
}

/* ---- launches ---- */

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

/* Puts the kernel, and what joins split keys, on a stream. */
static fa4_status queue_kernels(backend *b, cuda_launch *kept, CUstream stream, fa4_error *err) {
    const kernel_launch *l = kept->launch;
    CUlaunchConfig config = {.gridDimX = l->grid, .gridDimY = 1, .gridDimZ = 1, .blockDimX = l->block, .blockDimY = 1, .blockDimZ = 1,
                             .sharedMemBytes = l->smem_bytes, .hStream = stream};
    void *arguments[] = {&kept->params};
    CUDA_TRY(&b->driver, cuLaunchKernelEx, "launching a kernel", err, &config, kept->function, arguments, NULL);
    if (l->combine_grid == 0) return FA4_OK;
    /* It starts while the parts are still being computed, and waits for them on the device: no gap between the two. */
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, .value.programmatic_stream_serialization = 1};
    config.attrs = &early, config.numAttrs = 1;
    config.gridDimX = l->combine_grid, config.blockDimX = FWD_COMBINE_THREADS, config.sharedMemBytes = 0;
    CUDA_TRY(&b->driver, cuLaunchKernelEx, "launching a combine", err, &config, kept->combine, arguments, NULL);
    return FA4_OK;
}

static fa4_status launch_and_wait(backend *b, cuda_launch *kept, double *time_us, fa4_error *err) {
    float ms = 0;
    CUDA_TRY(&b->driver, cuEventRecord, "timing a kernel", err, b->from, b->stream);
    FA4_TRY(queue_kernels(b, kept, b->stream, err));
    CUDA_TRY(&b->driver, cuEventRecord, "timing a kernel", err, b->to, b->stream);
    FA4_TRY(cuda_wait(b, b->to, "running a kernel", err));
    CUDA_TRY(&b->driver, cuEventElapsedTime, "timing a kernel", err, &ms, b->from, b->to);
    *time_us = (double)ms * 1e3;
    return FA4_OK;
}

/* After a failure nobody knows how far the queued kernels came. */
static void doubt_lists(backend *b) {
    for (int32_t i = 0; i < b->launch_count; i++) b->launches[i].fresh = false;
}

fa4_status cuda_finish(backend *b, fa4_error *err) {
    if (!b->queued) return FA4_OK;
    FA4_TRY(cuda_enter(b, err));
    CUDA_TRY(&b->driver, cuEventRecord, "running queued kernels", err, b->done, b->stream);
    fa4_status status = cuda_wait(b, b->done, "running queued kernels", err);
    if (status == FA4_OK) b->queued = false;
    else doubt_lists(b);
    return status;
}

static void name_run(const backend *b, const cuda_launch *kept, fa4_report *report) {
    report->workers = (int32_t)kept->launch->grid;
    report->threads = 1;
    memcpy(report->device, b->label, sizeof b->label);
    snprintf(report->path, sizeof report->path, "%s", kernel_variant_arch(&kept->launch->variant));
}

/* The plan's launch, its parameters those of the tensors. */
static fa4_status prepare(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, cuda_launch **kept, fa4_error *err) {
    FA4_TRY(check_tensors(b, plan, tensors, err));
    FA4_TRY(cuda_enter(b, err));
    FA4_TRY(cuda_launch_get(b, plan, tensors->o.dtype == FA4_F32, kept, err));
    return (*kept)->launch->grid == 0 ? FA4_OK : fill_params(b, plan, tensors, *kept, err);
}

fa4_status cuda_launch_on(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, void *stream, fa4_error *err) {
    cuda_launch *kept = NULL;
    FA4_TRY(prepare(b, plan, tensors, &kept, err));
    if (kept->launch->grid == 0) return FA4_OK;
    FA4_TRY(reset_lists(b, kept, stream, err));
    return queue_kernels(b, kept, stream, err);
}

fa4_status cuda_run(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, fa4_report *report, fa4_counters *per_head, fa4_error *err) {
    cuda_launch *kept = NULL;
    if (report == NULL) {
        FA4_TRY(cuda_launch_on(b, plan, tensors, b->stream, err));
        b->queued = true;
        return FA4_OK;
    }
    FA4_TRY(prepare(b, plan, tensors, &kept, err));
    name_run(b, kept, report);
    if (kept->launch->grid == 0) return FA4_OK;
    FA4_TRY(reset_lists(b, kept, b->stream, err));
    kept->fresh = false;
    FA4_TRY(launch_and_wait(b, kept, &report->time_us, err));
    b->queued = false;
    kept->fresh = true;
    return read_counters(b, plan, kept, per_head, err);
}
