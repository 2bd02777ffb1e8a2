/* Settings from the environment: a wrong value is an error that names the variable, never ignored. */
#include "core/environment.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const char *environment_text(const char *name) {
    const char *text = getenv(name);
    return text == NULL || *text == '\0' ? NULL : text;
}

fa4_status environment_whole(const environment_range *range, int64_t *value, fa4_error *err) {
    enum { DIGITS_MAX = 18 };
    const char *text = environment_text(range->name);
    *value = range->otherwise;
    if (text == NULL) return FA4_OK;
    size_t length = strlen(text);
    bool whole = strspn(text, "0123456789") == length && length <= DIGITS_MAX;
    int64_t number = whole ? strtoll(text, NULL, 10) : -1;
    if (number < range->least || number > range->most)
        return error_set(err, FA4_BAD_ARGUMENT, "%s: expected a whole number in %" PRId64 "..%" PRId64 ", got \"%.40s\"", range->name,
                         range->least, range->most, text);
    *value = number;
    return FA4_OK;
}
