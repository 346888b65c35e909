/*
 * The thread that answers watchers: its answers, and the peers that it refuses.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "tests/support/command.h"
#include "tests/support/device.h"
#include "trace/meeting.h"
#include "trace/watch.h"

/* How long an answer may take: longer than the test. */
enum { TIMEOUT_MS = 3600 * 1000, WATCHERS = 32 };

static const struct watch_request ask_stats = { WATCH_MAGIC, WATCH_VERSION,
	WATCH_STATS, 0 };
static const struct watch_request ask_snapshot = { WATCH_MAGIC, WATCH_VERSION,
	WATCH_SNAPSHOT, 1 };

/* This process is watched, in a folder of the test's own, and holds 1 MiB. */
static void *
be_watched(void)
{
	char *file = test_file("x", "", 0);
	void *ptr;

	*strrchr(file, '/') = '\0';
	setenv("XDG_RUNTIME_DIR", file, 1);
	setenv("WEIR_CONF", "watch:True,history:none", 1);
	free(file);
	ptr = take(MIB, NULL);
	return ptr;
}

static int
come_to(pid_t pid)
{
	int folder;
	int fd;

	EXPECT_EQ(meeting_folder(0, false, &folder), WEIR_OK);
	EXPECT_OK(meeting_connect(folder, pid, TIMEOUT_MS, &fd));
	close(folder);
	return fd;
}

static int
come(void)
{
	return come_to(getpid());
}

static void
say(int fd, const void *bytes, size_t n)
{
	EXPECT_EQ(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* The next reply; NULL: the connection has ended. */
static const struct watch_reply *
hear(int fd)
{
	static struct watch_reply reply;
	ssize_t n = recv(fd, &reply, sizeof(reply), 0);

	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return NULL;
	EXPECT_GT(n, 0);
	EXPECT_NULL(
	    watch_reply_fault(&reply, (size_t)n, (enum watch_kind)reply.kind));
	return &reply;
}

static const struct watch_reply *
stats_from(int fd)
{
	const struct watch_reply *reply;

	say(fd, &ask_stats, sizeof(ask_stats));
	reply = hear(fd);
	EXPECT_NOT_NULL(reply);
	EXPECT_EQ(reply->failed, 0);
	return reply;
}

static void
send_file(int fd, const struct watch_request *request, const int *files, int n)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(4 * sizeof(int))];
	} control = { 0 };
	struct iovec part = { (void *)request, sizeof(*request) };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int)) };

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
	memcpy(CMSG_DATA(&control.header), files, (size_t)n * sizeof(int));
	EXPECT_EQ(
	    sendmsg(fd, &message, MSG_NOSIGNAL), (ssize_t)sizeof(*request));
}

static int
open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST(a_watcher_gets_the_present_state)
{
	void *kept = be_watched();
	const struct watch_reply *reply = stats_from(come());

	EXPECT_EQ(reply->pid, (uint32_t)getpid());
	EXPECT_STR_EQ(reply->weir, weir_version());
	EXPECT_EQ(reply->device_count, 1);
	EXPECT_EQ(reply->devices[0].memory.live_bytes, MIB);
	give(kept);
}

TEST(several_watch_at_once_and_one_more_takes_the_place_of_the_most_silent)
{
	int fds[WATCHERS];

	be_watched();
	for (int i = 0; i < WATCHERS; i++) {
		fds[i] = come();
		stats_from(fds[i]);
	}
	os_time_skip(1000000000);
	for (int i = 0; i < WATCHERS; i++)
		if (i != 5)
			stats_from(fds[i]);
	stats_from(come());
	EXPECT_NULL(hear(fds[5]));
	for (int i = 0; i < WATCHERS; i++)
		if (i != 5)
			stats_from(fds[i]);
}

TEST(a_thousand_silent_connections_cost_few_descriptors_and_keep_nobody_out)
{
	enum { MANY = 1000 };
	int regular;
	int before;
	pid_t wild;

	be_watched();
	regular = come();
	stats_from(regular);
	before = open_files();
	fflush(NULL);
	wild = fork();
	if (wild == 0) {
		for (int i = 0; i < MANY; i++)
			come_to(getppid());
		pause();
		_exit(0);
	}
	for (int i = 0; i < 20; i++) {
		int fd = come();

		stats_from(fd);
		stats_from(regular);
		EXPECT_LE(open_files(), before + WATCHERS + 1);
		close(fd);
	}
	EXPECT_EQ(kill(wild, SIGKILL), 0);
	EXPECT_EQ(waitpid(wild, NULL, 0), wild);
	stats_from(regular);
	expect_healthy();
}

