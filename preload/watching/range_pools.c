/*
 * The memory that a program asks for within ranges of NVTX, in pools by name.
 *
 * Option pool_ranges names ranges. While a thread is in a pushed range of such
 * a name, routes send its requests, also those to the driver, to a pool of the
 * name, one a device. The pools last as long as the process, so that a sleep
 * finds them by their name.
 *
 * A route is of a device that weir serves already when the range begins. A pool
 * of another device would make its context, which the program may never use.
 */
#include <stdlib.h>
#include <string.h>

#include <weir/graph.h>

#include "allocator/memory/arena.h"
#include "allocator/options.h"
#include "base/log.h"
#include "base/os.h"
#include "preload/lock.h"
#include "preload/preload.h"
#include "preload/tuning.h"

struct named_pool {
	struct named_pool *next;
	struct weir_pool *pool;
	int device;
	char name[WEIR_POOL_NAME_SIZE];
};

struct range_routes {
	unsigned count;
	struct weir_route *routes[PRELOAD_DEVICES];
};

static struct lock lock = LOCK_INITIALIZER(LOCK_RANK_HOOK);
static struct named_pool *named; /* under the lock; never freed */

/* Is the name in a list with semicolons? */
static bool
is_listed(const char *list, const char *name)
{
	size_t length = strlen(name);

	for (; *list != '\0'; list += *list == ';') {
		size_t next = strcspn(list, ";");

		if (next == length && memcmp(list, name, length) == 0)
			return true;
		list += next;
	}
	return false;
}

static struct named_pool *
find_pool(int device, const char *name)
{
	struct named_pool *at = named;

	while (
	    at != NULL && (at->device != device || strcmp(at->name, name) != 0))
		at = at->next;
	return at;
}

/* Make the pool of a name on a device; NULL, with a status, if that fails. */
static struct named_pool *
make_pool(int device, const char *name)
{
	struct named_pool *made = calloc(1, sizeof(*made));

	if (made == NULL ||
	    weir_pool_create(device, NULL, WEIR_POOL_SERVES_DRIVER,
		&made->pool) != WEIR_OK) {
		free(made);
		return NULL;
	}
	if (weir_pool_name_set(made->pool, name) != WEIR_OK) {
		weir_pool_release(made->pool);
		free(made);
		return NULL;
	}
	made->device = device;
	weir_pool_name(made->pool, made->name);
	made->next = named;
	named = made;
	return made;
}

static void
add_route(struct range_routes *routes, int device, const char *name)
{
	struct named_pool *pool = find_pool(device, name);

	if (pool == NULL)
		pool = make_pool(device, name);
	if (pool != NULL &&
	    weir_route_thread(pool->pool, &routes->routes[routes->count]) ==
		WEIR_OK)
		routes->count++;
	else
		log_write(LOG_WARN,
		    "memory of the range '%s' is in no pool of its name on "
		    "device %d: %s",
		    name, device, weir_last_error());
}

struct range_routes *
range_pools_enter(const char *name)
{
	const struct options *options;
	struct range_routes *routes;

	if (os_forked() || !gate_started() ||
	    options_get(&options) != WEIR_OK ||
	    !is_listed(options->pool_ranges, name))
		return NULL;
	routes = calloc(1, sizeof(*routes));
	if (routes == NULL)
		return NULL;
	gate_enter_weir();
	preload_lock(&lock);
	for (int device = 0; device < PRELOAD_DEVICES; device++)
		if (arena_peek(device) != NULL)
			add_route(routes, device, name);
	preload_unlock(&lock);
	gate_leave_weir();
	return routes;
}

void
range_pools_leave(struct range_routes *routes)
{
	if (routes == NULL)
		return;
	gate_enter_weir();
	while (routes->count > 0)
		weir_route_end(routes->routes[--routes->count]);
	gate_leave_weir();
	free(routes);
}
