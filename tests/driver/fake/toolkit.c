/*
 * The toolkit's side of fake/toolkit.h: <cuda.h>, where it is installed, and
 * our lists read with its types.
 */
#include "tests/driver/fake/toolkit.h"

#include <stddef.h>
#include <stdint.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE extern const struct toolkit toolkit;

/* Older toolkits lack the newest calls, and then the list lacks them, too. */
#if __has_include(<cudaTypedefs.h>)
#include <cuda.h>
#if CUDA_VERSION >= 13000
#define HAS_TOOLKIT 1
#endif
#endif

#if HAS_TOOLKIT
#include <cudaTypedefs.h>

#include "driver/entries.h"
#include "driver/lists.h"

/* Symbols that drivers keep and the toolkit has dropped. */
typedef PFN_cuDevicePrimaryCtxRelease_v11000
    PFN_cuDevicePrimaryCtxRelease_v7000;
typedef PFN_cuDevicePrimaryCtxReset_v11000 PFN_cuDevicePrimaryCtxReset_v7000;
typedef PFN_cuDevicePrimaryCtxSetFlags_v11000
    PFN_cuDevicePrimaryCtxSetFlags_v7000;
typedef PFN_cuIpcOpenMemHandle_v11000 PFN_cuIpcOpenMemHandle_v4010;
typedef CUresult(CUDAAPI *PFN_cuGraphInstantiate_v11000)(CUgraphExec *exec,
    CUgraph graph, CUgraphNode *error_node, char *log, size_t log_size);

/* The toolkit has a type for each version of each call. A name may be a macro
 * of the toolkit, so it is pasted before the macro could be expanded. */
#define SIGNATURE(                                                             \
    U, kind, symbol, base, version, simulated, hook, called, params)           \
	{ #symbol, (version),                                                  \
		SIGNATURE_IF_##simulated(__builtin_types_compatible_p(         \
		    CUresult(CUDAAPI *) params, PFN_##base##_v##version)) },
/* Only a hook: its types are not the toolkit's. */
#define SIGNATURE_IF_NO(same) true
#define SIGNATURE_IF_NONE(same) same
#define SIGNATURE_IF_INIT(same) same
#define SIGNATURE_IF_INIT_R(same) same
#define SIGNATURE_IF_INIT_U(same) same
#define SIGNATURE_IF_CONTEXT(same) same
#define SIGNATURE_IF_CONTEXT_R(same) same
#define SIGNATURE_IF_CONTEXT_U(same) same
#define SIGNATURE_IF_CONTEXT_UR(same) same

static const struct fact facts[] = { ABI_FACTS };

static const struct signature signatures[] = {
	/* clang-format off */
	DRIVER_CALLS(SIGNATURE, )
	/* clang-format on */
};

const struct toolkit toolkit = {
	.version = CUDA_VERSION,
	.facts = facts,
	.n_facts = sizeof(facts) / sizeof(facts[0]),
	.signatures = signatures,
	.n_signatures = sizeof(signatures) / sizeof(signatures[0]),
};

#else

const struct toolkit toolkit = {
#ifdef CUDA_VERSION
	.version = CUDA_VERSION,
#else
	.version = 0,
#endif
};

#endif
