/* A CTA's state: its memories, made once and used for one CTA after another, and how a CTA begins and ends. */
#include "emu_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- one CTA's state ---- */

static void *take(size_t bytes, bool *good) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (p == NULL) *good = false;
    else memset(p, 0, (bytes + 63) / 64 * 64 + 64);
    return p;
}

void emu_cta_destroy(emu_cta *c) {
    if (c == NULL) return;
    for (int32_t i = 0; c->warps != NULL && i < c->warp_count; i++) {
        free(c->warps[i].bank[0]);
        free(c->warps[i].predicates);
        free(c->warps[i].transfer_data);
        free(c->warps[i].wgmmas);
        free(c->warps[i].defined);
    }
    free(c->warps);
    free(c->shared);
    free(c->written);
    free(c->barriers);
    free(c->tmem);
    free(c->tmem_written);
    emu_scatter_drop(c);
    free(c->copies);
    free(c->pipe);
    free(c->panel_a);
    free(c->panel_b);
    free(c->scratch);
    free(c->wgmma_d);
    free(c->local);
    free(c);
}

static bool warp_allocate(emu_cta *c, emu_warp *w) {
    const emu_code *code = c->code;
    bool good = true;
    w->bank[0] = take(code->plane_count * sizeof(emu_plane), &good);
    w->bank[1] = code->constants;
    w->predicates = take(code->predicate_count * sizeof(uint32_t), &good);
    w->ops = code->ops;
    w->cta = w->home = c;
    if (code->tensor && c->machine->launch->schedule != EMU_ROUND_ROBIN) w->transfer_data = take(EMU_TRANSFERS_MAX * 128 * sizeof(emu_plane), &good);
    if (code->wgmma) w->wgmmas = take(EMU_WGMMA_MAX * sizeof *w->wgmmas, &good);
    if (code->may_be_unwritten && c->machine->checked) w->defined = take(code->plane_count * sizeof(uint32_t), &good);
    return good;
}

emu_cta *emu_cta_create(emu_machine *m) {
    emu_cta *c = calloc(1, sizeof *c);
    bool good = c != NULL;
    const emu_launch *l = m->launch;
    int64_t threads = (int64_t)l->block[0] * l->block[1] * l->block[2];
    if (c == NULL) return NULL;
    c->machine = m;
    c->code = m->code;
    c->warp_count = (int32_t)((threads + EMU_LANES - 1) / EMU_LANES);
    c->shared_end = EMU_SHARED_BASE + m->code->function->shared_dynamic + (uint32_t)l->shared_bytes;
    c->warps = calloc((size_t)c->warp_count, sizeof *c->warps);
    c->shared = take(c->shared_end - EMU_SHARED_BASE, &good);
    c->written = take(c->shared_end / 8 + 16, &good);
    c->barriers = take(c->shared_end / 64 + 16, &good);
    c->panel_a = take(EMU_MMA_DEPTH_MAX * EMU_PANEL_A * sizeof(float), &good);
    c->panel_b = take(EMU_MMA_DEPTH_MAX * EMU_PANEL_B * sizeof(float), &good);
    c->scratch = take(EMU_MMA_EXTENT_MAX * EMU_TMEM_LANES * sizeof(float), &good);
    if (m->code->wgmma) c->wgmma_d = take(EMU_MMA_EXTENT_MAX * 16 * sizeof(float), &good);
    if (m->code->tensor) {
        c->tmem = take(EMU_TMEM_COLUMNS * EMU_TMEM_LANES * sizeof(uint32_t), &good);
        c->tmem_written = take(EMU_TMEM_COLUMNS * sizeof *c->tmem_written, &good);
    }
    if (m->code->function->local_bytes) c->local = take((size_t)m->code->function->local_bytes * (size_t)c->warp_count * EMU_LANES, &good);
    for (int32_t i = 0; c->warps != NULL && i < c->warp_count; i++) good = good && warp_allocate(c, &c->warps[i]);
    if (good && c->warps != NULL) return c;
    emu_cta_destroy(c);
    return NULL;
}

/* ---- special registers ---- */

