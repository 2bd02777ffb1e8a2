/* The fake driver: cuda/driver.h's calls over host memory. Each counts, fails when it is told to, and keeps what the specs ask about. It
 * runs no kernel. */
#include "fake_cuda.h"

#include "cuda/driver.h"
#include "../../kernels/params.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fake_cuda state;
fake_cuda *fake_cuda_state(void);
fake_cuda *fake_cuda_state(void) {
    return &state;
}

static CUresult enter(const char *name) {
    if (++state.calls != state.fail_at) return CUDA_SUCCESS;
    strncpy(state.failed, name, sizeof state.failed - 1);
    return state.fail_code;
}

/* Declares and defines one call. */
#define CALL(name, arguments)                                                                      \
    CUresult name arguments;                                                                       \
    CUresult name arguments
#define ENTER()                                                                                    \
    CUresult entered = enter(__func__);                                                            \
    if (entered != CUDA_SUCCESS) return entered

enum { INVALID = 1, OUT_OF_MEMORY = 2 };

/* Handles are small allocations, so that a leak checker sees a lost one. */
static void *handle(void) {
    state.live++;
    return malloc(16);
}
static CUresult drop(void *h) {
    if (h == NULL) return INVALID;
    free(h);
    state.live--;
    return CUDA_SUCCESS;
}

/* A program that cannot write the state names a capability, "8.0", and gets one device of it. */
static void read_environment(void) {
    const char *capability = getenv("FA4_FAKE_CUDA");
    int major, minor;
    if (state.devices > 0 || capability == NULL || sscanf(capability, "%d.%d", &major, &minor) != 2) return;
    state.major = major, state.minor = minor;
    state.devices = 1;
    state.memory_bytes = 1ll << 30;
}

