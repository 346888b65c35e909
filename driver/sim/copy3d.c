/*
 * Copies of rectangles and boxes: rows of bytes, a pitch apart, in slices.
 */
#include <string.h>

#include "driver/sim/sim.h"

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
