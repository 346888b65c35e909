/**
 * CUDA graphs, and memory that stays apart.
 *
 * Captured work uses addresses that replays use again, long after the program
 * has freed the memory. So requests during a capture draw on a *pool* of its
 * own, which the graph keeps until it is reset: none of that memory moves, goes
 * back to the driver, or serves requests other than those that are captured
 * with the same pool.
 *
 * Graphs that share a pool share memory: the next one uses the memory that one
 * has freed. They must be replayed in the order of their captures and never at
 * the same time, and a replay may overwrite the results of an earlier one.
 * Within a pool, as anywhere, memory belongs to streams: graphs that are
 * captured on different streams share addresses only if the order of these
 * streams is known.
 *
 * A pool is also of use without graphs: for memory with a source of its own, or
 * for memory that is counted, trimmed or freed together.
 *
 * A capture never holds up work of other threads and streams: a block is free
 * as soon as the streams that used it, and are not captured, are done with it.
 *
 * Within a capture of several streams memory passes from one stream to another
 * by the order of that capture. Memory that a stream has freed serves another
 * stream once that stream has waited, in the capture, for all streams that used
 * it, before the free or after it. weir must see the waits: those by
 * <weir/stream.h>, or by CUDA's calls under the preload. Otherwise memory stays
 * with its stream, and blocks used elsewhere are held until the capture ends.
 * With `prefer:memory`, or before it fails, a request puts its stream behind
 * another one of the same capture by an edge of the graph; that joins no work
 * that the program does not, and adds no node. A program that sets the
 * dependencies of a captured stream by hand so that it no longer comes after
 * its own earlier work must not allocate on it.
 */
#ifndef WEIR_GRAPH_H
#define WEIR_GRAPH_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Pools ----------------------------------------------------------- */

/** Memory of one device that stays apart from all other. */
struct weir_pool;

/**
 * Where a pool's memory comes from, if not from the driver. The functions are
 * called with no lock of weir held and the device's primary context current;
 * they may be called until the last block of the pool is gone.
 */
struct weir_pool_source {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	const char *name;   /**< in errors; must outlive the pool */
	/** Memory of the device at a multiple of 512 bytes, or NULL. Never
	 * memory that weir has given. */
	void *(*take)(void *closure, int device, size_t size);
	/** Take it back. False: not now; it stays in the pool. */
	bool (*give)(void *closure, int device, void *ptr, size_t size);
	void *closure;
};

/** Properties of a pool; bits. */
enum weir_pool_flags {
	WEIR_POOL_DEFAULT = 0,
	/** Its free memory serves requests that find no memory elsewhere; such
	 * a block belongs to the pool. */
	WEIR_POOL_USE_ON_OOM = 1,
	/** Blocks are not cut: each is one piece from the source, and a free
	 * one serves requests of its own size class only. */
	WEIR_POOL_NO_SPLIT = 2,
	/** As long as the pool is held, its memory stays where it is and serves
	 * no other pool, as if a graph kept it. It is for graphs that weir does
	 * not know. After the last release this lasts until all work queued by
	 * then is done. */
	WEIR_POOL_KEEP = 4,
	/** Its memory comes in segments of the driver (cuMemAlloc), even if
	 * expandable segments are on. Each is one allocation, which can be
	 * shared with other processes and libraries by its driver's handle. At
	 * creation only. */
	WEIR_POOL_SEGMENTS = 8,
	/**
	 * Memory that can be registered with a library or a network card
	 * (ncclCommRegister(), NCCL's windows, GPUDirect RDMA), and shared with
	 * other processes. Each segment is one physical allocation of
	 * cuMemCreate(), mapped once and never moved: no block lies across two.
	 * It can be exported as a file descriptor and, where the device has
	 * them, as a fabric handle; it is marked for GPUDirect RDMA where the
	 * device supports that. Every device that can reach this one may read
	 * and write it. Segments are as large as those of the driver are with
	 * `expandable_segments:False`; memory goes back a whole segment at a
	 * time, once all of it is free and no work uses it. Deregister memory
	 * before that, or pin it: see weir_pin(). Such a pool cannot be
	 * suspended, and has no source of its own.
	 */
	WEIR_POOL_REGISTRABLE = 16,
	/** Under `weir run`, routes send cudaMalloc() and its like to the pool
	 * as well. Libraries call it in the midst of other work, so what they
	 * keep for themselves may then lie in the pool. At creation only. */
	WEIR_POOL_SERVES_DRIVER = 32,
};

