/* Problems from numbers; see problems.h. */
#include "device/problems.h"

#include "core/half.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MASK_FULL, MASK_CAUSAL, MASK_WINDOW, MASK_BITS, MASK_PREFIX, MASK_DOCUMENT, MASK_BOTH };
enum { GROUPS = 24, OFF = -256, GROUPS_OF_ROW = 6 };

/* ---- numbers ---- */

typedef struct generator {
    uint64_t state;
} generator;

static uint64_t next(generator *g) {
    uint64_t z = (g->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static int32_t below(generator *g, int64_t n) { return (int32_t)((next(g) >> 16) % (uint64_t)n); }
static bool one_in(generator *g, int32_t n) { return below(g, n) == 0; }
static int64_t pick(generator *g, const int64_t *values, size_t count) { return values[below(g, (int64_t)count)]; }
#define PICK(g, ...) pick(g, (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static generator generator_of(problem_kind kind, uint64_t number, uint64_t use) {
    generator g = {(uint64_t)kind * 1000003 + number * UINT64_C(0x100000001b3) + use * UINT64_C(0xd1342543de82ef95)};
    (void)next(&g);
    return g;
}

/* ---- tensors ---- */

fa4_tensor *problem_tensor(problem *p, int i) {
    fa4_tensor *const all[5] = {&p->t.q, &p->t.k, &p->t.v, &p->t.o, &p->t.lse};
    return all[i];
}

static void allocate(problem *p, int i, int64_t elements) {
    fa4_tensor *t = problem_tensor(p, i);
    p->bytes[i] = (elements > 0 ? elements : 1) * fa4_dtype_bytes(t->dtype);
    p->memory[i] = aligned_alloc(128, (size_t)((p->bytes[i] + 255) / 128 * 128));
    memset(p->memory[i], 0xff, (size_t)p->bytes[i]);
    t->data = p->memory[i];
}

/* (batch, position, head, dim); the first three axes in the order in memory that `order` says, `gap` elements of NaN after every row. */
static void make_tensor(problem *p, int i, int32_t dtype, const int64_t shape[4], int32_t order, int64_t gap) {
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    fa4_tensor *t = problem_tensor(p, i);
    *t = (fa4_tensor){.dtype = dtype, .rank = 4};
    memcpy(t->shape, shape, 4 * sizeof *shape);
    int64_t stride = shape[3] + gap;
    t->strides[3] = 1;
    for (int a = 2; a >= 0; a--) {
        t->strides[orders[order][a]] = stride;
        stride *= shape[orders[order][a]];
    }
    allocate(p, i, stride);
}

typedef struct layout { /* how the tensors of a problem lie: orders of axes and gaps */
    int32_t order[4];
    int64_t gap[4];
    int32_t o_dtype;
} layout;

static void make_tensors(problem *p, const layout *l) {
    const fa4_problem *x = &p->request.problem;
    const int64_t query[4] = {x->batch, x->seqlen_q, x->heads_q, x->dim}, key[4] = {x->batch, x->seqlen_kv, x->heads_kv, x->dim};
    make_tensor(p, 0, x->dtype, query, l->order[0], l->gap[0]);
    make_tensor(p, 1, x->dtype, key, l->order[1], l->gap[1]);
    make_tensor(p, 2, x->dtype, key, l->order[2], l->gap[2]);
    make_tensor(p, 3, l->o_dtype, query, l->order[3], l->gap[3]);
    p->t.lse = (fa4_tensor){.dtype = FA4_F32, .rank = 3, .shape = {x->batch, x->heads_q, x->seqlen_q},
                            .strides = {x->heads_q * x->seqlen_q, x->seqlen_q, 1}};
    allocate(p, 4, x->batch * x->heads_q * x->seqlen_q);
}

void problem_clear(problem *p) {
    for (int i = 3; i < 5; i++) memset(p->memory[i], 0xff, (size_t)p->bytes[i]);
}

void problem_free(problem *p) {
    for (int i = 0; i < 5; i++) free(p->memory[i]);
    free(p->mask_data);
    memset(p, 0, sizeof *p);
}

static uint16_t *row_of(const fa4_tensor *t, int64_t b, int64_t i, int64_t h) {
    return (uint16_t *)t->data + b * t->strides[0] + i * t->strides[1] + h * t->strides[2];
}
static uint16_t to_half(double x, int32_t dtype) {
    return dtype == FA4_F16 ? half_f16_from_float((float)x) : half_bf16_from_float((float)x);
}

/* ---- masks ---- */

static void set_mask(problem *p, int32_t kind, generator *g) {
    fa4_problem *x = &p->request.problem;
    static const int32_t kinds[] = {FA4_MASK_FULL, FA4_MASK_CAUSAL, FA4_MASK_WINDOW, FA4_MASK_BITS, FA4_MASK_PREFIX, FA4_MASK_DOCUMENT,
                                    FA4_MASK_CAUSAL};
    int64_t row = (x->seqlen_kv + 127) / 128 * 4, bits = kind == MASK_BITS ? row * x->seqlen_q : 0, words = bits + x->seqlen_kv;
    uint32_t density = (uint32_t)below(g, 4);
    p->mask_data = malloc((size_t)(words > 0 ? words : 1) * sizeof *p->mask_data);
    for (int64_t w = 0; w < bits; w++) {
        uint32_t r = (uint32_t)next(g), s = (uint32_t)next(g);
        /* Runs of whole, empty, dense and thin words: blocks of every kind. */
        p->mask_data[w] = (int32_t)(w / 16 % 5 == density ? 0u : w / 16 % 5 == density + 1 ? ~0u : density % 2 ? r | s : r & s);
    }
    for (int64_t j = 0; j < x->seqlen_kv; j++) p->mask_data[bits + j] = j == 0 ? 0 : p->mask_data[bits + j - 1] + one_in(g, 60);
    p->request.mask_data = p->mask_data;
    p->request.mask_words = words;
    x->mask_nodes = kind == MASK_FULL ? 0 : kind == MASK_BOTH ? 3 : 1;
    x->mask[0] = (fa4_mask_node){.kind = kinds[kind], .left = below(g, 200) - 1, .right = below(g, 90) - 1, .length = x->seqlen_kv / 3};
    if (kind == MASK_DOCUMENT) x->mask[0].data_offset = bits;
    if (kind != MASK_BOTH) return;
    x->mask[1] = (fa4_mask_node){.kind = FA4_MASK_DOCUMENT, .data_offset = bits};
    x->mask[2] = (fa4_mask_node){.kind = FA4_MASK_ALL_OF, .operands = 2};
}

/* ---- exact and ordinary problems ---- */

static bool is_short(int32_t variant) { return variant >= 32; } /* a few queries and many keys: split keys, where the plan chooses so */

static void fixed_request(problem *p, problem_kind kind, int64_t number, generator *g) {
    int32_t v = problem_variant(kind, number), turn = (int32_t)(number / FIXED_VARIANTS);
    fa4_problem *x = &p->request.problem;
    fa4_schedule *s = &p->request.schedule;
    bool packed = ((v >> 1) ^ (v >> 2) ^ (v >> 3)) & 1;
    x->batch = 1 + one_in(g, 3);
    x->seqlen_q = is_short(v) ? PICK(g, 1, 1, 2, 4) : PICK(g, 65, 100, 127, 128, 129, 200, 256, 257, 300);
    x->seqlen_kv = is_short(v) ? PICK(g, 700, 1024, 1500, 2048) : PICK(g, 1, 17, 64, 127, 128, 129, 200, 255, 256, 257, 300, 384, 385, 500);
    x->heads_kv = 1 + below(g, 2);
    x->heads_q = x->heads_kv * (int32_t)(packed ? PICK(g, 2, 4, 8) : x->heads_kv == 1 ? PICK(g, 1, 3) : 1);
    x->dim = x->dim_v = (int32_t)(v & 2 ? PICK(g, 128, 128, 72, 104) : PICK(g, 64, 64, 40, 56));
    x->dtype = v & 1 ? FA4_BF16 : FA4_F16;
    x->lse = 1;
    fa4_schedule_default(s);
    s->row_max = v >> 2 & 1;
    s->rescale_threshold = s->row_max ? (double)PICK(g, 7, 10, 14) : (double)PICK(g, 0, 2, 4, 8, 8, 12);
    s->kv_order = is_short(v) ? (int32_t)PICK(g, FA4_KV_REVERSE, FA4_KV_FORWARD) : turn % 3;
    s->workers = one_in(g, 2) ? 0 : 1 + below(g, 9);
    s->tile_order = one_in(g, 2) ? -1 : below(g, 2);
    s->gqa_packing = packed;
    s->exp2_emulated_pairs = s->exp2_first_fragment = 0;
    if (!is_short(v)) s->tile_rows = 128, s->kv_splits = 1;
    set_mask(p, is_short(v) ? (v & 1 ? MASK_FULL : MASK_CAUSAL) : v >> 3 & 3, g);
}

/* The group of each key, the first groups large; K is one-hot in them, 2^-shift high, beside pairs of equal noise. */
static void exact_keys(problem *p, int64_t b, int64_t h, int32_t shift, uint8_t *group, generator *g) {
    const fa4_problem *x = &p->request.problem;
    for (int64_t j = 0; j < x->seqlen_kv; j++) {
        uint16_t *k = row_of(&p->t.k, b, j, h), *v = row_of(&p->t.v, b, j, h);
        int32_t size = 0;
        while (size < GROUPS / 3 - 1 && one_in(g, 2)) size++;
        group[j] = (uint8_t)(3 * size + below(g, 3));
        for (int32_t d = 0; d < GROUPS; d++) k[d] = to_half(d == group[j] ? ldexp(1, -shift) : 0, x->dtype);
        for (int32_t d = GROUPS; d < x->dim; d += 2) k[d] = k[d + 1] = to_half((below(g, 33) - 16) / 8.0, x->dtype);
        for (int32_t d = 0; d < x->dim; d++) v[d] = to_half((below(g, 65) - 32) / 8.0, x->dtype);
    }
}

/* Exponents by group whose weights, times the visible keys of the group, sum to a power of two. False when no group can. */
static bool exact_exponents(const int32_t visible[GROUPS], int32_t exponent[GROUPS], generator *g) {
    int32_t chosen[GROUPS], count = 0, use = 1 + below(g, GROUPS_OF_ROW), whole = below(g, 13) - 6;
    for (int32_t i = 0; i < GROUPS; i++) {
        exponent[i] = OFF;
        if (visible[i] > 0 && (visible[i] & (visible[i] - 1)) == 0) chosen[count++] = i;
    }
    if (use > count) use = count;
    for (int32_t i = 0; i < use; i++) {
        int32_t other = i + below(g, count - i), kept = chosen[i];
        chosen[i] = chosen[other];
        chosen[other] = kept;
        int32_t part = i == use - 1 ? i : i + 1; /* 1/2, 1/4, ..., and the last once more */
        exponent[chosen[i]] = whole - part - ilogb(visible[chosen[i]]);
    }
    return use > 0;
}

/* Q of one row; false when its visible keys allow no exact sum. */
static bool exact_query(problem *p, const fa4_plan *plan, const int64_t at[3], int32_t shift, const uint8_t *group, generator *g) {
    const fa4_problem *x = &p->request.problem;
    int32_t visible[GROUPS] = {0}, exponent[GROUPS], seen = 0;
    for (int64_t j = 0; j < x->seqlen_kv; j++)
        if (fa4_plan_visible(plan, at[0], at[2], at[1], j)) visible[group[j]]++, seen++;
    bool good = exact_exponents(visible, exponent, g) || seen == 0;
    double sign = x->scale < 0 ? -1 : 1;
    uint16_t *q = row_of(&p->t.q, at[0], at[1], at[2]);
    for (int32_t d = 0; d < GROUPS; d++) q[d] = to_half(sign * ldexp(exponent[d], -shift), x->dtype);
    for (int32_t d = GROUPS; d < x->dim; d += 2) {
        double noise = (below(g, 33) - 16) / 8.0;
        q[d] = to_half(noise, x->dtype);
        q[d + 1] = to_half(-noise, x->dtype);
    }
    return good;
}

static bool fill_exact(problem *p, generator *g) {
    fa4_problem *x = &p->request.problem;
    fa4_context *context = NULL;
    fa4_plan *plan = NULL;
    fa4_request on_cpu = p->request;
    int32_t q_shift = below(g, 3), k_shift = below(g, 3);
    x->scale = ldexp(log(2.0), q_shift + k_shift) * (one_in(g, 4) ? -1 : 1);
    on_cpu.device = "cpu";
    on_cpu.problem.scale = x->scale;
    bool good = fa4_context_open(&(fa4_context_options){.threads = 1}, &context, NULL) == FA4_OK &&
                fa4_plan_create(context, &on_cpu, &plan, NULL) == FA4_OK && fa4_plan_get(plan)->scale_log2 == ldexpf(1, q_shift + k_shift);
    uint8_t *group = malloc((size_t)x->seqlen_kv + 1);
    for (int64_t b = 0; good && b < x->batch; b++)
        for (int32_t h = 0; good && h < x->heads_kv; h++) {
            exact_keys(p, b, h, k_shift, group, g);
            int32_t share = x->heads_q / x->heads_kv;
            for (int32_t hq = h * share; hq < (h + 1) * share; hq++)
                for (int64_t i = 0; good && i < x->seqlen_q; i++) good = exact_query(p, plan, (int64_t[3]){b, i, hq}, q_shift, group, g);
        }
    free(group);
    fa4_plan_destroy(plan);
    fa4_context_close(context);
    return good;
}

static void fill_random(problem *p, double spread, uint64_t seed) {
    for (int i = 0; i < 3; i++) fa4_tensor_random(problem_tensor(p, i), FA4_RANDOM_NORMAL, seed * 3 + (uint64_t)i, i == 0 ? spread : 1, NULL);
}

/* The longest row. */
static double largest_norm(const fa4_tensor *t) {
    double largest = 0;
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t i = 0; i < t->shape[1]; i++)
            for (int64_t h = 0; h < t->shape[2]; h++) {
                double sum = 0;
                for (int64_t d = 0; d < t->shape[3]; d++) {
                    uint16_t bits = row_of(t, b, i, h)[d];
                    double x = t->dtype == FA4_F16 ? half_f16_to_float(bits) : half_bf16_to_float(bits);
                    sum += x * x;
                }
                largest = fmax(largest, sum);
            }
    return sqrt(largest);
}

