/*
 * The machinery of the fault sweep: one process for each fault, and the checks
 * in it.
 */
#include "tests/model/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/host.h>
#include <weir/ipc.h>

#include "allocator/memory/arena.h"
#include "base/meta.h"
#include "driver/driver.h"
#include "streams/event.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"
#include "tests/support/test.h"

/* The simulated devices; the memory is DEVICE_BYTES. */
#define DEVICES "devices:2,memory_mb:4096"

const char *const sweep_entries[SWEEP_ENTRIES] = {
#define ENTRY_NAME(name, version, required, params) #name,
	DRIVER_ENTRIES(ENTRY_NAME)
#undef ENTRY_NAME
};

/* The report of a child to its parent. */
struct result {
	bool met;                      /* the fault */
	uint64_t calls[SWEEP_ENTRIES]; /* of the scenario, run once */
};

/* ---- What a failed call may change ------------------------------------- */

static struct weir_stats
stats_now(int device)
{
	struct weir_stats s = { .struct_size = sizeof(s) };

	/* Before the driver is loaded there are no calls to count. */
	if (driver_peek() == NULL || device >= driver_peek()->device_count)
		return s;
	/* The first call reads the options, which may be the call that
	 * fails. */
	if (weir_stats(device, &s) != WEIR_OK)
		EXPECT_OK(weir_stats(device, &s));
	s.max_split_size = 0; /* sets an option, and counts nothing */
	return s;
}

static bool
begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

/*
 * Counters of attempts, and of the time of waits, may rise, and weir's metadata
 * may grow, because it serves the next attempt. If a call found that freed
 * memory is no longer in use, or gave memory back before it failed, this is not
 * undone: the held bytes may then be fewer, but not the bytes that callers
 * have. Free memory that threads keep may have gone to the pools, where it
 * merges.
 */
static bool
may_change(const char *name, const struct weir_stats *before,
    const struct weir_stats *after)
{
	bool reclaimed = after->reserved_bytes.all.current <
		before->reserved_bytes.all.current ||
	    after->pending_bytes < before->pending_bytes;

	if (begins(name, "num_") || begins(name, "gpu_") ||
	    begins(name, "brief_") || begins(name, "pin_") ||
	    begins(name, "unpin_") || begins(name, "metadata_bytes") ||
	    begins(name, "inactive_split"))
		return true;
	return reclaimed && !begins(name, "alloc") &&
	    !begins(name, "oversize_allocations");
}

static bool
ends(const char *name, const char *with)
{
	size_t size = strlen(name);
	size_t end = strlen(with);

	return size >= end && strcmp(name + size - end, with) == 0;
}

/* May a failed call that allocates more than one block change it? */
static bool
may_change_between(const char *name)
{
	return begins(name, "reserved_bytes") || begins(name, "segment") ||
	    begins(name, "active") || begins(name, "requested_bytes") ||
	    begins(name, "pending_bytes") || begins(name, "served_") ||
	    ends(name, ".peak") || ends(name, ".allocated") ||
	    ends(name, ".freed");
}

static void
expect_unchanged(const struct run *run, const struct weir_stats *before,
    const struct weir_stats *after, const char *call)
{
	const char *name;
	uint64_t was;
	uint64_t is;

	for (size_t i = 0; weir_stats_item(before, i, &name, &was); i++) {
		weir_stats_item(after, i, &name, &is);
		if (is != was && !may_change(name, before, after) &&
		    !(run->is_compound && may_change_between(name)))
			FAIL("%s failed and changed %s from %llu to "
			     "%llu: %s",
			    call, name, (unsigned long long)was,
			    (unsigned long long)is, weir_last_error());
	}
}

static struct weir_stats
host_stats_now(void)
{
	struct weir_stats s = { .struct_size = sizeof(s) };

	if (driver_peek() == NULL)
		return s;
	EXPECT_OK(weir_host_stats(0, &s));
	s.max_split_size = 0;
	return s;
}

void
run_expect_unchanged(const struct run *run, const char *call)
{
	struct weir_stats host = host_stats_now();

	for (int device = 0; device < RUN_DEVICES; device++) {
		struct weir_stats after = stats_now(device);
		expect_unchanged(run, &run->before[device], &after, call);
	}
	expect_unchanged(run, &run->host_before, &host, call);
}

void
run_expect_whole(const char *call)
{
	char text[1024];
	unsigned violations = sim()->violations();

	if (weir_check(text, sizeof(text)) != 0)
		FAIL("after %s: weir_check() finds\n%s", call, text);
	if (violations != 0)
		FAIL("after %s: %u violations; the first: %s", call, violations,
		    sim()->violation_text(0));
}

