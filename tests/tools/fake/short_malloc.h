/*
 * Memory that a test shares with the allocator of short_malloc.c.
 */
#ifndef TESTS_TOOLS_FAKE_SHORT_MALLOC_H
#define TESTS_TOOLS_FAKE_SHORT_MALLOC_H

struct short_malloc {
	unsigned count; /* allocations so far, of all processes */
	unsigned at;    /* the allocation that fails, from 1; 0: none */
	int lasts;      /* all later ones fail, too */
};

#endif
