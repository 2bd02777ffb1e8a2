/* libFuzzer target: any bytes, read as npy. */
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_run(FUZZ_NPY, data, size);
}
