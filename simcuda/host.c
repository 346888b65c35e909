/*
 * Page-locked host memory, allocated by the driver or registered with it. The
 * device accesses it at the host's own address. Managed memory is host memory
 * that counts as device memory.
 */
#include <sys/mman.h>

#include "simcuda/sim.h"

enum { HOST_PAGE = 4096 };

/*
 * The time that calls take: as on a machine with H200s and driver 580, for one
 * device. SIMCUDA_CONF's host_percent scales it.
 */
static const struct {
	uint64_t ns, ns_a_mib;
} page_costs[] = {
	[PAGES_ALLOC] = { 300000, 500000 },
	[PAGES_FREE] = { 100000, 150000 },
	[PAGES_REGISTER] = { 20000, 30000 },
	[PAGES_UNREGISTER] = { 20000, 22000 },
	[PAGES_CREATE] = { 50000, 205000 },
	[PAGES_RELEASE] = { 20000, 20000 },
	[PAGES_ACCESS] = { 150000, 29000 },
	[PAGES_UNMAP] = { 100000, 23000 },
};

void
pages_spend(enum page_call call, size_t bytes)
{
	double mib = (double)bytes / (1 << 20);
	double ns = (double)page_costs[call].ns +
	    mib * (double)page_costs[call].ns_a_mib;

	time_spend((uint64_t)(ns * (double)conf.host_percent / 100));
}

static uint64_t
map_host(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? 0 : handle_bits(memory);
}

static CUresult
host_new(enum range_kind kind, size_t size, unsigned flags, struct range **out)
{
	uint64_t address;
	size_t mapped = (size + HOST_PAGE - 1) & ~(size_t)(HOST_PAGE - 1);

	if (size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (mapped < size || (kind == RANGE_HOST && mapped > machine_bytes()))
		return CUDA_ERROR_OUT_OF_MEMORY;
	address = map_host(mapped);
	if (address == 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = range_new(kind, address, size);
	(*out)->mapped_size = mapped;
	(*out)->flags = flags;
	range_own(*out, sim.here);
	return CUDA_SUCCESS;
}

static CUresult
host_alloc(void **address, size_t size, unsigned flags)
{
	const unsigned all = CU_MEMHOSTALLOC_PORTABLE |
	    CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
	struct range *range;
	CUresult code;

	if (address == NULL || (flags & ~all) != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (size == 0) {
		*address = NULL;
		return CUDA_SUCCESS;
	}
	code = host_new(RANGE_HOST, size, flags, &range);
	if (code != CUDA_SUCCESS)
		return code;
	pages_spend(PAGES_ALLOC, size);
	*address = handle_pointer(range->start);
	return CUDA_SUCCESS;
}

CUresult
cuMemHostAlloc(void **address, size_t size, unsigned int flags)
{
	CUresult code = gate_enter(E_cuMemHostAlloc);

	if (code == CUDA_SUCCESS)
		code = host_alloc(address, size, flags);
	return gate_leave(code);
}

CUresult
cuMemAllocHost_v2(void **address, size_t size)
{
	CUresult code = gate_enter(E_cuMemAllocHost_v2);

	if (code == CUDA_SUCCESS)
		code = host_alloc(address, size, 0);
	return gate_leave(code);
}

CUresult
cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned int flags)
{
	CUresult code = gate_enter(E_cuMemAllocManaged);
	struct range *range;

	if (code == CUDA_SUCCESS &&
	    (address == NULL ||
		(flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		code = host_new(RANGE_MANAGED, size, flags, &range);
	if (code == CUDA_SUCCESS)
		*address = range->start;
	return gate_leave(code);
}

/* Every context may use host memory. */
static void
wait_for_all_contexts(void)
{
	for (struct context *c = sim.contexts; c != NULL; c = c->next) {
		if (c->active && c->sticky == CUDA_SUCCESS)
			context_wait(c);
	}
}

/* Free the range of this kind that starts at the address. `missing` is the code
 * if the address is of no memory that the driver knows. */
static CUresult
host_end(void *address, enum range_kind kind, CUresult missing)
{
	struct range *range = memory_find(handle_bits(address));

	if (range == NULL)
		return missing;
	if (range->start != handle_bits(address) || range->kind != kind)
		return CUDA_ERROR_INVALID_VALUE;
	wait_for_all_contexts();
	/* Another thread may have freed it while this one waited. */
	if (memory_find(handle_bits(address)) != range)
		return missing;
	pages_spend(
	    kind == RANGE_HOST ? PAGES_FREE : PAGES_UNREGISTER, range->size);
	memory_free(range);
	return CUDA_SUCCESS;
}

CUresult
cuMemFreeHost(void *address)
{
	CUresult code = gate_enter(E_cuMemFreeHost);

	if (code == CUDA_SUCCESS && address != NULL)
		code = host_end(address, RANGE_HOST, CUDA_ERROR_INVALID_VALUE);
	return gate_leave(code);
}

CUresult
cuMemHostRegister_v2(void *address, size_t size, unsigned int flags)
{
	const unsigned all = CU_MEMHOSTREGISTER_PORTABLE |
	    CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY;
	CUresult code = gate_enter(E_cuMemHostRegister_v2);
	struct range *range;

	if (code != CUDA_SUCCESS)
		return gate_leave(code);
	if (address == NULL || size == 0 || (flags & ~all) != 0 ||
	    handle_bits(address) + size < size)
		return gate_leave(CUDA_ERROR_INVALID_VALUE);
	range = tree_at_or_after(&sim.memory, handle_bits(address));
	if (range != NULL && range->start < handle_bits(address) + size)
		return gate_leave(range_is_host(range) ?
			CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED :
			CUDA_ERROR_INVALID_VALUE);
	pages_spend(PAGES_REGISTER, size);
	range = range_new(RANGE_REGISTERED, handle_bits(address), size);
	range->flags = flags;
	range_own(range, sim.here);
	return gate_leave(CUDA_SUCCESS);
}

CUresult
cuMemHostUnregister(void *address)
{
	CUresult code = gate_enter(E_cuMemHostUnregister);

	if (code == CUDA_SUCCESS)
		code = host_end(address, RANGE_REGISTERED,
		    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	return gate_leave(code);
}

CUresult
cuMemHostGetDevicePointer_v2(
    CUdeviceptr *pointer, void *address, unsigned int flags)
{
	CUresult code = gate_enter(E_cuMemHostGetDevicePointer_v2);
	struct range *range = memory_find(handle_bits(address));

	if (code == CUDA_SUCCESS &&
	    (pointer == NULL || flags != 0 || range == NULL ||
		!range_is_host(range)))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*pointer = range->kind == RANGE_MAPPING ? range->start :
							  handle_bits(address);
	return gate_leave(code);
}

CUresult
cuMemHostGetFlags(unsigned int *flags, void *address)
{
	CUresult code = gate_enter(E_cuMemHostGetFlags);
	struct range *range = memory_find(handle_bits(address));

	if (code == CUDA_SUCCESS &&
	    (flags == NULL || range == NULL ||
		(range->kind != RANGE_HOST &&
		    (range->kind != RANGE_MAPPING || !range_is_host(range)))))
		code = CUDA_ERROR_INVALID_VALUE;
	if (code == CUDA_SUCCESS)
		*flags = CU_MEMHOSTALLOC_DEVICEMAP |
		    (range->kind == RANGE_MAPPING ? CU_MEMHOSTALLOC_PORTABLE :
						    range->flags);
	return gate_leave(code);
}
