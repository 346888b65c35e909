/*
 * weir's records of CUDA streams.
 *
 * A stream is found by its handle. Three handles are not streams of their
 * own: NULL and CU_STREAM_LEGACY are the legacy default stream of a context,
 * CU_STREAM_PER_THREAD is a stream for each thread and context, and
 * WEIR_STREAM_ANY is no stream at all: "recording" on it covers all work
 * submitted to the context.
 *
 * A stream ends when it is destroyed through weir, retired by its owner, or
 * (a per-thread one) when its thread ends. The driver may give the same handle
 * to a new stream; that is a new struct stream.
 *
 * Note [Reported work]
 *
 * A block that is freed may have been used until then: weir does not see what a
 * stream is given. So other streams wait for all up to the tick of the free,
 * and a stream that waited for the block's stream shortly before has to wait
 * again. A program that reports its work (weir_stream_report_work()) lets weir
 * do better: the tick is that of the latest report, since nothing came after
 * it.
 *
 * That tick is taken after the work was given. An event that another thread
 * records in between counts as one that does not cover the work.
 *
 * Memory that a stream gets from another one is protected by the order of the
 * stream that got it, from then on. So getting it counts as work, and so does a
 * wait: what was used elsewhere before may be freed on the stream behind it.
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

/* Who created it, and so who may destroy it. */
enum stream_origin { STREAM_FOREIGN, STREAM_CREATED, STREAM_POOLED };

struct stream {
	/* Constant. */
	CUcontext context;
	CUstream handle; /* never NULL */
	uint32_t thread; /* owner of a per-thread default stream; else 0 */
	int device;
	enum stream_origin origin;
	int priority; /* as asked of weir; CREATED and POOLED */

	/* Ordered with the legacy default stream; of one that was met in a
	 * capture that is not known, and is taken for granted until it can be
	 * asked. Under the lock of the table. */
	bool blocking;
	bool unasked;

	struct order order; /* what it is known to be behind */
	struct delay delay; /* what weir's waits cost it */
	/* All it had at this tick was seen to be done: how far it has come.
	 * 0: nothing was seen of it. */
	_Atomic(uint64_t) met_at;
	/* All it had by this time (driver_time_ns()) was seen to be done; 0:
	 * nothing was. */
	_Atomic(uint64_t) met_ns;
	/* The longest that the device lately took to come to an event that was
	 * recorded on it, in ns. */
	_Atomic(uint64_t) latency_ns;
	/* The tick of the latest work that the program has reported, or since
	 * which memory of others may be protected by this stream's order; 0:
	 * the program reports none. Note [Reported work]. */
	_Atomic(uint64_t) worked_at;
	/* Events that were recorded on it, as far as weir knows: what was freed
	 * between two of them others may use at the same time. */
	_Atomic(uint64_t) records;

	/* LOCK_RANK_STREAM. A record and the end exclude each other: no handle
	 * is used that another thread is destroying. */
	struct lock lock;

	atomic_uint refs;    /* the table's, and one for each holder */
	atomic_bool ended;   /* set once */
	atomic_bool gone;    /* its context is, and all its work; set once */
	struct stream *next; /* in its bucket, under the table's lock */

	/* The allocator's heap for it, under the lock of its arena. */
	void *heap;
};

/*
 * Find or make the stream of a handle.
 *
 * @param device  the device meant, or WEIR_DEVICE_CURRENT; matters for the
 *                handles that are not streams of their own
 * @param out     a reference, to be given back with stream_put()
 * @return WEIR_EINVAL if the stream was destroyed through weir, or is not of
 *         the device; WEIR_EHOSTMEM; WEIR_ECONTEXT; WEIR_EDRIVER
 */
enum weir_status stream_find(
    int device, weir_stream handle, struct stream **out);

/* As stream_find(), but *out is NULL when weir has not met the stream. */
enum weir_status stream_lookup(
    int device, weir_stream handle, struct stream **out);

/* The stream of a handle if weir follows it and it lives, a reference; else
 * NULL. Sets no status. */
struct stream *stream_known(weir_stream handle);

