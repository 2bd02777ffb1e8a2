/* Split keys on the emulator, a part of emu_sm90_test.c: short queries, masks, empty parts, orders, and the same bits under every schedule. */

typedef struct split_case {
    int64_t batch, sq, skv;
    int32_t heads_q, heads_kv, dim, dtype, mask, row_max, order, splits, want, rows; /* splits -1: the plan's own choice, which is `want` */
} split_case;

/* Decode, packed and not; parts without a block (more parts than blocks, windows, rows that see no key); no keys at all. */
static const split_case split_cases[] = {
    {1, 1, 700, 8, 1, 128, FA4_F16, MASK_FULL, 0, 0, -1, 6, 64},       {2, 3, 1030, 8, 2, 64, FA4_BF16, MASK_CAUSAL, 1, 0, -1, 9, 64},
    {1, 5, 1030, 4, 2, 72, FA4_F16, MASK_CAUSAL, 0, 1, -1, 9, 64},     {1, 64, 385, 1, 1, 40, FA4_BF16, MASK_FULL, 1, 0, -1, 4, 64},
    {1, 40, 900, 3, 1, 128, FA4_BF16, MASK_BITS, 0, 2, -1, 7, 64},     {1, 9, 640, 2, 1, 128, FA4_F16, MASK_DOCUMENT, 1, 2, 4, 4, 64},
    {1, 7, 900, 4, 2, 72, FA4_F16, MASK_WINDOW, 0, 2, 7, 7, 64},       {1, 60, 20, 2, 2, 64, FA4_F16, MASK_CAUSAL, 0, 0, 5, 5, 64},
    {2, 4, 0, 3, 1, 128, FA4_BF16, MASK_FULL, 0, 0, 3, 3, 64},         {1, 200, 600, 2, 1, 128, FA4_BF16, MASK_CAUSAL, 0, 0, 3, 3, 128},
    {1, 300, 520, 3, 3, 64, FA4_F16, MASK_PREFIX, 1, 0, 9, 9, 128},    {1, 2, 130, 128, 1, 64, FA4_F16, MASK_FULL, 0, 1, 2, 2, 128},
};

static problem split_problem(const split_case *c) {
    problem x = make_problem(c->batch, c->sq, c->skv, c->heads_q, c->heads_kv, c->dim, c->dtype);
    fill(&x.t.q, (uint64_t)c->skv + 1, 2);
    fill(&x.t.k, (uint64_t)c->skv + 2, 2);
    fill(&x.t.v, (uint64_t)c->skv + 3, 1);
    set_mask(&x, c->mask, 7);
    x.request.schedule.row_max = c->row_max;
    x.request.schedule.kv_order = c->order;
    x.request.schedule.kv_splits = c->splits;
    return x;
}

static void splits(fa4_context *context) {
    for (size_t n = 0; n < sizeof split_cases / sizeof *split_cases; n++) {
        problem x = split_problem(&split_cases[n]);
        char what[80];
        snprintf(what, sizeof what, "split %zu: %" PRId64 " queries, %" PRId64 " keys", n, split_cases[n].sq, split_cases[n].skv);
        check_problem(context, &x, what);
        CHECK(x.request.schedule.kv_splits == split_cases[n].want, "%s: %d parts", what, x.request.schedule.kv_splits);
        CHECK(x.request.schedule.tile_rows == split_cases[n].rows, "%s: tiles of %d rows", what, x.request.schedule.tile_rows);
        free_problem(&x);
    }
    for (size_t n = 0; n < 8; n += 3) {
        problem x = split_problem(&split_cases[n]);
        const char *why;
        uint64_t want = run_under(&x, "round_robin", 0, &why);
        CHECK(why == NULL, "split %zu: %s", n, why);
        for (int seed = 1; seed <= 2; seed++) {
            uint64_t got = run_under(&x, seed % 2 ? "random" : "starve", seed, &why);
            CHECK(why == NULL && got == want, "split %zu, seed %d: %s", n, seed, why ? why : "other bits");
        }
        free_problem(&x);
    }
}
