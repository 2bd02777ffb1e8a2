/* Looking up and unpacking what kernel_pack put into the library. */
#include "kernel/catalogue.h"

#include "kernel/delta.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

const kernel_catalogue_entry *kernel_catalogue_find(const char *name) {
    for (int32_t i = 0; i < kernel_catalogue_count; i++)
        if (strcmp(kernel_catalogue[i].name, name) == 0) return &kernel_catalogue[i];
    return NULL;
}

static unsigned char *inflate_entry(const kernel_catalogue_entry *entry) {
    uLongf have = entry->raw_bytes;
    unsigned char *raw = malloc(entry->raw_bytes + 1);
    if (raw == NULL ||
        (uncompress(raw, &have, entry->packed, entry->packed_bytes) == Z_OK &&
         have == entry->raw_bytes))
        return raw;
    free(raw);
    return NULL;
}

/* PTX and cubin of an entry, one behind the other; NULL: damaged, or no memory. A base has a smaller
 * index, so the walk from the entry to its last base ends; the way back decodes. */
static unsigned char *unpack_all(const kernel_catalogue_entry *entry) {
    enum { CHAIN_MAX = 8 };
    const kernel_catalogue_entry *chain[CHAIN_MAX] = {entry};
    int length = 1;
    while (chain[length - 1]->base >= 0) {
        const kernel_catalogue_entry *next = &kernel_catalogue[chain[length - 1]->base];
        if (length == CHAIN_MAX || next >= chain[length - 1]) return NULL;
        chain[length++] = next;
    }
    unsigned char *all = inflate_entry(chain[length - 1]);
    for (int i = length - 2; all != NULL && i >= 0; i--) {
        const kernel_catalogue_entry *e = chain[i], *b = chain[i + 1];
        size_t bytes = e->ptx_bytes + e->cubin_bytes;
        unsigned char *raw = inflate_entry(e), *next = malloc(bytes + 1);
        delta_bytes base = {all, b->ptx_bytes + b->cubin_bytes}, delta = {raw, e->raw_bytes};
        bool good = raw != NULL && next != NULL && delta_decode(base, delta, next, bytes);
        free(raw);
        free(all);
        if (!good) free(next);
        all = good ? next : NULL;
    }
    return all;
}

fa4_status kernel_catalogue_unpack(const kernel_catalogue_entry *entry, char **ptx, void **cubin,
                                   fa4_error *err) {
    unsigned char *all = unpack_all(entry);
    *ptx = calloc(1, entry->ptx_bytes + 1);
    *cubin = entry->cubin_bytes ? malloc(entry->cubin_bytes) : NULL;
    fa4_status status = FA4_OK;
    if (*ptx == NULL || (*cubin == NULL && entry->cubin_bytes > 0))
        status = error_set(err, FA4_NO_MEMORY, "kernel %s: out of memory", entry->name);
    else if (all == NULL)
        status = error_set(err, FA4_INTERNAL,
                           "kernel %s: the catalogue in the library is damaged, or memory ran out",
                           entry->name);
    if (status == FA4_OK) {
        memcpy(*ptx, all, entry->ptx_bytes);
        if (*cubin != NULL) memcpy(*cubin, all + entry->ptx_bytes, entry->cubin_bytes);
    } else {
        free(*ptx);
        free(*cubin);
        *ptx = NULL;
        *cubin = NULL;
    }
    free(all);
    return status;
}
