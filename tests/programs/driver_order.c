/*
 * A program whose streams take turns by events: what one has freed the other
 * may have, once it waits for it. Two rings of streams, one of which leaves an
 * order out, and events that are recorded again and destroyed while they are
 * waited for.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum { ROUNDS = 200, WORDS = 1 << 18, NON_BLOCKING = 1, NO_TIMING = 2 };

typedef struct event_st *event;

static struct cuda cuda;
static uint32_t host[WORDS];

static struct {
	result (*create)(event *, unsigned);
	result (*destroy)(event);
	result (*record)(event, stream);
	result (*wait)(stream, event, unsigned);
} events;

static void
fetch(const char *name, void *place)
{
	void *symbol = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);

	if (symbol == NULL)
		exit(3);
	memcpy(place, &symbol, sizeof(symbol));
}

static unsigned
wrong_words(address ptr, uint32_t value, stream on)
{
	unsigned wrong = 0;

	MUST(cuda.stream_synchronize(on));
	MUST(cuda.copy_out(host, ptr, sizeof(host)));
	for (int i = 0; i < WORDS; i++)
		wrong += host[i] != value;
	return wrong;
}

/* One turn: memory that is filled on the stream, and freed behind that. */
static unsigned
turn(stream on, uint32_t value, int look)
{
	unsigned wrong = 0;
	address ptr;

	MUST(cuda.mem_alloc_async(&ptr, sizeof(host), on));
	MUST(cuda.fill(ptr, value, WORDS, on));
	MUST(cuda.fill(ptr, ~value, WORDS, on));
	if (look)
		wrong = wrong_words(ptr, ~value, on);
	MUST(cuda.mem_free_async(ptr, on));
	return wrong;
}

/* Each turn comes after the one before, by an event that is used once. */
static unsigned
take_turns(stream *on)
{
	unsigned wrong = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		event after;

		wrong += turn(on[i % 2], i, i % 16 == 0);
		MUST(events.create(&after, NO_TIMING));
		MUST(events.record(after, on[i % 2]));
		MUST(events.wait(on[(i + 1) % 2], after, 0));
		MUST(events.destroy(after));
	}
	return wrong;
}

/* The event is recorded again before anybody waits, so that the wait is for
 * something else: streams 0 and 1 are not ordered. */
static unsigned
miss_turns(stream *on)
{
	unsigned wrong = 0;
	event after;

	MUST(events.create(&after, NO_TIMING));
	for (uint32_t i = 0; i < ROUNDS; i++) {
		wrong += turn(on[i % 2], i, i % 16 == 0);
		MUST(events.record(after, on[i % 2]));
		MUST(events.record(after, on[2]));
		MUST(events.wait(on[(i + 1) % 2], after, 0));
	}
	MUST(events.destroy(after));
	return wrong;
}

int
main(void)
{
	stream on[3];
	unsigned wrong;

	cuda_by_dlsym(&cuda);
	fetch("cuEventCreate", &events.create);
	fetch("cuEventDestroy_v2", &events.destroy);
	fetch("cuEventRecord", &events.record);
	fetch("cuStreamWaitEvent", &events.wait);
	cuda_start(&cuda);
	for (int i = 0; i < 3; i++)
		MUST(cuda.stream_create(&on[i], NON_BLOCKING, 0));
	wrong = take_turns(on);
	MUST(cuda.synchronize());
	wrong += miss_turns(on);
	MUST(cuda.synchronize());
	for (int i = 0; i < 3; i++)
		MUST(cuda.stream_destroy(on[i]));
	printf("wrong words: %u\n", wrong);
	return wrong != 0;
}
