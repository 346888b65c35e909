/*
 * Kernels: C functions, found by the name of an entry in a module's PTX.
 *
 * A module may be any image that contains PTX text. Kernels of the text that
 * are not listed below do not exist. Each kernel says which memory it accesses,
 * so that this can be checked, and how long it takes: if nothing else is given,
 * the duration follows from its bytes.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "simcuda/capture.h"
#include "simcuda/sim.h"

struct module {
	uint64_t handle;
	uint64_t context_id;
	struct function *functions;
	char *text;
};

struct function {
	struct function *next;
	uint64_t handle;
	struct module *module;
	const struct kernel *kernel;
};

/* ---- the kernels -------------------------------------------------------- */

static uint32_t *
words(uint64_t address)
{
	return (uint32_t *)(uintptr_t)address;
}

static struct access
words_access(uint64_t address, uint64_t n, enum access_mode mode)
{
	return (struct access){
		.address = address, .size = n * sizeof(uint32_t), .mode = mode
	};
}

/* (to, value, n) */
static size_t
words_fill_accesses(const uint64_t *params, struct access *out)
{
	out[0] = words_access(params[0], params[2], ACCESS_WRITE);
	return 1;
}

static void
words_fill_run(const uint64_t *params)
{
	for (uint64_t i = 0; i < params[2]; i++)
		words(params[0])[i] = (uint32_t)params[1];
}

/* (to, a, b, n) */
static size_t
add_accesses(const uint64_t *params, struct access *out)
{
	out[0] = words_access(params[1], params[3], ACCESS_READ);
	out[1] = words_access(params[2], params[3], ACCESS_READ);
	out[2] = words_access(params[0], params[3], ACCESS_WRITE);
	return 3;
}

static void
sum_run(const uint64_t *params)
{
	for (uint64_t i = 0; i < params[3]; i++)
		words(params[0])[i] = words(params[1])[i] + words(params[2])[i];
}

/* (to, from, n) */
static size_t
words_copy_accesses(const uint64_t *params, struct access *out)
{
	out[0] = words_access(params[1], params[2], ACCESS_READ);
	out[1] = words_access(params[0], params[2], ACCESS_WRITE);
	return 2;
}

static void
words_copy_run(const uint64_t *params)
{
	memmove(
	    words(params[0]), words(params[1]), params[2] * sizeof(uint32_t));
}

/* (from, value, n, mismatches) */
static size_t
compare_accesses(const uint64_t *params, struct access *out)
{
	out[0] = words_access(params[0], params[2], ACCESS_READ);
	out[1] = words_access(params[3], 1, ACCESS_ATOMIC);
	return 2;
}

static void
compare_run(const uint64_t *params)
{
	uint32_t mismatches = 0;

	for (uint64_t i = 0; i < params[2]; i++)
		mismatches += words(params[0])[i] != (uint32_t)params[1];
	__atomic_add_fetch(words(params[3]), mismatches, __ATOMIC_RELAXED);
}

/* (ns) */
static uint64_t
sleep_duration_ns(const uint64_t *params)
{
	return params[0];
}

/* (to, from, factor, n), of float */
static size_t
scale_accesses(const uint64_t *params, struct access *out)
{
	out[0] = words_access(params[1], params[3], ACCESS_READ);
	out[1] = words_access(params[0], params[3], ACCESS_WRITE);
	return 2;
}

static void
scale_run(const uint64_t *params)
{
	float *to = (float *)(uintptr_t)params[0];
	const float *from = (const float *)(uintptr_t)params[1];
	uint32_t bits = (uint32_t)params[2];
	float factor;

	memcpy(&factor, &bits, sizeof(factor));
	for (uint64_t i = 0; i < params[3]; i++)
		to[i] = from[i] * factor;
}

/*
 * A pattern that distinguishes a block from all others, by its number. It
 * counts as written to every word, so the order of all accesses to the block is
 * checked. But to save host memory, only the words at both ends and one in each
 * granule of a mapping are really written and compared.
 */
enum { PATTERN_EDGE = 16, PATTERN_STEP = SIM_GRANULE / sizeof(uint32_t) };

/* The next word that is written after `i`, of n words. */
static uint64_t
pattern_next(uint64_t i, uint64_t n)
{
	uint64_t last_edge = n > PATTERN_EDGE ? n - PATTERN_EDGE : 0;
	uint64_t next = (i / PATTERN_STEP + 1) * PATTERN_STEP;

	if (i + 1 < PATTERN_EDGE || i + 1 >= last_edge)
		return i + 1;
	return next < last_edge ? next : last_edge;
}

