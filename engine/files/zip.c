/* Zip archives, read. Only the central directory is believed, and only after it was held against
 * the file:
 *
 *     | local header, name, extra, data | ... | central directory | zip64 end, locator | end |
 */
#include "files/zip.h"

#include "files/json.h"
#include "core/size.h"

#include <stdlib.h>
#include <string.h>

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    COMMENT_MAX = 65535,
    FLAG_ENCRYPTED = 1
};

static uint32_t u16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}
static uint32_t u32(const uint8_t *p) {
    return u16(p) | u16(p + 2) << 16;
}
static uint64_t u64(const uint8_t *p) {
    return (uint64_t)u32(p) | (uint64_t)u32(p + 4) << 32;
}

static fa4_status refuse(const file_source *source, const char *what, fa4_error *err) {
    return error_set(err, FA4_BAD_FILE, "%s: zip: %s", source->path, what);
}

/* ---- the end, and where it says the central directory is ---- */

static fa4_status find_end(const file_source *source, int64_t *end_at, uint8_t end[END_BYTES],
                           fa4_error *err) {
    int64_t bytes =
        source->bytes < END_BYTES + COMMENT_MAX ? source->bytes : END_BYTES + COMMENT_MAX;
    uint8_t *tail = malloc((size_t)bytes + 1);
    if (tail == NULL) return error_set(err, FA4_NO_MEMORY, "%s: no memory", source->path);
    fa4_status status = source_read(source, source->bytes - bytes, tail, bytes, err);
    bool found = false;
    for (int64_t i = bytes - END_BYTES; i >= 0 && status == FA4_OK && !found; i--) {
        found = memcmp(tail + i, "PK\5\6", 4) == 0 && i + END_BYTES + u16(tail + i + 20) == bytes;
        if (!found) continue;
        *end_at = source->bytes - bytes + i;
        memcpy(end, tail + i, END_BYTES);
    }
    free(tail);
    if (status == FA4_OK && !found)
        return refuse(source, "no end of the central directory: cut off, or not a zip archive",
                      err);
    return status;
}

typedef struct end_record {
    int64_t count, bytes, at;
    int64_t limit; /* the directory ends at or before it */
} end_record;

static fa4_status read_end64(const file_source *source, int64_t end_at, end_record *end,
                             fa4_error *err) {
    uint8_t locator[LOCATOR_BYTES], record[END64_BYTES];
    if (end_at < LOCATOR_BYTES + END64_BYTES) return refuse(source, "no room for a zip64 end", err);
    FA4_TRY(source_read(source, end_at - LOCATOR_BYTES, locator, LOCATOR_BYTES, err));
    if (memcmp(locator, "PK\6\7", 4) != 0)
        return refuse(source, "zip64 is needed, its locator is not there", err);
    uint64_t at = u64(locator + 8);
    if (at > (uint64_t)(end_at - LOCATOR_BYTES - END64_BYTES))
        return refuse(source, "the zip64 end lies outside the file", err);
    FA4_TRY(source_read(source, (int64_t)at, record, END64_BYTES, err));
    if (memcmp(record, "PK\6\6", 4) != 0)
        return refuse(source, "no zip64 end where its locator points", err);
    if (u32(record + 16) != 0 || u32(record + 20) != 0) return refuse(source, "several disks", err);
    uint64_t count = u64(record + 32), bytes = u64(record + 40), directory = u64(record + 48);
    if (u64(record + 24) != count) return refuse(source, "several disks", err);
    if (count > INT64_MAX || bytes > INT64_MAX || directory > INT64_MAX)
        return refuse(source, "the central directory lies outside the file", err);
    *end = (end_record){(int64_t)count, (int64_t)bytes, (int64_t)directory, (int64_t)at};
    return FA4_OK;
}

