/*
 * The thread that answers processes which open this process's memory.
 *
 * Note [Peers]
 *
 * A peer is a process that has connected. The system says which process it is,
 * and it must belong to this user. A peer holds the memory that it has opened
 * until it closes the memory or ends. Its pidfd reports the end, but only when
 * the process's descriptors, and thereby its work on devices, are gone. A
 * closed connection does not mean that: the process may go on using the memory,
 * so its holds stay.
 *
 * The thread never waits for a peer. Sockets do not block. A malformed request,
 * or a reply that does not fit into the socket, ends the connection. There are
 * at most ANSWER_PEERS peers, and a peer's holds are a list of existing
 * exports.
 *
 * A guest is a peer that holds nothing. It costs the program two descriptors,
 * so there are at most ANSWER_GUESTS. A newcomer gets the place of the guest
 * that came first, unless that has had less than ANSWER_GRACE_MS to open
 * something; until then the newcomer waits in the system's queue. So
 * connections that say nothing keep nobody out, and take no descriptors that
 * the program needs.
 *
 * A forked child does not have this thread, so it closes the sockets. At exit
 * the thread is asked to end, and exit waits for it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/process.h"
#include "base/status.h"
#include "ipc/ipc.h"
#include "ipc/tuning.h"

/* An export that a peer has open. */
struct hold {
	struct hold *next;
	struct weir_ipc_export *export;
	size_t times;
};

/* Used only by the thread, except that a forked child closes the descriptors.
 */
struct peer {
	bool used;
	uint64_t came_ns;
	atomic_int fd;    /* -1: the connection is closed */
	atomic_int pidfd; /* -1: the entry is not used */
	struct hold *holds;
};

static struct peer peers[ANSWER_PEERS];
static atomic_int wake = -1;
static atomic_int listener = -1;
static atomic_bool ending;
static atomic_uint holders; /* number of peers with holds */
static pthread_t thread;
static unsigned process;

static void
close_descriptor(atomic_int *fd)
{
	int old = atomic_exchange(fd, -1);

	if (old >= 0)
		close(old);
}

/* ---- Holds ------------------------------------------------------------- */

static struct hold **
hold_of(struct peer *peer, uint64_t number)
{
	struct hold **at = &peer->holds;

	while (*at != NULL && (*at)->export->number != number)
		at = &(*at)->next;
	return at;
}

static enum ipc_refusal
hold_add(struct peer *peer, const struct ipc_request *request,
    struct weir_ipc_export **out)
{
	struct weir_ipc_export *export =
	    owner_hold(request->number, request->secret);
	struct hold *hold;

	if (export == NULL)
		return IPC_NOT_SHARED;
	hold = *hold_of(peer, request->number);
	if (hold == NULL) {
		hold = meta_zalloc(sizeof(*hold));
		if (hold == NULL) {
			owner_drop(export, 1);
			return IPC_NO_MEMORY;
		}
		if (peer->holds == NULL)
			atomic_fetch_add(&holders, 1);
		hold->export = export;
		hold->next = peer->holds;
		peer->holds = hold;
	}
	hold->times++;
	*out = export;
	return IPC_GRANTED;
}

static void
hold_remove(struct peer *peer, struct hold **at)
{
	struct hold *hold = *at;

	*at = hold->next;
	if (peer->holds == NULL)
		atomic_fetch_sub(&holders, 1);
	owner_drop(hold->export, hold->times);
	meta_free(hold, sizeof(*hold));
}

static enum ipc_refusal
hold_drop(struct peer *peer, uint64_t number)
{
	struct hold **at = hold_of(peer, number);

	if (*at == NULL)
		return IPC_NOT_OPEN;
	if ((*at)->times == 1) {
		hold_remove(peer, at);
	} else {
		(*at)->times--;
		owner_drop((*at)->export, 1);
	}
	return IPC_GRANTED;
}

unsigned
answer_peers(void)
{
	return atomic_load(&holders);
}

/* ---- Answers ----------------------------------------------------------- */

/* Collect up to IPC_BATCH pieces, beginning with the requested one. */
static enum ipc_refusal
gather_pieces(struct peer *peer, const struct ipc_request *request,
    struct ipc_reply *reply, int fds[IPC_BATCH])
{
	const struct hold *hold = *hold_of(peer, request->number);
	const struct weir_ipc_export *export;

	if (hold == NULL)
		return IPC_NOT_OPEN;
	export = hold->export;
	if (export->record.kind != IPC_MAPPED ||
	    request->first >= export->record.pieces)
		return IPC_OTHER_FORM;
	for (uint64_t i = request->first;
	     i < export->record.pieces && reply->n < IPC_BATCH; i++) {
		if (owner_piece(export, i, &fds[reply->n]) != WEIR_OK)
			return reply->n > 0 ? IPC_GRANTED : IPC_FAILED;
		reply->sizes[reply->n++] =
		    export->pieces[i + 1] - export->pieces[i];
	}
	return IPC_GRANTED;
}

