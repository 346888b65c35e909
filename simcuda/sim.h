/*
 * simcuda inside.
 *
 * Glossary. A *context* owns streams and memory of one device. A *stream* is a
 * queue of *operations* (struct op), each with a duration. A *point* is a
 * position in a stream, after the operations that were queued by then. A *mark*
 * is a point whose time may not be known yet. *Physical memory* (struct phys)
 * is an extent of a device's file; a *range* (struct range) is a piece of
 * address space with memory: a mapping of physical memory, or host memory.
 *
 * Two orders are kept apart, which is the purpose of the design:
 * - *time*: when an operation ends. It is known as soon as the operation is
 * queued, because durations are fixed and later operations cannot change it
 * (time.c);
 * - *happens-before*: the order that the program has made by streams, events
 * and waits (clock.c). The program must order two operations that access the
 * same byte; if only their times are in order, that is luck (race.c).
 *
 * One lock guards everything below; gate_enter() acquires it and gate_leave()
 * releases it. If the host has no memory left the process ends with a message,
 * because this is a tool for tests.
 */
#ifndef SIMCUDA_SIM_H
#define SIMCUDA_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver/abi.h"
#include "simcuda/conf.h"
#include "simcuda/entries.h"
#include "simcuda/simcuda.h"

/*
 * Symbols are protected: a call or a table entry in this library uses its own
 * function, even if another library of the program defines the same name.
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
	SIM_GRANULE = 2 << 20, /* granularity of mappings, in bytes */
	SIM_SMALL = 512,       /* small allocations are rounded up to this */
	SIM_PARAMS = 28,       /* the most parameters of a kernel */
	SIM_ACCESSES = 4,      /* the most pieces of memory of an operation */
	SIM_LIMITS = 7,        /* number of CUlimit values */
	SIM_STACK = 64         /* the most contexts that a thread may push */
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
/* Make room for one item more than `n`; new items are zeroed. */
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
	HANDLE_EXTERNAL,
	HANDLE_KINDS
};

/* A number that looks like a pointer and is not used again for a long time. */
uint64_t handle_new(enum handle_kind kind, void *object);
void *handle_find(enum handle_kind kind, uint64_t handle); /* or NULL */
void handle_drop(enum handle_kind kind, uint64_t handle);
/* Was the handle ever assigned? */
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

/* For each slot, the last epoch that is known to have happened. Shared; never
 * changed while it has several references. NULL knows nothing. */
struct known;

/* All operations of `slot` up to `epoch`, and what was known there. */
struct point {
	struct known *known; /* holds a reference */
	uint32_t slot;
	uint64_t epoch;
};

/* A line of operations: a stream, or a branch of a graph. */
struct line {
	struct known *known;
	uint32_t slot;
	uint64_t epoch;        /* of the latest operation */
	uint64_t host_version; /* version of the host's knowledge that it has */
};

void line_init(struct line *line, uint64_t label);
void line_fini(struct line *line);
/* Begin a new operation on the line, after everything that the host knows. */
void line_step(struct line *line);
/* Order operations that are queued on the line from now on after the point. */
void line_join(struct line *line, const struct point *point);
void line_join_host(struct line *line);
/* The current position of the line; the caller drops it. */
struct point line_point(const struct line *line);
struct point host_point(void);
/* The host does something itself: operations that are queued from now on come
 * after it. */
struct point host_step(void);
struct point point_copy(const struct point *point);
void point_drop(struct point *point);
/* Does `epoch` of `slot` come before the point, or equal it? */
bool point_has(const struct point *point, uint32_t slot, uint64_t epoch);
/* The host has waited for the point. */
void host_join(const struct point *point);
bool host_has(uint32_t slot, uint64_t epoch);
/* Record that the line came after the point from that epoch on, which has only
 * become known now. */
void clock_late_join(uint32_t slot, uint64_t epoch, const struct point *point);
/* The stream that a slot belongs to, for messages. */
uint64_t slot_label(uint32_t slot);

