/*
 * Many runs of one path of weir, for a tool that counts instructions.
 *
 *	weir-bench-instructions PATH N
 *	weir-bench-instructions latency-KIND N	one call with N times as many
 *						blocks; print driver calls, time
 *	weir-bench-instructions --machine	print machine and compiler
 *
 * callgrind counts the instructions of bench_measured(); see
 * scripts/bench-instructions. Exit status 3: this weir has no such path.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include <weir/host.h>
#include <weir/stream.h>
#include <weir/trace.h>

#include "simcuda/simcuda.h"
#include "tools/bench/latency.h"

enum {
	SIZE = 64 << 10,
	LARGE = 2 << 20,
	TINY = 1000,
	WARM_UP = 1000,
	NO_SUCH_PATH = 3
};

static weir_stream stream;
static weir_stream user;

static void
cached_pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		weir_free(weir_malloc(SIZE, stream));
}

static void
large_pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		weir_free(weir_malloc(LARGE, stream));
}

static void
records(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		void *block = weir_malloc(SIZE, stream);

		weir_record_stream(block, user);
		weir_free(block);
	}
}

/* The level of the history; OFF for none. */
enum history { OFF, PLAIN, STACKS };

static void
pinned_pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		weir_host_free(weir_host_malloc(SIZE));
}

static void
pinned_tiny_pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		weir_host_free(weir_host_malloc(TINY));
}

/*
 * Entry points of the driver. They are called as by a program that does not
 * know weir: the preload library is in the process and answers the calls.
 * X(name, symbol, parameters)
 */
#define DRIVER_ENTRIES_CALLED(X)                                               \
	X(alloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t))                     \
	X(free, "cuMemFree_v2", (CUdeviceptr))                                 \
	X(alloc_async, "cuMemAllocAsync", (CUdeviceptr *, size_t, CUstream))   \
	X(alloc_from, "cuMemAllocFromPoolAsync",                               \
	    (CUdeviceptr *, size_t, CUmemoryPool, CUstream))                   \
	X(free_async, "cuMemFreeAsync", (CUdeviceptr, CUstream))               \
	X(fill, "cuMemsetD8Async",                                             \
	    (CUdeviceptr, unsigned char, size_t, CUstream))                    \
	X(pool_create, "cuMemPoolCreate",                                      \
	    (CUmemoryPool *, const CUmemPoolProps *))

static struct {
#define CALLED_FIELD(name, symbol, params) CUresult(*name) params;
	DRIVER_ENTRIES_CALLED(CALLED_FIELD)
#undef CALLED_FIELD
	uint64_t (*calls)(const char *entry); /* of the simulated driver */
} driver;

static CUmemoryPool pool;
static bool refused; /* one of these calls failed */

static void
async_pairs_on(CUstream on, unsigned long n)
{
	CUdeviceptr ptr;

	for (unsigned long i = 0; i < n; i++)
		refused |= driver.alloc_async(&ptr, SIZE, on) != CUDA_SUCCESS ||
		    driver.free_async(ptr, on) != CUDA_SUCCESS;
}

static void
async_pairs(unsigned long n)
{
	async_pairs_on(stream, n);
}

static void
async_default_pairs(unsigned long n)
{
	async_pairs_on(NULL, n);
}

static void
async_pool_pairs(unsigned long n)
{
	CUdeviceptr ptr;

	for (unsigned long i = 0; i < n; i++)
		refused |= driver.alloc_from(&ptr, SIZE, pool, stream) !=
			CUDA_SUCCESS ||
		    driver.free_async(ptr, stream) != CUDA_SUCCESS;
}

static void
plain_pairs(unsigned long n)
{
	CUdeviceptr ptr;

	for (unsigned long i = 0; i < n; i++)
		refused |= driver.alloc(&ptr, SIZE) != CUDA_SUCCESS ||
		    driver.free(ptr) != CUDA_SUCCESS;
}

/* Stands for all work that is queued: launches and copies are held alike. */
static void
fills(unsigned long n)
{
	static CUdeviceptr ptr;

	if (ptr == 0)
		refused |= driver.alloc(&ptr, SIZE) != CUDA_SUCCESS;
	for (unsigned long i = 0; i < n; i++)
		refused |= driver.fill(ptr, 0, 1, stream) != CUDA_SUCCESS;
}

