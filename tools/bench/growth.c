/*
 * Work of weir with n of something, for a tool that counts instructions.
 *
 *	weir-bench-growth CASE N
 *	weir-bench-growth CASE N FILE	begin, and write a snapshot to FILE
 *	weir-bench-growth --list	print the cases, and N of each
 *
 * callgrind counts the instructions of growth_measured(); see
 * scripts/bench-growth, which compares N with four times N.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/ctl.h>
#include <weir/exchange.h>
#include <weir/graph.h>
#include <weir/host.h>
#include <weir/save.h>
#include <weir/sleep.h>
#include <weir/stream.h>
#include <weir/trace.h>

enum { KIB = 1 << 10, SEGMENT = 2 << 20 };

/* The n things of a case. */
static struct {
	void **blocks;
	weir_stream *streams;
	struct weir_tensor **tensors;
	struct weir_named *named;
	char (*names)[24];
	void **things;
} with;

static char path[64];
static unsigned failures;

static void
expect_ok(enum weir_status status)
{
	if (status != WEIR_OK && failures++ == 0)
		fprintf(stderr, "weir-bench-growth: %s\n", weir_last_error());
}

static void *
expect_memory(void *memory)
{
	if (memory == NULL)
		expect_ok(weir_last_status());
	return memory;
}

/* A number below n that takes all values in an order that is not sorted. */
static size_t
mixed(size_t i, size_t n)
{
	return (size_t)(i * 1000003ull % n);
}

/* ---- Files of tensors --------------------------------------------------- */

static struct weir_place
host_place(void)
{
	return (struct weir_place){ .struct_size = sizeof(struct weir_place),
		.memory = WEIR_MEMORY_HOST };
}

static void
begin_tensors(size_t n)
{
	struct weir_place place = host_place();

	for (size_t i = 0; i < n; i++) {
		snprintf(
		    with.names[i], sizeof(with.names[i]), "t%zu", mixed(i, n));
		expect_ok(weir_tensor_empty(
		    WEIR_UINT8, 1, (int64_t[]){ 1 }, &place, &with.tensors[i]));
		expect_ok(weir_tensor_fill(
		    with.tensors[i], WEIR_UINT8, &(char){ 7 }, NULL));
		with.named[i] =
		    (struct weir_named){ with.names[i], with.tensors[i] };
	}
}

/* Views of one tensor, whose neighbours overlap. */
static void
begin_views(size_t n)
{
	struct weir_place place = host_place();
	struct weir_tensor *whole;

	expect_ok(weir_tensor_empty(
	    WEIR_UINT8, 1, (int64_t[]){ (int64_t)n + 1 }, &place, &whole));
	expect_ok(weir_tensor_fill(whole, WEIR_UINT8, &(char){ 7 }, NULL));
	for (size_t i = 0; i < n; i++) {
		snprintf(
		    with.names[i], sizeof(with.names[i]), "v%zu", mixed(i, n));
		expect_ok(weir_tensor_narrow(
		    whole, 0, (int64_t)i, 2, &with.tensors[i]));
		with.named[i] =
		    (struct weir_named){ with.names[i], with.tensors[i] };
	}
}

static void
save_named(size_t n)
{
	expect_ok(weir_save(path, with.named, n, NULL));
}

static void
save_metadata(size_t n)
{
	const char **texts = calloc(2 * n + 1, sizeof(*texts));
	struct weir_save_options options = { .struct_size = sizeof(options),
		.metadata = texts };

	for (size_t i = 0; i < n; i++) {
		snprintf(
		    with.names[i], sizeof(with.names[i]), "k%zu", mixed(i, n));
		texts[2 * i] = texts[2 * i + 1] = with.names[i];
	}
	expect_ok(weir_save(path, NULL, 0, &options));
	free(texts);
}

static void
begin_file(size_t n)
{
	begin_tensors(n);
	save_named(n);
}

static void
begin_file_of_views(size_t n)
{
	begin_views(n);
	save_named(n);
}

