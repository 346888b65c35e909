/*
 * What the driver needs memory for itself: requests that stay the driver's,
 * but for which weir gives back what it holds unused, so that they fail only
 * where they would fail without it.
 */
#include "streams/capture.h"
#include "tools/preload/preload.h"

/*
 * True if a failed request of the driver is worth a second try: memory ran
 * out, and weir had some to give back. Giving back waits for streams, which
 * would break a capture.
 */
static bool
made_on(CUresult code, int device)
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
room_made(CUresult code)
{
	int device;

	return code == CUDA_ERROR_OUT_OF_MEMORY && gate_context(&device) &&
	    made_on(code, device);
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
	    made_on(code, wanted->location.id))
		code = REAL(cuMemCreate)(handle, bytes, wanted, flags);
	return code;
}

CUresult
cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags)
{
	CUresult code;

	report_call(HOOK_cuMemAllocManaged);
	code = REAL(cuMemAllocManaged)(out, bytes, flags);
	if (room_made(code))
		code = REAL(cuMemAllocManaged)(out, bytes, flags);
	return code;
}

CUresult
cuArrayCreate_v2(void **out, const void *wanted)
{
	CUresult code;

	report_call(HOOK_cuArrayCreate_v2);
	code = REAL(cuArrayCreate_v2)(out, wanted);
	if (room_made(code))
		code = REAL(cuArrayCreate_v2)(out, wanted);
	return code;
}

CUresult
cuArray3DCreate_v2(void **out, const void *wanted)
{
	CUresult code;

	report_call(HOOK_cuArray3DCreate_v2);
	code = REAL(cuArray3DCreate_v2)(out, wanted);
	if (room_made(code))
		code = REAL(cuArray3DCreate_v2)(out, wanted);
	return code;
}

CUresult
cuMipmappedArrayCreate(void **out, const void *wanted, unsigned levels)
{
	CUresult code;

	report_call(HOOK_cuMipmappedArrayCreate);
	code = REAL(cuMipmappedArrayCreate)(out, wanted, levels);
	if (room_made(code))
		code = REAL(cuMipmappedArrayCreate)(out, wanted, levels);
	return code;
}

CUresult
cuModuleLoad(CUmodule *out, const char *file)
{
	CUresult code;

	report_call(HOOK_cuModuleLoad);
	code = REAL(cuModuleLoad)(out, file);
	if (room_made(code))
		code = REAL(cuModuleLoad)(out, file);
	return code;
}

CUresult
cuModuleLoadData(CUmodule *out, const void *image)
{
	CUresult code;

	report_call(HOOK_cuModuleLoadData);
	code = REAL(cuModuleLoadData)(out, image);
	if (room_made(code))
		code = REAL(cuModuleLoadData)(out, image);
	return code;
}

CUresult
cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned count,
    void *options, void **values)
{
	CUresult code;

	report_call(HOOK_cuModuleLoadDataEx);
	code = REAL(cuModuleLoadDataEx)(out, image, count, options, values);
	if (room_made(code))
		code = REAL(cuModuleLoadDataEx)(
		    out, image, count, options, values);
	return code;
}

CUresult
cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
	CUresult code;

	report_call(HOOK_cuModuleLoadFatBinary);
	code = REAL(cuModuleLoadFatBinary)(out, image);
	if (room_made(code))
		code = REAL(cuModuleLoadFatBinary)(out, image);
	return code;
}

CUresult
cuGraphInstantiateWithFlags(
    CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	CUresult code;

	report_call(HOOK_cuGraphInstantiateWithFlags);
	code = REAL(cuGraphInstantiateWithFlags)(out, graph, flags);
	if (room_made(code))
		code = REAL(cuGraphInstantiateWithFlags)(out, graph, flags);
	return code;
}

CUresult
cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, void *params)
{
	CUresult code;

	report_call(HOOK_cuGraphInstantiateWithParams);
	code = REAL(cuGraphInstantiateWithParams)(out, graph, params);
	if (room_made(code))
		code = REAL(cuGraphInstantiateWithParams)(out, graph, params);
	return code;
}

CUresult
cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph graph, void *params)
{
	CUresult code;

	report_call(HOOK_cuGraphInstantiateWithParams_ptsz);
	code = REAL(cuGraphInstantiateWithParams_ptsz)(out, graph, params);
	if (room_made(code))
		code =
		    REAL(cuGraphInstantiateWithParams_ptsz)(out, graph, params);
	return code;
}

CUresult
cuGraphUpload(CUgraphExec graph, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuGraphUpload);
	code = REAL(cuGraphUpload)(graph, stream);
	if (room_made(code))
		code = REAL(cuGraphUpload)(graph, stream);
	return code;
}

CUresult
cuGraphUpload_ptsz(CUgraphExec graph, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuGraphUpload_ptsz);
	code = REAL(cuGraphUpload_ptsz)(graph, stream);
	if (room_made(code))
		code = REAL(cuGraphUpload_ptsz)(graph, stream);
	return code;
}

CUresult
cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuGraphLaunch);
	code = REAL(cuGraphLaunch)(graph, stream);
	if (room_made(code))
		code = REAL(cuGraphLaunch)(graph, stream);
	return code;
}

CUresult
cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream)
{
	CUresult code;

	report_call(HOOK_cuGraphLaunch_ptsz);
	code = REAL(cuGraphLaunch_ptsz)(graph, stream);
	if (room_made(code))
		code = REAL(cuGraphLaunch_ptsz)(graph, stream);
	return code;
}