static void
primary_pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		weir_free(weir_malloc_primary(0, SIZE, NULL));
}

/* The functions of tools/bench/torch_pairs.cpp, if it was built. */
static struct {
	bool (*begin)(weir_stream stream);
	void (*pairs)(size_t size, unsigned long n);
} torch;

static void
torch_pairs(unsigned long n)
{
	torch.pairs(SIZE, n);
}

static void
torch_default_pairs(unsigned long n)
{
	torch.pairs(SIZE, n);
}

/* ---- Many live blocks, many streams ------------------------------------- */

/* One of LARGE_SHARE blocks is large, with 1 to 20 MiB. The sizes of the others
 * are spread over ten powers of two from 512 bytes on. */
enum {
	LARGE_SHARE = 16,
	LARGE_MIB = 20,
	SMALL_POWERS = 10,
	STREAMS_MAX = 10000
};

static struct {
	void **blocks;
	size_t count;
	weir_stream streams[STREAMS_MAX];
	unsigned stream_count;
	uint64_t random;
} live;

static uint64_t
roll(uint64_t below)
{
	live.random ^= live.random << 13;
	live.random ^= live.random >> 7;
	live.random ^= live.random << 17;
	return (live.random >> 11) % below;
}

static size_t
roll_size(void)
{
	if (roll(LARGE_SHARE) == 0)
		return (1 << 20) + roll((LARGE_MIB - 1) << 20);
	return 512 + roll((size_t)512 << roll(SMALL_POWERS));
}

static void *
malloc_anywhere(void)
{
	return weir_malloc(roll_size(), live.streams[roll(live.stream_count)]);
}

/* Free a random block, and allocate a random size on a random stream. */
static void
live_pairs(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		void **block = &live.blocks[roll(live.count)];

		weir_free(*block);
		*block = malloc_anywhere();
	}
}

static bool
begin_live(size_t count, unsigned streams)
{
	if (streams == 0)
		return false;
	live.count = count;
	live.stream_count = streams;
	live.random = 88172645463325252u;
	live.blocks = calloc(count, sizeof(*live.blocks));
	for (unsigned i = 0; i < streams; i++)
		if (weir_stream_create(0, 0, &live.streams[i]) != WEIR_OK)
			return false;
	for (size_t i = 0; i < count && live.blocks != NULL; i++)
		live.blocks[i] = malloc_anywhere();
	return live.blocks != NULL;
}

struct path {
	const char *name;
	const char *conf; /* or NULL */
	void (*run)(unsigned long n);
	enum history history;
	bool preloaded;   /* calls the driver, and the preload answers */
	size_t live;      /* live blocks of live_pairs() */
	unsigned streams; /* streams of these blocks */
};

