/*
 * Kernels, copies and fills, forwarded to the driver. races.c gets the device
 * addresses that they use. A kernel's addresses come from its parameters: each
 * aligned word of 8 bytes counts as an address if it lies in a block.
 *
 * Note [Large parameters]
 *
 * Programs rarely write all of a large structure. The rest of it has words of
 * an earlier launch, among them addresses of blocks that have been freed since.
 * So words of structures above SURE_BYTES are no evidence of a use after a
 * free, and words of structures above WRITTEN_BYTES are ignored: a table for
 * hundreds of tensors may be filled for three of them.
 */
#include <string.h>

#include "base/log.h"
#include "base/meta.h"
#include "preload/lock.h"
#include "preload/preload.h"
#include "preload/tuning.h"

enum {
	BUFFER_POINTER = 1, /* CU_LAUNCH_PARAM_... */
	BUFFER_SIZE = 2,
};

/* ---- Parameters -------------------------------------------------------- */

typedef CUresult param_info(
    CUfunction function, size_t index, size_t *offset, size_t *size);

struct parameter {
	uint16_t offset; /* in a buffer that has all parameters */
	uint16_t size;
};

/* The parameters of a function. */
struct function {
	struct function *next;
	CUfunction handle;
	unsigned n;
	struct parameter parameters[];
};

/* The addresses that a kernel may use. The first n_sure were surely passed to
 * it; the others may be left from an earlier launch. */
struct addresses {
	size_t n;
	size_t n_sure;
	CUdeviceptr at[LAUNCH_POINTERS];
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HOOK);
static struct function *functions[LAUNCH_FUNCTIONS];

static param_info *
find_question(const char *name)
{
	param_info *ask = NULL;
	void *found = real_find(name);

	memcpy(&ask, &found, sizeof(ask));
	return ask;
}

/* Ask for the parameters; returns their number. The driver has a separate entry
 * for a CUkernel, which may stand for a function. */
static unsigned
ask_parameters(
    CUfunction handle, struct parameter parameters[LAUNCH_PARAMETERS])
{
	static const char *const entries[] = { "cuFuncGetParamInfo",
		"cuKernelGetParamInfo" };
	size_t offset;
	size_t size;
	unsigned n = 0;

	for (int i = 0; i < 2 && n == 0; i++) {
		param_info *ask = find_question(entries[i]);
		while (ask != NULL && n < LAUNCH_PARAMETERS &&
		    ask(handle, n, &offset, &size) == CUDA_SUCCESS &&
		    offset < UINT16_MAX && size < UINT16_MAX)
			parameters[n++] = (struct parameter){ (uint16_t)offset,
				(uint16_t)size };
	}
	return n;
}

static struct function *
new_function(CUfunction handle) HOLDS(lock)
{
	struct parameter parameters[LAUNCH_PARAMETERS];
	unsigned n = ask_parameters(handle, parameters);
	struct function *function =
	    meta_alloc(sizeof(*function) + n * sizeof(parameters[0]));

	if (function == NULL)
		return NULL;
	function->handle = handle;
	function->n = n;
	memcpy(function->parameters, parameters, n * sizeof(parameters[0]));
	return function;
}

/* NULL without memory. Entries are never removed: there are few handles, and
 * unloading is not reported. */
static const struct function *
function_of(CUfunction handle)
{
	uint64_t hash = (uint64_t)(uintptr_t)handle * 0x9e3779b97f4a7c15u;
	struct function **at = &functions[(hash >> 32) % LAUNCH_FUNCTIONS];

	preload_lock(&lock);
	while (*at != NULL && (*at)->handle != handle)
		at = &(*at)->next;
	if (*at == NULL && (*at = new_function(handle)) != NULL)
		(*at)->next = NULL;
	const struct function *function = *at;
	preload_unlock(&lock);
	return function;
}

static void
add_words(struct addresses *out, const void *from, size_t size)
{
	for (size_t i = 0;
	     i + sizeof(CUdeviceptr) <= size && out->n < LAUNCH_POINTERS;
	     i += sizeof(CUdeviceptr))
		memcpy(&out->at[out->n++], (const char *)from + i,
		    sizeof(CUdeviceptr));
}

