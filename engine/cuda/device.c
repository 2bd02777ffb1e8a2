/* Choosing a GPU by name and opening it: context, stream, events. A device without a kernel is refused by its own name. */
#include "cuda/cuda_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "cuda", "cuda:N", "cuda:sm_90a", "cuda:sm_100a". arch: 0 = any. */
static fa4_status parse_name(const char *name, int32_t *ordinal, int32_t *arch, fa4_error *err) {
    const char *which = strchr(name, ':');
    *ordinal = *arch = 0;
    if (which == NULL) return FA4_OK;
    which++;
    if (strcmp(which, "sm_90a") == 0 || strcmp(which, "sm_100a") == 0) {
        *arch = strcmp(which, "sm_90a") == 0 ? 90 : 100;
        return FA4_OK;
    }
    char *end = NULL;
    long n = strtol(which, &end, 10);
    if (end == which || *end != '\0' || n < 0 || n > 1023)
        return error_set(err, FA4_NO_DEVICE,
                         "device: \"%.40s\" is not known; GPUs are \"cuda\", \"cuda:0\", \"cuda:1\", ..., \"cuda:sm_90a\", \"cuda:sm_100a\"", name);
    *ordinal = (int32_t)n;
    return FA4_OK;
}

static fa4_status ask(backend *b, int attribute, int32_t *value, fa4_error *err) {
    int got = 0;
    CUDA_TRY(&b->driver, cuDeviceGetAttribute, "asking what the device can do", err, &got, attribute, b->device);
    *value = got;
    return FA4_OK;
}

/* arch: what the caller asked for, 0 = what the device has. */
static fa4_status check_capability(const backend *b, int32_t arch, fa4_error *err) {
    bool hopper = b->major == 9 && b->minor == 0, blackwell = b->major == 10 && b->minor == 0;
    if ((hopper && arch != 100) || (blackwell && arch != 90)) return FA4_OK;
    if (hopper || blackwell)
        return error_set(err, FA4_NO_DEVICE,
                         "device: \"cuda:sm_%da\" needs compute capability %s, cuda:%d is %s of capability %d.%d; here \"cuda:sm_%s\", \"cpu\", "
                         "\"emu:sm_100a\" and \"emu:sm_90a\" can run",
                         arch, arch == 90 ? "9.0" : "10.0", b->ordinal, b->name, b->major, b->minor, hopper ? "90a" : "100a");
    const char *reason = b->major == 10   ? "sm_100a's kernel runs on 10.0 alone"
                         : b->major >= 11 ? "it has no tensor memory for sm_100a's kernel and no wgmma for sm_90a's"
                                          : "it has no bulk tensor copies";
    return error_set(err, FA4_NO_DEVICE,
                     "device: cuda:%d is %s of compute capability %d.%d, the kernels need 9.0 (sm_90a) or 10.0 (sm_100a): %s; here \"cpu\", "
                     "\"emu:sm_100a\" and \"emu:sm_90a\" can run",
                     b->ordinal, b->name, b->major, b->minor, reason);
}

static fa4_status choose(backend *b, int32_t arch, fa4_error *err) {
    int count = 0;
    CUDA_TRY(&b->driver, cuDeviceGetCount, "counting devices", err, &count);
    if (b->ordinal >= count)
        return error_set(err, FA4_NO_DEVICE, "device: there is no cuda:%d, the driver sees %d device%s", b->ordinal, count, count == 1 ? "" : "s");
    CUDA_TRY(&b->driver, cuDeviceGet, "choosing a device", err, &b->device, b->ordinal);
    CUDA_TRY(&b->driver, cuDeviceGetName, "choosing a device", err, b->name, (int)sizeof b->name, b->device);
    FA4_TRY(ask(b, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &b->major, err));
    FA4_TRY(ask(b, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &b->minor, err));
    FA4_TRY(ask(b, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &b->sms, err));
    FA4_TRY(ask(b, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &b->l2_bytes, err));
    FA4_TRY(ask(b, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &b->smem_bytes, err));
    snprintf(b->label, sizeof b->label, "cuda:%d %s", b->ordinal, b->name);
    return check_capability(b, arch, err);
}

fa4_status cuda_device_open(backend *b, const char *device, fa4_error *err) {
    int32_t arch = 0;
    FA4_TRY(parse_name(device, &b->ordinal, &arch, err));
    FA4_TRY(cuda_driver_open(&b->driver, err));
    FA4_TRY(choose(b, arch, err));
    CUDA_TRY(&b->driver, cuDevicePrimaryCtxRetain, "opening the device", err, &b->context, b->device);
    CUDA_TRY(&b->driver, cuCtxSetCurrent, "opening the device", err, b->context);
    CUDA_TRY(&b->driver, cuStreamCreate, "opening the device", err, &b->stream, CU_STREAM_NON_BLOCKING);
    CUDA_TRY(&b->driver, cuEventCreate, "opening the device", err, &b->from, 0);
    CUDA_TRY(&b->driver, cuEventCreate, "opening the device", err, &b->to, 0);
    CUDA_TRY(&b->driver, cuEventCreate, "opening the device", err, &b->done, CU_EVENT_DISABLE_TIMING);
    for (int i = 0; i < 2; i++) CUDA_TRY(&b->driver, cuEventCreate, "opening the device", err, &b->staged[i], CU_EVENT_DISABLE_TIMING);
    CUDA_TRY(&b->driver, cuMemAlloc_v2, "opening the device", err, &b->nothing, 256);
    return FA4_OK;
}

/* Runs on failure too, with what there is; nothing here can be repaired, so results are not looked at. */
void cuda_device_close(backend *b) {
    if (b->driver.library == NULL) return;
    if (b->context != NULL) {
        (void)b->driver.cuCtxSetCurrent(b->context);
        cuda_memory_trim(b);
        if (b->staging != NULL) (void)b->driver.cuMemFreeHost(b->staging);
        for (int i = 0; i < 2; i++)
            if (b->staged[i] != NULL) (void)b->driver.cuEventDestroy_v2(b->staged[i]);
        if (b->nothing != 0) (void)b->driver.cuMemFree_v2(b->nothing);
        if (b->done != NULL) (void)b->driver.cuEventDestroy_v2(b->done);
        if (b->to != NULL) (void)b->driver.cuEventDestroy_v2(b->to);
        if (b->from != NULL) (void)b->driver.cuEventDestroy_v2(b->from);
        if (b->stream != NULL) (void)b->driver.cuStreamDestroy_v2(b->stream);
        (void)b->driver.cuDevicePrimaryCtxRelease_v2(b->device);
    }
    cuda_driver_close(&b->driver);
}
