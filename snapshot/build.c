/*
 * Containers on their way into a snapshot.
 *
 * A dict whose keys are all set in one operation becomes its row at once and
 * never needs memory for items. All files but those of pickle protocol 0 set
 * dicts like that. A list of frames becomes its stack at once, too. Other
 * containers hold their items until they are complete; then the memory goes to
 * a free list of its size.
 */
#include "snapshot/build.h"

#include <inttypes.h>
#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "snapshot/rows.h"

static const char *const words[BUILD_WORD_END] = { [WORD_EMPTY] = "",
#define BUILD_WORD(name, text) [name] = (text),
	BUILD_WORDS(BUILD_WORD)
#undef BUILD_WORD
};

static const char *const actions[SNAPSHOT_ACTIONS_KNOWN] = {
#define ACTION_TEXT(NAME, name) #name,
	WEIR_ACTION_LIST(ACTION_TEXT)
#undef ACTION_TEXT
};

/* ---- Items ----------------------------------------------------------- */

static bool
has_items(const struct object *object)
{
	return (object->kind == OBJECT_LIST || object->kind == OBJECT_DICT) &&
	    object->items != NULL;
}

/* Put the memory of an object's items into its free list. */
static void
drop_items(struct builder *builder, struct object *object)
{
	struct value **free = &builder->free_items[object->room];

	if (!has_items(object))
		return;
	memcpy((void *)object->items, free, sizeof(*free));
	*free = object->items;
	object->items = NULL;
	object->count = 0;
}

static enum weir_status
take_items(struct builder *builder, uint8_t room, struct value **out)
{
	struct value **free = &builder->free_items[room];

	*out = *free;
	if (*out != NULL) {
		memcpy(free, (void *)*out, sizeof(*free));
		return WEIR_OK;
	}
	*out = meta_alloc(sizeof(**out) << room);
	return *out == NULL ? build_no_memory() : WEIR_OK;
}

static enum weir_status
add_items(struct builder *builder, struct object *object,
    const struct value *items, size_t count)
{
	uint64_t need = (uint64_t)object->count + count;
	uint8_t room = object->items == NULL ? 2 : object->room;
	struct value *moved;
	enum weir_status status;

	if (need > UINT32_MAX)
		return status_set(
		    WEIR_EINVAL, "a list of more than 4294967295 items");
	while (need > UINT64_C(1) << room)
		room++;
	if (object->items == NULL || room > object->room) {
		status = take_items(builder, room, &moved);
		if (status != WEIR_OK)
			return status;
		if (object->items != NULL) {
			uint32_t had = object->count;

			memcpy(moved, object->items, had * sizeof(*moved));
			drop_items(builder, object);
			object->count = had;
		}
		object->items = moved;
		object->room = room;
	}
	memcpy(object->items + object->count, items, count * sizeof(*items));
	object->count = (uint32_t)need;
	return WEIR_OK;
}

/* ---- Containers ------------------------------------------------------ */

static enum weir_status
new_object(struct builder *builder, enum object_kind kind, struct value *out)
{
	uint32_t id = builder->free_object - 1;

	if (builder->free_object != 0) {
		builder->free_object = builder->objects[id].first;
	} else if (builder->object_count < builder->object_room) {
		id = builder->object_count++;
	} else {
		size_t room = builder->object_room * 3 / 2 + 64;
		struct object *moved;

		if (room > UINT32_MAX)
			return status_set(
			    WEIR_EINVAL, "more than 2^32 lists and dicts");
		moved = meta_alloc(room * sizeof(*moved));
		if (moved == NULL)
			return build_no_memory();
		id = builder->object_count++;
		if (id > 0)
			memcpy(moved, builder->objects, id * sizeof(*moved));
		meta_free(
		    builder->objects, builder->object_room * sizeof(*moved));
		builder->objects = moved;
		builder->object_room = room;
	}
	builder->objects[id] = (struct object){ .kind = (uint8_t)kind };
	*out = (struct value){ .kind = VALUE_CONTAINER, .id = id };
	return WEIR_OK;
}

enum weir_status
builder_list(struct builder *builder, struct value *out)
{
	return new_object(builder, OBJECT_LIST, out);
}

enum weir_status
builder_dict(struct builder *builder, struct value *out)
{
	return new_object(builder, OBJECT_DICT, out);
}

/* Release items that are stored in a row now. */
static void
absorb(struct builder *builder, const struct value *items, size_t count)
{
	for (size_t i = 0; i < count && !builder->references; i++) {
		struct object *object;

		if (items[i].kind != VALUE_CONTAINER)
			continue;
		object = build_object(builder, items[i]);
		drop_items(builder, object);
		*object = (struct object){
			.kind = OBJECT_FREE,
			.complete = true,
			.first = builder->free_object,
		};
		builder->free_object = items[i].id + 1;
	}
}

