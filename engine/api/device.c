/* Device names: from "auto", "cuda" or "emu" to an open backend, and memory on it. */
#include "api/api.h"

#include "cpu/cpu.h"
#include "cuda/cuda.h"
#include "emu/emu_backend.h"
#include "files/files.h"

#include <stdio.h>
#include <string.h>

/* A backend under the prefix that device names begin with, and what the bare prefix means. */
typedef struct known_backend {
    const char *prefix, *whole;
    const backend_functions *functions;
} known_backend;

static const known_backend backends[] = {
    {"cpu", "cpu", &cpu_backend},
    {"emu", "emu:sm_100a", &emu_backend},
    {"cuda", "cuda:0", &cuda_backend},
};

static const known_backend *find_backend(const char *name) {
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++) {
        size_t length = strlen(backends[i].prefix);
        if (strncmp(name, backends[i].prefix, length) == 0 && (name[length] == '\0' || name[length] == ':')) return &backends[i];
    }
    return NULL;
}

static fa4_status open_named(fa4_context *context, const char *name, api_device **device, fa4_error *err) {
    const known_backend *known = find_backend(name);
    if (known == NULL || strncmp(name, "cpu:", 4) == 0)
        return error_set(err, FA4_NO_DEVICE, "device: \"%.40s\" is not known; there are \"auto\", \"cpu\", \"cuda\", \"emu:sm_100a\", \"emu:sm_90a\"", name);
    if (strcmp(name, known->prefix) == 0) name = known->whole;
    for (int32_t i = 0; i < context->device_count; i++)
        if (strcmp(context->devices[i].name, name) == 0) {
            *device = &context->devices[i];
            return FA4_OK;
        }
    if (context->device_count == API_DEVICES_MAX || strlen(name) >= sizeof context->devices[0].name)
        return error_set(err, FA4_NO_DEVICE, "device: \"%.40s\": no more than %d devices in one context", name, API_DEVICES_MAX);
    api_device *opened = &context->devices[context->device_count];
    snprintf(opened->name, sizeof opened->name, "%s", name);
    opened->functions = known->functions;
    fa4_status status = known->functions->open(&context->env, name, &opened->backend, err);
    if (status != FA4_OK) return err == NULL ? status : error_prefix(err, "\"%s\" cannot be used", name);
    context->device_count++;
    *device = opened;
    return FA4_OK;
}

fa4_status api_device_open(fa4_context *context, const char *name, api_device **device, fa4_error *err) {
    if (name != NULL && strcmp(name, "auto") != 0) return open_named(context, name, device, err);
    if (find_backend("cuda") != NULL && open_named(context, "cuda", device, NULL) == FA4_OK) return FA4_OK;
    return open_named(context, "cpu", device, err);
}

fa4_status fa4_device_check(fa4_context *context, const char *name, fa4_error *err) {
    api_device *device = NULL;
    return api_device_open(context, name, &device, err);
}

fa4_status fa4_device_wait(fa4_context *context, const char *name, fa4_error *err) {
    api_device *device = NULL;
    FA4_TRY(api_device_open(context, name, &device, err));
    return device->functions->finish(device->backend, err);
}

static fa4_status device_create(void *state, int64_t bytes, void **data, fa4_error *err) {
    api_device *d = state;
    return d->functions->buffer_create(d->backend, bytes, data, err);
}
static void device_destroy(void *state, void *data, int64_t bytes) {
    api_device *d = state;
    d->functions->buffer_destroy(d->backend, data, bytes);
}
static fa4_status device_write(void *state, void *data, int64_t offset, const void *host, int64_t bytes, fa4_error *err) {
    api_device *d = state;
    return d->functions->buffer_write(d->backend, data, offset, host, bytes, err);
}
static fa4_status device_read(void *state, const void *data, int64_t offset, void *host, int64_t bytes, fa4_error *err) {
    api_device *d = state;
    return d->functions->buffer_read(d->backend, data, offset, host, bytes, err);
}

fa4_status fa4_storage_create(fa4_context *context, int64_t bytes, const char *name, fa4_storage **storage, fa4_error *err) {
    storage_device device = {.create = device_create, .destroy = device_destroy, .write = device_write, .read = device_read};
    bool host = name == NULL || strncmp(name, "cuda", 4) != 0;
    if (!host) {
        api_device *opened = NULL;
        FA4_TRY(api_device_open(context, name, &opened, err));
        device.state = opened;
    }
    api_context_retain(context);
    fa4_status status = storage_create(&context->account, bytes, host ? NULL : &device, api_context_release, context, storage, err);
    if (status != FA4_OK) api_context_release(context);
    return status;
}

static fa4_status create_for_file(void *state, int64_t bytes, fa4_storage **storage, fa4_error *err) {
    return fa4_storage_create(state, bytes, NULL, storage, err);
}

static fa4_status adopt_for_file(void *state, void *data, int64_t bytes, void (*destroy)(void *data, int64_t bytes),
                                 fa4_storage **storage, fa4_error *err) {
    fa4_context *context = state;
    api_context_retain(context);
    fa4_status status =
        storage_adopt(&context->account, data, bytes, destroy, api_context_release, context, storage, err);
    if (status != FA4_OK) api_context_release(context);
    return status;
}

fa4_status fa4_file_open(fa4_context *context, const char *path, int32_t map, fa4_file **file, fa4_error *err) {
    const file_memory memory = {.state = context, .create = create_for_file, .adopt = adopt_for_file};
    return file_open(&memory, path, map, file, err);
}
