/*
 * device.h by the driver's own calls. Only the section "Memory" calls weir, so
 * that weir cannot hide its own faults.
 */
#include "tests/support/device.h"

#include <weir/graph.h>
#include <weir/host.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/process.h"
#include "tests/support/kernels.ptx.h"

/* ---- The device -------------------------------------------------------- */

const struct driver *
device_driver(void)
{
	const struct driver *driver;

	if (driver_get(&driver) != WEIR_OK)
		FAIL("no driver: %s", weir_last_error());
	return driver;
}

bool
device_is_simulated(void)
{
	return device_driver()->simulated;
}

void
device_need_sim(const char *reason)
{
	if (!device_is_simulated())
		SKIP(reason);
}

void
device_need(int count)
{
	char text[32];

	snprintf(text, sizeof(text), "devices:%d", count);
	setenv("SIMCUDA_CONF", text, 1);
	if (device_driver()->device_count < count)
		SKIP("there are not so many devices");
}

void
device_need_bytes(size_t bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "memory_mb:%zu", bytes / MIB);
	setenv("SIMCUDA_CONF", text, 1);
	if (device_total(0) < bytes)
		SKIP("the device has not so much memory");
}

void
device_need_sharing(void)
{
	int process = process_open(getpid());

	if (process < 0)
		SKIP("the system has no descriptors of processes");
	close(process);
}

static CUcontext
context_of(int device)
{
	CUcontext context = NULL;

	device_driver();
	if (driver_context(device, &context) != WEIR_OK)
		FAIL("no context: %s", weir_last_error());
	return context;
}

static void
expect_success(const char *what, CUresult code)
{
	if (code != CUDA_SUCCESS)
		FAIL("%s: %s (%d)", what, driver_text(code), (int)code);
}

/* Make the context of a device current; returns what was. */
static CUcontext
enter(int device)
{
	CUcontext before = NULL;
	CUcontext context = context_of(device);

	device_driver()->cuCtxGetCurrent(&before);
	expect_success(
	    "cuCtxSetCurrent", device_driver()->cuCtxSetCurrent(context));
	return before;
}

static void
leave(CUcontext before)
{
	device_driver()->cuCtxSetCurrent(before);
}

size_t
device_total(int device)
{
	size_t bytes = 0;

	expect_success("cuDeviceTotalMem",
	    device_driver()->cuDeviceTotalMem(&bytes, device));
	return bytes;
}

size_t
device_free_bytes(int device)
{
	size_t available = 0;
	size_t total = 0;
	CUcontext before = enter(device);

	expect_success(
	    "cuMemGetInfo", device_driver()->cuMemGetInfo(&available, &total));
	leave(before);
	return available;
}

/* ---- Work on streams --------------------------------------------------- */

enum { DEVICES_MAX = 16 };

/* The device a stream is of: that of the current context, or the first, for a
 * default stream. */
static int
device_of(weir_stream stream)
{
	const struct driver *driver = device_driver();
	CUcontext context = NULL;
	CUdevice device = 0;

	if (stream != NULL && stream != WEIR_STREAM_LEGACY &&
	    stream != WEIR_STREAM_PER_THREAD)
		expect_success(
		    "cuStreamGetCtx", driver->cuStreamGetCtx(stream, &context));
	else if (driver->cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
	    context == NULL)
		return 0;
	CUcontext before = NULL;
	driver->cuCtxGetCurrent(&before);
	driver->cuCtxSetCurrent(context);
	expect_success("cuCtxGetDevice", driver->cuCtxGetDevice(&device));
	driver->cuCtxSetCurrent(before);
	return device;
}

enum kernel { KERNEL_SLEEP, KERNEL_ADD, KERNELS };

/* A kernel, on the current context. */
static CUfunction
kernel(int device, enum kernel which)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static const char *const names[KERNELS] = { "weir_sleep_ns",
		"weir_add_u32" };
	static CUfunction functions[DEVICES_MAX][KERNELS];
	CUmodule module;

	EXPECT_LT(device, DEVICES_MAX);
	pthread_mutex_lock(&mutex);
	if (functions[device][0] == NULL) {
		expect_success("cuModuleLoadData",
		    device_driver()->cuModuleLoadData(&module, kernels_ptx));
		for (int i = 0; i < KERNELS; i++)
			expect_success("cuModuleGetFunction",
			    device_driver()->cuModuleGetFunction(
				&functions[device][i], module, names[i]));
	}
	CUfunction function = functions[device][which];
	pthread_mutex_unlock(&mutex);
	return function;
}

void
load_kernels(void)
{
	CUcontext before = enter(0);

	kernel(0, KERNEL_SLEEP);
	leave(before);
}

