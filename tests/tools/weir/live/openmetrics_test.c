/*
 * weir watch --openmetrics: the output is valid OpenMetrics, and only this
 * machine can read it.
 */
#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"
#include "tests/tools/weir/stepped.h"
#include "tests/tools/weir/strict_metrics.h"
#include "tools/weir/live/openmetrics.h"

static void
expect_strict(const char *text)
{
	const char *fault = strict_metrics_fault(text);

	if (fault != NULL)
		FAIL("%s in:\n%s", fault, text);
}

/* ---- The reader -------------------------------------------------------- */

TEST(the_reader_of_these_tests_is_strict)
{
	static const char *const wrong[][2] = {
		{ "", "line 1: no end" },
		{ "# EOF", "line 1: a line is cut" },
		{ "# EOF\n\n", "line 1: more after the end" },
		{ "\n# EOF\n", "line 1: an empty line" },
		{ "a 1\n# EOF\n", "line 1: a sample without a type" },
		{ "# TYPE a gauge\nb 1\n# EOF\n", "line 2: a sample of" },
		{ "# TYPE a counter\na 1\n# EOF\n", "line 2: a sample of" },
		{ "# TYPE a_total counter\na_total 1\n# EOF\n",
		    "line 1: a family's name" },
		{ "# TYPE a counter\na_total -1\n# EOF\n", "a counter below" },
		{ "# TYPE a gauge\na 1\na 1\n# EOF\n", "a series comes twice" },
		{ "# TYPE a gauge\n# TYPE b gauge\n# TYPE a gauge\n# EOF\n",
		    "line 3: a family comes twice" },
		{ "# TYPE a gauge\na 1\n# HELP a x\n# EOF\n",
		    "metadata after samples" },
		{ "# TYPE a gauge\n# UNIT a bytes\n# EOF\n",
		    "does not end in the unit" },
		{ "# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n# EOF\n", "twice" },
		{ "# TYPE a gauge\na{x=\"\\t\"} 1\n# EOF\n", "wrong escape" },
		{ "# TYPE a gauge\na{x=1} 1\n# EOF\n", "without quotes" },
		{ "# TYPE a gauge\na{x=\"1\"}\n# EOF\n", "no value" },
		{ "# TYPE a gauge\na one\n# EOF\n", "a wrong value" },
		{ "# TYPE a info\na_info 2\n# EOF\n", "not 1" },
		{ "#TYPE a gauge\n# EOF\n", "a wrong comment" },
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *fault = strict_metrics_fault(wrong[i][0]);

		EXPECT_NOT_NULL(fault);
		EXPECT_STR_HAS(fault, wrong[i][1]);
	}
	expect_strict("# TYPE a_bytes gauge\n# UNIT a_bytes bytes\n"
		      "# HELP a_bytes b c\na_bytes{d=\"e\\\"\"} 7\n# EOF\n");
}

/* ---- The writer -------------------------------------------------------- */

static char *
written(const struct metrics_process *processes, size_t count,
    enum metrics_form form)
{
	const struct metrics_sample sample = { .processes = processes,
		.process_count = count };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	EXPECT_NOT_NULL(out);
	openmetrics_write(&sample, form, out);
	EXPECT_EQ(fclose(out), 0);
	return text;
}

/* Two processes with devices, streams of equal handles, and odd names. */
static struct metrics_process *
some(void)
{
	struct metrics_process *two = calloc(2, sizeof(*two));

	EXPECT_NOT_NULL(two);
	for (uint32_t i = 0; i < 2; i++) {
		struct watch_reply *reply = &two[i].reply;

		strcpy(two[i].program, i == 0 ? "train" : "a\"b\\c");
		strcpy(reply->weir, "0.1.0");
		reply->pid = 100 + i;
		reply->device_count = 2;
		for (uint32_t d = 0; d < 2; d++) {
			struct watch_device *device = &reply->devices[d];

			device->device = d;
			device->total_bytes = (uint64_t)16 << 30;
			device->memory.limit_bytes = UINT64_MAX;
			device->pinned.limit_bytes = 12345;
			device->pinned.pin_ns = 7000001;
			device->pinned.pin_delay_ns = 300;
			device->memory.held_bytes = 100;
			device->memory.live_bytes = 60;
			device->memory.pending_bytes = 10;
			device->memory.cached_bytes = 30;
			device->memory.allocations = 7;
			device->stream_count = 4;
			device->streams_all = 9;
			device->streams[0].live_bytes = 1;
			device->streams[1].stream =
			    1; /* the legacy stream too */
			device->streams[1].live_bytes = 2;
			device->streams[2].stream = UINT64_MAX;
			device->streams[3].stream = 0x48000000;
			device->streams[3].pool[1] = 3;
			device->pool_count = 1;
			device->pools[0].pool[1] = 3;
			device->pools[0].held_bytes = 40;
		}
	}
	return two;
}

