/* What the tests of files share: a folder of their own, bytes put together by hand, storages, and a
 * count of all memory asked for. */
#ifndef FA4_SPEC_FILES_H
#define FA4_SPEC_FILES_H

#include "check.h"

#include "files/files.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- memory asked for: only without a sanitizer, which has its own malloc ---- */

static int64_t memory_asked;

#if defined(__has_feature)
#define FILES_HAS_FEATURE(x) __has_feature(x)
#else
#define FILES_HAS_FEATURE(x) 0
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__) &&       \
    !FILES_HAS_FEATURE(address_sanitizer) && !FILES_HAS_FEATURE(thread_sanitizer)
enum { MEMORY_COUNTED = 1 };
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
void *malloc(size_t bytes) {
    memory_asked += (int64_t)bytes;
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    memory_asked += (int64_t)(count * bytes);
    return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
    memory_asked += (int64_t)bytes;
    return __libc_realloc(old, bytes);
}
#else
enum { MEMORY_COUNTED = 0 };
#endif

/* ---- storages ---- */

static fa4_error err;
static memory_account account;

static fa4_status make_storage(void *state, int64_t bytes, fa4_storage **storage, fa4_error *e) {
    memory_asked += bytes;
    return storage_create(state, bytes, NULL, NULL, NULL, storage, e);
}
static fa4_status adopt_storage(void *state, void *data, int64_t bytes,
                                void (*destroy)(void *, int64_t), fa4_storage **storage,
                                fa4_error *e) {
    return storage_adopt(state, data, bytes, destroy, NULL, NULL, storage, e);
}
static const file_memory memory = {&account, make_storage, adopt_storage};

/* ---- bytes and files ---- */

typedef struct blob {
    unsigned char bytes[70000];
    size_t count;
} blob;

static inline void put(blob *b, const void *bytes, size_t count) {
    memcpy(b->bytes + b->count, bytes, count);
    b->count += count;
}
static inline void put_string(blob *b, const char *text) {
    put(b, text, strlen(text));
}
/* Little endian, `bytes` of them. */
static inline void put_number(blob *b, uint64_t x, int bytes) {
    for (int i = 0; i < bytes; i++, x >>= 8)
        b->bytes[b->count++] = (unsigned char)x;
}

static char folder[64];

static void folder_create(void) {
    strcpy(folder, "/tmp/fa4-files-XXXXXX");
    CHECK(mkdtemp(folder) != NULL, "a folder under /tmp");
}

/* "FOLDER/name"; valid until the sixteenth call from now. */
static inline const char *path_of(const char *name) {
    static char paths[16][300];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, 300, "%s/%s", folder, name);
    return path;
}

static inline const char *save(const char *name, const void *bytes, size_t count) {
    const char *path = path_of(name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, count, f) != count || fclose(f) != 0)
        CHECK(0, "cannot write %s", path);
    return path;
}

static inline double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The file must be refused with `status` and a text that holds the path and `words`; at once, and
 * without taking memory. */
static inline void check_refused(const char *path, int64_t bytes, fa4_status status,
                                 const char *words) {
    for (int map = 0; map < 2; map++) {
        fa4_file *file = (fa4_file *)&account;
        memset(&err, 0, sizeof err);
        int64_t before = memory_asked;
        double start = seconds();
        fa4_status got = file_open(&memory, path, map, &file, &err);
        double took = seconds() - start;
        CHECK(got == status && file == NULL, "%s: status %d (%s)", path, got, err.text);
        CHECK(strstr(err.text, words) != NULL && strstr(err.text, path) != NULL,
              "'%s' is not about '%s'", err.text, words);
        CHECK(took < (MEMORY_COUNTED ? 0.1 : 1.0), "%s: %g s", words, took);
        CHECK(memory_asked - before <= bytes + (1 << 20), "%s: %lld bytes asked for", words,
              (long long)(memory_asked - before));
        CHECK(account.storages == 0 && account.host_bytes == 0, "%s: storages left", words);
        if (got == FA4_OK) fa4_file_close(file);
        CHECK(file_open(&memory, path, map, &file, NULL) == status, "%s: without an error to fill",
              words);
        if (file != NULL) fa4_file_close(file);
    }
}

/* Saves the blob under name and expects it to be refused as a bad file. */
static inline void refuse_blob(const char *name, const blob *b, const char *words) {
    check_refused(save(name, b->bytes, b->count), (int64_t)b->count, FA4_BAD_FILE, words);
    unlink(path_of(name));
}

/* ---- reading back ---- */

static inline double element(const fa4_tensor *t, int64_t flat) {
    int64_t index[FA4_RANK_MAX] = {0};
    for (int32_t i = t->rank - 1; i >= 0; i--) {
        index[i] = flat % t->shape[i];
        flat /= t->shape[i];
    }
    double x = NAN;
    fa4_tensor_get(t, index, &x, &err);
    return x;
}

/* Index of the tensor with that name, or -1. */
static inline int64_t find(const fa4_file *file, const char *name) {
    for (int64_t i = 0; i < fa4_file_count(file); i++)
        if (strcmp(fa4_file_name(file, i), name) == 0) return i;
    return -1;
}

static inline fa4_file *open_good(const char *path, int map) {
    fa4_file *file = NULL;
    memset(&err, 0, sizeof err);
    CHECK(file_open(&memory, path, map, &file, &err) == FA4_OK, "%s: %s", path, err.text);
    return file;
}

#endif
