/*
 * weir view: write a memory snapshot as a page for a browser.
 *
 * The page needs no network and no other file. No text of the snapshot is
 * written as HTML: the snapshot is one run of base64, in a place where browsers
 * parse no elements.
 */
#include <argp.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/weir/advise/advise_page.h"
#include "tools/weir/export/page_data.h"
#include "tools/weir/export/page_write.h"
#include "tools/weir/live/live_page.h"
#include "tools/weir/live/watch_link.h"
#include "tools/weir/page.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/replay/what_if.h"
#include "tools/weir/tool.h"

struct choices {
	const char *snapshot;
	const char *output;
	const char *title;
	const char *compare; /* an earlier snapshot, or NULL */
	struct what_if what_if;
	bool asks_what_if;
	bool asks_advice;
	pid_t live; /* a process in place of a snapshot, or 0 */
	bool opens;
};

static const struct argp_option flags[] = {
	{ "output", 'o', "FILE", 0, "write the page to FILE; - is stdout", 0 },
	{ "title", 't', "TEXT", 0,
	    "title of the page (default: the snapshot's file name)", 0 },
	{ "compare", 'c', "BEFORE", 0,
	    "also show the changes since an earlier snapshot", 0 },
	{ "what-if", 'w', "SETTING", OPTION_ARG_OPTIONAL,
	    "also show what a setting would have held, such as "
	    "prefer:memory,limit:8G or torch,expandable_segments:True",
	    0 },
	{ "advise", 'a', NULL, 0, "advise also on more than 100,000 events",
	    0 },
	{ "live", 'l', "PID", 0,
	    "serve the page of a running process on this machine", 0 },
	{ "open", 'O', NULL, 0,
	    "open it in a browser; without -o it is in /tmp", 0 },
	{ 0 },
};

static void
parse_what_if(
    struct choices *choices, const char *value, const struct argp_state *state)
{
	char why[WHAT_IF_WHY];

	choices->asks_what_if = true;
	if (value != NULL && !what_if_add(&choices->what_if, value, why))
		argp_error(state, "--what-if: %s", why);
}

/* Refuse flags that do not go together. */
static void
check_choices(const struct choices *choices, const struct argp_state *state)
{
	if (choices->live != 0) {
		if (choices->snapshot != NULL || choices->output != NULL ||
		    choices->compare != NULL || choices->asks_what_if ||
		    choices->asks_advice)
			argp_error(state,
			    "--live serves a page: it takes no SNAPSHOT, "
			    "--output, --compare, --what-if or --advise");
		return;
	}
	if (choices->snapshot == NULL)
		argp_error(state, "no SNAPSHOT");
	if (choices->output == NULL && !choices->opens)
		argp_error(
		    state, "neither --output=FILE for the page nor --open");
	if (choices->opens && choices->output != NULL &&
	    strcmp(choices->output, "-") == 0)
		argp_error(state, "--open needs a file, not --output=-");
	if (choices->asks_what_if && choices->snapshot != NULL &&
	    strcmp(choices->snapshot, "-") == 0)
		argp_error(state,
		    "--what-if reads the SNAPSHOT once for each setting, "
		    "which stdin cannot be");
}

static error_t
parse_view_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'l':
		choices->live = watch_parse_pid(value, state);
		return 0;
	case 'w':
		parse_what_if(choices, value, state);
		return 0;
	case 'a':
		choices->asks_advice = true;
		return 0;
	case 'o':
		choices->output = value;
		return 0;
	case 'c':
		choices->compare = value;
		return 0;
	case 'O':
		choices->opens = true;
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
		check_choices(choices, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_view = { flags, parse_view_flag,
	"SNAPSHOT -o FILE\n--live PID",
	"Write a page that shows a memory snapshot: the memory in use and the "
	"held memory through time, every block at its address, streams, and "
	"the calls that allocated. Any browser shows it, without a network.\v"
	"SNAPSHOT is a pickle or JSON as PyTorch or weir writes it, or a trace "
	"in CSV for weir replay. It may be compressed by xz or gzip; - is "
	"stdin. No code in it is run. " TOOL_STATUS,
	NULL, NULL, NULL };

/* The title of a page: the last part of the snapshot's path. */
static const char *
page_title_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (strcmp(path, "-") == 0)
		return "snapshot";
	return slash == NULL ? path : slash + 1;
}

/* A snapshot and its data. */
struct side {
	struct snapshot *snapshot;
	struct page_data *data;
	bool lacks_advice; /* a replay failed */
};

/* Load a snapshot and make its data. False, with a complaint, on failure. */
static bool
side_load(struct side *side, const char *path, const char *title)
{
	side->snapshot = snapshot_or_trace_load(path);
	if (side->snapshot != NULL)
		side->data = page_data_new(side->snapshot, title);
	return side->data != NULL;
}

