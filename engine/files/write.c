/* The three formats, written: npy headers, a stored zip archive, a safetensors header. Sizes and
 * checksums are known before the first byte goes out, so that nothing is patched afterwards. */
#include "files/zip.h"

#include "files/json.h"
#include "core/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what may be written ---- */

static bool is_text(const char *text) {
    int64_t bytes = (int64_t)strlen(text);
    for (int64_t i = 0; i < bytes;) {
        int32_t length = json_utf8((const unsigned char *)text + i, bytes - i);
        if (length == 0) return false;
        i += length;
    }
    return true;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names are UTF-8 and differ. */
static fa4_status check_texts(const char **texts, int64_t count, const char *what, fa4_error *err) {
    for (int64_t i = 0; i < count; i++) {
        if (texts[i] == NULL)
            return error_set(err, FA4_BAD_ARGUMENT, "%s %lld: NULL", what, (long long)i);
        if (!is_text(texts[i]))
            return error_set(err, FA4_BAD_ARGUMENT, "%s %lld: not UTF-8", what, (long long)i);
    }
    qsort(texts, (size_t)count, sizeof texts[0], by_text);
    for (int64_t i = 1; i < count; i++)
        if (strcmp(texts[i - 1], texts[i]) == 0)
            return error_set(err, FA4_BAD_ARGUMENT, "%s '%.200s' twice", what, texts[i]);
    return FA4_OK;
}

static fa4_status check_elements(const fa4_tensor *t, file_kind kind, fa4_error *err) {
    int64_t elements;
    FA4_TRY(fa4_shape_elements(t->shape, t->rank, t->dtype, &elements, err));
    if (t->device != 0)
        return error_set(err, FA4_BAD_ARGUMENT, "on a device; copy it to the host first");
    if (elements > 0 && t->data == NULL) return error_set(err, FA4_BAD_ARGUMENT, "data is NULL");
    if (t->dtype == FA4_BF16 && kind != FILE_SAFETENSORS)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "dtype bf16: numpy files have none; write .safetensors");
    return FA4_OK;
}

static fa4_status check_tensor(const fa4_named_tensor *named, file_kind kind, fa4_error *err) {
    fa4_status status = check_elements(&named->tensor, kind, err);
    if (status != FA4_OK) {
        if (err != NULL && kind == FILE_NPY) error_prefix(err, "tensor");
        if (err != NULL && kind != FILE_NPY) error_prefix(err, "tensor '%.200s'", named->name);
        return status;
    }
    if (strlen(named->name) > 1000 || (named->name[0] == '\0' && kind == FILE_NPZ))
        return error_set(err, FA4_BAD_ARGUMENT, "tensor '%.40s': a name has 1 to 1000 bytes",
                         named->name);
    for (const char *c = named->name; *c != '\0' && kind == FILE_NPZ; c++)
        if ((unsigned char)*c < 0x20)
            return error_set(err, FA4_BAD_ARGUMENT,
                             "a tensor's name in .npz has control character 0x%02x",
                             (unsigned char)*c);
    if (kind == FILE_SAFETENSORS && strcmp(named->name, "__metadata__") == 0)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "tensor '__metadata__': the name is taken by the format");
    return FA4_OK;
}

static fa4_status check_names(const file_content *content, const char **texts, file_kind kind,
                              fa4_error *err) {
    for (int64_t i = 0; i < content->count; i++)
        texts[i] = content->tensors[i].name;
    if (kind != FILE_NPY) FA4_TRY(check_texts(texts, content->count, "tensor", err));
    for (int64_t i = 0; i < content->metadata_count; i++) {
        texts[i] = content->metadata[i].value;
        if (texts[i] == NULL || !is_text(texts[i]))
            return error_set(err, FA4_BAD_ARGUMENT, "metadata value %lld: not UTF-8 text",
                             (long long)i);
    }
    for (int64_t i = 0; i < content->metadata_count; i++)
        texts[i] = content->metadata[i].key;
    return check_texts(texts, content->metadata_count, "metadata key", err);
}

