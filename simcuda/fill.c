/*
 * Fills.
 */
#include "simcuda/capture.h"
#include "simcuda/sim.h"

CUresult
fill_action(const struct fill *fill, struct action *action)
{
	struct shape shape = { .rows = fill->rows, .slices = 1 };
	struct layout layout = { fill->pitch, 0 };
	struct access access;
	bool pageable;
	size_t bytes;

	*action = (struct action){ .kind = OP_FILL, .fill = *fill };
	if (__builtin_mul_overflow(fill->n, fill->width, &shape.width) ||
	    __builtin_mul_overflow(shape.width, fill->rows, &bytes) ||
	    fill->to % fill->width != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (fill->rows > 1 &&
	    (fill->pitch < shape.width || fill->pitch % fill->width != 0))
		return CUDA_ERROR_INVALID_VALUE;
	access = access_to_shape(fill->to, &shape, &layout, ACCESS_WRITE);
	if (!side_fits(&access, SIDE_DEVICE, &pageable))
		return CUDA_ERROR_INVALID_VALUE;
	action->duration_ns = copy_duration_ns(fill->to, fill->to, bytes);
	return CUDA_SUCCESS;
}

/* Is it memory of another device, without peer access? Copies go there all the
 * same, fills do not. */
static bool
is_out_of_reach(const struct context *context, uint64_t address)
{
	const struct range *range = memory_find(address);

	return range != NULL && range->kind == RANGE_ALLOC &&
	    !context_reaches(context, range->phys->device->ordinal);
}

static CUresult
fill_on(struct stream *stream, const struct fill *fill)
{
	struct action action;
	CUresult code;

	if (fill->n == 0 || fill->rows == 0)
		return CUDA_SUCCESS;
	code = fill_action(fill, &action);
	if (code == CUDA_SUCCESS && is_out_of_reach(stream->context, fill->to))
		code = CUDA_ERROR_INVALID_VALUE;
	return code == CUDA_SUCCESS ? submit(stream, &action) : code;
}

static CUresult
fill_async(enum sim_entry entry, CUstream handle, const struct fill *fill)
{
	CUresult code = gate_enter(entry);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS)
		code = fill_on(stream, fill);
	return gate_leave(code);
}

/* A fill of device memory on the default stream does not wait. */
static CUresult
fill_now(enum sim_entry entry, CUstream handle, const struct fill *fill)
{
	CUresult code = gate_enter(entry);
	struct stream *stream = NULL;

	if (code == CUDA_SUCCESS)
		stream = stream_for_work(handle, &code);
	if (code == CUDA_SUCCESS)
		code = capture_refuse_waiting(stream);
	if (code == CUDA_SUCCESS)
		code = fill_on(stream, fill);
	return gate_leave(code);
}

CUresult
cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t n)
{
	struct fill fill = { to, n, value, 1, 1, 0 };

	return fill_now(E_cuMemsetD8_v2, CU_STREAM_LEGACY, &fill);
}

CUresult
cuMemsetD8_v2_ptds(CUdeviceptr to, unsigned char value, size_t n)
{
	struct fill fill = { to, n, value, 1, 1, 0 };

	return fill_now(E_cuMemsetD8_v2, CU_STREAM_PER_THREAD, &fill);
}

CUresult
cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t n)
{
	struct fill fill = { to, n, value, 2, 1, 0 };

	return fill_now(E_cuMemsetD16_v2, CU_STREAM_LEGACY, &fill);
}

CUresult
cuMemsetD16_v2_ptds(CUdeviceptr to, unsigned short value, size_t n)
{
	struct fill fill = { to, n, value, 2, 1, 0 };

	return fill_now(E_cuMemsetD16_v2, CU_STREAM_PER_THREAD, &fill);
}

CUresult
cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t n)
{
	struct fill fill = { to, n, value, 4, 1, 0 };

	return fill_now(E_cuMemsetD32_v2, CU_STREAM_LEGACY, &fill);
}

CUresult
cuMemsetD32_v2_ptds(CUdeviceptr to, unsigned int value, size_t n)
{
	struct fill fill = { to, n, value, 4, 1, 0 };

	return fill_now(E_cuMemsetD32_v2, CU_STREAM_PER_THREAD, &fill);
}

CUresult
cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
	struct fill fill = { to, n, value, 1, 1, 0 };

	return fill_async(E_cuMemsetD8Async, stream, &fill);
}

CUresult
cuMemsetD16Async(
    CUdeviceptr to, unsigned short value, size_t n, CUstream stream)
{
	struct fill fill = { to, n, value, 2, 1, 0 };

	return fill_async(E_cuMemsetD16Async, stream, &fill);
}

CUresult
cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
	struct fill fill = { to, n, value, 4, 1, 0 };

	return fill_async(E_cuMemsetD32Async, stream, &fill);
}

/* ---- rectangles --------------------------------------------------------- */

CUresult
cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
    size_t height)
{
	struct fill fill = { to, width, value, 1, height, pitch };

	return fill_now(E_cuMemsetD2D8_v2, CU_STREAM_LEGACY, &fill);
}

CUresult
cuMemsetD2D8_v2_ptds(CUdeviceptr to, size_t pitch, unsigned char value,
    size_t width, size_t height)
{
	struct fill fill = { to, width, value, 1, height, pitch };

	return fill_now(E_cuMemsetD2D8_v2, CU_STREAM_PER_THREAD, &fill);
}

CUresult
cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value,
    size_t width, size_t height, CUstream stream)
{
	struct fill fill = { to, width, value, 1, height, pitch };

	return fill_async(E_cuMemsetD2D8Async, stream, &fill);
}

CUresult
cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value,
    size_t width, size_t height)
{
	struct fill fill = { to, width, value, 2, height, pitch };

	return fill_now(E_cuMemsetD2D16_v2, CU_STREAM_LEGACY, &fill);
}

CUresult
cuMemsetD2D16_v2_ptds(CUdeviceptr to, size_t pitch, unsigned short value,
    size_t width, size_t height)
{
	struct fill fill = { to, width, value, 2, height, pitch };

	return fill_now(E_cuMemsetD2D16_v2, CU_STREAM_PER_THREAD, &fill);
}

CUresult
cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value,
    size_t width, size_t height, CUstream stream)
{
	struct fill fill = { to, width, value, 2, height, pitch };

	return fill_async(E_cuMemsetD2D16Async, stream, &fill);
}

CUresult
cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width,
    size_t height)
{
	struct fill fill = { to, width, value, 4, height, pitch };

	return fill_now(E_cuMemsetD2D32_v2, CU_STREAM_LEGACY, &fill);
}

CUresult
cuMemsetD2D32_v2_ptds(CUdeviceptr to, size_t pitch, unsigned int value,
    size_t width, size_t height)
{
	struct fill fill = { to, width, value, 4, height, pitch };

	return fill_now(E_cuMemsetD2D32_v2, CU_STREAM_PER_THREAD, &fill);
}

CUresult
cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value,
    size_t width, size_t height, CUstream stream)
{
	struct fill fill = { to, width, value, 4, height, pitch };

	return fill_async(E_cuMemsetD2D32Async, stream, &fill);
}
