/*
 * Keeps the sums over all arenas of a device, and the limit for them.
 */
#ifndef ALLOCATOR_ACCOUNT_TOTALS_H
#define ALLOCATOR_ACCOUNT_TOTALS_H

#include "allocator/account/outside.h"
#include "allocator/state.h"

/* Begin the account of a new arena, with no limit. */
void account_begin(struct arena *arena);
/* Ask the driver for the size of a device, given its own arena, which knows its
 * device. WEIR_EDRIVER.
 */
enum weir_status account_ask_device(struct arena *arena);
/* Begin and end a use of an arena besides the device's own, which counts in
 * `totals`. At the end its counters go there, and all that it has counted is
 * 0 again. */
void account_begin_use(struct arena *arena, struct totals *totals)
    HOLDS(arena->lock);
void account_end_use(struct arena *arena) HOLDS(arena->lock);

/* The context is gone: the arena holds nothing. */
void account_forget(struct arena *arena) HOLDS(arena->lock);

/* Bytes held, and those that jobs are allocating. */
size_t arena_held(const struct arena *arena);

/* Claim `size` bytes of the limit before asking the driver for them. They count
 * as held until arena_promised(), which the caller calls once it has them or
 * the driver has refused. WEIR_ENOMEM if they would exceed the limit; *need is
 * then the number of bytes missing under it. */
enum weir_status arena_promise(struct arena *arena, size_t size, size_t *need)
    HOLDS(arena->lock);
void arena_promised(struct arena *arena, size_t size) HOLDS(arena->lock);

/* Claim `size` bytes for memory outside weir, before the driver is asked for
 * it: outside_add() if the limit allows them, WEIR_ENOMEM else. Given the
 * device's own arena; takes its lock, under which weir's own claims are made,
 * so that both together never pass the limit. */
enum weir_status totals_claim_outside(
    struct arena *main, enum outside_kind kind, size_t size);

/* The failure of such a claim, in words, given the bytes that weir holds. */
enum weir_status totals_refuse_outside(
    int device, size_t size, size_t held, size_t limit);

/* Does the memory count in the limit of a group, as that of a device does? */
static inline bool
arena_is_leased(const struct arena *arena)
{
	return arena->traits.account != ACCOUNT_HOST;
}

/* Lower the device's lease in its group (share/member.h) to what is held. After
 * memory has left. */
void arena_settle_lease(struct arena *arena) HOLDS(arena->lock);
/* While memory moves between blocks, and seems to be gone in between. */
void arena_move_begin(struct arena *arena) HOLDS(arena->lock);
void arena_move_end(struct arena *arena) HOLDS(arena->lock);

/* Begin the totals of the device, or of its page-locked host memory.
 * WEIR_EHOSTMEM. Under the lock of the device's own arena. */
enum weir_status totals_begin(struct arena *main);
enum weir_status totals_begin_host(struct arena *main);

/* How often the totals have changed; 0 if there are none (NULL). */
uint64_t totals_changes(struct totals *totals);

/* Bytes of the device, in this order: held or promised, and those outside weir
 * that its limit covers; held; with callers. */
size_t device_held(const struct arena *arena);
/* Without those outside weir. */
size_t device_held_by_weir(const struct arena *arena);
size_t device_reserved(const struct arena *arena);
size_t device_live(const struct arena *arena);
/* The limit, at most the device's memory; the rest of that; and the limit as it
 * was set. */
size_t device_size(const struct arena *arena);
size_t device_left(const struct arena *arena);
size_t device_limit(const struct arena *arena);

/* Set the limit of a device, or that of its page-locked memory, given its own
 * arena; SIZE_MAX: none. Needs no lock. */
static inline void
device_set_limit(struct arena *main, size_t bytes)
{
	ASSERT(main == main->main);
	atomic_store(&main->account.limit, bytes);
}
static inline void
device_set_host_limit(struct arena *main, size_t bytes)
{
	ASSERT(main == main->main);
	atomic_store_explicit(
	    &main->account.host_limit, bytes, memory_order_relaxed);
}

/* Say that an arena is suspended, so that its memory is not held, or no longer.
 * Under its lock. */
void totals_set_uncounted(struct arena *arena, bool uncounted);
/* Is there any such arena on the device? */
bool device_has_uncounted(const struct arena *arena);

/* Change a statistic of the totals. Takes their lock. */
void totals_change(struct totals *totals, enum pool_kind kind, enum stat3 which,
    int64_t delta);

#endif
