/*
 * A program with memory pools by the driver's calls: a pointer's attributes of
 * its pool, pools by location, a thread's own default stream, and a pool that
 * is shared with a child, which is forked before the driver is used.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"

enum {
	WORDS = 50000,
	BYTES = WORDS * 4,
	PINNED = 1,
	ON_DEVICE = 1,
	DESCRIPTOR = 1,
	USED = 7,
	ALLOWED_HANDLES = 14,
	POOL_OF_POINTER = 17,
	IPC_CAPABLE = 10,
	RANGE_BASE = 11,
};

typedef struct pool_st *pool;

struct location {
	int type;
	int id;
};

struct properties {
	int kind;
	int handles;
	struct location location;
	void *unused;
	size_t most;
	unsigned short usage;
	unsigned char reserved[54];
};

struct shared_pointer {
	unsigned char bytes[64];
};

static struct cuda cuda;
static uint32_t host[WORDS];

/* X(name, parameters): as exported. */
#define POOL_FUNCTIONS(X)                                                      \
	X(cuMemPoolCreate, (pool *, const struct properties *))                \
	X(cuMemPoolDestroy, (pool))                                            \
	X(cuMemPoolGetAttribute, (pool, int, void *))                          \
	X(cuMemAllocFromPoolAsync, (address *, size_t, pool, stream))          \
	X(cuMemAllocFromPoolAsync_ptsz, (address *, size_t, pool, stream))     \
	X(cuMemAllocAsync_ptsz, (address *, size_t, stream))                   \
	X(cuMemFreeAsync_ptsz, (address, stream))                              \
	X(cuMemsetD32Async_ptsz, (address, unsigned, size_t, stream))          \
	X(cuDeviceGetDefaultMemPool, (pool *, int))                            \
	X(cuDeviceGetMemPool, (pool *, int))                                   \
	X(cuMemRetainAllocationHandle, (unsigned long long *, void *))         \
	X(cuMemPoolExportToShareableHandle,                                    \
	    (void *, pool, int, unsigned long long))                           \
	X(cuMemPoolImportFromShareableHandle,                                  \
	    (pool *, void *, int, unsigned long long))                         \
	X(cuMemPoolExportPointer, (struct shared_pointer *, address))          \
	X(cuMemPoolImportPointer, (address *, pool, struct shared_pointer *))

static struct {
#define POOL_FIELD(name, params) result(*name) params;
	POOL_FUNCTIONS(POOL_FIELD)
#undef POOL_FIELD
} p;

static void *
look_up(const char *name)
{
	return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

static void
find_functions(void)
{
	void *symbol;

#define POOL_FIND(name, params)                                                \
	symbol = look_up(#name);                                               \
	if (symbol == NULL)                                                    \
		exit(3);                                                       \
	memcpy(&p.name, &symbol, sizeof(symbol));
	POOL_FUNCTIONS(POOL_FIND)
#undef POOL_FIND
}

static pool
make_pool(int handles)
{
	struct properties properties;
	pool made;

	memset(&properties, 0, sizeof(properties));
	properties.kind = PINNED;
	properties.handles = handles;
	properties.location.type = ON_DEVICE;
	MUST(p.cuMemPoolCreate(&made, &properties));
	return made;
}

static unsigned
wrong_words(address ptr, uint32_t value)
{
	unsigned wrong = 0;

	MUST(cuda.synchronize());
	MUST(cuda.copy_out(host, ptr, BYTES));
	for (int i = 0; i < WORDS; i++)
		wrong += host[i] != value;
	return wrong;
}

/* Print a pointer's origin, by its attributes. */
static void
describe(const char *what, address ptr, pool expected)
{
	unsigned long long handles = 99;
	unsigned long long handle;
	address start = 0;
	char capable = 99;
	pool its = NULL;

	MUST(cuda.get_attribute(&its, POOL_OF_POINTER, ptr + 100));
	MUST(cuda.get_attribute(&handles, ALLOWED_HANDLES, ptr));
	MUST(cuda.get_attribute(&capable, IPC_CAPABLE, ptr));
	MUST(cuda.get_attribute(&start, RANGE_BASE, ptr + BYTES - 1));
	printf("%s: its pool %d, handles %llu, for other processes %d, start "
	       "%d, retained %d\n",
	    what, its == expected, handles, capable, start == ptr,
	    p.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)ptr));
}

static unsigned
try_pointers(stream on)
{
	pool own = make_pool(0);
	pool standard;
	unsigned wrong;
	address plain;
	address from_own;
	address from_standard;

	MUST(p.cuDeviceGetDefaultMemPool(&standard, 0));
	MUST(cuda.mem_alloc(&plain, BYTES));
	MUST(p.cuMemAllocFromPoolAsync(&from_own, BYTES, own, on));
	MUST(cuda.mem_alloc_async(&from_standard, BYTES, on));
	MUST(cuda.stream_synchronize(on));
	describe("plain", plain, NULL);
	describe("own", from_own, own);
	describe("default", from_standard, standard);
	MUST(cuda.fill(from_own, 5, WORDS, on));
	wrong = wrong_words(from_own, 5);
	MUST(cuda.mem_free_async(plain, on));
	MUST(cuda.mem_free_async(from_standard, on));
	printf("plain free of its memory: %d\n", cuda.mem_free(from_own));
	printf("once more: %d\n", cuda.mem_free(from_own));
	MUST(cuda.stream_synchronize(on));
	MUST(p.cuMemPoolDestroy(own));
	return wrong;
}

