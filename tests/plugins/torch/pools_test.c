/*
 * Private pools by PyTorch's names: use counts, routes, and memory that is
 * given back.
 */
#include <pthread.h>
#include <stdlib.h>

#include "plugins/torch/weir_torch.h"
#include "tests/support/device.h"

static const struct weir_torch_id none = { 0, 0 };
static const struct weir_torch_id one = { 1, 0 };
static const struct weir_torch_id two = { 0, 2 };

static bool
is_stream(void *closure, weir_stream stream)
{
	return stream == (weir_stream)closure;
}

static struct weir_torch_filter
for_stream(weir_stream stream)
{
	return (struct weir_torch_filter){ .matches = is_stream,
		.closure = stream };
}

/* A request of PyTorch. */
static void *
torch_take(size_t size, weir_stream stream)
{
	void *block = weir_torch_malloc(0, size, stream);

	EXPECT_NOT_NULL(block);
	return block;
}

static void
count_segment(const struct weir_segment_view *segment, void *user)
{
	(void)segment;
	++*(unsigned *)user;
}

static unsigned
segments_of(struct weir_torch_id id)
{
	unsigned count = 0;

	EXPECT_OK(weir_torch_visit(id, count_segment, &count));
	return count;
}

/* ---- Use counts -------------------------------------------------------- */

TEST(uses_of_a_pool_are_counted)
{
	EXPECT_EQ(weir_torch_pool_uses(0, one), 0);
	EXPECT_OK(weir_torch_pool_hold(0, one, NULL));
	EXPECT_OK(weir_torch_pool_hold(0, one, NULL));
	EXPECT_EQ(weir_torch_pool_uses(0, one), 2);
	EXPECT_EQ(weir_torch_pool_uses(0, two), 0);
	EXPECT_OK(weir_torch_pool_release(0, one));
	EXPECT_OK(weir_torch_pool_release(0, one));
	EXPECT_EQ(weir_torch_pool_uses(0, one), 0);
	EXPECT_STATUS(weir_torch_pool_release(0, one), WEIR_EINVAL);
	EXPECT_STATUS(weir_torch_pool_release(0, two), WEIR_EINVAL);
	EXPECT_STATUS(weir_torch_pool_hold(0, none, NULL), WEIR_EINVAL);
	expect_healthy();
}

TEST(a_pool_with_memory_comes_back_to_life)
{
	weir_stream stream = new_stream();
	struct weir_torch_filter filter = for_stream(stream);

	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	void *block = torch_take(3 * MIB, stream);
	EXPECT_OK(weir_torch_pool_end(0, one));
	EXPECT_OK(weir_torch_pool_release(0, one));
	EXPECT_EQ(segments_of(one), 1);
	EXPECT_OK(weir_torch_pool_hold(0, one, NULL));
	EXPECT_EQ(weir_torch_pool_uses(0, one), 1);
	bool equal = false;
	const void *live[] = { block };
	EXPECT_OK(weir_torch_pool_check_live(0, one, live, 1, &equal));
	EXPECT(equal);
	give(block);
	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	EXPECT_EQ(torch_take(3 * MIB, stream), block);
	expect_healthy();
}

TEST(each_device_has_a_pool_of_a_name)
{
	device_need(2);
	EXPECT_OK(weir_torch_pool_hold(0, one, NULL));
	EXPECT_OK(weir_torch_pool_hold(1, one, NULL));
	EXPECT_OK(weir_torch_pool_release(0, one));
	EXPECT_EQ(weir_torch_pool_uses(0, one), 0);
	EXPECT_EQ(weir_torch_pool_uses(1, one), 1);
	EXPECT_STATUS(weir_torch_pool_hold(9, one, NULL), WEIR_ENODEVICE);
	expect_healthy();
}

/* ---- Routes ------------------------------------------------------------ */

TEST(requests_that_match_go_to_the_pool)
{
	weir_stream stream = new_stream();
	struct weir_torch_filter filter = for_stream(stream);

	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	EXPECT_STATUS(weir_torch_pool_begin(0, one, &filter), WEIR_EINVAL);
	EXPECT_EQ(weir_torch_pool_uses(0, one), 1);
	torch_take(100, stream);
	torch_take(12 * MIB, stream);
	torch_take(12 * MIB, stream);
	torch_take(100, NULL);
	/* Segments as PyTorch's default has them. */
	EXPECT_EQ(segments_of(one), 3);
	EXPECT_EQ(segments_of(none), 4);
	EXPECT_OK(weir_torch_pool_end(0, one));
	EXPECT_STATUS(weir_torch_pool_end(0, one), WEIR_EINVAL);
	torch_take(100, stream);
	EXPECT_EQ(segments_of(one), 3);
	EXPECT_EQ(weir_torch_pool_uses(0, one), 1);
	expect_healthy();
}

