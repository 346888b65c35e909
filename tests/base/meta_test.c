/* weir's own memory: contents, counting, and failing on purpose. */
#include "base/meta.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "tests/support/test.h"

TEST(memory_is_distinct_and_counted)
{
	size_t before = meta_bytes();
	char *a = meta_alloc(100);
	char *b = meta_alloc(5000);

	EXPECT_NOT_NULL(a);
	EXPECT_NOT_NULL(b);
	memset(a, 'a', 100);
	memset(b, 'b', 5000);
	EXPECT_EQ(a[99], 'a');
	EXPECT_EQ((uintptr_t)a % _Alignof(max_align_t), 0);
	EXPECT_EQ(meta_bytes() - before, 5100);
	meta_free(a, 100);
	EXPECT_EQ(meta_bytes() - before, 5000);
	meta_free(b, 5000);
	EXPECT_EQ(meta_bytes(), before);
}

TEST(zeroed_memory_is_zero_where_dirty_memory_was)
{
	static const char zeros[4000];

	for (int i = 0; i < 100; i++) {
		char *ptr = meta_zalloc(sizeof(zeros));

		EXPECT_NOT_NULL(ptr);
		EXPECT_MEM_EQ(ptr, zeros, sizeof(zeros));
		memset(ptr, 0xff, sizeof(zeros));
		meta_free(ptr, sizeof(zeros));
	}
}

TEST(nothing_is_freed_as_nothing)
{
	size_t before = meta_bytes();

	meta_free(NULL, 10);
	meta_unmap(NULL, 10);
	EXPECT_EQ(meta_bytes(), before);
}

TEST(an_empty_allocation_can_be_freed)
{
	void *ptr = meta_alloc(0);

	EXPECT_NOT_NULL(ptr);
	meta_free(ptr, 0);
}

/* Under a sanitizer malloc() ends the program, unless an option makes it return
 * NULL. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void);

const char *
__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

const char *
__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

TEST(an_impossible_size_is_refused_and_not_counted)
{
	volatile size_t huge = SIZE_MAX / 2;
	size_t before = meta_bytes();

	EXPECT_NULL(meta_alloc(huge));
	EXPECT_NULL(meta_zalloc(huge));
	EXPECT_NULL(meta_map(huge));
	EXPECT_EQ(meta_bytes(), before);
}

TEST(a_limit_is_looked_at_before_memory_is_taken)
{
	size_t before = meta_bytes();
	void *a;

	meta_limit_set(before + 10000);
	a = meta_alloc(6000);
	EXPECT_NOT_NULL(a);
	EXPECT(!meta_limit_hit());
	EXPECT_NULL(meta_alloc(4001));
	EXPECT(meta_limit_hit());
	EXPECT_NULL(meta_alloc(SIZE_MAX - 1));
	EXPECT_EQ(meta_bytes(), before + 6000);
	meta_free(a, 6000);
	a = meta_alloc(10000);
	EXPECT_NOT_NULL(a);
	meta_limit_set(before);
	EXPECT_NULL(meta_zalloc(1));
	meta_free(a, 10000);
	meta_limit_set(SIZE_MAX);
	meta_limit_set(SIZE_MAX - 1);
	EXPECT(!meta_limit_hit());
	meta_limit_set(SIZE_MAX);
}

/* Pages in memory, by the kernel's count. */
static size_t
resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	EXPECT_NOT_NULL(file);
	EXPECT_EQ(fscanf(file, "%*u %lu", &pages), 1);
	fclose(file);
	return pages * os_page_size();
}

/* An array grows by half until 128 MiB: a copy of the earlier array would need
 * twice that. */
