/*
 * <weir/stream.h>: weir_stream_destroy() and weir_stream_retire(). See
 * reclaim.c, Note [A stream ends].
 */
#include "allocator/memory/arena.h"
#include "allocator/request/reclaim.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/capture.h"

/* End the heaps of a stream that is about to end. */
static void
end_heap(struct stream *stream)
{
	for (struct arena *arena = arena_peek(stream->device); arena != NULL;
	     arena = arena_next(arena)) {
		lock_enter(&arena->lock);
		struct stream_heap *heap = heap_peek(arena, stream);
		if (heap != NULL) {
			lock_assert_held(&heap->arena->lock);
			reclaim_end(heap);
		}
		lock_leave(&arena->lock);
	}
}

enum weir_status
weir_stream_retire(weir_stream handle)
{
	if (os_forked())
		return status_forked("weir_stream_retire");
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
		    "weir_stream_retire(%p): it belongs to weir's "
		    "stream pool, which everybody shares",
		    (void *)handle);
	} else {
		end_heap(stream);
		stream_end(stream, false);
	}
	stream_put(stream);
	return status;
}

enum weir_status
weir_stream_destroy(weir_stream handle)
{
	if (os_forked())
		return status_forked("weir_stream_destroy");
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
	end_heap(stream);
	if (!stream_end(stream, true)) {
		stream_put(stream);
		return status_set(
		    WEIR_EINVAL, "stream %p: it was destroyed", (void *)handle);
	}
	stream_keep(stream);
	stream_put(stream);
	return WEIR_OK;
}
