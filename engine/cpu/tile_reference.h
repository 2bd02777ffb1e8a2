/* What a row's weights are relative to. Part of tile_softmax.h. A reference far from 0 is kept as a score, since float would round it
 * in log2 units. */

/* Log2 units that float holds only to one or more, or not at all. */
static bool is_far(float log2) {
    return fabsf(log2) >= 0x1p24f;
}

/* A row whose reference lies there: what its scores are relative to is reference * scale_log2,
 * unrounded, and they are subtracted before they are scaled. */
static bool is_far_row(const cpu_rows *rows, int32_t row) {
    return is_far(rows->reference_log2[row]) && rows->reference[row] != -INFINITY;
}

/* What the row's weights are relative to, log2 units. */
static double exact_reference(const cpu_job *job, const cpu_rows *rows, int32_t row) {
    return is_far_row(rows, row) ? (double)rows->reference[row] * (double)job->scale_log2
                                 : (double)rows->reference_log2[row];
}

/* A far row's in natural units, by the exact scale: infinite where double is. */
static double far_reference(const cpu_job *job, const cpu_rows *rows, int32_t row) {
    return (double)rows->reference[row] * job->scale;
}

/* The natural logarithm of a row's sum of exponentials, in the kernels' steps (f32, log2 units), so that bits are theirs. */
static float log_sum_exp(const cpu_job *job, const cpu_rows *rows, int32_t row, float sum) {
    if (is_far_row(rows, row)) return (float)(log((double)sum) + far_reference(job, rows, row));
    int exponent;
    float mantissa = 2 * frexpf(sum, &exponent);
    return ((float)log2((double)mantissa) + ((float)(exponent - 1) + rows->reference_log2[row])) * 0.69314718f;
}

static float reference_units(const cpu_job *job, float reference) {
    float log2 = reference * job->scale_log2;
    return job->whole_units ? rintf(log2) : log2;
}
