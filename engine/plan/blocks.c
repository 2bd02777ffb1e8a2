/* Which key blocks each query tile visits, in which order and under which mask. */
#include "plan/plan_internal.h"

#include "core/size.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* 2 GiB of block entries: far beyond any kernel that ends within a day. */
enum { BLOCKS_MAX = 1 << 28 };

typedef enum block_class { BLOCK_SKIP, BLOCK_FULL, BLOCK_PARTIAL } block_class;

/* The rows of one tile as positions [first, end), and the extremes of their intervals. */
typedef struct tile_rows {
    int64_t first, end;
    int64_t lo_min, lo_max, hi_min, hi_max;
} tile_rows;

static fa4_status grow(void **array, int64_t *room, int64_t need, size_t size, fa4_error *err) {
    if (need <= *room) return FA4_OK;
    int64_t wanted = plan_max(need, *room * 2);
    void *larger = realloc(*array, (size_t)wanted * size);
    if (larger == NULL)
        return error_set(err, FA4_NO_MEMORY, "plan: no memory for %" PRId64 " entries of %zu bytes", wanted, size);
    *array = larger;
    *room = wanted;
    return FA4_OK;
}

static tile_rows rows_of_tile(const plan_parts *parts, int64_t tile) {
    const fa4_plan_header *h = &parts->header;
    tile_rows t = {tile * h->positions, plan_min((tile + 1) * h->positions, h->problem.seqlen_q), INT64_MAX, 0, INT64_MAX, 0};
    for (int64_t i = t.first; i < t.end; i++) {
        t.lo_min = plan_min(t.lo_min, parts->row_lo[i]);
        t.lo_max = plan_max(t.lo_max, parts->row_lo[i]);
        t.hi_min = plan_min(t.hi_min, parts->row_hi[i]);
        t.hi_max = plan_max(t.hi_max, parts->row_hi[i]);
    }
    return t;
}

/* Keys beyond seqlen_kv count as hidden: a tail block is partial. */
static block_class classify(const plan_parts *parts, const tile_rows *t, int64_t start, int64_t end) {
    if (t->lo_max <= start && t->hi_min >= end) return BLOCK_FULL;
    if (t->lo_min >= end || t->hi_max <= start) return BLOCK_SKIP;
    bool any = false, all = true;
    for (int64_t i = t->first; i < t->end; i++) {
        any = any || (parts->row_lo[i] < end && parts->row_hi[i] > start);
        all = all && parts->row_lo[i] <= start && parts->row_hi[i] >= end;
    }
    return !any ? BLOCK_SKIP : all ? BLOCK_FULL : BLOCK_PARTIAL;
}

static uint64_t hash_words(const uint32_t *words, int count) {
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash;
}

static fa4_status rehash(plan_parts *parts, fa4_error *err) {
    int64_t room = parts->bit_hash_room ? parts->bit_hash_room * 2 : 64;
    int64_t *table = calloc((size_t)room, sizeof *table);
    if (table == NULL) return error_set(err, FA4_NO_MEMORY, "plan: no memory for the table of bit tiles");
    for (int64_t t = 0; t < parts->header.bit_tile_count; t++) {
        uint64_t slot = hash_words(parts->bit_tiles + t * PLAN_BIT_TILE_WORDS, PLAN_BIT_TILE_WORDS);
        while (table[slot & (uint64_t)(room - 1)] != 0) slot++;
        table[slot & (uint64_t)(room - 1)] = t + 1;
    }
    free(parts->bit_hash);
    parts->bit_hash = table;
    parts->bit_hash_room = room;
    return FA4_OK;
}

