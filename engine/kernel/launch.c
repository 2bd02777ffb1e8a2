/* From a plan and tensors to a launch: variant, grid, uploads, tensor-map arguments and the parameter block. What the kernels or TMA cannot
 * do is refused here, with the field and the reason. */
#include "kernel/launch_internal.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(FwdTask) == 32 && sizeof(FwdStep) == 16 && sizeof(FwdTensorMap) == FWD_MAP_BYTES, "one layout, two readers");
_Static_assert((int)FWD_CAUSAL == (int)FA4_CLASS_CAUSAL && (int)FWD_BITS == (int)FA4_CLASS_BITS, "the classes of the plan");
_Static_assert((int)FWD_BF16 == (int)FA4_BF16 && (int)FWD_FIRST_BLOCK == (int)FA4_ROW_MAX_FIRST_BLOCK, "the plan's numbers");

enum { UPLOAD_ALIGN = 256, THREADS_SM100 = 512, SMEM_BYTES_SM90 = 232448 };

/* ---- variant -------------------------------------------------------------------------------------------------- */

void kernel_variant_of_plan(const fa4_plan *plan, int32_t o_f32, FwdVariant *variant) {
    const fa4_plan_header *h = &plan->header;
    const fa4_schedule *s = &h->schedule;
    bool max_free = s->row_max == FA4_ROW_MAX_FIRST_BLOCK;
    *variant = (FwdVariant){
        .arch = launch_is_sm90(h) ? 90 : 100,
        .dtype = h->problem.dtype,
        .dim = h->problem.dim <= 64 ? 64 : 128,
        .mask_class = h->mask_class,
        .packed = h->packed,
        .soft_cap = h->problem.soft_cap > 0,
        .row_max = s->row_max,
        .integer_reference = max_free && !launch_is_sm90(h) ? 1 : s->integer_reference,
        .emulated_pairs = s->exp2_emulated_pairs,
        .first_fragment = s->exp2_first_fragment,
        .p_split = s->p_split,
        .epilogue = h->mask_class == FA4_CLASS_CAUSAL && !max_free ? FWD_EPILOGUE_SOFTMAX : FWD_EPILOGUE_CORRECTION,
        .o_f32 = o_f32 != 0,
        .order_barrier = s->order_barrier,
        .q_stages = s->q_stages,
        .kv_stages = s->kv_stages,
        .kv_split = s->kv_splits > 1,
        .tile_rows = s->tile_rows,
        .tile_keys = s->tile_keys,
        .registers_softmax = s->registers_softmax,
        .registers_correction = s->registers_correction,
        .registers_other = s->registers_other,
        .counters = s->counters,
        .delay_roles = s->delay_roles,
    };
}

static fa4_status supports_sm100(const fa4_plan_header *h, fa4_error *err) {
    const fa4_schedule *s = &h->schedule;
    if (s->delay_roles != 0)
        return error_set(err, FA4_UNSUPPORTED, "delay_roles: %s has no such test build (0), got %d", h->device, s->delay_roles);
    if (s->q_stages != 2)
        return error_set(err, FA4_UNSUPPORTED, "q_stages: %s has one softmax warpgroup for each of 2 query stages, got %d", h->device,
                         s->q_stages);
    if (s->kv_splits != 1)
        return error_set(err, FA4_UNSUPPORTED, "kv_splits: %s has no split-KV kernel (1), got %d", h->device, s->kv_splits);
    if (s->kv_stages < 3)
        return error_set(err, FA4_UNSUPPORTED, "kv_stages: expected at least 3 on %s (V of a block is read beside K of the next), got %d",
                         h->device, s->kv_stages);
    if (s->tile_rows != 128)
        return error_set(err, FA4_UNSUPPORTED, "tile_rows: %s computes tiles of 128 rows, got %d", h->device, s->tile_rows);
    return FA4_OK;
}

