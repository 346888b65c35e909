/*
 * The large requests of a trace, and the round that they repeat.
 *
 * A round is the shortest sequence of requests, in size and stream, that the
 * longest run of the trace repeats (plan_runs.h). The round begins where the
 * run does.
 */
#ifndef TOOLS_WEIR_PLAN_PLAN_ROUNDS_H
#define TOOLS_WEIR_PLAN_PLAN_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/weir/plan/plan_runs.h"
#include "tools/weir/reading/trace_file.h"

enum { PLAN_NO_REQUEST = UINT32_MAX };

struct plan_requests {
	struct plan_request *list;
	uint32_t total;   /* of the trace */
	uint32_t count;   /* to the end of the last round */
	uint32_t streams; /* of the trace, with those without large requests */
	/* For each block of the trace its request; PLAN_NO_REQUEST: it is no
	 * large one, or one after the last round. */
	uint32_t *of_block;
	uint32_t round;  /* the first request of the first round */
	uint32_t length; /* requests of a round; 0: there is no round */
	uint32_t unit;   /* requests of the shortest round */
};

/* False, and a complaint, without memory. */
bool plan_requests_make(const struct trace *trace, struct plan_requests *out);
void plan_requests_drop(struct plan_requests *requests);

/* The numbers of streams as rows are passed one by one. A stream that ends and
 * one that begins with its number are two. */
struct plan_names {
	uint32_t count;   /* of streams so far */
	uint32_t *number; /* by that of the trace; PLAN_NO_REQUEST: none yet */
};

/* False without memory. */
bool plan_names_begin(struct plan_names *names, const struct trace *trace);
void plan_names_drop(struct plan_names *names);

/* The streams of a row. */
struct plan_row_streams {
	uint32_t own;
	uint32_t other; /* of a wait: the stream that it is for */
};

/* Pass a row with the action a, f, k, w or e. */
struct plan_row_streams plan_names_pass(
    struct plan_names *names, const struct trace_row *row);

/* Has a row one of these actions? */
static inline bool
plan_names_concern(const struct trace_row *row)
{
	return row->action == 'a' || row->action == 'f' || row->action == 'k' ||
	    row->action == 'w' || row->action == 'e';
}

#endif
