/*
 * weir_check() finds each fault: a test breaks one invariant of
 * docs/invariants.md by hand, expects a report with its number, and mends it
 * again.
 */
#include "allocator/observe/fault.h"

#include <string.h>

#include "allocator/allocator.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/handle.h"
#include "allocator/memory/lookup.h"
#include "allocator/memory/pin.h"
#include "allocator/private/arenas.h"
#include "tests/support/arena.h"
#include "tests/support/device.h"

/* Memory in all states: three live blocks of 4 MiB in an expandable segment, of
 * which the second is freed, and a pending one of 2 MiB after them. */
struct scene {
	struct arena *arena;
	struct block *live;
	struct block *idle;
	struct block *last;
	struct block *pending;
	struct block *unmapped;
	struct pool *pool;
};

static struct block *
block_at(const void *ptr)
{
	return lookup_exact((CUdeviceptr)(uintptr_t)ptr);
}

static struct scene
arrange(void)
{
	weir_stream use = new_stream();
	void *block[4];

	conf("tcache:0"); /* the freed block is in the pool */
	for (int i = 0; i < 4; i++)
		block[i] = take(i < 3 ? 4 * MIB : 2 * MIB, NULL);
	give(block[1]);
	busy(use, LATE_MS);
	record(block[3], use);
	give(block[3]);
	struct scene scene = { .arena = arena_peek(0),
		.live = block_at(block[0]),
		.idle = block_at(block[1]),
		.last = block_at(block[2]),
		.pending = block_at(block[3]) };
	scene.unmapped = scene.pending->next;
	scene.pool = scene.live->pool;
	EXPECT_EQ(scene.idle->state, BLOCK_FREE);
	EXPECT_EQ(scene.pending->state, BLOCK_PENDING);
	EXPECT_EQ(scene.unmapped->state, BLOCK_UNMAPPED);
	expect_healthy();
	return scene;
}

/* Expect a fault that is reported by this name. */
static void
expect_fault(const char *name)
{
	char text[8192];

	EXPECT_GT(weir_check(text, sizeof(text)), 0);
	EXPECT_STR_HAS(text, name);
}

TEST(a_healthy_state_has_no_faults_and_no_text)
{
	char text[64] = "unchanged";

	EXPECT_EQ(weir_check(NULL, 0), 0);
	EXPECT_EQ(weir_check(text, sizeof(text)), 0);
	EXPECT_STR_EQ(text, "");
	arrange();
	EXPECT_EQ(weir_check(text, sizeof(text)), 0);
	EXPECT_STR_EQ(text, "");
}

TEST(i_1_a_gap_between_blocks_is_found)
{
	struct scene s = arrange();

	s.live->size -= 512;
	expect_fault("I-1");
	s.live->size += 512;
	expect_healthy();
}

TEST(i_1_an_odd_size_is_found)
{
	struct scene s = arrange();

	s.live->size += 1;
	expect_fault("I-1");
	s.live->size -= 1;
	expect_healthy();
}

TEST(i_1_a_segment_longer_than_its_blocks_is_found)
{
	struct scene s = arrange();

	s.live->segment->size += 2 * MIB;
	expect_fault("I-1");
	s.live->segment->size -= 2 * MIB;
	expect_healthy();
}

TEST(i_2_a_segment_s_wrong_count_of_mapped_bytes_is_found)
{
	struct scene s = arrange();

	s.live->segment->mapped_bytes += 2 * MIB;
	expect_fault("I-2");
	s.live->segment->mapped_bytes -= 2 * MIB;
	expect_healthy();
}