void
run_begin(struct run *run)
{
	for (int device = 0; device < RUN_DEVICES; device++)
		run->before[device] = stats_now(device);
	run->host_before = host_stats_now();
}

/* The end of a call: did it succeed? */
bool
run_end(struct run *run, enum weir_status status, const char *call)
{
	run_expect_whole(call);
	if (status == WEIR_OK)
		return true;
	if (run->calm)
		FAIL("%s: %s (%s)", call, weir_status_name(status),
		    weir_last_error());
	EXPECT_EQ(weir_last_status(), status);
	EXPECT_STR_HAS(weir_last_error(), " ");
	run_expect_unchanged(run, call);
	return false;
}

/* ---- The words scenarios are written in -------------------------------- */

void
run_on(const char *key, unsigned value)
{
	char conf[256];
	uint64_t set = 0;

	snprintf(conf, sizeof(conf), DEVICES ",%s:%u", key, value);
	EXPECT_EQ(setenv("SIMCUDA_CONF", conf, 1), 0);
	EXPECT_EQ(sim()->setting(key, &set), 0);
	EXPECT_EQ(set, value);
}

bool
run_without_context_records(struct run *run)
{
	TRY(run, weir_init());
	struct driver *driver = (struct driver *)driver_peek();
	if (driver != NULL)
		driver->cuCtxRecordEvent = NULL;
	return driver != NULL;
}

static void **
place_of(struct run *run, const void *block)
{
	for (int i = 0; i < RUN_BLOCKS; i++) {
		if (run->blocks[i] == block)
			return &run->blocks[i];
	}
	FAIL("no place for a block");
}

void *
allocate_on(struct run *run, int device, size_t size, weir_stream stream)
{
	void *block;

	run_begin(run);
	block = weir_malloc_on(device, size, stream);
	run_end(
	    run, block != NULL ? WEIR_OK : weir_last_status(), "weir_malloc");
	if (block != NULL)
		*place_of(run, NULL) = block;
	return block;
}

void *
allocate(struct run *run, size_t size, weir_stream stream)
{
	return allocate_on(run, 0, size, stream);
}

static void *
keep_host_block(struct run *run, void *block)
{
	run_end(run, block != NULL ? WEIR_OK : weir_last_status(),
	    "weir_host_malloc");
	if (block != NULL)
		*place_of(run, NULL) = block;
	return block;
}

void *
allocate_host(struct run *run, size_t size, unsigned flags)
{
	run_begin(run);
	return keep_host_block(run, weir_host_malloc_on(0, size, flags));
}

void *
allocate_host_of_current(struct run *run, size_t size)
{
	run_begin(run);
	return keep_host_block(run, weir_host_malloc(size));
}

/* Freeing never fails, whatever else does. */
void
release(struct run *run, void *block)
{
	if (block == NULL)
		return;
	EXPECT_OK(weir_free(block));
	run_expect_whole("weir_free");
	*place_of(run, block) = NULL;
}

void
release_on(struct run *run, void *block, weir_stream stream)
{
	if (block != NULL && TRY(run, weir_free_async(block, stream)))
		*place_of(run, block) = NULL;
}

weir_stream
stream(struct run *run, int i)
{
	if (!run->tried[i])
		TRY(run, weir_stream_create(0, 0, &run->streams[i]));
	run->tried[i] = true;
	return run->streams[i];
}

void
end_stream(struct run *run, int i)
{
	if (run->streams[i] != NULL &&
	    TRY(run, weir_stream_destroy(run->streams[i])))
		run->streams[i] = NULL;
}

/* Work on a block that takes time, although it writes only a page. It may be
 * the call that fails. It needs a context, whichever the thread has. */
bool
work_late(void *block, size_t size, weir_stream on)
{
	const size_t most = 4096;
	struct weir_block_info info = { .struct_size = sizeof(info) };
	struct driver_guard guard;

	if (block == NULL)
		return false;
	EXPECT_OK(weir_block_info(block, &info));
	if (driver_enter(arena_peek(info.device)->context, &guard) != WEIR_OK)
		return false;
	sim()->delay_next(on, 3000000);
	CUresult code = driver_peek()->cuMemsetD8Async(
	    (CUdeviceptr)(uintptr_t)block, 1, size < most ? size : most, on);
	driver_leave(&guard);
	return code == CUDA_SUCCESS;
}

/* ---- One run in one process -------------------------------------------- */

/* Driver events that weir keeps for a device, with timing or without: they are
 * taken until it has to create a new one. */
