/*
 * simcuda inside.
 *
 * Glossary. A *context* owns streams and memory of one device. A *stream* is a
 * queue of *operations* (struct op), each with a duration. A *point* is a
 * position in a stream, behind the operations that were queued by then. A
 * *mark* is a point whose time may not be known yet. *Physical memory* (struct
 * phys) is an extent of a device's file; a *range* (struct range) is a piece of
 * address space where memory is: a mapping of physical memory, or host memory.
 *
 * Two orders are kept apart, and the difference is the point of it all:
 * - *time*: when an operation ends, known as soon as it is put on a stream,
 *   since durations are fixed and nothing put later can change it (time.c);
 * - *happens-before*: the order that the program has made by streams, events
 *   and waits (clock.c). The program must order two operations that touch the
 *   same byte; if only their times are in order, that is luck (race.c).
 *
 * One lock guards everything below; gate_enter() acquires it and gate_leave()
 * releases it. Where the host has no memory left the process ends with a
 * message: this is a tool for tests.
 */
#ifndef DRIVER_SIM_SIM_H
#define DRIVER_SIM_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/abi.h"
#include "driver/sim/conf.h"
#include "driver/sim/entries.h"
#include "driver/sim/simcuda.h"

/*
 * Symbols are protected: a call or a table entry of ours means our function,
 * whoever else in the program defines one of the same name.
 */
#define SIM_DECLARE(symbol, base, version, flags, params)                      \
	__attribute__((visibility("protected"))) CUresult symbol params;
