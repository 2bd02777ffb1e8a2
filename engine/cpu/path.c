/* Which instruction sets this CPU and operating system have, which one to use, and what the CPU
 * calls itself. */
#include "cpu/cpu_internal.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { PATHS = 4 };

typedef struct path_entry {
    const char *name;
    const char *needs;
} path_entry;

/* The best first, but for pairs_pay. */
static const path_entry paths[PATHS] = {
    {"avx512_bf16", "AVX-512 F, BW, DQ, VL and BF16"},
    {"avx512", "AVX-512 F, BW, DQ and VL"},
    {"avx2", "AVX2, FMA and F16C"},
    {"scalar", "nothing"},
};

#if defined(__x86_64__)
/* These two are asked of the CPU itself: not every compiler's table knows their names. Their
 * registers are AVX's and AVX-512's. */
static bool has_f16c(void) {
    unsigned int a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}

static bool has_bf16(void) {
    unsigned int a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}
#endif

static const cpu_kernel *kernel_if_present(const char *name) {
    if (strcmp(name, "scalar") == 0) return &cpu_kernel_scalar;
#if defined(__x86_64__)
    __builtin_cpu_init(); // The compiler's table: it also asks the operating system for the
                          // registers.
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (strcmp(name, "avx2") == 0 && avx2) return &cpu_kernel_avx2;
    if (strcmp(name, "avx512") == 0 && avx512) return &cpu_kernel_avx512;
    if (strcmp(name, "avx512_bf16") == 0 && avx512 && has_bf16()) return &cpu_kernel_avx512_bf16;
#endif
    return NULL;
}

/* A product of 16 bf16 pairs takes two cycles on Sapphire Rapids (89 against 178 GFLOP/s of float32
   FMA, measured on one core), so that bf16 is faster there as float32; on Zen 4 it does twice the
   work of an FMA in the same time. */
static bool pairs_pay(void) {
#if defined(__x86_64__)
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

/* The i-th best path here: where pairs do not pay, plain AVX-512 goes before them. */
static const path_entry *path_by_rank(int i) {
    return &paths[i < 2 && !pairs_pay() ? 1 - i : i];
}

const cpu_kernel *cpu_kernel_find(const char *path) {
    return kernel_if_present(path);
}

void cpu_usable_paths(char *text, size_t bytes) {
    size_t used = 0;
    if (bytes > 0) text[0] = '\0';
    for (int i = 0; i < PATHS; i++) {
        const path_entry *path = path_by_rank(i);
        if (kernel_if_present(path->name) == NULL) continue;
        int wrote = snprintf(text + used, bytes - used, "%s%s", used > 0 ? " " : "", path->name);
        if (wrote < 0 || used + (size_t)wrote >= bytes) return;
        used += (size_t)wrote;
    }
}

fa4_status cpu_choose_path(const char *forced, const char **path, fa4_error *err) {
    for (int i = 0; i < PATHS; i++) {
        const path_entry *entry = path_by_rank(i);
        if (forced != NULL && *forced != '\0' && strcmp(forced, entry->name) != 0) continue;
        if (kernel_if_present(entry->name) != NULL) {
            *path = entry->name;
            return FA4_OK;
        }
        if (forced == NULL || *forced == '\0') continue;
        char usable[64];
        cpu_usable_paths(usable, sizeof usable);
        return error_set(err, FA4_NO_DEVICE,
                         "instruction set %s needs %s, which this CPU lacks; usable here: %s",
                         forced, entry->needs, usable);
    }
    return error_set(err, FA4_BAD_ARGUMENT,
                     "expected scalar, avx2, avx512 or avx512_bf16, got \"%.40s\"", forced);
}

void cpu_model(char *text, size_t bytes) {
    snprintf(text, bytes, "unknown CPU");
#if defined(__x86_64__)
    char name[49] = {0};
    unsigned int words[12], most = __get_cpuid_max(0x80000000u, NULL);
    if (most < 0x80000004u) return;
    for (unsigned int i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2],
                    &words[4 * i + 3]);
    memcpy(name, words, sizeof words);
    const char *start = name + strspn(name, " ");
    snprintf(text, bytes, "%s", start);
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ')
        text[--length] = '\0';
#elif defined(__aarch64__)
    snprintf(text, bytes, "AArch64");
#endif
}
