/*
 * weir view: the place of the page, its content, and refused inputs.
 * tests/viewer tests the page in a browser.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/answer.h"
#include "tests/tools/weir/packed.h"
#include "tools/weir/page.h"
#include "tools/weir/reading/snapshot_file.h"

static struct command_result
view(const char *name, const char *output, const char *flag)
{
	char *path = test_data(name);
	struct command_result result =
	    command_weir("view", path, "-o", output, flag, NULL);

	free(path);
	return result;
}

/* A path of the test's own, at which there is no file. */
static char *
free_path(const char *name)
{
	char *path = test_file(name, "", 0);

	EXPECT_EQ(unlink(path), 0);
	return path;
}

static bool
exists(const char *path)
{
	struct stat info;

	return lstat(path, &info) == 0;
}

TEST(a_page_goes_to_its_file_for_its_owner_alone)
{
	char *path = free_path("page.html");
	struct command_result result;
	struct stat info;

	need_page();
	result = view("snapshots/train4.pickle", path, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	EXPECT_STR_EQ(result.out, "");
	EXPECT_EQ(stat(path, &info), 0);
	EXPECT_EQ(info.st_mode & 0777, 0600);
	EXPECT_GT((size_t)info.st_size, page_bytes);
	command_free(&result);
	free(path);
}

TEST(a_page_is_the_built_one_with_data_in_it)
{
	struct command_result result;
	const char *place;
	const char *end;
	size_t before;
	unsigned char *data;
	size_t size;

	need_page();
	result = view("snapshots/train4.pickle", "-", NULL);
	EXPECT_EQ(result.status, 0);
	place = memmem(page_html, page_bytes, PAGE_DATA, strlen(PAGE_DATA));
	EXPECT_NOT_NULL(place);
	before = (size_t)(place - (const char *)page_html);
	EXPECT_MEM_EQ(result.out, page_html, before);
	end = strchr(result.out + before, '<');
	EXPECT_NOT_NULL(end);
	EXPECT_STR_EQ(end, place + strlen(PAGE_DATA));
	data = packed_read(
	    result.out + before, (size_t)(end - result.out) - before, &size);
	EXPECT_MEM_EQ(data, "weirview", 8);
	free(data);
	command_free(&result);
}

static void
expect_what_if_refused(const char *setting, const char *why)
{
	char *path = free_path("page.html");
	char flag[700];
	struct command_result result;

	snprintf(flag, sizeof(flag), "--what-if=%s", setting);
	result = view("snapshots/train4.pickle", path, flag);
	EXPECT_NE(result.status, 0);
	EXPECT_STR_HAS(result.err, why);
	EXPECT(!exists(path));
	command_free(&result);
	free(path);
}

TEST(settings_that_no_allocator_has_are_refused)
{
	char text[600];

	need_page();
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	expect_what_if_refused("torch,nonsense:1", "nonsense");
	expect_what_if_refused("nonsense:1", "nonsense");
	expect_what_if_refused("torch,limit:much", "limit:BYTES is a size");
	expect_what_if_refused("weir,limit:0", "limit:BYTES is a size");
	expect_what_if_refused(text, "more than 511 bytes");
}

TEST(what_if_needs_a_file_that_can_be_read_again)
{
	struct command_result result = command_weir(
	    "view", "--what-if", "-", "-o", "/tmp/never.html", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "which stdin cannot be");
	command_free(&result);
}

TEST(text_of_a_snapshot_is_nowhere_as_html)
{
	struct command_result result;

	need_page();
	result = view(
	    "snapshots/train4.pickle", "-", "--title=</script><h1>broken</h1>");
	EXPECT_EQ(result.status, 0);
	EXPECT_NULL(strstr(result.out, "<h1>broken"));
	command_free(&result);
}

TEST(a_symbolic_link_is_not_followed)
{
	char *target = test_file("target", "kept", 4);
	char *path = free_path("link.html");
	struct command_result result;
	struct stat info;

	need_page();
	EXPECT_EQ(symlink(target, path), 0);
	result = view("snapshots/train4.pickle", path, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "it is a symbolic link");
	EXPECT_EQ(stat(target, &info), 0);
	EXPECT_EQ(info.st_size, 4);
	EXPECT_EQ(unlink(path), 0);
	command_free(&result);
	free(path);
	free(target);
}

TEST(a_file_that_is_no_snapshot_leaves_no_page)
{
	char *path = free_path("page.html");
	char *input = test_file("input", "<html>", 6);
	struct command_result result;

	need_page();
	result = command_weir("view", input, "-o", path, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "not a memory snapshot");
	EXPECT(!exists(path));
	command_free(&result);
	result = command_weir("view", "/nowhere", "-o", path, NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "/nowhere");
	EXPECT(!exists(path));
	command_free(&result);
	free(input);
	free(path);
}

TEST(a_full_device_is_reported)
{
	struct command_result result;

	need_page();
	result = view("snapshots/train4.pickle", "/dev/full", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "cannot write /dev/full");
	command_free(&result);
}

TEST(a_snapshot_and_an_output_must_be_named)
{
	struct command_result result = command_weir("view", NULL);

	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "no SNAPSHOT");
	command_free(&result);
	result = command_weir("view", "a", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--output");
	command_free(&result);
	result = command_weir("view", "a", "b", "-o", "c", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "one SNAPSHOT");
	command_free(&result);
}

TEST(a_build_without_the_page_reports_that)
{
	struct command_result result =
	    view("snapshots/train4.pickle", "-", NULL);

	EXPECT_EQ(result.status, page_bytes == 0 ? 2 : 0);
	EXPECT_EQ(strstr(result.err, "built without the page") != NULL,
	    page_bytes == 0);
	EXPECT_EQ(result.out[0] == '\0', page_bytes == 0);
	command_free(&result);
}

/* The double of a browser records its arguments. */
static char *
browser(const char *note)
{
	char text[256];
	int n = snprintf(
	    text, sizeof(text), "#!/bin/sh\necho \"$1\" >'%s'\n", note);
	char *path = test_file("browser", text, (size_t)n);

	EXPECT_EQ(chmod(path, 0700), 0);
	return path;
}

TEST(open_starts_a_browser_with_the_page)
{
	need_page();
	char *note = test_file("note", "", 0);
	char *program = browser(note);
	char given[256] = "";
	FILE *file;

	setenv("BROWSER", program, 1);
	struct command_result result =
	    command_weir("view", "--open", train(), NULL);

	EXPECT_EQ(result.status, 0);
	file = fopen(note, "r");
	EXPECT_NOT_NULL(file);
	EXPECT_NOT_NULL(fgets(given, sizeof(given), file));
	fclose(file);
	/* The command prints the path of the page. */
	EXPECT_STR_EQ(given, result.out);
	EXPECT_STR_HAS(given, "/view.html\n");
	given[strlen(given) - 1] = '\0';
	EXPECT_EQ(access(given, R_OK), 0);
	unlink(given);
	*strrchr(given, '/') = '\0';
	rmdir(given);
	command_free(&result);
	setenv("BROWSER", "/nonexistent/browser", 1);
	result = command_weir("view", "--open", "-o", note, train(), NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "set BROWSER to a browser");
	command_free(&result);
	free(program);
	free(note);
}

/* ---- Traces in CSV ----------------------------------------------------- */

TEST(a_trace_in_csv_has_a_page)
{
	char *path = free_path("page.html");
	struct command_result result;

	need_page();
	result = view("moe_start.csv", path, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	EXPECT(exists(path));
	command_free(&result);
	free(path);
	path = free_path("page.html");
	result = view("fsdp_prefetch.csv.xz", path, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	free(path);
}

static const char good_trace[] = "action,addr,size,stream,time_us\n"
				 "a,1000,512,0,1\n"
				 "a,2000,1024,7,2\n"
				 "k,0,50,7,2\n"
				 "f,1000,512,0,3\n"
				 "f,2000,1024,7,4\n"
				 "a,1000,2048,0,5\n"
				 "c,2000,1024,7,6\n";

/* Without `c` rows a free is complete at once. Without rows of segments the
 * held bytes are the bytes in use. */
TEST(rows_of_csv_become_events)
{
	static const uint8_t wanted[] = { SNAPSHOT_SEGMENT_MAP, SNAPSHOT_ALLOC,
		SNAPSHOT_SEGMENT_MAP, SNAPSHOT_ALLOC, SNAPSHOT_FREE_REQUESTED,
		SNAPSHOT_FREE_COMPLETED, SNAPSHOT_SEGMENT_UNMAP,
		SNAPSHOT_FREE_REQUESTED, SNAPSHOT_SEGMENT_MAP, SNAPSHOT_ALLOC,
		SNAPSHOT_FREE_COMPLETED, SNAPSHOT_SEGMENT_UNMAP };
	char *path = test_file("t.csv", good_trace, strlen(good_trace));
	struct snapshot *snapshot = snapshot_or_trace_load(path);

	EXPECT_NOT_NULL(snapshot);
	EXPECT_EQ(snapshot->trace_count, 1);
	EXPECT_EQ(snapshot->traces[0].count, sizeof(wanted));
	EXPECT_MEM_EQ(snapshot->events.action, wanted, sizeof(wanted));
	EXPECT_EQ(snapshot->events.address[3], 0x2000);
	EXPECT_EQ(snapshot->events.bytes[9], 2048);
	EXPECT_EQ(snapshot->events.time_us[11], 6);
	snapshot_free(snapshot);
	free(path);
}

/* stdin has no name that shows the kind of its data. */
TEST(a_trace_is_read_from_stdin_too)
{
	static const char *const scripts[] = {
		"\"$0\" view - -o \"$1\" <\"$2\"",
		"cat \"$2\" | \"$0\" view - -o \"$1\"",
		"gzip -c \"$2\" | \"$0\" view - -o \"$1\"",
		"xz -c \"$2\" | \"$0\" view - -o \"$1\"",
	};
	char *weir = test_build("bin/weir");
	char *trace = test_data("moe_start.csv");

	need_page();
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		char *page = free_path("page.html");
		struct command_result result =
		    command_run((const char *const[]){
			"sh", "-c", scripts[i], weir, page, trace, NULL });

		EXPECT_STR_EQ(result.err, "");
		EXPECT_EQ(result.status, 0);
		EXPECT(exists(page));
		command_free(&result);
		free(page);
	}
	free(trace);
	free(weir);
}

TEST(a_wrong_trace_from_stdin_is_reported_by_its_line)
{
	static const char bad[] = "# a comment\n"
				  "action,addr,size,stream,time_us\n"
				  "f,1000,512,0,1\n";
	char *weir = test_build("bin/weir");
	char *path = test_file("bad", bad, strlen(bad));
	struct command_result result;

	need_page();
	result = command_run((const char *const[]){ "sh", "-c",
	    "\"$0\" view - -o - <\"$1\" >/dev/null", weir, path, NULL });
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "stdin:3: 'f' of address 1000");
	command_free(&result);
	free(path);
	free(weir);
}

TEST(a_wrong_trace_leaves_the_page_that_was_there)
{
	static const char bad[] = "action,addr,size,stream,time_us\n"
				  "f,1000,512,0,1\n";
	char *page = test_file("page.html", "old", 3);
	char *path = test_file("bad.csv", bad, strlen(bad));
	struct command_result result =
	    command_weir("view", path, "-o", page, NULL);
	struct stat about;

	need_page();
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "bad.csv:2: 'f' of address 1000");
	EXPECT_EQ(stat(page, &about), 0);
	EXPECT_EQ(about.st_size, 3);
	command_free(&result);
	free(path);
	free(page);
}

