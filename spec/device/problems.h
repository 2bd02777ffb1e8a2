/*
 * Problems for runs on a GPU, each made from its kind and number alone, the same bits on every machine.
 *
 *   exact     every product, weight and sum is a number that f32 (and P's 16 bits) hold: backends must agree in every bit of O and LSE and in
 *             every decision. Keys belong to groups (one-hot columns); a query gives each group a whole exponent or -256, so that the weights
 *             of its visible keys sum to a power of two. The other columns are noise that cancels. scale * log2(e) is a power of two.
 *   ordinary  normal random numbers on the same kernels: backends agree within a bound.
 *   drawn     anything a kernel takes: lengths, views with gaps, groups, masks, caps, scales, thresholds, orders, NaN and infinite keys.
 *
 * A problem's variant (its kernel) follows from its number modulo the count of variants, so that work is split by kernel.
 */
#ifndef FA4_SPEC_DEVICE_PROBLEMS_H
#define FA4_SPEC_DEVICE_PROBLEMS_H

#include "fa4.h"

#include <stdbool.h>

typedef enum problem_kind { PROBLEM_EXACT, PROBLEM_ORDINARY, PROBLEM_DRAWN } problem_kind;

enum { FIXED_VARIANTS = 40, FIXED_PROBLEMS = 240, DRAWN_VARIANTS = 96 }; /* exact and ordinary; drawn */

typedef struct problem {
    fa4_request request; /* device: NULL */
    fa4_tensors t;       /* host memory; o and lse hold NaN */
    void *memory[5];     /* of q, k, v, o, lse, with gaps of NaN; given back by problem_free */
    int64_t bytes[5];
    int32_t *mask_data;
    bool special; /* some keys are NaN or infinite */
    double score_error; /* largest difference of two backends' scores, scaled; ordinary problems */
    char text[320];
} problem;

int32_t problem_variant(problem_kind kind, int64_t number);
void problem_make(problem_kind kind, int64_t number, problem *p);
void problem_free(problem *p);
/* NaN into o and lse again. */
void problem_clear(problem *p);
fa4_tensor *problem_tensor(problem *p, int i); /* q, k, v, o, lse */

/* Runs the problem on "cpu", "emu:sm_90a" or "cuda" (copied there and back, gaps too) from and to its host memory. report may be NULL. */
fa4_status problem_run(fa4_context *context, problem *p, const char *device, fa4_report *report, fa4_error *err);
/* Writes into the request what a Hopper plan of it chooses, so that another device computes the same tiles and parts of the keys. */
fa4_status problem_fix_schedule(fa4_context *context, problem *p, fa4_error *err);
/* Of the memory of tensor i, gaps included: what lies there is part of the result. */
uint64_t problem_hash(const problem *p, int i);

/* Allowed |a - b| of two outputs of an ordinary problem that are x and y: two roundings of O, P's rounding of a few keys where the
 * exponentials differ in their last bit, and scores that differ: the tensor cores cut where the emulator rounds (spec/probes/NOTES.md),
 * by up to 2^-22 |q| |k|. LSE: 2^-20 of max(1, |LSE|), and the scores. The first bound, written before the first run, had no term for
 * the scores: 15 elements of 6 problems lay beyond it, by up to 3.2 times. */
double problem_bound(const problem *p, double x, double y);
double problem_bound_lse(const problem *p, double y);

#endif
