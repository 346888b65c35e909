/*
 * A program with an executable graph of a copy and a fill, whose memory it
 * replaces by other memory of the same pool or entry point: of all sizes, from
 * before and after the frees of other memory, and after another pool is opened
 * to a second device. Only memory that the driver takes to be of the same kind
 * is accepted. It prints what was refused.
 */
#include <stdio.h>
#include <string.h>

#include "common/cuda.h"

enum { BYTES = 512, WORDS = BYTES / 4, DEVICE_MEMORY = 2, SIZES = 7 };

/* CUDA_MEMCPY3D and CUDA_MEMSET_NODE_PARAMS. */
struct place {
	size_t x, y, z, lod;
	int type;
	const void *host;
	address device;
	void *array, *reserved;
	size_t pitch, rows;
};
struct copy {
	struct place from, to;
	size_t width, height, depth;
};
struct fill {
	address to;
	size_t pitch;
	unsigned value, element;
	size_t width, height;
};

static struct cuda cuda;
static context here;

static struct {
	result (*pool_create)(void **, const void *);
	result (*pool_access)(void *, const void *, size_t);
	result (*from_pool)(address *, size_t, void *, stream);
	result (*create)(void **, unsigned);
	result (*add_copy)(void **, void *, void *const *, size_t,
	    const struct copy *, context);
	result (*add_fill)(void **, void *, void *const *, size_t,
	    const struct fill *, context);
	result (*instantiate)(void **, void *, unsigned long long);
	result (*set_copy)(void *, void *, const struct copy *, context);
	result (*set_fill)(void *, void *, const struct fill *, context);
	result (*update)(void *, void *, void *);
	result (*launch)(void *, stream);
	result (*destroy)(void *);
	result (*destroy_exec)(void *);
} graph;

static void
fetch_all(void)
{
	cuda_fetch("cuMemPoolCreate", &graph.pool_create);
	cuda_fetch("cuMemPoolSetAccess", &graph.pool_access);
	cuda_fetch("cuMemAllocFromPoolAsync", &graph.from_pool);
	cuda_fetch("cuGraphCreate", &graph.create);
	cuda_fetch("cuGraphAddMemcpyNode", &graph.add_copy);
	cuda_fetch("cuGraphAddMemsetNode", &graph.add_fill);
	cuda_fetch("cuGraphInstantiateWithFlags", &graph.instantiate);
	cuda_fetch("cuGraphExecMemcpyNodeSetParams", &graph.set_copy);
	cuda_fetch("cuGraphExecMemsetNodeSetParams", &graph.set_fill);
	cuda_fetch("cuGraphExecUpdate_v2", &graph.update);
	cuda_fetch("cuGraphLaunch", &graph.launch);
	cuda_fetch("cuGraphDestroy", &graph.destroy);
	cuda_fetch("cuGraphExecDestroy", &graph.destroy_exec);
}

/* ---- Kinds of memory --------------------------------------------------- */

static void *closed;
static void *opened;

static void *
make_pool(void)
{
	struct {
		int type, handles, location, device;
		void *security;
		size_t most;
		char rest[56];
	} props = { .type = 1, .location = 1 };
	void *pool;

	MUST(graph.pool_create(&pool, &props));
	return pool;
}

static void
open_pool(void *pool)
{
	struct {
		int type, device, flags;
	} access = { 1, 1, 3 };

	MUST(graph.pool_access(pool, &access, 1));
}

static address
take_plain(size_t size)
{
	address out;

	MUST(cuda.mem_alloc(&out, size));
	return out;
}

static address
take_ordered(size_t size)
{
	address out;

	MUST(cuda.mem_alloc_async(&out, size, NULL));
	return out;
}

static address
take_closed(size_t size)
{
	address out;

	MUST(graph.from_pool(&out, size, closed, NULL));
	return out;
}

static address
take_opened(size_t size)
{
	address out;

	MUST(graph.from_pool(&out, size, opened, NULL));
	return out;
}

static address
take_host(size_t size)
{
	void *out;

	MUST(cuda.host_alloc(&out, size, 0));
	return (address)(uintptr_t)out;
}

static void
drop_plain(address ptr)
{
	MUST(cuda.mem_free(ptr));
}

static void
drop_ordered(address ptr)
{
	MUST(cuda.mem_free_async(ptr, NULL));
}

static void
drop_host(address ptr)
{
	MUST(cuda.free_host((void *)(uintptr_t)ptr));
}

static const struct kind {
	const char *name;
	address (*take)(size_t size);
	void (*drop)(address ptr);
} kinds[] = {
	{ "plain", take_plain, drop_plain },
	{ "ordered", take_ordered, drop_ordered },
	{ "closed pool", take_closed, drop_ordered },
	{ "opened pool", take_opened, drop_ordered },
	{ "host", take_host, drop_host },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]), OPENED = 3 };

static const size_t sizes[SIZES] = { 512, 4096, 100000, 1 << 20, 3 << 20,
	12 << 20, 40 << 20 };

enum { TAKEN = 2 + 6 * SIZES };
static address taken[KINDS][TAKEN];
static int n_taken[KINDS];

/* Allocate memory that is freed at the end. */
static address
take(int kind, size_t size)
{
	address out = kinds[kind].take(size);

	taken[kind][n_taken[kind]++] = out;
	return out;
}

