/*
 * Handles: physical memory mapped into expandable segments (invariant I-10).
 *
 * A handle maps whole, at offset 0, and is unmapped whole. Its reference is
 * released before it is unmapped: the driver keeps the memory until then, so
 * a failure between the two leaves memory that is mapped and usable, not lost.
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

/* Physical memory of one handle, mapped at addr but not accessible yet. */
static enum weir_status
map_one(
    struct segment *segment, CUdeviceptr addr, size_t size, struct handle **out)
{
	const struct driver *driver = driver_peek();
	int device = segment->arena->device;
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .id = device },
	};
	struct handle *handle = meta_zalloc(sizeof(*handle));
	if (handle == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for a handle");
	handle->addr = addr;
	handle->size = size;
	CUresult code = driver->cuMemCreate(&handle->id, size, &prop, 0);
	enum weir_status status = driver_status(
	    code, "cuMemCreate(%zu bytes, device %d)", size, device);
	if (status != WEIR_OK)
		goto drop_metadata;
	code = driver->cuMemMap(addr, size, 0, handle->id, 0);
	status = driver_status(
	    code, "cuMemMap(%#llx, %zu bytes)", (unsigned long long)addr, size);
	if (status != WEIR_OK)
		goto drop_memory;
	*out = handle;
	return WEIR_OK;

drop_memory:
	driver->cuMemRelease(handle->id);
drop_metadata:
	meta_free(handle, sizeof(*handle));
	return status;
}

static void
unmap_fresh(struct handle *handles)
{
	while (handles != NULL) {
		struct handle *next = handles->next;
		driver_peek()->cuMemUnmap(handles->addr, handles->size);
		driver_peek()->cuMemRelease(handles->id);
		meta_free(handles, sizeof(*handles));
		handles = next;
	}
}

static enum weir_status
make_accessible(const struct segment *segment, CUdeviceptr addr, size_t size)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .id = segment->arena->device },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	return driver_status(
	    driver_peek()->cuMemSetAccess(addr, size, &access, 1),
	    "cuMemSetAccess(%#llx, %zu bytes, device %d)",
	    (unsigned long long)addr, size, segment->arena->device);
}

enum weir_status
handles_map(struct segment *segment, CUdeviceptr addr, size_t size)
{
	struct handle *fresh = NULL;
	enum weir_status status = WEIR_OK;

	for (size_t at = 0; at < size && status == WEIR_OK;) {
		size_t part = size - at < HANDLE_MAX ? size - at : HANDLE_MAX;
		struct handle *handle = NULL;
		status = map_one(segment, addr + at, part, &handle);
		if (status == WEIR_OK) {
			handle->next = fresh;
			fresh = handle;
			at += part;
		}
	}
	if (status == WEIR_OK)
		status = make_accessible(segment, addr, size);
	if (status != WEIR_OK) {
		unmap_fresh(fresh);
		return status;
	}
	while (fresh != NULL) {
		struct handle *next = fresh->next;
		fresh->next = NULL;
		tree_insert(&segment->handles, &fresh->node);
		segment->arena->stats.num_device_alloc++;
		fresh = next;
	}
	segment->mapped_bytes += size;
	return WEIR_OK;
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
	*start = first->addr;
	return last->addr + last->size - first->addr;
}

/* Give up the references of the handles in a range; false at the first that
 * the driver keeps. A zero id is one given up before. */
static bool
release_references(struct segment *segment, CUdeviceptr addr, size_t size)
{
	for (struct handle *h = handle_ceil(segment, addr);
	     h != NULL && h->addr < addr + size;
	     h = handle_of_node(tree_next(&h->node))) {
		if (h->id != 0 &&
		    driver_peek()->cuMemRelease(h->id) != CUDA_SUCCESS)
			return false;
		h->id = 0;
	}
	return true;
}

bool
handles_unmap(struct segment *segment, CUdeviceptr addr, size_t size)
{
	struct handle *handle;

	if (!release_references(segment, addr, size))
		return false;
	if (driver_peek()->cuMemUnmap(addr, size) != CUDA_SUCCESS)
		return false;
	while ((handle = handle_ceil(segment, addr)) != NULL &&
	    handle->addr < addr + size) {
		tree_remove(&segment->handles, &handle->node);
		meta_free(handle, sizeof(*handle));
		segment->arena->stats.num_device_free++;
	}
	segment->mapped_bytes -= size;
	return true;
}
