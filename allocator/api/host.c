/*
 * <weir/host.h>: page-locked host memory.
 *
 * Note [Host memory]
 *
 * Each kind of host memory of a device is an arena over another source of
 * pages. Best fit, pending uses, trim, statistics, checks and thread caches
 * work as for device memory. traits_page_locked has the differences; the main
 * ones:
 *
 * - Its blocks belong to no stream, and its free memory serves any request at
 * once, because the host cannot be ordered after a stream without a wait. A
 * freed block is pending only for the streams that were recorded for it.
 * - Requests above 256 KiB are large: they are whole pages.
 * - Requests below 4 KiB have the finer granule of the source, and pools of
 * their own: docs/adr/0007.
 * - Statistics and limit are separate from the device's:
 * arena->main->host_totals.
 */
#include "allocator/api/host.h"

#include <weir/host.h>

#include "allocator/account/totals.h"
#include "allocator/allocator.h"
#include "allocator/cache/tcache.h"
#include "allocator/host/known.h"
#include "allocator/host/pages.h"
#include "allocator/host/reaper.h"
#include "allocator/lifecycle.h"
#include "allocator/magazines/depot.h"
#include "allocator/memory/segment.h"
#include "allocator/private/arenas.h"
#include "allocator/request/reclaim.h"
#include "base/os.h"
#include "base/status.h"

/* ---- Allocating -------------------------------------------------------- */

static enum weir_status
check_request(size_t size, unsigned flags)
{
	if ((flags & ~(unsigned)HOST_FLAGS) != 0)
		return status_set(WEIR_EINVAL,
		    "weir_host_malloc: flags %#x: not of enum weir_host_flags",
		    flags);
	if (size == 0)
		return status_set(
		    WEIR_EINVAL, "weir_host_malloc: the size is 0 bytes");
	if (size > WEIR_SIZE_MAX)
		return status_set(WEIR_EINVAL,
		    "weir_host_malloc(%zu bytes): more than 1EB memory", size);
	if (size > os_memory_bytes())
		return status_set(WEIR_EHOSTMEM,
		    "weir_host_malloc(%zu bytes): the machine has %zu bytes of "
		    "memory",
		    size, os_memory_bytes());
	return WEIR_OK;
}

/* A request for page-locked memory. */
struct host_request {
	unsigned flags;
	bool coarse;
	bool from_driver; /* whatever the options say */
};

/* Find the arena that serves a request, or make it. */
static enum weir_status
arena_for(int device, const struct options *options,
    const struct host_request *request, struct arena **out)
{
	struct arena *main;
	/* This makes the device's own arena and checks that the device is in
	 * range. */
	enum weir_status status = arena_get(device, &main);
	if (status != WEIR_OK)
		return status;
	enum weir_host_source source;
	host_source_known(main, options, &source);
	unsigned kind =
	    host_kind(request->from_driver ? WEIR_HOST_FROM_DRIVER : source,
		request->flags, request->coarse);
	*out = host_arena_peek(device, kind);
	return *out != NULL ? WEIR_OK : host_arena_get(main, kind, out);
}

/* Allocate a block of an arena, from the thread's cache if it has one. */
static enum weir_status
allocate_in(
    struct arena *arena, const struct options *options, size_t size, void **out)
{
	struct cache *cache = tcache_find_host(arena);

	ASSERT(arena->traits.is_page_locked);
	*out = cache != NULL ? tcache_malloc_in(cache, size) : NULL;
	if (*out != NULL)
		return WEIR_OK;
	device_set_host_limit(arena->main, options->pinned_limit);
	if (options->pinned_background || options->pinned_reserve > 0)
		host_reap_start();
	return allocator_malloc_in(arena, size, WEIR_STREAM_ANY, out);
}

/* Allocate a block; *from is its arena. */
static enum weir_status
allocate_host_from(int device, size_t size, const struct host_request *request,
    struct arena **from, void **out)
{
	const struct options *options;
	enum weir_status status = device_resolve(device, &device);
	if (status == WEIR_OK)
		status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	do {
		status = arena_for(device, options, request, from);
		if (status != WEIR_OK)
			return status;
		status = allocate_in(*from, options, size, out);
	} while (host_handles_refused(*from, status));
	return status;
}

static enum weir_status
allocate_host(
    int device, size_t size, const struct host_request *request, void **out)
{
	struct arena *from;

	return allocate_host_from(device, size, request, &from, out);
}

enum weir_status
allocator_malloc_host(int device, size_t size, unsigned flags, void **out)
{
	const struct host_request request = { .flags = flags, .coarse = true };
	enum weir_status status = check_request(size, flags);

	return status == WEIR_OK ? allocate_host(device, size, &request, out) :
				   status;
}

enum weir_status
host_get(int device, size_t size, void **out)
{
	struct host_request request = { 0 };
	enum weir_status status = allocate_host(device, size, &request, out);

	if (status != WEIR_OK && status != WEIR_ENOMEM &&
	    status != WEIR_EHOSTMEM) {
		request.from_driver = true;
		status = allocate_host(device, size, &request, out);
	}
	/* Host memory is short, so the status names it as the report does. */
	return status == WEIR_ENOMEM ? WEIR_EHOSTMEM : status;
}

