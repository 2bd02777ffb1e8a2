/* The CPU backend: FlashAttention-4's algorithm on the host's vector units, chosen at run time. */
#ifndef FA4_CPU_CPU_H
#define FA4_CPU_CPU_H

#include "backend.h"

extern const backend_functions cpu_backend;

/* The fastest path here (bf16 pairs only where they beat float32), or `forced` ("scalar", "avx2",
 * "avx512", "avx512_bf16") when not NULL or "", in *path (static memory). Unknown:
 * FA4_BAD_ARGUMENT; absent here: FA4_NO_DEVICE. FA4_CPU is read by whoever opens the context. */
fa4_status cpu_choose_path(const char *forced, const char **path, fa4_error *err);
/* Every path that can be forced here, space separated, best first. */
void cpu_usable_paths(char *text, size_t bytes);
/* The CPU's own name, or its architecture. */
void cpu_model(char *text, size_t bytes);
/* Measures the float32 multiply-add peak of `threads` workers (0 = all) on a path, and that of bf16
 * pairs (0 where absent). */
fa4_status cpu_peak(pool *workers, int32_t threads, const char *path, double *gflops_f32,
                    double *gflops_bf16, fa4_error *err);

#endif
