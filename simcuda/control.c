/*
 * The controls of simcuda.h that belong to no other file.
 */
#include <string.h>

#include "simcuda/sim.h"

int
simcuda_version(void)
{
	return SIMCUDA_VERSION;
}

void
simcuda_reset(void)
{
	gate_lock();
	fault_reset();
	wait_reset();
	violation_reset();
	event_hold_all(0, 0);
	gate_unlock();
}

static long
count_objects(const char *kind)
{
	static const struct {
		const char *name;
		enum handle_kind kind;
	} handles[] = {
		{ "context", HANDLE_CONTEXT },
		{ "stream", HANDLE_STREAM },
		{ "event", HANDLE_EVENT },
		{ "module", HANDLE_MODULE },
		{ "graph", HANDLE_GRAPH },
		{ "exec", HANDLE_EXEC },
		{ "handle", HANDLE_PHYS },
		{ "pool", HANDLE_POOL },
	};

	for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++) {
		if (strcmp(handles[i].name, kind) == 0)
			return handle_count(handles[i].kind);
	}
	if (strcmp(kind, "reservation") == 0)
		return (long)sim.reservations.n;
	if (strcmp(kind, "mapping") == 0)
		return sim.n_ranges[RANGE_MAPPING];
	if (strcmp(kind, "allocation") == 0)
		return sim.n_ranges[RANGE_ALLOC] + sim.n_ranges[RANGE_POOLED];
	if (strcmp(kind, "import") == 0)
		return sim.n_ranges[RANGE_IPC];
	if (strcmp(kind, "host") == 0)
		return sim.n_ranges[RANGE_HOST] +
		    sim.n_ranges[RANGE_REGISTERED];
	return -1;
}

long
simcuda_live(const char *kind)
{
	long n;

	gate_lock();
	n = count_objects(kind);
	gate_unlock();
	return n;
}

int
simcuda_setting(const char *key, uint64_t *value)
{
	const uint64_t *found = NULL;

	gate_lock();
	if (sim.state != SIM_NEW || conf_read())
		found = conf_find(key);
	if (found != NULL)
		*value = *found;
	gate_unlock();
	return found == NULL ? -1 : 0;
}
