/**
 * The calls that PyTorch's allocator interface needs besides weir's own, in C.
 *
 * PyTorch names private pools by a pair of numbers, counts their users, routes
 * requests by its own functions, stores its own stacks for each block and
 * event, and has its own syntax for settings. All of that is implemented here
 * and tested on the simulated device. adapter.cpp only converts types, and is
 * compiled against the installed PyTorch when weir.torch is first used.
 *
 * These calls are not part of weir's interface: adapter.cpp and libweir_torch
 * belong together, and weir_torch_abi() says whether they match. The rules of
 * <weir/weir.h> apply: a failed call changes nothing, and every call is
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

/**
 * Changes with each change to the declarations below.
 */
#define WEIR_TORCH_ABI 3

/** WEIR_TORCH_ABI of the library. */
WEIR_API int weir_torch_abi(void);

/* ---- Private pools ----------------------------------------------------- */

/**
 * PyTorch's name of a pool. {0, 0} stands for all memory that is in no pool.
 */
struct weir_torch_id {
	uint64_t graph;
	uint64_t user;
};

/**
 * The source of a pool's memory, if PyTorch's user provides one.
 */
struct weir_torch_source {
	void *(*take)(void *closure, size_t size); /**< NULL: there is none */
	void (*give)(void *closure, void *ptr);
	/**
	 * Called once, when the pool has no memory any more.
	 */
	void (*drop)(void *closure);
	void *closure;
};

/**
 * Make a pool with a use count of 1, or count one more use. A pool whose count
 * is 0 but that still has memory can be used again.
 *
 * @param source  for a new pool: NULL is the driver. The pool owns it on
 * success only
 * @return WEIR_EINVAL for the id {0, 0}, or for a source if the pool exists; or
 *         as weir_pool_create()
 */
WEIR_API enum weir_status weir_torch_pool_hold(int device,
    struct weir_torch_id id, const struct weir_torch_source *source);

/**
 * Count one use less. At 0 the free memory is given back, and each live block
 * when it is freed, once the work queued by then is done.
 *
 * @return WEIR_EINVAL if there is no such pool, or it is not used
 */
WEIR_API enum weir_status weir_torch_pool_release(
    int device, struct weir_torch_id id);

/**
 * Give a pool without live blocks its own allocator. Some versions of PyTorch
 * name it only when requests are routed to the pool. The use count does not
 * change.
 *
 * @param source  the pool owns it on success only
 * @return WEIR_EINVAL if the pool is not used, has a route, has an allocator or
 *         has live blocks; or as weir_torch_pool_hold()
 */
WEIR_API enum weir_status weir_torch_pool_source(int device,
    struct weir_torch_id id, const struct weir_torch_source *source);

/**
 * The use count; 0 if there is no such pool.
 */
WEIR_API int weir_torch_pool_uses(int device, struct weir_torch_id id);

/**
 * A function of PyTorch: is a request for this stream to be routed?
 */
struct weir_torch_filter {
	bool (*matches)(void *closure, weir_stream stream);
	void (*drop)(void *closure); /**< called once, when it is of no use */
	void *closure;
};

/**
 * Count one more use (or make the pool), and route to it the requests that the
 * filter accepts, until weir_torch_pool_end(). The end of the route does not
 * change the count.
 *
 * @param filter  the route owns it on success only
 * @return WEIR_EINVAL if the pool has a route already, or for {0, 0};
 *         WEIR_EHOSTMEM; or as weir_torch_pool_hold()
 */
WEIR_API enum weir_status weir_torch_pool_begin(int device,
    struct weir_torch_id id, const struct weir_torch_filter *filter);

/**
 * End the route. WEIR_EINVAL if there is none. Waits for a running call of the
 * filter.
 */
WEIR_API enum weir_status weir_torch_pool_end(
    int device, struct weir_torch_id id);

/**
 * As weir_malloc_primary(), for a request of PyTorch. A route serves such
 * requests, and those of other libraries only for a stream that is captured:
 * PyTorch counts what lives in its pools, and frees what it did not put there.
 */
WEIR_API void *weir_torch_malloc(int device, size_t size, weir_stream stream);

/**
 * Greater than 0 while a pool has a route. Otherwise weir_malloc_primary() does
 * what weir_torch_malloc() does.
 */
WEIR_API extern int weir_torch_routes;

/** Set or clear WEIR_POOL_USE_ON_OOM or WEIR_POOL_NO_SPLIT. WEIR_EINVAL if
 * there is no such pool. */
WEIR_API enum weir_status weir_torch_pool_flag(
    int device, struct weir_torch_id id, unsigned flag, bool on);

/**
 * Are these exactly the live blocks of a pool? See weir_pool_check_live();
 * WEIR_EINVAL if there is no such pool.
 */