fa4_status content_check(const file_content *content, file_kind kind, fa4_error *err) {
    int64_t most =
        content->count > content->metadata_count ? content->count : content->metadata_count;
    int32_t tensors_max = kind == FILE_NPZ ? NPZ_MEMBERS_MAX : FILE_TENSORS_MAX;
    if (content->count < 0 || content->count > tensors_max)
        return error_set(err, FA4_BAD_ARGUMENT, "count: expected 0 to %d tensors, got %lld",
                         tensors_max, (long long)content->count);
    if (content->metadata_count < 0 || content->metadata_count > FILE_METADATA_MAX)
        return error_set(err, FA4_BAD_ARGUMENT, "metadata_count: expected 0 to %d, got %lld",
                         FILE_METADATA_MAX, (long long)content->metadata_count);
    if (kind == FILE_NPY && content->count != 1)
        return error_set(err, FA4_BAD_ARGUMENT, "count: .npy holds exactly one tensor, got %lld",
                         (long long)content->count);
    if (kind != FILE_SAFETENSORS && content->metadata_count > 0)
        return error_set(err, FA4_BAD_ARGUMENT,
                         "metadata: numpy files have none; write .safetensors");
    const char **texts = malloc((size_t)(most + 1) * sizeof *texts);
    if (texts == NULL)
        return error_set(err, FA4_NO_MEMORY, "no memory for %lld names", (long long)most);
    fa4_status status = check_names(content, texts, kind, err);
    free(texts);
    for (int64_t i = 0; i < content->count && status == FA4_OK; i++) {
        fa4_named_tensor named = content->tensors[i];
        if (kind == FILE_NPY) named.name = "";
        status = check_tensor(&named, kind, err);
    }
    return status;
}

/* ---- npy ---- */

