/* Files of tensors, read and written: the real data, files made byte by byte as numpy makes them,
 * round trips through every format, and what the system may do to a writer. */
#include "files.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

static void test_real_data(void) {
    for (int map = 0; map < 2; map++) {
        fa4_file *file = open_good(FA4_SOURCE_DIR "/scripts/data/real_qkv.safetensors", map);
        if (file == NULL) return;
        CHECK(strcmp(fa4_file_kind(file), "safetensors") == 0 && fa4_file_count(file) == 3,
              "%lld tensors", (long long)fa4_file_count(file));
        CHECK(fa4_file_metadata_count(file) == 6 && fa4_file_metadata_key(file, 6) == NULL,
              "metadata");
        CHECK(fa4_file_name(file, 3) == NULL && fa4_file_name(file, -1) == NULL,
              "names out of range");
        fa4_tensor q;
        fa4_storage *storage = NULL;
        CHECK(fa4_file_tensor(file, 3, &q, &storage, &err) == FA4_BAD_ARGUMENT,
              "a tensor out of range");
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
        int64_t zero[4] = {0};
        CHECK(fa4_tensor_set(&q, zero, 1, &err) == FA4_OK, "a mapping is private: %s", err.text);
        fa4_storage_release(storage);
        CHECK(account.host_bytes == 0 && account.storages == 0, "%lld bytes left",
              (long long)account.host_bytes);
    }
}

/* ---- files as numpy writes them ---- */

static void check_numpy(const char *version, const char *header, const void *data, size_t bytes,
                        int fortran) {
    blob b = {.count = 0};
    put(&b, "\x93NUMPY", 6);
    put(&b, version, 2);
    int width = version[0] == 1 ? 2 : 4;
    size_t length = (size_t)(128 - 8 - width);
    put_number(&b, length, width);
    put_string(&b, header);
    while (b.count < 127)
        put_string(&b, " ");
    put_string(&b, "\n");
    put(&b, data, bytes);
    const char *path = save("numpy.npy", b.bytes, b.count);
    for (int map = 0; map < 2; map++) {
        fa4_file *file = open_good(path, map);
        fa4_tensor t;
        fa4_storage *storage;
        if (file == NULL || fa4_file_tensor(file, 0, &t, &storage, &err) != FA4_OK) {
            CHECK(0, "%s: %s", header, err.text);
            continue;
        }
        CHECK(strcmp(fa4_file_name(file, 0), "") == 0 && strcmp(fa4_file_kind(file), "npy") == 0,
              "name and kind");
        CHECK(t.rank == 2 && t.shape[0] == 2 && t.shape[1] == 3, "shape of %s", header);
        CHECK((uintptr_t)t.data % 64 == 0, "alignment");
        for (int64_t i = 0; i < 6; i++) {
            double want = fortran ? (double)(i % 3 * 2 + i / 3) : (double)i;
            CHECK(element(&t, i) == want, "%s: element %lld is %g", header, (long long)i,
                  element(&t, i));
        }
        fa4_storage_release(storage);
        fa4_file_close(file);
    }
    unlink(path);
}

static void test_numpy(void) {
    static const float f32[6] = {0, 1, 2, 3, 4, 5};
    static const double f64[6] = {0, 1, 2, 3, 4, 5};
    static const int32_t i32[6] = {0, 1, 2, 3, 4, 5};
    static const uint16_t f16[6] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500};
    check_numpy("\1\0", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", f32,
                sizeof f32, 0);
    check_numpy("\2\0", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }", f64,
                sizeof f64, 0);
    check_numpy("\3\0", "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }", i32,
                sizeof i32, 1);
    check_numpy("\1\0", "{\"shape\":(2L,3L),\"fortran_order\":True,\"descr\":\"<f2\"}", f16,
                sizeof f16, 1);
}

/* ---- round trips ---- */

enum { TENSORS = 8 };

