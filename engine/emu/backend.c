/*
 * The emulator as a backend: a plan's kernel, as PTX, run on the caller's tensors in host memory. What the kernel is and how it is launched
 * is kernel/'s to say; this file joins it to emu.h. FA4_EMU_SCHEDULE (round_robin, random, starve) and FA4_EMU_SEED choose the schedule.
 */
#include "backend.h"
#include "core/environment.h"
#include "emu/emu.h"
#include "emu/emu_backend.h"
#include "kernel/launch.h"
#include "kernel/variant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MODULES_MAX = 8, SMS_SM100 = 148, SMS_SM90 = 132, NAMES_MAX = 256 };

typedef struct kept_module {
    char name[KERNEL_NAME_BYTES];
    emu_module *module;
} kept_module;

struct backend {
    backend_env env;
    int32_t arch; /* 100 or 90 */
    int32_t schedule;
    uint64_t seed;
    kernel_images *images;
    kept_module modules[MODULES_MAX];
    int32_t module_count, next;
};

static fa4_status read_schedule(backend *b, fa4_error *err) {
    const char *schedule = environment_text("FA4_EMU_SCHEDULE");
    const environment_range seed = {"FA4_EMU_SEED", 0, INT64_C(1000000000000000), 0};
    int64_t number = 0;
    FA4_TRY(environment_whole(&seed, &number, err));
    b->seed = (uint64_t)number;
    if (schedule == NULL || strcmp(schedule, "round_robin") == 0) b->schedule = EMU_ROUND_ROBIN;
    else if (strcmp(schedule, "random") == 0) b->schedule = EMU_RANDOM;
    else if (strcmp(schedule, "starve") == 0) b->schedule = EMU_STARVE;
    else return error_set(err, FA4_BAD_ARGUMENT, "FA4_EMU_SCHEDULE: expected round_robin, random or starve, got \"%.40s\"", schedule);
    return FA4_OK;
}

static void close_backend(backend *b) {
    if (b == NULL) return;
    for (int32_t i = 0; i < b->module_count; i++) emu_module_destroy(b->modules[i].module);
    kernel_images_close(b->images);
    free(b);
}

static fa4_status open_backend(const backend_env *env, const char *device, backend **out, fa4_error *err) {
    bool sm100 = strcmp(device, "emu:sm_100a") == 0 || strcmp(device, "emu") == 0;
    if (!sm100 && strcmp(device, "emu:sm_90a") != 0)
        return error_set(err, FA4_NO_DEVICE, "device: \"%.40s\" is not known; the emulator runs \"emu:sm_100a\" and \"emu:sm_90a\"", device);
    backend *b = calloc(1, sizeof *b);
    if (b == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    b->env = *env;
    b->arch = sm100 ? 100 : 90;
    fa4_status status = read_schedule(b, err);
    if (status == FA4_OK) status = kernel_images_open(NULL, &b->images, err);
    if (status != FA4_OK) close_backend(b);
    else *out = b;
    return status;
}

static void limits_of(const backend *b, plan_limits *limits) {
    bool sm100 = b->arch == 100;
    limits->backend = sm100 ? FA4_BACKEND_EMU_SM100 : FA4_BACKEND_EMU_SM90;
    limits->device = sm100 ? "emu:sm_100a" : "emu:sm_90a";
    limits->sms = sm100 ? SMS_SM100 : SMS_SM90;
    limits->l2_bytes = 50ll << 20;
    limits->tiles_per_task = sm100 ? 2 : 1;
}

static fa4_status supports(const backend *b, const fa4_plan *plan, fa4_error *err) {
    (void)b;
    return kernel_launch_supports(plan, err);
}

static fa4_status buffer_create(backend *b, int64_t bytes, void **buffer, fa4_error *err) {
    (void)b;
    *buffer = aligned_alloc(256, (size_t)((bytes + 255) / 256 * 256 + 256));
    return *buffer ? FA4_OK : error_set(err, FA4_NO_MEMORY, "out of memory for %lld bytes", (long long)bytes);
}
static void buffer_destroy(backend *b, void *buffer, int64_t bytes) {
    (void)b, (void)bytes;
    free(buffer);
}
static fa4_status buffer_write(backend *b, void *buffer, int64_t offset, const void *host, int64_t bytes, fa4_error *err) {
    (void)b, (void)err;
    memcpy((char *)buffer + offset, host, (size_t)bytes);
    return FA4_OK;
}
static fa4_status buffer_read(backend *b, const void *buffer, int64_t offset, void *host, int64_t bytes, fa4_error *err) {
    (void)b, (void)err;
    memcpy(host, (const char *)buffer + offset, (size_t)bytes);
    return FA4_OK;
}

/* The variant's module, made once; the oldest gives way. */
static fa4_status find_module(backend *b, const FwdVariant *variant, emu_module **module, fa4_error *err) {
    char name[KERNEL_NAME_BYTES];
    kernel_image image;
    kernel_variant_name(variant, name);
    for (int32_t i = 0; i < b->module_count; i++)
        if (strcmp(b->modules[i].name, name) == 0) {
            *module = b->modules[i].module;
            return FA4_OK;
        }
    FA4_TRY(kernel_image_get(b->images, variant, 0, &image, err));
    fa4_status status = emu_module_load(image.ptx, image.ptx_bytes, b->env.cpu, module, err);
    kernel_image_free(&image);
    if (status != FA4_OK) {
        error_prefix(err, "the kernel %s", name);
        return status;
    }
    int32_t at = b->module_count < MODULES_MAX ? b->module_count++ : b->next++ % MODULES_MAX;
    emu_module_destroy(b->modules[at].module);
    b->modules[at].module = *module;
    snprintf(b->modules[at].name, sizeof b->modules[at].name, "%s", name);
    return FA4_OK;
}

/* The bytes that a view spans, lowest address first. */
static emu_region region_of(const fa4_tensor *t, const char *name, int32_t read_only) {
    int64_t size = fa4_dtype_bytes(t->dtype), low = 0, high = 0;
    emu_region r = {.data = t->data, .name = name, .read_only = read_only};
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] == 0) return r;
        int64_t reach = (t->shape[i] - 1) * t->strides[i];
        if (reach < 0) low += reach;
        else high += reach;
    }
    r.data = (char *)t->data + low * size;
    r.bytes = (uint64_t)((high - low + 1) * size);
    return r;
}

