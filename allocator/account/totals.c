/*
 * Keeps the sums over all arenas of a device, and the limit for them.
 *
 * A device with one arena has no totals: that arena's statistics are the
 * device's. The first other arena begins the totals as a copy. From then on
 * each change of an arena is made there too, so that peaks are exact.
 */
#include "allocator/account/totals.h"

#include "allocator/account/counters.h"
#include "allocator/share/member.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "driver/driver.h"

static struct totals *
totals_new(const struct arena *main)
{
	struct totals *totals = meta_zalloc(sizeof(*totals));

	ASSERT(main == main->main);
	if (totals == NULL)
		status_set(WEIR_EHOSTMEM,
		    "no host memory for the statistics of device %d",
		    main->device);
	else
		lock_init(&totals->lock, LOCK_RANK_TOTALS);
	return totals;
}

enum weir_status
totals_begin_host(struct arena *main)
{
	ASSERT(main == main->main);
	if (main->account.host_totals == NULL)
		main->account.host_totals = totals_new(main);
	return main->account.host_totals != NULL ? WEIR_OK : WEIR_EHOSTMEM;
}

enum weir_status
totals_begin(struct arena *main)
{
	ASSERT(main == main->main);
	if (main->account.totals != NULL)
		return WEIR_OK;
	struct totals *totals = totals_new(main);
	if (totals == NULL)
		return WEIR_EHOSTMEM;
	totals->stats = main->account.stats;
	totals->tally = main->account.tally;
	stats_zero_counters(&totals->stats);
	totals->promised = main->account.promised;
	main->account.totals = totals;
	return WEIR_OK;
}

void
totals_change(
    struct totals *totals, enum pool_kind kind, enum stat3 which, int64_t delta)
{
	lock_enter(&totals->lock);
	totals->changes++;
	stats_change3(stats_at(&totals->stats, which), kind, delta);
	lock_leave(&totals->lock);
}

uint64_t
totals_changes(struct totals *totals)
{
	if (totals == NULL)
		return 0;
	lock_enter(&totals->lock);
	uint64_t changes = totals->changes;
	lock_leave(&totals->lock);
	return changes;
}

void
totals_set_uncounted(struct arena *arena, bool uncounted)
{
	struct totals *totals = arena->account.totals;

	if (arena->account.uncounted == uncounted)
		return;
	arena->account.uncounted = uncounted;
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	totals->uncounted += uncounted ? 1 : -1;
	lock_leave(&totals->lock);
}

bool
device_has_uncounted(const struct arena *arena)
{
	struct totals *totals = arena->account.totals;

	if (totals == NULL)
		return false;
	lock_enter(&totals->lock);
	bool any = totals->uncounted > 0;
	lock_leave(&totals->lock);
	return any;
}

/* ---- An arena ---------------------------------------------------------- */

void
account_begin(struct arena *arena)
{
	atomic_init(&arena->account.limit, SIZE_MAX);
	atomic_init(&arena->account.host_limit, SIZE_MAX);
}

enum weir_status
account_ask_device(struct arena *arena)
{
	CUresult code = driver_peek()->cuDeviceTotalMem(
	    &arena->account.total_bytes, arena->device);

	ASSERT(arena->device >= 0);
	return driver_status(
	    code, "cuDeviceTotalMem(device %d)", arena->device);
}

void
account_begin_use(struct arena *arena, struct totals *totals)
{
	ASSERT(arena != arena->main);
	lock_assert_held(&arena->lock);
	arena->account.totals = totals;
	arena->account.total_bytes = arena->traits.is_page_locked ?
	    os_memory_bytes() :
	    arena->main->account.total_bytes;
}

void
account_end_use(struct arena *arena)
{
	struct arena_account *account = &arena->account;
	struct stream_heap *heap = arena->memory.any_heap;

	ASSERT(account->promised == 0);
	lock_assert_held(&arena->lock);
	if (account->totals != NULL) {
		lock_enter(&account->totals->lock);
		stats_add_counters(&account->totals->stats, &account->stats);
		lock_leave(&account->totals->lock);
	}
	account->stats = (struct weir_stats){ 0 };
	account->tally = (struct tally){ 0 };
	heap->stats = (struct weir_stats){ 0 };
	heap->tally = (struct tally){ 0 };
}

void
account_forget(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	arena->account.stats = (struct weir_stats){ 0 };
	arena->account.tally = (struct tally){ 0 };
	totals_set_uncounted(arena, false);
	if (arena != arena->main)
		arena->account.totals = NULL;
}

size_t
arena_held(const struct arena *arena)
{
	return arena->account.stats.reserved_bytes.all.current +
	    arena->account.promised;
}

/* ---- Bytes of the device ----------------------------------------------- */

/* Hold the lock of the totals, of an arena that has any. */
static inline void
enter_totals(struct totals *totals)
{
	if (totals == NULL)
		return;
	lock_enter(&totals->lock);
	lock_hand_over(&totals->lock);
}

static inline void
leave_totals(struct totals *totals)
{
	if (totals == NULL)
		return;
	lock_take_over(&totals->lock);
	lock_leave(&totals->lock);
}

static size_t
held_bytes(const struct arena *arena)
{
	const struct totals *totals = arena->account.totals;

	return totals != NULL ?
	    totals->stats.reserved_bytes.all.current + totals->promised :
	    arena_held(arena);
}

/* Bytes outside weir that the limit of this memory covers. */
static size_t
outside_of_arena(const struct arena *arena)
{
	return arena->traits.account == ACCOUNT_HOST ?
	    0 :
	    outside_in_limit(arena->device);
}

/* Bytes that count in the limit of this memory, and in a group. */
static size_t
covered_bytes(const struct arena *arena)
{
	return held_bytes(arena) + outside_of_arena(arena);
}

