/*
 * Programs under ThreadSanitizer.
 *
 * Note [What ThreadSanitizer does not see]
 *
 * weir is not built with ThreadSanitizer, which therefore sees weir's calls of
 * the C library but none of the atomics that order them, and would report races
 * in weir. So it ignores the accesses of a thread while the thread runs weir.
 *
 * The locks of the preload order what their holders do, so it is told of them.
 *
 * Page-locked memory that a thread frees may serve another thread, which writes
 * it. weir orders the two, and tells ThreadSanitizer: all frees come before all
 * later allocations.
 */
#include <dlfcn.h>
#include <string.h>

#include "preload/preload.h"

bool tsan_is_there;

typedef void annotate_call(const char *file, int line);
typedef void order_call(void *address);

static annotate_call *begin_reads, *begin_writes, *end_reads, *end_writes;
static order_call *acquire, *release;

/* The order of frees and allocations. */
static char order;

static bool
find_call(const char *name, void *out)
{
	void *found = real_dlsym()(RTLD_DEFAULT, name);

	memcpy(out, &found, sizeof(found));
	return found != NULL;
}

__attribute__((constructor)) static void
find_tsan(void)
{
	tsan_is_there = find_call("__tsan_acquire", &acquire) &&
	    find_call("__tsan_release", &release) &&
	    find_call("AnnotateIgnoreReadsBegin", &begin_reads) &&
	    find_call("AnnotateIgnoreReadsEnd", &end_reads) &&
	    find_call("AnnotateIgnoreWritesBegin", &begin_writes) &&
	    find_call("AnnotateIgnoreWritesEnd", &end_writes);
}

void
tsan_ignore(void)
{
	begin_reads(__FILE__, __LINE__);
	begin_writes(__FILE__, __LINE__);
}

void
tsan_heed(void)
{
	end_writes(__FILE__, __LINE__);
	end_reads(__FILE__, __LINE__);
}

void
tsan_entered(const void *lock)
{
	acquire((void *)(uintptr_t)lock);
}

void
tsan_leaves(const void *lock)
{
	release((void *)(uintptr_t)lock);
}

void
tsan_host_allocated(void)
{
	if (tsan_is_there)
		acquire(&order);
}

void
tsan_host_freed(void)
{
	if (tsan_is_there)
		release(&order);
}
