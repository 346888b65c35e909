/*
 * PyTorch's handles: written as PyTorch reads them, read as it writes them, and
 * checked.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/graph.h>

#include "ipc/torch.h"
#include "tests/ipc/other.h"
#include "tests/support/device.h"

enum { HEADER = 2 + 24, ROOM = 512 };

/* The message between the processes, as reduce_tensor() makes it. */
struct message {
	unsigned char bytes[ROOM];
	size_t length;
	size_t offset;
	size_t size;
};

/* ---- There and back ---------------------------------------------------- */

static void
open_and_write(int fd)
{
	struct weir_ipc_info info = { .struct_size = sizeof(info) };
	struct weir_ipc_import *import = NULL;
	struct message message;
	weir_stream stream;

	hear(fd, &message, sizeof(message));
	stream = new_stream();
	EXPECT_OK(weir_ipc_torch_open(message.bytes, message.length,
	    message.offset, message.size, 0, &import));
	EXPECT_OK(weir_ipc_info(import, &info));
	EXPECT_EQ(info.size, message.size);
	EXPECT_EQ(info.device, 0);
	expect_filled(info.ptr, info.size, 11, stream);
	fill(info.ptr, info.size, 22, stream);
	EXPECT_OK(weir_ipc_close(import, stream));
	meet(fd);
	expect_healthy();
}

/* PyTorch passes the handle alone, and the other facts later. */
static void
open_all_and_write(int fd)
{
	struct weir_ipc_info info = { .struct_size = sizeof(info) };
	struct weir_ipc_import *import = NULL;
	struct message message;
	weir_stream stream;

	hear(fd, &message, sizeof(message));
	stream = new_stream();
	EXPECT_OK(weir_ipc_torch_open(
	    message.bytes, message.length, 0, 0, 0, &import));
	EXPECT_OK(weir_ipc_info(import, &info));
	EXPECT_GE(info.size, message.offset + message.size);
	char *meant = (char *)info.ptr + message.offset;
	expect_filled(meant, message.size, 11, stream);
	fill(meant, message.size, 22, stream);
	EXPECT_OK(weir_ipc_close(import, stream));
	meet(fd);
	expect_healthy();
}

static struct message
write_handle(struct weir_ipc_export *export, size_t size)
{
	struct message message = { .size = size };

	EXPECT_STATUS(weir_ipc_torch_handle(
			  export, NULL, 0, &message.length, &message.offset),
	    WEIR_EINVAL);
	EXPECT_LE(message.length, ROOM);
	EXPECT_STATUS(weir_ipc_torch_handle(export, message.bytes,
			  message.length - 1, &message.length, &message.offset),
	    WEIR_EINVAL);
	EXPECT_OK(weir_ipc_torch_handle(export, message.bytes, message.length,
	    &message.length, &message.offset));
	return message;
}

static void
there_and_back(struct other *other, void *ptr, size_t size, char kind)
{
	struct weir_ipc_handle handle;
	struct weir_ipc_export *export;
	struct message message;
	unsigned before;

	fill(ptr, size, 11, NULL);
	finish(NULL);
	before = open_files();
	export = share(ptr, NULL, &handle);
	message = write_handle(export, size);
	EXPECT_EQ(message.bytes[0], 2);
	EXPECT_EQ(message.bytes[1], kind);
	tell(other->fd, &message, sizeof(message));
	meet(other->fd);
	expect_filled(ptr, size, 22, NULL);
	other_end(other);
	weir_ipc_release(export);
	/* The thread has a socket and an eventfd, and the test has one less. */
	expect_files(before + 1);
	expect_healthy();
}

TEST(memory_of_the_driver_goes_through_pytorch_s_handle)
{
	struct other other = other_start(open_and_write);
	void *first = take(100 * KIB, WEIR_STREAM_ANY);
	void *ptr = take(100 * KIB, WEIR_STREAM_ANY);

	there_and_back(&other, ptr, 100 * KIB, 'c');
	give(first);
}

TEST(all_memory_of_the_driver_is_opened_by_its_handle_alone)
{
	struct other other = other_start(open_all_and_write);
	void *first = take(100 * KIB, WEIR_STREAM_ANY);
	void *ptr = take(100 * KIB, WEIR_STREAM_ANY);

	there_and_back(&other, ptr, 100 * KIB, 'c');
	give(first);
}

