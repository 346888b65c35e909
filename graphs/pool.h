/*
 * Pools: named holds on arenas.
 */
#ifndef GRAPHS_POOL_H
#define GRAPHS_POOL_H

#include <weir/graph.h>

#include "allocator/memory/types.h"
#include "base/list.h"

struct weir_pool {
	/* Constant. */
	uint64_t id;
	struct arena *arena; /* while it is held, and has `generation` */
	uint64_t generation;
	struct weir_pool_source source; /* where there is one */

	/* Under the registry's lock. */
	unsigned refs;
	bool kept; /* by WEIR_POOL_KEEP: a keep on its arena */
	struct list link;
};

/* A pool of an arena that was made for it; takes over one hold on it, on
 * success only. WEIR_EHOSTMEM. */
enum weir_status pool_adopt(struct arena *arena, struct weir_pool **out);

/* Nothing that is made on the way of what follows may fail. */
void pool_hold(struct weir_pool *pool);

/* ---- registrable.c ----------------------------------------------------- */

/* Where a pool of WEIR_POOL_REGISTRABLE has its segments from. */
extern const struct source source_registrable;

/* Can there be such a pool on a device? WEIR_ENOTSUP. */
enum weir_status registrable_check(int device);

#endif
