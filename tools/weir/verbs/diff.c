/*
 * weir diff: the changes between two snapshots, and the stacks that made them.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_holders.h"
#include "tools/weir/reading/snapshot_view.h"

struct choices {
	struct view_args view;
	unsigned long count;
};

static const struct argp_option flags[] = {
	{ "count", 'n', "N", 0, "print at most N stacks (default: 10)", 0 },
	VIEW_FRAMES_FLAG,
	{ 0 },
};

static error_t
parse_diff_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
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

const struct argp argp_diff = { flags, parse_diff_flag, "BEFORE AFTER",
	"Print how the second memory snapshot differs from the first: sums, "
	"segments that were added and removed, and the stacks whose memory "
	"grew or shrank most.\v"
	"Segments of both snapshots are the same if their device, address and "
	"size are equal. If there are none, as in snapshots of two processes, "
	"those of equal device and size are. Stacks are the same if their "
	"frames are "
	"equal. " TOOL_STATUS,
	view_children, NULL, NULL };

struct side {
	struct snapshot *snapshot;
	struct sums sums;
	struct holders holders;
	struct callers *callers;
	struct sums alone; /* segments that the other side lacks */
	/* Segments are compared by size, because no address is of both. */
	bool by_size;
};

/* A stack and its memory on both sides. */
struct change {
	const struct side *side; /* its snapshot has `stack` */
	uint32_t stack;
	uint64_t bytes[2];
	uint64_t blocks[2];
};

struct changes {
	size_t count;
	struct change *items;
};

typedef int order_segments(const void *a, const void *b);

static int
segment_size_order(const void *a, const void *b)
{
	const struct snapshot_segment *one =
	    *(const struct snapshot_segment *const *)a;
	const struct snapshot_segment *other =
	    *(const struct snapshot_segment *const *)b;

	if (one->device != other->device)
		return one->device < other->device ? -1 : 1;
	return one->bytes < other->bytes ? -1 : one->bytes > other->bytes;
}

/* The segments of both sides, in one order. */
struct segment_lists {
	const struct snapshot_segment **sorted[2];
	uint32_t counts[2];
	uint32_t at[2]; /* the next segment */
};

/* Below 0 if the first side's next segment comes first, above 0 if the second
 * side's does, and 0 if they are equal. */
static int
compare_next(const struct segment_lists *lists, order_segments *order)
{
	if (lists->at[1] >= lists->counts[1])
		return -1;
	if (lists->at[0] >= lists->counts[0])
		return 1;
	return order((const void *)&lists->sorted[0][lists->at[0]],
	    (const void *)&lists->sorted[1][lists->at[1]]);
}

/* Add up the segments that one side alone has. Returns how many both have. */
static uint32_t
sum_alone(
    struct side sides[2], struct segment_lists *lists, order_segments *order)
{
	uint32_t *at = lists->at;
	uint32_t common = 0;

	for (int s = 0; s < 2; s++) {
		sides[s].alone = (struct sums){ 0 };
		at[s] = 0;
	}
	while (at[0] < lists->counts[0] || at[1] < lists->counts[1]) {
		int first = compare_next(lists, order);

		if (first < 0)
			sums_add(&sides[0].alone, sides[0].snapshot,
			    lists->sorted[0][at[0]]);
		if (first > 0)
			sums_add(&sides[1].alone, sides[1].snapshot,
			    lists->sorted[1][at[1]]);
		common += first == 0;
		at[0] += first <= 0;
		at[1] += first >= 0;
	}
	return common;
}

/* Two processes have no segment in common. By size their segments can be
 * compared. */
static bool
compare_sides(struct side sides[2], const struct view_args *args)
{
	struct segment_lists lists = { 0 };
	bool done;

	for (int s = 0; s < 2; s++)
		lists.sorted[s] =
		    segments_sorted(sides[s].snapshot, args, &lists.counts[s]);
	done = lists.sorted[0] != NULL && lists.sorted[1] != NULL;
	if (done && sum_alone(sides, &lists, segment_order) == 0 &&
	    lists.counts[0] > 0 && lists.counts[1] > 0) {
		for (int s = 0; s < 2; s++) {
			qsort((void *)lists.sorted[s], lists.counts[s],
			    sizeof(*lists.sorted[s]), segment_size_order);
			sides[s].by_size = true;
		}
		sum_alone(sides, &lists, segment_size_order);
	}
	free((void *)lists.sorted[0]);
	free((void *)lists.sorted[1]);
	if (!done)
		complain("out of memory");
	return done;
}

static uint64_t
size_of_change(const struct change *change)
{
	return change->bytes[0] > change->bytes[1] ?
	    change->bytes[0] - change->bytes[1] :
	    change->bytes[1] - change->bytes[0];
}

