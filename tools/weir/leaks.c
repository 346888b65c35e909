/*
 * weir leaks: stacks whose blocks pile up.
 *
 * A leak is a place that allocates again and again and does not free. In a
 * trace it is a stack that several live blocks come from, that has freed less
 * than half of what it allocated, and whose live blocks are from several parts
 * of the trace: what one step of a program needs comes at one time.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/weir/snapshot_lives.h"
#include "tools/weir/snapshot_view.h"

enum {
	PARTS = 8,       /* of the trace, of equally many events */
	PARTS_LEAST = 3, /* that live blocks are from */
};

struct choices {
	struct view_args view;
	unsigned long least;
};

static const struct argp_option flags[] = {
	{ "least", 'n', "N", 0,
	    "suspect a stack from N live blocks on; 3 without", 0 },
	{ 0 },
};

static error_t
take_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		view_init(state);
		return 0;
	case 'n':
		choices->least = view_count("--least", value, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_leaks = { flags, take_flag, "SNAPSHOT",
	"Print the stacks whose blocks pile up: that allocated all through the "
	"trace and freed less than half of it.\v"
	"Needs a trace with stacks. A program that is still building up what "
	"it keeps looks like one that leaks: take the snapshot after some "
	"rounds of work. Exit status: 1 if there are suspects.",
	view_children, NULL, NULL };

struct suspect {
	uint32_t device;
	uint32_t stack;
	uint64_t allocs;
	uint64_t frees;
	uint64_t live;
	uint64_t live_bytes;
	unsigned parts; /* a bit for each part of the trace with a live block */
};

struct suspects {
	size_t count;
	struct suspect *items;
	uint64_t traced; /* allocations with a stack */
};

static void
count_life(const struct snapshot *snapshot, const struct snapshot_trace *trace,
    const struct life *life, struct suspect *suspect)
{
	uint64_t at;

	suspect->allocs++;
	if (life->requested != LIFE_NONE || life->completed != LIFE_NONE) {
		suspect->frees++;
		return;
	}
	if (life->block == LIFE_NONE)
		return;
	at = life->alloc - trace->first;
	suspect->live++;
	suspect->live_bytes += snapshot->blocks[life->block].bytes;
	suspect->parts |= 1u << (unsigned)(at * PARTS / trace->count);
}

static int
compare_suspects(const void *a, const void *b)
{
	const struct suspect *one = a;
	const struct suspect *other = b;

	if (one->live_bytes != other->live_bytes)
		return one->live_bytes > other->live_bytes ? -1 : 1;
	if (one->device != other->device)
		return one->device < other->device ? -1 : 1;
	return one->stack < other->stack ? -1 : one->stack > other->stack;
}

/* Add the suspects of a device; `by_stack` has a place for each stack. */
static bool
find_of_device(const struct snapshot *snapshot, uint32_t device,
    const struct choices *choices, struct suspects *out)
{
	struct suspect *by_stack =
	    calloc(snapshot->stack_count, sizeof(*by_stack));
	struct suspect *items = realloc(
	    out->items, (out->count + snapshot->stack_count) * sizeof(*items));
	struct lives lives = { 0 };

	if (items != NULL)
		out->items = items;
	if (by_stack == NULL || items == NULL ||
	    !lives_find(snapshot, device, &lives)) {
		free(by_stack);
		return false;
	}
	for (uint32_t i = 0; i < lives.count; i++) {
		const struct life *life = &lives.items[i];

		if (life->alloc == LIFE_NONE || life->stack == 0)
			continue;
		out->traced++;
		count_life(snapshot, &snapshot->traces[device], life,
		    &by_stack[life->stack]);
	}
	for (uint32_t i = 0; i < snapshot->stack_count; i++) {
		struct suspect *suspect = &by_stack[i];

		suspect->device = device;
		suspect->stack = i;
		if (suspect->live >= choices->least &&
		    2 * suspect->frees < suspect->allocs &&
		    __builtin_popcount(suspect->parts) >= PARTS_LEAST)
			out->items[out->count++] = *suspect;
	}
	free(by_stack);
	lives_drop(&lives);
	return true;
}

static bool
print_text(const struct snapshot *snapshot, const struct suspects *found)
{
	struct table *table = table_new("rrrrl");
	static const char *const headings[] = { "live", "blocks", "allocated",
		"freed", "allocated by" };
	uint64_t bytes = 0;
	char text[VIEW_TEXT];
	bool printed;

	for (size_t i = 0; i < found->count; i++)
		bytes += found->items[i].live_bytes;
	if (found->traced == 0)
		puts("the trace has no allocation with a stack: nothing can "
		     "be told");
	else if (found->count == 0)
		puts("no stack's blocks pile up");
	else
		printf("the blocks of %zu stacks pile up: %s\n", found->count,
		    size_text(bytes));
	for (size_t i = 0; i < 5 && found->count > 0; i++)
		table_add(table, "%s", headings[i]);
	for (size_t i = 0; i < found->count; i++) {
		const struct suspect *suspect = &found->items[i];

		table_add(table, "%s", size_text(suspect->live_bytes));
		table_add(table, "%s", count_text(suspect->live, text));
		table_add(table, "%s", count_text(suspect->allocs, text));
		table_add(table, "%s", count_text(suspect->frees, text));
		table_add(
		    table, "%s", site_text(snapshot, suspect->stack, text));
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static json_t *
all_json(const struct snapshot *snapshot, const char *path,
    const struct suspects *found)
{
	json_t *object = json_object();
	json_t *list = json_array();
	char text[VIEW_TEXT];

	for (size_t i = 0; i < found->count; i++) {
		const struct suspect *suspect = &found->items[i];
		json_t *one = json_object();

		put_number(one, "device", suspect->device);
		put_number(one, "live_bytes", suspect->live_bytes);
		put_number(one, "live_blocks", suspect->live);
		put_number(one, "allocs", suspect->allocs);
		put_number(one, "frees", suspect->frees);
		json_object_set_new(one, "site",
		    json_string(site_text(snapshot, suspect->stack, text)));
		json_object_set_new(
		    one, "frames", stack_json(snapshot, suspect->stack));
		json_array_append_new(list, one);
	}
	json_object_set_new(object, "snapshot", json_string(path));
	put_number(object, "traced_allocs", found->traced);
	json_object_set_new(object, "suspects", list);
	return object;
}

static int
tell(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;
	struct suspects found = { 0 };
	int status = TOOL_DONE;

	for (uint32_t d = 0; d < snapshot->trace_count; d++)
		if (view_has(args, d) && snapshot->traces[d].count > 0 &&
		    !find_of_device(snapshot, d, choices, &found))
			status = TOOL_NO;
	if (found.count > 0)
		qsort(found.items, found.count, sizeof(*found.items),
		    compare_suspects);
	if (status == TOOL_DONE && args->json)
		status = print_json(all_json(snapshot, args->paths[0], &found));
	else if (status == TOOL_DONE && !print_text(snapshot, &found))
		status = TOOL_NO;
	if (found.count > 0)
		status = TOOL_NO;
	free(found.items);
	return status;
}

int
cmd_leaks(int argc, char **argv)
{
	struct choices choices = { .least = 3 };

	return view_run(&argp_leaks, argc, argv, &choices.view, tell);
}
