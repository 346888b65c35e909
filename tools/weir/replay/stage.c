/*
 * The stage. It calls the driver directly for work that weir has no calls for.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/stream.h>

#include "simcuda/simcuda.h"
#include "tools/weir/replay/stage.h"
#include "tools/weir/replay/stage_ptx.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

enum {
	/* The most violations that are printed. */
	VIOLATIONS_SHOWN = 10,
	/* The grid of a kernel over many words. */
	THREADS = 256,
	BLOCKS_MAX = 1024,
	FOUND_BYTES = 2 * sizeof(uint32_t),
	/* Words of a pattern that the simulated device compares: all near both
	 * ends, and the first of each so many. */
	PATTERN_EDGE = 16,
	PATTERN_STEP = (2 << 20) / sizeof(uint32_t),
};

/* X(name, symbol, parameters): the entry points that the stage calls. */
#define STAGE_ENTRIES(X)                                                       \
	X(cuModuleLoadData, "cuModuleLoadData", (CUmodule *, const void *))    \
	X(cuModuleUnload, "cuModuleUnload", (CUmodule))                        \
	X(cuModuleGetFunction, "cuModuleGetFunction",                          \
	    (CUfunction *, CUmodule, const char *))                            \
	X(cuLaunchKernel, "cuLaunchKernel",                                    \
	    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,     \
		unsigned, unsigned, CUstream, void **, void **))               \
	X(cuMemsetD8Async, "cuMemsetD8Async",                                  \
	    (CUdeviceptr, unsigned char, size_t, CUstream))                    \
	X(cuEventCreate, "cuEventCreate", (CUevent *, unsigned))               \
	X(cuEventDestroy, "cuEventDestroy_v2", (CUevent))                      \
	X(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                 \
	X(cuStreamWaitEvent, "cuStreamWaitEvent",                              \
	    (CUstream, CUevent, unsigned))                                     \
	X(cuMemGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))               \
	X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                \
	X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                            \
	X(cuMemsetD8, "cuMemsetD8_v2", (CUdeviceptr, unsigned char, size_t))   \
	X(cuMemcpyDtoH, "cuMemcpyDtoH_v2", (void *, CUdeviceptr, size_t))      \
	X(cuCtxSynchronize, "cuCtxSynchronize", (void))

/* An index for each entry point that weir may call. */
enum entry {
#define STAGE_INDEX(name, version, required, params) ENTRY_##name,
	DRIVER_ENTRIES(STAGE_INDEX)
#undef STAGE_INDEX
	    ENTRIES
};

static const char *const entry_names[] = {
#define STAGE_NAME(name, version, required, params) #name,
	DRIVER_ENTRIES(STAGE_NAME)
#undef STAGE_NAME
};

struct timer {
	weir_stream stream;
	uint64_t free_ns; /* the end of its work */
};

struct stage {
	void *library;
#define STAGE_FIELD(name, symbol, params) CUresult(*name) params;
	STAGE_ENTRIES(STAGE_FIELD)
#undef STAGE_FIELD
	struct simcuda_api sim; /* all NULL on a GPU */
	CUmodule module;
	CUfunction sleep;
	CUfunction write;
	CUfunction check;
	CUdeviceptr found;    /* two words of device memory; see stage_ptx.h */
	uint64_t host_words;  /* that differed, by the host's checks */
	uint32_t host_number; /* of the first such block; 0: none */
	struct timer timers[STAGE_TIMERS];
	size_t timer_count;
	/* The values at stage_start(). */
	uint64_t origin_ns;  /* of the device's or the host's clock */
	uint64_t wait_ns;    /* of simcuda */
	uint64_t delayed_ns; /* of simcuda */
	size_t free_bytes;
	uint64_t calls_before[ENTRIES];
	uint64_t own_calls[ENTRIES]; /* the stage's calls since then */
};

/* True if a driver call succeeded; otherwise a complaint. */
static bool
succeeded(int code, const char *call)
{
	if (weir_check_driver(code) == WEIR_OK)
		return true;
	complain("%s: %s", call, weir_last_error());
	return false;
}

/* ---- Opening --------------------------------------------------------- */

/* Put the address of a symbol into the function pointer `function`. POSIX
 * allows this for dlsym(), but C has no cast for it. */
