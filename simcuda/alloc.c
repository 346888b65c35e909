/*
 * Allocating physical memory, and cuMemAlloc() and related calls.
 *
 * An allocation of 2 MiB or more has its own pages; smaller ones share pages,
 * in units of 512 bytes, first fit. A free waits for all work of the context.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simcuda/joint.h"
#include "simcuda/pool.h"
#include "simcuda/sim.h"
#include "simcuda/tuning.h"

enum { UNITS = SIM_GRANULE / SIM_SMALL };

/* ---- physical memory ----------------------------------------------------- */

static bool
file_extend(struct device *device, uint64_t bytes)
{
	uint64_t larger = device->file_bytes;

	if (bytes <= larger)
		return true;
	larger = larger == 0 ? 1ull << 36 : larger;
	while (larger < bytes)
		larger *= 2;
	if (ftruncate(device->fd, (off_t)larger) != 0)
		return false;
	device->file_bytes = larger;
	return true;
}

/* Take bytes of the device, which other processes may share. */
static bool
device_take_bytes(const struct device *device, size_t size)
{
	return device->used_bytes <= device->limit_bytes &&
	    size <= device->limit_bytes - device->used_bytes &&
	    joint_take(device->ordinal, size, device->limit_bytes);
}

CUresult
phys_new(struct device *device, size_t size, struct phys **out)
{
	struct phys *phys;

	if (!device_take_bytes(device, size)) {
		pool_reclaim(device);
		if (!device_take_bytes(device, size))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!file_extend(device, device->next_byte + size)) {
		joint_give(device->ordinal, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	phys = sim_alloc(sizeof(*phys));
	phys->refs = 1;
	phys->device = device;
	phys->fd = device->fd;
	phys->space = (unsigned)device->ordinal;
	phys->offset = device->next_byte;
	phys->race_offset = phys->offset;
	phys->size = size;
	device->next_byte += size;
	device->used_bytes += size;
	*out = phys;
	return CUDA_SUCCESS;
}

/* ---- pages -------------------------------------------------------------- */

/* A mapped page of 2 MiB that small allocations share. */
struct page {
	struct page *next, *prev; /* list of its context */
	struct context *context;
	struct phys *phys;
	uint64_t address;
	unsigned used;    /* in units */
	unsigned longest; /* upper bound for the longest free run, in units */
	unsigned char taken[UNITS];
};

/* Allocate device memory and map it at a new address. */
static CUresult
map_new(
    struct device *device, size_t size, struct phys **phys, uint64_t *address)
{
	CUresult code;

	size = (size + SIM_GRANULE - 1) & ~(size_t)(SIM_GRANULE - 1);
	code = phys_new(device, size, phys);
	if (code != CUDA_SUCCESS)
		return code;
	*address = address_reserve(size, SIM_GRANULE, 0);
	if (*address == 0)
		goto drop_memory;
	if (!phys_map(*phys, size, *address, PROT_READ | PROT_WRITE))
		goto drop_address;
	return CUDA_SUCCESS;

drop_address:
	address_release(*address, size);
drop_memory:
	phys_drop(*phys);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- small ones --------------------------------------------------------- */

static void
page_link(struct page *page)
{
	page->prev = NULL;
	page->next = page->context->pages;
	if (page->next != NULL)
		page->next->prev = page;
	page->context->pages = page;
}

static CUresult
page_new(struct context *context, struct page **out)
{
	struct page *page = sim_alloc(sizeof(*page));
	CUresult code =
	    map_new(context->device, SIM_GRANULE, &page->phys, &page->address);

	if (code != CUDA_SUCCESS) {
		free(page);
		return code;
	}
	page->context = context;
	page->longest = UNITS;
	page_link(page);
	*out = page;
	return CUDA_SUCCESS;
}

static void
page_free(struct page *page)
{
	if (page->next != NULL)
		page->next->prev = page->prev;
	if (page->prev != NULL)
		page->prev->next = page->next;
	else
		page->context->pages = page->next;
	address_release(page->address, SIM_GRANULE);
	phys_drop(page->phys);
	free(page);
}

/* The first unit of a free run of `n` units, or UNITS. */
static unsigned
page_search(struct page *page, unsigned n)
{
	unsigned run = 0;

	if (n > page->longest)
		return UNITS;
	for (unsigned i = 0; i < UNITS; i++) {
		run = page->taken[i] ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	page->longest = n - 1;
	return UNITS;
}

static CUresult
alloc_small(struct context *context, size_t size, struct range **out)
{
	unsigned n = (unsigned)((size + SIM_SMALL - 1) / SIM_SMALL);
	unsigned unit = UNITS, tried = 0;
	struct page *page;
	struct range *range;
	CUresult code;

	for (page = context->pages; page != NULL; page = page->next) {
		unit = page_search(page, n);
		if (unit < UNITS || ++tried == ALLOC_PAGES_TRIED)
			break;
	}
	if (unit >= UNITS) {
		code = page_new(context, &page);
		if (code != CUDA_SUCCESS)
			return code;
		unit = 0;
	}
	memset(&page->taken[unit], 1, n);
	page->used += n;
	range = range_new(
	    RANGE_ALLOC, page->address + (uint64_t)unit * SIM_SMALL, size);
	range->page = page;
	range->phys = page->phys;
	range->phys->refs++;
	range->phys_offset = (size_t)unit * SIM_SMALL;
	*out = range;
	return CUDA_SUCCESS;
}

static void
free_small(struct range *range)
{
	struct page *page = range->page;
	size_t unit = range->phys_offset / SIM_SMALL;
	size_t n = (range->size + SIM_SMALL - 1) / SIM_SMALL;

	memset(&page->taken[unit], 0, n);
	page->used -= (unsigned)n;
	page->longest = UNITS;
	range_free(range);
	if (page->used == 0)
		page_free(page);
}

/* ---- all ---------------------------------------------------------------- */

CUresult
alloc_new(struct context *context, size_t size, struct range **out)
{
	struct phys *phys;
	uint64_t address;
	CUresult code;

	if (size == 0 || size > context->device->limit_bytes)
		return size == 0 ? CUDA_ERROR_INVALID_VALUE :
				   CUDA_ERROR_OUT_OF_MEMORY;
	if (size < SIM_GRANULE) {
		code = alloc_small(context, size, out);
	} else {
		code = map_new(context->device, size, &phys, &address);
		if (code == CUDA_SUCCESS) {
			*out = range_new(RANGE_ALLOC, address, size);
			(*out)->phys = phys;
		}
	}
	return code;
}

void
alloc_free(struct range *range)
{
	uint64_t address = range->start;
	size_t mapped;

	if (range->page != NULL) {
		free_small(range);
		return;
	}
	mapped = range->phys->size;
	address_release(address, mapped);
	range_free(range);
}

/* Free memory of any kind. */
void
memory_free(struct range *range)
{
	switch (range->kind) {
	case RANGE_ALLOC:
		alloc_free(range);
		break;
	case RANGE_HOST:
	case RANGE_MANAGED:
		race_forget(SPACE_HOST, range->start, range->size);
		address_release(range->start, range->mapped_size);
		range_free(range);
		break;
	case RANGE_REGISTERED:
		race_forget(SPACE_HOST, range->start, range->size);
		range_free(range);
		break;
	case RANGE_IPC:
		ipc_close(range);
		break;
	default:
		break;
	}
}

/* Stream-ordered memory outlives its context; all other memory is freed. */
void
context_end_memory(struct context *context)
{
	struct range *next;

	for (struct range *range = context->ranges; range != NULL;
	     range = next) {
		next = range->next_in_context;
		memory_free(range);
	}
}

/* ---- calls -------------------------------------------------------------- */

CUresult
cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	CUresult code = gate_enter(E_cuMemAlloc_v2);
	struct range *range;

	if (code == CUDA_SUCCESS && address == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = alloc_new(sim.here, size, &range);
	if (code == CUDA_SUCCESS) {
		range_own(range, sim.here);
		*address = range->start;
	}
	return gate_leave(code);
}

CUresult
cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width,
    size_t height, unsigned int element)
{
	CUresult code = gate_enter(E_cuMemAllocPitch_v2);
	struct range *range;
	size_t row = (width + SIM_SMALL - 1) / SIM_SMALL * SIM_SMALL;

	if (code == CUDA_SUCCESS &&
	    (address == NULL || pitch == NULL || row == 0 ||
		(element != 4 && element != 8 && element != 16)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && height > SIZE_MAX / row)
		code = CUDA_ERROR_OUT_OF_MEMORY;
	if (code == CUDA_SUCCESS)
		code = alloc_new(sim.here, row * height, &range);
	if (code == CUDA_SUCCESS) {
		range_own(range, sim.here);
		*address = range->start;
		*pitch = row;
	}
	return gate_leave(code);
}

CUresult
cuMemFree_v2(CUdeviceptr address)
{
	CUresult code = gate_enter(E_cuMemFree_v2);
	struct range *range = memory_find(address);

	if (code != CUDA_SUCCESS || address == 0)
		return gate_leave(code);
	if (range == NULL || range->start != address || range->array ||
	    range_is_released(range) ||
	    (range->kind != RANGE_ALLOC && range->kind != RANGE_MANAGED &&
		range->kind != RANGE_POOLED && !pool_is_imported(range)))
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	if (range->kind == RANGE_POOLED || range->graph_memory)
		return gate_leave(pool_free_now(range));
	context_wait(range->context);
	/* Another thread may have freed it while this one waited. */
	if (memory_find(address) != range)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	exec_check_unused(range, "freeing");
	if (range->kind == RANGE_IPC)
		ipc_close(range);
	else
		memory_free(range);
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	CUresult code = gate_enter(E_cuMemGetInfo_v2);
	struct device *device;
	size_t used;

	if (code == CUDA_SUCCESS && (free_bytes == NULL || total_bytes == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS) {
		device = sim.here->device;
		used = joint_used(device->ordinal, device->used_bytes);
		*total_bytes = device->limit_bytes;
		*free_bytes =
		    used > device->limit_bytes ? 0 : device->limit_bytes - used;
	}
	return gate_leave(code);
}

void
memory_check_unused(const struct range *range, const char *what)
{
	const struct use *use = range_unknown_use(range, NULL);

	exec_check_unused(range, what);
	if (use != NULL)
		violation("%s of %#llx (%zu bytes) while work on stream %llu "
			  "that uses it is not known to be done",
		    what, (unsigned long long)range->start, range->size,
		    (unsigned long long)slot_label(use->slot));
}
