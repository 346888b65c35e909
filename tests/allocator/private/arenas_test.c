/*
 * Arenas besides the device's own: memory that stays apart, statistics and a
 * limit that hold for all of them, other sources, and the end of an arena
 * without an owner.
 */
#include "allocator/private/arenas.h"

#include <stdlib.h>

#include "allocator/account/counters.h"
#include "allocator/allocator.h"
#include "allocator/memory/keep.h"
#include "allocator/memory/source.h"
#include "base/meta.h"
#include "base/status.h"
#include "tests/support/arena.h"
#include "tests/support/device.h"

static struct arena *
make(const struct source *source, unsigned flags)
{
	struct arena *arena = NULL;

	EXPECT_OK(arena_make(main_arena(), source, flags, &arena));
	EXPECT_NOT_NULL(arena);
	return arena;
}

/* weir_malloc() in one arena. */
static void *
take_in(struct arena *arena, size_t size, weir_stream stream)
{
	void *ptr = NULL;

	EXPECT_OK(allocator_malloc_in(arena, size, stream, &ptr));
	return ptr;
}

static size_t
held(struct arena *arena)
{
	return arena->account.stats.reserved_bytes.all.current;
}

/* ---- Apart ------------------------------------------------------------- */

TEST(memory_of_two_arenas_stays_apart)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();

	conf("tcache:0");
	void *mine = take(4 * MIB, stream);
	void *its = take_in(arena, 4 * MIB, stream);
	give(mine);
	give(its);
	EXPECT_EQ(take_in(arena, 4 * MIB, stream), its);
	EXPECT_EQ(take(4 * MIB, stream), mine);
	EXPECT_EQ(held(arena), 4 * MIB);
	EXPECT_EQ(stats().reserved_bytes.all.current, 8 * MIB);
	EXPECT_EQ(stats().allocated_bytes.all.current, 8 * MIB);
	EXPECT_EQ(stats_of_stream(stream).allocated_bytes.all.current, 8 * MIB);
	expect_healthy();
}

TEST(a_block_of_another_arena_is_found_by_its_address)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();
	char *ptr = take_in(arena, 4 * MIB, stream);

	EXPECT_EQ(info_of(ptr + 5).size, 4 * MIB);
	EXPECT_EQ(info_of(ptr).stream, stream);
	EXPECT_EQ(info_of(ptr).device, 0);
	EXPECT_STATUS(weir_free(ptr + 512), WEIR_EINVAL);
	give(ptr);
	EXPECT_STATUS(weir_free(ptr), WEIR_EINVAL);
	expect_healthy();
}

TEST(record_stream_holds_back_a_block_of_another_arena)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();
	weir_stream use = new_stream();
	void *ptr = take_in(arena, 4 * MIB, stream);

	busy(use, LATE_MS);
	record(ptr, use);
	give(ptr);
	EXPECT_EQ(stats().pending_bytes, 4 * MIB);
	EXPECT_NE(take_in(arena, 4 * MIB, stream), ptr);
	finish(use);
	settle();
	EXPECT_EQ(take_in(arena, 4 * MIB, stream), ptr);
	expect_healthy();
}

TEST(a_block_handed_to_another_stream_stays_in_its_arena)
{
	struct arena *arena = make(NULL, 0);
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	void *ptr = take_in(arena, 4 * MIB, a);

	EXPECT_OK(weir_free_async(ptr, b));
	EXPECT_EQ(take_in(arena, 4 * MIB, b), ptr);
	EXPECT_NE(take(4 * MIB, b), ptr);
	expect_healthy();
}

TEST(a_stream_s_end_reaches_all_arenas)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();

	give(take_in(arena, 4 * MIB, stream));
	give(take(4 * MIB, stream));
	EXPECT_OK(weir_stream_destroy(stream));
	settle();
	void *ptr = take_in(arena, 4 * MIB, new_stream());
	EXPECT_EQ(held(arena), 4 * MIB);
	give(ptr);
	expect_healthy();
}

TEST(blocks_of_no_stream_are_pending_in_their_arena)
{
	struct arena *arena = make(NULL, 0);
	void *ptr = take_in(arena, 4 * MIB, WEIR_STREAM_ANY);

	EXPECT(!info_of(ptr).expandable);
	give(ptr);
	EXPECT_EQ(stats().pending_bytes, 4 * MIB);
	EXPECT_EQ(trim(0), 20 * MIB);
	expect_healthy();
}

/* ---- Statistics and the limit ------------------------------------------ */