TEST(each_counter_is_a_metric)
{
	struct metrics_process *one = some();
	struct counters *counters = &one->reply.devices[0].memory;
	char *text;

	for (uint64_t i = 0; i < COUNTER_COUNT; i++)
		counters->values[i] = 1000 + i;
	text = written(one, 1, METRICS_OPENMETRICS);
	for (uint64_t i = 0; i < COUNTER_COUNT; i++) {
		const struct counter_row *row = &counter_rows[i];
		bool ns = strcmp(row->unit, "ns") == 0;
		char name[64];

		snprintf(name, sizeof(name), "weir_%.*s%s%s",
		    (int)strlen(row->name) - 3 * ns, row->name,
		    ns ? "_nanoseconds" : "",
		    row->kind == COUNTER_SUM ? "_total" : "");
		EXPECT_EQ(strict_metrics_value(
			      text, name, "device=\"0\",memory=\"device\""),
		    1000 + (int)i);
		EXPECT_STR_HAS(text, row->help);
	}
	free(text);
	free(one);
}

/* A group with two members of equal numbers, as in two containers; all names
 * are those that another user of a shared folder would choose. */
static struct metrics_group *
odd_group(void)
{
	struct metrics_group *group = calloc(1, sizeof(*group));

	EXPECT_NOT_NULL(group);
	strcpy(group->group, "a\"} 1\nb\\");
	strcpy(group->device_uuid, "\xff\x01");
	group->limit_bytes = METRICS_NONE;
	group->held_bytes = 30;
	group->member_count = 2;
	for (unsigned i = 0; i < 2; i++) {
		struct metrics_member *member = &group->members[i];

		strcpy(member->program, "\"\\\n{},= #");
		member->slot = 7 + i;
		member->pid = 1;
		member->held_bytes = 10 * (i + 1);
		member->guarantee_bytes = UINT64_MAX - 1;
		member->wait_ns = 5;
		member->asleep = i == 0 ? 1 : METRICS_NONE;
		member->dozes = member->asleep;
	}
	return group;
}

TEST(groups_are_valid_metrics_whatever_their_names)
{
	struct metrics_group *group = odd_group();
	struct metrics_sample sample = { .groups = group, .group_count = 1 };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	openmetrics_write(&sample, METRICS_OPENMETRICS, out);
	EXPECT_EQ(fclose(out), 0);
	expect_strict(text);
	EXPECT_STR_HAS(text,
	    "\nweir_group_held_bytes{group=\"a\\\"} 1?b\\\\\","
	    "device_uuid=\"??\"} 30\n");
	EXPECT_STR_HAS(
	    text, "member=\"8\",pid=\"1\",program=\"\\\"\\\\?{},= #\"} 20\n");
	EXPECT_EQ(strict_metrics_value(
		      text, "weir_member_wait_nanoseconds", "member=\"7\""),
	    5);
	EXPECT_EQ(
	    strict_metrics_value(text, "weir_member_asleep", "member=\"7\""),
	    1);
	EXPECT_NULL(strstr(text, "\nweir_group_limit_bytes{"));
	EXPECT_EQ(
	    strict_metrics_value(text, "weir_member_asleep", "member=\"8\""),
	    -1);
	EXPECT_NULL(strstr(text, "weir_live_bytes"));
	free(text);
	free(group);
}

/* ---- The dashboard ------------------------------------------------------ */

/* Check each "weir_name" of a query: a sample of the metrics has this name. */
static unsigned
check_query(const char *query, const char *metrics)
{
	unsigned names = 0;

	for (const char *at = query; (at = strstr(at, "weir_")) != NULL;
	     names++) {
		size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
		char sample[96];

		snprintf(sample, sizeof(sample), "\n%.*s{", (int)length, at);
		if (strstr(metrics, sample) == NULL)
			FAIL("no metric has the name of %s", query);
		at += length;
	}
	return names;
}

/* All metrics, of a process and of a group. */
static char *
all_metrics(void)
{
	struct metrics_process *one = some();
	struct metrics_group *group = odd_group();
	const struct metrics_sample sample = { one, 1, group, 1 };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	/* A limit is a sample only where there is one. */
	one->reply.devices[0].memory.limit_bytes = 1 << 20;
	group->limit_bytes = 1 << 20;
	EXPECT_NOT_NULL(out);
	openmetrics_write(&sample, METRICS_OPENMETRICS, out);
	EXPECT_EQ(fclose(out), 0);
	free(group);
	free(one);
	return text;
}

