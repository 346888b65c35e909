/*
 * weir diff: equal, added and removed stacks.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

static json_t *
difference(const char *before, const char *after)
{
	struct command_result result =
	    command_weir("diff", "--json", before, after, NULL);
	json_t *json;

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	json = json_loads(result.out, 0, NULL);
	EXPECT_NOT_NULL(json);
	command_free(&result);
	return json;
}

#define BLOCK(size, line)                                                      \
	"{\"size\": " #size ", \"state\": \"active_allocated\", \"frames\": "  \
	"[{\"name\": \"f\", \"filename\": \"f.py\", \"line\": " #line "}]}"
#define SEGMENT(address, size, blocks)                                         \
	"{\"address\": " #address ", \"total_size\": " #size                   \
	", \"blocks\": [" blocks "]}"

static const char before[] =
    "[" SEGMENT(4096, 1024, BLOCK(512, 1) ", " BLOCK(512, 2)) ", " SEGMENT(
	8192, 512, BLOCK(512, 1)) "]";
static const char after[] = "[" SEGMENT(
    4096, 1024, BLOCK(1024, 2)) ", " SEGMENT(16384, 4096, BLOCK(4096, 3)) "]";

static json_t *
small_difference(void)
{
	return difference(written("a.json", before, sizeof(before) - 1),
	    written("b.json", after, sizeof(after) - 1));
}

TEST(a_snapshot_does_not_differ_from_itself)
{
	json_t *json = difference(train(), snapshot_data("train1.pickle"));

	EXPECT_EQ(number_at(json, "change_count"), 0);
	EXPECT_EQ(number_at(json, "went.segments"), 0);
	EXPECT_EQ(number_at(json, "came.segments"), 0);
	EXPECT_EQ(number_at(json, "before.allocated_bytes"), 73928192);
	EXPECT_EQ(number_at(json, "after.allocated_bytes"), 73928192);
	json_decref(json);
}

TEST(segments_that_came_and_went_are_counted)
{
	json_t *json = small_difference();

	EXPECT_EQ(number_at(json, "went.segments"), 1);
	EXPECT_EQ(number_at(json, "went.reserved_bytes"), 512);
	EXPECT_EQ(number_at(json, "came.segments"), 1);
	EXPECT_EQ(number_at(json, "came.reserved_bytes"), 4096);
	json_decref(json);
}

/* No address is of both, and one size of each. */
TEST(segments_of_two_processes_are_compared_by_size)
{
	static const char other[] = "[" SEGMENT(16384, 1024,
	    BLOCK(1024, 1)) ", " SEGMENT(32768, 4096, BLOCK(4096, 3)) "]";
	const char *a = written("a.json", before, sizeof(before) - 1);
	const char *b = written("b.json", other, sizeof(other) - 1);
	struct command_result result = command_weir("diff", a, b, NULL);
	json_t *json = difference(a, b);

	EXPECT_STR_EQ(text_at(json, "segments_by"), "size");
	EXPECT_EQ(number_at(json, "went.segments"), 1);
	EXPECT_EQ(number_at(json, "went.reserved_bytes"), 512);
	EXPECT_EQ(number_at(json, "came.segments"), 1);
	EXPECT_EQ(number_at(json, "came.reserved_bytes"), 4096);
	EXPECT_STR_HAS(result.out,
	    "no segment is at one address in both, as in two processes; by "
	    "size:\n1 segment removed (512 bytes), 1 added (4.00 KiB)\n");
	json_decref(json);
	command_free(&result);
	json = small_difference();
	EXPECT_STR_EQ(text_at(json, "segments_by"), "address");
	json_decref(json);
}

/* Memory that one side lacks altogether is no other process's. */
TEST(segments_that_all_went_are_counted)
{
	const char *a = written("a.json", before, sizeof(before) - 1);
	json_t *json = difference(a, written("none.json", "[]", 2));

	EXPECT_STR_EQ(text_at(json, "segments_by"), "address");
	EXPECT_EQ(number_at(json, "went.segments"), 2);
	json_decref(json);
}

TEST(stacks_are_printed_by_how_much_they_changed)
{
	json_t *json = small_difference();

	EXPECT_EQ(number_at(json, "change_count"), 3);
	EXPECT_STR_EQ(text_at(json, "changes.0.site"), "f (f.py:3)");
	EXPECT_EQ(number_at(json, "changes.0.before_bytes"), 0);
	EXPECT_EQ(number_at(json, "changes.0.after_bytes"), 4096);
	EXPECT_STR_EQ(text_at(json, "changes.1.site"), "f (f.py:1)");
	EXPECT_EQ(number_at(json, "changes.1.before_bytes"), 1024);
	EXPECT_EQ(number_at(json, "changes.1.before_blocks"), 2);
	EXPECT_EQ(number_at(json, "changes.1.after_bytes"), 0);
	EXPECT_EQ(number_at(json, "changes.2.after_bytes"), 1024);
	json_decref(json);
}

TEST(differences_are_printed_with_their_signs)
{
	const char *a = written("a.json", before, sizeof(before) - 1);
	const char *b = written("b.json", after, sizeof(after) - 1);
	struct command_result result = command_weir("diff", a, b, NULL);

	expect_begin(result.out,
	    "allocated memory went from 1.50 KiB to 5.00 KiB "
	    "(+3.50 KiB)\n");
	EXPECT_STR_HAS(
	    result.out, "1 segment removed (512 bytes), 1 added (4.00 KiB)\n");
	EXPECT_STR_HAS(result.out, "-1.00 KiB   1.00 KiB   0 bytes  2 to 0");
	command_free(&result);
	result = command_weir("diff", a, a, NULL);
	EXPECT_STR_HAS(result.out, "no stack holds more or less than before");
	command_free(&result);
}

TEST(two_snapshots_are_wanted)
{
	struct command_result result = command_weir("diff", train(), NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "too few SNAPSHOTs");
	command_free(&result);
}

/* A device that only one of the snapshots has is a difference. */
TEST(a_device_that_neither_side_has_is_refused)
{
	const char *one = written("a.json", before, sizeof(before) - 1);
	struct command_result result =
	    command_weir("diff", "-d", "7", one, train(), NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_STR_HAS(result.err, "a.json has device 0 only, not 7");
	EXPECT_STR_HAS(
	    result.err, "train4.pickle has devices 0 and 1 only, not 7");
	command_free(&result);
	result = command_weir("diff", "-d", "1", one, train(), NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	result = command_weir("diff", "-d", "1", train(), one, NULL);
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
}
