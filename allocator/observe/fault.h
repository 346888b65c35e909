/*
 * The faults that weir_check() finds.
 */
#ifndef ALLOCATOR_OBSERVE_FAULT_H
#define ALLOCATOR_OBSERVE_FAULT_H

#include <stddef.h>

/* Lines of text, one a fault, as far as they fit; all are counted. */
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
