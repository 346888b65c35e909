/*
 * <weir/stream.h>: streams. The calls that end a stream are in
 * allocator/api/stream_end.c, because the allocator first ends the stream's
 * heaps.
 */
#include <stdio.h>

#include "base/lock.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/capture.h"
#include "streams/stream.h"
#include "streams/tuning.h"
#include "trace/observe.h"

enum {
	DEVICES_MAX = 128,
	PRIORITIES = 2,
};

/* The stream pool of one device and priority. Each stream is made when it is
 * first asked for. */
struct stream_pool {
	weir_stream streams[WEIR_STREAM_POOL_SIZE];
	unsigned next; /* round robin */
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_SHARED);
static struct stream_pool pools[DEVICES_MAX][PRIORITIES] GUARDED_BY(lock);

static _Thread_local weir_stream current[DEVICES_MAX];

/* Streams that were destroyed through weir and can be used again. */
static struct lock kept_lock = LOCK_INITIALIZER(LOCK_RANK_EVENTS);
static struct kept {
	weir_stream handle;
	int device;
	int priority;
} kept[STREAMS_KEPT] GUARDED_BY(kept_lock);
static size_t kept_count GUARDED_BY(kept_lock);

/* Remove the stream that has been kept longest. */
static bool
pop_oldest(int device, int priority, struct kept *out)
{
	bool found = false;

	lock_enter(&kept_lock);
	for (size_t i = 0; i < kept_count; i++) {
		if (found)
			kept[i - 1] = kept[i];
		else if (kept[i].device == device &&
		    kept[i].priority == priority) {
			*out = kept[i];
			found = true;
		}
	}
	kept_count -= found;
	lock_leave(&kept_lock);
	return found;
}

static void
keep_stream(const struct kept *stream)
{
	lock_enter(&kept_lock);
	/* Beyond the bound a stream is neither used again nor destroyed. */
	if (kept_count < STREAMS_KEPT)
		kept[kept_count++] = *stream;
	lock_leave(&kept_lock);
}

void
stream_keep(const struct stream *stream)
{
	keep_stream(
	    &(struct kept){ stream->handle, stream->device, stream->priority });
}

static bool
stream_is_done(CUcontext context, weir_stream handle)
{
	struct capture_guard guard;

	if (capture_enter(context, &guard) != WEIR_OK)
		return false;
	bool idle = driver_peek()->cuStreamQuery(handle) == CUDA_SUCCESS;
	capture_leave(&guard);
	return idle;
}

/* Use the stream that has been kept longest again, if it has nothing left to
 * do: work of a new stream must not wait for work of an old one. */
static bool
reuse_kept(CUcontext context, int device, int priority, weir_stream *out)
{
	struct kept oldest;

	if (!pop_oldest(device, priority, &oldest))
		return false;
	if (!stream_is_done(context, oldest.handle)) {
		keep_stream(&oldest);
		return false;
	}
	*out = oldest.handle;
	return true;
}

/* Get a stream of the driver, kept or new. */
static enum weir_status
make_or_reuse(int device, int priority, weir_stream *out)
{
	struct driver_guard guard;
	CUcontext context;
	enum weir_status status = driver_context(device, &context);
	if (status != WEIR_OK || reuse_kept(context, device, priority, out))
		return status;
	status = driver_enter(context, &guard);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuStreamCreateWithPriority(
	    out, CU_STREAM_NON_BLOCKING, priority);
	driver_leave(&guard);
	return driver_status(code,
	    "cuStreamCreateWithPriority(priority %d, device %d)", priority,
	    device);
}

static enum weir_status
create_stream(
    int device, int priority, enum stream_origin origin, weir_stream *out)
{
	const struct driver *driver;
	weir_stream handle;
	enum weir_status status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	status = make_or_reuse(device, priority, &handle);
	if (status != WEIR_OK)
		return status;
	status = stream_adopt(handle, origin, priority);
	if (status != WEIR_OK) {
		const struct stream unused = {
			.handle = handle, .device = device, .priority = priority
		};
		stream_keep(&unused);
		return status;
	}
	*out = handle;
	return WEIR_OK;
}

static void
observe_creation(weir_stream handle)
{
	int device;

	if (observed(WEIR_TRACE_STREAM_CREATION) &&
	    weir_stream_device(handle, &device) == WEIR_OK)
		observe_stream(WEIR_TRACE_STREAM_CREATION, device, handle);
}

