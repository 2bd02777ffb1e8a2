/*
 * A launch: checks its arguments, spreads CTAs over host threads (or interleaves the resident ones in one order when they depend on each
 * other through global memory), and joins their reports in grid order so that the result does not depend on the number of threads.
 */
#include "emu_internal.h"

#include <stdlib.h>

const char *const emu_class_names[EMU_CLASSES] = {"move", "integer", "float", "memory", "sync", "control", "copy", "tensor"};

enum { SMS_DEFAULT = 148, SLICE = 64 };

/* ---- one CTA's state ---- */

static void *take(size_t bytes, bool *good) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (p == NULL) *good = false;
    else memset(p, 0, (bytes + 63) / 64 * 64 + 64);
    return p;
}

static void cta_free(emu_cta *c) {
    if (c == NULL) return;
    for (int32_t i = 0; c->warps != NULL && i < c->warp_count; i++) {
        free(c->warps[i].bank[0]);
        free(c->warps[i].predicates);
        free(c->warps[i].transfer_data);
        free(c->warps[i].wgmmas);
        free(c->warps[i].defined);
    }
    free(c->warps);
    free(c->shared);
    free(c->written);
    free(c->barriers);
    free(c->tmem);
    free(c->tmem_written);
    free(c->copies);
    free(c->pipe);
    free(c->panel_a);
    free(c->panel_b);
    free(c->scratch);
    free(c->wgmma_d);
    free(c->local);
    free(c);
}

static bool warp_allocate(emu_cta *c, emu_warp *w) {
    const emu_code *code = c->code;
    bool good = true;
    w->bank[0] = take(code->plane_count * sizeof(emu_plane), &good);
    w->bank[1] = code->constants;
    w->predicates = take(code->predicate_count * sizeof(uint32_t), &good);
    w->ops = code->ops;
    w->cta = c;
    if (code->tensor && c->machine->launch->schedule != EMU_ROUND_ROBIN) w->transfer_data = take(EMU_TRANSFERS_MAX * 128 * sizeof(emu_plane), &good);
    if (code->wgmma) w->wgmmas = take(EMU_WGMMA_MAX * sizeof *w->wgmmas, &good);
    if (code->may_be_unwritten && c->machine->checked) w->defined = take(code->plane_count * sizeof(uint32_t), &good);
    return good;
}

static emu_cta *cta_allocate(emu_machine *m) {
    emu_cta *c = calloc(1, sizeof *c);
    bool good = c != NULL;
    const emu_launch *l = m->launch;
    int64_t threads = (int64_t)l->block[0] * l->block[1] * l->block[2];
    if (c == NULL) return NULL;
    c->machine = m;
    c->code = m->code;
    c->warp_count = (int32_t)((threads + EMU_LANES - 1) / EMU_LANES);
    c->shared_end = EMU_SHARED_BASE + m->code->function->shared_dynamic + (uint32_t)l->shared_bytes;
    c->warps = calloc((size_t)c->warp_count, sizeof *c->warps);
    c->shared = take(c->shared_end - EMU_SHARED_BASE, &good);
    c->written = take(c->shared_end / 8 + 16, &good);
    c->barriers = take(c->shared_end / 64 + 16, &good);
    c->panel_a = take(EMU_MMA_EXTENT_MAX * EMU_MMA_K * sizeof(float), &good);
    c->panel_b = take(EMU_MMA_EXTENT_MAX * EMU_MMA_K * sizeof(float), &good);
    c->scratch = take(EMU_MMA_EXTENT_MAX * EMU_TMEM_LANES * sizeof(float), &good);
    if (m->code->wgmma) c->wgmma_d = take(EMU_MMA_EXTENT_MAX * 16 * sizeof(float), &good);
    if (m->code->tensor) {
        c->tmem = take(EMU_TMEM_COLUMNS * EMU_TMEM_LANES * sizeof(uint32_t), &good);
        c->tmem_written = take(EMU_TMEM_COLUMNS * sizeof *c->tmem_written, &good);
    }
    if (m->code->function->local_bytes) c->local = take((size_t)m->code->function->local_bytes * (size_t)c->warp_count * EMU_LANES, &good);
    for (int32_t i = 0; c->warps != NULL && i < c->warp_count; i++) good = good && warp_allocate(c, &c->warps[i]);
    if (good && c->warps != NULL) return c;
    cta_free(c);
    return NULL;
}

