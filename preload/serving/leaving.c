/*
 * Lets memory of the program's own handles leave a device that sleeps, and come
 * back at its address: handles.c, Note [Handles of memory that leaves].
 *
 * Memory leaves if it is mapped as a whole in one place, and only its own
 * device has access. Memory that was exported, bound to a multicast object or
 * has a dma-buf stays, because others use it. What leaves in one
 * call is a batch, which has the copies. While memory is away the program may
 * give back its mapping and its handles. Memory without a mapping is filled at
 * a spare address.
 *
 * The lock of handles.c is held from leaving_copy() to leaving_leave(), and
 * from leaving_map() to leaving_back(), so that no call changes what is copied.
 */
#include <stdlib.h>

#include "allocator/allocator.h"
#include "allocator/private/sleeping.h"
#include "base/meta.h"
#include "base/status.h"
#include "driver/driver.h"
#include "graphs/suspend_copies.h"
#include "preload/ends.h"
#include "preload/serving/handles.h"

struct leaving_batch {
	struct leaving_batch *next;
	int device;
	struct copies *copies; /* NULL: no contents are kept */
	size_t members;        /* memory that is away, and comes back */
};

static struct leaving_batch *batches;

/* ---- Walks --------------------------------------------------------------- */

static unsigned walk;

/* The next memory behind the keys, each once between two changes of `walk`. The
 * caller holds the lock, here and below. */
struct memory_walk {
	int table;
	int bucket;
	struct handle_key *key;
};

static struct handle_memory *
next_memory(struct memory_walk *w)
{
	while (w->table < KEY_TABLES) {
		if (w->key == NULL)
			w->key = handles_keys[w->table][w->bucket];
		else
			w->key = w->key->next;
		if (w->key != NULL && w->key->memory->seen == walk)
			continue;
		if (w->key != NULL) {
			w->key->memory->seen = walk;
			return w->key->memory;
		}
		if (++w->bucket == OUTSIDE_BUCKETS) {
			w->bucket = 0;
			w->table++;
		}
	}
	return NULL;
}

static struct memory_walk
begin_walk(void)
{
	walk++;
	return (struct memory_walk){ 0 };
}

static bool
is_planned(const struct sleeping_plan *plan, int device)
{
	return device >= 0 && device < DEVICES_MAX && plan->devices[device];
}

/* ---- Giving back ----------------------------------------------------------
 */

/* A call that gives memory back is repeated if it fails. */
static void
unmap_surely(const struct handle_memory *memory, CUdeviceptr ptr)
{
	if (REAL(cuMemUnmap)(ptr, memory->bytes) != CUDA_SUCCESS)
		REAL(cuMemUnmap)(ptr, memory->bytes);
}

static void
release_surely(CUmemGenericAllocationHandle handle)
{
	if (REAL(cuMemRelease)(handle) != CUDA_SUCCESS)
		REAL(cuMemRelease)(handle);
}

/* ---- Leaving ------------------------------------------------------------- */

/* Memory that leaves in this call, by device. */
static struct leaving_batch *leaving[PRELOAD_DEVICES];
static struct weir_sleep_result sums;
static size_t back_bytes, back_copied;

static void
stay(const struct handle_memory *memory, enum weir_sleep_reason reason)
{
	sums.stays[reason].count++;
	sums.stays[reason].bytes += memory->bytes;
}

/* The access of a device to a mapping. */
static unsigned long long
access_of(CUdeviceptr ptr, int device)
{
	const CUmemLocation location = { CU_MEM_LOCATION_TYPE_DEVICE, device };
	unsigned long long flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;

	if (REAL(cuMemGetAccess)(&flags, &location, ptr) != CUDA_SUCCESS)
		return CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return flags;
}

