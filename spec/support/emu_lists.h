/*
 * Lists of problems on the emulator, a part of emu_sm100_test.c: long ones (many tasks a CTA, many blocks a task) with tallies of what they
 * contained, and exact ones whose decisions, outputs and LSE are the CPU's to the bit.
 */

/* ---- tallies ---- */

typedef struct tally {
    int32_t problems, long_tasks, rescaled, hidden;
} tally;

/* Does a row that sees a key see none in the first block that its tile visits? */
static bool hides_first_block(const fa4_plan *plan) {
    const fa4_plan_header *h = fa4_plan_get(plan);
    const fa4_problem *p = &h->problem;
    for (int64_t tile = 0; tile < h->tiles_per_head; tile++) {
        int64_t from = tile * h->positions, end = from + h->positions, first = -1;
        if (end > p->seqlen_q) end = p->seqlen_q;
        for (int64_t n = 0; n < h->blocks_per_row; n++) { /* in visiting order; sink_first begins at block 0 like forward */
            int64_t block = h->schedule.kv_order == FA4_KV_REVERSE ? h->blocks_per_row - 1 - n : n;
            bool seen = false;
            for (int64_t i = from; i < end && !seen; i++)
                for (int64_t j = block * 128; j < block * 128 + 128 && !seen; j++) seen = fa4_plan_visible(plan, 0, 0, i, j);
            if (seen && first < 0) first = block;
        }
        for (int64_t i = from; i < end && first >= 0; i++) {
            bool in_first = false, elsewhere = false;
            for (int64_t j = 0; j < p->seqlen_kv; j++)
                if (fa4_plan_visible(plan, 0, 0, i, j)) *(j / 128 == first ? &in_first : &elsewhere) = true;
            if (elsewhere && !in_first) return true;
        }
    }
    return false;
}

/* After a run: what kind of problem it was. */
static void count_problem(fa4_context *context, const problem *x, tally *t) {
    fa4_plan *plan = NULL;
    fa4_report report;
    fa4_error err;
    if (fa4_plan_create(context, &x->request, &plan, &err) != FA4_OK) return;
    const fa4_plan_header *h = fa4_plan_get(plan);
    int64_t workers = h->schedule.workers > 0 ? h->schedule.workers : h->task_count, most = 0, least = INT64_MAX;
    for (int64_t n = 0; n < h->task_count; n++) {
        int64_t blocks = ((const fa4_task *)((const char *)plan + h->task_offset))[n].blocks;
        most = blocks > most ? blocks : most;
        least = blocks < least ? blocks : least;
    }
    t->problems++;
    t->long_tasks += workers > 0 && h->task_count >= 3 * workers && most >= 4;
    t->hidden += hides_first_block(plan);
    t->rescaled += run(context, x, "cpu", &report, &err) == FA4_OK && report.total.rescaled_warps > 0;
    fa4_plan_destroy(plan);
}

static int32_t pick_of(uint64_t *seed, int32_t count, const int32_t *values) { return values[next_random(seed) % (uint64_t)count]; }

/* At least three tasks a CTA, four blocks in the longest; masks that hide first blocks, scores that rise. */
static problem long_problem(int n) {
    static const int32_t masks[6] = {MASK_FULL, MASK_CAUSAL, MASK_WINDOW, MASK_PREFIX, MASK_DOCUMENT, MASK_BITS}, lengths_q[3] = {645, 700, 900},
                         lengths_kv[4] = {513, 600, 640, 901}, groups[5] = {1, 2, 3, 4, 8}, dims[3] = {64, 128, 72};
    uint64_t seed = (uint64_t)n * 77 + 5;
    int32_t group = pick_of(&seed, 5, groups), workers = 1 + n % 2, dtype = n % 3 == 1 ? FA4_BF16 : FA4_F16;
    problem x = make_problem(workers, pick_of(&seed, 3, lengths_q), pick_of(&seed, 4, lengths_kv), group, 1, pick_of(&seed, 3, dims), dtype);
    fa4_schedule *s = &x.request.schedule;
    fill(&x.t.q, (uint64_t)n + 1, n % 4 ? 4 : 1);
    fill(&x.t.k, (uint64_t)n + 2, 2);
    fill(&x.t.v, (uint64_t)n + 3, 1);
    set_mask(&x, n % 6 == 0 ? pick_of(&seed, 6, masks) : masks[n % 6], (uint64_t)n);
    x.request.problem.lse = 1;
    s->workers = workers;
    s->kv_order = (int32_t)(next_random(&seed) % 3);
    s->row_max = n % 5 == 4;
    s->tile_order = n % 4 == 1 ? FA4_ORDER_LPT : FA4_ORDER_LINEAR;
    x.list_workers = n % 4 == 3 ? workers : 0;
    return x;
}

