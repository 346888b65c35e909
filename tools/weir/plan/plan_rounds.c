/*
 * Lists a trace's large requests, and finds their rounds.
 */
#include "tools/weir/plan/plan_rounds.h"

#include <stdlib.h>
#include <string.h>

#include "snapshot/plan_file.h"
#include "tools/weir/plan/tuning.h"
#include "tools/weir/tool.h"

/* ---- Streams ----------------------------------------------------------- */

bool
plan_names_begin(struct plan_names *names, const struct trace *trace)
{
	size_t bytes = (trace->stream_count + 1) * sizeof(*names->number);

	names->count = 0;
	names->number = malloc(bytes);
	if (names->number == NULL)
		return false;
	memset(names->number, 0xff, bytes);
	return true;
}

void
plan_names_drop(struct plan_names *names)
{
	free(names->number);
	names->number = NULL;
}

static uint32_t
name_of(struct plan_names *names, uint64_t stream)
{
	if (names->number[stream] == PLAN_NO_REQUEST)
		names->number[stream] = names->count++;
	return names->number[stream];
}

struct plan_row_streams
plan_names_pass(struct plan_names *names, const struct trace_row *row)
{
	struct plan_row_streams streams = { .own =
						name_of(names, row->stream) };

	if (row->action == 'w')
		streams.other = name_of(names, row->size);
	if (row->action == 'e')
		names->number[row->stream] = PLAN_NO_REQUEST;
	return streams;
}

/* ---- Requests ---------------------------------------------------------- */

static bool
is_large(const struct trace *trace, const struct trace_row *row)
{
	return row->action == 'a' && row->size > PLANNED_ABOVE &&
	    !trace->blocks[row->block].pinned;
}

static void
add_request(
    struct plan_requests *out, const struct trace_row *row, uint32_t stream)
{
	uint64_t size =
	    (row->size + PLAN_GRANULE - 1) / PLAN_GRANULE * PLAN_GRANULE;

	out->of_block[row->block] = out->count;
	out->list[out->count++] =
	    (struct plan_request){ .size = size, .stream = stream };
}

/* Those of private pools get no places (allocator/request/plan.h). `pools` has
 * a zero for each stream. */
static void
list_requests(const struct trace *trace, struct plan_names *names,
    uint64_t *pools, struct plan_requests *out)
{
	for (size_t i = 0; i < trace->row_count; i++) {
		const struct trace_row *row = &trace->rows[i];
		uint32_t stream;

		if (row->action == 'p')
			pools[row->stream] = row->size;
		if (!plan_names_concern(row))
			continue;
		stream = plan_names_pass(names, row).own;
		if (is_large(trace, row) && pools[row->stream] == 0)
			add_request(out, row, stream);
		if (row->action == 'e')
			pools[row->stream] = 0;
	}
	out->streams = names->count;
}

/* ---- Rounds ------------------------------------------------------------ */

/* No request after `count` is one of the rounds. */
static void
end_rounds(const struct trace *trace, struct plan_requests *requests)
{
	for (size_t i = 0; i < trace->block_count; i++)
		if (requests->of_block[i] != PLAN_NO_REQUEST &&
		    requests->of_block[i] >= requests->count)
			requests->of_block[i] = PLAN_NO_REQUEST;
}

static bool
find_rounds(const struct trace *trace, struct plan_requests *requests)
{
	struct plan_run run;

	requests->total = requests->count;
	if (!plan_longest_run(
		requests->list, requests->total, PLAN_ENTRIES, &run))
		return false;
	requests->length = run.period;
	requests->unit = run.period;
	requests->round = run.first;
	if (run.length > 0)
		requests->count = run.first + run.length;
	end_rounds(trace, requests);
	return true;
}

bool
plan_requests_make(const struct trace *trace, struct plan_requests *out)
{
	size_t blocks = trace->block_count + 1;
	uint64_t *pools = calloc(trace->stream_count + 1, sizeof(*pools));
	struct plan_names names = { 0 };
	bool made;

	*out = (struct plan_requests){
		.list = malloc(blocks * sizeof(*out->list)),
		.of_block = malloc(blocks * sizeof(*out->of_block)),
	};
	made = out->list != NULL && out->of_block != NULL && pools != NULL &&
	    plan_names_begin(&names, trace);
	if (made) {
		memset(out->of_block, 0xff, blocks * sizeof(*out->of_block));
		list_requests(trace, &names, pools, out);
		made = find_rounds(trace, out);
	}
	plan_names_drop(&names);
	free(pools);
	if (made)
		return true;
	plan_requests_drop(out);
	complain("out of memory");
	return false;
}

void
plan_requests_drop(struct plan_requests *requests)
{
	free(requests->list);
	free(requests->of_block);
	*requests = (struct plan_requests){ 0 };
}
