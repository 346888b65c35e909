/*
 * Playing a trace through weir.
 */
#ifndef TOOLS_WEIR_REPLAY_PLAYER_H
#define TOOLS_WEIR_REPLAY_PLAYER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/weir/reading/trace_file.h"

struct play_choices {
	uint64_t limit_bytes; /* of the device; UINT64_MAX for none */
	double speed;         /* > 0; 2 plays twice as fast as recorded */
	double late_us;       /* the largest random delay of rows and uses */
	uint64_t seed;        /* of the random delays */
	bool check;           /* weir_check() every 1000 rows and at the end */
	bool touch;           /* write each block, and verify it at its free */
	bool unreported;      /* streams do not report their work */
	bool until_oom;       /* stop at the first request that fails */
	bool explain;         /* record how requests are served */
	bool curve;           /* record the held memory through time */
	size_t costliest;     /* requests that `explain` lists */
	/* Rounds of a trace that does not say where they begin, counted in
	 * requests above ROUNDS_LARGE_ABOVE: the first one's first request, and
	 * their length; 0: they are not known. */
	uint64_t round_first;
	uint64_t round_length;
};

/* The figures of a playback. Peaks are in bytes. */
struct figures {
	uint64_t events;            /* rows that were played */
	uint64_t allocs;            /* rows that allocated of the device */
	uint64_t peak_live_bytes;   /* requested and not yet freed */
	uint64_t peak_active_bytes; /* blocks of callers and pending ones */
	uint64_t peak_pending_bytes;
	uint64_t peak_held_bytes;        /* physical memory, by weir's count */
	uint64_t peak_held_driver_bytes; /* ..., by the driver's count */
	uint64_t ooms;
	uint64_t device_allocs; /* calls that got memory from the driver */
	uint64_t device_frees;
	uint64_t map_calls;
	uint64_t map_calls_late; /* after the first tenth of the rows */
	uint64_t unmap_calls;
	uint64_t remapped_bytes;
	uint64_t host_waits;
	uint64_t gpu_waits;
	uint64_t planned_allocs; /* that got the place of a plan */
	/* gpu_wait_ns and gpu_delay_ns of struct weir_stats. */
	uint64_t measured_wait_us;
	uint64_t measured_delay_us;
	/* The delay of work by GPU waits, and the time for which GPU waits
	 * kept streams from going on, with work or without. Simulated device
	 * only. */
	uint64_t gpu_wait_us;
	uint64_t gpu_stall_us;
	/* Time until all work was done, on the stage's clock. */
	uint64_t duration_us;
	/* For programs that repeat, after the first tenth of the rows: the
	 * requests that the round before had too, and those of them that got
	 * another address; of all sizes, and above ROUNDS_LARGE_ABOVE. */
	bool repeats;
	uint64_t repeated_allocs;
	uint64_t moved_allocs;
	uint64_t repeated_large_allocs;
	uint64_t moved_large_allocs;
	/* Page-locked host memory, with the counts and times of
	 * weir_host_stats(). */
	bool has_pinned;
	uint64_t pinned_allocs;
	uint64_t pinned_peak_live_bytes;
	uint64_t pinned_peak_held_bytes;
	uint64_t pinned_driver_calls;
	uint64_t pinned_driver_calls_late; /* after the first tenth */
	uint64_t pin_us;
	uint64_t unpin_us;
	uint64_t pin_delay_us;
	uint64_t mismatches; /* words of blocks that another owner changed */
	uint64_t faults; /* found by weir_check() and the simulated device */
	double seconds;  /* of host time */
	bool simulated;
	char device[256];
	json_t *driver_calls; /* by entry point; null if they are not counted */
	json_t *curve;        /* of held_curve.h; NULL without `curve` */
	json_t *ways;         /* of explain.h; NULL without `explain` */
	json_t *costliest;
};

/* Release the JSON objects of a playback's figures. */
void figures_drop(struct figures *figures);

/*
 * Play a trace on device 0. This process must not have used weir on the device
 * before. A request that runs out of memory is counted, and the playback goes
 * on. Faults and mismatches cause a complaint and are counted. False, and a
 * complaint, if the trace could not be played to its end.
 */
bool play(const struct trace *trace, const struct play_choices *choices,
    struct figures *out);

#endif
