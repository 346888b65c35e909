/*
 * Snapshots: the contents of the file, for all states of memory, read back as
 * JSON; and calls that cannot be served.
 */
#include "allocator/observe/snapshot.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weir/graph.h>
#include <weir/host.h>
#include <weir/trace.h>

#include "allocator/allocator.h"
#include "allocator/private/arenas.h"
#include "base/meta.h"
#include "tests/support/arena.h"
#include "tests/support/command.h"
#include "tests/support/device.h"

static char *path;
static json_t *all; /* snapshots that were read, until the test ends */

static json_t *
snapshot_of(const struct weir_snapshot *what)
{
	json_error_t error;

	free(path);
	path = test_file("snapshot.json", "", 0);
	EXPECT_OK(weir_snapshot_write(path, WEIR_SNAPSHOT_JSON, what));
	json_t *json = json_load_file(path, 0, &error);
	if (json == NULL)
		FAIL("line %d: %s", error.line, error.text);
	if (all == NULL)
		all = json_array();
	EXPECT_EQ(json_array_append_new(all, json), 0);
	return json;
}

static json_t *
snapshot(void)
{
	return snapshot_of(NULL);
}

static json_t *
get(const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);

	if (value == NULL)
		FAIL("there is no %s", key);
	return value;
}

static json_int_t
number(const json_t *object, const char *key)
{
	EXPECT(json_is_integer(get(object, key)));
	return json_integer_value(get(object, key));
}

static const char *
text(const json_t *object, const char *key)
{
	EXPECT(json_is_string(get(object, key)));
	return json_string_value(get(object, key));
}

/* The block at an address, and its segment. */
static json_t *
find_block(const json_t *from, const void *at, json_t **segment)
{
	size_t i;
	size_t k;
	json_t *s;
	json_t *b;

	json_array_foreach(get(from, "segments"), i, s)
	{
		json_array_foreach(get(s, "blocks"), k, b)
		{
			if (number(b, "address") != (json_int_t)(uintptr_t)at)
				continue;
			if (segment != NULL)
				*segment = s;
			return b;
		}
	}
	FAIL("there is no block at %p", at);
}

static size_t
segment_count(const json_t *from)
{
	return json_array_size(get(from, "segments"));
}

static json_t *
trace_of(const json_t *from, size_t device)
{
	return json_array_get(get(from, "device_traces"), device);
}

static void
expect_block(json_t *block, const char *state, size_t size, size_t requested)
{
	EXPECT_STR_EQ(text(block, "state"), state);
	EXPECT_EQ(number(block, "size"), size);
	EXPECT_EQ(number(block, "requested_size"), requested);
}

static void
start(enum weir_history_level level)
{
	struct weir_history history = { .struct_size = sizeof(history),
		.level = level };

	EXPECT_OK(weir_history_start(&history));
}

/* ---- Segments and blocks ----------------------------------------------- */

TEST(a_process_that_did_nothing_has_an_empty_snapshot)
{
	json_t *json = snapshot();

	EXPECT_EQ(segment_count(json), 0);
	EXPECT_EQ(json_array_size(get(json, "device_traces")), 0);
	EXPECT_NULL(driver_peek());
}

TEST(blocks_have_their_state_size_and_stream)
{
	weir_stream stream = new_stream();
	weir_stream other = new_stream();
	char *live = take(3 * MIB - 100, stream);
	char *pending = take(2 * MIB, stream);
	char *idle = take(4 * MIB, stream);
	json_t *segment;

	busy(other, LATE_MS);
	record(pending, other);
	give(pending);
	give(idle);
	json_t *json = snapshot();
	expect_block(find_block(json, live, &segment), "active_allocated",
	    3 * MIB, 3 * MIB - 100);
	json_t *block = find_block(json, live, NULL);
	EXPECT_EQ(number(block, "stream"), (uintptr_t)stream);
	EXPECT_EQ(json_array_size(get(block, "frames")), 0);
	expect_block(find_block(json, pending, NULL), "active_pending_free",
	    2 * MIB, 2 * MIB);
	block = find_block(json, idle, NULL);
	EXPECT_STR_EQ(text(block, "state"), "inactive");
	EXPECT_EQ(number(block, "requested_size"), 0);

	struct weir_block_info info = info_of(live);
	EXPECT_EQ(number(segment, "device"), 0);
	EXPECT_EQ(number(segment, "address"), (uintptr_t)info.segment);
	EXPECT_EQ(number(segment, "total_size"), info.segment_size);
	EXPECT_EQ(number(segment, "allocated_size"), 3 * MIB);
	EXPECT_EQ(number(segment, "active_size"), 5 * MIB);
	EXPECT_EQ(number(segment, "requested_size"), 5 * MIB - 100);
	EXPECT_EQ(number(segment, "stream"), (uintptr_t)stream);
	EXPECT_STR_EQ(text(segment, "segment_type"), "large");
	EXPECT(json_is_true(get(segment, "is_expandable")));
	EXPECT_EQ(json_array_size(get(segment, "segment_pool_id")), 2);
	finish(other);
}

