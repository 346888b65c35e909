/*
 * weir trace: print the events of a trace, one line each.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/weir/guess.h"
#include "tools/weir/progress.h"
#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/reading/snapshot_view.h"

struct choices {
	struct view_args view;
	unsigned long last;
	const char *action; /* or NULL */
};

static const struct argp_option flags[] = {
	{ "last", 'n', "N", 0, "only the last N events of each device", 0 },
	{ "action", 'a', "ACTION", 0,
	    "only events of this kind: alloc, free_requested, oom...", 0 },
	VIEW_FRAMES_FLAG,
	{ 0 },
};

static error_t
parse_trace_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'n':
		choices->last = view_count("--last", value, state);
		return 0;
	case 'a':
		choices->action = value;
		return 0;
	case 'f':
		view_parse_frames(&choices->view, value, state);
		return 0;
	default:
		return view_parse_flag(key, value, state);
	}
}

const struct argp argp_trace = { flags, parse_trace_flag, "SNAPSHOT",
	"Print the events of a memory snapshot's trace, oldest first, one line "
	"each, with the bytes that were live after the event.\v"
	"Times are in milliseconds since the first event. A trace has the last "
	"events only. Blocks that are older than the trace are counted if the "
	"trace frees them or if they are still live. With --json each event is "
	"an object on a line of its own. " TOOL_STATUS,
	view_children, NULL, NULL };

/* The course of a device's live bytes in its trace. */
struct course {
	uint64_t before; /* live bytes when the trace begins */
	uint64_t peak;
	uint32_t peak_event;
	int64_t first_us;
	int64_t last_us;
};

static bool
find_course(
    const struct snapshot *snapshot, uint32_t device, struct course *out)
{
	struct snapshot_trace trace = snapshot->traces[device];
	uint64_t live;

	*out = (struct course){ .peak_event = trace.first };
	if (!live_bytes_before(snapshot, device, &out->before))
		return false;
	live = out->before;
	out->peak = live;
	for (uint32_t i = 0; i < trace.count; i++) {
		live_bytes_follow(snapshot, trace.first + i, &live);
		if (live > out->peak) {
			out->peak = live;
			out->peak_event = trace.first + i;
		}
	}
	trace_times(snapshot, device, &out->first_us, &out->last_us);
	return true;
}

static double
ms_since(const struct snapshot *snapshot, const struct course *course,
    uint32_t event)
{
	int64_t time_us = snapshot->events.time_us[event];

	return time_us < course->first_us ?
	    0 :
	    (double)(time_us - course->first_us) / 1000;
}

/* The note after the site: how an allocation was served, or, for an oom event,
 * the bytes that the driver had free. Other events have the note "". An oom
 * event has the free bytes in the place of its address. */
static const char *
note_text(const struct snapshot *snapshot, uint32_t i, char text[2 * VIEW_TEXT])
{
	const struct snapshot_events *events = &snapshot->events;
	char served[VIEW_TEXT];

	text[0] = '\0';
	if (events->action[i] == SNAPSHOT_OOM)
		snprintf(text, 2 * VIEW_TEXT, "the driver had %s free",
		    size_text(events->address[i]));
	else if (events->served_by[i] != 0)
		snprintf(text, 2 * VIEW_TEXT, "served by: %s",
		    plain_text(
			snapshot_text(snapshot, events->served_by[i]), served));
	return text;
}

static void
print_event(const struct snapshot *snapshot, const struct view_args *args,
    const struct course *course, uint32_t i, uint64_t live)
{
	const struct snapshot_events *events = &snapshot->events;
	char action[VIEW_TEXT];
	char address[32] = "-";
	char site[CALLERS_TEXT] = "";
	char stream[VIEW_TEXT];
	char note[2 * VIEW_TEXT];

	plain_text(snapshot_action_name(snapshot, events->action[i]), action);
	if (events->action[i] != SNAPSHOT_OOM)
		snprintf(
		    address, sizeof(address), "%" PRIx64, events->address[i]);
	if (events->stack[i] != 0)
		callers_text(args->callers, events->stack[i], site);
	note_text(snapshot, i, note);
	printf("%12.3f  %-14s  %12s  %12s  %9s  %12s  %s%s%s\n",
	    ms_since(snapshot, course, i), action, address,
	    size_text(events->bytes[i]), stream_text(events->stream[i], stream),
	    size_text(live), site,
	    site[0] != '\0' && note[0] != '\0' ? "; " : "", note);
	print_frames(snapshot, args, events->stack[i], 20);
}

