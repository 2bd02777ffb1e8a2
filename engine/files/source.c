/* Reading: an open regular file whose size was taken once, and storages made from its bytes. */
#include "files/files_internal.h"

#include "core/size.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static fa4_status refuse_system(const file_source *source, const char *what, fa4_error *err) {
    return error_set(err, FA4_IO, "%s: cannot %s: %s", source->path, what, strerror(errno));
}

fa4_status source_open(file_source *source, const char *path, fa4_error *err) {
    *source = (file_source){.fd = -1, .path = path};
    /* Not blocking: opening a pipe that nobody writes to would wait for ever. */
    source->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (source->fd < 0) return refuse_system(source, "open", err);
    struct stat info;
    if (fstat(source->fd, &info) != 0) return refuse_system(source, "ask for its size", err);
    if (S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return refuse_system(source, "read", err);
    }
    if (!S_ISREG(info.st_mode)) return error_set(err, FA4_BAD_FILE, "%s: not a regular file", path);
    source->bytes = info.st_size;
    return FA4_OK;
}

void source_close(file_source *source) {
    if (source->fd >= 0) close(source->fd);
    source->fd = -1;
}

fa4_status source_read(const file_source *source, int64_t offset, void *to, int64_t bytes,
                       fa4_error *err) {
    int64_t end;
    if (offset < 0 || bytes < 0 || !size_add(offset, bytes, &end) || end > source->bytes)
        return error_set(err, FA4_BAD_FILE,
                         "%s: bytes %lld to %lld + %lld lie outside the file of %lld bytes",
                         source->path, (long long)offset, (long long)offset, (long long)bytes,
                         (long long)source->bytes);
    const int64_t piece_max = INT64_C(1) << 30;
    while (bytes > 0) {
        ssize_t got =
            pread(source->fd, to, (size_t)(bytes < piece_max ? bytes : piece_max), offset);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return refuse_system(source, "read", err);
        if (got == 0)
            return error_set(err, FA4_BAD_FILE, "%s: the file became shorter while it was read",
                             source->path);
        to = (char *)to + got;
        offset += got;
        bytes -= got;
    }
    return FA4_OK;
}

static int64_t page_bytes(void) {
    return (int64_t)sysconf(_SC_PAGESIZE);
}

/* The mapping starts at the page that data lies in. */
static void unmap(void *data, int64_t bytes) {
    uintptr_t lead = (uintptr_t)data % (uintptr_t)page_bytes();
    munmap((char *)data - lead, (size_t)bytes + lead);
}

static fa4_status map_entry(file_entry *entry, const file_source *source, int64_t offset,
                            int64_t bytes, const file_memory *memory, fa4_error *err) {
    int64_t lead = offset % page_bytes();
    char *base = mmap(NULL, (size_t)(bytes + lead), PROT_READ | PROT_WRITE, MAP_PRIVATE, source->fd,
                      (off_t)(offset - lead));
    if (base == MAP_FAILED) return refuse_system(source, "map", err);
    fa4_status status =
        memory->adopt(memory->state, base + lead, bytes, unmap, &entry->storage, err);
    if (status != FA4_OK) unmap(base + lead, bytes);
    return status;
}

fa4_status entry_take(file_entry *entry, const file_source *source, int64_t offset, int64_t bytes,
                      const file_memory *memory, bool map, fa4_error *err) {
    if (map && bytes > 0 && offset % fa4_dtype_bytes(entry->tensor.dtype) == 0)
        return map_entry(entry, source, offset, bytes, memory, err);
    FA4_TRY(memory->create(memory->state, bytes, &entry->storage, err));
    return source_read(source, offset, fa4_storage_data(entry->storage), bytes, err);
}