#define SIM_DECLARE_PTSZ(symbol, base, version, flags, params)                 \
	SIM_DECLARE(symbol, base, version, flags, params)                      \
	SIM_DECLARE(symbol##_ptsz, base, version, flags, params)
#define SIM_DECLARE_PTDS(symbol, base, version, flags, params)                 \
	SIM_DECLARE(symbol, base, version, flags, params)                      \
	SIM_DECLARE(symbol##_ptds, base, version, flags, params)
SIM_ENTRIES(SIM_DECLARE, SIM_DECLARE_PTSZ, SIM_DECLARE_PTDS)
#undef SIM_DECLARE_PTDS
#undef SIM_DECLARE_PTSZ
#undef SIM_DECLARE

enum {
	SIM_DEVICES = 16,
	SIM_GRANULE = 2 << 20, /* of mappings, bytes */
	SIM_SMALL = 512,       /* what small allocations are rounded to */
	SIM_PARAMS = 28,       /* of a kernel, at most */
	SIM_ACCESSES = 4,      /* pieces of memory an operation touches */
	SIM_LIMITS = 7,        /* kinds of CUlimit */
	SIM_STACK = 64         /* contexts a thread may have pushed */
};

struct access;
struct capture;
struct chunk;
struct context;
struct event;
struct exec;
struct launch;
struct mark;
struct node;
struct op;
struct page;
struct phys;
struct pool;
struct range;
struct shared_event;
struct stream;

/* ---- host memory of our own (heap.c) ------------------------------------ */

void *sim_alloc(size_t size); /* zeroed */
/* Room for one item more than `n`; what is new is zeroed. */
void *sim_grow(void *old, size_t n, size_t *capacity, size_t item);

/* ---- handles (handle.c) ------------------------------------------------- */

enum handle_kind {
	HANDLE_CONTEXT = 1,
	HANDLE_STREAM,
	HANDLE_EVENT,
	HANDLE_MODULE,
	HANDLE_FUNCTION,
	HANDLE_GRAPH,
	HANDLE_NODE,
	HANDLE_EXEC,
	HANDLE_PHYS,
	HANDLE_POOL,
	HANDLE_KINDS
};

/* A number that looks like a pointer and is not used again for long. */
uint64_t handle_new(enum handle_kind kind, void *object);
void *handle_find(enum handle_kind kind, uint64_t handle); /* or NULL */
void handle_drop(enum handle_kind kind, uint64_t handle);
/* True if it was handed out once. */
bool handle_known(enum handle_kind kind, uint64_t handle);
long handle_count(enum handle_kind kind);
/* All objects of a kind, by index from 0 on; some are NULL. */
size_t handle_indices(enum handle_kind kind);
void *handle_nth(enum handle_kind kind, size_t i);

static inline uint64_t
handle_bits(const void *handle)
{
	return (uint64_t)(uintptr_t)handle;
}

static inline void *
handle_pointer(uint64_t bits)
{
	return (void *)(uintptr_t)bits;
}

/* ---- happens-before (clock.c) ------------------------------------------- */

/* For each slot the last epoch that is known to have happened. Shared, and
 * not changed while it is. NULL knows nothing. */
struct known {
	unsigned refs;
	uint32_t n;
	uint64_t epoch[];
};

/* All of `slot` up to `epoch`, and what was known there. */
struct point {
	struct known *known; /* referenced */
	uint32_t slot;
	uint64_t epoch;
};

/* One line of operations: a stream, or a branch of a graph. */
struct line {
	struct known *known;
	uint32_t slot;
	uint64_t epoch;        /* of the latest operation */
	uint64_t host_version; /* of the host's knowledge it has */
};

void line_init(struct line *line, uint64_t label);
void line_fini(struct line *line);
/* A new operation on the line, after all that the host knows. */
void line_step(struct line *line);
/* Operations queued on the line from now on come after the point. */
void line_join(struct line *line, const struct point *point);
void line_join_host(struct line *line);
/* Where the line is; the caller drops it. */
struct point line_point(const struct line *line);
struct point host_point(void);
/* The host does something of its own: what is put on a line from now on comes
 * after it. */
struct point host_step(void);
struct point point_copy(const struct point *point);
void point_drop(struct point *point);
/* True if `epoch` of `slot` comes before the point, or is it. */
bool point_has(const struct point *point, uint32_t slot, uint64_t epoch);
bool known_has(const struct known *known, uint32_t slot, uint64_t epoch);
/* The host has waited for the point. */
void host_join(const struct point *point);
bool host_has(uint32_t slot, uint64_t epoch);
/* From that epoch on the line came after the point, as is found out now. */
void clock_late_join(uint32_t slot, uint64_t epoch, const struct point *point);
/* The stream that a slot belongs to, for messages. */
uint64_t slot_label(uint32_t slot);

/* ---- operations (submit.c, execute.c) ----------------------------------- */

enum op_kind {
	OP_COPY,
	OP_FILL,
	OP_KERNEL,
	OP_HOST,
	OP_TOUCH, /* by the host; on no stream */
	OP_WRITE_VALUE,
	OP_WAIT_VALUE,
	OP_ALLOC, /* stream-ordered memory begins */
	OP_FREE,  /* and ends */
	OP_MARK,  /* the mark's time is that of this operation */
	OP_WAIT,  /* for the mark */
	OP_GRAPH, /* all nodes of a launch, as one */
	OP_NOTHING
};

struct copy {
	uint64_t to;
	uint64_t from;
	size_t size;
	void *staged; /* what was in pageable memory at the call, or NULL */
	bool to_pageable, from_pageable;
	bool between_peers; /* the driver stages it where there is no access */
};

struct fill {
	uint64_t to;
	size_t n;
	uint32_t value;
	unsigned width; /* bytes: 1, 2 or 4 */
};

struct kernel {
	const char *name;
	unsigned n_params;
	uint16_t param_bytes[SIM_PARAMS]; /* above 8: it is not looked at */
	size_t (*accesses)(const uint64_t *params, struct access *out);
	void (*run)(const uint64_t *params);
	uint64_t (*duration_ns)(const uint64_t *params); /* NULL: by bytes */
};

/* The kernels of a tensor's copies and fills (kernel_tensor.c). */
extern const struct kernel tensor_kernels[];
enum { TENSOR_KERNELS = 2 };

struct kernel_call {
	const struct kernel *kernel;
	uint64_t params[SIM_PARAMS];
};

struct host_call {
	CUhostFn function;
	CUstreamCallback callback; /* instead of function */
	uint64_t stream;           /* for the callback */
	void *data;
};

struct value_call {
	uint64_t address;
	uint64_t value;
	unsigned width; /* bytes: 4 or 8 */
	unsigned flags;
	struct mark *mark; /* that the value is there */
};

struct wait {
	struct mark *mark; /* referenced */
	bool counted;      /* by wait_count() */
};

/* The operation itself, without its place and time. */
struct action {
	enum op_kind kind;
	uint64_t duration_ns;
	union {
		struct copy copy;
		struct fill fill;
		struct kernel_call kernel;
		struct host_call host;
		struct value_call value;
		struct mark *mark; /* referenced */
		struct wait wait;
		struct launch *launch;
		struct range *range;
	};
};

struct op {
	struct action action;
	struct context *context;
	struct stream *stream; /* referenced */
	struct point at;
	uint64_t end_ns;   /* until it is started: the earliest start */
	uint64_t seq;      /* order of those that end at once */
	struct op *next;   /* in its stream, while deferred */
	struct exec *exec; /* it is a node of, referenced; or NULL */
};

/* A piece of memory that an operation touches. */
struct access {
	uint64_t address;
	size_t size;
	enum access_mode { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC } mode;
};

size_t action_accesses(const struct action *action, struct access *out);
const char *action_name(const struct action *action);
struct op *op_new(struct stream *stream, const struct action *action);
void op_free(struct op *op);
/* Give it its place in a line, after all that is there. */
void op_place(struct op *op, struct line *line);
/* Put it on its stream, in time. */
void op_append(struct stream *stream, struct op *op);
/* Both, in order with the default stream. */
void op_submit(struct stream *stream, const struct action *action);
void op_execute(struct op *op);
/* Put an action on a stream, or into its capture. */
CUresult submit(struct stream *stream, const struct action *action);
/* True if what the operation waits for is in memory. */
bool value_holds(const struct op *op);
/* It has been waiting, and the value came. */
void value_came(const struct op *op);

/* ---- time (time.c) ------------------------------------------------------ */

/* A moment on a stream, that may not have a time yet. */
struct mark {
	unsigned refs;
	bool known; /* the times are */
	uint64_t end_ns;
	uint64_t visible_ns; /* for the host: end_ns + hold_ns */
	uint64_t hold_ns;
	struct stream **waiters; /* streams it blocks, referenced */
	size_t n_waiters, waiters_capacity;
};

struct mark *mark_new(void);
void mark_drop(struct mark *mark);
void mark_resolve(struct mark *mark, uint64_t end_ns);
/* Block the stream until the mark is known. */
void mark_block(struct mark *mark, struct stream *stream);

uint64_t time_now(void);
void time_spend(uint64_t ns);
/* Run all operations that are due by now; host functions only if `host`. */
void time_run(bool host);
void time_advance_to(uint64_t ns);
/* True if the host can see that the moment is past. */
bool time_reached(uint64_t ns);
/* The operation happens at that time. */
void op_schedule(struct op *op, uint64_t end_ns);
/* Wait, as the host does. */
void time_wait_mark(struct mark *mark);
void time_wait_stream(struct stream *stream);
/* Wait until nothing is pending anywhere. */
void time_drain(void);

/* ---- how long streams wait for events (wait.c) -------------------------- */

void wait_count(uint64_t from_ns, uint64_t to_ns);
void wait_reset(void);
/* A counted wait keeps the stream until then; without it the stream would have
 * gone on at `ns`; what has gone on could not have started before `ns`. */
void wait_hold(struct stream *stream, uint64_t until_ns);
void wait_pass(struct stream *stream, uint64_t ns);
void wait_note_work(struct stream *stream, uint64_t ns);

/* ---- devices, contexts and threads (device.c, context.c) ---------------- */

struct device {
	int ordinal;
	int fd;              /* the memory: a sparse file */
	uint64_t file_bytes; /* its length */
	uint64_t next_byte;  /* offsets are never used again */
	size_t limit_bytes;
	size_t used_bytes;
	struct context *primary; /* once there was one, for ever */
	unsigned retained;
	unsigned flags; /* of the primary context */
	struct pool *default_pool;
	struct pool *pool; /* the current one */
};

struct context {
	struct context *next; /* of all */
	uint64_t handle;
	uint64_t id; /* another in each life */
	struct device *device;
	bool primary;
	bool active;
	CUresult sticky; /* the error that killed it, or CUDA_SUCCESS */
	unsigned flags;
	uint32_t peers;         /* devices whose memory it may touch */
	struct stream *legacy;  /* once it was used */
	struct stream *streams; /* all that live, by next */
	struct stream *ended;   /* destroyed, and not known to be done */
	size_t n_ended;
	struct stream *gather;     /* see context_gather() */
	size_t limits[SIM_LIMITS]; /* those of limits_set */
	unsigned limits_set;       /* bits */
	struct page *pages;        /* of small allocations */
	struct range *ranges;      /* its memory */
};

struct own_stream {
	struct own_stream *next;
	uint64_t context_id;
	struct stream *stream; /* referenced */
};

struct thread {
	uint64_t stack[SIM_STACK]; /* handles of contexts, the last on top */
	unsigned depth;
	CUstreamCaptureMode mode;
	uint64_t id;
	bool in_host_function;
	bool waits_uncounted;   /* see simcuda_count_waits() */
	struct own_stream *own; /* per-thread default streams */
};

bool device_init(struct device *device, int ordinal);
struct device *device_find(CUdevice device); /* or NULL */
struct thread *thread_self(void);
struct context *context_current(CUresult *why); /* or NULL, and *why is set */
struct context *context_find(CUcontext handle, CUresult *why);
/* Wait for all work of the context. */
void context_wait(struct context *context);
/* True if it may touch what cuMemAlloc() gave on that device. */
bool context_reaches(const struct context *context, int device);

/* ---- streams (stream.c) ------------------------------------------------- */

struct stream {
	uint64_t handle; /* 0 for default streams */
	uint64_t id;
	unsigned refs; /* its context's and its operations' */
	struct context *context;
	struct stream *next; /* in its context */
	bool legacy;
	bool per_thread;
	bool blocking; /* in order with the legacy stream */
	bool destroyed;
	unsigned flags;
	int priority;
	struct line line;
	uint64_t tail_ns;    /* all that has a time is done then */
	uint64_t visible_ns; /* and seen by the host */
	/* The counted waits since its latest work kept it from there to there;
	 * see wait.c. */
	uint64_t held_from_ns;
	uint64_t held_to_ns;
	uint64_t delay_ns;    /* of the next operation */
	struct mark *blocker; /* referenced; NULL: nothing is deferred */
	bool wait_counted;    /* by wait_count(), when the blocker is there */
	uint64_t wait_ns;     /* from then on */
	struct op *deferred, *deferred_last;
	struct capture *capture; /* it is in, or NULL */
	struct node **deps;      /* of what is captured next */
	size_t n_deps, deps_capacity;
	CUgraphNode *told; /* handles of deps, as they were last asked for */
	size_t told_capacity;
};

/* The stream a caller means, or NULL and *why says why not. */
struct stream *stream_find(CUstream handle, CUresult *why);
/* Find the stream to queue work on it, which captures may forbid. */
struct stream *stream_for_work(CUstream handle, CUresult *why);
struct stream *stream_new(
    struct context *context, unsigned flags, int priority, bool with_handle);
void stream_end(struct stream *stream);
void stream_drop(struct stream *stream);
/* Default streams and blocking streams come after each other. */
void stream_order(struct stream *stream);
bool stream_busy(const struct stream *stream);
void stream_wait(struct stream *stream); /* the host does */
void stream_wait_ns(struct stream *stream, uint64_t ns);
void stream_wait_mark(struct stream *stream, struct mark *mark);
/* stream_wait_mark(); if `counted`, wait_count() gets the time it blocks. */
void stream_wait_event(struct stream *stream, struct mark *mark, bool counted);
/* It is the wait's turn: all before it has a time, and ends by `ns`. */
void stream_start_wait(
    struct stream *stream, const struct wait *wait, uint64_t ns);
void stream_defer(struct stream *stream, struct op *op);
/* The stream is no longer blocked, since `ns`: go on. */
void stream_resume(struct stream *stream, uint64_t ns);
/* A mark at its end; the caller drops it. */
struct mark *stream_mark(struct stream *stream);
struct stream *stream_default(struct context *context, bool per_thread);
/* A stream behind all work of the context there is now. */
struct stream *context_gather(struct context *context);
void context_end_streams(struct context *context);

/* ---- events (event.c) --------------------------------------------------- */

struct event {
	uint64_t handle;
	struct context *context;
	uint64_t context_id;
	unsigned flags;
	bool recorded;
	struct mark *mark;
	struct point at;
	uint64_t hold_ns;      /* of the next record */
	uint64_t deps_capture; /* the capture it was recorded in, or 0 */
	struct node **deps;    /* and where; valid while that goes on */
	size_t n_deps;
	struct shared_event *shared; /* with other processes, or NULL */
};

struct event *event_new(struct context *context, unsigned flags);
struct event *event_find(CUevent handle, CUresult *why);
/* It stands for the point; event->mark is to be resolved. */
void event_record_at(struct event *event, const struct point *at);
void event_record_on(struct event *event, struct stream *stream);
void event_wait_on(struct event *event, struct stream *stream);
void event_hold_all(uint64_t seed, uint64_t max_ns);

/* ---- memory (range.c, memory.c, phys.c, alloc.c) ------------------------ */

/* An extent of a device's memory. */
struct phys {
	unsigned refs; /* of ranges, and one for all handles */
	uint64_t handle;
	unsigned handle_refs;
	struct device *device;
	int fd;          /* the device's; its own if foreign */
	bool foreign;    /* of another process */
	bool exported;   /* another process may have it */
	bool touched;    /* race.c knows of it */
	uint64_t offset; /* in fd */
	unsigned space;  /* race.c's name for it, with race_offset */
	uint64_t race_offset;
	size_t size;
	CUmemAllocationProp prop;
};

enum range_kind {
	RANGE_MAPPING,    /* cuMemMap() */
	RANGE_ALLOC,      /* cuMemAlloc() */
	RANGE_POOLED,     /* cuMemAllocAsync() */
	RANGE_HOST,       /* cuMemHostAlloc() */
	RANGE_REGISTERED, /* cuMemHostRegister() */
	RANGE_MANAGED,
	RANGE_IPC, /* cuIpcOpenMemHandle() */
	RANGE_KINDS
};

/* The last operation of a line that uses a range. */
struct use {
	uint32_t slot;
	uint64_t epoch;
};

/* A piece of address space; those of a tree do not overlap. */
struct range {
	uint64_t start;
	size_t size;
	struct range *left, *right; /* in its tree */
	uint32_t rank;
	/* The rest is of memory only. */
	enum range_kind kind;
	uint64_t id;
	struct context *context; /* NULL for mappings */
	struct range *next_in_context, *prev_in_context;
	struct phys *phys; /* referenced; NULL for host memory */
	size_t phys_offset;
	size_t mapped_size;           /* of host memory */
	uint32_t can_read, can_write; /* devices; mappings and pools */
	unsigned flags;
	struct page *page;   /* a small allocation is in */
	struct chunk *chunk; /* a pooled one is in */
	struct pool *pool;
	bool released;     /* a call has freed it */
	bool freed;        /* and that has happened */
	bool graph_memory; /* of a graph's node */
	bool graph_live;   /* launched, and not released since */
	struct use *uses;
	size_t n_uses, uses_capacity;
	struct range *next_idle; /* in its pool */
	struct point idle_at;    /* it was released */
	struct mark *idle_mark;
	unsigned opened; /* times, by cuIpcOpenMemHandle() */
	int ipc_pid;     /* whose it is, and which */
	uint64_t ipc_id;
};

struct tree {
	struct range *root;
	size_t n;
};

void tree_insert(struct tree *tree, struct range *range);
void tree_remove(struct tree *tree, struct range *range);
/* The first that ends after `address`, or NULL. */
struct range *tree_at_or_after(const struct tree *tree, uint64_t address);
/* The one `address` is in, or NULL. */
struct range *tree_find(const struct tree *tree, uint64_t address);

/* A range of memory, in the tree. */
struct range *range_new(enum range_kind kind, uint64_t start, size_t size);
void range_free(struct range *range);
/* It goes when its context goes. */
void range_own(struct range *range, struct context *context);
bool range_is_host(const struct range *range);
void range_use(struct range *range, const struct point *at);
/* A use that neither the host nor `by` (may be NULL) knows to be done. */
const struct use *range_unknown_use(
    const struct range *range, const struct point *by);

struct range *memory_find(uint64_t address); /* or NULL */
bool memory_covers(uint64_t address, size_t size);
/* Neither the driver's nor reserved: the host's own. */
bool memory_is_pageable(uint64_t address);
/* Say what is wrong with the access by the context's device, or with one by
 * the memory's own device if there is no context. NULL if nothing is. */
const char *memory_check(
    const struct access *access, const struct context *context);
void memory_use(const struct access *access, const struct point *at);
void memory_touch(const struct access *access, const struct op *op);
/* Tell if the range is still in use as far as the host knows. */
/* Tell if a graph in being works with what is freed, if that is wanted. */
void exec_check_unused(const struct range *range, const char *what);
void memory_check_unused(const struct range *range, const char *what);
void memory_free(struct range *range);

CUresult phys_new(struct device *device, size_t size, struct phys **out);
void phys_drop(struct phys *phys);
CUmemGenericAllocationHandle phys_handle(struct phys *phys);
/* Map its beginning at an address that is reserved. */
bool phys_map(const struct phys *phys, size_t size, uint64_t address, int prot);
/* Address space without memory; 0 if there is none. */
uint64_t address_reserve(size_t size, size_t alignment, uint64_t hint);
void address_release(uint64_t address, size_t size);
/* Nothing is mapped there any more, but it stays reserved. */
bool address_clear(uint64_t address, size_t size);

CUresult alloc_new(struct context *context, size_t size, struct range **out);
void alloc_free(struct range *range);
void context_end_memory(struct context *context);

/* How long such a copy takes. */
uint64_t copy_duration_ns(uint64_t to, uint64_t from, size_t size);

/* ---- checks (race.c) ---------------------------------------------------- */

/* Spaces of race.c; smaller ones are devices. */
enum { SPACE_HOST = SIM_DEVICES, SPACE_FOREIGN };

void race_access(unsigned space, uint64_t offset, const struct access *access,
    const struct op *op);
void race_forget(unsigned space, uint64_t offset, size_t size);
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
void violation_reset(void);

/* ---- stream-ordered memory (pool.c) ------------------------------------- */

/* Put it back, in the order of the stream; or at once. */
CUresult pool_free_on(struct range *range, struct stream *stream);
CUresult pool_free_now(struct range *range);
uint64_t pool_handle(const struct pool *pool); /* 0 for NULL */
/* The host has waited: give back what is idle beyond the threshold. */
void pool_synced(void);
/* The device is short: give back what can be. */
void pool_reclaim(struct device *device);

/* ---- between processes (ipc.c) ------------------------------------------ */

void ipc_close(struct range *range);

/* ---- the gate (gate.c, fault.c) ----------------------------------------- */

struct sim {
	enum { SIM_NEW, SIM_READY, SIM_FORKED, SIM_ENDED } state;
	int n_devices;
	struct device devices[SIM_DEVICES];
	struct context *contexts;
	struct tree memory;
	struct tree reservations;
	long n_ranges[RANGE_KINDS];
	struct context *here; /* of the call that has the lock */
	uint64_t next_id;     /* of contexts, streams and memory */
};

extern struct sim sim;

/*
 * Every call begins with gate_enter(), which takes the lock, counts, lets the
 * call's time pass, injects faults, and sees to what the entry's flags name.
 * It returns CUDA_SUCCESS or the code that the call must return. Every call
 * ends with gate_leave(), whatever gate_enter() returned.
 */
CUresult gate_enter(enum sim_entry entry);
CUresult gate_leave(CUresult code);
/* The lock alone: for controls, and around host functions. */
void gate_lock(void);
void gate_unlock(void);
void gate_wait(pthread_cond_t *condition);
/* Let other threads, and processes, get on. */
void gate_pause(void);

/* Count the call, and say what it must fail with. */
CUresult fault_next(enum sim_entry entry);
void fault_count(enum sim_entry entry);
void fault_reset(void);

/* One row of the table of entry points. */
struct entry {
	const char *base;
	int version;
	unsigned flags;
	void *function;
	void *per_thread; /* the same for the per-thread default stream */
};

extern const struct entry sim_entries[];

/* Entries that fail with CUDA_ERROR_NOT_SUPPORTED (unsimulated.c). */
extern const struct entry sim_unsimulated[];
extern const size_t sim_n_unsimulated;

#endif
