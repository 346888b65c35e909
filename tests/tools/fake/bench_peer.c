/*
 * A peer for weir-bench that is a library: it returns one address, and fails
 * for sizes above a MiB.
 */
#include "tools/bench/peer.h"

#include <stddef.h>

static void *
fake_malloc(size_t size, weir_stream stream)
{
	static char block;

	(void)stream;
	return size > (size_t)1 << 20 ? NULL : &block;
}

static void
fake_free(void *block, weir_stream stream)
{
	(void)block;
	(void)stream;
}

static const char *
fake_error(void)
{
	return "a fake has no more than a MiB";
}

extern const struct peer weir_bench_peer;

__attribute__((visibility("default"))) const struct peer weir_bench_peer = {
	.name = "fake",
	.what = "for tests",
	.kind = PEER_CACHING,
	.malloc = fake_malloc,
	.free = fake_free,
	.error = fake_error,
};
