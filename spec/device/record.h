/* What a GPU gave for one problem, as a line of text: hashes of inputs, O and LSE, decisions, and for ordinary problems samples of both. */
#ifndef FA4_SPEC_DEVICE_RECORD_H
#define FA4_SPEC_DEVICE_RECORD_H

#include "device/problems.h"

enum { RECORD_SAMPLES = 8, RECORD_LINE_BYTES = 512 };

typedef struct record {
    problem_kind kind;
    int64_t number;
    uint64_t inputs;  /* hash of q, k, v and the mask's words */
    uint64_t hash[2]; /* o, lse */
    int64_t rescaled_rows, spared_rows, rescaled_warps, max_fixups; /* of the counting build; exact problems only */
    float o[RECORD_SAMPLES], lse[RECORD_SAMPLES];
} record;

uint64_t record_inputs(const problem *p);
/* Hashes and samples of a problem's outputs; kind, number and decisions are the caller's. */
void record_take(const problem *p, record *r);
void record_print(const record *r, char line[RECORD_LINE_BYTES]);
/* Records of a file that record_print wrote; lines that begin with # are skipped. Returns how many. */
int record_read(const char *path, record *records, int room);

#endif