void
busy(weir_stream stream, unsigned milliseconds)
{
	int device = device_of(stream);
	CUcontext before = enter(device);
	uint64_t ns = (uint64_t)milliseconds * 1000000;
	void *parameters[] = { &ns };

	expect_success("cuLaunchKernel",
	    device_driver()->cuLaunchKernel(kernel(device, KERNEL_SLEEP), 1, 1,
		1, 1, 1, 1, 0, stream, parameters, NULL));
	leave(before);
}

static CUdeviceptr
address(const void *ptr)
{
	return (CUdeviceptr)(uintptr_t)ptr;
}

void
add(uint32_t *to, const uint32_t *a, const uint32_t *b, size_t n,
    weir_stream stream)
{
	int device = device_of(stream);
	CUcontext before = enter(device);
	CUdeviceptr at[] = { address(to), address(a), address(b) };
	uint64_t count = n;
	void *parameters[] = { &at[0], &at[1], &at[2], &count };

	expect_success("cuLaunchKernel",
	    device_driver()->cuLaunchKernel(kernel(device, KERNEL_ADD), 8, 1, 1,
		128, 1, 1, 0, stream, parameters, NULL));
	leave(before);
}

void
fill(void *ptr, size_t size, unsigned char value, weir_stream stream)
{
	CUcontext before = enter(device_of(stream));

	expect_success("cuMemsetD8Async",
	    device_driver()->cuMemsetD8Async(
		address(ptr), value, size, stream));
	leave(before);
}

void
copy(void *to, const void *from, size_t size, weir_stream stream)
{
	CUcontext before = enter(device_of(stream));

	expect_success("cuMemcpyAsync",
	    device_driver()->cuMemcpyAsync(
		address(to), address(from), size, stream));
	leave(before);
}

void
read_back(void *to, const void *from, size_t size, weir_stream stream)
{
	CUcontext before = enter(device_of(stream));

	expect_success("cuMemcpyDtoHAsync",
	    device_driver()->cuMemcpyDtoHAsync(
		to, address(from), size, stream));
	expect_success("cuStreamSynchronize",
	    device_driver()->cuStreamSynchronize(stream));
	leave(before);
}

void
expect_filled(
    const void *ptr, size_t size, unsigned char value, weir_stream stream)
{
	const uint64_t expected = value * UINT64_C(0x0101010101010101);
	uint64_t word = expected;
	unsigned char *bytes = malloc(size);
	size_t i = 0;

	EXPECT_NOT_NULL(bytes);
	read_back(bytes, ptr, size, stream);
	/* Whole words first: sanitizers and valgrind watch each read. */
	for (; size - i >= sizeof(word); i += sizeof(word)) {
		memcpy(&word, &bytes[i], sizeof(word));
		if (word != expected)
			break;
	}
	while (i < size && bytes[i] == value)
		i++;
	if (i < size)
		FAIL("byte %zu of %zu is 0x%02x, not 0x%02x", i, size, bytes[i],
		    value);
	free(bytes);
}

void
fill_parts(void *ptr, size_t size, size_t parts, weir_stream stream)
{
	size_t part = size / parts;

	for (size_t i = 0; i < parts; i++)
		fill((char *)ptr + i * part, part, (unsigned char)(i + 1),
		    stream);
}

void
expect_parts(const void *ptr, size_t size, size_t parts, weir_stream stream)
{
	size_t part = size / parts;

	for (size_t i = 0; i < parts; i++)
		expect_filled((const char *)ptr + i * part, part,
		    (unsigned char)(i + 1), stream);
}

void
finish(weir_stream stream)
{
	CUcontext before = enter(device_of(stream));

	expect_success("cuStreamSynchronize",
	    device_driver()->cuStreamSynchronize(stream));
	leave(before);
}

bool
is_done(weir_stream stream)
{
	CUcontext before = enter(device_of(stream));
	CUresult code = device_driver()->cuStreamQuery(stream);

	leave(before);
	if (code != CUDA_ERROR_NOT_READY)
		expect_success("cuStreamQuery", code);
	return code == CUDA_SUCCESS;
}

