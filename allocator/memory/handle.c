/*
 * Handles: physical memory mapped into expandable segments (invariant I-10).
 *
 * A handle is mapped whole, at offset 0, and unmapped whole. To give its memory
 * back, weir first releases its reference and then unmaps it. The driver keeps
 * the memory until the unmap, so after a failure between the two the memory is
 * still mapped and usable.
 */
#include "allocator/memory/handle.h"

#include <sched.h>

#include "allocator/account/totals.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/segment.h"
#include "allocator/memory/tuning.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"

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

struct handle *
handle_first_within(
    const struct segment *segment, CUdeviceptr addr, size_t size)
{
	struct handle *handle = handle_ceil(segment, addr);

	ASSERT(segment->expandable);
	while (handle != NULL && handle->addr + handle->size <= addr + size) {
		if (handle->pins == 0)
			return handle;
		handle = handle_of_node(tree_next(&handle->node));
	}
	return NULL;
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

	ASSERT(segment->expandable);
	if (last != NULL && last->addr + last->size > addr + size)
		last = handle_of_node(tree_prev(&last->node));
	if (first == NULL || last == NULL || last->addr < first->addr)
		return 0;
	if (segment->pins > 0)
		return largest_unpinned(first, last, start);
	*start = first->addr;
	return last->addr + last->size - first->addr;
}

size_t
handles_around(
    const struct segment *segment, CUdeviceptr addr, CUdeviceptr *start)
{
	struct handle *first = handle_floor(segment, addr);
	struct handle *other = first;

	if (first == NULL || first->addr + first->size <= addr)
		return 0;
	CUdeviceptr end = first->addr + first->size;
	while ((other = handle_of_node(tree_next(&other->node))) != NULL &&
	    other->addr == end)
		end += other->size;
	while ((other = handle_of_node(tree_prev(&first->node))) != NULL &&
	    other->addr + other->size == first->addr)
		first = other;
	*start = first->addr;
	return end - first->addr;
}

size_t
block_present_some(const struct block *block)
{
	const struct segment *segment = block->segment;
	CUdeviceptr end = block->addr + block->size;
	size_t present = 0;

	lock_assert_held(&block->arena->lock);
	if (!segment->expandable)
		return block->size;
	for (const struct handle *h = handle_floor(segment, block->addr);
	     h != NULL && h->addr < end;
	     h = handle_of_node(tree_next((struct tree_node *)&h->node))) {
		CUdeviceptr from =
		    h->addr > block->addr ? h->addr : block->addr;
		CUdeviceptr to = h->addr + h->size;
		if (!h->absent && from < (to < end ? to : end))
			present += (to < end ? to : end) - from;
	}
	return present;
}

/* The first handle of this segment of the list and those after it. */
static struct handle *
first_from(const struct arena *arena, const struct list *l)
{
	for (; l != &arena->memory.segments; l = l->next) {
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
	return first_from(arena, arena->memory.segments.next);
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
handle_size(const struct arena *arena, const struct options *options,
    size_t request, size_t missing)
{
	size_t usual = request / HANDLES_OF_REQUEST;
	size_t most = options->handle_max;

	ASSERT(missing > 0);
	most = min_size(most, usual > HANDLE_USUAL ? usual : HANDLE_USUAL);
	if (arena->traits.is_page_locked)
		most = min_size(most, HOST_HANDLE_MAX);
	if (options->prefer == PREFER_MEMORY)
		most = min_size(
		    most, policy_memory_spare(arena->policy.most_live));
	most = min_size(most, device_left(arena) / LEFT_SHARE);
	most = min_size(most, device_limit(arena) / HANDLES_LEAST);
	most = min_size(most, arena->account.total_bytes / HANDLES_OF_DEVICE);
	most = round_down(most, arena->memory.granularity);
	if (most < arena->memory.granularity)
		most = arena->memory.granularity;
	return missing < most ? missing : most;
}

/* The properties of an arena's handles, as the driver takes them. */
static CUmemAllocationProp
handle_prop(const struct arena *arena)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		    .id = arena->device },
	};

	if (arena->traits.is_page_locked)
		prop.location =
		    (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA,
			    .id = arena->memory.node };
	else
		prop.requestedHandleTypes =
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return prop;
}