TEST(all_registrable_memory_is_opened_by_its_handle_alone)
{
	struct other other = other_start(open_all_and_write);
	struct weir_pool *pool = NULL;

	EXPECT_OK(weir_pool_create(0, NULL, WEIR_POOL_REGISTRABLE, &pool));
	void *first = weir_pool_malloc(pool, 3 * MIB, NULL);
	void *ptr = weir_pool_malloc(pool, 5 * MIB, NULL);
	there_and_back(&other, ptr, 5 * MIB, 'e');
	give(first);
	weir_pool_release(pool);
}

TEST(registrable_memory_goes_through_pytorch_s_handle)
{
	struct other other = other_start(open_and_write);
	struct weir_pool *pool = NULL;

	EXPECT_OK(weir_pool_create(0, NULL, WEIR_POOL_REGISTRABLE, &pool));
	void *first = weir_pool_malloc(pool, 3 * MIB, NULL);
	void *ptr = weir_pool_malloc(pool, 5 * MIB, NULL);
	there_and_back(&other, ptr, 5 * MIB, 'e');
	give(first);
	weir_pool_release(pool);
}

TEST(mapped_memory_of_equal_pieces_goes_through_pytorch_s_handle)
{
	struct other other = other_start(open_and_write);

	conf("tcache:0,handle_mb:2");
	void *ptr = take(21 * MIB, NULL);
	there_and_back(&other, ptr, 21 * MIB, 'e');
}

TEST(the_bytes_are_those_that_pytorch_expects)
{
	struct weir_ipc_handle handle;
	struct weir_pool *pool = NULL;
	struct weir_ipc_export *export;
	struct message message;
	int32_t pid, fd;
	uint64_t piece, count;

	EXPECT_OK(weir_pool_create(0, NULL, WEIR_POOL_REGISTRABLE, &pool));
	export = share(weir_pool_malloc(pool, 30 * MIB, NULL), NULL, &handle);
	message = write_handle(export, 30 * MIB);
	EXPECT_EQ(message.length, HEADER + 4);
	memcpy(&pid, message.bytes + 2, 4);
	memcpy(&piece, message.bytes + 10, 8);
	memcpy(&count, message.bytes + 18, 8);
	memcpy(&fd, message.bytes + 26, 4);
	EXPECT_EQ(pid, getpid());
	EXPECT_EQ(piece, 30 * MIB);
	EXPECT_EQ(count, 1);
	EXPECT_EQ(message.offset, 0);
	EXPECT_GE(dup2(fd, fd), 0);
	/* A handle has the same bytes each time, because PyTorch caches by
	 * them. */
	struct message again = write_handle(export, 30 * MIB);
	EXPECT_MEM_EQ(again.bytes, message.bytes, message.length);
	weir_ipc_release(export);
	EXPECT_EQ(dup2(fd, fd), -1);
	weir_pool_release(pool);
}

TEST(pieces_of_different_sizes_have_no_handle_of_pytorch)
{
	struct weir_ipc_handle handle;
	struct weir_ipc_export *export;
	struct message message;
	weir_stream stream = new_stream();

	conf("tcache:0,handle_mb:20");
	void *a = take(4 * MIB, stream);
	void *b = take(30 * MIB, stream);
	give(a);
	finish(stream);
	give(b);
	void *ptr = take(34 * MIB, stream);
	export = share(ptr, stream, &handle);
	EXPECT_STATUS(weir_ipc_torch_handle(export, message.bytes, ROOM,
			  &message.length, &message.offset),
	    WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(), "WEIR_POOL_REGISTRABLE");
	weir_ipc_release(export);
}

TEST(an_event_has_no_handle_of_pytorch)
{
	struct weir_event *event = NULL;
	struct weir_ipc_export *export = NULL;
	size_t length, offset;

	device_need_sharing();
	EXPECT_OK(weir_event_create(WEIR_EVENT_INTERPROCESS, &event));
	EXPECT_OK(weir_event_record(event, NULL));
	EXPECT_OK(weir_ipc_export_event(event, &export));
	EXPECT_STATUS(weir_ipc_torch_handle(export, NULL, 0, &length, &offset),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_ipc_torch_handle(NULL, NULL, 0, &length, &offset),
	    WEIR_EINVAL);
	weir_ipc_release(export);
}