/* Barrier and buffer names of the variant, with copy numbers, for findings. text is where they are kept. */
static int32_t names_of(const FwdVariant *variant, emu_name *names, char (*text)[48]) {
    kernel_tables *tables = malloc(sizeof *tables);
    int32_t n = 0;
    if (tables == NULL) return 0;
    kernel_tables_of_variant(variant, tables);
    for (int32_t i = 0; i < tables->barrier_count; i++)
        for (int32_t c = 0; c < tables->barriers[i].copies && !tables->barriers[i].named && n < NAMES_MAX; c++, n++) {
            snprintf(text[n], sizeof text[n], "%s[%d]", tables->barriers[i].name, c);
            names[n] = (emu_name){(uint32_t)(tables->barriers[i].first + 8 * c), 8, text[n]};
        }
    for (int32_t i = 0; i < tables->smem_count && n < NAMES_MAX; i++, n++) {
        snprintf(text[n], sizeof text[n], "%s", tables->smem[i].name);
        names[n] = (emu_name){(uint32_t)tables->smem[i].first, (uint32_t)tables->smem[i].size, text[n]};
    }
    free(tables);
    return n;
}

typedef struct run_state {
    kernel_launch *launch;
    unsigned char *upload;
    FwdParams params;
    emu_region regions[6];
    emu_name names[NAMES_MAX];
    char text[NAMES_MAX][48];
    const char *roles[32];
    emu_report report;
    _Alignas(64) unsigned char nothing[256]; /* where maps of empty tensors point */
} run_state;

