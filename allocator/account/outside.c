/*
 * Counts the device memory of the process that weir does not hold.
 *
 * Each call that changes a count comes with a call of the driver, so one lock
 * is enough. The sum of a device is read without it, by weir's own growth.
 */
#include "allocator/account/outside.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "allocator/options.h"
#include "base/assert.h"
#include "base/lock.h"
#include "base/os.h"

/* The statistics of a device, each guarded by the lock, and the sum of those
 * that a limit may cover. */
struct outside_device {
	struct weir_stat stats[OUTSIDE_KINDS];
	atomic_size_t limited_bytes;
};

static struct lock outside_lock = LOCK_INITIALIZER(LOCK_RANK_OUTSIDE);
static struct outside_device outside_devices[DEVICES_MAX];

static struct outside_device *
outside_of(int device)
{
	ASSERT(device >= 0 && device < DEVICES_MAX);
	return &outside_devices[device];
}

/* Change what there is. Under the lock. */
static void
move_outside(int device, enum outside_kind kind, size_t more, size_t less)
    HOLDS(outside_lock)
{
	struct outside_device *of = outside_of(device);
	struct weir_stat *stat = &of->stats[kind];

	ASSERT(kind < OUTSIDE_KINDS && less <= stat->current + more);
	stat->current = stat->current + more - less;
	/* Modulo the size of the type, so a lower sum is right, too. */
	if (outside_is_limited(kind))
		atomic_fetch_add(&of->limited_bytes, more - less);
}

/* Count memory that the driver has given. Under the lock. */
static void
note_outside(int device, enum outside_kind kind, size_t bytes)
    HOLDS(outside_lock)
{
	struct weir_stat *stat = &outside_of(device)->stats[kind];

	stat->allocated += bytes;
	if (stat->current > stat->peak)
		stat->peak = stat->current;
}

void
outside_add(int device, enum outside_kind kind, size_t bytes)
{
	lock_enter(&outside_lock);
	move_outside(device, kind, bytes, 0);
	note_outside(device, kind, bytes);
	lock_leave(&outside_lock);
}

void
outside_release(int device, enum outside_kind kind, size_t bytes)
{
	lock_enter(&outside_lock);
	move_outside(device, kind, 0, bytes);
	outside_of(device)->stats[kind].freed += bytes;
	lock_leave(&outside_lock);
}

bool
outside_claim(int device, enum outside_kind kind, size_t bytes, size_t most)
{
	ASSERT(bytes <= WEIR_SIZE_MAX);
	lock_enter(&outside_lock);
	size_t now = outside_bytes(device);
	bool fits = now <= most && bytes <= most - now;
	if (fits)
		move_outside(device, kind, bytes, 0);
	lock_leave(&outside_lock);
	return fits;
}

void
outside_keep(int device, enum outside_kind kind, size_t bytes)
{
	lock_enter(&outside_lock);
	note_outside(device, kind, bytes);
	lock_leave(&outside_lock);
}

void
outside_drop(int device, enum outside_kind kind, size_t bytes)
{
	lock_enter(&outside_lock);
	move_outside(device, kind, 0, bytes);
	lock_leave(&outside_lock);
}

void
outside_set(int device, enum outside_kind kind, size_t bytes)
{
	lock_enter(&outside_lock);
	size_t before = outside_of(device)->stats[kind].current;
	if (bytes >= before) {
		move_outside(device, kind, bytes - before, 0);
		note_outside(device, kind, bytes - before);
	} else {
		move_outside(device, kind, 0, before - bytes);
		outside_of(device)->stats[kind].freed += before - bytes;
	}
	lock_leave(&outside_lock);
}

bool
outside_counts(void)
{
	const struct options *options = options_peek();

	return options != NULL && options->limit_counts == LIMIT_COUNTS_ALL;
}

size_t
outside_bytes(int device)
{
	return atomic_load(&outside_of(device)->limited_bytes);
}

size_t
outside_in_limit(int device)
{
	return outside_counts() ? outside_bytes(device) : 0;
}

void
outside_read(int device, struct weir_stats *out)
{
	const struct weir_stat *stats = outside_of(device)->stats;

	lock_enter(&outside_lock);
#define OUTSIDE_COPY(name, label) out->outside_##name = stats[OUTSIDE_##name];
	WEIR_OUTSIDE_KINDS(OUTSIDE_COPY)
#undef OUTSIDE_COPY
	lock_leave(&outside_lock);
}

void
outside_reset_peaks(int device)
{
	struct weir_stat *stats = outside_of(device)->stats;

	lock_enter(&outside_lock);
	for (int i = 0; i < OUTSIDE_KINDS; i++)
		stats[i].peak = stats[i].current;
	lock_leave(&outside_lock);
}

void
outside_reset_sums(int device)
{
	struct weir_stat *stats = outside_of(device)->stats;

	lock_enter(&outside_lock);
	for (int i = 0; i < OUTSIDE_KINDS; i++)
		stats[i].allocated = stats[i].freed = 0;
	lock_leave(&outside_lock);
}

void
outside_describe(int device, char text[OUTSIDE_TEXT])
{
	static const char *const labels[OUTSIDE_KINDS] = {
#define OUTSIDE_LABEL(name, label) label,
		WEIR_OUTSIDE_KINDS(OUTSIDE_LABEL)
#undef OUTSIDE_LABEL
	};
	struct weir_stats stats;
	size_t used = 0;

	outside_read(device, &stats);
	const struct weir_stat *kinds[OUTSIDE_KINDS] = {
#define OUTSIDE_AT(name, label) &stats.outside_##name,
		WEIR_OUTSIDE_KINDS(OUTSIDE_AT)
#undef OUTSIDE_AT
	};
	snprintf(text, OUTSIDE_TEXT, "nothing");
	for (int i = 0; i < OUTSIDE_KINDS && used < OUTSIDE_TEXT; i++) {
		char bytes[32];

		if (kinds[i]->current == 0)
			continue;
		used += (size_t)snprintf(text + used, OUTSIDE_TEXT - used,
		    "%s%s of %s", used == 0 ? "" : ", ",
		    os_format_bytes(kinds[i]->current, bytes, sizeof(bytes)),
		    labels[i]);
	}
}
