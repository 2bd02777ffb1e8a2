/* C tests: CHECK counts, check_report prints the one line that test runners read and gives the exit status. */
#ifndef FA4_SPEC_CHECK_H
#define FA4_SPEC_CHECK_H

#include <stdio.h>

static int check_passed, check_failed, check_skipped;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (condition) {                                                                           \
            check_passed++;                                                                        \
        } else {                                                                                   \
            check_failed++;                                                                        \
            fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #condition);                \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
        }                                                                                          \
    } while (0)

/* What this machine lacks, by name: an instruction set, a GPU. */
#define CHECK_SKIP(...) (check_skipped++, printf("skipped: "), printf(__VA_ARGS__), (void)putchar('\n'))

static int check_report(void) {
    printf("%d passed, %d failed", check_passed, check_failed);
    if (check_skipped > 0) printf(", %d skipped", check_skipped);
    putchar('\n');
    return check_failed == 0 && check_passed > 0 ? 0 : 1;
}

#endif