static int
compare_changes(const void *a, const void *b)
{
	uint64_t one = size_of_change(a);
	uint64_t other = size_of_change(b);

	return one > other ? -1 : one < other;
}

static void
add_holder(struct changes *changes, const struct side *sides, int side,
    const struct holder *holder)
{
	const struct holder *other =
	    holders_get(&sides[1 - side].holders, holder->key);
	struct change *change = &changes->items[changes->count];

	/* A stack that both snapshots have was added with the first. */
	if (side == 1 && other != NULL)
		return;
	*change = (struct change){ &sides[side], holder->stack, { 0 }, { 0 } };
	change->bytes[side] = holder->bytes;
	change->blocks[side] = holder->blocks;
	if (other != NULL) {
		change->bytes[1] = other->bytes;
		change->blocks[1] = other->blocks;
	}
	if (size_of_change(change) > 0)
		changes->count++;
}

static bool
find_changes(const struct side sides[2], struct changes *changes)
{
	size_t most = sides[0].holders.count + sides[1].holders.count;

	changes->items = calloc(most + 1, sizeof(*changes->items));
	if (changes->items == NULL) {
		complain("out of memory");
		return false;
	}
	for (int s = 0; s < 2; s++)
		for (size_t i = 0; i < sides[s].holders.count; i++)
			add_holder(
			    changes, sides, s, &sides[s].holders.items[i]);
	qsort(changes->items, changes->count, sizeof(*changes->items),
	    compare_changes);
	return true;
}

/* ---- Output ---------------------------------------------------------- */

static const char *
change_text(uint64_t before, uint64_t after, char text[VIEW_TEXT])
{
	uint64_t by = before > after ? before - after : after - before;

	snprintf(text, VIEW_TEXT, "%s%s",
	    by == 0            ? "" :
		before > after ? "-" :
				 "+",
	    size_text(by));
	return text;
}

static void
add_sums(struct table *table, const char *what, uint64_t before, uint64_t after)
{
	char text[VIEW_TEXT];

	table_add(table, "%s", what);
	table_add(table, "%s", size_text(before));
	table_add(table, "%s", size_text(after));
	table_add(table, "%s", change_text(before, after, text));
}

static bool
print_sums(const struct side sides[2])
{
	const struct sums *a = &sides[0].sums;
	const struct sums *b = &sides[1].sums;
	struct table *table = table_new("lrrr");
	char text[VIEW_TEXT];
	bool printed;

	printf("allocated memory went from %s to %s (%s)\n\n",
	    size_text(a->allocated), size_text(b->allocated),
	    change_text(a->allocated, b->allocated, text));
	table_add(table, "%s", "");
	table_add(table, "before");
	table_add(table, "after");
	table_add(table, "change");
	add_sums(table, "reserved", a->reserved, b->reserved);
	add_sums(table, "allocated", a->allocated, b->allocated);
	add_sums(table, "active", a->allocated + a->pending,
	    b->allocated + b->pending);
	add_sums(table, "requested", a->requested, b->requested);
	add_sums(table, "free", a->free, b->free);
	add_sums(table, "largest free", a->largest_free, b->largest_free);
	printed = table_print(table, true);
	table_free(table);
	if (sides[0].by_size)
		printf("\nno segment is at one address in both, as in two "
		       "processes; by size:");
	printf("\n%s removed (%s), %" PRIu64 " added (%s)\n",
	    plural_text(sides[0].alone.segments, "segment", text),
	    size_text(sides[0].alone.reserved), sides[1].alone.segments,
	    size_text(sides[1].alone.reserved));
	return printed;
}

/* Let the texts of the stacks that are printed tell them apart. */
static bool
tell_changes_apart(const struct side sides[2], const struct changes *changes,
    unsigned long most)
{
	uint32_t *stacks = calloc(changes->count + 1, sizeof(*stacks));
	bool told = stacks != NULL;

	if (stacks == NULL)
		complain("out of memory");
	for (int side = 0; side < 2 && told; side++) {
		size_t n = 0;

		for (size_t i = 0; i < changes->count && i < most; i++)
			if (changes->items[i].side == &sides[side])
				stacks[n++] = changes->items[i].stack;
		told = callers_tell_apart(sides[side].callers, stacks, n);
	}
	free(stacks);
	return told;
}

