/*
 * weir generate: each kind gives the same trace for the same seed. The trace is
 * consistent, and weir plays it without a fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tools/weir/reading/trace_file.h"
#include "tools/weir/replay/workload.h"

enum { EVENTS = 6000 };

/* Make a trace, as text. */
static struct command_result
generate(const char *kind, const char *flag)
{
	struct command_result result =
	    command_weir("generate", kind, "--events=6000", flag, NULL);

	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.err, "");
	return result;
}

static char *
generated_file(const char *kind)
{
	struct command_result result = generate(kind, NULL);
	char *path = test_file("made.csv", result.out, strlen(result.out));

	command_free(&result);
	return path;
}

static void
generated(const char *kind, struct trace *out)
{
	struct trace_error error = { "" };
	char *path = generated_file(kind);

	if (!trace_read(path, out, &error))
		FAIL("%s", error.text);
	free(path);
}

static const char *
kind_name(size_t i)
{
	const struct workload_kind *kind = workload_kind_at(i);

	return kind == NULL ? NULL : kind->name;
}

TEST(every_kind_is_there)
{
	static const char *const names[] = { "serve", "pipeline", "prefetch",
		"reduce", "mixed", "train", "offload", "loader", "chat", "rl",
		"recsys", "vectors", "video", "crowd" };
	const size_t n = sizeof(names) / sizeof(names[0]);

	for (size_t i = 0; i < n; i++) {
		EXPECT_NOT_NULL(workload_kind(names[i]));
		EXPECT_STR_EQ(kind_name(i), names[i]);
	}
	EXPECT_NULL(workload_kind_at(n));
	EXPECT_NULL(workload_kind("sere"));
}

TEST(a_seed_gives_one_trace_and_another_gives_another)
{
	for (size_t i = 0; kind_name(i) != NULL; i++) {
		struct command_result first = generate(kind_name(i), NULL);
		struct command_result again =
		    generate(kind_name(i), "--seed=1");
		struct command_result other =
		    generate(kind_name(i), "--seed=2");

		EXPECT_STR_EQ(first.out, again.out);
		EXPECT_NE(strcmp(first.out, other.out), 0);
		command_free(&first);
		command_free(&again);
		command_free(&other);
	}
}

/* ---- What is in a trace ---------------------------------------------- */

/* The state of a trace's blocks and streams after the rows so far. */
struct state {
	unsigned char *freed; /* by block; 0: not allocated yet */
	unsigned char ended[TRACE_STREAMS_MAX];
	struct {
		uint64_t live;
		uint64_t peak;
		size_t allocs;
	} sums[2]; /* of the device, page-locked */
};

static void
follow(const struct trace *trace, const struct trace_row *row, struct state *s)
{
	unsigned kind = row->action < 'a';

	switch (row->action) {
	case 'a':
	case 'A':
		EXPECT_EQ(s->freed[row->block], 0);
		EXPECT_EQ(trace->blocks[row->block].pinned, kind);
		s->freed[row->block] = 1;
		s->sums[kind].allocs++;
		s->sums[kind].live += row->size;
		s->ended[row->stream] = 0;
		break;
	case 'r':
	case 'R':
		EXPECT_EQ(s->freed[row->block], 1);
		EXPECT_EQ(s->ended[row->stream], 0);
		EXPECT(trace->blocks[row->block].recorded);
		break;
	case 'f':
	case 'F':
		EXPECT_EQ(s->freed[row->block], 1);
		s->freed[row->block] = 2;
		s->sums[kind].live -= row->size;
		break;
	case 'c':
	case 'C':
		EXPECT_EQ(s->freed[row->block], 2);
		s->freed[row->block] = 3;
		break;
	case 'e':
		EXPECT_EQ(s->ended[row->stream], 0);
		s->ended[row->stream] = 1;
		break;
	default:
		EXPECT_NOT_NULL(strchr("wkh", row->action));
		s->ended[row->stream] = 0;
	}
	if (s->sums[kind].live > s->sums[kind].peak)
		s->sums[kind].peak = s->sums[kind].live;
}

