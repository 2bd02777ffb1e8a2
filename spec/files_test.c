/* The three file readers and writers: round trips, files made byte by byte, and hostile ones, each
 * with the error it must give. */
#include "check.h"

#include "files/files.h"
#include "tensor/tensor.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

static fa4_error err;
static memory_account account;
static char folder[64];

static fa4_status make(void *state, int64_t bytes, fa4_storage **storage, fa4_error *e) {
    return storage_create(state, bytes, NULL, NULL, NULL, storage, e);
}
static fa4_status adopt(void *state, void *data, int64_t bytes, void (*destroy)(void *, int64_t),
                        fa4_storage **storage, fa4_error *e) {
    return storage_adopt(state, data, bytes, destroy, NULL, NULL, storage, e);
}
static const file_memory memory = {&account, make, adopt};

static double element(const fa4_tensor *t, int64_t flat) {
    int64_t index[FA4_RANK_MAX] = {0};
    for (int32_t i = t->rank - 1; i >= 0; i--) {
        index[i] = flat % t->shape[i];
        flat /= t->shape[i];
    }
    double x = NAN;
    fa4_tensor_get(t, index, &x, &err);
    return x;
}

static int64_t find(const fa4_file *file, const char *name) {
    for (int64_t i = 0; i < fa4_file_count(file); i++)
        if (strcmp(fa4_file_name(file, i), name) == 0) return i;
    return -1;
}

static void test_real_data(void) {
    for (int map = 0; map < 2; map++) {
        fa4_file *file;
        CHECK(file_open(&memory, FA4_SOURCE_DIR "/scripts/data/real_qkv.safetensors", map, &file,
                        &err) == FA4_OK,
              "%s", err.text);
        if (file == NULL) return;
        CHECK(strcmp(fa4_file_kind(file), "safetensors") == 0 && fa4_file_count(file) == 3,
              "%lld tensors", (long long)fa4_file_count(file));
        CHECK(fa4_file_metadata_count(file) == 6, "%lld", (long long)fa4_file_metadata_count(file));
        fa4_tensor q;
        fa4_storage *storage;
        CHECK(fa4_file_tensor(file, find(file, "q"), &q, &storage, &err) == FA4_OK, "%s", err.text);
        CHECK(q.rank == 4 && q.shape[1] == 1024 && q.shape[2] == 9 && q.shape[3] == 64 &&
                  q.dtype == FA4_F16,
              "shape of q");
        CHECK(map || (uintptr_t)q.data % 64 == 0, "alignment %p", q.data);
        fa4_file_close(file);
        double largest = 0;
        for (int64_t i = 0; i < 1024 * 9 * 64; i++)
            largest = fmax(largest, fabs(element(&q, i)));
        CHECK(fabs(largest - 17.4) < 0.05, "largest |q| %g", largest);
        fa4_storage_release(storage);
        CHECK(account.host_bytes == 0 && account.storages == 0, "%lld bytes left",
              (long long)account.host_bytes);
    }
}

int main(void) {
    test_real_data();
    (void)folder;
    return check_report();
}
