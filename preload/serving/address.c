/*
 * Questions about pointers. Each allocation must look like one of the driver's,
 * although it is a part of a larger range of the driver.
 */
#include <stdatomic.h>

#include "allocator/allocator.h"
#include "base/meta.h"
#include "driver/driver.h"
#include "preload/ends.h"
#include "preload/lock.h"
#include "preload/serving/opened.h"
#include "preload/tuning.h"

/* The rest of the size class does not belong to the allocation. */
enum memory_owner
address_find(CUdeviceptr ptr, struct place *out)
{
	struct weir_block_info info = { .struct_size = sizeof(info) };
	bool ours;
	bool live;

	if (!gate_started())
		return OTHERS;
	gate_enter_weir();
	live = weir_block_info((void *)(uintptr_t)ptr, &info) == WEIR_OK;
	ours = live || allocator_owns(ptr);
	gate_leave_weir();
	if (!ours)
		return OTHERS;
	if (!live ||
	    ptr - (CUdeviceptr)(uintptr_t)info.address >= info.requested_bytes)
		return UNUSED;
	*out = (struct place){
		.base = (CUdeviceptr)(uintptr_t)info.address,
		.size = info.requested_bytes,
		.device = info.device,
		.ordered = info.stream != WEIR_STREAM_ANY,
		.mapped = info.expandable,
		.segment = (CUdeviceptr)(uintptr_t)info.segment,
	};
	return LIVE;
}

bool
address_is_of_weir(CUdeviceptr ptr)
{
	struct place place;

	return address_find(ptr, &place) != OTHERS;
}

/* address_find(), which also finds memory of other processes that is open here.
 */
static enum memory_owner
find_anywhere(CUdeviceptr ptr, struct place *out)
{
	enum memory_owner owner = address_find(ptr, out);

	return owner == OTHERS && opened_find(ptr, out) ? LIVE : owner;
}

/* The driver is asked in any case, because it refuses the call without a
 * context. */
CUresult
cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr ptr)
{
	struct place place = { 0 };
	CUdeviceptr range;
	size_t range_size;
	enum memory_owner owner;
	CUresult code;

	report_call(HOOK_cuMemGetAddressRange_v2);
	owner = find_anywhere(ptr, &place);
	if (owner == OTHERS)
		return REAL(cuMemGetAddressRange_v2)(base, size, ptr);
	code = REAL(cuMemGetAddressRange_v2)(&range, &range_size, ptr);
	if (code == CUDA_SUCCESS && owner == UNUSED)
		code = CUDA_ERROR_NOT_FOUND;
	if (code == CUDA_SUCCESS)
		report_served(HOOK_cuMemGetAddressRange_v2, CUDA_SUCCESS);
	else if (code != CUDA_ERROR_NOT_FOUND)
		return code;
	/* The driver writes zeros for memory that is not there. */
	if (base != NULL)
		*base = place.base;
	if (size != NULL)
		*size = place.size;
	return code;
}

/* ---- Identities -------------------------------------------------------- */

/*
 * Each allocation has a number that no other allocation has had: programs
 * identify memory by it. The driver's number belongs to the range that contains
 * the allocation. So an allocation gets a number here when the program first
 * asks for it, until its free.
 */
struct identity {
	struct identity *next;
	CUdeviceptr base;
	size_t size;
	int device;
	bool sync; /* SYNC_MEMOPS, as the program set it */
	uint64_t id;
};

/* The driver's own numbers are much lower. */
static const uint64_t first_id = (uint64_t)1 << 62;

static struct lock identity_lock = LOCK_INITIALIZER(LOCK_RANK_TABLE);
static struct identity *identities[IDENTITY_BUCKETS];
atomic_size_t address_identities; /* number of identities */

static struct identity **
identity_at(CUdeviceptr base) HOLDS(identity_lock)
{
	struct identity **at =
	    &identities[base / WEIR_GRANULE % IDENTITY_BUCKETS];

	while (*at != NULL && (*at)->base != base)
		at = &(*at)->next;
	return at;
}

