/**
 * Streams and events.
 *
 * A weir_stream is a CUDA stream, whoever created it: these calls and CUDA's
 * own may be mixed freely. weir sees only its own calls: a stream that
 * weir_stream_destroy() destroys gives its memory to the others.
 */
#ifndef WEIR_STREAM_H
#define WEIR_STREAM_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Streams in the pool of each device and priority. */
#define WEIR_STREAM_POOL_SIZE 32

/**
 * Create a stream that does not synchronise with the legacy default stream.
 *
 * @param device    a device or WEIR_DEVICE_CURRENT
 * @param priority  0 is normal; lower numbers are served first; clamped to
 *                  the device's range
 */
WEIR_API enum weir_status weir_stream_create(
    int device, int priority, weir_stream *out);

/**
 * Take a stream from the device's pool of WEIR_STREAM_POOL_SIZE for its
 * priority, round robin. The stream is shared and never destroyed. A priority
 * below 0 is high.
 */
WEIR_API enum weir_status weir_stream_from_pool(
    int device, int priority, weir_stream *out);

/**
 * Destroy a stream made by weir_stream_create(). Work queued on it goes on;
 * its cached memory serves any stream once that work is done. The driver's
 * stream is kept for a later weir_stream_create(), once all its work is done.
 * Until then a use of the old handle is an error. No new stream is behind work
 * of an old one.
 *
 * @return WEIR_EINVAL for a stream that weir did not create, a pool stream, a
 *         default stream, or one destroyed before; WEIR_ECAPTURE while the
 *         stream is in a capture that has not been ended, also a broken one,
 *         which the next user of the driver's stream would otherwise inherit.
 *         Nothing has changed then
 */
WEIR_API enum weir_status weir_stream_destroy(weir_stream stream);

/**
 * Say that a stream, whoever created it, is about to be destroyed: its cached
 * memory serves any stream once the work queued so far is done. Call it
 * before cudaStreamDestroy() on a stream weir allocated for.
 */
WEIR_API enum weir_status weir_stream_retire(weir_stream stream);

/** The current stream of the calling thread on a device; at first NULL, the
 * legacy default stream. */
WEIR_API enum weir_status weir_stream_current(int device, weir_stream *out);

/** Set the current stream of the calling thread on the stream's device (on
 * the current device for a default stream). */
WEIR_API enum weir_status weir_stream_set_current(weir_stream stream);

/**
 * Report that a stream has just been given work: a kernel, a copy, a fill, a
 * graph, or a wait that was not made by a call of weir's.
 *
 * The first report on a stream is a promise: the program reports each piece of
 * work that it gives this stream from then on, and before it frees memory that
 * the work uses. weir then knows that memory which is freed with no work since
 * the latest report was last used by that work. A stream that waits for an
 * event recorded in between may use such memory at once, where it would
 * otherwise have to wait for all work that the stream had at the free. Programs
 * whose streams pass memory to each other hold less.
 *
 * Nothing changes for streams that are never reported. Do not report a stream
 * that a library gives work to: memory may then be used too early. Work that
 * calls of weir's give (graphs, tensors) is to be reported like any other.
 *
 * @return WEIR_OK; WEIR_EINVAL for WEIR_STREAM_ANY, a default stream, or a
 *         stream that was destroyed; WEIR_EHOSTMEM and WEIR_EDRIVER at the
 *         first report on a stream only: then nothing is promised
 *
 * Thread-safe; calls no driver but at the first report on a stream.
 */
WEIR_API enum weir_status weir_stream_report_work(weir_stream stream);

/** WEIR_OK if all queued work is done, WEIR_ENOTREADY if not. WEIR_ENOTSUP for
 * WEIR_STREAM_ANY. */
WEIR_API enum weir_status weir_stream_query(weir_stream stream);

/** Wait until all queued work is done; for WEIR_STREAM_ANY, that of the current
 * device. */
WEIR_API enum weir_status weir_stream_synchronize(weir_stream stream);

