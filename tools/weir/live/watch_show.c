/*
 * Samples of a watched process as text and as JSON.
 */
#include "tools/weir/live/watch_show.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#include "tools/weir/live/watch_chart.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

void
watch_program(uint32_t pid, char name[32])
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/comm", pid);
	file = fopen(path, "re");
	if (file == NULL || fgets(name, 32, file) == NULL)
		strcpy(name, "?");
	if (file != NULL)
		fclose(file);
	name[strcspn(name, "\n")] = '\0';
	for (char *c = name; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
			*c = '?';
}

/* ---- Numbers ----------------------------------------------------------- */

/* The device in the sample before; NULL if that lacks it. */
static const struct watch_device *
same_device(const struct watch_reply *before, const struct watch_device *device)
{
	for (uint32_t i = 0; before != NULL && i < before->device_count; i++)
		if (before->devices[i].device == device->device)
			return &before->devices[i];
	return NULL;
}

/* The rate of a count per second; below 0 if it is unknown. */
static double
rate(const struct watch_reply *now, const struct watch_reply *before,
    uint64_t count, uint64_t count_before)
{
	if (before == NULL || now->time_ns <= before->time_ns ||
	    count < count_before)
		return -1;
	return (double)(count - count_before) * 1e9 /
	    (double)(now->time_ns - before->time_ns);
}

/* Rates of a device. */
struct rates {
	double allocations;
	double frees;
	double driver_calls;
	double events;
};

static struct rates
rates_of(const struct watch_reply *now, const struct watch_reply *before,
    const struct watch_device *device)
{
	const struct watch_device *old = same_device(before, device);
	const struct counters *m = &device->memory;
	const struct counters *o = old != NULL ? &old->memory : NULL;

	if (old == NULL)
		return (struct rates){ -1, -1, -1, -1 };
	return (struct rates){
		rate(now, before, m->allocations, o->allocations),
		rate(now, before, m->frees, o->frees),
		rate(now, before, m->driver_allocations + m->driver_frees,
		    o->driver_allocations + o->driver_frees),
		rate(
		    now, before, device->events_recorded, old->events_recorded),
	};
}

/* True if pending memory may be complete: weir asks the device only when the
 * program allocates (<weir/weir.h>, weir_stats()), and it has not allocated
 * since the last sample. */
static bool
pending_is_old(const struct watch_device *device, const struct rates *rates)
{
	return device->memory.pending_bytes + device->pinned.pending_bytes >
	    0 &&
	    rates->allocations == 0;
}

/* ---- Text -------------------------------------------------------------- */

static const char *
size_of(uint64_t bytes, char text[SHOW_TEXT])
{
	if (bytes == UINT64_MAX)
		return "none";
	return bytes_format(bytes, text, SHOW_TEXT);
}

static const char *
rate_of(double value, char text[SHOW_TEXT])
{
	if (value < 0)
		return "-";
	snprintf(text, SHOW_TEXT, "%.0f/s", value);
	return text;
}

static const char *
watch_stream_text(uint64_t stream, char text[SHOW_TEXT])
{
	if (stream == (uint64_t)(uintptr_t)WEIR_STREAM_ANY)
		return "no stream";
	if (stream == (uint64_t)(uintptr_t)WEIR_STREAM_LEGACY || stream == 0)
		return "legacy default";
	if (stream == (uint64_t)(uintptr_t)WEIR_STREAM_PER_THREAD)
		return "per-thread default";
	snprintf(text, SHOW_TEXT, "0x%" PRIx64, stream);
	return text;
}

static const char *
watch_pool_text(const uint64_t pool[2], char text[SHOW_TEXT])
{
	if (pool[0] == 0 && pool[1] == 0)
		return "default";
	snprintf(
	    text, SHOW_TEXT, "(%" PRIu64 ", %" PRIu64 ")", pool[0], pool[1]);
	return text;
}

/* The bar of a device: '#' is live, '~' pending, '.' cached memory, and blanks
 * are the rest. */
static const char *
bar_of(const struct watch_device *device, char bar[SHOW_BAR + 1])
{
	const struct counters *m = &device->memory;
	double cell = (double)device->total_bytes / SHOW_BAR;

	for (int i = 0; i < SHOW_BAR; i++) {
		double at = (i + 0.5) * cell;

		bar[i] = at < (double)m->live_bytes                 ? '#' :
		    at < (double)(m->live_bytes + m->pending_bytes) ? '~' :
		    at < (double)m->held_bytes                      ? '.' :
								      ' ';
	}
	bar[SHOW_BAR] = '\0';
	return bar;
}

static void
print_memory(const char *name, const struct counters *m)
{
	char live[SHOW_TEXT];
	char pending[SHOW_TEXT];
	char free[SHOW_TEXT];
	char held[SHOW_TEXT];
	char peak[SHOW_TEXT];
	char limit[SHOW_TEXT];

	printf("  %-7s live %s in %" PRIu64
	       " block%s, pending %s, cached %s, held %s (peak %s, limit %s)\n",
	    name, size_of(m->live_bytes, live), m->live_blocks,
	    m->live_blocks == 1 ? "" : "s", size_of(m->pending_bytes, pending),
	    size_of(m->cached_bytes, free), size_of(m->held_bytes, held),
	    size_of(m->held_peak_bytes, peak), size_of(m->limit_bytes, limit));
}

