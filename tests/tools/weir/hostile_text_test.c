/*
 * Hostile texts in a snapshot, in all output of the command: escapes of a
 * terminal, characters that reorder a line, and names that are cut.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"

/* ESC, BEL, DEL, U+009B, U+202E, U+2066, U+2028, and harmless characters. */
#define EVIL                                                                   \
	"\\u001b[2J\\u0007\\u007f\\u009b31m\\u202eyp\\u2066x\\u2028caf\\u00e9"

/* Names of 2-byte characters that are cut at each width of the tables, for both
 * parities. */
static void
write_frames(FILE *out, int odd)
{
	fprintf(out, "[{\"name\":\"%s%s", EVIL, odd ? "x" : "");
	for (int i = 0; i < 400; i++)
		fputs("\\u00e9", out);
	fprintf(out, "\",\"filename\":\"/a/%s", EVIL);
	for (int i = 0; i < 300; i++)
		fputs("\\u00e9", out);
	fputs(".py\",\"line\":7}]", out);
}

static void
write_block(FILE *out, int i)
{
	fprintf(out,
	    "%s{\"address\":%d,\"size\":1048576,\"requested_size\":1000000,"
	    "\"state\":\"active_allocated\",\"frames\":",
	    i == 0 ? "" : ",", 1073741824 + i * 1048576);
	write_frames(out, i % 2);
	fputs("}", out);
}

static void
write_events(FILE *out)
{
	for (int i = 0; i < 4; i++) {
		fprintf(out,
		    "{\"action\":\"%s\",\"addr\":%d,\"size\":1048576,"
		    "\"stream\":0,\"time_us\":%d,\"frames\":",
		    i == 3 ? EVIL : "alloc", 1073741824 + i * 1048576, i + 1);
		write_frames(out, i % 2);
		fputs("},", out);
	}
	fprintf(out,
	    "{\"action\":\"oom\",\"device_free\":0,\"size\":9437184,"
	    "\"stream\":0,\"time_us\":9,\"frames\":");
	write_frames(out, 1);
	fputs("}", out);
}

static const char *
evil_snapshot(void)
{
	char *text;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	fprintf(out,
	    "{\"segments\":[{\"device\":0,\"address\":1073741824,"
	    "\"total_size\":4194304,\"allocated_size\":4194304,"
	    "\"active_size\":4194304,\"requested_size\":4000000,\"stream\":0,"
	    "\"segment_type\":\"large\",\"segment_pool_id\":[0,0],"
	    "\"is_expandable\":false,\"frames\":");
	write_frames(out, 0);
	fputs(",\"blocks\":[", out);
	for (int i = 0; i < 4; i++)
		write_block(out, i);
	fputs("]}],\"device_traces\":[[", out);
	write_events(out);
	fprintf(out,
	    "]],\"external_annotations\":[{\"name\":\"%s\",\"stage\":\"%s\","
	    "\"device\":0,\"time_us\":1}],"
	    "\"allocator_settings\":{\"%s\":\"%s\"}}",
	    EVIL, EVIL, EVIL, EVIL);
	fclose(out);
	const char *path = written("evil.json", text, length);
	free(text);
	return path;
}

static void
expect_harmless(const char *what, const char *text)
{
	size_t left = strlen(text);
	const char *start = text;

	while (left > 0) {
		uint32_t code;
		size_t n = utf8_next(text, left, &code);

		if (n == 0)
			FAIL("%s: no UTF-8 at byte %td", what, text - start);
		if (code != '\n' && code != '\t' && utf8_is_control(code))
			FAIL(
			    "%s: U+%04X at byte %td", what, code, text - start);
		text += n;
		left -= n;
	}
}

static void
expect_harmless_run(
    const char *command, const char *path, const char *flag, const char *value)
{
	struct command_result result =
	    command_weir(command, path, flag, value, NULL);
	char what[64];

	EXPECT_EQ(result.signal, 0);
	EXPECT_NULL(strstr(result.err, "weir help"));
	EXPECT_NULL(strstr(result.err, "--usage"));
	snprintf(what, sizeof(what), "%s %s %s", command,
	    flag == NULL ? "" : flag, value == NULL ? "" : value);
	expect_harmless(what, result.out);
	expect_harmless(what, result.err);
	EXPECT_NE(strlen(result.out) + strlen(result.err), 0);
	command_free(&result);
}