/* The index of an equal bit tile, stored now if there was none. */
static fa4_status intern_bit_tile(plan_parts *parts, const uint32_t *words, int32_t *index, fa4_error *err) {
    fa4_plan_header *h = &parts->header;
    if (2 * (h->bit_tile_count + 1) > parts->bit_hash_room) FA4_TRY(rehash(parts, err));
    uint64_t slot = hash_words(words, PLAN_BIT_TILE_WORDS), mask = (uint64_t)parts->bit_hash_room - 1;
    for (; parts->bit_hash[slot & mask] != 0; slot++) {
        int64_t t = parts->bit_hash[slot & mask] - 1;
        if (memcmp(parts->bit_tiles + t * PLAN_BIT_TILE_WORDS, words, PLAN_BIT_TILE_WORDS * 4) == 0) {
            *index = (int32_t)t;
            return FA4_OK;
        }
    }
    if (h->bit_tile_count >= INT32_MAX) return error_set(err, FA4_UNSUPPORTED, "mask: more than 2^31 different bit tiles");
    FA4_TRY(grow((void **)&parts->bit_tiles, &parts->bit_tiles_room, h->bit_tile_count + 1, PLAN_BIT_TILE_WORDS * 4, err));
    memcpy(parts->bit_tiles + h->bit_tile_count * PLAN_BIT_TILE_WORDS, words, PLAN_BIT_TILE_WORDS * 4);
    parts->bit_hash[slot & mask] = ++h->bit_tile_count;
    *index = (int32_t)(h->bit_tile_count - 1);
    return FA4_OK;
}

/* Do the heads of one group see different keys? */
static bool differs_in_group(const fa4_problem *p) {
    for (int32_t n = 0; n < p->mask_nodes; n++)
        if (p->mask[n].kind == FA4_MASK_BITS && p->mask[n].per_head) return true;
    return false;
}

/* Evaluates the mask for one tile and block by rows of 128 bits. */
static block_class bits_of_block(const plan_parts *parts, int64_t batch, int64_t head, int64_t tile, int64_t key_block,
                                 uint32_t words[PLAN_BIT_TILE_WORDS]) {
    const fa4_plan_header *h = &parts->header;
    int32_t rows = plan_tile_rows(h, tile);
    uint64_t any = 0, all = ~UINT64_C(0);
    memset(words, 0, PLAN_BIT_TILE_WORDS * 4);
    bool repeat = h->packed && !differs_in_group(&h->problem);
    for (int32_t r = 0; r < rows; r++) {
        uint32_t *row = words + r * 4;
        if (repeat && r % h->group != 0) {
            memcpy(row, row - 4, 16);
            continue;
        }
        uint64_t bits[2];
        plan_mask_row_bits(&h->problem, parts->mask_data, batch, plan_row_head(h, (int32_t)head, r),
                           plan_row_position(h, tile, r), key_block, bits);
        any |= bits[0] | bits[1];
        all &= bits[0] & bits[1];
        for (int w = 0; w < 4; w++) row[w] = (uint32_t)(bits[w / 2] >> (32 * (w % 2)));
    }
    return any == 0 ? BLOCK_SKIP : all == ~UINT64_C(0) ? BLOCK_FULL : BLOCK_PARTIAL;
}

static fa4_status append(plan_parts *parts, fa4_block block, fa4_error *err) {
    fa4_plan_header *h = &parts->header;
    if (h->block_count >= BLOCKS_MAX)
        return error_set(err, FA4_UNSUPPORTED, "plan: more than %d visited (tile, key block) pairs in its block lists", BLOCKS_MAX);
    FA4_TRY(grow((void **)&parts->blocks, &parts->blocks_room, h->block_count + 1, sizeof block, err));
    parts->blocks[h->block_count++] = block;
    return FA4_OK;
}

static fa4_status append_bits_list(plan_parts *parts, int64_t batch, int64_t head, int64_t tile, fa4_error *err) {
    uint32_t words[PLAN_BIT_TILE_WORDS];
    for (int64_t kb = 0; kb < parts->header.blocks_per_row; kb++) {
        block_class class = bits_of_block(parts, batch, head, tile, kb, words);
        if (class == BLOCK_SKIP) continue;
        fa4_block block = {(int32_t)kb, -1};
        if (class == BLOCK_PARTIAL) FA4_TRY(intern_bit_tile(parts, words, &block.mask, err));
        FA4_TRY(append(parts, block, err));
    }
    return FA4_OK;
}

