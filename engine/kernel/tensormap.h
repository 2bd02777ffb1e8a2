/*
 * What a tensor map says, as one struct of arguments. Two encoders read it: the CUDA driver's cuTensorMapEncodeTiled (engine/cuda) and
 * kernel_tensormap_encode, whose tagged 128-byte object the emulator understands. Both refuse what the driver refuses.
 */
#ifndef FA4_KERNEL_TENSORMAP_H
#define FA4_KERNEL_TENSORMAP_H

#include "core/error.h"

enum { KERNEL_TENSORMAP_BYTES = 128, KERNEL_TENSORMAP_RANK_MAX = 5 };

/* The driver's numbers (CUtensorMapDataType). */
typedef enum kernel_tensormap_type {
    KERNEL_TENSORMAP_U8 = 0,
    KERNEL_TENSORMAP_U16 = 1,
    KERNEL_TENSORMAP_U32 = 2,
    KERNEL_TENSORMAP_I32 = 3,
    KERNEL_TENSORMAP_U64 = 4,
    KERNEL_TENSORMAP_I64 = 5,
    KERNEL_TENSORMAP_F16 = 6,
    KERNEL_TENSORMAP_F32 = 7,
    KERNEL_TENSORMAP_F64 = 8,
    KERNEL_TENSORMAP_BF16 = 9
} kernel_tensormap_type;

/* The driver's numbers (CUtensorMapSwizzle). */
typedef enum kernel_tensormap_swizzle {
    KERNEL_SWIZZLE_NONE = 0,
    KERNEL_SWIZZLE_32 = 1,
    KERNEL_SWIZZLE_64 = 2,
    KERNEL_SWIZZLE_128 = 3
} kernel_tensormap_swizzle;

typedef struct kernel_tensormap {
    uint64_t address;   /* of element 0, a multiple of 16; an address of the device that runs the kernel */
    int32_t type;       /* kernel_tensormap_type */
    int32_t rank;       /* 1..5 */
    int32_t swizzle;    /* kernel_tensormap_swizzle */
    int32_t l2_promotion; /* 0 none, 1 64 B, 2 128 B, 3 256 B: a hint, never changes values */
    uint64_t dims[KERNEL_TENSORMAP_RANK_MAX];    /* elements, 1..2^32, innermost first */
    uint64_t strides[KERNEL_TENSORMAP_RANK_MAX]; /* bytes, of dimension i; entry 0 is ignored (contiguous), others multiples of 16 below 2^40 */
    uint32_t box[KERNEL_TENSORMAP_RANK_MAX];     /* elements, 1..256; box[0] * size is a multiple of 16 and fits the swizzle span */
} kernel_tensormap; /* interleave none, element strides 1, out-of-bounds fill zero */

/* Bytes of one element; 0 for a number that is no type. */
int32_t kernel_tensormap_element_bytes(int32_t type);
/* Bytes that one box moves, out-of-bounds elements included: what a barrier must expect. */
int64_t kernel_tensormap_box_bytes(const kernel_tensormap *map);
/* The driver's rules, each with its field's name in the text. */
fa4_status kernel_tensormap_check(const kernel_tensormap *map, fa4_error *err);
/* Checks and writes the emulator's 128-byte object. */
fa4_status kernel_tensormap_encode(const kernel_tensormap *map, void *object, fa4_error *err);
/* Reads it back; refuses bytes without the tag or with a wrong checksum. */
fa4_status kernel_tensormap_decode(const void *object, kernel_tensormap *map, fa4_error *err);

#endif
