/* npy, read.
 *
 *     | 93 "NUMPY" | version | header's length | {'descr': '<f4', 'shape': (2,), ...} | data |
 *       6            2         2 (v1), else 4
 *
 * The header is a Python dictionary; the reader takes these three keys, each once, and no
 * expression besides. */
#include "files/files_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The header's text and a place in it. */
typedef struct reader {
    const char *at, *end;
    fa4_error *err;
} reader;

enum { SEEN_DESCR = 1, SEEN_ORDER = 2, SEEN_SHAPE = 4, TEXT_MAX = 64 };

static void skip_space(reader *in) {
    while (in->at < in->end &&
           (*in->at == ' ' || *in->at == '\n' || *in->at == '\t' || *in->at == '\r'))
        in->at++;
}

static bool accept(reader *in, char c) {
    skip_space(in);
    if (in->at == in->end || *in->at != c) return false;
    in->at++;
    return true;
}

static fa4_status expect(reader *in, char c) {
    if (accept(in, c)) return FA4_OK;
    if (in->at == in->end)
        return error_set(in->err, FA4_BAD_FILE, "npy header: expected '%c', got its end", c);
    unsigned char got = (unsigned char)*in->at;
    if (got < 0x20 || got >= 0x7f)
        return error_set(in->err, FA4_BAD_FILE, "npy header: expected '%c', got byte 0x%02x", c,
                         got);
    return error_set(in->err, FA4_BAD_FILE, "npy header: expected '%c', got '%c'", c, got);
}

/* 'text' or "text" without escapes, cut after TEXT_MAX - 1 bytes. */
static fa4_status read_text(reader *in, char text[TEXT_MAX]) {
    char quote = accept(in, '\'') ? '\'' : '"';
    if (quote == '"') FA4_TRY(expect(in, '"'));
    int n = 0;
    for (; in->at < in->end && *in->at != quote; in->at++) {
        if (*in->at == '\\' || (unsigned char)*in->at < 0x20)
            return error_set(in->err, FA4_BAD_FILE, "npy header: byte 0x%02x in a string",
                             (unsigned char)*in->at);
        if (n < TEXT_MAX - 1) text[n++] = *in->at;
    }
    text[n] = '\0';
    if (in->at == in->end)
        return error_set(in->err, FA4_BAD_FILE, "npy header: a string without an end");
    in->at++;
    return FA4_OK;
}

static bool accept_word(reader *in, const char *word) {
    skip_space(in);
    size_t length = strlen(word);
    if ((size_t)(in->end - in->at) < length || memcmp(in->at, word, length) != 0) return false;
    in->at += length;
    return true;
}

static fa4_status read_size(reader *in, int64_t *size) {
    skip_space(in);
    const char *start = in->at;
    int64_t value = 0;
    for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *in->at - '0', &value))
            return error_set(in->err, FA4_BAD_FILE,
                             "npy header: shape: a size above 9223372036854775807");
    if (in->at == start)
        return error_set(in->err, FA4_BAD_FILE,
                         "npy header: shape: expected whole numbers of at least 0");
    if (in->at < in->end && *in->at == 'L') in->at++; /* as Python 2 wrote it */
    *size = value;
    return FA4_OK;
}

/* (), (3,), (3, 4), (3, 4,). */
static fa4_status read_shape(reader *in, fa4_tensor *tensor) {
    FA4_TRY(expect(in, '('));
    bool comma = true;
    while (!accept(in, ')')) {
        if (!comma) return expect(in, ')');
        if (tensor->rank == FA4_RANK_MAX)
            return error_set(in->err, FA4_BAD_FILE, "npy header: shape: more than %d axes",
                             FA4_RANK_MAX);
        FA4_TRY(read_size(in, &tensor->shape[tensor->rank++]));
        comma = accept(in, ',');
    }
    if (tensor->rank == 1 && !comma)
        return error_set(in->err, FA4_BAD_FILE,
                         "npy header: shape: a number in brackets, not a tuple");
    return FA4_OK;
}

/* A dtype string such as '<f2'. Structured types (a list) are refused by name; no dtype string at
 * all is a bad file. */
static fa4_status read_descr(reader *in, npy_header *header) {
    static const char *const texts[] = {"<f2", "<f4", "<f8", "<i4"};
    static const int32_t dtypes[] = {FA4_F16, FA4_F32, FA4_F64, FA4_I32};
    skip_space(in);
    if (in->at < in->end && *in->at == '[')
        return error_set(in->err, FA4_BAD_FILE, "npy header: descr: a structured dtype");
    char text[TEXT_MAX];
    FA4_TRY(read_text(in, text));
    for (int i = 0; i < 4; i++)
        if (strcmp(text, texts[i]) == 0) {
            header->tensor.dtype = dtypes[i];
            return FA4_OK;
        }
    refusal_set(header->refusal, text[0] != '\0' ? text : " ");
    return FA4_OK;
}

