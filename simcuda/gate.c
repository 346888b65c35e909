/*
 * The entry and exit of every call: one lock, a fixed virtual time for each
 * call, injected faults, and the conditions that an entry's flags name.
 */
#include "simcuda/sim.h"

static const struct gate_checks *checks; /* NULL before cuInit() */

void
gate_check_by(const struct gate_checks *by)
{
	checks = by;
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

	gate_lock();
	if (flags & ENTRY_INIT) {
		code = check_state();
		if (code == CUDA_SUCCESS)
			checks->pass_time();
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
		code = checks->refuse_unsafe();
	return code;
}

CUresult
gate_leave(CUresult code)
{
	sim.here = NULL;
	gate_unlock();
	return code;
}
