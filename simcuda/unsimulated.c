/*
 * The calls that are not simulated. A lookup finds them, and each fails with
 * CUDA_ERROR_NOT_SUPPORTED for all arguments. With verbose:1 in SIMCUDA_CONF it
 * prints its name on stderr.
 *
 * They are declared without parameters, which they ignore: in C's calling
 * conventions the caller removes the arguments.
 */
#include <stdio.h>

#include "simcuda/conf.h"
#include "simcuda/sim.h"
#include "simcuda/unsimulated.h"

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

const struct entry_address sim_unsimulated[] = {
#define ENTRY_PLAIN(symbol, base, version)                                     \
	{ #base, version, SIM_FUNCTION(symbol), SIM_FUNCTION(symbol) },
#define ENTRY_PTSZ(symbol, base, version)                                      \
	{ #base, version, SIM_FUNCTION(symbol), SIM_FUNCTION(symbol##_ptsz) },
#define ENTRY_PTDS(symbol, base, version)                                      \
	{ #base, version, SIM_FUNCTION(symbol), SIM_FUNCTION(symbol##_ptds) },
	SIM_UNSIMULATED(ENTRY_PLAIN, ENTRY_PTSZ, ENTRY_PTDS)
#undef ENTRY_PTDS
#undef ENTRY_PTSZ
#undef ENTRY_PLAIN
};

const size_t sim_n_unsimulated =
    sizeof(sim_unsimulated) / sizeof(sim_unsimulated[0]);
