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
#include "tools/report/tuning.h"
#include "trace/counters.h"

struct report_stream {
	int device;         /* -1: streams that are counted together */
	weir_stream stream; /* WEIR_STREAM_ANY: cuMemAlloc() */
	uint64_t requests;
	uint64_t hits; /* requests answered without a call of the driver */
	uint64_t bytes;
};

/* The program's calls of a hook. */
struct report_calls {
	uint64_t seen;
	uint64_t served; /* calls that weir served */
	uint64_t saved;  /* calls served without a call of the driver */
};

struct report_entry {
	uint64_t calls;
	uint64_t ns;
};

/* The tables of the text in which a figure is a row. */
enum report_table {
	REPORT_MEMORY,
	REPORT_CALLS,
	REPORT_NO_TABLE /* in JSON only, or in the note of another row */
};

/*
 * The report's own figures; weir's are those of COUNTERS that are reported.
 * X(name, unit, table, own, label, note). The name is the key in JSON. `own`
 * figures are of the calls that the preload serves: where the numbers are those
 * of the libweir that the program links, the text has no row of them.
 */
/* clang-format off */
#define REPORT_FIGURES(X)                                                      \
	X(peak_live_bytes, "bytes", REPORT_MEMORY, false, "peak live",         \
	    "the most the program used at once")                               \
	X(peak_held_bytes, "bytes", REPORT_MEMORY, false, "peak held",         \
	    "the most weir held from the driver")                              \
	X(peak_without_caching_bytes, "bytes", REPORT_MEMORY, true,            \
	    "without caching", "the least the driver alone would hold")        \
	X(live_bytes_at_exit, "bytes", REPORT_MEMORY, false, "live at exit",   \
	    "")                                                                \
	X(live_blocks_at_exit, "", REPORT_NO_TABLE, false, "", "")             \
	X(allocations_served, "", REPORT_CALLS, false, "allocations served",   \
	    "")                                                                \
	X(frees_served, "", REPORT_CALLS, false, "frees served", "")           \
	X(calls_saved, "", REPORT_CALLS, true, "saved", "")                    \
	X(driver_calls_made, "", REPORT_CALLS, true, "driver calls of weir",   \
	    "")                                                                \
	X(driver_ns, "ns", REPORT_NO_TABLE, true, "", "")
/* clang-format on */

/* The end of the process. */
enum report_end {
	REPORT_EXIT,   /* the process writes the report itself */
	REPORT_STATUS, /* with a status, without running exit handlers */
	REPORT_SIGNAL,
	REPORT_LOST, /* unknown: the process was no child of the reader */
};

struct report {
	const char *program;
	long pid;
	enum report_end end;
	int code; /* the status or the signal */
	bool serving;
	bool
	    library; /* the numbers are of the libweir that the program links */
	struct report_calls calls[HOOK_COUNT];
#define REPORT_FIELD(name, ...) uint64_t name;
	REPORT_FIGURES(REPORT_FIELD)
#undef REPORT_FIELD
	/* Sums over all devices, and over their page-locked memory. */
	struct counters memory;
	struct counters pinned;
	/* Driver calls of weir, by entry point. */
	struct report_entry entries[COUNT_ENTRIES];
	const char *pinned_source; /* weir_host_source(); NULL: unknown */
	uint64_t barriers;         /* watch_barriers() */
	struct report_stream streams[REPORT_STREAMS];
	size_t n_streams;
	/* See sites.c. NULL if the user did not ask for them. The report owns
	 * the lists. */
	void (*describe)(uint32_t stack,
	    void (*write)(void *user, const char *line), void *user);
	struct site_list *leaks;
	struct site_list *top;
	/* The user asked for leaks, but the process ended before it wrote its
	 * report, and had the stacks. */
	bool stacks_lost;
};

/* Write the name of a stream, such as "legacy default" or "0x5581...". Returns
 * `text`. */
const char *report_stream_name(
    const struct report_stream *stream, char *text, size_t size);

/* Write a report as JSON. */
void report_write_json(FILE *file, const struct report *report);
/* Write a report as text for people. With `colour`, use terminal escapes. */
void report_write_text(FILE *file, const struct report *report, bool colour);

/*
 * Write a report to the destination of WEIR_REPORT: "-" is stderr, as text.
 * Another destination is the name of a file, as JSON; "%p" in the name stands
 * for the process id. Only the user may read the file. A file of this name is
 * replaced when the new one is complete. A symbolic link is not followed.
 *
 * @return WEIR_OK; or WEIR_EINVAL or WEIR_EHOSTMEM if the report cannot be
 *         written, and weir_last_error() says why
 */
enum weir_status report_write(
    const char *destination, const struct report *report);

/* Let the processes that this one starts find its stderr, for the case that
 * they lose their own (base/quiet.h). False without memory. */
bool report_lend_stderr(void);

/* ---- Sites ------------------------------------------------------------- */

/* A stack of calls that allocated, with the sums of its allocations. */
struct site {
	struct site *next;
	uint32_t stack;
	uint64_t bytes;  /* live */
	uint64_t blocks; /* live */
	uint64_t bytes_at_peak;
	uint64_t blocks_at_peak;
	uint64_t peak; /* number of the peak of these two figures */
	uint64_t all_bytes;
	uint64_t all_blocks;
};

/* Sites, the most important ones first. */
struct site_list {
	size_t n;
	size_t n_all;   /* number of all sites, also those not in the list */
	uint64_t bytes; /* of all sites */
	uint64_t blocks;
	struct site sites[];
};

#endif