static fa4_status read_end(const file_source *source, end_record *end, fa4_error *err) {
    uint8_t record[END_BYTES] = {0};
    int64_t end_at = 0, stop;
    FA4_TRY(find_end(source, &end_at, record, err));
    if (u16(record + 4) != 0 || u16(record + 6) != 0 || u16(record + 8) != u16(record + 10))
        return refuse(source, "several disks", err);
    *end = (end_record){u16(record + 10), u32(record + 12), u32(record + 16), end_at};
    if (end->count == 0xffff || end->bytes == 0xffffffff || end->at == 0xffffffff)
        FA4_TRY(read_end64(source, end_at, end, err));
    if (!size_add(end->at, end->bytes, &stop) || stop > end->limit)
        return refuse(source, "the central directory lies outside the file", err);
    if (end->count > NPZ_MEMBERS_MAX)
        return error_set(err, FA4_BAD_FILE, "%s: zip: %lld members, at most %d are allowed",
                         source->path, (long long)end->count, NPZ_MEMBERS_MAX);
    if (end->count > end->bytes / CENTRAL_BYTES)
        return refuse(source, "more members than the central directory has room for", err);
    return FA4_OK;
}

/* ---- members ---- */

/* Takes from the zip64 extra field what the 32-bit fields leave to it, in the order that it has. */
static fa4_status read_extra(const file_source *source, zip_member *m, const uint8_t *extra,
                             int64_t bytes, fa4_error *err) {
    int64_t *fields[3] = {&m->bytes, &m->packed, &m->header_at};
    bool needed = m->bytes == 0xffffffff || m->packed == 0xffffffff || m->header_at == 0xffffffff;
    while (bytes >= 4) {
        int64_t length = u16(extra + 2);
        if (length > bytes - 4) return refuse(source, "an extra field runs beyond its member", err);
        const uint8_t *p = extra + 4, *end = p + length;
        for (int i = 0; i < 3 && needed && u16(extra) == 1; i++) {
            if (*fields[i] != 0xffffffff) continue;
            if (end - p < 8) return refuse(source, "a zip64 field is cut off", err);
            if (u64(p) > INT64_MAX) return refuse(source, "a zip64 size above 2^63 - 1", err);
            *fields[i] = (int64_t)u64(p);
            p += 8;
        }
        if (u16(extra) == 1) needed = false;
        extra += 4 + length;
        bytes -= 4 + length;
    }
    return needed ? refuse(source, "zip64 sizes without a zip64 field", err) : FA4_OK;
}

static fa4_status check_name(const file_source *source, const char *name, int64_t bytes,
                             fa4_error *err) {
    for (int64_t i = 0; i < bytes;) {
        int32_t length = json_utf8((const unsigned char *)name + i, bytes - i);
        if (length == 0 || (unsigned char)name[i] < 0x20)
            return refuse(source, "a member's name is not plain UTF-8", err);
        i += length;
    }
    return FA4_OK;
}

/* One directory entry at p; returns its length in *length. The name moves one byte down, over the
 * header, to make room for a NUL. */
static fa4_status read_central(zip_member *m, const file_source *source, uint8_t *p, int64_t left,
                               int64_t *length, fa4_error *err) {
    if (left < CENTRAL_BYTES || memcmp(p, "PK\1\2", 4) != 0)
        return refuse(source, "a broken entry in the central directory", err);
    int64_t name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
    *length = CENTRAL_BYTES + name + extra + comment;
    if (*length > left) return refuse(source, "an entry runs beyond the central directory", err);
    if (u16(p + 8) & FLAG_ENCRYPTED) return refuse(source, "an encrypted member", err);
    if (u16(p + 34) != 0 && u16(p + 34) != 0xffff) return refuse(source, "several disks", err);
    m->method = (int32_t)u16(p + 10);
    m->crc = u32(p + 16);
    m->packed = u32(p + 20);
    m->bytes = u32(p + 24);
    m->header_at = u32(p + 42);
    if (m->method != ZIP_STORED && m->method != ZIP_DEFLATED)
        return error_set(err, FA4_BAD_FILE,
                         "%s: zip: compression method %d (stored and deflated are known)",
                         source->path, m->method);
    FA4_TRY(read_extra(source, m, p + CENTRAL_BYTES + name, extra, err));
    m->name = (char *)p + CENTRAL_BYTES - 1;
    memmove(m->name, m->name + 1, (size_t)name);
    m->name[name] = '\0';
    return check_name(source, m->name, name, err);
}