static fa4_status supports_sm90(const fa4_plan_header *h, fa4_error *err) {
    const fa4_schedule *s = &h->schedule;
    if (s->tile_rows > 128 && h->problem.dim > 64)
        return error_set(err, FA4_UNSUPPORTED, "tile_rows: %s computes tiles of 64 or 128 rows, up to dim 64 of 192 too, got %d", h->device, s->tile_rows);
    if (s->tile_rows > 128 && (h->problem.soft_cap > 0 || s->exp2_emulated_pairs > 0))
        return error_set(err, FA4_UNSUPPORTED, "tile_rows: 192 leave %s no registers for a soft cap or exp2_emulated_pairs", h->device);
    if (h->packed && (h->group & (h->group - 1)) != 0)
        return error_set(err, FA4_UNSUPPORTED, "gqa_packing: %s packs groups that are a power of two, got %d", h->device, h->group);
    if (s->order_barrier && s->tile_rows == 64)
        return error_set(err, FA4_UNSUPPORTED, "order_barrier: warpgroups take turns, a tile of 64 rows has one");
    if (s->kv_splits > 1 && s->kv_order == FA4_KV_SINK_FIRST && launch_derives_steps(h))
        return error_set(err, FA4_UNSUPPORTED, "kv_order: %s splits the keys (kv_splits %d) in \"reverse\" or \"forward\" order", h->device,
                         s->kv_splits);
    if (s->q_stages != 2)
        return error_set(err, FA4_UNSUPPORTED, "q_stages: %s keeps 2 tiles of queries, got %d", h->device, s->q_stages);
    if (s->kv_stages != 2 && s->kv_stages != 4)
        return error_set(err, FA4_UNSUPPORTED, "kv_stages: %s has rings of 2 or 4 key blocks, got %d", h->device, s->kv_stages);
    if (s->row_max == FA4_ROW_MAX_EACH_BLOCK && s->integer_reference)
        return error_set(err, FA4_UNSUPPORTED, "integer_reference: %s has whole references with row_max = \"first_block\" only", h->device);
    FwdVariant variant = {.dim = h->problem.dim <= 64 ? 64 : 128, .q_stages = s->q_stages, .kv_stages = s->kv_stages,
                          .tile_rows = s->tile_rows, .tile_keys = s->tile_keys};
    if (FWD_SM90_SMEM_BYTES(variant) > SMEM_BYTES_SM90)
        return error_set(err, FA4_UNSUPPORTED, "kv_stages: %d need %d bytes of shared memory, a CTA of %s has %d", s->kv_stages,
                         FWD_SM90_SMEM_BYTES(variant), h->device, SMEM_BYTES_SM90);
    return FA4_OK;
}

/* Measured on the emulator with unit normal queries and keys: beyond these, floats of log2 units (2^24 and more) and of tanh lose what
 * the weights depend on. */
static fa4_status supports_scale(const fa4_plan_header *h, fa4_error *err) {
    double scale = fabs(h->problem.scale), cap = h->problem.soft_cap;
    if (scale > 1e6)
        return error_set(err, FA4_UNSUPPORTED, "scale: %s takes up to 1e6 in size (its scores are f32 log2 units), got %g; \"cpu\" takes more",
                         h->device, h->problem.scale);
    if (cap != 0 && (cap < 1e-30 || cap > 1e4))
        return error_set(err, FA4_UNSUPPORTED, "soft_cap: %s takes 0 or 1e-30..1e4 (its tanh is f32), got %g; \"cpu\" takes more", h->device,
                         cap);
    return FA4_OK;
}