/* The identity of an allocation, made if need be; NULL if there is no memory
 * for it. */
static struct identity *
identity_get(const struct place *place) HOLDS(identity_lock)
{
	static uint64_t given;
	struct identity **at = identity_at(place->base);

	if (*at != NULL)
		return *at;
	*at = meta_alloc(sizeof(**at));
	if (*at == NULL)
		return NULL;
	**at = (struct identity){ .base = place->base,
		.size = place->size,
		.device = place->device,
		.id = first_id + given++ };
	atomic_fetch_add(&address_identities, 1);
	return *at;
}

/* The number of an allocation; `of_range` if there is no memory to store one.
 */
static uint64_t
identity_of(const struct place *place, uint64_t of_range)
{
	struct identity *identity;
	uint64_t id;

	preload_lock(&identity_lock);
	identity = identity_get(place);
	id = identity != NULL ? identity->id : of_range;
	preload_unlock(&identity_lock);
	return id;
}

/* ---- Synchronous operations -------------------------------------------- */

/*
 * SYNC_MEMOPS makes copies and fills of an allocation synchronous. The driver
 * keeps it for a whole range, so neighbours become synchronous, too, which does
 * no harm. The program learns what it has set for the allocation, and the
 * ranges lose it when no live allocation in them has it.
 */

static bool
sync_is_set(const struct place *place)
{
	struct identity *identity;
	bool set;

	preload_lock(&identity_lock);
	identity = *identity_at(place->base);
	set = identity != NULL && identity->sync;
	preload_unlock(&identity_lock);
	return set;
}

static bool
sync_note(const struct place *place, bool set)
{
	struct identity *identity;

	preload_lock(&identity_lock);
	identity = set ? identity_get(place) : *identity_at(place->base);
	if (identity != NULL)
		identity->sync = set;
	preload_unlock(&identity_lock);
	return identity != NULL || !set;
}

/* Does a live allocation with the attribute lie in these addresses? */
static bool
sync_is_needed(CUdeviceptr start, size_t size)
{
	bool needed = false;

	preload_lock(&identity_lock);
	for (int i = 0; i < IDENTITY_BUCKETS && !needed; i++)
		for (struct identity *d = identities[i]; d != NULL; d = d->next)
			needed |= d->sync && d->base < start + size &&
			    start < d->base + d->size;
	preload_unlock(&identity_lock);
	return needed;
}

/* Set the attribute of all the driver's ranges under an allocation; or take it
 * back where no allocation needs it. */
static CUresult
sync_set_ranges(CUdeviceptr base, size_t length, bool set)
{
	CUresult code = CUDA_SUCCESS;
	CUdeviceptr start;
	size_t size;

	for (CUdeviceptr at = base; at < base + length && code == CUDA_SUCCESS;
	     at = start + size) {
		int value = set;

		code = REAL(cuMemGetAddressRange_v2)(&start, &size, at);
		if (code == CUDA_SUCCESS &&
		    (set || !sync_is_needed(start, size)))
			code = REAL(cuPointerSetAttribute)(
			    &value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at);
	}
	return code;
}

static CUresult
sync_set(const struct place *place, bool set)
{
	CUresult code;

	if (!set)
		(void)sync_note(place, false);
	code = sync_set_ranges(place->base, place->size, set);
	if (set && code == CUDA_SUCCESS && !sync_note(place, true))
		code = CUDA_ERROR_OUT_OF_MEMORY;
	return code;
}

void
address_forget_identity(CUdeviceptr base)
{
	struct identity *identity;
	struct identity **at;

	preload_lock(&identity_lock);
	at = identity_at(base);
	identity = *at;
	if (identity != NULL) {
		*at = identity->next;
		atomic_fetch_sub(&address_identities, 1);
	}
	preload_unlock(&identity_lock);
	if (identity == NULL)
		return;
	if (identity->sync)
		(void)sync_set_ranges(identity->base, identity->size, false);
	meta_free(identity, sizeof(*identity));
}

