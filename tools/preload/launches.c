/*
 * Kernels, copies and fills, handed on to the driver; races.c is told which
 * device addresses they work with. Of a kernel these are its parameters: each
 * aligned word of 8 bytes is taken for an address, and is one if it lies in a
 * block.
 */
#include <pthread.h>
#include <string.h>

#include "base/log.h"
#include "base/meta.h"
#include "tools/preload/preload.h"

enum {
	POINTERS = 256, /* of one kernel, at most */
	PARAMETERS = 512,
	FUNCTIONS = 1 << 10,
	BUFFER_POINTER = 1, /* CU_LAUNCH_PARAM_... */
	BUFFER_SIZE = 2,
};

/* ---- Parameters -------------------------------------------------------- */

typedef CUresult param_info(
    CUfunction function, size_t index, size_t *offset, size_t *size);

/* The sizes of a function's parameters. */
struct function {
	struct function *next;
	CUfunction handle;
	unsigned n;
	uint16_t sizes[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct function *functions[FUNCTIONS];

static param_info *
find_question(const char *name)
{
	param_info *ask = NULL;
	void *found = real_find(name);

	memcpy(&ask, &found, sizeof(ask));
	return ask;
}

/* How many there are; those of a CUkernel, which may stand for a function, are
 * told by another entry. */
static unsigned
ask_sizes(CUfunction handle, uint16_t sizes[PARAMETERS])
{
	static const char *const entries[] = { "cuFuncGetParamInfo",
		"cuKernelGetParamInfo" };
	size_t offset;
	size_t size;
	unsigned n = 0;

	for (int i = 0; i < 2 && n == 0; i++) {
		param_info *ask = find_question(entries[i]);
		while (ask != NULL && n < PARAMETERS &&
		    ask(handle, n, &offset, &size) == CUDA_SUCCESS)
			sizes[n++] = size < UINT16_MAX ? (uint16_t)size : 0;
	}
	return n;
}

static struct function *
new_function(CUfunction handle)
{
	uint16_t sizes[PARAMETERS];
	unsigned n = ask_sizes(handle, sizes);
	struct function *function =
	    meta_alloc(sizeof(*function) + n * sizeof(sizes[0]));

	if (function == NULL)
		return NULL;
	function->handle = handle;
	function->n = n;
	memcpy(function->sizes, sizes, n * sizeof(sizes[0]));
	return function;
}

/* NULL without memory. They are kept: handles are few, and what is unloaded is
 * not told. */
static const struct function *
function_of(CUfunction handle)
{
	uint64_t hash = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u;
	struct function **at = &functions[(hash >> 32) % FUNCTIONS];

	pthread_mutex_lock(&lock);
	while (*at != NULL && (*at)->handle != handle)
		at = &(*at)->next;
	if (*at == NULL && (*at = new_function(handle)) != NULL)
		(*at)->next = NULL;
	const struct function *function = *at;
	pthread_mutex_unlock(&lock);
	return function;
}

static size_t
add_words(CUdeviceptr *out, size_t n, const void *from, size_t size)
{
	for (size_t i = 0; i + sizeof(*out) <= size && n < POINTERS;
	     i += sizeof(*out))
		memcpy(&out[n++], (const char *)from + i, sizeof(*out));
	return n;
}

/* Add the addresses in a buffer that has all parameters. */
static size_t
add_buffer(CUdeviceptr *out, void **extra)
{
	const void *buffer = NULL;
	size_t size = 0;

	for (; *extra != NULL; extra += 2) {
		if ((uintptr_t)*extra == BUFFER_POINTER)
			buffer = extra[1];
		else if ((uintptr_t)*extra == BUFFER_SIZE)
			memcpy(&size, extra[1], sizeof(size));
	}
	return buffer != NULL ? add_words(out, 0, buffer, size) : 0;
}

/* The words of the parameters, before the launch: they may be gone after. */
static size_t
add_parameters(
    CUdeviceptr *out, CUfunction handle, void **parameters, void **extra)
{
	size_t n = 0;

	if (parameters == NULL)
		return extra != NULL ? add_buffer(out, extra) : 0;
	const struct function *function = function_of(handle);
	for (unsigned i = 0; function != NULL && i < function->n; i++)
		n = add_words(out, n, parameters[i], function->sizes[i]);
	return n;
}

/* Not inlined, so that programs which are not checked do not pay for it. */
static __attribute__((noinline)) void
note_launch(CUfunction handle, void **parameters, void **extra, CUstream stream,
    bool per_thread)
{
	CUdeviceptr *words = meta_alloc(POINTERS * sizeof(*words));

	if (words == NULL)
		return;
	size_t n = add_parameters(words, handle, parameters, extra);
	races_work(stream, per_thread, "a kernel", words, n);
	meta_free(words, POINTERS * sizeof(*words));
}

/* ---- Kernels ----------------------------------------------------------- */

CUresult
cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
    unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
    void **parameters, void **extra)
{
	if (races_wanted())
		note_launch(function, parameters, extra, stream, false);
	return REAL(cuLaunchKernel)(function, gx, gy, gz, bx, by, bz, shared,
	    stream, parameters, extra);
}

CUresult
cuLaunchKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
    unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
    void **parameters, void **extra)
{
	if (races_wanted())
		note_launch(function, parameters, extra, stream, true);
	return REAL(cuLaunchKernel_ptsz)(function, gx, gy, gz, bx, by, bz,
	    shared, stream, parameters, extra);
}