void
capture_begin(weir_stream stream)
{
	CUcontext before = enter(device_of(stream));

	expect_success("cuStreamBeginCapture",
	    device_driver()->cuStreamBeginCapture(
		stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	leave(before);
}

void
capture_end(weir_stream stream)
{
	CUcontext before = enter(device_of(stream));
	CUgraph graph = NULL;

	expect_success("cuStreamEndCapture",
	    device_driver()->cuStreamEndCapture(stream, &graph));
	expect_success(
	    "cuGraphDestroy", device_driver()->cuGraphDestroy(graph));
	leave(before);
}

void
settle(void)
{
	if (sim() != NULL)
		sim()->advance_ns(2000000);
	else
		usleep(2000);
}

weir_stream
new_stream(void)
{
	weir_stream stream = NULL;

	EXPECT_OK(weir_stream_create(WEIR_DEVICE_CURRENT, 0, &stream));
	return stream;
}

weir_stream
foreign_stream(unsigned flags)
{
	CUcontext before = enter(device_of(NULL));
	CUstream stream = NULL;

	expect_success("cuStreamCreateWithPriority",
	    device_driver()->cuStreamCreateWithPriority(&stream, flags, 0));
	leave(before);
	return stream;
}

void
foreign_destroy(weir_stream stream)
{
	expect_success(
	    "cuStreamDestroy", device_driver()->cuStreamDestroy(stream));
}

/* ---- Memory ------------------------------------------------------------ */

void *
take(size_t size, weir_stream stream)
{
	void *ptr = weir_malloc(size, stream);

	if (ptr == NULL)
		FAIL("weir_malloc(%zu): %s", size, weir_last_error());
	return ptr;
}

void
take_apart(char *blocks[], size_t n, size_t size, weir_stream stream)
{
	for (size_t i = 0; i < n; i++) {
		blocks[i] = take(size, stream);
		take(2 * MIB, stream);
	}
}

void
give(void *ptr)
{
	EXPECT_OK(weir_free(ptr));
}

void
record(const void *ptr, weir_stream stream)
{
	EXPECT_OK(weir_record_stream(ptr, stream));
}

struct weir_pool *
new_pool(int device, unsigned flags)
{
	struct weir_pool *pool = NULL;

	EXPECT_OK(weir_pool_create(device, NULL, flags, &pool));
	EXPECT_NOT_NULL(pool);
	return pool;
}

void *
take_from(struct weir_pool *pool, size_t size, weir_stream stream)
{
	void *ptr = weir_pool_malloc(pool, size, stream);

	if (ptr == NULL)
		FAIL("weir_pool_malloc(%zu): %s", size, weir_last_error());
	return ptr;
}

struct weir_block_info
info_of(const void *ptr)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };

	EXPECT_OK(weir_block_info(ptr, &info));
	return info;
}

void
conf(const char *text)
{
	EXPECT_OK(weir_options_set(text));
}

struct weir_stats
stats_of(int device)
{
	struct weir_stats out = { .struct_size = sizeof(out) };

	EXPECT_OK(weir_stats(device, &out));
	return out;
}

struct weir_stats
stats(void)
{
	return stats_of(0);
}

struct weir_stats
stats_of_stream(weir_stream stream)
{
	struct weir_stats out = { .struct_size = sizeof(out) };

	EXPECT_OK(weir_stats_stream(WEIR_DEVICE_CURRENT, stream, &out));
	return out;
}

struct weir_stats
host_stats(void)
{
	struct weir_stats out = { .struct_size = sizeof(out) };

	EXPECT_OK(weir_host_stats(0, &out));
	return out;
}

uint64_t
reserved(void)
{
	return stats().reserved_bytes.all.current;
}

size_t
trim(size_t keep)
{
	size_t freed = SIZE_MAX;

	EXPECT_OK(weir_trim(WEIR_DEVICE_CURRENT, keep, &freed));
	return freed;
}

/* ---- Statuses ---------------------------------------------------------- */

void
device_expect_status(const char *file, int line, const char *call,
    enum weir_status got, enum weir_status expected)
{
	test_mark(file, line);
	if (got == expected)
		return;
	test_fail(file, line, "%s gave %s, not %s: \"%s\"", call,
	    weir_status_name(got), weir_status_name(expected),
	    weir_last_error());
}

void
device_expect_null(const char *file, int line, const char *call,
    const void *got, enum weir_status expected)
{
	test_mark(file, line);
	if (got != NULL)
		test_fail(file, line, "%s gave %p, not NULL", call, got);
	device_expect_status(file, line, call, weir_last_status(), expected);
}

/* ---- Health ------------------------------------------------------------ */

void
expect_healthy(void)
{
	char text[1024];

	if (weir_check(text, sizeof(text)) != 0)
		FAIL("weir_check: %s", text);
	if (sim() != NULL && sim()->violations() > 0)
		FAIL("%u violations; the first: %s", sim()->violations(),
		    sim()->violation_text(0));
}

void
expect_stats_unchanged(const struct weir_stats *before)
{
	struct weir_stats after = stats();

	after.num_ooms = before->num_ooms;
	after.num_alloc_retries = before->num_alloc_retries;
	after.metadata_bytes = before->metadata_bytes;
	EXPECT_MEM_EQ(before, &after, sizeof(after));
	expect_healthy();
}