/* Newer drivers have it. */
static void
try_locations(void)
{
	result (*set)(struct location *, int, pool);
	result (*get)(pool *, struct location *, int);
	struct location here = { ON_DEVICE, 0 };
	pool own = make_pool(0);
	unsigned long long used = 0;
	address ptr;
	void *found[2];
	pool now;

	found[0] = look_up("cuMemSetMemPool");
	found[1] = look_up("cuMemGetMemPool");
	if (found[0] == NULL || found[1] == NULL)
		return;
	memcpy(&set, &found[0], sizeof(set));
	memcpy(&get, &found[1], sizeof(get));
	MUST(set(&here, PINNED, own));
	MUST(get(&now, &here, PINNED));
	MUST(cuda.mem_alloc_async(&ptr, BYTES, NULL));
	MUST(p.cuMemPoolGetAttribute(own, USED, &used));
	printf("current by location: %d, used %d\n", now == own, used >= BYTES);
	MUST(cuda.mem_free_async(ptr, NULL));
	MUST(p.cuMemPoolDestroy(own));
}

static unsigned
try_own_stream(void)
{
	pool own = make_pool(0);
	unsigned wrong = 0;

	for (uint32_t i = 0; i < 50; i++) {
		address a;
		address b;

		MUST(p.cuMemAllocFromPoolAsync_ptsz(&a, BYTES, own, NULL));
		MUST(p.cuMemAllocAsync_ptsz(&b, BYTES, NULL));
		MUST(p.cuMemsetD32Async_ptsz(a, i, WORDS, NULL));
		MUST(p.cuMemsetD32Async_ptsz(b, ~i, WORDS, NULL));
		wrong += wrong_words(a, i);
		MUST(p.cuMemFreeAsync_ptsz(a, NULL));
		MUST(p.cuMemFreeAsync_ptsz(b, NULL));
	}
	MUST(p.cuMemPoolDestroy(own));
	return wrong;
}

/* ---- A pool that is shared ----------------------------------------------- */

static void
send_descriptor(int to, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec one = { "d", 1 };
	struct msghdr message = { .msg_iov = &one,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	if (sendmsg(to, &message, 0) != 1)
		exit(3);
}

static int
receive_descriptor(int from)
{
	char control[CMSG_SPACE(sizeof(int))];
	char byte;
	struct iovec one = { &byte, 1 };
	struct msghdr message = { .msg_iov = &one,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control) };
	int fd;

	if (recvmsg(from, &message, 0) != 1 || CMSG_FIRSTHDR(&message) == NULL)
		exit(3);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

static _Noreturn void
child(int parent)
{
	int fd = receive_descriptor(parent);
	struct shared_pointer shared;
	unsigned wrong;
	address ptr;
	pool its;

	cuda_start(&cuda);
	MUST(p.cuMemPoolImportFromShareableHandle(
	    &its, (void *)(intptr_t)fd, DESCRIPTOR, 0));
	if (read(parent, &shared, sizeof(shared)) != sizeof(shared))
		exit(3);
	MUST(p.cuMemPoolImportPointer(&ptr, its, &shared));
	wrong = wrong_words(ptr, 77);
	MUST(cuda.fill(ptr, 78, WORDS, NULL));
	MUST(cuda.synchronize());
	MUST(cuda.mem_free(ptr));
	if (write(parent, &wrong, sizeof(wrong)) != sizeof(wrong))
		exit(3);
	exit(0);
}

static unsigned
try_sharing(int reader, stream on)
{
	pool shared_pool = make_pool(DESCRIPTOR);
	struct shared_pointer shared;
	unsigned wrong = 1;
	address ptr;
	int fd = -1;

	MUST(p.cuMemPoolExportToShareableHandle(
	    &fd, shared_pool, DESCRIPTOR, 0));
	send_descriptor(reader, fd);
	close(fd);
	MUST(p.cuMemAllocFromPoolAsync(&ptr, BYTES, shared_pool, on));
	MUST(cuda.fill(ptr, 77, WORDS, on));
	MUST(cuda.stream_synchronize(on));
	printf(
	    "pointer for others: %d\n", p.cuMemPoolExportPointer(&shared, ptr));
	if (write(reader, &shared, sizeof(shared)) != sizeof(shared) ||
	    read(reader, &wrong, sizeof(wrong)) != sizeof(wrong))
		exit(3);
	wrong += wrong_words(ptr, 78);
	MUST(cuda.mem_free_async(ptr, on));
	MUST(cuda.stream_synchronize(on));
	MUST(p.cuMemPoolDestroy(shared_pool));
	return wrong;
}

int
main(void)
{
	int sockets[2];
	unsigned wrong;
	pid_t reader;
	stream on;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
		return 3;
	reader = fork();
	cuda_by_dlsym(&cuda);
	find_functions();
	if (reader == 0)
		child(sockets[1]);
	cuda_start(&cuda);
	MUST(cuda.stream_create(&on, 1, 0));
	wrong = try_sharing(sockets[0], on);
	wrong += try_pointers(on);
	try_locations();
	wrong += try_own_stream();
	MUST(cuda.stream_destroy(on));
	waitpid(reader, NULL, 0);
	printf("wrong words: %u\n", wrong);
	return wrong != 0;
}
