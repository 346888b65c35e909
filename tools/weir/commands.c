/*
 * The table of subcommands, and those that read it or have no file of their
 * own: help, completion and version.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "tools/weir/guess.h"
#include "tools/weir/tool.h"

/* In help's order. Their exit status is an enum tool_exit. */
static const struct command commands[] = {
#define COMMAND_ROW(name, args, help)                                          \
	{ #name, args, help, cmd_##name, &argp_##name },
	TOOL_COMMANDS(COMMAND_ROW)
#undef COMMAND_ROW
	    { "version", "", "the version of weir", cmd_version, NULL },
	{ "help", "[COMMAND]", "this list, or the help of one command",
	    cmd_help, NULL },
};

/* The last subcommands share one line, so that the list fits a screen. */
enum {
	COMMANDS = sizeof(commands) / sizeof(commands[0]),
	LISTED = COMMANDS - 9,
};

const struct command *
commands_table(size_t *count)
{
	*count = COMMANDS;
	return commands;
}

const struct command *
commands_find(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int
commands_unknown(const char *name)
{
	struct guess guess;
	char text[GUESS_TEXT];

	guess_begin(&guess, name);
	for (size_t i = 0; i < COMMANDS; i++)
		guess_try(&guess, commands[i].name);
	guess_text(&guess, text);
	complain("no command '%s'%s 'weir help' lists them", name,
	    text[0] != '\0' ? text : ";");
	return TOOL_USAGE;
}

void
commands_list(FILE *out)
{
	fputs("Usage: weir COMMAND ...      Each command has --help.\n", out);
	for (size_t i = 0; i < LISTED; i++) {
		char usage[40];

		snprintf(usage, sizeof(usage), "%s %s", commands[i].name,
		    commands[i].args);
		fprintf(out, "  %-22s %s\n", usage, commands[i].help);
	}
	for (size_t i = LISTED; i < COMMANDS; i++)
		fprintf(out, "%s%s", i == LISTED ? "Also: " : ", ",
		    commands[i].name);
	fputs(".\n"
	      "'weir --read-memory=SIZE COMMAND' allows SIZE of memory for "
	      "reading a file.\n"
	      "Exit status: 0 done, nothing found; 1 found (leaks, faults); 2 "
	      "trouble.\n",
	    out);
}

static bool
is_help_flag(const char *flag)
{
	return strcmp(flag, "--help") == 0 || strcmp(flag, "-?") == 0;
}

/* True if the subcommand has all flags of its command line; otherwise a
 * complaint names the nearest flag. In `weir run`, all arguments after the
 * program belong to the program. */
static bool
flags_are_known(const struct command *command, char **argv)
{
	char nearest[GUESS_TEXT];
	const char *unknown;

	if (command->parser == NULL)
		return true;
	unknown = guess_unknown_flag(
	    command->parser, argv, command->run == cmd_run, nearest);
	if (unknown == NULL)
		return true;
	complain("%s has no flag '%s'%s", command->name, unknown,
	    nearest[0] != '\0' ? nearest : "; --help lists them");
	return false;
}

int
commands_run(const struct command *command, int argc, char **argv)
{
	char name[32];

	/* Each help fits a screen of 24 lines without argp's note on the
	 * arguments of long options. */
	if (argc > 1 && is_help_flag(argv[1]))
		setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
	if (!flags_are_known(command, argv))
		return TOOL_USAGE;
	snprintf(name, sizeof(name), "weir %s", command->name);
	argv[0] = name;
	return command->run(argc, argv);
}

int
cmd_help(int argc, char **argv)
{
	char help_flag[] = "--help";
	char *help_argv[] = { NULL, help_flag, NULL };
	const struct command *command;

	if (argc < 2 || argv[1][0] == '-') {
		commands_list(stdout);
		return TOOL_DONE;
	}
	command = commands_find(argv[1]);
	if (command == NULL)
		return commands_unknown(argv[1]);
	return commands_run(command, 2, help_argv);
}

int
cmd_completion(int argc, char **argv)
{
	return completion_print(commands, COMMANDS, argc, argv);
}

int
cmd_version(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--help") == 0) {
		printf("Usage: weir version\nPrints the version of "
		       "weir. " TOOL_STATUS "\n");
		return TOOL_DONE;
	}
	if (argc > 1) {
		complain("version takes no argument, not '%s'", argv[1]);
		return TOOL_USAGE;
	}
	printf("weir %s\n", weir_version());
	return TOOL_DONE;
}
