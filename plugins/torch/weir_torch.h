/**
 * The calls that PyTorch's allocator interface needs beside weir's own, in C.
 *
 * PyTorch names private pools by a pair of numbers, counts who uses them,
 * routes by functions of its own, keeps stacks of its own for each block and
 * event, and has a syntax of its own for settings. All of that is here, and is
 * tested on the simulated device; adapter.cpp only converts types, and is
 * compiled against the PyTorch at hand when weir.torch is first used.
 *
 * These calls are not part of weir's interface: adapter.cpp and libweir_torch
 * belong together, and weir_torch_abi() says whether they do. The rules of
 * <weir/weir.h> hold: a failed call changes nothing, and every call is
 * thread-safe.
 */
#ifndef PLUGINS_TORCH_WEIR_TORCH_H
#define PLUGINS_TORCH_WEIR_TORCH_H

#include <weir/graph.h>
#include <weir/host.h>
#include <weir/trace.h>
#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Changes with each change of what follows. */
#define WEIR_TORCH_ABI 2

/** WEIR_TORCH_ABI of the library. */
WEIR_API int weir_torch_abi(void);

/* ---- Private pools ----------------------------------------------------- */

/** PyTorch's name of a pool. {0, 0} is all memory that is in none. */
struct weir_torch_id {
	uint64_t graph;
	uint64_t user;
};

/** Where the memory of a pool comes from if PyTorch's user says so. */
struct weir_torch_source {
	void *(*take)(void *closure, size_t size); /**< NULL: there is none */
	void (*give)(void *closure, void *ptr);
	/** Called once, when no memory of the pool is left. */
	void (*drop)(void *closure);
	void *closure;
};

/**
 * Make a pool with a use count of 1, or count one more use. A pool whose count
 * has gone to 0 and that has memory left comes back to life.
 *
 * @param source  of a new pool: NULL is the driver. Owned by the pool on
 *                success only
 * @return WEIR_EINVAL for the id {0, 0}, or a source for a pool that is there;
 *         or as weir_pool_create()
 */
WEIR_API enum weir_status weir_torch_pool_hold(int device,
    struct weir_torch_id id, const struct weir_torch_source *source);

/**
 * Count one use less. At 0 what is free goes back, and each live block when it
 * is freed; all of it once the work queued by then is done.
 *
 * @return WEIR_EINVAL if there is no such pool, or nobody uses it
 */
WEIR_API enum weir_status weir_torch_pool_release(
    int device, struct weir_torch_id id);

/**
 * Give an allocator of its own to a pool that has no live block: for versions
 * of PyTorch that name it only when requests are routed to the pool. The use
 * count stays.
 *
 * @param source  is owned by the pool on success only
 * @return WEIR_EINVAL if nobody uses the pool, if it is being routed to, has an
 *         allocator or has live blocks; or as weir_torch_pool_hold()
 */
WEIR_API enum weir_status weir_torch_pool_source(int device,
    struct weir_torch_id id, const struct weir_torch_source *source);

/** The use count; 0 of a pool that is not there. */
WEIR_API int weir_torch_pool_uses(int device, struct weir_torch_id id);

/** A function of PyTorch's: is a request for a stream to be routed? */
struct weir_torch_filter {
	bool (*matches)(void *closure, weir_stream stream);
	void (*drop)(void *closure); /**< called once, when it is of no use */
	void *closure;
};

/**
 * Count one use more (or make the pool), and route to it the requests that the
 * filter accepts, until weir_torch_pool_end(). The count stays when the route
 * ends.
 *
 * @param filter  is owned by the route on success only
 * @return WEIR_EINVAL if the pool is being routed to already, or for {0, 0};
 *         WEIR_EHOSTMEM; or as weir_torch_pool_hold()
 */
WEIR_API enum weir_status weir_torch_pool_begin(int device,
    struct weir_torch_id id, const struct weir_torch_filter *filter);

/** End the route. WEIR_EINVAL if there is none. Waits for a call of the filter
 * that is under way. */
WEIR_API enum weir_status weir_torch_pool_end(
    int device, struct weir_torch_id id);

/** Set or clear WEIR_POOL_USE_ON_OOM or WEIR_POOL_NO_SPLIT. WEIR_EINVAL if
 * there is no such pool. */
WEIR_API enum weir_status weir_torch_pool_flag(
    int device, struct weir_torch_id id, unsigned flag, bool on);

/** Are the live blocks of a pool exactly those? As weir_pool_check_live();
 * WEIR_EINVAL if there is no such pool. */
WEIR_API enum weir_status weir_torch_pool_check_live(int device,
    struct weir_torch_id id, const void *const *ptrs, size_t n, bool *equal);

/** Give unused memory back: of all devices for {0, 0}, else of the pools of
 * this id that nobody uses. WEIR_EDRIVER. */
WEIR_API enum weir_status weir_torch_empty(struct weir_torch_id id);

/** A checkpoint of a pool, and the pool. Waits for the device if freed blocks
 * wait for other streams. As weir_checkpoint_take(); WEIR_EINVAL also if there
 * is no such pool or nobody uses it. */
