/*
 * weir check: find the faults of a snapshot.
 *
 * A fault bears the name of the invariant of docs/invariants.md that it breaks,
 * if a live allocator has this invariant too (reading/snapshot_faults.h).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/faults.h"
#include "tools/weir/reading/snapshot_faults.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/verbs/check_gates.h"

struct choices {
	struct view_args view;
	struct gates gates;
};

enum { MAX_PEAK = 0x100, NO_LEAKS, NO_GROWTH };

static const struct argp_option flags[] = {
	{ "max-peak", MAX_PEAK, "SIZE", 0,
	    "more live bytes than SIZE on one device are a fault", 0 },
	{ "no-leaks", NO_LEAKS, NULL, 0,
	    "what 'weir leaks' suspects is a fault", 0 },
	{ "no-growth", NO_GROWTH, "PERCENT", OPTION_ARG_OPTIONAL,
	    "it is a fault if the last third of the trace needs more than the "
	    "third before, by over PERCENT (default: 5)",
	    0 },
	{ 0 },
};

static error_t
parse_check_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;
	struct gates *gates = &choices->gates;

	switch (key) {
	case MAX_PEAK:
		if (!bytes_parse(value, &gates->max_peak) ||
		    gates->max_peak == 0)
			argp_error(state,
			    "--max-peak: '%s' is no size, such as 20G", value);
		return 0;
	case NO_LEAKS:
		gates->no_leaks = true;
		return 0;
	case NO_GROWTH:
		gates->no_growth = true;
		gates->growth_percent = GATE_GROWTH_PERCENT;
		if (value != NULL &&
		    !number_parse(value, 0, 1e6, &gates->growth_percent))
			argp_error(state,
			    "--no-growth: '%s' is no number of percent", value);
		return 0;
	default:
		return view_parse_flag(key, value, state);
	}
}

const struct argp argp_check = { flags, parse_check_flag, "SNAPSHOT",
	"Check that a memory snapshot is consistent: blocks tile their "
	"segments, segments do not overlap, sums are right, and the trace ends "
	"with the blocks of the snapshot.\v"
	"Each fault is one line, with the invariant of docs/invariants.md that "
	"it breaks. With --max-peak, --no-growth and --no-leaks the program's "
	"use of memory is checked too, for a test run: "
	"weir check --max-peak=20G --no-leaks SNAPSHOT. "
	"Exit status: 0 no fault, 1 faults, 2 trouble.",
	view_children, NULL, NULL };

/* ---- Output ---------------------------------------------------------- */

/* Faults of the program's use of memory have none. */
static void
print_address(struct table *table, const json_t *address)
{
	if (address == NULL)
		table_add(table, "%s", "");
	else
		table_add(
		    table, "%" PRIx64, (uint64_t)json_integer_value(address));
}

static bool
print_faults(const struct snapshot *snapshot, const json_t *list)
{
	struct table *table = table_new("lrrl");
	static const char *const headings[] = { "rule", "device", "address",
		"fault" };
	char faults[VIEW_TEXT];
	char segments[VIEW_TEXT];
	char blocks[VIEW_TEXT];
	char events[VIEW_TEXT];
	const json_t *one;
	size_t i;
	bool printed;

	printf("%s in %s, %s and %s\n",
	    plural_text(json_array_size(list), "fault", faults),
	    plural_text(snapshot->segment_count + snapshot->host_count,
		"segment", segments),
	    plural_text(snapshot->block_count, "block", blocks),
	    plural_text(snapshot->events.count, "event", events));
	for (i = 0; i < 4 && json_array_size(list) > 0; i++)
		table_add(table, "%s", headings[i]);
	json_array_foreach(list, i, one)
	{
		table_add(table, "%s",
		    json_string_value(json_object_get(one, "rule")));
		table_add(table, "%" JSON_INTEGER_FORMAT,
		    json_integer_value(json_object_get(one, "device")));
		print_address(table, json_object_get(one, "address"));
		table_add(table, "%s",
		    json_string_value(json_object_get(one, "what")));
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static int
report_faults(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;
	struct faults faults = { .list = json_array() };
	size_t count;
	int status = TOOL_DONE;

	faults_find(snapshot, args, &faults);
	if (!gates_check(snapshot, args, &choices->gates, &faults)) {
		status = TOOL_FAILED;
	} else if (faults.failed || faults.list == NULL) {
		complain("out of memory");
		status = TOOL_FAILED;
	} else if (args->json) {
		status = print_json(json_pack("{s:o, s:O}", "snapshot",
		    json_of_text(args->paths[0]), "faults", faults.list));
	} else if (!print_faults(snapshot, faults.list)) {
		status = TOOL_FAILED;
	}
	count = json_array_size(faults.list);
	json_decref(faults.list);
	return status == TOOL_DONE && count > 0 ? TOOL_FOUND : status;
}

int
cmd_check(int argc, char **argv)
{
	struct choices choices = { 0 };

	return view_run(&argp_check, argc, argv, &choices.view, report_faults);
}
