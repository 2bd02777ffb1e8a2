/* Device memory and copies. Freed blocks are kept for the next tensor of their size (cuMemAlloc takes tens of microseconds, cuMemFree waits
 * for the whole device); all work goes through one stream, so a block may be used again at once. */
#include "cuda/cuda_internal.h"

#include <inttypes.h>
#include <string.h>

/* Sizes are rounded to an eighth of their power of two, at least 512 bytes: blocks of one class are interchangeable. */
typedef struct block_class {
    int64_t bytes;
    int32_t index;
} block_class;

static block_class class_of(int64_t bytes) {
    int64_t step = 512;
    int32_t octave = 0;
    for (; step * 16 <= bytes; step *= 2) octave++;
    int64_t steps = bytes > step ? (bytes + step - 1) / step : 1; /* 1..16 */
    return (block_class){steps * step, octave * 16 + (int32_t)steps - 1};
}

/* Lists are of places in free_blocks, counted from 1; 0 ends them. */
static bool take_block(backend *b, block_class class, void **buffer) {
    int32_t place = b->first_free[class.index];
    if (place == 0) return false;
    cuda_block *block = &b->free_blocks[place - 1];
    *buffer = (void *)(uintptr_t)block->address;
    b->first_free[class.index] = block->next;
    block->next = b->first_unused;
    b->first_unused = place;
    b->free_bytes -= class.bytes;
    return true;
}

static bool keep_block(backend *b, block_class class, CUdeviceptr address) {
    int32_t place = b->first_unused;
    if (b->free_bytes + class.bytes > CUDA_FREE_BYTES_MAX) return false;
    if (place != 0) b->first_unused = b->free_blocks[place - 1].next;
    else if (b->free_places < CUDA_FREE_BLOCKS_MAX) place = ++b->free_places;
    else return false;
    b->free_blocks[place - 1] = (cuda_block){address, b->first_free[class.index]};
    b->first_free[class.index] = place;
    b->free_bytes += class.bytes;
    return true;
}

void cuda_memory_trim(backend *b) {
    for (int32_t c = 0; c < CUDA_BLOCK_CLASSES; c++) {
        for (int32_t place = b->first_free[c]; place != 0; place = b->free_blocks[place - 1].next)
            (void)b->driver.cuMemFree_v2(b->free_blocks[place - 1].address);
        b->first_free[c] = 0;
    }
    b->first_unused = b->free_places = 0;
    b->free_bytes = 0;
}

fa4_status cuda_buffer_create(backend *b, int64_t bytes, void **buffer, fa4_error *err) {
    CUdeviceptr address = 0;
    FA4_TRY(cuda_enter(b, err));
    if (bytes < 0 || bytes > INT64_MAX / 2) return error_set(err, FA4_BAD_ARGUMENT, "bytes: cannot be %" PRId64, bytes);
    block_class class = class_of(bytes);
    if (take_block(b, class, buffer)) return FA4_OK;
    CUresult result = b->driver.cuMemAlloc_v2(&address, (size_t)class.bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && b->free_bytes > 0) { /* what is kept may be what is missing */
        cuda_memory_trim(b);
        result = b->driver.cuMemAlloc_v2(&address, (size_t)class.bytes);
    }
    fa4_status status = cuda_check(&b->driver, result, "cuMemAlloc", "making a tensor", err);
    if (status == FA4_NO_MEMORY)
        return error_set(err, status, "device: %s has no %" PRId64 " free bytes; t:free() gives a tensor's memory back", b->label, bytes);
    *buffer = (void *)(uintptr_t)address;
    return status;
}

void cuda_buffer_destroy(backend *b, void *buffer, int64_t bytes) {
    if (buffer == NULL) return;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)buffer;
    if (keep_block(b, class_of(bytes), address)) return;
    if (b->driver.cuCtxSetCurrent(b->context) == CUDA_SUCCESS) (void)b->driver.cuMemFree_v2(address);
}

/* ---- copies ---- */

/* Two pinned halves, made at first use: while the card takes one, the other is filled (or emptied). Without pinned memory the driver does it. */
static bool has_staging(backend *b) {
    if (b->staging == NULL && !b->staging_refused)
        b->staging_refused = b->driver.cuMemAllocHost_v2(&b->staging, 2 * CUDA_STAGING_BYTES) != CUDA_SUCCESS;
    return !b->staging_refused;
}

