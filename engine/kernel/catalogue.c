/* Looking up and unpacking what kernel_pack put into the library. */
#include "kernel/catalogue.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

const kernel_catalogue_entry *kernel_catalogue_find(const char *name) {
    for (int32_t i = 0; i < kernel_catalogue_count; i++)
        if (strcmp(kernel_catalogue[i].name, name) == 0) return &kernel_catalogue[i];
    return NULL;
}

fa4_status kernel_catalogue_unpack(const kernel_catalogue_entry *entry, char **ptx, void **cubin,
                                   fa4_error *err) {
    uLongf bytes = entry->ptx_bytes + entry->cubin_bytes, have = bytes;
    unsigned char *all = malloc(bytes + 1);
    *ptx = calloc(1, entry->ptx_bytes + 1);
    *cubin = entry->cubin_bytes ? malloc(entry->cubin_bytes) : NULL;
    fa4_status status = FA4_OK;
    if (all == NULL || *ptx == NULL || (*cubin == NULL && entry->cubin_bytes > 0))
        status = error_set(err, FA4_NO_MEMORY, "kernel %s: out of memory", entry->name);
    else if (uncompress(all, &have, entry->packed, entry->packed_bytes) != Z_OK || have != bytes)
        status = error_set(err, FA4_INTERNAL, "kernel %s: the catalogue in the library is damaged",
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
