/*
 * The trace events of Chrome and Perfetto, in their JSON form. Each device is
 * a process there, each life of a block a slice of its own.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "tools/weir/snapshot_lives.h"
#include "tools/weir/snapshot_out.h"
#include "tools/weir/snapshot_view.h"

struct writer {
	const struct snapshot *snapshot;
	uint32_t device;
	int64_t first_us;
	int64_t last_us;
	bool begun; /* something was written: a comma comes first */
	FILE *out;
};

static void
begin(struct writer *writer, char phase, int64_t time_us)
{
	int64_t since =
	    time_us < writer->first_us ? 0 : time_us - writer->first_us;

	fprintf(writer->out,
	    "%s{\"ph\": \"%c\", \"pid\": %" PRIu32 ", \"tid\": 0, "
	    "\"ts\": %" PRId64,
	    writer->begun ? ",\n" : "\n", phase, writer->device, since);
	writer->begun = true;
}

static void
out_counters(
    struct writer *writer, int64_t time_us, uint64_t live, uint64_t reserved)
{
	begin(writer, 'C', time_us);
	fprintf(writer->out,
	    ", \"name\": \"memory\", \"args\": {\"allocated\": %" PRIu64
	    ", \"reserved\": %" PRIu64 "}}",
	    live, reserved);
}

/* A life as two events that its number joins. */
static void
out_life(struct writer *writer, const struct life *life, uint32_t number)
{
	const struct snapshot *snapshot = writer->snapshot;
	const int64_t *times = snapshot->events.time_us;
	uint32_t end =
	    life->requested != LIFE_NONE ? life->requested : life->completed;
	char site[VIEW_TEXT];

	site_text(snapshot, life->stack, site);
	begin(writer, 'b',
	    life->alloc == LIFE_NONE ? writer->first_us : times[life->alloc]);
	fprintf(writer->out,
	    ", \"cat\": \"block\", \"id\": %" PRIu32 ", \"name\": ", number);
	json_text(site, writer->out);
	fprintf(writer->out,
	    ", \"args\": {\"bytes\": %" PRIu64 ", \"address\": \"%" PRIx64
	    "\", \"stream\": \"%" PRIx64 "\"}}",
	    life->bytes, life->address, life->stream);
	begin(writer, 'e', end == LIFE_NONE ? writer->last_us : times[end]);
	fprintf(writer->out,
	    ", \"cat\": \"block\", \"id\": %" PRIu32 ", \"name\": ", number);
	json_text(site, writer->out);
	fputs("}", writer->out);
}

/* What segments come to changes by this much, modulo 2^64. */
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

/* The curves: of live bytes forwards from what was there before, of reserved
 * bytes such that they end at what there is. */
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
		begin(writer, 'i', events->time_us[event]);
		fprintf(writer->out,
		    ", \"s\": \"p\", \"name\": \"out of memory: %" PRIu64
		    " bytes\"}",
		    events->bytes[event]);
	}
}

static void
out_annotations(struct writer *writer)
{
	const struct snapshot *snapshot = writer->snapshot;

	for (uint32_t i = 0; i < snapshot->annotation_count; i++) {
		const struct snapshot_annotation *annotation =
		    &snapshot->annotations[i];
		const char *stage = snapshot_text(snapshot, annotation->stage);

		if (annotation->device != writer->device)
			continue;
		begin(writer, stage[0] == 'S' ? 'B' : 'E', annotation->time_us);
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
	begin(writer, 'M', writer->first_us);
	fprintf(writer->out,
	    ", \"name\": \"process_name\", \"args\": {\"name\": \"device "
	    "%" PRIu32 "\"}}",
	    writer->device);
	for (uint32_t i = 0; i < lives.count; i++)
		if (lives.items[i].alloc == LIFE_NONE)
			before += lives.items[i].bytes;
	out_curves(writer, before);
	for (uint32_t i = 0; i < lives.count; i++)
		out_life(writer, &lives.items[i], (*number)++);
	out_annotations(writer);
	lives_drop(&lives);
	return true;
}

bool
snapshot_out_chrome(const struct snapshot *snapshot, FILE *out)
{
	struct writer writer = { .snapshot = snapshot, .out = out };
	uint32_t number = 0;
	bool good = true;

	fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", out);
	for (uint32_t d = 0; d < snapshot->trace_count && good; d++) {
		writer.device = d;
		good = out_device(&writer, &number);
	}
	fputs("]}\n", out);
	return good;
}