/* ---- special registers ---- */

static uint64_t special_value(const emu_cta *c, const emu_warp *w, int special, int lane) {
    const emu_launch *l = c->machine->launch;
    int64_t thread = (int64_t)w->index * EMU_LANES + lane;
    switch (special) {
    case PTX_SPECIAL_TID_X: return (uint64_t)(thread % l->block[0]);
    case PTX_SPECIAL_TID_Y: return (uint64_t)(thread / l->block[0] % l->block[1]);
    case PTX_SPECIAL_TID_Z: return (uint64_t)(thread / l->block[0] / l->block[1]);
    case PTX_SPECIAL_NTID_X: case PTX_SPECIAL_NTID_Y: case PTX_SPECIAL_NTID_Z: return (uint64_t)l->block[special - PTX_SPECIAL_NTID_X];
    case PTX_SPECIAL_CTAID_X: case PTX_SPECIAL_CTAID_Y: case PTX_SPECIAL_CTAID_Z: return (uint64_t)c->id[special - PTX_SPECIAL_CTAID_X];
    case PTX_SPECIAL_CLUSTERID_X: case PTX_SPECIAL_CLUSTERID_Y: case PTX_SPECIAL_CLUSTERID_Z: return (uint64_t)c->id[special - PTX_SPECIAL_CLUSTERID_X];
    case PTX_SPECIAL_NCTAID_X: case PTX_SPECIAL_NCTAID_Y: case PTX_SPECIAL_NCTAID_Z: return (uint64_t)l->grid[special - PTX_SPECIAL_NCTAID_X];
    case PTX_SPECIAL_NCLUSTERID_X: case PTX_SPECIAL_NCLUSTERID_Y: case PTX_SPECIAL_NCLUSTERID_Z: return (uint64_t)l->grid[special - PTX_SPECIAL_NCLUSTERID_X];
    case PTX_SPECIAL_LANEID: return (uint64_t)lane;
    case PTX_SPECIAL_WARPID: return (uint64_t)w->index;
    case PTX_SPECIAL_NWARPID: return (uint64_t)c->warp_count;
    case PTX_SPECIAL_SMID: return (uint64_t)c->slot;
    case PTX_SPECIAL_NSMID: return (uint64_t)c->machine->sms;
    case PTX_SPECIAL_LANEMASK_EQ: return 1u << lane;
    case PTX_SPECIAL_LANEMASK_LT: return (1u << lane) - 1;
    case PTX_SPECIAL_LANEMASK_LE: return (2u << lane) - 1;
    case PTX_SPECIAL_LANEMASK_GT: return (uint32_t)~((2u << lane) - 1);
    case PTX_SPECIAL_LANEMASK_GE: return (uint32_t)~((1u << lane) - 1);
    case PTX_SPECIAL_CLUSTER_NCTAID_X: case PTX_SPECIAL_CLUSTER_NCTAID_Y: case PTX_SPECIAL_CLUSTER_NCTAID_Z:
    case PTX_SPECIAL_CLUSTER_NCTARANK: return 1;
    case PTX_SPECIAL_DYNAMIC_SMEM_SIZE: return (uint64_t)l->shared_bytes;
    case PTX_SPECIAL_TOTAL_SMEM_SIZE: return c->shared_end - EMU_SHARED_BASE;
    default: return 0;
    }
}

static void fill_specials(emu_cta *c, emu_warp *w) {
    const emu_code *code = c->code;
    for (uint32_t i = 0; i < code->special_count; i++)
        for (int lane = 0; lane < EMU_LANES; lane++)
            emu_put(w, code->special_first + 2 * i, true, lane, special_value(c, w, code->specials[i], lane));
}

