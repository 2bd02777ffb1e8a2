/*
 * kernel_pack CATALOGUE.c CATALOGUE.bin: run by the build. Makes the plans of the requests listed
 * here, compiles the kernels that they name, and packs PTX and cubin into CATALOGUE.bin, which
 * CATALOGUE.c puts into the library. What cannot be compiled is told and left out: the library then
 * compiles it at run time. The disk cache makes a second build quick. Kernels that differ little are
 * kept as differences.
 */
#include "kernel/catalogue.h"
#include "kernel/delta.h"
#include "kernel/launch.h"
#include "kernel/variant.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

/* A request whose kernel is packed. `device` 1: for a GPU, with machine code; 0: for the emulator,
 * where PTX is enough and decisions are counted. */
typedef struct packed_request {
    int32_t arch, device, dtype, dim, mask_class, group, row_max, queries;
} packed_request;

enum { REQUESTS_MAX = 256, MASK_SIDE = 128 };

typedef struct request_list {
    int count;
    packed_request at[REQUESTS_MAX];
} request_list;

/* Every dtype, width and packing of one mask class and row_max. */
static void add_requests(request_list *list, packed_request r) {
    for (int n = 0; n < 8 && list->count < REQUESTS_MAX; n++) {
        r.dtype = n & 1 ? FA4_BF16 : FA4_F16;
        r.dim = n & 2 ? 64 : 128;
        r.group = n & 4 ? 4 : 1;
        list->at[list->count++] = r;
    }
}

/* sm_100a: all that a plan can ask for by default, and max-free blocks. sm_90a: the usual masks, and
 * one query over many keys. */
static request_list make_requests(void) {
    request_list list = {0};
    for (int32_t n = 0; n < 16; n++)
        add_requests(&list, (packed_request){.arch = 100,
                                             .device = n & 1,
                                             .mask_class = n >> 1 & 3,
                                             .row_max = n >> 3,
                                             .queries = 4096});
    for (int32_t mask_class = FA4_CLASS_FULL; mask_class <= FA4_CLASS_CAUSAL; mask_class++) {
        packed_request r = {
            .arch = 90, .device = 1, .mask_class = mask_class, .queries = 4096, .group = 1};
        add_requests(&list, r);
        r.dim = 128, r.dtype = FA4_F16, r.device = 0;
        list.at[list.count++] = r;
    }
    for (int32_t dtype = FA4_F16; dtype <= FA4_BF16; dtype++)
        list.at[list.count++] = (packed_request){
            .arch = 90, .device = 1, .dtype = dtype, .dim = 128, .group = 8, .queries = 1};
    return list;
}

static bool same_request(const packed_request *a, const packed_request *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* The request before it whose kernel resembles it most; -1 = none. */
static int base_of(const request_list *list, int i) {
    packed_request r = list->at[i];
    if (r.dtype == FA4_BF16) {
        r.dtype = FA4_F16;
    } else {
        r.dim = 128;
        r.group = 1;
    }
    for (int k = 0; k < i; k++)
        if (same_request(&list->at[k], &r)) return k;
    return -1;
}

static void set_mask(const packed_request *r, int32_t *bits, fa4_request *request) {
    fa4_problem *p = &request->problem;
    p->mask_nodes = r->mask_class != FA4_CLASS_FULL;
    p->mask[0].kind = r->mask_class == FA4_CLASS_CAUSAL     ? FA4_MASK_CAUSAL
                      : r->mask_class == FA4_CLASS_INTERVAL ? FA4_MASK_WINDOW
                                                            : FA4_MASK_BITS;
    p->mask[0].left = p->mask[0].right = 100;
    if (r->mask_class != FA4_CLASS_BITS) return;
    p->seqlen_q = p->seqlen_kv = MASK_SIDE;
    for (int i = 0; i < MASK_SIDE * MASK_SIDE / 32; i++)
        bits[i] = 0x55555555;
    request->mask_data = bits;
    request->mask_words = MASK_SIDE * MASK_SIDE / 32;
}

static fa4_status variant_of(const packed_request *r, FwdVariant *variant, fa4_error *err) {
    static const int32_t backends[2][2] = {{FA4_BACKEND_EMU_SM90, FA4_BACKEND_CUDA_SM90},
                                           {FA4_BACKEND_EMU_SM100, FA4_BACKEND_CUDA_SM100}};
    int32_t bits[MASK_SIDE * MASK_SIDE / 32];
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
                                    .scale = 0.125};
    set_mask(r, bits, &request);
    fa4_schedule_default(&request.schedule);
    if (r->row_max) request.schedule.row_max = r->row_max;
    fa4_plan *plan;
    FA4_TRY(plan_create(&request, &limits, NULL, &plan, err));
    kernel_variant_of_plan(plan, 0, variant);
    fa4_plan_destroy(plan);
    return FA4_OK;
}

static fa4_status image_of(kernel_images *images, const packed_request *request,
                           kernel_image *image, fa4_error *err) {
    FwdVariant variant;
    *image = (kernel_image){0};
    FA4_TRY(variant_of(request, &variant, err));
    return kernel_image_get(images, &variant, request->device, image, err);
}

