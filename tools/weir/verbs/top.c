/*
 * weir top: print the holders of memory by stack, by size or by age.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/guess.h"
#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_holders.h"
#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/reading/snapshot_view.h"

enum order { BY_STACK, BY_SIZE, BY_LIFETIME };

struct choices {
	struct view_args view;
	enum order by;
	unsigned long count;
};

static const struct argp_option flags[] = {
	{ "by", 'b', "WHAT", 0, "stack, size or lifetime (default: stack)", 0 },
	{ "count", 'n', "N", 0, "print at most N rows (default: 10)", 0 },
	VIEW_FRAMES_FLAG,
	{ 0 },
};

static error_t
parse_top_flag(int key, char *value, struct argp_state *state)
{
	static const char *const words[] = { "stack", "size", "lifetime",
		NULL };
	struct choices *choices = state->input;
	char nearest[GUESS_TEXT];

	switch (key) {
	case 'b':
		if (strcmp(value, "stack") == 0)
			choices->by = BY_STACK;
		else if (strcmp(value, "size") == 0)
			choices->by = BY_SIZE;
		else if (strcmp(value, "lifetime") == 0)
			choices->by = BY_LIFETIME;
		else
			argp_error(state,
			    "--by is stack, size or lifetime, not '%s'%s",
			    value, guess_of(value, words, nearest));
		return 0;
	case 'n':
		choices->count = view_count("--count", value, state);
		return 0;
	case 'f':
		view_parse_frames(&choices->view, value, state);
		return 0;
	default:
		return view_parse_flag(key, value, state);
	}
}

const struct argp argp_top = { flags, parse_top_flag, "SNAPSHOT",
	"Print the holders of a snapshot's memory: sums of the blocks in use, "
	"by the stack that allocated them, by requested size, or by age.\v"
	"Bytes are those of the blocks, whose sizes are rounded up. The age of "
	"a block is the time since its allocation in the trace. Blocks that "
	"are older than the trace have a row of their own. " TOOL_STATUS,
	view_children, NULL, NULL };

/* A row: the property that its blocks share, and their sums. */
struct row {
	char what[VIEW_TEXT]; /* "" for a stack */
	uint64_t number;      /* the size, or the least age in microseconds */
	uint32_t stack;
	uint64_t blocks;
	uint64_t bytes;
};

struct rows {
	size_t count;
	size_t capacity;
	struct row *items;
	bool failed;
};

static struct row *
add_top_row(struct rows *rows)
{
	if (rows->count == rows->capacity) {
		size_t capacity = rows->capacity == 0 ? 64 : 2 * rows->capacity;
		struct row *items =
		    realloc(rows->items, capacity * sizeof(*items));

		if (items == NULL) {
			complain("out of memory");
			rows->failed = true;
			return NULL;
		}
		rows->items = items;
		rows->capacity = capacity;
	}
	rows->items[rows->count] = (struct row){ 0 };
	return &rows->items[rows->count++];
}

static void
rows_by_stack(const struct snapshot *snapshot, int device, struct rows *rows)
{
	struct holders holders;

	if (!holders_find(snapshot, device, &holders)) {
		rows->failed = true;
		return;
	}
	for (size_t i = 0; i < holders.count && !rows->failed; i++) {
		const struct holder *holder = &holders.items[i];
		struct row *row = add_top_row(rows);

		if (row == NULL)
			break;
		row->stack = holder->stack;
		row->blocks = holder->blocks;
		row->bytes = holder->bytes;
	}
	holders_drop(&holders);
}

static int
compare_numbers(const void *a, const void *b)
{
	const struct row *one = a;
	const struct row *other = b;

	return one->number < other->number ? -1 : one->number > other->number;
}

static int
compare_bytes(const void *a, const void *b)
{
	const struct row *one = a;
	const struct row *other = b;

	if (one->bytes != other->bytes)
		return one->bytes > other->bytes ? -1 : 1;
	return -compare_numbers(a, b);
}

/* Join the rows with the same number. */
static void
join_rows(struct rows *rows)
{
	size_t kept = 0;

	if (rows->count == 0)
		return;
	qsort(rows->items, rows->count, sizeof(struct row), compare_numbers);
	for (size_t i = 1; i < rows->count; i++) {
		struct row *last = &rows->items[kept];

		if (rows->items[i].number == last->number) {
			last->blocks += rows->items[i].blocks;
			last->bytes += rows->items[i].bytes;
		} else {
			rows->items[++kept] = rows->items[i];
		}
	}
	rows->count = kept + 1;
}

