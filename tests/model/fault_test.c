/*
 * The scenarios of the fault sweep: together they reach every path that calls
 * the driver or allocates host memory. sweep.h describes the sweep.
 */
#include <pthread.h>
#include <stdlib.h>

#include <weir/host.h>
#include <weir/trace.h>

#include "base/os.h"
#include "driver/driver.h"
#include "tests/model/sweep.h"
#include "tests/support/cuda.h"
#include "tests/support/device.h"
#include "tests/support/sim.h"
#include "tests/support/test.h"

/* A block of stream 0 that stream 1 uses late, in the required order. */
static void *
used_elsewhere(struct run *run, size_t size)
{
	weir_stream own = stream(run, 0);
	weir_stream other = stream(run, 1);
	void *block = allocate(run, size, own);

	if (block != NULL && TRY(run, weir_stream_wait_stream(other, own)) &&
	    TRY(run, weir_record_stream(block, other)))
		work_late(block, size, other);
	return block;
}

static void
pass_time(void)
{
	sim()->advance_ns(10000000);
}

static void
set_options(struct run *run, const char *conf)
{
	TRY(run, weir_options_set(conf));
}

/* If nothing has failed, and unused memory is not given back before each
 * request, check that the scenario reached its path. */
#define EXPECT_SOME(run, n)                                                    \
	do {                                                                   \
		if ((run)->calm && getenv("WEIR_TEST_HOSTILE") == NULL)        \
			EXPECT_GT(n, 0);                                       \
	} while (0)

/* ---- Scenarios --------------------------------------------------------- */

static void
play_first_use(struct run *run)
{
	struct weir_device_info info = { .struct_size = sizeof(info) };
	struct weir_telemetry telemetry = { .struct_size = sizeof(telemetry) };
	size_t available;
	size_t total;
	int number;

	TRY(run, weir_init());
	TRY(run, weir_device_count(&number));
	TRY(run, weir_get_device(&number));
	TRY(run, weir_set_device(0));
	TRY(run, weir_device_info(0, &info));
	TRY(run, weir_memory_info(0, &available, &total));
	TRY(run, weir_telemetry(0, &telemetry));
	TRY(run, weir_limit_get(0, &total));
	TRY(run, weir_fraction_set(0, 0.5));
	TRY(run, weir_fraction_set(0, 1));
	TRY(run, weir_trim(WEIR_DEVICE_ALL, 0, &total));
	TRY(run, weir_device_synchronize(0));
}

static void
play_first_malloc(struct run *run)
{
	void *small = allocate(run, 1000, NULL);
	void *large = allocate(run, 3 * MEGABYTE, NULL);
	void *own = allocate(run, 1000, WEIR_STREAM_PER_THREAD);

	release(run, small);
	release(run, large);
	release(run, own);
	release(run, allocate(run, 1000, NULL));
}

/* Several handles at once, then growth in place, ahead, and past the end. */
static void
play_growth(struct run *run)
{
	void *blocks[4];

	TRY(run, weir_set_device(0));
	blocks[0] = allocate(run, 300 * MEGABYTE, stream(run, 0));
	blocks[1] = allocate(run, 40 * MEGABYTE, stream(run, 0));
	blocks[2] = allocate(run, 1, stream(run, 0));
	release(run, blocks[1]);
	blocks[3] = allocate(run, 90 * MEGABYTE, stream(run, 0));
	for (int i = 0; i < 64 && run->blocks[i] != NULL; i++)
		work_late(run->blocks[i], 1, stream(run, 0));
	release(run, blocks[0]);
	release(run, blocks[2]);
	release(run, blocks[3]);
}

static void
play_driver_segments(struct run *run)
{
	void *blocks[4];

	set_options(run, "expandable_segments:False,max_split_size_mb:32");
	blocks[0] = allocate(run, 1000, NULL);
	blocks[1] = allocate(run, 3 * MEGABYTE, NULL);
	blocks[2] = allocate(run, 31 * MEGABYTE + 1, NULL);
	blocks[3] = allocate(run, 64 * MEGABYTE, NULL);
	release(run, blocks[1]);
	release(run, allocate(run, 6 * MEGABYTE, NULL));
	for (int i = 0; i < 4; i++) {
		if (i != 1)
			release(run, blocks[i]);
	}
	TRY(run, weir_trim(0, 0, NULL));
	set_options(run,
	    "expandable_segments:True,"
	    "max_split_size_mb:unlimited");
}

