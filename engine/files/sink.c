/* Writing: bytes go to a temporary file beside their place, which is renamed when all is well. What
 * is no regular file (a device, a pipe) is written in place: renaming would replace it. */
#include "files/files_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static fa4_status refuse_system(const char *path, const char *what, fa4_error *err) {
    return error_set(err, FA4_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

/* ---- bytes ---- */

static fa4_status write_out(file_sink *sink, const char *bytes, int64_t count, fa4_error *err) {
    const int64_t piece_max = INT64_C(1) << 30;
    while (count > 0 && sink->fd >= 0) {
        ssize_t done = write(sink->fd, bytes, (size_t)(count < piece_max ? count : piece_max));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return refuse_system(sink->path, "write", err);
        bytes += done;
        count -= done;
    }
    return FA4_OK;
}

static fa4_status flush(file_sink *sink, fa4_error *err) {
    int64_t used = sink->used;
    sink->used = 0;
    return write_out(sink, sink->buffer, used, err);
}

fa4_status sink_put(file_sink *sink, const void *bytes, int64_t count, fa4_error *err) {
    const int64_t crc_max = INT64_C(1) << 30;
    for (int64_t at = 0; at < count && sink->sums; at += crc_max)
        sink->crc = (uint32_t)crc32(sink->crc, (const Bytef *)bytes + at,
                                    (uInt)(count - at < crc_max ? count - at : crc_max));
    sink->written += count;
    if (sink->fd < 0) return FA4_OK;
    if (count > (int64_t)sizeof sink->buffer - sink->used) FA4_TRY(flush(sink, err));
    if (count >= (int64_t)sizeof sink->buffer) return write_out(sink, bytes, count, err);
    if (count > 0) memcpy(sink->buffer + sink->used, bytes, (size_t)count);
    sink->used += count;
    return FA4_OK;
}

/* ---- elements ---- */

static bool is_contiguous(const fa4_tensor *tensor) {
    fa4_tensor dense = *tensor;
    entry_lay_out(&dense, false);
    for (int32_t i = 0; i < tensor->rank; i++)
        if (tensor->shape[i] > 1 && tensor->strides[i] != dense.strides[i]) return false;
    return true;
}

/* Copies pieces of at most `room` elements, each some steps of axis `axis` with all axes after it.
 */
static fa4_status put_pieces(file_sink *sink, const fa4_tensor *t, int64_t room, void *buffer,
                             fa4_error *err) {
    int64_t width = fa4_dtype_bytes(t->dtype), after = 1, index[FA4_RANK_MAX] = {0};
    int32_t axis = t->rank - 1;
    while (axis > 0 && after * t->shape[axis] <= room)
        after *= t->shape[axis--];
    int64_t steps = room / after;
    bool more = true;
    while (more) {
        int64_t offset = 0;
        for (int32_t i = 0; i <= axis; i++)
            offset += index[i] * t->strides[i];
        fa4_tensor piece = {
            .data = (char *)t->data + offset * width, .dtype = t->dtype, .rank = t->rank - axis};
        for (int32_t i = axis; i < t->rank; i++)
            piece.shape[i - axis] = t->shape[i], piece.strides[i - axis] = t->strides[i];
        piece.shape[0] =
            t->shape[axis] - index[axis] < steps ? t->shape[axis] - index[axis] : steps;
        fa4_tensor dense = piece;
        entry_lay_out(&dense, false);
        dense.data = buffer;
        FA4_TRY(fa4_tensor_copy(&dense, &piece, err));
        FA4_TRY(sink_put(sink, buffer, piece.shape[0] * after * width, err));
        index[axis] += steps;
        more = index[axis] < t->shape[axis];
        for (int32_t i = axis; i > 0 && !more; i--) {
            index[i] = 0;
            more = ++index[i - 1] < t->shape[i - 1];
        }
    }
    return FA4_OK;
}

fa4_status sink_put_tensor(file_sink *sink, const fa4_tensor *tensor, fa4_error *err) {
    int64_t elements, width = fa4_dtype_bytes(tensor->dtype);
    const int64_t buffer_bytes = 1 << 18;
    FA4_TRY(fa4_shape_elements(tensor->shape, tensor->rank, tensor->dtype, &elements, err));
    if (elements == 0) return FA4_OK;
    if (is_contiguous(tensor)) return sink_put(sink, tensor->data, elements * width, err);
    void *buffer = malloc((size_t)buffer_bytes);
    if (buffer == NULL) return error_set(err, FA4_NO_MEMORY, "%s: no memory to write", sink->path);
    fa4_status status = put_pieces(sink, tensor, buffer_bytes / width, buffer, err);
    free(buffer);
    return status;
}

/* ---- the place ---- */

typedef struct place {
    char *target;    /* the path with links resolved; NULL: written in place */
    char *temporary; /* NULL: none to remove */
} place;

static fa4_status open_in_place(file_sink *sink, fa4_error *err) {
    sink->fd = open(sink->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    return sink->fd < 0 ? refuse_system(sink->path, "open for writing", err) : FA4_OK;
}

static fa4_status open_beside(place *at, file_sink *sink, const struct stat *existing,
                              fa4_error *err) {
    enum { ATTEMPTS = 100, SUFFIX_BYTES = 40 };
    at->target = existing != NULL ? realpath(sink->path, NULL) : strdup(sink->path);
    if (at->target == NULL) return refuse_system(sink->path, "find", err);
    size_t bytes = strlen(at->target) + SUFFIX_BYTES;
    char *name = malloc(bytes);
    if (name == NULL) return error_set(err, FA4_NO_MEMORY, "%s: no memory to write", sink->path);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        snprintf(name, bytes, "%s.%ld-%d.tmp", at->target, (long)getpid(), attempt);
        sink->fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (sink->fd >= 0 || errno != EEXIST) break;
    }
    if (sink->fd < 0) {
        refuse_system(sink->path, "create", err);
        free(name);
        return FA4_IO;
    }
    at->temporary = name;
    if (existing != NULL && fchmod(sink->fd, existing->st_mode & 07777) != 0)
        return refuse_system(sink->path, "keep its mode", err);
    return FA4_OK;
}

static fa4_status place_open(place *at, file_sink *sink, fa4_error *err) {
    struct stat info;
    bool exists = stat(sink->path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return refuse_system(sink->path, "write", err);
    }
    bool special = strncmp(sink->path, "/dev/", 5) == 0 || strncmp(sink->path, "/proc/", 6) == 0;
    if (exists && (special || !S_ISREG(info.st_mode))) return open_in_place(sink, err);
    return open_beside(at, sink, exists ? &info : NULL, err);
}

static fa4_status place_close(place *at, file_sink *sink, fa4_status status, fa4_error *err) {
    if (sink->fd >= 0) {
        if (status == FA4_OK) status = flush(sink, err);
        /* Some file systems report a full disk only now. */
        if (close(sink->fd) != 0 && status == FA4_OK)
            status = refuse_system(sink->path, "write", err);
        if (status == FA4_OK && at->temporary != NULL && rename(at->temporary, at->target) != 0)
            status = refuse_system(sink->path, "rename to", err);
        if (status != FA4_OK && at->temporary != NULL) unlink(at->temporary);
    }
    free(at->temporary);
    free(at->target);
    return status;
}

/* ---- what callers ask for ---- */

typedef fa4_status (*writer)(file_sink *sink, const file_content *content, fa4_error *err);

static fa4_status write_bytes(file_sink *sink, const file_content *content, fa4_error *err) {
    return sink_put(sink, content->bytes, content->count, err);
}

static fa4_status write_with(writer write_content, const char *path, const file_content *content,
                             fa4_error *err) {
    file_sink *sink = malloc(sizeof *sink);
    if (sink == NULL) return error_set(err, FA4_NO_MEMORY, "%s: no memory to write", path);
    *sink = (file_sink){.fd = -1, .path = path};
    place at = {NULL, NULL};
    fa4_status status = place_open(&at, sink, err);
    if (status == FA4_OK) status = write_content(sink, content, err);
    status = place_close(&at, sink, status, err);
    free(sink);
    return status;
}

fa4_status fa4_file_write_bytes(const char *path, const char *bytes, int64_t count,
                                fa4_error *err) {
    if (path == NULL) return error_set(err, FA4_BAD_ARGUMENT, "path: NULL");
    if (count < 0 || (count > 0 && bytes == NULL))
        return error_set(err, FA4_BAD_ARGUMENT, "count: %lld bytes at %p", (long long)count,
                         (const void *)bytes);
    file_content content = {.bytes = bytes, .count = count};
    return write_with(write_bytes, path, &content, err);
}

fa4_status fa4_file_write(const char *path, const fa4_named_tensor *tensors, int64_t count,
                          const fa4_metadata *metadata, int64_t metadata_count, fa4_error *err) {
    if (path == NULL) return error_set(err, FA4_BAD_ARGUMENT, "path: NULL");
    static const struct {
        const char *ending;
        writer write;
    } kinds[] = {{".npy", npy_write}, {".npz", npz_write}, {".safetensors", safetensors_write}};
    file_content content = {
        .tensors = tensors, .count = count, .metadata = metadata, .metadata_count = metadata_count};
    size_t length = strlen(path);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(kinds[i].ending);
        if (length < n || strcmp(path + length - n, kinds[i].ending) != 0) continue;
        FA4_TRY(content_check(&content, (file_kind)i, err));
        return write_with(kinds[i].write, path, &content, err);
    }
    return error_set(err, FA4_BAD_ARGUMENT, "path: '%s' ends in none of .npy, .npz, .safetensors",
                     path);
}
