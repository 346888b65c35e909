/*
 * weir show: print the segments of a snapshot, and their blocks.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tuning.h"

struct choices {
	struct view_args view;
	bool blocks;
};

static const struct argp_option flags[] = {
	{ "blocks", 'b', NULL, 0, "also print a line for each block", 0 },
	VIEW_FRAMES_FLAG,
	{ 0 },
};

static error_t
parse_show_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'b':
		choices->blocks = true;
		return 0;
	case 'f':
		view_parse_frames(&choices->view, value, state);
		return 0;
	default:
		return view_parse_flag(key, value, state);
	}
}

const struct argp argp_show = { flags, parse_show_flag, "SNAPSHOT",
	"Print the segments of a memory snapshot: sums for each stream and "
	"pool, and then one line for each segment.\v"
	"Each line ends with a map of its segment: '#' is in use, '.' is free, "
	"'+' is both, '~' is freed and not yet seen to be "
	"complete. " TOOL_STATUS,
	view_children, NULL, NULL };

/* ---- Text ------------------------------------------------------------ */

/* The character of the map for the part of a segment from `from` to `to`. */
static char
cell_of(const struct snapshot *snapshot, const struct snapshot_segment *segment,
    uint64_t from, uint64_t to)
{
	const struct snapshot_block *blocks =
	    snapshot->blocks + segment->first_block;
	bool seen[SNAPSHOT_STATES] = { false };

	for (uint32_t i = 0; i < segment->block_count; i++)
		if (blocks[i].address < to &&
		    blocks[i].address + blocks[i].bytes > from)
			seen[blocks[i].state] = true;
	if (seen[SNAPSHOT_PENDING])
		return '~';
	if (seen[SNAPSHOT_ACTIVE])
		return seen[SNAPSHOT_INACTIVE] ? '+' : '#';
	return seen[SNAPSHOT_INACTIVE] ? '.' : '?';
}

static const char *
map_of(const struct snapshot *snapshot, const struct snapshot_segment *segment,
    char map[MAP_CELLS + 1])
{
	uint64_t step = segment->bytes / MAP_CELLS;

	for (unsigned i = 0; i < MAP_CELLS; i++) {
		uint64_t from = segment->address + i * step;
		uint64_t to = i + 1 == MAP_CELLS ?
		    segment->address + segment->bytes :
		    from + step;

		map[i] = step == 0 ? '?' : cell_of(snapshot, segment, from, to);
	}
	map[MAP_CELLS] = '\0';
	return map;
}

static bool
print_show_groups(const struct snapshot *snapshot, const struct view_args *args)
{
	struct table *table = table_new("rrllrrrrrr");
	char text[VIEW_TEXT];
	struct group *groups;
	size_t count;
	bool printed;
	static const char *const headings[] = { "device", "stream", "pool",
		"kind", "segments", "reserved", "allocated", "pending", "free",
		"largest free" };

	groups = groups_of(snapshot, args, &count);
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		table_add(table, "%s", headings[i]);
	for (size_t i = 0; i < count; i++) {
		const struct group *group = &groups[i];

		table_add(table, "%" PRIu32, group->device);
		table_add(table, "%s", stream_text(group->stream, text));
		table_add(table, "%s", pool_text(snapshot, group->pool, text));
		table_add(table, "%s", group->small ? "small" : "large");
		table_add(table, "%" PRIu64, group->sums.segments);
		table_add(table, "%s", size_text(group->sums.reserved));
		table_add(table, "%s", size_text(group->sums.allocated));
		table_add(table, "%s", size_text(group->sums.pending));
		table_add(table, "%s", size_text(group->sums.free));
		table_add(table, "%s", size_text(group->sums.largest_free));
	}
	printed = groups != NULL && table_print(table, true);
	table_free(table);
	free(groups);
	return printed;
}

static void
add_segment_row(struct table *table, const struct snapshot *snapshot,
    const struct snapshot_segment *segment)
{
	struct sums sums = { 0 };
	char pool[VIEW_TEXT];
	char share[VIEW_TEXT];
	char map[MAP_CELLS + 1];

	sums_add(&sums, snapshot, segment);
	table_add(table, "%" PRIx64, segment->address);
	table_add(table, "%s", size_text(segment->bytes));
	table_add(table, "%" PRIu32, segment->device);
	table_add(table, "%s", stream_text(segment->stream, pool));
	table_add(table, "%s", pool_text(snapshot, segment->pool, pool));
	table_add(table, "%s%s", segment->small ? "small" : "large",
	    segment->expandable ? ", expandable" : "");
	table_add(table, "%" PRIu32, segment->block_count);
	table_add(table, "%s",
	    share_text(sums.allocated + sums.pending, sums.reserved, share));
	table_add(table, "%s", map_of(snapshot, segment, map));
}

