/*
 * The agent: a thread that answers requests from outside the program. A signal
 * asks it for a snapshot or for the end of the process, and watchers connect to
 * its socket (trace/meeting.h). The first allocation makes the thread, and only
 * if an option asks for it.
 *
 * Note [The thread that answers]
 *
 * The thread has a name, a small stack, and all signals blocked, so that the
 * program's handlers run on the program's threads. It calls the driver only to
 * put devices to sleep and to wake them (sleep.state). It takes an arena's lock
 * as weir_stats() does, and sleeps for NAP_MS after each answer, so that a
 * watcher cannot keep the lock busy.
 *
 * Watchers are not trusted. At most CLIENTS are connected. A message of the
 * wrong form, a reply that does not fit into the socket, or a long silence ends
 * a connection. The thread never waits for a watcher: sockets do not block, and
 * all buffers are static. It may wait for the file that a snapshot is written
 * to, which therefore must be a plain file.
 *
 * When all places are taken, a newcomer gets one of them: that of a watcher
 * that has asked for nothing within GRACE_MS, else that of one that floods,
 * else that of the one that was silent longest. So watchers cannot keep others
 * out, and one that asks now and then keeps its place beside any number of
 * silent ones. While all have come within GRACE_MS, newcomers wait in the
 * system's queue.
 *
 * The signal's handler sets a flag and wakes the thread, no more. It is
 * installed only if the program has no handler at that time, and does nothing
 * in a child. SIGTERM is handled too if a snapshot is wanted at the end:
 * schedulers end a program by it, and no exit handler runs then. The thread
 * writes the snapshot, or gives up after LAST_S, and the process ends by
 * SIGTERM.
 *
 * A forked child does not have the thread. It closes the descriptors that it
 * inherited, because watchers would connect to a socket that nobody serves. At
 * exit the process asks the thread to end and waits at most END_S for it: a
 * file that it writes may hang.
 */
#include "allocator/observe/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "allocator/api/ctl.h"
#include "allocator/observe/auto_snapshot.h"
#include "allocator/observe/live_stats.h"
#include "allocator/observe/snapshot.h"
#include "allocator/observe/tuning.h"
#include "allocator/policy/sizes.h"
#include "base/log.h"
#include "base/os.h"
#include "base/status.h"
#include "trace/meeting.h"

/* Descriptors, -1 where there is none. A forked child reads them, too. */
static atomic_int wake = -1; /* an eventfd */
static atomic_int folder = -1;
static atomic_int listener = -1;
static atomic_int clients[CLIENTS];

static atomic_bool ending;
static atomic_bool signalled;
static atomic_bool terminated; /* by SIGTERM, which the agent handles */
static timer_t last_timer;     /* how long the last snapshot may take */
static bool has_last_timer;    /* there is such a timer */
static pthread_t thread;
static unsigned process;
static int handled; /* the signal; 0: none */

/* Used by the agent's thread only. */
static struct {
	uint64_t came_ns;  /* monotonic */
	uint64_t heard_ns; /* of os_time_ns() */
	uint64_t requests;
} watchers[CLIENTS];
static struct watch_reply reply;
static struct watch_ctl_reply values;

/* Forget a descriptor before it is closed: the program may get its number
 * next. */
static void
close_one(atomic_int *fd)
{
	int old = atomic_exchange(fd, -1);

	if (old >= 0)
		close(old);
}

/* ---- Answers ----------------------------------------------------------- */

static void
begin_reply(enum watch_kind kind)
{
	memset(&reply, 0, watch_reply_size(0));
	reply.magic = WATCH_MAGIC;
	reply.version = WATCH_VERSION;
	reply.kind = kind;
	reply.pid = process;
	strncpy(reply.weir, weir_version(), sizeof(reply.weir) - 1);
}

/* Make the reply a refusal that gives the reason. */
static void
refuse_watcher(const char *why)
{
	reply.failed = 1;
	snprintf(reply.text, sizeof(reply.text), "%s", why);
}

static bool
send_bytes(int fd, const void *bytes, size_t size)
{
	return send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL) ==
	    (ssize_t)size;
}

static bool
send_reply(int fd, size_t size)
{
	return send_bytes(fd, &reply, size);
}

