/* The sm_90a kernel on the emulator: the same problems, special numbers and schedules as sm_100a's, held to the same reference and CPU; and
 * what sm_90a alone has: keys in parts, tiles of 192 rows. */
#define EMU_DEVICE "emu:sm_90a"
#define EMU_PROBLEMS 20, 2, 4
#define EMU_SPLITS
#include "emu_sm100_test.c"
