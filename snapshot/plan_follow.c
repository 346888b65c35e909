/*
 * Compares a program's requests with those of a plan, one by one.
 */
#include "snapshot/plan_follow.h"

#include <string.h>

void
plan_follow_begin(struct plan_follow *follow, const struct plan *plan)
{
	memset(follow, 0, sizeof(*follow));
	follow->plan = plan;
}

/* ---- Equal requests ---------------------------------------------------- */

/* Is it the plan's stream of this number? An unknown one becomes known. */
static bool
is_stream(struct plan_streams *streams, uint32_t number, uint64_t stream)
{
	if ((streams->known >> number & 1) != 0)
		return streams->stream[number] == stream;
	for (uint32_t i = 0; i < PLAN_STREAMS; i++)
		if ((streams->known >> i & 1) != 0 &&
		    streams->stream[i] == stream)
			return false;
	streams->known |= UINT32_C(1) << number;
	streams->stream[number] = stream;
	return true;
}

static bool
is_entry(struct plan_streams *streams, const struct plan_entry *entry,
    const struct plan_seen *seen)
{
	return entry->size == seen->size &&
	    is_stream(streams, entry->stream, seen->stream);
}

/* The requests that must be the plan's before it is believed. */
static unsigned
seen_least(const struct plan *plan)
{
	uint32_t length = plan_round_length(plan);

	return length < PLAN_SEEN ? length : PLAN_SEEN;
}

/* Are the latest requests the first ones of the round? Then their streams are
 * the plan's, and no others are known. */
static bool
has_begun(struct plan_follow *follow)
{
	const struct plan *plan = follow->plan;
	unsigned least = seen_least(plan);
	struct plan_streams streams = { 0 };

	if (follow->count < least)
		return false;
	for (unsigned i = 0; i < least; i++)
		if (!is_entry(&streams, &plan->entries[plan->round + i],
			&follow->seen[(follow->count - least + i) % PLAN_SEEN]))
			return false;
	follow->streams = streams;
	return true;
}

/* ---- Rounds ------------------------------------------------------------ */

static void
end_round(struct plan_follow *follow, bool differs)
{
	follow->unlike = 0;
	if (!follow->joined)
		return;
	follow->rounds += !differs;
	follow->differing = differs ? follow->differing + 1 : 0;
	follow->ended = follow->differing >= PLAN_DIFFERING;
}

static void
leave(struct plan_follow *follow)
{
	end_round(follow, true);
	follow->away = true;
	follow->believed = false;
	follow->met = 0;
	follow->since = 0;
}

/* A request away from the plan. As many of them as a round has are another
 * round that differs. */
static void
pass_away(struct plan_follow *follow)
{
	unsigned least = seen_least(follow->plan);

	follow->since++;
	if (has_begun(follow)) {
		follow->away = false;
		follow->believed = true;
		follow->met = least;
		follow->strange = 0;
		follow->next = follow->plan->round + least - 1;
		return;
	}
	follow->others += follow->joined;
	if (follow->since % plan_round_length(follow->plan) == 0)
		end_round(follow, true);
}

/* The program has made the request of an entry. */
static void
pass_entry(struct plan_follow *follow, uint32_t i)
{
	const struct plan *plan = follow->plan;

	follow->strange = 0;
	follow->met++;
	follow->believed |= follow->met >= seen_least(plan);
	if (i >= plan->round) {
		follow->joined |= follow->believed;
		follow->followed += follow->joined;
	}
	follow->next = i + 1;
	if (follow->next < plan->count)
		return;
	follow->next = plan->round;
	end_round(follow, follow->unlike > 0);
}

static uint32_t
entry_after(const struct plan *plan, uint32_t i)
{
	return i + 1 < plan->count ? i + 1 : plan->round;
}

/* A request that is not the one expected: the plan has one in between, or does
 * not have this one. */
static const struct plan_entry *
pass_strange(struct plan_follow *follow, const struct plan_seen *seen)
{
	const struct plan *plan = follow->plan;
	uint32_t after = entry_after(plan, follow->next);

	follow->unlike++;
	if (follow->believed &&
	    is_entry(&follow->streams, &plan->entries[after], seen)) {
		if (after == plan->round)
			end_round(follow, true);
		pass_entry(follow, after);
		return &plan->entries[after];
	}
	follow->others += follow->joined;
	follow->strange++;
	if (!follow->believed || follow->strange >= seen_least(plan))
		leave(follow);
	return NULL;
}

static const struct plan_entry *
follow_known(struct plan_follow *follow, const struct plan_seen *seen)
{
	const struct plan_entry *entry = &follow->plan->entries[follow->next];
	uint32_t i = follow->next;

	if (!is_entry(&follow->streams, entry, seen))
		return pass_strange(follow, seen);
	pass_entry(follow, i);
	return entry;
}

const struct plan_entry *
plan_follow(struct plan_follow *follow, uint64_t stream, uint64_t size)
{
	struct plan_seen *seen = &follow->seen[follow->count++ % PLAN_SEEN];

	*seen = (struct plan_seen){ .stream = stream, .size = size };
	if (follow->away)
		pass_away(follow);
	return follow->away ? NULL : follow_known(follow, seen);
}
