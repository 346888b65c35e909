/*
 * Ends the caches and the default streams of threads that end. See reclaim.c,
 * Note [A stream ends].
 */
#include "allocator/request/thread_end.h"

#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/request/reclaim.h"
#include "base/os.h"

/* End the heaps of a stream without a driver call. */
static void
end_heap_later(struct stream *stream)
{
	for (struct arena *arena = arena_peek(stream->device); arena != NULL;
	     arena = arena_next(arena)) {
		lock_enter(&arena->lock);
		struct stream_heap *heap = heap_peek(arena, stream);
		if (heap != NULL) {
			lock_assert_held(&heap->arena->lock);
			reclaim_end_later(heap);
		}
		lock_leave(&arena->lock);
	}
}

/* Runs on the ending thread. It does not call the driver, which may be
 * unloading with the process; the next poll of another thread records the
 * events. */
static void
thread_ended(uint32_t thread)
{
	struct stream *streams[16];
	size_t n;

	ASSERT(thread != 0);
	if (os_forked())
		return;
	tcache_thread_ends();
	do {
		n = stream_end_thread(thread, streams, 16);
		for (size_t i = 0; i < n; i++) {
			end_heap_later(streams[i]);
			stream_put(streams[i]);
		}
	} while (n == 16);
}

void
thread_end_watch(void)
{
	os_on_thread_exit(thread_ended);
}
