/*
 * simcuda finds races: two operations that access a byte, at least one of them
 * a write, in no order that the program made. It finds none where the program
 * made an order.
 */
#include "tests/support/cuda.h"

enum { WORDS = 1024, BYTES = WORDS * 4, GRANULE = 2 << 20 };

static CUstream a, b;
static CUdeviceptr memory;

/* Two streams and some memory on the simulated device. */
static void
begin(void)
{
	if (sim() == NULL)
		SKIP("a GPU does not tell races");
	cuda_begin();
	a = cuda_stream();
	b = cuda_stream();
	memory = cuda_alloc(4 * BYTES);
}

/* All work is done, and this many races were found. */
static void
expect_violations(unsigned n)
{
	CU(cu.cuCtxSynchronize());
	if (sim()->violations() != n)
		FAIL("%u violations, not %u; the first: %s",
		    sim()->violations(), n,
		    sim()->violations() > 0 ? sim()->violation_text(0) : "");
}

TEST(the_host_does_not_race_with_work_that_it_has_waited_for)
{
	begin();
	void *host = NULL;
	CUevent event = cuda_event();

	CU(cu.cuMemHostAlloc(&host, BYTES, 0));
	sim()->host_touch(host, BYTES, 1);
	CU(cu.cuMemcpyHtoDAsync_v2(memory, host, BYTES, a));
	sim()->host_touch(host, BYTES, 0); /* both read */
	CU(cu.cuStreamSynchronize(a));
	sim()->host_touch(host, BYTES, 1);
	CU(cu.cuMemcpyHtoDAsync_v2(memory, host, BYTES, b));
	CU(cu.cuEventRecord(event, b));
	CU(cu.cuEventSynchronize(event));
	sim()->host_touch(host, BYTES, 1);
	cuda_order(b, a);
	CU(cu.cuMemcpyHtoDAsync_v2(memory, host, BYTES, a));
	sim()->host_touch(&event, sizeof(event), 1); /* is not watched */
	expect_violations(0);
}

/* ---- There are races ---------------------------------------------------- */

TEST(two_streams_that_write_the_same_bytes_race)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	cuda_fill(b, memory + BYTES / 2, 2, WORDS);
	expect_violations(1);
	EXPECT_STR_HAS(sim()->violation_text(0), "race: weir_fill_u32");
	EXPECT_STR_HAS(sim()->violation_text(0), "nothing orders the two");
	EXPECT_NULL(sim()->violation_text(1));
}

TEST(a_write_races_with_a_read_before_it)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	cuda_order(a, b);
	cuda_copy(a, memory + BYTES, memory, WORDS);
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(1);
}

TEST(a_read_races_with_a_write_before_it)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	cuda_copy(b, memory + BYTES, memory, WORDS);
	expect_violations(1);
}

TEST(that_work_is_done_in_time_is_no_order)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	sim()->finish();
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(1);
}

TEST(a_record_before_the_work_does_not_order_it)
{
	begin();
	cuda_order(a, b);
	cuda_fill(a, memory, 1, WORDS);
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(1);
}

TEST(an_order_of_other_streams_does_not_help)
{
	begin();
	CUstream c = cuda_stream();

	cuda_fill(a, memory, 1, WORDS);
	cuda_order(c, b);
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(1);
}

TEST(a_later_record_replaces_the_one_waited_for)
{
	begin();
	CUevent event = cuda_event();

	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuEventRecord(event, a));
	CU(cu.cuEventRecord(event, b));
	CU(cu.cuStreamWaitEvent(b, event, 0));
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(1);
}

TEST(one_byte_in_common_is_enough)
{
	begin();
	CU(cu.cuMemsetD8Async(memory, 1, 100, a));
	CU(cu.cuMemsetD8Async(memory + 99, 2, 100, b));
	expect_violations(1);
}