static uint32_t
pattern_word(uint64_t number, uint64_t i)
{
	return ((uint32_t)number * 0x9e3779b1u + (uint32_t)i) * 0x85ebca6bu;
}

static uint64_t
pattern_duration_ns(const uint64_t *params)
{
	(void)params;
	return 1;
}

/* (to, number, n) */
static void
pattern_run(const uint64_t *params)
{
	uint64_t n = params[2];

	for (uint64_t i = 0; i < n; i = pattern_next(i, n))
		words(params[0])[i] = pattern_word(params[1], i);
}

/* (from, number, n, found); `found` gets the number of words that differ, and
 * the number of the block that was first seen */
static size_t
pattern_check_accesses(const uint64_t *params, struct access *out)
{
	out[0] = words_access(params[0], params[2], ACCESS_READ);
	out[1] = words_access(params[3], 2, ACCESS_ATOMIC);
	return 2;
}

static void
pattern_check_run(const uint64_t *params)
{
	uint64_t n = params[2];
	uint32_t *found = words(params[3]);
	uint32_t mismatches = 0;

	for (uint64_t i = 0; i < n; i = pattern_next(i, n))
		mismatches += words(params[0])[i] != pattern_word(params[1], i);
	if (mismatches == 0)
		return;
	if (found[0] == 0)
		found[1] = (uint32_t)params[1];
	found[0] += mismatches;
}

/* (a structure), which is not used */
static size_t
no_accesses(const uint64_t *params, struct access *out)
{
	(void)params;
	(void)out;
	return 0;
}

static void
no_run(const uint64_t *params)
{
	(void)params;
}

static const struct kernel kernels[] = {
	{ "weir_fill_u32", 3, { 8, 4, 8 }, words_fill_accesses, words_fill_run,
	    NULL },
	{ "weir_add_u32", 4, { 8, 8, 8, 8 }, add_accesses, sum_run, NULL },
	{ "weir_copy_u32", 3, { 8, 8, 8 }, words_copy_accesses, words_copy_run,
	    NULL },
	{ "weir_check_u32", 4, { 8, 4, 8, 8 }, compare_accesses, compare_run,
	    NULL },
	{ "weir_sleep_ns", 1, { 8 }, no_accesses, no_run, sleep_duration_ns },
	{ "weir_scale_f32", 4, { 8, 8, 4, 8 }, scale_accesses, scale_run,
	    NULL },
	{ "weir_pattern_u32", 3, { 8, 4, 8 }, words_fill_accesses, pattern_run,
	    pattern_duration_ns },
	{ "weir_check_pattern_u32", 4, { 8, 4, 8, 8 }, pattern_check_accesses,
	    pattern_check_run, pattern_duration_ns },
	{ "weir_ignore_128", 1, { 128 }, no_accesses, no_run, NULL },
	{ "weir_ignore_4000", 1, { 4000 }, no_accesses, no_run, NULL },
};

static const struct kernel *
kernel_find(const char *name)
{
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		if (strcmp(kernels[i].name, name) == 0)
			return &kernels[i];
	}
	for (size_t i = 0; i < TENSOR_KERNELS; i++) {
		if (strcmp(tensor_kernels[i].name, name) == 0)
			return &tensor_kernels[i];
	}
	return NULL;
}

/* ---- durations ---------------------------------------------------------- */

/* 1 GB/s is 1 byte a nanosecond. */
uint64_t
copy_duration_ns(uint64_t to, uint64_t from, size_t size)
{
	struct range *a = memory_find(to), *b = memory_find(from);
	bool host =
	    a == NULL || b == NULL || range_is_host(a) || range_is_host(b);

	return size / (host ? conf.host_gbps : conf.device_gbps) + 1;
}

static uint64_t
kernel_duration_ns(const struct kernel *kernel, const uint64_t *params)
{
	struct access accesses[SIM_ACCESSES];
	size_t n, bytes = 0;

	if (kernel->duration_ns != NULL)
		return kernel->duration_ns(params);
	n = kernel->accesses(params, accesses);
	for (size_t i = 0; i < n; i++)
		bytes += access_bytes(&accesses[i]);
	return bytes / conf.device_gbps + 1;
}

/* ---- modules ------------------------------------------------------------ */

/* Find the name after the next ".entry" at or after *text, and move *text past
 * it. */