/* Does `weir check` agree that the latest snapshot has no fault? */
static void
expect_no_faults(void)
{
	struct command_result result = command_weir("check", path, NULL);

	if (result.status != 0)
		FAIL("weir check: %s%s", result.out, result.err);
	command_free(&result);
}

/* Between the frees of two neighbours an event is recorded on their stream:
 * they are two blocks, because another stream may be ordered after the first of
 * them only. */
TEST(free_neighbours_of_two_epochs_are_two_blocks_that_tell_why)
{
	weir_stream stream = new_stream();
	weir_stream other = new_stream();
	void *blocks[4];
	struct weir_event *event;

	conf("tcache:0,prefer:memory");
	give(take(5 * MIB, other));
	for (int i = 0; i < 4; i++)
		blocks[i] = take(3 * MIB, stream);
	for (int i = 0; i < 4; i++) {
		give(blocks[i]);
		EXPECT_OK(weir_event_create(0, &event));
		EXPECT_OK(weir_event_record(event, stream));
		EXPECT_OK(weir_stream_wait_event(other, event));
		weir_event_destroy(event);
	}
	EXPECT_EQ(weir_check(NULL, 0), 0);
	json_t *from = snapshot();
	const json_t *first = find_block(from, blocks[0], NULL);
	const json_t *second = find_block(from, blocks[1], NULL);

	EXPECT_EQ(number(first, "heap"), number(second, "heap"));
	EXPECT_NE(number(first, "epoch"), number(second, "epoch"));
	expect_no_faults();
}

TEST(guard_zones_are_no_free_blocks)
{
	conf("guard:512");
	void *first = take(3000, NULL);
	void *second = take(3000, NULL);

	json_t *from = snapshot();
	const json_t *zone = find_block(from, (char *)first - GRANULE, NULL);
	EXPECT_STR_EQ(text(zone, "state"), "inactive");
	EXPECT_NULL(json_object_get(zone, "heap"));
	expect_no_faults();
	give(first);
	snapshot();
	expect_no_faults();
	give(second);
	snapshot();
	expect_no_faults();
}

/* The events are of all memory. */
TEST(a_snapshot_of_a_part_says_so_and_has_no_faults_either)
{
	struct weir_snapshot what = { .struct_size = sizeof(what),
		.device = WEIR_DEVICE_ALL };
	struct weir_history history = { .struct_size = sizeof(history) };
	weir_stream stream = new_stream();
	struct weir_pool *pool = new_pool(0, 0);

	EXPECT_OK(weir_history_start(&history));
	void *in_pool = take_from(pool, 1000, stream);
	void *of_stream = take(3 * MIB, stream);
	void *of_none = take(3 * MIB, NULL);

	EXPECT_NULL(json_object_get(
	    get(snapshot(), "allocator_settings"), "weir_partial"));
	expect_no_faults();
	what.of_stream = true;
	what.stream = stream;
	EXPECT(json_is_true(get(
	    get(snapshot_of(&what), "allocator_settings"), "weir_partial")));
	expect_no_faults();
	what.of_stream = false;
	what.of_pool = true;
	weir_pool_segment_id(pool, what.pool_id);
	snapshot_of(&what);
	expect_no_faults();
	what.pool_id[0] += 1000; /* no pool's number */
	EXPECT_EQ(segment_count(snapshot_of(&what)), 0);
	expect_no_faults();
	give(in_pool);
	give(of_stream);
	give(of_none);
	weir_pool_release(pool);
}

TEST(blocks_that_a_thread_keeps_are_inactive_and_cached)
{
	weir_stream stream = new_stream();
	void *block = take(1000, stream);
	json_t *segment;

	give(block);
	json_t *json = snapshot();
	json_t *found = find_block(json, block, &segment);
	expect_block(found, "inactive", 1024, 0);
	EXPECT(json_is_true(get(found, "cached")));
	EXPECT_STR_EQ(text(segment, "segment_type"), "small");
	EXPECT_EQ(number(segment, "allocated_size"), 0);
	/* The snapshot still has it. */
	EXPECT_EQ(take(1000, stream), block);
	expect_healthy();
}