static long
kept_events_of(
    int device, enum weir_status (*take)(CUcontext context, CUevent *out))
{
	CUcontext context = arena_peek(device)->context;
	long before = sim()->live("event");
	struct driver_guard guard;
	CUevent event;
	long n = -1;

	EXPECT_OK(driver_enter(context, &guard));
	for (; sim()->live("event") == before; n++)
		EXPECT_OK(take(context, &event));
	driver_leave(&guard);
	return n;
}

static long
kept_events(int device)
{
	return kept_events_of(device, event_acquire) +
	    kept_events_of(device, event_acquire_timed);
}

/* Count the events of streams' fences, Note [Fences], and of measured waits:
 * Note [Measured delay]. */
static long
held_events(const struct stream_heap *heap)
{
	return (long)heap->fences.count +
	    2 * (long)atomic_load(&heap->stream->delay.open_count);
}

static long
marked_events(int device)
{
	long n = 0;

	for (struct arena *arena = arena_peek(device); arena != NULL;
	     arena = arena_next(arena)) {
		lock_enter(&arena->lock);
		for (struct list *l = arena->memory.heaps.next;
		     l != &arena->memory.heaps; l = l->next)
			n += held_events(
			    CONTAINER_OF(l, struct stream_heap, link));
		lock_leave(&arena->lock);
	}
	return n;
}

/* Was the nth call refused, of those that destroy events? */
static bool
keeps_event(const char *entry, unsigned n, uint64_t destroyed)
{
	return entry != NULL && strcmp(entry, "cuEventDestroy") == 0 &&
	    n <= destroyed;
}

/* Check that no event was lost, except those that the driver refused to
 * destroy, of this many while faults were met. */
static void
expect_events_kept(const struct fault *fault, uint64_t destroyed)
{
	long live;
	long kept = 0;

	for (int device = 0; device < RUN_DEVICES; device++) {
		if (arena_peek(device) != NULL)
			EXPECT_OK(weir_device_synchronize(device));
	}
	EXPECT_OK(weir_trim(WEIR_DEVICE_ALL, 0, NULL));
	EXPECT_OK(weir_host_trim(WEIR_DEVICE_ALL, 0, NULL));
	live = sim()->live("event");
	for (int device = 0; device < RUN_DEVICES; device++) {
		if (arena_peek(device) != NULL)
			kept += kept_events(device) + marked_events(device);
	}
	live -= keeps_event(fault->entry, fault->n, destroyed);
	live -= keeps_event(fault->second, fault->second_n, destroyed);
	EXPECT_EQ(kept, live);
}

