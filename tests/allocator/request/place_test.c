/*
 * places.h, Note [The same place again]: a program that repeats its requests
 * gets the same addresses, whatever other memory is ready meanwhile.
 */
#include "allocator/request/places.h"

#include "allocator/memory/block.h"
#include "allocator/memory/lookup.h"
#include "tests/support/device.h"

enum { MS = 1000000, REQUESTS = 8, SETTLED = 20 };

/* The program: each round takes blocks of these MiB on two streams in turn, and
 * frees them. Request 2 is larger than request 1, so that it has some place
 * that request 1 would fit too. */
static const unsigned mib[REQUESTS] = { 24, 4, 10, 6, 30, 8, 12, 16 };

struct program {
	weir_stream stream[2];
	char *spare; /* a live block of 4 MiB between other live ones */
	char *below; /* a live block below the place of request 0 */
	char *at[REQUESTS];
};

static void
take_all(struct program *p)
{
	for (int i = 0; i < REQUESTS; i++)
		p->at[i] = take((size_t)mib[i] * MIB, p->stream[i % 2]);
}

static void
give_all(const struct program *p)
{
	for (int i = 0; i < REQUESTS; i++)
		give(p->at[i]);
}

/* A program that has repeated its round often. */
static struct program
settled(const char *options)
{
	struct program p;

	device_need_sim("work takes as long as the test says");
	conf(options);
	take(512, new_stream());
	sim()->advance_ns((uint64_t)10000 * MS); /* earns a budget */
	for (int i = 0; i < 2; i++)
		p.stream[i] = new_stream();
	take(2 * MIB, p.stream[0]);
	p.spare = take(4 * MIB, p.stream[0]);
	p.below = take(2 * MIB, p.stream[0]);
	for (int n = 0; n < SETTLED; n++) {
		take_all(&p);
		give_all(&p);
	}
	return p;
}

static void
expect_same(const struct program *p, const struct program *before)
{
	for (int i = 0; i < REQUESTS; i++)
		EXPECT_EQ(p->at[i], before->at[i]);
	expect_healthy();
}

TEST(a_request_gets_the_same_place_although_other_memory_fits_better)
{
	struct program p = settled("tcache:0");
	struct program before = p;

	give(p.spare);
	take_all(&p);
	expect_same(&p, &before);
	EXPECT_EQ(take(4 * MIB, p.stream[1]), p.spare);
}

TEST(a_program_that_has_not_repeated_itself_gets_the_best_fit)
{
	struct program p = settled("tcache:0");

	take(20 * MIB, p.stream[1]); /* no request of the round before */
	give(p.spare);
	take_all(&p);
	EXPECT_EQ(p.at[1], p.spare);
	expect_healthy();
}

static const struct block *
block_at(const char *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr);
}

TEST(the_same_place_is_cut_out_of_the_middle_of_free_memory)
{
	struct program p = settled("tcache:0");
	struct program before = p;

	EXPECT_EQ(p.at[0], p.below + 2 * MIB);
	give(p.below);
	settle();
	p.at[0] = take((size_t)mib[0] * MIB, p.stream[0]);
	EXPECT_EQ(p.at[0], before.at[0]);
	EXPECT_EQ(block_state(block_at(p.below)), BLOCK_FREE);
	EXPECT_EQ(block_at(p.below)->size, 2 * MIB);
	EXPECT_EQ(block_state(block_at(p.at[0])->next), BLOCK_FREE);
	expect_healthy();
	give(p.at[0]);
	expect_healthy();
}

TEST(a_place_that_is_live_is_not_given_out_twice)
{
	struct program p = settled("tcache:0");
	struct program before = p;

	take_all(&p);
	for (int i = 0; i < REQUESTS; i++)
		if (i != 4)
			give(p.at[i]);
	take_all(&p);
	EXPECT_NE(p.at[4], before.at[4]);
	expect_healthy();
}

TEST(memory_that_went_back_to_the_driver_is_no_place)
{
	struct program p = settled("tcache:0");

	trim(0);
	take_all(&p);
	expect_healthy();
	give_all(&p);
	expect_healthy();
}

