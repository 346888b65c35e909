/**
 * weir: a caching GPU memory allocator with stream-ordered reuse.
 *
 * Freed memory stays in the pool of its stream and serves that stream again
 * at once, with no call to the driver and no wait. This header is the manual
 * of the allocator; <weir/stream.h> is that of streams and events,
 * <weir/trace.h> that of callbacks, history and snapshots, and <weir/ctl.h>
 * that of options and statistics by name.
 *
 * Rules that hold for every call
 *
 * - Sizes and limits are in bytes, times in the unit their name says.
 * - A call that can fail returns `enum weir_status` and writes its results
 *   (the last parameters) on success only; a malloc-like call returns NULL.
 *   A failed call changes nothing but the counters of failures.
 * - weir_last_status() and weir_last_error() describe the last call that
 *   failed on the calling thread. Success does not clear them.
 * - Every call is thread-safe unless it says otherwise. No lock of weir is
 *   held while a callback of the user runs.
 * - Nothing touches the GPU before the first call that needs it: loading the
 *   library does not initialise CUDA.
 * - After fork() the child of a process that uses weir has no GPU (a rule of
 *   CUDA): every call that needs one, or that reads or changes what threads
 *   of the parent share, gives WEIR_EFORK or does nothing, and freeing the
 *   parent's memory does nothing. No call waits. Tensors in memory of the
 *   host, and files of them, stay usable.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_API __attribute__((visibility("default")))

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

/** A CUDA stream: the same handle as CUstream and cudaStream_t. */
typedef struct CUstream_st *weir_stream;

/** The legacy default stream; NULL names it too. */
#define WEIR_STREAM_LEGACY ((weir_stream)0x1)
/** The default stream of the calling thread. */
#define WEIR_STREAM_PER_THREAD ((weir_stream)0x2)
/**
 * No stream. Memory allocated for it may be used on any stream at once; once
 * freed it is allocated again only when all work that had been submitted to
 * the device before the free is done. This is what cudaMalloc and cudaFree
 * promise, without their wait.
 */
#define WEIR_STREAM_ANY ((weir_stream) ~(uintptr_t)0)

/** The device that is current for the calling thread; see weir_get_device().*/
#define WEIR_DEVICE_CURRENT (-1)
/** Every device weir has allocated on. */
#define WEIR_DEVICE_ALL (-2)

/** A request above this, 1 EiB, is refused before anything is tried. */
#define WEIR_SIZE_MAX ((size_t)1 << 60)
/** Every address and every size class is a multiple of this, in bytes. */
#define WEIR_GRANULE ((size_t)512)

/* X(name, text): the statuses, their names and their texts are one list. */
#define WEIR_STATUSES(X)                                                       \
	X(WEIR_OK, "success")                                                  \
	X(WEIR_EINVAL, "invalid argument")                                     \
	X(WEIR_ENOMEM, "out of memory")                                        \
	X(WEIR_EHOSTMEM, "out of host memory")                                 \
	X(WEIR_ENOTREADY, "work is not done yet")                              \
	X(WEIR_ENOTSUP, "not supported here")                                  \
	X(WEIR_ECONTEXT, "wrong CUDA context")                                 \
	X(WEIR_ECAPTURE, "not permitted while a stream is captured")           \
	X(WEIR_ENODEVICE, "no such device")                                    \
	X(WEIR_ENODRIVER, "the CUDA driver library cannot be loaded")          \
	X(WEIR_EOLDDRIVER, "the CUDA driver is too old")                       \
	X(WEIR_ENOENTRY, "the CUDA driver lacks an entry point")               \
	X(WEIR_EDRIVER, "the CUDA driver reports an error")                    \
	X(WEIR_EFORK, "CUDA cannot be used in a forked child")                 \
	X(WEIR_EEXIT, "the CUDA driver is shutting down")                      \
	X(WEIR_EFILE, "a file cannot be read or written")

