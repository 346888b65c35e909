#include "plugins/torch/filter.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/device.h"

static unsigned drops;
static weir_stream asked;

static bool
yes(void *closure, weir_stream stream)
{
	asked = stream;
	return *(bool *)closure;
}

static void
drop(void *closure)
{
	(void)closure;
	drops++;
}

TEST(a_filter_is_asked_while_it_is_open)
{
	bool answer = true;
	struct weir_torch_filter filter = { yes, drop, &answer };
	struct filter_slot *slot = filter_open(&filter);
	weir_stream stream = (weir_stream)&answer;

	filter_request_begin();
	EXPECT(filter_ask(stream, slot));
	EXPECT_EQ(asked, stream);
	EXPECT(filter_ask(WEIR_STREAM_LEGACY, slot));
	EXPECT_NULL(asked);
	answer = false;
	EXPECT(!filter_ask(stream, slot));
	answer = true;
	filter_close(slot);
	EXPECT_EQ(drops, 1);
	asked = stream;
	/* A thread that found the slot before it was closed may still ask. */
	EXPECT(!filter_ask(NULL, slot));
	EXPECT_EQ(asked, stream);
	slot = filter_open(&filter);
	filter_disown(slot);
	filter_close(slot);
	EXPECT_EQ(drops, 1);
	filter_close(NULL);
	filter_request_end();
}

TEST(a_filter_is_not_asked_about_requests_of_others)
{
	bool answer = true;
	struct weir_torch_filter filter = { yes, NULL, &answer };
	struct filter_slot *slot = filter_open(&filter);
	weir_stream stream = new_stream();

	EXPECT(!filter_ask(NULL, slot));
	EXPECT(!filter_ask(stream, slot));
	capture_begin(stream);
	EXPECT(filter_captured(stream));
	EXPECT(filter_ask(stream, slot));
	EXPECT(!filter_ask(NULL, slot));
	EXPECT(!filter_ask(WEIR_STREAM_ANY, slot));
	capture_end(stream);
	filter_request_begin();
	filter_request_begin();
	filter_request_end();
	EXPECT(filter_ask(stream, slot));
	EXPECT(!filter_ask(WEIR_STREAM_ANY, slot));
	filter_request_end();
	EXPECT(!filter_ask(stream, slot));
	filter_close(slot);
}

TEST(slots_are_used_again_after_many_others)
{
	bool answer = true;
	struct weir_torch_filter filter = { yes, NULL, &answer };
	struct filter_slot *first = filter_open(&filter);
	unsigned others = 0;

	filter_close(first);
	for (;; others++) {
		struct filter_slot *slot = filter_open(&filter);
		filter_close(slot);
		if (slot == first)
			break;
		EXPECT_LT(others, 1000);
	}
	EXPECT_GE(others, 64);
}

static atomic_bool stop;
static atomic_uint wrong;

static bool
is_whole(void *closure, weir_stream stream)
{
	int *value = closure;

	(void)stream;
	if (*value != 42)
		atomic_fetch_add(&wrong, 1);
	return true;
}

static void
spoil(void *closure)
{
	*(int *)closure = 0;
}

static void *
ask_on(void *slot)
{
	filter_request_begin();
	while (!atomic_load(&stop))
		filter_ask(NULL, slot);
	filter_request_end();
	return NULL;
}

TEST(no_call_sees_a_filter_that_is_dropped)
{
	for (int round = 0; round < 200; round++) {
		int value = 42;
		struct weir_torch_filter filter = { is_whole, spoil, &value };
		struct filter_slot *slot = filter_open(&filter);
		pthread_t thread;
		atomic_store(&stop, false);
		EXPECT_EQ(pthread_create(&thread, NULL, ask_on, slot), 0);
		filter_close(slot);
		atomic_store(&stop, true);
		pthread_join(thread, NULL);
		EXPECT_EQ(atomic_load(&wrong), 0);
	}
}
