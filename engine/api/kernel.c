/* The GPU kernel's tables behind fa4.h: barriers, shared and tensor memory, roles of warps, from the lists that the kernel is compiled
 * from. */
#include "core/error.h"
#include "kernel/launch.h"

enum { WARPS_SM100 = 16 };

typedef struct row_sink {
    fa4_kernel_row *rows;
    int32_t room, count;
} row_sink;

static void put(row_sink *sink, fa4_kernel_row row) {
    if (sink->count < sink->room) sink->rows[sink->count] = row;
    sink->count++;
}

static void put_regions(row_sink *sink, int32_t kind, const kernel_region *regions, int32_t count) {
    for (int32_t i = 0; i < count; i++)
        put(sink, (fa4_kernel_row){.name = regions[i].name, .kind = kind, .copies = 1, .first = regions[i].first, .size = regions[i].size});
}

fa4_status fa4_plan_kernel_rows(const fa4_plan *plan, fa4_kernel_row *rows, int32_t room, int32_t *count, fa4_error *err) {
    if (plan == NULL || count == NULL || room < 0 || (room > 0 && rows == NULL))
        return error_set(err, FA4_BAD_ARGUMENT, "kernel_rows: expected a plan, rows and a count");
    // The variant follows from the header alone; a plan of another device is read as one of this kernel.
    fa4_plan like = {.header = plan->header};
    like.header.backend = FA4_BACKEND_EMU_SM100;
    FwdVariant variant;
    kernel_variant_of_plan(&like, 0, &variant);
    kernel_tables tables;
    kernel_tables_of_variant(&variant, &tables);
    row_sink sink = {rows, room, 0};
    for (int32_t i = 0; i < tables.barrier_count; i++) {
        const kernel_barrier *b = &tables.barriers[i];
        put(&sink, (fa4_kernel_row){.name = b->name, .kind = b->named ? FA4_ROW_NAMED : FA4_ROW_BARRIER, .copies = b->copies,
                                    .first = b->first, .size = b->count, .arrives = b->arrives, .waits = b->waits});
    }
    put_regions(&sink, FA4_ROW_SHARED, tables.smem, tables.smem_count);
    put_regions(&sink, FA4_ROW_TENSOR, tables.tmem, tables.tmem_count);
    for (int32_t warp = 0; warp < WARPS_SM100; warp++) {
        int32_t role = kernel_variant_warp_role(&variant, warp);
        if (role != 0)
            put(&sink, (fa4_kernel_row){.name = kernel_role_name(role), .kind = FA4_ROW_WARP, .copies = 1, .first = warp, .arrives = role});
    }
    *count = sink.count;
    return FA4_OK;
}
