/*
 * The bytes are a program of calls of <weir/weir.h> and <weir/stream.h>, with
 * right and wrong arguments. Live blocks never overlap, a failed call changes
 * no statistic of memory, and in the end weir_check() finds no fault and no
 * block is live.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/stream.h>

#include "tests/fuzz/fuzz.h"

enum { BLOCKS = 48, STREAMS = 4 };

static struct {
	char *at;
	size_t size;
} blocks[BLOCKS];
static weir_stream streams[STREAMS];

static weir_stream
stream_of(unsigned n)
{
	switch (n % (STREAMS + 3)) {
	case 0:
		return NULL;
	case 1:
		return WEIR_STREAM_PER_THREAD;
	case 2:
		return WEIR_STREAM_ANY;
	default:
		return streams[n % (STREAMS + 3) - 3];
	}
}

static void
expect_apart(int n)
{
	for (int i = 0; i < BLOCKS; i++)
		if (i != n && blocks[i].at != NULL)
			fuzz_expect(
			    blocks[i].at + blocks[i].size <= blocks[n].at ||
				blocks[n].at + blocks[n].size <= blocks[i].at,
			    "two live blocks overlap");
}

static uint64_t
live(void)
{
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	fuzz_expect(weir_stats(0, &stats) == WEIR_OK, "weir_stats");
	return stats.allocation.all.current;
}

static void
allocate(struct fuzz_steps *steps)
{
	static const unsigned shifts[] = { 0, 4, 9, 12, 16, 18, 20, 40 };
	int n = (int)(fuzz_byte(steps) % BLOCKS);
	unsigned on = fuzz_byte(steps);
	size_t size = (size_t)fuzz_number(steps, 2)
	    << shifts[fuzz_byte(steps) % 8];
	void *ptr;

	if (blocks[n].at != NULL)
		return;
	ptr = weir_malloc(size, stream_of(on));
	if (ptr == NULL) {
		fuzz_expect(weir_last_status() != WEIR_OK, "no status");
		return;
	}
	fuzz_expect(size > 0, "a block of no bytes");
	blocks[n].at = ptr;
	blocks[n].size = size;
	expect_apart(n);
}

static void
release(struct fuzz_steps *steps)
{
	int n = (int)(fuzz_byte(steps) % BLOCKS);
	unsigned how = fuzz_byte(steps);
	enum weir_status status;

	if (blocks[n].at == NULL)
		return;
	status = how % 3 == 0 ?
	    weir_free_async(blocks[n].at, stream_of(how / 3)) :
	    weir_free(blocks[n].at);
	if (status == WEIR_OK)
		blocks[n].at = NULL;
	else
		fuzz_expect(how % 3 == 0, "weir_free");
}

/* Addresses at which no live block starts. */
static void
misuse(struct fuzz_steps *steps)
{
	int n = (int)(fuzz_byte(steps) % BLOCKS);
	uint64_t before = live();
	char *ptr = blocks[n].at != NULL ?
	    blocks[n].at + 1 :
	    (char *)(uintptr_t)fuzz_number(steps, 6);

	for (int i = 0; i < BLOCKS; i++)
		if (blocks[i].at == ptr)
			return;
	if (ptr != NULL)
		fuzz_expect(weir_free(ptr) != WEIR_OK, "a wrong free");
	weir_record_stream(ptr, NULL);
	weir_record_use(ptr, NULL);
	fuzz_expect(live() == before, "a wrong free has freed");
}

static void
use(struct fuzz_steps *steps)
{
	int n = (int)(fuzz_byte(steps) % BLOCKS);
	unsigned past = fuzz_byte(steps) % 2;

	if (blocks[n].at == NULL)
		return;
	if (past)
		weir_record_use(blocks[n].at, stream_of(fuzz_byte(steps)));
	else
		weir_record_stream(blocks[n].at, stream_of(fuzz_byte(steps)));
}

static void
order(struct fuzz_steps *steps)
{
	unsigned a = fuzz_byte(steps);
	unsigned b = fuzz_byte(steps);

	if (a % 5 == 0)
		weir_stream_synchronize(stream_of(b));
	else
		weir_stream_wait_stream(stream_of(a), stream_of(b));
}

static void
change(struct fuzz_steps *steps)
{
	static const char *const confs[] = { "tcache:0", "tcache:64",
		"handle_mb:4", "handle_mb:64", "prefer:memory",
		"prefer:balance", "prefer:speed", "handle_mb:2", "handle_mb:32",
		"expandable_segments:False", "expandable_segments:True",
		"memory_limit_mb:64", "memory_limit_mb:unlimited",
		"roundup_power2_divisions:4", "roundup_power2_divisions:0",
		"max_split_size_mb:20", "max_split_size_mb:unlimited" };

	weir_options_set(
	    confs[fuzz_byte(steps) % (sizeof(confs) / sizeof(confs[0]))]);
}

static void
begin(void)
{
	fuzz_device();
	weir_options_set("tcache:64,prefer:balance,handle_mb:32,"
			 "expandable_segments:True,memory_limit_mb:unlimited,"
			 "roundup_power2_divisions:0,"
			 "max_split_size_mb:unlimited");
	for (int i = 0; i < STREAMS; i++)
		fuzz_expect(weir_stream_create(
				WEIR_DEVICE_CURRENT, 0, &streams[i]) == WEIR_OK,
		    "weir_stream_create");
}

static void
finish(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		if (blocks[i].at != NULL)
			fuzz_expect(
			    weir_free(blocks[i].at) == WEIR_OK, "weir_free");
		blocks[i].at = NULL;
	}
	fuzz_expect(live() == 0, "a block is live");
	fuzz_expect_healthy();
	for (int i = 0; i < STREAMS; i++)
		fuzz_expect(
		    weir_stream_destroy(streams[i]) == WEIR_OK, "destroy");
	fuzz_expect(weir_device_synchronize(0) == WEIR_OK, "synchronize");
	fuzz_expect(weir_trim(0, 0, NULL) == WEIR_OK, "weir_trim");
	fuzz_expect_healthy();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };

	begin();
	while (fuzz_more(&steps)) {
		unsigned what = fuzz_byte(&steps) % 16;

		if (what < 7)
			allocate(&steps);
		else if (what < 11)
			release(&steps);
		else if (what == 11)
			misuse(&steps);
		else if (what == 12)
			use(&steps);
		else if (what == 13)
			order(&steps);
		else if (what == 14)
			change(&steps);
		else
			weir_trim(0, (size_t)fuzz_byte(&steps) << 20, NULL);
	}
	finish();
	return 0;
}
