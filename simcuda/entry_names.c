/*
 * The names, versions and flags of all entry points.
 */
#include "simcuda/sim.h"

const struct entry sim_entries[] = {
#define SIM_ENTRY(symbol, base, version, flags, params)                        \
	{ #base, version, ENTRY_##flags },
	SIM_ENTRIES(SIM_ENTRY, SIM_ENTRY, SIM_ENTRY)
#undef SIM_ENTRY
};
