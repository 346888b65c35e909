/*
 * Magazines, bins and depots: depot.h.
 */
#include "allocator/magazines/depot.h"

#include "base/assert.h"
#include "base/meta.h"
#include "base/os.h"

/* ---- Magazines and bins ------------------------------------------------ */

static size_t
magazine_size(size_t n)
{
	ASSERT(n > 0 && n <= TCACHE_CLASSES);
	return sizeof(struct magazine) +
	    magazine_max(n) * sizeof(struct block *);
}

static struct magazine *
magazine_new(size_t n)
{
	struct magazine *magazine = meta_alloc(magazine_size(n));

	ASSERT(n > 0 && n <= TCACHE_CLASSES);
	if (magazine != NULL)
		*magazine = (struct magazine){ .n = (unsigned)n };
	return magazine;
}

void
magazine_delete(struct magazine *magazine)
{
	if (magazine != NULL)
		meta_free(magazine, magazine_size(magazine->n));
}

bool
bin_make(struct bin *bin, size_t n)
{
	ASSERT(n > 0 && n <= TCACHE_CLASSES);
	if (bin->bottom != NULL)
		return true;
	struct magazine *first = magazine_new(n);
	bin->second = magazine_new(n);
	if (first == NULL || bin->second == NULL) {
		magazine_delete(first);
		magazine_delete(bin->second);
		bin->second = NULL;
		return false;
	}
	bin_change(bin, first);
	return true;
}

void
bin_delete(struct bin *bin)
{
	if (bin->bottom == NULL)
		return;
	magazine_delete(bin_first(bin));
	magazine_delete(bin->second);
	*bin = (struct bin){ 0 };
}

/* ---- Depots ------------------------------------------------------------ */

struct depot *
depot_new(void)
{
	struct depot *depot = meta_zalloc(sizeof(*depot));

	if (depot != NULL)
		lock_init(&depot->lock, LOCK_RANK_DEPOT);
	return depot;
}

void
depot_delete(struct depot *depot)
{
	ASSERT(depot == NULL || depot->bytes == 0);
	if (depot == NULL)
		return;
	for (size_t n = 1; n <= TCACHE_CLASSES; n++) {
		struct shelf *shelf = &depot->shelves[n];
		while (shelf->empty != NULL) {
			struct magazine *magazine = shelf->empty;
			shelf->empty = magazine->next;
			magazine_delete(magazine);
		}
	}
	lock_destroy(&depot->lock);
	meta_free(depot, sizeof(*depot));
}

static void
depot_enter(struct depot *depot, const struct cache *user) ENTERS(depot->lock)
{
	lock_enter(&depot->lock);
	if (depot->user != user) {
		depot->shared |= depot->user != NULL;
		depot->user = user;
	}
}

/* Remove the first full magazine of a class, which must exist. */
static struct magazine *
remove_full(struct depot *depot, size_t n) HOLDS(depot->lock)
{
	struct shelf *shelf = &depot->shelves[n];
	struct magazine *magazine = shelf->full;

	ASSERT(magazine != NULL && shelf->count > 0);
	ASSERT(n > 0);
	shelf->full = magazine->next;
	if (--shelf->count < shelf->idle)
		shelf->idle = shelf->count;
	depot->bytes -= magazine->count * class_bytes(n);
	return magazine;
}

enum depot_taken
depot_take(struct depot *depot, const struct cache *user, struct bin *bin,
    size_t n, struct sums *in)
{
	struct shelf *shelf = &depot->shelves[n];

	ASSERT(bin_empty(bin));
	depot_enter(depot, user);
	if (shelf->full == NULL) {
		lock_leave(&depot->lock);
		return DEPOT_NONE;
	}
	struct magazine *full = remove_full(depot, n);
	*in = sums_least(full->in, depot->in);
	depot->in = sums_minus(depot->in, *in);
	struct magazine *empty = bin_change(bin, full);
	if (empty != NULL) {
		empty->next = shelf->empty;
		shelf->empty = empty;
	}
	bool shared = depot->shared;
	lock_leave(&depot->lock);
	/* Fetch the blocks' cache lines from the other processor all at
	 * once. */
	for (unsigned i = 0; i < full->count; i++)
		os_fetch_for_write(full->blocks[i]);
	return shared ? DEPOT_SHARED : DEPOT_OWN;
}

bool
depot_put(
    struct depot *depot, const struct cache *user, struct bin *bin, size_t max)
{
	struct magazine *full = bin_first(bin);
	struct shelf *shelf = &depot->shelves[full->n];
	size_t bytes = magazine_max(full->n) * class_bytes(full->n);
	bool put = false;

	ASSERT(bin_full(bin));
	depot_enter(depot, user);
	struct magazine *empty = shelf->empty;
	if (depot->bytes + bytes > max || shelf->count == TCACHE_DEPOT)
		goto leave;
	if (empty != NULL)
		shelf->empty = empty->next;
	else
		empty = magazine_new(full->n);
	if (empty == NULL)
		goto leave;
	bin_change(bin, empty);
	full->next = shelf->full;
	shelf->full = full;
	shelf->count++;
	depot->bytes += bytes;
	depot->in = sums_plus(depot->in, full->in);
	put = true;
leave:
	lock_leave(&depot->lock);
	return put;
}

struct magazine *
depot_take_many(struct depot *depot, enum drain which, size_t *most)
{
	struct magazine *list = NULL;

	lock_enter(&depot->lock);
	for (size_t n = 1; n <= TCACHE_CLASSES && depot->bytes > 0; n++) {
		struct shelf *shelf = &depot->shelves[n];
		unsigned count =
		    which == DRAIN_ALL ? shelf->count : shelf->idle;
		while (count-- > 0 && *most > 0) {
			struct magazine *magazine = remove_full(depot, n);
			*most -= min_size(*most, magazine->count);
			magazine->next = list;
			list = magazine;
		}
		shelf->idle = shelf->count;
	}
	lock_leave(&depot->lock);
	return list;
}

bool
depot_is_own(struct depot *depot, const struct cache *user, bool look)
{
	lock_enter(&depot->lock);
	bool own = !depot->shared && depot->user == user;
	if (look)
		depot->shared = false;
	lock_leave(&depot->lock);
	return own;
}
