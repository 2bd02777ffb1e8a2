/*
 * CTAs of a cluster: how they start, take turns and end together; barrier.cluster; accesses to another CTA's shared memory; copies that land
 * in other CTAs; and cluster launch control (ISA 9.7.13.4, 9.7.9.22 to 25, 9.7.13.16). One host thread runs a whole cluster, so nothing here
 * is locked. A program that reaches no other CTA takes the plain path of schedule.c, alone.
 */
#include "cluster_internal.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- life ---- */

/* The addresses among a program's constants get the CTA's rank: each CTA but the first has its own copy. */
static bool give_rank(emu_cta *c, uint32_t rank) {
    const emu_code *code = c->code;
    c->rank = rank;
    c->window = rank << EMU_RANK_SHIFT;
    if (rank == 0) return true;
    size_t bytes = code->constant_count * sizeof(emu_plane);
    emu_plane *constants = aligned_alloc(64, bytes ? bytes : 64);
    if (constants == NULL) return false;
    memcpy(constants, code->constants, bytes);
    for (uint32_t i = 0; i < code->window_count; i++)
        for (int lane = 0; lane < EMU_LANES; lane++) constants[code->windows[i]].lane[lane] |= c->window;
    for (int32_t i = 0; i < c->warp_count; i++) c->warps[i].bank[1] = constants;
    return true;
}

emu_cluster *emu_cluster_create(emu_machine *m) {
    emu_cluster *k = calloc(1, sizeof *k);
    if (k == NULL) return NULL;
    k->machine = m;
    k->joined = m->code->cluster;
    k->size = k->joined ? m->cluster_size : 1;
    for (int32_t i = 0; i < k->size; i++) {
        k->ctas[i] = emu_cta_create(m);
        if (k->ctas[i] != NULL && k->joined) k->ctas[i]->cluster = k;
        if (k->ctas[i] != NULL && give_rank(k->ctas[i], (uint32_t)i)) continue;
        emu_cluster_destroy(k);
        return NULL;
    }
    return k;
}

void emu_cluster_destroy(emu_cluster *k) {
    if (k == NULL) return;
    for (int32_t i = 0; i < k->size; i++) {
        emu_cta *c = k->ctas[i];
        if (c != NULL && c->warps != NULL && c->warps[0].bank[1] != c->code->constants) free(c->warps[0].bank[1]);
        emu_cta_destroy(c);
    }
    free(k);
}

/* The linear index in the grid of a CTA of the cluster `which`; clusters are counted as CTAs are, x first. */
static int64_t index_of(const emu_machine *m, int64_t which, int32_t rank) {
    int64_t index = 0, scale = 1;
    for (int i = 0; i < 3; i++) {
        int64_t clusters = m->launch->grid[i] / m->cluster[i];
        index += scale * (which % clusters * m->cluster[i] + rank % m->cluster[i]);
        scale *= m->launch->grid[i];
        which /= clusters;
        rank /= m->cluster[i];
    }
    return index;
}

void emu_cluster_start(emu_cluster *k, int64_t which, int32_t slot, emu_report *report) {
    const emu_launch *l = k->machine->launch;
    k->done = false;
    k->phases = 0;
    k->turn = 0;
    k->random = l->seed + (uint64_t)which * 0xd1342543de82ef95ull;
    k->starved = l->schedule == EMU_STARVE && k->size > 1 ? (int32_t)(l->seed / 3 % (uint64_t)(k->size + 1)) - 1 : -1;
    for (int32_t i = 0; i < k->size; i++) {
        k->ctas[i]->slot = slot * k->size + i;
        emu_cta_start(k->ctas[i], k->joined ? index_of(k->machine, which, i) : which, report);
    }
}

emu_cta *emu_cluster_find(emu_cluster *k, int64_t index, emu_report *report) {
    const int32_t *grid = k->machine->launch->grid, *size = k->machine->cluster;
    int64_t at[3] = {index % grid[0], index / grid[0] % grid[1], index / grid[0] / grid[1]}, which = 0;
    int32_t rank = 0;
    if (!k->joined) {
        emu_cluster_start(k, index, 0, report);
        return k->ctas[0];
    }
    for (int i = 2; i >= 0; i--) {
        which = which * (grid[i] / size[i]) + at[i] / size[i];
        rank = rank * size[i] + (int32_t)(at[i] % size[i]);
    }
    emu_cluster_start(k, which, 0, report);
    return k->ctas[rank];
}

