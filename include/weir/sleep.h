/**
 * Sleep: a process gives the memory of its devices back and takes it again.
 *
 * weir_sleep() copies what is live to page-locked host memory, or to files
 * (option sleep_folder), and gives all memory that weir serves from handles
 * back to the driver, for other processes to use: the device's own memory,
 * private pools of graphs, cached and free memory. Addresses stay. weir_wake()
 * maps memory at the same addresses and copies the contents back, so graphs
 * that were captured before are replayed with no new capture.
 *
 * While a device is asleep
 *
 * - its memory must not be used. Under `weir run` kernels, copies, fills and
 *   graphs that are launched wait until the device is awake; without it the
 *   program launches none;
 * - requests for its memory wait until it is awake. Those of the thread that
 *   called weir_sleep() fail with WEIR_ENOTREADY, because a thread that waits
 *   cannot wake the device; with WEIR_SLEEP_FAIL those of all threads do;
 * - blocks can be freed, and their memory does not come back, but for pools
 *   that graphs keep. Snapshots, statistics and weir_check() work; they show
 *   memory that has left as not held.
 *
 * Under `weir run` the memory that the program has from cuMemCreate() leaves
 * and comes back likewise, if it is mapped as a whole in one place and neither
 * exported nor open to another device.
 *
 * Memory that cannot leave stays where it is and is counted in the result:
 * segments of the driver, which cannot come back to their addresses (memory of
 * WEIR_STREAM_ANY without the option may_sleep, pools of WEIR_POOL_SEGMENTS,
 * WEIR_POOL_REGISTRABLE or a source of their own, and all memory if
 * expandable_segments is off), and pages that are pinned or exported to other
 * processes (weir_pin()).
 */
#ifndef WEIR_SLEEP_H
#define WEIR_SLEEP_H

#include <weir/graph.h>
#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Flags of weir_sleep(). */
enum weir_sleep_flags {
	/** Requests of all threads, and launches under `weir run`, fail while
	 * the device is asleep, and do not wait. */
	WEIR_SLEEP_FAIL = 1,
	/** Keep the contents of live blocks only, also in memory that graphs
	 * keep. Without it, the free memory of such pools is copied as well: a
	 * replay writes there, and the program may read its results after weir
	 * has seen the block freed (PyTorch's graph trees do). */
	WEIR_SLEEP_LIVE_ONLY = 2,
	/** Keep no contents at all. */
	WEIR_SLEEP_DISCARD_ALL = 4,
};

/** A range of addresses. */
struct weir_sleep_range {
	const void *addr;
	size_t size; /**< bytes */
};

/** How to sleep. Zero in all fields but struct_size is the default. */
struct weir_sleep_options {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	unsigned flags;     /**< of enum weir_sleep_flags */
	/** Pools and ranges whose contents need not be kept. Their memory comes
	 * back mapped, at its addresses, with undefined contents. Ids are those
	 * of weir_pool_id(). */
	const uint64_t *discard_pools;
	size_t discard_pool_count;
	const struct weir_sleep_range *discard_ranges;
	size_t discard_range_count;
	/** All pools of these names, too (weir_pool_name_set()). */
	const char *const *discard_names;
	size_t discard_name_count;
};

/* X(name, text): why memory stays on a device that is asleep. */
#define WEIR_SLEEP_REASONS(X)                                                  \
	X(SEGMENT, "in segments of the driver")                                \
	X(PINNED, "pinned, or exported to other processes")                    \
	X(REFUSED, "not released by the driver")                               \
	X(SHARED, "the program's own, shared or open to a peer")               \
	X(ODD, "the program's own, not mapped as a whole in one place")

enum weir_sleep_reason {
#define WEIR_SLEEP_ENUM(name, text) WEIR_SLEEP_##name,
	WEIR_SLEEP_REASONS(WEIR_SLEEP_ENUM)
#undef WEIR_SLEEP_ENUM
	    WEIR_SLEEP_REASON_COUNT
};

/** Pieces of memory that stay. */
struct weir_sleep_stay {
	size_t count; /**< segments or handles */
	size_t bytes;
};

/** The sums of a weir_sleep(), over all devices that it was called for. */
struct weir_sleep_result {
	size_t struct_size;     /**< set by the caller: sizeof the struct */
	size_t freed_bytes;     /**< given back to the driver */
	size_t copied_bytes;    /**< of them, copied to host memory or files */
	size_t discarded_bytes; /**< live, but not copied */
	uint64_t wait_ns;       /**< until the work in flight had ended */
	uint64_t copy_ns;       /**< of the copies */
	uint64_t unmap_ns;      /**< of giving the memory back */
	struct weir_sleep_stay stays[WEIR_SLEEP_REASON_COUNT];
};

