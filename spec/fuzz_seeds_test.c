/* The fuzz targets' seeds, run once each: what fuzzing has found stays found, without clang. */
#include "check.h"
#include "../fuzz/fuzz.h"

#include <dirent.h>

static void run_seed(fuzz_kind kind, const char *path) {
    static uint8_t bytes[1 << 16];
    FILE *f = fopen(path, "rb");
    size_t n = f != NULL ? fread(bytes, 1, sizeof bytes, f) : 0;
    CHECK(f != NULL && n > 0, "%s can be read", path);
    if (f != NULL) fclose(f);
    CHECK(fuzz_run(kind, bytes, n) == 0, "%s", path);
    /* Also cut in half, and with one byte changed. */
    fuzz_run(kind, bytes, n / 2);
    bytes[n / 2] ^= 0x10;
    fuzz_run(kind, bytes, n);
}

int main(void) {
    static const char *const kinds[] = {"npy", "npz", "safetensors"};
    for (int kind = 0; kind < 3; kind++) {
        char folder[512], path[1024];
        snprintf(folder, sizeof folder, FA4_SOURCE_DIR "/spec/fuzz/seeds/%s", kinds[kind]);
        DIR *d = opendir(folder);
        CHECK(d != NULL, "%s", folder);
        int seeds = 0;
        for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d)) {
            if (e->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            run_seed((fuzz_kind)kind, path);
            seeds++;
        }
        CHECK(seeds >= 3, "%s: %d seeds", folder, seeds);
        if (d != NULL) closedir(d);
    }
    return check_report();
}
