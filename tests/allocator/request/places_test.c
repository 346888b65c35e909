/*
 * places.h, Note [The same place again]: which request is expected at which
 * place, without a device.
 */
#include "allocator/request/places.h"

#include "base/meta.h"
#include "tests/support/test.h"

enum { ROUND = 100, UNSEEN = 1000 };

/* The key of the ith request of a round, and the address that a request gets
 * whose place is not known. Two requests in a row have one key, as those of
 * equal layers. */
static uint64_t
key_of(unsigned i)
{
	return 1 + i / 2;
}

static CUdeviceptr
address_of(unsigned i)
{
	return (CUdeviceptr)(1 + i) << 20;
}

/* Note a request; it gets `got`. Returns its expected place. */
static CUdeviceptr
request(struct places *places, uint64_t key, CUdeviceptr got)
{
	struct place place = places_note(places, key, 0);

	places_fill(places, place, got);
	return place.was;
}

/* Play a round in which request i gets its own address. Expect each place to be
 * known, or none. */
static void
play_round(struct places *places, unsigned size, bool known)
{
	for (unsigned i = 0; i < size; i++)
		EXPECT_EQ(request(places, key_of(i), address_of(i)),
		    known ? address_of(i) : 0);
}

/* Notes of a program that repeats ROUND requests, and whose places are known.
 */
static struct places *
settled(void)
{
	struct places *places = places_new();

	play_round(places, ROUND, false);
	play_round(places, ROUND, false);
	/* The second round began to be recognized at some request of it. */
	for (unsigned i = 0; i < ROUND; i++)
		request(places, key_of(i), address_of(i));
	play_round(places, ROUND, true);
	return places;
}

TEST(a_place_is_known_once_a_round_was_repeated)
{
	struct places *places = settled();

	play_round(places, ROUND, true);
	places_delete(places);
}

TEST(a_short_round_has_to_be_repeated_more_often)
{
	struct places *places = places_new();
	unsigned unknown = 0;

	for (unsigned n = 0; n < 60; n++) {
		for (unsigned i = 0; i < 4; i++) {
			CUdeviceptr was =
			    request(places, key_of(i), address_of(i));
			unknown += was == 0;
			EXPECT(was == 0 || was == address_of(i));
		}
	}
	EXPECT_GT(unknown, 63);
	EXPECT_LT(unknown, 80);
	places_delete(places);
}

TEST(a_program_that_repeats_nothing_has_no_places)
{
	struct places *places = places_new();
	uint64_t key = 1;

	for (unsigned i = 0; i < 40000; i++) {
		key = key * UINT64_C(6364136223846793005) + 1;
		EXPECT_EQ(request(places, key >> 33 | 1, address_of(i)), 0);
	}
	places_delete(places);
}

TEST(a_round_that_differs_has_no_places_until_it_is_repeated)
{
	struct places *places = settled();

	EXPECT_EQ(request(places, key_of(0), address_of(0)), address_of(0));
	EXPECT_EQ(request(places, 12345, address_of(7)), 0);
	play_round(places, ROUND, false);
	play_round(places, ROUND, false);
	play_round(places, ROUND, false);
	for (unsigned i = 0; i < ROUND; i++)
		request(places, key_of(i), address_of(i));
	play_round(places, ROUND, true);
	places_delete(places);
}

/* Play a round in which request 10 gets `got` and is expected at `place`. */
static void
play_one_apart(struct places *places, CUdeviceptr place, CUdeviceptr got)
{
	for (unsigned i = 0; i < ROUND; i++)
		EXPECT_EQ(
		    request(places, key_of(i), i == 10 ? got : address_of(i)),
		    i == 10 ? place : address_of(i));
}

TEST(a_place_is_kept_for_one_round_in_which_it_was_not_to_be_had)
{
	struct places *places = settled();
	CUdeviceptr other = address_of(ROUND);

	play_one_apart(places, address_of(10), other);
	play_one_apart(places, address_of(10), address_of(10));
	play_one_apart(places, address_of(10), other);
	play_round(places, ROUND, true);
	places_delete(places);
}

TEST(a_place_that_was_not_to_be_had_twice_is_given_up)
{
	struct places *places = settled();
	CUdeviceptr other = address_of(ROUND);

	play_one_apart(places, address_of(10), other);
	play_one_apart(places, address_of(10), other);
	play_one_apart(places, other, other);
	places_delete(places);
}

TEST(a_request_that_was_not_served_keeps_its_place)
{
	struct places *places = settled();

	for (unsigned i = 0; i < ROUND; i++)
		places_note(places, key_of(i), 0);
	play_round(places, ROUND, true);
	places_delete(places);
}

/* A cache serves requests 20 to 22 of a round. */
static void
play_with_unseen(struct places *places)
{
	for (unsigned i = 0; i < ROUND; i++) {
		if (i >= 20 && i < 23)
			continue;
		struct place place =
		    places_note(places, key_of(i), i == 23 ? 3 : 0);
		EXPECT_EQ(place.was, address_of(i));
		places_fill(places, place, address_of(i));
	}
}

TEST(requests_that_a_cache_serves_do_not_move_the_others)
{
	struct places *places = settled();

	play_with_unseen(places);
	for (unsigned i = 0; i < ROUND; i++)
		EXPECT_EQ(request(places, key_of(i), address_of(i)),
		    i >= 20 && i < 23 ? 0 : address_of(i));
	play_round(places, ROUND, true);
	places_delete(places);
}

TEST(more_unseen_requests_than_there_are_notes_end_a_round)
{
	struct places *places = settled();

	for (unsigned n = 0; n < 100; n++)
		EXPECT_EQ(places_note(places, key_of(0), UNSEEN).was, 0);
	EXPECT_EQ(places_note(places, key_of(0), UINT32_MAX).was, 0);
	places_delete(places);
}

TEST(a_request_that_takes_long_is_filled_in_if_its_note_is_still_there)
{
	struct places *places = settled();
	struct place late = places_note(places, key_of(0), 0);

	for (unsigned i = 1; i < ROUND; i++)
		request(places, key_of(i), address_of(i));
	places_fill(places, late, address_of(0));
	play_round(places, ROUND, true);
	late = places_note(places, key_of(0), 0);
	places_note(places, 12345, UINT32_MAX);
	places_fill(places, late, address_of(0));
	places_delete(places);
}

TEST(without_host_memory_nothing_is_noted)
{
	meta_fail(1, 1);
	EXPECT_NULL(places_new());
	meta_fail(0, 0);
	struct place place = places_note(NULL, key_of(0), 3);
	EXPECT_EQ(place.was, 0);
	places_fill(NULL, place, address_of(0));
	places_delete(NULL);
}
