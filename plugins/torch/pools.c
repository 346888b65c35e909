/*
 * Private pools by PyTorch's names: a list of the pools in use, and of unused
 * pools that still have memory.
 *
 * weir is called with the list's lock held if it makes no callback. Pools are
 * released without the lock, because that may call a source of PyTorch's user.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/ctl.h>
#include <weir/stream.h>

#include "plugins/torch/conf.h"
#include "plugins/torch/filter.h"
#include "plugins/torch/forks.h"
#include "plugins/torch/names.h"
#include "plugins/torch/weir_torch.h"

struct entry {
	int device;
	struct weir_torch_id id;
	struct weir_pool *pool; /* held while uses > 0, else NULL */
	uint64_t number;        /* number of weir's pool */
	uint64_t segment_id[2];
	int uses;
	struct weir_route *route; /* NULL: no request is routed to it */
	struct filter_slot *slot;
	struct weir_torch_source *source; /* NULL: the driver */
	struct entry *next;
};

struct weir_torch_checkpoint {
	int device;
	struct weir_torch_id id;
	struct weir_checkpoint *checkpoint;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries; /* guarded by the lock */

static bool
is_none(struct weir_torch_id id)
{
	return id.graph == 0 && id.user == 0;
}

static bool
is_same_id(struct weir_torch_id a, struct weir_torch_id b)
{
	return a.graph == b.graph && a.user == b.user;
}

/* ---- Sources ----------------------------------------------------------- */

static void *
torch_source_alloc(void *closure, int device, size_t size)
{
	const struct weir_torch_source *source = closure;

	(void)device;
	return source->take(source->closure, size);
}

static bool
torch_source_free(void *closure, int device, void *ptr, size_t size)
{
	const struct weir_torch_source *source = closure;

	(void)device;
	(void)size;
	source->give(source->closure, ptr);
	return true;
}

static void
source_drop(struct weir_torch_source *source)
{
	if (source != NULL && source->drop != NULL)
		source->drop(source->closure);
	free(source);
}

/* ---- The list ---------------------------------------------------------- */

static struct entry *
entry_find(int device, struct weir_torch_id id)
{
	for (struct entry *e = entries; e != NULL; e = e->next)
		if (e->device == device && is_same_id(e->id, id))
			return e;
	return NULL;
}

/* Does the entry have no user and no memory any more? */
static bool
entry_is_over(const struct entry *entry)
{
	struct weir_pool *pool;

	if (entry->uses > 0 || entry->route != NULL)
		return false;
	if (weir_pool_find(entry->number, &pool) != WEIR_OK)
		return true;
	weir_pool_release(pool);
	return false;
}

/* Move an entry from its place in a list to another list. */
static void
entry_move(struct entry **at, struct entry **list)
{
	struct entry *entry = *at;

	*at = entry->next;
	entry->next = *list;
	*list = entry;
}

/* Remove entries that are over from the list. Pass them to drop_entries()
 * without the lock. */
static struct entry *
take_entries_over(void)
{
	struct entry *over = NULL;

	for (struct entry **at = &entries; *at != NULL;)
		if (entry_is_over(*at))
			entry_move(at, &over);
		else
			at = &(*at)->next;
	return over;
}

static void
remove_entry(const struct entry *entry, struct entry **over)
{
	struct entry **at = &entries;

	while (*at != entry)
		at = &(*at)->next;
	entry_move(at, over);
}

static void
drop_entries(struct entry *entry)
{
	while (entry != NULL) {
		struct entry *next = entry->next;
		names_remove(entry->device, entry->segment_id);
		source_drop(entry->source);
		free(entry);
		entry = next;
	}
}

/* Does the memory of a private pool come from handles? PyTorch takes segments
 * of the driver for it, unless the user asks for expandable ones. Those of the
 * driver cannot leave the device when the program sleeps. */
static bool
pools_have_handles(void)
{
	struct weir_ctl may_sleep = { .struct_size = sizeof(may_sleep) };

	return conf_asks_expandable() ||
	    (weir_ctl_get("option.may_sleep", &may_sleep) == WEIR_OK &&
		may_sleep.number != 0);
}

static enum weir_status
entry_make(int device, struct weir_torch_id id,
    const struct weir_torch_source *source, struct entry **out)
{
	unsigned flags =
	    WEIR_POOL_KEEP | (pools_have_handles() ? 0 : WEIR_POOL_SEGMENTS);
	struct weir_pool_source given = { .struct_size = sizeof(given),
		.name = "a pool's own allocator",
		.take = torch_source_alloc,
		.give = torch_source_free };
	struct entry *entry = calloc(1, sizeof(*entry));
	enum weir_status status = WEIR_EHOSTMEM;

	if (entry == NULL)
		return status;
	if (source != NULL && source->take != NULL) {
		entry->source = malloc(sizeof(*source));
		if (entry->source == NULL)
			goto drop_entry;
		*entry->source = *source;
		given.closure = entry->source;
	}
	status = weir_pool_create(
	    device, entry->source != NULL ? &given : NULL, flags, &entry->pool);
	if (status != WEIR_OK)
		goto drop_source;
	entry->device = device;
	entry->id = id;
	entry->number = weir_pool_id(entry->pool);
	weir_pool_segment_id(entry->pool, entry->segment_id);
	status = names_add(device, entry->segment_id, id);
	if (status != WEIR_OK)
		goto drop_pool;
	entry->next = entries;
	entries = entry;
	*out = entry;
	return WEIR_OK;

drop_pool:
	weir_pool_release(entry->pool);
drop_source:
	free(entry->source);
drop_entry:
	free(entry);
	return status;
}

/* Hold the pool of an unused entry again. False: it has no memory any more. */
static bool
entry_revive(struct entry *entry)
{
	if (weir_pool_find(entry->number, &entry->pool) != WEIR_OK)
		return false;
	(void)weir_pool_flags_set(entry->pool, WEIR_POOL_KEEP, WEIR_POOL_KEEP);
	return true;
}

/* Find or make the entry, and count one more use. The caller holds the lock,
 * and drops entries that have ended. */
static enum weir_status
entry_hold(int device, struct weir_torch_id id,
    const struct weir_torch_source *source, struct entry **out,
    struct entry **over)
{
	bool has_source = source != NULL && source->take != NULL;
	struct entry *entry = entry_find(device, id);

