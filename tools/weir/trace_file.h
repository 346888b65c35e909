/*
 * A recorded trace of allocations, read from a file into a form that can be
 * played: rows refer to blocks, and each block knows until when it was used.
 *
 * The file is a memory snapshot, whose trace becomes such rows, or CSV, plain
 *or xz-compressed:
 *
 *	# {"name": "...", "peak_reserved": BYTES, ...}      optional
 *	action,addr,size,stream,time_us
 *	a,7fde8e800000,12582912,0,2
 *
 * Actions, as PyTorch names them by their first letters:
 *
 *	a  alloc           the block at `addr` is handed out for `stream`
 *	r  record_stream   `stream` uses the block too; before its free
 *	f  free requested  the owner gives it back
 *	c  free completed  the work of other streams on it has been seen done
 *	w  wait            `stream` waits for what is queued on another stream,
 *	                   whose number is in the column of the size
 *	k  kernel          `stream` has work that takes so many microseconds as
 *	                   the column of the size says
 *	e  end             `stream` is destroyed; the number may come again, and
 *	                   then stands for a new stream
 *	n  next round      what `stream` allocates from here on repeats what
 *	                   it has allocated since its `n` before; it is for who
 *	                   compares addresses
 *	S s m u            segments allocated, freed, mapped, unmapped; only
 *	                   what the recorded allocator did, so only checked
 *
 * How long a block was used (struct trace_block): one that was recorded on
 * another stream is used until its `c`, or to the end of the trace where that
 * never came. In a trace without any `r` row the calls were not recorded; a
 * `c` that comes later than its `f`, with other rows between, tells of a use
 * that is not named. Everything else is free when it is freed. In a trace with
 * `k` rows it is these that keep streams busy, and a `c` is only a prediction.
 */
#ifndef TOOLS_WEIR_TRACE_FILE_H
#define TOOLS_WEIR_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/budget.h"

enum {
	/* Streams are numbered from 0; more than these are taken for a
	 * damaged file. */
	TRACE_STREAMS_MAX = 1024,
	/* `block` of rows that concern none. */
	TRACE_NO_BLOCK = UINT32_MAX,
};

struct trace_row {
	char action;
	uint16_t stream;
	uint32_t block; /* index in blocks */
	uint64_t size;  /* bytes; of a `w` a stream, of a `k` microseconds */
	uint64_t time_us;
};

/* One life of an address, from `a` to `f`. */
struct trace_block {
	uint64_t used_until_us; /* 0 if its own stream alone used it */
	uint16_t stream;        /* of its `a` row */
	bool recorded;          /* has `r` rows */
	bool freed_elsewhere;   /* its `f` row has another stream */
	bool unnamed_use;       /* used on a stream the trace does not name */
};

struct trace {
	char *name;
	struct trace_row *rows;
	size_t row_count;
	struct trace_block *blocks; /* in the order of their `a` rows */
	size_t block_count;
	unsigned
	    stream_count; /* highest number in a, r, f, w, k, e, n rows + 1 */
	bool has_records; /* there are `r` rows */
	bool has_work;    /* there are `k` rows */
	uint64_t end_us;  /* time of the last row */
	/* The peak of what the recorded allocator held; 0: the file has none.
	 */
	uint64_t recorded_held_bytes;
	/* For a snapshot: the device of this trace, and the next one that has a
	 * trace; -1: there is none. */
	int device;
	int next_device;
};

/* Why a file cannot be read: "PATH:LINE: what". */
struct trace_error {
	char text[512];
};

/*
 * Read a whole trace. False, and `error` set, if the file cannot be read or is
 * not a trace from its first line to its last; then nothing is kept.
 */
bool trace_read(const char *path, struct trace *out, struct trace_error *error);

/* As trace_read(), for one device of a snapshot; -1 is the first that has a
 * trace. To ask for a device of CSV is an error. */
bool trace_read_device(
    const char *path, int device, struct trace *out, struct trace_error *error);

/* As trace_read(), of a text that was read within a budget; `shown` names it in
 * errors. */
bool trace_read_text(const char *shown, const char *text, size_t length,
    const struct budget *budget, struct trace *out, struct trace_error *error);

/* Free what trace_read() made. */
void trace_drop(struct trace *trace);

#endif