/**
 * Make a pool; the caller holds it.
 *
 * @param device  a device or WEIR_DEVICE_CURRENT
 * @param source  NULL: the driver
 * @param flags   of enum weir_pool_flags
 * @return WEIR_EINVAL for unknown flags, a source without its functions, or a
 *         source or WEIR_POOL_SEGMENTS beside WEIR_POOL_REGISTRABLE;
 *         WEIR_ENOTSUP for that flag on a device that cannot map memory;
 *         WEIR_EHOSTMEM; WEIR_ENODEVICE; any failure of weir_init()
 */
WEIR_API enum weir_status weir_pool_create(int device,
    const struct weir_pool_source *source, unsigned flags,
    struct weir_pool **out);

/**
 * Set or clear flags of a pool: each flag in `mask` gets its value in `flags`.
 *
 * @param mask  of WEIR_POOL_USE_ON_OOM, WEIR_POOL_NO_SPLIT, WEIR_POOL_KEEP.
 *              When WEIR_POOL_NO_SPLIT is cleared, blocks that exist are not
 *              cut or joined; those of new segments are
 * @return WEIR_OK; WEIR_EINVAL for other flags or NULL
 */
WEIR_API enum weir_status weir_pool_flags_set(
    struct weir_pool *pool, unsigned mask, unsigned flags);

/** The pool's `segment_pool_id` in snapshots and events: the number of a
 * graph's pool, or of a user's; zeros for NULL. A pool that has ended may have
 * had the same. */
WEIR_API void weir_pool_segment_id(
    const struct weir_pool *pool, uint64_t id[2]);

/** Hold a pool once more, by a pointer that is held already. */
WEIR_API enum weir_status weir_pool_acquire(struct weir_pool *pool);

/**
 * Release one hold on a pool; NULL does nothing. A pool that nobody holds (no
 * caller, no graph, no route) gives its free memory back at once, and each live
 * block when it is freed and its work is done.
 */
WEIR_API void weir_pool_release(struct weir_pool *pool);

/** A number of the pool that no other ever has. */
WEIR_API uint64_t weir_pool_id(const struct weir_pool *pool);

/** The bytes of a pool's name at most, with its end. */
#define WEIR_POOL_NAME_SIZE 64

/**
 * Name a pool: weir_sleep() and `weir sleep --discard NAME` find it by its
 * name. Several pools may have one name.
 *
 * @param name  NULL or "" for none. It begins with no digit and not with
 *              "pool:", and has no comma, semicolon or control character
 * @return WEIR_EINVAL for another name, or one that is too long
 */
WEIR_API enum weir_status weir_pool_name_set(
    struct weir_pool *pool, const char *name);

/** Copy the name of a pool; "" if it has none. */
WEIR_API void weir_pool_name(
    const struct weir_pool *pool, char name[WEIR_POOL_NAME_SIZE]);

/**
 * Hold the pool of a number. A pool that nobody holds any more but that has
 * memory left comes back to life.
 *
 * @return WEIR_EINVAL if there is no such pool, or nothing of it is left
 */
WEIR_API enum weir_status weir_pool_find(uint64_t id, struct weir_pool **out);

/** How often a pool is held: by callers, graphs and routes. */
WEIR_API size_t weir_pool_use_count(const struct weir_pool *pool);

/** As weir_malloc(), from a pool, whatever the routes say. */
WEIR_API void *weir_pool_malloc(
    struct weir_pool *pool, size_t size, weir_stream stream);

/** The statistics of one pool. They are part of the device's. */
WEIR_API enum weir_status weir_pool_stats(
    struct weir_pool *pool, struct weir_stats *out);

/** As weir_trim(), of one pool. Nothing goes while a graph keeps it. */
WEIR_API enum weir_status weir_pool_trim(
    struct weir_pool *pool, size_t keep_bytes, size_t *freed_bytes);

/**
 * Are the live blocks of a pool exactly those?
 *
 * @param ptrs   n addresses, each of a first byte, in any order, each once
 * @param equal  true if each is a live block of the pool and there is no other
 */
WEIR_API enum weir_status weir_pool_check_live(
    struct weir_pool *pool, const void *const *ptrs, size_t n, bool *equal);

/* ---- Suspending ------------------------------------------------------ */

/**
 * Give the physical memory of a pool back to the driver, for others to use, and
 * keep its addresses: graphs that were captured with it replay again once it is
 * resumed. Waits for all work of the device. While it is suspended, blocks can
 * be freed, but none can be allocated; nothing may be captured or replayed, and
 * the memory must not be used. The history has the memory as unmapped, and as
 * mapped when it is resumed; live blocks live on.
 *
 * @param copy   keep the contents, in page-locked host memory, which is
 *               counted, limited and cached as in <weir/host.h>. Several
 *               threads of weir's own allocate and fill it. If false, the
 *               contents are undefined afterwards
 * @param freed_bytes  bytes given back; may be NULL. A piece that the driver
 *               does not release stays
 * @return WEIR_EINVAL     it is suspended, or pages of it are pinned
 *         WEIR_ENOTSUP    it has segments of the driver: memory of
 *                         WEIR_STREAM_ANY, a source of its own, or expandable
 *                         segments are off
 *         WEIR_ECAPTURE   a stream of the device is being captured
 *         WEIR_ENOTREADY  memory is being mapped at this moment
 *         WEIR_EHOSTMEM, WEIR_EDRIVER. Nothing has changed then
 */