fa4_status kernel_launch_supports(const fa4_plan *plan, fa4_error *err) {
    const fa4_plan_header *h = &plan->header;
    const fa4_problem *p = &h->problem;
    if (p->dtype != FA4_F16 && p->dtype != FA4_BF16)
        return error_set(err, FA4_UNSUPPORTED, "dtype: %s takes f16 and bf16, got %s", h->device, fa4_dtype_name(p->dtype));
    if (p->dim > 128 || p->dim % 8 != 0)
        return error_set(err, FA4_UNSUPPORTED, "dim: %s takes multiples of 8 up to 128, got %d", h->device, p->dim);
    if (p->dim_v != p->dim)
        return error_set(err, FA4_UNSUPPORTED, "dim_v: %s takes values as wide as keys (%d), got %d", h->device, p->dim, p->dim_v);
    int64_t longest = INT32_MAX - 512; /* coordinates are 32-bit, the last tile reaches beyond the end */
    if (p->seqlen_q > longest || p->seqlen_kv > longest)
        return error_set(err, FA4_UNSUPPORTED, "seqlen: %s takes up to %" PRId64 " positions, got %" PRId64 " queries and %" PRId64 " keys",
                         h->device, longest, p->seqlen_q, p->seqlen_kv);
    FA4_TRY(supports_scale(h, err));
    if (p->batch > INT32_MAX)
        return error_set(err, FA4_UNSUPPORTED, "batch: %s takes up to 2^31 - 1, got %" PRId64, h->device, p->batch);
    return launch_is_sm90(h) ? supports_sm90(h, err) : supports_sm100(h, err);
}

/* ---- tasks and grid --------------------------------------------------------------------------------------------------- */

/* CTAs of the launch, and how they come by tasks. */
typedef struct launch_take {
    int64_t grid;
    int32_t take; /* FWD_TAKE_* */
} launch_take;

static launch_take choose_take(const fa4_plan *plan) {
    const fa4_plan_header *h = &plan->header;
    int64_t persistent = h->schedule.workers > 0 ? h->schedule.workers : h->schedule.sms > 0 ? h->schedule.sms : 1;
    if (h->schedule.tile_order == FA4_ORDER_LIST) {
        int64_t workers = 0;
        for (int64_t t = 0; t < h->task_count; t++)
            if (plan_tasks(plan)[t].worker + 1 > workers) workers = plan_tasks(plan)[t].worker + 1;
        if (workers > 0) return (launch_take){workers, FWD_TAKE_LIST};
        return (launch_take){persistent < h->task_count ? persistent : h->task_count, FWD_TAKE_COUNTER};
    }
    bool lpt = h->schedule.tile_order == FA4_ORDER_LPT;
    /* sm_90a is persistent in every order: what a CTA does between tiles overlaps with the tiles. Its counter beats a fixed stride. */
    if (launch_is_sm90(h)) return (launch_take){persistent < h->task_count ? persistent : h->task_count, FWD_TAKE_COUNTER};
    if (lpt && h->schedule.workers <= 0) return (launch_take){h->task_count, FWD_TAKE_STRIDE};
    return (launch_take){persistent < h->task_count ? persistent : h->task_count, lpt ? FWD_TAKE_COUNTER : FWD_TAKE_STRIDE};
}

/* Tasks in the order of the plan, or sorted by worker (a stable sort by counting). Tasks that whoever is free may take go round. */
static void write_tasks(const fa4_plan *plan, const launch_walks *walks, launch_take take, FwdTask *tasks, int32_t *worker_first) {
    int64_t count = plan->header.task_count;
    if (take.take != FWD_TAKE_LIST) {
        for (int64_t t = 0; t < count; t++) tasks[t] = launch_task(plan, walks, &plan_tasks(plan)[t]);
        return;
    }
    memset(worker_first, 0, (size_t)(take.grid + 1) * sizeof *worker_first);
    for (int pass = 0; pass < 2; pass++) {
        int64_t free_for_all = 0;
        for (int64_t t = 0; t < count; t++) {
            const fa4_task *task = &plan_tasks(plan)[t];
            int64_t worker = task->worker >= 0 ? task->worker : free_for_all++ % take.grid;
            if (pass == 0) worker_first[worker + 1]++;
            else tasks[worker_first[worker]++] = launch_task(plan, walks, task);
        }
        for (int64_t w = 0; pass == 0 && w < take.grid; w++) worker_first[w + 1] += worker_first[w];
    }
    /* Placing moved every start to the next one's. */
    for (int64_t w = take.grid; w > 0; w--) worker_first[w] = worker_first[w - 1];
    worker_first[0] = 0;
}

/* ---- uploads -------------------------------------------------------------------------------------------------------------- */

