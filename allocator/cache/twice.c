/*
 * Reports a block that was freed twice.
 */
#include "allocator/cache/twice.h"

#include "base/log.h"

__attribute__((cold)) struct sums
twice_report(const struct block *block, size_t bytes)
{
	size_t requested = block->requested;

	log_write(LOG_ERROR,
	    "a block of %zu bytes, at %#llx, was freed by two threads at the "
	    "same time; it is handed out once",
	    bytes, (unsigned long long)block->addr);
	return (struct sums){ 1, (int64_t)bytes,
		(int64_t)(requested - 1 < bytes ? requested : bytes) };
}
