/*
 * Declarations that the parts of libweir_preload.so share.
 *
 * The library sits between a program and the CUDA driver. A program reaches the
 * driver in four ways: by symbols it is linked with, by dlsym(), by
 * cuGetProcAddress(), and by the older form of that call. lookups.c answers all
 * four: with the hooks of hooks.h, and with the driver's own functions for
 * everything else.
 *
 *	stub.c      dlsym as the program calls it: forward the call, or answer
 *	lookups.c   which lookups return a hook
 *	hook_names.c  the names of entries that have hooks
 *	real.c      the real dlsym and the real driver
 *	for_weir.c  the driver as weir gets it
 *	inside.c    whether weir takes part, and whether a call comes from it
 *	gate.c      whether weir may serve this call, and for which device
 *	memory.c    device-scope memory, and the amount of free memory
 *	ordered.c   stream-ordered memory
 *	mempool.c   the program's pools of it
 *	retry.c     calls for which the driver itself needs memory
 *	outside.c   what the driver serves: counted, and refused by a limit
 *	handles.c   the program's own handles of memory, and their mappings
 *	leaving.c   their memory leaves a device that sleeps
 *	arrays.c    its arrays, and memory of other interfaces
 *	device.c    NVML's answers about memory
 *	access.c    other devices' access to weir's memory
 *	address.c   questions about pointers
 *	named.c     other calls that name memory by its address
 *	ipc.c       memory that other processes may open
 *	opened.c    memory of other processes that is open here
 *	lifetime.c  streams and captures that begin and end
 *	events.c    the order that the program makes between streams
 *	contexts.c  contexts, their work and their end
 *	ends.c      what the other parts do when a context begins or ends
 *	count.c     the driver calls that weir itself makes
 *	watch.c     copies to the host, and the waits for them
 *	report.c    the report at exit; tools/report writes it
 *	counters.c  the counts that it has
 *	tally.c     their counters, kept by thread
 *	races.c     blocks that streams use in no order
 *	launches.c  kernels, copies and fills, for races.c
 *	sites.c     where in the program memory is allocated
 *	nvtx.c      the program's NVTX ranges, in the history
 *	range_pools.c  memory of NVTX ranges, in pools by name
 *
 * Nothing runs before the program looks up or calls a symbol of the driver.
 */
#ifndef PRELOAD_PRELOAD_H
#define PRELOAD_PRELOAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "allocator/private/asleep.h"
#include "driver/abi.h"
#include "preload/hooks.h"
#include "tools/report/names.h"

/* For code that may run before a sanitizer has started: a sanitizer looks up
 * its symbols with dlsym. */
#if defined(__clang__) && __clang_major__ >= 14
#define PLAIN                                                                  \
	__attribute__((no_sanitize("address", "thread", "undefined"),          \
	    disable_sanitizer_instrumentation))
#else
#define PLAIN __attribute__((no_sanitize("address", "thread", "undefined")))
#endif

/* A preloaded library is loaded at the start, so its few bytes of thread
 * storage can be allocated then, and using them calls no function. */
#define PRELOAD_THREAD _Thread_local __attribute__((tls_model("initial-exec")))

/* ---- real.c: the driver behind us -------------------------------------- */

/* The next dlsym and dlvsym in search order. A call through them counts as made
 * by this library. They are never NULL: no process runs without them. */
void *(*real_dlsym(void))(void *handle, const char *name);
void *(*real_dlvsym(void))(void *handle, const char *name, const char *version);

/* Has the program loaded its driver library? Does not load it. */
bool real_loaded(void);

/* Search for the driver's function with an exported name; NULL if the driver
 * lacks it or is not loaded. Calls that are frequent use the tables below. */
void *real_find(const char *symbol);

/* The driver's function that a hook replaces; NULL as above. */
void *real_of(enum hook_id id);

/* real_of() for a call; never NULL. For an entry that the driver lacks, a
 * function that returns CUDA_ERROR_NOT_FOUND. Only a program that is linked
 * with such an entry calls it. */
void *real_call(enum hook_id id);
#define REAL(name) ((name##_function *)real_call(HOOK_##name))

/* The entries that the preload calls itself: X(name, parameters). */
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

/* The table of these entries; NULL if the driver is not loaded or lacks one. */
const struct real *real_driver(void);

/* ---- lookups.c --------------------------------------------------------- */