WEIR_API enum weir_status weir_pool_suspend(
    struct weir_pool *pool, bool copy, size_t *freed_bytes);

/**
 * Map the memory of a suspended pool again, at the same addresses; other pools
 * give unused memory back if need be. The host memory that held the copies is
 * cached from then on, for the next time that a pool is suspended. A thread of
 * weir's own gives it back when it has been unused for decay_ms; so does
 * weir_host_trim().
 *
 * @return WEIR_EINVAL if it is not suspended; WEIR_ENOMEM, WEIR_EDRIVER: it is
 *         still suspended, and the call can be repeated
 */
WEIR_API enum weir_status weir_pool_resume(struct weir_pool *pool);

/* ---- Checkpoints ----------------------------------------------------- */

/** Which blocks a pool had at a moment, and which of them were live. */
struct weir_checkpoint;

/** The changes that a restore has made. Both lists are weir's. */
struct weir_restored {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	/** Live before, and freed by the restore: their former owners must not
	 * free them. */
	void **freed;
	size_t n_freed;
	/** Live now, and the caller's, who frees them. May be among those that
	 * were freed: then the address has a new owner. */
	void **live;
	size_t n_live;
};

/**
 * Remember the blocks of a pool: addresses, sizes, bytes asked for, streams.
 * The contents are not part of it, nor are uses by other streams.
 *
 * @return WEIR_ENOTREADY  a freed block waits for work on another stream, or
 *                         memory is just being mapped
 *         WEIR_ENOTSUP    the pool has a live block of WEIR_STREAM_ANY
 *         WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_checkpoint_take(
    struct weir_pool *pool, struct weir_checkpoint **out);

/**
 * Free all live blocks of the pool, and restore the blocks of the checkpoint:
 * the same blocks at the same addresses, live or free. Memory that the pool has
 * taken since then stays with it, free. A checkpoint can be restored any number
 * of times.
 *
 * Work that is queued on the freed blocks comes before work on the restored
 * ones: a stream waits on the device for another whose memory it gets.
 *
 * @param out  to be dropped with weir_restored_drop()
 * @return WEIR_EINVAL     a checkpoint of another pool; memory of it has gone
 *                         back to the driver (a graph that keeps the pool
 *                         prevents that)
 *         WEIR_ENOTREADY  as above; a live block is recorded for another
 *                         stream; a stream that is captured cannot wait for
 *                         another
 *         WEIR_EHOSTMEM. Nothing has changed then
 */
WEIR_API enum weir_status weir_checkpoint_restore(struct weir_pool *pool,
    const struct weir_checkpoint *checkpoint, struct weir_restored *out);

/** Free the lists of a restore. */
WEIR_API void weir_restored_drop(struct weir_restored *restored);

/** Forget a checkpoint; NULL does nothing. */
WEIR_API void weir_checkpoint_drop(struct weir_checkpoint *checkpoint);

/* ---- Routes ---------------------------------------------------------- */

/** Sends requests of weir_malloc() and its like to a pool. Of the routes that
 * match a request the one that began last decides. Under `weir run`
 * cudaMalloc() and its like are no such requests, except for a pool of
 * WEIR_POOL_SERVES_DRIVER. */
struct weir_route;

/** Send requests of the calling thread to a pool, until the route ends; the
 * route holds the pool. WEIR_EHOSTMEM. */
WEIR_API enum weir_status weir_route_thread(
    struct weir_pool *pool, struct weir_route **out);

/** Send requests for a stream to a pool. WEIR_EINVAL if the stream is of
 * another device or was destroyed; WEIR_EHOSTMEM. */
WEIR_API enum weir_status weir_route_stream(
    struct weir_pool *pool, weir_stream stream, struct weir_route **out);

/**
 * Send the requests to a pool for which a function returns true. The function
 * is called on the requesting thread, with no lock of weir held, with the
 * stream (WEIR_STREAM_LEGACY for NULL); it must not allocate. A thread whose
 * request was under way may still call it after the end of the route.
 */
WEIR_API enum weir_status weir_route_filter(struct weir_pool *pool,
    bool (*filter)(weir_stream stream, void *closure), void *closure,
    struct weir_route **out);

/** End a route; NULL does nothing. Any thread, in any order. */
WEIR_API void weir_route_end(struct weir_route *route);