static const struct path paths[] = {
	{ "cached-pair", NULL, cached_pairs, OFF, false, 0, 0 },
	{ "large-pair", NULL, large_pairs, OFF, false, 0, 0 },
	{ "pool-pair", "tcache:0", cached_pairs, OFF, false, 0, 0 },
	{ "record-cycle", NULL, records, OFF, false, 0, 0 },
	{ "pinned-pair", NULL, pinned_pairs, OFF, false, 0, 0 },
	{ "pinned-tiny-pair", NULL, pinned_tiny_pairs, OFF, false, 0, 0 },
	{ "primary-pair", NULL, primary_pairs, OFF, false, 0, 0 },
	/* With the tests' double of PyTorch. */
	{ "torch-pair", NULL, torch_pairs, OFF, false, 0, 0 },
	{ "torch-default-pair", NULL, torch_default_pairs, OFF, false, 0, 0 },
	/* Three events each. */
	{ "traced-pair", NULL, cached_pairs, PLAIN, false, 0, 0 },
	{ "stacked-pair", NULL, cached_pairs, STACKS, false, 0, 0 },
	{ "async-pair", NULL, async_pairs, OFF, true, 0, 0 },
	{ "async-default-pair", NULL, async_default_pairs, OFF, true, 0, 0 },
	{ "async-pool-pair", NULL, async_pool_pairs, OFF, true, 0, 0 },
	{ "plain-pair", NULL, plain_pairs, OFF, true, 0, 0 },
	/* With WEIR_REPORT set. */
	{ "reported-async-pair", NULL, async_pairs, OFF, true, 0, 0 },
	{ "reported-plain-pair", NULL, plain_pairs, OFF, true, 0, 0 },
	/* In programs that may sleep, with WEIR_MAY_SLEEP set too, and in the
	 * member of a group. valgrind has no membarrier(2), so that a fill
	 * takes the longer way there. */
	{ "fill", NULL, fills, OFF, true, 0, 0 },
	{ "may-sleep-fill", "may_sleep:True", fills, OFF, true, 0, 0 },
	{ "may-sleep-async-pair", "may_sleep:True", async_pairs, OFF, true, 0,
	    0 },
	{ "may-sleep-plain-pair", "may_sleep:True", plain_pairs, OFF, true, 0,
	    0 },
	{ "may-sleep-pool-pair", "may_sleep:True,tcache:0", cached_pairs, OFF,
	    false, 0, 0 },
	{ "member-pool-pair", "group:bench,may_sleep:True,tcache:0",
	    cached_pairs, OFF, false, 0, 0 },
	/* An event with a growing number of blocks and of streams. */
	{ "live-1k", NULL, live_pairs, OFF, false, 1000, 1 },
	{ "live-30k", NULL, live_pairs, OFF, false, 30000, 1 },
	{ "live-100k", NULL, live_pairs, OFF, false, 100000, 1 },
	{ "live-1m", NULL, live_pairs, OFF, false, 1000000, 1 },
	{ "live-1k-4", NULL, live_pairs, OFF, false, 1000, 4 },
	{ "live-1k-16", NULL, live_pairs, OFF, false, 1000, 16 },
	{ "live-1k-64", NULL, live_pairs, OFF, false, 1000, 64 },
	{ "live-1k-1000", NULL, live_pairs, OFF, false, 1000, 1000 },
	{ "live-1k-10000", NULL, live_pairs, OFF, false, 1000, STREAMS_MAX },
};

void bench_measured(void (*run)(unsigned long n), unsigned long n);

/* callgrind counts from the begin to the end of this call. */
__attribute__((noinline)) void
bench_measured(void (*run)(unsigned long n), unsigned long n)
{
	run(n);
	/* This prevents a tail call of run(), in which counting would not
	 * end. */
	__asm__ volatile("");
}

/* A call through this pointer needs the function by its name, so that the
 * compiler makes no specialised copy of it. */
static void (*volatile measured)(
    void (*run)(unsigned long n), unsigned long n) = bench_measured;

static const struct path *
path_find(const char *name)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (strcmp(paths[i].name, name) == 0)
			return &paths[i];
	return NULL;
}

/* Print the machine and the compiler. Counts of instructions can be compared
 * only if both are the same. */
static void
print_machine(void)
{
	struct utsname machine;

	if (uname(&machine) != 0)
		snprintf(machine.machine, sizeof(machine.machine), "unknown");
#if defined(__clang__)
	printf("%s clang-%d\n", machine.machine, __clang_major__);
#else
	printf("%s gcc-%d\n", machine.machine, __GNUC__);
#endif
}

static int
print_failure(const char *what)
{
	fprintf(stderr, "weir-bench-instructions: %s: %s\n", what,
	    weir_last_error());
	return 1;
}

static enum weir_status
start_history(enum history history)
{
	const struct weir_history plain = { .struct_size = sizeof(plain) };

	if (history == OFF)
		return WEIR_OK;
	return weir_history_start(history == PLAIN ? &plain : NULL);
}

/* Put the address of a symbol into the function pointer `function`. C has no
 * cast for that. False if the symbol is missing. */