TEST(memory_mapped_twice_is_one_memory)
{
	begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	CUdeviceptr first = cuda_map(handle, GRANULE);
	CUdeviceptr second = cuda_map(handle, GRANULE);

	cuda_fill(a, first, 1, WORDS);
	cuda_fill(b, second, 2, WORDS);
	expect_violations(1);
}

TEST(pinned_host_memory_is_watched_too)
{
	begin();
	void *host = NULL;

	CU(cu.cuMemHostAlloc(&host, BYTES, 0));
	CU(cu.cuMemcpyDtoHAsync_v2(host, memory, BYTES, a));
	CU(cu.cuMemcpyHtoDAsync_v2(memory + BYTES, host, BYTES, b));
	expect_violations(1);
}

TEST(the_host_races_with_a_copy_it_has_not_waited_for)
{
	begin();
	void *host = NULL;

	CU(cu.cuMemHostAlloc(&host, BYTES, 0));
	sim()->host_touch(host, BYTES, 1);
	CU(cu.cuMemcpyHtoDAsync_v2(memory, host, BYTES, a));
	sim()->host_touch(host, 1, 1);
	expect_violations(1);
	EXPECT_STR_HAS(sim()->violation_text(0), "the host");
}

TEST(the_host_races_with_a_copy_that_is_done_but_not_known_to_be)
{
	begin();
	void *host = NULL;

	CU(cu.cuMemHostAlloc(&host, BYTES, 0));
	CU(cu.cuMemcpyDtoHAsync_v2(host, memory, BYTES, a));
	sim()->finish();
	sim()->host_touch(host, BYTES, 0);
	expect_violations(1);
}

TEST(branches_of_a_graph_race)
{
	begin();
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;

	CU(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	cuda_order(a, b);
	cuda_fill(a, memory, 1, WORDS);
	cuda_fill(b, memory, 2, WORDS);
	cuda_order(b, a);
	CU(cu.cuStreamEndCapture(a, &graph));
	CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cu.cuGraphLaunch(exec, a));
	expect_violations(1);
}

TEST(a_non_blocking_stream_races_with_the_default_stream)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	cuda_fill(CU_STREAM_LEGACY, memory, 2, WORDS);
	expect_violations(1);
}

TEST(two_threads_default_streams_race_with_non_blocking_ones)
{
	begin();
	cuda_fill(CU_STREAM_PER_THREAD, memory, 1, WORDS);
	cuda_fill(a, memory, 2, WORDS);
	expect_violations(1);
}

TEST(work_of_a_stream_that_was_destroyed_still_races)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuStreamDestroy_v2(a));
	cuda_fill(cuda_stream(), memory, 2, WORDS);
	expect_violations(1);
}

/* ---- There are none ----------------------------------------------------- */

TEST(one_stream_is_in_order_with_itself)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	cuda_copy(a, memory + BYTES, memory, WORDS);
	cuda_fill(a, memory, 2, WORDS);
	expect_violations(0);
}

TEST(bytes_side_by_side_do_not_race)
{
	begin();
	CU(cu.cuMemsetD8Async(memory, 1, 99, a));
	CU(cu.cuMemsetD8Async(memory + 99, 2, 100, b));
	expect_violations(0);
}

TEST(two_reads_do_not_race)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	cuda_order(a, b);
	cuda_copy(a, memory + BYTES, memory, WORDS);
	cuda_copy(b, memory + 2 * BYTES, memory, WORDS);
	expect_violations(0);
}

TEST(atomic_counts_do_not_race_with_each_other)
{
	begin();
	uint32_t value = 1;
	uint64_t n = WORDS;
	CUdeviceptr count = memory + 2 * BYTES;
	void *params[] = { &memory, &value, &n, &count };

	cuda_fill(a, memory, 1, WORDS);
	cuda_fill(a, count, 0, 1);
	cuda_order(a, b);
	CU(cu.cuLaunchKernel(cuda_kernel("weir_check_u32"), 4, 1, 1, 128, 1, 1,
	    0, a, params, NULL));
	CU(cu.cuLaunchKernel(cuda_kernel("weir_check_u32"), 4, 1, 1, 128, 1, 1,
	    0, b, params, NULL));
	expect_violations(0);
	cuda_fill(a, count, 0, 1);
	CU(cu.cuLaunchKernel(cuda_kernel("weir_check_u32"), 4, 1, 1, 128, 1, 1,
	    0, b, params, NULL));
	expect_violations(1);
}

