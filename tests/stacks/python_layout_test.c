/*
 * Frames read from an interpreter that this test has built in memory, and from
 * memory that is no interpreter. tests/python/frames_test.py reads frames of a
 * real Python.
 */
#include "stacks/python_layout.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/test.h"

/* Memory that is read as structs: bytes, filled in at offsets. */
struct thing {
	_Alignas(8) unsigned char bytes[256];
};

static const char *code_type;
static const char *text_type;
static const char **version;
static void **state;

static void
put(struct thing *thing, size_t offset, const void *pointer)
{
	memcpy(thing->bytes + offset, &pointer, sizeof(pointer));
}

static void
fake(const char *its_version)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/tests/stacks/fake/python.so",
	    test_build_dir());
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	EXPECT_NOT_NULL(library);
	code_type = dlsym(library, "PyCode_Type");
	text_type = dlsym(library, "PyUnicode_Type");
	version = dlsym(library, "fake_python_version");
	state = dlsym(library, "fake_python_state");
	*version = its_version;
}

/* A text of ASCII as 3.11 has it. */
static struct thing
text_of(const char *words)
{
	enum { COMPACT_ASCII = 0x64 };
	struct thing text = { { 0 } };
	int64_t length = (int64_t)strlen(words);
	unsigned bits = COMPACT_ASCII;

	put(&text, 8, text_type);
	memcpy(text.bytes + 16, &length, sizeof(length));
	memcpy(text.bytes + 32, &bits, sizeof(bits));
	memcpy(text.bytes + 48, words, strlen(words));
	return text;
}

/* Two frames as 3.11 has them: inner() was called by outer(). */
static struct thing inner_name, outer_name, file_name, inner_code, outer_code,
    inner, outer, cframe, thread;

static void
make_stack(void)
{
	inner_name = text_of("inner");
	outer_name = text_of("outer");
	file_name = text_of("/a/b.py");
	put(&inner_code, 8, code_type);
	put(&inner_code, 112, &file_name);
	put(&inner_code, 120, &inner_name);
	outer_code = inner_code;
	put(&outer_code, 120, &outer_name);
	put(&inner, 32, &inner_code);
	put(&inner, 48, &outer);
	put(&inner, 56, inner_code.bytes + 184 + 6);
	put(&outer, 32, &outer_code);
	put(&outer, 56, outer_code.bytes + 184 + 20);
	put(&cframe, 8, &inner);
	put(&thread, 56, &cframe);
	*state = &thread;
}

static void
expect_stack(void)
{
	char function[LAYOUT_TEXT];
	char file[LAYOUT_TEXT];
	struct layout_walk walk;

	EXPECT_EQ(layout_begin(&walk), true);
	EXPECT_EQ(layout_next(&walk), true);
	EXPECT_EQ(walk.line, 1006);
	EXPECT_EQ(layout_names(walk.code, function, file), true);
	EXPECT_STR_EQ(function, "inner");
	EXPECT_STR_EQ(file, "/a/b.py");
	EXPECT_EQ(layout_next(&walk), true);
	EXPECT_EQ(walk.line, 1020);
	EXPECT_EQ(layout_names(walk.code, function, file), true);
	EXPECT_STR_EQ(function, "outer");
	EXPECT_EQ(layout_next(&walk), false);
	layout_end(&walk);
}

TEST(frames_are_read_first_with_care_and_then_as_they_are)
{
	fake("3.11.2 (main)");
	make_stack();
	EXPECT_EQ(layout_find(), true);
	expect_stack();
	expect_stack();
}

TEST(a_thread_that_runs_no_python_has_no_frames)
{
	struct layout_walk walk;

	fake("3.11.2");
	EXPECT_EQ(layout_find(), true);
	*state = NULL;
	EXPECT_EQ(layout_begin(&walk), false);
	make_stack();
	put(&cframe, 8, NULL);
	EXPECT_EQ(layout_begin(&walk), false);
	make_stack();
	expect_stack();
}

TEST(versions_that_are_not_known_are_not_read)
{
	const char *const unknown[] = { "3.8.1", "3.14.0", "2.7.18", "4.11.0",
		"3.13.0 experimental free-threading build", "" };
	struct layout_walk walk;

	fake("");
	make_stack();
	for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
		*version = unknown[i];
		EXPECT_EQ(layout_find(), false);
		EXPECT_EQ(layout_begin(&walk), false);
	}
}

/* Walk until the end, or until more frames were reported than there can be. */
static int
walk_all(void)
{
	char function[LAYOUT_TEXT];
	char file[LAYOUT_TEXT];
	struct layout_walk walk;
	int n = 0;

	if (!layout_begin(&walk))
		return 0;
	while (n < 1000 && layout_next(&walk)) {
		n++;
		if (!layout_names(walk.code, function, file))
			break;
	}
	layout_end(&walk);
	return n;
}

/* A thread whose frame is the one at an address. */
static void
begin_at(const void *frame)
{
	fake("3.11.2");
	make_stack();
	EXPECT_EQ(layout_find(), true);
	put(&cframe, 8, frame);
}

TEST(a_frame_at_an_address_of_nothing_is_no_fault)
{
	begin_at((const void *)16);
	EXPECT_EQ(walk_all(), 0);
	/* The memory did not have this layout: reading has ended for good. */
	make_stack();
	EXPECT_EQ(walk_all(), 0);
}

TEST(an_invalid_code_ends_all_reading)
{
	begin_at(&inner);
	put(&outer, 32, &outer_name);
	EXPECT_EQ(walk_all(), 1);
	make_stack();
	EXPECT_EQ(walk_all(), 0);
}

TEST(a_name_that_is_no_text_ends_all_reading)
{
	begin_at(&inner);
	put(&inner_code, 120, &outer_code);
	EXPECT_EQ(walk_all(), 1);
	make_stack();
	EXPECT_EQ(walk_all(), 0);
}

TEST(a_text_that_is_longer_than_memory_is_cut)
{
	int64_t length = INT64_MAX;
	char function[LAYOUT_TEXT];
	char file[LAYOUT_TEXT];

	/* The name is either read as text or refused. */
	begin_at(&inner);
	memcpy(inner_name.bytes + 16, &length, sizeof(length));
	if (layout_names(&inner_code, function, file))
		EXPECT_EQ(strlen(function) < LAYOUT_TEXT, true);
	length = -1;
	memcpy(inner_name.bytes + 16, &length, sizeof(length));
	EXPECT_EQ(layout_names(&inner_code, function, file), false);
}

TEST(frames_in_a_ring_end_where_the_caller_likes)
{
	begin_at(&inner);
	put(&outer, 48, &inner);
	EXPECT_EQ(walk_all(), 1000);
}

TEST(a_ring_of_calls_from_c_ends)
{
	struct thing c = { { 0 } };

	fake("3.13.0");
	EXPECT_EQ(layout_find(), true);
	c.bytes[70] = 3;
	put(&c, 8, &c);
	put(&thread, 72, &c);
	*state = &thread;
	EXPECT_EQ(walk_all(), 0);
}