static bool
is_any_stream(void *closure, weir_stream stream)
{
	(void)closure;
	EXPECT_NE(stream, WEIR_STREAM_ANY);
	return true;
}

static bool
only_these_live(const void *const *blocks, size_t n)
{
	bool equal = false;

	EXPECT_OK(weir_torch_pool_check_live(0, one, blocks, n, &equal));
	return equal;
}

/* cuBLAS asks so for its handle's memory, and CuPy for an array, on the thread
 * whose requests PyTorch has routed. */
TEST(requests_of_other_libraries_stay_out_of_the_pool)
{
	struct weir_torch_filter filter = { .matches = is_any_stream };
	weir_stream stream = new_stream();

	EXPECT_EQ(weir_torch_routes, 0);
	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	EXPECT_EQ(weir_torch_routes, 1);
	void *const theirs[] = { take(100, WEIR_STREAM_ANY), take(100, NULL),
		take(3 * MIB, stream) };
	void *const mine[] = { torch_take(100, NULL),
		torch_take(3 * MIB, stream) };
	EXPECT(only_these_live((const void *const *)mine, 2));
	EXPECT_OK(weir_torch_pool_end(0, one));
	EXPECT_EQ(weir_torch_routes, 0);
	for (int i = 0; i < 3; i++)
		give(theirs[i]);
	EXPECT(only_these_live((const void *const *)mine, 2));
	expect_healthy();
}

/* Memory that a capture frees is for the graph alone, whoever asked for it. */
TEST(memory_of_a_captured_stream_is_in_the_pool)
{
	struct weir_torch_filter filter = { .matches = is_any_stream };
	weir_stream stream = new_stream();

	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	capture_begin(stream);
	const void *theirs = take(100, stream);
	EXPECT(only_these_live(&theirs, 1));
	capture_end(stream);
	EXPECT_OK(weir_torch_pool_end(0, one));
	expect_healthy();
}

static unsigned drops;

static void
drop(void *closure)
{
	(void)closure;
	drops++;
}

TEST(a_filter_is_dropped_once_and_not_after_a_failure)
{
	struct weir_torch_filter filter = { is_stream, drop, NULL };

	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	EXPECT_STATUS(weir_torch_pool_begin(0, one, &filter), WEIR_EINVAL);
	EXPECT_STATUS(weir_torch_pool_begin(0, none, &filter), WEIR_EINVAL);
	EXPECT_EQ(drops, 0);
	EXPECT_OK(weir_torch_pool_end(0, one));
	EXPECT_EQ(drops, 1);
}

TEST(expandable_segments_are_set_by_the_user)
{
	struct weir_torch_filter filter = for_stream(NULL);

	EXPECT_OK(weir_torch_conf("expandable_segments:True"));
	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	EXPECT(info_of(torch_take(100, NULL)).expandable);
	EXPECT_OK(weir_torch_conf("expandable_segments:False"));
	EXPECT_OK(weir_torch_pool_end(0, one));
	EXPECT_OK(weir_torch_pool_begin(0, two, &filter));
	EXPECT(!info_of(torch_take(100, NULL)).expandable);
	expect_healthy();
}

/* Else a program that sleeps would keep the memory of its graphs on the
 * device. */
TEST(pools_of_a_program_that_may_sleep_can_leave_the_device)
{
	struct weir_torch_filter filter = for_stream(NULL);

	EXPECT_OK(weir_options_set("may_sleep:True"));
	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	EXPECT(info_of(torch_take(100, NULL)).expandable);
	expect_healthy();
}

/* ---- Giving back ------------------------------------------------------- */

