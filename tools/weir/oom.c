/*
 * weir oom: why a request failed, from what is free and where.
 *
 * The snapshot shows memory as it was when it was taken; with the trace's last
 * out-of-memory event it is asked why that request could not be met then. All
 * causes that hold are told, the nearest to a remedy first.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "tools/weir/snapshot_holders.h"
#include "tools/weir/snapshot_view.h"

enum {
	SMALL = 1 << 20, /* requests up to here are of the small pools */
	TOP = 3,         /* holders that are named */
};

struct choices {
	struct view_args view;
	uint64_t bytes; /* asked about; 0: the last oom event */
	uint64_t stream;
};

static const struct argp_option flags[] = {
	{ "size", 'b', "BYTES", 0,
	    "ask about a request of so many bytes; 512M, 8G", 0 },
	{ "stream", 's', "HEX", 0,
	    "and on this stream, by its handle; 0 without", 0 },
	{ 0 },
};

static error_t
take_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;
	char *end;

	switch (key) {
	case ARGP_KEY_INIT:
		view_init(state);
		return 0;
	case 'b':
		if (!bytes_parse(value, &choices->bytes) || choices->bytes == 0)
			argp_error(state,
			    "--size is a size such as 512M or 8G, not '%s'",
			    value);
		return 0;
	case 's':
		choices->stream = strtoull(value, &end, 16);
		if (end == value || *end != '\0')
			argp_error(state,
			    "--stream is a hexadecimal number, not '%s'",
			    value);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_oom = { flags, take_flag, "SNAPSHOT",
	"Say why a request ran out of memory: what was free, why it did not "
	"serve, and what would have helped.\v"
	"The request is the last 'oom' event of the trace, or the one that "
	"--size describes. What is free is as the snapshot shows it; it is "
	"best taken right at the failure, before anything is freed.",
	view_children, NULL, NULL };

/* The request, and where memory is that might serve it. */
struct shortage {
	uint32_t device;
	uint64_t stream;
	uint64_t bytes;
	uint64_t device_free; /* as the event tells */
	bool told_free;
	uint32_t event; /* or UINT32_MAX */
	uint32_t later; /* events after it */
	struct sums all;
	struct sums own;    /* this stream's default pools of this kind */
	struct sums kind;   /* the other kind on this stream */
	struct sums others; /* other streams' default pools */
	struct sums pools;  /* private pools */
};

static bool
find_event(const struct snapshot *snapshot, const struct choices *choices,
    struct shortage *out)
{
	const struct snapshot_events *events = &snapshot->events;

	for (uint32_t i = events->count; i > 0; i--) {
		uint32_t event = i - 1;
		uint32_t device = events->device[event];

		if (events->action[event] != SNAPSHOT_OOM ||
		    !view_has(&choices->view, device))
			continue;
		out->event = event;
		out->device = device;
		out->stream = events->stream[event];
		out->bytes = events->bytes[event];
		out->device_free = events->address[event];
		out->told_free = true;
		out->later = snapshot->traces[device].first +
		    snapshot->traces[device].count - event - 1;
		return true;
	}
	return false;
}

static void
sum_up(const struct snapshot *snapshot, struct shortage *shortage)
{
	bool small = shortage->bytes <= SMALL;

	for (uint32_t i = 0; i < snapshot->segment_count; i++) {
		const struct snapshot_segment *segment = &snapshot->segments[i];

		if (segment->device != shortage->device)
			continue;
		sums_add(&shortage->all, snapshot, segment);
		sums_add(segment->pool != 0 ? &shortage->pools :
			segment->stream != shortage->stream ?
					      &shortage->others :
			segment->small == small ? &shortage->own :
						  &shortage->kind,
		    snapshot, segment);
	}
}

/* ---- Causes ---------------------------------------------------------- */

/* `causes` is a list of {cause, bytes, text}. */
static void add_cause(json_t *causes, const char *name, uint64_t bytes,
    const char *format, ...) __attribute__((format(printf, 4, 5)));

static void
add_cause(
    json_t *causes, const char *name, uint64_t bytes, const char *format, ...)
{
	json_t *one = json_object();
	va_list args;

	va_start(args, format);
	json_object_set_new(one, "cause", json_string(name));
	put_number(one, "bytes", bytes);
	json_object_set_new(one, "text", json_vsprintf(format, args));
	va_end(args);
	json_array_append_new(causes, one);
}

static void
find_own_causes(const struct shortage *shortage, json_t *causes)
{
	const struct sums *own = &shortage->own;

	if (own->largest_free >= shortage->bytes)
		add_cause(causes, "fits", own->largest_free,
		    "It fits now: a free block of %s is in the stream's own "
		    "pool. The snapshot is from after memory was freed, or "
		    "the allocator did not look again.",
		    size_text(own->largest_free));
	else if (own->free >= shortage->bytes)
		add_cause(causes, "fragmentation", own->free,
		    "Fragmentation: the stream's own pool has %s free, but in "
		    "%" PRIu64 " pieces of at most %s. Expandable segments "
		    "(expandable_segments:True) map such pieces together.",
		    size_text(own->free), own->free_blocks,
		    size_text(own->largest_free));
	if (shortage->kind.free >= shortage->bytes)
		add_cause(causes, "kind", shortage->kind.free,
		    "%s are free on the stream in the pool of %s blocks, "
		    "which does not serve this size.",
		    size_text(shortage->kind.free),
		    shortage->bytes <= SMALL ? "large" : "small");
	if (own->idle + shortage->kind.idle + shortage->others.idle > 0)
		add_cause(causes, "idle",
		    own->idle + shortage->kind.idle + shortage->others.idle,
		    "Nothing is in use in %" PRIu64 " segments of %s: they can "
		    "go back to the driver (empty_cache(), weir_trim()).",
		    own->idle_segments + shortage->kind.idle_segments +
			shortage->others.idle_segments,
		    size_text(own->idle + shortage->kind.idle +
			shortage->others.idle));
}

static void
find_other_causes(const struct shortage *shortage, json_t *causes)
{
	const struct sums *all = &shortage->all;

	if (shortage->others.free > 0)
		add_cause(causes, "other streams", shortage->others.free,
		    "Other streams have %s free, at most %s in a piece, which "
		    "an allocator with a pool for each stream does not reuse. "
		    "weir does; prefer:memory has it wait for them.",
		    size_text(shortage->others.free),
		    size_text(shortage->others.largest_free));
	if (all->pending > 0)
		add_cause(causes, "pending", all->pending,
		    "%s are freed and still in use on the device by streams "
		    "that were recorded on them; waiting for those gives "
		    "them back.",
		    size_text(all->pending));
	if (shortage->pools.free > 0)
		add_cause(causes, "private pools", shortage->pools.free,
		    "Private pools of graphs hold %s, of which %s are free "
		    "and serve those graphs only.",
		    size_text(shortage->pools.reserved),
		    size_text(shortage->pools.free));
	if (rounding_of(all) >= shortage->bytes)
		add_cause(causes, "rounding", rounding_of(all),
		    "Rounding takes %s in blocks that are in use.",
		    size_text(rounding_of(all)));
}

/* What there is in all, and what would be missing still. */
static void
find_total(const struct shortage *shortage, json_t *causes)
{
	uint64_t free = shortage->all.free + shortage->all.pending +
	    (shortage->told_free ? shortage->device_free : 0);

	if (free >= shortage->bytes &&
	    shortage->own.largest_free < shortage->bytes)
		add_cause(causes, "scattered", free,
		    "All that is free anywhere%s comes to %s and would do, but "
		    "it lies in pieces that are not put together.",
		    shortage->told_free ? ", the driver's memory too," : "",
		    size_text(free));
	if (free >= shortage->bytes)
		return;
	add_cause(causes, "full", shortage->bytes - free,
	    "All that is free anywhere%s comes to %s: %s would be missing "
	    "even if it were one piece. Less must be live, or the device "
	    "larger.",
	    shortage->told_free ? ", the driver's memory too," : "",
	    size_text(free), size_text(shortage->bytes - free));
}

/* ---- Telling --------------------------------------------------------- */

static bool
print_where(const struct shortage *shortage)
{
	struct table *table = table_new("lrrrrr");
	static const char *const headings[] = { "", "reserved", "allocated",
		"pending", "free", "largest free" };
	const struct {
		const char *name;
		const struct sums *sums;
	} rows[] = {
		{ "this stream's pool", &shortage->own },
		{ "its pool of the other kind", &shortage->kind },
		{ "other streams", &shortage->others },
		{ "private pools", &shortage->pools },
		{ "all", &shortage->all },
	};
	bool printed;

	for (size_t i = 0; i < 6; i++)
		table_add(table, "%s", headings[i]);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct sums *sums = rows[i].sums;

		table_add(table, "%s", rows[i].name);
		table_add(table, "%s", size_text(sums->reserved));
		table_add(table, "%s", size_text(sums->allocated));
		table_add(table, "%s", size_text(sums->pending));
		table_add(table, "%s", size_text(sums->free));
		table_add(table, "%s", size_text(sums->largest_free));
	}
	printed = table_print(table, true);
	table_free(table);
	return printed;
}