static void
print_streams(const struct watch_device *device)
{
	struct table *table = table_new("llrrrr");
	static const char *const heading[] = { "  stream", "pool", "live",
		"pending", "blocks", "allocations" };
	char text[SHOW_TEXT];

	for (size_t i = 0; i < sizeof(heading) / sizeof(heading[0]); i++)
		table_add(table, "%s", heading[i]);
	for (uint32_t i = 0; i < device->stream_count; i++) {
		const struct watch_stream *row = &device->streams[i];

		table_add(table, "  %s", watch_stream_text(row->stream, text));
		table_add(table, "%s", watch_pool_text(row->pool, text));
		table_add(table, "%s", size_of(row->live_bytes, text));
		table_add(table, "%s", size_of(row->pending_bytes, text));
		table_add(table, "%" PRIu64, row->live_blocks);
		table_add(table, "%" PRIu64, row->allocations);
	}
	if (device->stream_count > 0)
		table_print(table, true);
	table_free(table);
	if (device->streams_all > device->stream_count)
		printf("  and %" PRIu32 " more\n",
		    device->streams_all - device->stream_count);
}

static void
print_pools(const struct watch_device *device)
{
	struct table *table = table_new("lrrrr");
	static const char *const heading[] = { "  private pool", "held", "live",
		"pending", "blocks" };
	char text[SHOW_TEXT];

	for (size_t i = 0; i < sizeof(heading) / sizeof(heading[0]); i++)
		table_add(table, "%s", heading[i]);
	for (uint32_t i = 0; i < device->pool_count; i++) {
		const struct watch_pool *row = &device->pools[i];

		table_add(table, "  %s", watch_pool_text(row->pool, text));
		table_add(table, "%s", size_of(row->held_bytes, text));
		table_add(table, "%s", size_of(row->live_bytes, text));
		table_add(table, "%s", size_of(row->pending_bytes, text));
		table_add(table, "%" PRIu64, row->live_blocks);
	}
	if (device->pool_count > 0)
		table_print(table, true);
	table_free(table);
	if (device->pools_all > device->pool_count)
		printf("  and %" PRIu32 " more\n",
		    device->pools_all - device->pool_count);
}

/* Print page-locked memory, and the time that the driver took for it. */
static void
print_pinned(const struct counters *m)
{
	print_memory("pinned", m);
	printf("  pinning %.1f ms, giving back %.1f ms, delay %.1f ms\n",
	    (double)m->pin_ns / 1e6, (double)m->unpin_ns / 1e6,
	    (double)m->pin_delay_ns / 1e6);
}

/* Print what the program has from the driver itself, by kind. */
static void
print_outside_kinds(const struct counters *m)
{
	const struct {
		const char *label;
		uint64_t bytes;
	} kinds[] = {
#define SHOWN_KIND(name, label) { label, m->outside_##name##_bytes },
		WEIR_OUTSIDE_KINDS(SHOWN_KIND)
#undef SHOWN_KIND
	};
	const char *comma = "  driver  ";
	char text[SHOW_TEXT];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].bytes == 0)
			continue;
		printf("%s%s %s", comma, kinds[i].label,
		    size_of(kinds[i].bytes, text));
		comma = ", ";
	}
	if (*comma == ',')
		putchar('\n');
}

/* Add the sample to the chart of the device, and print the chart. */
static void
print_chart(const struct watch_reply *now, const struct watch_device *device)
{
	static struct watch_chart charts[WATCH_DEVICES];

	if (device->device >= WATCH_DEVICES)
		return;
	watch_chart_add(&charts[device->device], now->time_ns, &device->memory);
	watch_chart_print(&charts[device->device], stdout);
}

static void
print_watch_device(const struct watch_reply *now,
    const struct watch_reply *before, const struct watch_device *device)
{
	struct rates rates = rates_of(now, before, device);
	const struct counters *m = &device->memory;
	char texts[4][SHOW_TEXT];
	char bar[SHOW_BAR + 1];

	printf("device %" PRIu32 "  [%s] of %s\n", device->device,
	    bar_of(device, bar), size_of(device->total_bytes, texts[0]));
	print_chart(now, device);
	print_memory("memory", m);
	print_outside_kinds(m);
	if (device->pinned.held_peak_bytes > 0)
		print_pinned(&device->pinned);
	if (pending_is_old(device, &rates))
		puts("  note    pending memory may be complete by now: weir "
		     "asks the device when the program allocates");
	printf("  rates   allocations %s, frees %s, driver calls %s, "
	       "events %s\n",
	    rate_of(rates.allocations, texts[0]),
	    rate_of(rates.frees, texts[1]),
	    rate_of(rates.driver_calls, texts[2]),
	    rate_of(rates.events, texts[3]));
	printf("  counts  host waits %" PRIu64 ", GPU waits %" PRIu64
	       ", out of memory %" PRIu64 "\n",
	    m->host_waits, m->gpu_waits, m->ooms);
	print_streams(device);
	print_pools(device);
}

