/*
 * The data of a page contain the whole snapshot. Each column is read as the
 * page's script reads it, and is compared with the snapshot.
 */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/packed.h"
#include "tools/weir/export/page_data.h"
#include "tools/weir/reading/snapshot_file.h"
#include "tools/weir/reading/snapshot_sites.h"

/* The data of a page after reading. */
struct data {
	unsigned char *bytes;
	size_t size;
	size_t start; /* of the columns */
	json_t *columns;
	uint64_t base;
};

static struct snapshot *
load(const char *name)
{
	char *path = test_data(name);
	struct snapshot *snapshot = snapshot_load(path);

	EXPECT_NOT_NULL(snapshot);
	free(path);
	return snapshot;
}

static struct data
data_of(const struct snapshot *snapshot, const char *title)
{
	struct page_data *page = page_data_new(snapshot, title);
	struct data data;
	char *text;
	size_t length;
	uint32_t json_length;
	json_t *json;
	FILE *out = open_memstream(&text, &length);

	EXPECT_NOT_NULL(page);
	EXPECT(page_data_write(page, out));
	EXPECT_EQ(fclose(out), 0);
	page_data_free(page);
	data.bytes = packed_read(text, length, &data.size);
	free(text);
	EXPECT_MEM_EQ(data.bytes, "weirview\5\0\0\0", 12);
	memcpy(&json_length, data.bytes + 12, 4);
	json = json_loadb((char *)data.bytes + 16, json_length, 0, NULL);
	EXPECT_NOT_NULL(json);
	data.start = 16 + (json_length + 7) / 8 * 8;
	data.base = strtoull(
	    json_string_value(json_object_get(json, "base")), NULL, 10);
	data.columns = json_incref(json_object_get(json, "columns"));
	json_decref(json);
	return data;
}

static void
data_free(struct data *data)
{
	json_decref(data->columns);
	free(data->bytes);
}

static size_t
rows(const struct data *data, const char *name)
{
	json_t *column = json_object_get(data->columns, name);

	EXPECT_NOT_NULL(column);
	return (size_t)json_integer_value(json_array_get(column, 2));
}

/* A number of a column. */
static double
at(const struct data *data, const char *name, size_t row)
{
	json_t *column = json_object_get(data->columns, name);
	const char *type = json_string_value(json_array_get(column, 0));
	const unsigned char *first = data->bytes + data->start +
	    json_integer_value(json_array_get(column, 1));
	double real;
	uint32_t whole;

	EXPECT_LT(row, rows(data, name));
	if (strcmp(type, "u8") == 0)
		return first[row];
	if (strcmp(type, "u32") == 0) {
		memcpy(&whole, first + 4 * row, 4);
		return whole;
	}
	EXPECT_STR_EQ(type, "f64");
	memcpy(&real, first + 8 * row, 8);
	return real;
}

/* The stream that a number of a column stands for. */
static uint64_t
stream_at(const struct data *data, const char *name, size_t row)
{
	size_t stream = (size_t)at(data, name, row);

	return (uint64_t)at(data, "stream_high", stream) << 32 |
	    (uint64_t)at(data, "stream_low", stream);
}

TEST(columns_lie_in_the_data_and_are_aligned)
{
	struct snapshot *snapshot = load("snapshots/train4.pickle");
	struct data data = data_of(snapshot, "a");
	const char *name;
	json_t *column;
	size_t count = 0;

	json_object_foreach(data.columns, name, column)
	{
		const char *type = json_string_value(json_array_get(column, 0));
		size_t offset =
		    (size_t)json_integer_value(json_array_get(column, 1));
		size_t width = strcmp(type, "u8") == 0 ? 1 :
		    strcmp(type, "u32") == 0           ? 4 :
							 8;

		EXPECT_EQ(offset % 8, 0);
		EXPECT_LE(
		    data.start + offset + width * rows(&data, name), data.size);
		count++;
	}
	EXPECT_GT(count, 40);
	data_free(&data);
	snapshot_free(snapshot);
}

TEST(events_are_as_in_the_snapshot)
{
	struct snapshot *snapshot = load("snapshots/train4.pickle");
	const struct snapshot_events *events = &snapshot->events;
	struct data data = data_of(snapshot, "a");
	double start = at(&data, "event_time", 0);

	EXPECT_GT(events->count, 50);
	EXPECT_EQ(rows(&data, "event_addr"), events->count);
	EXPECT_EQ(start, 0);
	for (uint32_t i = 0; i < events->count; i++) {
		double address = at(&data, "event_addr", i);

		EXPECT_EQ(at(&data, "event_action", i), events->action[i]);
		EXPECT_EQ(at(&data, "event_size", i), (double)events->bytes[i]);
		EXPECT_EQ(at(&data, "event_stack", i), events->stack[i]);
		EXPECT_EQ(
		    stream_at(&data, "event_stream", i), events->stream[i]);
		EXPECT_EQ(at(&data, "event_time", i),
		    (double)(events->time_us[i] - events->time_us[0]));
		if (events->action[i] == SNAPSHOT_SNAPSHOT)
			continue;
		EXPECT_EQ(events->action[i] == SNAPSHOT_OOM ?
			(uint64_t)address :
			data.base + (uint64_t)address,
		    events->address[i]);
	}
	data_free(&data);
	snapshot_free(snapshot);
}

