/*
 * The functions of a pluggable allocator.
 */
#include <pthread.h>

#include "plugins/torch/weir_torch.h"
#include "tests/support/device.h"

TEST(the_plugged_in_allocator_allocates_and_frees)
{
	weir_stream stream = new_stream();
	size_t size = 0;

	weir_torch_plug_init(1);
	void *ptr = weir_torch_plug_alloc(1000, 0, stream);
	EXPECT_NOT_NULL(ptr);
	EXPECT_EQ(info_of(ptr).stream, stream);
	EXPECT_LE(weir_torch_plug_base(ptr, &size), ptr);
	EXPECT_GE(size, 1000);
	EXPECT_EQ(weir_torch_plug_base(&size, NULL), &size);
	weir_torch_plug_free(ptr, 1000, 0, stream);
	EXPECT_EQ(stats().allocated_bytes.all.current, 0);
	weir_torch_plug_reset();
	EXPECT_EQ(stats().reserved_bytes.all.current, 0);
	EXPECT_NULL(weir_torch_plug_alloc(0, 0, stream));
	EXPECT_NULL(weir_torch_plug_alloc((size_t)1 << 45, 0, stream));
	weir_torch_plug_fraction(0.5, 0);
	double fraction = 0;
	EXPECT_OK(weir_fraction_get(0, &fraction));
	EXPECT_LT(fraction, 0.51);
	expect_healthy();
}

TEST(a_recorded_stream_is_waited_for)
{
	weir_stream late = new_stream();
	void *ptr = weir_torch_plug_alloc(3 * MIB, 0, NULL);

	busy(late, LATE_MS);
	weir_torch_plug_record(ptr, late);
	weir_torch_plug_free(ptr, 3 * MIB, 0, NULL);
	EXPECT_EQ(stats().pending_bytes, 3 * MIB);
	finish(late);
	expect_healthy();
}

/* PyTorch passes no device, so that the default streams of all devices have
 * one handle. */
TEST(a_recorded_default_stream_is_that_of_the_block_s_device_too)
{
	static const weir_stream handles[] = { NULL, WEIR_STREAM_LEGACY,
		WEIR_STREAM_PER_THREAD };
	weir_stream mine;

	device_need(2);
	EXPECT_OK(weir_stream_create(1, 0, &mine));
	for (int i = 0; i < 6; i++) {
		weir_stream stream = handles[i / 2];
		int device = i % 2;
		void *ptr = weir_torch_plug_alloc(4 * MIB, 1, mine);

		EXPECT_OK(weir_set_device(device));
		busy(stream, LATE_MS);
		EXPECT_OK(weir_set_device(0));
		weir_torch_plug_record(ptr, stream);
		int current = -1;
		EXPECT_OK(weir_get_device(&current));
		EXPECT_EQ(current, 0);
		weir_torch_plug_free(ptr, 4 * MIB, 1, mine);
		void *early = weir_torch_plug_alloc(4 * MIB, 1, mine);
		EXPECT_NE(early, ptr);
		weir_torch_plug_free(early, 4 * MIB, 1, mine);
		EXPECT_OK(weir_set_device(device));
		finish(stream);
		EXPECT_OK(weir_set_device(0));
		EXPECT_OK(weir_trim(1, 0, NULL));
	}
	EXPECT_OK(weir_stream_destroy(mine));
	expect_healthy();
}

static void *
take_elsewhere(void *unused)
{
	(void)unused;
	return weir_torch_plug_alloc(100, 0, NULL);
}

TEST(the_thread_that_begins_is_routed)
{
	struct weir_torch_id id = { 1, 0 };
	pthread_t thread;
	void *other;

	weir_torch_plug_begin(0, id, NULL);
	EXPECT_EQ(weir_torch_pool_uses(0, id), 1);
	void *mine = weir_torch_plug_alloc(100, 0, NULL);
	EXPECT_EQ(pthread_create(&thread, NULL, take_elsewhere, NULL), 0);
	pthread_join(thread, &other);
	weir_torch_plug_end(0, id);
	bool equal = false;
	const void *live[] = { mine };
	EXPECT_OK(weir_torch_pool_check_live(0, id, live, 1, &equal));
	EXPECT(equal);
	weir_torch_plug_release(0, id);
	EXPECT_EQ(weir_torch_pool_uses(0, id), 0);
	expect_healthy();
}
