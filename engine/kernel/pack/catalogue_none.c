/* An empty catalogue: for kernel_pack itself, and for builds without NVRTC. */
#include "kernel/catalogue.h"

const kernel_catalogue_entry kernel_catalogue[] = {{0}};
const int32_t kernel_catalogue_count = 0;
