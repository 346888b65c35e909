/*
 * `weir oom`, `weir advise` and the page of `weir view` give one answer.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"
#include "tests/tools/weir/packed.h"
#include "tools/weir/advise/tuning.h"
#include "tools/weir/page.h"

/* The column of a page's data that has this name, as JSON. */
static json_t *
column_of(const unsigned char *data, size_t size, const char *name)
{
	uint32_t length;
	size_t start;
	json_t *head;
	json_t *column;
	const json_t *place;
	size_t first;
	size_t count;

	EXPECT_GT(size, 16);
	memcpy(&length, data + 12, 4);
	head = json_loadb((const char *)data + 16, length, 0, NULL);
	EXPECT_NOT_NULL(head);
	start = 16 + (length + 7) / 8 * 8;
	place = json_object_get(json_object_get(head, "columns"), name);
	first = start + (size_t)json_integer_value(json_array_get(place, 1));
	count = (size_t)json_integer_value(json_array_get(place, 2));
	EXPECT_LE(first + count, size);
	column = json_loadb((const char *)data + first, count, 0, NULL);
	EXPECT_NOT_NULL(column);
	json_decref(head);
	return column;
}

/* The advice in a page that a command has printed. */
static json_t *
printed_advice(struct command_result result)
{
	const char *place =
	    memmem(page_html, page_bytes, PAGE_DATA, strlen(PAGE_DATA));
	size_t before = (size_t)(place - (const char *)page_html);
	const char *end;
	unsigned char *data;
	json_t *advice;
	size_t size;

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	end = strchr(result.out + before, '<');
	EXPECT_NOT_NULL(end);
	data = packed_read(
	    result.out + before, (size_t)(end - result.out) - before, &size);
	advice = column_of(data, size, "advice");
	free(data);
	command_free(&result);
	return advice;
}

/* The advice that `weir view` writes into the page of a file. */
static json_t *
page_advice(const char *path, const char *flag)
{
	return printed_advice(
	    command_weir("view", path, "-o", "-", flag, NULL));
}

static json_t *
command_advice(const char *path)
{
	json_t *json = ask_json(1, "advise", path, NULL, NULL);
	json_t *devices = json_incref((json_t *)value_at(json, "devices"));

	json_decref(json);
	return devices;
}

TEST(oom_advise_and_the_page_have_the_same_first_sentence)
{
	static const char *const names[] = { "train4.pickle", "train.json",
		"broken.pickle" };

	need_page();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *path = snapshot_data(names[i]);
		json_t *oom = ask_json(0, "oom", path, NULL, NULL);
		json_t *advise = command_advice(path);
		json_t *page = page_advice(path, NULL);

		EXPECT_STR_HAS(text_at(advise, "0.advice.0.text"), "holds ");
		for (size_t k = 0; k < 2; k++) {
			const char *member =
			    k == 0 ? "advice.0.text" : "advice.0.setting";
			const char *wanted =
			    text_at(json_array_get(advise, 0), member);

			EXPECT_STR_EQ(
			    text_at(value_at(oom, "replays"), member), wanted);
			EXPECT_STR_EQ(
			    text_at(json_array_get(page, 0), member), wanted);
		}
		EXPECT(json_equal(value_at(oom, "replays.advice"),
		    value_at(advise, "0.advice")));
		json_decref(page);
		json_decref(advise);
		json_decref(oom);
	}
}

TEST(the_page_has_the_whole_answer_for_each_device)
{
	json_t *advise = command_advice(train());
	json_t *page;
	size_t i;
	json_t *one;

	need_page();
	page = page_advice(train(), NULL);
	EXPECT_EQ(json_array_size(advise), 2);
	EXPECT_EQ(json_array_size(page), 2);
	json_array_foreach(page, i, one)
	{
		EXPECT(json_is_null(value_at(one, "reason")));
		EXPECT(json_equal(value_at(one, "advice"),
		    value_at(json_array_get(advise, i), "advice")));
	}
	EXPECT(json_is_true(
	    json_object_get(json_object_get(json_array_get(page, 0), "serves"),
		"weir run --torch -- PROGRAM")));
	json_decref(page);
	json_decref(advise);
}

TEST(a_file_from_stdin_is_not_replayed_and_the_page_says_so)
{
	char *weir = test_build("bin/weir");
	const char *shell[] = { "sh", "-c", "\"$0\" view - -o - <\"$1\"", weir,
		train(), NULL };
	json_t *page;

	need_page();
	page = printed_advice(command_run(shell));
	EXPECT_EQ(json_array_size(page), 2);
	EXPECT_STR_HAS(
	    text_at(json_array_get(page, 1), "reason"), "came from stdin");
	json_decref(page);
	free(weir);
}

TEST(the_page_of_a_trace_has_its_answer)
{
	char *path = test_data("moe_start.csv");
	json_t *advise = command_advice(path);
	json_t *page;

	need_page();
	page = page_advice(path, NULL);
	EXPECT(json_equal(value_at(json_array_get(page, 0), "advice"),
	    value_at(json_array_get(advise, 0), "advice")));
	json_decref(page);
	json_decref(advise);
	free(path);
}

/* A trace with more events than the page replays without being asked. */
static const char *
long_trace(void)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	const char *path;

	EXPECT_NOT_NULL(out);
	fputs("action,addr,size,stream,time_us\n", out);
	for (unsigned i = 1; i <= ADVISE_PAGE_EVENTS; i += 2)
		fprintf(out, "a,10000000,4096,0,%u\nf,10000000,4096,0,%u\n", i,
		    i + 1);
	fputs("a,10000000,4096,0,200000\n", out);
	fclose(out);
	path = written("long.csv", text, length);
	free(text);
	return path;
}

TEST(a_long_recording_is_replayed_if_that_is_asked)
{
	const char *path = long_trace();
	json_t *unasked;
	json_t *asked;

	need_page();
	unasked = page_advice(path, NULL);
	asked = page_advice(path, "--advise");
	EXPECT_STR_HAS(text_at(json_array_get(unasked, 0), "reason"),
	    "events, whose replays take long");
	EXPECT_STR_HAS(
	    text_at(json_array_get(unasked, 0), "reason"), "--advise");
	EXPECT_NULL(json_object_get(json_array_get(unasked, 0), "advice"));
	EXPECT(json_is_null(value_at(json_array_get(asked, 0), "reason")));
	EXPECT_GT(number_at(json_array_get(asked, 0), "tried"), 0);
	json_decref(unasked);
	json_decref(asked);
}

TEST(a_snapshot_without_a_history_has_no_answer)
{
	json_t *page;

	need_page();
	page = page_advice(snapshot_data("segments.pickle"), NULL);
	EXPECT_EQ(json_array_size(page), 0);
	json_decref(page);
}
