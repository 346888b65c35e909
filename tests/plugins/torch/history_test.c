/*
 * PyTorch's history: the kept contexts, their lifetime, and their counts.
 */
#include <pthread.h>
#include <string.h>

#include "plugins/torch/weir_torch.h"
#include "tests/support/device.h"

/* A context is an int: the number of holders besides its maker, who may read it
 * while others hold and release it. */
static void
acquire(void *context)
{
	__atomic_fetch_add((int *)context, 1, __ATOMIC_RELAXED);
}

static void
release(void *context)
{
	EXPECT_GT(__atomic_fetch_sub((int *)context, 1, __ATOMIC_RELAXED), 0);
}

static const struct weir_torch_contexts counts = { acquire, release };

static void
keep(int level, size_t entries)
{
	struct weir_torch_history history = { .on = true,
		.level = level,
		.max_entries = entries,
		.clear = true };

	EXPECT_OK(weir_torch_history_set(&history, &counts));
}

static void
stop(void)
{
	EXPECT_OK(weir_torch_history_set(
	    &(struct weir_torch_history){ .on = false }, &counts));
}

static char text[4096];
static struct weir_torch_event last;
static void *contexts_seen[64];
static size_t seen;

static void
see(const struct weir_torch_event *event, void *user)
{
	static const char *const names[] = { "alloc", "free_requested",
		"free_completed", "segment_alloc", "segment_free",
		"segment_map", "segment_unmap", "oom", "snapshot", "annotate" };

	(void)user;
	EXPECT_EQ(weir_torch_action(names[event->action]), event->action);
	strcat(text, text[0] != '\0' ? " " : "");
	strcat(text, names[event->action]);
	contexts_seen[seen++ % 64] = event->context;
	last = *event;
}

static void
expect_entries(const char *expected)
{
	text[0] = '\0';
	seen = 0;
	weir_torch_history_each(see, NULL);
	EXPECT_STR_EQ(text, expected);
}

TEST(entries_are_kept_in_order_while_it_is_on)
{
	EXPECT(!weir_torch_history_on());
	EXPECT_EQ(weir_torch_watched, 0);
	keep(WEIR_HISTORY_NONE, 100);
	EXPECT(weir_torch_history_on());
	EXPECT_GT(weir_torch_watched, 0);
	void *block = take(1000, NULL);
	expect_entries("segment_map alloc");
	EXPECT_EQ(last.address, (uint64_t)(uintptr_t)block);
	EXPECT_EQ(last.size, 1000);
	EXPECT_STR_EQ(last.compile_context, "N/A");
	EXPECT_GT(last.time_ns, 1600000000000000000u);
	give(block);
	expect_entries("segment_map alloc free_requested free_completed");
	stop();
	expect_entries("");
	EXPECT_EQ(weir_torch_watched, 0);
	give(take(1000, NULL));
	expect_entries("");
	EXPECT_EQ(weir_torch_action("nonsense"), -1);
	expect_healthy();
}

TEST(the_ring_keeps_the_latest_and_lets_go_of_the_others)
{
	int context = 0;

	keep(WEIR_HISTORY_ALLOC, 7);
	weir_torch_history_enter(&context);
	for (int i = 0; i < 100; i++)
		give(take(1000, NULL));
	weir_torch_history_enter(NULL);
	text[0] = '\0';
	weir_torch_history_each(see, NULL);
	EXPECT_EQ(seen, 7);
	EXPECT_EQ(context, 7 + 1); /* and that of the segment */
	stop();
	EXPECT_EQ(context, 0);
	expect_healthy();
}

TEST(a_block_has_its_context_until_it_is_free)
{
	int context = 0;
	int other = 0;

	keep(WEIR_HISTORY_STATE, 100);
	EXPECT(weir_torch_history_wants(WEIR_HISTORY_STATE));
	EXPECT(!weir_torch_history_wants(WEIR_HISTORY_ALLOC));
	weir_torch_history_enter(&context);
	char *block = take(1000, NULL);
	weir_torch_history_enter(&other);
	void *second = take(1000, NULL);
	weir_torch_history_enter(NULL);
	uint64_t at = (uint64_t)(uintptr_t)block;
	EXPECT_EQ(weir_torch_context_of_block(at), &context);
	EXPECT_EQ(context, 2);
	EXPECT_NULL(weir_torch_context_of_block(at + 1));
	context = 1; /* release the acquired ones */
	give(block);
	EXPECT_NULL(weir_torch_context_of_block(at));
	EXPECT_EQ(context, 0);
	EXPECT_EQ(other, 1);
	/* Entries have no context at this level. */
	expect_entries("segment_map alloc alloc free_requested free_completed");
	for (size_t i = 0; i < seen; i++)
		EXPECT_NULL(contexts_seen[i]);
	give(second);
	trim(0);
	EXPECT_EQ(context, 0);
	EXPECT_EQ(other, 0);
	expect_healthy();
}