TEST(peaks_are_those_of_all_arenas_together)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();
	void *a = take(4 * MIB, stream);
	void *b = take_in(arena, 8 * MIB, stream);

	give(a);
	EXPECT_EQ(stats().allocated_bytes.all.peak, 12 * MIB);
	EXPECT_OK(weir_stats_reset_peak(0));
	EXPECT_EQ(stats().allocated_bytes.all.peak, 8 * MIB);
	EXPECT_EQ(stats_all(&arena->account.stats, &arena->account.tally)
		      .allocated_bytes.all.peak,
	    8 * MIB);
	a = take(2 * MIB, stream);
	EXPECT_EQ(stats().allocated_bytes.all.peak, 10 * MIB);
	give(b);
	give(a);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	EXPECT_EQ(stats().allocation.all.allocated, 3);
	EXPECT_OK(weir_stats_reset_accumulated(0));
	EXPECT_EQ(stats().allocation.all.allocated, 0);
	EXPECT_EQ(stats().num_device_alloc, 0);
	expect_healthy();
}

TEST(peaks_include_allocations_of_the_thread_s_cache)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();
	size_t peak = 0;
	size_t live = 0;
	void *mine[8];
	void *its[8];

	for (int i = 0; i < 8; i++)
		mine[i] = take(1024, stream);
	for (int i = 0; i < 8; i++)
		give(mine[i]);
	EXPECT_OK(weir_stats_reset_peak(0));
	for (int i = 0; i < 8; i++) {
		mine[i] = take(1024, stream);
		its[i] = take_in(arena, 2048, stream);
		live += 3072;
		peak = live > peak ? live : peak;
		if (i % 3 == 2) {
			give(mine[i]);
			give(its[i]);
			live -= 3072;
		}
	}
	EXPECT_EQ(stats().allocated_bytes.all.current, live);
	EXPECT_EQ(stats().allocated_bytes.all.peak, peak);
	expect_healthy();
}

TEST(a_limit_holds_for_all_arenas_together)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();
	void *ptr = NULL;

	EXPECT_OK(weir_limit_set(0, 16 * MIB));
	void *mine = take(8 * MIB, stream);
	void *its = take_in(arena, 8 * MIB, stream);
	EXPECT_NO_MEMORY(weir_malloc(4 * MIB, stream), WEIR_ENOMEM);
	EXPECT_STATUS(
	    allocator_malloc_in(arena, 4 * MIB, stream, &ptr), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "CUDA out of memory");
	EXPECT_EQ(stats().num_ooms, 2);
	EXPECT_EQ(stats().reserved_bytes.all.current, 16 * MIB);
	give(mine);
	give(its);
	expect_healthy();
}

TEST(unused_memory_of_one_arena_makes_space_for_another)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();

	EXPECT_OK(weir_limit_set(0, 16 * MIB));
	give(take(16 * MIB, stream));
	void *ptr = take_in(arena, 12 * MIB, stream);
	EXPECT_LE(stats().reserved_bytes.all.current, 16 * MIB);
	give(ptr);
	take(16 * MIB, stream);
	EXPECT_EQ(held(arena), 0);
	expect_healthy();
}

TEST(room_is_waited_for_when_it_is_in_use_by_queued_work)
{
	struct arena *arena = make(NULL, 0);
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	EXPECT_OK(weir_limit_set(0, 16 * MIB));
	void *ptr = take_in(arena, 16 * MIB, a);
	busy(a, LATE_MS);
	give(ptr);
	take(16 * MIB, b);
	EXPECT_EQ(held(arena), 0);
	expect_healthy();
}

TEST(a_trim_keeps_the_requested_bytes_of_all_arenas_together)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();

	give(take(8 * MIB, stream));
	give(take_in(arena, 8 * MIB, stream));
	EXPECT_EQ(trim(16 * MIB), 0);
	EXPECT_EQ(trim(8 * MIB), 8 * MIB);
	EXPECT_EQ(trim(0), 8 * MIB);
	expect_healthy();
}

/* ---- Sources ----------------------------------------------------------- */

struct pages {
	unsigned taken;
	unsigned given;
	size_t offset;
	enum weir_status refuse;
	bool keep;
};

static enum weir_status
pages_take(void *closure, int device, size_t size, CUdeviceptr *out)
{
	struct pages *pages = closure;

	if (pages->refuse != WEIR_OK)
		return status_set(pages->refuse, "no pages");
	enum weir_status status =
	    source_driver.take(NULL, device, size + 512, out);
	if (status == WEIR_OK)
		pages->taken++;
	*out += pages->offset;
	return status;
}