void
address_device_ends(int device)
{
	preload_lock(&identity_lock);
	for (int i = 0; i < IDENTITY_BUCKETS; i++) {
		struct identity **at = &identities[i];

		while (*at != NULL) {
			struct identity *identity = *at;

			if (identity->device != device) {
				at = &identity->next;
				continue;
			}
			*at = identity->next;
			atomic_fetch_sub(&address_identities, 1);
			meta_free(identity, sizeof(*identity));
		}
	}
	preload_unlock(&identity_lock);
}

/* ---- Attributes -------------------------------------------------------- */

/* Mapped memory of no stream is page-locked. The driver's own belongs to the
 * context and device that it was allocated in. */
static void
correct_host(int attribute, void *data, const struct place *place)
{
	if (!place->mapped)
		return;
	if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
		*(CUcontext *)data = driver_context_peek(place->device);
	else if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
		*(int *)data = place->device;
}

/* Replace an attribute of the driver's range by the allocation's. */
static void
correct(int attribute, void *data, const struct place *place)
{
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = place->base;
		return;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = place->size;
		return;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		if (place->device >= 0)
			*(bool *)data = sync_is_set(place);
		return;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		if (place->device >= 0)
			*(uint64_t *)data =
			    identity_of(place, *(uint64_t *)data);
		return;
	default:
		break;
	}
	if (!place->ordered) {
		correct_host(attribute, data, place);
		return;
	}
	if (attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE)
		*(CUmemoryPool *)data =
		    mempool_handle_of(place->base, place->device);
	else if (attribute == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)
		*(uint64_t *)data = CU_MEM_HANDLE_TYPE_NONE;
	else if (attribute == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)
		*(bool *)data = false;
	else if (attribute == CU_POINTER_ATTRIBUTE_CONTEXT)
		*(CUcontext *)data = NULL;
}

CUresult
cuPointerGetAttribute(
    void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct place place;
	enum memory_owner owner;
	CUresult code;

	report_call(HOOK_cuPointerGetAttribute);
	owner = find_anywhere(ptr, &place);
	if (owner == UNUSED)
		return CUDA_ERROR_INVALID_VALUE;
	code = REAL(cuPointerGetAttribute)(data, attribute, ptr);
	if (code == CUDA_SUCCESS && owner == LIVE) {
		report_served(HOOK_cuPointerGetAttribute, code);
		correct(attribute, data, &place);
	}
	return code;
}

/* For an address that is no memory, this call returns success and empty
 * attributes. Asking about address 0 gives that answer. */
CUresult
cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes,
    void **data, CUdeviceptr ptr)
{
	struct place place;
	enum memory_owner owner;
	CUresult code;

	report_call(HOOK_cuPointerGetAttributes);
	owner = find_anywhere(ptr, &place);
	code = REAL(cuPointerGetAttributes)(
	    count, attributes, data, owner == UNUSED ? 0 : ptr);
	if (code == CUDA_SUCCESS && owner == LIVE) {
		report_served(HOOK_cuPointerGetAttributes, code);
		for (unsigned i = 0; i < count; i++)
			correct(attributes[i], data[i], &place);
	}
	return code;
}

CUresult
cuPointerSetAttribute(
    const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct place place;

	report_call(HOOK_cuPointerSetAttribute);
	switch (address_find(ptr, &place)) {
	case UNUSED:
		return CUDA_ERROR_INVALID_VALUE;
	case LIVE:
		break;
	default:
		return REAL(cuPointerSetAttribute)(value, attribute, ptr);
	}
	if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return REAL(cuPointerSetAttribute)(value, attribute, ptr);
	return sync_set(&place, *(const unsigned char *)value != 0);
}
