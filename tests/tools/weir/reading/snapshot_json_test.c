/*
 * Snapshots in JSON: all ways to write one, and the places of faults.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "base/status.h"
#include "tests/support/test.h"
#include "tools/weir/reading/snapshot_json.h"

/* Return the text one byte at a time, as a slow pipe would. */
struct drip {
	const char *text;
	size_t left;
};

static ptrdiff_t
read_drip(void *user, void *buffer, size_t size)
{
	struct drip *drip = user;

	if (drip->left == 0 || size == 0)
		return 0;
	*(char *)buffer = *drip->text++;
	drip->left--;
	return 1;
}

static struct snapshot *
read_text(const char *text, bool slowly)
{
	struct drip drip = { text, strlen(text) };
	struct source source;
	struct snapshot *snapshot = NULL;
	enum weir_status status;

	if (slowly)
		EXPECT_EQ(source_open(&source, read_drip, &drip), WEIR_OK);
	else
		source_of_memory(&source, text, strlen(text));
	status = snapshot_json_read(&source, &snapshot);
	if (slowly)
		source_close(&source);
	EXPECT_EQ(status == WEIR_OK, snapshot != NULL);
	return snapshot;
}

static struct snapshot *
taken(const char *text, bool slowly)
{
	struct snapshot *snapshot = read_text(text, slowly);

	if (snapshot == NULL)
		FAIL("refused: %s", weir_last_error());
	return snapshot;
}

static void
expect_refused(const char *text, const char *why)
{
	for (int slowly = 0; slowly < 2; slowly++) {
		EXPECT_NULL(read_text(text, slowly != 0));
		EXPECT_STR_HAS(weir_last_error(), why);
	}
}

static const char small[] =
    " {\n \"device_traces\" : [ [ {\"action\":\"alloc\",\"addr\":4096,"
    "\"size\":3,\"frames\":[{\"name\":\"a]}\\\"\",\"filename\":\"b\"}]} , "
    "{\"action\":\"oom\",\"device_free\":7,\"size\":9} ] , [ ] ],\n"
    "\"segments\":[{\"address\":4096,\"total_size\":512,\"stream\":-1,"
    "\"blocks\":[{\"size\":512,\"state\":\"inactive\"}],"
    "\"segment_pool_id\":[0,3]}],\"rank\": 3 , \"x\":{\"y\":[1,2]},"
    "\"big\":18446744073709551615,\"t\":true,\"n\":null}\n ";

TEST(json_is_read_with_blanks_and_escapes)
{
	for (int slowly = 0; slowly < 2; slowly++) {
		struct snapshot *snapshot = taken(small, slowly != 0);
		uint32_t frame;

		EXPECT_EQ(snapshot->segment_count, 1);
		EXPECT_EQ(snapshot->segments[0].stream, UINT64_MAX);
		EXPECT_EQ(
		    snapshot->pools[snapshot->segments[0].pool].second, 3);
		EXPECT_EQ(snapshot->blocks[0].address, 4096);
		EXPECT_EQ(snapshot->trace_count, 2);
		EXPECT_EQ(snapshot->events.count, 2);
		EXPECT_EQ(snapshot->events.address[1], 7);
		frame = snapshot->stack_frames
			    [snapshot->stacks[snapshot->events.stack[0]].first];
		EXPECT_STR_EQ(
		    snapshot_text(snapshot, snapshot->frames[frame].name),
		    "a]}\"");
		EXPECT_EQ(snapshot->setting_count, 4);
		EXPECT_STR_EQ(
		    snapshot_text(snapshot, snapshot->settings[0].value), "3");
		EXPECT_STR_EQ(
		    snapshot_text(snapshot, snapshot->settings[1].value),
		    "18446744073709551615");
		snapshot_free(snapshot);
	}
}

TEST(a_list_of_segments_is_a_snapshot_in_json_too)
{
	struct snapshot *snapshot =
	    read_text("[{\"address\":0,\"total_size\":0,\"blocks\":[]}]", true);

	EXPECT_EQ(snapshot->segment_count, 1);
	snapshot_free(snapshot);
}

TEST(numbers_may_be_real)
{
	struct snapshot *snapshot = read_text(
	    "[{\"address\":4096.0,\"total_size\":5.12e2,\"blocks\":[]}]",
	    false);

	EXPECT_EQ(snapshot->segments[0].address, 4096);
	EXPECT_EQ(snapshot->segments[0].bytes, 512);
	snapshot_free(snapshot);
}

TEST(the_place_of_an_error_in_json_is_reported)
{
	expect_refused("{ 5", "JSON at offset 2: a key is expected");
	expect_refused("{\"segments\": [}", "JSON at offset 14");
	expect_refused("{\"segments\" []}", "JSON at offset 12: ':'");
	expect_refused("{\"a\": 1 \"b\": 2}", "offset 8: ',' or '}'");
	expect_refused("{\"a\": [1 2]}", "offset 9: ',' or ']'");
	expect_refused("{\"a\": 01}", "JSON at offset");
	expect_refused("{\"a\": nul}", "JSON at offset");
	expect_refused("{1: 2}", "offset 1: a key is expected");
	expect_refused(
	    "{\"segments\": []} x", "offset 17: the end is expected");
	expect_refused("{\"a\": \"\xff\"}", "JSON at offset");
	expect_refused("{\"segments\": [{\"address\": 0, \"total_size\": -5, "
		       "\"blocks\": []}]}",
	    "JSON at offset 14: 'total_size' of a segment");
}

