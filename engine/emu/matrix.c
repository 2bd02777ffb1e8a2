/* ldmatrix, stmatrix and movmatrix (ISA 9.7.14.5.15 to 17): 8 x 8 tiles of 16-bit elements spread over a warp. */
#include "emu_internal.h"

/* Row addresses come from lanes 8 * tile .. 8 * tile + 7. Element (row, column) lives in lane 4 * row + column / 2, half column % 2. */
static bool rows(emu_warp *w, const emu_op *op, uint32_t tiles, uint32_t address[32]) {
    for (uint32_t i = 0; i < 8 * tiles; i++)
        if (!emu_shared_address(w, op, emu_address(w, op, op->a, (int)i), 16, 16, (int)i, &address[i])) return false;
    return true;
}

emu_step emu_do_ldmatrix(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t address[32], out[4][32];
    emu_step step = emu_need_all(w, op, mask);
    char name[96];
    if (step != EMU_NEXT) return step;
    if (!rows(w, op, op->count, address)) return EMU_STOP;
    for (uint32_t t = 0; t < op->count; t++) {
        uint16_t tile[8][8];
        for (uint32_t r = 0; r < 8; r++) {
            uint32_t at = address[8 * t + r];
            if (w->cta->machine->checked && !emu_shared_ready(w->cta, at, 16))
                emu_fault(w, (int)(8 * t + r), EMU_UNINITIALISED, op, "ldmatrix reads unwritten shared memory: %s", emu_shared_name(w->cta, at, name, sizeof name));
            memcpy(tile[r], emu_shared_at(w->cta, at), 16);
            EMU_EVENT(w->cta, w, EMU_EVENT_READ, EMU_MEMORY_SHARED, EMU_UNIT_WARP, mask, at, 16, 0);
        }
        for (uint32_t l = 0; l < 32; l++) {
            uint32_t r = l / 4, c = 2 * (l % 4);
            uint32_t low = op->extra ? tile[c][r] : tile[r][c], high = op->extra ? tile[c + 1][r] : tile[r][c + 1];
            out[t][l] = low | high << 16;
        }
    }
    for (uint32_t t = 0; t < op->count; t++) memcpy(emu_lanes(w, op->list[t]), out[t], sizeof out[t]);
    return EMU_NEXT;
}

emu_step emu_do_stmatrix(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t address[32];
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    if (!rows(w, op, op->count, address)) return EMU_STOP;
    for (uint32_t t = 0; t < op->count; t++) {
        uint16_t tile[8][8];
        const uint32_t *in = emu_lanes(w, op->list[t]);
        for (uint32_t l = 0; l < 32; l++)
            for (uint32_t half = 0; half < 2; half++) {
                uint32_t r = l / 4, c = 2 * (l % 4) + half;
                tile[op->extra ? c : r][op->extra ? r : c] = (uint16_t)(in[l] >> (16 * half));
            }
        for (uint32_t r = 0; r < 8; r++) {
            memcpy(emu_shared_at(w->cta, address[8 * t + r]), tile[r], 16);
            emu_shared_mark(w->cta, address[8 * t + r], 16);
            EMU_EVENT(w->cta, w, EMU_EVENT_WRITE, EMU_MEMORY_SHARED, EMU_UNIT_WARP, mask, address[8 * t + r], 16, 0);
        }
    }
    return EMU_NEXT;
}

emu_step emu_do_movmatrix(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_step step = emu_need_all(w, op, mask);
    if (step != EMU_NEXT) return step;
    uint32_t out[32];
    const uint32_t *in = emu_lanes(w, op->a);
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t r = l / 4, c = 2 * (l % 4); /* out (r, c) = in (c, r) */
        uint32_t low = in[4 * c + r / 2] >> (16 * (r % 2)) & 0xffff, high = in[4 * (c + 1) + r / 2] >> (16 * (r % 2)) & 0xffff;
        out[l] = low | high << 16;
    }
    memcpy(emu_lanes(w, op->d), out, sizeof out);
    return EMU_NEXT;
}
