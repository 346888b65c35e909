/*
 * weir watch --openmetrics.
 *
 * Samples are not kept: each request at the port, and each write of the file,
 * asks every process once. One connection is served at a time. A slow or silent
 * client is disconnected after IDLE_S, so that others need not wait for long.
 */
#include "tools/weir/watch_metrics.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "tools/weir/openmetrics.h"
#include "tools/weir/tool.h"
#include "tools/weir/watch_link.h"
#include "tools/weir/watch_show.h"
#include "trace/out.h"

enum {
	PROCESSES = 64, /* further processes are left out */
	IDLE_S = 5,
	REQUEST_BYTES = 8192,
};

/* ---- Samples ----------------------------------------------------------- */

struct sample {
	struct metrics_process *processes;
	size_t count;
};

static const struct watch_request ask_stats = { WATCH_MAGIC, WATCH_VERSION,
	WATCH_STATS, 0 };

static enum watch_answer
ask_process(struct sample *sample, int fd)
{
	struct metrics_process *next = &sample->processes[sample->count];
	enum watch_answer answer = watch_ask(fd, &ask_stats, -1, &next->reply);

	if (answer != WATCH_ANSWERED)
		return answer;
	watch_program(next->reply.pid, next->program);
	sample->count++;
	return answer;
}

static void
visit(pid_t pid, int fd, void *user)
{
	struct sample *sample = user;

	(void)pid;
	if (sample->count < PROCESSES)
		ask_process(sample, fd);
}

/* Ask the process of the request, or all processes. False if the process has
 * ended or cannot be watched. */
static bool
ask_all_processes(const struct metrics_request *request, struct sample *sample)
{
	enum watch_answer answer;
	int fd;

	sample->count = 0;
	if (request->pid == 0) {
		watch_each(WATCH_ANSWER_MS, visit, sample);
		return true;
	}
	if (!watch_reach(request->pid, WATCH_ANSWER_MS, &fd))
		return false;
	answer = ask_process(sample, fd);
	close(fd);
	if (answer == WATCH_ENDED)
		complain("process %ld has ended", (long)request->pid);
	return answer == WATCH_ANSWERED;
}

/* The metrics as text, which the caller frees. NULL without memory. */
static char *
metrics_text(const struct sample *sample, enum metrics_form form, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	if (out == NULL)
		return NULL;
	openmetrics_write(sample->processes, sample->count, form, out);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* ---- A file ------------------------------------------------------------ */

static bool
ends_in_prom(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot != NULL && strcmp(dot, ".prom") == 0;
}

/* Write a file with the mode of new files, because the collector of another
 * user reads it. */
static bool
put_file(const char *path, const char *text, size_t size)
{
	mode_t mask = umask(0);
	struct out *out;

	umask(mask);
	if (out_open(path, &out) == WEIR_OK) {
		out_bytes(out, text, size);
		if (fchmod(out->fd, 0666 & ~mask) != 0)
			complain("%s: the mode cannot be set", path);
		if (out_close(out) == WEIR_OK)
			return true;
	}
	complain("%s", weir_last_error());
	return false;
}

static bool
put_metrics(const char *path, const struct sample *sample)
{
	enum metrics_form form =
	    ends_in_prom(path) ? METRICS_PROMETHEUS : METRICS_OPENMETRICS;
	size_t size;
	char *text = metrics_text(sample, form, &size);
	bool done;

	if (text == NULL) {
		complain("cannot write metrics: out of memory");
		return false;
	}
	if (strcmp(path, "-") == 0)
		done = fwrite(text, 1, size, stdout) == size &&
		    fflush(stdout) == 0;
	else
		done = put_file(path, text, size);
	free(text);
	return done;
}

static int
run_file(const struct metrics_request *request, struct sample *sample)
{
	unsigned written = 0;

	while (ask_all_processes(request, sample)) {
		if (!put_metrics(request->where, sample))
			return TOOL_NO;
		written++;
		if (request->once)
			break;
		watch_wait(request->interval_s);
	}
	return written > 0 ? TOOL_DONE : TOOL_NO;
}

/* ---- A port ------------------------------------------------------------ */

static bool
send_all(int fd, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		bytes += sent;
		n -= (size_t)sent;
	}
	return true;
}

static void
answer_http(
    int fd, const char *status, const char *type, const char *body, size_t size)
{
	char head[512];
	int n = snprintf(head, sizeof(head),
	    "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
	    "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
	    status, type, size);

	if (send_all(fd, head, (size_t)n))
		send_all(fd, body, size);
}

static void
refuse_http(int fd, const char *status)
{
	char body[128];
	int n = snprintf(body, sizeof(body), "%s\n", status);

	answer_http(fd, status, "text/plain; charset=utf-8", body, (size_t)n);
}

/* Read the whole head of a request. False if it does not arrive in time, or is
 * too long. */
