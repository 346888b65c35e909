/*
 * Following a plan: which entry of it a program's request is.
 *
 * A program follows from its first request on, or joins where it makes the
 * first requests of the round, in sizes and streams. Once PLAN_SEEN requests in
 * a row were those of the plan, it is believed. A program that has begun as the
 * plan does gets places before that.
 * A request that the plan does not list next has no place, and the round
 * differs; one request may be missing. After PLAN_SEEN such requests in a row
 * the program has left the plan, until it begins the round again. After
 * PLAN_DIFFERING rounds in a row that differ it does not follow any more.
 */
#ifndef SNAPSHOT_PLAN_FOLLOW_H
#define SNAPSHOT_PLAN_FOLLOW_H

#include <stdbool.h>

#include "snapshot/plan_file.h"

struct plan_seen {
	uint64_t stream;
	uint64_t size;
};

/* The program's streams that are known, by the plan's numbers. */
struct plan_streams {
	uint32_t known; /* bits */
	uint64_t stream[PLAN_STREAMS];
};

struct plan_follow {
	const struct plan *plan;
	struct plan_streams streams;
	uint32_t next;      /* the entry that is expected, unless `away` */
	bool away;          /* the program has left the plan */
	bool believed;      /* PLAN_SEEN requests in a row were the plan's */
	bool joined;        /* a round was believed, ever */
	bool ended;         /* too many rounds differed */
	unsigned met;       /* requests in a row that were the plan's */
	unsigned strange;   /* requests in a row that were not */
	unsigned differing; /* rounds in a row that differed */
	uint64_t unlike;    /* requests of this round that differed */
	uint64_t since;     /* requests since the program left */
	uint64_t count;     /* requests */
	struct plan_seen seen[PLAN_SEEN]; /* the latest, by their numbers */
	/* Since a round was believed first. */
	uint64_t rounds;   /* that did not differ */
	uint64_t followed; /* requests that were the plan's */
	uint64_t others;   /* requests that were not */
};

/* Begin at the plan's first request. The plan must outlive `follow`. */
void plan_follow_begin(struct plan_follow *follow, const struct plan *plan);

/* The round under way differs, for another reason than its requests. */
static inline void
plan_follow_differ(struct plan_follow *follow)
{
	follow->unlike++;
}

/*
 * Follow the next request. Not after `ended`.
 *
 * @param stream  any name; streams are told apart by it
 * @param size    bytes, a size class
 * @return the request's entry, if it has one and the program follows; or NULL
 */
const struct plan_entry *plan_follow(
    struct plan_follow *follow, uint64_t stream, uint64_t size);

#endif
