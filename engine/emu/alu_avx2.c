/* The vector handlers of arithmetic, compiled for AVX2. */
#include "alu_kit.h"

const emu_alu_kit emu_alu_avx2 = {"avx2", select_handler};
