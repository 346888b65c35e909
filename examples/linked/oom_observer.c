/*
 * Get a call for each failure for want of memory, free memory, and try again.
 *
 *	cc -o oom_observer oom_observer.c $(pkg-config --cflags --libs weir)
 *
 * The program keeps results that it could compute again. When a request fails,
 * weir calls the observer with the numbers and the report, on the requesting
 * thread. No lock of weir is held, so the observer may free memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <weir/trace.h>
#include <weir/weir.h>

enum { MIB = 1 << 20, RESULTS = 12 };

struct cache {
	void *results[RESULTS];
	int n;
};

static void
drop_results(const struct weir_oom *oom, void *user)
{
	struct cache *cache = user;

	printf("asked for %zu MiB, limit %zu MiB, in use %zu MiB: "
	       "dropping %d results\n",
	    oom->requested_bytes / MIB, oom->limit_bytes / MIB,
	    oom->allocated_bytes / MIB, cache->n);
	while (cache->n > 0)
		weir_free(cache->results[--cache->n]);
}

static void *
allocate(size_t size)
{
	void *block = weir_malloc(size, NULL);

	/* By now the observer has freed results, if there were any. */
	if (block == NULL && weir_last_status() == WEIR_ENOMEM)
		block = weir_malloc(size, NULL);
	return block;
}

int
main(void)
{
	struct cache cache = { .n = 0 };
	void *block;

	if (weir_limit_set(WEIR_DEVICE_CURRENT, 64 * MIB) != WEIR_OK ||
	    weir_oom_observer_add(drop_results, &cache) != WEIR_OK) {
		fprintf(stderr, "%s\n", weir_last_error());
		return 1;
	}
	while (cache.n < RESULTS) {
		cache.results[cache.n] = weir_malloc(4 * MIB, NULL);
		if (cache.results[cache.n] == NULL) {
			fprintf(stderr, "%s\n", weir_last_error());
			return 1;
		}
		cache.n++;
	}
	block = allocate(40 * MIB);
	printf("the second try: %s\n", block != NULL ? "served" : "failed");
	if (block == NULL) {
		fprintf(stderr, "%s\n", weir_last_error());
		return 1;
	}
	weir_free(block);

	/* More memory than the device has: the report names a remedy. */
	block = allocate((size_t)80 * MIB);
	printf(
	    "more than the limit: %s\n", weir_status_text(weir_last_status()));
	weir_free(block);
	weir_oom_observer_remove(drop_results, &cache);
	return 0;
}
