/*
 * plan_rounds.h and plan_lives.h: what a trace repeats, and how long its
 * requests keep their memory.
 */
#include "tools/weir/plan/plan_rounds.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"
#include "tools/weir/plan/plan_lives.h"

enum { MIB = 1 << 20 };

/* A trace that is written row by row. */
struct writing {
	char text[65536];
	size_t length;
	unsigned time_us;
};

static void
begin_about(struct writing *w, const char *about)
{
	w->length = (size_t)snprintf(w->text, sizeof(w->text),
	    "%saction,addr,size,stream,time_us\n", about);
	w->time_us = 0;
}

static void
begin(struct writing *w)
{
	begin_about(w, "");
}

/* A trace that weir has recorded. */
static void
begin_of_weir(struct writing *w)
{
	begin_about(w, "# {\"allocator\": \"weir\"}\n");
}

static void
add_row(struct writing *w, char action, unsigned address, unsigned size,
    unsigned stream)
{
	w->time_us += 10;
	w->length += (size_t)snprintf(w->text + w->length,
	    sizeof(w->text) - w->length, "%c,%lx,%u,%u,%u\n", action,
	    (unsigned long)address << 28, size, stream, w->time_us);
	EXPECT_LT(w->length, sizeof(w->text));
}

static struct trace
trace_of(const struct writing *w)
{
	static const struct budget budget = { 0 };
	struct trace_error error;
	struct trace trace;
	bool read =
	    trace_read_text("it", w->text, w->length, &budget, &trace, &error);

	if (!read)
		fprintf(stderr, "%s\n", error.text);
	EXPECT_EQ(read, true);
	return trace;
}

/* Two blocks that stay; then rounds of three requests of two streams, the last
 * of which lives on into the next round. */
static void
write_program(struct writing *w, unsigned rounds)
{
	begin(w);
	add_row(w, 'a', 1, 2 * MIB, 0);
	add_row(w, 'a', 2, 3 * MIB, 0);
	add_row(w, 'a', 3, 4096, 0);
	for (unsigned n = 0; n < rounds; n++) {
		add_row(w, 'a', 4, 5 * MIB + 1, 0);
		if (n > 0)
			add_row(w, 'f', 6, 7 * MIB, 0);
		add_row(w, 'a', 5, 6 * MIB, 1);
		add_row(w, 'f', 4, 5 * MIB + 1, 0);
		add_row(w, 'a', 6, 7 * MIB, 0);
		add_row(w, 'f', 5, 6 * MIB, 1);
	}
}

static struct plan_requests
requests_of(const struct trace *trace)
{
	struct plan_requests requests;

	EXPECT_EQ(plan_requests_make(trace, &requests), true);
	return requests;
}

TEST(a_round_is_found_and_where_it_begins)
{
	struct writing w;

	write_program(&w, 4);
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(requests.count, 2 + 4 * 3);
	EXPECT_EQ(requests.streams, 2);
	EXPECT_EQ(requests.round, 2);
	EXPECT_EQ(requests.length, 3);
	EXPECT_EQ(requests.list[2].size, 5 * MIB + 512);
	plan_requests_drop(&requests);
	trace_drop(&trace);
}

/* Such as a program that tests what it has trained. */
TEST(requests_after_the_last_round_are_of_no_round)
{
	enum { OTHERS = 4 };
	struct writing w;

	write_program(&w, 4);
	for (unsigned i = 0; i < OTHERS; i++)
		add_row(&w, 'a', 7 + i, (8 + i) * MIB, 0);
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(requests.total, 2 + 4 * 3 + OTHERS);
	EXPECT_EQ(requests.count, 2 + 4 * 3);
	EXPECT_EQ(requests.round, 2);
	EXPECT_EQ(requests.length, 3);
	for (size_t i = 0; i < trace.row_count; i++) {
		const struct trace_row *row = &trace.rows[i];
		uint32_t request = requests.of_block[row->block];

		if (row->action == 'a' && row->size >= 8 * MIB)
			EXPECT_EQ(request, PLAN_NO_REQUEST);
		else if (row->action == 'a' && row->size > MIB)
			EXPECT_LT(request, requests.count);
	}
	plan_requests_drop(&requests);
	trace_drop(&trace);
}

