/*
 * The peers that need only the driver and the C library.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !defined(WEIR_NO_JEMALLOC)
/* Keep the names je_... for any prefix with which jemalloc was built. */
#define JEMALLOC_NO_DEMANGLE
#include <jemalloc/jemalloc.h>
#endif

#include "tools/bench/bench.h"
#include "tools/bench/gpu.h"

/* ---- weir -------------------------------------------------------------- */

static void
free_to_weir(void *block, weir_stream stream)
{
	(void)stream;
	weir_free(block);
}

static bool
record_in_weir(void *block, weir_stream stream, weir_stream user)
{
	(void)stream;
	return weir_record_stream(block, user) == WEIR_OK;
}

static void
trim_weir(void)
{
	weir_trim(0, 0, NULL);
}

uint64_t
weir_held(void)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	return weir_stats(0, &stats) == WEIR_OK ?
	    stats.reserved_bytes.all.current :
	    0;
}

/* ---- weir with another option -------------------------------------------- */

/* The options "tcache:..." and "prefer:..." at the start. */
static char tcache_before[160];
static char prefer_before[160];

/* Save an option as "key:value". Returns NULL, or why that failed. */
static const char *
keep_option(const char *key, char *text, size_t size)
{
	struct weir_option option;

	for (size_t i = 0; weir_option_at(i, &option) == WEIR_OK; i++)
		if (strcmp(option.key, key) == 0) {
			snprintf(text, size, "%s:%s", key, option.value);
			return NULL;
		}
	return "this weir lacks the option";
}

static const char *
nocache_open(void)
{
	return keep_option("tcache", tcache_before, sizeof(tcache_before));
}

static bool
tcache_off(void)
{
	return weir_options_set("tcache:0") == WEIR_OK;
}

static void
tcache_restore(void)
{
	weir_options_set(tcache_before);
}

static const char *
prefers_open(void)
{
	return keep_option("prefer", prefer_before, sizeof(prefer_before));
}

static bool
prefer_speed(void)
{
	return weir_options_set("prefer:speed") == WEIR_OK;
}

static bool
prefer_memory(void)
{
	return weir_options_set("prefer:memory") == WEIR_OK;
}

static void
prefer_restore(void)
{
	weir_options_set(prefer_before);
}

/* ---- The driver's own ------------------------------------------------- */

static CUmemoryPool driver_pool;

static void *
pointer_to(CUdeviceptr address)
{
	return (void *)(uintptr_t)address;
}

/* Let the driver's pool keep all memory. With the default threshold of 0 it
 * keeps nothing across a synchronisation. */
static const char *
async_open(void)
{
	uint64_t keep = UINT64_MAX;

	if (gpu_ok(gpu.cuDeviceGetDefaultMemPool(&driver_pool, 0)) &&
	    gpu_ok(gpu.cuMemPoolSetAttribute(
		driver_pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep)))
		return NULL;
	return weir_last_error();
}

static void *
async_malloc(size_t size, weir_stream stream)
{
	CUdeviceptr address;

	return gpu_ok(gpu.cuMemAllocAsync(&address, size, stream)) ?
	    pointer_to(address) :
	    NULL;
}

static void
async_free(void *block, weir_stream stream)
{
	gpu.cuMemFreeAsync((CUdeviceptr)(uintptr_t)block, stream);
}

/* Do as a program without record_stream does: the block's stream waits for the
 * stream that used the block. */
static bool
async_record(void *block, weir_stream stream, weir_stream user)
{
	static CUevent event;

	(void)block;
	if (event == NULL &&
	    !gpu_ok(gpu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING)))
		return false;
	return gpu_ok(gpu.cuEventRecord(event, user)) &&
	    gpu_ok(gpu.cuStreamWaitEvent(stream, event, 0));
}

static uint64_t
async_held(void)
{
	uint64_t held = 0;

	gpu.cuMemPoolGetAttribute(
	    driver_pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held);
	return held;
}

static void
async_trim(void)
{
	if (gpu_wait())
		gpu.cuMemPoolTrimTo(driver_pool, 0);
}

static void *
driver_malloc(size_t size, weir_stream stream)
{
	CUdeviceptr address;

	(void)stream;
	return gpu_ok(gpu.cuMemAlloc(&address, size)) ? pointer_to(address) :
							NULL;
}

static void
driver_free(void *block, weir_stream stream)
{
	(void)stream;
	gpu.cuMemFree((CUdeviceptr)(uintptr_t)block);
}