/* Does a panel show each metric of groups and their members, except for the
 * settings that seldom change? */
static void
expect_group_metrics_shown(const char *metrics, const char *dashboard)
{
	for (const char *at = metrics;
	     (at = strstr(at, "\n# TYPE weir_")) != NULL; at++) {
		char name[96];

		EXPECT_EQ(sscanf(at, "\n# TYPE %95s", name), 1);
		if ((strncmp(name, "weir_group_", 11) != 0 &&
			strncmp(name, "weir_member_", 12) != 0) ||
		    strcmp(name, "weir_member_priority") == 0 ||
		    strcmp(name, "weir_group_members") == 0)
			continue;
		strcat(name, "{");
		if (strstr(dashboard, name) == NULL)
			FAIL("no panel shows %s", name);
	}
}

TEST(the_dashboard_shows_metrics_that_there_are)
{
	char *metrics = all_metrics();
	char *text;
	char *path = test_data("../../packaging/grafana-dashboard.json");
	json_t *dashboard = json_load_file(path, 0, NULL);
	const json_t *panel;
	const json_t *target;
	size_t i;
	size_t j;

	EXPECT_NOT_NULL(dashboard);
	EXPECT_GT(json_array_size(json_object_get(dashboard, "panels")), 4);
	json_array_foreach(json_object_get(dashboard, "panels"), i, panel)
	{
		EXPECT_GT(
		    json_array_size(json_object_get(panel, "targets")), 0);
		json_array_foreach(json_object_get(panel, "targets"), j, target)
		{
			EXPECT_GT(check_query(json_string_value(json_object_get(
						  target, "expr")),
				      metrics),
			    0);
		}
	}
	text = json_dumps(dashboard, 0);
	expect_group_metrics_shown(metrics, text);
	json_decref(dashboard);
	free(text);
	free(path);
	free(metrics);
}

TEST(the_text_is_strict)
{
	struct metrics_process *two = some();
	char *text = written(two, 2, METRICS_OPENMETRICS);

	expect_strict(text);
	EXPECT_EQ(strict_metrics_value(text, "weir_held_bytes",
		      "pid=\"101\",program=\"a\\\"b\\\\c\",device=\"1\",memory="
		      "\"device\""),
	    100);
	EXPECT_EQ(strict_metrics_value(text, "weir_cached_bytes",
		      "device=\"0\",memory=\"device\""),
	    30);
	EXPECT_EQ(
	    strict_metrics_value(text, "weir_limit_bytes", "memory=\"device\""),
	    -1);
	EXPECT_EQ(
	    strict_metrics_value(text, "weir_limit_bytes", "memory=\"pinned\""),
	    12345);
	EXPECT_EQ(strict_metrics_value(
		      text, "weir_pin_nanoseconds_total", "memory=\"pinned\""),
	    7000001);
	EXPECT_EQ(strict_metrics_value(text, "weir_pin_delay_nanoseconds_total",
		      "memory=\"pinned\""),
	    300);
	EXPECT_EQ(strict_metrics_value(text, "weir_stream_live_bytes",
		      "stream=\"legacy\",pool=\"0,0\""),
	    3);
	EXPECT_EQ(strict_metrics_value(
		      text, "weir_stream_live_bytes", "stream=\"none\""),
	    0);
	EXPECT_EQ(
	    strict_metrics_value(text, "weir_pool_held_bytes", "pool=\"0,3\""),
	    40);
	EXPECT_EQ(strict_metrics_value(text, "weir_streams", "pid=\"100\""), 9);
	EXPECT_STR_HAS(text, "# UNIT weir_held_bytes bytes\n");
	EXPECT_STR_HAS(text, "# TYPE weir_allocations counter\n");
	free(text);
	free(two);
}

TEST(without_processes_there_are_families_only)
{
	char *text = written(NULL, 0, METRICS_OPENMETRICS);

	expect_strict(text);
	EXPECT_NULL(strstr(text, "\nweir_"));
	free(text);
}

/* Readers of the older form, such as node_exporter, type a counter by the name
 * of its sample. */
TEST(the_older_form_types_the_names_of_samples)
{
	struct metrics_process *two = some();
	char *text = written(two, 2, METRICS_PROMETHEUS);

	EXPECT_STR_HAS(text, "# TYPE weir_allocations_total counter\n");
	EXPECT_STR_HAS(text, "# TYPE weir_process_info gauge\n");
	EXPECT_NULL(strstr(text, "# UNIT"));
	EXPECT_NULL(strstr(text, "# EOF"));
	free(text);
	free(two);
}

