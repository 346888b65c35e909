/*
 * Writes the file of a snapshot part by part; docs/trace.md describes the file.
 *
 * The allocator fills these structs and passes them in the order of the calls
 * below. No part is stored.
 */
#ifndef SNAPSHOT_WRITE_H
#define SNAPSHOT_WRITE_H

#include <stddef.h>

#include "base/out.h"
#include "trace/history.h"

enum trace_block_state {
	TRACE_BLOCK_ALLOCATED,
	TRACE_BLOCK_PENDING,
	TRACE_BLOCK_INACTIVE,
};

struct trace_block {
	uint64_t addr;
	uint64_t size;
	uint64_t requested; /* 0 if the block is inactive */
	uint64_t stream;
	uint32_t stack;
	enum trace_block_state state;
	bool cached; /* in a thread cache */
	/* Free in a pool. Free neighbours of one heap and one epoch are one
	 * block; the epoch of memory whose work is complete is 0. */
	bool free;
	uint64_t heap;
	uint64_t epoch;
};

/* A run of memory that is mapped in one piece, with no gap between its blocks.
 */
struct trace_segment {
	int device;
	uint64_t addr;
	uint64_t size;
	uint64_t allocated;
	uint64_t active;
	uint64_t requested;
	uint64_t stream;
	struct trace_pool pool;
	uint32_t stack;
	bool small;
	bool expandable;
	uint32_t number; /* number in its arena, in the order of creation */
	const struct trace_block *blocks;
	size_t block_count;
};

/* One option as text. */
struct trace_option {
	const char *key;
	const char *value;
	const char *source; /* who set it; NULL: it has its default */
};

enum { TRACE_ROUNDUP_CLASSES = 16 };

struct trace_settings {
	const char *conf;        /* the value of PYTORCH_CUDA_ALLOC_CONF */
	uint64_t max_split_size; /* UINT64_MAX: none */
	double garbage_collection_threshold;
	bool expandable_segments;
	bool pinned_register;
	unsigned pinned_threads;
	const uint32_t *roundup; /* TRACE_ROUNDUP_CLASSES numbers */
	bool overflowed;         /* a history has dropped events */
	bool partial; /* segments that were not asked for are left out */
	const struct trace_option *options;
	size_t option_count;
};

/* A statistic. */
struct trace_number {
	const char *name;
	uint64_t value; /* all bits set: no bound */
};

/* More data of a device. */
struct trace_device {
	int device;
	uint64_t recorded;
	uint64_t dropped;
	uint64_t total_bytes;     /* size of the device's memory */
	uint64_t limit_bytes;     /* UINT64_MAX: none */
	const char *limit_source; /* who set the limit */
	/* Where page-locked memory comes from; NULL: there is none. */
	const char *pinned_source;
	const struct trace_number *numbers;
	size_t number_count;
};

struct snapshot_file;

/* Begin a snapshot in a file. If this succeeds, the snapshot owns the file.
 * WEIR_EHOSTMEM. */
enum weir_status snapshot_write_begin(struct out *file,
    enum weir_snapshot_format format, struct snapshot_file **out);

/* Write all segments between these two calls. */
void snapshot_write_segments(struct snapshot_file *s);
void snapshot_write_segment(
    struct snapshot_file *s, const struct trace_segment *segment);
void snapshot_write_segments_end(struct snapshot_file *s);
/* Write the segments of page-locked host memory, with an empty trace. */
void snapshot_write_host_segments(struct snapshot_file *s);
void snapshot_write_host_segments_end(struct snapshot_file *s);

/* Between these two calls, write each device, from 0 on, and its events in
 * pieces. `first` is the number of the first event of a piece. */
void snapshot_write_traces(struct snapshot_file *s);
void snapshot_write_trace(struct snapshot_file *s);
void snapshot_write_events(struct snapshot_file *s,
    const struct trace_event *events, size_t n, uint64_t first);
void snapshot_write_trace_end(struct snapshot_file *s);
void snapshot_write_traces_end(struct snapshot_file *s);

/* Write PyTorch's settings by their names. weir's options that are not at their
 * default, and the limits of the n devices, follow under names that PyTorch
 * lacks. */
void snapshot_write_settings(struct snapshot_file *s,
    const struct trace_settings *settings, const struct trace_device *devices,
    size_t n);
void snapshot_write_annotations(struct snapshot_file *s);
/* Write the data that only snapshots of weir have. */
void snapshot_write_weir(struct snapshot_file *s,
    const struct trace_settings *settings, const struct trace_device *devices,
    size_t n);

/* Finish the file and rename it to its name; if that fails, remove it.
 * WEIR_EINVAL, WEIR_EHOSTMEM. */
enum weir_status snapshot_write_close(struct snapshot_file *s);
void snapshot_write_abandon(struct snapshot_file *s);

#endif