/* The local header repeats name and method; its own lengths say where the data begins. */
static fa4_status read_local(zip_member *m, const zip_archive *archive, const file_source *source,
                             fa4_error *err) {
    uint8_t local[LOCAL_BYTES];
    int64_t stop;
    if (m->header_at > archive->directory_at - LOCAL_BYTES)
        return refuse(source, "a member lies outside the file", err);
    FA4_TRY(source_read(source, m->header_at, local, LOCAL_BYTES, err));
    if (memcmp(local, "PK\3\4", 4) != 0)
        return refuse(source, "no member where the central directory points", err);
    if ((u16(local + 6) & FLAG_ENCRYPTED) || (int32_t)u16(local + 8) != m->method ||
        u16(local + 26) != strlen(m->name))
        return refuse(source, "a member's header does not fit the central directory", err);
    m->data_at = m->header_at + LOCAL_BYTES + u16(local + 26) + u16(local + 28);
    if (!size_add(m->data_at, m->packed, &stop) || stop > archive->directory_at)
        return refuse(source, "a member's data lie outside the file", err);
    if (m->method == ZIP_STORED && m->packed != m->bytes)
        return refuse(source, "a stored member of two sizes", err);
    /* Deflate cannot make more than 1032 bytes of one. */
    if (m->method == ZIP_DEFLATED && m->bytes / 1032 > m->packed)
        return refuse(source, "a member's size is beyond its data", err);
    return FA4_OK;
}

static int by_place(const void *a, const void *b) {
    const zip_member *x = *(const zip_member *const *)a, *y = *(const zip_member *const *)b;
    return (x->header_at > y->header_at) - (x->header_at < y->header_at);
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const zip_member *const *)a)->name, (*(const zip_member *const *)b)->name);
}

static fa4_status check_members(const zip_archive *archive, const file_source *source,
                                fa4_error *err) {
    int64_t n = archive->count;
    const zip_member **order = malloc((size_t)(n + 1) * sizeof *order);
    if (order == NULL)
        return error_set(err, FA4_NO_MEMORY, "%s: no memory for %lld members", source->path,
                         (long long)n);
    fa4_status status = FA4_OK;
    for (int64_t i = 0; i < n; i++)
        order[i] = &archive->members[i];
    qsort(order, (size_t)n, sizeof *order, by_place);
    for (int64_t i = 1; i < n && status == FA4_OK; i++)
        if (order[i - 1]->data_at + order[i - 1]->packed > order[i]->header_at)
            status = refuse(source, "members overlap", err);
    qsort(order, (size_t)n, sizeof *order, by_name);
    for (int64_t i = 1; i < n && status == FA4_OK; i++)
        if (by_name(&order[i - 1], &order[i]) == 0)
            status = error_set(err, FA4_BAD_FILE, "%s: zip: member '%.200s' twice", source->path,
                               order[i]->name);
    free(order);
    return status;
}

fa4_status zip_read(zip_archive *archive, const file_source *source, fa4_error *err) {
    *archive = (zip_archive){0};
    end_record end = {0};
    FA4_TRY(read_end(source, &end, err));
    archive->directory_at = end.at;
    archive->directory_bytes = end.bytes;
    archive->text = malloc((size_t)end.bytes + 1);
    archive->members = calloc((size_t)end.count + 1, sizeof archive->members[0]);
    if (archive->text == NULL || archive->members == NULL)
        return error_set(err, FA4_NO_MEMORY, "%s: no memory for %lld members", source->path,
                         (long long)end.count);
    FA4_TRY(source_read(source, end.at, archive->text, end.bytes, err));
    int64_t at = 0;
    for (int64_t i = 0; i < end.count; i++) {
        zip_member *m = &archive->members[archive->count++];
        int64_t length = 0;
        FA4_TRY(
            read_central(m, source, (uint8_t *)archive->text + at, end.bytes - at, &length, err));
        FA4_TRY(read_local(m, archive, source, err));
        at += length;
    }
    if (at != end.bytes)
        return refuse(source, "the central directory has bytes that belong to no member", err);
    return check_members(archive, source, err);
}

void zip_destroy(zip_archive *archive) {
    free(archive->text);
    free(archive->members);
    *archive = (zip_archive){0};
}

