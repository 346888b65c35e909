/*
 * The fault sweep: on every path that calls the driver or asks for host
 * memory, each call fails once.
 *
 * A scenario is an ordinary use of weir. It runs in a process of its own for
 * each fault: entry point by entry point the 1st, 2nd, 3rd... call fails, until
 * the scenario runs with no fault met, and the same again for allocations of
 * host memory. Whatever fails:
 *
 *	each call of weir gives a status and a text, and has changed nothing
 *	but counters (expect_unchanged() says exactly what)
 *	weir_check() finds no fault after any call
 *	what was allocated can be freed
 *	the scenario, run again, succeeds
 *	in the end nothing is held from the driver, and the simulated device
 *	has seen no misuse
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/stream.h>
#include <weir/trace.h>

#include "base/meta.h"
#include "driver/driver.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"
#include "tests/support/test.h"

enum { BLOCKS = 64, STREAMS = 8, DEVICES = 2, CALLS_MAX = 5000 };

static const size_t MEGABYTE = (size_t)1 << 20;

/* What is to fail: the nth call of an entry with a code, or the nth piece of
 * host memory where there is no entry. n is 0: nothing. */
struct fault {
	const char *entry;
	unsigned n;
	CUresult code;
};

/* One run of a scenario. */
struct run {
	struct fault fault;
	bool calm; /* every call must succeed */
	void *blocks[BLOCKS];
	weir_stream streams[STREAMS];
	weir_stream foreign;
	struct weir_event *event;
	struct weir_stats before[DEVICES];
};

struct scenario {
	const char *name;
	void (*play)(struct run *run);
};

/* The calls that weir may make. */
static const char *const entries[] = {
#define ENTRY_NAME(name, version, required, params) #name,
	DRIVER_ENTRIES(ENTRY_NAME)
#undef ENTRY_NAME
};

enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

/* What a child tells its parent. */
struct result {
	bool met;                /* the fault */
	uint64_t calls[ENTRIES]; /* of the scenario, played once */
};

/* ---- What a failed call may change ------------------------------------- */

static struct weir_stats
stats_now(int device)
{
	struct weir_stats s = { .struct_size = sizeof(s) };

	/* Before the driver is loaded there is nothing to count. */
	if (driver_peek() != NULL && device < driver_peek()->device_count)
		EXPECT_OK(weir_stats(device, &s));
	return s;
}

static bool
begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/*
 * Counters of what was tried may go up, and weir's own metadata may grow: what
 * is there already serves the next try. A call that found freed memory no
 * longer in use, or gave memory back before it failed, has done so for good:
 * then what is held may be less, but not what is in the hands of callers.
 */
static bool
may_change(const char *name, const struct weir_stats *before,
    const struct weir_stats *after)
{
	bool reclaimed = after->reserved_bytes.all.current <
		before->reserved_bytes.all.current ||
	    after->pending_bytes < before->pending_bytes;

	if (begins(name, "num_") || begins(name, "metadata_bytes"))
		return true;
	return reclaimed && !begins(name, "alloc") &&
	    !begins(name, "oversize_allocations");
}

static void
expect_unchanged(const struct run *run, const char *call)
{
	for (int device = 0; device < DEVICES; device++) {
		const struct weir_stats *before = &run->before[device];
		struct weir_stats after = stats_now(device);
		const char *name;
		uint64_t was;
		uint64_t is;

		for (size_t i = 0; weir_stats_item(before, i, &name, &was);
		     i++) {
			weir_stats_item(&after, i, &name, &is);
			if (is != was && !may_change(name, before, &after))
				FAIL("%s failed and changed %s from %llu to "
				     "%llu: %s",
				    call, name, (unsigned long long)was,
				    (unsigned long long)is, weir_last_error());
		}
	}
}

static void
expect_whole(const char *call)
{
	char text[1024];
	unsigned violations = sim()->violations();

	if (weir_check(text, sizeof(text)) != 0)
		FAIL("after %s: weir_check() finds\n%s", call, text);
	if (violations != 0)
		FAIL("after %s: %u violations; the first: %s", call, violations,
		    sim()->violation_text(0));
}

static void
begin(struct run *run)
{
	for (int device = 0; device < DEVICES; device++)
		run->before[device] = stats_now(device);
}