/** The result of a call. WEIR_OK is 0; all others are failures. */
enum weir_status {
#define WEIR_STATUS_ENUM(name, text) name,
	WEIR_STATUSES(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
};

/** The name of a status, "WEIR_ENOMEM"; "WEIR_?" for an unknown one. */
WEIR_API const char *weir_status_name(enum weir_status status);

/** A status in words, "out of memory". */
WEIR_API const char *weir_status_text(enum weir_status status);

/** The status of the last call that failed on this thread, or WEIR_OK. */
WEIR_API enum weir_status weir_last_status(void);

/**
 * One line on the last failure on this thread: what failed, with which
 * arguments, and the driver's own code, as in
 * `cuMemCreate(20971520 bytes, device 0): out of memory (2)`. Empty if
 * nothing has failed. Valid until the next failure on the same thread.
 */
WEIR_API const char *weir_last_error(void);

/**
 * The errno of the system call whose failure was the last failure on this
 * thread: ENOENT for a file that does not exist. 0 if it had another cause, as
 * a file that is not in its format.
 */
WEIR_API int weir_last_errno(void);

/**
 * The status that stands for a CUDA driver result code: 0 is WEIR_OK, 2 is
 * WEIR_ENOMEM. On failure weir_last_error() has the driver's text and the
 * code. Use it to give errors of CUDA calls of your own the same form.
 */
WEIR_API enum weir_status weir_check_driver(int code);

/** The version of the library at hand, "0.1.0". */
WEIR_API const char *weir_version(void);

/**
 * Load the driver, initialise CUDA and read the options of the environment.
 * Every other call does this when needed; call it to learn of a failure
 * early. May be called any number of times.
 *
 * @return WEIR_OK; WEIR_ENODRIVER, WEIR_EOLDDRIVER, WEIR_ENOENTRY or
 *         WEIR_ENODEVICE when there is no usable driver or device;
 *         WEIR_EINVAL when WEIR_CONF or PYTORCH_CUDA_ALLOC_CONF holds an
 *         unknown key or a bad value (weir_last_error() names it). A bad value
 *         of an option of PyTorch's in its own variable is a warning, and the
 *         default holds;
 *         WEIR_EFORK in a forked child.
 */
WEIR_API enum weir_status weir_init(void);

/* ---- Memory ---------------------------------------------------------- */

/**
 * Allocate device memory for work queued on `stream` after this call.
 *
 * The block belongs to `stream`: once freed it serves `stream` again, and not
 * before every stream named by weir_record_stream() has passed the free, and
 * every stream named by weir_record_use() the call.
 *
 * @param size    bytes, > 0; rounded up to a size class (a multiple of 512 B)
 * @param stream  where the memory is first used; NULL is the default stream
 *                of the current device, WEIR_STREAM_ANY any stream
 * @return the address, 512-byte aligned; or NULL, and weir_last_status() is
 *         WEIR_EINVAL   size is 0 or above WEIR_SIZE_MAX; stream was destroyed
 *         WEIR_ENOMEM   every reclaim step was tried; weir_last_error() is a
 *                       report: request, limit, largest free blocks, pending
 *                       bytes, other processes, advice
 *         or any failure of weir_init(); WEIR_ECONTEXT, WEIR_EDRIVER
 *
 * Waits for a stream only as the last reclaim step. Requests for a stream that
 * is being captured, and requests that a route sends there, draw on a private
 * pool: <weir/graph.h>.
 */
WEIR_API void *weir_malloc(size_t size, weir_stream stream);

/**
 * As weir_malloc(), on a named device. The caller's current context does not
 * matter and is left as it was.
 */
WEIR_API void *weir_malloc_on(int device, size_t size, weir_stream stream);

/**
 * As weir_malloc_on(), but a default stream is that of the device's primary
 * context, the one that the CUDA runtime makes, whatever context is current.
 * For NULL, WEIR_STREAM_LEGACY and WEIR_STREAM_PER_THREAD this is faster,
 * because the driver need not be asked which context is current.
 */
WEIR_API void *weir_malloc_primary(int device, size_t size, weir_stream stream);

/**
 * Free a block. Its stream may have it again at once; if other streams were
 * recorded for it, it is *pending* until each has done the work it had queued
 * at this moment.
 *
 * @param ptr  what weir_malloc() returned; NULL does nothing
 * @return WEIR_OK; WEIR_EINVAL if ptr was not allocated by weir, was freed
 *         before, or points into a block (weir_last_error() says which).
 *
 * Never waits, never fails for want of memory. Thread-safe; but the second of
 * two frees of one block is certain to fail only if the first has returned
 * before it begins. If two threads free a block at the same time, both may
 * return WEIR_OK. weir then notices when the block is allocated again: it
 * allocates the block once and says so on stderr, unless both threads allocate
 * it within the same few instructions. With `tcache:0`, and while the history
 * is on, one of the two frees always fails.
 */
WEIR_API enum weir_status weir_free(void *ptr);

/**
 * Free a block from another stream than it was allocated for: all use of it
 * comes before this point in the order of `stream`, and the block belongs to
 * `stream` from now on. cudaFreeAsync() does the same.
 *
 * @return as weir_free(); WEIR_EINVAL also if the stream was destroyed or is
 *         of another device than the block
 */
WEIR_API enum weir_status weir_free_async(void *ptr, weir_stream stream);

/**
 * Say that the block is used on `stream` too, so that after its free it is
 * not reused before the work queued there at the free is done.
 *
 * @param ptr     any address within a live block, so that views work
 * @param stream  NULL is the default stream of the current device, which need
 *                not be the block's; WEIR_STREAM_ANY all work submitted to the
 *                current device, and to the block's
 * @return WEIR_OK, also for the block's own stream (which needs no record);
 *         WEIR_EINVAL if no live block holds ptr or the stream was destroyed;
 *         WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_record_stream(
    const void *ptr, weir_stream stream);

/**
 * Say that all use of the block on `stream` is queued there by now, so that
 * after its free it is not reused before that work is done. Work that `stream`
 * is given later holds nothing back: call it after the last kernel or copy
 * there that uses the block.
 *
 * Call it again after each later use: the latest call for a stream counts.
 * If weir_record_stream() names the stream, before or after, that call counts
 * instead, since it lasts until the free. Calls for small blocks on one stream
 * share an event, which may be recorded a little after the call.
 *
 * @param ptr  as of weir_record_stream()
 * @return as weir_record_stream(). WEIR_EHOSTMEM changes nothing: earlier
 *         records stand, and this use is not recorded.
 */
WEIR_API enum weir_status weir_record_use(const void *ptr, weir_stream stream);

/**
 * Keep the physical pages behind a block where they are until weir_unpin(). It
 * is for users of pages, not of addresses: a network card that the memory is
 * registered with, a peer or a process that has mapped it.
 *
 * A live block never moves, pinned or not. When it is freed its memory is used
 * again at the same addresses, as usual. But while its pages are pinned they
 * are not mapped elsewhere, unmapped or given back to the driver: not by
 * weir_trim(), not by decay, and not to save a request from failing. Pages come
 * in pieces (`handle_mb`, or an allocation of the driver); the whole pieces
 * stay.
 *
 * Pins count: a block that is pinned twice is unpinned twice. Pins of
 * successive blocks at one address count together.
 *
 * @param ptr  what weir_malloc() returned, live
 * @return WEIR_OK; WEIR_EINVAL if no live block starts at ptr; WEIR_EHOSTMEM;
 *         WEIR_EFORK
 *
 * Thread-safe; takes one device's lock, calls no driver, never waits.
 */
WEIR_API enum weir_status weir_pin(const void *ptr);

/**
 * Undo one weir_pin(); after the last, the pages may move and go back again.
 *
 * @param ptr  what weir_pin() was given; the block may have been freed since
 * @return WEIR_OK; WEIR_EINVAL if nothing is pinned by this address, which is
 *         also so after a reset of its device; WEIR_EFORK
 */
WEIR_API enum weir_status weir_unpin(const void *ptr);

/** A live block, as weir knows it. */
struct weir_block_info {
	size_t struct_size;     /**< set by the caller: sizeof the struct */
	void *address;          /**< first byte */
	size_t size;            /**< bytes of the block */
	size_t requested_bytes; /**< bytes asked for */
	int device;
	weir_stream stream;  /**< the stream it belongs to */
	void *segment;       /**< first byte of the mapped range it lies in */
	size_t segment_size; /**< bytes of that range */
	bool expandable;     /**< in an expandable segment */
};

/**
 * Look up a live block by any address within it.
 *
 * @return WEIR_OK; WEIR_EINVAL if no live block holds ptr
 */
WEIR_API enum weir_status weir_block_info(
    const void *ptr, struct weir_block_info *out);

/**
 * Give unused memory back to the driver, largest and least recently used
 * first, until at most `keep_bytes` of unused memory stay cached. Waits for
 * the streams whose freed memory it gives back, and for pending blocks. Use it
 * to make room for another process or library. Without it, memory that has not
 * been used for long goes back as requests come by (the option decay_ms). Pages
 * that are pinned stay (weir_pin()).
 *
 * @param device       a device, WEIR_DEVICE_CURRENT or WEIR_DEVICE_ALL
 * @param keep_bytes   0 gives back all that can be
 * @param freed_bytes  bytes given back; may be NULL
 * @return WEIR_OK; WEIR_ENODEVICE; WEIR_EDRIVER (what had been given back
 *         before the failure stays so)
 */
WEIR_API enum weir_status weir_trim(
    int device, size_t keep_bytes, size_t *freed_bytes);

/**
 * Free and total memory of a device, as a program should see it. Free memory is
 * the driver's free memory plus the unused memory that weir holds, within the
 * limit; a limit of the options counts from the first query on. With
 * `limit_counts:all` what the program has from the driver is used, too; with
 * `show_device:real` the limit is left out.
 */
WEIR_API enum weir_status weir_memory_info(
    int device, size_t *free_bytes, size_t *total_bytes);

/** The largest request that the free blocks of one stream's pools can serve
 * without new memory. */
WEIR_API enum weir_status weir_largest_free(
    int device, weir_stream stream, size_t *bytes);

/**
 * Bound the bytes weir holds on a device, or with `limit_counts:all` those that
 * the process holds there. Memory that is held already
 * stays; a limit below it makes new requests reclaim first.
 *
 * @param bytes  the limit; SIZE_MAX removes it
 */
WEIR_API enum weir_status weir_limit_set(int device, size_t bytes);
/** The limit in force in bytes; SIZE_MAX where there is none. */
WEIR_API enum weir_status weir_limit_get(int device, size_t *bytes);

/**
 * The limit as a fraction of the device's memory. 1 removes it.
 *
 * @return WEIR_EINVAL outside [0, 1] or not a number
 */
WEIR_API enum weir_status weir_fraction_set(int device, double fraction);
/** The limit in force over the device's memory; 1 where there is none. */
WEIR_API enum weir_status weir_fraction_get(int device, double *fraction);

/* ---- Statistics ------------------------------------------------------ */

/**
 * A quantity through time. current = allocated - freed; peak >= current.
 *
 * While one thread allocates, peaks of all memory of a device are exact. A peak
 * of one stream, or of small or large blocks alone, may be too low by the
 * blocks that the thread's cache allocated while the sum of all stayed below
 * its own peak; with `tcache:0` it is exact. With several threads a peak may be
 * too low or too high, by as much as their caches hold.
 */
struct weir_stat {
	uint64_t current;
	uint64_t peak;      /**< highest current since the last peak reset */
	uint64_t allocated; /**< sum of increases since the last reset */
	uint64_t freed;     /**< sum of decreases since the last reset */
};

/** A quantity for all memory, and for its small (<= 1 MiB) and large pools. */
struct weir_stat3 {
	struct weir_stat all;
	struct weir_stat small_pool;
	struct weir_stat large_pool;
};

/**
 * X(name): what is counted, each a struct weir_stat3. Names and meaning are
 * those PyTorch gave them.
 *
 * allocation, allocated_bytes   blocks in the hands of callers
 * active, active_bytes          the same and pending ones
 * requested_bytes               bytes asked for, of active blocks
 * segment                       allocations of the driver (cuMemAlloc)
 * reserved_bytes                physical bytes held from the driver
 * inactive_split(_bytes)        free parts of driver segments partly in use
 */
#define WEIR_STAT3S(X)                                                         \
	X(allocation)                                                          \
	X(segment)                                                             \
	X(active)                                                              \
	X(inactive_split)                                                      \
	X(allocated_bytes)                                                     \
	X(reserved_bytes)                                                      \
	X(active_bytes)                                                        \
	X(inactive_split_bytes)                                                \
	X(requested_bytes)

/**
 * X(name): plain counters since the last reset.
 *
 * num_alloc_retries     last-resort attempts after waiting for streams
 * num_ooms              requests that failed for want of memory
 * num_sync_all_streams  times pending blocks were waited for
 * num_device_alloc      calls that took memory from the driver
 * num_device_free       calls that gave memory back
 * num_gc                passes of the collector of old cached memory
 * num_host_waits        times the host waited for the device
 * num_brief_waits       times it waited before growth, for no longer than a
 *                       driver call takes that maps memory
 * brief_wait_ns         how long these took
 * num_gpu_waits         waits put into a stream to reuse memory
 * gpu_wait_ns           how long these waits kept streams from going on, of
 *                       those that were seen to be over
 * gpu_delay_ns          how late they made the program, at most: the time that
 *                       the host lost by waiting for late streams, as far as
 *                       weir sees it wait, and the lateness of the latest one
 * num_map_calls         physical pieces mapped into expandable segments
 * num_unmap_calls       calls that unmapped ranges of such segments
 * remapped_bytes        bytes of physical memory mapped at another address
 * pin_ns                how long the driver took to page-lock memory
 * unpin_ns              how long it took to give page-locked memory back
 * pin_delay_ns          of both, and of mapping page-locked memory elsewhere,
 *                       what weir's caching cost: all but the first pinning of
 *                       as many bytes as are held. 0 in weir_stats()
 *
 * Requests that their stream's own free memory could not serve at once, by what
 * served them, and the bytes that they asked for (served_..._bytes). All other
 * allocations that were counted were served by that memory.
 *
 * num_served_anywhere   the best fit of all memory (prefer:memory)
 * num_served_ready      free memory of others that needed no wait
 * num_served_cached     blocks that threads had cached and did not use
 * num_served_polled     memory that was found complete when it was asked for
 * num_served_wait       memory behind waits in the stream
 * num_served_moved      memory from several places, mapped together
 * num_served_grown      new memory, or that beside memory moved
 * num_served_unrounded  after all this, the size as asked for
 * num_served_drained    all that threads had cached
 * num_served_forced     memory behind waits of any length
 * num_served_reclaimed  memory given back, or waited for by the host
 *
 * num_planned           requests that got the place of a plan (option plan)
 * num_plans_dropped     plans that were dropped, for want of memory, because
 *                       the program did other requests than they list, or
 *                       because their waits delayed it
 */
#define WEIR_COUNTERS(X)                                                       \
	X(num_alloc_retries)                                                   \
	X(num_ooms)                                                            \
	X(num_sync_all_streams)                                                \
	X(num_device_alloc)                                                    \
	X(num_device_free)                                                     \
	X(num_gc)                                                              \
	X(num_host_waits)                                                      \
	X(num_brief_waits)                                                     \
	X(brief_wait_ns)                                                       \
	X(num_gpu_waits)                                                       \
	X(gpu_wait_ns)                                                         \
	X(gpu_delay_ns)                                                        \
	X(num_map_calls)                                                       \
	X(num_unmap_calls)                                                     \
	X(remapped_bytes)                                                      \
	X(pin_ns)                                                              \
	X(unpin_ns)                                                            \
	X(pin_delay_ns)                                                        \
	X(num_served_anywhere)                                                 \
	X(served_anywhere_bytes)                                               \
	X(num_served_ready)                                                    \
	X(served_ready_bytes)                                                  \
	X(num_served_cached)                                                   \
	X(served_cached_bytes)                                                 \
	X(num_served_polled)                                                   \
	X(served_polled_bytes)                                                 \
	X(num_served_wait)                                                     \
	X(served_wait_bytes)                                                   \
	X(num_served_moved)                                                    \
	X(served_moved_bytes)                                                  \
	X(num_served_grown)                                                    \
	X(served_grown_bytes)                                                  \
	X(num_served_unrounded)                                                \
	X(served_unrounded_bytes)                                              \
	X(num_served_drained)                                                  \
	X(served_drained_bytes)                                                \
	X(num_served_forced)                                                   \
	X(served_forced_bytes)                                                 \
	X(num_served_reclaimed)                                                \
	X(served_reclaimed_bytes)                                              \
	X(num_planned)                                                         \
	X(num_plans_dropped)

/**
 * X(name, label): device memory of the process that weir does not hold, by
 * kind, each a struct weir_stat in bytes named outside_NAME. The preload counts
 * what the program has from the driver itself; docs/limits.md says how.
 *
 * plain     cuMemAlloc() and its like, where the driver served them
 * pooled    stream-ordered memory of pools that the driver serves
 * handles   cuMemCreate() on a device, until no handle and no mapping is left
 * managed   cuMemAllocManaged(), wherever its pages are
 * arrays    arrays and mipmapped arrays
 * graphs    what the driver holds for the memory nodes of graphs
 * external  memory of other interfaces that was imported
 * contexts  the rest of what NVML says of this process: contexts, modules,
 *           stacks, local memory. Only read with `limit_counts:all`
 * imported  memory that another process has from the driver and counts, opened
 *           here. It is in no limit
 */
#define WEIR_OUTSIDE_KINDS(X)                                                  \
	X(plain, "cuMemAlloc")                                                 \
	X(pooled, "memory pools")                                              \
	X(handles, "cuMemCreate")                                              \
	X(managed, "managed memory")                                           \
	X(arrays, "arrays")                                                    \
	X(graphs, "graphs")                                                    \
	X(external, "external memory")                                         \
	X(contexts, "contexts and modules")                                    \
	X(imported, "imported memory")

/** The statistics of a device, or of one stream of it. */
struct weir_stats {
	size_t struct_size; /**< set by the caller: sizeof the struct */
#define WEIR_STATS_FIELD(name) struct weir_stat3 name;
	WEIR_STAT3S(WEIR_STATS_FIELD)
#undef WEIR_STATS_FIELD
	struct weir_stat oversize_allocations; /**< of max_split_size or more */
	struct weir_stat oversize_segments;
#define WEIR_STATS_FIELD(name) uint64_t name;
	WEIR_COUNTERS(WEIR_STATS_FIELD)
#undef WEIR_STATS_FIELD
	uint64_t max_split_size; /**< the option in force, bytes */
	uint64_t pending_bytes;  /**< freed, not yet seen to be complete */
	uint64_t metadata_bytes; /**< host memory weir uses for itself */
/** Of the device, 0 for one stream and for page-locked memory. */
#define WEIR_STATS_FIELD(name, label) struct weir_stat outside_##name;
	WEIR_OUTSIDE_KINDS(WEIR_STATS_FIELD)
#undef WEIR_STATS_FIELD
};

/**
 * Read the statistics of a device, all its pools included. A device weir has
 * not been used on reads as all zeros.
 *
 * Reading changes nothing and does not ask the device about its work. Memory is
 * pending from its free until weir has seen that the work on it is done, and
 * weir looks when memory is requested, at weir_trim(), and around captures. So
 * the pending_bytes of a program that requests nothing are those of its latest
 * look; the work may be done by now. Memory that a program under `weir run` has
 * freed by cudaFree() is pending in the same way.
 */
WEIR_API enum weir_status weir_stats(int device, struct weir_stats *out);

/**
 * Read the part of one stream: blocks that belong to it. Segments are counted
 * for the device, since the blocks of one may belong to several streams. Memory
 * that moves between streams counts as freed by one and allocated by the
 * other. num_ooms and num_alloc_retries are those of requests for the stream.
 * Where it has memory in several pools (<weir/graph.h>) each peak is the sum of
 * theirs, and so a bound.
 */
WEIR_API enum weir_status weir_stats_stream(
    int device, weir_stream stream, struct weir_stats *out);

/** Make every peak equal to its current value. */
WEIR_API enum weir_status weir_stats_reset_peak(int device);

/** Zero the allocated and freed sums and the counters. */
WEIR_API enum weir_status weir_stats_reset_accumulated(int device);

/**
 * One statistic by its flat name, as tools print it: `allocated_bytes.all.peak`
 * or `num_ooms`.
 *
 * @param i      0, 1, ...; names are in a fixed order
 * @param name   its name, static
 * @param value  its value in `stats`
 * @return false when there is no i-th, or a pointer is NULL
 */
WEIR_API bool weir_stats_item(const struct weir_stats *stats, size_t i,
    const char **name, uint64_t *value);

/**
 * Walk all memory and compare it with the invariants of docs/invariants.md.
 * Changes nothing; trusts no counter.
 *
 * @param text  where the faults are written, a line each; may be NULL
 * @param size  bytes at text; the text is cut there and always terminated
 * @return the number of faults; 0 is health
 */
WEIR_API size_t weir_check(char *text, size_t size);

/* ---- Options --------------------------------------------------------- */

/** Where the value of an option came from. */
enum weir_option_source {
	WEIR_OPTION_DEFAULT,
	WEIR_OPTION_ENVIRONMENT,
	WEIR_OPTION_CALL,
};

/** One option. Strings belong to weir; `value` lives until the next change. */
struct weir_option {
	const char *key;
	const char *type;     /**< "bool", "bytes", "MiB", "fraction", ... */
	const char *fallback; /**< the default as text */
	const char *range;    /**< what is accepted, in words */
	const char *help;     /**< one sentence */
	char value[128];      /**< in force, as text */
	enum weir_option_source source;
};

/**
 * Set options from a text "key:value,key:value". All of it is checked before
 * any of it takes effect. Each set of values that was in force is kept, because
 * another thread may still read it: 3.1 KB each, and 4,096 different ones at
 * most. One that was in force before can always be set again.
 *
 * @return WEIR_OK; or, with nothing changed,
 *         WEIR_EINVAL    weir_last_error() names the key and what would have
 *                        been accepted
 *         WEIR_EHOSTMEM  no host memory, or no new set of values is kept
 */
WEIR_API enum weir_status weir_options_set(const char *conf);

/**
 * Set options from a text in the syntax of PYTORCH_CUDA_ALLOC_CONF, read by the
 * rules of PyTorch's parser. Blanks mean nothing; True and False are the only
 * bools; a number ends at the first character that it cannot have, and a
 * negative one counts down from 2^64. max_split_size_mb,
 * max_non_split_rounding_mb, garbage_collection_threshold and
 * roundup_power2_divisions are set to their defaults first. Options of
 * PyTorch's that weir does not have are ignored.
 *
 * In the environment a wrong value of an option that PyTorch has is a warning,
 * and the default holds; here it is an error.
 *
 * @return as weir_options_set()
 */
WEIR_API enum weir_status weir_options_set_pytorch(const char *conf);

/**
 * The i-th option, in the manual's order. Reads the environment if that has
 * not happened, but does not touch the driver.
 *
 * @return WEIR_OK; WEIR_EINVAL when there is no i-th, or the environment is
 *         wrong
 */
WEIR_API enum weir_status weir_option_at(size_t i, struct weir_option *out);

/* ---- Messages -------------------------------------------------------- */

/** How much a message matters; each level has those before it. */
enum weir_log_level {
	WEIR_LOG_ERROR, /**< something that was asked for is not done */
	WEIR_LOG_WARN,  /**< something that the user should know */
	WEIR_LOG_INFO,  /**< what weir decided, and why */
	WEIR_LOG_DEBUG,
};

/** `text` is one message, without a line's end; valid during the call only. */
typedef void (*weir_log_callback)(
    enum weir_log_level level, const char *text, void *user);

/**
 * Send weir's messages to a function of the program, instead of to stderr.
 *
 * The callback runs on the thread that has the message, and may run on several
 * threads at once. Locks of weir may be held: it must not call weir or CUDA,
 * and must not wait for a thread that may be in weir. A call under way on
 * another thread may still be running when this returns.
 *
 * @param level     the least important messages to send. The environment
 *                  variable WEIR_LOG counts for stderr only
 * @param callback  NULL: stderr again, at the level of WEIR_LOG
 * @param user      what the callback is given
 * @return WEIR_OK; WEIR_EINVAL for an unknown level
 */
WEIR_API enum weir_status weir_log_set(
    enum weir_log_level level, weir_log_callback callback, void *user);

/* ---- Devices --------------------------------------------------------- */

/** The number of devices. */
WEIR_API enum weir_status weir_device_count(int *count);

/**
 * The current device of this thread, which calls with WEIR_DEVICE_CURRENT or
 * without a device use: the device of the current CUDA context; with no
 * context, the one last set by weir_set_device(); else 0.
 */
WEIR_API enum weir_status weir_get_device(int *device);

/** Make the primary context of a device current on this thread. */
WEIR_API enum weir_status weir_set_device(int device);

/**
 * Let another device read and write the memory of a device: the memory that is
 * mapped now or later, and the memory that weir_ipc_open() has mapped for the
 * device. The access lasts for the life of the process. It does not include
 * segments of the driver: cuCtxEnablePeerAccess() opens those.
 *
 * @param device  the number of the device with the memory
 * @param peer    the number of the device that gets access; `device` itself
 *                always has it
 * @return WEIR_OK       the peer has access to all of the memory
 *         WEIR_ENODEVICE there is no such device
 *         WEIR_ENOTSUP  the peer cannot reach the memory
 *         WEIR_ENOMEM, WEIR_EDRIVER, WEIR_ECONTEXT
 *                       the driver refused; weir_last_error() names the call
 *
 * After a failure memory that is mapped later gives the peer no access, and
 * weir withdraws the access that the call has already given. If the driver
 * refuses that as well, twice for one piece of memory, the peer keeps its
 * access to that piece until it is unmapped. All else is as before, and the
 * call can be repeated.
 *
 * Thread-safe: a second call waits for the first, and so does not return
 * WEIR_OK for an access that the first withdraws. Waits for memory that other
 * threads are just mapping.
 */
WEIR_API enum weir_status weir_peer_access(int device, int peer);

/** A device: its name, size and capabilities. */
struct weir_device_info {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	char name[256];
	int capability_major;
	int capability_minor;
	size_t total_bytes;
	char uuid[48];
	char pci_bus_id[32];
	int driver_version; /**< 13000 is 13.0 */
	bool simulated;     /**< simcuda, not a GPU */
};

/** Describe a device; WEIR_DEVICE_CURRENT is the current one. */
WEIR_API enum weir_status weir_device_info(
    int device, struct weir_device_info *out);

/** Measurements of a device by its management library, NVML. */
struct weir_telemetry {
	size_t struct_size;      /**< set by the caller: sizeof the struct */
	int temperature_celsius; /**< of the chip */
	unsigned power_milliwatts;
	unsigned sm_clock_mhz;
	unsigned memory_clock_mhz;
	unsigned utilization_percent;
	size_t memory_used_bytes; /**< by all processes */
	size_t processes;         /**< that hold memory there */
};

/**
 * Measure a device.
 *
 * @return WEIR_OK; WEIR_ENOTSUP where NVML cannot be loaded or does not know
 *         the device; a value the device does not measure reads as 0
 */
WEIR_API enum weir_status weir_telemetry(
    int device, struct weir_telemetry *out);

#ifdef __cplusplus
}
#endif

#endif