/* Every free follows its allocation and precedes its completion. Time does not
 * go back. The sums of the comment are those of the rows. */
static void
expect_sound(const struct trace *trace, const char *text)
{
	struct state s = { .freed = calloc(1, trace->block_count) };
	char comment[200];
	int used;
	uint64_t time_us = 0;

	for (size_t i = 0; i < trace->row_count; i++) {
		const struct trace_row *row = &trace->rows[i];

		EXPECT_GE(row->time_us, time_us);
		time_us = row->time_us;
		follow(trace, row, &s);
	}
	for (size_t i = 0; i < trace->block_count; i++)
		EXPECT(s.freed[i] == 1 || s.freed[i] == 3);
	used = snprintf(comment, sizeof(comment),
	    "# {\"name\": \"%s\", \"peak_alloc\": %ju, \"allocs\": %zu, "
	    "\"rows\": %zu",
	    trace->name, (uintmax_t)s.sums[0].peak, s.sums[0].allocs,
	    trace->row_count);
	snprintf(comment + used, sizeof(comment) - (size_t)used,
	    trace->has_pinned ? ", \"pinned_peak_alloc\": %ju, "
				"\"pinned_allocs\": %zu}\n" :
				"}\n",
	    (uintmax_t)s.sums[1].peak, s.sums[1].allocs);
	EXPECT_EQ(strncmp(text, comment, strlen(comment)), 0);
	free(s.freed);
}

/* Does a program of the kind have one stream? */
static bool
has_one_stream(const char *kind)
{
	static const char *const names[] = { "train", "chat", "rl", "recsys",
		"vectors" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(kind, names[i]) == 0)
			return true;
	return false;
}

TEST(every_trace_holds_together)
{
	for (size_t i = 0; kind_name(i) != NULL; i++) {
		struct command_result result = generate(kind_name(i), NULL);
		struct trace trace;

		generated(kind_name(i), &trace);
		EXPECT_STR_EQ(trace.name, kind_name(i));
		EXPECT_GE(trace.row_count, EVENTS);
		EXPECT_LT(trace.row_count, 2 * EVENTS);
		bool alone = has_one_stream(trace.name);
		EXPECT_EQ(trace.stream_count == 1, alone);
		EXPECT_NE(trace.has_records, alone);
		EXPECT(trace.has_work);
		expect_sound(&trace, result.out);
		trace_drop(&trace);
		command_free(&result);
	}
}

/* The most bytes of page-locked memory that are live, and how many blocks. */
static uint64_t
pinned_peak(const struct trace *trace, size_t *blocks)
{
	uint64_t *sizes = calloc(trace->block_count, sizeof(uint64_t));
	uint64_t live = 0;
	uint64_t peak = 0;
	size_t count = 0;

	*blocks = 0;
	for (size_t i = 0; i < trace->row_count; i++) {
		const struct trace_row *row = &trace->rows[i];

		if (row->action == 'A') {
			sizes[row->block] = row->size;
			live += row->size;
			count++;
		} else if (row->action == 'F') {
			live -= sizes[row->block];
			count--;
		}
		if (count > *blocks)
			*blocks = count;
		if (live > peak)
			peak = live;
	}
	free(sizes);
	return peak;
}

/* 12 layers save five blocks each, and the last is the first to come back. */
TEST(offload_copies_saved_blocks_back_in_reverse_order)
{
	uint32_t stack[60] = { 0 };
	size_t depth = 0;
	size_t full = 0;
	struct trace trace;

	generated("offload", &trace);
	for (size_t i = 0; i < trace.row_count; i++) {
		const struct trace_row *row = &trace.rows[i];

		if (row->action == 'A') {
			EXPECT_LT(depth, 60);
			stack[depth++] = row->block;
			full += depth == 60;
		} else if (row->action == 'F') {
			EXPECT_GT(depth, 0);
			EXPECT_EQ(stack[depth - 1], row->block);
			depth--;
		}
	}
	EXPECT_EQ(depth, 0);
	EXPECT_GT(full, 5);
	trace_drop(&trace);
}

