/*
 * Checkpoints of a pool: a layout is restored block by block, also with holes
 * between mapped memory and of several streams; the owners of blocks after
 * that; and a restore that fails changes nothing.
 */
#include <weir/graph.h>
#include <weir/trace.h>

#include <stdlib.h>
#include <string.h>

#include "allocator/memory/block.h"
#include "allocator/memory/keep.h"
#include "base/meta.h"
#include "graphs/pool.h"
#include "tests/support/device.h"

enum { BLOCKS = 64 };

/* ---- What a pool looks like -------------------------------------------- */

struct seen {
	CUdeviceptr addr;
	size_t size;
	size_t requested;
	enum block_state state;
	weir_stream stream;
	enum pool_kind kind;
};

static int
compare_seen(const void *a, const void *b)
{
	const struct seen *x = a;
	const struct seen *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

/* The mapped blocks, by address. */
static size_t
look(const struct weir_pool *pool, struct seen *out)
{
	const struct arena *arena = pool->arena;
	size_t n = 0;

	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *segment = CONTAINER_OF(l, struct segment, link);
		for (struct block *b = segment->first; b != NULL; b = b->next) {
			if (!block_is_held(b))
				continue;
			EXPECT_LT(n, BLOCKS);
			out[n++] = (struct seen){ b->addr, b->size,
				b->requested, block_state(b),
				b->pool->owner->stream->handle, b->pool->kind };
		}
	}
	qsort(out, n, sizeof(*out), compare_seen);
	return n;
}

static void
expect_same(const struct seen *a, size_t n_a, const struct seen *b, size_t n_b)
{
	EXPECT_EQ(n_a, n_b);
	for (size_t i = 0; i < n_a; i++) {
		EXPECT_EQ(a[i].addr, b[i].addr);
		EXPECT_EQ(a[i].size, b[i].size);
		EXPECT_EQ(a[i].requested, b[i].requested);
		EXPECT_EQ(a[i].state, b[i].state);
		EXPECT_EQ(a[i].stream, b[i].stream);
		EXPECT_EQ(a[i].kind, b[i].kind);
	}
}

static struct weir_checkpoint *
checkpoint(struct weir_pool *pool)
{
	struct weir_checkpoint *made = NULL;

	EXPECT_OK(weir_checkpoint_take(pool, &made));
	return made;
}

/* Restore, and check the result; the caller frees the lists. */
static struct weir_restored
restore(struct weir_pool *pool, const struct weir_checkpoint *from,
    const struct seen *seen, size_t n)
{
	struct weir_restored out = { .struct_size = sizeof(out) };
	struct seen now[BLOCKS] = { 0 };

	EXPECT_OK(weir_checkpoint_restore(pool, from, &out));
	expect_same(now, look(pool, now), seen, n);
	expect_healthy();
	return out;
}

static bool
has(void *const *list, size_t n, const void *ptr)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == ptr)
			return true;
	return false;
}

/* ---- Layouts ----------------------------------------------------------- */

