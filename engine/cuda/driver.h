/*
 * The CUDA driver through dlopen: only what is used is declared, under the driver's own names and numbers. Every call goes through
 * cuda_check, which names the call, what it was for, and the driver's own words.
 */
#ifndef FA4_CUDA_DRIVER_H
#define FA4_CUDA_DRIVER_H

#include "core/error.h"

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_NOT_READY = 600,
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
    CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
    CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6
};

/* The driver's CUlaunchAttribute: of its values one is used. */
typedef struct CUlaunchAttribute {
    int id;
    int padding;
    union {
        int programmatic_stream_serialization;
        char bytes[64];
    } value;
} CUlaunchAttribute;

/* The driver's CUlaunchConfig. */
typedef struct CUlaunchConfig {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

/* Exported name, result, arguments. */
// clang-format off
#define CUDA_CALLS(_)                                                                                                              \
    _(cuInit, (unsigned flags))                                                                                                    \
    _(cuDriverGetVersion, (int *version))                                                                                          \
    _(cuDeviceGetCount, (int *count))                                                                                              \
    _(cuDeviceGet, (CUdevice *device, int ordinal))                                                                                \
    _(cuDeviceGetName, (char *name, int bytes, CUdevice device))                                                                   \
    _(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))                                                          \
    _(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))                                                             \
    _(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                                             \
    _(cuCtxSetCurrent, (CUcontext context))                                                                                        \
    _(cuStreamCreate, (CUstream *stream, unsigned flags))                                                                          \
    _(cuStreamDestroy_v2, (CUstream stream))                                                                                       \
    _(cuStreamSynchronize, (CUstream stream))                                                                                      \
    _(cuEventCreate, (CUevent *event, unsigned flags))                                                                             \
    _(cuEventDestroy_v2, (CUevent event))                                                                                          \
    _(cuEventRecord, (CUevent event, CUstream stream))                                                                             \
    _(cuEventQuery, (CUevent event))                                                                                               \
    _(cuEventElapsedTime, (float *ms, CUevent from, CUevent to))                                                                   \
    _(cuMemAlloc_v2, (CUdeviceptr *address, size_t bytes))                                                                         \
    _(cuMemAllocHost_v2, (void **address, size_t bytes))                                                                           \
    _(cuMemFreeHost, (void *address))                                                                                              \
    _(cuMemFree_v2, (CUdeviceptr address))                                                                                         \
    _(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                                     \
    _(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                           \
    _(cuModuleLoadData, (CUmodule *module, const void *image))                                                                     \
    _(cuModuleUnload, (CUmodule module))                                                                                           \
    _(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name))                                              \
    _(cuFuncSetAttribute, (CUfunction function, int attribute, int value))                                                         \
    _(cuTensorMapEncodeTiled, (void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,   \
                               const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int promotion,   \
                               int fill))                                                                                          \
    _(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra))                       \
    _(cuGetErrorName, (CUresult error, const char **text))                                                                         \
    _(cuGetErrorString, (CUresult error, const char **text))
// clang-format on

typedef struct cuda_driver {
    void *library;
    int version;         /* 13000 = 13.0 */
    char broken[256];    /* the failure after which the driver refuses this process; "" = none */
#define CUDA_FIELD(name, arguments) CUresult(*name) arguments;
    CUDA_CALLS(CUDA_FIELD)
#undef CUDA_FIELD
} cuda_driver;

/* Loads the driver and starts it. FA4_NO_DEVICE says what is missing. */
fa4_status cuda_driver_open(cuda_driver *driver, fa4_error *err);
void cuda_driver_close(cuda_driver *driver); /* the library stays loaded: its threads may live on */
/* FA4_OK, or the failure of `call` while `doing`: FA4_NO_MEMORY, FA4_NO_DEVICE or FA4_DEVICE_ERROR. Remembers failures that last. */
fa4_status cuda_check(cuda_driver *driver, CUresult result, const char *call, const char *doing, fa4_error *err);
/* Refuses work after a failure that lasts. */
fa4_status cuda_usable(const cuda_driver *driver, fa4_error *err);

/* driver->name(arguments), checked, from a function that returns fa4_status. */
#define CUDA_TRY(driver, name, doing, err, ...) FA4_TRY(cuda_check(driver, (driver)->name(__VA_ARGS__), #name, doing, err))

#endif