TEST(under_a_limit_freed_memory_does_not_stay_with_the_process)
{
	enum { MOST = 128 << 20 };
	size_t before = resident_bytes();
	size_t room = 1 << 20;
	char *array = meta_alloc(room);

	if (test_is_watched())
		SKIP("the tool keeps what is freed");
	memset(array, 1, room);
	meta_limit_set(meta_bytes() + (size_t)2 * MOST);
	while (room < MOST) {
		size_t wider = room * 3 / 2;
		char *moved = meta_alloc(wider);

		EXPECT_NOT_NULL(moved);
		memset(moved, 1, wider);
		EXPECT_LT(resident_bytes() - before, room + wider + (8 << 20));
		meta_free(array, room);
		array = moved;
		room = wider;
	}
	meta_free(array, room);
	meta_limit_set(SIZE_MAX);
}

TEST(the_nth_allocation_fails_and_as_many_as_asked)
{
	void *ptr[6];

	meta_fail(3, 2);
	for (int i = 0; i < 6; i++)
		ptr[i] = i % 2 == 0 ? meta_alloc(8) : meta_zalloc(8);
	for (int i = 0; i < 6; i++) {
		if (i == 2 || i == 3)
			EXPECT_NULL(ptr[i]);
		else
			EXPECT_NOT_NULL(ptr[i]);
		meta_free(ptr[i], 8);
	}
	EXPECT_EQ(meta_faults(), 2);
	meta_fail(0, 0);
	EXPECT_EQ(meta_faults(), 0);
}

TEST(failing_can_be_ended_and_begun_again)
{
	void *ptr;

	meta_fail(1, 1000);
	EXPECT_NULL(meta_alloc(8));
	meta_fail(0, 0);
	ptr = meta_alloc(8);
	EXPECT_NOT_NULL(ptr);
	meta_free(ptr, 8);
	meta_fail(1, 1);
	EXPECT_NULL(meta_alloc(8));
	ptr = meta_alloc(8);
	EXPECT_NOT_NULL(ptr);
	meta_free(ptr, 8);
}

TEST(mappings_are_zero_and_count_as_allocations_that_may_fail)
{
	size_t size = (size_t)64 << 20;
	size_t before = meta_bytes();
	char *ptr;

	meta_fail(1, 1);
	EXPECT_NULL(meta_map(size));
	ptr = meta_map(size);
	EXPECT_NOT_NULL(ptr);
	EXPECT_EQ((uintptr_t)ptr % os_page_size(), 0);
	EXPECT_EQ(ptr[0], 0);
	EXPECT_EQ(ptr[size - 1], 0);
	ptr[size / 2] = 1;
	EXPECT_EQ(meta_bytes(), before);
	meta_unmap(ptr, size);
}

TEST(a_mapping_may_be_far_larger_than_memory)
{
	size_t size = (size_t)1 << 42;
	char *ptr = meta_map(size);

	if (ptr == NULL)
		SKIP("address space is limited here");
	ptr[size - 1] = 1;
	meta_unmap(ptr, size);
}

enum { THREADS = 4, ROUNDS = 2000 };

static void *
use_memory(void *fill)
{
	char *kept[16] = { NULL };

	for (int i = 0; i < ROUNDS; i++) {
		size_t size = 16 + (size_t)(i % 16) * 24;
		char **at = &kept[i % 16];

		if (*at != NULL)
			EXPECT_EQ((*at)[size - 1], *(char *)fill);
		meta_free(*at, size);
		*at = meta_alloc(size);
		EXPECT_NOT_NULL(*at);
		memset(*at, *(char *)fill, size);
	}
	for (int i = 0; i < 16; i++)
		meta_free(kept[i], 16 + (size_t)i * 24);
	return NULL;
}

TEST(threads_share_memory_without_harm)
{
	static char fill[THREADS] = { 'a', 'b', 'c', 'd' };
	pthread_t threads[THREADS];
	size_t before = meta_bytes();

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, use_memory, &fill[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(meta_bytes(), before);
}

TEST(a_forked_child_may_allocate)
{
	void *ptr = meta_alloc(64);
	int status;
	pid_t child = fork();

	if (child == 0) {
		void *own = meta_alloc(64);

		meta_free(ptr, 64);
		meta_free(own, 64);
		_exit(own == NULL);
	}
	EXPECT_EQ(waitpid(child, &status, 0), child);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	meta_free(ptr, 64);
}
