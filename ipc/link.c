/*
 * Connections to the owners of memory: one for each owner, shared by all open
 * exports of that owner and closed with the last.
 *
 * An owner gets one request at a time, and its reply is checked before it is
 * used. After a malformed reply, or if none comes in time, the connection is
 * closed. The owner's open exports stay open, and count as held until this
 * process ends.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/process.h"
#include "base/status.h"
#include "ipc/ipc.h"

struct ipc_link {
	/* Constant. */
	pid_t pid;
	uint64_t nonce;
	int pidfd;

	/* Guarded by the lock of all links. */
	struct ipc_link *next;
	size_t uses;

	struct lock asking; /* guards the following fields */
	int fd;             /* -1: closed for good */
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_LINKS);
static struct ipc_link *all;

static unsigned patience_ms = IPC_PATIENCE_MS;

void
link_patience(unsigned milliseconds)
{
	patience_ms = milliseconds;
}

/* ---- Connecting -------------------------------------------------------- */

static enum weir_status
connect_to(const struct ipc_name *name, int *out)
{
	const struct timeval patience = { .tv_sec = patience_ms / 1000,
		.tv_usec = patience_ms % 1000 * 1000 };
	struct sockaddr_un address;
	unsigned size = ipc_socket_address(name->pid, name->nonce, &address);
	pid_t pid = 0;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return status_set(WEIR_EHOSTMEM,
		    "weir_ipc_open: no socket can be made (error %d)", errno);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	/* A signal interrupts connect() while the owner's queue is full. */
	uint64_t end = os_monotonic_ns() + patience_ms * UINT64_C(1000000);
	int code;
	do
		code = connect(fd, (struct sockaddr *)&address, size);
	while (code != 0 && errno == EINTR && os_monotonic_ns() < end);
	if (code != 0 && errno == EINTR)
		errno = EAGAIN;
	if (code != 0) {
		enum weir_status status =
		    errno == EAGAIN ? WEIR_ENOTREADY : WEIR_EINVAL;
		close(fd);
		return status_set(status, "weir_ipc_open: process %d %s",
		    (int)name->pid,
		    status == WEIR_EINVAL ?
			"has ended, or cannot be reached from here" :
			"does not answer");
	}
	if (!ipc_peer(fd, &pid) || pid != name->pid) {
		close(fd);
		return status_set(WEIR_EINVAL,
		    "weir_ipc_open: process %d is another user's, or another "
		    "one answers for it",
		    (int)name->pid);
	}
	*out = fd;
	return WEIR_OK;
}

static enum weir_status
link_new(const struct ipc_name *name, struct ipc_link **out)
{
	struct ipc_link *link = meta_zalloc(sizeof(*link));
	enum weir_status status;

	if (link == NULL)
		return status_set(
		    WEIR_EHOSTMEM, "weir_ipc_open: no host memory");
	status = connect_to(name, &link->fd);
	if (status != WEIR_OK) {
		meta_free(link, sizeof(*link));
		return status;
	}
	lock_init(&link->asking, LOCK_RANK_LINK);
	link->pid = name->pid;
	link->nonce = name->nonce;
	link->pidfd = process_open(name->pid);
	link->uses = 1;
	*out = link;
	return WEIR_OK;
}

static void
link_free(struct ipc_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	if (link->pidfd >= 0)
		close(link->pidfd);
	lock_destroy(&link->asking);
	meta_free(link, sizeof(*link));
}

/* ---- Sharing ----------------------------------------------------------- */

/* Find a link that still works and count one more use; or NULL. */
static struct ipc_link *
find_link(const struct ipc_name *name) HOLDS(lock)
{
	for (struct ipc_link *link = all; link != NULL; link = link->next) {
		if (link->pid == name->pid && link->nonce == name->nonce &&
		    link->fd >= 0) {
			link->uses++;
			return link;
		}
	}
	return NULL;
}

enum weir_status
link_get(const struct ipc_name *name, struct ipc_link **out)
{
	struct ipc_link *fresh = NULL;
	struct ipc_link *known;
	enum weir_status status;

	lock_enter(&lock);
	known = find_link(name);
	lock_leave(&lock);
	if (known != NULL) {
		*out = known;
		return WEIR_OK;
	}
	/* The lock is not held, because an owner may be slow. */
	status = link_new(name, &fresh);
	if (status != WEIR_OK)
		return status;
	lock_enter(&lock);
	known = find_link(name);
	if (known == NULL) {
		fresh->next = all;
		all = fresh;
	}
	lock_leave(&lock);
	if (known != NULL)
		link_free(fresh);
	*out = known != NULL ? known : fresh;
	return WEIR_OK;
}

void
link_put(struct ipc_link *link)
{
	struct ipc_link **at = &all;
	bool last;

	lock_enter(&lock);
	last = --link->uses == 0;
	while (last && *at != link)
		at = &(*at)->next;
	if (last)
		*at = link->next;
	lock_leave(&lock);
	if (last)
		link_free(link);
}

bool
link_alive(const struct ipc_link *link)
{
	return !process_fd_ended(link->pidfd);
}

/* ---- Asking ------------------------------------------------------------ */

static void
close_links(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static enum weir_status
exchange(struct ipc_link *link, const struct ipc_request *request,
    struct ipc_reply *reply, int fds[IPC_BATCH]) HOLDS(link->asking)
{
	size_t n_fds = 0;
	const char *fault;
	ssize_t n;

	if (link->fd < 0)
		return status_set(WEIR_EINVAL,
		    "process %d was given up after a wrong answer",
		    (int)link->pid);
	n = ipc_send(link->fd, request, sizeof(*request), NULL, 0);
	if (n == (ssize_t)sizeof(*request))
		n = ipc_receive(link->fd, reply, sizeof(*reply), fds, &n_fds);
	if (n < 0 && errno == EAGAIN)
		return status_set(WEIR_ENOTREADY, "process %d does not answer",
		    (int)link->pid);
	fault = n <= 0 ? "it has ended, or has hung up" :
			 ipc_reply_fault(reply, (size_t)n,
			     (enum ipc_verb)request->verb, n_fds);
	if (fault == NULL)
		return WEIR_OK;
	close_links(fds, n_fds);
	return status_set(WEIR_EINVAL, "process %d: %s", (int)link->pid, fault);
}

/* Close the connection for good. find_link() reads the descriptor too, under
 * the lock of all links. */
static void
close_link(struct ipc_link *link) HOLDS(link->asking)
{
	lock_enter(&lock);
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
	lock_leave(&lock);
}

enum weir_status
link_ask(struct ipc_link *link, const struct ipc_request *request,
    struct ipc_reply *reply, int fds[IPC_BATCH])
{
	lock_enter(&link->asking);
	enum weir_status status = exchange(link, request, reply, fds);
	if (status != WEIR_OK)
		close_link(link);
	lock_leave(&link->asking);
	if (status == WEIR_OK && reply->refusal != IPC_GRANTED)
		status = status_set(WEIR_EINVAL, "process %d: %s",
		    (int)link->pid, ipc_refusal_text(reply->refusal));
	return status;
}
