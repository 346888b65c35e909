/*
 * The bytes are a program of calls of <weir/host.h>. Blocks are writable and
 * keep their contents until they are freed, and in the end no block is live.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/host.h>
#include <weir/stream.h>

#include "tests/fuzz/fuzz.h"

enum { BLOCKS = 32 };

static struct {
	unsigned char *at;
	size_t size;
	unsigned char mark;
} blocks[BLOCKS];

static void
allocate(struct fuzz_steps *steps, int n)
{
	size_t size = (size_t)fuzz_number(steps, 2)
	    << (fuzz_byte(steps) % 3) * 3;
	unsigned flags = fuzz_byte(steps);

	blocks[n].at = flags < 128 ?
	    weir_host_malloc(size) :
	    weir_host_malloc_on(0, size, (flags & 15) >> 1);
	if (blocks[n].at == NULL) {
		fuzz_expect(weir_last_status() != WEIR_OK, "no status");
		return;
	}
	fuzz_expect(weir_host_is_pinned(blocks[n].at), "it is not pinned");
	blocks[n].size = size;
	blocks[n].mark = (unsigned char)fuzz_byte(steps);
	blocks[n].at[0] = blocks[n].mark;
	blocks[n].at[size - 1] = blocks[n].mark;
}

static void
release(int n)
{
	fuzz_expect(blocks[n].at[0] == blocks[n].mark &&
		blocks[n].at[blocks[n].size - 1] == blocks[n].mark,
	    "what was written is gone");
	fuzz_expect(weir_host_free(blocks[n].at) == WEIR_OK, "weir_host_free");
	blocks[n].at = NULL;
}

static void
step(struct fuzz_steps *steps)
{
	static const char *const confs[] = { "tcache:0", "tcache:64",
		"pinned_use_cuda_host_register:True",
		"pinned_use_cuda_host_register:False", "pinned_limit_mb:8",
		"pinned_limit_mb:unlimited", "pinned_idle_mb:1",
		"pinned_idle_mb:unlimited", "pinned_source:handles",
		"pinned_source:system", "pinned_source:driver", "prefer:memory",
		"prefer:balance" };
	enum { CONFS = sizeof(confs) / sizeof(*confs) };
	unsigned what = fuzz_byte(steps) % 8;
	int n = (int)(fuzz_byte(steps) % BLOCKS);

	if (what < 6 && blocks[n].at == NULL)
		allocate(steps, n);
	else if (what < 5)
		release(n);
	else if (what == 5)
		weir_host_record(blocks[n].at, NULL);
	else if (what == 6)
		weir_options_set(confs[n % CONFS]);
	else if (fuzz_byte(steps) & 1)
		weir_host_trim(WEIR_DEVICE_CURRENT, 0, NULL);
	else
		fuzz_expect(
		    weir_host_free((char *)&n + 1) != WEIR_OK, "a wrong free");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_steps steps = { data, data + size };
	struct weir_stats stats = { .struct_size = sizeof(stats) };

	fuzz_device();
	weir_options_set("tcache:64,pinned_use_cuda_host_register:False,"
			 "pinned_limit_mb:unlimited,pinned_idle_mb:unlimited,"
			 "pinned_source:handles,prefer:balance");
	while (fuzz_more(&steps))
		step(&steps);
	for (int n = 0; n < BLOCKS; n++)
		if (blocks[n].at != NULL)
			release(n);
	fuzz_expect(weir_host_stats(0, &stats) == WEIR_OK &&
		stats.allocation.all.current == 0,
	    "a block is live");
	fuzz_expect_healthy();
	weir_device_synchronize(0);
	weir_host_trim(WEIR_DEVICE_CURRENT, 0, NULL);
	return 0;
}
