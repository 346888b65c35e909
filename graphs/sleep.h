/*
 * Sleep for another process's sake, from which a device wakes by itself:
 * allocator/private/sleeping.h.
 */
#ifndef GRAPHS_SLEEP_H
#define GRAPHS_SLEEP_H

#include <weir/sleep.h>

/*
 * Put a device to sleep as weir_sleep() does, but only if it is awake and no
 * work is in flight: WEIR_ENOTREADY otherwise, and nothing has changed. It
 * dozes then: the next launch or request wakes it.
 */
enum weir_status sleep_doze(int device, struct weir_sleep_result *result);

/* Wake a device that dozes, as weir_wake() does, within `wait_ms` of the
 * options. WEIR_ENOTREADY: it does not doze, or another thread wakes it. */
enum weir_status sleep_end_doze(int device, struct weir_wake_result *result);

#endif
