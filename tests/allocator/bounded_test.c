/*
 * Memory over time (docs/reliability.md): a random program of producers and
 * consumers, however long it runs, holds in its last tenth at most 5 % more
 * than in its second tenth, relative to the live bytes of each. By
 * cudaMalloc(), in the order of streams, and of pinned memory.
 *
 * `make test-bounded` makes 10^7 events of each, `make test` 10^5. Fewer events
 * prove nothing: the live bytes must have been near their peak by the second
 * tenth. In 10^5 events they come to hardly half of it, so that a program may
 * still need another segment.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir/host.h>

#include "tests/support/device.h"

enum { PAIRS = 4, DEPTH = 48, TENTHS = 10, EVENTS_AT_LEAST = 100000 };

/* After so many events the live bytes are near their peak. */
enum { EVENTS_TO_PEAK = 10000000 };

enum { SEGMENT = 20 * MIB };

enum kind { PLAIN, ORDERED, PINNED };

/* A producer's stream, a consumer's, and the blocks between them, oldest at
 * `first`. */
struct pair {
	weir_stream producer;
	weir_stream consumer;
	void *blocks[DEPTH];
	unsigned first;
	unsigned count;
};

struct program {
	enum kind kind;
	uint64_t state; /* state of the random numbers */
	struct pair pairs[PAIRS];
	uint64_t held[TENTHS]; /* at most, bytes */
	uint64_t live[TENTHS];
};

static unsigned
draw(struct program *program, unsigned below)
{
	program->state =
	    program->state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(program->state >> 33) % below;
}

/* Small sizes are as frequent as large ones, up to 4 MiB. */
static size_t
any_size(struct program *program)
{
	return GRANULE + draw(program, GRANULE << draw(program, 14));
}

static void
produce(struct program *program, struct pair *pair)
{
	size_t size = any_size(program);
	void *block;

	if (program->kind == PINNED)
		block = weir_host_malloc(size);
	else
		block = weir_malloc(size,
		    program->kind == PLAIN ? WEIR_STREAM_ANY : pair->producer);
	if (block == NULL)
		FAIL("%zu bytes: %s", size, weir_last_error());
	if (program->kind != PINNED)
		fill(block, GRANULE, 1, pair->producer);
	pair->blocks[(pair->first + pair->count++) % DEPTH] = block;
}

static void
consume(struct program *program, struct pair *pair)
{
	void *block = pair->blocks[pair->first];

	pair->first = (pair->first + 1) % DEPTH;
	pair->count--;
	if (program->kind == PINNED) {
		EXPECT_OK(weir_host_record(block, pair->consumer));
		EXPECT_OK(weir_host_free(block));
		return;
	}
	EXPECT_OK(weir_stream_wait_stream(pair->consumer, pair->producer));
	fill(block, GRANULE, 2, pair->consumer);
	if (program->kind == PLAIN) {
		/* cudaFree() frees when the work before it is done. */
		record(block, pair->consumer);
		EXPECT_OK(weir_free(block));
	} else {
		EXPECT_OK(weir_free_async(block, pair->consumer));
	}
}

static void
step(struct program *program)
{
	struct pair *pair = &program->pairs[draw(program, PAIRS)];
	unsigned die = draw(program, 64);

	if (die == 0)
		EXPECT_OK(weir_stream_synchronize(pair->consumer));
	else if (pair->count == 0 || (pair->count < DEPTH && die % 2 == 0))
		produce(program, pair);
	else
		consume(program, pair);
}

static void
look(struct program *program, unsigned tenth)
{
	struct weir_stats now = stats();

	if (program->kind == PINNED)
		EXPECT_OK(weir_host_stats(0, &now));
	if (now.reserved_bytes.all.current > program->held[tenth])
		program->held[tenth] = now.reserved_bytes.all.current;
	if (now.allocated_bytes.all.current > program->live[tenth])
		program->live[tenth] = now.allocated_bytes.all.current;
}

/* The peak of held bytes for each byte of the peak of live bytes. */
static double
share(const struct program *program, unsigned tenth)
{
	return (double)program->held[tenth] / (double)program->live[tenth];
}

static uint64_t
events_to_make(void)
{
	uint64_t events = test_effort(EVENTS_AT_LEAST);

	return events > EVENTS_AT_LEAST ? events : EVENTS_AT_LEAST;
}

static void
run(enum kind kind, const char *name)
{
	struct program *program = calloc(1, sizeof(*program));
	uint64_t events = events_to_make();

	device_need_sim("a GPU takes too long for so many events");
	EXPECT_OK(weir_set_device(0));
	program->kind = kind;
	for (int i = 0; i < PAIRS; i++) {
		program->pairs[i].producer = new_stream();
		program->pairs[i].consumer = new_stream();
	}
	for (uint64_t i = 0; i < events; i++) {
		step(program);
		if (i % 16 == 0)
			look(program, (unsigned)(i * TENTHS / events));
	}
	fprintf(stderr, "# %s, %llu events, most held, MB:", name,
	    (unsigned long long)events);
	for (int i = 0; i < TENTHS; i++)
		fprintf(stderr, " %.1f", (double)program->held[i] / 1e6);
	fprintf(stderr, "; most live: %.1f, then %.1f\n",
	    (double)program->live[1] / 1e6, (double)program->live[9] / 1e6);
	double more = events < EVENTS_TO_PEAK ? SEGMENT : 0;
	if (program->held[TENTHS - 1] > program->held[1])
		EXPECT_LE((double)program->held[TENTHS - 1],
		    share(program, 1) * 1.05 *
			    (double)program->live[TENTHS - 1] +
			more);
	expect_healthy();
	free(program);
}

TEST_TIMEOUT(plain_memory_is_bounded_over_time, 300)
{
	run(PLAIN, "plain");
}

TEST_TIMEOUT(memory_in_the_order_of_streams_is_bounded_over_time, 300)
{
	run(ORDERED, "stream-ordered");
}

TEST_TIMEOUT(pinned_memory_is_bounded_over_time, 300)
{
	run(PINNED, "pinned");
}