static bool
send_ipc_reply(int fd, const struct ipc_reply *reply, const int *fds)
{
	return ipc_send(fd, reply, sizeof(*reply), fds, reply->n) ==
	    (ssize_t)sizeof(*reply);
}

/* Answer a request. False: the connection must be closed. */
static bool
answer_request(struct peer *peer, const struct ipc_request *request)
{
	struct ipc_reply reply =
	    ipc_reply_make((enum ipc_verb)request->verb, IPC_GRANTED);
	struct weir_ipc_export *export = NULL;
	int fds[IPC_BATCH] = { 0 };
	bool sent;

	switch (request->verb) {
	case IPC_OPEN:
		reply.refusal = hold_add(peer, request, &export);
		if (export != NULL)
			reply.record = export->record;
		break;
	case IPC_PIECES:
		reply.refusal = gather_pieces(peer, request, &reply, fds);
		break;
	default:
		reply.refusal = hold_drop(peer, request->number);
	}
	sent = send_ipc_reply(atomic_load(&peer->fd), &reply, fds);
	for (uint32_t i = 0; i < reply.n; i++)
		close(fds[i]);
	/* The peer cannot use an export if it did not get the reply. */
	if (!sent && export != NULL)
		hold_drop(peer, request->number);
	return sent;
}

