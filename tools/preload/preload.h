/*
 * Declarations that the parts of libweir_preload.so share.
 *
 * The library sits between a program and the CUDA driver. A program reaches the
 * driver through four doors: symbols it is linked with, dlsym(),
 * cuGetProcAddress() and its older form. doors.c answers at all four: with the
 * hooks of hooks.h, and with the driver's own functions for everything else.
 *
 *	stub.c      dlsym as the program calls it: jump on, or answer
 *	doors.c     which queries are answered with a hook
 *	real.c      the real dlsym, the real driver, and nothing of ours
 *	gate.c      whether weir may serve this call, and for which device
 *	memory.c    memory of no stream, and how much there is
 *	ordered.c   memory in the order of a stream
 *	mempool.c   the program's pools of it
 *	room.c      what the driver needs memory for itself
 *	access.c    other devices' access to weir's memory
 *	address.c   what a pointer is
 *	ipc.c       memory that other processes may open
 *	lifetime.c  streams and captures that begin and end
 *	events.c    the order the program makes between streams
 *	contexts.c  contexts, their work and their end
 *	count.c     the driver calls weir itself makes
 *	watch.c     copies to the host, and what waits for them
 *	report.c    the counts, reported at exit; tools/report writes them
 *	tally.c     the counters for it, of each thread
 *	races.c     blocks that streams use in no order
 *	launches.c  kernels, copies and fills, for races.c
 *	sites.c     where in the program memory comes from
 *	nvtx.c      the program's NVTX ranges, in the history
 *
 * Nothing runs before a symbol of the driver is asked for or called.
 */
#ifndef TOOLS_PRELOAD_PRELOAD_H
#define TOOLS_PRELOAD_PRELOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "driver/abi.h"
#include "tools/preload/hooks.h"
#include "tools/report/names.h"

/* Code that may run before a sanitizer's own start: it resolves its symbols
 * with dlsym. */
#if defined(__clang__) && __clang_major__ >= 14
#define PLAIN                                                                  \
	__attribute__((no_sanitize("address", "thread", "undefined"),          \
	    disable_sanitizer_instrumentation))
#else
#define PLAIN __attribute__((no_sanitize("address", "thread", "undefined")))
#endif

/* A preload is there from the start, so its few bytes of thread storage are
 * too, and using them calls nothing. */
#define PRELOAD_THREAD _Thread_local __attribute__((tls_model("initial-exec")))

/* ---- real.c: the driver behind us -------------------------------------- */

/* The next dlsym and dlvsym after ours. To call them makes this library the
 * caller. They do not fail: a process without them does not run. */
void *(*real_dlsym(void))(void *handle, const char *name);
void *(*real_dlvsym(void))(void *handle, const char *name, const char *version);

/* True if the program has loaded its driver library. Does not load it. */
bool real_loaded(void);

/* The driver's function of an exported name; NULL if it has none or is not
 * loaded. A search; the tables below are for what is called often. */
void *real_find(const char *symbol);

/* The driver's function behind a hook, NULL as above. */
void *real_of(enum hook_id id);

/* Likewise, for a call: never NULL. An entry that the driver lacks gives
 * CUDA_ERROR_NOT_FOUND. Only a program that is linked with such an entry calls
 * it. */
void *real_call(enum hook_id id);
#define REAL(name) ((name##_function *)real_call(HOOK_##name))

/* Entries we call ourselves: X(name, parameters). */
#define REAL_ENTRIES(X)                                                        \
	X(cuCtxGetCurrent, (CUcontext *))                                      \
	X(cuCtxGetDevice, (CUdevice *))                                        \
	X(cuCtxSynchronize, (void))                                            \
	X(cuCtxPushCurrent_v2, (CUcontext))                                    \
	X(cuCtxPopCurrent_v2, (CUcontext *))                                   \
	X(cuDevicePrimaryCtxGetState, (CUdevice, unsigned *, int *))           \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                   \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                            \
	X(cuDeviceGetCount, (int *))                                           \
	X(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice))               \
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

/* For driver_set_finder(): real_find(), with entries by which weir does not
 * hold primary contexts that the program has released. */
void *real_for_weir(const char *symbol);

/* ---- doors.c ----------------------------------------------------------- */

/* The answer to a query: hand the query on to `jump` unchanged or, if that is
 * NULL, return `value`. In two registers; stub.c takes it apart. */
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

/* Whether cuMemFree() waits: WEIR_PRELOAD_FREE. */
enum gate_free {
	FREE_STRICT,   /* it waits for the context, as the driver's does */
	FREE_DEFERRED, /* it does not; the memory waits */
	FREE_FAST,     /* nor that, where one stream orders all work */
};
enum gate_free gate_free_mode(void);

