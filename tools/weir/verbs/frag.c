/*
 * weir frag: memory that is reserved and not used, and why it is of no use.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/weir/reading/snapshot_view.h"

const struct argp argp_frag = { NULL, view_parse_flag, "SNAPSHOT",
	"Print where memory is reserved and not used: rounding inside blocks, "
	"free blocks between used ones, and empty segments.\v"
	"Fragmentation of a stream and pool is the share of its free memory "
	"that lies outside its largest free block. At 0 %, one request could "
	"use all of the free memory. " TOOL_STATUS,
	view_children, NULL, NULL };

enum { CLASSES = 44 }; /* of free blocks, by log2 of their size */

struct free_blocks {
	uint64_t count[CLASSES];
	uint64_t bytes[CLASSES];
};

static unsigned
free_class_of(uint64_t bytes)
{
	unsigned log = bytes == 0 ? 0 : 63 - (unsigned)__builtin_clzll(bytes);

	return log < CLASSES ? log : CLASSES - 1;
}

static struct free_blocks
count_free(const struct snapshot *snapshot, const struct view_args *args)
{
	struct free_blocks free = { 0 };

	for (uint32_t s = 0; s < snapshot->segment_count; s++) {
		const struct snapshot_segment *segment = &snapshot->segments[s];

		if (!view_has(args, segment->device))
			continue;
		for (uint32_t b = 0; b < segment->block_count; b++) {
			const struct snapshot_block *block =
			    &snapshot->blocks[segment->first_block + b];
			unsigned class = free_class_of(block->bytes);

			if (block->state != SNAPSHOT_INACTIVE)
				continue;
			free.count[class]++;
			free.bytes[class] += block->bytes;
		}
	}
	return free;
}

/* The share of free memory that the largest request cannot use. */
static double
fragmentation(const struct sums *sums)
{
	return sums->free == 0 ?
	    0 :
	    1 - (double)sums->largest_free / (double)sums->free;
}

