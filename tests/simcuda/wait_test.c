/*
 * simcuda reports how long events kept streams waiting: exactly, and only the
 * time that the events delayed.
 */
#include "tests/support/cuda.h"

enum { LAUNCH_NS = 3000, MS = 1000000 };

static CUstream a, b;

static void
begin(void)
{
	if (sim() == NULL)
		SKIP("a GPU does not tell how long its streams wait");
	cuda_begin_conf("call_ns:0,launch_ns:3000");
	a = cuda_stream();
	b = cuda_stream();
}

TEST(an_idle_stream_waits_until_the_event)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_order(a, b);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), LAUNCH_NS + 10 * MS);
}

TEST(the_stream_s_own_work_is_no_waiting)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_sleep(b, 7 * MS);
	cuda_order(a, b);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), 3 * MS);
}

TEST(a_stream_that_is_busy_for_longer_does_not_wait)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_sleep(b, 12 * MS);
	cuda_order(a, b);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), 0);
}

TEST(a_wait_begins_when_it_is_submitted)
{
	begin();
	cuda_sleep(a, 10 * MS);
	sim()->advance_ns(LAUNCH_NS + 4 * MS);
	cuda_order(a, b);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), 6 * MS);
}

TEST(an_event_that_has_happened_delays_nothing)
{
	begin();
	cuda_sleep(a, MS);
	CU(cu.cuCtxSynchronize());
	cuda_order(a, b);
	/* An event that was never recorded does not either. */
	CU(cu.cuStreamWaitEvent(b, cuda_event(), 0));
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), 0);
}

TEST(work_behind_a_wait_is_not_counted_twice)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_order(a, b);
	cuda_order(a, b);
	cuda_sleep(b, 5 * MS);
	cuda_order(a, b);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), LAUNCH_NS + 10 * MS);
}

TEST(waits_of_all_streams_add_up)
{
	begin();
	CUstream c = cuda_stream();

	cuda_sleep(a, 10 * MS);
	cuda_order(a, b);
	cuda_order(a, c);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), 2 * (LAUNCH_NS + 10 * MS));
}

TEST(waits_may_be_left_out)
{
	begin();
	cuda_sleep(a, 10 * MS);
	sim()->count_waits(0);
	cuda_order(a, b);
	sim()->count_waits(1);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), 0);
	/* One that counts after one that does not: only the rest counts. */
	cuda_sleep(a, 10 * MS);
	sim()->count_waits(0);
	cuda_order(a, b);
	sim()->count_waits(1);
	cuda_sleep(a, 5 * MS);
	cuda_order(a, b);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), 5 * MS);
}

/* The time of a wait is known only after the next operation. */
TEST(waits_for_events_without_a_time_are_counted_when_they_have_one)
{
	begin();
	CUdeviceptr flag = cuda_alloc(512);
	CUstream c = cuda_stream();
	uint64_t now;

	CU(cu.cuMemsetD32_v2(flag, 0, 1));
	CU(cu.cuCtxSynchronize());
	now = sim()->now_ns();
	CU(cu.cuStreamWaitValue32_v2(a, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	/* b is blocked by the event, c by its own wait first. */
	cuda_sleep(b, MS);
	cuda_order(a, b);
	CU(cu.cuStreamWaitValue32_v2(c, flag, 2, CU_STREAM_WAIT_VALUE_EQ));
	cuda_order(a, c);
	sim()->advance_to_ns(now + 20 * MS);
	EXPECT_EQ(sim()->wait_ns(), 0);
	CU(cu.cuStreamWriteValue32_v2(cuda_stream(), flag, 1, 0));
	sim()->advance_to_ns(now + 40 * MS);
	/* The write took its launch; b has waited since its own work ended. */
	EXPECT_GE(sim()->wait_ns(), 19 * MS - LAUNCH_NS);
	EXPECT_LE(sim()->wait_ns(), 19 * MS + LAUNCH_NS);
	now = sim()->wait_ns();
	CU(cu.cuStreamWriteValue32_v2(cuda_stream(), flag, 2, 0));
	CU(cu.cuCtxSynchronize());
	/* c reached its wait long after the event. */
	EXPECT_EQ(sim()->wait_ns(), now);
}

TEST(a_deferred_wait_counts_from_its_turn)
{
	begin();
	CUdeviceptr flag = cuda_alloc(512);

	CU(cu.cuMemsetD32_v2(flag, 0, 1));
	CU(cu.cuCtxSynchronize());
	uint64_t start = sim()->now_ns();
	CU(cu.cuStreamWaitValue32_v2(b, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	cuda_sleep(a, 50 * MS);
	cuda_order(a, b);
	sim()->advance_to_ns(start + 20 * MS);
	CU(cu.cuStreamWriteValue32_v2(cuda_stream(), flag, 1, 0));
	CU(cu.cuCtxSynchronize());
	/* Blocked by the value for 20 ms, by the event for the other 30. */
	EXPECT_GE(sim()->wait_ns(), 30 * MS - LAUNCH_NS);
	EXPECT_LE(sim()->wait_ns(), 30 * MS + LAUNCH_NS);
}

TEST(default_streams_order_themselves_without_being_counted)
{
	begin();
	CUstream blocking = cuda_blocking_stream();

	cuda_sleep(blocking, 10 * MS);
	cuda_sleep(CU_STREAM_LEGACY, MS);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->wait_ns(), 0);
}

TEST(a_reset_forgets_earlier_waits)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_order(a, b);
	EXPECT_GT(sim()->wait_ns(), 0);
	sim()->reset();
	EXPECT_EQ(sim()->wait_ns(), 0);
}

/* ---- Delays ------------------------------------------------------------- */

TEST(a_wait_that_nothing_follows_delays_nothing)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_order(a, b);
	CU(cu.cuCtxSynchronize());
	EXPECT_GT(sim()->wait_ns(), 0);
	EXPECT_EQ(sim()->delayed_ns(), 0);
}

TEST(work_behind_a_wait_is_delayed_once)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_order(a, b);
	cuda_sleep(b, MS);
	cuda_sleep(b, MS);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->delayed_ns(), 10 * MS);
}

