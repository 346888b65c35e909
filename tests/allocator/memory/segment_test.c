/*
 * Segments get memory for pools and give it back: expandable segments grow in
 * place and give back holes; driver segments; and the driver's numbers at the
 * same time.
 */
#include "allocator/memory/segment.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/forget.h"
#include "allocator/memory/grow.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/view.h"
#include "base/meta.h"
#include "tests/support/device.h"

/* Segments of device 0. */
static size_t
segments(void)
{
	struct arena *arena = arena_peek(0);
	size_t n = 0;

	lock_enter(&arena->lock);
	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next)
		n++;
	lock_leave(&arena->lock);
	return n;
}

/* ---- Expandable -------------------------------------------------------- */

TEST(an_expandable_segment_grows_in_place)
{
	char *a = take(4 * MIB, NULL);
	char *b = take((size_t)40 * MIB, NULL);
	char *c = take(3 * MIB, NULL);

	EXPECT_EQ(b, a + 4 * MIB);
	EXPECT_EQ(c, b + 40 * MIB);
	EXPECT_EQ(info_of(c).segment, a);
	EXPECT(info_of(c).expandable);
	EXPECT_EQ(info_of(a).segment_size, 48 * MIB);
	EXPECT_EQ(reserved(), 48 * MIB);
	EXPECT_EQ(segments(), 1);
	expect_healthy();
}

TEST(a_free_end_grows_by_the_missing_bytes)
{
	char *a = take(4 * MIB, NULL);

	give(a);
	EXPECT_EQ(take(6 * MIB, NULL), a);
	EXPECT_EQ(reserved(), 6 * MIB);
	give(a);
	EXPECT_EQ(take((size_t)100 * MIB, NULL), a);
	EXPECT_EQ(reserved(), 100 * MIB);
	expect_healthy();
}

TEST(memory_is_mapped_in_whole_granules)
{
	take(MIB + 512, NULL);
	EXPECT_EQ(reserved() % arena_peek(0)->memory.granularity, 0);
	EXPECT_LE(reserved(), MIB + 512 + arena_peek(0)->memory.granularity);
	expect_healthy();
}

TEST(small_and_large_blocks_have_separate_segments_for_all_streams)
{
	weir_stream stream = new_stream();

	/* Whole pieces of memory, so that no part of them is left. */
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 2; k++)
			take(MIB, NULL);
		for (int k = 0; k < 2; k++)
			take(MIB, stream);
		take(2 * MIB, NULL);
		take(2 * MIB, stream);
		EXPECT_EQ(segments(), 2);
	}
	expect_healthy();
}

TEST(memory_that_nobody_has_used_yet_serves_any_stream)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	char *first = take(512, a);

	busy(a, LATE_MS);
	EXPECT_EQ(take(512, b), first + 512);
	EXPECT_EQ(info_of(first + 512).stream, b);
	EXPECT_EQ(reserved(), 2 * MIB);
	EXPECT_EQ(stats().num_gpu_waits, 0);
	expect_healthy();
}

TEST(mapped_memory_can_be_used_to_its_last_byte)
{
	weir_stream stream = new_stream();
	char *a = take(70 * MIB + 512, stream);
	size_t size = info_of(a).size;

	fill(a, size, 0x5a, stream);
	fill(a + size - 1, 1, 0xa5, stream);
	expect_filled(a, size - 1, 0x5a, stream);
	expect_filled(a + size - 1, 1, 0xa5, stream);
	expect_healthy();
}

TEST(growing_keeps_earlier_contents)
{
	weir_stream stream = new_stream();
	void *a = take(6 * MIB, stream);

	fill(a, 6 * MIB, 0x11, stream);
	take((size_t)200 * MIB, stream);
	expect_filled(a, 6 * MIB, 0x11, stream);
	expect_healthy();
}

/* A GPU's driver keeps page tables and the like in the device's memory. */
static void
expect_about(size_t bytes, size_t expected)
{
	size_t slack = device_is_simulated() ? 0 : 8 * MIB;

	EXPECT_GE(bytes + slack, expected);
	EXPECT_LE(bytes, expected + slack);
}

