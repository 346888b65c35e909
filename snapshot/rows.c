/*
 * Turns dicts into rows: frames, events, blocks, segments and annotations. The
 * top container becomes the snapshot.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "snapshot/rows.h"
#include "snapshot/tuning.h"

/* The largest sum of all bytes of a kind, 4 EiB, so that sums cannot overflow.
 */
static const uint64_t bytes_max = UINT64_C(1) << 62;

/* The address of a block without one in the file; it follows from the blocks
 * before. */
static const uint64_t no_address = UINT64_MAX;

/* The known keys of a dict. */
struct fields {
	struct builder *builder;
	const char *of; /* names the dict in messages: "an event" */
	uint64_t present;
	const struct value *values[KEY_END];
};

static bool
has(const struct fields *fields, enum build_word key)
{
	return (fields->present >> key & 1) != 0;
}

static void
find_fields(struct fields *fields, const struct value *pairs, size_t count)
{
	fields->present = 0;
	for (size_t i = 0; i + 1 < count; i += 2) {
		uint32_t key = pairs[i].id;

		if (pairs[i].kind != VALUE_STRING || key >= KEY_END)
			continue;
		fields->present |= UINT64_C(1) << key;
		fields->values[key] = &pairs[i + 1];
	}
}

const struct value *
build_get(const struct value *pairs, size_t count, enum build_word key)
{
	for (size_t i = 0; i + 1 < count; i += 2)
		if (pairs[i].kind == VALUE_STRING && pairs[i].id == key)
			return &pairs[i + 1];
	return NULL;
}

static const char *
key_text(const struct fields *fields, enum build_word key)
{
	return snapshot_text(fields->builder->snapshot, key);
}

/* ---- Values of fields ------------------------------------------------ */

static enum weir_status
wrong_field(const struct fields *fields, enum build_word key, const char *what)
{
	return status_set(WEIR_EINVAL, "'%s' of %s %s", key_text(fields, key),
	    fields->of, what);
}

/* Read any 64 bits, as an address or a stream; 0 if the key is absent. */
static enum weir_status
read_word(const struct fields *fields, enum build_word key, uint64_t *out)
{
	const struct value *value = fields->values[key];

	*out = 0;
	if (!has(fields, key) || value->kind == VALUE_NONE)
		return WEIR_OK;
	if (value->kind == VALUE_INTEGER || value->kind == VALUE_NATURAL ||
	    value->kind == VALUE_BOOL) {
		*out = value->natural;
		return WEIR_OK;
	}
	/* JSON of a program that stores all numbers as doubles. */
	if (value->kind == VALUE_REAL && value->real >= 0 &&
	    value->real < 0x1p64) {
		*out = (uint64_t)value->real;
		return WEIR_OK;
	}
	return wrong_field(fields, key, "is not a number of 64 bits");
}

static enum weir_status
take_bytes(const struct fields *fields, enum build_word key, uint64_t *out)
{
	enum weir_status status = read_word(fields, key, out);

	if (status == WEIR_OK && *out > WEIR_SIZE_MAX)
		return wrong_field(fields, key, "is below 0 or above 1 EiB");
	return status;
}

/* Read a number that counts something, up to `max`. */
static enum weir_status
read_count(const struct fields *fields, enum build_word key, uint32_t max,
    uint32_t *out)
{
	uint64_t number;
	enum weir_status status = read_word(fields, key, &number);

	if (status == WEIR_OK && number > max)
		return status_set(WEIR_EINVAL,
		    "'%s' of %s is not from 0 to %" PRIu32,
		    key_text(fields, key), fields->of, max);
	*out = (uint32_t)number;
	return status;
}

/* Microseconds; 0 if the value is not a time. */
static int64_t
take_time(const struct fields *fields)
{
	uint64_t time_us;

	if (read_word(fields, KEY_TIME_US, &time_us) != WEIR_OK ||
	    time_us > INT64_MAX / 2)
		return 0;
	return (int64_t)time_us;
}

/* The string of a key; "" if it is absent or something else. */
static uint32_t
take_string(const struct fields *fields, enum build_word key)
{
	if (!has(fields, key) || fields->values[key]->kind != VALUE_STRING)
		return WORD_EMPTY;
	return fields->values[key]->id;
}

