/*
 * The CUDA driver, found at run time.
 *
 * The seam of weir is the driver API itself: one table of function pointers,
 * filled from libcuda.so.1 (or the library WEIR_LIBCUDA names) by
 * cuGetProcAddress. simcuda is a libcuda like any other. Nothing is loaded or
 * called before driver_get().
 */
#ifndef DRIVER_DRIVER_H
#define DRIVER_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/weir.h>

#include "driver/abi.h"

/* The lowest driver version weir runs on: 11.4 (VMM, cuGetProcAddress is
 * asked for and dlsym is the fallback). */
enum { DRIVER_VERSION_MIN = 11040 };

struct driver {
/* One pointer an entry, named as the entry: driver->cuMemCreate(...). An
 * optional entry the driver lacks is NULL. */
#define DRIVER_FIELD(name, version, required, params) CUresult(*name) params;
	DRIVER_ENTRIES(DRIVER_FIELD)
#undef DRIVER_FIELD
	int version;              /* 13000 is 13.0 */
	int device_count;         /* > 0 */
	bool simulated;           /* the library exports simcuda_version() */
	uint64_t (*now_ns)(void); /* its virtual time; NULL: it has none */
	void *library;            /* dlopen handle; never closed */
};

/*
 * Load, cuInit and count devices, once; later calls return the same table or
 * the same failure. WEIR_EFORK in a forked child. The table lives for ever.
 */
enum weir_status driver_get(const struct driver **out);

/* The table if driver_get() succeeded before, else NULL. One load. */
#pragma GCC visibility push(hidden)
extern const struct driver *_Atomic driver_published;
#pragma GCC visibility pop
static inline const struct driver *
driver_peek(void)
{
	return atomic_load_explicit(&driver_published, memory_order_acquire);
}

/* The time by the clock that the devices go by, in ns: the host's, or a
 * simulation's. From any point on. */
uint64_t driver_time_ns(void);

/*
 * For a preload: use this function instead of dlopen + dlsym to find entries,
 * so that weir calls the real driver and not its own hooks. Called before the
 * first driver_get(). `find` is asked for cuGetProcAddress_v2, then
 * cuGetProcAddress, by exported name, and for any entry these do not give.
 */
void driver_set_finder(void *(*find)(const char *symbol));

/*
 * Turn a driver result into a status, and remember the call, its arguments
 * and the driver's own text: `cuMemCreate(2097152 bytes, device 0): out of
 * memory (2)`. CUDA_SUCCESS gives WEIR_OK and remembers nothing. The mapping
 * of codes is here and nowhere else.
 */
enum weir_status driver_status(CUresult code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The code of this thread's last driver_status() that was WEIR_EDRIVER;
 * CUDA_ERROR_UNKNOWN if there was none. */
CUresult driver_last_failure(void);

/* The status a code maps to, remembering nothing. */
enum weir_status driver_map(CUresult code);

/* The driver's text for a code, "out of memory"; "unknown error" at worst. */
const char *driver_text(CUresult code);

/* True for the codes that mean the process or the driver is going away. */
bool driver_gone(CUresult code);

/*
 * The primary context of a device, retained at first use and kept. Never
 * released: at exit the driver does that.
 */
enum weir_status driver_context(int device, CUcontext *out);

/* That context if it has been retained, else NULL; also NULL if there is no
 * such device. */
CUcontext driver_context_peek(int device);

/* The state that driver_enter() changed, for driver_leave(). */
struct driver_guard {
	bool pushed;              /* a context, over the caller's own */
	CUstreamCaptureMode mode; /* the caller's, to be put back */
};

/*
 * Make `context` current if it is not, and let the thread make calls that a
 * capture elsewhere would forbid (capture mode relaxed), so that allocating
 * never breaks a capture. driver_leave() restores both and cannot fail; guards
 * may nest. NULL: whatever context is current stays so.
 */
enum weir_status driver_enter(CUcontext context, struct driver_guard *guard);
void driver_leave(const struct driver_guard *guard);

/* driver_enter() without changing the capture mode, for calls that are never
 * made during a capture (streams/capture.h). */
enum weir_status driver_enter_unrelaxed(
    CUcontext context, struct driver_guard *guard);

/* NVML, found at run time like the driver. */
enum weir_status nvml_telemetry(
    const char *pci_bus_id, struct weir_telemetry *out);

/* One process that holds memory on a device. */
struct nvml_process {
	unsigned pid;
	unsigned long long used_bytes; /* 0 where the system does not tell */
};

/* Up to `max` processes with compute contexts on the device; returns how many
 * were written, 0 where NVML cannot be asked. Never fails, never waits. */
size_t nvml_processes(
    const char *pci_bus_id, struct nvml_process *out, size_t max);

#endif