static uint64_t cluster_value(const emu_cta *c, int special) {
    const emu_machine *m = c->machine;
    const int32_t *size = m->cluster;
    int32_t at[3], rank = 0;
    for (int i = 2; i >= 0; i--) at[i] = c->id[i] % size[i], rank = rank * size[i] + at[i];
    switch (special) {
    case PTX_SPECIAL_CLUSTERID_X: case PTX_SPECIAL_CLUSTERID_Y: case PTX_SPECIAL_CLUSTERID_Z:
        return (uint64_t)(c->id[special - PTX_SPECIAL_CLUSTERID_X] / size[special - PTX_SPECIAL_CLUSTERID_X]);
    case PTX_SPECIAL_NCLUSTERID_X: case PTX_SPECIAL_NCLUSTERID_Y: case PTX_SPECIAL_NCLUSTERID_Z:
        return (uint64_t)(m->launch->grid[special - PTX_SPECIAL_NCLUSTERID_X] / size[special - PTX_SPECIAL_NCLUSTERID_X]);
    case PTX_SPECIAL_CLUSTER_CTAID_X: case PTX_SPECIAL_CLUSTER_CTAID_Y: case PTX_SPECIAL_CLUSTER_CTAID_Z:
        return (uint64_t)at[special - PTX_SPECIAL_CLUSTER_CTAID_X];
    case PTX_SPECIAL_CLUSTER_NCTAID_X: case PTX_SPECIAL_CLUSTER_NCTAID_Y: case PTX_SPECIAL_CLUSTER_NCTAID_Z:
        return (uint64_t)size[special - PTX_SPECIAL_CLUSTER_NCTAID_X];
    case PTX_SPECIAL_CLUSTER_CTARANK: return (uint64_t)rank;
    case PTX_SPECIAL_CLUSTER_NCTARANK: return (uint64_t)m->cluster_size;
    case PTX_SPECIAL_IS_EXPLICIT_CLUSTER: return m->launch->cluster[0] > 0 || c->code->function->reqnctapercluster[0] > 0;
    default: return 0;
    }
}

static uint64_t special_value(const emu_cta *c, const emu_warp *w, int special, int lane) {
    const emu_launch *l = c->machine->launch;
    int64_t thread = (int64_t)w->index * EMU_LANES + lane;
    switch (special) {
    case PTX_SPECIAL_TID_X: return (uint64_t)(thread % l->block[0]);
    case PTX_SPECIAL_TID_Y: return (uint64_t)(thread / l->block[0] % l->block[1]);
    case PTX_SPECIAL_TID_Z: return (uint64_t)(thread / l->block[0] / l->block[1]);
    case PTX_SPECIAL_NTID_X: case PTX_SPECIAL_NTID_Y: case PTX_SPECIAL_NTID_Z: return (uint64_t)l->block[special - PTX_SPECIAL_NTID_X];
    case PTX_SPECIAL_CTAID_X: case PTX_SPECIAL_CTAID_Y: case PTX_SPECIAL_CTAID_Z: return (uint64_t)c->id[special - PTX_SPECIAL_CTAID_X];
    case PTX_SPECIAL_NCTAID_X: case PTX_SPECIAL_NCTAID_Y: case PTX_SPECIAL_NCTAID_Z: return (uint64_t)l->grid[special - PTX_SPECIAL_NCTAID_X];
    case PTX_SPECIAL_LANEID: return (uint64_t)lane;
    case PTX_SPECIAL_WARPID: return (uint64_t)w->index;
    case PTX_SPECIAL_NWARPID: return (uint64_t)c->warp_count;
    case PTX_SPECIAL_SMID: return (uint64_t)c->slot;
    case PTX_SPECIAL_NSMID: return (uint64_t)c->machine->sms;
    case PTX_SPECIAL_LANEMASK_EQ: return 1u << lane;
    case PTX_SPECIAL_LANEMASK_LT: return (1u << lane) - 1;
    case PTX_SPECIAL_LANEMASK_LE: return (2u << lane) - 1;
    case PTX_SPECIAL_LANEMASK_GT: return (uint32_t)~((2u << lane) - 1);
    case PTX_SPECIAL_LANEMASK_GE: return (uint32_t)~((1u << lane) - 1);
    case PTX_SPECIAL_WARP_SZ: return EMU_LANES;
    case PTX_SPECIAL_DYNAMIC_SMEM_SIZE: return (uint64_t)l->shared_bytes;
    case PTX_SPECIAL_TOTAL_SMEM_SIZE: return c->shared_end - EMU_SHARED_BASE;
    default: return cluster_value(c, special);
    }
}

