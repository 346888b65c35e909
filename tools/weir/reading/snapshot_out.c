/*
 * JSON of PyTorch's form, and folded stacks. Both are written while the
 * snapshot is walked, so that a large result is never in memory as a whole.
 */
#include "tools/weir/reading/snapshot_out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/progress.h"
#include "tools/weir/reading/snapshot_view.h"

void
json_text(const char *text, FILE *out)
{
	putc('"', out);
	json_escaped(text, strlen(text), out);
	putc('"', out);
}

/* ---- JSON ------------------------------------------------------------ */

/* Addresses and streams are written with a sign, as PyTorch does, so that
 * readers with signed 64-bit numbers can read all of them. */

/* The file, and the number of blocks and events that are written. */
struct writing {
	FILE *out;
	uint64_t done;
	uint64_t all;
	struct progress progress;
};

static void
begin_writing(struct writing *writing, FILE *out, uint64_t all)
{
	*writing = (struct writing){ .out = out, .all = all };
	progress_begin_output(&writing->progress, out);
}

static void
count_json_row(struct writing *writing)
{
	if (++writing->done % PROGRESS_STEPS == 0)
		progress_part(
		    &writing->progress, "writing", writing->done, writing->all);
}

static void
out_key(const char *key, const char *text, FILE *out)
{
	fprintf(out, ", \"%s\": ", key);
	json_text(text, out);
}

static void
out_frames(const struct snapshot *snapshot, uint32_t stack, FILE *out)
{
	const struct snapshot_stack *frames = &snapshot->stacks[stack];

	fputs("\"frames\": [", out);
	for (uint32_t i = 0; i < frames->count; i++) {
		const struct snapshot_frame *frame =
		    &snapshot
			 ->frames[snapshot->stack_frames[frames->first + i]];

		fputs(i == 0 ? "{\"name\": " : ", {\"name\": ", out);
		json_text(snapshot_text(snapshot, frame->name), out);
		out_key("filename", snapshot_text(snapshot, frame->file), out);
		fprintf(out, ", \"line\": %" PRIu64,
		    frame->line == UINT32_MAX ? UINT64_MAX : frame->line);
		if (frame->build_id != 0) {
			out_key("module",
			    snapshot_text(snapshot, frame->module), out);
			out_key("build_id",
			    snapshot_text(snapshot, frame->build_id), out);
			fprintf(out, ", \"offset\": %" PRIu64, frame->offset);
		}
		putc('}', out);
	}
	putc(']', out);
}

static void
out_pool(const struct snapshot *snapshot, uint32_t pool, FILE *out)
{
	fprintf(out, "[%" PRId64 ", %" PRId64 "]", snapshot->pools[pool].first,
	    snapshot->pools[pool].second);
}

static void
out_block(const struct snapshot *snapshot, const struct snapshot_block *block,
    FILE *out)
{
	fprintf(out,
	    "{\"address\": %" PRId64 ", \"size\": %" PRIu64
	    ", \"requested_size\": %" PRIu64 ", \"state\": \"%s\", ",
	    (int64_t)block->address, block->bytes, block->requested_bytes,
	    snapshot_state_name(block->state));
	if (block->reports_stream)
		fprintf(
		    out, "\"stream\": %" PRId64 ", ", (int64_t)block->stream);
	if (block->cached || block->kept_apart)
		fprintf(
		    out, "\"cached\": %s, ", block->cached ? "true" : "false");
	if (!block->kept_apart &&
	    (block->cached || block->heap != 0 || block->epoch != 0))
		fprintf(out, "\"heap\": %" PRIu64 ", \"epoch\": %" PRIu64 ", ",
		    block->heap, block->epoch);
	out_frames(snapshot, block->stack, out);
	putc('}', out);
}

static void
out_segment(const struct snapshot_part *part,
    const struct snapshot_segment *segment, struct writing *writing)
{
	const struct snapshot *snapshot = part->snapshot;
	struct sums sums = { 0 };
	FILE *out = writing->out;

	sums_add(&sums, snapshot, segment);
	fprintf(out,
	    "{\"device\": %" PRIu32 ", \"address\": %" PRId64
	    ", \"total_size\": %" PRIu64 ", \"allocated_size\": %" PRIu64
	    ", \"active_size\": %" PRIu64 ", \"requested_size\": %" PRIu64
	    ", \"stream\": %" PRId64
	    ", \"segment_type\": \"%s\", \"is_expandable\": %s, "
	    "\"segment_pool_id\": ",
	    part->device + segment->device, (int64_t)segment->address,
	    segment->bytes, sums.allocated, sums.allocated + sums.pending,
	    sums.requested, (int64_t)segment->stream,
	    segment->small ? "small" : "large",
	    segment->expandable ? "true" : "false");
	out_pool(snapshot, segment->pool, out);
	fputs(", ", out);
	out_frames(snapshot, segment->stack, out);
	fputs(", \"blocks\": [", out);
	for (uint32_t i = 0; i < segment->block_count; i++) {
		if (i > 0)
			fputs(", ", out);
		out_block(
		    snapshot, &snapshot->blocks[segment->first_block + i], out);
		count_json_row(writing);
	}
	fputs("]}", out);
}

