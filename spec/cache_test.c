/* The kernel cache: entries survive, damage is found, sixteen processes share it, the oldest go
 * first, and no folder is no failure. */
#include "check.h"

#include "kernel/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[256];

static sha256_digest key_of(int number) {
    sha256 s;
    sha256_start(&s);
    sha256_add(&s, &number, sizeof number);
    return sha256_finish(&s);
}

static kernel_cache *open_cache(int64_t bytes_max) {
    kernel_cache *cache;
    kernel_cache_options options = {folder, bytes_max};
    CHECK(kernel_cache_open(&options, &cache, NULL) == FA4_OK, "open");
    return cache;
}

// The entry of a number: its content follows from the number, so that a reader can tell it from any
// other.
static void fill(int number, kernel_cache_entry *entry, size_t bytes) {
    *entry = (kernel_cache_entry){
        .name = "kernel", .compiler = "NVRTC 13.0", .ptx = malloc(bytes + 1), .ptx_bytes = bytes};
    for (size_t i = 0; i < bytes; i++)
        entry->ptx[i] = (char)('a' + (i * 7 + (size_t)number) % 26);
    entry->ptx[bytes] = '\0';
    entry->cubin_bytes = bytes / 2;
    entry->cubin = malloc(entry->cubin_bytes + 1);
    memset(entry->cubin, number, entry->cubin_bytes);
}

static void write_entry(kernel_cache *cache, int number, size_t bytes) {
    kernel_cache_entry entry;
    sha256_digest key = key_of(number);
    fill(number, &entry, bytes);
    kernel_cache_write(cache, &key, &entry);
    kernel_cache_entry_free(&entry);
}

// 1 when it is there and right, 0 when absent, -1 when wrong.
static int read_entry(kernel_cache *cache, int number, size_t bytes) {
    kernel_cache_entry want, have;
    sha256_digest key = key_of(number);
    if (!kernel_cache_read(cache, &key, &have)) return 0;
    fill(number, &want, bytes);
    bool good = have.ptx_bytes == bytes && memcmp(have.ptx, want.ptx, bytes + 1) == 0 &&
                have.cubin_bytes == want.cubin_bytes &&
                memcmp(have.cubin, want.cubin, want.cubin_bytes) == 0 &&
                strcmp(have.name, "kernel") == 0;
    kernel_cache_entry_free(&have);
    kernel_cache_entry_free(&want);
    return good ? 1 : -1;
}

static void path_of(int number, char path[512]) {
    char hex[SHA256_HEX_BYTES];
    sha256_digest key = key_of(number);
    sha256_hex(&key, hex);
    snprintf(path, 512, "%s/%s.kernel", folder, hex);
}

static int64_t count_files(kernel_cache *cache) {
    kernel_cache_item *items;
    int64_t count;
    CHECK(kernel_cache_list(cache, &items, &count, NULL) == FA4_OK, "list");
    free(items);
    return count;
}

