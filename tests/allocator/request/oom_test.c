/*
 * Out of memory: the text of the report, the calls of observers, and advice
 * that follows from the cause. Nothing has changed afterwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/trace.h>

#include "tests/support/device.h"

static void
limit(size_t mib)
{
	EXPECT_OK(weir_limit_set(0, mib * MIB));
}

/* Fail to allocate, and return the report. */
static const char *
fail(size_t size, weir_stream stream)
{
	EXPECT_NO_MEMORY(weir_malloc(size, stream), WEIR_ENOMEM);
	return weir_last_error();
}

/* ---- The report -------------------------------------------------------- */

TEST(the_report_has_the_request_the_limit_and_the_held_bytes)
{
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	weir_stream use = new_stream();
	char text[64];

	limit(64);
	take(20 * MIB, a);
	void *pending = take(6 * MIB, a);
	void *idle = take(MIB + 512, b);
	take(MIB,
	    b); /* the report has the small pool apart from the large one */
	busy(use, LATE_MS);
	record(pending, use);
	give(pending);
	give(idle);
	const char *report = fail(44 * MIB + 1, a);
	EXPECT_STR_HAS(report, "CUDA out of memory. Tried to allocate ");
	EXPECT_STR_HAS(report,
	    "44.00 MiB (46137345 bytes, rounded to "
	    "46137856)");
	EXPECT_STR_HAS(report, "GPU 0 has a total capacity of ");
	EXPECT_STR_HAS(report, "64.00 MiB allowed");
	snprintf(text, sizeof(text), "of stream %p", (void *)a);
	EXPECT_STR_HAS(report, text);
	EXPECT_EQ(strchr(report, '\n') == NULL, true);
	expect_healthy();
}

TEST(the_report_has_the_tried_steps)
{
	weir_stream a = new_stream();

	conf("tcache:0");
	limit(64);
	take(60 * MIB, a);
	const char *report = fail(20 * MIB, a);
	EXPECT_STR_HAS(report,
	    "Tried: ready run, cached, polled, wait, moved, grown, "
	    "unrounded, all caches, any wait, given back. ");
}

TEST(the_report_says_where_the_memory_is)
{
	weir_stream use = new_stream();
	weir_stream b = new_stream();
	void *block[3];

	EXPECT_OK(weir_set_device(0));
	limit(64);
	take(20 * MIB, NULL);
	/* The pending block cannot be waited for: its user is captured. */
	void *pending = take(6 * MIB, NULL);
	record(pending, use);
	for (int i = 0; i < 3; i++)
		block[i] = take(3 * MIB, b);
	EXPECT_EQ(device_driver()->cuStreamBeginCapture(
		      use, CU_STREAM_CAPTURE_MODE_RELAXED),
	    CUDA_SUCCESS);
	give(pending);
	give(block[1]);
	const char *report = fail(44 * MIB, NULL);
	EXPECT_STR_HAS(report, "held by weir 26.00 MiB is allocated");
	EXPECT_STR_HAS(report, "6.00 MiB waits for other streams");
	EXPECT_STR_HAS(report,
	    "largest unused block: 0 bytes of the legacy default stream, ");
	EXPECT_STR_HAS(report, "MiB of no stream"); /* it is complete */
	EXPECT_STR_HAS(report, "0 bytes of other streams");
	expect_healthy();
}

TEST(memory_of_no_stream_is_named_once)
{
	limit(64);
	take(60 * MIB, WEIR_STREAM_ANY);
	const char *report = fail(20 * MIB, WEIR_STREAM_ANY);
	EXPECT_STR_HAS(report,
	    "largest unused block: 0 bytes of no stream, 0 bytes of other ");
	EXPECT_NULL(strstr(report, "0xffff"));
	expect_healthy();
}

TEST(without_a_limit_none_is_reported)
{
	take(512, NULL);
	const char *report = fail(device_total(0), NULL);

	EXPECT_STR_HAS(report, "CUDA out of memory. Tried to allocate ");
	EXPECT(strstr(report, "allowed") == NULL);
}