static fa4_status copy_whole(backend *b, CUdeviceptr to, const void *host, int64_t bytes, fa4_error *err) {
    CUDA_TRY(&b->driver, cuMemcpyHtoDAsync_v2, "copying to the device", err, to, host, (size_t)bytes, b->stream);
    CUDA_TRY(&b->driver, cuStreamSynchronize, "copying to the device", err, b->stream);
    return FA4_OK;
}

fa4_status cuda_buffer_write(backend *b, void *buffer, int64_t offset, const void *host, int64_t bytes, fa4_error *err) {
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)buffer + (uint64_t)offset;
    if (bytes == 0) return FA4_OK;
    FA4_TRY(cuda_enter(b, err));
    FA4_TRY(cuda_finish(b, err));
    if (bytes <= CUDA_STAGING_BYTES || !has_staging(b)) return copy_whole(b, to, host, bytes, err);
    for (int64_t at = 0, part = 0; at < bytes; at += CUDA_STAGING_BYTES, part++) {
        int64_t size = bytes - at < CUDA_STAGING_BYTES ? bytes - at : CUDA_STAGING_BYTES;
        char *half = (char *)b->staging + part % 2 * CUDA_STAGING_BYTES;
        if (part >= 2) FA4_TRY(cuda_wait(b, b->staged[part % 2], "copying to the device", err));
        memcpy(half, (const char *)host + at, (size_t)size);
        CUDA_TRY(&b->driver, cuMemcpyHtoDAsync_v2, "copying to the device", err, to + (uint64_t)at, half, (size_t)size, b->stream);
        CUDA_TRY(&b->driver, cuEventRecord, "copying to the device", err, b->staged[part % 2], b->stream);
    }
    CUDA_TRY(&b->driver, cuStreamSynchronize, "copying to the device", err, b->stream);
    return FA4_OK;
}

static fa4_status start_read(backend *b, CUdeviceptr from, int64_t at, int64_t bytes, fa4_error *err) {
    int64_t size = bytes - at < CUDA_STAGING_BYTES ? bytes - at : CUDA_STAGING_BYTES, half = at / CUDA_STAGING_BYTES % 2;
    CUDA_TRY(&b->driver, cuMemcpyDtoHAsync_v2, "copying from the device", err, (char *)b->staging + half * CUDA_STAGING_BYTES, from + (uint64_t)at,
             (size_t)size, b->stream);
    CUDA_TRY(&b->driver, cuEventRecord, "copying from the device", err, b->staged[half], b->stream);
    return FA4_OK;
}

fa4_status cuda_buffer_read(backend *b, const void *buffer, int64_t offset, void *host, int64_t bytes, fa4_error *err) {
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)buffer + (uint64_t)offset;
    if (bytes == 0) return FA4_OK;
    FA4_TRY(cuda_enter(b, err));
    FA4_TRY(cuda_finish(b, err));
    if (bytes <= CUDA_STAGING_BYTES || !has_staging(b)) {
        CUDA_TRY(&b->driver, cuMemcpyDtoHAsync_v2, "copying from the device", err, host, from, (size_t)bytes, b->stream);
        CUDA_TRY(&b->driver, cuStreamSynchronize, "copying from the device", err, b->stream);
        return FA4_OK;
    }
    FA4_TRY(start_read(b, from, 0, bytes, err));
    for (int64_t at = 0; at < bytes; at += CUDA_STAGING_BYTES) {
        int64_t size = bytes - at < CUDA_STAGING_BYTES ? bytes - at : CUDA_STAGING_BYTES, half = at / CUDA_STAGING_BYTES % 2;
        if (at + size < bytes) FA4_TRY(start_read(b, from, at + CUDA_STAGING_BYTES, bytes, err));
        FA4_TRY(cuda_wait(b, b->staged[half], "copying from the device", err));
        memcpy((char *)host + at, (char *)b->staging + half * CUDA_STAGING_BYTES, (size_t)size);
    }
    return FA4_OK;
}
