/*
 * A builder makes the same rows of values as any reader; see also the tests of
 * snapshot/pickle_read.c and of the command's reader of JSON.
 */
#include <stdarg.h>
#include <string.h>

#include "base/meta.h"
#include "snapshot/build.h"
#include "tests/support/test.h"

static struct builder *builder;

static struct value
text(const char *string)
{
	struct value value;

	EXPECT_EQ(
	    builder_string(builder, string, strlen(string), &value), WEIR_OK);
	return value;
}

static struct value
integer(int64_t number)
{
	return (struct value){ .kind = VALUE_INTEGER, .integer = number };
}

static struct value
list_of(size_t count, const struct value *items)
{
	struct value list;

	EXPECT_EQ(builder_list(builder, &list), WEIR_OK);
	EXPECT_EQ(builder_append(builder, list, items, count), WEIR_OK);
	return list;
}

/* A dict of pairs of a key and a value, up to NULL; set in one go. */
static struct value
dict_of(const char *key, ...)
{
	struct value pairs[32];
	struct value dict;
	size_t count = 0;
	va_list args;

	va_start(args, key);
	for (; key != NULL; key = va_arg(args, const char *)) {
		pairs[count++] = text(key);
		pairs[count++] = va_arg(args, struct value);
	}
	va_end(args);
	EXPECT_EQ(builder_dict(builder, &dict), WEIR_OK);
	EXPECT_EQ(builder_set(builder, dict, pairs, count), WEIR_OK);
	return dict;
}

static struct value
frame(const char *name)
{
	return dict_of("name", text(name), "filename", text("a.py"), "line",
	    integer(3), NULL);
}

static struct value
event(const char *action, int64_t address, struct value frames)
{
	return dict_of("action", text(action), "addr", integer(address), "size",
	    integer(512), "frames", frames, NULL);
}

static struct snapshot *
finished(struct value top)
{
	struct snapshot *snapshot;

	if (builder_finish(builder, top, &snapshot) != WEIR_OK)
		FAIL("refused: %s", weir_last_error());
	builder_free(builder);
	return snapshot;
}

/* A snapshot whose one device has these events. */
static struct snapshot *
traced(size_t count, const struct value *events)
{
	struct value trace = list_of(count, events);

	return finished(dict_of("segments", list_of(0, NULL), "device_traces",
	    list_of(1, &trace), NULL));
}

TEST(equal_strings_frames_and_stacks_are_kept_once)
{
	struct snapshot *snapshot;
	struct value events[3];

	builder = builder_new(false);
	for (int i = 0; i < 3; i++) {
		struct value frames[2] = { frame("f"), frame("g") };

		events[i] = event("alloc", 4096 * i, list_of(2, frames));
	}
	snapshot = traced(3, events);
	EXPECT_EQ(snapshot->events.count, 3);
	EXPECT_EQ(snapshot->frame_count, 2);
	EXPECT_EQ(snapshot->stack_count, 2);
	EXPECT_EQ(snapshot->events.stack[0], snapshot->events.stack[2]);
	EXPECT_EQ(snapshot->events.address[2], 8192);
	snapshot_free(snapshot);
}

TEST(one_frame_is_a_stack_too)
{
	struct snapshot *snapshot;
	struct value only;
	struct value events[1];

	builder = builder_new(true);
	only = frame("f");
	events[0] = event("alloc", 0, list_of(1, &only));
	snapshot = traced(1, events);
	EXPECT_EQ(snapshot->stacks[snapshot->events.stack[0]].count, 1);
	snapshot_free(snapshot);
}

TEST(actions_that_are_not_known_get_numbers)
{
	struct snapshot *snapshot;
	struct value events[3];

	builder = builder_new(false);
	events[0] = event("defragment", 0, list_of(0, NULL));
	events[1] = event("alloc", 0, list_of(0, NULL));
	events[2] = event("defragment", 0, list_of(0, NULL));
	snapshot = traced(3, events);
	EXPECT_EQ(snapshot->action_count, SNAPSHOT_ACTIONS_KNOWN + 1);
	EXPECT_EQ(snapshot->events.action[0], snapshot->events.action[2]);
	EXPECT_STR_EQ(
	    snapshot_action_name(snapshot, snapshot->events.action[0]),
	    "defragment");
	EXPECT_EQ(snapshot->events.action[1], SNAPSHOT_ALLOC);
	snapshot_free(snapshot);
}

TEST(more_kinds_of_action_than_there_is_room_for_are_refused)
{
	enum weir_status status = WEIR_OK;

	builder = builder_new(false);
	for (int i = 0; i < 60 && status == WEIR_OK; i++) {
		char name[2] = { (char)('0' + i), '\0' };
		struct value pairs[4];
		struct value dict;

		pairs[0] = text("action");
		pairs[1] = text(name);
		pairs[2] = text("size");
		pairs[3] = integer(0);
		EXPECT_EQ(builder_dict(builder, &dict), WEIR_OK);
		status = builder_set(builder, dict, pairs, 4);
	}
	EXPECT_EQ(status, WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "more than 64 names");
	builder_free(builder);
}

TEST(a_dict_set_pair_by_pair_is_the_same)
{
	static const char *const keys[] = { "size", "action", "addr" };
	struct snapshot *snapshot;
	struct value dict;

	builder = builder_new(true);
	EXPECT_EQ(builder_dict(builder, &dict), WEIR_OK);
	for (int i = 0; i < 3; i++) {
		struct value pair[2] = { text(keys[i]),
			i == 1 ? text("free_completed") : integer(77) };

		EXPECT_EQ(builder_set(builder, dict, pair, 2), WEIR_OK);
	}
	snapshot = traced(1, &dict);
	EXPECT_EQ(snapshot->events.action[0], SNAPSHOT_FREE_COMPLETED);
	EXPECT_EQ(snapshot->events.address[0], 77);
	EXPECT_EQ(snapshot->events.bytes[0], 77);
	snapshot_free(snapshot);
}