static uint32_t
stack_of(struct builder *builder, const struct value *value)
{
	const struct object *object;

	if (value != NULL && value->kind == VALUE_STACK)
		return value->id;
	if (value == NULL || value->kind != VALUE_CONTAINER)
		return 0;
	object = build_object(builder, *value);
	return object->kind == OBJECT_STACK ? object->first : 0;
}

static uint32_t
read_stack(const struct fields *fields)
{
	return has(fields, KEY_FRAMES) ?
	    stack_of(fields->builder, fields->values[KEY_FRAMES]) :
	    0;
}

static uint32_t
take_pool(const struct fields *fields, enum build_word key)
{
	const struct value *value = fields->values[key];
	const struct object *object;

	if (!has(fields, key))
		return 0;
	if (value->kind == VALUE_POOL)
		return value->id;
	if (value->kind != VALUE_CONTAINER)
		return 0;
	object = build_object(fields->builder, *value);
	return object->kind == OBJECT_POOL ? object->first : 0;
}

static bool
take_bool(const struct fields *fields, enum build_word key)
{
	const struct value *value = fields->values[key];

	return has(fields, key) &&
	    (value->kind == VALUE_BOOL || value->kind == VALUE_INTEGER) &&
	    value->natural != 0;
}

/* ---- Rows ------------------------------------------------------------ */

static enum weir_status
make_frame(const struct fields *fields, uint32_t *row)
{
	struct snapshot_frame frame = {
		.name = take_string(fields, KEY_NAME),
		.file = take_string(fields, KEY_FILENAME),
		.module = take_string(fields, KEY_MODULE),
		.build_id = take_string(fields, KEY_BUILD_ID),
	};
	uint64_t line;
	enum weir_status status = read_word(fields, KEY_LINE, &line);

	if (status != WEIR_OK)
		return status;
	/* Other programs may mean something else by these keys. */
	if (frame.module == 0 || frame.build_id == 0 ||
	    read_word(fields, KEY_OFFSET, &frame.offset) != WEIR_OK)
		frame.module = frame.build_id = 0;
	frame.line = line == UINT64_MAX ? UINT32_MAX :
	    line >= UINT32_MAX          ? 0 :
					  (uint32_t)line;
	return build_frame(fields->builder, frame, row);
}

static enum weir_status
take_action(const struct fields *fields, uint8_t *out)
{
	struct snapshot *snapshot = fields->builder->snapshot;
	uint32_t name = take_string(fields, KEY_ACTION);
	uint32_t i = 0;

	while (i < snapshot->action_count && snapshot->actions[i] != name)
		i++;
	if (i == SNAPSHOT_ACTIONS_MAX)
		return wrong_field(
		    fields, KEY_ACTION, "has more than 64 names");
	if (i == snapshot->action_count)
		snapshot->actions[snapshot->action_count++] = name;
	*out = (uint8_t)i;
	return WEIR_OK;
}

static enum weir_status
make_event(const struct fields *fields, uint32_t *row)
{
	struct snapshot *snapshot = fields->builder->snapshot;
	struct snapshot_events *events = &snapshot->events;
	uint32_t i = events->count;
	enum build_word place =
	    has(fields, KEY_ADDR) ? KEY_ADDR : KEY_DEVICE_FREE;
	enum weir_status status =
	    snapshot_reserve(snapshot, SNAPSHOT_ARRAY_EVENTS, i, 1);

	if (status == WEIR_OK)
		status = take_action(fields, &events->action[i]);
	if (status == WEIR_OK)
		status = read_word(fields, place, &events->address[i]);
	if (status == WEIR_OK)
		status = take_bytes(fields, KEY_SIZE, &events->bytes[i]);
	if (status == WEIR_OK)
		status = read_word(fields, KEY_STREAM, &events->stream[i]);
	if (status != WEIR_OK)
		return status;
	events->time_us[i] = take_time(fields);
	events->stack[i] = read_stack(fields);
	events->pool[i] = take_pool(fields, KEY_POOL_ID);
	events->context[i] = take_string(fields, KEY_COMPILE_CONTEXT);
	events->metadata[i] = take_string(fields, KEY_USER_METADATA);
	events->served_by[i] = take_string(fields, KEY_SERVED_BY);
	events->device[i] = 0;
	*row = events->count++;
	return WEIR_OK;
}

/* In files of old versions a block has a list of its allocations, the latest
 * first. */