TEST(a_pool_is_restored_block_by_block)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	struct seen seen[BLOCKS] = { 0 };
	void *ptr[6];

	for (int i = 0; i < 6; i++)
		ptr[i] = take_from(pool, (size_t)(i + 1) * 3000, stream);
	give(ptr[1]);
	give(ptr[4]);
	size_t n = look(pool, seen);
	struct weir_checkpoint *made = checkpoint(pool);
	give(ptr[0]);
	give(ptr[2]);
	void *other = take_from(pool, 5 * MIB, stream);
	void *small = take_from(pool, 512, stream);
	struct weir_restored out = { .struct_size = sizeof(out) };
	EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
	EXPECT_EQ(out.n_freed, 4);
	EXPECT(has(out.freed, out.n_freed, other));
	EXPECT(has(out.freed, out.n_freed, small));
	EXPECT(has(out.freed, out.n_freed, ptr[3]));
	EXPECT(has(out.freed, out.n_freed, ptr[5]));
	EXPECT_EQ(out.n_live, 4);
	EXPECT(has(out.live, out.n_live, ptr[0]));
	EXPECT(has(out.live, out.n_live, ptr[2]));
	EXPECT(has(out.live, out.n_live, ptr[3]));
	EXPECT(has(out.live, out.n_live, ptr[5]));
	weir_restored_drop(&out);
	EXPECT_NULL(out.live);
	expect_healthy();
	/* Newer memory is there and free; the rest is as before. */
	struct seen now[BLOCKS] = { 0 };
	size_t m = look(pool, now);
	EXPECT_EQ(m, n + 1);
	for (size_t i = 0, k = 0; i < m; i++) {
		if (now[i].kind == POOL_LARGE) {
			EXPECT_EQ(now[i].state, BLOCK_FREE);
			continue;
		}
		expect_same(&now[i], 1, &seen[k++], 1);
	}
	/* After a second restore, a request gets the address that it got after
	 * the first. */
	void *next = take_from(pool, 3000, stream);
	EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
	weir_restored_drop(&out);
	EXPECT_EQ(take_from(pool, 3000, stream), next);
	for (int i = 0; i < 6; i++)
		if (i != 1 && i != 4)
			give(ptr[i]);
	EXPECT_STATUS(weir_free(other), WEIR_EINVAL);
	weir_checkpoint_drop(made);
	expect_healthy();
}

TEST(statistics_follow_a_restore)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	struct weir_restored out = { .struct_size = sizeof(out) };
	void *a = take_from(pool, 1000, stream);

	arena_keep(pool->arena); /* as a graph does */
	struct weir_stats before = stats();
	struct weir_checkpoint *made = checkpoint(pool);
	give(a);
	take_from(pool, 2 * MIB, stream);
	EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
	struct weir_stats after = stats();
	EXPECT_EQ(after.allocated_bytes.all.current,
	    before.allocated_bytes.all.current);
	EXPECT_EQ(after.requested_bytes.all.current, 1000);
	EXPECT_EQ(after.active.all.current, 1);
	EXPECT_EQ(after.reserved_bytes.all.current, 4 * MIB);
	weir_restored_drop(&out);
	weir_checkpoint_drop(made);
	weir_checkpoint_drop(NULL);
	weir_restored_drop(NULL);
	expect_healthy();
}

static uint64_t
events(void)
{
	struct weir_history_info info = { .struct_size = sizeof(info) };

	EXPECT_OK(weir_history_info(0, &info));
	return info.recorded;
}

TEST(the_history_records_a_restore_as_frees_and_allocations)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	struct weir_restored out = { .struct_size = sizeof(out) };

	EXPECT_OK(weir_history_start(NULL));
	take_from(pool, 1000, stream);
	take_from(pool, 2000, stream);
	struct weir_checkpoint *made = checkpoint(pool);
	take_from(pool, 3000, stream);
	uint64_t before = events();
	EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
	/* Three blocks are freed, with both events; two are allocated again. */
	EXPECT_EQ(events(), before + 3 * 2 + 2);
	weir_restored_drop(&out);
	weir_checkpoint_drop(made);
	EXPECT_OK(weir_history_stop());
	expect_healthy();
}

/* Pieces of 2 MiB that are mapped apart; the memory between them has gone
 * back. */