/* (row of a tile, part of its keys) pairs of the workspace; 0 when the keys are whole. */
static int64_t partial_places(const fa4_plan_header *h) {
    if (h->schedule.kv_splits <= 1) return 0;
    return h->problem.batch * h->heads * h->tiles_per_head * h->schedule.tile_rows * h->schedule.kv_splits;
}

static void size_uploads(const fa4_plan *plan, const launch_walks *walks, launch_take take, kernel_launch *launch) {
    const fa4_plan_header *h = &plan->header;
    bool interval = h->mask_class == FA4_CLASS_INTERVAL;
    const int64_t sizes[KERNEL_UPLOAD_COUNT] = {
        [KERNEL_UPLOAD_TASKS] = h->task_count * (int64_t)sizeof(FwdTask),
        [KERNEL_UPLOAD_STEPS] = walks->step_count * (int64_t)sizeof(FwdStep),
        [KERNEL_UPLOAD_ROW_LO] = interval ? h->row_count * 4 : 0,
        [KERNEL_UPLOAD_ROW_HI] = interval ? h->row_count * 4 : 0,
        [KERNEL_UPLOAD_BIT_TILES] = h->mask_class == FA4_CLASS_BITS ? h->bit_tile_count * 2048 : 0,
        [KERNEL_UPLOAD_WORKERS] = take.take == FWD_TAKE_LIST ? (take.grid + 1) * 4 : 0,
        [KERNEL_UPLOAD_NEXT_TASK] = take.take == FWD_TAKE_COUNTER ? 4 : 0,
        [KERNEL_UPLOAD_COUNTERS] = h->schedule.counters ? h->heads * (int64_t)sizeof(FwdCounters) : 0,
        [KERNEL_UPLOAD_WORKSPACE] = partial_places(h) * (int64_t)sizeof(float) * (launch->variant.dim + 2),
    };
    int64_t at = 0;
    for (int i = 0; i < KERNEL_UPLOAD_COUNT; i++) {
        launch->upload_offset[i] = at;
        launch->upload_size[i] = sizes[i];
        at += (sizes[i] + UPLOAD_ALIGN - 1) / UPLOAD_ALIGN * UPLOAD_ALIGN;
    }
    launch->upload_bytes = at;
    launch->copy_bytes = launch->upload_offset[KERNEL_UPLOAD_WORKSPACE];
}

static void copy_upload(kernel_launch *launch, kernel_upload which, const void *data) {
    if (launch->upload_size[which] > 0) memcpy(launch->upload + launch->upload_offset[which], data, (size_t)launch->upload_size[which]);
}

static fa4_status fill_uploads(const fa4_plan *plan, const launch_walks *walks, launch_take take, kernel_launch *launch, fa4_error *err) {
    size_uploads(plan, walks, take, launch);
    launch->upload = calloc(1, (size_t)(launch->copy_bytes > 0 ? launch->copy_bytes : 1));
    if (launch->upload == NULL) return error_set(err, FA4_NO_MEMORY, "launch: no memory for %" PRId64 " bytes", launch->copy_bytes);
    write_tasks(plan, walks, take, (FwdTask *)(launch->upload + launch->upload_offset[KERNEL_UPLOAD_TASKS]),
                (int32_t *)(launch->upload + launch->upload_offset[KERNEL_UPLOAD_WORKERS]));
    copy_upload(launch, KERNEL_UPLOAD_STEPS, walks->steps);
    copy_upload(launch, KERNEL_UPLOAD_ROW_LO, plan_row_lo(plan));
    copy_upload(launch, KERNEL_UPLOAD_ROW_HI, plan_row_hi(plan));
    copy_upload(launch, KERNEL_UPLOAD_BIT_TILES, plan_bit_tile(plan, 0));
    FwdCounters *counters = (FwdCounters *)(launch->upload + launch->upload_offset[KERNEL_UPLOAD_COUNTERS]);
    for (int64_t c = 0; c < launch->upload_size[KERNEL_UPLOAD_COUNTERS] / (int64_t)sizeof *counters; c++)
        counters[c].exponent_max = FWD_ORDERED_MINUS_INFINITY;
    return FA4_OK;
}

