/*
 * kernel_pack CATALOGUE.c CATALOGUE.bin: run by the build. Makes the plans of the requests listed
 * here, compiles the kernels that they name, and packs PTX and cubin into CATALOGUE.bin, which
 * CATALOGUE.c puts into the library. What cannot be compiled is told and left out: the library then
 * compiles it at run time. The disk cache makes a second build quick.
 */
#include "kernel/catalogue.h"
#include "kernel/launch.h"
#include "kernel/variant.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

enum { EMULATED = 0, DEVICE = 1 };

/* Requests whose kernels are packed: architecture, for a device (cubin too) or the emulator (PTX,
 * counts decisions), dtype, dim, causal, query heads per key head, queries. */
// clang-format off
#define PACKED(_)                                    \
    _(100, EMULATED, FA4_F16, 128, 0, 1, 4096)       \
    _(100, EMULATED, FA4_F16, 128, 1, 1, 4096)       \
    _(100, EMULATED, FA4_BF16, 128, 0, 1, 4096)      \
    _(100, EMULATED, FA4_BF16, 128, 1, 1, 4096)      \
    _(100, EMULATED, FA4_F16, 128, 0, 4, 4096)       \
    _(100, EMULATED, FA4_F16, 64, 1, 3, 4096)        \
    _(90, EMULATED, FA4_F16, 128, 0, 1, 4096)        \
    _(90, EMULATED, FA4_F16, 128, 1, 1, 4096)        \
    _(100, DEVICE, FA4_F16, 128, 0, 1, 4096)         \
    _(100, DEVICE, FA4_F16, 128, 1, 1, 4096)         \
    _(100, DEVICE, FA4_BF16, 128, 0, 1, 4096)        \
    _(100, DEVICE, FA4_BF16, 128, 1, 1, 4096)        \
    _(90, DEVICE, FA4_F16, 128, 0, 1, 4096)          \
    _(90, DEVICE, FA4_F16, 128, 1, 1, 4096)          \
    _(90, DEVICE, FA4_BF16, 128, 0, 1, 4096)         \
    _(90, DEVICE, FA4_BF16, 128, 1, 1, 4096)         \
    _(90, DEVICE, FA4_F16, 128, 0, 8, 1)             \
    _(90, DEVICE, FA4_BF16, 128, 0, 8, 1)
// clang-format on

typedef struct packed_request {
    int32_t arch, device, dtype, dim, causal, group, queries;
} packed_request;

static const packed_request requests[] = {
#define ROW(arch, device, dtype, dim, causal, group, queries) {arch, device, dtype, dim, causal, group, queries},
    PACKED(ROW)
#undef ROW
};
enum { REQUESTS = sizeof requests / sizeof requests[0] };

static fa4_status variant_of(const packed_request *r, FwdVariant *variant, fa4_error *err) {
    static const int32_t backends[2][2] = {{FA4_BACKEND_EMU_SM90, FA4_BACKEND_CUDA_SM90},
                                           {FA4_BACKEND_EMU_SM100, FA4_BACKEND_CUDA_SM100}};
    fa4_request request = {.device = r->device ? "cuda" : "emu"};
    plan_limits limits = {.backend = backends[r->arch == 100][r->device],
                          .device = request.device,
                          .sms = r->arch == 100 ? 148 : 132,
                          .l2_bytes = 50 << 20,
                          .tiles_per_task = r->arch == 100 ? 2 : 1};
    request.problem = (fa4_problem){.batch = 1,
                                    .seqlen_q = r->queries,
                                    .seqlen_kv = 4096,
                                    .heads_q = r->group,
                                    .heads_kv = 1,
                                    .dim = r->dim,
                                    .dim_v = r->dim,
                                    .dtype = r->dtype,
                                    .lse = 1,
                                    .scale = 0.125,
                                    .mask_nodes = r->causal};
    request.problem.mask[0].kind = FA4_MASK_CAUSAL;
    fa4_schedule_default(&request.schedule);
    fa4_plan *plan;
    FA4_TRY(plan_create(&request, &limits, NULL, &plan, err));
    kernel_variant_of_plan(plan, 0, variant);
    fa4_plan_destroy(plan);
    return FA4_OK;
}

static fa4_status image_of(kernel_images *images, int i, kernel_image *image, fa4_error *err) {
    FwdVariant variant;
    *image = (kernel_image){0};
    FA4_TRY(variant_of(&requests[i], &variant, err));
    return kernel_image_get(images, &variant, requests[i].device, image, err);
}

