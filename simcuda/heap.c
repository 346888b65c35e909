/*
 * Host memory for simcuda's own tables. Allocation does not fail: a process
 * without host memory ends with a message.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simcuda/sim.h"

static void *
checked(void *memory)
{
	if (memory == NULL) {
		fputs("simcuda: the host has no memory left\n", stderr);
		abort();
	}
	return memory;
}

void *
sim_alloc(size_t size)
{
	return checked(calloc(1, size));
}

void *
sim_grow(void *old, size_t n, size_t *capacity, size_t item)
{
	size_t larger = *capacity * 2 + 4;
	char *grown;

	if (n < *capacity)
		return old;
	grown = checked(realloc(old, larger * item));
	memset(grown + *capacity * item, 0, (larger - *capacity) * item);
	*capacity = larger;
	return grown;
}
