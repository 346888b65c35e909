/*
 * weir oom: say why a request failed, from the free memory and its places.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/advise/advise_find.h"
#include "tools/weir/advise/tuning.h"
#include "tools/weir/reading/snapshot_holders.h"
#include "tools/weir/reading/snapshot_verdict.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tuning.h"

struct choices {
	struct view_args view;
	uint64_t bytes; /* size of the request; 0: that of the last oom event */
	uint64_t stream;
};

static const struct argp_option flags[] = {
	{ "size", 'b', "BYTES", 0,
	    "judge a request of BYTES, such as 512M or 8G", 0 },
	{ "stream", 's', "HEX", 0,
	    "the request's stream: its handle, or none (default: 0)", 0 },
	VIEW_FRAMES_FLAG,
	{ 0 },
};

static error_t
parse_oom_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;
	char *end;

	switch (key) {
	case 'b':
		if (!bytes_parse(value, &choices->bytes) || choices->bytes == 0)
			argp_error(state,
			    "--size is a size such as 512M or 8G, not '%s'",
			    value);
		return 0;
	case 's':
		if (strcmp(value, "none") == 0) {
			choices->stream = UINT64_MAX;
			return 0;
		}
		choices->stream = strtoull(value, &end, 16);
		if (end == value || *end != '\0')
			argp_error(state,
			    "--stream is a hexadecimal number or none, not "
			    "'%s'",
			    value);
		return 0;
	case 'f':
		view_parse_frames(&choices->view, value, state);
		return 0;
	default:
		return view_parse_flag(key, value, state);
	}
}

const struct argp argp_oom = { flags, parse_oom_flag, "SNAPSHOT",
	"Say why a request ran out of memory: which memory was free, why it "
	"could not serve the request, and what would have helped.\v"
	"The request is that of the last 'oom' event of the trace. Events "
	"after it are undone, so that memory is judged as it was at the "
	"failure. With --size, the command judges a request at the time of the "
	"snapshot. " TOOL_STATUS,
	view_children, NULL, NULL };

/* ---- Output ---------------------------------------------------------- */

