/* Error texts as values. Formatting only: no errno, no "last error", no printing. */
#include "core/error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

fa4_status error_set(fa4_error *err, fa4_status status, const char *format, ...) {
    if (err == NULL) return status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    err->status = status;
    return status;
}

fa4_status error_range(fa4_error *err, const char *name, int64_t value, int64_t least, int64_t most) {
    if (least > most) return error_set(err, FA4_BAD_ARGUMENT, "%s: there are none, got %" PRId64, name, value);
    if (least == most)
        return error_set(err, FA4_BAD_ARGUMENT, "%s: expected %" PRId64 ", got %" PRId64, name, least, value);
    return error_set(err, FA4_BAD_ARGUMENT, "%s: expected %" PRId64 "..%" PRId64 ", got %" PRId64, name, least, most,
                     value);
}

fa4_status error_prefix(fa4_error *err, const char *format, ...) {
    if (err == NULL) return FA4_INTERNAL;
    char text[FA4_ERROR_TEXT_BYTES];
    memcpy(text, err->text, sizeof text);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    size_t at = used < 0 ? 0 : (size_t)used < sizeof text ? (size_t)used : sizeof text - 1;
    size_t room = sizeof text - at;
    if (room > 3) {
        memcpy(err->text + at, ": ", 2);
        memcpy(err->text + at + 2, text, room - 2);
        err->text[sizeof err->text - 1] = '\0';
    }
    return (fa4_status)err->status;
}