static fa4_status append_interval_list(plan_parts *parts, int64_t tile, fa4_error *err) {
    const fa4_plan_header *h = &parts->header;
    int64_t keys = h->schedule.tile_keys;
    tile_rows rows = rows_of_tile(parts, tile);
    int64_t first = rows.first < rows.end ? rows.lo_min / keys : 0;
    int64_t end = rows.first < rows.end ? size_ceil_divide(rows.hi_max, keys) : 0;
    for (int64_t kb = first; kb < end; kb++) {
        block_class class = classify(parts, &rows, kb * keys, (kb + 1) * keys);
        if (class == BLOCK_SKIP) continue;
        FA4_TRY(append(parts, (fa4_block){(int32_t)kb, class == BLOCK_FULL ? -1 : -2}, err));
    }
    return FA4_OK;
}

static void reverse(fa4_block *blocks, int64_t count) {
    for (int64_t a = 0, b = count - 1; a < b; a++, b--) {
        fa4_block t = blocks[a];
        blocks[a] = blocks[b];
        blocks[b] = t;
    }
}

static void order_list(fa4_block *blocks, int64_t count, int32_t kv_order) {
    if (kv_order == FA4_KV_FORWARD || count == 0) return;
    bool sink = kv_order == FA4_KV_SINK_FIRST && blocks[0].key_block == 0;
    reverse(blocks + (sink ? 1 : 0), count - (sink ? 1 : 0));
}

/* A list equal to the one before shares its blocks: the full mask then costs one list. */
static void share_list(plan_parts *parts, fa4_block_list *list, const fa4_block_list *before) {
    if (before == NULL || before->count != list->count) return;
    if (memcmp(parts->blocks + before->first, parts->blocks + list->first, (size_t)list->count * sizeof(fa4_block)) != 0) return;
    parts->header.block_count -= list->count;
    list->first = before->first;
}

fa4_status plan_map_blocks(plan_parts *parts, fa4_error *err) {
    fa4_plan_header *h = &parts->header;
    int64_t lists = 0;
    bool fits = size_multiply(h->map_batches, h->map_heads, &lists) && size_multiply(lists, h->tiles_per_head, &lists);
    if (!fits || lists > BLOCKS_MAX) return error_set(err, FA4_UNSUPPORTED, "plan: more than %d block lists", BLOCKS_MAX);
    h->list_count = lists;
    parts->lists = calloc((size_t)plan_max(lists, 1), sizeof *parts->lists);
    if (parts->lists == NULL) return error_set(err, FA4_NO_MEMORY, "plan: no memory for %" PRId64 " block lists", lists);
    for (int64_t n = 0; n < lists; n++) {
        if (parts->interrupt != NULL && *parts->interrupt) return error_set(err, FA4_INTERRUPTED, "interrupted");
        int64_t tile = n % h->tiles_per_head, head = n / h->tiles_per_head % h->map_heads;
        int64_t batch = n / h->tiles_per_head / h->map_heads;
        fa4_block_list *list = &parts->lists[n];
        list->first = h->block_count;
        if (h->mask_class == FA4_CLASS_BITS) FA4_TRY(append_bits_list(parts, batch, head, tile, err));
        else FA4_TRY(append_interval_list(parts, tile, err));
        list->count = (int32_t)(h->block_count - list->first);
        for (int64_t k = list->first; k < h->block_count; k++) list->partial += parts->blocks[k].mask != -1;
        if (list->count == 0) continue;
        order_list(parts->blocks + list->first, list->count, h->schedule.kv_order);
        share_list(parts, list, n > 0 ? list - 1 : NULL);
    }
    return FA4_OK;
}
