/*
 * A program that takes memory from the driver by every entry that gives it, and
 * gives it back. Under weir it reads after each step what weir counts of that
 * kind, and prints "ENTRY KIND: right", or what is wrong.
 *
 *	driver_outside	all entries, then what must not change a count
 *
 * Without weir it prints nothing.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/weir.h>

#include "common/handles.h"

enum { MIB = 1 << 20, BYTES = 4 * MIB };

struct pool_wish {
	int type, handle_types;
	struct location location;
	void *security;
	size_t most;
	unsigned short usage;
	unsigned char rest[54];
};

struct plane_wish {
	size_t width, height;
	int format;
	unsigned channels;
};

struct solid_wish {
	size_t width, height, depth;
	int format;
	unsigned channels, flags;
};

struct external_wish {
	int type;
	union {
		int fd;
		void *pointers[2];
	} from;
	unsigned long long size;
	unsigned flags, rest[16];
};

static struct cuda cuda;

/* X(name, params) */
#define FETCHED(X)                                                             \
	HANDLE_FUNCTIONS(X)                                                    \
	X(cuMemAllocManaged, (address *, size_t, unsigned))                    \
	X(cuArrayCreate_v2, (void **, const struct plane_wish *))              \
	X(cuArray3DCreate_v2, (void **, const struct solid_wish *))            \
	X(cuArrayDestroy, (void *))                                            \
	X(cuMipmappedArrayCreate,                                              \
	    (void **, const struct solid_wish *, unsigned))                    \
	X(cuMipmappedArrayDestroy, (void *))                                   \
	X(cuImportExternalMemory, (void **, const struct external_wish *))     \
	X(cuDestroyExternalMemory, (void *))                                   \
	X(cuMemPoolCreate, (void **, const struct pool_wish *))                \
	X(cuMemPoolDestroy, (void *))                                          \
	X(cuDeviceSetMemPool, (int, void *))                                   \
	X(cuDeviceGetDefaultMemPool, (void **, int))                           \
	X(cuMemAllocFromPoolAsync, (address *, size_t, void *, stream))        \
	X(cuMemAllocFromPoolAsync_ptsz, (address *, size_t, void *, stream))   \
	X(cuMemAllocAsync_ptsz, (address *, size_t, stream))                   \
	X(cuMemAllocPitch_v2, (address *, size_t *, size_t, size_t, unsigned)) \
	X(cuCtxCreate_v2, (context *, unsigned, int))                          \
	X(cuCtxDestroy_v2, (context))                                          \
	X(cuStreamBeginCapture_v2, (stream, int))                              \
	X(cuStreamEndCapture, (stream, void **))                               \
	X(cuGraphDestroy, (void *))

static struct {
#define FETCHED_FIELD(name, params) result(*name) params;
	FETCHED(FETCHED_FIELD)
#undef FETCHED_FIELD
} driver;

/* ---- What weir counts ---------------------------------------------------- */

static enum weir_status (*read_stats)(int, struct weir_stats *);

/* Bytes of a kind, of all of them for NULL. */
static unsigned long long
counted(const char *kind)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	unsigned long long sum = 0;

	if (read_stats(0, &stats) != WEIR_OK)
		exit(4);