TEST(a_pool_with_holes_is_restored)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	struct seen seen[BLOCKS] = { 0 };
	void *ptr[6];

	conf("prefer:memory");
	for (int i = 0; i < 6; i++)
		ptr[i] = take_from(pool, 2 * MIB, stream);
	give(ptr[0]); /* the first part of the addresses, too */
	give(ptr[2]);
	give(ptr[3]);
	EXPECT_OK(weir_pool_trim(pool, 0, NULL));
	give(ptr[5]);
	size_t n = look(pool, seen);
	EXPECT_EQ(n, 3);
	struct weir_checkpoint *made = checkpoint(pool);
	give(ptr[1]);
	for (int i = 0; i < 3; i++) {
		void *all = take_from(pool, 1536 * KIB, stream);
		struct weir_restored out = restore(pool, made, seen, n);
		EXPECT_EQ(out.n_live, 2);
		EXPECT(has(out.live, 2, ptr[1]));
		EXPECT(has(out.live, 2, ptr[4]));
		EXPECT(has(out.freed, out.n_freed, all));
		weir_restored_drop(&out);
	}
	/* A hole that has been filled since stays filled. */
	void *filler = take_from(pool, 4 * MIB, stream);
	struct weir_restored out = { .struct_size = sizeof(out) };
	EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
	weir_restored_drop(&out);
	EXPECT_EQ(take_from(pool, 4 * MIB, stream), filler);
	fill(ptr[1], 2 * MIB, 1, stream);
	expect_filled(ptr[1], 2 * MIB, 1, stream);
	weir_checkpoint_drop(made);
	expect_healthy();
}

TEST(segments_of_the_driver_are_restored)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	struct seen seen[BLOCKS] = { 0 };
	void *ptr[5];

	conf("expandable_segments:False");
	for (int i = 0; i < 5; i++)
		ptr[i] = take_from(pool, (size_t)(i + 1) * 700 * KIB, stream);
	give(ptr[0]);
	give(ptr[3]);
	size_t n = look(pool, seen);
	struct weir_checkpoint *made = checkpoint(pool);
	for (int i = 0; i < 3; i++) {
		take_from(pool, 600 * KIB, stream);
		take_from(pool, 2 * MIB, stream);
		struct weir_restored out = restore(pool, made, seen, n);
		EXPECT_EQ(out.n_live, 3);
		weir_restored_drop(&out);
	}
	weir_checkpoint_drop(made);
	expect_healthy();
}

TEST(blocks_of_several_streams_are_restored_to_their_streams)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream a = new_stream();
	weir_stream b = new_stream();
	struct seen seen[BLOCKS] = { 0 };
	void *ptr[4];

	for (int i = 0; i < 4; i++)
		ptr[i] = take_from(pool, 2 * MIB, i % 2 == 0 ? a : b);
	give(ptr[1]);
	give(ptr[2]);
	size_t n = look(pool, seen);
	struct weir_checkpoint *made = checkpoint(pool);
	/* Memory of one stream passes to the other, which works on it. */
	EXPECT_OK(weir_free_async(ptr[0], b));
	void *its = take_from(pool, 2 * MIB, b);
	EXPECT(its == ptr[0] || its == ptr[1]);
	void *more = take_from(pool, 2 * MIB, b);
	EXPECT(more == ptr[0] || more == ptr[1]);
	busy(b, LATE_MS);
	fill(ptr[0], 2 * MIB, 1, b);
	struct weir_restored out = restore(pool, made, seen, n);
	fill(ptr[0], 2 * MIB, 2, a);
	expect_filled(ptr[0], 2 * MIB, 2, a);
	EXPECT(is_done(b));
	weir_restored_drop(&out);
	weir_checkpoint_drop(made);
	expect_healthy();
}

/* The last block of a stream that has ended is freed, and restored. */
TEST(blocks_of_a_stream_that_has_ended_are_restored)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stays = new_stream();
	weir_stream gone = new_stream();
	void *block[2] = { take_from(pool, 3 * MIB, gone),
		take_from(pool, 1000, gone) };

	give(take_from(pool, 4 * MIB, stays));
	struct weir_checkpoint *made = checkpoint(pool);
	EXPECT_OK(weir_stream_destroy(gone));
	EXPECT_OK(weir_device_synchronize(0));
	for (int i = 0; i < 3; i++) {
		struct weir_restored out = { .struct_size = sizeof(out) };
		EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
		EXPECT_EQ(out.n_freed, i == 2 ? 0 : 2);
		EXPECT_EQ(out.n_live, 2);
		weir_restored_drop(&out);
		expect_healthy();
		if (i != 1)
			continue;
		give(block[0]);
		give(block[1]);
		give(take_from(pool, 512, stays));
	}
	give(block[0]);
	give(block[1]);
	weir_checkpoint_drop(made);
	weir_pool_release(pool);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}