struct weir_torch_checkpoint;
WEIR_API enum weir_status weir_torch_checkpoint_take(
    int device, struct weir_torch_id id, struct weir_torch_checkpoint **out);

/** As weir_checkpoint_restore(); WEIR_EINVAL also for another device. */
WEIR_API enum weir_status weir_torch_checkpoint_restore(int device,
    const struct weir_torch_checkpoint *checkpoint, struct weir_restored *out);

/** Forget it; NULL does nothing. */
WEIR_API void weir_torch_checkpoint_drop(
    struct weir_torch_checkpoint *checkpoint);

/** PyTorch's name of a pool, from weir's name in events and segments. A pool
 * that PyTorch has not made keeps weir's name. */
WEIR_API struct weir_torch_id weir_torch_pool_name(
    int device, const uint64_t segment_pool_id[2]);

/** Ask weir_segments_visit() for the segments of one pool; those of all for
 * {0, 0}. None for a pool that is not there. */
WEIR_API enum weir_status weir_torch_visit(
    struct weir_torch_id id, weir_segment_visitor visitor, void *user);

/* ---- History ----------------------------------------------------------- */

/** An opaque context, counted by its owner: PyTorch's stack of a call. */
struct weir_torch_contexts {
	void (*acquire)(void *context);
	void (*release)(void *context);
};

/** An action beside those of enum weir_action: a live block is annotated. */
#define WEIR_TORCH_ANNOTATE WEIR_ACTIONS

/** One event with what PyTorch wants to know of it. */
struct weir_torch_event {
	int action; /**< of enum weir_action, or WEIR_TORCH_ANNOTATE */
	int device;
	uint64_t address; /**< of oom: bytes that the device has free */
	size_t size;
	weir_stream stream;
	struct weir_torch_id pool;
	uint64_t time_ns;            /**< since 1970 */
	void *context;               /**< NULL: none */
	const char *compile_context; /**< "N/A" outside of all */
	const char *user_metadata;   /**< of annotate: the annotation */
};

/** How it is kept. */
struct weir_torch_history {
	bool on;
	int level; /**< as enum weir_history_level: where contexts are kept */
	size_t max_entries; /**< 0 is 1; memory is taken as it is needed */
	uint32_t skip;      /**< a bit for each action */
	bool clear;
};

/**
 * Keep a history of all devices from now on, or none. Off forgets all entries.
 *
 * @param contexts  how contexts are counted; the same at each call
 * @return WEIR_OK; or as weir_memory_observer_add()
 */
WEIR_API enum weir_status weir_torch_history_set(
    const struct weir_torch_history *history,
    const struct weir_torch_contexts *contexts);

/** Is it on? */
WEIR_API bool weir_torch_history_on(void);

/** Greater than 0 while events are wanted: by the history or a tracker. Calls
 * that allocate and free look at it before they gather a context. */
WEIR_API extern int weir_torch_watched;

/** The level from which a context of this call is wanted is in force. */
WEIR_API bool weir_torch_history_wants(int level);

/**
 * The calling thread's events have this context from now on, until it is set
 * anew; NULL ends it. The caller keeps their own count.
 */
WEIR_API void weir_torch_history_enter(void *context);

/** The action of a name, "segment_map"; -1: there is none. */
WEIR_API int weir_torch_action(const char *name);

/** Look at the entries that are kept, oldest first, under the history's lock:
 * `visit` must not call weir. */
WEIR_API void weir_torch_history_each(
    void (*visit)(const struct weir_torch_event *event, void *user),
    void *user);

/** The context of a live or pending block, and of the memory that begins at an
 * address; NULL: none. Acquired for the caller. */
WEIR_API void *weir_torch_context_of_block(uint64_t address);
WEIR_API void *weir_torch_context_of_segment(uint64_t address);

/**
 * Call `tracker` at every event, for good. It is called with locks of weir
 * held: it must not call weir. WEIR_EINVAL beyond 16.
 */
WEIR_API enum weir_status weir_torch_tracker_add(
    void (*tracker)(const struct weir_torch_event *event, void *user),
    void *user);

/** Texts of the calling thread's events. Events have the top of the stack of
 * compile contexts; NULL and "" end the metadata. WEIR_EHOSTMEM; a pop without
 * a push does nothing. */
WEIR_API enum weir_status weir_torch_compile_push(const char *name);
WEIR_API void weir_torch_compile_pop(void);
WEIR_API enum weir_status weir_torch_metadata_set(const char *text);
WEIR_API const char *weir_torch_metadata_get(void);

/**
 * Add an event to the history: the live block at an address is annotated. Does
 * nothing for other addresses, and while nobody watches.
 *
 * @return WEIR_OK; or WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_torch_block_annotate(
    const void *ptr, const char *text);

/** Annotations are opaque too, and kept while the history is on: as many as
 * events. The history owns a count of what it keeps. */
WEIR_API void weir_torch_annotate(void *annotation);
WEIR_API void weir_torch_annotations_each(
    void (*visit)(void *annotation, void *user), void *user);