fa4_status kernel_launch_create(const fa4_plan *plan, int32_t o_f32, kernel_launch **out, fa4_error *err) {
    FA4_TRY(kernel_launch_supports(plan, err));
    const fa4_plan_header *h = &plan->header;
    kernel_launch *launch = calloc(1, sizeof *launch);
    if (launch == NULL) return error_set(err, FA4_NO_MEMORY, "launch: no memory for %zu bytes", sizeof *launch);
    kernel_variant_of_plan(plan, o_f32, &launch->variant);
    launch_take take = choose_take(plan);
    launch->grid = (uint32_t)(h->task_count > 0 ? take.grid : 0);
    launch->take = take.take;
    launch->independent = take.take != FWD_TAKE_COUNTER;
    if (launch->variant.kv_split && launch->grid > 0) launch->combine_grid = (uint32_t)(h->problem.batch * h->problem.seqlen_q * h->problem.heads_q);
    launch->block = launch_is_sm90(h) ? (uint32_t)FWD_SM90_THREADS(launch->variant) : THREADS_SM100;
    launch->smem_bytes = (uint32_t)kernel_variant_smem_bytes(&launch->variant);
    launch_walks walks;
    fa4_status status = launch_walks_make(plan, &walks, err);
    if (status == FA4_OK) status = fill_uploads(plan, &walks, take, launch, err);
    launch_walks_free(&walks);
    if (status != FA4_OK) {
        kernel_launch_destroy(launch);
        return status;
    }
    *out = launch;
    return FA4_OK;
}

void kernel_launch_destroy(kernel_launch *launch) {
    if (launch == NULL) return;
    free(launch->upload);
    free(launch);
}

/* ---- tensor maps ---------------------------------------------------------------------------------------------------------- */

/* Axes of a tensor (batch, position, head, dim) in the order of a map's dimensions 1..3. */
static const int MAP_AXES[3] = {2, 1, 0};
static const char *const AXIS_NAMES[3] = {"batch", "position", "head"};

static fa4_status describe_axis(const char *name, const fa4_tensor *t, int axis, bool expandable, int dimension, kernel_tensormap *map,
                                fa4_error *err) {
    int64_t stride = t->strides[axis], bytes = fa4_dtype_bytes(t->dtype), row = t->shape[3] * bytes;
    map->dims[dimension] = (uint64_t)t->shape[axis];
    map->strides[dimension] = (uint64_t)((row + 15) / 16 * 16); /* of an axis of one element: never walked */
    if (t->shape[axis] == 1) return FA4_OK;
    if (stride == 0 && expandable) {
        map->dims[dimension] = 1; /* left out: the kernel multiplies its coordinate by 0 */
        return FA4_OK;
    }
    if (stride <= 0 || stride * bytes % 16 != 0)
        return error_set(err, FA4_UNSUPPORTED,
                         "%s: TMA steps along the %s axis by a positive multiple of 16 bytes, its stride is %" PRId64 " elements (%" PRId64
                         " bytes)", name, AXIS_NAMES[axis], stride, stride * bytes);
    map->strides[dimension] = (uint64_t)(stride * bytes);
    return FA4_OK;
}

/* rank 4: {dim, heads, positions, batch}; one box is 64 columns of `heads` x `positions` rows. */
static fa4_status describe_map(const char *name, const fa4_tensor *t, bool expandable, uint32_t heads, uint32_t positions, uint64_t dummy,
                               kernel_tensormap *map, fa4_error *err) {
    *map = (kernel_tensormap){
        .address = (uint64_t)(uintptr_t)t->data,
        .type = t->dtype == FA4_BF16 ? KERNEL_TENSORMAP_BF16 : KERNEL_TENSORMAP_F16,
        .rank = 4,
        .swizzle = KERNEL_SWIZZLE_128,
        .l2_promotion = 2,
        .dims = {(uint64_t)t->shape[3], 1, 1, 1},
        .strides = {0, 256, 256, 256},
        .box = {64, heads, positions, 1},
    };
    bool empty = false;
    for (int axis = 0; axis < 4; axis++) empty = empty || t->shape[axis] == 0;
    if (empty) {
        map->address = dummy; /* never read: no task visits a block */
        return FA4_OK;
    }
    if (map->address % 16 != 0)
        return error_set(err, FA4_UNSUPPORTED, "%s: TMA needs a 16-byte aligned address, got %p", name, t->data);
    for (int d = 0; d < 3; d++) FA4_TRY(describe_axis(name, t, MAP_AXES[d], expandable && MAP_AXES[d] != 1, d + 1, map, err));
    return FA4_OK;
}