/* ---- operations (action.c, submit.c, execute.c) ------------------------- */

enum op_kind {
	OP_COPY,
	OP_FILL,
	OP_KERNEL,
	OP_HOST,
	OP_TOUCH, /* an access by the host, on no stream */
	OP_WRITE_VALUE,
	OP_WAIT_VALUE,
	OP_ALLOC, /* stream-ordered memory is allocated */
	OP_FREE,  /* stream-ordered memory is freed */
	OP_MARK,  /* sets the mark's time to the end of this operation */
	OP_WAIT,  /* waits for the mark */
	OP_GRAPH, /* all nodes of a launch, as one operation */
	OP_NOTHING
};

/* Slices of rows of `width` bytes; one row of one slice is the usual case. */
struct shape {
	size_t width, rows, slices;
};

/* How many bytes apart rows and slices are. */
struct layout {
	size_t pitch, slice;
};

struct copy {
	uint64_t to;
	uint64_t from;
	struct shape shape;
	struct layout to_layout, from_layout;
	/* Copy of pageable memory, made at the call, without gaps; or NULL. */
	void *staged;
	bool to_pageable, from_pageable;
};

struct fill {
	uint64_t to;
	size_t n; /* of each row */
	uint32_t value;
	unsigned width; /* bytes: 1, 2 or 4 */
	size_t rows;
	size_t pitch; /* bytes; unused if there is one row */
};

struct kernel {
	const char *name;
	unsigned n_params;
	/* Above 8: the parameter is ignored. */
	uint16_t param_bytes[SIM_PARAMS];
	size_t (*accesses)(const uint64_t *params, struct access *out);
	void (*run)(const uint64_t *params);
	/* NULL: it follows from the bytes */
	uint64_t (*duration_ns)(const uint64_t *params);
};

/* The kernels of tensors' copies and fills (kernel_tensor.c). */
extern const struct kernel tensor_kernels[];
enum { TENSOR_KERNELS = 2 };

struct kernel_call {
	const struct kernel *kernel;
	uint64_t context_id; /* of the function's module */
	uint64_t params[SIM_PARAMS];
};

struct host_call {
	CUhostFn function;
	CUstreamCallback callback; /* used instead of function */
	uint64_t stream;           /* for the callback */
	void *data;
};

struct value_call {
	uint64_t address;
	uint64_t value;
	unsigned width; /* bytes: 4 or 8 */
	unsigned flags;
	struct mark *mark; /* resolved when the value is there */
};

struct wait {
	struct mark *mark; /* holds a reference */
	bool counted;      /* counts in wait_count() */
};

/* An operation without its position and time. */
struct action {
	enum op_kind kind;
	uint64_t duration_ns;
	union {
		struct copy copy;
		struct fill fill;
		struct kernel_call kernel;
		struct host_call host;
		struct value_call value;
		struct mark *mark; /* holds a reference */
		struct wait wait;
		struct launch *launch;
		struct range *range;
	};
};

struct op {
	struct action action;
	struct context *context;
	struct stream *stream; /* holds a reference */
	struct point at;
	uint64_t end_ns; /* until it is started: the earliest start */
	uint64_t seq;    /* orders operations that end at the same time */
	struct op *next; /* list of its stream, while deferred */
	/* The graph whose node it is (a reference), or NULL. */
	struct exec *exec;
};

/* Memory that an operation accesses. */
struct access {
	uint64_t address;
	size_t size; /* of a row */
	enum access_mode { ACCESS_READ, ACCESS_WRITE, ACCESS_ATOMIC } mode;
	/* 0 rows or slices count as one. */
	size_t rows, slices;
	struct layout layout;
};

/* Without gaps. */
struct layout layout_of(const struct shape *shape);
/* An access to a shape, in as few rows as possible. */
struct access access_to_shape(uint64_t address, const struct shape *shape,
    const struct layout *layout, enum access_mode mode);