static fa4_status read_entry(reader *in, npy_header *header, bool *fortran, int *seen) {
    char key[TEXT_MAX];
    FA4_TRY(read_text(in, key));
    FA4_TRY(expect(in, ':'));
    int field = strcmp(key, "descr") == 0           ? SEEN_DESCR
                : strcmp(key, "fortran_order") == 0 ? SEEN_ORDER
                : strcmp(key, "shape") == 0         ? SEEN_SHAPE
                                                    : 0;
    if (field == 0) return error_set(in->err, FA4_BAD_FILE, "npy header: unknown key '%s'", key);
    if (*seen & field) return error_set(in->err, FA4_BAD_FILE, "npy header: '%s' twice", key);
    *seen |= field;
    if (field == SEEN_DESCR) return read_descr(in, header);
    if (field == SEEN_SHAPE) return read_shape(in, &header->tensor);
    *fortran = accept_word(in, "True");
    if (!*fortran && !accept_word(in, "False"))
        return error_set(in->err, FA4_BAD_FILE,
                         "npy header: fortran_order: expected True or False");
    return FA4_OK;
}

static fa4_status read_dictionary(reader *in, npy_header *header) {
    int seen = 0;
    bool fortran = false;
    FA4_TRY(expect(in, '{'));
    while (!accept(in, '}')) {
        FA4_TRY(read_entry(in, header, &fortran, &seen));
        if (accept(in, ',')) continue;
        FA4_TRY(expect(in, '}'));
        break;
    }
    skip_space(in);
    if (in->at != in->end)
        return error_set(in->err, FA4_BAD_FILE, "npy header: text after the dictionary");
    if (seen != (SEEN_DESCR | SEEN_ORDER | SEEN_SHAPE))
        return error_set(in->err, FA4_BAD_FILE,
                         "npy header: descr, fortran_order and shape are needed");
    int64_t bits;
    if (!entry_bits(header->tensor.shape, header->tensor.rank, 64, &bits))
        return error_set(in->err, FA4_BAD_FILE, "npy header: shape: its size overflows");
    entry_lay_out(&header->tensor, fortran);
    header->data_bytes = bits / 64 * fa4_dtype_bytes(header->tensor.dtype);
    return FA4_OK;
}

fa4_status npy_parse(npy_header *header, const uint8_t *bytes, int64_t available,
                     int64_t file_bytes, fa4_error *err) {
    *header = (npy_header){.tensor = {.rank = 0}};
    if (available < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return error_set(err, FA4_BAD_FILE, "no npy header");
    int major = bytes[6], minor = bytes[7];
    if (major < 1 || major > 3 || minor != 0)
        return error_set(err, FA4_BAD_FILE, "npy version %d.%d (1.0, 2.0 and 3.0 are known)", major,
                         minor);
    int64_t prefix = major == 1 ? 10 : 12, length = bytes[8] | bytes[9] << 8;
    if (available < prefix) return error_set(err, FA4_BAD_FILE, "npy header: cut off");
    if (major > 1) length |= (int64_t)bytes[10] << 16 | (int64_t)bytes[11] << 24;
    if (length > file_bytes - prefix)
        return error_set(err, FA4_BAD_FILE, "npy header: %lld bytes, in a file of %lld",
                         (long long)length, (long long)file_bytes);
    if (length > NPY_HEADER_MAX)
        return error_set(err, FA4_BAD_FILE, "npy header: %lld bytes, at most %d are allowed",
                         (long long)length, NPY_HEADER_MAX);
    reader in = {(const char *)bytes + prefix, (const char *)bytes + prefix + length, err};
    FA4_TRY(read_dictionary(&in, header));
    header->data_offset = prefix + length;
    int64_t data_bytes = file_bytes - header->data_offset;
    if (header->refusal[0] == '\0' && header->data_bytes != data_bytes)
        return error_set(err, FA4_BAD_FILE,
                         "npy: the shape takes %lld bytes of %s, the file has %lld bytes of data",
                         (long long)header->data_bytes, fa4_dtype_name(header->tensor.dtype),
                         (long long)data_bytes);
    return FA4_OK;
}

fa4_status npy_read(fa4_file *file, const file_source *source, const file_memory *memory, bool map,
                    fa4_error *err) {
    file->kind = "npy";
    int64_t available = source->bytes < NPY_HEADER_MAX + 12 ? source->bytes : NPY_HEADER_MAX + 12;
    file->entries = calloc(1, sizeof file->entries[0]);
    file->text = malloc((size_t)available);
    if (file->entries == NULL || file->text == NULL)
        return error_set(err, FA4_NO_MEMORY, "%s: no memory", source->path);
    FA4_TRY(source_read(source, 0, file->text, available, err));
    npy_header header;
    fa4_status status =
        npy_parse(&header, (const uint8_t *)file->text, available, source->bytes, err);
    if (status != FA4_OK) {
        if (err != NULL) error_prefix(err, "%s", source->path);
        return status;
    }
    if (header.refusal[0] != '\0') return refusal_report(header.refusal, source->path, err);
    file->count = 1;
    file->entries[0] = (file_entry){.name = "", .tensor = header.tensor};
    return entry_take(&file->entries[0], source, header.data_offset, header.data_bytes, memory, map,
                      err);
}
