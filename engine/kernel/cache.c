/*
 * The cache's folder: entries, their checks, and the removal of old ones.
 *
 *   entry = header (magic, version, key, name, compiler, sizes, checksum of all that) | ptx | cubin
 * | checksum of ptx and cubin
 *
 * Files: <key in hex>.kernel; while being written <key>.<process>.<number>.part. Nothing here is
 * fatal: a kernel can always be compiled again, so what goes wrong is told once, as the cache's
 * warning.
 */
#include "kernel/cache.h"

#include "core/environment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FOLDER_BYTES = 2048, PATH_BYTES = 4096, PART_AGE_S = 3600, CACHE_BYTES_DEFAULT = 256 << 20 };
#define ENTRY_BYTES_MAX ((uint64_t)64 << 20)
#define ENDING          ".kernel"
#define PART_ENDING     ".part"

static const char magic[8] = {'F', 'A', '4', 'K', 'E', 'R', 'N', '1'};

typedef struct entry_header {
    char magic[8];
    sha256_digest key;
    char name[96];
    char compiler[32];
    uint64_t ptx_bytes, cubin_bytes;
    sha256_digest checksum; /* of the fields above */
} entry_header;

struct kernel_cache {
    char folder[FOLDER_BYTES]; /* "" = off */
    int64_t bytes_max;
    uint32_t writes;
    char warning[FOLDER_BYTES + 512];
};

/* ---- opening ---- */

