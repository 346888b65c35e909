/*
 * Metrics as text: https://prometheus.io/docs/specs/om/open_metrics_spec/.
 *
 * The format wants all samples of a metric together, so that the outer loop is
 * over the metrics and the inner loop over the processes or groups.
 */
#include "tools/weir/live/openmetrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include <weir/weir.h>

enum kind { GAUGE, COUNTER, INFO };

/* The rows of a reply, or of a group, that a metric has samples of. */
enum scope { PROCESS, DEVICE, MEMORY, STREAM, POOL, GROUP, MEMBER };

/* The value 1, which no field has. */
enum { ONE = -1 };

struct metric {
	const char *name; /* without "weir_", "_total" and "_info"; _ns for
			     _nanoseconds */
	enum kind kind;
	enum scope scope;
	const char *unit; /* "bytes" is the last word of the name; "ns", "" */
	const char *help;
	long field;  /* offset of the value in its row, or ONE */
	bool narrow; /* the value is a uint32_t, else a uint64_t */
};

#define OF_DEVICE(field) (long)offsetof(struct watch_device, field)
#define OF_STREAM(field) (long)offsetof(struct watch_stream, field)
#define OF_POOL(field) (long)offsetof(struct watch_pool, field)
#define OF_PROCESS(field) (long)offsetof(struct watch_reply, field)
#define OF_GROUP(field) (long)offsetof(struct metrics_group, field)
#define OF_MEMBER(field) (long)offsetof(struct metrics_member, field)
#define METRIC_OF_COUNTER(                                                     \
    name, path, unit, adds, value, report, label, note, help)                  \
	{ #name, adds == COUNTER_SUM ? COUNTER : GAUGE, MEMORY, unit, help,    \
		(long)offsetof(struct counters, name), false },

