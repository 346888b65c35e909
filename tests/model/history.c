/*
 * The snapshot is read as JSON from the file that users get.
 */
#include "tests/model/history.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/trace.h>

#include "tests/support/command.h"
#include "tests/support/device.h"

enum { RANGES_MAX = 4096, BLOCKS_MAX = 8192 };

struct range {
	uint64_t addr;
	uint64_t size;
	int64_t stream;
};

struct live {
	uint64_t addr;
	uint64_t requested;
	uint64_t size;
	int64_t stream;
	bool pending;
};

struct history_replay {
	struct range mapped[RANGES_MAX]; /* in order and disjoint */
	size_t mapped_count;
	struct live blocks[BLOCKS_MAX];
	size_t block_count;
	int64_t next; /* number of the next event */
	char *path;
	char *fault;
	size_t fault_size;
};

/* Report the first fault. */
static bool fail(struct history_replay *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool
fail(struct history_replay *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->fault, r->fault_size, format, args);
	va_end(args);
	return false;
}

static uint64_t
number(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	EXPECT(json_is_integer(value));
	return (uint64_t)json_integer_value(value);
}

static const char *
text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));

	EXPECT_NOT_NULL(value);
	return value;
}

/* ---- What is mapped ---------------------------------------------------- */

/* The first range that ends above an address. */
static size_t
range_at(const struct history_replay *r, uint64_t addr)
{
	size_t i = 0;

	while (i < r->mapped_count &&
	    r->mapped[i].addr + r->mapped[i].size <= addr)
		i++;
	return i;
}

static void
insert_range(struct history_replay *r, size_t i, struct range range)
{
	EXPECT_LT(r->mapped_count, RANGES_MAX);
	memmove(&r->mapped[i + 1], &r->mapped[i],
	    (r->mapped_count - i) * sizeof(range));
	r->mapped[i] = range;
	r->mapped_count++;
}

static bool
map(struct history_replay *r, const json_t *event)
{
	uint64_t addr = number(event, "addr");
	uint64_t size = number(event, "size");
	size_t i = range_at(r, addr);

	if (i < r->mapped_count && r->mapped[i].addr < addr + size)
		return fail(r, "%#" PRIx64 " is mapped twice", addr);
	insert_range(r, i,
	    (struct range){ addr, size, (int64_t)number(event, "stream") });
	return true;
}

/* Remove addresses from the mapped ranges; they may be parts of ranges. */
static bool
unmap(struct history_replay *r, const json_t *event)
{
	uint64_t addr = number(event, "addr");
	uint64_t end = addr + number(event, "size");

	while (addr < end) {
		size_t i = range_at(r, addr);
		struct range *at = &r->mapped[i];
		if (i == r->mapped_count || at->addr > addr)
			return fail(r,
			    "%#" PRIx64 " is unmapped but was not mapped",
			    addr);
		if (at->stream != (int64_t)number(event, "stream"))
			return fail(r,
			    "%#" PRIx64 " is unmapped for another stream",
			    addr);
		uint64_t old_end = at->addr + at->size;
		uint64_t stop = old_end < end ? old_end : end;
		at->size = addr - at->addr;
		if (stop < old_end)
			insert_range(r, i + 1,
			    (struct range){ stop, old_end - stop, at->stream });
		if (r->mapped[i].size == 0) {
			r->mapped_count--;
			memmove(&r->mapped[i], &r->mapped[i + 1],
			    (r->mapped_count - i) * sizeof(*r->mapped));
		}
		addr = stop;
	}
	return true;
}

/* Is the whole range mapped, possibly in several ranges? Those of a segment are
 * of one stream, because viewers join neighbours only then. */
static bool
is_mapped(const struct history_replay *r, uint64_t addr, uint64_t size,
    const json_t *segment)
{
	for (size_t i = range_at(r, addr); size > 0; i++) {
		if (i == r->mapped_count || r->mapped[i].addr > addr ||
		    (segment != NULL &&
			r->mapped[i].stream !=
			    (int64_t)number(segment, "stream")))
			return false;
		uint64_t end = r->mapped[i].addr + r->mapped[i].size;
		uint64_t part = end - addr < size ? end - addr : size;
		addr += part;
		size -= part;
	}
	return true;
}