TEST(an_event_orders_two_streams)
{
	begin();
	cuda_sleep(a, CUDA_LONG_NS);
	cuda_fill(a, memory, 1, WORDS);
	cuda_order(a, b);
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(0);
	EXPECT_EQ(cuda_word(memory), 2);
}

TEST(order_passes_through_a_third_stream)
{
	begin();
	CUstream c = cuda_stream();

	cuda_fill(a, memory, 1, WORDS);
	cuda_order(a, c);
	cuda_order(c, b);
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(0);
}

/* Waits after a stream's last operation are passed on as well. */
TEST(order_passes_through_a_stream_that_only_waits)
{
	begin();
	CUstream c = cuda_stream();
	CUevent event = cuda_event();

	cuda_fill(c, memory + 2 * BYTES, 1, WORDS);
	CU(cu.cuEventRecord(event, c));
	CU(cu.cuStreamWaitEvent(b, event, 0));
	cuda_fill(a, memory, 1, WORDS);
	cuda_order(a, c);
	CU(cu.cuEventRecord(event, c));
	CU(cu.cuStreamWaitEvent(b, event, 0));
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(0);
}

TEST(a_host_that_waits_for_a_stream_orders_it)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuStreamSynchronize(a));
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(0);
}

TEST(a_host_that_waits_for_an_event_orders_it)
{
	begin();
	CUevent event = cuda_event();

	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuEventRecord(event, a));
	CU(cu.cuEventSynchronize(event));
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(0);
}

TEST(a_query_that_returns_done_orders_too)
{
	begin();
	CUevent event = cuda_event();

	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuEventRecord(event, a));
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	sim()->finish();
	CU(cu.cuEventQuery(event));
	cuda_fill(b, memory, 2, WORDS);
	cuda_fill(b, memory, 3, WORDS);
	sim()->finish();
	CU(cu.cuStreamQuery(b));
	cuda_fill(a, memory, 4, WORDS);
	expect_violations(0);
}

TEST(waiting_for_the_context_orders_all)
{
	begin();
	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuStreamDestroy_v2(a));
	CU(cu.cuCtxSynchronize());
	cuda_fill(b, memory, 2, WORDS);
	expect_violations(0);
}

TEST(an_event_of_the_context_orders_all_its_streams)
{
	begin();
	CUcontext context = NULL;
	CUevent event = cuda_event();
	CUstream c = cuda_stream();

	CU(cu.cuCtxGetCurrent(&context));
	cuda_fill(a, memory, 1, WORDS);
	cuda_fill(b, memory + BYTES, 1, WORDS);
	CU(cu.cuStreamDestroy_v2(b));
	CU(cu.cuCtxRecordEvent(context, event));
	CU(cu.cuStreamWaitEvent(c, event, 0));
	cuda_fill(c, memory, 2, 2 * WORDS);
	expect_violations(0);
}

TEST(the_default_stream_orders_blocking_streams)
{
	begin();
	CUstream c = cuda_blocking_stream();
	CUstream d = cuda_blocking_stream();

	cuda_fill(c, memory, 1, WORDS);
	cuda_fill(CU_STREAM_LEGACY, memory + 2 * BYTES, 2, WORDS);
	cuda_fill(d, memory, 3, WORDS);
	cuda_fill(CU_STREAM_PER_THREAD, memory + 2 * BYTES, 3, WORDS);
	expect_violations(0);
	cuda_fill(c, memory, 4, WORDS);
	cuda_fill(d, memory, 5, WORDS);
	expect_violations(1);
}