static bool
read_http_head(int fd, char head[REQUEST_BYTES])
{
	size_t used = 0;

	head[0] = '\0';
	while (used < REQUEST_BYTES - 1) {
		ssize_t n = recv(fd, head + used, REQUEST_BYTES - 1 - used, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		used += (size_t)n;
		head[used] = '\0';
		if (strstr(head, "\r\n\r\n") != NULL)
			return true;
	}
	return false;
}

/* The value of a header, which ends at the end of its line; NULL if there is no
 * such header. */
static const char *
header_of(const char *head, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = strstr(head, "\r\n"); line != NULL;
	     line = strstr(line, "\r\n")) {
		line += 2;
		if (strncasecmp(line, name, length) == 0 && line[length] == ':')
			return line + length + 1;
	}
	return NULL;
}

static bool
line_has(const char *line, const char *word)
{
	const char *end = strstr(line, "\r\n");
	const char *found = strstr(line, word);

	return found != NULL && (end == NULL || found < end);
}

/* The form for a client. One that accepts plain text but not OpenMetrics gets
 * the older form. */
static enum metrics_form
form_for(const char *head)
{
	const char *accept = header_of(head, "Accept");

	return accept != NULL && line_has(accept, "text/plain") &&
		!line_has(accept, "application/openmetrics-text") ?
	    METRICS_PROMETHEUS :
	    METRICS_OPENMETRICS;
}

/* True if the Host header names this machine. This refuses web pages whose own
 * host name was made to resolve to this machine (DNS rebinding). */
static bool
is_for_us(const char *head)
{
	static const char *const names[] = { " localhost", " 127.0.0.1",
		" [::1]" };
	const char *host = header_of(head, "Host");

	if (host == NULL)
		return true;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (strncmp(host, names[i], length) == 0 &&
		    strchr(":\r", host[length]) != NULL)
			return true;
	}
	return false;
}

static bool
is_path(const char *head, const char *path)
{
	const char *at = strchr(head, ' ');
	size_t length = strlen(path);

	return at != NULL && strncmp(at + 1, path, length) == 0 &&
	    strchr(" ?", at[1 + length]) != NULL;
}

/* Answer with the metrics. False if the watched process has ended. */
static bool
serve_metrics(const struct metrics_request *request, struct sample *sample,
    int fd, const char *head)
{
	static const char *const types[] = {
		"application/openmetrics-text; version=1.0.0; charset=utf-8",
		"text/plain; version=0.0.4; charset=utf-8",
	};
	enum metrics_form form = form_for(head);
	bool there = ask_all_processes(request, sample);
	size_t size;
	char *text = there ? metrics_text(sample, form, &size) : NULL;

	if (text != NULL)
		answer_http(fd, "200 OK", types[form], text, size);
	else
		refuse_http(fd,
		    there ? "500 Internal Server Error" :
			    "503 Service Unavailable");
	free(text);
	return there;
}

static bool
serve_connection(
    const struct metrics_request *request, struct sample *sample, int fd)
{
	const struct timeval idle = { .tv_sec = IDLE_S };
	char head[REQUEST_BYTES];

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &idle, sizeof(idle));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &idle, sizeof(idle));
	if (!read_http_head(fd, head))
		refuse_http(fd, "400 Bad Request");
	else if (strncmp(head, "GET ", 4) != 0)
		refuse_http(fd, "405 Method Not Allowed");
	else if (!is_for_us(head))
		refuse_http(fd, "421 Misdirected Request");
	else if (!is_path(head, "/metrics") && !is_path(head, "/"))
		refuse_http(fd, "404 Not Found");
	else
		return serve_metrics(request, sample, fd, head);
	return true;
}

static int
open_port(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	const int yes = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
	    bind(fd, (struct sockaddr *)&address, size) != 0 ||
	    listen(fd, 16) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
		complain("port %u of this machine cannot be used: %s", port,
		    strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	printf("http://127.0.0.1:%u/metrics\n", ntohs(address.sin_port));
	fflush(stdout);
	return fd;
}

static int
run_port(const struct metrics_request *request, struct sample *sample)
{
	int listener = open_port((uint16_t)atoi(request->where));
	bool go_on = true;

	if (listener < 0)
		return TOOL_NO;
	while (go_on) {
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && errno != EINTR && errno != ECONNABORTED) {
			complain("no more connections: %s", strerror(errno));
			close(listener);
			return TOOL_NO;
		}
		if (fd < 0)
			continue;
		go_on = serve_connection(request, sample, fd) && !request->once;
		close(fd);
	}
	close(listener);
	return TOOL_DONE;
}

/* ---- A port or a file -------------------------------------------------- */

static bool
is_port(const char *where)
{
	return where[0] != '\0' && where[strspn(where, "0123456789")] == '\0';
}

const char *
metrics_fault(const char *where)
{
	uint64_t port;

	if (where[0] == '\0')
		return "it is empty";
	if (is_port(where) && !count_parse(where, 65535, &port))
		return "a port is at most 65535";
	return NULL;
}

int
metrics_run(const struct metrics_request *request)
{
	struct sample sample = { .count = 0 };
	int result;

	sample.processes = calloc(PROCESSES, sizeof(*sample.processes));
	if (sample.processes == NULL) {
		complain("cannot gather metrics: out of memory");
		return TOOL_NO;
	}
	result = is_port(request->where) ? run_port(request, &sample) :
					   run_file(request, &sample);
	free(sample.processes);
	return result;
}
