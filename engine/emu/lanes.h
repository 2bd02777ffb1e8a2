/* Small helpers of every handler: the planes of a warp, its predicates, its lanes one by one, random numbers and the host's clock. Part of
 * emu_internal.h, which defines the warp. */
#ifndef FA4_EMU_LANES_H
#define FA4_EMU_LANES_H

#include <time.h>

static inline uint32_t *emu_lanes(emu_warp *w, emu_slot slot) {
    return (uint32_t *)(void *)w->bank[slot >> 31] + (size_t)(slot & ~EMU_CONSTANT) * EMU_LANES;
}
static inline uint32_t emu_pred(const emu_warp *w, emu_predicate p) {
    return w->predicates[p.index] ^ (uint32_t)-(int32_t)p.negated;
}
static inline void emu_set_pred(emu_warp *w, emu_predicate p, uint32_t value, uint32_t mask) {
    if (p.index != 0) w->predicates[p.index] = (w->predicates[p.index] & ~mask) | (value & mask);
}
static inline int emu_first(uint32_t mask) {
    return __builtin_ctz(mask);
}
static inline uint64_t emu_get(emu_warp *w, emu_slot slot, bool wide, int lane) {
    const uint32_t *p = emu_lanes(w, slot);
    return wide ? (uint64_t)p[lane + EMU_LANES] << 32 | p[lane] : p[lane];
}
static inline void emu_put(emu_warp *w, emu_slot slot, bool wide, int lane, uint64_t value) {
    uint32_t *p = emu_lanes(w, slot);
    p[lane] = (uint32_t)value;
    if (wide) p[lane + EMU_LANES] = (uint32_t)(value >> 32);
}
/* Whether the lanes of a mask hold one value. */
static inline bool emu_uniform(emu_warp *w, emu_slot slot, bool wide, uint32_t mask) {
    if (slot == EMU_NO_SLOT || slot & EMU_CONSTANT) return true;
    const uint32_t *p = emu_lanes(w, slot), *q = wide ? p + EMU_LANES : p;
    uint32_t first = p[emu_first(mask)], above = q[emu_first(mask)], differ = 0;
    for (int i = 0; i < EMU_LANES; i++) differ |= ((p[i] ^ first) | (q[i] ^ above)) & -(mask >> i & 1);
    return differ == 0;
}
#define EMU_EACH_LANE(lane, mask)                                                                  \
    for (uint32_t rest_ = (mask), lane = 0; rest_ != 0 && (lane = (uint32_t)__builtin_ctz(rest_), 1); rest_ &= rest_ - 1)

/* The same inside such a loop. */
#define EMU_EACH_LANE_OF(lane, mask)                                                               \
    for (uint32_t inner_ = (mask), lane = 0; inner_ != 0 && (lane = (uint32_t)__builtin_ctz(inner_), 1); inner_ &= inner_ - 1)

/* Host time, for the matrix units' own account. */
static inline int64_t emu_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline uint64_t emu_random_next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

#endif