enum weir_status
handle_create(struct handle *handle, const struct arena *arena)
{
	CUmemAllocationProp prop = handle_prop(arena);
	CUmemGenericAllocationHandle id;
	CUresult code = driver_peek()->cuMemCreate(&id, handle->size, &prop, 0);

	ASSERT(
	    handle->size > 0 && handle->size % arena->memory.granularity == 0);
	/* The node of the device may be full, or not be open to the process,
	 * as in a container, and another one may be. */
	if (code != CUDA_SUCCESS && arena->traits.is_page_locked) {
		prop.location =
		    (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
		code = driver_peek()->cuMemCreate(&id, handle->size, &prop, 0);
	}
	if (code == CUDA_SUCCESS)
		handle->id = id;
	return driver_status(code, "cuMemCreate(%zu bytes, %s %d)",
	    handle->size,
	    arena->traits.is_page_locked ? "host memory for device" : "device",
	    arena->device);
}

enum weir_status
handle_map(struct handle *handle)
{
	CUresult code =
	    driver_peek()->cuMemMap(handle->to, handle->size, 0, handle->id, 0);

	ASSERT(!handle->mapped && handle->id != 0);
	handle->mapped = code == CUDA_SUCCESS;
	return driver_status(code, "cuMemMap(%#llx, %zu bytes)",
	    (unsigned long long)handle->to, handle->size);
}

void
handle_unmap(struct handle *handle)
{
	ASSERT(handle->size > 0);
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
handle_drop_hold(CUmemGenericAllocationHandle id)
{
	if (driver_peek()->cuMemRelease(id) != CUDA_SUCCESS)
		driver_peek()->cuMemRelease(id);
}

void
addresses_drop_mapping(CUdeviceptr addr, size_t size)
{
	ASSERT(size > 0);
	if (driver_peek()->cuMemUnmap(addr, size) != CUDA_SUCCESS)
		driver_peek()->cuMemUnmap(addr, size);
}

void
addresses_drop(CUdeviceptr addr, size_t size)
{
	ASSERT(size > 0);
	if (driver_peek()->cuMemAddressFree(addr, size) != CUDA_SUCCESS)
		driver_peek()->cuMemAddressFree(addr, size);
}

void
handles_release_again(struct arena *arena)
{
	struct handle *handle = arena->memory.unreleased;

	lock_assert_held(&arena->lock);
	arena->memory.unreleased = NULL;
	while (handle != NULL) {
		struct handle *next = handle->next;
		handle_release(handle);
		if (handle->id == 0 || arena->memory.forgotten) {
			meta_free(handle, sizeof(*handle));
		} else {
			handle->next = arena->memory.unreleased;
			arena->memory.unreleased = handle;
		}
		handle = next;
	}
}

/* For each device, a bit for each other device that may use its memory. */
static _Atomic(uint64_t) peers[DEVICES_MAX][DEVICES_MAX / 64];
/* Held by a thread that changes them, until all mapped memory has followed. A
 * second thread that asks for an access must not find a bit that is cleared
 * later because of a failure. */
static struct lock peers_lock = LOCK_INITIALIZER(LOCK_RANK_PEERS);

static bool
is_peer(int device, int peer)
{
	return (atomic_load(&peers[device][peer / 64]) >> peer % 64 & 1) != 0;
}

static bool
is_user(const struct arena *arena, int peer)
{
	return arena != NULL &&
	    (atomic_load(&arena->memory.users[peer / 64]) >> peer % 64 & 1) !=
	    0;
}

/* List devices that may use the memory of a device, or of an arena of it, from
 * *next on; returns how many. */
static size_t
list_access(int device, const struct arena *arena, int *next,
    CUmemAccessDesc access[ACCESS_MAX])
{
	size_t n = 0;

	for (int i = *next; i < DEVICES_MAX && n < ACCESS_MAX; *next = ++i)
		if (i == device || is_peer(device, i) || is_user(arena, i))
			access[n++] = (CUmemAccessDesc){
				.location = { .type =
						  CU_MEM_LOCATION_TYPE_DEVICE,
				    .id = i },
				.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
			};
	return n;
}

/* List the host, in the first call, and devices from *next on; returns how
 * many. */
static size_t
list_host_access(int *next, CUmemAccessDesc access[ACCESS_MAX])
{
	size_t n = 0;

	if (*next == 0)
		access[n++] = (CUmemAccessDesc){
			.location = { .type = CU_MEM_LOCATION_TYPE_HOST },
			.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
		};
	for (; *next < driver_peek()->device_count && n < ACCESS_MAX; ++*next)
		access[n++] = (CUmemAccessDesc){
			.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
			    .id = *next },
			.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
		};
	return n;
}

static enum weir_status
open_host(CUdeviceptr addr, size_t size)
{
	CUmemAccessDesc access[ACCESS_MAX];
	CUresult code = CUDA_SUCCESS;
	size_t n;

	ASSERT(addr != 0 && size > 0);
	for (int next = 0;
	     code == CUDA_SUCCESS && (n = list_host_access(&next, access)) > 0;)
		code = driver_peek()->cuMemSetAccess(addr, size, access, n);
	return driver_status(code,
	    "cuMemSetAccess(%#llx, %zu bytes of host memory)",
	    (unsigned long long)addr, size);
}

static enum weir_status
open_mapped(
    int device, const struct arena *arena, CUdeviceptr addr, size_t size)
{
	CUmemAccessDesc access[ACCESS_MAX];
	CUresult code = CUDA_SUCCESS;
	size_t n;

	ASSERT(addr != 0 && size > 0);
	for (int next = 0; code == CUDA_SUCCESS &&
	     (n = list_access(device, arena, &next, access)) > 0;)
		code = driver_peek()->cuMemSetAccess(addr, size, access, n);
	return driver_status(code,
	    "cuMemSetAccess(%#llx, %zu bytes, device %d)",
	    (unsigned long long)addr, size, device);
}

enum weir_status
handles_open(int device, CUdeviceptr addr, size_t size)
{
	ASSERT(size > 0);
	return open_mapped(device, NULL, addr, size);
}

enum weir_status
handles_open_in(const struct arena *arena, CUdeviceptr addr, size_t size)
{
	ASSERT(size > 0);
	return arena->traits.is_page_locked ?
	    open_host(addr, size) :
	    open_mapped(arena->device, arena, addr, size);
}

enum weir_status
handles_set_peer(CUdeviceptr addr, size_t size, int peer, bool allow)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = peer },
		.flags = allow ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE :
				 CU_MEM_ACCESS_FLAGS_PROT_NONE,
	};
	CUresult code = driver_peek()->cuMemSetAccess(addr, size, &access, 1);

	ASSERT(peer >= 0 && size > 0);
	/* Nobody would try again to withdraw it. */
	if (code != CUDA_SUCCESS && !allow)
		code = driver_peek()->cuMemSetAccess(addr, size, &access, 1);
	return driver_status(code,
	    "cuMemSetAccess(%#llx, %zu bytes, device %d)",
	    (unsigned long long)addr, size, peer);
}

