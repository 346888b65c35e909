#include "base/assert.h"

#include "base/log.h"

void
assert_failed(const char *condition, const char *file, int line)
{
	log_write(LOG_ERROR, "%s:%d: not so: %s", file, line, condition);
	__builtin_trap();
}
