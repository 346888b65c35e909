/*
 * weir fit: the memory of a program at a size at which it has not run.
 */
#include <argp.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/fit/fit_largest.h"
#include "tools/weir/fit/tuning.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tool.h"

struct choices {
	struct fit_numbers numbers;
	unsigned was_count[FIT_NAMES]; /* values that --was gave */
	bool asked[FIT_NAMES];
	char *names[FIT_NAMES]; /* to be freed */
	uint64_t limit_bytes;   /* UINT64_MAX: none */
	uint64_t context_bytes; /* of it, that no allocator gets */
	uint64_t usable_bytes;  /* the rest of the limit */
	const char *largest;    /* a name, or NULL */
	const char *as[FIT_SETTINGS];
	unsigned as_count;
	const char *output;
	bool json;
	char **paths;
	unsigned path_count;
};

static const struct argp_option flags[] = {
	{ "was", 'w', "NAME=N,N...", 0,
	    "a number of the program, in the order of the recordings", 0 },
	{ "ask", 'a', "NAME=N,...", 0, "the numbers to forecast", 0 },
	{ "limit", 'l', "BYTES", 0,
	    "say whether it fits into BYTES, such as 80G", 0 },
	{ "context", 'c', "BYTES", 0,
	    "memory within --limit that no allocator gets: CUDA's context, "
	    "libraries, other programs (default: 0)",
	    0 },
	{ "largest", 'L', "NAME", 0,
	    "find the largest value of NAME that fits --limit", 0 },
	{ "as", 'A', "ALLOCATOR", 0,
	    "weir, torch or torch,KEY:VALUE... (default: weir, torch and "
	    "torch,expandable_segments:True)",
	    0 },
	{ "output", 'o', "FILE", 0,
	    "keep the forecast as a trace for weir replay", 0 },
	{ "json", 'j', NULL, 0, "print an object of JSON", 0 },
	{ 0 },
};

/* ---- The command line ------------------------------------------------ */

/* The index of a name, which is added. */
static unsigned
name_index(const struct argp_state *state, struct choices *choices,
    const char *name, size_t length)
{
	struct fit_numbers *numbers = &choices->numbers;
	unsigned i = 0;

	while (i < numbers->names &&
	    (strncmp(numbers->name[i], name, length) != 0 ||
		numbers->name[i][length] != '\0'))
		i++;
	if (length == 0)
		argp_error(state, "a name is missing before '='");
	if (i == FIT_NAMES)
		argp_error(state, "at most %d names", FIT_NAMES);
	if (i == numbers->names) {
		choices->names[i] = strndup(name, length);
		numbers->name[i] = choices->names[i];
		numbers->names++;
	}
	return i;
}

static double
parse_fit_number(
    const struct argp_state *state, const char *flag, const char *text)
{
	double number = 1;

	if (!number_parse(text, 1e-9, 1e18, &number))
		argp_error(
		    state, "%s: '%s' is not a number above 0", flag, text);
	return number;
}

/* "batch=4,8": a value for each recording. */
static void
parse_was(const struct argp_state *state, char *text, struct choices *choices)
{
	char *equals = strchr(text, '=');
	char *rest = NULL;
	unsigned name;

	if (equals == NULL)
		argp_error(state, "--was is NAME=N,N, not '%s'", text);
	name = name_index(state, choices, text, (size_t)(equals - text));
	for (char *word = strtok_r(equals + 1, ",", &rest); word != NULL;
	     word = strtok_r(NULL, ",", &rest)) {
		unsigned at = choices->was_count[name]++;

		if (at >= FIT_RUNS)
			argp_error(state, "--was: at most %d values", FIT_RUNS);
		choices->numbers.was[at][name] =
		    parse_fit_number(state, "--was", word);
	}
}

