/**
 * Reports of what the allocator does, at the time and afterwards.
 *
 * There are three ways, each independent of the others:
 *
 * - Callbacks report single events as they happen: memory, streams, events,
 *   synchronisation, and requests that failed for want of memory.
 * - The history keeps the latest events of each device in a ring of bounded
 *   size, with their time, thread and, as far as its level has it, their
 *   stacks.
 * - A snapshot writes all segments and blocks, the statistics and the history
 *   to a file, which pytorch.org/memory_viz, PyTorch's _memory_viz.py and the
 *   `weir` command read.
 *
 * Callbacks are called on the thread that met the event, with no lock of weir
 * held: they may call weir. Without callbacks each place costs a branch.
 */
#ifndef WEIR_TRACE_H
#define WEIR_TRACE_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Callbacks ------------------------------------------------------- */

/**
 * The events that a callback can be called for, and the fields of struct
 * weir_trace that each has. Only calls of weir are reported: weir's own events,
 * waits and recorded streams are not.
 */
enum weir_trace_kind {
	/** A CUDA event has been created: at the first record of a
	 * struct weir_event. `event`. */
	WEIR_TRACE_EVENT_CREATION,
	/** It is about to be destroyed. `event`. */
	WEIR_TRACE_EVENT_DELETION,
	/** It has been recorded. `event`, `stream`. */
	WEIR_TRACE_EVENT_RECORD,
	/** A stream has been made to wait for it. `event`, `stream`. */
	WEIR_TRACE_EVENT_WAIT,
	/** Memory has been allocated. `address`, `size`, `stream`. */
	WEIR_TRACE_MEMORY_ALLOCATION,
	/** Memory is about to be freed. `address`, `size`, `stream`. */
	WEIR_TRACE_MEMORY_DEALLOCATION,
	/** A stream has been made by weir_stream_create(), or for the pool of
	 * weir_stream_from_pool(). `stream`. */
	WEIR_TRACE_STREAM_CREATION,
	/** The host is about to wait for a device. */
	WEIR_TRACE_DEVICE_SYNCHRONIZATION,
	/** The host is about to wait for a stream: weir_stream_synchronize(),
	 * or a copy that is waited for, weir_copy(). `stream`. */
	WEIR_TRACE_STREAM_SYNCHRONIZATION,
	/** The host is about to wait for an event. `event`. */
	WEIR_TRACE_EVENT_SYNCHRONIZATION,
	WEIR_TRACE_KINDS /**< how many there are */
};

/** One event. Fields that its kind does not have are NULL or 0. */
struct weir_trace {
	size_t struct_size; /**< bytes of this struct, set by weir */
	enum weir_trace_kind kind;
	int device;
	void *event;        /**< a CUevent, as weir_event_handle() gives it */
	weir_stream stream; /**< as the caller named it; NULL: the default */
	void *address;      /**< first byte of the block */
	size_t size;        /**< bytes asked for */
};

/** `trace` is valid during the call only. */
typedef void (*weir_trace_callback)(const struct weir_trace *trace, void *user);

/**
 * Call `callback` with `user` at every event of a kind, in the order in which
 * callbacks were added, up to 64 a kind.
 *
 * With callbacks for memory every allocation and free takes the device's lock.
 *
 * @return WEIR_OK; WEIR_EINVAL for an unknown kind, for NULL, for a pair that
 *         is there already or the 65th
 */
WEIR_API enum weir_status weir_trace_callback_add(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user);

/** Stop calling it. WEIR_EINVAL if the pair is not there. A call under way on
 * another thread may still be running when this returns. */
WEIR_API enum weir_status weir_trace_callback_remove(
    enum weir_trace_kind kind, weir_trace_callback callback, void *user);

/** A request that failed for want of memory, after every reclaim step. */
struct weir_oom {
	size_t struct_size; /**< bytes of this struct, set by weir */
	int device;
	weir_stream stream;
	size_t requested_bytes; /**< bytes that the caller asked for */
	size_t rounded_bytes;   /**< its size class */
	size_t limit_bytes;    /**< the limit in force, or the device's total */
	size_t reserved_bytes; /**< bytes that weir holds */
	size_t allocated_bytes; /**< of these, in the hands of callers */
	size_t pending_bytes;   /**< of these, not yet seen to be complete */
	size_t device_free_bytes;
	const char *report; /**< the text of weir_last_error() */
};

/** Called at each WEIR_ENOMEM. `oom` is valid during the call only. */
typedef void (*weir_oom_observer)(const struct weir_oom *oom, void *user);

