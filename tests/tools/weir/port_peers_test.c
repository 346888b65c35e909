/*
 * The metrics' port beside clients that are slow, silent or talkative, and
 * beside a watched process that does not answer: a good client gets its answer
 * all the same, soon.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/stepped.h"

enum { MANY = 1000 };

/* Without other clients an answer takes a millisecond; under valgrind, beside
 * other tests, it takes seconds. */
static uint64_t
soon_ms(void)
{
	double scaled = test_seconds(800);

	return scaled > 4000 ? (uint64_t)scaled : 4000;
}

static const char request[] =
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct server {
	pid_t pid;
	FILE *out;
	uint16_t port;
};

static long long
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static struct server
serve(void)
{
	struct server server;
	char *weir = test_build("bin/weir");
	unsigned port = 0;
	int out[2];

	EXPECT_EQ(pipe(out), 0);
	fflush(NULL);
	server.pid = fork();
	if (server.pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		execl(weir, "weir", "watch", "--openmetrics=0", (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	free(weir);
	server.out = fdopen(out[0], "r");
	EXPECT_EQ(fscanf(server.out, "http://127.0.0.1:%u/metrics", &port), 1);
	server.port = (uint16_t)port;
	return server;
}

static void
stop(struct server *server)
{
	EXPECT_EQ(kill(server->pid, SIGTERM), 0);
	EXPECT_EQ(waitpid(server->pid, NULL, 0), server->pid);
	fclose(server->out);
}

static int
joined_to(const struct server *server, int receive_bytes)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons(server->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	EXPECT(fd >= 0);
	if (receive_bytes > 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes,
		    sizeof(receive_bytes));
	EXPECT_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* All that the server sends, until it ends the connection. */
static const char *
answer_of(int fd)
{
	static char answer[1 << 18];
	size_t used = 0;
	ssize_t n;

	while ((n = recv(fd, answer + used, sizeof(answer) - 1 - used, 0)) > 0)
		used += (size_t)n;
	answer[used] = '\0';
	return answer;
}

/* A client that does as it should is answered within soon_ms(). */
static const char *
expect_served(const struct server *server)
{
	long long began_ms = now_ms();
	int fd = joined_to(server, 0);
	const char *answer;

	EXPECT_EQ(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL),
	    (ssize_t)sizeof(request) - 1);
	answer = answer_of(fd);
	close(fd);
	EXPECT_STR_HAS(answer, "HTTP/1.1 200 OK");
	EXPECT_STR_HAS(answer, "# EOF\n");
	EXPECT_LT(now_ms() - began_ms, soon_ms());
	return answer;
}

static size_t
descriptors_of(pid_t pid)
{
	char path[64];
	size_t count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%ld/fd", (long)pid);
	folder = opendir(path);
	EXPECT_NOT_NULL(folder);
	while (readdir(folder) != NULL)
		count++;
	closedir(folder);
	return count;
}

static size_t
resident_kib(pid_t pid)
{
	char path[64];
	size_t pages = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/statm", (long)pid);
	file = fopen(path, "r");
	EXPECT_NOT_NULL(file);
	EXPECT_EQ(fscanf(file, "%*u %zu", &pages), 1);
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* Allow this process many descriptors. Returns the number of clients to be. */
static int
clients_possible(void)
{
	struct rlimit limit;

	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur > MANY + 100 ? MANY : (int)limit.rlim_cur / 2;
}

/* ---- Slow ------------------------------------------------------------- */

static atomic_bool drips = true;

/* Send a byte twice a second, which is more often than any limit for one
 * byte. */
static void *
drip(void *user)
{
	const struct timespec half = { .tv_nsec = 500000000 };
	int fd = *(int *)user;

	while (atomic_load(&drips) && send(fd, "E", 1, MSG_NOSIGNAL) == 1)
		nanosleep(&half, NULL);
	return NULL;
}

TEST(a_client_that_sends_byte_by_byte_delays_nobody_and_is_ended)
{
	struct server server;
	pthread_t thread;
	long long began_ms;
	int slow;

	runtime_folder();
	server = serve();
	slow = joined_to(&server, 0);
	began_ms = now_ms();
	EXPECT_EQ(pthread_create(&thread, NULL, drip, &slow), 0);
	for (int i = 0; i < 5; i++)
		expect_served(&server);
	EXPECT_STR_HAS(answer_of(slow), "408 Request Timeout");
	EXPECT_LT(now_ms() - began_ms, 5000 + soon_ms());
	atomic_store(&drips, false);
	pthread_join(thread, NULL);
	close(slow);
	stop(&server);
}

/* ---- Silent ----------------------------------------------------------- */

TEST(a_thousand_silent_clients_take_few_descriptors_and_delay_nobody)
{
	static int fds[MANY];
	struct server server;
	int n = clients_possible();

	runtime_folder();
	server = serve();
	for (int i = 0; i < n; i++)
		fds[i] = joined_to(&server, 0);
	for (int i = 0; i < 3; i++)
		expect_served(&server);
	EXPECT_LT(descriptors_of(server.pid), 200);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	expect_served(&server);
	stop(&server);
}

TEST(clients_that_never_read_cost_little_memory_and_delay_nobody)
{
	static int fds[MANY];
	struct server server;
	struct program program = program_start_watched();
	int n = clients_possible() / 2;

	server = serve();
	for (int i = 0; i < n; i++) {
		fds[i] = joined_to(&server, 1);
		/* They may be ended by now, so that nothing is expected. */
		for (int j = 0; j < 4; j++)
			if (send(fds[i], request, sizeof(request) - 1,
				MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
				break;
	}
	for (int i = 0; i < 3; i++)
		expect_served(&server);
	EXPECT_LT(resident_kib(server.pid), 200 << 10);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	stop(&server);
	EXPECT_EQ(program_finish(&program), 0);
}

/* ---- Talkative -------------------------------------------------------- */

static struct server flooded;

/* Send headers without end, by one connection after the other. */
static void *
flood(void *unused)
{
	char bytes[16 << 10];

	(void)unused;
	memset(bytes, 'x', sizeof(bytes));
	while (atomic_load(&drips)) {
		int fd = joined_to(&flooded, 0);

		for (int i = 0; i < 64; i++)
			if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) < 0)
				break;
		close(fd);
	}
	return NULL;
}

/* Make complete requests without a pause, and read nothing. */
static void *
flood_requests(void *unused)
{
	(void)unused;
	while (atomic_load(&drips)) {
		int fd = joined_to(&flooded, 0);

		if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0)
			test_nap();
		close(fd);
	}
	return NULL;
}

TEST(clients_that_flood_delay_nobody)
{
	pthread_t threads[4];
	struct program program = program_start_watched();

	flooded = serve();
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL,
			      i % 2 == 0 ? flood : flood_requests, NULL),
		    0);
	for (int i = 0; i < 10; i++)
		expect_served(&flooded);
	atomic_store(&drips, false);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	EXPECT_LT(resident_kib(flooded.pid), 200 << 10);
	stop(&flooded);
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(a_header_that_is_too_long_is_refused_in_words)
{
	static char bytes[9000];
	struct server server;
	int fd;

	runtime_folder();
	server = serve();
	fd = joined_to(&server, 0);
	memset(bytes, 'x', sizeof(bytes));
	EXPECT_EQ(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL),
	    (ssize_t)sizeof(bytes));
	EXPECT_STR_HAS(answer_of(fd), "431 Request Header Fields Too Large");
	close(fd);
	stop(&server);
}

TEST(a_client_that_stops_sending_half_way_is_answered_at_once)
{
	struct server server;
	long long began_ms;
	int fd;

	runtime_folder();
	server = serve();
	fd = joined_to(&server, 0);
	began_ms = now_ms();
	EXPECT_EQ(send(fd, "GET /metr", 9, MSG_NOSIGNAL), 9);
	EXPECT_EQ(shutdown(fd, SHUT_WR), 0);
	EXPECT_STR_HAS(answer_of(fd), "400 Bad Request");
	EXPECT_LT(now_ms() - began_ms, soon_ms());
	close(fd);
	stop(&server);
}

/* ---- A process that does not answer ------------------------------------ */

/* The queue of the stopped process fills up, too. */
TEST(a_stopped_process_is_left_out_and_delays_nobody)
{
	struct program stopped = program_start_watched();
	struct program other;
	struct server server;
	char label[64];
	char lost[64];

	snprintf(lost, sizeof(lost), "pid=\"%ld\"", (long)stopped.pid);
	other = program_start("--watch");
	program_step(&other, 'a', 0);
	snprintf(label, sizeof(label), "pid=\"%ld\"", (long)other.pid);
	server = serve();
	EXPECT_STR_HAS(expect_served(&server), lost);
	EXPECT_EQ(kill(stopped.pid, SIGSTOP), 0);
	for (int i = 0; i < 10; i++) {
		const char *answer = expect_served(&server);

		EXPECT_STR_HAS(answer, label);
		EXPECT_NULL(strstr(answer, lost));
	}
	EXPECT_EQ(kill(stopped.pid, SIGCONT), 0);
	EXPECT_SOON(strstr(expect_served(&server), lost) != NULL);
	stop(&server);
	EXPECT_EQ(program_finish(&stopped), 0);
	EXPECT_EQ(program_finish(&other), 0);
}