#define COUNTED_KIND(name, label)                                              \
	if (kind == NULL || strcmp(kind, #name) == 0)                          \
		sum += stats.outside_##name.current;
	WEIR_OUTSIDE_KINDS(COUNTED_KIND)
#undef COUNTED_KIND
	return sum;
}

static unsigned long long before;
static int wrong;

static void
begin(void)
{
	before = counted(NULL);
}

/* The kind has these bytes more than at begin(), and no other has. */
static void
expect(const char *entry, const char *kind, size_t bytes)
{
	unsigned long long all = counted(NULL) - before;

	if (all == bytes && counted(kind) >= bytes)
		return;
	printf("%s %s: %llu bytes in place of %zu\n", entry, kind, all, bytes);
	wrong = 1;
}

static void
done(const char *entry, const char *kind)
{
	expect(entry, kind, 0);
	if (!wrong)
		printf("%s %s: right\n", entry, kind);
	wrong = 0;
}

/* ---- Handles ------------------------------------------------------------- */

static const struct handle_wish on_device = {
	.type = 1, .handle_types = 1, .location = { 1, 0 }
};

/* The memory lives by its mapping, a second handle, and nothing. */
static void
handles(void)
{
	address at;
	handle made;
	handle again;

	begin();
	MUST(driver.cuMemCreate(&made, BYTES, &on_device, 0));
	expect("cuMemCreate", "handles", BYTES);
	MUST(driver.cuMemAddressReserve(&at, 2 * BYTES, 0, 0, 0));
	MUST(driver.cuMemMap(at, BYTES, 0, made, 0));
	MUST(driver.cuMemMap(at + BYTES, BYTES, 0, made, 0));
	MUST(driver.cuMemRelease(made));
	expect("cuMemRelease", "handles", BYTES);
	MUST(driver.cuMemUnmap(at, BYTES));
	expect("cuMemUnmap", "handles", BYTES);
	MUST(driver.cuMemRetainAllocationHandle(
	    &again, (void *)(uintptr_t)(at + BYTES)));
	MUST(driver.cuMemUnmap(at + BYTES, BYTES));
	expect("cuMemRetainAllocationHandle", "handles", BYTES);
	MUST(driver.cuMemRelease(again));
	done("cuMemRetainAllocationHandle", "handles");
	MUST(driver.cuMemCreate(&made, BYTES, &on_device, 0));
	MUST(driver.cuMemMap(at, BYTES, 0, made, 0));
	MUST(driver.cuMemUnmap(at, BYTES));
	MUST(driver.cuMemRelease(made));
	if (driver.cuMemRelease(made) == SUCCESS)
		puts("released twice");
	done("cuMemCreate", "handles");
	MUST(driver.cuMemAddressFree(at, 2 * BYTES));
}

/* A handle of another process, or of this one. Its size is known when it is
 * mapped, and it is in no limit. */
static void
imported(void)
{
	address at;
	handle made;
	handle other;
	int fd;

	MUST(driver.cuMemCreate(&made, BYTES, &on_device, 0));
	begin();
	MUST(driver.cuMemExportToShareableHandle(&fd, made, 1, 0));
	MUST(driver.cuMemImportFromShareableHandle(
	    &other, (void *)(uintptr_t)fd, 1));
	MUST(driver.cuMemAddressReserve(&at, BYTES, 0, 0, 0));
	MUST(driver.cuMemMap(at, BYTES, 0, other, 0));
	if (other != made)
		expect("cuMemImportFromShareableHandle", "imported", BYTES);
	MUST(driver.cuMemRelease(other));
	MUST(driver.cuMemUnmap(at, BYTES));
	done("cuMemImportFromShareableHandle", "imported");
	MUST(driver.cuMemAddressFree(at, BYTES));
	MUST(driver.cuMemRelease(made));
	close(fd);
}

/* ---- Memory with a name -------------------------------------------------- */

static void
managed(void)
{
	address ptr;

	begin();
	MUST(driver.cuMemAllocManaged(&ptr, BYTES, 1));
	expect("cuMemAllocManaged", "managed", BYTES);
	MUST(cuda.mem_free(ptr));
	if (cuda.mem_free(ptr) == SUCCESS)
		puts("freed twice");
	done("cuMemAllocManaged", "managed");
}

static void
arrays(void)
{
	struct plane_wish plane = { 1024, 256, 0x20, 4 };
	struct solid_wish solid = { 64, 64, 64, 0x20, 4, 0 };
	void *array;

	begin();
	MUST(driver.cuArrayCreate_v2(&array, &plane));
	expect("cuArrayCreate_v2", "arrays", 1024 * 256 * 16);
	MUST(driver.cuArrayDestroy(array));
	done("cuArrayCreate_v2", "arrays");
	MUST(driver.cuArray3DCreate_v2(&array, &solid));
	expect("cuArray3DCreate_v2", "arrays", 64 * 64 * 64 * 16);
	MUST(driver.cuArrayDestroy(array));
	done("cuArray3DCreate_v2", "arrays");
	MUST(driver.cuMipmappedArrayCreate(&array, &solid, 2));
	expect("cuMipmappedArrayCreate", "arrays",
	    64 * 64 * 64 * 16 + 32 * 32 * 32 * 16);
	MUST(driver.cuMipmappedArrayDestroy(array));
	done("cuMipmappedArrayCreate", "arrays");
	plane.channels = 9;
	if (driver.cuArrayCreate_v2(&array, &plane) == SUCCESS)
		puts("an array of 9 channels");
	done("cuArrayCreate_v2 refused", "arrays");
}

static void
external(void)
{
	struct external_wish wish = { .type = 1, .size = BYTES };
	void *memory;

	wish.from.fd = memfd_create("external", MFD_CLOEXEC);
	if (wish.from.fd < 0 || ftruncate(wish.from.fd, BYTES) != 0)
		exit(4);
	begin();
	MUST(driver.cuImportExternalMemory(&memory, &wish));
	expect("cuImportExternalMemory", "external", BYTES);
	MUST(driver.cuDestroyExternalMemory(memory));
	done("cuImportExternalMemory", "external");
}

/* ---- Pools and contexts of the driver ------------------------------------ */

static void
pooled(void)
{
	struct pool_wish wish = {
		.type = 1, .handle_types = 1, .location = { 1, 0 }
	};
	void *usual;
	void *pool;
	address ptr;

	MUST(driver.cuDeviceGetDefaultMemPool(&usual, 0));
	MUST(driver.cuMemPoolCreate(&pool, &wish));
	begin();
#define FROM_POOL(name, ...)                                                   \
	MUST(driver.name(&ptr, BYTES, __VA_ARGS__));                           \
	expect(#name, "pooled", BYTES);                                        \
	MUST(cuda.mem_free_async(ptr, NULL));                                  \
	done(#name, "pooled")
	FROM_POOL(cuMemAllocFromPoolAsync, pool, NULL);
	FROM_POOL(cuMemAllocFromPoolAsync_ptsz, pool, NULL);
	MUST(driver.cuDeviceSetMemPool(0, pool));
	FROM_POOL(cuMemAllocAsync_ptsz, NULL);
#undef FROM_POOL
	MUST(cuda.mem_alloc_async(&ptr, BYTES, NULL));
	expect("cuMemAllocAsync", "pooled", BYTES);
	MUST(cuda.mem_free(ptr));
	done("cuMemAllocAsync", "pooled");
	MUST(driver.cuDeviceSetMemPool(0, usual));
	MUST(cuda.synchronize());
	MUST(driver.cuMemPoolDestroy(pool));
}

/* weir serves the primary context. Memory of another one ends with it. */
static void
plain(context primary)
{
	context other;
	address ptr;
	address left;
	size_t pitch;

	MUST(driver.cuCtxCreate_v2(&other, 0, 0));
	begin();
	MUST(cuda.mem_alloc(&ptr, BYTES));
	expect("cuMemAlloc_v2", "plain", BYTES);
	MUST(cuda.mem_free(ptr));
	done("cuMemAlloc_v2", "plain");
	MUST(driver.cuMemAllocPitch_v2(&ptr, &pitch, 1000, 1000, 4));
	expect("cuMemAllocPitch_v2", "plain", pitch * 1000);
	MUST(cuda.mem_free(ptr));
	done("cuMemAllocPitch_v2", "plain");
	MUST(cuda.mem_alloc(&left, BYTES));
	MUST(driver.cuMemAllocManaged(&ptr, BYTES, 1));
	MUST(driver.cuCtxDestroy_v2(other));
	done("cuCtxDestroy_v2", "plain");
	MUST(cuda.set_current(primary));
}

/* A node of a graph that is captured. */
static void
graphs(void)
{
	address ptr;
	stream on;
	void *graph;

	MUST(cuda.stream_create(&on, 1, 0));
	begin();
	MUST(driver.cuStreamBeginCapture_v2(on, 2));
	MUST(cuda.mem_alloc_async(&ptr, BYTES, on));
	MUST(cuda.mem_free_async(ptr, on));
	MUST(driver.cuStreamEndCapture(on, &graph));
	expect("cuMemAllocAsync captured", "graphs", BYTES);
	printf("cuMemAllocAsync graphs: %s\n", wrong ? "wrong" : "right");
	wrong = 0;
	MUST(driver.cuGraphDestroy(graph));
	MUST(cuda.stream_destroy(on));
}

/* ---- What is not there --------------------------------------------------- */

static void
refused(void)
{
	handle made;
	address ptr;

	begin();
	if (driver.cuMemCreate(&made, (size_t)1 << 50, &on_device, 0) ==
		SUCCESS ||
	    driver.cuMemAllocManaged(&ptr, (size_t)1 << 50, 1) == SUCCESS ||
	    driver.cuMemAllocManaged(&ptr, SIZE_MAX, 1) == SUCCESS ||
	    driver.cuMemRelease(12345) == SUCCESS ||
	    cuda.mem_free(12345) == SUCCESS)
		puts("given too much");
	done("refused", "handles");
}

int
main(void)
{
	context primary;

	cuda_by_dlsym(&cuda);
#define FETCH(name, params) cuda_fetch(#name, &driver.name);
	FETCHED(FETCH)
#undef FETCH
	primary = cuda_start(&cuda);
	*(void **)&read_stats = dlsym(RTLD_DEFAULT, "weir_stats");
	if (read_stats == NULL)
		return 0;
	handles();
	imported();
	managed();
	arrays();
	external();
	pooled();
	plain(primary);
	graphs();
	refused();
	return 0;
}