size_t access_rows(const struct access *access);
struct access access_row(const struct access *access, size_t i);
size_t access_bytes(const struct access *access);

/* Returns their number, at most SIM_ACCESSES. */
size_t action_accesses(const struct action *action, struct access *out);
const char *action_name(const struct action *action);
struct op *op_new(struct stream *stream, const struct action *action);
void op_free(struct op *op);
/* Place an operation at the end of a line. */
void op_place(struct op *op, struct line *line);
/* Schedule an operation on its stream. */
void op_append(struct stream *stream, struct op *op);
/* Place and schedule an operation, in order with the default stream. */
void op_submit(struct stream *stream, const struct action *action);
void op_execute(struct op *op);
/* Queue an action on a stream, or add it to the stream's capture. */
CUresult submit(struct stream *stream, const struct action *action);
/* Is the value that the operation waits for in memory? */
bool value_holds(const struct op *op);
/* The operation was waiting, and the value has been written. */
void value_came(const struct op *op);

/* ---- time (time.c) ------------------------------------------------------ */

/* A point on a stream whose time may not be known yet. */
struct mark {
	unsigned refs;
	bool known; /* the times are known */
	uint64_t end_ns;
	uint64_t visible_ns; /* when the host sees it: end_ns + hold_ns */
	uint64_t hold_ns;
	struct stream **waiters; /* streams that it blocks (references) */
	size_t n_waiters, waiters_capacity;
};

struct mark *mark_new(void);
void mark_drop(struct mark *mark);
void mark_resolve(struct mark *mark, uint64_t end_ns);
/* Block the stream until the mark's time is known. */
void mark_block(struct mark *mark, struct stream *stream);

uint64_t time_now(void);
void time_spend(uint64_t ns);
/* Execute all operations that are due; host functions only if `host`. */
void time_run(bool host);
/* Can the host see that the time has come? */
bool time_reached(uint64_t ns);
/* Schedule the operation to end at that time. */
void op_schedule(struct op *op, uint64_t end_ns);
/* Wait, as the host does. */
void time_wait_mark(struct mark *mark);
void time_wait_stream(struct stream *stream);

/* ---- how long streams wait for events (wait.c) -------------------------- */

void wait_count(uint64_t from_ns, uint64_t to_ns);
void wait_reset(void);
/* wait_hold(): a counted wait blocks the stream until `until_ns`. wait_pass():
 * without the wait the stream would have gone on at `ns`. */
void wait_hold(struct stream *stream, uint64_t until_ns);
void wait_pass(struct stream *stream, uint64_t ns);
void wait_note_work(struct stream *stream, uint64_t ns);

/* ---- devices, contexts and threads (device.c, context.c, current.c) ----- */

struct device {
	int ordinal;
	int fd;              /* the memory: a sparse file */
	uint64_t file_bytes; /* its length */
	uint64_t next_byte;  /* offsets are never used again */
	size_t limit_bytes;
	size_t used_bytes;
	size_t graph_bytes;      /* for nodes of graphs, of used_bytes */
	struct context *primary; /* never freed once it exists */
	unsigned retained;
	unsigned flags; /* of the primary context */
	struct pool *default_pool;
	struct pool *pool; /* the current pool */
};

struct context {
	struct context *next; /* list of all contexts */
	uint64_t handle;
	uint64_t id; /* differs each time it is created again */
	struct device *device;
	bool primary;
	bool active;
	CUresult sticky; /* the error that killed it, or CUDA_SUCCESS */
	unsigned flags;
	uint32_t peers;         /* devices whose memory it may access */
	struct stream *legacy;  /* NULL until its first use */
	struct stream *streams; /* list of all live streams, by next */
	/* After the work of all destroyed streams that were not blocking, and
	 * of all that were; NULL until the first is destroyed. */
	struct stream *ended[2];
	struct stream *gather;     /* see context_gather() */
	size_t limits[SIM_LIMITS]; /* valid where limits_set has a bit */
	unsigned limits_set;       /* bits by limit */
	struct page *pages;        /* for small allocations */
	struct range *ranges;      /* its memory */
};

