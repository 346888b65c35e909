/*
 * Note [Remapping]: free memory is mapped together at another place while work
 * still runs at the old one, vacated addresses are unmapped once that is done,
 * and a failure on the way changes nothing.
 */
#include "allocator/memory/remap.h"

#include "allocator/allocator.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/forget.h"
#include "allocator/memory/lookup.h"
#include "allocator/private/route.h"
#include "tests/support/device.h"

enum { PIECES = 4 };

static struct block *
block_at(const void *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr);
}

/* Blocks of device 0 in a state. */
static size_t
count(enum block_state state)
{
	struct arena *arena = arena_peek(0);
	size_t n = 0;

	lock_enter(&arena->lock);
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next)
		for (struct block *b =
			 CONTAINER_OF(l, struct segment, link)->first;
		     b != NULL; b = b->next)
			n += block_state(b) == state;
	lock_leave(&arena->lock);
	return n;
}

/* Live blocks of 2 MiB, filled with 100 and up, and free ones of 4 MiB between
 * them, with work on them that takes time. */
static void
scatter(weir_stream stream, char *live[PIECES])
{
	char *idle[PIECES];

	for (int i = 0; i < PIECES; i++) {
		idle[i] = take(4 * MIB, stream);
		live[i] = take(2 * MIB, stream);
	}
	busy(stream, LATE_MS);
	for (int i = 0; i < PIECES; i++) {
		fill(idle[i], 4 * MIB, (unsigned char)(1 + i), stream);
		fill(live[i], 2 * MIB, (unsigned char)(100 + i), stream);
		give(idle[i]);
	}
}

static void
expect_live(char *const live[PIECES], weir_stream stream)
{
	for (int i = 0; i < PIECES; i++)
		expect_filled(
		    live[i], 2 * MIB, (unsigned char)(100 + i), stream);
}

/* ---- Moving ------------------------------------------------------------ */

TEST(scattered_memory_is_one_block_while_its_old_work_still_runs)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	scatter(a, live);
	char *whole = take(16 * MIB, a);
	EXPECT(!is_done(a));
	EXPECT_EQ(reserved(), 24 * MIB);
	EXPECT_EQ(stats().remapped_bytes, 16 * MIB);
	EXPECT_EQ(stats().num_host_waits, 0);
	EXPECT_EQ(stats().num_gpu_waits, 0);
	fill(whole, 16 * MIB, 7, a);
	expect_healthy();
	expect_filled(whole, 16 * MIB, 7, a);
	expect_live(live, a);
	expect_healthy();
}

/* It is the same memory: it has the bytes that were written last. */
TEST(moved_memory_takes_its_content_along)
{
	weir_stream a = new_stream();
	char *live[PIECES];
	unsigned char first[PIECES];
	unsigned seen = 0;

	scatter(a, live);
	char *whole = take(16 * MIB, a);
	for (int i = 0; i < PIECES; i++) {
		read_back(&first[i], whole + i * (4 * MIB), 1, a);
		EXPECT(first[i] >= 1 && first[i] <= PIECES);
		expect_filled(whole + i * (4 * MIB), 4 * MIB, first[i], a);
		seen |= 1u << first[i];
	}
	EXPECT_EQ(seen, (1u << (PIECES + 1)) - 2);
	expect_healthy();
}

TEST(memory_missing_beyond_moved_memory_is_new)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	scatter(a, live);
	char *whole = take(30 * MIB, a);
	EXPECT_EQ(stats().remapped_bytes, 16 * MIB);
	EXPECT_EQ(reserved(), 38 * MIB);
	fill(whole, 30 * MIB, 7, a);
	expect_filled(whole, 30 * MIB, 7, a);
	expect_live(live, a);
	expect_healthy();
}

TEST(small_memory_is_moved_to_large_blocks_and_back)
{
	weir_stream a = new_stream();
	char *small[8];

	for (int i = 0; i < 8; i++)
		small[i] = take(MIB, a);
	for (int i = 0; i < 8; i++)
		give(small[i]);
	char *large = take(8 * MIB, a);
	EXPECT_EQ(reserved(), 8 * MIB);
	EXPECT_EQ(stats().reserved_bytes.small_pool.current, 0);
	give(large);
	/* Otherwise one move brings the memory for all requests. */
	conf("prefer:memory");
	take(MIB, a);
	EXPECT_EQ(reserved(), 8 * MIB);
	EXPECT_GT(stats().reserved_bytes.small_pool.current, 0);
	expect_healthy();
}

/* The rest of the moved memory is free memory of its stream like any other, and
 * others may use it when its work is done. */
