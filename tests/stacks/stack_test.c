/*
 * Stacks: recorded, and kept once under a number.
 */
#include "stacks/stack.h"

#include <pthread.h>
#include <string.h>

#include "base/meta.h"
#include "tests/stacks/named.h"
#include "tests/support/device.h"

/* ---- Taking ------------------------------------------------------------ */

static void *frames[STACK_FRAMES_MAX];

/* Neither inlined nor called in tail position. */
__attribute__((noinline)) static size_t
take_in_innermost(size_t n, size_t skip)
{
	size_t found = stack_capture(frames, n, skip);

	__asm__ volatile("" ::: "memory");
	return found;
}

__attribute__((noinline)) static size_t
take_further_out(size_t n, size_t skip, int depth)
{
	size_t found = depth == 0 ? take_in_innermost(n, skip) :
				    take_further_out(n, skip, depth - 1);

	__asm__ volatile("" ::: "memory");
	return found;
}

/* True if a frame is in the function of that name. */
static bool
in_function(const void *frame, const char *name)
{
	struct named named = name_word(frame);

	for (size_t i = 0; i < named.n; i++)
		if (strcmp(named.places[i].function, name) == 0)
			return true;
	return false;
}

TEST(a_stack_begins_with_the_caller_and_goes_outwards)
{
	size_t n = take_further_out(STACK_FRAMES_MAX, 0, 2);

	EXPECT_GT(n, 5);
	EXPECT(in_function(frames[0], "take_in_innermost"));
	for (int i = 1; i <= 3; i++)
		EXPECT(in_function(frames[i], "take_further_out"));
	EXPECT(in_function(frames[4],
	    "a_stack_begins_with_the_caller_and_goes_outwards_body"));
}

TEST(frames_can_be_skipped)
{
	void *all[STACK_FRAMES_MAX];
	size_t n = take_further_out(STACK_FRAMES_MAX, 0, 2);

	memcpy(all, frames, sizeof(all));
	EXPECT_EQ(take_further_out(STACK_FRAMES_MAX, 2, 2), n - 2);
	/* Except for the caller, which is at another place, they are the
	 * same. */
	EXPECT_EQ(frames[0], all[2]);
	EXPECT_EQ(frames[1], all[3]);
}

TEST(no_more_frames_are_written_than_there_is_room_for)
{
	memset(frames, 0, sizeof(frames));
	EXPECT_EQ(take_further_out(3, 0, 5), 3);
	EXPECT_NOT_NULL(frames[2]);
	EXPECT_NULL(frames[3]);
	EXPECT_EQ(take_further_out(0, 0, 5), 0);
}

TEST(deep_stacks_are_cut_at_their_outer_end)
{
	EXPECT_EQ(take_further_out(1000, 0, 200), STACK_FRAMES_MAX);
	EXPECT(in_function(frames[0], "take_in_innermost"));
	EXPECT(in_function(frames[STACK_FRAMES_MAX - 1], "take_further_out"));
}

/* ---- The table --------------------------------------------------------- */

static void *
address(uintptr_t number)
{
	return (void *)number;
}

TEST(a_stack_has_one_number_and_another_has_another)
{
	struct stack_table *table = stack_table_create(1 << 20);
	void *one[] = { address(1), address(2), address(3) };
	void *two[] = { address(1), address(2), address(4) };
	void *const *found;

	uint32_t a = stack_table_intern(table, one, 3);
	uint32_t b = stack_table_intern(table, two, 3);
	uint32_t c = stack_table_intern(table, one, 2);

	EXPECT_NE(a, 0);
	EXPECT_NE(b, 0);
	EXPECT_NE(c, 0);
	EXPECT(a != b && b != c && a != c);
	EXPECT_EQ(stack_table_intern(table, one, 3), a);
	EXPECT_EQ(stack_table_intern(table, two, 3), b);
	EXPECT_EQ(stack_table_intern(table, two, 2), c);
	EXPECT_EQ(stack_table_count(table), 3);
	EXPECT_EQ(stack_table_frames(table, b, &found), 3);
	EXPECT_EQ(memcmp(found, two, sizeof(two)), 0);
	EXPECT_EQ(stack_table_frames(table, c, &found), 2);
	EXPECT_EQ(memcmp(found, one, 2 * sizeof(*one)), 0);
	stack_table_destroy(table);
}

