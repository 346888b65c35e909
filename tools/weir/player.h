/*
 * Playing a trace through weir.
 */
#ifndef TOOLS_WEIR_PLAYER_H
#define TOOLS_WEIR_PLAYER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/weir/trace_file.h"

struct play_choices {
	uint64_t limit_bytes; /* of the device; UINT64_MAX for none */
	double speed;         /* > 0; 2 plays twice as fast as recorded */
	double late_us;       /* by so much at most rows and uses are late */
	uint64_t seed;        /* of that */
	bool check;           /* weir_check() now and then, and at the end */
	bool touch;           /* write each block, and look at it at its free */
	bool until_oom;       /* stop at the first request that fails */
	bool explain;         /* how requests were served */
	size_t costliest;     /* requests that are listed then */
};

/* The figures of a playback. Peaks are in bytes. */
struct figures {
	uint64_t events;            /* rows that were played */
	uint64_t allocs;            /* of which allocations */
	uint64_t peak_live_bytes;   /* asked for and not yet freed */
	uint64_t peak_active_bytes; /* blocks of callers and pending ones */
	uint64_t peak_pending_bytes;
	uint64_t peak_held_bytes;        /* physical, as weir counts */
	uint64_t peak_held_driver_bytes; /* the same, as the driver counts */
	uint64_t ooms;
	uint64_t device_allocs; /* calls that took memory from the driver */
	uint64_t device_frees;
	uint64_t map_calls;
	uint64_t map_calls_late; /* after the first tenth of the rows */
	uint64_t unmap_calls;
	uint64_t remapped_bytes;
	uint64_t host_waits;
	uint64_t gpu_waits;
	/* gpu_wait_ns and gpu_delay_ns of struct weir_stats. */
	uint64_t measured_wait_us;
	uint64_t measured_delay_us;
	/* By which those delayed work; for which they kept streams from going
	 * on, with work or without. Simulated only. */
	uint64_t gpu_wait_us;
	uint64_t gpu_stall_us;
	uint64_t
	    duration_us; /* until all work was done, on the stage's clock */
	/* In programs that repeat, after the first tenth of the rows: requests
	 * that the round before had too, and those of them that got another
	 * address. */
	bool repeats;
	uint64_t repeated_allocs;
	uint64_t moved_allocs;
	uint64_t mismatches; /* words of blocks that were changed by others */
	uint64_t faults;     /* of weir_check() and of the simulated device */
	double seconds;      /* of host time */
	bool simulated;
	char device[256];
	json_t *driver_calls; /* by entry point; null where not counted */
	json_t *ways;         /* of explain.h; NULL: not asked for */
	json_t *costliest;
};

/* Drop the objects of a playback's figures. */
void figures_drop(struct figures *figures);

/*
 * Play a trace on device 0, which weir must not have used before in this
 * process. False, and a complaint, if it could not be played to its end; a
 * request that fails for want of memory is counted, and the rest goes on.
 * Faults and mismatches are complained of and counted.
 */
bool play(const struct trace *trace, const struct play_choices *choices,
    struct figures *out);

#endif