TEST(segments_and_blocks_are_as_in_the_snapshot)
{
	struct snapshot *snapshot = load("snapshots/train4.pickle");
	struct data data = data_of(snapshot, "a");

	EXPECT_GT(snapshot->segment_count, 2);
	for (uint32_t i = 0; i < snapshot->segment_count; i++) {
		const struct snapshot_segment *s = &snapshot->segments[i];

		EXPECT_EQ(data.base + (uint64_t)at(&data, "segment_addr", i),
		    s->address);
		EXPECT_EQ(at(&data, "segment_size", i), (double)s->bytes);
		EXPECT_EQ(stream_at(&data, "segment_stream", i), s->stream);
		EXPECT_EQ(at(&data, "segment_small", i), s->small);
		EXPECT_EQ(at(&data, "segment_expandable", i), s->expandable);
		EXPECT_EQ(at(&data, "segment_first", i), s->first_block);
		EXPECT_EQ(at(&data, "segment_blocks", i), s->block_count);
	}
	for (uint32_t i = 0; i < snapshot->block_count; i++) {
		const struct snapshot_block *b = &snapshot->blocks[i];

		EXPECT_EQ(data.base + (uint64_t)at(&data, "block_addr", i),
		    b->address);
		EXPECT_EQ(at(&data, "block_size", i), (double)b->bytes);
		EXPECT_EQ(stream_at(&data, "block_stream", i), b->stream);
		EXPECT_EQ(at(&data, "block_state", i), b->state);
		EXPECT_EQ(at(&data, "block_stack", i), b->stack);
	}
	data_free(&data);
	snapshot_free(snapshot);
}

TEST(text_and_stacks_are_as_in_the_snapshot)
{
	struct snapshot *s = load("snapshots/train4.pickle");
	struct data data = data_of(s, "<b>\xff");

	EXPECT_EQ(rows(&data, "title"), 4);
	EXPECT_EQ(at(&data, "title", 3), 0xff);
	EXPECT_EQ(rows(&data, "text"), s->text_bytes);
	for (size_t i = 0; i < s->text_bytes; i++)
		EXPECT_EQ(at(&data, "text", i), (unsigned char)s->text[i]);
	for (uint32_t i = 0; i < s->string_count; i++)
		EXPECT_EQ(at(&data, "string_start", i), (double)s->strings[i]);
	for (uint32_t i = 0; i < s->stack_count; i++) {
		EXPECT_EQ(at(&data, "stack_first", i), s->stacks[i].first);
		EXPECT_EQ(at(&data, "stack_frames", i), s->stacks[i].count);
	}
	for (uint32_t i = 0; i < s->frame_count; i++) {
		EXPECT_EQ(at(&data, "frame_line", i), s->frames[i].line);
		EXPECT_EQ(at(&data, "frame_grade", i), site_grade(s, i));
	}
	for (uint32_t i = 0; i < s->annotation_count; i++)
		EXPECT_EQ(at(&data, "annotation_end", i),
		    strcmp(snapshot_text(s, s->annotations[i].stage),
			"START") != 0);
	data_free(&data);
	snapshot_free(s);
}

TEST(addresses_near_the_top_of_64_bits_stay_exact)
{
	struct snapshot *snapshot = load("snapshots/train4.pickle");
	uint64_t shift = UINT64_MAX - ((uint64_t)1 << 50);
	struct data data;

	for (uint32_t i = 0; i < snapshot->segment_count; i++)
		snapshot->segments[i].address += shift;
	for (uint32_t i = 0; i < snapshot->block_count; i++)
		snapshot->blocks[i].address += shift;
	for (uint32_t i = 0; i < snapshot->events.count; i++)
		if (snapshot->events.action[i] < SNAPSHOT_OOM)
			snapshot->events.address[i] += shift;
	data = data_of(snapshot, "a");
	for (uint32_t i = 0; i < snapshot->block_count; i++)
		EXPECT_EQ(data.base + (uint64_t)at(&data, "block_addr", i),
		    snapshot->blocks[i].address);
	data_free(&data);
	snapshot_free(snapshot);
}

TEST(addresses_that_are_too_far_apart_are_refused)
{
	struct snapshot *snapshot = load("snapshots/train4.pickle");

	snapshot->segments[0].address = 512;
	snapshot->segments[1].address = (uint64_t)1 << 63;
	EXPECT_NULL(page_data_new(snapshot, "a"));
	snapshot_free(snapshot);
}

/* The last segment is made one of page-locked memory. */
TEST(page_locked_memory_is_of_a_device_behind_the_others)
{
	struct snapshot *snapshot = load("snapshots/train4.pickle");
	uint32_t devices = snapshot_device_count(snapshot);
	uint32_t last = --snapshot->segment_count;
	struct data data;

	snapshot->host_count = 1;
	snapshot->segments[last].device = 1;
	data = data_of(snapshot, "a");
	EXPECT_EQ(rows(&data, "segment_device"), last + 1);
	EXPECT_EQ(at(&data, "segment_device", last), devices + 1);
	EXPECT_EQ(at(&data, "segment_device", last - 1),
	    snapshot->segments[last - 1].device);
	EXPECT_EQ(at(&data, "segment_addr", last) + (double)data.base,
	    (double)snapshot->segments[last].address);
	data_free(&data);
	snapshot_free(snapshot);
}

TEST(a_snapshot_of_nothing_has_columns_of_nothing)
{
	struct snapshot *snapshot = snapshot_new();
	struct data data = data_of(snapshot, "");

	EXPECT_EQ(rows(&data, "event_addr"), 0);
	EXPECT_EQ(rows(&data, "stream_low"), 0);
	EXPECT_EQ(rows(&data, "title"), 0);
	EXPECT_EQ(data.base, 0);
	data_free(&data);
	snapshot_free(snapshot);
}
