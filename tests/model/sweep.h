/*
 * sweep.h - the fault sweep: on every path that calls the driver or allocates
 * host memory, each call fails once.
 *
 * A scenario is an ordinary use of weir. It runs in a separate process for each
 * fault: entry point by entry point the 1st, 2nd, 3rd... call fails, until the
 * scenario runs without meeting a fault; then the same for allocations of host
 * memory. In further runs all calls of an entry point fail from the nth on
 * until the scenario's end, as with a lost device; host memory is missing from
 * the nth piece on; and two distant calls fail. In each run:
 *
 *	each call of weir returns a status and a text, and a failed one has
 *	changed nothing but counters (run_expect_unchanged() has the details)
 *	weir_check() finds no fault after any call
 *	all allocated memory can be freed
 *	the scenario succeeds when it runs again
 *	in the end nothing is held from the driver, and the simulated device
 *	has reported no misuse
 */
#ifndef TESTS_MODEL_SWEEP_H
#define TESTS_MODEL_SWEEP_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/stream.h>

#include "driver/abi.h"
#include "driver/entries.h"

enum { RUN_BLOCKS = 64, RUN_STREAMS = 8, RUN_DEVICES = 2 };

#define MEGABYTE ((size_t)1 << 20)
/* The memory of each device. */
#define DEVICE_BYTES (4096 * MEGABYTE)

/* A failure to inject: the nth call of an entry point returns a code, or,
 * without an entry point, the nth allocation of host memory fails. n is 0: no
 * failure. */
struct fault {
	const char *entry;
	unsigned n;
	CUresult code;
	bool for_ever; /* and all after it */
	/* Another call that fails too; NULL: none. */
	const char *second;
	unsigned second_n;
};

/* One run of a scenario. */
struct run {
	struct fault fault;
	bool calm; /* every call must succeed */
	/* A call allocates and frees more than one block: one that fails may
	 * change sums and peaks, and what is held. */
	bool is_compound;
	void *blocks[RUN_BLOCKS];
	weir_stream streams[RUN_STREAMS];
	bool tried[RUN_STREAMS]; /* for creating that stream */
	weir_stream foreign;
	struct weir_event *event;
	struct weir_ipc_import *import; /* closed at the end at the latest */
	struct weir_stats before[RUN_DEVICES];
	struct weir_stats host_before; /* of page-locked memory, device 0 */
};

struct scenario {
	const char *name;
	void (*play)(struct run *run);
	/* Call `sweep` where the scenario can be played, as beside another
	 * process, or skip the test. NULL: it can be played anywhere. */
	void (*prepare)(const struct scenario *scenario,
	    void (*sweep)(const struct scenario *scenario));
	struct scenario *next; /* of the program's list */
};

/* Add a scenario to the program's list, before main(). */
void sweep_register(struct scenario *scenario);

/* Run one of the sweeps below where the scenario can be played, or skip the
 * test, as without a simulated device. The first call of a test, because the
 * driver must be unused when the test forks. */
void sweep_scenario(const struct scenario *scenario,
    void (*sweep)(const struct scenario *scenario));

/* Fail each driver call that the scenario makes without faults. */
void sweep_driver(const struct scenario *scenario);
/* Fail each allocation of host memory that it makes. */
void sweep_memory(const struct scenario *scenario);

/* Fail the calls of each entry point from the first, the middle and the last
 * on. */
void sweep_driver_for_ever(const struct scenario *scenario);
/* Fail all allocations of host memory from some piece on. */
void sweep_memory_for_ever(const struct scenario *scenario);
/* Fail two calls of any entry points, in some pairs chosen at random, the same
 * in each run. */
void sweep_pairs(const struct scenario *scenario);
/* Fail each call, and in the same run one that undoes something: what weir
 * gives back after the first failure. For short scenarios. */
void sweep_undoing(const struct scenario *scenario);

/* The driver calls that weir may make, in the order of DRIVER_ENTRIES. */
enum {
#define SWEEP_INDEX(name, version, required, params) SWEEP_##name,
	DRIVER_ENTRIES(SWEEP_INDEX)
#undef SWEEP_INDEX
	    SWEEP_ENTRIES
};
extern const char *const sweep_entries[SWEEP_ENTRIES];

