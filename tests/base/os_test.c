/* Pages, forks, thread ids and their end, time, bytes as text. */
#include "base/os.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

TEST(a_page_is_a_power_of_two_of_4_kib_or_more)
{
	size_t size = os_page_size();

	EXPECT_GE(size, 4096);
	EXPECT_EQ(size & (size - 1), 0);
	EXPECT_EQ(size, (size_t)sysconf(_SC_PAGESIZE));
	EXPECT_EQ(os_page_size(), size);
}

static int
grandchild_is_forked(void)
{
	int status = 0;

	if (!os_forked())
		return 2;
	if (fork() == 0)
		_exit(os_forked());
	wait(&status);
	return WEXITSTATUS(status);
}

static int
is_forked(void)
{
	return os_forked();
}

TEST(a_fork_is_seen_in_the_child_and_not_in_the_parent)
{
	os_watch_fork();
	os_watch_fork();
	EXPECT(!os_forked());
	EXPECT_EQ(test_child_status(is_forked), 1);
	EXPECT_EQ(test_child_status(grandchild_is_forked), 1);
	EXPECT(!os_forked());
}

static int
watch_and_ask(void)
{
	os_watch_fork();
	return os_forked();
}

TEST(a_fork_before_the_watch_is_none)
{
	EXPECT_EQ(test_child_status(watch_and_ask), 0);
}

enum { THREADS = 100 };

static struct {
	pthread_barrier_t all;
	uint32_t id[THREADS];
} crowd;

static void *
note_id(void *at)
{
	*(uint32_t *)at = os_thread_id();
	pthread_barrier_wait(&crowd.all);
	EXPECT_EQ(os_thread_id(), *(uint32_t *)at);
	return NULL;
}

