/*
 * Gets pages of host memory for arenas: from the driver, or from the system,
 * and then registers them with the driver.
 *
 * The driver registers pages one after the other, under a lock of its own, and
 * first makes those that do not exist. Therefore weir makes them exist before:
 * in huge pages where the system has them, on the NUMA node of the device, by
 * several threads if an option asks for that. One call registers them all.
 */
#include "allocator/host/pages.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/host/kinds.h"
#include "allocator/host/tuning.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum {
	HUGE_PAGE = 2 << 20,
	NODES_MAX = 1024,
	PREFERRED = 1, /* MPOL_PREFERRED */
};

/* ---- NUMA -------------------------------------------------------------- */

const char *host_tables = "/sys";

int
host_node(const char *root, const char *bus_id)
{
	char path[256];
	char name[32];
	size_t n = 0;
	int node = -1;

	ASSERT(root != NULL && bus_id != NULL);
	for (; bus_id[n] != '\0' && n + 1 < sizeof(name); n++)
		name[n] = (char)tolower((unsigned char)bus_id[n]);
	name[n] = '\0';
	snprintf(
	    path, sizeof(path), "%s/bus/pci/devices/%s/numa_node", root, name);
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return -1;
	if (fscanf(file, "%d", &node) != 1 || node >= NODES_MAX)
		node = -1;
	fclose(file);
	return node;
}

int
host_numa_node(int device)
{
	char bus_id[32];

	if (driver_peek()->cuDeviceGetPCIBusId(
		bus_id, sizeof(bus_id), device) != CUDA_SUCCESS)
		return -1;
	return host_node(host_tables, bus_id);
}

/* Ask the system to place the pages of a range on the NUMA node of the device.
 * It may place them elsewhere. */
static void
place_on_node(void *memory, size_t size, int device)
{
	enum { BITS = 8 * sizeof(unsigned long) };
	unsigned long nodes[NODES_MAX / BITS] = { 0 };
	int node = host_numa_node(device);

	ASSERT(memory != NULL && size > 0);
	if (node < 0)
		return;
	nodes[node / BITS] = 1ul << node % BITS;
	syscall(SYS_mbind, memory, size, PREFERRED, nodes,
	    (unsigned long)NODES_MAX + 1, 0u);
}

/* ---- Making pages exist ------------------------------------------------ */

struct touch {
	char *at;
	size_t size;
	bool failed;
};

/* Does the page exist? */
static bool
page_exists(char *page)
{
	unsigned char there = 0;

	return mincore(page, os_page_size(), &there) == 0 && (there & 1) != 0;
}

/*
 * Make the pages exist. False: the system has no memory for them. First ask for
 * one small page: if the system makes the whole huge page, the last small page
 * exists then. Asking for all small pages takes four times as long as clearing
 * them, because the system looks for each.
 */
static bool
populate(char *at, size_t size)
{
	size_t page = os_page_size();

	return madvise(at, page, MADV_POPULATE_WRITE) == 0 &&
	    (page_exists(at + size - page) ||
		madvise(at, size, MADV_POPULATE_WRITE) == 0);
}

/* Make the pages of a part exist. Before Linux 5.14 write to each page
 * instead. */
static void *
touch_part(void *argument)
{
	struct touch *t = argument;
	size_t page = os_page_size();
	size_t done = 0;

	while (done < t->size) {
		size_t left = t->size - done;
		size_t piece = left < HUGE_PAGE ? left : HUGE_PAGE;
		if (!populate(t->at + done, piece))
			break;
		done += piece;
	}
	t->failed = done < t->size && errno != EINVAL;
	for (; done < t->size && !t->failed; done += page)
		((volatile char *)t->at)[done] = 0;
	return NULL;
}

static bool
touch_all(char *memory, size_t size, unsigned threads)
{
	struct touch parts[TOUCHERS_MAX] = { 0 };
	pthread_t ids[TOUCHERS_MAX];
	size_t step = round_up(size / threads + 1,
	    size >= (size_t)HUGE_PAGE * threads ? (size_t)HUGE_PAGE :
						  os_page_size());
	bool started[TOUCHERS_MAX] = { false };
	bool ok = true;
	unsigned n = 0;

	ASSERT(threads > 0 && threads <= TOUCHERS_MAX);
	for (size_t at = 0; at < size; at += step, n++)
		parts[n] = (struct touch){ .at = memory + at,
			.size = size - at < step ? size - at : step };
	for (unsigned i = 1; i < n; i++)
		started[i] = os_thread_start(&ids[i], touch_part, &parts[i]);
	for (unsigned i = 0; i < n; i++) {
		if (started[i])
			pthread_join(ids[i], NULL);
		else
			touch_part(&parts[i]);
		ok = ok && !parts[i].failed;
	}
	return ok;
}

/* ---- Pages of our own -------------------------------------------------- */

