/*
 * <weir/graph.h>: private pools. A pool is a number and a hold on an arena. A
 * pool without holders stays in the registry while its arena has memory, so
 * that weir_pool_find() still finds it.
 */
#include "graphs/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/allocator.h"
#include "allocator/api/stats.h"
#include "allocator/lifecycle.h"
#include "allocator/memory/arena.h"
#include "allocator/memory/block.h"
#include "allocator/memory/keep.h"
#include "allocator/memory/source.h"
#include "allocator/private/arenas.h"
#include "allocator/request/reclaim.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "graphs/suspend.h"

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_POOLS);
/* All pools, by id. Set up by the first one. */
static struct tree pools GUARDED_BY(lock);
/* Those without holders. */
static struct list unheld GUARDED_BY(lock) = { &unheld, &unheld };
static uint64_t last_id GUARDED_BY(lock);

/* ---- The registry ------------------------------------------------------ */

/* Delete pools without holders whose arena is out of use. */
static void
prune(void) HOLDS(lock)
{
	struct list *next;

	for (struct list *l = unheld.next; l != &unheld; l = next) {
		struct weir_pool *pool =
		    CONTAINER_OF(l, struct weir_pool, unheld);
		next = l->next;
		ASSERT(pool->refs == 0);
		if (arena_lives(pool->arena, pool->generation))
			continue;
		list_remove(&pool->unheld);
		tree_remove(&pools, &pool->node);
		meta_free(pool, sizeof(*pool));
	}
}

static void
register_pool(struct weir_pool *pool, struct arena *arena)
{
	pool->arena = arena;
	pool->generation = arena->private.generation;
	pool->refs = 1;
	list_init(&pool->unheld);
	lock_enter(&lock);
	prune();
	if (pools.count == 0)
		tree_init(&pools, TREE_KEY(struct weir_pool, node, id, id));
	pool->id = ++last_id;
	tree_insert(&pools, &pool->node);
	lock_leave(&lock);
}

