/*
 * plan.h, Note [A placement made ahead]: a program gets the places of its plan,
 * and a program that leaves it loses nothing.
 */
#include "allocator/request/plan.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/graph.h>
#include <weir/sleep.h>

#include "allocator/allocator.h"
#include "allocator/memory/lookup.h"
#include "base/os.h"
#include "snapshot/plan_file.h"
#include "tests/support/command.h"
#include "tests/support/device.h"

/* The program: it takes START blocks that it keeps, and in each round blocks of
 * these MiB, which it frees in the order of `frees`. */
enum { START = 9, ROUND = 10, PLANNED_START = 7, STARTED = START * 4 };

static const unsigned mib[ROUND] = { 24, 4, 10, 6, 30, 8, 12, 16, 2, 18 };

struct program {
	weir_stream stream[2];
	unsigned streams;
	char *at[ROUND];
	char *kept[START];
};

/* The offset of a request: each lies behind those before it, but for the last,
 * which lies where the first was. */
static uint64_t
offset_of(unsigned i)
{
	uint64_t offset = 0;

	for (unsigned n = 0; n < i && i < ROUND - 1; n++)
		offset += (uint64_t)mib[n] * MIB;
	return offset;
}

/* Write the plan, and set the option. */
static void
follow(struct plan *plan, const char *more)
{
	char *path = test_file("plan", "", 0);
	char text[4096];

	EXPECT_EQ(plan_write(plan, path), WEIR_OK);
	plan_free(plan);
	snprintf(text, sizeof(text), "plan:%s%s", path, more);
	conf(text);
	free(path);
}

/* Follow the plan of a program with this many streams, which holds so many MiB
 * without it. */
static void
follow_plan_within(unsigned streams, unsigned held, const char *more)
{
	struct plan *plan;

	EXPECT_EQ(plan_new(START + ROUND, &plan), WEIR_OK);
	plan->held_bytes = held * (uint64_t)MIB;
	plan->round = START;
	plan->streams = streams;
	plan->round_bytes =
	    offset_of(ROUND - 2) + (uint64_t)mib[ROUND - 2] * MIB;
	plan->bytes =
	    plan->round_bytes + (START - PLANNED_START) * 4 * (uint64_t)MIB;
	for (unsigned i = 0; i < START; i++)
		plan->entries[i] = (struct plan_entry){
			.size = 4 * (uint64_t)MIB,
			.offset = i < PLANNED_START ? PLAN_NO_PLACE :
						      plan->round_bytes +
				(i - PLANNED_START) * 4 * (uint64_t)MIB,
		};
	for (unsigned i = 0; i < ROUND; i++)
		plan->entries[START + i] =
		    (struct plan_entry){ .size = (uint64_t)mib[i] * MIB,
			    .offset = offset_of(i),
			    .stream = i % streams };
	follow(plan, more);
}

static void
follow_plan(unsigned streams, const char *more)
{
	follow_plan_within(streams, 1024, more);
}

static struct program
program_on(unsigned streams)
{
	struct program p = { .streams = streams };

	for (unsigned i = 0; i < streams; i++)
		p.stream[i] = new_stream();
	return p;
}

static void
start(struct program *p)
{
	for (int i = 0; i < START; i++) {
		p->kept[i] = take(4 * MIB, p->stream[0]);
		expect_healthy();
	}
}

static void
take_one(struct program *p, unsigned i)
{
	/* The last request may have the place of the first. */
	if (i == ROUND - 1)
		give(p->at[0]);
	p->at[i] = take((size_t)mib[i] * MIB, p->stream[i % p->streams]);
	expect_healthy();
}

static void
play_round(struct program *p)
{
	for (unsigned i = 0; i < ROUND; i++)
		take_one(p, i);
	for (unsigned i = 1; i < ROUND; i++) {
		give(p->at[i]);
		expect_healthy();
	}
}

/* Do the first `n` requests of the round lie at their offsets? */
static void
expect_first_planned(const struct program *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		EXPECT_EQ(p->at[i], p->at[0] + offset_of(i));
}

