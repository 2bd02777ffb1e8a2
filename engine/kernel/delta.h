/*
 * Bytes as differences to similar bytes: kernels of the catalogue resemble each other over longer
 * distances than zlib sees. Copies from the base and literals between them.
 */
#ifndef FA4_KERNEL_DELTA_H
#define FA4_KERNEL_DELTA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct delta_bytes {
    const unsigned char *data;
    size_t size;
} delta_bytes;

/* What turns base into target, owned by the caller; NULL without memory. *size: its bytes. */
unsigned char *delta_encode(delta_bytes base, delta_bytes target, size_t *size);
/* Writes exactly `size` bytes to `target`; false when the delta does not yield that many. */
bool delta_decode(delta_bytes base, delta_bytes delta, unsigned char *target, size_t size);

#endif