	*over = NULL;
	if (entry == NULL || entry->uses == 0) {
		*over = take_entries_over();
		entry = entry_find(device, id);
	}
	if (is_none(id) || (entry != NULL && has_source))
		return WEIR_EINVAL;
	/* The pool may have ended just now: the last user decreases the count
	 * under the lock, and releases the pool without it. */
	if (entry != NULL && entry->uses == 0 && !entry_revive(entry)) {
		remove_entry(entry, over);
		entry = NULL;
	}
	enum weir_status status =
	    entry == NULL ? entry_make(device, id, source, &entry) : WEIR_OK;
	if (status != WEIR_OK)
		return status;
	entry->uses++;
	*out = entry;
	return WEIR_OK;
}

/* ---- Use counts -------------------------------------------------------- */

enum weir_status
weir_torch_pool_hold(
    int device, struct weir_torch_id id, const struct weir_torch_source *source)
{
	if (forks_refused())
		return WEIR_EFORK;
	struct entry *entry;
	struct entry *over;

	pthread_mutex_lock(&lock);
	enum weir_status status = entry_hold(device, id, source, &entry, &over);
	pthread_mutex_unlock(&lock);
	drop_entries(over);
	return status;
}

enum weir_status
weir_torch_pool_release(int device, struct weir_torch_id id)
{
	if (forks_refused())
		return WEIR_OK;
	struct weir_pool *pool = NULL;

	pthread_mutex_lock(&lock);
	struct entry *entry = entry_find(device, id);
	bool used = entry != NULL && entry->uses > 0;
	if (used && --entry->uses == 0) {
		pool = entry->pool;
		entry->pool = NULL;
	}
	pthread_mutex_unlock(&lock);
	if (!used)
		return WEIR_EINVAL;
	weir_pool_release(pool);
	return WEIR_OK;
}

int
weir_torch_pool_uses(int device, struct weir_torch_id id)
{
	if (forks_refused())
		return 0;
	pthread_mutex_lock(&lock);
	const struct entry *entry = entry_find(device, id);
	int uses = entry != NULL ? entry->uses : 0;
	pthread_mutex_unlock(&lock);
	return uses;
}

/* Put another entry of this id before this one, which has no user and no memory
 * and is dropped like any such entry. The caller holds the lock. */
static enum weir_status
entry_replace(struct entry *entry, const struct weir_torch_source *source,
    struct weir_pool **before)
{
	struct entry *made;
	bool is_empty = false;

