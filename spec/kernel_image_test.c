/* Kernels from description to image: names and options, errors with source lines, and one real
 * kernel through compiler and cache. Parts that need NVRTC are skipped, by name, where it is
 * absent. */
#include "check.h"

#include "kernel/catalogue.h"
#include "kernel/delta.h"
#include "kernel/sass.h"
#include "kernel/variant.h"
#include "ptx/ptx.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[256];

static const FwdVariant small = {.arch = 100,
                                 .dim = 128,
                                 .p_split = 64,
                                 .q_stages = 2,
                                 .kv_stages = 3,
                                 .tile_rows = 128,
                                 .tile_keys = 128,
                                 .registers_softmax = 192,
                                 .registers_correction = 80,
                                 .registers_other = 48};

static void test_names(void) {
    char name[KERNEL_NAME_BYTES], other[KERNEL_NAME_BYTES];
    FwdVariant v = small;
    kernel_variant_name(&v, name);
    CHECK(strncmp(name, "fwd_sm100a_f16_d128_full_", 25) == 0, "%s", name);
    int32_t *field = (int32_t *)&v;
    for (size_t i = 0; i < sizeof v / sizeof *field; i++) {
        field[i] += 1;
        kernel_variant_name(&v, other);
        CHECK(strcmp(name, other) != 0, "field %zu does not change the name %s", i, name);
        field[i] -= 1;
    }
}

static bool has_option(const kernel_options *o, const char *text) {
    for (int32_t i = 0; i < o->count; i++)
        if (strcmp(o->text[i], text) == 0) return true;
    return false;
}

static void test_options(void) {
    kernel_options o;
    kernel_variant_options(&small, 1, &o);
    CHECK(has_option(&o, "--gpu-architecture=sm_100a") && has_option(&o, "-DFA4_KV_STAGES=3") &&
              has_option(&o, "-DFA4_ARCH=100"),
          "options");
    int32_t defines = 0;
    for (int32_t i = 0; i < o.count; i++)
        defines += strncmp(o.text[i], "-D", 2) == 0;
    CHECK(defines == (int32_t)(sizeof(FwdVariant) / sizeof(int32_t)), "%d of %zu fields are passed",
          defines, sizeof(FwdVariant) / sizeof(int32_t));
    kernel_variant_options(&small, 0, &o);
    CHECK(has_option(&o, "--gpu-architecture=compute_100a"),
          "PTX alone needs no real architecture");
    const nvrtc_header *files[KERNEL_FILES_MAX];
    int32_t count = kernel_variant_files(&small, files);
    CHECK(count > 3 && strcmp(files[0]->name, "fwd_sm100.cu") == 0, "%d files", count);
    for (int32_t i = 0; i < count; i++)
        CHECK(strncmp(files[i]->text, "#line 1 \"/kernels/", 18) == 0, "%s has no #line",
              files[i]->name);
}

// Without a compiler: the reason, what it would enable and where it was looked for.
static void test_no_compiler(void) {
    kernel_images *images;
    kernel_image image;
    fa4_error err;
    kernel_cache_options options = {folder, 0};
    FwdVariant v = small;
    char *old = getenv("FA4_NVRTC") ? strdup(getenv("FA4_NVRTC")) : NULL;
    v.q_stages = 77; /* in no catalogue */
    setenv("FA4_NVRTC", "/nonexistent/libnvrtc.so", 1);
    CHECK(kernel_images_open(&options, &images, &err) == FA4_OK, "%s", err.text);
    CHECK(kernel_image_get(images, &v, 0, &image, &err) == FA4_NO_DEVICE, "%s", err.text);
    CHECK(strstr(err.text, "/nonexistent/libnvrtc.so") != NULL &&
              strstr(err.text, "fwd_sm100a") != NULL,
          "%s", err.text);
    kernel_images_close(images);
    unsetenv("FA4_NVRTC");
    if (old != NULL) setenv("FA4_NVRTC", old, 1);
    free(old);
}

