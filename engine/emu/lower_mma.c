/* Decoding of mma.sync: shapes m16n8 of f16, bf16 and 8-bit integers. */
#include "lower_internal.h"

static bool is_byte(int type) {
    return type == PTX_TYPE_S8 || type == PTX_TYPE_U8;
}

/* The combinations that the machine multiplies: K 8 and 16 of 16-bit floats, K 16 and 32 of bytes. */
static bool known(const ptx_form *f) {
    const uint8_t *t = f->types;
    if (f->m != 16 || f->n != 8 || f->layout_a != PTX_ROW || f->layout_b != PTX_COL) return false;
    if (is_byte(t[1])) return is_byte(t[2]) && t[0] == PTX_TYPE_S32 && t[3] == PTX_TYPE_S32 && (f->k == 16 || f->k == 32);
    if (t[1] != t[2] || (f->k != 8 && f->k != 16) || f->satfinite) return false;
    if (t[1] == PTX_TYPE_BF16) return t[0] == PTX_TYPE_F32 && t[3] == PTX_TYPE_F32;
    return t[1] == PTX_TYPE_F16 && (t[0] == PTX_TYPE_F32 || t[0] == PTX_TYPE_F16) && (t[3] == PTX_TYPE_F32 || t[3] == PTX_TYPE_F16);
}

static uint8_t registers_of(int type) {
    return type == PTX_TYPE_F16 ? 2 : 4;
}

/* mma.sync d, a, b, c. */
bool emu_lower_mma(lowering *l, const ptx_instr *instr, emu_op *op) {
    const ptx_form *f = instr->form;
    const ptx_operand *o = instr->operands;
    emu_more *more = emu_lower_more(l, op);
    uint8_t a, b, c;
    bool wide;
    if (more == NULL) return false;
    if (!known(f)) {
        l->reason = "only m16n8 of f16, bf16 and 8-bit integers is modelled";
        return false;
    }
    uint8_t chunks = (uint8_t)(f->k / (is_byte(f->types[1]) ? 16 : 8));
    op->list = emu_lower_list(l, &o[0], false, &op->count, &wide);
    more->list2 = emu_lower_list(l, &o[1], false, &a, &wide);
    const emu_slot *lb = emu_lower_list(l, &o[2], false, &b, &wide), *lc = emu_lower_list(l, &o[3], false, &c, &wide);
    if (op->list == NULL || more->list2 == NULL || lb == NULL || lc == NULL) return false;
    if (op->count != registers_of(f->types[0]) || a != 2 * chunks || b != chunks || c != registers_of(f->types[3])) {
        l->reason = "the register lists do not match the shape";
        return false;
    }
    for (int i = 0; i < b; i++) more->slots[i] = lb[i];
    for (int i = 0; i < c; i++) more->slots[2 + i] = lc[i];
    op->run = emu_do_mma_sync;
    return true;
}