static void cta_start(emu_cta *c, int64_t index, emu_report *report) {
    const emu_launch *l = c->machine->launch;
    int64_t threads = (int64_t)l->block[0] * l->block[1] * l->block[2];
    c->index = index;
    c->id[0] = (int32_t)(index % l->grid[0]);
    c->id[1] = (int32_t)(index / l->grid[0] % l->grid[1]);
    c->id[2] = (int32_t)(index / l->grid[0] / l->grid[1]);
    c->report = report;
    memset(c->written, 0, c->shared_end / 8 + 16);
    memset(c->barriers, 0, c->shared_end / 64 + 16);
    if (c->tmem_written) memset(c->tmem_written, 0, EMU_TMEM_COLUMNS * sizeof *c->tmem_written);
    memset(c->named, 0, sizeof c->named);
    memset(c->tmem_size, 0, sizeof c->tmem_size);
    c->tmem_allocated = 0;
    c->tmem_relinquished = c->stopped = c->done = false;
    c->copy_count = c->pipe_count = 0;
    c->register_pool = 0;
    c->changes = 1;
    c->time = c->idle_time = 0;
    c->turn = 0;
    c->mmas = c->bytes_loaded = c->bytes_stored = 0;
    c->random = l->seed * 0x9e3779b97f4a7c15ull + (uint64_t)index * 0xd1342543de82ef95ull + 1;
    int32_t choices = (c->warp_count + 3) / 4 + 3; /* warpgroups, and three units */
    c->starved = (int32_t)(l->seed % (uint64_t)choices);
    if (c->starved >= (c->warp_count + 3) / 4) c->starved = -1 - (c->starved - (c->warp_count + 3) / 4);
    for (int32_t i = 0; i < c->warp_count; i++) {
        emu_warp *w = &c->warps[i];
        int64_t lanes = threads - (int64_t)i * EMU_LANES;
        w->index = i;
        memset(w->predicates, 0, c->code->predicate_count * sizeof(uint32_t));
        w->predicates[1] = ~0u;
        if (w->defined) memset(w->defined, 0, c->code->plane_count * sizeof(uint32_t));
        w->instructions = w->lane_instructions = 0;
        memset(w->per_class, 0, sizeof w->per_class);
        memset(w->bulk_group, 0, sizeof w->bulk_group);
        w->load_count = w->store_count = w->wgmma_count = 0;
        w->wgmma_group = 0;
        w->registers = (uint32_t)c->machine->entry_registers;
        w->local = c->local ? c->local + (size_t)i * EMU_LANES * c->code->function->local_bytes : NULL;
        emu_warp_start(w, lanes >= EMU_LANES ? ~0u : (1u << lanes) - 1);
        fill_specials(c, w);
    }
}

static void cta_end(emu_cta *c) {
    emu_report *r = c->report;
    char text[160];
    if (!c->stopped && emu_tensor_leak(c, text, sizeof text)) emu_report_finding(c, NULL, -1, EMU_LEAK, EMU_ERROR, NULL, "%s", text);
    for (int32_t i = 0; i < c->warp_count; i++) {
        const emu_warp *w = &c->warps[i];
        r->instructions += w->instructions;
        r->lanes += w->lane_instructions;
        r->per_warp[i] += w->instructions;
        for (int k = 0; k < EMU_CLASSES; k++) r->per_class[k] += w->per_class[k];
    }
    r->mmas += c->mmas;
    r->bytes_loaded += c->bytes_loaded;
    r->bytes_stored += c->bytes_stored;
    r->ctas++;
}

/* ---- reports ---- */