/* ---- By hand ------------------------------------------------------------ */

/* "e" of `count` pieces, with `items` bytes behind the header. */
static size_t
mapped(unsigned char *bytes, int32_t pid, uint64_t piece, uint64_t count,
    size_t items)
{
	memset(bytes, 0, HEADER + items);
	bytes[0] = 2;
	bytes[1] = 'e';
	memcpy(bytes + 2, &pid, 4);
	memcpy(bytes + 10, &piece, 8);
	memcpy(bytes + 18, &count, 8);
	return HEADER + items;
}

static void
expect_refused(const unsigned char *bytes, size_t n, const char *why)
{
	struct weir_ipc_import *import = NULL;
	unsigned before = open_files();

	EXPECT_STATUS(
	    weir_ipc_torch_open(bytes, n, 0, 1 * MIB, 0, &import), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), why);
	EXPECT_NULL(import);
	expect_files(before);
}

/* ---- Fabric handles ----------------------------------------------------- */

enum { FABRIC_BYTES = 64 };

/* PyTorch writes this message if it creates its segments with fabric
 * handles. */
static struct message
write_fabric(const void *ptr, uint64_t piece)
{
	const struct driver *driver = device_driver();
	struct message message = { .size = piece };
	CUmemGenericAllocationHandle id;

	message.length =
	    mapped(message.bytes, getpid(), piece, 1, FABRIC_BYTES);
	EXPECT_EQ(driver->cuMemRetainAllocationHandle(&id, (void *)ptr),
	    CUDA_SUCCESS);
	EXPECT_EQ(driver->cuMemExportToShareableHandle(
		      message.bytes + HEADER, id, CU_MEM_HANDLE_TYPE_FABRIC, 0),
	    CUDA_SUCCESS);
	EXPECT_EQ(driver->cuMemRelease(id), CUDA_SUCCESS);
	return message;
}

static void
open_and_write_if_told(int fd)
{
	char go;

	/* The test is skipped on a GPU. */
	if (recv(fd, &go, 1, 0) > 0)
		open_and_write(fd);
}

TEST(memory_goes_through_a_fabric_handle)
{
	EXPECT_EQ(setenv("SIMCUDA_CONF", "fabric:1", 1), 0);
	struct other other = other_start(open_and_write_if_told);
	struct weir_pool *pool = NULL;
	struct message message;

	device_need_sim("a fabric is to be there");
	EXPECT_OK(weir_pool_create(0, NULL, WEIR_POOL_REGISTRABLE, &pool));
	void *ptr = weir_pool_malloc(pool, 30 * MIB, NULL);
	fill(ptr, 30 * MIB, 11, NULL);
	finish(NULL);
	message = write_fabric(ptr, 30 * MIB);
	tell(other.fd, "g", 1);
	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	expect_filled(ptr, 30 * MIB, 22, NULL);
	other_end(&other);
	give(ptr);
	weir_pool_release(pool);
	expect_healthy();
}

TEST(a_fabric_handle_is_written_as_pytorch_reads_it)
{
	EXPECT_EQ(setenv("SIMCUDA_CONF", "fabric:1", 1), 0);
	struct other other = other_start(open_and_write_if_told);
	struct weir_ipc_handle handle;
	struct weir_pool *pool = NULL;
	struct weir_ipc_export *export;
	struct message message = { .size = 30 * MIB };
	unsigned before;

	device_need_sim("a fabric is to be there");
	EXPECT_OK(weir_pool_create(0, NULL, WEIR_POOL_REGISTRABLE, &pool));
	void *ptr = weir_pool_malloc(pool, 30 * MIB, NULL);
	fill(ptr, 30 * MIB, 11, NULL);
	finish(NULL);
	export = share(ptr, NULL, &handle);
	before = open_files();
	EXPECT_STATUS(weir_ipc_torch_fabric_handle(
			  export, NULL, 0, &message.length, &message.offset),
	    WEIR_EINVAL);
	EXPECT_EQ(message.length, HEADER + FABRIC_BYTES);
	EXPECT_OK(weir_ipc_torch_fabric_handle(export, message.bytes,
	    message.length, &message.length, &message.offset));
	EXPECT_EQ(open_files(), before);
	tell(other.fd, "g", 1);
	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	expect_filled(ptr, 30 * MIB, 22, NULL);
	other_end(&other);
	weir_ipc_release(export);
	weir_pool_release(pool);
	expect_healthy();
}