/* The answer to a query: forward the query to `jump` unchanged or, if that is
 * NULL, return `value`. It is returned in two registers, which stub.c reads. */
struct lookup_answer {
	void *jump;
	void *value;
};

struct lookup_answer lookup_dlsym(void *handle, const char *name);
struct lookup_answer lookup_dlvsym(
    void *handle, const char *name, const char *version);

/* ---- inside.c: does weir take part? ------------------------------------ */

/* False for good with WEIR_DISABLE=1 or under a memory checker. Then every
 * query and call gets the driver's own answer. */
bool gate_enabled(void);

/* True with WEIR_PRELOAD_IPC=1: the program shares memory of cuMemAlloc() with
 * other processes through the driver's handles, which exist only for the
 * driver's own allocations. */
bool gate_ipc(void);

/* Does cuMemFree() wait? The value of WEIR_PRELOAD_FREE. */
enum gate_free {
	/* The call waits for the context, as the driver's does. */
	FREE_STRICT,
	FREE_DEFERRED, /* the call does not wait; the memory does */
	/* The memory does not wait either, while one stream orders all work. */
	FREE_FAST,
};
enum gate_free gate_free_mode(void);

/* May weir take part in this call? It must not be disabled, have failed to
 * start, be in a forked child, or have caused the call itself. */
bool gate_admits(void);

/* The driver's table if gate_admits(), else NULL. */
const struct real *gate_driver(void);

/* Start weir if that has not been tried; false if it has failed. The program
 * has initialised the driver, or there would be no current context. */
bool gate_start(void);

/* May the program hold memory of weir? True if weir has been started, by a call
 * that it served or by the program's direct calls, unless this is a forked
 * child or the call comes from within weir. */
bool gate_started(void);

/* Contexts or streams may have ended: drop stored answers about handles. */
void gate_handles_changed(void);

/* Counts these calls. A stored answer is right while the count is unchanged. */
extern atomic_uint gate_handles_ended;

/*
 * Counts the changes after which requests may be answered differently: ended
 * handles, a pool that is served differently, a capture about to begin. An
 * answer is stored with the count from before the question. 0: store no answers
 * now, because a capture is under way or the program is ending.
 */
extern _Atomic(uint64_t) gate_changes;
void gate_changed(void);
uint64_t gate_change(void);

/* tsan.c, Note [What ThreadSanitizer does not see]. tsan_ignore() and
 * tsan_heed() may be nested; the others are for preload/lock.h. They are called
 * only if it is there. */
extern bool tsan_is_there;
void tsan_ignore(void);
void tsan_heed(void);
void tsan_entered(const void *lock);
void tsan_leaves(const void *lock);

/* Page-locked memory is about to be freed, and was allocated. */
void tsan_host_freed(void);
void tsan_host_allocated(void);

/* The bucket of a key in a table. The lowest bits of a multiple are those of
 * the key, which are zero in addresses of whole pages. */
static inline size_t
hash_bucket_of(uint64_t key, size_t buckets)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) % buckets;
}

/* Enclose every call of weir in these, so that its driver calls, and the calls
 * that the driver makes in turn, are not hooked. */
extern PRELOAD_THREAD int gate_in_weir; /* > 0 while a call of weir runs */

static inline void
gate_enter_weir(void)
{
	gate_in_weir++;
	if (__builtin_expect(tsan_is_there, false))
		tsan_ignore();
}

static inline void
gate_leave_weir(void)
{
	if (__builtin_expect(tsan_is_there, false))
		tsan_heed();
	gate_in_weir--;
}

/* ---- gate.c: may weir serve this call? --------------------------------- */

/*
 * Does weir serve requests for the current context? True if it is the primary
 * context of `device`. Starts weir at the first such call. If false, the
 * request goes to the driver, which also reports errors in it.
 */
bool gate_context(int *device);

/*
 * gate_context() for the context of a stream. *stream is an explicit handle: 0
 * becomes the per-thread default stream if `per_thread`, else the legacy
 * default stream.
 */
bool gate_stream(
    CUstream handle, bool per_thread, int *device, weir_stream *stream);

/* Would work or an allocation on the stream become part of a graph? True also
 * if the driver cannot say. */
bool gate_capturing(weir_stream stream);

/* Ask the driver whether the stream is being captured; its code if it cannot
 * say. */
CUresult gate_ask_capturing(weir_stream stream, bool *capturing);

