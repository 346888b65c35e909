/*
 * Two processes that share memory and events by <weir/ipc.h>, and keep the
 * rules: written bytes are seen, in order, and no memory is reused too early.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/graph.h>
#include <weir/host.h>
#include <weir/ipc.h>

#include "tests/ipc/other.h"
#include "tests/support/cuda.h"
#include "tests/support/device.h"

/* The owner's message to the other process. */
struct message {
	struct weir_ipc_handle handle;
	size_t size;
};

/* ---- Seeing what is written -------------------------------------------- */

/* Open, check the contents that the owner queued before, write, close. */
static void
read_and_answer(int fd)
{
	struct weir_ipc_info info;
	struct weir_ipc_import *import;
	struct message message;
	weir_stream stream;

	hear(fd, &message, sizeof(message));
	stream = new_stream();
	import = open_shared(&message.handle, stream, &info);
	EXPECT_EQ(info.size, message.size);
	EXPECT_EQ(info.device, 0);
	EXPECT_EQ(info.home, 0);
	EXPECT_EQ(info.owner, getppid());
	EXPECT(info.owner_alive);
	EXPECT_NULL(info.event);
	expect_filled(info.ptr, info.size, 11, stream);
	fill(info.ptr, info.size, 22, stream);
	EXPECT_OK(weir_ipc_close(import, stream));
	meet(fd);
	expect_healthy();
}

static void
exchange(struct other *other, void *ptr, size_t size, weir_stream stream)
{
	struct message message = { .size = size };
	struct weir_ipc_export *export;

	busy(stream, LATE_MS);
	fill(ptr, size, 11, stream);
	export = share(ptr, stream, &message.handle);
	tell(other->fd, &message, sizeof(message));
	meet(other->fd);
	EXPECT_EQ(weir_ipc_peers(export), 0);
	expect_filled(ptr, size, 22, stream);
	weir_ipc_release(export);
	other_end(other);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	EXPECT_STATUS(weir_free(ptr), WEIR_EINVAL);
	expect_healthy();
}

TEST(mapped_memory_is_shared)
{
	struct other other = other_start(read_and_answer);
	weir_stream stream = new_stream();
	void *ptr = take(5 * MIB, stream);

	EXPECT(info_of(ptr).expandable);
	exchange(&other, ptr, 5 * MIB, stream);
}

/* More pieces than fit into one message, and a block that begins within one. */
TEST(memory_of_many_pieces_is_shared)
{
	struct other other = other_start(read_and_answer);

	conf("tcache:0,handle_mb:2");
	weir_stream stream = new_stream();
	void *before = take(3 * MIB, stream);
	void *ptr = take(133 * MIB, stream);
	void *behind = take(1 * MIB + 512, stream);

	record(before, stream);
	struct message message = { .size = 133 * MIB };
	struct weir_ipc_export *export;

	fill(ptr, 133 * MIB, 11, stream);
	fill(behind, 512, 33, stream);
	export = share(ptr, stream, &message.handle);
	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	expect_filled(ptr, 133 * MIB, 22, stream);
	expect_filled(behind, 512, 33, stream);
	weir_ipc_release(export);
	give(before);
	give(behind);
	other_end(&other);
	expect_healthy();
}

TEST(memory_of_the_driver_is_shared)
{
	struct other other = other_start(read_and_answer);
	weir_stream stream = new_stream();
	void *first = take(100 * KIB, WEIR_STREAM_ANY);
	void *ptr = take(100 * KIB, WEIR_STREAM_ANY);

	EXPECT(!info_of(ptr).expandable);
	EXPECT_NE(info_of(ptr).segment, ptr);
	give(first);
	exchange(&other, ptr, 100 * KIB, stream);
}

TEST(registrable_memory_is_shared)
{
	struct other other = other_start(read_and_answer);
	struct weir_pool *pool = NULL;
	weir_stream stream = new_stream();

	EXPECT_OK(weir_pool_create(0, NULL, WEIR_POOL_REGISTRABLE, &pool));
	void *ptr = weir_pool_malloc(pool, 30 * MIB, stream);
	EXPECT_NOT_NULL(ptr);
	exchange(&other, ptr, 30 * MIB, stream);
	weir_pool_release(pool);
}

/* ---- An event ---------------------------------------------------------- */

