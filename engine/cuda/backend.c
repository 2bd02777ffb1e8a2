/* The GPU backend: one device, one stream, one thread at a time. */
#include "cuda/cuda_internal.h"

#include <stdlib.h>
#include <string.h>

static void close_backend(backend *b) {
    if (b == NULL) return;
    cuda_kept_free(b);
    cuda_device_close(b);
    kernel_images_close(b->images);
    free(b);
}

static fa4_status open_backend(const backend_env *env, const char *device, backend **out, fa4_error *err) {
    backend *b = aligned_alloc(_Alignof(backend), sizeof *b); /* tensor maps lie on 64 bytes */
    if (b == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    memset(b, 0, sizeof *b);
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

/* Another thread, or another library, may have made another context current. */
fa4_status cuda_enter(backend *b, fa4_error *err) {
    FA4_TRY(cuda_usable(&b->driver, err));
    CUDA_TRY(&b->driver, cuCtxSetCurrent, "entering the device", err, b->context);
    return FA4_OK;
}

const backend_functions cuda_backend = {.name = "cuda",
                                        .open = open_backend,
                                        .close = close_backend,
                                        .limits = limits_of,
                                        .supports = supports,
                                        .buffer_create = cuda_buffer_create,
                                        .buffer_destroy = cuda_buffer_destroy,
                                        .buffer_write = cuda_buffer_write,
                                        .buffer_read = cuda_buffer_read,
                                        .run = cuda_run,
                                        .launch = cuda_launch_on,
                                        .queues = true,
                                        .finish = cuda_finish};
