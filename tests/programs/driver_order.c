/*
 * A program whose streams take turns by events: a stream that waits for another
 * one may use memory that the other has freed. Then they miss their turns: the
 * event is recorded again before a stream waits for it. Events are destroyed
 * while streams wait for them. The argument is the number of words of a block;
 * with "turns" behind the number no turn is missed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda.h"

enum { ROUNDS = 100, WORDS_MAX = 1 << 22, NON_BLOCKING = 1, NO_TIMING = 2 };

typedef struct event_st *event;

static struct cuda cuda;
static uint32_t host[WORDS_MAX];
static size_t words = 1 << 18;

static struct {
	result (*create)(event *, unsigned);
	result (*destroy)(event);
	result (*record)(event, stream);
	result (*wait)(stream, event, unsigned);
} events;

static unsigned
wrong_words(address ptr, uint32_t value, stream on)
{
	unsigned wrong = 0;

	MUST(cuda.stream_synchronize(on));
	MUST(cuda.copy_out(host, ptr, words * 4));
	for (size_t i = 0; i < words; i++)
		wrong += host[i] != value;
	return wrong;
}

/* One turn: memory is filled on the stream, and freed behind the fill. */
static unsigned
turn(stream on, uint32_t value, int look)
{
	unsigned wrong = 0;
	address ptr;

	MUST(cuda.mem_alloc_async(&ptr, words * 4, on));
	MUST(cuda.fill(ptr, value, words, on));
	MUST(cuda.fill(ptr, ~value, words, on));
	if (look)
		wrong = wrong_words(ptr, ~value, on);
	MUST(cuda.mem_free_async(ptr, on));
	return wrong;
}

/* Each turn is ordered after the one before, by an event that is used once. */
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

/* The event is recorded again before the other stream waits, so the wait is for
 * other work: streams 0 and 1 are not ordered. */
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
main(int argc, char **argv)
{
	stream on[3];
	unsigned wrong;

	if (argc > 1)
		words = strtoul(argv[1], NULL, 10);
	if (words == 0 || words > WORDS_MAX)
		return 2;

	cuda_by_dlsym(&cuda);
	cuda_fetch("cuEventCreate", &events.create);
	cuda_fetch("cuEventDestroy_v2", &events.destroy);
	cuda_fetch("cuEventRecord", &events.record);
	cuda_fetch("cuStreamWaitEvent", &events.wait);
	cuda_start(&cuda);
	for (int i = 0; i < 3; i++)
		MUST(cuda.stream_create(&on[i], NON_BLOCKING, 0));
	wrong = take_turns(on);
	MUST(cuda.synchronize());
	if (argc == 1 || strstr(argv[1], "turns") == NULL)
		wrong += miss_turns(on);
	MUST(cuda.synchronize());
	for (int i = 0; i < 3; i++)
		MUST(cuda.stream_destroy(on[i]));
	printf("wrong words: %u\n", wrong);
	return wrong != 0;
}