TEST(no_stack_is_number_0)
{
	struct stack_table *table = stack_table_create(1 << 20);
	void *const *found;

	EXPECT_EQ(stack_table_intern(table, frames, 0), 0);
	EXPECT_EQ(stack_table_lost(table), 0);
	EXPECT_EQ(stack_table_frames(table, 0, &found), 0);
	stack_table_destroy(table);
}

TEST(frames_beyond_the_most_do_not_count)
{
	struct stack_table *table = stack_table_create(1 << 20);
	void *many[STACK_FRAMES_MAX + 1];
	void *const *found;

	for (uintptr_t i = 0; i <= STACK_FRAMES_MAX; i++)
		many[i] = address(i + 1);
	uint32_t id = stack_table_intern(table, many, STACK_FRAMES_MAX + 1);

	EXPECT_EQ(stack_table_frames(table, id, &found), STACK_FRAMES_MAX);
	EXPECT_EQ(stack_table_intern(table, many, STACK_FRAMES_MAX), id);
	stack_table_destroy(table);
}

/* The table takes as many stacks as fit, and finds them again. */
TEST(a_full_table_keeps_its_stacks_and_counts_the_rest)
{
	struct stack_table *table = stack_table_create(64 << 10);
	enum { TRIES = 10000 };
	static uint32_t ids[TRIES];
	uint64_t lost = 0;

	for (uintptr_t i = 0; i < TRIES; i++) {
		void *stack[] = { address(i), address(i * i + 1) };

		ids[i] = stack_table_intern(table, stack, 2);
		lost += ids[i] == 0;
	}
	EXPECT_EQ(stack_table_count(table), TRIES - lost);
	EXPECT_EQ(stack_table_lost(table), lost);
	/* 32 bytes each, of 64 KiB less the slots. */
	EXPECT_GT(TRIES - lost, (64 << 10) * 3 / 4 / 32);
	EXPECT_LT(TRIES - lost, (64 << 10) / 32);
	for (uintptr_t i = 0; i < TRIES; i++) {
		void *stack[] = { address(i), address(i * i + 1) };
		void *const *found;

		EXPECT_EQ(stack_table_intern(table, stack, 2), ids[i]);
		if (stack_table_frames(table, ids[i], &found) != 0)
			EXPECT_EQ(memcmp(found, stack, sizeof(stack)), 0);
	}
	stack_table_destroy(table);
}

TEST(each_stack_of_a_table_has_a_place)
{
	struct stack_table *table = stack_table_create(1 << 20);
	void *one[] = { address(1), address(2) };
	void *two[] = { address(3) };
	void *const *found;
	size_t stacks = 0;
	size_t sum = 0;

	stack_table_intern(table, one, 2);
	stack_table_intern(table, two, 1);
	for (size_t i = 0; i < stack_table_slots(table); i++) {
		size_t n = stack_table_slot(table, i, &found);

		stacks += n > 0;
		for (size_t k = 0; k < n; k++)
			sum += (uintptr_t)found[k];
	}
	EXPECT_EQ(stacks, 2);
	EXPECT_EQ(sum, 6);
	EXPECT_EQ(stack_table_slots(NULL), 0);
	stack_table_destroy(table);
}

TEST(a_table_without_memory_is_none)
{
	meta_fail(1, 1);
	EXPECT_NULL(stack_table_create(1 << 20));
	meta_fail(0, 0);
	stack_table_destroy(NULL);
}

enum { THREADS = 4, STACKS = 5000 };
static struct stack_table *shared;
static uint32_t met[THREADS][STACKS];

static void *
intern_all(void *user)
{
	uint32_t *ids = user;

	for (uintptr_t i = 0; i < STACKS; i++) {
		void *stack[] = { address(i + 1), address(7), address(i * 3) };

		ids[i] = stack_table_intern(shared, stack, 3);
	}
	return NULL;
}

TEST(threads_that_meet_the_same_stacks_agree_on_their_numbers)
{
	pthread_t threads[THREADS];

	shared = stack_table_create(4 << 20);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(
		    pthread_create(&threads[i], NULL, intern_all, met[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 1; i < THREADS; i++)
		EXPECT_EQ(memcmp(met[i], met[0], sizeof(met[0])), 0);
	EXPECT_EQ(stack_table_count(shared), STACKS);
	EXPECT_EQ(stack_table_lost(shared), 0);
	stack_table_destroy(shared);
}