static fa4_status prepare(run_state *s, const fa4_plan *plan, const fa4_tensors *tensors, fa4_error *err) {
    kernel_tensormap maps[FWD_MAP_COUNT];
    FA4_TRY(kernel_launch_create(plan, tensors->o.dtype == FA4_F32, &s->launch, err));
    s->upload = aligned_alloc(256, (size_t)((s->launch->upload_bytes + 255) / 256 * 256 + 256));
    if (s->upload == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    memcpy(s->upload, s->launch->upload, (size_t)s->launch->copy_bytes);
    FA4_TRY(kernel_launch_maps(plan, tensors, (uint64_t)(uintptr_t)s->nothing, maps, err));
    kernel_launch_params(plan, s->launch, tensors, (uint64_t)(uintptr_t)s->upload, &s->params);
    for (int i = 0; i < FWD_MAP_COUNT; i++) {
        if (i == FWD_MAP_O && s->launch->variant.o_f32) continue;
        fa4_status status = kernel_tensormap_encode(&maps[i], &s->params.map[i], err);
        static const char *const of[FWD_MAP_COUNT] = {"q", "k", "v", "o"};
        if (status != FA4_OK) {
            error_prefix(err, "%s", of[i]);
            return status;
        }
    }
    return FA4_OK;
}

static int32_t fill_regions(run_state *s, const fa4_plan *plan, const fa4_tensors *t) {
    int32_t n = 0;
    s->regions[n++] = region_of(&t->q, "q", 1);
    s->regions[n++] = region_of(&t->k, "k", 1);
    s->regions[n++] = region_of(&t->v, "v", 1);
    s->regions[n++] = region_of(&t->o, "o", 0);
    if (plan->header.problem.lse) s->regions[n++] = region_of(&t->lse, "lse", 0);
    s->regions[n++] = (emu_region){s->upload, (uint64_t)s->launch->upload_bytes, "the plan's lists", 0};
    return n;
}

/* The parts of split keys are joined by a second launch; its findings count with the first's. */
static fa4_status combine(run_state *s, emu_module *module, const emu_launch *first, fa4_error *err) {
    emu_launch launch = *first;
    emu_report *report = malloc(sizeof *report);
    if (report == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    launch.entry = FWD_COMBINE_NAME;
    launch.grid[0] = (int32_t)s->launch->combine_grid;
    launch.block[0] = FWD_COMBINE_THREADS;
    launch.shared_bytes = 0;
    launch.independent = 1;
    launch.name_count = launch.role_count = 0;
    fa4_status status = emu_run(module, &launch, report, err);
    s->report.finding_count += report->finding_count;
    free(report);
    return status;
}

static fa4_status execute(backend *b, run_state *s, const fa4_plan *plan, const fa4_tensors *tensors, fa4_error *err) {
    emu_module *module;
    const FwdVariant *variant = &s->launch->variant;
    FA4_TRY(find_module(b, variant, &module, err));
    for (int32_t w = 0; w < 32; w++) {
        int32_t role = kernel_variant_warp_role(variant, w);
        s->roles[w] = role ? kernel_role_name(role) : NULL;
    }
    emu_launch launch = {.entry = FWD_KERNEL_NAME,
                         .grid = {(int32_t)s->launch->grid, 1, 1},
                         .block = {(int32_t)s->launch->block, 1, 1},
                         .shared_bytes = s->launch->smem_bytes,
                         .params = &s->params,
                         .param_bytes = sizeof s->params,
                         .regions = s->regions,
                         .region_count = fill_regions(s, plan, tensors),
                         .names = s->names,
                         .name_count = names_of(variant, s->names, s->text),
                         .roles = s->roles,
                         .role_count = 32,
                         .sms = plan->header.schedule.sms > 0 ? plan->header.schedule.sms : 0,
                         .seed = b->seed,
                         .schedule = b->schedule,
                         .independent = s->launch->independent,
                         .threads = plan->header.schedule.threads > 0 ? plan->header.schedule.threads : 0,
                         .workers = b->env.workers,
                         .interrupt = b->env.interrupt,
                         .progress = b->env.progress};
    FA4_TRY(emu_run(module, &launch, &s->report, err));
    return s->launch->combine_grid > 0 ? combine(s, module, &launch, err) : FA4_OK;
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static fa4_status run(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, fa4_report *report, fa4_counters *per_head, fa4_error *err) {
    run_state *s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
    if (s == NULL) return error_set(err, FA4_NO_MEMORY, "out of memory");
    memset(s, 0, sizeof *s);
    double before = now_us();
    fa4_status status = prepare(s, plan, tensors, err);
    if (status == FA4_OK && s->launch->grid > 0) status = execute(b, s, plan, tensors, err);
    report->time_us = now_us() - before;
    report->threads = s->report.threads;
    report->findings = s->report.finding_count;
    report->workers = s->launch ? (int32_t)s->launch->grid : 0;
    snprintf(report->device, sizeof report->device, "%s", b->arch == 100 ? "emu:sm_100a" : "emu:sm_90a");
    snprintf(report->path, sizeof report->path, "%s", b->arch == 100 ? "sm_100a" : "sm_90a");
    if (status == FA4_OK && s->launch->upload_size[KERNEL_UPLOAD_COUNTERS] > 0)
        kernel_launch_counters(plan, (const FwdCounters *)(const void *)(s->upload + s->launch->upload_offset[KERNEL_UPLOAD_COUNTERS]), per_head);
    kernel_launch_destroy(s->launch);
    free(s->upload);
    free(s);
    return status;
}

static fa4_status launch(backend *b, const fa4_plan *plan, const fa4_tensors *tensors, void *stream, fa4_error *err) {
    (void)b, (void)plan, (void)tensors, (void)stream;
    return error_set(err, FA4_UNSUPPORTED, "launch: the emulator has no streams to queue work on; use fa4_run");
}

static fa4_status finish(backend *b, fa4_error *err) {
    (void)b, (void)err;
    return FA4_OK;
}

const backend_functions emu_backend = {.name = "emu", .open = open_backend, .close = close_backend, .limits = limits_of, .supports = supports,
                                       .buffer_create = buffer_create, .buffer_destroy = buffer_destroy, .buffer_write = buffer_write,
                                       .buffer_read = buffer_read, .run = run, .launch = launch, .finish = finish};
