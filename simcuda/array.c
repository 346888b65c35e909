/*
 * Arrays, mipmapped arrays, and memory of other interfaces.
 *
 * An array is a range of device memory, as large as its texels; work on it is
 * not simulated. It ends with its context. External memory is a file that the
 * program has opened: it takes no memory of the device.
 */
#include <stdlib.h>
#include <unistd.h>

#include "simcuda/sim.h"

/* Both descriptors of the driver begin so; that of two dimensions has the
 * format where this one has the depth. */
struct plane {
	size_t width, height;
	int format;
	unsigned channels;
};

struct solid {
	size_t width, height, depth;
	int format;
	unsigned channels;
	unsigned flags;
};

/* CUDA_EXTERNAL_MEMORY_HANDLE_DESC. */
struct external_description {
	int type;
	union {
		int fd;
		const void *pointers[2];
	} handle;
	unsigned long long size;
	unsigned flags;
};

enum { FORMAT_FLOAT = 0x20, OPAQUE_FD = 1, CHANNELS_MAX = 4 };

/* Bytes of a channel; 0 for a format that is not simulated. */
static size_t
texel_bytes(int format)
{
	switch (format) {
	case 0x01:
	case 0x08:
		return 1;
	case 0x02:
	case 0x09:
	case 0x10:
		return 2;
	case 0x03:
	case 0x0a:
	case FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

/* The bytes of a level, or 0 for a wrong description. */
static size_t
solid_bytes(const struct solid *solid)
{
	size_t texel = texel_bytes(solid->format) * solid->channels;
	size_t height = solid->height > 0 ? solid->height : 1;
	size_t depth = solid->depth > 0 ? solid->depth : 1;

	if (solid->width == 0 || solid->channels == 0 ||
	    solid->channels > CHANNELS_MAX || solid->channels == 3 ||
	    texel == 0 || solid->width > SIZE_MAX / texel / height / depth)
		return 0;
	return solid->width * height * depth * texel;
}

static CUresult
array_new(void **out, size_t bytes)
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
	*out = (void *)(uintptr_t)range->start;
	return CUDA_SUCCESS;
}

static CUresult
array_destroy(void *array)
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
cuArrayCreate_v2(void **out, const void *wanted)
{
	CUresult code = gate_enter(E_cuArrayCreate_v2);
	const struct plane *plane = wanted;

	if (code == CUDA_SUCCESS && plane == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = array_new(out,
		    solid_bytes(&(struct solid){ .width = plane->width,
			.height = plane->height,
			.format = plane->format,
			.channels = plane->channels }));
	return gate_leave(code);
}

CUresult
cuArray3DCreate_v2(void **out, const void *wanted)
{
	CUresult code = gate_enter(E_cuArray3DCreate_v2);

	if (code == CUDA_SUCCESS && wanted == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = array_new(out, solid_bytes(wanted));
	return gate_leave(code);
}

CUresult
cuArrayDestroy(void *array)
{
	CUresult code = gate_enter(E_cuArrayDestroy);

	if (code == CUDA_SUCCESS)
		code = array_destroy(array);
	return gate_leave(code);
}

static size_t
mipmap_bytes(const struct solid *wanted, unsigned levels)
{
	struct solid level = *wanted;
	size_t sum = 0;

	for (unsigned i = 0; i < levels; i++) {
		size_t bytes = solid_bytes(&level);

		if (bytes == 0)
			return 0;
		sum += bytes;
		level.width -= level.width > 1 ? (level.width + 1) / 2 : 0;
		level.height -= level.height > 1 ? (level.height + 1) / 2 : 0;
		level.depth -= level.depth > 1 ? (level.depth + 1) / 2 : 0;
	}
	return sum;
}

CUresult
cuMipmappedArrayCreate(void **out, const void *wanted, unsigned levels)
{
	CUresult code = gate_enter(E_cuMipmappedArrayCreate);

	if (code == CUDA_SUCCESS && (wanted == NULL || levels > 32))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = array_new(out, mipmap_bytes(wanted, levels));
	return gate_leave(code);
}

CUresult
cuMipmappedArrayDestroy(void *array)
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
external_new(void **out, const struct external_description *wanted)
{
	struct external_memory *memory;

	if (out == NULL || wanted == NULL || wanted->size == 0 ||
	    wanted->type != OPAQUE_FD)
		return CUDA_ERROR_INVALID_VALUE;
	if (lseek(wanted->handle.fd, 0, SEEK_END) < (off_t)wanted->size)
		return CUDA_ERROR_INVALID_VALUE;
	memory = sim_alloc(sizeof(*memory));
	memory->fd = wanted->handle.fd;
	*out = (void *)(uintptr_t)handle_new(HANDLE_EXTERNAL, memory);
	return CUDA_SUCCESS;
}

CUresult
cuImportExternalMemory(void **out, const void *wanted)
{
	CUresult code = gate_enter(E_cuImportExternalMemory);

	if (code == CUDA_SUCCESS)
		code = external_new(out, wanted);
	return gate_leave(code);
}

CUresult
cuDestroyExternalMemory(void *handle)
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
