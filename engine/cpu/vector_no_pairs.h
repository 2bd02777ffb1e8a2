/* Stand-ins where no instruction multiplies pairs of bf16: the template names these functions, and
 * never calls them. */
#ifndef FA4_CPU_VECTOR_NO_PAIRS_H
#define FA4_CPU_VECTOR_NO_PAIRS_H

static inline vf v_dot2(vf a, vf b, vf c) {
    return v_fma(a, b, c);
}
static inline void v_store_pairs(void *p, vf x) {
    (void)p, (void)x;
}
static inline void v_store_half(float *word, int half, vf x) {
    (void)word, (void)half, (void)x;
}
static inline vf v_load_half(const float *word, int half) {
    (void)half;
    return v_load(word);
}

#endif
