/* The emulator through fa4.h: modules, launches and sessions. Translates structs and checks arguments; the machine is in emu/. */
#include "api/api.h"

#include "emu/emu.h"
#include "emu/emu_session.h"
#include "kernel/tensormap.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fa4_emu_module {
    int32_t references; /* the handle's own, and one a session: finalizers run in any order */
    fa4_context *context;
    emu_module *module;
};

struct fa4_emu_session {
    fa4_emu_module *module;
    emu_session *session;
    emu_region *regions;
};

static_assert(sizeof(fa4_emu_finding) == sizeof(emu_finding), "one layout, two names");
static_assert((int)FA4_EMU_TEXT_BYTES == (int)EMU_FINDING_TEXT_BYTES && (int)FA4_EMU_CLASSES == (int)EMU_CLASSES &&
                  (int)FA4_EMU_WARPS == (int)EMU_ROLES_MAX, "one size, two names");

fa4_status fa4_emu_load(fa4_context *context, const char *text, int64_t bytes, fa4_emu_module **module, fa4_error *err) {
    if (context == NULL || text == NULL || module == NULL || bytes < 0) return error_set(err, FA4_BAD_ARGUMENT, "emu_load: expected a context, text and its length");
    fa4_emu_module *m = calloc(1, sizeof *m);
    *module = NULL;
    if (m == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    m->references = 1;
    m->context = context;
    fa4_status status = emu_module_load(text, (size_t)bytes, context->env.cpu, &m->module, err);
    if (status != FA4_OK) {
        free(m);
        return status;
    }
    api_context_retain(context);
    *module = m;
    return FA4_OK;
}

void fa4_emu_close(fa4_emu_module *m) {
    if (m == NULL || __atomic_sub_fetch(&m->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    emu_module_destroy(m->module);
    api_context_release(m->context);
    free(m);
}

/* ---- entries ---- */

static const ptx_function *entry_at(const fa4_emu_module *m, int32_t entry) {
    const ptx_program *p = emu_module_program(m->module);
    for (uint32_t i = 0; i < p->function_count; i++)
        if (p->functions[i].entry && !p->functions[i].prototype && entry-- == 0) return &p->functions[i];
    return NULL;
}

static fa4_status find_entry(const fa4_emu_module *m, int32_t entry, const ptx_function **f, fa4_error *err) {
    *f = m == NULL ? NULL : entry_at(m, entry);
    return *f ? FA4_OK : error_range(err, "entry", entry, 0, m ? fa4_emu_entry_count(m) - 1 : -1);
}

int32_t fa4_emu_entry_count(const fa4_emu_module *m) {
    int32_t n = 0;
    while (m != NULL && entry_at(m, n) != NULL) n++;
    return n;
}

fa4_status fa4_emu_entry_get(const fa4_emu_module *m, int32_t entry, fa4_emu_entry *result, fa4_error *err) {
    const ptx_function *f;
    FA4_TRY(find_entry(m, entry, &f, err));
    const int32_t *most = f->reqntid[0] > 0 ? f->reqntid : f->maxntid;
    *result = (fa4_emu_entry){.name = f->name, .params = (int32_t)f->param_count, .instructions = (int32_t)emu_module_function(m->module, f)->instr_count, .param_bytes = f->param_bytes,
                              .shared_bytes = f->shared_bytes,
                              .threads_max = most[0] * (most[1] > 0 ? most[1] : 1) * (most[2] > 0 ? most[2] : 1)};
    return FA4_OK;
}

fa4_status fa4_emu_param_get(const fa4_emu_module *m, int32_t entry, int32_t param, fa4_emu_param *result, fa4_error *err) {
    const ptx_function *f;
    FA4_TRY(find_entry(m, entry, &f, err));
    if (param < 0 || param >= (int32_t)f->param_count) return error_range(err, "param", param, 0, (int64_t)f->param_count - 1);
    const ptx_symbol *s = &emu_module_program(m->module)->symbols[f->params[param]];
    *result = (fa4_emu_param){s->name, ptx_type_name(s->type), (int64_t)s->offset, (int64_t)s->size, s->align};
    return FA4_OK;
}

static fa4_status print_entry(const fa4_emu_module *m, const ptx_function *f, char **text, fa4_error *err) {
    const ptx_program *p = emu_module_program(m->module);
    size_t length = 0;
    uint32_t label = 0;
    char line[512];
    FILE *out = open_memstream(text, &length);
    if (out == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < f->instr_count; i++) {
        for (; label < f->label_count && f->labels[label].instr <= i; label++) fprintf(out, "%s:\n", f->labels[label].name);
        ptx_print_instr(p, f, &f->instrs[i], line, sizeof line);
        fprintf(out, "%6u  %s\n", i, line);
    }
    return fclose(out) == 0 ? FA4_OK : error_set(err, FA4_NO_MEMORY, "out of memory");
}

fa4_status fa4_emu_disassemble(const fa4_emu_module *m, int32_t entry, char **text, fa4_error *err) {
    const ptx_function *f;
    size_t length;
    if (m == NULL || text == NULL) return error_set(err, FA4_BAD_ARGUMENT, "emu_disassemble: expected a module and where to put the text");
    *text = NULL;
    if (entry < 0) return ptx_print(emu_module_program(m->module), text, &length, err);
    FA4_TRY(find_entry(m, entry, &f, err));
    return print_entry(m, emu_module_function(m->module, f), text, err);
}

/* ---- tensor maps ---- */

fa4_status fa4_emu_tensormap_encode(const fa4_emu_tensormap *t, void *object, fa4_error *err) {
    static const int32_t types[] = {[FA4_F16] = KERNEL_TENSORMAP_F16, [FA4_BF16] = KERNEL_TENSORMAP_BF16, [FA4_F32] = KERNEL_TENSORMAP_F32,
                                    [FA4_F64] = KERNEL_TENSORMAP_F64, [FA4_I32] = KERNEL_TENSORMAP_I32};
    if (t == NULL || object == NULL) return error_set(err, FA4_BAD_ARGUMENT, "tensormap: expected a description and 128 bytes");
    if (t->dtype < 0 || t->dtype > FA4_I32) return error_set(err, FA4_BAD_ARGUMENT, "tensormap: dtype: unknown number %d", t->dtype);
    if (t->rank < 1 || t->rank > 5) return error_set(err, FA4_BAD_ARGUMENT, "tensormap: rank: expected 1..5, got %d", t->rank);
    kernel_tensormap map = {.address = (uint64_t)(uintptr_t)t->address, .type = types[t->dtype], .rank = t->rank};
    map.swizzle = t->swizzle == 0 ? 0 : t->swizzle == 32 ? 1 : t->swizzle == 64 ? 2 : t->swizzle == 128 ? 3 : -1;
    for (int32_t i = 0; i < t->rank; i++) {
        map.dims[i] = (uint64_t)t->dims[i];
        map.strides[i] = i > 0 ? (uint64_t)t->strides[i] : 0;
        map.box[i] = t->box[i] < 1 || t->box[i] > 256 ? 0 : (uint32_t)t->box[i];
    }
    return kernel_tensormap_encode(&map, object, err);
}

/* ---- launches ---- */

const char *fa4_emu_kind_name(int32_t kind) {
    return emu_kind_name(kind);
}
const char *fa4_emu_class_name(int32_t class_id) {
    return class_id >= 0 && class_id < EMU_CLASSES ? emu_class_names[class_id] : "unknown";
}

static fa4_status translate(const fa4_emu_module *m, const fa4_emu_launch *l, emu_launch *to, emu_region **regions, fa4_error *err) {
    const ptx_function *f;
    *regions = NULL;
    if (m == NULL || l == NULL || l->region_count < 0 || (l->region_count > 0 && l->regions == NULL))
        return error_set(err, FA4_BAD_ARGUMENT, "emu_run: expected a module and a launch");
    FA4_TRY(find_entry(m, l->entry, &f, err));
    *regions = calloc((size_t)l->region_count + 1, sizeof **regions);
    if (*regions == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    for (int32_t i = 0; i < l->region_count; i++)
        (*regions)[i] = (emu_region){l->regions[i].data, (uint64_t)l->regions[i].bytes, l->regions[i].name ? l->regions[i].name : "a buffer", 0};
    *to = (emu_launch){.entry = f->name, .grid = {l->grid[0], l->grid[1], l->grid[2]}, .block = {l->block[0], l->block[1], l->block[2]},
                         .cluster = {l->cluster[0], l->cluster[1], l->cluster[2]},
                       .shared_bytes = l->shared_bytes, .params = l->params, .param_bytes = l->param_bytes, .regions = *regions,
                       .region_count = l->region_count, .sms = l->sms, .seed = l->seed, .schedule = l->schedule, .threads = l->threads,
                       .cta_first = l->cta_first, .cta_count = l->cta_count, .max_instructions = l->max_instructions, .unchecked = l->unchecked,
                       .independent = l->independent,
                       .workers = m->context->workers, .interrupt = &m->context->interrupt, .progress = &m->context->progress};
    return FA4_OK;
}

static void give_findings(const emu_report *r, fa4_emu_finding *findings, int32_t room) {
    for (int32_t i = 0; i < r->finding_count && i < room; i++) memcpy(&findings[i], &r->findings[i], sizeof findings[i]);
}

static void give_report(const emu_report *r, fa4_emu_report *report) {
    *report = (fa4_emu_report){.instructions = r->instructions, .lanes = r->lanes, .mmas = r->mmas, .bytes_loaded = r->bytes_loaded,
                               .bytes_stored = r->bytes_stored, .ctas = r->ctas, .threads = r->threads, .errors = r->errors, .findings = r->finding_count,
                               .mma_flops = r->mma_flops, .mma_us = (double)r->mma_ns * 1e-3};
    memcpy(report->per_class, r->per_class, sizeof report->per_class);
    memcpy(report->per_warp, r->per_warp, sizeof report->per_warp);
}

fa4_status fa4_emu_run(fa4_emu_module *m, const fa4_emu_launch *l, fa4_emu_report *report, fa4_emu_finding *findings, int32_t room, fa4_error *err) {
    emu_launch launch;
    emu_region *regions;
    struct timespec before, after;
    if (report == NULL || room < 0 || (room > 0 && findings == NULL)) return error_set(err, FA4_BAD_ARGUMENT, "emu_run: expected a report and room for findings");
    FA4_TRY(translate(m, l, &launch, &regions, err));
    emu_report *r = calloc(1, sizeof *r);
    fa4_status status = r ? FA4_OK : error_set(err, FA4_NO_MEMORY, "out of memory");
    if (r != NULL) {
        clock_gettime(CLOCK_MONOTONIC, &before);
        status = emu_run(m->module, &launch, r, err);
        clock_gettime(CLOCK_MONOTONIC, &after);
        give_report(r, report);
        give_findings(r, findings, room);
        report->time_us = (double)(after.tv_sec - before.tv_sec) * 1e6 + (double)(after.tv_nsec - before.tv_nsec) * 1e-3;
    }
    free(r);
    free(regions);
    return status;
}

/* ---- sessions ---- */

fa4_status fa4_emu_session_open(fa4_emu_module *m, const fa4_emu_launch *l, int64_t cta, fa4_emu_session **session, fa4_error *err) {
    emu_launch launch;
    if (m == NULL || session == NULL) return error_set(err, FA4_BAD_ARGUMENT, "emu_session: expected a module and somewhere to put the session");
    *session = NULL;
    fa4_emu_session *s = calloc(1, sizeof *s);
    if (s == NULL) return error_set(err, FA4_NO_MEMORY, "emu_session: out of memory");
    s->module = m;
    __atomic_add_fetch(&m->references, 1, __ATOMIC_RELAXED);
    fa4_status status = translate(m, l, &launch, &s->regions, err);
    if (status == FA4_OK) status = emu_session_open(m->module, &launch, cta, &s->session, err);
    if (status != FA4_OK) fa4_emu_session_close(s);
    else *session = s;
    return status;
}

void fa4_emu_session_close(fa4_emu_session *s) {
    if (s == NULL) return;
    emu_session_close(s->session);
    free(s->regions);
    fa4_emu_close(s->module);
    free(s);
}

fa4_status fa4_emu_session_step(fa4_emu_session *s, int32_t warp, int64_t steps, const int32_t *breakpoints, int32_t count, int32_t *done, fa4_error *err) {
    if (s == NULL || done == NULL || count < 0 || (count > 0 && breakpoints == NULL) || warp < -1 || warp >= 32)
        return error_set(err, FA4_BAD_ARGUMENT, "emu_session_step: expected a session, a warp (or -1) and breakpoints");
    *done = (int32_t)emu_session_step(s->session, warp, steps, breakpoints, count, &s->module->context->interrupt);
    if (s->module->context->interrupt) return error_set(err, FA4_INTERRUPTED, "interrupted");
    return FA4_OK;
}

fa4_status fa4_emu_session_where(const fa4_emu_session *s, fa4_emu_fragment *fragments, int32_t room, int32_t *count, fa4_error *err) {
    emu_place_of places[1024];
    if (s == NULL || count == NULL || room < 0) return error_set(err, FA4_BAD_ARGUMENT, "emu_session_where: expected a session and a count");
    *count = emu_session_where(s->session, places, 1024);
    const ptx_function *f = emu_session_function(s->session);
    for (int32_t i = 0; i < *count && i < room; i++) {
        uint32_t at = places[i].instruction;
        fragments[i] = (fa4_emu_fragment){.warp = places[i].warp, .instruction = (int32_t)at, .state = places[i].state, .lanes = places[i].lanes};
        snprintf(fragments[i].text, sizeof fragments[i].text, "(end)");
        if (at >= f->instr_count) continue;
        fragments[i].line = (int32_t)f->instrs[at].line;
        ptx_print_instr(emu_module_program(s->module->module), f, &f->instrs[at], fragments[i].text, sizeof fragments[i].text);
    }
    return FA4_OK;
}

fa4_status fa4_emu_session_register(const fa4_emu_session *s, int32_t warp, const char *name, uint64_t values[32], int32_t *bits, fa4_error *err) {
    if (s == NULL || name == NULL || bits == NULL) return error_set(err, FA4_BAD_ARGUMENT, "emu_session_register: expected a session and a name");
    *bits = emu_session_register(s->session, warp, name, values);
    if (*bits == 0) return error_set(err, FA4_BAD_ARGUMENT, "register: warp %d has no \"%.60s\"", warp, name);
    if (*bits > 0) return FA4_OK;
    *bits = 0;
    return error_set(err, FA4_UNSUPPORTED, "register: \"%.60s\" holds no value where warp %d stands: it is not written yet or no longer needed", name, warp);
}

fa4_status fa4_emu_session_shared(const fa4_emu_session *s, int64_t offset, int64_t bytes, void *out, uint8_t *written, fa4_error *err) {
    if (s == NULL || out == NULL || !emu_session_shared(s->session, offset, bytes, out, written))
        return error_set(err, FA4_BAD_ARGUMENT, "shared: %lld bytes at %lld are not inside the CTA's shared memory", (long long)bytes, (long long)offset);
    return FA4_OK;
}

fa4_status fa4_emu_session_tmem(const fa4_emu_session *s, int32_t column, uint32_t values[128], fa4_error *err) {
    if (s == NULL || !emu_session_tmem(s->session, column, values))
        return error_set(err, FA4_BAD_ARGUMENT, "tmem: expected a column 0..511 of a kernel that uses tensor memory, got %d", column);
    return FA4_OK;
}

fa4_status fa4_emu_session_barriers(const fa4_emu_session *s, fa4_emu_barrier *barriers, int32_t room, int32_t *count, fa4_error *err) {
    emu_barrier_of list[512];
    if (s == NULL || count == NULL || room < 0) return error_set(err, FA4_BAD_ARGUMENT, "barriers: expected a session and a count");
    *count = emu_session_barriers(s->session, list, 512);
    for (int32_t i = 0; i < *count && i < room && i < 512; i++)
        barriers[i] = (fa4_emu_barrier){list[i].offset, list[i].named, list[i].phase, list[i].pending, list[i].expected, list[i].tx};
    return FA4_OK;
}

fa4_status fa4_emu_session_findings(const fa4_emu_session *s, fa4_emu_finding *findings, int32_t room, int32_t *count, fa4_error *err) {
    if (s == NULL || count == NULL || room < 0) return error_set(err, FA4_BAD_ARGUMENT, "findings: expected a session and a count");
    const emu_report *r = emu_session_report(s->session);
    *count = r->finding_count;
    give_findings(r, findings, room);
    return FA4_OK;
}
