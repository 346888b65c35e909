/*
 * Tables of figures. Each column is a row of a list here: its heading, the
 * figure's key, and the function that adds its cells.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/weir/replay/replay_table.h"
#include "tools/weir/replay/trial.h"
#include "tools/weir/tool.h"

struct column {
	const char *heading;
	const char *key;
	void (*add)(
	    struct table *table, const json_t *figures, const char *key);
};

static uint64_t
figure_of(const json_t *figures, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(figures, key));
}

/* Add the cell "-" and return true if the figure is absent. */
static bool
add_absent(struct table *table, const json_t *figures, const char *key)
{
	const json_t *value = json_object_get(figures, key);

	if (value != NULL && !json_is_null(value))
		return false;
	table_add(table, "-");
	return true;
}

static void
add_text_cell(struct table *table, const json_t *figures, const char *key)
{
	table_add(
	    table, "%s", json_string_value(json_object_get(figures, key)));
}

static void
add_count(struct table *table, const json_t *figures, const char *key)
{
	if (!add_absent(table, figures, key))
		table_add(table, "%" PRIu64, figure_of(figures, key));
}

static void
add_bytes(struct table *table, const json_t *figures, const char *key)
{
	char text[32];

	if (!add_absent(table, figures, key))
		table_add(table, "%s",
		    bytes_format(figure_of(figures, key), text, sizeof(text)));
}

static void
add_percent(struct table *table, const json_t *figures, const char *key)
{
	table_add(table, "%.1f %%",
	    100 * json_real_value(json_object_get(figures, key)));
}

static void
add_seconds(struct table *table, const json_t *figures, const char *key)
{
	table_add(
	    table, "%.2f", json_real_value(json_object_get(figures, key)));
}

static void
add_ms(struct table *table, const json_t *figures, const char *key)
{
	if (!add_absent(table, figures, key))
		table_add(
		    table, "%.3f ms", (double)figure_of(figures, key) / 1000);
}

static void
add_calls(struct table *table, const json_t *figures, const char *key)
{
	json_t *calls = json_object_get(figures, key);
	const char *name;
	json_t *count;
	uint64_t sum = 0;

	if (add_absent(table, figures, key))
		return;
	json_object_foreach(calls, name, count) sum +=
	    (uint64_t)json_integer_value(count);
	table_add(table, "%" PRIu64, sum);
}

/* Add the limit of --fit over the live bytes at the peak. */
static void
add_fit_ratio(struct table *table, const json_t *figures, const char *key)
{
	uint64_t live = trial_granules(figure_of(figures, "peak_live_bytes"));

	if (add_absent(table, figures, key))
		return;
	if (live == 0)
		table_add(table, "-");
	else
		table_add(table, "%.3f",
		    (double)figure_of(figures, key) / (double)live);
}

/* Add a number of requests, and their share of others. */
static void
add_part(struct table *table, uint64_t part, uint64_t of)
{
	table_add(table, "%" PRIu64 " (%.1f %%)", part,
	    of == 0 ? 0 : 100 * (double)part / (double)of);
}

static void
add_moved(struct table *table, const json_t *figures, const char *key)
{
	add_part(table, figure_of(figures, key),
	    figure_of(figures, "repeated_allocs"));
}

static void
add_moved_large(struct table *table, const json_t *figures, const char *key)
{
	add_part(table, figure_of(figures, key),
	    figure_of(figures, "repeated_large_allocs"));
}

static const struct column memory[] = {
	{ "trace", "name", add_text_cell },
	{ "events", "events", add_count },
	{ "allocs", "allocs", add_count },
	{ "peak live", "peak_live_bytes", add_bytes },
	{ "peak held", "peak_held_bytes", add_bytes },
	{ "efficiency", "efficiency", add_percent },
	{ "recorded held", "recorded_held_bytes", add_bytes },
	{ "ooms", "ooms", add_count },
	{ "fit", "fit_bytes", add_bytes },
	{ "fit/live", "fit_bytes", add_fit_ratio },
};

static const struct column effort[] = {
	{ "trace", "name", add_text_cell },
	{ "driver calls", "driver_calls", add_calls },
	{ "map calls", "map_calls", add_count },
	{ "late", "map_calls_late", add_count },
	{ "unmap calls", "unmap_calls", add_count },
	{ "remapped", "remapped_bytes", add_bytes },
	{ "host waits", "host_waits", add_count },
	{ "GPU waits", "gpu_waits", add_count },
	{ "measured", "measured_wait_us", add_ms },
	{ "stalled", "gpu_stall_us", add_ms },
	{ "delayed", "gpu_wait_us", add_ms },
	{ "duration", "duration_us", add_ms },
	{ "seconds", "seconds", add_seconds },
};

/* Page-locked memory, of the traces that have some. */
static const struct column pinned[] = {
	{ "page-locked", "name", add_text_cell },
	{ "allocs", "pinned_allocs", add_count },
	{ "peak live", "pinned_peak_live_bytes", add_bytes },
	{ "peak held", "pinned_peak_held_bytes", add_bytes },
	{ "efficiency", "pinned_efficiency", add_percent },
	{ "driver calls", "pinned_driver_calls", add_count },
	{ "late", "pinned_driver_calls_late", add_count },
	{ "pinning", "pin_us", add_ms },
	{ "giving back", "unpin_us", add_ms },
	{ "delay", "pin_delay_us", add_ms },
	{ "of the time", "pin_delay_share", add_percent },
};