static fa4_status compile_text(nvrtc *library, const char *source, const char *arch, int32_t cubin,
                               nvrtc_result *result, fa4_error *err) {
    const char *options[] = {arch, "--std=c++17"};
    nvrtc_header header = {"twice.h", "__device__ inline int twice(int x) { return 2 * x; }\n"};
    nvrtc_job job = {.name = "probe.cu",
                     .source = source,
                     .headers = &header,
                     .header_count = 1,
                     .options = options,
                     .option_count = 2,
                     .want_cubin = cubin};
    return nvrtc_compile(library, &job, result, err);
}

static void test_compile(nvrtc *library) {
    nvrtc_result result;
    fa4_error err;
    ptx_program *program;
    const char *source = "#include \"twice.h\"\nextern \"C\" __global__ void k(int *a) {\n  "
                         "a[threadIdx.x] = twice(a[threadIdx.x]);\n}\n";
    CHECK(compile_text(library, source, "--gpu-architecture=sm_90a", 1, &result, &err) == FA4_OK,
          "%s", err.text);
    CHECK(ptx_parse(result.ptx, result.ptx_bytes, &program, &err) == FA4_OK &&
              strcmp(program->functions[0].name, "k") == 0,
          "%s", err.text);
    CHECK(result.cubin_bytes > 100 && memcmp(result.cubin, "\177ELF", 4) == 0, "no cubin");
    ptx_program_destroy(program);
    nvrtc_result_free(&result);
    CHECK(compile_text(library, "__global__ void k() {\n  int x = wrong;\n}\n",
                       "--gpu-architecture=sm_90a", 0, &result, &err) == FA4_DEVICE_ERROR,
          "wrong source");
    CHECK(strstr(err.text, "probe.cu(2)") != NULL && strstr(err.text, "wrong") != NULL,
          "the message lacks line and text: %s", err.text);
    CHECK(compile_text(library, source, "--gpu-architecture=compute_90a", 1, &result, &err) !=
              FA4_OK,
          "a cubin of a virtual architecture");
}

static void test_image(void) {
    kernel_images *images;
    kernel_image first, second;
    fa4_error err = {0};
    ptx_program *program;
    const ptx_function *entry;
    kernel_cache_options options = {folder, 0};
    CHECK(kernel_images_open(&options, &images, &err) == FA4_OK, "%s", err.text);
    FwdVariant v = small;
    fa4_status status = kernel_image_get(images, &v, 0, &first, &err);
    CHECK(status == FA4_OK, "%s", err.text);
    if (status == FA4_OK) {
        CHECK(first.origin != KERNEL_FROM_CACHE, "a new cache had it");
        CHECK(kernel_image_get(images, &v, 0, &second, &err) == FA4_OK, "%s", err.text);
        CHECK(second.origin ==
                  (first.origin == KERNEL_FROM_NVRTC ? KERNEL_FROM_CACHE : KERNEL_FROM_CATALOGUE),
              "origin %d", second.origin);
        CHECK(strcmp(first.ptx, second.ptx) == 0 && strlen(first.ptx) == first.ptx_bytes,
              "the two differ");
        CHECK(ptx_parse(first.ptx, first.ptx_bytes, &program, &err) == FA4_OK, "%s", err.text);
        CHECK(ptx_program_entry(program, FWD_KERNEL_NAME, &entry, &err) == FA4_OK &&
                  entry->instr_count > 1000,
              "%s", err.text);
        const ptx_loc *loc = &program->locs[entry->instrs[entry->instr_count / 2].loc];
        CHECK(strncmp(program->files[loc->file], "/kernels/", 9) == 0 && loc->line > 0,
              "no kernel line: %s", program->files[loc->file]);
        ptx_program_destroy(program);
        kernel_image_free(&second);
        kernel_image_free(&first);
    }
    kernel_images_close(images);
}

static void test_catalogue(void) {
    fa4_error err;
    char *ptx;
    void *cubin;
    for (int32_t i = 0; i < kernel_catalogue_count; i++) {
        CHECK(kernel_catalogue_find(kernel_catalogue[i].name) == &kernel_catalogue[i],
              "%s is there twice", kernel_catalogue[i].name);
        CHECK(kernel_catalogue_unpack(&kernel_catalogue[i], &ptx, &cubin, &err) == FA4_OK, "%s",
              err.text);
        CHECK(strlen(ptx) == kernel_catalogue[i].ptx_bytes && strstr(ptx, FWD_KERNEL_NAME) != NULL,
              "%s", kernel_catalogue[i].name);
        free(ptx);
        free(cubin);
    }
    CHECK(kernel_catalogue_find("no such kernel") == NULL, "found what is not there");
}

