/* The GPU as a backend: plans run by the kernels of kernels/ through the CUDA driver, loaded at run time. Knows sm_100a and sm_90a. */
#ifndef FA4_CUDA_CUDA_H
#define FA4_CUDA_CUDA_H

#include "backend.h"

/* Device names: "cuda" and "cuda:N" (a device by its number), "cuda:sm_90a" and "cuda:sm_100a" (device 0, which must be of that kind).
 * FA4_LIBCUDA names another driver library. */
extern const backend_functions cuda_backend;

#endif
