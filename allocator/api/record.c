/*
 * <weir/weir.h>, <weir/host.h>: the calls that record a stream use.
 */
#include <weir/host.h>

#include "allocator/api/find.h"
#include "allocator/memory/arena.h"
#include "base/os.h"
#include "base/status.h"

/* One of these calls. */
struct record {
	const char *call;
	bool host; /* host memory only */
	bool past; /* the use's work is already queued */
};

static enum weir_status
record_use(const struct record *record, struct block *block,
    struct stream *stream) HOLDS(block->arena->lock)
{
	struct waiting *waiting = &block->arena->waiting;

	ASSERT(block_state(block) == BLOCK_ACTIVE);
	return record->past ?
	    use_add_past(waiting, &block->pending, block->size, stream) :
	    use_add(waiting, &block->pending, stream);
}

/* Record a use by the fast path: `ptr` starts a live block and the stream is
 * known. False: neither is sure. */
static bool
record_known(const struct record *record, const void *ptr, weir_stream handle,
    enum weir_status *status)
{
	struct block *block =
	    ptr != NULL && !os_forked() ? find_exact_locked(ptr) : NULL;
	if (block == NULL)
		return false;
	struct arena *arena = block->arena;
	lock_take_over(&arena->lock);
	lock_assert_held(&block->arena->lock);
	struct stream *stream = record->host == arena->traits.is_page_locked ?
	    use_known(&arena->waiting, handle) :
	    NULL;
	bool known = stream != NULL && stream != block->pool->owner->stream;
	if (known)
		*status = record_use(record, block, stream);
	lock_leave(&arena->lock);
	return known;
}

/* The device of a device block; else WEIR_DEVICE_CURRENT. */
static int
device_of_block(const void *ptr)
{
	struct block *block = ptr != NULL ? find_locked(ptr) : NULL;
	int device = WEIR_DEVICE_CURRENT;

	if (block == NULL)
		return device;
	lock_take_over(&block->arena->lock);
	if (!block->arena->traits.is_page_locked)
		device = block->arena->device;
	lock_leave(&block->arena->lock);
	return device;
}

/* Record a use by a stream, or by all work, of a device. */
static enum weir_status
record_on(const struct record *record, const void *ptr, weir_stream handle,
    int device)
{
	struct stream *stream;
	enum weir_status status = stream_find(device, handle, &stream);

	if (status != WEIR_OK)
		return status;
	struct block *block = ptr != NULL ? find_locked(ptr) : NULL;
	if (block == NULL) {
		status = status_set(WEIR_EINVAL,
		    "%s(%p): no live block of weir holds this address",
		    record->call, ptr);
		goto put;
	}
	struct arena *arena = block->arena;
	lock_take_over(&arena->lock);
	lock_assert_held(&block->arena->lock);
	if (record->host && !arena->traits.is_page_locked)
		status = status_set(WEIR_EINVAL,
		    "%s(%p): it is memory of device %d, not of the host",
		    record->call, ptr, arena->device);
	else if (block->pool->owner->stream != stream ||
	    !arena->traits.has_streams)
		status = record_use(record, block, stream);
	lock_leave(&arena->lock);
put:
	stream_put(stream);
	return status;
}

static enum weir_status
record_call(const struct record *record, const void *ptr, weir_stream handle)
{
	enum weir_status status;

	if (record_known(record, ptr, handle, &status))
		return status;
	if (os_forked())
		return status_forked(record->call);
	status = record_on(record, ptr, handle, WEIR_DEVICE_CURRENT);
	/* All work is that of the current device, which may use memory of
	 * another, and that of the block's. */
	if (status == WEIR_OK && handle == WEIR_STREAM_ANY) {
		int device = device_of_block(ptr);

		if (device != WEIR_DEVICE_CURRENT)
			status = record_on(record, ptr, handle, device);
	}
	return status;
}

enum weir_status
weir_record_stream(const void *ptr, weir_stream stream)
{
	static const struct record call = { .call = "weir_record_stream" };

	return record_call(&call, ptr, stream);
}

enum weir_status
weir_record_use(const void *ptr, weir_stream stream)
{
	static const struct record call = { .call = "weir_record_use",
		.past = true };

	return record_call(&call, ptr, stream);
}

enum weir_status
weir_host_record(const void *ptr, weir_stream stream)
{
	static const struct record call = { .call = "weir_host_record",
		.host = true };

	return record_call(&call, ptr, stream);
}
