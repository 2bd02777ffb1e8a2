/* What the backend's files share: the open device, its kept modules and launches. */
#ifndef FA4_CUDA_CUDA_INTERNAL_H
#define FA4_CUDA_CUDA_INTERNAL_H

#include "cuda/cuda.h"
#include "cuda/driver.h"
#include "kernel/launch.h"
#include "kernel/variant.h"

#include <stdbool.h>

enum { CUDA_MODULES_MAX = 16, CUDA_LAUNCHES_MAX = 16, CUDA_FREE_BLOCKS_MAX = 4096, CUDA_BLOCK_CLASSES = 16 * 56, CUDA_FREE_BYTES_MAX = 1 << 28, CUDA_STAGING_BYTES = 4 << 20 };

/* A kernel on the device. */
typedef struct cuda_kernel {
    char name[KERNEL_NAME_BYTES];
    CUmodule module;
    CUfunction function;
    CUfunction combine; /* fa4_combine, of variants with split keys */
} cuda_kernel;

/* The part of a launch that follows from the plan, with its lists on the device; kept, because plans are run many times. */
typedef struct cuda_launch {
    uint64_t plan_hash;
    int32_t o_f32;
    kernel_launch *launch;
    CUdeviceptr lists;
    CUfunction function, combine; /* of the kept kernels; NULL = to be looked up */
    bool fresh; /* false once a run of it failed: what the kernel writes there is to be set anew */
    bool filled;         /* params are those of these tensors */
    fa4_tensors tensors;
    FwdParams params;
} cuda_launch;

/* A freed block of device memory, kept for the next tensor of its size. */
typedef struct cuda_block {
    CUdeviceptr address;
    int32_t next; /* of its class: place in free_blocks, from 1; 0: the last */
} cuda_block;

struct backend {
    backend_env env;
    cuda_driver driver;
    CUdevice device;
    int32_t ordinal;
    CUcontext context;
    CUstream stream;
    CUevent from, to;         /* around a run whose time is asked for */
    CUevent done, staged[2];  /* without a time: seen 1.6 us sooner on an H200 */
    void *staging;        /* two pinned halves of CUDA_STAGING_BYTES; NULL until they are needed */
    bool staging_refused; /* there is no pinned memory */
    bool queued;          /* work may be running that nobody waited for */
    CUdeviceptr nothing; /* where maps of empty tensors point */
    char name[64], label[96];
    int32_t major, minor, sms, l2_bytes, smem_bytes;
    kernel_images *images;
    cuda_kernel kernels[CUDA_MODULES_MAX];
    cuda_launch launches[CUDA_LAUNCHES_MAX];
    cuda_block free_blocks[CUDA_FREE_BLOCKS_MAX];
    int32_t first_free[CUDA_BLOCK_CLASSES], first_unused, free_places;
    int64_t free_bytes;
    int32_t kernel_count, next_kernel, launch_count, next_launch;
};

/* Opens and closes everything of struct backend but its kept kernels. */
fa4_status cuda_device_open(backend *b, const char *device, fa4_error *err);
void cuda_device_close(backend *b);
/* Every call from outside begins here. */
fa4_status cuda_enter(backend *b, fa4_error *err);
/* The plan's launch and its kernel, made once; the oldest gives way. */
fa4_status cuda_launch_get(backend *b, const fa4_plan *plan, int32_t o_f32, cuda_launch **launch, fa4_error *err);
void cuda_kept_free(backend *b);

fa4_status cuda_buffer_create(backend *b, int64_t bytes, void **buffer, fa4_error *err);
void cuda_buffer_destroy(backend *b, void *buffer, int64_t bytes);
fa4_status cuda_buffer_write(backend *b, void *buffer, int64_t offset, const void *host, int64_t bytes, fa4_error *err);
fa4_status cuda_buffer_read(backend *b, const void *buffer, int64_t offset, void *host, int64_t bytes, fa4_error *err);
void cuda_memory_trim(backend *b); /* gives kept blocks back to the driver */

fa4_status cuda_run(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, fa4_report *report, fa4_counters *per_head, fa4_error *err);
/* Queues a run on a stream of the caller's. */
fa4_status cuda_launch_on(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, void *stream, fa4_error *err);
fa4_status cuda_finish(backend *b, fa4_error *err);
/* Waits for an event, Ctrl-C honoured: FA4_INTERRUPTED leaves the work running. */
fa4_status cuda_wait(backend *b, CUevent event, const char *doing, fa4_error *err);

#endif