static void
expect_planned(const struct program *p)
{
	expect_first_planned(p, ROUND);
}

/* What the program holds with nothing but the range: MiB. */
static unsigned
held_with_range(void)
{
	return (unsigned)(offset_of(ROUND - 2) / MIB) + mib[ROUND - 2] +
	    STARTED;
}

static void
expect_held_range(void)
{
	EXPECT_EQ(reserved(), held_with_range() * (uint64_t)MIB);
}

TEST(a_program_gets_the_places_of_its_plan_from_the_first_round_on)
{
	follow_plan(1, "");
	struct program p = program_on(1);

	start(&p);
	expect_held_range();
	uint64_t calls = stats().num_map_calls;
	play_round(&p);
	expect_planned(&p);
	struct program first = p;
	for (int n = 0; n < 5; n++) {
		play_round(&p);
		for (int i = 0; i < ROUND; i++)
			EXPECT_EQ(p.at[i], first.at[i]);
	}
	EXPECT_EQ(stats().num_map_calls, calls);
	EXPECT_EQ(stats().num_planned, START - PLANNED_START + 6 * ROUND);
	expect_held_range();
}

TEST(a_program_that_begins_otherwise_gets_the_places_from_the_second_round_on)
{
	follow_plan(1, "");
	struct program p = program_on(1);

	void *other = take(40 * MIB, p.stream[0]);
	play_round(&p);
	play_round(&p);
	expect_planned(&p);
	struct program second = p;
	play_round(&p);
	expect_planned(&p);
	EXPECT_EQ(p.at[0], second.at[0]);
	give(other);
}

/* The most that weir has held. */
static uint64_t
most_held(void)
{
	return stats().reserved_bytes.all.peak;
}

/* The program warms up: with other sizes, with a pool that its graphs keep, and
 * with a round that is served before the plan is believed. */
TEST(a_warm_up_and_a_plan_hold_no_more_than_what_is_live_at_once)
{
	enum { POOL = 60, OTHERS = 50 };
	follow_plan_within(1, POOL + OTHERS, "");
	struct program p = program_on(1);
	struct weir_pool *pool = new_pool(0, 0);
	void *others[2];

	for (int i = 0; i < 2; i++)
		others[i] = take(OTHERS / 2 * MIB, p.stream[0]);
	void *graphs = take_from(pool, POOL * MIB, p.stream[0]);
	for (int i = 0; i < 2; i++)
		give(others[i]);
	for (int n = 0; n < 5; n++) {
		play_round(&p);
		if (n > 0)
			expect_planned(&p);
	}
	EXPECT_EQ(most_held(),
	    POOL * (uint64_t)MIB + offset_of(ROUND - 2) +
		mib[ROUND - 2] * (uint64_t)MIB);
	weir_free(graphs);
}

/* Three blocks of 3 MiB, the last of which lies first. */
TEST(places_that_share_a_granule_are_mapped_once)
{
	enum { BLOCKS = 3, SIZE = 3 * MIB };
	char *at[BLOCKS] = { NULL };
	struct plan *plan;

	EXPECT_EQ(plan_new(BLOCKS, &plan), WEIR_OK);
	plan->streams = 1;
	plan->bytes = plan->round_bytes = plan->live_bytes = BLOCKS * SIZE;
	plan->held_bytes = 18 * MIB; /* not enough for all at once */
	for (unsigned i = 0; i < BLOCKS; i++)
		plan->entries[i] = (struct plan_entry){ .size = SIZE,
			.offset = (BLOCKS - 1 - i) * (uint64_t)SIZE };
	follow(plan, "");
	weir_stream stream = new_stream();
	void *kept = take(2 * MIB, stream);

	for (int n = 0; n < 4; n++) {
		for (unsigned i = 0; i < BLOCKS; i++) {
			at[i] = take(SIZE, stream);
			expect_healthy();
		}
		for (unsigned i = 0; i < BLOCKS; i++) {
			if (n > 0)
				EXPECT_EQ(at[i], at[0] - i * (size_t)SIZE);
			fill(at[i], SIZE, (unsigned char)i, stream);
			give(at[i]);
			expect_healthy();
		}
	}
	EXPECT_EQ(stats().num_plans_dropped, 0);
	give(kept);
}