TEST(held_bytes_are_those_that_the_driver_gave)
{
	take(512, NULL); /* contexts and tables cost memory once */
	size_t before = device_free_bytes(0);
	void *a = take((size_t)256 * MIB, NULL);
	expect_about(before - device_free_bytes(0), 256 * MIB);
	give(a);
	expect_about(before - device_free_bytes(0), 256 * MIB);
	EXPECT_EQ(trim(0), 256 * MIB);
	expect_about(device_free_bytes(0), before);
}

TEST(a_hole_goes_back_to_the_driver_and_is_filled_again)
{
	char *block[3];

	for (int i = 0; i < 3; i++)
		block[i] = take((size_t)64 * MIB, NULL);
	fill(block[0], 64 * MIB, 1, NULL);
	fill(block[2], 64 * MIB, 3, NULL);
	give(block[1]);
	EXPECT_EQ(trim(0), 64 * MIB);
	EXPECT_EQ(reserved(), 128 * MIB);
	EXPECT_EQ(info_of(block[2]).segment, block[2]);
	EXPECT_EQ(info_of(block[2]).segment_size, 64 * MIB);
	expect_healthy();
	/* It does not fit in the hole, so the end grows. */
	char *longer = take((size_t)65 * MIB, NULL);
	EXPECT_EQ(longer, block[2] + 64 * MIB);
	EXPECT_EQ(take((size_t)64 * MIB, NULL), block[1]);
	EXPECT_EQ(info_of(block[2]).segment, block[0]);
	expect_filled(block[0], 64 * MIB, 1, NULL);
	expect_filled(block[2], 64 * MIB, 3, NULL);
	expect_healthy();
}

TEST(a_request_is_mapped_over_a_run_of_free_blocks_and_holes)
{
	char *block[5];

	for (int i = 0; i < 5; i++)
		block[i] = take(10 * MIB, NULL);
	give(block[1]);
	give(block[3]);
	EXPECT_EQ(trim(0), 20 * MIB);
	give(block[2]);
	/* Hole, free block, hole: 30 MiB, of which 20 are to be mapped. */
	EXPECT_EQ(take(30 * MIB, NULL), block[1]);
	EXPECT_EQ(reserved(), 50 * MIB);
	expect_healthy();
	fill(block[1], 30 * MIB, 9, NULL);
	expect_filled(block[1], 30 * MIB, 9, NULL);
	expect_healthy();
}

TEST(part_of_a_large_free_block_goes_back_and_its_low_end_stays)
{
	conf("handle_mb:64");
	char *a = take((size_t)256 * MIB, NULL);

	give(a);
	EXPECT_EQ(trim((size_t)64 * MIB), 192 * MIB);
	EXPECT_EQ(reserved(), 64 * MIB);
	expect_healthy();
	EXPECT_EQ(take((size_t)64 * MIB, NULL), a);
	EXPECT_EQ(reserved(), 64 * MIB);
	expect_healthy();
}

TEST(memory_around_live_blocks_goes_back_as_far_as_handles_reach)
{
	device_need_bytes((size_t)64 << 30); /* handles may be of 64 MiB */
	char *a = take((size_t)512 * MIB, NULL);

	give(a);
	take(2 * MIB, NULL);
	/* The first handle holds the live block. */
	EXPECT_EQ(trim(0), 448 * MIB);
	EXPECT_EQ(reserved(), 64 * MIB);
	expect_healthy();
}

TEST(addresses_go_back_when_nothing_is_mapped)
{
	void *a = take(4 * MIB, NULL);
	void *b = take(512, NULL);

	give(a);
	give(b);
	EXPECT_EQ(segments(), 2);
	EXPECT_EQ(trim(0), 6 * MIB);
	EXPECT_EQ(segments(), 0);
	EXPECT_EQ(reserved(), 0);
	expect_healthy();
	give(take(4 * MIB, NULL));
	expect_healthy();
	if (sim() != NULL) {
		EXPECT_EQ(sim()->live("reservation"), 1);
		trim(0);
		EXPECT_EQ(sim()->live("reservation"), 0);
		EXPECT_EQ(sim()->live("handle"), 0);
		EXPECT_EQ(sim()->live("mapping"), 0);
	}
}