/* The driver's code for weir's last failure on this thread; `status` is its
 * status. */
CUresult gate_result(enum weir_status status);

/* ---- memory.c ---------------------------------------------------------- */

/* Who an address belongs to. */
enum memory_owner {
	OTHERS, /* not memory of weir */
	LIVE,   /* in an allocation of weir */
	UNUSED, /* memory of weir in no allocation: not valid for the program */
};

/* A request to weir; `pool` is the pool that counts it, or NULL. */
struct request {
	int device;
	size_t bytes;
	weir_stream stream;
	struct mempool *pool;
};

/* Serve a request; *code is the result. False leaves it to the driver. */
bool memory_allocate(
    const struct request *request, CUdeviceptr *out, CUresult *code);

/* An allocation that is about to be freed. */
struct held {
	CUdeviceptr ptr;
	int device;
	size_t bytes;                /* as requested */
	bool ordered;                /* stream-ordered */
	struct mempool_block *block; /* from mempool_take() */
	struct site_block *site;     /* from sites_take() */
};

/* Look up `ptr` before a free. LIVE: an allocation begins there. Then the
 * caller passes the status of its free to memory_let_go(), which returns the
 * result for the program, or calls memory_keep() if it did not free. */
enum memory_owner memory_hold(CUdeviceptr ptr, struct held *held);
CUresult memory_let_go(const struct held *held, enum weir_status status);
void memory_keep(const struct held *held);

/* Called before there is work that the legacy default stream does not order. */
void memory_other_stream(void);

/* ---- access.c ---------------------------------------------------------- */

/* Let device `user` use all memory of weir on `device`, present and future.
 * False if it cannot access that memory. */
bool access_grant(int device, int user);

/* ---- address.c --------------------------------------------------------- */

/* An allocation as the program made it. */
struct place {
	CUdeviceptr base;
	size_t size;
	int device;          /* -1: another process's */
	bool ordered;        /* stream-ordered */
	bool mapped;         /* in an expandable segment */
	CUdeviceptr segment; /* start of the range that contains it */
};

/* Who an address belongs to; if LIVE, *out is the allocation. */
enum memory_owner address_find(CUdeviceptr ptr, struct place *out);

/* Does an address belong to weir, whether an allocation is there or not? */
bool address_is_of_weir(CUdeviceptr ptr);

/* The allocation that begins at `base` is being freed. */
extern atomic_size_t address_identities;
void address_forget_identity(CUdeviceptr base);

static inline void
address_forget(CUdeviceptr base)
{
	if (atomic_load_explicit(&address_identities, memory_order_relaxed) !=
	    0)
		address_forget_identity(base);
}

/* ---- retry.c ----------------------------------------------------------- */

/* Should a request for the current context that failed with `code` be tried
 * again? True if weir has freed memory for it. */
bool retry_is_due(CUresult code);

/* ---- contexts.c -------------------------------------------------------- */

/* Note that the primary context of a device exists. */
void contexts_primary(int device, CUcontext context);

/* Called before the primary context of a device is used. If the driver did not
 * say whether the context ended at its release, the driver is asked again. An
 * error means that it still does not say. */
CUresult contexts_settle(CUdevice device);

/*
 * Tells the other parts that a context begins or ends. ends.c fills it in,
 * which lies above them; contexts.c has a weak one, which does nothing.
 */
struct contexts_calls {
	void (*primary_began)(int device);
	/* The context has ended, and so have its captures. */
	void (*context_ended)(CUcontext context);
	/* The memory of a device is gone, with its primary context. */
	void (*memory_gone)(int device);
	/* Called after that if weir has started, within gate_enter_weir(). */
	void (*device_ended)(int device);
};
extern const struct contexts_calls contexts_calls;

/* The primary context of a device, or NULL; and the device whose primary
 * context this is, or -1. */
CUcontext contexts_primary_of(int device);
int contexts_device_of(CUcontext context);

/* The current context may use memory of `peer` from now on. */
void contexts_enabled(CUcontext peer);

/* May work of one context use memory of another? */
bool contexts_several(void);

/* Make freed memory of a device wait for the work that all other contexts have
 * queued. Call this and the next function within gate_enter_weir(). */
void contexts_use(CUdeviceptr ptr, int device);

/* Wait for all work that may use memory of the device. False if weir cannot
 * wait for all of it, as in a capture. */
bool contexts_wait(int device);

