/* Kernels for readers: the tables of a variant as text, and the arguments of a launch for the emulator's bare machine. */
#include "api/kernel_tables.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 16384 };

typedef struct writer {
    char *text;
    size_t used;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(w->text + w->used, TEXT_BYTES - w->used, format, arguments);
    va_end(arguments);
    w->used += n > 0 ? (size_t)n : 0;
    if (w->used >= TEXT_BYTES) w->used = TEXT_BYTES - 1;
}

/* "softmax, correction" of role bits; "all but schedule" where one is missing. */
static const char *roles_text(int32_t roles, char text[96]) {
    size_t used = 0;
    text[0] = '\0';
    if (roles == FWD_ROLE_ALL) return "all";
    int32_t missing = FWD_ROLE_ALL & ~roles;
    if ((missing & (missing - 1)) == 0) {
        snprintf(text, 96, "all but %s", kernel_role_name(missing));
        return text;
    }
    for (int32_t bit = 1; bit < FWD_ROLE_ALL; bit *= 2)
        if (roles & bit) used += (size_t)snprintf(text + used, 96 - used, "%s%s", used ? ", " : "", kernel_role_name(bit));
    return text;
}

static int32_t registers_of(const FwdVariant *v, int32_t role) {
    return role == FWD_ROLE_SOFTMAX ? v->registers_softmax : role == FWD_ROLE_CORRECTION ? v->registers_correction : v->registers_other;
}

static void put_roles(writer *w, const FwdVariant *v) {
    put(w, "warps    role         registers\n");
    for (int32_t first = 0, last; first < 32 && kernel_variant_warp_role(v, first) != 0; first = last) {
        int32_t role = kernel_variant_warp_role(v, first);
        for (last = first + 1; last < 32 && kernel_variant_warp_role(v, last) == role && last % 4 != 0;) last++;
        char warps[32];
        if (last == first + 1) snprintf(warps, sizeof warps, "%d", first);
        else snprintf(warps, sizeof warps, "%d..%d", first, last - 1);
        put(w, "%-8s %-12s %d\n", warps, kernel_role_name(role), registers_of(v, role));
    }
}

static void put_regions(writer *w, const char *title, const kernel_region *regions, int32_t count) {
    if (count == 0) return;
    put(w, "\n%-16s first    size\n", title);
    for (int32_t i = 0; i < count; i++) put(w, "%-16s %-8d %d\n", regions[i].name, regions[i].first, regions[i].size);
}

static void put_barriers(writer *w, const kernel_tables *t) {
    char arrives[96], waits[96];
    put(w, "\n%-16s copies at      count   from                 waits\n", "barrier");
    for (int32_t i = 0; i < t->barrier_count; i++) {
        const kernel_barrier *b = &t->barriers[i];
        char at[24];
        snprintf(at, sizeof at, b->named ? "id %d" : "%d", b->first);
        put(w, "%-16s %-6d %-7s %-7d %-20s %s\n", b->name, b->copies, at, b->count, roles_text(b->arrives, arrives), roles_text(b->waits, waits));
    }
}

fa4_status api_kernel_tables(const FwdVariant *variant, char **text, size_t *length, fa4_error *err) {
    kernel_tables *t = malloc(sizeof *t);
    writer w = {malloc(TEXT_BYTES), 0};
    if (t == NULL || w.text == NULL) {
        free(t);
        free(w.text);
        return error_set(err, FA4_NO_MEMORY, "kernel tables: out of memory");
    }
    kernel_tables_of_variant(variant, t);
    put_roles(&w, variant);
    put_regions(&w, "shared memory", t->smem, t->smem_count);
    put_regions(&w, "tensor memory", t->tmem, t->tmem_count);
    put_barriers(&w, t);
    free(t);
    *text = w.text;
    *length = w.used;
    return FA4_OK;
}

/* ---- arguments ---- */

static fa4_status fill_params(const fa4_plan *plan, const kernel_launch *launch, const fa4_tensors *tensors, void *upload, FwdParams *params,
                              fa4_error *err) {
    kernel_tensormap maps[FWD_MAP_COUNT];
    FA4_TRY(kernel_launch_maps(plan, tensors, ((uint64_t)(uintptr_t)upload + 255) / 256 * 256, maps, err));
    kernel_launch_params(plan, launch, tensors, (uint64_t)(uintptr_t)upload, params);
    for (int i = 0; i < FWD_MAP_COUNT; i++)
        if (i != FWD_MAP_O || !launch->variant.o_f32) FA4_TRY(kernel_tensormap_encode(&maps[i], &params->map[i], err));
    return FA4_OK;
}

fa4_status fa4_kernel_arguments(const fa4_plan *plan, const fa4_tensors *tensors, void *upload, void *params, fa4_kernel_shape *shape,
                                fa4_error *err) {
    if (plan == NULL || tensors == NULL || shape == NULL) return error_set(err, FA4_BAD_ARGUMENT, "kernel_arguments: expected a plan, tensors and a shape");
    if (plan->header.backend == FA4_BACKEND_CPU)
        return error_set(err, FA4_UNSUPPORTED, "device: a plan for the cpu has no kernel; make it for \"emu\"");
    if (((uintptr_t)upload) % 16 != 0) return error_set(err, FA4_BAD_ARGUMENT, "upload: expected a 16-byte aligned address");
    FA4_TRY(plan_check_tensors(plan, tensors, 1, err));
    kernel_launch *launch = NULL;
    FA4_TRY(kernel_launch_create(plan, tensors->o.dtype == FA4_F32, &launch, err));
    *shape = (fa4_kernel_shape){(int32_t)launch->grid, (int32_t)launch->block, launch->smem_bytes, sizeof(FwdParams), launch->upload_bytes, launch->independent, 0};
    fa4_status status = FA4_OK;
    if (upload != NULL && params != NULL) {
        FwdParams *block = aligned_alloc(64, sizeof *block);
        status = block ? fill_params(plan, launch, tensors, upload, block, err) : error_set(err, FA4_NO_MEMORY, "kernel_arguments: out of memory");
        if (status == FA4_OK) memcpy(params, block, sizeof *block);
        memcpy(upload, launch->upload, (size_t)launch->copy_bytes);
        free(block);
    }
    kernel_launch_destroy(launch);
    return status;
}
