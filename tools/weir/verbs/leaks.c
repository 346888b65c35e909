/*
 * weir leaks: print the stacks whose blocks may pile up, with evidence for and
 * against a leak.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_leaks.h"
#include "tools/weir/reading/snapshot_view.h"

struct choices {
	struct view_args view;
	unsigned long least;
};

static const struct argp_option flags[] = {
	{ "least", 'n', "N", 0,
	    "suspect a stack that has N live blocks or more (default: 3)", 0 },
	VIEW_FRAMES_FLAG,
	{ 0 },
};

static error_t
parse_leaks_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'n':
		choices->least = view_count("--least", value, state);
		return 0;
	case 'f':
		view_parse_frames(&choices->view, value, state);
		return 0;
	default:
		return view_parse_flag(key, value, state);
	}
}

const struct argp argp_leaks = { flags, parse_leaks_flag, "SNAPSHOT",
	"Print the stacks that may leak: they allocated all through the trace "
	"and freed less than half of it. Each stack is listed with evidence "
	"for and against a leak.\v"
	"The trace must have stacks. A program may still build up memory that "
	"it keeps, such as gradients or an optimiser's state. It looks like a "
	"program that leaks, so take the snapshot after some rounds of work. "
	"Exit status: 0 no suspect, 1 suspects, 2 trouble.",
	view_children, NULL, NULL };

/* ---- Evidence ---------------------------------------------------------- */

