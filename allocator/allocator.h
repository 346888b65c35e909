/*
 * Calls of the allocator for other parts of the tree, beyond <weir/weir.h>.
 */
#ifndef ALLOCATOR_ALLOCATOR_H
#define ALLOCATOR_ALLOCATOR_H

#include <stdbool.h>

#include <weir/host.h>
#include <weir/weir.h>

#include "driver/abi.h"

struct arena;

/* As weir_malloc(), in an arena that the caller owns. */
enum weir_status allocator_malloc_in(
    struct arena *arena, size_t size, weir_stream handle, void **out);

/* As weir_malloc_on(), for memory that the program asks of the driver: a route
 * serves it only to a pool of WEIR_POOL_SERVES_DRIVER, or if the stream is
 * captured. */
void *allocator_malloc_for_driver(int device, size_t size, weir_stream stream);

/* The primary context of a device has been reset: all its memory is gone, and
 * addresses in it are foreign from now on. The driver is called only to remove
 * mappings and address reservations, which outlive a context. */
void allocator_forget_device(int device);

/* From now on memory of cuMemAlloc serves device-scope requests only. Else it
 * serves streams, too, while it is free. */
void allocator_keep_apart(void);

/* Make an arena of a device whose memory is kept apart, with one owner; let
 * another device use its memory, present and future; end its ownership. A
 * device that is forgotten takes its arenas along. */
enum weir_status allocator_make_arena(int device, struct arena **out);
enum weir_status allocator_open_arena(struct arena *arena, int peer);
void allocator_drop_arena(struct arena *arena);

/* Does memory of streams come in expandable segments on the device? False,
 * too, if the driver does not say. Needs no context. */
bool allocator_maps(int device);

/* True if an address lies in a range that weir has from the driver, in use,
 * cached or unmapped. The driver must not be asked to free it. */
bool allocator_owns(CUdeviceptr addr);

/* True if an address lies in page-locked host memory of weir's. */
bool allocator_owns_host(CUdeviceptr addr);

/* The block that a free names. */
struct allocator_block {
	int device;
	size_t requested_bytes;
	bool of_no_stream;   /* device-scope: of WEIR_STREAM_ANY */
	bool host;           /* page-locked host memory */
	unsigned host_flags; /* those that it was asked for with */
};

/* The live block that begins at an address. No lock is taken: the caller owns
 * the block, and no other thread may free it meanwhile. False: there is
 * none. */
bool allocator_find(const void *ptr, struct allocator_block *out);

/*
 * As weir_malloc_on() and weir_free_async(), but only by the calling thread's
 * cache. No driver is called and no status is set. NULL and false: the cache
 * cannot serve the call, and nothing has changed.
 *
 * @param stream   not NULL
 * @param context the current one for a default stream; else NULL
 */
void *allocator_malloc_cached(
    int device, size_t size, weir_stream stream, CUcontext context);
bool allocator_free_cached(
    void *ptr, weir_stream stream, CUcontext context, size_t *requested_bytes);

/* As weir_host_malloc_on(), in the place of the driver's memory: with its
 * alignment, and with flags that allocator_find() tells. */
enum weir_status allocator_malloc_host(
    int device, size_t size, unsigned flags, void **out);

/* As weir_free(), for a block that no stream uses any more: it is free at
 * once. */
enum weir_status allocator_free_done(void *ptr);

/* As weir_stats(), or weir_host_stats() with `host`, but without the counts
 * that thread caches have not reported yet. Memory held, waits and failures are
 * exact. False: weir has no memory on the device. */
bool allocator_glance(int device, bool host, struct weir_stats *out);

/* The memory of a device as a program is to see it: the device's going in, and
 * coming out the limit's, unless `show_device:real`. */
struct shown_memory {
	size_t free_bytes;
	size_t total_bytes;
	size_t
	    used_bytes; /* out: what counts in the limit; not cached memory */
	bool limited;   /* out: a limit is shown */
};

/* Show the memory of a device; -1: one that the driver has not named, for which
 * the options say the limit. Makes no context and calls no driver. */
void allocator_show_memory(int device, struct shown_memory *m);

/* Claim memory that the driver is about to be asked for, of a kind that a limit
 * may cover (enum outside_kind): outside_claim() within the limit of the
 * device. WEIR_ENOMEM if it does not fit; the status names the kinds and what
 * they hold. Makes no context. */
enum weir_status allocator_claim_outside(int device, int kind, size_t bytes);

/* Measure what contexts and modules take: the rest of what NVML says of this
 * process. The first call loads NVML. Where NVML does not name the process, as
 * in a container, there is nothing to count. Holds no lock while it asks. */
void allocator_measure_contexts(int device);

/* As weir_host_source(), but without a try. False: there has been none. */
bool allocator_host_source(int device, enum weir_host_source *out);

#endif
