/*
 * Opening an export whose owner sends invalid facts: the other process answers
 * by its own code, with one wrong fact at a time.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ipc/ipc.h"
#include "tests/ipc/other.h"
#include "tests/support/cuda.h"
#include "tests/support/device.h"

enum { NONCE = 4711, NUMBER = 1, WHOLE = 4 << 20 };

enum lie {
	TRUTH,
	FAR_OFFSET,
	WRAPPING_OFFSET,
	ENDLESS,
	MORE_THAN_THE_DEVICE,
	MORE_THAN_THE_PIECES,
	LESS_THAN_THE_PIECES,
	MANY_PIECES,
	LARGE_PIECE,
	SMALL_PIECE,
	OTHER_MAGIC,
	OTHER_VERB,
	OTHER_KIND,
	SHORT_REPLY,
	LONG_REPLY,
	NO_DESCRIPTOR,
	PIPE,
	PLAIN_FILE,
	WITH_THE_RECORD,
	REFUSAL_UNKNOWN,
	HANG_UP,
	SILENCE,
	DRIVER_OF_NOBODY,
	LIES
};

/* ---- The liar ---------------------------------------------------------- */

static int
make_memory(void)
{
	const struct driver *driver = device_driver();
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes =
		    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemGenericAllocationHandle id;
	int fd = -1;

	EXPECT_EQ(driver->cuMemCreate(&id, WHOLE, &prop, 0), CUDA_SUCCESS);
	EXPECT_EQ(driver->cuMemExportToShareableHandle(
		      &fd, id, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	    CUDA_SUCCESS);
	return fd;
}

static int
file_for(enum lie lie, int memory)
{
	int ends[2];

	if (lie == PIPE && pipe(ends) == 0)
		return ends[0];
	if (lie == PLAIN_FILE)
		return memfd_create("liar", 0);
	return memory;
}

static void
lie_in_record(enum lie lie, struct ipc_record *record)
{
	switch (lie) {
	case FAR_OFFSET:
		record->offset = 1ull << 40;
		break;
	case WRAPPING_OFFSET:
		record->offset = UINT64_MAX - 511;
		break;
	case ENDLESS:
		record->size = UINT64_MAX;
		break;
	case MORE_THAN_THE_DEVICE:
		record->whole = 1ull << 50;
		record->size = 1ull << 50;
		break;
	case MORE_THAN_THE_PIECES:
		record->whole = 2 * WHOLE;
		break;
	case LESS_THAN_THE_PIECES:
		record->whole = WHOLE / 2;
		record->size = WHOLE / 2;
		break;
	case MANY_PIECES:
		record->pieces = UINT32_MAX;
		break;
	case OTHER_KIND:
		record->kind = 9;
		break;
	case DRIVER_OF_NOBODY:
		record->kind = IPC_DRIVER;
		memset(&record->memory, 0x5a, sizeof(record->memory));
		break;
	default:
		break;
	}
}

static struct ipc_reply
first_reply(enum lie lie)
{
	struct ipc_reply reply = ipc_reply_make(IPC_OPEN, IPC_GRANTED);

	reply.record = (struct ipc_record){
		.kind = IPC_MAPPED, .pieces = 1, .size = WHOLE, .whole = WHOLE
	};
	device_driver()->cuDeviceGetUuid(&reply.record.device, 0);
	lie_in_record(lie, &reply.record);
	if (lie == OTHER_MAGIC)
		reply.magic[0] ^= 1;
	if (lie == OTHER_VERB)
		reply.verb = IPC_CLOSE;
	if (lie == REFUSAL_UNKNOWN)
		reply.refusal = 12345;
	if (lie == WITH_THE_RECORD)
		reply.n = 1;
	return reply;
}

static void
answer_open(enum lie lie, int fd, int memory)
{
	struct ipc_reply reply = first_reply(lie);
	char bytes[sizeof(reply) + 8] = { 0 };
	size_t n = sizeof(reply);

	memcpy(bytes, &reply, sizeof(reply));
	if (lie == SHORT_REPLY)
		n -= 8;
	if (lie == LONG_REPLY)
		n += 8;
	if (lie == HANG_UP)
		return;
	ipc_send(fd, bytes, n, &memory, lie == WITH_THE_RECORD);
}

static void
answer_pieces(enum lie lie, int fd, int memory)
{
	struct ipc_reply reply = ipc_reply_make(IPC_PIECES, IPC_GRANTED);
	int file = file_for(lie, memory);

	reply.n = 1;
	reply.sizes[0] = WHOLE;
	if (lie == LARGE_PIECE)
		reply.sizes[0] = UINT64_MAX;
	if (lie == SMALL_PIECE)
		reply.sizes[0] = WHOLE / 2;
	ipc_send(fd, &reply, sizeof(reply), &file, lie != NO_DESCRIPTOR);
}

/* One opener after the other gets a different wrong fact. */
static void
answer_one(enum lie lie, int listener, int memory)
{
	struct ipc_request request;
	int fd = accept(listener, NULL, NULL);

	EXPECT_GE(fd, 0);
	while (recv(fd, &request, sizeof(request), 0) ==
	    (ssize_t)sizeof(request)) {
		struct ipc_reply reply = ipc_reply_make(IPC_CLOSE, IPC_GRANTED);

		if (lie == SILENCE)
			continue;
		if (request.verb == IPC_OPEN)
			answer_open(lie, fd, memory);
		else if (request.verb == IPC_PIECES)
			answer_pieces(lie, fd, memory);
		else
			ipc_send(fd, &reply, sizeof(reply), NULL, 0);
		if (lie == HANG_UP)
			break;
	}
	close(fd);
}

static void
lie_to_all(int fd)
{
	struct sockaddr_un address;
	unsigned size = ipc_socket_address(getpid(), NONCE, &address);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int memory = make_memory();

	EXPECT_EQ(bind(listener, (struct sockaddr *)&address, size), 0);
	EXPECT_EQ(listen(listener, 4), 0);
	meet(fd);
	for (enum lie lie = 0; lie < LIES; lie++)
		answer_one(lie, listener, memory);
	meet(fd);
}

/* ---- The opener -------------------------------------------------------- */

static struct weir_ipc_handle
handle_of(pid_t pid)
{
	static const unsigned char secret[IPC_SECRET_BYTES];
	struct ipc_name name = { .nonce = NONCE, .number = NUMBER };
	struct weir_ipc_handle handle;

	ipc_name_make(&name, secret);
	name.pid = pid;
	memcpy(handle.bytes, &name, sizeof(name));
	return handle;
}

TEST(data_of_an_owner_is_not_trusted)
{
	struct other other = other_start(lie_to_all);
	struct weir_ipc_handle handle = handle_of(other.pid);
	struct weir_ipc_info info;
	weir_stream stream = new_stream();

	meet(other.fd);
	struct weir_ipc_import *import = open_shared(&handle, stream, &info);
	EXPECT_EQ(info.size, WHOLE);
	fill(info.ptr, info.size, 1, stream);
	expect_filled(info.ptr, info.size, 1, stream);
	EXPECT_OK(weir_ipc_close(import, stream));
	import = NULL;
	unsigned before = open_files();
	for (enum lie lie = TRUTH + 1; lie < LIES; lie++) {
		link_patience(lie == SILENCE ? 50 : IPC_PATIENCE_MS);
		enum weir_status status =
		    weir_ipc_open(&handle, 0, stream, &import);
		if (status == WEIR_OK)
			FAIL("lie %d was believed", (int)lie);
		if (lie == SILENCE)
			EXPECT_EQ(status, WEIR_ENOTREADY);
		EXPECT_NULL(import);
		expect_files(before);
		EXPECT_STR_HAS(weir_last_error(), " ");
	}
	meet(other.fd);
	other_end(&other);
	expect_healthy();
}

/* ---- Failures half way ------------------------------------------------- */

static void
share_both(int fd)
{
	struct weir_ipc_handle handles[2];
	struct weir_ipc_export *exports[2];
	char go;

	/* The test is skipped on a GPU. */
	if (recv(fd, &go, 1, 0) <= 0)
		return;
	conf("tcache:0,handle_mb:2");
	void *mapped = take(9 * MIB, NULL);
	void *driver = take(9 * MIB, WEIR_STREAM_ANY);
	exports[0] = share(mapped, NULL, &handles[0]);
	exports[1] = share(driver, NULL, &handles[1]);
	tell(fd, handles, sizeof(handles));
	meet(fd);
	EXPECT_EQ(weir_ipc_peers(exports[0]), 0);
	EXPECT_EQ(weir_ipc_peers(exports[1]), 0);
	weir_ipc_release(exports[0]);
	weir_ipc_release(exports[1]);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	meet(fd);
}

static long
live_objects(void)
{
	return sim()->live("event") + sim()->live("handle") +
	    sim()->live("mapping") + sim()->live("reservation") +
	    sim()->live("allocation") + sim()->live("import");
}

/* Each call of the driver fails once, at its first and at its third use. */
TEST(an_open_that_fails_leaves_nothing)
{
	static const char *const calls[] = { "cuMemAddressReserve",
		"cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess",
		"cuIpcOpenMemHandle", "cuMemGetAddressRange",
		"cuIpcOpenEventHandle", "cuStreamWaitEvent" };
	struct other other = other_start(share_both);
	struct weir_ipc_handle handles[2];
	struct weir_ipc_import *import = NULL;
	struct weir_ipc_info info;
	unsigned failed = 0;

	device_need_sim("calls are to fail");
	tell(other.fd, "g", 1);
	hear(other.fd, handles, sizeof(handles));
	weir_stream stream = new_stream();
	import = open_shared(&handles[0], stream, &info);
	EXPECT_OK(weir_ipc_close(import, stream));
	import = NULL;
	unsigned before = open_files();
	long objects = live_objects();
	for (unsigned i = 0; i < 2 * 2 * 8; i++) {
		const struct weir_ipc_handle *handle = &handles[i & 1];

		sim()->fail(calls[i / 4], i & 2 ? 3 : 1, 1, CUDA_ERROR_UNKNOWN);
		enum weir_status status =
		    weir_ipc_open(handle, 0, stream, &import);
		if (status != WEIR_OK) {
			EXPECT_EQ(status, WEIR_EDRIVER);
			EXPECT_STR_HAS(weir_last_error(), calls[i / 4]);
		}
		expect_healthy();
		sim()->reset();
		failed += status != WEIR_OK;
		if (status == WEIR_OK)
			EXPECT_OK(weir_ipc_close(import, stream));
		import = open_shared(handle, stream, &info);
		EXPECT_OK(weir_ipc_close(import, stream));
		expect_files(before);
		EXPECT_EQ(live_objects(), objects);
		import = NULL;
	}
	EXPECT_GE(failed, 10);
	meet(other.fd);
	meet(other.fd);
	other_end(&other);
	expect_healthy();
}