TEST(the_rest_of_moved_memory_serves_others_in_time)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	char *idle[2];

	conf("prefer:speed");
	take(MIB, b);
	take(MIB, b); /* small blocks need no more memory later */
	take_apart(idle, 2, 8 * MIB, a);
	give(idle[0]);
	give(idle[1]);
	char *whole = take(10 * MIB, a);
	uint64_t held = reserved();
	busy(a, LATE_MS);
	EXPECT_NE(take(6 * MIB, b), whole + 10 * MIB);
	EXPECT_EQ(reserved(), held + 6 * MIB);
	finish(a);
	EXPECT_EQ(take(6 * MIB, b), whole + 10 * MIB);
	EXPECT_EQ(reserved(), held + 6 * MIB);
	EXPECT_EQ(stats().num_gpu_waits, 0);
	EXPECT_EQ(stats().num_host_waits, 0);
	expect_healthy();
}

TEST(memory_in_use_is_never_moved)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream late = new_stream();
	char *live[PIECES];

	conf("prefer:speed");
	scatter(a, live);
	char *pending = take(16 * MIB, b);
	busy(late, LATE_MS);
	record(pending, late);
	give(pending);
	/* Neither memory that another stream works on nor pending memory is
	 * moved. */
	char *got = take(16 * MIB, b);
	EXPECT_EQ(stats().remapped_bytes, 0);
	fill(got, 16 * MIB, 1, b);
	expect_filled(got, 16 * MIB, 1, b);
	expect_live(live, a);
	expect_healthy();
}

/* ---- Captures ---------------------------------------------------------- */

/* Requests for a stream are served by the device's own arena, captured or not.
 */
static struct route *
route_home(weir_stream handle)
{
	struct route_match match = { .kind = ROUTE_STREAM };
	struct route *route = NULL;

	EXPECT_OK(stream_find(0, handle, &match.stream));
	EXPECT_OK(route_begin(arena_peek(0), &match, &route));
	stream_put(match.stream);
	return route;
}

/* A captured stream gets its own memory moved, and the vacated addresses stay
 * mapped as long as no event can be recorded. */
TEST(memory_vacated_in_a_capture_is_unmapped_after_it)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	scatter(a, live);
	struct route *route = route_home(a);
	capture_begin(a);
	take(16 * MIB, a);
	EXPECT_EQ(stats().remapped_bytes, 16 * MIB);
	EXPECT_EQ(count(BLOCK_VACATED), PIECES);
	expect_healthy();
	capture_end(a);
	route_end(route);
	trim(0);
	EXPECT_EQ(count(BLOCK_VACATED), 0);
	EXPECT(is_done(a));
	expect_healthy();
}

/* ---- What memory has left ---------------------------------------------- */

TEST(addresses_are_unmapped_when_the_work_on_them_is_done)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	scatter(a, live);
	take(16 * MIB, a);
	EXPECT_EQ(count(BLOCK_VACATED), PIECES);
	EXPECT_EQ(stats().num_unmap_calls, 0);
	take(40 * MIB, a); /* too early */
	EXPECT_EQ(count(BLOCK_VACATED), PIECES);
	finish(a);
	take(40 * MIB, a);
	EXPECT_EQ(count(BLOCK_VACATED), 0);
	EXPECT_EQ(stats().num_unmap_calls, PIECES);
	expect_live(live, a);
	expect_healthy();
}

TEST(a_trim_waits_for_the_work_on_addresses_that_memory_has_left)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	scatter(a, live);
	char *whole = take(16 * MIB, a);
	give(whole);
	EXPECT_EQ(trim(0), 16 * MIB);
	EXPECT(is_done(a));
	EXPECT_EQ(count(BLOCK_VACATED), 0);
	if (sim() != NULL)
		EXPECT_EQ(sim()->memory_used(0), 8 * MIB);
	expect_live(live, a);
	expect_healthy();
}

/* However often memory moves, mappings and addresses do not pile up. */
TEST(addresses_that_memory_has_left_are_used_again)
{
	weir_stream a = new_stream();
	char *lowest = (char *)UINTPTR_MAX;
	char *highest = NULL;

	conf("prefer:memory");
	for (int round = 0; round < 200; round++) {
		char *live[PIECES];

		scatter(a, live);
		char *whole = take(16 * MIB, a);
		lowest = whole < lowest ? whole : lowest;
		highest = whole > highest ? whole : highest;
		fill(whole, 16 * MIB, 1, a);
		give(whole);
		for (int i = 0; i < PIECES; i++)
			give(live[i]);
		finish(a);
		EXPECT_EQ(reserved(), 24 * MIB);
		EXPECT_LE(count(BLOCK_VACATED), 64);
	}
	EXPECT_LT((size_t)(highest - lowest), (size_t)1 << 30);
	if (sim() != NULL) {
		EXPECT_EQ(sim()->live("handle"), 12);
		EXPECT_LE(sim()->live("mapping"), 12 + 64);
		EXPECT_EQ(sim()->live("reservation"), 1);
	}
	expect_healthy();
}

