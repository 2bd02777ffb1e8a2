/* Records as text; see record.h. */
#include "device/record.h"

#include "core/half.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint64_t record_inputs(const problem *p) {
    uint64_t hash = problem_hash(p, 0) * 3 + problem_hash(p, 1) * 5 + problem_hash(p, 2) * 7;
    for (int64_t w = 0; w < p->request.mask_words; w++) hash = (hash ^ (uint32_t)p->mask_data[w]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The element at a share n / of of all, in the order of the axes. */
static float sample(const fa4_tensor *t, int64_t n, int64_t of) {
    int64_t count = 1, offset = 0;
    for (int32_t a = 0; a < t->rank; a++) count *= t->shape[a];
    int64_t flat = (count - 1) * n / of;
    for (int32_t a = t->rank - 1; a >= 0; a--) {
        offset += flat % t->shape[a] * t->strides[a];
        flat /= t->shape[a];
    }
    if (t->dtype == FA4_F32) return ((const float *)t->data)[offset];
    uint16_t bits = ((const uint16_t *)t->data)[offset];
    return t->dtype == FA4_F16 ? half_f16_to_float(bits) : half_bf16_to_float(bits);
}

void record_take(const problem *p, record *r) {
    memset(r, 0, sizeof *r);
    r->inputs = record_inputs(p);
    r->hash[0] = problem_hash(p, 3);
    r->hash[1] = problem_hash(p, 4);
    for (int i = 0; i < RECORD_SAMPLES; i++) {
        r->o[i] = sample(&p->t.o, 7 * i + 3, 7 * RECORD_SAMPLES);
        r->lse[i] = sample(&p->t.lse, 7 * i + 3, 7 * RECORD_SAMPLES);
    }
}

void record_print(const record *r, char line[RECORD_LINE_BYTES]) {
    int used = snprintf(line, RECORD_LINE_BYTES, "%c %" PRId64 " %016" PRIx64 " %016" PRIx64 " %016" PRIx64, r->kind == PROBLEM_EXACT ? 'e' : 'o',
                        r->number, r->inputs, r->hash[0], r->hash[1]);
    if (r->kind == PROBLEM_EXACT) {
        snprintf(line + used, (size_t)(RECORD_LINE_BYTES - used), " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, r->rescaled_rows, r->spared_rows,
                 r->rescaled_warps, r->max_fixups);
        return;
    }
    for (int i = 0; i < RECORD_SAMPLES; i++) used += snprintf(line + used, (size_t)(RECORD_LINE_BYTES - used), " %.9g", r->o[i]);
    for (int i = 0; i < RECORD_SAMPLES; i++) used += snprintf(line + used, (size_t)(RECORD_LINE_BYTES - used), " %.9g", r->lse[i]);
}

static int read_line(const char *line, record *r) {
    char kind;
    int used = 0, step = 0;
    memset(r, 0, sizeof *r);
    if (sscanf(line, "%c %" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64 "%n", &kind, &r->number, &r->inputs, &r->hash[0], &r->hash[1], &used) != 5) return 0;
    r->kind = kind == 'e' ? PROBLEM_EXACT : PROBLEM_ORDINARY;
    if (kind == 'e')
        return sscanf(line + used, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &r->rescaled_rows, &r->spared_rows, &r->rescaled_warps,
                      &r->max_fixups) == 4;
    for (int i = 0; i < 2 * RECORD_SAMPLES; i++, used += step)
        if (sscanf(line + used, "%f%n", i < RECORD_SAMPLES ? &r->o[i] : &r->lse[i - RECORD_SAMPLES], &step) != 1) return 0;
    return 1;
}

int record_read(const char *path, record *records, int room) {
    FILE *file = fopen(path, "r");
    char line[RECORD_LINE_BYTES + 2];
    int count = 0;
    while (file != NULL && count < room && fgets(line, sizeof line, file) != NULL)
        if (line[0] != '#') count += read_line(line, &records[count]);
    if (file != NULL) fclose(file);
    return count;
}
