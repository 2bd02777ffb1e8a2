/*
 * From a plan and tensors to what a launch needs: the kernel's variant, tensor-map arguments, parameter block, grid, and the buffers to
 * upload. Pure functions of their inputs: no device is asked. Shared by cuda/ and emu/, for sm_100a and sm_90a.
 */
#ifndef FA4_KERNEL_LAUNCH_H
#define FA4_KERNEL_LAUNCH_H

#include "kernel/tensormap.h"
#include "plan/plan.h"
#include "../../kernels/barriers.h"

/* Buffers that a launch uploads, in this order in one allocation; each starts on a 256-byte boundary. */
typedef enum kernel_upload {
    KERNEL_UPLOAD_TASKS = 0,
    KERNEL_UPLOAD_STEPS = 1,
    KERNEL_UPLOAD_ROW_LO = 2,
    KERNEL_UPLOAD_ROW_HI = 3,
    KERNEL_UPLOAD_BIT_TILES = 4,
    KERNEL_UPLOAD_WORKERS = 5,
    KERNEL_UPLOAD_NEXT_TASK = 6, /* written by the kernel: upload anew before every launch */
    KERNEL_UPLOAD_COUNTERS = 7,  /* likewise; FwdCounters per head of the plan */
    KERNEL_UPLOAD_WORKSPACE = 8, /* written by the kernel, read by fa4_combine: not uploaded, and last */
    KERNEL_UPLOAD_COUNT = 9
} kernel_upload;

/* The part of a launch that follows from the plan alone; made once, used for every run of the plan. */
typedef struct kernel_launch {
    FwdVariant variant;
    uint32_t grid, block; /* CTAs (0: nothing to do, do not launch) and threads of one; one dimension each */
    int32_t take;         /* FWD_TAKE_* */
    int32_t independent;  /* 1: no CTA's work depends on what others have done */
    uint32_t smem_bytes;  /* dynamic shared memory */
    uint32_t combine_grid; /* CTAs of fa4_combine, FWD_COMBINE_THREADS each; 0: the keys are not split */
    int64_t upload_bytes;  /* of all buffers */
    int64_t copy_bytes;    /* of those to copy: all but the workspace */
    int64_t upload_offset[KERNEL_UPLOAD_COUNT]; /* in `upload`; absent buffers have the same offset as the next */
    int64_t upload_size[KERNEL_UPLOAD_COUNT];   /* bytes, 0 = absent */
    unsigned char *upload;                      /* owned; host memory to copy to the device, copy_bytes of it */
} kernel_launch;

/* The variant that a plan asks for. o_f32: the output tensor is f32. */
void kernel_variant_of_plan(const fa4_plan *plan, int32_t o_f32, FwdVariant *variant);
/* Why a kernel cannot run this plan (FA4_UNSUPPORTED with the nearest supported value), or FA4_OK. */
fa4_status kernel_launch_supports(const fa4_plan *plan, fa4_error *err);
/* Builds everything that does not depend on tensors. Free with kernel_launch_destroy. */
fa4_status kernel_launch_create(const fa4_plan *plan, int32_t o_f32, kernel_launch **launch, fa4_error *err);
void kernel_launch_destroy(kernel_launch *launch); /* NULL is allowed */
/* Describes the four maps (q, k, v, o; the last is unused when O is f32). Tensors were accepted by plan_check_tensors; what TMA cannot express
 * is refused with the field and the reason. dummy: 16-byte aligned address of the device for maps of tensors without elements. */
fa4_status kernel_launch_maps(const fa4_plan *plan, const fa4_tensors *tensors, uint64_t dummy,
                              kernel_tensormap maps[FWD_MAP_COUNT], fa4_error *err);
/* Fills everything of the parameter block but the encoded maps, which the caller puts into params->map. upload: device address of the copy of
 * launch->upload. */
void kernel_launch_params(const fa4_plan *plan, const kernel_launch *launch, const fa4_tensors *tensors, uint64_t upload,
                          FwdParams *params);
/* Adds the kernel's counters, copied back from the device, to per_head[plan heads]. */
void kernel_launch_counters(const fa4_plan *plan, const FwdCounters *counters, fa4_counters *per_head);

/* One row of the barrier table, for findings and for print. */
typedef struct kernel_barrier {
    const char *name;    /* "q_load.full", "s_ready", "row_stats" */
    int32_t copies;
    int32_t first;       /* byte offset of copy 0 in shared memory; named barriers: the first id */
    int32_t named;       /* 1: a hardware named barrier */
    int32_t arrives;     /* FWD_ROLE_* bits */
    int32_t count;       /* arrivals (threads, when named) of one phase */
    int32_t waits;       /* FWD_ROLE_* bits */
} kernel_barrier;

/* One region of shared or tensor memory. */
typedef struct kernel_region {
    const char *name;
    int32_t first, size; /* bytes of shared memory, or columns of tensor memory */
} kernel_region;

enum { KERNEL_TABLE_MAX = 40 };

typedef struct kernel_tables {
    int32_t barrier_count, smem_count, tmem_count;
    kernel_barrier barriers[KERNEL_TABLE_MAX];
    kernel_region smem[KERNEL_TABLE_MAX], tmem[KERNEL_TABLE_MAX];
} kernel_tables;

/* The tables of a variant: what the kernel itself is compiled from. */
void kernel_tables_of_variant(const FwdVariant *variant, kernel_tables *tables);
/* Bytes of dynamic shared memory of a variant. */
int32_t kernel_variant_smem_bytes(const FwdVariant *variant);
/* Role (FWD_ROLE_* bit) of a warp of the CTA; 0 when it has none. */
int32_t kernel_variant_warp_role(const FwdVariant *variant, int32_t warp);
const char *kernel_role_name(int32_t role);

#endif