/* Memory that is given back goes in whole handles. */
TEST(a_block_at_its_place_keeps_no_more_memory_than_without_a_plan)
{
	enum { BLOCKS = 24, SIZE = 32 * MIB, KEPT = 12 };
	char *at[BLOCKS] = { NULL };
	struct plan *plan;

	EXPECT_EQ(plan_new(BLOCKS, &plan), WEIR_OK);
	plan->streams = 1;
	plan->bytes = plan->round_bytes = BLOCKS * (uint64_t)SIZE;
	plan->live_bytes = plan->held_bytes = plan->bytes;
	for (unsigned i = 0; i < BLOCKS; i++)
		plan->entries[i] = (struct plan_entry){ .size = SIZE,
			.offset = i * (uint64_t)SIZE };
	follow(plan, "");
	weir_stream stream = new_stream();

	for (int n = 0; n < 3; n++) {
		for (unsigned i = 0; i < BLOCKS; i++)
			at[i] = take(SIZE, stream);
		for (unsigned i = 0; i < BLOCKS; i++)
			if (n < 2 || i != KEPT)
				give(at[i]);
		expect_healthy();
	}
	EXPECT_EQ(at[KEPT], at[0] + KEPT * (size_t)SIZE);
	settle();
	trim(0);
	EXPECT_EQ(reserved(), SIZE);
	give(at[KEPT]);
}

/* Small blocks have segments of their own. */
TEST(memory_of_the_range_stays_there_while_the_plan_is_followed)
{
	enum { SIZE = MIB / 2, STRANGE = 8 };
	void *strange[STRANGE];

	follow_plan(1, "");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	settle();
	size_t held = reserved();
	void *small = take(SIZE, p.stream[0]);
	EXPECT_GT(reserved(), held);
	give(small);
	trim(0);
	play_round(&p);
	expect_planned(&p);

	/* Its memory is like any other after the program has left it. */
	for (int i = 0; i < STRANGE; i++)
		strange[i] = take(3 * MIB, p.stream[0]);
	for (int i = 0; i < STRANGE; i++)
		give(strange[i]);
	settle();
	held = reserved();
	small = take(SIZE, p.stream[0]);
	EXPECT_EQ(reserved(), held);
	give(small);
}

TEST(without_a_plan_nothing_is_planned)
{
	conf("plan:none");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	play_round(&p);
	EXPECT_EQ(stats().num_planned, 0);
	EXPECT_EQ(stats().num_plans_dropped, 0);
}

TEST(a_plan_that_cannot_be_read_is_none)
{
	conf("plan:/nowhere/plan");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	EXPECT_EQ(stats().num_planned, 0);
}

TEST(two_streams_get_the_places_of_their_plan)
{
	follow_plan(2, "");
	struct program p = program_on(2);

	start(&p);
	for (int n = 0; n < 4; n++) {
		play_round(&p);
		expect_planned(&p);
		settle();
	}
	EXPECT_EQ(stats().num_gpu_waits, 0);
	expect_held_range();
}

/* New memory is complete, and with several streams it is in no stream's pool.
 */
TEST(the_range_is_mapped_once_beside_other_streams)
{
	follow_plan(2, "");
	struct program p = program_on(2);
	weir_stream others[3];

	for (int i = 0; i < 3; i++) {
		others[i] = new_stream();
		take(512, others[i]);
	}
	uint64_t small = reserved();
	start(&p);
	EXPECT_EQ(stats().num_planned, START - PLANNED_START);
	uint64_t calls = stats().num_map_calls;
	for (int n = 0; n < 4; n++) {
		play_round(&p);
		expect_planned(&p);
		settle();
	}
	EXPECT_EQ(stats().num_map_calls, calls);
	EXPECT_EQ(stats().num_plans_dropped, 0);
	EXPECT_LE(reserved(),
	    offset_of(ROUND - 2) + mib[ROUND - 2] * (uint64_t)MIB +
		STARTED * (uint64_t)MIB + small);
}

