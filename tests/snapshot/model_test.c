/*
 * The arrays of a snapshot.
 */
#include "base/meta.h"
#include "snapshot/model.h"
#include "tests/support/test.h"

TEST(arrays_keep_their_contents_as_they_grow)
{
	struct snapshot *snapshot = snapshot_new();

	EXPECT_NOT_NULL(snapshot);
	for (uint32_t i = 0; i < 5000; i++) {
		EXPECT_EQ(
		    snapshot_reserve(snapshot, SNAPSHOT_ARRAY_EVENTS, i, 1),
		    WEIR_OK);
		snapshot->events.address[i] = i;
		snapshot->events.action[i] = (uint8_t)i;
		snapshot->events.metadata[i] = ~i;
		snapshot->events.count = i + 1;
	}
	for (uint32_t i = 0; i < 5000; i++) {
		EXPECT_EQ(snapshot->events.address[i], i);
		EXPECT_EQ(snapshot->events.action[i], (uint8_t)i);
		EXPECT_EQ(snapshot->events.metadata[i], ~i);
	}
	snapshot_free(snapshot);
}

TEST(more_than_32_bits_count_is_refused)
{
	struct snapshot *snapshot = snapshot_new();

	EXPECT_EQ(snapshot_reserve(
		      snapshot, SNAPSHOT_ARRAY_FRAMES, UINT32_MAX - 1, 1),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "4294967294");
	snapshot_free(snapshot);
}

TEST(without_host_memory_an_array_stays)
{
	struct snapshot *snapshot = snapshot_new();
	size_t before = meta_bytes();

	EXPECT_EQ(
	    snapshot_reserve(snapshot, SNAPSHOT_ARRAY_BLOCKS, 0, 1), WEIR_OK);
	snapshot->blocks[0].bytes = 512;
	meta_fail(1, 1);
	EXPECT_EQ(snapshot_reserve(snapshot, SNAPSHOT_ARRAY_BLOCKS, 1, 1000),
	    WEIR_EHOSTMEM);
	meta_fail(0, 0);
	EXPECT_EQ(snapshot->blocks[0].bytes, 512);
	snapshot_free(snapshot);
	EXPECT_LT(meta_bytes(), before);
	snapshot_free(NULL);
}

TEST(devices_are_counted_by_segments_and_traces)
{
	struct snapshot *snapshot = snapshot_new();

	EXPECT_EQ(snapshot_device_count(snapshot), 0);
	snapshot->trace_count = 2;
	EXPECT_EQ(snapshot_device_count(snapshot), 2);
	EXPECT_EQ(
	    snapshot_reserve(snapshot, SNAPSHOT_ARRAY_SEGMENTS, 0, 1), WEIR_OK);
	snapshot->segments[0] = (struct snapshot_segment){ .device = 6 };
	snapshot->segment_count = 1;
	EXPECT_EQ(snapshot_device_count(snapshot), 7);
	snapshot->segment_count = 0;
	snapshot_free(snapshot);
}

TEST(states_have_the_names_of_the_files)
{
	EXPECT_STR_EQ(snapshot_state_name(SNAPSHOT_INACTIVE), "inactive");
	EXPECT_STR_EQ(snapshot_state_name(SNAPSHOT_ACTIVE), "active_allocated");
	EXPECT_STR_EQ(
	    snapshot_state_name(SNAPSHOT_PENDING), "active_pending_free");
}
