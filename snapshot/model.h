/*
 * A memory snapshot in memory, read from a file in PyTorch's or weir's format.
 *
 * Segments consist of blocks, and traces of events; both refer to the stacks of
 * their callers. All objects are in arrays and are referred to by index.
 * Strings, frames, stacks and pools are stored once, however often a file
 * repeats them. There may be millions of events, so each field of events has an
 * array.
 *
 *	segment  --first_block, block_count-->  blocks, in the file's order
 *	traces[device]  --first, count-->       events, oldest first
 *	event, block, segment  --stack-->       frames, innermost first
 *
 * String 0 is "", stack 0 is empty, and pool 0 is (0, 0). Readers
 * (snapshot/pickle_read.h, snapshot/build.h) have checked that every index
 * is inside its array, that sizes add up without overflow, and that texts are
 * UTF-8 without NUL. No array is NULL. They have not checked that the snapshot
 * is plausible: blocks may overlap or not fill their segment. A snapshot is
 * constant once it is read, so any number of threads may use it.
 */
#ifndef SNAPSHOT_MODEL_H
#define SNAPSHOT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/trace.h>

/* The actions of events. Other actions of a file get the numbers after these;
 * see snapshot_action_name(). */
enum snapshot_action {
#define SNAPSHOT_ACTION(NAME, name) SNAPSHOT_##NAME,
	WEIR_ACTION_LIST(SNAPSHOT_ACTION)
#undef SNAPSHOT_ACTION
	    SNAPSHOT_ACTIONS_KNOWN,
	SNAPSHOT_ACTIONS_MAX = 64, /* a file with more actions is refused */
};

enum snapshot_state {
	SNAPSHOT_INACTIVE,
	SNAPSHOT_ACTIVE,
	SNAPSHOT_PENDING, /* freed by its owner, still used on the device */
	SNAPSHOT_STATES,
};

struct snapshot_frame {
	uint32_t name; /* string */
	uint32_t file; /* string */
	uint32_t line; /* UINT32_MAX: the file has 2^64-1, which is no line */
	/* Where a frame without names of its own is: 0 for all others. */
	uint32_t module;   /* string: path of the program or library */
	uint32_t build_id; /* string */
	uint32_t zero;     /* no padding: frames are hashed as bytes */
	uint64_t offset;   /* of the return address in the module */
};

/* The line of a frame, or 0 if it has none. */
static inline uint32_t
snapshot_line(const struct snapshot_frame *frame)
{
	return frame->line == UINT32_MAX ? 0 : frame->line;
}

/* A stack is `count` entries of stack_frames, from `first` on. */
struct snapshot_stack {
	uint32_t first;
	uint32_t count;
};

struct snapshot_block {
	uint64_t address;
	uint64_t bytes;
	uint64_t requested_bytes; /* as requested by the caller */
	uint64_t stream;          /* the segment's, if the file has none */
	uint32_t stack;           /* stack of the allocation */
	uint8_t state;            /* enum snapshot_state */
	bool reports_stream;      /* the file names the block's stream */
	bool cached;              /* free, in the cache of a thread of weir */
	/* The file is of weir and does not say that the block is free in a
	 * pool: a cache has it, or it is a guard zone or being unmapped, or an
	 * old version wrote the file. */
	bool kept_apart;
	/* Free neighbours of one heap and one epoch, in a pool of weir, are
	 * one block. 0 for live blocks, and in other files. */
	uint64_t heap;
	uint64_t epoch;
};

struct snapshot_segment {
	uint64_t address;
	uint64_t bytes;
	/* Sums that the file states. `weir check` finds those that differ from
	 * the sums over the blocks. */
	uint64_t reported_allocated_bytes;
	uint64_t reported_active_bytes;
	uint64_t reported_requested_bytes;
	uint64_t stream; /* handle of the stream; 0: the default stream */
	uint32_t first_block;
	uint32_t block_count;
	uint32_t stack;
	uint32_t pool;
	uint32_t device;        /* of host memory: the device that it serves */
	bool reports_allocated; /* the file states each of these three sums */
	bool reports_active;
	bool reports_requested;
	bool small;      /* in the pool of small blocks */
	bool expandable; /* a mapped run of an expandable segment */
};

/* The events of a device. */
struct snapshot_trace {
	uint32_t first;
	uint32_t count;
};

/* An array of `count` entries for each field. A device's events are together.
 */