/* Tensors of every dtype and rank, some strided; `data` gives them their memory. */
static void make_tensors(fa4_named_tensor tensors[TENSORS], double data[TENSORS][3000]) {
    static const char *const names[TENSORS] = {
        "q", "keys/0", "\xc3\xbc \"\\\n\x7f", "none", "scalar", "long", "wide", "turned"};
    static const int32_t dtypes[TENSORS] = {FA4_F16, FA4_F32, FA4_I32, FA4_F64,
                                            FA4_F64, FA4_F16, FA4_F32, FA4_F64};
    for (int i = 0; i < TENSORS; i++) {
        fa4_tensor t = {.data = data[i],
                        .dtype = dtypes[i],
                        .rank = 3,
                        .shape = {2, 3, 4},
                        .strides = {12, 4, 1}};
        if (i == 3) t.shape[1] = 0;
        if (i == 4) t.rank = 0;
        if (i == 5)
            t = (fa4_tensor){
                .data = data[i], .dtype = dtypes[i], .rank = 1, .shape = {3000}, .strides = {1}};
        if (i == 6)
            t = (fa4_tensor){.data = data[i],
                             .dtype = dtypes[i],
                             .rank = 3,
                             .shape = {10, 300, 100},
                             .strides = {100, 0, 1}};
        if (i == 7) t.strides[0] = 1, t.strides[1] = 2, t.strides[2] = 6;
        tensors[i] = (fa4_named_tensor){names[i], t};
        fa4_tensor all = {
            .data = data[i], .dtype = dtypes[i], .rank = 1, .shape = {3000}, .strides = {1}};
        for (int64_t k = 0; k < 3000; k++)
            fa4_tensor_set(&all, &k, (double)(k % 1999) - 700, &err);
    }
}

static void compare(const fa4_file *file, const fa4_named_tensor *want) {
    fa4_tensor t;
    fa4_storage *storage;
    int64_t i = find(file, want->name);
    CHECK(i >= 0, "'%s' is there", want->name);
    if (i < 0 || fa4_file_tensor(file, i, &t, &storage, &err) != FA4_OK) return;
    CHECK(t.dtype == want->tensor.dtype && t.rank == want->tensor.rank, "'%s': dtype %d, rank %d",
          want->name, t.dtype, t.rank);
    int64_t elements = 1, wrong = 0;
    for (int32_t k = 0; k < t.rank; k++) {
        CHECK(t.shape[k] == want->tensor.shape[k], "'%s': axis %d", want->name, k);
        elements *= t.shape[k];
    }
    for (int64_t k = 0; k < elements; k++)
        wrong += element(&t, k) != element(&want->tensor, k);
    CHECK(wrong == 0, "'%s': %lld elements differ", want->name, (long long)wrong);
    fa4_storage_release(storage);
}

static void test_round_trips(void) {
    static double data[TENSORS][3000];
    fa4_named_tensor tensors[TENSORS];
    make_tensors(tensors, data);
    static const char *const paths[] = {"all.npz", "all.safetensors"};
    for (int k = 0; k < 4; k++) {
        const char *path = path_of(paths[k / 2]);
        if (k == 3) tensors[0].tensor.dtype = FA4_BF16;
        tensors[2].name = k < 2 ? "\xc3\xbc \"\\" : "\xc3\xbc \"\\\n\x7f";
        fa4_metadata metadata[2] = {{"made by", "a \"test\"\t\xe2\x82\xac"}, {"", ""}};
        CHECK(fa4_file_write(path, tensors, TENSORS, metadata, k / 2 * 2, &err) == FA4_OK, "%s: %s",
              path, err.text);
        fa4_file *file = open_good(path, k % 2);
        if (file == NULL) continue;
        CHECK(fa4_file_count(file) == TENSORS, "%lld", (long long)fa4_file_count(file));
        for (int i = 0; i < TENSORS; i++)
            compare(file, &tensors[i]);
        CHECK(fa4_file_metadata_count(file) == k / 2 * 2, "metadata");
        for (int64_t i = 0; i < fa4_file_metadata_count(file); i++) {
            const fa4_metadata *m = &metadata[fa4_file_metadata_key(file, i)[0] == '\0'];
            CHECK(strcmp(fa4_file_metadata_key(file, i), m->key) == 0, "key '%s'", m->key);
            CHECK(strcmp(fa4_file_metadata_value(file, i), m->value) == 0, "value '%s'", m->value);
        }
        fa4_file_close(file);
        unlink(path);
    }
    tensors[0].tensor.dtype = FA4_F16;
    for (int i = 0; i < TENSORS; i++) {
        const char *path = path_of("one.npy");
        CHECK(fa4_file_write(path, &tensors[i], 1, NULL, 0, &err) == FA4_OK, "%s", err.text);
        fa4_file *file = open_good(path, i % 2);
        fa4_named_tensor want = {"", tensors[i].tensor};
        if (file != NULL) compare(file, &want);
        fa4_file_close(file);
        unlink(path);
    }
    CHECK(fa4_file_write(path_of("none.safetensors"), NULL, 0, NULL, 0, &err) == FA4_OK, "%s",
          err.text);
    fa4_file *file = open_good(path_of("none.safetensors"), 0);
    CHECK(file != NULL && fa4_file_count(file) == 0, "no tensors");
    fa4_file_close(file);
    unlink(path_of("none.safetensors"));
    CHECK(account.host_bytes == 0 && account.storages == 0, "%lld bytes left",
          (long long)account.host_bytes);
}

