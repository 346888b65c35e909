/*
 * Waiting for the work of a driver's stream, whatever the driver refuses.
 */
#include "streams/drain.h"

#include <sched.h>

#include "base/status.h"
#include "streams/event.h"

/* Wait for the stream without cuStreamSynchronize(). */
static bool
wait_by_event(CUcontext context, CUstream stream)
{
	const struct driver *driver = driver_peek();
	CUevent event;

	if (event_acquire(context, &event) != WEIR_OK)
		return false;
	bool done = driver->cuEventRecord(event, stream) == CUDA_SUCCESS &&
	    driver->cuEventSynchronize(event) == CUDA_SUCCESS;
	event_release(context, event);
	return done;
}

CUresult
drain_stream(CUcontext context, CUstream stream)
{
	const struct driver *driver = driver_peek();
	CUresult code = driver->cuStreamSynchronize(stream);

	if (code == CUDA_SUCCESS)
		return code;
	status_mute();
	if (driver->cuStreamSynchronize(stream) != CUDA_SUCCESS &&
	    !wait_by_event(context, stream))
		while (driver->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
			sched_yield();
	status_unmute();
	return code;
}