TEST(watchers_that_flood_lose_their_places_first)
{
	int fds[WATCHERS];

	be_watched();
	for (int i = 0; i < WATCHERS; i++) {
		fds[i] = come();
		stats_from(fds[i]);
	}
	for (int i = 0; i < 100; i++)
		stats_from(fds[7]);
	stats_from(come());
	EXPECT_NULL(hear(fds[7]));
	for (int i = 0; i < WATCHERS; i++)
		if (i != 7)
			stats_from(fds[i]);
}

/* Accepting fails then, again and again. */
TEST(a_program_without_descriptors_is_not_kept_busy)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct rlimit limit;
	struct timespec used;
	double before;
	int waiting;
	int folder;
	int last;

	if (test_is_watched())
		SKIP("valgrind accepts by itself, and closes what has a number "
		     "above the limit");
	be_watched();
	stats_from(come());
	EXPECT_EQ(meeting_folder(0, false, &folder), WEIR_OK);
	snprintf(address.sun_path, sizeof(address.sun_path),
	    "/proc/self/fd/%d/%ld.sock", folder, (long)getpid());
	waiting = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* The system gives the lowest number that is free. */
	last = dup(STDERR_FILENO);
	EXPECT_GT(last, 0);
	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)last + 1;
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	EXPECT_EQ(dup(STDERR_FILENO), -1);
	EXPECT_EQ(
	    connect(waiting, (struct sockaddr *)&address, sizeof(address)), 0);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	before = (double)used.tv_sec + (double)used.tv_nsec / 1e9;
	usleep(1000 * 1000);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	EXPECT_LT(
	    (double)used.tv_sec + (double)used.tv_nsec / 1e9 - before, 0.3);
	close(last);
	stats_from(waiting);
}

/* The agent, which is in this process, takes its peers for another user's, and
 * replies that to each. */
TEST(a_watcher_of_another_user_is_refused)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct watch_reply *reply;
	int folder;
	int fd;

	be_watched();
	EXPECT_EQ(meeting_folder(0, false, &folder), WEIR_OK);
	snprintf(address.sun_path, sizeof(address.sun_path),
	    "/proc/self/fd/%d/%ld.sock", folder, (long)getpid());
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	meeting_pretend((long)geteuid() + 1);
	EXPECT_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	reply = hear(fd);
	EXPECT_NOT_NULL(reply);
	EXPECT_EQ(reply->failed, 1);
	EXPECT_STR_EQ(reply->text, "this process is another user's");
	EXPECT_NULL(hear(fd));
	meeting_pretend(-1);
	stats_from(come());
}

TEST(bad_requests_end_a_connection_and_harm_no_other)
{
	struct watch_request wrong = ask_stats;
	const struct watch_reply *reply;
	char long_one[4096] = { 0 };
	int good;
	int fd;

	be_watched();
	good = come();
	fd = come();
	wrong.version = 99;
	say(fd, &wrong, sizeof(wrong));
	reply = hear(fd);
	EXPECT_NOT_NULL(reply);
	EXPECT_EQ(reply->failed, 1);
	EXPECT_STR_EQ(reply->text, "it comes from another version of weir");
	EXPECT_NULL(hear(fd));
	close(fd);
	fd = come();
	say(fd, long_one, sizeof(long_one));
	reply = hear(fd);
	EXPECT_STR_EQ(reply->text, "it is not of weir");
	EXPECT_NULL(hear(fd));
	close(fd);
	stats_from(good);
}

