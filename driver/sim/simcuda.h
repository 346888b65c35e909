/*
 * simcuda's controls: calls by which a test changes the simulated device and
 * reads its state, beside the driver's own.
 *
 * libcuda.so.1 of simcuda exports these beside the driver's symbols. A test
 * finds them with dlsym() on the driver library, so that the same program runs
 * on a GPU, where they are missing; tests/support/sim.h does that for all of
 * SIMCUDA_CONTROLS at once.
 *
 * Environment: SIMCUDA_CONF="key:value,key:value", read by cuInit(). cuInit()
 * reports a wrong key or value on stderr and gives INVALID_VALUE.
 *
 *	memory_mb	16384	memory of each device; mappings are of 2 MiB
 *	devices		1	number of devices, to 16; 0: cuInit() fails
 *	version		13000	what cuDriverGetVersion() says
 *	call_ns		100	virtual time each call takes
 *	launch_ns	3000	from a call to the start of its operation
 *	device_gbps	4000	bandwidth of device memory, GB/s
 *	host_gbps	50	bandwidth between host and device, GB/s
 *	uninitialized	0	1: reading memory never written is a violation
 *	fabric		0	1: memory can have fabric handles; 2: the device
 *				says so, but the system is not set up for them
 *	rdma		0	1: GPUDirect RDMA works with mapped memory
 *	abort		0	1: abort() at the first violation
 *	verbose		0	1: print violations on stderr, and calls that
 *				are not simulated
 *	processes	0	number of other processes that NVML lists
 *	process_mb	512	memory that each of them holds
 *	hold_ns		0	as hold_events(seed, hold_ns) from the start
 *	seed		1	seed of all random choices
 *	fail_every	0	N: every Nth call that fail_any() counts gives
 *				OUT_OF_MEMORY; 0: none
 *
 * Each call of the driver's API is there. Those that are not simulated fail
 * with CUDA_ERROR_NOT_SUPPORTED; unsimulated.h lists them.
 *
 * Virtual time starts at a fixed value at cuInit() and moves only when the
 * host waits, calls, or advances it here. Nothing sleeps.
 */
#ifndef DRIVER_SIM_SIMCUDA_H
#define DRIVER_SIM_SIMCUDA_H

#include <stddef.h>
#include <stdint.h>

#include "driver/abi.h"

/* The version of this interface; simcuda_version() returns it. */
enum { SIMCUDA_VERSION = 3 };

