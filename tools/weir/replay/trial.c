/*
 * Playing a trace in a child process, once, or repeatedly to find the limit
 * that the trace needs. The child sends its figures through a pipe, as the JSON
 * object that `weir replay --json` prints.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/out.h"
#include "tools/weir/progress.h"
#include "tools/weir/replay/trial.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

/* ---- In the child ---------------------------------------------------- */

static void
add_trial_number(json_t *object, const char *key, uint64_t number)
{
	json_object_set_new(object, key, json_integer((json_int_t)number));
}

/* The share `part` of `whole`; 0 of nothing. */
static double
share_of(uint64_t part, uint64_t whole)
{
	return whole == 0 ? 0 : (double)part / (double)whole;
}

/* Add the counters in the order of the manual. */
static void
add_counters(json_t *object, const struct figures *figures)
{
	const struct {
		const char *key;
		uint64_t value;
	} counters[] = {
		{ "ooms", figures->ooms },
		{ "device_allocs", figures->device_allocs },
		{ "device_frees", figures->device_frees },
		{ "map_calls", figures->map_calls },
		{ "map_calls_late", figures->map_calls_late },
		{ "unmap_calls", figures->unmap_calls },
		{ "remapped_bytes", figures->remapped_bytes },
		{ "host_waits", figures->host_waits },
		{ "gpu_waits", figures->gpu_waits },
		{ "planned_allocs", figures->planned_allocs },
		{ "measured_wait_us", figures->measured_wait_us },
		{ "measured_delay_us", figures->measured_delay_us },
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		add_trial_number(object, counters[i].key, counters[i].value);
	if (figures->simulated) {
		add_trial_number(object, "gpu_wait_us", figures->gpu_wait_us);
		add_trial_number(object, "gpu_stall_us", figures->gpu_stall_us);
	} else {
		json_object_set_new(object, "gpu_wait_us", json_null());
		json_object_set_new(object, "gpu_stall_us", json_null());
	}
	add_trial_number(object, "duration_us", figures->duration_us);
}

/* Add the figures of page-locked memory, if the trace has any. */
static void
add_pinned(json_t *object, const struct figures *figures)
{
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{ "pinned_allocs", figures->pinned_allocs },
		{ "pinned_peak_live_bytes", figures->pinned_peak_live_bytes },
		{ "pinned_peak_held_bytes", figures->pinned_peak_held_bytes },
		{ "pinned_driver_calls", figures->pinned_driver_calls },
		{ "pinned_driver_calls_late",
		    figures->pinned_driver_calls_late },
		{ "pin_us", figures->pin_us },
		{ "unpin_us", figures->unpin_us },
		{ "pin_delay_us", figures->pin_delay_us },
	};

	if (!figures->has_pinned)
		return;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		add_trial_number(object, numbers[i].key, numbers[i].value);
	json_object_set_new(object, "pinned_efficiency",
	    json_real(share_of(figures->pinned_peak_live_bytes,
		figures->pinned_peak_held_bytes)));
	json_object_set_new(object, "pin_delay_share",
	    json_real(share_of(figures->pin_delay_us, figures->duration_us)));
}