/* Dtypes that fa4 lacks are refused when asked for; the other tensors of the file can be had. */
static void test_foreign_dtypes(void) {
    static const char header[] =
        "{\"a\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]},"
        "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[9,13]}}   ";
    blob b = {.count = 0};
    put_number(&b, strlen(header), 8);
    put_string(&b, header);
    put_number(&b, 0, 9);
    put_number(&b, 0x3fc00000, 4);
    for (int map = 0; map < 2;
         map++) { /* c lies at an odd address of the file: it cannot be mapped, so it is read */
        fa4_file *file = open_good(save("foreign.safetensors", b.bytes, b.count), map);
        if (file == NULL) return;
        fa4_tensor t;
        fa4_storage *storage;
        CHECK(fa4_file_tensor(file, find(file, "a"), &t, &storage, &err) == FA4_BAD_FILE, "I64");
        CHECK(strstr(err.text, "'a'") != NULL && strstr(err.text, "I64") != NULL, "%s", err.text);
        CHECK(fa4_file_tensor(file, find(file, "b"), &t, &storage, &err) == FA4_BAD_FILE &&
                  strstr(err.text, "U8") != NULL,
              "%s", err.text);
        CHECK(fa4_file_tensor(file, find(file, "c"), &t, &storage, &err) == FA4_OK &&
                  element(&t, 0) == 1.5,
              "%s", err.text);
        fa4_storage_release(storage);
        fa4_file_close(file);
    }
    unlink(path_of("foreign.safetensors"));
}

/* ---- what cannot be written ---- */

static void refuse_write(const char *path, const fa4_named_tensor *tensors, int64_t count,
                         const fa4_metadata *metadata, int64_t metadata_count, fa4_status status,
                         const char *words) {
    fa4_status got = fa4_file_write(path, tensors, count, metadata, metadata_count, &err);
    CHECK(got == status && strstr(err.text, words) != NULL, "%d, '%s' is not about '%s'", got,
          err.text, words);
}