static void make_fixed(problem_kind kind, int64_t number, problem *p) {
    for (uint64_t attempt = 0; attempt < 50; attempt++) {
        generator g = generator_of(kind, (uint64_t)number, attempt);
        memset(p, 0, sizeof *p);
        fixed_request(p, kind, number, &g);
        layout l = {.order = {below(&g, 2), below(&g, 2), below(&g, 2), below(&g, 2)}, .gap = {8, 0, 16, 8}, .o_dtype = p->request.problem.dtype};
        make_tensors(p, &l);
        if (kind == PROBLEM_ORDINARY) {
            p->request.problem.scale = (one_in(&g, 5) ? -1 : 1) / sqrt(p->request.problem.dim);
            fill_random(p, (double)PICK(&g, 1, 1, 2, 4, 8), (uint64_t)number + 77);
            p->score_error = 0x1p-22 * fabs(p->request.problem.scale) * largest_norm(&p->t.q) * largest_norm(&p->t.k);
            return;
        }
        if (fill_exact(p, &g)) return;
        problem_free(p);
    }
}

/* ---- drawn problems ---- */

/* What is compiled into the kernel follows from the variant; the rest from the number. */
static layout drawn_variant(problem *p, int32_t variant, int32_t *mask) {
    generator g = generator_of(PROBLEM_DRAWN, (uint64_t)variant, 99);
    fa4_problem *x = &p->request.problem;
    fa4_schedule *s = &p->request.schedule;
    fa4_schedule_default(s);
    x->dtype = variant & 1 ? FA4_BF16 : FA4_F16;
    x->dim = variant & 2 ? 128 : 64; /* the class, for now */
    s->row_max = variant >> 2 & 1;
    s->gqa_packing = variant >> 3 & 1;
    *mask = (int32_t)PICK(&g, MASK_FULL, MASK_FULL, MASK_CAUSAL, MASK_CAUSAL, MASK_WINDOW, MASK_BITS, MASK_PREFIX, MASK_DOCUMENT, MASK_BOTH);
    x->soft_cap = one_in(&g, 5) ? 1 : 0;
    s->exp2_emulated_pairs = one_in(&g, 6) ? 4 : 0;
    s->exp2_first_fragment = 0;
    s->integer_reference = s->row_max && one_in(&g, 4);
    return (layout){.o_dtype = one_in(&g, 6) ? FA4_F32 : x->dtype};
}