TEST(offload_has_another_batch_in_each_step)
{
	uint64_t inputs[2] = { 0 };
	size_t blocks;
	size_t saved = 0;
	struct trace trace;

	generated("offload", &trace);
	for (size_t i = 0; i < trace.row_count; i++)
		if (trace.rows[i].action == 'A' && saved++ % 60 == 0) {
			inputs[0] = inputs[1];
			inputs[1] = trace.rows[i].size;
			EXPECT_NE(inputs[0], inputs[1]);
			EXPECT_EQ(inputs[1] % (4096 * 2), 0);
		}
	EXPECT_GT(pinned_peak(&trace, &blocks), UINT64_C(4) << 30);
	EXPECT_LT(pinned_peak(&trace, &blocks), UINT64_C(8) << 30);
	EXPECT_EQ(blocks, 60);
	trace_drop(&trace);
}

TEST(loader_keeps_sixteen_batches_of_four_parts)
{
	unsigned sides[5] = { 0 };
	size_t blocks;
	struct trace trace;

	generated("loader", &trace);
	EXPECT_LT(pinned_peak(&trace, &blocks), UINT64_C(1) << 30);
	EXPECT_EQ(blocks, 64);
	for (size_t i = 0; i < trace.row_count; i++)
		for (unsigned k = 0; k < 5; k++) {
			uint64_t side = 160 + 32 * k;

			sides[k] += trace.rows[i].action == 'A' &&
			    trace.rows[i].size == 256 * 3 * side * side;
		}
	for (unsigned k = 0; k < 5; k++)
		EXPECT_GT(sides[k], 5);
	trace_drop(&trace);
}

TEST(uses_elsewhere_outlast_the_free_as_the_host_runs_ahead)
{
	for (size_t i = 0; kind_name(i) != NULL; i++) {
		struct trace trace;
		size_t late = 0;

		if (has_one_stream(kind_name(i)))
			continue;
		generated(kind_name(i), &trace);
		for (size_t j = 0; j < trace.row_count; j++) {
			const struct trace_row *row = &trace.rows[j];

			late += row->action == 'f' &&
			    trace.blocks[row->block].used_until_us >
				row->time_us + 100;
		}
		EXPECT_GT(late, 10);
		trace_drop(&trace);
	}
}

/* A thread has temporary streams, one after the other, under the same number.
 */
TEST(temporary_streams_come_and_go_in_serve)
{
	unsigned ends[TRACE_STREAMS_MAX] = { 0 };
	unsigned most = 0;
	struct trace trace;

	generated("serve", &trace);
	for (size_t i = 0; i < trace.row_count; i++)
		if (trace.rows[i].action == 'e')
			ends[trace.rows[i].stream]++;
	for (unsigned i = 0; i < trace.stream_count; i++)
		if (ends[i] > most)
			most = ends[i];
	EXPECT_GT(most, 2);
	trace_drop(&trace);
}

/* How many blocks of a trace have this many times the size of the block that is
 * freed next after them, within `most` rows. */
static size_t
count_copies(const struct trace *trace, uint64_t times, size_t most)
{
	size_t copies = 0;

	for (size_t i = 0; i + most < trace->row_count; i++) {
		size_t k = i + 1;

		if (trace->rows[i].action != 'a')
			continue;
		while (k < i + most && trace->rows[k].action != 'f')
			k++;
		for (size_t j = i; trace->rows[k].action == 'f' && j > 0; j--)
			if (trace->rows[j - 1].block == trace->rows[k].block &&
			    trace->rows[j - 1].action == 'a') {
				copies += trace->rows[i].size ==
				    times * trace->rows[j - 1].size;
				break;
			}
	}
	return copies;
}

