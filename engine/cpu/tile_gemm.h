/*
 * The two products of a tile, S = Q K^T and O += P V, in the vocabulary of the including file: v*,
 * ROW_GROUP, PANEL_VECTORS. One micro kernel keeps ROW_GROUP x PANEL of the result in registers;
 * the second operand lies packed in panels, which stay in the first-level cache while all row
 * groups pass over them.
 */
enum {
    LANES = V_LANES,
    PANEL = PANEL_VECTORS * V_LANES,
    STEPS = 4 /* of the micro kernel at once: with so few rounds the loop's end is predicted */
};

/* Which columns of a partial block each row, and each group of rows, sees: [lo, hi) in multiples of
 * CPU_LANES for groups. */
typedef struct block_view {
    bool partial;
    int32_t lo[CPU_ROWS_ROOM], hi[CPU_ROWS_ROOM];
    int32_t group_lo[CPU_ROWS_ROOM / ROW_GROUP], group_hi[CPU_ROWS_ROOM / ROW_GROUP];
    uint32_t bits[CPU_ROWS_MAX][4];
} block_view;

/* c (+)= a b for ROW_GROUP rows and `vectors` vectors; a step is one word of a and one row of the
 * panel b; steps is a multiple of 4. */
static inline __attribute__((always_inline)) void micro(const float *a, size_t a_row,
                                                        const float *b, size_t steps, float *c,
                                                        size_t c_row, const int vectors,
                                                        const bool add, const bool pairs) {
    vf sum[ROW_GROUP][PANEL_VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < ROW_GROUP; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] = v_set1(0.0f);
    for (size_t k = 0; k < steps; k += STEPS, b += STEPS * PANEL) {
#pragma GCC unroll 4
        for (size_t i = 0; i < STEPS; i++) {
            vf column[PANEL_VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                column[v] = v_load(b + i * PANEL + v * LANES);
#pragma GCC unroll 16
            for (int r = 0; r < ROW_GROUP; r++) {
                vf x = v_set1(a[(size_t)r * a_row + k + i]);
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++)
                    sum[r][v] =
                        pairs ? v_dot2(x, column[v], sum[r][v]) : v_fma(x, column[v], sum[r][v]);
            }
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROW_GROUP; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            float *at = c + (size_t)r * c_row + v * LANES;
            v_store(at, add ? v_add(v_load(at), sum[r][v]) : sum[r][v]);
        }
}

static inline __attribute__((always_inline)) void
scores_panels(const cpu_job *job, const float *q, const float *k, float *s, int32_t groups,
              const block_view *view, const bool pairs) {
    size_t words = (size_t)job->words;
    for (int32_t column = 0; column < CPU_KEYS; column += PANEL, k += words * PANEL)
        for (int32_t g = 0; g < groups; g++) {
            if (view->partial &&
                (view->group_hi[g] <= column || view->group_lo[g] >= column + PANEL))
                continue;
            size_t row = (size_t)g * ROW_GROUP;
            micro(q + row * words, words, k, words, s + row * CPU_KEYS + column, CPU_KEYS,
                  PANEL_VECTORS, false, pairs);
        }
}

static void multiply_scores(const cpu_job *job, const float *q, const float *k, float *s,
                            int32_t groups, const block_view *view) {
    if (job->pairs)
        scores_panels(job, q, k, s, groups, view, V_HAS_DOT2);
    else
        scores_panels(job, q, k, s, groups, view, false);
}

static inline __attribute__((always_inline)) void
values_panels(const cpu_job *job, const float *p, const float *v, float *o, int32_t groups,
              const block_view *view, const bool pairs) {
    size_t room = (size_t)job->dim_v_room, share = pairs ? 2 : 1;
    for (size_t column = 0; column < room; column += PANEL, v += CPU_KEYS / share * PANEL)
        for (int32_t g = 0; g < groups; g++) {
            size_t lo = view->partial ? (size_t)view->group_lo[g] / share : 0;
            size_t hi = view->partial ? (size_t)view->group_hi[g] / share : CPU_KEYS / share;
            if (lo >= hi) continue;
            size_t row = (size_t)g * ROW_GROUP;
            const float *a = p + row * CPU_KEYS + lo, *b = v + lo * PANEL;
            float *c = o + row * room + column;
            if (room - column >= PANEL)
                micro(a, CPU_KEYS, b, hi - lo, c, room, PANEL_VECTORS, true, pairs);
            else
                micro(a, CPU_KEYS, b, hi - lo, c, room, PANEL_VECTORS - 1, true, pairs);
        }
}

static void multiply_values(const cpu_job *job, const float *p, const float *v, float *o,
                            int32_t groups, const block_view *view) {
    if (job->pairs)
        values_panels(job, p, v, o, groups, view, V_HAS_DOT2);
    else
        values_panels(job, p, v, o, groups, view, false);
}