TEST(a_wait_for_a_value_orders_after_its_writer)
{
	begin();
	CUdeviceptr flag = memory + 2 * BYTES;

	CU(cu.cuMemsetD32_v2(flag, 0, 1));
	CU(cu.cuCtxSynchronize());
	CU(cu.cuStreamWaitValue32_v2(b, flag, 1, CU_STREAM_WAIT_VALUE_GEQ));
	cuda_fill(b, memory, 2, WORDS);
	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuStreamWriteValue32_v2(a, flag, 1, 0));
	expect_violations(0);
	EXPECT_EQ(cuda_word(memory), 2);
}

TEST(launches_of_one_graph_are_in_order_on_any_stream)
{
	begin();
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;

	CU(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuStreamEndCapture(a, &graph));
	CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cu.cuGraphLaunch(exec, a));
	CU(cu.cuGraphLaunch(exec, b));
	expect_violations(0);
	cuda_fill(a, memory, 3, WORDS);
	expect_violations(0);
}

TEST(memory_given_back_and_taken_again_has_no_past)
{
	begin();
	CUdeviceptr old = cuda_alloc(GRANULE);

	for (int i = 0; i < 3; i++) {
		CUdeviceptr fresh = cuda_alloc(GRANULE);

		cuda_fill(i % 2 == 0 ? a : b, fresh, 1, WORDS);
		CU(cu.cuMemFree_v2(fresh));
	}
	CU(cu.cuMemFree_v2(old));
	expect_violations(0);
}

/* Slots of streams that ended are reused; that must not hide a race. */
TEST(many_streams_after_each_other_are_distinguished)
{
	begin();
	CUdeviceptr big = cuda_alloc(64 * BYTES);

	for (int i = 0; i < 200; i++) {
		CUstream stream = cuda_stream();

		cuda_fill(stream, big, 1, WORDS);
		CU(cu.cuStreamSynchronize(stream));
		CU(cu.cuStreamDestroy_v2(stream));
	}
	expect_violations(0);
	for (int i = 0; i < 20; i++) {
		CUstream stream = cuda_stream();

		cuda_fill(stream, big, 1, WORDS);
		CU(cu.cuStreamDestroy_v2(stream));
	}
	expect_violations(19);
}

/* ---- Memory never written ----------------------------------------------- */

TEST(reading_unwritten_memory_is_reported_if_requested)
{
	if (sim() == NULL)
		SKIP("a GPU does not tell what was never written");
	cuda_begin_conf("uninitialized:1");
	CUstream stream = cuda_stream();
	CUdeviceptr from = cuda_alloc(BYTES), to = cuda_alloc(BYTES);

	cuda_fill(stream, from, 1, WORDS - 1);
	cuda_copy(stream, to, from, WORDS - 1);
	expect_violations(0);
	cuda_copy(stream, to, from, WORDS);
	expect_violations(1);
	EXPECT_STR_HAS(sim()->violation_text(0), "ever written");
}

/* ---- Many accesses ------------------------------------------------------ */

/* A plain model of the checker's state: the last writer of each word, by the
 * order of events that this test makes. */
TEST(pieces_of_all_sizes_are_kept_apart)
{
	begin();
	enum { PIECES = 64 };
	CUdeviceptr big = cuda_alloc((size_t)PIECES * 4);
	uint64_t state = 1;

	for (int round = 0; round < 2000; round++) {
		uint64_t start, n;

		state = state * 6364136223846793005u + 1442695040888963407u;
		start = (state >> 33) % PIECES;
		n = 1 + (state >> 45) % (PIECES - start);
		if ((state >> 60) % 2 == 0) {
			cuda_fill(a, big + start * 4, 1, n);
			cuda_order(a, b);
		} else {
			cuda_fill(b, big + start * 4, 2, n);
			cuda_order(b, a);
		}
	}
	expect_violations(0);
	cuda_fill(a, big + 4, 3, 1);
	for (uint32_t i = 0; i < PIECES; i++)
		cuda_fill(b, big + 4ull * i, 4, 1);
	expect_violations(1);
}
