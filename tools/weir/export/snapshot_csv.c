/*
 * A trace as rows that `weir replay` plays: the blocks that are older than the
 * trace first, then every event in its order.
 *
 * A file may lack events, because the ring of events was full or the recorder
 * omitted some. This file adds the missing rows: before an allocation at an
 * address that is still allocated, a free; before a free at an address that is
 * not allocated, an allocation.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/progress.h"
#include "tools/weir/reading/snapshot_form.h"
#include "tools/weir/reading/snapshot_lives.h"
#include "tools/weir/reading/snapshot_moment.h"
#include "tools/weir/reading/snapshot_out.h"
#include "tools/weir/reading/snapshot_settings.h"
#include "tools/weir/reading/snapshot_view.h"
#include "tools/weir/reading/trace_file.h"
#include "tools/weir/tool.h"

struct writer {
	const struct snapshot *snapshot;
	struct snapshot_trace trace;
	const struct lives *lives;
	uint32_t *life_of;                   /* the life of each event */
	uint64_t streams[TRACE_STREAMS_MAX]; /* handles, by their numbers */
	unsigned stream_count;
	uint32_t pool_of[TRACE_STREAMS_MAX]; /* of a stream's latest 'p' row */
	int64_t first_us;
	int64_t now_us;
	FILE *out;
};

/* Find the number of a stream, or give it the next one. False, and a complaint,
 * if there are too many streams. */
static bool
csv_stream_number(struct writer *writer, uint64_t stream, unsigned *number)
{
	for (*number = 0; *number < writer->stream_count; ++*number)
		if (writer->streams[*number] == stream)
			return true;
	if (*number == TRACE_STREAMS_MAX) {
		complain(
		    "the trace has more than %d streams", TRACE_STREAMS_MAX);
		return false;
	}
	writer->streams[writer->stream_count++] = stream;
	return true;
}

static bool
out_row(struct writer *writer, char action, const struct life *life)
{
	unsigned number;

	if (life->bytes == 0)
		return true;
	if (!csv_stream_number(writer, life->stream, &number))
		return false;
	fprintf(writer->out, "%c,%" PRIx64 ",%" PRIu64 ",%u,%" PRId64 "\n",
	    action, life->address, life->bytes, number,
	    writer->now_us - writer->first_us);
	return true;
}

/* Say which pool the life to begin is of, if it is another one than that of its
 * stream's life before. An older life's is not known. */
static bool
out_pool(struct writer *writer, const struct life *life)
{
	uint32_t pool = life->alloc == LIFE_NONE ?
	    0 :
	    writer->snapshot->events.pool[life->alloc];
	unsigned number;

	if (life->bytes == 0 || pool >= TRACE_POOLS_MAX)
		return true;
	if (!csv_stream_number(writer, life->stream, &number))
		return false;
	if (writer->pool_of[number] == pool)
		return true;
	writer->pool_of[number] = pool;
	fprintf(writer->out, "p,0,%" PRIu32 ",%u,%" PRId64 "\n", pool, number,
	    writer->now_us - writer->first_us);
	return true;
}

static bool
is_open(const struct life *life)
{
	return life->requested == LIFE_NONE && life->completed == LIFE_NONE;
}

/* Write the begin of a life. The life before at its address has ended, even if
 * the trace lacks its free. */
static bool
out_begin(struct writer *writer, const struct life *life)
{
	if (life->previous != LIFE_NONE) {
		const struct life *before =
		    &writer->lives->items[life->previous];

		if (is_open(before) && !out_row(writer, 'f', before))
			return false;
	}
	return out_pool(writer, life) && out_row(writer, 'a', life);
}

static bool
out_csv_event(struct writer *writer, uint32_t event)
{
	uint32_t id = writer->life_of[event - writer->trace.first];
	const struct life *life;

	if (id == LIFE_NONE)
		return true;
	life = &writer->lives->items[id];
	if (event == life->alloc)
		return out_begin(writer, life);
	/* A life that is older than the trace began before the first row,
	 * unless its address had another life before. */
	if (life->alloc == LIFE_NONE && life->previous != LIFE_NONE &&
	    (event == life->requested || life->requested == LIFE_NONE) &&
	    !out_begin(writer, life))
		return false;
	if (event == life->requested)
		return out_row(writer, 'f', life);
	if (life->requested == LIFE_NONE && !out_row(writer, 'f', life))
		return false;
	return out_row(writer, 'c', life);
}

static bool
out_csv_segment(struct writer *writer, uint32_t event)
{
	static const char letters[] = {
		[SNAPSHOT_SEGMENT_ALLOC] = 'S',
		[SNAPSHOT_SEGMENT_FREE] = 's',
		[SNAPSHOT_SEGMENT_MAP] = 'm',
		[SNAPSHOT_SEGMENT_UNMAP] = 'u',
	};
	const struct snapshot_events *events = &writer->snapshot->events;
	uint8_t action = events->action[event];
	unsigned number;

	if (action < SNAPSHOT_SEGMENT_ALLOC || action > SNAPSHOT_SEGMENT_UNMAP)
		return true;
	if (!csv_stream_number(writer, events->stream[event], &number))
		return false;
	fprintf(writer->out, "%c,%" PRIx64 ",%" PRIu64 ",%u,%" PRId64 "\n",
	    letters[action], events->address[event], events->bytes[event],
	    number, writer->now_us - writer->first_us);
	return true;
}