static bool
pages_give(void *closure, int device, CUdeviceptr addr, size_t size)
{
	struct pages *pages = closure;

	if (pages->keep)
		return false;
	pages->given++;
	return source_driver.give(NULL, device, addr - pages->offset, size);
}

static struct pages pages;
static const struct source pages_source = { .name = "pages",
	.traits = &traits_segments,
	.take = pages_take,
	.give = pages_give,
	.closure = &pages };

TEST(an_arena_takes_its_segments_from_its_source_and_gives_them_back)
{
	struct arena *arena = make(&pages_source, 0);
	weir_stream stream = new_stream();
	void *ptr = take_in(arena, 4 * MIB, stream);

	EXPECT_EQ(pages.taken, 1);
	EXPECT(!info_of(ptr).expandable);
	EXPECT_EQ(info_of(ptr).segment_size, 20 * MIB);
	give(ptr);
	EXPECT_EQ(trim(0), 20 * MIB);
	EXPECT_EQ(pages.given, 1);
	expect_healthy();
}

TEST(a_source_that_refuses_or_gives_nonsense_changes_nothing)
{
	struct arena *arena = make(&pages_source, 0);
	weir_stream stream = new_stream();
	void *ptr = NULL;

	pages.refuse = WEIR_ENOTSUP;
	EXPECT_STATUS(
	    allocator_malloc_in(arena, 4 * MIB, stream, &ptr), WEIR_ENOTSUP);
	EXPECT_STR_EQ(weir_last_error(), "no pages");
	pages.refuse = WEIR_OK;
	pages.offset = 8;
	EXPECT_STATUS(
	    allocator_malloc_in(arena, 4 * MIB, stream, &ptr), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "pages(");
	EXPECT_EQ(pages.given, pages.taken);
	EXPECT_EQ(held(arena), 0);
	EXPECT_EQ(arena->account.promised, 0);
	EXPECT_EQ(arena->account.totals->promised, 0);
	pages.offset = 0;
	ptr = take_in(arena, 4 * MIB, stream);
	give(ptr);
	pages.keep = true;
	EXPECT_EQ(trim(0), 0);
	EXPECT_EQ(held(arena), 20 * MIB);
	pages.keep = false;
	EXPECT_EQ(trim(0), 20 * MIB);
	expect_healthy();
}

/* Memory of weir cannot be a source for weir. */
static enum weir_status
weir_take(void *closure, int device, size_t size, CUdeviceptr *out)
{
	(void)closure;
	*out = (CUdeviceptr)(uintptr_t)weir_malloc_on(device, size, NULL);
	return *out != 0 ? WEIR_OK : weir_last_status();
}

static bool
weir_give(void *closure, int device, CUdeviceptr addr, size_t size)
{
	(void)closure;
	(void)device;
	(void)size;
	return weir_free((void *)(uintptr_t)addr) == WEIR_OK;
}

TEST(a_source_that_gives_memory_of_weir_is_refused)
{
	static const struct source own = { .name = "own",
		.traits = &traits_segments,
		.take = weir_take,
		.give = weir_give };
	struct arena *arena = make(&own, 0);
	void *ptr = NULL;

	EXPECT_STATUS(allocator_malloc_in(arena, 4 * MIB, new_stream(), &ptr),
	    WEIR_EINVAL);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	expect_healthy();
}

TEST(blocks_of_an_arena_that_does_not_split_are_segments)
{
	struct arena *arena = make(&pages_source, ARENA_NO_SPLIT);
	weir_stream stream = new_stream();
	void *large = take_in(arena, 8 * MIB, stream);
	void *small = take_in(arena, 1000, stream);

	EXPECT_EQ(pages.taken, 2);
	EXPECT_EQ(held(arena), 8 * MIB + 1024);
	give(large);
	EXPECT_NE(take_in(arena, 4 * MIB, stream), large);
	EXPECT_EQ(pages.taken, 3);
	EXPECT_EQ(take_in(arena, 8 * MIB - 512 + 1, stream), large);
	give(small);
	expect_healthy();
}

/* ---- Kept -------------------------------------------------------------- */

