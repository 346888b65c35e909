/*
 * A recording that is replayed under other allocators and settings.
 *
 * weir plays a file, in a child process; the model of PyTorch's allocator plays
 * the same allocations. Both are deterministic: another replay of the recording
 * has the same figures.
 */
#ifndef TOOLS_WEIR_ADVISE_ADVISE_TRIAL_H
#define TOOLS_WEIR_ADVISE_ADVISE_TRIAL_H

#include "tools/weir/fit/recording.h"

enum { ADVISE_PATH = 64 };

struct advise_case {
	struct recording recording;
	const char *path;          /* the file that weir plays */
	int device;                /* of that file; -1: the only one */
	uint64_t limit;            /* bytes; UINT64_MAX: none */
	char written[ADVISE_PATH]; /* a file of the case's own, or "" */
	/* A failed request that is a block of the recording: the parts of the
	 * snapshot that differ. */
	struct snapshot *moment;
	struct snapshot_trace *traces;
	uint64_t *address;
	uint8_t *action;
};

/* An allocator and its settings. */
struct advise_allocator {
	bool weir;
	const char *conf; /* options of weir, or PyTorch's settings; "": none */
};

struct advise_figures {
	uint64_t held; /* the peak, in bytes */
	uint64_t ooms;
	uint64_t calls;   /* of the driver, for memory */
	uint64_t retries; /* PyTorch's, each of which waits for the device */
	uint64_t host_waits;
	uint64_t gpu_waits;
	uint64_t delay_us; /* of work, by those */
	uint64_t duration_us;
};

/*
 * Prepare the whole recording of a device.
 *
 * @param path  the file of the snapshot, or NULL: a file is written
 * @return false, and a complaint, on failure
 */
bool advise_case_whole(struct advise_case *c, const struct snapshot *snapshot,
    uint32_t device, const char *path, uint64_t limit);

/* Prepare the recording up to a failed request, an oom event, which is made an
 * allocation. The limit is what was held then and what the driver had free. */
bool advise_case_failure(
    struct advise_case *c, const struct snapshot *snapshot, uint32_t event);

void advise_case_drop(struct advise_case *c);

/* Replay. False, and a complaint, on failure. */
bool advise_play(const struct advise_case *c,
    const struct advise_allocator *allocator, struct advise_figures *out);

/* Replay through the model of PyTorch's allocator, which begins as weir does:
 * it allocates the older blocks anew and has no older free memory. False, and a
 * complaint, on failure. */
bool advise_play_fresh(const struct advise_case *c, const char *settings,
    struct advise_figures *out);

/* The bytes of the segments that are older than the recording. */
uint64_t advise_older_held(const struct advise_case *c);

/* True if the recording has a request, which replays need. */
bool advise_has_request(const struct advise_case *c);

#endif
