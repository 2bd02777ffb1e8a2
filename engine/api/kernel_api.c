/* Kernels through fa4.h: the source, PTX or machine code behind a plan, and the cache of compiled
 * kernels. */
#include "api/api.h"

#include "api/kernel_tables.h"
#include "kernel/catalogue.h"
#include "kernel/launch.h"
#include "kernel/sass.h"
#include "kernel/variant.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text of a kernel ---- */

// Options as remarks, then the source and every file that it includes, each under its name.
static fa4_status write_cuda(const FwdVariant *variant, char **text, size_t *length,
                             fa4_error *err) {
    kernel_options options;
    char name[KERNEL_NAME_BYTES];
    const nvrtc_header *files[KERNEL_FILES_MAX];
    int32_t count = kernel_variant_files(variant, files);
    if (count == 0)
        return error_set(err, FA4_UNSUPPORTED, "no kernel for %s is part of this build",
                         kernel_variant_arch(variant));
    FILE *out = open_memstream(text, length);
    if (out == NULL) return error_set(err, FA4_NO_MEMORY, "kernel source: out of memory");
    kernel_variant_name(variant, name);
    kernel_variant_options(variant, 1, &options);
    fprintf(out, "// %s, compiled by NVRTC with\n", name);
    for (int32_t i = 0; i < options.count; i++)
        fprintf(out, "//   %s\n", options.text[i]);
    for (int32_t i = 0; i < count; i++) {
        const char *body = strchr(files[i]->text, '\n'); /* past the #line */
        fprintf(out, "\n// ======== kernels/%s ========\n\n%s", files[i]->name,
                body ? body + 1 : "");
    }
    if (fclose(out) == 0) return FA4_OK;
    free(*text);
    *text = NULL;
    return error_set(err, FA4_NO_MEMORY, "kernel source: out of memory");
}

static fa4_status write_compiled(const FwdVariant *variant, bool sass, char **text, size_t *length,
                                 fa4_error *err) {
    kernel_images *images;
    kernel_image image;
    FA4_TRY(kernel_images_open(NULL, &images, err));
    fa4_status status = kernel_image_get(images, variant, sass, &image, err);
    kernel_images_close(images);
    if (status != FA4_OK) return status;
    if (sass) {
        status = kernel_sass(image.cubin, image.cubin_bytes, text, length, err);
    } else {
        *text = image.ptx;
        *length = image.ptx_bytes;
        image.ptx = NULL;
    }
    kernel_image_free(&image);
    return status;
}

fa4_status fa4_kernel_source(fa4_context *context, const fa4_plan *plan, const char *kind,
                             char **text, int64_t *length, fa4_error *err) {
    FwdVariant variant;
    size_t bytes = 0;
    fa4_status status;
    (void)context;
    *text = NULL;
    *length = 0;
    if (plan->header.backend == FA4_BACKEND_CPU)
        return error_set(
            err, FA4_UNSUPPORTED,
            "device: a plan for the cpu has no kernel; make it for \"cuda\" or \"emu\"");
    kernel_variant_of_plan(plan, 0, &variant);
    if (strcmp(kind, "cuda") == 0)
        status = write_cuda(&variant, text, &bytes, err);
    else if (strcmp(kind, "ptx") == 0)
        status = write_compiled(&variant, false, text, &bytes, err);
    else if (strcmp(kind, "sass") == 0)
        status = write_compiled(&variant, true, text, &bytes, err);
    else if (strcmp(kind, "tables") == 0)
        status = api_kernel_tables(&variant, text, &bytes, err);
    else
        return error_set(
            err, FA4_BAD_ARGUMENT,
            "kind: expected \"cuda\", \"ptx\", \"sass\" or \"tables\", got \"%.40s\"", kind);
    *length = (int64_t)bytes;
    return status;
}

void fa4_text_free(char *text) {
    free(text);
}

/* ---- the cache ---- */

static fa4_status count_entries(kernel_cache *cache, fa4_cache_info *info, fa4_error *err) {
    kernel_cache_item *items;
    FA4_TRY(kernel_cache_list(cache, &items, &info->entries, err));
    for (int64_t i = 0; i < info->entries; i++)
        info->bytes += items[i].bytes;
    free(items);
    return FA4_OK;
}

fa4_status fa4_cache_get(fa4_cache_info *info, fa4_error *err) {
    kernel_images *images;
    const nvrtc *compiler = NULL;
    fa4_error missing;
    memset(info, 0, sizeof *info);
    FA4_TRY(kernel_images_open(NULL, &images, err));
    kernel_cache *cache = kernel_images_cache(images);
    snprintf(info->folder, sizeof info->folder, "%s", kernel_cache_folder(cache));
    snprintf(info->warning, sizeof info->warning, "%s", kernel_cache_warning(cache));
    info->bytes_max = kernel_cache_bytes_max(cache);
    info->catalogue = kernel_catalogue_count;
    info->has_compiler = kernel_images_compiler(images, &compiler, &missing) == FA4_OK;
    if (info->has_compiler)
        snprintf(info->compiler, sizeof info->compiler, "NVRTC %s (%s)", nvrtc_version(compiler),
                 nvrtc_path(compiler));
    else
        snprintf(info->compiler, sizeof info->compiler, "%s", missing.text);
    fa4_status status = count_entries(cache, info, err);
    kernel_images_close(images);
    return status;
}

fa4_status fa4_cache_warning(char *text, int64_t room, fa4_error *err) {
    kernel_cache *cache;
    if (room < 1) return error_set(err, FA4_BAD_ARGUMENT, "room: expected at least 1, got %lld", (long long)room);
    FA4_TRY(kernel_cache_open(NULL, &cache, err));
    snprintf(text, (size_t)room, "%s", kernel_cache_warning(cache));
    kernel_cache_close(cache);
    return FA4_OK;
}

fa4_status fa4_cache_list(fa4_cache_item *items, int64_t room, int64_t *count, fa4_error *err) {
    kernel_cache *cache;
    kernel_cache_item *list;
    *count = 0;
    FA4_TRY(kernel_cache_open(NULL, &cache, err));
    fa4_status status = kernel_cache_list(cache, &list, count, err);
    for (int64_t i = 0; status == FA4_OK && i < *count && i < room; i++) {
        fa4_cache_item *item = &items[i];
        memset(item, 0, sizeof *item);
        snprintf(item->file, sizeof item->file, "%s", list[i].file);
        snprintf(item->kernel, sizeof item->kernel, "%s", list[i].name);
        snprintf(item->compiler, sizeof item->compiler, "%s", list[i].compiler);
        item->bytes = list[i].bytes;
        item->used_s = list[i].used_s;
    }
    if (status == FA4_OK) free(list);
    kernel_cache_close(cache);
    return status;
}

fa4_status fa4_cache_clear(int64_t *entries, int64_t *bytes, fa4_error *err) {
    kernel_cache *cache;
    *entries = *bytes = 0;
    FA4_TRY(kernel_cache_open(NULL, &cache, err));
    fa4_status status = kernel_cache_clear(cache, entries, bytes, err);
    kernel_cache_close(cache);
    return status;
}