// Child processes compile into the disk cache side by side, from where all is then taken.
static void compile_all(void) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int children = cpus < 1 ? 1 : cpus > 8 ? 8 : (int)cpus;
    for (int c = 0; c < children; c++) {
        if (fork() != 0) continue;
        kernel_images *images;
        kernel_image image;
        if (kernel_images_open(NULL, &images, NULL) != FA4_OK) _exit(1);
        for (int i = c; i < REQUESTS; i += children)
            if (image_of(images, i, &image, NULL) == FA4_OK) kernel_image_free(&image);
        _exit(0);
    }
    while (wait(NULL) > 0) {
    }
}

/* What is written, and how much of it there is. */
typedef struct packing {
    FILE *source, *data;
    uint64_t bytes;
    int count, left_out;
} packing;

static bool pack_image(packing *p, const kernel_image *image, const char *compiler) {
    uLong bytes = image->ptx_bytes + image->cubin_bytes;
    uLongf packed_bytes = compressBound(bytes);
    unsigned char *all = malloc(bytes + 1), *packed = malloc(packed_bytes);
    bool good = all != NULL && packed != NULL;
    if (good) {
        memcpy(all, image->ptx, image->ptx_bytes);
        if (image->cubin_bytes > 0)
            memcpy(all + image->ptx_bytes, image->cubin, image->cubin_bytes);
        good = compress2(packed, &packed_bytes, all, bytes, 9) == Z_OK &&
               fwrite(packed, 1, packed_bytes, p->data) == packed_bytes;
    }
    if (good) {
        fprintf(p->source, "    {\"%s\", \"NVRTC %s\", catalogue_data + %llu, %llu, %llu, %llu},\n",
                image->name, compiler, (unsigned long long)p->bytes,
                (unsigned long long)packed_bytes, (unsigned long long)image->ptx_bytes,
                (unsigned long long)image->cubin_bytes);
        p->bytes += packed_bytes;
        p->count++;
    }
    free(all);
    free(packed);
    return good;
}

static bool pack_all(packing *p, kernel_images *images, const nvrtc *compiler) {
    for (int i = 0; i < REQUESTS; i++) {
        kernel_image image;
        fa4_error err;
        if (image_of(images, i, &image, &err) != FA4_OK) {
            if (p->left_out++ == 0)
                fprintf(stderr, "kernel catalogue: left out: %.900s\n", err.text);
            continue;
        }
        bool good = pack_image(p, &image, nvrtc_version(compiler));
        kernel_image_free(&image);
        if (!good) return false;
    }
    return true;
}

static bool write_catalogue(const char *source, const char *data, kernel_images *images,
                            const nvrtc *compiler) {
    packing p = {.source = fopen(source, "w"), .data = fopen(data, "wb")};
    bool good = p.source != NULL && p.data != NULL;
    if (good) {
        fprintf(
            p.source,
            "/* Generated: kernels compiled ahead of time. */\n#include \"kernel/catalogue.h\"\n\n"
            "__asm__(\".section .rodata\\n.global catalogue_data\\n.hidden "
            "catalogue_data\\ncatalogue_data:\\n.incbin \\\"%s\\\"\\n.byte 0\\n\"\n"
            "        \".previous\\n\");\nextern const unsigned char catalogue_data[];\n\nconst "
            "kernel_catalogue_entry kernel_catalogue[] = {\n",
            data);
        if (compiler != NULL) good = pack_all(&p, images, compiler);
        fprintf(p.source, "    {0}};\nconst int32_t kernel_catalogue_count = %d;\n", p.count);
        fprintf(stderr, "kernel catalogue: %d kernels, %llu bytes%s\n", p.count,
                (unsigned long long)p.bytes, p.left_out ? " (some were left out)" : "");
    }
    if (p.source != NULL && fclose(p.source) != 0) good = false;
    if (p.data != NULL && fclose(p.data) != 0) good = false;
    return good;
}

int main(int argc, char **argv) {
    kernel_images *images;
    const nvrtc *compiler = NULL;
    fa4_error err;
    if (argc != 3) {
        fprintf(stderr, "usage: kernel_pack CATALOGUE.c CATALOGUE.bin\n");
        return 2;
    }
    if (kernel_images_open(NULL, &images, &err) != FA4_OK) return 1;
    if (kernel_images_compiler(images, &compiler, &err) == FA4_OK)
        compile_all();
    else
        fprintf(stderr,
                "kernel catalogue: empty: %s\n  Without it and without NVRTC the devices \"cuda\" "
                "and \"emu\" have no kernels.\n",
                err.text);
    bool good = write_catalogue(argv[1], argv[2], images, compiler);
    kernel_images_close(images);
    if (!good) fprintf(stderr, "kernel catalogue: %s cannot be written\n", argv[1]);
    return good ? 0 : 1;
}
