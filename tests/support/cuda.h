/*
 * cuda.h - the driver's calls by their symbols, for tests of the driver itself
 *
 * Tests of simcuda, and those that say what simcuda and a GPU's driver have in
 * common, call the driver with nothing of weir between:
 *
 *	cuda_begin();
 *	EXPECT_CU(cu.cuMemAlloc_v2(&address, 512), CUDA_SUCCESS);
 *
 * Every symbol simcuda has is in `cu`; one that this machine's driver lacks is
 * NULL, see cuda_need().
 */
#ifndef WEIR_TESTS_SUPPORT_CUDA_H
#define WEIR_TESTS_SUPPORT_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "driver/abi.h"
#include "simcuda/entries.h"
#include "tests/support/sim.h"
#include "tests/support/test.h"

#define CUDA_FIELD(symbol, base, version, flags, params)                       \
	CUresult(*symbol) params;
#define CUDA_FIELD_PTSZ(symbol, base, version, flags, params)                  \
	CUresult(*symbol) params;                                              \
	CUresult(*symbol##_ptsz) params;
#define CUDA_FIELD_PTDS(symbol, base, version, flags, params)                  \
	CUresult(*symbol) params;                                              \
	CUresult(*symbol##_ptds) params;
struct cuda {
	SIM_ENTRIES(CUDA_FIELD, CUDA_FIELD_PTSZ, CUDA_FIELD_PTDS)
};
#undef CUDA_FIELD
#undef CUDA_FIELD_PTSZ
#undef CUDA_FIELD_PTDS

extern struct cuda cu;

/* Load the driver and fill `cu`, without a driver call. */
void cuda_load(void);

/* Set SIMCUDA_CONF and call cuda_load(). */
void cuda_load_conf(const char *conf);

/* Load, initialise, make the primary context of device 0 current, and load the
 * kernels. */
CUcontext cuda_begin(void);
CUcontext cuda_begin_conf(const char *conf);

/* Skip the test if the driver lacks the call. */
#define cuda_need(symbol)                                                      \
	do {                                                                   \
		if (cu.symbol == NULL)                                         \
			SKIP("this driver has no " #symbol);                   \
	} while (0)

/* The call returns this code. */
#define EXPECT_CU(call, code)                                                  \
	cuda_expect(__FILE__, __LINE__, #call, (call), (code))

/* The call succeeds. */
#define CU(call) EXPECT_CU(call, CUDA_SUCCESS)

void cuda_expect(const char *file, int line, const char *call, CUresult got,
    CUresult expected);

/* ---- What most tests need ----------------------------------------------- */

CUstream cuda_stream(void);          /* a non-blocking one */
CUstream cuda_blocking_stream(void); /* in order with the default stream */
CUevent cuda_event(void);            /* without timing */
CUdeviceptr cuda_alloc(size_t size);

/* A kernel of kernels.ptx.h. */
CUfunction cuda_kernel(const char *name);

/* Work queued on `to` from now on runs after all that is queued on `from`. */
void cuda_order(CUstream from, CUstream to);

/* Keep the stream busy for this long. */
void cuda_sleep(CUstream stream, uint64_t ns);

/* Set n words at `to` to `value`. */
void cuda_fill(CUstream stream, CUdeviceptr to, uint32_t value, uint64_t n);
void cuda_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t n);

/* The word at an address, after all work of the context. */
uint32_t cuda_word(CUdeviceptr address);

/* Memory of device 0, mappable; exported if `shareable`. */
CUmemAllocationProp cuda_prop(bool shareable);
CUmemGenericAllocationHandle cuda_create(size_t size);
/* Reserve, map and give device 0 access. */
CUdeviceptr cuda_map(CUmemGenericAllocationHandle handle, size_t size);
void cuda_allow(CUdeviceptr address, size_t size);

/* How long a stream is kept busy where it must still be busy at the next
 * call: long enough for a real machine. */
enum { CUDA_LONG_NS = 50000000 };

#endif
