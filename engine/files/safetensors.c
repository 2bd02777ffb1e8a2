/* safetensors, read: 8 bytes of header length, a JSON header, then the data.
 *
 *     | length | {"q": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}, ...} | data |
 *       8
 *
 * "__metadata__" is no tensor but an object of strings.
 *
 * The reader knows the header's grammar and takes nothing else, so nesting is bounded by it.
 * Strings are decoded in place: their decoded form is never longer than its text. Tensors must fill
 * the data exactly: no overlap, no hole, no rest. */
#include "files/files_internal.h"

#include "files/json.h"

#include <stdlib.h>
#include <string.h>

typedef struct dtype_name {
    const char *name;
    int8_t bits;
    int8_t dtype; /* fa4_dtype, or -1 */
} dtype_name;

static const dtype_name dtype_names[] = {
    {"F16", 16, FA4_F16}, {"BF16", 16, FA4_BF16}, {"F32", 32, FA4_F32}, {"F64", 64, FA4_F64},
    {"I32", 32, FA4_I32}, {"BOOL", 8, -1},        {"U8", 8, -1},        {"I8", 8, -1},
    {"U16", 16, -1},      {"I16", 16, -1},        {"U32", 32, -1},      {"U64", 64, -1},
    {"I64", 64, -1},      {"F8_E4M3", 8, -1},     {"F8_E5M2", 8, -1},   {"F8_E8M0", 8, -1},
    {"F4", 4, -1},        {"F6_E2M3", 6, -1},     {"F6_E3M2", 6, -1},   {"C64", 64, -1},
};
enum { DTYPE_NAMES = sizeof dtype_names / sizeof dtype_names[0] };

/* What the header says of one tensor; small, since a hostile header can hold millions. */
typedef struct item {
    const char *name;
    int64_t begin, end; /* in the data */
    int32_t shape_at;   /* where its "[" lies in the header */
    int8_t dtype;       /* in dtype_names */
} item;

typedef struct item_list {
    item *items;
    int64_t count, room;
} item_list;

static fa4_status grow(void **array, int64_t *room, int64_t count, int64_t width, int64_t most,
                       const json_reader *in, fa4_error *err) {
    if (count < *room) return FA4_OK;
    if (count >= most)
        return json_refuse(in, err, "more than %lld tensors or metadata", (long long)most);
    int64_t more = *room < 16 ? 16 : *room * 2;
    void *larger = realloc(*array, (size_t)(more * width));
    if (larger == NULL)
        return error_set(err, FA4_NO_MEMORY, "%s: no memory for %lld entries", in->path,
                         (long long)more);
    *array = larger;
    *room = more;
    return FA4_OK;
}

/* Reads "[a, b, ...]" of at most `max` whole numbers. */
static fa4_status read_numbers(json_reader *in, int64_t *numbers, int32_t max, int32_t *count,
                               fa4_error *err) {
    *count = 0;
    FA4_TRY(json_expect(in, '[', err));
    if (json_accept(in, ']')) return FA4_OK;
    for (;;) {
        int64_t number;
        FA4_TRY(json_whole_number(in, &number, err));
        if (*count == max) return json_refuse(in, err, "more than %d numbers in a list", max);
        numbers[(*count)++] = number;
        if (json_accept(in, ']')) return FA4_OK;
        FA4_TRY(json_expect(in, ',', err));
    }
}

static fa4_status read_dtype(json_reader *in, item *it, fa4_error *err) {
    char *text;
    FA4_TRY(json_string(in, &text, err));
    for (int8_t i = 0; i < DTYPE_NAMES; i++)
        if (strcmp(text, dtype_names[i].name) == 0) {
            it->dtype = i;
            return FA4_OK;
        }
    return json_refuse(in, err, "tensor '%.200s': unknown dtype '%.40s'", it->name, text);
}

static fa4_status check_size(const json_reader *in, const item *it, const int64_t *shape,
                             int32_t rank, fa4_error *err) {
    int64_t bits;
    if (!entry_bits(shape, rank, dtype_names[it->dtype].bits, &bits))
        return json_refuse(in, err, "tensor '%.200s': its shape's size overflows", it->name);
    if (bits % 8 != 0 || bits / 8 != it->end - it->begin)
        return json_refuse(
            in, err, "tensor '%.200s': its shape takes %lld bytes, its data_offsets span %lld",
            it->name, (long long)(bits / 8), (long long)(it->end - it->begin));
    return FA4_OK;
}