static const struct metric metrics[] = {
	{ "process", INFO, PROCESS, "", "A watched process.", ONE, false },
	{ "metadata_bytes", GAUGE, PROCESS, "bytes",
	    "Host memory that weir uses for itself.",
	    OF_PROCESS(metadata_bytes), false },
	/* clang-format off */
	COUNTERS(METRIC_OF_COUNTER)
	/* clang-format on */
	{ "device_bytes", GAUGE, DEVICE, "bytes", "Memory of the device.",
	    OF_DEVICE(total_bytes), false },
	{ "streams", GAUGE, DEVICE, "",
	    "Streams that have had memory; the largest ones are listed.",
	    OF_DEVICE(streams_all), true },
	{ "private_pools", GAUGE, DEVICE, "",
	    "Private pools; the largest ones are listed.", OF_DEVICE(pools_all),
	    true },
	{ "history_events", COUNTER, DEVICE, "",
	    "Events that the history has recorded.", OF_DEVICE(events_recorded),
	    false },
	{ "history_dropped_events", COUNTER, DEVICE, "",
	    "Recorded events that later ones have replaced.",
	    OF_DEVICE(events_dropped), false },
	{ "stream_live_bytes", GAUGE, STREAM, "bytes",
	    "Memory of a stream in the hands of callers.",
	    OF_STREAM(live_bytes), false },
	{ "stream_pending_bytes", GAUGE, STREAM, "bytes",
	    "Memory of a stream, freed and not yet seen to be complete.",
	    OF_STREAM(pending_bytes), false },
	{ "stream_live_blocks", GAUGE, STREAM, "",
	    "Blocks of a stream in the hands of callers.",
	    OF_STREAM(live_blocks), false },
	{ "stream_allocations", COUNTER, STREAM, "",
	    "Blocks allocated for a stream.", OF_STREAM(allocations), false },
	{ "pool_held_bytes", GAUGE, POOL, "bytes",
	    "Physical memory that a private pool holds.", OF_POOL(held_bytes),
	    false },
	{ "pool_live_bytes", GAUGE, POOL, "bytes",
	    "Memory of a private pool in the hands of callers.",
	    OF_POOL(live_bytes), false },
	{ "pool_pending_bytes", GAUGE, POOL, "bytes",
	    "Memory of a private pool, freed and not yet seen complete.",
	    OF_POOL(pending_bytes), false },
	{ "pool_live_blocks", GAUGE, POOL, "",
	    "Blocks of a private pool in the hands of callers.",
	    OF_POOL(live_blocks), false },
	{ "group_limit_bytes", GAUGE, GROUP, "bytes",
	    "The limit that a group's members share.", OF_GROUP(limit_bytes),
	    false },
	{ "group_held_bytes", GAUGE, GROUP, "bytes",
	    "Memory that a group's members hold.", OF_GROUP(held_bytes),
	    false },
	{ "group_charged_bytes", GAUGE, GROUP, "bytes",
	    "Memory that a group's members hold or are guaranteed.",
	    OF_GROUP(charged_bytes), false },
	{ "group_members", GAUGE, GROUP, "", "Members of a group.",
	    OF_GROUP(member_count), false },
	{ "group_waiting_members", GAUGE, GROUP, "",
	    "Members of a group that wait for memory.", OF_GROUP(waiting_count),
	    false },
	{ "member_held_bytes", GAUGE, MEMBER, "bytes",
	    "Memory that a member of a group holds.", OF_MEMBER(held_bytes),
	    false },
	{ "member_guarantee_bytes", GAUGE, MEMBER, "bytes",
	    "Memory that a member can always have.", OF_MEMBER(guarantee_bytes),
	    false },
	{ "member_idle_bytes", GAUGE, MEMBER, "bytes",
	    "Memory that a member holds and no work uses, as last counted.",
	    OF_MEMBER(idle_bytes), false },
	{ "member_priority", GAUGE, MEMBER, "",
	    "Unused memory of members with a lower one is lent first.",
	    OF_MEMBER(priority), false },
	{ "member_waits_for_bytes", GAUGE, MEMBER, "bytes",
	    "Memory that a member waits for.", OF_MEMBER(waits_for_bytes),
	    false },
	{ "member_wait_ns", GAUGE, MEMBER, "ns",
	    "How long a member has been waiting for memory.",
	    OF_MEMBER(wait_ns), false },
	{ "member_asleep", GAUGE, MEMBER, "",
	    "1 if the member sleeps, also for others.", OF_MEMBER(asleep),
	    false },
	{ "member_dozing", GAUGE, MEMBER, "",
	    "1 if the member sleeps for others and wakes by itself.",
	    OF_MEMBER(dozes), false },
};

struct writer {
	FILE *out;
	enum metrics_form form;
	const struct metric *metric;
	const struct metrics_process *process;
};

/* ---- Samples ----------------------------------------------------------- */

/* Write the value of a label, which stands in quotes. Other characters than
 * printable ASCII become "?". */
static void
put_label_value(const char *text, FILE *out)
{
	for (; *text != '\0'; text++) {
		bool printed = *text >= ' ' && *text <= '~';

		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(printed ? *text : '?', out);
	}
}

static const char *
suffix_of(enum kind kind)
{
	switch (kind) {
	case GAUGE:
		return "";
	case COUNTER:
		return "_total";
	case INFO:
		return "_info";
	}
	return "";
}

static void
put_name(const struct writer *w, const char *suffix)
{
	const struct metric *m = w->metric;
	bool ns = strcmp(m->unit, "ns") == 0;

	fprintf(w->out, "weir_%.*s%s%s", (int)strlen(m->name) - 3 * ns, m->name,
	    ns ? "_nanoseconds" : "", suffix);
}

/* Write the name of a sample and the labels that all samples have. The closing
 * brace is left to end_sample(). */