static void join_reports(emu_report *to, const emu_report *from) {
    to->instructions += from->instructions;
    to->lanes += from->lanes;
    for (int i = 0; i < EMU_CLASSES; i++) to->per_class[i] += from->per_class[i];
    for (int i = 0; i < EMU_ROLES_MAX; i++) to->per_warp[i] += from->per_warp[i];
    to->mmas += from->mmas;
    to->bytes_loaded += from->bytes_loaded;
    to->bytes_stored += from->bytes_stored;
    to->ctas += from->ctas;
    to->errors += from->errors;
    for (int32_t i = 0; i < from->finding_count; i++) {
        const emu_finding *f = &from->findings[i];
        int32_t j = 0;
        while (j < to->finding_count && !(to->findings[j].kind == f->kind && to->findings[j].line == f->line && f->kind != EMU_DEADLOCK)) j++;
        if (j < to->finding_count) to->findings[j].count += f->count;
        else if (j < EMU_FINDINGS_MAX) to->findings[to->finding_count++] = *f;
    }
}

/* ---- independent CTAs: each worker keeps one CTA's state and runs blocks of them to their end ---- */

typedef struct crowd {
    emu_machine *machine;
    emu_cta **ctas;      /* per worker */
    emu_report *reports; /* per item */
    int64_t first, count, per_item;
    bool no_memory;
} crowd;

static bool interrupted(const emu_machine *m) {
    return m->launch->interrupt != NULL && *m->launch->interrupt;
}

static void run_item(void *state, int64_t item, int32_t worker) {
    crowd *k = state;
    emu_machine *m = k->machine;
    if (k->ctas[worker] == NULL) k->ctas[worker] = cta_allocate(m);
    emu_cta *c = k->ctas[worker];
    if (c == NULL) {
        k->no_memory = true;
        return;
    }
    for (int64_t i = item * k->per_item; i < k->count && i < (item + 1) * k->per_item; i++) {
        if (m->stop || interrupted(m)) return;
        c->slot = (int32_t)(i % m->sms);
        cta_start(c, k->first + i, &k->reports[item]);
        while (emu_cta_turn(c))
            if (interrupted(m)) return;
        cta_end(c);
        if (k->reports[item].errors > 0) m->stop = 1;
    }
}

static fa4_status run_independent(emu_machine *m, int64_t first, int64_t count, emu_report *report, fa4_error *err) {
    const emu_launch *l = m->launch;
    pool *workers = l->listener == NULL ? l->workers : NULL;
    int32_t threads = workers ? pool_threads(workers) : 1;
    int64_t items = count < SLICE ? count : SLICE;
    crowd k = {.machine = m, .first = first, .count = count, .per_item = (count + items - 1) / items};
    fa4_status status = FA4_OK;
    items = (count + k.per_item - 1) / k.per_item;
    k.ctas = calloc((size_t)threads, sizeof *k.ctas);
    k.reports = calloc((size_t)items, sizeof *k.reports);
    if (k.ctas == NULL || k.reports == NULL) k.no_memory = true;
    else if (workers) status = pool_run(workers, items, l->threads, run_item, &k, l->interrupt, l->progress, err);
    else
        for (int64_t i = 0; i < items && !m->stop; i++) run_item(&k, i, 0);
    for (int64_t i = 0; k.reports != NULL && i < items; i++) join_reports(report, &k.reports[i]);
    for (int32_t i = 0; k.ctas != NULL && i < threads; i++) cta_free(k.ctas[i]);
    free(k.ctas);
    free(k.reports);
    report->threads = l->threads > 0 && l->threads < threads ? l->threads : threads;
    if (status == FA4_OK && k.no_memory) status = error_set(err, FA4_NO_MEMORY, "out of memory for the emulator's state");
    return status;
}

/* ---- CTAs that see each other: the resident ones take turns, the next starts where one ends ---- */