/* The last request, of the second stream, has the place of the first one, whose
 * stream still works there. */
TEST(a_place_that_work_still_uses_is_given_to_nobody)
{
	device_need_sim("work takes as long as the test says");
	follow_plan(2, ",delay_percent:0");
	struct program p = program_on(2);

	start(&p);
	for (int n = 0; n < 3; n++) {
		for (unsigned i = 0; i < ROUND - 1; i++)
			take_one(&p, i);
		expect_first_planned(&p, ROUND - 1);
		busy(p.stream[0], LATE_MS);
		fill(p.at[0], (size_t)mib[0] * MIB, 1, p.stream[0]);
		take_one(&p, ROUND - 1);
		EXPECT_NE(p.at[ROUND - 1], p.at[0]);
		fill(p.at[ROUND - 1], (size_t)mib[ROUND - 1] * MIB, 1,
		    p.stream[1]);
		for (unsigned i = 1; i < ROUND; i++)
			give(p.at[i]);
		settle();
	}
	EXPECT_EQ(stats().num_gpu_waits, 0);
	EXPECT_EQ(stats().num_plans_dropped, 0);
	expect_healthy();
}

/* A third stream reads the first block for some time, and the second stream
 * takes its memory. */
static void
play_read_round(struct program *p, weir_stream reader, unsigned ms)
{
	for (unsigned i = 0; i < ROUND - 1; i++)
		take_one(p, i);
	record(p->at[0], reader);
	busy(reader, ms);
	take_one(p, ROUND - 1);
	fill(p->at[ROUND - 1], (size_t)mib[ROUND - 1] * MIB, 1, p->stream[1]);
	for (unsigned i = 1; i < ROUND; i++)
		give(p->at[i]);
}

/* Although the program has earned no budget yet. */
TEST(a_stream_waits_for_its_place_in_the_first_round)
{
	device_need_sim("work takes as long as the test says");
	follow_plan(2, "");
	struct program p = program_on(2);

	start(&p);
	play_read_round(&p, new_stream(), 20);
	expect_planned(&p);
	EXPECT_EQ(stats().num_gpu_waits, 1);
	EXPECT_EQ(stats().num_served_wait, 1);
	expect_healthy();
}

/* The host is ahead of the device, so that the second stream always has work
 * that its waits delay: by 30 ms a round. */
TEST(a_plan_whose_waits_delay_the_program_is_dropped)
{
	device_need_sim("work takes as long as the test says");
	follow_plan(2, "");
	struct program p = program_on(2);
	weir_stream reader = new_stream();
	unsigned rounds = 0;

	start(&p);
	for (; stats().num_plans_dropped == 0 && rounds < 30; rounds++) {
		play_read_round(&p, reader, 60);
		busy(p.stream[1], 30);
		if (rounds >= 3)
			sim()->advance_ns(60000000);
	}
	EXPECT_EQ(stats().num_plans_dropped, 1);
	EXPECT_GT(rounds, 6);
	play_read_round(&p, reader, 60);
	settle();
	expect_healthy();
}

TEST(a_request_that_the_plan_lacks_is_served_as_without)
{
	follow_plan(1, "");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	for (int n = 0; n < 5; n++) {
		void *small = take(64 * KIB, p.stream[0]);
		play_round(&p);
		expect_planned(&p);
		give(small);
	}
	void *other = take(20 * MIB, p.stream[0]);
	EXPECT_NOT_NULL(other);
	give(other);
	play_round(&p);
	expect_planned(&p);
	expect_healthy();
	EXPECT_EQ(stats().num_plans_dropped, 0);
}

/* A request that the plan lacks comes between two rounds, when all of the range
 * is free; the program holds `more` MiB than the range without a plan. */
static void
take_unlisted(struct program *p, unsigned size, unsigned more)
{
	follow_plan_within(1, held_with_range() + more, "");
	*p = program_on(1);
	start(p);
	play_round(p);
	settle();
	take(size * (size_t)MIB, p->stream[0]);
	expect_healthy();
}