void emu_cluster_finish(emu_cluster *k) {
    bool stopped = false;
    for (int32_t i = 0; i < k->size; i++) stopped |= k->ctas[i]->stopped;
    for (int32_t i = 0; i < k->size; i++) {
        k->ctas[i]->stopped = stopped; /* what a stopped cluster leaves behind is no finding */
        emu_cta_finish(k->ctas[i]);
    }
}

emu_cta *emu_cluster_cta(const emu_cluster *k, int32_t rank) {
    return k != NULL && rank >= 0 && rank < k->size ? k->ctas[rank] : NULL;
}

/* ---- turns ---- */

/* One turn of one of the CTAs; with `hold`, of those that are not held back. */
static emu_progress run_one(emu_cluster *k, bool hold, const emu_cta *but) {
    emu_progress most = EMU_IDLE;
    int32_t first = k->turn;
    if (k->machine->launch->schedule != EMU_ROUND_ROBIN) first = (int32_t)(emu_random_next(&k->random) % (uint64_t)k->size);
    for (int32_t i = 0; i < k->size; i++) {
        int32_t at = (first + i) % k->size;
        if (k->ctas[at] == but || (hold && at == k->starved)) continue;
        k->ctas[at]->hold = hold;
        emu_progress progress = emu_cta_run(k->ctas[at]);
        k->turn = (at + 1) % k->size;
        if (progress == EMU_RAN || progress == EMU_ENDED) return progress;
        if (progress > most) most = progress;
    }
    return most;
}

/* Nothing can run: the unit that is done first lands its work, whatever CTA it belongs to. */
static bool advance(emu_cluster *k) {
    emu_cta *best = NULL;
    uint64_t wait = UINT64_MAX;
    for (int32_t i = 0; i < k->size; i++) {
        emu_cta *c = k->ctas[(k->turn + i) % k->size];
        uint64_t next = emu_cta_next(c), left = next > c->time ? next - c->time : 0;
        if (next == UINT64_MAX || left >= wait) continue;
        wait = left;
        best = c;
    }
    return best != NULL && emu_cta_advance(best);
}

static bool stopped(const emu_cluster *k) {
    for (int32_t i = 0; i < k->size; i++)
        if (k->ctas[i]->stopped) return true;
    return false;
}

static bool settle(emu_cluster *k) {
    bool any = false;
    for (int32_t i = 0; i < k->size; i++) any |= emu_cta_settle(k->ctas[i]);
    for (int32_t i = 0; any && i < k->size; i++) k->ctas[i]->changes++;
    return any;
}

void emu_cluster_deadlock(emu_cluster *k) {
    for (int32_t i = 0; i < k->size; i++) emu_deadlock(k->ctas[i]);
}

bool emu_cluster_turn(emu_cluster *k) {
    bool alive = false, starve = k->machine->launch->schedule == EMU_STARVE;
    if (!k->joined) return emu_cta_turn(k->ctas[0]);
    for (int pass = starve ? 0 : 1; pass < 2; pass++)
        if (run_one(k, pass == 0, NULL) != EMU_IDLE) return !stopped(k);
    if (advance(k)) return !stopped(k);
    for (int32_t i = 0; i < k->size; i++) alive |= emu_cta_alive(k->ctas[i]);
    if (!alive) return false;
    if (settle(k)) return true;
    emu_cluster_deadlock(k);
    return false;
}

bool emu_cluster_help(emu_cluster *k, const emu_cta *but) {
    return k->joined && k->size > 1 && run_one(k, false, but) == EMU_RAN;
}

bool emu_cluster_land(emu_cluster *k, const emu_cta *but) {
    for (int32_t i = 0; i < k->size; i++)
        if (k->ctas[i] != but && emu_cta_land(k->ctas[i])) return true;
    return false;
}

/* ---- barrier.cluster ---- */