TEST(the_default_stream_is_0_and_no_stream_is_minus_1)
{
	void *mine = take(2 * MIB, NULL);
	void *any = take(2 * MIB, WEIR_STREAM_ANY);
	json_t *segment;
	json_t *json = snapshot();

	EXPECT_EQ(number(find_block(json, mine, &segment), "stream"), 0);
	EXPECT_EQ(number(segment, "stream"), 0);
	EXPECT_EQ(number(find_block(json, any, &segment), "stream"), -1);
	EXPECT_EQ(number(segment, "stream"), -1);
	EXPECT(json_is_false(get(segment, "is_expandable")));
	EXPECT_EQ(number(segment, "total_size"), 20 * MIB);
}

TEST(a_stretch_that_is_mapped_is_a_segment)
{
	weir_stream stream = new_stream();
	char *low = take(20 * MIB, stream);
	char *middle = take(20 * MIB, stream);
	char *high = take(20 * MIB, stream);
	json_t *first;
	json_t *second;

	json_t *json = snapshot();
	EXPECT_EQ(segment_count(json), 1);
	give(middle);
	finish(stream);
	EXPECT_EQ(trim(0), 20 * MIB);
	json = snapshot();
	EXPECT_EQ(segment_count(json), 2);
	find_block(json, low, &first);
	find_block(json, high, &second);
	EXPECT_NE(first, second);
	EXPECT_LT(number(first, "address"), number(second, "address"));
	EXPECT_EQ(number(first, "total_size"), 20 * MIB);
}

TEST(segments_are_in_order_of_their_addresses)
{
	json_int_t before = 0;
	size_t i;
	json_t *segment;

	for (int n = 0; n < 12; n++)
		take((size_t)(n % 4 + 1) * MIB,
		    n % 3 == 0 ? WEIR_STREAM_ANY : new_stream());
	json_t *json = snapshot();
	json_array_foreach(get(json, "segments"), i, segment)
	{
		EXPECT_GT(number(segment, "address"), before);
		before = number(segment, "address");
	}
	EXPECT_GE(i, 4);
}

TEST(one_stream_or_one_device_may_be_asked_for)
{
	weir_stream stream = new_stream();
	void *mine = take(2 * MIB, stream);
	void *theirs = take(512, NULL); /* of another kind, elsewhere */
	struct weir_snapshot what = {
		.struct_size = sizeof(what), .of_stream = true, .stream = stream
	};

	json_t *json = snapshot_of(&what);
	EXPECT_EQ(segment_count(json), 1);
	find_block(json, mine, NULL);
	what.stream = NULL;
	json = snapshot_of(&what);
	EXPECT_EQ(segment_count(json), 1);
	find_block(json, theirs, NULL);
	what.of_stream = false;
	EXPECT_EQ(segment_count(snapshot_of(&what)), 2);
	what.device = WEIR_DEVICE_ALL;
	EXPECT_EQ(segment_count(snapshot_of(&what)), 2);
	what.device = 99;
	EXPECT_STATUS(weir_snapshot_write(path, WEIR_SNAPSHOT_JSON, &what),
	    WEIR_ENODEVICE);
}

TEST(each_device_has_its_segments_and_its_trace)
{
	device_need(2);
	start(WEIR_HISTORY_NONE);
	void *one = weir_malloc_on(1, 3 * MIB, NULL);
	json_t *segment;

	EXPECT_NOT_NULL(one);
	json_t *json = snapshot();
	EXPECT_EQ(segment_count(json), 1);
	find_block(json, one, &segment);
	EXPECT_EQ(number(segment, "device"), 1);
	EXPECT_EQ(json_array_size(get(json, "device_traces")), 2);
	EXPECT_EQ(json_array_size(trace_of(json, 0)), 0);
	EXPECT_EQ(json_array_size(trace_of(json, 1)), 2);
	struct weir_snapshot what = { .struct_size = sizeof(what) };
	json = snapshot_of(&what);
	EXPECT_EQ(segment_count(json), 0);
	EXPECT_EQ(json_array_size(trace_of(json, 1)), 0);
}

