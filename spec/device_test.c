/*
 * The emulator and the CPU against an H200, without one: spec/device/h200.txt holds what the sm_90a kernel gave there for numbered problems
 * (spec/device/problems.h). Exact problems must agree in every bit of O and LSE and in every decision, on the emulator and on the CPU;
 * ordinary ones within problem_bound of the recorded samples. `device_test all` takes every variant; else eight of forty.
 */
#include "check.h"
#include "device/problems.h"
#include "device/record.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Both dtypes, dims, ways to take the maximum, all masks; short queries. */
static bool in_suite(int32_t variant) {
    static const int32_t some[] = {0, 7, 10, 13, 19, 22, 28, 33};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (some[i] == variant) return true;
    return false;
}

static void check_decisions(const char *text, const char *who, const fa4_report *report, const record *r, bool same_kernel) {
    const fa4_counters *c = &report->total;
    CHECK(c->rescaled_rows == r->rescaled_rows && c->spared_rows == r->spared_rows && c->rescaled_warps == r->rescaled_warps,
          "%s: %s rescales %" PRId64 " rows, %" PRId64 " warps and spares %" PRId64 "; the H200 %" PRId64 ", %" PRId64 ", %" PRId64, text, who,
          c->rescaled_rows, c->rescaled_warps, c->spared_rows, r->rescaled_rows, r->rescaled_warps, r->spared_rows);
    if (same_kernel) CHECK(c->max_fixups == r->max_fixups, "%s: %s repairs %" PRId64 " blocks, the H200 %" PRId64, text, who, c->max_fixups, r->max_fixups);
}

static void check_exact(fa4_context *context, problem *p, const record *r) {
    static const char *const devices[2] = {"emu:sm_90a", "cpu"};
    for (int d = 0; d < 2; d++) {
        fa4_report report;
        fa4_error err = {0};
        p->request.schedule.counters = 1;
        fa4_status status = problem_run(context, p, devices[d], &report, &err);
        CHECK(status == FA4_OK && report.findings == 0, "%s on %s: %s", p->text, devices[d], err.text);
        if (status != FA4_OK) continue;
        CHECK(problem_hash(p, 3) == r->hash[0] && problem_hash(p, 4) == r->hash[1], "%s: %s has other bits in %s", p->text, devices[d],
              problem_hash(p, 3) == r->hash[0] ? "LSE" : "O");
        check_decisions(p->text, devices[d], &report, r, d == 0);
    }
}

static void check_ordinary(fa4_context *context, problem *p, const record *r, int *equal) {
    fa4_report report;
    fa4_error err = {0};
    fa4_status status = problem_run(context, p, "emu:sm_90a", &report, &err);
    CHECK(status == FA4_OK && report.findings == 0, "%s: %s", p->text, err.text);
    if (status != FA4_OK) return;
    record mine;
    record_take(p, &mine);
    *equal += mine.hash[0] == r->hash[0];
    for (int i = 0; i < RECORD_SAMPLES; i++) {
        double x = mine.o[i], y = r->o[i];
        CHECK(x == y || fabs(x - y) <= problem_bound(p, x, y), "%s: sample %d of O is %g, on the H200 %g", p->text, i, x, y);
        x = mine.lse[i], y = r->lse[i];
        CHECK(x == y || fabs(x - y) <= problem_bound_lse(p, y), "%s: sample %d of LSE is %g, on the H200 %g", p->text, i, x, y);
    }
}

/* V moved by one row must not have the same bits. */
static void control(fa4_context *context, problem *p, const record *r) {
    fa4_error err = {0};
    int64_t step = p->t.v.strides[1] * 2;
    memmove(p->memory[2], (char *)p->memory[2] + step, (size_t)(p->bytes[2] - step));
    fa4_status status = problem_run(context, p, "emu:sm_90a", NULL, &err);
    CHECK(status == FA4_OK && problem_hash(p, 3) != r->hash[0], "%s: V shifted by a row equals the H200's %s", p->text, err.text);
}

int main(int argc, char **argv) {
    static record records[2 * FIXED_PROBLEMS];
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    fa4_context *context = NULL;
    fa4_error err = {0};
    int count = record_read(FA4_SOURCE_DIR "/spec/device/h200.txt", records, 2 * FIXED_PROBLEMS), done[2] = {0, 0}, equal = 0;
    CHECK(count == 2 * FIXED_PROBLEMS, "spec/device/h200.txt: %d records of %d", count, 2 * FIXED_PROBLEMS);
    if (fa4_context_open(NULL, &context, &err) != FA4_OK) return fprintf(stderr, "%s\n", err.text), 1;
    for (int i = 0; i < count; i++) {
        const record *r = &records[i];
        if (!all && !in_suite(problem_variant(r->kind, r->number))) continue;
        problem p;
        problem_make(r->kind, r->number, &p);
        fa4_status status = problem_fix_schedule(context, &p, &err);
        if (status == FA4_NO_DEVICE) {
            printf("nothing is compared here: %s\n", err.text);
            problem_free(&p);
            break;
        }
        CHECK(status == FA4_OK, "%s: %s", p.text, err.text);
        CHECK(record_inputs(&p) == r->inputs, "%s: other inputs than on the H200", p.text);
        if (r->kind == PROBLEM_EXACT) check_exact(context, &p, r);
        else check_ordinary(context, &p, r, &equal);
        if (r->kind == PROBLEM_EXACT && done[0]++ < 3 && p.t.v.shape[1] > 1) control(context, &p, r);
        done[1] += r->kind == PROBLEM_ORDINARY;
        problem_free(&p);
    }
    printf("%d exact and %d ordinary problems of the H200's; %d ordinary outputs bit-equal\n", done[0], done[1], equal);
    fa4_context_close(context);
    return check_report();
}
