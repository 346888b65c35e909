/*
 * The table of streams: a fixed array of buckets under one lock, because a
 * process has tens of streams, not millions.
 *
 * The key of a default stream is its context (and thread); the key of any other
 * stream is its handle, which the driver makes unique in the process. An ended
 * stream leaves the table, unless it was destroyed through weir: then it stays
 * as a marker, so that a later use of the handle is an error. The driver must
 * not be asked about a handle that it no longer knows, because it may crash.
 *
 * Note [Destroyed streams]
 *
 * The marker is right only if the driver does not give the handle to another
 * stream. Therefore weir_stream_destroy() keeps the driver's stream. A later
 * weir_stream_create() of the same device and priority uses it again if all its
 * work is done; otherwise it makes a new stream, so that work of a new stream
 * never waits for work of an old one.
 */
#include "streams/stream.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/lock.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "streams/capture.h"
#include "streams/event.h"
#include "streams/tuning.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_STREAMS);
static struct stream *buckets[STREAM_BUCKETS] GUARDED_BY(lock);

/* The key that a stream is found by. */
struct key {
	CUcontext context; /* NULL if the stream has a handle of its own */
	CUstream handle;
	uint32_t thread;
};

static bool
is_shared_handle(weir_stream handle)
{
	return stream_is_default(handle) || handle == WEIR_STREAM_ANY;
}

static struct stream **
bucket_of(const struct key *key)
{
	uint64_t hash = (uint64_t)(uintptr_t)key->handle * 0x9e3779b97f4a7c15u;

	hash ^= (uint64_t)(uintptr_t)key->context * 0xc2b2ae3d27d4eb4fu;
	hash += key->thread * 0x165667b1u;
	return &buckets[(hash >> 32) % STREAM_BUCKETS];
}

static bool
has_key(const struct stream *stream, const struct key *key)
{
	return stream->handle == key->handle && stream->thread == key->thread &&
	    (key->context == NULL || stream->context == key->context);
}

static struct key
key_of(const struct stream *stream)
{
	bool shared = is_shared_handle(stream->handle);

	return (struct key){ .context = shared ? stream->context : NULL,
		.handle = stream->handle,
		.thread = stream->thread };
}

static struct stream **
find_in_table(const struct key *key) HOLDS(lock)
{
	struct stream **at = bucket_of(key);

	while (*at != NULL && !has_key(*at, key))
		at = &(*at)->next;
	return at;
}

void
stream_work(struct stream *stream)
{
	uint64_t tick = order_tick();
	uint64_t before = atomic_load(&stream->worked_at);

	while (before < tick &&
	    !atomic_compare_exchange_weak(&stream->worked_at, &before, tick))
		;
}

struct stream *
stream_ref(struct stream *stream)
{
	atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
	return stream;
}

static void
stream_drop(struct stream *stream)
{
	if (stream->on_drop != NULL)
		stream->on_drop(stream);
	lock_destroy(&stream->lock);
	meta_free(stream, sizeof(*stream));
}

void
stream_put(struct stream *stream)
{
	if (atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) ==
	    1)
		stream_drop(stream);
}

/* The context that a default stream of `device` belongs to: the current one if
 * it is of that device, else the primary one. */
static enum weir_status
default_context(int device, CUcontext *out)
{
	const struct driver *driver = driver_peek();
	CUcontext current = NULL;
	CUdevice its_device;

	if (driver->cuCtxGetCurrent(&current) == CUDA_SUCCESS &&
	    current != NULL &&
	    driver->cuCtxGetDevice(&its_device) == CUDA_SUCCESS &&
	    (device == WEIR_DEVICE_CURRENT || its_device == device)) {
		*out = current;
		return WEIR_OK;
	}
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	return driver_context(device, out);
}

static enum weir_status
key_make(int device, weir_stream handle, struct key *key)
{
	*key = (struct key){ .handle = handle };
	if (!is_shared_handle(handle))
		return WEIR_OK;
	if (handle == NULL)
		key->handle = WEIR_STREAM_LEGACY;
	if (handle == WEIR_STREAM_PER_THREAD)
		key->thread = os_thread_id();
	if (handle != WEIR_STREAM_ANY)
		return default_context(device, &key->context);
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK)
		return status;
	return driver_context(device, &key->context);
}