/* Make each statistic wrong once. */
static void
break_each(struct weir_stats *stats, struct tally *tally)
{
	int64_t *headroom = tally->part[PART_ALL].headroom;

#define BREAK_STAT(name)                                                       \
	stats->name.all.current += 512;                                        \
	expect_fault("I-3: " #name);                                           \
	stats->name.all.current -= 512;
	BREAK_STAT(segment)
	BREAK_STAT(inactive_split)
	BREAK_STAT(reserved_bytes)
	BREAK_STAT(inactive_split_bytes)
#undef BREAK_STAT
#define BREAK_TALLIED(name, sum)                                               \
	headroom[TALLIED_##name] -= 512;                                       \
	expect_fault("I-3: " #name);                                           \
	headroom[TALLIED_##name] += 512;
	TALLIED_STATS(BREAK_TALLIED)
#undef BREAK_TALLIED
	expect_healthy();
}

TEST(i_3_each_statistic_that_does_not_add_up_is_found_by_name)
{
	struct scene s = arrange();
	struct stream_heap *heap = s.pool->owner;

	break_each(&s.arena->account.stats, &s.arena->account.tally);
	break_each(&heap->stats, &heap->tally);
}

TEST(i_3_totals_of_a_device_that_its_arenas_do_not_add_up_to_are_found_by_name)
{
	struct arena *other;
	struct scene s = arrange();

	EXPECT_OK(arena_make(main_arena(), NULL, 0, &other));
	expect_healthy();
	break_each(
	    &s.arena->account.totals->stats, &s.arena->account.totals->tally);
}

TEST(i_3_faults_of_another_arena_are_found)
{
	struct arena *other;
	void *ptr = NULL;

	arrange();
	EXPECT_OK(arena_make(main_arena(), NULL, 0, &other));
	EXPECT_OK(allocator_malloc_in(other, 4 * MIB, new_stream(), &ptr));
	expect_healthy();
	block_at(ptr)->segment->mapped_bytes += 2 * MIB;
	expect_fault("I-2");
	block_at(ptr)->segment->mapped_bytes -= 2 * MIB;
	expect_healthy();
}

TEST(i_3_a_total_that_is_not_small_plus_large_is_found)
{
	struct scene s = arrange();
	int64_t *headroom = s.arena->account.tally.part[PART_SMALL].headroom;

	headroom[TALLIED_active_bytes] -= 512;
	expect_fault("I-3: active_bytes is not small plus large");
	headroom[TALLIED_active_bytes] += 512;
	expect_healthy();
}

TEST(i_3_a_peak_below_the_current_value_is_found)
{
	struct scene s = arrange();
	struct tally_part *all = &s.arena->account.tally.part[PART_ALL];
	int64_t more = all->headroom[TALLIED_active] + 1;

	all->peak[TALLIED_active] -= more;
	all->headroom[TALLIED_active] -= more;
	expect_fault("I-3: active has a peak below");
	all->peak[TALLIED_active] += more;
	all->headroom[TALLIED_active] += more;
	expect_healthy();
}

TEST(i_4_a_link_that_is_not_symmetric_is_found)
{
	struct scene s = arrange();

	s.idle->prev = s.last;
	expect_fault("I-4");
	s.idle->prev = s.live;
	s.live->prev = s.idle;
	expect_fault("I-4");
	s.live->prev = NULL;
	expect_healthy();
}

TEST(i_5_two_free_neighbours_are_found)
{
	struct scene s = arrange();
	struct block *rest;

	lock_enter(&s.arena->lock);
	EXPECT_OK(block_new(s.arena, s.idle->addr + 2 * MIB, &rest));
	block_take(s.idle);
	block_split(s.idle, 2 * MIB, rest);
	s.idle->run = 4 * MIB;
	rest->run = 0;
	tree_insert(&s.pool->free, &s.idle->node);
	lock_leave(&s.arena->lock);
	expect_fault("I-5");
	lock_enter(&s.arena->lock);
	rest->run = RUN_NONE;
	block_put(rest, BLOCK_FREE);
	lock_leave(&s.arena->lock);
	expect_healthy();
}

TEST(i_6_a_free_block_that_is_in_no_pool_is_found)
{
	struct scene s = arrange();

	tree_remove(&s.pool->free, &s.idle->node);
	expect_fault("I-6");
	tree_insert(&s.pool->free, &s.idle->node);
	expect_healthy();
}

TEST(i_6_a_live_block_that_is_in_a_pool_is_found)
{
	struct scene s = arrange();

	tree_insert(&s.pool->free, &s.live->node);
	expect_fault("I-6");
	tree_remove(&s.pool->free, &s.live->node);
	expect_healthy();
}

TEST(i_6_an_unmapped_block_out_of_its_tree_is_found)
{
	struct scene s = arrange();

	struct tree *unmapped = &s.unmapped->pool->unmapped;

	tree_remove(unmapped, &s.unmapped->node);
	expect_fault("I-6");
	tree_insert(unmapped, &s.unmapped->node);
	expect_healthy();
}

TEST(i_6_a_tree_out_of_order_is_found)
{
	struct scene s = arrange();
	void *again = take(4 * MIB, NULL); /* otherwise it would be moved */
	void *larger = take(6 * MIB, NULL);

	take(5 * MIB, NULL);
	give(again);
	give(larger);
	EXPECT_EQ(s.idle->state, BLOCK_FREE);
	expect_healthy();
	s.idle->run = 8 * MIB;
	expect_fault("tree_consistent(&pool->free)");
	s.idle->run = 4 * MIB;
	expect_healthy();
}

TEST(i_6_a_run_of_another_size_is_found)
{
	struct scene s = arrange();

	s.idle->run -= 512;
	expect_fault("b->run == (is_head ? size : 0)");
	s.idle->run += 512;
	expect_healthy();
}

TEST(i_6_a_tree_that_is_miscounted_is_found)
{
	struct scene s = arrange();

	s.pool->free.count++;
	expect_fault("I-6");
	s.pool->free.count--;
	expect_healthy();
}

TEST(i_6_a_wrong_count_of_a_stream_s_blocks_is_found)
{
	struct scene s = arrange();

	s.pool->owner->blocks++;
	expect_fault("I-6");
	s.pool->owner->blocks--;
	expect_healthy();
}

TEST(i_6_a_block_in_the_pool_of_the_other_kind_is_found)
{
	struct scene s = arrange();

	s.live->pool = &s.pool->owner->pool[POOL_SMALL];
	expect_fault("I-6");
	s.live->pool = s.pool;
	expect_healthy();
}

TEST(i_6_memory_left_with_a_stream_that_has_passed_is_found)
{
	struct scene s = arrange();

	s.pool->owner->completed = true;
	expect_fault("I-6");
	s.pool->owner->completed = false;
	expect_healthy();
}

TEST(i_6_free_memory_that_no_search_of_other_streams_finds_is_found)
{
	struct scene s = arrange();

	/* A second stream has memory here, the idle block. */
	give(take(4 * MIB, new_stream()));
	struct list *freed = &s.idle->pool->freed;
	EXPECT_EQ(list_empty(&s.idle->pending.link), false);
	list_remove(&s.idle->pending.link);
	expect_fault("I-6");
	list_push_back(freed, &s.idle->pending.link);
	expect_healthy();
}

TEST(i_6_free_memory_that_the_listing_has_passed_is_found)
{
	struct scene s = arrange();

	give(take(4 * MIB, new_stream()));
	struct pool *pool = s.idle->pool;
	list_remove(&s.idle->pending.link);
	pool->unlisted = true;
	pool->listed_run = s.idle->run;
	pool->listed_addr = s.idle->addr;
	expect_fault("I-6");
	pool->listed_addr++; /* it is yet to come */
	expect_healthy();
	pool->unlisted = false;
	list_push_back(&pool->freed, &s.idle->pending.link);
	expect_healthy();
}

TEST(i_6_freed_memory_of_heaps_that_are_not_listed_is_found)
{
	struct scene s = arrange();

	give(take(4 * MIB, new_stream()));
	struct stream_heap *heap = s.idle->pool->owner;
	EXPECT_EQ(list_empty(&heap->freed_link), false);
	list_remove(&heap->freed_link);
	expect_fault("I-6");
	list_push_back(&heap->arena->memory.having_freed, &heap->freed_link);
	expect_healthy();
}

TEST(i_6_a_stream_that_is_asked_for_its_end_too_early_is_found)
{
	struct scene s = arrange();
	struct stream_heap *heap = s.pool->owner;

	list_push_back(&s.arena->memory.ended, &heap->ended_link);
	expect_fault("I-6");
	list_remove(&heap->ended_link);
	expect_healthy();
}

TEST(i_7_a_pending_block_with_nothing_to_wait_for_is_found)
{
	struct scene s = arrange();

	s.pending->pending.unmet = 0;
	expect_fault("I-7");
	s.pending->pending.unmet = 1;
	expect_healthy();
}

TEST(i_7_uses_that_are_miscounted_are_found)
{
	struct scene s = arrange();

	s.pending->pending.unmet = 2;
	expect_fault("I-7");
	s.pending->pending.unmet = 1;
	s.arena->waiting.count++;
	expect_fault("I-7");
	s.arena->waiting.count--;
	expect_healthy();
}

TEST(i_7_a_free_block_with_uses_is_found)
{
	struct scene s = arrange();

	s.idle->pending.uses = s.pending->pending.uses;
	expect_fault("I-7");
	s.idle->pending.uses = NULL;
	expect_healthy();
}

TEST(i_7_addresses_that_memory_has_left_and_nobody_unmaps_are_found)
{
	weir_stream a = new_stream();
	char *idle[2];

	conf("tcache:0");
	take_apart(idle, 2, 4 * MIB, a);
	struct block *left = block_at(idle[0]);
	give(idle[0]);
	give(idle[1]);
	busy(a, LATE_MS);
	take(8 * MIB, a);
	EXPECT_EQ(block_state(left), BLOCK_VACATED);
	expect_healthy();
	struct list *before = left->pending.link.prev;
	list_remove(&left->pending.link);
	expect_fault("I-7");
	list_push_front(before, &left->pending.link);
	expect_healthy();
}

TEST(i_15_memory_freed_later_than_its_stream_knows_is_found)
{
	struct scene s = arrange();

	s.idle->freed_at += 1000000;
	expect_fault("I-15");
	s.idle->freed_at -= 1000000;
	expect_healthy();
}

TEST(i_8_an_address_that_names_another_block_or_none_is_found)
{
	struct scene s = arrange();

	lookup_set(s.live->addr, s.idle);
	expect_fault("I-8");
	lookup_set(s.live->addr, NULL);
	expect_fault("I-8");
	lookup_set(s.live->addr, s.live);
	expect_healthy();
}

TEST(i_8_an_unmapped_block_that_can_be_found_is_found)
{
	struct scene s = arrange();

	EXPECT_OK(lookup_prepare(s.unmapped->addr));
	lookup_set(s.unmapped->addr, s.unmapped);
	expect_fault("I-8");
	lookup_set(s.unmapped->addr, NULL);
	expect_healthy();
}

TEST(i_10_mapped_memory_without_a_handle_is_found)
{
	struct scene s = arrange();
	struct segment *segment = s.live->segment;
	struct handle *handle = handle_floor(segment, s.idle->addr);

	tree_remove(&segment->handles, &handle->node);
	expect_fault("I-10");
	tree_insert(&segment->handles, &handle->node);
	expect_healthy();
}

TEST(i_10_a_handle_where_nothing_is_mapped_is_found)
{
	struct scene s = arrange();
	struct segment *segment = s.live->segment;
	struct handle stray = { .addr = s.unmapped->addr + 64 * MIB,
		.size = 2 * MIB };

	tree_insert(&segment->handles, &stray.node);
	expect_fault("I-10");
	tree_remove(&segment->handles, &stray.node);
	expect_healthy();
}

TEST(i_10_an_unmapped_block_of_a_driver_segment_is_found)
{
	struct scene s = arrange();

	s.live->segment->expandable = false;
	expect_fault("I-10");
	s.live->segment->expandable = true;
	expect_healthy();
}

TEST(i_11_a_block_smaller_than_the_request_is_found)
{
	struct scene s = arrange();
	size_t requested = s.live->requested;

	s.live->requested = s.live->size + 1;
	expect_fault("I-11");
	s.live->requested = 0;
	expect_fault("I-11");
	s.live->requested = requested;
	expect_healthy();
}

TEST(i_16_pins_that_are_counted_wrong_are_found)
{
	struct scene s = arrange();
	struct segment *segment = s.live->segment;

	EXPECT_OK(weir_pin((void *)(uintptr_t)s.live->addr));
	expect_healthy();
	struct handle *handle = handle_floor(segment, s.live->addr);
	handle->pins = 0;
	expect_fault("I-16");
	handle->pins = 1;
	segment->pins = 0;
	expect_fault("I-16");
	segment->pins = 1;
	expect_healthy();
}

TEST(i_16_a_pin_where_no_memory_is_mapped_is_found)
{
	struct scene s = arrange();

	EXPECT_OK(weir_pin((void *)(uintptr_t)s.live->addr));
	struct pin *pin =
	    CONTAINER_OF(tree_first(&s.arena->memory.pins), struct pin, node);
	pin->size = s.unmapped->addr + 4 * MIB - pin->addr;
	expect_fault("I-16");
	pin->size = s.live->size;
	pin->times = 0;
	expect_fault("I-16");
	pin->times = 1;
	expect_healthy();
}

TEST(i_17_an_idle_block_that_is_not_in_the_index_is_found)
{
	struct scene s = arrange();
	struct idle *idle = s.idle->idle;

	EXPECT(idle != NULL);
	s.idle->idle = NULL;
	expect_fault("I-17");
	s.idle->idle = idle;
	expect_healthy();
}

TEST(i_17_an_index_that_is_out_of_date_is_found)
{
	struct scene s = arrange();
	struct idle *idle = s.idle->idle;
	struct idle_index *index = &s.pool->owner->idle;

	idle->since++;
	expect_fault("I-17");
	idle->since--;
	index->since_sum++;
	expect_fault("I-17");
	index->since_sum--;
	idle->block = s.live;
	expect_fault("I-17");
	idle->block = s.idle;
	expect_healthy();
}

TEST(i_17_a_live_block_in_the_index_is_found)
{
	struct scene s = arrange();

	s.live->idle = s.idle->idle;
	expect_fault("I-17");
	s.live->idle = NULL;
	expect_healthy();
}

/* ---- Reports ----------------------------------------------------------- */

TEST(all_faults_are_counted_whatever_room_there_is_for_their_text)
{
	struct scene s = arrange();
	char text[8192];
	char little[16];
	char one[1] = { 'x' };

	s.pool->owner->blocks++;
	s.live->requested = 0;
	s.arena->waiting.count++;
	size_t faults = weir_check(text, sizeof(text));
	EXPECT_GE(faults, 3);
	size_t lines = 0;
	for (const char *c = text; *c != '\0'; c++)
		lines += *c == '\n';
	EXPECT_EQ(lines, faults);
	EXPECT_EQ(weir_check(NULL, 0), faults);
	EXPECT_EQ(weir_check(NULL, 100), faults);
	EXPECT_EQ(weir_check(little, sizeof(little)), faults);
	EXPECT_LT(strlen(little), sizeof(little));
	EXPECT_EQ(strncmp(little, text, 14), 0);
	EXPECT_EQ(weir_check(one, sizeof(one)), faults);
	EXPECT_EQ(one[0], '\0');
}

TEST(a_check_changes_nothing)
{
	struct scene s = arrange();
	struct weir_stats before = stats();

	s.live->size -= 512;
	weir_check(NULL, 0);
	s.live->size += 512;
	struct weir_stats after = stats();
	EXPECT_MEM_EQ(&before, &after, sizeof(before));
	expect_healthy();
}