TEST(other_arenas_are_in_the_snapshot_under_their_pool_id)
{
	struct arena *arena;
	json_t *segment;
	void *block;

	start(WEIR_HISTORY_NONE);
	void *mine = take(2 * MIB, NULL);
	EXPECT_OK(arena_make(main_arena(), NULL, 0, &arena));
	EXPECT_OK(allocator_malloc_in(arena, 3 * MIB, NULL, &block));
	give(take(2 * MIB, NULL));
	json_t *json = snapshot();
	find_block(json, mine, &segment);
	json_t *id = get(segment, "segment_pool_id");
	EXPECT_EQ(json_integer_value(json_array_get(id, 1)), 0);
	expect_block(find_block(json, block, &segment), "active_allocated",
	    3 * MIB, 3 * MIB);
	id = get(segment, "segment_pool_id");
	json_int_t pool = json_integer_value(json_array_get(id, 1));
	EXPECT_GT(pool, 0);
	EXPECT_EQ(json_integer_value(json_array_get(id, 0)), 0);

	/* Its events are between the others', with numbers in one sequence. */
	size_t i;
	size_t of_pool = 0;
	json_t *event;
	json_array_foreach(trace_of(json, 0), i, event)
	{
		EXPECT_EQ(number(event, "seq"), i);
		of_pool += json_integer_value(json_array_get(
			       get(event, "pool_id"), 1)) == pool;
	}
	EXPECT_EQ(of_pool, 2);
	EXPECT_GE(i, 6);

	/* A snapshot of one pool can be requested. */
	struct weir_snapshot what = { .struct_size = sizeof(what),
		.of_pool = true,
		.pool_id = { 0, (uint64_t)pool } };
	json = snapshot_of(&what);
	EXPECT_EQ(segment_count(json), 1);
	find_block(json, block, NULL);
	what.pool_id[1] = 0;
	json = snapshot_of(&what);
	EXPECT_EQ(segment_count(json), 1);
	find_block(json, mine, NULL);
	what.pool_id[1] = (uint64_t)pool + 77;
	EXPECT_EQ(segment_count(snapshot_of(&what)), 0);
	give(block);
	arena_drop(arena);
	expect_healthy();
}

/* The device's segments and events are the same without it. */
TEST(page_locked_memory_is_listed_separately)
{
	start(WEIR_HISTORY_STATE);
	void *small = weir_host_malloc(64 * KIB);
	void *large = weir_host_malloc_on(0, 3 * MIB, WEIR_HOST_PORTABLE);
	EXPECT_NOT_NULL(small);
	EXPECT_NOT_NULL(large);
	json_t *json = snapshot();
	EXPECT_EQ(segment_count(json), 0);
	EXPECT_EQ(json_array_size(trace_of(json, 0)), 0);
	const json_t *segments = get(json, "host_segments");
	EXPECT_EQ(json_array_size(segments), 2);
	EXPECT_EQ(json_array_size(get(json, "host_traces")), 0);
	enum weir_host_source source;
	EXPECT_OK(weir_host_source(0, &source));
	EXPECT_STR_EQ(
	    text(get(get(json, "allocator_settings"), "weir_pinned_sources"),
		"0"),
	    weir_host_source_name(source));
	json_int_t last = 0;
	for (size_t i = 0; i < 2; i++) {
		const json_t *segment = json_array_get(segments, i);
		EXPECT_GT(number(segment, "address"), last);
		last = number(segment, "address");
		EXPECT_EQ(number(segment, "device"), 0);
		EXPECT_EQ(number(segment, "stream"), -1);
		if (number(segment, "requested_size") != 3 * MIB) {
			EXPECT_EQ(number(segment, "requested_size"), 64 * KIB);
			continue;
		}
		const json_t *block = json_array_get(get(segment, "blocks"), 0);
		EXPECT_EQ(
		    number(block, "address"), (json_int_t)(uintptr_t)large);
		EXPECT_STR_EQ(text(block, "state"), "active_allocated");
		EXPECT_GT(json_array_size(get(block, "frames")), 0);
	}
	EXPECT_OK(weir_host_free(small));
	EXPECT_OK(weir_host_free(large));
}

TEST(a_device_without_page_locked_memory_has_no_source_of_it)
{
	start(WEIR_HISTORY_NONE);
	void *ptr = take(MIB, NULL);
	EXPECT_EQ(json_object_size(get(get(snapshot(), "allocator_settings"),
		      "weir_pinned_sources")),
	    0);
	give(ptr);
}

TEST(memory_of_a_stream_or_a_pool_is_not_page_locked)
{
	struct weir_snapshot of_stream = { .struct_size = sizeof(of_stream),
		.of_stream = true };
	struct weir_snapshot of_pool = { .struct_size = sizeof(of_pool),
		.of_pool = true };

	start(WEIR_HISTORY_NONE);
	EXPECT_NOT_NULL(weir_host_malloc(MIB));
	EXPECT_EQ(json_array_size(get(snapshot(), "host_segments")), 1);
	EXPECT_EQ(
	    json_array_size(get(snapshot_of(&of_stream), "host_segments")), 0);
	EXPECT_EQ(
	    json_array_size(get(snapshot_of(&of_pool), "host_segments")), 0);
}

