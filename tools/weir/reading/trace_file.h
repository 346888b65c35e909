/*
 * A recorded trace of allocations, in a form that can be played: rows refer to
 * blocks, and each block has the time until which it was used.
 *
 * The file is a memory snapshot, whose trace becomes such rows, or CSV. Both
 * may be compressed by xz or gzip. The form of CSV:
 *
 *	# {"name": "...", "peak_reserved": BYTES, ...}      optional
 *	action,addr,size,stream,time_us
 *	a,7fde8e800000,12582912,0,2
 *
 * Actions. The first four have the names of PyTorch's events:
 *
 *	a  alloc           the block at `addr` is allocated for `stream`
 *	r  record_stream   `stream` uses the block too; before its free
 *	f  free requested  the program frees the block on `stream`
 *	c  free completed  the work of other streams on the block is done
 *	w  wait            `stream` waits for the work that is queued on another
 *	                   stream, whose number is in the column `size`
 *	k  kernel          `stream` has work that takes `size` microseconds
 *	h  host waits      the host waits until `stream` has done all its work;
 *	                   rows behind it are played later by as much as it
 *	                   ends later than its time
 *	e  end             `stream` is destroyed; later rows with this number
 *	                   are for a new stream
 *	n  next round      the allocations of `stream` from here on repeat those
 *	                   since its `n` before; for comparisons of addresses
 *	p  pool            allocations for `stream` from here on are of the
 *	                   private pool with the number `size`, as those of
 *	                   PyTorch's graphs are; 0: of none
 *	A R F C            as a, r, f and c, of page-locked host memory, which
 *	                   belongs to no stream: `stream` of an A or F does
 *	                   not count
 *	S s m u            the recorded allocator allocated, freed, mapped or
 *	                   unmapped a segment; such rows are checked only
 *
 * The end of a block's use (struct trace_block) follows from these rules:
 *
 * - A block with an `r` or `R` row is used until its completion (`c`, `C`), or
 *until the end of the trace if it has no completion.
 * - A trace without any `r` or `R` row has no record of such uses. A block of
 *it whose `c` is later than its `f`, with other rows between them, was used by
 *a stream that the trace does not name.
 * - Every other block is used until its `f`.
 * - In a trace with `k` rows, these rows keep the streams busy, and the time of
 *   a `c` is a prediction only.
 */
#ifndef TOOLS_WEIR_READING_TRACE_FILE_H
#define TOOLS_WEIR_READING_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "snapshot/budget.h"
#include "tools/weir/tuning.h"

enum {
	/* `block` of rows without a block. */
	TRACE_NO_BLOCK = UINT32_MAX,
};

struct trace_row {
	char action;
	uint16_t stream;
	uint32_t block; /* index in blocks */
	uint64_t size;  /* bytes; `w`: a stream; `k`: microseconds; `p`: a pool
			 */
	uint64_t time_us;
};

/* A block, from its `a` to its `f`. */
struct trace_block {
	uint64_t used_until_us; /* 0 if only its own stream used it */
	uint16_t stream;        /* of its `a` row */
	bool pinned;            /* page-locked host memory */
	bool recorded;          /* it has `r` or `R` rows */
	bool freed_elsewhere;   /* its `f` row has another stream */
	bool unnamed_use; /* a stream used it that the trace does not name */
};

struct trace {
	char *name;
	struct trace_row *rows;
	uint64_t *addrs; /* of the rows; of one without memory as in the file */
	size_t row_count;
	struct trace_block *blocks; /* in the order of their `a` rows */
	size_t block_count;
	/* The highest number in rows a, r, f, A, R, F, w, k, h, e, n and p,
	 * plus 1. */
	unsigned stream_count;
	unsigned pool_count; /* the highest number in rows p, plus 1 */
	bool has_records;    /* there are `r` or `R` rows */
	bool has_pinned;     /* there are `A` rows */
	bool has_work;       /* there are `k` rows */
	/* It is of a snapshot whose history has no request: all its blocks are
	 * older than the history. */
	bool lacks_requests;
	uint64_t end_us; /* time of the last row */
	/* The most bytes that the recorded allocator held; 0: the file does not
	 * say it. */
	uint64_t recorded_held_bytes;
	bool recorded_of_weir; /* that allocator was weir */
	/* How long its waits held streams up, with work or without; 0: the file
	 * does not say it. */
	uint64_t recorded_wait_us;
	/* For a snapshot: the device of this trace, and the next device that
	 * has a trace; -1 if there is none. */
	int device;
	int next_device;
};

/* Why a file cannot be read: "PATH:LINE: fault". */
struct trace_error {
	char text[512];
};

/*
 * Read a whole trace. False, and `error` set, if the file cannot be read or any
 * line of it is wrong; nothing is allocated then.
 */
bool trace_read(const char *path, struct trace *out, struct trace_error *error);

/* Read the trace of one device of a snapshot; -1 is the first device that has a
 * trace. For CSV, another device than -1 is an error. Otherwise like
 * trace_read(). */
bool trace_read_device(
    const char *path, int device, struct trace *out, struct trace_error *error);

/* Read a trace from a text that was read within a budget. `shown` names the
 * text in errors. Otherwise like trace_read(). */
bool trace_read_text(const char *shown, const char *text, size_t length,
    const struct budget *budget, struct trace *out, struct trace_error *error);

/* Free the memory of a trace. */
void trace_drop(struct trace *trace);

#endif