TEST(memory_without_a_fabric_has_no_such_handle)
{
	struct weir_ipc_handle handle;
	struct message message;
	struct weir_ipc_export *driver =
	    share(take(100 * KIB, WEIR_STREAM_ANY), NULL, &handle);

	conf("tcache:0,handle_mb:2");
	struct weir_ipc_export *mapped =
	    share(take(12 * MIB, NULL), NULL, &handle);
	EXPECT_STATUS(weir_ipc_torch_fabric_handle(driver, message.bytes, ROOM,
			  &message.length, &message.offset),
	    WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(), "memory of the driver");
	EXPECT_STATUS(weir_ipc_torch_fabric_handle(mapped, message.bytes, ROOM,
			  &message.length, &message.offset),
	    WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(), "by a fabric");
	weir_ipc_release(driver);
	weir_ipc_release(mapped);
	expect_healthy();
}

TEST(a_fabric_handle_of_nothing_is_refused)
{
	EXPECT_EQ(setenv("SIMCUDA_CONF", "fabric:1", 1), 0);
	device_need_sim("a fabric is to be there");
	unsigned char bytes[ROOM];
	size_t n = mapped(bytes, getpid(), 2 * MIB, 1, FABRIC_BYTES);

	device_driver();
	memset(bytes + HEADER, 0x5a, FABRIC_BYTES);
	expect_refused(bytes, n, "the driver takes nothing like");
	expect_healthy();
}

/* ---- What is refused --------------------------------------------------- */

TEST(bytes_that_are_no_handle_are_refused)
{
	unsigned char bytes[ROOM] = { 0 };
	struct torch_handle out;

	EXPECT_NOT_NULL(torch_read(bytes, 0, &out));
	EXPECT_NOT_NULL(torch_read(bytes, 1, &out));
	EXPECT_NOT_NULL(torch_read(bytes, 66, &out));
	EXPECT_NULL(torch_read(bytes, 64, &out));
	EXPECT_EQ(out.count, 0);
	bytes[1] = 'c';
	EXPECT_NOT_NULL(torch_read(bytes, 66, &out));
	for (bytes[0] = 1; bytes[0] <= 3; bytes[0]++)
		EXPECT_NULL(torch_read(bytes, 66, &out));
	EXPECT_STR_EQ(torch_read(bytes, 66, &out), "its format is unknown");
	bytes[0] = 2;
	EXPECT_NOT_NULL(torch_read(bytes, 65, &out));
	EXPECT_NOT_NULL(torch_read(bytes, 67, &out));
	bytes[1] = 'x';
	EXPECT_NOT_NULL(torch_read(bytes, 66, &out));
}

TEST(impossible_numbers_in_a_handle_are_refused)
{
	static const struct {
		int32_t pid;
		uint64_t piece, count;
		size_t items;
	} bad[] = {
		{ 0, 2 * MIB, 1, 4 },
		{ -1, 2 * MIB, 1, 4 },
		{ 1, 2 * MIB, 0, 0 },
		{ 1, 2 * MIB, UINT64_MAX, 4 },
		{ 1, 2 * MIB, 1ull << 62, 4 },
		{ 1, 2 * MIB, 2, 4 },
		{ 1, 2 * MIB, 1, 8 },
		{ 1, 2 * MIB, 1, 0 },
		{ 1, 0, 1, 4 },
		{ 1, 4096, 1, 4 },
		{ 1, 2 * MIB + 1, 1, 4 },
		{ 1, UINT64_MAX, 1, 4 },
		{ 1, 1ull << 60, 2, 8 },
	};
	unsigned char bytes[ROOM];
	struct torch_handle out;
	int fd = -1;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size_t n = mapped(bytes, bad[i].pid, bad[i].piece, bad[i].count,
		    bad[i].items);
		if (torch_read(bytes, n, &out) == NULL)
			FAIL("case %zu was believed", i);
	}
	EXPECT_NULL(torch_read(bytes, mapped(bytes, 1, 2 * MIB, 3, 12), &out));
	EXPECT_EQ(out.count, 3);
	EXPECT(!out.fabric);
	EXPECT_NULL(torch_read(bytes, mapped(bytes, 1, 2 * MIB, 3, 192), &out));
	EXPECT(out.fabric);
	EXPECT_NOT_NULL(
	    torch_read(bytes, mapped(bytes, 1, 2 * MIB, 1, 4) - 1, &out));
	mapped(bytes, 1, 2 * MIB, 1, 4);
	bytes[0] = 3;
	EXPECT_NOT_NULL(torch_read(bytes, HEADER + 4, &out));
	mapped(bytes, 1, 2 * MIB, 1, 4);
	memcpy(bytes + HEADER, &fd, 4);
	EXPECT_NOT_NULL(torch_read(bytes, HEADER + 4, &out));
}