/* Such as those of graphs: they get no places. */
TEST(requests_of_private_pools_do_not_count)
{
	struct writing w;

	begin(&w);
	for (unsigned n = 0; n < 4; n++) {
		add_row(&w, 'a', 4, 5 * MIB, 0);
		add_row(&w, 'p', 0, 1, 0);
		add_row(&w, 'a', 10 + n, (5 + n) * MIB, 0);
		add_row(&w, 'p', 0, 0, 0);
		add_row(&w, 'f', 4, 5 * MIB, 0);
	}
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(requests.count, 4);
	EXPECT_EQ(requests.length, 1);
	plan_requests_drop(&requests);
	trace_drop(&trace);
}

TEST(a_program_that_does_not_repeat_itself_has_no_round)
{
	struct writing w;

	begin(&w);
	for (unsigned n = 1; n < 20; n++)
		add_row(&w, 'a', n, (n + 1) * MIB, 0);
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(requests.length, 0);
	plan_requests_drop(&requests);
	trace_drop(&trace);
}

TEST(a_trace_without_large_requests_has_no_round)
{
	struct writing w;

	begin(&w);
	add_row(&w, 'a', 1, MIB, 0);
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(requests.count, 0);
	EXPECT_EQ(requests.length, 0);
	plan_requests_drop(&requests);
	trace_drop(&trace);
}

TEST(lives_are_counted_in_requests)
{
	struct writing w;
	struct plan_lives lives;

	write_program(&w, 4);
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(
	    plan_lives_make(&trace, &requests, PLAN_BY_CALLS, &lives), true);
	EXPECT_EQ(lives.count, 5);
	EXPECT_EQ(lives.live[0], PLAN_NO_REQUEST);
	EXPECT_EQ(lives.live[1], PLAN_NO_REQUEST);
	EXPECT_EQ(lives.live[2], 2);
	EXPECT_EQ(lives.live[3], 2);
	EXPECT_EQ(lives.live[4], 2);
	/* Stream 1 makes its next request so late. */
	EXPECT_EQ(lives.lives[2 * 2 + 0], 2);
	EXPECT_EQ(lives.lives[2 * 2 + 1], 4);
	plan_lives_drop(&lives);
	plan_requests_drop(&requests);
	trace_drop(&trace);
}

/* Stream 0 is busy for long. Stream 1 takes memory after each block of stream 0
 * was freed, and waits for stream 0 if `waits`. */
static uint32_t
life_for_another_stream(enum plan_rule rule, bool waits)
{
	struct writing w;
	struct plan_lives lives;
	uint32_t life;

	begin(&w);
	for (unsigned n = 0; n < 6; n++) {
		add_row(&w, 'a', 4, 5 * MIB, 0);
		add_row(&w, 'k', 0, 1000000, 0);
		add_row(&w, 'f', 4, 5 * MIB, 0);
		if (waits)
			add_row(&w, 'w', 0, 0, 1);
		add_row(&w, 'a', 5, 6 * MIB, 1);
		add_row(&w, 'f', 5, 6 * MIB, 1);
	}
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(requests.length, 2);
	EXPECT_EQ(plan_lives_make(&trace, &requests, rule, &lives), true);
	EXPECT_EQ(lives.lives[0], 2);
	life = lives.lives[1];
	plan_lives_drop(&lives);
	plan_requests_drop(&requests);
	trace_drop(&trace);
	return life;
}

TEST(another_stream_may_use_memory_when_the_work_is_over_or_it_waits)
{
	EXPECT_EQ(life_for_another_stream(PLAN_BY_CALLS, false), 1);
	EXPECT_EQ(
	    life_for_another_stream(PLAN_BY_WORK, false), PLAN_NO_REQUEST);
	EXPECT_EQ(life_for_another_stream(PLAN_BY_WORK, true), 1);
}

/* ---- As recorded ------------------------------------------------------- */

