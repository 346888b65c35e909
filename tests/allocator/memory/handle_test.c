/*
 * Which devices may use mapped memory: the device itself, and its peers.
 */
#include "allocator/memory/handle.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "allocator/memory/arena.h"
#include "tests/support/cuda.h"
#include "tests/support/device.h"

/* May a device use the memory at an address? */
static bool
reaches(int device, const void *ptr)
{
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE,
		.id = device };
	unsigned long long flags = 0;

	CU(cu.cuMemGetAccess(&flags, &location, (CUdeviceptr)(uintptr_t)ptr));
	return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

TEST(a_large_request_takes_few_handles_on_a_small_device_too)
{
	setenv("SIMCUDA_CONF", "memory_mb:16384", 1);
	device_need_sim("it counts calls of the driver");
	take(512, NULL);
	uint64_t before = sim()->calls("cuMemCreate");
	take((size_t)1 << 30, NULL);
	EXPECT_LE(sim()->calls("cuMemCreate") - before, 10);
	expect_healthy();
}

TEST(a_peer_reaches_mapped_memory_and_later_mappings)
{
	device_need(2);
	cuda_load();
	char *before = take(3 * MIB, NULL);
	EXPECT(reaches(0, before));
	EXPECT(!reaches(1, before));
	EXPECT_OK(weir_peer_access(0, 1));
	EXPECT(reaches(0, before));
	EXPECT(reaches(1, before));
	char *after = take(300 * MIB, NULL);
	EXPECT(reaches(1, after));
	EXPECT(reaches(0, after));
	char *other = weir_malloc_on(1, 3 * MIB, NULL);
	EXPECT(!reaches(0, other));
	EXPECT_OK(weir_peer_access(0, 1));
	expect_healthy();
}

TEST(an_invalid_peer_is_refused)
{
	device_need(2);
	EXPECT_OK(weir_peer_access(0, 0));
	EXPECT_STATUS(weir_peer_access(0, 99), WEIR_ENODEVICE);
	EXPECT_STATUS(weir_peer_access(-1, 0), WEIR_ENODEVICE);
	expect_healthy();
}

/* Two devices whose driver can be made to fail, and two blocks that lie in
 * handles of their own, before a test. */
static void
begin_with_two(char *block[2])
{
	device_need(2);
	device_need_sim("only the simulated driver can be made to fail");
	cuda_load();
	conf("handle_mb:2");
	block[0] = take(2 * MIB, NULL);
	block[1] = take(2 * MIB, NULL);
}

/* Make calls of cuMemSetAccess() fail, the nth from now on first. */
static void
refuse_access(unsigned nth, unsigned count)
{
	EXPECT_EQ(
	    sim()->fail("cuMemSetAccess", nth, count, CUDA_ERROR_NOT_SUPPORTED),
	    0);
}

TEST(a_peer_that_cannot_be_opened_changes_nothing)
{
	char *block[2];

	begin_with_two(block);
	for (unsigned nth = 1; nth <= 2; nth++) {
		refuse_access(nth, 1);
		EXPECT_STATUS(weir_peer_access(0, 1), WEIR_ENOTSUP);
		for (int i = 0; i < 2; i++) {
			EXPECT(!reaches(1, block[i]));
			EXPECT(reaches(0, block[i]));
		}
	}
	EXPECT(!reaches(1, take(300 * MIB, NULL)));
	EXPECT_OK(weir_peer_access(0, 1));
	for (int i = 0; i < 2; i++)
		EXPECT(reaches(1, block[i]));
	expect_healthy();
}

TEST(an_access_that_the_driver_does_not_withdraw_at_once_is_tried_again)
{
	char *block[2];

	begin_with_two(block);
	refuse_access(2, 2);
	EXPECT_STATUS(weir_peer_access(0, 1), WEIR_ENOTSUP);
	EXPECT(!reaches(1, block[0]));
	EXPECT(!reaches(1, block[1]));
	expect_healthy();
}

TEST(an_access_that_cannot_be_withdrawn_lasts_for_its_memory_only)
{
	char *block[2];

	begin_with_two(block);
	refuse_access(2, 1);
	/* To withdraw it from the first handle, both times. */
	EXPECT_EQ(sim()->fail("cuMemSetAccess", 3, 2, CUDA_ERROR_UNKNOWN), 0);
	EXPECT_STATUS(weir_peer_access(0, 1), WEIR_ENOTSUP);
	EXPECT_STR_HAS(weir_last_error(), "cuMemSetAccess");
	EXPECT_EQ(reaches(1, block[0]) + reaches(1, block[1]), 1);
	EXPECT(!reaches(1, take(300 * MIB, NULL)));
	EXPECT_OK(weir_peer_access(0, 1));
	EXPECT(reaches(1, block[0]));
	EXPECT(reaches(1, block[1]));
	expect_healthy();
}

/* ---- Two threads ------------------------------------------------------- */

/* Jobs that are mapping hold up a thread that opens the arena. */
static void
change_jobs(int by)
{
	struct arena *arena = arena_peek(0);

	lock_enter(&arena->lock);
	arena->memory.jobs += (unsigned)by;
	lock_leave(&arena->lock);
}

static atomic_int answered;

static void *
ask_for_access(void *result)
{
	enum weir_status *status = result;

	*status = weir_peer_access(0, 1);
	atomic_fetch_add(&answered, 1);
	return NULL;
}

TEST(no_thread_is_told_ok_before_another_thread_s_failure)
{
	char *block[2];
	pthread_t thread[2];
	enum weir_status status[2];

	begin_with_two(block);
	change_jobs(1);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_create(
			      &thread[i], NULL, ask_for_access, &status[i]),
		    0);
	for (int ms = 0; ms < 100 && atomic_load(&answered) == 0; ms++)
		usleep(1000);
	EXPECT_EQ(atomic_load(&answered), 0);
	refuse_access(1, 1000);
	change_jobs(-1);
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_join(thread[i], NULL), 0);
	sim()->reset();
	EXPECT_EQ(status[0], WEIR_ENOTSUP);
	EXPECT_EQ(status[1], WEIR_ENOTSUP);
	EXPECT(!reaches(1, block[0]));
	expect_healthy();
}

/* The mapping thread has seen the peer that then is refused. */
TEST(memory_that_is_mapped_during_a_failed_call_is_closed_again)
{
	char *block[2];
	pthread_t thread;
	enum weir_status status;
	char *mapped = NULL;

	begin_with_two(block);
	change_jobs(1);
	EXPECT_EQ(pthread_create(&thread, NULL, ask_for_access, &status), 0);
	for (int i = 0; i < 100 && (mapped == NULL || !reaches(1, mapped));
	     i++) {
		usleep(1000);
		mapped = take(2 * MIB, NULL);
	}
	EXPECT(reaches(1, mapped));
	refuse_access(1, 1);
	change_jobs(-1);
	EXPECT_EQ(pthread_join(thread, NULL), 0);
	EXPECT_EQ(status, WEIR_ENOTSUP);
	EXPECT(!reaches(1, block[0]));
	EXPECT(!reaches(1, mapped));
	expect_healthy();
}
