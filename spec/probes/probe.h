/*
 * What the two runners of the probes share: reading the bundle of PTX, making inputs from seeds, hashing outputs. A bundle is text; each
 * probe begins with a line "//# name key=value ...", then one line "//: form" per result, then its PTX up to the next probe:
 *   n       inputs of each operand             in       kind or kind:count, one per operand, laid out one after another (each on 256 bytes)
 *   width   bytes of a result                  out      bytes of a form's results, where they are not n * width
 *   grid, block, shared                        map0, map1  type/rank/swizzle/where/dims/box: tensor maps in "in" or "out"
 *   near    relative and absolute bound        refused  the emulator is known not to model it
 * A form's results lie one after another in "out". A name ends at the first blank.
 */
#ifndef FA4_SPEC_PROBE_H
#define FA4_SPEC_PROBE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBE_INPUTS_MAX = 5, PROBE_FORMS_MAX = 48, PROBE_MAPS_MAX = 2, PROBE_ALIGN = 256, PROBE_FILL = 0xa5 };

typedef struct probe_input {
    char kind[16];
    int64_t count, offset;
} probe_input;

typedef struct probe_map {
    int32_t type, rank, swizzle;
    bool out;
    uint64_t dims[5];
    uint32_t box[5];
} probe_map;

typedef struct probe {
    char name[64];
    char forms[PROBE_FORMS_MAX][96];
    int32_t form_count;
    probe_input inputs[PROBE_INPUTS_MAX];
    int32_t input_count;
    probe_map maps[PROBE_MAPS_MAX];
    int32_t map_count;
    int64_t n, in_bytes, form_bytes, out_bytes;
    int32_t width, grid, block, shared;
    double relative, absolute; /* 0, 0: bit-equal */
    bool refused;
    const char *ptx;
    size_t ptx_bytes;
} probe;

/* ---- hashes ---- */

static inline uint64_t probe_hash(const void *data, size_t bytes, uint64_t hash) {
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 1099511628211ull;
    return hash;
}
#define PROBE_HASH_START 14695981039346656037ull

/* Bytes of an element of this kind in memory: see probe_inputs.h. */
static inline int32_t probe_kind_bytes(const char *name);

/* ---- the bundle ---- */

static inline bool probe_key(const char *line, const char *key, char *value, size_t size) {
    size_t length = strlen(key);
    for (const char *at = line; (at = strchr(at, ' ')) != NULL;) {
        at++;
        if (strncmp(at, key, length) != 0 || at[length] != '=') continue;
        size_t used = strcspn(at + length + 1, " \n");
        if (used >= size) return false;
        memcpy(value, at + length + 1, used);
        value[used] = 0;
        return true;
    }
    return false;
}

static inline int64_t probe_number(const char *line, const char *key, int64_t otherwise) {
    char value[64];
    return probe_key(line, key, value, sizeof value) ? strtoll(value, NULL, 10) : otherwise;
}

static inline void probe_read_inputs(const char *line, probe *p) {
    char value[256], *rest = value;
    if (!probe_key(line, "in", value, sizeof value)) return;
    for (char *item; (item = strsep(&rest, ",")) != NULL && p->input_count < PROBE_INPUTS_MAX;) {
        probe_input *input = &p->inputs[p->input_count++];
        char *count = strchr(item, ':');
        if (count != NULL) *count++ = 0;
        snprintf(input->kind, sizeof input->kind, "%s", item);
        input->count = count ? strtoll(count, NULL, 10) : p->n;
        input->offset = p->in_bytes;
        p->in_bytes += (input->count * probe_kind_bytes(item) + PROBE_ALIGN - 1) / PROBE_ALIGN * PROBE_ALIGN;
    }
}

static inline void probe_read_map(const char *line, const char *key, probe *p) {
    char value[256];
    if (!probe_key(line, key, value, sizeof value)) return;
    probe_map *map = &p->maps[p->map_count++];
    char *at = value;
    map->type = (int32_t)strtol(at, &at, 10);
    map->rank = (int32_t)strtol(at + 1, &at, 10);
    map->swizzle = (int32_t)strtol(at + 1, &at, 10);
    map->out = at[1] == 'o';
    at = strchr(at + 1, '/');
    for (int i = 0; i < map->rank; i++) map->dims[i] = strtoull(at + 1, &at, 10);
    for (int i = 0; i < map->rank; i++) map->box[i] = (uint32_t)strtoul(at + 1, &at, 10);
}

/* Reads the probe at *at and moves on; false at the end. */
static inline bool probe_read(const char **at, probe *p) {
    const char *begin = strstr(*at, "//# ");
    if (begin == NULL) return false;
    char line[1024];
    size_t length = strcspn(begin, "\n");
    memset(p, 0, sizeof *p);
    snprintf(line, sizeof line, "%.*s", (int)length, begin + 0);
    snprintf(p->name, sizeof p->name, "%.*s", (int)strcspn(line + 4, " "), line + 4);
    p->n = probe_number(line, "n", 4096);
    p->width = (int32_t)probe_number(line, "width", 4);
    p->grid = (int32_t)probe_number(line, "grid", 1);
    p->block = (int32_t)probe_number(line, "block", 128);
    p->shared = (int32_t)probe_number(line, "shared", 0);
    p->refused = probe_number(line, "refused", 0) != 0;
    char value[64];
    if (probe_key(line, "near", value, sizeof value) && sscanf(value, "%lf,%lf", &p->relative, &p->absolute) != 2) return false;
    probe_read_inputs(line, p);
    probe_read_map(line, "map0", p);
    probe_read_map(line, "map1", p);
    const char *text = begin + length;
    while (strncmp(text, "\n//: ", 5) == 0 && p->form_count < PROBE_FORMS_MAX) {
        size_t used = strcspn(text + 5, "\n");
        snprintf(p->forms[p->form_count++], sizeof p->forms[0], "%.*s", (int)used, text + 5);
        text += 5 + used;
    }
    p->form_bytes = probe_number(line, "out", p->n * p->width);
    p->out_bytes = p->form_bytes * p->form_count;
    p->ptx = text;
    const char *end = strstr(text, "//# ");
    p->ptx_bytes = end ? (size_t)(end - text) : strlen(text);
    *at = text + p->ptx_bytes;
    return true;
}

static inline char *probe_read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    size_t used = 0, size = 1 << 16;
    char *text = malloc(size);
    for (size_t got; text != NULL && (got = fread(text + used, 1, size - used - 1, file)) > 0;) {
        used += got;
        if (size - used < 2) text = realloc(text, size *= 2);
    }
    if (text != NULL) text[used] = 0;
    fclose(file);
    return text;
}

/* Results that the record keeps: 8 of a form that must be bit-equal, 256 of one with a bound. */
static inline int64_t probe_samples(const probe *p) {
    int64_t count = p->form_bytes / p->width, most = p->relative > 0 || p->absolute > 0 ? 256 : 8;
    return count < most ? count : most;
}
static inline int64_t probe_sample_at(const probe *p, int64_t i) {
    return i * (p->form_bytes / p->width / probe_samples(p));
}

#include "probe_inputs.h"

#endif
