/*
 * The program's own handles of memory: cuMemCreate() and the calls on them.
 *
 * Memory of a handle lives while any handle or any mapping of it does, whatever
 * the order in which the program gives them back. So the count follows both:
 *
 *	cuMemCreate, import  memory, with one handle
 *	retain               one handle more, by an address that is mapped
 *	cuMemMap             one mapping more
 *	cuMemUnmap           fewer mappings: those in the range
 *	cuMemRelease         one handle less
 *
 * When neither is left, the driver has the memory back. A call that may end
 * memory holds a lock across the driver's call, so that a handle or an address
 * which the driver gives out again is entered after the old one is gone.
 *
 * An imported handle has no size. Its first mapping has it.
 */

#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"
#include "preload/lock.h"
#include "preload/serving/outside.h"
#include "preload/tuning.h"

/* Memory behind handles. */
struct handle_memory {
	int device;
	enum outside_kind kind;
	size_t bytes;
	size_t names; /* keys below: handles and mappings */
};

/* A handle, or the address of a mapping, that the memory lives by. */
struct handle_key {
	struct handle_key *next;
	struct handle_memory *memory;
	uint64_t name;
	size_t size;  /* of a mapping */
	size_t times; /* that the handle must be released */
};

enum { BY_HANDLE, BY_ADDRESS, KEY_TABLES };

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HOOK);
static struct handle_key *keys[KEY_TABLES][OUTSIDE_BUCKETS];
static atomic_size_t n_keys;

/* ---- The tables --------------------------------------------------------- */

static struct handle_key **
key_place(int table, uint64_t name) HOLDS(lock)
{
	struct handle_key **at =
	    &keys[table][hash_bucket_of(name, OUTSIDE_BUCKETS)];

	while (*at != NULL && (*at)->name != name)
		at = &(*at)->next;
	return at;
}

/* Is there any memory that a call might change the count of? */
static bool
any_keys(void)
{
	return atomic_load_explicit(&n_keys, memory_order_relaxed) > 0 &&
	    gate_admits();
}

static void
remove_key(struct handle_key **at) HOLDS(lock)
{
	struct handle_key *key = *at;
	struct handle_memory *memory = key->memory;

	*at = key->next;
	meta_free(key, sizeof(*key));
	atomic_fetch_sub(&n_keys, 1);
	if (--memory->names > 0)
		return;
	outside_release(memory->device, memory->kind, memory->bytes);
	meta_free(memory, sizeof(*memory));
}

/* Name the memory by a key that was made before. A key of this name is left
 * from memory whose end weir has not seen. */
static void
insert_key(int table, struct handle_key *key) HOLDS(lock)
{
	struct handle_key **at = key_place(table, key->name);

	key->memory->names++;
	if (*at != NULL)
		remove_key(at);
	at = key_place(table, key->name);
	key->next = *at;
	*at = key;
	atomic_fetch_add(&n_keys, 1);
}

/* ---- Handles that are made ---------------------------------------------- */

/* A new handle's count; both NULL: it has none. */
struct fresh {
	struct handle_memory *memory;
	struct handle_key *key;
};

static bool
make_fresh(struct fresh *fresh)
{
	fresh->memory = meta_zalloc(sizeof(*fresh->memory));
	fresh->key = meta_zalloc(sizeof(*fresh->key));
	if (fresh->memory != NULL && fresh->key != NULL)
		return true;
	if (fresh->memory != NULL)
		meta_free(fresh->memory, sizeof(*fresh->memory));
	if (fresh->key != NULL)
		meta_free(fresh->key, sizeof(*fresh->key));
	fresh->memory = NULL;
	fresh->key = NULL;
	return false;
}

static void
drop_fresh(struct fresh *fresh)
{
	meta_free(fresh->memory, sizeof(*fresh->memory));
	meta_free(fresh->key, sizeof(*fresh->key));
}

/* The driver has made a handle of this memory, which counts already. */
static void
name_fresh(struct fresh *fresh, CUmemGenericAllocationHandle handle,
    const struct handle_memory *memory)
{
	*fresh->memory = *memory;
	*fresh->key = (struct handle_key){
		.memory = fresh->memory, .name = handle, .times = 1
	};
	preload_lock(&lock);
	insert_key(BY_HANDLE, fresh->key);
	preload_unlock(&lock);
}