/* {"dtype": ..., "shape": ..., "data_offsets": ...} in any order, each once. */
static fa4_status read_item(json_reader *in, item *it, int64_t data_bytes, fa4_error *err) {
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    int seen = 0;
    int64_t shape[FA4_RANK_MAX], range[2];
    int32_t rank = 0, n;
    FA4_TRY(json_expect(in, '{', err));
    do {
        char *key;
        FA4_TRY(json_string(in, &key, err));
        FA4_TRY(json_expect(in, ':', err));
        int field = strcmp(key, "dtype") == 0          ? DTYPE
                    : strcmp(key, "shape") == 0        ? SHAPE
                    : strcmp(key, "data_offsets") == 0 ? OFFSETS
                                                       : 0;
        if (field == 0)
            return json_refuse(in, err, "tensor '%.200s': unknown field '%.40s'", it->name, key);
        if (seen & field) return json_refuse(in, err, "tensor '%.200s': '%s' twice", it->name, key);
        seen |= field;
        if (field == DTYPE) FA4_TRY(read_dtype(in, it, err));
        if (field == SHAPE) {
            it->shape_at = json_position(in);
            FA4_TRY(read_numbers(in, shape, FA4_RANK_MAX, &rank, err));
        }
        if (field == OFFSETS) {
            FA4_TRY(read_numbers(in, range, 2, &n, err));
            if (n != 2)
                return json_refuse(in, err, "tensor '%.200s': data_offsets has %d numbers, not 2",
                                   it->name, n);
        }
    } while (json_accept(in, ','));
    FA4_TRY(json_expect(in, '}', err));
    if (seen != (DTYPE | SHAPE | OFFSETS))
        return json_refuse(in, err, "tensor '%.200s': dtype, shape and data_offsets are needed",
                           it->name);
    it->begin = range[0], it->end = range[1];
    if (it->begin > it->end || it->end > data_bytes)
        return json_refuse(
            in, err,
            "tensor '%.200s': data_offsets %lld to %lld lie outside the data of %lld bytes",
            it->name, (long long)it->begin, (long long)it->end, (long long)data_bytes);
    return check_size(in, it, shape, rank, err);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const fa4_metadata *)a)->key, ((const fa4_metadata *)b)->key);
}

static fa4_status read_metadata(json_reader *in, fa4_file *file, fa4_error *err) {
    int64_t room = 0;
    FA4_TRY(json_expect(in, '{', err));
    if (json_accept(in, '}')) return FA4_OK;
    do {
        FA4_TRY(grow((void **)&file->metadata, &room, file->metadata_count,
                     sizeof file->metadata[0], FILE_METADATA_MAX, in, err));
        char *key, *value;
        FA4_TRY(json_string(in, &key, err));
        FA4_TRY(json_expect(in, ':', err));
        FA4_TRY(json_string(in, &value, err));
        file->metadata[file->metadata_count++] = (fa4_metadata){key, value};
    } while (json_accept(in, ','));
    FA4_TRY(json_expect(in, '}', err));
    qsort(file->metadata, (size_t)file->metadata_count, sizeof file->metadata[0], by_key);
    for (int64_t i = 1; i < file->metadata_count; i++)
        if (by_key(&file->metadata[i - 1], &file->metadata[i]) == 0)
            return json_refuse(in, err, "metadata key '%.200s' twice", file->metadata[i].key);
    return FA4_OK;
}

static fa4_status read_header(json_reader *in, fa4_file *file, item_list *list, int64_t data_bytes,
                              fa4_error *err) {
    bool has_metadata = false;
    if (in->text[0] != '{') return json_refuse(in, err, "the header must begin with '{'");
    FA4_TRY(json_expect(in, '{', err));
    if (!json_accept(in, '}')) {
        do {
            char *name;
            FA4_TRY(json_string(in, &name, err));
            FA4_TRY(json_expect(in, ':', err));
            if (strcmp(name, "__metadata__") == 0) {
                if (has_metadata) return json_refuse(in, err, "__metadata__ twice");
                has_metadata = true;
                FA4_TRY(read_metadata(in, file, err));
                continue;
            }
            FA4_TRY(grow((void **)&list->items, &list->room, list->count, sizeof list->items[0],
                         FILE_TENSORS_MAX, in, err));
            item *it = &list->items[list->count++];
            *it = (item){.name = name};
            FA4_TRY(read_item(in, it, data_bytes, err));
        } while (json_accept(in, ','));
        FA4_TRY(json_expect(in, '}', err));
    }
    return json_end(in, err);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const item *)a)->name, ((const item *)b)->name);
}