/* ---- Files ------------------------------------------------------------- */

TEST(a_process_is_written_to_stdout)
{
	struct program program = program_start_watched();
	struct command_result result = command_weir(
	    "watch", "--openmetrics=-", "--once", program_pid, NULL);

	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	expect_strict(result.out);
	EXPECT_EQ(strict_metrics_value(
		      result.out, "weir_live_bytes", "memory=\"device\""),
	    1 << 20);
	EXPECT_EQ(strict_metrics_value(result.out, "weir_allocations_total",
		      "memory=\"device\""),
	    1);
	EXPECT_EQ(strict_metrics_value(
		      result.out, "weir_stream_live_bytes", "stream=\"none\""),
	    1 << 20);
	command_free(&result);
	EXPECT_EQ(program_finish(&program), 0);
	result = command_weir(
	    "watch", "--openmetrics=-", "--once", program_pid, NULL);
	EXPECT_EQ(result.status, 2);
	command_free(&result);
}

/* Another user's collector reads the file, which is never incomplete. */
TEST(a_file_is_replaced_and_may_be_read)
{
	struct program program;
	struct command_result result;
	struct stat before;
	struct stat after;
	char path[4200];
	char text[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "%s/weir.prom", runtime_folder());
	file = fopen(path, "w");
	fputs("old\n", file);
	fclose(file);
	EXPECT_EQ(stat(path, &before), 0);
	program = program_start("--watch");
	program_step(&program, 'a', 0);
	umask(022);
	result = command_weir("watch", "--once", "--openmetrics", path, NULL);
	EXPECT_STR_EQ(result.err, "");
	EXPECT_EQ(result.status, 0);
	command_free(&result);
	EXPECT_EQ(stat(path, &after), 0);
	EXPECT_NE(before.st_ino, after.st_ino);
	EXPECT_EQ(after.st_mode & 07777, 0644);
	file = fopen(path, "r");
	EXPECT_NOT_NULL(fgets(text, sizeof(text), file));
	fclose(file);
	EXPECT_STR_EQ(text, "# TYPE weir_process_info gauge\n");
	EXPECT_EQ(program_finish(&program), 0);
}

TEST(a_file_that_cannot_be_written_is_reported)
{
	struct command_result result;

	runtime_folder();
	result = command_weir(
	    "watch", "--once", "--openmetrics=/no/such/folder/x.prom", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "/no/such/folder/x.prom");
	command_free(&result);
	result = command_weir("watch", "--openmetrics=65536", NULL);
	EXPECT_EQ(result.status, 2);
	EXPECT_STR_HAS(result.err, "--openmetrics=65536: a port is at most");
	command_free(&result);
	result = command_weir("watch", "--openmetrics=", NULL);
	EXPECT_EQ(result.status, 2);
	command_free(&result);
}

/* ---- A port ------------------------------------------------------------ */

struct server {
	pid_t pid;
	FILE *out;
	uint16_t port;
};

