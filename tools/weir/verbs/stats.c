/*
 * weir stats: print the memory of each device, and the number of its events.
 */
#include "tools/weir/reading/snapshot_view.h"

const struct argp argp_stats = { NULL, view_parse_flag, "SNAPSHOT",
	"Print sums of the memory of each device of a snapshot, and the number "
	"of events of each action.\v"
	"Reserved bytes are held from the driver. Allocated bytes are in the "
	"hands of callers. Active bytes are allocated bytes and those of freed "
	"blocks that were not yet seen to be complete. Requested bytes are "
	"those that callers asked for, of active blocks. " TOOL_STATUS,
	view_children, NULL, NULL };

static void
count_events(const struct snapshot *snapshot, uint32_t device,
    uint64_t counts[SNAPSHOT_ACTIONS_MAX])
{
	struct snapshot_trace trace = { 0 };

	if (device < snapshot->trace_count)
		trace = snapshot->traces[device];
	for (uint32_t i = 0; i < trace.count; i++)
		counts[snapshot->events.action[trace.first + i]]++;
}

static json_t *
stats_device_json(const struct snapshot *snapshot, uint32_t device)
{
	uint64_t counts[SNAPSHOT_ACTIONS_MAX] = { 0 };
	struct sums sums = sums_of(snapshot, (int)device);
	json_t *object = json_object();
	json_t *events = json_object();

	put_number(object, "device", device);
	put_sums(object, &sums);
	count_events(snapshot, device, counts);
	for (uint32_t i = 0; i < snapshot->action_count; i++)
		if (counts[i] > 0)
			put_number(events, snapshot_action_name(snapshot, i),
			    counts[i]);
	json_object_set_new(object, "events", events);
	return object;
}

/* The page-locked host memory of each device; NULL if there is none. */
static json_t *
host_json(const struct snapshot *snapshot, const struct view_args *args)
{
	struct snapshot host = snapshot_host(snapshot);
	json_t *devices;

	if (host.segment_count == 0)
		return NULL;
	devices = json_array();
	for (uint32_t d = 0; d < snapshot_device_count(&host); d++) {
		struct sums sums = sums_of(&host, (int)d);
		json_t *object = json_object();

		put_number(object, "device", d);
		put_sums(object, &sums);
		if (view_has(args, d) && sums.segments > 0)
			json_array_append_new(devices, object);
		else
			json_decref(object);
	}
	return devices;
}

static json_t *
stats_json(const struct snapshot *snapshot, const struct view_args *args)
{
	json_t *object = json_object();
	json_t *devices = json_array();
	json_t *settings = json_object();

	for (uint32_t d = 0; d < snapshot_device_count(snapshot); d++)
		if (view_has(args, d))
			json_array_append_new(
			    devices, stats_device_json(snapshot, d));
	for (uint32_t i = 0; i < snapshot->setting_count; i++)
		json_object_set_new(settings,
		    snapshot_text(snapshot, snapshot->settings[i].name),
		    json_string(
			snapshot_text(snapshot, snapshot->settings[i].value)));
	json_object_set_new(object, "snapshot", json_of_text(args->paths[0]));
	json_object_set_new(object, "devices", devices);
	json_object_set_new(object, "settings", settings);
	return put_host(object, host_json(snapshot, args));
}

static void
add_stats_row(struct table *table, const char *name, const char *value)
{
	table_add(table, "%s", name);
	table_add(table, "%s", value);
}

static bool
print_stats_device(
    const struct snapshot *snapshot, uint32_t device, const char *what)
{
	uint64_t counts[SNAPSHOT_ACTIONS_MAX] = { 0 };
	struct sums sums = sums_of(snapshot, (int)device);
	struct table *table = table_new("lr");
	char text[VIEW_TEXT];
	char name[VIEW_TEXT];
	bool printed;

	printf("device %u holds %s%s, of which %s are allocated (%s)\n", device,
	    size_text(sums.reserved), what, size_text(sums.allocated),
	    share_text(sums.allocated, sums.reserved, text));
	add_stats_row(table, "segments", count_text(sums.segments, text));
	add_stats_row(table, "blocks", count_text(sums.blocks, text));
	add_stats_row(table, "reserved", size_text(sums.reserved));
	add_stats_row(table, "allocated", size_text(sums.allocated));
	add_stats_row(
	    table, "active", size_text(sums.allocated + sums.pending));
	add_stats_row(table, "requested", size_text(sums.requested));
	add_stats_row(table, "free", size_text(sums.free));
	add_stats_row(table, "largest free", size_text(sums.largest_free));
	count_events(snapshot, device, counts);
	for (uint32_t i = 0; i < snapshot->action_count; i++) {
		if (counts[i] == 0)
			continue;
		table_add(table, "events %s",
		    plain_text(snapshot_action_name(snapshot, i), name));
		table_add(table, "%s", count_text(counts[i], text));
	}
	printed = table_print(table, false);
	table_free(table);
	return printed;
}

static int
report_stats(const struct snapshot *snapshot, const struct view_args *args)
{
	uint32_t devices = snapshot_device_count(snapshot);
	struct snapshot host = snapshot_host(snapshot);
	bool printed = true;

	if (args->json)
		return print_json(stats_json(snapshot, args));
	if (devices == 0 && host.segment_count == 0)
		puts("an empty snapshot: no segment and no event");
	for (uint32_t d = 0; d < devices; d++)
		if (view_has(args, d) && !print_stats_device(snapshot, d, ""))
			printed = false;
	for (uint32_t d = 0; d < snapshot_device_count(&host); d++)
		if (view_has(args, d) && sums_of(&host, (int)d).segments > 0 &&
		    !print_stats_device(
			&host, d, " of page-locked host memory"))
			printed = false;
	return printed ? TOOL_DONE : TOOL_FAILED;
}

int
cmd_stats(int argc, char **argv)
{
	struct view_args args = { 0 };

	return view_run(&argp_stats, argc, argv, &args, report_stats);
}