struct event_message {
	struct weir_ipc_handle memory;
	struct weir_ipc_handle event;
};

static void
wait_for_the_event(int fd)
{
	struct weir_ipc_info memory;
	struct weir_ipc_info event;
	struct event_message message;
	weir_stream stream;

	hear(fd, &message, sizeof(message));
	stream = new_stream();
	struct weir_ipc_import *m =
	    open_shared(&message.memory, WEIR_STREAM_ANY, &memory);
	struct weir_ipc_import *e = open_shared(&message.event, NULL, &event);
	EXPECT_NULL(event.ptr);
	EXPECT_NOT_NULL(event.event);
	meet(fd);
	/* The owner has queued more and recorded the event again. */
	meet(fd);
	EXPECT_STATUS(weir_event_destroy(event.event), WEIR_EINVAL);
	EXPECT_OK(weir_stream_wait_event(stream, event.event));
	expect_filled(memory.ptr, memory.size, 55, stream);
	EXPECT_OK(weir_ipc_close(e, stream));
	EXPECT_OK(weir_ipc_close(m, stream));
	expect_healthy();
}

TEST(an_event_orders_the_work_of_two_processes)
{
	struct other other = other_start(wait_for_the_event);
	struct event_message message;
	struct weir_event *event = NULL;
	struct weir_ipc_export *e = NULL;
	weir_stream stream = new_stream();
	void *ptr = take(1 * MIB, stream);

	fill(ptr, 1 * MIB, 44, stream);
	finish(stream);
	struct weir_ipc_export *m =
	    share(ptr, WEIR_STREAM_ANY, &message.memory);
	EXPECT_OK(weir_event_create(WEIR_EVENT_INTERPROCESS, &event));
	EXPECT_STATUS(weir_ipc_export_event(event, &e), WEIR_EINVAL);
	EXPECT_OK(weir_event_record(event, stream));
	EXPECT_OK(weir_ipc_export_event(event, &e));
	struct weir_ipc_export *again = NULL;
	EXPECT_STATUS(weir_ipc_export_event(event, &again), WEIR_EINVAL);
	/* It is the export's, which destroys it. */
	EXPECT_STATUS(weir_event_destroy(event), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "belongs to an export");
	EXPECT_OK(weir_ipc_handle_of(e, &message.event));
	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	busy(stream, LATE_MS);
	fill(ptr, 1 * MIB, 55, stream);
	EXPECT_OK(weir_event_record(event, stream));
	meet(other.fd);
	other_end(&other);
	wait_for_peers(m, 0);
	weir_ipc_release(e);
	weir_ipc_release(m);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	expect_healthy();
}

/* ---- Nothing is reused too early --------------------------------------- */

static void
hold_for_a_while(int fd)
{
	struct weir_ipc_info info;
	struct weir_ipc_import *import;
	struct message message;
	weir_stream stream;

	hear(fd, &message, sizeof(message));
	stream = new_stream();
	import = open_shared(&message.handle, stream, &info);
	meet(fd);
	/* The block is released, and the owner has tried to use the memory
	 * again. */
	meet(fd);
	expect_filled(info.ptr, info.size, 11, stream);
	/* The close waits for late work. */
	busy(stream, LATE_MS);
	fill(info.ptr, info.size, 12, stream);
	EXPECT_OK(weir_ipc_close(import, stream));
	EXPECT(is_done(stream));
	meet(fd);
}

TEST(released_memory_serves_again_when_the_peer_has_closed_it)
{
	struct other other = other_start(hold_for_a_while);
	struct message message = { .size = 40 * MIB };

	conf("tcache:0");
	weir_stream stream = new_stream();
	void *ptr = take(40 * MIB, stream);
	struct weir_ipc_export *export;
	fill(ptr, 40 * MIB, 11, stream);
	export = share(ptr, stream, &message.handle);
	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 1);
	weir_ipc_release(export);
	void *next = take(40 * MIB, stream);
	EXPECT_NE(next, ptr);
	fill(next, 40 * MIB, 99, stream);
	finish(stream);
	EXPECT_EQ(trim(0), 0);
	meet(other.fd);
	meet(other.fd);
	other_end(&other);
	/* The thread that answers frees it, possibly a moment later. */
	EXPECT_SOON(stats().allocated_bytes.all.current <= 40 * MIB);
	EXPECT_EQ(take(40 * MIB, stream), ptr);
	expect_filled(ptr, 40 * MIB, 12, stream);
	give(ptr);
	give(next);
	expect_healthy();
}