/* Ask for the stream's flags, in its context. A captured stream is not asked,
 * because that would break the capture. */
static void
ask_blocking(struct stream *stream)
{
	unsigned flags = 0;

	stream->unasked = false;
	stream->blocking = false;
	if (stream->handle == WEIR_STREAM_ANY ||
	    stream->handle == WEIR_STREAM_LEGACY)
		return;
	stream->unasked = !capture_none() && capture_maybe(stream->handle);
	stream->blocking = stream->unasked ||
	    driver_peek()->cuStreamGetFlags(stream->handle, &flags) !=
		CUDA_SUCCESS ||
	    !(flags & CU_STREAM_NON_BLOCKING);
}

/* Does this code mean that the driver knows no such stream? */
static bool
says_invalid(CUresult code)
{
	return code == CUDA_ERROR_INVALID_HANDLE ||
	    code == CUDA_ERROR_INVALID_VALUE ||
	    code == CUDA_ERROR_INVALID_CONTEXT ||
	    code == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* Ask the driver about a stream that weir has not met. */
static enum weir_status
describe_stream(const struct key *key, struct stream *stream)
{
	struct driver_guard guard;
	CUdevice device;
	CUresult code;

	stream->handle = key->handle;
	stream->context = key->context;
	/* A driver may crash on a handle that it did not give. This one is
	 * certainly none, because programs have no such address. */
	if (key->context == NULL && (intptr_t)key->handle < 0)
		return status_set(WEIR_EINVAL, "stream %p: not a stream",
		    (void *)key->handle);
	if (key->context == NULL) {
		code = driver_peek()->cuStreamGetCtx(
		    key->handle, &stream->context);
		if (code != CUDA_SUCCESS && !says_invalid(code))
			return driver_status(code, "cuStreamGetCtx(stream %p)",
			    (void *)key->handle);
		if (code != CUDA_SUCCESS)
			return status_set(WEIR_EINVAL,
			    "stream %p: not a stream of this process: "
			    "%s (%d)",
			    (void *)key->handle, driver_text(code), code);
	}
	enum weir_status status = driver_enter(stream->context, &guard);
	if (status != WEIR_OK)
		return status;
	code = driver_peek()->cuCtxGetDevice(&device);
	ask_blocking(stream);
	driver_leave(&guard);
	if (code != CUDA_SUCCESS)
		return driver_status(code, "cuCtxGetDevice(context %p)",
		    (void *)stream->context);
	stream->device = device;
	return WEIR_OK;
}

static enum weir_status
stream_new(
    const struct key *key, enum stream_origin origin, struct stream **out)
{
	struct stream *stream = meta_zalloc(sizeof(*stream));
	if (stream == NULL)
		return status_set(WEIR_EHOSTMEM,
		    "stream %p: no host memory to follow it",
		    (void *)key->handle);
	enum weir_status status = describe_stream(key, stream);
	if (status != WEIR_OK) {
		meta_free(stream, sizeof(*stream));
		return status;
	}
	stream->thread = key->thread;
	stream->origin = origin;
	lock_init(&stream->lock, LOCK_RANK_STREAM);
	stream->order.id = order_new_id();
	atomic_init(&stream->refs, 2); /* the table's and the caller's */
	*out = stream;
	return WEIR_OK;
}

/* Put a stream into the table, in place of an ended one with the same key. If
 * another thread was faster, drop it and return that thread's in *stream. */
static void
publish(const struct key *key, struct stream **stream)
{
	struct stream *old = NULL;

	lock_enter(&lock);
	struct stream **at = find_in_table(key);
	if (*at != NULL && !atomic_load(&(*at)->ended)) {
		old = *stream;
		*stream = stream_ref(*at);
		lock_leave(&lock);
		stream_drop(old);
		return;
	}
	old = *at;
	(*stream)->next = old != NULL ? old->next : NULL;
	*at = *stream;
	lock_leave(&lock);
	if (old != NULL)
		stream_put(old);
}

enum weir_status
stream_lookup(int device, weir_stream handle, struct stream **out)
{
	const struct driver *driver;
	struct key key;
	enum weir_status status = driver_get(&driver);
	if (status != WEIR_OK)
		return status;
	status = key_make(device, handle, &key);
	if (status != WEIR_OK)
		return status;

	lock_enter(&lock);
	struct stream *stream = *find_in_table(&key);
	if (stream != NULL)
		stream_ref(stream);
	lock_leave(&lock);
	if (stream != NULL && atomic_load(&stream->ended)) {
		stream_put(stream);
		return status_set(
		    WEIR_EINVAL, "stream %p: it was destroyed", (void *)handle);
	}
	*out = stream;
	return WEIR_OK;
}

struct stream *
stream_known(weir_stream handle)
{
	struct stream *stream = NULL;

	if (driver_peek() == NULL)
		return NULL;
	status_mute();
	if (stream_lookup(WEIR_DEVICE_CURRENT, handle, &stream) != WEIR_OK)
		stream = NULL;
	status_unmute();
	return stream;
}

/* Refuse a handle of another device than the caller named. */
static enum weir_status
check_stream_device(struct stream *stream, int device)
{
	if (device == WEIR_DEVICE_CURRENT || device == stream->device)
		return WEIR_OK;
	return status_set(WEIR_EINVAL, "stream %p belongs to device %d, not %d",
	    (void *)stream->handle, stream->device, device);
}

static __attribute__((noinline)) enum weir_status
make_stream(int device, weir_stream handle, enum stream_origin origin,
    struct stream **out)
{
	struct key key;
	enum weir_status status = key_make(device, handle, &key);
	if (status == WEIR_OK)
		status = stream_new(&key, origin, out);
	if (status == WEIR_OK)
		publish(&key, out);
	return status;
}

static enum weir_status
find_or_make_stream(int device, weir_stream handle, enum stream_origin origin,
    struct stream **out)
{
	struct stream *stream;
	enum weir_status status = stream_lookup(device, handle, &stream);
	if (status == WEIR_OK && stream == NULL)
		status = make_stream(device, handle, origin, &stream);
	if (status != WEIR_OK)
		return status;
	status = check_stream_device(stream, device);
	if (status != WEIR_OK) {
		stream_put(stream);
		return status;
	}
	*out = stream;
	return WEIR_OK;
}

enum weir_status
stream_find(int device, weir_stream handle, struct stream **out)
{
	return find_or_make_stream(device, handle, STREAM_FOREIGN, out);
}

enum weir_status
stream_adopt(weir_stream handle, enum stream_origin origin, int priority)
{
	struct key key = { .handle = handle };
	struct stream *stream;
	enum weir_status status = stream_new(&key, origin, &stream);
	if (status != WEIR_OK)
		return status;
	stream->priority = priority;
	publish(&key, &stream);
	stream_put(stream);
	return WEIR_OK;
}

bool
stream_end(struct stream *stream, bool destroyed)
{
	struct key key = key_of(stream);
	bool removed = false;

	lock_enter(&stream->lock);
	lock_enter(&lock);
	bool first = !atomic_exchange(&stream->ended, true);
	struct stream **at = find_in_table(&key);
	if (first && *at == stream && !destroyed) {
		*at = stream->next;
		removed = true;
	}
	lock_leave(&lock);
	lock_leave(&stream->lock);
	if (removed)
		stream_put(stream);
	return first;
}

size_t
stream_end_thread(uint32_t thread, struct stream **out, size_t max)
{
	size_t n = 0;

	lock_enter(&lock);
	for (size_t i = 0; i < STREAM_BUCKETS; i++) {
		struct stream **at = &buckets[i];
		while (*at != NULL && n < max) {
			struct stream *stream = *at;
			if (stream->thread != thread) {
				at = &stream->next;
				continue;
			}
			atomic_store(&stream->ended, true);
			*at = stream->next; /* the caller gets the table's
					       reference */
			out[n++] = stream;
		}
	}
	lock_leave(&lock);
	return n;
}

void
stream_forget(CUcontext context)
{
	struct stream *gone = NULL;

	lock_enter(&lock);
	for (size_t i = 0; i < STREAM_BUCKETS; i++) {
		struct stream **at = &buckets[i];
		while (*at != NULL) {
			struct stream *stream = *at;
			if (stream->context != context) {
				at = &stream->next;
				continue;
			}
			atomic_store(&stream->gone, true);
			atomic_store(&stream->ended, true);
			*at = stream->next;
			stream->next = gone;
			gone = stream;
		}
	}
	lock_leave(&lock);
	while (gone != NULL) {
		struct stream *next = gone->next;
		stream_put(gone);
		gone = next;
	}
}

/* Is the stream ordered with the legacy default stream? Under the lock of the
 * table. */
static bool
is_blocking(struct stream *stream)
{
	struct driver_guard guard;

	if (stream->unasked && stream->thread == 0 &&
	    driver_enter(stream->context, &guard) == WEIR_OK) {
		ask_blocking(stream);
		driver_leave(&guard);
	}
	return stream->blocking;
}

bool
stream_orders_others(const struct stream *stream)
{
	bool others = false;

	if (stream->handle != WEIR_STREAM_LEGACY)
		return false;
	lock_enter(&lock);
	for (size_t i = 0; i < STREAM_BUCKETS && !others; i++)
		for (struct stream *s = buckets[i]; s != NULL; s = s->next)
			if (s->context == stream->context &&
			    !atomic_load(&s->ended) && is_blocking(s))
				others = true;
	lock_leave(&lock);
	return others;
}

unsigned
stream_late_ones(struct stream **out, unsigned most)
{
	unsigned n = 0;

	lock_enter(&lock);
	for (size_t i = 0; i < STREAM_BUCKETS; i++)
		for (struct stream *s = buckets[i]; s != NULL && n < most;
		     s = s->next)
			if (delay_is_known(&s->delay)) {
				stream_ref(s);
				out[n++] = s;
			}
	lock_leave(&lock);
	return n;
}

/* ---- Names ------------------------------------------------------------- */

const char *
stream_name(weir_stream handle, char text[STREAM_PHRASE])
{
	if (handle == WEIR_STREAM_ANY)
		return strcpy(text, "no stream");
	if (handle == NULL || handle == WEIR_STREAM_LEGACY)
		return strcpy(text, "the legacy default stream");
	if (handle == WEIR_STREAM_PER_THREAD)
		return strcpy(text, "the per-thread default stream");
	snprintf(text, STREAM_PHRASE, "stream %p", (void *)handle);
	return text;
}

/* ---- Fences ------------------------------------------------------------ */

/* Is any stream of this context that weir knows being captured? */
static bool
context_capturing(CUcontext context)
{
	bool capturing = capture_any();

	lock_enter(&lock);
	for (size_t i = 0; i < STREAM_BUCKETS && !capturing; i++) {
		for (struct stream *s = buckets[i]; s != NULL; s = s->next) {
			if (s->context == context && !atomic_load(&s->ended) &&
			    !is_shared_handle(s->handle) &&
			    capture_maybe(s->handle)) {
				capturing = true;
				break;
			}
		}
	}
	lock_leave(&lock);
	return capturing;
}

/*
 * Note [The handle to record on]
 *
 * A per-thread default stream can be named on its own thread only. It is a
 * blocking stream, so the legacy default stream of its context is ordered after
 * all its work. From other threads weir records on the legacy default stream
 * instead.
 *
 * The handle of a stream that has ended may name no stream any more, or another
 * one. weir records on the whole context instead, which covers its work.
 */
static CUstream
record_handle(const struct stream *stream)
{
	if (stream->thread != 0 && stream->thread != os_thread_id())
		return WEIR_STREAM_LEGACY;
	return stream->handle;
}

/* Must a record cover the whole context instead of the stream? */
static bool
names_context(struct stream *stream)
{
	return stream->handle == WEIR_STREAM_ANY || atomic_load(&stream->ended);
}

bool
stream_idle(struct stream *stream)
{
	bool idle = false;

	lock_enter(&stream->lock);
	struct capture_line *line = capture_hold_off();
	if (!stream_capturing(stream))
		idle = driver_peek()->cuStreamQuery(stream->handle) ==
		    CUDA_SUCCESS;
	capture_let_go(line);
	lock_leave(&stream->lock);
	return idle;
}

bool
stream_capturing(struct stream *stream)
{
	if (capture_none())
		return false;
	if (names_context(stream))
		return context_capturing(stream->context);
	/* For the legacy default stream the driver reports whether a blocking
	 * stream is captured. Only blocking streams wait for its work. */
	return capture_maybe(record_handle(stream));
}

static enum weir_status
record_context(const struct stream *stream, CUevent event)
{
	const struct driver *driver = driver_peek();
	CUresult code;

	if (driver->cuCtxRecordEvent != NULL) {
		code = driver->cuCtxRecordEvent(stream->context, event);
		return driver_status(
		    code, "cuCtxRecordEvent(device %d)", stream->device);
	}
	code = driver->cuCtxSynchronize();
	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuCtxSynchronize(device %d)", stream->device);
	code = driver->cuEventRecord(event, WEIR_STREAM_LEGACY);
	return driver_status(
	    code, "cuEventRecord(legacy stream, device %d)", stream->device);
}

static enum weir_status
record_event(struct stream *stream, CUevent event) HOLDS(stream->lock)
{
	if (stream_capturing(stream))
		return stream->handle == WEIR_STREAM_ANY ?
		    status_set(WEIR_ECAPTURE,
			"device %d: a stream of it is being captured",
			stream->device) :
		    status_set(WEIR_ECAPTURE, "stream %p: it is being captured",
			(void *)stream->handle);
	if (names_context(stream))
		return record_context(stream, event);
	CUstream handle = record_handle(stream);
	CUresult code = driver_peek()->cuEventRecord(event, handle);
	return driver_status(code, "cuEventRecord(stream %p)", (void *)handle);
}

enum weir_status
stream_record(struct stream *stream, CUevent event)
{
	lock_enter(&stream->lock);
	struct capture_line *line = capture_hold_off();
	enum weir_status status = record_event(stream, event);
	capture_let_go(line);
	lock_leave(&stream->lock);
	return status;
}

enum weir_status
stream_fence(struct stream *stream, CUevent *out)
{
	CUevent event;
	enum weir_status status = event_acquire(stream->context, &event);
	if (status != WEIR_OK)
		return status;
	status = stream_record(stream, event);
	if (status != WEIR_OK) {
		event_release(stream->context, event);
		return status;
	}
	atomic_fetch_add(&stream->records, 1);
	*out = event;
	return WEIR_OK;
}

/* Wait for the event for up to most_ns. UINT64_MAX: until it is met. */
static enum weir_status
await(const struct stream *stream, CUevent event, uint64_t most_ns)
{
	const struct timespec pause = { .tv_nsec = END_PAUSE_US * 1000 };
	uint64_t until_ns = os_monotonic_ns() + most_ns;

	if (most_ns == UINT64_MAX)
		return driver_status(driver_peek()->cuEventSynchronize(event),
		    "cuEventSynchronize(stream %p)", (void *)stream->handle);
	while (!event_met(stream->context, event)) {
		if (os_monotonic_ns() >= until_ns)
			return status_set(WEIR_ENOTREADY,
			    "device %d: work is in flight", stream->device);
		nanosleep(&pause, NULL);
	}
	return WEIR_OK;
}

enum weir_status
stream_await_end(struct stream *stream, uint64_t most_ns)
{
	struct driver_guard guard;
	CUevent event;
	enum weir_status status = driver_enter(stream->context, &guard);

	if (status != WEIR_OK)
		return status;
	status = stream_fence(stream, &event);
	if (status == WEIR_OK) {
		status = await(stream, event, most_ns);
		event_release(stream->context, event);
	}
	driver_leave(&guard);
	return status;
}

enum weir_status
stream_wait_host(struct stream *stream)
{
	return stream_await_end(stream, UINT64_MAX);
}