/**
 * Call `observer` with `user` at every out-of-memory failure.
 *
 * @return WEIR_OK; WEIR_EINVAL for NULL, for a pair that is there already or
 *         the 65th
 */
WEIR_API enum weir_status weir_oom_observer_add(
    weir_oom_observer observer, void *user);

/** Stop calling it. WEIR_EINVAL if the pair is not there. A call under way on
 * another thread may still be running when this returns. */
WEIR_API enum weir_status weir_oom_observer_remove(
    weir_oom_observer observer, void *user);

/* ---- Observers ------------------------------------------------------- */

/**
 * X(NAME, name): the actions of the history, in PyTorch's words.
 *
 * alloc           a block has been allocated
 * free_requested  its caller has freed it
 * free_completed  its memory can serve again
 * segment_alloc   the driver has given a segment
 * segment_free    a segment goes back to the driver
 * segment_map     memory has been mapped
 * segment_unmap   memory has been unmapped
 * oom             a request has failed
 * snapshot        a snapshot has been taken
 */
#define WEIR_ACTION_LIST(X)                                                    \
	X(ALLOC, alloc)                                                        \
	X(FREE_REQUESTED, free_requested)                                      \
	X(FREE_COMPLETED, free_completed)                                      \
	X(SEGMENT_ALLOC, segment_alloc)                                        \
	X(SEGMENT_FREE, segment_free)                                          \
	X(SEGMENT_MAP, segment_map)                                            \
	X(SEGMENT_UNMAP, segment_unmap)                                        \
	X(OOM, oom)                                                            \
	X(SNAPSHOT, snapshot)

/** An event of memory: WEIR_ACTION_ALLOC and so on. */
enum weir_action {
#define WEIR_ACTION_MEMBER(NAME, name) WEIR_ACTION_##NAME,
	WEIR_ACTION_LIST(WEIR_ACTION_MEMBER)
#undef WEIR_ACTION_MEMBER
	    WEIR_ACTIONS /**< how many there are */
};

/** One of them. Fields that the action does not have are NULL or 0. */
struct weir_memory_event {
	size_t struct_size; /**< bytes of this struct, set by weir */
	enum weir_action action;
	int device;
	void *address;       /**< first byte of the block or range */
	size_t size;         /**< bytes asked for; of ranges, all of it; of
				oom, the size class; of snapshot, active bytes */
	size_t block_size;   /**< bytes of the block, in multiples of 512 */
	weir_stream stream;  /**< it belongs to; NULL: the default stream */
	uint64_t pool_id[2]; /**< as `segment_pool_id` of a snapshot */
	size_t device_free_bytes; /**< of oom: the driver's free bytes */
};

/** `event` is valid during the call only. */
typedef void (*weir_memory_observer)(
    const struct weir_memory_event *event, void *user);

/**
 * Call `observer` with `user` at each event of a device's memory, on the
 * thread that causes it, in the order in which things happen. A program that
 * keeps a history of its own can thus note, with each event and each live
 * block, facts that weir does not know.
 *
 * An observer is called with locks of weir held. It must be short, must not
 * call weir or CUDA, and must not wait for a thread that may be in weir. While
 * there is one, every allocation and free takes the device's lock.
 *
 * @return WEIR_OK; WEIR_EINVAL for NULL, for a pair that is there already or
 *         the 65th
 */
WEIR_API enum weir_status weir_memory_observer_add(
    weir_memory_observer observer, void *user);

/** Stop calling it. WEIR_EINVAL if the pair is not there. A call under way on
 * another thread may still be running when this returns. */
WEIR_API enum weir_status weir_memory_observer_remove(
    weir_memory_observer observer, void *user);

/* ---- History --------------------------------------------------------- */

/** Where stacks are taken, and which events carry one. Each level has what the
 * one before it has. */
enum weir_history_level {
	WEIR_HISTORY_NONE,  /**< nowhere */
	WEIR_HISTORY_STATE, /**< at allocations; blocks and segments of a
			       snapshot carry them, events do not */
	WEIR_HISTORY_ALLOC, /**< events too: a free has its allocation's */
	WEIR_HISTORY_ALL,   /**< frees and weir_trim() have their own */
};

/** Which frames a stack has. */
enum weir_stacks {
	WEIR_STACKS_ALL,    /**< Python's, where Python runs, and C's */
	WEIR_STACKS_PYTHON, /**< only Python's */
};

/** Entries a device keeps unless told otherwise. */
#define WEIR_HISTORY_ENTRIES ((size_t)1000000)