/* At level `state` only live blocks have a context: a segment outlives the
 * block that it was created for. */
TEST(a_segment_has_a_context_from_level_alloc_on)
{
	for (int level = WEIR_HISTORY_STATE; level <= WEIR_HISTORY_ALL;
	     level++) {
		int context = 0;

		keep(level, 100);
		weir_torch_history_enter(&context);
		char *block = take(1000, NULL);
		weir_torch_history_enter(NULL);
		void *found = weir_torch_context_of_segment(
		    (uint64_t)(uintptr_t)block / (2 * MIB) * (2 * MIB));
		EXPECT_EQ(found,
		    level >= WEIR_HISTORY_ALLOC ? (void *)&context : NULL);
		give(block);
		stop();
		trim(0);
	}
	expect_healthy();
}

TEST(a_free_has_its_own_context_or_that_of_the_allocation)
{
	int a = 0;
	int b = 0;

	keep(WEIR_HISTORY_ALL, 100);
	weir_torch_history_enter(&a);
	void *one = take(1000, NULL);
	void *two = take(1000, NULL);
	weir_torch_history_enter(NULL);
	give(one);
	weir_torch_history_enter(&b);
	give(two);
	weir_torch_history_enter(NULL);
	expect_entries("segment_map alloc alloc free_requested free_completed "
		       "free_requested free_completed");
	EXPECT_EQ(contexts_seen[3], &a);
	EXPECT_EQ(contexts_seen[4], &a);
	EXPECT_EQ(contexts_seen[5], &b);
	EXPECT_EQ(contexts_seen[6], &b);
	stop();
	EXPECT_EQ(a + b, 0);
	expect_healthy();
}

TEST(a_free_that_is_completed_late_has_the_blocks_context)
{
	weir_stream late = new_stream();
	int a = 0;
	int b = 0;

	keep(WEIR_HISTORY_ALL, 100);
	weir_torch_history_enter(&a);
	void *block = take(3 * MIB, NULL);
	weir_torch_history_enter(NULL);
	busy(late, LATE_MS);
	record(block, late);
	give(block);
	expect_entries("segment_map alloc free_requested");
	finish(late);
	weir_torch_history_enter(&b);
	take(3 * MIB, NULL);
	weir_torch_history_enter(NULL);
	expect_entries("segment_map alloc free_requested free_completed alloc");
	EXPECT_EQ(contexts_seen[3], &a);
	EXPECT_EQ(contexts_seen[4], &b);
	expect_healthy();
}

TEST(actions_can_be_skipped)
{
	struct weir_torch_history history = { .on = true,
		.max_entries = 100,
		.skip = 1u << WEIR_ACTION_FREE_REQUESTED |
		    1u << WEIR_ACTION_SEGMENT_MAP };

	EXPECT_OK(weir_torch_history_set(&history, &counts));
	give(take(1000, NULL));
	expect_entries("alloc free_completed");
	expect_healthy();
}

TEST(texts_belong_to_the_thread)
{
	keep(WEIR_HISTORY_NONE, 100);
	EXPECT_OK(weir_torch_compile_push("outer"));
	EXPECT_OK(weir_torch_compile_push("inner"));
	EXPECT_OK(weir_torch_metadata_set("phase"));
	EXPECT_STR_EQ(weir_torch_metadata_get(), "phase");
	void *block = take(1000, NULL);
	weir_torch_compile_pop();
	expect_entries("segment_map alloc");
	EXPECT_STR_EQ(last.compile_context, "inner");
	EXPECT_STR_EQ(last.user_metadata, "phase");
	EXPECT_OK(weir_torch_metadata_set(""));
	give(block);
	expect_entries("segment_map alloc free_requested free_completed");
	EXPECT_STR_EQ(last.compile_context, "outer");
	EXPECT_STR_EQ(last.user_metadata, "");
	for (int i = 0; i < 200; i++)
		EXPECT_OK(weir_torch_compile_push("deep"));
	for (int i = 0; i < 300; i++)
		weir_torch_compile_pop();
	stop();
	expect_healthy();
}

