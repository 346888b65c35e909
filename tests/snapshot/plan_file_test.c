/*
 * plan_file.h: what was written is read; anything else is refused.
 */
#include "snapshot/plan_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/meta.h"
#include "tests/support/command.h"
#include "tests/support/test.h"

enum { HEAD = 56, ENTRY = 20, SIZE = HEAD + 3 * ENTRY + 8 };

/* A plan of one request before the round, and a round of two that lie beside
 * each other. */
static struct plan *
good_plan(void)
{
	struct plan *plan;

	EXPECT_EQ(plan_new(3, &plan), WEIR_OK);
	plan->bytes = 12288;
	plan->round_bytes = 8192;
	plan->live_bytes = 4608;
	plan->held_bytes = 77777;
	plan->round = 1;
	plan->streams = 2;
	plan->entries[0] = (struct plan_entry){ 1024, 8192, 1 };
	plan->entries[1] = (struct plan_entry){ 4096, 512, 0 };
	plan->entries[2] = (struct plan_entry){ 512, 0, 1 };
	EXPECT_EQ(plan_verify(plan), WEIR_OK);
	return plan;
}

static void
expect_same_plan(const struct plan *a, const struct plan *b)
{
	EXPECT_EQ(a->bytes, b->bytes);
	EXPECT_EQ(a->round_bytes, b->round_bytes);
	EXPECT_EQ(a->live_bytes, b->live_bytes);
	EXPECT_EQ(a->held_bytes, b->held_bytes);
	EXPECT_EQ(a->count, b->count);
	EXPECT_EQ(a->round, b->round);
	EXPECT_EQ(a->streams, b->streams);
	for (uint32_t i = 0; i < a->count; i++) {
		EXPECT_EQ(a->entries[i].size, b->entries[i].size);
		EXPECT_EQ(a->entries[i].offset, b->entries[i].offset);
		EXPECT_EQ(a->entries[i].stream, b->entries[i].stream);
	}
}

/* Write the plan, and return the file's bytes. */
static void
bytes_of(const struct plan *plan, const char *path, uint8_t bytes[SIZE + 1])
{
	FILE *file;

	EXPECT_EQ(plan_write(plan, path), WEIR_OK);
	file = fopen(path, "rb");
	EXPECT_NOT_NULL(file);
	EXPECT_EQ(fread(bytes, 1, SIZE + 1, file), SIZE);
	fclose(file);
}

static void
set_sum(uint8_t bytes[SIZE])
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (int i = 0; i < SIZE - 8; i++)
		sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
	for (int i = 0; i < 8; i++)
		bytes[SIZE - 8 + i] = (uint8_t)(sum >> 8 * i);
}

static void
expect_refused(const uint8_t *bytes, size_t size, const char *why)
{
	struct plan *plan = NULL;

	EXPECT_EQ(plan_decode("it", bytes, size, &plan), WEIR_EINVAL);
	EXPECT_NULL(plan);
	EXPECT_EQ(strncmp(weir_last_error(), "it: ", 4), 0);
	EXPECT_STR_HAS(weir_last_error(), why);
}

TEST(a_plan_that_was_written_is_read)
{
	char *path = test_file("plan", "", 0);
	struct plan *plan = good_plan();
	struct plan *again;

	EXPECT_EQ(plan_write(plan, path), WEIR_OK);
	EXPECT_EQ(plan_read(path, &again), WEIR_OK);
	expect_same_plan(plan, again);
	plan_free(again);
	plan_free(plan);
	free(path);
}

TEST(a_file_that_is_cut_or_longer_is_refused)
{
	char *path = test_file("plan", "", 0);
	struct plan *plan = good_plan();
	uint8_t bytes[SIZE + 1] = { 0 };

	bytes_of(plan, path, bytes);
	for (size_t size = 0; size < SIZE; size++)
		expect_refused(bytes, size, "this");
	expect_refused(bytes, SIZE + 1, "another size");
	plan_free(plan);
	free(path);
}