static void
drop_all(void)
{
	for (int k = 0; k < KINDS; k++)
		for (int i = 0; i < n_taken[k]; i++)
			kinds[k].drop(taken[k][i]);
	MUST(cuda.synchronize());
}

/* ---- Graphs ------------------------------------------------------------ */

static struct copy
copy_of(address to, address from)
{
	return (struct copy){ .from.type = DEVICE_MEMORY,
		.from.device = from,
		.to.type = DEVICE_MEMORY,
		.to.device = to,
		.width = BYTES,
		.height = 1,
		.depth = 1 };
}

static struct fill
fill_of(address to)
{
	return (struct fill){
		.to = to, .value = 9, .element = 4, .width = WORDS, .height = 1
	};
}

/* A graph that fills `from` and then copies it to `to`. */
struct work {
	void *graph, *exec;
	void *nodes[2];
	address to;
};

static struct work
build(address to, address from)
{
	struct work work = { .to = to };
	struct copy copy = copy_of(to, from);
	struct fill fill = fill_of(from);

	MUST(graph.create(&work.graph, 0));
	MUST(graph.add_fill(&work.nodes[0], work.graph, NULL, 0, &fill, here));
	MUST(graph.add_copy(
	    &work.nodes[1], work.graph, work.nodes, 1, &copy, here));
	return work;
}

static struct work
make(address to, address from)
{
	struct work work = build(to, from);

	MUST(graph.instantiate(&work.exec, work.graph, 0));
	return work;
}

static void
drop(struct work *work)
{
	MUST(graph.destroy_exec(work->exec));
	MUST(graph.destroy(work->graph));
}

static unsigned
wrong_after_launch(const struct work *work)
{
	uint32_t words[WORDS];
	unsigned wrong = 0;

	MUST(graph.launch(work->exec, NULL));
	MUST(cuda.synchronize());
	MUST(cuda.copy_out(words, work->to, BYTES));
	for (int i = 0; i < WORDS; i++)
		wrong += words[i] != 9;
	return wrong;
}

static unsigned long wrong_words;

/* Replace the memory node by node, then all of it; the refused calls. */
static unsigned
replace(struct work *work, address to, address from)
{
	struct copy copy = copy_of(to, from);
	struct fill fill = fill_of(from);
	struct work other = build(to, from);
	struct {
		int result;
		void *node, *before;
	} info;
	unsigned refused = 0;

	refused +=
	    graph.set_fill(work->exec, work->nodes[0], &fill, here) != SUCCESS;
	refused +=
	    graph.set_copy(work->exec, work->nodes[1], &copy, here) != SUCCESS;
	refused += graph.update(work->exec, other.graph, &info) != SUCCESS;
	MUST(graph.destroy(other.graph));
	work->to = to;
	if (refused == 0)
		wrong_words += wrong_after_launch(work);
	return refused;
}

/* ---- Rounds ------------------------------------------------------------ */

/* Leave unused memory of all kinds and sizes behind. */
static void
leave_unused(void)
{
	address ptr[2];
	void *host;

	for (int i = 0; i < SIZES; i++) {
		for (int n = 0; n < 2; n++)
			ptr[n] = take_plain(sizes[i]);
		for (int n = 0; n < 2; n++)
			MUST(cuda.mem_free(ptr[n]));
		for (int n = 0; n < 2; n++)
			ptr[n] = take_ordered(sizes[i]);
		for (int n = 0; n < 2; n++)
			MUST(cuda.mem_free_async(ptr[n], NULL));
		/* The streams of the two are exchanged. */
		ptr[0] = take_plain(sizes[i]);
		MUST(cuda.mem_free_async(ptr[0], NULL));
		ptr[0] = take_ordered(sizes[i]);
		MUST(cuda.synchronize());
		MUST(cuda.mem_free(ptr[0]));
		MUST(cuda.host_alloc(&host, sizes[i], 0));
		MUST(cuda.free_host(host));
	}
	MUST(cuda.synchronize());
}

static struct work kept[KINDS];

static void
round_of(const char *when)
{
	printf("%s\n", when);
	leave_unused();
	for (int k = 0; k < KINDS; k++) {
		unsigned refused = 0;

		for (int i = 0; i < SIZES; i++) {
			address to = take(k, sizes[i]);
			address from = take(k, sizes[(i + 3) % SIZES]);

			refused += replace(&kept[k], to, from);
		}
		printf("  %s: %u refused\n", kinds[k].name, refused);
	}
}

int
main(int argc, char **argv)
{
	context other;
	int late = argc > 1 && strcmp(argv[1], "late") == 0;

	cuda_by_dlsym(&cuda);
	here = cuda_start(&cuda);
	MUST(cuda.retain(&other, 1));
	fetch_all();
	leave_unused();
	closed = make_pool();
	opened = make_pool();
	if (!late)
		open_pool(opened);
	for (int k = 0; k < KINDS; k++) {
		/* The other kinds' graphs are older than the access. */
		if (k == OPENED && late)
			continue;
		kept[k] = make(take(k, BYTES), take(k, BYTES));
	}
	if (late) {
		open_pool(opened);
		kept[OPENED] = make(take(OPENED, BYTES), take(OPENED, BYTES));
	}
	round_of("at first");
	round_of("again");
	open_pool(make_pool());
	round_of("after another pool is opened");
	for (int k = 0; k < KINDS; k++)
		drop(&kept[k]);
	drop_all();
	printf("wrong words: %lu\n", wrong_words);
	return wrong_words != 0;
}
