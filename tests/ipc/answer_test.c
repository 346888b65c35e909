/*
 * The owner's thread against peers that die, hang up, send wrong facts, flood
 * or are silent.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/ipc.h"
#include "tests/ipc/other.h"
#include "tests/support/device.h"

enum { FLOOD = 300 };

/* ---- A peer that speaks by itself -------------------------------------- */

static struct ipc_name
name_of(const struct weir_ipc_handle *handle)
{
	struct ipc_name name;

	memcpy(&name, handle->bytes, sizeof(name));
	return name;
}

static int
connect_to(const struct weir_ipc_handle *handle)
{
	struct ipc_name name = name_of(handle);
	struct sockaddr_un address;
	unsigned size = ipc_socket_address(name.pid, name.nonce, &address);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	EXPECT_GE(fd, 0);
	EXPECT_EQ(connect(fd, (struct sockaddr *)&address, size), 0);
	return fd;
}

static struct ipc_request
request_for(const struct weir_ipc_handle *handle, enum ipc_verb verb)
{
	struct ipc_name name = name_of(handle);
	struct ipc_request request = ipc_request_make(verb, name.number);

	memcpy(request.secret, name.secret, IPC_SECRET_BYTES);
	return request;
}

/* Read the answer to a request; 99 if the owner has hung up instead. */
static unsigned
ask(int fd, const struct ipc_request *request)
{
	struct ipc_reply reply = { 0 };
	int fds[IPC_BATCH];
	size_t n_fds = 0;

	EXPECT_EQ(
	    ipc_send(fd, request, sizeof(*request), NULL, 0), sizeof(*request));
	if (ipc_receive(fd, &reply, sizeof(reply), fds, &n_fds) <= 0)
		return 99;
	EXPECT_NULL(ipc_reply_fault(
	    &reply, sizeof(reply), (enum ipc_verb)reply.verb, n_fds));
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
	return reply.refusal;
}

/* ---- Peers that end ---------------------------------------------------- */

static void
open_and_wait(int fd)
{
	struct weir_ipc_handle handle;
	struct weir_ipc_info info;
	weir_stream stream;

	/* A test may be skipped on a GPU. */
	if (recv(fd, &handle, sizeof(handle), MSG_WAITALL) <= 0)
		return;
	stream = new_stream();
	open_shared(&handle, stream, &info);
	open_shared(&handle, stream, &info);
	busy(stream, LATE_MS);
	fill(info.ptr, info.size, 66, stream);
	meet(fd);
	pause();
}

static void
expect_freed_by_death(weir_stream kind)
{
	struct other other = other_start(open_and_wait);
	struct weir_ipc_handle handle;

	conf("tcache:0");
	void *ptr = take(8 * MIB, kind);
	struct weir_ipc_export *export = share(ptr, WEIR_STREAM_ANY, &handle);
	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 2);
	weir_ipc_release(export);
	EXPECT_EQ(answer_peers(), 1);
	EXPECT_EQ(stats().allocated_bytes.all.current, 8 * MIB);
	other_kill(&other);
	EXPECT_SOON(stats().allocated_bytes.all.current == 0);
	EXPECT_EQ(answer_peers(), 0);
	EXPECT_EQ(trim(0) % (2 * MIB), 0);
	expect_healthy();
}

TEST(a_killed_peer_gives_mapped_memory_back)
{
	expect_freed_by_death(NULL);
}

TEST(a_killed_peer_gives_memory_of_the_driver_back)
{
	expect_freed_by_death(WEIR_STREAM_ANY);
}

TEST(a_killed_peer_keeps_nothing_that_the_program_still_shares)
{
	struct other other = other_start(open_and_wait);
	struct weir_ipc_handle handle;
	void *ptr = take(8 * MIB, NULL);
	struct weir_ipc_export *export = share(ptr, WEIR_STREAM_ANY, &handle);

	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	other_kill(&other);
	wait_for_peers(export, 0);
	EXPECT_EQ(info_of(ptr).requested_bytes, 8 * MIB);
	weir_ipc_release(export);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
}

