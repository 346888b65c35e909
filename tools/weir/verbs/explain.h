/*
 * How the requests of a playback were served: sums by way, and the requests
 * that cost most.
 *
 * The way in which weir served a request is known when the call returns. The
 * time for which its waits kept the stream is known later, when weir sees that
 * the waits are over. So each request that made waits has a tag, by which its
 * waits are assigned to it.
 */
#ifndef TOOLS_WEIR_VERBS_EXPLAIN_H
#define TOOLS_WEIR_VERBS_EXPLAIN_H

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
	uint64_t host_ns; /* duration of the call */
	bool failed;      /* memory ran out */
	unsigned (*number)(const void *closure, uint64_t handle);
	const void *closure; /* for number(): a stream by its handle */
};

/* Begin to record the requests of the calling thread. There may be one record
 * at a time. NULL without memory. */
struct explain *explain_new(void);
void explain_free(struct explain *explain);

/* Call these before and after each request. With NULL they do nothing.
 * explain_end() returns false, with a complaint, without memory. */
void explain_begin(struct explain *explain);
bool explain_end(struct explain *explain, const struct explain_call *call);

/* The sums, with an object for each way that served a request. */
json_t *explain_ways(const struct explain *explain);
/* The requests that took most time of the host and of their streams, at most n
 * of them. Later measurements of waits are ignored. */
json_t *explain_costliest(struct explain *explain, size_t n);

#endif
