/*
 * Containers on their way into a snapshot, and the values that are stored only
 * once: strings, frames, stacks, pools.
 *
 * A dict whose keys are all set in one operation becomes its row at once and
 * never needs memory for items. All files but those of pickle protocol 0 set
 * dicts like that. A list of frames becomes its stack at once, too. Other
 * containers hold their items until they are complete; then the memory goes to
 * a free list of its size.
 */
#include "trace/snapshot_build.h"

#include <inttypes.h>
#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "trace/snapshot_rows.h"

static const char *const words[BUILD_WORD_END] = { [WORD_EMPTY] = "",
#define BUILD_WORD(name, text) [name] = (text),
	BUILD_WORDS(BUILD_WORD)
#undef BUILD_WORD
};

static const char *const actions[SNAPSHOT_ACTIONS_KNOWN] = {
#define ACTION_TEXT(name, text) [name] = (text),
	SNAPSHOT_ACTIONS(ACTION_TEXT)
#undef ACTION_TEXT
};

static enum weir_status
no_build_memory(void)
{
	return status_set(
	    WEIR_EHOSTMEM, "no host memory for reading a snapshot");
}

/* ---- Strings --------------------------------------------------------- */

struct text_key {
	const struct snapshot *snapshot;
	const char *text;
	size_t length;
};

static bool
same_string(const void *user, uint32_t entry)
{
	const struct text_key *key = user;
	const struct snapshot *snapshot = key->snapshot;
	uint64_t start = snapshot->strings[entry];
	uint64_t end = entry + 1 < snapshot->string_count ?
	    snapshot->strings[entry + 1] :
	    snapshot->text_bytes;

	return end - start - 1 == key->length &&
	    memcmp(snapshot->text + start, key->text, key->length) == 0;
}

/* The number of a text, which is added if it is new. `text` is valid UTF-8 and
 * may lie right after the snapshot's own text. */
static enum weir_status
intern_text(
    struct builder *builder, const char *text, size_t length, uint32_t *out)
{
	struct snapshot *snapshot = builder->snapshot;
	struct text_key key = { snapshot, text, length };
	uint32_t id = snapshot->string_count;
	char *end = snapshot->text + snapshot->text_bytes;
	enum weir_status status;

	status = snapshot_reserve(snapshot, SNAPSHOT_ARRAY_STRINGS, id, 1);
	if (status == WEIR_OK)
		status = intern_find(&builder->strings,
		    intern_hash(builder->seed, text, length), same_string, &key,
		    &id);
	if (status != WEIR_OK)
		return status;
	*out = id;
	if (id < snapshot->string_count)
		return WEIR_OK;
	if (text != end)
		memcpy(end, text, length);
	end[length] = '\0';
	snapshot->strings[snapshot->string_count++] = snapshot->text_bytes;
	snapshot->text_bytes += length + 1;
	return WEIR_OK;
}

/* Is the text ASCII without NUL? */
static bool
is_plain(const char *text, size_t length)
{
	size_t i = 0;
	uint64_t bad = 0;

	for (; i + 8 <= length; i += 8) {
		uint64_t word;

		memcpy(&word, text + i, sizeof(word));
		/* In ASCII, the second half finds bytes that are 0. */
		bad |= (word | (word - UINT64_C(0x0101010101010101))) &
		    UINT64_C(0x8080808080808080);
	}
	for (; i < length; i++)
		bad |= text[i] <= 0;
	return bad == 0;
}

/* The length of the UTF-8 sequence at the start of `text`; 0 if it is invalid.
 */
static size_t
sequence(const uint8_t *text, size_t length)
{
	static const uint32_t least[5] = { 0, 1, 0x80, 0x800, 0x10000 };
	size_t n = text[0] < 0x80 ? 1 :
	    text[0] < 0xc0        ? 0 :
	    text[0] < 0xe0        ? 2 :
	    text[0] < 0xf0        ? 3 :
	    text[0] < 0xf8        ? 4 :
				    0;
	uint32_t code;

	if (n == 0 || n > length)
		return 0;
	code = n == 1 ? text[0] : text[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff ||
	    (code >= 0xd800 && code < 0xe000))
		return 0;
	return n;
}

/* Copy a text, with U+FFFD for NULs and bytes that are not UTF-8. Returns the
 * length of the copy. */
static size_t
copy_repaired(char *to, const char *text, size_t length)
{
	static const char instead[3] = { '\xef', '\xbf', '\xbd' };
	size_t written = 0;

	for (size_t i = 0; i < length;) {
		size_t n = sequence((const uint8_t *)text + i, length - i);

		if (n == 0) {
			memcpy(to + written, instead, sizeof(instead));
			written += sizeof(instead);
			i++;
		} else {
			memcpy(to + written, text + i, n);
			written += n;
			i += n;
		}
	}
	return written;
}

enum weir_status
builder_string(
    struct builder *builder, const char *text, size_t length, struct value *out)
{
	struct snapshot *snapshot = builder->snapshot;
	bool plain = is_plain(text, length);
	enum weir_status status;

