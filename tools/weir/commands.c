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
	{ "run", "PROGRAM ARGS...",
	    "run a program with its GPU memory under weir", cmd_run,
	    &argp_run },
	{ "watch", "[PID]", "the memory of a running process, once a second",
	    cmd_watch, &argp_watch },
	{ "ctl", "PID [PATH...]",
	    "read and set values of a running process by name", cmd_ctl,
	    &argp_ctl },
	{ "show", "SNAPSHOT", "segments and blocks, and a map of each",
	    cmd_show, &argp_show },
	{ "stats", "SNAPSHOT", "sums and counts of each device", cmd_stats,
	    &argp_stats },
	{ "top", "SNAPSHOT", "who holds the memory: by stack, size, lifetime",
	    cmd_top, &argp_top },
	{ "oom", "SNAPSHOT", "why memory ran out, and what would have helped",
	    cmd_oom, &argp_oom },
	{ "frag", "SNAPSHOT", "where memory is reserved and not used", cmd_frag,
	    &argp_frag },
	{ "leaks", "SNAPSHOT", "stacks that may leak", cmd_leaks, &argp_leaks },
	{ "trace", "SNAPSHOT", "the history, a line for each event", cmd_trace,
	    &argp_trace },
	{ "diff", "BEFORE AFTER", "changes between two snapshots", cmd_diff,
	    &argp_diff },
	{ "merge", "SNAPSHOT...", "the ranks of a job beside each other",
	    cmd_merge, &argp_merge },
	{ "check", "SNAPSHOT", "whether a snapshot is consistent", cmd_check,
	    &argp_check },
	{ "export", "SNAPSHOT",
	    "write it for Perfetto, flame graphs, or as JSON or CSV",
	    cmd_export, &argp_export },
	{ "view", "SNAPSHOT", "a page that shows a snapshot in a browser",
	    cmd_view, &argp_view },
	{ "replay", "TRACE...", "play recorded allocations through weir",
	    cmd_replay, &argp_replay },
	{ "fit", "RECORDING...",
	    "forecast the memory of a program at another size", cmd_fit,
	    &argp_fit },
	{ "generate", "KIND", "write a trace of a program with several streams",
	    cmd_generate, &argp_generate },
	{ "options", "", "every option: value, source, default, range",
	    cmd_options, &argp_options },
	{ "info", "", "the driver, the devices and their state", cmd_info,
	    &argp_info },
	{ "completion", "SHELL", "what a shell offers after weir",
	    cmd_completion, &argp_completion },
	{ "version", "", "the version of weir", cmd_version, NULL },
	{ "help", "[COMMAND]", "this list, or the help of one command",
	    cmd_help, NULL },
};

/* The last four subcommands share one line, so that the list fits a screen. */
enum {
	COMMANDS = sizeof(commands) / sizeof(commands[0]),
	LISTED = COMMANDS - 4,
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
	fputs("Usage: weir COMMAND ...      "
	      "weir is a caching GPU memory allocator.\n",
	    out);
	for (size_t i = 0; i < LISTED; i++) {
		char usage[40];

		snprintf(usage, sizeof(usage), "%s %s", commands[i].name,
		    commands[i].args);
		fprintf(out, "  %-22s %s\n", usage, commands[i].help);
	}
	fputs("Also: info, completion SHELL, version, help. 'weir COMMAND "
	      "--help' says more.\n"
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