static json_t *
figures_json(const struct trace *trace, const struct trial_choices *choices,
    const struct figures *figures)
{
	double efficiency =
	    share_of(figures->peak_live_bytes, figures->peak_held_bytes);
	json_t *object = json_object();

	json_object_set_new(object, "name", json_string(trace->name));
	add_trial_number(object, "events", figures->events);
	add_trial_number(object, "allocs", figures->allocs);
	add_trial_number(object, "peak_live_bytes", figures->peak_live_bytes);
	add_trial_number(
	    object, "peak_active_bytes", figures->peak_active_bytes);
	add_trial_number(
	    object, "peak_pending_bytes", figures->peak_pending_bytes);
	add_trial_number(object, "peak_held_bytes", figures->peak_held_bytes);
	add_trial_number(
	    object, "peak_held_driver_bytes", figures->peak_held_driver_bytes);
	json_object_set_new(object, "efficiency", json_real(efficiency));
	add_counters(object, figures);
	add_pinned(object, figures);
	json_object_set_new(object, "seconds", json_real(figures->seconds));
	json_object_set_new(
	    object, "simulated", json_boolean(figures->simulated));
	json_object_set_new(object, "device", json_string(figures->device));
	json_object_set(object, "driver_calls", figures->driver_calls);
	if (figures->repeats) {
		add_trial_number(
		    object, "repeated_allocs", figures->repeated_allocs);
		add_trial_number(object, "moved_allocs", figures->moved_allocs);
		add_trial_number(object, "repeated_large_allocs",
		    figures->repeated_large_allocs);
		add_trial_number(
		    object, "moved_large_allocs", figures->moved_large_allocs);
	}
	if (figures->ways != NULL) {
		json_object_set(object, "served", figures->ways);
		json_object_set(object, "costliest", figures->costliest);
	}
	if (figures->curve != NULL)
		json_object_set(object, "held_curve", figures->curve);
	if (choices->play.touch)
		add_trial_number(object, "mismatches", figures->mismatches);
	if (trace->device >= 0)
		add_trial_number(
		    object, "snapshot_device", (uint64_t)trace->device);
	if (trace->next_device >= 0)
		add_trial_number(
		    object, "next_device", (uint64_t)trace->next_device);
	if (trace->recorded_held_bytes != 0)
		add_trial_number(
		    object, "recorded_held_bytes", trace->recorded_held_bytes);
	if (choices->play.limit_bytes != UINT64_MAX)
		add_trial_number(
		    object, "limit_bytes", choices->play.limit_bytes);
	if (choices->conf != NULL)
		json_object_set_new(object, "conf", json_string(choices->conf));
	return object;
}

/* Send the figures to the parent. False, and a complaint, on failure. */
static bool
send_figures(FILE *out, const struct trace *trace,
    const struct trial_choices *choices, const struct figures *figures)
{
	json_t *object = figures_json(trace, choices, figures);
	bool sent = json_print(object, JSON_COMPACT, out);

	if (!sent)
		complain("%s: cannot send the figures", trace->name);
	json_decref(object);
	return sent;
}

static int
play_file(const char *path, const struct trial_choices *choices, FILE *out)
{
	struct trace_error error;
	struct figures figures;
	struct trace trace;
	int status = TOOL_FAILED;

	if (choices->conf != NULL &&
	    weir_options_set(choices->conf) != WEIR_OK) {
		complain_conf("--conf", "weir_options_set");
		return TOOL_FAILED;
	}
	if (!trace_read_device(path, choices->device, &trace, &error)) {
		complain("%s", error.text);
		return TOOL_FAILED;
	}
	if (play(&trace, &choices->play, &figures)) {
		if (send_figures(out, &trace, choices, &figures))
			status = figures.faults > 0 || figures.mismatches > 0 ?
			    TOOL_FOUND :
			    TOOL_DONE;
		figures_drop(&figures);
	}
	trace_drop(&trace);
	return status;
}

/* ---- In the parent --------------------------------------------------- */

static bool
start_child(const char *path, const struct trial_choices *choices, pid_t *child,
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
		int status = TOOL_FAILED;

		tool_short_status = TOOL_SHORT;
		close(ends[0]);
		if (out != NULL)
			status = play_file(path, choices, out);
		if (out == NULL || fclose(out) != 0)
			status = TOOL_FAILED;
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

/* End as a process does that is short of host memory: the child was, and has
 * complained. */
static _Noreturn void
end_as_child(void)
{
	out_unlink_open();
	_exit(TOOL_FAILED);
}

int
trial_run(
    const char *path, const struct trial_choices *choices, json_t **figures)
{
	FILE *pipe;
	pid_t child;
	int status;

	*figures = NULL;
	if (!start_child(path, choices, &child, &pipe))
		return TOOL_FAILED;
	*figures = json_loadf(pipe, 0, NULL);
	fclose(pipe);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR) {
			complain("%s: %s", path, strerror(errno));
			return TOOL_FAILED;
		}
	if (WIFEXITED(status) && WEXITSTATUS(status) == TOOL_SHORT)
		end_as_child();
	if (WIFSIGNALED(status))
		complain("%s: the replay was killed by signal %d (%s)", path,
		    WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WIFEXITED(status) && WEXITSTATUS(status) < TOOL_FAILED &&
	    *figures != NULL)
		return WEXITSTATUS(status);
	return TOOL_FAILED;
}