static bool
print_where(const struct verdict *verdict)
{
	struct table *table = table_new("lrrrrr");
	static const char *const headings[] = { "", "reserved", "allocated",
		"pending", "free", "largest free" };
	const struct {
		const char *name;
		const struct sums *sums;
	} rows[] = {
		{ "this stream's pool", &verdict->own },
		{ "its pool of the other kind", &verdict->kind },
		{ "other streams", &verdict->others },
		{ "private pools", &verdict->pools },
		{ "all", &verdict->all },
	};
	bool printed;

	for (size_t i = 0; i < 6; i++)
		table_add(table, "%s", headings[i]);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct sums *sums = rows[i].sums;

		table_add(table, "%s", rows[i].name);
		table_add(table, "%s", size_text(sums->reserved));
		table_add(table, "%s", size_text(sums->allocated));
		table_add(table, "%s", size_text(sums->pending));
		table_add(table, "%s", size_text(sums->free));
		table_add(table, "%s", size_text(sums->largest_free));
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static void
print_summary(const struct snapshot *snapshot, const struct view_args *args,
    const struct verdict *verdict)
{
	char text[CALLERS_TEXT];

	puts(verdict_headline(verdict, text));
	if (verdict->event != UINT32_MAX) {
		printf(
		    "requested by %s\n", verdict_site(snapshot, verdict, text));
		print_frames(
		    snapshot, args, snapshot->events.stack[verdict->event], 4);
	}
	if (verdict->later > 0)
		printf(
		    "the snapshot was taken %s later; the figures are of the "
		    "moment of the failure\n",
		    plural_text(verdict->later, "event", text));
	putchar('\n');
}

/* ---- Replays --------------------------------------------------------- */

/* Say of each remedy that was replayed whether it serves the request. */
static void
mark_remedies(const struct verdict *verdict, const struct advice *advice)
{
	json_t *cause;
	json_t *remedy;
	size_t i;
	size_t k;

	json_array_foreach(verdict->causes, i, cause)
	{
		json_array_foreach(
		    json_object_get(cause, "remedies"), k, remedy)
		{
			const char *setting = json_string_value(
			    json_object_get(remedy, "setting"));
			json_t *serves = setting == NULL ?
			    NULL :
			    json_object_get(advice->serves, setting);

			json_object_set(remedy, "serves",
			    serves == NULL ? json_null() : serves);
		}
	}
}

/* Replay the recording up to the failure with the settings of `weir advise`.
 * *found is the advice; NULL if there is no failure to replay, or no simulated
 * device. False, and a complaint, on failure. */
static bool
advise_on_failure(const struct snapshot *snapshot, const char *path,
    const struct verdict *verdict, struct advice *advice,
    const struct advice **found)
{
	const struct advise_request request = {
		.snapshot = snapshot,
		.device = verdict->device,
		.path = strcmp(path, "-") == 0 ? NULL : path,
		.limit = UINT64_MAX,
		.seconds = ADVISE_SECONDS_OOM,
	};

	*advice = (struct advice){ 0 };
	*found = NULL;
	if (verdict->event == UINT32_MAX)
		return true;
	if (!advise_find(&request, advice))
		return advice->unplayable;
	*found = advice;
	return true;
}

/* ---- Text ------------------------------------------------------------ */

static void
print_remedy(const json_t *remedy)
{
	const json_t *serves = json_object_get(remedy, "serves");

	const char *setting =
	    json_string_value(json_object_get(remedy, "setting"));
	const char *text = json_string_value(json_object_get(remedy, "text"));

	const char *replay = json_is_true(serves) ?
	    "; a replay shows that it serves the request" :
	    json_is_false(serves) ? "; in a replay the request still fails" :
				    "";

	if (setting == NULL)
		printf("      %s\n", text);
	else
		printf("      %s\n          %s%s\n", setting, text, replay);
}

static void
print_causes(const json_t *causes)
{
	const json_t *cause;
	const json_t *remedy;
	size_t i;
	size_t k;

	json_array_foreach(causes, i, cause)
	{
		printf("- %s\n",
		    json_string_value(json_object_get(cause, "text")));
		json_array_foreach(
		    json_object_get(cause, "remedies"), k, remedy)
		{
			print_remedy(remedy);
		}
	}
	if (json_array_size(causes) == 0)
		puts("- The allocator had no free memory: all that it held was "
		     "in use.");
	putchar('\n');
}

static bool
print_holders(const struct snapshot *snapshot, const struct view_args *args,
    const struct holders *holders)
{
	struct table *table = table_new("rl");
	size_t count =
	    holders->count < OOM_HOLDERS ? holders->count : OOM_HOLDERS;
	uint32_t stacks[OOM_HOLDERS];
	char text[CALLERS_TEXT];
	bool printed;

	for (size_t i = 0; i < count; i++)
		stacks[i] = holders->items[i].stack;
	printed = callers_tell_apart(args->callers, stacks, count);
	puts("\nlargest holders:");
	for (size_t i = 0; i < count; i++) {
		table_add(table, "  %s", size_text(holders->items[i].bytes));
		table_add(
		    table, "%s", callers_text(args->callers, stacks[i], text));
		add_frames(table, 2, args, snapshot, stacks[i]);
	}
	printed = table_print(table, false) && printed;
	table_free(table);
	return printed;
}

static bool
print_oom_text(const struct snapshot *snapshot, const struct view_args *args,
    const struct verdict *verdict, const struct advice *advice,
    const struct holders *holders)
{
	print_summary(snapshot, args, verdict);
	print_causes(verdict->causes);
	if (advice != NULL) {
		puts("in replays of the recording:");
		advice_print(advice, "'weir advise'");
		putchar('\n');
	}
	return print_where(verdict) && print_holders(snapshot, args, holders);
}

static json_t *
oom_json(const struct snapshot *snapshot, const char *path,
    const struct verdict *verdict, const struct advice *advice)
{
	json_t *object = json_object();
	const struct {
		const char *name;
		const struct sums *sums;
	} parts[] = {
		{ "own_pool", &verdict->own },
		{ "other_kind", &verdict->kind },
		{ "other_streams", &verdict->others },
		{ "private_pools", &verdict->pools },
		{ "all", &verdict->all },
	};

	json_object_set_new(object, "snapshot", json_of_text(path));
	put_number(object, "device", verdict->device);
	put_number(object, "stream", verdict->stream);
	put_number(object, "size_bytes", verdict->bytes);
	json_object_set_new(object, "device_free_bytes",
	    verdict->free_known ?
		json_integer((json_int_t)verdict->device_free) :
		json_null());
	json_object_set_new(object, "limit_bytes",
	    verdict->limited ? json_integer((json_int_t)verdict->limit) :
			       json_null());
	json_object_set_new(object, "limit_source",
	    verdict->limited ? json_string(verdict->limit_source) :
			       json_null());
	put_number(object, "later_events", verdict->later);
	json_object_set_new(object, "frames",
	    stack_json(snapshot,
		verdict->event == UINT32_MAX ?
		    0 :
		    snapshot->events.stack[verdict->event]));
	json_object_set(object, "causes", verdict->causes);
	json_object_set_new(object, "replays",
	    advice == NULL ? json_null() : advice_json(advice));
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		json_t *sums = json_object();

		put_sums(sums, parts[i].sums);
		json_object_set_new(object, parts[i].name, sums);
	}
	return object;
}

static int
report_oom(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;
	struct verdict verdict = {
		.device = args->device < 0 ? 0 : (uint32_t)args->device,
		.stream = choices->stream,
		.bytes = choices->bytes,
		.event = UINT32_MAX,
	};
	struct holders holders = { 0 };
	struct advice advice = { 0 };
	int status = TOOL_FAILED;

	if (choices->bytes == 0 &&
	    !verdict_last_failure(snapshot, args->device, &verdict)) {
		complain("%s: the trace has no 'oom' event; --size names a "
			 "request to judge",
		    args->paths[0]);
		return TOOL_FAILED;
	}
	verdict.callers = args->callers;
	if (verdict_find(snapshot, &verdict) &&
	    holders_find(verdict.moment, (int)verdict.device, &holders)) {
		const struct advice *found;
		bool good = advise_on_failure(
		    snapshot, args->paths[0], &verdict, &advice, &found);

		if (found != NULL)
			mark_remedies(&verdict, found);
		if (args->json)
			status = print_json(oom_json(
			    snapshot, args->paths[0], &verdict, found));
		else if (print_oom_text(
			     snapshot, args, &verdict, found, &holders))
			status = TOOL_DONE;
		/* The answer is good, but lacks the replays. */
		if (!good)
			status = TOOL_FAILED;
	}
	advice_drop(&advice);
	verdict_drop(&verdict);
	holders_drop(&holders);
	return status;
}

int
cmd_oom(int argc, char **argv)
{
	struct choices choices = { 0 };

	return view_run(&argp_oom, argc, argv, &choices.view, report_oom);
}