/* ---- Settings, shortage ------------------------------------------------ */

/**
 * Do as a text in PyTorch's syntax says (PYTORCH_CUDA_ALLOC_CONF). As in
 * PyTorch max_split_size_mb, max_non_split_rounding_mb,
 * garbage_collection_threshold and roundup_power2_divisions are first set back.
 * Keys that say nothing to weir are passed over.
 *
 * @return WEIR_EINVAL for what weir does not take; nothing has changed
 */
WEIR_API enum weir_status weir_torch_conf(const char *text);

/** As above, if the text differs from that of the last call. */
WEIR_API enum weir_status weir_torch_conf_follow(const char *text);

/**
 * The text of an OutOfMemoryError: PyTorch's first sentence, then weir's report
 * of the calling thread's last failure.
 */
WEIR_API void weir_torch_oom_text(
    char *text, size_t size, int device, size_t requested);

/** Size in PyTorch's words, "20.00 MiB". */
WEIR_API void weir_torch_size_text(char *text, size_t size, uint64_t bytes);

/* ---- Memory between processes ------------------------------------------ */

/** Blocks that are shared; they are not freed by weir_free(). */
WEIR_API extern int weir_torch_shared;

/** Free a block, shared or not, as weir_free(). */
WEIR_API enum weir_status weir_torch_free_shared(void *ptr);
static inline enum weir_status
weir_torch_free(void *ptr)
{
	if (__builtin_expect(
		__atomic_load_n(&weir_torch_shared, __ATOMIC_RELAXED) != 0, 0))
		return weir_torch_free_shared(ptr);
	return weir_free(ptr);
}

/** Bytes of the longest handle. */
#define WEIR_TORCH_HANDLE_MAX 65536

/**
 * Write the handle by which another process opens the memory of a live block:
 * PyTorch's own, where it can name the memory, else one that only weir in the
 * other process understands. The block belongs to its export until it is freed.
 *
 * @param offset  bytes of the shared memory before the block
 * @return as weir_ipc_export() and weir_ipc_torch_handle()
 */
WEIR_API enum weir_status weir_torch_share(
    void *ptr, void *bytes, size_t capacity, size_t *length, size_t *offset);

/**
 * Open the memory of a handle, of either kind.
 *
 * @param ptr   its first byte in this process
 * @param link  for weir_torch_close_shared()
 * @return as weir_ipc_torch_open() and weir_ipc_open()
 */
WEIR_API enum weir_status weir_torch_open_shared(
    const void *bytes, size_t length, int device, void **ptr, void **link);

/** Let go of it: waits for the work that uses it. As weir_ipc_close(). */
WEIR_API enum weir_status weir_torch_close_shared(void *link);

/* ---- Page-locked memory ------------------------------------------------ */

/** Allocate for a stream: in the pool whose route says yes to it, if there is
 * one; else as weir_host_malloc(). */
WEIR_API void *weir_torch_host_malloc(size_t size, weir_stream stream);

/** Free it. What is of a pool stays with the pool while that is used: a graph
 * reads it at each launch. As weir_host_free(). */
WEIR_API enum weir_status weir_torch_host_free(void *ptr);

/** The first byte of a block, or any byte in it, is used on a stream: as
 * weir_host_record(). */
WEIR_API enum weir_status weir_torch_host_record(
    const void *ptr, weir_stream stream);

/** Routes and use counts, as those of device memory. */
WEIR_API enum weir_status weir_torch_host_begin(
    struct weir_torch_id id, const struct weir_torch_filter *filter);
WEIR_API enum weir_status weir_torch_host_end(struct weir_torch_id id);
WEIR_API enum weir_status weir_torch_host_release(struct weir_torch_id id);

/* ---- Where there is no compiler ---------------------------------------- */

/*
 * The functions of a pluggable allocator, by which PyTorch's own wrapper calls
 * weir where adapter.cpp cannot be built. A failed request is logged and gives
 * NULL: the wrapper knows no other way.
 */
WEIR_API void *weir_torch_plug_alloc(
    size_t size, int device, weir_stream stream);
WEIR_API void weir_torch_plug_free(
    void *ptr, size_t size, int device, weir_stream stream);
WEIR_API void weir_torch_plug_init(int device_count);
WEIR_API void weir_torch_plug_reset(void);
WEIR_API void weir_torch_plug_fraction(double fraction, int device);
WEIR_API void *weir_torch_plug_base(void *ptr, size_t *size);
WEIR_API void weir_torch_plug_record(void *ptr, weir_stream stream);
/* The filter is a C++ object, which cannot be called from here: the thread that
 * begins is routed, and what is being captured. */
WEIR_API void weir_torch_plug_begin(
    int device, struct weir_torch_id id, void *filter);
WEIR_API void weir_torch_plug_end(int device, struct weir_torch_id id);
WEIR_API void weir_torch_plug_release(int device, struct weir_torch_id id);

#ifdef __cplusplus
}
#endif

#endif
