/* What a kernel variant is made of, as tables: the same lists that the kernel is compiled from, expanded for readers. */
#include "kernel/launch.h"

static void add_barrier(kernel_tables *t, kernel_barrier row) {
    if (t->barrier_count < KERNEL_TABLE_MAX) t->barriers[t->barrier_count++] = row;
}

static void add_sm100_barriers(const FwdVariant *variant, kernel_tables *t) {
    int32_t at = FWD_SM100_BARRIER_OFFSET(*variant);
#define PIPE(name, copies, arriving, fills, waiting, frees)                                        \
    add_barrier(t, (kernel_barrier){#name ".full", copies, at, 0, arriving, fills, waiting});      \
    at += 8 * (copies);                                                                            \
    add_barrier(t, (kernel_barrier){#name ".empty", copies, at, 0, waiting, frees, arriving});     \
    at += 8 * (copies);
#define EVENT(name, copies, arriving, number, waiting)                                             \
    add_barrier(t, (kernel_barrier){#name, copies, at, 0, arriving, number, waiting});             \
    at += 8 * (copies);
#define NAMED(name, first, ids, threads, arriving, waiting)                                        \
    add_barrier(t, (kernel_barrier){#name, ids, first, 1, arriving, threads, waiting});
    FWD_SM100_BARRIERS(*variant, PIPE, EVENT)
    FWD_SM100_NAMED(*variant, NAMED)
#undef PIPE
#undef EVENT
#undef NAMED
}

static void add_sm90_tables(const FwdVariant *variant, kernel_tables *t) {
    int32_t at = FWD_SM90_BARRIER_OFFSET(*variant);
#define PIPE(name, copies, arriving, fills, waiting, frees)                                        \
    add_barrier(t, (kernel_barrier){#name ".full", copies, at, 0, arriving, fills, waiting});      \
    at += 8 * (copies);                                                                            \
    add_barrier(t, (kernel_barrier){#name ".empty", copies, at, 0, waiting, frees, arriving});     \
    at += 8 * (copies);
#define EVENT(name, copies, arriving, number, waiting)
#define NAMED(name, first, ids, threads, arriving, waiting)                                        \
    add_barrier(t, (kernel_barrier){#name, ids, first, 1, arriving, threads, waiting});
    FWD_SM90_BARRIERS(*variant, PIPE, EVENT)
    FWD_SM90_NAMED(*variant, NAMED)
#undef PIPE
#undef EVENT
#undef NAMED
    at = 0;
#define SMEM(name, bytes)                                                                          \
    t->smem[t->smem_count++] = (kernel_region){#name, at, bytes};                                  \
    at += bytes;
    FWD_SM90_SMEM(*variant, SMEM)
#undef SMEM
}

static void add_sm100_memories(const FwdVariant *variant, kernel_tables *t) {
    int32_t at = 0;
#define SMEM(name, bytes)                                                                          \
    t->smem[t->smem_count++] = (kernel_region){#name, at, bytes};                                  \
    at += bytes;
#define TMEM(name, first, columns) t->tmem[t->tmem_count++] = (kernel_region){#name, first, columns};
    FWD_SM100_SMEM(*variant, SMEM)
    FWD_SM100_TMEM(*variant, TMEM)
#undef SMEM
#undef TMEM
}

void kernel_tables_of_variant(const FwdVariant *variant, kernel_tables *tables) {
    *tables = (kernel_tables){0};
    if (variant->arch == 90) {
        add_sm90_tables(variant, tables);
        return;
    }
    add_sm100_barriers(variant, tables);
    add_sm100_memories(variant, tables);
}

int32_t kernel_variant_smem_bytes(const FwdVariant *variant) {
    return variant->arch == 100 ? FWD_SM100_SMEM_BYTES(*variant) : FWD_SM90_SMEM_BYTES(*variant);
}

int32_t kernel_variant_warp_role(const FwdVariant *variant, int32_t warp) {
    static const int32_t issuers[4] = {FWD_ROLE_MMA, FWD_ROLE_LOAD, FWD_ROLE_STORE, FWD_ROLE_SCHEDULE};
    if (variant->arch == 90) {
        if (warp < 2) return warp == 0 ? FWD_ROLE_LOAD : warp == 1 ? FWD_ROLE_STORE : 0;
        return warp >= 4 && warp < FWD_SM90_THREADS(*variant) / 32 ? FWD_ROLE_SOFTMAX : 0;
    }
    if (warp < 0 || warp > 15) return 0;
    if (warp < 8) return FWD_ROLE_SOFTMAX;
    return warp < 12 ? FWD_ROLE_CORRECTION : issuers[warp - 12];
}

const char *kernel_role_name(int32_t role) {
    switch (role) {
#define ROLE(name, bit, text)                                                                      \
    case bit: return text;
        FWD_ROLES(ROLE)
#undef ROLE
    }
    return "several roles";
}