/* The end of a call: was it a success? */
static bool
finish_call(struct run *run, enum weir_status status, const char *call)
{
	expect_whole(call);
	if (status == WEIR_OK)
		return true;
	if (run->calm)
		FAIL("%s: %s (%s)", call, weir_status_name(status),
		    weir_last_error());
	EXPECT_EQ(weir_last_status(), status);
	EXPECT_STR_HAS(weir_last_error(), " ");
	expect_unchanged(run, call);
	return false;
}

/* Make a call and look at what came of it; true if it succeeded. */
#define TRY(run, call) (begin(run), finish_call(run, (call), #call))

/* ---- The words scenarios are written in -------------------------------- */

static void **
place_of(struct run *run, const void *block)
{
	for (int i = 0; i < BLOCKS; i++) {
		if (run->blocks[i] == block)
			return &run->blocks[i];
	}
	FAIL("no place for a block");
}

static void *
allocate_on(struct run *run, int device, size_t size, weir_stream stream)
{
	void *block;

	begin(run);
	block = weir_malloc_on(device, size, stream);
	finish_call(
	    run, block != NULL ? WEIR_OK : weir_last_status(), "weir_malloc");
	if (block != NULL)
		*place_of(run, NULL) = block;
	return block;
}

static void *
allocate(struct run *run, size_t size, weir_stream stream)
{
	return allocate_on(run, 0, size, stream);
}

/* Freeing never fails, whatever else does. */
static void
release(struct run *run, void *block)
{
	if (block == NULL)
		return;
	EXPECT_OK(weir_free(block));
	expect_whole("weir_free");
	*place_of(run, block) = NULL;
}

static void
release_on(struct run *run, void *block, weir_stream stream)
{
	if (block != NULL && TRY(run, weir_free_async(block, stream)))
		*place_of(run, block) = NULL;
}

/* A stream of the run's own; the legacy one where there is none to be had. */
static weir_stream
stream(struct run *run, int i)
{
	if (run->streams[i] == NULL)
		TRY(run, weir_stream_create(0, 0, &run->streams[i]));
	return run->streams[i];
}

static void
end_stream(struct run *run, int i)
{
	if (run->streams[i] != NULL &&
	    TRY(run, weir_stream_destroy(run->streams[i])))
		run->streams[i] = NULL;
}

/* Work on a block that takes its time. It may be what fails. */
static bool
work_late(void *block, size_t size, weir_stream on)
{
	if (block == NULL)
		return false;
	sim()->delay_next(on, 3000000);
	return driver_peek()->cuMemsetD8Async(
		   (CUdeviceptr)(uintptr_t)block, 1, size, on) == CUDA_SUCCESS;
}

/* A block of stream 0 that stream 1 uses late, in due order. */
static void *
used_elsewhere(struct run *run, size_t size)
{
	weir_stream own = stream(run, 0);
	weir_stream other = stream(run, 1);
	void *block = allocate(run, size, own);

	if (block != NULL && TRY(run, weir_stream_wait_stream(other, own)) &&
	    TRY(run, weir_record_stream(block, other)))
		work_late(block, size, other);
	return block;
}

static void
pass_time(void)
{
	sim()->advance_ns(10000000);
}

static void
set_options(struct run *run, const char *conf)
{
	TRY(run, weir_options_set(conf));
}

/* ---- Scenarios --------------------------------------------------------- */

static void
play_first_use(struct run *run)
{
	struct weir_device_info info = { .struct_size = sizeof(info) };
	size_t available;
	size_t total;
	int number;

	TRY(run, weir_init());
	TRY(run, weir_device_count(&number));
	TRY(run, weir_get_device(&number));
	TRY(run, weir_set_device(0));
	TRY(run, weir_device_info(0, &info));
	TRY(run, weir_memory_info(0, &available, &total));
	TRY(run, weir_limit_get(0, &total));
	TRY(run, weir_fraction_set(0, 0.5));
	TRY(run, weir_fraction_set(0, 1));
	TRY(run, weir_trim(WEIR_DEVICE_ALL, 0, &total));
	TRY(run, weir_device_synchronize(0));
}