/* Map `size` bytes, aligned to huge pages if they fill one. */
static void *
map_aligned(size_t size)
{
	size_t extra = size >= HUGE_PAGE ? HUGE_PAGE : 0;
	char *memory = meta_map(size + extra);

	ASSERT(size > 0);
	if (memory == NULL || extra == 0)
		return memory;
	size_t before = -(uintptr_t)memory % HUGE_PAGE;
	if (before > 0)
		meta_unmap(memory, before);
	if (before < extra)
		meta_unmap(memory + before + size, extra - before);
	madvise(memory + before, size, MADV_HUGEPAGE);
	return memory + before;
}

static enum weir_status
allocate_registered(int device, size_t size, CUdeviceptr *out)
{
	ASSERT(size > 0);
	const struct options *options;
	enum weir_status status = options_get(&options);
	if (status != WEIR_OK)
		return status;
	void *memory = map_aligned(size);
	if (memory == NULL)
		goto no_memory;
	place_on_node(memory, size, device);
	if (!touch_all(memory, size, options->pinned_threads))
		goto drop_memory;
	CUresult code = driver_peek()->cuMemHostRegister(memory, size,
	    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	if (code != CUDA_SUCCESS) {
		meta_unmap(memory, size);
		return driver_status(code,
		    "cuMemHostRegister(%zu bytes, device %d)", size, device);
	}
	*out = (CUdeviceptr)(uintptr_t)memory;
	return WEIR_OK;

drop_memory:
	meta_unmap(memory, size);
no_memory:
	return status_set(WEIR_ENOMEM,
	    "the system has no %zu bytes of memory to register", size);
}

static bool
free_registered(CUdeviceptr addr, size_t size)
{
	void *memory = (void *)(uintptr_t)addr;

	ASSERT(addr != 0 && size > 0);
	if (driver_peek()->cuMemHostUnregister(memory) != CUDA_SUCCESS)
		return false;
	meta_unmap(memory, size);
	return true;
}

/* ---- Pages of a kind --------------------------------------------------- */

static bool
is_registered(unsigned kind)
{
	return host_kind_facts(kind).source == WEIR_HOST_FROM_SYSTEM;
}

static enum weir_status
pages_allocate(unsigned kind, int device, size_t size, CUdeviceptr *out)
{
	void *memory;

	ASSERT(kind < HOST_KINDS && size > 0);
	if (is_registered(kind))
		return allocate_registered(device, size, out);
	unsigned flags = host_kind_facts(kind).flags;
	CUresult code = driver_peek()->cuMemHostAlloc(&memory, size, flags);
	if (code == CUDA_SUCCESS)
		*out = (CUdeviceptr)(uintptr_t)memory;
	return driver_status(
	    code, "cuMemHostAlloc(%zu bytes, flags %u)", size, flags);
}

static bool
pages_free(unsigned kind, CUdeviceptr addr, size_t size)
{
	ASSERT(kind < HOST_KINDS && addr != 0);
	if (is_registered(kind))
		return free_registered(addr, size);
	return driver_peek()->cuMemFreeHost((void *)(uintptr_t)addr) ==
	    CUDA_SUCCESS;
}

/* The context is gone, and with it the memory that the driver allocated.
 * Registered pages still exist: free them. */
static void
pages_forget(unsigned kind, CUdeviceptr addr, size_t size)
{
	void *memory = (void *)(uintptr_t)addr;

	ASSERT(kind < HOST_KINDS && addr != 0);
	if (!is_registered(kind))
		return;
	driver_peek()->cuMemHostUnregister(memory);
	meta_unmap(memory, size);
}

/* ---- The sources ------------------------------------------------------- */

static struct source sources[HOST_KINDS]; /* by kind */

static unsigned
kind_of_source(const void *closure)
{
	return (unsigned)((const struct source *)closure - sources);
}

static enum weir_status
source_allocate(void *closure, int device, size_t size, CUdeviceptr *out)
{
	return pages_allocate(kind_of_source(closure), device, size, out);
}

static bool
source_free(void *closure, int device, CUdeviceptr addr, size_t size)
{
	(void)device;
	return pages_free(kind_of_source(closure), addr, size);
}

static void
forget_pages(void *closure, int device, CUdeviceptr addr, size_t size)
{
	(void)device;
	pages_forget(kind_of_source(closure), addr, size);
}

static void
make_sources(void)
{
	static const char *const calls[] = { [WEIR_HOST_FROM_HANDLES] =
						 "cuMemCreate",
		[WEIR_HOST_FROM_SYSTEM] = "cuMemHostRegister",
		[WEIR_HOST_FROM_DRIVER] = "cuMemHostAlloc" };

	for (unsigned kind = 0; kind < HOST_KINDS; kind++) {
		struct host_kind facts = host_kind_facts(kind);
		sources[kind] = (struct source){ .name = calls[facts.source],
			.traits = facts.source == WEIR_HOST_FROM_HANDLES ?
			    &traits_host_mapped :
			    &traits_page_locked,
			.granule = facts.coarse ? WEIR_GRANULE : FINE_GRANULE,
			.take = source_allocate,
			.give = source_free,
			.forget = forget_pages,
			.closure = &sources[kind] };
	}
}

const struct source *
host_source(unsigned kind)
{
	ASSERT(kind < HOST_KINDS);
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_sources);
	return &sources[kind];
}