static bool
print_changes(const struct changes *changes, const struct choices *choices)
{
	struct table *table = table_new("rrrrl");
	static const char *const headings[] = { "change", "before", "after",
		"blocks", "allocated by" };
	unsigned long most = choices->count;
	char text[CALLERS_TEXT];
	bool printed;

	if (changes->count == 0) {
		table_free(table);
		puts("no stack holds more or less than before");
		return true;
	}
	putchar('\n');
	for (size_t i = 0; i < 5; i++)
		table_add(table, "%s", headings[i]);
	for (size_t i = 0; i < changes->count && i < most; i++) {
		const struct change *change = &changes->items[i];

		table_add(table, "%s",
		    change_text(change->bytes[0], change->bytes[1], text));
		table_add(table, "%s", size_text(change->bytes[0]));
		table_add(table, "%s", size_text(change->bytes[1]));
		table_add(table, "%" PRIu64 " to %" PRIu64, change->blocks[0],
		    change->blocks[1]);
		table_add(table, "%s",
		    callers_text(change->side->callers, change->stack, text));
		add_frames(table, 5, &choices->view, change->side->snapshot,
		    change->stack);
	}
	printed = table_print(table, true);
	table_free(table);
	if (changes->count > most)
		printf("and %s more; --count shows them\n",
		    count_text(changes->count - most, text));
	return printed;
}

static json_t *
change_json(const struct change *change)
{
	const struct snapshot *snapshot = change->side->snapshot;
	json_t *object = json_object();

	put_number(object, "before_bytes", change->bytes[0]);
	put_number(object, "after_bytes", change->bytes[1]);
	put_number(object, "before_blocks", change->blocks[0]);
	put_number(object, "after_blocks", change->blocks[1]);
	put_site(object, change->side->callers, change->stack);
	json_object_set_new(
	    object, "frames", stack_json(snapshot, change->stack));
	return object;
}

static json_t *
diff_json(const struct side sides[2], const struct choices *choices,
    const struct changes *changes)
{
	static const char *const names[2] = { "before", "after" };
	static const char *const alone[2] = { "went", "came" };
	json_t *object = json_object();
	json_t *list = json_array();

	for (int s = 0; s < 2; s++) {
		json_t *side = json_object();
		json_t *only = json_object();

		json_object_set_new(
		    side, "snapshot", json_of_text(choices->view.paths[s]));
		put_sums(side, &sides[s].sums);
		put_number(only, "segments", sides[s].alone.segments);
		put_number(only, "reserved_bytes", sides[s].alone.reserved);
		json_object_set_new(object, names[s], side);
		json_object_set_new(object, alone[s], only);
	}
	json_object_set_new(object, "segments_by",
	    json_string(sides[0].by_size ? "size" : "address"));
	put_number(object, "change_count", changes->count);
	for (size_t i = 0; i < changes->count && i < choices->count; i++)
		json_array_append_new(list, change_json(&changes->items[i]));
	json_object_set_new(object, "changes", list);
	return object;
}

/* True if one of the snapshots has the device; the change may be the device
 * itself. Otherwise complain of both snapshots. */
static bool
either_side_has_device(const struct side sides[2], const struct view_args *args)
{
	if (view_has_device(sides[0].snapshot, args->device) ||
	    view_has_device(sides[1].snapshot, args->device))
		return true;
	for (int s = 0; s < 2; s++)
		view_complain_of_device(
		    sides[s].snapshot, args->device, args->paths[s]);
	return false;
}

static int
report_diff(struct side sides[2], const struct choices *choices)
{
	struct changes changes = { 0 };
	int status = TOOL_FAILED;

	for (int s = 0; s < 2; s++) {
		sides[s].sums =
		    sums_of(sides[s].snapshot, choices->view.device);
		sides[s].callers = callers_new(sides[s].snapshot);
		if (sides[s].callers == NULL ||
		    !holders_find(sides[s].snapshot, choices->view.device,
			&sides[s].holders))
			return TOOL_FAILED;
	}
	if (!compare_sides(sides, &choices->view) ||
	    !find_changes(sides, &changes))
		return TOOL_FAILED;
	if (choices->view.json)
		status = print_json(diff_json(sides, choices, &changes));
	else if (print_sums(sides) &&
	    tell_changes_apart(sides, &changes, choices->count) &&
	    print_changes(&changes, choices))
		status = TOOL_DONE;
	free(changes.items);
	return status;
}

int
cmd_diff(int argc, char **argv)
{
	struct choices choices = {
		.view = { .device = VIEW_ALL_DEVICES, .least = 2, .most = 2 },
		.count = 10
	};
	struct side sides[2] = { 0 };
	int status = TOOL_FAILED;

	argp_parse(&argp_diff, argc, argv, 0, NULL, &choices);
	for (int s = 0; s < 2; s++)
		sides[s].snapshot = snapshot_load(choices.view.paths[s]);
	if (sides[0].snapshot != NULL && sides[1].snapshot != NULL &&
	    either_side_has_device(sides, &choices.view))
		status = report_diff(sides, &choices);
	for (int s = 0; s < 2; s++) {
		holders_drop(&sides[s].holders);
		callers_free(sides[s].callers);
		snapshot_free(sides[s].snapshot);
	}
	return status;
}