/* It lives on. */
TEST(a_request_that_the_plan_lacks_takes_the_place_of_no_other)
{
	struct program p;

	take_unlisted(&p, 20, 20);
	EXPECT_EQ(reserved(), (held_with_range() + 20) * (uint64_t)MIB);
	play_round(&p);
	expect_planned(&p);
	EXPECT_EQ(reserved(), (held_with_range() + 20) * (uint64_t)MIB);
}

/* The range has no addresses yet. */
TEST(a_request_that_the_plan_lacks_is_served_where_no_memory_is_mapped)
{
	enum { FIRST = 8, SIZE = 4 * MIB };
	struct plan *plan;

	EXPECT_EQ(plan_new(2 * FIRST, &plan), WEIR_OK);
	plan->streams = 1;
	plan->round = FIRST;
	plan->bytes = plan->round_bytes = plan->live_bytes = FIRST * SIZE;
	plan->held_bytes = 1024 * (uint64_t)MIB;
	for (unsigned i = 0; i < 2 * FIRST; i++)
		plan->entries[i] = (struct plan_entry){ .size = SIZE,
			.offset = i < FIRST ? PLAN_NO_PLACE :
					      (i - FIRST) * (uint64_t)SIZE };
	follow(plan, ",expandable_segments:false");
	weir_stream stream = new_stream();

	for (unsigned i = 0; i < FIRST; i++)
		take(SIZE, stream);
	EXPECT_NOT_NULL(take(2 * SIZE, stream));
	expect_healthy();
}

TEST(a_request_that_the_plan_lacks_makes_the_program_hold_no_more)
{
	struct program p;

	take_unlisted(&p, 20, 19);
	expect_held_range();
}