static void
rows_by_size(const struct snapshot *snapshot, int device, struct rows *rows)
{
	for (uint32_t s = 0; s < snapshot->segment_count; s++) {
		const struct snapshot_segment *segment = &snapshot->segments[s];

		if (device >= 0 && segment->device != (uint32_t)device)
			continue;
		for (uint32_t b = 0; b < segment->block_count; b++) {
			const struct snapshot_block *block =
			    &snapshot->blocks[segment->first_block + b];
			struct row *row;

			if (block->state == SNAPSHOT_INACTIVE)
				continue;
			row = add_top_row(rows);
			if (row == NULL)
				return;
			row->number = block->requested_bytes;
			row->blocks = 1;
			row->bytes = block->bytes;
		}
	}
	if (rows->count == 0)
		return;
	join_rows(rows);
	for (size_t i = 0; i < rows->count; i++)
		snprintf(rows->items[i].what, VIEW_TEXT, "%s (%" PRIu64 ")",
		    size_text(rows->items[i].number), rows->items[i].number);
	qsort(rows->items, rows->count, sizeof(struct row), compare_bytes);
}

/* The begin of an age's bracket: 0, or a power of ten. */
static uint64_t
bracket_of(uint64_t age_us)
{
	uint64_t least = 1;

	if (age_us == 0)
		return 0;
	while (age_us / 10 >= least)
		least *= 10;
	return least;
}

static void
name_age(uint64_t us, char text[VIEW_TEXT])
{
	if (us == UINT64_MAX)
		strcpy(text, "older than the trace");
	else if (us >= 1000000)
		snprintf(
		    text, VIEW_TEXT, "from %" PRIu64 " s on", us / 1000000);
	else if (us >= 1000)
		snprintf(text, VIEW_TEXT, "from %" PRIu64 " ms on", us / 1000);
	else
		snprintf(text, VIEW_TEXT, "from %" PRIu64 " us on", us);
}

static void
add_lives(const struct snapshot *snapshot, uint32_t device, struct rows *rows)
{
	struct lives lives;
	int64_t first;
	int64_t last;

	if (!lives_find(snapshot, device, &lives)) {
		rows->failed = true;
		return;
	}
	trace_times(snapshot, device, &first, &last);
	for (uint32_t i = 0; i < lives.count; i++) {
		const struct life *life = &lives.items[i];
		struct row *row;

		if (life->block == LIFE_NONE)
			continue;
		row = add_top_row(rows);
		if (row == NULL)
			break;
		row->number = UINT64_MAX;
		if (life->alloc != LIFE_NONE)
			row->number = bracket_of((uint64_t)(last -
			    snapshot->events.time_us[life->alloc]));
		row->blocks = 1;
		row->bytes = snapshot->blocks[life->block].bytes;
	}
	lives_drop(&lives);
}

static void
rows_by_lifetime(const struct snapshot *snapshot, const struct view_args *args,
    struct rows *rows)
{
	for (uint32_t d = 0; d < snapshot_device_count(snapshot); d++)
		if (view_has(args, d) && !rows->failed)
			add_lives(snapshot, d, rows);
	join_rows(rows);
	for (size_t i = 0; i < rows->count; i++)
		name_age(rows->items[i].number, rows->items[i].what);
}

/* Let the texts of the stacks that are printed tell them apart. */
static bool
tell_rows_apart(
    const struct view_args *args, const struct rows *rows, size_t count)
{
	uint32_t *stacks = calloc(count + 1, sizeof(*stacks));
	bool told = false;

	if (stacks == NULL) {
		complain("out of memory");
		return false;
	}
	for (size_t i = 0; i < count; i++)
		stacks[i] = rows->items[i].stack;
	told = callers_tell_apart(args->callers, stacks, count);
	free(stacks);
	return told;
}

static void
add_table_row(struct table *table, const struct snapshot *snapshot,
    const struct choices *choices, const struct row *row, uint64_t active)
{
	char text[CALLERS_TEXT];

	table_add(table, "%s", size_text(row->bytes));
	table_add(table, "%s", share_text(row->bytes, active, text));
	table_add(table, "%s", count_text(row->blocks, text));
	if (choices->by != BY_STACK) {
		table_add(table, "%s", row->what);
		return;
	}
	table_add(
	    table, "%s", callers_text(choices->view.callers, row->stack, text));
	add_frames(table, 4, &choices->view, snapshot, row->stack);
}