/* Holes that a trim leaves between live blocks are mapped again for a block
 * that spans them. */
static void
play_holes(struct run *run)
{
	void *blocks[6];

	for (int i = 0; i < 6; i++)
		blocks[i] = allocate(run, 4 * MEGABYTE, stream(run, 0));
	release(run, blocks[1]);
	release(run, blocks[3]);
	TRY(run, weir_trim(0, 0, NULL));
	release(run, blocks[2]);
	blocks[2] = allocate(run, 11 * MEGABYTE, stream(run, 0));
	for (int i = 0; i < 6; i++) {
		if (i != 1 && i != 3)
			release(run, blocks[i]);
	}
}

static void
play_other_streams(struct run *run)
{
	void *block = used_elsewhere(run, 2 * MEGABYTE);
	void *second = used_elsewhere(run, 1000);

	TRY(run, weir_record_stream(block, WEIR_STREAM_PER_THREAD));
	TRY(run, weir_record_stream(second, WEIR_STREAM_ANY));
	release(run, block);
	release(run, second);
	allocate(run, 2 * MEGABYTE, stream(run, 0));
	pass_time();
	release(run, allocate(run, 2 * MEGABYTE, stream(run, 0)));
	release(run, allocate(run, 1000, stream(run, 0)));
}

static void
play_free_async(struct run *run)
{
	weir_stream own = stream(run, 0);
	weir_stream other = stream(run, 1);
	void *block = used_elsewhere(run, 2 * MEGABYTE);

	if (TRY(run, weir_stream_wait_stream(other, own)))
		release_on(run, block, other);
	release(run, allocate(run, 2 * MEGABYTE, other));
	block = allocate(run, 1000, own);
	work_late(block, 1000, own);
	release_on(run, block, WEIR_STREAM_ANY);
	release_on(run, allocate(run, 1000, WEIR_STREAM_ANY), own);
	pass_time();
	release(run, allocate(run, 1000, own));
}

/* A stream ends with memory cached, live and pending, and other streams get
 * that memory. */
static void
play_stream_end(struct run *run)
{
	void *cached = allocate(run, 5 * MEGABYTE, stream(run, 0));
	void *live = allocate(run, 1000, stream(run, 0));
	void *pending = used_elsewhere(run, 2 * MEGABYTE);
	void *recorded = allocate(run, 1000, stream(run, 1));

	work_late(cached, 5 * MEGABYTE, stream(run, 0));
	if (recorded != NULL &&
	    TRY(run, weir_stream_wait_stream(stream(run, 0), stream(run, 1))))
		TRY(run, weir_record_stream(recorded, stream(run, 0)));
	release(run, cached);
	release(run, pending);
	end_stream(run, 0);
	release(run, recorded);
	allocate(run, 3 * MEGABYTE, stream(run, 1));
	pass_time();
	release(run, live);
	allocate(run, 6 * MEGABYTE, stream(run, 1));
	end_stream(run, 1);
}

