/* The description of a variant as name, options and source, and the three places where its image
 * may be. */
#include "kernel/variant.h"

#include "kernel/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- names, options, sources ---- */

const char *kernel_variant_arch(const FwdVariant *variant) {
    return variant->arch == 90 ? "sm_90a" : "sm_100a";
}

static uint32_t short_hash(const FwdVariant *variant) {
    sha256 s;
    sha256_start(&s);
    sha256_add(&s, variant, sizeof *variant);
    sha256_digest d = sha256_finish(&s);
    return (uint32_t)d.byte[0] << 24 | (uint32_t)d.byte[1] << 16 | (uint32_t)d.byte[2] << 8 |
           d.byte[3];
}

void kernel_variant_name(const FwdVariant *v, char name[KERNEL_NAME_BYTES]) {
    static const char *const classes[] = {"full", "causal", "interval", "bits"};
    const char *mask_class =
        v->mask_class >= 0 && v->mask_class < 4 ? classes[v->mask_class] : "unknown";
    snprintf(name, KERNEL_NAME_BYTES, "fwd_sm%da_%s_d%d_%s%s%s_%08x", v->arch,
             v->dtype == FWD_BF16 ? "bf16" : "f16", v->dim, mask_class, v->packed ? "_packed" : "",
             v->counters ? "_counters" : "", short_hash(v));
}

static const nvrtc_header *find_source(const char *name, size_t length) {
    for (int32_t i = 0; i < kernel_source_count; i++)
        if (strlen(kernel_sources[i].name) == length &&
            memcmp(kernel_sources[i].name, name, length) == 0)
            return &kernel_sources[i];
    return NULL;
}

const nvrtc_header *kernel_variant_source(const FwdVariant *variant) {
    const char *name = variant->arch == 90 ? "fwd_sm90.cu" : "fwd_sm100.cu";
    return find_source(name, strlen(name));
}

static void add_option(kernel_options *o, const char *name, const char *value) {
    if (o->count < KERNEL_OPTIONS_MAX)
        snprintf(o->text[o->count++], KERNEL_OPTION_BYTES, "%s%s", name, value);
}