TEST(memory_of_a_pool_goes_back_when_nobody_uses_it)
{
	struct weir_torch_filter filter = for_stream(NULL);

	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	void *live = torch_take(5 * MIB, NULL);
	give(torch_take(30 * MIB, NULL));
	EXPECT_OK(weir_torch_pool_end(0, one));
	EXPECT_OK(weir_torch_empty(none));
	EXPECT_OK(weir_torch_empty(one));
	EXPECT_EQ(segments_of(one), 2);
	EXPECT_OK(weir_torch_pool_release(0, one));
	settle();
	EXPECT_OK(weir_torch_empty(one));
	EXPECT_EQ(segments_of(one), 1);
	give(live);
	settle();
	EXPECT_OK(weir_torch_empty(none));
	EXPECT_EQ(segments_of(one), 0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(flags_are_set_by_name)
{
	EXPECT_STATUS(weir_torch_pool_flag(0, one, WEIR_POOL_USE_ON_OOM, true),
	    WEIR_EINVAL);
	EXPECT_OK(weir_torch_pool_hold(0, one, NULL));
	EXPECT_OK(weir_torch_pool_flag(0, one, WEIR_POOL_USE_ON_OOM, true));
	EXPECT_OK(weir_torch_pool_flag(0, one, WEIR_POOL_USE_ON_OOM, false));
	EXPECT_OK(weir_torch_pool_flag(0, one, WEIR_POOL_NO_SPLIT, true));
	EXPECT_STATUS(weir_torch_pool_flag(0, one, 64, true), WEIR_EINVAL);
	expect_healthy();
}

/* ---- Sources ----------------------------------------------------------- */

static struct own {
	unsigned taken;
	unsigned given;
	unsigned dropped;
} own;

static void *
own_take(void *closure, size_t size)
{
	CUdeviceptr addr = 0;

	((struct own *)closure)->taken++;
	return device_driver()->cuMemAlloc(&addr, size) == CUDA_SUCCESS ?
	    (void *)(uintptr_t)addr :
	    NULL;
}

static void
own_give(void *closure, void *ptr)
{
	((struct own *)closure)->given++;
	EXPECT_EQ(device_driver()->cuMemFree((CUdeviceptr)(uintptr_t)ptr), 0);
}

static void
own_drop(void *closure)
{
	((struct own *)closure)->dropped++;
}

TEST(a_source_is_asked_and_dropped_with_the_pool)
{
	struct weir_torch_source source = { own_take, own_give, own_drop,
		&own };
	struct weir_torch_filter filter = for_stream(NULL);

	EXPECT_OK(weir_init());
	EXPECT_OK(weir_torch_pool_hold(0, one, &source));
	EXPECT_STATUS(weir_torch_pool_hold(0, one, &source), WEIR_EINVAL);
	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	void *block = torch_take(5 * MIB, NULL);
	EXPECT_EQ(own.taken, 1);
	EXPECT_OK(weir_torch_pool_end(0, one));
	EXPECT_OK(weir_torch_pool_release(0, one));
	EXPECT_OK(weir_torch_pool_release(0, one));
	EXPECT_OK(weir_torch_empty(none));
	EXPECT_EQ(own.given, 0);
	EXPECT_EQ(own.dropped, 0);
	give(block);
	settle();
	EXPECT_OK(weir_torch_empty(none));
	EXPECT_OK(weir_torch_empty(one));
	EXPECT_EQ(own.given, 1);
	EXPECT_EQ(own.dropped, 1);
	expect_healthy();
}

TEST(an_empty_pool_is_given_a_source)
{
	struct weir_torch_source source = { own_take, own_give, own_drop,
		&own };
	struct weir_torch_filter filter = for_stream(NULL);

	EXPECT_OK(weir_init());
	EXPECT_STATUS(weir_torch_pool_source(0, one, &source), WEIR_EINVAL);
	EXPECT_OK(weir_torch_pool_hold(0, one, NULL));
	EXPECT_OK(weir_torch_pool_hold(0, one, NULL));
	EXPECT_OK(weir_torch_pool_source(0, one, &source));
	EXPECT_EQ(weir_torch_pool_uses(0, one), 2);
	EXPECT_STATUS(weir_torch_pool_source(0, one, &source), WEIR_EINVAL);
	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	give(torch_take(5 * MIB, NULL));
	EXPECT_EQ(own.taken, 1);
	EXPECT_OK(weir_torch_pool_end(0, one));
	for (int i = 0; i < 3; i++)
		EXPECT_OK(weir_torch_pool_release(0, one));
	settle();
	EXPECT_OK(weir_torch_empty(none));
	EXPECT_EQ(own.given, 1);
	EXPECT_EQ(own.dropped, 1);
	expect_healthy();
}

TEST(a_pool_in_use_keeps_its_memory_and_gets_no_source)
{
	struct weir_torch_source source = { own_take, own_give, own_drop,
		&own };
	struct weir_torch_filter filter = for_stream(NULL);

	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	EXPECT_STATUS(weir_torch_pool_source(0, one, &source), WEIR_EINVAL);
	void *block = torch_take(5 * MIB, NULL);
	EXPECT_OK(weir_torch_pool_end(0, one));
	EXPECT_STATUS(weir_torch_pool_source(0, one, &source), WEIR_EINVAL);
	give(block);
	EXPECT_OK(weir_torch_pool_source(0, one, &source));
	EXPECT_EQ(weir_torch_pool_uses(0, one), 1);
	EXPECT_OK(weir_torch_pool_release(0, one));
	EXPECT_OK(weir_torch_empty(none));
	EXPECT_EQ(own.taken, 0);
	EXPECT_EQ(own.dropped, 1);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

/* ---- Checkpoints ------------------------------------------------------- */

TEST(a_checkpoint_is_restored_by_name)
{
	struct weir_torch_filter filter = for_stream(NULL);
	struct weir_torch_checkpoint *checkpoint = NULL;
	struct weir_restored restored = { .struct_size = sizeof(restored) };

	EXPECT_STATUS(
	    weir_torch_checkpoint_take(0, one, &checkpoint), WEIR_EINVAL);
	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	void *a = torch_take(512, NULL);
	void *b = torch_take(3 * MIB, NULL);
	EXPECT_OK(weir_torch_checkpoint_take(0, one, &checkpoint));
	give(a);
	torch_take(5000, NULL);
	EXPECT_OK(weir_torch_checkpoint_restore(0, checkpoint, &restored));
	EXPECT_EQ(restored.n_freed, 2);
	EXPECT_EQ(restored.n_live, 2);
	weir_restored_drop(&restored);
	bool equal = false;
	const void *live[] = { b, a };
	EXPECT_OK(weir_torch_pool_check_live(0, one, live, 2, &equal));
	EXPECT(equal);
	EXPECT_STATUS(weir_torch_checkpoint_restore(1, checkpoint, &restored),
	    WEIR_EINVAL);
	EXPECT_STATUS(
	    weir_torch_checkpoint_restore(0, NULL, &restored), WEIR_EINVAL);
	weir_torch_checkpoint_drop(checkpoint);
	weir_torch_checkpoint_drop(NULL);
	give(a);
	give(b);
	expect_healthy();
}

TEST(a_checkpoint_waits_for_other_streams)
{
	struct weir_torch_filter filter = for_stream(NULL);
	struct weir_torch_checkpoint *checkpoint = NULL;
	weir_stream late = new_stream();

	EXPECT_OK(weir_torch_pool_begin(0, one, &filter));
	torch_take(512, NULL);
	void *block = torch_take(3 * MIB, NULL);
	busy(late, LATE_MS);
	record(block, late);
	give(block);
	EXPECT_OK(weir_torch_checkpoint_take(0, one, &checkpoint));
	EXPECT(is_done(late));
	weir_torch_checkpoint_drop(checkpoint);
	expect_healthy();
}

/* ---- Threads ----------------------------------------------------------- */

static void *
hold_and_release(void *arg)
{
	struct weir_torch_id id = { 0, 1 + (uint64_t)(uintptr_t)arg % 3 };
	struct weir_torch_filter filter = for_stream((weir_stream)arg);

	for (int i = 0; i < 100; i++) {
		EXPECT_OK(weir_torch_pool_hold(0, id, NULL));
		if (weir_torch_pool_begin(0, id, &filter) == WEIR_OK) {
			EXPECT_OK(weir_torch_pool_end(0, id));
			EXPECT_OK(weir_torch_pool_release(0, id));
		}
		give(torch_take(1000, NULL));
		EXPECT_OK(weir_torch_empty(id));
		EXPECT_OK(weir_torch_pool_release(0, id));
	}
	return NULL;
}

TEST(threads_use_pools_at_once)
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL, hold_and_release,
			      (void *)(i + 1)),
		    0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (uint64_t i = 1; i <= 3; i++)
		EXPECT_EQ(
		    weir_torch_pool_uses(0, (struct weir_torch_id){ 0, i }), 0);
	expect_healthy();
}
