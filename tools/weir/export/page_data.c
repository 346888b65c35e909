/*
 * The columns of a page, from a table that says where each column's values are.
 *
 * Addresses are distances from the lowest address, and times are distances from
 * the first time, because a page counts in doubles and both must be exact. A
 * stream is written as its place in the column of handles.
 */
#include "tools/weir/export/page_data.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tools/weir/export/packer.h"
#include "tools/weir/progress.h"
#include "tools/weir/reading/snapshot_callers.h"
#include "tools/weir/reading/snapshot_faults.h"
#include "tools/weir/reading/snapshot_leaks.h"
#include "tools/weir/reading/snapshot_sites.h"
#include "tools/weir/reading/snapshot_verdict.h"
#include "tools/weir/tool.h"

/* Doubles hold every whole number up to here. */
#define EXACT ((uint64_t)1 << 53)

enum { DATA_VERSION = 5 };

/* The sources of a page's data. */
struct page_data {
	const struct snapshot *snapshot;
	const char *title;
	uint64_t base; /* the lowest address */
	int64_t start; /* the first time */
	uint64_t *streams;
	uint32_t stream_count;
	uint8_t *grades; /* enum site_grade of each frame */
	struct callers *callers;
	uint32_t *places[CALLERS]; /* caller_place() of each stack */
	char *verdicts;   /* JSON: why the last request of a device failed */
	char *findings;   /* JSON: faults, and stacks that may leak */
	char *what_if;    /* JSON: held memory under other settings */
	char *advice;     /* JSON: settings that help, by device */
	uint32_t devices; /* page-locked memory of device d is shown as device
			     `devices` + d */
};

/* ---- Addresses, times, streams ---------------------------------------- */