// What is similar is packed small; a delta that is cut short or altered is refused or yields other
// bytes, never more than there is room for.
static void test_delta(void) {
    enum { BYTES = 5000 };
    unsigned char base[BYTES], target[BYTES], made[BYTES];
    uint32_t random = 1;
    for (int i = 0; i < BYTES; i++)
        base[i] = (unsigned char)((random = random * 1664525 + 1013904223) >> 24);
    memcpy(target, base + 1000, 4000);
    memcpy(target + 4000, base, 1000);
    for (int i = 77; i < BYTES; i += 500)
        target[i] ^= 1;
    size_t size = 0;
    delta_bytes from = {base, BYTES}, to = {target, BYTES}, nothing = {base, 0};
    unsigned char *delta = delta_encode(from, to, &size);
    CHECK(delta != NULL && size < 400, "%zu bytes for 10 changes", size);
    CHECK(delta_decode(from, (delta_bytes){delta, size}, made, BYTES) && memcmp(made, target, BYTES) == 0, "other bytes");
    for (size_t cut = 0; cut < size; cut++)
        CHECK(!delta_decode(from, (delta_bytes){delta, cut}, made, BYTES), "accepted without its end, %zu", cut);
    CHECK(!delta_decode(from, (delta_bytes){delta, size}, made, BYTES - 1), "more than there is room for");
    CHECK(!delta_decode(nothing, (delta_bytes){delta, size}, made, BYTES), "copied from nothing");
    for (size_t i = 0; i < size; i++) {
        delta[i] ^= 0x55;
        (void)delta_decode(from, (delta_bytes){delta, size}, made, BYTES);
        delta[i] ^= 0x55;
    }
    free(delta);
    delta = delta_encode(nothing, to, &size);
    CHECK(delta != NULL && delta_decode(nothing, (delta_bytes){delta, size}, made, BYTES) && memcmp(made, target, BYTES) == 0, "no base");
    free(delta);
}

static void write_script(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    chmod(path, 0700);
}

// A stand-in for nvdisasm: what it prints is returned, what it complains about is told, and its
// absence too.
static void test_sass(void) {
    char tool[300], *text;
    size_t length;
    fa4_error err;
    snprintf(tool, sizeof tool, "%s/nvdisasm", folder);
    write_script(tool, "#!/bin/sh\n[ \"$1\" = -c ] || exit 1\ncat \"$2\"\n");
    setenv("FA4_NVDISASM", tool, 1);
    CHECK(kernel_sass("machine code", 12, &text, &length, &err) == FA4_OK && length == 12 &&
              strcmp(text, "machine code") == 0,
          "%s", err.text);
    free(text);
    write_script(tool, "#!/bin/sh\necho bad cubin >&2\nexit 3\n");
    CHECK(kernel_sass("x", 1, &text, &length, &err) == FA4_DEVICE_ERROR &&
              strstr(err.text, "bad cubin") != NULL,
          "%s", err.text);
    setenv("FA4_NVDISASM", "/nonexistent/nvdisasm", 1);
    CHECK(kernel_sass("x", 1, &text, &length, &err) == FA4_NO_DEVICE &&
              strstr(err.text, "nvdisasm") != NULL,
          "%s", err.text);
    unsetenv("FA4_NVDISASM");
}

int main(void) {
    const char *base = getenv("TMPDIR");
    nvrtc *library = NULL;
    fa4_error err;
    snprintf(folder, sizeof folder, "%s/fa4-images-XXXXXX", base ? base : "/tmp");
    if (mkdtemp(folder) == NULL) return 1;
    test_names();
    test_options();
    test_no_compiler();
    test_catalogue();
    test_delta();
    test_sass();
    bool compiler = nvrtc_open(&library, &err) == FA4_OK;
    if (compiler) {
        test_compile(library);
        test_image();
    }
    nvrtc_close(library);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0, "%s", command);
    if (compiler) return check_report();
    printf("skipped: compiling kernels: %s\n%d passed, %d failed, 2 skipped\n", err.text,
           check_passed, check_failed);
    return check_failed != 0;
}