static void
load_all(size_t n)
{
	struct weir_place place = host_place();
	struct weir_load_options options = { .struct_size = sizeof(options),
		.place = &place };
	struct weir_loaded *loaded = NULL;

	expect_ok(weir_load(path, &options, &loaded));
	for (size_t i = 0; i < weir_loaded_count(loaded); i++) {
		const char *name = weir_loaded_name(loaded, i);

		weir_loaded_opaque(loaded, i, NULL, NULL);
		expect_memory(
		    (void *)(uintptr_t)weir_loaded_find(loaded, name));
	}
	for (size_t i = 0; i < n; i++) {
		const char *key = weir_loaded_key(loaded, i);

		if (key != NULL)
			weir_loaded_metadata(loaded, key);
	}
	weir_loaded_drop(loaded);
}

static void
make_tensors(size_t n)
{
	begin_tensors(n);
	for (size_t i = 0; i < n; i++) {
		struct weir_dl_versioned *managed = NULL;

		expect_ok(
		    weir_tensor_to_dlpack(with.tensors[i], NULL, 0, &managed));
		if (managed != NULL)
			managed->deleter(managed);
	}
	for (size_t i = 0; i < n; i++)
		weir_tensor_destroy(with.tensors[mixed(i, n)]);
}

/* ---- Blocks ------------------------------------------------------------- */

static void
take_blocks(size_t n)
{
	for (size_t i = 0; i < n; i++)
		with.blocks[i] =
		    expect_memory(weir_malloc(KIB * (1 + i % 7), NULL));
}

static void
free_blocks(size_t n)
{
	for (size_t i = 0; i < n; i++)
		weir_free(with.blocks[mixed(i, n)]);
}

static void
take_and_free_blocks(size_t n)
{
	take_blocks(n);
	free_blocks(n);
	expect_ok(weir_trim(0, 0, NULL));
}

/* A segment of the driver for each block. */
static void
begin_segments(size_t n)
{
	expect_ok(weir_options_set("expandable_segments:False"));
	for (size_t i = 0; i < n; i++)
		with.blocks[i] =
		    expect_memory(weir_malloc((size_t)10 * SEGMENT, NULL));
}

static void
take_and_free_segments(size_t n)
{
	begin_segments(n);
	free_blocks(n);
	expect_ok(weir_trim(0, 0, NULL));
}

static void
write_snapshots(size_t n)
{
	(void)n;
	expect_ok(weir_snapshot_write(path, WEIR_SNAPSHOT_PICKLE, NULL));
	expect_ok(weir_snapshot_write(path, WEIR_SNAPSHOT_JSON, NULL));
}

static void
see_segment(const struct weir_segment_view *segment, void *user)
{
	(void)segment;
	++*(size_t *)user;
}

static void
see_value(const struct weir_ctl *value, void *user)
{
	(void)value;
	++*(size_t *)user;
}

/* All that looks at every block. */
static void
look_at_all(size_t n)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };
	size_t seen = 0;

	(void)n;
	expect_ok(weir_segments_visit(NULL, see_segment, &seen));
	if (weir_check(NULL, 0) != 0)
		failures++;
	expect_ok(weir_stats(0, &stats));
	expect_ok(weir_ctl_list("", see_value, &seen));
}

/* ---- Sleep -------------------------------------------------------------- */

/* Put the device to sleep with a handle for each of n adjacent blocks, of which
 * only the contents at both ends are kept, and free every other block. So each
 * of n / 2 ranges that do not come back cuts two copies, of which the other
 * part does. */
static void
sleep_and_free_blocks(size_t n)
{
	enum { KEPT = 4 * KIB };
	struct weir_sleep_range *middles = calloc(n, sizeof(*middles));
	struct weir_sleep_options options = { .struct_size = sizeof(options),
		.discard_ranges = middles,
		.discard_range_count = n };

	expect_ok(weir_options_set("handle_mb:2"));
	for (size_t i = 0; i < n; i++) {
		char *block = expect_memory(weir_malloc(SEGMENT, NULL));

		with.blocks[i] = block;
		middles[i] = (struct weir_sleep_range){ block + KEPT,
			SEGMENT - 2 * KEPT };
	}
	expect_ok(weir_sleep(0, &options, NULL));
	for (size_t i = 0; i < n; i += 2)
		weir_free(with.blocks[i]);
	free(middles);
}

static void
wake(size_t n)
{
	struct weir_wake_result woken = { .struct_size = sizeof(woken) };

	expect_ok(weir_wake(0, 0, &woken));
	if (woken.mapped_bytes != n / 2 * SEGMENT)
		failures++;
}