static void
play_foreign_stream(struct run *run)
{
	void *block;

	TRY(run, weir_set_device(0));
	if (run->foreign == NULL && driver_peek() != NULL &&
	    driver_peek()->cuStreamCreateWithPriority(
		&run->foreign, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS)
		run->foreign = NULL;
	block = allocate(run, 1000, run->foreign);
	work_late(block, 1000, run->foreign);
	release(run, block);
	if (run->foreign == NULL || !TRY(run, weir_stream_retire(run->foreign)))
		return;
	/* If this call fails, the driver's stream remains; weir has forgotten
	 * it in any case. */
	driver_peek()->cuStreamDestroy(run->foreign);
	run->foreign = NULL;
	pass_time();
	release(run, allocate(run, 1000, NULL));
}

static void
play_trim(struct run *run)
{
	void *late = allocate(run, 30 * MEGABYTE, stream(run, 0));
	void *pending = used_elsewhere(run, 2 * MEGABYTE);
	void *any = allocate(run, MEGABYTE, WEIR_STREAM_ANY);

	work_late(late, 30 * MEGABYTE, stream(run, 0));
	release(run, late);
	release(run, pending);
	release(run, any);
	TRY(run, weir_trim(0, 16 * MEGABYTE, NULL));
	TRY(run, weir_trim(WEIR_DEVICE_ALL, 0, NULL));
}

static void
count_oom(const struct weir_oom *oom, void *user)
{
	(void)oom;
	++*(int *)user;
}

/* All steps of the ladder: other pools' memory, pending blocks, streams that
 * must be waited for; and in the end a request that cannot be served. */
static void
play_shortage(struct run *run)
{
	static int observed;
	bool limited = TRY(run, weir_limit_set(0, 64 * MEGABYTE));
	void *kept;
	void *idle;
	void *none;

	kept = allocate(run, 8 * MEGABYTE, stream(run, 2));
	idle = allocate(run, 16 * MEGABYTE, stream(run, 2));
	work_late(idle, 16 * MEGABYTE, stream(run, 2));
	release(run, idle);
	release(run, used_elsewhere(run, 20 * MEGABYTE));
	release(run, used_elsewhere(run, 2 * MEGABYTE));
	release(run, allocate(run, 50 * MEGABYTE, stream(run, 3)));
	release(run, kept);
	TRY(run, weir_oom_observer_add(count_oom, &observed));
	run_begin(run);
	none = weir_malloc_on(0, 70 * MEGABYTE, stream(run, 3));
	run_expect_whole("weir_malloc");
	if (limited) {
		EXPECT_NULL(none);
		EXPECT_STR_HAS(weir_last_error(), " ");
		run_expect_unchanged(run, "weir_malloc");
	} else if (none != NULL) {
		EXPECT_OK(weir_free(none));
	}
	TRY(run, weir_oom_observer_remove(count_oom, &observed));
	TRY(run, weir_limit_set(0, SIZE_MAX));
}

/* The device itself has no more memory. */
static void
play_full_device(struct run *run)
{
	void *most = allocate(run, 200 * MEGABYTE, stream(run, 0));
	void *part = allocate(run, 20 * MEGABYTE, stream(run, 1));

	sim()->set_memory(0, sim()->memory_used(0) + 4 * MEGABYTE);
	work_late(most, 200 * MEGABYTE, stream(run, 0));
	release(run, most);
	release(run, allocate(run, 100 * MEGABYTE, stream(run, 1)));
	release(run, part);
	release(run, allocate(run, 2 * MEGABYTE, WEIR_STREAM_ANY));
	sim()->set_memory(0, DEVICE_BYTES);
}

static void
play_any_stream(struct run *run)
{
	void *blocks[3];

	blocks[0] = allocate(run, 1000, WEIR_STREAM_ANY);
	blocks[1] = allocate(run, 3 * MEGABYTE, WEIR_STREAM_ANY);
	blocks[2] = allocate(run, 30 * MEGABYTE, WEIR_STREAM_ANY);
	work_late(blocks[1], MEGABYTE, stream(run, 0));
	for (int i = 0; i < 3; i++)
		release(run, blocks[i]);
	allocate(run, 3 * MEGABYTE, WEIR_STREAM_ANY);
	pass_time();
	allocate(run, 3 * MEGABYTE, WEIR_STREAM_ANY);
	release(run, allocate(run, 1000, stream(run, 0)));
}

/* Where an event on the context is wanted, weir waits for the context and
 * records one on the legacy stream. */
static void
play_old_driver(struct run *run)
{
	if (!run_without_context_records(run))
		return;
	play_any_stream(run);
	play_other_streams(run);
	play_free_async(run);
	TRY(run, weir_event_create(0, &run->event));
	if (run->event != NULL)
		TRY(run, weir_event_record(run->event, WEIR_STREAM_ANY));
	TRY(run, weir_event_destroy(run->event));
	run->event = NULL;
	EXPECT_EQ(sim()->calls("cuCtxRecordEvent"), 0);
	EXPECT_SOME(run, sim()->calls("cuCtxSynchronize"));
}

static void
play_streams(struct run *run)
{
	weir_stream pooled;
	weir_stream was;
	int number;

	TRY(run, weir_stream_from_pool(0, -1, &pooled));
	TRY(run, weir_stream_current(0, &was));
	if (TRY(run, weir_stream_set_current(stream(run, 0))))
		TRY(run, weir_stream_set_current(NULL));
	TRY(run, weir_stream_device(stream(run, 0), &number));
	TRY(run, weir_stream_priority(stream(run, 0), &number));
	TRY(run, weir_stream_query(stream(run, 0)));
	TRY(run, weir_stream_synchronize(stream(run, 0)));
	TRY(run, weir_stream_synchronize(WEIR_STREAM_ANY));
	TRY(run, weir_stream_wait_stream(stream(run, 0), stream(run, 1)));
	end_stream(run, 0);
	end_stream(run, 1);
}

static void
play_events(struct run *run)
{
	struct weir_event *first = NULL;
	float milliseconds;

	TRY(run, weir_event_create(WEIR_EVENT_TIMING, &first));
	TRY(run, weir_event_create(WEIR_EVENT_TIMING, &run->event));
	if (first != NULL && run->event != NULL &&
	    TRY(run, weir_event_record(first, stream(run, 0))) &&
	    TRY(run, weir_event_record(run->event, stream(run, 0)))) {
		TRY(run, weir_stream_wait_event(NULL, run->event));
		if (TRY(run, weir_event_synchronize(run->event)) &&
		    TRY(run, weir_event_query(run->event)))
			TRY(run,
			    weir_event_elapsed_ms(
				first, run->event, &milliseconds));
	}
	/* The events are destroyed in any case. */
	TRY(run, weir_event_destroy(first));
	TRY(run, weir_event_destroy(run->event));
	run->event = NULL;
}

static void
play_huge(struct run *run)
{
	static const size_t sizes[] = { (size_t)3900 << 20, (size_t)5000 << 20,
		(size_t)1 << 50, WEIR_SIZE_MAX };

	release(run, allocate(run, sizes[0], stream(run, 0)));
	release(run, allocate(run, sizes[0], WEIR_STREAM_ANY));
	for (int i = 1; i < 4; i++) {
		run_begin(run);
		EXPECT_NULL(weir_malloc_on(0, sizes[i], stream(run, 0)));
		run_expect_whole("weir_malloc");
		EXPECT_STR_HAS(weir_last_error(), " ");
		run_expect_unchanged(run, "weir_malloc");
	}
	TRY(run, weir_trim(0, 0, NULL));
}

static void
play_second_device(struct run *run)
{
	void *first = allocate_on(run, 0, 1000, stream(run, 0));
	void *second = allocate_on(run, 1, 3 * MEGABYTE, NULL);

	/* Without a stream, weir does not know on which device work on the
	 * default stream would be. */
	if (stream(run, 0) != NULL)
		work_late(first, 1000, stream(run, 0));
	release(run, second);
	release(run, allocate_on(run, 1, 3 * MEGABYTE, WEIR_STREAM_ANY));
	if (TRY(run, weir_set_device(1))) {
		release(run, allocate_on(run, WEIR_DEVICE_CURRENT, 1000, NULL));
		TRY(run, weir_set_device(0));
	}
	release(run, first);
	TRY(run, weir_trim(WEIR_DEVICE_ALL, 0, NULL));
}

/* May device 1 use the memory at an address? */
static bool
is_open_to_peer(const void *ptr)
{
	CUmemLocation peer = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 };
	unsigned long long flags = 0;

	cuda_load();
	CU(cu.cuMemGetAccess(&flags, &peer, (CUdeviceptr)(uintptr_t)ptr));
	return flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
}