enum weir_status
pool_adopt(struct arena *arena, struct weir_pool **out)
{
	struct weir_pool *pool = meta_zalloc(sizeof(*pool));
	if (pool == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for a pool");
	register_pool(pool, arena);
	*out = pool;
	return WEIR_OK;
}

void
pool_hold(struct weir_pool *pool)
{
	lock_enter(&lock);
	pool->refs++;
	lock_leave(&lock);
}

/* ---- Making and holding ------------------------------------------------ */

static enum weir_status
source_take(void *closure, int device, size_t size, CUdeviceptr *out)
{
	const struct weir_pool_source *source =
	    &((struct weir_pool *)closure)->source;
	void *ptr = source->take(source->closure, device, size);

	if (ptr == NULL)
		return status_set(WEIR_ENOMEM,
		    "%s(%zu bytes, device %d): it gave no memory", source->name,
		    size, device);
	*out = (CUdeviceptr)(uintptr_t)ptr;
	return WEIR_OK;
}

static bool
source_give(void *closure, int device, CUdeviceptr addr, size_t size)
{
	const struct weir_pool_source *source =
	    &((struct weir_pool *)closure)->source;

	return source->give(
	    source->closure, device, (void *)(uintptr_t)addr, size);
}

static unsigned
arena_flags_of(unsigned flags)
{
	return ((flags & WEIR_POOL_USE_ON_OOM) != 0 ? ARENA_SERVES_OOM : 0) |
	    ((flags & WEIR_POOL_NO_SPLIT) != 0 ? ARENA_NO_SPLIT : 0);
}

static enum weir_status
check_create(const struct weir_pool_source *source, unsigned flags)
{
	if ((flags &
		~(unsigned)(WEIR_POOL_USE_ON_OOM | WEIR_POOL_NO_SPLIT |
		    WEIR_POOL_KEEP | WEIR_POOL_SEGMENTS |
		    WEIR_POOL_REGISTRABLE | WEIR_POOL_SERVES_DRIVER)) != 0)
		return status_set(
		    WEIR_EINVAL, "weir_pool_create: unknown flags %#x", flags);
	if (source != NULL &&
	    (source->struct_size < sizeof(*source) || source->name == NULL ||
		source->take == NULL || source->give == NULL))
		return status_set(WEIR_EINVAL,
		    "weir_pool_create: the source has no struct_size, name or "
		    "functions");
	if (source != NULL && (flags & WEIR_POOL_REGISTRABLE) != 0)
		return status_set(WEIR_EINVAL,
		    "weir_pool_create: a pool of WEIR_POOL_REGISTRABLE has no "
		    "source of its own (%s)",
		    source->name);
	if ((flags & WEIR_POOL_SEGMENTS) != 0 &&
	    (flags & WEIR_POOL_REGISTRABLE) != 0)
		return status_set(WEIR_EINVAL,
		    "weir_pool_create: memory is either registrable or in "
		    "segments of the driver (flags %#x)",
		    flags);
	return WEIR_OK;
}

enum weir_status
weir_pool_create(int device, const struct weir_pool_source *source,
    unsigned flags, struct weir_pool **out)
{
	if (os_forked())
		return status_forked("weir_pool_create");
	struct arena *main;
	struct arena *arena;
	enum weir_status status = check_create(source, flags);
	if (status == WEIR_OK && out == NULL)
		status =
		    status_set(WEIR_EINVAL, "weir_pool_create: out is NULL");
	if (status == WEIR_OK)
		status = device_resolve(device, &device);
	if (status == WEIR_OK && (flags & WEIR_POOL_REGISTRABLE) != 0)
		status = registrable_check(device);
	if (status != WEIR_OK)
		return status;
	struct weir_pool *pool = meta_zalloc(sizeof(*pool));
	if (pool == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for a pool");
	pool->serves_driver = (flags & WEIR_POOL_SERVES_DRIVER) != 0;
	struct source own = { .traits = &traits_segments,
		.take = source_take,
		.give = source_give,
		.closure = pool };
	const struct source *given =
	    (flags & WEIR_POOL_SEGMENTS) != 0 ? &source_driver : NULL;
	if (source != NULL) {
		pool->source = *source;
		own.name = source->name;
		given = &own;
	}
	if ((flags & WEIR_POOL_REGISTRABLE) != 0)
		given = &source_registrable;
	status = arena_get(device, &main);
	if (status == WEIR_OK)
		status = arena_make(main, given, arena_flags_of(flags), &arena);
	if (status != WEIR_OK) {
		meta_free(pool, sizeof(*pool));
		return status;
	}
	if ((flags & WEIR_POOL_KEEP) != 0) {
		arena_keep(arena);
		pool->kept = true;
	}
	register_pool(pool, arena);
	*out = pool;
	return WEIR_OK;
}

enum weir_status
weir_pool_acquire(struct weir_pool *pool)
{
	if (os_forked())
		return status_forked("weir_pool_acquire");
	if (pool == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_pool_acquire: the pool is NULL");
	pool_hold(pool);
	return WEIR_OK;
}

void
weir_pool_release(struct weir_pool *pool)
{
	if (pool == NULL || os_forked())
		return;
	lock_enter(&lock);
	bool last = --pool->refs == 0;
	bool kept = last && pool->kept;
	struct arena *arena = pool->arena;
	if (last) {
		pool->kept = false;
		list_push_back(&unheld, &pool->unheld);
	}
	lock_leave(&lock);
	if (!last)
		return;
	if (kept)
		arena_unkeep_later(arena);
	arena_drop(arena);
	lock_enter(&lock);
	prune();
	lock_leave(&lock);
}

enum weir_status
weir_pool_flags_set(struct weir_pool *pool, unsigned mask, unsigned flags)
{
	if (os_forked())
		return status_forked("weir_pool_flags_set");
	const unsigned all =
	    WEIR_POOL_USE_ON_OOM | WEIR_POOL_NO_SPLIT | WEIR_POOL_KEEP;
	if (pool == NULL || (mask & ~all) != 0)
		return status_set(WEIR_EINVAL,
		    "weir_pool_flags_set: %s, mask %#x",
		    pool == NULL ? "the pool is NULL" : "unknown flags", mask);
	unsigned clear = arena_flags_of(mask & ~flags);
	unsigned set = arena_flags_of(mask & flags);
	bool keep = (mask & flags & WEIR_POOL_KEEP) != 0;

	lock_enter(&pool->arena->lock);
	arena_change_flags(pool->arena, clear, set);
	lock_leave(&pool->arena->lock);
	if ((mask & WEIR_POOL_KEEP) == 0)
		return WEIR_OK;
	lock_enter(&lock);
	bool changed = pool->kept != keep;
	pool->kept = keep;
	lock_leave(&lock);
	if (changed && keep)
		arena_keep(pool->arena);
	else if (changed)
		arena_unkeep_later(pool->arena);
	return WEIR_OK;
}

void
weir_pool_segment_id(const struct weir_pool *pool, uint64_t id[2])
{
	if (id == NULL)
		return;
	id[0] = pool != NULL ? pool->arena->memory.pool.graph : 0;
	id[1] = pool != NULL ? pool->arena->memory.pool.user : 0;
}

uint64_t
weir_pool_id(const struct weir_pool *pool)
{
	return pool != NULL ? pool->id : 0;
}

/* ---- Names ------------------------------------------------------------- */

bool
pool_is_name(const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length >= WEIR_POOL_NAME_SIZE ||
	    (name[0] >= '0' && name[0] <= '9') ||
	    strncmp(name, "pool:", 5) == 0)
		return false;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f ||
		    name[i] == ',' || name[i] == ';')
			return false;
	return true;
}

enum weir_status
weir_pool_name_set(struct weir_pool *pool, const char *name)
{
	if (os_forked())
		return status_forked("weir_pool_name_set");
	if (pool == NULL)
		return status_set(
		    WEIR_EINVAL, "weir_pool_name_set: the pool is NULL");
	if (name == NULL)
		name = "";
	if (*name != '\0' && !pool_is_name(name))
		return status_set(WEIR_EINVAL,
		    "weir_pool_name_set: '%.80s' is no name: at most %d bytes, "
		    "not beginning with a digit or \"pool:\", without comma, "
		    "semicolon and control characters",
		    name, WEIR_POOL_NAME_SIZE - 1);
	lock_enter(&lock);
	snprintf(pool->name, sizeof(pool->name), "%s", name);
	lock_leave(&lock);
	return WEIR_OK;
}

void
weir_pool_name(const struct weir_pool *pool, char name[WEIR_POOL_NAME_SIZE])
{
	if (name == NULL)
		return;
	name[0] = '\0';
	if (pool == NULL || os_forked())
		return;
	lock_enter(&lock);
	memcpy(name, pool->name, WEIR_POOL_NAME_SIZE);
	lock_leave(&lock);
}

size_t
pool_arenas_named(const char *name, struct arena **out, size_t most)
{
	size_t n = 0;

	lock_enter(&lock);
	struct tree_node *node = pools.count > 0 ? tree_first(&pools) : NULL;
	for (; node != NULL; node = tree_next(node)) {
		const struct weir_pool *pool =
		    CONTAINER_OF(node, struct weir_pool, node);
		if (strcmp(pool->name, name) != 0 ||
		    !arena_lives(pool->arena, pool->generation))
			continue;
		if (n < most)
			out[n] = pool->arena;
		n++;
	}
	lock_leave(&lock);
	return n;
}

/* ---- Finding ----------------------------------------------------------- */

/* Hold the pool of a number; NULL: there is none, or nothing of it is left. */
static struct weir_pool *
hold_found(uint64_t id) HOLDS(lock)
{
	const struct weir_pool key = { .id = id };
	struct tree_node *node =
	    pools.count > 0 ? tree_lower_bound(&pools, &key.node) : NULL;
	struct weir_pool *pool =
	    node != NULL ? CONTAINER_OF(node, struct weir_pool, node) : NULL;

	if (pool == NULL || pool->id != id)
		return NULL;
	if (pool->refs == 0) {
		if (!arena_revive(pool->arena, pool->generation))
			return NULL;
		list_remove(&pool->unheld);
	}
	pool->refs++;
	return pool;
}

enum weir_status
weir_pool_find(uint64_t id, struct weir_pool **out)
{
	if (os_forked())
		return status_forked("weir_pool_find");
	if (out == NULL)
		return status_set(WEIR_EINVAL, "weir_pool_find: out is NULL");
	lock_enter(&lock);
	struct weir_pool *found = hold_found(id);
	lock_leave(&lock);
	if (found == NULL)
		return status_set(WEIR_EINVAL,
		    "weir_pool_find(%llu): there is no such pool, or nothing "
		    "of it is left",
		    (unsigned long long)id);
	*out = found;
	return WEIR_OK;
}

size_t
weir_pool_use_count(const struct weir_pool *pool)
{
	if (pool == NULL || os_forked())
		return 0;
	lock_enter(&lock);
	size_t refs = pool->refs;
	lock_leave(&lock);
	return refs;
}

/* ---- Using ------------------------------------------------------------- */

static enum weir_status
check_pool(const struct weir_pool *pool, const char *call)
{
	if (pool == NULL)
		return status_set(WEIR_EINVAL, "%s: the pool is NULL", call);
	if (os_forked())
		return status_forked(call);
	return WEIR_OK;
}

void *
weir_pool_malloc(struct weir_pool *pool, size_t size, weir_stream stream)
{
	void *ptr = NULL;

	if (check_pool(pool, "weir_pool_malloc") != WEIR_OK ||
	    allocator_malloc_in(pool->arena, size, stream, &ptr) != WEIR_OK)
		return NULL;
	return ptr;
}

enum weir_status
weir_pool_stats(struct weir_pool *pool, struct weir_stats *out)
{
	enum weir_status status = check_pool(pool, "weir_pool_stats");
	if (status != WEIR_OK)
		return status;
	return arena_stats(pool->arena, out);
}

enum weir_status
weir_pool_trim(struct weir_pool *pool, size_t keep_bytes, size_t *freed_bytes)
{
	enum weir_status status = check_pool(pool, "weir_pool_trim");
	if (status != WEIR_OK)
		return status;
	size_t freed = reclaim_trim(pool->arena, &keep_bytes);
	if (freed_bytes != NULL)
		*freed_bytes = freed;
	return WEIR_OK;
}

/* ---- Suspending -------------------------------------------------------- */

enum weir_status
weir_pool_suspend(struct weir_pool *pool, bool copy, size_t *freed_bytes)
{
	size_t freed = 0;
	enum weir_status status = check_pool(pool, "weir_pool_suspend");
	if (status == WEIR_OK)
		status = arena_suspend(pool->arena, copy, &freed);
	if (status == WEIR_OK && freed_bytes != NULL)
		*freed_bytes = freed;
	return status;
}

enum weir_status
weir_pool_resume(struct weir_pool *pool)
{
	enum weir_status status = check_pool(pool, "weir_pool_resume");

	return status == WEIR_OK ? arena_resume(pool->arena) : status;
}

/* ---- Live blocks ------------------------------------------------------- */

static int
compare_addresses(const void *a, const void *b)
{
	CUdeviceptr x = *(const CUdeviceptr *)a;
	CUdeviceptr y = *(const CUdeviceptr *)b;

	return (x > y) - (x < y);
}

/* Are the n sorted addresses those of the arena's live blocks? Under the
 * lock. */
static bool
are_live(const struct arena *arena, const CUdeviceptr *sorted, size_t n)
{
	size_t live = 0;

	for (struct list *l = arena->memory.segments.next;
	     l != &arena->memory.segments; l = l->next) {
		struct segment *segment = CONTAINER_OF(l, struct segment, link);
		for (struct block *b = segment->first; b != NULL; b = b->next) {
			if (block_state(b) != BLOCK_ACTIVE)
				continue;
			live++;
			if (n == 0 ||
			    bsearch(&b->addr, sorted, n, sizeof(*sorted),
				compare_addresses) == NULL)
				return false;
		}
	}
	return live == n;
}

enum weir_status
weir_pool_check_live(
    struct weir_pool *pool, const void *const *ptrs, size_t n, bool *equal)
{
	CUdeviceptr *sorted = NULL;
	enum weir_status status = check_pool(pool, "weir_pool_check_live");
	if (status != WEIR_OK)
		return status;
	if (equal == NULL || (n > 0 && ptrs == NULL))
		return status_set(
		    WEIR_EINVAL, "weir_pool_check_live: ptrs or equal is NULL");
	if (n > SIZE_MAX / sizeof(*sorted) ||
	    (n > 0 && (sorted = meta_alloc(n * sizeof(*sorted))) == NULL))
		return status_set(WEIR_EHOSTMEM,
		    "weir_pool_check_live: no host memory for %zu addresses",
		    n);
	for (size_t i = 0; i < n; i++)
		sorted[i] = (CUdeviceptr)(uintptr_t)ptrs[i];
	if (n > 0)
		qsort(sorted, n, sizeof(*sorted), compare_addresses);
	lock_enter(&pool->arena->lock);
	*equal = are_live(pool->arena, sorted, n);
	lock_leave(&pool->arena->lock);
	if (n > 0)
		meta_free(sorted, n * sizeof(*sorted));
	return WEIR_OK;
}
