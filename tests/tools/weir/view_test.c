/*
 * weir view: where the page goes, what it is made of, and what is refused. How
 * it looks and behaves is tested in a browser, by tests/viewer.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/packed.h"
#include "tools/weir/page.h"

static void
need_page(void)
{
	if (page_bytes == 0)
		SKIP("this build is without the page (VIEWER=0, or no node)");
}

static struct command_result
view(const char *name, const char *output, const char *flag)
{
	char *path = test_data(name);
	struct command_result result =
	    command_weir("view", path, "-o", output, flag, NULL);

	free(path);
	return result;
}

/* A path of the test's own where nothing is. */
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
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "it is a symbolic link");
	EXPECT_EQ(stat(target, &info), 0);
	EXPECT_EQ(info.st_size, 4);
	EXPECT_EQ(unlink(path), 0);
	command_free(&result);
	free(path);
	free(target);
}

TEST(what_is_no_snapshot_leaves_no_page)
{
	char *path = free_path("page.html");
	char *input = test_file("input", "<html>", 6);
	struct command_result result;

	need_page();
	result = command_weir("view", input, "-o", path, NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "not a memory snapshot");
	EXPECT(!exists(path));
	command_free(&result);
	result = command_weir("view", "/nowhere", "-o", path, NULL);
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "/nowhere");
	EXPECT(!exists(path));
	command_free(&result);
	free(input);
	free(path);
}

TEST(a_full_device_is_told)
{
	struct command_result result;

	need_page();
	result = view("snapshots/train4.pickle", "/dev/full", NULL);
	EXPECT_EQ(result.status, 1);
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

TEST(a_build_without_the_page_says_so)
{
	struct command_result result =
	    view("snapshots/train4.pickle", "-", NULL);

	EXPECT_EQ(result.status, page_bytes == 0);
	EXPECT_EQ(strstr(result.err, "built without the page") != NULL,
	    page_bytes == 0);
	EXPECT_EQ(result.out[0] == '\0', page_bytes == 0);
	command_free(&result);
}
