/*
 * Finds a trace's rounds by the border array of its requests, read backwards:
 * the prefix function of Knuth, Morris and Pratt gives the shortest period of
 * each end of the trace.
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

static bool
is_same_request(const struct plan_request *a, const struct plan_request *b)
{
	return a->size == b->size && a->stream == b->stream;
}

/* The i-th request from the end. */
static const struct plan_request *
from_end(const struct plan_requests *requests, uint32_t i)
{
	return &requests->list[requests->count - 1 - i];
}

/* Find the longest end of the trace that has a period so short that it has
 * PLANNED_ROUNDS of them. border[i]: of the last i + 1 requests, how many from
 * their begin equal as many at their end. */
static void
find_longest_end(struct plan_requests *requests, uint32_t *border)
{
	uint32_t longest = 0;

	border[0] = 0;
	for (uint32_t i = 1; i < requests->count; i++) {
		uint32_t k = border[i - 1];

		while (k > 0 &&
		    !is_same_request(
			from_end(requests, i), from_end(requests, k)))
			k = border[k - 1];
		if (is_same_request(
			from_end(requests, i), from_end(requests, k)))
			k++;
		border[i] = k;
		uint32_t period = i + 1 - k;
		if (k > 0 && (i + 1) / period >= PLANNED_ROUNDS) {
			longest = i + 1;
			requests->length = period;
		}
	}
	requests->round = requests->count - longest;
	requests->unit = requests->length;
}

static bool
find_rounds(struct plan_requests *requests)
{
	uint32_t *border = malloc((requests->count + 1) * sizeof(*border));

	if (border == NULL)
		return false;
	if (requests->count > 0)
		find_longest_end(requests, border);
	free(border);
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
		made = find_rounds(out);
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