TEST(random_layouts_come_back_again_and_again)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream streams[2] = { new_stream(), new_stream() };
	uint64_t random = 7;
	void *live[24] = { NULL };
	struct seen seen[BLOCKS] = { 0 };
	struct weir_checkpoint *made = NULL;
	size_t n = 0;

	for (int step = 0; step < 3000; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		int i = (int)((random >> 33) % 24);
		size_t size = (size_t)1 << (9 + (random >> 40) % 13);
		if (live[i] != NULL) {
			give(live[i]);
			live[i] = NULL;
		} else {
			live[i] = take_from(
			    pool, size + (random >> 50) % 512, streams[i % 2]);
		}
		if (step % 500 == 499) {
			weir_checkpoint_drop(made);
			made = checkpoint(pool);
			arena_keep(pool->arena);
			n = look(pool, seen);
		}
		if (made == NULL || (random >> 20) % 8 != 0)
			continue;
		struct weir_restored out = { .struct_size = sizeof(out) };
		struct seen now[2 * BLOCKS] = { 0 };
		EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
		expect_healthy();
		memset(live, 0, sizeof(live));
		EXPECT_LE(out.n_live, 24);
		memcpy(live, out.live, out.n_live * sizeof(*live));
		weir_restored_drop(&out);
		/* Each live block is there; free ones may have grown. */
		size_t m = look(pool, now);
		for (size_t k = 0; k < n; k++) {
			struct seen *at = bsearch(
			    &seen[k], now, m, sizeof(*now), compare_seen);
			if (seen[k].state == BLOCK_ACTIVE) {
				EXPECT_NOT_NULL(at);
				expect_same(at, 1, &seen[k], 1);
			}
		}
	}
	weir_checkpoint_drop(made);
	expect_healthy();
}

/* ---- What is refused --------------------------------------------------- */

TEST(an_impossible_checkpoint_or_restore_is_refused_and_changes_nothing)
{
	struct weir_pool *pool = new_pool(0, 0);
	struct weir_pool *other = new_pool(0, 0);
	weir_stream stream = new_stream();
	weir_stream use = new_stream();
	struct weir_checkpoint *made = NULL;
	struct weir_checkpoint *none = NULL;
	struct weir_restored out = { .struct_size = sizeof(out) };
	struct seen before[BLOCKS] = { 0 };
	struct seen after[BLOCKS] = { 0 };

	void *a = take_from(pool, 4 * MIB, stream);
	made = checkpoint(pool);
	void *b = take_from(pool, 4 * MIB, stream);
	size_t n = look(pool, before);
	EXPECT_STATUS(weir_checkpoint_restore(other, made, &out), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "of pool");
	EXPECT_STATUS(weir_checkpoint_restore(pool, NULL, &out), WEIR_EINVAL);
	EXPECT_STATUS(weir_checkpoint_restore(pool, made, NULL), WEIR_EINVAL);
	EXPECT_STATUS(weir_checkpoint_take(NULL, &none), WEIR_EINVAL);
	record(b, use);
	EXPECT_STATUS(
	    weir_checkpoint_restore(pool, made, &out), WEIR_ENOTREADY);
	EXPECT_STR_HAS(weir_last_error(), "events should have synchronized");
	expect_same(after, look(pool, after), before, n);
	busy(use, LATE_MS);
	give(b);
	EXPECT_STATUS(weir_checkpoint_take(pool, &none), WEIR_ENOTREADY);
	EXPECT_STATUS(
	    weir_checkpoint_restore(pool, made, &out), WEIR_ENOTREADY);
	finish(use);
	EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
	weir_restored_drop(&out);
	/* Memory that was given back. */
	give(a);
	EXPECT_OK(weir_pool_trim(pool, 0, NULL));
	EXPECT_STATUS(weir_checkpoint_restore(pool, made, &out), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "could not find");
	void *any = take_from(pool, 512, WEIR_STREAM_ANY);
	EXPECT_STATUS(weir_checkpoint_take(pool, &none), WEIR_ENOTSUP);
	give(any);
	weir_checkpoint_drop(made);
	EXPECT_NULL(none);
	expect_healthy();
}