/* The first stream's requests find their memory used by the second one, which
 * the host has not waited for. */
static struct program
next_round_finds_memory_in_use(const char *options, struct program *before)
{
	struct program p = settled(options);

	take_all(&p);
	*before = p;
	record(p.at[0], p.stream[1]);
	busy(p.stream[1], 5);
	give_all(&p);
	p.at[0] = take((size_t)mib[0] * MIB, p.stream[0]);
	expect_healthy();
	return p;
}

TEST(a_stream_waits_for_the_same_place_within_the_budget)
{
	struct program before;
	struct program p = next_round_finds_memory_in_use("tcache:0", &before);

	EXPECT_EQ(p.at[0], before.at[0]);
	EXPECT_EQ(stats().num_gpu_waits, 1);
	EXPECT_EQ(stats().num_served_wait, 1);
}

TEST(no_stream_waits_for_the_same_place_if_the_program_may_not_be_delayed)
{
	static const char *const options[] = { "tcache:0,delay_percent:0",
		"tcache:0,prefer:speed" };
	struct program before;

	for (size_t i = 0; i < 2; i++) {
		struct program p =
		    next_round_finds_memory_in_use(options[i], &before);

		EXPECT_NE(p.at[0], before.at[0]);
		EXPECT_EQ(stats().num_gpu_waits, 0);
	}
}

/* ---- Random programs ----------------------------------------------------- */

enum { STREAMS = 3, STEPS = 40, MOST_STEPS = 16, ROUNDS = 30 };

static unsigned
random_below(unsigned n)
{
	static uint64_t state = 1;

	state = state * UINT64_C(6364136223846793005) + 1;
	return (unsigned)(state >> 33) % n;
}

/* A step of the round: a block that is written on its stream, perhaps read on
 * another one, and freed some steps later. */
struct step {
	size_t size;
	int stream;
	int reader; /* or the stream itself */
	int lives;  /* steps */
};

/* Play a round. Returns how many blocks have another address than `before`,
 * which it changes. */
static unsigned
play_steps(const struct step *steps, weir_stream *streams, void **before)
{
	void *live[STEPS] = { NULL };
	unsigned moved = 0;

	for (int i = 0; i < STEPS + MOST_STEPS; i++) {
		for (int j = 0; j < i && j < STEPS; j++)
			if (j + steps[j].lives == i)
				give(live[j]);
		if (i >= STEPS)
			continue;
		const struct step *s = &steps[i];
		live[i] = take(s->size, streams[s->stream]);
		busy(streams[s->stream], random_below(3));
		fill(live[i], s->size, 1, streams[s->stream]);
		if (s->reader != s->stream) {
			EXPECT_OK(weir_stream_wait_stream(
			    streams[s->reader], streams[s->stream]));
			fill(live[i], s->size, 2, streams[s->reader]);
			record(live[i], streams[s->reader]);
		}
		/* On average the work takes as long as the host. */
		sim()->advance_ns(random_below(20) * (MS / 10));
		moved += before[i] != live[i];
		before[i] = live[i];
	}
	return moved;
}

/* The simulation reports each write that is not ordered after earlier ones of
 * the same memory. */
TEST_TIMEOUT(random_rounds_get_the_same_places_and_no_memory_in_use, 60)
{
	struct step steps[STEPS];
	weir_stream streams[STREAMS];
	void *before[STEPS] = { NULL };
	unsigned moved = 0;

	device_need_sim("finds each race");
	conf("tcache:0");
	for (int i = 0; i < STREAMS; i++)
		streams[i] = new_stream();
	for (int i = 0; i < STEPS; i++)
		steps[i] = (struct step){
			.size = (size_t)(2 + random_below(40)) * MIB,
			.stream = (int)random_below(STREAMS),
			.reader = (int)random_below(STREAMS),
			.lives = 1 + (int)random_below(MOST_STEPS - 1),
		};
	for (int n = 0; n < ROUNDS; n++) {
		moved = play_steps(steps, streams, before);
		expect_healthy();
	}
	EXPECT_LT(moved, STEPS / 2);
}