WEIR_API enum weir_status weir_torch_pool_check_live(int device,
    struct weir_torch_id id, const void *const *ptrs, size_t n, bool *equal);

/**
 * Give back unused memory: of all devices for {0, 0}, else of unused pools with
 * this id. WEIR_EDRIVER.
 */
WEIR_API enum weir_status weir_torch_empty(struct weir_torch_id id);

/**
 * Take a checkpoint of a pool; also returns the pool. Waits for the device if
 * freed blocks wait for other streams. See weir_checkpoint_take(); WEIR_EINVAL
 * also if there is no such pool or it is not used.
 */
struct weir_torch_checkpoint;
WEIR_API enum weir_status weir_torch_checkpoint_take(
    int device, struct weir_torch_id id, struct weir_torch_checkpoint **out);

/**
 * See weir_checkpoint_restore(); WEIR_EINVAL also for another device.
 */
WEIR_API enum weir_status weir_torch_checkpoint_restore(int device,
    const struct weir_torch_checkpoint *checkpoint, struct weir_restored *out);

/**
 * Free a checkpoint; NULL does nothing.
 */
WEIR_API void weir_torch_checkpoint_drop(
    struct weir_torch_checkpoint *checkpoint);

/**
 * PyTorch's name of a pool, given weir's name in events and segments. A pool
 * that PyTorch has not made has weir's name.
 */
WEIR_API struct weir_torch_id weir_torch_pool_name(
    int device, const uint64_t segment_pool_id[2]);

/**
 * Call weir_segments_visit() for one pool; for {0, 0}, for all segments. If
 * there is no such pool, no segment is visited.
 */
WEIR_API enum weir_status weir_torch_visit(
    struct weir_torch_id id, weir_segment_visitor visitor, void *user);

/* ---- History ----------------------------------------------------------- */

/**
 * An opaque context, counted by its owner: PyTorch's stack of a call.
 */
struct weir_torch_contexts {
	void (*acquire)(void *context);
	void (*release)(void *context);
};

/**
 * An action besides those of enum weir_action: a live block is annotated.
 */
#define WEIR_TORCH_ANNOTATE WEIR_ACTIONS

/**
 * One event, with the data that PyTorch adds.
 */
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

/**
 * The settings of the history.
 */
struct weir_torch_history {
	bool on;
	int level; /**< as enum weir_history_level: where contexts are kept */
	size_t max_entries; /**< 0 is 1; memory is taken as it is needed */
	uint32_t skip;      /**< a bit for each action */
	bool clear;
};

/**
 * Record a history of all devices from now on, or stop. Stopping drops all
 * entries.
 *
 * @param contexts  how contexts are counted; must not change between calls
 * @return WEIR_OK; or as weir_memory_observer_add()
 */
WEIR_API enum weir_status weir_torch_history_set(
    const struct weir_torch_history *history,
    const struct weir_torch_contexts *contexts);

/**
 * Is the history on?
 */
WEIR_API bool weir_torch_history_on(void);

/**
 * Greater than 0 while the history or a tracker wants events. Calls that
 * allocate and free read it before they make a context.
 */
WEIR_API extern int weir_torch_watched;

/**
 * Is the level high enough that this call needs a context?
 */
WEIR_API bool weir_torch_history_wants(int level);

/**
 * Set the context of the calling thread's events, until it is set again; NULL
 * ends it. The caller keeps its own reference.
 */
WEIR_API void weir_torch_history_enter(void *context);

/**
 * The action with a name, as "segment_map"; -1 if there is none.
 */
WEIR_API int weir_torch_action(const char *name);

/**
 * Visit the stored entries, oldest first, under the history's lock: `visit`
 * must not call weir.
 */
WEIR_API void weir_torch_history_each(
    void (*visit)(const struct weir_torch_event *event, void *user),
    void *user);

/**
 * The context of a live or pending block, and of the memory that begins at an
 * address; NULL if there is none. Acquired for the caller.
 */
WEIR_API void *weir_torch_context_of_block(uint64_t address);
WEIR_API void *weir_torch_context_of_segment(uint64_t address);

/**
 * Call `tracker` at every event from now on. It is called with locks of weir
 * held and must not call weir. WEIR_EINVAL for more than 16.
 */
WEIR_API enum weir_status weir_torch_tracker_add(
    void (*tracker)(const struct weir_torch_event *event, void *user),
    void *user);

/**
 * The texts of the calling thread's events. Events have the innermost compile
 * context. NULL and "" end the metadata. WEIR_EHOSTMEM; a pop without a push
 * does nothing.
 */
