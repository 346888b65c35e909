/*
 * The tables by which threads find their caches.
 */
#include "allocator/cache/own.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/memory/lookup.h"
#include "base/meta.h"
#include "base/os.h"

/* A leaf in which no block starts. */
static struct leaf no_leaf;

char tcache_no_stream;

struct tcache tcache_nobody = {
	.last = &tcache_nobody.none,
	.last_host = &tcache_nobody.none,
	.nearby = { .leaf = &no_leaf },
	.nearby_host = { .leaf = &no_leaf },
	.nearby_fine = { .leaf = &no_leaf },
	.latest_host = { .cache = &tcache_nobody.none },
	.by_handle = { [0 ... TCACHE_WAYS - 1] = &tcache_nobody.none },
	.by_heap = { [0 ... TCACHE_WAYS - 1] = &tcache_nobody.none },
	.caches = { &tcache_nobody.caches, &tcache_nobody.caches },
	.awake = { &tcache_nobody.awake, &tcache_nobody.awake },
	.spare = { &tcache_nobody.spare, &tcache_nobody.spare },
	.none = { .key = NOBODY, .handle = NOBODY },
};
_Thread_local struct tcache *tcache_own = &tcache_nobody;
bool tcache_asymmetric; /* set before there is a cache */
char tcache_primary_keys[3];

static pthread_once_t once = PTHREAD_ONCE_INIT;

static int
membarrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

void
tcache_barrier(void)
{
	if (tcache_asymmetric)
		membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void
cache_open(struct cache *cache)
{
	lock_assert_held(&cache->arena->lock);
	ASSERT(tcache_is_alive(cache));
	if (cache->is_idle)
		return;
	atomic_store_explicit(&cache->key_pool,
	    cache->keeps && tcache_asymmetric && !cache->traced ?
		cache->pool[POOL_SMALL] :
		NULL,
	    memory_order_release);
	atomic_store_explicit(&cache->key, cache->usual, memory_order_release);
}

void
cache_close(struct cache *cache)
{
	lock_assert_held(&cache->arena->lock);
	ASSERT(cache->heap != NULL);
	atomic_store_explicit(&cache->key, NOBODY, memory_order_relaxed);
	atomic_store_explicit(&cache->key_pool, NULL, memory_order_relaxed);
	atomic_exchange(&cache->wanted, 1);
}

/* The caches of the thread that forked this process. Nothing reads this, so it
 * is volatile; a leak checker finds the caches by it. */
static struct tcache *volatile tcache_of_parent;

/* A forked child has no device memory and no caches. */
static void
forget_own(void)
{
	if (tcache_own != &tcache_nobody)
		tcache_of_parent = tcache_own;
	tcache_own = &tcache_nobody;
}

static void
prepare_process(void)
{
	pthread_atfork(NULL, NULL, forget_own);
	tcache_asymmetric =
	    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
}

void
tcache_prepare(void)
{
	pthread_once(&once, prepare_process);
}

struct tcache *
tcache_make_own(void)
{
	struct tcache *t;

	if (tcache_own != &tcache_nobody)
		return tcache_own;
	tcache_prepare();
	os_thread_id(); /* so that the thread's end is reported */
	t = meta_zalloc(sizeof(*t));
	if (t == NULL)
		return &tcache_nobody;
	atomic_init(&t->none.key, NOBODY);
	atomic_init(&t->none.handle, NOBODY);
	t->last = &t->none;
	t->last_host = &t->none;
	t->latest_host.cache = &t->none;
	t->nearby.leaf = &no_leaf;
	t->nearby_host.leaf = &no_leaf;
	t->nearby_fine.leaf = &no_leaf;
	list_init(&t->caches);
	list_init(&t->awake);
	list_init(&t->spare);
	for (unsigned i = 0; i < TCACHE_WAYS; i++) {
		t->by_handle[i] = &t->none;
		t->by_heap[i] = &t->none;
	}
	return t;
}
