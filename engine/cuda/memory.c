/* Device memory and copies. Freed blocks are kept for the next tensor of their size (cuMemAlloc takes tens of microseconds, cuMemFree waits
 * for the whole device); all work goes through one stream, so a block may be used again at once. */
#include "cuda/cuda_internal.h"

#include <inttypes.h>
#include <string.h>

/* Sizes are rounded to an eighth of their power of two, at least 512 bytes: blocks of one class are interchangeable. */
static int64_t class_of(int64_t bytes) {
    int64_t step = 512;
    while (step * 16 <= bytes) step *= 2;
    return bytes > step ? (bytes + step - 1) / step * step : step;
}

static void drop_block(backend *b, int32_t i) {
    (void)b->driver.cuMemFree_v2(b->free_blocks[i].address);
    b->free_bytes -= b->free_blocks[i].bytes;
    b->free_blocks[i] = b->free_blocks[--b->free_count];
}

void cuda_memory_trim(backend *b) {
    while (b->free_count > 0) drop_block(b, b->free_count - 1);
}

static bool take_block(backend *b, int64_t bytes, void **buffer) {
    for (int32_t i = b->free_count - 1; i >= 0; i--) {
        if (b->free_blocks[i].bytes != bytes) continue;
        *buffer = (void *)(uintptr_t)b->free_blocks[i].address;
        b->free_bytes -= bytes;
        b->free_blocks[i] = b->free_blocks[--b->free_count];
        return true;
    }
    return false;
}

fa4_status cuda_buffer_create(backend *b, int64_t bytes, void **buffer, fa4_error *err) {
    CUdeviceptr address = 0;
    FA4_TRY(cuda_enter(b, err));
    if (bytes < 0 || bytes > INT64_MAX / 2) return error_set(err, FA4_BAD_ARGUMENT, "bytes: cannot be %" PRId64, bytes);
    int64_t rounded = class_of(bytes);
    if (take_block(b, rounded, buffer)) return FA4_OK;
    CUresult result = b->driver.cuMemAlloc_v2(&address, (size_t)rounded);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && b->free_count > 0) { /* what is kept may be what is missing */
        cuda_memory_trim(b);
        result = b->driver.cuMemAlloc_v2(&address, (size_t)rounded);
    }
    fa4_status status = cuda_check(&b->driver, result, "cuMemAlloc", "making a tensor", err);
    if (status == FA4_NO_MEMORY)
        return error_set(err, status, "device: %s has no %" PRId64 " free bytes; t:free() gives a tensor's memory back", b->label, bytes);
    *buffer = (void *)(uintptr_t)address;
    return status;
}

void cuda_buffer_destroy(backend *b, void *buffer, int64_t bytes) {
    if (buffer == NULL) return;
    int64_t rounded = class_of(bytes);
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)buffer;
    if (b->free_count < CUDA_FREE_BLOCKS_MAX && b->free_bytes + rounded <= CUDA_FREE_BYTES_MAX) {
        b->free_blocks[b->free_count++] = (cuda_block){address, rounded};
        b->free_bytes += rounded;
        return;
    }
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
