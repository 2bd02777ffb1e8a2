/* libFuzzer target: any bytes, read as PTX. What is accepted must print as text that gives an equal program; what is refused has a text. */
#include "ptx/ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what, const char *text) {
    if (holds) return;
    fprintf(stderr, "fuzz: not so: %s (%s)\n", what, text);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ptx_program *program, *again;
    fa4_error err = {0, ""};
    char *text;
    size_t length;
    fa4_status status = ptx_parse((const char *)data, size, &program, &err);
    require((status == FA4_OK) == (program != NULL), "a program or an error", err.text);
    require(status == FA4_OK || status == FA4_BAD_FILE || status == FA4_UNSUPPORTED, "only the text can be wrong", err.text);
    require(status == FA4_OK || strncmp(err.text, "line ", 5) == 0, "an error has a line", err.text);
    if (program == NULL) return 0;
    require(ptx_print(program, &text, &length, &err) == FA4_OK, "it prints", err.text);
    require(ptx_parse(text, length, &again, &err) == FA4_OK, "what is printed is read", err.text);
    require(ptx_program_equal(program, again), "printing keeps the program", text);
    ptx_program_destroy(again);
    ptx_program_destroy(program);
    free(text);
    return 0;
}
