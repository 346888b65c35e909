/*
 * Search for the list of events in a trace of Chrome's form.
 *
 * Profilers write traces of gigabytes, and their JSON is not always correct. So
 * this file scans the text and builds no tree. It reads the names of the outer
 * object, and the times and processes of events. It skips every other value by
 * its brackets and quotes.
 */
#include "tools/weir/reading/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/export/nsys.h"
#include "tools/weir/progress.h"
#include "tools/weir/reading/file_text.h"
#include "tools/weir/reading/sqlite_read.h"
#include "tools/weir/tool.h"

/* Times after the year 2096 are invalid. */
#define MOST_US INT64_C(4000000000000000)

struct scan {
	const char *at;
	const char *end; /* a NUL stands there */
	const char *why; /* the first fault, or NULL */
};

static void
fail_scan(struct scan *scan, const char *why)
{
	if (scan->why == NULL)
		scan->why = why;
	scan->at = scan->end;
}

/* Skip blanks. Returns the next byte, or 0 at the end. */
static char
peek_byte(struct scan *scan)
{
	while (scan->at < scan->end &&
	    (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' ||
		*scan->at == '\t'))
		scan->at++;
	return scan->at < scan->end ? *scan->at : '\0';
}

/* Skip blanks and the byte `c`. False if another byte follows. */
static bool
skip_byte(struct scan *scan, char c)
{
	if (peek_byte(scan) != c || scan->at == scan->end)
		return false;
	scan->at++;
	return true;
}

/* Read a text in quotes. Returns its length. */
static size_t
read_quoted(struct scan *scan, const char **text)
{
	if (!skip_byte(scan, '"')) {
		fail_scan(scan, "a name is missing");
		return 0;
	}
	*text = scan->at;
	while (scan->at < scan->end && *scan->at != '"')
		scan->at += *scan->at == '\\' ? 2 : 1;
	if (scan->at >= scan->end) {
		fail_scan(scan, "it is cut off");
		return 0;
	}
	return (size_t)(scan->at++ - *text);
}

/* Skip any value, by its brackets. */
static void
skip_value(struct scan *scan)
{
	const char *text;
	size_t depth = 0;

	do {
		char c = peek_byte(scan);

		if (c == '"') {
			read_quoted(scan, &text);
		} else if (c == '{' || c == '[') {
			depth++;
			scan->at++;
		} else if ((c == '}' || c == ']') && depth > 0) {
			depth--;
			scan->at++;
		} else if ((c == ',' || c == ':') && depth > 0) {
			scan->at++;
		} else {
			size_t n = strcspn(scan->at, " \t\r\n,:{}[]\"");

			if (n == 0 || scan->at + n > scan->end)
				fail_scan(scan, "it is cut off, or not JSON");
			else
				scan->at += n;
		}
	} while (depth > 0 && scan->why == NULL);
}

static bool
key_equals(const char *text, size_t length, const char *key)
{
	return strlen(key) == length && memcmp(text, key, length) == 0;
}

/* Read a number. False if the value is no number; it is skipped then. */
static bool
read_timeline_number(struct scan *scan, double *out)
{
	char *end;
	char c = peek_byte(scan);

	if (c != '-' && !(c >= '0' && c <= '9')) {
		skip_value(scan);
		return false;
	}
	*out = strtod(scan->at, &end);
	skip_value(scan);
	return isfinite(*out);
}

/* ---- Events -------------------------------------------------------------- */

struct event {
	double ts;
	double dur;
	double pid;
	bool has_ts;
	bool is_metadata;
};

static void
read_event_member(struct scan *scan, struct event *event)
{
	const char *key = "";
	const char *phase = "";
	size_t length = read_quoted(scan, &key);

	if (!skip_byte(scan, ':')) {
		fail_scan(scan, "a colon is missing in an event");
		return;
	}
	if (key_equals(key, length, "ts"))
		event->has_ts = read_timeline_number(scan, &event->ts);
	else if (key_equals(key, length, "dur"))
		read_timeline_number(scan, &event->dur);
	else if (key_equals(key, length, "pid"))
		read_timeline_number(scan, &event->pid);
	else if (key_equals(key, length, "ph") && peek_byte(scan) == '"')
		event->is_metadata =
		    read_quoted(scan, &phase) == 1 && *phase == 'M';
	else
		skip_value(scan);
}

static void
read_timeline_event(struct scan *scan, struct timeline *timeline)
{
	struct event event = { .ts = 0 };
	double end;

	if (!skip_byte(scan, '{')) {
		fail_scan(scan, "an event is not an object");
		return;
	}
	while (scan->why == NULL && !skip_byte(scan, '}')) {
		read_event_member(scan, &event);
		if (!skip_byte(scan, ',') && peek_byte(scan) != '}')
			fail_scan(scan, "it is cut off within an event");
	}
	if (event.pid > (double)timeline->last_pid && event.pid < 1e15)
		timeline->last_pid = (int64_t)event.pid;
	if (!event.has_ts || event.is_metadata || fabs(event.ts) > MOST_US)
		return;
	end = event.ts + fmin(fmax(event.dur, 0), MOST_US);
	timeline->first_us = fmin(timeline->first_us, event.ts);
	timeline->last_us = fmax(timeline->last_us, end);
}

