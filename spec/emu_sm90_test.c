/* The sm_90a kernel on the emulator: the same problems, special numbers and schedules as sm_100a's, held to the same reference and CPU. */
#define EMU_DEVICE "emu:sm_90a"
#define EMU_PROBLEMS 20, 2, 4
#include "emu_sm100_test.c"