/* ---- The history ------------------------------------------------------- */

/* time() may be some milliseconds behind. */
static json_int_t
now_us(void)
{
	struct timespec now;

	EXPECT_EQ(clock_gettime(CLOCK_REALTIME, &now), 0);
	return (json_int_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

TEST(events_have_all_their_keys)
{
	weir_stream stream = new_stream();
	json_int_t before_us = now_us();

	start(WEIR_HISTORY_ALLOC);
	EXPECT_OK(weir_metadata_set("meta"));
	EXPECT_OK(weir_compile_context_push("region"));
	void *block = take(1000, stream);
	EXPECT_OK(weir_compile_context_pop());
	EXPECT_OK(weir_metadata_set(NULL));
	give(block);
	json_t *json = snapshot();
	json_t *trace = trace_of(json, 0);
	EXPECT_EQ(json_array_size(trace), 4);
	json_t *event = json_array_get(trace, 1);
	EXPECT_STR_EQ(text(event, "action"), "alloc");
	EXPECT_EQ(number(event, "addr"), (uintptr_t)block);
	EXPECT_EQ(number(event, "size"), 1000);
	EXPECT_EQ(number(event, "block_size"), 1024);
	EXPECT_EQ(number(event, "stream"), (uintptr_t)stream);
	EXPECT_EQ(number(event, "seq"), 1);
	EXPECT_EQ(number(event, "thread_id"), getpid());
	EXPECT_STR_EQ(text(event, "user_metadata"), "meta");
	EXPECT_STR_EQ(text(event, "compile_context"), "region");
	EXPECT_GT(json_array_size(get(event, "frames")), 0);
	EXPECT_GE(number(event, "time_us"), before_us);
	EXPECT_LE(number(event, "time_us"), now_us());
	event = json_array_get(trace, 3);
	EXPECT_STR_EQ(text(event, "action"), "free_completed");
	EXPECT_STR_EQ(text(event, "user_metadata"), "");
	EXPECT_STR_EQ(text(event, "compile_context"), "N/A");
}

TEST(an_allocation_has_the_step_that_served_it_if_its_own_memory_did_not)
{
	weir_stream stream = new_stream();

	start(WEIR_HISTORY_NONE);
	give(take(8 * MIB, stream));
	take(8 * MIB, stream);
	json_t *trace = trace_of(snapshot(), 0);
	EXPECT_EQ(json_array_size(trace), 5);
	EXPECT_STR_EQ(text(json_array_get(trace, 1), "action"), "alloc");
	EXPECT_STR_EQ(
	    text(json_array_get(trace, 1), "served_by"), "grown 8.00 MiB");
	for (size_t i = 2; i < 5; i++)
		EXPECT_NULL(
		    json_object_get(json_array_get(trace, i), "served_by"));
}

TEST(a_failure_has_the_devices_free_bytes_for_an_address)
{
	start(WEIR_HISTORY_NONE);
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 45, NULL), WEIR_ENOMEM);
	json_t *json = snapshot();
	json_t *event = json_array_get(trace_of(json, 0), 0);

	EXPECT_STR_EQ(text(event, "action"), "oom");
	EXPECT_NULL(json_object_get(event, "addr"));
	EXPECT_EQ(number(event, "device_free"), device_free_bytes(0));
	EXPECT_EQ(number(event, "size"), (json_int_t)1 << 45);
}

TEST(a_snapshot_is_an_event_of_the_next_one)
{
	start(WEIR_HISTORY_NONE);
	take(2 * MIB, NULL);
	json_t *json = snapshot();
	EXPECT_EQ(json_array_size(trace_of(json, 0)), 2);
	json = snapshot();
	EXPECT_EQ(json_array_size(trace_of(json, 0)), 3);
	json_t *event = json_array_get(trace_of(json, 0), 2);
	EXPECT_STR_EQ(text(event, "action"), "snapshot");
	EXPECT_EQ(number(event, "addr"), 0);
	EXPECT_EQ(number(event, "size"), 2 * MIB);
}

TEST(dropped_events_are_counted)
{
	struct weir_history history = { .struct_size = sizeof(history),
		.max_entries = 10 };

	EXPECT_OK(weir_history_start(&history));
	for (int i = 0; i < 100; i++)
		give(take(1000, NULL));
	json_t *json = snapshot();
	EXPECT_EQ(json_array_size(trace_of(json, 0)), 10);
	json_t *last = json_array_get(trace_of(json, 0), 9);
	EXPECT_EQ(number(last, "seq"), 300);
	json_t *settings = get(json, "allocator_settings");
	EXPECT(json_is_true(get(settings, "trace_alloc_overflowed")));
	EXPECT_EQ(number(settings, "trace_alloc_max_entries"), 10);
	json_t *device = json_array_get(get(get(json, "weir"), "devices"), 0);
	EXPECT_EQ(number(device, "events_recorded"), 301);
	EXPECT_EQ(number(device, "events_dropped"), 291);
}