/* The version-1 header of a row-major tensor; returns its length, a multiple of 64. */
static int64_t format_npy(const fa4_tensor *tensor, char out[NPY_WRITTEN_MAX]) {
    static const char *const descr[] = {"<f2", NULL, "<f4", "<f8", "<i4"};
    int n =
        10 + snprintf(out + 10, NPY_WRITTEN_MAX - 10,
                      "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[tensor->dtype]);
    for (int32_t i = 0; i < tensor->rank; i++)
        n += snprintf(out + n, (size_t)(NPY_WRITTEN_MAX - n), i == 0 ? "%lld," : " %lld,",
                      (long long)tensor->shape[i]);
    if (tensor->rank > 1) n--; /* one axis keeps its comma: a tuple */
    n += snprintf(out + n, (size_t)(NPY_WRITTEN_MAX - n), "), }");
    int total = (n + 1 + 63) / 64 * 64;
    memset(out + n, ' ', (size_t)(total - n));
    out[total - 1] = '\n';
    memcpy(out, "\x93NUMPY\1\0", 8);
    out[8] = (char)((total - 10) & 255);
    out[9] = (char)((total - 10) >> 8);
    return total;
}

/* ---- npz ---- */

/* A member to be written. */
typedef struct plan_member {
    const fa4_named_tensor *named;
    uint32_t crc;
    int64_t bytes, header_at;
} plan_member;

static uint8_t *put16(uint8_t *p, uint32_t x) {
    p[0] = (uint8_t)x, p[1] = (uint8_t)(x >> 8);
    return p + 2;
}
static uint8_t *put32(uint8_t *p, uint64_t x) {
    return put16(put16(p, (uint32_t)x & 0xffff), (uint32_t)(x >> 16) & 0xffff);
}
static uint8_t *put64(uint8_t *p, uint64_t x) {
    return put32(put32(p, x & 0xffffffff), x >> 32);
}

static bool is_ascii(const char *text) {
    for (; *text != '\0'; text++)
        if ((unsigned char)*text >= 0x80) return false;
    return true;
}

/* What both headers have in common: from "version needed" to the length of the name. */
static uint8_t *put_common(uint8_t *p, const plan_member *m, bool zip64) {
    enum { FLAG_UTF8 = 0x800, DATE_1980 = 0x21 };
    p = put16(p, zip64 ? 45 : 20);
    p = put16(p, is_ascii(m->named->name) ? 0 : FLAG_UTF8);
    p = put16(p, ZIP_STORED);
    p = put32(p, (uint32_t)DATE_1980 << 16);
    p = put32(p, m->crc);
    p = put32(p, zip64 ? 0xffffffff : (uint64_t)m->bytes);
    p = put32(p, zip64 ? 0xffffffff : (uint64_t)m->bytes);
    return put16(p, (uint32_t)strlen(m->named->name) + 4);
}

static fa4_status put_name(file_sink *sink, const plan_member *m, fa4_error *err) {
    FA4_TRY(sink_put(sink, m->named->name, (int64_t)strlen(m->named->name), err));
    return sink_put(sink, ".npy", 4, err);
}

static fa4_status put_local(file_sink *sink, const plan_member *m, fa4_error *err) {
    uint8_t header[64], *p = header;
    bool zip64 = m->bytes >= 0xffffffff;
    p = put_common(put32(p, 0x04034b50), m, zip64);
    p = put16(p, zip64 ? 20 : 0);
    FA4_TRY(sink_put(sink, header, p - header, err));
    FA4_TRY(put_name(sink, m, err));
    p = put16(put16(header, 1), 16);
    p = put64(put64(p, (uint64_t)m->bytes), (uint64_t)m->bytes);
    return zip64 ? sink_put(sink, header, p - header, err) : FA4_OK;
}

static fa4_status put_central(file_sink *sink, const plan_member *m, fa4_error *err) {
    uint8_t header[80], *p = header;
    bool zip64 = m->bytes >= 0xffffffff || m->header_at >= 0xffffffff;
    p = put_common(put16(put32(p, 0x02014b50), zip64 ? 45 : 20), m, zip64);
    p = put16(p, zip64 ? 28 : 0);
    p = put32(put16(put16(p, 0), 0),
              0); /* comment, disk, attributes: file, then (32 bits) system */
    p = put16(p, 0);
    p = put32(p, zip64 ? 0xffffffff : (uint64_t)m->header_at);
    FA4_TRY(sink_put(sink, header, p - header, err));
    FA4_TRY(put_name(sink, m, err));
    p = put16(put16(header, 1), 24);
    p = put64(put64(put64(p, (uint64_t)m->bytes), (uint64_t)m->bytes), (uint64_t)m->header_at);
    return zip64 ? sink_put(sink, header, p - header, err) : FA4_OK;
}

static fa4_status put_end(file_sink *sink, int64_t count, int64_t directory_at, fa4_error *err) {
    uint8_t record[128], *p = record;
    uint64_t bytes = (uint64_t)(sink->written - directory_at), at = (uint64_t)directory_at,
             n = (uint64_t)count;
    bool zip64 = n >= 0xffff || bytes >= 0xffffffff || at >= 0xffffffff;
    if (zip64) {
        uint64_t end_at = (uint64_t)sink->written;
        p = put64(put32(p, 0x06064b50), 44);
        p = put32(put32(put16(put16(p, 45), 45), 0), 0);
        p = put64(put64(put64(put64(p, n), n), bytes), at);
        p = put32(put64(put32(put32(p, 0x07064b50), 0), end_at), 1);
    }
    p = put16(put16(put32(p, 0x06054b50), 0), 0);
    p = put16(put16(p, zip64 ? 0xffff : (uint32_t)n), zip64 ? 0xffff : (uint32_t)n);
    p = put32(put32(p, zip64 ? 0xffffffff : bytes), zip64 ? 0xffffffff : at);
    p = put16(p, 0);
    return sink_put(sink, record, p - record, err);
}

/* Puts header and elements of one tensor as an npy file into a sink. */
static fa4_status put_npy(file_sink *sink, const fa4_tensor *tensor, fa4_error *err) {
    char header[NPY_WRITTEN_MAX];
    FA4_TRY(sink_put(sink, header, format_npy(tensor, header), err));
    return sink_put_tensor(sink, tensor, err);
}

static fa4_status put_members(file_sink *sink, file_sink *sum, plan_member *members, int64_t count,
                              fa4_error *err) {
    for (int64_t i = 0; i < count; i++) {
        plan_member *m = &members[i];
        sum->crc = 0;
        sum->written = 0;
        FA4_TRY(put_npy(sum, &m->named->tensor, err));
        m->crc = sum->crc;
        m->bytes = sum->written;
        m->header_at = sink->written;
        FA4_TRY(put_local(sink, m, err));
        FA4_TRY(put_npy(sink, &m->named->tensor, err));
    }
    int64_t directory_at = sink->written;
    for (int64_t i = 0; i < count; i++)
        FA4_TRY(put_central(sink, &members[i], err));
    return put_end(sink, count, directory_at, err);
}

fa4_status npz_write(file_sink *sink, const file_content *content, fa4_error *err) {
    plan_member *members = calloc((size_t)content->count + 1, sizeof *members);
    file_sink *sum = malloc(sizeof *sum);
    fa4_status status = FA4_OK;
    if (members == NULL || sum == NULL) {
        status = error_set(err, FA4_NO_MEMORY, "%s: no memory to write", sink->path);
        goto done;
    }
    *sum = (file_sink){.fd = -1, .path = sink->path, .sums = true};
    for (int64_t i = 0; i < content->count; i++)
        members[i].named = &content->tensors[i];
    status = put_members(sink, sum, members, content->count, err);
done:
    free(sum);
    free(members);
    return status;
}

fa4_status npy_write(file_sink *sink, const file_content *content, fa4_error *err) {
    return put_npy(sink, &content->tensors[0].tensor, err);
}

/* ---- safetensors ---- */

static fa4_status put_text(file_sink *sink, const char *text, fa4_error *err) {
    return sink_put(sink, text, (int64_t)strlen(text), err);
}

static fa4_status put_string(file_sink *sink, const char *text, fa4_error *err) {
    FA4_TRY(put_text(sink, "\"", err));
    for (; *text != '\0'; text++) {
        char escape[8];
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            snprintf(escape, sizeof escape, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            snprintf(escape, sizeof escape, "\\u%04x", c);
        else
            snprintf(escape, sizeof escape, "%c", c);
        FA4_TRY(put_text(sink, escape, err));
    }
    return put_text(sink, "\"", err);
}

static fa4_status put_metadata(file_sink *sink, const file_content *content, fa4_error *err) {
    FA4_TRY(put_text(sink, "\"__metadata__\":{", err));
    for (int64_t i = 0; i < content->metadata_count; i++) {
        if (i > 0) FA4_TRY(put_text(sink, ",", err));
        FA4_TRY(put_string(sink, content->metadata[i].key, err));
        FA4_TRY(put_text(sink, ":", err));
        FA4_TRY(put_string(sink, content->metadata[i].value, err));
    }
    return put_text(sink, content->count > 0 ? "}," : "}", err);
}

static int64_t tensor_bytes(const fa4_tensor *t) {
    int64_t elements = 0;
    fa4_shape_elements(t->shape, t->rank, t->dtype, &elements,
                       NULL); /* content_check has seen it succeed */
    return elements * fa4_dtype_bytes(t->dtype);
}

static fa4_status put_entry(file_sink *sink, const fa4_named_tensor *named, int64_t *end,
                            fa4_error *err) {
    static const char *const dtypes[] = {"F16", "BF16", "F32", "F64", "I32"};
    char text[96];
    const fa4_tensor *t = &named->tensor;
    int64_t begin = *end;
    if (!size_add(begin, tensor_bytes(t), end))
        return error_set(err, FA4_BAD_ARGUMENT, "tensor '%.200s': the file's size overflows",
                         named->name);
    FA4_TRY(put_string(sink, named->name, err));
    snprintf(text, sizeof text, ":{\"dtype\":\"%s\",\"shape\":[", dtypes[t->dtype]);
    FA4_TRY(put_text(sink, text, err));
    for (int32_t i = 0; i < t->rank; i++) {
        snprintf(text, sizeof text, "%s%lld", i > 0 ? "," : "", (long long)t->shape[i]);
        FA4_TRY(put_text(sink, text, err));
    }
    snprintf(text, sizeof text, "],\"data_offsets\":[%lld,%lld]}", (long long)begin,
             (long long)*end);
    return put_text(sink, text, err);
}

static fa4_status put_header(file_sink *sink, const file_content *content,
                             const fa4_named_tensor **order, fa4_error *err) {
    int64_t end = 0;
    FA4_TRY(put_text(sink, "{", err));
    if (content->metadata_count > 0) FA4_TRY(put_metadata(sink, content, err));
    for (int64_t i = 0; i < content->count; i++) {
        FA4_TRY(put_entry(sink, order[i], &end, err));
        if (i + 1 < content->count) FA4_TRY(put_text(sink, ",", err));
    }
    return put_text(sink, "}", err);
}

/* Wide elements first, then in the caller's order: every tensor is aligned to its elements. */
static void order_tensors(const file_content *content, const fa4_named_tensor **order) {
    int64_t n = 0;
    for (int64_t width = 8; width >= 2; width /= 2)
        for (int64_t i = 0; i < content->count; i++)
            if (fa4_dtype_bytes(content->tensors[i].tensor.dtype) == width)
                order[n++] = &content->tensors[i];
}

static fa4_status put_safetensors(file_sink *sink, file_sink *length, const file_content *content,
                                  const fa4_named_tensor **order, fa4_error *err) {
    uint8_t prefix[8];
    FA4_TRY(put_header(length, content, order, err));
    int64_t padded = (length->written + 7) / 8 * 8;
    if (padded > SAFETENSORS_HEADER_MAX)
        return error_set(err, FA4_BAD_ARGUMENT, "%s: a header of %lld bytes, safetensors allows %d",
                         sink->path, (long long)padded, SAFETENSORS_HEADER_MAX);
    put64(prefix, (uint64_t)padded);
    FA4_TRY(sink_put(sink, prefix, 8, err));
    FA4_TRY(put_header(sink, content, order, err));
    FA4_TRY(sink_put(sink, "       ", padded - length->written, err));
    for (int64_t i = 0; i < content->count; i++)
        FA4_TRY(sink_put_tensor(sink, &order[i]->tensor, err));
    return FA4_OK;
}

fa4_status safetensors_write(file_sink *sink, const file_content *content, fa4_error *err) {
    const fa4_named_tensor **order = malloc((size_t)(content->count + 1) * sizeof *order);
    file_sink *length = malloc(sizeof *length);
    fa4_status status;
    if (order == NULL || length == NULL) {
        status = error_set(err, FA4_NO_MEMORY, "%s: no memory to write", sink->path);
    } else {
        *length = (file_sink){.fd = -1, .path = sink->path};
        order_tensors(content, order);
        status = put_safetensors(sink, length, content, order, err);
    }
    free(length);
    free(order);
    return status;
}