static void
take_history(const struct fields *fields, struct snapshot_block *block)
{
	const struct value *history = fields->values[KEY_HISTORY];
	const struct object *list;
	const struct object *latest;
	const struct value *size;

	if (!has(fields, KEY_HISTORY) || history->kind != VALUE_CONTAINER)
		return;
	list = build_object(fields->builder, *history);
	if (list->kind != OBJECT_LIST || list->count == 0 ||
	    list->items[0].kind != VALUE_CONTAINER)
		return;
	latest = build_object(fields->builder, list->items[0]);
	if (latest->kind != OBJECT_DICT)
		return;
	block->stack = stack_of(fields->builder,
	    build_get(latest->items, latest->count, KEY_FRAMES));
	size = build_get(latest->items, latest->count, KEY_REAL_SIZE);
	if (size != NULL && size->kind == VALUE_INTEGER && size->integer >= 0 &&
	    !has(fields, KEY_REQUESTED_SIZE))
		block->requested_bytes = size->natural;
}

static enum weir_status
take_state(const struct fields *fields, uint8_t *out)
{
	switch (take_string(fields, KEY_STATE)) {
	case WORD_INACTIVE:
		*out = SNAPSHOT_INACTIVE;
		return WEIR_OK;
	case WORD_ACTIVE:
		*out = SNAPSHOT_ACTIVE;
		return WEIR_OK;
	case WORD_PENDING:
	case WORD_AWAITING:
		*out = SNAPSHOT_PENDING;
		return WEIR_OK;
	default:
		return wrong_field(fields, KEY_STATE,
		    "is not active_allocated, active_pending_free or inactive");
	}
}

static enum weir_status
make_block(const struct fields *fields, uint32_t *row)
{
	struct snapshot *snapshot = fields->builder->snapshot;
	struct snapshot_block block = {
		.stack = read_stack(fields),
		.reports_stream = has(fields, KEY_STREAM),
		.cached = take_bool(fields, KEY_CACHED),
		.kept_apart = has(fields, KEY_CACHED) && !has(fields, KEY_HEAP),
	};
	enum weir_status status = take_state(fields, &block.state);

	if (status == WEIR_OK)
		status = take_bytes(fields, KEY_SIZE, &block.bytes);
	if (status == WEIR_OK)
		status = take_bytes(
		    fields, KEY_REQUESTED_SIZE, &block.requested_bytes);
	if (status == WEIR_OK)
		status = read_word(fields, KEY_ADDRESS, &block.address);
	if (status == WEIR_OK)
		status = read_word(fields, KEY_STREAM, &block.stream);
	if (status == WEIR_OK && has(fields, KEY_HEAP)) {
		status = read_word(fields, KEY_HEAP, &block.heap);
		if (status == WEIR_OK)
			status = read_word(fields, KEY_EPOCH, &block.epoch);
	}
	if (status == WEIR_OK)
		status = snapshot_reserve(
		    snapshot, SNAPSHOT_ARRAY_BLOCKS, snapshot->block_count, 1);
	if (status != WEIR_OK)
		return status;
	if (!has(fields, KEY_ADDRESS))
		block.address = no_address;
	take_history(fields, &block);
	if (block.requested_bytes > WEIR_SIZE_MAX)
		return wrong_field(fields, KEY_REAL_SIZE, "is above 1 EiB");
	*row = snapshot->block_count;
	snapshot->blocks[snapshot->block_count++] = block;
	return WEIR_OK;
}

/* Read the blocks of a segment. A block without an address follows the one
 * before it. */
static enum weir_status
read_blocks(const struct fields *fields, struct snapshot_segment *segment)
{
	struct snapshot *snapshot = fields->builder->snapshot;
	const struct value *value = fields->values[KEY_BLOCKS];
	const struct object *list;
	uint64_t next = segment->address;

	if (!has(fields, KEY_BLOCKS) || value->kind != VALUE_CONTAINER)
		return wrong_field(
		    fields, KEY_BLOCKS, "is not a list of blocks");
	list = build_object(fields->builder, *value);
	if (list->kind == OBJECT_LIST && list->count == 0)
		return WEIR_OK;
	if (list->kind != OBJECT_BLOCKS)
		return wrong_field(
		    fields, KEY_BLOCKS, "is not a list of blocks");
	if (list->first < fields->builder->blocks_used)
		return wrong_field(
		    fields, KEY_BLOCKS, "is the list of another segment, too");
	segment->first_block = list->first;
	segment->block_count = list->count;
	fields->builder->blocks_used = list->first + list->count;
	for (uint32_t i = 0; i < list->count; i++) {
		struct snapshot_block *block =
		    &snapshot->blocks[list->first + i];

		if (block->address == no_address)
			block->address = next;
		if (!block->reports_stream)
			block->stream = segment->stream;
		if (__builtin_add_overflow(block->address, block->bytes, &next))
			return wrong_field(fields, KEY_BLOCKS,
			    "has a block behind the end of all addresses");
	}
	return WEIR_OK;
}

