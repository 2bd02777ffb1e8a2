/*
 * A kernel variant from description to machine code: its name, its source, its compiler options,
 * and its image (PTX and cubin), which comes from the catalogue inside the library, else from the
 * disk cache, else from NVRTC. Which variant a plan needs is kernel_variant_of_plan's to say
 * (launch.h).
 */
#ifndef FA4_KERNEL_VARIANT_H
#define FA4_KERNEL_VARIANT_H

#include "kernel/cache.h"
#include "kernel/nvrtc.h"
#include "../../kernels/params.h"

/* Every file of kernels/, inside the library; generated. The first line of each text is a #line with its name. */
extern const nvrtc_header kernel_sources[];
extern const int32_t kernel_source_count;

enum { KERNEL_NAME_BYTES = 96, KERNEL_OPTIONS_MAX = 48, KERNEL_OPTION_BYTES = 64, KERNEL_FILES_MAX = 64 };

typedef struct kernel_options {
    int32_t count;
    char text[KERNEL_OPTIONS_MAX][KERNEL_OPTION_BYTES];
} kernel_options;

/* Such as "fwd_sm100a_f16_d128_causal_packed_3f9a1c02": readable, and unique by the hash of all
 * fields. */
void kernel_variant_name(const FwdVariant *variant, char name[KERNEL_NAME_BYTES]);
const char *kernel_variant_arch(const FwdVariant *variant); /* "sm_100a" */
/* The file of kernels/ that is compiled, and its text. */
const nvrtc_header *kernel_variant_source(const FwdVariant *variant);
/* The source and every file of kernels/ that it includes, the source first; returns how many, 0 when this build has no such kernel. */
int32_t kernel_variant_files(const FwdVariant *variant, const nvrtc_header *files[KERNEL_FILES_MAX]);
/* The compiler's options: architecture, language, and a -D for each field. want_cubin: a real
 * architecture instead of a virtual one. */
void kernel_variant_options(const FwdVariant *variant, int32_t want_cubin, kernel_options *options);

typedef enum kernel_origin {
    KERNEL_FROM_CATALOGUE = 1,
    KERNEL_FROM_CACHE = 2,
    KERNEL_FROM_NVRTC = 3
} kernel_origin;

typedef struct kernel_image {
    char name[KERNEL_NAME_BYTES];
    char *ptx; /* NUL-terminated, owned */
    size_t ptx_bytes;
    void *cubin; /* owned; NULL when it was not wanted and the place that had the PTX has none */
    size_t cubin_bytes;
    char *log;         /* the compiler's, "" unless compiled now */
    int32_t origin;    /* kernel_origin */
    double compile_ms; /* 0 unless compiled now */
} kernel_image;

/* The places that images come from. Used by one thread at a time. */
typedef struct kernel_images kernel_images;

/* options: NULL for the environment's cache. A cache that cannot be used and an absent NVRTC are no
 * failure here. */
fa4_status kernel_images_open(const kernel_cache_options *options, kernel_images **images,
                              fa4_error *err);
void kernel_images_close(kernel_images *images);          /* NULL is allowed */
kernel_cache *kernel_images_cache(kernel_images *images); /* borrowed */
/* FA4_OK when a miss can be compiled, else FA4_NO_DEVICE with the reason. */
fa4_status kernel_images_compiler(kernel_images *images, const nvrtc **library, fa4_error *err);
/* want_cubin: 1 = for a GPU, 0 = PTX is enough. FA4_NO_DEVICE: nowhere found and NVRTC is absent.
 */
fa4_status kernel_image_get(kernel_images *images, const FwdVariant *variant, int32_t want_cubin,
                            kernel_image *image, fa4_error *err);
void kernel_image_free(kernel_image *image);

#endif
