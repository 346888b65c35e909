/*
 * A program that allocates and frees on a stream again and again, and then
 * changes the objects that its requests there depend on: a pool's attributes,
 * the device's pool, a capture, streams and contexts that end, a fork. It
 * prints the results. With "two" it alternates between two devices; with
 * "exact" it prints the exact counts of pools.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/cuda.h"

enum {
	BYTES = 5000,
	ROUNDS = 8,
	NON_BLOCKING = 1,
	RELAXED = 2,
	PINNED = 1,
	ON_DEVICE = 1,
	REUSE_OPPORTUNISTIC = 2,
	USED = 7,
	USED_HIGH = 8,
	ORDINAL = 9,
	POOL_OF_POINTER = 17,
};

typedef struct pool_st *pool;

struct properties {
	int kind;
	int handles;
	int location[2];
	void *unused;
	size_t most;
	unsigned short usage;
	unsigned char reserved[54];
};

struct access {
	int location[2];
	int flags;
};

static struct cuda cuda;
static stream kept;
static pool standard;
static int exact;

/* X(name, parameters): as exported. */
#define MORE_FUNCTIONS(X)                                                      \
	X(cuMemPoolCreate, (pool *, const struct properties *))                \
	X(cuMemPoolDestroy, (pool))                                            \
	X(cuMemPoolGetAttribute, (pool, int, void *))                          \
	X(cuMemPoolSetAttribute, (pool, int, void *))                          \
	X(cuMemAllocFromPoolAsync, (address *, size_t, pool, stream))          \
	X(cuDeviceGetDefaultMemPool, (pool *, int))                            \
	X(cuDeviceSetMemPool, (int, pool))                                     \
	X(cuStreamBeginCapture_v2, (stream, int))                              \
	X(cuStreamEndCapture, (stream, void **))                               \
	X(cuGraphDestroy, (void *))                                            \
	X(cuEventCreate, (void **, unsigned))                                  \
	X(cuEventRecord, (void *, stream))                                     \
	X(cuStreamWaitEvent, (stream, void *, unsigned))                       \
	X(cuMemPoolSetAccess, (pool, const struct access *, size_t))

static struct {
#define MORE_FIELD(name, params) result(*name) params;
	MORE_FUNCTIONS(MORE_FIELD)
#undef MORE_FIELD
} p;

