/*
 * weir watch: how the memory of a running process stands.
 */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#include "tools/weir/tool.h"
#include "tools/weir/watch_show.h"
#include "trace/meeting.h"
#include "trace/out.h"

/* How long to wait for an answer; a snapshot may be of gigabytes. */
enum { ANSWER_MS = 10 * 1000, SNAPSHOT_MS = 600 * 1000 };

struct choices {
	pid_t pid; /* 0: list who can be watched */
	bool json;
	bool once;
	double interval_s;
	const char *snapshot;
};

static const struct argp_option flags[] = {
	{ "json", 'j', NULL, 0, "print one object a line", 0 },
	{ "once", '1', NULL, 0, "print once and end", 0 },
	{ "interval", 'i', "SECONDS", 0,
	    "the time between two looks, 0.01 to 86400; 1 without", 0 },
	{ "snapshot", 's', "FILE", 0,
	    "have the process write a snapshot to FILE and end; JSON if FILE "
	    "ends in .json",
	    0 },
	{ 0 },
};

static void
take_pid(
    struct choices *choices, const char *value, const struct argp_state *state)
{
	char *end;
	long pid = strtol(value, &end, 10);

	if (choices->pid != 0)
		argp_error(state, "'%s' is one PID too many", value);
	if (end == value || *end != '\0' || pid <= 0 || pid > INT_MAX)
		argp_error(state, "PID is a process, not '%s'", value);
	choices->pid = (pid_t)pid;
}

static error_t
take_flag(int key, char *value, struct argp_state *state)
{
	struct choices *choices = state->input;

	switch (key) {
	case 'j':
		choices->json = true;
		return 0;
	case '1':
		choices->once = true;
		return 0;
	case 'i':
		if (!number_parse(value, 0.01, 86400, &choices->interval_s))
			argp_error(state,
			    "--interval is a number of seconds from 0.01 to "
			    "86400, not '%s'",
			    value);
		return 0;
	case 's':
		choices->snapshot = value;
		return 0;
	case ARGP_KEY_ARG:
		take_pid(choices, value, state);
		return 0;
	case ARGP_KEY_END:
		if (choices->pid == 0 && choices->snapshot != NULL)
			argp_error(state, "no PID");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp argp_watch = { flags, take_flag, "[PID]",
	"Show how the GPU memory of a running process stands: what is live, "
	"pending, cached and held, the streams and pools that have most, and "
	"how often memory is asked for. Without PID, list the processes that "
	"can be watched.\v"
	"A process can be watched that was started by 'weir run --watch', or "
	"with WEIR_CONF=watch:True, once it has asked for memory; by the same "
	"user only. The process calls no driver for it. The exit status is 0 "
	"if something was shown, also if the process has ended since.",
	NULL, NULL, NULL };

/* ---- Talking ----------------------------------------------------------- */

/* A connection to the process. False, with a complaint. */
static bool
reach(pid_t pid, unsigned timeout_ms, int *fd)
{
	enum weir_status worst = WEIR_ENOTSUP;

	for (unsigned i = 0; i < MEETING_FOLDERS; i++) {
		int folder;
		enum weir_status status = meeting_folder(i, false, &folder);

		if (status == WEIR_OK) {
			status = meeting_connect(folder, pid, timeout_ms, fd);
			if (status == WEIR_ENOTREADY)
				meeting_leave(folder, pid);
			close(folder);
		}
		if (status == WEIR_OK)
			return true;
		if (status != WEIR_ENOTSUP)
			worst = status;
	}
	if (worst != WEIR_ENOTSUP)
		complain("%s", weir_last_error());
	else if (kill(pid, 0) != 0 && errno == ESRCH)
		complain("there is no process %ld", (long)pid);
	else
		complain("process %ld cannot be watched: it was not started "
			 "by 'weir run --watch', or has asked for no memory "
			 "yet",
		    (long)pid);
	return false;
}

/* Send a request, with a file where there is one. */
static bool
send_request(int fd, const struct watch_request *request, int file)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { (void *)request, sizeof(*request) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (file >= 0) {
		message.msg_control = control.room;
		message.msg_controllen = sizeof(control.room);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &file, sizeof(file));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL) == sizeof(*request);
}

enum answer { ANSWERED, ENDED, FAILED };

/* The reply to a request; of FAILED it has complained. */
static enum answer
ask(int fd, const struct watch_request *request, int file,
    struct watch_reply *reply)
{
	bool sent = send_request(fd, request, file);
	ssize_t n = recv(fd, reply, sizeof(*reply), 0);
	const char *fault;

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		complain("the process does not answer");
		return FAILED;
	}
	if (n <= 0)
		return ENDED;
	/* Who is refused is told so before it has asked. */
	fault = watch_reply_fault(reply, (size_t)n,
	    n >= (ssize_t)watch_reply_size(0) && reply->failed != 0 ?
		(enum watch_kind)reply->kind :
		(enum watch_kind)request->kind);
	if (fault != NULL || (!sent && reply->failed == 0))
		complain("the answer of the process cannot be used: %s",
		    fault != NULL ? fault : "it has not been asked");
	else if (reply->failed != 0)
		complain("the process refuses: %s", reply->text);
	else
		return ANSWERED;
	return FAILED;
}