/* Allow a peer to use the mapped memory of an arena, or withdraw its access
 * from as much of it as possible. */
static enum weir_status
set_arena_peer(struct arena *arena, int peer, bool allow)
{
	enum weir_status status = WEIR_OK;

	ASSERT(peer >= 0 && peer < DEVICES_MAX);
	lock_enter(&arena->lock);
	/* Jobs that are mapping now may have read the old list. */
	while (arena->memory.jobs > 0) {
		lock_leave(&arena->lock);
		sched_yield();
		lock_enter(&arena->lock);
	}
	/* The memory of a suspended arena is opened when it is resumed. The
	 * handles that could not be unmapped still have their access. */
	bool there = !atomic_load(&arena->private.suspension.set) &&
	    !arena->traits.is_page_locked;
	for (struct handle *h = handles_first(arena);
	     h != NULL && (status == WEIR_OK || !allow); h = handles_next(h))
		if (there || h->mapped)
			status =
			    handles_set_peer(h->addr, h->size, peer, allow);
	lock_leave(&arena->lock);
	return status;
}

static enum weir_status (*_Atomic follower)(int device, int peer, bool allow);

void handles_follow_peers(
    enum weir_status (*follow)(int device, int peer, bool allow))
{
	atomic_store(&follower, follow);
}

/* Set a peer's bit, and then its access to all memory that is mapped already.
 * In this order, because memory that is mapped meanwhile gets its access from
 * one of the two. */