/* ---- The history -------------------------------------------------------- */

/* Events with other texts each. */
static void
begin_history(size_t n)
{
	const struct weir_history history = { .struct_size = sizeof(history) };

	expect_ok(weir_history_start(&history));
	for (size_t i = 0; i < n; i++) {
		char text[32];

		snprintf(text, sizeof(text), "text %zu", i);
		expect_ok(weir_metadata_set(text));
		expect_ok(weir_compile_context_push(text));
		expect_ok(weir_annotate(text, WEIR_STAGE_START, 0));
		weir_free(expect_memory(weir_malloc(KIB, NULL)));
		expect_ok(weir_compile_context_pop());
		expect_ok(weir_annotate(text, WEIR_STAGE_END, 0));
	}
}

/* ---- Streams ------------------------------------------------------------ */

static void
make_streams(size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect_ok(weir_stream_create(0, 0, &with.streams[i]));
}

static void
drop_streams(size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect_ok(weir_stream_destroy(with.streams[mixed(i, n)]));
}

static void
use_streams(size_t n)
{
	make_streams(n);
	for (size_t i = 0; i < n; i++) {
		with.blocks[i] =
		    expect_memory(weir_malloc(KIB, with.streams[i]));
		expect_ok(weir_stream_query(with.streams[i]));
	}
	free_blocks(n);
	drop_streams(n);
}

/* Streams that come and go. */
static void
change_streams(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		weir_stream stream = NULL;

		expect_ok(weir_stream_create(0, 0, &stream));
		weir_free(expect_memory(weir_malloc(KIB, stream)));
		expect_ok(weir_stream_destroy(stream));
	}
}

/* One block, one pinned block and one tensor of the host that all streams use.
 */
static void
share_with_streams(size_t n)
{
	struct weir_place place = host_place();
	void *block = expect_memory(weir_malloc(KIB, NULL));
	void *pinned = expect_memory(weir_host_malloc(KIB));
	struct weir_tensor *tensor = NULL;

	expect_ok(weir_tensor_empty(
	    WEIR_UINT8, 1, (int64_t[]){ KIB }, &place, &tensor));
	for (size_t i = 0; i < n; i++) {
		expect_ok(weir_record_stream(block, with.streams[i]));
		expect_ok(weir_host_record(pinned, with.streams[i]));
		expect_ok(weir_tensor_record(tensor, with.streams[i]));
	}
	weir_free(block);
	expect_ok(weir_host_free(pinned));
	weir_tensor_destroy(tensor);
	expect_ok(weir_device_synchronize(0));
	weir_free(expect_memory(weir_malloc(KIB, NULL)));
}

static void
use_events(size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct weir_event *event = NULL;

		expect_ok(weir_event_create(0, &event));
		expect_ok(weir_event_record(event, NULL));
		with.things[i] = event;
	}
	for (size_t i = 0; i < n; i++)
		weir_event_destroy(with.things[mixed(i, n)]);
}

/* ---- Pools, routes and graphs ------------------------------------------- */

/* Segments of the driver: each pool would reserve as many addresses as the
 * device has bytes, and valgrind has few. */
static void
make_pools(size_t n)
{
	expect_ok(weir_options_set("expandable_segments:False"));
	for (size_t i = 0; i < n; i++) {
		struct weir_pool *pool = NULL;

		expect_ok(weir_pool_create(0, NULL, 0, &pool));
		with.blocks[i] =
		    expect_memory(weir_pool_malloc(pool, KIB, NULL));
		with.things[i] = pool;
	}
}

static void
drop_pools(size_t n)
{
	for (size_t i = 0; i < n; i++)
		weir_pool_release(with.things[mixed(i, n)]);
}

static void
use_pools(size_t n)
{
	make_pools(n);
	for (size_t i = 0; i < n; i++) {
		struct weir_pool *found = NULL;

		expect_ok(weir_pool_find(weir_pool_id(with.things[i]), &found));
		weir_pool_release(found);
	}
	free_blocks(n);
	drop_pools(n);
}

/* A pool with n blocks is remembered and restored. */
static void
begin_pool(size_t n)
{
	struct weir_pool *pool = NULL;

	expect_ok(weir_pool_create(0, NULL, 0, &pool));
	for (size_t i = 0; i < n; i++)
		with.blocks[i] =
		    expect_memory(weir_pool_malloc(pool, KIB, NULL));
	with.things[0] = pool;
}