TEST(a_pool_grows_by_the_missing_bytes)
{
	for (int i = 0; i < 200; i++)
		take(2 * MIB, NULL);
	EXPECT_EQ(reserved(), 400 * MIB);
	EXPECT_EQ(stats().num_device_alloc, 200);
	expect_healthy();
}

TEST(a_pool_grows_up_to_the_limit)
{
	for (size_t mib = 392; mib <= 410; mib += 6) {
		EXPECT_OK(weir_limit_set(0, mib * MIB));
		while (stats().active_bytes.all.current < mib * MIB)
			take(2 * MIB, NULL);
		EXPECT_EQ(reserved(), mib * MIB);
		EXPECT_NO_MEMORY(weir_malloc(2 * MIB, NULL), WEIR_ENOMEM);
	}
	expect_healthy();
}

TEST(a_request_is_met_though_the_driver_refuses_once)
{
	device_need_sim("calls of the driver are made to fail");
	take((size_t)1024 * MIB, NULL);
	EXPECT_EQ(
	    sim()->fail("cuMemCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	take(2 * MIB, NULL);
	EXPECT_EQ(reserved(), 1026 * MIB);
	expect_healthy();
}

/* A thread may free the memory that another is about to map. */
TEST(growing_a_pool_with_enough_memory_changes_nothing)
{
	const struct options *options;
	size_t need;

	conf("tcache:0");
	give(take(8 * MIB, NULL));
	EXPECT_OK(options_get(&options));
	struct arena *arena = arena_peek(0);
	lock_enter(&arena->lock);
	struct stream_heap *owner = arena->memory.any_heap;
	for (struct list *l = arena->memory.heaps.next;
	     l != &arena->memory.heaps; l = l->next) {
		struct stream_heap *heap =
		    CONTAINER_OF(l, struct stream_heap, link);
		if (heap->pool[POOL_LARGE].free.count > 0)
			owner = heap;
	}
	struct view view;
	view_begin(&view, owner);
	EXPECT_OK(pool_grow(&view, &owner->pool[POOL_LARGE], options, 4 * MIB,
	    GROW_MIXED, &need));
	lock_leave(&arena->lock);
	EXPECT_EQ(reserved(), 8 * MIB);
	expect_healthy();
}

TEST(a_failed_allocation_leaves_nothing_behind)
{
	size_t much = device_total(0);
	uint64_t calls;

	take(2 * MIB, NULL);
	calls = stats().num_device_alloc;
	EXPECT_NO_MEMORY(weir_malloc(much, NULL), WEIR_ENOMEM);
	EXPECT_EQ(reserved(), 2 * MIB);
	EXPECT_EQ(stats().num_device_alloc, calls);
	EXPECT_EQ(segments(), 1);
	expect_healthy();
	give(take((size_t)64 * MIB, NULL));
	expect_healthy();
}

/* ---- Faults of the driver ---------------------------------------------- */

/* The third of four handles cannot be had, mapped, made accessible. */
TEST(a_failure_half_way_through_mapping_is_undone)
{
	static const struct {
		const char *entry;
		unsigned nth;
		CUresult code;
		enum weir_status status;
	} faults[] = {
		{ "cuMemAddressReserve", 1, CUDA_ERROR_INVALID_VALUE,
		    WEIR_EDRIVER },
		{ "cuMemCreate", 3, CUDA_ERROR_NOT_PERMITTED, WEIR_EDRIVER },
		{ "cuMemMap", 3, CUDA_ERROR_INVALID_VALUE, WEIR_EDRIVER },
		{ "cuMemSetAccess", 1, CUDA_ERROR_INVALID_DEVICE,
		    WEIR_ENODEVICE },
		{ "cuMemCreate", 3, CUDA_ERROR_OUT_OF_MEMORY, WEIR_ENOMEM },
	};

	device_need_sim("calls of the driver are made to fail");
	take(512, NULL);
	size_t used = sim()->memory_used(0);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		EXPECT_EQ(sim()->fail(faults[i].entry, faults[i].nth, 1000,
			      faults[i].code),
		    0);
		EXPECT_NO_MEMORY(
		    weir_malloc((size_t)256 * MIB, NULL), faults[i].status);
		if (faults[i].status != WEIR_ENOMEM)
			EXPECT_STR_HAS(weir_last_error(), faults[i].entry);
		sim()->reset();
		EXPECT_EQ(reserved(), 2 * MIB);
		EXPECT_EQ(segments(), 1);
		EXPECT_EQ(sim()->memory_used(0), used);
		expect_healthy();
	}
	take((size_t)256 * MIB, NULL);
	expect_healthy();
}

/* Hole, free block, hole: the second hole cannot be mapped. */
TEST(a_failure_half_way_through_a_run_is_undone)
{
	char *block[5];

	device_need_sim("calls of the driver are made to fail");
	for (int i = 0; i < 5; i++)
		block[i] = take(10 * MIB, NULL);
	give(block[1]);
	give(block[3]);
	EXPECT_EQ(trim(0), 20 * MIB);
	give(block[2]);
	EXPECT_EQ(
	    sim()->fail("cuMemCreate", 2, 1, CUDA_ERROR_NOT_PERMITTED), 0);
	EXPECT_NO_MEMORY(weir_malloc(30 * MIB, NULL), WEIR_EDRIVER);
	EXPECT_EQ(reserved(), 30 * MIB);
	expect_healthy();
	EXPECT_EQ(take(30 * MIB, NULL), block[1]);
	expect_healthy();
}

/* Set all unused block records aside, so that the next block needs host
 * memory. */
static void
use_up_blocks(void)
{
	static struct block *aside;
	struct arena *arena = arena_peek(0);
	struct block **last = &arena->memory.spare;

	lock_enter(&arena->lock);
	while (*last != NULL)
		last = &(*last)->next;
	*last = aside;
	aside = arena->memory.spare;
	arena->memory.spare = NULL;
	lock_leave(&arena->lock);
}

TEST(want_of_host_memory_at_any_step_of_growing_changes_nothing)
{
	static const char *const confs[] = { "expandable_segments:True",
		"expandable_segments:False" };

	take(512, NULL);
	for (int i = 0; i < 2; i++) {
		conf(confs[i]);
		unsigned failed = 0;
		for (unsigned long nth = 1; nth < 12; nth++) {
			weir_stream stream = new_stream();
			uint64_t before = reserved();
			use_up_blocks();
			meta_fail(nth, 1);
			void *ptr = weir_malloc(6 * MIB, stream);
			meta_fail(0, 0);
			expect_healthy();
			if (ptr != NULL)
				continue;
			failed++;
			EXPECT_EQ(weir_last_status(), WEIR_EHOSTMEM);
			EXPECT_EQ(reserved(), before);
		}
		EXPECT_GE(failed, 3);
	}
}

TEST(a_hole_that_cannot_be_noted_for_want_of_host_memory_stays_mapped)
{
	char *block[3];

	for (int i = 0; i < 3; i++)
		block[i] = take(30 * MIB, NULL);
	give(block[1]);
	/* Two pieces of an earlier block remain around a live one. */
	give(block[0]);
	take(512 * KIB + MIB, NULL);
	for (unsigned long nth = 1; nth <= 2; nth++) {
		use_up_blocks();
		meta_fail(nth, 1000);
		trim(0);
		meta_fail(0, 0);
		expect_healthy();
	}
	use_up_blocks();
	trim(0);
	expect_healthy();
	EXPECT_LE(reserved(), 60 * MIB);
}

TEST(memory_the_driver_will_not_take_back_stays_and_can_be_used)
{
	static const char *const entries[] = { "cuMemRelease", "cuMemUnmap" };
	void *block = take((size_t)64 * MIB, NULL);

	device_need_sim("calls of the driver are made to fail");
	for (int i = 0; i < 2; i++) {
		give(block);
		EXPECT_EQ(
		    sim()->fail(entries[i], 1, 1000, CUDA_ERROR_INVALID_VALUE),
		    0);
		EXPECT_EQ(trim(0), 0);
		sim()->reset();
		EXPECT_EQ(reserved(), 64 * MIB);
		expect_healthy();
		EXPECT_EQ(take((size_t)64 * MIB, NULL), block);
		fill(block, 64 * MIB, 7, NULL);
		expect_filled(block, 64 * MIB, 7, NULL);
	}
	give(block);
	EXPECT_EQ(trim(0), 64 * MIB);
	EXPECT_EQ(sim()->live("handle"), 0);
	expect_healthy();
}

TEST(addresses_the_driver_will_not_take_back_can_be_grown_again)
{
	device_need_sim("calls of the driver are made to fail");
	give(take(4 * MIB, NULL));
	EXPECT_EQ(
	    sim()->fail("cuMemAddressFree", 1, 1000, CUDA_ERROR_INVALID_VALUE),
	    0);
	EXPECT_EQ(trim(0), 4 * MIB);
	sim()->reset();
	EXPECT_EQ(segments(), 1);
	expect_healthy();
	give(take(4 * MIB, NULL));
	EXPECT_EQ(segments(), 1);
	EXPECT_EQ(trim(0), 4 * MIB);
	EXPECT_EQ(segments(), 0);
	expect_healthy();
}

TEST(fewer_addresses_do_when_the_system_refuses_many)
{
	device_need_sim("calls of the driver are made to fail");
	EXPECT_EQ(
	    sim()->fail("cuMemAddressReserve", 1, 3, CUDA_ERROR_OUT_OF_MEMORY),
	    0);
	void *a = take(4 * MIB, NULL);
	EXPECT(info_of(a).expandable);
	EXPECT_EQ(sim()->calls("cuMemAddressReserve"), 4);
	expect_healthy();
}

/* ---- Segments of the driver -------------------------------------------- */

TEST(without_expandable_segments_the_driver_is_asked_for_the_table_s_sizes)
{
	static const struct {
		size_t request;
		size_t segment;
		size_t block;
	} table[] = {
		{ 1, 2097152, 512 },
		{ 1048576, 2097152, 1048576 },
		{ 1048577, 20971520, 1049088 },
		{ 10485248, 20971520, 10485248 },
		{ 10485760, 10485760, 10485760 },
		{ 10485761, 12582912, 10486272 },
		{ 22020096, 23068672, 23068672 },
	};

	conf("expandable_segments:False");
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		void *block = take(table[i].request, NULL);
		struct weir_block_info info = info_of(block);
		EXPECT(!info.expandable);
		EXPECT_EQ(info.segment, block);
		EXPECT_EQ(info.segment_size, table[i].segment);
		EXPECT_EQ(info.size, table[i].block);
		EXPECT_EQ(info.requested_bytes, table[i].request);
		EXPECT_EQ(reserved(), table[i].segment);
		EXPECT_EQ(stats().segment.all.current, 1);
		give(block);
		EXPECT_EQ(trim(0), table[i].segment);
		expect_healthy();
	}
}

