/*
 * What other parts of the tree may ask of the allocator beyond <weir/weir.h>.
 */
#ifndef ALLOCATOR_ALLOCATOR_H
#define ALLOCATOR_ALLOCATOR_H

#include <stdbool.h>

#include <weir/weir.h>

#include "driver/abi.h"

struct arena;

/* As weir_malloc(), in a given arena that the caller owns. */
enum weir_status allocator_malloc_in(
    struct arena *arena, size_t size, weir_stream handle, void **out);

/* The primary context of a device has been reset: all its memory is gone.
 * Addresses in it are foreign from now on. Of the driver nothing is asked but
 * to take back what outlives a context: mappings and reserved addresses. */
void allocator_forget_device(int device);

/* True if an address lies in a range weir has from the driver, be it in use,
 * cached or unmapped: freeing it is not for the driver. */
bool allocator_owns(CUdeviceptr addr);

/* True if an address lies in page-locked host memory of weir's. */
bool allocator_owns_host(CUdeviceptr addr);

/* What a free is about. */
struct allocator_block {
	int device;
	size_t requested_bytes;
	bool of_no_stream; /* of WEIR_STREAM_ANY */
	bool host;         /* page-locked host memory */
};

/* The live block that begins at an address, which is the caller's to free: no
 * lock is taken, so nobody else may free it meanwhile. False: there is none. */
bool allocator_find(const void *ptr, struct allocator_block *out);

/*
 * As weir_malloc_on() and weir_free_async(), as far as the calling thread's
 * cache serves the stream: no driver is called, and no failure is told. NULL
 * and false: nothing has happened.
 *
 * @param stream   not NULL
 * @param context  of a default stream the current one; else NULL
 */
void *allocator_malloc_cached(
    int device, size_t size, weir_stream stream, CUcontext context);
bool allocator_free_cached(
    void *ptr, weir_stream stream, CUcontext context, size_t *requested_bytes);

/* As weir_host_malloc_on(), but always allocated by the driver, so that all it
 * says of such memory is true. */
enum weir_status allocator_malloc_host(
    int device, size_t size, unsigned flags, void **out);

/* As weir_free(), where all work on the block is known to be done, on whatever
 * stream: it is free at once. */
enum weir_status allocator_free_done(void *ptr);

/* As weir_stats(), but threads' caches are not asked: what they have served is
 * missing; memory held, waits and failures are true. False: the device has no
 * memory of weir's. */
bool allocator_glance(int device, struct weir_stats *out);

#endif
