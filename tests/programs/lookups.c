/*
 * Prints the results of dlsym() and dlvsym() for this program and for a library
 * that is loaded before another with the same symbols (tests/tools/fake, both
 * preloaded). The results may not depend on other preloaded libraries.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef const char *(*teller)(void);
typedef void *(*finder)(const char *);

/* The last part of the name of the file that has it, or "-". */
static const char *
where(void *found)
{
	Dl_info info;
	const char *slash;

	if (found == NULL)
		return "-";
	if (dladdr(found, &info) == 0)
		return "?";
	slash = strrchr(info.dli_fname, '/');
	return slash == NULL ? info.dli_fname : slash + 1;
}

static void
show(const char *how, const char *name, void *found)
{
	const char *error = dlerror();

	printf("%s %s: %s%s\n", how, name, where(found),
	    error == NULL ? "" : ", error");
}

static void
from_library(const char *how, const char *asks)
{
	static const char *const names[] = { "door_here", "cuDoorHere",
		"malloc", "cuMemAlloc_v2", "no_such_name", "cuNoSuchName" };
	void *symbol = dlsym(RTLD_DEFAULT, asks);
	finder find;

	memcpy(&find, &symbol, sizeof(symbol));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		show(how, names[i], find(names[i]));
}

int
main(void)
{
	static const char *const names[] = { "door_here", "cuDoorHere",
		"malloc", "dlopen", "cuMemAlloc_v2", "cuGetProcAddress_v2",
		"no_such_name", "cuNoSuchName" };
	void *libc = dlopen("libc.so.6", RTLD_NOW);
	teller tell;
	void *symbol;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		show("default", names[i], dlsym(RTLD_DEFAULT, names[i]));
		show("next", names[i], dlsym(RTLD_NEXT, names[i]));
		show("libc", names[i], dlsym(libc, names[i]));
	}
	from_library("library, next", "door_next");
	from_library("library, default", "door_default");
	show("version", "memcpy", dlvsym(libc, "memcpy", "GLIBC_2.2.5"));
	show("version", "memcpy", dlvsym(libc, "memcpy", "GLIBC_2.17"));
	show("version", "memcpy", dlvsym(libc, "memcpy", "GLIBC_0.1"));
	show("version", "cuMemAlloc_v2",
	    dlvsym(RTLD_DEFAULT, "cuMemAlloc_v2", "GLIBC_2.2.5"));

	symbol = dlsym(RTLD_NEXT, "door_here");
	memcpy(&tell, &symbol, sizeof(symbol));
	printf("first: %s\n", tell());
	return 0;
}