static bool
serve_peer(struct peer *peer)
{
	struct ipc_request request;
	int fd = atomic_load(&peer->fd);
	/* The system closes descriptors that come with the message. */
	ssize_t n = recv(fd, &request, sizeof(request), MSG_TRUNC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	if (ipc_request_fault(&request, (size_t)n) == NULL)
		return answer_request(peer, &request);
	struct ipc_reply reply = ipc_reply_make(IPC_CLOSE, IPC_OTHER_FORM);
	send_ipc_reply(fd, &reply, NULL);
	return false;
}

/* ---- Peers ------------------------------------------------------------- */

/* Remove a peer that has ended, or has disconnected and holds nothing. */
static void
forget_peer(struct peer *peer)
{
	while (peer->holds != NULL)
		hold_remove(peer, &peer->holds);
	close_descriptor(&peer->fd);
	close_descriptor(&peer->pidfd);
	peer->used = false;
}

static struct peer *
find_free(void)
{
	for (int i = 0; i < ANSWER_PEERS; i++)
		if (!peers[i].used)
			return &peers[i];
	return NULL;
}

/* The guest that came first, if there are as many guests as may be; else
 * NULL. */
static struct peer *
guest_to_leave(void)
{
	struct peer *first = NULL;
	int guests = 0;

	for (int i = 0; i < ANSWER_PEERS; i++) {
		struct peer *peer = &peers[i];

		if (!peer->used || peer->holds != NULL)
			continue;
		guests++;
		if (first == NULL || peer->came_ns < first->came_ns)
			first = peer;
	}
	return guests >= ANSWER_GUESTS ? first : NULL;
}

/* Must a newcomer wait until the first guest has had its time? */
static bool
is_crowded(void)
{
	const struct peer *guest = guest_to_leave();

	return guest != NULL &&
	    os_monotonic_ns() - guest->came_ns <
	    ANSWER_GRACE_MS * UINT64_C(1000000);
}

static void
greet_peer(void)
{
	struct ipc_reply reply;
	struct peer *guest = guest_to_leave();
	struct peer *peer;
	int fd = os_fd_up(accept4(
	    atomic_load(&listener), NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
	int pidfd = -1;
	pid_t pid;

	/* Without descriptors the peer stays in the queue; asking again at once
	 * would keep a processor busy. */
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			poll(NULL, 0, ANSWER_REST_MS);
		return;
	}
	if (guest != NULL)
		forget_peer(guest);
	peer = find_free();
	if (ipc_peer(fd, &pid) && peer != NULL)
		pidfd = process_open(pid);
	if (pidfd >= 0) {
		*peer =
		    (struct peer){ .used = true, .came_ns = os_monotonic_ns() };
		atomic_store(&peer->pidfd, pidfd);
		atomic_store(&peer->fd, fd);
		return;
	}
	reply = ipc_reply_make(IPC_OPEN, IPC_TOO_MANY);
	send_ipc_reply(fd, &reply, NULL);
	close(fd);
}

/* A descriptor that the program has closed reports nothing any more, and its
 * number may now be used for another file. So it is ignored, and the peer's
 * holds stay. */
static void
look_at_peer(struct peer *peer, short said, short ended)
{
	if ((said & POLLNVAL) != 0) {
		atomic_store(&peer->fd, -1);
		said = 0;
	}
	if ((ended & POLLNVAL) != 0) {
		atomic_store(&peer->pidfd, -1);
		ended = 0;
	}
	if (said != 0 && !serve_peer(peer))
		close_descriptor(&peer->fd);
	if (ended != 0 || (atomic_load(&peer->fd) < 0 && peer->holds == NULL))
		forget_peer(peer);
}

/* ---- The thread -------------------------------------------------------- */

/* The array for poll(): the eventfd, the listener unless a newcomer has to
 * wait, then two entries for each peer. There are none for places that are
 * free, because poll() refuses more entries than the program may have
 * descriptors. */
struct polled_peers {
	struct pollfd fds[2 + 2 * ANSWER_PEERS];
	struct peer *peer[ANSWER_PEERS];
	size_t count; /* of peers */
};

/* poll() ignores descriptors of -1. */
static void
fill_descriptors(struct polled_peers *polled)
{
	polled->fds[0] =
	    (struct pollfd){ .fd = atomic_load(&wake), .events = POLLIN };
	polled->fds[1] =
	    (struct pollfd){ .fd = is_crowded() ? -1 : atomic_load(&listener),
		    .events = POLLIN };
	polled->count = 0;
	for (int i = 0; i < ANSWER_PEERS; i++) {
		struct pollfd *pair = &polled->fds[2 + 2 * polled->count];

		if (!peers[i].used)
			continue;
		pair[0] = (struct pollfd){ .fd = atomic_load(&peers[i].fd),
			.events = POLLIN };
		pair[1] = (struct pollfd){ .fd = atomic_load(&peers[i].pidfd),
			.events = POLLIN };
		polled->peer[polled->count++] = &peers[i];
	}
}

static void *
run_answering(void *unused)
{
	static struct polled_peers polled;

	(void)unused;
	pthread_setname_np(pthread_self(), "weir-ipc");
	status_mute();
	while (!atomic_load(&ending)) {
		fill_descriptors(&polled);
		int ready = poll(polled.fds, 2 + 2 * polled.count,
		    polled.fds[1].fd < 0 ? ANSWER_GRACE_MS : -1);

		if (ready < 0 && errno != EINTR && errno != ENOMEM)
			break;
		if (ready <= 0)
			continue;
		/* The program has closed descriptors that are not its own. */
		if (((polled.fds[0].revents | polled.fds[1].revents) &
			POLLNVAL) != 0)
			break;
		for (size_t i = 0; i < polled.count; i++) {
			const struct pollfd *pair = &polled.fds[2 + 2 * i];

			look_at_peer(
			    polled.peer[i], pair[0].revents, pair[1].revents);
		}
		if (polled.fds[1].revents != 0)
			greet_peer();
	}
	return NULL;
}

/* ---- Beginning and end ------------------------------------------------- */

static void
close_answering(void)
{
	close_descriptor(&listener);
	close_descriptor(&wake);
	for (int i = 0; i < ANSWER_PEERS; i++) {
		if (!peers[i].used)
			continue;
		close_descriptor(&peers[i].fd);
		close_descriptor(&peers[i].pidfd);
	}
}

static void
stop(void)
{
	const uint64_t once = 1;
	struct timespec until;

	if (os_forked() || process != os_process_id())
		return;
	atomic_store(&ending, true);
	/* If the program has closed all descriptors, this cannot wake the
	 * thread, which may have ended because of that. */
	if (!os_is_eventfd(atomic_load(&wake)) ||
	    write(atomic_load(&wake), &once, sizeof(once)) < 0) {
		pthread_tryjoin_np(thread, NULL);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ANSWER_END_S;
	if (pthread_timedjoin_np(thread, NULL, &until) == 0)
		close_answering();
}

/* Open this process's socket, with a name that cannot be guessed. */
static int
listen_at(uint64_t *nonce)
{
	struct sockaddr_un address;
	unsigned size;
	int fd;

	if (getrandom(nonce, sizeof(*nonce), 0) != sizeof(*nonce))
		return -1;
	size = ipc_socket_address((int32_t)os_process_id(), *nonce, &address);
	fd = os_fd_up(
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (fd >= 0 &&
	    (bind(fd, (struct sockaddr *)&address, size) != 0 ||
		listen(fd, ANSWER_WAITING) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool
pidfds_work(void)
{
	int pidfd = process_open((pid_t)os_process_id());

	if (pidfd >= 0)
		close(pidfd);
	return pidfd >= 0;
}

enum weir_status
answer_start(uint64_t *nonce)
{
	static bool started;
	static uint64_t own;

	if (started) {
		*nonce = own;
		return WEIR_OK;
	}
	if (!pidfds_work())
		return status_set(WEIR_ENOTSUP,
		    "weir_ipc_export: the system has no descriptors of "
		    "processes (pidfd_open)");
	process = os_process_id();
	os_watch_fork();
	atomic_store(&listener, listen_at(&own));
	atomic_store(&wake, os_fd_up(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
	if (atomic_load(&listener) < 0 || atomic_load(&wake) < 0 ||
	    pthread_atfork(NULL, NULL, close_answering) != 0 ||
	    !os_thread_start(&thread, run_answering, NULL)) {
		close_answering();
		return status_set(WEIR_EHOSTMEM,
		    "weir_ipc_export: the thread that answers, or its socket, "
		    "cannot be made");
	}
	atexit(stop);
	started = true;
	*nonce = own;
	return WEIR_OK;
}
