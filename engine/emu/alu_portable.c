/* The vector handlers of arithmetic, compiled for any CPU. */
#include "alu_kit.h"

const emu_alu_kit emu_alu_portable = {"scalar", select_handler};
