/*
 * Calls for which the driver itself needs memory. The driver serves them. If it
 * runs out of memory, weir frees its unused memory and the call is repeated, so
 * that it fails only if it would fail without weir.
 */
#include "preload/preload.h"
#include "streams/capture.h"

/*
 * Has weir freed memory for a request of the driver that ran out of it? Freeing
 * waits for streams, which would break a capture.
 */
static bool
trim_for_retry(CUresult code, int device)
{
	size_t freed = 0;

	if (code != CUDA_ERROR_OUT_OF_MEMORY || !gate_started() ||
	    capture_any())
		return false;
	gate_enter_weir();
	weir_trim(device, 0, &freed);
	gate_leave_weir();
	return freed > 0;
}

bool
retry_is_due(CUresult code)
{
	int device;

	return code == CUDA_ERROR_OUT_OF_MEMORY && gate_context(&device) &&
	    trim_for_retry(code, device);
}

CUresult
cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
    const CUmemAllocationProp *wanted, unsigned long long flags)
{
	CUresult code;

	report_call(HOOK_cuMemCreate);
	code = REAL(cuMemCreate)(handle, bytes, wanted, flags);
	if (code == CUDA_ERROR_OUT_OF_MEMORY &&
	    wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	    trim_for_retry(code, wanted->location.id))
		code = REAL(cuMemCreate)(handle, bytes, wanted, flags);
	return code;
}

/* A call that is repeated if it ran out of memory and weir could free some. */
#define ASK_TWICE(name, params, args)                                          \
	CUresult name params                                                   \
	{                                                                      \
		report_call(HOOK_##name);                                      \
		CUresult code = REAL(name) args;                               \
		if (retry_is_due(code))                                        \
			code = REAL(name) args;                                \
		return code;                                                   \
	}

/* Likewise a launch, which is held while a device is asleep. */
#define LAUNCH_TWICE(name, params, args)                                       \
	CUresult name params                                                   \
	{                                                                      \
		report_call(HOOK_##name);                                      \
		CUresult code = HELD(REAL(name) args);                         \
		if (retry_is_due(code))                                        \
			code = HELD(REAL(name) args);                          \
		return code;                                                   \
	}

ASK_TWICE(cuMemAllocManaged, (CUdeviceptr * out, size_t bytes, unsigned flags),
    (out, bytes, flags))

ASK_TWICE(cuArrayCreate_v2, (void **out, const void *wanted), (out, wanted))

ASK_TWICE(cuArray3DCreate_v2, (void **out, const void *wanted), (out, wanted))

ASK_TWICE(cuMipmappedArrayCreate,
    (void **out, const void *wanted, unsigned levels), (out, wanted, levels))

ASK_TWICE(cuModuleLoad, (CUmodule * out, const char *file), (out, file))

ASK_TWICE(cuModuleLoadData, (CUmodule * out, const void *image), (out, image))

ASK_TWICE(cuModuleLoadDataEx,
    (CUmodule * out, const void *image, unsigned count, CUjit_option *options,
	void **values),
    (out, image, count, options, values))

ASK_TWICE(
    cuModuleLoadFatBinary, (CUmodule * out, const void *image), (out, image))

ASK_TWICE(cuGraphInstantiateWithFlags,
    (CUgraphExec * out, CUgraph graph, unsigned long long flags),
    (out, graph, flags))

ASK_TWICE(cuGraphInstantiateWithParams,
    (CUgraphExec * out, CUgraph graph, void *params), (out, graph, params))

ASK_TWICE(cuGraphInstantiateWithParams_ptsz,
    (CUgraphExec * out, CUgraph graph, void *params), (out, graph, params))

ASK_TWICE(cuGraphUpload, (CUgraphExec graph, CUstream stream), (graph, stream))

ASK_TWICE(
    cuGraphUpload_ptsz, (CUgraphExec graph, CUstream stream), (graph, stream))

LAUNCH_TWICE(
    cuGraphLaunch, (CUgraphExec graph, CUstream stream), (graph, stream))

LAUNCH_TWICE(
    cuGraphLaunch_ptsz, (CUgraphExec graph, CUstream stream), (graph, stream))
