/* Files that are written beside their place and take it at the end. */
#include "base/out.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/meta.h"
#include "tests/support/command.h"
#include "tests/support/device.h"

/* A path in a new folder, with a file there already. */
static char *
place(void)
{
	static char *volatile path; /* for leak checkers */

	path = test_file("out", "before", 6);
	return path;
}

static void
expect_content(const char *path, const char *content)
{
	char text[64] = { 0 };
	FILE *file = fopen(path, "rb");

	EXPECT_NOT_NULL(file);
	EXPECT_EQ(fread(text, 1, sizeof(text) - 1, file), strlen(content));
	EXPECT_STR_EQ(text, content);
	fclose(file);
}

/* Files in the folder of a path. */
static int
neighbours(const char *path)
{
	char folder[4096];
	int n = 0;

	snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = '\0';
	DIR *dir = opendir(folder);
	EXPECT_NOT_NULL(dir);
	for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

TEST(the_file_appears_at_the_end_and_not_before)
{
	struct out *out;
	char *path = place();

	umask(0);
	EXPECT_OK(out_open(path, &out));
	out_bytes(out, "after", 5);
	out_flush(out);
	expect_content(path, "before");
	EXPECT_OK(out_close(out));
	expect_content(path, "after");
	EXPECT_EQ(neighbours(path), 1);

	struct stat about;
	EXPECT_EQ(stat(path, &about), 0);
	EXPECT_EQ(about.st_mode & 07777, 0600);
}

TEST(an_abandoned_file_leaves_nothing)
{
	struct out *out;
	char *path = place();

	EXPECT_OK(out_open(path, &out));
	out_bytes(out, "after", 5);
	out_flush(out);
	EXPECT_EQ(neighbours(path), 2);
	out_abandon(out);
	EXPECT_EQ(neighbours(path), 1);
	expect_content(path, "before");
}

TEST(a_link_is_replaced_and_not_followed)
{
	struct out *out;
	char *path = place();
	char link_path[4096];

	snprintf(link_path, sizeof(link_path), "%s.link", path);
	EXPECT_EQ(symlink(path, link_path), 0);
	EXPECT_OK(out_open(link_path, &out));
	out_bytes(out, "after", 5);
	EXPECT_OK(out_close(out));
	expect_content(path, "before");
	expect_content(link_path, "after");

	struct stat about;
	EXPECT_EQ(lstat(link_path, &about), 0);
	EXPECT(S_ISREG(about.st_mode));
	unlink(link_path);
}

/* Root would otherwise replace /dev/null by a file. */
TEST(only_a_regular_file_is_replaced)
{
	struct out *out;
	char *path = place();
	char pipe_path[4096];
	char link_path[4096];
	struct stat about;

	snprintf(pipe_path, sizeof(pipe_path), "%s.pipe", path);
	snprintf(link_path, sizeof(link_path), "%s.link", path);
	EXPECT_EQ(mkfifo(pipe_path, 0600), 0);
	EXPECT_EQ(symlink(pipe_path, link_path), 0);
	EXPECT_STATUS(out_open(pipe_path, &out), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), pipe_path);
	EXPECT_STR_HAS(weir_last_error(), "it is no plain file");
	EXPECT_STATUS(out_open(link_path, &out), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), link_path);
	EXPECT_EQ(lstat(pipe_path, &about), 0);
	EXPECT(S_ISFIFO(about.st_mode));
	EXPECT_EQ(neighbours(path), 3);

	/* A link into /proc is refused whatever it leads to, because
	 * /dev/stdout is such a link. */
	unlink(link_path);
	EXPECT_EQ(symlink("/proc/self/exe", link_path), 0);
	EXPECT_STATUS(out_open(link_path, &out), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "it is no plain file");
	unlink(link_path);
	unlink(pipe_path);
}

TEST(a_failed_write_reports_its_reason)
{
	struct out *out;
	char *path = place();
	char folder[4096];
	char below[4200];

	snprintf(below, sizeof(below), "%s/below", path);
	EXPECT_STATUS(out_open(below, &out), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), below);
	EXPECT_STR_HAS(weir_last_error(), "Not a directory");
	EXPECT_STATUS(out_open("/nonexistent/x", &out), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "No such file");

	/* A folder has the name, which is found at the end. */
	snprintf(folder, sizeof(folder), "%s", path);
	*strrchr(folder, '/') = '\0';
	snprintf(below, sizeof(below), "%s/folder", folder);
	EXPECT_EQ(mkdir(below, 0700), 0);
	EXPECT_OK(out_open(below, &out));
	out_byte(out, 'x');
	EXPECT_STATUS(out_close(out), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "directory");
	EXPECT_EQ(neighbours(path), 2);
	rmdir(below);
}

TEST(a_full_disk_is_reported_at_the_end)
{
	struct out *out;
	char *path = place();
	int full = open("/dev/full", O_WRONLY);

	if (full < 0)
		SKIP("there is no /dev/full");
	EXPECT_OK(out_open(path, &out));
	EXPECT_EQ(dup2(full, out->fd), out->fd);
	out_bytes(out, "after", 5);
	EXPECT_STATUS(out_close(out), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "No space left");
	expect_content(path, "before");
	EXPECT_EQ(neighbours(path), 1);
}

TEST(much_is_written_in_pieces)
{
	enum { PIECE = 1000, PIECES = 2000, LARGE = 2 * OUT_BUFFER };
	struct out *out;
	char *path = place();
	unsigned char piece[PIECE];
	unsigned char *large = malloc(LARGE);
	struct stat about;

	memset(large, 0xee, LARGE);
	EXPECT_OK(out_open(path, &out));
	for (int i = 0; i < PIECES; i++) {
		memset(piece, i, PIECE);
		out_bytes(out, piece, PIECE);
	}
	out_bytes(out, large, LARGE);
	out_byte(out, 7);
	EXPECT_OK(out_close(out));
	EXPECT_EQ(stat(path, &about), 0);
	EXPECT_EQ(about.st_size, PIECE * PIECES + LARGE + 1);

	FILE *file = fopen(path, "rb");
	for (int i = 0; i < PIECES; i++) {
		EXPECT_EQ(fread(piece, 1, PIECE, file), PIECE);
		EXPECT_EQ(piece[0], (unsigned char)i);
		EXPECT_EQ(piece[PIECE - 1], (unsigned char)i);
	}
	fclose(file);
	free(large);
}

TEST(without_host_memory_there_is_no_file)
{
	struct out *out;
	char *path = place();

	meta_fail(1, 1);
	EXPECT_STATUS(out_open(path, &out), WEIR_EHOSTMEM);
	meta_fail(0, 0);
	EXPECT_EQ(neighbours(path), 1);
}