void *
weir_host_malloc_on(int device, size_t size, unsigned flags)
{
	const struct host_request request = { .flags = flags };
	void *ptr;

	if (check_request(size, flags) != WEIR_OK ||
	    allocate_host(device, size, &request, &ptr) != WEIR_OK)
		return NULL;
	return ptr;
}

/* Remember the thread's cache for an arena of the current device, for the next
 * request. If there is one device, it needs no further check; otherwise the
 * same context must be current then. */
static void
remember_host_cache(struct arena *arena)
{
	struct tcache *t = tcache_own;
	bool only = driver_peek()->device_count == 1;
	CUcontext context = NULL;
	struct cache *cache = tcache_find_host(arena);

	ASSERT(arena->traits.is_page_locked);
	if (t == &tcache_nobody || t->latest_host.cache == cache)
		return;
	t->latest_host = (struct latest){ .cache = &t->none };
	if (cache == NULL ||
	    (!only &&
		(driver_peek()->cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
		    context != arena->context)))
		return;
	t->latest_host = (struct latest){
		.cache = cache,
		.key = only ? (weir_stream)arena : NULL,
		.context = context,
	};
}

static inline QUICK bool
allocate_host_small(
    const struct latest *latest, weir_stream key, size_t size, void **out)
{
	/* A size that overflows rounds to 0, and the bin of size 0 is empty. */
	return round_up(size, FINE_GRANULE) < FINE_END ?
	    tcache_take(true, latest->cache, key, size, out) :
	    tcache_take(false, latest->cache, key, size, out);
}

/* Allocate from the latest cache if its context is current. */
static bool
allocate_host_asked(const struct latest *latest, size_t size, void **out)
{
	CUcontext context;

	if (latest->context == NULL ||
	    driver_peek()->cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
	    context != latest->context)
		return false;
	weir_stream key = (weir_stream)latest->cache->arena;
	return size > TCACHE_BINNED ?
	    tcache_take_large(latest->cache, key, size, out) :
	    allocate_host_small(latest, key, size, out);
}

static __attribute__((noinline)) void *
host_malloc_rare(size_t size)
{
	const struct host_request request = { 0 };
	struct arena *arena;
	void *ptr;

	if (allocate_host_asked(&tcache_own->latest_host, size, &ptr))
		return ptr;
	if (check_request(size, request.flags) != WEIR_OK ||
	    allocate_host_from(
		WEIR_DEVICE_CURRENT, size, &request, &arena, &ptr) != WEIR_OK)
		return NULL;
	remember_host_cache(arena);
	return ptr;
}

static __attribute__((noinline)) void *
host_malloc_large(size_t size)
{
	const struct latest *latest = &tcache_own->latest_host;
	void *ptr;

	if (tcache_take_large(latest->cache, latest->key, size, &ptr))
		return ptr;
	return host_malloc_rare(size);
}

void *
weir_host_malloc(size_t size)
{
	const struct latest *latest = &tcache_own->latest_host;
	void *ptr;

	if (allocate_host_small(latest, latest->key, size, &ptr))
		return ptr;
	return size > TCACHE_BINNED ? host_malloc_large(size) :
				      host_malloc_rare(size);
}

/* ---- Pinned memory ---------------------------------------------------- */

bool
weir_host_is_pinned(const void *ptr)
{
	const struct driver *driver;
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;
	CUmemorytype type = 0;

	if (ptr == NULL || os_forked())
		return false;
	if (segment_owner(addr) != NULL)
		return allocator_owns_host(addr);
	status_mute();
	bool pinned = driver_get(&driver) == WEIR_OK &&
	    driver->cuPointerGetAttribute(&type,
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr) == CUDA_SUCCESS &&
	    type == CU_MEMORYTYPE_HOST;
	status_unmute();
	return pinned;
}

/* Make the context of the current device current, for the driver's calls. */
static enum weir_status
enter_current(struct driver_guard *guard)
{
	CUcontext context;
	int device;
	enum weir_status status = device_resolve(WEIR_DEVICE_CURRENT, &device);
	if (status == WEIR_OK)
		status = driver_context(device, &context);
	if (status == WEIR_OK)
		status = driver_enter(context, guard);
	return status;
}

