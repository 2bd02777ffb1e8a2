/* Behind fa4.h: what a context holds, and how a device name becomes an open backend. */
#ifndef FA4_API_API_H
#define FA4_API_API_H

#include "backend.h"
#include "tensor/tensor.h"

enum { API_DEVICES_MAX = 16 };

/* An open backend under its full name, such as "cuda:0" or "emu:sm_90a". */
typedef struct api_device {
    char name[32];
    const backend_functions *functions;
    backend *backend;
} api_device;

struct fa4_context {
    int32_t references; /* the handle's own, and one a storage or file */
    pool *workers;
    backend_env env;
    volatile int32_t interrupt;
    volatile double progress;
    memory_account account;
    char cpu[16]; /* forced instruction set, "" = none */
    api_device devices[API_DEVICES_MAX];
    int32_t device_count;
};

void api_context_retain(fa4_context *context);
void api_context_release(void *context); /* a fa4_context; the last one closes everything */
/* Opens (once) what `name` means; NULL or "auto" = a GPU with a kernel, else the CPU. */
fa4_status api_device_open(fa4_context *context, const char *name, api_device **device, fa4_error *err);

#endif
