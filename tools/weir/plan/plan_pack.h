/*
 * Packing: gives the requests of a round places in a range that is as small as
 * possible, so that no two lie in the same bytes at the same time.
 *
 * That is the dynamic storage allocation problem on a circle, since each round
 * follows another one. It is NP-hard. Requests are placed one after another
 * where they fit; the order decides. The orders are those that the literature
 * finds good: by size, by life, by size times life, and by start. Each is tried
 * with the lowest place that fits, and with the tightest one, and the smallest
 * range is kept. No packing is smaller than the most bytes that are live at
 * once.
 */
#ifndef TOOLS_WEIR_PLAN_PLAN_PACK_H
#define TOOLS_WEIR_PLAN_PLAN_PACK_H

#include "snapshot/plan_file.h"
#include "tools/weir/plan/plan_lives.h"

/* How to pack a plan. */
struct plan_packing {
	const struct plan_lives *lives;
	/* Lives that are longer, or NULL: requests lie apart for these too, as
	 * far as the round then needs no more than `round_most` bytes, and the
	 * range `range_most`. A request that does not fit so lies apart for a
	 * share of what they are longer, the first that fits of `parts` - 1
	 * down to 0 parts of it. */
	const struct plan_lives *longer;
	unsigned parts; /* 1 or more */
	uint64_t round_most;
	uint64_t range_most;
	/* The round is this many requests, again and again. Those that live no
	 * longer have one place for all of them, if the range is then not much
	 * larger. */
	uint32_t unit;
	bool from_start; /* places for the requests before the round */
	/* Requests lie as in the recording, where that is known, as far as they
	 * are apart there and end within `round_most` bytes. */
	bool as_recorded;
};

/*
 * Set the offsets of the plan, its bytes, and its peak of live bytes. A request
 * of the round whose own stream may not use its memory again within a round
 * gets no place, nor do those before the round without `from_start`. The other
 * fields of the plan must be set, with all offsets PLAN_NO_PLACE. False, and a
 * complaint, without memory.
 */
bool plan_pack(struct plan *plan, const struct plan_packing *how);

#endif