	*out = (struct value){ .kind = VALUE_STRING };
	if (length > SIZE_MAX / 4)
		return no_build_memory();
	status = snapshot_reserve(snapshot, SNAPSHOT_ARRAY_TEXT,
	    snapshot->text_bytes, (plain ? length : 3 * length) + 1);
	if (status != WEIR_OK)
		return status;
	if (!plain) {
		char *end = snapshot->text + snapshot->text_bytes;

		length = copy_repaired(end, text, length);
		text = end;
	}
	return intern_text(builder, text, length, &out->id);
}

/* ---- Frames, stacks, pools ------------------------------------------- */

struct frame_key {
	const struct snapshot *snapshot;
	struct snapshot_frame frame;
};

static bool
same_frame(const void *user, uint32_t entry)
{
	const struct frame_key *key = user;
	const struct snapshot_frame *frame = &key->snapshot->frames[entry];

	return frame->name == key->frame.name &&
	    frame->file == key->frame.file && frame->line == key->frame.line;
}

enum weir_status
build_frame(struct builder *builder, struct snapshot_frame frame, uint32_t *out)
{
	struct snapshot *snapshot = builder->snapshot;
	struct frame_key key = { snapshot, frame };
	enum weir_status status;

	*out = snapshot->frame_count;
	status = snapshot_reserve(
	    snapshot, SNAPSHOT_ARRAY_FRAMES, snapshot->frame_count, 1);
	if (status == WEIR_OK)
		status = intern_find(&builder->frames,
		    intern_hash(builder->seed, &frame, sizeof(frame)),
		    same_frame, &key, out);
	if (status == WEIR_OK && *out == snapshot->frame_count)
		snapshot->frames[snapshot->frame_count++] = frame;
	return status;
}

struct stack_key {
	const struct snapshot *snapshot;
	const uint32_t *frames;
	size_t count;
};

static bool
same_stack(const void *user, uint32_t entry)
{
	const struct stack_key *key = user;
	const struct snapshot *snapshot = key->snapshot;
	const struct snapshot_stack *stack = &snapshot->stacks[entry];

	return stack->count == key->count &&
	    (key->count == 0 ||
		memcmp(snapshot->stack_frames + stack->first, key->frames,
		    key->count * sizeof(*key->frames)) == 0);
}

enum weir_status
build_stack(struct builder *builder, const uint32_t *frames, size_t count,
    uint32_t *out)
{
	struct snapshot *snapshot = builder->snapshot;
	struct stack_key key = { snapshot, frames, count };
	enum weir_status status;

	*out = snapshot->stack_count;
	status = snapshot_reserve(
	    snapshot, SNAPSHOT_ARRAY_STACKS, snapshot->stack_count, 1);
	if (status == WEIR_OK)
		status = snapshot_reserve(snapshot, SNAPSHOT_ARRAY_STACK_FRAMES,
		    snapshot->stack_frame_count, count);
	if (status == WEIR_OK)
		status = intern_find(&builder->stacks,
		    intern_hash(builder->seed, frames, count * sizeof(*frames)),
		    same_stack, &key, out);
	if (status != WEIR_OK || *out < snapshot->stack_count)
		return status;
	snapshot->stacks[snapshot->stack_count++] =
	    (struct snapshot_stack){ snapshot->stack_frame_count,
		    (uint32_t)count };
	if (count > 0)
		memcpy(snapshot->stack_frames + snapshot->stack_frame_count,
		    frames, count * sizeof(*frames));
	snapshot->stack_frame_count += (uint32_t)count;
	return WEIR_OK;
}

struct pool_key {
	const struct snapshot *snapshot;
	struct snapshot_pool pool;
};

static bool
same_pool(const void *user, uint32_t entry)
{
	const struct pool_key *key = user;
	const struct snapshot_pool *pool = &key->snapshot->pools[entry];

	return pool->first == key->pool.first &&
	    pool->second == key->pool.second;
}

enum weir_status
build_pool(struct builder *builder, struct snapshot_pool pool, uint32_t *out)
{
	struct snapshot *snapshot = builder->snapshot;
	struct pool_key key = { snapshot, pool };
	enum weir_status status;

	*out = snapshot->pool_count;
	status = snapshot_reserve(
	    snapshot, SNAPSHOT_ARRAY_POOLS, snapshot->pool_count, 1);
	if (status == WEIR_OK)
		status = intern_find(&builder->pools,
		    intern_hash(builder->seed, &pool, sizeof(pool)), same_pool,
		    &key, out);
	if (status == WEIR_OK && *out == snapshot->pool_count)
		snapshot->pools[snapshot->pool_count++] = pool;
	return status;
}

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
	return *out == NULL ? no_build_memory() : WEIR_OK;
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
			return no_build_memory();
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
			return no_build_memory();
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
	bool all;

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
	no_build_memory();
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
	if (status != WEIR_OK)
		return status;
	*out = builder->snapshot;
	builder->snapshot = NULL;
	return WEIR_OK;
}