static void
find_functions(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	void *symbol;

#define MORE_FIND(name, params)                                                \
	symbol = dlsym(library, #name);                                        \
	if (symbol == NULL)                                                    \
		exit(3);                                                       \
	memcpy(&p.name, &symbol, sizeof(symbol));
	MORE_FUNCTIONS(MORE_FIND)
#undef MORE_FIND
}

static void
warm_up(stream on)
{
	address ptr;

	for (int i = 0; i < ROUNDS; i++) {
		MUST(cuda.mem_alloc_async(&ptr, BYTES, on));
		MUST(cuda.mem_free_async(ptr, on));
	}
}

static uint64_t
counter(pool of, int attribute)
{
	uint64_t value = 0;

	MUST(p.cuMemPoolGetAttribute(of, attribute, &value));
	return value;
}

/* Print the bytes that a pool has in use. A GPU's driver counts a free some
 * time after it is done, so the count is only certain to be at least `live`. */
static void
show_used(const char *what, pool of, int attribute, unsigned long long live)
{
	unsigned long long used = counter(of, attribute);

	if (exact)
		printf("%s %llu", what, used);
	else
		printf("%s enough %d", what, used >= live);
}

static pool
pool_of(address ptr)
{
	pool its = NULL;

	MUST(cuda.get_attribute(&its, POOL_OF_POINTER, ptr));
	return its;
}

static pool
make_pool(void)
{
	struct properties properties;
	pool made;

	memset(&properties, 0, sizeof(properties));
	properties.kind = PINNED;
	properties.location[0] = ON_DEVICE;
	MUST(p.cuMemPoolCreate(&made, &properties));
	return made;
}

/* ---- Changes ----------------------------------------------------------- */

static void
count(stream on)
{
	uint64_t none = 0;
	address a;
	address b;

	warm_up(on);
	MUST(cuda.stream_synchronize(on));
	MUST(p.cuMemPoolSetAttribute(standard, USED_HIGH, &none));
	MUST(cuda.mem_alloc_async(&a, BYTES, on));
	MUST(cuda.mem_alloc_async(&b, 3 * BYTES, on));
	show_used("two:", standard, USED, 4 * BYTES);
	MUST(cuda.mem_free_async(a, on));
	MUST(cuda.stream_synchronize(on));
	show_used(", one:", standard, USED, 3 * BYTES);
	MUST(cuda.mem_free_async(b, on));
	MUST(cuda.stream_synchronize(on));
	show_used(", none:", standard, USED, 0);
	show_used(", at most", standard, USED_HIGH, 4 * BYTES);
	printf("\n");
}

/* One block of the driver. */
static void
restrict_reuse(stream on)
{
	address ptr;
	int off = 0;
	int back = 1;

	warm_up(on);
	MUST(p.cuMemPoolSetAttribute(standard, REUSE_OPPORTUNISTIC, &off));
	MUST(cuda.mem_alloc_async(&ptr, BYTES, on));
	MUST(p.cuMemPoolSetAttribute(standard, REUSE_OPPORTUNISTIC, &back));
	warm_up(on);
	MUST(cuda.mem_free_async(ptr, on));
}

static void
change_pool(stream on)
{
	pool own = make_pool();
	address a;
	address b;

	warm_up(on);
	MUST(p.cuDeviceSetMemPool(0, own));
	MUST(cuda.mem_alloc_async(&a, BYTES, on));
	warm_up(on);
	MUST(p.cuDeviceSetMemPool(0, standard));
	MUST(cuda.mem_alloc_async(&b, BYTES, on));
	printf("the other pool: %d", pool_of(a) == own);
	show_used("", own, USED, BYTES);
	printf(", back: %d\n", pool_of(b) == standard);
	MUST(cuda.mem_free_async(b, on));
	MUST(cuda.mem_free_async(a, on));
	MUST(cuda.stream_synchronize(on));
	show_used("in the end:", own, USED, 0);
	printf("\n");
	MUST(p.cuDeviceSetMemPool(0, own));
	warm_up(on);
	MUST(p.cuMemPoolDestroy(own));
	MUST(cuda.mem_alloc_async(&a, BYTES, on));
	printf("without it: %d\n", pool_of(a) == standard);
	MUST(cuda.mem_free_async(a, on));
}

/* Pools that the program created, by their handles, in turn with the default
 * one. */
static void
name_pools(stream on)
{
	pool one = make_pool();
	pool two = make_pool();
	address a = 0;
	address b = 0;
	address c = 0;

	for (int i = 0; i < ROUNDS; i++) {
		if (i > 0) {
			MUST(cuda.mem_free_async(a, on));
			MUST(cuda.mem_free_async(c, on));
			MUST(cuda.mem_free_async(b, on));
		}
		MUST(p.cuMemAllocFromPoolAsync(&a, BYTES, one, on));
		MUST(p.cuMemAllocFromPoolAsync(&b, 2 * BYTES, two, on));
		MUST(cuda.mem_alloc_async(&c, BYTES, on));
	}
	printf("named: %d %d %d", pool_of(a) == one, pool_of(b) == two,
	    pool_of(c) == standard);
	show_used(",", one, USED, BYTES);
	show_used(",", two, USED, 2 * BYTES);
	printf("\n");
	MUST(cuda.mem_free_async(a, on));
	MUST(cuda.mem_free_async(c, on));
	MUST(p.cuMemPoolDestroy(one));
	one = make_pool();
	MUST(p.cuMemAllocFromPoolAsync(&a, BYTES, one, on));
	MUST(cuda.stream_synchronize(on));
	show_used("named anew:", one, USED, BYTES);
	show_used(",", two, USED, 2 * BYTES);
	printf("\n");
	MUST(cuda.mem_free_async(b, on));
	MUST(cuda.mem_free_async(a, on));
	MUST(cuda.stream_synchronize(on));
	show_used("named and freed:", one, USED, 0);
	show_used(",", two, USED, 0);
	show_used(",", standard, USED, 0);
	printf("\n");
	MUST(p.cuMemPoolDestroy(one));
	MUST(p.cuMemPoolDestroy(two));
}

/* A stream joins the capture of another when it waits for it. */
static void
follow(stream later, stream earlier)
{
	void *event;

	MUST(p.cuEventCreate(&event, 2));
	MUST(p.cuEventRecord(event, earlier));
	MUST(p.cuStreamWaitEvent(later, event, 0));
}

/* An allocation in a capture is a node of the graph. */
static void
capture(stream on, stream other)
{
	void *graph = NULL;
	address outer;
	address inner;
	address beside;

	warm_up(on);
	warm_up(other);
	MUST(cuda.mem_alloc_async(&outer, BYTES, on));
	MUST(p.cuStreamBeginCapture_v2(on, RELAXED));
	MUST(cuda.mem_alloc_async(&inner, BYTES, on));
	printf("of the outside, in a capture: %d\n",
	    cuda.mem_free_async(outer, on));
	MUST(cuda.mem_alloc_async(&beside, BYTES, other));
	MUST(cuda.mem_free_async(beside, other));
	warm_up(other);
	follow(other, on);
	MUST(cuda.mem_alloc_async(&beside, BYTES, other));
	MUST(cuda.mem_free_async(beside, other));
	follow(on, other);
	printf("of the inside: %d\n", cuda.mem_free_async(inner, on));
	result end = p.cuStreamEndCapture(on, &graph);
	printf("the end: %d\n", end);
	if (graph != NULL)
		MUST(p.cuGraphDestroy(graph));
	warm_up(on);
	MUST(cuda.mem_free_async(outer, on));
}

static void
free_wrongly(stream on, stream other)
{
	address ptr;

	warm_up(on);
	warm_up(other);
	MUST(cuda.mem_alloc_async(&ptr, BYTES, on));
	printf("in the middle: %d\n", cuda.mem_free_async(ptr + 512, on));
	MUST(cuda.mem_free_async(ptr, other));
	printf("twice: %d\n", cuda.mem_free_async(ptr, other));
	printf("nothing: %d\n", cuda.mem_alloc_async(NULL, BYTES, on));
	printf("no bytes: %d\n", cuda.mem_alloc_async(&ptr, 0, on));
}

static void
replace_streams(void)
{
	address left = 0;
	stream on;

	for (int i = 0; i < ROUNDS; i++) {
		MUST(cuda.stream_create(&on, NON_BLOCKING, 0));
		warm_up(on);
		if (left != 0)
			MUST(cuda.mem_free_async(left, on));
		MUST(cuda.mem_alloc_async(&left, BYTES, on));
		MUST(cuda.fill(left, 1, BYTES / 4, on));
		MUST(cuda.stream_synchronize(on));
		MUST(cuda.stream_destroy(on));
	}
	MUST(cuda.mem_free(left));
}

/* No context is current: the call uses the stream's context, or fails. */
static void *
without_context(void *argument)
{
	address ptr;

	cuda.set_current(argument);
	for (int i = 0; i < ROUNDS; i++) {
		MUST(cuda.mem_alloc_async(&ptr, BYTES, kept));
		MUST(cuda.mem_free_async(ptr, kept));
	}
	cuda.set_current(NULL);
	printf("no stream and no context: %d\n",
	    cuda.mem_alloc_async(&ptr, BYTES, NULL));
	return NULL;
}

static void
use_thread(context primary)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, without_context, primary) != 0)
		exit(3);
	pthread_join(thread, NULL);
}

