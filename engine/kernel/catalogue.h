/*
 * The kernels compiled ahead of time, packed into the library by kernel_pack (pack.c): PTX and
 * cubin per variant, compressed, found by name, which holds the hash of all options. The build
 * remakes it whenever a kernel's source changes.
 */
#ifndef FA4_KERNEL_CATALOGUE_H
#define FA4_KERNEL_CATALOGUE_H

#include "core/error.h"

#include <stdbool.h>

typedef struct kernel_catalogue_entry {
    const char *name;
    const char *compiler;        /* version */
    const unsigned char *packed; /* zlib: ptx, then cubin, or (with a base) the delta to the base's */
    uint64_t packed_bytes, ptx_bytes, cubin_bytes, raw_bytes; /* raw: what zlib yields */
    int32_t base;                                             /* an entry before this one, or -1 */
} kernel_catalogue_entry;

/* Generated, or empty. */
extern const kernel_catalogue_entry kernel_catalogue[];
extern const int32_t kernel_catalogue_count;

const kernel_catalogue_entry *kernel_catalogue_find(const char *name);
/* *ptx (NUL-terminated) and *cubin are the caller's to free. */
fa4_status kernel_catalogue_unpack(const kernel_catalogue_entry *entry, char **ptx, void **cubin,
                                   fa4_error *err);

#endif