/* A small generator: the same bytes at every run. */
static unsigned
next_of(unsigned *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

TEST(random_bytes_random_files_and_sudden_ends_are_survived)
{
	uint64_t rounds = test_effort(300);
	unsigned seed = 1;
	int before;

	be_watched();
	stats_from(come());
	before = open_files();
	for (uint64_t i = 0; i < rounds; i++) {
		union {
			struct watch_request request;
			unsigned char bytes[64];
		} message;
		size_t n = next_of(&seed) % sizeof(message) + 1;
		int fd = come();

		for (size_t k = 0; k < sizeof(message); k++)
			message.bytes[k] = (unsigned char)next_of(&seed);
		if (i % 2 == 0) {
			message.request = ask_stats;
			message.request.kind = next_of(&seed) % 4;
			n = sizeof(message.request);
		}
		if (i % 3 == 0) {
			int files[4] = { fd, STDERR_FILENO, fd, fd };
			send_file(fd, &message.request, files,
			    (int)(next_of(&seed) % 4 + 1));
		} else {
			say(fd, message.bytes, n);
		}
		if (i % 5 != 0)
			hear(fd);
		close(fd);
	}
	/* The file that was sent along is closed before the reply is sent. */
	int last = come();
	stats_from(last);
	close(last);
	last = come();
	stats_from(last);
	EXPECT_LE(open_files(), before + 3);
	expect_healthy();
}

TEST(a_watcher_that_does_not_read_is_let_go)
{
	int slow;
	int sent = 0;

	be_watched();
	slow = come();
	/* This client never reads its side of the socket. */
	while (send(slow, &ask_stats, sizeof(ask_stats), MSG_NOSIGNAL) ==
	    sizeof(ask_stats))
		EXPECT_LT(sent++, 1000000);
	EXPECT(errno == EPIPE || errno == ECONNRESET);
	stats_from(come());
}

TEST(a_watcher_that_is_silent_for_long_makes_room)
{
	int silent;
	int other;

	be_watched();
	silent = come();
	stats_from(silent);
	other = come();
	stats_from(other);
	os_time_skip(UINT64_C(121) * 1000000000);
	/* Each new client makes the thread check all of them. */
	stats_from(other);
	EXPECT_NULL(hear(silent));
	stats_from(other);
}

TEST(a_snapshot_is_written_to_the_file_that_comes_along)
{
	char *path = test_file("out.json", "", 0);
	int file = open(path, O_WRONLY | O_CLOEXEC);
	const struct watch_reply *reply;
	char begin[16] = "";
	int fd;

	be_watched();
	fd = come();
	send_file(fd, &ask_snapshot, &file, 1);
	reply = hear(fd);
	EXPECT_NOT_NULL(reply);
	EXPECT_STR_EQ(reply->text, "");
	EXPECT_EQ(reply->failed, 0);
	close(file);
	file = open(path, O_RDONLY | O_CLOEXEC);
	EXPECT_EQ(read(file, begin, 12), 12);
	EXPECT_STR_EQ(begin, "{\"segments\":");
	stats_from(fd);
	free(path);
}

/* The text of the refusal of a snapshot onto this file. */
static const char *
refused(int file)
{
	static char text[WATCH_TEXT];
	const struct watch_reply *reply;
	int fd = come();

	if (file >= 0)
		send_file(fd, &ask_snapshot, &file, 1);
	else
		say(fd, &ask_snapshot, sizeof(ask_snapshot));
	reply = hear(fd);
	EXPECT_NOT_NULL(reply);
	EXPECT_EQ(reply->failed, 1);
	strcpy(text, reply->text);
	close(fd);
	return text;
}

TEST(a_snapshot_without_a_plain_file_to_write_is_refused)
{
	char *path = test_file("there", "x", 1);
	int ends[2];

	be_watched();
	EXPECT_EQ(pipe(ends), 0);
	EXPECT_STR_EQ(refused(-1), "no file to write came along");
	EXPECT_STR_EQ(refused(ends[1]), "no file to write came along");
	EXPECT_STR_EQ(refused(open(path, O_RDONLY | O_CLOEXEC)),
	    "no file to write came along");
	EXPECT_STR_EQ(refused(open("/dev/full", O_WRONLY | O_CLOEXEC)),
	    "no file to write came along");
	free(path);
}

TEST(a_child_is_not_watched_and_keeps_nobody_waiting)
{
	int ends[2];
	int fd;
	pid_t child;
	char byte;

	be_watched();
	fd = come();
	stats_from(fd);
	EXPECT_EQ(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		/* It has none of the sockets, and goes on until it gets a
		 * signal. */
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
	}
	stats_from(fd);
	close(ends[0]);
	close(ends[1]);
	EXPECT_EQ(waitpid(child, NULL, 0), child);
}

TEST(a_process_that_is_killed_leaves_a_socket_that_is_known_as_stale)
{
	char *file = test_file("x", "", 0);
	pid_t child;
	int folder;
	int fd;

	*strrchr(file, '/') = '\0';
	setenv("XDG_RUNTIME_DIR", file, 1);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		be_watched();
		_exit(0);
	}
	EXPECT_EQ(waitpid(child, NULL, 0), child);
	EXPECT_EQ(meeting_folder(0, false, &folder), WEIR_OK);
	EXPECT_STATUS(
	    meeting_connect(folder, child, TIMEOUT_MS, &fd), WEIR_ENOTREADY);
	free(file);
}

TEST(threads_allocate_while_somebody_watches)
{
	int fd;

	be_watched();
	fd = come();
	for (int i = 0; i < 50; i++) {
		void *ptr = take(64 * KIB, NULL);

		stats_from(fd);
		give(ptr);
	}
	expect_healthy();
}