/*
 * X(result, name, parameters), each exported as simcuda_NAME. All may be
 * called from any thread, before cuInit() too.
 *
 * version()		SIMCUDA_VERSION; that it is there means simulation.
 * now_ns()		virtual time.
 * advance_ns(ns)	let virtual time pass: what is due by then happens.
 * advance_to_ns(t)	the same up to a time; nothing if that has passed.
 * finish()		let time pass until no operation is pending, without
 *			the host coming to know it: it is no synchronisation.
 * wait_ns()		for how long cuStreamWaitEvent() has kept streams from
 *			going on, the sum over all of them: each wait from when
 *			it was submitted and all work before it was done, until
 *			its event had happened. A wait counts as soon as that
 *			time is known, which may be before it has come.
 * delayed_ns()		by how much these waits made the next work of their own
 *			streams start later than it would have otherwise.
 * count_waits(counted)	0: the waits that the calling thread puts on streams
 *			from now on are left out of that. 1: they count again.
 *
 * calls(entry)		calls of an entry point so far by its base name
 *			("cuMemAlloc" counts cuMemAlloc_v2), failed ones too;
 *			all of them for NULL.
 * fail(entry, nth, count, code)
 *			of the next calls of `entry` the nth (1 is the next)
 *			and those after it, `count` in all, fail with `code`
 *			and do nothing else. Several may be set at once. 0 if
 *			set, -1 if there is no such entry.
 * fail_any(nth, code)	the nth next call to any entry that can fail for want
 *			of something, once. 0 takes it back.
 * faults()		how many calls were failed so far.
 *
 * delay_next(stream, ns)
 *			the next operation of the stream takes `ns` longer.
 *			CUDA_ERROR_INVALID_HANDLE if there is none.
 * hold_event(event, ns)
 *			the next record of the event is seen by the host `ns`
 *			after it happened; the device sees it in time.
 * hold_events(seed, max_ns)
 *			the same for all records from now on, each by a pseudo
 *			random time up to max_ns: completions come late and out
 *			of order. max_ns 0 ends it.
 *
 * guard_graphs(on)	1: freeing or unmapping memory that an executable graph
 *			in being works with is a violation, whether it is
 *			launched again or not. 0, and at first: it is none.
 * host_touch(address, size, write)
 *			the host reads or writes page-locked memory of its own
 *			right now, which only it knows: a race, if work on the
 *			device touches the bytes that the host has not waited
 *			for, or that does not come after this.
 *
 * violations()		faults of the program found so far: a race, use of
 *			memory that is unmapped or freed, freeing or unmapping
 *			what pending work uses, reading what was never written.
 * violation_text(i)	the ith, for ever; NULL if there are fewer. The first
 *			1000 are kept.
 *
 * reset()		forget counters, faults to come, held events and
 *			violations; the device's state stays.
 *
 * memory_used(device)	bytes of the device that are in use.
 * live(kind)		objects in being: "context", "stream", "event",
 *			"module", "graph", "exec", "handle", "pool", "mapping",
 *			"reservation", "allocation", "host". -1: no such kind.
 * set_memory(device, bytes)
 *			give the device another limit; what is in use stays.
 * setting(key, value)	what SIMCUDA_CONF says of a key, or its default. -1 if
 *			there is no such key or SIMCUDA_CONF is wrong.
 */
#define SIMCUDA_CONTROLS(X)                                                    \
	X(int, version, (void))                                                \
	X(uint64_t, now_ns, (void))                                            \
	X(void, advance_ns, (uint64_t ns))                                     \
	X(void, advance_to_ns, (uint64_t time_ns))                             \
	X(void, finish, (void))                                                \
	X(uint64_t, wait_ns, (void))                                           \
	X(uint64_t, delayed_ns, (void))                                        \
	X(void, count_waits, (int counted))                                    \
	X(uint64_t, calls, (const char *entry))                                \
	X(int, fail,                                                           \
	    (const char *entry, unsigned nth, unsigned count, CUresult code))  \
	X(void, fail_any, (unsigned nth, CUresult code))                       \
	X(uint64_t, faults, (void))                                            \
	X(CUresult, delay_next, (CUstream stream, uint64_t ns))                \
	X(CUresult, hold_event, (CUevent event, uint64_t ns))                  \
	X(void, hold_events, (uint64_t seed, uint64_t max_ns))                 \
	X(void, guard_graphs, (int on))                                        \
	X(void, host_touch, (const void *address, size_t size, int write))     \
	X(unsigned, violations, (void))                                        \
	X(const char *, violation_text, (unsigned i))                          \
	X(void, reset, (void))                                                 \
	X(size_t, memory_used, (int device))                                   \
	X(long, live, (const char *kind))                                      \
	X(CUresult, set_memory, (int device, size_t bytes))                    \
	X(int, setting, (const char *key, uint64_t *value))

#define SIMCUDA_DECLARE(result, name, params)                                  \
	__attribute__((visibility("default"))) result simcuda_##name params;
SIMCUDA_CONTROLS(SIMCUDA_DECLARE)
#undef SIMCUDA_DECLARE

/* These calls as function pointers, for programs that use dlsym(). */
struct simcuda_api {
#define SIMCUDA_FIELD(result, name, params) result(*name) params;
	SIMCUDA_CONTROLS(SIMCUDA_FIELD)
#undef SIMCUDA_FIELD
};

#endif