WEIR_API enum weir_status weir_torch_compile_push(const char *name);
WEIR_API void weir_torch_compile_pop(void);
WEIR_API enum weir_status weir_torch_metadata_set(const char *text);
WEIR_API const char *weir_torch_metadata_get(void);

/**
 * Add an event to the history: the live block at an address is annotated. Does
 * nothing for other addresses, and while neither the history nor a tracker
 * wants events.
 *
 * @return WEIR_OK; or WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_torch_block_annotate(
    const void *ptr, const char *text);

/**
 * Annotations are opaque too. While the history is on, as many are stored as
 * events. The history owns a reference to each.
 */
WEIR_API void weir_torch_annotate(void *annotation);
WEIR_API void weir_torch_annotations_each(
    void (*visit)(void *annotation, void *user), void *user);

/* ---- Settings, shortage ------------------------------------------------ */

/**
 * Apply settings in PyTorch's syntax (PYTORCH_CUDA_ALLOC_CONF). As in PyTorch,
 * max_split_size_mb, max_non_split_rounding_mb, garbage_collection_threshold
 * and roundup_power2_divisions are reset first. Keys without a meaning for weir
 * are ignored.
 *
 * @return WEIR_EINVAL for a setting that weir refuses; nothing has changed
 */
WEIR_API enum weir_status weir_torch_conf(const char *text);

/**
 * weir_torch_conf(), if the text differs from that of the last call.
 */
WEIR_API enum weir_status weir_torch_conf_follow(const char *text);

/**
 * The text of an OutOfMemoryError: PyTorch's first sentence, then weir's report
 * of the calling thread's last failure.
 */
WEIR_API void weir_torch_oom_text(
    char *text, size_t size, int device, size_t requested);

/**
 * A size in PyTorch's form: "20.00 MiB".
 */
WEIR_API void weir_torch_size_text(char *text, size_t size, uint64_t bytes);

/* ---- Memory between processes ------------------------------------------ */

/**
 * Number of blocks that are shared; these are not freed by weir_free().
 */
WEIR_API extern int weir_torch_shared;

/**
 * Free a block, shared or not, like weir_free().
 */
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
 * PyTorch's own, if it can name the memory, else one that only weir
 * understands. The block belongs to its export until it is freed.
 *
 * @param offset  bytes of the shared memory before the block
 * @return as weir_ipc_export() and weir_ipc_torch_handle()
 */
WEIR_API enum weir_status weir_torch_share(
    void *ptr, void *bytes, size_t capacity, size_t *length, size_t *offset);

/**
 * Open the memory of a handle of either kind.
 *
 * @param ptr   its first byte in this process
 * @param link  for weir_torch_close_shared()
 * @return as weir_ipc_torch_open() and weir_ipc_open()
 */
WEIR_API enum weir_status weir_torch_open_shared(
    const void *bytes, size_t length, int device, void **ptr, void **link);

/**
 * Close it: waits for the work that uses it. See weir_ipc_close().
 */
WEIR_API enum weir_status weir_torch_close_shared(void *link);

/* ---- Page-locked memory ------------------------------------------------ */

/**
 * Allocate for a stream: in the pool whose route accepts the stream, if there
 * is one; else like weir_host_malloc().
 */
WEIR_API void *weir_torch_host_malloc(size_t size, weir_stream stream);

/**
 * Free it. A block of a pool stays with the pool while the pool is used,
 * because a graph reads it at each launch. See weir_host_free().
 */
WEIR_API enum weir_status weir_torch_host_free(void *ptr);

/**
 * Record that a stream uses the block that contains this address. See
 * weir_host_record().
 */
WEIR_API enum weir_status weir_torch_host_record(
    const void *ptr, weir_stream stream);

/**
 * Routes and use counts, like those of device memory.
 */
WEIR_API enum weir_status weir_torch_host_begin(
    struct weir_torch_id id, const struct weir_torch_filter *filter);
WEIR_API enum weir_status weir_torch_host_end(struct weir_torch_id id);
WEIR_API enum weir_status weir_torch_host_release(struct weir_torch_id id);

/* ---- Where there is no compiler ---------------------------------------- */

/*
 * The functions of a pluggable allocator, by which PyTorch's own wrapper calls
 * weir if adapter.cpp cannot be built. A failed request is logged and returns
 * NULL, because the wrapper has no other way to fail.
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
/* The filter is a C++ object, which cannot be called from C. So the calling
 * thread is routed, and the capture that is under way. */
WEIR_API void weir_torch_plug_begin(
    int device, struct weir_torch_id id, void *filter);
WEIR_API void weir_torch_plug_end(int device, struct weir_torch_id id);
WEIR_API void weir_torch_plug_release(int device, struct weir_torch_id id);

#ifdef __cplusplus
}
#endif

#endif
