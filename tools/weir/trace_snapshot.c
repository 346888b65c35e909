/*
 * Rows of CSV become events in PyTorch's words, in JSON that the reader of
 * snapshots takes: it is the one way to make a snapshot.
 */
#include "tools/weir/trace_snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/file_text.h"
#include "tools/weir/progress.h"
#include "tools/weir/snapshot_file.h"
#include "tools/weir/tool.h"
#include "tools/weir/trace_file.h"
#include "trace/source.h"

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

/* A row as it stands in the text. */
struct line {
	char action;
	uint64_t addr;
	uint64_t size;
	uint64_t stream;
	uint64_t time_us;
};

struct writer {
	FILE *out;
	const struct trace *trace;
	bool *completes; /* of each block: has it a 'c' row? */
	bool tells_held; /* there are rows of segments */
	bool begun;
};

static void
put(struct writer *w, const char *action, const struct line *line)
{
	fprintf(w->out,
	    "%s{\"action\":\"%s\",\"addr\":%" PRId64 ",\"size\":%" PRIu64
	    ",\"stream\":%" PRIu64 ",\"time_us\":%" PRIu64 ",\"frames\":[]}",
	    w->begun ? ",\n" : "", action, (int64_t)line->addr, line->size,
	    line->stream, line->time_us);
	w->begun = true;
}

static void
put_completed(struct writer *w, const struct line *line)
{
	put(w, "free_completed", line);
	if (!w->tells_held)
		put(w, "segment_unmap", line);
}

static void
put_row(struct writer *w, const struct line *line, const struct trace_row *row)
{
	switch (line->action) {
	case 'a':
		if (!w->tells_held)
			put(w, "segment_map", line);
		put(w, "alloc", line);
		break;
	case 'f':
		put(w, "free_requested", line);
		if (!w->completes[row->block])
			put_completed(w, line);
		break;
	case 'c':
		put_completed(w, line);
		break;
	case 'S':
		put(w, "segment_alloc", line);
		break;
	case 's':
		put(w, "segment_free", line);
		break;
	case 'm':
		put(w, "segment_map", line);
		break;
	case 'u':
		put(w, "segment_unmap", line);
		break;
	default: /* what streams do is no event of memory */
		break;
	}
}

/* The next row of a text that trace_read() has found good; the columns behind
 * the last that is needed are passed over. False at the end. */
static bool
next_line(const char **at, struct line *line)
{
	while (**at != '\0') {
		size_t length = strcspn(*at, "\n");
		char text[128]; /* longer than a row with numbers of 64 bits */

		snprintf(text, sizeof(text), "%.*s",
		    (int)(length < sizeof(text) ? length : sizeof(text)), *at);
		*at += length;
		*at += **at == '\n';
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
		w->tells_held |= strchr("Sm", row->action) != NULL;
	}
	return true;
}

/* The JSON, which the caller frees; NULL without memory. */
static char *
json_of(const struct trace *trace, const char *text, size_t *length)
{
	struct writer w = { .trace = trace };
	char *json = NULL;
	struct progress progress;
	struct line line;
	size_t i = 0;

	if (!find_completions(&w))
		return NULL;
	w.out = open_memstream(&json, length);
	if (w.out != NULL) {
		fputs("{\"segments\":[],\"device_traces\":[[", w.out);
		progress_begin(&progress, PROGRESS_AFTER_MS);
		while (i < trace->row_count && next_line(&text, &line) &&
		    line.action == trace->rows[i].action) {
			if (i % PROGRESS_STEPS == 0)
				progress_part(&progress, "making events", i,
				    trace->row_count);
			put_row(&w, &line, &trace->rows[i++]);
		}
		progress_end(&progress);
		fputs("]]}\n", w.out);
		if (fclose(w.out) != 0) {
			free(json);
			json = NULL;
		}
	}
	free(w.completes);
	return json;
}

/* Text that is read, and how far. */
struct reading {
	const char *text;
	size_t length;
	size_t done;
	struct progress progress;
};

static ptrdiff_t
read_text(void *user, void *buffer, size_t size)
{
	struct reading *r = user;
	size_t left = r->length - r->done;
	size_t part = size < left ? size : left;

	memcpy(buffer, r->text + r->done, part);
	r->done += part;
	progress_part(&r->progress, "reading events", r->done, r->length);
	return (ptrdiff_t)part;
}

/* NULL, and weir_last_error() says why. */
static struct snapshot *
read_json(const char *json, size_t length)
{
	struct reading reading = { .text = json, .length = length };
	struct snapshot *snapshot = NULL;
	struct source source;

	if (source_open(&source, read_text, &reading) != WEIR_OK)
		return NULL;
	progress_begin(&reading.progress, PROGRESS_AFTER_MS);
	(void)snapshot_read(&source, &snapshot);
	progress_end(&reading.progress);
	source_close(&source);
	return snapshot;
}

struct snapshot *
trace_snapshot_of(const char *shown, const char *text, size_t length,
    const struct budget *budget)
{
	struct trace_error error;
	struct snapshot *snapshot;
	struct trace trace;
	char *json;
	size_t json_length;

	if (!trace_read_text(shown, text, length, budget, &trace, &error)) {
		complain("%s", error.text);
		return NULL;
	}
	json = json_of(&trace, text, &json_length);
	trace_drop(&trace);
	if (json == NULL) {
		complain("%s: out of memory", shown);
		return NULL;
	}
	snapshot = read_json(json, json_length);
	if (snapshot == NULL)
		complain("%s: %s", shown, weir_last_error());
	free(json);
	return snapshot;
}