/* Stream 0 has memory at two places; stream 1 then gets that of the second one.
 * With `through` stream 0 itself had it in between. */
static struct plan_lives
recorded_lives(bool through)
{
	struct writing w;
	struct plan_lives lives;

	begin_of_weir(&w);
	for (unsigned n = 0; n < 6; n++) {
		add_row(&w, 'a', 7, 3 * MIB, 0);
		add_row(&w, 'f', 7, 3 * MIB, 0);
		add_row(&w, 'a', 4, 5 * MIB, 0);
		add_row(&w, 'f', 4, 5 * MIB, 0);
		add_row(&w, 'a', 8, 6 * MIB, 1);
		add_row(&w, 'f', 8, 6 * MIB, 1);
		if (through) {
			add_row(&w, 'a', 4, 9 * MIB, 0);
			add_row(&w, 'r', 4, 9 * MIB, 1);
			add_row(&w, 'f', 4, 9 * MIB, 0);
		}
		add_row(&w, 'a', 4, 4 * MIB, 1);
		add_row(&w, 'f', 4, 4 * MIB, 1);
	}
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(requests.length, through ? 5 : 4);
	EXPECT_EQ(
	    plan_lives_make(&trace, &requests, PLAN_AS_RECORDED, &lives), true);
	plan_requests_drop(&requests);
	trace_drop(&trace);
	return lives;
}

TEST(another_stream_may_use_memory_when_the_recording_shows_that_it_did)
{
	struct plan_lives lives = recorded_lives(false);

	/* Its own stream with its next request. */
	EXPECT_EQ(lives.lives[0 * 2 + 0], 1);
	EXPECT_EQ(lives.lives[1 * 2 + 0], 3);
	/* The first block was freed before the one whose memory it got. */
	EXPECT_EQ(lives.lives[0 * 2 + 1], 3);
	EXPECT_EQ(lives.lives[1 * 2 + 1], 2);
	/* In the next round stream 0 gets memory of stream 1. */
	EXPECT_EQ(lives.lives[2 * 2 + 0], 3);
	EXPECT_EQ(lives.lives[3 * 2 + 0], 2);
	EXPECT_EQ(lives.addrs[1], UINT64_C(4) << 28);
	EXPECT_EQ(lives.addrs[2], UINT64_C(8) << 28);
	plan_lives_drop(&lives);
}

/* Stream 1 comes after the request of stream 0 in between, and that after the
 * blocks before it. */
TEST(a_stream_may_use_what_could_be_used_by_those_whose_memory_it_gets)
{
	struct plan_lives lives = recorded_lives(true);

	EXPECT_EQ(lives.lives[0 * 2 + 1], 4);
	EXPECT_EQ(lives.lives[1 * 2 + 1], 3);
	EXPECT_EQ(lives.lives[3 * 2 + 1], 1);
	plan_lives_drop(&lives);
}

TEST(memory_that_was_unmapped_in_between_shows_nothing)
{
	struct writing w;
	struct plan_lives lives;

	begin_of_weir(&w);
	for (unsigned n = 0; n < 6; n++) {
		add_row(&w, 'a', 4, 5 * MIB, 0);
		add_row(&w, 'f', 4, 5 * MIB, 0);
		add_row(&w, 'u', 4, 6 * MIB, 0);
		add_row(&w, 'm', 4, 6 * MIB, 0);
		add_row(&w, 'a', 4, 6 * MIB, 1);
		add_row(&w, 'f', 4, 6 * MIB, 1);
		add_row(&w, 'u', 4, 6 * MIB, 0);
		add_row(&w, 'm', 4, 6 * MIB, 0);
	}
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(
	    plan_lives_make(&trace, &requests, PLAN_AS_RECORDED, &lives), true);
	EXPECT_EQ(lives.lives[0 * 2 + 1], PLAN_NO_REQUEST);
	plan_lives_drop(&lives);
	plan_requests_drop(&requests);
	trace_drop(&trace);
}

/* ---- Rounds as one ------------------------------------------------------ */

