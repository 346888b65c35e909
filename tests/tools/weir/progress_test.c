/*
 * The line of progress: on a terminal only, and gone at the end.
 */
#include "tools/weir/progress.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"

/* Send stderr to a terminal; the end that reads it. */
static int
stderr_to_terminal(void)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);
	int other;

	EXPECT(terminal >= 0);
	EXPECT_EQ(grantpt(terminal), 0);
	EXPECT_EQ(unlockpt(terminal), 0);
	other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
	EXPECT(other >= 0);
	EXPECT_EQ(dup2(other, STDERR_FILENO), STDERR_FILENO);
	close(other);
	return terminal;
}

TEST(a_line_is_written_anew_and_removed)
{
	int terminal = stderr_to_terminal();
	struct progress progress;
	char text[256] = "";
	size_t length = 0;

	progress_begin(&progress, 0);
	EXPECT(progress_due(&progress));
	progress_show(&progress, "row %d", 1);
	progress_show(&progress, "row %d", 2);
	progress_end(&progress);
	progress_show(&progress, "row %d", 3);
	fputs("done", stderr);
	fflush(stderr);
	while (strstr(text, "done") == NULL)
		length += (size_t)read(
		    terminal, text + length, sizeof(text) - 1 - length);
	EXPECT_STR_EQ(text, "\r\033[Krow 1\r\033[Krow 2\r\033[Kdone");
}

TEST(a_part_says_how_much_is_done_and_how_long_the_rest_takes)
{
	int terminal = stderr_to_terminal();
	struct progress progress;
	char text[256] = "";
	size_t length = 0;

	progress_begin(&progress, 0);
	progress_part(&progress, "reading", 0, 8); /* not begun: no speed */
	EXPECT(!progress.shown);
	progress_part(&progress, "reading", 2, 8);
	while (strstr(text, "left") == NULL)
		length += (size_t)read(
		    terminal, text + length, sizeof(text) - 1 - length);
	EXPECT_STR_EQ(text, "\r\033[Kreading: 25 %, some 0 s left");
	progress_end(&progress);
}

TEST(no_line_comes_before_its_time)
{
	struct progress progress;

	(void)stderr_to_terminal();
	progress_begin(&progress, 1000000);
	EXPECT(!progress_due(&progress));
	progress_end(&progress);
	EXPECT(!progress.shown);
}

TEST(nothing_is_shown_where_nobody_looks)
{
	struct progress progress;
	int file = open("/dev/null", O_WRONLY);

	EXPECT(file >= 0);
	EXPECT_EQ(dup2(file, STDERR_FILENO), STDERR_FILENO);
	progress_begin(&progress, 0);
	EXPECT(!progress_due(&progress));
	progress_show(&progress, "row");
	EXPECT(!progress.shown);
	progress_end(&progress);
}