static void
out_event(const struct snapshot *snapshot, uint32_t i, FILE *out)
{
	const struct snapshot_events *events = &snapshot->events;
	bool oom = events->action[i] == SNAPSHOT_OOM;

	fputs("{\"action\": ", out);
	json_text(snapshot_action_name(snapshot, events->action[i]), out);
	fprintf(out,
	    ", \"%s\": %" PRId64 ", \"size\": %" PRIu64
	    ", \"stream\": %" PRId64,
	    oom ? "device_free" : "addr", (int64_t)events->address[i],
	    events->bytes[i], (int64_t)events->stream[i]);
	if (events->time_us[i] != 0)
		fprintf(out, ", \"time_us\": %" PRId64, events->time_us[i]);
	if (events->pool[i] != 0) {
		fputs(", \"pool_id\": ", out);
		out_pool(snapshot, events->pool[i], out);
	}
	if (events->context[i] != 0)
		out_key("compile_context",
		    snapshot_text(snapshot, events->context[i]), out);
	if (events->metadata[i] != 0)
		out_key("user_metadata",
		    snapshot_text(snapshot, events->metadata[i]), out);
	if (events->served_by[i] != 0)
		out_key("served_by",
		    snapshot_text(snapshot, events->served_by[i]), out);
	if (events->stack[i] != 0) {
		fputs(", ", out);
		out_frames(snapshot, events->stack[i], out);
	}
	putc('}', out);
}

static void
out_trace(
    const struct snapshot *snapshot, uint32_t device, struct writing *writing)
{
	struct snapshot_trace trace = { 0 };
	FILE *out = writing->out;

	if (device < snapshot->trace_count)
		trace = snapshot->traces[device];
	putc('[', out);
	for (uint32_t i = 0; i < trace.count; i++) {
		fputs(i == 0 ? "\n    " : ",\n    ", out);
		out_event(snapshot, trace.first + i, out);
		count_json_row(writing);
	}
	putc(']', out);
}

/* Write a value that Python printed. Numbers, True, False and None are written
 * without quotes. */
static void
out_setting(const char *value, FILE *out)
{
	char *end;

	if (strcmp(value, "True") == 0)
		fputs("true", out);
	else if (strcmp(value, "False") == 0)
		fputs("false", out);
	else if (strcmp(value, "None") == 0)
		fputs("null", out);
	else if (strtoll(value, &end, 10),
	    end != value && *end == '\0' &&
		(value[0] == '-' || (value[0] >= '0' && value[0] <= '9')) &&
		strlen(value) < 19 && (value[0] != '0' || value[1] == '\0') &&
		(value[0] != '-' || (value[1] != '0')))
		fputs(value, out);
	else
		json_text(value, out);
}

static void
out_settings(const struct snapshot *snapshot, FILE *out)
{
	static const char below[] = "allocator_settings.";
	bool first = true;

	fputs("\"allocator_settings\": {", out);
	for (uint32_t i = 0; i < snapshot->setting_count; i++) {
		const struct snapshot_setting *setting = &snapshot->settings[i];
		const char *name = snapshot_text(snapshot, setting->name);

		if (strncmp(name, below, sizeof(below) - 1) != 0)
			continue;
		if (!first)
			fputs(", ", out);
		first = false;
		json_text(name + sizeof(below) - 1, out);
		fputs(": ", out);
		out_setting(snapshot_text(snapshot, setting->value), out);
	}
	fputs("}", out);
}

static void
out_annotations(const struct snapshot_part *part, bool *first, FILE *out)
{
	const struct snapshot *snapshot = part->snapshot;

	for (uint32_t i = 0; i < snapshot->annotation_count; i++) {
		const struct snapshot_annotation *annotation =
		    &snapshot->annotations[i];

		fputs(*first ? "\n    {\"name\": " : ",\n    {\"name\": ", out);
		*first = false;
		json_text(snapshot_text(snapshot, annotation->name), out);
		out_key(
		    "stage", snapshot_text(snapshot, annotation->stage), out);
		fprintf(out,
		    ", \"device\": %" PRIu32 ", \"time_us\": %" PRId64 "}",
		    part->device + annotation->device, annotation->time_us);
	}
}

/* Write the segments of a part. *first is true until one segment has been
 * written. */