/* The buffer that has all parameters, or NULL. */
static const char *
find_buffer(void **extra, size_t *size)
{
	const char *buffer = NULL;

	for (; *extra != NULL; extra += 2) {
		if ((uintptr_t)*extra == BUFFER_POINTER)
			buffer = extra[1];
		else if ((uintptr_t)*extra == BUFFER_SIZE)
			memcpy(size, extra[1], sizeof(*size));
	}
	return buffer;
}

/* Add the words of the parameters of some sizes. They lie in one buffer or
 * separately. */
static void
add_parameters(struct addresses *out, const struct function *function,
    void **parameters, const char *buffer, size_t least, size_t most)
{
	for (unsigned i = 0; i < function->n; i++) {
		const struct parameter *p = &function->parameters[i];

		if (p->size >= least && p->size <= most)
			add_words(out,
			    buffer == NULL ? parameters[i] : buffer + p->offset,
			    p->size);
	}
}

/* Collect the words of the parameters before the launch, because they may be
 * gone afterwards. */
static void
gather_parameters(
    struct addresses *out, CUfunction handle, void **parameters, void **extra)
{
	const struct function *function = function_of(handle);
	const char *buffer = NULL;
	size_t size = 0;

	out->n = 0;
	out->n_sure = 0;
	if (parameters == NULL && extra != NULL)
		buffer = find_buffer(extra, &size);
	if (function == NULL || (parameters == NULL && buffer == NULL))
		return;
	if (function->n == 0 && buffer != NULL && size <= WRITTEN_BYTES) {
		add_words(out, buffer, size);
		out->n_sure = size <= SURE_BYTES ? out->n : 0;
	}
	/* The driver refuses a buffer that is too short. */
	for (unsigned i = 0; buffer != NULL && i < function->n; i++)
		if (function->parameters[i].offset +
			(size_t)function->parameters[i].size >
		    size)
			return;
	add_parameters(out, function, parameters, buffer, 0, SURE_BYTES);
	out->n_sure = out->n;
	add_parameters(
	    out, function, parameters, buffer, SURE_BYTES + 1, WRITTEN_BYTES);
}

/* Not inlined, so that programs without the check do not pay for it. */
static __attribute__((noinline)) void
note_launch(CUfunction handle, void **parameters, void **extra, CUstream stream,
    bool per_thread)
{
	struct addresses *found = meta_alloc(sizeof(*found));

	if (found == NULL)
		return;
	gather_parameters(found, handle, parameters, extra);
	races_work(
	    stream, per_thread, "a kernel", found->at, found->n, found->n_sure);
	meta_free(found, sizeof(*found));
}

/* ---- Kernels ----------------------------------------------------------- */

CUresult
cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
    unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
    void **parameters, void **extra)
{
	if (races_wanted())
		note_launch(function, parameters, extra, stream, false);
	return HELD(REAL(cuLaunchKernel)(function, gx, gy, gz, bx, by, bz,
	    shared, stream, parameters, extra));
}

CUresult
cuLaunchKernel_ptsz(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
    unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream,
    void **parameters, void **extra)
{
	if (races_wanted())
		note_launch(function, parameters, extra, stream, true);
	return HELD(REAL(cuLaunchKernel_ptsz)(function, gx, gy, gz, bx, by, bz,
	    shared, stream, parameters, extra));
}

CUresult
cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy,
    unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    CUstream stream, void **parameters)
{
	if (races_wanted())
		note_launch(function, parameters, NULL, stream, false);
	return HELD(REAL(cuLaunchCooperativeKernel)(
	    function, gx, gy, gz, bx, by, bz, shared, stream, parameters));
}

CUresult
cuLaunchCooperativeKernel_ptsz(CUfunction function, unsigned gx, unsigned gy,
    unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    CUstream stream, void **parameters)
{
	if (races_wanted())
		note_launch(function, parameters, NULL, stream, true);
	return HELD(REAL(cuLaunchCooperativeKernel_ptsz)(
	    function, gx, gy, gz, bx, by, bz, shared, stream, parameters));
}

