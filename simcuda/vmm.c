/*
 * Virtual memory management: address ranges, memory handles, and mappings.
 *
 * A handle is mapped as a whole, from its offset 0, into reserved address
 * space, at any number of places, and unmapped as a whole. A mapping has no
 * access rights until cuMemSetAccess() gives them, to whole mappings. Memory
 * lives while a handle or a mapping refers to it. None of these calls waits for
 * the device: unmapping memory that pending work uses is a fault of the
 * program, and is reported.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "simcuda/sim.h"

static bool
is_granular(uint64_t bytes)
{
	return bytes != 0 && bytes % SIM_GRANULE == 0;
}

/* ---- address ranges ----------------------------------------------------- */

CUresult
cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment,
    CUdeviceptr hint, unsigned long long flags)
{
	CUresult code = gate_enter(E_cuMemAddressReserve);
	struct range *range;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (address == NULL || !is_granular(size) || flags != 0 ||
	    (alignment & (alignment - 1)) != 0)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	if (alignment < SIM_GRANULE)
		alignment = SIM_GRANULE;
	range = sim_alloc(sizeof(*range));
	range->start = address_reserve(size, alignment, hint);
	range->size = size;
	if (range->start == 0) {
		free(range);
		return gate_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	tree_insert(&sim.reservations, range);
	*address = range->start;
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuMemAddressFree(CUdeviceptr address, size_t size)
{
	CUresult code = gate_enter(E_cuMemAddressFree);
	struct range *range, *mapping;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	range = tree_find(&sim.reservations, address);
	if (range == NULL || range->start != address || range->size != size)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	mapping = tree_at_or_after(&sim.memory, address);
	if (mapping != NULL && mapping->start < address + size)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	tree_remove(&sim.reservations, range);
	address_release(address, size);
	free(range);
	return gate_leave(CUDA_SUCCESS);
}

/* ---- handles ------------------------------------------------------------ */

/* Does the location name memory of the machine? It has one NUMA node, 0. */
static bool
is_host_location(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_HOST ||
	    location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT ||
	    (location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
		location->id == 0);
}

static struct device *
store_of(const CUmemLocation *location)
{
	return is_host_location(location) ? &sim.machine :
					    device_find(location->id);
}

static CUresult
check_prop(const CUmemAllocationProp *prop)
{
	if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_host_location(&prop->location))
		return !has_host_handles() || prop->requestedHandleTypes != 0 ?
		    CUDA_ERROR_NOT_SUPPORTED :
		    CUDA_SUCCESS;
	if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (device_find(prop->location.id) == NULL)
		return CUDA_ERROR_INVALID_DEVICE;
	if ((prop->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0 &&
	    conf.fabric != 1)
		return conf.fabric == 0 ? CUDA_ERROR_NOT_SUPPORTED :
					  CUDA_ERROR_NOT_PERMITTED;
	if ((prop->requestedHandleTypes &
		~(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR |
		    CU_MEM_HANDLE_TYPE_FABRIC)) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUmemGenericAllocationHandle
phys_handle(struct phys *phys)
{
	if (phys->handle == 0) {
		phys->handle = handle_new(HANDLE_PHYS, phys);
		phys->refs++;
	}
	phys->handle_refs++;
	return phys->handle;
}

CUresult
cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
    const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult code = gate_enter(E_cuMemCreate);
	struct phys *phys;

	if (code == CUDA_SUCCESS &&
	    (handle == NULL || flags != 0 || !is_granular(size)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = check_prop(prop);
	if (code == CUDA_SUCCESS)
		code = phys_new(store_of(&prop->location), size, &phys);
	if (code == CUDA_SUCCESS) {
		if (phys_is_host(phys))
			pages_spend(PAGES_CREATE, size);
		phys->prop = *prop;
		*handle = phys_handle(phys);
		phys_drop(phys);
	}
	return gate_leave(code);
}

CUresult
cuMemRelease(CUmemGenericAllocationHandle handle)
{
	CUresult code = gate_enter(E_cuMemRelease);
	struct phys *phys;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	phys = handle_find(HANDLE_PHYS, handle);
	if (phys == NULL)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	if (--phys->handle_refs == 0) {
		if (phys_is_host(phys))
			pages_spend(PAGES_RELEASE, phys->size);
		handle_drop(HANDLE_PHYS, phys->handle);
		phys->handle = 0;
		phys_drop(phys);
	}
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	CUresult code = gate_enter(E_cuMemRetainAllocationHandle);
	struct range *range = memory_find(handle_bits(address));

	if (code == CUDA_SUCCESS &&
	    (handle == NULL || range == NULL || range->kind != RANGE_MAPPING))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*handle = phys_handle(range->phys);
	return gate_leave(code);
}

CUresult
cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	CUresult code = gate_enter(E_cuMemGetAllocationPropertiesFromHandle);
	struct phys *phys = handle_find(HANDLE_PHYS, handle);

	if (code == CUDA_SUCCESS && (prop == NULL || phys == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*prop = phys->prop;
	return gate_leave(code);
}

CUresult
cuMemGetAllocationGranularity(size_t *granularity,
    const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option)
{
	CUresult code = gate_enter(E_cuMemGetAllocationGranularity);

	if (code == CUDA_SUCCESS &&
	    (granularity == NULL ||
		(unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS && prop == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*granularity = SIM_GRANULE;
	return gate_leave(code);
}

/* ---- mappings ----------------------------------------------------------- */

/* Is all of it reserved, in one reservation? */
static bool
is_reserved_range(uint64_t address, size_t size)
{
	struct range *range = tree_find(&sim.reservations, address);

	return range != NULL && address + size >= address &&
	    address + size <= range->start + range->size;
}

CUresult
cuMemMap(CUdeviceptr address, size_t size, size_t offset,
    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CUresult code = gate_enter(E_cuMemMap);
	struct phys *phys = handle_find(HANDLE_PHYS, handle);
	struct range *range;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (phys == NULL || flags != 0 || address % SIM_GRANULE != 0 ||
	    !is_reserved_range(address, size))
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	if (offset != 0 || size != phys->size)
		return gate_leave(CUDA_ERROR_NOT_SUPPORTED);
	range = tree_at_or_after(&sim.memory, address);
	if (range != NULL && range->start < address + size)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	range = range_new(RANGE_MAPPING, address, size);
	range->phys = phys;
	phys->refs++;
	return gate_leave(CUDA_SUCCESS);
}

/* The first of the mappings that fill [address, +size) exactly, or NULL. */
static struct range *
whole_mappings(uint64_t address, size_t size)
{
	struct range *first = memory_find(address);
	struct range *range = first;
	uint64_t at = address, end = address + size;

	if (size == 0 || end < address)
		return NULL;
	while (at < end) {
		if (range == NULL || range->start != at ||
		    range->kind != RANGE_MAPPING)
			return NULL;
		at += range->size;
		range = at < end ? memory_find(at) : range;
	}
	return at == end ? first : NULL;
}

/* Does [address, +size) contain only a part of some mapping? */
static bool
cuts_mapping(uint64_t address, size_t size)
{
	struct range *first = memory_find(address);
	struct range *last = memory_find(address + size - 1);

	return (first != NULL && first->start < address) ||
	    (last != NULL && last->start + last->size > address + size);
}

/* The range may contain unmapped addresses. */
CUresult
cuMemUnmap(CUdeviceptr address, size_t size)
{
	CUresult code = gate_enter(E_cuMemUnmap);
	struct range *range;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (size == 0 || !is_reserved_range(address, size) ||
	    cuts_mapping(address, size))
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	if (!address_clear(address, size))
		return gate_leave(CUDA_ERROR_OUT_OF_MEMORY);
	while ((range = tree_at_or_after(&sim.memory, address)) != NULL &&
	    range->start < address + size) {
		memory_check_unused(range, "unmapping");
		if (range_is_host(range))
			pages_spend(PAGES_UNMAP, range->size);
		range_free(range);
	}
	return gate_leave(CUDA_SUCCESS);
}

/* ---- access ------------------------------------------------------------- */

static CUresult
check_access(const CUmemAccessDesc *access, size_t n)
{
	if (access == NULL || n == 0)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		const CUmemLocation *location = &access[i].location;

		if (!is_host_location(location) &&
		    location->type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_NOT_SUPPORTED;
		if (store_of(location) == NULL)
			return CUDA_ERROR_INVALID_DEVICE;
		if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/* The bit of a location in a range's access rights. */
static uint32_t
bit_of(const CUmemLocation *location)
{
	return 1u << store_of(location)->ordinal;
}

static void
grant(struct range *range, const CUmemAccessDesc *access)
{
	uint32_t bit = bit_of(&access->location);

	range->can_read &= ~bit;
	range->can_write &= ~bit;
	if (access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		range->can_read |= bit;
	if (access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		range->can_write |= bit;
}

/* The simulator itself has every access right that any device has. */
static int
wanted_protection(const struct range *range)
{
	if (range->can_write != 0)
		return PROT_READ | PROT_WRITE;
	return range->can_read != 0 ? PROT_READ : PROT_NONE;
}

/* Does b continue a, in addresses, in the file, and in protection? */
static bool
continues(const struct range *a, const struct range *b)
{
	return b->start == a->start + a->size && b->phys->fd == a->phys->fd &&
	    b->phys->offset == a->phys->offset + a->phys->size &&
	    wanted_protection(b) == wanted_protection(a);
}

/* Map in as few pieces as possible, because the kernel allows 65530 for a
 * process. */
static bool
protect(uint64_t address, uint64_t end)
{
	while (address < end) {
		struct range *first = memory_find(address), *last = first;
		int protection = wanted_protection(first);
		size_t size;

		for (;;) {
			struct range *next;

			address = last->start + last->size;
			next = address < end ? memory_find(address) : NULL;
			if (next == NULL || !continues(last, next))
				break;
			last = next;
		}
		size = address - first->start;
		if (!phys_map(first->phys, size, first->start, protection))
			return false;
	}
	return true;
}

CUresult
cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
    size_t n_access)
{
	CUresult code = gate_enter(E_cuMemSetAccess);
	uint64_t at = address;

	if (code == CUDA_SUCCESS)
		code = check_access(access, n_access);
	if (code == CUDA_SUCCESS && whole_mappings(address, size) == NULL)
		code = CUDA_ERROR_INVALID_VALUE;
	/* Device memory has no access by the host. */
	for (size_t i = 0; code == CUDA_SUCCESS && i < n_access; i++)
		if (is_host_location(&access[i].location) &&
		    !range_is_host(memory_find(address)))
			code = CUDA_ERROR_NOT_SUPPORTED;
	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (range_is_host(memory_find(address)))
		pages_spend(PAGES_ACCESS, size);
	while (at < address + size) {
		struct range *range = memory_find(at);

		for (size_t i = 0; i < n_access; i++)
			grant(range, &access[i]);
		at += range->size;
	}
	if (!protect(address, address + size))
		code = CUDA_ERROR_OUT_OF_MEMORY;
	return gate_leave(code);
}

/* The driver names no access of memory that is not mapped by handles. */
static unsigned long long
access_of(const struct range *range, const CUmemLocation *location)
{
	uint32_t bit = bit_of(location);

	if (range->kind != RANGE_MAPPING)
		return CU_MEM_ACCESS_FLAGS_PROT_NONE;
	if ((range->can_write & bit) != 0)
		return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return (range->can_read & bit) != 0 ? CU_MEM_ACCESS_FLAGS_PROT_READ :
					      CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

CUresult
cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
    CUdeviceptr address)
{
	CUresult code = gate_enter(E_cuMemGetAccess);
	struct range *range = memory_find(address);

	if (code == CUDA_SUCCESS &&
	    (flags == NULL || location == NULL || range == NULL ||
		range_is_released(range)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS &&
	    ((!is_host_location(location) &&
		 location->type != CU_MEM_LOCATION_TYPE_DEVICE) ||
		store_of(location) == NULL))
		code = CUDA_ERROR_INVALID_VALUE;
	if (flags != NULL)
		*flags = code == CUDA_SUCCESS ? access_of(range, location) :
						CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return gate_leave(code);
}
