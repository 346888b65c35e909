/*
 * weir advise: what would help, with the gain that a replay has verified.
 */
#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/weir/advise/advise_find.h"
#include "tools/weir/advise/tuning.h"
#include "tools/weir/live/watch_snapshot.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tool.h"

struct choices {
	const char *subject; /* a process, or a file */
	uint64_t limit;
	uint64_t seconds;
	uint64_t device; /* UINT64_MAX: all */
	bool json;
};

static const struct argp_option flags[] = {
	{ "device", 'd', "N", 0, "advise for device N only", 0 },
	{ "limit", 'l', "BYTES", 0,
	    "also find what makes the recording fit BYTES, such as 80G", 0 },
	{ "seconds", 's', "N", 0,
	    "try no further setting after N seconds (default: 120)", 0 },
	{ "json", 'j', NULL, 0, "print an object of JSON", 0 },
	{ 0 },
};

static error_t
parse_advise_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'd':
		if (!count_parse(value, UINT16_MAX, &choices->device))
			argp_error(
			    state, "--device is a number, not '%s'", value);
		return 0;
	case 'l':
		if (!bytes_parse(value, &choices->limit) || choices->limit == 0)
			argp_error(state,
			    "--limit is a size such as 80G, not '%s'", value);
		return 0;
	case 's':
		if (!count_parse(value, ADVISE_SECONDS_MAX, &choices->seconds))
			argp_error(state,
			    "--seconds is a number from 0 to %d, not '%s'",
			    ADVISE_SECONDS_MAX, value);
		return 0;
	case 'j':
		choices->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (choices->subject != NULL)
			argp_error(state, "'%s' is one too many", value);
		choices->subject = value;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no process, snapshot or trace");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_advise = { flags, parse_advise_flag,
	"PID|SNAPSHOT|TRACE",
	"Say which settings would let a program hold less memory, or serve the "
	"request that failed, and what each costs.\v"
	"Each gain is the difference of two replays of the whole recording. A "
	"snapshot needs a history. A PID is of a program under 'weir run "
	"--watch --history'. Exit status: 0 nothing helps, 1 there is advice, "
	"2 trouble.",
	NULL, NULL, NULL };

/* True for the number of a process; a file of such a name wins. */
static bool
is_process(const char *text)
{
	if (access(text, F_OK) == 0)
		return false;
	for (const char *c = text; *c != '\0'; c++)
		if (!isdigit((unsigned char)*c))
			return false;
	return text[0] != '\0';
}

/* Load the snapshot of a process, through a file that is removed. */
static struct snapshot *
load_process(const char *text)
{
	char folder[] = "/tmp/weir-advise-XXXXXX";
	char path[sizeof(folder) + 16];
	struct snapshot *snapshot = NULL;
	uint64_t pid;

	if (!count_parse(text, INT32_MAX, &pid) || pid == 0) {
		complain("'%s' is no process", text);
		return NULL;
	}
	if (mkdtemp(folder) == NULL) {
		complain("cannot write in /tmp: %s", strerror(errno));
		return NULL;
	}
	snprintf(path, sizeof(path), "%s/snapshot", folder);
	if (watch_snapshot((pid_t)pid, path, false)) {
		snapshot = snapshot_load(path);
		unlink(path);
	}
	rmdir(folder);
	return snapshot;
}

struct advising {
	const struct choices *choices;
	struct snapshot *snapshot;
	const char *path; /* NULL: there is no file to play */
	json_t *devices;
	bool found;
};

static bool
advise_device(struct advising *advising, uint32_t device)
{
	const struct choices *choices = advising->choices;
	const struct advise_request request = {
		.snapshot = advising->snapshot,
		.device = device,
		.path = advising->path,
		.limit = choices->limit,
		.seconds = (unsigned)choices->seconds,
	};
	struct advice advice;
	bool good = advise_find(&request, &advice);

	if (good && choices->json) {
		json_t *json = advice_json(&advice);

		put_number(json, "device", device);
		json_array_append_new(advising->devices, json);
	} else if (good) {
		if (advising->snapshot->trace_count > 1)
			printf("device %" PRIu32 ":\n", device);
		advice_print(&advice, "a larger --seconds");
	}
	advising->found |= good && json_array_size(advice.list) > 0;
	advice_drop(&advice);
	return good;
}

static int
advise_devices(struct advising *advising)
{
	const struct snapshot *snapshot = advising->snapshot;
	bool any = false;

	for (uint32_t d = snapshot_traced_device(snapshot, 0); d != UINT32_MAX;
	     d = snapshot_traced_device(snapshot, d + 1)) {
		if (advising->choices->device != UINT64_MAX &&
		    advising->choices->device != d)
			continue;
		any = true;
		if (!advise_device(advising, d))
			return TOOL_FAILED;
	}
	if (!any) {
		complain("%s has no history%s", advising->choices->subject,
		    advising->choices->device != UINT64_MAX ?
			" of this device" :
			"");
		return TOOL_FAILED;
	}
	return advising->found ? TOOL_FOUND : TOOL_DONE;
}

/* Load the subject. False, and a complaint, on failure. */
static bool
load_subject(struct advising *advising)
{
	const char *subject = advising->choices->subject;

	if (strcmp(subject, "-") == 0) {
		complain("advise reads its file several times: name a file, "
			 "not '-'");
		return false;
	}
	if (is_process(subject)) {
		advising->snapshot = load_process(subject);
		return advising->snapshot != NULL;
	}
	advising->snapshot = snapshot_or_trace_load(subject);
	advising->path = subject;
	return advising->snapshot != NULL;
}

int
cmd_advise(int argc, char **argv)
{
	struct choices choices = { .limit = UINT64_MAX,
		.seconds = ADVISE_SECONDS,
		.device = UINT64_MAX };
	struct advising advising = { .choices = &choices };
	int status = TOOL_FAILED;

	argp_parse(&argp_advise, argc, argv, 0, NULL, &choices);
	if (!load_subject(&advising))
		return TOOL_FAILED;
	advising.devices = json_array();
	status = advise_devices(&advising);
	if (choices.json && status != TOOL_FAILED) {
		json_t *json = json_object();

		json_object_set_new(
		    json, "subject", json_of_text(choices.subject));
		json_object_set(json, "devices", advising.devices);
		if (print_json(json) != TOOL_DONE)
			status = TOOL_FAILED;
	}
	json_decref(advising.devices);
	snapshot_free(advising.snapshot);
	return status;
}
