/* The CPU backend: FlashAttention-4's algorithm on the vector units, one file per instruction set, chosen at run time. */
#ifndef FA4_CPU_CPU_H
#define FA4_CPU_CPU_H

#include "backend.h"

#include <stdbool.h>

extern const backend_functions cpu_backend;

/* Instruction sets, worst first. */
enum { CPU_SCALAR, CPU_AVX2, CPU_AVX512, CPU_AVX512_BF16, CPU_PATHS };

const char *cpu_path_name(int32_t path); /* "scalar", "avx2", "avx512", "avx512_bf16" */
bool cpu_path_usable(int32_t path);
/* The name of the instruction set that an open backend uses. */
const char *cpu_path(const backend *b);
/* Measures the f32 fused multiply-add rate of `threads` threads on that instruction set, in 1e9 operations a second (an FMA counts 2). */
fa4_status cpu_peak(backend *b, int32_t threads, double *gflops, fa4_error *err);

#endif