static enum weir_status
registration_status(CUresult code, const void *ptr, size_t size)
{
	if (code == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
		return status_set(WEIR_EINVAL,
		    "weir_host_register(%p, %zu bytes): %s (%d)", ptr, size,
		    driver_text(code), (int)code);
	if (code == CUDA_ERROR_OUT_OF_MEMORY)
		return status_set(WEIR_EHOSTMEM,
		    "weir_host_register(%p, %zu bytes): %s (%d)", ptr, size,
		    driver_text(code), (int)code);
	return driver_status(
	    code, "cuMemHostRegister(%p, %zu bytes)", ptr, size);
}

enum weir_status
weir_host_register(void *ptr, size_t size, unsigned flags)
{
	if (os_forked())
		return status_forked("weir_host_register");
	const unsigned all = WEIR_HOST_PORTABLE | WEIR_HOST_MAPPED;
	CUdeviceptr addr = (CUdeviceptr)(uintptr_t)ptr;
	struct driver_guard guard;

	if (ptr == NULL || size == 0 || size > WEIR_SIZE_MAX)
		return status_set(WEIR_EINVAL,
		    "weir_host_register(%p, %zu bytes): there is nothing to "
		    "register",
		    ptr, size);
	if ((flags & ~all) != 0)
		return status_set(WEIR_EINVAL,
		    "weir_host_register: flags %#x: only portable and mapped",
		    flags);
	if (segment_owner(addr) != NULL ||
	    segment_owner(addr + size - 1) != NULL)
		return status_set(WEIR_EINVAL,
		    "weir_host_register(%p, %zu bytes): it is memory of weir's "
		    "own",
		    ptr, size);
	enum weir_status status = enter_current(&guard);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuMemHostRegister(ptr, size, flags);
	driver_leave(&guard);
	return registration_status(code, ptr, size);
}

enum weir_status
weir_host_unregister(void *ptr)
{
	struct driver_guard guard;

	if (ptr == NULL || segment_owner((CUdeviceptr)(uintptr_t)ptr) != NULL)
		return status_set(WEIR_EINVAL, "weir_host_unregister(%p): %s",
		    ptr,
		    ptr == NULL ? "nothing is there" :
				  "it is memory of weir's own");
	enum weir_status status = enter_current(&guard);
	if (status != WEIR_OK)
		return status;
	CUresult code = driver_peek()->cuMemHostUnregister(ptr);
	driver_leave(&guard);
	if (code == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED ||
	    code == CUDA_ERROR_INVALID_VALUE)
		return status_set(WEIR_EINVAL,
		    "weir_host_unregister(%p): %s (%d)", ptr, driver_text(code),
		    (int)code);
	return driver_status(code, "cuMemHostUnregister(%p)", ptr);
}

/* ---- A reserve --------------------------------------------------------- */

enum weir_status
weir_host_reserve(int device, size_t bytes)
{
	if (os_forked())
		return status_forked("weir_host_reserve");
	const struct host_request request = { 0 };
	struct arena *arena;
	void *first;

	if (bytes > os_memory_bytes())
		return status_set(WEIR_EHOSTMEM,
		    "weir_host_reserve(%zu bytes): the machine has %zu bytes "
		    "of memory",
		    bytes, os_memory_bytes());
	/* A first block tells from where the reserve can come. */
	enum weir_status status =
	    allocate_host_from(device, 1, &request, &arena, &first);
	if (status != WEIR_OK)
		return status;
	weir_host_free(first);
	host_set_reserve(arena, bytes);
	host_reap_start();
	return WEIR_OK;
}

/* ---- Where the memory comes from --------------------------------------- */

bool
allocator_host_source(int device, enum weir_host_source *out)
{
	struct arena *main = arena_peek(device);
	const struct options *options = options_peek();

	return main != NULL && options != NULL &&
	    host_source_known(main, options, out);
}

enum weir_status
weir_host_source(int device, enum weir_host_source *out)
{
	if (os_forked())
		return status_forked("weir_host_source");
	const struct host_request request = { 0 };
	struct arena *arena;
	void *first;

	if (out == NULL)
		return status_set(WEIR_EINVAL, "weir_host_source: out is NULL");
	enum weir_status status = device_resolve(device, &device);
	if (status != WEIR_OK || allocator_host_source(device, out))
		return status;
	status = allocate_host_from(device, 1, &request, &arena, &first);
	if (status != WEIR_OK)
		return status;
	weir_host_free(first);
	host_source_known(arena->main, options_peek(), out);
	return WEIR_OK;
}

const char *
weir_host_source_name(enum weir_host_source source)
{
	return options_source_name(source);
}

/* ---- Trimming ---------------------------------------------------------- */

static size_t
trim_host(int device, size_t *keep)
{
	size_t sum = 0;

	ASSERT(device >= 0 && device < DEVICES_MAX);
	for (unsigned kind = 0; device < DEVICES_MAX && kind < HOST_KINDS;
	     kind++) {
		struct arena *arena = host_arena_peek(device, kind);
		if (arena != NULL)
			sum += reclaim_trim(arena, keep);
	}
	return sum;
}

enum weir_status
weir_host_trim(int device, size_t keep_bytes, size_t *freed_bytes)
{
	size_t sum = 0;
	enum weir_status status = WEIR_OK;

	if (os_forked())
		return status_forked("weir_host_trim");
	if (device == WEIR_DEVICE_ALL) {
		for (int i = 0; i < DEVICES_MAX; i++)
			sum += trim_host(i, &keep_bytes);
	} else {
		status = device_resolve(device, &device);
		if (status == WEIR_OK)
			sum = trim_host(device, &keep_bytes);
	}
	if (status == WEIR_OK && freed_bytes != NULL)
		*freed_bytes = sum;
	return status;
}