/* The peer opens, hangs up, and lives on: the memory could still be in use. */
static void
hang_up_and_live(int fd)
{
	struct weir_ipc_handle handle;
	struct ipc_request request;
	int socket;

	hear(fd, &handle, sizeof(handle));
	socket = connect_to(&handle);
	request = request_for(&handle, IPC_OPEN);
	EXPECT_EQ(ask(socket, &request), IPC_GRANTED);
	close(socket);
	meet(fd);
	meet(fd);
}

TEST(a_peer_that_hangs_up_holds_until_it_ends)
{
	struct other other = other_start(hang_up_and_live);
	struct weir_ipc_handle handle;
	void *ptr = take(1 * MIB, NULL);
	struct weir_ipc_export *export = share(ptr, WEIR_STREAM_ANY, &handle);

	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	usleep(100 * 1000);
	EXPECT_EQ(weir_ipc_peers(export), 1);
	meet(other.fd);
	other_end(&other);
	wait_for_peers(export, 0);
	weir_ipc_release(export);
	expect_healthy();
}

/* A child of the peer has its socket too, and outlives it. */
static void
leave_a_child(int fd)
{
	struct weir_ipc_handle handle;
	struct weir_ipc_info info;

	hear(fd, &handle, sizeof(handle));
	open_shared(&handle, WEIR_STREAM_ANY, &info);
	if (fork() == 0) {
		alarm(20);
		pause();
		_exit(0);
	}
	meet(fd);
	_exit(0);
}

TEST(a_child_that_outlives_the_peer_holds_nothing)
{
	struct other other = other_start(leave_a_child);
	struct weir_ipc_handle handle;
	void *ptr = take(1 * MIB, NULL);
	struct weir_ipc_export *export = share(ptr, WEIR_STREAM_ANY, &handle);

	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	other_end(&other);
	wait_for_peers(export, 0);
	weir_ipc_release(export);
}

/* The owner closes descriptors that it does not know, as daemons do. It can no
 * longer detect the end of a peer, so memory that a peer has open may not be
 * reused. */
TEST(an_owner_that_closes_all_descriptors_frees_nothing_early)
{
	struct other other = other_start(open_and_wait);
	struct weir_ipc_handle handle;

	device_need_sim("the descriptors of a GPU's driver are its own");
	void *ptr = take(1 * MIB, NULL);
	struct weir_ipc_export *export = share(ptr, WEIR_STREAM_ANY, &handle);
	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	/* By the system call itself: it may happen at any time, and
	 * ThreadSanitizer would report close() as a race. */
	for (int fd = 3; fd < 256; fd++)
		if (fd != other.fd)
			syscall(SYS_close, fd);
	weir_ipc_release(export);
	other_kill(&other);
	usleep(100 * 1000);
	EXPECT_EQ(stats().allocated_bytes.all.current, 1 * MIB);
}

/* ---- Peers that lie ---------------------------------------------------- */

static void
ask_for_what_is_not_theirs(int fd)
{
	struct weir_ipc_handle handle;
	struct ipc_request request;
	int socket;

	hear(fd, &handle, sizeof(handle));
	socket = connect_to(&handle);
	request = request_for(&handle, IPC_OPEN);
	request.secret[5] ^= 1;
	EXPECT_EQ(ask(socket, &request), IPC_NOT_SHARED);
	request = request_for(&handle, IPC_OPEN);
	request.number += 1;
	EXPECT_EQ(ask(socket, &request), IPC_NOT_SHARED);
	request.number = UINT64_MAX;
	EXPECT_EQ(ask(socket, &request), IPC_NOT_SHARED);
	/* Without an open there are no pieces, and nothing can be closed. */
	request = request_for(&handle, IPC_PIECES);
	EXPECT_EQ(ask(socket, &request), IPC_NOT_OPEN);
	request = request_for(&handle, IPC_CLOSE);
	EXPECT_EQ(ask(socket, &request), IPC_NOT_OPEN);
	request = request_for(&handle, IPC_OPEN);
	EXPECT_EQ(ask(socket, &request), IPC_GRANTED);
	request = request_for(&handle, IPC_PIECES);
	request.first = IPC_PIECES_MAX - 1;
	EXPECT_EQ(ask(socket, &request), IPC_OTHER_FORM);
	request = request_for(&handle, IPC_CLOSE);
	EXPECT_EQ(ask(socket, &request), IPC_GRANTED);
	EXPECT_EQ(ask(socket, &request), IPC_NOT_OPEN);
	meet(fd);
}

