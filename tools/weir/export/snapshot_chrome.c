/*
 * Trace events of Chrome and Perfetto, in their JSON form. A device becomes a
 * process of the trace, and the life of a block becomes a slice.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "tools/weir/progress.h"
#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/reading/timeline.h"
#include "tools/weir/tuning.h"

struct writer {
	const struct snapshot *snapshot;
	const struct callers *callers;
	const struct timeline *timeline; /* NULL: none */
	uint32_t device;
	int64_t origin_ns; /* time of "ts" 0, since 1970 */
	int64_t first_us;  /* the first and the last time of the device */
	int64_t last_us;
	bool begun; /* the next event needs a comma before it */
	FILE *out;
	struct progress progress; /* of the device */
	uint64_t done;            /* events and lives that are written */
	uint64_t all;
};

/* Microseconds in nanoseconds. Times after the year 2096 are cut, so that sums
 * of times do not overflow. */
static int64_t
ns_of(int64_t time_us)
{
	const int64_t most_us = INT64_C(4000000000000000);

	if (time_us > most_us)
		time_us = most_us;
	return (time_us < -most_us ? -most_us : time_us) * 1000;
}

/* The process number of a device, which the timeline does not use. */
static int64_t
device_process(const struct writer *writer)
{
	return writer->device +
	    (writer->timeline != NULL ? writer->timeline->last_pid + 1 : 0);
}

static void
begin_trace_event(struct writer *writer, char phase, int64_t time_us)
{
	int64_t since = ns_of(time_us) - writer->origin_ns;
	int64_t part = since % 1000;

	if (since < 0 && writer->timeline == NULL)
		since = part = 0;
	fprintf(writer->out,
	    "%s{\"ph\": \"%c\", \"pid\": %" PRId64 ", \"tid\": 0, \"ts\": ",
	    writer->begun ? ",\n" : "\n", phase, device_process(writer));
	if (part == 0)
		fprintf(writer->out, "%" PRId64, since / 1000);
	else
		fprintf(writer->out, "%s%" PRId64 ".%03" PRId64,
		    since < 0 ? "-" : "",
		    since < 0 ? -(since / 1000) : since / 1000,
		    part < 0 ? -part : part);
	writer->begun = true;
}

static void
count_chrome_event(struct writer *writer)
{
	char what[32];

	if (++writer->done % PROGRESS_STEPS != 0)
		return;
	snprintf(what, sizeof(what), "writing device %" PRIu32, writer->device);
	progress_part(&writer->progress, what, writer->done, writer->all);
}

static void
out_counters(
    struct writer *writer, int64_t time_us, uint64_t live, uint64_t reserved)
{
	begin_trace_event(writer, 'C', time_us);
	fprintf(writer->out,
	    ", \"name\": \"memory\", \"args\": {\"allocated\": %" PRIu64
	    ", \"reserved\": %" PRIu64 "}}",
	    live, reserved);
}

/* Write a life as two events, which a number joins. */
static void
out_life(struct writer *writer, const struct life *life, uint32_t number)
{
	const struct snapshot *snapshot = writer->snapshot;
	const int64_t *times = snapshot->events.time_us;
	uint32_t end =
	    life->requested != LIFE_NONE ? life->requested : life->completed;
	char site[CALLERS_TEXT];
	char stream[VIEW_TEXT];

	callers_text(writer->callers, life->stack, site);
	begin_trace_event(writer, 'b',
	    life->alloc == LIFE_NONE ? writer->first_us : times[life->alloc]);
	fprintf(writer->out,
	    ", \"cat\": \"block\", \"id\": \"weir-%" PRIu32 "\", \"name\": ",
	    number);
	json_text(site, writer->out);
	fprintf(writer->out,
	    ", \"args\": {\"bytes\": %" PRIu64 ", \"address\": \"%" PRIx64
	    "\", \"stream\": \"%s\"}}",
	    life->bytes, life->address, stream_text(life->stream, stream));
	begin_trace_event(
	    writer, 'e', end == LIFE_NONE ? writer->last_us : times[end]);
	fprintf(writer->out,
	    ", \"cat\": \"block\", \"id\": \"weir-%" PRIu32 "\", \"name\": ",
	    number);
	json_text(site, writer->out);
	fputs("}", writer->out);
}

