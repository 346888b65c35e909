/*
 * Driver events that weir uses itself: kept and reused, by context, and bounded
 * in number.
 */
#include "streams/event.h"

#include <stdlib.h>

#include "base/meta.h"
#include "tests/support/device.h"

static CUcontext
enter(int device, struct driver_guard *guard)
{
	CUcontext context;

	device_driver();
	EXPECT_OK(driver_context(device, &context));
	EXPECT_OK(driver_enter(context, guard));
	return context;
}

TEST(an_event_given_back_is_the_next_one_taken)
{
	struct driver_guard guard;
	CUcontext context = enter(0, &guard);
	CUevent a;
	CUevent b;
	CUevent again;

	EXPECT_OK(event_acquire(context, &a));
	EXPECT_OK(event_acquire(context, &b));
	EXPECT_NE(a, b);
	event_release(context, a);
	EXPECT_OK(event_acquire(context, &again));
	EXPECT_EQ(again, a);
	driver_leave(&guard);
}

TEST(events_have_no_timing_and_can_be_recorded)
{
	struct driver_guard guard;
	CUcontext context = enter(0, &guard);
	const struct driver *driver = device_driver();
	CUevent event;
	float ms;

	EXPECT_OK(event_acquire(context, &event));
	EXPECT_EQ(driver->cuEventRecord(event, NULL), CUDA_SUCCESS);
	EXPECT_EQ(driver->cuEventSynchronize(event), CUDA_SUCCESS);
	EXPECT_NE(driver->cuEventElapsedTime(&ms, event, event), CUDA_SUCCESS);
	driver_leave(&guard);
}

TEST(each_context_has_separate_events)
{
	struct driver_guard guard[2];
	CUcontext context[2];
	CUevent event[2];
	CUevent other;

	device_need(2);
	for (int i = 0; i < 2; i++) {
		context[i] = enter(i, &guard[i]);
		EXPECT_OK(event_acquire(context[i], &event[i]));
		event_release(context[i], event[i]);
	}
	EXPECT_OK(event_acquire(context[1], &other));
	EXPECT_EQ(other, event[1]);
	driver_leave(&guard[1]);
	EXPECT_OK(event_acquire(context[0], &other));
	EXPECT_EQ(other, event[0]);
	driver_leave(&guard[0]);
}

TEST(a_failed_creation_of_an_event_is_reported)
{
	struct driver_guard guard;
	CUcontext context;
	CUevent event = (CUevent)1;

	device_need_sim("calls of the driver are made to fail");
	context = enter(0, &guard);
	EXPECT_EQ(
	    sim()->fail("cuEventCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	EXPECT_STATUS(event_acquire(context, &event), WEIR_ENOMEM);
	EXPECT_EQ(event, (CUevent)1);
	EXPECT_OK(event_acquire(context, &event));
	driver_leave(&guard);
}

TEST(without_host_memory_an_event_given_back_is_destroyed)
{
	struct driver_guard guard;
	CUcontext context = enter(0, &guard);
	CUevent event;

	EXPECT_OK(event_acquire(context, &event));
	meta_fail(1, 1);
	event_release(context, event);
	meta_fail(0, 0);
	if (sim() != NULL)
		EXPECT_EQ(sim()->live("event"), 0);
	EXPECT_OK(event_acquire(context, &event));
	driver_leave(&guard);
}

TEST(no_more_than_4096_events_are_kept)
{
	enum { MANY = 4200, KEPT = 4096 };
	static CUevent event[MANY];
	struct driver_guard guard;
	CUcontext context = enter(0, &guard);

	for (int i = 0; i < MANY; i++)
		EXPECT_OK(event_acquire(context, &event[i]));
	for (int i = 0; i < MANY; i++)
		event_release(context, event[i]);
	if (sim() != NULL)
		EXPECT_EQ(sim()->live("event"), KEPT);
	EXPECT_OK(event_acquire(context, &event[0]));
	EXPECT_EQ(event[0], event[KEPT - 1]);
	driver_leave(&guard);
}

TEST(events_of_a_context_that_is_gone_are_forgotten)
{
	struct driver_guard guard;
	CUcontext context = enter(0, &guard);
	CUevent event;
	CUevent again;

	EXPECT_OK(event_acquire(context, &event));
	event_release(context, event);
	event_forget(context);
	EXPECT_OK(event_acquire(context, &again));
	EXPECT_NE(again, event);
	event_forget((CUcontext)7);
	driver_leave(&guard);
}

TEST(an_event_is_met_whatever_context_is_current)
{
	struct driver_guard guard;
	CUcontext context = enter(0, &guard);
	weir_stream stream = new_stream();
	CUevent event;

	EXPECT_OK(event_acquire(context, &event));
	busy(stream, LATE_MS);
	EXPECT_EQ(device_driver()->cuEventRecord(event, (CUstream)stream),
	    CUDA_SUCCESS);
	driver_leave(&guard);
	EXPECT_EQ(device_driver()->cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	EXPECT(!event_met(context, event));
	finish(stream);
	EXPECT_EQ(device_driver()->cuCtxSetCurrent(NULL), CUDA_SUCCESS);
	EXPECT(event_met(context, event));
}

TEST(a_driver_that_wants_a_context_for_an_event_gets_it)
{
	struct driver_guard guard;
	CUcontext context = enter(0, &guard);
	CUcontext current;
	CUevent event;

	device_need_sim("calls of the driver are made to fail");
	EXPECT_OK(event_acquire(context, &event));
	driver_leave(&guard);
	sim()->reset();
	EXPECT_EQ(
	    sim()->fail("cuEventQuery", 1, 1, CUDA_ERROR_INVALID_CONTEXT), 0);
	EXPECT(event_met(context, event));
	EXPECT_EQ(sim()->calls("cuEventQuery"), 2);
	EXPECT_EQ(sim()->calls("cuCtxPushCurrent"), 1);
	EXPECT_EQ(device_driver()->cuCtxGetCurrent(&current), CUDA_SUCCESS);
	EXPECT_NULL(current);
}
