/*
 * <weir/sleep.h>: puts devices to sleep and wakes them.
 *
 * To sleep, a device is claimed, so that no request and no launch begins; then
 * its work ends, thread caches are retired, and free memory is given back. What
 * is live is copied, of all arenas, to host memory or files, before any memory
 * goes, so a failure changes nothing. Giving memory back cannot fail as a
 * whole: what the driver refuses stays. To wake, all memory is mapped and
 * filled before any arena counts as awake. The copies stay until then, so a
 * failure only unmaps again.
 */
#include <weir/sleep.h>

#include <stdlib.h>
#include <time.h>

#include "allocator/account/totals.h"
#include "allocator/allocator.h"
#include "allocator/cache/tcache.h"
#include "allocator/lend/ask.h"
#include "allocator/memory/arena.h"
#include "allocator/options.h"
#include "allocator/private/arenas.h"
#include "allocator/private/route.h"
#include "allocator/private/sleeping.h"
#include "allocator/private/suspension.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "graphs/pool.h"
#include "graphs/sleep.h"
#include "graphs/sleep_hooks.h"
#include "graphs/suspend.h"
#include "graphs/tuning.h"

static void
nap_ms(long ms)
{
	const struct timespec time = { .tv_nsec = ms * 1000000L };

	nanosleep(&time, NULL);
}

/* ---- Devices ----------------------------------------------------------- */

/* The devices of a call, and the phases in which it found them. */
struct devices {
	int n;
	int device[DEVICES_MAX];
	enum sleeping_phase was[DEVICES_MAX];
};

static enum weir_status
find_devices(const char *call, int device, struct devices *out)
{
	out->n = 0;
	if (os_forked())
		return status_forked(call);
	if (device != WEIR_DEVICE_ALL) {
		enum weir_status status = device_resolve(device, &device);
		if (status != WEIR_OK)
			return status;
		if (device >= DEVICES_MAX)
			return status_set(WEIR_ENOTSUP,
			    "%s: weir serves the first %d devices", call,
			    DEVICES_MAX);
		out->device[out->n++] = device;
		return WEIR_OK;
	}
	for (int i = 0; i < DEVICES_MAX; i++)
		if (arena_peek(i) != NULL || sleeping_is(i))
			out->device[out->n++] = i;
	return WEIR_OK;
}

/* End the claims of the first n devices, each in the phase that it had. */
static void
settle_as_before(const struct devices *devices, int n)
{
	for (int i = 0; i < n; i++)
		sleeping_settle(devices->device[i], devices->was[i]);
}

static void
settle_all(const struct devices *devices, enum sleeping_phase phase)
{
	for (int i = 0; i < devices->n; i++)
		sleeping_settle(devices->device[i], phase);
}

static enum weir_status
claim_devices(const char *call, struct devices *devices)
{
	/* It keeps threads from making caches while their device sleeps. */
	tcache_avoid(route_may_match);
	for (int i = 0; i < devices->n; i++) {
		if (sleeping_claim(devices->device[i], &devices->was[i]))
			continue;
		settle_as_before(devices, i);
		return status_set(WEIR_ENOTREADY,
		    "%s: another thread is putting device %d to sleep or "
		    "waking it",
		    call, devices->device[i]);
	}
	return WEIR_OK;
}

/* The arenas of the devices, one after the other; NULL: the end. */
static struct arena *
next_arena(const struct devices *devices, int *i, struct arena *arena)
{
	if (arena != NULL)
		arena = arena_next(arena);
	while (arena == NULL && *i < devices->n)
		arena = arena_peek(devices->device[(*i)++]);
	return arena;
}

static size_t
count_arenas(const struct devices *devices)
{
	struct arena *a = NULL;
	size_t n = 0;
	int i = 0;

	while ((a = next_arena(devices, &i, a)) != NULL)
		n++;
	return n;
}

/* The devices on which weir has begun, for memory that it does not serve. */
static struct sleeping_plan
plan_guests(const struct devices *devices)
{
	struct sleeping_plan plan = { 0 };

	for (int i = 0; i < devices->n; i++)
		plan.devices[devices->device[i]] =
		    arena_peek(devices->device[i]) != NULL;
	return plan;
}

/* ---- Discarded memory -------------------------------------------------- */

struct discards {
	struct copy_range *ranges; /* in order, apart from each other */
	size_t range_capacity;
	size_t range_count;
	struct arena **arenas; /* of the pools */
	size_t arena_capacity;
	size_t arena_count;
};