static bool
print_frag_groups(
    const struct snapshot *snapshot, const struct group *groups, size_t count)
{
	struct table *table = table_new("rrllrrrrrr");
	static const char *const headings[] = { "device", "stream", "pool",
		"kind", "reserved", "rounding", "free in pieces", "free blocks",
		"largest", "fragmentation" };
	char text[VIEW_TEXT];
	bool printed;

	for (size_t i = 0; i < 10; i++)
		table_add(table, "%s", headings[i]);
	for (size_t i = 0; i < count; i++) {
		const struct sums *sums = &groups[i].sums;

		table_add(table, "%" PRIu32, groups[i].device);
		table_add(table, "%s", stream_text(groups[i].stream, text));
		table_add(
		    table, "%s", pool_text(snapshot, groups[i].pool, text));
		table_add(table, "%s", groups[i].small ? "small" : "large");
		table_add(table, "%s", size_text(sums->reserved));
		table_add(table, "%s", size_text(rounding_of(sums)));
		table_add(table, "%s", size_text(sums->free - sums->idle));
		table_add(table, "%s", count_text(sums->free_blocks, text));
		table_add(table, "%s", size_text(sums->largest_free));
		table_add(table, "%.0f %%", 100 * fragmentation(sums));
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static bool
print_classes(const struct free_blocks *free)
{
	struct table *table = table_new("rrr");
	char text[VIEW_TEXT];
	bool printed;

	table_add(table, "free blocks from");
	table_add(table, "blocks");
	table_add(table, "bytes");
	for (unsigned i = 0; i < CLASSES; i++) {
		if (free->count[i] == 0)
			continue;
		table_add(table, "%s", size_text(UINT64_C(1) << i));
		table_add(table, "%s", count_text(free->count[i], text));
		table_add(table, "%s", size_text(free->bytes[i]));
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static bool
print_frag_text(const struct snapshot *snapshot, const struct view_args *args,
    const struct group *groups, size_t count)
{
	struct sums sums = sums_of(snapshot, args->device);
	struct free_blocks free = count_free(snapshot, args);
	uint64_t unused = sums.free + rounding_of(&sums);
	char text[VIEW_TEXT];
	char share[VIEW_TEXT];

	printf("%s of %s reserved are not used (%s): %s in free pieces, %s in "
	       "%s, %s by rounding\n\n",
	    size_text(unused), size_text(sums.reserved),
	    share_text(unused, sums.reserved, share),
	    size_text(sums.free - sums.idle), size_text(sums.idle),
	    plural_text(sums.idle_segments, "idle segment", text),
	    size_text(rounding_of(&sums)));
	if (!print_frag_groups(snapshot, groups, count))
		return false;
	if (sums.free_blocks == 0)
		return true;
	putchar('\n');
	return print_classes(&free);
}

static json_t *
frag_groups_json(const struct snapshot *snapshot, const struct view_args *args,
    const struct group *groups, size_t count)
{
	struct sums sums = sums_of(snapshot, args->device);
	struct free_blocks free = count_free(snapshot, args);
	json_t *object = json_object();
	json_t *pools = json_array();
	json_t *classes = json_array();
	char text[VIEW_TEXT];

	json_object_set_new(object, "snapshot", json_of_text(args->paths[0]));
	put_sums(object, &sums);
	put_number(object, "rounding_bytes", rounding_of(&sums));
	for (size_t i = 0; i < count; i++) {
		json_t *one = json_object();

		put_number(one, "device", groups[i].device);
		put_number(one, "stream", groups[i].stream);
		json_object_set_new(one, "pool",
		    json_string(pool_text(snapshot, groups[i].pool, text)));
		json_object_set_new(one, "kind",
		    json_string(groups[i].small ? "small" : "large"));
		put_sums(one, &groups[i].sums);
		put_number(one, "rounding_bytes", rounding_of(&groups[i].sums));
		json_object_set_new(one, "fragmentation",
		    json_real(fragmentation(&groups[i].sums)));
		json_array_append_new(pools, one);
	}
	for (unsigned i = 0; i < CLASSES; i++) {
		json_t *one;

		if (free.count[i] == 0)
			continue;
		one = json_object();
		put_number(one, "from_bytes", UINT64_C(1) << i);
		put_number(one, "blocks", free.count[i]);
		put_number(one, "bytes", free.bytes[i]);
		json_array_append_new(classes, one);
	}
	json_object_set_new(object, "pools", pools);
	json_object_set_new(object, "free_block_sizes", classes);
	return object;
}

/* NULL without memory. */
static json_t *
frag_json(const struct snapshot *snapshot, const struct view_args *args)
{
	size_t count;
	struct group *groups = groups_of(snapshot, args, &count);
	json_t *json = NULL;

	if (groups != NULL)
		json = frag_groups_json(snapshot, args, groups, count);
	free(groups);
	return json;
}

static bool
print_frag(const struct snapshot *snapshot, const struct view_args *args)
{
	size_t count;
	struct group *groups = groups_of(snapshot, args, &count);
	bool printed =
	    groups != NULL && print_frag_text(snapshot, args, groups, count);

	free(groups);
	return printed;
}

static int
report_frag(const struct snapshot *snapshot, const struct view_args *args)
{
	struct snapshot host = snapshot_host(snapshot);
	bool has_host = host.segment_count > 0;

	if (args->json)
		return print_json(put_host(frag_json(snapshot, args),
		    has_host ? frag_json(&host, args) : NULL));
	if (!print_frag(snapshot, args))
		return TOOL_FAILED;
	if (has_host)
		print_host_heading();
	return !has_host || print_frag(&host, args) ? TOOL_DONE : TOOL_FAILED;
}

int
cmd_frag(int argc, char **argv)
{
	struct view_args args = { 0 };

	return view_run(&argp_frag, argc, argv, &args, report_frag);
}
