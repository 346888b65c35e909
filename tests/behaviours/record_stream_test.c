/*
 * docs/behaviours.md, rows on blocks that several streams use.
 */
#include <string.h>

#include <weir/host.h>

#include "tests/support/device.h"

/* ---- record_stream ----------------------------------------------------- */

TEST(a_block_used_on_another_stream_is_reused_when_its_work_is_done)
{
	weir_stream stream = new_stream();
	size_t size = 4 * MIB;
	void *input = take(size, NULL);
	void *result = take(size, stream);

	fill(input, size, 1, NULL);
	EXPECT_OK(weir_stream_wait_stream(stream, NULL));
	busy(stream, LATE_MS);
	copy(result, input, size, stream);
	record(input, stream);
	give(input);

	/* The stream still sleeps before its copy, which must not read the
	 * bytes that are written now. */
	void *other = take(size, NULL);
	EXPECT_NE(other, input);
	fill(other, size, 2, NULL);
	EXPECT(!is_done(stream));
	expect_filled(result, size, 1, stream);

	EXPECT_EQ(take(size, NULL), input);
	expect_healthy();
}

TEST(a_block_that_is_not_used_elsewhere_is_reused_at_once)
{
	weir_stream stream = new_stream();
	void *ptr = take(4 * MIB, stream);

	busy(stream, LATE_MS);
	fill(ptr, 4 * MIB, 1, stream);
	record(ptr, stream); /* its own stream, which needs no record */
	give(ptr);
	EXPECT_EQ(stats().pending_bytes, 0);
	EXPECT_EQ(take(4 * MIB, stream), ptr);
	EXPECT(!is_done(stream));
	expect_healthy();
}

TEST(the_same_use_recorded_many_times_is_one)
{
	weir_stream stream = new_stream();
	void *ptr = take(4 * MIB, NULL);

	for (int i = 0; i < 1000; i++)
		record(ptr, stream);
	busy(stream, 10);
	give(ptr);
	finish(stream);
	settle();
	EXPECT_EQ(take(4 * MIB, NULL), ptr);
	expect_healthy();
}

TEST(a_use_counts_for_the_block_s_present_life_only)
{
	weir_stream stream = new_stream();
	void *ptr = take(4 * MIB, NULL);

	record(ptr, stream);
	give(ptr);
	settle();
	EXPECT_EQ(take(4 * MIB, NULL), ptr);
	busy(stream, LATE_MS);
	give(ptr); /* this time no other stream has used it */
	EXPECT_EQ(take(4 * MIB, NULL), ptr);
	expect_healthy();
}

/* ---- weir_record_use() -------------------------------------------------- */

static void
record_past(const void *ptr, weir_stream stream)
{
	EXPECT_OK(weir_record_use(ptr, stream));
}

TEST(memory_is_ready_as_soon_as_a_past_use_is_over)
{
	weir_stream stream = new_stream();
	char *past = take(4 * MIB, NULL);
	char *used = take(4 * MIB, NULL);

	fill(past, 4 * MIB, 1, stream);
	record_past(past + 3, stream); /* any address within the block */
	record(used, stream);
	settle();
	busy(stream, LATE_MS);
	give(past);
	give(used);
	EXPECT_EQ(take(4 * MIB, NULL), past);
	EXPECT_NE(take(4 * MIB, NULL), used);
	EXPECT(!is_done(stream));
	expect_healthy();
}

TEST(a_past_use_that_goes_on_is_waited_for)
{
	weir_stream stream = new_stream();
	void *ptr = take(4 * MIB, NULL);

	busy(stream, LATE_MS);
	fill(ptr, 4 * MIB, 1, stream);
	record_past(ptr, stream);
	give(ptr);
	EXPECT_EQ(stats().pending_bytes, 4 * MIB);
	void *other = take(4 * MIB, NULL);
	EXPECT_NE(other, ptr);
	EXPECT(!is_done(stream));
	finish(stream);
	EXPECT_EQ(take(4 * MIB, NULL), ptr);
	expect_healthy();
}