static void
restore_pool(size_t n)
{
	struct weir_pool *pool = with.things[0];
	struct weir_checkpoint *checkpoint = NULL;
	struct weir_restored restored = { .struct_size = sizeof(restored) };
	bool equal = false;

	expect_ok(weir_checkpoint_take(pool, &checkpoint));
	expect_ok(weir_pool_check_live(
	    pool, (const void *const *)with.blocks, n, &equal));
	expect_ok(weir_checkpoint_restore(pool, checkpoint, &restored));
	weir_restored_drop(&restored);
	weir_checkpoint_drop(checkpoint);
}

/* A route for each stream. */
static void
route_streams(size_t n)
{
	struct weir_pool *pool = NULL;

	expect_ok(weir_pool_create(0, NULL, 0, &pool));
	for (size_t i = 0; i < n; i++) {
		struct weir_route *route = NULL;

		expect_ok(weir_route_stream(pool, with.streams[i], &route));
		with.things[i] = route;
	}
	for (size_t i = 0; i < n; i++)
		with.blocks[i] =
		    expect_memory(weir_malloc(KIB, with.streams[i]));
	free_blocks(n);
	for (size_t i = 0; i < n; i++)
		weir_route_end(with.things[mixed(i, n)]);
	weir_pool_release(pool);
}

static void
capture_graphs(size_t n)
{
	weir_stream stream = NULL;
	struct weir_tensor *tensor = NULL;

	expect_ok(weir_options_set("expandable_segments:False"));
	expect_ok(weir_stream_create(0, 0, &stream));
	expect_ok(weir_tensor_empty(
	    WEIR_UINT8, 1, (int64_t[]){ KIB }, NULL, &tensor));
	for (size_t i = 0; i < n; i++) {
		struct weir_graph *graph = NULL;

		expect_ok(weir_graph_create(0, &graph));
		expect_ok(weir_graph_capture_begin(
		    graph, stream, NULL, WEIR_CAPTURE_RELAXED));
		weir_free(expect_memory(weir_malloc(KIB, stream)));
		expect_ok(
		    weir_tensor_fill(tensor, WEIR_UINT8, &(char){ 1 }, stream));
		expect_ok(weir_graph_capture_end(graph));
		with.things[i] = graph;
	}
	for (size_t i = 0; i < n; i++)
		expect_ok(weir_graph_replay(with.things[i], stream));
	expect_ok(weir_stream_synchronize(stream));
	for (size_t i = 0; i < n; i++)
		weir_graph_destroy(with.things[mixed(i, n)]);
}

/* ---- The host ----------------------------------------------------------- */

static void
use_pinned(size_t n)
{
	for (size_t i = 0; i < n; i++)
		with.blocks[i] =
		    expect_memory(weir_host_malloc((size_t)KIB << i % 5));
	for (size_t i = 0; i < n; i++) {
		if (!weir_host_is_pinned(with.blocks[i]))
			failures++;
	}
	for (size_t i = 0; i < n; i++)
		expect_ok(weir_host_free(with.blocks[mixed(i, n)]));
	expect_ok(weir_host_trim(0, 0, NULL));
}

static void
register_host(size_t n)
{
	enum { PAGE = 4096 };
	char *memory = aligned_alloc(PAGE, n * PAGE);

	for (size_t i = 0; i < n; i++)
		expect_ok(
		    weir_host_register(memory + mixed(i, n) * PAGE, PAGE, 0));
	for (size_t i = 0; i < n; i++) {
		if (!weir_host_is_pinned(memory + i * PAGE))
			failures++;
	}
	for (size_t i = 0; i < n; i++)
		expect_ok(weir_host_unregister(memory + i * PAGE));
	free(memory);
}

/* ---- Threads ------------------------------------------------------------ */

/* A thread that takes a block, waits until all have, and frees it. */
static pthread_barrier_t barrier;

static void *
live_and_end(void *argument)
{
	void *block = expect_memory(weir_malloc(KIB, NULL));

	(void)argument;
	pthread_barrier_wait(&barrier);
	weir_free(block);
	return NULL;
}