/* ---- What is live ------------------------------------------------------ */

static struct live *
find(struct history_replay *r, uint64_t addr)
{
	for (size_t i = 0; i < r->block_count; i++)
		if (r->blocks[i].addr == addr)
			return &r->blocks[i];
	return NULL;
}

static bool
allocate(struct history_replay *r, const json_t *event)
{
	struct live block = { number(event, "addr"), number(event, "size"),
		number(event, "block_size"), (int64_t)number(event, "stream"),
		false };

	for (size_t i = 0; i < r->block_count; i++)
		if (block.addr < r->blocks[i].addr + r->blocks[i].size &&
		    r->blocks[i].addr < block.addr + block.size)
			return fail(r,
			    "%#" PRIx64 " is allocated on top of %#" PRIx64,
			    block.addr, r->blocks[i].addr);
	if (!is_mapped(r, block.addr, block.size, NULL))
		return fail(
		    r, "%#" PRIx64 " is allocated but not mapped", block.addr);
	EXPECT_LT(r->block_count, BLOCKS_MAX);
	r->blocks[r->block_count++] = block;
	return true;
}

static bool
request_free(struct history_replay *r, const json_t *event)
{
	struct live *block = find(r, number(event, "addr"));

	if (block == NULL || block->pending)
		return fail(r, "%#" PRIx64 " is freed but not live",
		    number(event, "addr"));
	if (number(event, "size") != block->requested)
		return fail(
		    r, "%#" PRIx64 " is freed with another size", block->addr);
	/* weir_free_async() may have given it to another stream. */
	block->stream = (int64_t)number(event, "stream");
	block->pending = true;
	return true;
}

static bool
complete_free(struct history_replay *r, const json_t *event)
{
	struct live *block = find(r, number(event, "addr"));

	if (block == NULL || !block->pending)
		return fail(r,
		    "the free of %#" PRIx64 " is completed but was "
		    "not requested",
		    number(event, "addr"));
	*block = r->blocks[--r->block_count];
	return true;
}

static bool
replay(struct history_replay *r, const json_t *event)
{
	const char *action = text(event, "action");
	int64_t seq = (int64_t)number(event, "seq");

	if (seq != r->next)
		return fail(
		    r, "event %" PRId64 " follows %" PRId64, seq, r->next - 1);
	r->next++;
	if (strcmp(action, "alloc") == 0)
		return allocate(r, event);
	if (strcmp(action, "free_requested") == 0)
		return request_free(r, event);
	if (strcmp(action, "free_completed") == 0)
		return complete_free(r, event);
	if (strcmp(action, "segment_alloc") == 0 ||
	    strcmp(action, "segment_map") == 0)
		return map(r, event);
	if (strcmp(action, "segment_free") == 0 ||
	    strcmp(action, "segment_unmap") == 0)
		return unmap(r, event);
	return strcmp(action, "oom") == 0 || strcmp(action, "snapshot") == 0 ||
	    fail(r, "unknown action %s", action);
}

/* ---- The snapshot ------------------------------------------------------ */

static bool
compare_block(struct history_replay *r, const json_t *json, size_t *active)
{
	const char *state = text(json, "state");
	uint64_t addr = number(json, "address");
	const struct live *block = find(r, addr);

	if (strcmp(state, "inactive") == 0)
		return block == NULL ||
		    fail(r, "%#" PRIx64 " is inactive, but not by its events",
			addr);
	if (block == NULL)
		return fail(r, "%#" PRIx64 " is %s, but not by its events",
		    addr, state);
	++*active;
	if (strcmp(state,
		block->pending ? "active_pending_free" : "active_allocated") !=
	    0)
		return fail(r, "%#" PRIx64 " is %s, but not by its events",
		    addr, state);
	if (number(json, "size") != block->size ||
	    number(json, "requested_size") != block->requested ||
	    (int64_t)number(json, "stream") != block->stream)
		return fail(r,
		    "%#" PRIx64 " has %" PRIu64 " bytes of stream %#" PRIx64
		    " where its events say %" PRIu64 " and %#" PRIx64,
		    addr, number(json, "size"), number(json, "stream"),
		    block->size, (uint64_t)block->stream);
	return true;
}

