/*
 * Packing: the caller's strided rows become float (or bf16 pair) panels, once per key head where
 * several tiles use them. Rows and columns that do not exist are zero. Values also leave the least
 * and largest of each column.
 */
enum { V_ROOM_MAX = CPU_DIM_MAX };

static size_t element_bytes(int32_t dtype) {
    return dtype == FA4_F32 ? 4 : 2;
}

static inline __attribute__((always_inline)) vf widen(const char *from, const int32_t dtype) {
    return dtype == FA4_F32   ? v_load((const float *)from)
           : dtype == FA4_F16 ? v_load_f16(from)
                              : v_load_bf16(from);
}

static inline __attribute__((always_inline)) void widen_all(const char *from, const int32_t dtype,
                                                            int32_t count, float *to) {
    size_t bytes = element_bytes(dtype);
    int32_t i = 0;
    for (; i + LANES <= count; i += LANES)
        v_store(to + i, widen(from + (size_t)i * bytes, dtype));
    if (i >= count) return;
    _Alignas(64) char last[LANES * 4] = {0};
    memcpy(last, from + (size_t)i * bytes, (size_t)(count - i) * bytes);
    v_store(to + i, widen(last, dtype));
}

/* `count` elements (a multiple of 8) at `from` as floats; `to` has room for whole vectors, filled
 * with zeros. */
static void widen_row(const char *from, int32_t dtype, int32_t count, float *to) {
    if (dtype == FA4_F32)
        widen_all(from, FA4_F32, count, to);
    else if (dtype == FA4_F16)
        widen_all(from, FA4_F16, count, to);
    else
        widen_all(from, FA4_BF16, count, to);
}

/* A row of K as packed words: floats, or the pairs as they lie in memory. */
static void words_of_row(const cpu_job *job, const cpu_source *source, int32_t key, float *words) {
    const char *row =
        source->base + source->row_stride * key * (int64_t)element_bytes(source->dtype);
    if (job->pairs)
        memcpy(words, row, (size_t)source->dim * 2);
    else
        widen_row(row, source->dtype, source->dim, words);
}

static void pack_k(const cpu_job *job, const cpu_source *source, void *out) {
    _Alignas(64) float rows[LANES][CPU_DIM_MAX + 16];
    int32_t words = job->words;
    for (int32_t key = 0; key < CPU_KEYS; key += LANES) {
        float *panel = (float *)out + (size_t)(key / PANEL) * (size_t)words * PANEL + key % PANEL;
        for (int32_t i = 0; i < LANES; i++) {
            if (key + i < source->keys)
                words_of_row(job, source, key + i, rows[i]);
            else
                memset(rows[i], 0, sizeof rows[i]);
        }
        for (int32_t w = 0; w < words; w += V_TRANSPOSE)
            v_transpose(&rows[0][w], CPU_DIM_MAX + 16, panel + (size_t)w * PANEL, PANEL,
                        words - w < V_TRANSPOSE ? words - w : V_TRANSPOSE);
    }
}

/* Rows of V, widened; row i of the result is key first + i. */
static void widen_value(const cpu_source *source, int32_t key, int32_t room, float *row) {
    if (key >= source->keys) {
        memset(row, 0, (size_t)room * 4);
        return;
    }
    widen_row(source->base + source->row_stride * key * (int64_t)element_bytes(source->dtype),
              source->dtype, source->dim, row);
}

static void note_bounds(const float *row, int32_t room, float *least, float *largest, vf *probe) {
    vf zero = v_set1(0.0f);
    for (int32_t c = 0; c < room; c += LANES) {
        vf x = v_load(row + c);
        v_store(least + c, v_min(x, v_load(least + c)));
        v_store(largest + c, v_max(x, v_load(largest + c)));
        *probe = v_add(*probe, v_mul(x, zero)); // NaN as soon as one value is not finite.
    }
}

/* `row` as column [key] of the panels; with pairs, the upper or lower half of the words. */
static void place_value(const cpu_job *job, const float *row, int32_t key, float *out) {
    int32_t room = job->dim_v_room;
    size_t share = job->pairs ? 2 : 1;
    for (int32_t c = 0; c < room; c += LANES) {
        float *at = out + (size_t)(c / PANEL) * (CPU_KEYS / share) * PANEL +
                    (size_t)key / share * PANEL + c % PANEL;
        if (job->pairs)
            v_store_half(at, key % 2, v_load(row + c));
        else
            v_store(at, v_load(row + c));
    }
}

static void pack_v(const cpu_job *job, const cpu_source *source, void *out, float *bounds,
                   uint8_t *special) {
    _Alignas(64) float row[CPU_DIM_MAX + 16];
    int32_t room = job->dim_v_room;
    vf probe = v_set1(0.0f);
    for (int32_t c = 0; c < room; c++) {
        bounds[c] = INFINITY;
        bounds[room + c] = -INFINITY;
    }
    for (int32_t key = 0; key < CPU_KEYS; key++) {
        widen_value(source, key, room, row);
        if (key < source->keys) note_bounds(row, room, bounds, bounds + room, &probe);
        place_value(job, row, key, out);
    }
    *special = v_sum(probe) != 0.0f;
}