enum weir_status
weir_stream_create(int device, int priority, weir_stream *out)
{
	if (os_forked())
		return status_forked("weir_stream_create");
	if (out == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_stream_create: out is NULL");
	enum weir_status status =
	    create_stream(device, priority, STREAM_CREATED, out);
	if (status == WEIR_OK)
		observe_creation(*out);
	return status;
}

enum weir_status
weir_stream_from_pool(int device, int priority, weir_stream *out)
{
	if (os_forked())
		return status_forked("weir_stream_from_pool");
	const struct driver *driver;
	enum weir_status status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	if (out == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_stream_from_pool: out is NULL");
	status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	if (device >= DEVICES_MAX)
		return status_set(WEIR_ENOTSUP,
		    "weir_stream_from_pool: device %d: pools "
		    "are kept for the first %d",
		    device, DEVICES_MAX);

	lock_enter(&lock);
	struct stream_pool *pool = &pools[device][priority < 0];
	weir_stream *slot = &pool->streams[pool->next % WEIR_STREAM_POOL_SIZE];
	bool made = *slot == NULL;
	if (made)
		status = create_stream(
		    device, priority < 0 ? priority : 0, STREAM_POOLED, slot);
	if (status == WEIR_OK) {
		*out = *slot;
		pool->next++;
	}
	lock_leave(&lock);
	if (status == WEIR_OK && made)
		observe_creation(*out);
	return status;
}

enum weir_status
weir_stream_current(int device, weir_stream *out)
{
	if (os_forked())
		return status_forked("weir_stream_current");
	const struct driver *driver;
	enum weir_status status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	if (out == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_stream_current: out is NULL");
	*out = device < DEVICES_MAX ? current[device] : NULL;
	return WEIR_OK;
}

enum weir_status
weir_stream_set_current(weir_stream handle)
{
	if (os_forked())
		return status_forked("weir_stream_set_current");
	struct stream *stream;

	if (handle == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL,
		    "weir_stream_set_current: "
		    "WEIR_STREAM_ANY is no stream");
	enum weir_status status =
	    stream_find(WEIR_DEVICE_CURRENT, handle, &stream);
	if (status != WEIR_OK)
		return status;
	if (stream->device < DEVICES_MAX)
		current[stream->device] = handle;
	stream_put(stream);
	return WEIR_OK;
}

/* Ask the driver a question about a stream, in its context. */
static enum weir_status
ask_driver(weir_stream handle, const char *name,
    CUresult (*question)(CUstream stream, void *answer), void *answer)
{
	struct driver_guard guard;
	struct stream *stream;
	enum weir_status status =
	    stream_find(WEIR_DEVICE_CURRENT, handle, &stream);
	if (status != WEIR_OK)
		return status;
	status = driver_enter(stream->context, &guard);
	if (status == WEIR_OK) {
		CUresult code = question(stream->handle, answer);
		driver_leave(&guard);
		status =
		    driver_status(code, "%s(stream %p)", name, (void *)handle);
	}
	stream_put(stream);
	return status;
}

/* WEIR_STREAM_ANY means all work of the context. The driver has no query of
 * whether that is done, and it has no priority. */
static enum weir_status
check_not_any(weir_stream stream, const char *call)
{
	if (stream != WEIR_STREAM_ANY)
		return WEIR_OK;
	return status_set(
	    WEIR_ENOTSUP, "%s: WEIR_STREAM_ANY is no stream", call);
}

static CUresult
ask_done(CUstream stream, void *answer)
{
	(void)answer;
	return driver_peek()->cuStreamQuery(stream);
}

static CUresult
ask_wait(CUstream stream, void *answer)
{
	uint64_t began_ns = delay_host_begins();
	CUresult code = stream == WEIR_STREAM_ANY ?
	    driver_peek()->cuCtxSynchronize() :
	    driver_peek()->cuStreamSynchronize(stream);

	(void)answer;
	delay_host_waited(stream, began_ns);
	return code;
}

static CUresult
ask_priority(CUstream stream, void *answer)
{
	return driver_peek()->cuStreamGetPriority(stream, answer);
}

enum weir_status
weir_stream_report_work(weir_stream handle)
{
	if (os_forked())
		return status_forked("weir_stream_report_work");
	enum weir_status status = WEIR_OK;

	if (stream_is_default(handle) || handle == WEIR_STREAM_ANY)
		return status_set(WEIR_EINVAL,
		    "weir_stream_report_work(%p): not a default stream, nor "
		    "WEIR_STREAM_ANY",
		    (void *)handle);
	struct stream *stream = stream_known(handle);
	if (stream == NULL)
		status = stream_find(WEIR_DEVICE_CURRENT, handle, &stream);
	if (status != WEIR_OK)
		return status;
	stream_work(stream);
	stream_put(stream);
	return WEIR_OK;
}

enum weir_status
weir_stream_query(weir_stream stream)
{
	if (os_forked())
		return status_forked("weir_stream_query");
	enum weir_status status = check_not_any(stream, "weir_stream_query");

	return status != WEIR_OK ?
	    status :
	    ask_driver(stream, "cuStreamQuery", ask_done, NULL);
}

enum weir_status
weir_stream_synchronize(weir_stream stream)
{
	if (os_forked())
		return status_forked("weir_stream_synchronize");
	int device;

	if (observed(WEIR_TRACE_STREAM_SYNCHRONIZATION) &&
	    weir_stream_device(stream, &device) == WEIR_OK)
		observe_stream(
		    WEIR_TRACE_STREAM_SYNCHRONIZATION, device, stream);
	return ask_driver(stream, "cuStreamSynchronize", ask_wait, NULL);
}

/* The arguments of a copy. */
struct copying {
	CUdeviceptr to;
	CUdeviceptr from;
	size_t size;
	weir_stream named; /* as the caller named it */
	int device;
};

/* Copy and wait. In a capture the copy would become part of a graph and could
 * not be waited for. */
static CUresult
ask_copy(CUstream stream, void *answer)
{
	const struct driver *driver = driver_peek();
	const struct copying *copying = answer;
	CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult code = driver->cuStreamIsCapturing(stream, &capturing);
	uint64_t began_ns = delay_host_begins();

	if (code == CUDA_SUCCESS && capturing != CU_STREAM_CAPTURE_STATUS_NONE)
		code = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (code == CUDA_SUCCESS)
		code = driver->cuMemcpyAsync(
		    copying->to, copying->from, copying->size, stream);
	if (code != CUDA_SUCCESS)
		return code;
	observe_stream(
	    WEIR_TRACE_STREAM_SYNCHRONIZATION, copying->device, copying->named);
	code = driver->cuStreamSynchronize(stream);
	delay_host_waited(stream, began_ns);
	return code;
}

enum weir_status
weir_copy(void *to, const void *from, size_t size, weir_stream stream)
{
	if (os_forked())
		return status_forked("weir_copy");
	struct copying copying = { .to = (CUdeviceptr)(uintptr_t)to,
		.from = (CUdeviceptr)(uintptr_t)from,
		.size = size,
		.named = stream };
	enum weir_status status;

	if (size == 0)
		return WEIR_OK;
	if (to == NULL || from == NULL || stream == WEIR_STREAM_ANY ||
	    size > WEIR_SIZE_MAX)
		return status_set(WEIR_EINVAL,
		    "weir_copy(%p, %p, %zu bytes, stream %p): %s", to, from,
		    size, (void *)stream,
		    stream == WEIR_STREAM_ANY ? "a copy needs a stream" :
			size > WEIR_SIZE_MAX  ? "no memory is that large" :
						"an address is NULL");
	status = weir_stream_device(stream, &copying.device);
	if (status != WEIR_OK)
		return status;
	return ask_driver(stream, "cuMemcpyAsync", ask_copy, &copying);
}

enum weir_status
weir_stream_wait_stream(weir_stream handle, weir_stream other)
{
	if (os_forked())
		return status_forked("weir_stream_wait_stream");
	struct weir_event *event;
	enum weir_status status = weir_event_create(0, &event);
	if (status != WEIR_OK)
		return status;
	status = weir_event_record(event, other);
	if (status == WEIR_OK)
		status = weir_stream_wait_event(handle, event);
	status_mute(); /* the caller gets the first error's text */
	weir_event_destroy(event);
	status_unmute();
	return status;
}

enum weir_status
weir_stream_device(weir_stream handle, int *device)
{
	if (os_forked())
		return status_forked("weir_stream_device");
	struct stream *stream;

	if (device == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_stream_device: device is NULL");
	enum weir_status status =
	    stream_find(WEIR_DEVICE_CURRENT, handle, &stream);
	if (status != WEIR_OK)
		return status;
	*device = stream->device;
	stream_put(stream);
	return WEIR_OK;
}

enum weir_status
weir_stream_priority(weir_stream stream, int *priority)
{
	if (os_forked())
		return status_forked("weir_stream_priority");
	int value = 0;

	if (priority == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_stream_priority: priority is NULL");
	enum weir_status status = check_not_any(stream, "weir_stream_priority");
	if (status == WEIR_OK)
		status = ask_driver(
		    stream, "cuStreamGetPriority", ask_priority, &value);
	if (status == WEIR_OK)
		*priority = value;
	return status;
}

int
weir_stream_format(weir_stream handle, char *text, size_t size)
{
	int device;

	if (handle == WEIR_STREAM_ANY)
		return snprintf(text, size, "<weir.stream any>");
	if (weir_stream_device(handle, &device) != WEIR_OK)
		return snprintf(text, size, "<weir.stream handle=%#tx invalid>",
		    (ptrdiff_t)handle);
	return snprintf(text, size, "<weir.stream device=%d handle=%#tx>",
	    device, (ptrdiff_t)handle);
}

enum weir_status
weir_device_synchronize(int device)
{
	if (os_forked())
		return status_forked("weir_device_synchronize");
	const struct driver *driver;
	struct driver_guard guard;
	CUcontext context;
	enum weir_status status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	status = driver_context(device, &context);
	if (status != WEIR_OK)
		return status;
	observe_stream(WEIR_TRACE_DEVICE_SYNCHRONIZATION, device, NULL);
	status = driver_enter(context, &guard);
	if (status != WEIR_OK)
		return status;
	uint64_t began_ns = delay_host_begins();
	CUresult code = driver->cuCtxSynchronize();
	delay_host_waited_all(began_ns);
	driver_leave(&guard);
	return driver_status(code, "cuCtxSynchronize(device %d)", device);
}