struct own_stream {
	struct own_stream *next;
	uint64_t context_id;
	struct stream *stream; /* holds a reference */
};

struct thread {
	/* Handles of contexts, the last one on top. */
	uint64_t stack[SIM_STACK];
	unsigned depth;
	CUstreamCaptureMode mode;
	uint64_t id;
	bool in_host_function;
	bool waits_uncounted;   /* see simcuda_count_waits() */
	struct own_stream *own; /* per-thread default streams */
	/* Ends these when the thread ends; set with the first. */
	void (*on_end)(struct thread *thread);
};

bool device_init(struct device *device, int ordinal);
struct device *device_find(CUdevice device); /* or NULL */
struct thread *thread_self(void);
struct context *context_current(CUresult *why); /* or NULL, and *why is set */
struct context *context_find(CUcontext handle, CUresult *why);
struct context *context_by_id(uint64_t id); /* or NULL */
/* Wait for all work of the context. */
void context_wait(struct context *context);
/* May the context access memory of cuMemAlloc() on that device? */
bool context_reaches(const struct context *context, int device);

/* ---- streams (stream.c) ------------------------------------------------- */

struct stream {
	uint64_t handle; /* 0 for default streams */
	uint64_t id;
	unsigned refs; /* from its context and its operations */
	struct context *context;
	struct stream *next; /* in the list of its context */
	bool legacy;
	bool per_thread;
	bool blocking; /* ordered with the legacy stream */
	bool destroyed;
	unsigned flags;
	int priority;
	struct line line;
	uint64_t tail_ns;    /* when all scheduled work is done */
	uint64_t visible_ns; /* when the host sees that */
	/* The counted waits since its latest work have blocked it from the
	 * first time to the second; see wait.c. */
	uint64_t held_from_ns;
	uint64_t held_to_ns;
	uint64_t delay_ns;    /* added to the next operation */
	struct mark *blocker; /* a reference; NULL: no operation is deferred */
	/* wait_count() is called when the blocker is resolved. */
	bool wait_counted;
	uint64_t wait_ns; /* since when it waits */
	struct op *deferred, *deferred_last;
	struct capture *capture; /* the capture that it is in, or NULL */
	struct node **deps;      /* deps of the next captured node */
	size_t n_deps, deps_capacity;
	CUgraphNode
	    *returned; /* handles of deps, as last returned to the caller */
	size_t returned_capacity;
};

/* The stream that a handle names; or NULL, with the reason in *why. */
struct stream *stream_find(CUstream handle, CUresult *why);
/* Find the stream to queue work on it, which captures may forbid. */
struct stream *stream_for_work(CUstream handle, CUresult *why);
void stream_end(struct stream *stream);
void stream_drop(struct stream *stream);
/* Order default streams and blocking streams after each other. */
void stream_order(struct stream *stream);
bool stream_busy(const struct stream *stream);
void stream_wait(struct stream *stream); /* the host waits */
void stream_wait_ns(struct stream *stream, uint64_t ns);
void stream_wait_mark(struct stream *stream, struct mark *mark);
/* stream_wait_mark(). If `counted`, the time that it blocks is passed to
 * wait_count(). */
void stream_wait_event(struct stream *stream, struct mark *mark, bool counted);
/* Begin a wait: all operations before it are scheduled and end by `ns`. */
void stream_start_wait(
    struct stream *stream, const struct wait *wait, uint64_t ns);