static struct server
serve(const char *pid)
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
		execl(weir, "weir", "watch", "--openmetrics=0", pid,
		    (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	free(weir);
	server.out = fdopen(out[0], "r");
	EXPECT_EQ(fscanf(server.out, "http://127.0.0.1:%u/metrics", &port), 1);
	server.port = (uint16_t)port;
	return server;
}

/* Send these bytes. Returns the whole answer. */
static const char *
ask(const struct server *server, const char *request)
{
	static char answer[1 << 18];
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons(server->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t used = 0;
	ssize_t n;

	EXPECT_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	EXPECT_EQ(send(fd, request, strlen(request), MSG_NOSIGNAL),
	    (ssize_t)strlen(request));
	shutdown(fd, SHUT_WR);
	while ((n = recv(fd, answer + used, sizeof(answer) - 1 - used, 0)) > 0)
		used += (size_t)n;
	answer[used] = '\0';
	close(fd);
	return answer;
}

static const char *
body_of(const char *answer)
{
	const char *end = strstr(answer, "\r\n\r\n");

	EXPECT_NOT_NULL(end);
	return end + 4;
}

TEST(a_port_serves_every_process_each_time_anew)
{
	struct program program = program_start_watched();
	struct server server = serve(NULL);
	const char *answer;

	answer =
	    ask(&server, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
	EXPECT_STR_HAS(answer,
	    "HTTP/1.1 200 OK\r\nContent-Type: "
	    "application/openmetrics-text; version=1.0.0; "
	    "charset=utf-8\r\n");
	expect_strict(body_of(answer));
	EXPECT_EQ(strict_metrics_value(
		      body_of(answer), "weir_live_bytes", "memory=\"device\""),
	    1 << 20);
	program_step(&program, 'a', 0);
	answer = ask(&server, "GET /metrics HTTP/1.1\r\n\r\n");
	EXPECT_EQ(strict_metrics_value(
		      body_of(answer), "weir_live_bytes", "memory=\"device\""),
	    2 << 20);
	EXPECT_EQ(program_finish(&program), 0);
	answer = ask(&server, "GET / HTTP/1.1\r\n\r\n");
	expect_strict(body_of(answer));
	EXPECT_NULL(strstr(body_of(answer), "\nweir_"));
	EXPECT_EQ(kill(server.pid, SIGTERM), 0);
	EXPECT_EQ(waitpid(server.pid, NULL, 0), server.pid);
	fclose(server.out);
}

TEST(a_port_serves_the_groups_and_that_of_one_process_does_not)
{
	struct program program;
	struct server server;
	const char *answer;

	runtime_folder();
	setenv("WEIR_CONF", "group:served,group_limit_mb:64", 1);
	program = program_start("--may-sleep");
	program_step(&program, 'a', 0);
	server = serve(NULL);
	answer = ask(&server, "GET /metrics HTTP/1.1\r\n\r\n");
	expect_strict(body_of(answer));
	EXPECT_EQ(strict_metrics_value(body_of(answer),
		      "weir_group_limit_bytes", "group=\"served\""),
	    64 << 20);
	EXPECT_EQ(strict_metrics_value(body_of(answer), "weir_member_asleep",
		      "group=\"served\""),
	    0);
	EXPECT_EQ(kill(server.pid, SIGTERM), 0);
	EXPECT_EQ(waitpid(server.pid, NULL, 0), server.pid);
	fclose(server.out);
	snprintf(program_pid, sizeof(program_pid), "%ld", (long)program.pid);
	server = serve(program_pid);
	answer = ask(&server, "GET /metrics HTTP/1.1\r\n\r\n");
	expect_strict(body_of(answer));
	EXPECT_NULL(strstr(answer, "weir_group_"));
	EXPECT_EQ(program_finish(&program), 0);
	EXPECT_STR_HAS(ask(&server, "GET /metrics HTTP/1.1\r\n\r\n"), "503");
	EXPECT_EQ(waitpid(server.pid, NULL, 0), server.pid);
	fclose(server.out);
}

TEST(requests_for_anything_but_metrics_are_refused)
{
	static const char *const wrong[][2] = {
		{ "GET /else HTTP/1.1\r\n\r\n", "404 Not Found" },
		{ "POST /metrics HTTP/1.1\r\n\r\n", "405 Method" },
		{ "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		    "421 Misdirected" },
		{ "GET /metrics HTTP/1.1\r\nHost: localhost.evil\r\n\r\n",
		    "421 Misdirected" },
		{ "GET /metrics", "400 Bad Request" },
		{ "\r\n\r\n", "405 Method" },
	};
	static char long_one[10000];
	struct server server;
	const char *answer;

	runtime_folder();
	server = serve(NULL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		EXPECT_STR_HAS(ask(&server, wrong[i][0]), wrong[i][1]);
	memset(long_one, 'x', sizeof(long_one) - 1);
	ask(&server, long_one);
	answer = ask(&server,
	    "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9\r\n"
	    "Accept: text/plain;version=0.0.4\r\n\r\n");
	EXPECT_STR_HAS(answer, "text/plain; version=0.0.4");
	EXPECT_NULL(strstr(answer, "# EOF"));
	EXPECT_EQ(kill(server.pid, SIGTERM), 0);
	EXPECT_EQ(waitpid(server.pid, NULL, 0), server.pid);
	fclose(server.out);
}

TEST(the_port_of_one_process_ends_with_it)
{
	struct program program = program_start_watched();
	struct server server = serve(program_pid);
	int status;

	EXPECT_STR_HAS(ask(&server, "GET /metrics HTTP/1.1\r\n\r\n"), "200 OK");
	EXPECT_EQ(program_finish(&program), 0);
	EXPECT_STR_HAS(ask(&server, "GET /metrics HTTP/1.1\r\n\r\n"), "503");
	EXPECT_EQ(waitpid(server.pid, &status, 0), server.pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
	fclose(server.out);
}
