/*
 * weir's records of CUDA streams.
 *
 * A stream is found by its handle. Some handles do not name one stream: NULL
 * and CU_STREAM_LEGACY are the legacy default stream of a context,
 * CU_STREAM_PER_THREAD is a stream for each thread and context, and
 * WEIR_STREAM_ANY is no stream: a record on it covers all work submitted to the
 * context.
 *
 * A stream ends when it is destroyed through weir or retired by its owner. A
 * per-thread stream ends with its thread. The driver may give the same handle
 * to a new stream, which is a new struct stream.
 *
 * Note [Reported work]
 *
 * weir does not see the work that a stream is given, so a block may have been
 * used until its free. Other streams therefore wait for all work up to the tick
 * of the free, and a stream that waited for the block's stream shortly before
 * must wait again. If a program reports its work (weir_stream_report_work()),
 * the free tick is the tick of the latest report instead, because no work came
 * after it.
 *
 * The report takes its tick after the work was queued. An event that another
 * thread records in between counts as one that does not cover the work.
 *
 * When memory passes from one stream to another, the order of the second stream
 * protects it from then on. Therefore to receive memory counts as work. A wait
 * counts as work too: a block that another stream used before the wait may be
 * freed on this stream after it.
 */
#ifndef STREAMS_STREAM_H
#define STREAMS_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/stream.h>

#include "base/lock.h"
#include "driver/driver.h"
#include "streams/delay.h"
#include "streams/order.h"

/* Bytes of a stream's name. */
enum { STREAM_PHRASE = 40 };

/* A stream by its handle, for sentences: "stream 0x5581c2a0", "the legacy
 * default stream", "the per-thread default stream", or "no stream". Returns
 * `text`. */
const char *stream_name(weir_stream handle, char text[STREAM_PHRASE]);

/* Who created the stream, and so may destroy it. */
enum stream_origin { STREAM_FOREIGN, STREAM_CREATED, STREAM_POOLED };

struct stream {
	/* Constant. */
	CUcontext context;
	CUstream handle; /* never NULL */
	uint32_t thread; /* owner of a per-thread default stream; else 0 */
	int device;
	enum stream_origin origin;
	int priority; /* as the caller asked; CREATED and POOLED */

	/* blocking: ordered with the legacy default stream. unasked: weir met
	 * the stream in a capture, could not ask, and assumes that it is
	 * blocking. Under the lock of the table. */
	bool blocking;
	bool unasked;

	struct order order; /* which streams it is ordered after */
	struct delay delay; /* how late weir's waits have made it */
	/* Called before the stream is freed; NULL: nothing is to be done. Set
	 * by delay.c with the first wait, which may refer to other streams. */
	void (*on_drop)(struct stream *stream);
	/* All work up to this tick was seen to be done. 0: none was. */
	_Atomic(uint64_t) met_at;
	/* All work up to this time (driver_time_ns()) was seen to be done. 0:
	 * none was. */
	_Atomic(uint64_t) met_ns;
	/* The longest time that the device lately took from the record of an
	 * event to its completion, in ns. */
	_Atomic(uint64_t) latency_ns;
	/* The tick of the latest work that the program has reported, or of the
	 * latest memory or wait that counts as work. 0: the program reports no
	 * work. Note [Reported work]. */
	_Atomic(uint64_t) worked_at;
	/* How many events were recorded on it, as far as weir knows. Blocks
	 * that were freed between the same two events become usable for other
	 * streams at one time. */
	_Atomic(uint64_t) records;

	/* LOCK_RANK_STREAM. A record and the end of the stream exclude each
	 * other, so that no thread uses a handle that another is destroying. */
	struct lock lock;

	atomic_uint refs;  /* the table's, and one for each holder */
	atomic_bool ended; /* set once */
	atomic_bool gone;  /* its context and all its work are gone; set once */
	struct stream *next; /* in its bucket, under the table's lock */

	/* The stream's heap in the device's own arena, under that arena's
	 * lock. */
	void *heap;
};

/*
 * Find or make the stream of a handle.
 *
 * @param device a device, or WEIR_DEVICE_CURRENT; it decides for the handles
 * that do not name one stream
 * @param out a reference, which the caller drops by stream_put()
 * @return WEIR_EINVAL if the stream was destroyed through weir, or is not of
 *         the device; WEIR_EHOSTMEM; WEIR_ECONTEXT; WEIR_EDRIVER
 */
enum weir_status stream_find(
    int device, weir_stream handle, struct stream **out);

/* As stream_find(), but *out is NULL when weir has not met the stream. */
enum weir_status stream_lookup(
    int device, weir_stream handle, struct stream **out);

/* The stream of a handle, with a reference, if weir follows it and it has not
 * ended; else NULL. Sets no status. */
struct stream *stream_known(weir_stream handle);

/* Get up to `most` streams that are late or may be, with a reference each.
 * Returns how many. */
unsigned stream_late_ones(struct stream **out, unsigned most);

