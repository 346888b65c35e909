/*
 * The report as JSON.
 */
#include <inttypes.h>

#include "tools/report/report.h"

/* Write a JSON string. Bytes that are not ASCII are read as Latin-1, because a
 * program's name may have any bytes, and the file must be valid JSON. */
static void
write_string(FILE *file, const char *text)
{
	fputc('"', file);
	for (const unsigned char *c = (const unsigned char *)text; *c != '\0';
	     c++) {
		if (*c == '"' || *c == '\\')
			fprintf(file, "\\%c", *c);
		else if (*c < 0x20 || *c >= 0x7f)
			fprintf(file, "\\u%04x", *c);
		else
			fputc(*c, file);
	}
	fputc('"', file);
}

static void
write_number(FILE *file, const char *key, uint64_t value)
{
	fprintf(file, "  \"%s\": %" PRIu64 ",\n", key, value);
}

static void
write_counters(
    FILE *file, const struct counters *counters, enum counter_report where)
{
	for (size_t i = 0; i < COUNTER_COUNT; i++)
		if (counter_rows[i].report == where)
			write_number(
			    file, counter_rows[i].name, counters->values[i]);
}

static void
write_calls(FILE *file, const struct report *report)
{
	const char *comma = "";

	fprintf(file, "  \"calls\": {");
	for (int i = 0; i < HOOK_COUNT; i++) {
		const struct report_calls *calls = &report->calls[i];

		if (calls->seen == 0)
			continue;
		fprintf(file,
		    "%s\n    \"%s\": { \"seen\": %" PRIu64
		    ", \"served\": %" PRIu64 ", \"saved\": %" PRIu64 " }",
		    comma, hook_name((enum hook_id)i), calls->seen,
		    calls->served, calls->saved);
		comma = ",";
	}
	fprintf(file, "\n  },\n");
}

/* Write the calls of each entry point, or their times. */
static void
write_entries(
    FILE *file, const char *key, const struct report *report, bool times)
{
	const char *comma = "";

	fprintf(file, "  \"%s\": {", key);
	for (size_t i = 0; i < COUNT_ENTRIES; i++) {
		const struct report_entry *entry = &report->entries[i];

		if (entry->calls == 0)
			continue;
		fprintf(file, "%s\n    \"%s\": %" PRIu64, comma, count_name(i),
		    times ? entry->ns : entry->calls);
		comma = ",";
	}
	fprintf(file, "\n  },\n");
}

static void
write_streams(FILE *file, const struct report *report)
{
	fprintf(file, "  \"streams\": [");
	for (size_t i = 0; i < report->n_streams; i++) {
		const struct report_stream *stream = &report->streams[i];
		char name[32];

		fprintf(file,
		    "%s\n    { \"device\": %d, \"stream\": ", i == 0 ? "" : ",",
		    stream->device);
		write_string(
		    file, report_stream_name(stream, name, sizeof(name)));
		fprintf(file,
		    ", \"requests\": %" PRIu64 ", \"hits\": %" PRIu64
		    ", \"bytes\": %" PRIu64 " }",
		    stream->requests, stream->hits, stream->bytes);
	}
	fprintf(file, "\n  ],\n");
}

struct frames {
	FILE *file;
	const char *comma;
};

static void
write_frame(void *user, const char *line)
{
	struct frames *frames = user;

	fprintf(frames->file, "%s\n        ", frames->comma);
	write_string(frames->file, line);
	frames->comma = ",";
}

static void
write_sites(FILE *file, const char *key, const struct report *report,
    const struct site_list *list)
{
	if (list == NULL)
		return;
	fprintf(file, "  \"%s\": [", key);
	for (size_t i = 0; i < list->n; i++) {
		const struct site *site = &list->sites[i];
		struct frames frames = { file, "" };

		fprintf(file,
		    "%s\n    { \"live_bytes\": %" PRIu64
		    ", \"live_blocks\": %" PRIu64 ",\n"
		    "      \"bytes_at_peak\": %" PRIu64
		    ", \"blocks_at_peak\": %" PRIu64 ",\n"
		    "      \"all_bytes\": %" PRIu64
		    ", \"allocations\": %" PRIu64 ",\n      \"stack\": [",
		    i == 0 ? "" : ",", site->bytes, site->blocks,
		    site->bytes_at_peak, site->blocks_at_peak, site->all_bytes,
		    site->all_blocks);
		report->describe(site->stack, write_frame, &frames);
		fprintf(file, " ] }");
	}
	fprintf(file, "\n  ],\n");
}

/* Write the warnings. Each has a name, by which a program can recognise it. */
static void
write_warnings(FILE *file, const struct report *report)
{
	fprintf(file, "  \"warnings\": [");
	if (report->barriers > 0)
		fprintf(file,
		    "\n    { \"warning\": \"free_as_barrier\", \"times\": "
		    "%" PRIu64 " }\n  ",
		    report->barriers);
	fprintf(file, "]\n");
}

static void
write_end(FILE *file, const struct report *report)
{
	static const char *const words[] = { "exit", "status", "signal",
		"lost" };

	fprintf(file, "  \"ended\": \"%s\",\n", words[report->end]);
	if (report->end == REPORT_STATUS || report->end == REPORT_SIGNAL)
		fprintf(
		    file, "  \"%s\": %d,\n", words[report->end], report->code);
}

static void
write_pinned_source(FILE *file, const struct report *report)
{
	const char *source = report->pinned_source;

	if (source == NULL || report->pinned.held_peak_bytes == 0)
		fprintf(file, "  \"pinned_source\": null,\n");
	else
		fprintf(file, "  \"pinned_source\": \"%s\",\n", source);
}

void
report_write_json(FILE *file, const struct report *report)
{
	fprintf(file, "{\n  \"program\": ");
	write_string(file, report->program);
	fprintf(file, ",\n  \"pid\": %ld,\n  \"weir\": \"%s\",\n", report->pid,
	    weir_version());
	write_end(file, report);
	fprintf(
	    file, "  \"serving\": %s,\n", report->serving ? "true" : "false");
	fprintf(file, "  \"served_by\": %s,\n",
	    report->library     ? "\"libweir\"" :
		report->serving ? "\"preload\"" :
				  "null");
#define WRITE(name, ...) write_number(file, #name, report->name);
	REPORT_FIGURES(WRITE)
#undef WRITE
	write_counters(file, &report->memory, REPORTED_CALLS);
	write_counters(file, &report->memory, REPORTED_OUTSIDE);
	write_counters(file, &report->memory, REPORTED_PLAN);
	write_counters(file, &report->pinned, REPORTED_PINNED);
	write_number(
	    file, "pinned_peak_held_bytes", report->pinned.held_peak_bytes);
	write_pinned_source(file, report);
	write_streams(file, report);
	write_calls(file, report);
	write_entries(file, "driver_calls", report, false);
	write_entries(file, "driver_calls_ns", report, true);
	write_sites(file, "leaks", report, report->leaks);
	write_sites(file, "sites", report, report->top);
	write_warnings(file, report);
	fprintf(file, "}\n");
}
