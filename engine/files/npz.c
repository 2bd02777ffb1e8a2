/* npz, read: a zip archive of npy files. A member named "q.npy" is tensor "q". */
#include "files/zip.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = NPY_HEADER_MAX + 12 };

typedef struct npz_reader {
    const file_source *source;
    const file_memory *memory;
    zip_stream stream;
    uint8_t head[HEAD_BYTES];
} npz_reader;

/* Reads the npy header, and with it the first bytes of the data. */
static fa4_status read_head(npz_reader *in, const zip_member *member, npy_header *header,
                            int64_t *head_bytes, fa4_error *err) {
    *head_bytes = member->bytes < HEAD_BYTES ? member->bytes : HEAD_BYTES;
    FA4_TRY(zip_stream_open(&in->stream, in->source, member, err));
    FA4_TRY(zip_stream_read(&in->stream, in->head, *head_bytes, err));
    fa4_status status = npy_parse(header, in->head, *head_bytes, member->bytes, err);
    if (status != FA4_OK && err != NULL)
        error_prefix(err, "%s: member '%.200s'", in->source->path, member->name);
    return status;
}

/* Reads the data into the entry's storage and checks the sum. */
static fa4_status read_data(npz_reader *in, const npy_header *header, int64_t head_bytes,
                            file_entry *entry, fa4_error *err) {
    FA4_TRY(in->memory->create(in->memory->state, header->data_bytes, &entry->storage, err));
    int64_t early = head_bytes - header->data_offset;
    char *data = fa4_storage_data(entry->storage);
    if (early > 0) memcpy(data, in->head + header->data_offset, (size_t)early);
    if (header->data_bytes > early)
        FA4_TRY(zip_stream_read(&in->stream, data + early, header->data_bytes - early, err));
    return zip_stream_finish(&in->stream, err);
}

static fa4_status read_member(npz_reader *in, const zip_member *member, file_entry *entry,
                              fa4_error *err) {
    npy_header header;
    int64_t head_bytes = 0;
    fa4_status status = read_head(in, member, &header, &head_bytes, err);
    if (status == FA4_OK) {
        entry->tensor = header.tensor;
        memcpy(entry->refusal, header.refusal, sizeof entry->refusal);
        if (header.refusal[0] == '\0') status = read_data(in, &header, head_bytes, entry, err);
    }
    zip_stream_close(&in->stream);
    return status;
}

/* Unpacks a member without keeping it: before memory beyond the file's own size is taken for
 * members that may be broken. */
static fa4_status try_member(npz_reader *in, const zip_member *member, fa4_error *err) {
    npy_header header;
    int64_t head_bytes = 0;
    fa4_status status = read_head(in, member, &header, &head_bytes, err);
    while (status == FA4_OK && in->stream.given < member->bytes) {
        int64_t left = member->bytes - in->stream.given;
        status = zip_stream_read(&in->stream, in->head, left < HEAD_BYTES ? left : HEAD_BYTES, err);
    }
    if (status == FA4_OK) status = zip_stream_finish(&in->stream, err);
    zip_stream_close(&in->stream);
    return status;
}

static fa4_status check_names(const zip_archive *archive, const file_source *source,
                              fa4_error *err) {
    for (int64_t i = 0; i < archive->count; i++) {
        char *name = archive->members[i].name;
        size_t length = strlen(name);
        if (length < 4 || strcmp(name + length - 4, ".npy") != 0)
            return error_set(err, FA4_BAD_FILE, "%s: member '%.200s' is not an .npy file",
                             source->path, name);
    }
    return FA4_OK;
}

static fa4_status read_members(npz_reader *in, const zip_archive *archive, fa4_file *file,
                               fa4_error *err) {
    int64_t unpacked = 0;
    for (int64_t i = 0; i < archive->count; i++) {
        unpacked += archive->members[i].bytes < INT64_MAX - unpacked ? archive->members[i].bytes
                                                                     : INT64_MAX - unpacked;
        in->stream.inflating = false;
    }
    for (int64_t i = 0; i < archive->count && unpacked > in->source->bytes; i++)
        FA4_TRY(try_member(in, &archive->members[i], err));
    file->entries = calloc((size_t)archive->count + 1, sizeof file->entries[0]);
    if (file->entries == NULL)
        return error_set(err, FA4_NO_MEMORY, "%s: no memory for %lld members", in->source->path,
                         (long long)archive->count);
    for (int64_t i = 0; i < archive->count; i++) {
        file_entry *entry = &file->entries[file->count++];
        char *name = archive->members[i].name;
        entry->name = name;
        FA4_TRY(read_member(in, &archive->members[i], entry, err));
        name[strlen(name) - 4] = '\0';
    }
    return FA4_OK;
}

fa4_status npz_read(fa4_file *file, const file_source *source, const file_memory *memory,
                    fa4_error *err) {
    file->kind = "npz";
    zip_archive archive;
    npz_reader *in = calloc(1, sizeof *in);
    fa4_status status = zip_read(&archive, source, err);
    if (status == FA4_OK && in == NULL)
        status = error_set(err, FA4_NO_MEMORY, "%s: no memory", source->path);
    if (status == FA4_OK) status = check_names(&archive, source, err);
    if (status == FA4_OK) {
        in->source = source;
        in->memory = memory;
        status = read_members(in, &archive, file, err);
        file->text = archive.text; /* the names live in it */
        archive.text = NULL;
    }
    zip_destroy(&archive);
    free(in);
    return status;
}
