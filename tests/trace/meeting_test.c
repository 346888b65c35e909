/*
 * The sockets where watchers and processes meet: which folders are used, which
 * are refused, and which users are kept out.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "tests/support/command.h"
#include "tests/support/test.h"
#include "trace/meeting.h"

enum { TIMEOUT_MS = 10000 };

/* The environment names a new folder. */
static const char *
own_runtime(void)
{
	static char path[4096];
	char *file = test_file("x", "", 0);

	snprintf(path, sizeof(path), "%s", file);
	*strrchr(path, '/') = '\0';
	setenv("XDG_RUNTIME_DIR", path, 1);
	free(file);
	return path;
}

static const char *
inside(const char *folder, const char *name)
{
	static char path[4200];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int
place(void)
{
	int fd;

	EXPECT_EQ(meeting_place(&fd), WEIR_OK);
	return fd;
}

static mode_t
mode_of(const char *path)
{
	struct stat about;

	EXPECT_EQ(lstat(path, &about), 0);
	return about.st_mode;
}

TEST(the_folder_is_made_for_the_user_alone)
{
	const char *runtime = own_runtime();
	int fd;

	umask(0);
	EXPECT_EQ(meeting_folder(0, false, &fd), WEIR_ENOTSUP);
	EXPECT_EQ(meeting_folder(0, true, &fd), WEIR_OK);
	EXPECT_EQ(mode_of(inside(runtime, "weir")) & 07777, 0700);
	EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
	close(fd);
	EXPECT_EQ(meeting_folder(0, false, &fd), WEIR_OK);
	close(fd);
}

TEST(a_folder_that_others_may_use_is_refused)
{
	const char *path = inside(own_runtime(), "weir");
	int fd;

	EXPECT_EQ(mkdir(path, 0700), 0);
	EXPECT_EQ(chmod(path, 0750), 0);
	EXPECT_EQ(meeting_folder(0, true, &fd), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), path);
	EXPECT_STR_HAS(weir_last_error(), "others may use it (mode 750)");
	EXPECT_EQ(mode_of(path) & 07777, 0750);
}

TEST(a_link_in_the_place_of_the_folder_is_not_followed)
{
	const char *path = inside(own_runtime(), "weir");
	int fd;

	EXPECT_EQ(symlink("/tmp", path), 0);
	EXPECT_EQ(meeting_folder(0, true, &fd), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "is no folder to be used");
	EXPECT(S_ISLNK(mode_of(path)));
}

TEST(a_folder_of_another_user_is_refused)
{
	int fd;

	own_runtime();
	close(place());
	meeting_pretend((long)geteuid() + 1);
	EXPECT_EQ(meeting_folder(0, true, &fd), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "belongs to user");
}

TEST(a_runtime_folder_that_is_not_absolute_counts_as_none)
{
	int fd;

	setenv("XDG_RUNTIME_DIR", "here", 1);
	EXPECT_EQ(meeting_folder(0, true, &fd), WEIR_ENOTSUP);
	unsetenv("XDG_RUNTIME_DIR");
	EXPECT_EQ(meeting_folder(0, true, &fd), WEIR_ENOTSUP);
	EXPECT_EQ(meeting_folder(MEETING_FOLDERS, true, &fd), WEIR_ENOTSUP);
}

TEST(without_a_runtime_folder_there_is_one_of_the_user_in_tmp)
{
	char path[64];
	struct stat there;
	struct stat used;
	int fd;

	unsetenv("XDG_RUNTIME_DIR");
	snprintf(path, sizeof(path), "/tmp/weir-%lu", (unsigned long)geteuid());
	fd = place();
	EXPECT_EQ(lstat(path, &there), 0);
	EXPECT_EQ(fstat(fd, &used), 0);
	EXPECT_EQ(there.st_ino, used.st_ino);
	EXPECT_EQ(there.st_mode & 077, 0);
	close(fd);
}

TEST(the_two_meet_and_know_each_others_user)
{
	int folder;
	int server;
	int client;
	int accepted;

	own_runtime();
	folder = place();
	EXPECT_EQ(meeting_listen(folder, 4711, &server), WEIR_OK);
	EXPECT_EQ(meeting_connect(folder, 4711, TIMEOUT_MS, &client), WEIR_OK);
	accepted = accept(server, NULL, NULL);
	EXPECT_GE(accepted, 0);
	EXPECT(meeting_peer_is_own(accepted));
	EXPECT(meeting_peer_is_own(client));
	meeting_pretend((long)geteuid() + 1);
	EXPECT(!meeting_peer_is_own(accepted));
	EXPECT(!meeting_peer_is_own(client));
}

TEST(the_process_of_another_user_is_not_spoken_with)
{
	int folder;
	int server;
	int client;

	own_runtime();
	folder = place();
	EXPECT_EQ(meeting_listen(folder, 4711, &server), WEIR_OK);
	meeting_pretend((long)geteuid() + 1);
	EXPECT_EQ(
	    meeting_connect(folder, 4711, TIMEOUT_MS, &client), WEIR_EINVAL);
	EXPECT_STR_EQ(weir_last_error(), "process 4711 is not this user's");
}

