/*
 * <weir/weir.h>: trimming, limits, and beginning.
 */
#include "allocator/account/totals.h"
#include "allocator/lifecycle.h"
#include "allocator/memory/arena.h"
#include "allocator/observe/guard.h"
#include "allocator/options.h"
#include "allocator/private/arenas.h"
#include "allocator/private/route.h"
#include "allocator/request/reclaim.h"
#include "base/os.h"
#include "base/status.h"

static size_t
trim_one(int device, size_t keep)
{
	struct arena *main = arena_peek(device);
	size_t sum = main != NULL ? route_tidy(main) : 0;

	ASSERT(device >= 0 && device < DEVICES_MAX);
	if (main != NULL)
		guard_look_at_all(main, NULL);

	for (struct arena *a = main; a != NULL; a = arena_next(a))
		if (arena_is_counted(a))
			sum += reclaim_trim(a, &keep);
	/* Also give back memory of unowned arenas that could not be given back
	 * when their last block was freed. */
	if (main != NULL)
		sum += arena_empty_unowned(main);
	return sum;
}

enum weir_status
weir_trim(int device, size_t keep_bytes, size_t *freed_bytes)
{
	if (os_forked())
		return status_forked("weir_trim");
	const struct driver *driver;
	size_t sum = 0;
	enum weir_status status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	history_enter(WEIR_HISTORY_ALL);
	if (device == WEIR_DEVICE_ALL) {
		for (int i = 0; i < driver->device_count; i++)
			sum += trim_one(i, keep_bytes);
	} else {
		status = device_resolve(device, &device);
		if (status == WEIR_OK)
			sum = trim_one(device, keep_bytes);
	}
	history_leave();
	if (status == WEIR_OK && freed_bytes != NULL)
		*freed_bytes = sum;
	return status;
}

/* Find the arena of a device that a limit is for, or make it: a limit can be
 * set before the first allocation. */
static enum weir_status
limit_arena(int device, struct arena **out)
{
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	return arena_get(device, out);
}

enum weir_status
weir_limit_set(int device, size_t bytes)
{
	if (os_forked())
		return status_forked("weir_limit_set");
	struct arena *arena;
	enum weir_status status = limit_arena(device, &arena);
	if (status != WEIR_OK)
		return status;
	device_set_limit(arena, bytes);
	return WEIR_OK;
}

/* The limit of a device and its memory. Where weir holds nothing yet, the
 * options say the limit, and no arena is made for the question. */
static enum weir_status
limit_read(int device, size_t *limit, size_t *total_bytes)
{
	const struct options *options;
	enum weir_status status = device_resolve(device, &device);

	if (status != WEIR_OK)
		return status;
	struct arena *arena = arena_peek(device);
	if (arena != NULL) {
		*limit = atomic_load(&arena->account.limit);
		*total_bytes = arena->account.total_bytes;
		return WEIR_OK;
	}
	status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuDeviceTotalMem(total_bytes, device);
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuDeviceTotalMem(device %d)", device);
	*limit = options_limit(options, *total_bytes);
	return WEIR_OK;
}

enum weir_status
weir_limit_get(int device, size_t *bytes)
{
	if (os_forked())
		return status_forked("weir_limit_get");
	size_t total;

	if (bytes == NULL)
		return status_set(WEIR_EINVAL, "weir_limit_get: bytes is NULL");
	return limit_read(device, bytes, &total);
}

enum weir_status
weir_fraction_set(int device, double fraction)
{
	if (os_forked())
		return status_forked("weir_fraction_set");
	struct arena *arena;

	if (!(fraction >= 0 && fraction <= 1))
		return status_set(WEIR_EINVAL,
		    "invalid fraction:%g. Please set within "
		    "[0, 1].",
		    fraction);
	enum weir_status status = limit_arena(device, &arena);
	if (status != WEIR_OK)
		return status;
	if (fraction == 1)
		return weir_limit_set(arena->device, SIZE_MAX);
	return weir_limit_set(arena->device,
	    (size_t)(fraction * (double)arena->account.total_bytes));
}

enum weir_status
weir_fraction_get(int device, double *fraction)
{
	if (os_forked())
		return status_forked("weir_fraction_get");
	size_t limit;
	size_t total;

	if (fraction == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_fraction_get: fraction is NULL");
	enum weir_status status = limit_read(device, &limit, &total);
	if (status == WEIR_OK)
		*fraction =
		    limit == SIZE_MAX ? 1.0 : (double)limit / (double)total;
	return status;
}

enum weir_status
weir_init(void)
{
	const struct options *options;
	const struct driver *driver;
	enum weir_status status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	return driver_get(&driver);
}