TEST(other_processes_on_the_device_are_reported_if_visible)
{
	setenv("SIMCUDA_CONF", "processes:2,process_mb:512", 1);
	device_need_sim("no other process can be relied on");
	const char *report = fail((size_t)1 << 40, NULL);

	EXPECT_STR_HAS(report, "Process ");
	EXPECT_STR_HAS(report, "has 512.00 MiB in use. ");
}

/* ---- Advice ------------------------------------------------------------ */

TEST(advice_a_request_larger_than_the_device)
{
	EXPECT_STR_HAS(fail(device_total(0) + 1, NULL),
	    "The request is larger than the device.");
}

TEST(advice_the_limit_is_the_cause)
{
	limit(32);
	take(20 * MIB, NULL);
	EXPECT_STR_HAS(fail(16 * MIB, NULL), "The limit is the cause");
	EXPECT_STR_HAS(weir_last_error(), "per_process_memory_fraction");
	EXPECT_STR_HAS(weir_last_error(), "weir_limit_set()");
}

TEST(advice_the_limit_was_set_below_what_is_live)
{
	take(40 * MIB, NULL);
	limit(32);
	EXPECT_STR_HAS(fail(16 * MIB, NULL), "The limit is the cause");
}

TEST(advice_memory_scattered_in_segments_of_the_driver)
{
	void *block[18];

	conf("expandable_segments:False");
	limit(60);
	for (int i = 0; i < 18; i++)
		block[i] = take(3 * MIB, NULL);
	for (int i = 0; i < 18; i += 2)
		give(block[i]);
	EXPECT_STR_HAS(fail(10 * MIB, NULL),
	    "scattered in segments of the driver, which cannot");
	EXPECT_STR_HAS(weir_last_error(), "'weir advise SNAPSHOT'");
	expect_healthy();
}

TEST(advice_memory_in_pieces_between_live_blocks)
{
	void *block[42];

	limit(64);
	for (int i = 0; i < 42; i++)
		block[i] = take(MIB + MIB / 2, NULL);
	for (int i = 0; i < 42; i += 2)
		give(block[i]);
	EXPECT_STR_HAS(fail(8 * MIB, NULL),
	    "are unused but lie in pieces between live blocks");
	EXPECT_STR_HAS(weir_last_error(), "'weir advise SNAPSHOT'");
	EXPECT(strstr(weir_last_error(), "expandable") == NULL);
	expect_healthy();
}

TEST(advice_memory_that_waits_for_a_capture)
{
	weir_stream use = new_stream();
	void *pending = take(40 * MIB, NULL);

	limit(64);
	EXPECT_OK(weir_set_device(0));
	record(pending, use);
	EXPECT_EQ(device_driver()->cuStreamBeginCapture(
		      use, CU_STREAM_CAPTURE_MODE_RELAXED),
	    CUDA_SUCCESS);
	give(pending);
	EXPECT_STR_HAS(fail(32 * MIB, NULL),
	    "Freed memory waits for work on other streams");
	expect_healthy();
}

TEST(advice_the_device_is_held_by_others)
{
	CUdeviceptr others = 0;
	size_t room = (size_t)512 * MIB;

	EXPECT_OK(weir_set_device(0));
	take(512, NULL);
	EXPECT_EQ(
	    device_driver()->cuMemAlloc(&others, device_free_bytes(0) - room),
	    CUDA_SUCCESS);
	EXPECT_STR_HAS(
	    fail(2 * room, NULL), "Most of the device is held by others.");
	give(take(room / 2, NULL));
	EXPECT_EQ(device_driver()->cuMemFree(others), CUDA_SUCCESS);
	give(take(2 * room, NULL));
	expect_healthy();
}

/* ---- Observers --------------------------------------------------------- */

struct seen {
	unsigned calls;
	struct weir_oom oom;
	char report[2048];
};

static void
observe(const struct weir_oom *oom, void *user)
{
	struct seen *seen = user;

	seen->calls++;
	seen->oom = *oom;
	snprintf(seen->report, sizeof(seen->report), "%s", oom->report);
}

