/*
 * <weir/graph.h>: routes that a program sets. Each holds its pool.
 */
#include "allocator/private/route.h"
#include "base/meta.h"
#include "base/os.h"
#include "base/status.h"
#include "graphs/pool.h"

struct weir_route {
	struct route *route;
	struct weir_pool *pool;
};

static enum weir_status
begin_route(
    struct weir_pool *pool, struct route_match *match, struct weir_route **out)
{
	struct weir_route *route = meta_zalloc(sizeof(*route));
	if (route == NULL)
		return status_set(WEIR_EHOSTMEM, "no host memory for a route");
	match->serves_driver = pool->serves_driver;
	enum weir_status status =
	    route_begin(pool->arena, match, &route->route);
	if (status != WEIR_OK) {
		meta_free(route, sizeof(*route));
		return status;
	}
	pool_hold(pool);
	route->pool = pool;
	*out = route;
	return WEIR_OK;
}

static enum weir_status
check_route(const struct weir_pool *pool, const void *out, const char *call)
{
	if (pool == NULL || out == NULL)
		return status_set(
		    WEIR_EINVAL, "%s: the pool or out is NULL", call);
	return WEIR_OK;
}

enum weir_status
weir_route_thread(struct weir_pool *pool, struct weir_route **out)
{
	if (os_forked())
		return status_forked("weir_route_thread");
	struct route_match match = { .kind = ROUTE_THREAD };
	enum weir_status status = check_route(pool, out, "weir_route_thread");

	return status == WEIR_OK ? begin_route(pool, &match, out) : status;
}

enum weir_status
weir_route_stream(
    struct weir_pool *pool, weir_stream stream, struct weir_route **out)
{
	if (os_forked())
		return status_forked("weir_route_stream");
	struct route_match match = { .kind = ROUTE_STREAM };
	enum weir_status status = check_route(pool, out, "weir_route_stream");
	if (status == WEIR_OK)
		status =
		    stream_find(pool->arena->device, stream, &match.stream);
	if (status != WEIR_OK)
		return status;
	status = begin_route(pool, &match, out);
	stream_put(match.stream);
	return status;
}

enum weir_status
weir_route_filter(struct weir_pool *pool,
    bool (*filter)(weir_stream stream, void *closure), void *closure,
    struct weir_route **out)
{
	if (os_forked())
		return status_forked("weir_route_filter");
	struct route_match match = {
		.kind = ROUTE_FILTER, .filter = filter, .closure = closure
	};
	enum weir_status status = check_route(pool, out, "weir_route_filter");

	if (status == WEIR_OK && filter == NULL)
		status = status_set(
		    WEIR_EINVAL, "weir_route_filter: the filter is NULL");
	return status == WEIR_OK ? begin_route(pool, &match, out) : status;
}

void
weir_route_end(struct weir_route *route)
{
	if (route == NULL || os_forked())
		return;
	route_end(route->route);
	weir_pool_release(route->pool);
	meta_free(route, sizeof(*route));
}
