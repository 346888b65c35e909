/*
 * The protocol between a process and its watchers, `weir watch` and `weir ctl`.
 *
 * A watcher sends a request of fixed size and gets one reply. Each is one
 * message of a SOCK_SEQPACKET socket, so neither arrives in pieces. Both are
 * structs in the machine's own layout, because both ends are on one machine; a
 * watcher of another version gets an error. To have a snapshot written, the
 * watcher sends an open file with the request, so the process never opens a
 * file that another process names.
 *
 * Messages are not trusted: the functions below check them before they are
 * used.
 */
#ifndef TRACE_WATCH_H
#define TRACE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/ctl.h>

#include "trace/counters.h"

enum { WATCH_MAGIC = 0x77656972, WATCH_VERSION = 4 };

enum watch_kind {
	WATCH_STATS,    /* the memory of the process */
	WATCH_SNAPSHOT, /* write a snapshot to the file sent with this */
	WATCH_LIST,     /* list values by name: struct watch_ctl_request */
	WATCH_SET,      /* set one value by name */
	WATCH_KINDS
};

struct watch_request {
	uint32_t magic;
	uint32_t version;
	uint32_t kind;
	uint32_t json; /* format of a snapshot: 1 JSON, 0 pickle */
};

enum {
	WATCH_DEVICES = 16, /* further devices are left out */
	WATCH_ROWS = 8,     /* rows of streams, and of pools */
	WATCH_TEXT = 256
};

/* The memory that a stream holds in a pool. */
struct watch_stream {
	uint64_t stream; /* the handle; all bits set: no stream */
	uint64_t pool[2];
	uint64_t live_bytes;
	uint64_t pending_bytes;
	uint64_t live_blocks;
	uint64_t allocations; /* since the statistics were last reset */
};

/* A private pool. */
struct watch_pool {
	uint64_t pool[2];
	uint64_t held_bytes;
	uint64_t live_bytes;
	uint64_t pending_bytes;
	uint64_t live_blocks;
};

struct watch_device {
	uint32_t device;
	uint32_t stream_count; /* number of rows below */
	uint32_t pool_count;
	uint32_t streams_all; /* number of streams there are */
	uint32_t pools_all;
	uint32_t unused;
	uint64_t total_bytes;
	uint64_t events_recorded; /* recorded by the history */
	uint64_t events_dropped;
	struct counters memory;
	struct counters pinned; /* page-locked host memory */
	struct watch_stream streams[WATCH_ROWS];
	struct watch_pool pools[WATCH_ROWS];
};

struct watch_reply {
	uint32_t magic;
	uint32_t version;
	uint32_t kind;
	uint32_t pid;
	uint32_t failed;  /* 1: `text` says why; nothing follows */
	uint32_t history; /* 0: off; else the level + 1 */
	uint32_t device_count;
	uint32_t unused;
	uint64_t time_ns;  /* from the monotonic clock */
	uint64_t began_ns; /* when the process first requested memory */
	uint64_t metadata_bytes;
	char weir[16]; /* version of the library */
	char text[WATCH_TEXT];
	struct watch_device devices[WATCH_DEVICES];
};

/* ---- Values by name: <weir/ctl.h> -----------------------------------------
 */

enum { WATCH_CTL_ROWS = 16, WATCH_UNIT = 16, WATCH_HELP = 512 };

struct watch_ctl_request {
	uint32_t magic;
	uint32_t version;
	uint32_t kind;
	uint32_t from; /* of a list: the first row wanted */
	char path[WEIR_CTL_PATH];
	char value[WEIR_CTL_TEXT]; /* for WATCH_SET */
};

struct watch_ctl_row {
	uint32_t type; /* enum weir_ctl_type */
	uint32_t readable;
	uint32_t writable;
	uint32_t unused;
	char unit[WATCH_UNIT];
	char path[WEIR_CTL_PATH];
	char text[WEIR_CTL_TEXT];
	char accepted[WATCH_HELP];
	char help[WATCH_HELP];
};

/* The reply to WATCH_LIST. A failure is reported by a struct watch_reply. */
struct watch_ctl_reply {
	uint32_t magic;
	uint32_t version;
	uint32_t kind;
	uint32_t pid;
	uint32_t failed; /* always 0 */
	uint32_t row_count;
	/* Rows there are, with those before and after these. */
	uint32_t rows_all;
	uint32_t unused;
	struct watch_ctl_row rows[WATCH_CTL_ROWS];
};

/* The bytes of a reply with this many rows. */
static inline size_t
watch_ctl_reply_size(uint32_t rows)
{
	return offsetof(struct watch_ctl_reply, rows) +
	    rows * sizeof(struct watch_ctl_row);
}

/* Describe what is wrong with a reply to WATCH_LIST; NULL: nothing. */
const char *watch_ctl_reply_fault(const void *bytes, size_t n);

/* The bytes of a reply with this many devices. */
static inline size_t
watch_reply_size(uint32_t devices)
{
	return offsetof(struct watch_reply, devices) +
	    devices * sizeof(struct watch_device);
}

/* Describe what is wrong with a request of n bytes; NULL: nothing. */
const char *watch_request_fault(const void *bytes, size_t n);

/* Describe what is wrong with the reply to a request of this kind; NULL:
 * nothing. */
const char *watch_reply_fault(const void *bytes, size_t n, enum watch_kind to);

#endif
