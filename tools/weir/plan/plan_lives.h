/*
 * How long the requests of a plan keep their memory from each stream, counted
 * in requests: those before the first round, and those of a round.
 */
#ifndef TOOLS_WEIR_PLAN_PLAN_LIVES_H
#define TOOLS_WEIR_PLAN_PLAN_LIVES_H

#include "tools/weir/plan/plan_rounds.h"

/* When a freed block may serve a stream. */
enum plan_rule {
	/* From its free on. Another stream may have to wait for its work. */
	PLAN_BY_CALLS,
	/* Its own stream from its free on, another one when that is ordered
	 * after its work, or when the work is over. */
	PLAN_BY_WORK,
	/* As in one round of the recording (plan_steady.h), which must have
	 * addresses that weir chose: another stream from the first request on
	 * by which it got this memory, or memory that the same stream had freed
	 * later. */
	PLAN_AS_RECORDED,
};

struct plan_lives {
	uint32_t count; /* of requests */
	uint32_t streams;
	/* lives[i * streams + s]: from request i on, the number of requests,
	 * itself included, until stream s may use its memory; of a round, the
	 * longest of all rounds where the rule does not say otherwise.
	 * PLAN_NO_REQUEST: never, as far as the trace shows. */
	uint32_t *lives;
	uint32_t *live; /* for each request, until its free */
	/* For each request, its address in that round; NULL: another
	 * allocator than weir chose it. */
	uint64_t *addrs;
};

/* The shape of a trace's round, by the lives of its requests. */
struct plan_shapes {
	/* How many rounds are one round of the program: as many as the longest
	 * life lasts, and after which all lives repeat themselves. At most
	 * PLANNED_AS_ONE; 1 if no request lives longer than a round. Requests
	 * that live on longer than PLANNED_AS_ONE rounds do not count, nor do
	 * those of the first round, which makes what the program keeps. */
	uint32_t as_one;
	/* How many requests the first round has up to the last one whose memory
	 * lives longer than a round, while that of the same request of the next
	 * round does not. */
	uint32_t to_skip;
};

/* The trace must have a round. False, and a complaint, without memory. */
bool plan_shapes_find(const struct trace *trace,
    const struct plan_requests *requests, struct plan_shapes *out);

/* The trace must have a round, and PLAN_STREAMS streams at most. False, and a
 * complaint, without memory. */
bool plan_lives_make(const struct trace *trace,
    const struct plan_requests *requests, enum plan_rule rule,
    struct plan_lives *out);
void plan_lives_drop(struct plan_lives *lives);

#endif