/* Is it a plain file that is open for writing? */
static bool
is_plain_file(int fd)
{
	struct stat file;
	int flags = fcntl(fd, F_GETFL);

	return fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
	    flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

static size_t
answer_snapshot(const struct watch_request *request, int file)
{
	if (!is_plain_file(file))
		refuse_watcher("no file to write came along");
	else if (snapshot_onto(file,
		     request->json != 0 ? WEIR_SNAPSHOT_JSON :
					  WEIR_SNAPSHOT_PICKLE) != WEIR_OK)
		refuse_watcher(status_latest_text());
	return watch_reply_size(0);
}

/* Answer a request for values by name. */
static bool
answer_ctl(int fd, const struct watch_ctl_request *request)
{
	char why[WATCH_TEXT];

	begin_reply((enum watch_kind)request->kind);
	memset(&values, 0, watch_ctl_reply_size(0));
	values.magic = WATCH_MAGIC;
	values.version = WATCH_VERSION;
	values.kind = request->kind;
	values.pid = process;
	if (!ctl_answer(request, &values, why))
		refuse_watcher(why);
	else if (request->kind == WATCH_LIST)
		return send_bytes(
		    fd, &values, watch_ctl_reply_size(values.row_count));
	return send_reply(fd, watch_reply_size(0));
}

/* False: the connection ends. */
static bool
answer(int fd, const void *bytes, size_t n, int file)
{
	const char *fault = watch_request_fault(bytes, n);
	struct watch_request request;
	size_t size;

	if (fault != NULL) {
		begin_reply(WATCH_STATS);
		refuse_watcher(fault);
		send_reply(fd, watch_reply_size(0));
		return false;
	}
	memcpy(&request, bytes, sizeof(request));
	if (request.kind == WATCH_LIST || request.kind == WATCH_SET)
		return answer_ctl(fd, bytes);
	begin_reply((enum watch_kind)request.kind);
	size = request.kind == WATCH_SNAPSHOT ?
	    answer_snapshot(&request, file) :
	    live_gather(&reply);
	return send_reply(fd, size);
}

/* ---- Requests ---------------------------------------------------------- */

/* The descriptor that came with a message, or -1. If several came, return the
 * last and close the others. */
static int
receive_file(struct msghdr *message)
{
	int file = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL;
	     c = CMSG_NXTHDR(message, c)) {
		size_t n = c->cmsg_len < CMSG_LEN(0) ?
		    0 :
		    (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			if (file >= 0)
				close(file);
			memcpy(&file, CMSG_DATA(c) + i * sizeof(int),
			    sizeof(file));
		}
	}
	return file;
}

/* False: the watcher has gone, or the connection ends. */
static bool
serve_watcher(int fd)
{
	union {
		struct watch_request request;
		struct watch_ctl_request values;
		char more[sizeof(struct watch_ctl_request) + 1];
	} bytes;
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = { &bytes, sizeof(bytes) };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room) };
	ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	bool go_on = false;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	int file = receive_file(&message);
	if (n > 0)
		go_on = answer(fd, &bytes, (size_t)n, file);
	if (file >= 0)
		close(file);
	return go_on;
}

static void
agent_nap(long milliseconds)
{
	const struct timespec time = { .tv_nsec = milliseconds * 1000000L };

	nanosleep(&time, NULL);
}

/* How readily a watcher loses its place to a newcomer; 0: not now. */
static uint64_t
watcher_costs(int i)
{
	enum { SILENT = 1, FLOODS = 2, ASKED_NOTHING = 3 };
	const uint64_t class = UINT64_C(1) << 60;
	uint64_t here_ns = os_monotonic_ns() - watchers[i].came_ns;
	uint64_t most =
	    FLOOD_PER_S + FLOOD_PER_S * (here_ns / UINT64_C(1000000000));

	if (here_ns < GRACE_MS * UINT64_C(1000000))
		return 0;
	if (watchers[i].requests == 0)
		return ASKED_NOTHING * class + here_ns;
	if (watchers[i].requests > most)
		return FLOODS * class + watchers[i].requests;
	return SILENT * class + (os_time_ns() - watchers[i].heard_ns);
}

/* The place for a newcomer: one that is free, or that of the watcher which
 * loses it; CLIENTS if there is none now. A watcher that has asked keeps its
 * place while one that has not may still turn out to ask nothing. */
static int
find_place(void)
{
	uint64_t most = 0;
	int worst = CLIENTS;
	bool undecided = false;

	for (int i = 0; i < CLIENTS; i++) {
		uint64_t costs;

		if (atomic_load(&clients[i]) < 0)
			return i;
		costs = watcher_costs(i);
		undecided |= costs == 0 && watchers[i].requests == 0;
		if (costs > most) {
			most = costs;
			worst = i;
		}
	}
	return worst < CLIENTS && watchers[worst].requests > 0 && undecided ?
	    CLIENTS :
	    worst;
}