/* The beginning of the driver's CUlaunchConfig. */
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
	return HELD(
	    REAL(cuLaunchKernelEx)(config, function, parameters, extra));
}

CUresult
cuLaunchKernelEx_ptsz(
    const void *config, CUfunction function, void **parameters, void **extra)
{
	if (races_wanted() && config != NULL)
		note_launch(function, parameters, extra,
		    ((const struct launch_config *)config)->stream, true);
	return HELD(
	    REAL(cuLaunchKernelEx_ptsz)(config, function, parameters, extra));
}

/* ---- Copies and fills -------------------------------------------------- */

static CUresult
note_copied(CUdeviceptr to, CUdeviceptr from, CUstream stream, bool per_thread,
    CUresult code)
{
	const CUdeviceptr both[] = { to, from };

	if (races_wanted() && code == CUDA_SUCCESS)
		races_work(stream, per_thread, "a copy", both, 2, 2);
	return code;
}

static CUresult
filled(CUdeviceptr ptr, CUstream stream, bool per_thread, CUresult code)
{
	if (races_wanted() && code == CUDA_SUCCESS)
		races_work(stream, per_thread, "a fill", &ptr, 1, 1);
	return code;
}

CUresult
cuMemcpyHtoDAsync_v2(
    CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return note_copied(to, 0, stream, false,
	    HELD(REAL(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream)));
}

CUresult
cuMemcpyHtoDAsync_v2_ptsz(
    CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	return note_copied(to, 0, stream, true,
	    HELD(REAL(cuMemcpyHtoDAsync_v2_ptsz)(to, from, bytes, stream)));
}

CUresult
cuMemcpyDtoDAsync_v2(
    CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return note_copied(to, from, stream, false,
	    HELD(REAL(cuMemcpyDtoDAsync_v2)(to, from, bytes, stream)));
}

CUresult
cuMemcpyDtoDAsync_v2_ptsz(
    CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return note_copied(to, from, stream, true,
	    HELD(REAL(cuMemcpyDtoDAsync_v2_ptsz)(to, from, bytes, stream)));
}

CUresult
cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
	return note_copied(
	    to, 0, NULL, false, HELD(REAL(cuMemcpyHtoD_v2)(to, from, bytes)));
}

CUresult
cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t bytes)
{
	return note_copied(to, 0, NULL, true,
	    HELD(REAL(cuMemcpyHtoD_v2_ptds)(to, from, bytes)));
}

CUresult
cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return note_copied(to, from, NULL, false,
	    HELD(REAL(cuMemcpyDtoD_v2)(to, from, bytes)));
}

CUresult
cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return note_copied(to, from, NULL, true,
	    HELD(REAL(cuMemcpyDtoD_v2_ptds)(to, from, bytes)));
}

CUresult
cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
	return filled(to, stream, false,
	    HELD(REAL(cuMemsetD8Async)(to, value, n, stream)));
}

CUresult
cuMemsetD8Async_ptsz(
    CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
	return filled(to, stream, true,
	    HELD(REAL(cuMemsetD8Async_ptsz)(to, value, n, stream)));
}

CUresult
cuMemsetD16Async(
    CUdeviceptr to, unsigned short value, size_t n, CUstream stream)
{
	return filled(to, stream, false,
	    HELD(REAL(cuMemsetD16Async)(to, value, n, stream)));
}

CUresult
cuMemsetD16Async_ptsz(
    CUdeviceptr to, unsigned short value, size_t n, CUstream stream)
{
	return filled(to, stream, true,
	    HELD(REAL(cuMemsetD16Async_ptsz)(to, value, n, stream)));
}

CUresult
cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t n, CUstream stream)
{
	return filled(to, stream, false,
	    HELD(REAL(cuMemsetD32Async)(to, value, n, stream)));
}

CUresult
cuMemsetD32Async_ptsz(CUdeviceptr to, unsigned value, size_t n, CUstream stream)
{
	return filled(to, stream, true,
	    HELD(REAL(cuMemsetD32Async_ptsz)(to, value, n, stream)));
}