static enum weir_status
take_reported_sums(
    const struct fields *fields, struct snapshot_segment *segment)
{
	enum weir_status status = take_bytes(
	    fields, KEY_ALLOCATED_SIZE, &segment->reported_allocated_bytes);

	if (status == WEIR_OK)
		status = take_bytes(
		    fields, KEY_ACTIVE_SIZE, &segment->reported_active_bytes);
	if (status == WEIR_OK)
		status = take_bytes(fields, KEY_REQUESTED_SIZE,
		    &segment->reported_requested_bytes);
	segment->reports_allocated = has(fields, KEY_ALLOCATED_SIZE);
	segment->reports_active = has(fields, KEY_ACTIVE_SIZE);
	segment->reports_requested = has(fields, KEY_REQUESTED_SIZE);
	return status;
}

static enum weir_status
make_segment(const struct fields *fields, uint32_t *row)
{
	struct snapshot *snapshot = fields->builder->snapshot;
	struct snapshot_segment segment = {
		.stack = read_stack(fields),
		.pool = take_pool(fields, KEY_SEGMENT_POOL_ID),
		.small = take_string(fields, KEY_SEGMENT_TYPE) == WORD_SMALL,
		.expandable = take_bool(fields, KEY_IS_EXPANDABLE),
	};
	enum weir_status status =
	    read_word(fields, KEY_ADDRESS, &segment.address);
	uint64_t end;

	if (status == WEIR_OK)
		status = take_bytes(fields, KEY_TOTAL_SIZE, &segment.bytes);
	if (status == WEIR_OK &&
	    __builtin_add_overflow(segment.address, segment.bytes, &end))
		status = wrong_field(
		    fields, KEY_TOTAL_SIZE, "passes the end of all addresses");
	if (status == WEIR_OK)
		status = read_word(fields, KEY_STREAM, &segment.stream);
	if (status == WEIR_OK)
		status = read_count(
		    fields, KEY_DEVICE, ROWS_DEVICES - 1, &segment.device);
	if (status == WEIR_OK)
		status = take_reported_sums(fields, &segment);
	if (status == WEIR_OK)
		status = read_blocks(fields, &segment);
	if (status == WEIR_OK)
		status = snapshot_reserve(snapshot, SNAPSHOT_ARRAY_SEGMENTS,
		    snapshot->segment_count, 1);
	if (status != WEIR_OK)
		return status;
	*row = snapshot->segment_count;
	snapshot->segments[snapshot->segment_count++] = segment;
	return WEIR_OK;
}

static enum weir_status
make_annotation(const struct fields *fields, uint32_t *row)
{
	struct snapshot *snapshot = fields->builder->snapshot;
	struct snapshot_annotation annotation = {
		.name = take_string(fields, KEY_NAME),
		.stage = take_string(fields, KEY_STAGE),
	};
	enum weir_status status = read_count(
	    fields, KEY_DEVICE, ROWS_DEVICES - 1, &annotation.device);

	if (status == WEIR_OK)
		status = snapshot_reserve(snapshot, SNAPSHOT_ARRAY_ANNOTATIONS,
		    snapshot->annotation_count, 1);
	if (status != WEIR_OK)
		return status;
	annotation.time_us = take_time(fields);
	*row = snapshot->annotation_count;
	snapshot->annotations[snapshot->annotation_count++] = annotation;
	return WEIR_OK;
}

/* The keys that identify the kind of a dict, in the order of the search. */
static const struct {
	enum build_word first;
	enum build_word second; /* both keys are required */
	enum object_kind kind;
	const char *of;
	enum weir_status (*make)(const struct fields *fields, uint32_t *row);
} rows[] = {
	{ KEY_FILENAME, KEY_NAME, OBJECT_FRAME, "a frame", make_frame },
	{ KEY_ACTION, KEY_SIZE, OBJECT_EVENT, "an event", make_event },
	{ KEY_STATE, KEY_SIZE, OBJECT_BLOCK, "a block", make_block },
	{ KEY_BLOCKS, KEY_TOTAL_SIZE, OBJECT_SEGMENT, "a segment",
	    make_segment },
	{ KEY_STAGE, KEY_NAME, OBJECT_ANNOTATION, "an annotation",
	    make_annotation },
};

