/**
 * weir as the allocator of ONNX Runtime's CUDA execution provider, which takes
 * the addresses of three functions as options, in decimal:
 *
 *	struct weir_onnxruntime_options o = weir_onnxruntime_options();
 *	const char *keys[] = { "gpu_external_alloc", "gpu_external_free",
 *		"gpu_external_empty_cache" };
 *	const char *values[] = { o.alloc, o.free, o.empty_cache };
 *	api->UpdateCUDAProviderOptions(options, keys, values, 3);
 *
 * In Python: weir.onnxruntime.provider_options(). ONNX Runtime names neither a
 * stream nor a device: memory is of the device that is current, may be used on
 * all streams at once, and serves again when the work submitted before its free
 * is done; nothing waits. Its own arena is not used then.
 */
#ifndef WEIR_ONNXRUNTIME_H
#define WEIR_ONNXRUNTIME_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** gpu_external_alloc: NULL on failure, of which ONNX Runtime makes an
 * exception; weir_last_error() has the text. */
static inline void *
weir_onnxruntime_alloc(size_t size)
{
	return size == 0 ? NULL : weir_malloc(size, WEIR_STREAM_ANY);
}

/** gpu_external_free. */
static inline void
weir_onnxruntime_free(void *ptr)
{
	(void)weir_free(ptr);
}

/** gpu_external_empty_cache: ONNX Runtime calls it to give back the memory that
 * it has reserved. Gives unused memory of the current device to the driver. */
static inline void
weir_onnxruntime_empty_cache(void)
{
	(void)weir_trim(WEIR_DEVICE_CURRENT, 0, NULL);
}

/** The values of the three options. */
struct weir_onnxruntime_options {
	char alloc[24];
	char free[24];
	char empty_cache[24];
};

static inline struct weir_onnxruntime_options
weir_onnxruntime_options(void)
{
	struct weir_onnxruntime_options o;

	snprintf(o.alloc, sizeof(o.alloc), "%" PRIuPTR,
	    (uintptr_t)weir_onnxruntime_alloc);
	snprintf(o.free, sizeof(o.free), "%" PRIuPTR,
	    (uintptr_t)weir_onnxruntime_free);
	snprintf(o.empty_cache, sizeof(o.empty_cache), "%" PRIuPTR,
	    (uintptr_t)weir_onnxruntime_empty_cache);
	return o;
}

#ifdef __cplusplus
}
#endif

#endif
