/* Zip archives as numpy writes them: members found by the central directory, stored or deflated,
 * zip64 where sizes need it. */
#ifndef FA4_FILES_ZIP_H
#define FA4_FILES_ZIP_H

#include "files/files_internal.h"

#include <zlib.h>

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

/* One member; every field has been checked against the file. */
typedef struct zip_member {
    char *name; /* in zip_archive.text, NUL-terminated */
    int32_t method;
    uint32_t crc;
    int64_t packed; /* bytes in the file */
    int64_t bytes;  /* unpacked */
    int64_t header_at;
    int64_t data_at;
} zip_member;

typedef struct zip_archive {
    char *text; /* the central directory */
    int64_t directory_at, directory_bytes;
    zip_member *members; /* in the directory's order */
    int64_t count;
} zip_archive;

/* What it made is freed by zip_destroy also on failure. */
fa4_status zip_read(zip_archive *archive, const file_source *source, fa4_error *err);
void zip_destroy(zip_archive *archive);

/* A member's bytes as a stream. */
typedef struct zip_stream {
    const file_source *source;
    const zip_member *member;
    z_stream z;
    bool inflating; /* z is live */
    int64_t at;     /* packed bytes taken from the file */
    int64_t given;  /* unpacked bytes given out */
    uint32_t crc;
    uint8_t input[16384];
} zip_stream;

fa4_status zip_stream_open(zip_stream *stream, const file_source *source, const zip_member *member,
                           fa4_error *err);
/* Exactly `bytes` more bytes. */
fa4_status zip_stream_read(zip_stream *stream, void *to, int64_t bytes, fa4_error *err);
/* After all bytes were read: nothing may be left, and the checksum must fit. */
fa4_status zip_stream_finish(zip_stream *stream, fa4_error *err);
void zip_stream_close(zip_stream *stream);

#endif
