/*
 * The common form of loads and stores in shared memory: 32-bit registers, every lane inside, aligned, on written bytes and off every barrier.
 * Whatever else there may be is left to memory.c, which looks lane by lane and says what is wrong.
 */
#include "emu_internal.h"

typedef struct reach {
    uint32_t address[EMU_LANES]; /* of the lanes in the mask; others hold one of these */
    uint32_t low, high;          /* of the first and last bytes */
} reach;

static bool plain(const emu_warp *w, const emu_op *op) {
    return (op->space == PTX_SPACE_SHARED || op->space == PTX_SPACE_SHARED_CTA) && op->bits == 32 && op->count <= 4 && !(op->wide & 1) && op->a != EMU_NO_SLOT &&
           w->cta->machine->launch->listener == NULL;
}

/* False when an address is out of bounds, misaligned or not a plain one. */
static bool find_reach(emu_warp *w, const emu_op *op, uint32_t mask, uint32_t bytes, reach *r) {
    const uint32_t *base = emu_lanes(w, op->a), offset = (uint32_t)op->value;
    uint32_t spare = base[emu_first(mask)], low = UINT32_MAX, high = 0, all = 0, above = 0;
    if (op->value < 0 || op->value > INT32_MAX || w->cta->window != 0) return false;
    for (int i = 0; i < EMU_LANES; i++) {
        uint32_t b = mask >> i & 1 ? base[i] : spare, a = b + offset;
        r->address[i] = a;
        all |= a, above |= b;
        low = a < low ? a : low;
        high = a > high ? a : high;
    }
    if (op->wide & 2)
        for (int i = 0; i < EMU_LANES; i++) above |= mask >> i & 1 && base[i + EMU_LANES] != 0 ? 1u << 31 : 0;
    r->low = low, r->high = high + bytes - 1;
    return above >> 31 == 0 && all % bytes == 0 && low >= EMU_SHARED_BASE && high <= w->cta->shared_end - bytes;
}

/* A live barrier in the range: may be hit. */
static bool near_barrier(const emu_cta *cta, const reach *r) {
    uint64_t any = 0;
    for (uint32_t i = r->low / 512; i <= r->high / 512; i++) any |= cta->barriers[i];
    return any != 0;
}

static bool hits_barrier(const emu_cta *cta, const reach *r, uint32_t bytes) {
    uint64_t hit = 0, units = bytes == 16 ? 3 : 1;
    if (!near_barrier(cta, r)) return false;
    for (int i = 0; i < EMU_LANES; i++) hit |= cta->barriers[r->address[i] / 512] >> (r->address[i] / 8 % 64) & units;
    return hit != 0;
}

static bool all_written(const emu_cta *cta, const reach *r, uint32_t bytes) {
    uint64_t ones = (1ull << bytes) - 1, all = ones;
    for (int i = 0; i < EMU_LANES; i++) all &= cta->written[r->address[i] / 64] >> (r->address[i] % 64);
    return (all & ones) == ones;
}

bool emu_quick_load(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_cta *cta = w->cta;
    uint32_t bytes = 4u * op->count;
    reach r;
    if (!plain(w, op) || !find_reach(w, op, mask, bytes, &r) || hits_barrier(cta, &r, bytes)) return false;
    if (cta->machine->checked && !all_written(cta, &r, bytes)) return false;
    for (uint32_t i = 0; i < op->count; i++) {
        uint32_t *to = emu_lanes(w, op->list[i]);
        if (mask == ~0u)
            for (int lane = 0; lane < EMU_LANES; lane++) memcpy(&to[lane], emu_shared_at(cta, r.address[lane]) + 4 * i, 4);
        else EMU_EACH_LANE(lane, mask) memcpy(&to[lane], emu_shared_at(cta, r.address[lane]) + 4 * i, 4);
    }
    return true;
}

bool emu_quick_store(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_cta *cta = w->cta;
    uint32_t bytes = 4u * op->count;
    uint64_t ones = (1ull << bytes) - 1;
    reach r;
    if (!plain(w, op) || !find_reach(w, op, mask, bytes, &r) || hits_barrier(cta, &r, bytes)) return false;
    EMU_EACH_LANE(lane, mask) {
        uint8_t *to = emu_shared_at(cta, r.address[lane]);
        for (uint32_t i = 0; i < op->count; i++) memcpy(to + 4 * i, &emu_lanes(w, op->list[i])[lane], 4);
        cta->written[r.address[lane] / 64] |= ones << (r.address[lane] % 64);
    }
    return true;
}