TEST(arrays_double_when_they_are_full)
{
	struct trace trace;

	generated("vectors", &trace);
	EXPECT_GT(count_copies(&trace, 2, 4), 50);
	trace_drop(&trace);
}

/* A word has 2,048 bytes of each layer's keys for each text of 1 to 8. */
TEST(keys_grow_by_a_word_of_each_text)
{
	enum { WORD = 2048, LAYERS = 6 };
	size_t grown = 0;
	uint64_t sizes[2 * LAYERS + 1] = { 0 };
	struct trace trace;

	generated("chat", &trace);
	for (size_t i = 0; i < trace.row_count; i++) {
		uint64_t size = trace.rows[i].size;

		if (trace.rows[i].action != 'a' || size % WORD != 0)
			continue;
		for (size_t k = 0; k < 2 * LAYERS; k++)
			sizes[k] = sizes[k + 1];
		sizes[2 * LAYERS] = size;
		grown += size == sizes[2 * LAYERS - 1];
	}
	EXPECT_GT(grown, 500);
	trace_drop(&trace);
}

TEST(playing_and_learning_need_very_different_blocks)
{
	uint64_t largest = 0;
	size_t small = 0;
	struct trace trace;

	generated("rl", &trace);
	for (size_t i = 0; i < trace.row_count; i++) {
		if (trace.rows[i].action != 'a')
			continue;
		small += trace.rows[i].size < MIB;
		if (trace.rows[i].size > largest)
			largest = trace.rows[i].size;
	}
	EXPECT_GT(largest, 64 * MIB);
	EXPECT_GT(small, 100);
	trace_drop(&trace);
}

TEST(lookups_have_any_number_of_rows)
{
	size_t other = 0;
	size_t allocs = 0;
	uint64_t last = 0;
	struct trace trace;

	generated("recsys", &trace);
	for (size_t i = 0; i < trace.row_count; i++)
		if (trace.rows[i].action == 'a') {
			other += trace.rows[i].size != last;
			last = trace.rows[i].size;
			allocs++;
		}
	EXPECT_GT(other, allocs * 9 / 10);
	trace_drop(&trace);
}

TEST(a_crowd_has_sixteen_streams_and_a_video_four)
{
	struct trace trace;

	generated("crowd", &trace);
	EXPECT_EQ(trace.stream_count, 16);
	trace_drop(&trace);
	generated("video", &trace);
	EXPECT_EQ(trace.stream_count, 4);
	trace_drop(&trace);
}

TEST(every_trace_is_played_without_a_fault)
{
	for (size_t i = 0; kind_name(i) != NULL; i++) {
		char *path = generated_file(kind_name(i));
		struct command_result result = command_weir(
		    "replay", "--json", "--check", "--touch", path, NULL);

		EXPECT_STR_EQ(result.err, "");
		EXPECT_EQ(result.status, 0);
		EXPECT_STR_HAS(result.out, "\"mismatches\":0");
		EXPECT_STR_HAS(result.out, "\"ooms\":0");
		command_free(&result);
		free(path);
	}
}

/* ---- The command ----------------------------------------------------- */

/* The sizes of a stream's allocations in a round, from a row on, as text. */
static char *
sizes_of_round(const struct trace *trace, size_t row, unsigned stream)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	for (size_t i = row + 1; i < trace->row_count; i++) {
		const struct trace_row *at = &trace->rows[i];

		if (at->stream == stream && at->action == 'n')
			break;
		if (at->stream == stream && at->action == 'a')
			fprintf(out, "%llu ", (unsigned long long)at->size);
	}
	fclose(out);
	return text;
}

