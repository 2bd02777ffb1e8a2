/* The memory of a parse: an arena for what the program keeps, growing lists, and hash tables of
 * names that follow scopes. */
#include "ptx/ptx_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct ptx_chunk {
    struct ptx_chunk *next;
    size_t bytes;
    _Alignas(16) unsigned char data[];
} ptx_chunk;

enum { CHUNK_BYTES = 256 << 10, BUCKETS_FIRST = 256 };

void *ptx_arena_take(ptx_arena *arena, size_t bytes) {
    if (arena->failed) return NULL;
    if (bytes == 0) bytes = 1;
    if (bytes > SIZE_MAX / 4) {
        arena->failed = true;
        return NULL;
    }
    bytes = (bytes + 15) & ~(size_t)15;
    if (arena->room - arena->used < bytes) {
        size_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        ptx_chunk *chunk = calloc(1, sizeof *chunk + room);
        if (chunk == NULL) {
            arena->failed = true;
            return NULL;
        }
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->used = 0;
        arena->room = room;
    }
    void *memory = arena->chunks->data + arena->used;
    arena->used += bytes;
    return memory;
}

char *ptx_arena_text(ptx_arena *arena, const char *text, size_t length) {
    char *copy = ptx_arena_take(arena, length + 1);
    if (copy != NULL) memcpy(copy, text, length);
    return copy;
}

void ptx_arena_free(ptx_arena *arena) {
    ptx_chunk *chunk = arena->chunks;
    while (chunk != NULL) {
        ptx_chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    *arena = (ptx_arena){0};
}

void *ptx_list_add(ptx_list *list) {
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 64;
        void *items = realloc(list->items, room * list->item_bytes);
        if (items == NULL) return NULL;
        list->items = items;
        list->room = room;
    }
    void *item = (char *)list->items + list->count++ * list->item_bytes;
    memset(item, 0, list->item_bytes);
    return item;
}

void *ptx_list_copy(const ptx_list *list, ptx_arena *arena) {
    if (list->count == 0) return NULL;
    void *copy = ptx_arena_take(arena, list->count * list->item_bytes);
    if (copy != NULL) memcpy(copy, list->items, list->count * list->item_bytes);
    return copy;
}

void ptx_list_free(ptx_list *list) {
    free(list->items);
    list->items = NULL;
    list->count = list->room = 0;
}

static uint32_t hash(const char *text, size_t length) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h ^ (h >> 15);
}

static ptx_name *entry(const ptx_names *names, size_t i) {
    return (ptx_name *)names->entries.items + i;
}

// Entries are pushed in order, so the newest of a bucket is its head: rebuilding keeps that.
static bool grow_buckets(ptx_names *names) {
    uint32_t count = names->bucket_count ? names->bucket_count * 4 : BUCKETS_FIRST;
    uint32_t *buckets = calloc(count, sizeof *buckets);
    if (buckets == NULL) return false;
    for (size_t i = 0; i < names->entries.count; i++) {
        ptx_name *name = entry(names, i);
        uint32_t *head = &buckets[name->hash & (count - 1)];
        name->next = *head;
        *head = (uint32_t)i + 1;
    }
    free(names->buckets);
    names->buckets = buckets;
    names->bucket_count = count;
    return true;
}

bool ptx_names_add(ptx_names *names, const char *text, size_t length, ptx_name_kind kind,
                   uint32_t index, uint32_t depth) {
    names->entries.item_bytes = sizeof(ptx_name);
    if (names->entries.count >= names->bucket_count && !grow_buckets(names)) return false;
    ptx_name *name = ptx_list_add(&names->entries);
    if (name == NULL) return false;
    uint32_t h = hash(text, length);
    uint32_t *head = &names->buckets[h & (names->bucket_count - 1)];
    *name = (ptx_name){.text = text,
                       .length = (uint32_t)length,
                       .hash = h,
                       .index = index,
                       .depth = (uint16_t)depth,
                       .kind = (uint8_t)kind,
                       .next = *head};
    *head = (uint32_t)names->entries.count;
    return true;
}

const ptx_name *ptx_names_find(const ptx_names *names, const char *text, size_t length) {
    if (names->bucket_count == 0) return NULL;
    uint32_t h = hash(text, length);
    for (uint32_t i = names->buckets[h & (names->bucket_count - 1)]; i != 0;) {
        const ptx_name *name = entry(names, i - 1);
        if (name->hash == h && name->length == length && memcmp(name->text, text, length) == 0)
            return name;
        i = name->next;
    }
    return NULL;
}

void ptx_names_drop(ptx_names *names, size_t count) {
    while (names->entries.count > count) {
        const ptx_name *name = entry(names, --names->entries.count);
        names->buckets[name->hash & (names->bucket_count - 1)] = name->next;
    }
}

void ptx_names_free(ptx_names *names) {
    ptx_list_free(&names->entries);
    free(names->buckets);
    *names = (ptx_names){0};
}
