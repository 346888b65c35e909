/*
 * Finds rows of neighbouring blocks that a request may use together.
 */
#ifndef ALLOCATOR_MEMORY_SPANS_H
#define ALLOCATOR_MEMORY_SPANS_H

#include "allocator/memory/tuning.h"
#include "allocator/state.h"

/* Blocks of every kind, for struct span_search. */
#define SPANS_OF_ALL_KINDS POOL_KINDS

/*
 * A search for each maximal row of neighbours, in expandable segments, that are
 * all good and have `least` bytes together. Only FREE and PENDING blocks can be
 * good. Of more than SPANS_ASKED blocks that other streams hold back it looks
 * at some only, except where memory must stay: spans.c, Note [Bounded
 * searches].
 */
struct span_search {
	const struct stream_heap *mine; /* the heap of the request */
	enum pool_kind kind;            /* or SPANS_OF_ALL_KINDS */
	size_t least;                   /* bytes, > 0 */
	bool (*is_good)(void *about, const struct block *block);
	void *about; /* for is_good() */
	/* Called once for each row. Must change no block. */
	void (*found)(struct span_search *search, const struct span *span);
	void *to; /* for found() */
	/* found() may lower it to skip larger rows. */
	size_t most;
	/* Search only so many of the largest runs of each pool; 0: all runs. */
	unsigned largest;
	/* Leave out runs without a whole handle: idle.h. */
	bool only_idle;
	/* found() may set it to end the search of the largest runs. */
	bool has_enough;
	/* Set by spans_find(): blocks of lists and runs of other streams that
	 * may still be looked at. */
	size_t listed_left;
	size_t runs_left;
};

void spans_find(struct span_search *search);

#endif