/* No thread cache takes a block that other streams have used. */
TEST(small_memory_whose_past_use_is_over_serves_its_stream_again)
{
	weir_stream stream = new_stream();
	void *ptr = take(1024, NULL);

	for (int i = 0; i < 100; i++) {
		fill(ptr, 1024, (unsigned char)i, stream);
		record_past(ptr, stream);
		finish(stream);
		give(ptr);
		finish(stream);
		settle();
		ptr = take(1024, NULL);
	}
	give(ptr);
	EXPECT_LE(stats().reserved_bytes.all.peak, 4 * MIB);
	trim(0);
	EXPECT_EQ(stats().pending_bytes, 0);
	expect_healthy();
}

/* Large memory does so too: PyTorch's tests and programs that keep addresses
 * depend on it. */
TEST(small_memory_that_another_stream_used_is_reused_at_its_address)
{
	weir_stream stream = new_stream();
	void *ptr = take(16, stream);

	record(ptr, NULL);
	busy(NULL, LATE_MS);
	give(ptr);
	void *other = take(16, stream);
	EXPECT_NE(other, ptr);
	finish(NULL);
	EXPECT_EQ(take(16, stream), ptr);
	expect_healthy();
}

TEST(a_past_use_of_an_invalid_block_or_stream_is_refused)
{
	weir_stream gone = new_stream();
	void *ptr = take(1024, NULL);
	int local;

	EXPECT_OK(weir_stream_destroy(gone));
	EXPECT_STATUS(weir_record_use(ptr, gone), WEIR_EINVAL);
	EXPECT_STATUS(weir_record_use(&local, NULL), WEIR_EINVAL);
	EXPECT_NOT_NULL(strstr(weir_last_error(), "weir_record_use("));
	EXPECT_STATUS(weir_record_use(NULL, NULL), WEIR_EINVAL);
	give(ptr);
	expect_healthy();
}

TEST(host_memory_is_ready_when_its_past_use_is_over)
{
	weir_stream stream = new_stream();
	void *host = weir_host_malloc(4 * MIB);

	EXPECT_NOT_NULL(host);
	record_past(host, stream);
	settle();
	busy(stream, LATE_MS);
	EXPECT_OK(weir_host_free(host));
	EXPECT_EQ(weir_host_malloc(4 * MIB), host);
	EXPECT(!is_done(stream));
	expect_healthy();
}

/* ---- record_stream_on_shifted_view ------------------------------------- */

TEST(a_view_at_an_offset_records_the_block_it_lies_in)
{
	static const size_t offsets[] = { 1, 511, 512, 1000, 2 * MIB,
		4 * MIB - 1 };
	weir_stream stream = new_stream();

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		char *ptr = take(4 * MIB, NULL);
		busy(stream, 20);
		fill(ptr + offsets[i], 1, 1, stream);
		record(ptr + offsets[i], stream);
		give(ptr);
		EXPECT_EQ(stats().pending_bytes, 4 * MIB);
		EXPECT_NE(take(4 * MIB, NULL), ptr);
		finish(stream);
		settle();
		EXPECT_EQ(take(4 * MIB, NULL), ptr);
	}
	expect_healthy();
}

/* ---- caching_allocator_record_stream_oom ------------------------------- */

TEST(a_hundred_delayed_frees_do_not_exhaust_the_device)
{
	weir_stream stream = new_stream();
	size_t size = (size_t)40 * MIB;

	EXPECT_OK(weir_limit_set(0, 200 * MIB));
	void *sum = take(size, stream);
	fill(sum, size, 0, stream);
	for (int i = 0; i < 100; i++) {
		void *part = take(size, NULL);
		fill(part, size, (unsigned char)i, NULL);
		EXPECT_OK(weir_stream_wait_stream(stream, NULL));
		busy(stream, 1);
		copy(sum, part, size, stream);
		record(part, stream);
		give(part);
	}
	expect_filled(sum, size, 99, stream);
	EXPECT_EQ(stats().num_ooms, 0);
	EXPECT_LE(stats().reserved_bytes.all.peak, 200 * MIB);
	trim(0);
	EXPECT_EQ(stats().pending_bytes, 0);
	EXPECT_EQ(stats().reserved_bytes.all.current, size);
	expect_healthy();
}