static void fill_specials(emu_cta *c, emu_warp *w) {
    const emu_code *code = c->code;
    for (uint32_t i = 0; i < code->special_count; i++) {
        if (!code->special_used[code->specials[i]]) continue;
        for (int lane = 0; lane < EMU_LANES; lane++)
            emu_put(w, code->special_first + 2 * i, true, lane, special_value(c, w, code->specials[i], lane));
    }
}

void emu_cta_start(emu_cta *c, int64_t index, emu_report *report) {
    const emu_launch *l = c->machine->launch;
    int64_t threads = (int64_t)l->block[0] * l->block[1] * l->block[2];
    c->index = index;
    c->id[0] = (int32_t)(index % l->grid[0]);
    c->id[1] = (int32_t)(index / l->grid[0] % l->grid[1]);
    c->id[2] = (int32_t)(index / l->grid[0] / l->grid[1]);
    c->report = report;
    memset(c->written, 0, c->shared_end / 8 + 16);
    memset(c->barriers, 0, c->shared_end / 64 + 16);
    if (c->tmem_written) memset(c->tmem_written, 0, EMU_TMEM_COLUMNS * sizeof *c->tmem_written);
    memset(c->named, 0, sizeof c->named);
    memset(c->tmem_size, 0, sizeof c->tmem_size);
    c->pair = (emu_pair){0};
    c->tmem_allocated = 0;
    c->tmem_relinquished = c->stopped = c->done = c->hold = false;
    emu_scatter_drop(c);
    c->pipe_count = 0;
    c->register_pool = 0;
    c->changes = 1;
    c->time = c->idle_time = 0;
    c->turn = 0;
    c->mmas = c->bytes_loaded = c->bytes_stored = c->mma_flops = c->mma_ns = 0;
    c->random = l->seed * 0x9e3779b97f4a7c15ull + (uint64_t)index * 0xd1342543de82ef95ull + 1;
    const int32_t groups = (c->warp_count + 3) / 4, units = 3;
    c->starved = (int32_t)(l->seed % (uint64_t)(groups + units + c->warp_count));
    if (c->starved >= groups + units) c->starved -= units;
    else if (c->starved >= groups) c->starved = -1 - (c->starved - groups);
    for (int32_t i = 0; i < c->warp_count; i++) {
        emu_warp *w = &c->warps[i];
        int64_t lanes = threads - (int64_t)i * EMU_LANES;
        w->index = i;
        memset(w->predicates, 0, c->code->predicate_count * sizeof(uint32_t));
        w->predicates[1] = ~0u;
        if (w->defined) memset(w->defined, 0, c->code->plane_count * sizeof(uint32_t));
        w->instructions = w->lane_instructions = 0;
        memset(w->per_class, 0, sizeof w->per_class);
        memset(w->bulk_group, 0, sizeof w->bulk_group);
        memset(w->async_group, 0, sizeof w->async_group);
        w->load_count = w->store_count = w->wgmma_count = 0;
        w->cluster_arrived = w->cluster_passed = 0;
        w->wgmma_group = 0;
        w->registers = (uint32_t)c->machine->entry_registers;
        w->local = c->local ? c->local + (size_t)i * EMU_LANES * c->code->function->local_bytes : NULL;
        emu_warp_start(w, lanes >= EMU_LANES ? ~0u : (1u << lanes) - 1);
        fill_specials(c, w);
    }
}

void emu_cta_finish(emu_cta *c) {
    emu_report *r = c->report;
    char text[160];
    if (!c->stopped && emu_tensor_leak(c, text, sizeof text)) emu_report_finding(c, NULL, -1, EMU_LEAK, EMU_ERROR, NULL, "%s", text);
    for (int32_t i = 0; i < c->warp_count; i++) {
        const emu_warp *w = &c->warps[i];
        r->instructions += w->instructions;
        r->lanes += w->lane_instructions;
        r->per_warp[i] += w->instructions;
        for (int k = 0; k < EMU_CLASSES; k++) r->per_class[k] += w->per_class[k];
    }
    r->mmas += c->mmas;
    r->bytes_loaded += c->bytes_loaded;
    r->bytes_stored += c->bytes_stored;
    r->mma_flops += c->mma_flops;
    r->mma_ns += c->mma_ns;
    r->ctas++;
}
