/* One CTA of a launch, stepped by hand and looked into: what a debugger needs. Nothing here changes what the kernel computes. */
#ifndef FA4_EMU_SESSION_H
#define FA4_EMU_SESSION_H

#include "emu/emu.h"

typedef struct emu_session emu_session;

/* Keeps module; copies the launch but not what its pointers name. */
fa4_status emu_session_open(const emu_module *module, const emu_launch *launch, int64_t cta, emu_session **session, fa4_error *err);
void emu_session_close(emu_session *session); /* NULL is allowed */

typedef enum emu_stop { EMU_STOPPED_STEPS, EMU_STOPPED_BREAKPOINT, EMU_STOPPED_WAITING, EMU_STOPPED_END, EMU_STOPPED_FINDING } emu_stop;
/* See fa4_emu_session_step. interrupt may be NULL. */
emu_stop emu_session_step(emu_session *session, int32_t warp, int64_t steps, const int32_t *breakpoints, int32_t count, const volatile int32_t *interrupt);

typedef struct emu_place_of {
    int32_t warp;
    uint32_t instruction, lanes;
    int32_t state; /* as fa4_emu_fragment */
} emu_place_of;
int32_t emu_session_where(const emu_session *session, emu_place_of *places, int32_t room);
const ptx_function *emu_session_function(const emu_session *session);
/* 0 bits: there is no such register; below 0: its place does not hold its value here (not written yet, or no longer needed). */
int32_t emu_session_register(const emu_session *session, int32_t warp, const char *name, uint64_t values[32]);
/* false when the range leaves the CTA's memory. */
bool emu_session_shared(const emu_session *session, int64_t offset, int64_t bytes, uint8_t *out, uint8_t *written);
bool emu_session_tmem(const emu_session *session, int32_t column, uint32_t values[128]);

typedef struct emu_barrier_of {
    int64_t offset; /* from the start of dynamic shared memory, or the named barrier's id */
    int32_t named, phase, pending, expected;
    int64_t tx;
} emu_barrier_of;
int32_t emu_session_barriers(const emu_session *session, emu_barrier_of *barriers, int32_t room);
const emu_report *emu_session_report(const emu_session *session);

#endif
