/*
 * NVIDIA's run-time compiler through dlopen: CUDA source -> PTX and cubin. No toolkit is needed to
 * build fa4; without the library nvrtc_open fails with what is missing and where it was looked for.
 */
#ifndef FA4_KERNEL_NVRTC_H
#define FA4_KERNEL_NVRTC_H

#include "core/error.h"

typedef struct nvrtc nvrtc;

/* A file that the source may include by this name. */
typedef struct nvrtc_header {
    const char *name;
    const char *text;
} nvrtc_header;

typedef struct nvrtc_job {
    const char *name; /* of the source, for messages and line information */
    const char *source;
    const nvrtc_header *headers;
    int32_t header_count;
    const char *const *options;
    int32_t option_count;
    int32_t want_cubin; /* 1: options name a real architecture (sm_100a, not compute_100a) */
} nvrtc_job;

typedef struct nvrtc_result {
    char *ptx; /* NUL-terminated */
    size_t ptx_bytes;
    void *cubin; /* NULL unless wanted */
    size_t cubin_bytes;
    char *log; /* never NULL after a success; "" when the compiler had nothing to say */
} nvrtc_result;

/* Looks at FA4_NVRTC (a library or a folder; then nowhere else), beside this program (nvrtc/lib),
 * in $XDG_DATA_HOME/fa4/nvrtc/lib, in CUDA_HOME and CUDA_PATH, and where the loader and
 * /usr/local/cuda have it. FA4_NO_DEVICE when there is none. */
fa4_status nvrtc_open(nvrtc **library, fa4_error *err);
void nvrtc_close(nvrtc *library); /* NULL is allowed; the library itself stays loaded */
const char *nvrtc_version(const nvrtc *library); /* "13.0" */
const char *nvrtc_path(const nvrtc *library);    /* what was loaded */

/* FA4_DEVICE_ERROR with the compiler's own messages (file, line, text) when the source is wrong. */
fa4_status nvrtc_compile(nvrtc *library, const nvrtc_job *job, nvrtc_result *result,
                         fa4_error *err);
void nvrtc_result_free(nvrtc_result *result);

#endif
