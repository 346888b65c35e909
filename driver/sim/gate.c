/*
 * The entry and exit of every call: one lock, a fixed virtual time for each
 * call, injected faults, and the conditions that an entry's flags name. Also
 * the states of the simulated driver: new, ready after cuInit(), unusable in a
 * forked child, ended at exit.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/sim/capture.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct sim sim;

void
gate_lock(void)
{
	pthread_mutex_lock(&lock);
}

void
gate_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void
gate_pause(void)
{
	enum { PAUSE_US = 50 };

	pthread_mutex_unlock(&lock);
	usleep(PAUSE_US);
	pthread_mutex_lock(&lock);
}

void
gate_wait(pthread_cond_t *condition)
{
	pthread_cond_wait(condition, &lock);
}

static CUresult
check_state(void)
{
	switch (sim.state) {
	case SIM_READY:
		break;
	case SIM_ENDED:
		return CUDA_ERROR_DEINITIALIZED;
	default:
		return CUDA_ERROR_NOT_INITIALIZED;
	}
	if (thread_self()->in_host_function)
		return CUDA_ERROR_NOT_PERMITTED;
	return CUDA_SUCCESS;
}

CUresult
gate_enter(enum sim_entry entry)
{
	unsigned flags = sim_entries[entry].flags;
	CUresult code = CUDA_SUCCESS;

	pthread_mutex_lock(&lock);
	if (flags & ENTRY_INIT) {
		code = check_state();
		if (code == CUDA_SUCCESS) {
			time_spend(conf.call_ns);
			time_run(false);
		}
	}
	if (code == CUDA_SUCCESS || (flags & ENTRY_INIT) == 0)
		code = fault_next(entry);
	else
		fault_count(entry);
	if (code == CUDA_SUCCESS && (flags & ENTRY_CONTEXT) == ENTRY_CONTEXT) {
		sim.here = context_current(&code);
		if (sim.here == NULL)
			return code;
	}
	if (code == CUDA_SUCCESS && (flags & ENTRY_UNSAFE))
		code = capture_unsafe();
	return code;
}

CUresult
gate_leave(CUresult code)
{
	sim.here = NULL;
	pthread_mutex_unlock(&lock);
	return code;
}

/* ---- the driver's life -------------------------------------------------- */

static void
before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void
after_fork_in_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/* The device belongs to the parent; the child cannot use it. */
static void
after_fork_in_child(void)
{
	if (sim.state == SIM_READY)
		sim.state = SIM_FORKED;
	pthread_mutex_unlock(&lock);
}

static void
at_exit(void)
{
	pthread_mutex_lock(&lock);
	sim.state = SIM_ENDED;
	pthread_mutex_unlock(&lock);
}

static CUresult
init(unsigned flags)
{
	static bool handlers;

	if (sim.state == SIM_READY)
		return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	if (sim.state == SIM_FORKED)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (sim.state == SIM_ENDED)
		return CUDA_ERROR_DEINITIALIZED;
	if (flags != 0 || !conf_read())
		return CUDA_ERROR_INVALID_VALUE;
	if (conf.devices == 0)
		return CUDA_ERROR_NO_DEVICE;
	for (int i = 0; i < (int)conf.devices; i++) {
		if (!device_init(&sim.devices[i], i))
			return CUDA_ERROR_OPERATING_SYSTEM;
	}
	if (!device_init(&sim.machine, SPACE_MACHINE))
		return CUDA_ERROR_OPERATING_SYSTEM;
	sim.n_devices = (int)conf.devices;
	event_hold_all(conf.seed, conf.hold_ns);
	sim.state = SIM_READY;
	if (!handlers) {
		handlers = true;
		atexit(at_exit);
		pthread_atfork(
		    before_fork, after_fork_in_parent, after_fork_in_child);
	}
	return CUDA_SUCCESS;
}

CUresult
cuInit(unsigned int flags)
{
	CUresult code = gate_enter(E_cuInit);

	if (code == CUDA_SUCCESS)
		code = init(flags);
	return gate_leave(code);
}

CUresult
cuDriverGetVersion(int *version)
{
	CUresult code = gate_enter(E_cuDriverGetVersion);

	if (code == CUDA_SUCCESS && version == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	/* The version may be queried before cuInit(), so this call reads the
	 * configuration. */
	if (code == CUDA_SUCCESS && sim.state == SIM_NEW && !conf_read())
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*version = (int)conf.version;
	return gate_leave(code);
}