static size_t
next_entry(const char **text, const char **name)
{
	const char *at = strstr(*text, ".entry");
	size_t n = 0;

	if (at == NULL)
		return 0;
	at += strlen(".entry");
	while (isspace((unsigned char)*at))
		at++;
	while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '$')
		n++;
	*name = at;
	*text = at + n;
	return n;
}

static struct function *
function_find(struct module *module, const char *name)
{
	const char *text = module->text, *entry;
	const struct kernel *kernel = kernel_find(name);
	struct function *function;
	size_t n;

	for (function = module->functions; function != NULL;
	     function = function->next) {
		if (strcmp(function->kernel->name, name) == 0)
			return function;
	}
	while ((n = next_entry(&text, &entry)) > 0) {
		if (n == strlen(name) && memcmp(entry, name, n) == 0)
			break;
	}
	if (n == 0 || kernel == NULL)
		return NULL;
	function = sim_alloc(sizeof(*function));
	function->module = module;
	function->kernel = kernel;
	function->handle = handle_new(HANDLE_FUNCTION, function);
	function->next = module->functions;
	module->functions = function;
	return function;
}

/* Images that are not text begin with a magic number. */
static CUresult
load_ptx_module(CUmodule *out, const void *image)
{
	struct module *module;
	const char *text = image, *name;

	if (out == NULL || image == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (strstr(text, ".version") == NULL)
		return CUDA_ERROR_INVALID_IMAGE;
	if (strstr(text, ".target") == NULL || next_entry(&text, &name) == 0)
		return CUDA_ERROR_INVALID_PTX;
	module = sim_alloc(sizeof(*module));
	module->context_id = sim.here->id;
	module->text = strdup(image);
	module->handle = handle_new(HANDLE_MODULE, module);
	*out = handle_pointer(module->handle);
	return CUDA_SUCCESS;
}

CUresult
cuModuleLoadData(CUmodule *module, const void *image)
{
	CUresult code = gate_enter(E_cuModuleLoadData);

	if (code == CUDA_SUCCESS)
		code = load_ptx_module(module, image);
	return gate_leave(code);
}

CUresult
cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n_options,
    CUjit_option *options, void **values)
{
	CUresult code = gate_enter(E_cuModuleLoadDataEx);

	(void)n_options;
	(void)options;
	(void)values;
	if (code == CUDA_SUCCESS)
		code = load_ptx_module(module, image);
	return gate_leave(code);
}

CUresult
cuModuleUnload(CUmodule handle)
{
	CUresult code = gate_enter(E_cuModuleUnload);
	struct module *module = handle_find(HANDLE_MODULE, handle_bits(handle));

	if (code == CUDA_SUCCESS && module == NULL)
		code = CUDA_ERROR_INVALID_HANDLE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	while (module->functions != NULL) {
		struct function *function = module->functions;

		module->functions = function->next;
		handle_drop(HANDLE_FUNCTION, function->handle);
		free(function);
	}
	handle_drop(HANDLE_MODULE, module->handle);
	free(module->text);
	free(module);
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name)
{
	CUresult code = gate_enter(E_cuModuleGetFunction);
	struct module *module = handle_find(HANDLE_MODULE, handle_bits(handle));
	struct function *function = NULL;

	if (code == CUDA_SUCCESS && (out == NULL || name == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && module == NULL)
		code = CUDA_ERROR_INVALID_HANDLE;
	if (code == CUDA_SUCCESS) {
		function = function_find(module, name);
		if (function == NULL)
			code = CUDA_ERROR_NOT_FOUND;
	}
	if (code == CUDA_SUCCESS)
		*out = handle_pointer(function->handle);
	return gate_leave(code);
}

/* A parameter is aligned to its size, a structure to 8 bytes. */
static size_t
param_aligned(size_t offset, size_t bytes)
{
	size_t align = bytes < 8 ? bytes : 8;

	return (offset + align - 1) / align * align;
}

CUresult
cuFuncGetParamInfo(
    CUfunction handle, size_t index, size_t *offset, size_t *size)
{
	CUresult code = gate_enter(E_cuFuncGetParamInfo);
	const struct function *function =
	    handle_find(HANDLE_FUNCTION, handle_bits(handle));
	size_t at = 0;

	if (code == CUDA_SUCCESS && function == NULL)
		code = CUDA_ERROR_INVALID_HANDLE;
	if (code == CUDA_SUCCESS &&
	    (offset == NULL || index >= function->kernel->n_params))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	for (size_t i = 0; i <= index; i++) {
		size_t bytes = function->kernel->param_bytes[i];

		at = param_aligned(at, bytes);
		*offset = at;
		if (size != NULL)
			*size = bytes;
		at += bytes;
	}
	return gate_leave(code);
}

/* ---- launching ---------------------------------------------------------- */

static void
param_copy(uint64_t *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes < sizeof(*to) ? bytes : sizeof(*to));
}

