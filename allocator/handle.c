/*
 * Handles: physical memory mapped into expandable segments (invariant I-10).
 *
 * A handle maps whole, at offset 0, and is unmapped whole. When its memory goes
 * back its reference is released before it is unmapped: the driver keeps the
 * memory until then, so a failure between the two leaves memory that is mapped
 * and usable, not lost.
 */
#include "allocator/segment.h"
#include "base/meta.h"
#include "base/status.h"

int
compare_handles(const struct tree_node *a, const struct tree_node *b)
{
	CUdeviceptr x = CONTAINER_OF(a, struct handle, node)->addr;
	CUdeviceptr y = CONTAINER_OF(b, struct handle, node)->addr;

	return (x > y) - (x < y);
}

static struct handle *
handle_of_node(struct tree_node *node)
{
	return node != NULL ? CONTAINER_OF(node, struct handle, node) : NULL;
}

/* The first handle at or above addr. */
static struct handle *
handle_ceil(const struct segment *segment, CUdeviceptr addr)
{
	struct handle key = { .addr = addr };

	return handle_of_node(tree_lower_bound(&segment->handles, &key.node));
}

struct handle *
handle_floor(const struct segment *segment, CUdeviceptr addr)
{
	struct handle *above = handle_ceil(segment, addr);

	if (above != NULL && above->addr == addr)
		return above;
	return handle_of_node(above != NULL ? tree_prev(&above->node) :
					      tree_last(&segment->handles));
}

/* The largest run of handles from `first` to `last` without a pin. */
static size_t
largest_unpinned(
    const struct handle *first, const struct handle *last, CUdeviceptr *start)
{
	const struct handle *handle = first;
	size_t largest = 0;
	size_t size = 0;

	for (;;) {
		size = handle->pins == 0 ? size + handle->size : 0;
		if (size > largest) {
			largest = size;
			*start = handle->addr + handle->size - size;
		}
		if (handle == last)
			return largest;
		handle = handle_of_node(
		    tree_next((struct tree_node *)&handle->node));
	}
}

size_t
handles_within(const struct segment *segment, CUdeviceptr addr, size_t size,
    CUdeviceptr *start)
{
	struct handle *first = handle_ceil(segment, addr);
	struct handle *last = handle_floor(segment, addr + size - 1);

	if (last != NULL && last->addr + last->size > addr + size)
		last = handle_of_node(tree_prev(&last->node));
	if (first == NULL || last == NULL || last->addr < first->addr)
		return 0;
	if (segment->pins > 0)
		return largest_unpinned(first, last, start);
	*start = first->addr;
	return last->addr + last->size - first->addr;
}

/* The first handle of the segments from a link on. */
static struct handle *
first_from(const struct arena *arena, const struct list *l)
{
	for (; l != &arena->segments; l = l->next) {
		const struct segment *segment =
		    CONTAINER_OF(l, struct segment, link);
		struct handle *handle =
		    handle_of_node(tree_first(&segment->handles));
		if (handle != NULL)
			return handle;
	}
	return NULL;
}

struct handle *
handles_first(const struct arena *arena)
{
	return first_from(arena, arena->segments.next);
}

struct handle *
handles_next(const struct handle *handle)
{
	struct handle *next = handle_of_node(tree_next(&handle->node));

	return next != NULL ?
	    next :
	    first_from(handle->segment->arena, handle->segment->link.next);
}

/* ---- Calls to the driver ----------------------------------------------- */

size_t
handle_size(
    const struct arena *arena, const struct options *options, size_t missing)
{
	size_t most = options->handle_max;

	if (arena->streams < 2)
		most /= HANDLE_ALONE_SHARE;
	if (options->prefer == PREFER_MEMORY)
		most = min_size(most, arena->most_live / MEMORY_SHARE);
	most = min_size(most, device_left(arena) / LEFT_SHARE);
	most = min_size(most, device_size(arena) / HANDLES_LEAST);
	most = round_down(most, arena->granularity);
	if (most < arena->granularity)
		most = arena->granularity;
	return missing < most ? missing : most;
}

enum weir_status
handle_create(struct handle *handle, int device)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .id = device },
	};
	CUmemGenericAllocationHandle id;
	CUresult code = driver_peek()->cuMemCreate(&id, handle->size, &prop, 0);

	if (code == CUDA_SUCCESS)
		handle->id = id;
	return driver_status(
	    code, "cuMemCreate(%zu bytes, device %d)", handle->size, device);
}

enum weir_status
handle_map(struct handle *handle)
{
	CUresult code =
	    driver_peek()->cuMemMap(handle->to, handle->size, 0, handle->id, 0);

	handle->mapped = code == CUDA_SUCCESS;
	return driver_status(code, "cuMemMap(%#llx, %zu bytes)",
	    (unsigned long long)handle->to, handle->size);
}

void
handle_unmap(struct handle *handle)
{
	if (handle->mapped &&
	    driver_peek()->cuMemUnmap(handle->to, handle->size) == CUDA_SUCCESS)
		handle->mapped = false;
}

void
handle_release(struct handle *handle)
{
	if (handle->id != 0 &&
	    driver_peek()->cuMemRelease(handle->id) == CUDA_SUCCESS)
		handle->id = 0;
}

void
handles_release_again(struct arena *arena)
{
	struct handle *handle = arena->unreleased;

	arena->unreleased = NULL;
	while (handle != NULL) {
		struct handle *next = handle->next;
		handle_release(handle);
		if (handle->id == 0 || arena->forgotten) {
			meta_free(handle, sizeof(*handle));
		} else {
			handle->next = arena->unreleased;
			arena->unreleased = handle;
		}
		handle = next;
	}
}

enum weir_status
handles_open(int device, CUdeviceptr addr, size_t size)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .id = device },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	return driver_status(
	    driver_peek()->cuMemSetAccess(addr, size, &access, 1),
	    "cuMemSetAccess(%#llx, %zu bytes, device %d)",
	    (unsigned long long)addr, size, device);
}

/* ---- Into and out of segments ------------------------------------------ */

void
handle_insert(struct segment *segment, struct handle *handle)
{
	handle->segment = segment;
	handle->addr = handle->to;
	handle->mapped = false;
	tree_insert(&segment->handles, &handle->node);
	segment->mapped_bytes += handle->size;
}

void
handle_remove(struct handle *handle)
{
	tree_remove(&handle->segment->handles, &handle->node);
	handle->segment->mapped_bytes -= handle->size;
	handle->segment = NULL;
}

struct handle *
handles_take(struct segment *segment, CUdeviceptr addr, size_t size)
{
	struct handle *taken = NULL;
	struct handle *handle;

	while ((handle = handle_ceil(segment, addr)) != NULL &&
	    handle->addr < addr + size) {
		handle_remove(handle);
		handle->to = handle->addr;
		handle->next = taken;
		taken = handle;
	}
	return taken;
}