static void test_sha256(void) {
    char hex[SHA256_HEX_BYTES];
    sha256 s;
    sha256_start(&s);
    sha256_add(&s, "abc", 3);
    sha256_digest d = sha256_finish(&s);
    sha256_hex(&d, hex);
    CHECK(strcmp(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad") == 0,
          "abc: %s", hex);
    sha256_start(&s);
    for (int i = 0; i < 1000000; i++)
        sha256_add(&s, "a", 1);
    d = sha256_finish(&s);
    sha256_hex(&d, hex);
    CHECK(strcmp(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") == 0,
          "a million a: %s", hex);
    sha256_start(&s);
    sha256_add(&s, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56);
    d = sha256_finish(&s);
    sha256_hex(&d, hex);
    CHECK(strcmp(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1") == 0,
          "56 bytes: %s", hex);
}

static void test_entries(void) {
    kernel_cache *cache = open_cache(0);
    CHECK(read_entry(cache, 1, 1000) == 0, "an empty cache has an entry");
    write_entry(cache, 1, 1000);
    CHECK(read_entry(cache, 1, 1000) == 1, "the entry is not what was written");
    CHECK(read_entry(cache, 2, 1000) == 0, "another key has the entry");
    write_entry(cache, 1, 1000);
    CHECK(count_files(cache) == 1, "written twice: %d files", (int)count_files(cache));
    kernel_cache_item *items;
    int64_t count, bytes;
    CHECK(kernel_cache_list(cache, &items, &count, NULL) == FA4_OK && count == 1, "list");
    CHECK(strcmp(items[0].name, "kernel") == 0 && strcmp(items[0].compiler, "NVRTC 13.0") == 0 &&
              items[0].bytes > 1500,
          "%s", items[0].name);
    free(items);
    CHECK(kernel_cache_clear(cache, &count, &bytes, NULL) == FA4_OK && count == 1 && bytes > 1500,
          "clear: %d", (int)count);
    CHECK(count_files(cache) == 0, "files are left");
    kernel_cache_close(cache);
}

// Every truncation and every flipped bit of a small entry is found; the damaged file is gone, and
// the entry can be made again.
static void test_damage(void) {
    enum { BYTES = 40 };
    kernel_cache *cache = open_cache(0);
    char path[512];
    path_of(7, path);
    write_entry(cache, 7, BYTES);
    struct stat info;
    CHECK(stat(path, &info) == 0, "%s", path);
    size_t size = (size_t)info.st_size;
    unsigned char *good = malloc(size + 1), *bad = malloc(size + 1);
    FILE *file = fopen(path, "rb");
    CHECK(fread(good, 1, size, file) == size, "read");
    fclose(file);
    int undetected = 0, left = 0;
    for (size_t i = 0; i < size + size * 8 + 1; i++) {
        memcpy(bad, good, size);
        size_t bytes = i < size ? i : size;
        if (i >= size && i < size * 9) bad[(i - size) / 8] ^= (unsigned char)(1 << (i % 8));
        if (i == size * 9) bad[bytes++] = 0; /* one byte too many */
        file = fopen(path, "wb");
        fwrite(bad, 1, bytes, file);
        fclose(file);
        if (read_entry(cache, 7, BYTES) != 0) undetected++;
        if (access(path, F_OK) == 0) left++;
    }
    CHECK(undetected == 0, "%d damaged entries were taken", undetected);
    CHECK(left == 0, "%d damaged files were left", left);
    write_entry(cache, 7, BYTES);
    CHECK(read_entry(cache, 7, BYTES) == 1, "the entry cannot be made again");
    free(good);
    free(bad);
    kernel_cache_close(cache);
}

static void set_age(int number, int seconds) {
    char path[512];
    path_of(number, path);
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= seconds;
    times[1] = times[0];
    CHECK(utimensat(AT_FDCWD, path, times, 0) == 0, "utimensat");
}

static void test_least_recently_used(void) {
    int64_t entries, bytes;
    kernel_cache *cache = open_cache(40000);
    CHECK(kernel_cache_clear(cache, &entries, &bytes, NULL) == FA4_OK, "clear");
    for (int i = 0; i < 3; i++) { /* each about 10,300 bytes */
        write_entry(cache, i, 6700);
        set_age(i, 100 - i);
    }
    CHECK(read_entry(cache, 0, 6700) == 1, "reading makes entry 0 the newest");
    write_entry(cache, 3, 6700);
    CHECK(count_files(cache) == 3, "%d files after one too many", (int)count_files(cache));
    CHECK(read_entry(cache, 1, 6700) == 0, "entry 1 was the oldest");
    CHECK(read_entry(cache, 0, 6700) == 1 && read_entry(cache, 2, 6700) == 1 &&
              read_entry(cache, 3, 6700) == 1,
          "the others stay");
    char part[512];
    snprintf(part, sizeof part, "%s/left.1.0.part", folder);
    fclose(fopen(part, "wb"));
    write_entry(cache, 4, 100);
    CHECK(access(part, F_OK) == 0, "a writer at work lost its file");
    CHECK(kernel_cache_clear(cache, &entries, &bytes, NULL) == FA4_OK && access(part, F_OK) != 0,
          "clear leaves unfinished files");
    kernel_cache_close(cache);
}

// Sixteen processes write, read, damage and clear the same few entries. What is read must be right.
static void test_processes(void) {
    enum { PROCESSES = 16, ROUNDS = 120, KEYS = 5 };
    pid_t children[PROCESSES];
    for (int p = 0; p < PROCESSES; p++) {
        fflush(NULL);
        children[p] = fork();
        if (children[p] != 0) continue;
        kernel_cache *cache = open_cache(60000);
        int wrong = check_failed, seen = 0;
        for (int i = 0; i < ROUNDS; i++) {
            int number = (i * 7 + p) % KEYS;
            int result = read_entry(cache, number, 5000 + (size_t)number);
            if (result < 0) wrong++;
            if (result > 0) seen++;
            if (result == 0) write_entry(cache, number, 5000 + (size_t)number);
            if (p == 3 && i % 40 == 39) {
                int64_t entries, bytes;
                if (kernel_cache_clear(cache, &entries, &bytes, NULL) != FA4_OK) wrong++;
            }
            if (p == 5 && i % 10 == 9) {
                char path[512];
                path_of(number, path);
                if (truncate(path, 300) != 0 && errno != ENOENT) wrong++;
            }
        }
        if (*kernel_cache_warning(cache) != '\0') wrong++;
        kernel_cache_close(cache);
        _exit(wrong > 0 ? 1 : seen == 0 ? 2 : 0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        CHECK(waitpid(children[p], &status, 0) == children[p] && WIFEXITED(status) &&
                  WEXITSTATUS(status) == 0,
              "process %d: status %d", p, status);
    }
    kernel_cache *cache = open_cache(0);
    for (int i = 0; i < 5; i++)
        CHECK(read_entry(cache, i, 5000 + (size_t)i) >= 0, "entry %d is wrong", i);
    int64_t entries, bytes;
    CHECK(kernel_cache_clear(cache, &entries, &bytes, NULL) == FA4_OK, "clear");
    kernel_cache_close(cache);
}

// Faults as root meets them too: a file where a folder should be, and a disk without room.
static void test_degrades(void) {
    char path[300];
    kernel_cache *cache;
    snprintf(path, sizeof path, "%s/plain", folder);
    fclose(fopen(path, "wb"));
    setenv("FA4_CACHE_DIR", strcat(path, "/below"), 1);
    CHECK(kernel_cache_open(NULL, &cache, NULL) == FA4_OK, "open");
    CHECK(*kernel_cache_folder(cache) == '\0' &&
              strstr(kernel_cache_warning(cache), "no kernel cache") != NULL,
          "'%s'", kernel_cache_warning(cache));
    write_entry(cache, 1, 100);
    CHECK(read_entry(cache, 1, 100) == 0, "a cache that is off has an entry");
    int64_t entries, bytes;
    CHECK(kernel_cache_clear(cache, &entries, &bytes, NULL) == FA4_OK && entries == 0 &&
              count_files(cache) == 0,
          "off: clear and list");
    kernel_cache_close(cache);

    unsetenv("FA4_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    unsetenv("HOME");
    CHECK(kernel_cache_open(NULL, &cache, NULL) == FA4_OK &&
              strstr(kernel_cache_warning(cache), "HOME") != NULL,
          "'%s'", kernel_cache_warning(cache));
    kernel_cache_close(cache);
    if (home != NULL) setenv("HOME", home, 1);
    free(home);

    setenv("FA4_CACHE", "0", 1);
    CHECK(kernel_cache_open(NULL, &cache, NULL) == FA4_OK && *kernel_cache_folder(cache) == '\0' &&
              *kernel_cache_warning(cache) == '\0',
          "turned off on purpose, it has nothing to say");
    kernel_cache_close(cache);
    unsetenv("FA4_CACHE");

    setenv("XDG_CACHE_HOME", folder, 1);
    CHECK(kernel_cache_open(NULL, &cache, NULL) == FA4_OK, "open");
    snprintf(path, sizeof path, "%s/fa4", folder);
    CHECK(strcmp(kernel_cache_folder(cache), path) == 0, "%s", kernel_cache_folder(cache));
    CHECK(rmdir(path) == 0, "the folder is made and empty");
    write_entry(cache, 1, 100);
    CHECK(strstr(kernel_cache_warning(cache), "cannot be written") != NULL, "'%s'",
          kernel_cache_warning(cache));
    kernel_cache_close(cache);
    unsetenv("XDG_CACHE_HOME");
}

int main(void) {
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/fa4-cache-XXXXXX", base ? base : "/tmp");
    if (mkdtemp(folder) == NULL) return 1;
    test_sha256();
    test_entries();
    test_damage();
    test_least_recently_used();
    test_processes();
    test_degrades();
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0, "%s", command);
    return check_report();
}
