/*
 * The CUDA driver, found at run time.
 *
 * weir uses the driver API as its only interface to CUDA: one table of function
 * pointers, filled from libcuda.so.1 (or the library that WEIR_LIBCUDA names)
 * by cuGetProcAddress. simcuda is a libcuda like any other. No library is
 * loaded, and no call is made, before driver_get().
 */
#ifndef DRIVER_DRIVER_H
#define DRIVER_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/weir.h>

#include "driver/abi.h"

/* The lowest driver version that weir supports: 11.4, which has VMM. Entries
 * that its cuGetProcAddress does not return are looked up by dlsym. */
enum { DRIVER_VERSION_MIN = 11040 };

struct driver {
/* One pointer for each entry, with the entry's name: driver->cuMemCreate(...).
 * An optional entry that the driver lacks is NULL. */
#define DRIVER_FIELD(name, version, required, params) CUresult(*name) params;
	DRIVER_ENTRIES(DRIVER_FIELD)
#undef DRIVER_FIELD
	int version;      /* 13000 means 13.0 */
	int device_count; /* > 0 */
	/* The primary context of each device; NULL until it is retained. The
	 * table is never freed. */
	_Atomic(CUcontext) *contexts;
	bool simulated;           /* the library exports simcuda_version() */
	uint64_t (*now_ns)(void); /* returns its virtual time; NULL: none */
	void *library;            /* dlopen handle; never closed */
};

/*
 * Load the library, call cuInit and count devices, once. Later calls return the
 * same table or the same failure. WEIR_EFORK in a forked child. The table is
 * never freed.
 */
enum weir_status driver_get(const struct driver **out);

/* The table if driver_get() has succeeded before, else NULL. One load. */
#pragma GCC visibility push(hidden)
extern const struct driver *_Atomic driver_published;
#pragma GCC visibility pop
static inline const struct driver *
driver_peek(void)
{
	return atomic_load_explicit(&driver_published, memory_order_acquire);
}

/* The time in ns by the devices' clock: the host's, or a simulation's. The
 * starting point is arbitrary. */
uint64_t driver_time_ns(void);

/* How long the program has run, by that clock: since weir was loaded, or since
 * the simulation began. */
uint64_t driver_age_ns(void);

/*
 * For a preload: find entries by this function instead of dlopen and dlsym, so
 * that weir calls the real driver and not the hooks. Call it before the first
 * driver_get(). `find` is called for cuGetProcAddress_v2, then for
 * cuGetProcAddress, by exported name, and for each entry that these do not
 * return.
 */
void driver_set_finder(void *(*find)(const char *symbol));

/*
 * Turn a driver's result into a status, and record the call, its arguments and
 * the driver's own text: `cuMemCreate(2097152 bytes, device 0): out of memory
 * (2)`. CUDA_SUCCESS gives WEIR_OK and records nothing. Codes are mapped here
 * and nowhere else.
 */
enum weir_status driver_status(CUresult code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The code of this thread's latest driver_status() that returned WEIR_EDRIVER;
 * CUDA_ERROR_UNKNOWN if there was none. */
CUresult driver_last_failure(void);

/* The status for a code, without recording it. */
enum weir_status driver_map(CUresult code);

/* The driver's text for a code, as "out of memory"; "unknown error" if there is
 * none. */
const char *driver_text(CUresult code);

/* Does the code mean that the process or the driver is ending? */
bool driver_gone(CUresult code);

/*
 * The primary context of a device, retained at first use and kept. weir never
 * releases it: the driver does at exit.
 */
enum weir_status driver_context(int device, CUcontext *out);

/* The primary context if it has been retained, else NULL; also NULL if there is
 * no such device. */
CUcontext driver_context_peek(int device);

/* The state that driver_enter() has changed, for driver_leave(). */
struct driver_guard {
	bool pushed; /* a context was pushed over the caller's */
	/* The caller's capture mode, to be restored. */
	CUstreamCaptureMode mode;
};

/*
 * Make `context` current if it is not, and set the thread's capture mode to
 * relaxed, so that it may make calls that captures of other threads would
 * forbid. So allocating never breaks a capture. driver_leave() restores both
 * and cannot fail; guards may nest. NULL leaves the current context as it is.
 */
enum weir_status driver_enter(CUcontext context, struct driver_guard *guard);
void driver_leave(const struct driver_guard *guard);

/* driver_enter() without the change of capture mode, for calls that are never
 * made during a capture (streams/capture.h). */
enum weir_status driver_enter_unrelaxed(
    CUcontext context, struct driver_guard *guard);

/* NVML, found at run time like the driver. */
enum weir_status nvml_telemetry(
    const char *pci_bus_id, struct weir_telemetry *out);

/* For a preload: look NVML's entries up by this function instead of dlsym(), so
 * that weir calls NVML and not the hooks. Call it before NVML is used. */
void nvml_set_lookup(void *(*lookup)(void *library, const char *symbol));

/* A process that holds memory on a device. */
struct nvml_process {
	unsigned pid;
	unsigned long long used_bytes; /* 0 if the system does not say */
};

/* List up to `max` processes with compute contexts on the device. Returns how
 * many were written; 0 if NVML is not available. Never fails, never waits. */
size_t nvml_processes(
    const char *pci_bus_id, struct nvml_process *out, size_t max);

#endif
