/*
 * weir watch --openmetrics.
 *
 * Samples are not kept: each request at the port, and each write of the file,
 * asks every process once. Requests that arrive together share one sample. All
 * processes are asked at the same time, and those that have not answered after
 * METRICS_ANSWER_MS, because they are stopped for example, are left out. So a
 * process cannot keep the metrics of others from being served.
 */
#include "tools/weir/live/watch_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/out.h"
#include "tools/weir/live/group_metrics.h"
#include "tools/weir/live/http_port.h"
#include "tools/weir/live/openmetrics.h"
#include "tools/weir/live/watch_link.h"
#include "tools/weir/live/watch_show.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"

/* ---- Samples ----------------------------------------------------------- */

struct sample {
	struct metrics_process *processes;
	size_t count;
	struct metrics_group *groups; /* NULL: those of one process */
	size_t group_count;
};

/* ASKED_NONE: the process of the request has not answered, but it is there. */
enum asked { ASKED_ALL, ASKED_NONE, ASKED_ENDED };

/* Add the reply of a process to the sample. */
static void
add_process(struct sample *sample, const struct watch_reply *reply)
{
	struct metrics_process *next = &sample->processes[sample->count];

	memcpy(&next->reply, reply, sizeof(*reply));
	watch_program(reply->pid, next->program);
	sample->count++;
}

static void
add_answer(const struct watch_reply *reply, void *user)
{
	struct sample *sample = user;

	if (sample->count < METRICS_PROCESSES)
		add_process(sample, reply);
}

/* Take the metrics of all groups anew. Those that cannot be read are left
 * out, with a complaint. */
static void
ask_groups(struct sample *sample)
{
	struct found_ledger *list = NULL;

	free(sample->groups);
	sample->groups = NULL;
	if (ledgers_open(NULL, NULL, &list, NULL))
		sample->groups = group_metrics(list, &sample->group_count);
	ledgers_close(list);
}

/* Ask the process of the request, or all processes and groups, for
 * METRICS_ANSWER_MS each at most. */
static enum asked
ask_all_processes(const struct metrics_request *request, struct sample *sample)
{
	enum watch_answer answer;

	sample->count = 0;
	if (request->pid == 0) {
		watch_gather(
		    METRICS_PROCESSES, METRICS_ANSWER_MS, add_answer, sample);
		ask_groups(sample);
		return ASKED_ALL;
	}
	answer = watch_gather_one(
	    request->pid, METRICS_ANSWER_MS, add_answer, sample);
	if (answer == WATCH_ENDED)
		complain("process %ld has ended", (long)request->pid);
	return answer == WATCH_ANSWERED ? ASKED_ALL :
	    answer == WATCH_ENDED       ? ASKED_ENDED :
					  ASKED_NONE;
}

/* The metrics as text, which the caller frees. NULL without memory. */
static char *
metrics_text(const struct sample *sample, enum metrics_form form, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	if (out == NULL)
		return NULL;
	const struct metrics_sample written = { sample->processes,
		sample->count, sample->groups, sample->group_count };
	openmetrics_write(&written, form, out);
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

	for (;;) {
		enum asked asked = ask_all_processes(request, sample);

		if (asked == ASKED_ENDED)
			break;
		if (asked == ASKED_ALL && !put_metrics(request->where, sample))
			return TOOL_FAILED;
		written += asked == ASKED_ALL;
		if (request->once)
			break;
		watch_wait(request->interval_s);
	}
	return written > 0 ? TOOL_DONE : TOOL_FAILED;
}

/* ---- A port ------------------------------------------------------------ */

/* The state that the pages of one turn show. */
struct service {
	const struct metrics_request *request;
	struct sample *sample;
	enum asked asked;
	struct http_page *pages[2]; /* of each form; NULL: not written yet */
};

static void
forget_pages(struct service *service)
{
	for (int form = 0; form < 2; form++) {
		http_page_drop(service->pages[form]);
		service->pages[form] = NULL;
	}
}

static bool
refresh_metrics(void *user)
{
	struct service *service = user;

	forget_pages(service);
	service->asked = ask_all_processes(service->request, service->sample);
	return service->asked != ASKED_ENDED;
}

/* A client that accepts plain text but not OpenMetrics gets the older form. */
static enum metrics_form
form_for(const char *head)
{
	return http_header_has(head, "Accept", "text/plain") &&
		!http_header_has(
		    head, "Accept", "application/openmetrics-text") ?
	    METRICS_PROMETHEUS :
	    METRICS_OPENMETRICS;
}

static struct http_page *
metrics_page(const char *head, void *user)
{
	static const char *const types[] = {
		"application/openmetrics-text; version=1.0.0; charset=utf-8",
		"text/plain; version=0.0.4; charset=utf-8",
	};
	struct service *service = user;
	enum metrics_form form = form_for(head);
	struct http_page **page = &service->pages[form];

	if (service->asked == ASKED_ALL && *page == NULL) {
		size_t size;
		char *text = metrics_text(service->sample, form, &size);

		if (text != NULL)
			*page = http_page_new(types[form], text, size);
	}
	return http_page_share(*page);
}

static const char *
metrics_refusal(const char *head, void *user)
{
	(void)user;
	if (strncmp(head, "GET ", 4) != 0)
		return "405 Method Not Allowed";
	if (!http_is_path(head, "/metrics") && !http_is_path(head, "/"))
		return "404 Not Found";
	return NULL;
}

static int
run_port(const struct metrics_request *request, struct sample *sample)
{
	struct service service = { .request = request, .sample = sample };
	const struct http_service http = { refresh_metrics, metrics_page,
		metrics_refusal, &service, request->once };
	uint16_t port = (uint16_t)atoi(request->where);
	int listener = http_port_open(&port);

	if (listener < 0)
		return TOOL_FAILED;
	printf("http://127.0.0.1:%u/metrics\n", port);
	fflush(stdout);
	http_port_serve(listener, &http);
	forget_pages(&service);
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
	int fd;

	/* A process that cannot be watched is named before anything is
	 * served. */
	if (request->pid != 0) {
		if (!watch_reach(request->pid, METRICS_ANSWER_MS, &fd))
			return TOOL_FAILED;
		close(fd);
	}

	sample.processes = calloc(METRICS_PROCESSES, sizeof(*sample.processes));
	if (sample.processes == NULL) {
		complain("cannot gather metrics: out of memory");
		return TOOL_FAILED;
	}
	result = is_port(request->where) ? run_port(request, &sample) :
					   run_file(request, &sample);
	free(sample.processes);
	free(sample.groups);
	return result;
}