static void
print_summary(const struct snapshot *snapshot, const struct shortage *shortage)
{
	char text[VIEW_TEXT];

	printf("a request of %s on stream %" PRIx64 " of device %" PRIu32 " %s",
	    size_text(shortage->bytes), shortage->stream, shortage->device,
	    shortage->event == UINT32_MAX ? "is asked about" : "failed");
	if (shortage->told_free)
		printf("; the driver had %s free",
		    size_text(shortage->device_free));
	putchar('\n');
	if (shortage->event != UINT32_MAX)
		printf("asked for by %s\n",
		    site_text(snapshot, snapshot->events.stack[shortage->event],
			text));
	if (shortage->later > 0)
		printf("the snapshot is %s events younger than the failure\n",
		    count_text(shortage->later, text));
	putchar('\n');
}

static bool
print_text(const struct snapshot *snapshot, const struct shortage *shortage,
    const json_t *causes, const struct holders *holders)
{
	const json_t *one;
	char text[VIEW_TEXT];
	size_t i;

	print_summary(snapshot, shortage);
	json_array_foreach(causes, i, one)
	{
		printf(
		    "- %s\n", json_string_value(json_object_get(one, "text")));
	}
	if (json_array_size(causes) == 0)
		puts("- No free memory of this allocator stood in the way: "
		     "what it holds is in use.");
	putchar('\n');
	if (!print_where(shortage))
		return false;
	puts("\nmost is held by");
	for (i = 0; i < holders->count && i < TOP; i++)
		printf("  %s  %s\n", size_text(holders->items[i].bytes),
		    site_text(snapshot, holders->items[i].stack, text));
	return true;
}

