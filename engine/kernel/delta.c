/* A delta is a sequence of {literal bytes, the literals, bytes to copy, where from}. Counts are
 * variable-length; the place is relative to the end of the copy before, because most differences
 * leave the rest aligned. */
#include "kernel/delta.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, STRIDE = 4, HASH_BITS = 18 };

/* ---- numbers: seven bits a byte, the lowest first; the sign is the lowest bit ---- */

typedef struct writer {
    unsigned char *data;
    size_t used, room;
} writer;

static bool put_bytes(writer *w, const unsigned char *bytes, size_t count) {
    if (w->used + count > w->room) {
        size_t room = (w->used + count) * 2;
        unsigned char *larger = realloc(w->data, room);
        if (larger == NULL) return false;
        w->data = larger;
        w->room = room;
    }
    if (count > 0) memcpy(w->data + w->used, bytes, count);
    w->used += count;
    return true;
}

static bool put_number(writer *w, int64_t x) {
    unsigned char bytes[10];
    size_t count = 0;
    uint64_t n = x < 0 ? ~((uint64_t)x << 1) : (uint64_t)x << 1;
    for (; n > 127; n >>= 7)
        bytes[count++] = (unsigned char)(n & 127) | 128;
    bytes[count++] = (unsigned char)n;
    return put_bytes(w, bytes, count);
}

static bool get_number(delta_bytes delta, size_t *at, int64_t *x) {
    uint64_t n = 0;
    for (int shift = 0; shift < 63 && *at < delta.size; shift += 7) {
        unsigned char byte = delta.data[(*at)++];
        n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *x = n & 1 ? (int64_t)~(n >> 1) : (int64_t)(n >> 1);
            return true;
        }
    }
    return false;
}

/* ---- encoding ---- */

static uint32_t hash(const unsigned char *p) {
    uint64_t a, b;
    memcpy(&a, p, 8);
    memcpy(&b, p + 8, 8);
    return (uint32_t)((a * UINT64_C(0x9e3779b97f4a7c15) ^ b * UINT64_C(0xc2b2ae3d27d4eb4f)) >>
                      (64 - HASH_BITS));
}

static size_t common(delta_bytes base, size_t from, delta_bytes target, size_t at) {
    size_t n = 0;
    while (from + n < base.size && at + n < target.size &&
           base.data[from + n] == target.data[at + n])
        n++;
    return n;
}

/* The first place of every block of the base at a multiple of STRIDE, plus 1; 0 = none. */
static uint32_t *index_of(delta_bytes base) {
    uint32_t *first = calloc((size_t)1 << HASH_BITS, sizeof *first);
    for (size_t i = 0; first != NULL && i + BLOCK <= base.size; i += STRIDE) {
        uint32_t *slot = &first[hash(base.data + i)];
        if (*slot == 0) *slot = (uint32_t)i + 1;
    }
    return first;
}

unsigned char *delta_encode(delta_bytes base, delta_bytes target, size_t *size) {
    writer w = {0};
    size_t literal = 0, end = 0; /* of the literals' start; of the copy before, in the base */
    uint32_t *first = index_of(base);
    bool good = first != NULL;
    for (size_t at = 0; good && at + BLOCK <= target.size;) {
        size_t from = end + (at - literal), n = common(base, from, target, at);
        uint32_t other = first[hash(target.data + at)];
        if (n < BLOCK && other != 0) {
            from = other - 1;
            n = common(base, from, target, at);
        }
        if (n < BLOCK) {
            at++;
            continue;
        }
        good = put_number(&w, (int64_t)(at - literal)) &&
               put_bytes(&w, target.data + literal, at - literal) && put_number(&w, (int64_t)n) &&
               put_number(&w, (int64_t)from - (int64_t)end);
        at += n;
        literal = at;
        end = from + n;
    }
    good = good && put_number(&w, (int64_t)(target.size - literal)) &&
           put_bytes(&w, target.data + literal, target.size - literal);
    free(first);
    *size = w.used;
    if (good) return w.data;
    free(w.data);
    return NULL;
}

/* ---- decoding ---- */

bool delta_decode(delta_bytes base, delta_bytes delta, unsigned char *target, size_t size) {
    size_t at = 0, done = 0;
    int64_t end = 0, count, step;
    while (get_number(delta, &at, &count)) {
        if (count < 0 || (uint64_t)count > delta.size - at || (uint64_t)count > size - done)
            return false;
        memcpy(target + done, delta.data + at, (size_t)count);
        done += (size_t)count;
        at += (size_t)count;
        if (at == delta.size) return done == size;
        if (!get_number(delta, &at, &count) || !get_number(delta, &at, &step)) return false;
        if (step < -(int64_t)base.size || step > (int64_t)base.size) return false;
        end += step;
        if (end < 0 || (uint64_t)end > base.size || count < 0 ||
            (uint64_t)count > base.size - (uint64_t)end || (uint64_t)count > size - done)
            return false;
        memcpy(target + done, base.data + end, (size_t)count);
        done += (size_t)count;
        end += count;
    }
    return false;
}
