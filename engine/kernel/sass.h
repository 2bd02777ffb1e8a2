/* Machine code of a cubin as text, through NVIDIA's nvdisasm where one is found. */
#ifndef FA4_KERNEL_SASS_H
#define FA4_KERNEL_SASS_H

#include "core/error.h"

/* *text is NUL-terminated and the caller's to free. FA4_NO_DEVICE: no nvdisasm (it looks at FA4_NVDISASM, then PATH, CUDA_HOME and
 * /usr/local/cuda). */
fa4_status kernel_sass(const void *cubin, size_t bytes, char **text, size_t *length, fa4_error *err);

#endif
