/*
 * The stage: the driver called directly, for what weir has no calls for.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir/stream.h>

#include "tools/weir/stage.h"
#include "tools/weir/tool.h"

enum {
	/* Uses that end at so many times at once are all exact. */
	TIMERS_MAX = 64,
	/* Nearer than this the host spins: it cannot sleep for less. */
	SPIN_NS = 100000,
	EVENT_NO_TIMING = 2, /* CU_EVENT_DISABLE_TIMING */
};

/* Sleeps for a number of nanoseconds. simcuda knows it by its name. */
static const char sleep_kernel[] = ".version 6.0\n"
				   ".target sm_50\n"
				   ".address_size 64\n"
				   ".visible .entry weir_sleep_ns(\n"
				   "	.param .u64 ns\n"
				   ")\n"
				   "{\n"
				   "	.reg .pred %more;\n"
				   "	.reg .u64 %ns, %start, %now;\n"
				   "	ld.param.u64 %ns, [ns];\n"
				   "	mov.u64 %start, %globaltimer;\n"
				   "again:\n"
				   "	mov.u64 %now, %globaltimer;\n"
				   "	sub.u64 %now, %now, %start;\n"
				   "	setp.lt.u64 %more, %now, %ns;\n"
				   "	@%more bra again;\n"
				   "	ret;\n"
				   "}\n";

/*
 * X(name, parameters): the entry points the stage calls, with handles as
 * plain pointers.
 */
#define STAGE_ENTRIES(X)                                                       \
	X(cuModuleLoadData, (void **, const void *))                           \
	X(cuModuleUnload, (void *))                                            \
	X(cuModuleGetFunction, (void **, void *, const char *))                \
	X(cuLaunchKernel,                                                      \
	    (void *, unsigned, unsigned, unsigned, unsigned, unsigned,         \
		unsigned, unsigned, void *, void **, void **))                 \
	X(cuEventCreate, (void **, unsigned))                                  \
	X(cuEventDestroy_v2, (void *))                                         \
	X(cuEventRecord, (void *, void *))                                     \
	X(cuStreamWaitEvent, (void *, void *, unsigned))                       \
	X(cuMemGetInfo_v2, (size_t *, size_t *))

struct timer {
	weir_stream stream;
	void *event;
	uint64_t free_ns; /* nothing runs on it after that */
};

struct stage {
	void *library;
#define STAGE_FIELD(name, params) int(*name) params;
	STAGE_ENTRIES(STAGE_FIELD)
#undef STAGE_FIELD
	/* Of the simulated device; NULL on a GPU. */
	uint64_t (*sim_now_ns)(void);
	void (*sim_advance_to_ns)(uint64_t time_ns);
	void *module;
	void *sleep;
	struct timer timers[TIMERS_MAX];
	size_t timer_count;
	uint64_t origin_ns; /* of the device's or the host's clock */
	size_t free_bytes;  /* at the origin */
};

/* Complain of a driver call that failed. */
static bool
succeeded(int code, const char *call)
{
	if (weir_check_driver(code) == WEIR_OK)
		return true;
	complain("%s: %s", call, weir_last_error());
	return false;
}

/* ---- Opening --------------------------------------------------------- */

