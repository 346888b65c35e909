/*
 * The arena of device 0, for tests of what is inside.
 */
#ifndef TESTS_SUPPORT_ARENA_H
#define TESTS_SUPPORT_ARENA_H

#include "allocator/lifecycle.h"
#include "tests/support/device.h"

/* Made if there is none. */
static inline struct arena *
main_arena(void)
{
	struct arena *arena = NULL;
	int device = 0;

	EXPECT_OK(device_resolve(device, &device));
	EXPECT_OK(arena_get(device, &arena));
	return arena;
}

#endif
