/* Plans and runs: opens the device that the request names, checks, runs, and completes the report. */
#include "api/api.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fa4_status fa4_plan_create(fa4_context *context, const fa4_request *request, fa4_plan **out, fa4_error *err) {
    api_device *device = NULL;
    FA4_TRY(api_device_open(context, request->device, &device, err));
    bool automatic = request->device == NULL || strcmp(request->device, "auto") == 0;
    fa4_plan *plan = NULL;
    fa4_status status;
    for (;;) {
        plan_limits limits;
        memset(&limits, 0, sizeof limits);
        device->functions->limits(device->backend, &limits);
        limits.device = device->name;
        status = plan_create(request, &limits, &context->interrupt, &plan, err);
        if (status == FA4_OK) status = device->functions->supports(device->backend, plan, err);
        bool to_cpu = status == FA4_UNSUPPORTED && automatic && limits.backend != FA4_BACKEND_CPU;
        if (!to_cpu) break;
        fa4_plan_destroy(plan);
        plan = NULL;
        FA4_TRY(api_device_open(context, "cpu", &device, err));
    }
    if (status != FA4_OK) {
        fa4_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return FA4_OK;
}

/* Strides whose offsets overflow, and addresses that do not fit the elements: only host memory is touched from here. */
static fa4_status check_views(const fa4_tensors *t, bool lse, fa4_error *err) {
    if (t->q.device != 0) return FA4_OK;
    FA4_TRY(tensor_check(&t->q, "q", err));
    FA4_TRY(tensor_check(&t->k, "k", err));
    FA4_TRY(tensor_check(&t->v, "v", err));
    FA4_TRY(tensor_check(&t->o, "o", err));
    return lse ? tensor_check(&t->lse, "lse", err) : FA4_OK;
}

static fa4_status check_overlaps(const fa4_tensors *t, bool lse, fa4_error *err) {
    const fa4_tensor *inputs[] = {&t->q, &t->k, &t->v};
    static const char *const names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++) {
        if (tensor_overlap(&t->o, inputs[i])) return error_set(err, FA4_BAD_ARGUMENT, "o: it overlaps %s", names[i]);
        if (lse && tensor_overlap(&t->lse, inputs[i])) return error_set(err, FA4_BAD_ARGUMENT, "lse: it overlaps %s", names[i]);
    }
    if (!tensor_distinct(&t->o)) return error_set(err, FA4_BAD_ARGUMENT, "o: its elements overlap each other (strides)");
    if (lse && !tensor_distinct(&t->lse)) return error_set(err, FA4_BAD_ARGUMENT, "lse: its elements overlap each other (strides)");
    if (lse && tensor_overlap(&t->o, &t->lse)) return error_set(err, FA4_BAD_ARGUMENT, "lse: it overlaps o");
    return FA4_OK;
}

static double tensor_bytes(const fa4_tensor *t) {
    double bytes = (double)fa4_dtype_bytes(t->dtype);
    for (int32_t a = 0; a < t->rank; a++) bytes *= (double)t->shape[a];
    return bytes;
}

/* Totals from the heads, and what follows from plan and time. */
static void complete(const fa4_plan *plan, const fa4_tensors *t, const fa4_counters *heads, fa4_report *report) {
    const fa4_plan_header *h = &plan->header;
    plan_count(plan, &report->total, NULL);
    for (int32_t i = 0; i < h->heads; i++) {
        report->total.rescaled_rows += heads[i].rescaled_rows;
        report->total.spared_rows += heads[i].spared_rows;
        report->total.rescaled_warps += heads[i].rescaled_warps;
        report->total.max_fixups += heads[i].max_fixups;
        report->total.exponent_max = fmax(report->total.exponent_max, heads[i].exponent_max);
        report->total.p_max = fmax(report->total.p_max, heads[i].p_max);
    }
    report->flops = plan_flops(plan);
    report->tflops = report->time_us > 0 ? report->flops / report->time_us * 1e-6 : 0;
    report->bytes = tensor_bytes(&t->q) + tensor_bytes(&t->k) + tensor_bytes(&t->v) + tensor_bytes(&t->o) +
                    (h->problem.lse ? tensor_bytes(&t->lse) : 0);
    report->plan_hash = h->hash;
    report->heads = h->heads;
    snprintf(report->variant, sizeof report->variant, "%s", h->variant);
}

static fa4_status check_run(const fa4_plan *plan, const fa4_tensors *tensors, fa4_error *err) {
    const fa4_plan_header *h = &plan->header;
    bool gpu = h->backend != FA4_BACKEND_CPU;
    FA4_TRY(plan_check_tensors(plan, tensors, gpu ? 16 : 1, err));
    FA4_TRY(check_views(tensors, h->problem.lse, err));
    return check_overlaps(tensors, h->problem.lse, err);
}

fa4_status fa4_launch(fa4_context *context, const fa4_plan *plan, const fa4_tensors *tensors, void *stream, fa4_error *err) {
    api_device *device = NULL;
    FA4_TRY(api_device_open(context, plan->header.device, &device, err));
    if (plan->header.schedule.counters)
        return error_set(err, FA4_UNSUPPORTED, "counters: a queued launch has no report; make the plan without counters, or use fa4_run");
    FA4_TRY(check_run(plan, tensors, err));
    return device->functions->launch(device->backend, plan, tensors, stream, err);
}

/* Heads whose counters fit on the stack: a small call allocates nothing. */
enum { LOCAL_HEADS = 64 };

static fa4_status run_reported(fa4_context *context, const api_device *device, const fa4_plan *plan, const fa4_tensors *tensors,
                               fa4_report *report, fa4_counters *per_head, fa4_error *err) {
    const fa4_plan_header *h = &plan->header;
    fa4_report local;
    fa4_counters few[LOCAL_HEADS];
    memset(&local, 0, sizeof local);
    fa4_counters *heads = per_head != NULL ? per_head : h->heads <= LOCAL_HEADS ? few : malloc((size_t)h->heads * sizeof *heads);
    if (heads == NULL) return error_set(err, FA4_NO_MEMORY, "run: no memory for the counters of %d heads", h->heads);
    memset(heads, 0, (size_t)h->heads * sizeof *heads);
    for (int32_t i = 0; i < h->heads; i++) heads[i].exponent_max = -INFINITY;
    context->progress = 0;
    fa4_status status = device->functions->run(device->backend, plan, tensors, &local, heads, err);
    context->progress = 0;
    if (status == FA4_OK || status == FA4_FINDING) {
        complete(plan, tensors, heads, &local);
        if (per_head != NULL) plan_count(plan, NULL, per_head);
        if (report != NULL) *report = local;
    }
    if (heads != per_head && heads != few) free(heads);
    return status;
}

fa4_status fa4_run(fa4_context *context, const fa4_plan *plan, const fa4_tensors *tensors, fa4_report *report,
                   fa4_counters *per_head, fa4_error *err) {
    const fa4_plan_header *h = &plan->header;
    api_device *device = NULL;
    FA4_TRY(api_device_open(context, h->device, &device, err));
    FA4_TRY(check_run(plan, tensors, err));
    if (report == NULL && per_head == NULL && device->functions->queues)
        return device->functions->run(device->backend, plan, tensors, NULL, NULL, err);
    return run_reported(context, device, plan, tensors, report, per_head, err);
}