enum weir_status
build_row(struct builder *builder, const struct value *pairs, size_t count,
    enum object_kind *kind, uint32_t *row)
{
	struct fields fields;

	fields.builder = builder;
	find_fields(&fields, pairs, count);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (!has(&fields, rows[i].first) ||
		    !has(&fields, rows[i].second))
			continue;
		fields.of = rows[i].of;
		*kind = rows[i].kind;
		return rows[i].make(&fields, row);
	}
	*kind = OBJECT_DICT;
	return WEIR_OK;
}

/* ---- Settings -------------------------------------------------------- */

static const char *
value_text(const struct builder *builder, struct value value, char text[32])
{
	switch (value.kind) {
	case VALUE_NONE:
		return "None";
	case VALUE_BOOL:
		return value.natural != 0 ? "True" : "False";
	case VALUE_INTEGER:
		snprintf(text, 32, "%" PRId64, value.integer);
		return text;
	case VALUE_NATURAL:
		snprintf(text, 32, "%" PRIu64, value.natural);
		return text;
	case VALUE_REAL:
		os_format_real(value.real, 17, text, 32);
		return text;
	case VALUE_STRING:
		return snapshot_text(builder->snapshot, value.id);
	default:
		return NULL;
	}
}

static enum weir_status
add_setting(struct builder *builder, const char *name, struct value value)
{
	struct snapshot *snapshot = builder->snapshot;
	struct value name_string;
	struct value value_string = value;
	enum weir_status status = WEIR_OK;
	char text[32];
	const char *said = value_text(builder, value, text);

	if (said == NULL || snapshot->setting_count == ROWS_SETTINGS)
		return WEIR_OK;
	if (value.kind != VALUE_STRING)
		status =
		    builder_string(builder, said, strlen(said), &value_string);
	if (status == WEIR_OK)
		status =
		    builder_string(builder, name, strlen(name), &name_string);
	if (status == WEIR_OK)
		status = snapshot_reserve(snapshot, SNAPSHOT_ARRAY_SETTINGS,
		    snapshot->setting_count, 1);
	if (status != WEIR_OK)
		return status;
	snapshot->settings[snapshot->setting_count++] =
	    (struct snapshot_setting){ name_string.id, value_string.id };
	return WEIR_OK;
}

/* The text of a key; NULL if it is no text. */
static const char *
key_name(const struct builder *builder, struct value key, char text[32])
{
	return key.kind == VALUE_NONE || key.kind == VALUE_BOOL ?
	    NULL :
	    value_text(builder, key, text);
}

/* Turn the values under a key into settings, down to ROWS_SETTINGS_DEPTH
 * levels. */
static enum weir_status
add_settings(struct builder *builder, const char *name, struct value value,
    unsigned depth)
{
	enum weir_status status = WEIR_OK;
	struct object dict;

	if (value.kind != VALUE_CONTAINER)
		return add_setting(builder, name, value);
	dict = *build_object(builder, value);
	if (dict.kind != OBJECT_DICT || depth == ROWS_SETTINGS_DEPTH)
		return WEIR_OK;
	for (uint32_t i = 0; i + 1 < dict.count && status == WEIR_OK; i += 2) {
		char text[32];
		char path[512];
		const char *key = key_name(builder, dict.items[i], text);

		if (key == NULL ||
		    builder->snapshot->setting_count == ROWS_SETTINGS)
			continue;
		snprintf(path, sizeof(path), "%s.%.120s", name, key);
		status =
		    add_settings(builder, path, dict.items[i + 1], depth + 1);
	}
	return status;
}

/* ---- The whole ------------------------------------------------------- */

/* Keep the segments of this list, and drop all others. */
static enum weir_status
keep_segments(struct builder *builder, const struct object *list)
{
	struct snapshot *snapshot = builder->snapshot;
	uint32_t count = list->count;

	if (list->kind == OBJECT_LIST && count == 0)
		snapshot->segment_count = 0;
	else if (list->kind != OBJECT_SEGMENTS)
		return status_set(
		    WEIR_EINVAL, "'segments' is not a list of segments");
	if (count > 0)
		memmove(snapshot->segments, snapshot->segments + list->first,
		    count * sizeof(*snapshot->segments));
	snapshot->segment_count = count;
	return WEIR_OK;
}

