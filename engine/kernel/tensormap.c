/*
 * Tensor maps: the driver's rules, and the emulator's own encoding. The object is little-endian:
 *   0 tag "FA4TMAP1"   8 address   16 type, rank, swizzle, l2 (1 byte each)   20 checksum   24 dims - 1 (5 x u32)
 *   44 strides / 16 (4 x u40, dims 1..4)   64 box - 1 (5 x u8)   69.. zero
 */
#include "kernel/tensormap.h"

#include <inttypes.h>
#include <string.h>

static const char TAG[8] = {'F', 'A', '4', 'T', 'M', 'A', 'P', '1'};

int32_t kernel_tensormap_element_bytes(int32_t type) {
    switch (type) {
    case KERNEL_TENSORMAP_U8: return 1;
    case KERNEL_TENSORMAP_U16:
    case KERNEL_TENSORMAP_F16:
    case KERNEL_TENSORMAP_BF16: return 2;
    case KERNEL_TENSORMAP_U32:
    case KERNEL_TENSORMAP_I32:
    case KERNEL_TENSORMAP_F32: return 4;
    case KERNEL_TENSORMAP_U64:
    case KERNEL_TENSORMAP_I64:
    case KERNEL_TENSORMAP_F64: return 8;
    default: return 0;
    }
}

int64_t kernel_tensormap_box_bytes(const kernel_tensormap *map) {
    int64_t bytes = kernel_tensormap_element_bytes(map->type);
    for (int32_t i = 0; i < map->rank; i++) bytes *= map->box[i];
    return bytes;
}

static fa4_status check_dimension(const kernel_tensormap *map, int32_t i, fa4_error *err) {
    if (map->dims[i] < 1 || map->dims[i] > (1ull << 32))
        return error_set(err, FA4_BAD_ARGUMENT, "tensor map: dims[%d]: expected 1..2^32, got %" PRIu64, i, map->dims[i]);
    if (map->box[i] < 1 || map->box[i] > 256)
        return error_set(err, FA4_BAD_ARGUMENT, "tensor map: box[%d]: expected 1..256, got %" PRIu32, i, map->box[i]);
    if (i > 0 && (map->strides[i] % 16 != 0 || map->strides[i] >= (1ull << 40)))
        return error_set(err, FA4_BAD_ARGUMENT,
                         "tensor map: strides[%d]: expected a multiple of 16 bytes below 2^40, got %" PRIu64, i,
                         map->strides[i]);
    return FA4_OK;
}

fa4_status kernel_tensormap_check(const kernel_tensormap *map, fa4_error *err) {
    static const int64_t span[4] = {INT64_MAX, 32, 64, 128};
    int32_t size = kernel_tensormap_element_bytes(map->type);
    if (size == 0) return error_set(err, FA4_BAD_ARGUMENT, "tensor map: type: unknown number %d", map->type);
    if (map->rank < 1 || map->rank > KERNEL_TENSORMAP_RANK_MAX)
        return error_set(err, FA4_BAD_ARGUMENT, "tensor map: rank: expected 1..5, got %d", map->rank);
    if (map->swizzle < 0 || map->swizzle > KERNEL_SWIZZLE_128)
        return error_set(err, FA4_BAD_ARGUMENT, "tensor map: swizzle: expected none, 32, 64 or 128 B, got number %d", map->swizzle);
    if (map->l2_promotion < 0 || map->l2_promotion > 3)
        return error_set(err, FA4_BAD_ARGUMENT, "tensor map: l2_promotion: expected 0..3, got %d", map->l2_promotion);
    if (map->address % 16 != 0)
        return error_set(err, FA4_BAD_ARGUMENT, "tensor map: address: expected a multiple of 16, got 0x%" PRIx64, map->address);
    for (int32_t i = 0; i < map->rank; i++) FA4_TRY(check_dimension(map, i, err));
    int64_t inner = (int64_t)map->box[0] * size;
    if (inner % 16 != 0 || inner > span[map->swizzle])
        return error_set(err, FA4_BAD_ARGUMENT,
                         "tensor map: box[0]: %" PRId64 " bytes are not a multiple of 16 within the swizzle's span", inner);
    return FA4_OK;
}

/* Enough to notice a stray write; this is no defence against an attacker. */
static uint32_t checksum(const uint8_t *object) {
    uint32_t sum = 2166136261u;
    for (int i = 0; i < KERNEL_TENSORMAP_BYTES; i++)
        if (i < 20 || i >= 24) sum = (sum ^ object[i]) * 16777619u;
    return sum;
}

static void put(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *from, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

fa4_status kernel_tensormap_encode(const kernel_tensormap *map, void *object, fa4_error *err) {
    FA4_TRY(kernel_tensormap_check(map, err));
    uint8_t *o = object;
    memset(o, 0, KERNEL_TENSORMAP_BYTES);
    memcpy(o, TAG, sizeof TAG);
    put(o + 8, map->address, 8);
    o[16] = (uint8_t)map->type;
    o[17] = (uint8_t)map->rank;
    o[18] = (uint8_t)map->swizzle;
    o[19] = (uint8_t)map->l2_promotion;
    for (int32_t i = 0; i < map->rank; i++) {
        put(o + 24 + 4 * i, map->dims[i] - 1, 4);
        if (i > 0) put(o + 44 + 5 * (i - 1), map->strides[i] / 16, 5);
        o[64 + i] = (uint8_t)(map->box[i] - 1);
    }
    put(o + 20, checksum(o), 4);
    return FA4_OK;
}

fa4_status kernel_tensormap_decode(const void *object, kernel_tensormap *map, fa4_error *err) {
    const uint8_t *o = object;
    memset(map, 0, sizeof *map);
    if (memcmp(o, TAG, sizeof TAG) != 0) return error_set(err, FA4_BAD_ARGUMENT, "tensor map: these 128 bytes are no tensor map of ours");
    if (get(o + 20, 4) != checksum(o)) return error_set(err, FA4_BAD_ARGUMENT, "tensor map: wrong checksum (something wrote into it)");
    map->address = get(o + 8, 8);
    map->type = o[16];
    map->rank = o[17];
    map->swizzle = o[18];
    map->l2_promotion = o[19];
    if (map->rank > KERNEL_TENSORMAP_RANK_MAX) return error_set(err, FA4_BAD_ARGUMENT, "tensor map: rank: expected 1..5, got %d", map->rank);
    for (int32_t i = 0; i < map->rank; i++) {
        map->dims[i] = get(o + 24 + 4 * i, 4) + 1;
        if (i > 0) map->strides[i] = get(o + 44 + 5 * (i - 1), 5) * 16;
        map->box[i] = (uint32_t)o[64 + i] + 1;
    }
    return kernel_tensormap_check(map, err);
}
