/*
 * weir replay: play recorded traces through weir and tell what it took.
 *
 * Each trace is played in a child process, so that each starts from an empty
 * arena and a failure of one does not lose the others. The child sends its
 * figures up a pipe, as the JSON object that --json prints.
 */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "tools/weir/player.h"
#include "tools/weir/tool.h"
#include "tools/weir/trace_file.h"

/* The figures of all traces so far. Static, so that a child that ends in the
 * middle of a function has not lost it. */
static json_t *all_figures;

struct choices {
	struct play_choices play;
	const char *conf;
	bool json;
	bool simulated;
	char **traces; /* paths, up to NULL */
};

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print one object a trace, one a line", 0 },
	{ "limit", 'l', "BYTES", 0,
	    "let weir hold at most so much of the device; 512M, 8G", 0 },
	{ "conf", 'c', "CONF", 0, "options, \"key:value,key:value\"", 0 },
	{ "speed", 'x', "N", 0,
	    "play N times as fast as it was recorded; 1 is the default", 0 },
	{ "check", 'k', NULL, 0,
	    "check all memory every 1000 rows and at the end, and write to it",
	    0 },
	{ "sim", 's', NULL, 0,
	    "play on the simulated device, as is done where there is no GPU",
	    0 },
	{ 0 },
};

static void
take_speed(
    struct choices *choices, const char *value, const struct argp_state *state)
{
	char *end;
	double speed = strtod(value, &end);

	if (end == value || *end != '\0' || !isfinite(speed) || speed < 0.001 ||
	    speed > 1e6)
		argp_error(state,
		    "--speed is a number from 0.001 to 1e6, not '%s'", value);
	choices->play.speed = speed;
}

static error_t
take_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case 'l':
		if (!bytes_parse(value, &choices->play.limit_bytes))
			argp_error(state,
			    "--limit is a size such as 512M or 8G, not '%s'",
			    value);
		return 0;
	case 'c':
		choices->conf = value;
		return 0;
	case 'x':
		take_speed(choices, value, state);
		return 0;
	case 'k':
		choices->play.check = true;
		return 0;
	case 's':
		choices->simulated = true;
		return 0;
	case ARGP_KEY_ARGS:
		choices->traces = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no TRACE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp parser = { flags, take_flag, "TRACE...",
	"Play recorded allocations through weir, each trace from an empty "
	"arena, and print what they took.\v"
	"A TRACE is CSV with the columns action,addr,size,stream,time_us, "
	"plain "
	"or compressed by xz. Efficiency is peak live bytes over peak held "
	"bytes; host waits are times the host waited for the device. Exit "
	"status: 0, also when requests failed for want of memory; 1 if a trace "
	"could not be played or a check failed; 2 for a wrong command line.",
	NULL, NULL, NULL };

/* ---- In the child ---------------------------------------------------- */

static json_t *
figures_json(const struct trace *trace, const struct choices *choices,
    const struct figures *f)
{
	double efficiency = f->peak_held_bytes == 0 ?
	    0 :
	    (double)f->peak_live_bytes / (double)f->peak_held_bytes;
	json_t *object =
	    json_pack("{ss sI sI sI sI sI sI sI sf sI sI sI sI sI sf sb ss}",
		"name", trace->name, "events", (json_int_t)f->events, "allocs",
		(json_int_t)f->allocs, "peak_live_bytes",
		(json_int_t)f->peak_live_bytes, "peak_active_bytes",
		(json_int_t)f->peak_active_bytes, "peak_pending_bytes",
		(json_int_t)f->peak_pending_bytes, "peak_held_bytes",
		(json_int_t)f->peak_held_bytes, "peak_held_driver_bytes",
		(json_int_t)f->peak_held_driver_bytes, "efficiency", efficiency,
		"ooms", (json_int_t)f->ooms, "device_allocs",
		(json_int_t)f->device_allocs, "device_frees",
		(json_int_t)f->device_frees, "host_waits",
		(json_int_t)f->host_waits, "gpu_waits",
		(json_int_t)f->gpu_waits, "seconds", f->seconds, "simulated",
		f->simulated, "device", f->device);

	json_object_set(object, "driver_calls", f->driver_calls);
	if (trace->recorded_held_bytes != 0)
		json_object_set_new(object, "recorded_held_bytes",
		    json_integer((json_int_t)trace->recorded_held_bytes));
	if (choices->play.limit_bytes != UINT64_MAX)
		json_object_set_new(object, "limit_bytes",
		    json_integer((json_int_t)choices->play.limit_bytes));
	if (choices->conf != NULL)
		json_object_set_new(object, "conf", json_string(choices->conf));
	return object;
}