void stream_defer(struct stream *stream, struct op *op);
/* The stream is not blocked any more, since `ns`: go on. */
void stream_resume(struct stream *stream, uint64_t ns);
/* A mark at the end of the stream; the caller drops it. */
struct mark *stream_mark(struct stream *stream);
/* A stream after all work that is queued in the context now. */
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
	uint64_t hold_ns;      /* added to the next record */
	uint64_t deps_capture; /* the capture it was recorded in, or 0 */
	/* Its position there; valid during the capture. */
	struct node **deps;
	size_t n_deps;
	struct shared_event *shared; /* shared with other processes, or NULL */
};

struct event *event_new(struct context *context, unsigned flags);
struct event *event_find(CUevent handle, CUresult *why);
/* The event stands for the point; event->mark is resolved later. */
void event_record_at(struct event *event, const struct point *at);
void event_hold_all(uint64_t seed, uint64_t max_ns);

/* ---- memory (range.c, memory.c, phys.c, alloc.c) ------------------------ */

/* An extent of a device's memory. */
struct phys {
	unsigned refs; /* ranges, and one for all handles */
	uint64_t handle;
	unsigned handle_refs;
	struct device *device;
	int fd;          /* the device's file; its own descriptor if foreign */
	bool foreign;    /* memory of another process */
	bool exported;   /* another process may have it */
	bool touched;    /* race.c has records of it */
	uint64_t offset; /* in the file */
	unsigned space;  /* identifies it in race.c, with race_offset */
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

/* A piece of address space; ranges of one tree do not overlap. */
struct range {
	uint64_t start;
	size_t size;
	struct range *left, *right; /* in its tree */
	uint32_t rank;
	/* The following fields are for memory only. */
	enum range_kind kind;
	uint64_t id;
	struct context *context; /* NULL for mappings */
	struct range *next_in_context, *prev_in_context;
	struct phys *phys; /* a reference; NULL for host memory */
	size_t phys_offset;
	size_t mapped_size; /* of host memory */
	/* Bits by device; for mappings and pools. */
	uint32_t can_read, can_write;
	unsigned flags;
	struct page *page;   /* the page of a small allocation */
	struct chunk *chunk; /* the chunk of a pooled block */
	struct pool *pool;
	bool array;       /* of an array, which has no address */
	bool sync_memops; /* as cuPointerSetAttribute() has set it */
	bool released;    /* a call has freed it */
	bool freed;       /* the free has happened on the stream */
	/* Memory of a graph's node. A launch allocates it (graph_live), and a
	 * free or another launch frees it. It outlives its graph: the nodes
	 * that allocate and free it, its being live, and the queued operations
	 * that allocate and free it hold it. */
	bool graph_memory;
	bool graph_live;
	unsigned graph_holds;
	struct use *uses; /* by slot */
	size_t n_uses, uses_capacity;
	size_t uses_checked; /* the number at which they are checked again */
	struct range *next_idle; /* list of its pool */
	struct point idle_at;    /* the point of its release */
	struct mark *idle_mark;
	unsigned opened; /* how often cuIpcOpenMemHandle() has opened it */
	int ipc_pid;     /* its process, and its number there */
	uint64_t ipc_id;
};

struct tree {
	struct range *root;
	size_t n;
};

void tree_insert(struct tree *tree, struct range *range);
void tree_remove(struct tree *tree, struct range *range);
/* The first range that ends after `address`, or NULL. */
struct range *tree_at_or_after(const struct tree *tree, uint64_t address);
/* The range that contains `address`, or NULL. */
struct range *tree_find(const struct tree *tree, uint64_t address);

/* Create a range of memory, in the tree. */
struct range *range_new(enum range_kind kind, uint64_t start, size_t size);
void range_free(struct range *range);
/* Free the range when the context ends. */
void range_own(struct range *range, struct context *context);
bool range_is_host(const struct range *range);
void range_use(struct range *range, const struct point *at);
/* A use that may not be done as far as the host and `by` (may be NULL) know. */
const struct use *range_unknown_use(
    const struct range *range, const struct point *by);

struct range *memory_find(uint64_t address); /* or NULL */
bool memory_covers(uint64_t address, size_t size);
/* The driver compares these where memory of a graph's node is replaced by other
 * memory: the kind of its allocation, its context, and the devices that it is
 * mapped to. */
struct operand {
	enum range_kind kind; /* RANGE_KINDS: pageable; RANGE_HOST: pinned */
	uint64_t context_id;  /* 0 for host memory and mappings */
	int device;           /* -1 for host memory */
	uint32_t can_read, can_write;
};

struct operand memory_operand(uint64_t address);
bool operand_equals(const struct operand *a, const struct operand *b);
/* Is the memory neither the driver's nor reserved, but ordinary host memory? */
bool memory_is_pageable(uint64_t address, size_t size);
/* Describe what is wrong with an access by the context's device, or by the
 * memory's own device if there is no context. NULL: nothing. */
const char *memory_check(
    const struct access *access, const struct context *context);
void memory_use(const struct access *access, const struct point *at);
void memory_touch(const struct access *access, const struct op *op);
/* Report a violation if the range may still be in use, as far as the host
 * knows. */
/* Report a violation if an executable graph uses the memory, if that check is
 * on. */
void exec_check_unused(const struct range *range, const char *what);
void memory_check_unused(const struct range *range, const char *what);
void memory_free(struct range *range);

CUresult phys_new(struct device *device, size_t size, struct phys **out);
void phys_drop(struct phys *phys);
CUmemGenericAllocationHandle phys_handle(struct phys *phys);
/* Map the beginning of the memory at a reserved address. */
bool phys_map(const struct phys *phys, size_t size, uint64_t address, int prot);
/* Reserve address space without memory; 0 if there is none. */
uint64_t address_reserve(size_t size, size_t alignment, uint64_t hint);
void address_release(uint64_t address, size_t size);
/* Can cuMemCreate() allocate page-locked memory, as from CUDA 12.2 on? */
bool has_host_handles(void);
/* Is it page-locked memory of the machine? */
bool phys_is_host(const struct phys *phys);
/* Let the virtual time pass that a call takes for page-locked memory. */
enum page_call {
	PAGES_ALLOC,
	PAGES_FREE,
	PAGES_REGISTER,
	PAGES_UNREGISTER,
	PAGES_CREATE,
	PAGES_RELEASE,
	PAGES_ACCESS,
	PAGES_UNMAP
};
void pages_spend(enum page_call call, size_t bytes);
/* Bytes of page-locked memory that the machine can have. */
size_t machine_bytes(void);
/* Unmap the memory and keep the addresses reserved. */
bool address_clear(uint64_t address, size_t size);

CUresult alloc_new(struct context *context, size_t size, struct range **out);
void alloc_free(struct range *range);
void context_end_memory(struct context *context);

/* The duration of such a copy. */
uint64_t copy_duration_ns(uint64_t to, uint64_t from, size_t size);

/* ---- copies and fills (copy.c, fill.c) ---------------------------------- */

enum side { SIDE_ANY, SIDE_DEVICE, SIDE_HOST };

/* A copy as the caller states it. */
struct request {
	uint64_t to;
	uint64_t from;
	struct shape shape;
	struct layout to_layout, from_layout;
	enum side to_side, from_side;
	CUcontext contexts[2]; /* of peers; NULL is accepted */
};

/* The request of a copy by parameters; they may be impossible. */
CUresult request_by_params(const CUDA_MEMCPY3D *params, struct request *out);
CUresult copy_action(const struct request *request, struct action *action);
/* Copy on a stream; or on a default stream, and wait. */
CUresult copy_async(
    enum sim_entry entry, CUstream handle, const struct request *request);
CUresult copy_now(
    enum sim_entry entry, CUstream handle, const struct request *request);
/* Can the memory be of the kind that the call says? */
bool side_fits(const struct access *access, enum side side, bool *pageable);
CUresult fill_action(const struct fill *fill, struct action *action);

/* The action of launching the kernel (kernel.c). */
CUresult kernel_action(
    const CUDA_KERNEL_NODE_PARAMS *params, struct action *action);

/* ---- checks (race.c) ---------------------------------------------------- */

/* Spaces of race.c; smaller numbers are devices. SPACE_MACHINE is page-locked
 * memory of cuMemCreate(). */
enum { SPACE_HOST = SIM_DEVICES, SPACE_FOREIGN, SPACE_MACHINE };

void race_access(unsigned space, uint64_t offset, const struct access *access,
    const struct op *op);
void race_forget(unsigned space, uint64_t offset, size_t size);
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
void violation_reset(void);

/* ---- stream-ordered memory (pool.c) ------------------------------------- */

/* Free a block at once. */
CUresult pool_free_now(struct range *range);
/* Hold memory of graphs; memory of other kinds, and NULL, are ignored. */
void graph_memory_hold(struct range *range);
void graph_memory_drop(struct range *range);
void graph_memory_set_live(struct range *range, bool live);
/* Has a call freed the memory, or no launch allocated it? */
bool range_is_released(const struct range *range);
uint64_t pool_handle(const struct pool *pool); /* 0 for NULL */
/* The host has waited: give back the idle memory above the threshold. */
void pool_synced(void);
/* The device is short of memory: give back as much as possible. */
void pool_reclaim(struct device *device);

/* ---- between processes (ipc.c) ------------------------------------------ */

void ipc_close(struct range *range);

/* ---- the gate (gate.c, fault.c, life.c) --------------------------------- */

struct sim {
	enum { SIM_NEW, SIM_READY, SIM_FORKED, SIM_ENDED } state;
	int n_devices;
	struct device devices[SIM_DEVICES];
	struct device machine; /* page-locked memory of cuMemCreate() */
	struct context *contexts;
	struct tree memory;
	struct tree reservations;
	long n_ranges[RANGE_KINDS];
	struct context *here; /* the call that holds the lock */
	uint64_t next_id;     /* for contexts, streams and memory */
};

extern struct sim sim;

/*
 * Every call begins with gate_enter(), which takes the lock, counts the call,
 * lets the call's time pass, injects faults, and checks the conditions that the
 * entry's flags name. It returns CUDA_SUCCESS or the code that the call must
 * return. Every call ends with gate_leave(), whatever gate_enter() returned.
 */
CUresult gate_enter(enum sim_entry entry);
CUresult gate_leave(CUresult code);

/* Parts of gate_enter() for calls that come after cuInit(), which sets them:
 * they run the work that the parts above the gate have queued. */
struct gate_checks {
	void (*pass_time)(void); /* the time of a call */
	/* Fail if captures forbid a call with ENTRY_UNSAFE. */
	CUresult (*refuse_unsafe)(void);
};
void gate_check_by(const struct gate_checks *by);

/* ---- the lock (lock.c) -------------------------------------------------- */

/* Only lock and unlock: for controls, and around host functions. */
void gate_lock(void);
void gate_unlock(void);
void gate_wait(pthread_cond_t *condition);
/* Let other threads and processes run. */
void gate_pause(void);

/* Count the call, and return the code with which it must fail. */
CUresult fault_next(enum sim_entry entry);
void fault_count(enum sim_entry entry);
void fault_reset(void);

/* ---- entry points (entry_names.c, proc.c) ------------------------------- */

struct entry {
	const char *base;
	int version;
	unsigned flags;
};

/* Indexed by enum sim_entry. */
extern const struct entry sim_entries[];

/* A row of a table for cuGetProcAddress(). */
struct entry_address {
	const char *base;
	int version;
	void *function;
	void *per_thread; /* the variant for the per-thread default stream */
};

/* Entries that fail with CUDA_ERROR_NOT_SUPPORTED (unsimulated.c). */
extern const struct entry_address sim_unsimulated[];
extern const size_t sim_n_unsimulated;

#endif