static bool
compare_segment(struct history_replay *r, const json_t *json, size_t *active)
{
	uint64_t addr = number(json, "address");
	uint64_t size = number(json, "total_size");
	uint64_t at = addr;
	size_t i;
	json_t *block;

	if (!is_mapped(r, addr, size, json))
		return fail(r,
		    "segment %#" PRIx64 " is not mapped for its stream", addr);
	json_array_foreach(json_object_get(json, "blocks"), i, block)
	{
		if (number(block, "address") != at)
			return fail(r, "block %#" PRIx64 " is not at %#" PRIx64,
			    number(block, "address"), at);
		at += number(block, "size");
		if (!compare_block(r, block, active))
			return false;
	}
	return at == addr + size ||
	    fail(r, "blocks of %#" PRIx64 " end at %#" PRIx64, addr, at);
}

static bool
compare(struct history_replay *r, const json_t *snapshot)
{
	uint64_t mapped = 0;
	uint64_t total = 0;
	size_t active = 0;
	size_t i;
	json_t *segment;

	json_array_foreach(json_object_get(snapshot, "segments"), i, segment)
	{
		total += number(segment, "total_size");
		if (!compare_segment(r, segment, &active))
			return false;
	}
	for (i = 0; i < r->mapped_count; i++)
		mapped += r->mapped[i].size;
	if (mapped != total)
		return fail(r,
		    "%" PRIu64 " bytes are mapped, the snapshot has %" PRIu64,
		    mapped, total);
	/* Blocks of a suspended pool live on without memory. */
	size_t live = 0;
	for (i = 0; i < r->block_count; i++)
		live +=
		    is_mapped(r, r->blocks[i].addr, r->blocks[i].size, NULL);
	return active == live ||
	    fail(
		r, "%zu blocks are active, the snapshot has %zu", live, active);
}

static bool
replay_all(struct history_replay *r, const json_t *snapshot)
{
	const json_t *traces = json_object_get(snapshot, "device_traces");
	size_t i;
	json_t *event;

	json_array_foreach(json_array_get(traces, 0), i,
	    event) if (!replay(r, event)) return false;
	return compare(r, snapshot);
}

/* Does the command's checker agree with weir_check()? */
static bool
has_no_faults(struct history_replay *r)
{
	struct command_result result = command_weir("check", r->path, NULL);
	bool agree = result.status == 0 ||
	    fail(r, "weir check: %s%s", result.out, result.err);

	command_free(&result);
	return agree;
}

/* ---- The calls --------------------------------------------------------- */

static void
start(bool clear)
{
	struct weir_history history = { .struct_size = sizeof(history),
		.max_entries = 1 << 20,
		.clear = clear };

	EXPECT_OK(weir_history_start(&history));
}

struct history_replay *
history_replay_new(void)
{
	struct history_replay *r = calloc(1, sizeof(*r));

	EXPECT_NOT_NULL(r);
	r->path = test_file("history.json", "", 0);
	start(true);
	return r;
}

void
history_replay_delete(struct history_replay *r)
{
	EXPECT_OK(weir_history_stop());
	free(r->path);
	free(r);
}

bool
history_replay_check(struct history_replay *r, char *fault, size_t size)
{
	json_error_t error;

	r->fault = fault;
	r->fault_size = size;
	if (weir_snapshot_write(r->path, WEIR_SNAPSHOT_JSON, NULL) != WEIR_OK)
		return fail(r, "weir_snapshot_write: %s", weir_last_error());
	json_t *snapshot = json_load_file(r->path, 0, &error);
	if (snapshot == NULL)
		return fail(r, "line %d: %s", error.line, error.text);
	bool agree = replay_all(r, snapshot) && has_no_faults(r);
	json_decref(snapshot);
	start(true);
	r->next = 0;
	return agree;
}
