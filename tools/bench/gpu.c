/*
 * The driver's entry points, streams, and two kernels that last a given time.
 */
#include "tools/bench/gpu.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <weir/stream.h>

#include "tools/bench/bench.h"
#include "tools/weir/tool.h"

struct gpu gpu;

/* simcuda knows the first kernel by its name. */
static const char kernels[] = ".version 6.0\n"
			      ".target sm_50\n"
			      ".address_size 64\n"
			      ".visible .entry weir_sleep_ns(\n"
			      "	.param .u64 ns\n"
			      ")\n"
			      "{\n"
			      "	.reg .pred %more;\n"
			      "	.reg .u64 %limit, %start, %now;\n"
			      "	ld.param.u64 %limit, [ns];\n"
			      "	mov.u64 %start, %globaltimer;\n"
			      "again:\n"
			      "	mov.u64 %now, %globaltimer;\n"
			      "	sub.u64 %now, %now, %start;\n"
			      "	setp.lt.u64 %more, %now, %limit;\n"
			      "	@%more bra again;\n"
			      "	ret;\n"
			      "}\n"
			      ".visible .entry weir_spin_clocks(\n"
			      "	.param .u64 clocks\n"
			      ")\n"
			      "{\n"
			      "	.reg .pred %more;\n"
			      "	.reg .u64 %limit, %start, %now;\n"
			      "	ld.param.u64 %limit, [clocks];\n"
			      "	mov.u64 %start, %clock64;\n"
			      "again:\n"
			      "	mov.u64 %now, %clock64;\n"
			      "	sub.u64 %now, %now, %start;\n"
			      "	setp.lt.u64 %more, %now, %limit;\n"
			      "	@%more bra again;\n"
			      "	ret;\n"
			      "}\n";

/* Put the address of a symbol into the function pointer `function`. POSIX
 * allows this for dlsym(), but C has no cast for it. */
static void *
find_gpu_symbol(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol;
}

static bool
find_gpu_entries(void)
{
	const char *path = getenv("WEIR_LIBCUDA");
	const char *missing = NULL;
	void *library;

	if (path == NULL || *path == '\0')
		path = "libcuda.so.1";
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		complain("%s", dlerror());
		return false;
	}
#define GPU_FIND(name, symbol, params)                                         \
	if (find_gpu_symbol(library, symbol, &gpu.name) == NULL)               \
		missing = symbol;
	GPU_ENTRIES(GPU_FIND)
#undef GPU_FIND
#define GPU_FIND(result, name, params)                                         \
	find_gpu_symbol(library, "simcuda_" #name, &gpu.sim.name);
	SIMCUDA_CONTROLS(GPU_FIND)
#undef GPU_FIND
	if (missing == NULL)
		return true;
	complain("%s has no %s", path, missing);
	return false;
}

static bool
load_gpu_kernels(void)
{
	CUmodule module;

	return gpu_ok(gpu.cuModuleLoadData(&module, kernels)) &&
	    gpu_ok(
		gpu.cuModuleGetFunction(&gpu.sleep, module, "weir_sleep_ns")) &&
	    (gpu_simulated() ||
		gpu_ok(gpu.cuModuleGetFunction(
		    &gpu.spin, module, "weir_spin_clocks")));
}

bool
gpu_open(void)
{
	/* The simulated device is as large as a GPU, so that the same cases
	 * succeed. */
	setenv("SIMCUDA_CONF", "memory_mb:143360", 0);
	/* Many hardware queues: streams of a GPU that share a queue wait for
	 * each other. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
	if (weir_set_device(0) != WEIR_OK)
		goto failed;
	if (!find_gpu_entries())
		return false;
	if (!load_gpu_kernels())
		goto failed;
	for (int i = 0; i < GPU_STREAMS; i++)
		if (weir_stream_create(0, 0, &gpu.streams[i]) != WEIR_OK)
			goto failed;
	return true;

failed:
	complain("%s", weir_last_error());
	return false;
}

bool
gpu_simulated(void)
{
	return gpu.sim.version != NULL;
}

bool
gpu_ok(CUresult code)
{
	return code == CUDA_SUCCESS || weir_check_driver(code) == WEIR_OK;
}

static bool
launch_kernel(CUfunction kernel, weir_stream stream, uint64_t parameter)
{
	void *parameters[] = { &parameter };

	return gpu_ok(gpu.cuLaunchKernel(
	    kernel, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

bool
gpu_sleep(weir_stream stream, uint64_t ns)
{
	return launch_kernel(gpu.sleep, stream, ns);
}

bool
gpu_spin(weir_stream stream, uint64_t clocks)
{
	/* For this, the simulated device has a clock of 2 GHz. */
	if (gpu_simulated())
		return launch_kernel(gpu.sleep, stream, clocks / 2);
	return launch_kernel(gpu.spin, stream, clocks);
}

bool
gpu_is_busy(weir_stream stream)
{
	return gpu.cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
}

bool
gpu_wait(void)
{
	return gpu_ok(gpu.cuCtxSynchronize());
}

uint64_t
gpu_now_ns(void)
{
	return gpu_simulated() ? gpu.sim.now_ns() : now_ns();
}