/* The bytes that an event adds to the reserved bytes, modulo 2^64. */
static uint64_t
segment_step(const struct snapshot_events *events, uint32_t i)
{
	switch (events->action[i]) {
	case SNAPSHOT_SEGMENT_ALLOC:
	case SNAPSHOT_SEGMENT_MAP:
		return events->bytes[i];
	case SNAPSHOT_SEGMENT_FREE:
	case SNAPSHOT_SEGMENT_UNMAP:
		return -events->bytes[i];
	default:
		return 0;
	}
}

/* Write the curves of a device. The live bytes begin with `live`, the bytes of
 * the blocks that are older than the trace. The reserved bytes begin so that
 * they end at those of the snapshot. */
static void
out_curves(struct writer *writer, uint64_t live)
{
	const struct snapshot *snapshot = writer->snapshot;
	const struct snapshot_events *events = &snapshot->events;
	struct snapshot_trace trace = snapshot->traces[writer->device];
	uint64_t reserved = sums_of(snapshot, (int)writer->device).reserved;

	for (uint32_t i = 0; i < trace.count; i++)
		reserved -= segment_step(events, trace.first + i);
	out_counters(writer, writer->first_us, live, reserved);
	for (uint32_t i = 0; i < trace.count; i++) {
		uint32_t event = trace.first + i;
		uint8_t action = events->action[event];
		uint64_t step = segment_step(events, event);

		count_chrome_event(writer);
		reserved += step;
		if (action == SNAPSHOT_ALLOC)
			live += events->bytes[event];
		if (action == SNAPSHOT_FREE_REQUESTED)
			live -= live < events->bytes[event] ?
			    live :
			    events->bytes[event];
		if (action == SNAPSHOT_ALLOC ||
		    action == SNAPSHOT_FREE_REQUESTED || step != 0)
			out_counters(
			    writer, events->time_us[event], live, reserved);
		if (action != SNAPSHOT_OOM)
			continue;
		begin_trace_event(writer, 'i', events->time_us[event]);
		fprintf(writer->out,
		    ", \"s\": \"p\", \"name\": \"out of memory: %" PRIu64
		    " bytes\"}",
		    events->bytes[event]);
	}
}

static void
out_chrome_annotations(struct writer *writer)
{
	const struct snapshot *snapshot = writer->snapshot;

	for (uint32_t i = 0; i < snapshot->annotation_count; i++) {
		const struct snapshot_annotation *annotation =
		    &snapshot->annotations[i];
		const char *stage = snapshot_text(snapshot, annotation->stage);

		if (annotation->device != writer->device)
			continue;
		begin_trace_event(
		    writer, stage[0] == 'S' ? 'B' : 'E', annotation->time_us);
		fputs(", \"name\": ", writer->out);
		json_text(
		    snapshot_text(snapshot, annotation->name), writer->out);
		fputs("}", writer->out);
	}
}

static bool
out_device(struct writer *writer, uint32_t *number)
{
	struct lives lives;
	uint64_t before = 0;

	if (!lives_find(writer->snapshot, writer->device, &lives))
		return false;
	trace_times(writer->snapshot, writer->device, &writer->first_us,
	    &writer->last_us);
	begin_trace_event(writer, 'M', writer->first_us);
	fprintf(writer->out,
	    ", \"name\": \"process_name\", \"args\": {\"name\": \"%sdevice "
	    "%" PRIu32 "\"}}",
	    writer->timeline != NULL ? "memory of " : "", writer->device);
	for (uint32_t i = 0; i < lives.count; i++)
		if (lives.items[i].alloc == LIFE_NONE)
			before += lives.items[i].bytes;
	writer->done = 0;
	writer->all = (uint64_t)lives.count +
	    writer->snapshot->traces[writer->device].count;
	progress_begin_output(&writer->progress, writer->out);
	out_curves(writer, before);
	for (uint32_t i = 0; i < lives.count; i++) {
		out_life(writer, &lives.items[i], (*number)++);
		count_chrome_event(writer);
	}
	progress_end(&writer->progress);
	out_chrome_annotations(writer);
	lives_drop(&lives);
	return true;
}

