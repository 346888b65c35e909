/*
 * What the parts of libweir_preload.so share.
 *
 * The library sits between a program and the CUDA driver. A program reaches
 * the driver through four doors: symbols it is linked with, dlsym(),
 * cuGetProcAddress() and its older form. doors.c stands in all of them and
 * hands out the hooks of hooks.h, everything else being the driver's own.
 *
 *	stub.c      dlsym as the program calls it: jump on, or answer
 *	doors.c     which queries are answered with a hook
 *	real.c      the real dlsym, the real driver, and nothing of ours
 *	gate.c      whether weir may serve this call, and for which device
 *	memory.c    allocate, free, how much there is
 *	address.c   what a pointer is
 *	lifetime.c  streams, captures and contexts that begin and end
 *	count.c     the driver calls weir itself makes
 *	report.c    what was seen, told at exit
 *
 * Nothing runs before a symbol of the driver is asked for or called.
 */
#ifndef TOOLS_PRELOAD_PRELOAD_H
#define TOOLS_PRELOAD_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "driver/abi.h"
#include "tools/preload/hooks.h"

/* Code that may run before a sanitizer's own start: it resolves its symbols
 * with dlsym. */
#if defined(__clang__) && __clang_major__ >= 14
#define PLAIN                                                                  \
	__attribute__((no_sanitize("address", "thread", "undefined"),          \
	    disable_sanitizer_instrumentation))
#else
#define PLAIN __attribute__((no_sanitize("address", "thread", "undefined")))
#endif

/* ---- real.c: the driver behind us -------------------------------------- */

/* The next dlsym and dlvsym after ours. To call them makes this library the
 * caller. They do not fail: a process without them does not run. */
void *(*real_dlsym(void))(void *handle, const char *name);
void *(*real_dlvsym(void))(void *handle, const char *name, const char *version);

/* The program's own driver library has been loaded by it. Never loads it. */
bool real_loaded(void);

/* The driver's function of an exported name; NULL if it has none or is not
 * loaded. A search; the tables below are for what is called often. */
void *real_find(const char *symbol);

/* The driver's function behind a hook, NULL as above. */
void *real_of(enum hook_id id);

/* The same to be called: never NULL, for what the driver lacks it answers
 * CUDA_ERROR_NOT_FOUND. Only a program that is linked with an entry its driver
 * does not have comes there. */
void *real_call(enum hook_id id);
#define REAL(name) ((name##_function *)real_call(HOOK_##name))

/* Entries we call ourselves: X(name, parameters). */
#define REAL_ENTRIES(X)                                                        \
	X(cuCtxGetCurrent, (CUcontext *))                                      \
	X(cuCtxGetDevice, (CUdevice *))                                        \
	X(cuCtxPushCurrent_v2, (CUcontext))                                    \
	X(cuCtxPopCurrent_v2, (CUcontext *))                                   \
	X(cuDevicePrimaryCtxGetState, (CUdevice, unsigned *, int *))           \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                   \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                            \
	X(cuStreamGetCtx, (CUstream, CUcontext *))                             \
	X(cuStreamIsCapturing, (CUstream, int *))                              \
	X(cuStreamSynchronize, (CUstream))

struct real {
#define REAL_FIELD(name, params) CUresult(*name) params;
	REAL_ENTRIES(REAL_FIELD)
#undef REAL_FIELD
};

/* All of them, or NULL if the driver is not loaded or lacks one. */
const struct real *real_driver(void);

/* For driver_set_finder(): as real_find(), and keeps weir from holding
 * primary contexts alive that the program has let go. */
void *real_for_weir(const char *symbol);

/* ---- doors.c ----------------------------------------------------------- */

/* What a query comes to: hand it on to `jump` with all as it came, or, if
 * that is NULL, return `value`. In two registers; stub.c takes it apart. */
struct door_answer {
	void *jump;
	void *value;
};

struct door_answer door_dlsym(void *handle, const char *name);
struct door_answer door_dlvsym(
    void *handle, const char *name, const char *version);

/* ---- gate.c: may weir serve this call? --------------------------------- */

/* False for good with WEIR_DISABLE=1 or under a memory checker: then every
 * query and call gets the driver's own answer. */
bool gate_enabled(void);

/* True with WEIR_PRELOAD_IPC=1: the program shares memory of cuMemAlloc() with
 * other processes by the driver's handles, which only the driver's own
 * allocations have. */
bool gate_ipc(void);

/* True if the program may hold memory of weir: weir has been started, this is
 * not a forked child, and the call does not come from within weir. */
bool gate_started(void);

/*
 * True if weir serves requests for the current context: it is the primary
 * context of `device`. Starts weir at the first such call. False sends the
 * request to the driver, which also tells what may be wrong.
 */
bool gate_context(int *device);

/*
 * The same for the context of a stream. `stream` is made explicit: a handle
 * of 0 names the default stream of the thread if `per_thread`, else the
 * legacy one.
 */
bool gate_stream(
    CUstream handle, bool per_thread, int *device, weir_stream *stream);

/* True if work or an allocation on the stream would go into a graph, or if
 * that cannot be told. */
bool gate_capturing(weir_stream stream);

/* Contexts may have ended: forget what is known of them. */
void gate_contexts_changed(void);

/* Around every call of weir: what weir calls in the driver, and what the
 * driver calls in turn, is not for us. */
void gate_enter_weir(void);
void gate_leave_weir(void);

/* The driver's code for a failure of weir; WEIR_OK is 0. */
CUresult gate_result(enum weir_status status);

/* ---- count.c: driver calls of weir ------------------------------------- */

/* Where weir shall call an entry of driver/abi.h, so that it is counted:
 * a few instructions before `real`. `real` itself for any other name. */
void *count_through(const char *name, void *real);

/* The entries, and the calls of each. */
size_t count_entries(void);
const char *count_name(size_t i);
uint64_t count_of(size_t i);

/* ---- report.c ---------------------------------------------------------- */

/* WEIR_REPORT is set. Without it the calls below do nothing. */
bool report_wanted(void);

/* Count a call of a hook, and one that weir has answered with success. */
void report_call(enum hook_id id);
void report_served(enum hook_id id, CUresult code);

/* What the program holds: report_before_free() gives what report_freed() is
 * told if the free succeeds. */
struct held {
	int device;
	size_t bytes;
};
void report_allocated(int device, size_t bytes);
struct held report_before_free(CUdeviceptr ptr);
void report_freed(struct held held);

/* The allocator is about to forget a device: what it has counted, and what the
 * program held there. */
void report_device_ends(int device);

#endif