/* "batch=64,length=2048". */
static void
parse_ask(const struct argp_state *state, char *text, struct choices *choices)
{
	char *rest = NULL;

	for (char *word = strtok_r(text, ",", &rest); word != NULL;
	     word = strtok_r(NULL, ",", &rest)) {
		char *equals = strchr(word, '=');
		unsigned name;

		if (equals == NULL)
			argp_error(state, "--ask is NAME=N, not '%s'", word);
		name =
		    name_index(state, choices, word, (size_t)(equals - word));
		choices->numbers.ask[name] =
		    parse_fit_number(state, "--ask", equals + 1);
		choices->asked[name] = true;
	}
}

static void
parse_fit_as(
    const struct argp_state *state, const char *value, struct choices *choices)
{
	char why[TORCH_CONF_WHY];
	struct torch_conf conf;

	if (strcmp(value, "weir") != 0 && !torch_as_parse(value, &conf, why))
		argp_error(state, "%s", why);
	if (choices->as_count == FIT_SETTINGS)
		argp_error(state, "at most %d allocators", FIT_SETTINGS);
	choices->as[choices->as_count++] = value;
}

/* Check that all numbers are known. A number that does not vary need not be
 * asked. */
static void
check_numbers(const struct argp_state *state, struct choices *choices)
{
	struct fit_numbers *numbers = &choices->numbers;

	if (choices->path_count < 2 || choices->path_count > FIT_RUNS)
		argp_error(state, "2 to %d recordings are needed", FIT_RUNS);
	numbers->runs = choices->path_count;
	if (numbers->names == 0)
		argp_error(state, "--was is needed");
	for (unsigned i = 0; i < numbers->names; i++)
		if (choices->was_count[i] == 0)
			argp_error(
			    state, "--was has no '%s'", numbers->name[i]);
	for (unsigned i = 0; i < numbers->names; i++) {
		if (choices->was_count[i] != choices->path_count)
			argp_error(state,
			    "--was %s has %u values for %u recordings",
			    numbers->name[i], choices->was_count[i],
			    choices->path_count);
		if (choices->asked[i])
			continue;
		numbers->ask[i] = numbers->was[numbers->runs - 1][i];
		for (unsigned r = 0; r < numbers->runs; r++)
			if (numbers->was[r][i] != numbers->ask[i] &&
			    (choices->largest == NULL ||
				strcmp(choices->largest, numbers->name[i]) !=
				    0))
				argp_error(state, "--ask has no '%s'",
				    numbers->name[i]);
	}
	if (choices->context_bytes != 0 && choices->limit_bytes == UINT64_MAX)
		argp_error(state, "--context needs --limit");
	if (choices->context_bytes >= choices->limit_bytes)
		argp_error(state, "--context leaves nothing of --limit");
	choices->usable_bytes = choices->limit_bytes - choices->context_bytes;
	if (choices->largest == NULL)
		return;
	if (choices->limit_bytes == UINT64_MAX)
		argp_error(state, "--largest needs --limit");
	for (unsigned i = 0; i < numbers->names; i++)
		if (strcmp(numbers->name[i], choices->largest) == 0)
			return;
	argp_error(state, "--was has no '%s', which --largest names",
	    choices->largest);
}

static error_t
parse_fit_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'w':
		parse_was(state, value, choices);
		return 0;
	case 'a':
		parse_ask(state, value, choices);
		return 0;
	case 'l':
		if (!bytes_parse(value, &choices->limit_bytes))
			argp_error(state,
			    "--limit is a size such as 80G, not '%s'", value);
		return 0;
	case 'c':
		if (!bytes_parse(value, &choices->context_bytes))
			argp_error(state,
			    "--context is a size such as 600M, not '%s'",
			    value);
		return 0;
	case 'L':
		choices->largest = value;
		return 0;
	case 'A':
		parse_fit_as(state, value, choices);
		return 0;
	case 'o':
		choices->output = value;
		return 0;
	case 'j':
		choices->json = true;
		return 0;
	case ARGP_KEY_ARGS:
		choices->paths = state->argv + state->next;
		choices->path_count = (unsigned)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no recordings");
		return 0;
	case ARGP_KEY_SUCCESS:
		check_numbers(state, choices);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_fit = { flags, parse_fit_flag,
	"--was NAME=N,N... --ask NAME=N RECORDING RECORDING...",
	"Forecast the memory of a program at a size at which it has not run.\v"
	"Each RECORDING is a memory snapshot with a history, or a trace, of "
	"the program at a small size; two or three are enough. " TOOL_STATUS,
	NULL, NULL, NULL };

