/*
 * A program that looks up one name and gets all others from that function, as
 * the runtime library does. With the argument "old" it uses the first form of
 * that function, with "new" the version of the driver, as a toolkit of the
 * driver's age does; a driver refuses versions above its own. With "fork" it
 * forks a child that does nothing, after all functions are found and before
 * they are used.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"

typedef result (*query_old)(const char *, void **, int, uint64_t);
typedef result (*query_now)(const char *, void **, int, uint64_t, int *);

static void *library;
static int old;
static int newest; /* the driver's version; 0: the versions of the table */

static void *
look_up(const char *name)
{
	void *symbol = dlsym(library, name);

	if (symbol == NULL) {
		fprintf(stderr, "no %s\n", name);
		exit(3);
	}
	return symbol;
}

static void
ask(const char *base, int version, void *place)
{
	void *symbol =
	    look_up(old ? "cuGetProcAddress" : "cuGetProcAddress_v2");
	void *found = NULL;
	query_old by_old;
	query_now by_now;
	int status;

	/* Other calls have changed their form since. */
	if (newest != 0 && strncmp(base, "cuMem", 5) == 0)
		version = newest;
	memcpy(&by_old, &symbol, sizeof(symbol));
	memcpy(&by_now, &symbol, sizeof(symbol));
	if (old)
		MUST(by_old(base, &found, version, 0));
	else
		MUST(by_now(base, &found, version, 0, &status));
	memcpy(place, &found, sizeof(found));
}

static int
driver_version(void)
{
	void *symbol = look_up("cuDriverGetVersion");
	result (*ask_version)(int *);
	int version = 0;

	memcpy(&ask_version, &symbol, sizeof(symbol));
	MUST(ask_version(&version));
	return version;
}

int
main(int argc, char **argv)
{
	struct cuda cuda;

	old = argc > 1 && strcmp(argv[1], "old") == 0;
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 3;
	}
	if (argc > 1 && strcmp(argv[1], "new") == 0)
		newest = driver_version();
#define BY_QUERY(field, name, base, version, params)                           \
	ask(base, version, &cuda.field);
	CUDA_FUNCTIONS(BY_QUERY)
#undef BY_QUERY
	if (argc > 1 && strcmp(argv[1], "fork") == 0) {
		pid_t child = fork();

		if (child == 0)
			exit(0);
		waitpid(child, NULL, 0);
	}
	cuda_start(&cuda);
	return exercise(&cuda);
}