static void
play_first_malloc(struct run *run)
{
	void *small = allocate(run, 1000, NULL);
	void *large = allocate(run, 3 * MEGABYTE, NULL);
	void *own = allocate(run, 1000, WEIR_STREAM_PER_THREAD);

	release(run, small);
	release(run, large);
	release(run, own);
	release(run, allocate(run, 1000, NULL));
}

/* Several handles at once, then growth in place, ahead, and past the end. */
static void
play_growth(struct run *run)
{
	void *blocks[4];

	TRY(run, weir_set_device(0));
	blocks[0] = allocate(run, 300 * MEGABYTE, stream(run, 0));
	blocks[1] = allocate(run, 40 * MEGABYTE, stream(run, 0));
	blocks[2] = allocate(run, 1, stream(run, 0));
	release(run, blocks[1]);
	blocks[3] = allocate(run, 90 * MEGABYTE, stream(run, 0));
	for (int i = 0; i < 64 && run->blocks[i] != NULL; i++)
		work_late(run->blocks[i], 1, stream(run, 0));
	release(run, blocks[0]);
	release(run, blocks[2]);
	release(run, blocks[3]);
}

static void
play_driver_segments(struct run *run)
{
	void *blocks[4];

	set_options(run, "expandable_segments:False,max_split_size_mb:32");
	blocks[0] = allocate(run, 1000, NULL);
	blocks[1] = allocate(run, 3 * MEGABYTE, NULL);
	blocks[2] = allocate(run, 31 * MEGABYTE + 1, NULL);
	blocks[3] = allocate(run, 64 * MEGABYTE, NULL);
	release(run, blocks[1]);
	release(run, allocate(run, 6 * MEGABYTE, NULL));
	for (int i = 0; i < 4; i++) {
		if (i != 1)
			release(run, blocks[i]);
	}
	TRY(run, weir_trim(0, 0, NULL));
	set_options(run,
	    "expandable_segments:True,"
	    "max_split_size_mb:unlimited");
}

/* Holes that a trim leaves between live blocks are mapped again for a block
 * that spans them. */
static void
play_holes(struct run *run)
{
	void *blocks[6];

	for (int i = 0; i < 6; i++)
		blocks[i] = allocate(run, 4 * MEGABYTE, stream(run, 0));
	release(run, blocks[1]);
	release(run, blocks[3]);
	TRY(run, weir_trim(0, 0, NULL));
	release(run, blocks[2]);
	blocks[2] = allocate(run, 11 * MEGABYTE, stream(run, 0));
	for (int i = 0; i < 6; i++) {
		if (i != 1 && i != 3)
			release(run, blocks[i]);
	}
}

static void
play_other_streams(struct run *run)
{
	void *block = used_elsewhere(run, 2 * MEGABYTE);
	void *second = used_elsewhere(run, 1000);

	TRY(run, weir_record_stream(block, WEIR_STREAM_PER_THREAD));
	TRY(run, weir_record_stream(second, WEIR_STREAM_ANY));
	release(run, block);
	release(run, second);
	allocate(run, 2 * MEGABYTE, stream(run, 0));
	pass_time();
	release(run, allocate(run, 2 * MEGABYTE, stream(run, 0)));
	release(run, allocate(run, 1000, stream(run, 0)));
}

static void
play_free_async(struct run *run)
{
	weir_stream own = stream(run, 0);
	weir_stream other = stream(run, 1);
	void *block = used_elsewhere(run, 2 * MEGABYTE);

	if (TRY(run, weir_stream_wait_stream(other, own)))
		release_on(run, block, other);
	release(run, allocate(run, 2 * MEGABYTE, other));
	block = allocate(run, 1000, own);
	work_late(block, 1000, own);
	release_on(run, block, WEIR_STREAM_ANY);
	release_on(run, allocate(run, 1000, WEIR_STREAM_ANY), own);
	pass_time();
	release(run, allocate(run, 1000, own));
}

