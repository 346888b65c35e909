/*
 * The longest calls: one call of each kind, with many live blocks and much
 * unused memory, whose instructions and driver calls are counted.
 */
#ifndef TOOLS_BENCH_LATENCY_H
#define TOOLS_BENCH_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/stream.h>

struct latency {
	const char *name;
	const char *conf;
	bool (*prepare)(void);
	void (*run)(unsigned long n); /* n is 1 */
	bool (*is_right)(void);       /* has the call done its work? */
};

/* The kind of a name, or NULL. */
const struct latency *latency_find(const char *name);

/* Make the live blocks and the unused memory: 20,000 blocks and 2,000 spans, so
 * many times. */
bool latency_begin(const struct latency *kind, unsigned long times);

/* The driver calls so far, by a function that counts those of one name. */
uint64_t latency_driver_calls(uint64_t (*calls)(const char *entry));

#endif
