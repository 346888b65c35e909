/**
 * Being told what the allocator does.
 *
 * Observers are called on the thread that met the event, with no lock of weir
 * held: they may call weir.
 */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A request that failed for want of memory, after every reclaim step. */
struct weir_oom {
	size_t struct_size; /**< bytes of this struct, set by weir */
	int device;
	weir_stream stream;
	size_t requested_bytes; /**< what the caller asked for */
	size_t rounded_bytes;   /**< its size class */
	size_t limit_bytes;    /**< the limit in force, or the device's total */
	size_t reserved_bytes; /**< what weir holds */
	size_t allocated_bytes; /**< of these, in the hands of callers */
	size_t pending_bytes;   /**< of these, waiting for other streams */
	size_t device_free_bytes;
	const char *report; /**< the text of weir_last_error() */
};

/** Called at each WEIR_ENOMEM. `oom` is valid during the call only. */
typedef void (*weir_oom_observer)(const struct weir_oom *oom, void *user);

/**
 * Call `observer` with `user` at every out-of-memory failure.
 *
 * @return WEIR_OK; WEIR_EINVAL for NULL or for a pair that is there already;
 *         WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_oom_observer_add(
    weir_oom_observer observer, void *user);

/** Stop calling it. WEIR_EINVAL if the pair is not there. A call under way on
 * another thread may still be running when this returns. */
WEIR_API enum weir_status weir_oom_observer_remove(
    weir_oom_observer observer, void *user);

#ifdef __cplusplus
}
#endif

#endif
