/*
 * The content of a report, from its collectors to its writers.
 */
#ifndef TOOLS_REPORT_REPORT_H
#define TOOLS_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/weir.h>

#include "tools/report/names.h"

/* Streams beyond these are counted together, in the last. */
enum { REPORT_STREAMS = 64 };

struct report_stream {
	int device;         /* -1: streams that are counted together */
	weir_stream stream; /* WEIR_STREAM_ANY: cuMemAlloc() */
	uint64_t requests;
	uint64_t hits; /* of these, answered with no call of the driver */
	uint64_t bytes;
};

/* Calls of a hook, as the program made them. */
struct report_calls {
	uint64_t seen;
	uint64_t served; /* of these, by weir */
	uint64_t saved;  /* of these, with no call of the driver */
};

struct report_entry {
	uint64_t calls;
	uint64_t ns;
};

/* How the process ended, as far as its report is concerned. */
enum report_end {
	REPORT_EXIT,   /* it writes the report itself */
	REPORT_STATUS, /* it ended with a status, and without running handlers
			*/
	REPORT_SIGNAL,
	REPORT_LOST, /* unknown: it was not a child of the reader */
};

struct report {
	const char *program;
	long pid;
	enum report_end end;
	int code; /* the status or the signal */
	bool serving;
	bool library; /* the numbers are those of the program's own libweir */
	struct report_calls calls[HOOK_COUNT];
	uint64_t allocations_served;
	uint64_t frees_served;
	uint64_t calls_saved;
	/* Driver calls of weir: all, and by entry. */
	uint64_t driver_calls;
	uint64_t driver_ns;
	struct report_entry entries[COUNT_ENTRIES];
	uint64_t peak_live_bytes;
	uint64_t live_bytes;
	uint64_t live_blocks;
	uint64_t peak_held_bytes;
	uint64_t uncached_bytes; /* bytes the driver alone would have held */
	uint64_t host_waits;
	uint64_t gpu_waits;
	uint64_t ooms;
	uint64_t barriers; /* watch_barriers() */
	struct report_stream streams[REPORT_STREAMS];
	size_t n_streams;
	/* See sites.c; NULL where nobody has asked. The report's own. */
	void (*describe)(uint32_t stack,
	    void (*tell)(void *user, const char *line), void *user);
	struct site_list *leaks;
	struct site_list *top;
};

/* "legacy default", "0x5581..."; into `text`. */
const char *report_stream_name(
    const struct report_stream *stream, char *text, size_t size);

void report_write_json(FILE *file, const struct report *report);
/* For people; with escapes of a terminal if `colour`. */
void report_write_text(FILE *file, const struct report *report, bool colour);

/*
 * Write it where WEIR_REPORT says: "-" is stderr, as text; else a file, as
 * JSON, with the process for "%p" in its name. The file is the user's alone, is
 * replaced when it is complete, and no link there is followed.
 *
 * @return WEIR_OK; WEIR_EINVAL, WEIR_EHOSTMEM: it cannot be written, told
 */
enum weir_status report_write(
    const char *destination, const struct report *report);

/* ---- Sites ------------------------------------------------------------- */

/* Where memory comes from: all calls that led to an allocation. */
struct site {
	struct site *next;
	uint32_t stack;
	uint64_t bytes;  /* live */
	uint64_t blocks; /* live */
	uint64_t bytes_at_peak;
	uint64_t blocks_at_peak;
	uint64_t peak; /* the number of the peak that those are of */
	uint64_t all_bytes;
	uint64_t all_blocks;
};

/* Sites by falling importance. */
struct site_list {
	size_t n;
	size_t n_all;   /* there were more */
	uint64_t bytes; /* of all, those not in the list too */
	uint64_t blocks;
	struct site sites[];
};

#endif
