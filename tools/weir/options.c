/*
 * weir options: print every option with its value and the value's source.
 */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/tool.h"

struct choices {
	bool json;
};

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print one object", 0 },
	{ 0 },
};

static error_t
parse_options_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	(void)value;
	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_options = { flags, parse_options_flag, NULL,
	"Print every option of weir: its value, the source of the value, its "
	"default and the values it accepts.\v"
	"Options are set by WEIR_CONF=\"key:value,key:value\", by 'weir run' "
	"and 'weir replay' with --conf, or by weir_options_set(). " TOOL_STATUS,
	NULL, NULL, NULL };

static const char *
source_name(enum weir_option_source source)
{
	switch (source) {
	case WEIR_OPTION_DEFAULT:
		return "default";
	case WEIR_OPTION_ENVIRONMENT:
		return "environment";
	case WEIR_OPTION_CALL:
		return "call";
	}
	return "?";
}

static json_t *
options_json(void)
{
	json_t *object = json_object();
	json_t *all = json_array();
	struct weir_option option;

	for (size_t i = 0; weir_option_at(i, &option) == WEIR_OK; i++)
		json_array_append_new(all,
		    json_pack("{ss ss ss ss ss ss ss}", "key", option.key,
			"value", option.value, "source",
			source_name(option.source), "type", option.type,
			"default", option.fallback, "range", option.range,
			"help", option.help));
	json_object_set_new(object, "options", all);
	return object;
}

/* Print two lines for each option: the help is too long for a column. */
static void
print_options(void)
{
	struct weir_option option;
	int width = 0;

	for (size_t i = 0; weir_option_at(i, &option) == WEIR_OK; i++)
		if ((int)strlen(option.key) > width)
			width = (int)strlen(option.key);
	for (size_t i = 0; weir_option_at(i, &option) == WEIR_OK; i++) {
		printf("%-*s  %s (%s", width, option.key, option.value,
		    source_name(option.source));
		if (option.source != WEIR_OPTION_DEFAULT)
			printf("; default %s", option.fallback);
		printf("); accepted: %s\n    %s\n", option.range, option.help);
	}
}

int
cmd_options(int argc, char **argv)
{
	struct choices choices = { 0 };
	struct weir_option option;

	argp_parse(&argp_options, argc, argv, 0, NULL, &choices);
	if (weir_option_at(0, &option) != WEIR_OK) {
		complain("%s", weir_last_error());
		return TOOL_USAGE;
	}
	if (choices.json)
		return print_json(options_json());
	print_options();
	return TOOL_DONE;
}