/* A GPU's driver may hand out memory of its pool in a child. */
static void
have_child(stream on)
{
	int status = 0;
	address ptr;
	pid_t child;

	warm_up(on);
	fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(
		    cuda.mem_alloc_async(&ptr, BYTES, on) != SUCCESS ? 20 : 21);
	waitpid(child, &status, 0);
	printf("child: exit %d\n",
	    exact || WEXITSTATUS(status) != 21 ? WEXITSTATUS(status) : 20);
	warm_up(on);
}

/* The driver may have ended by now. */
static void
be_late(void)
{
	address ptr;

	printf("late: %d\n", cuda.mem_alloc_async(&ptr, BYTES, kept));
}

/* ---- Two devices ------------------------------------------------------- */

static int
ordinal_of(address ptr)
{
	int ordinal = -1;

	MUST(cuda.get_attribute(&ordinal, ORDINAL, ptr));
	return ordinal;
}

/* On the default stream of each device, and on another stream of each. */
static void
alternate(context one, context two)
{
	address a;
	address b;

	for (int i = 0; i < ROUNDS; i++) {
		MUST(cuda.set_current(one));
		warm_up(NULL);
		MUST(cuda.mem_alloc_async(&a, BYTES, NULL));
		MUST(cuda.set_current(two));
		warm_up(NULL);
		warm_up(kept);
		MUST(cuda.mem_alloc_async(&b, BYTES, NULL));
		printf("%d %d\n", ordinal_of(a), ordinal_of(b));
		MUST(cuda.mem_free_async(b, NULL));
		MUST(cuda.set_current(one));
		MUST(cuda.mem_free_async(a, NULL));
	}
}

/* A block of a pool that the other device may use. */
static void
give_access(void)
{
	const struct access access = { { ON_DEVICE, 1 }, 3 };
	address ptr;

	warm_up(kept);
	MUST(p.cuMemPoolSetAccess(standard, &access, 1));
	MUST(cuda.mem_alloc_async(&ptr, BYTES, kept));
	MUST(cuda.mem_free_async(ptr, kept));
}

int
main(int argc, char **argv)
{
	context primary;
	context second;
	stream other;
	int on_two = argc > 1 && strcmp(argv[1], "two") == 0;

	exact = argc > 1 && strcmp(argv[1], "exact") == 0;
	cuda_by_dlsym(&cuda);
	find_functions();
	if (!on_two) /* runs before the driver's exit handlers */
		atexit(be_late);
	primary = cuda_start(&cuda);
	MUST(p.cuDeviceGetDefaultMemPool(&standard, 0));
	MUST(cuda.stream_create(&kept, NON_BLOCKING, 0));
	MUST(cuda.stream_create(&other, NON_BLOCKING, 0));
	if (on_two) {
		MUST(cuda.retain(&second, 1));
		alternate(primary, second);
		give_access();
		return 0;
	}
	for (int i = 0; i < 2; i++) {
		stream on = i == 0 ? kept : NULL;

		count(on);
		restrict_reuse(on);
		change_pool(on);
		name_pools(on);
		free_wrongly(on, other);
	}
	capture(kept, other);
	replace_streams();
	use_thread(primary);
	have_child(kept);
	MUST(cuda.synchronize());
	return 0;
}