bool
trial_conf_accepted(const char *flag, const char *conf)
{
	pid_t child;
	int status = 0;

	if (conf == NULL)
		return true;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (weir_options_set(conf) == WEIR_OK)
			_exit(TOOL_DONE);
		complain_conf(flag, "weir_options_set");
		_exit(TOOL_FAILED);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			child = -1;
	if (child < 0)
		complain("cannot start a process: %s", strerror(errno));
	return child > 0 && WIFEXITED(status) &&
	    WEXITSTATUS(status) == TOOL_DONE;
}

void
trial_forget_environment(void)
{
	unsetenv("WEIR_CONF");
	unsetenv("PYTORCH_CUDA_ALLOC_CONF");
	unsetenv("PYTORCH_ALLOC_CONF");
}

/* ---- The smallest limit ---------------------------------------------- */

uint64_t
trial_granules(uint64_t bytes)
{
	return (bytes + LIMIT_GRANULE - 1) / LIMIT_GRANULE * LIMIT_GRANULE;
}

/* Show the trial that begins, and the time that the rest may take. Each trial
 * halves `span`, the range of the search. */
static void
show_search(
    struct progress *progress, unsigned done, uint64_t bytes, uint64_t span)
{
	int64_t taken = progress_taken_ms(progress);
	unsigned to_do = 1;
	char limit[32];
	char rest[48] = "";

	for (; span > LIMIT_GRANULE; span /= 2)
		to_do++;
	bytes_format(bytes, limit, sizeof(limit));
	if (done > 0)
		snprintf(rest, sizeof(rest), ", about %lld s left",
		    (long long)(taken / done * to_do / 1000));
	progress_show(progress, "fit: limit %s, trial %u of about %u%s", limit,
	    done + 1, done + to_do, rest);
}

static int
try_limit(const char *path, const struct trial_choices *choices, uint64_t bytes,
    bool *fits)
{
	struct trial_choices limited = *choices;
	json_t *figures;
	int status;

	limited.play.limit_bytes = bytes;
	limited.play.until_oom = true;
	limited.play.explain = false;
	status = trial_run(path, &limited, &figures);
	*fits = json_integer_value(json_object_get(figures, "ooms")) == 0;
	json_decref(figures);
	return status;
}

int
trial_fit(const char *path, const struct trial_choices *choices,
    const json_t *figures, uint64_t *bytes)
{
	uint64_t live = (uint64_t)json_integer_value(
	    json_object_get(figures, "peak_live_bytes"));
	uint64_t held = (uint64_t)json_integer_value(
	    json_object_get(figures, "peak_held_bytes"));
	uint64_t low = trial_granules(live);
	uint64_t high = trial_granules(held) > low ? trial_granules(held) : low;
	struct progress progress;
	unsigned done = 0;
	bool fits = false;
	int status;

	*bytes = 0;
	if (json_integer_value(json_object_get(figures, "ooms")) != 0)
		return TOOL_DONE;
	progress_begin(&progress, 0);
	/* The lower end is often the answer. */
	show_search(&progress, done, low, high - low);
	status = try_limit(path, choices, low, &fits);
	done++;
	if (status == TOOL_DONE && fits)
		high = low;
	/* Without a limit no request needed more than `high`. A limit of `high`
	 * may still fail, because weir decides otherwise with a limit. */
	while (status == TOOL_DONE && high != low &&
	    (status = try_limit(path, choices, high, &fits)) == TOOL_DONE &&
	    !fits) {
		low = high;
		done++;
		show_search(&progress, done, high, high - low);
		high += trial_granules(high / 8);
	}
	while (status == TOOL_DONE && high - low > LIMIT_GRANULE) {
		uint64_t middle = low + trial_granules((high - low) / 2);

		show_search(&progress, done, middle, high - low);
		status = try_limit(path, choices, middle, &fits);
		if (fits)
			high = middle;
		else
			low = middle;
		done++;
	}
	progress_end(&progress);
	*bytes = high;
	return status;
}