CALL(cuInit, (unsigned flags)) {
    ENTER();
    read_environment();
    return flags == 0 ? (state.devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE) : INVALID;
}
CALL(cuDriverGetVersion, (int *version)) {
    ENTER();
    *version = 13000;
    return CUDA_SUCCESS;
}
CALL(cuDeviceGetCount, (int *count)) {
    ENTER();
    *count = state.devices;
    return CUDA_SUCCESS;
}
CALL(cuDeviceGet, (CUdevice * device, int ordinal)) {
    ENTER();
    *device = ordinal;
    return CUDA_SUCCESS;
}
CALL(cuDeviceGetName, (char *name, int bytes, CUdevice device)) {
    ENTER();
    (void)device;
    strncpy(name, "Fake GPU", (size_t)bytes);
    return CUDA_SUCCESS;
}
CALL(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device)) {
    ENTER();
    (void)device;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 132; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 50 << 20; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = state.major; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = state.minor; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 232448; return CUDA_SUCCESS;
    }
    return INVALID;
}
CALL(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device)) {
    ENTER();
    (void)device;
    static int one;
    state.live++;
    *context = (CUcontext)(void *)&one;
    return CUDA_SUCCESS;
}
CALL(cuDevicePrimaryCtxRelease_v2, (CUdevice device)) {
    ENTER();
    (void)device;
    state.live--;
    return CUDA_SUCCESS;
}
CALL(cuCtxSetCurrent, (CUcontext context)) {
    ENTER();
    return context != NULL ? CUDA_SUCCESS : INVALID;
}
CALL(cuStreamCreate, (CUstream * stream, unsigned flags)) {
    ENTER();
    (void)flags;
    *stream = handle();
    return CUDA_SUCCESS;
}
CALL(cuStreamDestroy_v2, (CUstream stream)) {
    ENTER();
    return drop(stream);
}
CALL(cuStreamSynchronize, (CUstream stream)) {
    ENTER();
    return stream != NULL ? CUDA_SUCCESS : INVALID;
}
CALL(cuEventCreate, (CUevent * event, unsigned flags)) {
    ENTER();
    (void)flags;
    *event = handle();
    return CUDA_SUCCESS;
}
CALL(cuEventDestroy_v2, (CUevent event)) {
    ENTER();
    return drop(event);
}
CALL(cuEventRecord, (CUevent event, CUstream stream)) {
    ENTER();
    return event != NULL && stream != NULL ? CUDA_SUCCESS : INVALID;
}
CALL(cuEventQuery, (CUevent event)) {
    ENTER();
    (void)event;
    if (state.not_ready < 0) return CUDA_ERROR_NOT_READY;
    return state.not_ready-- > 0 ? CUDA_ERROR_NOT_READY : (state.not_ready = 0, CUDA_SUCCESS);
}
CALL(cuEventElapsedTime, (float *ms, CUevent from, CUevent to)) {
    ENTER();
    *ms = 0.125f;
    return from != NULL && to != NULL ? CUDA_SUCCESS : INVALID;
}
CALL(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes)) {
    ENTER();
    if (bytes == 0) return INVALID;
    if (state.live_bytes + (int64_t)bytes > state.memory_bytes) return OUT_OF_MEMORY;
    size_t *block = aligned_alloc(256, (bytes + 511) / 256 * 256);
    block[0] = bytes; /* before the 256-byte aligned start */
    state.live++;
    state.live_bytes += (int64_t)bytes;
    *address = (CUdeviceptr)(uintptr_t)block + 256;
    return CUDA_SUCCESS;
}
CALL(cuMemFree_v2, (CUdeviceptr address)) {
    ENTER();
    size_t *block = (size_t *)(uintptr_t)(address - 256);
    state.live_bytes -= (int64_t)block[0];
    return drop(block);
}
CALL(cuMemAllocHost_v2, (void **address, size_t bytes)) {
    ENTER();
    if (state.no_pinned) return OUT_OF_MEMORY;
    *address = malloc(bytes);
    state.live++;
    return CUDA_SUCCESS;
}
CALL(cuMemFreeHost, (void *address)) {
    ENTER();
    return drop(address);
}
CALL(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream)) {
    ENTER();
    memcpy((void *)(uintptr_t)to, from, bytes);
    return stream != NULL ? CUDA_SUCCESS : INVALID;
}
CALL(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream)) {
    ENTER();
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return stream != NULL ? CUDA_SUCCESS : INVALID;
}
CALL(cuModuleLoadData, (CUmodule * module, const void *image)) {
    ENTER();
    if (memcmp(image, "\177ELF", 4) != 0) return INVALID; /* a cubin */
    *module = handle();
    return CUDA_SUCCESS;
}
CALL(cuModuleUnload, (CUmodule module)) {
    ENTER();
    return drop(module);
}
CALL(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name)) {
    ENTER();
    *function = (CUfunction)(void *)module;
    return strcmp(name, FWD_KERNEL_NAME) == 0 || strcmp(name, FWD_COMBINE_NAME) == 0 ? CUDA_SUCCESS : 500;
}
CALL(cuFuncSetAttribute, (CUfunction function, int attribute, int value)) {
    ENTER();
    if (value > state.smem_limit) state.smem_limit = value; /* of any kernel */
    return function != NULL && attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? CUDA_SUCCESS : INVALID;
}
CALL(cuTensorMapEncodeTiled, (void *map, int type, unsigned rank, void *address, const uint64_t *dims, const uint64_t *strides,
                              const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int promotion, int fill)) {
    ENTER();
    (void)promotion;
    bool good = (uintptr_t)map % 64 == 0 && (uintptr_t)address % 16 == 0 && rank == 4 && (type == 6 || type == 9) && interleave == 0 &&
                swizzle == 3 && fill == 0;
    for (unsigned i = 0; i < rank; i++) good = good && dims[i] > 0 && box[i] > 0 && box[i] <= 256 && element_strides[i] == 1;
    for (unsigned i = 0; i + 1 < rank; i++) good = good && strides[i] % 16 == 0;
    memset(map, 0x5a, FWD_MAP_BYTES);
    state.maps++;
    return good ? CUDA_SUCCESS : INVALID;
}
CALL(cuLaunchKernelEx, (const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)) {
    ENTER();
    state.launches++;
    state.stream = config->hStream;
    state.grid = config->gridDimX;
    state.block = config->blockDimX;
    state.smem_bytes = config->sharedMemBytes;
    memcpy(state.params, arguments[0], sizeof(FwdParams));
    return function != NULL && extra == NULL && config->hStream != NULL && (int)config->sharedMemBytes <= state.smem_limit ? CUDA_SUCCESS
                                                                                                                           : INVALID;
}
CALL(cuGetErrorName, (CUresult error, const char **text)) {
    *text = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 719 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_FAKE";
    return CUDA_SUCCESS;
}
CALL(cuGetErrorString, (CUresult error, const char **text)) {
    (void)error;
    *text = "on order";
    return CUDA_SUCCESS;
}
