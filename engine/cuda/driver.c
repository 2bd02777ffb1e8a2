/* Loading the CUDA driver, and its errors in words. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *open_library(const char **name) {
    static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
    const char *chosen = getenv("FA4_LIBCUDA");
    if (chosen != NULL && *chosen != '\0') {
        *name = chosen;
        return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *name = names[i];
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) return library;
    }
    return NULL;
}

static fa4_status resolve(cuda_driver *driver, const char *name, fa4_error *err) {
    void *address;
#define CUDA_RESOLVE(call, arguments)                                                                                              \
    address = dlsym(driver->library, #call);                                                                                       \
    if (address == NULL)                                                                                                           \
        return error_set(err, FA4_NO_DEVICE, "device: %s has no %s; a driver for CUDA 12.4 or newer is needed", name, #call);      \
    memcpy(&driver->call, &address, sizeof address);
    CUDA_CALLS(CUDA_RESOLVE)
#undef CUDA_RESOLVE
    /* From CUDA 12.8 on. On an H200 the older one took 2.8 to 3.3 us of each waited call. */
    address = dlsym(driver->library, "cuEventElapsedTime_v2");
    if (address != NULL) memcpy(&driver->cuEventElapsedTime, &address, sizeof address);
    return FA4_OK;
}

fa4_status cuda_driver_open(cuda_driver *driver, fa4_error *err) {
    const char *name = NULL;
    memset(driver, 0, sizeof *driver);
    driver->library = open_library(&name);
    if (driver->library == NULL)
        return error_set(err, FA4_NO_DEVICE, "device: no CUDA driver here (%s cannot be loaded); \"cpu\" and \"emu\" need none", name);
    fa4_status status = resolve(driver, name, err);
    if (status == FA4_OK) {
        CUresult result = driver->cuInit(0);
        status = cuda_check(driver, result, "cuInit", "starting the driver", err);
        if (status != FA4_OK && err != NULL) err->status = FA4_NO_DEVICE;
        if (status != FA4_OK) status = FA4_NO_DEVICE;
    }
    if (status == FA4_OK)
        status = cuda_check(driver, driver->cuDriverGetVersion(&driver->version), "cuDriverGetVersion", "starting the driver", err);
    if (status != FA4_OK) cuda_driver_close(driver);
    return status;
}

void cuda_driver_close(cuda_driver *driver) {
    driver->library = NULL;
}

/* Failures after which the driver answers every call of this process with an error. */
static bool lasts(CUresult result) {
    static const CUresult lasting[] = {214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999};
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++)
        if (result == lasting[i]) return true;
    return false;
}

fa4_status cuda_check(cuda_driver *driver, CUresult result, const char *call, const char *doing, fa4_error *err) {
    if (result == CUDA_SUCCESS) return FA4_OK;
    const char *name = NULL, *text = NULL;
    if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) name = "an unknown error";
    if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || text == NULL) text = "no text";
    bool last = lasts(result);
    if (last) snprintf(driver->broken, sizeof driver->broken, "%s: %s (%d) while %s", call, name, result, doing);
    fa4_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? FA4_NO_MEMORY
                        : result == CUDA_ERROR_NO_DEVICE   ? FA4_NO_DEVICE
                                                           : FA4_DEVICE_ERROR;
    return error_set(err, status, "device: %s failed while %s: %s (%d), %s%s", call, doing, name, result, text,
                     last ? "; the driver will refuse further work in this process" : "");
}

fa4_status cuda_usable(const cuda_driver *driver, fa4_error *err) {
    if (driver->broken[0] == '\0') return FA4_OK;
    return error_set(err, FA4_DEVICE_ERROR, "device: an earlier failure lasts (%s): start a new process", driver->broken);
}
