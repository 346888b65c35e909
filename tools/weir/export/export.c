/*
 * weir export: write a snapshot in a form that other tools read.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/guess.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/reading/timeline.h"

enum form { FORM_JSON, FORM_CHROME, FORM_FOLDED, FORM_CSV, FORMS };

static const char *const forms[FORMS + 1] = { "json", "chrome", "folded", "csv",
	NULL };

struct choices {
	struct view_args view;
	enum form form;
	const char *output;
	const char *join; /* a profiler's trace, or NULL */
};

static const struct argp_option flags[] = {
	{ "format", 'f', "FORMAT", 0,
	    "json, chrome, folded or csv (default: json)", 0 },
	{ "output", 'o', "FILE", 0,
	    "write to FILE (default: stdout), compressed if it ends in .gz",
	    0 },
	{ "join", 'J', "TRACE", 0,
	    "with -f chrome: add the memory to a trace of PyTorch's "
	    "profiler (JSON) or Nsight Systems (SQLite), on its clock",
	    0 },
	{ 0 },
};

static error_t
parse_export_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;
	unsigned form = 0;
	char nearest[GUESS_TEXT];

	switch (key) {
	case 'f':
		while (form < FORMS && strcmp(value, forms[form]) != 0)
			form++;
		if (form == FORMS)
			argp_error(state,
			    "--format is json, chrome, folded or csv, not "
			    "'%s'%s",
			    value, guess_of(value, forms, nearest));
		choices->form = (enum form)form;
		return 0;
	case 'o':
		choices->output = value;
		return 0;
	case 'J':
		choices->join = value;
		return 0;
	case ARGP_KEY_END:
		if (choices->join != NULL && choices->form != FORM_CHROME)
			argp_error(state, "--join goes with --format=chrome");
		return 0;
	default:
		return view_parse_flag(key, value, state);
	}
}

const struct argp argp_export = { flags, parse_export_flag, "SNAPSHOT",
	"Write a memory snapshot in a form that other tools read.\v"
	"json is PyTorch's form in JSON; chrome is a trace for Perfetto "
	"(ui.perfetto.dev) and chrome://tracing; folded has a line for each "
	"block, for flame graphs; csv is the trace of one device, for weir "
	"replay. A file is readable by its owner alone. Symbolic links are not "
	"followed. " TOOL_STATUS,
	view_children, NULL, NULL };

static bool
write_csv(
    const struct snapshot *snapshot, const struct choices *choices, FILE *out)
{
	uint32_t device = choices->view.device == VIEW_ALL_DEVICES ?
	    snapshot_traced_device(snapshot, 0) :
	    (uint32_t)choices->view.device;
	const char *path = choices->view.paths[0];
	const char *slash = strrchr(path, '/');
	char name[VIEW_TEXT];

	if (device == UINT32_MAX) {
		complain("%s has no trace", path);
		return false;
	}
	if (device >= snapshot->trace_count ||
	    snapshot->traces[device].count == 0) {
		complain("%s has no trace of device %" PRIu32, path, device);
		return false;
	}
	plain_text(slash == NULL ? path : slash + 1, name);
	return snapshot_out_csv(snapshot, device, name, out);
}

static bool
write_chrome(
    const struct snapshot *snapshot, const struct choices *choices, FILE *out)
{
	struct timeline timeline;
	bool good;

	if (choices->join == NULL)
		return snapshot_out_chrome(snapshot, NULL, out);
	if (!timeline_read(choices->join, &timeline))
		return false;
	good = snapshot_out_chrome(snapshot, &timeline, out);
	free(timeline.text);
	return good;
}

static bool
write_form(
    const struct snapshot *snapshot, const struct choices *choices, FILE *out)
{
	struct snapshot_part part = { .snapshot = snapshot };

	switch (choices->form) {
	case FORM_CHROME:
		return write_chrome(snapshot, choices, out);
	case FORM_FOLDED:
		snapshot_out_folded(snapshot, out);
		return true;
	case FORM_CSV:
		return write_csv(snapshot, choices, out);
	default:
		snapshot_out_json(&part, 1, out);
		return true;
	}
}

static int
export_snapshot(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;
	FILE *out;

	if (args->json && choices->form != FORM_JSON) {
		complain("--json goes with --format=json, not with %s",
		    forms[choices->form]);
		return TOOL_USAGE;
	}
	if (args->device != VIEW_ALL_DEVICES && choices->form != FORM_CSV) {
		complain("--device goes with --format=csv; other forms hold "
			 "all devices");
		return TOOL_USAGE;
	}
	out = output_open(choices->output);
	if (out == NULL)
		return TOOL_FAILED;
	if (write_form(snapshot, choices, out))
		return output_close(out, choices->output) ? TOOL_DONE :
							    TOOL_FAILED;
	output_abandon(out);
	return TOOL_FAILED;
}

int
cmd_export(int argc, char **argv)
{
	struct choices choices = { .output = "-" };

	return view_run(
	    &argp_export, argc, argv, &choices.view, export_snapshot);
}