/* True if weir may take part in this call: it is not disabled, has not failed
 * to start, is not in a forked child, and has not caused the call itself. */
bool gate_admits(void);

/* True if the program may hold memory of weir: weir has been started, by a call
 * that it served or by the program's own calls of it, this is not a forked
 * child, and the call does not come from within weir. */
bool gate_started(void);

/*
 * True if weir serves requests for the current context: it is the primary
 * context of `device`. Starts weir at the first such call. False sends the
 * request to the driver, which also reports what may be wrong.
 */
bool gate_context(int *device);

/*
 * gate_context() for the context of a stream. *stream is explicit: a handle of
 * 0 becomes the per-thread default stream if `per_thread`, else the legacy
 * default stream.
 */
bool gate_stream(
    CUstream handle, bool per_thread, int *device, weir_stream *stream);

/* True if work or an allocation on the stream would go into a graph, or if the
 * driver cannot say. */
bool gate_capturing(weir_stream stream);

/* Ask the driver whether the stream is being captured; its code if it cannot
 * say. */
CUresult gate_ask_capturing(weir_stream stream, bool *capturing);

/* Contexts or streams may have ended: drop cached answers about handles. */
void gate_handles_changed(void);

/*
 * The number of changes after which requests may be answered differently: ended
 * handles, a pool that serves differently, a capture about to begin. A cached
 * answer is stored with the number that was read before the question. 0: cache
 * no answers now, because a capture is under way or the program ends.
 */
extern _Atomic(uint64_t) gate_changes;
void gate_changed(void);
uint64_t gate_change(void);

/* Around every call of weir: its calls of the driver, and the calls that the
 * driver makes in turn, are not hooked. */
extern PRELOAD_THREAD int gate_in_weir; /* > 0 in between */

static inline void
gate_enter_weir(void)
{
	gate_in_weir++;
}

static inline void
gate_leave_weir(void)
{
	gate_in_weir--;
}

/* The driver's code for this thread's last failure of weir; WEIR_OK is 0. */
CUresult gate_result(enum weir_status status);

/* ---- memory.c ---------------------------------------------------------- */

/* The owner of an address. */
enum memory_owner {
	OTHERS, /* not memory of weir */
	LIVE,   /* in an allocation */
	UNUSED, /* of weir, but in no allocation: nothing to the program */
};

/* A request to weir; `pool` is the pool that counts it, or NULL. */
struct request {
	int device;
	size_t bytes;
	weir_stream stream;
	struct mempool *pool;
};

/* True if weir has answered, with *code; false leaves it to the driver. */
bool memory_allocate(
    const struct request *request, CUdeviceptr *out, CUresult *code);

/* An allocation that is being freed. */
struct held {
	CUdeviceptr ptr;
	int device;
	size_t bytes;                /* as asked for */
	bool ordered;                /* in the order of a stream */
	struct mempool_block *block; /* see mempool_take() */
	struct site_block *site;     /* see sites_take() */
};

/* Before a free: what `ptr` is. LIVE if it begins an allocation: then the
 * caller calls memory_let_go() with the result of the free, which gives the
 * answer, or memory_keep() if there was no free. */
enum memory_owner memory_hold(CUdeviceptr ptr, struct held *held);
CUresult memory_let_go(const struct held *held, enum weir_status status);
void memory_keep(const struct held *held);

/* The memory of a device is gone. */
void memory_device_ends(int device);

/* There will be work that the legacy default stream does not order. */
void memory_other_stream(void);

/* ---- access.c ---------------------------------------------------------- */

/* Let device `user` use all memory of weir on `device`, present and future.
 * False if it cannot reach that memory. */
bool access_grant(int device, int user);

/* The primary context of a device has begun, or ended. */
void access_primary_begins(int device);
void access_device_ends(int device);

/* ---- address.c --------------------------------------------------------- */

/* An allocation as the program made it. */
struct place {
	CUdeviceptr base;
	size_t size;
	int device;          /* -1: another process's */
	bool ordered;        /* in the order of a stream */
	bool mapped;         /* in an expandable segment */
	CUdeviceptr segment; /* first byte of the range it lies in */
};

/* The owner of an address, and if LIVE the allocation. */
enum memory_owner address_find(CUdeviceptr ptr, struct place *out);

/* The allocation that begins there is being freed. */
extern atomic_size_t address_identities;
void address_forget_identity(CUdeviceptr base);

static inline void
address_forget(CUdeviceptr base)
{
	if (atomic_load_explicit(&address_identities, memory_order_relaxed) !=
	    0)
		address_forget_identity(base);
}

