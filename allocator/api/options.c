/*
 * <weir/weir.h>: options that a program sets while it runs. Thread caches
 * follow the options that they were made with, so all are made again.
 */
#include "allocator/api/options.h"

#include "allocator/cache/tcache.h"
#include "base/os.h"
#include "base/status.h"

static enum weir_status
set_text(const char *caller, const char *conf, bool pytorch)
{
	if (os_forked())
		return status_forked(caller);
	if (conf == NULL)
		return status_set(WEIR_EINVAL, "%s: conf is NULL", caller);
	enum weir_status status = options_set(caller, conf, pytorch);
	if (status == WEIR_OK)
		tcache_refresh();
	return status;
}

enum weir_status
weir_options_set(const char *conf)
{
	return set_text("weir_options_set", conf, false);
}

enum weir_status
weir_options_set_pytorch(const char *conf)
{
	return set_text("weir_options_set_pytorch", conf, true);
}

enum weir_status
option_change(const char *caller, const char *key, const char *value)
{
	enum weir_status status = option_set(caller, key, value);

	if (status == WEIR_OK)
		tcache_refresh();
	return status;
}
