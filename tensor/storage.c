/*
 * Storages: memory with a reference count, and the streams that have work on
 * it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/host.h>
#include <weir/stream.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/event.h"
#include "tensor/tensor.h"
#include "tensor/tuning.h"

static const char *const memory_names[] = {
	[WEIR_MEMORY_DEVICE] = "device",
	[WEIR_MEMORY_PINNED] = "pinned",
	[WEIR_MEMORY_HOST] = "host",
	[WEIR_MEMORY_MANAGED] = "managed",
};

static bool
memory_known(enum weir_memory memory)
{
	return (size_t)memory < sizeof(memory_names) / sizeof(memory_names[0]);
}

const char *
weir_memory_name(enum weir_memory memory)
{
	return memory_known(memory) ? memory_names[memory] : "?";
}

/* ---- Places ------------------------------------------------------------- */

enum weir_status
place_resolve(
    const char *caller, const struct weir_place *place, struct weir_place *out)
{
	enum weir_status status;

	if (place == NULL) {
		*out = (struct weir_place){ .struct_size = sizeof(*out),
			.memory = WEIR_MEMORY_DEVICE };
		status = weir_get_device(&out->device);
		if (status == WEIR_OK)
			status = weir_stream_current(out->device, &out->stream);
		return status;
	}
	if (place->struct_size < sizeof(*place))
		return status_set(WEIR_EINVAL,
		    "%s: struct_size of the place is %zu, not %zu", caller,
		    place->struct_size, sizeof(*place));
	if (!memory_known(place->memory) ||
	    place->memory == WEIR_MEMORY_MANAGED)
		return status_set(WEIR_EINVAL,
		    "%s: memory %d (%s) cannot be allocated", caller,
		    (int)place->memory, weir_memory_name(place->memory));
	*out = *place;
	/* Host memory exists without any device. */
	if (place->memory == WEIR_MEMORY_HOST) {
		if (out->device < 0)
			out->device = 0;
		return WEIR_OK;
	}
	return device_resolve(place->device, &out->device);
}

/* Parse the number after "cuda:", up to the end of the text. */
static bool
parse_index(const char *text, int *out)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end != '\0' || value > 99999)
		return false;
	*out = (int)value;
	return true;
}

static enum weir_status
parse_place(const char *text, struct weir_place *out)
{
	*out = (struct weir_place){ .struct_size = sizeof(*out) };
	if (strcmp(text, "cpu") == 0) {
		out->memory = WEIR_MEMORY_HOST;
		return WEIR_OK;
	}
	out->device = WEIR_DEVICE_CURRENT;
	if (strcmp(text, "pinned") == 0 || strcmp(text, "cuda_host") == 0)
		out->memory = WEIR_MEMORY_PINNED;
	else if (strcmp(text, "cuda") == 0)
		out->memory = WEIR_MEMORY_DEVICE;
	else if (strncmp(text, "cuda:", 5) != 0 ||
	    !parse_index(text + 5, &out->device))
		return status_set(WEIR_EINVAL,
		    "invalid device string: '%.100s'; cpu, pinned, cuda or "
		    "cuda:N is meant",
		    text);
	return device_resolve(out->device, &out->device);
}

enum weir_status
weir_place_parse(const char *text, struct weir_place *out)
{
	struct weir_place place;
	enum weir_status status;

	if (text == NULL || out == NULL ||
	    out->struct_size < sizeof(struct weir_place))
		return status_set(WEIR_EINVAL,
		    "weir_place_parse: text or out is NULL, or struct_size is "
		    "not set");
	status = parse_place(text, &place);
	if (status == WEIR_OK && place.memory != WEIR_MEMORY_HOST)
		status = weir_stream_current(place.device, &place.stream);
	if (status == WEIR_OK)
		*out = place;
	return status;
}

/* ---- Uses --------------------------------------------------------------- */

/* The place of a stream among those of a storage, which are in the order of
 * their addresses. The caller holds the storage's lock. */
