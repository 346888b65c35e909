/*
 * <weir/weir.h>: options that a program sets while it runs. Thread caches
 * follow the options that they were made with, so all are made again.
 */
#include "allocator/api/options.h"

#include "allocator/cache/tcache.h"
#include "base/os.h"
#include "base/status.h"

enum weir_status
weir_options_set(const char *conf)
{
	if (os_forked())
		return status_forked("weir_options_set");
	if (conf == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_options_set: conf is NULL");
	enum weir_status status = options_set("weir_options_set", conf);
	if (status == WEIR_OK)
		tcache_refresh();
	return status;
}

enum weir_status
option_change(const char *caller, const char *key, const char *value)
{
	enum weir_status status = option_set(caller, key, value);

	if (status == WEIR_OK)
		tcache_refresh();
	return status;
}
