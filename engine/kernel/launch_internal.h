/* What the launch's own files share: the walk of a task, as the kernels will take it. */
#ifndef FA4_KERNEL_LAUNCH_INTERNAL_H
#define FA4_KERNEL_LAUNCH_INTERNAL_H

#include "kernel/launch.h"

/* The union of one or two tiles' block lists, for every first tile of a task; tasks of other heads and batches share it. */
typedef struct launch_walks {
    FwdStep *steps;
    int64_t step_count, step_room;
    FwdTask *of_list; /* by index of the first tile's list: steps, own and first_step; steps -1 = not made yet */
} launch_walks;

static inline int launch_is_sm90(const fa4_plan_header *h) {
    return h->backend == FA4_BACKEND_CUDA_SM90 || h->backend == FA4_BACKEND_EMU_SM90;
}
/* The kernels derive the steps of these classes themselves. */
static inline int launch_derives_steps(const fa4_plan_header *h) {
    return h->mask_class == FA4_CLASS_FULL || h->mask_class == FA4_CLASS_CAUSAL;
}

/* Makes the walk of every task, and checks that derived steps are those of the plan's lists. Free with launch_walks_free, failed or not. */
fa4_status launch_walks_make(const fa4_plan *plan, launch_walks *walks, fa4_error *err);
void launch_walks_free(launch_walks *walks);
/* A task as the kernel reads it. */
FwdTask launch_task(const fa4_plan *plan, const launch_walks *walks, const fa4_task *task);

#endif