/* Follow a stream that weir has just made or taken up again. */
enum weir_status stream_adopt(
    weir_stream handle, enum stream_origin origin, int priority);

/* Keep the driver's stream of a destroyed one: Note [Destroyed streams]. */
void stream_keep(const struct stream *stream);

struct stream *stream_ref(struct stream *stream);
void stream_put(struct stream *stream);

/* Fence it ended; false if it was. Its handle is then free for a new stream,
 * unless `destroyed`: then a use of the handle is an error. */
bool stream_end(struct stream *stream, bool destroyed);

/* The streams of a thread that has ended, one reference each; returns how
 * many were written, at most `max`. They are ended. */
size_t stream_end_thread(uint32_t thread, struct stream **out, size_t max);

/* Forget every stream of a context that is gone. */
void stream_forget(CUcontext context);

/* True for handles the driver lends to everybody: legacy and per-thread. */
static inline bool
stream_is_default(weir_stream handle)
{
	return (uintptr_t)handle <= (uintptr_t)WEIR_STREAM_PER_THREAD;
}

/*
 * Record `event` so that it covers all work queued on the stream so far; of a
 * stream that has ended, all work submitted to its context. Call
 * it between driver_enter() and driver_leave() for the stream's context. Where
 * the driver has no cuCtxRecordEvent (before 12.5), WEIR_STREAM_ANY waits for
 * the context instead, as cudaFree does.
 *
 * @return WEIR_ECAPTURE, and no capture is disturbed, if the stream (for
 *         WEIR_STREAM_ANY: any stream weir knows of in the context) is being
 *         captured; WEIR_EDRIVER
 */
enum weir_status stream_record(struct stream *stream, CUevent event);

/* An event of weir's own, recorded as by stream_record(); to be given back with
 * event_give(). Between driver_enter() and driver_leave(). */
enum weir_status stream_fence(struct stream *stream, CUevent *out);

/* True if work on the stream would become part of a graph, or if that cannot
 * be told. Between driver_enter() and driver_leave(). */
bool stream_capturing(struct stream *stream);

/* True if all its work is done; false also if it cannot be asked, as it is
 * being captured. It has not ended. Between driver_enter() and driver_leave().
 */
bool stream_idle(struct stream *stream);

/* The stream has been given work, or memory of another stream, by now. */
void stream_work(struct stream *stream);

/* As stream_work(), if the program reports the work of the stream. */
static inline void
stream_protect(struct stream *stream)
{
	if (atomic_load_explicit(&stream->worked_at, memory_order_relaxed) != 0)
		stream_work(stream);
}

/* The tick of the latest work that the stream may have been given. */
static inline uint64_t
stream_worked_at(const struct stream *stream)
{
	uint64_t at =
	    atomic_load_explicit(&stream->worked_at, memory_order_acquire);

	return at != 0 ? at : order_tick();
}

/* An event that was recorded on the stream at a tick has been met. */
static inline void
stream_met(struct stream *stream, uint64_t tick)
{
	if (atomic_load_explicit(&stream->met_at, memory_order_relaxed) < tick)
		atomic_store_explicit(
		    &stream->met_at, tick, memory_order_relaxed);
}

/* The device was seen to have come to an event that was recorded at a time
 * (driver_time_ns()). A latency that was long fades by a tenth with each event.
 */
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

/* For how many ticks' worth of work it is still busy before it comes to what it
 * had at a tick; 0: it has. */
static inline uint64_t
stream_left(const struct stream *stream, uint64_t tick)
{
	uint64_t met =
	    atomic_load_explicit(&stream->met_at, memory_order_relaxed);

	return tick > met ? tick - met : 0;
}

/* True if a record or a wait on this stream would put others in order: it is
 * the legacy default stream and there are blocking ones. */
bool stream_orders_others(const struct stream *stream);

/* Wait until all work queued on the stream so far is done. Holds no lock. */
enum weir_status stream_wait_host(struct stream *stream);

/* The device meant by WEIR_DEVICE_CURRENT or by a number; checked. */
enum weir_status device_resolve(int device, int *out);

#endif
