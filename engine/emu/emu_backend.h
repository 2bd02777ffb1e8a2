/* The emulator as one of the backends of backend.h: "emu:sm_100a" and "emu:sm_90a". */
#ifndef FA4_EMU_BACKEND_H
#define FA4_EMU_BACKEND_H

#include "backend.h"

extern const backend_functions emu_backend;

#endif
