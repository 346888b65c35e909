/*
 * weir export: a snapshot for other tools.
 */
#include <string.h>

#include "tools/weir/snapshot_out.h"
#include "tools/weir/snapshot_view.h"

enum form { FORM_JSON, FORM_CHROME, FORM_FOLDED, FORM_CSV, FORMS };

static const char *const forms[FORMS] = { "json", "chrome", "folded", "csv" };

struct choices {
	struct view_args view;
	enum form form;
	const char *output;
};

static const struct argp_option flags[] = {
	{ "format", 'f', "FORMAT", 0,
	    "json, chrome, folded or csv; json without", 0 },
	{ "output", 'o', "FILE", 0, "write there; stdout without", 0 },
	{ 0 },
};

static error_t
take_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;
	unsigned form = 0;

	switch (key) {
	case ARGP_KEY_INIT:
		view_init(state);
		return 0;
	case 'f':
		while (form < FORMS && strcmp(value, forms[form]) != 0)
			form++;
		if (form == FORMS)
			argp_error(state,
			    "--format is json, chrome, folded or csv, not '%s'",
			    value);
		choices->form = (enum form)form;
		return 0;
	case 'o':
		choices->output = value;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_export = { flags, take_flag, "SNAPSHOT",
	"Write a memory snapshot in a form that other tools read.\v"
	"json is PyTorch's form in JSON; chrome is a trace for Perfetto "
	"(ui.perfetto.dev) and chrome://tracing; folded has a line for each "
	"block, for flame graphs; csv is the trace of one device, for weir "
	"replay. A file is readable by its owner alone, and a symbolic link is "
	"not followed.",
	view_children, NULL, NULL };

static bool
write_csv(
    const struct snapshot *snapshot, const struct choices *choices, FILE *out)
{
	uint32_t device = choices->view.device == VIEW_ALL_DEVICES ?
	    snapshot_traced_device(snapshot) :
	    (uint32_t)choices->view.device;
	const char *path = choices->view.paths[0];
	const char *slash = strrchr(path, '/');
	char name[VIEW_TEXT];

	if (device >= snapshot->trace_count ||
	    snapshot->traces[device].count == 0) {
		complain("%s: there is no trace of that device", path);
		return false;
	}
	plain_text(slash == NULL ? path : slash + 1, name);
	return snapshot_out_csv(snapshot, device, name, out);
}

static bool
write_form(
    const struct snapshot *snapshot, const struct choices *choices, FILE *out)
{
	struct snapshot_part part = { snapshot, 0 };

	switch (choices->form) {
	case FORM_CHROME:
		return snapshot_out_chrome(snapshot, out);
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
tell(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;
	FILE *out;
	bool good;

	if (args->device != VIEW_ALL_DEVICES && choices->form != FORM_CSV) {
		complain("--device goes with --format=csv; other forms hold "
			 "all devices");
		return TOOL_USAGE;
	}
	out = output_open(choices->output);
	if (out == NULL)
		return TOOL_NO;
	good = write_form(snapshot, choices, out);
	return output_close(out, choices->output) && good ? TOOL_DONE : TOOL_NO;
}

int
cmd_export(int argc, char **argv)
{
	struct choices choices = { .output = "-" };

	return view_run(&argp_export, argc, argv, &choices.view, tell);
}