void
watch_show_text(const struct watch_reply *now, const struct watch_reply *before,
    bool redraw)
{
	static const char *const levels[] = { "off", "none", "state", "alloc",
		"all" };
	char name[32];

	watch_program(now->pid, name);
	if (redraw)
		fputs("\033[H\033[J", stdout);
	else if (before != NULL)
		putchar('\n');
	printf("process %" PRIu32 " (%s), %.1f s since its first allocation, "
	       "history %s, weir %s\n",
	    now->pid, name, (double)(now->time_ns - now->began_ns) / 1e9,
	    now->history < 5 ? levels[now->history] : "?", now->weir);
	if (now->device_count == 0)
		puts("no memory of any device");
	for (uint32_t i = 0; i < now->device_count; i++)
		print_watch_device(now, before, &now->devices[i]);
}

/* ---- JSON -------------------------------------------------------------- */

static void
put_value(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key,
	    value > INT64_MAX ? json_null() : json_integer((json_int_t)value));
}

static void
put_rate(json_t *object, const char *key, double value)
{
	json_object_set_new(
	    object, key, value < 0 ? json_null() : json_real(value));
}

static json_t *
memory_json(const struct counters *m)
{
	json_t *object = json_object();

	for (size_t i = 0; i < COUNTER_COUNT; i++)
		put_value(object, counter_rows[i].name, m->values[i]);
	return object;
}

static json_t *
pool_json(const uint64_t pool[2])
{
	return json_pack("[I, I]", (json_int_t)pool[0], (json_int_t)pool[1]);
}

static json_t *
streams_json(const struct watch_device *device)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < device->stream_count; i++) {
		const struct watch_stream *row = &device->streams[i];
		json_t *object = json_object();
		char text[SHOW_TEXT];

		json_object_set_new(object, "stream",
		    json_string(watch_stream_text(row->stream, text)));
		json_object_set_new(object, "pool", pool_json(row->pool));
		put_value(object, "live_bytes", row->live_bytes);
		put_value(object, "pending_bytes", row->pending_bytes);
		put_value(object, "live_blocks", row->live_blocks);
		put_value(object, "allocations", row->allocations);
		json_array_append_new(rows, object);
	}
	return rows;
}

static json_t *
pools_json(const struct watch_device *device)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < device->pool_count; i++) {
		const struct watch_pool *row = &device->pools[i];
		json_t *object = json_object();

		json_object_set_new(object, "pool", pool_json(row->pool));
		put_value(object, "held_bytes", row->held_bytes);
		put_value(object, "live_bytes", row->live_bytes);
		put_value(object, "pending_bytes", row->pending_bytes);
		put_value(object, "live_blocks", row->live_blocks);
		json_array_append_new(rows, object);
	}
	return rows;
}

static json_t *
watch_device_json(const struct watch_reply *now,
    const struct watch_reply *before, const struct watch_device *device)
{
	struct rates rates = rates_of(now, before, device);
	json_t *object = json_object();

	put_value(object, "device", device->device);
	put_value(object, "total_bytes", device->total_bytes);
	json_object_set_new(object, "memory", memory_json(&device->memory));
	json_object_set_new(object, "pinned", memory_json(&device->pinned));
	put_rate(object, "allocations_per_s", rates.allocations);
	put_rate(object, "frees_per_s", rates.frees);
	put_rate(object, "driver_calls_per_s", rates.driver_calls);
	put_rate(object, "events_per_s", rates.events);
	put_value(object, "events_recorded", device->events_recorded);
	put_value(object, "events_dropped", device->events_dropped);
	put_value(object, "streams", device->streams_all);
	put_value(object, "private_pools", device->pools_all);
	json_object_set_new(object, "top_streams", streams_json(device));
	json_object_set_new(object, "top_pools", pools_json(device));
	return object;
}

json_t *
watch_json(const struct watch_reply *now, const struct watch_reply *before)
{
	json_t *object = json_object();
	json_t *devices = json_array();
	char name[32];

	watch_program(now->pid, name);
	put_value(object, "format_version", JSON_VERSION);
	put_value(object, "pid", now->pid);
	json_object_set_new(object, "program", json_string(name));
	json_object_set_new(object, "weir", json_string(now->weir));
	put_value(object, "time_ns", now->time_ns);
	put_value(object, "age_ns", now->time_ns - now->began_ns);
	put_value(object, "metadata_bytes", now->metadata_bytes);
	json_object_set_new(object, "history", json_boolean(now->history != 0));
	for (uint32_t i = 0; i < now->device_count; i++)
		json_array_append_new(
		    devices, watch_device_json(now, before, &now->devices[i]));
	json_object_set_new(object, "devices", devices);
	return object;
}

bool
watch_show_json(const struct watch_reply *now, const struct watch_reply *before)
{
	json_t *object = watch_json(now, before);
	bool printed;

	printed = json_print(object, JSON_COMPACT, stdout);
	putchar('\n');
	json_decref(object);
	return printed;
}
