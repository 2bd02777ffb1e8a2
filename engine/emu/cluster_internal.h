/*
 * Clusters: CTAs that start together on one host thread and reach each other's shared memory, and the pairs in them that share a tensor
 * pipe's work. A shared address carries the rank of its CTA in bits 24 up, as on the device: clearing bit 24 names the even CTA of a pair.
 */
#ifndef FA4_EMU_CLUSTER_INTERNAL_H
#define FA4_EMU_CLUSTER_INTERNAL_H

#include "emu_internal.h"

enum { EMU_CLUSTER_MAX = 16, EMU_RANK_SHIFT = 24, EMU_WINDOW_BYTES = 1 << EMU_RANK_SHIFT };

struct emu_cluster {
    emu_machine *machine;
    int32_t size;
    bool joined; /* they reach each other; else one CTA on the plain path */
    bool done;
    emu_cta *ctas[EMU_CLUSTER_MAX];
    uint64_t phases; /* of barrier.cluster that have completed */
    uint64_t random;
    int32_t turn;
    int32_t starved; /* EMU_STARVE: the CTA that runs last, -1: none */
};

/* cluster.c: CTAs that start together, or one alone. */
emu_cluster *emu_cluster_create(emu_machine *machine); /* NULL: no memory */
void emu_cluster_destroy(emu_cluster *cluster);        /* NULL is allowed */
void emu_cluster_start(emu_cluster *cluster, int64_t which, int32_t slot, emu_report *report);
bool emu_cluster_turn(emu_cluster *cluster); /* false at its end */
void emu_cluster_finish(emu_cluster *cluster);
emu_cta *emu_cluster_find(emu_cluster *cluster, int64_t index, emu_report *report); /* starts the cluster of that CTA */
emu_cta *emu_cluster_cta(const emu_cluster *cluster, int32_t rank); /* NULL: there is none */
bool emu_cluster_help(emu_cluster *cluster, const emu_cta *but);     /* a turn of the others */
bool emu_cluster_land(emu_cluster *cluster, const emu_cta *but);     /* lands work of theirs */
void emu_cluster_deadlock(emu_cluster *cluster);
void emu_cluster_recheck(emu_cluster *cluster); /* lanes have ended */
int32_t emu_cluster_missing(const emu_cluster *cluster, char *ranks, size_t bytes); /* threads that its barrier waits for */
/* An address in the shared memory of any CTA of the cluster; false after a finding. */
bool emu_cluster_address(emu_warp *warp, const emu_op *op, uint64_t address, uint32_t bytes, uint32_t align, int lane, emu_cta **cta, uint32_t *out);
/* Enqueues a copy that lands in `to` and signals `signal`, once for each CTA of a multicast. */
bool emu_cluster_copy(emu_warp *warp, const emu_op *op, int lane, const emu_async *copy);
void emu_cluster_deliver(const emu_async *a); /* EMU_ASYNC_BULK_SHARED, EMU_ASYNC_WRITE */
/* False after a finding: that CTA has ended, its memory may be another's. */
bool emu_cluster_lives(const emu_async *a, const emu_cta *cta);
emu_async *emu_copy_enqueue(emu_warp *warp, const emu_op *op, int lane); /* copy.c */

/* pair.c: tensor memory and mma of two CTAs */
emu_cta *emu_pair_peer(const emu_cta *cta); /* NULL: there is none */
emu_step emu_pair_alloc(emu_warp *warp, const emu_op *op, uint32_t columns, uint32_t *base);
bool emu_pair_done(emu_warp *warp); /* this warp's round is over, by the other CTA's hand; leaves it */
emu_step emu_pair_dealloc(emu_warp *warp, const emu_op *op, uint32_t base, uint32_t columns);
void emu_pair_mma(emu_cta *cta, const emu_async *q);
/* tensor.c, of one CTA: B into a panel, an mma with that panel, columns */
void emu_tensor_load_b(emu_cta *cta, const emu_async *q, int32_t extent, float *panel);
bool emu_tensor_allocated(const emu_cta *cta, uint32_t column, uint32_t count);
bool emu_tensor_busy(const emu_cta *cta); /* an mma is in flight */
bool emu_tensor_place(emu_cta *const *ctas, int32_t count, uint32_t columns, uint32_t *base); /* the same columns in each; false: none are free */
void emu_tensor_free(emu_cta *cta, uint32_t base);
void emu_tensor_mma(emu_cta *cta, const emu_async *q, const float *b);

#endif
