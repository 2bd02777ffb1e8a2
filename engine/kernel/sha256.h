/* SHA-256 (FIPS 180-4): keys and checksums of compiled kernels. */
#ifndef FA4_KERNEL_SHA256_H
#define FA4_KERNEL_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct sha256_digest {
    uint8_t byte[32];
} sha256_digest;

typedef struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} sha256;

void sha256_start(sha256 *s);
void sha256_add(sha256 *s, const void *data, size_t bytes);
/* Adds a text and its length, so that joined fields cannot be confused. */
void sha256_add_text(sha256 *s, const char *text);
sha256_digest sha256_finish(sha256 *s);

enum { SHA256_HEX_BYTES = 65 };
void sha256_hex(const sha256_digest *digest, char text[SHA256_HEX_BYTES]);

#endif
