/*
 * Forks and exits: a forked child has no GPU and says so, a process that ends
 * may still call weir, and neither hangs nor crashes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/device.h"

/* Run a body in a child, which leaves by exit() if it returns; 0 if all was
 * right. A child that hangs ends with the test, at the test's time limit. */
static int
in_child(void (*body)(void *), void *arg)
{
	int status = 0;
	pid_t child = fork();

	EXPECT_GE(child, 0);
	if (child == 0) {
		body(arg);
		exit(0);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	return status;
}

/* ---- Forks ------------------------------------------------------------- */

static void
expect_no_gpu(void *ptr)
{
	struct weir_stats s = { .struct_size = sizeof(s) };
	struct weir_block_info info = { .struct_size = sizeof(info) };
	weir_stream stream;
	size_t bytes;
	int n;

	EXPECT_NO_MEMORY(weir_malloc(512, NULL), WEIR_EFORK);
	EXPECT_NO_MEMORY(weir_malloc_on(0, 512, NULL), WEIR_EFORK);
	EXPECT_STATUS(weir_init(), WEIR_EFORK);
	EXPECT_STATUS(weir_record_stream(ptr, NULL), WEIR_EFORK);
	EXPECT_STATUS(weir_block_info(ptr, &info), WEIR_EFORK);
	EXPECT_STATUS(weir_trim(0, 0, NULL), WEIR_EFORK);
	EXPECT_STATUS(weir_stats(0, &s), WEIR_EFORK);
	EXPECT_STATUS(weir_limit_get(0, &bytes), WEIR_EFORK);
	EXPECT_STATUS(weir_memory_info(0, &bytes, NULL), WEIR_EFORK);
	EXPECT_STATUS(weir_device_count(&n), WEIR_EFORK);
	EXPECT_STATUS(weir_stream_create(0, 0, &stream), WEIR_EFORK);
	EXPECT_STATUS(weir_stream_synchronize(NULL), WEIR_EFORK);
	EXPECT_STATUS(weir_device_synchronize(0), WEIR_EFORK);
	EXPECT_EQ(weir_check(NULL, 0), 0);
	EXPECT_OK(weir_free(ptr));
	EXPECT_OK(weir_free(ptr));
	EXPECT_OK(weir_free_async(ptr, NULL));
	_exit(0);
}

TEST(a_forked_child_has_no_gpu_and_freeing_the_parent_s_memory_does_nothing)
{
	void *ptr = take(4096, NULL);
	struct weir_stats before = stats();

	EXPECT_EQ(in_child(expect_no_gpu, ptr), 0);
	struct weir_stats after = stats();
	EXPECT_MEM_EQ(&before, &after, sizeof(after));
	EXPECT_EQ(info_of(ptr).size, 4096);
	give(ptr);
	expect_healthy();
}

static void
destroy_event(void *arg)
{
	EXPECT_OK(weir_event_destroy(arg));
	exit(0);
}

TEST(a_forked_child_may_end_with_the_parent_s_objects_around)
{
	struct weir_event *event;

	EXPECT_OK(weir_event_create(0, &event));
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_EQ(in_child(destroy_event, event), 0);
	EXPECT_OK(weir_event_synchronize(event));
	EXPECT_OK(weir_event_destroy(event));
}

static void
use_device(void *arg)
{
	void *ptr = take(4 * MIB, NULL);

	fill(ptr, 4 * MIB, 7, NULL);
	expect_filled(ptr, 4 * MIB, 7, NULL);
	give(ptr);
	expect_healthy();
	(void)arg;
}

TEST(a_child_forked_before_the_first_use_can_use_the_gpu)
{
	EXPECT_STATUS(weir_options_set("nonsense:1"), WEIR_EINVAL);
	EXPECT_EQ(in_child(use_device, NULL), 0);
	use_device(NULL);
}

static atomic_bool stop;

static void *
keep_locking(void *arg)
{
	weir_stream stream;

	EXPECT_OK(weir_stream_from_pool(0, 0, &stream));
	while (!atomic_load(&stop)) {
		void *ptr = take(512, stream);
		record(ptr, NULL);
		give(ptr);
		stats();
	}
	return arg;
}

static void
end_in_a_hurry(void *ptr)
{
	EXPECT_OK(weir_free(ptr));
	EXPECT_NO_MEMORY(weir_malloc(512, NULL), WEIR_EFORK);
	EXPECT_EQ(weir_check(NULL, 0), 0);
	EXPECT_STR_HAS(weir_last_error(), "fork");
	_exit(0);
}

TEST(a_fork_while_other_threads_hold_locks_leaves_no_child_hanging)
{
	pthread_t thread[2];
	void *ptr = take(512, NULL);

	for (int i = 0; i < 2; i++)
		EXPECT_EQ(
		    pthread_create(&thread[i], NULL, keep_locking, NULL), 0);
	for (uint64_t i = test_effort(30); i > 0; i--)
		EXPECT_EQ(in_child(end_in_a_hurry, ptr), 0);
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_join(thread[i], NULL), 0);
	EXPECT_EQ(weir_check(NULL, 0), 0);
}

