/* What the backend's files share: the open device, its kept modules and launches. */
#ifndef FA4_CUDA_CUDA_INTERNAL_H
#define FA4_CUDA_CUDA_INTERNAL_H

#include "cuda/cuda.h"
#include "cuda/driver.h"
#include "kernel/launch.h"
#include "kernel/variant.h"

#include <stdbool.h>

enum { CUDA_MODULES_MAX = 16, CUDA_LAUNCHES_MAX = 8 };

/* A kernel on the device. */
typedef struct cuda_kernel {
    char name[KERNEL_NAME_BYTES];
    CUmodule module;
    CUfunction function;
} cuda_kernel;

/* The part of a launch that follows from the plan, with its lists on the device; kept, because plans are run many times. */
typedef struct cuda_launch {
    uint64_t plan_hash;
    int32_t o_f32;
    kernel_launch *launch;
    CUdeviceptr lists;
    bool fresh; /* false once a run of it failed: what the kernel writes there is to be set anew */
} cuda_launch;

struct backend {
    backend_env env;
    cuda_driver driver;
    CUdevice device;
    int32_t ordinal;
    CUcontext context;
    CUstream stream;
    CUevent from, to;
    CUdeviceptr nothing; /* where maps of empty tensors point */
    char name[64], label[96];
    int32_t major, minor, sms, l2_bytes, smem_bytes;
    kernel_images *images;
    cuda_kernel kernels[CUDA_MODULES_MAX];
    cuda_launch launches[CUDA_LAUNCHES_MAX];
    int32_t kernel_count, next_kernel, launch_count, next_launch;
};

/* Opens and closes everything of struct backend but its kept kernels. */
fa4_status cuda_device_open(backend *b, const char *device, fa4_error *err);
void cuda_device_close(backend *b);
/* The variant's kernel, loaded once; the oldest gives way. */
fa4_status cuda_kernel_get(backend *b, const FwdVariant *variant, CUfunction *function, fa4_error *err);
/* The plan's launch, likewise. */
fa4_status cuda_launch_get(backend *b, const fa4_plan *plan, int32_t o_f32, cuda_launch **launch, fa4_error *err);
void cuda_kept_free(backend *b);
/* Waits for an event, Ctrl-C honoured: FA4_INTERRUPTED leaves the work running. */
fa4_status cuda_wait(backend *b, CUevent event, const char *doing, fa4_error *err);

#endif