static fa4_status run_ordered(emu_machine *m, int64_t first, int64_t count, emu_report *report, fa4_error *err) {
    int32_t resident = count < m->sms ? (int32_t)count : m->sms, alive = 0;
    int64_t next = 0;
    emu_cta **ctas = calloc((size_t)resident, sizeof *ctas);
    uint64_t random = m->launch->seed + 77;
    fa4_status status = ctas ? FA4_OK : error_set(err, FA4_NO_MEMORY, "out of memory");
    for (int32_t i = 0; i < resident && status == FA4_OK; i++, alive++) {
        ctas[i] = cta_allocate(m);
        if (ctas[i] == NULL) status = error_set(err, FA4_NO_MEMORY, "out of memory for %d resident CTAs", resident);
        else ctas[i]->slot = i, cta_start(ctas[i], first + next++, report);
    }
    for (int32_t at = 0; alive > 0 && status == FA4_OK && report->errors == 0; at = (at + 1) % resident) {
        if (m->launch->schedule != EMU_ROUND_ROBIN) at = (int32_t)(emu_random_next(&random) % (uint64_t)resident);
        if (interrupted(m)) status = error_set(err, FA4_INTERRUPTED, "interrupted");
        if (ctas[at]->done || emu_cta_turn(ctas[at])) continue;
        cta_end(ctas[at]);
        if (next < count) {
            cta_start(ctas[at], first + next++, report);
            continue;
        }
        ctas[at]->done = true;
        alive--;
    }
    for (int32_t i = 0; ctas != NULL && i < resident; i++) cta_free(ctas[i]);
    free(ctas);
    report->threads = 1;
    return status;
}

/* ---- arguments ---- */

static fa4_status check_dimensions(const emu_launch *l, const ptx_function *f, fa4_error *err) {
    static const int64_t grid_max[3] = {INT32_MAX, 65535, 65535}, block_max[3] = {1024, 1024, 64};
    int64_t threads = 1, ctas = 1;
    for (int i = 0; i < 3; i++) {
        if (l->grid[i] < 1 || l->grid[i] > grid_max[i])
            return error_set(err, FA4_BAD_ARGUMENT, "grid[%d]: expected 1..%lld, got %d", i, (long long)grid_max[i], l->grid[i]);
        if (l->block[i] < 1 || l->block[i] > block_max[i])
            return error_set(err, FA4_BAD_ARGUMENT, "block[%d]: expected 1..%lld, got %d", i, (long long)block_max[i], l->block[i]);
        if (f->reqntid[i] > 0 && f->reqntid[i] != l->block[i])
            return error_set(err, FA4_BAD_ARGUMENT, "block[%d]: %s requires %d (.reqntid), got %d", i, f->name, f->reqntid[i], l->block[i]);
        threads *= l->block[i];
        ctas *= l->grid[i];
    }
    if (threads > 1024) return error_set(err, FA4_BAD_ARGUMENT, "block: %lld threads, at most 1024", (long long)threads);
    if (f->maxntid[0] > 0) {
        int64_t most = (int64_t)f->maxntid[0] * (f->maxntid[1] > 0 ? f->maxntid[1] : 1) * (f->maxntid[2] > 0 ? f->maxntid[2] : 1);
        if (threads > most) return error_set(err, FA4_BAD_ARGUMENT, "block: %lld threads, %s allows %lld (.maxntid)", (long long)threads, f->name, (long long)most);
    }
    if (l->cta_first < 0 || l->cta_count < 0 || l->cta_first + (l->cta_count ? l->cta_count : 1) > ctas)
        return error_set(err, FA4_BAD_ARGUMENT, "ctas: %lld from %lld on, the grid has %lld", (long long)l->cta_count, (long long)l->cta_first, (long long)ctas);
    return FA4_OK;
}