static void
begin_sample(const struct writer *w)
{
	put_name(w, suffix_of(w->metric->kind));
	fprintf(
	    w->out, "{pid=\"%" PRIu32 "\",program=\"", w->process->reply.pid);
	put_label_value(w->process->program, w->out);
	fputc('"', w->out);
}

static void
end_sample(const struct writer *w, uint64_t value)
{
	fprintf(w->out, "} %" PRIu64 "\n", value);
}

static uint64_t
value_in(const struct metric *metric, const void *row)
{
	const char *at = (const char *)row + metric->field;
	uint64_t wide;
	uint32_t narrow;

	if (!metric->narrow) {
		memcpy(&wide, at, sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at, sizeof(narrow));
	return narrow;
}

/* ---- Rows -------------------------------------------------------------- */

static void
write_process_sample(const struct writer *w)
{
	begin_sample(w);
	if (w->metric->field == ONE) {
		fputs(",weir=\"", w->out);
		put_label_value(w->process->reply.weir, w->out);
		fputc('"', w->out);
		end_sample(w, 1);
		return;
	}
	end_sample(w, value_in(w->metric, &w->process->reply));
}

static void
write_device_sample(const struct writer *w, const struct watch_device *device)
{
	begin_sample(w);
	fprintf(w->out, ",device=\"%" PRIu32 "\"", device->device);
	end_sample(w, value_in(w->metric, device));
}

static void
write_memory_samples(const struct writer *w, const struct watch_device *device)
{
	for (int i = 0; i < 2; i++) {
		uint64_t value = value_in(
		    w->metric, i == 0 ? &device->memory : &device->pinned);

		if (value == UINT64_MAX) /* no limit */
			continue;
		begin_sample(w);
		fprintf(w->out, ",device=\"%" PRIu32 "\",memory=\"%s\"",
		    device->device, i == 0 ? "device" : "pinned");
		end_sample(w, value);
	}
}

static void
put_stream_label(uint64_t stream, FILE *out)
{
	if (stream == (uint64_t)(uintptr_t)WEIR_STREAM_ANY)
		fputs("none", out);
	else if (stream == (uint64_t)(uintptr_t)WEIR_STREAM_LEGACY ||
	    stream == 0)
		fputs("legacy", out);
	else if (stream == (uint64_t)(uintptr_t)WEIR_STREAM_PER_THREAD)
		fputs("per-thread", out);
	else
		fprintf(out, "0x%" PRIx64, stream);
}

/* True if the samples of both rows belong to one series. The legacy stream has
 * two handles. */
static bool
is_same_stream(const struct watch_stream *a, const struct watch_stream *b)
{
	uint64_t legacy = (uint64_t)(uintptr_t)WEIR_STREAM_LEGACY;
	uint64_t x = a->stream == 0 ? legacy : a->stream;
	uint64_t y = b->stream == 0 ? legacy : b->stream;

	return x == y && memcmp(a->pool, b->pool, sizeof(a->pool)) == 0;
}

/* Write a sample for each series. The driver may give a new stream the handle
 * of an old one whose blocks still live. Both are one series then, because no
 * two samples may have the same labels. */
static void
write_stream_samples(const struct writer *w, const struct watch_device *device)
{
	for (uint32_t i = 0; i < device->stream_count; i++) {
		const struct watch_stream *row = &device->streams[i];
		uint64_t value = 0;
		bool first = true;

		for (uint32_t j = 0; j < device->stream_count; j++) {
			if (!is_same_stream(row, &device->streams[j]))
				continue;
			value += value_in(w->metric, &device->streams[j]);
			first = first && j >= i;
		}
		if (!first)
			continue;
		begin_sample(w);
		fprintf(w->out, ",device=\"%" PRIu32 "\",stream=\"",
		    device->device);
		put_stream_label(row->stream, w->out);
		fprintf(w->out, "\",pool=\"%" PRIu64 ",%" PRIu64 "\"",
		    row->pool[0], row->pool[1]);
		end_sample(w, value);
	}
}

static void
write_pool_samples(const struct writer *w, const struct watch_device *device)
{
	for (uint32_t i = 0; i < device->pool_count; i++) {
		const struct watch_pool *row = &device->pools[i];

		begin_sample(w);
		fprintf(w->out,
		    ",device=\"%" PRIu32 "\",pool=\"%" PRIu64 ",%" PRIu64 "\"",
		    device->device, row->pool[0], row->pool[1]);
		end_sample(w, value_in(w->metric, row));
	}
}

static void
write_process_samples(const struct writer *w)
{
	const struct watch_reply *reply = &w->process->reply;

	if (w->metric->scope == PROCESS) {
		write_process_sample(w);
		return;
	}
	for (uint32_t i = 0; i < reply->device_count; i++) {
		const struct watch_device *device = &reply->devices[i];

		if (w->metric->scope == DEVICE)
			write_device_sample(w, device);
		else if (w->metric->scope == MEMORY)
			write_memory_samples(w, device);
		else if (w->metric->scope == STREAM)
			write_stream_samples(w, device);
		else
			write_pool_samples(w, device);
	}
}

static void
write_group_sample(const struct writer *w, const struct metrics_group *group,
    const struct metrics_member *member)
{
	uint64_t value = value_in(w->metric,
	    member != NULL ? (const void *)member : (const void *)group);

	if (value == METRICS_NONE)
		return;
	put_name(w, suffix_of(w->metric->kind));
	fputs("{group=\"", w->out);
	put_label_value(group->group, w->out);
	fputs("\",device_uuid=\"", w->out);
	put_label_value(group->device_uuid, w->out);
	if (member != NULL) {
		fprintf(w->out,
		    "\",member=\"%u\",pid=\"%" PRIu64 "\",program=\"",
		    member->slot, member->pid);
		put_label_value(member->program, w->out);
	}
	fputc('"', w->out);
	end_sample(w, value);
}

static void
write_group_samples(const struct writer *w, const struct metrics_group *group)
{
	if (w->metric->scope == GROUP) {
		write_group_sample(w, group, NULL);
		return;
	}
	for (uint64_t i = 0; i < group->member_count; i++)
		write_group_sample(w, group, &group->members[i]);
}

/* ---- Metrics ----------------------------------------------------------- */

static void
write_heading(const struct writer *w)
{
	static const char *const types[] = { "gauge", "counter", "info" };
	const struct metric *m = w->metric;
	bool open = w->form == METRICS_OPENMETRICS;
	const char *suffix = open ? "" : suffix_of(m->kind);
	const char *type = !open && m->kind == INFO ? "gauge" : types[m->kind];

	fputs("# TYPE ", w->out);
	put_name(w, suffix);
	fprintf(w->out, " %s\n", type);
	if (open && strcmp(m->unit, "bytes") == 0)
		fprintf(w->out, "# UNIT weir_%s %s\n", m->name, m->unit);
	fputs("# HELP ", w->out);
	put_name(w, suffix);
	fprintf(w->out, " %s\n", m->help);
}

static bool
is_of_groups(const struct metric *metric)
{
	return metric->scope == GROUP || metric->scope == MEMBER;
}

void
openmetrics_write(
    const struct metrics_sample *sample, enum metrics_form form, FILE *out)
{
	struct writer w = { .out = out, .form = form };

	for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
		bool groups = is_of_groups(&metrics[i]);

		if (groups ? sample->groups == NULL : sample->processes == NULL)
			continue;
		w.metric = &metrics[i];
		write_heading(&w);
		for (size_t p = 0; !groups && p < sample->process_count; p++) {
			w.process = &sample->processes[p];
			write_process_samples(&w);
		}
		for (size_t g = 0; groups && g < sample->group_count; g++)
			write_group_samples(&w, &sample->groups[g]);
	}
	if (form == METRICS_OPENMETRICS)
		fputs("# EOF\n", out);
}
