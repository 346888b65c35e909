/*
 * Advice for the program of a recording: settings with which a replay of the
 * recording holds less memory, or serves a request that failed.
 *
 * A gain is the difference of two replays of the whole recording, one with the
 * settings that the program had. Remedies that cost less come first; one that
 * costs more is named if it gains notably more. All costs that the replays show
 * are named.
 *
 * If the recording begins in the middle, PyTorch's allocator has free memory
 * that is older, which an earlier peak may have needed. weir and expandable
 * segments do not have it. So they are compared with a replay of PyTorch's
 * allocator without it.
 */
#ifndef TOOLS_WEIR_ADVISE_ADVISE_FIND_H
#define TOOLS_WEIR_ADVISE_ADVISE_FIND_H

#include <jansson.h>

#include "snapshot/model.h"
#include "tools/weir/reading/snapshot_settings.h"

struct advise_request {
	const struct snapshot *snapshot;
	uint32_t device;  /* has a trace */
	const char *path; /* of the snapshot or trace; NULL: none can be read */
	uint64_t limit;   /* bytes for the allocator; UINT64_MAX: not known */
	unsigned seconds; /* after which no further setting is tried */
};

struct advice {
	/* The replays. */
	bool weir;                /* the recording's allocator; or PyTorch's */
	char conf[SETTINGS_LINE]; /* its settings */
	uint64_t held;            /* the peak in a replay with these */
	uint64_t recorded_held;   /* the peak in the recording; 0: unknown */
	uint64_t older_held;      /* of it, before the recording begins */
	bool empty;               /* the recording has no request to replay */
	bool unplayable;          /* weir's simulated device is not installed */
	uint64_t request;         /* bytes of the failed request, or 0 */
	uint64_t limit;           /* under which it failed, or UINT64_MAX */
	bool fails; /* requests fail in a replay with these and the limit */
	unsigned tried;
	unsigned skipped; /* settings, for lack of time */
	/* A list of {allocator, conf, setting, peak_held_bytes,
	 * compared_held_bytes, gain_bytes, serves, costs, text}, best first;
	 * `text` is the sentence and `setting` the line to copy. `serves` is
	 * null if no request has failed. */
	json_t *list;
	/* Where requests fail: for each line that was tried, whether a replay
	 * with it serves them. */
	json_t *serves;
};

/* Try all settings. False, and a complaint, on failure. The caller calls
 * advice_drop() in both cases. */
bool advise_find(const struct advise_request *request, struct advice *out);
void advice_drop(struct advice *advice);

/* Print the sentences and the lines to copy, or that nothing helps. `all` is
 * the command that tries all settings, should some be left. */
void advice_print(const struct advice *advice, const char *all);

/* All fields. */
json_t *advice_json(const struct advice *advice);

#endif
