/*
 * Who runs next in a CTA, and when asynchronous work lands: everything that the hardware leaves open is decided here, from the seed. Round
 * robin gives each warp a large quantum and lands work at once; random varies both; starve holds one warpgroup, one warp or one unit back until
 * nothing else can go on.
 */
#include "emu_internal.h"

enum { QUANTUM_LARGE = 20000, QUANTUM_SMALL = 200, DELAY = 3000 };
#define NEVER (UINT64_MAX / 4)

uint64_t emu_delay(emu_cta *cta, emu_unit unit) {
    switch (cta->machine->launch->schedule) {
    case EMU_RANDOM: return emu_random_next(&cta->random) % DELAY;
    case EMU_STARVE: return cta->starved == -1 - (int32_t)unit ? NEVER : emu_random_next(&cta->random) % 200;
    default: return 0;
    }
}

/* Lands what is due. Returns how much. */
static int32_t deliver(emu_cta *cta) {
    int32_t landed = 0;
    for (int32_t i = 0; i < cta->copy_count && !cta->stopped;) {
        if (cta->copies[i].due > cta->time) {
            i++;
            continue;
        }
        emu_copy_deliver(cta, i); /* the last takes its place */
        landed++;
    }
    while (cta->pipe_count > 0 && cta->pipe[cta->pipe_first].due <= cta->time && !cta->stopped) {
        emu_pipe_deliver(cta);
        landed++;
    }
    return landed;
}

uint64_t emu_cta_next(const emu_cta *cta) {
    uint64_t next = UINT64_MAX;
    for (int32_t i = 0; i < cta->copy_count; i++)
        if (cta->copies[i].due < next) next = cta->copies[i].due;
    if (cta->pipe_count > 0 && cta->pipe[cta->pipe_first].due < next) next = cta->pipe[cta->pipe_first].due;
    return next;
}

/* Nothing can run: time passes until the next unit is done. False when none is at work. */
bool emu_cta_advance(emu_cta *cta) {
    uint64_t next = emu_cta_next(cta), before = cta->time;
    if (next == UINT64_MAX) return false;
    if (next >= NEVER / 2) { /* a starved unit: land just one thing, whatever its time */
        if (cta->pipe_count > 0 && cta->starved == -1 - EMU_UNIT_TENSOR) emu_pipe_deliver(cta);
        else if (cta->copy_count > 0) emu_copy_deliver(cta, (int32_t)(emu_random_next(&cta->random) % (uint64_t)cta->copy_count));
        else emu_pipe_deliver(cta);
        return true;
    }
    cta->time = next > cta->time ? next : cta->time;
    cta->idle_time += cta->time - before;
    deliver(cta);
    return true;
}

/* Transfers held back until their wait, of warps that are blocked elsewhere, land too when nothing else can happen. */
bool emu_cta_settle(emu_cta *cta) {
    bool any = false;
    for (int32_t i = 0; i < cta->warp_count; i++) {
        any |= cta->warps[i].load_count + cta->warps[i].store_count > 0;
        emu_settle_loads(&cta->warps[i]);
        emu_settle_stores(&cta->warps[i]);
    }
    return any;
}

static int64_t quantum(emu_cta *cta) {
    return cta->machine->launch->schedule == EMU_ROUND_ROBIN ? QUANTUM_LARGE : 1 + (int64_t)(emu_random_next(&cta->random) % QUANTUM_SMALL);
}

static bool is_starved(const emu_cta *cta, const emu_warp *w) {
    int32_t groups = (cta->warp_count + 3) / 4;
    return cta->starved < groups ? w->index / 4 == cta->starved : w->index == cta->starved - groups;
}

/* Runs warps from the next one on until one has taken a step. The starved ones come last. */
static bool run_some(emu_cta *cta) {
    int32_t n = cta->warp_count, first = cta->turn;
    bool starve = cta->machine->launch->schedule == EMU_STARVE && cta->starved >= 0;
    if (cta->machine->launch->schedule != EMU_ROUND_ROBIN) first = (int32_t)(emu_random_next(&cta->random) % (uint64_t)n);
    for (int pass = 0; pass < (starve && !cta->hold ? 2 : 1); pass++)
        for (int32_t i = 0; i < n; i++) {
            emu_warp *w = &cta->warps[(first + i) % n];
            if (w->alive == 0 || (starve && is_starved(cta, w) != (pass == 1))) continue;
            int64_t steps = emu_warp_run(w, quantum(cta));
            cta->turn = (first + i + 1) % n;
            if (steps > 0) return true;
            if (cta->stopped) return false;
        }
    return false;
}

bool emu_cta_alive(const emu_cta *cta) {
    for (int32_t i = 0; i < cta->warp_count; i++)
        if (cta->warps[i].alive != 0) return true;
    return false;
}

bool emu_cta_land(emu_cta *cta) {
    return deliver(cta) > 0 || emu_cta_advance(cta) || emu_cta_settle(cta);
}

emu_progress emu_cta_run(emu_cta *cta) {
    if (cta->stopped) return EMU_ENDED;
    int32_t landed = deliver(cta);
    bool ran = run_some(cta);
    if (ran && cta->time - cta->idle_time > (uint64_t)cta->machine->max_instructions)
        emu_report_finding(cta, NULL, -1, EMU_LIMIT, EMU_ERROR, NULL, "the CTA has executed %lld warp instructions without end (limit max_instructions)",
                           (long long)cta->machine->max_instructions);
    if (cta->stopped) return EMU_ENDED;
    return ran ? EMU_RAN : landed > 0 ? EMU_LANDED : EMU_IDLE;
}

bool emu_cta_turn(emu_cta *cta) {
    emu_progress progress = emu_cta_run(cta);
    if (progress == EMU_RAN || progress == EMU_ENDED) return progress == EMU_RAN;
    if (emu_cta_advance(cta)) return !cta->stopped;
    if (!emu_cta_alive(cta)) return false;
    if (emu_cta_settle(cta)) {
        cta->changes++;
        return true;
    }
    emu_deadlock(cta);
    return false;
}