/* Memory of a device that another may use: mapped before it may, in two
 * handles, and after. A failed call gives no access, unless the driver refuses
 * to withdraw it too. */
static void
play_peers(struct run *run)
{
	void *first = allocate_on(run, 0, 3 * MEGABYTE, stream(run, 0));
	void *second = allocate_on(run, 0, 3 * MEGABYTE, stream(run, 0));
	bool was_open = first != NULL && is_open_to_peer(first);

	if (!TRY(run, weir_peer_access(0, 1)) && first != NULL &&
	    !run->fault.for_ever && run->fault.second == NULL)
		EXPECT_EQ(is_open_to_peer(first), was_open);
	release(run, allocate_on(run, 0, 30 * MEGABYTE, stream(run, 0)));
	release(run, first);
	release(run, second);
	TRY(run, weir_trim(WEIR_DEVICE_ALL, 0, NULL));
}

static void
play_collector(struct run *run)
{
	set_options(run, "garbage_collection_threshold:0.02");
	for (int i = 0; i < 4; i++)
		allocate(run, 30 * MEGABYTE, stream(run, i % 2));
	for (int i = 0; i < RUN_BLOCKS; i++)
		release(run, run->blocks[i]);
	pass_time();
	release(run, allocate(run, 50 * MEGABYTE, stream(run, 2)));
	set_options(run, "garbage_collection_threshold:0");
}