void kernel_variant_options(const FwdVariant *variant, int32_t want_cubin,
                            kernel_options *options) {
    char value[16];
    *options = (kernel_options){0};
    add_option(options, "--gpu-architecture=",
               want_cubin            ? kernel_variant_arch(variant)
               : variant->arch == 90 ? "compute_90a"
                                     : "compute_100a");
    add_option(options, "--std=c++17", "");
    add_option(options, "--use_fast_math", "");
    add_option(options, "--generate-line-info",
               ""); /* findings and breakpoints name kernel lines */
#define ADD_FIELD(name, macro)                                                                     \
    snprintf(value, sizeof value, "=%d", variant->name);                                           \
    add_option(options, "-D" #macro, value);
    FWD_VARIANT_FIELDS(ADD_FIELD)
#undef ADD_FIELD
}

/* The source and what it includes, each once. */
typedef struct closure {
    const nvrtc_header *files[KERNEL_FILES_MAX];
    int32_t count;
} closure;

static void add_file(closure *c, const nvrtc_header *file) {
    for (int32_t i = 0; i < c->count; i++)
        if (c->files[i] == file) return;
    if (c->count < (int32_t)(sizeof c->files / sizeof c->files[0])) c->files[c->count++] = file;
}

static void close_includes(closure *c, const nvrtc_header *source) {
    add_file(c, source);
    for (int32_t i = 0; i < c->count; i++) {
        for (const char *at = c->files[i]->text; (at = strstr(at, "#include \"")) != NULL;) {
            at += strlen("#include \"");
            const nvrtc_header *file = find_source(at, strcspn(at, "\"\n"));
            if (file != NULL) add_file(c, file);
        }
    }
}

int32_t kernel_variant_files(const FwdVariant *variant,
                             const nvrtc_header *files[KERNEL_FILES_MAX]) {
    const nvrtc_header *source = kernel_variant_source(variant);
    closure c = {0};
    if (source != NULL) close_includes(&c, source);
    memcpy(files, c.files, (size_t)c.count * sizeof *files);
    return c.count;
}

static sha256_digest key_of(const closure *c, const kernel_options *options, const char *compiler) {
    sha256 s;
    sha256_start(&s);
    sha256_add_text(&s, compiler);
    for (int32_t i = 0; i < options->count; i++)
        sha256_add_text(&s, options->text[i]);
    for (int32_t i = 0; i < c->count; i++) {
        sha256_add_text(&s, c->files[i]->name);
        sha256_add_text(&s, c->files[i]->text);
    }
    return sha256_finish(&s);
}

/* ---- images ---- */

struct kernel_images {
    kernel_cache *cache;
    nvrtc *compiler;
    bool compiler_asked;
    fa4_error compiler_error; /* why there is none */
};

fa4_status kernel_images_open(const kernel_cache_options *options, kernel_images **images,
                              fa4_error *err) {
    *images = calloc(1, sizeof **images);
    if (*images == NULL) return error_set(err, FA4_NO_MEMORY, "kernel images: out of memory");
    fa4_status status = kernel_cache_open(options, &(*images)->cache, err);
    if (status == FA4_OK) return FA4_OK;
    free(*images);
    *images = NULL;
    return status;
}

void kernel_images_close(kernel_images *images) {
    if (images == NULL) return;
    nvrtc_close(images->compiler);
    kernel_cache_close(images->cache);
    free(images);
}

kernel_cache *kernel_images_cache(kernel_images *images) {
    return images->cache;
}

fa4_status kernel_images_compiler(kernel_images *images, const nvrtc **library, fa4_error *err) {
    if (!images->compiler_asked) (void)nvrtc_open(&images->compiler, &images->compiler_error);
    images->compiler_asked = true;
    if (library != NULL) *library = images->compiler;
    if (images->compiler != NULL) return FA4_OK;
    return error_set(err, (fa4_status)images->compiler_error.status, "%s",
                     images->compiler_error.text);
}

static bool take_packed(const kernel_catalogue_entry *packed, int32_t want_cubin,
                        kernel_image *image, fa4_error *err, fa4_status *status) {
    if (packed == NULL || (want_cubin && packed->cubin_bytes == 0)) return false;
    *status = kernel_catalogue_unpack(packed, &image->ptx, &image->cubin, err);
    image->ptx_bytes = packed->ptx_bytes;
    image->cubin_bytes = packed->cubin_bytes;
    image->origin = KERNEL_FROM_CATALOGUE;
    return true;
}

static bool take_cached(kernel_images *images, const sha256_digest *key, kernel_image *image) {
    kernel_cache_entry entry;
    if (!kernel_cache_read(images->cache, key, &entry)) return false;
    image->ptx = entry.ptx;
    image->ptx_bytes = entry.ptx_bytes;
    image->cubin = entry.cubin;
    image->cubin_bytes = entry.cubin_bytes;
    image->origin = KERNEL_FROM_CACHE;
    return true;
}

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// Both kernels are compiled from one file and its includes; the compiler sees nothing else.
static fa4_status compile(kernel_images *images, const closure *files,
                          const kernel_options *options, int32_t want_cubin, kernel_image *image,
                          fa4_error *err) {
    nvrtc_header headers[KERNEL_FILES_MAX];
    const char *texts[KERNEL_OPTIONS_MAX];
    nvrtc_result result;
    for (int32_t i = 1; i < files->count; i++)
        headers[i - 1] = *files->files[i];
    for (int32_t i = 0; i < options->count; i++)
        texts[i] = options->text[i];
    char name[128]; // absolute, or NVRTC puts the working directory before it and the PTX differs
                    // from place to place
    snprintf(name, sizeof name, "/kernels/%s", files->files[0]->name);
    nvrtc_job job = {.name = name,
                     .source = files->files[0]->text,
                     .headers = headers,
                     .header_count = files->count - 1,
                     .options = texts,
                     .option_count = options->count,
                     .want_cubin = want_cubin};
    double from = milliseconds();
    FA4_TRY(nvrtc_compile(images->compiler, &job, &result, err));
    image->compile_ms = milliseconds() - from;
    image->ptx = result.ptx;
    image->ptx_bytes = result.ptx_bytes;
    image->cubin = result.cubin;
    image->cubin_bytes = result.cubin_bytes;
    image->log = result.log;
    image->origin = KERNEL_FROM_NVRTC;
    return FA4_OK;
}

static void keep(kernel_images *images, const sha256_digest *key, const kernel_image *image) {
    kernel_cache_entry entry = {.ptx = image->ptx,
                                .ptx_bytes = image->ptx_bytes,
                                .cubin = image->cubin,
                                .cubin_bytes = image->cubin_bytes};
    snprintf(entry.name, sizeof entry.name, "%s", image->name);
    snprintf(entry.compiler, sizeof entry.compiler, "NVRTC %s", nvrtc_version(images->compiler));
    kernel_cache_write(images->cache, key, &entry);
}

static fa4_status find_or_compile(kernel_images *images, const FwdVariant *variant,
                                  int32_t want_cubin, kernel_image *image, fa4_error *err) {
    const nvrtc_header *source = kernel_variant_source(variant);
    closure files = {0};
    kernel_options options;
    if (source == NULL)
        return error_set(err, FA4_UNSUPPORTED, "no kernel for %s is part of this build",
                         kernel_variant_arch(variant));
    if (kernel_images_compiler(images, NULL, err) != FA4_OK)
        return error_prefix(
            err, "kernel %s is not in the library's catalogue and cannot be compiled", image->name);
    close_includes(&files, source);
    // An image with a cubin serves both wishes.
    for (int32_t cubin = 1; cubin >= want_cubin; cubin--) {
        kernel_variant_options(variant, cubin, &options);
        sha256_digest key = key_of(&files, &options, nvrtc_version(images->compiler));
        if (take_cached(images, &key, image)) return FA4_OK;
        if (cubin != want_cubin) continue;
        FA4_TRY(compile(images, &files, &options, cubin, image, err));
        keep(images, &key, image);
    }
    return FA4_OK;
}

fa4_status kernel_image_get(kernel_images *images, const FwdVariant *variant, int32_t want_cubin,
                            kernel_image *image, fa4_error *err) {
    fa4_status status = FA4_OK;
    want_cubin = want_cubin != 0;
    *image = (kernel_image){0};
    kernel_variant_name(variant, image->name);
    if (!take_packed(kernel_catalogue_find(image->name), want_cubin, image, err, &status))
        status = find_or_compile(images, variant, want_cubin, image, err);
    if (status == FA4_OK && image->log == NULL) image->log = calloc(1, 1);
    if (status == FA4_OK && image->log == NULL)
        status = error_set(err, FA4_NO_MEMORY, "kernel %s: out of memory", image->name);
    if (status != FA4_OK) kernel_image_free(image);
    return status;
}

void kernel_image_free(kernel_image *image) {
    free(image->ptx);
    free(image->cubin);
    free(image->log);
    *image = (kernel_image){0};
}