TEST(a_missing_server_and_one_that_has_left_are_distinguished)
{
	int folder;
	int server;
	int client;

	own_runtime();
	folder = place();
	EXPECT_EQ(
	    meeting_connect(folder, 4711, TIMEOUT_MS, &client), WEIR_ENOTSUP);
	EXPECT_EQ(meeting_listen(folder, 4711, &server), WEIR_OK);
	close(server);
	EXPECT_EQ(
	    meeting_connect(folder, 4711, TIMEOUT_MS, &client), WEIR_ENOTREADY);
	EXPECT_STR_EQ(
	    weir_last_error(), "process 4711 was watched, and is gone");
}

TEST(the_socket_of_an_earlier_process_of_the_same_number_is_replaced)
{
	int folder;
	int server;
	int client;

	own_runtime();
	folder = place();
	EXPECT_EQ(meeting_listen(folder, 4711, &server), WEIR_OK);
	close(server);
	EXPECT_EQ(meeting_listen(folder, 4711, &server), WEIR_OK);
	EXPECT_EQ(meeting_connect(folder, 4711, TIMEOUT_MS, &client), WEIR_OK);
}

TEST(a_process_that_is_served_is_not_replaced)
{
	int folder;
	int server;
	int second;
	int client;

	own_runtime();
	folder = place();
	EXPECT_EQ(meeting_listen(folder, 4711, &server), WEIR_OK);
	EXPECT_EQ(meeting_listen(folder, 4711, &second), WEIR_EINVAL);
	EXPECT_STR_EQ(
	    weir_last_error(), "another process 4711 is being watched");
	EXPECT_EQ(meeting_connect(folder, 4711, TIMEOUT_MS, &client), WEIR_OK);
}

TEST(without_descriptors_no_other_process_is_blamed)
{
	enum { DESCRIPTORS = 256 };
	struct rlimit before;
	int fd;

	own_runtime();
	int folder = place();

	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
	struct rlimit limit = { DESCRIPTORS, before.rlim_max };
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (dup(folder) >= 0)
		;
	EXPECT_EQ(errno, EMFILE);
	EXPECT_EQ(meeting_listen(folder, getpid(), &fd), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "a socket: cannot be made");
	EXPECT_STR_HAS(weir_last_error(), "Too many open files");
	/* The sanitizer that looks for leaks opens files. */
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(leaving_takes_the_socket_away)
{
	int folder;
	int server;
	int client;

	own_runtime();
	folder = place();
	EXPECT_EQ(meeting_listen(folder, 4711, &server), WEIR_OK);
	meeting_leave(folder, 4711);
	EXPECT_EQ(
	    meeting_connect(folder, 4711, TIMEOUT_MS, &client), WEIR_ENOTSUP);
}

TEST(a_folder_with_a_long_path_serves_too)
{
	const char *runtime = own_runtime();
	char path[512];
	int folder;
	int server;
	int client;

	snprintf(path, sizeof(path), "%s/%0150d", runtime, 7);
	EXPECT_EQ(mkdir(path, 0700), 0);
	setenv("XDG_RUNTIME_DIR", path, 1);
	EXPECT_EQ(meeting_folder(0, true, &folder), WEIR_OK);
	EXPECT_EQ(meeting_listen(folder, 4711, &server), WEIR_OK);
	EXPECT_EQ(meeting_connect(folder, 4711, TIMEOUT_MS, &client), WEIR_OK);
}

TEST(a_wait_for_a_silent_server_ends)
{
	int folder;
	int server;
	int client;
	char byte;

	own_runtime();
	folder = place();
	EXPECT_EQ(meeting_listen(folder, 4711, &server), WEIR_OK);
	EXPECT_EQ(meeting_connect(folder, 4711, 20, &client), WEIR_OK);
	EXPECT_LT(recv(client, &byte, 1, 0), 0);
	EXPECT(errno == EAGAIN || errno == EWOULDBLOCK);
}

TEST(names_of_sockets_are_processes)
{
	EXPECT_EQ(meeting_process("4711.sock"), 4711);
	EXPECT_EQ(meeting_process("4711.socks"), 0);
	EXPECT_EQ(meeting_process("04711.sock"), 0);
	EXPECT_EQ(meeting_process("+1.sock"), 0);
	EXPECT_EQ(meeting_process("-1.sock"), 0);
	EXPECT_EQ(meeting_process("0.sock"), 0);
	EXPECT_EQ(meeting_process("99999999999999999999.sock"), 0);
	EXPECT_EQ(meeting_process(".."), 0);
	EXPECT_EQ(meeting_process(""), 0);
}

static void
ignore_alarm(int number)
{
	(void)number;
}

/* Signals that the watching program handles do not end a connection early, and
 * do not make it wait for ever. */
TEST(signals_do_not_end_a_connection_that_waits)
{
	const struct sigaction action = { .sa_handler = ignore_alarm };
	const struct itimerval often = { { 0, 2000 }, { 0, 2000 } };
	enum { MANY = 64 };
	int folder;
	int listener;
	int fd;
	enum weir_status status = WEIR_OK;

	own_runtime();
	folder = place();
	EXPECT_EQ(meeting_listen(folder, getpid(), &listener), WEIR_OK);
	EXPECT_EQ(sigaction(SIGALRM, &action, NULL), 0);
	EXPECT_EQ(setitimer(ITIMER_REAL, &often, NULL), 0);
	/* No process accepts the connections, so at some time the queue is
	 * full. */
	for (int i = 0; i < MANY && status == WEIR_OK; i++)
		status = meeting_connect(folder, getpid(), 100, &fd);
	EXPECT_EQ(status, WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "does not answer");
	meeting_leave(folder, getpid());
}
