/* The soft cap of a row's scores. Part of tile_softmax.h: it needs the vector vocabulary and exp2_lanes. */

/* score -> cap_out * tanh(cap_in * score), in log2 units. Near 0 a series: there 1 - 2 / (1 + e^2x)
 * has lost its digits. */
static void cap_row(const cpu_job *job, float *s, int32_t c0, int32_t c1) {
    static const float series[6] = {1.0f,          -0.33333333f, 0.13333333f,
                                    -0.053968254f, 0.021869489f, -0.0088632355f};
    vf in = v_set1(job->cap_in), out = v_set1(job->cap_out), one = v_set1(1.0f);
    for (int32_t c = c0; c < c1; c += LANES) {
        vf x = v_mul(v_load(s + c), in), magnitude = v_abs(x), z = v_mul(x, x);
        vf e =
            exp2_lanes(v_mul(magnitude, v_set1(2.8853900817779268f)), job->exact + c % CPU_LANES);
        vf far = v_sub(one, v_div(v_set1(2.0f), v_add(one, e)));
        vf near = v_set1(series[5]);
        for (int i = 4; i >= 0; i--)
            near = v_fma(near, z, v_set1(series[i]));
        vf y = v_select_less(magnitude, v_set1(0.25f), v_mul(near, x), v_copy_sign(far, x));
        v_store(s + c, v_mul(y, out));
    }
}