/* Collect the frames of these values in `scratch`; *all says whether there are
 * only frames. */
static enum weir_status
frames_of(
    struct builder *builder, const struct value *items, size_t count, bool *all)
{
	if (builder->scratch_room < count) {
		size_t room = 2 * count;
		uint32_t *scratch = meta_alloc(room * sizeof(*scratch));

		if (scratch == NULL)
			return build_no_memory();
		meta_free(
		    builder->scratch, builder->scratch_room * sizeof(*scratch));
		builder->scratch = scratch;
		builder->scratch_room = room;
	}
	*all = false;
	for (size_t i = 0; i < count; i++) {
		const struct object *object;

		builder->scratch[i] = items[i].id;
		if (items[i].kind == VALUE_FRAME)
			continue;
		if (items[i].kind != VALUE_CONTAINER)
			return WEIR_OK;
		object = build_object(builder, items[i]);
		if (object->kind != OBJECT_FRAME)
			return WEIR_OK;
		builder->scratch[i] = object->first;
	}
	*all = true;
	return WEIR_OK;
}

/* Turn a list of frames into a stack, and two integers into a pool. */
static enum weir_status
settle_list(struct builder *builder, struct object *list)
{
	const struct value *items = list->items;
	enum object_kind kind = OBJECT_STACK;
	enum weir_status status;
	uint32_t row;
	bool all = false;

	if (list->count == 2 && items[0].kind == VALUE_INTEGER &&
	    items[1].kind == VALUE_INTEGER) {
		struct snapshot_pool pool = { items[0].integer,
			items[1].integer };

		kind = OBJECT_POOL;
		status = build_pool(builder, pool, &row);
	} else {
		if (list->count == 0)
			return WEIR_OK;
		status = frames_of(builder, items, list->count, &all);
		if (status != WEIR_OK || !all)
			return status;
		status =
		    build_stack(builder, builder->scratch, list->count, &row);
	}
	if (status != WEIR_OK)
		return status;
	absorb(builder, items, list->count);
	drop_items(builder, list);
	list->kind = (uint8_t)kind;
	list->first = row;
	return WEIR_OK;
}

static enum weir_status
settle_dict(struct builder *builder, struct object *dict)
{
	enum object_kind kind;
	uint32_t row;
	enum weir_status status =
	    build_row(builder, dict->items, dict->count, &kind, &row);

	if (status != WEIR_OK || kind == OBJECT_DICT)
		return status;
	absorb(builder, dict->items, dict->count);
	drop_items(builder, dict);
	dict->kind = (uint8_t)kind;
	dict->first = row;
	return WEIR_OK;
}

/* Put a value into a container. If the value is a container, it is complete
 * now. */
static enum weir_status
settle_value(struct builder *builder, struct value value)
{
	enum weir_status status = WEIR_OK;
	struct object *object;

	if (value.kind != VALUE_CONTAINER)
		return WEIR_OK;
	object = build_object(builder, value);
	if (object->complete)
		return WEIR_OK;
	if (object->kind == OBJECT_LIST)
		status = settle_list(builder, object);
	else if (object->kind == OBJECT_DICT)
		status = settle_dict(builder, object);
	object->complete = true;
	return status;
}

static enum weir_status
settle_values(struct builder *builder, const struct value *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		enum weir_status status = settle_value(builder, items[i]);

		if (status != WEIR_OK)
			return status;
	}
	return WEIR_OK;
}

static bool
is_row(unsigned kind)
{
	return kind >= OBJECT_EVENT && kind <= OBJECT_ANNOTATION;
}

static bool
is_rows(unsigned kind)
{
	return kind >= OBJECT_EVENTS && kind <= OBJECT_ANNOTATIONS;
}

/* Append rows to a list, which stores the first row and their count. False if
 * the items are not rows that continue the list's own. */
static bool
append_rows(struct builder *builder, struct object *list,
    const struct value *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct object *item;
		unsigned kind;

		if (items[i].kind != VALUE_CONTAINER)
			return false;
		item = build_object(builder, items[i]);
		if (!is_row(item->kind))
			return false;
		kind = item->kind - OBJECT_EVENT + OBJECT_EVENTS;
		if (list->kind == OBJECT_LIST && list->count == 0) {
			drop_items(builder, list);
			list->kind = (uint8_t)kind;
			list->first = item->first;
		}
		if (list->kind != kind ||
		    item->first != list->first + list->count)
			return false;
		list->count++;
	}
	return true;
}

