/*
 * Threads that use the driver while the program ends.
 */
#ifndef TESTS_PROGRAMS_BUSY_H
#define TESTS_PROGRAMS_BUSY_H

#include "common/cuda.h"

/*
 * Start n threads that allocate and free as long as the process lives, and wait
 * until they run. Returns how many could be started. The driver may end while
 * they run: they accept any code, and only a crash is a fault. `cuda` stays
 * valid.
 */
unsigned busy_start(const struct cuda *cuda, context primary, unsigned n);

#endif
