/*
 * The kernels of the examples on the simulated device, which has them built in
 * and finds them by name. This file writes out the code that nvcc generates
 * from a .cu file: an image of device code, and for each kernel a host function
 * that represents it in a launch.
 */
#include "kernels.h"

/* The signatures; the simulated device has the bodies. */
static const char image_text[] =
    ".version 6.0\n"
    ".target sm_50\n"
    ".address_size 64\n"
    ".visible .entry weir_fill_u32(.param .u64 out, .param .u32 value, "
    ".param .u64 n) { ret; }\n"
    ".visible .entry weir_add_u32(.param .u64 out, .param .u64 a, "
    ".param .u64 b, .param .u64 n) { ret; }\n"
    ".visible .entry weir_copy_u32(.param .u64 out, .param .u64 in, "
    ".param .u64 n) { ret; }\n"
    ".visible .entry weir_sleep_ns(.param .u64 ns) { ret; }\n";

static struct cudaFatBinary image = {
	.magic = CUDA_FAT_BINARY_MAGIC, .version = 1, .data = image_text
};

/* Only the addresses matter: each identifies a kernel. */
static const char fill, add, copy, sleep;

static const struct kernel {
	const char *stands_for;
	const char *name;
} kernels[] = {
	{ &fill, "weir_fill_u32" },
	{ &add, "weir_add_u32" },
	{ &copy, "weir_copy_u32" },
	{ &sleep, "weir_sleep_ns" },
};

static void **handle;

__attribute__((constructor)) static void
register_kernels(void)
{
	handle = __cudaRegisterFatBinary(&image);
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++)
		__cudaRegisterFunction(handle, kernels[i].stands_for, NULL,
		    kernels[i].name, -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(handle);
}

__attribute__((destructor)) static void
unregister_kernels(void)
{
	__cudaUnregisterFatBinary(handle);
}

static cudaError_t
launch(const char *kernel, size_t n, void **arguments, cudaStream_t stream)
{
	dim3 block = { 256, 1, 1 };
	dim3 grid = { 1, 1, 1 };

	grid.x = (unsigned)((n + block.x - 1) / block.x);
	return cudaLaunchKernel(kernel, grid, block, arguments, 0, stream);
}

cudaError_t
launch_fill(uint32_t *out, uint32_t value, size_t n, cudaStream_t stream)
{
	void *arguments[] = { &out, &value, &n };

	return launch(&fill, n, arguments, stream);
}

cudaError_t
launch_add(uint32_t *out, const uint32_t *a, const uint32_t *b, size_t n,
    cudaStream_t stream)
{
	void *arguments[] = { &out, &a, &b, &n };

	return launch(&add, n, arguments, stream);
}

cudaError_t
launch_copy(uint32_t *out, const uint32_t *in, size_t n, cudaStream_t stream)
{
	void *arguments[] = { &out, &in, &n };

	return launch(&copy, n, arguments, stream);
}

cudaError_t
launch_sleep(uint64_t ns, cudaStream_t stream)
{
	void *arguments[] = { &ns };

	return launch(&sleep, 1, arguments, stream);
}