/* Turn a stack back into a list, so that it can grow. */
static enum weir_status
reopen_stack(struct builder *builder, struct object *list)
{
	const struct snapshot *snapshot = builder->snapshot;
	struct snapshot_stack stack = snapshot->stacks[list->first];
	enum weir_status status = WEIR_OK;

	*list = (struct object){ .kind = OBJECT_LIST, .reopened = true };
	for (uint32_t i = 0; i < stack.count && status == WEIR_OK; i++) {
		struct value frame = {
			.kind = VALUE_FRAME,
			.id = snapshot->stack_frames[stack.first + i],
		};

		status = add_items(builder, list, &frame, 1);
	}
	return status;
}

static enum weir_status
append_values(struct builder *builder, struct object *list,
    const struct value *items, size_t count)
{
	bool fresh = list->count == 0 && !list->reopened && count > 1;
	enum weir_status status;
	bool all = false;
	uint32_t stack;

	if (fresh) {
		status = frames_of(builder, items, count, &all);
		if (status != WEIR_OK)
			return status;
	}
	if (!all)
		return add_items(builder, list, items, count);
	status = build_stack(builder, builder->scratch, count, &stack);
	if (status != WEIR_OK)
		return status;
	absorb(builder, items, count);
	drop_items(builder, list);
	list->kind = OBJECT_STACK;
	list->first = stack;
	return WEIR_OK;
}

enum weir_status
builder_append(struct builder *builder, struct value list,
    const struct value *items, size_t count)
{
	struct object *object;
	enum weir_status status;

	if (list.kind != VALUE_CONTAINER)
		return status_set(WEIR_EINVAL,
		    "items are added to something that is no list");
	status = settle_values(builder, items, count);
	if (status != WEIR_OK || count == 0)
		return status;
	object = build_object(builder, list);
	if (object->complete)
		return status_set(
		    WEIR_EINVAL, "a list changes after it was complete");
	if (object->kind == OBJECT_STACK) {
		status = reopen_stack(builder, object);
		if (status != WEIR_OK)
			return status;
	}
	if (object->kind == OBJECT_MIXED)
		return WEIR_OK;
	if (object->kind != OBJECT_LIST && !is_rows(object->kind))
		return status_set(WEIR_EINVAL,
		    "items are added to something that is no list");
	if ((object->kind != OBJECT_LIST || object->count == 0) &&
	    append_rows(builder, object, items, count)) {
		absorb(builder, items, count);
		return WEIR_OK;
	}
	if (object->kind == OBJECT_LIST)
		return append_values(builder, object, items, count);
	object->kind = OBJECT_MIXED;
	object->count = 0;
	return WEIR_OK;
}

enum weir_status
builder_set(struct builder *builder, struct value dict,
    const struct value *pairs, size_t count)
{
	struct object *object;
	enum weir_status status;

	if (dict.kind != VALUE_CONTAINER)
		return status_set(
		    WEIR_EINVAL, "keys are set in something that is no dict");
	status = settle_values(builder, pairs, count);
	if (status != WEIR_OK || count == 0)
		return status;
	object = build_object(builder, dict);
	if (object->complete || is_row(object->kind) ||
	    object->kind == OBJECT_FRAME)
		return status_set(
		    WEIR_EINVAL, "a dict changes after it was complete");
	if (object->kind != OBJECT_DICT || count % 2 != 0)
		return status_set(
		    WEIR_EINVAL, "keys are set in something that is no dict");
	/* A single pair may be the first of several. */
	if (object->count == 0 && count > 2) {
		enum object_kind kind;
		uint32_t row;

		status = build_row(builder, pairs, count, &kind, &row);
		if (status != WEIR_OK)
			return status;
		if (kind != OBJECT_DICT) {
			absorb(builder, pairs, count);
			object->kind = (uint8_t)kind;
			object->first = row;
			return WEIR_OK;
		}
	}
	return add_items(builder, object, pairs, count);
}

enum weir_status
builder_tuple(struct builder *builder, const struct value *items, size_t count,
    struct value *out)
{
	enum weir_status status;

	if (count == 2 && items[0].kind == VALUE_INTEGER &&
	    items[1].kind == VALUE_INTEGER) {
		struct snapshot_pool pool = { items[0].integer,
			items[1].integer };

		*out = (struct value){ .kind = VALUE_POOL };
		return build_pool(builder, pool, &out->id);
	}
	status = builder_list(builder, out);
	if (status == WEIR_OK)
		status = builder_append(builder, *out, items, count);
	if (status == WEIR_OK)
		status = settle_value(builder, *out);
	return status;
}

enum weir_status
builder_stack(struct builder *builder, struct value list, struct value *out)
{
	enum weir_status status = settle_value(builder, list);

	*out = (struct value){ .kind = VALUE_STACK };
	if (status != WEIR_OK || list.kind != VALUE_CONTAINER)
		return status;
	if (build_object(builder, list)->kind == OBJECT_STACK)
		out->id = build_object(builder, list)->first;
	absorb(builder, &list, 1);
	return WEIR_OK;
}