TEST(the_history_may_be_left_out)
{
	struct weir_snapshot what = { .struct_size = sizeof(what),
		.no_trace = true };

	start(WEIR_HISTORY_NONE);
	take(1000, NULL);
	json_t *json = snapshot_of(&what);
	EXPECT_EQ(segment_count(json), 1);
	EXPECT_EQ(json_array_size(trace_of(json, 0)), 0);
}

/* ---- The rest ---------------------------------------------------------- */

TEST(settings_have_pytorchs_names_and_all_have_weirs)
{
	conf("max_split_size_mb:64,roundup_power2_divisions:[256:1,512:2,>:4],"
	     "garbage_collection_threshold:0.5,prefer:speed");
	take(1000, NULL);
	json_t *json = snapshot();
	json_t *settings = get(json, "allocator_settings");
	EXPECT_EQ(number(settings, "max_split_size"), 64 * MIB);
	EXPECT_EQ(
	    json_real_value(get(settings, "garbage_collection_threshold")),
	    0.5);
	EXPECT(json_is_true(get(settings, "expandable_segments")));
	EXPECT_STR_EQ(text(settings, "PYTORCH_CUDA_ALLOC_CONF"), "");
	json_t *roundup = get(settings, "roundup_power2_divisions");
	EXPECT_EQ(json_object_size(roundup), 16);
	EXPECT_EQ(number(roundup, "512"), 2);
	EXPECT_EQ(number(roundup, "32768"), 4);
	json_t *weir = get(json, "weir");
	EXPECT_STR_EQ(text(weir, "version"), weir_version());
	EXPECT_STR_EQ(text(get(weir, "options"), "prefer"), "speed");
	EXPECT(json_is_false(get(get(weir, "history"), "on")));
}

TEST(changed_options_and_the_limit_are_among_the_settings)
{
	setenv("WEIR_CONF", "memory_limit_mb:64,decay_ms:10000", 1);
	conf("prefer:speed");
	take(1000, NULL);
	json_t *settings = get(snapshot(), "allocator_settings");
	json_t *options = get(settings, "weir_options");
	json_t *sources = get(settings, "weir_option_sources");
	EXPECT_STR_EQ(text(options, "memory_limit_mb"), "64");
	EXPECT_STR_EQ(text(sources, "memory_limit_mb"), "environment");
	EXPECT_STR_EQ(text(options, "prefer"), "speed");
	EXPECT_STR_EQ(text(sources, "prefer"), "call");
	EXPECT_NULL(json_object_get(options, "tcache"));
	EXPECT_EQ(number(get(settings, "weir_limit_bytes"), "0"), 64 * MIB);
	EXPECT_STR_EQ(
	    text(get(settings, "weir_limit_sources"), "0"), "memory_limit_mb");
	EXPECT_GT(number(get(settings, "weir_device_bytes"), "0"), 64 * MIB);
}

TEST(a_limit_that_a_call_has_set_is_marked_as_such)
{
	EXPECT_OK(weir_limit_set(0, 100 * MIB));
	take(1000, NULL);
	json_t *settings = get(snapshot(), "allocator_settings");
	EXPECT_EQ(number(get(settings, "weir_limit_bytes"), "0"), 100 * MIB);
	EXPECT_STR_EQ(
	    text(get(settings, "weir_limit_sources"), "0"), "weir_limit_set()");
	EXPECT_OK(weir_limit_set(0, SIZE_MAX));
	settings = get(snapshot(), "allocator_settings");
	EXPECT_EQ(json_object_size(get(settings, "weir_limit_bytes")), 0);
}

TEST(how_long_waits_took_is_among_the_settings)
{
	device_need_sim("work takes as long as the test says");
	conf("memory_limit_mb:64,tcache:0");
	weir_stream a = new_stream();
	weir_stream b = new_stream();

	void *block = take(40 * MIB, a);
	busy(a, 30);
	give(block);
	take(40 * MIB, b); /* there is no other memory */
	busy(b, 50);
	sim()->advance_ns(40000000);
	give(take(20 * MIB, b)); /* sees that the wait is over */
	EXPECT_GT(stats().gpu_wait_ns, 0);
	EXPECT_EQ(number(get(get(snapshot(), "allocator_settings"),
			     "weir_gpu_wait_ns"),
		      "0"),
	    stats().gpu_wait_ns);
}