/* ---- Answers --------------------------------------------------------- */

static bool
forecast(struct fit_program *program, const struct choices *choices,
    struct fit_judgement *out, struct fit_forecast *made)
{
	bool good =
	    fit_forecast_make(program, made) && fit_judge(program, made, out);

	out->setting_count = choices->as_count;
	for (unsigned i = 0; good && i < choices->as_count; i++) {
		out->settings[i] =
		    (struct fit_setting){ .name = choices->as[i] };
		good = fit_judge_setting(
		    made, choices->usable_bytes, false, &out->settings[i]);
	}
	return good;
}

/* ---- The largest value ----------------------------------------------- */

/* Find the largest value for each allocator. */
static bool
find_all_largest(struct fit_program *program, const struct choices *choices,
    struct fit_judgement *judged)
{
	unsigned name = 0;

	while (strcmp(program->numbers.name[name], choices->largest) != 0)
		name++;
	return fit_largest(program, name, choices->usable_bytes, judged);
}

/* ---- Text ------------------------------------------------------------ */

static void
print_numbers(const struct fit_numbers *numbers)
{
	for (unsigned i = 0; i < numbers->names; i++)
		printf("%s%s=%g", i == 0 ? "" : ", ", numbers->name[i],
		    numbers->ask[i]);
}

/* "7 retries" of PyTorch's allocator, or "1 wait" of weir. */
static const char *
retries_text(
    const struct fit_setting *setting, uint64_t count, char text[VIEW_TEXT])
{
	bool weir = strcmp(setting->name, "weir") == 0;

	snprintf(text, VIEW_TEXT, "%" PRIu64 " %s", count,
	    weir           ? count == 1 ? "wait" : "waits" :
		count == 1 ? "retry" :
			     "retries");
	return text;
}

static void
add_fits(struct table *table, const struct fit_setting *setting)
{
	char text[VIEW_TEXT];

	if (setting->ooms != 0)
		table_add(table, "no");
	else if (setting->retries == 0)
		table_add(table, "yes");
	else
		table_add(table, "yes, %s",
		    retries_text(setting, setting->retries, text));
}

/* "174", or "174, with 2 retries; 160 without". */
static void
add_largest(struct table *table, const struct fit_setting *setting)
{
	const char *open = setting->largest_open ? " or more" : "";
	char text[VIEW_TEXT];

	if (setting->largest_retries == 0)
		table_add(table, "%" PRIu64 "%s", setting->largest, open);
	else
		table_add(table, "%" PRIu64 "%s, with %s; %" PRIu64 " without",
		    setting->largest, open,
		    retries_text(setting, setting->largest_retries, text),
		    setting->largest_calm);
}

