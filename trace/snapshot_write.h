/*
 * The file of a snapshot, part by part: docs/trace.md has what it looks like.
 *
 * The allocator fills these structs and hands them over in the order of the
 * calls below. No output is kept.
 */
#ifndef TRACE_SNAPSHOT_WRITE_H
#define TRACE_SNAPSHOT_WRITE_H

#include <stddef.h>

#include "trace/history.h"
#include "trace/out.h"

enum trace_block_state {
	TRACE_BLOCK_ALLOCATED,
	TRACE_BLOCK_PENDING,
	TRACE_BLOCK_INACTIVE,
};

struct trace_block {
	uint64_t addr;
	uint64_t size;
	uint64_t requested; /* 0 of inactive ones */
	uint64_t stream;
	uint32_t stack;
	enum trace_block_state state;
	bool cached; /* by a thread */
};

/* A run of memory that is mapped in one piece; its blocks tile it. */
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
	uint32_t number; /* in its arena, in the order of making */
	const struct trace_block *blocks;
	size_t block_count;
};

/* One option as text. */
struct trace_option {
	const char *key;
	const char *value;
	const char *source; /* who set it; NULL: it is at its default */
};

enum { TRACE_ROUNDUP_CLASSES = 16 };

struct trace_settings {
	const char *conf;        /* PYTORCH_CUDA_ALLOC_CONF, as it is set */
	uint64_t max_split_size; /* UINT64_MAX: none */
	double garbage_collection_threshold;
	bool expandable_segments;
	bool pinned_register;
	unsigned pinned_threads;
	const uint32_t *roundup; /* of TRACE_ROUNDUP_CLASSES */
	bool overflowed;         /* some history has dropped events */
	const struct trace_option *options;
	size_t option_count;
};

/* A statistic. */
struct trace_number {
	const char *name;
	uint64_t value; /* all bits set: without bound */
};

/* Further data of a device. */
struct trace_device {
	int device;
	uint64_t recorded;
	uint64_t dropped;
	uint64_t total_bytes;     /* the device's memory */
	uint64_t limit_bytes;     /* UINT64_MAX: none */
	const char *limit_source; /* who set it */
	const struct trace_number *numbers;
	size_t number_count;
};

struct snapshot_file;

/* Begin a snapshot in a file, which is its own if this succeeds.
 * WEIR_EHOSTMEM. */
enum weir_status snapshot_write_begin(struct out *file,
    enum weir_snapshot_format format, struct snapshot_file **out);

/* Between the two: all segments. */
void snapshot_write_segments(struct snapshot_file *s);
void snapshot_write_segment(
    struct snapshot_file *s, const struct trace_segment *segment);
void snapshot_write_segments_end(struct snapshot_file *s);
/* Write the segments of page-locked host memory, and an empty trace of it. */
void snapshot_write_host_segments(struct snapshot_file *s);
void snapshot_write_host_segments_end(struct snapshot_file *s);

/* Between the two: for each device, from 0 on, its events in pieces, the first
 * of which has the number `first`. */
void snapshot_write_traces(struct snapshot_file *s);
void snapshot_write_trace(struct snapshot_file *s);
void snapshot_write_events(struct snapshot_file *s,
    const struct trace_event *events, size_t n, uint64_t first);
void snapshot_write_trace_end(struct snapshot_file *s);
void snapshot_write_traces_end(struct snapshot_file *s);

/* PyTorch's settings by its names; then options of weir's that are not at their
 * default, and limits of the n devices, under names that PyTorch has not. */
void snapshot_write_settings(struct snapshot_file *s,
    const struct trace_settings *settings, const struct trace_device *devices,
    size_t n);
void snapshot_write_annotations(struct snapshot_file *s);
/* Data that only weir's snapshots have. */
void snapshot_write_weir(struct snapshot_file *s,
    const struct trace_settings *settings, const struct trace_device *devices,
    size_t n);

/* The file gets its name; or nothing of it is left. WEIR_EINVAL,
 * WEIR_EHOSTMEM. */
enum weir_status snapshot_write_close(struct snapshot_file *s);
void snapshot_write_abandon(struct snapshot_file *s);

#endif