/* ---- A snapshot -------------------------------------------------------- */

static bool
ends_in_json(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot != NULL && strcmp(dot, ".json") == 0;
}

static int
write_snapshot(const struct choices *choices)
{
	const struct watch_request request = { WATCH_MAGIC, WATCH_VERSION,
		WATCH_SNAPSHOT, ends_in_json(choices->snapshot) };
	static struct watch_reply reply;
	enum answer answer;
	struct out *file;
	int fd;

	if (!reach(choices->pid, SNAPSHOT_MS, &fd))
		return TOOL_NO;
	if (out_open(choices->snapshot, &file) != WEIR_OK) {
		complain("%s", weir_last_error());
		close(fd);
		return TOOL_NO;
	}
	answer = ask(fd, &request, file->fd, &reply);
	close(fd);
	if (answer == ENDED)
		complain("process %ld has ended", (long)choices->pid);
	if (answer != ANSWERED) {
		out_abandon(file);
		return TOOL_NO;
	}
	if (out_close(file) == WEIR_OK)
		return TOOL_DONE;
	complain("%s", weir_last_error());
	return TOOL_NO;
}

/* ---- Looking ----------------------------------------------------------- */

static void
wait_for(double seconds)
{
	struct timespec left = { .tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - floor(seconds)) * 1e9) };

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* Print a sample; false if nobody reads it, or without memory. */
static bool
show(const struct choices *choices, const struct watch_reply *now,
    const struct watch_reply *before)
{
	bool shown = true;

	if (choices->json)
		shown = watch_show_json(now, before);
	else
		watch_show_text(
		    now, before, !choices->once && isatty(STDOUT_FILENO));
	if (!shown)
		complain("cannot print: out of memory");
	return shown && fflush(stdout) == 0;
}

static int
look(const struct choices *choices)
{
	const struct watch_request request = { WATCH_MAGIC, WATCH_VERSION,
		WATCH_STATS, 0 };
	static struct watch_reply replies[2];
	unsigned samples = 0;
	enum answer answer;
	bool go_on;
	int fd;

	if (!reach(choices->pid, ANSWER_MS, &fd))
		return TOOL_NO;
	do {
		struct watch_reply *now = &replies[samples % 2];

		if (samples > 0)
			wait_for(choices->interval_s);
		answer = ask(fd, &request, -1, now);
		go_on = answer == ANSWERED &&
		    show(choices, now,
			samples > 0 ? &replies[(samples + 1) % 2] : NULL);
		samples += answer == ANSWERED;
	} while (go_on && !choices->once);
	close(fd);
	if (answer == ENDED)
		complain("process %ld has ended", (long)choices->pid);
	return samples > 0 && answer != FAILED ? TOOL_DONE : TOOL_NO;
}

/* ---- Who there is ------------------------------------------------------ */

/* Print the processes of a folder; what is left of ended ones is removed. */
static unsigned
list_folder(int folder, bool json)
{
	DIR *directory = fdopendir(folder);
	unsigned found = 0;
	struct dirent *entry;

	if (directory == NULL) {
		close(folder);
		return 0;
	}
	while ((entry = readdir(directory)) != NULL) {
		pid_t pid = meeting_process(entry->d_name);
		enum weir_status status;
		char name[32];
		int fd;

		if (pid == 0)
			continue;
		status = meeting_connect(folder, pid, ANSWER_MS, &fd);
		if (status == WEIR_ENOTREADY)
			meeting_leave(folder, pid);
		if (status != WEIR_OK)
			continue;
		close(fd);
		found++;
		watch_program((uint32_t)pid, name);
		if (json)
			printf("{\"pid\":%ld}\n", (long)pid);
		else
			printf("%7ld  %s\n", (long)pid, name);
	}
	closedir(directory);
	return found;
}

static int
list_all(const struct choices *choices)
{
	unsigned found = 0;

	for (unsigned i = 0; i < MEETING_FOLDERS; i++) {
		int folder;
		enum weir_status status = meeting_folder(i, false, &folder);

		if (status == WEIR_OK)
			found += list_folder(folder, choices->json);
		else if (status != WEIR_ENOTSUP)
			complain("%s", weir_last_error());
	}
	if (found > 0)
		return TOOL_DONE;
	complain("no process can be watched: start it by 'weir run --watch'");
	return TOOL_NO;
}

int
cmd_watch(int argc, char **argv)
{
	struct choices choices = { .interval_s = 1 };

	argp_parse(&argp_watch, argc, argv, 0, NULL, &choices);
	if (choices.pid == 0)
		return list_all(&choices);
	if (choices.snapshot != NULL)
		return write_snapshot(&choices);
	return look(&choices);
}