static int by_place(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (x->begin != y->begin) return (x->begin > y->begin) - (x->begin < y->begin);
    if (x->end != y->end) return (x->end > y->end) - (x->end < y->end);
    return strcmp(x->name, y->name);
}

static fa4_status check_items(const json_reader *in, item_list *list, int64_t data_bytes,
                              fa4_error *err) {
    if (list->count > 0) qsort(list->items, (size_t)list->count, sizeof list->items[0], by_name);
    for (int64_t i = 1; i < list->count; i++)
        if (by_name(&list->items[i - 1], &list->items[i]) == 0)
            return json_refuse(in, err, "tensor '%.200s' twice", list->items[i].name);
    if (list->count > 0) qsort(list->items, (size_t)list->count, sizeof list->items[0], by_place);
    int64_t end = 0;
    for (int64_t i = 0; i < list->count; i++) {
        const item *it = &list->items[i];
        if (it->begin != end)
            return json_refuse(
                in, err, "tensor '%.200s' begins at %lld of the data, where %lld was expected: %s",
                it->name, (long long)it->begin, (long long)end,
                it->begin < end ? "tensors overlap" : "a hole");
        end = it->end;
    }
    if (end != data_bytes)
        return json_refuse(in, err, "the tensors take %lld bytes, the file has %lld bytes of data",
                           (long long)end, (long long)data_bytes);
    return FA4_OK;
}

static fa4_status take_items(json_reader *in, fa4_file *file, const item_list *list,
                             const file_source *source, const file_memory *memory, bool map,
                             fa4_error *err) {
    if (list->count == 0) return FA4_OK;
    int64_t data_offset = 8 + in->bytes;
    file->entries = calloc((size_t)list->count, sizeof file->entries[0]);
    if (file->entries == NULL)
        return error_set(err, FA4_NO_MEMORY, "%s: no memory for %lld entries", source->path,
                         (long long)list->count);
    for (int64_t i = 0; i < list->count; i++) {
        const item *it = &list->items[i];
        file_entry *entry = &file->entries[file->count++];
        const dtype_name *dtype = &dtype_names[it->dtype];
        entry->name = it->name;
        entry->tensor.dtype = dtype->dtype;
        json_seek(in, it->shape_at);
        FA4_TRY(read_numbers(in, entry->tensor.shape, FA4_RANK_MAX, &entry->tensor.rank, err));
        entry_lay_out(&entry->tensor, false);
        if (dtype->dtype < 0)
            refusal_set(entry->refusal, dtype->name);
        else
            FA4_TRY(entry_take(entry, source, data_offset + it->begin, it->end - it->begin, memory,
                               map, err));
    }
    return FA4_OK;
}

fa4_status safetensors_read(fa4_file *file, const file_source *source, const file_memory *memory,
                            bool map, fa4_error *err) {
    file->kind = "safetensors";
    uint8_t length_bytes[8];
    if (source->bytes < 10)
        return error_set(err, FA4_BAD_FILE, "%s: %lld bytes are too few for a safetensors header",
                         source->path, (long long)source->bytes);
    FA4_TRY(source_read(source, 0, length_bytes, 8, err));
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | length_bytes[i];
    if (length > SAFETENSORS_HEADER_MAX || length > (uint64_t)(source->bytes - 8) || length < 2)
        return error_set(
            err, FA4_BAD_FILE,
            "%s: a header of %llu bytes (2 to %d are allowed, and the file has %lld in all)",
            source->path, (unsigned long long)length, SAFETENSORS_HEADER_MAX,
            (long long)source->bytes);
    file->text = malloc((size_t)length + 1);
    if (file->text == NULL)
        return error_set(err, FA4_NO_MEMORY, "%s: no memory for a header of %llu bytes",
                         source->path, (unsigned long long)length);
    FA4_TRY(source_read(source, 8, file->text, (int64_t)length, err));
    file->text[length] = '\0';
    json_reader in = {.path = source->path, .text = file->text, .bytes = (int64_t)length};
    item_list list = {0};
    int64_t data_bytes = source->bytes - 8 - (int64_t)length;
    fa4_status status = read_header(&in, file, &list, data_bytes, err);
    if (status == FA4_OK) status = check_items(&in, &list, data_bytes, err);
    if (status == FA4_OK) status = take_items(&in, file, &list, source, memory, map, err);
    free(list.items);
    return status;
}
