/* A kernel variant's tables as text, for fa4_kernel_source. */
#ifndef FA4_API_KERNEL_TABLES_H
#define FA4_API_KERNEL_TABLES_H

#include "kernel/launch.h"

/* *text is NUL-terminated and the caller's to free. */
fa4_status api_kernel_tables(const FwdVariant *variant, char **text, size_t *length, fa4_error *err);

#endif
