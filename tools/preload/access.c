/*
 * Other devices' access to weir's memory.
 *
 * A program gives a device access to a memory pool, and so to what it has
 * allocated from it. What comes after that the driver serves (mempool.c); what
 * was there before lies in ranges that weir has mapped, and these are opened
 * to the device. To know them, weir's calls that map and unmap come by here.
 * A range stays open, whatever lies in it later: that is more than was asked
 * for, and harms nobody.
 *
 * A device reaches memory in an allocation of the driver only by peer access of
 * its primary context. So weir enables that too, as soon as both contexts
 * exist. The program must not notice: its questions about peer access are
 * answered from its own requests.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/meta.h"
#include "tools/preload/preload.h"

typedef CUresult set_access(
    CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
typedef CUresult unmap(CUdeviceptr, size_t);

enum { DEVICES = 64 };

/* The entries that weir would call without this file. */
static set_access *next_set_access;
static unmap *next_unmap;

/* A range that weir has mapped. */
struct range {
	struct range *next;
	CUdeviceptr start;
	size_t size;
	int device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges; /* under the lock */

/* With one device there is nobody to give access to. */
static bool
alone(void)
{
	static atomic_int devices;
	int count = atomic_load(&devices);

	if (count == 0 &&
	    real_driver()->cuDeviceGetCount(&count) == CUDA_SUCCESS)
		atomic_store(&devices, count);
	return count <= 1;
}

static void
remember(CUdeviceptr start, size_t size, int device)
{
	struct range *range = meta_alloc(sizeof(*range));

	if (range == NULL) {
		log_write(LOG_WARN,
		    "no host memory to know which memory others may use");
		return;
	}
	pthread_mutex_lock(&lock);
	*range = (struct range){ ranges, start, size, device };
	ranges = range;
	pthread_mutex_unlock(&lock);
}

/* Ranges are unmapped whole, several at once. */
static void
forget(CUdeviceptr start, size_t size)
{
	struct range **at = &ranges;

	pthread_mutex_lock(&lock);
	while (*at != NULL) {
		struct range *range = *at;

		if (range->start - start >= size) {
			at = &range->next;
			continue;
		}
		*at = range->next;
		meta_free(range, sizeof(*range));
	}
	pthread_mutex_unlock(&lock);
}

static CUresult
set_access_for_weir(
    CUdeviceptr start, size_t size, const CUmemAccessDesc *access, size_t count)
{
	CUresult code = next_set_access(start, size, access, count);

	if (code == CUDA_SUCCESS && count > 0 && !alone())
		remember(start, size, access->location.id);
	return code;
}

static CUresult
unmap_for_weir(CUdeviceptr start, size_t size)
{
	if (!alone())
		forget(start, size);
	return next_unmap(start, size);
}

void *
access_for_weir(const char *name, void *next)
{
	if (next == NULL || real_driver() == NULL)
		return next;
	if (strcmp(name, "cuMemSetAccess") == 0) {
		memcpy(&next_set_access, &next, sizeof(next));
		return (void *)set_access_for_weir;
	}
	if (strcmp(name, "cuMemUnmap") == 0) {
		memcpy(&next_unmap, &next, sizeof(next));
		return (void *)unmap_for_weir;
	}
	return next;
}

/* ---- Peer access ------------------------------------------------------- */

/* Bits by device. */
static atomic_ulong users[DEVICES];  /* who may use the pools of this one */
static atomic_ulong opened[DEVICES]; /* whose memory this one was let into by
				      * us, and not by the program */

static unsigned long
bit_of(int device)
{
	return 1ul << device;
}

/* Let a device into all memory of another, if both have a context. */
static void
open_memory(int user, int owner)
{
	const struct real *real = real_driver();
	CUcontext of_user = contexts_primary_of(user);
	CUcontext of_owner = contexts_primary_of(owner);
	CUcontext popped;
	CUresult code;

	if (of_user == NULL || of_owner == NULL ||
	    real->cuCtxPushCurrent_v2(of_user) != CUDA_SUCCESS)
		return;
	code = REAL(cuCtxEnablePeerAccess)(of_owner, 0);
	real->cuCtxPopCurrent_v2(&popped);
	if (code == CUDA_SUCCESS)
		atomic_fetch_or(&opened[user], bit_of(owner));
	else if (code != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		log_write(LOG_WARN,
		    "device %d does not reach all memory of device %d: error "
		    "%d",
		    user, owner, (int)code);
}

void
access_primary_begins(int device)
{
	for (int i = 0; i < DEVICES; i++) {
		if (atomic_load(&users[i]) & bit_of(device))
			open_memory(device, i);
		if (atomic_load(&users[device]) & bit_of(i))
			open_memory(i, device);
	}
}

void
access_device_ends(int device)
{
	atomic_store(&users[device], 0);
	atomic_store(&opened[device], 0);
	for (int i = 0; i < DEVICES; i++)
		atomic_fetch_and(&opened[i], ~bit_of(device));
}

/* The devices of a program's call about peer access. False: not two that weir
 * serves. */
static bool
find_devices(CUcontext peer, int *user, int *owner)
{
	CUcontext current;

	if (!gate_admits() ||
	    real_driver()->cuCtxGetCurrent(&current) != CUDA_SUCCESS)
		return false;
	*user = contexts_device_of(current);
	*owner = contexts_device_of(peer);
	return *user >= 0 && *owner >= 0;
}

/* The current context may use memory of `peer` from now on. */
CUresult
cuCtxEnablePeerAccess(CUcontext peer, unsigned flags)
{
	CUresult code;
	int user;
	int owner;

	report_call(HOOK_cuCtxEnablePeerAccess);
	/* It may already. From now on that is the program's. */
	if (flags == 0 && find_devices(peer, &user, &owner) &&
	    atomic_fetch_and(&opened[user], ~bit_of(owner)) & bit_of(owner))
		return CUDA_SUCCESS;
	code = REAL(cuCtxEnablePeerAccess)(peer, flags);
	if (code == CUDA_SUCCESS)
		contexts_enabled(peer);
	return code;
}

CUresult
cuCtxDisablePeerAccess(CUcontext peer)
{
	CUresult code;
	int user;
	int owner;
	bool known = find_devices(peer, &user, &owner);

	report_call(HOOK_cuCtxDisablePeerAccess);
	if (known && atomic_load(&opened[user]) & bit_of(owner))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	code = REAL(cuCtxDisablePeerAccess)(peer);
	if (code == CUDA_SUCCESS && known &&
	    atomic_load(&users[owner]) & bit_of(user))
		open_memory(user, owner);
	return code;
}

/* ---- Pools ------------------------------------------------------------- */

void
access_grant(int device, const CUmemAccessDesc *access)
{
	int user = access->location.id;

	pthread_mutex_lock(&lock);
	for (struct range *r = ranges; r != NULL; r = r->next)
		if (r->device == device &&
		    next_set_access(r->start, r->size, access, 1) !=
			CUDA_SUCCESS)
			log_write(LOG_WARN,
			    "device %d is not given access to 0x%llx", user,
			    (unsigned long long)r->start);
	pthread_mutex_unlock(&lock);
	if (user < 0 || user >= DEVICES || device < 0 || device >= DEVICES)
		return;
	atomic_fetch_or(&users[device], bit_of(user));
	open_memory(user, device);
}