CUresult
cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy,
    unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    CUstream stream, void **parameters)
{
	if (races_wanted())
		note_launch(function, parameters, NULL, stream, false);
	return REAL(cuLaunchCooperativeKernel)(
	    function, gx, gy, gz, bx, by, bz, shared, stream, parameters);
}

CUresult
cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned gx, unsigned gy,
    unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    CUstream stream, void **parameters)
{
	if (races_wanted())
		note_launch(function, parameters, NULL, stream, true);
	return REAL(cuLaunchCooperativeKernel_ptsz)(
	    function, gx, gy, gz, bx, by, bz, shared, stream, parameters);
}

/* The beginning of CUlaunchConfig. */
struct launch_config {
	unsigned grid[3];
	unsigned block[3];
	unsigned shared;
	CUstream stream;
};

CUresult
cuLaunchKernelEx(
    const void *config, CUfunction function, void **parameters, void **extra)
{
	if (races_wanted() && config != NULL)
		note_launch(function, parameters, extra,
		    ((const struct launch_config *)config)->stream, false);
	return REAL(cuLaunchKernelEx)(config, function, parameters, extra);
}

CUresult
cuLaunchKernelEx_ptsz(
    const void *config, CUfunction function, void **parameters, void **extra)
{
	if (races_wanted() && config != NULL)
		note_launch(function, parameters, extra,
		    ((const struct launch_config *)config)->stream, true);
	return REAL(cuLaunchKernelEx_ptsz)(config, function, parameters, extra);
}

/* ---- Copies and fills -------------------------------------------------- */

static CUresult
copied(CUdeviceptr to, CUdeviceptr from, CUstream stream, bool per_thread,
    CUresult code)
{
	const CUdeviceptr both[] = { to, from };

	if (races_wanted() && code == CUDA_SUCCESS)
		races_work(stream, per_thread, "a copy", both, 2);
	return code;
}

static CUresult
filled(CUdeviceptr ptr, CUstream stream, bool per_thread, CUresult code)
{
	if (races_wanted() && code == CUDA_SUCCESS)
		races_work(stream, per_thread, "a fill", &ptr, 1);
	return code;
}

CUresult
cuMemcpyHtoDAsync_v2(
    CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return copied(to, 0, stream, false,
	    REAL(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream));
}

CUresult
cuMemcpyHtoDAsync_v2_ptsz(
    CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return copied(to, 0, stream, true,
	    REAL(cuMemcpyHtoDAsync_v2_ptsz)(to, from, bytes, stream));
}

CUresult
cuMemcpyDtoDAsync_v2(
    CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copied(to, from, stream, false,
	    REAL(cuMemcpyDtoDAsync_v2)(to, from, bytes, stream));
}

CUresult
cuMemcpyDtoDAsync_v2_ptsz(
    CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copied(to, from, stream, true,
	    REAL(cuMemcpyDtoDAsync_v2_ptsz)(to, from, bytes, stream));
}

CUresult
cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return copied(
	    to, 0, NULL, false, REAL(cuMemcpyHtoD_v2)(to, from, bytes));
}

CUresult
cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes)
{
	return copied(
	    to, 0, NULL, true, REAL(cuMemcpyHtoD_v2_ptds)(to, from, bytes));
}

CUresult
cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return copied(
	    to, from, NULL, false, REAL(cuMemcpyDtoD_v2)(to, from, bytes));
}

CUresult
cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return copied(
	    to, from, NULL, true, REAL(cuMemcpyDtoD_v2_ptds)(to, from, bytes));
}

CUresult
cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
	return filled(
	    to, stream, false, REAL(cuMemsetD8Async)(to, value, n, stream));
}

CUresult
cuMemsetD8Async_ptsz(
    CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
	return filled(
	    to, stream, true, REAL(cuMemsetD8Async_ptsz)(to, value, n, stream));
}

CUresult
cuMemsetD16Async(
    CUdeviceptr to, unsigned short value, size_t n, CUstream stream)
{
	return filled(
	    to, stream, false, REAL(cuMemsetD16Async)(to, value, n, stream));
}

CUresult
cuMemsetD16Async_ptsz(
    CUdeviceptr to, unsigned short value, size_t n, CUstream stream)
{
	return filled(to, stream, true,
	    REAL(cuMemsetD16Async_ptsz)(to, value, n, stream));
}

CUresult
cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream)
{
	return filled(
	    to, stream, false, REAL(cuMemsetD32Async)(to, value, n, stream));
}

CUresult
cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t n, CUstream stream)
{
	return filled(to, stream, true,
	    REAL(cuMemsetD32Async_ptsz)(to, value, n, stream));
}