/* Add a line for a block, in the columns of the segments. */
static void
add_block_row(struct table *table, const struct snapshot *snapshot,
    const struct view_args *args, const struct snapshot_block *block)
{
	static const char *const states[SNAPSHOT_STATES] = {
		[SNAPSHOT_INACTIVE] = "free",
		[SNAPSHOT_ACTIVE] = "allocated",
		[SNAPSHOT_PENDING] = "pending",
	};
	char site[CALLERS_TEXT];

	table_add(table, "  %" PRIx64, block->address);
	table_add(table, "%s", size_text(block->bytes));
	table_add(table, "%s", "");
	if (block->reports_stream)
		table_add(table, "%s", stream_text(block->stream, site));
	else
		table_add(table, "%s", "");
	table_add(table, "%s", "");
	table_add(table, "%s", block->cached ? "cached" : states[block->state]);
	table_add(table, "%s", "");
	table_add(table, "%s",
	    block->state == SNAPSHOT_INACTIVE ?
		"" :
		size_text(block->requested_bytes));
	table_add(table, "%s",
	    block->state == SNAPSHOT_INACTIVE && block->stack == 0 ?
		"" :
		callers_text(args->callers, block->stack, site));
	if (block->state != SNAPSHOT_INACTIVE)
		add_frames(table, 9, args, snapshot, block->stack);
}

static bool
print_segments(const struct snapshot *snapshot, const struct choices *choices)
{
	struct table *table = table_new("lrrrllrrl");
	bool printed;
	static const char *const headings[] = { "address", "size", "device",
		"stream", "pool", "kind", "blocks", "in use", "map" };

	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		table_add(table, "%s", headings[i]);
	for (uint32_t i = 0; i < snapshot->segment_count; i++) {
		const struct snapshot_segment *segment = &snapshot->segments[i];

		if (!view_has(&choices->view, segment->device))
			continue;
		add_segment_row(table, snapshot, segment);
		for (uint32_t b = 0;
		     choices->blocks && b < segment->block_count; b++)
			add_block_row(table, snapshot, &choices->view,
			    &snapshot->blocks[segment->first_block + b]);
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static bool
print_all(const struct snapshot *snapshot, const struct choices *choices)
{
	struct sums sums = sums_of(snapshot, choices->view.device);
	char count[VIEW_TEXT];
	char share[VIEW_TEXT];

	printf("%s reserved in %s; %s of it allocated (%s), the "
	       "largest free block is %s\n\n",
	    size_text(sums.reserved),
	    plural_text(sums.segments, "segment", count),
	    size_text(sums.allocated),
	    share_text(sums.allocated, sums.reserved, share),
	    size_text(sums.largest_free));
	if (!print_show_groups(snapshot, &choices->view))
		return false;
	putchar('\n');
	return print_segments(snapshot, choices);
}

static bool
print_show_text(const struct snapshot *snapshot, const struct choices *choices)
{
	struct snapshot host = snapshot_host(snapshot);

	if (!print_all(snapshot, choices))
		return false;
	if (host.segment_count == 0)
		return true;
	print_host_heading();
	return print_all(&host, choices);
}

/* ---- JSON ------------------------------------------------------------ */

static json_t *
block_json(const struct snapshot *snapshot, const struct snapshot_block *block)
{
	json_t *object = json_object();

	put_number(object, "address", block->address);
	put_number(object, "size_bytes", block->bytes);
	put_number(object, "requested_bytes", block->requested_bytes);
	json_object_set_new(
	    object, "state", json_string(snapshot_state_name(block->state)));
	put_number(object, "stream", block->stream);
	json_object_set_new(object, "cached", json_boolean(block->cached));
	json_object_set_new(
	    object, "frames", stack_json(snapshot, block->stack));
	return object;
}

static json_t *
segment_json(const struct snapshot *snapshot,
    const struct snapshot_segment *segment, bool with_blocks)
{
	json_t *object = json_object();
	struct sums sums = { 0 };
	char pool[VIEW_TEXT];

	sums_add(&sums, snapshot, segment);
	put_number(object, "device", segment->device);
	put_number(object, "address", segment->address);
	put_number(object, "stream", segment->stream);
	json_object_set_new(object, "pool",
	    json_string(pool_text(snapshot, segment->pool, pool)));
	json_object_set_new(
	    object, "kind", json_string(segment->small ? "small" : "large"));
	json_object_set_new(
	    object, "expandable", json_boolean(segment->expandable));
	put_sums(object, &sums);
	if (with_blocks) {
		json_t *blocks = json_array();

		for (uint32_t i = 0; i < segment->block_count; i++)
			json_array_append_new(blocks,
			    block_json(snapshot,
				&snapshot->blocks[segment->first_block + i]));
		json_object_set_new(object, "block_list", blocks);
	}
	return object;
}

static json_t *
show_part_json(const struct snapshot *snapshot, const struct choices *choices)
{
	struct sums sums = sums_of(snapshot, choices->view.device);
	json_t *object = json_object();
	json_t *list = json_array();

	json_object_set_new(
	    object, "snapshot", json_of_text(choices->view.paths[0]));
	put_sums(object, &sums);
	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		if (view_has(&choices->view, snapshot->segments[i].device))
			json_array_append_new(list,
			    segment_json(snapshot, &snapshot->segments[i],
				choices->blocks));
	json_object_set_new(object, "segment_list", list);
	return object;
}

static json_t *
show_json(const struct snapshot *snapshot, const struct choices *choices)
{
	struct snapshot host = snapshot_host(snapshot);

	return put_host(show_part_json(snapshot, choices),
	    host.segment_count > 0 ? show_part_json(&host, choices) : NULL);
}

static int
report_show(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;

	if (args->json)
		return print_json(show_json(snapshot, choices));
	return print_show_text(snapshot, choices) ? TOOL_DONE : TOOL_FAILED;
}

int
cmd_show(int argc, char **argv)
{
	struct choices choices = { 0 };

	return view_run(&argp_show, argc, argv, &choices.view, report_show);
}