/* ---- Exits ------------------------------------------------------------- */

static struct {
	void *plain;
	void *used;
	void *any;
	weir_stream stream;
	struct weir_event *event;
} left;

/*
 * Runs after the driver's own handlers, which were registered later. The driver
 * decides whether calls still succeed; weir has to return from them.
 */
static void
call_weir_at_the_end(void)
{
	void *ptr = weir_malloc(512, NULL);

	weir_free(ptr);
	EXPECT_OK(weir_free(left.plain));
	EXPECT_OK(weir_free(left.used));
	EXPECT_OK(weir_free(left.any));
	weir_malloc((size_t)40 * MIB, left.stream);
	weir_event_query(left.event);
	EXPECT_OK(weir_event_destroy(left.event));
	weir_trim(0, 0, NULL);
	EXPECT_OK(weir_stream_destroy(left.stream));
	EXPECT_EQ(weir_check(NULL, 0), 0);
}

static void
leave_things(void *arg)
{
	EXPECT_EQ(atexit(call_weir_at_the_end), 0);
	left.stream = new_stream();
	left.plain = take(4 * MIB, NULL);
	left.used = take(4 * MIB, left.stream);
	left.any = take(4 * MIB, WEIR_STREAM_ANY);
	record(left.used, NULL);
	give(take(8 * MIB, left.stream));
	EXPECT_OK(weir_event_create(0, &left.event));
	EXPECT_OK(weir_event_record(left.event, left.stream));
	(void)arg;
}

TEST(weir_may_be_called_while_the_process_ends)
{
	EXPECT_EQ(in_child(leave_things, NULL), 0);
}

/* At the end calls may fail; they may not crash or hang. */
static void *
keep_calling(void *arg)
{
	for (;;) {
		void *ptr = weir_malloc(512, arg);
		if (ptr == NULL)
			continue;
		weir_record_stream(ptr, NULL);
		weir_free(ptr);
	}
	return NULL;
}

static void
leave_threads(void *arg)
{
	pthread_t thread;

	for (int i = 0; i < 2; i++)
		EXPECT_EQ(
		    pthread_create(&thread, NULL, keep_calling, new_stream()),
		    0);
	usleep(20000);
	(void)arg;
}

TEST(a_process_may_end_while_threads_allocate)
{
	EXPECT_EQ(in_child(leave_threads, NULL), 0);
}

static void
leave_work(void *arg)
{
	weir_stream stream = new_stream();
	void *ptr = take(4 * MIB, stream);

	busy(stream, 50);
	record(ptr, NULL);
	give(ptr);
	(void)arg;
}

TEST(a_process_may_end_with_memory_held_and_work_queued)
{
	EXPECT_EQ(in_child(leave_work, NULL), 0);
}