/* Memory decays, except for pinned pages. */
static void
play_decay(struct run *run)
{
	const uint64_t hour_ns = (uint64_t)3600 * 1000000000;
	void *blocks[3];

	set_options(run, "tcache:0,decay_ms:3600000");
	for (int i = 0; i < 3; i++)
		blocks[i] = allocate(run, 30 * MEGABYTE, stream(run, 0));
	bool pinned = blocks[1] != NULL && TRY(run, weir_pin(blocks[1]));
	for (int i = 0; i < 3; i++)
		release(run, blocks[i]);
	for (int round = 0; round < 2; round++) {
		pass_time();
		os_time_skip(2 * hour_ns);
		for (int i = 0; i < 64; i++)
			release(run, allocate(run, 512, stream(run, 0)));
	}
	if (pinned)
		TRY(run, weir_unpin(blocks[1]));
	set_options(run, "tcache:16,decay_ms:10000");
}

/* Free memory of a stream is moved together, twice, and the vacated addresses
 * are unmapped: by a request, and by a trim. */
static void
play_remap(struct run *run)
{
	void *blocks[6];

	set_options(run, "prefer:memory"); /* moves have no budget */
	for (int i = 0; i < 6; i++)
		blocks[i] = allocate(
		    run, (4 + 2 * (size_t)i) * MEGABYTE, stream(run, 0));
	for (int i = 0; i < 6; i += 2) {
		work_late(blocks[i], MEGABYTE, stream(run, 0));
		release(run, blocks[i]);
	}
	blocks[0] = allocate(run, 22 * MEGABYTE, stream(run, 0));
	work_late(blocks[0], MEGABYTE, stream(run, 0));
	release(run, blocks[0]);
	release(run, blocks[1]);
	blocks[0] = allocate(run, 27 * MEGABYTE, stream(run, 0));
	pass_time();
	release(run, blocks[3]);
	blocks[1] = allocate(run, 37 * MEGABYTE, stream(run, 0));
	EXPECT_SOME(run, stats().num_unmap_calls);
	EXPECT_SOME(run, stats().remapped_bytes / (40 * MEGABYTE));
	release(run, blocks[0]);
	TRY(run, weir_trim(0, 0, NULL));
	release(run, blocks[1]);
	release(run, blocks[5]);
	set_options(run, "prefer:balance");
}

/* Remap small pieces, some of them new, for a stream that has no memory. The
 * pieces belong to two other streams, one of which has to be waited for. */
static void
play_remap_others(struct run *run)
{
	void *blocks[6];

	set_options(run, "prefer:memory,handle_mb:2");
	TRY(run, weir_limit_set(0, 32 * MEGABYTE));
	for (int i = 0; i < 6; i++)
		blocks[i] =
		    allocate(run, 5 * MEGABYTE - 512, stream(run, i % 2));
	for (int i = 0; i < 6; i++) {
		if (i % 2 == 1)
			work_late(blocks[i], MEGABYTE, stream(run, 1));
		if (i != 2)
			release(run, blocks[i]);
	}
	blocks[0] = allocate(run, 23 * MEGABYTE, stream(run, 2));
	EXPECT_SOME(run, stats_of_stream(stream(run, 2)).num_gpu_waits);
	EXPECT_SOME(run, stats().remapped_bytes);
	work_late(blocks[0], MEGABYTE, stream(run, 2));
	release(run, blocks[0]);
	blocks[1] = allocate(run, 512, stream(run, 3));
	pass_time();
	release(run, allocate(run, 22 * MEGABYTE, stream(run, 0)));
	release(run, blocks[1]);
	release(run, blocks[2]);
	TRY(run, weir_limit_set(0, SIZE_MAX));
	set_options(run, "prefer:balance");
}

/* Pending memory is allocated behind waits, by its own stream and by another,
 * and on one that ends. */
