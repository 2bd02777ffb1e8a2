/* Operations between the lanes of a warp (ISA 9.7.9.6, 9.7.13): each waits until the lanes that its mask names have come. */
#include "emu_internal.h"

/* The lanes named by the mask operand; EMU_PARK until all that live are here. */
static emu_step members(emu_warp *w, const emu_op *op, uint32_t mask, uint32_t *named) {
    *named = emu_lanes(w, op->e)[emu_first(mask)];
    if ((mask & ~*named) != 0)
        return emu_fault(w, emu_first(mask & ~*named), EMU_DIVERGENCE, op, "a lane executes this with a member mask 0x%x that does not name it", *named);
    if ((*named & w->alive & ~mask) != 0) {
        if (emu_current(w)->mask & *named & w->alive & ~mask)
            return emu_fault(w, -1, EMU_DIVERGENCE, op, "a guard keeps lanes away that the member mask 0x%x names", *named);
        return EMU_PARK;
    }
    return EMU_NEXT;
}

emu_step emu_do_shuffle(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t named, out[32], valid = 0;
    emu_step step = members(w, op, mask, &named);
    if (step != EMU_NEXT) return step;
    const uint32_t *a = emu_lanes(w, op->a), *b = emu_lanes(w, op->b), *c = emu_lanes(w, op->c);
    EMU_EACH_LANE(lane, mask) {
        uint32_t clamp = c[lane] & 31, segment = c[lane] >> 8 & 31, value = b[lane] & 31;
        int32_t most = (int32_t)((lane & segment) | (clamp & ~segment)), least = (int32_t)(lane & segment), j;
        bool in;
        switch (op->extra) {
        case PTX_SHFL_UP: j = (int32_t)lane - (int32_t)value; in = j >= most; break;
        case PTX_SHFL_DOWN: j = (int32_t)(lane + value); in = j <= most; break;
        case PTX_SHFL_BFLY: j = (int32_t)(lane ^ value); in = j <= most; break;
        default: j = least | (int32_t)(value & ~segment); in = j <= most; break;
        }
        if (!in) j = (int32_t)lane;
        else valid |= 1u << lane;
        if (!(mask >> j & 1)) {
            emu_fault(w, (int)lane, EMU_DIVERGENCE, op, "shfl reads lane %d, which does not take part", j);
            j = (int32_t)lane;
        }
        out[lane] = a[j];
    }
    EMU_EACH_LANE(lane, mask) emu_lanes(w, op->d)[lane] = out[lane];
    emu_set_pred(w, op->p, valid, mask);
    return EMU_NEXT;
}

emu_step emu_do_vote(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t named;
    emu_step step = members(w, op, mask, &named);
    if (step != EMU_NEXT) return step;
    uint32_t yes = emu_pred(w, op->s) & mask, r = 0;
    switch (op->extra) {
    case PTX_VOTE_ALL: r = yes == mask; break;
    case PTX_VOTE_ANY: r = yes != 0; break;
    case PTX_VOTE_UNI: r = yes == mask || yes == 0; break;
    default:
        EMU_EACH_LANE(lane, mask) emu_lanes(w, op->d)[lane] = yes;
        return EMU_NEXT;
    }
    emu_set_pred(w, op->p, r ? ~0u : 0, mask);
    return EMU_NEXT;
}

emu_step emu_do_match(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t named, out[32];
    emu_step step = members(w, op, mask, &named);
    if (step != EMU_NEXT) return step;
    bool wide = op->wide & 2, all = true;
    uint64_t first = emu_get(w, op->a, wide, emu_first(mask));
    EMU_EACH_LANE(lane, mask) {
        uint64_t v = emu_get(w, op->a, wide, (int)lane);
        out[lane] = 0;
        EMU_EACH_LANE_OF(other, mask) if (emu_get(w, op->a, wide, (int)other) == v) out[lane] |= 1u << other;
        all &= v == first;
    }
    EMU_EACH_LANE(lane, mask) emu_lanes(w, op->d)[lane] = op->extra == PTX_MATCH_ANY ? out[lane] : all ? mask : 0;
    emu_set_pred(w, op->p, all ? ~0u : 0, mask);
    return EMU_NEXT;
}

static uint32_t reduced(const emu_op *op, uint32_t x, uint32_t y) {
    bool max = op->extra == PTX_MAXIMUM;
    switch (op->extra) {
    case PTX_ADDING: return x + y;
    case PTX_AND: return x & y;
    case PTX_OR: return x | y;
    case PTX_XOR: return x ^ y;
    default: break;
    }
    if (op->format == EMU_F32) return (uint32_t)emu_fp_minmax(x, y, max, EMU_F32, &op->mode);
    return emu_int_compare(x, y, EMU_GT, op->is_signed, 32) == max ? x : y;
}

emu_step emu_do_redux(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t named, r = 0;
    bool started = false;
    emu_step step = members(w, op, mask, &named);
    if (step != EMU_NEXT) return step;
    EMU_EACH_LANE(lane, mask) {
        uint32_t x = emu_lanes(w, op->a)[lane];
        if (op->mode.abs) x &= 0x7fffffff;
        r = started ? reduced(op, r, x) : x;
        started = true;
    }
    EMU_EACH_LANE(lane, mask) emu_lanes(w, op->d)[lane] = r;
    return EMU_NEXT;
}

emu_step emu_do_activemask(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) emu_lanes(w, op->d)[lane] = mask;
    return EMU_NEXT;
}

emu_step emu_do_elect(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t named;
    emu_step step = members(w, op, mask, &named);
    if (step != EMU_NEXT) return step;
    int leader = emu_first(mask);
    EMU_EACH_LANE(lane, mask) emu_lanes(w, op->d)[lane] = (uint32_t)leader;
    emu_set_pred(w, op->p, 1u << leader, mask);
    return EMU_NEXT;
}

emu_step emu_do_warp_sync(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t named;
    emu_op with = *op;
    with.e = op->a;
    return members(w, &with, mask, &named);
}
