/*
 * Other devices' access to weir's memory.
 *
 * A program gives a device access to a memory pool, and so to what it has
 * allocated from it. What comes after that the driver serves (mempool.c); what
 * was there before lies in ranges that weir has mapped, and these are opened
 * to the device. To know them, weir's calls that map and unmap come by here.
 * A range stays open, whatever lies in it later: that is more than was asked
 * for, and harms nobody.
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

/* What weir would call without us. */
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

void
access_grant(int device, const CUmemAccessDesc *access)
{
	pthread_mutex_lock(&lock);
	for (struct range *r = ranges; r != NULL; r = r->next)
		if (r->device == device &&
		    next_set_access(r->start, r->size, access, 1) !=
			CUDA_SUCCESS)
			log_write(LOG_WARN,
			    "device %d is not given access to 0x%llx",
			    access->location.id, (unsigned long long)r->start);
	pthread_mutex_unlock(&lock);
}