static void
play_claims(struct run *run)
{
	void *block;

	set_options(run, "prefer:memory");
	release(run, used_elsewhere(run, 4 * MEGABYTE));
	block = allocate(run, 4 * MEGABYTE, stream(run, 0));
	EXPECT_SOME(run, stats_of_stream(stream(run, 0)).num_gpu_waits);
	release(run, used_elsewhere(run, 6 * MEGABYTE));
	release(run, allocate(run, 6 * MEGABYTE, stream(run, 2)));
	EXPECT_SOME(run, stats_of_stream(stream(run, 2)).num_gpu_waits);
	release(run, allocate(run, 3 * MEGABYTE, WEIR_STREAM_ANY));
	release(run, allocate(run, 3 * MEGABYTE, stream(run, 2)));
	release(run, used_elsewhere(run, 8 * MEGABYTE));
	end_stream(run, 0);
	release(run, allocate(run, 8 * MEGABYTE, stream(run, 2)));
	pass_time();
	release(run, allocate(run, 8 * MEGABYTE, stream(run, 2)));
	release(run, block);
	set_options(run, "prefer:balance");
}

/* Streams are fenced, followed from fence to fence, and found to have passed
 * them. */
static void
play_marks(struct run *run)
{
	void *blocks[8];

	set_options(run, "prefer:memory");
	for (int i = 0; i < 8; i++)
		blocks[i] =
		    allocate(run, 6 * MEGABYTE, stream(run, i < 6 ? 0 : 1));
	for (int i = 0; i < 8; i++) {
		work_late(blocks[i], 1000, stream(run, i < 6 ? 0 : 1));
		release(run, blocks[i]);
		release(run, allocate(run, 700, stream(run, 0)));
		blocks[i] = NULL;
		if (i % 2 == 1)
			blocks[i] = allocate(run, 7 * MEGABYTE, stream(run, 2));
	}
	EXPECT_SOME(run, stats_of_stream(stream(run, 2)).num_gpu_waits);
	pass_time();
	release(run, allocate(run, 9 * MEGABYTE, stream(run, 3)));
	for (int i = 0; i < 8; i++)
		release(run, blocks[i]);
	set_options(run, "prefer:balance");
}

/* Guarded blocks, of which one is overwritten nowhere: zones are written, read
 * and checked. */
static void
play_guard(struct run *run)
{
	void *blocks[2];

	set_options(run, "guard:64");
	blocks[0] = allocate(run, 1000, stream(run, 0));
	blocks[1] = allocate(run, 3 * MEGABYTE, WEIR_STREAM_ANY);
	work_late(blocks[0], 1000, stream(run, 0));
	release(run, blocks[0]);
	TRY(run, weir_trim(0, 0, NULL));
	release(run, blocks[1]);
	release(run, allocate(run, 1000, stream(run, 0)));
}

/* Copies that are waited for, between memory of all kinds. */
static void
play_copies(struct run *run)
{
	void *device = allocate(run, 3 * MEGABYTE, stream(run, 0));
	void *pinned = allocate_host(run, 3 * MEGABYTE, 0);

	work_late(device, 3 * MEGABYTE, stream(run, 0));
	if (device != NULL && pinned != NULL) {
		TRY(run, weir_copy(pinned, device, 4096, stream(run, 0)));
		TRY(run, weir_copy(device, pinned, 4096, stream(run, 0)));
	}
	release(run, device);
	release(run, pinned);
}

/* Page-locked memory of the current device, whichever that is. */
static void
play_host_of_current(struct run *run)
{
	TRY(run, weir_set_device(0));
	for (int i = 0; i < 3; i++)
		release(run, allocate_host_of_current(run, 1000));
	TRY(run, weir_set_device(1));
	release(run, allocate_host_of_current(run, 1000));
	TRY(run, weir_set_device(0));
	release(run, allocate_host_of_current(run, 1000));
}

struct thread {
	struct run *run;
	void *block;
};

