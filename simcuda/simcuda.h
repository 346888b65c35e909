/*
 * simcuda's controls: calls by which a test changes the simulated device and
 * reads its state.
 *
 * simcuda's libcuda.so.1 exports these in addition to the driver's symbols. A
 *test finds them with dlsym() on the driver library, so that the same program
 *runs on a GPU, where they are missing; tests/support/sim.h does that for all
 *of SIMCUDA_CONTROLS at once.
 *
 * Environment: SIMCUDA_CONF="key:value,key:value", read by cuInit(). cuInit()
 * reports a wrong key or value on stderr and returns INVALID_VALUE.
 *
 *	memory_mb	16384	memory of each device; mappings are of 2 MiB
 *	devices		1	number of devices, to 16; 0: cuInit() fails
 *	version		13000	what cuDriverGetVersion() says
 *	call_ns		100	virtual time each call takes
 *	launch_ns	3000	from a call to the start of its operation
 *	device_gbps	4000	bandwidth of device memory, GB/s
 *	host_gbps	50	bandwidth between host and device, GB/s
 *	uninitialized	0	1: reading unwritten memory is a violation
 *	fabric		0	1: memory can have fabric handles; 2: the device
 *				says so, but the system is not set up for them
 *	rdma		0	1: GPUDirect RDMA works with mapped memory
 *	reuse		0	1: the number of a handle of memory that is gone
 *				is used again at once
 *	abort		0	1: abort() at the first violation
 *	verbose		0	1: print violations on stderr, and calls that
 *				are not simulated
 *	processes	0	number of other processes that NVML lists
 *	process_mb	512	memory that each of them holds
 *	context_mb	0	memory that each context takes of its device
 *	hold_ns		0	call hold_events(seed, hold_ns) at the start
 *	seed		1	seed of all random choices
 *	fail_every	0	N: every Nth call that fail_any() counts gives
 *				OUT_OF_MEMORY; 0: none
 *	shared_device	none	a file, made if there is none: all processes
 *				with this file share the memory of each device
 *
 * Each call of the driver's API exists. Calls that are not simulated fail with
 * CUDA_ERROR_NOT_SUPPORTED; unsimulated.h lists them.
 *
 * Virtual time starts at a fixed value at cuInit(). It advances only when the
 * host waits, makes a call, or advances it here. No thread sleeps.
 */
#ifndef SIMCUDA_SIMCUDA_H
#define SIMCUDA_SIMCUDA_H

#include <stddef.h>
#include <stdint.h>

#include "driver/abi.h"

/* The version of this interface; simcuda_version() returns it. */
enum { SIMCUDA_VERSION = 3 };

/*
 * X(result, name, parameters), each exported as simcuda_NAME. All may be
 * called from any thread, also before cuInit().
 *
 * version()		SIMCUDA_VERSION. The symbol shows that this is simcuda.
 * now_ns()		the virtual time.
 * advance_ns(ns)	let virtual time pass, and execute what is due by then.
 * advance_to_ns(t)	advance_ns() to a time; does nothing if it has passed.
 * finish()		let time pass until no operation is pending. The host
 *			does not learn that: this is no synchronisation.
 * wait_ns()		how long cuStreamWaitEvent() has blocked streams, the
 *			sum over all of them: each wait counts from when it was
 *			submitted and all work before it was done, until its
 *			event had happened. It counts as soon as that time is
 *			known, possibly before virtual time reaches it.
 * delayed_ns()		how much later the next work of the waiting streams
 *			started because of these waits.
 * count_waits(counted)	0: leave out the waits that the calling thread puts on
 *			streams from now on. 1: count them again.
 *
 * calls(entry)		number of calls of an entry point so far, by base name
 *			("cuMemAlloc" counts cuMemAlloc_v2), including failed
 *			ones; NULL: of all entry points.
 * fail(entry, nth, count, code)
 *			make `count` calls of `entry` fail, beginning with the
 *			nth from now on (1 is the next). They return `code` and
 *			do nothing else. Several faults may be set at a time.
 *			Returns 0, or -1 if there is no such entry.
 * fail_any(nth, code)	make one call fail: the nth from now on of any entry
 *			that can fail for lack of a resource. 0 cancels that.
 * faults()		number of calls that were made to fail so far.
 *
 * delay_next(stream, ns)
 *			make the stream's next operation take `ns` longer.
 *			CUDA_ERROR_INVALID_HANDLE if there is no such stream.
 * hold_event(event, ns)
 *			let the host see the event's next record `ns` after it
 *			has happened; the device sees it in time.
 * hold_events(seed, max_ns)
 *			hold_event() for all records from now on, each by a
 *			pseudo-random time up to max_ns, so that completions
 *			are seen late and out of order. max_ns 0 ends this.
 *
 * guard_graphs(on)	1: freeing or unmapping memory that an executable graph
 *			uses is a violation, even if the graph is not launched
 *			again. 0, the default: it is none.
 * host_touch(address, size, write)
 *			report that the host accesses page-locked memory now,
 *			which the simulator cannot see. It is a race if work on
 *			the device accesses the bytes and the host has not
 *			waited for it, or it is not ordered after this call.
 *
 * violations()		number of the program's faults found so far: a race,
 *			use of memory that is unmapped or freed, freeing or
 *			unmapping memory that pending work uses, reading memory
 *			that was never written.
 * violation_text(i)	text of the ith violation, which is never freed; NULL
 *			if there are fewer. The first 1000 have texts.
 *
 * reset()		drop counters, faults to come, held events and
 *			violations; the device's state is not changed.
 *
 * memory_used(device)	bytes of the device that are in use.
 * memory_used_by_all(device)
 *			bytes that all processes have in use, with
 *			shared_device; else memory_used().
 * live(kind)		number of live objects: "context", "stream", "event",
 *			"module", "graph", "exec", "handle", "pool", "mapping",
 *			"reservation", "allocation", "import" (opened by
 *			cuIpcOpenMemHandle()), "host". -1: no such kind.
 * set_memory(device, bytes)
 *			change the device's limit; memory in use stays.
 * setting(key, value)	the value of a key of SIMCUDA_CONF, or its default. -1
 *			if there is no such key or SIMCUDA_CONF is wrong.
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
	X(size_t, memory_used_by_all, (int device))                            \
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
