/*
 * Programs that count their own requests, for comparison with a report. They
 * print "allocations: N, live: N bytes in N blocks, peak: N bytes".
 *
 *	driver_tally one	one thread, in any order, on two streams
 *	driver_tally many	threads at once, one after the other, for each
 *				other, and in handlers that run when they end
 *	driver_tally endless	threads that still run when the program ends
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "common/cuda.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static struct cuda cuda;
static context primary;

static atomic_uint allocations;

static address
take(size_t bytes, stream on)
{
	address block;

	MUST(cuda.mem_alloc_async(&block, bytes, on));
	atomic_fetch_add(&allocations, 1);
	return block;
}

static void
give(address block, stream on)
{
	MUST(cuda.mem_free_async(block, on));
}

static stream
new_stream(void)
{
	stream made;

	MUST(cuda.set_current(primary));
	MUST(cuda.stream_create(&made, 1, 0));
	return made;
}

static int
tell(size_t live, unsigned blocks, size_t peak)
{
	printf("allocations: %u, live: %zu bytes in %u blocks, "
	       "peak: %zu bytes\n",
	    atomic_load(&allocations), live, blocks, peak);
	return 0;
}

/* ---- One thread -------------------------------------------------------- */

static uint32_t
random_below(uint32_t n)
{
	static uint32_t state = 1;

	state = state * 1664525u + 1013904223u;
	return (uint32_t)(((uint64_t)state * n) >> 32);
}

static int
one(void)
{
	enum { BLOCKS = 32, STEPS = 20000 };
	address blocks[BLOCKS] = { 0 };
	size_t sizes[BLOCKS] = { 0 };
	stream streams[] = { new_stream(), new_stream() };
	unsigned n = 0;
	size_t live = 0;
	size_t peak = 0;

	for (int i = 0; i < STEPS; i++) {
		uint32_t which = random_below(BLOCKS);
		stream on = streams[which % 2];

		if (sizes[which] != 0) {
			give(blocks[which], on);
			live -= sizes[which];
			sizes[which] = 0;
			n--;
			continue;
		}
		sizes[which] = 1 + random_below(1u << random_below(23));
		blocks[which] = take(sizes[which], on);
		live += sizes[which];
		n++;
		if (live > peak)
			peak = live;
	}
	return tell(live, n, peak);
}

/* ---- Many -------------------------------------------------------------- */

enum { THREADS = 4, EACH = 8, ROUNDS = 500, TURNS = 20, HANDED = 16 };

static pthread_barrier_t all_hold;
static pthread_key_t at_end;

static void
pairs(stream on)
{
	for (int i = 0; i < ROUNDS; i++)
		give(take(64 * KIB, on), on);
}

/* Runs after the handlers of other libraries at the end of the thread. */
static void
once_more(void *left)
{
	stream on = left;

	pairs(on);
	MUST(cuda.stream_destroy(on));
}

static void *
hold_some(void *unused)
{
	stream on = new_stream();
	address blocks[EACH];

	pairs(on);
	for (int i = 0; i < EACH; i++)
		blocks[i] = take(MIB, on);
	pthread_barrier_wait(&all_hold);
	for (int i = 0; i < EACH; i++)
		give(blocks[i], on);
	pthread_setspecific(at_end, on);
	return unused;
}

static void *
take_for_another(void *blocks)
{
	MUST(cuda.set_current(primary));
	for (int i = 0; i < HANDED; i++)
		((address *)blocks)[i] = take(MIB, NULL);
	return NULL;
}

static void *
take_turn(void *unused)
{
	stream on = new_stream();

	pairs(on);
	MUST(cuda.stream_destroy(on));
	return unused;
}

static int
run(int n, void *(*what)(void *), void *argument)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, what, argument) != 0)
			return 3;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int
many(void)
{
	address handed[HANDED];
	int failed = pthread_barrier_init(&all_hold, NULL, THREADS) |
	    pthread_key_create(&at_end, once_more);

	failed |= run(THREADS, hold_some, NULL);
	for (int i = 0; i < TURNS; i++) {
		failed |= run(1, take_turn, NULL);
		failed |= run(1, take_for_another, handed);
		for (int k = 0; k < HANDED; k++)
			give(handed[k], NULL);
	}
	return failed != 0 ? failed : tell(0, 0, (size_t)THREADS * EACH * MIB);
}

/* ---- No end ------------------------------------------------------------ */

static atomic_uint going;

static void *
go_on(void *unused)
{
	stream on = new_stream();

	pairs(on);
	atomic_fetch_add(&going, 1);
	/* When the program ends, the driver may end, too. */
	for (;;) {
		address block;

		if (cuda.mem_alloc_async(&block, 64 * KIB, on) != SUCCESS ||
		    cuda.mem_free_async(block, on) != SUCCESS)
			return unused;
	}
}

static int
endless(void)
{
	for (int i = 0; i < THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, go_on, NULL) != 0)
			return 3;
		pthread_detach(thread);
	}
	while (atomic_load(&going) < THREADS)
		sched_yield();
	printf("the end\n");
	return 0;
}

int
main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "one";

	cuda_by_dlsym(&cuda);
	primary = cuda_start(&cuda);
	if (strcmp(how, "many") == 0)
		return many();
	return strcmp(how, "endless") == 0 ? endless() : one();
}
