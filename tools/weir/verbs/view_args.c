/*
 * The flags of the subcommands that read snapshots, and running one of them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_view.h"

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ "device", 'd', "N", 0, "only device N", 0 },
	{ 0 },
};

static void
parse_view_device(
    struct view_args *args, const char *value, const struct argp_state *state)
{
	char *end;
	long device = strtol(value, &end, 10);

	if (end == value || *end != '\0' || device < 0 || device > 4095)
		argp_error(state,
		    "--device is a number from 0 to 4095, not '%s'", value);
	args->device = (int)device;
}

static void
parse_view_paths(struct view_args *args, const struct argp_state *state)
{
	unsigned count = (unsigned)(state->argc - state->next);

	if (count < args->least)
		argp_error(
		    state, count == 0 ? "no SNAPSHOT" : "too few SNAPSHOTs");
	if (count > args->most)
		argp_error(state, "'%s' is one SNAPSHOT too many",
		    state->argv[state->next + (int)args->most]);
	args->paths = state->argv + state->next;
}

static error_t
parse_common_flag(int key, char *value, struct argp_state *state)
{
	struct view_args *args = state->input;

	switch (key) {
	case 'j':
		args->json = true;
		return 0;
	case 'd':
		parse_view_device(args, value, state);
		return 0;
	case ARGP_KEY_ARGS:
	case ARGP_KEY_NO_ARGS:
		parse_view_paths(args, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp view_argp = { flags, parse_common_flag, NULL, NULL, NULL,
	NULL, NULL };

const struct argp_child view_children[2] = {
	{ &view_argp, 0, NULL, 0 },
	{ 0 },
};

error_t
view_parse_flag(int key, char *value, struct argp_state *state)
{
	(void)value;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = state->input;
	return 0;
}

/* The number of devices that have a trace, or segments of device memory or of
 * page-locked host memory. */
static uint32_t
count_devices(const struct snapshot *snapshot)
{
	const struct snapshot host = snapshot_host(snapshot);
	uint32_t own = snapshot_device_count(snapshot);
	uint32_t of_host = snapshot_device_count(&host);

	return own > of_host ? own : of_host;
}

bool
view_has_device(const struct snapshot *snapshot, int device)
{
	return device == VIEW_ALL_DEVICES ||
	    (uint32_t)device < count_devices(snapshot);
}

void
view_complain_of_device(
    const struct snapshot *snapshot, int device, const char *path)
{
	uint32_t count = count_devices(snapshot);

	if (count == 0)
		complain("%s is empty: it has no device %d", path, device);
	else if (count == 1)
		complain("%s has device 0 only, not %d", path, device);
	else
		complain("%s has devices 0 %s %" PRIu32 " only, not %d", path,
		    count == 2 ? "and" : "to", count - 1, device);
}

int
view_run(const struct argp *parser, int argc, char **argv,
    struct view_args *args,
    int (*report)(
	const struct snapshot *snapshot, const struct view_args *args))
{
	struct snapshot *snapshot;
	int status;

	args->device = VIEW_ALL_DEVICES;
	args->least = 1;
	args->most = 1;
	argp_parse(parser, argc, argv, 0, NULL, args);
	snapshot = snapshot_load(args->paths[0]);
	if (snapshot == NULL)
		return TOOL_FAILED;
	args->callers = callers_new(snapshot);
	if (args->callers == NULL) {
		status = TOOL_FAILED;
	} else if (view_has_device(snapshot, args->device)) {
		status = report(snapshot, args);
	} else {
		view_complain_of_device(snapshot, args->device, args->paths[0]);
		status = TOOL_FAILED;
	}
	callers_free(args->callers);
	args->callers = NULL;
	snapshot_free(snapshot);
	return status;
}

void
view_parse_frames(
    struct view_args *args, const char *value, const struct argp_state *state)
{
	args->frames = view_count("--frames", value, state);
}

unsigned long
view_count(const char *flag, const char *value, const struct argp_state *state)
{
	char *end;
	unsigned long count = strtoul(value, &end, 10);

	if (end == value || *end != '\0' || *value == '-' || count == 0)
		argp_error(
		    state, "%s is a number from 1 on, not '%s'", flag, value);
	return count;
}
