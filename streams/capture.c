/*
 * Counts the captures that are under way. A count is enough: callers ask only
 * whether a call that breaks captures may be made now.
 *
 * Note [Holding captures off]
 *
 * Calls that break a capture are frequent, and captures begin seldom. The two
 * sides exclude each other by Dekker's handshake. A thread that makes such a
 * call first counts itself inside, on a cache line of its own, and then looks
 * whether a capture is under way. A thread that begins a capture first
 * announces it, and then waits until all threads that were inside are out. At
 * least one of the two sees the other, because these operations are
 * sequentially consistent.
 *
 * While a capture is under way, a thread takes the lock instead of counting
 * itself inside. The next capture is announced under that lock, so that a
 * stream of such threads cannot delay it for ever. A thread may enter again
 * while it is inside. Threads inside take locks, so a capture must be announced
 * with no lock held. Threads inside must not wait for the device, because the
 * program that begins a capture would wait with them.
 *
 * If all captures are announced and none is under way, a thread inside need not
 * change its capture mode, which would cost as much as the call: no capture
 * begins before the thread is out.
 */
#include "streams/capture.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/os.h"
#include "base/status.h"
#include "streams/event.h"
#include "streams/order_clock.h"
#include "streams/stream.h"
#include "streams/tuning.h"

/* Counts of threads inside, each on a cache line of its own. */
enum { LINE_BYTES = 64 };

struct capture_line {
	_Alignas(LINE_BYTES) atomic_uint inside;
};

static struct capture_line lines[CAPTURE_LINES];

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_CAPTURE);
static atomic_int captures;

enum known { SOME_TOLD, ALL_TOLD, SOME_MISSED };
static _Atomic(enum known) known;

/* ---- Threads inside ---------------------------------------------------- */

static struct capture_line *
count_in(void)
{
	struct capture_line *line = &lines[os_thread_id() % CAPTURE_LINES];

	atomic_fetch_add(&line->inside, 1);
	return line;
}

static void
count_out(struct capture_line *line)
{
	atomic_fetch_sub_explicit(&line->inside, 1, memory_order_release);
}

/* Wait until all threads are out that may not have seen the announcement. In a
 * forked child they never leave, so do not wait there. */
static void
wait_for_all(void)
{
	for (int i = 0; i < CAPTURE_LINES; i++)
		for (int n = 0;
		     atomic_load(&lines[i].inside) > 0 && !os_forked(); n++)
			if (n < CAPTURE_LOOKS)
				os_relax();
			else
				sched_yield();
}

struct capture_line *
capture_hold_off(void)
{
	struct capture_line *line = count_in();

	if (!capture_any())
		return line;
	count_out(line);
	lock_enter(&lock);
	lock_hand_over(&lock);
	return NULL;
}

void
capture_let_go(struct capture_line *line)
{
	if (line != NULL) {
		count_out(line);
		return;
	}
	lock_take_over(&lock);
	lock_leave(&lock);
}

/* Count the thread inside if all captures are announced and none is under way;
 * else return false. */
static bool
enter_line(struct capture_guard *guard)
{
	if (!capture_none())
		return false;
	guard->line = count_in();
	if (capture_none())
		return true;
	count_out(guard->line);
	return false;
}

enum weir_status
capture_enter(CUcontext context, struct capture_guard *guard)
{
	if (!enter_line(guard)) {
		guard->line = NULL;
		return driver_enter(context, &guard->guard);
	}
	enum weir_status status =
	    driver_enter_unrelaxed(context, &guard->guard);
	if (status != WEIR_OK)
		count_out(guard->line);
	return status;
}

/* ---- Captures ---------------------------------------------------------- */

void
capture_began(CUcontext context)
{
	(void)context;
	lock_enter(&lock);
	atomic_fetch_add(&captures, 1);
	lock_leave(&lock);
	wait_for_all();
}

void
capture_ended(CUcontext context)
{
	(void)context;
	int n = atomic_load(&captures);
	while (n > 0 && !atomic_compare_exchange_weak(&captures, &n, n - 1))
		;
}

bool
capture_any(void)
{
	return atomic_load(&captures) > 0;
}

void
capture_announce_all(void)
{
	enum known before = SOME_TOLD;

	atomic_compare_exchange_strong(&known, &before, ALL_TOLD);
}

void
capture_missed(void)
{
	atomic_store(&known, SOME_MISSED);
	wait_for_all();
}

bool
capture_none(void)
{
	return atomic_load(&known) == ALL_TOLD && !capture_any();
}