	enum weir_status status =
	    weir_pool_check_live(entry->pool, NULL, 0, &is_empty);
	if (status == WEIR_OK && !is_empty)
		status = WEIR_EINVAL;
	if (status == WEIR_OK)
		status = entry_make(entry->device, entry->id, source, &made);
	if (status != WEIR_OK)
		return status;
	made->uses = entry->uses;
	entry->uses = 0;
	*before = entry->pool;
	entry->pool = NULL;
	return WEIR_OK;
}

enum weir_status
weir_torch_pool_source(
    int device, struct weir_torch_id id, const struct weir_torch_source *source)
{
	if (forks_refused())
		return WEIR_EFORK;
	struct weir_pool *before = NULL;
	enum weir_status status = WEIR_EINVAL;

	pthread_mutex_lock(&lock);
	struct entry *entry = entry_find(device, id);
	if (entry != NULL && entry->uses > 0 && entry->route == NULL &&
	    entry->source == NULL)
		status = entry_replace(entry, source, &before);
	pthread_mutex_unlock(&lock);
	if (before != NULL)
		weir_pool_release(before);
	return status;
}

/* ---- Routes ------------------------------------------------------------ */

int weir_torch_routes;

/* The caller holds the lock. */
static void
count_route(int more)
{
	__atomic_store_n(
	    &weir_torch_routes, weir_torch_routes + more, __ATOMIC_RELAXED);
}

void *
weir_torch_malloc(int device, size_t size, weir_stream stream)
{
	void *ptr;

	filter_request_begin();
	ptr = weir_malloc_primary(device, size, stream);
	filter_request_end();
	return ptr;
}

/* The caller holds the lock. */
static enum weir_status
entry_route(struct entry *entry, struct filter_slot *slot)
{
	enum weir_status status =
	    weir_route_filter(entry->pool, filter_ask, slot, &entry->route);

	if (status == WEIR_OK) {
		entry->slot = slot;
		count_route(1);
	}
	return status;
}

enum weir_status
weir_torch_pool_begin(
    int device, struct weir_torch_id id, const struct weir_torch_filter *filter)
{
	if (forks_refused())
		return WEIR_EFORK;
	struct entry *entry = NULL;
	struct entry *over = NULL;
	enum weir_status status = WEIR_EHOSTMEM;

	struct filter_slot *slot = filter_open(filter);
	if (slot == NULL)
		return status;
	pthread_mutex_lock(&lock);
	entry = entry_find(device, id);
	if (entry != NULL && entry->route != NULL)
		status = WEIR_EINVAL;
	else
		status = entry_hold(device, id, NULL, &entry, &over);
	bool held = status == WEIR_OK;
	if (held)
		status = entry_route(entry, slot);
	pthread_mutex_unlock(&lock);
	drop_entries(over);
	if (status != WEIR_OK) {
		if (held)
			(void)weir_torch_pool_release(device, id);
		filter_disown(slot);
		filter_close(slot);
	}
	return status;
}

enum weir_status
weir_torch_pool_end(int device, struct weir_torch_id id)
{
	if (forks_refused())
		return WEIR_OK;
	struct weir_route *route = NULL;
	struct filter_slot *slot = NULL;

	pthread_mutex_lock(&lock);
	struct entry *entry = entry_find(device, id);
	if (entry != NULL) {
		route = entry->route;
		slot = entry->slot;
		entry->route = NULL;
		entry->slot = NULL;
	}
	if (route != NULL)
		count_route(-1);
	pthread_mutex_unlock(&lock);
	if (route == NULL)
		return WEIR_EINVAL;
	weir_route_end(route);
	filter_close(slot);
	return WEIR_OK;
}

/* ---- What there is to ask ---------------------------------------------- */

/* The pool with an id, held for the caller; NULL: there is none, or it is not
 * used. */
static struct weir_pool *
pool_get(int device, struct weir_torch_id id)
{
	struct weir_pool *pool = NULL;

	pthread_mutex_lock(&lock);
	const struct entry *entry = entry_find(device, id);
	if (entry != NULL && entry->uses > 0 &&
	    weir_pool_acquire(entry->pool) == WEIR_OK)
		pool = entry->pool;
	pthread_mutex_unlock(&lock);
	return pool;
}

enum weir_status
weir_torch_pool_flag(
    int device, struct weir_torch_id id, unsigned flag, bool on)
{
	if (forks_refused())
		return WEIR_EFORK;
	struct weir_pool *pool = pool_get(device, id);
	if (pool == NULL)
		return WEIR_EINVAL;
	enum weir_status status =
	    weir_pool_flags_set(pool, flag, on ? flag : 0);
	weir_pool_release(pool);
	return status;
}

enum weir_status
weir_torch_pool_check_live(int device, struct weir_torch_id id,
    const void *const *ptrs, size_t n, bool *equal)
{
	if (forks_refused())
		return WEIR_EFORK;
	struct weir_pool *pool = pool_get(device, id);
	if (pool == NULL)
		return WEIR_EINVAL;
	enum weir_status status = weir_pool_check_live(pool, ptrs, n, equal);
	weir_pool_release(pool);
	return status;
}

/* Give back the memory of unused pools with this id. */
static void
trim_unused(struct weir_torch_id id)
{
	struct weir_pool *pool;

	pthread_mutex_lock(&lock);
	for (const struct entry *e = entries; e != NULL; e = e->next) {
		if (e->uses > 0 || !is_same_id(e->id, id) ||
		    e->source != NULL ||
		    weir_pool_find(e->number, &pool) != WEIR_OK)
			continue;
		(void)weir_pool_trim(pool, 0, NULL);
		weir_pool_release(pool);
	}
	struct entry *over = take_entries_over();
	pthread_mutex_unlock(&lock);
	drop_entries(over);
}

enum weir_status
weir_torch_empty(struct weir_torch_id id)
{
	if (forks_refused())
		return WEIR_EFORK;
	enum weir_status status = WEIR_OK;

	if (is_none(id))
		status = weir_trim(WEIR_DEVICE_ALL, 0, NULL);
	trim_unused(id);
	return status;
}

/* ---- Checkpoints ------------------------------------------------------- */

/* Freed blocks may wait for other streams. Then wait for the device, and
 * release the memory that is complete. */
static enum weir_status
settle(int device, struct weir_pool *pool)
{
	enum weir_status status = weir_device_synchronize(device);

	if (status == WEIR_OK)
		status = weir_pool_trim(pool, 0, NULL);
	return status;
}

enum weir_status
weir_torch_checkpoint_take(
    int device, struct weir_torch_id id, struct weir_torch_checkpoint **out)
{
	if (forks_refused())
		return WEIR_EFORK;
	struct weir_pool *pool = pool_get(device, id);
	if (pool == NULL)
		return WEIR_EINVAL;
	struct weir_torch_checkpoint *made = malloc(sizeof(*made));
	enum weir_status status = WEIR_EHOSTMEM;
	if (made == NULL)
		goto release;
	*made = (struct weir_torch_checkpoint){ .device = device, .id = id };
	status = weir_checkpoint_take(pool, &made->checkpoint);
	if (status == WEIR_ENOTREADY && settle(device, pool) == WEIR_OK)
		status = weir_checkpoint_take(pool, &made->checkpoint);
	if (status == WEIR_OK)
		*out = made;
	else
		free(made);

release:
	weir_pool_release(pool);
	return status;
}

enum weir_status
weir_torch_checkpoint_restore(int device,
    const struct weir_torch_checkpoint *checkpoint, struct weir_restored *out)
{
	if (forks_refused())
		return WEIR_EFORK;
	if (checkpoint == NULL || checkpoint->device != device)
		return WEIR_EINVAL;
	struct weir_pool *pool = pool_get(device, checkpoint->id);
	if (pool == NULL)
		return WEIR_EINVAL;
	enum weir_status status =
	    weir_checkpoint_restore(pool, checkpoint->checkpoint, out);
	if (status == WEIR_ENOTREADY && settle(device, pool) == WEIR_OK)
		status =
		    weir_checkpoint_restore(pool, checkpoint->checkpoint, out);
	weir_pool_release(pool);
	return status;
}

void
weir_torch_checkpoint_drop(struct weir_torch_checkpoint *checkpoint)
{
	if (checkpoint == NULL)
		return;
	weir_checkpoint_drop(checkpoint->checkpoint);
	free(checkpoint);
}

/* ---- Segments ---------------------------------------------------------- */

/* List weir's pools with one id, on all devices. */
static size_t
list_wishes(struct weir_torch_id id, struct weir_snapshot *out, size_t room)
{
	size_t n = 0;

	pthread_mutex_lock(&lock);
	for (const struct entry *e = entries; e != NULL && n < room;
	     e = e->next)
		if (is_same_id(e->id, id))
			out[n++] =
			    (struct weir_snapshot){ .struct_size = sizeof(*out),
				    .device = e->device,
				    .of_pool = true,
				    .pool_id = {
					e->segment_id[0], e->segment_id[1] } };
	pthread_mutex_unlock(&lock);
	return n;
}

enum weir_status
weir_torch_visit(
    struct weir_torch_id id, weir_segment_visitor visitor, void *user)
{
	if (forks_refused())
		return WEIR_EFORK;
	enum { DEVICES = 64 };
	struct weir_snapshot wishes[DEVICES];
	enum weir_status status = WEIR_OK;

	if (is_none(id))
		return weir_segments_visit(NULL, visitor, user);
	size_t n = list_wishes(id, wishes, DEVICES);
	for (size_t i = 0; i < n && status == WEIR_OK; i++)
		status = weir_segments_visit(&wishes[i], visitor, user);
	return status;
}