TEST(a_peer_gets_only_exports_that_it_has_the_handle_of)
{
	struct other other = other_start(ask_for_what_is_not_theirs);
	struct weir_ipc_handle handle;
	void *ptr = take(1 * MIB, NULL);
	struct weir_ipc_export *export = share(ptr, WEIR_STREAM_ANY, &handle);

	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 0);
	other_end(&other);
	weir_ipc_release(export);
	expect_healthy();
}

/* Each of these ends this connection, and no other. */
static void
send_nonsense(int fd)
{
	struct weir_ipc_handle handle;
	struct ipc_request request;
	char bytes[4096] = { 0 };
	int fds[IPC_BATCH];

	hear(fd, &handle, sizeof(handle));
	for (int kind = 0; kind < 6; kind++) {
		int socket = connect_to(&handle);
		size_t n = sizeof(request);

		request = request_for(&handle, IPC_OPEN);
		if (kind == 0)
			n = 1;
		if (kind == 1)
			n = sizeof(bytes);
		if (kind == 2)
			request.magic[7] ^= 1;
		if (kind == 3)
			request.verb = 0;
		if (kind == 4)
			request.verb = 4;
		if (kind == 5)
			request.first = UINT32_MAX;
		memcpy(bytes, &request, sizeof(request));
		EXPECT_EQ(send(socket, bytes, n, 0), n);
		EXPECT_EQ(recv(socket, bytes, sizeof(bytes), 0),
		    sizeof(struct ipc_reply));
		EXPECT_EQ(recv(socket, bytes, sizeof(bytes), 0), 0);
		close(socket);
	}
	/* Descriptors that no request needs do not arrive. */
	int socket = connect_to(&handle);
	for (int i = 0; i < IPC_BATCH; i++)
		fds[i] = fd;
	request = request_for(&handle, IPC_CLOSE);
	EXPECT_EQ(ipc_send(socket, &request, sizeof(request), fds, IPC_BATCH),
	    sizeof(request));
	EXPECT_EQ(
	    recv(socket, bytes, sizeof(bytes), 0), sizeof(struct ipc_reply));
	close(socket);
	meet(fd);
}

TEST(nonsense_ends_a_connection_and_nothing_else)
{
	struct other other = other_start(send_nonsense);
	struct weir_ipc_handle handle;
	void *ptr = take(1 * MIB, NULL);
	struct weir_ipc_export *export = share(ptr, WEIR_STREAM_ANY, &handle);
	unsigned before = open_files();

	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	other_end(&other);
	wait_for_files(before - 1); /* except the test's own */
	expect_files(before - 1);
	EXPECT_EQ(weir_ipc_peers(export), 0);
	weir_ipc_release(export);
}