static bool
is_open_to_peer(CUdeviceptr ptr, int device)
{
	int n = 0;

	if (real_driver()->cuDeviceGetCount(&n) != CUDA_SUCCESS)
		return true;
	for (int i = 0; i < n; i++)
		if (i != device &&
		    access_of(ptr, i) != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			return true;
	return false;
}

/* Does the memory leave? If not, its reason is counted. */
static bool
may_leave(struct handle_memory *memory) HOLDS(handles_lock)
{
	if (memory->shared || memory->kind != OUTSIDE_handles) {
		stay(memory, WEIR_SLEEP_SHARED);
		return false;
	}
	if (memory->odd || memory->mappings != 1 ||
	    memory->prop.allocFlags.usage != 0) {
		stay(memory, WEIR_SLEEP_ODD);
		return false;
	}
	CUdeviceptr ptr = handles_mapping_of(memory)->name;
	memory->access = access_of(ptr, memory->device);
	if (memory->access == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
		stay(memory, WEIR_SLEEP_ODD);
		return false;
	}
	if (is_open_to_peer(ptr, memory->device)) {
		stay(memory, WEIR_SLEEP_SHARED);
		return false;
	}
	return true;
}

/* Make a batch of what leaves a device; *n is the number of its ranges. */
static enum weir_status
make_batch(int device, struct leaving_batch **out) HOLDS(handles_lock)
{
	struct leaving_batch *batch = meta_zalloc(sizeof(*batch));

	if (batch == NULL)
		return status_set(WEIR_EHOSTMEM, "sleeping: no host memory");
	batch->device = device;
	struct memory_walk w = begin_walk();
	struct handle_memory *memory;
	while ((memory = next_memory(&w)) != NULL)
		if (memory->device == device && memory->batch == NULL &&
		    may_leave(memory)) {
			memory->batch = batch;
			memory->range = batch->members++;
		}
	*out = batch;
	return WEIR_OK;
}

static enum weir_status
copy_batch(struct leaving_batch *batch, const char *folder) HOLDS(handles_lock)
{
	struct copy_plan plan = { .range_count = batch->members,
		.folder = folder };
	size_t bytes = batch->members * sizeof(*plan.ranges);
	struct copy_range *ranges = meta_zalloc(bytes);
	CUcontext context = driver_context_peek(batch->device);
	struct driver_guard guard;
	struct handle_memory *memory;

	if (ranges == NULL)
		return status_set(WEIR_EHOSTMEM, "sleeping: no host memory");
	struct memory_walk w = begin_walk();
	while ((memory = next_memory(&w)) != NULL)
		if (memory->batch == batch)
			ranges[memory->range] = (struct copy_range){
				.addr = handles_mapping_of(memory)->name,
				.size = memory->bytes
			};
	plan.ranges = ranges;
	enum weir_status status = driver_enter(context, &guard);
	if (status == WEIR_OK) {
		status =
		    copies_take(batch->device, context, &plan, &batch->copies);
		driver_leave(&guard);
	}
	if (status == WEIR_OK)
		sums.copied_bytes += copies_bytes(batch->copies);
	meta_free(ranges, bytes);
	return status;
}

static void
drop_batch(struct leaving_batch *batch)
{
	copies_drop(batch->copies);
	meta_free(batch, sizeof(*batch));
}

/* Nothing leaves after all. */
static void
drop_leaving(void)
{
	struct memory_walk w = begin_walk();
	struct handle_memory *memory;

	while ((memory = next_memory(&w)) != NULL)
		if (memory->batch != NULL &&
		    memory->batch == leaving[memory->device])
			memory->batch = NULL;
	for (int i = 0; i < PRELOAD_DEVICES; i++) {
		if (leaving[i] != NULL)
			drop_batch(leaving[i]);
		leaving[i] = NULL;
	}
}

/* On success the lock stays held, which clang cannot check. */
static enum weir_status
leaving_copy(const struct sleeping_plan *plan) UNCHECKED
{
	enum weir_status status = WEIR_OK;
	bool discards = (plan->flags & WEIR_SLEEP_DISCARD_ALL) != 0;

	preload_lock(&handles_lock);
	sums = (struct weir_sleep_result){ 0 };
	for (int i = 0; i < PRELOAD_DEVICES && status == WEIR_OK; i++) {
		if (!is_planned(plan, i) || driver_context_peek(i) == NULL)
			continue;
		status = make_batch(i, &leaving[i]);
		if (status == WEIR_OK && leaving[i]->members > 0 && !discards)
			status = copy_batch(leaving[i], plan->folder);
	}
	if (status == WEIR_OK)
		return status;
	drop_leaving();
	preload_unlock(&handles_lock);
	return status;
}

static void
release_key(const struct handle_key *key)
{
	for (size_t n = 0; n < key->times; n++)
		release_surely(key->name);
}

/* Release all handles that the driver counts of the memory. What it refuses
 * twice is lost, which changes nothing else. */
static void
release_handles(const struct handle_memory *memory) HOLDS(handles_lock)
{
	if (memory->real != 0) {
		release_surely(memory->real);
		return;
	}
	if (memory->handles == 1) {
		release_key(handles_handle_of(memory));
		return;
	}
	for (int i = 0; i < OUTSIDE_BUCKETS && memory->handles > 0; i++)
		for (struct handle_key *k = handles_keys[BY_HANDLE][i];
		     k != NULL; k = k->next)
			if (k->memory == memory)
				release_key(k);
}

static void
leave_one(struct handle_memory *memory) HOLDS(handles_lock)
{
	struct leaving_batch *batch = memory->batch;
	const struct handle_key *mapping = handles_mapping_of(memory);

	if (REAL(cuMemUnmap)(mapping->name, mapping->size) != CUDA_SUCCESS) {
		if (batch->copies != NULL)
			copies_move(batch->copies, memory->range, 0);
		memory->batch = NULL;
		batch->members--;
		stay(memory, WEIR_SLEEP_REFUSED);
		return;
	}
	release_handles(memory);
	outside_release(memory->device, memory->kind, memory->bytes);
	sums.freed_bytes += memory->bytes;
	if (batch->copies == NULL)
		sums.discarded_bytes += memory->bytes;
}

static void
leaving_leave(struct weir_sleep_result *result) LEAVES(handles_lock)
{
	struct memory_walk w = begin_walk();
	struct handle_memory *memory;

	while ((memory = next_memory(&w)) != NULL)
		if (memory->batch != NULL &&
		    memory->batch == leaving[memory->device])
			leave_one(memory);
	for (int i = 0; i < PRELOAD_DEVICES; i++) {
		struct leaving_batch *batch = leaving[i];

		leaving[i] = NULL;
		if (batch == NULL)
			continue;
		if (batch->members == 0) {
			drop_batch(batch);
			continue;
		}
		batch->next = batches;
		batches = batch;
		handles_away = true;
		atomic_store(&handles_left, true);
	}
	result->freed_bytes += sums.freed_bytes;
	result->copied_bytes += sums.copied_bytes;
	result->discarded_bytes += sums.discarded_bytes;
	for (int i = 0; i < WEIR_SLEEP_REASON_COUNT; i++) {
		result->stays[i].count += sums.stays[i].count;
		result->stays[i].bytes += sums.stays[i].bytes;
	}
	preload_unlock(&handles_lock);
}

/* ---- Coming back --------------------------------------------------------- */

static bool
comes_back(const struct handle_memory *memory, const struct sleeping_plan *plan)
{
	return memory->batch != NULL && is_planned(plan, memory->device);
}

/* The address at which the memory is filled; 0: there is none. */
static CUdeviceptr
place_of(const struct handle_memory *memory) HOLDS(handles_lock)
{
	const struct handle_key *mapping = handles_mapping_of(memory);

	return mapping != NULL ? mapping->name : memory->spare;
}

/* Map what the program has unmapped while it was away at a spare address. */
static enum weir_status
reserve_spare(struct handle_memory *memory)
{
	if (memory->mappings > 0 || memory->spare != 0)
		return WEIR_OK;
	enum weir_status status =
	    driver_status(driver_peek()->cuMemAddressReserve(
			      &memory->spare, memory->bytes, 0, 0, 0),
		"resuming: cuMemAddressReserve(%zu bytes)", memory->bytes);
	if (status == WEIR_OK && memory->batch->copies != NULL)
		copies_move(
		    memory->batch->copies, memory->range, memory->spare);
	return status;
}

static CUresult
set_access(const struct handle_memory *memory, CUdeviceptr ptr,
    unsigned long long flags)
{
	const CUmemAccessDesc access = { { CU_MEM_LOCATION_TYPE_DEVICE,
					     memory->device },
		(CUmemAccess_flags)flags };

	return REAL(cuMemSetAccess)(ptr, memory->bytes, &access, 1);
}

/* Claim memory below the limit, and make it. */
static enum weir_status
create_back(struct handle_memory *memory)
{
	enum weir_status status = allocator_claim_outside(
	    memory->device, memory->kind, memory->bytes);
	if (status != WEIR_OK)
		return status;
	status = driver_status(
	    REAL(cuMemCreate)(&memory->back, memory->bytes, &memory->prop, 0),
	    "resuming: cuMemCreate(%zu bytes, device %d)", memory->bytes,
	    memory->device);
	if (status != WEIR_OK) {
		outside_drop(memory->device, memory->kind, memory->bytes);
		memory->back = 0;
	}
	return status;
}

static void
release_back(struct handle_memory *memory)
{
	release_surely(memory->back);
	outside_drop(memory->device, memory->kind, memory->bytes);
	memory->back = 0;
}

static enum weir_status
map_one(struct handle_memory *memory) HOLDS(handles_lock)
{
	enum weir_status status = reserve_spare(memory);
	if (status == WEIR_OK)
		status = create_back(memory);
	if (status != WEIR_OK)
		return status;
	CUdeviceptr ptr = place_of(memory);
	status = driver_status(
	    REAL(cuMemMap)(ptr, memory->bytes, 0, memory->back, 0),
	    "resuming: cuMemMap(%#llx, %zu bytes)", ptr, memory->bytes);
	if (status != WEIR_OK) {
		release_back(memory);
		return status;
	}
	return driver_status(
	    set_access(memory, ptr, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
	    "resuming: cuMemSetAccess(%#llx)", ptr);
}

static enum weir_status
load_batches(const struct sleeping_plan *plan) HOLDS(handles_lock)
{
	enum weir_status status = WEIR_OK;

	for (struct leaving_batch *b = batches; b != NULL && status == WEIR_OK;
	     b = b->next) {
		struct driver_guard guard;
		if (!is_planned(plan, b->device) || b->copies == NULL)
			continue;
		status = driver_enter(driver_context_peek(b->device), &guard);
		if (status != WEIR_OK)
			break;
		status = copies_load(b->copies);
		driver_leave(&guard);
	}
	return status;
}

/* On success the lock stays held, which clang cannot check. */
static enum weir_status
leaving_map(const struct sleeping_plan *plan) UNCHECKED
{
	enum weir_status status = WEIR_OK;
	struct handle_memory *memory;

	preload_lock(&handles_lock);
	struct memory_walk w = begin_walk();
	while (status == WEIR_OK && (memory = next_memory(&w)) != NULL)
		if (comes_back(memory, plan))
			status = map_one(memory);
	if (status == WEIR_OK)
		status = load_batches(plan);
	if (status == WEIR_OK)
		return status;
	w = begin_walk();
	while ((memory = next_memory(&w)) != NULL) {
		if (memory->back == 0)
			continue;
		unmap_surely(memory, place_of(memory));
		release_back(memory);
	}
	preload_unlock(&handles_lock);
	return status;
}

static size_t
leaving_away(int device)
{
	struct handle_memory *memory;
	size_t bytes = 0;

	preload_lock(&handles_lock);
	struct memory_walk w = begin_walk();
	while (batches != NULL && (memory = next_memory(&w)) != NULL)
		if (memory->batch != NULL && memory->device == device)
			bytes += memory->bytes;
	preload_unlock(&handles_lock);
	return bytes;
}

static void
drop_spare(struct handle_memory *memory)
{
	if (memory->spare == 0)
		return;
	driver_peek()->cuMemAddressFree(memory->spare, memory->bytes);
	memory->spare = 0;
}

/* Memory is back, and filled. */
static void
finish_one(struct handle_memory *memory) HOLDS(handles_lock)
{
	const struct handle_key *mapping = handles_mapping_of(memory);
	struct leaving_batch *batch = memory->batch;

	if (mapping != NULL &&
	    memory->access != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		set_access(memory, mapping->name, memory->access);
	if (mapping == NULL)
		unmap_surely(memory, memory->spare);
	drop_spare(memory);
	if (memory->handles > 0)
		memory->real = memory->back;
	else
		release_surely(memory->back);
	outside_keep(memory->device, memory->kind, memory->bytes);
	back_bytes += memory->bytes;
	memory->back = 0;
	memory->batch = NULL;
	batch->members--;
}

static void
drop_empty_batches(void)
{
	struct leaving_batch **at = &batches;

	while (*at != NULL) {
		struct leaving_batch *batch = *at;
		if (batch->members > 0) {
			at = &batch->next;
			continue;
		}
		*at = batch->next;
		if (batch->copies != NULL)
			back_copied += copies_bytes(batch->copies);
		drop_batch(batch);
	}
	handles_away = batches != NULL;
}

static void
leaving_back(struct weir_wake_result *result) LEAVES(handles_lock)
{
	struct memory_walk w = begin_walk();
	struct handle_memory *memory;

	back_bytes = 0;
	back_copied = 0;
	while ((memory = next_memory(&w)) != NULL)
		if (memory->back != 0)
			finish_one(memory);
	drop_empty_batches();
	result->mapped_bytes += back_bytes;
	result->copied_bytes += back_copied;
	preload_unlock(&handles_lock);
}

/* ---- Ends ---------------------------------------------------------------- */

/* The last name of memory that is away is gone. */
static void
drop_away(struct handle_memory *memory)
{
	if (memory->batch->copies != NULL)
		copies_move(memory->batch->copies, memory->range, 0);
	memory->batch->members--;
	drop_spare(memory);
}

/* The copies have gone with the context. The memory stays away for ever, as the
 * reset has ended it. */
void
leaving_device_ends(int device)
{
	struct memory_walk w;
	struct handle_memory *memory;

	preload_lock(&handles_lock);
	w = begin_walk();
	while (batches != NULL && (memory = next_memory(&w)) != NULL)
		if (memory->device == device && memory->batch != NULL) {
			memory->batch->members--;
			memory->batch = NULL;
			memory->bytes = 0;
		}
	for (struct leaving_batch *b = batches; b != NULL; b = b->next)
		if (b->device == device && b->copies != NULL) {
			copies_forget(b->copies);
			b->copies = NULL;
		}
	drop_empty_batches();
	preload_unlock(&handles_lock);
}

/* ---- Start --------------------------------------------------------------- */

static __attribute__((constructor)) void
follow_sleep(void)
{
	static const struct sleeping_guests guests = { leaving_copy,
		leaving_leave, leaving_map, leaving_back, leaving_away };

	handles_drop_away = drop_away;
	sleeping_set_guests(&guests);
}
