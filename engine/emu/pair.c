/*
 * What the two CTAs of a pair do together on the tensor unit (ISA 9.7.16, .cta_group::2). Ranks 2 i and 2 i + 1 are a pair. Each allocates and
 * frees by one warp, and either may wait for the other. An mma reads half of A's rows and half of B's columns from each CTA at equal offsets:
 *
 *     M 256: CTA h has rows 128 h .. + 127 of D, as an mma of M 128 alone would
 *     M 128: CTA h has rows  64 h .. +  63 of D, columns 0 .. N/2 - 1 in lanes 0 .. 63, the others in lanes 64 .. 127 of the same columns
 */
#include "cluster_internal.h"

emu_cta *emu_pair_peer(const emu_cta *cta) {
    return emu_cluster_cta(cta->cluster, (int32_t)(cta->rank ^ 1));
}

/* EMU_NEXT once a warp of each CTA has come to this round with the same wish. */
static emu_step meet(emu_warp *w, const emu_op *op, uint32_t columns, uint32_t base) {
    emu_cta *cta = w->cta, *peer = emu_pair_peer(cta);
    emu_pair *mine = &cta->pair;
    if (peer == NULL)
        return emu_fault(w, -1, EMU_TENSOR_MISUSE, op, ".cta_group::2 in a cluster of %d CTAs: there is no pair", cta->cluster ? cta->cluster->size : 1);
    if (mine->waiting && mine->warp != w->index) return EMU_RETRY;
    if (!mine->waiting) {
        *mine = (emu_pair){.meets = mine->meets + 1, .granted = mine->granted, .waiting = true, .warp = w->index, .columns = columns, .base = base,
                           .opcode = op->source->form->opcode};
        peer->changes++;
    }
    if (peer->pair.meets < mine->meets) return EMU_RETRY;
    if (peer->pair.meets == mine->meets && (peer->pair.opcode != mine->opcode || peer->pair.columns != mine->columns))
        return emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "the CTAs of a pair allocate or free differently: %u columns here, %u there", mine->columns, peer->pair.columns);
    return EMU_NEXT;
}

static emu_step leave(emu_cta *cta) {
    cta->pair.waiting = false;
    return EMU_NEXT;
}

bool emu_pair_done(emu_warp *w) {
    emu_pair *p = &w->cta->pair;
    if (!p->waiting || p->warp != w->index || p->granted < p->meets) return false;
    p->waiting = false;
    return true;
}

emu_step emu_pair_alloc(emu_warp *w, const emu_op *op, uint32_t columns, uint32_t *base) {
    emu_step step = meet(w, op, columns, 0);
    if (step != EMU_NEXT) return step;
    emu_cta *cta = w->cta, *both[2] = {cta, emu_pair_peer(cta)};
    if (cta->pair.granted < cta->pair.meets) {
        if (!emu_tensor_place(both, 2, columns, base)) return EMU_RETRY;
        for (int i = 0; i < 2; i++) both[i]->pair.granted = cta->pair.meets, both[i]->pair.base = *base, both[i]->changes++;
    }
    *base = cta->pair.base;
    return leave(cta);
}

emu_step emu_pair_dealloc(emu_warp *w, const emu_op *op, uint32_t base, uint32_t columns) {
    emu_step step = meet(w, op, columns, base);
    if (step != EMU_NEXT) return step;
    emu_cta *cta = w->cta, *peer = emu_pair_peer(cta);
    if (cta->pair.granted < cta->pair.meets) { /* else the other CTA has done it between */
        if (peer->pair.base != base) return emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "the CTAs of a pair free different columns: 0x%x here, 0x%x there", base, peer->pair.base);
        if (emu_tensor_busy(peer)) return emu_fault(w, -1, EMU_TENSOR_MISUSE, op, "tcgen05.dealloc while an mma of the other CTA is in flight");
        emu_tensor_free(cta, base);
        emu_tensor_free(peer, base);
        cta->pair.granted = peer->pair.granted = cta->pair.meets;
        peer->changes++;
    }
    return leave(cta);
}

void emu_pair_mma(emu_cta *cta, const emu_async *q) {
    emu_cta *peer = emu_pair_peer(cta), *both[2] = {cta->rank & 1 ? peer : cta, cta->rank & 1 ? cta : peer};
    int32_t half = q->shape.n / 2;
    float *b = cta->panel_b;
    for (int h = 0; h < 2; h++) {
        if (!emu_cluster_lives(q, both[h])) return;
        emu_tensor_load_b(both[h], q, half, b + (size_t)h * (size_t)half * EMU_MMA_K);
    }
    for (int h = 0; h < 2; h++) {
        emu_async part = *q;
        part.shape.m = q->shape.m / 2;
        memcpy(part.disabled, q->disabled + 4 * h, 4 * sizeof part.disabled[0]);
        if (q->shape.m == 256) {
            emu_tensor_mma(both[h], &part, b);
            continue;
        }
        part.shape.n = half;
        for (int j = 0; j < 2; j++) {
            part.half = (uint8_t)(j + 1);
            emu_tensor_mma(both[h], &part, b + (size_t)j * (size_t)half * EMU_MMA_K);
        }
    }
    cta->mmas++;
}