void address_device_ends(int device);

/* ---- ipc.c ------------------------------------------------------------- */

/* Memory of another process's weir that has been opened here. */
bool ipc_find_opened(CUdeviceptr ptr, struct place *out);

/* ---- room.c ------------------------------------------------------------ */

/* True if a request for the current context, for which the driver gave `code`,
 * is worth a second try, since weir has given memory back for it. */
bool room_made(CUresult code);

/* ---- contexts.c -------------------------------------------------------- */

/* True if the primary context of a device exists. */
void contexts_primary(int device, CUcontext context);

/* Before the primary context of a device is used: if it may have ended, because
 * the driver did not say so when it was released, the driver is asked again. An
 * error is the driver's: it still does not say so. */
CUresult contexts_settle(CUdevice device);

/* The primary context of a device, NULL while there is none; and the device
 * whose primary context this is, or -1. */
CUcontext contexts_primary_of(int device);
int contexts_device_of(CUcontext context);

/* The current context may use memory of `peer` from now on. */
void contexts_enabled(CUcontext peer);

/* True if memory of one context may be in use by the work of another. */
bool contexts_several(void);

/* From now on, freed memory of a device waits for the work of all other
 * contexts. Call it within gate_enter_weir(), and the next one too. */
void contexts_use(CUdeviceptr ptr, int device);

/* Wait for all work that may use memory of the device. False if that is not
 * possible for all of it, as in a capture. */
bool contexts_wait(int device);

/* ---- lifetime.c -------------------------------------------------------- */

/* True if no capture of the context is under way. */
void lifetime_context_ended(CUcontext context);

/* ---- mempool.c: memory pools -------------------------------------------- */

struct mempool;
struct mempool_block;

/*
 * The pool of a request, if weir serves it: the pool with the handle, or that
 * of the device if `of_device`. NULL if the driver serves it.
 */
struct mempool *mempool_serving(
    int device, CUmemoryPool handle, bool of_device);

/* True for a device's default pool, whose blocks need not be remembered. */
bool mempool_is_default(const struct mempool *pool);

/* Before an allocation for the pool: make a record for it, NULL for a default
 * pool. False if there is no memory for one. */
bool mempool_prepare(struct mempool *pool, struct mempool_block **out);
void mempool_unprepare(struct mempool_block *block);
void mempool_allocated(struct mempool *pool, struct mempool_block *block,
    CUdeviceptr ptr, size_t bytes);

/* Before a free of stream-ordered memory: take the record of the block, NULL if
 * the block is of its device's default pool. The caller then passes it to one
 * of the other calls. */
extern atomic_size_t mempool_blocks; /* that are of other pools */
struct mempool_block *mempool_take_block(CUdeviceptr ptr);

static inline struct mempool_block *
mempool_take(CUdeviceptr ptr)
{
	return atomic_load_explicit(&mempool_blocks, memory_order_relaxed) ==
		0 ?
	    NULL :
	    mempool_take_block(ptr);
}

void mempool_freed(struct mempool_block *block, int device, size_t bytes);
void mempool_put_back(struct mempool_block *block);

/* The driver's handle of the pool that a live block of weir is from. */
CUmemoryPool mempool_handle_of(CUdeviceptr ptr, int device);
CUmemoryPool mempool_default_handle(int device);

void mempool_device_ends(int device);

/* ---- count.c: driver calls of weir ------------------------------------- */

/* The function by which weir calls an entry of driver/abi.h, so that the call
 * is counted and timed. `real` itself for other names and other callers. */
void *count_through(const char *name, void *real);

/* The number of calls that this thread has made, without queries such as which
 * context is current or whether a stream is being captured. */
uint64_t count_of_thread(void);

/* True if, since the last time it asked, this thread has made a call that waits
 * or that changes how much memory is held. */
bool count_has_news(void);

/* ---- watch.c: waits of the program ------------------------------------- */

/* True if a report or the history wants them. */
bool watch_wanted(void);

/* A free of plain memory, for which the driver would have waited. */
void watch_free(void);

/* The host has waited for the device in some way. */
void watch_wait(void);

/* Around a call that waits: it is counted, and noted in the history, where that
 * is on, as a region by the name of the call. */
void watch_begin(enum hook_id id);
void watch_end(enum hook_id id);

/* The number of copies to the host whose only wait was such a free. */
uint64_t watch_barriers(void);

/* ---- races.c: blocks that streams use in no order ---------------------- */

/* WEIR_CHECK_STREAMS=1. Without it the rest does nothing. */
bool races_wanted(void);

/* The variable was read, and is not set. */
extern atomic_bool races_are_off;