void emu_cluster_recheck(emu_cluster *k) {
    bool any = false;
    for (int32_t i = 0; i < k->size; i++)
        for (int32_t j = 0; j < k->ctas[i]->warp_count; j++) {
            const emu_warp *w = &k->ctas[i]->warps[j];
            if (w->alive & ~w->cluster_arrived) return;
            any |= w->cluster_arrived != 0;
        }
    if (!any) return;
    k->phases++;
    for (int32_t i = 0; i < k->size; i++) {
        k->ctas[i]->changes++;
        for (int32_t j = 0; j < k->ctas[i]->warp_count; j++) {
            emu_warp *w = &k->ctas[i]->warps[j];
            w->cluster_passed |= w->cluster_arrived;
            w->cluster_arrived = 0;
        }
    }
    EMU_EVENT(k->ctas[0], NULL, EMU_EVENT_PHASE, EMU_MEMORY_NAMED_BARRIER, EMU_UNIT_WARP, 0, EMU_NAMED_BARRIERS, 0, (int64_t)k->phases);
}

int32_t emu_cluster_missing(const emu_cluster *k, char *ranks, size_t bytes) {
    int32_t missing = 0;
    size_t length = 0;
    ranks[0] = 0;
    for (int32_t i = 0; i < k->size; i++) {
        int32_t here = 0;
        for (int32_t j = 0; j < k->ctas[i]->warp_count; j++)
            here += __builtin_popcount(k->ctas[i]->warps[j].alive & ~k->ctas[i]->warps[j].cluster_arrived);
        if (here > 0 && length < bytes) length += (size_t)snprintf(ranks + length, bytes - length, "%s%d", missing ? ", " : "", i);
        missing += here;
    }
    return missing;
}

/* extra: aligned. */
emu_step emu_do_cluster_arrive(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_step step = op->extra ? emu_need_all(w, op, mask) : EMU_NEXT;
    if (step != EMU_NEXT) return step;
    uint32_t again = mask & (w->cluster_arrived | w->cluster_passed);
    if (again) return emu_fault(w, emu_first(again), EMU_BARRIER_MISUSE, op, "the cluster's barrier: a thread arrives again before its wait");
    w->cluster_arrived |= mask;
    EMU_EVENT(w->cta, w, EMU_EVENT_ARRIVE, EMU_MEMORY_NAMED_BARRIER, EMU_UNIT_WARP, mask, EMU_NAMED_BARRIERS, 0, 0);
    emu_cluster_recheck(w->cta->cluster);
    return EMU_NEXT;
}

emu_step emu_do_cluster_wait(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_step step = op->extra ? emu_need_all(w, op, mask) : EMU_NEXT;
    if (step != EMU_NEXT) return step;
    uint32_t never = mask & ~(w->cluster_arrived | w->cluster_passed);
    if (never) return emu_fault(w, emu_first(never), EMU_BARRIER_MISUSE, op, "the cluster's barrier: a thread waits without having arrived");
    if (mask & ~w->cluster_passed) return EMU_RETRY;
    w->cluster_passed &= ~mask;
    EMU_EVENT(w->cta, w, EMU_EVENT_WAIT, EMU_MEMORY_NAMED_BARRIER, EMU_UNIT_WARP, mask, EMU_NAMED_BARRIERS, 0, 0);
    return EMU_NEXT;
}

/* ---- addresses ---- */

static bool bad_rank(emu_warp *w, const emu_op *op, int lane, uint64_t rank) {
    emu_fault(w, lane, EMU_OUT_OF_BOUNDS, op, "CTA rank %" PRIu64 " of a cluster of %d", rank, w->home->cluster->size);
    return false;
}

bool emu_cluster_address(emu_warp *w, const emu_op *op, uint64_t address, uint32_t bytes, uint32_t align, int lane, emu_cta **cta, uint32_t *out) {
    emu_cta *home = w->cta;
    *cta = home;
    if (home->cluster != NULL) {
        uint64_t rank = (address & ~EMU_WINDOW_MASK) >> EMU_RANK_SHIFT;
        *cta = rank < EMU_CLUSTER_MAX ? emu_cluster_cta(home->cluster, (int32_t)rank) : NULL;
        if (*cta == NULL) return bad_rank(w, op, lane, rank);
    }
    w->cta = *cta; /* bounds and names are those of that CTA */
    bool good = emu_shared_address(w, op, address, bytes, align, lane, out);
    w->cta = home;
    return good;
}

