/*
 * The names and versions of the driver's entries that have hooks.
 */
#include <string.h>

#include "preload/hooks.h"

const struct hook hooks[HOOK_COUNT] = {
#define HOOK_ENTRY(name, base, version, streams, use, params)                  \
	{ #name, base, version, streams, use },
	HOOKS(HOOK_ENTRY)
#undef HOOK_ENTRY
};

const struct hook *
hook_exported(const char *name)
{
	for (size_t i = 0; i < HOOK_COUNT; i++)
		if (strcmp(hooks[i].name, name) == 0)
			return &hooks[i];
	return NULL;
}

const struct hook *
hook_queried(const char *base, int version, bool per_thread)
{
	enum hook_streams other = per_thread ? HOOK_LEGACY : HOOK_PER_THREAD;
	const struct hook *best = NULL;

	for (size_t i = 0; i < HOOK_COUNT; i++) {
		const struct hook *hook = &hooks[i];

		if (hook->version <= version && hook->streams != other &&
		    (best == NULL || hook->version > best->version) &&
		    strcmp(hook->base, base) == 0)
			best = hook;
	}
	return best;
}
