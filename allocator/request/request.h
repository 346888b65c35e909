/*
 * One request on its way down the ladder, for the files that serve it.
 */
#ifndef ALLOCATOR_REQUEST_REQUEST_H
#define ALLOCATOR_REQUEST_REQUEST_H

#include "allocator/memory/view.h"
#include "allocator/policy/policy.h"

/* One request on its way. */
struct request {
	struct stream_heap *heap;
	const struct options *options;
	size_t size;
	size_t rounded; /* what is looked for: the size class */
	enum pool_kind kind;
	size_t need;       /* bytes the driver or the limit could not give */
	struct block *got; /* ACTIVE, of pools */
	bool got_own;      /* of memory that was the stream's own */

	/* Found out on the way. */
	struct view view;
	bool has_pressure; /* search_usable(), as are these: */
	uint64_t late_ns;
	uint64_t slack_ns;
	enum waits waits;
	struct wait_prices prices;
	uint64_t level_ns; /* price_wait(): delays up to this */
	uint64_t busy_ns;  /* and for how long the stream has been busy */
	/* wait_for_some(): the stream whose fences are followed, by the index
	 * of its pools, and how far. */
	uint64_t follows;
	uint64_t followed_until;
};

#endif