/* The descriptors of a handle are checked before they are imported. */
static void
have_a_pipe(int fd)
{
	int ends[2];

	EXPECT_EQ(pipe(ends), 0);
	tell(fd, ends, sizeof(ends));
	meet(fd);
}

TEST(a_descriptor_of_something_else_is_refused)
{
	struct other other = other_start(have_a_pipe);
	unsigned char bytes[ROOM];
	int ends[2];
	int none = 1000;
	size_t n = mapped(bytes, other.pid, 2 * MIB, 1, 4);

	hear(other.fd, ends, sizeof(ends));
	device_driver();
	memcpy(bytes + HEADER, &ends[0], 4);
	expect_refused(bytes, n, "is no memory");
	memcpy(bytes + HEADER, &none, 4);
	expect_refused(bytes, n, "has no descriptor 1000");
	mapped(bytes, 1 << 29, 2 * MIB, 1, 4);
	expect_refused(bytes, n, "there is no process");
	meet(other.fd);
	other_end(&other);
	expect_healthy();
}

TEST(a_plain_file_is_no_memory)
{
	unsigned char bytes[ROOM];
	struct weir_ipc_import *import = NULL;
	int file = memfd_create("plain", MFD_CLOEXEC);
	size_t n = mapped(bytes, getpid(), 2 * MIB, 1, 4);

	device_need_sharing();
	device_need_sim("the process opens its own descriptor");
	memcpy(bytes + HEADER, &file, 4);
	EXPECT_STATUS(
	    weir_ipc_torch_open(bytes, n, 0, 1 * MIB, 0, &import), WEIR_EINVAL);
	EXPECT_NULL(import);
	expect_healthy();
}

static void
refuse_parts(int fd)
{
	struct weir_ipc_import *import = NULL;
	struct message m;

	hear(fd, &m, sizeof(m));
	device_driver();
	EXPECT_STATUS(weir_ipc_torch_open(
			  m.bytes, m.length, 0, (size_t)1 << 40, 0, &import),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_ipc_torch_open(m.bytes, m.length, (size_t)1 << 40,
			  m.size, 0, &import),
	    WEIR_EINVAL);
	EXPECT_STATUS(weir_ipc_torch_open(
			  m.bytes, m.length, SIZE_MAX - 511, 1024, 0, &import),
	    WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_ipc_torch_open(NULL, 66, 0, m.size, 0, &import), WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_ipc_torch_open(m.bytes, m.length, m.offset, m.size, 0, NULL),
	    WEIR_EINVAL);
	EXPECT_NULL(import);
	meet(fd);
	expect_healthy();
}

static void
expect_parts_refused(weir_stream kind)
{
	struct other other = other_start(refuse_parts);
	struct weir_ipc_handle handle;
	struct weir_ipc_export *export;
	struct message message;

	export = share(take(1 * MIB, kind), NULL, &handle);
	message = write_handle(export, 1 * MIB);
	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	other_end(&other);
	weir_ipc_release(export);
}

TEST(a_part_outside_of_the_driver_s_memory_is_refused)
{
	expect_parts_refused(WEIR_STREAM_ANY);
}

TEST(a_part_outside_of_mapped_memory_is_refused)
{
	expect_parts_refused(NULL);
}