static json_t *
all_json(const struct snapshot *snapshot, const char *path,
    const struct shortage *shortage, json_t *causes)
{
	json_t *object = json_object();
	const struct {
		const char *name;
		const struct sums *sums;
	} parts[] = {
		{ "own_pool", &shortage->own },
		{ "other_kind", &shortage->kind },
		{ "other_streams", &shortage->others },
		{ "private_pools", &shortage->pools },
		{ "all", &shortage->all },
	};

	json_object_set_new(object, "snapshot", json_string(path));
	put_number(object, "device", shortage->device);
	put_number(object, "stream", shortage->stream);
	put_number(object, "size_bytes", shortage->bytes);
	json_object_set_new(object, "device_free_bytes",
	    shortage->told_free ?
		json_integer((json_int_t)shortage->device_free) :
		json_null());
	put_number(object, "later_events", shortage->later);
	json_object_set_new(object, "frames",
	    stack_json(snapshot,
		shortage->event == UINT32_MAX ?
		    0 :
		    snapshot->events.stack[shortage->event]));
	json_object_set(object, "causes", causes);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		json_t *sums = json_object();

		put_sums(sums, parts[i].sums);
		json_object_set_new(object, parts[i].name, sums);
	}
	return object;
}

static int
tell(const struct snapshot *snapshot, const struct view_args *args)
{
	const struct choices *choices = (const struct choices *)args;
	struct shortage shortage = {
		.device = args->device < 0 ? 0 : (uint32_t)args->device,
		.stream = choices->stream,
		.bytes = choices->bytes,
		.event = UINT32_MAX,
	};
	json_t *causes;
	struct holders holders;
	int status = TOOL_NO;

	if (choices->bytes == 0 && !find_event(snapshot, choices, &shortage)) {
		complain("%s: the trace has no 'oom' event; --size says what "
			 "request to ask about",
		    args->paths[0]);
		return TOOL_NO;
	}
	if (!holders_find(snapshot, (int)shortage.device, &holders))
		return TOOL_NO;
	sum_up(snapshot, &shortage);
	causes = json_array();
	find_own_causes(&shortage, causes);
	find_other_causes(&shortage, causes);
	find_total(&shortage, causes);
	if (args->json)
		status = print_json(
		    all_json(snapshot, args->paths[0], &shortage, causes));
	else if (print_text(snapshot, &shortage, causes, &holders))
		status = TOOL_DONE;
	json_decref(causes);
	holders_drop(&holders);
	return status;
}

int
cmd_oom(int argc, char **argv)
{
	struct choices choices = { 0 };

	return view_run(&argp_oom, argc, argv, &choices.view, tell);
}