/* ---- Graphs ---------------------------------------------------------- */

/** A captured graph, and its hold on a pool. One thread uses it at a time. */
struct weir_graph;

/** Properties of a graph; bits. */
enum weir_graph_flags {
	WEIR_GRAPH_DEFAULT = 0,
	/** The end of the capture does not instantiate: weir_graph_handle() may
	 * be changed first. weir_graph_instantiate() or the first replay does.
	 */
	WEIR_GRAPH_KEEP = 1,
};

/** The threads for which a capture forbids calls of CUDA that may be unsafe
 * while a stream is captured. As CUstreamCaptureMode. */
enum weir_capture_mode {
	WEIR_CAPTURE_GLOBAL,       /**< all threads */
	WEIR_CAPTURE_THREAD_LOCAL, /**< the thread that captures */
	WEIR_CAPTURE_RELAXED,      /**< no thread */
};

/** Make a graph with nothing in it. WEIR_EINVAL for unknown flags. */
WEIR_API enum weir_status weir_graph_create(
    unsigned flags, struct weir_graph **out);

/** Reset a graph and free it; NULL does nothing. */
WEIR_API void weir_graph_destroy(struct weir_graph *graph);

/**
 * Begin to capture a stream. From now on memory for every stream that is in
 * this capture comes from the pool.
 *
 * @param pool  NULL: one of its own, of the stream's device
 * @return WEIR_EINVAL if the graph has a capture already, for a default stream,
 *         for a pool of another device; WEIR_ECAPTURE if the stream is being
 *         captured; WEIR_EHOSTMEM; WEIR_EDRIVER. Nothing has begun then
 */
WEIR_API enum weir_status weir_graph_capture_begin(struct weir_graph *graph,
    weir_stream stream, struct weir_pool *pool, enum weir_capture_mode mode);

/**
 * Say that a stream is being captured by CUDA's own calls, at the beginning of
 * the capture: the graph holds the pool that the capture draws on from now on.
 * If `pool` is NULL, memory that weir has allocated in the capture so far stays
 * with it. The program ends the capture with CUDA's call and then calls
 * weir_graph_capture_end(). It replays its own graph as it likes, and resets
 * this one after the last replay.
 *
 * @return as weir_graph_capture_begin(); WEIR_EINVAL also if the stream is not
 *         being captured, or `pool` is given too late
 */
WEIR_API enum weir_status weir_graph_register(
    struct weir_graph *graph, weir_stream stream, struct weir_pool *pool);

/**
 * End the capture. For a graph with no work in it there is a warning in the
 * log. On failure the capture is over all the same, and the graph is as if it
 * had never begun: its pool is released.
 *
 * @return WEIR_EINVAL without weir_graph_capture_begin(); WEIR_ECAPTURE if the
 *         capture was broken, or is registered and goes on (then it still
 *         does); WEIR_EDRIVER
 */
WEIR_API enum weir_status weir_graph_capture_end(struct weir_graph *graph);

/** Make a graph ready to be launched. WEIR_EINVAL without a finished capture,
 * or if it is ready already; WEIR_ENOMEM; WEIR_EDRIVER. */
WEIR_API enum weir_status weir_graph_instantiate(struct weir_graph *graph);

/**
 * Queue the graph's work on a stream, any stream of its device; instantiate it
 * before if need be.
 *
 * @return WEIR_EINVAL without a finished capture of weir's own, while the pool
 *         is suspended, for WEIR_STREAM_ANY, or if the stream is of another
 *         device or was destroyed; WEIR_EDRIVER
 */
WEIR_API enum weir_status weir_graph_replay(
    struct weir_graph *graph, weir_stream stream);

/**
 * Drop the capture (one that is under way is ended), and release the pool. Its
 * memory is kept until the replays that are queued are done. The
 * graph can capture again. Live blocks stay live.
 */
WEIR_API enum weir_status weir_graph_reset(struct weir_graph *graph);

/** The pool of a capture, not held for the caller. WEIR_EINVAL before the first
 * capture. */
WEIR_API enum weir_status weir_graph_pool(
    struct weir_graph *graph, struct weir_pool **out);

/** The CUgraph, owned by the graph. WEIR_EINVAL without WEIR_GRAPH_KEEP or
 * before the end of the capture. */
WEIR_API enum weir_status weir_graph_handle(
    struct weir_graph *graph, void **out);

/** The CUgraphExec, owned by the graph; NULL before it is instantiated. */
WEIR_API void *weir_graph_exec(struct weir_graph *graph);

/** The number of nodes of a finished capture. */
WEIR_API enum weir_status weir_graph_nodes(
    struct weir_graph *graph, size_t *out);

#ifdef __cplusplus
}
#endif

#endif
