/* What the files of files/ share: the source being read, entries found in it, the sink being
 * written. */
#ifndef FA4_FILES_FILES_INTERNAL_H
#define FA4_FILES_FILES_INTERNAL_H

#include "files/files.h"

#include <stdbool.h>

/* An open regular file. Its size was taken once; reading beyond it, or less than it promised, is
 * FA4_BAD_FILE. */
typedef struct file_source {
    int fd;
    int64_t bytes;
    const char *path;
} file_source;

fa4_status source_open(file_source *source, const char *path, fa4_error *err);
void source_close(file_source *source);
/* Reads exactly `bytes` bytes at `offset`. */
fa4_status source_read(const file_source *source, int64_t offset, void *to, int64_t bytes,
                       fa4_error *err);

enum { REFUSAL_BYTES = 48 };

/* One tensor of a file. */
typedef struct file_entry {
    const char *name;            /* in the file's text */
    fa4_tensor tensor;           /* data is set when asked for */
    fa4_storage *storage;        /* NULL: refused */
    char refusal[REFUSAL_BYTES]; /* the dtype that fa4 lacks, as the file spells it; "" when
                                    supported */
} file_entry;

struct fa4_file {
    const char *kind;
    char *path;
    char *text; /* names and metadata live here */
    file_entry *entries;
    int64_t count;
    fa4_metadata *metadata;
    int64_t metadata_count;
};

/* Limits that keep what a file's lists take below 1 MB, however hostile the file. */
enum { FILE_TENSORS_MAX = 16384, FILE_METADATA_MAX = 8192, NPZ_MEMBERS_MAX = 3072 };

/* Readers: fill an empty file from a source; what they made is destroyed by fa4_file_close also on
 * failure. */
fa4_status npy_read(fa4_file *file, const file_source *source, const file_memory *memory, bool map,
                    fa4_error *err);
fa4_status npz_read(fa4_file *file, const file_source *source, const file_memory *memory,
                    fa4_error *err);
fa4_status safetensors_read(fa4_file *file, const file_source *source, const file_memory *memory,
                            bool map, fa4_error *err);

/* Row-major strides, or column-major ones. The sizes other than 0 have been multiplied without
 * overflow. */
void entry_lay_out(fa4_tensor *tensor, bool fortran);
/* bits * every size but 0, and 0 when there is one; false when that overflows. */
bool entry_bits(const int64_t *shape, int32_t rank, int64_t bits_each, int64_t *bits);
/* Notes the dtype that fa4 lacks, as the file spells it (cut when long, odd characters shown as
 * '?'). */
void refusal_set(char refusal[REFUSAL_BYTES], const char *dtype);
/* FA4_BAD_FILE with a sentence about it. who: "PATH" or "tensor 'NAME'". */
fa4_status refusal_report(const char *refusal, const char *who, fa4_error *err);
/* Makes the entry's storage from `bytes` bytes at `offset`: mapped privately when asked and
 * aligned, else read. */
fa4_status entry_take(file_entry *entry, const file_source *source, int64_t offset, int64_t bytes,
                      const file_memory *memory, bool map, fa4_error *err);

/* ---- npy headers (shared with npz) ---- */

typedef struct npy_header {
    fa4_tensor tensor;           /* shape, dtype, strides */
    char refusal[REFUSAL_BYTES]; /* as in file_entry; dtype is then unset and data_bytes 0 */
    int64_t data_offset;
    int64_t data_bytes;
} npy_header;

enum { NPY_HEADER_MAX = 65536 };

/* The header in the first bytes of an npy file of file_bytes bytes; `available` of them (at least
 * min(file_bytes, NPY_HEADER_MAX + 12)) are at `bytes`. */
fa4_status npy_parse(npy_header *header, const uint8_t *bytes, int64_t available,
                     int64_t file_bytes, fa4_error *err);
/* ---- writing ---- */

/* Where bytes go: a file beside its place, or a checksum. */
typedef struct file_sink {
    int fd;           /* -1: count and checksum only */
    const char *path; /* as the caller named it */
    bool sums;
    uint32_t crc; /* when sums: of everything since it was last set to 0 */
    int64_t written;
    int64_t used; /* of buffer */
    char buffer[65536];
} file_sink;

fa4_status sink_put(file_sink *sink, const void *bytes, int64_t count, fa4_error *err);
/* Every element in row-major order, without a copy of the whole. */
fa4_status sink_put_tensor(file_sink *sink, const fa4_tensor *tensor, fa4_error *err);

typedef struct file_content {
    const fa4_named_tensor *tensors;
    int64_t count;
    const fa4_metadata *metadata;
    int64_t metadata_count;
    const char *bytes; /* fa4_file_write_bytes: `count` of them, and no tensors */
} file_content;

typedef enum file_kind { FILE_NPY, FILE_NPZ, FILE_SAFETENSORS } file_kind;
/* Everything about the content that can be refused before a file is made. */
fa4_status content_check(const file_content *content, file_kind kind, fa4_error *err);

enum { NPY_WRITTEN_MAX = 320, SAFETENSORS_HEADER_MAX = 100000000 };

fa4_status npy_write(file_sink *sink, const file_content *content, fa4_error *err);
fa4_status npz_write(file_sink *sink, const file_content *content, fa4_error *err);
fa4_status safetensors_write(file_sink *sink, const file_content *content, fa4_error *err);

#endif
