/*
 * The connection to a watched process.
 */
#include "tools/weir/live/watch_link.h"

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

#include "tools/weir/tool.h"
#include "trace/meeting.h"

/* Does a process run this command? */
static bool
runs_weir(pid_t pid)
{
	char path[64];
	char own[TOOL_PATH];
	char its[TOOL_PATH];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own));

	snprintf(path, sizeof(path), "/proc/%ld/exe", (long)pid);
	return n > 0 && readlink(path, its, sizeof(its)) == n &&
	    memcmp(own, its, (size_t)n) == 0;
}

/* `weir run` has a helper besides the program, which runs this command, too. */
pid_t
watch_program_of(pid_t pid)
{
	char path[64];
	long child;
	FILE *file;

	if (!runs_weir(pid))
		return pid;
	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", (long)pid,
	    (long)pid);
	file = fopen(path, "re");
	if (file == NULL)
		return pid;
	while (fscanf(file, "%ld", &child) == 1)
		if (child > 0 && !runs_weir((pid_t)child)) {
			pid = (pid_t)child;
			break;
		}
	fclose(file);
	return pid;
}

/* The effective user of a process. A process that may not be debugged belongs
 * to root in /proc, so the folder's owner does not say it. False if it is not
 * known. */
static bool
find_user(pid_t pid, unsigned *user)
{
	char path[64];
	char line[256];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	while (!found && fgets(line, sizeof(line), file) != NULL)
		found = sscanf(line, "Uid: %*u %u", user) == 1;
	fclose(file);
	return found;
}

/* Why a process without a socket cannot be watched. */
static void
describe_process(pid_t pid, char why[WATCH_TEXT])
{
	unsigned user;

	if (kill(pid, 0) != 0 && errno == ESRCH)
		snprintf(why, WATCH_TEXT, "there is no process %ld", (long)pid);
	else if (find_user(pid, &user) && user != geteuid())
		snprintf(why, WATCH_TEXT,
		    "process %ld belongs to another user (uid %u): only that "
		    "user can watch it",
		    (long)pid, user);
	else
		snprintf(why, WATCH_TEXT,
		    "process %ld cannot be watched: it was not started by "
		    "'weir run --watch', or has asked for no memory yet",
		    (long)pid);
}

bool
watch_connect(pid_t pid, unsigned timeout_ms, int *fd, char why[WATCH_TEXT])
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
		snprintf(why, WATCH_TEXT, "%s", weir_last_error());
	else
		describe_process(pid, why);
	return false;
}

bool
watch_reach(pid_t named, unsigned timeout_ms, int *fd)
{
	char why[WATCH_TEXT];

	if (watch_connect(watch_program_of(named), timeout_ms, fd, why))
		return true;
	complain("%s", why);
	return false;
}

/* Send a request, and the descriptor of a file unless it is -1. */
static bool
send_request(int fd, const void *request, size_t size, int file)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec part = { (void *)request, size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	if (file >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &file, sizeof(file));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)size;
}

static const char no_answer[] = "the process does not answer";

/* Receive a reply. Returns its bytes, 0 if the process has ended, or -1 if it
 * does not answer. */