static bool
print_top_rows(const struct snapshot *snapshot, const struct choices *choices,
    const struct rows *rows)
{
	static const char *const headings[] = { "allocated by", "asked for",
		"lived" };
	struct sums sums = sums_of(snapshot, choices->view.device);
	uint64_t active = sums.allocated + sums.pending;
	struct table *table = table_new("rrrl");
	size_t count =
	    rows->count < choices->count ? rows->count : choices->count;
	char text[VIEW_TEXT];
	bool printed;

	if (choices->by == BY_STACK &&
	    !tell_rows_apart(&choices->view, rows, count)) {
		table_free(table);
		return false;
	}
	plural_text(sums.blocks - sums.free_blocks, "block", text);
	if (sums.pending > 0)
		printf("%s are in use and %s pending, in %s\n",
		    size_text(sums.allocated), size_text(sums.pending), text);
	else
		printf(
		    "%s are in use, in %s\n", size_text(sums.allocated), text);
	table_add(table, "bytes");
	table_add(table, "share");
	table_add(table, "blocks");
	table_add(table, "%s", headings[choices->by]);
	for (size_t i = 0; i < count; i++)
		add_table_row(
		    table, snapshot, choices, &rows->items[i], active);
	printed = table_print(table, true);
	table_free(table);
	if (rows->count > count)
		printf("and %s more; --count shows them\n",
		    count_text(rows->count - count, text));
	return printed;
}

static json_t *
row_json(const struct snapshot *snapshot, const struct row *row,
    const struct choices *choices)
{
	enum order by = choices->by;
	json_t *object = json_object();

	put_number(object, "bytes", row->bytes);
	put_number(object, "blocks", row->blocks);
	if (by == BY_STACK) {
		put_site(object, choices->view.callers, row->stack);
		json_object_set_new(
		    object, "frames", stack_json(snapshot, row->stack));
	} else if (by == BY_SIZE) {
		put_number(object, "requested_bytes", row->number);
	} else {
		json_object_set_new(object, "least_age_us",
		    row->number == UINT64_MAX ?
			json_null() :
			json_integer((json_int_t)row->number));
	}
	return object;
}

static json_t *
top_rows_json(const struct snapshot *snapshot, const struct choices *choices,
    const struct rows *rows)
{
	static const char *const names[] = { "stack", "size", "lifetime" };
	struct sums sums = sums_of(snapshot, choices->view.device);
	json_t *object = json_object();
	json_t *list = json_array();

	json_object_set_new(
	    object, "snapshot", json_of_text(choices->view.paths[0]));
	json_object_set_new(object, "by", json_string(names[choices->by]));
	put_number(object, "active_bytes", sums.allocated + sums.pending);
	put_number(object, "row_count", rows->count);
	for (size_t i = 0; i < rows->count && i < choices->count; i++)
		json_array_append_new(
		    list, row_json(snapshot, &rows->items[i], choices));
	json_object_set_new(object, "rows", list);
	return object;
}

/* The rows of a snapshot in the chosen order. The caller frees them. */
static struct rows
top_rows(const struct snapshot *snapshot, const struct choices *choices)
{
	const struct view_args *args = &choices->view;
	struct rows rows = { 0 };

	if (choices->by == BY_STACK)
		rows_by_stack(snapshot, args->device, &rows);
	else if (choices->by == BY_SIZE)
		rows_by_size(snapshot, args->device, &rows);
	else
		rows_by_lifetime(snapshot, args, &rows);
	return rows;
}

/* NULL without memory. */
static json_t *
top_json(const struct snapshot *snapshot, const struct choices *choices)
{
	struct rows rows = top_rows(snapshot, choices);
	json_t *json = NULL;

	if (!rows.failed)
		json = top_rows_json(snapshot, choices, &rows);
	free(rows.items);
	return json;
}

static bool
print_top(const struct snapshot *snapshot, const struct choices *choices)
{
	struct rows rows = top_rows(snapshot, choices);
	bool printed = !rows.failed && print_top_rows(snapshot, choices, &rows);

	free(rows.items);
	return printed;
}

static int
report_top(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;
	struct snapshot host = snapshot_host(snapshot);
	bool has_host = host.segment_count > 0;

	if (args->json)
		return print_json(put_host(top_json(snapshot, choices),
		    has_host ? top_json(&host, choices) : NULL));
	if (!print_top(snapshot, choices))
		return TOOL_FAILED;
	if (has_host)
		print_host_heading();
	return !has_host || print_top(&host, choices) ? TOOL_DONE : TOOL_FAILED;
}

int
cmd_top(int argc, char **argv)
{
	struct choices choices = { .count = 10 };

	return view_run(&argp_top, argc, argv, &choices.view, report_top);
}