TEST(an_event_that_is_listed_twice_is_refused)
{
	struct snapshot *snapshot;
	struct value events[2];
	struct value trace;
	struct value top;

	builder = builder_new(true);
	events[0] = event("alloc", 0, list_of(0, NULL));
	events[1] = events[0];
	trace = list_of(2, events);
	top =
	    dict_of("device_traces", list_of(1, &trace), "x", integer(1), NULL);
	EXPECT_EQ(builder_finish(builder, top, &snapshot), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "is not one of events");
	builder_free(builder);
}

TEST(a_trace_that_two_devices_share_is_refused)
{
	struct snapshot *snapshot;
	struct value events[1];
	struct value traces[2];
	struct value top;

	builder = builder_new(true);
	events[0] = event("alloc", 0, list_of(0, NULL));
	traces[0] = list_of(1, events);
	traces[1] = traces[0];
	top =
	    dict_of("device_traces", list_of(2, traces), "x", integer(1), NULL);
	EXPECT_EQ(builder_finish(builder, top, &snapshot), WEIR_EINVAL);
	builder_free(builder);
}

TEST(events_that_are_in_no_trace_are_dropped)
{
	struct snapshot *snapshot;
	struct value other;
	struct value traces[2];
	struct value events[2];

	builder = builder_new(true);
	other = event("oom", 1, list_of(0, NULL));
	other = list_of(1, &other);
	events[0] = event("alloc", 2, list_of(0, NULL));
	traces[0] = list_of(1, events);
	events[1] = dict_of("action", text("alloc"), "addr", integer(3), "size",
	    integer(512), "served_by", text("grown"), NULL);
	traces[1] = list_of(1, &events[1]);
	/* All members of an event move, the last ones too. */
	snapshot = finished(dict_of(
	    "host_traces", other, "device_traces", list_of(2, traces), NULL));
	EXPECT_EQ(snapshot->events.count, 2);
	EXPECT_EQ(snapshot->events.address[0], 2);
	EXPECT_EQ(snapshot->events.address[1], 3);
	EXPECT_EQ(snapshot->events.device[1], 1);
	EXPECT_STR_EQ(
	    snapshot_text(snapshot, snapshot->events.served_by[0]), "");
	EXPECT_STR_EQ(
	    snapshot_text(snapshot, snapshot->events.served_by[1]), "grown");
	snapshot_free(snapshot);
}

static struct value
segment(int64_t address)
{
	return dict_of("address", integer(address), "total_size", integer(512),
	    "blocks", list_of(0, NULL), NULL);
}

/* In any order that the file has. */
TEST(host_segments_lie_behind_those_of_devices_and_are_counted_apart)
{
	for (int turn = 0; turn < 2; turn++) {
		struct value rows[2];
		struct value lists[2];
		struct snapshot *snapshot;
		struct snapshot host;

		builder = builder_new(true);
		for (int i = 0; i < 2; i++) {
			bool of_host = (i == 0) == (turn == 1);

			rows[0] = segment(of_host ? 7 : 1);
			rows[1] = segment(of_host ? 8 : 2);
			lists[of_host] = list_of(2, rows);
		}
		snapshot =
		    finished(turn == 0 ? dict_of("segments", lists[0],
					     "host_segments", lists[1], NULL) :
					 dict_of("host_segments", lists[1],
					     "segments", lists[0], NULL));
		EXPECT_EQ(snapshot->segment_count, 2);
		EXPECT_EQ(snapshot->host_count, 2);
		EXPECT_EQ(snapshot->segments[0].address, 1);
		EXPECT_EQ(snapshot->segments[1].address, 2);
		host = snapshot_host(snapshot);
		EXPECT_EQ(host.segment_count, 2);
		EXPECT_EQ(host.segments[0].address, 7);
		EXPECT_EQ(host.segments[1].address, 8);
		EXPECT_EQ(host.trace_count, 0);
		EXPECT_EQ(snapshot->setting_count, 0);
		snapshot_free(snapshot);
	}
}

TEST(invalid_host_segments_are_passed_over)
{
	struct snapshot *snapshot;

	builder = builder_new(true);
	snapshot = finished(dict_of("segments", list_of(0, NULL),
	    "host_segments", integer(3), "host_traces", integer(4), NULL));

	EXPECT_EQ(snapshot->host_count, 0);
	EXPECT_EQ(snapshot->setting_count, 0);
	snapshot_free(snapshot);
}

TEST(containers_that_became_rows_are_used_again)
{
	struct value trace;
	size_t before = 0;

	builder = builder_new(false);
	EXPECT_EQ(builder_list(builder, &trace), WEIR_OK);
	for (int i = 0; i < 2000; i++) {
		struct value frames[2] = { frame("f"), frame("g") };
		struct value one = event("alloc", i, list_of(2, frames));

		EXPECT_EQ(builder_append(builder, trace, &one, 1), WEIR_OK);
		EXPECT_LT(one.id, 16);
		if (i == 1000)
			before = meta_bytes();
	}
	/* The events themselves, and nothing for their dicts. */
	EXPECT_LT(meta_bytes() - before, 1000 * 64 * 2);
	builder_free(builder);
}

TEST(without_host_memory_there_is_no_builder)
{
	size_t before = meta_bytes();

	for (unsigned long nth = 1; nth < 10; nth++) {
		meta_fail(nth, 1);
		EXPECT_NULL(builder_new(true));
		EXPECT_EQ(weir_last_status(), WEIR_EHOSTMEM);
		EXPECT_EQ(meta_bytes(), before);
	}
	meta_fail(0, 0);
}