/* Give everything back, with no fault armed. */
static void
clean(struct run *run)
{
	static const char *const kinds[] = { "handle", "mapping", "reservation",
		"allocation", "import", "host" };
	size_t freed;

	run->calm = true;
	TRY(run, weir_ipc_close(run->import, WEIR_STREAM_ANY));
	run->import = NULL;
	for (int i = 0; i < RUN_BLOCKS; i++)
		release(run, run->blocks[i]);
	for (int i = 0; i < RUN_STREAMS; i++) {
		end_stream(run, i);
		run->tried[i] = false;
	}
	if (run->foreign != NULL) {
		TRY(run, weir_stream_retire(run->foreign));
		EXPECT_EQ(
		    driver_peek()->cuStreamDestroy(run->foreign), CUDA_SUCCESS);
		run->foreign = NULL;
	}
	sim()->set_memory(0, DEVICE_BYTES);
	TRY(run, weir_limit_set(0, SIZE_MAX));
	TRY(run, weir_trim(WEIR_DEVICE_ALL, 0, &freed));
	TRY(run, weir_host_trim(WEIR_DEVICE_ALL, 0, &freed));
	EXPECT_EQ(host_stats_now().reserved_bytes.all.current, 0);
	for (int device = 0; device < RUN_DEVICES; device++) {
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
		meta_fail(fault->n, fault->for_ever ? 1000000 : 1);
	else
		EXPECT_EQ(sim()->fail(fault->entry, fault->n,
			      fault->for_ever ? 1000000 : 1, fault->code),
		    0);
	if (fault->second != NULL)
		EXPECT_EQ(
		    sim()->fail(fault->second, fault->second_n, 1, fault->code),
		    0);
}

/* Disarm the fault; was it met? */
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

/* The driver is loaded only once: a failure is reported again each time, except
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
	/* Read the values that the run reads, while everything fails once
	 * before. */
	if (fault->for_ever) {
		struct weir_option option;

		EXPECT_OK(weir_option_at(0, &option));
	}
	arm(fault);
	scenario->play(run);
	EXPECT_EQ(sim()->violations(), 0);
	for (int i = 0; i < SWEEP_ENTRIES; i++)
		result->calls[i] = sim()->calls(sweep_entries[i]);
	uint64_t destroyed = sim()->calls("cuEventDestroy");
	result->met = disarm(fault);
	if (never_loaded(fault))
		return;
	clean(run);
	scenario->play(run);
	clean(run);
	expect_events_kept(fault, destroyed);
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
	/* A failed expectation has been reported already, but without the
	 * fault. */
	if (fault->second != NULL)
		fprintf(stderr, "# besides, %s number %u fails\n",
		    fault->second, fault->second_n);
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

/* The number of the next call or piece that fails. One block may be mapped of a
 * thousand handles: each of the first FEW calls fails, then FEW between any
 * number and its double. WEIR_TEST_EFFORT above 1 leaves out none. */
static unsigned
next_number(unsigned n)
{
	enum { FEW = 32 };

	return test_effort(1) > 1 ? n + 1 : n + 1 + n / FEW;
}

/* The next of `calls`, of which the last is always tried. */
static unsigned
next_call(unsigned n, unsigned calls)
{
	unsigned next = next_number(n);

	return n < calls && next > calls ? calls : next;
}

uint64_t sweep_calls[SWEEP_ENTRIES];

void
sweep_count(const struct scenario *scenario)
{
	struct result *result = result_new();

	play(scenario, &(struct fault){ 0 }, result);
	for (int i = 0; i < SWEEP_ENTRIES; i++)
		sweep_calls[i] += result->calls[i];
}

/* Let each call that the scenario makes without faults fail: `fail` gets the
 * fault without a code, and returns how many runs it made. Some of many equal
 * calls in a row are left out. */
static void
sweep_each_call(const struct scenario *scenario,
    unsigned (*fail)(const struct scenario *scenario, struct fault fault,
	struct result *result))
{
	struct result *result = result_new();
	struct result whole;
	unsigned long runs = 0;
	unsigned long met = 0;

	play(scenario, &(struct fault){ 0 }, result);
	whole = *result;
	for (int i = 0; i < SWEEP_ENTRIES; i++) {
		struct fault fault = { .entry = sweep_entries[i], .n = 1 };
		const unsigned calls = (unsigned)whole.calls[i];

		for (; fault.n <= calls; fault.n = next_call(fault.n, calls))
			if (met++ % test_stride() == test_offset())
				runs += fail(scenario, fault, result);
	}
	fprintf(stderr, "# %s: %lu runs\n", scenario->name, runs);
}

/* Make a call fail with each of two codes. */
static unsigned
fail_with_both(
    const struct scenario *scenario, struct fault fault, struct result *result)
{
	fault.code = CUDA_ERROR_OUT_OF_MEMORY;
	EXPECT(play(scenario, &fault, result));
	fault.code = CUDA_ERROR_UNKNOWN;
	EXPECT(play(scenario, &fault, result));
	return 2;
}

void
sweep_driver(const struct scenario *scenario)
{
	sweep_each_call(scenario, fail_with_both);
}

void
sweep_memory(const struct scenario *scenario)
{
	struct fault fault = { .n = 1 + test_offset() };
	struct result *result = result_new();

	unsigned runs = 0;

	for (; play(scenario, &fault, result); runs++)
		for (unsigned i = 0; i < test_stride(); i++)
			fault.n = next_number(fault.n);
	/* It may request less than the first number of this turn. */
	if (runs == 0)
		EXPECT(play(scenario, &(struct fault){ .n = 1 }, result));
	fprintf(stderr, "# %s: %u runs\n", scenario->name, runs);
}

/* The entry points whose calls may fail for good, so that no queued work is
 * ever done or given back: those of the first use. A call that undoes something
 * would be repeated for ever, or leak, by the driver's own fault. */
static bool
may_fail_for_ever(const char *entry)
{
	static const char *const undoing[] = { "cuMemFree", "cuMemUnmap",
		"cuMemRelease", "cuMemAddressFree", "cuMemFreeHost",
		"cuEventDestroy", "cuStreamDestroy", "cuMemHostUnregister",
		"cuCtxPopCurrent", "cuCtxSetCurrent", "cuGraphDestroy",
		"cuGraphExecDestroy", "cuDevicePrimaryCtxRelease",
		"cuThreadExchangeStreamCaptureMode", "cuStreamEndCapture",
		"cuIpcCloseMemHandle", "cuModuleUnload" };

	for (size_t i = 0; i < sizeof(undoing) / sizeof(undoing[0]); i++)
		if (strcmp(entry, undoing[i]) == 0)
			return false;
	return true;
}

void
sweep_driver_for_ever(const struct scenario *scenario)
{
	struct result *result = result_new();
	struct result whole;
	unsigned long runs = 0;
	unsigned long met = 0;

	play(scenario, &(struct fault){ 0 }, result);
	whole = *result;
	for (int i = 0; i < SWEEP_ENTRIES; i++) {
		const unsigned calls = (unsigned)whole.calls[i];
		const unsigned from[] = { 1, calls / 2, calls };

		for (int k = 0; k < 3; k++) {
			struct fault fault = { .entry = sweep_entries[i],
				.n = from[k],
				.for_ever = true,
				.code = k == 1 ? CUDA_ERROR_UNKNOWN :
						 CUDA_ERROR_OUT_OF_MEMORY };

			if (calls == 0 || from[k] == 0 ||
			    (k > 0 && from[k] == from[k - 1]) ||
			    !may_fail_for_ever(sweep_entries[i]) ||
			    met++ % test_stride() != test_offset())
				continue;
			EXPECT(play(scenario, &fault, result));
			runs++;
		}
	}
	fprintf(stderr, "# %s: %lu runs\n", scenario->name, runs);
}

void
sweep_memory_for_ever(const struct scenario *scenario)
{
	struct fault fault = { .n = 1, .for_ever = true };
	struct result *result = result_new();
	unsigned runs = 0;

	for (; play(scenario, &fault, result); runs++)
		for (unsigned i = 0; i < test_stride(); i++)
			fault.n += fault.n / 2 + 1;
	EXPECT_GT(runs, 0);
	fprintf(stderr, "# %s: %u runs\n", scenario->name, runs);
}

/* A call of an entry point that the scenario uses. */
static unsigned
any_call(const struct result *whole, uint64_t *random, const char **entry)
{
	int i;

	do {
		*random = *random * 6364136223846793005u + 1442695040888963407u;
		i = (int)((*random >> 33) % SWEEP_ENTRIES);
	} while (whole->calls[i] == 0);
	*entry = sweep_entries[i];
	return 1 + (unsigned)((*random >> 20) % (uint64_t)whole->calls[i]);
}

void
sweep_pairs(const struct scenario *scenario)
{
	enum { PAIRS = 24 };
	struct result *result = result_new();
	struct result whole;
	uint64_t random = 7;
	unsigned met = 0;

	play(scenario, &(struct fault){ 0 }, result);
	whole = *result;
	for (unsigned i = 0; i < PAIRS; i++) {
		struct fault fault = { .code = i % 2 == 0 ?
			    CUDA_ERROR_OUT_OF_MEMORY :
			    CUDA_ERROR_UNKNOWN };

		fault.n = any_call(&whole, &random, &fault.entry);
		fault.second_n = any_call(&whole, &random, &fault.second);
		if (i % test_stride() == test_offset() &&
		    strcmp(fault.entry, fault.second) != 0)
			met += play(scenario, &fault, result);
	}
	/* The one pair of a turn may have a second call that is not made. */
	EXPECT(met > 0 || test_stride() > 1);
	fprintf(stderr, "# %s: %u pairs met\n", scenario->name, met);
}

/* Make a call fail, and in the same run each of the last calls that undo
 * something; returns how many runs that were. */
static unsigned
fail_with_undoing(
    const struct scenario *scenario, struct fault fault, struct result *result)
{
	enum { LAST = 3 };
	struct result whole;
	unsigned runs = 0;

	fault.code = CUDA_ERROR_UNKNOWN;
	play(scenario, &fault, result);
	whole = *result;
	for (int i = 0; i < SWEEP_ENTRIES; i++) {
		const unsigned calls = (unsigned)whole.calls[i];

		if (may_fail_for_ever(sweep_entries[i]) ||
		    strcmp(sweep_entries[i], fault.entry) == 0)
			continue;
		fault.second = sweep_entries[i];
		for (unsigned back = 0; back < LAST && back < calls; back++) {
			fault.second_n = calls - back;
			EXPECT(play(scenario, &fault, result));
			runs++;
		}
	}
	return runs;
}

void
sweep_undoing(const struct scenario *scenario)
{
	sweep_each_call(scenario, fail_with_undoing);
}

/* Whether the device is simulated, the simulation is asked, without use of the
 * driver, because children need it unused. */
void
sweep_scenario(const struct scenario *scenario,
    void (*sweep)(const struct scenario *scenario))
{
	setenv("SIMCUDA_CONF", DEVICES, 1);
	if (sim() == NULL)
		SKIP("a GPU's calls cannot be made to fail");
	if (scenario->prepare != NULL)
		scenario->prepare(scenario, sweep);
	else
		sweep(scenario);
}
