/* Moves and logic that every instruction set shares: packing, predicates, carries, clocks (ISA 9.7.2, 9.7.8, 9.7.9). */
#include "emu_internal.h"

#include <math.h>

static void copy_plane(uint32_t *d, const uint32_t *s, uint32_t mask) {
    if (mask == ~0u) {
        memmove(d, s, sizeof(emu_plane));
        return;
    }
    EMU_EACH_LANE(lane, mask) d[lane] = s[lane];
}

emu_step emu_do_move(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_plane parts[4];
    memcpy(parts, emu_lanes(w, op->a), op->extra * sizeof(emu_plane));
    for (uint32_t i = 0; i < op->extra; i++) copy_plane(emu_lanes(w, op->d) + i * EMU_LANES, parts[i].lane, mask);
    return EMU_NEXT;
}

/* mov d, {..}: list elements of extra bits, lowest first, into the planes from a on. */
emu_step emu_do_pack(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) {
        uint32_t out[4] = {0};
        for (uint32_t i = 0; i < op->count; i++) {
            uint64_t v = emu_cut(emu_get(w, op->list[i], op->extra == 64, (int)lane), (int)op->extra);
            uint32_t at = i * op->extra;
            out[at / 32] |= (uint32_t)(v << (at % 32));
            if (op->extra == 64) out[at / 32 + 1] = (uint32_t)(v >> 32);
        }
        uint32_t planes = op->bits > 32 ? op->bits / 32u : 1;
        for (uint32_t i = 0; i < planes; i++) emu_lanes(w, op->a)[i * EMU_LANES + lane] = out[i];
    }
    return EMU_NEXT;
}

emu_step emu_do_unpack(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) {
        uint32_t in[4] = {0}, planes = op->bits > 32 ? op->bits / 32u : 1;
        for (uint32_t i = 0; i < planes; i++) in[i] = emu_lanes(w, op->a)[i * EMU_LANES + lane];
        for (uint32_t i = 0; i < op->count; i++) {
            uint32_t at = i * op->extra;
            uint64_t v = in[at / 32] >> (at % 32);
            if (op->extra == 64) v |= (uint64_t)in[at / 32 + 1] << 32;
            emu_put(w, op->list[i], op->extra == 64, (int)lane, emu_cut(v, (int)op->extra));
        }
    }
    return EMU_NEXT;
}

emu_step emu_do_select(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t yes = emu_pred(w, op->s);
    EMU_EACH_LANE(lane, mask) {
        bool wide = op->extra == 2;
        emu_put(w, op->d, wide, (int)lane, emu_get(w, yes >> lane & 1 ? op->a : op->b, wide, (int)lane));
    }
    return EMU_NEXT;
}

emu_step emu_do_predicate_logic(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t a = emu_pred(w, op->q), b = emu_pred(w, op->s), r = a;
    switch (op->extra) {
    case PTX_OP_AND: r = a & b; break;
    case PTX_OP_OR: r = a | b; break;
    case PTX_OP_XOR: r = a ^ b; break;
    case PTX_OP_NOT: r = ~a; break;
    default: break;
    }
    emu_set_pred(w, op->p, r, mask);
    return EMU_NEXT;
}

/* add.cc, addc, sub.cc, subc, mad.lo.cc, ...: the carry is predicate 2 (a borrow for subtraction). */
emu_step emu_do_carry(emu_warp *w, const emu_op *op, uint32_t mask) {
    const ptx_form *f = op->source->form;
    bool with = f->opcode == PTX_OP_ADDC || f->opcode == PTX_OP_SUBC || f->opcode == PTX_OP_MADC;
    bool minus = f->opcode == PTX_OP_SUB || f->opcode == PTX_OP_SUBC, product = f->opcode == PTX_OP_MAD || f->opcode == PTX_OP_MADC;
    uint32_t carry = w->predicates[2], out = carry;
    EMU_EACH_LANE(lane, mask) {
        uint64_t a = emu_get(w, op->a, op->wide & 2, (int)lane), b = emu_get(w, op->b, op->wide & 4, (int)lane), in = with ? carry >> lane & 1 : 0;
        if (product) {
            a = f->half == PTX_HALF_HI ? emu_int_mul_hi(a, b, op->bits, op->is_signed) : emu_cut(a * b, op->bits);
            b = emu_get(w, op->c, op->wide & 8, (int)lane);
        }
        a = emu_cut(a, op->bits), b = emu_cut(b, op->bits);
        unsigned __int128 r = minus ? (unsigned __int128)a - b - in : (unsigned __int128)a + b + in;
        out = (out & ~(1u << lane)) | (uint32_t)(r >> op->bits & 1) << lane;
        emu_put(w, op->d, op->wide & 1, (int)lane, emu_cut((uint64_t)r, op->bits));
    }
    if (f->carry) w->predicates[2] = out;
    return EMU_NEXT;
}

emu_step emu_do_insert(emu_warp *w, const emu_op *op, uint32_t mask) { /* bfi d, a, b, position, length */
    EMU_EACH_LANE(lane, mask) {
        uint64_t a = emu_get(w, op->a, op->wide & 2, (int)lane), b = emu_get(w, op->b, op->wide & 4, (int)lane);
        uint32_t position = emu_lanes(w, op->c)[lane], length = emu_lanes(w, op->e)[lane];
        emu_put(w, op->d, op->wide & 1, (int)lane, emu_int_bfi(a, b, position, length, op->bits));
    }
    return EMU_NEXT;
}

emu_step emu_do_test(emu_warp *w, const emu_op *op, uint32_t mask) { /* testp */
    uint32_t r = 0;
    EMU_EACH_LANE(lane, mask) {
        uint64_t bits = emu_get(w, op->a, op->wide & 2, (int)lane);
        int kind = op->bits == 64 ? fpclassify(emu_double(bits)) : fpclassify(emu_float(bits));
        bool is = false;
        switch (op->source->form->test) {
        case PTX_FINITE: is = kind != FP_NAN && kind != FP_INFINITE; break;
        case PTX_INFINITE: is = kind == FP_INFINITE; break;
        case PTX_NUMBER: is = kind != FP_NAN; break;
        case PTX_NOTANUMBER: is = kind == FP_NAN; break;
        case PTX_NORMAL: is = kind == FP_NORMAL || kind == FP_ZERO; break; /* devices count zero as normal */
        case PTX_SUBNORMAL: is = kind == FP_SUBNORMAL; break;
        default: break;
        }
        r |= (uint32_t)is << lane;
    }
    emu_set_pred(w, op->p, r, mask);
    return EMU_NEXT;
}

/* Model time: one unit per warp instruction of the CTA. */
emu_step emu_do_clock(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint64_t t = w->cta->time;
    if (op->extra == PTX_SPECIAL_CLOCK_HI || op->extra == PTX_SPECIAL_GLOBALTIMER_HI) t >>= 32;
    EMU_EACH_LANE(lane, mask) emu_put(w, op->d, op->wide & 1, (int)lane, t);
    return EMU_NEXT;
}

emu_step emu_do_sleep(emu_warp *w, const emu_op *op, uint32_t mask) {
    (void)w, (void)op, (void)mask;
    return EMU_NEXT;
}