/* ---- The whole ------------------------------------------------------- */

static enum weir_status
add_word(struct builder *builder, const char *text)
{
	struct value value;

	return builder_string(builder, text, strlen(text), &value);
}

/* Add entry 0 of each array that has one, the known words and the known
 * actions. */
static enum weir_status
begin_build(struct builder *builder)
{
	struct snapshot *snapshot = builder->snapshot;
	enum weir_status status = WEIR_OK;
	struct value name;
	uint32_t zero;

	for (size_t i = 0; i < BUILD_WORD_END && status == WEIR_OK; i++)
		status = add_word(builder, words[i]);
	for (size_t i = 0; i < SNAPSHOT_ACTIONS_KNOWN && status == WEIR_OK;
	     i++) {
		status = builder_string(
		    builder, actions[i], strlen(actions[i]), &name);
		snapshot->actions[i] = name.id;
	}
	snapshot->action_count = SNAPSHOT_ACTIONS_KNOWN;
	if (status == WEIR_OK)
		status = build_stack(builder, NULL, 0, &zero);
	if (status == WEIR_OK)
		status =
		    build_pool(builder, (struct snapshot_pool){ 0 }, &zero);
	return status;
}

struct builder *
builder_new(bool references)
{
	struct builder *builder = meta_zalloc(sizeof(*builder));

	if (builder != NULL) {
		builder->references = references;
		builder->seed = intern_seed();
		builder->snapshot = snapshot_new();
	}
	if (builder != NULL && builder->snapshot != NULL &&
	    begin_build(builder) == WEIR_OK)
		return builder;
	builder_free(builder);
	build_no_memory();
	return NULL;
}

static void
free_items(struct builder *builder)
{
	for (uint32_t i = 0; i < builder->object_count; i++)
		drop_items(builder, &builder->objects[i]);
	for (unsigned room = 0; room < BUILD_ROOMS; room++) {
		struct value *items = builder->free_items[room];

		while (items != NULL) {
			struct value *next;

			memcpy((void *)&next, (void *)items, sizeof(next));
			meta_free(items, sizeof(*items) << room);
			items = next;
		}
	}
}

void
builder_free(struct builder *builder)
{
	if (builder == NULL)
		return;
	free_items(builder);
	meta_free(
	    builder->objects, builder->object_room * sizeof(*builder->objects));
	meta_free(builder->scratch,
	    builder->scratch_room * sizeof(*builder->scratch));
	intern_drop(&builder->strings);
	intern_drop(&builder->frames);
	intern_drop(&builder->stacks);
	intern_drop(&builder->pools);
	snapshot_free(builder->snapshot);
	meta_free(builder, sizeof(*builder));
}

/* Describe the content of a file that is not a snapshot. */
static const char *
what_is(struct builder *builder, struct value value)
{
	switch (value.kind) {
	case VALUE_INTEGER:
	case VALUE_NATURAL:
	case VALUE_OPAQUE:
		return "a number, as old files of torch.save() begin";
	case VALUE_STRING:
		return "a text";
	case VALUE_CONTAINER:
		break;
	default:
		return "a single value";
	}
	switch (build_object(builder, value)->kind) {
	case OBJECT_DICT:
		return "a dict without 'segments' or 'device_traces'";
	case OBJECT_LIST:
	case OBJECT_MIXED:
		return "a list, and not one of segments";
	default:
		return "a part of one";
	}
}

enum weir_status
builder_finish(struct builder *builder, struct value top, struct snapshot **out)
{
	const struct object *object;
	enum weir_status status = settle_value(builder, top);
	bool is_snapshot = false;

	if (status != WEIR_OK)
		return status;
	if (top.kind == VALUE_CONTAINER) {
		object = build_object(builder, top);
		is_snapshot = object->kind == OBJECT_SEGMENTS ||
		    (object->kind == OBJECT_LIST && object->count == 0) ||
		    (object->kind == OBJECT_DICT &&
			(build_get(object->items, object->count,
			     KEY_SEGMENTS) != NULL ||
			    build_get(object->items, object->count,
				KEY_DEVICE_TRACES) != NULL));
	}
	if (!is_snapshot)
		return status_set(WEIR_EINVAL,
		    "not a memory snapshot: it holds %s",
		    what_is(builder, top));
	status = build_whole(builder, object);
	if (status == WEIR_OK)
		status = build_names(builder);
	if (status != WEIR_OK)
		return status;
	*out = builder->snapshot;
	builder->snapshot = NULL;
	return WEIR_OK;
}