/* On a full device the memory itself is needed. It is free only when it is
 * mapped nowhere. */
TEST(memory_that_was_moved_goes_back_though_it_is_still_mapped_elsewhere)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	device_need_sim("the device is made small");
	scatter(a, live);
	char *whole = take(16 * MIB, a);
	sim()->set_memory(0, sim()->memory_used(0) + 2 * MIB);
	give(whole);
	take(18 * MIB, WEIR_STREAM_ANY); /* cannot be moved there */
	EXPECT_EQ(stats().num_ooms, 0);
	expect_live(live, a);
	expect_healthy();
}

/* ---- Failures ---------------------------------------------------------- */

struct held {
	uint64_t reserved;
	uint64_t device;
	long handles;
	long mappings;
};

static struct held
held(void)
{
	return (struct held){ .reserved = reserved(),
		.device = sim()->memory_used(0),
		.handles = sim()->live("handle"),
		.mappings = sim()->live("mapping") };
}

static void
expect_held(struct held before)
{
	struct held now = held();

	EXPECT_EQ(now.reserved, before.reserved);
	EXPECT_EQ(now.device, before.device);
	EXPECT_EQ(now.handles, before.handles);
	EXPECT_EQ(now.mappings, before.mappings);
	EXPECT_EQ(count(BLOCK_MAPPING), 0);
	EXPECT_EQ(count(BLOCK_UNMAPPING), 0);
}

/* Each call that maps 16 moved and 14 new MiB fails in turn. */
static void
fail_each(const char *entry, unsigned calls)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	device_need_sim("calls of the driver are made to fail");
	conf("tcache:0,handle_mb:4");
	scatter(a, live);
	for (unsigned n = 1; n <= calls; n++) {
		struct held before = held();
		EXPECT_EQ(sim()->fail(entry, n, 1, CUDA_ERROR_UNKNOWN), 0);
		EXPECT_NO_MEMORY(weir_malloc(30 * MIB, a), WEIR_EDRIVER);
		EXPECT_STR_HAS(weir_last_error(), entry);
		EXPECT_EQ(sim()->faults(), n);
		expect_held(before);
		expect_healthy();
	}
	EXPECT_EQ(stats().remapped_bytes, 0);
	char *whole = take(30 * MIB, a);
	EXPECT_EQ(stats().remapped_bytes, 16 * MIB);
	fill(whole, 30 * MIB, 1, a);
	expect_filled(whole, 30 * MIB, 1, a);
	expect_live(live, a);
	expect_healthy();
}

TEST(memory_that_cannot_be_made_leaves_all_as_it_was)
{
	fail_each("cuMemCreate", 4);
}

TEST(memory_that_cannot_be_mapped_leaves_all_as_it_was)
{
	fail_each("cuMemMap", PIECES + 4);
}

TEST(memory_that_cannot_be_opened_leaves_all_as_it_was)
{
	fail_each("cuMemSetAccess", 1);
}

/* Nothing new is needed, so what the driver lacks is memory of its own. */
TEST(moves_that_the_driver_has_no_memory_for_are_tried_again)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	device_need_sim("calls of the driver are made to fail");
	conf("tcache:0,handle_mb:4");
	scatter(a, live);
	EXPECT_EQ(
	    sim()->fail("cuMemMap", 1, 1000, CUDA_ERROR_OUT_OF_MEMORY), 0);
	EXPECT_NO_MEMORY(weir_malloc(16 * MIB, a), WEIR_ENOMEM);
	expect_healthy();
	EXPECT_LE(sim()->faults(), 100);
	sim()->reset();
	scatter(a, live);
	EXPECT_EQ(sim()->fail("cuMemMap", 3, 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	char *whole = take(16 * MIB, a);
	EXPECT_EQ(sim()->faults(), 1);
	fill(whole, 16 * MIB, 1, a);
	expect_filled(whole, 16 * MIB, 1, a);
	expect_healthy();
}

/* A mapping that cannot be undone at once is undone later. Until then its
 * addresses are out of use; no memory is lost. */
TEST(a_mapping_that_cannot_be_undone_is_undone_later)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	device_need_sim("calls of the driver are made to fail");
	conf("tcache:0,handle_mb:4");
	scatter(a, live);
	struct held before = held();
	for (unsigned n = 1; n <= PIECES + 4; n++) {
		EXPECT_EQ(
		    sim()->fail("cuMemSetAccess", 1, 1, CUDA_ERROR_UNKNOWN), 0);
		EXPECT_EQ(
		    sim()->fail("cuMemUnmap", n, 1, CUDA_ERROR_UNKNOWN), 0);
		EXPECT_NO_MEMORY(weir_malloc(30 * MIB, a), WEIR_EDRIVER);
		EXPECT_EQ(reserved(), before.reserved);
		EXPECT_EQ(sim()->faults(), 2 * n);
		EXPECT_LE(sim()->live("mapping"), before.mappings + 1);
		expect_healthy();
		trim(SIZE_MAX);
		expect_held(before);
	}
	char *whole = take(30 * MIB, a);
	fill(whole, 30 * MIB, 1, a);
	expect_filled(whole, 30 * MIB, 1, a);
	expect_live(live, a);
	expect_healthy();
}