TEST(json_cut_off_anywhere_is_refused)
{
	size_t length = strlen(small);

	for (size_t i = 0; i < length - 3; i++) {
		char *text = strndup(small, i);

		EXPECT_NULL(read_text(text, false));
		free(text);
	}
}

TEST(deep_json_is_refused)
{
	char text[4096] = "{\"a\": ";
	size_t length = strlen(text);

	memset(text + length, '[', 3000);
	expect_refused(text, "cut off");
	memset(text + length, '[', 500);
	memset(text + length + 500, ']', 500);
	text[length + 1000] = '}';
	text[length + 1001] = '\0';
	expect_refused(text, "nested more than 64 deep");
}

TEST(json_that_is_no_snapshot_is_reported)
{
	expect_refused("{}", "a dict without 'segments'");
	expect_refused("[1, 2, 3]", "a list, and not one of segments");
	expect_refused("{\"segments\": 5}", "not a list of segments");
}

/* Equal texts of "frames" are parsed once. Other texts that contain "frames"
 * are not mistaken for them. */
TEST(stacks_that_are_written_out_again_are_the_same)
{
	static const char text[] =
	    "{\"device_traces\": [[{\"action\":\"alloc\",\"size\":1,"
	    "\"frames\":[{\"name\":\"f\",\"filename\":\"x\",\"line\":1}]},"
	    "{\"frames\" : [{\"name\":\"f\",\"filename\":\"x\",\"line\":1}],"
	    "\"action\":\"alloc\",\"size\":2},"
	    "{\"action\":\"frames\",\"size\":3},"
	    "{\"action\":\"alloc\",\"size\":4,\"frames\":[]},"
	    "{\"action\":\"alloc\",\"size\":5,\"frames\":null},"
	    "{\"action\":\"alloc\",\"size\":6,\"x\":{\"frames\":[1]}},"
	    "{\"action\":\"alloc\",\"size\":7,\"frames\":[1, 2, 3]},"
	    "{\"user_metadata\":\"\\\"frames\\\":[\",\"action\":\"alloc\","
	    "\"size\":8}]]}";
	struct snapshot *snapshot = taken(text, true);
	const uint32_t *stacks;

	stacks = snapshot->events.stack;
	EXPECT_EQ(snapshot->events.count, 8);
	EXPECT_EQ(snapshot->frame_count, 1);
	EXPECT_NE(stacks[0], 0);
	EXPECT_EQ(stacks[1], stacks[0]);
	for (uint32_t i = 2; i < 8; i++)
		EXPECT_EQ(stacks[i], 0);
	for (uint32_t i = 0; i < 8; i++)
		EXPECT_EQ(snapshot->events.bytes[i], i + 1);
	EXPECT_STR_EQ(
	    snapshot_action_name(snapshot, snapshot->events.action[2]),
	    "frames");
	snapshot_free(snapshot);
}

TEST(a_mistake_in_frames_is_reported_by_its_place)
{
	expect_refused("{\"device_traces\": [[{\"action\":\"alloc\",\"size\":1,"
		       "\"frames\":[{]}]]}",
	    "JSON at offset ");
	expect_refused("{\"device_traces\": [[{\"action\":\"alloc\",\"size\":1,"
		       "\"frames\":[{\"name\":\"f\",\"filename\":\"x\","
		       "\"line\":\"y\"}]}]]}",
	    "'line' of a frame is not a number");
}

/* Let each allocation fail once, also those of the JSON library. Without the
 * reader's own memory functions the library would go on with a part of a token.
 */
static void
expect_no_memory_anywhere(const char *text)
{
	size_t before = meta_bytes();
	unsigned long nth = 1;

	for (;; nth++) {
		struct snapshot *snapshot;

		meta_fail(nth, 1);
		snapshot = read_text(text, false);
		if (meta_faults() == 0) {
			snapshot_free(snapshot);
			break;
		}
		EXPECT_NULL(snapshot);
		EXPECT_EQ(weir_last_status(), WEIR_EHOSTMEM);
		EXPECT_STR_HAS(weir_last_error(), "no host memory");
		EXPECT_EQ(meta_bytes(), before);
	}
	meta_fail(0, 0);
	EXPECT_GT(nth, 20);
}

TEST(without_host_memory_reading_fails_and_keeps_nothing)
{
	expect_no_memory_anywhere(small);
}

TEST(without_host_memory_a_long_number_is_not_read_in_part)
{
	expect_no_memory_anywhere(
	    "{\"segments\":[],\"n\":1234567890123456.25}");
}

TEST(without_host_memory_a_long_text_is_not_read_in_part)
{
	expect_no_memory_anywhere(
	    "{\"segments\":[],\"t\":\"a text of more than 32 bytes, for "
	    "which the library takes memory twice\"}");
}
