/*
 * The messages between the owner of memory and its openers.
 *
 * Each message is one packet of a fixed length, so it arrives completely or not
 * at all. A request has one reply. All numbers in a message are checked here
 * before they are used.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os.h"
#include "ipc/ipc.h"

static const char name_magic[8] = "weirIPC\3";
static const char wire_magic[8] = "weirWIR\1";

_Static_assert(
    sizeof(struct ipc_name) == WEIR_IPC_HANDLE_BYTES, "a name fills a handle");

/* ---- Handles ----------------------------------------------------------- */

void
ipc_name_make(struct ipc_name *name, const unsigned char *secret)
{
	memcpy(name->magic, name_magic, sizeof(name_magic));
	name->pid = (int32_t)os_process_id();
	memcpy(name->secret, secret, IPC_SECRET_BYTES);
}

const char *
ipc_name_fault(const struct ipc_name *name)
{
	static const unsigned char zeros[sizeof(name->zeros)];

	if (memcmp(name->magic, name_magic, sizeof(name_magic)) != 0 ||
	    name->pid <= 0 || name->number == 0 || name->unused != 0 ||
	    memcmp(name->zeros, zeros, sizeof(zeros)) != 0)
		return "these bytes are not a handle of weir";
	return NULL;
}

/* ---- Requests and replies ---------------------------------------------- */

struct ipc_request
ipc_request_make(enum ipc_verb verb, uint64_t number)
{
	struct ipc_request request = { .verb = verb, .number = number };

	memcpy(request.magic, wire_magic, sizeof(wire_magic));
	return request;
}

const char *
ipc_request_fault(const void *bytes, size_t n)
{
	struct ipc_request request;

	if (n != sizeof(request))
		return "the request has another length";
	memcpy(&request, bytes, sizeof(request));
	if (memcmp(request.magic, wire_magic, sizeof(wire_magic)) != 0)
		return "the request is not one of weir's";
	if (request.verb < IPC_OPEN || request.verb > IPC_CLOSE)
		return "the request asks for something unknown";
	if (request.first >= IPC_PIECES_MAX)
		return "the request is for an impossible piece";
	return NULL;
}

struct ipc_reply
ipc_reply_make(enum ipc_verb verb, enum ipc_refusal refusal)
{
	struct ipc_reply reply = { .verb = verb, .refusal = refusal };

	memcpy(reply.magic, wire_magic, sizeof(wire_magic));
	return reply;
}

static const char *
pieces_fault(const struct ipc_reply *reply)
{
	for (uint32_t i = 0; i < reply->n; i++)
		if (reply->sizes[i] == 0 || reply->sizes[i] > WEIR_SIZE_MAX)
			return "it names a piece of an impossible size";
	return NULL;
}

const char *
ipc_reply_fault(const void *bytes, size_t n, enum ipc_verb verb, size_t n_fds)
{
	struct ipc_reply reply;

	if (n != sizeof(reply))
		return "its answer has another length";
	memcpy(&reply, bytes, sizeof(reply));
	if (memcmp(reply.magic, wire_magic, sizeof(wire_magic)) != 0 ||
	    reply.verb != verb || reply.refusal >= IPC_REFUSALS_END ||
	    reply.unused != 0)
		return "its answer has another form";
	if (reply.n > IPC_BATCH || reply.n != n_fds)
		return "its answer does not have as many descriptors as it "
		       "states";
	if (reply.n > 0 && verb != IPC_PIECES)
		return "its answer has descriptors that were not requested";
	if (reply.refusal != IPC_GRANTED)
		return reply.n == 0 ? NULL :
				      "its answer refuses and has content";
	if (verb == IPC_OPEN)
		return ipc_record_fault(&reply.record);
	if (verb == IPC_PIECES && reply.n == 0)
		return "its answer has no pieces";
	return pieces_fault(&reply);
}

const char *
ipc_refusal_text(uint32_t refusal)
{
	static const char *const texts[] = {
#define IPC_REFUSAL_TEXT(name, text) text,
		IPC_REFUSALS(IPC_REFUSAL_TEXT)
#undef IPC_REFUSAL_TEXT
	};

	return refusal < IPC_REFUSALS_END ? texts[refusal] : "it refuses";
}

/* ---- Sockets ----------------------------------------------------------- */

unsigned
ipc_socket_address(int32_t pid, uint64_t nonce, struct sockaddr_un *out)
{
	int n;

	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1,
	    "weir-ipc-%d-%016llx", (int)pid, (unsigned long long)nonce);
	return (
	    unsigned)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(IPC_BATCH * sizeof(int))];
};

ssize_t
ipc_send(int fd, const void *bytes, size_t n, const int *fds, size_t n_fds)
{
	union control control = { 0 };
	struct iovec part = { (void *)bytes, n };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *header;

	if (n_fds > 0) {
		message.msg_control = control.room;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(header), fds, n_fds * sizeof(int));
	}
	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* Take all descriptors of a message, which has room for IPC_BATCH of them. */
static size_t
take_fds(struct msghdr *message, int fds[IPC_BATCH])
{
	size_t taken = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL;
	     c = CMSG_NXTHDR(message, c)) {
		size_t n = c->cmsg_len < CMSG_LEN(0) ?
		    0 :
		    (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n && taken < IPC_BATCH; i++)
			memcpy(&fds[taken++], CMSG_DATA(c) + i * sizeof(int),
			    sizeof(int));
	}
	return taken;
}

ssize_t
ipc_receive(int fd, void *bytes, size_t n, int fds[IPC_BATCH], size_t *n_fds)
{
	union control control = { 0 };
	struct iovec part = { bytes, n };
	struct msghdr message = { .msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room) };
	ssize_t got;

	do
		got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	*n_fds = got >= 0 ? take_fds(&message, fds) : 0;
	if (got >= 0 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
		got = 0;
	return got;
}
