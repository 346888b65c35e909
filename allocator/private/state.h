/*
 * The state of an arena as one of several of a device: docs/adr/0006.
 */
#ifndef ALLOCATOR_PRIVATE_STATE_H
#define ALLOCATOR_PRIVATE_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct copies;

/* Written by suspension.h. */
struct suspension {
	atomic_bool set; /* suspended, or about to be so: graphs/suspend.h */
	bool moving;     /* suspending or resuming, with the lock released */
	bool sleeps;     /* suspended because the device is put to sleep */
	/* Drops a suspended arena's memory for good if no block of it is live
	 * or pending. Set while account.uncounted is. May release and retake
	 * the lock, in a job of the caller's. */
	void (*drop)(struct arena *arena);
	struct copies *copies; /* of its contents; NULL: none are kept */
	/* Frees `copies` when the context is gone. */
	void (*forget)(struct copies *copies);
};

struct arena_private {
	/* In the device's own arena: the latest of the others, how many of
	 * these have no owner, and how many are out of use. */
	_Atomic(struct arena *) others;
	atomic_uint unowned;
	atomic_uint unused;
	struct arena *next; /* the next of the others; constant */

	/* Under the arena's lock from here on. */
	unsigned owners;
	bool in_use;
	uint64_t generation; /* how often the arena has gone out of use */
	struct suspension suspension;
};

#endif
