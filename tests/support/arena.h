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

	EXPECT_OK(arena_get(0, &arena));
	return arena;
}

#endif