TEST(statistics_are_those_of_weir_stats)
{
	size_t n;
	const char *name;
	uint64_t value;

	take(3 * MIB, NULL);
	give(take(5000, new_stream()));
	json_t *json = snapshot();
	struct weir_stats now = stats();
	json_t *numbers = get(
	    json_array_get(get(get(json, "weir"), "devices"), 0), "statistics");
	for (n = 0; weir_stats_item(&now, n, &name, &value); n++)
		if (strcmp(name, "metadata_bytes") != 0)
			EXPECT_EQ((uint64_t)number(numbers, name), value);
	EXPECT_EQ(json_object_size(numbers), n);
}

TEST(annotations_are_in_the_snapshot)
{
	start(WEIR_HISTORY_NONE);
	EXPECT_OK(weir_annotate("epoch", WEIR_STAGE_START, 0));
	EXPECT_OK(weir_annotate("epoch", WEIR_STAGE_END, 0));
	json_t *json = snapshot();
	json_t *notes = get(json, "external_annotations");
	EXPECT_EQ(json_array_size(notes), 2);
	EXPECT_STR_EQ(text(json_array_get(notes, 0), "name"), "epoch");
	EXPECT_STR_EQ(text(json_array_get(notes, 0), "stage"), "START");
	EXPECT_STR_EQ(text(json_array_get(notes, 1), "stage"), "END");
	EXPECT_EQ(number(json_array_get(notes, 1), "device"), 0);
}

/* ---- Calls that cannot be served --------------------------------------- */

TEST(a_file_that_cannot_be_written_is_refused_with_a_reason)
{
	struct weir_snapshot what = { 0 };

	EXPECT_STATUS(
	    weir_snapshot_write(NULL, WEIR_SNAPSHOT_JSON, NULL), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_snapshot_write("", WEIR_SNAPSHOT_JSON, NULL), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_snapshot_write("/tmp/x", (enum weir_snapshot_format)2, NULL),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "unknown format 2");
	EXPECT_STATUS(weir_snapshot_write("/tmp/x", WEIR_SNAPSHOT_JSON, &what),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "struct_size");
	EXPECT_STATUS(
	    weir_snapshot_write("/nonexistent/x", WEIR_SNAPSHOT_JSON, NULL),
	    WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "/nonexistent/x");
}

/* Without memory for names the file has those of exported functions. */
TEST(any_piece_of_host_memory_may_be_missing)
{
	unsigned long failures = 0;
	unsigned long faults;
	unsigned long n = 0;

	start(WEIR_HISTORY_ALL);
	give(take(1000, NULL));
	do {
		enum weir_status status;
		struct stat about;

		path = test_file("snapshot.json", "before", 6);
		meta_fail(++n, 1);
		status = weir_snapshot_write(path, WEIR_SNAPSHOT_JSON, NULL);
		faults = meta_faults();
		meta_fail(0, 0);
		EXPECT(status == WEIR_OK ||
		    (status == WEIR_EHOSTMEM && faults > 0));
		EXPECT_EQ(stat(path, &about), 0);
		EXPECT_EQ(about.st_size == 6, status != WEIR_OK);
		failures += status != WEIR_OK;
		expect_healthy();
		free(path);
	} while (faults > 0);
	path = NULL;
	EXPECT_GT(failures, 8);
}

TEST(a_forked_child_has_no_snapshot)
{
	int status;

	take(1000, NULL);
	path = test_file("snapshot.json", "", 0);
	pid_t child = fork();
	if (child == 0) {
		EXPECT_STATUS(
		    weir_snapshot_write(path, WEIR_SNAPSHOT_JSON, NULL),
		    WEIR_EFORK);
		_exit(0);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
}

static void *
pairs(void *user)
{
	const atomic_bool *stop = user;
	weir_stream stream = new_stream();

	while (!atomic_load(stop))
		for (size_t size = 512; size < 200000; size += 3000)
			give(take(size, stream));
	return NULL;
}

/* The history is bounded, but its growth during the write of a snapshot depends
 * on the machine. */
TEST(snapshots_may_be_written_while_threads_allocate)
{
	static atomic_bool stop;
	struct weir_history history = { .struct_size = sizeof(history),
		.level = WEIR_HISTORY_ALL,
		.max_entries = 2000 };
	pthread_t threads[3];

	EXPECT_OK(weir_history_start(&history));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL, pairs, &stop), 0);
	for (int i = 0; i < 5; i++)
		snapshot();
	atomic_store(&stop, true);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(pthread_join(threads[i], NULL), 0);
	expect_healthy();
}