static bool make_folders(char *path) {
    for (char *at = path + 1; *at != '\0'; at++) {
        if (*at != '/') continue;
        *at = '\0';
        int result = mkdir(path, 0700);
        *at = '/';
        if (result != 0 && errno != EEXIST && errno != EACCES && errno != EROFS) return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static void turn_off(kernel_cache *c, const char *what) {
    snprintf(c->warning, sizeof c->warning, "no kernel cache: %s%s%s; every start compiles anew",
             c->folder, *c->folder ? ": " : "", what);
    c->folder[0] = '\0';
}

static void warn_once(kernel_cache *c, const char *what) {
    if (*c->warning != '\0') return;
    snprintf(c->warning, sizeof c->warning,
             "kernel cache %s cannot be written: %s; kernels are compiled anew each time",
             c->folder, what);
}

// false when no folder can be named.
static bool name_folder(kernel_cache *c, const char *wanted) {
    const char *forced = getenv("FA4_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int n;
    if (wanted != NULL)
        n = snprintf(c->folder, sizeof c->folder, "%s", wanted);
    else if (forced != NULL && *forced != '\0')
        n = snprintf(c->folder, sizeof c->folder, "%s", forced);
    else if (xdg != NULL && *xdg == '/')
        n = snprintf(c->folder, sizeof c->folder, "%s/fa4", xdg);
    else if (home != NULL && *home == '/')
        n = snprintf(c->folder, sizeof c->folder, "%s/.cache/fa4", home);
    else
        return false;
    if (n > 0 && (size_t)n < sizeof c->folder) return true;
    c->folder[0] = '\0';
    return false;
}

// FA4_CACHE_BYTES, and FA4_CACHE=0, which turns the cache off.
static fa4_status read_environment(int64_t *bytes_max, int64_t *on, fa4_error *err) {
    const environment_range bytes = {"FA4_CACHE_BYTES", 1, INT64_C(1000000000000000), CACHE_BYTES_DEFAULT};
    const environment_range cache = {"FA4_CACHE", 0, 1, 1};
    FA4_TRY(environment_whole(&bytes, bytes_max, err));
    return environment_whole(&cache, on, err);
}

fa4_status kernel_cache_open(const kernel_cache_options *options, kernel_cache **cache,
                             fa4_error *err) {
    kernel_cache_options wanted = options ? *options : (kernel_cache_options){0};
    int64_t bytes_max = 0, on = 1;
    *cache = NULL;
    FA4_TRY(read_environment(&bytes_max, &on, err));
    kernel_cache *c = calloc(1, sizeof *c);
    *cache = c;
    if (c == NULL) return error_set(err, FA4_NO_MEMORY, "kernel cache: out of memory");
    c->bytes_max = wanted.bytes_max > 0 ? wanted.bytes_max : bytes_max;
    if (wanted.folder == NULL && !on) return FA4_OK;
    if (!name_folder(c, wanted.folder))
        turn_off(c, "neither FA4_CACHE_DIR, XDG_CACHE_HOME nor HOME names a folder");
    else if (!make_folders(c->folder))
        turn_off(c, strerror(errno));
    else if (access(c->folder, R_OK | X_OK) != 0)
        turn_off(c, strerror(errno));
    return FA4_OK;
}

void kernel_cache_close(kernel_cache *cache) {
    free(cache);
}

const char *kernel_cache_folder(const kernel_cache *cache) {
    return cache->folder;
}

int64_t kernel_cache_bytes_max(const kernel_cache *cache) {
    return cache->bytes_max;
}

const char *kernel_cache_warning(const kernel_cache *cache) {
    return cache->warning;
}

/* ---- one entry ---- */

static bool entry_path(const kernel_cache *c, const sha256_digest *key, char path[PATH_BYTES]) {
    char hex[SHA256_HEX_BYTES];
    sha256_hex(key, hex);
    int n = snprintf(path, PATH_BYTES, "%s/%s" ENDING, c->folder, hex);
    return *c->folder != '\0' && n > 0 && n < PATH_BYTES;
}

static sha256_digest digest_of(const void *data, size_t bytes, const void *more,
                               size_t more_bytes) {
    sha256 s;
    sha256_start(&s);
    sha256_add(&s, data, bytes);
    if (more_bytes > 0) sha256_add(&s, more, more_bytes);
    return sha256_finish(&s);
}

static bool same(const sha256_digest *a, const sha256_digest *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

// The header alone says whether the file can be an entry; its texts end within their fields.
static bool read_header(FILE *file, entry_header *h) {
    if (fread(h, sizeof *h, 1, file) != 1 || memcmp(h->magic, magic, sizeof magic) != 0)
        return false;
    sha256_digest checksum = digest_of(h, offsetof(entry_header, checksum), NULL, 0);
    return same(&checksum, &h->checksum) && memchr(h->name, '\0', sizeof h->name) != NULL &&
           memchr(h->compiler, '\0', sizeof h->compiler) != NULL &&
           h->ptx_bytes <= ENTRY_BYTES_MAX && h->cubin_bytes <= ENTRY_BYTES_MAX;
}

static bool read_body(FILE *file, const entry_header *h, kernel_cache_entry *entry) {
    sha256_digest stored, checksum;
    entry->ptx = calloc(1, h->ptx_bytes + 1);
    entry->cubin = h->cubin_bytes ? malloc(h->cubin_bytes) : NULL;
    if (entry->ptx == NULL || (entry->cubin == NULL && h->cubin_bytes > 0)) return false;
    if (fread(entry->ptx, 1, h->ptx_bytes, file) != h->ptx_bytes) return false;
    if (h->cubin_bytes > 0 && fread(entry->cubin, 1, h->cubin_bytes, file) != h->cubin_bytes)
        return false;
    if (fread(&stored, sizeof stored, 1, file) != 1 || fgetc(file) != EOF) return false;
    checksum = digest_of(entry->ptx, h->ptx_bytes, entry->cubin, h->cubin_bytes);
    return same(&checksum, &stored) && strlen(entry->ptx) == h->ptx_bytes;
}

bool kernel_cache_read(kernel_cache *c, const sha256_digest *key, kernel_cache_entry *entry) {
    char path[PATH_BYTES];
    entry_header h;
    *entry = (kernel_cache_entry){0};
    if (!entry_path(c, key, path)) return false;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return false;
    bool good = read_header(file, &h) && same(&h.key, key) && read_body(file, &h, entry);
    fclose(file);
    if (!good) {
        kernel_cache_entry_free(entry);
        unlink(path);
        return false;
    }
    memcpy(entry->name, h.name, sizeof h.name);
    memcpy(entry->compiler, h.compiler, sizeof h.compiler);
    entry->ptx_bytes = h.ptx_bytes;
    entry->cubin_bytes = h.cubin_bytes;
    utimensat(AT_FDCWD, path, NULL, 0); /* used now; a read-only cache stays as it is */
    return true;
}

void kernel_cache_entry_free(kernel_cache_entry *entry) {
    free(entry->ptx);
    free(entry->cubin);
    *entry = (kernel_cache_entry){0};
}

/* ---- writing and making room ---- */

static bool has_ending(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0;
}

/* A file of the folder. */
typedef struct found {
    char file[80];
    int64_t bytes;
    struct timespec used;
} found;

static int newest_first(const void *a, const void *b) {
    const struct timespec *x = &((const found *)a)->used, *y = &((const found *)b)->used;
    if (x->tv_sec != y->tv_sec) return x->tv_sec < y->tv_sec ? 1 : -1;
    return x->tv_nsec < y->tv_nsec   ? 1
           : x->tv_nsec > y->tv_nsec ? -1
                                     : strcmp(((const found *)a)->file, ((const found *)b)->file);
}

static bool add_found(found **list, int64_t *count, int64_t *room, const char *file,
                      const struct stat *info) {
    size_t length = strlen(file);
    if (length >= sizeof (*list)->file) return true; // no name of ours is so long
    if (*count == *room) {
        int64_t larger = *room ? *room * 2 : 64;
        found *copy = realloc(*list, (size_t)larger * sizeof *copy);
        if (copy == NULL) return false;
        *list = copy;
        *room = larger;
    }
    found *f = &(*list)[(*count)++];
    memcpy(f->file, file, length + 1);
    f->bytes = info->st_size;
    f->used = info->st_mtim;
    return true;
}

// Entries, newest first. What a writer left unfinished an hour ago (or at all, when parts is 1) is
// removed on the way.
static found *scan(const kernel_cache *c, bool parts, int64_t *count) {
    found *list = NULL;
    int64_t room = 0;
    *count = 0;
    DIR *folder = *c->folder ? opendir(c->folder) : NULL;
    if (folder == NULL) return NULL;
    for (struct dirent *e; (e = readdir(folder)) != NULL;) {
        struct stat info;
        bool part = has_ending(e->d_name, PART_ENDING),
             entry = has_ending(e->d_name, ENDING) && strlen(e->d_name) < sizeof list->file;
        if ((!part && !entry) ||
            fstatat(dirfd(folder), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode))
            continue;
        if (part && (parts || time(NULL) - info.st_mtime > PART_AGE_S))
            unlinkat(dirfd(folder), e->d_name, 0);
        if (entry && !add_found(&list, count, &room, e->d_name, &info)) break;
    }
    closedir(folder);
    if (*count > 0) qsort(list, (size_t)*count, sizeof *list, newest_first);
    return list;
}

static void make_room(kernel_cache *c) {
    int64_t count, used = 0;
    found *list = scan(c, false, &count);
    for (int64_t i = 0; i < count; i++) {
        char path[PATH_BYTES];
        used += list[i].bytes;
        if (i == 0 || used <= c->bytes_max) continue; /* the newest stays, however large */
        snprintf(path, sizeof path, "%s/%s", c->folder, list[i].file);
        unlink(path);
    }
    free(list);
}

static bool write_file(FILE *file, const entry_header *h, const kernel_cache_entry *entry) {
    sha256_digest checksum =
        digest_of(entry->ptx, entry->ptx_bytes, entry->cubin, entry->cubin_bytes);
    bool good = fwrite(h, sizeof *h, 1, file) == 1 &&
                fwrite(entry->ptx, 1, entry->ptx_bytes, file) == entry->ptx_bytes;
    if (entry->cubin_bytes > 0)
        good = good && fwrite(entry->cubin, 1, entry->cubin_bytes, file) == entry->cubin_bytes;
    return good && fwrite(&checksum, sizeof checksum, 1, file) == 1 && fflush(file) == 0;
}

void kernel_cache_write(kernel_cache *c, const sha256_digest *key,
                        const kernel_cache_entry *entry) {
    char path[PATH_BYTES], part[PATH_BYTES];
    entry_header h = {
        .key = *key, .ptx_bytes = entry->ptx_bytes, .cubin_bytes = entry->cubin_bytes};
    if (!entry_path(c, key, path)) return;
    int n = snprintf(part, sizeof part, "%.*s.%ld.%u" PART_ENDING,
                     (int)(strlen(path) - strlen(ENDING)), path, (long)getpid(), c->writes++);
    if (n < 0 || (size_t)n >= sizeof part) return;
    memcpy(h.magic, magic, sizeof magic);
    snprintf(h.name, sizeof h.name, "%s", entry->name);
    snprintf(h.compiler, sizeof h.compiler, "%s", entry->compiler);
    h.checksum = digest_of(&h, offsetof(entry_header, checksum), NULL, 0);
    int handle = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = handle >= 0 ? fdopen(handle, "wb") : NULL;
    if (file == NULL) {
        warn_once(c, strerror(errno));
        if (handle >= 0) close(handle);
        return;
    }
    bool good = write_file(file, &h, entry);
    int failure = errno;
    if (fclose(file) != 0) good = false, failure = errno;
    if (good && rename(part, path) != 0) good = false, failure = errno;
    if (!good) {
        unlink(part);
        if (failure != ENOENT)
            warn_once(c, strerror(failure)); /* else another process cleared the cache meanwhile */
        return;
    }
    make_room(c);
}

/* ---- listing and clearing ---- */

fa4_status kernel_cache_list(kernel_cache *c, kernel_cache_item **items, int64_t *count,
                             fa4_error *err) {
    int64_t files;
    found *list = scan(c, false, &files);
    kernel_cache_item *out = calloc((size_t)files + 1, sizeof *out);
    *items = out;
    *count = 0;
    for (int64_t i = 0; out != NULL && i < files; i++) {
        char path[PATH_BYTES];
        entry_header h;
        snprintf(path, sizeof path, "%s/%s", c->folder, list[i].file);
        FILE *file = fopen(path, "rb");
        if (file == NULL) continue;
        if (read_header(file, &h)) {
            kernel_cache_item *item = &out[(*count)++];
            memcpy(item->file, list[i].file, sizeof item->file);
            memcpy(item->name, h.name, sizeof item->name);
            memcpy(item->compiler, h.compiler, sizeof item->compiler);
            item->bytes = list[i].bytes;
            item->used_s = list[i].used.tv_sec;
        }
        fclose(file);
    }
    free(list);
    return out != NULL ? FA4_OK : error_set(err, FA4_NO_MEMORY, "kernel cache: out of memory");
}

fa4_status kernel_cache_clear(kernel_cache *c, int64_t *entries, int64_t *bytes, fa4_error *err) {
    int64_t count;
    found *list = scan(c, true, &count);
    fa4_status status = FA4_OK;
    *entries = *bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", c->folder, list[i].file);
        if (unlink(path) == 0) {
            ++*entries;
            *bytes += list[i].bytes;
        } else if (errno != ENOENT && status == FA4_OK) { /* another process may have been faster */
            status = error_set(err, FA4_IO, "%s: %s", path, strerror(errno));
        }
    }
    free(list);
    return status;
}
