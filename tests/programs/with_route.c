/*
 * A program that is linked with libweir routes the requests of its thread to a
 * pool, and asks weir and the driver for memory. Prints whose memory the pool
 * has.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir/graph.h>
#include <weir/weir.h>

#include "common/cuda.h"

enum { NON_BLOCKING = 1 };

static const size_t bytes = (size_t)3 << 20;

static void
right(enum weir_status status)
{
	if (status == WEIR_OK)
		return;
	fprintf(stderr, "%s\n", weir_last_error());
	exit(1);
}

static bool
only_these_live(struct weir_pool *pool, const void *const *blocks, size_t n)
{
	bool equal = false;

	right(weir_pool_check_live(pool, blocks, n, &equal));
	return equal;
}

/* Does the pool have weir's two blocks alone while the program asks the driver
 * for memory too? */
static bool
has_own_alone(const struct cuda *cuda, unsigned flags)
{
	const void *blocks[2];
	struct weir_route *route;
	struct weir_pool *pool;
	address plain;
	address ordered;
	stream on;

	MUST(cuda->stream_create(&on, NON_BLOCKING, 0));
	right(weir_pool_create(0, NULL, flags, &pool));
	right(weir_route_thread(pool, &route));
	blocks[0] = weir_malloc(bytes, (weir_stream)on);
	blocks[1] = weir_malloc(100, NULL);
	MUST(cuda->mem_alloc(&plain, bytes));
	MUST(cuda->mem_alloc_async(&ordered, bytes, on));
	bool alone = only_these_live(pool, blocks, 2);
	weir_route_end(route);
	MUST(cuda->mem_free_async(ordered, on));
	MUST(cuda->mem_free(plain));
	weir_pool_release(pool);
	return alone;
}

int
main(void)
{
	struct cuda cuda;

	cuda_by_dlsym(&cuda);
	cuda_start(&cuda);
	printf("weir's requests alone: %s\n",
	    has_own_alone(&cuda, 0) ? "yes" : "no");
	printf("in a pool that serves the driver: %s\n",
	    has_own_alone(&cuda, WEIR_POOL_SERVES_DRIVER) ? "yes" : "no");
	return 0;
}