// Child processes compile into the disk cache side by side, from where all is then taken.
static void compile_all(const request_list *list) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int children = cpus < 1 ? 1 : cpus > 8 ? 8 : (int)cpus;
    for (int c = 0; c < children; c++) {
        if (fork() != 0) continue;
        kernel_images *images;
        kernel_image image;
        if (kernel_images_open(NULL, &images, NULL) != FA4_OK) _exit(1);
        for (int i = c; i < list->count; i += children)
            if (image_of(images, &list->at[i], &image, NULL) == FA4_OK) kernel_image_free(&image);
        _exit(0);
    }
    while (wait(NULL) > 0) {
    }
}

/* An image as it is kept until the end: others may be differences to it. */
typedef struct kept {
    unsigned char *all; /* ptx, then cubin; NULL = left out */
    size_t bytes;
    int entry; /* in the catalogue */
} kept;

/* What is written, and how much of it there is. */
typedef struct packing {
    FILE *source, *data;
    uint64_t bytes;
    int count, left_out;
    kept kept[REQUESTS_MAX];
} packing;

static bool keep_image(packing *p, int i, const kernel_image *image) {
    kept *k = &p->kept[i];
    k->bytes = image->ptx_bytes + image->cubin_bytes;
    k->all = malloc(k->bytes + 1);
    if (k->all == NULL) return false;
    memcpy(k->all, image->ptx, image->ptx_bytes);
    if (image->cubin_bytes > 0)
        memcpy(k->all + image->ptx_bytes, image->cubin, image->cubin_bytes);
    k->entry = p->count++;
    return true;
}

/* base: index of a kept image, or -1. */
static bool pack_image(packing *p, int i, int base, const kernel_image *image,
                       const char *compiler) {
    if (!keep_image(p, i, image)) return false;
    const kept *k = &p->kept[i], *b = base >= 0 && p->kept[base].all ? &p->kept[base] : NULL;
    unsigned char *delta = NULL;
    size_t bytes = k->bytes;
    if (b != NULL) {
        delta_bytes from = {b->all, b->bytes}, to = {k->all, k->bytes};
        delta = delta_encode(from, to, &bytes);
        if (delta == NULL) return false;
    }
    uLongf packed_bytes = compressBound(bytes);
    unsigned char *packed = malloc(packed_bytes);
    bool good = packed != NULL &&
                compress2(packed, &packed_bytes, delta ? delta : k->all, bytes, 9) == Z_OK &&
                fwrite(packed, 1, packed_bytes, p->data) == packed_bytes;
    if (good) {
        fprintf(p->source,
                "    {\"%s\", \"NVRTC %s\", catalogue_data + %llu, %llu, %llu, %llu, %llu, %d},\n",
                image->name, compiler, (unsigned long long)p->bytes,
                (unsigned long long)packed_bytes, (unsigned long long)image->ptx_bytes,
                (unsigned long long)image->cubin_bytes, (unsigned long long)bytes,
                b ? b->entry : -1);
        p->bytes += packed_bytes;
    }
    free(delta);
    free(packed);
    return good;
}

static bool pack_all(packing *p, const request_list *list, kernel_images *images,
                     const nvrtc *compiler) {
    bool good = true;
    for (int i = 0; good && i < list->count; i++) {
        kernel_image image;
        fa4_error err;
        if (image_of(images, &list->at[i], &image, &err) != FA4_OK) {
            if (p->left_out++ == 0)
                fprintf(stderr, "kernel catalogue: left out: %.900s\n", err.text);
            continue;
        }
        good = pack_image(p, i, base_of(list, i), &image, nvrtc_version(compiler));
        kernel_image_free(&image);
    }
    for (int i = 0; i < list->count; i++)
        free(p->kept[i].all);
    return good;
}

static bool write_catalogue(const char *source, const char *data, const request_list *list,
                            kernel_images *images, const nvrtc *compiler) {
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
        if (compiler != NULL) good = pack_all(&p, list, images, compiler);
        fprintf(p.source, "    {0}};\nconst int32_t kernel_catalogue_count = %d;\n", p.count);
        fprintf(stderr, "kernel catalogue: %d kernels, %llu bytes%s\n", p.count,
                (unsigned long long)p.bytes, p.left_out ? " (some were left out)" : "");
    }
    if (p.source != NULL && fclose(p.source) != 0) good = false;
    if (p.data != NULL && fclose(p.data) != 0) good = false;
    return good;
}

int main(int argc, char **argv) {
    request_list list = make_requests();
    kernel_images *images;
    const nvrtc *compiler = NULL;
    fa4_error err;
    if (argc != 3) {
        fprintf(stderr, "usage: kernel_pack CATALOGUE.c CATALOGUE.bin\n");
        return 2;
    }
    if (kernel_images_open(NULL, &images, &err) != FA4_OK) return 1;
    if (kernel_images_compiler(images, &compiler, &err) == FA4_OK)
        compile_all(&list);
    else
        fprintf(stderr,
                "kernel catalogue: empty: %s\n  Without it and without NVRTC the devices \"cuda\" "
                "and \"emu\" have no kernels.\n",
                err.text);
    bool good = write_catalogue(argv[1], argv[2], &list, images, compiler);
    kernel_images_close(images);
    if (!good) fprintf(stderr, "kernel catalogue: %s cannot be written\n", argv[1]);
    return good ? 0 : 1;
}