TEST(reports_print_nothing_that_a_terminal_obeys)
{
	static const char *const commands[] = { "show", "stats", "top", "oom",
		"frag", "leaks", "trace", "check" };
	const char *path = evil_snapshot();

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		expect_harmless_run(commands[i], path, NULL, NULL);
		expect_harmless_run(commands[i], path, "--json", NULL);
	}
	expect_harmless_run("diff", path, path, NULL);
	expect_harmless_run("diff", path, path, "--json");
	expect_harmless_run("merge", path, path, NULL);
}

TEST(exports_are_utf8_and_json_has_no_raw_controls)
{
	static const char *const formats[] = { "json", "chrome", "folded",
		"csv" };
	const char *path = evil_snapshot();

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		expect_harmless_run("export", path, "--format", formats[i]);
}

/* JSON has the characters, escaped. */
TEST(an_export_has_all_of_a_name)
{
	struct command_result result =
	    command_weir("export", evil_snapshot(), NULL);
	json_t *json = json_loads(result.out, 0, NULL);
	const json_t *notes = json_object_get(json, "external_annotations");
	const char *name = json_string_value(
	    json_object_get(json_array_get(notes, 0), "name"));

	EXPECT_NOT_NULL(name);
	EXPECT_STR_EQ(name,
	    "\033[2J\a\x7f\xc2\x9b"
	    "31m\xe2\x80\xaeyp\xe2\x81\xa6x\xe2\x80\xa8"
	    "caf\xc3\xa9");
	json_decref(json);
	command_free(&result);
}

/* The name of a trace is in its JSON, or is that of its file. */
TEST(a_replay_shows_no_escape_of_a_trace_s_name)
{
	static const char rows[] = "action,addr,size,stream,time_us\n"
				   "a,1000,512,0,0\nf,1000,512,0,1\n";
	char *text = NULL;
	const char *path;

	EXPECT_GT(
	    asprintf(&text, "#{\"name\":\"%s%0300d\"}\n%s", EVIL, 0, rows), 0);
	path = written("evil.csv", text, strlen(text));
	expect_harmless_run("replay", path, "--sim", NULL);
	expect_harmless_run("replay", path, "--sim", "--explain");
	expect_harmless_run("replay", path, "--sim", "--json");
	path = written("a\033[31m\xff\xe2\x80\xae.csv", rows, strlen(rows));
	expect_harmless_run("replay", path, "--sim", NULL);
	expect_harmless_run("replay", path, "--sim", "--json");
	free(text);
}

TEST(complaints_show_no_escape_of_a_name)
{
	expect_harmless_run(
	    "stats", "/no/\033[31m\xe2\x80\xae\xff/x", NULL, NULL);
	expect_harmless_run("replay", "/no/\033]0;x\a", NULL, NULL);
	expect_harmless_run("run", "/no/\033[31m", NULL, NULL);
}

TEST(a_name_that_is_no_utf8_stands_in_json)
{
	static const char *const commands[] = { "show", "stats", "top", "oom",
		"frag", "leaks", "check" };
	static char bytes[1 << 20];
	FILE *file = fopen(train(), "rb");

	EXPECT_NOT_NULL(file);
	size_t length = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	const char *path = written("a\xff\xfe.pickle", bytes, length);

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		json_t *json = ask_json(strcmp(commands[i], "leaks") == 0,
		    commands[i], path, NULL, NULL);

		EXPECT_STR_HAS(
		    text_at(json, "snapshot"), "a\xef\xbf\xbd\xef\xbf\xbd.p");
		json_decref(json);
	}
	json_t *diff = ask_json(0, "diff", path, path, NULL);
	EXPECT_STR_HAS(text_at(diff, "before.snapshot"), "a\xef\xbf\xbd");
	json_decref(diff);
	json_t *merge = ask_json(0, "merge", path, path, NULL);
	EXPECT_STR_HAS(text_at(merge, "ranks.1.snapshot"), "a\xef\xbf\xbd");
	json_decref(merge);
}