/* Loads, stores, atomics and arrivals: the instruction's own handler, at work in the memory of the CTA that each lane's address names. */
emu_step emu_do_visit(emu_warp *w, const emu_op *op, uint32_t mask) {
    emu_cta *home = w->cta;
    emu_step step = EMU_NEXT;
    uint32_t rest = mask;
    while (rest != 0 && step == EMU_NEXT) {
        uint32_t same = 0, rank = home->rank;
        bool chosen = false;
        EMU_EACH_LANE(lane, rest) {
            uint64_t address = emu_address(w, op, op->a, (int)lane), window = address & EMU_WINDOW_MASK;
            bool shared = op->space != PTX_SPACE_GENERIC || window == EMU_WINDOW_SHARED;
            uint32_t here = shared ? (uint32_t)(address >> EMU_RANK_SHIFT & 0xff) : home->rank;
            if (!chosen) rank = here, chosen = true;
            if (here == rank) same |= 1u << lane;
        }
        emu_cta *to = emu_cluster_cta(home->cluster, (int32_t)rank);
        if (to == NULL) return bad_rank(w, op, emu_first(same), rank), EMU_STOP;
        if (to != home && !emu_cta_alive(to))
            return emu_fault(w, emu_first(same), EMU_OUT_OF_BOUNDS, op, "the CTA of rank %u has ended: its shared memory may not be reached", rank);
        w->cta = to;
        step = op->more->base(w, op, same);
        w->cta = home;
        rest &= ~same;
    }
    return step;
}

/* mapa and getctarank. */
emu_step emu_do_cluster_rank(emu_warp *w, const emu_op *op, uint32_t mask) {
    bool map = op->source->form->opcode == PTX_OP_MAPA;
    EMU_EACH_LANE(lane, mask) {
        uint64_t a = emu_get(w, op->a, op->wide & 2, (int)lane), rank = map ? emu_lanes(w, op->b)[lane] : (a & ~EMU_WINDOW_MASK) >> EMU_RANK_SHIFT;
        if (rank >= (uint64_t)w->cta->cluster->size) return bad_rank(w, op, (int)lane, rank), EMU_STOP;
        if (map) a = (a & EMU_WINDOW_MASK) | (a & (EMU_WINDOW_BYTES - 1)) | rank << EMU_RANK_SHIFT;
        emu_put(w, op->d, op->wide & 1, (int)lane, map ? a : rank);
    }
    return EMU_NEXT;
}

/* ---- copies that land in other CTAs ---- */

bool emu_cluster_lives(const emu_async *a, const emu_cta *cta) {
    if (cta == a->from || emu_cta_alive(cta)) return true;
    emu_report_finding(a->from, &a->from->warps[a->warp], a->lane, EMU_COPY_MISUSE, EMU_ERROR, a->op->source,
                       "this completes in the CTA of rank %u, which has ended", cta->rank);
    return false;
}