/* f32 output goes past TMA, in pieces of 16 bytes. */
static fa4_status check_f32_output(const fa4_tensor *o, fa4_error *err) {
    bool aligned = (uintptr_t)o->data % 16 == 0;
    for (int axis = 0; axis < 3; axis++) aligned = aligned && (o->shape[axis] == 1 || o->strides[axis] % 4 == 0);
    if (aligned) return FA4_OK;
    return error_set(err, FA4_UNSUPPORTED, "o: an f32 output needs a 16-byte aligned address and strides that are multiples of 4 elements");
}

fa4_status kernel_launch_maps(const fa4_plan *plan, const fa4_tensors *tensors, uint64_t dummy, kernel_tensormap maps[FWD_MAP_COUNT],
                              fa4_error *err) {
    const fa4_plan_header *h = &plan->header;
    uint32_t heads = h->packed ? (uint32_t)h->group : 1, positions = (uint32_t)h->positions, keys = (uint32_t)h->schedule.tile_keys;
    FA4_TRY(describe_map("q", &tensors->q, true, heads, positions, dummy, &maps[FWD_MAP_Q], err));
    FA4_TRY(describe_map("k", &tensors->k, true, 1, keys, dummy, &maps[FWD_MAP_K], err));
    FA4_TRY(describe_map("v", &tensors->v, true, 1, keys, dummy, &maps[FWD_MAP_V], err));
    if (h->packed && tensors->q.strides[2] == 0 && h->group > 1)
        return error_set(err, FA4_UNSUPPORTED, "q: heads of a packed group must differ in memory, the head axis is expanded (stride 0)");
    if (tensors->o.dtype == FA4_F32) {
        maps[FWD_MAP_O] = maps[FWD_MAP_Q]; /* a valid map; nobody stores through it */
        return check_f32_output(&tensors->o, err);
    }
    return describe_map("o", &tensors->o, false, heads, positions, dummy, &maps[FWD_MAP_O], err);
}

/* ---- parameters ------------------------------------------------------------------------------------------------------------ */

static uint64_t upload_address(const kernel_launch *launch, kernel_upload which, uint64_t upload) {
    return launch->upload_size[which] > 0 ? upload + (uint64_t)launch->upload_offset[which] : 0;
}

static void fill_addresses(const kernel_launch *launch, const fa4_plan_header *h, const fa4_tensors *tensors, uint64_t upload,
                           FwdParams *params) {
    params->tasks = upload_address(launch, KERNEL_UPLOAD_TASKS, upload);
    params->steps = upload_address(launch, KERNEL_UPLOAD_STEPS, upload);
    params->row_lo = upload_address(launch, KERNEL_UPLOAD_ROW_LO, upload);
    params->row_hi = upload_address(launch, KERNEL_UPLOAD_ROW_HI, upload);
    params->bit_tiles = upload_address(launch, KERNEL_UPLOAD_BIT_TILES, upload);
    params->worker_first = upload_address(launch, KERNEL_UPLOAD_WORKERS, upload);
    params->next_task = upload_address(launch, KERNEL_UPLOAD_NEXT_TASK, upload);
    params->counters = upload_address(launch, KERNEL_UPLOAD_COUNTERS, upload);
    params->partial_o = upload_address(launch, KERNEL_UPLOAD_WORKSPACE, upload);
    if (params->partial_o != 0) params->partial_rows = params->partial_o + (uint64_t)partial_places(h) * sizeof(float) * (uint64_t)launch->variant.dim;
    if (h->problem.lse) {
        params->lse = (uint64_t)(uintptr_t)tensors->lse.data;
        for (int axis = 0; axis < 3; axis++) params->lse_strides[axis] = tensors->lse.strides[axis];
    }
    if (launch->variant.o_f32 || launch->variant.arch == 90) {
        params->o_f32 = (uint64_t)(uintptr_t)tensors->o.data;
        for (int axis = 0; axis < 3; axis++) params->o_strides[axis] = tensors->o.strides[axis];
    }
}

