/* One input for one reader: the bytes become a file in memory, which is opened both ways and read
 * through. What must hold for any bytes: no more storage than the file can hold (deflate: 1032
 * times that), views inside their storages, nothing left behind. */
#ifndef FA4_SPEC_FUZZ_H
#define FA4_SPEC_FUZZ_H

#include "files/files.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum fuzz_kind { FUZZ_NPY, FUZZ_NPZ, FUZZ_SAFETENSORS } fuzz_kind;

static memory_account fuzz_account;

static inline fa4_status fuzz_create(void *state, int64_t bytes, fa4_storage **storage,
                                     fa4_error *err) {
    return storage_create(state, bytes, NULL, NULL, NULL, storage, err);
}
static inline fa4_status fuzz_adopt(void *state, void *data, int64_t bytes,
                                    void (*destroy)(void *, int64_t), fa4_storage **storage,
                                    fa4_error *err) {
    return storage_adopt(state, data, bytes, destroy, NULL, NULL, storage, err);
}

static inline void fuzz_require(int holds, const char *what, const char *text) {
    if (holds) return;
    fprintf(stderr, "fuzz: not so: %s (%s)\n", what, text);
    abort();
}

static inline void fuzz_read_through(const fa4_file *file, int64_t bytes) {
    volatile char sink = 0;
    for (int64_t i = 0; i < fa4_file_count(file); i++) {
        fa4_tensor t;
        fa4_storage *storage = NULL;
        fa4_error err = {0, ""};
        fuzz_require(fa4_file_name(file, i) != NULL, "tensors have names", "");
        if (fa4_file_tensor(file, i, &t, &storage, &err) != FA4_OK) {
            fuzz_require(strlen(err.text) > 10, "an error has a text", err.text);
            continue;
        }
        intptr_t begin, end;
        fuzz_require(tensor_check(&t, "t", &err) == FA4_OK, "the view is sound", err.text);
        tensor_range(&t, &begin, &end);
        fuzz_require(end - begin <= fa4_storage_bytes(storage), "the view lies in its storage", "");
        fuzz_require(tensor_elements(&t) == 0 || (char *)begin == (char *)fa4_storage_data(storage),
                     "it begins with it", "");
        for (const char *p = (const char *)begin; p < (const char *)end; p++)
            sink ^= *p;
        fa4_storage_release(storage);
    }
    for (int64_t i = 0; i < fa4_file_metadata_count(file); i++)
        fuzz_require(fa4_file_metadata_key(file, i) != NULL &&
                         fa4_file_metadata_value(file, i) != NULL,
                     "metadata is text", "");
    (void)sink;
    int64_t most = strcmp(fa4_file_kind(file), "npz") == 0 ? bytes * 1032 : bytes;
    fuzz_require(fuzz_account.host_bytes <= most, "storages are no larger than the file", "");
}

/* The kind's magic bytes are put in, so that the reader meant is the one that is reached. */
static inline int fuzz_run(fuzz_kind kind, const uint8_t *data, size_t size) {
    static const char *const magics[] = {"\x93NUMPY", "PK\3\4", ""};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    char path[64];
    size_t magic = strlen(magics[kind]);
    if (fd < 0 || size < magic || write(fd, data, size) != (ssize_t)size ||
        pwrite(fd, magics[kind], magic, 0) != (ssize_t)magic) {
        if (fd >= 0) close(fd);
        return 0;
    }
    if (kind == FUZZ_SAFETENSORS && size > 8 && pwrite(fd, "{", 1, 8) != 1) return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const file_memory memory = {&fuzz_account, fuzz_create, fuzz_adopt};
    for (int map = 0; map < 2; map++) {
        fa4_file *file = NULL;
        fa4_error err = {0, ""};
        fa4_status status = file_open(&memory, path, map, &file, &err);
        fuzz_require((status == FA4_OK) == (file != NULL), "a file or an error", err.text);
        fuzz_require(status == FA4_OK || status == FA4_BAD_FILE, "only the content can be wrong",
                     err.text);
        fuzz_require(status == FA4_OK || strstr(err.text, path) != NULL, "the error names the path",
                     err.text);
        if (file != NULL) fuzz_read_through(file, (int64_t)size);
        fa4_file_close(file);
        fuzz_require(fuzz_account.storages == 0 && fuzz_account.host_bytes == 0, "nothing is left",
                     err.text);
    }
    close(fd);
    return 0;
}

#endif
