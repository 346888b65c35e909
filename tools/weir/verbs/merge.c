/*
 * weir merge: compare the snapshots of several ranks.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_holders.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tuning.h"

struct choices {
	struct view_args view;
	unsigned long count;
	const char *output; /* or NULL */
};

static const struct argp_option flags[] = {
	{ "count", 'n', "N", 0, "print at most N stacks (default: 10)", 0 },
	VIEW_FRAMES_FLAG,
	{ "output", 'o', "FILE", 0,
	    "write all ranks into one snapshot, as JSON", 0 },
	{ 0 },
};

static error_t
parse_merge_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'n':
		choices->count = view_count("--count", value, state);
		return 0;
	case 'o':
		choices->output = value;
		return 0;
	case 'f':
		view_parse_frames(&choices->view, value, state);
		return 0;
	default:
		return view_parse_flag(key, value, state);
	}
}

const struct argp argp_merge = { flags, parse_merge_flag, "SNAPSHOT...",
	"Compare the memory of several ranks, with one snapshot for each rank "
	"in the order given. Print the memory of each rank, the imbalance, and "
	"the stacks that hold more on some ranks than on others.\v"
	"Imbalance is the distance of the largest rank above the mean. In the "
	"snapshot that --output writes, the devices of each rank follow those "
	"of the rank before. " TOOL_STATUS,
	view_children, NULL, NULL };

struct rank {
	const char *path;
	struct snapshot *snapshot;
	struct sums sums;
	struct holders holders;
	struct callers *callers;
};

struct ranks {
	size_t count;
	struct rank *items;
};

/* A stack, with the smallest and the largest memory that it has on a rank. */
struct spread {
	uint64_t key;
	const struct rank *rank; /* holds most; its snapshot has `stack` */
	uint32_t stack;
	uint64_t least;
	uint64_t most;
};

struct spreads {
	size_t count;
	struct spread *items;
};

static int
compare_spread_keys(const void *a, const void *b)
{
	const struct spread *one = a;
	const struct spread *other = b;

	return one->key < other->key ? -1 : one->key > other->key;
}

static int
compare_spreads(const void *a, const void *b)
{
	const struct spread *one = a;
	const struct spread *other = b;
	uint64_t by = one->most - one->least;
	uint64_t than = other->most - other->least;

	if (by != than)
		return by > than ? -1 : 1;
	return compare_spread_keys(a, b);
}

static bool
find_spreads(const struct ranks *ranks, struct spreads *out)
{
	size_t most = 1;
	size_t kept = 0;

	for (size_t r = 0; r < ranks->count; r++)
		most += ranks->items[r].holders.count;
	*out = (struct spreads){ .items = calloc(most, sizeof(*out->items)) };
	if (out->items == NULL) {
		complain("out of memory");
		return false;
	}
	for (size_t r = 0; r < ranks->count; r++) {
		const struct rank *rank = &ranks->items[r];

		for (size_t i = 0; i < rank->holders.count; i++) {
			const struct holder *holder = &rank->holders.items[i];

			out->items[out->count++] = (struct spread){
				.key = holder->key,
				.rank = rank,
				.stack = holder->stack,
				.most = holder->bytes,
			};
		}
	}
	qsort(out->items, out->count, sizeof(*out->items), compare_spread_keys);
	for (size_t i = 0; i < out->count; i++) {
		struct spread *last = kept == 0 ? NULL : &out->items[kept - 1];

		if (last == NULL || last->key != out->items[i].key)
			out->items[kept++] = out->items[i];
		else if (out->items[i].most > last->most)
			*last = out->items[i];
	}
	out->count = kept;
	for (size_t i = 0; i < out->count; i++) {
		struct spread *spread = &out->items[i];

		spread->least = spread->most;
		for (size_t r = 0; r < ranks->count; r++) {
			const struct holder *holder =
			    holders_get(&ranks->items[r].holders, spread->key);
			uint64_t bytes = holder == NULL ? 0 : holder->bytes;

			if (bytes < spread->least)
				spread->least = bytes;
		}
	}
	qsort(out->items, out->count, sizeof(*out->items), compare_spreads);
	return true;
}

/* ---- Output ---------------------------------------------------------- */

