/*
 * A count is enough: whoever asks wants to know whether a call that breaks
 * captures may be made now.
 */
#include "streams/capture.h"

#include <stdatomic.h>

#include "base/os.h"
#include "base/status.h"
#include "streams/stream.h"

static atomic_int captures;

enum known { SOME_TOLD, ALL_TOLD, SOME_MISSED };
static _Atomic(enum known) known;

void
capture_began(CUcontext context)
{
	(void)context;
	atomic_fetch_add(&captures, 1);
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
capture_tell_all(void)
{
	enum known before = SOME_TOLD;

	atomic_compare_exchange_strong(&known, &before, ALL_TOLD);
}

void
capture_missed(void)
{
	atomic_store(&known, SOME_MISSED);
}

bool
capture_none(void)
{
	return atomic_load(&known) == ALL_TOLD && !capture_any();
}

static uint64_t
ask(CUstream handle)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t id = 0;

	if (driver_peek()->cuStreamGetCaptureInfo(
		handle, &status, &id, NULL, NULL, NULL) != CUDA_SUCCESS ||
	    status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return 0;
	return id;
}

bool
capture_possible(const struct stream *stream)
{
	CUstreamCaptureStatus status;

	/* The legacy default stream cannot be captured, and a thread's own only
	 * be asked about there. */
	if (capture_none() || stream->handle == WEIR_STREAM_ANY ||
	    stream->handle == WEIR_STREAM_LEGACY ||
	    atomic_load(&stream->ended) ||
	    (stream->thread != 0 && stream->thread != os_thread_id()))
		return false;
	return driver_peek()->cuStreamIsCapturing(stream->handle, &status) !=
	    CUDA_SUCCESS ||
	    status != CU_STREAM_CAPTURE_STATUS_NONE;
}

uint64_t
capture_of(const struct stream *stream)
{
	struct driver_guard guard;
	uint64_t id = 0;

	if (!capture_possible(stream))
		return 0;
	status_mute();
	if (driver_enter(stream->context, &guard) == WEIR_OK) {
		id = ask(stream->handle);
		driver_leave(&guard);
	}
	status_unmute();
	return id;
}
