/*
 * Primary contexts, and calls with one current: changes are undone, and a call
 * that fails has changed nothing. The tests use the fake driver, whose calls
 * can be made to fail; the last test uses the driver of the run.
 */
#include <pthread.h>

#include "base/status.h"
#include "driver/driver.h"
#include "tests/driver/fake/cuda.h"
#include "tests/support/test.h"

/* The fake, loaded. */
static struct fake_cuda *
load_fake(const struct driver **driver)
{
	struct fake_cuda *fake = fake_cuda_use();

	EXPECT_EQ(driver_get(driver), WEIR_OK);
	return fake;
}

static CUcontext
current(const struct driver *driver)
{
	CUcontext context = NULL;

	EXPECT_EQ(driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
	return context;
}

static CUstreamCaptureMode
set_mode(const struct driver *driver, CUstreamCaptureMode mode)
{
	EXPECT_EQ(
	    driver->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	return mode;
}

/* The mode of the thread, which does not change. */
static CUstreamCaptureMode
mode_now(const struct driver *driver)
{
	CUstreamCaptureMode mode =
	    set_mode(driver, CU_STREAM_CAPTURE_MODE_RELAXED);

	set_mode(driver, mode);
	return mode;
}

TEST(a_context_is_retained_once_for_each_device)
{
	const struct driver *driver;
	struct fake_cuda *fake = load_fake(&driver);
	CUcontext first = NULL;
	CUcontext second = NULL;
	CUcontext again = NULL;

	EXPECT_EQ(fake->retains, 0);
	EXPECT_EQ(driver_context(0, &first), WEIR_OK);
	EXPECT_EQ(driver_context(1, &second), WEIR_OK);
	EXPECT_EQ(driver_context(0, &again), WEIR_OK);
	EXPECT_NOT_NULL(first);
	EXPECT_NE(first, second);
	EXPECT_EQ(first, again);
	EXPECT_EQ(fake->retains, 2);
}

TEST(a_context_loads_the_driver_and_leaves_the_thread_as_it_was)
{
	struct fake_cuda *fake = fake_cuda_use();
	CUcontext context;

	EXPECT_EQ(driver_context(0, &context), WEIR_OK);
	EXPECT_EQ(fake->inits, 1);
	EXPECT_NULL(current(driver_peek()));
	EXPECT_EQ(mode_now(driver_peek()), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(a_device_that_is_not_there_has_no_context)
{
	const struct driver *driver;
	struct fake_cuda *fake = load_fake(&driver);
	CUcontext context = NULL;

	EXPECT_EQ(driver_context(2, &context), WEIR_ENODEVICE);
	EXPECT_STR_EQ(
	    weir_last_error(), "device 2: there are 2, numbered from 0");
	EXPECT_EQ(driver_context(-1, &context), WEIR_ENODEVICE);
	EXPECT_NULL(context);
	EXPECT_EQ(fake->retains, 0);
}

static void
expect_context_failure(const char *entry, const char *text)
{
	const struct driver *driver;
	struct fake_cuda *fake = load_fake(&driver);
	CUcontext context = NULL;

	fake->failing = entry;
	fake->code = CUDA_ERROR_OUT_OF_MEMORY;
	EXPECT_EQ(driver_context(1, &context), WEIR_ENOMEM);
	EXPECT_STR_EQ(weir_last_error(), text);
	EXPECT_NULL(context);
	fake->failing = NULL;
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_GLOBAL);

	/* It was not recorded as a context. */
	EXPECT_EQ(driver_context(1, &context), WEIR_OK);
	EXPECT_NOT_NULL(context);
}

TEST(a_context_that_cannot_be_retained_is_reported)
{
	expect_context_failure("cuDevicePrimaryCtxRetain",
	    "cuDevicePrimaryCtxRetain(device 1): a fake text (2)");
}

TEST(a_failed_query_for_a_device_is_reported)
{
	expect_context_failure(
	    "cuDeviceGet", "cuDeviceGet(1): a fake text (2)");
}

TEST(a_capture_mode_that_cannot_be_changed_is_reported)
{
	expect_context_failure("cuThreadExchangeStreamCaptureMode",
	    "cuThreadExchangeStreamCaptureMode(relaxed): a fake text (2)");
}

static void *
get_context(void *out)
{
	EXPECT_EQ(driver_context(0, out), WEIR_OK);
	return NULL;
}

TEST(threads_get_the_same_context)
{
	enum { THREADS = 8 };
	pthread_t threads[THREADS];
	CUcontext contexts[THREADS] = { NULL };

	fake_cuda_use();
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, get_context, &contexts[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < THREADS; i++) {
		EXPECT_NOT_NULL(contexts[i]);
		EXPECT_EQ(contexts[i], contexts[0]);
	}
}

TEST(entering_makes_current_and_relaxed_and_leaving_puts_back)
{
	const struct driver *driver;
	struct fake_cuda *fake = load_fake(&driver);
	struct driver_guard guard;
	CUcontext own;
	CUcontext other;

	driver_context(0, &own);
	driver_context(1, &other);
	driver->cuCtxPushCurrent(own);
	set_mode(driver, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);

	EXPECT_EQ(driver_enter(other, &guard), WEIR_OK);
	EXPECT_EQ(current(driver), other);
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_RELAXED);
	driver_leave(&guard);
	EXPECT_EQ(current(driver), own);
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	EXPECT_EQ(fake->pushes, 2);
	EXPECT_EQ(fake->pops, 1);
}

TEST(a_context_that_is_current_is_not_pushed)
{
	const struct driver *driver;
	struct fake_cuda *fake = load_fake(&driver);
	struct driver_guard guard;
	CUcontext context;

	driver_context(0, &context);
	driver->cuCtxPushCurrent(context);
	EXPECT_EQ(driver_enter(context, &guard), WEIR_OK);
	driver_leave(&guard);
	EXPECT_EQ(fake->pushes, 1);
	EXPECT_EQ(fake->pops, 0);
	EXPECT_EQ(current(driver), context);
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(no_context_changes_the_mode_alone)
{
	const struct driver *driver;
	struct fake_cuda *fake = load_fake(&driver);
	struct driver_guard guard;

	EXPECT_EQ(driver_enter(NULL, &guard), WEIR_OK);
	EXPECT_NULL(current(driver));
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_RELAXED);
	driver_leave(&guard);
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT_EQ(fake->pushes, 0);
	EXPECT_EQ(fake->pops, 0);
}

TEST(entering_unrelaxed_makes_current_alone)
{
	const struct driver *driver;
	struct driver_guard guard;
	CUcontext context;

	load_fake(&driver);
	driver_context(0, &context);
	EXPECT_EQ(driver_enter_unrelaxed(context, &guard), WEIR_OK);
	EXPECT_EQ(current(driver), context);
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_GLOBAL);
	driver_leave(&guard);
	EXPECT_NULL(current(driver));
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(guards_nest)
{
	const struct driver *driver;
	struct driver_guard outer;
	struct driver_guard inner;
	CUcontext first;
	CUcontext second;

	load_fake(&driver);
	driver_context(0, &first);
	driver_context(1, &second);
	EXPECT_EQ(driver_enter(first, &outer), WEIR_OK);
	EXPECT_EQ(driver_enter(second, &inner), WEIR_OK);
	EXPECT_EQ(current(driver), second);
	driver_leave(&inner);
	EXPECT_EQ(current(driver), first);
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_RELAXED);
	driver_leave(&outer);
	EXPECT_NULL(current(driver));
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

/* An enter that fails in `entry` leaves the guard and the thread alone. */
static void
expect_enter_failure(const char *entry, const char *text)
{
	const struct driver *driver;
	struct fake_cuda *fake = load_fake(&driver);
	struct driver_guard guard;
	struct driver_guard before;
	CUcontext context;

	driver_context(0, &context);
	memset(&guard, 0x55, sizeof(guard));
	before = guard;
	fake->failing = entry;
	EXPECT_EQ(driver_enter(context, &guard), WEIR_EDRIVER);
	EXPECT_STR_HAS(weir_last_error(), text);
	EXPECT_MEM_EQ(&guard, &before, sizeof(guard));
	fake->failing = NULL;
	EXPECT_NULL(current(driver));
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

TEST(an_enter_that_cannot_ask_changes_nothing)
{
	expect_enter_failure("cuCtxGetCurrent", "cuCtxGetCurrent(): ");
}

TEST(an_enter_that_cannot_push_changes_nothing)
{
	expect_enter_failure("cuCtxPushCurrent", "cuCtxPushCurrent(0x");
}

TEST(an_enter_that_cannot_relax_takes_its_context_off_again)
{
	expect_enter_failure("cuThreadExchangeStreamCaptureMode",
	    "cuThreadExchangeStreamCaptureMode(relaxed): ");
}

TEST(leaving_a_driver_that_is_gone_does_no_harm)
{
	const struct driver *driver;
	struct fake_cuda *fake = load_fake(&driver);
	struct driver_guard guard;
	CUcontext context;

	driver_context(0, &context);
	EXPECT_EQ(driver_enter(context, &guard), WEIR_OK);
	status_set(WEIR_EINVAL, "before");
	fake->code = CUDA_ERROR_DEINITIALIZED;
	fake->failing = "cuThreadExchangeStreamCaptureMode";
	driver_leave(&guard);
	EXPECT_STR_EQ(weir_last_error(), "before");
}

TEST(the_driver_of_this_run_enters_and_leaves)
{
	const struct driver *driver;
	struct driver_guard guard;
	CUcontext context;
	CUdevice device = -1;

	EXPECT_EQ(driver_get(&driver), WEIR_OK);
	EXPECT_EQ(driver_context(0, &context), WEIR_OK);
	EXPECT_NULL(current(driver));
	EXPECT_EQ(driver_enter(context, &guard), WEIR_OK);
	EXPECT_EQ(current(driver), context);
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT_EQ(driver->cuCtxGetDevice(&device), CUDA_SUCCESS);
	EXPECT_EQ(device, 0);
	driver_leave(&guard);
	EXPECT_NULL(current(driver));
	EXPECT_EQ(mode_now(driver), CU_STREAM_CAPTURE_MODE_GLOBAL);
}
