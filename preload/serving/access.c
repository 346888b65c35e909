/*
 * Other devices' access to weir's memory.
 *
 * A program can give a device access to a memory pool: to what it has allocated
 * from the pool and to what it will allocate. weir then opens all memory that
 * it maps on the pool's device to the other device (weir_peer_access()). This
 * is more than the program asked for, is never undone, and does no harm.
 *
 * Where memory cannot be mapped (WEIR_CONF=expandable_segments:False), pools
 * are served from allocations of the driver, which a device reaches only by
 * peer access between the primary contexts. Then weir enables that as well, as
 * soon as both contexts exist. The program must not notice: its questions about
 * peer access are answered from its own requests.
 */
#include <stdatomic.h>

#include "allocator/allocator.h"
#include "base/log.h"
#include "preload/ends.h"
#include "preload/tuning.h"

/* ---- Peer access ------------------------------------------------------- */

/* Bits are numbered by device. */
/* Devices that may use this device's pools. */
static atomic_ulong users[PRELOAD_DEVICES];
/* Devices to whose memory weir, not the program, gave this device access. */
static atomic_ulong opened[PRELOAD_DEVICES];

static unsigned long
bit_of(int device)
{
	return 1ul << device;
}

/* Let a device use all memory of another, if both have a context. */
static void
open_peer_memory(int user, int owner)
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
		    "device %d has no access to all memory of device %d: error "
		    "%d",
		    user, owner, (int)code);
}

void
access_primary_begins(int device)
{
	for (int i = 0; i < PRELOAD_DEVICES; i++) {
		if (atomic_load(&users[i]) & bit_of(device))
			open_peer_memory(device, i);
		if (atomic_load(&users[device]) & bit_of(i))
			open_peer_memory(i, device);
	}
}

void
access_device_ends(int device)
{
	atomic_store(&users[device], 0);
	atomic_store(&opened[device], 0);
	for (int i = 0; i < PRELOAD_DEVICES; i++)
		atomic_fetch_and(&opened[i], ~bit_of(device));
}

/* Find the devices that a call about peer access names. False if weir does not
 * serve both. */
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
	/* weir has enabled this access. From now on it counts as the program's.
	 */
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
		open_peer_memory(user, owner);
	return code;
}

/* ---- Pools ------------------------------------------------------------- */

bool
access_grant(int device, int user)
{
	if (user < 0 || user >= PRELOAD_DEVICES || device < 0 ||
	    device >= PRELOAD_DEVICES)
		return false;
	if (weir_peer_access(device, user) != WEIR_OK) {
		log_write(LOG_WARN,
		    "device %d gets no access to the memory of device %d: %s",
		    user, device, weir_last_error());
		return false;
	}
	if (allocator_maps(device))
		return true;
	atomic_fetch_or(&users[device], bit_of(user));
	open_peer_memory(user, device);
	return true;
}
