/*
 * Recording: which uses keep a freed block pending, and the errors for bad
 * input.
 */
#include <weir/host.h>

#include "tests/support/device.h"

TEST(a_block_waits_for_the_uses_that_were_recorded)
{
	weir_stream mine = new_stream();
	weir_stream other = new_stream();
	char *ptr = take(4 * MIB, mine);

	busy(other, LATE_MS);
	record(ptr, other);
	give(ptr);
	EXPECT_EQ(stats().pending_bytes, 4 * MIB);
	finish(other);
	take(4 * MIB, new_stream());
	EXPECT_EQ(stats().pending_bytes, 0);
	expect_healthy();
}

/* The use is of the moment of the call; later work of the stream is not part of
 * it. */
TEST(a_past_use_ends_before_the_stream_s_later_work)
{
	weir_stream mine = new_stream();
	weir_stream other = new_stream();
	char *past = take(4 * MIB, mine);
	char *until_free = take(4 * MIB, mine);

	fill(past, 4 * MIB, 1, other);
	EXPECT_OK(weir_record_use(past, other));
	record(until_free, other);
	finish(other);
	busy(other, LATE_MS);
	give(past);
	give(until_free);
	take(8 * MIB, mine); /* this request polls for complete memory */
	EXPECT_EQ(stats().pending_bytes, 4 * MIB);
	EXPECT(!is_done(other));
	expect_healthy();
}

TEST(a_use_by_the_stream_of_the_block_is_none)
{
	weir_stream mine = new_stream();
	char *ptr = take(4 * MIB, mine);

	busy(mine, LATE_MS);
	record(ptr, mine);
	EXPECT_OK(weir_record_use(ptr, mine));
	give(ptr);
	EXPECT_EQ(stats().pending_bytes, 0);
	expect_healthy();
}

/* Another device may be current. */
TEST(a_use_by_all_streams_is_of_the_device_of_the_block)
{
	weir_stream mine;
	weir_stream other;

	device_need(2);
	conf("prefer:speed"); /* no wait on the device instead */
	EXPECT_OK(weir_stream_create(1, 0, &mine));
	EXPECT_OK(weir_stream_create(1, 0, &other));
	for (int past = 0; past < 2; past++) {
		char *ptr = weir_malloc_on(1, 4 * MIB, mine);

		EXPECT_NOT_NULL(ptr);
		EXPECT_OK(weir_set_device(1));
		busy(other, LATE_MS);
		EXPECT_OK(weir_set_device(0));
		EXPECT_OK(past ? weir_record_use(ptr, WEIR_STREAM_ANY) :
				 weir_record_stream(ptr, WEIR_STREAM_ANY));
		give(ptr);
		char *early = weir_malloc_on(1, 4 * MIB, mine);
		EXPECT_NE(early, ptr);
		EXPECT(!is_done(other));
		give(early);
		EXPECT_OK(weir_trim(1, 0, NULL));
	}
	EXPECT_OK(weir_stream_destroy(mine));
	EXPECT_OK(weir_stream_destroy(other));
	expect_healthy();
}

TEST(a_use_by_all_streams_is_of_the_current_device_too)
{
	weir_stream mine;
	weir_stream guest;

	device_need(2);
	conf("prefer:speed"); /* no wait on the device instead */
	EXPECT_OK(weir_stream_create(1, 0, &mine));
	EXPECT_OK(weir_stream_create(0, 0, &guest));
	for (int past = 0; past < 2; past++) {
		char *ptr = weir_malloc_on(1, 4 * MIB, mine);

		EXPECT_NOT_NULL(ptr);
		busy(guest, LATE_MS);
		EXPECT_OK(past ? weir_record_use(ptr, WEIR_STREAM_ANY) :
				 weir_record_stream(ptr, WEIR_STREAM_ANY));
		give(ptr);
		char *early = weir_malloc_on(1, 4 * MIB, mine);
		EXPECT_NE(early, ptr);
		EXPECT(!is_done(guest));
		give(early);
		EXPECT_OK(weir_trim(1, 0, NULL));
	}
	EXPECT_OK(weir_stream_destroy(mine));
	EXPECT_OK(weir_stream_destroy(guest));
	expect_healthy();
}

TEST(any_address_of_a_block_names_it)
{
	weir_stream mine = new_stream();
	weir_stream other = new_stream();
	char *ptr = take(4 * MIB, mine);

	busy(other, LATE_MS);
	record(ptr + 4 * MIB - 1, other);
	give(ptr);
	EXPECT_EQ(stats().pending_bytes, 4 * MIB);
	expect_healthy();
}

TEST(an_address_of_no_live_block_is_refused_by_name)
{
	weir_stream other = new_stream();
	int local;
	char *ptr = take(4 * MIB, NULL);

	give(ptr);
	struct weir_stats before = stats();
	EXPECT_STATUS(weir_record_stream(ptr, other), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_record_stream(");
	EXPECT_STATUS(weir_record_stream(&local, other), WEIR_EINVAL);
	EXPECT_STATUS(weir_record_use(NULL, other), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "weir_record_use(");
	EXPECT_STATUS(weir_host_record(&local, other), WEIR_EINVAL);
	expect_stats_unchanged(&before);
}

TEST(host_memory_and_device_memory_are_not_mixed_up)
{
	weir_stream other = new_stream();
	char *device = take(4 * MIB, NULL);
	char *host = weir_host_malloc(4 * MIB);

	EXPECT_NOT_NULL(host);
	EXPECT_STATUS(weir_host_record(device, other), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not of the host");
	EXPECT_OK(weir_host_record(host, other));
	EXPECT_OK(weir_host_free(host));
	give(device);
	EXPECT_EQ(stats().pending_bytes, 0);
	expect_healthy();
}