/* Copy the segments of page-locked host memory before keep_segments() moves
 * any. If the list is something else, there are none. */
static enum weir_status
copy_host(struct builder *builder, const struct object *top,
    struct snapshot_segment **out, uint32_t *count)
{
	const struct value *value =
	    build_get(top->items, top->count, KEY_HOST_SEGMENTS);
	const struct object *list = NULL;

	*count = 0;
	*out = NULL;
	if (value != NULL && value->kind == VALUE_CONTAINER)
		list = build_object(builder, *value);
	if (list == NULL || list->kind != OBJECT_SEGMENTS)
		return WEIR_OK;
	size_t bytes = list->count * sizeof(**out);
	*out = meta_alloc(bytes);
	if (*out == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "no host memory for reading a snapshot");
	memcpy(*out, builder->snapshot->segments + list->first, bytes);
	*count = list->count;
	return WEIR_OK;
}

/* Append them to the segments of devices. */
static enum weir_status
keep_host(struct snapshot *snapshot, const struct snapshot_segment *host,
    uint32_t count)
{
	enum weir_status status = snapshot_reserve(
	    snapshot, SNAPSHOT_ARRAY_SEGMENTS, snapshot->segment_count, count);

	if (status != WEIR_OK)
		return status;
	if (count > 0)
		memcpy(snapshot->segments + snapshot->segment_count, host,
		    count * sizeof(*host));
	snapshot->host_count = count;
	return WEIR_OK;
}

/* Move events down to index `to`, in the arrays of all fields. */
static void
move_events(
    struct snapshot_events *events, uint32_t to, uint32_t from, size_t count)
{
	memmove(&events->address[to], &events->address[from],
	    count * sizeof(events->address[0]));
	memmove(&events->bytes[to], &events->bytes[from],
	    count * sizeof(events->bytes[0]));
	memmove(&events->stream[to], &events->stream[from],
	    count * sizeof(events->stream[0]));
	memmove(&events->time_us[to], &events->time_us[from],
	    count * sizeof(events->time_us[0]));
	memmove(&events->stack[to], &events->stack[from],
	    count * sizeof(events->stack[0]));
	memmove(&events->pool[to], &events->pool[from],
	    count * sizeof(events->pool[0]));
	memmove(&events->context[to], &events->context[from],
	    count * sizeof(events->context[0]));
	memmove(&events->metadata[to], &events->metadata[from],
	    count * sizeof(events->metadata[0]));
	memmove(&events->served_by[to], &events->served_by[from],
	    count * sizeof(events->served_by[0]));
	memmove(&events->action[to], &events->action[from],
	    count * sizeof(events->action[0]));
}

/* Keep the events of a device. They go after those of the devices before. */
static enum weir_status
keep_events(struct builder *builder, const struct value *value, uint32_t *kept)
{
	struct snapshot *snapshot = builder->snapshot;
	struct snapshot_trace trace = { .first = *kept };
	const struct object *list = value->kind == VALUE_CONTAINER ?
	    build_object(builder, *value) :
	    NULL;
	enum weir_status status = snapshot_reserve(
	    snapshot, SNAPSHOT_ARRAY_TRACES, snapshot->trace_count, 1);

	if (status != WEIR_OK)
		return status;
	if (list != NULL && list->kind == OBJECT_EVENTS && list->first >= *kept)
		trace.count = list->count;
	else if (list == NULL || list->kind != OBJECT_LIST || list->count > 0)
		return status_set(WEIR_EINVAL,
		    "a list in 'device_traces' is not one of events");
	if (trace.count > 0 && list->first > *kept)
		move_events(&snapshot->events, *kept, list->first, trace.count);
	for (uint32_t i = 0; i < trace.count; i++)
		snapshot->events.device[*kept + i] =
		    (uint16_t)snapshot->trace_count;
	*kept += trace.count;
	snapshot->traces[snapshot->trace_count++] = trace;
	return WEIR_OK;
}

