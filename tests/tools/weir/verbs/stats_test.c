/*
 * weir stats: sums and counts of a snapshot with known numbers, which
 * tests/tools/weir/snapshot_oracle.py has counted with an independent reader.
 */
#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

TEST(stats_are_printed_for_each_device)
{
	json_t *json = ask_json(0, "stats", train(), NULL, NULL);

	EXPECT_EQ(json_array_size(value_at(json, "devices")), 2);
	EXPECT_EQ(number_at(json, "devices.0.device"), 0);
	EXPECT_EQ(number_at(json, "devices.0.segments"), 6);
	EXPECT_EQ(number_at(json, "devices.0.blocks"), 20);
	EXPECT_EQ(number_at(json, "devices.0.reserved_bytes"), 109051904);
	EXPECT_EQ(number_at(json, "devices.0.allocated_bytes"), 68684800);
	EXPECT_EQ(number_at(json, "devices.0.active_bytes"), 69385216);
	EXPECT_EQ(number_at(json, "devices.0.requested_bytes"), 68860488);
	EXPECT_EQ(number_at(json, "devices.1.segments"), 1);
	EXPECT_EQ(number_at(json, "devices.1.reserved_bytes"), 20971520);
	EXPECT_EQ(number_at(json, "devices.1.allocated_bytes"), 5243392);
	json_decref(json);
}

TEST(stats_count_events_by_action)
{
	json_t *json = ask_json(0, "stats", train(), NULL, NULL);

	EXPECT_EQ(number_at(json, "devices.0.events.alloc"), 46);
	EXPECT_EQ(number_at(json, "devices.0.events.free_requested"), 32);
	EXPECT_EQ(number_at(json, "devices.0.events.free_completed"), 31);
	EXPECT_EQ(number_at(json, "devices.0.events.segment_alloc"), 6);
	EXPECT_EQ(number_at(json, "devices.0.events.oom"), 1);
	EXPECT_EQ(number_at(json, "devices.1.events.alloc"), 1);
	json_decref(json);
}

TEST(stats_are_the_same_for_every_form)
{
	static const char *const names[] = { "train0.pickle", "train1.pickle",
		"train2.pickle", "train3.pickle", "train5.pickle",
		"train.json" };
	json_t *first = ask_json(0, "stats", train(), NULL, NULL);

	for (int i = 0; i < 6; i++) {
		json_t *other =
		    ask_json(0, "stats", snapshot_data(names[i]), NULL, NULL);

		EXPECT(json_equal(
		    value_at(first, "devices"), value_at(other, "devices")));
		EXPECT(json_equal(
		    value_at(first, "settings"), value_at(other, "settings")));
		json_decref(other);
	}
	json_decref(first);
}

TEST(stats_of_one_device_are_its_alone)
{
	json_t *json = ask_json(0, "stats", train(), "--device", "1");

	EXPECT_EQ(json_array_size(value_at(json, "devices")), 1);
	EXPECT_EQ(number_at(json, "devices.0.device"), 1);
	json_decref(json);
}

TEST(stats_begin_with_a_sentence)
{
	struct command_result result = ask(0, "stats", train(), NULL, NULL);

	EXPECT_STR_HAS(result.out,
	    "device 0 holds 104.00 MiB, of which 65.50 MiB are allocated "
	    "(63.0 %)\nsegments");
	EXPECT_STR_HAS(result.out, "events free_requested          32\n");
	command_free(&result);
}

TEST(stats_want_one_snapshot)
{
	struct command_result result = command_weir("stats", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "no SNAPSHOT");
	command_free(&result);
	result = command_weir("stats", train(), train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "one SNAPSHOT too many");
	command_free(&result);
	result = command_weir("stats", "--device", "x", train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--device is a number from 0 to 4095");
	command_free(&result);
}
