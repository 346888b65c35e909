/*
 * How the requests of a playback were served: sums by way, and the requests
 * that cost most.
 *
 * What weir did for a request is known when it returns; how long its waits kept
 * the stream, only when weir sees that they are over. So each request that made
 * waits has a tag, by which its waits are found again.
 */
#ifndef TOOLS_WEIR_EXPLAIN_H
#define TOOLS_WEIR_EXPLAIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct explain;

/* A request that has returned. */
struct explain_call {
	size_t row;       /* of the trace, from 1 */
	uint64_t size;    /* bytes asked for */
	unsigned stream;  /* the trace's number */
	uint64_t host_ns; /* that the call took */
	bool failed;      /* for want of memory */
	unsigned (*number)(const void *closure, uint64_t handle);
	const void *closure; /* for number(): a stream by its handle */
};

/* There is one at a time, for the calling thread. NULL without memory. */
struct explain *explain_new(void);
void explain_free(struct explain *explain);

/* Around each request; nothing where there is none, NULL. False, and a
 * complaint, without memory. */
void explain_begin(struct explain *explain);
bool explain_end(struct explain *explain, const struct explain_call *call);

/* Sums, an object for each way that served a request; and the requests that
 * took most time of the host and of their streams, at most n of them. */
json_t *explain_ways(const struct explain *explain);
json_t *explain_costliest(struct explain *explain, size_t n);

#endif
