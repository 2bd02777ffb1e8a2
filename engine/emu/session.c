/* Stepping one CTA by hand. A step is one warp instruction; asynchronous work lands when it is due or when nothing else can go on. */
#include "emu/emu_session.h"
#include "cluster_internal.h"
#include "flow.h"

#include <stdio.h>
#include <stdlib.h>

struct emu_session {
    emu_launch launch;
    emu_machine machine;
    emu_cluster *cluster; /* runs along where its CTAs reach each other */
    emu_cta *cta;
    emu_report report;
    int32_t turn;
    bool ended;
};

fa4_status emu_session_open(const emu_module *module, const emu_launch *launch, int64_t cta, emu_session **session, fa4_error *err) {
    emu_session *s = calloc(1, sizeof *s);
    *session = NULL;
    if (s == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    s->launch = *launch;
    fa4_status status = emu_machine_open(&s->machine, module, &s->launch, err);
    int64_t total = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    if (status == FA4_OK && (cta < 0 || cta >= total))
        status = error_set(err, FA4_BAD_ARGUMENT, "cta: expected 0..%lld, got %lld", (long long)total - 1, (long long)cta);
    if (status == FA4_OK) {
        s->machine.next = s->machine.count; /* nothing else starts: no launch can be cancelled */
        s->cluster = emu_cluster_create(&s->machine);
        if (s->cluster == NULL) status = error_set(err, FA4_NO_MEMORY, "out of memory");
        else s->cta = emu_cluster_find(s->cluster, cta, &s->report);
    }
    if (status != FA4_OK) emu_session_close(s);
    else *session = s;
    return status;
}

void emu_session_close(emu_session *s) {
    if (s == NULL) return;
    emu_cluster_destroy(s->cluster);
    free(s->machine.regions);
    free(s);
}

static bool at_breakpoint(const emu_warp *w, const int32_t *breakpoints, int32_t count) {
    for (int32_t i = 0; i < w->fragment_count; i++)
        for (int32_t b = 0; b < count; b++)
            if (w->fragments[i].state == EMU_READY && w->fragments[i].pc == (uint32_t)breakpoints[b]) return true;
    return false;
}

/* One instruction of one warp of those allowed. Returns the warp that took it, or -1. */
static int32_t step_once(emu_session *s, int32_t warp) {
    emu_cta *c = s->cta;
    for (int32_t i = 0; i < c->warp_count; i++) {
        int32_t at = warp >= 0 ? warp : (s->turn + i) % c->warp_count;
        if (c->warps[at].alive != 0 && emu_warp_run(&c->warps[at], 1) > 0) {
            s->turn = warp >= 0 ? s->turn : at; /* stays with a warp until it waits */
            return at;
        }
        if (warp >= 0 || c->stopped) return -1;
    }
    return -1;
}

emu_stop emu_session_step(emu_session *s, int32_t warp, int64_t steps, const int32_t *breakpoints, int32_t count, const volatile int32_t *interrupt) {
    emu_cta *c = s->cta;
    for (int64_t i = 0; i < steps && !(interrupt && *interrupt); i++) {
        if (c->stopped) return EMU_STOPPED_FINDING;
        if (!emu_cta_alive(c)) return EMU_STOPPED_END;
        int32_t at = step_once(s, warp);
        if (c->stopped) return EMU_STOPPED_FINDING;
        if (at >= 0) {
            if (at_breakpoint(&c->warps[at], breakpoints, count)) return EMU_STOPPED_BREAKPOINT;
            continue;
        }
        if (!emu_cta_alive(c)) return EMU_STOPPED_END;
        if (emu_cluster_help(s->cluster, c) || emu_cta_land(c) || emu_cluster_land(s->cluster, c)) continue;
        if (warp >= 0) return EMU_STOPPED_WAITING;
        emu_cluster_deadlock(s->cluster);
        return EMU_STOPPED_FINDING;
    }
    return EMU_STOPPED_STEPS;
}

int32_t emu_session_where(const emu_session *s, emu_place_of *places, int32_t room) {
    int32_t n = 0;
    for (int32_t i = 0; i < s->cta->warp_count; i++) {
        const emu_warp *w = &s->cta->warps[i];
        for (int32_t j = 0; j < w->fragment_count; j++, n++)
            if (n < room) places[n] = (emu_place_of){i, w->fragments[j].pc, w->fragments[j].mask, (int32_t)w->fragments[j].state};
    }
    return n;
}

const ptx_function *emu_session_function(const emu_session *s) {
    return s->machine.code->function;
}

/* Registers share planes. Whether the value is that of the register where some lanes of the warp stand. */
static bool holds(const emu_warp *w, const ptx_function *function, int reg_class, uint32_t index) {
    emu_flow flow;
    bool good = false;
    if (emu_flow_create(&flow, function))
        for (int32_t i = 0; i < w->fragment_count; i++) good |= emu_flow_holds(&flow, reg_class, index, w->fragments[i].pc);
    emu_flow_destroy(&flow);
    return good;
}

int32_t emu_session_register(const emu_session *s, int32_t warp, const char *name, uint64_t values[32]) {
    static const int32_t bits[PTX_CLASS_COUNT] = {1, 16, 32, 64, 128};
    const emu_code *code = s->machine.code;
    const ptx_function *f = code->function;
    char text[128];
    if (warp < 0 || warp >= s->cta->warp_count) return 0;
    emu_warp *w = &s->cta->warps[warp];
    for (int32_t c = 0; c < PTX_CLASS_COUNT; c++)
        for (uint32_t i = 0; i < f->reg_count[c]; i++) {
            ptx_print_register(f, c, i, text, sizeof text);
            if (strcmp(text, name) != 0) continue;
            for (int lane = 0; lane < EMU_LANES; lane++)
                values[lane] = c == PTX_CLASS_PRED ? w->predicates[i + 3] >> lane & 1 : emu_get(w, code->slot_of[c][i], c >= PTX_CLASS_B64, lane);
            return holds(w, f, c, i) ? bits[c] : -bits[c];
        }
    return 0;
}

static uint32_t dynamic_start(const emu_session *s) {
    return EMU_SHARED_BASE + s->machine.code->function->shared_dynamic;
}

bool emu_session_shared(const emu_session *s, int64_t offset, int64_t bytes, uint8_t *out, uint8_t *written) {
    int64_t address = dynamic_start(s) + offset;
    if (bytes < 0 || address < EMU_SHARED_BASE || address > s->cta->shared_end || (int64_t)s->cta->shared_end - address < bytes) return false;
    memcpy(out, emu_shared_at(s->cta, (uint32_t)address), (size_t)bytes);
    for (int64_t i = 0; written != NULL && i < bytes; i++) written[i] = emu_shared_ready(s->cta, (uint32_t)(address + i), 1);
    return true;
}

bool emu_session_tmem(const emu_session *s, int32_t column, uint32_t values[128]) {
    if (s->cta->tmem == NULL || column < 0 || column >= EMU_TMEM_COLUMNS) return false;
    memcpy(values, s->cta->tmem + (size_t)column * EMU_TMEM_LANES, EMU_TMEM_LANES * sizeof *values);
    return true;
}

int32_t emu_session_barriers(const emu_session *s, emu_barrier_of *out, int32_t room) {
    int32_t n = 0;
    for (uint32_t address = EMU_SHARED_BASE; address + 8 <= s->cta->shared_end; address += 8) {
        emu_mbarrier b;
        if (!emu_mbarrier_get(s->cta, address, &b)) continue;
        if (n < room) out[n] = (emu_barrier_of){(int64_t)address - dynamic_start(s), 0, (int32_t)b.phase, (int32_t)b.pending, (int32_t)b.expected, b.tx};
        n++;
    }
    for (int32_t i = 0; i < EMU_NAMED_BARRIERS; i++) {
        const emu_named_barrier *b = &s->cta->named[i];
        if (b->arrived == 0) continue;
        if (n < room) out[n] = (emu_barrier_of){i, 1, 0, (int32_t)(b->expected - b->arrived), (int32_t)b->expected, 0};
        n++;
    }
    return n;
}

const emu_report *emu_session_report(const emu_session *s) {
    return &s->report;
}
