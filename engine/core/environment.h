/* Settings from the environment: a wrong value is an error that names the variable, never ignored. */
#ifndef FA4_CORE_ENVIRONMENT_H
#define FA4_CORE_ENVIRONMENT_H

#include "fa4.h"

/* The variable's text; NULL when it is absent or empty. Borrowed from the environment. */
const char *environment_text(const char *name);

/* A whole number; `otherwise` when the variable is absent or empty. */
typedef struct environment_range {
    const char *name;
    int64_t least, most; /* 0 <= least */
    int64_t otherwise;
} environment_range;
fa4_status environment_whole(const environment_range *range, int64_t *value, fa4_error *err);

#endif