/* A stream goes with memory cached, live and pending, and others have it. */
static void
play_stream_end(struct run *run)
{
	void *cached = allocate(run, 5 * MEGABYTE, stream(run, 0));
	void *live = allocate(run, 1000, stream(run, 0));
	void *pending = used_elsewhere(run, 2 * MEGABYTE);
	void *recorded = allocate(run, 1000, stream(run, 1));

	work_late(cached, 5 * MEGABYTE, stream(run, 0));
	if (recorded != NULL &&
	    TRY(run, weir_stream_wait_stream(stream(run, 0), stream(run, 1))))
		TRY(run, weir_record_stream(recorded, stream(run, 0)));
	release(run, cached);
	release(run, pending);
	end_stream(run, 0);
	release(run, recorded);
	allocate(run, 3 * MEGABYTE, stream(run, 1));
	pass_time();
	release(run, live);
	allocate(run, 6 * MEGABYTE, stream(run, 1));
	end_stream(run, 1);
}

static void
play_foreign_stream(struct run *run)
{
	void *block;

	TRY(run, weir_set_device(0));
	if (run->foreign == NULL && driver_peek() != NULL &&
	    driver_peek()->cuStreamCreateWithPriority(
		&run->foreign, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS)
		run->foreign = NULL;
	block = allocate(run, 1000, run->foreign);
	work_late(block, 1000, run->foreign);
	release(run, block);
	if (run->foreign == NULL || !TRY(run, weir_stream_retire(run->foreign)))
		return;
	/* Where this is what fails, the driver's stream stays; weir has let
	 * go of it all the same. */
	driver_peek()->cuStreamDestroy(run->foreign);
	run->foreign = NULL;
	pass_time();
	release(run, allocate(run, 1000, NULL));
}

static void
play_trim(struct run *run)
{
	void *late = allocate(run, 30 * MEGABYTE, stream(run, 0));
	void *pending = used_elsewhere(run, 2 * MEGABYTE);
	void *any = allocate(run, MEGABYTE, WEIR_STREAM_ANY);

	work_late(late, 30 * MEGABYTE, stream(run, 0));
	release(run, late);
	release(run, pending);
	release(run, any);
	TRY(run, weir_trim(0, 16 * MEGABYTE, NULL));
	TRY(run, weir_trim(WEIR_DEVICE_ALL, 0, NULL));
}

static void
count_oom(const struct weir_oom *oom, void *user)
{
	(void)oom;
	++*(int *)user;
}

/* Everything the ladder has: other pools' memory, pending blocks, streams that
 * must be waited for; and in the end a request that cannot be served. */
static void
play_shortage(struct run *run)
{
	static int observed;
	void *kept;
	void *idle;

	TRY(run, weir_limit_set(0, 64 * MEGABYTE));
	kept = allocate(run, 8 * MEGABYTE, stream(run, 2));
	idle = allocate(run, 16 * MEGABYTE, stream(run, 2));
	work_late(idle, 16 * MEGABYTE, stream(run, 2));
	release(run, idle);
	release(run, used_elsewhere(run, 20 * MEGABYTE));
	release(run, used_elsewhere(run, 2 * MEGABYTE));
	release(run, allocate(run, 50 * MEGABYTE, stream(run, 3)));
	release(run, kept);
	TRY(run, weir_oom_observer_add(count_oom, &observed));
	begin(run);
	EXPECT_NULL(weir_malloc_on(0, 70 * MEGABYTE, stream(run, 3)));
	expect_whole("weir_malloc");
	EXPECT_STR_HAS(weir_last_error(), " ");
	expect_unchanged(run, "weir_malloc");
	TRY(run, weir_oom_observer_remove(count_oom, &observed));
	TRY(run, weir_limit_set(0, SIZE_MAX));
}

/* The device itself has no more. */
static void
play_full_device(struct run *run)
{
	void *most = allocate(run, 200 * MEGABYTE, stream(run, 0));
	void *part = allocate(run, 20 * MEGABYTE, stream(run, 1));

	sim()->set_memory(0, sim()->memory_used(0) + 4 * MEGABYTE);
	work_late(most, 200 * MEGABYTE, stream(run, 0));
	release(run, most);
	release(run, allocate(run, 100 * MEGABYTE, stream(run, 1)));
	release(run, part);
	release(run, allocate(run, 2 * MEGABYTE, WEIR_STREAM_ANY));
	sim()->set_memory(0, 4096 * MEGABYTE);
}

static void
play_any_stream(struct run *run)
{
	void *blocks[3];

	blocks[0] = allocate(run, 1000, WEIR_STREAM_ANY);
	blocks[1] = allocate(run, 3 * MEGABYTE, WEIR_STREAM_ANY);
	blocks[2] = allocate(run, 30 * MEGABYTE, WEIR_STREAM_ANY);
	work_late(blocks[1], MEGABYTE, stream(run, 0));
	for (int i = 0; i < 3; i++)
		release(run, blocks[i]);
	allocate(run, 3 * MEGABYTE, WEIR_STREAM_ANY);
	pass_time();
	allocate(run, 3 * MEGABYTE, WEIR_STREAM_ANY);
	release(run, allocate(run, 1000, stream(run, 0)));
}

static void
play_streams(struct run *run)
{
	weir_stream pooled;
	weir_stream was;
	int number;

	TRY(run, weir_stream_from_pool(0, -1, &pooled));
	TRY(run, weir_stream_current(0, &was));
	if (TRY(run, weir_stream_set_current(stream(run, 0))))
		TRY(run, weir_stream_set_current(NULL));
	TRY(run, weir_stream_device(stream(run, 0), &number));
	TRY(run, weir_stream_priority(stream(run, 0), &number));
	TRY(run, weir_stream_query(stream(run, 0)));
	TRY(run, weir_stream_synchronize(stream(run, 0)));
	TRY(run, weir_stream_synchronize(WEIR_STREAM_ANY));
	TRY(run, weir_stream_wait_stream(stream(run, 0), stream(run, 1)));
	end_stream(run, 0);
	end_stream(run, 1);
}

static void
play_events(struct run *run)
{
	struct weir_event *first = NULL;
	float milliseconds;

	TRY(run, weir_event_create(WEIR_EVENT_TIMING, &first));
	TRY(run, weir_event_create(WEIR_EVENT_TIMING, &run->event));
	if (first != NULL && run->event != NULL &&
	    TRY(run, weir_event_record(first, stream(run, 0))) &&
	    TRY(run, weir_event_record(run->event, stream(run, 0)))) {
		TRY(run, weir_stream_wait_event(NULL, run->event));
		if (TRY(run, weir_event_synchronize(run->event)) &&
		    TRY(run, weir_event_query(run->event)))
			TRY(run,
			    weir_event_elapsed_ms(
				first, run->event, &milliseconds));
	}
	/* Gone in any case. */
	TRY(run, weir_event_destroy(first));
	TRY(run, weir_event_destroy(run->event));
	run->event = NULL;
}

static void
play_huge(struct run *run)
{
	static const size_t sizes[] = { (size_t)3900 << 20, (size_t)5000 << 20,
		(size_t)1 << 50, WEIR_SIZE_MAX };

	release(run, allocate(run, sizes[0], stream(run, 0)));
	release(run, allocate(run, sizes[0], WEIR_STREAM_ANY));
	for (int i = 1; i < 4; i++) {
		begin(run);
		EXPECT_NULL(weir_malloc_on(0, sizes[i], stream(run, 0)));
		expect_whole("weir_malloc");
		EXPECT_STR_HAS(weir_last_error(), " ");
		expect_unchanged(run, "weir_malloc");
	}
	TRY(run, weir_trim(0, 0, NULL));
}

static void
play_second_device(struct run *run)
{
	void *first = allocate_on(run, 0, 1000, NULL);
	void *second = allocate_on(run, 1, 3 * MEGABYTE, NULL);

	work_late(first, 1000, NULL);
	release(run, second);
	release(run, allocate_on(run, 1, 3 * MEGABYTE, WEIR_STREAM_ANY));
	if (TRY(run, weir_set_device(1))) {
		release(run, allocate_on(run, WEIR_DEVICE_CURRENT, 1000, NULL));
		TRY(run, weir_set_device(0));
	}
	release(run, first);
	TRY(run, weir_trim(WEIR_DEVICE_ALL, 0, NULL));
}

static void
play_collector(struct run *run)
{
	set_options(run, "garbage_collection_threshold:0.02");
	for (int i = 0; i < 4; i++)
		allocate(run, 30 * MEGABYTE, stream(run, i % 2));
	for (int i = 0; i < BLOCKS; i++)
		release(run, run->blocks[i]);
	pass_time();
	release(run, allocate(run, 50 * MEGABYTE, stream(run, 2)));
	set_options(run, "garbage_collection_threshold:0");
}

struct thread {
	struct run *run;
	void *block;
};

static void *
play_in_thread(void *argument)
{
	struct thread *thread = argument;
	struct run *run = thread->run;

	release(run, allocate(run, 3 * MEGABYTE, WEIR_STREAM_PER_THREAD));
	thread->block = allocate(run, 1000, WEIR_STREAM_PER_THREAD);
	work_late(thread->block, 1000, WEIR_STREAM_PER_THREAD);
	return NULL;
}

/* A thread ends, and its default stream with it. */
static void
play_thread_end(struct run *run)
{
	struct thread thread = { .run = run };
	pthread_t id;

	TRY(run, weir_set_device(0));
	EXPECT_EQ(pthread_create(&id, NULL, play_in_thread, &thread), 0);
	EXPECT_EQ(pthread_join(id, NULL), 0);
	release(run, allocate(run, 3 * MEGABYTE, stream(run, 0)));
	release(run, thread.block);
	pass_time();
	release(run, allocate(run, 3 * MEGABYTE, stream(run, 0)));
	release(run, allocate(run, 1000, stream(run, 0)));
}

/* ---- One run in one process -------------------------------------------- */

/* Give all back, with no fault left to meet. */
static void
clean(struct run *run)
{
	static const char *const kinds[] = { "handle", "mapping", "reservation",
		"allocation" };
	size_t freed;

	run->calm = true;
	for (int i = 0; i < BLOCKS; i++)
		release(run, run->blocks[i]);
	for (int i = 0; i < STREAMS; i++)
		end_stream(run, i);
	if (run->foreign != NULL) {
		TRY(run, weir_stream_retire(run->foreign));
		EXPECT_EQ(
		    driver_peek()->cuStreamDestroy(run->foreign), CUDA_SUCCESS);
		run->foreign = NULL;
	}
	sim()->set_memory(0, 4096 * MEGABYTE);
	TRY(run, weir_limit_set(0, SIZE_MAX));
	TRY(run, weir_trim(WEIR_DEVICE_ALL, 0, &freed));
	for (int device = 0; device < DEVICES; device++) {
		EXPECT_EQ(stats_now(device).reserved_bytes.all.current, 0);
		EXPECT_EQ(stats_now(device).active.all.current, 0);
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (sim()->live(kinds[i]) != 0)
			FAIL("%ld of kind %s are left", sim()->live(kinds[i]),
			    kinds[i]);
	}
	EXPECT_EQ(sim()->violations(), 0);
}

static void
arm(const struct fault *fault)
{
	if (fault->n == 0)
		return;
	if (fault->entry == NULL)
		meta_fail(fault->n, 1);
	else
		EXPECT_EQ(
		    sim()->fail(fault->entry, fault->n, 1, fault->code), 0);
}

/* Take the fault away; was it met? */
static bool
disarm(const struct fault *fault)
{
	bool met = sim()->faults() > 0;

	if (fault->n != 0 && fault->entry == NULL)
		met = meta_faults() > 0;
	meta_fail(0, 0);
	sim()->reset();
	return met;
}

/* Loading the driver is tried once: its failure is told again each time, but
 * for a shortage of host memory. */
static bool
never_loaded(const struct fault *fault)
{
	char text[256];
	enum weir_status status;

	if (driver_peek() != NULL || fault->n == 0 || fault->entry == NULL)
		return false;
	status = weir_init();
	EXPECT_NE(status, WEIR_OK);
	snprintf(text, sizeof(text), "%s", weir_last_error());
	EXPECT_EQ(weir_init(), status);
	EXPECT_STR_EQ(weir_last_error(), text);
	return true;
}

static void
play_in_child(const struct scenario *scenario, const struct fault *fault,
    struct result *result)
{
	struct run *run = calloc(1, sizeof(*run));

	EXPECT_NOT_NULL(run);
	run->fault = *fault;
	run->calm = fault->n == 0;
	arm(fault);
	scenario->play(run);
	EXPECT_EQ(sim()->violations(), 0);
	for (int i = 0; i < ENTRIES; i++)
		result->calls[i] = sim()->calls(entries[i]);
	result->met = disarm(fault);
	if (never_loaded(fault))
		return;
	clean(run);
	scenario->play(run);
	clean(run);
	free(run);
}

/* True if the fault was met. */
static bool
play(const struct scenario *scenario, const struct fault *fault,
    struct result *result)
{
	int status = 0;
	pid_t child;

	*result = (struct result){ 0 };
	fflush(NULL);
	child = fork();
	EXPECT_NE(child, -1);
	if (child == 0) {
		play_in_child(scenario, fault, result);
		_exit(0);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return result->met;
	/* A failed expectation has been told already, but not where. */
	fprintf(stderr, "# %s: %s number %u fails (%d)\n", scenario->name,
	    fault->entry == NULL ? "piece of host memory" : fault->entry,
	    fault->n, (int)fault->code);
	FAIL("%s: %s number %u fails (%d): exit status %#x", scenario->name,
	    fault->entry == NULL ? "piece of host memory" : fault->entry,
	    fault->n, (int)fault->code, status);
}

/* ---- The sweeps -------------------------------------------------------- */

static struct result *
result_new(void)
{
	void *page = mmap(NULL, sizeof(struct result), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	EXPECT_NE(page, MAP_FAILED);
	return page;
}

/* Of the calls that the scenario makes when nothing fails, each fails once. */
static void
sweep_driver(const struct scenario *scenario)
{
	static const CUresult codes[] = { CUDA_ERROR_OUT_OF_MEMORY,
		CUDA_ERROR_UNKNOWN };
	struct result *result = result_new();
	struct result whole;
	unsigned long runs = 0;

	play(scenario, &(struct fault){ 0 }, result);
	whole = *result;
	for (int i = 0; i < ENTRIES; i++) {
		struct fault fault = { .entry = entries[i], .n = 1 };

		for (; fault.n <= whole.calls[i]; fault.n++) {
			fault.code = codes[0];
			EXPECT(play(scenario, &fault, result));
			fault.code = codes[1];
			EXPECT(play(scenario, &fault, result));
			runs += 2;
		}
	}
	fprintf(stderr, "# %s: %lu runs\n", scenario->name, runs);
}

static void
sweep_memory(const struct scenario *scenario)
{
	struct fault fault = { .n = 1 };
	struct result *result = result_new();

	while (play(scenario, &fault, result))
		fault.n++;
	EXPECT_GT(fault.n, 1);
	fprintf(stderr, "# %s: %u runs\n", scenario->name, fault.n - 1);
}

/* Before anything has touched the driver: children need it untouched. */
static void
need_sim(void)
{
	setenv("SIMCUDA_CONF", "devices:2,memory_mb:4096", 1);
	if (sim() == NULL)
		SKIP("a GPU's calls cannot be made to fail");
}

#define SCENARIOS(X)                                                           \
	X(first_use)                                                           \
	X(first_malloc)                                                        \
	X(growth)                                                              \
	X(driver_segments)                                                     \
	X(holes)                                                               \
	X(other_streams)                                                       \
	X(free_async)                                                          \
	X(stream_end)                                                          \
	X(foreign_stream)                                                      \
	X(trim)                                                                \
	X(shortage)                                                            \
	X(full_device)                                                         \
	X(any_stream)                                                          \
	X(streams)                                                             \
	X(events)                                                              \
	X(huge)                                                                \
	X(second_device)                                                       \
	X(collector)                                                           \
	X(thread_end)

#define SCENARIO_TESTS(name)                                                   \
	static const struct scenario name##_scenario = { #name, play_##name }; \
	TEST_TIMEOUT(each_driver_call_of_##name##_may_fail, 300)               \
	{                                                                      \
		need_sim();                                                    \
		sweep_driver(&name##_scenario);                                \
	}                                                                      \
	TEST_TIMEOUT(                                                          \
	    each_piece_of_host_memory_of_##name##_may_be_missing, 300)         \
	{                                                                      \
		need_sim();                                                    \
		sweep_memory(&name##_scenario);                                \
	}

SCENARIOS(SCENARIO_TESTS)
