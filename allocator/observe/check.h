/*
 * Where weir_check() reports its faults.
 */
#ifndef ALLOCATOR_OBSERVE_CHECK_H
#define ALLOCATOR_OBSERVE_CHECK_H

#include <stddef.h>

/* Where weir_check() tells its faults. */
struct check {
	char *text;
	size_t size;
	size_t used;
	size_t faults;
};

/* One more fault. */
void check_fault(struct check *check, const char *text);

#endif
