/*
 * The entry points of simcuda: SIM_ENTRIES of driver/entries.h declares them
 * (sim.h), numbers them, and is the table for cuGetProcAddress().
 */
#ifndef SIMCUDA_ENTRIES_H
#define SIMCUDA_ENTRIES_H

#include "driver/entries.h"

/* Flags of an entry, for gate_enter(). */
enum {
	ENTRY_NONE = 0,
	ENTRY_INIT = 1,     /* cuInit() must have been called */
	ENTRY_CONTEXT = 3,  /* also, a context must be current */
	ENTRY_UNSAFE = 4,   /* forbidden while streams capture */
	ENTRY_RESOURCE = 8, /* may fail for lack of a resource */
	ENTRY_INIT_R = ENTRY_INIT | ENTRY_RESOURCE,
	ENTRY_INIT_U = ENTRY_INIT | ENTRY_UNSAFE,
	ENTRY_CONTEXT_R = ENTRY_CONTEXT | ENTRY_RESOURCE,
	ENTRY_CONTEXT_U = ENTRY_CONTEXT | ENTRY_UNSAFE,
	ENTRY_CONTEXT_UR = ENTRY_CONTEXT_R | ENTRY_UNSAFE
};

/* Numbers of the entries: E_cuMemAlloc_v2. */
enum sim_entry {
#define SIM_NUMBER(symbol, base, version, flags, params) E_##symbol,
	SIM_ENTRIES(SIM_NUMBER, SIM_NUMBER, SIM_NUMBER)
#undef SIM_NUMBER
	    SIM_N_ENTRIES
};

#endif
