/* Error texts as values: every fallible function returns fa4_status and fills a fa4_error. */
#ifndef FA4_CORE_ERROR_H
#define FA4_CORE_ERROR_H

#include "fa4.h"

/* Formats the text into err (NULL is allowed) and returns status, so that `return error_set(...)` reads well. */
fa4_status error_set(fa4_error *err, fa4_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "name: expected least..most, got value", or just the one number that is allowed. */
fa4_status error_range(fa4_error *err, const char *name, int64_t value, int64_t least, int64_t most);
/* Puts "prefix: " before the text that is there. Returns err's status. */
fa4_status error_prefix(fa4_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The one macro that may return. */
#define FA4_TRY(call)                                                                              \
    do {                                                                                           \
        fa4_status fa4_try_status_ = (call);                                                       \
        if (fa4_try_status_ != FA4_OK) return fa4_try_status_;                                     \
    } while (0)

#endif