TEST(a_block_that_is_shared_twice_is_freed_at_the_last_release)
{
	struct weir_ipc_handle first, second;
	void *ptr = take(1 * MIB, NULL);
	struct weir_ipc_export *a = share(ptr, NULL, &first);
	struct weir_ipc_export *b = share(ptr, NULL, &second);

	EXPECT_EQ(a, b);
	EXPECT_MEM_EQ(&first, &second, sizeof(first));
	weir_ipc_release(a);
	EXPECT_EQ(info_of(ptr).requested_bytes, 1 * MIB);
	weir_ipc_release(b);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	expect_healthy();
}

/* ---- Opened more than once --------------------------------------------- */

static void
open_twice(int fd)
{
	struct weir_ipc_info a, b;
	struct message message;

	hear(fd, &message, sizeof(message));
	struct weir_ipc_import *one =
	    open_shared(&message.handle, WEIR_STREAM_ANY, &a);
	struct weir_ipc_import *two =
	    open_shared(&message.handle, WEIR_STREAM_ANY, &b);
	meet(fd);
	meet(fd);
	EXPECT_OK(weir_ipc_close(one, NULL));
	meet(fd);
	meet(fd);
	fill(b.ptr, b.size, 7, NULL);
	EXPECT_OK(weir_ipc_close(two, NULL));
	meet(fd);
	EXPECT_OK(weir_ipc_close(NULL, NULL));
}

static void
expect_counted(void *ptr)
{
	struct other other = other_start(open_twice);
	struct message message = { .size = 1 * MIB };
	struct weir_ipc_export *export;

	if (ptr == NULL)
		ptr = take(1 * MIB, NULL);
	else
		ptr = take(1 * MIB, WEIR_STREAM_ANY);
	export = share(ptr, WEIR_STREAM_ANY, &message.handle);
	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 2);
	meet(other.fd);
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 1);
	meet(other.fd);
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 0);
	other_end(&other);
	expect_filled(ptr, 1 * MIB, 7, NULL);
	weir_ipc_release(export);
	expect_healthy();
}

TEST(openings_of_mapped_memory_count)
{
	expect_counted(NULL);
}

TEST(openings_of_memory_of_the_driver_count)
{
	expect_counted((void *)1);
}

enum { THREADS = 4, ROUNDS = 25 };

static struct message common;

static void *
open_and_close(void *unused)
{
	(void)unused;
	for (int i = 0; i < ROUNDS; i++) {
		struct weir_ipc_info info;
		struct weir_ipc_import *import =
		    open_shared(&common.handle, WEIR_STREAM_ANY, &info);

		EXPECT_OK(weir_ipc_close(import, WEIR_STREAM_ANY));
	}
	return NULL;
}