/* The driver's own allocations are of whole pages of 2 MiB. */
static void
expect_as_many_as_the_driver(size_t limit, size_t size)
{
	enum { MOST = 1024 };
	static void *blocks[MOST];
	size_t pages = (size + 2 * MIB - 1) / (2 * MIB);
	size_t n = 0;

	EXPECT_OK(weir_limit_set(0, limit));
	while (n < MOST &&
	    (blocks[n] = weir_malloc(size, WEIR_STREAM_ANY)) != NULL)
		n++;
	EXPECT_STATUS(weir_last_status(), WEIR_ENOMEM);
	EXPECT_GE(n, limit / (pages * 2 * MIB));
	EXPECT_LE(reserved(), limit);
	while (n > 0)
		give(blocks[--n]);
	trim(0);
	EXPECT_EQ(reserved(), 0);
}

TEST(as_many_blocks_fit_in_driver_segments_as_the_driver_itself_could_give)
{
	static const size_t sizes[] = { MIB, MIB + 512, 3 * MIB / 2, 2 * MIB,
		5 * MIB / 2, 3 * MIB, 5 * MIB, 6 * MIB, 7 * MIB, 8 * MIB,
		9 * MIB, 10 * MIB - 512, 10 * MIB, 11 * MIB, 13 * MIB, 33 * MIB,
		64 * MIB };
	static const size_t limits[] = { 64, 94, 500 };

	EXPECT_OK(weir_set_device(0));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (size_t k = 0; k < sizeof(limits) / sizeof(limits[0]); k++)
			expect_as_many_as_the_driver(limits[k] * MIB, sizes[i]);
	expect_healthy();
}

