/*
 * The names of counted calls.
 */
#include "tools/report/names.h"

const char *
count_name(size_t i)
{
	static const char *const names[] = {
#define COUNT_NAME(name, version, required, params) #name,
		DRIVER_ENTRIES(COUNT_NAME)
#undef COUNT_NAME
	};

	return names[i];
}

const char *
hook_name(enum hook_id id)
{
	static const char *const names[] = {
#define HOOK_NAME(name, base, version, streams, use, params) #name,
		HOOKS(HOOK_NAME)
#undef HOOK_NAME
	};

	return names[id];
}