/* ---- mempool.c: memory pools -------------------------------------------- */

struct mempool;
struct mempool_block;

/*
 * The pool of a request, if weir serves it: the pool with the handle, or the
 * device's current pool if `of_device`. NULL if the driver serves the request.
 */
struct mempool *mempool_serving(
    int device, CUmemoryPool handle, bool of_device);

/* Is it a device's default pool, whose blocks need no record? */
bool mempool_is_default(const struct mempool *pool);

/* The arena of a pool's own, or NULL for weir's memory of the device. */
struct arena;
struct arena *mempool_arena(const struct mempool *pool);

/* Prepare an allocation from a pool: make a record for it, or NULL for a
 * default pool. False if there is no memory for the record. */
bool mempool_prepare(struct mempool *pool, struct mempool_block **out);
void mempool_unprepare(struct mempool_block *block);
void mempool_allocated(struct mempool *pool, struct mempool_block *block,
    CUdeviceptr ptr, size_t bytes);

/* Before a free of stream-ordered memory, take the record of the block; NULL if
 * the block is of its device's default pool. The caller then passes the record
 * to one of the other calls. */
/* Blocks of pools other than default ones. */
extern atomic_size_t mempool_blocks;
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

/* The driver's handle of the pool that a live block of weir belongs to. */
CUmemoryPool mempool_handle_of(CUdeviceptr ptr, int device);

/* ---- count.c: driver calls of weir ------------------------------------- */

/* The function through which weir calls an entry of driver/abi.h, so that the
 * call is counted and timed. For other names and other callers, `real` itself.
 */
void *count_through(const char *name, void *real);

/* The number of driver calls made by this thread, without queries such as which
 * context is current or whether a stream is being captured. */
uint64_t count_of_thread(void);

/* Has this thread, since the last call of this function, made a driver call
 * that waits or changes how much memory is held? */
bool count_has_news(void);

/* ---- watch.c: waits of the program ------------------------------------- */

/* Called at a free of device-scope memory: the driver would have waited. */
void watch_free(void);

/* Called when the host has waited for the device in any way. */
void watch_wait(void);

/* Enclose a call that waits. It is counted, and recorded in the history, if
 * that is on, as a region with the name of the call. */
void watch_begin(enum hook_id id);
void watch_end(enum hook_id id);

/* This thread enters a pushed range of NVTX, and leaves it: range_pools.c. NULL
 * if the range's memory is in no pool. */
struct range_routes;
struct range_routes *range_pools_enter(const char *name);
void range_pools_leave(struct range_routes *routes);

/* Report that the wait of watch_begin() was for all work of the device:
 * streams/delay.h, Note [Lost time]. */
void watch_lose_time(void);

/* How many copies to the host were followed by such a free as the only wait. */
uint64_t watch_barriers(void);

/* ---- races.c: blocks that streams use in no order ---------------------- */

/* Is WEIR_CHECK_STREAMS=1 set? If not, the calls below do nothing. */
bool races_wanted(void);

/* The variable has been read and is not set. */
extern atomic_bool races_are_off;

/* A block was allocated; is about to be freed. `stream` is an explicit handle
 * or WEIR_STREAM_ANY. */
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

/* A stream got work with these words as parameters. Each may or may not be an
 * address; words after the first n_sure may be left from earlier work. */
void races_work(CUstream stream, bool per_thread, const char *call,
    const CUdeviceptr *ptrs, size_t n, size_t n_sure);

/* The host has waited for a stream; for all streams. */
void races_waited(CUstream stream, bool per_thread);
void races_waited_all(void);

/* An event was recorded on a stream, given by its explicit handle; the host
 * waited for it; a stream waited for it; it was destroyed. */
void races_recorded(CUevent event, CUstream stream);
void races_event_waited(CUevent event);
void races_stream_waited(CUstream stream, CUevent event);
void races_event_gone(CUevent event);

/* A stream was destroyed. */
void races_stream_gone(CUstream stream);

/* ---- held.c: launches while a device is asleep -------------------------- */

/* Is WEIR_MAY_SLEEP set? Then lookups return all hooks that hold launches. */
bool held_wanted(void);

/* The calling thread's place among those that launch; NULL before its first
 * launch. Its word comes first: the hooks that the thread is in, plus HELD_ONE
 * for each launch that has ended. */