/** The sums of a weir_wake(). */
struct weir_wake_result {
	size_t struct_size;  /**< set by the caller: sizeof the struct */
	size_t mapped_bytes; /**< taken from the driver */
	size_t copied_bytes; /**< of them, copied from host memory or files */
	uint64_t wait_ns;    /**< until there was memory */
	uint64_t map_ns;     /**< of mapping and copying, the last try only */
};

/**
 * Functions of the program around a sleep, for libraries whose memory weir does
 * not serve. With NCCL 2.29.7 and later, `before` calls ncclCommSuspend(comm,
 * NCCL_SUSPEND_MEM) and `after` calls ncclCommResume(comm) for each
 * communicator; all ranks must do so, since these calls wait for each other.
 */
struct weir_sleep_hook {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	/** Called before the first device goes to sleep, while work and
	 * requests may still begin. May be NULL. Anything but WEIR_OK makes the
	 * sleep fail with that status. */
	enum weir_status (*before)(void *user);
	/** Called when all devices are awake again, also after a sleep that
	 * failed. May be NULL. */
	void (*after)(void *user);
	void *user;
};

/**
 * Add a hook, which is copied; remove one with the same functions and `user`.
 * Hooks are called on the thread that calls weir_sleep() or weir_wake(), which
 * is a thread of weir's for `weir sleep PID`: `before` in the order in which
 * they were added, `after` in the reverse order. They hold no lock of weir. A
 * hook must not be removed while it may be called.
 *
 * @return WEIR_OK
 *         WEIR_EINVAL    no struct_size; there is no such hook
 *         WEIR_EHOSTMEM  there are 16 hooks
 */
WEIR_API enum weir_status weir_sleep_hook_add(
    const struct weir_sleep_hook *hook);
WEIR_API enum weir_status weir_sleep_hook_remove(
    const struct weir_sleep_hook *hook);

/** The reason in words. */
WEIR_API const char *weir_sleep_reason_text(enum weir_sleep_reason reason);

/**
 * Put a device to sleep.
 *
 * Waits until the work in flight on all its streams has ended. A device that is
 * asleep already gives back what it has got since.
 *
 * @param device   a device, WEIR_DEVICE_CURRENT or WEIR_DEVICE_ALL
 * @param options  may be NULL
 * @param result   may be NULL
 * @return WEIR_OK, also if memory stays
 *         WEIR_EINVAL     unknown flags; a pool or a range that weir does not
 *                         have; a struct_size that is not set
 *         WEIR_ENODEVICE
 *         WEIR_ECAPTURE   a stream of the device is being captured
 *         WEIR_ENOTREADY  another thread puts it to sleep or wakes it, or
 *                         memory is still being mapped
 *         WEIR_EHOSTMEM   for the copies; pinned_limit_mb bounds it
 *         WEIR_EFILE      the folder sleep_folder has no space, or cannot be
 *                         written; weir_last_error() has the reason
 *         WEIR_EDRIVER
 *         WEIR_EFORK      in a forked child
 *         After a failure the device is awake and its contents are as before;
 *         the call can be repeated. Of several devices all are awake then.
 *
 * Thread-safe. The caller holds no device work back: see above.
 */
WEIR_API enum weir_status weir_sleep(int device,
    const struct weir_sleep_options *options, struct weir_sleep_result *result);

/**
 * Wake a device: map its memory again, with its contents. In a group, others
 * give unused memory for it, as for a request (options lend_ms and wait_ms).
 *
 * @param device   a device, WEIR_DEVICE_CURRENT or WEIR_DEVICE_ALL. One that is
 *                 awake stays so
 * @param wait_ms  how long to wait for memory that others hold; 0: not at all
 * @param result   may be NULL
 * @return WEIR_OK
 *         WEIR_ENOMEM     others hold the memory, or the limit is lower now
 *         WEIR_ENOTREADY  another thread puts it to sleep or wakes it
 *         WEIR_EFILE      the contents cannot be read from their file
 *         WEIR_EDRIVER, WEIR_ENODEVICE, WEIR_EHOSTMEM, WEIR_EFORK
 *         After a failure it is asleep as before, holds no more memory than
 *         the driver refused to take back, and the call can be repeated.
 */
WEIR_API enum weir_status weir_wake(
    int device, uint64_t wait_ms, struct weir_wake_result *result);

/** Is the device asleep, or about to be, or about to wake? For
 * WEIR_DEVICE_ALL: is any? No driver is called. */
WEIR_API bool weir_is_asleep(int device);

#ifdef __cplusplus
}
#endif

#endif
