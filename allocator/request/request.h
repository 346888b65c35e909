/*
 * The state of one request on the ladder, for the files that serve it.
 */
#ifndef ALLOCATOR_REQUEST_REQUEST_H
#define ALLOCATOR_REQUEST_REQUEST_H

#include "allocator/memory/view.h"
#include "allocator/policy/policy.h"

/* One request on the ladder. */
struct request {
	struct stream_heap *heap;
	const struct options *options;
	size_t size;
	size_t rounded; /* the size to find: its size class */
	enum pool_kind kind;
	CUdeviceptr place;   /* that it had the round before; 0: unknown */
	CUdeviceptr planned; /* its place in the plan; 0: none */
	bool unlisted;       /* the plan that is followed does not have it */
	size_t need;       /* bytes missing under the limit or in the device */
	struct block *got; /* the result, ACTIVE */
	bool got_own;      /* the result was the stream's own memory */

	/* Found by the steps. */
	struct view view;
	bool has_pressure; /* set by search_usable(), up to `prices` */
	uint64_t late_ns;
	uint64_t slack_ns;
	enum waits waits;
	struct wait_prices prices;
	/* For the search under way: may the request make the wait for a use of
	 * a block, or, if `use` is NULL, for its free? NULL: any wait. */
	bool (*is_good)(struct request *r, const struct block *block,
	    const struct use *use);
	enum waits allowed; /* wait_on_device(): the limits of is_good() */
	uint64_t level_ns;  /* price_wait(): the longest delay */
	/* wait_for_some(): the index of the heap whose fences it follows, and
	 * the tick of the latest fence. */
	uint64_t follows;
	uint64_t followed_until;
};

#endif
