/**
 * weir: options, statistics and limits by name.
 *
 * Each value has a path, parts with a dot between them, and is read and set as
 * text. The same paths are used by this header, by the command `weir ctl PID
 * PATH` and, for options, by the environment (`WEIR_CONF=option.tcache:0`; the
 * part `option.` may be left out there).
 *
 *     version                 the version of the library
 *     devices                 how many devices weir has memory of
 *     metadata                bytes of host memory weir uses for itself
 *     option.KEY              an option; `weir options` lists the keys
 *     history.level           off, none, state, alloc or all; may be set
 *     limit.DEVICE            the limit of a device in bytes; may be set
 *     sleep.state             awake or asleep; may be set: docs/sleep.md
 *     sleep.NAME              a number of the latest sleep or wake
 *     stats.NAME              a statistic of all devices together
 *     stats.DEVICE.NAME       a statistic of one device
 *     pinned.NAME             those of page-locked host memory
 *     pinned.DEVICE.NAME
 *     reset.peaks, reset.sums set to a device's number, or to `all`
 *
 * DEVICE is a number, and appears once weir has memory of that device. NAME is
 * one of
 *
 *     live, blocks            bytes and blocks in the hands of callers
 *     pending                 bytes freed, not yet seen to be complete
 *     cached                  held - live - pending
 *     held                    bytes of physical memory from the driver
 *     requested               bytes asked for, of live and pending blocks
 *     live_peak, held_peak    the most since the last reset of peaks
 *     allocations, frees      since the last reset
 *     driver_allocations, driver_frees
 *                             calls of the driver, since the last reset
 *     host_waits, brief_waits, gpu_waits
 *                             waits for memory, since the last reset
 *     ooms                    requests that failed, since the last reset
 *
 * or a flat name of weir_stats_item(), as `allocated_bytes.small_pool.peak`.
 * Peaks of several devices are added up, although they were not at one time.
 *
 * No call here touches the driver, and none waits for a device, but for
 * setting sleep.state.
 */
#ifndef WEIR_CTL_H
#define WEIR_CTL_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of a path and of a text value, with the zero at the end. */
#define WEIR_CTL_PATH 128
#define WEIR_CTL_TEXT 1024

/** The type of a value. Each value has its text; `number` and `real` depend on
 * the type. */
enum weir_ctl_type {
	WEIR_CTL_TYPE_TEXT,  /**< only text */
	WEIR_CTL_TYPE_FLAG,  /**< `number` is 0 or 1 */
	WEIR_CTL_TYPE_COUNT, /**< `number`; UINT64_MAX is unlimited or off */
	WEIR_CTL_TYPE_REAL,  /**< `real` */
};

/** A value. Strings that are pointers belong to weir and live for ever. */
struct weir_ctl {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	enum weir_ctl_type type;
	bool readable;
	bool writable;
	uint64_t number;
	double real;
	const char *unit;     /**< "bytes", "MiB", "ms", or "" */
	const char *accepted; /**< what it may be set to, in words, or "" */
	const char *help;     /**< one sentence */
	char path[WEIR_CTL_PATH];
	char text[WEIR_CTL_TEXT]; /**< the value, as weir_ctl_set() takes it */
};

/**
 * Read the value of a path.
 *
 * @param path  all of it, as "stats.0.held"
 * @return WEIR_OK; WEIR_EINVAL if there is no such path (weir_last_error() has
 *         the nearest one), if it can only be set, or if the environment holds
 *         a wrong option; a struct_size that is not set
 *
 * Thread-safe; takes the locks that weir_stats() takes.
 */
WEIR_API enum weir_status weir_ctl_get(const char *path, struct weir_ctl *out);

/**
 * Set the value of a path. A size in bytes may end in K, M, G or T, powers of
 * 1,024.
 *
 * Some options are heeded only at the first allocation: `watch`, `snapshot`,
 * `snapshot_signal`, `history` and `history_entries`; the limits
 * `memory_limit_mb` and `per_process_memory_fraction` only at the first use of
 * a device. After that they are refused here, since setting them would do
 * nothing; set `history.level` and `limit.DEVICE` then.
 *
 * @return WEIR_OK; WEIR_EINVAL if there is no such path, it can only be read,
 *         or the value is not accepted (weir_last_error() says what would be);
 *         WEIR_ENOTSUP if it would have no effect any more; WEIR_EHOSTMEM.
 *         Nothing has changed then
 *
 * Thread-safe.
 */
WEIR_API enum weir_status weir_ctl_set(const char *path, const char *value);

/** `value` is valid during the call only. */
typedef void (*weir_ctl_visitor)(const struct weir_ctl *value, void *user);

/**
 * Call `visitor` with `user` for the path `prefix` and for each path below it,
 * as "stats.0" for all statistics of device 0; in the order of this page. No
 * lock of weir is held during the calls.
 *
 * @param prefix  "" or NULL: all
 * @return WEIR_OK; WEIR_EINVAL if there is no such path, or visitor is NULL
 */
WEIR_API enum weir_status weir_ctl_list(
    const char *prefix, weir_ctl_visitor visitor, void *user);

#ifdef __cplusplus
}
#endif

#endif