/* Append a text to a list. */
static void add_reason(json_t *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void
add_reason(json_t *list, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	json_array_append_new(list, json_vsprintf(format, args));
	va_end(args);
}

/* True if a frame of the stack has `word` in its name, or with `path` in its
 * file. The case of letters does not matter. */
static bool
stack_has(const struct snapshot *snapshot, uint32_t stack, const char *word,
    bool path)
{
	const struct snapshot_stack *frames = &snapshot->stacks[stack];

	for (uint32_t i = 0; i < frames->count; i++) {
		const struct snapshot_frame *frame =
		    &snapshot
			 ->frames[snapshot->stack_frames[frames->first + i]];

		if (strcasestr(snapshot_text(
				   snapshot, path ? frame->file : frame->name),
			word) != NULL)
			return true;
	}
	return false;
}

static json_t *
reasons_for(const struct suspect *suspect)
{
	json_t *list = json_array();
	char a[VIEW_TEXT];
	char b[VIEW_TEXT];

	add_reason(list, "live blocks are from %d of %d parts of the trace",
	    __builtin_popcount(suspect->parts), LEAK_PARTS);
	add_reason(list, "%s of %s were freed", count_text(suspect->frees, a),
	    count_text(suspect->allocs, b));
	return list;
}

static json_t *
reasons_against(const struct snapshot *snapshot, const struct suspect *suspect)
{
	const struct snapshot_trace *trace = &snapshot->traces[suspect->device];
	uint64_t percent = 100 * suspect->last / trace->count;
	json_t *list = json_array();

	if (stack_has(snapshot, suspect->stack, "AccumulateGrad", false))
		add_reason(list,
		    "they are gradients, which live until they are set to "
		    "none");
	if (stack_has(snapshot, suspect->stack, "optim", true))
		add_reason(list,
		    "an optimiser made them: its state is built up in its "
		    "first step and stays");
	if (suspect->at_peak &&
	    stack_has(snapshot, suspect->stack, "_call_impl", false))
		add_reason(list,
		    "a module's call made them, and the trace ends at its peak "
		    "of live memory: activations look like this until their "
		    "backward pass");
	if (percent < 75)
		add_reason(list,
		    "none was added after %" PRIu64
		    " %% of the trace: memory that is built up once looks like "
		    "this",
		    percent);
	return list;
}

static void
print_reasons(struct table *table, const char *heading, json_t *reasons)
{
	const json_t *reason;
	size_t i;

	json_array_foreach(reasons, i, reason)
	{
		for (int c = 0; c < 4; c++)
			table_add(table, "%s", "");
		table_add(
		    table, "    %s: %s", heading, json_string_value(reason));
	}
	json_decref(reasons);
}

/* ---- Printing ---------------------------------------------------------- */

static bool
tell_suspects_apart(const struct view_args *args, const struct suspects *found)
{
	uint32_t *stacks = calloc(found->count + 1, sizeof(*stacks));
	bool told = false;

	if (stacks == NULL) {
		complain("out of memory");
		return false;
	}
	for (size_t i = 0; i < found->count; i++)
		stacks[i] = found->items[i].stack;
	told = callers_tell_apart(args->callers, stacks, found->count);
	free(stacks);
	return told;
}

static void
print_count(const struct suspects *found)
{
	uint64_t bytes = 0;
	char text[VIEW_TEXT];

	for (size_t i = 0; i < found->count; i++)
		bytes += found->items[i].live_bytes;
	if (found->traced == 0)
		puts("the trace has no allocation with a stack, so that no "
		     "leak can be found");
	else if (found->count == 0)
		puts("no stack may leak");
	else
		printf("%s may leak: %s\n",
		    plural_text(found->count, "stack", text), size_text(bytes));
}

static bool
print_suspects(const struct snapshot *snapshot, const struct view_args *args,
    const struct suspects *found)
{
	struct table *table = table_new("rrrrl");
	static const char *const headings[] = { "live", "blocks", "allocated",
		"freed", "allocated by" };
	char text[CALLERS_TEXT];
	bool printed;

	print_count(found);
	for (size_t i = 0; i < 5 && found->count > 0; i++)
		table_add(table, "%s", headings[i]);
	for (size_t i = 0; i < found->count; i++) {
		const struct suspect *suspect = &found->items[i];

		table_add(table, "%s", size_text(suspect->live_bytes));
		table_add(table, "%s", count_text(suspect->live, text));
		table_add(table, "%s", count_text(suspect->allocs, text));
		table_add(table, "%s", count_text(suspect->frees, text));
		table_add(table, "%s",
		    callers_text(args->callers, suspect->stack, text));
		add_frames(table, 5, args, snapshot, suspect->stack);
		print_reasons(table, "for", reasons_for(suspect));
		print_reasons(
		    table, "against", reasons_against(snapshot, suspect));
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static json_t *
leaks_json(const struct snapshot *snapshot, const struct view_args *args,
    const struct suspects *found)
{
	json_t *object = json_object();
	json_t *list = json_array();

	for (size_t i = 0; i < found->count; i++) {
		const struct suspect *suspect = &found->items[i];
		json_t *one = json_object();

		put_number(one, "device", suspect->device);
		put_number(one, "live_bytes", suspect->live_bytes);
		put_number(one, "live_blocks", suspect->live);
		put_number(one, "allocs", suspect->allocs);
		put_number(one, "frees", suspect->frees);
		put_site(one, args->callers, suspect->stack);
		json_object_set_new(one, "for", reasons_for(suspect));
		json_object_set_new(
		    one, "against", reasons_against(snapshot, suspect));
		json_object_set_new(
		    one, "frames", stack_json(snapshot, suspect->stack));
		json_array_append_new(list, one);
	}
	json_object_set_new(object, "snapshot", json_of_text(args->paths[0]));
	put_number(object, "traced_allocs", found->traced);
	json_object_set_new(object, "suspects", list);
	return object;
}

static int
report_leaks(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;
	struct suspects found = { 0 };
	int status = TOOL_DONE;

	if (!leaks_find(snapshot, args, choices->least, &found))
		status = TOOL_FAILED;
	if (status == TOOL_DONE && args->json)
		status = print_json(leaks_json(snapshot, args, &found));
	else if (status == TOOL_DONE &&
	    (!tell_suspects_apart(args, &found) ||
		!print_suspects(snapshot, args, &found)))
		status = TOOL_FAILED;
	if (status == TOOL_DONE && found.count > 0)
		status = TOOL_FOUND;
	free(found.items);
	return status;
}

int
cmd_leaks(int argc, char **argv)
{
	struct choices choices = { .least = LEAKS_LEAST };

	return view_run(&argp_leaks, argc, argv, &choices.view, report_leaks);
}