/** How the history is to be kept. All zero: no stacks, the default size. */
struct weir_history {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	enum weir_history_level level;
	enum weir_stacks stacks;
	/** Entries to keep of each device, the latest; 0 is
	 * WEIR_HISTORY_ENTRIES. One takes 64 bytes of host memory. */
	size_t max_entries;
	/** Actions not to record, as "oom,segment_map"; NULL: none. */
	const char *skip;
	bool clear; /**< forget what has been recorded so far */
};

/**
 * Record the history from now on, of every device: each allocation and free,
 * each piece of memory taken from the driver or given back, each failure and
 * each snapshot. The actions are PyTorch's:
 *
 *     alloc, free_requested, free_completed, segment_alloc, segment_free,
 *     segment_map, segment_unmap, oom, snapshot
 *
 * A free is completed when the block's memory can serve again: at once, or when
 * the other streams that use it are done. Replaying a history that begins
 * before the first allocation gives the snapshot taken at its end, unless
 * entries were dropped or skipped.
 *
 * Called again it changes how the history is kept, and what was recorded stays
 * unless `clear`. It does not touch the driver. While the history is on, every
 * allocation and free takes the device's lock.
 *
 * @param history  NULL: level WEIR_HISTORY_ALL, all stacks, the default size
 * @return WEIR_OK; WEIR_EINVAL for an unknown level, stacks or action
 *         (weir_last_error() names it), or a struct_size that is not set
 */
WEIR_API enum weir_status weir_history_start(
    const struct weir_history *history);

/** Stop recording and forget all that was recorded. */
WEIR_API enum weir_status weir_history_stop(void);

/**
 * For extension modules of Python: keep the Python frames of the calling
 * thread, which holds the GIL, for calls of weir that the thread makes without
 * the GIL, until weir_python_drop(). Call this before releasing the GIL, and
 * weir_python_drop() after taking it again; up to 64 frames are kept.
 *
 * weir never waits for the GIL. On a thread without it, it reads the frames of
 * CPython 3.9 to 3.13 from the interpreter's structs by itself; this call is
 * for other versions and builds (free-threaded ones). Does nothing while the
 * history takes no stacks: a branch.
 */
WEIR_API void weir_python_hold(void);
/** Forget these frames. */
WEIR_API void weir_python_drop(void);

/** How many events the history of a device has. */
struct weir_history_info {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	bool on;
	enum weir_history_level level;
	uint64_t recorded; /**< events since it was last cleared */
	uint64_t kept;     /**< of these, that a snapshot would have */
	uint64_t dropped;  /**< and those that later ones have replaced */
};

/** Read the numbers of a device's history. */
WEIR_API enum weir_status weir_history_info(
    int device, struct weir_history_info *out);

/**
 * A text that events of the calling thread carry from now on, as
 * `user_metadata`. The text is copied; NULL and "" end it. Different texts are
 * kept for the life of the process, up to 65,000 of them and 16 MiB; events
 * with later ones say "(too many texts)".
 *
 * @return WEIR_OK; WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_metadata_set(const char *text);

/** The text last set on this thread, or "". */
WEIR_API const char *weir_metadata_get(void);

/**
 * Name the compiled region that the calling thread is in: events carry the
 * innermost as `compile_context`, "N/A" outside of all. Each push needs a pop;
 * beyond 64 levels names are only counted. As for weir_metadata_set(), texts
 * are kept.
 *
 * @return WEIR_OK; WEIR_EINVAL for NULL, or a pop without a push;
 *         WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_compile_context_push(const char *name);
WEIR_API enum weir_status weir_compile_context_pop(void);

/** Which end of a region an annotation is. */
enum weir_stage { WEIR_STAGE_START, WEIR_STAGE_END };

/**
 * Note that a region of the program begins or ends, as an annotation of the
 * history: a snapshot lists them with their time, beside the events. Nothing
 * while the history is off. As many are kept as events of a device.
 *
 * @param device  a device's number; WEIR_DEVICE_CURRENT is not resolved but
 *                noted as 0
 * @return WEIR_OK; WEIR_EINVAL for NULL or an unknown stage; WEIR_EHOSTMEM
 */
WEIR_API enum weir_status weir_annotate(
    const char *name, enum weir_stage stage, int device);

/* ---- Snapshots ------------------------------------------------------- */

/** How a snapshot is written. The content is the same. */
enum weir_snapshot_format {
	WEIR_SNAPSHOT_PICKLE, /**< Python's pickle, protocol 4; has no code */
	WEIR_SNAPSHOT_JSON,
};