/* Run a scenario without faults, and add its calls of each entry to
 * sweep_calls. */
void sweep_count(const struct scenario *scenario);
extern uint64_t sweep_calls[SWEEP_ENTRIES];

/*
 * Count the calls of the registered scenarios, and check that the program makes
 * each call fail that tests/model/reach.c expects of it, and none of those for
 * which reach.c has a reason.
 */
void sweep_reach(const char *program);

/* ---- The words scenarios are written in -------------------------------- */

/* Make a call and check its outcome; true if it succeeded. */
#define TRY(run, call) (run_begin(run), run_end(run, (call), #call))

void run_begin(struct run *run);
bool run_end(struct run *run, enum weir_status status, const char *call);
/* Check that a failed call has changed nothing since run_begin(). */
void run_expect_unchanged(const struct run *run, const char *call);
/* Check that weir_check() finds no fault and simcuda no violation. */
void run_expect_whole(const char *call);

/* Let the simulated device have this setting of SIMCUDA_CONF too. The first
 * call of a scenario, because it has to come before the driver is loaded. */
void run_on(const char *key, unsigned value);
/* Let the driver lack cuCtxRecordEvent(), as before CUDA 12.5. Loads the
 * driver; false if that fails. */
bool run_without_context_records(struct run *run);

/* A block, freed at the end of the run at the latest; or NULL. */
void *allocate_on(struct run *run, int device, size_t size, weir_stream stream);
void *allocate(struct run *run, size_t size, weir_stream stream);

/* Allocate page-locked host memory. */
void *allocate_host(struct run *run, size_t size, unsigned flags);

/* The same, by weir_host_malloc(). */
void *allocate_host_of_current(struct run *run, size_t size);

/* Free it; NULL does nothing. Never fails, whatever else does. */
void release(struct run *run, void *block);
void release_on(struct run *run, void *block, weir_stream stream);

/* The ith stream of the run; the legacy stream for the whole run if it could
 * not be created at first. */
weir_stream stream(struct run *run, int i);
void end_stream(struct run *run, int i);

/* Queue work on a block that takes time. It may be the call that fails. */
bool work_late(void *block, size_t size, weir_stream on);

/* A test of the scenario `played`, whose name is the sentence around that. */
#define SCENARIO_TEST(before, played, after, sweep)                            \
	TEST_TIMEOUT(before##played##after, 300)                               \
	{                                                                      \
		sweep_scenario(&played##_scenario, sweep);                     \
	}

/* The tests of a scenario, play_PLAYED(): one call fails, or all from one on,
 * or two, or there is no host memory. */
#define SCENARIO_TESTS(played) SCENARIO_TESTS_WHERE(played, NULL)

/* The same, played where `where` lets it (scenario.prepare). */
#define SCENARIO_TESTS_WHERE(played, where)                                    \
	static struct scenario played##_scenario = { #played, play_##played,   \
		where, NULL };                                                 \
	__attribute__((constructor)) static void played##_scenario_register(   \
	    void)                                                              \
	{                                                                      \
		sweep_register(&played##_scenario);                            \
	}                                                                      \
	SCENARIO_TEST(each_driver_call_of_, played, _may_fail, sweep_driver)   \
	SCENARIO_TEST(each_piece_of_host_memory_of_, played, _may_be_missing,  \
	    sweep_memory)                                                      \
	SCENARIO_TEST(host_memory_of_, played, _may_be_missing_for_ever,       \
	    sweep_memory_for_ever)                                             \
	SCENARIO_TEST(driver_calls_of_, played, _may_fail_for_ever,            \
	    sweep_driver_for_ever)                                             \
	SCENARIO_TEST(two_calls_of_, played, _may_fail, sweep_pairs)

/* A call fails, and one that undoes what was done before it. */
#define SCENARIO_UNDOING(played)                                               \
	SCENARIO_TEST(                                                         \
	    what_a_failed_call_of_, played, _undoes_may_fail, sweep_undoing)

#endif
