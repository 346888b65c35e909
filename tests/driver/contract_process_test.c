/*
 * Contract tests, the same on simcuda and on a GPU's driver: forked children,
 * and memory and events shared between processes.
 *
 * The other process runs this program, too: it is forked before the driver is
 * initialised, and gets over a socket the handles to open.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/cuda.h"

enum { WORDS = 1024, GRANULE = 2 << 20 };

/* ---- The other process -------------------------------------------------- */

static int to_other;

static void
tell(int fd, const void *bytes, size_t size)
{
	EXPECT_EQ(write(fd, bytes, size), size);
}

static void
hear(int fd, void *bytes, size_t size)
{
	EXPECT_EQ(read(fd, bytes, size), size);
}

/* Fork a process that runs `body` with its end of a socket. */
static pid_t
fork_other(void (*body)(int fd))
{
	int ends[2];
	pid_t pid;

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid = fork();
	EXPECT_GE(pid, 0);
	if (pid == 0) {
		close(ends[0]);
		body(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	to_other = ends[0];
	return pid;
}

static void
expect_ended_well(pid_t pid)
{
	int status = -1;

	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT(WIFEXITED(status));
	EXPECT_EQ(WEXITSTATUS(status), 0);
}

static void
send_fd(int to, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec data = { "x", 1 };
	struct msghdr message = { .msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	EXPECT_EQ(sendmsg(to, &message, 0), 1);
}

static int
receive_fd(int from)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header;
	int fd = -1;

	EXPECT_EQ(recvmsg(from, &message, 0), 1);
	header = CMSG_FIRSTHDR(&message);
	if (header == NULL)
		FAIL("no descriptor came");
	memcpy(&fd, CMSG_DATA(header), sizeof(fd));
	EXPECT_GE(fd, 0);
	return fd;
}

/* ---- Forks -------------------------------------------------------------- */

TEST(a_child_of_an_initialised_process_has_no_driver)
{
	cuda_begin();
	pid_t pid = fork();

	if (pid == 0) {
		int n = 0;
		CUdeviceptr address = 0;

		EXPECT_CU(cu.cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
		EXPECT_CU(cu.cuMemAlloc_v2(&address, 512),
		    CUDA_ERROR_NOT_INITIALIZED);
		EXPECT_CU(cu.cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
		_exit(0);
	}
	expect_ended_well(pid);
	cuda_alloc(512);
}

static void
use_driver(int fd)
{
	(void)fd;
	cuda_begin();
	cuda_alloc(512);
}

TEST(a_child_of_a_process_that_did_nothing_is_free)
{
	cuda_load();
	expect_ended_well(fork_other(use_driver));
}

/* ---- Descriptors -------------------------------------------------------- */

static void
import_memory(int fd)
{
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr address;
	int memory = receive_fd(fd);

	cuda_begin();
	CU(cu.cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)memory,
	    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(memory);
	address = cuda_map(handle, 2 * GRANULE);
	CU(cu.cuMemRelease(handle));
	EXPECT_EQ(cuda_word(address), 1);
	EXPECT_EQ(cuda_word(address + 2 * GRANULE - 4), 2);
	cuda_fill(NULL, address, 3, WORDS);
	CU(cu.cuCtxSynchronize());
	tell(fd, "d", 1);
	/* The exporter frees it; the memory stays. */
	hear(fd, &(char){ 0 }, 1);
	EXPECT_EQ(cuda_word(address), 4);
}

TEST(memory_is_shared_by_a_descriptor)
{
	CUmemAllocationProp prop = cuda_prop(true);
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr address;
	int memory = -1;
	pid_t pid = fork_other(import_memory);

	cuda_begin();
	CU(cu.cuMemCreate(&handle, 2 * GRANULE, &prop, 0));
	address = cuda_map(handle, 2 * GRANULE);
	CU(cu.cuMemsetD32_v2(address, 1, WORDS));
	CU(cu.cuMemsetD32_v2(address + 2 * GRANULE - 4, 2, 1));
	CU(cu.cuCtxSynchronize());
	CU(cu.cuMemExportToShareableHandle(
	    &memory, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	send_fd(to_other, memory);
	close(memory);
	hear(to_other, &(char){ 0 }, 1);
	EXPECT_EQ(cuda_word(address), 3);
	CU(cu.cuMemsetD32_v2(address, 4, WORDS));
	CU(cu.cuCtxSynchronize());
	CU(cu.cuMemUnmap(address, 2 * GRANULE));
	CU(cu.cuMemRelease(handle));
	tell(to_other, "d", 1);
	expect_ended_well(pid);
}

TEST(memory_that_may_not_be_shared_is_refused)
{
	cuda_begin();
	CUmemGenericAllocationHandle handle = cuda_create(GRANULE);
	int memory = -1;

	EXPECT_CU(cu.cuMemExportToShareableHandle(&memory, handle,
		      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	    CUDA_ERROR_INVALID_VALUE);
}

TEST(a_process_imports_its_exports)
{
	CUmemAllocationProp prop = cuda_prop(true);
	CUmemGenericAllocationHandle handle = 0, again = 0;
	int memory = -1;

	cuda_begin();
	CU(cu.cuMemCreate(&handle, GRANULE, &prop, 0));
	CU(cu.cuMemExportToShareableHandle(
	    &memory, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CU(cu.cuMemImportFromShareableHandle(&again, (void *)(intptr_t)memory,
	    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	CUdeviceptr first = cuda_map(handle, GRANULE);
	CUdeviceptr second = cuda_map(again, GRANULE);
	CU(cu.cuMemsetD32_v2(first, 6, 1));
	EXPECT_EQ(cuda_word(second), 6);
}

/* ---- Handles of 64 bytes ------------------------------------------------ */

static void
open_memory(int fd)
{
	CUipcMemHandle handle;
	CUdeviceptr first = 0, second = 0;

	cuda_begin();
	hear(fd, &handle, sizeof(handle));
	CU(cu.cuIpcOpenMemHandle_v2(
	    &first, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CU(cu.cuIpcOpenMemHandle_v2(
	    &second, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	EXPECT_EQ(first, second);
	EXPECT_EQ(cuda_word(first), 1);
	cuda_fill(NULL, first, 2, WORDS);
	CU(cu.cuCtxSynchronize());
	CU(cu.cuIpcCloseMemHandle(first));
	EXPECT_EQ(cuda_word(first), 2);
	CU(cu.cuIpcCloseMemHandle(first));
	EXPECT_CU(cu.cuIpcCloseMemHandle(first), CUDA_ERROR_INVALID_VALUE);
	tell(fd, "d", 1);
}

TEST(memory_is_shared_by_a_handle)
{
	CUipcMemHandle handle;
	pid_t pid = fork_other(open_memory);

	cuda_begin();
	CUdeviceptr address = cuda_alloc(2 * GRANULE);
	CU(cu.cuMemsetD32_v2(address, 1, WORDS));
	CU(cu.cuCtxSynchronize());
	CU(cu.cuIpcGetMemHandle(&handle, address));
	tell(to_other, &handle, sizeof(handle));
	hear(to_other, &(char){ 0 }, 1);
	EXPECT_EQ(cuda_word(address), 2);
	expect_ended_well(pid);
	CU(cu.cuMemFree_v2(address));
}

TEST(a_process_does_not_open_its_own_memory)
{
	CUipcMemHandle handle;
	CUdeviceptr address = 0;

	cuda_begin();
	CU(cu.cuIpcGetMemHandle(&handle, cuda_alloc(GRANULE)));
	EXPECT_CU(cu.cuIpcOpenMemHandle_v2(
		      &address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
	    CUDA_ERROR_INVALID_CONTEXT);
}

TEST(mapped_memory_has_no_handle_of_64_bytes)
{
	CUipcMemHandle handle;

	cuda_begin();
	EXPECT_CU(cu.cuIpcGetMemHandle(
		      &handle, cuda_map(cuda_create(GRANULE), GRANULE)),
	    CUDA_ERROR_INVALID_VALUE);
}

/* ---- Pools -------------------------------------------------------------- */

static void
import_pool(int fd)
{
	CUmemPoolPtrExportData data;
	CUmemoryPool pool = NULL, its = NULL;
	CUdeviceptr address = 0;
	int shared = receive_fd(fd);

	cuda_begin();
	CU(cu.cuMemPoolImportFromShareableHandle(&pool,
	    (void *)(intptr_t)shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	    0));
	close(shared);
	EXPECT_CU(
	    cu.cuMemAllocFromPoolAsync(&address, GRANULE, pool, cuda_stream()),
	    CUDA_ERROR_INVALID_VALUE);
	hear(fd, &data, sizeof(data));
	CU(cu.cuMemPoolImportPointer(&address, pool, &data));
	EXPECT_EQ(cuda_word(address), 1);
	CU(cu.cuPointerGetAttribute(
	    &its, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address));
	EXPECT_EQ(its, pool);
	cuda_fill(NULL, address, 2, WORDS);
	CU(cu.cuCtxSynchronize());
	CU(cu.cuMemFree_v2(address));
	EXPECT_CU(cu.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemPoolDestroy(pool));
	tell(fd, "d", 1);
}

TEST(a_pool_is_shared_by_a_descriptor)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemPoolPtrExportData data;
	CUmemoryPool pool = NULL, standard = NULL;
	CUdeviceptr address = 0, other = 0;
	CUstream stream;
	int shared = -1;
	pid_t pid = fork_other(import_pool);

	cuda_begin();
	stream = cuda_stream();
	CU(cu.cuMemPoolCreate(&pool, &props));
	CU(cu.cuMemPoolExportToShareableHandle(
	    &shared, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	CU(cu.cuDeviceGetDefaultMemPool(&standard, 0));
	EXPECT_CU(cu.cuMemPoolExportToShareableHandle(&shared, standard,
		      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
	    CUDA_ERROR_INVALID_VALUE);
	CU(cu.cuMemAllocAsync(&other, GRANULE, stream));
	EXPECT_CU(
	    cu.cuMemPoolExportPointer(&data, other), CUDA_ERROR_INVALID_VALUE);
	send_fd(to_other, shared);
	close(shared);
	CU(cu.cuMemAllocFromPoolAsync(&address, GRANULE, pool, stream));
	cuda_fill(stream, address, 1, WORDS);
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuMemPoolExportPointer(&data, address));
	tell(to_other, &data, sizeof(data));
	hear(to_other, &(char){ 0 }, 1);
	EXPECT_EQ(cuda_word(address), 2);
	CU(cu.cuMemFreeAsync(address, stream));
	CU(cu.cuMemFreeAsync(other, stream));
	CU(cu.cuStreamSynchronize(stream));
	CU(cu.cuMemPoolDestroy(pool));
	expect_ended_well(pid);
}

/* ---- Events ------------------------------------------------------------- */

static void
wait_for_event(int fd)
{
	CUipcEventHandle event_handle;
	CUipcMemHandle memory_handle;
	CUstream stream;
	CUdeviceptr address = 0, own;
	CUevent event = NULL;

	cuda_begin();
	stream = cuda_stream();
	own = cuda_alloc(4096);
	hear(fd, &event_handle, sizeof(event_handle));
	hear(fd, &memory_handle, sizeof(memory_handle));
	CU(cu.cuIpcOpenEventHandle(&event, event_handle));
	CU(cu.cuIpcOpenMemHandle_v2(
	    &address, memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CU(cu.cuStreamWaitEvent(stream, event, 0));
	cuda_copy(stream, own, address, WORDS);
	EXPECT_EQ(cuda_word(own), 5);
	CU(cu.cuEventQuery(event));
	CU(cu.cuEventDestroy_v2(event));
}

TEST(a_process_waits_for_another_ones_event)
{
	CUipcEventHandle event_handle;
	CUipcMemHandle memory_handle;
	CUevent event = NULL;
	pid_t pid = fork_other(wait_for_event);

	cuda_begin();
	CUstream stream = cuda_stream();
	CUdeviceptr address = cuda_alloc(GRANULE);
	CU(cu.cuEventCreate(
	    &event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	CU(cu.cuIpcGetEventHandle(&event_handle, event));
	CU(cu.cuIpcGetMemHandle(&memory_handle, address));
	cuda_sleep(stream, CUDA_LONG_NS);
	cuda_fill(stream, address, 5, WORDS);
	CU(cu.cuEventRecord(event, stream));
	tell(to_other, &event_handle, sizeof(event_handle));
	tell(to_other, &memory_handle, sizeof(memory_handle));
	expect_ended_well(pid);
	CU(cu.cuStreamSynchronize(stream));
}

TEST(only_events_made_for_it_are_shared)
{
	CUipcEventHandle handle;

	cuda_begin();
	EXPECT_CU(cu.cuIpcGetEventHandle(&handle, cuda_event()),
	    CUDA_ERROR_INVALID_HANDLE);
}
