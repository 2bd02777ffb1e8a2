/* The one clock that scripts measure with. */
#include "fa4.h"

#include <time.h>

double fa4_clock_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}
