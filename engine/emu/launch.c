/*
 * A launch: checks its arguments, spreads CTAs over host threads (or interleaves the resident ones in one order when they depend on each
 * other through global memory), and joins their reports in grid order so that the result does not depend on the number of threads.
 */
#include "cluster_internal.h"

#include <stdlib.h>

const char *const emu_class_names[EMU_CLASSES] = {"move", "integer", "float", "memory", "sync", "control", "copy", "tensor"};

enum { SMS_DEFAULT = 148, SLICE = 64 };

/* ---- reports ---- */

static void join_reports(emu_report *to, const emu_report *from) {
    to->instructions += from->instructions;
    to->lanes += from->lanes;
    for (int i = 0; i < EMU_CLASSES; i++) to->per_class[i] += from->per_class[i];
    for (int i = 0; i < EMU_ROLES_MAX; i++) to->per_warp[i] += from->per_warp[i];
    to->mmas += from->mmas;
    to->bytes_loaded += from->bytes_loaded;
    to->bytes_stored += from->bytes_stored;
    to->mma_flops += from->mma_flops;
    to->mma_ns += from->mma_ns;
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

/* ---- independent CTAs (or clusters): each worker keeps one's state and runs blocks of them to their end ---- */

typedef struct crowd {
    emu_machine *machine;
    emu_cluster **clusters; /* per worker */
    emu_report *reports; /* per item */
    int64_t first, count, per_item;
    bool no_memory;
} crowd;

static bool interrupted(const emu_machine *m) {
    return m->launch->interrupt != NULL && *m->launch->interrupt;
}

static bool stopped(const emu_machine *m) {
    return __atomic_load_n(&m->stop, __ATOMIC_RELAXED) != 0;
}

static void run_item(void *state, int64_t item, int32_t worker) {
    crowd *k = state;
    emu_machine *m = k->machine;
    if (k->clusters[worker] == NULL) k->clusters[worker] = emu_cluster_create(m);
    emu_cluster *c = k->clusters[worker];
    if (c == NULL) {
        __atomic_store_n(&k->no_memory, true, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t i = item * k->per_item; i < k->count && i < (item + 1) * k->per_item; i++) {
        if (stopped(m) || interrupted(m)) return;
        emu_cluster_start(c, k->first + i, (int32_t)(i % m->sms), &k->reports[item]);
        while (emu_cluster_turn(c))
            if (interrupted(m)) return;
        emu_cluster_finish(c);
        if (k->reports[item].errors > 0) __atomic_store_n(&m->stop, 1, __ATOMIC_RELAXED);
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
    m->threaded = threads > 1;
    k.clusters = calloc((size_t)threads, sizeof *k.clusters);
    k.reports = calloc((size_t)items, sizeof *k.reports);
    if (k.clusters == NULL || k.reports == NULL) k.no_memory = true;
    else if (workers) status = pool_run(workers, items, l->threads, run_item, &k, l->interrupt, l->progress, err);
    else
        for (int64_t i = 0; i < items && !stopped(m); i++) run_item(&k, i, 0);
    for (int64_t i = 0; k.reports != NULL && i < items; i++) join_reports(report, &k.reports[i]);
    for (int32_t i = 0; k.clusters != NULL && i < threads; i++) emu_cluster_destroy(k.clusters[i]);
    free(k.clusters);
    free(k.reports);
    report->threads = l->threads > 0 && l->threads < threads ? l->threads : threads;
    if (status == FA4_OK && k.no_memory) status = error_set(err, FA4_NO_MEMORY, "out of memory for the emulator's state");
    return status;
}

/* ---- CTAs that see each other: the resident ones take turns, the next starts where one ends ---- */

static fa4_status run_ordered(emu_machine *m, emu_report *report, fa4_error *err) {
    int32_t resident = m->count < m->sms ? (int32_t)m->count : m->sms, alive = 0;
    emu_cluster **clusters = calloc((size_t)resident, sizeof *clusters);
    uint64_t random = m->launch->seed + 77;
    fa4_status status = clusters ? FA4_OK : error_set(err, FA4_NO_MEMORY, "out of memory");
    for (int32_t i = 0; i < resident && status == FA4_OK; i++, alive++) {
        clusters[i] = emu_cluster_create(m);
        if (clusters[i] == NULL) status = error_set(err, FA4_NO_MEMORY, "out of memory for %d resident CTAs", resident);
        else emu_cluster_start(clusters[i], m->first + m->next++, i, report);
    }
    for (int32_t at = 0; alive > 0 && status == FA4_OK && report->errors == 0; at = (at + 1) % resident) {
        if (m->launch->schedule != EMU_ROUND_ROBIN) at = (int32_t)(emu_random_next(&random) % (uint64_t)resident);
        if (interrupted(m)) status = error_set(err, FA4_INTERRUPTED, "interrupted");
        if (clusters[at]->done || emu_cluster_turn(clusters[at])) continue;
        emu_cluster_finish(clusters[at]);
        if (m->next < m->count) {
            emu_cluster_start(clusters[at], m->first + m->next++, at, report);
            continue;
        }
        clusters[at]->done = true;
        alive--;
    }
    for (int32_t i = 0; clusters != NULL && i < resident; i++) emu_cluster_destroy(clusters[i]);
    free(clusters);
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

/* The launch's cluster, or the entry's own; 1 where neither says more. */
static fa4_status choose_cluster(emu_machine *m, const emu_launch *l, const ptx_function *f, fa4_error *err) {
    m->cluster_size = 1;
    for (int i = 0; i < 3; i++) {
        int32_t own = f->reqnctapercluster[i], asked = l->cluster[i];
        if (asked < 0 || asked > EMU_CLUSTER_MAX) return error_set(err, FA4_BAD_ARGUMENT, "cluster[%d]: expected 1..%d, got %d", i, EMU_CLUSTER_MAX, asked);
        if (own > 0 && asked > 0 && own != asked)
            return error_set(err, FA4_BAD_ARGUMENT, "cluster[%d]: %s requires %d (.reqnctapercluster), got %d", i, f->name, own, asked);
        m->cluster[i] = asked > 0 ? asked : own > 0 ? own : 1;
        if (m->cluster[i] > EMU_CLUSTER_MAX || l->grid[i] % m->cluster[i] != 0)
            return error_set(err, FA4_BAD_ARGUMENT, "grid[%d]: %d is not a multiple of the cluster's %d CTAs", i, l->grid[i], m->cluster[i]);
        m->cluster_size *= m->cluster[i];
    }
    int32_t most = f->maxclusterrank > 0 && f->maxclusterrank < EMU_CLUSTER_MAX ? f->maxclusterrank : EMU_CLUSTER_MAX;
    if (m->cluster_size > most) return error_set(err, FA4_BAD_ARGUMENT, "cluster: %d CTAs, at most %d", m->cluster_size, most);
    if (f->cluster_explicit && l->cluster[0] == 0 && f->reqnctapercluster[0] == 0)
        return error_set(err, FA4_BAD_ARGUMENT, "cluster: %s requires that the launch gives it (.explicitcluster)", f->name);
    return FA4_OK;
}

/* What starts together: clusters where CTAs reach each other, single CTAs elsewhere. */
static fa4_status count_starts(emu_machine *m, const emu_launch *l, fa4_error *err) {
    int64_t size = m->code->cluster ? m->cluster_size : 1, total = (int64_t)l->grid[0] * l->grid[1] * l->grid[2];
    int64_t count = l->cta_count ? l->cta_count : total - l->cta_first;
    if (l->cta_first % size != 0 || count % size != 0)
        return error_set(err, FA4_BAD_ARGUMENT, "ctas: %lld from %lld on: expected whole clusters of %lld", (long long)count, (long long)l->cta_first, (long long)size);
    m->first = l->cta_first / size;
    m->count = count / size;
    m->sms = (l->sms ? l->sms : SMS_DEFAULT) / (int32_t)size;
    if (m->sms < 1) m->sms = 1;
    return FA4_OK;
}

static fa4_status check_launch(const emu_launch *l, const ptx_function *f, fa4_error *err) {
    FA4_TRY(check_dimensions(l, f, err));
    if (l->shared_bytes < 0 || (int64_t)f->shared_dynamic + l->shared_bytes > EMU_SHARED_BYTES_MAX)
        return error_set(err, FA4_BAD_ARGUMENT, "shared: %lld dynamic and %u static bytes exceed %d", (long long)l->shared_bytes, f->shared_bytes, EMU_SHARED_BYTES_MAX);
    if (l->param_bytes != (int64_t)f->param_bytes || (l->params == NULL && f->param_bytes > 0))
        return error_set(err, FA4_BAD_ARGUMENT, "params: %s takes %u bytes, got %lld", f->name, f->param_bytes, (long long)l->param_bytes);
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

fa4_status emu_machine_open(emu_machine *m, const emu_module *module, const emu_launch *launch, fa4_error *err) {
    *m = (emu_machine){.module = module, .launch = launch, .mma = module->mma, .checked = !launch->unchecked, .atomics = PTHREAD_MUTEX_INITIALIZER};
    const ptx_function *f = NULL;
    FA4_TRY(ptx_program_entry(module->program, launch->entry, &f, err));
    FA4_TRY(check_launch(launch, f, err));
    m->code = &module->codes[f - module->program->functions];
    FA4_TRY(choose_cluster(m, launch, f, err));
    FA4_TRY(count_starts(m, launch, err));
    m->max_instructions = launch->max_instructions > 0 ? launch->max_instructions : 1ll << 33;
    m->entry_registers = registers_at_entry(launch, f);
    m->region_count = launch->region_count + 1;
    m->regions = calloc((size_t)m->region_count, sizeof *m->regions);
    if (m->regions == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    if (launch->region_count > 0) memcpy(m->regions, launch->regions, (size_t)launch->region_count * sizeof *m->regions);
    m->regions[launch->region_count] = (emu_region){module->globals, module->program->global_bytes, "the module's global data", 0};
    return FA4_OK;
}

fa4_status emu_run(const emu_module *module, const emu_launch *launch, emu_report *report, fa4_error *err) {
    emu_machine m;
    memset(report, 0, sizeof *report);
    FA4_TRY(emu_machine_open(&m, module, launch, err));
    bool ordered = m.code->ordered && !launch->independent;
    fa4_status status = ordered ? run_ordered(&m, report, err) : run_independent(&m, m.first, m.count, report, err);
    free(m.regions);
    if (status == FA4_OK && interrupted(&m)) status = error_set(err, FA4_INTERRUPTED, "interrupted");
    return status == FA4_OK ? first_error(report, err) : status;
}
