/*
 * The values of a snapshot that are stored only once: strings, frames, stacks,
 * pools.
 */
#include <string.h>

#include "base/status.h"
#include "snapshot/rows.h"

enum weir_status
build_no_memory(void)
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
		return build_no_memory();
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

	return memcmp(frame, &key->frame, sizeof(*frame)) == 0;
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