static bool
find_called_symbol(void *library, const char *symbol, void *function)
{
	void *found = library != NULL ? dlsym(library, symbol) : NULL;

	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

static bool
find_driver(void)
{
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	bool all = find_called_symbol(library, "simcuda_calls", &driver.calls);

#define CALLED_FIND(name, symbol, params)                                      \
	all = find_called_symbol(library, symbol, &driver.name) && all;
	DRIVER_ENTRIES_CALLED(CALLED_FIND)
#undef CALLED_FIND
	return all && driver.pool_create(&pool, &props) == CUDA_SUCCESS;
}

static bool
is_torch(const struct path *path)
{
	return path->run == torch_pairs || path->run == torch_default_pairs;
}

static bool
begin_torch(const struct path *path)
{
	void *library = dlopen("$ORIGIN/../lib/bench_torch.so", RTLD_NOW);

	return find_called_symbol(library, "torch_pairs_begin", &torch.begin) &&
	    find_called_symbol(library, "torch_pairs", &torch.pairs) &&
	    torch.begin(path->run == torch_pairs ? stream : NULL);
}

/* True if all calls of the measured loop succeeded. The loop itself does not
 * check them. */
static bool
all_served(const struct path *path, unsigned long n)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	bool pinned =
	    path->run == pinned_pairs || path->run == pinned_tiny_pairs;

	if (path->preloaded) /* weir must have served the calls */
		return !refused && driver.calls("cuMemAllocAsync") == 0 &&
		    driver.calls("cuMemAllocFromPoolAsync") == 0 &&
		    driver.calls("cuMemAlloc") < n;
	return (pinned ? weir_host_stats(0, &stats) : weir_stats(0, &stats)) ==
	    WEIR_OK &&
	    stats.allocation.all.allocated == n &&
	    stats.allocation.all.freed == n;
}

static bool
reset_stats(void)
{
	return weir_stats_reset_accumulated(0) == WEIR_OK &&
	    weir_host_stats_reset_accumulated(0) == WEIR_OK;
}

/* Measure one call of a kind, and print its driver calls. */
static int
measure_latency(const struct latency *kind, unsigned long times)
{
	struct timespec from;
	struct timespec to;

	if (weir_options_set(kind->conf) != WEIR_OK ||
	    weir_set_device(0) != WEIR_OK || !latency_begin(kind, times))
		return print_failure("cannot begin");
	if (!find_driver())
		return print_failure("no simulated driver");
	uint64_t before = latency_driver_calls(driver.calls);
	clock_gettime(CLOCK_MONOTONIC, &from);
	measured(kind->run, 1);
	clock_gettime(CLOCK_MONOTONIC, &to);
	uint64_t calls = latency_driver_calls(driver.calls) - before;
	if (!kind->is_right())
		return print_failure("the call has not done its work");
	printf("%llu driver calls\n%.0f us\n", (unsigned long long)calls,
	    (double)(to.tv_sec - from.tv_sec) * 1e6 +
		(double)(to.tv_nsec - from.tv_nsec) / 1e3);
	return 0;
}

int
main(int argc, char **argv)
{
	const struct latency *kind = argc == 3 ? latency_find(argv[1]) : NULL;

	if (kind != NULL)
		return measure_latency(kind, strtoul(argv[2], NULL, 10));
	const struct path *path = argc == 3 ? path_find(argv[1]) : NULL;
	unsigned long n = path != NULL ? strtoul(argv[2], NULL, 10) : 0;

	if (argc == 2 && strcmp(argv[1], "--machine") == 0) {
		print_machine();
		return 0;
	}
	if (n == 0) {
		fputs("Usage: weir-bench-instructions PATH N, or --machine\n",
		    stderr);
		return 2;
	}
	if (path->conf != NULL && weir_options_set(path->conf) != WEIR_OK)
		return NO_SUCH_PATH;
	if (weir_set_device(0) != WEIR_OK ||
	    weir_stream_create(0, 0, &stream) != WEIR_OK ||
	    weir_stream_create(0, 0, &user) != WEIR_OK ||
	    start_history(path->history) != WEIR_OK)
		return print_failure("cannot begin");
	if (path->preloaded && !find_driver())
		return print_failure("no simulated driver");
	if (is_torch(path) && !begin_torch(path))
		return NO_SUCH_PATH;
	if (path->live > 0 && !begin_live(path->live, path->streams))
		return print_failure("cannot begin");
	/* Live blocks are shuffled before the measurement. */
	path->run(path->live > 0 ? n : WARM_UP);
	if (!path->preloaded && !reset_stats())
		return print_failure("cannot begin");
	measured(path->run, n);
	if (!all_served(path, n))
		return print_failure("not every call succeeded");
	return 0;
}