TEST(work_before_a_wait_makes_the_delay_smaller)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_sleep(b, 7 * MS);
	cuda_order(a, b);
	cuda_sleep(b, MS);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->delayed_ns(), 3 * MS);
}

TEST(work_that_comes_after_the_event_is_not_delayed)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_order(a, b);
	sim()->advance_ns(20 * MS);
	cuda_sleep(b, MS);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->delayed_ns(), 0);
}

TEST(a_stream_that_catches_up_can_be_delayed_again)
{
	begin();
	for (int i = 0; i < 2; i++) {
		cuda_sleep(a, 10 * MS);
		cuda_order(a, b);
		cuda_sleep(b, MS);
		CU(cu.cuCtxSynchronize());
	}
	EXPECT_EQ(sim()->delayed_ns(), 20 * MS);
}

TEST(a_wait_that_the_program_makes_too_is_no_delay)
{
	begin();
	CUstream c = cuda_stream();

	cuda_sleep(a, 10 * MS);
	cuda_sleep(c, 6 * MS);
	/* Before it and after it; b could have gone on at 8 ms. */
	sim()->count_waits(0);
	cuda_order(c, b);
	sim()->count_waits(1);
	cuda_order(a, b);
	cuda_sleep(c, 2 * MS);
	sim()->count_waits(0);
	cuda_order(c, b);
	sim()->count_waits(1);
	cuda_sleep(b, MS);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->delayed_ns(), 2 * MS);
}

TEST(a_delay_counts_where_it_arises)
{
	begin();
	CUstream c = cuda_stream();

	cuda_sleep(a, 10 * MS);
	cuda_order(a, b);
	cuda_sleep(b, MS);
	sim()->count_waits(0);
	cuda_order(b, c);
	sim()->count_waits(1);
	cuda_sleep(c, MS);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->delayed_ns(), 10 * MS);
}

TEST(a_wait_without_a_time_delays_work_when_it_has_one)
{
	begin();
	CUdeviceptr flag = cuda_alloc(512);

	CU(cu.cuMemsetD32_v2(flag, 0, 1));
	CU(cu.cuCtxSynchronize());
	uint64_t start = sim()->now_ns();
	CU(cu.cuStreamWaitValue32_v2(a, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	cuda_order(a, b);
	cuda_sleep(b, MS);
	sim()->advance_to_ns(start + 20 * MS);
	EXPECT_EQ(sim()->delayed_ns(), 0);
	CU(cu.cuStreamWriteValue32_v2(cuda_stream(), flag, 1, 0));
	CU(cu.cuCtxSynchronize());
	EXPECT_GE(sim()->delayed_ns(), 20 * MS - 2 * LAUNCH_NS);
	EXPECT_LE(sim()->delayed_ns(), 20 * MS + 2 * LAUNCH_NS);
}

TEST(a_reset_forgets_delays)
{
	begin();
	cuda_sleep(a, 10 * MS);
	cuda_order(a, b);
	cuda_sleep(b, MS);
	EXPECT_GT(sim()->delayed_ns(), 0);
	sim()->reset();
	EXPECT_EQ(sim()->delayed_ns(), 0);
}
