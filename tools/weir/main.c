/*
 * The weir command.
 */
#include <argp.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/weir/progress.h"
#include "tools/weir/reading/name_frames.h"
#include "tools/weir/tool.h"

/* A standard stream that is closed gives its number to the next file that is
 * opened, which would then be read or written in its place. So each gets a file
 * that fails as a closed stream does. Programs that `weir run` starts find it
 * closed. */
static void
occupy_streams(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null",
			(fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) |
			    O_CLOEXEC) < 0)
			return;
}

/* Flush stdout. End with a failure if some output could not be written. This
 * runs at exit, because argp ends the process after it has printed a help. */
static void
finish_output(int status, void *unused)
{
	(void)unused;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return;
	complain("cannot write the output");
	_exit(status > TOOL_FAILED ? status : TOOL_FAILED);
}

static void
ignore_signal(int number)
{
	(void)number;
}

/* Let a write beyond the size that files may have fail, as a write to a full
 * disk does, in place of ending the process. A handler, unlike SIG_IGN, is gone
 * in programs that `weir run` starts. */
static void
survive_file_limit(void)
{
	struct sigaction action = { .sa_handler = ignore_signal,
		.sa_flags = SA_RESTART };
	struct sigaction found;

	if (sigaction(SIGXFSZ, NULL, &found) == 0 &&
	    found.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &action, NULL);
}

/* Remove a flag that stands before the command; such a flag serves all
 * commands. False, and a complaint, if its value is wrong. */
static bool
parse_global_flag(int *argc, char ***argv)
{
	static const char name[] = "--read-memory=";
	uint64_t bytes;

	if (*argc < 2 || strncmp((*argv)[1], name, sizeof(name) - 1) != 0)
		return true;
	const char *size = (*argv)[1] + sizeof(name) - 1;
	if (!bytes_parse(size, &bytes) || bytes == 0 ||
	    setenv("WEIR_READ_MEMORY", size, 1) != 0) {
		complain("--read-memory=%s: not a size such as 4G", size);
		return false;
	}
	++*argv;
	--*argc;
	return true;
}

int
main(int argc, char **argv)
{
	const struct command *command;

	/* No subcommand: weir's library starts this. */
	if (argc == 2 && strcmp(argv[1], "name-frames") == 0)
		name_frames();
	occupy_streams();
	survive_file_limit();
	if (on_exit(finish_output, NULL) != 0)
		return TOOL_FAILED;
	progress_start();
	argp_err_exit_status = TOOL_USAGE;
	if (!parse_global_flag(&argc, &argv))
		return TOOL_USAGE;
	if (argc < 2) {
		commands_list(stderr);
		return TOOL_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cmd_help(1, argv);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
		return cmd_version(1, argv);
	command = commands_find(argv[1]);
	if (command == NULL)
		return commands_unknown(argv[1]);
	return commands_run(command, argc - 1, argv + 1);
}
