/* What is kept on the device between runs: kernels by variant, launches with their lists by plan. */
#include "cuda/cuda_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_kernel(backend *b, cuda_kernel *kernel) {
    if (kernel->module != NULL) (void)b->driver.cuModuleUnload(kernel->module);
    *kernel = (cuda_kernel){0};
}

static fa4_status load_kernel(backend *b, const FwdVariant *variant, cuda_kernel *kernel, fa4_error *err) {
    kernel_image image;
    FA4_TRY(kernel_image_get(b->images, variant, 1, &image, err));
    CUresult result = b->driver.cuModuleLoadData(&kernel->module, image.cubin);
    fa4_status status = cuda_check(&b->driver, result, "cuModuleLoadData", "loading a kernel", err);
    kernel_image_free(&image);
    if (status != FA4_OK) return status;
    CUDA_TRY(&b->driver, cuModuleGetFunction, "loading a kernel", err, &kernel->function, kernel->module, FWD_KERNEL_NAME);
    if (variant->kv_split)
        CUDA_TRY(&b->driver, cuModuleGetFunction, "loading a kernel", err, &kernel->combine, kernel->module, FWD_COMBINE_NAME);
    CUDA_TRY(&b->driver, cuFuncSetAttribute, "giving a kernel its shared memory", err, kernel->function,
             CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel_variant_smem_bytes(variant));
    return FA4_OK;
}

static cuda_kernel *find_kernel(backend *b, const char *name) {
    for (int32_t i = 0; i < b->kernel_count; i++)
        if (strcmp(b->kernels[i].name, name) == 0) return &b->kernels[i];
    return NULL;
}

static fa4_status get_kernel(backend *b, const FwdVariant *variant, const cuda_kernel **kernel, fa4_error *err) {
    cuda_kernel made = {0};
    kernel_variant_name(variant, made.name);
    *kernel = find_kernel(b, made.name);
    if (*kernel != NULL) return FA4_OK;
    fa4_status status = load_kernel(b, variant, &made, err);
    if (status != FA4_OK) {
        error_prefix(err, "the kernel %s", made.name);
        free_kernel(b, &made);
        return status;
    }
    int32_t at = b->kernel_count < CUDA_MODULES_MAX ? b->kernel_count++ : b->next_kernel++ % CUDA_MODULES_MAX;
    for (int32_t i = 0; i < b->launch_count && b->kernels[at].module != NULL; i++) b->launches[i].function = NULL;
    free_kernel(b, &b->kernels[at]);
    b->kernels[at] = made;
    *kernel = &b->kernels[at];
    return FA4_OK;
}

static void free_launch(backend *b, cuda_launch *launch) {
    if (launch->lists != 0) (void)b->driver.cuMemFree_v2(launch->lists);
    kernel_launch_destroy(launch->launch);
    *launch = (cuda_launch){0};
}

static fa4_status make_launch(backend *b, const fa4_plan *plan, cuda_launch *made, fa4_error *err) {
    FA4_TRY(kernel_launch_create(plan, made->o_f32, &made->launch, err));
    if (made->launch->upload_bytes == 0) return FA4_OK;
    CUDA_TRY(&b->driver, cuMemAlloc_v2, "making room for a plan's lists", err, &made->lists, (size_t)made->launch->upload_bytes);
    CUDA_TRY(&b->driver, cuMemcpyHtoDAsync_v2, "sending a plan's lists", err, made->lists, made->launch->upload,
             (size_t)made->launch->copy_bytes, b->stream);
    CUDA_TRY(&b->driver, cuStreamSynchronize, "sending a plan's lists", err, b->stream);
    made->fresh = true;
    return FA4_OK;
}

static cuda_launch *find_launch(backend *b, uint64_t plan_hash, int32_t o_f32) {
    for (int32_t i = 0; i < b->launch_count; i++)
        if (b->launches[i].plan_hash == plan_hash && b->launches[i].o_f32 == o_f32) return &b->launches[i];
    return NULL;
}

static fa4_status keep_launch(backend *b, const fa4_plan *plan, int32_t o_f32, cuda_launch **launch, fa4_error *err) {
    cuda_launch made = {.plan_hash = plan->header.hash, .o_f32 = o_f32};
    fa4_status status = make_launch(b, plan, &made, err);
    if (status != FA4_OK) {
        free_launch(b, &made);
        return status;
    }
    int32_t at = b->launch_count < CUDA_LAUNCHES_MAX ? b->launch_count++ : b->next_launch++ % CUDA_LAUNCHES_MAX;
    free_launch(b, &b->launches[at]);
    b->launches[at] = made;
    *launch = &b->launches[at];
    return FA4_OK;
}

fa4_status cuda_launch_get(backend *b, const fa4_plan *plan, int32_t o_f32, cuda_launch **launch, fa4_error *err) {
    *launch = find_launch(b, plan->header.hash, o_f32);
    if (*launch == NULL) FA4_TRY(keep_launch(b, plan, o_f32, launch, err));
    if ((*launch)->function != NULL || (*launch)->launch->grid == 0) return FA4_OK;
    const cuda_kernel *kernel = NULL;
    FA4_TRY(get_kernel(b, &(*launch)->launch->variant, &kernel, err));
    (*launch)->function = kernel->function;
    (*launch)->combine = kernel->combine;
    return FA4_OK;
}

void cuda_kept_free(backend *b) {
    if (b->context == NULL) return;
    (void)b->driver.cuCtxSetCurrent(b->context);
    for (int32_t i = 0; i < b->launch_count; i++) free_launch(b, &b->launches[i]);
    for (int32_t i = 0; i < b->kernel_count; i++) free_kernel(b, &b->kernels[i]);
}