static void
side_free(struct side *side)
{
	page_data_free(side->data);
	snapshot_free(side->snapshot);
}

/* The path of a page in a new folder that no other user can enter, since other
 * users can guess names in /tmp. The caller frees the path. */
static char *
private_page_path(void)
{
	char folder[] = "/tmp/weir-view-XXXXXX";
	char *path = NULL;

	if (mkdtemp(folder) == NULL ||
	    asprintf(&path, "%s/view.html", folder) < 0) {
		complain("cannot make a folder in /tmp: %s", strerror(errno));
		return NULL;
	}
	return path;
}

/* Open an address or a file with $BROWSER, or with the desktop's program for
 * pages. */
static bool
start_browser(const char *what)
{
	const char *browser = getenv("BROWSER");
	const char *program =
	    browser != NULL && *browser != '\0' ? browser : "xdg-open";
	char *argv[] = { (char *)program, (char *)what, NULL };
	pid_t child;
	int status = 0;
	int error = posix_spawnp(&child, program, NULL, NULL, argv, environ);

	if (error == 0)
		waitpid(child, &status, 0);
	if (error != 0)
		complain("cannot start %s (set BROWSER to a browser): %s",
		    program, strerror(error));
	else if (status != 0)
		complain("%s could not open the page; set BROWSER to a "
			 "browser, or copy the page to a machine that has one",
		    program);
	return error == 0 && status == 0;
}

/* Open the address of a live page. The server does not wait for the browser,
 * which asks for the page. */
static void
open_address(const char *address)
{
	pid_t child = fork();

	if (child == 0)
		_exit(start_browser(address) ? 0 : 1);
	if (child < 0)
		complain("cannot start a browser: %s", strerror(errno));
}

static bool
open_page(const char *path)
{
	char *file = realpath(path, NULL);
	bool opened;

	if (file == NULL) {
		complain("%s: %s", path, strerror(errno));
		return false;
	}
	printf("%s\n", file);
	fflush(stdout);
	opened = start_browser(file);
	free(file);
	return opened;
}

static bool
write_page_file(const struct choices *choices, const struct side *now,
    const struct side *before)
{
	FILE *out = output_open(choices->output);

	if (out == NULL)
		return false;
	if (page_write(now->data, before->data, false, out))
		return output_close(out, choices->output);
	output_abandon(out);
	return false;
}

/* Play the recording under other settings, if the user asks what these would
 * have held. */
static bool
add_what_if(struct choices *choices, struct side *side)
{
	json_t *found;
	bool added;

	if (!choices->asks_what_if)
		return true;
	if (choices->what_if.count == 0)
		what_if_add_usual(&choices->what_if);
	if (!use_simulated_if(true))
		return false;
	found =
	    what_if_play(&choices->what_if, choices->snapshot, side->snapshot);
	added = found != NULL && page_data_add_what_if(side->data, found);
	json_decref(found);
	return added;
}

/* Add the answer of `weir advise`. */
static bool
add_page_advice(const struct choices *choices, struct side *side)
{
	bool whole = true;
	json_t *advice = advise_page(
	    side->snapshot, choices->snapshot, choices->asks_advice, &whole);
	bool added = page_data_add_advice(side->data, advice);

	side->lacks_advice = !whole;
	json_decref(advice);
	return added;
}

int
cmd_view(int argc, char **argv)
{
	struct choices choices = { 0 };
	struct side now = { 0 };
	struct side before = { 0 };
	char *own = NULL;
	bool good;

	argp_parse(&argp_view, argc, argv, 0, NULL, &choices);
	if (page_bytes == 0) {
		complain(
		    "this weir was built without the page, because node or "
		    "npm's modules were missing; 'make deps' gets them, "
		    "and then 'make' builds it (docs/viewer.md)");
		return TOOL_FAILED;
	}
	if (choices.live != 0)
		return live_page_serve(
		    choices.live, choices.opens ? open_address : NULL);
	if (choices.title == NULL)
		choices.title = page_title_of(choices.snapshot);
	good = side_load(&now, choices.snapshot, choices.title) &&
	    add_what_if(&choices, &now) && add_page_advice(&choices, &now) &&
	    (choices.compare == NULL ||
		side_load(
		    &before, choices.compare, page_title_of(choices.compare)));
	if (good && choices.output == NULL)
		choices.output = own = private_page_path();
	good = good && choices.output != NULL &&
	    write_page_file(&choices, &now, &before);
	side_free(&before);
	side_free(&now);
	if (good && choices.opens)
		good = open_page(choices.output);
	free(own);
	/* The page is good, but lacks the replays. */
	return good && !now.lacks_advice ? TOOL_DONE : TOOL_FAILED;
}
