/* libFuzzer target: any bytes, read as npz. */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_run(FUZZ_NPZ, data, size);
}