enum { HELD_ONE = 256 };
struct launcher;
extern PRELOAD_THREAD struct launcher *held_own;
/* A sleeper can make all threads pass a memory barrier; set before there is a
 * launcher. */
extern bool held_quick;

/* The slow path of held_begin(). */
bool held_wait(void);

/* A launch begins: wait while a device is asleep. False: it is to fail. Either
 * way held_end() follows. held.c, Note [Holding launches]. */
static inline bool
held_begin(void)
{
	atomic_uint *depth = (atomic_uint *)held_own;

	if (__builtin_expect(depth == NULL || !held_quick, 0))
		return held_wait();
	atomic_store_explicit(depth,
	    atomic_load_explicit(depth, memory_order_relaxed) + 1,
	    memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(!sleeping_any(), 1))
		return true;
	atomic_store_explicit(depth,
	    atomic_load_explicit(depth, memory_order_relaxed) - 1,
	    memory_order_release);
	return held_wait();
}

static inline CUresult
held_end(CUresult code)
{
	atomic_uint *depth = (atomic_uint *)held_own;

	if (__builtin_expect(depth != NULL, 1) &&
	    atomic_load_explicit(depth, memory_order_relaxed) % HELD_ONE > 0)
		atomic_store_explicit(depth,
		    atomic_load_explicit(depth, memory_order_relaxed) +
			(HELD_ONE - 1),
		    memory_order_release);
	return code;
}

/* A call of the driver that uses device memory. */
#define HELD(call) held_end(held_begin() ? (call) : CUDA_ERROR_NOT_READY)

/* ---- sites.c: where in the program memory comes from ------------------- */

struct site_block;
struct site_list; /* tools/report/report.h */

/* Does a report need the sites? If not, the calls below do nothing. */
bool sites_wanted(void);

/* Record who has allocated a block. The caller holds no lock. */
void sites_allocated(CUdeviceptr ptr, int device, size_t bytes);

/* Before a free, take the record of a block; NULL if there is none. The caller
 * then passes it to one of the other calls. */
struct site_block *sites_take(CUdeviceptr ptr);
void sites_freed(struct site_block *block);
void sites_put_back(struct site_block *block);

/* Copies of the records: blocks that were never freed, and the stacks that held
 * most at the peak, as many as the report shows. NULL if no report needs them,
 * or without memory. The caller frees the copy. */
struct site_list *sites_leaks(void);
struct site_list *sites_top(void);

/* Call `tell` for each call of a stack, innermost first, with a line of text
 * such as "f (file.c:12)". Calls within this library are left out. */
void sites_describe(
    uint32_t stack, void (*tell)(void *user, const char *line), void *user);

/* ---- counters.c -------------------------------------------------------- */

enum report_answer { REPORT_UNREAD, REPORT_NONE, REPORT_WANTED };
extern _Atomic(enum report_answer) report_answer;
bool report_read(void);
/* Where the report is written, if it is wanted. */
const char *report_destination(void);
void report_count_call(enum hook_id id);
void report_count_served(enum hook_id id);
void report_count_failed(void);
void report_count_allocated(const struct request *request);
void report_count_freed(int device, size_t bytes);

/* The slot of a device's stream in the report; and all three counts in one
 * call, for a request that weir has served without the driver. */
struct report_place {
	unsigned row;
	unsigned slot;
};
struct report_place report_place(int device, weir_stream stream);
void report_count_quick_malloc(
    enum hook_id id, struct report_place place, size_t bytes);
void report_count_quick_free(
    enum hook_id id, struct report_place place, size_t bytes);

/* Is WEIR_REPORT set? If not, the calls below do nothing but this load. */
static inline bool
report_wanted(void)
{
	enum report_answer answer =
	    atomic_load_explicit(&report_answer, memory_order_acquire);

	return answer != REPORT_NONE &&
	    (answer == REPORT_WANTED || report_read());
}

/* Count a call of a hook; count one that weir has answered with success. */
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

/* Count the program's memory. report_allocated() is called between the two
 * above. */
static inline void
report_allocated(const struct request *request, CUdeviceptr ptr)
{
	if (!report_wanted())
		return;
	report_count_allocated(request);
	sites_allocated(ptr, request->device, request->bytes);
}

static inline void
report_freed(int device, size_t bytes)
{
	if (report_wanted())
		report_count_freed(device, bytes);
}

/* Copy weir's numbers to the ledger, which outlives the process. */
void report_publish(void);

#endif
