/*
 * Copies of rectangles and boxes: rows of bytes, a pitch apart, in slices.
 */
#include <string.h>

#include "simcuda/sim.h"

/* The largest pitch, in bytes. */
enum { PITCH_MAX = 0x7fffffff };

/* One end of a copy. */
struct corner {
	size_t x, y, z; /* of the first byte; x in bytes */
	CUmemorytype type;
	uint64_t host, device;
	size_t pitch, height;
};

/* Find the address of an end. A pitch counts if there are several rows, and a
 * height if there are several slices. */
static CUresult
corner_place(const struct corner *corner, const struct shape *shape,
    uint64_t *address, struct layout *layout)
{
	bool has_rows =
	    shape->rows > 1 || shape->slices > 1 || corner->y + corner->z > 0;
	bool has_slices = shape->slices > 1 || corner->z > 0;
	uint64_t base =
	    corner->type == CU_MEMORYTYPE_HOST ? corner->host : corner->device;

	if (corner->type == CU_MEMORYTYPE_ARRAY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if ((unsigned)corner->type > CU_MEMORYTYPE_UNIFIED ||
	    corner->type == 0 || corner->pitch > PITCH_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (has_rows && corner->pitch < corner->x + shape->width)
		return CUDA_ERROR_INVALID_VALUE;
	if (has_slices && corner->height < corner->y + shape->rows)
		return CUDA_ERROR_INVALID_VALUE;
	*layout =
	    (struct layout){ corner->pitch, corner->pitch * corner->height };
	*address = base + corner->x + corner->y * corner->pitch +
	    corner->z * layout->slice;
	return CUDA_SUCCESS;
}

static enum side
side_of(CUmemorytype type)
{
	return type == CU_MEMORYTYPE_HOST ? SIDE_HOST :
	    type == CU_MEMORYTYPE_DEVICE  ? SIDE_DEVICE :
					    SIDE_ANY;
}

CUresult
request_by_params(const CUDA_MEMCPY3D *params, struct request *out)
{
	struct corner from = { params->srcXInBytes, params->srcY, params->srcZ,
		params->srcMemoryType, handle_bits(params->srcHost),
		params->srcDevice, params->srcPitch, params->srcHeight };
	struct corner to = { params->dstXInBytes, params->dstY, params->dstZ,
		params->dstMemoryType, handle_bits(params->dstHost),
		params->dstDevice, params->dstPitch, params->dstHeight };
	CUresult code;

	*out = (struct request){
		.shape = { params->WidthInBytes, params->Height,
		    params->Depth },
		.from_side = side_of(params->srcMemoryType),
		.to_side = side_of(params->dstMemoryType),
	};
	if (params->srcLOD != 0 || params->dstLOD != 0)
		return CUDA_ERROR_INVALID_VALUE;
	code = corner_place(&from, &out->shape, &out->from, &out->from_layout);
	if (code == CUDA_SUCCESS)
		code =
		    corner_place(&to, &out->shape, &out->to, &out->to_layout);
	return code;
}

static CUresult
request_by_2d(const CUDA_MEMCPY2D *params, struct request *out)
{
	CUDA_MEMCPY3D box;

	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	box = (CUDA_MEMCPY3D){ .srcXInBytes = params->srcXInBytes,
		.srcY = params->srcY,
		.srcMemoryType = params->srcMemoryType,
		.srcHost = params->srcHost,
		.srcDevice = params->srcDevice,
		.srcPitch = params->srcPitch,
		.dstXInBytes = params->dstXInBytes,
		.dstY = params->dstY,
		.dstMemoryType = params->dstMemoryType,
		.dstHost = params->dstHost,
		.dstDevice = params->dstDevice,
		.dstPitch = params->dstPitch,
		.WidthInBytes = params->WidthInBytes,
		.Height = params->Height,
		.Depth = 1 };
	return request_by_params(&box, out);
}

static CUresult
request_by_3d(const CUDA_MEMCPY3D *params, struct request *out)
{
	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	return request_by_params(params, out);
}

/* The structure of a copy between peers differs in two members only, which are
 * reserved in the other. */
static CUresult
request_by_peers(const CUDA_MEMCPY3D_PEER *params, struct request *out)
{
	CUDA_MEMCPY3D box;
	CUresult code;

	_Static_assert(sizeof(box) == sizeof(*params), "members differ");
	if (params == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&box, params, sizeof(box));
	code = request_by_params(&box, out);
	if (params->dstMemoryType != CU_MEMORYTYPE_HOST)
		out->contexts[0] = params->dstContext;
	if (params->srcMemoryType != CU_MEMORYTYPE_HOST)
		out->contexts[1] = params->srcContext;
	return code;
}

/* ---- calls -------------------------------------------------------------- */

/* Copy, or enter and fail because the parameters are impossible. A call's other
 * conditions come first. */
static CUresult
copy_box(enum sim_entry entry, CUstream stream, CUresult code,
    const struct request *request)
{
	bool waits = entry == E_cuMemcpy2D_v2 ||
	    entry == E_cuMemcpy2DUnaligned_v2 || entry == E_cuMemcpy3D_v2 ||
	    entry == E_cuMemcpy3DPeer;
	CUresult entered;

	if (code == CUDA_SUCCESS)
		return waits ? copy_now(entry, stream, request) :
			       copy_async(entry, stream, request);
	entered = gate_enter(entry);
	return gate_leave(entered != CUDA_SUCCESS ? entered : code);
}

CUresult
cuMemcpy2D_v2(const CUDA_MEMCPY2D *params)
{
	struct request request;
	CUresult code = request_by_2d(params, &request);

	return copy_box(E_cuMemcpy2D_v2, CU_STREAM_LEGACY, code, &request);
}

CUresult
cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *params)
{
	struct request request;
	CUresult code = request_by_2d(params, &request);

	return copy_box(E_cuMemcpy2D_v2, CU_STREAM_PER_THREAD, code, &request);
}

CUresult
cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *params)
{
	struct request request;
	CUresult code = request_by_2d(params, &request);

	return copy_box(
	    E_cuMemcpy2DUnaligned_v2, CU_STREAM_LEGACY, code, &request);
}