/* The distance of the largest rank above the mean, as a fraction of the mean.
 * `of` chooses the sum that is compared. */
static double
imbalance(const struct ranks *ranks, uint64_t (*of)(const struct sums *sums))
{
	double sum = 0;
	double most = 0;

	for (size_t r = 0; r < ranks->count; r++) {
		double bytes = (double)of(&ranks->items[r].sums);

		sum += bytes;
		if (bytes > most)
			most = bytes;
	}
	return sum == 0 ? 0 : most * (double)ranks->count / sum - 1;
}

static uint64_t
reserved_of(const struct sums *sums)
{
	return sums->reserved;
}

static uint64_t
allocated_of(const struct sums *sums)
{
	return sums->allocated;
}

static bool
print_ranks(const struct ranks *ranks)
{
	struct table *table = table_new("rrrrrrl");
	static const char *const headings[] = { "rank", "reserved", "allocated",
		"pending", "free", "largest free", "snapshot" };
	char text[VIEW_TEXT];
	bool printed;

	printf("%zu ranks: allocated memory is uneven by %.1f %%, reserved by "
	       "%.1f %%\n\n",
	    ranks->count, 100 * imbalance(ranks, allocated_of),
	    100 * imbalance(ranks, reserved_of));
	for (size_t i = 0; i < 7; i++)
		table_add(table, "%s", headings[i]);
	for (size_t r = 0; r < ranks->count; r++) {
		const struct sums *sums = &ranks->items[r].sums;

		table_add(table, "%zu", r);
		table_add(table, "%s", size_text(sums->reserved));
		table_add(table, "%s", size_text(sums->allocated));
		table_add(table, "%s", size_text(sums->pending));
		table_add(table, "%s", size_text(sums->free));
		table_add(table, "%s", size_text(sums->largest_free));
		table_add(table, "%s", plain_text(ranks->items[r].path, text));
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

/* Let the texts of the stacks that are printed tell them apart. */
static bool
tell_spreads_apart(const struct ranks *ranks, const struct spreads *spreads,
    unsigned long most)
{
	uint32_t *stacks = calloc(spreads->count + 1, sizeof(*stacks));
	bool told = stacks != NULL;

	if (stacks == NULL)
		complain("out of memory");
	for (size_t r = 0; r < ranks->count && told; r++) {
		size_t n = 0;

		for (size_t i = 0; i < spreads->count && i < most; i++)
			if (spreads->items[i].rank == &ranks->items[r])
				stacks[n++] = spreads->items[i].stack;
		told = callers_tell_apart(ranks->items[r].callers, stacks, n);
	}
	free(stacks);
	return told;
}

static bool
print_spreads(const struct ranks *ranks, const struct spreads *spreads,
    const struct choices *choices)
{
	struct table *table = table_new("rrrl");
	char text[CALLERS_TEXT];
	bool printed;

	table_add(table, "at least");
	table_add(table, "at most");
	table_add(table, "on rank");
	table_add(table, "allocated by");
	for (size_t i = 0; i < spreads->count && i < choices->count; i++) {
		const struct spread *spread = &spreads->items[i];

		if (spread->most == spread->least)
			break;
		table_add(table, "%s", size_text(spread->least));
		table_add(table, "%s", size_text(spread->most));
		table_add(table, "%zu", (size_t)(spread->rank - ranks->items));
		table_add(table, "%s",
		    callers_text(spread->rank->callers, spread->stack, text));
		add_frames(table, 4, &choices->view, spread->rank->snapshot,
		    spread->stack);
	}
	putchar('\n');
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static json_t *
merge_json(const struct ranks *ranks, const struct spreads *spreads,
    unsigned long most)
{
	json_t *object = json_object();
	json_t *list = json_array();
	json_t *stacks = json_array();

	for (size_t r = 0; r < ranks->count; r++) {
		json_t *one = json_object();

		put_number(one, "rank", r);
		json_object_set_new(
		    one, "snapshot", json_of_text(ranks->items[r].path));
		put_sums(one, &ranks->items[r].sums);
		json_array_append_new(list, one);
	}
	for (size_t i = 0; i < spreads->count && i < most; i++) {
		const struct spread *spread = &spreads->items[i];
		json_t *one = json_object();

		put_number(one, "least_bytes", spread->least);
		put_number(one, "most_bytes", spread->most);
		put_number(
		    one, "most_rank", (uint64_t)(spread->rank - ranks->items));
		put_site(one, spread->rank->callers, spread->stack);
		json_object_set_new(one, "frames",
		    stack_json(spread->rank->snapshot, spread->stack));
		json_array_append_new(stacks, one);
	}
	json_object_set_new(object, "ranks", list);
	json_object_set_new(object, "allocated_imbalance",
	    json_real(imbalance(ranks, allocated_of)));
	json_object_set_new(object, "reserved_imbalance",
	    json_real(imbalance(ranks, reserved_of)));
	json_object_set_new(object, "stacks", stacks);
	return object;
}

static bool
write_merged(const struct ranks *ranks, const char *path)
{
	struct snapshot_part *parts = calloc(ranks->count + 1, sizeof(*parts));
	uint32_t device = 0;
	FILE *out = NULL;

	if (parts == NULL)
		complain("out of memory");
	else
		out = output_open(path);
	for (size_t r = 0; r < ranks->count && parts != NULL; r++) {
		parts[r] = (struct snapshot_part){ ranks->items[r].snapshot,
			device, ranks->items[r].path };
		device += snapshot_device_count(ranks->items[r].snapshot);
	}
	if (out != NULL)
		snapshot_out_json(parts, ranks->count, out);
	free(parts);
	return out != NULL && output_close(out, path);
}

static int
report_merge(const struct ranks *ranks, const struct choices *choices)
{
	struct spreads spreads;
	int status = TOOL_FAILED;

	if (!find_spreads(ranks, &spreads))
		return TOOL_FAILED;
	if (choices->view.json)
		status =
		    print_json(merge_json(ranks, &spreads, choices->count));
	else if (print_ranks(ranks) &&
	    tell_spreads_apart(ranks, &spreads, choices->count) &&
	    print_spreads(ranks, &spreads, choices))
		status = TOOL_DONE;
	free(spreads.items);
	if (status == TOOL_DONE && choices->output != NULL &&
	    !write_merged(ranks, choices->output))
		status = TOOL_FAILED;
	return status;
}

static bool
load_rank(struct rank *rank, const char *path, int device)
{
	rank->path = path;
	rank->snapshot = snapshot_load(path);
	if (rank->snapshot == NULL)
		return false;
	rank->sums = sums_of(rank->snapshot, device);
	rank->callers = callers_new(rank->snapshot);
	return rank->callers != NULL &&
	    holders_find(rank->snapshot, device, &rank->holders);
}

/* True if one of the ranks has the device. The other ranks hold nothing of
 * it. Otherwise complain of all ranks. */
static bool
any_rank_has_device(const struct ranks *ranks, int device)
{
	for (size_t r = 0; r < ranks->count; r++)
		if (view_has_device(ranks->items[r].snapshot, device))
			return true;
	for (size_t r = 0; r < ranks->count; r++)
		view_complain_of_device(
		    ranks->items[r].snapshot, device, ranks->items[r].path);
	return false;
}

int
cmd_merge(int argc, char **argv)
{
	struct choices choices = { .view = { .device = VIEW_ALL_DEVICES,
				       .least = 2,
				       .most = MERGE_RANKS },
		.count = 10 };
	struct ranks ranks = { 0 };
	bool loaded = true;
	int status = TOOL_FAILED;

	argp_parse(&argp_merge, argc, argv, 0, NULL, &choices);
	while (choices.view.paths[ranks.count] != NULL)
		ranks.count++;
	ranks.items = calloc(ranks.count + 1, sizeof(*ranks.items));
	if (ranks.items == NULL) {
		complain("out of memory");
		return TOOL_FAILED;
	}
	for (size_t r = 0; r < ranks.count && loaded; r++)
		loaded = load_rank(&ranks.items[r], choices.view.paths[r],
		    choices.view.device);
	if (loaded && any_rank_has_device(&ranks, choices.view.device))
		status = report_merge(&ranks, &choices);
	for (size_t r = 0; r < ranks.count; r++) {
		holders_drop(&ranks.items[r].holders);
		callers_free(ranks.items[r].callers);
		snapshot_free(ranks.items[r].snapshot);
	}
	free(ranks.items);
	return status;
}
