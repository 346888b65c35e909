/*
 * weir view: a memory snapshot as a page for a browser.
 *
 * The page is complete in itself and asks nothing of a network. Nothing of the
 * snapshot is written as HTML: it is one run of base64 in a place where
 * browsers look for no elements.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/page.h"
#include "tools/weir/page_data.h"
#include "tools/weir/snapshot_file.h"
#include "tools/weir/tool.h"

struct choices {
	const char *snapshot;
	const char *output;
	const char *title;
};

static const struct argp_option flags[] = {
	{ "output", 'o', "FILE", 0, "write the page to FILE; - is stdout", 0 },
	{ "title", 't', "TEXT", 0,
	    "call the page TEXT; the snapshot's file name without", 0 },
	{ 0 },
};

static error_t
take_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'o':
		choices->output = value;
		return 0;
	case 't':
		choices->title = value;
		return 0;
	case ARGP_KEY_ARG:
		if (choices->snapshot != NULL)
			argp_error(state, "one SNAPSHOT at a time");
		choices->snapshot = value;
		return 0;
	case ARGP_KEY_END:
		if (choices->snapshot == NULL)
			argp_error(state, "no SNAPSHOT");
		if (choices->output == NULL)
			argp_error(state, "no --output=FILE for the page");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_view = { flags, take_flag, "SNAPSHOT -o FILE",
	"Write a page that shows a memory snapshot: what was in use and what "
	"was held through time, every block at its address, streams, and the "
	"calls that allocated. Any browser shows it, without a network.\v"
	"SNAPSHOT is a pickle as PyTorch or weir writes it, or the same as "
	"JSON, plain or compressed by xz; - is stdin. Nothing of it is run.",
	NULL, NULL, NULL };

/* The last part of the path. */
static const char *
name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (strcmp(path, "-") == 0)
		return "snapshot";
	return slash == NULL ? path : slash + 1;
}

/* The page around the data. */
static bool
write_page(const struct page_data *data, FILE *out)
{
	const unsigned char *place =
	    memmem(page_html, page_bytes, PAGE_DATA, sizeof(PAGE_DATA) - 1);
	const unsigned char *rest = place + sizeof(PAGE_DATA) - 1;

	fwrite(page_html, 1, (size_t)(place - page_html), out);
	if (!page_data_write(data, out))
		return false;
	fwrite(rest, 1, (size_t)(page_html + page_bytes - rest), out);
	return true;
}

int
cmd_view(int argc, char **argv)
{
	struct choices choices = { 0 };
	struct snapshot *snapshot;
	struct page_data *data;
	bool written = false;
	FILE *out;

	argp_parse(&argp_view, argc, argv, 0, NULL, &choices);
	if (page_bytes == 0) {
		complain(
		    "this weir was built without the page, for want of "
		    "node or of npm's registry; docs/viewer.md tells more");
		return TOOL_NO;
	}
	snapshot = snapshot_load(choices.snapshot);
	if (snapshot == NULL)
		return TOOL_NO;
	if (choices.title == NULL)
		choices.title = name_of(choices.snapshot);
	data = page_data_new(snapshot, choices.title);
	out = data == NULL ? NULL : output_open(choices.output);
	if (out != NULL) {
		written = write_page(data, out);
		written = output_close(out, choices.output) && written;
	}
	page_data_free(data);
	snapshot_free(snapshot);
	return written ? TOOL_DONE : TOOL_NO;
}
