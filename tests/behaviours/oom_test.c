/*
 * docs/behaviours.md, rows on running out of memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/trace.h>

#include "tests/support/device.h"

/* Memory can be allocated, and work on it is right. */
static void
expect_work_goes_on(void)
{
	weir_stream stream = new_stream();
	void *a = take(8 * MIB, stream);
	void *b = take(8 * MIB, stream);

	fill(a, 8 * MIB, 0x3c, stream);
	copy(b, a, 8 * MIB, stream);
	expect_filled(b, 8 * MIB, 0x3c, stream);
	give(a);
	give(b);
	expect_healthy();
}

/* ---- out_of_memory ----------------------------------------------------- */

TEST(the_error_of_an_absurd_request_has_its_size_and_work_goes_on)
{
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 49, NULL), WEIR_ENOMEM);
	EXPECT_STR_HAS(weir_last_error(), "Tried to allocate 512.00 TiB");
	expect_work_goes_on();
}

TEST(a_request_above_1_eb_is_refused_and_work_goes_on)
{
	EXPECT_NO_MEMORY(weir_malloc(SIZE_MAX / 2, NULL), WEIR_EINVAL);
	EXPECT_STR_HAS(weir_last_error(), "more than 1EB memory");
	expect_work_goes_on();
}

/* ---- out_of_memory_retry ----------------------------------------------- */

/* A bit more than half the device. Valgrind takes long for the mappings of half
 * a GPU's memory, so the simulated device is smaller there. */
static size_t
more_than_half(void)
{
	if (test_is_watched())
		setenv("SIMCUDA_CONF", "memory_mb:4096", 1);
	return device_total(0) / 2 + 64 * MIB;
}

TEST(half_the_device_fits_once_and_again_after_it_is_freed)
{
	size_t half = more_than_half();
	void *first = take(half, NULL);

	EXPECT_NO_MEMORY(weir_malloc(half, NULL), WEIR_ENOMEM);
	give(first);
	void *second = take(half, NULL);
	fill(second, MIB, 1, NULL);
	fill((char *)second + half - MIB, MIB, 2, NULL);
	expect_filled(second, MIB, 1, NULL);
	expect_filled((char *)second + half - MIB, MIB, 2, NULL);
	give(second);
	/* On another stream too, with no trim in between. */
	give(take(half, new_stream()));
	expect_healthy();
}

TEST(half_the_device_fits_again_with_segments_of_the_driver)
{
	size_t half = more_than_half();

	conf("expandable_segments:False");
	void *first = take(half, NULL);
	EXPECT_NO_MEMORY(weir_malloc(half, NULL), WEIR_ENOMEM);
	give(first);
	give(take(half, NULL));
	give(take(half - 32 * MIB, new_stream()));
	expect_healthy();
}

/* ---- raises_oom -------------------------------------------------------- */

TEST(out_of_memory_is_reported_with_max_split_size_mb)
{
	conf("max_split_size_mb:1024");
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 45, NULL), WEIR_ENOMEM);
	expect_work_goes_on();
	conf("expandable_segments:False");
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 45, NULL), WEIR_ENOMEM);
	expect_work_goes_on();
}

/* ---- notifies_oom ------------------------------------------------------ */

struct told {
	int times;
	int device;
	size_t size;
	size_t total;
	size_t device_free;
};

static void
tell(const struct weir_oom *oom, void *user)
{
	struct told *told = user;

	told->times++;
	told->device = oom->device;
	told->size = oom->requested_bytes;
	told->total = oom->limit_bytes;
	told->device_free = oom->device_free_bytes;
}

TEST(observers_get_device_size_and_totals)
{
	struct told told = { .device = -1 };

	take(512, NULL);
	EXPECT_OK(weir_oom_observer_add(tell, &told));
	EXPECT_NO_MEMORY(weir_malloc((size_t)1 << 45, NULL), WEIR_ENOMEM);
	EXPECT_EQ(told.times, 1);
	EXPECT_EQ(told.device, 0);
	EXPECT_EQ(told.size, (size_t)1 << 45);
	EXPECT_EQ(told.total, device_total(0));
	EXPECT_EQ(told.device_free, device_free_bytes(0));
	EXPECT_OK(weir_oom_observer_remove(tell, &told));
}