static enum weir_status
keep_traces(struct builder *builder, const struct object *list)
{
	uint32_t kept = 0;
	enum weir_status status = WEIR_OK;

	if (list->kind != OBJECT_LIST)
		return status_set(
		    WEIR_EINVAL, "'device_traces' is not a list of lists");
	if (list->count > ROWS_DEVICES)
		return status_set(WEIR_EINVAL,
		    "'device_traces' has more than %d devices", ROWS_DEVICES);
	builder->snapshot->trace_count = 0;
	for (uint32_t i = 0; i < list->count && status == WEIR_OK; i++)
		status = keep_events(builder, &list->items[i], &kept);
	builder->snapshot->events.count = kept;
	return status;
}

/* Keep the annotations of this list, and drop all others. */
static void
keep_annotations(struct builder *builder, const struct object *list)
{
	struct snapshot *snapshot = builder->snapshot;
	uint32_t count = list->kind == OBJECT_ANNOTATIONS ? list->count : 0;

	if (count > 0)
		memmove(snapshot->annotations,
		    snapshot->annotations + list->first,
		    count * sizeof(*snapshot->annotations));
	snapshot->annotation_count = count;
}

static enum weir_status
check_sums(const struct snapshot *snapshot)
{
	uint64_t sum = 0;

	for (uint32_t i = 0;
	     i < (uint64_t)snapshot->segment_count + snapshot->host_count;
	     i++) {
		sum += snapshot->segments[i].bytes;
		if (sum > bytes_max)
			return status_set(
			    WEIR_EINVAL, "the segments have more than 4 EiB");
	}
	sum = 0;
	for (uint32_t i = 0; i < snapshot->block_count; i++) {
		sum += snapshot->blocks[i].bytes;
		sum += snapshot->blocks[i].requested_bytes;
		if (sum > bytes_max)
			return status_set(
			    WEIR_EINVAL, "the blocks have more than 4 EiB");
	}
	return WEIR_OK;
}

static enum weir_status
keep_part(struct builder *builder, struct value key, struct value value)
{
	static const struct object none = { .kind = OBJECT_MIXED };
	const struct object *part = value.kind == VALUE_CONTAINER ?
	    build_object(builder, value) :
	    &none;
	char text[32];
	const char *name;

	if (key.kind == VALUE_STRING && key.id == KEY_SEGMENTS)
		return keep_segments(builder, part);
	if (key.kind == VALUE_STRING && key.id == KEY_DEVICE_TRACES)
		return keep_traces(builder, part);
	if (key.kind == VALUE_STRING && key.id == KEY_EXTERNAL_ANNOTATIONS) {
		keep_annotations(builder, part);
		return WEIR_OK;
	}
	if (key.kind == VALUE_STRING &&
	    (key.id == KEY_HOST_SEGMENTS || key.id == KEY_HOST_TRACES))
		return WEIR_OK;
	name = key_name(builder, key, text);
	if (name != NULL) {
		char path[128];

		snprintf(path, sizeof(path), "%s", name);
		return add_settings(builder, path, value, 0);
	}
	return WEIR_OK;
}

enum weir_status
build_whole(struct builder *builder, const struct object *top)
{
	struct snapshot *snapshot = builder->snapshot;
	enum weir_status status = WEIR_OK;

	/* A list, of no segments in an idle process. */
	if (top->kind != OBJECT_DICT) {
		status = keep_segments(builder, top);
		snapshot->events.count = 0;
		snapshot->annotation_count = 0;
		return status == WEIR_OK ? check_sums(snapshot) : status;
	}
	struct snapshot_segment *host;
	uint32_t hosts;
	status = copy_host(builder, top, &host, &hosts);
	if (status != WEIR_OK)
		return status;
	if (build_get(top->items, top->count, KEY_SEGMENTS) == NULL)
		snapshot->segment_count = 0;
	if (build_get(top->items, top->count, KEY_DEVICE_TRACES) == NULL)
		snapshot->events.count = 0;
	if (build_get(top->items, top->count, KEY_EXTERNAL_ANNOTATIONS) == NULL)
		snapshot->annotation_count = 0;
	for (uint32_t i = 0; i + 1 < top->count && status == WEIR_OK; i += 2)
		status = keep_part(builder, top->items[i], top->items[i + 1]);
	if (status == WEIR_OK)
		status = keep_host(snapshot, host, hosts);
	meta_free(host, hosts * sizeof(*host));
	return status == WEIR_OK ? check_sums(snapshot) : status;
}
