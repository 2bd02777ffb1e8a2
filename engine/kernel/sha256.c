/* SHA-256 in plain C. */
#include "kernel/sha256.h"

#include <string.h>

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int n) {
    return x >> n | x << (32 - n);
}

static void mix(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = turn(v[4], 6) ^ turn(v[4], 11) ^ turn(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t first = v[7] + e + choice + rounds[i] + w[i];
        uint32_t a = turn(v[0], 2) ^ turn(v[0], 13) ^ turn(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + a + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void sha256_start(sha256 *s) {
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, first, sizeof s->state);
    s->bytes = 0;
}

void sha256_add(sha256 *s, const void *data, size_t bytes) {
    const uint8_t *at = data;
    while (bytes > 0) {
        size_t used = s->bytes % 64, n = 64 - used < bytes ? 64 - used : bytes;
        if (used == 0 && n == 64) {
            mix(s->state, at);
        } else {
            memcpy(s->block + used, at, n);
            if (used + n == 64) mix(s->state, s->block);
        }
        s->bytes += n;
        at += n;
        bytes -= n;
    }
}

void sha256_add_text(sha256 *s, const char *text) {
    uint64_t length = strlen(text);
    sha256_add(s, &length, sizeof length);
    sha256_add(s, text, length);
}

sha256_digest sha256_finish(sha256 *s) {
    static const uint8_t padding[64] = {0x80};
    uint8_t length[8];
    sha256_digest digest;
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(s->bytes * 8 >> (56 - 8 * i));
    sha256_add(s, padding, 1 + (119 - s->bytes % 64) % 64);
    sha256_add(s, length, sizeof length);
    for (int i = 0; i < 32; i++)
        digest.byte[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
}

void sha256_hex(const sha256_digest *digest, char text[SHA256_HEX_BYTES]) {
    for (int i = 0; i < 32; i++) {
        text[2 * i] = "0123456789abcdef"[digest->byte[i] >> 4];
        text[2 * i + 1] = "0123456789abcdef"[digest->byte[i] & 15];
    }
    text[64] = '\0';
}