static size_t
use_place(const struct weir_storage *storage, const struct stream *stream)
{
	size_t low = 0, high = storage->n_used;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if ((uintptr_t)storage->used[middle] < (uintptr_t)stream)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Note a stream that may be there. The caller holds the storage's lock. */
static bool
keep_use(struct weir_storage *storage, struct stream *stream)
{
	size_t at = use_place(storage, stream);
	size_t max = storage->max_used == 0 ? 2 : storage->max_used * 2;
	struct stream **more;

	if (at < storage->n_used && storage->used[at] == stream)
		return true;
	if (storage->n_used == storage->max_used) {
		more = meta_alloc(max * sizeof(struct stream *));
		if (more == NULL)
			return false;
		if (storage->n_used > 0)
			memcpy(more, storage->used,
			    storage->n_used * sizeof(struct stream *));
		meta_free(
		    storage->used, storage->max_used * sizeof(struct stream *));
		storage->used = more;
		storage->max_used = max;
	}
	memmove(storage->used + at + 1, storage->used + at,
	    (storage->n_used - at) * sizeof(struct stream *));
	storage->used[at] = stream_ref(stream);
	storage->n_used++;
	return true;
}

/* Report the use to the allocator. NULL is never the handle of a stream here.
 */
static enum weir_status
record_storage_use(
    const struct weir_storage *storage, const struct stream *stream)
{
	if (storage->foreign || storage->bytes == 0)
		return WEIR_OK;
	if (storage->memory == WEIR_MEMORY_PINNED)
		return weir_host_record(storage->data, stream->handle);
	if (storage->memory == WEIR_MEMORY_DEVICE &&
	    storage->stream != WEIR_STREAM_ANY)
		return weir_record_stream(storage->data, stream->handle);
	return WEIR_OK;
}

enum weir_status
storage_use(struct weir_storage *storage, struct stream *stream)
{
	if (os_forked())
		return status_forked("a use of a storage");
	struct driver_guard guard;
	enum weir_status status;
	bool kept;

	/* A default stream belongs to the context. */
	status = driver_enter(stream->context, &guard);
	if (status != WEIR_OK)
		return status;
	status = record_storage_use(storage, stream);
	driver_leave(&guard);
	if (status != WEIR_OK)
		return status;
	lock_enter(&storage->lock);
	kept = keep_use(storage, stream);
	lock_leave(&storage->lock);
	return kept ? WEIR_OK :
		      status_set(WEIR_EHOSTMEM,
			  "no host memory to keep a use of a storage");
}

/* Copy the list of streams, with references; pass it to drop_uses() afterwards.
 */
static enum weir_status
copy_uses(struct weir_storage *storage, struct stream ***out, size_t *n)
{
	struct stream **streams = NULL;

	*out = NULL;
	lock_enter(&storage->lock);
	*n = storage->n_used;
	if (*n > 0)
		streams = meta_alloc(*n * sizeof(struct stream *));
	if (streams != NULL) {
		for (size_t i = 0; i < *n; i++)
			streams[i] = stream_ref(storage->used[i]);
	}
	lock_leave(&storage->lock);
	if (*n > 0 && streams == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for %zu streams", *n);
	*out = streams;
	return WEIR_OK;
}

static void
drop_uses(struct stream **streams, size_t n)
{
	for (size_t i = 0; i < n; i++)
		stream_put(streams[i]);
	meta_free(streams, n * sizeof(struct stream *));
}

enum weir_status
stream_put_behind(struct stream *later, struct stream *earlier)
{
	struct driver_guard guard;
	CUevent event;
	enum weir_status status;

	if (later == earlier)
		return WEIR_OK;
	status = driver_enter(earlier->context, &guard);
	if (status != WEIR_OK)
		return status;
	status = stream_fence(earlier, &event);
	driver_leave(&guard);
	if (status != WEIR_OK)
		return status;
	status = driver_enter(later->context, &guard);
	if (status == WEIR_OK) {
		CUresult code = driver_peek()->cuStreamWaitEvent(
		    later->handle, event, CU_EVENT_WAIT_DEFAULT);

		driver_leave(&guard);
		status = driver_status(code, "cuStreamWaitEvent(stream %p)",
		    (void *)later->handle);
	}
	event_release(earlier->context, event);
	return status;
}

enum weir_status
storage_join(struct weir_storage *storage, struct stream *stream)
{
	if (os_forked())
		return status_forked("an order of streams");
	struct stream **streams;
	size_t n;
	enum weir_status status = copy_uses(storage, &streams, &n);

	if (status != WEIR_OK)
		return status;
	for (size_t i = 0; i < n && status == WEIR_OK; i++)
		status = stream_put_behind(stream, streams[i]);
	drop_uses(streams, n);
	return status;
}

enum weir_status
storage_wait(struct weir_storage *storage)
{
	/* No stream writes to a forked child's memory of the host. */
	if (os_forked())
		return storage->memory == WEIR_MEMORY_HOST ?
		    WEIR_OK :
		    status_forked("a wait for a storage");
	struct stream **streams;
	size_t n;
	enum weir_status status = copy_uses(storage, &streams, &n);

	if (status != WEIR_OK)
		return status;
	/* A stream that cannot be waited for, as one that is captured, is no
	 * reason not to wait for the others. */
	for (size_t i = 0; i < n; i++) {
		enum weir_status waited = stream_wait_host(streams[i]);
		status = status == WEIR_OK ? waited : status;
	}
	drop_uses(streams, n);
	return status;
}

/* ---- Making and dropping ------------------------------------------------ */

static struct weir_storage *
storage_new(const struct weir_storage *from)
{
	struct weir_storage *storage = meta_alloc(sizeof(*storage));

	if (storage == NULL) {
		status_set(WEIR_EHOSTMEM, "no host memory for a storage");
		return NULL;
	}
	*storage = *from;
	atomic_init(&storage->refs, 1);
	lock_init(&storage->lock, LOCK_RANK_STORAGE);
	return storage;
}

static void
storage_delete(struct weir_storage *storage)
{
	for (size_t i = 0; i < storage->n_used; i++)
		stream_put(storage->used[i]);
	meta_free(storage->used, storage->max_used * sizeof(struct stream *));
	lock_destroy(&storage->lock);
	meta_free(storage, sizeof(*storage));
}

/* Allocate the memory of weir's own storage. */
static enum weir_status
allocate_storage(struct weir_storage *storage)
{
	size_t bytes = storage->bytes;

	if (bytes == 0)
		return WEIR_OK;
	if (storage->memory == WEIR_MEMORY_DEVICE)
		storage->data =
		    weir_malloc_on(storage->device, bytes, storage->stream);
	else if (storage->memory == WEIR_MEMORY_PINNED)
		storage->data = weir_host_malloc_on(storage->device, bytes, 0);
	else if (posix_memalign(
		     &storage->data, STORAGE_HOST_ALIGNMENT, bytes) != 0)
		return status_set(WEIR_EHOSTMEM,
		    "no host memory for a storage of %zu bytes", bytes);
	return storage->data != NULL ? WEIR_OK : weir_last_status();
}

/* The stream that orders the memory's use from the start. */
static enum weir_status
use_own_stream(struct weir_storage *storage)
{
	bool has = storage->foreign ? storage->has_stream :
				      storage->memory == WEIR_MEMORY_DEVICE;
	struct stream *stream;
	enum weir_status status;

	if (!has || storage->stream == WEIR_STREAM_ANY)
		return WEIR_OK;
	status = stream_find(storage->device, storage->stream, &stream);
	if (status != WEIR_OK)
		return status;
	if (keep_use(storage, stream))
		storage->own = stream;
	else
		status =
		    status_set(WEIR_EHOSTMEM, "no host memory for a storage");
	stream_put(stream);
	return status;
}

enum weir_status
weir_storage_create(
    const struct weir_place *place, size_t bytes, struct weir_storage **out)
{
	struct weir_place resolved;
	enum weir_status status;

	if (out == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_storage_create: out is NULL");
	if (bytes > WEIR_SIZE_MAX)
		return status_set(WEIR_EINVAL,
		    "weir_storage_create: %zu bytes is more than the largest "
		    "size, %zu",
		    bytes, WEIR_SIZE_MAX);
	status = place_resolve("weir_storage_create", place, &resolved);
	if (status != WEIR_OK)
		return status;
	struct weir_storage *storage =
	    storage_new(&(struct weir_storage){ .bytes = bytes,
		.memory = resolved.memory,
		.device = resolved.device,
		.stream = resolved.stream });
	if (storage == NULL)
		return WEIR_EHOSTMEM;
	status = use_own_stream(storage);
	if (status == WEIR_OK)
		status = allocate_storage(storage);
	if (status != WEIR_OK) {
		storage_delete(storage);
		return status;
	}
	*out = storage;
	return WEIR_OK;
}

enum weir_status
weir_storage_wrap(const struct weir_foreign *foreign, struct weir_storage **out)
{
	enum weir_status status = WEIR_OK;
	int device;

	if (out == NULL || foreign == NULL ||
	    foreign->struct_size < sizeof(*foreign))
		return status_set(WEIR_EINVAL,
		    "weir_storage_wrap: foreign or out is NULL, or "
		    "struct_size is not set");
	if (!memory_known(foreign->memory))
		return status_set(WEIR_EINVAL,
		    "weir_storage_wrap: there is no memory %d",
		    (int)foreign->memory);
	if (foreign->data == NULL && foreign->bytes > 0)
		return status_set(WEIR_EINVAL,
		    "weir_storage_wrap: data is NULL, with %zu bytes",
		    foreign->bytes);
	device = foreign->device;
	if (foreign->memory == WEIR_MEMORY_HOST)
		device = device < 0 ? 0 : device;
	else
		status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	struct weir_storage *storage =
	    storage_new(&(struct weir_storage){ .data = foreign->data,
		.bytes = foreign->bytes,
		.memory = foreign->memory,
		.device = device,
		.stream = foreign->has_stream ? foreign->stream : NULL,
		.foreign = true,
		.read_only = foreign->read_only,
		.has_stream =
		    foreign->has_stream && foreign->stream != WEIR_STREAM_ANY,
		.give = foreign->give,
		.closure = foreign->closure });
	if (storage == NULL)
		return WEIR_EHOSTMEM;
	status = use_own_stream(storage);
	if (status != WEIR_OK) {
		storage_delete(storage);
		return status;
	}
	*out = storage;
	return WEIR_OK;
}

struct weir_storage *
weir_storage_acquire(struct weir_storage *storage)
{
	if (storage != NULL)
		atomic_fetch_add_explicit(
		    &storage->refs, 1, memory_order_relaxed);
	return storage;
}

/* Order the owner's use after weir's. */
static void
return_to_owner(struct weir_storage *storage)
{
	bool ordered = storage->has_stream &&
	    storage_join(storage, storage->own) == WEIR_OK;

	if (!ordered && storage->n_used > 0)
		storage_wait(storage);
	/* In a forked child only memory of the host can be given back. */
	if (storage->give != NULL &&
	    (!os_forked() || storage->memory == WEIR_MEMORY_HOST))
		storage->give(storage->closure, storage->data);
}

void
weir_storage_release(struct weir_storage *storage)
{
	if (storage == NULL ||
	    atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) >
		1)
		return;
	/* A failure in a forked child is not reported. */
	status_mute();
	if (storage->foreign)
		return_to_owner(storage);
	else if (storage->memory == WEIR_MEMORY_HOST)
		free(storage->data);
	else if (storage->memory == WEIR_MEMORY_PINNED)
		weir_host_free(storage->data);
	else
		weir_free(storage->data);
	status_unmute();
	storage_delete(storage);
}

enum weir_status
weir_storage_info(
    const struct weir_storage *storage, struct weir_storage_info *out)
{
	if (storage == NULL || out == NULL || out->struct_size < sizeof(*out))
		return status_set(WEIR_EINVAL,
		    "weir_storage_info: storage or out is NULL, or "
		    "struct_size is not set");
	*out = (struct weir_storage_info){ .struct_size = out->struct_size,
		.data = storage->data,
		.bytes = storage->bytes,
		.memory = storage->memory,
		.device = storage->device,
		.stream = storage->stream,
		.foreign = storage->foreign,
		.read_only = storage->read_only,
		.use_count = atomic_load(&storage->refs) };
	return WEIR_OK;
}