TEST(addresses_that_the_driver_does_not_unmap_are_tried_again)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	device_need_sim("calls of the driver are made to fail");
	scatter(a, live);
	take(16 * MIB, a);
	finish(a);
	EXPECT_EQ(sim()->fail("cuMemUnmap", 1, 2, CUDA_ERROR_UNKNOWN), 0);
	take(40 * MIB, a);
	EXPECT_EQ(count(BLOCK_VACATED), 2);
	expect_healthy();
	take(40 * MIB, a);
	EXPECT_EQ(count(BLOCK_VACATED), 0);
	expect_healthy();
}

/* A driver that takes nothing back must not be called again and again. */
TEST(a_driver_that_refuses_memory_is_asked_for_each_piece_once)
{
	weir_stream a = new_stream();

	device_need_sim("calls of the driver are made to fail");
	conf("tcache:0,handle_mb:4");
	give(take(16 * MIB, a));
	give(take(16 * MIB, WEIR_STREAM_ANY));
	finish(a);
	EXPECT_EQ(sim()->fail("cuMemRelease", 1, 1000, CUDA_ERROR_UNKNOWN), 0);
	EXPECT_EQ(sim()->fail("cuMemFree", 1, 1000, CUDA_ERROR_UNKNOWN), 0);
	EXPECT_EQ(trim(0), 0);
	EXPECT_EQ(reserved(), 32 * MIB);
	expect_healthy();
	EXPECT_OK(weir_limit_set(0, 32 * MIB));
	EXPECT_NO_MEMORY(weir_malloc(20 * MIB, a), WEIR_ENOMEM);
	expect_healthy();
	EXPECT_LE(sim()->faults(), 40);
	sim()->reset();
	EXPECT_EQ(trim(0), 32 * MIB);
	expect_healthy();
}

/* ---- A device that is reset -------------------------------------------- */

/* The structures of a job outlast the reset, and end with the last job. */
TEST(a_reset_waits_for_the_calls_that_are_under_way)
{
	weir_stream a = new_stream();
	struct arena *arena;
	char *ptr = take(8 * MIB, a);

	device_need_sim("the context is only said to be gone");
	finish(a);
	arena = arena_peek(0);
	struct block *block = block_at(ptr);
	lock_enter(&arena->lock);
	arena->memory.jobs++;
	lock_leave(&arena->lock);
	allocator_forget_device(0);
	EXPECT_NULL(arena_peek(0));
	lock_enter(&arena->lock);
	EXPECT(arena->memory.forgotten);
	EXPECT(!list_empty(&arena->memory.segments));
	EXPECT_EQ(block->segment->mapped_bytes, 8 * MIB);
	arena_job_done(arena);
	EXPECT(list_empty(&arena->memory.segments));
	EXPECT_EQ(arena->account.stats.reserved_bytes.all.current, 0);
	lock_leave(&arena->lock);
	EXPECT_NULL(block_at(ptr));
	EXPECT_EQ(sim()->live("handle"), 0);
	EXPECT_EQ(sim()->live("mapping"), 0);
	expect_healthy();
}

TEST(a_reset_forgets_addresses_that_memory_has_left)
{
	weir_stream a = new_stream();
	char *live[PIECES];

	device_need_sim("the context is only said to be gone");
	scatter(a, live);
	take(16 * MIB, a);
	EXPECT_EQ(count(BLOCK_VACATED), PIECES);
	finish(a);
	allocator_forget_device(0);
	EXPECT_EQ(sim()->live("handle"), 0);
	EXPECT_EQ(sim()->live("mapping"), 0);
	EXPECT_EQ(sim()->live("reservation"), 0);
	expect_healthy();
}