static void
greet(void)
{
	int fd = os_fd_up(accept4(
	    atomic_load(&listener), NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	int i;

	/* Without descriptors the watcher stays in the queue; asking again at
	 * once would keep a processor busy. */
	if (fd < 0) {
		agent_nap(errno == EMFILE || errno == ENFILE ? REST_MS :
							       GREET_NAP_MS);
		return;
	}
	i = find_place();
	if (i < CLIENTS && meeting_peer_is_own(fd)) {
		close_one(&clients[i]);
		watchers[i].came_ns = os_monotonic_ns();
		watchers[i].heard_ns = os_time_ns();
		watchers[i].requests = 0;
		atomic_store(&clients[i], fd);
		return;
	}
	begin_reply(WATCH_STATS);
	refuse_watcher("this process is another user's");
	send_reply(fd, watch_reply_size(0));
	close(fd);
	agent_nap(GREET_NAP_MS);
}

/* ---- The thread -------------------------------------------------------- */

/* The array for poll(): the eventfd, the listener unless a newcomer has to
 * wait, then the watchers. It has no empty entries, because poll() refuses more
 * entries than the program may have descriptors. */
struct polled {
	struct pollfd fds[2 + CLIENTS];
	int client[2 + CLIENTS]; /* of fds from the third on */
	size_t count;
};

static void
fill_polled(struct polled *polled)
{
	polled->fds[0] =
	    (struct pollfd){ .fd = atomic_load(&wake), .events = POLLIN };
	polled->fds[1] = (struct pollfd){
		.fd = find_place() < CLIENTS ? atomic_load(&listener) : -1,
		.events = POLLIN
	};
	polled->count = 2;
	for (int i = 0; i < CLIENTS; i++) {
		int fd = atomic_load(&clients[i]);

		if (fd < 0)
			continue;
		polled->client[polled->count] = i;
		polled->fds[polled->count++] =
		    (struct pollfd){ .fd = fd, .events = POLLIN };
	}
}

static void
look_at_clients(const struct polled *polled)
{
	uint64_t now_ns = os_time_ns();

	for (size_t n = 2; n < polled->count; n++) {
		int i = polled->client[n];
		int fd = atomic_load(&clients[i]);

		if (fd < 0 || polled->fds[n].fd != fd)
			continue;
		if (polled->fds[n].revents != 0) {
			watchers[i].heard_ns = now_ns;
			watchers[i].requests++;
			if (!serve_watcher(fd))
				close_one(&clients[i]);
			agent_nap(NAP_MS);
		} else if (now_ns - watchers[i].heard_ns >
		    SILENCE_S * UINT64_C(1000000000)) {
			close_one(&clients[i]);
		}
	}
}

/* End the process as if nobody had handled the signal. */
static void
end_by(int number)
{
	sigset_t set;

	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
}

static void
look_at_wake(int fd)
{
	uint64_t times;

	if (read(fd, &times, sizeof(times)) != (ssize_t)sizeof(times))
		return;
	if (!atomic_load(&ending) && atomic_exchange(&signalled, false))
		auto_snapshot_write(AUTO_SNAPSHOT_SIGNAL);
	if (atomic_load(&terminated)) {
		auto_snapshot_exit();
		end_by(SIGTERM);
	}
}

static void *
agent_run(void *unused)
{
	static struct polled polled;

	(void)unused;
	pthread_setname_np(pthread_self(), "weir-watch");
	status_mute();
	while (!atomic_load(&ending)) {
		fill_polled(&polled);
		int ready = poll(polled.fds, polled.count,
		    polled.fds[1].fd < 0 ? GRACE_MS : GLANCE_MS);

		if (ready < 0 && errno != EINTR && errno != ENOMEM)
			break;
		if (ready <= 0)
			continue;
		/* The program has closed descriptors that it does not know. */
		if (((polled.fds[0].revents | polled.fds[1].revents) &
			POLLNVAL) != 0)
			break;
		if (polled.fds[0].revents != 0)
			look_at_wake(polled.fds[0].fd);
		look_at_clients(&polled);
		if (polled.fds[1].revents != 0)
			greet();
	}
	return NULL;
}

static void
wake_thread(void)
{
	const uint64_t once = 1;
	int fd = atomic_load(&wake);

	/* The write fails only if the counter is at its maximum: the thread is
	 * awake then. */
	if (os_is_eventfd(fd) && write(fd, &once, sizeof(once)) < 0)
		return;
}

/* ---- Signals ----------------------------------------------------------- */

static void
on_signal(int number)
{
	int error = errno;

	(void)number;
	if ((unsigned)getpid() == process) {
		atomic_store(&signalled, true);
		wake_thread();
	}
	errno = error;
}

/* Let the thread write the snapshot and then end the process by SIGTERM. In a
 * child, and if the snapshot takes too long, end it at once. */
static void
on_term(int number, siginfo_t *info, void *unused)
{
	const struct itimerspec long_enough = { .it_value.tv_sec = LAST_S };
	int error = errno;

	(void)unused;
	if ((unsigned)getpid() != process || !has_last_timer ||
	    info->si_code == SI_TIMER || atomic_load(&ending)) {
		signal(number, SIG_DFL);
		raise(number); /* delivered when this handler returns */
	} else if (!atomic_exchange(&terminated, true)) {
		timer_settime(last_timer, 0, &long_enough, NULL);
		wake_thread();
	}
	errno = error;
}

static bool
is_default(int number)
{
	struct sigaction found;

	return sigaction(number, NULL, &found) == 0 &&
	    (found.sa_flags & SA_SIGINFO) == 0 && found.sa_handler == SIG_DFL;
}

/* Handle SIGTERM if a snapshot is wanted at the end. If the program handles it,
 * leave it alone and log nothing: such programs mostly end by exit(). */
static void
handle_term(const struct options *options)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGTERM };
	struct sigaction action = { .sa_sigaction = on_term,
		.sa_flags = SA_RESTART | SA_SIGINFO };

	if (options->snapshot[0] == '\0' || !is_default(SIGTERM))
		return;
	has_last_timer =
	    timer_create(CLOCK_MONOTONIC, &event, &last_timer) == 0;
	sigemptyset(&action.sa_mask);
	if (has_last_timer)
		sigaction(SIGTERM, &action, NULL);
}