/* A block was allocated; is about to be freed. On a stream, by its explicit
 * handle, or WEIR_STREAM_ANY. */
void races_note_allocated(CUdeviceptr ptr, size_t bytes, weir_stream stream);
void races_note_freed(CUdeviceptr ptr, weir_stream stream);

static inline void
races_allocated(CUdeviceptr ptr, size_t bytes, weir_stream stream)
{
	if (!atomic_load_explicit(&races_are_off, memory_order_relaxed))
		races_note_allocated(ptr, bytes, stream);
}

static inline void
races_freed(CUdeviceptr ptr, weir_stream stream)
{
	if (!atomic_load_explicit(&races_are_off, memory_order_relaxed))
		races_note_freed(ptr, stream);
}

/* A stream got work with these words, any of which may be no address; those
 * after the first n_sure may be left from earlier work. */
void races_work(CUstream stream, bool per_thread, const char *call,
    const CUdeviceptr *ptrs, size_t n, size_t n_sure);

/* The host has waited for a stream; for all. */
void races_waited(CUstream stream, bool per_thread);
void races_waited_all(void);

/* Events: recorded on a stream by its explicit handle; waited for by the host;
 * by a stream; destroyed. */
void races_recorded(CUevent event, CUstream stream);
void races_event_waited(CUevent event);
void races_stream_waited(CUstream stream, CUevent event);
void races_event_gone(CUevent event);

/* A stream is destroyed. */
void races_stream_gone(CUstream stream);

/* ---- sites.c: where in the program memory comes from ------------------- */

struct site_block;
struct site_list; /* tools/report/report.h */

/* True if a report wants the places. If false, the calls below do nothing. */
bool sites_wanted(void);

/* Remember who has allocated. With no lock held. */
void sites_allocated(CUdeviceptr ptr, int device, size_t bytes);

/* Before a free: take the record of a block, NULL if there is none. The caller
 * then passes it to one of the other calls. */
struct site_block *sites_take(CUdeviceptr ptr);
void sites_freed(struct site_block *block);
void sites_put_back(struct site_block *block);

void sites_device_ends(int device);

/* Copies of the records: blocks that are not freed, and the stacks that held
 * most at the peak, as many as the report asks for. NULL if no report asks, or
 * without memory. The caller frees it. */
struct site_list *sites_leaks(void);
struct site_list *sites_top(void);

/* Call `tell` with each call of a stack, innermost first, as a line of text
 * such as "f (file.c:12)". Calls within this library are left out. */
void sites_describe(
    uint32_t stack, void (*tell)(void *user, const char *line), void *user);

/* ---- report.c ---------------------------------------------------------- */

enum report_answer { REPORT_UNREAD, REPORT_NONE, REPORT_WANTED };
extern _Atomic(enum report_answer) report_answer;
bool report_read(void);
void report_count_call(enum hook_id id);
void report_count_served(enum hook_id id);
void report_count_failed(void);
void report_count_allocated(const struct request *request, CUdeviceptr ptr);
void report_count_freed(int device, size_t bytes);

/* The slot of a device's stream in the report; and all three counts at once,
 * for a call that weir has answered with success and without the driver. */
struct report_place {
	unsigned row;
	unsigned slot;
};
struct report_place report_place(int device, weir_stream stream);
void report_count_quick_malloc(
    enum hook_id id, struct report_place place, size_t bytes);
void report_count_quick_free(
    enum hook_id id, struct report_place place, size_t bytes);

/* WEIR_REPORT is set. Without it the calls below do nothing, in a load. */
static inline bool
report_wanted(void)
{
	enum report_answer answer =
	    atomic_load_explicit(&report_answer, memory_order_acquire);

	return answer != REPORT_NONE &&
	    (answer == REPORT_WANTED || report_read());
}

/* Count a call of a hook, and one that weir has answered with success. */
static inline void
report_call(enum hook_id id)
{
	if (report_wanted())
		report_count_call(id);
}

static inline void
report_served(enum hook_id id, CUresult code)
{
	if (!report_wanted())
		return;
	if (code == CUDA_SUCCESS)
		report_count_served(id);
	else
		report_count_failed();
}

/* The program's memory. report_allocated() comes between the two above. */
static inline void
report_allocated(const struct request *request, CUdeviceptr ptr)
{
	if (report_wanted())
		report_count_allocated(request, ptr);
}

static inline void
report_freed(int device, size_t bytes)
{
	if (report_wanted())
		report_count_freed(device, bytes);
}

/* Before the allocator forgets a device: keep its counts, and the program's
 * memory there. */
void report_device_ends(int device);

#endif