/**
 * Copy on a stream, after what is queued there, and wait until it is done. For
 * a copy that is not waited for, call CUDA.
 *
 * @param to, from  addresses of devices or of the host, as they come
 * @param size      bytes; 0 does nothing
 * @param stream    NULL is the default stream
 * @return WEIR_OK; WEIR_EINVAL for NULL, WEIR_STREAM_ANY, a stream that was
 *         destroyed, or a size above WEIR_SIZE_MAX; WEIR_ECAPTURE while the
 *         stream is captured; WEIR_EDRIVER
 *
 * Callbacks report the wait, before it begins, as they report any other wait
 * for a stream (<weir/trace.h>).
 */
WEIR_API enum weir_status weir_copy(
    void *to, const void *from, size_t size, weir_stream stream);

/** Make work queued on `stream` after this call wait for what is queued on
 * `other` now. The host does not wait. */
WEIR_API enum weir_status weir_stream_wait_stream(
    weir_stream stream, weir_stream other);

/** The device of a stream. */
WEIR_API enum weir_status weir_stream_device(weir_stream stream, int *device);

/** The priority of a stream; 0 is normal, negative is high. WEIR_ENOTSUP for
 * WEIR_STREAM_ANY. */
WEIR_API enum weir_status weir_stream_priority(
    weir_stream stream, int *priority);

/**
 * A stream in words: `<weir.stream device=0 handle=0x5581c0>`.
 *
 * @return as snprintf(): bytes the whole text has
 */
WEIR_API int weir_stream_format(weir_stream stream, char *text, size_t size);

/** Wait until all work on a device is done. */
WEIR_API enum weir_status weir_device_synchronize(int device);

/* ---- Events ---------------------------------------------------------- */

/** A point in the work of a stream. Not thread-safe by itself: one thread
 * records it at a time. */
struct weir_event;

/** Purposes of an event; bits. */
enum weir_event_flags {
	WEIR_EVENT_DEFAULT = 0,
	WEIR_EVENT_TIMING = 1,       /**< weir_event_elapsed_ms() works */
	WEIR_EVENT_BLOCKING = 2,     /**< a waiting host sleeps */
	WEIR_EVENT_INTERPROCESS = 4, /**< can be shared; excludes TIMING */
};

/**
 * Make an event. The CUDA event behind it is created at the first record, on
 * the device of the stream.
 *
 * @param flags  of enum weir_event_flags
 * @return WEIR_OK; WEIR_EINVAL for unknown flags or for TIMING with
 *         INTERPROCESS; WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_event_create(
    unsigned flags, struct weir_event **out);

/** Destroy an event; NULL does nothing. Work that waits for it is not
 * disturbed. WEIR_EINVAL for an event that belongs to an export or an import
 * of <weir/ipc.h>. */
WEIR_API enum weir_status weir_event_destroy(struct weir_event *event);

/** Mark this point of `stream`. A second record replaces the first.
 * WEIR_EINVAL if the event was first recorded on another device. */
WEIR_API enum weir_status weir_event_record(
    struct weir_event *event, weir_stream stream);

/** WEIR_OK if the marked work is done or nothing was recorded,
 * WEIR_ENOTREADY if not. */
WEIR_API enum weir_status weir_event_query(struct weir_event *event);

/** Wait for the marked work. Returns at once if nothing was recorded. */
WEIR_API enum weir_status weir_event_synchronize(struct weir_event *event);

/** Make work queued on `stream` after this call wait for the event. Does
 * nothing if nothing was recorded. */
WEIR_API enum weir_status weir_stream_wait_event(
    weir_stream stream, struct weir_event *event);

/**
 * Milliseconds between two events.
 *
 * @return WEIR_OK; WEIR_ENOTREADY if either is not done; WEIR_EINVAL if
 *         either has no timing or was not recorded
 */
WEIR_API enum weir_status weir_event_elapsed_ms(
    struct weir_event *start, struct weir_event *end, float *milliseconds);

/** The CUDA event (a CUevent); NULL before the first record. Owned by the
 * event. */
WEIR_API void *weir_event_handle(struct weir_event *event);

/** An event in words: `<weir.event 0x5581c0>`. As snprintf(). */
WEIR_API int weir_event_format(
    struct weir_event *event, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