/* Rounds of two requests. The second one is freed after `lives` rounds, each
 * `nth` time; else at once. At the end those that still live are kept, or
 * freed.
 */
static uint32_t
rounds_as_one(unsigned lives, unsigned nth, bool kept)
{
	enum { ROUNDS = 200 };
	bool live[ROUNDS] = { false };
	struct writing w;
	struct plan_shapes shapes;

	begin(&w);
	for (unsigned n = 0; n < ROUNDS; n++) {
		add_row(&w, 'a', 1, 5 * MIB, 0);
		add_row(&w, 'f', 1, 5 * MIB, 0);
		add_row(&w, 'a', 100 + n, 6 * MIB, 0);
		live[n] = n % nth == 0;
		if (!live[n])
			add_row(&w, 'f', 100 + n, 6 * MIB, 0);
		if (n >= lives && live[n - lives])
			add_row(&w, 'f', 100 + n - lives, 6 * MIB, 0);
	}
	for (unsigned n = ROUNDS - lives; !kept && n < ROUNDS; n++)
		if (live[n])
			add_row(&w, 'f', 100 + n, 6 * MIB, 0);
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(requests.length, 2);
	EXPECT_EQ(requests.unit, 2);
	EXPECT_EQ(plan_shapes_find(&trace, &requests, &shapes), true);
	plan_requests_drop(&requests);
	trace_drop(&trace);
	return shapes.as_one;
}

TEST(rounds_are_one_as_long_as_requests_live)
{
	EXPECT_EQ(rounds_as_one(0, 1, true), 1);
	EXPECT_EQ(rounds_as_one(1, 1, true), 2);
	EXPECT_EQ(rounds_as_one(5, 1, true), 6);
}

TEST(what_is_freed_after_the_last_request_does_not_say_how_long_requests_live)
{
	EXPECT_EQ(rounds_as_one(1, 1, false), 2);
	EXPECT_EQ(rounds_as_one(5, 1, false), 6);
	EXPECT_EQ(rounds_as_one(4, 3, false), 6);
}

/* A request that lives long comes each third round only. */
TEST(rounds_are_one_until_the_lives_repeat_themselves)
{
	EXPECT_EQ(rounds_as_one(1, 3, true), 3);
	EXPECT_EQ(rounds_as_one(4, 3, true), 6);
}

TEST(what_is_kept_for_many_rounds_does_not_make_them_one)
{
	EXPECT_EQ(rounds_as_one(100, 1, true), 1);
}

/* ---- What the first round keeps ----------------------------------------- */

enum { REQUESTS = 4 };

/* Five rounds of requests that are freed at once, except those of the round
 * `keeping` that have a bit in `kept`. How many are to be skipped? */
static uint32_t
requests_to_skip(unsigned keeping, unsigned kept)
{
	struct writing w;
	struct plan_shapes shapes;

	begin(&w);
	for (unsigned i = 0; i < 5 * REQUESTS; i++) {
		unsigned n = i % REQUESTS;

		add_row(&w, 'a', i, (2 + n) * MIB, 0);
		if (i / REQUESTS != keeping || (kept >> n & 1) == 0)
			add_row(&w, 'f', i, (2 + n) * MIB, 0);
	}
	struct trace trace = trace_of(&w);
	struct plan_requests requests = requests_of(&trace);
	EXPECT_EQ(requests.length, REQUESTS);
	EXPECT_EQ(requests.round, 0);
	EXPECT_EQ(plan_shapes_find(&trace, &requests, &shapes), true);
	plan_requests_drop(&requests);
	trace_drop(&trace);
	return shapes.to_skip;
}

TEST(no_more_of_the_first_round_is_skipped_than_it_keeps)
{
	EXPECT_EQ(requests_to_skip(0, 0), 0);
	EXPECT_EQ(requests_to_skip(0, 1), 1);
	EXPECT_EQ(requests_to_skip(0, 1 | 4), 3);
	EXPECT_EQ(requests_to_skip(0, 8), 4);
}

TEST(what_a_later_round_keeps_is_not_skipped)
{
	EXPECT_EQ(requests_to_skip(1, 1), 0);
}