static void
read_timeline_events(struct scan *scan, struct timeline *timeline)
{
	struct progress progress;
	uint64_t count = 0;

	if (!skip_byte(scan, '[')) {
		fail_scan(scan, "its traceEvents is no list");
		return;
	}
	timeline->events_at = (size_t)(scan->at - timeline->text);
	timeline->is_empty = peek_byte(scan) == ']';
	progress_begin(&progress, PROGRESS_AFTER_MS);
	while (scan->why == NULL && !skip_byte(scan, ']')) {
		if (count++ % PROGRESS_STEPS == 0)
			progress_part(&progress, "reading the trace",
			    (uint64_t)(scan->at - timeline->text),
			    timeline->length);
		read_timeline_event(scan, timeline);
		if (!skip_byte(scan, ',') && peek_byte(scan) != ']')
			fail_scan(scan, "it is cut off between events");
	}
	progress_end(&progress);
}

/* ---- The file ------------------------------------------------------------ */

/* Read a number of nanoseconds since 1970, for which a double has too few
 * digits. */
static int64_t
read_base_time(struct scan *scan)
{
	const char *at = (peek_byte(scan), scan->at);
	int64_t ns = strtoll(at, NULL, 10);

	skip_value(scan);
	return ns < -MOST_US * 1000 || ns > MOST_US * 1000 ? 0 : ns;
}

static void
read_timeline_object(struct scan *scan, struct timeline *timeline)
{
	while (scan->why == NULL && !skip_byte(scan, '}')) {
		const char *key = "";
		size_t length = read_quoted(scan, &key);

		if (!skip_byte(scan, ':'))
			fail_scan(scan, "a colon is missing");
		else if (key_equals(key, length, "traceEvents"))
			read_timeline_events(scan, timeline);
		else if (key_equals(key, length, "baseTimeNanoseconds"))
			timeline->base_ns = read_base_time(scan);
		else
			skip_value(scan);
		if (!skip_byte(scan, ',') && peek_byte(scan) != '}')
			fail_scan(scan, "it is cut off");
	}
}

const char *
timeline_parse(struct timeline *timeline)
{
	struct scan scan = { .at = timeline->text,
		.end = timeline->text + timeline->length };

	timeline->events_at = 0;
	timeline->base_ns = 0;
	timeline->first_us = INFINITY;
	timeline->last_us = -INFINITY;
	timeline->last_pid = 0;
	if (peek_byte(&scan) == '[')
		read_timeline_events(&scan, timeline);
	else if (skip_byte(&scan, '{'))
		read_timeline_object(&scan, timeline);
	else
		return "it is no trace in JSON";
	if (scan.why != NULL)
		return scan.why;
	if (timeline->events_at == 0)
		return "it has no traceEvents";
	if (timeline->first_us > timeline->last_us)
		return "none of its events has a time";
	return NULL;
}

/* True if a file has the name of a recording of Nsight Systems in its own
 * form. */
static bool
path_is_report(const char *path)
{
	static const char *const ends[] = { ".nsys-rep", ".qdrep" };

	for (int i = 0; i < 2; i++) {
		size_t n = strlen(ends[i]);

		if (strlen(path) > n &&
		    strcmp(path + strlen(path) - n, ends[i]) == 0)
			return true;
	}
	return false;
}

/* Replace a database of Nsight Systems by a trace of Chrome's form. */
static const char *
convert_nsys(struct timeline *timeline)
{
	char *text = NULL;
	size_t length = 0;
	const char *fault =
	    nsys_to_chrome(timeline->text, timeline->length, &text, &length);

	if (fault != NULL)
		return fault;
	free(timeline->text);
	timeline->text = text;
	timeline->length = length;
	return NULL;
}

bool
timeline_read(const char *path, struct timeline *out)
{
	struct budget budget = file_text_budget();
	char why[256];
	const char *fault;

	*out = (struct timeline){ .length = 0 };
	if (!file_text_read(
		path, &budget, &out->text, &out->length, why, sizeof(why))) {
		complain("%s: %s", path, why);
		return false;
	}
	fault = sqlite_is(out->text, out->length) ? convert_nsys(out) : NULL;
	if (fault == NULL)
		fault = timeline_parse(out);
	if (fault == NULL)
		return true;
	complain("%s: not a trace that can be joined: %s", path, fault);
	if (path_is_report(path))
		complain("convert it with 'nsys export --type sqlite'");
	free(out->text);
	out->text = NULL;
	return false;
}
