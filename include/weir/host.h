/**
 * weir: page-locked ("pinned") host memory, cached.
 *
 * The device copies from and to page-locked memory without a detour, and while
 * the host goes on. Locking pages is slow, so weir keeps freed memory and
 * allocates from it.
 *
 * Who may use a block, and when
 *
 * - The host may use a block as soon as it is allocated. The host frees it when
 *   it has no use for it any more.
 * - A copy or a kernel that is queued uses the block later. Call
 *   weir_host_record() after queueing it: then the freed block is not allocated
 *   again before the work that its streams had at the free is done. A late
 *   stream holds back the blocks that it uses, and no others.
 * - Without a record a freed block serves the next request at once.
 * - While a stream is captured, no event shows when its work is done. A freed
 *   block with a record of that stream waits until the capture has ended and
 *   the work that the stream has queued is done: nothing is lost. Memory that a
 *   graph reads or writes at its launches must stay allocated as long as the
 *   graph is launched, as with the driver's own memory.
 *
 * Memory held
 *
 * Sizes below 4 KiB are rounded up to multiples of 64 bytes, sizes up to 256
 * KiB to multiples of 512, larger ones to whole pages. So from 512 bytes on
 * less than an eighth of a block is lost. Blocks are cut from free memory, and
 * free neighbours merge.
 *
 * Memory comes in handles of the driver of 2 to 8 MiB, which are mapped where a
 * request needs them; where the driver has none, in registered pages
 * (pinned_source). Before weir takes more memory from the system than a bound
 * allows, it moves what it holds free, or gives back as much. The bound is nine
 * eighths of the peak in use since the last trim or decay (prefer:speed: 1.5
 * times that peak), and never less than the peak plus 16 MiB. That may take
 * half of delay_percent of the program's time (pin_delay_ns); beyond that weir
 * holds more instead. Memory that has been unused for decay_ms goes back in
 * time. Options: pinned_source, pinned_limit_mb, pinned_idle_mb,
 * pinned_num_register_threads, pinned_reserve_segment_size_mb,
 * pinned_use_background_threads.
 *
 * Memory is allocated on behalf of a device, in its context, on the device's
 * NUMA node if that has room. All devices can use the memory. A reset of the
 * device ends it.
 *
 * The rules of <weir/weir.h> hold: sizes are bytes, a failed call changes
 * nothing, and every call is thread-safe. Any thread may record and free what
 * another allocated. Every call that needs the driver may fail as weir_init()
 * does.
 */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Properties of host memory; bits, with the values of CU_MEMHOSTALLOC_... */
enum weir_host_flags {
	WEIR_HOST_PORTABLE = 1,       /**< page-locked for all contexts */
	WEIR_HOST_MAPPED = 2,         /**< has a device pointer */
	WEIR_HOST_WRITE_COMBINED = 4, /**< slow to read for the host */
};

/** Where page-locked memory comes from, the best first. */
enum weir_host_source {
	WEIR_HOST_FROM_HANDLES, /**< handles of the driver, mapped in parts */
	WEIR_HOST_FROM_SYSTEM,  /**< pages registered with the driver */
	WEIR_HOST_FROM_DRIVER,  /**< cuMemHostAlloc() */
};

/*
 * All page-locked memory of weir has one address, for the host and all devices.
 * Memory that is passed to code which asks the driver for its device pointer
 * (cuMemHostGetDevicePointer(), cudaHostGetDevicePointer()) has to be allocated
 * with WEIR_HOST_MAPPED: of other memory the driver may give the pointer of its
 * neighbour.
 */

/**
 * Allocate page-locked host memory on behalf of the current device. It is the
 * caller's until weir_host_free(); its first contents are undefined.
 *
 * @param size  bytes, > 0
 * @return the address, the same for the host and all devices, aligned to 64
 *         bytes, from 4 KiB on to 512, and above 256 KiB to a page; or NULL,
 *         and weir_last_status() is
 *         WEIR_EINVAL    size is 0 or above WEIR_SIZE_MAX
 *         WEIR_EHOSTMEM  there is no more, or the limit is reached, and
 *                        nothing unused is left to give back; or size is
 *                        more than the machine's memory
 *         WEIR_EDRIVER   the driver refuses otherwise
 *         or any failure of weir_init(); WEIR_ECONTEXT
 *
 * Waits for streams only if there is no other memory. A block from the thread's
 * cache takes no lock. With one device it takes no call of the driver either;
 * with several, the driver is asked which is current.
 */
WEIR_API void *weir_host_malloc(size_t size);

/**
 * As weir_host_malloc(), for a named device and with flags. Memory from handles
 * and registered memory are portable and mapped whatever the flags are. Write-
 * combined memory always comes from cuMemHostAlloc().
 *
 * @param device  a device, or WEIR_DEVICE_CURRENT
 * @param size    bytes, > 0
 * @param flags   of enum weir_host_flags; 0 is none
 * @return as weir_host_malloc(); WEIR_EINVAL also for other flags;
 *         WEIR_ENODEVICE
 */
WEIR_API void *weir_host_malloc_on(int device, size_t size, unsigned flags);

/**
 * Free a block of page-locked memory. If streams were recorded for it it is
 * *pending* until each has done the work it had queued at this moment.
 *
 * @param ptr  what weir_host_malloc() returned; NULL does nothing
 * @return WEIR_OK; WEIR_EINVAL if ptr was not allocated so, was freed before,
 *         or points into a block (weir_last_error() says which)
 *
 * Never fails for want of memory. Does not wait, unless it has to give memory
 * back because of pinned_idle_mb: the driver may then wait for the device. Two
 * frees of one block at the same time may both succeed, as with weir_free(),
 * which frees host memory too.
 */
