/* Strict JSON, as much of it as a safetensors header needs: punctuation, strings, whole numbers.
 * The caller drives it by the grammar that it expects, so nothing recurses and nothing is kept. */
#ifndef FA4_FILES_JSON_H
#define FA4_FILES_JSON_H

#include "core/error.h"

#include <stdbool.h>

typedef struct json_reader {
    const char *path; /* for errors */
    char *text;       /* followed by a NUL; strings are decoded in place */
    int64_t bytes;
    int64_t at;
} json_reader;

/* "PATH: header byte N: ..." with FA4_BAD_FILE. */
fa4_status json_refuse(const json_reader *in, fa4_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Skips white space, then takes the character if it is next. */
bool json_accept(json_reader *in, char c);
fa4_status json_expect(json_reader *in, char c, fa4_error *err);
/* A string, decoded and NUL-terminated inside the text. Control characters, bad UTF-8, lone
 * surrogates and \u0000 are refused. */
fa4_status json_string(json_reader *in, char **string, fa4_error *err);
/* 0 to INT64_MAX, no sign, no leading zero, no fraction. */
fa4_status json_whole_number(json_reader *in, int64_t *number, fa4_error *err);
/* Only white space may be left. */
fa4_status json_end(json_reader *in, fa4_error *err);

int32_t json_position(json_reader *in);
void json_seek(json_reader *in, int32_t position);

/* Length of the valid UTF-8 sequence at p (1 to 4, of at most `left` bytes), 0 when it is not
 * valid. */
int32_t json_utf8(const unsigned char *p, int64_t left);

#endif
