/*
 * A build and an installation have the command in a folder that is known from
 * the library's own.
 */
#include "stacks/command.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* Relative to the library: beside it; lib/ of a build or a prefix, with
 * lib/x86_64-linux-gnu/; python/weir/ of a build; site-packages/weir/. An
 * archive may be in any program, so that the usual prefixes follow. */
static const char *const places[] = { "weir", "bin/weir", "../bin/weir",
	"../../bin/weir", "../../../../bin/weir", "/usr/local/bin/weir",
	"/usr/bin/weir" };

/* The file that contains this library: of the program, if it is linked into
 * that. */
static bool
own_file(char path[PATH_MAX])
{
	struct link_map *map;
	const char *name;
	Dl_info info;

	if (dladdr1((const void *)(uintptr_t)command_find, &info, (void **)&map,
		RTLD_DL_LINKMAP) == 0)
		return false;
	name = map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe";
	return realpath(name, path) != NULL;
}

/* Others can put files into a folder above the library. Theirs are not
 * started. */
static bool
is_own_program(const char *path, uid_t owner)
{
	struct stat file;

	return stat(path, &file) == 0 && S_ISREG(file.st_mode) &&
	    (file.st_uid == 0 || file.st_uid == geteuid() ||
		file.st_uid == owner) &&
	    access(path, X_OK) == 0;
}

bool
command_find(char path[PATH_MAX])
{
	const char *given = getenv("WEIR_COMMAND");
	char own[PATH_MAX];
	struct stat file;

	if (getauxval(AT_SECURE) != 0)
		return false;
	if (given != NULL) {
		int n = snprintf(path, PATH_MAX, "%s", given);
		return n > 0 && n < PATH_MAX;
	}
	if (!own_file(own) || stat(own, &file) != 0)
		return false;
	*(strrchr(own, '/') + 1) = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		int n = snprintf(path, PATH_MAX, "%s%s",
		    places[i][0] == '/' ? "" : own, places[i]);
		if (n < PATH_MAX && is_own_program(path, file.st_uid))
			return true;
	}
	return false;
}