TEST(a_restore_without_host_memory_changes_nothing)
{
	struct weir_pool *pool = new_pool(0, 0);
	weir_stream stream = new_stream();
	struct weir_checkpoint *made = NULL;
	struct weir_restored out = { .struct_size = sizeof(out) };
	struct seen before[BLOCKS] = { 0 };
	struct seen after[BLOCKS] = { 0 };
	unsigned failed = 0;
	void *ptr[8];

	for (int i = 0; i < 8; i++)
		ptr[i] = take_from(pool, 3000, stream);
	for (unsigned long nth = 1; made == NULL; nth++) {
		meta_fail(nth, 1);
		enum weir_status status = weir_checkpoint_take(pool, &made);
		meta_fail(0, 0);
		failed += status == WEIR_EHOSTMEM;
		expect_healthy();
	}
	EXPECT_GE(failed, 3);
	for (int i = 0; i < 8; i += 2)
		give(ptr[i]);
	size_t n = look(pool, before);
	enum weir_status status = WEIR_EHOSTMEM;
	pool->arena->memory.spare = NULL; /* as if all had been used */
	for (unsigned long nth = 1; status != WEIR_OK; nth++) {
		meta_fail(nth, 1);
		status = weir_checkpoint_restore(pool, made, &out);
		meta_fail(0, 0);
		expect_healthy();
		if (status == WEIR_OK)
			break;
		EXPECT_EQ(status, WEIR_EHOSTMEM);
		expect_same(after, look(pool, after), before, n);
	}
	EXPECT_EQ(out.n_live, 8);
	weir_restored_drop(&out);
	weir_checkpoint_drop(made);
	expect_healthy();
}

/* ---- With a graph ------------------------------------------------------ */

TEST(a_graph_replays_on_restored_memory)
{
	weir_stream stream = new_stream();
	struct weir_graph *graph = NULL;
	struct weir_pool *pool = NULL;
	struct weir_restored out = { .struct_size = sizeof(out) };
	struct weir_route *route = NULL;

	load_kernels();
	EXPECT_OK(weir_graph_create(0, &graph));
	EXPECT_OK(
	    weir_graph_capture_begin(graph, stream, NULL, WEIR_CAPTURE_GLOBAL));
	void *temp = take(4 * MIB, stream);
	void *output = take(4 * MIB, stream);
	fill(temp, 4 * MIB, 1, stream);
	copy(output, temp, 4 * MIB, stream);
	give(temp);
	EXPECT_OK(weir_graph_capture_end(graph));
	EXPECT_OK(weir_graph_pool(graph, &pool));
	struct weir_checkpoint *made = checkpoint(pool);
	for (int i = 0; i < 3; i++) {
		EXPECT_OK(weir_graph_replay(graph, stream));
		expect_filled(output, 4 * MIB, 1, stream);
		/* Between replays the pool is used eagerly. */
		EXPECT_OK(weir_route_stream(pool, stream, &route));
		give(output);
		void *eager = take(6 * MIB, stream);
		fill(eager, 6 * MIB, 9, stream);
		weir_route_end(route);
		EXPECT_OK(weir_checkpoint_restore(pool, made, &out));
		EXPECT_EQ(out.n_live, 1);
		EXPECT_EQ(out.live[0], output);
		EXPECT_EQ(out.freed[0], eager);
		weir_restored_drop(&out);
	}
	give(output);
	weir_checkpoint_drop(made);
	weir_graph_destroy(graph);
	trim(0);
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	expect_healthy();
}
