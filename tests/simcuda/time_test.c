/*
 * Virtual time: durations are exact, nothing sleeps, and a test can move time,
 * delay an operation, and hold back events from the host.
 */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "tests/support/cuda.h"

enum { WORDS = 1024, LAUNCH_NS = 3000, MS = 1000000 };

static CUstream a, b;

static void
begin(void)
{
	if (sim() == NULL)
		SKIP("a GPU has no virtual time");
	cuda_begin_conf("call_ns:0,launch_ns:3000");
	a = cuda_stream();
	b = cuda_stream();
}

TEST(time_passes_only_when_something_makes_it)
{
	begin();
	uint64_t now = sim()->now_ns();

	CU(cu.cuStreamQuery(a));
	EXPECT_EQ(sim()->now_ns(), now);
	sim()->advance_ns(5);
	EXPECT_EQ(sim()->now_ns(), now + 5);
	sim()->advance_to_ns(now + 100);
	EXPECT_EQ(sim()->now_ns(), now + 100);
	sim()->advance_to_ns(now);
	EXPECT_EQ(sim()->now_ns(), now + 100);
}

TEST(a_call_takes_its_time)
{
	int n;

	if (sim() == NULL)
		SKIP("a GPU has no virtual time");
	cuda_begin_conf("call_ns:70");
	uint64_t now = sim()->now_ns();

	for (int i = 0; i < 10; i++)
		CU(cu.cuDeviceGetCount(&n));
	EXPECT_EQ(sim()->now_ns(), now + 700);
}

TEST(a_wait_lasts_as_long_as_the_work)
{
	begin();
	uint64_t now = sim()->now_ns();

	cuda_sleep(a, 50 * MS);
	cuda_sleep(a, 50 * MS);
	cuda_sleep(b, 70 * MS);
	CU(cu.cuStreamSynchronize(b));
	EXPECT_EQ(sim()->now_ns(), now + LAUNCH_NS + 70 * MS);
	CU(cu.cuStreamSynchronize(a));
	EXPECT_EQ(sim()->now_ns(), now + LAUNCH_NS + 100 * MS);
}

TEST(a_wait_costs_no_real_time)
{
	struct timespec start, end;

	begin();
	clock_gettime(CLOCK_MONOTONIC, &start);
	cuda_sleep(a, 3600000000000);
	CU(cu.cuStreamSynchronize(a));
	clock_gettime(CLOCK_MONOTONIC, &end);
	EXPECT_LT(end.tv_sec - start.tv_sec, 600);
}

TEST(work_is_done_when_its_time_has_come_and_not_before)
{
	begin();
	uint32_t *host = NULL;

	CU(cu.cuMemHostAlloc((void **)&host, 4, 0));
	*host = 0;
	cuda_sleep(a, MS);
	cuda_fill(a, (CUdeviceptr)(uintptr_t)host, 1, 1);
	uint64_t now = sim()->now_ns();
	sim()->advance_to_ns(now + LAUNCH_NS + MS);
	EXPECT_EQ(*host, 0);
	sim()->advance_ns(1);
	EXPECT_EQ(*host, 1);
}

TEST(operations_of_several_streams_are_done_in_order_of_time)
{
	begin();
	uint32_t *host = NULL;
	CUdeviceptr word;

	CU(cu.cuMemHostAlloc((void **)&host, 4, 0));
	word = (CUdeviceptr)(uintptr_t)host;
	cuda_sleep(a, 10 * MS);
	cuda_fill(a, word, 1, 1);
	cuda_sleep(b, 5 * MS);
	cuda_fill(b, word, 2, 1);
	sim()->advance_ns(7 * MS);
	EXPECT_EQ(*host, 2);
	sim()->advance_ns(7 * MS);
	EXPECT_EQ(*host, 1);
}

TEST(bytes_take_time_by_the_bandwidth)
{
	if (sim() == NULL)
		SKIP("a GPU has no virtual time");
	cuda_begin_conf("call_ns:0,launch_ns:0,device_gbps:1000,host_gbps:10");
	CUdeviceptr memory = cuda_alloc(2 << 20);
	CUstream stream = cuda_stream();
	void *host = NULL;

	CU(cu.cuMemHostAlloc(&host, 1 << 20, 0));
	uint64_t now = sim()->now_ns();
	CU(cu.cuMemcpyDtoDAsync_v2(
	    memory, memory + (1 << 20), 1 << 20, stream));
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(sim()->now_ns(), now + (1 << 20) / 1000 + 1);
	now = sim()->now_ns();
	CU(cu.cuMemcpyHtoDAsync_v2(memory, host, 1 << 20, stream));
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(sim()->now_ns(), now + (1 << 20) / 10 + 1);
}

