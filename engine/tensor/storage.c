/* Storages: reference-counted memory with byte accounting. Frees at the last release, or at once on
 * request. */
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { STORAGE_ALIGNMENT = 64 };

struct fa4_storage {
    int64_t count;
    int64_t bytes;
    void *data;
    int32_t freed;
    int32_t on_device;
    storage_device device;                      /* valid when on_device */
    void (*destroy)(void *data, int64_t bytes); /* of host memory */
    memory_account *account;
    void (*release_owner)(void *owner);
    void *owner;
};

static void free_host(void *data, int64_t bytes) {
    (void)bytes;
    free(data);
}

static fa4_status make_storage(memory_account *account, int64_t bytes, fa4_storage **out,
                               fa4_error *err) {
    *out = NULL;
    if (bytes < 0)
        return error_set(err, FA4_BAD_ARGUMENT, "bytes: expected at least 0, got %lld",
                         (long long)bytes);
    fa4_storage *s = calloc(1, sizeof *s);
    if (s == NULL)
        return error_set(err, FA4_NO_MEMORY, "no memory for a storage of %lld bytes",
                         (long long)bytes);
    s->count = 1;
    s->bytes = bytes;
    s->account = account;
    *out = s;
    return FA4_OK;
}

static void enter_account(fa4_storage *s) {
    memory_account *a = s->account;
    a->storages++;
    if (s->on_device) {
        a->device_bytes += s->bytes;
        return;
    }
    a->host_bytes += s->bytes;
    if (a->host_bytes > a->host_bytes_max) a->host_bytes_max = a->host_bytes;
}

static fa4_status allocate_host(fa4_storage *s, fa4_error *err) {
    s->destroy = free_host;
    if (s->bytes == 0) return FA4_OK;
    const int64_t limit = INT64_MAX - STORAGE_ALIGNMENT;
    if (s->bytes <= limit) {
        size_t rounded =
            ((size_t)s->bytes + STORAGE_ALIGNMENT - 1) / STORAGE_ALIGNMENT * STORAGE_ALIGNMENT;
        s->data = aligned_alloc(STORAGE_ALIGNMENT, rounded);
    }
    if (s->data == NULL)
        return error_set(err, FA4_NO_MEMORY, "no host memory for %lld bytes", (long long)s->bytes);
    return FA4_OK;
}

fa4_status storage_create(memory_account *account, int64_t bytes, const storage_device *device,
                          void (*release_owner)(void *owner), void *owner, fa4_storage **out,
                          fa4_error *err) {
    fa4_storage *s;
    *out = NULL;
    FA4_TRY(make_storage(account, bytes, &s, err));
    fa4_status status = FA4_OK;
    if (device == NULL) {
        status = allocate_host(s, err);
    } else {
        s->on_device = 1;
        s->device = *device;
        if (bytes > 0) status = device->create(device->state, bytes, &s->data, err);
    }
    if (status != FA4_OK) {
        free(s);
        return status;
    }
    s->release_owner = release_owner;
    s->owner = owner;
    enter_account(s);
    *out = s;
    return FA4_OK;
}

fa4_status storage_adopt(memory_account *account, void *data, int64_t bytes,
                         void (*destroy)(void *data, int64_t bytes),
                         void (*release_owner)(void *owner), void *owner, fa4_storage **out,
                         fa4_error *err) {
    fa4_storage *s;
    *out = NULL;
    FA4_TRY(make_storage(account, bytes, &s, err));
    s->data = data;
    s->destroy = destroy;
    s->release_owner = release_owner;
    s->owner = owner;
    enter_account(s);
    *out = s;
    return FA4_OK;
}

void fa4_storage_retain(fa4_storage *storage) {
    storage->count++;
}

void fa4_storage_free(fa4_storage *storage) {
    if (storage == NULL || storage->freed) return;
    if (storage->data != NULL) {
        if (storage->on_device)
            storage->device.destroy(storage->device.state, storage->data, storage->bytes);
        else
            storage->destroy(storage->data, storage->bytes);
    }
    if (storage->on_device)
        storage->account->device_bytes -= storage->bytes;
    else
        storage->account->host_bytes -= storage->bytes;
    storage->account->storages--;
    storage->data = NULL;
    storage->freed = 1;
}

void fa4_storage_release(fa4_storage *storage) {
    if (storage == NULL || --storage->count > 0) return;
    fa4_storage_free(storage);
    /* The account lies in the owner, so the owner goes last. */
    if (storage->release_owner != NULL) storage->release_owner(storage->owner);
    free(storage);
}

void *fa4_storage_data(const fa4_storage *storage) {
    return storage->data;
}

int32_t fa4_storage_freed(const fa4_storage *storage) {
    return storage->freed;
}

int64_t fa4_storage_bytes(const fa4_storage *storage) {
    return storage->bytes;
}

static fa4_status check_span(const fa4_storage *s, int64_t offset, const void *host, int64_t bytes,
                             fa4_error *err) {
    if (s->freed) return error_set(err, FA4_BAD_ARGUMENT, "storage: its memory has been freed");
    if (offset < 0 || offset > s->bytes)
        return error_set(err, FA4_BAD_ARGUMENT, "offset: expected 0 to %lld, got %lld",
                         (long long)s->bytes, (long long)offset);
    if (bytes < 0 || bytes > s->bytes - offset)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "bytes: expected 0 to %lld after offset %lld, got %lld",
                         (long long)(s->bytes - offset), (long long)offset, (long long)bytes);
    if (bytes > 0 && host == NULL)
        return error_set(err, FA4_BAD_ARGUMENT, "host: NULL with %lld bytes", (long long)bytes);
    return FA4_OK;
}

fa4_status fa4_storage_write(fa4_storage *storage, int64_t offset, const void *host, int64_t bytes,
                             fa4_error *err) {
    FA4_TRY(check_span(storage, offset, host, bytes, err));
    if (bytes == 0) return FA4_OK;
    if (storage->on_device)
        return storage->device.write(storage->device.state, storage->data, offset, host, bytes,
                                     err);
    memmove((char *)storage->data + offset, host, (size_t)bytes);
    return FA4_OK;
}

fa4_status fa4_storage_read(const fa4_storage *storage, int64_t offset, void *host, int64_t bytes,
                            fa4_error *err) {
    FA4_TRY(check_span(storage, offset, host, bytes, err));
    if (bytes == 0) return FA4_OK;
    if (storage->on_device)
        return storage->device.read(storage->device.state, storage->data, offset, host, bytes, err);
    memmove(host, (const char *)storage->data + offset, (size_t)bytes);
    return FA4_OK;
}
