// The store role of the Hopper kernel: one thread that sends staged tiles of O to global memory. Consumers stage, arrive on o_store.full
// and go on; issuing the copies themselves cost their loop its uniform registers (48 R2UR).
#ifndef FA4_KERNELS_SM90_STORE_CUH
#define FA4_KERNELS_SM90_STORE_CUH

#include "sm90.cuh"

DEVICE void store_role(const FwdParams &params, Smem smem) {
    if (FA4_O_F32 || IS_SPLIT) return; // consumers store f32 themselves
    Ring<1> o;
    for (;;) {
        wait(smem.o_store_full(0), o.parity());
        FwdTask task = read_task(smem.task(o.uses));
        if (task.steps == FWD_NO_TASK) break;
        RowPlace place = place_row(params, task, 0);
        // Rows and columns beyond the tensor are clipped by the map.
        for (int half = 0; half < HALVES; half++)
            ptx::cp_async_bulk_tensor_4d_store(&params.map[FWD_MAP_O], smem.o() + half * Q_HALF_BYTES, 64 * half, place.head,
                                               place.position, task.batch);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read_0();
        ptx::mbarrier_arrive(smem.o_store_empty(0));
        o.advance();
    }
    ptx::cp_async_bulk_wait_group_0();
}

#endif