/* ---- a member's bytes ---- */

fa4_status zip_stream_open(zip_stream *stream, const file_source *source, const zip_member *member,
                           fa4_error *err) {
    stream->source = source;
    stream->member = member;
    stream->z = (z_stream){0};
    stream->inflating = false;
    stream->at = stream->given = 0;
    stream->crc = 0;
    if (member->method == ZIP_STORED) return FA4_OK;
    if (inflateInit2(&stream->z, -MAX_WBITS) != Z_OK)
        return error_set(err, FA4_NO_MEMORY, "%s: no memory to inflate", source->path);
    stream->inflating = true;
    return FA4_OK;
}

void zip_stream_close(zip_stream *stream) {
    if (stream->inflating) inflateEnd(&stream->z);
    stream->inflating = false;
}

/* Fills z's input when it is empty and the member has more. */
static fa4_status refill(zip_stream *s, fa4_error *err) {
    int64_t left = s->member->packed - s->at;
    if (s->z.avail_in > 0 || left == 0) return FA4_OK;
    int64_t n = left < (int64_t)sizeof s->input ? left : (int64_t)sizeof s->input;
    FA4_TRY(source_read(s->source, s->member->data_at + s->at, s->input, n, err));
    s->at += n;
    s->z.next_in = s->input;
    s->z.avail_in = (uInt)n;
    return FA4_OK;
}

static fa4_status inflate_bytes(zip_stream *s, void *to, int64_t bytes, fa4_error *err) {
    s->z.next_out = to;
    s->z.avail_out = (uInt)bytes;
    while (s->z.avail_out > 0) {
        FA4_TRY(refill(s, err));
        int result = inflate(&s->z, Z_NO_FLUSH);
        if (result == Z_STREAM_END && s->z.avail_out > 0)
            return refuse(s->source, "a member is shorter than its size", err);
        if (result == Z_MEM_ERROR)
            return error_set(err, FA4_NO_MEMORY, "%s: no memory to inflate", s->source->path);
        if (result != Z_OK && result != Z_STREAM_END)
            return refuse(s->source, "a member's deflated data are broken or cut off", err);
    }
    return FA4_OK;
}

fa4_status zip_stream_read(zip_stream *stream, void *to, int64_t bytes, fa4_error *err) {
    if (bytes > stream->member->bytes - stream->given)
        return refuse(stream->source, "a member is shorter than its header says", err);
    const int64_t piece_max = INT64_C(1) << 24;
    while (bytes > 0) {
        int64_t n = bytes < piece_max ? bytes : piece_max;
        if (stream->inflating) {
            FA4_TRY(inflate_bytes(stream, to, n, err));
        } else {
            FA4_TRY(source_read(stream->source, stream->member->data_at + stream->at, to, n, err));
            stream->at += n;
        }
        stream->crc = (uint32_t)crc32(stream->crc, to, (uInt)n);
        stream->given += n;
        to = (char *)to + n;
        bytes -= n;
    }
    return FA4_OK;
}

fa4_status zip_stream_finish(zip_stream *stream, fa4_error *err) {
    if (stream->given != stream->member->bytes)
        return refuse(stream->source, "a member is longer than its header says", err);
    if (stream->inflating) {
        /* The last block's end may still be to come, with no output. */
        uint8_t beyond;
        int result = Z_OK;
        stream->z.next_out = &beyond;
        stream->z.avail_out = 1;
        while (result == Z_OK && stream->z.avail_out > 0) {
            FA4_TRY(refill(stream, err));
            result = inflate(&stream->z, Z_NO_FLUSH);
        }
        if (result != Z_STREAM_END || stream->z.avail_out == 0 || stream->z.avail_in > 0 ||
            stream->at != stream->member->packed)
            return refuse(stream->source, "a member's deflated data do not end where they should",
                          err);
    }
    if (stream->crc != stream->member->crc)
        return error_set(
            err, FA4_BAD_FILE, "%s: zip: member '%.200s': checksum %08x, expected %08x",
            stream->source->path, stream->member->name, stream->crc, stream->member->crc);
    return FA4_OK;
}
