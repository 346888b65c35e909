/*
 * sim.h - the controls of the simulated device, for tests
 *
 * A test program runs on simcuda and on a GPU alike. sim() finds simcuda's
 * controls in whatever driver library weir uses (WEIR_LIBCUDA, or
 * libcuda.so.1), and is NULL on a GPU:
 *
 *	if (sim() == NULL)
 *		SKIP("only the simulated driver can be made to fail");
 *	sim()->fail("cuMemCreate", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
 */
#ifndef WEIR_TESTS_SUPPORT_SIM_H
#define WEIR_TESTS_SUPPORT_SIM_H

#include "simcuda/simcuda.h"

/* The controls, always the same struct, or NULL on a GPU. Loads the driver
 * library, and makes no driver call. Any thread. */
const struct simcuda_api *sim(void);

#endif