CUresult
cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *params)
{
	struct request request;
	CUresult code = request_by_2d(params, &request);

	return copy_box(
	    E_cuMemcpy2DUnaligned_v2, CU_STREAM_PER_THREAD, code, &request);
}

CUresult
cuMemcpy3D_v2(const CUDA_MEMCPY3D *params)
{
	struct request request;
	CUresult code = request_by_3d(params, &request);

	return copy_box(E_cuMemcpy3D_v2, CU_STREAM_LEGACY, code, &request);
}

CUresult
cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *params)
{
	struct request request;
	CUresult code = request_by_3d(params, &request);

	return copy_box(E_cuMemcpy3D_v2, CU_STREAM_PER_THREAD, code, &request);
}

CUresult
cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *params)
{
	struct request request;
	CUresult code = request_by_peers(params, &request);

	return copy_box(E_cuMemcpy3DPeer, CU_STREAM_LEGACY, code, &request);
}

CUresult
cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *params)
{
	struct request request;
	CUresult code = request_by_peers(params, &request);

	return copy_box(E_cuMemcpy3DPeer, CU_STREAM_PER_THREAD, code, &request);
}

CUresult
cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *params, CUstream stream)
{
	struct request request;
	CUresult code = request_by_2d(params, &request);

	return copy_box(E_cuMemcpy2DAsync_v2, stream, code, &request);
}

CUresult
cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *params, CUstream stream)
{
	struct request request;
	CUresult code = request_by_3d(params, &request);

	return copy_box(E_cuMemcpy3DAsync_v2, stream, code, &request);
}

CUresult
cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *params, CUstream stream)
{
	struct request request;
	CUresult code = request_by_peers(params, &request);

	return copy_box(E_cuMemcpy3DPeerAsync, stream, code, &request);
}