static fa4_status check_launch(const emu_launch *l, const ptx_function *f, fa4_error *err) {
    FA4_TRY(check_dimensions(l, f, err));
    if (l->shared_bytes < 0 || (int64_t)f->shared_dynamic + l->shared_bytes > EMU_SHARED_BYTES_MAX)
        return error_set(err, FA4_BAD_ARGUMENT, "shared: %lld dynamic and %u static bytes exceed %d", (long long)l->shared_bytes, f->shared_bytes, EMU_SHARED_BYTES_MAX);
    if (l->param_bytes != (int64_t)f->param_bytes || (l->params == NULL && f->param_bytes > 0))
        return error_set(err, FA4_BAD_ARGUMENT, "params: %s takes %u bytes, got %lld", f->name, f->param_bytes, (long long)l->param_bytes);
    if (f->reqnctapercluster[0] > 1 || f->reqnctapercluster[1] > 1 || f->reqnctapercluster[2] > 1)
        return error_set(err, FA4_UNSUPPORTED, "%s needs a cluster of several CTAs, which is not modelled", f->name);
    if (l->schedule < EMU_ROUND_ROBIN || l->schedule > EMU_STARVE) return error_set(err, FA4_BAD_ARGUMENT, "schedule: unknown number %d", l->schedule);
    if (l->sms < 0 || l->sms > 1024) return error_set(err, FA4_BAD_ARGUMENT, "sms: expected 0..1024, got %d", l->sms);
    return FA4_OK;
}

/* Registers a thread has at entry: what launch bounds fix, else 0 (then setmaxnreg is ignored, as the assembler does). */
static int32_t registers_at_entry(const emu_launch *l, const ptx_function *f) {
    if (l->registers > 0) return l->registers;
    if (f->maxnreg > 0) return f->maxnreg;
    const int32_t *most = f->reqntid[0] > 0 ? f->reqntid : f->maxntid;
    if (f->minnctapersm < 1 || most[0] < 1) return 0;
    int32_t threads = most[0] * (most[1] > 0 ? most[1] : 1) * (most[2] > 0 ? most[2] : 1);
    int32_t n = 65536 / (threads * f->minnctapersm) / 8 * 8;
    return n > 256 ? 256 : n;
}

static fa4_status first_error(const emu_report *r, fa4_error *err) {
    for (int32_t i = 0; i < r->finding_count; i++) {
        const emu_finding *f = &r->findings[i];
        if (f->severity != EMU_ERROR) continue;
        return error_set(err, FA4_FINDING, "%s: CTA (%d, %d, %d), warp %d, PTX line %d, source line %d: %s", emu_kind_name(f->kind), f->cta[0],
                         f->cta[1], f->cta[2], f->warp, f->line, f->source_line, f->text);
    }
    return FA4_OK;
}

fa4_status emu_run(const emu_module *module, const emu_launch *launch, emu_report *report, fa4_error *err) {
    emu_machine m = {.module = module, .launch = launch, .mma = module->mma, .checked = !launch->unchecked};
    const ptx_function *f = NULL;
    memset(report, 0, sizeof *report);
    FA4_TRY(ptx_program_entry(module->program, launch->entry, &f, err));
    FA4_TRY(check_launch(launch, f, err));
    m.code = &module->codes[f - module->program->functions];
    m.sms = launch->sms ? launch->sms : SMS_DEFAULT;
    m.max_instructions = launch->max_instructions > 0 ? launch->max_instructions : 1ll << 33;
    m.entry_registers = registers_at_entry(launch, f);
    m.region_count = launch->region_count + 1;
    m.regions = calloc((size_t)m.region_count, sizeof *m.regions);
    if (m.regions == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    if (launch->region_count > 0) memcpy(m.regions, launch->regions, (size_t)launch->region_count * sizeof *m.regions);
    m.regions[launch->region_count] = (emu_region){module->globals, module->program->global_bytes, "the module's global data", 0};
    int64_t total = (int64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    int64_t count = launch->cta_count ? launch->cta_count : total - launch->cta_first;
    fa4_status status = m.code->ordered ? run_ordered(&m, launch->cta_first, count, report, err)
                                        : run_independent(&m, launch->cta_first, count, report, err);
    free(m.regions);
    if (status == FA4_OK && interrupted(&m)) status = error_set(err, FA4_INTERRUPTED, "interrupted");
    return status == FA4_OK ? first_error(report, err) : status;
}