/* ---- Much -------------------------------------------------------------- */

static double
cpu_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The peak of the process's memory so far, in KiB. */
static long
most_memory(void)
{
	struct rusage usage;

	EXPECT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_maxrss;
}

TEST(a_million_events_are_written_in_two_seconds_and_little_memory)
{
	weir_stream stream = new_stream();
	struct stat about;

	start(WEIR_HISTORY_ALL);
	for (uint64_t i = test_effort(1000000) / 3; i > 0; i--)
		give(take(1 + i % 200000, stream));
	path = test_file("snapshot.pickle", "", 0);
	long memory = most_memory();
	double seconds = cpu_seconds();
	EXPECT_OK(weir_snapshot_write(path, WEIR_SNAPSHOT_PICKLE, NULL));
	seconds = cpu_seconds() - seconds;
	memory = most_memory() - memory;
	EXPECT_EQ(stat(path, &about), 0);
	fprintf(stderr, "# %.3f s, %ld KiB, a file of %ld bytes\n", seconds,
	    memory, (long)about.st_size);
#if !defined(WEIR_DEBUG)
	if (test_effort(100) < 100)
		return; /* a slow tool runs it */
	EXPECT_LT(seconds, 2.0);
	/* Most of it is the debug information for names of addresses. */
	EXPECT_LT(memory, 64 << 10);
#endif
}

/* ---- Visiting ---------------------------------------------------------- */

struct seen {
	unsigned segments;
	size_t bytes;
	size_t allocated;
	size_t pending;
	size_t requested;
	uint64_t pool[2];
	void *last;
};

static void
see(const struct weir_segment_view *segment, void *user)
{
	struct seen *seen = user;
	char *at = segment->address;

	EXPECT_GT(segment->address, seen->last);
	seen->last = segment->address;
	seen->segments++;
	seen->bytes += segment->size;
	seen->allocated += segment->allocated_bytes;
	seen->requested += segment->requested_bytes;
	memcpy(seen->pool, segment->pool_id, sizeof(seen->pool));
	for (size_t i = 0; i < segment->block_count; i++) {
		EXPECT_EQ(segment->blocks[i].address, at);
		at += segment->blocks[i].size;
		if (segment->blocks[i].state == WEIR_BLOCK_PENDING)
			seen->pending += segment->blocks[i].size;
	}
	EXPECT_EQ(at, (char *)segment->address + segment->size);
	/* No lock of weir is held. */
	give(take(512, NULL));
}

TEST(all_segments_can_be_visited)
{
	struct seen seen = { 0 };
	weir_stream stream = new_stream();
	weir_stream late = new_stream();

	EXPECT_OK(weir_segments_visit(NULL, see, &seen));
	EXPECT_EQ(seen.segments, 0);
	take(1000, stream);
	take(3 * MIB, stream);
	void *block = take(4096, stream);
	busy(late, LATE_MS);
	record(block, late);
	give(block);
	EXPECT_OK(weir_segments_visit(NULL, see, &seen));
	EXPECT_EQ(seen.segments, 2);
	EXPECT_EQ(seen.bytes, 2 * MIB + 4 * MIB);
	EXPECT_EQ(seen.allocated, 1024 + 3 * MIB);
	EXPECT_EQ(seen.pending, 4096);
	EXPECT_EQ(seen.requested, 1000 + 3 * MIB + 4096);
	EXPECT_EQ(seen.pool[1], 0);
	expect_healthy();
}

TEST(segments_of_one_pool_can_be_visited)
{
	struct weir_pool *pool = NULL;
	struct weir_snapshot what = { .struct_size = sizeof(what),
		.device = WEIR_DEVICE_ALL,
		.of_pool = true };
	struct seen seen = { 0 };

	EXPECT_OK(weir_pool_create(0, NULL, WEIR_POOL_SEGMENTS, &pool));
	weir_pool_segment_id(pool, what.pool_id);
	EXPECT_NOT_NULL(weir_pool_malloc(pool, 100, NULL));
	take(512, NULL);
	EXPECT_OK(weir_segments_visit(&what, see, &seen));
	EXPECT_EQ(seen.segments, 1);
	EXPECT_EQ(seen.bytes, 2 * MIB);
	EXPECT_EQ(seen.pool[1], what.pool_id[1]);
	EXPECT_STATUS(weir_segments_visit(NULL, NULL, NULL), WEIR_EINVAL);
	what.struct_size = 0;
	EXPECT_STATUS(weir_segments_visit(&what, see, &seen), WEIR_EINVAL);
	expect_healthy();
}