struct snapshot_events {
	uint32_t count;
	uint64_t *address; /* of SNAPSHOT_OOM: the device's free bytes */
	uint64_t *bytes;
	uint64_t *stream;
	int64_t *time_us; /* since 1970; 0 if the file has no time */
	uint32_t *stack;
	uint32_t *pool;
	uint32_t *context;   /* string: the compiled region */
	uint32_t *metadata;  /* string: the program's text */
	uint32_t *served_by; /* string: how an allocation was served */
	uint16_t *device;
	uint8_t *action;
};

/* The beginning or end of a region that the program or a profiler has named. */
struct snapshot_annotation {
	uint32_t name;  /* string */
	uint32_t stage; /* string: "START", "END" */
	uint32_t device;
	int64_t time_us;
};

/* The number of a pool; (0, 0) is the default pool. */
struct snapshot_pool {
	int64_t first;
	int64_t second;
};

/* Another value of the file, for example
 * "allocator_settings.expandable_segments" and "True". The name is made of the
 * keys of its dicts, joined by dots. */
struct snapshot_setting {
	uint32_t name;  /* string */
	uint32_t value; /* string */
};

enum { SNAPSHOT_ARRAYS = 22 };

struct snapshot {
	uint32_t segment_count;
	/* The number of segments of page-locked host memory. They follow the
	 * segments of devices and are in no other count; see snapshot_host().
	 */
	uint32_t host_count;
	uint32_t block_count;
	uint32_t trace_count; /* number of devices that have a trace, from 0 */
	uint32_t annotation_count;
	uint32_t frame_count;
	uint32_t stack_count;
	uint32_t stack_frame_count;
	uint32_t pool_count;
	uint32_t setting_count;
	uint32_t string_count;
	uint32_t action_count;
	struct snapshot_segment *segments;
	struct snapshot_block *blocks;
	struct snapshot_trace *traces;
	struct snapshot_annotation *annotations;
	struct snapshot_frame *frames;
	struct snapshot_stack *stacks;
	uint32_t *stack_frames; /* frames */
	struct snapshot_pool *pools;
	struct snapshot_setting *settings;
	struct snapshot_events events;
	uint64_t *strings; /* offset in `text` of each string */
	char *text;
	uint64_t text_bytes;
	uint32_t actions[SNAPSHOT_ACTIONS_MAX]; /* strings: the actions' names
						 */
	size_t room[SNAPSHOT_ARRAYS];           /* capacities of the arrays; for
						 * snapshot_model.c only */
};

/* The text of a string of the snapshot: UTF-8 that ends with NUL. */
static inline const char *
snapshot_text(const struct snapshot *snapshot, uint32_t string)
{
	return snapshot->text + snapshot->strings[string];
}

/* The name of an action, as "alloc". `action` is below action_count. */
static inline const char *
snapshot_action_name(const struct snapshot *snapshot, unsigned action)
{
	return snapshot_text(snapshot, snapshot->actions[action]);
}

/* The name of a state in files, as "active_allocated". */
const char *snapshot_state_name(enum snapshot_state state);

/* One more than the highest device of any segment or trace. */
uint32_t snapshot_device_count(const struct snapshot *snapshot);

/* The page-locked host memory as a snapshot without traces, so that code for
 * device segments can be used for it. It lives as long as `snapshot` and is not
 * freed. */
struct snapshot snapshot_host(const struct snapshot *snapshot);

/* Free a snapshot and everything in it; NULL does nothing. */
void snapshot_free(struct snapshot *snapshot);

/* ---- For those that make one ----------------------------------------- */

/* Create an empty snapshot with some capacity in each array; NULL without host
 * memory. */
struct snapshot *snapshot_new(void);

/* The arrays that grow. */
enum snapshot_array {
	SNAPSHOT_ARRAY_SEGMENTS,
	SNAPSHOT_ARRAY_BLOCKS,
	SNAPSHOT_ARRAY_TRACES,
	SNAPSHOT_ARRAY_ANNOTATIONS,
	SNAPSHOT_ARRAY_FRAMES,
	SNAPSHOT_ARRAY_STACKS,
	SNAPSHOT_ARRAY_STACK_FRAMES,
	SNAPSHOT_ARRAY_POOLS,
	SNAPSHOT_ARRAY_SETTINGS,
	SNAPSHOT_ARRAY_STRINGS,
	SNAPSHOT_ARRAY_TEXT,
	SNAPSHOT_ARRAY_EVENTS, /* the first of the events' eleven arrays */
};

/*
 * Make room for `more` entries after the first `count` of an array; for events,
 * in all eleven arrays. The entries may move.
 *
 * @return WEIR_OK; WEIR_EHOSTMEM; WEIR_EINVAL if the count exceeds 32 bits
 */
enum weir_status snapshot_reserve(struct snapshot *snapshot,
    enum snapshot_array array, uint64_t count, uint64_t more);

#endif
