/* The vector handlers of arithmetic, compiled for AVX-512. */
#include "alu_kit.h"

const emu_alu_kit emu_alu_avx512 = {"avx512", select_handler};
