/*
 * The faults that weir_check() finds.
 */
#ifndef ALLOCATOR_OBSERVE_FAULT_H
#define ALLOCATOR_OBSERVE_FAULT_H

#include <stddef.h>

/* One line of text per fault, as far as they fit. `faults` counts all of
 * them. */
struct check {
	char *text;
	size_t size;
	size_t used;
	size_t faults;
};

/* Add a fault. */
void check_fault(struct check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