static bool
print_settings(
    const struct fit_judgement *judged, const struct choices *choices)
{
	bool limited = choices->limit_bytes != UINT64_MAX;
	struct table *table = table_new(choices->largest != NULL ? "lrrll" :
		limited                                          ? "lrrl" :
								   "lrr");
	bool printed;

	table_add(table, "allocator");
	table_add(table, "peak live");
	table_add(table, "peak held");
	if (limited)
		table_add(table, "fits %s", size_text(choices->usable_bytes));
	if (choices->largest != NULL)
		table_add(table, "largest %s", choices->largest);
	for (unsigned i = 0; i < judged->setting_count; i++) {
		const struct fit_setting *setting = &judged->settings[i];

		table_add(table, "%s", setting->name);
		table_add(table, "%s",
		    size_text(setting->allocated != 0 ? setting->allocated :
							judged->live.value));
		table_add(table, "%s", size_text(setting->held));
		if (limited)
			add_fits(table, setting);
		if (choices->largest != NULL)
			add_largest(table, setting);
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static void
print_judgement(const struct fit_program *program,
    const struct fit_forecast *made, const struct fit_judgement *judged)
{
	const struct fit_run *pattern = &program->runs[program->pattern];
	const struct recording *recording = &made->recording;
	char text[VIEW_TEXT];

	printf("\npeak of live bytes: %s (%s to %s)\n",
	    size_text(judged->live.value), size_text(judged->live.low),
	    size_text(judged->live.high));
	printf("reached at allocation %" PRIu32 " of %" PRIu32
	       ", of %s in %s\n",
	    judged->peak_block + 1, recording->block_count,
	    size_text(recording->blocks[judged->peak_block].bytes),
	    site_text(pattern->snapshot,
		recording->blocks[judged->peak_block].stack, text));
	for (unsigned k = 0; k < FIT_KIND_COUNT; k++)
		if (judged->by_kind[k] != 0)
			printf("  %-12s %s\n", fit_kind_name(k),
			    size_text(judged->by_kind[k]));
}

/* Warn of what speaks against the forecast. */
static void
print_doubts(
    const struct fit_program *program, const struct fit_judgement *judged)
{
	const struct fit_numbers *numbers = &program->numbers;
	double alone = (double)judged->alone_bytes / (double)judged->live.value;

	if (judged->older_bytes > 0)
		printf("  (%s of these are older than the recording)\n",
		    size_text(judged->older_bytes));
	if (alone <= FIT_ALONE_SHARE)
		return;
	printf("\n%s (%.0f %%) of the peak has no counterpart in any "
	       "recording but the one with ",
	    size_text(judged->alone_bytes), 100 * alone);
	for (unsigned i = 0; i < numbers->names; i++)
		printf("%s%s=%g", i == 0 ? "" : ", ", numbers->name[i],
		    numbers->was[program->pattern][i]);
	printf(". If the recordings differ in more than their numbers, as in "
	       "the type of data, this forecast is wrong.\n");
}

/* Print the sites without a formula that have most bytes. */
static void
print_unsure(const struct fit_program *program, const struct fit_forecast *made,
    const struct fit_judgement *judged)
{
	const struct fit_run *pattern = &program->runs[program->pattern];
	char text[VIEW_TEXT];
	unsigned printed = 0;

	if (judged->unsure == 0)
		return;
	printf("\n%" PRIu32 " allocations have no formula (%s of the peak):\n",
	    judged->unsure, size_text(judged->unsure_bytes));
	for (uint32_t i = 0;
	     i < made->recording.block_count && printed < FIT_SITES_SHOWN;
	     i++) {
		const struct recording_block *block =
		    &made->recording.blocks[i];
		struct fit_value value;

		fit_formula(program, made->origin[i], &value);
		if (value.grade != FIT_UNKNOWN || block->bytes < 1 << 20)
			continue;
		printf("  %s, %s, in %s\n", size_text(block->bytes), value.text,
		    site_text(pattern->snapshot, block->stack, text));
		printed++;
	}
}

static void
put_largest(json_t *item, const struct fit_setting *setting)
{
	put_number(item, "largest", setting->largest);
	put_number(item, "largest_retries", setting->largest_retries);
	put_number(item, "largest_without_retries", setting->largest_calm);
	json_object_set_new(
	    item, "largest_or_more", json_boolean(setting->largest_open));
}

static int
print_fit_json(const struct fit_program *program, const struct choices *choices,
    const struct fit_judgement *judged)
{
	const struct fit_numbers *numbers = &program->numbers;
	json_t *json = json_object();
	json_t *asked = json_object();
	json_t *kinds = json_object();
	json_t *settings = json_array();

	for (unsigned i = 0; i < numbers->names; i++)
		json_object_set_new(
		    asked, numbers->name[i], json_real(numbers->ask[i]));
	json_object_set_new(json, "asked", asked);
	put_number(json, "peak_live_bytes", judged->live.value);
	put_number(json, "peak_live_low_bytes", judged->live.low);
	put_number(json, "peak_live_high_bytes", judged->live.high);
	for (unsigned k = 0; k < FIT_KIND_COUNT; k++)
		put_number(kinds, fit_kind_name(k), judged->by_kind[k]);
	json_object_set_new(json, "by_kind", kinds);
	for (unsigned i = 0; i < judged->setting_count; i++) {
		const struct fit_setting *setting = &judged->settings[i];
		json_t *item = json_object();

		json_object_set_new(
		    item, "allocator", json_string(setting->name));
		put_number(item, "peak_held_bytes", setting->held);
		if (setting->allocated != 0)
			put_number(
			    item, "peak_allocated_bytes", setting->allocated);
		put_number(item, "retries", setting->retries);
		put_number(item, "ooms", setting->ooms);
		if (choices->limit_bytes != UINT64_MAX)
			json_object_set_new(
			    item, "fits", json_boolean(setting->ooms == 0));
		if (choices->largest != NULL)
			put_largest(item, setting);
		json_array_append_new(settings, item);
	}
	json_object_set_new(json, "allocators", settings);
	put_number(json, "unsure_allocations", judged->unsure);
	put_number(json, "unsure_bytes", judged->unsure_bytes);
	put_number(json, "alone_bytes", judged->alone_bytes);
	put_number(json, "older_bytes", judged->older_bytes);
	if (choices->limit_bytes != UINT64_MAX) {
		put_number(json, "limit_bytes", choices->limit_bytes);
		put_number(json, "context_bytes", choices->context_bytes);
	}
	return print_json(json);
}

static int
keep_forecast(const struct fit_forecast *made, const char *path)
{
	FILE *out = output_open(path);

	if (out == NULL)
		return TOOL_FAILED;
	fit_forecast_csv(made, "forecast", out);
	return output_close(out, path) ? TOOL_DONE : TOOL_FAILED;
}

static int
answer_asked(struct fit_program *program, const struct choices *choices)
{
	struct fit_judgement judged;
	struct fit_forecast made = { 0 };
	int status = TOOL_FAILED;

	if (forecast(program, choices, &judged, &made) &&
	    (choices->largest == NULL ||
		find_all_largest(program, choices, &judged))) {
		status = TOOL_DONE;
		if (choices->json) {
			status = print_fit_json(program, choices, &judged);
		} else {
			print_numbers(&program->numbers);
			printf(
			    ", from %u recordings\n\n", program->numbers.runs);
			if (!print_settings(&judged, choices))
				status = TOOL_FAILED;
			print_judgement(program, &made, &judged);
			print_doubts(program, &judged);
			print_unsure(program, &made, &judged);
		}
		if (status == TOOL_DONE && choices->output != NULL)
			status = keep_forecast(&made, choices->output);
	}
	fit_forecast_drop(&made);
	return status;
}

int
cmd_fit(int argc, char **argv)
{
	struct choices choices = { .limit_bytes = UINT64_MAX,
		.usable_bytes = UINT64_MAX };
	struct fit_program program;
	int status = TOOL_FAILED;

	argp_parse(&argp_fit, argc, argv, 0, NULL, &choices);
	if (choices.as_count == 0) {
		choices.as[choices.as_count++] = "weir";
		choices.as[choices.as_count++] = "torch";
		choices.as[choices.as_count++] =
		    "torch,expandable_segments:True";
	}
	if (use_simulated_if(true) &&
	    fit_program_read(&program, &choices.numbers, choices.paths)) {
		status = answer_asked(&program, &choices);
		fit_program_drop(&program);
	}
	for (unsigned i = 0; i < FIT_NAMES; i++)
		free(choices.names[i]);
	return status;
}
