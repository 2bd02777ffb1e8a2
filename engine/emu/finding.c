/* Findings: what a program did wrong, said with line, role, barrier and counts. Equal ones at one instruction are counted, not repeated. */
#include "cluster_internal.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const KINDS[] = {"deadlock", "limit", "out of bounds", "misaligned", "uninitialised", "barrier misuse", "tensor misuse",
                                    "copy misuse", "divergence", "trap", "leak", "other"};

const char *emu_kind_name(int32_t kind) {
    return kind >= 0 && kind <= EMU_OTHER ? KINDS[kind] : "unknown";
}

static const char *role_name(const emu_cta *cta, int32_t warp) {
    const emu_launch *l = cta->machine->launch;
    return l->roles != NULL && warp >= 0 && warp < l->role_count ? l->roles[warp] : NULL;
}

const char *emu_shared_name(const emu_cta *cta, uint32_t address, char *text, size_t bytes) {
    const emu_launch *l = cta->machine->launch;
    const ptx_program *program = cta->machine->module->program;
    const ptx_function *f = cta->code->function;
    uint32_t dynamic = EMU_SHARED_BASE + f->shared_dynamic;
    for (int32_t i = 0; i < l->name_count; i++) {
        uint32_t from = dynamic + l->names[i].offset;
        if (address < from || address - from >= l->names[i].bytes) continue;
        snprintf(text, bytes, "%s+%u (shared 0x%x)", l->names[i].name, address - from, address);
        if (address == from) snprintf(text, bytes, "%s (shared 0x%x)", l->names[i].name, address);
        return text;
    }
    for (uint32_t i = 0; i < program->symbol_count; i++) {
        const ptx_symbol *s = &program->symbols[i];
        if (s->space != PTX_SPACE_SHARED || f->shared_offset[i] == PTX_NOWHERE) continue;
        uint32_t from = EMU_SHARED_BASE + f->shared_offset[i];
        if (address < from || (!s->dynamic && address - from >= s->size)) continue;
        snprintf(text, bytes, "%s+%u (shared 0x%x)", s->name, address - from, address);
        return text;
    }
    snprintf(text, bytes, "shared 0x%x", address);
    return text;
}

static void fill_lines(const emu_cta *cta, const ptx_instr *at, emu_finding *f) {
    if (at == NULL) return;
    f->line = (int32_t)at->line;
    f->source_line = at->loc != 0 ? (int32_t)cta->machine->module->program->locs[at->loc].line : 0;
}

emu_step emu_report_finding(emu_cta *cta, const emu_warp *w, int32_t lane, emu_kind kind, emu_severity severity, const ptx_instr *at,
                            const char *format, ...) {
    if (w != NULL) cta = w->home; /* it may be at work in another CTA's memory */
    emu_report *r = cta->report;
    emu_finding f = {.kind = (int32_t)kind, .severity = (int32_t)severity, .warp = w ? w->index : -1, .lane = lane, .count = 1};
    size_t length = 0;
    const char *role = w ? role_name(cta, w->index) : NULL;
    fill_lines(cta, at, &f);
    memcpy(f.cta, cta->id, sizeof f.cta);
    if (role) length = (size_t)snprintf(f.text, sizeof f.text, "%s: ", role);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f.text + length, sizeof f.text - length, format, arguments);
    va_end(arguments);
    if (severity == EMU_ERROR) r->errors++;
    if (severity == EMU_ERROR && kind != EMU_UNINITIALISED) cta->stopped = true;
    for (int32_t i = 0; i < r->finding_count; i++)
        if (r->findings[i].kind == f.kind && r->findings[i].line == f.line && f.kind != EMU_DEADLOCK) {
            r->findings[i].count++;
            return severity == EMU_ERROR ? EMU_STOP : EMU_NEXT;
        }
    if (r->finding_count < EMU_FINDINGS_MAX) r->findings[r->finding_count++] = f;
    return severity == EMU_ERROR ? EMU_STOP : EMU_NEXT;
}

/* ---- deadlock: one finding for each waiting fragment ---- */

static void describe_mbarrier(emu_cta *cta, emu_warp *w, const emu_op *op, const emu_fragment *f, char *text, size_t bytes) {
    char name[96];
    int lane = emu_first(f->mask);
    uint32_t address = (uint32_t)(emu_address(w, op, op->a, lane) & ~EMU_WINDOW_MASK) - cta->window;
    emu_mbarrier b;
    emu_shared_name(cta, address, name, sizeof name);
    uint64_t parity = emu_get(w, op->b, op->wide & 4, lane) & 1;
    if (!emu_mbarrier_get(cta, address, &b)) snprintf(text, bytes, "waits for mbarrier %s, which is not live", name);
    else snprintf(text, bytes, "waits for mbarrier %s, parity %d: phase %u, %u of %u arrivals missing, %d bytes expected", name, (int)parity, b.phase,
                  b.pending, b.expected, b.tx);
}

static void describe_wait(emu_cta *cta, emu_warp *w, const emu_fragment *f, char *text, size_t bytes) {
    const emu_op *op = &w->ops[f->pc];
    char line[160];
    if (f->state == EMU_AT_BARRIER) {
        const emu_named_barrier *n = &cta->named[f->barrier];
        snprintf(text, bytes, "waits at named barrier %u: %u of %u threads have arrived", f->barrier, n->arrived, n->expected);
    } else if (f->state == EMU_PARKED) {
        ptx_print_instr(cta->machine->module->program, cta->code->function, op->source, line, sizeof line);
        snprintf(text, bytes, "lanes 0x%x wait at `%s` for lanes 0x%x of their warp (aligned divergence)", f->mask, line, w->alive & ~f->mask);
    } else if (op->run == emu_do_mbarrier_wait) {
        describe_mbarrier(cta, w, op, f, text, bytes);
    } else if (op->run == emu_do_cluster_wait && cta->cluster != NULL) {
        int32_t missing = emu_cluster_missing(cta->cluster, line, sizeof line);
        snprintf(text, bytes, "waits at the cluster's barrier for %d threads of the CTAs of rank %s", missing, line);
    } else {
        ptx_print_instr(cta->machine->module->program, cta->code->function, op->source, line, sizeof line);
        snprintf(text, bytes, "waits at `%s`", line);
    }
}

void emu_deadlock(emu_cta *cta) {
    char text[400];
    for (int32_t i = 0; i < cta->warp_count; i++) {
        emu_warp *w = &cta->warps[i];
        for (int32_t j = 0; j < w->fragment_count; j++) {
            const emu_fragment *f = &w->fragments[j];
            describe_wait(cta, w, f, text, sizeof text);
            emu_report_finding(cta, w, emu_first(f->mask), f->state == EMU_PARKED ? EMU_DIVERGENCE : EMU_DEADLOCK, EMU_ERROR, w->ops[f->pc].source, "%s", text);
        }
    }
}
