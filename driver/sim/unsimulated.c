/*
 * The calls that are not simulated. Programs and libraries that look for them
 * find them, and each fails with CUDA_ERROR_NOT_SUPPORTED, whatever it is
 * given; it names itself on stderr where SIMCUDA_CONF has verbose:1.
 *
 * They are declared without their parameters, which they do not look at: with
 * C's calling conventions it is the caller that removes them.
 */
#include <stdio.h>

#include "driver/sim/conf.h"
#include "driver/sim/sim.h"
#include "driver/sim/unsimulated.h"

static CUresult
not_simulated(const char *symbol)
{
	if (conf.verbose != 0)
		fprintf(stderr, "simcuda: %s() is not simulated\n", symbol);
	return CUDA_ERROR_NOT_SUPPORTED;
}

#define REFUSE(symbol)                                                         \
	__attribute__((visibility("protected"))) CUresult symbol(void);        \
	CUresult symbol(void)                                                  \
	{                                                                      \
		return not_simulated(#symbol);                                 \
	}
#define REFUSE_PLAIN(symbol, base, version) REFUSE(symbol)
#define REFUSE_PTSZ(symbol, base, version)                                     \
	REFUSE(symbol)                                                         \
	REFUSE(symbol##_ptsz)
#define REFUSE_PTDS(symbol, base, version)                                     \
	REFUSE(symbol)                                                         \
	REFUSE(symbol##_ptds)
SIM_UNSIMULATED(REFUSE_PLAIN, REFUSE_PTSZ, REFUSE_PTDS)
#undef REFUSE_PTDS
#undef REFUSE_PTSZ
#undef REFUSE_PLAIN
#undef REFUSE

#define SIM_FUNCTION(symbol) ((void *)(uintptr_t)(symbol))

const struct entry sim_unsimulated[] = {
#define ENTRY_PLAIN(symbol, base, version)                                     \
	{ #base, version, ENTRY_NONE, SIM_FUNCTION(symbol),                    \
		SIM_FUNCTION(symbol) },
#define ENTRY_PTSZ(symbol, base, version)                                      \
	{ #base, version, ENTRY_NONE, SIM_FUNCTION(symbol),                    \
		SIM_FUNCTION(symbol##_ptsz) },
#define ENTRY_PTDS(symbol, base, version)                                      \
	{ #base, version, ENTRY_NONE, SIM_FUNCTION(symbol),                    \
		SIM_FUNCTION(symbol##_ptds) },
	SIM_UNSIMULATED(ENTRY_PLAIN, ENTRY_PTSZ, ENTRY_PTDS)
#undef ENTRY_PTDS
#undef ENTRY_PTSZ
#undef ENTRY_PLAIN
};

const size_t sim_n_unsimulated =
    sizeof(sim_unsimulated) / sizeof(sim_unsimulated[0]);