TEST(a_plan_is_dropped_after_three_rounds_that_differ)
{
	follow_plan_within(1, held_with_range(), "");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	for (int n = 1; n <= 3; n++) {
		EXPECT_EQ(stats().num_plans_dropped, 0);
		give(take(20 * MIB, p.stream[0]));
		play_round(&p);
	}
	EXPECT_EQ(stats().num_plans_dropped, 1);
	uint64_t planned = stats().num_planned;
	play_round(&p);
	EXPECT_EQ(stats().num_planned, planned);
	/* Its memory is free memory like any other. */
	expect_held_range();
	for (int i = 0; i < START; i++)
		give(p.kept[i]);
	settle();
	trim(0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
}

TEST(a_plan_begins_again_after_its_memory_went_back)
{
	follow_plan(1, "");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	for (int n = 0; n < 3; n++) {
		settle();
		trim(0);
		expect_healthy();
		play_round(&p);
		expect_planned(&p);
		expect_held_range();
	}
	EXPECT_EQ(stats().num_plans_dropped, 0);
}

TEST(a_plan_whose_memory_always_goes_back_is_dropped)
{
	follow_plan(1, "");
	struct program p = program_on(1);

	start(&p);
	for (int n = 0; n < PLAN_RENEWALS + 3; n++) {
		play_round(&p);
		settle();
		trim(0);
	}
	EXPECT_EQ(stats().num_plans_dropped, 1);
	play_round(&p);
	expect_healthy();
}

TEST(a_plan_beyond_the_limit_is_followed_as_far_as_memory_goes)
{
	follow_plan(1, "");
	struct program p = program_on(1);

	EXPECT_OK(weir_limit_set(0, 100 * (size_t)MIB));
	start(&p);
	for (int n = 0; n < 3; n++)
		for (unsigned i = 0; i < ROUND; i++)
			give(take((size_t)mib[i] * MIB, p.stream[0]));
	EXPECT_GE(stats().num_planned, START - PLANNED_START);
	EXPECT_EQ(stats().num_plans_dropped, 0);
	EXPECT_EQ(stats().num_ooms, 0);
	EXPECT_LE(reserved(), 100 * (uint64_t)MIB);
	expect_healthy();
}

TEST(requests_of_private_pools_are_not_planned)
{
	follow_plan(1, "");
	struct program p = program_on(1);
	struct weir_pool *pool = new_pool(0, 0);

	start(&p);
	play_round(&p);
	struct program before = p;
	for (unsigned i = 0; i < ROUND; i++) {
		void *other =
		    take_from(pool, (size_t)mib[i] * MIB, p.stream[0]);
		take_one(&p, i);
		EXPECT_EQ(p.at[i], before.at[i]);
		weir_free(other);
	}
	expect_planned(&p);
	EXPECT_EQ(stats().num_planned, START - PLANNED_START + 2 * ROUND);
}

TEST(requests_in_a_capture_are_not_planned)
{
	follow_plan(1, "");
	struct program p = program_on(1);
	weir_stream captured = new_stream();

	start(&p);
	play_round(&p);
	uint64_t planned = stats().num_planned;
	capture_begin(captured);
	void *in = take((size_t)mib[0] * MIB, captured);
	expect_healthy();
	capture_end(captured);
	give(in);
	EXPECT_EQ(stats().num_planned, planned);
	play_round(&p);
	expect_planned(&p);
}

/* Do the requests lie where they were? */
static void
expect_same_places(const struct program *p, const struct program *before)
{
	for (int i = 0; i < ROUND; i++)
		EXPECT_EQ(p->at[i], before->at[i]);
}

TEST(sleeping_keeps_the_places)
{
	follow_plan(1, ",may_sleep:True");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	struct program before = p;
	for (int n = 0; n < 3; n++) {
		settle();
		EXPECT_OK(weir_sleep(0, NULL, NULL));
		EXPECT_OK(weir_wake(0, 0, NULL));
		play_round(&p);
		expect_planned(&p);
		expect_same_places(&p, &before);
	}
	EXPECT_EQ(stats().num_plans_dropped, 0);
	expect_held_range();
}

/* Within a round, which goes on after it. */
TEST(sleeping_within_a_round_keeps_the_places)
{
	follow_plan(1, ",may_sleep:True");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	struct program before = p;
	for (unsigned i = 0; i < ROUND / 2; i++)
		take_one(&p, i);
	settle();
	EXPECT_OK(weir_sleep(0, NULL, NULL));
	EXPECT_OK(weir_wake(0, 0, NULL));
	for (unsigned i = ROUND / 2; i < ROUND; i++)
		take_one(&p, i);
	expect_same_places(&p, &before);
	for (unsigned i = 1; i < ROUND; i++)
		give(p.at[i]);
	play_round(&p);
	expect_same_places(&p, &before);
	EXPECT_EQ(stats().num_plans_dropped, 0);
}

/* ---- Memory that goes -------------------------------------------------- */

/* Let the time of decay pass, with small requests in which it is noticed. */
static void
let_decay(const struct program *p)
{
	os_time_skip(UINT64_C(3600000000000));
	for (int look = 0; look < 3; look++) {
		settle();
		for (int i = 0; i < 64; i++)
			give(take(512, p->stream[0]));
	}
}

TEST(a_plan_begins_again_after_its_memory_decayed)
{
	follow_plan(1, ",tcache:0,decay_ms:3600000");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	uint64_t held = reserved();
	for (int n = 0; n < 3; n++)
		let_decay(&p);
	EXPECT_LT(reserved(), held);
	for (int n = 0; n < 3; n++) {
		play_round(&p);
		expect_planned(&p);
	}
	EXPECT_EQ(stats().num_plans_dropped, 0);
	EXPECT_LE(reserved(), held + 2 * MIB); /* the small requests */
	expect_healthy();
}

/* Half of the round's requests are served from the range, whose free rest goes.
 * The others are served as without a plan, and the next round is as planned. */
TEST(a_trim_within_a_round_is_made_good_by_the_next_one)
{
	follow_plan(1, "");
	struct program p = program_on(1);

	start(&p);
	play_round(&p);
	for (unsigned i = 0; i < ROUND - 1; i++) {
		if (i == ROUND / 2) {
			settle();
			trim(0);
		}
		take_one(&p, i);
	}
	for (unsigned i = 0; i < ROUND - 1; i++)
		give(p.at[i]);
	settle();
	for (int n = 0; n < 2; n++)
		play_round(&p);
	expect_planned(&p);
	EXPECT_EQ(stats().num_plans_dropped, 0);
	expect_healthy();
}

/* By the driver's own call, which weir does not make. */
static void
reset_device(void)
{
	const char *path = getenv("WEIR_LIBCUDA");
	CUresult (*reset)(CUdevice);
	CUcontext context;
	void *library = dlopen(
	    path != NULL && *path != '\0' ? path : "libcuda.so.1", RTLD_NOW);

	EXPECT_NOT_NULL(library);
	void *symbol = dlsym(library, "cuDevicePrimaryCtxReset_v2");
	EXPECT_NOT_NULL(symbol);
	memcpy(&reset, &symbol, sizeof(reset));
	EXPECT_EQ(reset(0), CUDA_SUCCESS);
	allocator_forget_device(0);
	EXPECT_EQ(device_driver()->cuDevicePrimaryCtxRetain(&context, 0),
	    CUDA_SUCCESS);
	EXPECT_EQ(device_driver()->cuCtxSetCurrent(context), CUDA_SUCCESS);
}

/* The device's next memory has the plan anew, within a round or after one. */
TEST(after_a_reset_the_plan_begins_again)
{
	follow_plan(1, "");
	for (unsigned n = 0; n < 4; n++) {
		struct program p = program_on(1);

		start(&p);
		expect_held_range();
		play_round(&p);
		play_round(&p);
		expect_planned(&p);
		for (unsigned i = 0; i < n; i++)
			take_one(&p, i);
		EXPECT_EQ(stats().num_plans_dropped, 0);
		reset_device();
	}
}

/* ---- Threads ----------------------------------------------------------- */

enum { THREADS = 2, THREAD_ROUNDS = 60 };

struct player {
	pthread_t thread;
	struct program *program;
	unsigned number;
};

/* A thread makes the requests of its stream, in its own time. */
static void *
play_part(void *argument)
{
	struct player *player = argument;
	struct program *p = player->program;

	for (int n = 0; n < THREAD_ROUNDS; n++) {
		char *at[ROUND];

		for (unsigned i = player->number; i < ROUND; i += THREADS) {
			size_t size = (size_t)mib[i] * MIB;

			at[i] = take(size, p->stream[player->number]);
			fill(at[i], size, (unsigned char)i,
			    p->stream[player->number]);
		}
		for (unsigned i = player->number; i < ROUND; i += THREADS)
			give(at[i]);
	}
	return NULL;
}

/* Their order is by chance: the plan may be dropped. No bytes are given twice,
 * and no more memory is held than both need at once. */
TEST(threads_that_ask_at_once_are_served)
{
	follow_plan(THREADS, "");
	struct program p = program_on(THREADS);
	struct player players[THREADS];

	start(&p);
	for (unsigned i = 0; i < THREADS; i++) {
		players[i] = (struct player){ .program = &p, .number = i };
		EXPECT_EQ(pthread_create(
			      &players[i].thread, NULL, play_part, &players[i]),
		    0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(players[i].thread, NULL);
	expect_healthy();
	EXPECT_EQ(stats().num_ooms, 0);
	settle();
	for (int i = 0; i < START; i++)
		give(p.kept[i]);
	settle();
	trim(0);
	EXPECT_EQ(reserved(), 0);
}

/* One thread plays rounds, the other takes the range's memory away meanwhile.
 */
static void *
trim_often(void *argument)
{
	atomic_bool *ends = argument;

	while (!atomic_load(ends))
		trim(0);
	return NULL;
}

TEST(a_thread_may_trim_while_another_one_follows_the_plan)
{
	follow_plan(1, "");
	struct program p = program_on(1);
	atomic_bool ends = false;
	pthread_t trims;

	start(&p);
	EXPECT_EQ(pthread_create(&trims, NULL, trim_often, &ends), 0);
	for (int n = 0; n < THREAD_ROUNDS; n++)
		play_round(&p);
	atomic_store(&ends, true);
	pthread_join(trims, NULL);
	expect_healthy();
	EXPECT_EQ(stats().num_ooms, 0);
}