static void *
push_and_end(void *unused)
{
	EXPECT_OK(weir_torch_compile_push("of a thread"));
	EXPECT_OK(weir_torch_metadata_set("of a thread"));
	return unused;
}

TEST(texts_of_a_thread_end_with_it)
{
	pthread_t thread;

	EXPECT_EQ(pthread_create(&thread, NULL, push_and_end, NULL), 0);
	pthread_join(thread, NULL); /* the leak checker checks the rest */
	EXPECT_STR_EQ(weir_torch_metadata_get(), "");
}

static unsigned tracked;

static void
track(const struct weir_torch_event *event, void *user)
{
	EXPECT_EQ(user, &tracked);
	tracked += event->action == WEIR_ACTION_ALLOC;
}

TEST(a_live_block_is_annotated)
{
	keep(WEIR_HISTORY_NONE, 100);
	char *block = take(1000, NULL);
	EXPECT_OK(weir_torch_metadata_set("phase"));
	EXPECT_OK(weir_torch_block_annotate(block, "weights"));
	expect_entries("segment_map alloc annotate");
	EXPECT_EQ(last.address, (uint64_t)(uintptr_t)block);
	EXPECT_EQ(last.size, 1000);
	EXPECT_STR_EQ(last.user_metadata, "weights");
	/* Only a live block has one, by its first byte. */
	EXPECT_OK(weir_torch_block_annotate(block + 1, "weights"));
	EXPECT_OK(weir_torch_block_annotate(&last, "weights"));
	give(block);
	EXPECT_OK(weir_torch_block_annotate(block, "weights"));
	expect_entries(
	    "segment_map alloc annotate free_requested free_completed");
	EXPECT_STR_EQ(last.user_metadata, "phase");
	EXPECT_OK(weir_torch_metadata_set(""));
	stop();
	expect_healthy();
}

TEST(a_tracker_is_called_without_a_history)
{
	EXPECT_OK(weir_torch_tracker_add(track, &tracked));
	EXPECT_GT(weir_torch_watched, 0);
	EXPECT(!weir_torch_history_on());
	give(take(1000, NULL));
	EXPECT_EQ(tracked, 1);
	expect_entries("");
	keep(WEIR_HISTORY_NONE, 10);
	stop();
	give(take(1000, NULL));
	EXPECT_EQ(tracked, 2);
	for (int i = 1; i < 16; i++)
		EXPECT_OK(weir_torch_tracker_add(track, &tracked));
	EXPECT_EQ(weir_torch_tracker_add(track, &tracked), WEIR_EINVAL);
	expect_healthy();
}

static unsigned noted;

static void
see_note(void *annotation, void *user)
{
	EXPECT_EQ(annotation, user);
	noted++;
}

TEST(annotations_are_counted_too)
{
	int note = 0;

	weir_torch_annotate(&note);
	EXPECT_EQ(note, 0);
	keep(WEIR_HISTORY_NONE, 3);
	for (int i = 0; i < 10; i++)
		weir_torch_annotate(&note);
	EXPECT_EQ(note, 3);
	weir_torch_annotations_each(see_note, &note);
	EXPECT_EQ(noted, 3);
	stop();
	EXPECT_EQ(note, 0);
}

static void *
churn(void *arg)
{
	int context = 0;
	weir_stream stream = new_stream();

	(void)arg;
	for (int i = 0; i < 300; i++) {
		weir_torch_history_enter(&context);
		void *block = take(1000, stream);
		weir_torch_history_enter(NULL);
		give(block);
	}
	finish(stream);
	while (__atomic_load_n(&context, __ATOMIC_RELAXED) > 0)
		stop();
	return NULL;
}

TEST(threads_allocate_while_it_is_turned_on_and_off)
{
	enum { THREADS = 3 };
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(&threads[i], NULL, churn, NULL), 0);
	for (int i = 0; i < 100; i++) {
		keep(i % 4, 50);
		text[0] = '\0';
		weir_torch_history_each(see, NULL);
	}
	stop();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	expect_healthy();
}