static int files_in_folder(void) {
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static void test_refused_content(void) {
    float x[4] = {1, 2, 3, 4};
    fa4_named_tensor two[2] = {
        {"a", {.data = x, .dtype = FA4_F32, .rank = 1, .shape = {4}, .strides = {1}}}};
    two[1] = two[0];
    fa4_metadata metadata[2] = {{"k", "1"}, {"k", "2"}};
    refuse_write(path_of("x.txt"), two, 1, NULL, 0, FA4_BAD_ARGUMENT, "ends in none of");
    refuse_write(path_of("x.npy"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "exactly one");
    refuse_write(path_of("x.npz"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "'a' twice");
    refuse_write(path_of("x.npz"), two, 1, metadata, 1, FA4_BAD_ARGUMENT, "safetensors");
    refuse_write(path_of("x.safetensors"), two, 1, metadata, 2, FA4_BAD_ARGUMENT, "'k' twice");
    two[1].name = "__metadata__";
    refuse_write(path_of("x.safetensors"), two, 2, NULL, 0, FA4_BAD_ARGUMENT,
                 "taken by the format");
    two[1].name = "\xff";
    refuse_write(path_of("x.safetensors"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "UTF-8");
    two[1].name = "a\n";
    refuse_write(path_of("x.npz"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "control character");
    two[1].name = NULL;
    refuse_write(path_of("x.safetensors"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "NULL");
    two[1].name = "b";
    two[1].tensor.dtype = FA4_BF16;
    refuse_write(path_of("x.npz"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "write .safetensors");
    two[1].tensor.device = 1;
    refuse_write(path_of("x.safetensors"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "on a device");
    two[1].tensor.device = 0;
    two[1].tensor.shape[0] = -1;
    refuse_write(path_of("x.safetensors"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "'b': shape");
    two[1].tensor.shape[0] = INT64_MAX;
    refuse_write(path_of("x.safetensors"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "overflows");
    /* Two views of stride 0, 2^62 elements each: their sum overflows the offsets. */
    two[0].tensor.dtype = two[1].tensor.dtype = FA4_F16;
    two[0].tensor.shape[0] = two[1].tensor.shape[0] = INT64_C(1) << 61;
    two[0].tensor.strides[0] = two[1].tensor.strides[0] = 0;
    two[0].name = "c";
    refuse_write(path_of("x.safetensors"), two, 2, NULL, 0, FA4_BAD_ARGUMENT, "overflows");
    CHECK(files_in_folder() == 0, "%d files left", files_in_folder());
}

/* ---- the system ---- */

static void check_whole(const char *path, const char *want) {
    char got[64] = "";
    FILE *f = fopen(path, "rb");
    size_t n = f != NULL ? fread(got, 1, sizeof got - 1, f) : 0;
    if (f != NULL) fclose(f);
    CHECK(n == strlen(want) && memcmp(got, want, n) == 0, "%s holds '%s', not '%s'", path, got,
          want);
}

static void test_system(void) {
    static float x[50000];
    fa4_named_tensor one = {
        "a", {.data = x, .dtype = FA4_F32, .rank = 1, .shape = {50000}, .strides = {1}}};
    static const char *const names[] = {"x.npy", "x.npz", "x.safetensors"};
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        const char *path = path_of(names[i]);
        save(names[i], "old", 3);
        setrlimit(RLIMIT_FSIZE, &small);
        refuse_write(path, &one, 1, NULL, 0, FA4_IO, "File too large");
        setrlimit(RLIMIT_FSIZE, &old);
        CHECK(strstr(err.text, path) != NULL && files_in_folder() == 1, "%s, %d files", err.text,
              files_in_folder());
        check_whole(path, "old");
        unlink(path);
    }
    refuse_write(path_of("missing/x.npy"), &one, 1, NULL, 0, FA4_IO, "No such file or directory");
    refuse_write("/proc/x.npy", &one, 1, NULL, 0, FA4_IO, "cannot create");
    CHECK(mkdir(path_of("d.npy"), 0700) == 0, "a folder");
    refuse_write(path_of("d.npy"), &one, 1, NULL, 0, FA4_IO, "directory");
    rmdir(path_of("d.npy"));
    CHECK(fa4_file_write_bytes("/dev/full", "abc", 3, &err) == FA4_IO &&
              strstr(err.text, "No space left") != NULL,
          "%s", err.text);
    struct stat info;
    CHECK(stat("/dev/full", &info) == 0 && S_ISCHR(info.st_mode),
          "a device is written, not replaced");
}

static void test_places(void) {
    const char *path = path_of("a.txt");
    CHECK(fa4_file_write_bytes(path, "abc", 3, &err) == FA4_OK, "%s", err.text);
    check_whole(path, "abc");
    chmod(path, 0640);
    CHECK(symlink(path, path_of("link")) == 0, "a link");
    CHECK(fa4_file_write_bytes(path_of("link"), "", 0, &err) == FA4_OK, "%s", err.text);
    check_whole(path, "");
    struct stat info;
    CHECK(lstat(path_of("link"), &info) == 0 && S_ISLNK(info.st_mode), "the link stays a link");
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640, "the mode stays: %o",
          info.st_mode);
    CHECK(files_in_folder() == 2, "%d files", files_in_folder());
    unlink(path_of("link"));
    unlink(path);
    CHECK(fa4_file_write_bytes(path, NULL, 1, &err) == FA4_BAD_ARGUMENT, "no bytes");
    CHECK(fa4_file_write_bytes(NULL, "", 0, &err) == FA4_BAD_ARGUMENT, "no path");
    CHECK(fa4_file_write_bytes(path_of("missing/a"), "", 0, NULL) == FA4_IO, "no error to fill");
}

int main(void) {
    folder_create();
    test_real_data();
    test_numpy();
    test_round_trips();
    test_foreign_dtypes();
    test_refused_content();
    test_system();
    test_places();
    CHECK(rmdir(folder) == 0, "%s is empty again", folder);
    return check_report();
}
