/*
 * Compiled kernels on disk. An entry is a file named by its key; its header holds magic, key, sizes
 * and a checksum, so that a truncated or damaged entry is found, removed and counts as absent.
 * Entries are written aside and renamed: any number of processes may share a cache. Reading an
 * entry makes it the newest; the oldest go when the cache outgrows its size.
 */
#ifndef FA4_KERNEL_CACHE_H
#define FA4_KERNEL_CACHE_H

#include "core/error.h"
#include "kernel/sha256.h"

#include <stdbool.h>

/* NULL and 0 fields are taken from the environment: FA4_CACHE=0 turns it off, FA4_CACHE_DIR, else
 * $XDG_CACHE_HOME/fa4, else ~/.cache/fa4; FA4_CACHE_BYTES, else 256 MiB. */
typedef struct kernel_cache_options {
    const char *folder;
    int64_t bytes_max;
} kernel_cache_options;

typedef struct kernel_cache kernel_cache;

/* Never fails but for memory: a cache that cannot be used is off and says why
 * (kernel_cache_warning). */
fa4_status kernel_cache_open(const kernel_cache_options *options, kernel_cache **cache,
                             fa4_error *err);
void kernel_cache_close(kernel_cache *cache);               /* NULL is allowed */
const char *kernel_cache_folder(const kernel_cache *cache); /* "" when off */
int64_t kernel_cache_bytes_max(const kernel_cache *cache);
/* Why it is off, or could not be written; "" when all is well or it was turned off on purpose. */
const char *kernel_cache_warning(const kernel_cache *cache);

/* What is kept under a key. */
typedef struct kernel_cache_entry {
    char name[96];     /* of the kernel */
    char compiler[32]; /* its version */
    char *ptx;         /* NUL-terminated */
    size_t ptx_bytes;
    void *cubin; /* may be NULL */
    size_t cubin_bytes;
} kernel_cache_entry;

/* true and an entry to free, or false: absent or damaged (then it is removed). */
bool kernel_cache_read(kernel_cache *cache, const sha256_digest *key, kernel_cache_entry *entry);
/* Keeps the entry if it can; a failure leaves a warning and is no error. */
void kernel_cache_write(kernel_cache *cache, const sha256_digest *key,
                        const kernel_cache_entry *entry);
void kernel_cache_entry_free(kernel_cache_entry *entry);

/* A line of a listing, newest first. */
typedef struct kernel_cache_item {
    char file[80];
    char name[96];
    char compiler[32];
    int64_t bytes;
    int64_t used_s; /* last use, seconds since 1970 */
} kernel_cache_item;

/* free(*items). Files that are no entries are not listed. */
fa4_status kernel_cache_list(kernel_cache *cache, kernel_cache_item **items, int64_t *count,
                             fa4_error *err);
/* Removes every entry and what interrupted writers left; returns how many bytes and entries went.
 */
fa4_status kernel_cache_clear(kernel_cache *cache, int64_t *entries, int64_t *bytes,
                              fa4_error *err);

#endif
