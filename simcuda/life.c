/*
 * The states of the simulated driver: new, ready after cuInit(), unusable in a
 * forked child, ended at exit.
 */
#include <pthread.h>
#include <stdlib.h>

#include "simcuda/capture.h"
#include "simcuda/joint.h"

static void
before_fork(void)
{
	gate_lock();
}

static void
after_fork_in_parent(void)
{
	gate_unlock();
}

/* The device belongs to the parent; the child cannot use it. */
static void
after_fork_in_child(void)
{
	if (sim.state == SIM_READY)
		sim.state = SIM_FORKED;
	joint_leave_in_child();
	gate_unlock();
}

static void
at_exit(void)
{
	gate_lock();
	sim.state = SIM_ENDED;
	gate_unlock();
}

static void
pass_time(void)
{
	time_spend(conf.call_ns);
	time_run(false);
}

static const struct gate_checks checks = { pass_time, capture_unsafe };

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
	if (conf_shared_device[0] != '\0' && !joint_begin(conf_shared_device))
		return CUDA_ERROR_OPERATING_SYSTEM;
	sim.n_devices = (int)conf.devices;
	event_hold_all(conf.seed, conf.hold_ns);
	gate_check_by(&checks);
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
