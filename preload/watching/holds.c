/*
 * Copies, fills and other work on memory that are hooked only to be held while
 * a device is asleep: held.c, Note [Holding launches].
 */
#include "preload/preload.h"

#define HOLD(name, params, args)                                               \
	CUresult name params                                                   \
	{                                                                      \
		return HELD(REAL(name) args);                                  \
	}

/* Both forms of a call on a stream, and of one on the default stream. */
#define HOLD_S(name, params, args)                                             \
	HOLD(name, params, args)                                               \
	HOLD(name##_ptsz, params, args)
#define HOLD_D(name, params, args)                                             \
	HOLD(name, params, args)                                               \
	HOLD(name##_ptds, params, args)

HOLD_S(cuStreamWaitValue32,
    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
    (stream, address, value, flags))

HOLD_S(cuStreamWaitValue32_v2,
    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
    (stream, address, value, flags))

HOLD_S(cuStreamWriteValue32,
    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
    (stream, address, value, flags))

HOLD_S(cuStreamWriteValue32_v2,
    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
    (stream, address, value, flags))

HOLD_S(cuStreamWaitValue64_v2,
    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
    (stream, address, value, flags))

HOLD_S(cuStreamWriteValue64_v2,
    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
    (stream, address, value, flags))

HOLD_S(cuStreamWaitValue64,
    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
    (stream, address, value, flags))

HOLD_S(cuStreamWriteValue64,
    (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
    (stream, address, value, flags))

HOLD_S(cuStreamBatchMemOp,
    (CUstream stream, unsigned n, void *operations, unsigned flags),
    (stream, n, operations, flags))

HOLD_S(cuStreamBatchMemOp_v2,
    (CUstream stream, unsigned n, void *operations, unsigned flags),
    (stream, n, operations, flags))

HOLD_S(cuMemPrefetchAsync,
    (CUdeviceptr address, size_t size, CUdevice device, CUstream stream),
    (address, size, device, stream))

HOLD_S(cuMemPrefetchAsync_v2,
    (CUdeviceptr address, size_t size, CUmemLocation location, unsigned flags,
	CUstream stream),
    (address, size, location, flags, stream))

HOLD(cuMemAdvise,
    (CUdeviceptr address, size_t size, CUmem_advise advice, CUdevice device),
    (address, size, advice, device))

HOLD(cuMemAdvise_v2,
    (CUdeviceptr address, size_t size, CUmem_advise advice,
	CUmemLocation location),
    (address, size, advice, location))

HOLD_D(cuMemcpyPeer,
    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
	CUcontext from_context, size_t size),
    (to, to_context, from, from_context, size))

HOLD_S(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *params, CUstream stream),
    (params, stream))

HOLD_S(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *params, CUstream stream),
    (params, stream))

HOLD_D(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *params), (params))

HOLD_S(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *params, CUstream stream),
    (params, stream))

HOLD_D(cuMemsetD2D8_v2,
    (CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
	size_t height),
    (to, pitch, value, width, height))

HOLD_S(cuMemsetD2D8Async,
    (CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
	size_t height, CUstream stream),
    (to, pitch, value, width, height, stream))

HOLD_D(cuMemsetD2D16_v2,
    (CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
	size_t height),
    (to, pitch, value, width, height))

HOLD_S(cuMemsetD2D16Async,
    (CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
	size_t height, CUstream stream),
    (to, pitch, value, width, height, stream))

HOLD_D(cuMemsetD2D32_v2,
    (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height),
    (to, pitch, value, width, height))

HOLD_S(cuMemsetD2D32Async,
    (CUdeviceptr to, size_t pitch, unsigned value, size_t width, size_t height,
	CUstream stream),
    (to, pitch, value, width, height, stream))

HOLD_S(cuMemcpyPeerAsync,
    (CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
	CUcontext from_context, size_t size, CUstream stream),
    (to, to_context, from, from_context, size, stream))

HOLD_D(cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t n),
    (to, value, n))

HOLD_D(cuMemsetD16_v2, (CUdeviceptr to, unsigned short value, size_t n),
    (to, value, n))

HOLD_D(
    cuMemsetD32_v2, (CUdeviceptr to, unsigned value, size_t n), (to, value, n))

HOLD_D(cuMemcpyDtoA_v2,
    (void *array, size_t offset, CUdeviceptr from, size_t size),
    (array, offset, from, size))

HOLD_D(cuMemcpyAtoD_v2,
    (CUdeviceptr to, void *array, size_t offset, size_t size),
    (to, array, offset, size))

HOLD_S(cuMemcpyBatchAsync,
    (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t n,
	void *attributes, size_t *indices, size_t n_attributes, size_t *failed,
	CUstream stream),
    (to, from, sizes, n, attributes, indices, n_attributes, failed, stream))

HOLD_S(cuMemcpyBatchAsync_v2,
    (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t n,
	void *attributes, size_t *indices, size_t n_attributes,
	CUstream stream),
    (to, from, sizes, n, attributes, indices, n_attributes, stream))

HOLD_S(cuMemcpy3DBatchAsync,
    (size_t n, void *copies, size_t *failed, unsigned long long flags,
	CUstream stream),
    (n, copies, failed, flags, stream))

HOLD_S(cuMemcpy3DBatchAsync_v2,
    (size_t n, void *copies, unsigned long long flags, CUstream stream),
    (n, copies, flags, stream))

HOLD_S(cuMemBatchDecompressAsync,
    (void *params, size_t n, unsigned flags, size_t *failed, CUstream stream),
    (params, n, flags, failed, stream))

HOLD_S(cuMemPrefetchBatchAsync,
    (CUdeviceptr * ranges, size_t *sizes, size_t n, void *locations,
	size_t *indices, size_t n_locations, unsigned long long flags,
	CUstream stream),
    (ranges, sizes, n, locations, indices, n_locations, flags, stream))

HOLD_S(cuMemDiscardBatchAsync,
    (CUdeviceptr * ranges, size_t *sizes, size_t n, unsigned long long flags,
	CUstream stream),
    (ranges, sizes, n, flags, stream))

HOLD_S(cuMemDiscardAndPrefetchBatchAsync,
    (CUdeviceptr * ranges, size_t *sizes, size_t n, void *locations,
	size_t *indices, size_t n_locations, unsigned long long flags,
	CUstream stream),
    (ranges, sizes, n, locations, indices, n_locations, flags, stream))

HOLD(cuLaunch, (CUfunction function), (function))

HOLD(cuLaunchGrid, (CUfunction function, int width, int height),
    (function, width, height))

HOLD(cuLaunchGridAsync,
    (CUfunction function, int width, int height, CUstream stream),
    (function, width, height, stream))

HOLD(cuLaunchCooperativeKernelMultiDevice,
    (void *launches, unsigned n, unsigned flags), (launches, n, flags))