TEST(a_driver_segment_goes_back_only_whole)
{
	conf("expandable_segments:False");
	char *a = take(3 * MIB, NULL);
	char *b = take(3 * MIB, NULL);

	give(a);
	EXPECT_EQ(trim(0), 0);
	EXPECT_EQ(reserved(), 18 * MIB);
	give(b);
	EXPECT_EQ(trim(0), 18 * MIB);
	EXPECT_EQ(reserved(), 0);
	EXPECT_EQ(segments(), 0);
	expect_healthy();
}

TEST(memory_of_no_stream_is_the_driver_s_own_allocation)
{
	void *a = take(4 * MIB, WEIR_STREAM_ANY);

	EXPECT(!info_of(a).expandable);
	give(a);
	EXPECT_EQ(trim(0), 20 * MIB);
	/* Even if there is expandable memory without an owner. */
	weir_stream stream = new_stream();
	give(take(4 * MIB, stream));
	EXPECT_OK(weir_stream_destroy(stream));
	EXPECT_OK(weir_device_synchronize(0));
	a = take(4 * MIB, WEIR_STREAM_ANY);
	EXPECT(!info_of(a).expandable);
	expect_healthy();
}

TEST(a_driver_segment_the_driver_will_not_take_back_stays)
{
	conf("expandable_segments:False");
	device_need_sim("calls of the driver are made to fail");
	void *a = take(4 * MIB, NULL);
	give(a);
	EXPECT_EQ(
	    sim()->fail("cuMemFree", 1, 100, CUDA_ERROR_INVALID_VALUE), 0);
	EXPECT_EQ(trim(0), 0);
	sim()->reset();
	EXPECT_EQ(reserved(), 20 * MIB);
	expect_healthy();
	EXPECT_EQ(take(4 * MIB, NULL), a);
}