static int
compare_ranges(const void *a, const void *b)
{
	const struct copy_range *x = a;
	const struct copy_range *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* Join ranges that overlap or touch; they are in order. */
static void
join_ranges(struct discards *d)
{
	size_t n = 0;

	for (size_t i = 0; i < d->range_count; i++) {
		struct copy_range *last = n > 0 ? &d->ranges[n - 1] : NULL;
		struct copy_range r = d->ranges[i];
		if (last == NULL || r.addr > last->addr + last->size)
			d->ranges[n++] = r;
		else if (r.addr + r.size > last->addr + last->size)
			last->size = r.addr + r.size - last->addr;
	}
	d->range_count = n;
}

static enum weir_status
read_ranges(const struct weir_sleep_options *options, struct discards *d)
{
	size_t n = options->discard_range_count;

	if (n == 0)
		return WEIR_OK;
	if (options->discard_ranges == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_sleep: discard_ranges is NULL");
	d->ranges = n < SIZE_MAX / sizeof(*d->ranges) ?
	    meta_alloc(n * sizeof(*d->ranges)) :
	    NULL;
	if (d->ranges == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "weir_sleep: no host memory for %zu ranges", n);
	d->range_capacity = n;
	for (size_t i = 0; i < n; i++) {
		const struct weir_sleep_range *r = &options->discard_ranges[i];
		CUdeviceptr addr = (CUdeviceptr)(uintptr_t)r->addr;
		if (r->size == 0 || r->size > UINT64_MAX - addr ||
		    !allocator_owns(addr))
			return status_set(WEIR_EINVAL,
			    "weir_sleep: the range of %zu bytes at %p is not "
			    "in memory of weir's",
			    r->size, r->addr);
		d->ranges[i] =
		    (struct copy_range){ .addr = addr, .size = r->size };
	}
	d->range_count = n;
	qsort(d->ranges, n, sizeof(*d->ranges), compare_ranges);
	join_ranges(d);
	return WEIR_OK;
}

/* How many pools the options name by number and by name at most. */
static enum weir_status
count_pools(const struct weir_sleep_options *options, size_t *n)
{
	if (options->discard_pool_count > 0 && options->discard_pools == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_sleep: discard_pools is NULL");
	if (options->discard_name_count > 0 && options->discard_names == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_sleep: discard_names is NULL");
	/* A half of all, so that the sum is right. */
	*n = options->discard_pool_count < SIZE_MAX / 2 ?
	    options->discard_pool_count :
	    SIZE_MAX / 2;
	for (size_t i = 0; i < options->discard_name_count; i++) {
		const char *name = options->discard_names[i];
		size_t more =
		    name != NULL ? pool_arenas_named(name, NULL, 0) : 0;
		if (more == 0)
			return status_set(WEIR_EINVAL,
			    "weir_sleep: there is no pool '%.80s' to discard",
			    name != NULL ? name : "(NULL)");
		*n += more;
	}
	return WEIR_OK;
}

static enum weir_status
read_numbered(const struct weir_sleep_options *options, struct discards *d)
{
	for (size_t i = 0; i < options->discard_pool_count; i++) {
		struct weir_pool *pool;
		if (weir_pool_find(options->discard_pools[i], &pool) != WEIR_OK)
			return status_set(WEIR_EINVAL,
			    "weir_sleep: there is no pool %llu to discard",
			    (unsigned long long)options->discard_pools[i]);
		d->arenas[d->arena_count++] = pool->arena;
		weir_pool_release(pool);
	}
	return WEIR_OK;
}

static void
read_named(const struct weir_sleep_options *options, struct discards *d)
{
	for (size_t i = 0; i < options->discard_name_count; i++) {
		size_t left = d->arena_capacity - d->arena_count;
		size_t n = pool_arenas_named(options->discard_names[i],
		    d->arenas + d->arena_count, left);
		d->arena_count += n < left ? n : left;
	}
}

static enum weir_status
read_pools(const struct weir_sleep_options *options, struct discards *d)
{
	size_t n = 0;
	enum weir_status status = count_pools(options, &n);

	if (status != WEIR_OK || n == 0)
		return status;
	if (n < SIZE_MAX / sizeof(*d->arenas))
		d->arenas = meta_alloc(n * sizeof(*d->arenas));
	if (d->arenas == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "weir_sleep: no host memory for %zu pools", n);
	d->arena_capacity = n;
	status = read_numbered(options, d);
	if (status == WEIR_OK)
		read_named(options, d);
	return status;
}

static void
drop_discards(struct discards *d)
{
	if (d->ranges != NULL)
		meta_free(d->ranges, d->range_capacity * sizeof(*d->ranges));
	if (d->arenas != NULL)
		meta_free(d->arenas, d->arena_capacity * sizeof(*d->arenas));
}

static bool
discards_arena(const struct discards *d, const struct arena *arena)
{
	for (size_t i = 0; i < d->arena_count; i++)
		if (d->arenas[i] == arena)
			return true;
	return false;
}

/* ---- Sleeping ---------------------------------------------------------- */

struct sleeper {
	struct devices devices;
	const struct weir_sleep_options *options;
	const char *folder; /* of files for contents; NULL: host memory */
	struct discards discards;
	struct suspending *all; /* the arenas that go to sleep */
	size_t n;
	size_t capacity;
	struct weir_sleep_result result;
	bool dozes; /* for another process's sake */
};

/* Empty the thread caches of a device; no thread makes another one. */
static enum weir_status
close_caches(struct arena *main)
{
	lock_enter(&main->lock);
	tcache_retire(main, NULL, false);
	enum weir_status status = totals_begin(main);
	lock_leave(&main->lock);
	return status;
}

/* Wait until the work of all devices has ended. No work begins meanwhile. */
static enum weir_status
end_work(struct sleeper *sleeper)
{
	uint64_t began_ns = os_monotonic_ns();
	uint64_t most_ns =
	    sleeper->dozes ? DOZE_SETTLE_MS * UINT64_C(1000000) : UINT64_MAX;
	enum weir_status status = WEIR_OK;

	sleeping_end_launches();
	for (int i = 0; i < sleeper->devices.n && status == WEIR_OK; i++) {
		struct arena *main = arena_peek(sleeper->devices.device[i]);
		if (main == NULL)
			continue;
		status = close_caches(main);
		if (status == WEIR_OK)
			status = stream_await_end(main->any, most_ns);
	}
	sleeper->result.wait_ns = os_monotonic_ns() - began_ns;
	return status;
}

/* Begin with an arena. A thread that got past the claim may still map memory
 * for a request, for which this waits. */
static enum weir_status
begin_arena(struct suspending *s)
{
	uint64_t until_ns =
	    os_monotonic_ns() + SLEEP_SETTLE_MS * UINT64_C(1000000);
	enum weir_status status = suspending_begin(s);

	while (status == WEIR_ENOTREADY && os_monotonic_ns() < until_ns) {
		nap_ms(1);
		status = suspending_begin(s);
	}
	return status;
}

static bool
takes_part(struct arena *arena)
{
	if (!arena_is_counted(arena))
		return false;
	lock_enter(&arena->lock);
	bool part = arena->private.in_use && !arena_is_suspended(arena) &&
	    !arena->memory.forgotten;
	lock_leave(&arena->lock);
	return part;
}

static enum weir_status
begin_arenas(struct sleeper *sleeper)
{
	const struct weir_sleep_options *options = sleeper->options;
	enum weir_status status = WEIR_OK;
	struct arena *a = NULL;
	int i = 0;

	while (status == WEIR_OK && sleeper->n < sleeper->capacity &&
	    (a = next_arena(&sleeper->devices, &i, a)) != NULL) {
		struct suspending *s = &sleeper->all[sleeper->n];
		if (!takes_part(a))
			continue;
		*s = (struct suspending){ .arena = a,
			.plan = { .flags = options->flags,
			    .discards = sleeper->discards.ranges,
			    .discard_count = sleeper->discards.range_count,
			    .discard = (options->flags &
					   WEIR_SLEEP_DISCARD_ALL) != 0 ||
				discards_arena(&sleeper->discards, a),
			    .folder = sleeper->folder } };
		status = begin_arena(s);
		sleeper->n += status == WEIR_OK;
	}
	return status;
}

static enum weir_status
copy_arenas(struct sleeper *sleeper)
{
	uint64_t began_ns = os_monotonic_ns();
	enum weir_status status = WEIR_OK;

	for (size_t i = 0; i < sleeper->n && status == WEIR_OK; i++)
		status = suspending_copy(&sleeper->all[i]);
	sleeper->result.copy_ns = os_monotonic_ns() - began_ns;
	return status;
}

static enum weir_status
copy_guests(struct sleeper *sleeper)
{
	uint64_t began_ns = os_monotonic_ns();
	struct sleeping_plan plan = plan_guests(&sleeper->devices);

	plan.flags = sleeper->options->flags;
	plan.folder = sleeper->folder;
	enum weir_status status = sleeping_get_guests()->copy(&plan);
	sleeper->result.copy_ns += os_monotonic_ns() - began_ns;
	return status;
}

/* Lower the leases of the devices to what is held, also by the program itself.
 */
static void
settle_leases(const struct devices *devices)
{
	for (int i = 0; i < devices->n; i++) {
		struct arena *main = arena_peek(devices->device[i]);

		if (main == NULL)
			continue;
		lock_enter(&main->lock);
		arena_settle_lease(main);
		lock_leave(&main->lock);
	}
}

static void
finish_arenas(struct sleeper *sleeper)
{
	struct weir_sleep_result *result = &sleeper->result;
	uint64_t began_ns = os_monotonic_ns();

	for (size_t i = 0; i < sleeper->n; i++) {
		struct suspending *s = &sleeper->all[i];
		suspending_finish(s);
		result->freed_bytes += s->freed_bytes;
		result->copied_bytes += s->copied_bytes;
		result->discarded_bytes += s->discarded_bytes;
		for (int why = 0; why < WEIR_SLEEP_REASON_COUNT; why++) {
			result->stays[why].count += s->stays[why].count;
			result->stays[why].bytes += s->stays[why].bytes;
		}
	}
	sleeping_get_guests()->leave(result);
	settle_leases(&sleeper->devices);
	result->unmap_ns = os_monotonic_ns() - began_ns;
}

/* Put claimed devices to sleep. On failure nothing has left. */
static enum weir_status
fall_asleep(struct sleeper *sleeper)
{
	bool fails = (sleeper->options->flags & WEIR_SLEEP_FAIL) != 0;

	for (int i = 0; i < sleeper->devices.n; i++)
		sleeping_set_waiters(sleeper->devices.device[i], fails);
	enum weir_status status = end_work(sleeper);
	if (status != WEIR_OK)
		return status;
	sleeper->capacity = count_arenas(&sleeper->devices);
	sleeper->all =
	    meta_zalloc((sleeper->capacity + 1) * sizeof(*sleeper->all));
	if (sleeper->all == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "weir_sleep: no host memory for %zu arenas",
		    sleeper->capacity);
	status = begin_arenas(sleeper);
	if (status == WEIR_OK)
		status = copy_arenas(sleeper);
	if (status == WEIR_OK)
		status = copy_guests(sleeper);
	if (status == WEIR_OK)
		finish_arenas(sleeper);
	else
		while (sleeper->n > 0)
			suspending_cancel(&sleeper->all[--sleeper->n]);
	meta_free(
	    sleeper->all, (sleeper->capacity + 1) * sizeof(*sleeper->all));
	return status;
}

/* Read the folder for contents. Options are never freed. */
static enum weir_status
read_folder(struct sleeper *sleeper)
{
	const struct options *options;
	enum weir_status status = options_get(&options);

	if (status == WEIR_OK && options->sleep_folder[0] != '\0')
		sleeper->folder = options->sleep_folder;
	return status;
}

static enum weir_status
check_sleep(const struct weir_sleep_options *options,
    const struct weir_sleep_result *result)
{
	const unsigned all =
	    WEIR_SLEEP_FAIL | WEIR_SLEEP_LIVE_ONLY | WEIR_SLEEP_DISCARD_ALL;

	if (options->struct_size < sizeof(*options) ||
	    (result != NULL && result->struct_size < sizeof(*result)))
		return status_set(WEIR_EINVAL,
		    "weir_sleep: the options or the result have no "
		    "struct_size");
	if ((options->flags & ~all) != 0)
		return status_set(WEIR_EINVAL, "weir_sleep: unknown flags %#x",
		    options->flags);
	return WEIR_OK;
}

/* A device that dozes has to be awake before. One that the user puts to sleep
 * dozes no more. */
static enum weir_status
settle_doze(const struct sleeper *sleeper, bool asleep)
{
	const struct devices *devices = &sleeper->devices;

	for (int i = 0; i < devices->n; i++)
		if (asleep)
			sleeping_set_doze(devices->device[i], sleeper->dozes);
		else if (sleeper->dozes && devices->was[i] != SLEEPING_AWAKE)
			return status_set(WEIR_ENOTREADY,
			    "device %d: it is asleep already",
			    devices->device[i]);
	return WEIR_OK;
}

static enum weir_status
sleep_devices(int device, const struct weir_sleep_options *options,
    struct weir_sleep_result *result, bool dozes)
{
	const struct weir_sleep_options usual = { .struct_size =
						      sizeof(usual) };
	struct sleeper sleeper = {
		.options = options != NULL ? options : &usual, .dozes = dozes
	};
	enum weir_status status = check_sleep(sleeper.options, result);

	if (status == WEIR_OK)
		status = find_devices("weir_sleep", device, &sleeper.devices);
	if (status == WEIR_OK)
		status = read_folder(&sleeper);
	if (status == WEIR_OK)
		status = read_ranges(sleeper.options, &sleeper.discards);
	if (status == WEIR_OK)
		status = read_pools(sleeper.options, &sleeper.discards);
	if (status == WEIR_OK)
		status = sleep_hooks_before();
	if (status == WEIR_OK)
		status = claim_devices("weir_sleep", &sleeper.devices);
	if (status != WEIR_OK)
		goto drop;
	status = settle_doze(&sleeper, false);
	if (status == WEIR_OK)
		status = fall_asleep(&sleeper);
	if (status == WEIR_OK) {
		settle_doze(&sleeper, true);
		settle_all(&sleeper.devices, SLEEPING_ASLEEP);
	} else
		settle_as_before(&sleeper.devices, sleeper.devices.n);
	if (status == WEIR_OK && result != NULL) {
		size_t size = result->struct_size;
		*result = sleeper.result;
		result->struct_size = size;
	}
drop:
	sleep_hooks_after();
	drop_discards(&sleeper.discards);
	return status;
}

enum weir_status
weir_sleep(int device, const struct weir_sleep_options *options,
    struct weir_sleep_result *result)
{
	return sleep_devices(device, options, result, false);
}

enum weir_status
sleep_doze(int device, struct weir_sleep_result *result)
{
	return sleep_devices(device, NULL, result, true);
}

/* ---- Waking ------------------------------------------------------------ */

struct waker {
	struct devices devices;
	struct resuming *all;
	size_t n;
	size_t capacity;
	struct help help[DEVICES_MAX]; /* of other members of the group */
	struct weir_wake_result result;
};

static void
find_sleeping(struct waker *waker)
{
	struct arena *a = NULL;
	int i = 0;

	waker->n = 0;
	while (waker->n < waker->capacity &&
	    (a = next_arena(&waker->devices, &i, a)) != NULL) {
		lock_enter(&a->lock);
		if (a->account.uncounted && arena_sleeps(a))
			waker->all[waker->n++] =
			    (struct resuming){ .arena = a };
		lock_leave(&a->lock);
	}
}

/* Try to map and fill all memory. On failure all is unmapped again. */
static enum weir_status
try_to_wake(struct waker *waker)
{
	enum weir_status status = WEIR_OK;
	uint64_t began_ns = os_monotonic_ns();
	size_t begun = 0;

	while (begun < waker->n && status == WEIR_OK) {
		status = resuming_begin(&waker->all[begun]);
		begun += status == WEIR_OK;
	}
	for (size_t i = 0; i < begun && status == WEIR_OK; i++)
		status = resuming_map(&waker->all[i]);
	const struct sleeping_plan plan = plan_guests(&waker->devices);
	if (status == WEIR_OK)
		status = sleeping_get_guests()->map(&plan);
	waker->result.map_ns = os_monotonic_ns() - began_ns;
	if (status != WEIR_OK) {
		while (begun > 0)
			resuming_cancel(&waker->all[--begun]);
		settle_leases(&waker->devices);
		return status;
	}
	for (size_t i = 0; i < waker->n; i++) {
		waker->result.mapped_bytes += waker->all[i].mapped_bytes;
		waker->result.copied_bytes += waker->all[i].copied_bytes;
		resuming_finish(&waker->all[i]);
	}
	sleeping_get_guests()->back(&waker->result);
	return WEIR_OK;
}

/* The bytes that try_to_wake() takes on a device. */
static size_t
wanted_bytes(const struct waker *waker, int device)
{
	size_t want = sleeping_get_guests()->away(device);

	for (size_t k = 0; k < waker->n; k++)
		if (waker->all[k].arena->device == device)
			want += waker->all[k].mapped_bytes;
	return want;
}

/* Ask the groups of the devices for what try_to_wake() has not got. False: they
 * have nothing to give, or nothing more. */
static bool
ask_groups(struct waker *waker)
{
	bool helped = false;

	for (int i = 0; i < waker->devices.n; i++) {
		int device = waker->devices.device[i];
		struct arena *main = arena_peek(device);
		size_t want = wanted_bytes(waker, device);

		if (main != NULL && want > 0)
			helped |= help_request(&waker->help[i], main, want);
	}
	return helped;
}

static void
end_help(struct waker *waker)
{
	for (int i = 0; i < waker->devices.n; i++) {
		struct arena *main = arena_peek(waker->devices.device[i]);

		if (main != NULL)
			help_end(&waker->help[i], main);
	}
}

/* Wake claimed devices; ask others for memory, and wait for it, meanwhile. */
static enum weir_status
wake_up(struct waker *waker, uint64_t wait_ms)
{
	uint64_t began_ns = os_monotonic_ns();

	waker->capacity = count_arenas(&waker->devices);
	waker->all = meta_zalloc((waker->capacity + 1) * sizeof(*waker->all));
	if (waker->all == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "weir_wake: no host memory for %zu arenas",
		    waker->capacity);
	find_sleeping(waker);
	uint64_t tried_ns = os_monotonic_ns();
	enum weir_status status = try_to_wake(waker);
	while (status == WEIR_ENOMEM) {
		bool helped = ask_groups(waker);
		if (!helped &&
		    (os_monotonic_ns() - began_ns) / 1000000 >= wait_ms)
			break;
		if (!helped)
			nap_ms(WAKE_RETRY_MS);
		tried_ns = os_monotonic_ns();
		find_sleeping(waker);
		status = try_to_wake(waker);
	}
	end_help(waker);
	waker->result.wait_ns = tried_ns - began_ns;
	meta_free(waker->all, (waker->capacity + 1) * sizeof(*waker->all));
	return status;
}

/* Leave out the devices that are awake. */
static void
leave_awake(struct devices *devices)
{
	int n = 0;

	for (int i = 0; i < devices->n; i++)
		if (sleeping_is(devices->device[i]))
			devices->device[n++] = devices->device[i];
	devices->n = n;
}

/* Wake all that are asleep or, with `dozing`, only those that doze. */
static enum weir_status
wake_devices(
    int device, uint64_t wait_ms, struct weir_wake_result *result, bool dozing)
{
	struct waker waker = { 0 };
	enum weir_status status =
	    result != NULL && result->struct_size < sizeof(*result) ?
	    status_set(
		WEIR_EINVAL, "weir_wake: the result has no struct_size") :
	    find_devices("weir_wake", device, &waker.devices);

	if (status != WEIR_OK)
		return status;
	leave_awake(&waker.devices);
	status = claim_devices("weir_wake", &waker.devices);
	if (status != WEIR_OK)
		return status;
	for (int i = 0; i < waker.devices.n && status == WEIR_OK; i++)
		if (dozing && !sleeping_get_doze(waker.devices.device[i]))
			status = status_set(WEIR_ENOTREADY,
			    "device %d: it does not wake by itself",
			    waker.devices.device[i]);
	if (status == WEIR_OK)
		status = wake_up(&waker, wait_ms);
	if (status == WEIR_OK)
		settle_all(&waker.devices, SLEEPING_AWAKE);
	else
		settle_as_before(&waker.devices, waker.devices.n);
	for (int i = 0; i < waker.devices.n && status == WEIR_OK; i++) {
		struct arena *main = arena_peek(waker.devices.device[i]);
		if (main != NULL)
			arena_empty_unowned(main);
	}
	if (status == WEIR_OK)
		sleep_hooks_after();
	if (status == WEIR_OK && result != NULL) {
		size_t size = result->struct_size;
		*result = waker.result;
		result->struct_size = size;
	}
	return status;
}

enum weir_status
weir_wake(int device, uint64_t wait_ms, struct weir_wake_result *result)
{
	return wake_devices(device, wait_ms, result, false);
}

enum weir_status
sleep_end_doze(int device, struct weir_wake_result *result)
{
	const struct options *options;
	enum weir_status status = options_get(&options);

	return status == WEIR_OK ?
	    wake_devices(device, options->wait_ms, result, true) :
	    status;
}