TEST(observers_get_the_exact_request_and_memory)
{
	struct seen seen = { 0 };
	weir_stream stream = new_stream();

	limit(64);
	take(20 * MIB, stream);
	give(take(3 * MIB, stream));
	EXPECT_OK(weir_oom_observer_add(observe, &seen));
	EXPECT_NO_MEMORY(weir_malloc(50 * MIB + 1, stream), WEIR_ENOMEM);
	EXPECT_EQ(seen.calls, 1);
	EXPECT_EQ(seen.oom.struct_size, sizeof(struct weir_oom));
	EXPECT_EQ(seen.oom.device, 0);
	EXPECT_EQ(seen.oom.stream, stream);
	EXPECT_EQ(seen.oom.requested_bytes, 50 * MIB + 1);
	EXPECT_EQ(seen.oom.rounded_bytes, 50 * MIB + 512);
	EXPECT_EQ(seen.oom.limit_bytes, 64 * MIB);
	EXPECT_EQ(seen.oom.reserved_bytes, stats().reserved_bytes.all.current);
	EXPECT_EQ(seen.oom.allocated_bytes, 20 * MIB);
	EXPECT_EQ(seen.oom.pending_bytes, 0);
	EXPECT_EQ(seen.oom.device_free_bytes, device_free_bytes(0));
	EXPECT_STR_EQ(seen.report, weir_last_error());
	EXPECT_OK(weir_oom_observer_remove(observe, &seen));
	EXPECT_NO_MEMORY(weir_malloc(50 * MIB, stream), WEIR_ENOMEM);
	EXPECT_EQ(seen.calls, 1);
}

TEST(without_a_limit_observers_get_the_device_s_total)
{
	struct seen seen = { 0 };

	EXPECT_OK(weir_oom_observer_add(observe, &seen));
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 45, NULL), WEIR_ENOMEM);
	EXPECT_EQ(seen.oom.limit_bytes, device_total(0));
	EXPECT_EQ(seen.oom.requested_bytes, (size_t)1 << 45);
}

TEST(observers_are_not_called_for_requests_that_are_met_or_refused)
{
	struct seen seen = { 0 };
	weir_stream a = new_stream();

	EXPECT_OK(weir_oom_observer_add(observe, &seen));
	limit(16);
	give(take(16 * MIB, a));
	give(take(16 * MIB, NULL)); /* after reclaiming */
	weir_malloc(0, NULL);
	weir_malloc(SIZE_MAX, NULL);
	EXPECT_EQ(seen.calls, 0);
}

/* Whatever an observer does, the last error is that of the request. */
static void
misbehave(const struct weir_oom *oom, void *user)
{
	void **block = user;

	EXPECT_STATUS(weir_free(&oom), WEIR_EINVAL);
	give(*block);
	*block = take(512, NULL);
	EXPECT_OK(weir_trim(0, 0, NULL));
	EXPECT_EQ(weir_check(NULL, 0), 0);
}

TEST(observers_may_call_weir_and_the_request_s_error_stays_the_last)
{
	void *block = take(8 * MIB, NULL);

	limit(16);
	EXPECT_OK(weir_oom_observer_add(misbehave, &block));
	EXPECT_STR_HAS(fail(16 * MIB, NULL), "CUDA out of memory");
	EXPECT_EQ(info_of(block).requested_bytes, 512);
	expect_healthy();
}

/* ---- Afterwards -------------------------------------------------------- */

TEST(memory_and_work_go_on_after_a_failure)
{
	void *ptr = take(4 * MIB, NULL);

	fill(ptr, 4 * MIB, 1, NULL);
	fail((size_t)1 << 45, NULL);
	expect_filled(ptr, 4 * MIB, 1, NULL);
	fill(ptr, 4 * MIB, 2, NULL);
	expect_filled(ptr, 4 * MIB, 2, NULL);
	void *other = take(30 * MIB, NULL);
	fill(other, 30 * MIB, 3, NULL);
	expect_filled(other, 30 * MIB, 3, NULL);
	expect_healthy();
}