static enum weir_status
ask_capture(CUstream handle, uint64_t *out)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t id = 0;
	CUresult code = driver_peek()->cuStreamGetCaptureInfo(
	    handle, &status, &id, NULL, NULL, NULL);

	if (code != CUDA_SUCCESS)
		return driver_status(
		    code, "cuStreamGetCaptureInfo(stream %p)", (void *)handle);
	*out = status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
	return WEIR_OK;
}

bool
capture_maybe(CUstream handle)
{
	CUstreamCaptureStatus status;

	return driver_peek()->cuStreamIsCapturing(handle, &status) !=
	    CUDA_SUCCESS ||
	    status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool
capture_possible(const struct stream *stream)
{
	/* The legacy default stream cannot be captured. A per-thread default
	 * stream can be asked only on its own thread. */
	if (capture_none() || stream->handle == WEIR_STREAM_ANY ||
	    stream->handle == WEIR_STREAM_LEGACY ||
	    atomic_load(&stream->ended) ||
	    (stream->thread != 0 && stream->thread != os_thread_id()))
		return false;
	return capture_maybe(stream->handle);
}

bool
capture_is_open(const struct stream *stream)
{
	CUstreamCaptureStatus status;

	return !capture_none() &&
	    driver_peek()->cuStreamIsCapturing(stream->handle, &status) ==
	    CUDA_SUCCESS &&
	    status != CU_STREAM_CAPTURE_STATUS_NONE;
}

enum weir_status
capture_ask(const struct stream *stream, uint64_t *id)
{
	struct driver_guard guard;

	*id = 0;
	if (!capture_possible(stream))
		return WEIR_OK;
	enum weir_status status = driver_enter(stream->context, &guard);
	if (status != WEIR_OK)
		return status;
	status = ask_capture(stream->handle, id);
	driver_leave(&guard);
	return status;
}

uint64_t
capture_of(const struct stream *stream)
{
	uint64_t id = 0;

	status_mute();
	if (capture_ask(stream, &id) != WEIR_OK)
		id = 0;
	status_unmute();
	return id;
}

/* ---- Within a capture -------------------------------------------------- */

/* Hash the set of nodes that the stream's next work depends on. */
static uint64_t
hash_nodes(const CUgraphNode *nodes, size_t n)
{
	uint64_t number = n + 1;

	for (size_t i = 0; i < n; i++) {
		number ^= (uint64_t)(uintptr_t)nodes[i];
		number *= 0x9e3779b97f4a7c15u;
		number ^= number >> 29;
	}
	return number;
}

static bool
look_at_capture(CUstream handle, uint64_t *id, uint64_t *front)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	const CUgraphNode *nodes = NULL;
	cuuint64_t capture = 0;
	size_t n = 0;

	/* This call fails if an edge has data, beyond the order. */
	if (driver_peek()->cuStreamGetCaptureInfo(
		handle, &status, &capture, NULL, &nodes, &n) != CUDA_SUCCESS)
		return false;
	*id = status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? capture : 0;
	*front = *id != 0 ? hash_nodes(nodes, n) : 0;
	return true;
}

bool
capture_look(const struct stream *stream, uint64_t *id, uint64_t *front)
{
	struct driver_guard guard;

	*id = 0;
	*front = 0;
	if (!capture_possible(stream))
		return true;
	status_mute();
	bool answered = driver_enter(stream->context, &guard) == WEIR_OK;
	if (answered) {
		answered = look_at_capture(stream->handle, id, front);
		driver_leave(&guard);
	}
	status_unmute();
	return answered;
}

/* Make `later` wait for `earlier` in their capture. No capture may begin
 * meanwhile: if this one ends, the streams are in none, and the wait is an
 * ordinary one. */
static bool
join_streams(const struct stream *later, const struct stream *earlier,
    uint64_t id, CUevent event)
{
	const struct driver *driver = driver_peek();

	return capture_of(later) == id && capture_of(earlier) == id &&
	    driver->cuEventRecord(event, earlier->handle) == CUDA_SUCCESS &&
	    driver->cuStreamWaitEvent(later->handle, event, 0) == CUDA_SUCCESS;
}

uint64_t
capture_join(struct stream *later, struct stream *earlier, uint64_t id)
{
	struct driver_guard guard;
	CUevent event = NULL;
	uint64_t tick = 0;

	if (driver_enter(later->context, &guard) != WEIR_OK)
		return 0;
	if (event_acquire(later->context, &event) == WEIR_OK) {
		lock_enter(&earlier->lock);
		struct capture_line *line = capture_hold_off();
		tick = order_tick();
		if (!join_streams(later, earlier, id, event))
			tick = 0;
		capture_let_go(line);
		lock_leave(&earlier->lock);
		event_release(later->context, event);
	}
	driver_leave(&guard);
	return tick;
}
