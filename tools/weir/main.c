/*
 * The weir command.
 */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "tools/weir/tool.h"

/* Text that did not reach its reader is a failure. */
static int
finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	complain("cannot write the output");
	return status == TOOL_DONE ? TOOL_NO : status;
}

int
main(int argc, char **argv)
{
	const struct command *command;

	argp_err_exit_status = TOOL_USAGE;
	if (argc < 2) {
		commands_list(stderr);
		return TOOL_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return finish(cmd_help(1, argv));
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return finish(cmd_version(1, argv));
	command = commands_find(argv[1]);
	if (command == NULL)
		return commands_unknown(argv[1]);
	return finish(commands_run(command, argc - 1, argv + 1));
}