TEST(polling_makes_time_pass)
{
	if (sim() == NULL)
		SKIP("a GPU has no virtual time");
	cuda_begin();
	CUevent event = cuda_event();
	CUstream stream = cuda_stream();
	unsigned polls = 0;

	cuda_sleep(stream, MS);
	CU(cu.cuEventRecord(event, stream));
	while (cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		polls++;
	EXPECT_GT(polls, 1000);
	EXPECT_LT(polls, 20000);
}

TEST(the_same_program_takes_the_same_time)
{
	begin();
	uint64_t took[2];

	for (int i = 0; i < 2; i++) {
		uint64_t start = sim()->now_ns();

		for (unsigned j = 0; j < 100; j++) {
			CUevent event = cuda_event();

			cuda_sleep(j % 2 ? a : b, j * 1000);
			CU(cu.cuEventRecord(event, j % 2 ? a : b));
			CU(cu.cuStreamWaitEvent(j % 2 ? b : a, event, 0));
			CU(cu.cuEventDestroy_v2(event));
		}
		CU(cu.cuCtxSynchronize());
		took[i] = sim()->now_ns() - start;
	}
	EXPECT_EQ(took[0], took[1]);
}

/* ---- Delays ------------------------------------------------------------- */

TEST(one_operation_is_delayed)
{
	begin();
	uint64_t now = sim()->now_ns();

	EXPECT_CU(sim()->delay_next(a, 7 * MS), CUDA_SUCCESS);
	cuda_sleep(a, MS);
	cuda_sleep(a, MS);
	CU(cu.cuStreamSynchronize(a));
	EXPECT_EQ(sim()->now_ns(), now + LAUNCH_NS + 9 * MS);
	EXPECT_CU(sim()->delay_next((CUstream)(uintptr_t)4096, 1),
	    CUDA_ERROR_INVALID_HANDLE);
}

TEST(an_event_is_seen_late_by_the_host_only)
{
	begin();
	CUevent event = cuda_event();
	CUdeviceptr memory = cuda_alloc(4096);
	uint32_t *host = NULL;

	CU(cu.cuMemHostAlloc((void **)&host, 4, 0));
	*host = 0;
	EXPECT_CU(sim()->hold_event(event, 5 * MS), CUDA_SUCCESS);
	cuda_fill(a, memory, 9, 1);
	CU(cu.cuEventRecord(event, a));
	CU(cu.cuStreamWaitEvent(b, event, 0));
	cuda_copy(b, (CUdeviceptr)(uintptr_t)host, memory, 1);
	sim()->advance_ns(MS);
	EXPECT_EQ(*host, 9);
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	sim()->advance_ns(5 * MS);
	CU(cu.cuEventQuery(event));
	/* Only once. */
	CU(cu.cuEventRecord(event, a));
	sim()->advance_ns(10);
	CU(cu.cuEventQuery(event));
}

TEST(a_stream_that_was_waited_for_has_no_event_left_unseen)
{
	begin();
	CUevent event = cuda_event();

	EXPECT_CU(sim()->hold_event(event, 5 * MS), CUDA_SUCCESS);
	CU(cu.cuEventRecord(event, a));
	CU(cu.cuStreamSynchronize(a));
	CU(cu.cuEventQuery(event));
}

TEST(held_events_are_seen_out_of_order)
{
	begin();
	enum { EVENTS = 64 };
	CUevent events[EVENTS];
	unsigned out_of_order = 0;

	sim()->hold_events(1, 10 * MS);
	for (int i = 0; i < EVENTS; i++) {
		events[i] = cuda_event();
		cuda_sleep(a, 1000);
		CU(cu.cuEventRecord(events[i], a));
	}
	sim()->advance_ns(5 * MS);
	for (int i = 1; i < EVENTS; i++)
		out_of_order += cu.cuEventQuery(events[i]) == CUDA_SUCCESS &&
		    cu.cuEventQuery(events[i - 1]) == CUDA_ERROR_NOT_READY;
	EXPECT_GT(out_of_order, 0);
	sim()->hold_events(0, 0);
	CU(cu.cuStreamSynchronize(a));
	for (int i = 0; i < EVENTS; i++)
		CU(cu.cuEventQuery(events[i]));
}

TEST(finishing_is_no_waiting)
{
	begin();
	CUevent event = cuda_event();
	CUdeviceptr memory = cuda_alloc(4096);

	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuEventRecord(event, a));
	sim()->finish();
	cuda_fill(b, memory, 1, WORDS);
	CU(cu.cuCtxSynchronize());
	EXPECT_EQ(sim()->violations(), 1);
}

/* ---- Host functions ----------------------------------------------------- */

static void
add_one(void *data)
{
	__atomic_add_fetch((int *)data, 1, __ATOMIC_RELAXED);
}

/* On a GPU they run on a thread of the driver. So a call that only queries must
 * not run them on the caller's thread, which may hold a lock that they take. */
