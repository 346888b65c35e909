/*
 * Arrays, mipmapped arrays, and memory of other interfaces.
 *
 * An array is a range of device memory, as large as its texels; work on it is
 * not simulated. It ends with its context. External memory is a file that the
 * program has opened: it takes no memory of the device.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simcuda/sim.h"

enum { CHANNELS_MAX = 4, LEVELS_MAX = 32 };

/* Bytes of a channel; 0 for a format that is not simulated. */
static size_t
texel_bytes(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

/* The bytes of a level, or 0 for a wrong description. */
static size_t
solid_bytes(const CUDA_ARRAY3D_DESCRIPTOR *solid)
{
	size_t texel = texel_bytes(solid->Format) * solid->NumChannels;
	size_t height = solid->Height > 0 ? solid->Height : 1;
	size_t depth = solid->Depth > 0 ? solid->Depth : 1;

	if (solid->Width == 0 || solid->NumChannels == 0 ||
	    solid->NumChannels > CHANNELS_MAX || solid->NumChannels == 3 ||
	    texel == 0 || solid->Width > SIZE_MAX / texel / height / depth)
		return 0;
	return solid->Width * height * depth * texel;
}

static CUresult
array_new(void *out, size_t bytes)
{
	struct range *range;
	CUresult code;

	if (out == NULL || bytes == 0)
		return CUDA_ERROR_INVALID_VALUE;
	code = alloc_new(sim.here, bytes, &range);
	if (code != CUDA_SUCCESS)
		return code;
	range->array = true;
	range_own(range, sim.here);
	memcpy(out, &(void *){ handle_pointer(range->start) }, sizeof(void *));
	return CUDA_SUCCESS;
}

static CUresult
array_destroy(const void *array)
{
	struct range *range = memory_find(handle_bits(array));

	if (range == NULL || !range->array ||
	    range->start != handle_bits(array))
		return CUDA_ERROR_INVALID_HANDLE;
	context_wait(range->context);
	if (memory_find(handle_bits(array)) != range)
		return CUDA_ERROR_INVALID_HANDLE;
	memory_free(range);
	return CUDA_SUCCESS;
}

CUresult
cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *wanted)
{
	CUresult code = gate_enter(E_cuArrayCreate_v2);

	if (code == CUDA_SUCCESS && wanted == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = array_new(out,
		    solid_bytes(
			&(CUDA_ARRAY3D_DESCRIPTOR){ .Width = wanted->Width,
			    .Height = wanted->Height,
			    .Format = wanted->Format,
			    .NumChannels = wanted->NumChannels }));
	return gate_leave(code);
}

CUresult
cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *wanted)
{
	CUresult code = gate_enter(E_cuArray3DCreate_v2);

	if (code == CUDA_SUCCESS && wanted == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = array_new(out, solid_bytes(wanted));
	return gate_leave(code);
}

CUresult
cuArrayDestroy(CUarray array)
{
	CUresult code = gate_enter(E_cuArrayDestroy);

	if (code == CUDA_SUCCESS)
		code = array_destroy(array);
	return gate_leave(code);
}

static size_t
mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels)
{
	CUDA_ARRAY3D_DESCRIPTOR level = *wanted;
	size_t sum = 0;

	for (unsigned i = 0; i < levels; i++) {
		size_t bytes = solid_bytes(&level);

		if (bytes == 0)
			return 0;
		sum += bytes;
		level.Width -= level.Width > 1 ? (level.Width + 1) / 2 : 0;
		level.Height -= level.Height > 1 ? (level.Height + 1) / 2 : 0;
		level.Depth -= level.Depth > 1 ? (level.Depth + 1) / 2 : 0;
	}
	return sum;
}

CUresult
cuMipmappedArrayCreate(CUmipmappedArray *out,
    const CUDA_ARRAY3D_DESCRIPTOR *wanted, unsigned levels)
{
	CUresult code = gate_enter(E_cuMipmappedArrayCreate);

	if (code == CUDA_SUCCESS && (wanted == NULL || levels > LEVELS_MAX))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = array_new(out, mipmap_bytes(wanted, levels));
	return gate_leave(code);
}

CUresult
cuMipmappedArrayDestroy(CUmipmappedArray array)
{
	CUresult code = gate_enter(E_cuMipmappedArrayDestroy);

	if (code == CUDA_SUCCESS)
		code = array_destroy(array);
	return gate_leave(code);
}

/* ---- external memory ---------------------------------------------------- */

/* The driver takes the descriptor over. */
struct external_memory {
	int fd;
};

static CUresult
external_new(
    CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *wanted)
{
	struct external_memory *memory;

	if (out == NULL || wanted == NULL || wanted->size == 0 ||
	    wanted->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
		return CUDA_ERROR_INVALID_VALUE;
	if (lseek(wanted->handle.fd, 0, SEEK_END) < (off_t)wanted->size)
		return CUDA_ERROR_INVALID_VALUE;
	memory = sim_alloc(sizeof(*memory));
	memory->fd = wanted->handle.fd;
	*out = handle_pointer(handle_new(HANDLE_EXTERNAL, memory));
	return CUDA_SUCCESS;
}

CUresult
cuImportExternalMemory(
    CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *wanted)
{
	CUresult code = gate_enter(E_cuImportExternalMemory);

	if (code == CUDA_SUCCESS)
		code = external_new(out, wanted);
	return gate_leave(code);
}

CUresult
cuDestroyExternalMemory(CUexternalMemory handle)
{
	CUresult code = gate_enter(E_cuDestroyExternalMemory);
	struct external_memory *memory;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	memory = handle_find(HANDLE_EXTERNAL, handle_bits(handle));
	if (memory == NULL)
		return gate_leave(CUDA_ERROR_INVALID_HANDLE);
	handle_drop(HANDLE_EXTERNAL, handle_bits(handle));
	close(memory->fd);
	free(memory);
	return gate_leave(CUDA_SUCCESS);
}
