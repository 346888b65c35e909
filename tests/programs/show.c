/*
 * A program that prints its arguments, each in brackets, except for
 *
 *	$NAME	prints the variable of the environment, without brackets
 *	maps	prints the libraries that are loaded
 *	exit=N	ends the program with that status
 *	kill	ends the program by SIGTERM
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
show_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		fputs(line, stdout);
	if (maps != NULL)
		fclose(maps);
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = getenv(argv[i] + (argv[i][0] == '$'));

		if (argv[i][0] == '$')
			printf("%s", value == NULL ? "(none)" : value);
		else if (strcmp(argv[i], "maps") == 0)
			show_maps();
		else if (strncmp(argv[i], "exit=", 5) == 0)
			return atoi(argv[i] + 5);
		else if (strcmp(argv[i], "kill") == 0)
			raise(SIGTERM);
		else
			printf("[%s]", argv[i]);
	}
	return 0;
}