/* POSIX lets a pointer from dlsym() be a function; C has no cast for it. */
static void *
find(struct stage *stage, const char *name, void *function)
{
	void *symbol = dlsym(stage->library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol;
}

static bool
find_entries(struct stage *stage)
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
#define STAGE_FIND(name, params)                                               \
	if (find(stage, #name, &stage->name) == NULL)                          \
		missing = #name;
	STAGE_ENTRIES(STAGE_FIND)
#undef STAGE_FIND
	find(stage, "simcuda_now_ns", &stage->sim_now_ns);
	find(stage, "simcuda_advance_to_ns", &stage->sim_advance_to_ns);
	if (missing == NULL)
		return true;
	complain("%s has no %s", path, missing);
	return false;
}

struct stage *
stage_open(void)
{
	struct stage *stage = calloc(1, sizeof(*stage));

	if (stage == NULL) {
		complain("out of memory");
		return NULL;
	}
	if (weir_set_device(0) != WEIR_OK) {
		complain("%s", weir_last_error());
		goto close;
	}
	if (!find_entries(stage) ||
	    !succeeded(stage->cuModuleLoadData(&stage->module, sleep_kernel),
		"cuModuleLoadData") ||
	    !succeeded(stage->cuModuleGetFunction(
			   &stage->sleep, stage->module, "weir_sleep_ns"),
		"cuModuleGetFunction"))
		goto close;
	return stage;

close:
	stage_close(stage);
	return NULL;
}

void
stage_close(struct stage *stage)
{
	for (size_t i = 0; i < stage->timer_count; i++) {
		stage->cuEventDestroy_v2(stage->timers[i].event);
		weir_stream_destroy(stage->timers[i].stream);
	}
	if (stage->module != NULL)
		stage->cuModuleUnload(stage->module);
	if (stage->library != NULL)
		dlclose(stage->library);
	free(stage);
}

bool
stage_simulated(const struct stage *stage)
{
	return stage->sim_now_ns != NULL;
}

/* ---- Time ------------------------------------------------------------ */

static uint64_t
clock_ns(const struct stage *stage)
{
	struct timespec now;

	if (stage_simulated(stage))
		return stage->sim_now_ns();
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

	if (!succeeded(stage->cuMemGetInfo_v2(&stage->free_bytes, &total),
		"cuMemGetInfo"))
		return false;
	stage->origin_ns = clock_ns(stage);
	return true;
}

void
stage_wait_until(struct stage *stage, uint64_t time_ns)
{
	uint64_t target = stage->origin_ns + time_ns;
	uint64_t now;

	if (stage_simulated(stage)) {
		stage->sim_advance_to_ns(target);
		return;
	}
	while ((now = clock_ns(stage)) < target) {
		uint64_t nap = target - now;
		struct timespec sleep;

		if (nap <= SPIN_NS)
			continue;
		nap -= SPIN_NS;
		sleep.tv_sec = (time_t)(nap / 1000000000u);
		sleep.tv_nsec = (long)(nap % 1000000000u);
		nanosleep(&sleep, NULL);
	}
}

/* ---- Work ------------------------------------------------------------ */

static bool
add_timer(struct stage *stage)
{
	struct timer *timer = &stage->timers[stage->timer_count];

	if (weir_stream_create(0, 0, &timer->stream) != WEIR_OK) {
		complain("%s", weir_last_error());
		return false;
	}
	if (!succeeded(stage->cuEventCreate(&timer->event, EVENT_NO_TIMING),
		"cuEventCreate")) {
		weir_stream_destroy(timer->stream);
		return false;
	}
	timer->free_ns = 0;
	stage->timer_count++;
	return true;
}

/*
 * The timer that is free by `time_ns` and was busy longest, so that others
 * stay for earlier times; a new one if all are busy for longer; if there can
 * be no more, the one that is free first.
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
	if (stage->timer_count == TIMERS_MAX)
		return first;
	return add_timer(stage) ? &stage->timers[stage->timer_count - 1] : NULL;
}

/* A timer that runs until `time_ns`. */
static bool
start_timer(struct stage *stage, uint64_t time_ns, struct timer **out)
{
	struct timer *timer = choose_timer(stage, time_ns);
	uint64_t start_ns = stage_now_ns(stage);
	uint64_t duration_ns;
	void *arguments[] = { &duration_ns };

	if (timer == NULL)
		return false;
	*out = timer;
	if (start_ns < timer->free_ns)
		start_ns = timer->free_ns;
	if (start_ns >= time_ns)
		return true;
	duration_ns = time_ns - start_ns;
	timer->free_ns = time_ns;
	return succeeded(stage->cuLaunchKernel(stage->sleep, 1, 1, 1, 1, 1, 1,
			     0, timer->stream, arguments, NULL),
	    "cuLaunchKernel");
}

bool
stage_occupy(struct stage *stage, weir_stream stream, uint64_t time_ns)
{
	struct timer *timer;

	if (time_ns <= stage_now_ns(stage))
		return true;
	return start_timer(stage, time_ns, &timer) &&
	    succeeded(stage->cuEventRecord(timer->event, timer->stream),
		"cuEventRecord") &&
	    succeeded(stage->cuStreamWaitEvent(stream, timer->event, 0),
		"cuStreamWaitEvent");
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

/* ---- What the driver tells ------------------------------------------- */

bool
stage_driver_held(struct stage *stage, uint64_t *bytes)
{
	size_t free_bytes;
	size_t total;

	if (!succeeded(
		stage->cuMemGetInfo_v2(&free_bytes, &total), "cuMemGetInfo"))
		return false;
	*bytes =
	    free_bytes < stage->free_bytes ? stage->free_bytes - free_bytes : 0;
	return true;
}

json_t *
stage_driver_calls(struct stage *stage)
{
	(void)stage;
	return json_null();
}