/* The peer sends requests and never reads: the owner must not wait for it. */
static void
never_read(int fd)
{
	struct weir_ipc_handle handle;
	struct ipc_request request;
	int socket;

	hear(fd, &handle, sizeof(handle));
	socket = connect_to(&handle);
	request = request_for(&handle, IPC_PIECES);
	for (int i = 0; i < 100000; i++)
		if (send(socket, &request, sizeof(request),
			MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
	meet(fd);
	meet(fd);
}

static void
open_and_close(int fd)
{
	struct weir_ipc_handle handle;
	struct weir_ipc_info info;

	hear(fd, &handle, sizeof(handle));
	device_driver();
	struct weir_ipc_import *import =
	    open_shared(&handle, WEIR_STREAM_ANY, &info);
	expect_filled(info.ptr, info.size, 3, NULL);
	EXPECT_OK(weir_ipc_close(import, WEIR_STREAM_ANY));
	meet(fd);
}

TEST(a_peer_that_does_not_read_holds_up_nobody)
{
	struct other lazy = other_start(never_read);
	struct other other = other_start(open_and_close);
	struct weir_ipc_handle handle;
	void *ptr = take(1 * MIB, NULL);

	fill(ptr, 1 * MIB, 3, NULL);
	struct weir_ipc_export *export = share(ptr, NULL, &handle);
	tell(lazy.fd, &handle, sizeof(handle));
	meet(lazy.fd);
	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	meet(lazy.fd);
	other_end(&other);
	other_end(&lazy);
	weir_ipc_release(export);
	expect_healthy();
}

/* More connections than the owner accepts. */
static void
flood(int fd)
{
	struct weir_ipc_handle handle;
	int sockets[FLOOD];

	hear(fd, &handle, sizeof(handle));
	for (int i = 0; i < FLOOD; i++)
		sockets[i] = connect_to(&handle);
	meet(fd);
	for (int i = 0; i < FLOOD; i++)
		close(sockets[i]);
	meet(fd);
}

TEST(a_flood_of_connections_ends)
{
	struct other wild = other_start(flood);
	struct other other = other_start(open_and_close);
	struct weir_ipc_handle handle;
	void *ptr = take(1 * MIB, NULL);

	fill(ptr, 1 * MIB, 3, NULL);
	struct weir_ipc_export *export = share(ptr, NULL, &handle);
	unsigned before = open_files();
	tell(wild.fd, &handle, sizeof(handle));
	meet(wild.fd);
	meet(wild.fd);
	other_end(&wild);
	wait_for_files(before - 1);
	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	other_end(&other);
	weir_ipc_release(export);
	expect_healthy();
}

/* Connect again and again, say nothing, and stay. */
static void
crowd(int fd)
{
	struct weir_ipc_handle handle;

	hear(fd, &handle, sizeof(handle));
	for (int i = 0; i < FLOOD; i++)
		connect_to(&handle);
	meet(fd);
	meet(fd);
}

TEST(silent_connections_take_few_descriptors_and_keep_nobody_out)
{
	struct other wild = other_start(crowd);
	struct other other = other_start(open_and_close);
	struct weir_ipc_handle handle;
	void *ptr = take(1 * MIB, NULL);

	fill(ptr, 1 * MIB, 3, NULL);
	struct weir_ipc_export *export = share(ptr, NULL, &handle);
	unsigned before = open_files();
	tell(wild.fd, &handle, sizeof(handle));
	meet(wild.fd);
	EXPECT_LE(open_files(), before + 2 * 32 + 2);
	tell(other.fd, &handle, sizeof(handle));
	meet(other.fd);
	other_end(&other);
	meet(wild.fd);
	other_end(&wild);
	weir_ipc_release(export);
	expect_healthy();
}

/* ---- Owners that end --------------------------------------------------- */

struct owners_message {
	struct weir_ipc_handle mapped;
	struct weir_ipc_handle driver;
};

static void
share_and_wait(int fd)
{
	struct owners_message message;
	void *mapped = take(4 * MIB, NULL);
	void *driver = take(4 * MIB, WEIR_STREAM_ANY);

	fill(mapped, 4 * MIB, 5, NULL);
	fill(driver, 4 * MIB, 6, NULL);
	share(mapped, NULL, &message.mapped);
	share(driver, NULL, &message.driver);
	tell(fd, &message, sizeof(message));
	pause();
}

TEST(mapped_memory_outlives_its_owner)
{
	struct other other = other_start(share_and_wait);
	struct weir_ipc_import *import = NULL;
	struct owners_message message;
	struct weir_ipc_info info;

	hear(other.fd, &message, sizeof(message));
	weir_stream stream = new_stream();
	import = open_shared(&message.mapped, stream, &info);
	EXPECT(info.owner_alive);
	other_kill(&other);
	EXPECT_OK(weir_ipc_info(import, &info));
	EXPECT(!info.owner_alive);
	expect_filled(info.ptr, info.size, 5, stream);
	EXPECT_OK(weir_ipc_close(import, stream));
	EXPECT_STATUS(
	    weir_ipc_open(&message.driver, 0, stream, &import), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "has ended");
	expect_healthy();
}