static int
play_file(const char *path, const struct choices *choices, FILE *out)
{
	struct trace_error error;
	struct figures figures;
	struct trace trace;
	json_t *object;
	int status = TOOL_NO;

	if (choices->conf != NULL &&
	    weir_options_set(choices->conf) != WEIR_OK) {
		complain("%s", weir_last_error());
		return TOOL_USAGE;
	}
	if (!trace_read(path, &trace, &error)) {
		complain("%s", error.text);
		return TOOL_NO;
	}
	if (play(&trace, &choices->play, &figures)) {
		object = figures_json(&trace, choices, &figures);
		if (json_dumpf(object, out, JSON_COMPACT) == 0)
			status = TOOL_DONE;
		else
			complain("%s: cannot tell the figures", path);
		json_decref(object);
		json_decref(figures.driver_calls);
	}
	trace_drop(&trace);
	return status;
}

/* ---- In the parent --------------------------------------------------- */

static bool
start_child(const char *path, const struct choices *choices, pid_t *child,
    FILE **figures)
{
	int ends[2];

	fflush(NULL);
	if (pipe(ends) != 0)
		goto failed;
	*child = fork();
	if (*child < 0)
		goto close_ends;
	if (*child == 0) {
		FILE *out = fdopen(ends[1], "w");
		int status = TOOL_NO;

		close(ends[0]);
		if (out != NULL)
			status = play_file(path, choices, out);
		if (out == NULL || fclose(out) != 0)
			status = TOOL_NO;
		exit(status);
	}
	close(ends[1]);
	*figures = fdopen(ends[0], "r");
	if (*figures != NULL)
		return true;
	waitpid(*child, NULL, 0);
	ends[1] = -1;

close_ends:
	close(ends[0]);
	if (ends[1] >= 0)
		close(ends[1]);
failed:
	complain("%s: cannot start a process: %s", path, strerror(errno));
	return false;
}

/* Play one trace; `out` is its object when that went well. */
static int
replay_one(const char *path, const struct choices *choices, json_t **out)
{
	FILE *figures;
	pid_t child;
	int status;

	if (!start_child(path, choices, &child, &figures))
		return TOOL_NO;
	*out = json_loadf(figures, 0, NULL);
	fclose(figures);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR) {
			complain("%s: %s", path, strerror(errno));
			return TOOL_NO;
		}
	if (WIFSIGNALED(status))
		complain("%s: the replay was killed by signal %d (%s)", path,
		    WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WIFEXITED(status) && WEXITSTATUS(status) != TOOL_DONE)
		return WEXITSTATUS(status) == TOOL_USAGE ? TOOL_USAGE : TOOL_NO;
	return WIFEXITED(status) && *out != NULL ? TOOL_DONE : TOOL_NO;
}

/* ---- Printing -------------------------------------------------------- */