TEST(a_driver_segment_the_driver_will_not_give_changes_nothing)
{
	conf("expandable_segments:False");
	device_need_sim("calls of the driver are made to fail");
	take(512, NULL);
	EXPECT_EQ(sim()->fail("cuMemAlloc", 1, 1, CUDA_ERROR_LAUNCH_FAILED), 0);
	EXPECT_NO_MEMORY(weir_malloc(4 * MIB, NULL), WEIR_EDRIVER);
	EXPECT_STR_HAS(weir_last_error(), "cuMemAlloc(20971520 bytes");
	EXPECT_STR_HAS(weir_last_error(), "(719)");
	EXPECT_EQ(reserved(), 2 * MIB);
	expect_healthy();
	take(4 * MIB, NULL);
	expect_healthy();
}

/* ---- As many blocks as the driver gives ---------------------------------- */

enum { BLOCKS_MOST = 16 << 10 };

/* Allocate blocks of one size until there is no more memory, and free them.
 * Returns how many there were. */
static size_t
fill_by_driver(size_t size)
{
	static CUdeviceptr blocks[BLOCKS_MOST];
	size_t n = 0;

	while (n < BLOCKS_MOST &&
	    device_driver()->cuMemAlloc(&blocks[n], size) == CUDA_SUCCESS)
		n++;
	for (size_t i = 0; i < n; i++)
		EXPECT_EQ(device_driver()->cuMemFree(blocks[i]), CUDA_SUCCESS);
	return n;
}

