/* Tiles of 192 rows on the emulator, and kernels that do not count: a part of emu_sm90_test.c. Those look at the scores before they take a
 * maximum, so their bits are held to the counting kernel's, which always takes it. */

typedef struct wide_case {
    int64_t sq, skv;
    int32_t heads_q, heads_kv, dim, dtype, mask, row_max, order, rows;
    double scale, threshold;
    int32_t below; /* 1: all scores are below 0 */
} wide_case;

static const wide_case wide_cases[] = {
    {400, 500, 2, 2, 64, FA4_F16, MASK_CAUSAL, 0, 0, 192, 0.125, 8, 0},   {193, 385, 3, 3, 40, FA4_BF16, MASK_FULL, 0, 1, 192, -0.5, 2, 0},
    {90, 640, 8, 2, 64, FA4_F16, MASK_WINDOW, 0, 2, 192, 0.5, 0, 0},      {575, 575, 1, 1, 64, FA4_BF16, MASK_DOCUMENT, 0, 0, 192, 0.3, 1, 1},
    {200, 300, 2, 1, 56, FA4_F16, MASK_PREFIX, 1, 0, 192, -0.25, 7, 0},   {390, 130, 2, 2, 64, FA4_F16, MASK_CAUSAL, 0, 1, 192, 0.2, 4, 1},
    {130, 900, 2, 2, 128, FA4_BF16, MASK_FULL, 0, 0, 128, 0.25, 1, 0},    {150, 700, 1, 1, 64, FA4_F16, MASK_BITS, 0, 0, 128, 0.5, 3, 0},
};

/* Every element of one sign. */
static void one_sign(fa4_tensor *t, uint16_t sign) {
    for (int64_t row = 0; row < t->shape[0] * t->shape[1] * t->shape[2]; row++)
        for (int64_t d = 0; d < t->shape[3]; d++) {
            uint16_t *x = (uint16_t *)t->data + row * t->strides[2] + d;
            *x = (uint16_t)((*x & 0x7fff) | sign);
        }
}

static problem wide_problem(const wide_case *c) {
    problem x = make_problem(1, c->sq, c->skv, c->heads_q, c->heads_kv, c->dim, c->dtype);
    fill(&x.t.q, (uint64_t)c->skv + 1, 2);
    fill(&x.t.k, (uint64_t)c->skv + 2, 2);
    fill(&x.t.v, (uint64_t)c->skv + 3, 1);
    if (c->below) one_sign(&x.t.q, 0x8000), one_sign(&x.t.k, 0);
    set_mask(&x, c->mask, 7);
    x.request.problem.scale = c->scale;
    x.request.schedule.rescale_threshold = c->threshold;
    x.request.schedule.row_max = c->row_max;
    x.request.schedule.kv_order = c->order;
    x.request.schedule.tile_rows = c->rows;
    x.request.schedule.kv_splits = 1;
    x.request.schedule.workers = 2;
    return x;
}

static void wide(fa4_context *context) {
    for (size_t n = 0; n < sizeof wide_cases / sizeof *wide_cases; n++) {
        problem x = wide_problem(&wide_cases[n]);
        const char *why;
        char what[80];
        snprintf(what, sizeof what, "wide %zu: %" PRId64 " queries, %" PRId64 " keys", n, wide_cases[n].sq, wide_cases[n].skv);
        check_problem(context, &x, what);
        uint64_t want = run_under(&x, "round_robin", 0, &why);
        CHECK(why == NULL, "%s: %s", what, why);
        x.request.schedule.counters = 0;
        for (int seed = 0; seed <= 2; seed++) {
            uint64_t got = run_under(&x, seed == 0 ? "round_robin" : seed == 1 ? "random" : "starve", seed, &why);
            CHECK(why == NULL && got == want, "%s, not counting, seed %d: %s", what, seed, why ? why : "other bits");
        }
        free_problem(&x);
    }
}