/* THREADS threads, alive together, note their ids in crowd.id. */
static void
gather_crowd(void)
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&crowd.all, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, note_id, &crowd.id[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

TEST(living_threads_have_different_small_ids_again_and_again)
{
	uint32_t own = os_thread_id();

	EXPECT_EQ(own, 1);
	for (int round = 0; round < 5; round++) {
		bool seen[THREADS + 2] = { false };

		seen[own] = true;
		gather_crowd();
		for (int i = 0; i < THREADS; i++) {
			EXPECT_GT(crowd.id[i], 0);
			EXPECT_LE(crowd.id[i], THREADS + 1);
			EXPECT(!seen[crowd.id[i]]);
			seen[crowd.id[i]] = true;
		}
	}
	EXPECT_EQ(os_thread_id(), own);
}

static atomic_uint ended_id;
static atomic_uint id_within_hook;
static atomic_int ends;

static void
note_end(uint32_t id)
{
	atomic_store(&ended_id, id);
	/* The thread keeps the id until the hook is done. */
	atomic_store(&id_within_hook, os_thread_id());
	atomic_fetch_add(&ends, 1);
}

static void *
ask_id(void *id)
{
	*(uint32_t *)id = os_thread_id();
	return NULL;
}

static void *
ask_nothing(void *unused)
{
	return unused;
}

static void
run_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;

	EXPECT_EQ(pthread_create(&thread, NULL, body, argument), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
}

TEST(the_end_of_a_thread_is_reported_once_before_its_id_is_free)
{
	uint32_t id = 0;

	os_on_thread_exit(note_end);
	os_thread_id();
	run_thread(ask_id, &id);
	EXPECT_EQ(id, 2);
	EXPECT_EQ(ends, 1);
	EXPECT_EQ(ended_id, id);
	EXPECT_EQ(id_within_hook, id);
	run_thread(ask_id, &id);
	EXPECT_EQ(id, 2);
	EXPECT_EQ(ends, 2);
}

TEST(a_thread_that_never_had_an_id_is_not_reported)
{
	os_on_thread_exit(note_end);
	run_thread(ask_nothing, NULL);
	EXPECT_EQ(ends, 0);
}

static pthread_key_t late_key;
static uint32_t late_id;

static void
ask_id_late(void *unused)
{
	(void)unused;
	late_id = os_thread_id();
}

static void *
ask_id_and_be_late(void *id)
{
	*(uint32_t *)id = os_thread_id();
	pthread_setspecific(late_key, id);
	return NULL;
}

/* A destructor of another library that runs after weir's and calls weir. */
TEST(a_thread_that_calls_again_while_it_ends_is_reported_again)
{
	uint32_t id = 0;

	os_on_thread_exit(note_end);
	os_thread_id(); /* our key is made first, so it is destroyed first */
	pthread_key_create(&late_key, ask_id_late);
	run_thread(ask_id_and_be_late, &id);
	EXPECT_EQ(late_id, id);
	EXPECT_EQ(ends, 2);
	/* Neither id has leaked. */
	run_thread(ask_id, &id);
	EXPECT_EQ(id, 2);
}

static pthread_barrier_t teardown;
static pthread_t survivor;
static bool teardown_tested;

static void *
outlive_teardown(void *unused)
{
	os_thread_id();
	pthread_barrier_wait(&teardown);
	pthread_barrier_wait(&teardown);
	return unused;
}

/* Runs after the destructors of the library: lower priorities come last. */
__attribute__((destructor(101))) static void
end_survivor(void)
{
	if (!teardown_tested)
		return;
	pthread_barrier_wait(&teardown);
	pthread_join(survivor, NULL);
	/* A thread that ends even later. */
	run_thread(ask_id, &late_id);
	_exit(atomic_load(&ends) == 0 && late_id != 0 ? 42 : 1);
}

static int
exit_with_a_survivor(void)
{
	teardown_tested = true;
	pthread_barrier_init(&teardown, NULL, 2);
	os_on_thread_exit(note_end);
	pthread_create(&survivor, NULL, outlive_teardown, NULL);
	pthread_barrier_wait(&teardown);
	exit(0);
}

TEST(threads_may_end_after_the_library_was_torn_down)
{
	EXPECT_EQ(test_child_status(exit_with_a_survivor), 42);
}

TEST(time_goes_forward_in_nanoseconds)
{
	struct timespec pause = { 0, 2000000 };
	uint64_t before = os_monotonic_ns();
	uint64_t after;

	nanosleep(&pause, NULL);
	after = os_monotonic_ns();
	EXPECT_GE(after - before, 2000000);
	EXPECT_LT(after - before, 30000000000u);
	os_time_stop(false);
	before = after;
	after = os_time_ns();
	EXPECT_GE(after, before);
	EXPECT_LE(after, os_monotonic_ns());
	os_time_skip((uint64_t)1 << 60);
	EXPECT_GE(os_time_ns() - after, (uint64_t)1 << 60);
}

TEST(in_tests_time_stands_still_unless_it_is_let_pass)
{
	uint64_t before = os_time_ns();

	while (os_monotonic_ns() <= before)
		;
	EXPECT_EQ(os_time_ns(), before);
	os_time_skip(5);
	EXPECT_EQ(os_time_ns(), before + 5);
}

static void
expect_bytes(uint64_t bytes, const char *told)
{
	char text[32];

	EXPECT_EQ(os_format_bytes(bytes, text, sizeof(text)), &text[0]);
	EXPECT_STR_EQ(text, told);
}

TEST(bytes_are_printed_in_powers_of_1024)
{
	expect_bytes(0, "0 bytes");
	expect_bytes(1, "1 byte");
	expect_bytes(512, "512 bytes");
	expect_bytes(1023, "1023 bytes");
	expect_bytes(1024, "1.00 KiB");
	expect_bytes(1536, "1.50 KiB");
	expect_bytes(20971520, "20.00 MiB");
	expect_bytes((uint64_t)141 << 30, "141.00 GiB");
	expect_bytes((uint64_t)1 << 40, "1.00 TiB");
	expect_bytes((uint64_t)1 << 50, "1.00 PiB");
	expect_bytes(UINT64_MAX, "16.00 EiB");
}

TEST(bytes_that_round_up_to_a_unit_are_printed_in_it)
{
	expect_bytes(1024 * 1024 - 1, "1.00 MiB");
	expect_bytes(1024 * 1024 - 6, "1023.99 KiB");
}

TEST(bytes_as_text_are_cut_to_the_buffer)
{
	char text[5];

	os_format_bytes(20971520, text, sizeof(text));
	EXPECT_STR_EQ(text, "20.0");
}

TEST(bytes_and_numbers_as_text_have_a_point_in_every_language)
{
	char text[32];
	char *end;

	use_comma();
	snprintf(text, sizeof(text), "%.1f", 0.5);
	EXPECT_STR_EQ(text, "0,5");
	expect_bytes(1536, "1.50 KiB");
	os_format_real(0.1, 6, text, sizeof(text));
	EXPECT_STR_EQ(text, "0.1");
	os_format_real(0.1, 17, text, sizeof(text));
	EXPECT_STR_EQ(text, "0.10000000000000001");
	EXPECT_EQ(os_parse_real("0.25 and more", &end), 0.25);
	EXPECT_STR_EQ(end, " and more");
	/* All other threads go on. */
	snprintf(text, sizeof(text), "%.1f", 0.5);
	EXPECT_STR_EQ(text, "0,5");
}

/* ---- Threads that are started ------------------------------------------ */

static void *
note_mask(void *argument)
{
	pthread_sigmask(SIG_SETMASK, NULL, argument);
	return NULL;
}

TEST(no_signal_reaches_a_thread_that_is_started)
{
	pthread_t thread;
	sigset_t theirs;
	sigset_t ours;

	sigemptyset(&theirs);
	EXPECT(os_thread_start(&thread, note_mask, &theirs));
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_EQ(sigismember(&theirs, SIGTERM), 1);
	pthread_sigmask(SIG_SETMASK, NULL, &ours);
	EXPECT_EQ(sigismember(&ours, SIGTERM), 0);
}

TEST(processors_are_those_that_the_thread_may_run_on)
{
	cpu_set_t one;
	int first = 0;

	EXPECT_EQ(sched_getaffinity(0, sizeof(one), &one), 0);
	EXPECT_EQ(os_processors(), (unsigned)CPU_COUNT(&one));
	while (!CPU_ISSET(first, &one))
		first++;
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
	EXPECT_EQ(os_processors(), 1);
}

static void *
measure_stack(void *out)
{
	*(size_t *)out = os_stack_left();
	return NULL;
}

/* The stack's bytes below a frame of 256 KiB. */
static __attribute__((noinline)) size_t
stack_below(size_t used)
{
	volatile char deep[256 << 10];

	deep[used] = 0;
	size_t left = os_stack_left();
	return left + (size_t)deep[used]; /* no tail call */
}

TEST(the_stack_that_is_left_is_that_of_the_thread)
{
	pthread_attr_t attributes;
	pthread_t thread;
	struct rlimit limit;
	size_t left = 0;

	EXPECT_EQ(pthread_attr_init(&attributes), 0);
	EXPECT_EQ(pthread_attr_setstacksize(&attributes, 256 << 10), 0);
	EXPECT_EQ(
	    pthread_create(&thread, &attributes, measure_stack, &left), 0);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_GT(left, 100 << 10);
	EXPECT_LE(left, 256 << 10);
	pthread_attr_destroy(&attributes);
	EXPECT_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
	if (limit.rlim_cur == RLIM_INFINITY)
		SKIP("the first thread's stack has no limit");
	left = os_stack_left();
	EXPECT_LE(left, limit.rlim_cur);
	EXPECT_LE(stack_below(1000), left - (256 << 10));
}

TEST(a_descriptor_is_moved_away_from_those_of_stdio)
{
	int ends[2];
	int kept = dup(STDIN_FILENO);

	close(STDIN_FILENO);
	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(ends[0], STDIN_FILENO);
	ends[0] = os_fd_up(ends[0]);
	EXPECT_GT(ends[0], STDERR_FILENO);
	EXPECT_EQ(fcntl(STDIN_FILENO, F_GETFD), -1);
	EXPECT_EQ(write(ends[1], "a", 1), 1);
	EXPECT_EQ(read(ends[0], &(char){ 0 }, 1), 1);
	EXPECT_EQ(os_fd_up(ends[0]), ends[0]);
	EXPECT_EQ(os_fd_up(-1), -1);
	if (kept >= 0)
		dup2(kept, STDIN_FILENO);
}
