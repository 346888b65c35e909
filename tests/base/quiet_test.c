/*
 * Writing that sends the program no signal, and that goes into no file of the
 * program.
 */
#include "base/quiet.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

static int
broken_pipe(void)
{
	int ends[2];

	EXPECT_EQ(pipe(ends), 0);
	close(ends[0]);
	signal(SIGPIPE, SIG_DFL);
	return ends[1];
}

static bool
is_pending(int number)
{
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, number) == 1;
}

TEST(a_broken_pipe_is_an_error_and_no_signal)
{
	EXPECT_EQ(quiet_write(broken_pipe(), "abc", 3), EPIPE);
	EXPECT(!is_pending(SIGPIPE));
}

TEST(a_broken_socket_is_an_error_and_no_signal)
{
	int ends[2];

	signal(SIGPIPE, SIG_DFL);
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	close(ends[0]);
	EXPECT_EQ(quiet_write(ends[1], "abc", 3), EPIPE);
}

TEST(a_file_at_its_limit_is_an_error_and_no_signal)
{
	const struct rlimit small = { 8, RLIM_INFINITY };
	struct rlimit before;
	char *path = test_file("small", "", 0);
	int fd = open(path, O_WRONLY);

	signal(SIGXFSZ, SIG_DFL);
	EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
	EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	EXPECT_EQ(quiet_write(fd, "0123456789", 10), EFBIG);
	EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
	EXPECT(!is_pending(SIGXFSZ));
	EXPECT_EQ(lseek(fd, 0, SEEK_END), 8);
	close(fd);
	free(path);
}

TEST(a_signal_that_the_program_has_pending_stays_so)
{
	sigset_t own;

	sigemptyset(&own);
	sigaddset(&own, SIGPIPE);
	sigprocmask(SIG_BLOCK, &own, NULL);
	raise(SIGPIPE);
	EXPECT_EQ(quiet_write(broken_pipe(), "abc", 3), EPIPE);
	EXPECT(is_pending(SIGPIPE));
}

TEST(the_mask_and_errno_stay_as_they_are)
{
	struct quiet quiet;
	sigset_t before;
	sigset_t after;

	sigprocmask(SIG_BLOCK, NULL, &before);
	errno = 77;
	quiet_begin(&quiet);
	quiet_end(&quiet);
	EXPECT_EQ(errno, 77);
	sigprocmask(SIG_BLOCK, NULL, &after);
	for (int i = 1; i < NSIG; i++)
		EXPECT_EQ(sigismember(&before, i), sigismember(&after, i));
}

TEST(a_full_pipe_is_given_up)
{
	static char much[1 << 20];
	int ends[2];

	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(quiet_write(ends[1], much, sizeof(much)), EAGAIN);
	/* The second one does not wait. */
	EXPECT_EQ(quiet_write(ends[1], much, sizeof(much)), EAGAIN);
	EXPECT_EQ(read(ends[0], much, sizeof(much)) > 0, true);
	EXPECT_EQ(quiet_write(ends[1], much, 100), 0);
}

/* Put a file on descriptor 2, and write a message. Returns its text. */
static char *
message_in(const char *path, int flags)
{
	char *text = calloc(1, 256);
	int kept = dup(STDERR_FILENO);
	int fd;

	close(STDERR_FILENO);
	fd = open(path, O_RDWR | O_CREAT | flags, 0600);
	EXPECT_EQ(fd, STDERR_FILENO);
	quiet_stderr("message\n", 8);
	EXPECT_GE(pread(fd, text, 255, 0), 0);
	dup2(kept, STDERR_FILENO);
	close(kept);
	return text;
}

TEST(a_file_of_the_program_gets_no_message)
{
	char *path = test_file("data", "", 0);
	char *text = message_in(path, O_TRUNC);

	EXPECT_STR_EQ(text, "");
	free(text);
	text = message_in(path, O_APPEND | O_CLOEXEC);
	EXPECT_STR_EQ(text, "");
	free(text);
	free(path);
}

TEST(a_log_of_the_program_gets_messages)
{
	char *path = test_file("log", "", 0);
	char *text = message_in(path, O_APPEND);

	EXPECT_STR_EQ(text, "message\n");
	free(text);
	free(path);
}

TEST(a_capture_of_stderr_gets_messages)
{
	FILE *capture = tmpfile();
	char text[16] = "";
	int kept = dup(STDERR_FILENO);

	EXPECT_NOT_NULL(capture);
	dup2(fileno(capture), STDERR_FILENO);
	EXPECT_EQ(quiet_stderr("message\n", 8), 0);
	dup2(kept, STDERR_FILENO);
	EXPECT_EQ(pread(fileno(capture), text, 15, 0), 8);
	EXPECT_STR_EQ(text, "message\n");
	fclose(capture);
}
