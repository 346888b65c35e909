/*
 * The driver's calls by their symbols.
 */
#include "tests/support/cuda.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/kernels.ptx.h"

struct cuda cu;

static void *library;

static void
find(const char *symbol, void *out)
{
	void *function = dlsym(library, symbol);

	memcpy(out, &function, sizeof(function));
}

void
cuda_load(void)
{
	const char *path = getenv("WEIR_LIBCUDA");

	if (path == NULL || *path == '\0')
		path = "libcuda.so.1";
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		FAIL("%s", dlerror());
#define FIND(symbol, base, version, flags, params) find(#symbol, &cu.symbol);
#define FIND_PTSZ(symbol, base, version, flags, params)                        \
	find(#symbol, &cu.symbol);                                             \
	find(#symbol "_ptsz", &cu.symbol##_ptsz);
#define FIND_PTDS(symbol, base, version, flags, params)                        \
	find(#symbol, &cu.symbol);                                             \
	find(#symbol "_ptds", &cu.symbol##_ptds);
	SIM_ENTRIES(FIND, FIND_PTSZ, FIND_PTDS)
#undef FIND_PTDS
#undef FIND_PTSZ
#undef FIND
}

void
cuda_load_conf(const char *conf)
{
	setenv("SIMCUDA_CONF", conf, 1);
	cuda_load();
}

/* Looked up beforehand: a capture may forbid it. */
static struct {
	const char *name;
	CUfunction function;
} kernels[] = {
	{ "weir_fill_u32", NULL },
	{ "weir_add_u32", NULL },
	{ "weir_copy_u32", NULL },
	{ "weir_check_u32", NULL },
	{ "weir_sleep_ns", NULL },
	{ "weir_scale_f32", NULL },
};

enum { KERNELS = sizeof(kernels) / sizeof(kernels[0]) };

static void
find_kernels(void)
{
	CUmodule module = NULL;

	CU(cu.cuModuleLoadData(&module, kernels_ptx));
	for (size_t i = 0; i < KERNELS; i++)
		CU(cu.cuModuleGetFunction(
		    &kernels[i].function, module, kernels[i].name));
}

CUfunction
cuda_kernel(const char *name)
{
	for (size_t i = 0; i < KERNELS; i++) {
		if (strcmp(kernels[i].name, name) == 0)
			return kernels[i].function;
	}
	FAIL("there is no kernel %s", name);
}

CUcontext
cuda_begin(void)
{
	CUcontext context = NULL;

	if (library == NULL)
		cuda_load();
	CU(cu.cuInit(0));
	CU(cu.cuDevicePrimaryCtxRetain(&context, 0));
	CU(cu.cuCtxSetCurrent(context));
	find_kernels();
	return context;
}

CUcontext
cuda_begin_conf(const char *conf)
{
	cuda_load_conf(conf);
	return cuda_begin();
}

static const char *
name_of(CUresult code)
{
	const char *name = NULL;

	if (cu.cuGetErrorName(code, &name) != CUDA_SUCCESS || name == NULL)
		return "?";
	return name;
}

void
cuda_expect(const char *file, int line, const char *call, CUresult got,
    CUresult expected)
{
	test_mark(file, line);
	if (got != expected)
		test_fail(file, line, "%s gave %s (%d), not %s (%d)", call,
		    name_of(got), (int)got, name_of(expected), (int)expected);
}

CUstream
cuda_stream(void)
{
	CUstream stream = NULL;

	CU(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

CUstream
cuda_blocking_stream(void)
{
	CUstream stream = NULL;

	CU(cu.cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	return stream;
}

CUevent
cuda_event(void)
{
	CUevent event = NULL;

	CU(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

void
cuda_order(CUstream from, CUstream to)
{
	CUevent event = cuda_event();

	CU(cu.cuEventRecord(event, from));
	CU(cu.cuStreamWaitEvent(to, event, 0));
	CU(cu.cuEventDestroy_v2(event));
}

CUdeviceptr
cuda_alloc(size_t size)
{
	CUdeviceptr address = 0;

	CU(cu.cuMemAlloc_v2(&address, size));
	return address;
}

static void
launch(CUfunction function, unsigned blocks, CUstream stream, void **params)
{
	CU(cu.cuLaunchKernel(
	    function, blocks, 1, 1, 128, 1, 1, 0, stream, params, NULL));
}

void
cuda_sleep(CUstream stream, uint64_t ns)
{
	void *params[] = { &ns };

	CU(cu.cuLaunchKernel(cuda_kernel("weir_sleep_ns"), 1, 1, 1, 1, 1, 1, 0,
	    stream, params, NULL));
}

void
cuda_fill(CUstream stream, CUdeviceptr to, uint32_t value, uint64_t n)
{
	void *params[] = { &to, &value, &n };

	launch(cuda_kernel("weir_fill_u32"), 64, stream, params);
}

void
cuda_copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, uint64_t n)
{
	void *params[] = { &to, &from, &n };

	launch(cuda_kernel("weir_copy_u32"), 64, stream, params);
}

uint32_t
cuda_word(CUdeviceptr address)
{
	uint32_t word = 0;

	CU(cu.cuCtxSynchronize());
	CU(cu.cuMemcpyDtoH_v2(&word, address, sizeof(word)));
	return word;
}

CUmemAllocationProp
cuda_prop(bool shareable)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = shareable ?
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR :
		    CU_MEM_HANDLE_TYPE_NONE,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
}

CUmemGenericAllocationHandle
cuda_create(size_t size)
{
	CUmemAllocationProp prop = cuda_prop(false);
	CUmemGenericAllocationHandle handle = 0;

	CU(cu.cuMemCreate(&handle, size, &prop, 0));
	return handle;
}

void
cuda_allow(CUdeviceptr address, size_t size)
{
	CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
		CU_MEM_ACCESS_FLAGS_PROT_READWRITE };

	CU(cu.cuMemSetAccess(address, size, &access, 1));
}

CUdeviceptr
cuda_map(CUmemGenericAllocationHandle handle, size_t size)
{
	CUdeviceptr address = 0;

	CU(cu.cuMemAddressReserve(&address, size, 0, 0, 0));
	CU(cu.cuMemMap(address, size, 0, handle, 0));
	cuda_allow(address, size);
	return address;
}