static int32_t axis_step(const fa4_tensor *t, int axis) {
    return t->strides[axis] != 0 || t->shape[axis] == 1;
}

static int32_t log2_of(int32_t n) {
    int32_t log = 0;
    while (n > 1 << log) log++;
    return log;
}

/* A soft cap c bends a score s to c tanh(s / c): the kernel works in units of tanh, one of which is c log2(e). */
static void fill_scale(const fa4_plan_header *h, FwdParams *params) {
    const double log2_e = 1.4426950408889634074;
    params->scale_log2 = fmaxf(h->scale_log2, 0x1p-100f); /* smaller ones weigh all keys alike too, but lose reference_floor */
    params->threshold = (float)h->schedule.rescale_threshold;
    params->weight_limit = (float)exp2(h->schedule.rescale_threshold);
    params->scale_negative = h->scale_negative;
    if (h->problem.soft_cap > 0) {
        params->scale_log2 = (float)(h->problem.soft_cap * log2_e);
        params->cap_scale = (float)(2 * fabs(h->problem.scale) * log2_e / h->problem.soft_cap);
    }
    params->reference_floor = -FLT_MAX / fmaxf(params->scale_log2, 1.0f);
}

void kernel_launch_params(const fa4_plan *plan, const kernel_launch *launch, const fa4_tensors *tensors, uint64_t upload,
                          FwdParams *params) {
    const fa4_plan_header *h = &plan->header;
    const fa4_problem *p = &h->problem;
    memset(params, 0, sizeof *params);
    fill_addresses(launch, h, tensors, upload, params);
    fill_scale(h, params);
    params->task_count = (int32_t)h->task_count;
    params->take = launch->take;
    params->kv_splits = h->schedule.kv_splits;
    params->batch = (int32_t)p->batch;
    params->seqlen_q = (int32_t)p->seqlen_q;
    params->seqlen_kv = (int32_t)p->seqlen_kv;
    params->heads_q = p->heads_q;
    params->heads_kv = p->heads_kv;
    params->dim = p->dim;
    params->group = h->group;
    params->group_log2 = h->packed ? log2_of(h->group) : 0;
    params->positions = h->positions;
    params->kv_blocks = (int32_t)h->blocks_per_row;
    params->kv_order = h->schedule.kv_order;
    params->q_head_step = axis_step(&tensors->q, 2);
    params->q_batch_step = axis_step(&tensors->q, 0);
    params->k_head_step = axis_step(&tensors->k, 2);
    params->k_batch_step = axis_step(&tensors->k, 0);
    params->v_head_step = axis_step(&tensors->v, 2);
    params->v_batch_step = axis_step(&tensors->v, 0);
}

/* ---- counters --------------------------------------------------------------------------------------------------------------- */

static double unordered_float(int32_t ordered) {
    uint32_t bits = (uint32_t)ordered ^ (ordered < 0 ? 0x7fffffffu : 0u);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void kernel_launch_counters(const fa4_plan *plan, const FwdCounters *counters, fa4_counters *per_head) {
    for (int64_t head = 0; head < plan->header.heads; head++) {
        const FwdCounters *c = &counters[head];
        fa4_counters *to = &per_head[head];
        to->rescaled_rows += (int64_t)c->rescaled_rows;
        to->spared_rows += (int64_t)c->spared_rows;
        to->rescaled_warps += (int64_t)c->rescaled_warps;
        to->max_fixups += (int64_t)c->max_fixups;
        to->exponent_max = fmax(to->exponent_max, unordered_float(c->exponent_max));
        to->p_max = fmax(to->p_max, unordered_float(c->p_max));
    }
}