/* ---- Host memory ------------------------------------------------------ */

static const char *
host_error(void)
{
	return "out of host memory";
}

static void *
host_malloc(size_t size, weir_stream stream)
{
	(void)stream;
	return malloc(size);
}

static void
host_free(void *block, weir_stream stream)
{
	(void)stream;
	free(block);
}

#if !defined(WEIR_NO_JEMALLOC)
static void *
jemalloc_malloc(size_t size, weir_stream stream)
{
	(void)stream;
	return je_malloc(size);
}

static void
jemalloc_free(void *block, weir_stream stream)
{
	(void)stream;
	je_free(block);
}
#endif

/* ---- Nothing ---------------------------------------------------------- */

static void *
none_malloc(size_t size, weir_stream stream)
{
	static char block;

	(void)size;
	(void)stream;
	return &block;
}

static void
none_free(void *block, weir_stream stream)
{
	(void)block;
	(void)stream;
}

/* ---- The table --------------------------------------------------------- */

static const struct peer peer_weir = {
	.name = "weir",
	.what = "weir with its default options",
	.kind = PEER_WEIR,
	.malloc = weir_malloc,
	.free = free_to_weir,
	.record = record_in_weir,
	.trim = trim_weir,
	.held = weir_held,
};

static const struct peer peer_speed = {
	.name = "weir-speed",
	.what = "weir with prefer:speed, which never waits",
	.kind = PEER_PREFERS,
	.open = prefers_open,
	.enter = prefer_speed,
	.leave = prefer_restore,
	.malloc = weir_malloc,
	.free = free_to_weir,
	.record = record_in_weir,
	.trim = trim_weir,
	.held = weir_held,
};

static const struct peer peer_memory = {
	.name = "weir-memory",
	.what = "weir with prefer:memory, which waits for any memory",
	.kind = PEER_PREFERS,
	.open = prefers_open,
	.enter = prefer_memory,
	.leave = prefer_restore,
	.malloc = weir_malloc,
	.free = free_to_weir,
	.record = record_in_weir,
	.trim = trim_weir,
	.held = weir_held,
};

static const struct peer peer_nocache = {
	.name = "weir-nocache",
	.what = "weir with tcache:0, without thread caches",
	.kind = PEER_WEIR,
	.open = nocache_open,
	.enter = tcache_off,
	.leave = tcache_restore,
	.malloc = weir_malloc,
	.free = free_to_weir,
	.record = record_in_weir,
	.trim = trim_weir,
	.held = weir_held,
};

static const struct peer peer_async = {
	.name = "cudaMallocAsync",
	.what = "the driver's default pool, which keeps freed memory",
	.kind = PEER_DRIVER,
	.open = async_open,
	.malloc = async_malloc,
	.free = async_free,
	.record = async_record,
	.trim = async_trim,
	.held = async_held,
};

static const struct peer peer_driver = {
	.name = "cudaMalloc",
	.what = "cudaMalloc and cudaFree",
	.kind = PEER_DRIVER,
	.slow = true,
	.malloc = driver_malloc,
	.free = driver_free,
};

#if !defined(WEIR_NO_JEMALLOC)
static const struct peer peer_jemalloc = {
	.name = "jemalloc",
	.what = "jemalloc, for host memory",
	.kind = PEER_HOST,
	.malloc = jemalloc_malloc,
	.free = jemalloc_free,
	.error = host_error,
};
#endif

static const struct peer peer_malloc = {
	.name = "malloc",
	.what = "the C library's malloc, for host memory",
	.kind = PEER_HOST,
	.malloc = host_malloc,
	.free = host_free,
	.error = host_error,
};

static const struct peer peer_none = {
	.name = "none",
	.what = "no allocator: the cost of measuring",
	.kind = PEER_NONE,
	.malloc = none_malloc,
	.free = none_free,
};

const struct peer *const builtin_peers[] = {
	&peer_weir,
	&peer_speed,
	&peer_memory,
	&peer_nocache,
	&peer_async,
	&peer_driver,
	&peer_pinned,
	&peer_registered,
	&peer_host_alloc,
	&peer_pools,
	&peer_tensors,
	&peer_straight,
	&peer_history,
	&peer_stacks,
#if !defined(WEIR_NO_JEMALLOC)
	&peer_jemalloc,
#endif
	&peer_malloc,
	&peer_none,
	NULL,
};
