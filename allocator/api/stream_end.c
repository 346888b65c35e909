/*
 * Streams that end: <weir/stream.h>'s destroy and retire, and the per-thread
 * default streams of threads that have ended. Note [A stream ends] is in
 * reclaim.c.
 */
#include "allocator/api/stream_end.h"

#include "allocator/cache/tcache.h"
#include "allocator/memory/arena.h"
#include "allocator/request/reclaim.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/capture.h"

/* End the pools of a stream that is about to go, if it has any. */
static void
end_pools(struct stream *stream)
{
	for (struct arena *arena = arena_peek(stream->device); arena != NULL;
	     arena = arena_next(arena)) {
		lock_enter(&arena->lock);
		struct pools *pools = pools_peek(arena, stream);
		if (pools != NULL)
			reclaim_end(pools);
		lock_leave(&arena->lock);
	}
}

/* End the pools of a stream without a call to the driver. */
static void
end_pools_later(struct stream *stream)
{
	for (struct arena *arena = arena_peek(stream->device); arena != NULL;
	     arena = arena_next(arena)) {
		lock_enter(&arena->lock);
		struct pools *pools = pools_peek(arena, stream);
		if (pools != NULL)
			reclaim_end_later(pools);
		lock_leave(&arena->lock);
	}
}

enum weir_status
weir_stream_retire(weir_stream handle)
{
	struct stream *stream;

	if (stream_is_default(handle) || handle == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL,
		    "weir_stream_retire(%p): a default stream "
		    "does not end",
		    (void *)handle);
	enum weir_status status =
	    stream_lookup(WEIR_DEVICE_CURRENT, handle, &stream);
	if (status != WEIR_OK || stream == NULL)
		return status;
	if (stream->origin == STREAM_POOLED) {
		status = status_set(WEIR_EINVAL,
		    "weir_stream_retire(%p): it is of weir's "
		    "stream pool, which everybody shares",
		    (void *)handle);
	} else {
		end_pools(stream);
		stream_end(stream, false);
	}
	stream_put(stream);
	return status;
}

enum weir_status
weir_stream_destroy(weir_stream handle)
{
	struct stream *stream = NULL;
	enum weir_status status = WEIR_OK;

	if (!stream_is_default(handle) && handle != WEIR_STREAM_ANY)
		status = stream_lookup(WEIR_DEVICE_CURRENT, handle, &stream);
	if (status != WEIR_OK)
		return status;
	if (stream == NULL || stream->origin != STREAM_CREATED) {
		if (stream != NULL)
			stream_put(stream);
		return status_set(WEIR_EINVAL,
		    "weir_stream_destroy(%p): not a stream made "
		    "by weir_stream_create()",
		    (void *)handle);
	}
	if (capture_is_open(stream)) {
		stream_put(stream);
		return status_set(WEIR_ECAPTURE,
		    "weir_stream_destroy(%p): the stream is being captured",
		    (void *)handle);
	}
	end_pools(stream);
	if (!stream_end(stream, true)) {
		stream_put(stream);
		return status_set(
		    WEIR_EINVAL, "stream %p: it was destroyed", (void *)handle);
	}
	stream_keep(stream);
	stream_put(stream);
	return WEIR_OK;
}

/* On a thread that is ending: no call to the driver, which may be going away
 * with the process. The next poll of another thread records the end. */
static void
thread_ended(uint32_t thread)
{
	struct stream *streams[16];
	size_t n;

	if (os_forked())
		return;
	tcache_thread_ends();
	do {
		n = stream_end_thread(thread, streams, 16);
		for (size_t i = 0; i < n; i++) {
			end_pools_later(streams[i]);
			stream_put(streams[i]);
		}
	} while (n == 16);
}

void
stream_end_watch_threads(void)
{
	os_on_thread_exit(thread_ended);
}
