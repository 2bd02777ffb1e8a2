/* A driver over host memory for the specs: what it counts, records and is told to do. Reached through fake_cuda_state(). */
#ifndef FA4_SPEC_FAKE_CUDA_H
#define FA4_SPEC_FAKE_CUDA_H

#include <stdint.h>

typedef struct fake_cuda {
    /* orders */
    int32_t major, minor, devices;
    int32_t fail_at;      /* the call (counted from 1) that fails; 0 = none */
    int32_t fail_code;    /* with this error */
    int32_t not_ready;    /* how often cuEventQuery says "not ready" first; -1 = always */
    int32_t no_pinned;    /* 1: cuMemAllocHost has none */
    int64_t memory_bytes; /* what cuMemAlloc has to give */
    /* records */
    int32_t calls;
    char failed[64]; /* name of the call that failed on order */
    int32_t live;    /* contexts, streams, events, modules and allocations that were not given back */
    int64_t live_bytes;
    int32_t launches, maps;
    void *stream;    /* of the last launch */
    uint32_t grid, block, smem_bytes;
    unsigned char params[1024]; /* of the last launch */
    int32_t smem_limit;         /* set by cuFuncSetAttribute */
} fake_cuda;

typedef fake_cuda *(*fake_cuda_state_function)(void);

#endif