static void *
find_stage_symbol(struct stage *stage, const char *name, void *function)
{
	void *symbol = dlsym(stage->library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol;
}

static bool
find_stage_entries(struct stage *stage)
{
	const char *path = getenv("WEIR_LIBCUDA");
	const char *missing = NULL;

	if (path == NULL || *path == '\0')
		path = "libcuda.so.1";
	stage->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (stage->library == NULL) {
		complain("%s", dlerror());
		return false;
	}
#define STAGE_FIND(name, symbol, params)                                       \
	if (find_stage_symbol(stage, symbol, &stage->name) == NULL)            \
		missing = symbol;
	STAGE_ENTRIES(STAGE_FIND)
#undef STAGE_FIND
#define STAGE_FIND(result, name, params)                                       \
	find_stage_symbol(stage, "simcuda_" #name, &stage->sim.name);
	SIMCUDA_CONTROLS(STAGE_FIND)
#undef STAGE_FIND
	if (missing != NULL)
		complain("%s has no %s", path, missing);
	else if (stage_simulated(stage) &&
	    stage->sim.version() != SIMCUDA_VERSION)
		complain("%s comes from another version of weir", path);
	else
		return true;
	return false;
}

/* Load the kernels, and allocate memory for their results. */
static bool
load_stage_kernels(struct stage *stage)
{
	const struct {
		const char *name;
		CUfunction *function;
	} kernels[] = {
		{ "weir_sleep_ns", &stage->sleep },
		{ "weir_pattern_u32", &stage->write },
		{ "weir_check_pattern_u32", &stage->check },
	};

	if (!succeeded(stage->cuModuleLoadData(&stage->module, stage_ptx),
		"cuModuleLoadData"))
		return false;
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		if (!succeeded(stage->cuModuleGetFunction(kernels[i].function,
				   stage->module, kernels[i].name),
			"cuModuleGetFunction"))
			return false;
	return succeeded(stage->cuMemAlloc(&stage->found, FOUND_BYTES),
		   "cuMemAlloc") &&
	    succeeded(stage->cuMemsetD8(stage->found, 0, FOUND_BYTES),
		"cuMemsetD8") &&
	    succeeded(stage->cuCtxSynchronize(), "cuCtxSynchronize");
}

struct stage *
stage_open(void)
{
	struct stage *stage = calloc(1, sizeof(*stage));

	if (stage == NULL) {
		complain("out of memory");
		return NULL;
	}
	/* A large simulated device: only --limit is to make requests fail. A
	 * SIMCUDA_CONF of the user is kept. */
	setenv("SIMCUDA_CONF", "memory_mb:143360", 0);
	/* Many hardware queues: streams of a GPU that share a queue wait for
	 * each other. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	if (weir_set_device(0) != WEIR_OK) {
		complain("%s", weir_last_error());
		goto close;
	}
	if (!find_stage_entries(stage) || !load_stage_kernels(stage))
		goto close;
	return stage;

close:
	stage_close(stage);
	return NULL;
}

void
stage_close(struct stage *stage)
{
	for (size_t i = 0; i < stage->timer_count; i++)
		weir_stream_destroy(stage->timers[i].stream);
	if (stage->found != 0)
		stage->cuMemFree(stage->found);
	if (stage->module != NULL)
		stage->cuModuleUnload(stage->module);
	if (stage->library != NULL)
		dlclose(stage->library);
	free(stage);
}

bool
stage_simulated(const struct stage *stage)
{
	return stage->sim.version != NULL;
}

/* ---- Driver calls ----------------------------------------------------- */

/* Read the number of calls of each entry point so far; zeros on a GPU. */
static void
count_calls(const struct stage *stage, uint64_t calls[ENTRIES])
{
	for (size_t i = 0; i < ENTRIES; i++)
		calls[i] = stage_simulated(stage) ?
		    stage->sim.calls(entry_names[i]) :
		    0;
}

json_t *
stage_driver_calls(struct stage *stage)
{
	uint64_t calls[ENTRIES];
	json_t *object;

	if (!stage_simulated(stage))
		return json_null();
	object = json_object();
	count_calls(stage, calls);
	for (size_t i = 0; i < ENTRIES; i++) {
		calls[i] -= stage->calls_before[i] + stage->own_calls[i];
		if (calls[i] != 0)
			json_object_set_new(object, entry_names[i],
			    json_integer((json_int_t)calls[i]));
	}
	return object;
}

/* ---- Time ------------------------------------------------------------ */

static uint64_t
clock_ns(const struct stage *stage)
{
	struct timespec now;

	if (stage_simulated(stage))
		return stage->sim.now_ns();
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t
stage_now_ns(struct stage *stage)
{
	return clock_ns(stage) - stage->origin_ns;
}

bool
stage_start(struct stage *stage)
{
	size_t total;

	if (!succeeded(stage->cuMemGetInfo(&stage->free_bytes, &total),
		"cuMemGetInfo"))
		return false;
	count_calls(stage, stage->calls_before);
	memset(stage->own_calls, 0, sizeof(stage->own_calls));
	if (stage_simulated(stage)) {
		stage->wait_ns = stage->sim.wait_ns();
		stage->delayed_ns = stage->sim.delayed_ns();
	}
	stage->origin_ns = clock_ns(stage);
	return true;
}

bool
stage_finish(struct stage *stage, uint64_t *stalled_ns, uint64_t *delayed_ns)
{
	stage->own_calls[ENTRY_cuCtxSynchronize]++;
	if (!succeeded(stage->cuCtxSynchronize(), "cuCtxSynchronize"))
		return false;
	*stalled_ns = 0;
	*delayed_ns = 0;
	if (!stage_simulated(stage))
		return true;
	*stalled_ns = stage->sim.wait_ns() - stage->wait_ns;
	*delayed_ns = stage->sim.delayed_ns() - stage->delayed_ns;
	return true;
}

void
stage_wait_until(struct stage *stage, uint64_t time_ns)
{
	uint64_t target = stage->origin_ns + time_ns;
	uint64_t now;

	if (stage_simulated(stage)) {
		stage->sim.advance_to_ns(target);
		return;
	}
	while ((now = clock_ns(stage)) < target) {
		uint64_t nap = target - now;
		struct timespec sleep;

		if (nap <= STAGE_SPIN_NS)
			continue;
		nap -= STAGE_SPIN_NS;
		sleep.tv_sec = (time_t)(nap / 1000000000u);
		sleep.tv_nsec = (long)(nap % 1000000000u);
		nanosleep(&sleep, NULL);
	}
}

/* ---- Work ------------------------------------------------------------ */

/* Set whether simcuda counts waits of this thread as weir's. */
static void
count_waits(struct stage *stage, bool counted)
{
	if (stage_simulated(stage))
		stage->sim.count_waits(counted);
}

/* Make a wait that does not count as weir's. */
static bool
make_wait(struct stage *stage, weir_stream stream, CUevent event)
{
	bool done;

	count_waits(stage, false);
	stage->own_calls[ENTRY_cuStreamWaitEvent]++;
	done = succeeded(
	    stage->cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
	count_waits(stage, true);
	return done;
}

bool
stage_order(struct stage *stage, weir_stream stream, weir_stream other)
{
	enum weir_status status;

	count_waits(stage, false);
	status = weir_stream_wait_stream(stream, other);
	count_waits(stage, true);
	if (status == WEIR_OK)
		return true;
	complain("%s", weir_last_error());
	return false;
}

static bool
make_timer(struct timer *timer)
{
	if (weir_stream_create(0, 0, &timer->stream) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	timer->free_ns = 0;
	return true;
}

/* Count the calls that weir has made since `before` as the stage's. */
static void
own_calls_since(struct stage *stage, const uint64_t *before)
{
	uint64_t after[ENTRIES];

	count_calls(stage, after);
	for (size_t i = 0; i < ENTRIES; i++)
		stage->own_calls[i] += after[i] - before[i];
}

static bool
add_timer(struct stage *stage)
{
	uint64_t before[ENTRIES];

	count_calls(stage, before);
	if (!make_timer(&stage->timers[stage->timer_count]))
		return false;
	own_calls_since(stage, before);
	stage->timer_count++;
	return true;
}

/*
 * Choose a timer that is free at `time_ns`: the one that is busy longest, so
 * that the others stay free for earlier times. If all timers are busy at that
 * time, make a new one; if there are STAGE_TIMERS, choose the one that is free
 * first.
 */
static struct timer *
choose_timer(struct stage *stage, uint64_t time_ns)
{
	struct timer *best = NULL;
	struct timer *first = NULL;

	for (size_t i = 0; i < stage->timer_count; i++) {
		struct timer *timer = &stage->timers[i];

		if (timer->free_ns <= time_ns &&
		    (best == NULL || timer->free_ns > best->free_ns))
			best = timer;
		if (first == NULL || timer->free_ns < first->free_ns)
			first = timer;
	}
	if (best != NULL)
		return best;
	if (stage->timer_count == STAGE_TIMERS)
		return first;
	return add_timer(stage) ? &stage->timers[stage->timer_count - 1] : NULL;
}

bool
stage_work(struct stage *stage, weir_stream stream, uint64_t duration_ns)
{
	void *arguments[] = { &duration_ns };

	stage->own_calls[ENTRY_cuLaunchKernel]++;
	return succeeded(stage->cuLaunchKernel(stage->sleep, 1, 1, 1, 1, 1, 1,
			     0, stream, arguments, NULL),
	    "cuLaunchKernel");
}

/* Let a timer run until `time_ns`. */
static bool
start_timer(struct stage *stage, uint64_t time_ns, struct timer **out)
{
	struct timer *timer = choose_timer(stage, time_ns);
	uint64_t start_ns = stage_now_ns(stage);

	if (timer == NULL)
		return false;
	*out = timer;
	if (start_ns < timer->free_ns)
		start_ns = timer->free_ns;
	if (start_ns >= time_ns)
		return true;
	timer->free_ns = time_ns;
	return stage_work(stage, timer->stream, time_ns - start_ns);
}

bool
stage_occupy(struct stage *stage, weir_stream stream, uint64_t time_ns)
{
	uint64_t before[ENTRIES];
	struct timer *timer;

	if (time_ns <= stage_now_ns(stage))
		return true;
	if (!start_timer(stage, time_ns, &timer))
		return false;
	/* The wait is made by weir, so that weir knows for which stream this
	 * one waits. weir measures the cost of its own waits against that. */
	count_calls(stage, before);
	if (!stage_order(stage, stream, timer->stream))
		return false;
	own_calls_since(stage, before);
	return stage_work(stage, stream, 0);
}

bool
stage_busy_stream(struct stage *stage, uint64_t time_ns, weir_stream *out)
{
	struct timer *timer;

	if (!start_timer(stage, time_ns, &timer))
		return false;
	*out = timer->stream;
	return true;
}

/* Let `stream` wait for the event of `mark`, or create the event. */
static bool
follow_mark(struct stage *stage, weir_stream stream, void **mark)
{
	if (*mark != NULL)
		return make_wait(stage, stream, *mark);
	stage->own_calls[ENTRY_cuEventCreate]++;
	return succeeded(
	    stage->cuEventCreate((CUevent *)mark, CU_EVENT_DISABLE_TIMING),
	    "cuEventCreate");
}

bool
stage_touch(struct stage *stage, weir_stream stream, void *address, size_t size,
    void **mark)
{
	size_t edge = size < STAGE_EDGE ? size : STAGE_EDGE;
	CUdeviceptr first = (CUdeviceptr)(uintptr_t)address;
	CUdeviceptr last = first + size - edge;

	if (mark != NULL && !follow_mark(stage, stream, mark))
		return false;
	stage->own_calls[ENTRY_cuMemsetD8Async] += 2;
	if (!succeeded(stage->cuMemsetD8Async(first, 1, edge, stream),
		"cuMemsetD8Async") ||
	    !succeeded(stage->cuMemsetD8Async(last, 1, edge, stream),
		"cuMemsetD8Async"))
		return false;
	if (mark == NULL)
		return true;
	stage->own_calls[ENTRY_cuEventRecord]++;
	return succeeded(stage->cuEventRecord(*mark, stream), "cuEventRecord");
}

/* Launch a kernel over the words of a block. The size is rounded up to whole
 * words, which lie in the block's granules. */
static bool
run_over(struct stage *stage, CUfunction kernel, weir_stream stream,
    const struct stage_block *block)
{
	CUdeviceptr address = (CUdeviceptr)(uintptr_t)block->address;
	uint64_t n = (block->size + 3) / 4;
	uint32_t number = block->number;
	void *arguments[] = { &address, &number, &n, &stage->found };
	uint64_t grid = (n + THREADS - 1) / THREADS;

	if (grid > BLOCKS_MAX)
		grid = BLOCKS_MAX;
	stage->own_calls[ENTRY_cuLaunchKernel]++;
	return succeeded(stage->cuLaunchKernel(kernel, (unsigned)grid, 1, 1,
			     THREADS, 1, 1, 0, stream, arguments, NULL),
	    "cuLaunchKernel");
}

bool
stage_write(struct stage *stage, weir_stream stream,
    const struct stage_block *block, void **mark)
{
	if (!run_over(stage, stage->write, stream, block))
		return false;
	if (mark == NULL)
		return true;
	if (*mark == NULL && !follow_mark(stage, stream, mark))
		return false;
	stage->own_calls[ENTRY_cuEventRecord]++;
	return succeeded(stage->cuEventRecord(*mark, stream), "cuEventRecord");
}

bool
stage_verify(struct stage *stage, weir_stream stream,
    const struct stage_block *block, void *mark, bool again)
{
	if (mark != NULL && !make_wait(stage, stream, mark))
		return false;
	if (!run_over(stage, stage->check, stream, block))
		return false;
	if (mark == NULL || !again)
		return true;
	stage->own_calls[ENTRY_cuEventRecord]++;
	return succeeded(stage->cuEventRecord(mark, stream), "cuEventRecord");
}

/* The next word of a pattern after `i`, of n, that the host writes and
 * verifies: all words on a GPU, and those that count on the simulated device,
 * to save memory. */
static uint64_t
next_word(const struct stage *stage, uint64_t i, uint64_t n)
{
	uint64_t last_edge = n > PATTERN_EDGE ? n - PATTERN_EDGE : 0;
	uint64_t next = (i / PATTERN_STEP + 1) * PATTERN_STEP;

	if (!stage_simulated(stage) || i + 1 < PATTERN_EDGE ||
	    i + 1 >= last_edge)
		return i + 1;
	return next < last_edge ? next : last_edge;
}

static uint32_t
pattern_word(const struct stage_block *block, uint64_t i)
{
	return (block->number * 0x9e3779b1u + (uint32_t)i) * 0x85ebca6bu;
}

void
stage_host_write(struct stage *stage, const struct stage_block *block)
{
	uint64_t n = (block->size + 3) / 4;
	uint32_t *words = block->address;

	for (uint64_t i = 0; i < n; i = next_word(stage, i, n))
		words[i] = pattern_word(block, i);
}

void
stage_host_verify(struct stage *stage, const struct stage_block *block)
{
	uint64_t n = (block->size + 3) / 4;
	const uint32_t *words = block->address;
	uint64_t bad = 0;

	for (uint64_t i = 0; i < n; i = next_word(stage, i, n))
		bad += words[i] != pattern_word(block, i);
	if (bad > 0 && stage->host_number == 0)
		stage->host_number = block->number;
	stage->host_words += bad;
}

bool
stage_mismatches(struct stage *stage, uint64_t *words, uint32_t *number)
{
	uint32_t found[2];

	if (!succeeded(stage->cuCtxSynchronize(), "cuCtxSynchronize") ||
	    !succeeded(stage->cuMemcpyDtoH(found, stage->found, FOUND_BYTES),
		"cuMemcpyDtoH"))
		return false;
	*words = found[0] + stage->host_words;
	*number = found[1] != 0 ? found[1] : stage->host_number;
	return true;
}

void
stage_unmark(struct stage *stage, void **mark)
{
	if (*mark == NULL)
		return;
	stage->own_calls[ENTRY_cuEventDestroy]++;
	stage->cuEventDestroy(*mark);
	*mark = NULL;
}

unsigned
stage_violations(struct stage *stage)
{
	unsigned count;

	if (!stage_simulated(stage))
		return 0;
	count = stage->sim.violations();
	for (unsigned i = 0; i < count && i < VIOLATIONS_SHOWN; i++)
		complain("%s", stage->sim.violation_text(i));
	return count;
}

/* ---- The driver's count of memory ------------------------------------ */

bool
stage_driver_held(struct stage *stage, uint64_t *bytes)
{
	size_t free_bytes;
	size_t total;

	stage->own_calls[ENTRY_cuMemGetInfo]++;
	if (!succeeded(
		stage->cuMemGetInfo(&free_bytes, &total), "cuMemGetInfo"))
		return false;
	*bytes =
	    free_bytes < stage->free_bytes ? stage->free_bytes - free_bytes : 0;
	return true;
}
