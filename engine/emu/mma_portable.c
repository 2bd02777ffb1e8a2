/* The matrix kit for any CPU. */
#include "mma_kit.h"

const emu_mma_kit emu_mma_portable = {"portable", kit_widen, kit_rows, kit_split, kit_transpose, kit_product};
