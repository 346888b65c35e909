/*
 * Requests to many watched processes at the same time.
 *
 * A process may be stopped, or its queue of watchers may be full. So no call
 * here waits for a process: each is connected to, sent the request and read
 * from when it is ready, until the time for all of them is over.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/weir/live/watch_link.h"
#include "tools/weir/progress.h"
#include "tools/weir/tool.h"
#include "tools/weir/tuning.h"
#include "trace/meeting.h"

struct asked {
	int folder; /* an index of `folders` */
	pid_t pid;
	int fd; /* -1: not connected yet */
	bool sent;
	bool done;
};

struct gathering {
	DIR *folders[MEETING_FOLDERS];
	size_t count;
	size_t most;
	struct asked asked[GATHER_ASKED];
	watch_visit *visit;
	void *user;
	enum watch_answer answer; /* of the last process */
};

static const struct watch_request ask_stats = { WATCH_MAGIC, WATCH_VERSION,
	WATCH_STATS, 0 };

/* ---- The processes ----------------------------------------------------- */

static void
open_folders(struct gathering *all)
{
	for (unsigned i = 0; i < MEETING_FOLDERS; i++) {
		int folder;
		enum weir_status status = meeting_folder(i, false, &folder);

		if (status != WEIR_OK && status != WEIR_ENOTSUP)
			complain("%s", weir_last_error());
		if (status != WEIR_OK)
			continue;
		all->folders[i] = fdopendir(folder);
		if (all->folders[i] == NULL)
			close(folder);
	}
}

/* Note the processes whose sockets are in the folders: that of `only`, or if it
 * is 0 all. */
static void
find_processes(struct gathering *all, pid_t only)
{
	for (int i = 0; i < MEETING_FOLDERS; i++) {
		struct dirent *entry;

		while (all->folders[i] != NULL && all->count < all->most &&
		    (entry = readdir(all->folders[i])) != NULL) {
			pid_t pid = meeting_process(entry->d_name);

			if (pid == 0 || (only != 0 && pid != only))
				continue;
			all->asked[all->count++] =
			    (struct asked){ .folder = i, .pid = pid, .fd = -1 };
		}
	}
}

/* ---- One process ------------------------------------------------------- */

static void
finish(struct asked *one)
{
	if (one->fd >= 0)
		close(one->fd);
	one->fd = -1;
	one->done = true;
}

/* Connect and send the request, unless the process has no room for a watcher
 * now. */
static void
begin_asking(struct gathering *all, struct asked *one)
{
	int folder = dirfd(all->folders[one->folder]);
	enum weir_status status =
	    meeting_connect(folder, one->pid, 0, &one->fd);

	if (status == WEIR_OK) {
		one->sent = watch_send(one->fd, &ask_stats, -1);
		return;
	}
	one->fd = -1;
	if (status == WEIR_ENOTREADY)
		meeting_leave(folder, one->pid);
	if (status != WEIR_EINVAL) {
		one->done = true;
		all->answer = WATCH_ENDED;
	}
}

static void
end_asking(struct gathering *all, struct asked *one)
{
	static struct watch_reply reply;

	all->answer = watch_receive(one->fd, &ask_stats, one->sent, &reply);
	finish(one);
	if (all->answer == WATCH_ANSWERED)
		all->visit(&reply, all->user);
}

/* ---- All of them ------------------------------------------------------- */

/* Connect where that was not possible before, and wait for answers until a
 * time. Returns the number of processes that have not answered. */
static size_t
gather_turn(struct gathering *all, int64_t end_ms)
{
	static struct pollfd polled[GATHER_ASKED];
	int64_t wait_ms = end_ms - progress_clock_ms();
	size_t open = 0;

	for (size_t i = 0; i < all->count; i++) {
		struct asked *one = &all->asked[i];

		if (!one->done && one->fd < 0)
			begin_asking(all, one);
		if (!one->done && one->fd < 0 && wait_ms > GATHER_TRY_MS)
			wait_ms = GATHER_TRY_MS;
		open += !one->done;
		polled[i] = (struct pollfd){ .fd = one->fd, .events = POLLIN };
	}
	if (open == 0 ||
	    poll(polled, all->count, wait_ms > 0 ? (int)wait_ms : 0) <= 0)
		return open;
	for (size_t i = 0; i < all->count; i++)
		if (all->asked[i].fd >= 0 && polled[i].revents != 0)
			end_asking(all, &all->asked[i]);
	return open;
}

static void
gather_all(struct gathering *all, unsigned timeout_ms)
{
	int64_t end_ms = progress_clock_ms() + timeout_ms;

	while (gather_turn(all, end_ms) > 0 && progress_clock_ms() < end_ms)
		;
	for (size_t i = 0; i < all->count; i++) {
		if (all->asked[i].done)
			continue;
		complain(
		    "process %ld does not answer", (long)all->asked[i].pid);
		all->answer = WATCH_FAILED;
		finish(&all->asked[i]);
	}
	for (int i = 0; i < MEETING_FOLDERS; i++)
		if (all->folders[i] != NULL)
			closedir(all->folders[i]);
}

void
watch_gather(size_t most, unsigned timeout_ms, watch_visit *visit, void *user)
{
	struct gathering all = { .most =
				     most < GATHER_ASKED ? most : GATHER_ASKED,
		.visit = visit,
		.user = user };

	open_folders(&all);
	find_processes(&all, 0);
	gather_all(&all, timeout_ms);
}

enum watch_answer
watch_gather_one(pid_t pid, unsigned timeout_ms, watch_visit *visit, void *user)
{
	struct gathering all = {
		.most = 1, .visit = visit, .user = user, .answer = WATCH_ENDED
	};

	open_folders(&all);
	find_processes(&all, watch_program_of(pid));
	gather_all(&all, timeout_ms);
	return all.answer;
}