TEST(host_functions_do_not_run_under_calls_that_only_ask)
{
	if (sim() == NULL)
		SKIP("a GPU has no virtual time");
	cuda_begin_conf("call_ns:1000000");
	CUstream stream = cuda_stream();
	CUdevice device;
	int runs = 0;

	CU(cu.cuLaunchHostFunc(stream, add_one, &runs));
	for (int i = 0; i < 10; i++)
		CU(cu.cuCtxGetDevice(&device));
	EXPECT_EQ(runs, 0);
	EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	CU(cu.cuStreamSynchronize(stream));
	EXPECT_EQ(runs, 1);
	CU(cu.cuLaunchHostFunc(stream, add_one, &runs));
	sim()->advance_ns(MS);
	EXPECT_EQ(runs, 2);
}

TEST(polling_alone_gets_past_a_host_function)
{
	if (sim() == NULL)
		SKIP("a GPU has no virtual time");
	cuda_begin();
	CUstream stream = cuda_stream();
	CUevent event = cuda_event();
	int runs = 0;

	CU(cu.cuLaunchHostFunc(stream, add_one, &runs));
	CU(cu.cuEventRecord(event, stream));
	while (cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		;
	EXPECT_EQ(__atomic_load_n(&runs, __ATOMIC_RELAXED), 1);
}

struct slow_call {
	int begun;
	int may_end;
	int ended;
};

static void
run_slowly(void *data)
{
	struct slow_call *call = data;

	__atomic_store_n(&call->begun, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&call->may_end, __ATOMIC_ACQUIRE) == 0)
		sched_yield();
	__atomic_store_n(&call->ended, 1, __ATOMIC_RELEASE);
}

TEST(nothing_after_a_host_function_is_done_while_it_runs)
{
	if (sim() == NULL)
		SKIP("a GPU has no virtual time");
	cuda_begin();
	CUstream stream = cuda_stream();
	CUevent event = cuda_event();
	struct slow_call call = { 0 };

	CU(cu.cuLaunchHostFunc(stream, run_slowly, &call));
	CU(cu.cuEventRecord(event, stream));
	while (__atomic_load_n(&call.begun, __ATOMIC_ACQUIRE) == 0)
		EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	for (int i = 0; i < 100; i++) {
		EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
		EXPECT_CU(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	}
	__atomic_store_n(&call.may_end, 1, __ATOMIC_RELEASE);
	while (cu.cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		;
	EXPECT_EQ(call.ended, 1);
}

/* ---- Values ------------------------------------------------------------- */

static void *
write_flag(void *flag)
{
	struct timespec pause = { 0, 20000000 };

	nanosleep(&pause, NULL);
	__atomic_store_n((uint32_t *)flag, 1, __ATOMIC_RELEASE);
	return NULL;
}

TEST(a_stream_waits_for_a_value_the_host_writes)
{
	begin();
	uint32_t *host = NULL;
	CUdeviceptr flag;
	pthread_t thread;

	CU(cu.cuMemHostAlloc((void **)&host, 4096, 0));
	host[0] = 0;
	flag = (CUdeviceptr)(uintptr_t)host;
	CU(cu.cuStreamWaitValue32_v2(a, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	cuda_fill(a, flag + 64, 7, 1);
	sim()->advance_ns(MS);
	EXPECT_CU(cu.cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	EXPECT_EQ(pthread_create(&thread, NULL, write_flag, host), 0);
	CU(cu.cuStreamSynchronize(a));
	pthread_join(thread, NULL);
	EXPECT_EQ(host[16], 7);
	EXPECT_EQ(sim()->violations(), 0);
}

/* Every operation of a stream can be queued behind such a wait. */
TEST(all_kinds_of_work_follow_a_value)
{
	begin();
	CUdeviceptr memory = cuda_alloc(16384), flag = memory + 8192;
	CUdeviceptr pooled = 0;
	CUevent event = cuda_event();
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	int runs = 0;

	CU(cu.cuMemsetD32_v2(flag, 0, 1));
	CU(cu.cuCtxSynchronize());
	CU(cu.cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_RELAXED));
	cuda_fill(b, memory, 2, WORDS);
	CU(cu.cuStreamEndCapture(b, &graph));
	CU(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
	CU(cu.cuStreamWaitValue32_v2(a, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
	cuda_fill(a, memory, 1, WORDS);
	CU(cu.cuGraphLaunch(exec, a));
	CU(cu.cuLaunchHostFunc(a, add_one, &runs));
	CU(cu.cuMemAllocAsync(&pooled, 4096, a));
	cuda_copy(a, pooled, memory, WORDS);
	CU(cu.cuEventRecord(event, a));
	CU(cu.cuStreamWaitEvent(b, event, 0));
	cuda_copy(b, memory + 4096, pooled, WORDS);
	CU(cu.cuEventRecord(event, b));
	CU(cu.cuStreamWaitEvent(a, event, 0));
	CU(cu.cuMemFreeAsync(pooled, a));
	EXPECT_CU(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
	sim()->advance_ns(MS);
	EXPECT_EQ(runs, 0);
	CU(cu.cuStreamWriteValue32_v2(cuda_stream(), flag, 1, 0));
	EXPECT_EQ(cuda_word(memory + 4096), 2);
	EXPECT_EQ(runs, 1);
	EXPECT_EQ(sim()->violations(), 0);
}