static void
out_segments(
    const struct snapshot_part *part, bool *first, struct writing *writing)
{
	for (uint32_t i = 0; i < part->snapshot->segment_count; i++) {
		fputs(*first ? "\n    " : ",\n    ", writing->out);
		*first = false;
		out_segment(part, &part->snapshot->segments[i], writing);
	}
}

/* Write page-locked host memory if a part has some. */
static void
out_host(
    const struct snapshot_part *parts, size_t count, struct writing *writing)
{
	FILE *out = writing->out;
	bool first = true;

	for (size_t p = 0; p < count; p++) {
		struct snapshot host = snapshot_host(parts[p].snapshot);
		const struct snapshot_part part = { &host, parts[p].device,
			NULL };

		if (first && host.segment_count > 0)
			fputs(",\n\"host_segments\": [", out);
		out_segments(&part, &first, writing);
	}
	if (!first)
		fputs("],\n\"host_traces\": []", out);
}

/* Write the name of each rank by its first device, so that a reader can tell
 * ranks from the devices of one process. */
static void
out_ranks(const struct snapshot_part *parts, size_t count, FILE *out)
{
	if (parts[0].name == NULL)
		return;
	fputs(",\n\"weir_ranks\": {", out);
	for (size_t p = 0; p < count; p++) {
		fprintf(out, "%s\"%" PRIu32 "\": ", p == 0 ? "" : ", ",
		    parts[p].device);
		json_text(parts[p].name, out);
	}
	putc('}', out);
}

static uint64_t
count_json_rows(const struct snapshot_part *parts, size_t count)
{
	uint64_t rows = 0;

	for (size_t p = 0; p < count; p++)
		rows += (uint64_t)parts[p].snapshot->block_count +
		    parts[p].snapshot->events.count;
	return rows;
}

void
snapshot_out_json(const struct snapshot_part *parts, size_t count, FILE *out)
{
	struct writing writing;
	bool first = true;

	begin_writing(&writing, out, count_json_rows(parts, count));
	fputs("{\"segments\": [", out);
	for (size_t p = 0; p < count; p++)
		out_segments(&parts[p], &first, &writing);
	fputs("]", out);
	out_host(parts, count, &writing);
	fputs(",\n\"device_traces\": [", out);
	first = true;
	for (size_t p = 0; p < count; p++)
		for (uint32_t d = 0;
		     d < snapshot_device_count(parts[p].snapshot); d++) {
			if (!first)
				fputs(",\n  ", out);
			first = false;
			out_trace(parts[p].snapshot, d, &writing);
		}
	fputs("],\n", out);
	progress_end(&writing.progress);
	out_settings(parts[0].snapshot, out);
	out_ranks(parts, count, out);
	fputs(",\n\"external_annotations\": [", out);
	first = true;
	for (size_t p = 0; p < count; p++)
		out_annotations(&parts[p], &first, out);
	fputs("]}\n", out);
}

/* ---- Folded stacks --------------------------------------------------- */

/* Write a frame. A ';' would end it, so that ':' is written instead. */
static void
out_folded_frame(const struct snapshot *snapshot, uint32_t frame, FILE *out)
{
	char text[VIEW_TEXT];

	putc(';', out);
	for (const char *at = frame_text(snapshot, frame, text); *at != '\0';
	     at++)
		putc(*at == ';' ? ':' : *at, out);
}

static void
out_folded_stack(const struct snapshot *snapshot, uint32_t stack, FILE *out)
{
	const struct snapshot_stack *frames = &snapshot->stacks[stack];
	bool any = false;

	for (uint32_t i = frames->count; i > 0; i--) {
		uint32_t frame = snapshot->stack_frames[frames->first + i - 1];

		if (frame_is_noise(snapshot, frame))
			continue;
		any = true;
		out_folded_frame(snapshot, frame, out);
	}
	if (!any)
		fputs(";(no stack)", out);
}

void
snapshot_out_folded(const struct snapshot *snapshot, FILE *out)
{
	struct writing writing;
	char stream[VIEW_TEXT];

	begin_writing(&writing, out, snapshot->block_count);
	for (uint32_t s = 0; s < snapshot->segment_count; s++) {
		const struct snapshot_segment *segment = &snapshot->segments[s];

		for (uint32_t b = 0; b < segment->block_count; b++) {
			const struct snapshot_block *block =
			    &snapshot->blocks[segment->first_block + b];

			fprintf(out, "device_%" PRIu32 ";stream_%s;%s",
			    segment->device,
			    segment->stream == UINT64_MAX ?
				"none" :
				stream_text(segment->stream, stream),
			    snapshot_state_name(block->state));
			if (block->state != SNAPSHOT_INACTIVE)
				out_folded_stack(snapshot, block->stack, out);
			fprintf(out, " %" PRIu64 "\n", block->bytes);
			count_json_row(&writing);
		}
	}
	progress_end(&writing.progress);
}