/* Follow a stream that weir has just made or uses again. */
enum weir_status stream_adopt(
    weir_stream handle, enum stream_origin origin, int priority);

/* Keep the driver's stream of a destroyed one: Note [Destroyed streams]. */
void stream_keep(const struct stream *stream);

struct stream *stream_ref(struct stream *stream);
void stream_put(struct stream *stream);

/* Mark the stream as ended; false if it had ended before. Its handle may then
 * name a new stream, unless `destroyed` is set: then a later use of the handle
 * is an error. */
bool stream_end(struct stream *stream, bool destroyed);

/* End the default streams of a thread that has ended. Returns their number, at
 * most `max`; the caller gets a reference to each. */
size_t stream_end_thread(uint32_t thread, struct stream **out, size_t max);

/* Forget every stream of a context that is gone. */
void stream_forget(CUcontext context);

/* True for the handles of default streams: legacy and per-thread. */
static inline bool
stream_is_default(weir_stream handle)
{
	return (uintptr_t)handle <= (uintptr_t)WEIR_STREAM_PER_THREAD;
}

/*
 * Record `event` so that it covers all work queued on the stream so far or, if
 * the stream has ended, all work submitted to its context. Call it between
 * driver_enter() and driver_leave() for the stream's context. If the driver has
 * no cuCtxRecordEvent (before 12.5), a record on WEIR_STREAM_ANY waits for the
 * context instead, as cudaFree does.
 *
 * @return WEIR_ECAPTURE, and no capture is disturbed, if the stream (for
 *         WEIR_STREAM_ANY: any stream weir knows of in the context) is being
 *         captured; WEIR_EDRIVER
 */
enum weir_status stream_record(struct stream *stream, CUevent event);

/* Record an event of weir's own, as stream_record() does. The caller gives it
 * back by event_release(). Between driver_enter() and driver_leave(). */
enum weir_status stream_fence(struct stream *stream, CUevent *out);

/* True if work on the stream would become part of a graph, or if the driver
 * does not say. Between driver_enter() and driver_leave(). */
bool stream_capturing(struct stream *stream);

/* True if all work of a stream that has not ended is done. False also if the
 * stream is being captured and cannot be asked. Between driver_enter() and
 * driver_leave(). */
bool stream_idle(struct stream *stream);

/* Note that the stream has just been given work, or memory of another
 * stream. */
void stream_work(struct stream *stream);

/* As stream_work(), if the program reports the work of the stream. */
static inline void
stream_protect(struct stream *stream)
{
	if (atomic_load_explicit(&stream->worked_at, memory_order_relaxed) != 0)
		stream_work(stream);
}

/* The tick of the latest work that the stream may have been given: the latest
 * report, or now. */
static inline uint64_t
stream_worked_at(const struct stream *stream)
{
	uint64_t at =
	    atomic_load_explicit(&stream->worked_at, memory_order_acquire);

	return at != 0 ? at : order_tick();
}

/* Note that an event that was recorded on the stream at a tick is met. */
static inline void
stream_met(struct stream *stream, uint64_t tick)
{
	if (atomic_load_explicit(&stream->met_at, memory_order_relaxed) < tick)
		atomic_store_explicit(
		    &stream->met_at, tick, memory_order_relaxed);
}

/* Note that an event that was recorded at a time (driver_time_ns()) was just
 * seen to be met. The longest latency falls by a tenth with each event. */
static inline void
stream_took(struct stream *stream, uint64_t recorded_ns)
{
	uint64_t ns = driver_time_ns() - recorded_ns;
	uint64_t longest =
	    atomic_load_explicit(&stream->latency_ns, memory_order_relaxed);

	longest -= longest / 10;
	atomic_store_explicit(&stream->latency_ns, ns > longest ? ns : longest,
	    memory_order_relaxed);
	if (atomic_load_explicit(&stream->met_ns, memory_order_relaxed) <
	    recorded_ns)
		atomic_store_explicit(
		    &stream->met_ns, recorded_ns, memory_order_relaxed);
}

/* How many ticks of work remain until the stream has done all work up to a
 * tick; 0: it has. */
static inline uint64_t
stream_left(const struct stream *stream, uint64_t tick)
{
	uint64_t met =
	    atomic_load_explicit(&stream->met_at, memory_order_relaxed);

	return tick > met ? tick - met : 0;
}

/* True if a record or a wait on this stream would order other streams: it is
 * the legacy default stream, and there are blocking streams. */
bool stream_orders_others(const struct stream *stream);

/* Wait until all work queued on the stream so far is done. Holds no lock. */
enum weir_status stream_wait_host(struct stream *stream);

/* As stream_wait_host(), for at most `most_ns`; UINT64_MAX: for as long as it
 * takes. WEIR_ENOTREADY: work is in flight still. A driver before 12.5 waits
 * for work of a context all the same: stream_record(). */
enum weir_status stream_await_end(struct stream *stream, uint64_t most_ns);

/* Resolve WEIR_DEVICE_CURRENT or a device's number, and check it. */
enum weir_status device_resolve(int device, int *out);

#endif