/* Read parameters from one packed buffer. */
static CUresult
unpack(const struct kernel *kernel, void **extra, uint64_t *params)
{
	const char *buffer = NULL;
	size_t size = 0, offset = 0;

	/* Pairs of a key and a value; keys are small numbers, and 0 ends the
	 * list. */
	for (; handle_bits(extra[0]) != 0; extra += 2) {
		if (handle_bits(extra[0]) == 1)
			buffer = extra[1];
		else if (handle_bits(extra[0]) == 2)
			size = *(const size_t *)extra[1];
	}
	for (unsigned i = 0; i < kernel->n_params; i++) {
		size_t bytes = kernel->param_bytes[i];

		offset = param_aligned(offset, bytes);
		if (buffer == NULL || offset + bytes > size)
			return CUDA_ERROR_INVALID_VALUE;
		param_copy(&params[i], buffer + offset, bytes);
		offset += bytes;
	}
	return CUDA_SUCCESS;
}

static CUresult
read_params(const struct kernel *kernel, void **pointers, void **extra,
    uint64_t *params)
{
	if (pointers == NULL && extra == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	if (pointers == NULL)
		return unpack(kernel, extra, params);
	for (unsigned i = 0; i < kernel->n_params; i++)
		param_copy(&params[i], pointers[i], kernel->param_bytes[i]);
	return CUDA_SUCCESS;
}

static bool
dimensions_fit(const CUDA_KERNEL_NODE_PARAMS *params)
{
	return params->gridDimX > 0 && params->gridDimY > 0 &&
	    params->gridDimZ > 0 && params->blockDimX > 0 &&
	    params->blockDimY > 0 && params->blockDimZ > 0 &&
	    (uint64_t)params->blockDimX * params->blockDimY *
		params->blockDimZ <=
	    1024 &&
	    params->sharedMemBytes <= 232448;
}

CUresult
kernel_action(const CUDA_KERNEL_NODE_PARAMS *params, struct action *action)
{
	const struct function *function =
	    handle_find(HANDLE_FUNCTION, handle_bits(params->func));
	struct kernel_call *call = &action->kernel;
	CUresult code;

	*action = (struct action){ .kind = OP_KERNEL };
	if (function == NULL)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!dimensions_fit(params))
		return CUDA_ERROR_INVALID_VALUE;
	code = read_params(function->kernel, params->kernelParams,
	    params->extra, call->params);
	if (code != CUDA_SUCCESS)
		return code;
	call->kernel = function->kernel;
	call->context_id = function->module->context_id;
	action->duration_ns = kernel_duration_ns(call->kernel, call->params);
	return CUDA_SUCCESS;
}

CUresult
cuLaunchKernel(CUfunction handle, unsigned int grid_x, unsigned int grid_y,
    unsigned int grid_z, unsigned int block_x, unsigned int block_y,
    unsigned int block_z, unsigned int shared_bytes, CUstream stream_handle,
    void **parameters, void **extra)
{
	CUresult code = gate_enter(E_cuLaunchKernel);
	CUDA_KERNEL_NODE_PARAMS params = { handle, grid_x, grid_y, grid_z,
		block_x, block_y, block_z, shared_bytes, parameters, extra,
		NULL, NULL };
	struct stream *stream = NULL;
	struct action action;

	if (code == CUDA_SUCCESS &&
	    handle_find(HANDLE_FUNCTION, handle_bits(handle)) == NULL)
		code = CUDA_ERROR_INVALID_HANDLE;
	if (code == CUDA_SUCCESS)
		stream = stream_for_work(stream_handle, &code);
	if (code == CUDA_SUCCESS)
		code = kernel_action(&params, &action);
	if (code == CUDA_SUCCESS &&
	    action.kernel.context_id != stream->context->id)
		code = CUDA_ERROR_INVALID_HANDLE;
	if (code == CUDA_SUCCESS)
		code = submit(stream, &action);
	return gate_leave(code);
}
