/*
 * Finds a program's rounds. While the requests repeat those of a round before,
 * a note is compared with one other. When that ends, a table tells where the
 * latest few requests were last noted in the same order.
 */
#include "allocator/request/places.h"

#include "allocator/request/tuning.h"
#include "base/meta.h"

enum {
	TABLE_BITS = 12,
	/* A request moves the hash of the recent ones by so many bits, so that
	 * it covers the latest eight. */
	HASH_SHIFT = 8,
};

/* The note of a request that a cache has served has key 0. */
struct note {
	uint64_t key : 63;
	uint64_t missed : 1; /* it did not get its place, which is in `addr` */
	CUdeviceptr addr;
};

struct places {
	uint64_t count;    /* of requests noted; the next note's index */
	uint64_t round;    /* the distance to the round before; 0: unknown */
	uint64_t repeated; /* requests that were equal at that distance */
	uint64_t recent;   /* the hash of the latest keys */
	/* For such a hash, the index of the last note; 0: none. */
	uint64_t latest[1 << TABLE_BITS];
	struct note notes[PLACE_NOTES];
};

struct places *
places_new(void)
{
	struct places *places = meta_zalloc(sizeof(*places));

	if (places != NULL)
		places->count = 1; /* no note has index 0 */
	return places;
}

void
places_delete(struct places *places)
{
	meta_free(places, sizeof(*places));
}

static struct note *
note_at(struct places *places, uint64_t index)
{
	return &places->notes[index % PLACE_NOTES];
}

/* Skip requests that were not seen. They are equal to any. */
static void
skip_unseen(struct places *places, uint64_t unseen)
{
	for (uint64_t i = 0; i < unseen && i < PLACE_NOTES; i++)
		*note_at(places, places->count + i) = (struct note){ 0 };
	places->count += unseen;
	places->repeated += unseen;
}

static uint64_t
spread(uint64_t hash)
{
	return hash * UINT64_C(0x9e3779b97f4a7c15);
}

/* The entry in the table for the sequence that ends with a request. */
static uint64_t *
latest_of(struct places *places, uint64_t key)
{
	places->recent =
	    (places->recent << HASH_SHIFT) + (spread(key) >> HASH_SHIFT);
	return &places->latest[spread(places->recent) >> (64 - TABLE_BITS)];
}

/* Does the request at the end of the notes repeat that of the round before? */
static bool
is_repeated(struct places *places, uint64_t key)
{
	const struct note *before =
	    note_at(places, places->count - places->round);

	return places->round > 0 && (before->key == key || before->key == 0);
}

/* Begin to compare with the sequence that was noted last. */
static void
find_round(struct places *places, uint64_t key, uint64_t latest)
{
	bool known = latest != 0 && places->count - latest < PLACE_NOTES &&
	    note_at(places, latest)->key == key;

	places->round = known ? places->count - latest : 0;
	places->repeated = known;
}

/* The note whose place the request is expected to get, or NULL. */
static struct note *
note_before(struct places *places)
{
	struct note *before = note_at(places, places->count - places->round);

	return places->round > 0 && places->repeated > places->round &&
		places->repeated > ROUND_LEAST && before->key != 0 ?
	    before :
	    NULL;
}

struct place
places_note(struct places *places, uint64_t key, uint64_t unseen)
{
	if (places == NULL)
		return (struct place){ 0 };
	skip_unseen(places, unseen);
	uint64_t *latest = latest_of(places, key);
	if (is_repeated(places, key))
		places->repeated++;
	else
		find_round(places, key, *latest);
	const struct note *before = note_before(places);
	struct note note = { .key = key };
	if (before != NULL) {
		note.addr = before->addr;
		note.missed = before->missed;
	}
	struct place place = { .index = places->count, .was = note.addr };
	*note_at(places, place.index) = note;
	*latest = place.index;
	places->count++;
	return place;
}

void
places_fill(struct places *places, struct place place, CUdeviceptr got)
{
	ASSERT(got != 0);
	if (places == NULL || place.index == 0 ||
	    places->count - place.index >= PLACE_NOTES)
		return;
	struct note *note = note_at(places, place.index);
	bool first_miss = place.was != 0 && got != place.was && !note->missed;
	if (!first_miss)
		note->addr = got;
	note->missed = first_miss;
}
