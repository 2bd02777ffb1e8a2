/*
 * Compiles every section of the probes' CUDA source by NVRTC for sm_90a and writes the bundle of PTX that the runners read.
 * Usage: probe_compile probes.cu.txt probes.ptx
 */
#include "kernel/nvrtc.h"
#include "probe.h"

/* The compiler's own comments and blank lines say nothing here. */
static void write_ptx(FILE *file, const char *ptx) {
    for (const char *line = ptx; *line != 0;) {
        size_t length = strcspn(line, "\n");
        if (length > 0 && strncmp(line, "//", 2) != 0 && strspn(line, " \t") != length) fprintf(file, "%.*s\n", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

static bool compile_one(nvrtc *library, const probe *p, const char *begin, FILE *file) {
    static const char *const options[] = {"--gpu-architecture=compute_90a", "--device-as-default-execution-space", "--std=c++17", "-w"};
    char *source = strndup(p->ptx, p->ptx_bytes);
    nvrtc_job job = {.name = p->name, .source = source, .options = options, .option_count = 4};
    nvrtc_result result = {0};
    fa4_error err = {0};
    bool good = nvrtc_compile(library, &job, &result, &err) == FA4_OK;
    if (good) {
        fprintf(file, "%.*s\n", (int)(p->ptx - begin), begin);
        write_ptx(file, result.ptx);
        nvrtc_result_free(&result);
    } else {
        fprintf(stderr, "%s: %s\n", p->name, err.text);
    }
    free(source);
    return good;
}

int main(int argc, char **argv) {
    char *text = argc == 3 ? probe_read_file(argv[1]) : NULL;
    nvrtc *library = NULL;
    fa4_error err = {0};
    if (text == NULL) return fprintf(stderr, "usage: probe_compile probes.cu.txt probes.ptx\n"), 2;
    if (nvrtc_open(&library, &err) != FA4_OK) return fprintf(stderr, "%s\n", err.text), 1;
    FILE *file = fopen(argv[2], "wb");
    int failed = 0, done = 0;
    static probe p;
    const char *at = text;
    for (const char *begin = strstr(at, "//# "); file != NULL && probe_read(&at, &p); begin = strstr(at, "//# "), done++)
        if (!compile_one(library, &p, begin, file)) failed++;
    printf("%d probes compiled by NVRTC %s, %d failed\n", done - failed, nvrtc_version(library), failed);
    nvrtc_close(library);
    free(text);
    return file == NULL || fclose(file) != 0 || failed > 0;
}