static int64_t draw_length(generator *g, int64_t largest) {
    if (one_in(g, 2)) return PICK(g, 1, 2, 7, 63, 64, 65, 127, 128, 129, 255, 256, 257, 383, 385);
    if (one_in(g, 30)) return 0;
    return one_in(g, 3) ? below(g, largest) : below(g, 400);
}

static void plant_specials(problem *p, generator *g) {
    const fa4_problem *x = &p->request.problem;
    static const double values[3] = {NAN, INFINITY, -INFINITY};
    p->special = x->seqlen_kv > 0 && x->batch > 0;
    for (int n = 0; p->special && n < 1 + below(g, 3); n++)
        row_of(&p->t.k, below(g, x->batch), below(g, x->seqlen_kv), below(g, x->heads_kv))[below(g, x->dim)] = to_half(values[below(g, 3)], x->dtype);
}

static void make_drawn(int64_t number, problem *p) {
    generator g = generator_of(PROBLEM_DRAWN, (uint64_t)number, 0);
    fa4_problem *x = &p->request.problem;
    fa4_schedule *s = &p->request.schedule;
    int32_t mask;
    memset(p, 0, sizeof *p);
    layout l = drawn_variant(p, problem_variant(PROBLEM_DRAWN, number), &mask);
    bool large = one_in(&g, 12);
    x->batch = one_in(&g, 40) ? 0 : 1 + below(&g, 2);
    x->seqlen_q = draw_length(&g, large ? 1200 : 500);
    x->seqlen_kv = draw_length(&g, large ? 2048 : 700);
    x->heads_kv = 1 + below(&g, 2);
    x->heads_q = x->heads_kv * (int32_t)(x->seqlen_q > 260 ? PICK(&g, 1, 1, 2, 3) : PICK(&g, 1, 1, 2, 3, 4, 6, 8, 16, 32));
    x->dim = x->dim_v = x->dim == 64 ? (int32_t)PICK(&g, 64, 64, 64, 8, 24, 40, 56) : (int32_t)PICK(&g, 128, 128, 128, 72, 80, 96, 120);
    x->lse = !one_in(&g, 8);
    x->scale = one_in(&g, 14) ? 0 : (one_in(&g, 6) ? -1 : 1) / sqrt(x->dim);
    if (x->soft_cap > 0) x->soft_cap = (double)PICK(&g, 1, 30, 50);
    int32_t least = s->row_max ? 7 : 0;
    s->rescale_threshold = least + below(&g, x->dtype == FA4_F16 ? 16 - least : 40);
    s->kv_order = below(&g, 3);
    s->workers = one_in(&g, 3) ? 1 + below(&g, 9) : 0;
    s->tile_order = below(&g, 3) - 1;
    for (int i = 0; i < 4; i++) l.order[i] = below(&g, 6), l.gap[i] = 8 * below(&g, 3);
    /* Every other round of the variants: tiles of 192 rows, where the kernel has them. */
    int32_t group = x->heads_q / x->heads_kv;
    bool wide = x->dim <= 64 && x->soft_cap == 0 && s->exp2_emulated_pairs == 0 && mask != MASK_BITS && mask != MASK_BOTH && (group & (group - 1)) == 0;
    if (wide && number / DRAWN_VARIANTS % 2) s->tile_rows = 192;
    set_mask(p, mask, &g);
    make_tensors(p, &l);
    fill_random(p, (double)PICK(&g, 1, 1, 1, 2, 4, 16, 64), (uint64_t)number + 1000003);
    if (one_in(&g, 16) && x->scale != 0) plant_specials(p, &g); /* 0 times infinity is NaN to the reference, nothing to the kernels */
}