static ssize_t
receive_reply(int fd, void *reply, size_t size)
{
	ssize_t n;

	do
		n = recv(fd, reply, size, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return -1;
	return n < 0 ? 0 : n;
}

/* True if the reply is a refusal. A process that may not make requests gets it
 * before its first request, in the form of a reply with statistics. */
static bool
is_refusal(const struct watch_reply *reply, size_t n)
{
	return n == watch_reply_size(0) && reply->failed != 0 &&
	    watch_reply_fault(reply, n, (enum watch_kind)reply->kind) == NULL;
}

bool
watch_send(int fd, const struct watch_request *request, int file)
{
	return send_request(fd, request, sizeof(*request), file);
}

enum watch_answer
watch_receive(int fd, const struct watch_request *request, bool sent,
    struct watch_reply *reply)
{
	ssize_t n = receive_reply(fd, reply, sizeof(*reply));
	const char *fault;

	if (n < 0)
		complain("%s", no_answer);
	if (n <= 0)
		return n == 0 ? WATCH_ENDED : WATCH_FAILED;
	if (is_refusal(reply, (size_t)n)) {
		complain("the process refuses: %s", reply->text);
		return WATCH_FAILED;
	}
	fault =
	    watch_reply_fault(reply, (size_t)n, (enum watch_kind)request->kind);
	if (fault == NULL && sent)
		return WATCH_ANSWERED;
	complain("the answer of the process cannot be used: %s",
	    fault != NULL ? fault : "the request was not sent");
	return WATCH_FAILED;
}

enum watch_answer
watch_ask(int fd, const struct watch_request *request, int file,
    struct watch_reply *reply)
{
	return watch_receive(fd, request, watch_send(fd, request, file), reply);
}

static char values_fault[WATCH_TEXT];

const char *
watch_values_fault(void)
{
	return values_fault;
}

/* Note why a request for values failed. */
static enum watch_answer
fail_values(const char *before, const char *why)
{
	snprintf(values_fault, sizeof(values_fault), "%s%s", before, why);
	return WATCH_FAILED;
}

bool
watch_send_values(int fd, const struct watch_ctl_request *request)
{
	return send_request(fd, request, sizeof(*request), -1);
}

enum watch_answer
watch_receive_values(int fd, const struct watch_ctl_request *request, bool sent,
    struct watch_ctl_reply *rows)
{
	static union {
		struct watch_reply reply;
		struct watch_ctl_reply rows;
	} answer;
	static const char unusable[] =
	    "the answer of the process cannot be used: ";
	ssize_t n = receive_reply(fd, &answer, sizeof(answer));
	const char *fault;

	values_fault[0] = '\0';
	if (n == 0)
		return WATCH_ENDED;
	if (n < 0)
		return fail_values("", no_answer);
	if (is_refusal(&answer.reply, (size_t)n))
		return fail_values("", answer.reply.text);
	fault = request->kind == WATCH_LIST ?
	    watch_ctl_reply_fault(&answer.rows, (size_t)n) :
	    watch_reply_fault(&answer.reply, (size_t)n, WATCH_SET);
	if (fault == NULL && !sent)
		fault = "the request was not sent";
	if (fault != NULL)
		return fail_values(unusable, fault);
	if (request->kind == WATCH_LIST)
		memcpy(rows, &answer.rows, (size_t)n);
	return WATCH_ANSWERED;
}

enum watch_answer
watch_ask_values(int fd, const struct watch_ctl_request *request,
    struct watch_ctl_reply *rows)
{
	bool sent = watch_send_values(fd, request);
	enum watch_answer answer =
	    watch_receive_values(fd, request, sent, rows);

	if (answer == WATCH_FAILED)
		complain("%s", values_fault);
	return answer;
}

/* ---- All processes ----------------------------------------------------- */

static void
each_in(DIR *directory, unsigned timeout_ms,
    void (*visit)(pid_t pid, int fd, void *user), void *user)
{
	int folder = dirfd(directory);
	struct dirent *entry;

	while ((entry = readdir(directory)) != NULL) {
		pid_t pid = meeting_process(entry->d_name);
		enum weir_status status;
		int fd;

		if (pid == 0)
			continue;
		status = meeting_connect(folder, pid, timeout_ms, &fd);
		if (status == WEIR_ENOTREADY)
			meeting_leave(folder, pid);
		if (status != WEIR_OK)
			continue;
		visit(pid, fd, user);
		close(fd);
	}
}

void
watch_each(unsigned timeout_ms, void (*visit)(pid_t pid, int fd, void *user),
    void *user)
{
	for (unsigned i = 0; i < MEETING_FOLDERS; i++) {
		int folder;
		enum weir_status status = meeting_folder(i, false, &folder);
		DIR *directory;

		if (status != WEIR_OK && status != WEIR_ENOTSUP)
			complain("%s", weir_last_error());
		if (status != WEIR_OK)
			continue;
		directory = fdopendir(folder);
		if (directory == NULL) {
			close(folder);
			continue;
		}
		each_in(directory, timeout_ms, visit, user);
		closedir(directory);
	}
}

void
watch_wait(double seconds)
{
	struct timespec rest = { .tv_sec = (time_t)seconds,
		.tv_nsec = (long)((seconds - floor(seconds)) * 1e9) };

	while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
		;
}

pid_t
watch_parse_pid(const char *text, const struct argp_state *state)
{
	char *end;
	long pid = strtol(text, &end, 10);

	if (end == text || *end != '\0' || pid <= 0 || pid > INT_MAX)
		argp_error(
		    state, "PID is the number of a process, not '%s'", text);
	return (pid_t)pid;
}
