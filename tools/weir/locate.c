/*
 * The places of weir's parts, and the choice of the driver.
 *
 * The command finds its libraries relative to its own file, so that a build
 * tree and an installation work alike and may be moved.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

#include "tools/weir/tool.h"

/* Library folders, relative to the folder of the command. */
static const char *const library_folders[] = { "../lib", "../lib/weir",
	"../lib64", "../lib64/weir", "../lib/x86_64-linux-gnu",
	"../lib/x86_64-linux-gnu/weir", "../lib/aarch64-linux-gnu",
	"../lib/aarch64-linux-gnu/weir" };

/* The file of the command, by the name that started it. The name may be a link,
 * and relative to the folder where the command was started. */
static bool
started_as(char path[TOOL_PATH])
{
	const char *name = (const char *)(uintptr_t)getauxval(AT_EXECFN);
	char *real = name != NULL ? realpath(name, NULL) : NULL;
	bool fits = real != NULL && strlen(real) < TOOL_PATH;

	if (fits)
		strcpy(path, real);
	free(real);
	return fits;
}

bool
locate_self(char path[TOOL_PATH])
{
	ssize_t length = readlink("/proc/self/exe", path, TOOL_PATH - 1);

	if (length < 0)
		return started_as(path);
	path[length] = '\0';
	return true;
}

/* The folder that holds this command. */
static bool
own_folder(char path[TOOL_PATH])
{
	char *slash;

	if (!locate_self(path))
		return false;
	slash = strrchr(path, '/');
	if (slash == NULL)
		return false;
	*slash = '\0';
	return true;
}

bool
locate_quietly(const char *part, char path[TOOL_PATH])
{
	enum { FOLDERS = sizeof(library_folders) / sizeof(*library_folders) };
	char folder[TOOL_PATH];

	if (!own_folder(folder))
		return false;
	for (size_t i = 0; i < FOLDERS; i++) {
		char try[2 * TOOL_PATH];
		char *real;

		snprintf(try, sizeof(try), "%s/%s/%s", folder,
		    library_folders[i], part);
		real = realpath(try, NULL);
		if (real == NULL)
			continue;
		if (strlen(real) < TOOL_PATH) {
			strcpy(path, real);
			free(real);
			return true;
		}
		free(real);
	}
	return false;
}

bool
locate(const char *part, char path[TOOL_PATH])
{
	char folder[TOOL_PATH];

	if (locate_quietly(part, path))
		return true;
	if (!own_folder(folder))
		complain("cannot find the folder of this command: %s",
		    strerror(errno));
	else
		complain("%s is not in the library folder that belongs to %s",
		    part, folder);
	return false;
}

/* End the child process: exit status 0 if device 0 is a GPU. */
static _Noreturn void
probe_gpu(void)
{
	struct weir_device_info info = { .struct_size = sizeof(info) };
	int null = open("/dev/null", O_RDWR);

	if (null >= 0) {
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
	}
	/* A wrong WEIR_CONF does not mean that there is no GPU. */
	unsetenv("WEIR_CONF");
	unsetenv("PYTORCH_CUDA_ALLOC_CONF");
	unsetenv("PYTORCH_ALLOC_CONF");
	_exit(weir_device_info(0, &info) == WEIR_OK && !info.simulated ? 0 : 1);
}

bool
gpu_present(void)
{
	pid_t child;
	int status = 0;

	fflush(NULL);
	child = fork();
	if (child == 0)
		probe_gpu();
	while (child > 0 && waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			child = -1;
	/* The simulated device must not answer for a GPU that was not looked
	 * for. */
	if (child < 0 ||
	    (WIFEXITED(status) && WEXITSTATUS(status) == TOOL_FAILED)) {
		complain("cannot look for a GPU: %s",
		    child < 0 ? strerror(errno) : "out of memory");
		exit(TOOL_FAILED);
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool
prepend_library_path(const char *folder)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	char *path;
	bool done;

	if (old == NULL || *old == '\0')
		return setenv("LD_LIBRARY_PATH", folder, 1) == 0;
	if (asprintf(&path, "%s:%s", folder, old) < 0)
		return false;
	done = setenv("LD_LIBRARY_PATH", path, 1) == 0;
	free(path);
	return done;
}

bool
use_simulated_if(bool forced)
{
	const char *chosen = getenv("WEIR_LIBCUDA");
	bool keep = !forced && chosen != NULL && *chosen != '\0';
	char library[TOOL_PATH];

	if (!forced && gpu_present())
		return true;
	/* With a driver that the user names, the simulated libraries may be
	 * absent. */
	if (keep && !locate_quietly("sim/libcuda.so.1", library))
		return true;
	if (!keep && !locate("sim/libcuda.so.1", library))
		return false;
	if (!keep && setenv("WEIR_LIBCUDA", library, 1) != 0)
		goto failed;
	*strrchr(library, '/') = '\0';
	if (!prepend_library_path(library))
		goto failed;
	return true;

failed:
	complain("cannot set the environment: %s", strerror(errno));
	return false;
}