WEIR_API enum weir_status weir_host_free(void *ptr);

/**
 * Say that work queued on a stream uses the block. The record lasts until the
 * block is freed. Call it once for each stream.
 *
 * @param ptr     any address within a live block
 * @param stream  a stream of any device; WEIR_STREAM_ANY is all work submitted
 *                to the current device
 * @return WEIR_OK; WEIR_EINVAL if no live block of page-locked memory of weir's
 *         holds ptr, or the stream was destroyed; WEIR_EHOSTMEM
 *
 * Does not wait.
 */
WEIR_API enum weir_status weir_host_record(const void *ptr, weir_stream stream);

/**
 * Is the memory at an address page-locked: weir's, allocated with the driver,
 * or registered with it? False also where there is no driver to ask. Never
 * fails, and leaves weir_last_status() as it was.
 *
 * @param ptr  any address, also within a block
 */
WEIR_API bool weir_host_is_pinned(const void *ptr);

/**
 * Page-lock memory of the caller's own, in the context of the current device,
 * until weir_host_unregister(). The memory stays the caller's, who must not
 * free it before; it is in no statistics and under no limit.
 *
 * @param ptr    the first byte, of any alignment; whole pages are locked
 * @param size   bytes, > 0
 * @param flags  of enum weir_host_flags, but not WEIR_HOST_WRITE_COMBINED
 * @return WEIR_OK; WEIR_EINVAL if ptr is NULL, size 0 or above WEIR_SIZE_MAX,
 *         flags are others, or some of it is page-locked already
 *         (weir_last_error() says by whom); WEIR_EHOSTMEM if the system locks
 *         no more; WEIR_EDRIVER
 *
 * Several threads may register at once; no lock is held over it.
 */
WEIR_API enum weir_status weir_host_register(
    void *ptr, size_t size, unsigned flags);

/**
 * Undo weir_host_register(), when no work uses the memory any more.
 *
 * @param ptr  the address that was registered
 * @return WEIR_OK; WEIR_EINVAL if no registration begins there, or the memory
 *         is weir's own; WEIR_EDRIVER
 */
WEIR_API enum weir_status weir_host_unregister(void *ptr);

/**
 * Prepare page-locked memory ahead. A thread of weir's takes it from the system
 * until `bytes` are held, used ones included. From then on so many stay held:
 * neither weir_host_trim() nor decay_ms give them back. Requests do not wait
 * for the thread; they are served by what there is, or take memory themselves.
 * Pinning takes some 0.25 s for each GiB.
 *
 * The option pinned_reserve_segment_size_mb does the same for each kind of
 * memory, at its first request.
 *
 * @param device  a device, or WEIR_DEVICE_CURRENT
 * @param bytes   of the memory that weir_host_malloc() allocates; 0 ends the
 *                reserve, and its memory may go back
 * @return WEIR_OK; WEIR_EHOSTMEM if the machine has less memory;
 *         WEIR_ENODEVICE; any failure of weir_init(). That the system has no
 *         more memory, or pinned_limit_mb is reached, is no failure: the
 *         reserve is what there is, as weir_host_stats() tells.
 *
 * Does not wait.
 */
WEIR_API enum weir_status weir_host_reserve(int device, size_t bytes);

/**
 * Ask where weir_host_malloc() gets its memory from: what the option
 * pinned_source names, or the next source in the list if the driver refuses
 * that. Only a try shows whether it does, so if there has been no request, this
 * call allocates a block and frees it.
 *
 * @param device  a device, or WEIR_DEVICE_CURRENT
 * @param out     the source
 * @return WEIR_OK; WEIR_EINVAL if out is NULL; WEIR_EHOSTMEM; WEIR_ENODEVICE;
 *         any failure of weir_init()
 */
WEIR_API enum weir_status weir_host_source(
    int device, enum weir_host_source *out);

/** The word of a source in the option pinned_source, as static text: "handles",
 * "system" or "driver". NULL for other values. Never fails. */
WEIR_API const char *weir_host_source_name(enum weir_host_source source);

/**
 * Give unused page-locked memory back to the system, the longest unused first.
 * Waits for pending blocks. Memory that the driver does not take back stays.
 *
 * @param device       a device, WEIR_DEVICE_CURRENT or WEIR_DEVICE_ALL
 * @param keep_bytes   bytes that may stay unused, of all kinds and devices
 *                     together; 0 empties the cache
 * @param freed_bytes  bytes given back; may be NULL
 * @return WEIR_OK; WEIR_ENODEVICE
 */
WEIR_API enum weir_status weir_host_trim(
    int device, size_t keep_bytes, size_t *freed_bytes);

/**
 * The statistics of page-locked memory allocated on behalf of a device; none of
 * it is in weir_stats(). Names have the same meaning as there, with the system
 * in the driver's place; small is up to 256 KiB. Memory registered by the
 * caller is not counted. A device with no such memory reads as all zeros.
 *
 * @param device  a device, or WEIR_DEVICE_CURRENT
 * @param out     its struct_size is set by the caller
 * @return WEIR_OK; WEIR_EINVAL if out is NULL or its struct_size is not set;
 *         WEIR_ENODEVICE
 */
WEIR_API enum weir_status weir_host_stats(int device, struct weir_stats *out);

/** Make every peak equal to its current value. WEIR_OK; WEIR_ENODEVICE. */
WEIR_API enum weir_status weir_host_stats_reset_peak(int device);

/** Zero the allocated and freed sums and the counters. WEIR_OK;
 * WEIR_ENODEVICE. */
WEIR_API enum weir_status weir_host_stats_reset_accumulated(int device);

#ifdef __cplusplus
}
#endif

#endif