/* Find the first and the last time of all devices. */
static void
find_times(const struct snapshot *snapshot, int64_t *first_us, int64_t *last_us)
{
	bool any = false;

	*first_us = 0;
	*last_us = 0;
	for (uint32_t d = 0; d < snapshot->trace_count; d++) {
		int64_t first;
		int64_t last;

		if (snapshot->traces[d].count == 0)
			continue;
		trace_times(snapshot, d, &first, &last);
		if (!any || first < *first_us)
			*first_us = first;
		if (!any || last > *last_us)
			*last_us = last;
		any = true;
	}
}

static void
date_text(int64_t time_us, char text[32])
{
	time_t seconds = (time_t)(ns_of(time_us) / 1000000000);
	struct tm when;

	gmtime_r(&seconds, &when);
	strftime(text, 32, "%Y-%m-%d %H:%M:%S", &when);
}

/* True if the snapshot and the timeline have a moment in common; otherwise a
 * complaint. */
static bool
is_of_one_time(
    const struct timeline *timeline, int64_t first_us, int64_t last_us)
{
	int64_t base_us = timeline->base_ns / 1000;
	int64_t from_us = base_us + (int64_t)timeline->first_us;
	int64_t to_us = base_us + (int64_t)timeline->last_us + 1;
	char texts[4][32];

	if (from_us <= last_us && first_us <= to_us)
		return true;
	date_text(first_us, texts[0]);
	date_text(last_us, texts[1]);
	date_text(from_us, texts[2]);
	date_text(to_us, texts[3]);
	complain("the snapshot and the trace are of different times: %s to %s, "
		 "and %s to %s (UTC)",
	    texts[0], texts[1], texts[2], texts[3]);
	return false;
}

/* Write a part of a profiler's trace, which may be long. */
static void
out_text(const char *text, size_t length, FILE *out)
{
	struct progress progress;

	progress_begin_output(&progress, out);
	for (size_t done = 0; done < length; done += CHROME_PIECE) {
		size_t rest = length - done;

		progress_part(&progress, "writing the trace", done, length);
		fwrite(text + done, 1,
		    rest < CHROME_PIECE ? rest : CHROME_PIECE, out);
	}
	progress_end(&progress);
}

bool
snapshot_out_chrome(
    const struct snapshot *snapshot, const struct timeline *timeline, FILE *out)
{
	struct callers *callers = callers_new(snapshot);
	struct writer writer = { .snapshot = snapshot,
		.callers = callers,
		.timeline = timeline,
		.out = out };
	uint32_t number = 0;
	int64_t first_us;
	int64_t last_us;
	bool good = callers != NULL;

	find_times(snapshot, &first_us, &last_us);
	writer.origin_ns =
	    timeline != NULL ? timeline->base_ns : ns_of(first_us);
	if (timeline != NULL) {
		if (!good || !is_of_one_time(timeline, first_us, last_us)) {
			callers_free(callers);
			return false;
		}
		out_text(timeline->text, timeline->events_at, out);
	} else {
		fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", out);
	}
	for (uint32_t d = 0; d < snapshot->trace_count && good; d++) {
		writer.device = d;
		good = out_device(&writer, &number);
	}
	callers_free(callers);
	if (timeline == NULL) {
		fputs("]}\n", out);
		return good;
	}
	if (writer.begun && !timeline->is_empty)
		putc(',', out);
	out_text(timeline->text + timeline->events_at,
	    timeline->length - timeline->events_at, out);
	return good;
}