static void
use_threads(size_t n)
{
	pthread_t *threads = calloc(n, sizeof(*threads));

	pthread_barrier_init(&barrier, NULL, (unsigned)n);
	for (size_t i = 0; i < n; i++) {
		if (pthread_create(&threads[i], NULL, live_and_end, NULL) != 0)
			exit(1);
	}
	for (size_t i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	free(threads);
}

/* ---- Cases -------------------------------------------------------------- */

static const struct growth {
	const char *name;
	size_t n;
	void (*begin)(size_t n); /* not counted; or NULL */
	void (*run)(size_t n);
} cases[] = {
	{ "save-tensors", 2000, begin_tensors, save_named },
	{ "save-views", 2000, begin_views, save_named },
	{ "save-metadata", 2000, NULL, save_metadata },
	{ "load-tensors", 2000, begin_file, load_all },
	{ "load-views", 2000, begin_file_of_views, load_all },
	{ "load-metadata", 2000, save_metadata, load_all },
	{ "tensors", 2000, NULL, make_tensors },
	{ "blocks", 2000, NULL, take_and_free_blocks },
	{ "segments", 1000, NULL, take_and_free_segments },
	{ "snapshot-blocks", 2000, take_blocks, write_snapshots },
	{ "snapshot-segments", 1000, begin_segments, write_snapshots },
	{ "snapshot-history", 2000, begin_history, write_snapshots },
	{ "snapshot-pools", 500, make_pools, write_snapshots },
	{ "look-blocks", 2000, take_blocks, look_at_all },
	{ "look-segments", 1000, begin_segments, look_at_all },
	{ "look-pools", 500, make_pools, look_at_all },
	{ "wake-after-frees", 1000, sleep_and_free_blocks, wake },
	{ "history", 2000, NULL, begin_history },
	{ "streams", 500, NULL, use_streams },
	{ "streams-in-turn", 500, NULL, change_streams },
	{ "stream-uses", 500, make_streams, share_with_streams },
	{ "events", 2000, NULL, use_events },
	{ "pools", 500, NULL, use_pools },
	{ "checkpoint", 2000, begin_pool, restore_pool },
	{ "routes", 500, make_streams, route_streams },
	{ "graphs", 500, NULL, capture_graphs },
	{ "pinned", 2000, NULL, use_pinned },
	{ "registered", 2000, NULL, register_host },
	{ "threads", 100, NULL, use_threads },
};

void growth_measured(void (*run)(size_t n), size_t n);

/* callgrind counts from the begin to the end of this call. */
__attribute__((noinline)) void
growth_measured(void (*run)(size_t n), size_t n)
{
	run(n);
	/* No tail call, in which counting would not end. */
	__asm__ volatile("");
}

static void (*volatile measured)(
    void (*run)(size_t n), size_t n) = growth_measured;

static void
make_room(size_t n)
{
	with.blocks = calloc(n, sizeof(*with.blocks));
	with.streams = calloc(n, sizeof(*with.streams));
	with.tensors = calloc(n, sizeof(*with.tensors));
	with.named = calloc(n, sizeof(*with.named));
	with.names = calloc(n, sizeof(*with.names));
	with.things = calloc(n, sizeof(*with.things));
}

int
main(int argc, char **argv)
{
	const struct growth *found = NULL;
	size_t n = argc >= 3 ? strtoul(argv[2], NULL, 10) : 0;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc == 2 && strcmp(argv[1], "--list") == 0)
			printf("%s %zu\n", cases[i].name, cases[i].n);
		else if (argc >= 3 && strcmp(argv[1], cases[i].name) == 0)
			found = &cases[i];
	}
	if (argc == 2)
		return 0;
	if (found == NULL || n == 0) {
		fprintf(stderr,
		    "usage: weir-bench-growth --list | CASE N [FILE]\n");
		return 2;
	}
	snprintf(
	    path, sizeof(path), "/tmp/weir-bench-growth.%d", (int)getpid());
	make_room(n);
	if (found->begin != NULL)
		found->begin(n);
	if (argc > 3) {
		expect_ok(
		    weir_snapshot_write(argv[3], WEIR_SNAPSHOT_JSON, NULL));
		return failures > 0;
	}
	measured(found->run, n);
	unlink(path);
	return failures > 0;
}