TEST(an_earlier_snapshot_that_cannot_be_read_is_reported)
{
	char *page = free_path("page.html");
	char *path = test_data("snapshots/train4.pickle");
	struct command_result result = command_weir(
	    "view", path, "-o", page, "--compare", "/no/such/file", NULL);

	need_page();
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "/no/such/file");
	EXPECT(!exists(page));
	command_free(&result);
	free(path);
	free(page);
}

/* The reader of the page is slow, so that writing the data takes more than a
 * second. */
TEST(progress_is_shown_to_a_person_who_waits)
{
	static const char script[] =
	    "\"$0\" generate serve -n 100000 >\"$1\" && "
	    "\"$0\" view \"$1\" -o - | "
	    "(head -c \"$2\"; sleep 1.2; cat) >/dev/null";
	char *weir = test_build("bin/weir");
	char *trace = test_file("trace.csv", "", 0);
	char bytes[32];
	char *text;

	need_page();
	snprintf(bytes, sizeof(bytes), "%zu", page_bytes);
	text = command_on_terminal((const char *const[]){
	    "sh", "-c", script, weir, trace, bytes, NULL });

	EXPECT_STR_HAS(text, "\r\033[Kwriting the page: ");
	EXPECT_STR_HAS(text, " s left");
	EXPECT_STR_EQ(text + strlen(text) - strlen("\r\033[K"), "\r\033[K");
	free(text);
	free(trace);
	free(weir);
}
