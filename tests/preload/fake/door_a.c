/* The first of two libraries with the same symbols; see
 * tests/programs/lookups.c. Its lookups are made by this library itself. */
#include <dlfcn.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN const char *door_here(void);
SHOWN const char *cuDoorHere(void);
SHOWN void *door_next(const char *name);
SHOWN void *door_default(const char *name);

const char *
door_here(void)
{
	return "a";
}

const char *
cuDoorHere(void)
{
	return "a";
}

/* The caller of dlsym() must be this library, so its answer passes through a
 * variable: with a jump to it the caller would be ours. */
static void *volatile answer;

void *
door_next(const char *name)
{
	answer = dlsym(RTLD_NEXT, name);
	return answer;
}

void *
door_default(const char *name)
{
	answer = dlsym(RTLD_DEFAULT, name);
	return answer;
}
