/* Files of tensors: npy, npz and safetensors, read by readers that trust nothing and written beside
 * their place. Where the bytes go is the caller's business (file_memory); what is public about a
 * file is in fa4.h. */
#ifndef FA4_FILES_FILES_H
#define FA4_FILES_FILES_H

#include "core/error.h"

/* How to make storages for what is read. Used only during file_open. */
typedef struct file_memory {
    void *state;
    fa4_status (*create)(void *state, int64_t bytes, fa4_storage **storage, fa4_error *err);
    /* Wraps memory that exists; the storage gives it back by destroy(data, bytes). On failure the
     * caller still owns it. */
    fa4_status (*adopt)(void *state, void *data, int64_t bytes,
                        void (*destroy)(void *data, int64_t bytes), fa4_storage **storage,
                        fa4_error *err);
} file_memory;

/* fa4_file_open for a context-less caller: every tensor gets a storage of its own. map != 0: see
 * fa4_file_open. */
fa4_status file_open(const file_memory *memory, const char *path, int32_t map, fa4_file **file,
                     fa4_error *err);

#endif