size_t
device_held_by_weir(const struct arena *arena)
{
	struct totals *totals = arena->account.totals;

	enter_totals(totals);
	size_t bytes = held_bytes(arena);
	leave_totals(totals);
	return bytes;
}

size_t
device_held(const struct arena *arena)
{
	return device_held_by_weir(arena) + outside_of_arena(arena);
}

size_t
device_reserved(const struct arena *arena)
{
	struct totals *totals = arena->account.totals;

	if (totals == NULL)
		return arena->account.stats.reserved_bytes.all.current;
	lock_enter(&totals->lock);
	size_t bytes = totals->stats.reserved_bytes.all.current;
	lock_leave(&totals->lock);
	return bytes;
}

size_t
device_live(const struct arena *arena)
{
	const enum tallied which = TALLIED_allocated_bytes;
	struct totals *totals = arena->account.totals;

	if (totals == NULL)
		return tally_now(&arena->account.tally, PART_ALL, which);
	lock_enter(&totals->lock);
	size_t bytes = tally_now(&totals->tally, PART_ALL, which);
	lock_leave(&totals->lock);
	return bytes;
}

size_t
device_limit(const struct arena *arena)
{
	if (arena->traits.account == ACCOUNT_HOST)
		return atomic_load_explicit(
		    &arena->main->account.host_limit, memory_order_relaxed);
	return atomic_load_explicit(
	    &arena->main->account.limit, memory_order_relaxed);
}

size_t
device_size(const struct arena *arena)
{
	size_t limit = device_limit(arena);

	return limit < arena->account.total_bytes ? limit :
						    arena->account.total_bytes;
}

size_t
device_left(const struct arena *arena)
{
	size_t size = device_size(arena);
	size_t bytes = device_held(arena);

	return bytes < size ? size - bytes : 0;
}

/* ---- The group ---------------------------------------------------------- */

static void
settle_lease(const struct arena *arena)
{
	if (arena_is_leased(arena))
		member_settle(arena->device, covered_bytes(arena));
}

void
arena_settle_lease(struct arena *arena)
{
	struct totals *totals = arena->account.totals;

	lock_assert_held(&arena->lock);
	enter_totals(totals);
	settle_lease(arena);
	leave_totals(totals);
}

void
arena_move_begin(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	member_hold(arena->device);
}

void
arena_move_end(struct arena *arena)
{
	lock_assert_held(&arena->lock);
	member_let(arena->device);
}

/* ---- Promises ----------------------------------------------------------- */

static enum weir_status
fail_limit(const struct arena *arena, size_t size, size_t bytes, size_t limit)
{
	return status_set(WEIR_ENOMEM,
	    "%zu bytes beyond the %zu held pass the limit of "
	    "%zu %s device %d",
	    size, bytes, limit,
	    arena->traits.account == ACCOUNT_HOST ? "for" : "on",
	    arena->device);
}

static enum weir_status
fail_group(int device, size_t size, size_t bytes)
{
	return status_set(WEIR_ENOMEM,
	    "%zu bytes beyond the %zu held are not free in the group on "
	    "device %d",
	    size, bytes, device);
}

enum weir_status
arena_promise(struct arena *arena, size_t size, size_t *need)
{
	struct totals *totals = arena->account.totals;
	size_t limit = device_limit(arena);
	size_t missing = 0;

	lock_assert_held(&arena->lock);
	enter_totals(totals);
	size_t bytes = covered_bytes(arena);
	bool fits = bytes <= limit && size <= limit - bytes;
	if (fits && arena_is_leased(arena))
		missing = member_lease(arena->device, bytes + size);
	if (fits && missing == 0)
		arena->account.promised += size;
	if (fits && missing == 0 && totals != NULL)
		totals->promised += size;
	leave_totals(totals);
	if (fits && missing == 0)
		return WEIR_OK;
	*need = fits ? missing : bytes + size - limit;
	return fits ? fail_group(arena->device, size, bytes) :
		      fail_limit(arena, size, bytes, limit);
}

void
arena_promised(struct arena *arena, size_t size)
{
	struct totals *totals = arena->account.totals;

	lock_assert_held(&arena->lock);
	ASSERT(arena->account.promised >= size);
	enter_totals(totals);
	arena->account.promised -= size;
	if (totals != NULL)
		totals->promised -= size;
	settle_lease(arena);
	leave_totals(totals);
}

enum weir_status
totals_refuse_outside(int device, size_t size, size_t held, size_t limit)
{
	char text[OUTSIDE_TEXT];

	outside_describe(device, text);
	return status_set(WEIR_ENOMEM,
	    "%zu bytes more pass the limit of %zu on device %d "
	    "(limit_counts:all): weir holds %zu bytes, and the program has %s "
	    "from the driver",
	    size, limit, device, held, text);
}

enum weir_status
totals_claim_outside(struct arena *main, enum outside_kind kind, size_t size)
{
	ASSERT(main == main->main && outside_is_limited(kind));
	lock_enter(&main->lock);
	struct totals *totals = main->account.totals;
	size_t limit = outside_counts() ? device_limit(main) : SIZE_MAX;
	enter_totals(totals);
	size_t held = held_bytes(main);
	bool fits = outside_claim(
	    main->device, kind, size, limit > held ? limit - held : 0);
	size_t bytes = covered_bytes(main);
	bool leased = fits && member_lease(main->device, bytes) == 0;
	if (fits && !leased)
		outside_drop(main->device, kind, size);
	leave_totals(totals);
	lock_leave(&main->lock);
	if (leased)
		return WEIR_OK;
	return fits ? fail_group(main->device, size, bytes - size) :
		      totals_refuse_outside(main->device, size, held, limit);
}
