/*
 * Rows of CSV become events in PyTorch's JSON, which the reader of snapshots
 * reads. The reader is the only code that builds a snapshot.
 */
#include "tools/weir/reading/trace_snapshot.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "snapshot/source.h"
#include "tools/weir/progress.h"
#include "tools/weir/reading/snapshot_form.h"
#include "tools/weir/reading/trace_file.h"
#include "tools/weir/tool.h"

bool
trace_is_named(const char *path)
{
	static const char *const ends[] = { ".csv", ".csv.xz", ".csv.gz" };
	size_t length = strlen(path);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t n = strlen(ends[i]);

		if (length > n && strcmp(path + length - n, ends[i]) == 0)
			return true;
	}
	return false;
}

/* The most bytes of a row's events: three events, each of at most 110 bytes and
 * four numbers of 20 digits. */
enum { PIECE_BYTES = 1024 };

/* A row of the text. */
struct line {
	char action;
	uint64_t addr;
	uint64_t size;
	uint64_t stream;
	uint64_t time_us;
};

/* The JSON is made while it is read, because all of it would take ten times the
 * memory of the trace. */
struct writer {
	const struct trace *trace;
	bool *completes;   /* by block: it has a 'c' row */
	bool has_segments; /* there are rows of segments */
	bool begun;
	bool ended;
	const char *at;  /* the next row in the text */
	const char *end; /* of the text */
	size_t row;      /* the number of the next row */
	char piece[PIECE_BYTES];
	size_t length;
	size_t done; /* bytes of the piece that have been read */
	struct progress progress;
};

static __attribute__((format(printf, 2, 3))) void
append_text(struct writer *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	w->length += (size_t)vsnprintf(
	    w->piece + w->length, sizeof(w->piece) - w->length, format, args);
	va_end(args);
}

static void
put_csv_event(struct writer *w, const char *action, const struct line *line)
{
	append_text(w,
	    "%s{\"action\":\"%s\",\"addr\":%" PRId64 ",\"size\":%" PRIu64
	    ",\"stream\":%" PRIu64 ",\"time_us\":%" PRIu64 ",\"frames\":[]}",
	    w->begun ? ",\n" : "", action, (int64_t)line->addr, line->size,
	    line->stream, line->time_us);
	w->begun = true;
}

static void
put_completed(struct writer *w, const struct line *line)
{
	put_csv_event(w, "free_completed", line);
	if (!w->has_segments)
		put_csv_event(w, "segment_unmap", line);
}

static void
put_row(struct writer *w, const struct line *line, const struct trace_row *row)
{
	switch (line->action) {
	case 'a':
		if (!w->has_segments)
			put_csv_event(w, "segment_map", line);
		put_csv_event(w, "alloc", line);
		break;
	case 'f':
		put_csv_event(w, "free_requested", line);
		/* Other streams use a block with 'r' rows to the end. */
		if (!w->completes[row->block] &&
		    !w->trace->blocks[row->block].recorded)
			put_completed(w, line);
		break;
	case 'c':
		put_completed(w, line);
		break;
	case 'S':
		put_csv_event(w, "segment_alloc", line);
		break;
	case 's':
		put_csv_event(w, "segment_free", line);
		break;
	case 'm':
		put_csv_event(w, "segment_map", line);
		break;
	case 'u':
		put_csv_event(w, "segment_unmap", line);
		break;
	default: /* rows of streams are no events of memory */
		break;
	}
}

/* Read the next row of a text that trace_read() has accepted. Further columns
 * are skipped. False at the end. */
static bool
next_row_line(const char **at, const char *end, struct line *line)
{
	while (*at < end) {
		const char *stop = memchr(*at, '\n', (size_t)(end - *at));
		size_t length = (size_t)((stop != NULL ? stop : end) - *at);
		char text[128]; /* longer than a row with numbers of 64 bits */

		snprintf(text, sizeof(text), "%.*s",
		    (int)(length < sizeof(text) ? length : sizeof(text)), *at);
		*at += length + (stop != NULL);
		if (sscanf(text,
			"%c,%" SCNx64 ",%" SCNu64 ",%" SCNu64 ",%" SCNu64,
			&line->action, &line->addr, &line->size, &line->stream,
			&line->time_us) == 5)
			return true;
	}
	return false;
}

static bool
find_completions(struct writer *w)
{
	const struct trace *trace = w->trace;

	w->completes = calloc(trace->block_count + 1, 1);
	if (w->completes == NULL)
		return false;
	for (size_t i = 0; i < trace->row_count; i++) {
		const struct trace_row *row = &trace->rows[i];

		if (row->action == 'c')
			w->completes[row->block] = true;
		w->has_segments |= strchr("Sm", row->action) != NULL;
	}
	return true;
}

/* Write the events of the next row, which may have none, or the end of the
 * JSON. */
static void
make_piece(struct writer *w)
{
	const struct trace *trace = w->trace;
	struct line line;

	w->length = 0;
	w->done = 0;
	if (w->row % PROGRESS_STEPS == 0)
		progress_part(
		    &w->progress, "reading events", w->row, trace->row_count);
	if (w->row < trace->row_count && next_row_line(&w->at, w->end, &line) &&
	    line.action == trace->rows[w->row].action) {
		put_row(w, &line, &trace->rows[w->row++]);
	} else {
		append_text(w, "]]}\n");
		w->ended = true;
	}
}

static ptrdiff_t
read_made_piece(void *user, void *buffer, size_t size)
{
	struct writer *w = user;
	size_t part;

	while (w->done == w->length && !w->ended)
		make_piece(w);
	part = w->length - w->done;
	if (part > size)
		part = size;
	memcpy(buffer, w->piece + w->done, part);
	w->done += part;
	return (ptrdiff_t)part;
}

/* Read the events into a snapshot. NULL, and weir_last_error() is set, on
 * failure. */
static struct snapshot *
read_events(struct writer *w, struct budget *budget)
{
	struct snapshot *snapshot = NULL;
	struct source source;

	if (!find_completions(w)) {
		status_set(WEIR_EHOSTMEM, "out of memory");
		return NULL;
	}
	append_text(w, "{\"segments\":[],\"device_traces\":[[");
	progress_begin(&w->progress, PROGRESS_AFTER_MS);
	if (source_open(&source, read_made_piece, w) == WEIR_OK) {
		source.budget = budget;
		(void)snapshot_read(&source, &snapshot);
		source_close(&source);
	}
	progress_end(&w->progress);
	free(w->completes);
	return snapshot;
}

struct snapshot *
trace_snapshot_of(const char *shown, const char *text, size_t length,
    const struct budget *budget)
{
	struct budget events = *budget;
	struct trace_error error;
	struct snapshot *snapshot = NULL;
	struct trace trace;
	size_t bytes;

	if (!trace_read_text(shown, text, length, budget, &trace, &error)) {
		complain("%s", error.text);
		return NULL;
	}
	struct writer writer = {
		.trace = &trace, .at = text, .end = text + length
	};
	bytes = length + trace.row_count * sizeof(*trace.rows) +
	    trace.block_count * (sizeof(*trace.blocks) + sizeof(bool));
	/* The events are charged in addition. */
	if (meta_charge(bytes)) {
		snapshot = read_events(&writer, &events);
		meta_discharge(bytes);
	} else {
		status_set(WEIR_EHOSTMEM, "out of memory");
	}
	trace_drop(&trace);
	if (snapshot == NULL)
		complain("%s: %s", shown, weir_last_error());
	return snapshot;
}