static void
handle_signal(const struct options *options)
{
	struct sigaction action = { .sa_handler = on_signal,
		.sa_flags = SA_RESTART };
	int number = options->snapshot_signal;

	if (number == 0)
		return;
	sigemptyset(&action.sa_mask);
	if (!is_default(number))
		log_write(LOG_ERROR,
		    "snapshot_signal: the program has a use for that signal");
	else if (sigaction(number, &action, NULL) != 0)
		log_write(LOG_ERROR, "snapshot_signal: cannot be taken");
	else
		handled = number;
}

/* Ignore the snapshot's signal from now on and restore SIGTERM's default: this
 * library may be unloaded. */
static void
release_signals(void)
{
	struct sigaction found;

	if (has_last_timer && sigaction(SIGTERM, NULL, &found) == 0 &&
	    (found.sa_flags & SA_SIGINFO) != 0 &&
	    found.sa_sigaction == on_term && !atomic_load(&terminated))
		signal(SIGTERM, SIG_DFL);

	if (handled != 0 && sigaction(handled, NULL, &found) == 0 &&
	    found.sa_handler == on_signal)
		signal(handled, SIG_IGN);
}

/* ---- Beginning and end ------------------------------------------------- */

static void
close_all(void)
{
	close_one(&listener);
	for (int i = 0; i < CLIENTS; i++)
		close_one(&clients[i]);
	close_one(&folder);
	close_one(&wake);
}

static void
agent_stop(void)
{
	struct timespec until;

	if (os_forked() || process != os_process_id())
		return;
	release_signals();
	if (atomic_load(&folder) >= 0)
		meeting_leave(atomic_load(&folder), (pid_t)process);
	atomic_store(&ending, true);
	/* If the program has closed all descriptors, nothing can wake the
	 * thread. */
	if (!os_is_eventfd(atomic_load(&wake)))
		return;
	wake_thread();
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_S;
	/* A thread that hangs keeps its descriptors. */
	if (pthread_timedjoin_np(thread, NULL, &until) == 0)
		close_all();
}

static void
open_socket(void)
{
	int fd;

	if (meeting_place(&fd) != WEIR_OK) {
		log_write(LOG_ERROR, "watch: %s", status_latest_text());
		return;
	}
	atomic_store(&folder, fd);
	if (meeting_listen(atomic_load(&folder), (pid_t)process, &fd) ==
	    WEIR_OK)
		atomic_store(&listener, fd);
	else
		log_write(LOG_ERROR, "watch: %s", status_latest_text());
}

/* Start the thread. It inherits the signal mask, so all signals are blocked
 * meanwhile. */
static bool
make_thread(void)
{
	pthread_attr_t attributes;
	sigset_t all;
	sigset_t before;

	if (pthread_attr_init(&attributes) != 0)
		return false;
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool made = pthread_create(&thread, &attributes, agent_run, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return made;
}

void
agent_begin(const struct options *options)
{
	if (!options->watch && options->snapshot[0] == '\0')
		return;
	process = os_process_id();
	for (int i = 0; i < CLIENTS; i++)
		atomic_store(&clients[i], -1);
	atomic_store(&wake, os_fd_up(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	if (atomic_load(&wake) >= 0 && options->watch)
		open_socket();
	if (atomic_load(&wake) < 0 ||
	    pthread_atfork(NULL, NULL, close_all) != 0 || !make_thread()) {
		log_write(LOG_ERROR, "watch: the thread cannot be made");
		close_all();
		return;
	}
	atexit(agent_stop);
	handle_signal(options);
	handle_term(options);
}