/* ---- all ---- */

int32_t problem_variant(problem_kind kind, int64_t number) {
    return (int32_t)(number % (kind == PROBLEM_DRAWN ? DRAWN_VARIANTS : FIXED_VARIANTS));
}

void problem_make(problem_kind kind, int64_t number, problem *p) {
    static const char *const names[] = {"exact", "ordinary", "drawn"};
    if (kind == PROBLEM_DRAWN) make_drawn(number, p);
    else make_fixed(kind, number, p);
    const fa4_problem *x = &p->request.problem;
    const fa4_schedule *s = &p->request.schedule;
    snprintf(p->text, sizeof p->text,
             "%s %" PRId64 ": B%" PRId64 " Sq%" PRId64 " Skv%" PRId64 " H%d/%d D%d %s mask %d(%d nodes) scale %g cap %g, row_max %d threshold %g order %d "
             "pairs %d packing %d workers %d tiles %d%s",
             names[kind], number, x->batch, x->seqlen_q, x->seqlen_kv, x->heads_q, x->heads_kv, x->dim, fa4_dtype_name(x->dtype), x->mask[0].kind,
             x->mask_nodes, x->scale, x->soft_cap, s->row_max, s->rescale_threshold, s->kv_order, s->exp2_emulated_pairs, s->gqa_packing, s->workers,
             s->tile_order, p->special ? ", special keys" : "");
}

