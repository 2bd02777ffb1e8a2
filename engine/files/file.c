/* Files as callers see them: opened by content, asked for their tensors and metadata. */
#include "files/files_internal.h"

#include "core/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fa4_status read_by_content(fa4_file *file, const file_source *source,
                                  const file_memory *memory, bool map, fa4_error *err) {
    uint8_t head[8] = {0};
    int64_t n = source->bytes < 8 ? source->bytes : 8;
    FA4_TRY(source_read(source, 0, head, n, err));
    if (memcmp(head, "\x93NUMPY", 6) == 0) return npy_read(file, source, memory, map, err);
    if (memcmp(head, "PK\3\4", 4) == 0 || memcmp(head, "PK\5\6", 4) == 0)
        return npz_read(file, source, memory, err);
    uint8_t first = 0;
    if (source->bytes > 8) FA4_TRY(source_read(source, 8, &first, 1, err));
    size_t length = strlen(source->path);
    bool named = length >= 12 && strcmp(source->path + length - 12, ".safetensors") == 0;
    if (first == '{' || named) return safetensors_read(file, source, memory, map, err);
    return error_set(err, FA4_BAD_FILE, "%s: neither .npy, .npz nor safetensors (%lld bytes)",
                     source->path, (long long)source->bytes);
}

void entry_lay_out(fa4_tensor *tensor, bool fortran) {
    int64_t stride = 1;
    for (int32_t i = 0; i < tensor->rank; i++) {
        int32_t axis = fortran ? i : tensor->rank - 1 - i;
        tensor->strides[axis] = stride;
        if (tensor->shape[axis] > 1) stride *= tensor->shape[axis];
    }
}

bool entry_bits(const int64_t *shape, int32_t rank, int64_t bits_each, int64_t *bits) {
    bool empty = false;
    *bits = bits_each;
    for (int32_t i = 0; i < rank; i++) {
        empty = empty || shape[i] == 0;
        if (shape[i] > 0 && !size_multiply(*bits, shape[i], bits)) return false;
    }
    if (empty) *bits = 0;
    return true;
}

void refusal_set(char refusal[REFUSAL_BYTES], const char *dtype) {
    int i = 0;
    for (; dtype[i] != '\0' && i < REFUSAL_BYTES - 1; i++)
        refusal[i] = dtype[i] >= 0x20 && dtype[i] < 0x7f ? dtype[i] : '?';
    refusal[i] = '\0';
}

fa4_status refusal_report(const char *refusal, const char *who, fa4_error *err) {
    const char *spelled =
        refusal[0] == '<' || refusal[0] == '|' || refusal[0] == '=' ? refusal + 1 : refusal;
    if (strcmp(spelled, "V2") == 0 || strcmp(spelled, "bfloat16") == 0)
        return error_set(err, FA4_BAD_FILE,
                         "%s: dtype '%s': numpy files have no bf16; keep it in safetensors", who,
                         refusal);
    return error_set(err, FA4_BAD_FILE,
                     "%s: dtype '%s' is not one that fa4 has (f16, bf16, f32, f64, i32)", who,
                     refusal);
}

fa4_status file_open(const file_memory *memory, const char *path, int32_t map, fa4_file **file,
                     fa4_error *err) {
    *file = NULL;
    if (path == NULL) return error_set(err, FA4_BAD_ARGUMENT, "path: NULL");
    file_source source;
    fa4_status status = source_open(&source, path, err);
    fa4_file *f = NULL;
    if (status != FA4_OK) goto done;
    f = calloc(1, sizeof *f);
    if (f == NULL)
        status = error_set(err, FA4_NO_MEMORY, "%s: no memory", path);
    else
        status = read_by_content(f, &source, memory, map != 0, err);
done:
    source_close(&source);
    if (status == FA4_OK)
        *file = f;
    else
        fa4_file_close(f);
    return status;
}

void fa4_file_close(fa4_file *file) {
    if (file == NULL) return;
    for (int64_t i = 0; i < file->count; i++)
        fa4_storage_release(file->entries[i].storage);
    free(file->entries);
    free(file->metadata);
    free(file->text);
    free(file);
}

const char *fa4_file_kind(const fa4_file *file) {
    return file->kind;
}

int64_t fa4_file_count(const fa4_file *file) {
    return file->count;
}

const char *fa4_file_name(const fa4_file *file, int64_t i) {
    return i >= 0 && i < file->count ? file->entries[i].name : NULL;
}

fa4_status fa4_file_tensor(const fa4_file *file, int64_t i, fa4_tensor *tensor,
                           fa4_storage **storage, fa4_error *err) {
    if (i < 0 || i >= file->count)
        return error_set(err, FA4_BAD_ARGUMENT, "i: expected 0 to %lld, got %lld",
                         (long long)file->count - 1, (long long)i);
    const file_entry *entry = &file->entries[i];
    if (entry->storage == NULL) {
        char who[256];
        snprintf(who, sizeof who, "tensor '%.200s'", entry->name);
        for (char *c = who; *c != '\0';
             c++) /* a file's own words must not reach a terminal as commands */
            if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
        return refusal_report(entry->refusal, who, err);
    }
    if (fa4_storage_freed(entry->storage))
        return error_set(err, FA4_BAD_ARGUMENT, "tensor '%.200s': its memory has been freed",
                         entry->name);
    *tensor = entry->tensor;
    tensor->data = fa4_storage_data(entry->storage);
    fa4_storage_retain(entry->storage);
    *storage = entry->storage;
    return FA4_OK;
}

int64_t fa4_file_metadata_count(const fa4_file *file) {
    return file->metadata_count;
}

const char *fa4_file_metadata_key(const fa4_file *file, int64_t i) {
    return i >= 0 && i < file->metadata_count ? file->metadata[i].key : NULL;
}

const char *fa4_file_metadata_value(const fa4_file *file, int64_t i) {
    return i >= 0 && i < file->metadata_count ? file->metadata[i].value : NULL;
}