TEST(no_memory_of_a_kept_arena_goes_or_moves)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();
	void *piece[8];

	conf("prefer:memory");
	for (int i = 0; i < 8; i++)
		piece[i] = take_in(arena, 2 * MIB, stream);
	arena_keep(arena);
	for (int i = 0; i < 8; i += 2)
		give(piece[i]);
	EXPECT_EQ(trim(0), 0);
	EXPECT_EQ(held(arena), 16 * MIB);
	/* Free pieces are not moved together. */
	void *large = take_in(arena, 8 * MIB, stream);
	EXPECT_EQ(held(arena), 24 * MIB);
	EXPECT_EQ(stats().remapped_bytes, 0);
	EXPECT_OK(weir_limit_set(0, 24 * MIB));
	EXPECT_NO_MEMORY(weir_malloc(2 * MIB, stream), WEIR_ENOMEM);
	arena_unkeep(arena);
	take(2 * MIB, stream);
	give(large);
	expect_healthy();
}

/* ---- Without an owner -------------------------------------------------- */

TEST(an_arena_that_nobody_owns_gives_back_at_once_and_is_used_again)
{
	struct arena *arena = make(&source_driver, 0);
	weir_stream stream = new_stream();

	give(take_in(arena, 4 * MIB, stream));
	EXPECT_GE(held(arena), 4 * MIB);
	uint64_t taken = stats().num_device_alloc;
	finish(stream);
	arena_drop(arena);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	EXPECT_EQ(stats().num_device_alloc, taken);
	EXPECT(!arena->private.in_use);
	EXPECT_EQ(make(&pages_source, ARENA_NO_SPLIT), arena);
	EXPECT_EQ(stats_all(&arena->account.stats, &arena->account.tally)
		      .allocation.all.allocated,
	    0);
	take_in(arena, 512, stream);
	EXPECT_EQ(held(arena), 512);
	expect_healthy();
}

TEST(live_blocks_outlast_the_owners_of_their_arena)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();
	void *a = take_in(arena, 4 * MIB, stream);
	void *b = take_in(arena, 4 * MIB, stream);

	finish(stream);
	arena_hold(arena);
	arena_drop(arena);
	give(a);
	EXPECT_EQ(held(arena), 8 * MIB);
	arena_drop(arena);
	EXPECT_EQ(held(arena), 4 * MIB);
	fill(b, 4 * MIB, 7, stream);
	expect_filled(b, 4 * MIB, 7, stream);
	give(b);
	EXPECT_EQ(held(arena), 0);
	EXPECT(!arena->private.in_use);
	expect_healthy();
}

TEST(pending_blocks_of_an_unowned_arena_are_polled_by_others)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = new_stream();
	weir_stream use = new_stream();
	void *ptr = take_in(arena, 4 * MIB, stream);

	record(ptr, use);
	busy(use, LATE_MS);
	give(ptr);
	arena_drop(arena);
	EXPECT_EQ(held(arena), 4 * MIB);
	EXPECT(arena->private.in_use);
	finish(use);
	take(4 * MIB, stream);
	EXPECT_EQ(held(arena), 0);
	EXPECT(!arena->private.in_use);
	expect_healthy();
}

TEST(a_reset_of_the_device_takes_all_arenas)
{
	struct arena *arena = make(NULL, 0);
	weir_stream stream = foreign_stream(CU_STREAM_NON_BLOCKING);
	void *live = take_in(arena, 4 * MIB, stream);
	void *ptr = NULL;

	allocator_forget_device(0);
	EXPECT_STATUS(weir_free(live), WEIR_EINVAL);
	EXPECT_STATUS(
	    allocator_malloc_in(arena, 512, stream, &ptr), WEIR_ECONTEXT);
	arena_drop(arena);
	EXPECT_EQ(weir_check(NULL, 0), 0);
	struct arena *other = make(NULL, 0);
	EXPECT_NE(other, arena);
	give(take_in(other, 512, NULL));
	EXPECT_EQ(weir_check(NULL, 0), 0);
}

TEST(an_arena_that_cannot_be_made_leaves_nothing)
{
	weir_stream stream = new_stream();
	struct arena *main = main_arena();
	bool failed = false;

	for (unsigned long nth = 1; nth < 30; nth++) {
		struct arena *arena = NULL;
		meta_fail(nth, 1);
		enum weir_status status = arena_make(main, NULL, 0, &arena);
		meta_fail(0, 0);
		if (status == WEIR_OK) {
			give(take_in(arena, 512, stream));
			finish(stream);
			arena_drop(arena);
			EXPECT(!arena->private.in_use);
			break;
		}
		failed = true;
		EXPECT_EQ(status, WEIR_EHOSTMEM);
		EXPECT_NULL(arena);
		expect_healthy();
	}
	EXPECT(failed);
	expect_healthy();
}
