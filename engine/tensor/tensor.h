/* Tensors: storages that count their bytes in an account, views over them, conversion and random
 * numbers. Host memory is read and written here; other memory plugs in as a storage_device. Knows
 * nothing of contexts: a storage holds an opaque owner. */
#ifndef FA4_TENSOR_TENSOR_H
#define FA4_TENSOR_TENSOR_H

#include "core/error.h"

#include <stdbool.h>

/* Live bytes of one owner's storages. Lives in the owner; used by one thread at a time. */
typedef struct memory_account {
    int64_t host_bytes;
    int64_t device_bytes;
    int64_t storages;
    int64_t host_bytes_max;
} memory_account;

/* Memory that is not the host's. The struct is copied; its state must outlive the storages (the
 * owner sees to that). */
typedef struct storage_device {
    void *state;
    fa4_status (*create)(void *state, int64_t bytes, void **data, fa4_error *err);
    void (*destroy)(void *state, void *data, int64_t bytes);
    fa4_status (*write)(void *state, void *data, int64_t offset, const void *host, int64_t bytes,
                        fa4_error *err);
    fa4_status (*read)(void *state, const void *data, int64_t offset, void *host, int64_t bytes,
                       fa4_error *err);
} storage_device;

/* device NULL: host memory, 64-byte aligned, not touched. On success the storage keeps `owner` and
 * calls release_owner(owner) once, after its memory is gone and the account is settled (retain the
 * owner before this call, undo it on failure). */
fa4_status storage_create(memory_account *account, int64_t bytes, const storage_device *device,
                          void (*release_owner)(void *owner), void *owner, fa4_storage **out,
                          fa4_error *err);
/* The same over host memory that exists; the storage keeps it and gives it back by destroy(data,
 * bytes). On failure the caller still owns it. */
fa4_status storage_adopt(memory_account *account, void *data, int64_t bytes,
                         void (*destroy)(void *data, int64_t bytes),
                         void (*release_owner)(void *owner), void *owner, fa4_storage **out,
                         fa4_error *err);

/* Checks that the view can be used from here: dtype, rank, sizes, strides whose byte offsets fit,
 * data not NULL and aligned to its elements unless empty, host memory. `name` is the argument's
 * name in the error. */
fa4_status tensor_check(const fa4_tensor *tensor, const char *name, fa4_error *err);
/* Elements of a checked view. */
int64_t tensor_elements(const fa4_tensor *tensor);
/* The first byte and the byte after the last that a checked view touches; begin = end when it is
 * empty. */
void tensor_range(const fa4_tensor *tensor, intptr_t *begin, intptr_t *end);
/* Row-major strides of the view's shape. */
void tensor_set_contiguous(fa4_tensor *tensor);
/* True when no two elements share memory. Exact for views made by permuting, slicing and expanding
 * dense tensors; odd strides that cross each other count as shared. */
bool tensor_distinct(const fa4_tensor *tensor);
/* True when some byte belongs to both checked views. Exact, also for interleaved views (heads
 * sliced out of one tensor), as long as a search of 10^5 steps decides it; true when it does not.
 */
bool tensor_overlap(const fa4_tensor *a, const fa4_tensor *b);

/* Philox 4x32-10: ten rounds over counter under key. */
void tensor_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