static bool
is_on_device(const CUmemLocation *location)
{
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
	    location->id >= 0 && location->id < PRELOAD_DEVICES;
}

static CUresult
create_twice(CUmemGenericAllocationHandle *handle, size_t bytes,
    const CUmemAllocationProp *wanted, unsigned long long flags)
{
	CUresult code = REAL(cuMemCreate)(handle, bytes, wanted, flags);

	if (code == CUDA_ERROR_OUT_OF_MEMORY &&
	    is_on_device(&wanted->location) &&
	    outside_make_room(wanted->location.id))
		code = REAL(cuMemCreate)(handle, bytes, wanted, flags);
	return code;
}

CUresult
cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
    const CUmemAllocationProp *wanted, unsigned long long flags)
{
	struct handle_memory memory = { .kind = OUTSIDE_handles,
		.bytes = bytes };
	struct fresh fresh;
	CUresult code;

	report_call(HOOK_cuMemCreate);
	if (wanted == NULL || handle == NULL || bytes > WEIR_SIZE_MAX ||
	    !is_on_device(&wanted->location) || !gate_admits() ||
	    !make_fresh(&fresh))
		return REAL(cuMemCreate)(handle, bytes, wanted, flags);
	memory.device = wanted->location.id;
	if (!outside_reserve(
		memory.device, memory.kind, bytes, "cuMemCreate")) {
		drop_fresh(&fresh);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	code = create_twice(handle, bytes, wanted, flags);
	if (code == CUDA_SUCCESS) {
		outside_keep(memory.device, memory.kind, bytes);
		name_fresh(&fresh, *handle, &memory);
		return code;
	}
	outside_drop(memory.device, memory.kind, bytes);
	drop_fresh(&fresh);
	return code;
}

/* The device of a handle's memory. */
static bool
ask_device(CUmemGenericAllocationHandle handle, int *device)
{
	CUmemAllocationProp prop;
	CUresult (*ask)(CUmemAllocationProp *, CUmemGenericAllocationHandle);
	void *found = gate_admits() ?
	    real_find("cuMemGetAllocationPropertiesFromHandle") :
	    NULL;

	if (found == NULL)
		return false;
	ask = (CUresult(*)(
	    CUmemAllocationProp *, CUmemGenericAllocationHandle))found;
	if (ask(&prop, handle) != CUDA_SUCCESS || !is_on_device(&prop.location))
		return false;
	*device = prop.location.id;
	return true;
}

/* The driver may give the program the handle that it has already: it is one
 * more of that memory. */
static bool
is_known_handle(CUmemGenericAllocationHandle handle)
{
	struct handle_key *known;

	preload_lock(&lock);
	known = *key_place(BY_HANDLE, handle);
	if (known != NULL)
		known->times++;
	preload_unlock(&lock);
	return known != NULL;
}

/* Memory of another process, or of this one that the program has exported: who
 * made it counts it in a limit. */
CUresult
cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
    void *shareable, CUmemAllocationHandleType type)
{
	struct handle_memory memory = { .kind = OUTSIDE_imported };
	struct fresh fresh;
	CUresult code;

	report_call(HOOK_cuMemImportFromShareableHandle);
	code = REAL(cuMemImportFromShareableHandle)(handle, shareable, type);
	if (code != CUDA_SUCCESS || os_forked() || is_known_handle(*handle) ||
	    !ask_device(*handle, &memory.device) || !make_fresh(&fresh))
		return code;
	name_fresh(&fresh, *handle, &memory);
	return code;
}

/* ---- Handles and mappings that exist ------------------------------------ */

CUresult
cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct handle_key **at;
	CUresult code;

	report_call(HOOK_cuMemRelease);
	if (!any_keys())
		return REAL(cuMemRelease)(handle);
	preload_lock(&lock);
	code = REAL(cuMemRelease)(handle);
	at = key_place(BY_HANDLE, handle);
	if (code == CUDA_SUCCESS && *at != NULL && --(*at)->times == 0)
		remove_key(at);
	preload_unlock(&lock);
	return code;
}

/* The mapping that an address lies in; NULL: none. The caller holds the
 * lock. */
static struct handle_key *
mapping_around(CUdeviceptr ptr) HOLDS(lock)
{
	for (int i = 0; i < OUTSIDE_BUCKETS; i++)
		for (struct handle_key *k = keys[BY_ADDRESS][i]; k != NULL;
		     k = k->next)
			if (ptr - k->name < k->size)
				return k;
	return NULL;
}