static enum weir_status
set_peer(int device, int peer, bool allow)
{
	uint64_t bit = (uint64_t)1 << peer % 64;
	enum weir_status status = WEIR_OK;

	ASSERT(device != peer);
	if (allow)
		atomic_fetch_or(&peers[device][peer / 64], bit);
	else
		atomic_fetch_and(&peers[device][peer / 64], ~bit);
	for (struct arena *a = arena_peek(device);
	     a != NULL && (status == WEIR_OK || !allow); a = arena_next(a))
		status = set_arena_peer(a, peer, allow);
	enum weir_status (*follow)(int, int, bool) = atomic_load(&follower);
	if (follow != NULL && (status == WEIR_OK || !allow))
		status = follow(device, peer, allow);
	return status;
}

static enum weir_status
check_peers(int device, int peer)
{
	int can = 0;
	enum weir_status status = device_resolve(device, &device);
	if (status == WEIR_OK)
		status = device_resolve(peer, &peer);
	if (status != WEIR_OK || device == peer)
		return status;
	status = driver_status(
	    driver_peek()->cuDeviceCanAccessPeer(&can, peer, device),
	    "cuDeviceCanAccessPeer(%d, %d)", peer, device);
	if (status == WEIR_OK && can == 0)
		status = status_set(WEIR_ENOTSUP,
		    "weir_peer_access: device %d cannot reach the memory of "
		    "device %d",
		    peer, device);
	return status;
}

enum weir_status
weir_peer_access(int device, int peer)
{
	if (os_forked())
		return status_forked("weir_peer_access");
	if (device < 0 || peer < 0)
		return status_set(WEIR_ENODEVICE,
		    "weir_peer_access(%d, %d): no such device", device, peer);
	enum weir_status status = check_peers(device, peer);
	if (status != WEIR_OK || device == peer)
		return status;
	lock_enter(&peers_lock);
	if (!is_peer(device, peer)) {
		status = set_peer(device, peer, true);
		if (status != WEIR_OK) {
			status_mute();
			(void)set_peer(device, peer, false);
			status_unmute();
		}
	}
	lock_leave(&peers_lock);
	return status;
}

/* ---- Into and out of segments ------------------------------------------ */

void
handle_insert(struct segment *segment, struct handle *handle)
{
	lock_assert_held(&segment->arena->lock);
	ASSERT(segment->expandable && handle->size > 0);
	ASSERT(handle->to >= segment->addr &&
	    handle->to - segment->addr <= segment->size - handle->size);
	handle->segment = segment;
	handle->addr = handle->to;
	handle->idle.place = handle->to;
	handle->idle.end = handle->to + handle->size;
	handle->mapped = false;
	tree_insert(&segment->handles, &handle->node);
	segment->mapped_bytes += handle->size;
}

void
handle_remove(struct handle *handle)
{
	lock_assert_held(&handle->segment->arena->lock);
	ASSERT(handle->segment != NULL &&
	    handle->segment->mapped_bytes >= handle->size);
	ASSERT(handle->idle.block == NULL);
	tree_remove(&handle->segment->handles, &handle->node);
	handle->segment->mapped_bytes -= handle->size;
	handle->segment = NULL;
}

struct handle *
handles_take(struct segment *segment, CUdeviceptr addr, size_t size)
{
	struct handle *taken = NULL;
	struct handle *handle;

	lock_assert_held(&segment->arena->lock);
	ASSERT(addr >= segment->addr &&
	    addr + size <= segment->addr + segment->size);
	while ((handle = handle_ceil(segment, addr)) != NULL &&
	    handle->addr < addr + size) {
		lock_assert_held(&handle->segment->arena->lock);
		handle_remove(handle);
		handle->to = handle->addr;
		handle->next = taken;
		taken = handle;
	}
	return taken;
}

enum weir_status
allocator_open_arena(struct arena *arena, int peer)
{
	uint64_t bit = (uint64_t)1 << peer % 64;
	enum weir_status status = check_peers(arena->device, peer);
	if (status != WEIR_OK || arena->device == peer)
		return status;
	lock_enter(&peers_lock);
	if (!is_peer(arena->device, peer) && !is_user(arena, peer)) {
		atomic_fetch_or(&arena->memory.users[peer / 64], bit);
		status = set_arena_peer(arena, peer, true);
		if (status != WEIR_OK) {
			atomic_fetch_and(&arena->memory.users[peer / 64], ~bit);
			status_mute();
			(void)set_arena_peer(arena, peer, false);
			status_unmute();
		}
	}
	lock_leave(&peers_lock);
	return status;
}
