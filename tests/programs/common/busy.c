/*
 * Threads that use the driver while the program ends.
 */
#include "common/busy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { NAP_US = 100 };

static const struct cuda *driver;
static context current;
static atomic_uint running;

static void *
be_busy(void *argument)
{
	uint32_t seed = (uint32_t)(uintptr_t)argument;
	address ptr;

	if (driver->set_current(current) != SUCCESS)
		return NULL;
	atomic_fetch_add(&running, 1);
	for (;;) {
		if (driver->mem_alloc(&ptr, 1000 + seed % 100000) == SUCCESS)
			driver->mem_free(ptr);
		else
			usleep(NAP_US);
		seed = seed * 1664525u + 1013904223u;
	}
	return NULL;
}

unsigned
busy_start(const struct cuda *cuda, context primary, unsigned n)
{
	/* A child has the count of its parent, but none of its threads. */
	unsigned others = atomic_load(&running);
	unsigned made = 0;
	pthread_t thread;

	driver = cuda;
	current = primary;
	for (uintptr_t i = 1; i <= n; i++)
		made += pthread_create(&thread, NULL, be_busy, (void *)i) == 0;
	while (atomic_load(&running) < others + made)
		usleep(NAP_US);
	return made;
}
