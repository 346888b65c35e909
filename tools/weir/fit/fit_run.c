#include "tools/weir/fit/fit_run.h"

#include <stdlib.h>
#include <string.h>

#include "tools/weir/fit/fit_sites.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/tool.h"

enum { NUMBERED = 256 }; /* streams or pools; the rest share a number */

/* Numbers for handles, in the order of their first use. */
struct numbering {
	uint64_t handle[NUMBERED];
	uint16_t count;
};

struct lister {
	struct fit_run *run;
	struct recording recording;
	const uint64_t *keys; /* of stacks */
	uint32_t *alloc_of;   /* by block of the recording */
	struct numbering streams;
	struct numbering pools;
	uint32_t frees;
};

static uint16_t
number_of(struct numbering *numbering, uint64_t handle)
{
	uint16_t i = 0;

	while (i < numbering->count && numbering->handle[i] != handle)
		i++;
	if (i == numbering->count && numbering->count < NUMBERED)
		numbering->handle[numbering->count++] = handle;
	return i;
}

static uint64_t
mix(uint64_t hash, uint64_t with)
{
	hash = (hash ^ with) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static void
list_alloc(struct lister *lister, uint32_t id, int64_t time_us, bool older)
{
	const struct recording_block *block = &lister->recording.blocks[id];
	struct fit_run *run = lister->run;
	struct fit_alloc *alloc = &run->allocs[run->count];

	*alloc = (struct fit_alloc){
		.bytes = block->bytes,
		.time_us = time_us,
		.end = FIT_NEVER,
		.done = FIT_NEVER,
		.stack = block->stack,
		.stream = number_of(&lister->streams, block->stream),
		.pool = number_of(&lister->pools, block->pool),
		.older = older,
	};
	alloc->key =
	    mix(mix(lister->keys[block->stack], alloc->stream), alloc->pool);
	alloc->vague = fit_site_vague(run->snapshot, block->stack);
	lister->alloc_of[id] = run->count++;
}

/* Older blocks have no order; sort them by site and size. */
static int
compare_older(const void *a, const void *b)
{
	const struct fit_alloc *first = a;
	const struct fit_alloc *second = b;

	if (first->key != second->key)
		return first->key < second->key ? -1 : 1;
	if (first->bytes != second->bytes)
		return first->bytes < second->bytes ? -1 : 1;
	return first->order < second->order ? -1 : 1;
}

static bool
list_older(struct lister *lister)
{
	struct fit_run *run = lister->run;
	uint32_t count = lister->recording.older_count;
	uint32_t *from = calloc((size_t)count + 1, sizeof(*from));

	if (from == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		list_alloc(lister, i, 0, true);
		run->allocs[i].order = i;
	}
	qsort(run->allocs, count, sizeof(*run->allocs), compare_older);
	for (uint32_t i = 0; i < count; i++)
		from[run->allocs[i].order] = i;
	memcpy(lister->alloc_of, from, count * sizeof(*from));
	for (uint32_t i = 0; i < count; i++)
		run->allocs[i].order = UINT32_MAX;
	free(from);
	return true;
}

static void
list_row(struct lister *lister, const struct recording_row *row, bool *emptying)
{
	struct fit_run *run = lister->run;
	bool empties = row->action == 's' ||
	    (row->action == 'u' &&
		lister->recording.segments[row->index].expandable);
	struct fit_alloc *alloc;

	if (empties && !*emptying)
		run->emptied[run->emptied_count++] = run->count;
	*emptying = empties;
	if (row->action == 'a') {
		list_alloc(lister, row->index, row->time_us, false);
		return;
	}
	if (row->action != 'f' && row->action != 'c')
		return;
	alloc = &run->allocs[lister->alloc_of[row->index]];
	if (row->action == 'f') {
		alloc->end = run->count;
		alloc->order = lister->frees++;
	} else {
		alloc->done = run->count;
	}
}

/* A trace in CSV without segments has a mapping for each block, which is not
 * PyTorch's. */
static void
drop_false_emptying(struct fit_run *run)
{
	if (run->emptied_count > run->count / 8)
		run->emptied_count = 0;
}

static bool
list_rows(struct lister *lister)
{
	const struct recording *recording = &lister->recording;
	struct fit_run *run = lister->run;
	bool emptying = false;

	lister->alloc_of = calloc(
	    (size_t)recording->block_count + 1, sizeof(*lister->alloc_of));
	run->allocs =
	    calloc((size_t)recording->block_count + 1, sizeof(*run->allocs));
	run->emptied =
	    calloc((size_t)recording->row_count + 1, sizeof(*run->emptied));
	if (lister->alloc_of == NULL || run->allocs == NULL ||
	    run->emptied == NULL || !list_older(lister))
		return false;
	for (uint32_t i = 0; i < recording->row_count; i++)
		list_row(lister, &recording->rows[i], &emptying);
	drop_false_emptying(run);
	return true;
}

/* True if the history has a request, without which nothing can be forecast. */
static bool
has_request(const struct fit_run *run)
{
	const struct snapshot_trace *trace =
	    &run->snapshot->traces[run->device];
	const uint8_t *actions = run->snapshot->events.action + trace->first;

	return memchr(actions, SNAPSHOT_ALLOC, trace->count) != NULL;
}

bool
fit_run_load(const char *path, struct fit_run *out)
{
	*out = (struct fit_run){ .path = path };
	out->snapshot = snapshot_or_trace_load(path);
	if (out->snapshot == NULL)
		return false;
	out->device = snapshot_traced_device(out->snapshot, 0);
	if (out->device == UINT32_MAX) {
		complain("%s has no trace", path);
		fit_run_drop(out);
		return false;
	}
	if (!has_request(out)) {
		complain("the history of %s has no request", path);
		fit_run_drop(out);
		return false;
	}
	return true;
}

bool
fit_run_list(struct fit_run *run, const uint64_t *keys)
{
	struct lister lister = { .run = run, .keys = keys };
	bool good;

	if (!recording_make(run->snapshot, run->device, &lister.recording))
		return false;
	good = list_rows(&lister);
	recording_drop(&lister.recording);
	free(lister.alloc_of);
	return good;
}

void
fit_run_drop(struct fit_run *run)
{
	free(run->allocs);
	free(run->emptied);
	snapshot_free(run->snapshot);
	*run = (struct fit_run){ 0 };
}