/* Figures for which the tables are too narrow. */
static const struct column details[] = {
	{ "peak active", "peak_active_bytes", add_bytes },
	{ "peak pending", "peak_pending_bytes", add_bytes },
	{ "peak held, by the driver's count", "peak_held_driver_bytes",
	    add_bytes },
	{ "allocations from the driver", "device_allocs", add_count },
	{ "frees to the driver", "device_frees", add_count },
	{ "requests that the round before had too", "repeated_allocs",
	    add_count },
	{ "of these, at another address", "moved_allocs", add_moved },
	{ "of those above 1 MiB, at another address", "moved_large_allocs",
	    add_moved_large },
	{ "words changed by others", "mismatches", add_count },
};

enum {
	MEMORY = sizeof(memory) / sizeof(memory[0]),
	EFFORT = sizeof(effort) / sizeof(effort[0]),
	DETAILS = sizeof(details) / sizeof(details[0]),
	FIT_COLUMNS = 2, /* at the end of `memory` */
};

static bool
print_rows(const json_t *all, const struct column *columns, size_t n)
{
	char align[16] = "lrrrrrrrrrrrrrr";
	struct table *table;
	const json_t *one;
	size_t i;
	bool printed;

	align[n] = '\0';
	table = table_new(align);
	for (size_t c = 0; c < n; c++)
		table_add(table, "%s", columns[c].heading);
	json_array_foreach(all, i, one)
	{
		for (size_t c = 0; c < n; c++)
			columns[c].add(table, one, columns[c].key);
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static bool
print_details(const json_t *figures)
{
	struct table *table = table_new("lr");
	json_t *calls = json_object_get(figures, "driver_calls");
	const char *name;
	json_t *count;
	bool printed;

	for (size_t i = 0; i < DETAILS; i++) {
		if (json_object_get(figures, details[i].key) == NULL)
			continue;
		table_add(table, "%s", details[i].heading);
		details[i].add(table, figures, details[i].key);
	}
	json_object_foreach(calls, name, count)
	{
		table_add(table, "calls of %s", name);
		table_add(
		    table, "%" PRIu64, (uint64_t)json_integer_value(count));
	}
	putchar('\n');
	printed = table_print(table, false);
	table_free(table);
	return printed;
}

static const struct column ways[] = {
	{ "served by", "way", add_text_cell },
	{ "requests", "requests", add_count },
	{ "bytes", "size_bytes", add_bytes },
	{ "host time", "host_us", add_ms },
	{ "GPU waits", "gpu_waits", add_count },
	{ "measured", "measured_wait_us", add_ms },
	{ "host waits", "host_waits", add_count },
	{ "handles moved", "moved_handles", add_count },
	{ "grown", "grown_bytes", add_bytes },
};

static const struct column costliest[] = {
	{ "costliest: served by", "served_by", add_text_cell },
	{ "row", "row", add_count },
	{ "bytes", "size_bytes", add_bytes },
	{ "stream", "stream", add_count },
	{ "host time", "host_us", add_ms },
	{ "measured", "measured_wait_us", add_ms },
};

/* Print how the requests of one trace were served. */
static bool
print_served(const json_t *figures, bool alone)
{
	const json_t *sums = json_object_get(figures, "served");
	const json_t *dearest = json_object_get(figures, "costliest");

	if (sums == NULL)
		return true;
	putchar('\n');
	if (!alone)
		printf("%s\n",
		    json_string_value(json_object_get(figures, "name")));
	if (!print_rows(sums, ways, sizeof(ways) / sizeof(ways[0])))
		return false;
	if (json_array_size(dearest) == 0)
		return true;
	putchar('\n');
	return print_rows(
	    dearest, costliest, sizeof(costliest) / sizeof(costliest[0]));
}

/* Print the figures of page-locked memory. */
static bool
print_pinned(const json_t *all)
{
	json_t *some = json_array();
	json_t *one;
	size_t i;
	bool printed = true;

	json_array_foreach(all, i, one)
	{
		if (json_object_get(one, "pinned_allocs") != NULL)
			json_array_append(some, one);
	}
	if (json_array_size(some) > 0) {
		putchar('\n');
		printed = print_rows(
		    some, pinned, sizeof(pinned) / sizeof(pinned[0]));
	}
	json_decref(some);
	return printed;
}

bool
replay_print(const json_t *all)
{
	const json_t *first = json_array_get(all, 0);
	bool fitted = json_object_get(first, "fit_bytes") != NULL;
	bool alone = json_array_size(all) == 1;
	const json_t *one;
	size_t i;

	if (first == NULL)
		return true;
	printf("on %s%s\n", json_string_value(json_object_get(first, "device")),
	    json_is_true(json_object_get(first, "simulated")) ? ", simulated" :
								"");
	if (!print_rows(all, memory, MEMORY - (fitted ? 0 : FIT_COLUMNS)))
		return false;
	putchar('\n');
	if (!print_rows(all, effort, EFFORT) || !print_pinned(all) ||
	    (alone && !print_details(first)))
		return false;
	json_array_foreach(all, i, one)
	{
		if (!print_served(one, alone))
			return false;
	}
	return true;
}