static void
open_from_threads(int fd)
{
	pthread_t threads[THREADS];

	hear(fd, &common, sizeof(common));
	device_driver();
	open_and_close(NULL);
	unsigned before = open_files();
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(
		    pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	expect_files(before);
	meet(fd);
	expect_healthy();
}

TEST(threads_open_and_close_together)
{
	struct other other = other_start(open_from_threads);
	struct message message = { .size = 3 * MIB };
	void *ptr = take(3 * MIB, NULL);
	struct weir_ipc_export *export =
	    share(ptr, WEIR_STREAM_ANY, &message.handle);

	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	EXPECT_EQ(weir_ipc_peers(export), 0);
	other_end(&other);
	weir_ipc_release(export);
	expect_healthy();
}

/* ---- Two devices ------------------------------------------------------- */

static void
open_for_the_other_device(int fd)
{
	struct weir_ipc_info info = { .struct_size = sizeof(info) };
	struct weir_ipc_import *import = NULL;
	struct message message;

	/* The owner ends if there is one device only. */
	if (recv(fd, &message, sizeof(message), MSG_WAITALL) <= 0)
		return;
	device_need(2);
	EXPECT_OK(weir_ipc_open(&message.handle, 1, WEIR_STREAM_ANY, &import));
	EXPECT_OK(weir_ipc_info(import, &info));
	EXPECT_EQ(info.device, 1);
	EXPECT_EQ(info.home, 0);
	EXPECT_OK(weir_ipc_close(import, WEIR_STREAM_ANY));
	EXPECT_STATUS(
	    weir_ipc_open(&message.handle, 77, NULL, &import), WEIR_ENODEVICE);
	meet(fd);
}

TEST(an_import_names_its_device_and_whose_memory_it_is)
{
	struct other other = other_start(open_for_the_other_device);

	device_need(2);
	struct message message = { .size = 3 * MIB };
	void *ptr = weir_malloc_on(0, 3 * MIB, WEIR_STREAM_ANY);
	struct weir_ipc_export *export =
	    share(ptr, WEIR_STREAM_ANY, &message.handle);

	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	other_end(&other);
	weir_ipc_release(export);
}

/* May a device use memory at an address of this process? */
static bool
reaches(int device, const void *ptr)
{
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		.id = device };
	unsigned long long flags = 0;

	CU(cu.cuMemGetAccess(&flags, &location, (CUdeviceptr)(uintptr_t)ptr));
	return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/* The access to memory that was opened before a failure is withdrawn. */
static void
refuse_a_peer(const struct weir_ipc_handle *handle, const void *first)
{
	struct weir_ipc_info info = { .struct_size = sizeof(info) };
	struct weir_ipc_import *import = NULL;

	EXPECT_OK(weir_ipc_open(handle, 0, WEIR_STREAM_ANY, &import));
	EXPECT_OK(weir_ipc_info(import, &info));
	for (unsigned nth = 1; nth <= 2; nth++) {
		sim()->fail("cuMemSetAccess", nth, 1, CUDA_ERROR_OUT_OF_MEMORY);
		EXPECT_STATUS(weir_peer_access(0, 1), WEIR_ENOMEM);
		EXPECT(!reaches(1, first));
		EXPECT(!reaches(1, info.ptr));
	}
	EXPECT_OK(weir_ipc_close(import, WEIR_STREAM_ANY));
}

static void
open_for_peers(int fd)
{
	struct weir_ipc_info info = { .struct_size = sizeof(info) };
	struct weir_ipc_import *before = NULL;
	struct weir_ipc_import *after = NULL;
	struct message message;

	/* The owner ends if there is one device only. */
	if (recv(fd, &message, sizeof(message), MSG_WAITALL) <= 0)
		return;
	device_need(2);
	cuda_load();
	EXPECT_OK(weir_ipc_open(&message.handle, 0, WEIR_STREAM_ANY, &before));
	EXPECT_OK(weir_ipc_info(before, &info));
	EXPECT(!reaches(1, info.ptr));
	if (sim() != NULL)
		refuse_a_peer(&message.handle, info.ptr);
	EXPECT_OK(weir_peer_access(0, 1));
	EXPECT(reaches(0, info.ptr));
	EXPECT(reaches(1, info.ptr));
	EXPECT_OK(weir_ipc_open(&message.handle, 0, WEIR_STREAM_ANY, &after));
	EXPECT_OK(weir_ipc_info(after, &info));
	EXPECT(reaches(1, info.ptr));
	EXPECT_OK(weir_ipc_close(before, WEIR_STREAM_ANY));
	EXPECT_OK(weir_ipc_close(after, WEIR_STREAM_ANY));
	meet(fd);
}

TEST(a_peer_reaches_open_memory_and_memory_opened_later)
{
	struct other other = other_start(open_for_peers);

	device_need(2);
	struct message message = { .size = 3 * MIB };
	weir_stream stream = new_stream();
	void *ptr = take(3 * MIB, stream);
	struct weir_ipc_export *export = share(ptr, stream, &message.handle);

	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	other_end(&other);
	weir_ipc_release(export);
}

/* ---- What is refused --------------------------------------------------- */

TEST(memory_that_cannot_be_shared_is_refused)
{
	struct weir_ipc_export *export = NULL;
	struct weir_ipc_handle handle;
	weir_stream stream = new_stream();
	char *ptr = take(1 * MIB, stream);
	void *host = NULL;

	device_need_sharing();
	EXPECT_STATUS(weir_ipc_export(NULL, NULL, &export), WEIR_EINVAL);
	EXPECT_STATUS(weir_ipc_export(ptr, NULL, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_ipc_export(&handle, NULL, &export), WEIR_EINVAL);
	EXPECT_STATUS(weir_ipc_export(ptr + 512, NULL, &export), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "it lies within the block at");
	EXPECT_STATUS(weir_ipc_handle_of(NULL, &handle), WEIR_EINVAL);
	EXPECT_STATUS(weir_ipc_export_event(NULL, &export), WEIR_EINVAL);
	EXPECT_EQ(weir_ipc_peers(NULL), 0);
	weir_ipc_release(NULL);
	host = weir_host_malloc(4096);
	EXPECT_NOT_NULL(host);
	EXPECT_STATUS(weir_ipc_export(host, NULL, &export), WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(), "host memory");
	EXPECT_OK(weir_host_free(host));
	capture_begin(stream);
	EXPECT_STATUS(weir_ipc_export(ptr, stream, &export), WEIR_ECAPTURE);
	capture_end(stream);
	EXPECT_NULL(export);
	/* A refusal leaves no pin and no export behind. */
	EXPECT_STATUS(weir_unpin(ptr), WEIR_EINVAL);
	give(ptr);
	expect_healthy();
}

TEST(an_owner_does_not_open_its_own_memory)
{
	struct weir_ipc_import *import = NULL;
	struct weir_ipc_handle handle;
	void *ptr = take(1 * MIB, NULL);
	struct weir_ipc_export *export = share(ptr, NULL, &handle);

	EXPECT_STATUS(weir_ipc_open(&handle, 0, NULL, &import), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "this process is the owner");
	EXPECT_STATUS(weir_ipc_open(NULL, 0, NULL, &import), WEIR_EINVAL);
	EXPECT_STATUS(weir_ipc_open(&handle, 0, NULL, NULL), WEIR_EINVAL);
	handle.bytes[0] ^= 1;
	EXPECT_STATUS(weir_ipc_open(&handle, 0, NULL, &import), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "not a handle of weir");
	EXPECT_STATUS(weir_ipc_info(NULL, NULL), WEIR_EINVAL);
	EXPECT_NULL(import);
	weir_ipc_release(export);
}

static void
open_what_is_gone(int fd)
{
	struct weir_ipc_import *import = NULL;
	struct message message;

	hear(fd, &message, sizeof(message));
	device_driver();
	EXPECT_STATUS(
	    weir_ipc_open(&message.handle, 0, NULL, &import), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "does not share that");
	unsigned before = open_files();
	EXPECT_STATUS(
	    weir_ipc_open(&message.handle, 0, NULL, &import), WEIR_EINVAL);
	expect_files(before);
	EXPECT_NULL(import);
	meet(fd);
}

TEST(released_memory_is_not_opened)
{
	struct other other = other_start(open_what_is_gone);
	struct message message = { 0 };
	void *ptr = take(1 * MIB, NULL);

	weir_ipc_release(share(ptr, NULL, &message.handle));
	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	other_end(&other);
}

static void
fork_from_here(int fd)
{
	struct weir_ipc_info info;
	struct weir_ipc_import *import;
	struct message message;
	int status = -1;
	pid_t child;

	hear(fd, &message, sizeof(message));
	import = open_shared(&message.handle, WEIR_STREAM_ANY, &info);
	child = fork();
	if (child == 0) {
		struct weir_ipc_import *other = NULL;
		EXPECT_STATUS(weir_ipc_open(&message.handle, 0, NULL, &other),
		    WEIR_EFORK);
		EXPECT_STATUS(weir_ipc_close(import, NULL), WEIR_EFORK);
		_exit(0);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0);
	EXPECT_OK(weir_ipc_close(import, WEIR_STREAM_ANY));
	meet(fd);
}

TEST(a_forked_child_neither_opens_nor_answers)
{
	struct other other = other_start(fork_from_here);
	struct message message = { 0 };
	struct weir_ipc_export *more = NULL;
	void *ptr = take(1 * MIB, NULL);
	struct weir_ipc_export *export =
	    share(ptr, WEIR_STREAM_ANY, &message.handle);
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		EXPECT_STATUS(weir_ipc_export(ptr, NULL, &more), WEIR_EFORK);
		weir_ipc_release(export);
		pause();
	}
	tell(other.fd, &message, sizeof(message));
	meet(other.fd);
	other_end(&other);
	EXPECT_EQ(kill(child, SIGKILL), 0);
	EXPECT_EQ(waitpid(child, &status, 0), child);
	weir_ipc_release(export);
	expect_healthy();
}