TEST(each_changed_bit_is_found)
{
	char *path = test_file("plan", "", 0);
	struct plan *plan = good_plan();
	uint8_t bytes[SIZE + 1];

	bytes_of(plan, path, bytes);
	for (size_t i = 0; i < SIZE; i++)
		for (int bit = 0; bit < 8; bit++) {
			bytes[i] ^= (uint8_t)(1 << bit);
			expect_refused(bytes, SIZE, "this");
			bytes[i] ^= (uint8_t)(1 << bit);
		}
	plan_free(plan);
	free(path);
}

TEST(a_file_of_another_version_is_named_as_such)
{
	char *path = test_file("plan", "", 0);
	struct plan *plan = good_plan();
	uint8_t bytes[SIZE + 1];

	bytes_of(plan, path, bytes);
	bytes[8] = 3;
	set_sum(bytes);
	expect_refused(bytes, SIZE, "another version");
	plan_free(plan);
	free(path);
}

/* Values that no checksum finds: their file is consistent. */
TEST(wrong_values_with_a_right_checksum_are_refused)
{
	static const struct {
		size_t at;
		uint64_t value;
		unsigned bytes;
		const char *why;
	} cases[] = {
		{ 12, 0, 4, "another size" },
		{ 12, UINT32_MAX, 4, "another size" },
		{ 16, 3, 4, "no round" },
		{ 16, UINT32_MAX, 4, "no round" },
		{ 20, 0, 4, "streams" },
		{ 20, PLAN_STREAMS + 1, 4, "streams" },
		{ 24, 0, 8, "bytes" },
		{ 24, 12289, 8, "bytes" },
		{ 24, UINT64_C(1) << 60, 8, "bytes" },
		{ 24, 4096, 8, "bytes" },
		{ 32, 0, 8, "bytes" },
		{ 32, 8191, 8, "bytes" },
		{ 40, 8704, 8, "bytes" },
		{ HEAD, 0, 8, "size" },
		{ HEAD, 1000, 8, "size" },
		{ HEAD, UINT64_MAX - 511, 8, "size" },
		{ HEAD + 8, 12288, 8, "outside" },
		{ HEAD + 8, 100, 8, "outside" },
		{ HEAD + 8, UINT64_MAX - 1023, 8, "outside" },
		{ HEAD + 16, 2, 4, "unknown stream" },
		{ HEAD + ENTRY + 8, 4608, 8, "outside" },
	};
	char *path = test_file("plan", "", 0);
	struct plan *plan = good_plan();

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t bytes[SIZE + 1];

		bytes_of(plan, path, bytes);
		for (unsigned n = 0; n < cases[i].bytes; n++)
			bytes[cases[i].at + n] =
			    (uint8_t)(cases[i].value >> 8 * n);
		set_sum(bytes);
		expect_refused(bytes, SIZE, cases[i].why);
	}
	plan_free(plan);
	free(path);
}

TEST(a_plan_that_is_wrong_is_not_written)
{
	char *path = test_file("plan", "", 0);
	struct plan *plan = good_plan();

	plan->entries[1].offset = 8192;
	EXPECT_EQ(plan_write(plan, path), WEIR_EINVAL);
	plan_free(plan);
	free(path);
}

TEST(what_is_no_file_is_refused)
{
	struct plan *plan;
	char *path = test_file("fifo", "", 0);

	EXPECT_EQ(plan_read("/nowhere/plan", &plan), WEIR_EINVAL);
	EXPECT_EQ(plan_read("/", &plan), WEIR_EINVAL);
	EXPECT_EQ(plan_read("/dev/zero", &plan), WEIR_EINVAL);
	remove(path);
	EXPECT_EQ(mkfifo(path, 0600), 0);
	EXPECT_EQ(plan_read(path, &plan), WEIR_EINVAL);
	free(path);
}

TEST(without_host_memory_nothing_is_left_behind)
{
	char *path = test_file("plan", "", 0);
	struct plan *plan = good_plan();
	struct plan *again;

	EXPECT_EQ(plan_write(plan, path), WEIR_OK);
	size_t before = meta_bytes();
	for (unsigned long n = 1; n <= 2; n++) {
		meta_fail(n, 1);
		EXPECT_EQ(plan_read(path, &again), WEIR_EHOSTMEM);
		EXPECT_EQ(meta_bytes(), before);
	}
	meta_fail(0, 0);
	plan_free(plan);
	free(path);
}