/* ---- running ---- */

uint64_t problem_hash(const problem *p, int i) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t b = 0; b < p->bytes[i]; b++) hash = (hash ^ ((const unsigned char *)p->memory[i])[b]) * UINT64_C(0x100000001b3);
    return hash;
}

fa4_status problem_fix_schedule(fa4_context *context, problem *p, fa4_error *err) {
    fa4_request r = p->request;
    fa4_plan *plan = NULL;
    r.device = "emu:sm_90a";
    fa4_status status = fa4_plan_create(context, &r, &plan, err);
    if (status != FA4_OK) return status;
    p->request.schedule.kv_splits = fa4_plan_get(plan)->schedule.kv_splits;
    p->request.schedule.tile_rows = fa4_plan_get(plan)->schedule.tile_rows;
    fa4_plan_destroy(plan);
    return FA4_OK;
}

/* The problem's tensors with their memory copied to the device. */
static fa4_status to_device(fa4_context *context, problem *p, const char *device, fa4_storage *storages[5], fa4_tensors *there, fa4_error *err) {
    fa4_tensor *const views[5] = {&there->q, &there->k, &there->v, &there->o, &there->lse};
    *there = p->t;
    for (int i = 0; i < 5; i++) {
        fa4_status status = fa4_storage_create(context, p->bytes[i], device, &storages[i], err);
        if (status == FA4_OK) status = fa4_storage_write(storages[i], 0, p->memory[i], p->bytes[i], err);
        if (status != FA4_OK) return status;
        views[i]->data = fa4_storage_data(storages[i]);
        views[i]->device = 1;
    }
    return FA4_OK;
}

