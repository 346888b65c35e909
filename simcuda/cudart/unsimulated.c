/*
 * The calls that are not simulated: each fails with cudaErrorNotSupported, so
 * that programs which use them can be linked and started.
 */
#include "simcuda/cudart/unsimulated.h"

#include "simcuda/cudart/cudart.h"

#define REFUSE(symbol)                                                         \
	CUDARTAPI cudaError_t symbol(void);                                    \
	cudaError_t symbol(void)                                               \
	{                                                                      \
		return runtime_error(cudaErrorNotSupported);                   \
	}
RUNTIME_UNSIMULATED(REFUSE)
#undef REFUSE