/* Page-locked memory of every source, used by a stream, near its limit. */
static void
play_host(struct run *run)
{
	void *blocks[3];

	blocks[0] = allocate_host(run, 1000, 0);
	blocks[1] = allocate_host(run, 3 * MEGABYTE, 0);
	/* Without a record the freed memory may go back at once. */
	if (blocks[1] != NULL &&
	    TRY(run, weir_host_record(blocks[1], stream(run, 0))))
		work_late(blocks[1], 3 * MEGABYTE, stream(run, 0));
	release(run, blocks[1]);
	blocks[1] = allocate_host(run, 3 * MEGABYTE, 0);
	set_options(run, "pinned_limit_mb:14");
	blocks[2] = allocate_host(run, 5 * MEGABYTE, WEIR_HOST_WRITE_COMBINED);
	for (int i = 0; i < 3; i++)
		release(run, blocks[i]);
	TRY(run, weir_host_trim(0, 0, NULL));
	set_options(run, "pinned_limit_mb:unlimited");
}

static void
play_host_registered(struct run *run)
{
	static char memory[65536];
	void *small;
	void *large;

	set_options(run,
	    "pinned_source:system,"
	    "pinned_num_register_threads:2,pinned_idle_mb:2");
	small = allocate_host(run, 1000, 0);
	large = allocate_host(run, 9 * MEGABYTE, 0);
	release(run, small);
	release(run, large);
	bool registered =
	    TRY(run, weir_host_register(memory, sizeof(memory), 0));
	EXPECT(registered || !weir_host_is_pinned(memory));
	if (registered)
		while (!TRY(run, weir_host_unregister(memory)))
			;
	set_options(run, "pinned_source:handles,pinned_idle_mb:unlimited");
}

static void *
play_in_thread(void *argument)
{
	struct thread *thread = argument;
	struct run *run = thread->run;

	release(run, allocate(run, 3 * MEGABYTE, WEIR_STREAM_PER_THREAD));
	thread->block = allocate(run, 1000, WEIR_STREAM_PER_THREAD);
	work_late(thread->block, 1000, WEIR_STREAM_PER_THREAD);
	return NULL;
}

/* A thread ends, and its default stream with it. */
static void
play_thread_end(struct run *run)
{
	struct thread thread = { .run = run };
	pthread_t id;

	TRY(run, weir_set_device(0));
	EXPECT_EQ(pthread_create(&id, NULL, play_in_thread, &thread), 0);
	EXPECT_EQ(pthread_join(id, NULL), 0);
	release(run, allocate(run, 3 * MEGABYTE, stream(run, 0)));
	release(run, thread.block);
	pass_time();
	release(run, allocate(run, 3 * MEGABYTE, stream(run, 0)));
	release(run, allocate(run, 1000, stream(run, 0)));
}

/* A brief wait of the host, which finds nothing within its time. Two blocks
 * fill a driver segment. */
static void
play_brief_wait(struct run *run)
{
	void *first = allocate(run, MEGABYTE, WEIR_STREAM_ANY);
	void *second = allocate(run, MEGABYTE, WEIR_STREAM_ANY);

	release(run, used_elsewhere(run, MEGABYTE));
	release(run, allocate(run, MEGABYTE, WEIR_STREAM_ANY));
	release(run, first);
	release(run, second);
}

#define SCENARIOS(X)                                                           \
	X(first_use)                                                           \
	X(first_malloc)                                                        \
	X(growth)                                                              \
	X(driver_segments)                                                     \
	X(holes)                                                               \
	X(other_streams)                                                       \
	X(free_async)                                                          \
	X(stream_end)                                                          \
	X(foreign_stream)                                                      \
	X(trim)                                                                \
	X(shortage)                                                            \
	X(full_device)                                                         \
	X(any_stream)                                                          \
	X(old_driver)                                                          \
	X(streams)                                                             \
	X(events)                                                              \
	X(huge)                                                                \
	X(second_device)                                                       \
	X(peers)                                                               \
	X(collector)                                                           \
	X(decay)                                                               \
	X(remap)                                                               \
	X(remap_others)                                                        \
	X(claims)                                                              \
	X(marks)                                                               \
	X(host)                                                                \
	X(host_registered)                                                     \
	X(host_of_current)                                                     \
	X(guard)                                                               \
	X(copies)                                                              \
	X(thread_end)                                                          \
	X(brief_wait)

SCENARIOS(SCENARIO_TESTS)

TEST_TIMEOUT(each_driver_entry_is_reached_or_has_a_reason, 300)
{
	sweep_reach("fault_test");
}