/* The program has a handle once more, by an address of a mapping. The caller
 * holds the lock, and gets the key back if it was not needed. */
static struct handle_key *
retain_handle(CUmemGenericAllocationHandle handle, CUdeviceptr ptr,
    struct handle_key *key) HOLDS(lock)
{
	struct handle_key *known = *key_place(BY_HANDLE, handle);
	struct handle_key *mapping;

	if (known != NULL) {
		known->times++;
		return key;
	}
	mapping = mapping_around(ptr);
	if (mapping == NULL)
		return key;
	*key = (struct handle_key){
		.memory = mapping->memory, .name = handle, .times = 1
	};
	insert_key(BY_HANDLE, key);
	return NULL;
}

CUresult
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *ptr)
{
	CUdeviceptr address = (CUdeviceptr)(uintptr_t)ptr;
	struct handle_key *key;
	CUresult code;

	report_call(HOOK_cuMemRetainAllocationHandle);
	if (address_is_of_weir(address))
		return CUDA_ERROR_INVALID_VALUE;
	key = any_keys() ? meta_zalloc(sizeof(*key)) : NULL;
	if (key == NULL)
		return REAL(cuMemRetainAllocationHandle)(handle, ptr);
	preload_lock(&lock);
	code = REAL(cuMemRetainAllocationHandle)(handle, ptr);
	if (code == CUDA_SUCCESS)
		key = retain_handle(*handle, address, key);
	preload_unlock(&lock);
	if (key != NULL)
		meta_free(key, sizeof(*key));
	return code;
}

/* A handle was mapped. The caller holds the lock, and gets the key back if it
 * was not needed. */
static struct handle_key *
enter_mapping(CUmemGenericAllocationHandle handle, CUdeviceptr ptr,
    size_t bytes, struct handle_key *key) HOLDS(lock)
{
	struct handle_key *of = *key_place(BY_HANDLE, handle);

	if (of == NULL)
		return key;
	if (of->memory->bytes == 0) {
		of->memory->bytes = bytes;
		outside_add(of->memory->device, of->memory->kind, bytes);
	}
	*key = (struct handle_key){
		.memory = of->memory, .name = ptr, .size = bytes, .times = 1
	};
	insert_key(BY_ADDRESS, key);
	return NULL;
}

CUresult
cuMemMap(CUdeviceptr ptr, size_t bytes, size_t offset,
    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct handle_key *key;
	CUresult code;

	report_call(HOOK_cuMemMap);
	if (address_is_of_weir(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	key = any_keys() ? meta_zalloc(sizeof(*key)) : NULL;
	if (key == NULL)
		return REAL(cuMemMap)(ptr, bytes, offset, handle, flags);
	preload_lock(&lock);
	code = REAL(cuMemMap)(ptr, bytes, offset, handle, flags);
	if (code == CUDA_SUCCESS)
		key = enter_mapping(handle, ptr, bytes, key);
	preload_unlock(&lock);
	if (key != NULL)
		meta_free(key, sizeof(*key));
	return code;
}

/* The mappings of a range are gone. Each begins where the one before ends,
 * unless weir has not seen it; then those behind are searched. */
static void
leave_mappings(CUdeviceptr ptr, size_t bytes) HOLDS(lock)
{
	CUdeviceptr end = ptr + bytes;
	struct handle_key **at;

	while (ptr < end && *(at = key_place(BY_ADDRESS, ptr)) != NULL) {
		ptr += (*at)->size;
		remove_key(at);
	}
	if (ptr >= end)
		return;
	for (int i = 0; i < OUTSIDE_BUCKETS; i++) {
		at = &keys[BY_ADDRESS][i];
		while (*at != NULL)
			if ((*at)->name - ptr < end - ptr)
				remove_key(at);
			else
				at = &(*at)->next;
	}
}

CUresult
cuMemUnmap(CUdeviceptr ptr, size_t bytes)
{
	CUresult code;

	report_call(HOOK_cuMemUnmap);
	if (address_is_of_weir(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	if (!any_keys())
		return REAL(cuMemUnmap)(ptr, bytes);
	preload_lock(&lock);
	code = REAL(cuMemUnmap)(ptr, bytes);
	if (code == CUDA_SUCCESS)
		leave_mappings(ptr, bytes);
	preload_unlock(&lock);
	return code;
}