/* Of a multicast with .cta_group::2, the signal goes to the CTA of each target's pair that has the named barrier's parity. */
bool emu_cluster_copy(emu_warp *w, const emu_op *op, int lane, const emu_async *copy) {
    const ptx_form *f = op->source->form;
    emu_cluster *k = w->cta->cluster;
    uint32_t targets = f->multicast && k ? emu_lanes(w, op->e)[lane] & 0xffff : 0;
    bool pair = f->cta_group == 2;
    if (!f->multicast && copy->signal != copy->to && !(pair && copy->signal == emu_pair_peer(copy->to)))
        return emu_fault(w, lane, EMU_COPY_MISUSE, op, "the copy lands in the CTA of rank %u and signals that of rank %u", copy->to->rank, copy->signal->rank), false;
    if (f->multicast && (targets == 0 || (k && targets >> k->size != 0)))
        return emu_fault(w, lane, EMU_COPY_MISUSE, op, "multicast mask 0x%x of a cluster of %d", targets, k ? k->size : 1), false;
    for (int32_t rank = 0; rank < (targets ? EMU_CLUSTER_MAX : 1); rank++) {
        if (targets && !(targets >> rank & 1)) continue;
        emu_async *q = emu_copy_enqueue(w, op, lane);
        if (q == NULL) return false;
        emu_async with = *copy;
        with.from = q->from, with.warp = q->warp, with.lane = q->lane, with.op = q->op, with.due = q->due;
        if (targets) with.to = k->ctas[rank], with.signal = pair ? emu_cluster_cta(k, (int32_t)(((uint32_t)rank & ~1u) | (copy->signal->rank & 1))) : with.to;
        if (with.signal == NULL) return emu_fault(w, lane, EMU_COPY_MISUSE, op, ".cta_group::2 in a cluster of %d", k->size), false;
        *q = with;
    }
    return true;
}

static void write_payload(const emu_async *a) {
    uint8_t *at = emu_shared_at(a->to, a->shared);
    const ptx_form *f = a->op->source->form;
    if (f->opcode == PTX_OP_RED_ASYNC) emu_reduce_global(at, a->payload, a->bytes, f->operation, f->types[0]);
    else memcpy(at, a->payload, a->bytes);
}

void emu_cluster_deliver(const emu_async *a) {
    if (a->kind == EMU_ASYNC_WRITE) write_payload(a);
    else memcpy(emu_shared_at(a->to, a->shared), emu_shared_at(a->from, (uint32_t)a->global), a->bytes);
    emu_shared_mark(a->to, a->shared, (uint32_t)a->bytes);
    EMU_EVENT(a->to, NULL, EMU_EVENT_WRITE, EMU_MEMORY_SHARED, EMU_UNIT_TMA, 0, a->shared, a->bytes, 0);
    emu_mbarrier_complete(a->signal, a->op->source, a->barrier, (uint32_t)a->bytes);
}

static uint64_t place_address(emu_warp *w, const emu_place *p, int lane) {
    return (p->slot == EMU_NO_SLOT ? 0 : emu_get(w, p->slot, p->wide, lane)) + (uint64_t)p->offset;
}

/* st.async and red.async: [address], values, [mbarrier], both in one CTA. */
emu_step emu_do_store_async(emu_warp *w, const emu_op *op, uint32_t mask) {
    const emu_more *more = op->more;
    uint32_t size = op->bits / 8u;
    EMU_EACH_LANE(lane, mask) {
        emu_async a = {.kind = EMU_ASYNC_WRITE, .bytes = size * op->count};
        if (!emu_cluster_address(w, op, place_address(w, &more->places[0], (int)lane), (uint32_t)a.bytes, (uint32_t)a.bytes, (int)lane, &a.to, &a.shared) ||
            !emu_cluster_address(w, op, place_address(w, &more->places[1], (int)lane), 8, 8, (int)lane, &a.signal, &a.barrier))
            return EMU_STOP;
        for (uint32_t i = 0; i < op->count; i++) {
            uint64_t v = emu_get(w, op->list[i], op->wide & 1, (int)lane);
            memcpy(a.payload + i * size, &v, size);
        }
        if (!emu_cluster_copy(w, op, (int)lane, &a)) return EMU_STOP;
    }
    return EMU_NEXT;
}

