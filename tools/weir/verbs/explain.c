/*
 * The record of how the requests of a playback were served.
 */
#include "tools/weir/verbs/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/weir/tool.h"
#include "trace/served.h"

/* A request that its stream's own memory did not serve at once. */
struct request {
	struct explain_call call;
	struct served served;
	unsigned waited_for; /* the trace's number of the other stream */
	uint32_t measured;   /* waits whose duration is known */
	uint64_t wait_ns;    /* sum of their durations */
};

/* Sums of the requests that were served in one way, or that failed. */
struct way {
	uint64_t requests;
	uint64_t bytes;
	uint64_t host_ns;
	uint64_t gpu_waits;
	uint64_t measured;
	uint64_t wait_ns;
	uint64_t host_waits;
	uint64_t moved;
	uint64_t grown_bytes;
};

enum { FAILED = SERVED_WAY_COUNT, WAYS };

struct explain {
	struct request *requests; /* tag 1 is the first */
	size_t count;
	size_t capacity;
	struct way own; /* requests that are not kept one by one */
};

/* The record that measured waits are added to. */
static struct explain *explained;

static void
count_measured_wait(uint64_t tag, uint64_t ns)
{
	if (explained == NULL || tag > explained->count)
		return;
	explained->requests[tag - 1].measured++;
	explained->requests[tag - 1].wait_ns += ns;
}

struct explain *
explain_new(void)
{
	explained = calloc(1, sizeof(*explained));
	if (explained != NULL)
		served_listen(count_measured_wait);
	return explained;
}

void
explain_free(struct explain *explain)
{
	if (explain == NULL)
		return;
	served_listen(NULL);
	served_here.tag = 0;
	explained = NULL;
	free(explain->requests);
	free(explain);
}

void
explain_begin(struct explain *explain)
{
	if (explain == NULL)
		return;
	served_begin();
	served_here.tag = explain->count + 1;
}

static void
add_request(struct way *way, const struct request *request)
{
	way->requests++;
	way->bytes += request->call.size;
	way->host_ns += request->call.host_ns;
	way->gpu_waits += request->served.waits;
	way->measured += request->measured;
	way->wait_ns += request->wait_ns;
	way->host_waits += request->served.host_waits;
	way->moved += request->served.moved;
	way->grown_bytes += request->served.grown_bytes;
}

bool
explain_end(struct explain *explain, const struct explain_call *call)
{
	struct request request = { .call = *call };

	if (explain == NULL)
		return true;
	request.served = served_here.served;
	served_here.tag = 0;
	if (request.served.by == SERVED_own && request.served.waits == 0 &&
	    !call->failed) {
		add_request(&explain->own, &request);
		return true;
	}
	if (request.served.waits > 0)
		request.waited_for =
		    call->number(call->closure, request.served.waited_for);
	if (explain->count == explain->capacity) {
		size_t capacity =
		    explain->capacity == 0 ? 256 : 2 * explain->capacity;
		struct request *requests =
		    realloc(explain->requests, capacity * sizeof(*requests));

		if (requests == NULL) {
			complain("out of memory");
			return false;
		}
		explain->requests = requests;
		explain->capacity = capacity;
	}
	explain->requests[explain->count++] = request;
	return true;
}

/* ---- Figures --------------------------------------------------------- */

static const char *
way_name(int way)
{
	return way == FAILED ? "out of memory" :
			       served_word((enum served_by)way);
}

static void
put_figure(json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

static json_t *
way_json(const char *name, const struct way *way)
{
	json_t *object = json_object();

	json_object_set_new(object, "way", json_string(name));
	put_figure(object, "requests", way->requests);
	put_figure(object, "size_bytes", way->bytes);
	put_figure(object, "host_us", way->host_ns / 1000);
	put_figure(object, "gpu_waits", way->gpu_waits);
	put_figure(object, "measured_waits", way->measured);
	put_figure(object, "measured_wait_us", way->wait_ns / 1000);
	put_figure(object, "host_waits", way->host_waits);
	put_figure(object, "moved_handles", way->moved);
	put_figure(object, "grown_bytes", way->grown_bytes);
	return object;
}

json_t *
explain_ways(const struct explain *explain)
{
	struct way ways[WAYS] = { [SERVED_own] = explain->own };
	json_t *array = json_array();

	for (size_t i = 0; i < explain->count; i++) {
		const struct request *request = &explain->requests[i];

		add_request(request->call.failed ? &ways[FAILED] :
						   &ways[request->served.by],
		    request);
	}
	for (int i = 0; i < WAYS; i++)
		if (ways[i].requests > 0)
			json_array_append_new(
			    array, way_json(way_name(i), &ways[i]));
	return array;
}

static uint64_t
cost(const struct request *request)
{
	return request->call.host_ns + request->wait_ns;
}

/* The costliest request is first; of two with equal costs, the earlier row. */
static int
compare_costs(const void *left, const void *right)
{
	const struct request *a = left;
	const struct request *b = right;

	if (cost(a) != cost(b))
		return cost(a) > cost(b) ? -1 : 1;
	return (a->call.row > b->call.row) - (a->call.row < b->call.row);
}

static json_t *
request_json(const struct request *request)
{
	json_t *object = json_object();
	char stream[24];
	char text[SERVED_TEXT];
	struct served_wait wait = { .stream = stream,
		.ns = request->wait_ns,
		.is_measured = request->measured > 0 };

	snprintf(stream, sizeof(stream), "%u", request->waited_for);
	put_figure(object, "row", request->call.row);
	put_figure(object, "size_bytes", request->call.size);
	put_figure(object, "stream", request->call.stream);
	put_figure(object, "host_us", request->call.host_ns / 1000);
	json_object_set_new(object, "measured_wait_us",
	    request->measured > 0 ?
		json_integer((json_int_t)(request->wait_ns / 1000)) :
		json_null());
	if (request->call.failed)
		served_tried(&request->served, text);
	else
		served_phrase(&request->served, &wait, text);
	json_object_set_new(object, "served_by",
	    json_sprintf("%s%s",
		request->call.failed ? "out of memory; tried: " : "", text));
	return object;
}

json_t *
explain_costliest(struct explain *explain, size_t n)
{
	json_t *array = json_array();

	/* Tags are indices of the requests, whose order changes here. */
	served_listen(NULL);
	if (explain->count > 0)
		qsort(explain->requests, explain->count,
		    sizeof(*explain->requests), compare_costs);
	for (size_t i = 0; i < explain->count && i < n; i++)
		json_array_append_new(
		    array, request_json(&explain->requests[i]));
	return array;
}