static void
map_lives(struct writer *writer)
{
	for (uint32_t i = 0; i < writer->trace.count; i++)
		writer->life_of[i] = LIFE_NONE;
	for (uint32_t i = 0; i < writer->lives->count; i++) {
		const struct life *life = &writer->lives->items[i];
		uint32_t first = writer->trace.first;

		if (life->alloc != LIFE_NONE)
			writer->life_of[life->alloc - first] = i;
		if (life->requested != LIFE_NONE)
			writer->life_of[life->requested - first] = i;
		if (life->completed != LIFE_NONE)
			writer->life_of[life->completed - first] = i;
	}
}

static bool
out_rows(struct writer *writer)
{
	const struct snapshot_events *events = &writer->snapshot->events;
	struct progress progress;
	bool good = true;

	for (uint32_t i = 0; i < writer->lives->count; i++) {
		const struct life *life = &writer->lives->items[i];

		if (life->alloc == LIFE_NONE && life->previous == LIFE_NONE &&
		    !out_row(writer, 'a', life))
			return false;
	}
	progress_begin_output(&progress, writer->out);
	for (uint32_t i = 0; good && i < writer->trace.count; i++) {
		uint32_t event = writer->trace.first + i;

		if (i % PROGRESS_STEPS == 0)
			progress_part(
			    &progress, "writing rows", i, writer->trace.count);
		if (events->time_us[event] > writer->now_us)
			writer->now_us = events->time_us[event];
		good = out_csv_segment(writer, event) &&
		    out_csv_event(writer, event);
	}
	progress_end(&progress);
	return good;
}

uint32_t
snapshot_traced_device(const struct snapshot *snapshot, uint32_t from)
{
	for (uint32_t d = from; d < snapshot->trace_count; d++)
		if (snapshot->traces[d].count > 0)
			return d;
	return UINT32_MAX;
}

bool
snapshot_out_csv(const struct snapshot *snapshot, uint32_t device,
    const char *name, FILE *out)
{
	struct lives lives;
	struct writer writer = {
		.snapshot = snapshot,
		.trace = snapshot->traces[device],
		.lives = &lives,
		.out = out,
	};
	int64_t last_us;
	bool good;

	if (!lives_find(snapshot, device, &lives))
		return false;
	writer.life_of =
	    calloc((size_t)writer.trace.count + 1, sizeof(*writer.life_of));
	if (writer.life_of == NULL) {
		complain("out of memory");
		lives_drop(&lives);
		return false;
	}
	map_lives(&writer);
	trace_times(snapshot, device, &writer.first_us, &last_us);
	writer.now_us = writer.first_us;
	fputs("# {\"name\": ", out);
	json_text(name, out);
	fprintf(out, ", \"peak_reserved\": %" PRIu64,
	    moment_held_peak(snapshot, device));
	if (settings_of_weir(snapshot))
		fprintf(out,
		    ", \"allocator\": \"weir\", \"gpu_wait_us\": %" PRIu64,
		    settings_gpu_wait_ns(snapshot, device) / 1000);
	fputs("}\naction,addr,size,stream,time_us\n", out);
	good = out_rows(&writer);
	free(writer.life_of);
	lives_drop(&lives);
	return good;
}

/* Choose the device whose trace is written: *device, or the first device with a
 * trace if that is -1. False, and `why` set, if there is no such trace. */
static bool
choose_device(const struct snapshot *snapshot, int *device, int *next,
    char why[SNAPSHOT_WHY])
{
	uint32_t from = *device < 0 ? 0 : (uint32_t)*device;
	uint32_t found = snapshot_traced_device(snapshot, from);
	uint32_t other;

	if (found == UINT32_MAX || (*device >= 0 && found != from)) {
		if (*device < 0)
			snprintf(
			    why, SNAPSHOT_WHY, "the snapshot has no trace");
		else
			snprintf(why, SNAPSHOT_WHY,
			    "the snapshot has no trace of device %d", *device);
		return false;
	}
	other = snapshot_traced_device(snapshot, found + 1);
	*device = (int)found;
	*next = other == UINT32_MAX ? -1 : (int)other;
	return true;
}

static bool
device_has_request(const struct snapshot *snapshot, uint32_t device)
{
	const struct snapshot_trace *trace = &snapshot->traces[device];
	const uint8_t *actions = snapshot->events.action + trace->first;

	return memchr(actions, SNAPSHOT_ALLOC, trace->count) != NULL;
}

bool
snapshot_csv_of(struct csv_request *request, struct source *source, char **text,
    size_t *length)
{
	struct snapshot *snapshot = NULL;
	FILE *out = NULL;
	bool good = false;

	if (snapshot_read(source, &snapshot) != WEIR_OK) {
		snprintf(request->why, SNAPSHOT_WHY, "%s", weir_last_error());
		return false;
	}
	*text = NULL;
	if (choose_device(
		snapshot, &request->device, &request->next, request->why)) {
		snprintf(
		    request->why, SNAPSHOT_WHY, "no trace can be made of it");
		request->lacks_requests =
		    !device_has_request(snapshot, (uint32_t)request->device);
		out = open_memstream(text, length);
	}
	if (out != NULL) {
		good = snapshot_out_csv(
		    snapshot, (uint32_t)request->device, request->name, out);
		good = fclose(out) == 0 && good;
		if (!good)
			free(*text);
	}
	snapshot_free(snapshot);
	return good;
}