/* cp.async.bulk.shared::cluster.shared::cta [to], [from], bytes, [mbarrier]. */
emu_step emu_do_bulk_shared(emu_warp *w, const emu_op *op, uint32_t mask) {
    const emu_more *more = op->more;
    char name[96];
    EMU_EACH_LANE(lane, mask) {
        uint32_t from, bytes = emu_lanes(w, op->b)[lane];
        emu_async a = {.kind = EMU_ASYNC_BULK_SHARED, .bytes = bytes};
        if (bytes % 16 != 0) return emu_fault(w, (int)lane, EMU_MISALIGNED, op, "a bulk copy of %u bytes: expected a multiple of 16", bytes);
        if (!emu_cluster_address(w, op, place_address(w, &more->places[0], (int)lane), bytes, 16, (int)lane, &a.to, &a.shared) ||
            !emu_shared_address(w, op, place_address(w, &more->places[1], (int)lane), bytes, 16, (int)lane, &from) ||
            !emu_cluster_address(w, op, place_address(w, &more->places[2], (int)lane), 8, 8, (int)lane, &a.signal, &a.barrier))
            return EMU_STOP;
        if (w->cta->machine->checked && !emu_shared_ready(w->cta, from, bytes))
            emu_fault(w, (int)lane, EMU_UNINITIALISED, op, "a bulk copy reads shared memory that nothing has written: %s, %u bytes", emu_shared_name(w->cta, from, name, sizeof name), bytes);
        a.global = from;
        if (!emu_cluster_copy(w, op, (int)lane, &a)) return EMU_STOP;
    }
    return EMU_NEXT;
}

/* ---- cluster launch control ---- */

/* The answer's 16 bytes: x, y, z of the first CTA, and whether there was a cluster to cancel. Its format is the device's own affair. */
static void cancel_next(emu_machine *m, uint32_t answer[4]) {
    memset(answer, 0, 16);
    if (m->next >= m->count) return;
    int64_t index = index_of(m, m->first + m->next++, 0);
    answer[0] = (uint32_t)(index % m->launch->grid[0]);
    answer[1] = (uint32_t)(index / m->launch->grid[0] % m->launch->grid[1]);
    answer[2] = (uint32_t)(index / m->launch->grid[0] / m->launch->grid[1]);
    answer[3] = 1;
}

/* try_cancel [answer], [mbarrier]: in this CTA, or with .multicast::cluster::all at the same place in every one. */
emu_step emu_do_cancel(emu_warp *w, const emu_op *op, uint32_t mask) {
    const emu_more *more = op->more;
    EMU_EACH_LANE(lane, mask) {
        emu_async a = {.kind = EMU_ASYNC_WRITE, .bytes = 16};
        emu_cluster *k = w->cta->cluster;
        uint32_t answer[4];
        if (!emu_shared_address(w, op, place_address(w, &more->places[0], (int)lane), 16, 16, (int)lane, &a.shared) ||
            !emu_shared_address(w, op, place_address(w, &more->places[1], (int)lane), 8, 8, (int)lane, &a.barrier))
            return EMU_STOP;
        cancel_next(w->cta->machine, answer);
        memcpy(a.payload, answer, sizeof answer);
        for (int32_t rank = 0; rank < k->size; rank++) {
            if (!op->source->form->multicast && k->ctas[rank] != w->cta) continue;
            emu_async *q = emu_copy_enqueue(w, op, (int)lane);
            if (q == NULL) return EMU_STOP;
            emu_async with = a;
            with.from = q->from, with.warp = q->warp, with.lane = q->lane, with.op = q->op, with.due = q->due;
            with.to = with.signal = k->ctas[rank];
            *q = with;
        }
    }
    return EMU_NEXT;
}

emu_step emu_do_is_canceled(emu_warp *w, const emu_op *op, uint32_t mask) {
    uint32_t yes = 0;
    EMU_EACH_LANE(lane, mask) yes |= (uint32_t)(emu_lanes(w, op->a)[3 * EMU_LANES + lane] != 0) << lane;
    emu_set_pred(w, op->p, yes, mask);
    return EMU_NEXT;
}

/* extra: the axis, 1 to 3; 4: x, y, z and a word that means nothing. */
emu_step emu_do_canceled_ctaid(emu_warp *w, const emu_op *op, uint32_t mask) {
    EMU_EACH_LANE(lane, mask) {
        uint32_t answer[4];
        for (int i = 0; i < 4; i++) answer[i] = emu_lanes(w, op->a)[i * EMU_LANES + (int)lane];
        if (answer[3] == 0) return emu_fault(w, (int)lane, EMU_OTHER, op, "the CTA of a request that cancelled nothing");
        for (uint32_t i = 0; i < op->count; i++) emu_lanes(w, op->list[i])[lane] = op->extra == 4 ? answer[i] : answer[op->extra - 1];
    }
    return EMU_NEXT;
}
