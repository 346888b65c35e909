/*
 * Going back in a trace: the memory at an event is that of a snapshot at that
 * moment.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/trace.h>

#include "tests/support/device.h"
#include "tests/tools/weir/answer.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/reading/snapshot_moment.h"
#include "tools/weir/reading/snapshot_view.h"

enum { BLOCKS = 40, STREAMS = 3 };

struct live {
	void *ptr;
};

static uint32_t
next_random(void)
{
	static uint32_t state = 12345;

	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

/* Allocate and free at random, small and large, on several streams, with uses
 * on others. Now and then all unused memory goes back to the driver. */
static void
churn(struct live blocks[BLOCKS], const weir_stream streams[STREAMS], int steps)
{
	for (int i = 0; i < steps; i++) {
		struct live *block = &blocks[next_random() % BLOCKS];
		weir_stream stream = streams[next_random() % STREAMS];

		if (block->ptr != NULL) {
			if (next_random() % 3 == 0)
				EXPECT_OK(
				    weir_record_stream(block->ptr, stream));
			give(block->ptr);
			block->ptr = NULL;
		} else {
			block->ptr = take(1 +
				next_random() %
				    (next_random() % 2 ? 5 * MIB : 9000),
			    stream);
		}
		if (next_random() % 50 == 0)
			EXPECT_OK(weir_trim(WEIR_DEVICE_ALL, 0, NULL));
	}
}

static struct snapshot *
snapshot_now(const char *name)
{
	char path[64];
	struct snapshot *snapshot;

	snprintf(
	    path, sizeof(path), "/tmp/weir-moment-%d-%s", (int)getpid(), name);
	EXPECT_OK(weir_snapshot_write(path, WEIR_SNAPSHOT_PICKLE, NULL));
	snapshot = snapshot_load(path);
	EXPECT_NOT_NULL(snapshot);
	unlink(path);
	return snapshot;
}

static int
compare_ranges(const void *a, const void *b)
{
	const uint64_t *one = a;
	const uint64_t *other = b;

	return one[0] < other[0] ? -1 : one[0] > other[0];
}

/* Collect the mapped addresses as ranges that do not touch. Returns the number
 * of ranges. */
static size_t
mapped(const struct snapshot *s, uint64_t (*out)[2])
{
	size_t n = 0;
	size_t kept = 0;

	for (uint32_t i = 0; i < s->segment_count; i++, n++) {
		out[n][0] = s->segments[i].address;
		out[n][1] = s->segments[i].address + s->segments[i].bytes;
	}
	qsort(out, n, sizeof(*out), compare_ranges);
	for (size_t i = 0; i < n; i++)
		if (kept > 0 && out[kept - 1][1] == out[i][0])
			out[kept - 1][1] = out[i][1];
		else
			memmove(out[kept++], out[i], sizeof(*out));
	return kept;
}

static int
compare_blocks(const void *a, const void *b)
{
	const struct snapshot_block *one = a;
	const struct snapshot_block *other = b;

	return one->address < other->address ? -1 :
					       one->address > other->address;
}

/* Collect the blocks in use, sorted by address. Returns their number. */
static size_t
in_use(const struct snapshot *s, struct snapshot_block *out)
{
	size_t n = 0;

	for (uint32_t i = 0; i < s->segment_count; i++)
		for (uint32_t b = 0; b < s->segments[i].block_count; b++) {
			const struct snapshot_block *block =
			    &s->blocks[s->segments[i].first_block + b];

			if (block->state != SNAPSHOT_INACTIVE)
				out[n++] = *block;
		}
	qsort(out, n, sizeof(*out), compare_blocks);
	return n;
}