static size_t
fill_by_weir(size_t size, weir_stream stream)
{
	static void *blocks[BLOCKS_MOST];
	size_t n = 0;

	while (
	    n < BLOCKS_MOST && (blocks[n] = weir_malloc(size, stream)) != NULL)
		n++;
	for (size_t i = 0; i < n; i++)
		give(blocks[i]);
	trim(0);
	return n;
}

/* Compare for sizes from 1 to 64 MiB, whole ones and others. */
static void
expect_as_many(size_t bytes, size_t least, weir_stream stream)
{
	size_t size = least;

	EXPECT_EQ(
	    sim()->set_memory(0, sim()->memory_used(0) + bytes), CUDA_SUCCESS);
	for (unsigned i = 0; size <= (size_t)64 * MIB; i++) {
		size_t n = fill_by_driver(size);
		EXPECT_GE(fill_by_weir(size, stream), n);
		size += i % 3 == 0 ? MIB / 2 : size / 8 / 512 * 512;
	}
}

static void
expect_as_many_on_devices(weir_stream stream)
{
	device_need_sim("devices of several sizes");
	give(take(512, stream));
	trim(0);
	expect_as_many((size_t)64 * MIB, MIB, stream);
	expect_as_many((size_t)100 * MIB, MIB + 512, stream);
	expect_as_many((size_t)1 << 30, 3 * MIB, stream);
	expect_as_many((size_t)5 << 30, 6 * MIB, stream);
	expect_as_many((size_t)15 << 30, 8 * MIB, stream);
	expect_healthy();
}

TEST(memory_of_every_stream_is_for_as_many_blocks_as_the_driver_has)
{
	expect_as_many_on_devices(WEIR_STREAM_ANY);
}

TEST(memory_that_is_not_mapped_is_for_as_many_blocks_as_the_driver_has)
{
	conf("expandable_segments:False");
	expect_as_many_on_devices(new_stream());
}

/* ---- While the driver is called ---------------------------------------- */

static struct block *
block_at(const void *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr);
}

/* The steps of segment_release(), with the end of the stream in between. */
TEST(memory_that_goes_back_while_its_stream_ends_is_counted_once)
{
	weir_stream a = new_stream();
	struct driver_guard guard;

	conf("tcache:0");
	void *ptr = take(4 * MIB, a);
	give(ptr);
	struct arena *arena = arena_peek(0);
	lock_enter(&arena->lock);
	struct block *block = block_at(ptr);
	block_take(block);
	block_set_state(block, BLOCK_UNMAPPING);
	block->segment->busy++;
	arena->memory.jobs++;
	struct handle *handle =
	    handles_take(block->segment, block->addr, block->size);
	lock_leave(&arena->lock);
	EXPECT_OK(weir_stream_destroy(a));
	EXPECT_OK(weir_device_synchronize(0));
	take(512, NULL); /* this request finds that the stream is done */
	EXPECT_OK(driver_enter(arena->context, &guard));
	EXPECT_EQ(driver_peek()->cuMemRelease(handle->id), CUDA_SUCCESS);
	EXPECT_EQ(
	    driver_peek()->cuMemUnmap(block->addr, block->size), CUDA_SUCCESS);
	driver_leave(&guard);
	/* Memory that is back with the driver and still counts as held is not
	 * counted as free twice. */
	size_t free_bytes;
	size_t total;
	EXPECT_OK(weir_memory_info(0, &free_bytes, &total));
	EXPECT_LE(free_bytes, total);
	meta_free(handle, sizeof(*handle));
	lock_enter(&arena->lock);
	EXPECT(block->pool->owner->completed);
	block->segment->busy--;
	block_commit(block, BLOCK_UNMAPPED);
	arena_job_done(arena);
	lock_leave(&arena->lock);
	EXPECT_EQ(reserved(), 2 * MIB);
	expect_healthy();
}
