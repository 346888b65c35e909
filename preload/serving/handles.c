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
 *
 * Note [Handles of memory that leaves]
 *
 * Memory leaves a device that sleeps (leaving.c), and the driver makes another
 * handle for it afterwards. The program keeps the number that it has: the hooks
 * translate it (`real`). The driver may give that number to other memory
 * meanwhile. The program then gets a number of weir's for the other memory,
 * which is translated as well. The driver counts one handle of memory that has
 * come back, and the program's count is here.
 *
 * While memory is away, its handles and mappings can be given back, and no
 * driver is called. All other calls on them wait until it is back.
 */
#include "preload/serving/handles.h"

#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"

struct lock handles_lock = LOCK_INITIALIZER(LOCK_RANK_HOOK);
struct handle_key *handles_keys[KEY_TABLES][OUTSIDE_BUCKETS];
bool handles_away;
atomic_bool handles_left;
void (*handles_drop_away)(struct handle_memory *memory);
static atomic_size_t n_keys;

/* ---- The tables --------------------------------------------------------- */

/* The caller holds the lock. */
static struct handle_key **
key_place(int table, uint64_t name) HOLDS(handles_lock)
{
	struct handle_key **at =
	    &handles_keys[table][hash_bucket_of(name, OUTSIDE_BUCKETS)];

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

/* The caller holds the lock. */
static void
remove_key(struct handle_key **at) HOLDS(handles_lock)
{
	struct handle_key *key = *at;
	struct handle_memory *memory = key->memory;

	*at = key->next;
	if (key->size == 0)
		memory->handles--;
	else
		memory->mappings--;
	meta_free(key, sizeof(*key));
	atomic_fetch_sub(&n_keys, 1);
	if (memory->handles == 0)
		memory->real = 0;
	if (--memory->names > 0)
		return;
	if (memory->batch != NULL)
		handles_drop_away(memory);
	else
		outside_release(memory->device, memory->kind, memory->bytes);
	meta_free(memory, sizeof(*memory));
}

/* Name the memory by a key that was made before. A key of this name is left
 * from memory whose end weir has not seen. The caller holds the lock. */
static void
insert_key(int table, struct handle_key *key) HOLDS(handles_lock)
{
	struct handle_key **at = key_place(table, key->name);

	key->memory->names++;
	if (key->size == 0)
		key->memory->handles++;
	else
		key->memory->mappings++;
	if (key->size == 0)
		key->memory->number = key->name;
	else
		key->memory->mapped_at = key->name;
	if (*at != NULL)
		remove_key(at);
	at = key_place(table, key->name);
	key->next = *at;
	*at = key;
	atomic_fetch_add(&n_keys, 1);
}

/* ---- Memory that is away, or was ----------------------------------------- */

static bool
is_away(const struct handle_key *key)
{
	return key != NULL && key->memory->batch != NULL;
}

/* A key of memory, which may have the name `likely`. */
static struct handle_key *
key_of(const struct handle_memory *memory, int table, uint64_t likely)
    HOLDS(handles_lock)
{
	struct handle_key *key = *key_place(table, likely);

	if (key != NULL && key->memory == memory)
		return key;
	for (int i = 0; i < OUTSIDE_BUCKETS; i++)
		for (key = handles_keys[table][i]; key != NULL; key = key->next)
			if (key->memory == memory)
				return key;
	return NULL;
}

struct handle_key *
handles_mapping_of(const struct handle_memory *memory)
{
	return memory->mappings == 0 ?
	    NULL :
	    key_of(memory, BY_ADDRESS, memory->mapped_at);
}

struct handle_key *
handles_handle_of(const struct handle_memory *memory)
{
	return memory->handles == 0 ? NULL :
				      key_of(memory, BY_HANDLE, memory->number);
}

/* A mapping that overlaps a range and is away, or any; NULL: there is none. The
 * caller holds the lock. */
static struct handle_key *
mapping_in(CUdeviceptr ptr, size_t bytes, bool away) HOLDS(handles_lock)
{
	for (int i = 0; i < OUTSIDE_BUCKETS; i++)
		for (struct handle_key *k = handles_keys[BY_ADDRESS][i];
		     k != NULL; k = k->next)
			if (k->name < ptr + bytes && ptr < k->name + k->size &&
			    (!away || is_away(k)))
				return k;
	return NULL;
}

static bool
is_present(CUmemGenericAllocationHandle handle, CUdeviceptr ptr, size_t bytes)
    HOLDS(handles_lock)
{
	return !handles_away ||
	    (!is_away(*key_place(BY_HANDLE, handle)) &&
		(bytes == 0 || mapping_in(ptr, bytes, true) == NULL));
}

/* Lock, once the memory of a handle (0: of none) and of a range is not away.
 * False: it still is, because the thread is not to wait. */
static bool
lock_present(CUmemGenericAllocationHandle handle, CUdeviceptr ptr, size_t bytes)
    ENTERS(handles_lock)
{
	preload_lock(&handles_lock);
	if (is_present(handle, ptr, bytes))
		return true;
	preload_unlock(&handles_lock);
	bool awake = held_begin();
	(void)held_end(CUDA_SUCCESS);
	preload_lock(&handles_lock);
	return awake && is_present(handle, ptr, bytes);
}

bool
handles_wait(CUdeviceptr ptr, size_t bytes)
{
	if (!any_keys())
		return true;
	bool present = lock_present(0, ptr, bytes);
	preload_unlock(&handles_lock);
	return present;
}

void
handles_share(CUdeviceptr ptr, size_t bytes)
{
	if (!any_keys())
		return;
	preload_lock(&handles_lock);
	for (int i = 0; i < OUTSIDE_BUCKETS; i++)
		for (struct handle_key *k = handles_keys[BY_ADDRESS][i];
		     k != NULL; k = k->next)
			if (k->name < ptr + bytes && ptr < k->name + k->size)
				k->memory->shared = true;
	preload_unlock(&handles_lock);
}

/* The program's handle of memory whose real one this is; NULL: none. The caller
 * holds the lock. */
static struct handle_key *
key_of_real(CUmemGenericAllocationHandle real) HOLDS(handles_lock)
{
	for (int i = 0; i < OUTSIDE_BUCKETS; i++)
		for (struct handle_key *k = handles_keys[BY_HANDLE][i];
		     k != NULL; k = k->next)
			if (k->memory->real == real)
				return k;
	return NULL;
}

/* The driver's handle for one of the program's; 0 for a number that the program
 * does not have, and that the driver uses for other memory of the program. The
 * caller holds the lock. */
static CUmemGenericAllocationHandle
real_handle(CUmemGenericAllocationHandle handle) HOLDS(handles_lock)
{
	const struct handle_key *key = *key_place(BY_HANDLE, handle);

	if (key != NULL)
		return key->memory->real != 0 ? key->memory->real : handle;
	return handles_left && key_of_real(handle) != NULL ? 0 : handle;
}

/* Does the program know other memory by this number of the driver's? The caller
 * holds the lock. */
static bool
is_taken(CUmemGenericAllocationHandle real) HOLDS(handles_lock)
{
	const struct handle_key *known = *key_place(BY_HANDLE, real);

	return known != NULL &&
	    (known->memory->real != 0 || known->memory->batch != NULL);
}

/* The number by which the program is to know a handle that the driver has given
 * it. The caller holds the lock. */
static CUmemGenericAllocationHandle
number_for(CUmemGenericAllocationHandle real, struct handle_memory *memory)
    HOLDS(handles_lock)
{
	static CUmemGenericAllocationHandle given;

	if (!is_taken(real))
		return real;
	memory->real = real;
	/* The driver's own numbers are much lower. */
	return ((CUmemGenericAllocationHandle)1 << 62) + ++given;
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

/* The driver has made a handle of this memory, which counts already. The
 * program may get another number for it. */
static void
name_fresh(struct fresh *fresh, CUmemGenericAllocationHandle *handle,
    const struct handle_memory *memory)
{
	*fresh->memory = *memory;
	preload_lock(&handles_lock);
	*handle = number_for(*handle, fresh->memory);
	*fresh->key = (struct handle_key){
		.memory = fresh->memory, .name = *handle, .times = 1
	};
	insert_key(BY_HANDLE, fresh->key);
	preload_unlock(&handles_lock);
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

/* Make a handle that is not counted. Its number is the driver's, so it must be
 * none that the program knows: the driver makes another one then. */
static CUresult
create_uncounted(CUmemGenericAllocationHandle *handle, size_t bytes,
    const CUmemAllocationProp *wanted, unsigned long long flags)
{
	CUmemGenericAllocationHandle made;
	CUresult code = REAL(cuMemCreate)(handle, bytes, wanted, flags);

	if (code != CUDA_SUCCESS || handle == NULL || !handles_left)
		return code;
	made = *handle;
	preload_lock(&handles_lock);
	bool taken = is_taken(made);
	preload_unlock(&handles_lock);
	if (!taken)
		return code;
	code = create_uncounted(handle, bytes, wanted, flags);
	REAL(cuMemRelease)(made);
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
		return create_uncounted(handle, bytes, wanted, flags);
	memory.device = wanted->location.id;
	memory.prop = *wanted;
	if (!outside_reserve(
		memory.device, memory.kind, bytes, "cuMemCreate")) {
		drop_fresh(&fresh);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	code = create_twice(handle, bytes, wanted, flags);
	if (code == CUDA_SUCCESS) {
		outside_keep(memory.device, memory.kind, bytes);
		name_fresh(&fresh, handle, &memory);
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

	if (!gate_admits() ||
	    REAL(cuMemGetAllocationPropertiesFromHandle)(&prop, handle) !=
		CUDA_SUCCESS ||
	    !is_on_device(&prop.location))
		return false;
	*device = prop.location.id;
	return true;
}

/* The driver may give the program the handle that it has already: it is one
 * more of that memory, of which the driver counts one if it has been away. The
 * caller holds the lock. */
static bool
is_known_handle(CUmemGenericAllocationHandle *handle) HOLDS(handles_lock)
{
	struct handle_key *known = *key_place(BY_HANDLE, *handle);

	if (known != NULL && known->memory->batch == NULL &&
	    known->memory->real == 0) {
		known->times++;
		return true;
	}
	known = key_of_real(*handle);
	if (known == NULL)
		return false;
	known->times++;
	REAL(cuMemRelease)(*handle);
	*handle = known->name;
	return true;
}

static bool
take_known_handle(CUmemGenericAllocationHandle *handle)
{
	preload_lock(&handles_lock);
	bool known = is_known_handle(handle);
	preload_unlock(&handles_lock);
	return known;
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
	if (code != CUDA_SUCCESS || os_forked() || take_known_handle(handle) ||
	    !ask_device(*handle, &memory.device) || !make_fresh(&fresh))
		return code;
	name_fresh(&fresh, handle, &memory);
	return code;
}

/* ---- Handles and mappings that exist ------------------------------------ */

/* Release the driver's handle for one of the program's, if it is the last of
 * memory that has been away. The caller holds the lock. */
static CUresult
release_real(const struct handle_key *key, CUmemGenericAllocationHandle handle)
    HOLDS(handles_lock)
{
	if (is_away(key))
		return CUDA_SUCCESS;
	if (key == NULL || key->memory->real == 0)
		return REAL(cuMemRelease)(real_handle(handle));
	if (key->times > 1 || key->memory->handles > 1)
		return CUDA_SUCCESS;
	return REAL(cuMemRelease)(key->memory->real);
}

CUresult
cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct handle_key **at;
	CUresult code;

	report_call(HOOK_cuMemRelease);
	if (!any_keys())
		return REAL(cuMemRelease)(handle);
	preload_lock(&handles_lock);
	at = key_place(BY_HANDLE, handle);
	code = release_real(*at, handle);
	if (code == CUDA_SUCCESS && *at != NULL && --(*at)->times == 0)
		remove_key(at);
	preload_unlock(&handles_lock);
	return code;
}

/* The mapping that an address lies in; NULL: none. The caller holds the
 * lock. */
static struct handle_key *
mapping_around(CUdeviceptr ptr) HOLDS(handles_lock)
{
	for (int i = 0; i < OUTSIDE_BUCKETS; i++)
		for (struct handle_key *k = handles_keys[BY_ADDRESS][i];
		     k != NULL; k = k->next)
			if (ptr - k->name < k->size)
				return k;
	return NULL;
}

/* The program has a handle once more, by an address of a mapping. The caller
 * holds the lock, and gets the key back if it was not needed. */
static struct handle_key *
retain_handle(CUmemGenericAllocationHandle *handle, CUdeviceptr ptr,
    struct handle_key *key) HOLDS(handles_lock)
{
	struct handle_key *mapping;

	if (is_known_handle(handle))
		return key;
	mapping = mapping_around(ptr);
	if (mapping == NULL)
		return key;
	*handle = number_for(*handle, mapping->memory);
	*key = (struct handle_key){
		.memory = mapping->memory, .name = *handle, .times = 1
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
	code = CUDA_ERROR_NOT_READY;
	if (lock_present(0, address, 1)) {
		code = REAL(cuMemRetainAllocationHandle)(handle, ptr);
		if (code == CUDA_SUCCESS)
			key = retain_handle(handle, address, key);
	}
	preload_unlock(&handles_lock);
	if (key != NULL)
		meta_free(key, sizeof(*key));
	return code;
}

/* A handle was mapped. The caller holds the lock, and gets the key back if it
 * was not needed. */
static struct handle_key *
enter_mapping(CUmemGenericAllocationHandle handle, CUdeviceptr ptr,
    size_t bytes, struct handle_key *key) HOLDS(handles_lock)
{
	struct handle_key *of = *key_place(BY_HANDLE, handle);

	if (of == NULL || bytes == 0)
		return key;
	if (of->memory->bytes != 0 && of->memory->bytes != bytes)
		of->memory->odd = true;
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
	code = CUDA_ERROR_NOT_READY;
	if (lock_present(handle, ptr, 0)) {
		/* The driver does not know of mappings that are away. */
		code = handles_away && mapping_in(ptr, bytes, true) != NULL ?
		    CUDA_ERROR_INVALID_VALUE :
		    REAL(cuMemMap)(
			ptr, bytes, offset, real_handle(handle), flags);
		if (code == CUDA_SUCCESS)
			key = enter_mapping(handle, ptr, bytes, key);
	}
	preload_unlock(&handles_lock);
	if (key != NULL)
		meta_free(key, sizeof(*key));
	return code;
}

/* The mappings of a range are gone. Each begins where the one before ends,
 * unless weir has not seen it; then those behind are searched. The caller holds
 * the lock. */
static void
leave_mappings(CUdeviceptr ptr, size_t bytes) HOLDS(handles_lock)
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
		at = &handles_keys[BY_ADDRESS][i];
		while (*at != NULL)
			if ((*at)->name - ptr < end - ptr)
				remove_key(at);
			else
				at = &(*at)->next;
	}
}

/* Unmap a range of which a part is away. The caller holds the lock. */
static CUresult
unmap_present(CUdeviceptr ptr, size_t bytes) HOLDS(handles_lock)
{
	CUdeviceptr end = ptr + bytes;
	struct handle_key *key;

	for (CUdeviceptr at = ptr; at < end; at = key->name + key->size) {
		key = mapping_in(at, 1, false);
		if (key == NULL || key->name != at || key->size > end - at)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (CUdeviceptr at = ptr; at < end; at = key->name + key->size) {
		CUresult code;

		key = mapping_in(at, 1, false);
		code = is_away(key) ? CUDA_SUCCESS :
				      REAL(cuMemUnmap)(key->name, key->size);
		if (code != CUDA_SUCCESS)
			return code;
	}
	return CUDA_SUCCESS;
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
	preload_lock(&handles_lock);
	code = handles_away && mapping_in(ptr, bytes, true) != NULL ?
	    unmap_present(ptr, bytes) :
	    REAL(cuMemUnmap)(ptr, bytes);
	if (code == CUDA_SUCCESS)
		leave_mappings(ptr, bytes);
	preload_unlock(&handles_lock);
	return code;
}

/* ---- Other calls on them ------------------------------------------------- */

CUresult
cuMemSetAccess(
    CUdeviceptr ptr, size_t bytes, const CUmemAccessDesc *access, size_t count)
{
	report_call(HOOK_cuMemSetAccess);
	if (address_is_of_weir(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	return handles_wait(ptr, bytes) ?
	    REAL(cuMemSetAccess)(ptr, bytes, access, count) :
	    CUDA_ERROR_NOT_READY;
}

/* The driver does not know of mappings that are away. */
CUresult
cuMemAddressFree(CUdeviceptr ptr, size_t bytes)
{
	bool mapped = false;

	report_call(HOOK_cuMemAddressFree);
	if (address_is_of_weir(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	if (any_keys()) {
		preload_lock(&handles_lock);
		mapped = handles_away && mapping_in(ptr, bytes, true) != NULL;
		preload_unlock(&handles_lock);
	}
	return mapped ? CUDA_ERROR_INVALID_VALUE :
			REAL(cuMemAddressFree)(ptr, bytes);
}

CUresult
cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	CUresult code = CUDA_ERROR_NOT_READY;

	report_call(HOOK_cuMemGetAllocationPropertiesFromHandle);
	if (!any_keys())
		return REAL(cuMemGetAllocationPropertiesFromHandle)(
		    prop, handle);
	if (lock_present(handle, 0, 0))
		code = REAL(cuMemGetAllocationPropertiesFromHandle)(
		    prop, real_handle(handle));
	preload_unlock(&handles_lock);
	return code;
}

/* The memory of a handle is shared from now on. The caller holds the lock. */
static void
share_handle(CUmemGenericAllocationHandle handle) HOLDS(handles_lock)
{
	struct handle_key *key = *key_place(BY_HANDLE, handle);

	if (key != NULL)
		key->memory->shared = true;
}

CUresult
cuMemExportToShareableHandle(void *shareable,
    CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
    unsigned long long flags)
{
	CUresult code = CUDA_ERROR_NOT_READY;

	report_call(HOOK_cuMemExportToShareableHandle);
	if (!any_keys())
		return REAL(cuMemExportToShareableHandle)(
		    shareable, handle, type, flags);
	if (lock_present(handle, 0, 0)) {
		code = REAL(cuMemExportToShareableHandle)(
		    shareable, real_handle(handle), type, flags);
		if (code == CUDA_SUCCESS)
			share_handle(handle);
	}
	preload_unlock(&handles_lock);
	return code;
}

CUresult
cuMulticastBindMem(CUmemGenericAllocationHandle group, size_t offset,
    CUmemGenericAllocationHandle memory, size_t from, size_t bytes,
    unsigned long long flags)
{
	CUresult code = CUDA_ERROR_NOT_READY;

	report_call(HOOK_cuMulticastBindMem);
	if (!any_keys())
		return REAL(cuMulticastBindMem)(
		    group, offset, memory, from, bytes, flags);
	if (lock_present(memory, 0, 0)) {
		code = REAL(cuMulticastBindMem)(
		    group, offset, real_handle(memory), from, bytes, flags);
		if (code == CUDA_SUCCESS)
			share_handle(memory);
	}
	preload_unlock(&handles_lock);
	return code;
}