static tally long_list(fa4_context *context, int first, int end) {
    tally t = {0};
    for (int n = first; n < end; n++) {
        problem x = long_problem(n);
        char what[120];
        snprintf(what, sizeof what, "long problem %d: %" PRId64 " queries, %" PRId64 " keys, dim %d, group %d", n, x.request.problem.seqlen_q,
                 x.request.problem.seqlen_kv, x.request.problem.dim, x.request.problem.heads_q);
        check_problem(context, &x, what);
        count_problem(context, &x, &t);
        free_problem(&x);
    }
    printf("%d long problems: %d with >= 4 blocks and >= 3 tasks a CTA, %d with rescaled warps, %d with rows hidden in their first block\n",
           t.problems, t.long_tasks, t.rescaled, t.hidden);
    return t;
}

/* ---- exact problems ---- */

/* Scores are whole numbers of log2 units between -2 and 2, values multiples of 1/4: every weight, sum and product is exact, in any order,
 * however often the reference moves. */
static problem exact_problem(int n) {
    static const int32_t masks[6] = {MASK_FULL, MASK_CAUSAL, MASK_WINDOW, MASK_PREFIX, MASK_DOCUMENT, MASK_BITS}, groups[5] = {1, 2, 3, 4, 8},
                         lengths_q[6] = {1, 127, 129, 200, 257, 300}, lengths_kv[6] = {1, 64, 128, 200, 300, 500}, dims[3] = {64, 128, 40};
    uint64_t seed = (uint64_t)n * 131 + 17;
    int32_t dim = pick_of(&seed, 3, dims), group = pick_of(&seed, 5, groups);
    problem x = make_problem(1 + n % 2, pick_of(&seed, 6, lengths_q), pick_of(&seed, 6, lengths_kv), group, 1, dim, n % 3 == 2 ? FA4_BF16 : FA4_F16);
    fa4_schedule *s = &x.request.schedule;
    const fa4_tensor *tensors[3] = {&x.t.q, &x.t.k, &x.t.v};
    for (int which = 0; which < 3; which++)
        for (int64_t row = 0; row < tensors[which]->shape[0] * tensors[which]->shape[1] * tensors[which]->shape[2]; row++)
            for (int64_t d = 0; d < dim; d++) {
                int64_t r = (int64_t)(next_random(&seed) % 9);
                float value = which == 2 ? (float)(r - 4) / 4 : which == 1 ? (float)(r % 3 - 1) : d < 2 ? (float)(r % 3 - 1) : 0.0f;
                ((uint16_t *)tensors[which]->data)[row * tensors[which]->strides[2] + d] = to_half(value, tensors[which]->dtype);
            }
    set_mask(&x, masks[n % 6], (uint64_t)n);
    x.request.problem.scale = 0.69314718055994530942; /* log2(e) times it is 1 */
    s->rescale_threshold = n % 4;
    s->kv_order = (int32_t)(next_random(&seed) % 3);
    s->workers = n % 3;
    if (n % 5 == 4) s->row_max = 1, s->rescale_threshold = 7;
    return x;
}

static void exact_list(fa4_context *context, int first, int end) {
    int64_t rows = 0;
    for (int n = first; n < end; n++) {
        problem x = exact_problem(n);
        const fa4_problem *p = &x.request.problem;
        char what[120];
        snprintf(what, sizeof what, "exact problem %d: %" PRId64 " queries, %" PRId64 " keys, dim %d, group %d", n, p->seqlen_q, p->seqlen_kv, p->dim,
                 p->heads_q);
        check_problem(context, &x, what); /* leaves the CPU's output */
        size_t bytes = (size_t)(x.t.o.shape[0] * x.t.o.strides[0]) * 2, count = (size_t)(p->batch * p->heads_q * p->seqlen_q);
        void *o = malloc(bytes + 1);
        float *lse = malloc(count * 4 + 4);
        fa4_report report;
        fa4_error err;
        fa4_status status = run(context, &x, "cpu", &report, &err);
        memcpy(o, x.t.o.data, bytes);
        memcpy(lse, x.t.lse.data, count * 4);
        if (status == FA4_OK) status = run(context, &x, DEVICE, &report, &err);
        CHECK(status == FA4_OK, "%s: %s", what, err.text);
        CHECK(memcmp(o, x.t.o.data, bytes) == 0, "%s: other bits of O", what);
        CHECK(memcmp(lse, x.t.lse.data, count * 4) == 0, "%s: other LSE", what);
        rows += (int64_t)count;
        free(o), free(lse);
        free_problem(&x);
    }
    printf("%d exact problems: decisions and bits of O and of LSE as the CPU's, in %" PRId64 " rows\n", end - first, rows);
}
