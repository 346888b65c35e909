/*
 * The time that the driver's calls for page-locked memory take.
 */
#include "allocator/memory/pin_time.h"
#include "allocator/account/counters.h"

#include "allocator/memory/arena.h"
#include "allocator/memory/tuning.h"
#include "driver/driver.h"

uint64_t
pin_time_now(const struct arena *arena)
{
	return arena->traits.is_page_locked ? driver_time_ns() : 0;
}

void
pin_time_moved(struct arena *arena, uint64_t ns)
{
	const struct options *options = options_peek();

	lock_assert_held(&arena->lock);
	if (!arena->traits.is_page_locked || options == NULL)
		return;
	counter_add(arena, COUNTER_pin_delay_ns, ns);
	policy_charge(
	    &arena->policy, driver_time_ns(), ns, options->delay_percent);
}

void
pin_time_took(struct arena *arena, uint64_t began_ns, size_t bytes, size_t held)
{
	ASSERT(held >= bytes);
	lock_assert_held(&arena->lock);
	if (!arena->traits.is_page_locked || bytes == 0)
		return;
	uint64_t ns = driver_time_ns() - began_ns;
	size_t first = held > arena->memory.most_pinned ?
	    held - arena->memory.most_pinned :
	    0;

	counter_add(arena, COUNTER_pin_ns, ns);
	arena->memory.pinned_bytes += bytes;
	arena->memory.pinned_ns += ns;
	if (first >= bytes)
		first = bytes;
	if (arena->memory.most_pinned < held)
		arena->memory.most_pinned = held;
	pin_time_moved(arena,
	    (uint64_t)((double)ns * (double)(bytes - first) / (double)bytes));
}

void
pin_time_gave(struct arena *arena, uint64_t began_ns)
{
	lock_assert_held(&arena->lock);
	if (!arena->traits.is_page_locked)
		return;
	uint64_t ns = driver_time_ns() - began_ns;

	counter_add(arena, COUNTER_unpin_ns, ns);
	pin_time_moved(arena, ns);
}

uint64_t
pin_time_for_moves(size_t bytes)
{
	return (uint64_t)(bytes >> 20) * MOVE_US_PER_MIB * 1000;
}

uint64_t
pin_time_for(const struct arena *arena, size_t bytes)
{
	if (arena->memory.pinned_bytes == 0)
		return 0;
	return (uint64_t)((double)arena->memory.pinned_ns * (double)bytes /
	    (double)arena->memory.pinned_bytes);
}
