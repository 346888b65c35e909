/*
 * weir plan: compute places for a program's large requests from a recording.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "tools/weir/plan/plan_check.h"
#include "tools/weir/plan/plan_find.h"
#include "tools/weir/plan/plan_json.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/replay/trial.h"
#include "tools/weir/tool.h"

struct choices {
	struct plan_request_to_find find;
	const char *output;
	const char *check; /* a plan; NULL: make one */
	bool json;
};

static const struct argp_option flags[] = {
	{ "output", 'o', "FILE", 0, "write the plan to FILE", 0 },
	{ "check", 'k', "FILE", 0,
	    "say what of the plan in FILE still fits the recording", 0 },
	{ "device", 'd', "N", 0,
	    "of a snapshot, plan device N (default: the first)", 0 },
	{ "conf", 'c', "CONF", 0,
	    "options that the program has, \"key:value,...\"", 0 },
	{ "json", 'j', NULL, 0, "print an object of JSON", 0 },
	{ 0 },
};

static error_t
parse_plan_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;
	uint64_t device = 0;

	switch (key) {
	case 'o':
		choices->output = value;
		return 0;
	case 'k':
		choices->check = value;
		return 0;
	case 'd':
		if (!count_parse(value, INT32_MAX, &device))
			argp_error(
			    state, "--device is a number, not '%s'", value);
		choices->find.device = (int)device;
		return 0;
	case 'c':
		choices->find.conf = value;
		return 0;
	case 'j':
		choices->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (choices->find.path != NULL)
			argp_error(state, "'%s' is one too many", value);
		choices->find.path = value;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no recording");
		return 0;
	case ARGP_KEY_SUCCESS:
		if ((choices->output == NULL) == (choices->check == NULL))
			argp_error(
			    state, "--output for a plan, or --check with one");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_plan = { flags, parse_plan_flag, "SNAPSHOT|TRACE",
	"Compute from a recording where the large requests of a program that "
	"repeats itself should lie.\v"
	"'weir run --plan FILE' follows a plan. It is written only if a replay "
	"of the recording holds no more with it than without, and loses no "
	"more "
	"time by waits. Exit status: 0 written, 1 no plan helps, or --check "
	"finds a difference, 2 trouble.",
	NULL, NULL, NULL };

/* Add a share of requests; of none it is not known. */
static void
add_share(struct table *table, uint64_t part, uint64_t of)
{
	if (of == 0)
		table_add(table, "-");
	else
		table_add(table, "%.2f %%", 100.0 * (double)part / (double)of);
}

/* `placed`: the requests that have a place. */
static void
add_row(struct table *table, const char *name,
    const struct plan_figures *figures, uint64_t placed)
{
	char text[32];

	table_add(table, "%s", name);
	table_add(table, "%s", bytes_format(figures->held, text, sizeof(text)));
	table_add(table, "%.2f %%",
	    figures->held == 0 ?
		0.0 :
		100.0 * (double)figures->live / (double)figures->held);
	table_add(table, "%" PRIu64, figures->map_calls);
	table_add(table, "%" PRIu64, figures->waits);
	table_add(table, "%" PRIu64, figures->host_waits);
	table_add(table, "%.1f ms", (double)figures->delay_us / 1000);
	add_share(table, figures->planned, placed);
	add_share(table, figures->moved, figures->repeated);
}

static bool
print_plan_figures(const struct plan_found *found)
{
	struct table *table = table_new("lrrrrrrrr");
	bool printed;

	table_add(table, "replay");
	table_add(table, "peak held");
	table_add(table, "live of it");
	table_add(table, "map calls");
	table_add(table, "GPU waits");
	table_add(table, "host waits");
	table_add(table, "delay");
	table_add(table, "placed");
	table_add(table, "moved");
	add_row(table, "with the plan", &found->with, found->placed);
	add_row(table, "without", &found->without, 0);
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static void
print_plan(const struct choices *choices, const struct plan *plan)
{
	char text[32];

	printf("%s: %" PRIu32 " large requests a round in %s, %.2f %% of which "
	       "are live at once\n\n",
	    choices->output, plan_round_length(plan),
	    bytes_format(plan->round_bytes, text, sizeof(text)),
	    100.0 * (double)plan->live_bytes / (double)plan->round_bytes);
}

static bool
print_answer(const struct choices *choices, const struct plan_found *found)
{
	if (found->plan == NULL) {
		printf("no plan: %s: %s\n", choices->find.path, found->why);
		return true;
	}
	if (plan_helps(found))
		print_plan(choices, found->plan);
	else
		printf("no plan helps: the replay holds more with one, or "
		       "waits cost more time\n\n");
	return print_plan_figures(found);
}

static int
answer(const struct choices *choices, const struct plan_found *found)
{
	bool helps = plan_helps(found);

	if (helps && plan_write(found->plan, choices->output) != WEIR_OK) {
		complain("%s", weir_last_error());
		return TOOL_FAILED;
	}
	if (choices->json) {
		if (print_json(plan_found_json(choices->find.path,
			helps ? choices->output : NULL, found)) != TOOL_DONE)
			return TOOL_FAILED;
	} else if (!print_answer(choices, found)) {
		complain("out of memory");
		return TOOL_FAILED;
	}
	return helps ? TOOL_DONE : TOOL_FOUND;
}

/* ---- Checking ---------------------------------------------------------- */

static void
print_checked(const char *name, const struct plan_checked *checked)
{
	char text[32];

	printf("%s: %" PRIu64 " of %" PRIu64
	       " large requests have a place, in %" PRIu64
	       " rounds as planned\n",
	    name, checked->planned, checked->requests, checked->rounds);
	if (!checked->joined)
		printf("no round begins with the requests of the plan\n");
	if (checked->others > 0)
		printf("%" PRIu64 " requests are served as without it; the "
		       "first is request %" PRIu64 ", of %s\n",
		    checked->others, checked->first_other,
		    bytes_format(
			checked->first_other_size, text, sizeof(text)));
	if (checked->dropped_at > 0)
		printf("the plan would be dropped at request %" PRIu64 "\n",
		    checked->dropped_at);
}

static int
check_plan_of(const struct choices *choices)
{
	struct plan_checked checked;
	struct plan *plan;
	bool good;

	if (plan_read(choices->check, &plan) != WEIR_OK) {
		complain("%s", weir_last_error());
		return TOOL_FAILED;
	}
	good = plan_check(
	    plan, choices->find.path, choices->find.device, &checked);
	plan_free(plan);
	if (!good)
		return TOOL_FAILED;
	if (!choices->json)
		print_checked(choices->check, &checked);
	else if (print_json(plan_checked_json(choices->find.path,
		     choices->check, &checked)) != TOOL_DONE)
		return TOOL_FAILED;
	return plan_fits(&checked) ? TOOL_DONE : TOOL_FOUND;
}

static int
make_plan(const struct choices *choices)
{
	struct plan_found found;
	int status;

	trial_forget_environment();
	if (!use_simulated_if(true) ||
	    !trial_conf_accepted("--conf", choices->find.conf))
		return TOOL_FAILED;
	if (!plan_find(&choices->find, &found))
		return TOOL_FAILED;
	status = answer(choices, &found);
	plan_found_drop(&found);
	return status;
}

int
cmd_plan(int argc, char **argv)
{
	struct choices choices = { .find.device = -1 };

	argp_parse(&argp_plan, argc, argv, 0, NULL, &choices);
	if (choices.check != NULL)
		return check_plan_of(&choices);
	if (strcmp(choices.find.path, "-") == 0) {
		complain("plan reads its file several times: name a file, not "
			 "'-'");
		return TOOL_FAILED;
	}
	return make_plan(&choices);
}