static fa4_status run_on_gpu(fa4_context *context, problem *p, const fa4_plan *plan, const char *device, fa4_report *report, fa4_error *err) {
    fa4_storage *storages[5] = {0};
    fa4_tensors there;
    fa4_status status = to_device(context, p, device, storages, &there, err);
    if (status == FA4_OK) status = fa4_run(context, plan, &there, report, NULL, err);
    for (int i = 3; i < 5 && status == FA4_OK; i++) status = fa4_storage_read(storages[i], 0, p->memory[i], p->bytes[i], err);
    for (int i = 0; i < 5; i++) fa4_storage_release(storages[i]);
    return status;
}

fa4_status problem_run(fa4_context *context, problem *p, const char *device, fa4_report *report, fa4_error *err) {
    fa4_request r = p->request;
    fa4_plan *plan = NULL;
    r.device = device;
    problem_clear(p);
    fa4_status status = fa4_plan_create(context, &r, &plan, err);
    if (status != FA4_OK) return status;
    status = strncmp(device, "cuda", 4) == 0 ? run_on_gpu(context, p, plan, device, report, err) : fa4_run(context, plan, &p->t, report, NULL, err);
    fa4_plan_destroy(plan);
    return status;
}

double problem_bound(const problem *p, double x, double y) {
    double unit = p->request.problem.dtype == FA4_F16 ? 0x1p-11 : 0x1p-8, largest = 4.5; /* of |V|, normal numbers */
    return 2 * unit * fmax(fabs(x), fabs(y)) + unit * largest / 4 + 2 * p->score_error * largest;
}
double problem_bound_lse(const problem *p, double y) { return 0x1p-20 * fmax(1, fabs(y)) + p->score_error; }