static uint64_t
number(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

static void
add_bytes(struct table *table, const json_t *object, const char *key)
{
	char text[32];

	if (json_object_get(object, key) == NULL)
		table_add(table, "-");
	else
		table_add(table, "%s",
		    bytes_format(number(object, key), text, sizeof(text)));
}

static uint64_t
sum_of_calls(json_t *calls)
{
	const char *name;
	json_t *count;
	uint64_t sum = 0;

	json_object_foreach(calls, name, count) sum +=
	    (uint64_t)json_integer_value(count);
	return sum;
}

static bool
print_summary(json_t *all)
{
	static const char *const heading[] = { "trace", "events", "allocs",
		"peak live", "peak held", "efficiency", "recorded held", "ooms",
		"driver calls", "host waits", "gpu waits", "seconds" };
	struct table *table = table_new("lrrrrrrrrrrr");
	json_t *one;
	size_t i;
	bool printed;

	for (i = 0; i < sizeof(heading) / sizeof(heading[0]); i++)
		table_add(table, "%s", heading[i]);
	json_array_foreach(all, i, one)
	{
		json_t *calls = json_object_get(one, "driver_calls");

		table_add(table, "%s",
		    json_string_value(json_object_get(one, "name")));
		table_add(table, "%ju", (uintmax_t)number(one, "events"));
		table_add(table, "%ju", (uintmax_t)number(one, "allocs"));
		add_bytes(table, one, "peak_live_bytes");
		add_bytes(table, one, "peak_held_bytes");
		table_add(table, "%.1f %%",
		    100 * json_real_value(json_object_get(one, "efficiency")));
		add_bytes(table, one, "recorded_held_bytes");
		table_add(table, "%ju", (uintmax_t)number(one, "ooms"));
		if (json_is_object(calls))
			table_add(table, "%ju", (uintmax_t)sum_of_calls(calls));
		else
			table_add(table, "-");
		table_add(table, "%ju", (uintmax_t)number(one, "host_waits"));
		table_add(table, "%ju", (uintmax_t)number(one, "gpu_waits"));
		table_add(table, "%.2f",
		    json_real_value(json_object_get(one, "seconds")));
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

/* What the summary has no room for. */
static bool
print_details(json_t *one)
{
	struct table *table = table_new("lr");
	json_t *calls = json_object_get(one, "driver_calls");
	const char *name;
	json_t *count;
	bool printed;

	table_add(table, "peak active");
	add_bytes(table, one, "peak_active_bytes");
	table_add(table, "peak pending");
	add_bytes(table, one, "peak_pending_bytes");
	table_add(table, "peak held, as the driver counts");
	add_bytes(table, one, "peak_held_driver_bytes");
	table_add(table, "times memory was taken from the driver");
	table_add(table, "%ju", (uintmax_t)number(one, "device_allocs"));
	table_add(table, "times it was given back");
	table_add(table, "%ju", (uintmax_t)number(one, "device_frees"));
	json_object_foreach(calls, name, count)
	{
		table_add(table, "calls of %s", name);
		table_add(table, "%ju", (uintmax_t)json_integer_value(count));
	}
	putchar('\n');
	printed = table_print(table, false);
	table_free(table);
	return printed;
}

static bool
print_text(json_t *all)
{
	json_t *first = json_array_get(all, 0);

	if (first == NULL)
		return true;
	printf("on %s%s\n", json_string_value(json_object_get(first, "device")),
	    json_is_true(json_object_get(first, "simulated")) ? ", simulated" :
								"");
	if (!print_summary(all))
		return false;
	return json_array_size(all) > 1 || print_details(first);
}

static bool
print_line(const json_t *object)
{
	bool printed = json_dumpf(object, stdout, JSON_COMPACT) == 0;

	putchar('\n');
	fflush(stdout);
	return printed;
}

int
cmd_replay(int argc, char **argv)
{
	struct choices choices = { .play = { .limit_bytes = UINT64_MAX,
				       .speed = 1 } };
	int result = TOOL_DONE;

	argp_parse(&parser, argc, argv, 0, NULL, &choices);
	if (!use_simulated_if(choices.simulated))
		return TOOL_NO;
	all_figures = json_array();
	for (char **path = choices.traces; *path != NULL; path++) {
		json_t *figures = NULL;
		int status = replay_one(*path, &choices, &figures);

		if (status == TOOL_DONE && choices.json && !print_line(figures))
			status = TOOL_NO;
		if (status == TOOL_DONE)
			json_array_append(all_figures, figures);
		else
			result = status;
		json_decref(figures);
		if (status == TOOL_USAGE)
			break;
	}
	if (!choices.json && !print_text(all_figures)) {
		complain("cannot print: out of memory");
		result = TOOL_NO;
	}
	json_decref(all_figures);
	return result;
}