TEST(rounds_repeat_the_allocations_of_each_stream)
{
	static const char *const names[] = { "train", "prefetch", "reduce" };

	for (size_t k = 0; k < 3; k++) {
		struct command_result result = generate(names[k], "--repeat=2");
		char *path =
		    test_file("made.csv", result.out, strlen(result.out));
		struct trace_error error = { "" };
		struct trace trace;
		char *first[2] = { NULL, NULL };
		unsigned rounds = 0;

		EXPECT(trace_read(path, &trace, &error));
		for (size_t i = 0; i < trace.row_count; i++) {
			const struct trace_row *row = &trace.rows[i];
			unsigned one = row->stream == 0 ? 0 : 1;

			if (row->action != 'n')
				continue;
			char *sizes = sizes_of_round(&trace, i, row->stream);
			if (first[one] == NULL) {
				first[one] = sizes;
				continue;
			}
			/* The last round may be incomplete. */
			EXPECT(strncmp(first[one], sizes, strlen(sizes)) == 0);
			rounds += strcmp(first[one], sizes) == 0;
			free(sizes);
		}
		EXPECT_GE(rounds, 3);
		EXPECT_EQ(first[1] == NULL, k == 0);
		free(first[0]);
		free(first[1]);
		trace_drop(&trace);
		command_free(&result);
		free(path);
	}
}

TEST(a_program_that_does_not_repeat_has_no_rounds)
{
	struct command_result result = generate("reduce", NULL);

	EXPECT_NULL(strstr(result.out, "\nn,"));
	command_free(&result);
}

TEST(more_events_give_a_longer_trace)
{
	struct command_result few =
	    command_weir("generate", "pipeline", "--events", "1", NULL);
	struct command_result many =
	    command_weir("generate", "pipeline", "--events", "9000", NULL);

	EXPECT_EQ(few.status, 0);
	EXPECT_EQ(many.status, 0);
	EXPECT_GT(strlen(many.out), 20 * strlen(few.out));
	command_free(&few);
	command_free(&many);
}

TEST(wrong_words_are_usage_errors_that_name_them)
{
	static const char *const wrong[][3] = {
		{ "serv", NULL, "no KIND 'serv'; did you mean 'serve'?" },
		{ "dance", NULL, "no KIND 'dance'; --help lists them" },
		{ "serve", "--events=0",
		    "--events is a number from 1 to 100000000, not '0'" },
		{ "serve", "reduce", "one KIND at a time" },
		{ "serve", "--seed=one", "'one'" },
		{ "serve", "--seed=-1", "'-1'" },
		{ "serve", "--seed=18446744073709551616",
		    "'18446744073709551616'" },
		{ "serve", "--events=", "''" },
		{ "serve", "--events=100000001", "'100000001'" },
		{ "serve", "--repeat=often", "'often'" },
		{ "--seed=1", NULL, "no KIND" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct command_result result =
		    command_weir("generate", wrong[i][0], wrong[i][1], NULL);

		EXPECT_EQ(result.status, 2);
		EXPECT_STR_EQ(result.out, "");
		EXPECT_STR_HAS(result.err, wrong[i][2]);
		command_free(&result);
	}
}

TEST(help_names_every_kind)
{
	struct command_result result = command_weir("generate", "--help", NULL);

	EXPECT_EQ(result.status, 0);
	for (size_t i = 0; kind_name(i) != NULL; i++) {
		EXPECT_STR_HAS(result.out, kind_name(i));
		EXPECT_STR_HAS(result.out, workload_kind_at(i)->help);
	}
	command_free(&result);
}

/* The reader stops after the first rows, so that writing takes more than a
 * second. */
TEST(progress_is_shown_to_a_person_who_waits)
{
	static const char script[] = "\"$0\" generate serve | "
				     "(head -c 100; sleep 1.2; cat) "
				     ">/dev/null";
	char *weir = test_build("bin/weir");
	char *text = command_on_terminal(
	    (const char *const[]){ "sh", "-c", script, weir, NULL });

	EXPECT_STR_HAS(text, "\r\033[Kwriting rows: ");
	EXPECT_STR_HAS(text, " s left");
	/* The line is removed at the end. */
	EXPECT_STR_EQ(text + strlen(text) - strlen("\r\033[K"), "\r\033[K");
	free(text);
	free(weir);
}