/** The content of a snapshot. All zero: device 0 and its history. */
struct weir_snapshot {
	size_t struct_size; /**< set by the caller: sizeof the struct */
	int device;         /**< or WEIR_DEVICE_ALL */
	bool of_stream;     /**< only segments in which `stream` has blocks */
	weir_stream stream;
	bool of_pool;        /**< only segments of this pool */
	uint64_t pool_id[2]; /**< as `segment_pool_id` has it; {0, 0} is the
				device's own memory */
	bool no_trace;       /**< leave the history out */
};

/**
 * Write a snapshot of all memory to a file.
 *
 * The file is a dictionary as PyTorch's torch.cuda.memory._snapshot() gives it:
 * `segments`, `device_traces`, `allocator_settings`, `external_annotations`.
 * weir adds keys of its own: of blocks `stream`,
 * `cached`, `heap` and `epoch`; of events `seq`, `thread_id`, `pool_id`,
 * `block_size` and, where an allocation was not served by its stream's own free
 * memory, `served_by`; and `weir`, which has the version, all options, and for
 * each device its statistics and what its history has dropped. A segment is a
 * run of memory that is mapped in one piece; its `stream` is the one it was
 * allocated for, and its blocks may belong to others by now. WEIR_STREAM_ANY is
 * written as -1, the default stream as 0.
 *
 * Each device is read at one moment, and its last event is not later than
 * that. An event "snapshot" follows, which the next snapshot will have. The
 * history is copied piece by piece: events that other threads push out of it
 * meanwhile are missing, and counted.
 *
 * The file is written beside `path` under another name, with mode 0600, and
 * takes its name when it is complete: a failure leaves what was there before. A
 * symbolic link at `path` is replaced and not followed; a device, a pipe or a
 * socket there is an error.
 *
 * @param what  NULL: all devices, all streams, with the history
 * @return WEIR_OK; WEIR_EINVAL if the file cannot be written (weir_last_error()
 *         says why), or for an unknown format; WEIR_ENODEVICE; WEIR_EHOSTMEM;
 *         WEIR_EFORK
 */
WEIR_API enum weir_status weir_snapshot_write(const char *path,
    enum weir_snapshot_format format, const struct weir_snapshot *what);

/** The state of a block. */
enum weir_block_state {
	WEIR_BLOCK_ALLOCATED, /**< in the hands of a caller */
	WEIR_BLOCK_PENDING,   /**< freed, not yet seen to be complete */
	WEIR_BLOCK_INACTIVE,  /**< free, also where a thread has it cached */
};

/** A block of a segment. */
struct weir_block_view {
	void *address;
	size_t size;            /**< bytes */
	size_t requested_bytes; /**< 0 of inactive ones */
	weir_stream stream;     /**< it belongs to; NULL: the default stream */
	enum weir_block_state state;
};

/** A run of memory that is mapped in one piece; its blocks tile it. */
struct weir_segment_view {
	size_t struct_size; /**< bytes of this struct, set by weir */
	int device;
	void *address;
	size_t size;            /**< bytes */
	size_t allocated_bytes; /**< of blocks in the hands of callers */
	size_t active_bytes;    /**< of these and of pending blocks */
	size_t requested_bytes; /**< asked for, of active blocks */
	weir_stream stream;     /**< the one it was allocated for */
	uint64_t pool_id[2];    /**< {0, 0}: the device's own memory */
	bool small;             /**< for blocks of up to 1 MiB */
	bool expandable;
	const struct weir_block_view *blocks; /**< by address */
	size_t block_count;
	/** From 0 within one pool, in the order in which its segments were
	 * made; parts of an expandable segment by address. */
	uint32_t number;
};

/** `segment` and its blocks are valid during the call only. */
typedef void (*weir_segment_visitor)(
    const struct weir_segment_view *segment, void *user);

/**
 * Look at all segments and blocks of devices, as a snapshot has them: call
 * `visitor` with `user` for each segment, by device and address. Page-locked
 * memory is not among them. Each device is read at one moment, before the
 * first call; no lock of weir is held during the calls.
 *
 * @param what  the part to visit; its `no_trace` has no effect. NULL: all
 * @return WEIR_OK; WEIR_EINVAL if visitor is NULL or a struct_size is not set;
 *         WEIR_ENODEVICE; WEIR_EHOSTMEM; WEIR_EFORK
 */
WEIR_API enum weir_status weir_segments_visit(
    const struct weir_snapshot *what, weir_segment_visitor visitor, void *user);

#ifdef __cplusplus
}
#endif

#endif