static void
expect_alike(const struct snapshot *moment, const struct snapshot *then)
{
	static uint64_t ranges[2][4096][2];
	static struct snapshot_block blocks[2][1024];
	size_t n = mapped(then, ranges[0]);
	size_t k = in_use(then, blocks[0]);

	EXPECT_EQ(mapped(moment, ranges[1]), n);
	for (size_t i = 0; i < n; i++) {
		EXPECT_EQ(ranges[1][i][0], ranges[0][i][0]);
		EXPECT_EQ(ranges[1][i][1], ranges[0][i][1]);
	}
	EXPECT_EQ(in_use(moment, blocks[1]), k);
	for (size_t i = 0; i < k; i++) {
		EXPECT_EQ(blocks[1][i].address, blocks[0][i].address);
		EXPECT_EQ(blocks[1][i].state, blocks[0][i].state);
		EXPECT_EQ(
		    blocks[1][i].requested_bytes, blocks[0][i].requested_bytes);
		/* The trace does not show whether a block was split. */
		EXPECT_LE(blocks[1][i].bytes, blocks[0][i].bytes);
	}
}

/* The blocks of a segment tile it. */
static void
expect_tiled(const struct snapshot *s)
{
	for (uint32_t i = 0; i < s->segment_count; i++) {
		const struct snapshot_segment *segment = &s->segments[i];
		uint64_t at = segment->address;

		for (uint32_t b = 0; b < segment->block_count; b++) {
			const struct snapshot_block *block =
			    &s->blocks[segment->first_block + b];

			EXPECT_EQ(block->address, at);
			EXPECT_GT(block->bytes, 0);
			at += block->bytes;
		}
		EXPECT_EQ(at, segment->address + segment->bytes);
	}
}

static void
expect_the_moment(const char *conf)
{
	struct weir_history_info info = { .struct_size = sizeof(info) };
	weir_stream streams[STREAMS] = { NULL, new_stream(), new_stream() };
	struct live blocks[BLOCKS] = { 0 };
	struct snapshot *then;
	struct snapshot *now;

	EXPECT_OK(weir_options_set(conf));
	EXPECT_OK(weir_history_start(NULL));
	for (int round = 0; round < 6; round++) {
		churn(blocks, streams, 150);
		then = snapshot_now("then");
		EXPECT_OK(weir_history_info(0, &info));
		churn(blocks, streams, 250);
		now = snapshot_now("now");
		struct snapshot *moment =
		    moment_new(now, 0, (uint32_t)info.recorded - 1);

		EXPECT_NOT_NULL(moment);
		expect_tiled(moment);
		expect_alike(moment, then);
		moment_free(moment);
		snapshot_free(now);
		snapshot_free(then);
	}
}

TEST(the_state_at_an_event_is_that_of_a_snapshot_taken_then)
{
	expect_the_moment("tcache:0");
}

TEST(the_moment_is_right_for_segments_of_the_driver_too)
{
	expect_the_moment("expandable_segments:False,tcache:0");
}

TEST(the_most_that_was_held_is_found_behind_a_trim)
{
	struct weir_stats now;
	struct snapshot *snapshot;

	EXPECT_OK(weir_history_start(NULL));
	give(take(100 * MIB, NULL));
	EXPECT_OK(weir_trim(WEIR_DEVICE_ALL, 0, NULL));
	give(take(1 * MIB, NULL));
	now = stats();
	snapshot = snapshot_now("end");
	EXPECT_LT(sums_of(snapshot, 0).reserved, 50 * MIB);
	EXPECT_EQ(moment_held_peak(snapshot, 0), now.reserved_bytes.all.peak);
	snapshot_free(snapshot);
}

TEST(a_broken_snapshot_has_moments_all_the_same)
{
	static const char *const names[] = { "broken.pickle", "train0.pickle",
		"train.json", "segments.pickle" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct snapshot *s = snapshot_load(snapshot_data(names[i]));

		EXPECT_NOT_NULL(s);
		for (uint32_t e = 0; e < s->events.count; e++) {
			struct snapshot *moment =
			    moment_new(s, s->events.device[e], e);

			EXPECT_NOT_NULL(moment);
			expect_tiled(moment);
			moment_free(moment);
		}
		EXPECT_GE(moment_held_peak(s, 9), 0);
		snapshot_free(s);
	}
}