static int
compare_streams(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double
stream_place(const struct page_data *page, uint64_t stream)
{
	const uint64_t *found = bsearch(&stream, page->streams,
	    page->stream_count, sizeof(stream), compare_streams);

	return (double)(found - page->streams);
}

/* The number of segments, with those of page-locked host memory. */
static uint32_t
segments_of(const struct snapshot *s)
{
	return s->segment_count + s->host_count;
}

/* Collect the handles of all events, segments and blocks: sorted, each once. */
static bool
collect_streams(struct page_data *page)
{
	const struct snapshot *s = page->snapshot;
	size_t most = (size_t)s->events.count + segments_of(s) + s->block_count;
	uint64_t *all = malloc((most + 1) * sizeof(*all));
	size_t n = 0;

	if (all == NULL)
		return false;
	for (uint32_t i = 0; i < s->events.count; i++)
		if (n == 0 || all[n - 1] != s->events.stream[i])
			all[n++] = s->events.stream[i];
	for (uint32_t i = 0; i < segments_of(s); i++)
		if (n == 0 || all[n - 1] != s->segments[i].stream)
			all[n++] = s->segments[i].stream;
	for (uint32_t i = 0; i < s->block_count; i++)
		if (n == 0 || all[n - 1] != s->blocks[i].stream)
			all[n++] = s->blocks[i].stream;
	qsort(all, n, sizeof(*all), compare_streams);
	page->streams = all;
	page->stream_count = 0;
	for (size_t i = 0; i < n; i++)
		if (i == 0 || all[i] != all[i - 1])
			all[page->stream_count++] = all[i];
	return true;
}

/* Find the grade of each frame, so that the page names the same frame as the
 * site of a stack as the command does. */
static bool
grade_frames(struct page_data *page)
{
	const struct snapshot *s = page->snapshot;

	page->grades = malloc((size_t)s->frame_count + 1);
	for (uint32_t i = 0; page->grades != NULL && i < s->frame_count; i++)
		page->grades[i] = (uint8_t)site_grade(s, i);
	return page->grades != NULL;
}

/* Find the callers by which the command tells stacks of one site apart. */
static bool
place_callers(struct page_data *page)
{
	uint32_t count = page->snapshot->stack_count;

	page->callers = callers_new(page->snapshot);
	for (int c = 0; c < CALLERS && page->callers != NULL; c++) {
		uint32_t *places = calloc((size_t)count + 1, sizeof(*places));

		page->places[c] = places;
		if (places == NULL)
			return false;
		for (uint32_t i = 0; i < count; i++)
			places[i] = caller_place(page->callers, i, c);
	}
	return page->callers != NULL;
}

/* The verdict of `weir oom` on a device's last failure, for the page. */
static json_t *
judge(const struct page_data *page, uint32_t device)
{
	const struct snapshot *s = page->snapshot;
	struct verdict verdict;
	json_t *one = NULL;
	char text[CALLERS_TEXT];

	if (!verdict_last_failure(s, (int)device, &verdict))
		return NULL;
	verdict.callers = page->callers;
	if (verdict_find(s, &verdict)) {
		one = json_object();
		put_number(one, "device", device);
		put_number(
		    one, "event", verdict.event - s->traces[device].first);
		json_object_set_new(one, "headline",
		    json_string(verdict_headline(&verdict, text)));
		json_object_set_new(
		    one, "site", json_string(verdict_site(s, &verdict, text)));
		json_object_set(one, "causes", verdict.causes);
	}
	verdict_drop(&verdict);
	return one;
}

static bool
judge_failures(struct page_data *page)
{
	json_t *list = json_array();

	for (uint32_t d = 0; d < page->snapshot->trace_count; d++) {
		json_t *one = judge(page, d);

		if (one != NULL)
			json_array_append_new(list, one);
	}
	page->verdicts = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	return page->verdicts != NULL;
}

/* A fault with its address as text, since a page counts in doubles. */
static json_t *
fault_for_page(const json_t *fault)
{
	const json_t *address = json_object_get(fault, "address");
	char text[32] = "";

	if (address != NULL)
		snprintf(text, sizeof(text), "0x%" PRIx64,
		    (uint64_t)json_integer_value(address));
	return json_pack("{s:O, s:O, s:s}", "rule",
	    json_object_get(fault, "rule"), "what",
	    json_object_get(fault, "what"), "address", text);
}

/* The faults that `weir check` finds: their number on each device, and the
 * first few of each. */
static json_t *
faults_for_page(const struct snapshot *snapshot)
{
	const struct view_args all = { .device = VIEW_ALL_DEVICES };
	struct faults faults = { .list = json_array() };
	json_t *devices = json_object();
	const json_t *fault;
	size_t i;

	faults_find(snapshot, &all, &faults);
	json_array_foreach(faults.list, i, fault)
	{
		char key[16];
		json_t *one;

		snprintf(key, sizeof(key), "%" JSON_INTEGER_FORMAT,
		    json_integer_value(json_object_get(fault, "device")));
		one = json_object_get(devices, key);
		if (one == NULL) {
			one = json_pack("{s:i, s:[]}", "count", 0, "first");
			json_object_set_new(devices, key, one);
		}
		json_integer_set(json_object_get(one, "count"),
		    1 + json_integer_value(json_object_get(one, "count")));
		if (json_array_size(json_object_get(one, "first")) <
		    PAGE_FAULTS)
			json_array_append_new(json_object_get(one, "first"),
			    fault_for_page(fault));
	}
	json_decref(faults.list);
	if (!faults.failed)
		return devices;
	json_decref(devices);
	return NULL;
}

/* The stacks that `weir leaks` suspects, the first few of each device. */
static json_t *
leaks_for_page(const struct snapshot *snapshot)
{
	const struct view_args all = { .device = VIEW_ALL_DEVICES };
	struct suspects found = { 0 };
	json_t *list = NULL;

	if (leaks_find(snapshot, &all, LEAKS_LEAST, &found))
		list = json_array();
	for (size_t i = 0; list != NULL && i < found.count; i++) {
		const struct suspect *suspect = &found.items[i];
		json_t *one;

		if (i >= PAGE_SUSPECTS)
			break;
		one = json_object();
		put_number(one, "device", suspect->device);
		put_number(one, "stack", suspect->stack);
		put_number(one, "bytes", suspect->live_bytes);
		put_number(one, "blocks", suspect->live);
		put_number(one, "allocs", suspect->allocs);
		put_number(one, "frees", suspect->frees);
		json_array_append_new(list, one);
	}
	free(found.items);
	return list;
}

/* Collect the sentences' facts that the page cannot find itself. */
static bool
find_for_page(struct page_data *page)
{
	json_t *faults = faults_for_page(page->snapshot);
	json_t *leaks = leaks_for_page(page->snapshot);
	json_t *all = NULL;

	if (faults != NULL && leaks != NULL)
		all = json_pack("{s:O, s:O}", "faults", faults, "leaks", leaks);
	if (all != NULL)
		page->findings = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	json_decref(faults);
	json_decref(leaks);
	page->what_if = strdup("[]");
	page->advice = strdup("[]");
	return page->findings != NULL && page->what_if != NULL &&
	    page->advice != NULL;
}

/* True if the event has an address. */
static bool
event_is_placed(const struct snapshot *s, uint64_t event)
{
	return s->events.action[event] != SNAPSHOT_OOM &&
	    s->events.action[event] != SNAPSHOT_SNAPSHOT;
}

static void
widen_range(uint64_t from, uint64_t to, uint64_t *low, uint64_t *high)
{
	if (from < *low)
		*low = from;
	if (to > *high)
		*high = to;
}

/* Find the lowest address. False, and a complaint, if a double cannot hold all
 * distances from it. */
static bool
find_page_base(struct page_data *page)
{
	const struct snapshot *s = page->snapshot;
	uint64_t low = UINT64_MAX;
	uint64_t high = 0;

	for (uint32_t i = 0; i < s->events.count; i++)
		if (event_is_placed(s, i))
			widen_range(s->events.address[i], s->events.address[i],
			    &low, &high);
	for (uint32_t i = 0; i < segments_of(s); i++)
		widen_range(s->segments[i].address, s->segments[i].address,
		    &low, &high);
	for (uint32_t i = 0; i < s->block_count; i++)
		widen_range(
		    s->blocks[i].address, s->blocks[i].address, &low, &high);
	page->base = low <= high ? low : 0;
	if (low > high || high - low < EXACT)
		return true;
	complain("addresses from 0x%" PRIx64 " to 0x%" PRIx64
		 " are too far apart to be shown",
	    low, high);
	return false;
}

static void
find_start(struct page_data *page)
{
	const struct snapshot *s = page->snapshot;
	int64_t start = INT64_MAX;

	for (uint32_t i = 0; i < s->events.count; i++)
		if (s->events.time_us[i] != 0 && s->events.time_us[i] < start)
			start = s->events.time_us[i];
	for (uint32_t i = 0; i < s->annotation_count; i++)
		if (s->annotations[i].time_us < start)
			start = s->annotations[i].time_us;
	page->start = start == INT64_MAX ? 0 : start;
}

/* ---- Columns ----------------------------------------------------------- */

/* The form in which a number is written. */
enum type { U8, U32, F64 };

static const char *const type_names[] = { "u8", "u32", "f64" };
static const size_t type_sizes[] = { 1, 4, 8 };

/* The meaning of a number, which says how its value is written. */
enum meaning {
	PLAIN,
	DEVICE,  /* of a segment; page-locked memory has devices of its own */
	SIGNED,  /* 64 bits with a sign */
	ADDRESS, /* written as the distance from the base */
	PLACE,   /* of an event: its address, or for an oom event free bytes */
	TIME,    /* written as the distance from the start; 0 is none */
	STREAM,  /* a handle, written as its place among the streams */
	LOW,     /* the low 32 bits of 64 */
	HIGH,    /* the high 32 bits of 64 */
	LINE,    /* 0 for none */
	END,     /* a stage: 0 for a begin, 1 for an end */
};

/* The arrays whose rows have the values of columns. */
enum rows {
	TITLE,
	VERDICTS,
	FINDINGS,
	WHAT_IF,
	ADVICE,
	TRACES,
	EVENT_ACTION,
	EVENT_ADDRESS,
	EVENT_BYTES,
	EVENT_STREAM,
	EVENT_TIME,
	EVENT_STACK,
	EVENT_POOL,
	EVENT_CONTEXT,
	EVENT_METADATA,
	SEGMENTS,
	BLOCKS,
	ANNOTATIONS,
	SETTINGS,
	ACTIONS,
	STREAMS,
	POOLS,
	FRAMES,
	GRADES,
	STACKS,
	NEAR_CALLERS,
	FAR_CALLERS,
	STACK_FRAMES,
	STRINGS,
	TEXT,
};

struct array {
	const void *first;
	size_t stride;
	uint64_t count;
};

struct column {
	const char *name;
	enum type type;
	enum rows rows;
	size_t offset; /* of the field in its row */
	size_t width;  /* bytes of the field */
	enum meaning meaning;
};

#define FIELD(row, member)                                                     \
	offsetof(struct snapshot_##row, member),                               \
	    sizeof(((struct snapshot_##row *)NULL)->member)
#define WHOLE(type) 0, sizeof(type)

/* The columns, by the names that tools/viewer/src/data.js reads. */
static const struct column columns[] = {
	{ "title", U8, TITLE, WHOLE(char), PLAIN },
	{ "verdicts", U8, VERDICTS, WHOLE(char), PLAIN },
	{ "findings", U8, FINDINGS, WHOLE(char), PLAIN },
	{ "what_if", U8, WHAT_IF, WHOLE(char), PLAIN },
	{ "advice", U8, ADVICE, WHOLE(char), PLAIN },
	{ "trace_first", U32, TRACES, FIELD(trace, first), PLAIN },
	{ "trace_events", U32, TRACES, FIELD(trace, count), PLAIN },
	{ "event_action", U8, EVENT_ACTION, WHOLE(uint8_t), PLAIN },
	{ "event_addr", F64, EVENT_ADDRESS, WHOLE(uint64_t), PLACE },
	{ "event_size", F64, EVENT_BYTES, WHOLE(uint64_t), PLAIN },
	{ "event_stream", U32, EVENT_STREAM, WHOLE(uint64_t), STREAM },
	{ "event_time", F64, EVENT_TIME, WHOLE(int64_t), TIME },
	{ "event_stack", U32, EVENT_STACK, WHOLE(uint32_t), PLAIN },
	{ "event_pool", U32, EVENT_POOL, WHOLE(uint32_t), PLAIN },
	{ "event_context", U32, EVENT_CONTEXT, WHOLE(uint32_t), PLAIN },
	{ "event_metadata", U32, EVENT_METADATA, WHOLE(uint32_t), PLAIN },
	{ "segment_device", U32, SEGMENTS, FIELD(segment, device), DEVICE },
	{ "segment_addr", F64, SEGMENTS, FIELD(segment, address), ADDRESS },
	{ "segment_size", F64, SEGMENTS, FIELD(segment, bytes), PLAIN },
	{ "segment_stream", U32, SEGMENTS, FIELD(segment, stream), STREAM },
	{ "segment_pool", U32, SEGMENTS, FIELD(segment, pool), PLAIN },
	{ "segment_small", U8, SEGMENTS, FIELD(segment, small), PLAIN },
	{ "segment_expandable", U8, SEGMENTS, FIELD(segment, expandable),
	    PLAIN },
	{ "segment_stack", U32, SEGMENTS, FIELD(segment, stack), PLAIN },
	{ "segment_first", U32, SEGMENTS, FIELD(segment, first_block), PLAIN },
	{ "segment_blocks", U32, SEGMENTS, FIELD(segment, block_count), PLAIN },
	{ "block_addr", F64, BLOCKS, FIELD(block, address), ADDRESS },
	{ "block_size", F64, BLOCKS, FIELD(block, bytes), PLAIN },
	{ "block_requested", F64, BLOCKS, FIELD(block, requested_bytes),
	    PLAIN },
	{ "block_stream", U32, BLOCKS, FIELD(block, stream), STREAM },
	{ "block_state", U8, BLOCKS, FIELD(block, state), PLAIN },
	{ "block_stack", U32, BLOCKS, FIELD(block, stack), PLAIN },
	{ "annotation_name", U32, ANNOTATIONS, FIELD(annotation, name), PLAIN },
	{ "annotation_time", F64, ANNOTATIONS, FIELD(annotation, time_us),
	    TIME },
	{ "annotation_end", U8, ANNOTATIONS, FIELD(annotation, stage), END },
	{ "annotation_device", U32, ANNOTATIONS, FIELD(annotation, device),
	    PLAIN },
	{ "setting_name", U32, SETTINGS, FIELD(setting, name), PLAIN },
	{ "setting_value", U32, SETTINGS, FIELD(setting, value), PLAIN },
	{ "action_name", U32, ACTIONS, WHOLE(uint32_t), PLAIN },
	{ "stream_low", U32, STREAMS, WHOLE(uint64_t), LOW },
	{ "stream_high", U32, STREAMS, WHOLE(uint64_t), HIGH },
	{ "pool_first", F64, POOLS, FIELD(pool, first), SIGNED },
	{ "pool_second", F64, POOLS, FIELD(pool, second), SIGNED },
	{ "frame_name", U32, FRAMES, FIELD(frame, name), PLAIN },
	{ "frame_file", U32, FRAMES, FIELD(frame, file), PLAIN },
	{ "frame_line", U32, FRAMES, FIELD(frame, line), LINE },
	{ "frame_grade", U8, GRADES, WHOLE(uint8_t), PLAIN },
	{ "stack_first", U32, STACKS, FIELD(stack, first), PLAIN },
	{ "stack_frames", U32, STACKS, FIELD(stack, count), PLAIN },
	{ "stack_near", U32, NEAR_CALLERS, WHOLE(uint32_t), PLAIN },
	{ "stack_far", U32, FAR_CALLERS, WHOLE(uint32_t), PLAIN },
	{ "stack_frame", U32, STACK_FRAMES, WHOLE(uint32_t), PLAIN },
	{ "string_start", F64, STRINGS, WHOLE(uint64_t), PLAIN },
	{ "text", U8, TEXT, WHOLE(char), PLAIN },
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static struct array
array_of_events(const struct snapshot_events *events, enum rows rows)
{
	const struct array arrays[] = {
		[EVENT_ACTION] = { events->action, 1, events->count },
		[EVENT_ADDRESS] = { events->address, 8, events->count },
		[EVENT_BYTES] = { events->bytes, 8, events->count },
		[EVENT_STREAM] = { events->stream, 8, events->count },
		[EVENT_TIME] = { events->time_us, 8, events->count },
		[EVENT_STACK] = { events->stack, 4, events->count },
		[EVENT_POOL] = { events->pool, 4, events->count },
		[EVENT_CONTEXT] = { events->context, 4, events->count },
		[EVENT_METADATA] = { events->metadata, 4, events->count },
	};

	return arrays[rows];
}

#define ARRAY(rows, count)                                                     \
	{                                                                      \
		rows, sizeof(*(rows)), count                                   \
	}

static struct array
array_of(const struct page_data *page, enum rows rows)
{
	const struct snapshot *s = page->snapshot;
	const struct array arrays[] = {
		[TITLE] = { page->title, 1, strlen(page->title) },
		[VERDICTS] = { page->verdicts, 1, strlen(page->verdicts) },
		[FINDINGS] = { page->findings, 1, strlen(page->findings) },
		[WHAT_IF] = { page->what_if, 1, strlen(page->what_if) },
		[ADVICE] = { page->advice, 1, strlen(page->advice) },
		[TRACES] = ARRAY(s->traces, s->trace_count),
		[SEGMENTS] = ARRAY(s->segments, segments_of(s)),
		[BLOCKS] = ARRAY(s->blocks, s->block_count),
		[ANNOTATIONS] = ARRAY(s->annotations, s->annotation_count),
		[SETTINGS] = ARRAY(s->settings, s->setting_count),
		[ACTIONS] = ARRAY(s->actions, s->action_count),
		[STREAMS] = ARRAY(page->streams, page->stream_count),
		[POOLS] = ARRAY(s->pools, s->pool_count),
		[FRAMES] = ARRAY(s->frames, s->frame_count),
		[GRADES] = ARRAY(page->grades, s->frame_count),
		[STACKS] = ARRAY(s->stacks, s->stack_count),
		[NEAR_CALLERS] =
		    ARRAY(page->places[CALLER_NEAR], s->stack_count),
		[FAR_CALLERS] = ARRAY(page->places[CALLER_FAR], s->stack_count),
		[STACK_FRAMES] = ARRAY(s->stack_frames, s->stack_frame_count),
		[STRINGS] = ARRAY(s->strings, s->string_count),
		[TEXT] = ARRAY(s->text, s->text_bytes),
	};

	if (rows >= EVENT_ACTION && rows <= EVENT_METADATA)
		return array_of_events(&s->events, rows);
	return arrays[rows];
}

#undef ARRAY

/* Read a field of 1, 2, 4 or 8 bytes. */
static uint64_t
field_read(const unsigned char *at, size_t width)
{
	uint16_t two;
	uint32_t four;
	uint64_t eight;

	switch (width) {
	case 1:
		return *at;
	case 2:
		memcpy(&two, at, 2);
		return two;
	case 4:
		memcpy(&four, at, 4);
		return four;
	default:
		memcpy(&eight, at, 8);
		return eight;
	}
}

static double
field_value(const struct page_data *page, enum meaning meaning, uint64_t field,
    uint64_t row)
{
	const struct snapshot *s = page->snapshot;

	switch (meaning) {
	case DEVICE:
		return (double)(row < s->segment_count ? field :
							 page->devices + field);
	case SIGNED:
		return (double)(int64_t)field;
	case ADDRESS:
		return (double)(field - page->base);
	case PLACE:
		if (s->events.action[row] == SNAPSHOT_OOM)
			return (double)field;
		return event_is_placed(s, row) ? (double)(field - page->base) :
						 0;
	case TIME:
		return field == 0 ?
		    0 :
		    (double)(int64_t)field - (double)page->start;
	case STREAM:
		return stream_place(page, field);
	case LINE:
		return field == UINT32_MAX ? 0 : (double)field;
	case LOW:
		return (double)(field & UINT32_MAX);
	case HIGH:
		return (double)(field >> 32);
	case END:
		return strcmp(snapshot_text(s, (uint32_t)field), "START") != 0;
	case PLAIN:
	default:
		return (double)field;
	}
}

/* ---- The data ---------------------------------------------------------- */

/* The list of columns as JSON. The caller frees it. NULL without memory. */
static char *
describe_columns(const struct page_data *page)
{
	uint64_t offset = 0;
	size_t length;
	char *text;
	FILE *out = open_memstream(&text, &length);

	if (out == NULL)
		return NULL;
	fprintf(out,
	    "{\"base\":\"%" PRIu64 "\",\"pinned_from\":%" PRIu32
	    ",\"columns\":{",
	    page->base, page->devices);
	for (size_t i = 0; i < COLUMNS; i++) {
		const struct column *column = &columns[i];
		uint64_t count = array_of(page, column->rows).count;

		fprintf(out, "%s\"%s\":[\"%s\",%" PRIu64 ",%" PRIu64 "]",
		    i == 0 ? "" : ",", column->name, type_names[column->type],
		    offset, count);
		offset += (count * type_sizes[column->type] + 7) / 8 * 8;
	}
	fputs("}}", out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* Add a number in little-endian order on any machine. */
static void
add_little_endian(struct packer *packer, uint64_t number, size_t size)
{
	unsigned char bytes[8];

	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(number >> (8 * i));
	packer_add(packer, bytes, size);
}

/* A page that is being written. */
struct writing {
	struct packer *packer;
	struct progress progress;
	uint64_t all; /* values of all columns */
	uint64_t done;
};

static void
add_column(struct writing *w, const struct page_data *page,
    const struct column *column)
{
	struct array array = array_of(page, column->rows);
	const unsigned char *at = array.first;

	for (uint64_t i = 0; i < array.count; i++, at += array.stride) {
		if (++w->done % PROGRESS_STEPS == 0)
			progress_part(
			    &w->progress, "writing the page", w->done, w->all);
		uint64_t field = field_read(at + column->offset, column->width);
		double value = field_value(page, column->meaning, field, i);
		uint64_t bits;

		if (column->type != F64)
			bits = (uint64_t)value;
		else
			memcpy(&bits, &value, sizeof(bits));
		add_little_endian(w->packer, bits, type_sizes[column->type]);
	}
	packer_align(w->packer);
}

static void
add_columns(struct packer *packer, const struct page_data *page)
{
	struct writing w = { .packer = packer };

	for (size_t i = 0; i < COLUMNS; i++)
		w.all += array_of(page, columns[i].rows).count;
	progress_begin(&w.progress, PROGRESS_AFTER_MS);
	for (size_t i = 0; i < COLUMNS; i++)
		add_column(&w, page, &columns[i]);
	progress_end(&w.progress);
}

struct page_data *
page_data_new(const struct snapshot *snapshot, const char *title)
{
	struct page_data *page = calloc(1, sizeof(*page));

	if (page == NULL) {
		complain("out of memory");
		return NULL;
	}
	page->snapshot = snapshot;
	page->title = title;
	page->devices = snapshot_device_count(snapshot);
	if (!find_page_base(page))
		goto drop;
	find_start(page);
	if (collect_streams(page) && grade_frames(page) &&
	    place_callers(page) && judge_failures(page) && find_for_page(page))
		return page;
	complain("out of memory");
drop:
	page_data_free(page);
	return NULL;
}

/* Replace a text of the page by JSON. */
static bool
replace_json(char **text, const json_t *json)
{
	char *now = json_dumps(json, JSON_COMPACT);

	if (now == NULL) {
		complain("out of memory");
		return false;
	}
	free(*text);
	*text = now;
	return true;
}

bool
page_data_add_what_if(struct page_data *page, const json_t *what_if)
{
	return replace_json(&page->what_if, what_if);
}

bool
page_data_add_advice(struct page_data *page, const json_t *advice)
{
	return replace_json(&page->advice, advice);
}

void
page_data_free(struct page_data *page)
{
	if (page != NULL) {
		free(page->streams);
		free(page->grades);
		callers_free(page->callers);
		for (int c = 0; c < CALLERS; c++)
			free(page->places[c]);
		free(page->verdicts);
		free(page->findings);
		free(page->what_if);
		free(page->advice);
	}
	free(page);
}

bool
page_data_write(const struct page_data *page, FILE *out)
{
	struct packer *packer = malloc(sizeof(*packer));
	char *text = describe_columns(page);
	bool opened =
	    packer != NULL && text != NULL && packer_open(packer, out);

	if (opened) {
		packer_add(packer, "weirview", 8);
		add_little_endian(packer, DATA_VERSION, 4);
		add_little_endian(packer, strlen(text), 4);
		packer_add(packer, text, strlen(text));
		packer_align(packer);
		add_columns(packer, page);
		packer_close(packer);
	} else {
		complain("out of memory");
	}
	free(text);
	free(packer);
	return opened;
}