static bool
print_event_json(const struct snapshot *snapshot, uint32_t i, uint64_t live)
{
	const struct snapshot_events *events = &snapshot->events;
	json_t *object = json_object();
	bool oom = events->action[i] == SNAPSHOT_OOM;
	bool printed;

	put_number(object, "format_version", JSON_VERSION);
	put_number(object, "device", events->device[i]);
	json_object_set_new(object, "action",
	    json_string(snapshot_action_name(snapshot, events->action[i])));
	put_number(
	    object, oom ? "device_free_bytes" : "address", events->address[i]);
	put_number(object, "size_bytes", events->bytes[i]);
	put_number(object, "stream", events->stream[i]);
	put_number(object, "time_us", (uint64_t)events->time_us[i]);
	put_number(object, "live_bytes", live);
	if (events->served_by[i] != 0)
		json_object_set_new(object, "served_by",
		    json_string(snapshot_text(snapshot, events->served_by[i])));
	json_object_set_new(
	    object, "frames", stack_json(snapshot, events->stack[i]));
	printed = json_print(object, JSON_COMPACT, stdout);
	putchar('\n');
	json_decref(object);
	return printed;
}

static bool
is_selected(
    const struct snapshot *snapshot, const struct choices *choices, uint32_t i)
{
	return choices->action == NULL ||
	    strcmp(choices->action,
		snapshot_action_name(snapshot, snapshot->events.action[i])) ==
	    0;
}

static void
print_heading(const struct snapshot *snapshot, uint32_t device,
    const struct course *course)
{
	struct snapshot_trace trace = snapshot->traces[device];
	char count[VIEW_TEXT];

	printf("device %" PRIu32 ": %s in %.3f ms; the peak of live "
	       "bytes was %s, after %.3f ms; %s were live before the trace\n",
	    device, plural_text(trace.count, "event", count),
	    (double)(course->last_us - course->first_us) / 1000,
	    size_text(course->peak),
	    trace.count == 0 ? 0.0 :
			       ms_since(snapshot, course, course->peak_event),
	    size_text(course->before));
	printf("%12s  %-14s  %12s  %12s  %9s  %12s  %s\n", "ms", "action",
	    "address", "size", "stream", "live", "by");
}

/* Show no progress if stdout is a terminal or a pipe. A pipe often leads to a
 * pager, whose screen a line of progress would spoil. */
static void
begin_progress(struct progress *progress)
{
	struct stat about;

	progress_begin_output(progress, stdout);
	if (fstat(STDOUT_FILENO, &about) != 0 || S_ISFIFO(about.st_mode))
		progress->shows = false;
}

static bool
print_trace_device(const struct snapshot *snapshot,
    const struct choices *choices, uint32_t device)
{
	struct snapshot_trace trace = snapshot->traces[device];
	struct progress progress;
	struct course course;
	uint64_t live;
	bool good = true;

	if (!find_course(snapshot, device, &course))
		return false;
	live = course.before;
	if (!choices->view.json)
		print_heading(snapshot, device, &course);
	begin_progress(&progress);
	for (uint32_t i = 0; good && i < trace.count; i++) {
		uint32_t event = trace.first + i;

		if (i % PROGRESS_STEPS == 0)
			progress_part(&progress, "writing", i, trace.count);
		live_bytes_follow(snapshot, event, &live);
		if (trace.count - i > choices->last ||
		    !is_selected(snapshot, choices, event))
			continue;
		if (choices->view.json)
			good = print_event_json(snapshot, event, live);
		else
			print_event(
			    snapshot, &choices->view, &course, event, live);
		good = good && !ferror(stdout);
	}
	progress_end(&progress);
	return good;
}

static bool
action_is_known(const struct snapshot *snapshot, const char *action)
{
	struct guess guess;
	char nearest[GUESS_TEXT];

	if (action == NULL)
		return true;
	guess_begin(&guess, action);
	for (uint32_t i = 0; i < snapshot->action_count; i++) {
		const char *name = snapshot_action_name(snapshot, i);

		if (strcmp(action, name) == 0)
			return true;
		guess_try(&guess, name);
	}
	complain("no event is a '%s'%s", action, guess_text(&guess, nearest));
	return false;
}

static int
report_trace(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;

	if (!action_is_known(snapshot, choices->action))
		return TOOL_FAILED;
	if (snapshot->events.count == 0 && !args->json)
		puts("the snapshot has no trace");
	for (uint32_t d = 0; d < snapshot->trace_count; d++)
		if (view_has(args, d) && snapshot->traces[d].count > 0 &&
		    !print_trace_device(snapshot, choices, d))
			return TOOL_FAILED;
	return TOOL_DONE;
}

int
cmd_trace(int argc, char **argv)
{
	struct choices choices = { .last = UINT32_MAX };

	return view_run(&argp_trace, argc, argv, &choices.view, report_trace);
}
